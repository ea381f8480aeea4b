-- What retention looks for. None of these costs a creation: no active reminder and no key of one
-- that is there is in them.

-- receipts, oldest first
CREATE INDEX dispatches_by_admission ON dispatches (admitted_at);
-- ended reminders, first ended first
CREATE INDEX reminders_by_end ON reminders (ended_at) WHERE status = 'ended';
-- keys that outlive their reminder
CREATE INDEX idempotency_keys_gone ON idempotency_keys (gone_at) WHERE gone_at IS NOT NULL;
