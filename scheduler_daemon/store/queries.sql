-- Every statement of the store by name, with a line of purpose each. {reminder} stands for the
-- columns of rows.REMINDER_COLUMNS, {dispatch} for those that rows.decode_dispatch takes.
-- A place in an order by target is asked for in two parts, since SQLite does not seek to a pair
-- that ends with the row's number. Each visits a number of rows that does not grow with the table (receipts of one reminder are
-- bounded by retention), but for those whose purpose says what they grow with.

-- name: reminder_by_number
-- One reminder, also one that is set aside; the owner NULL means any (an admin).
SELECT {reminder} FROM reminders
WHERE number = :number
  AND (:owner IS NULL OR owner_uid = :owner) AND (:session IS NULL OR session_id = :session)

-- name: insert_reminder
-- A new reminder; its number is the next that was never used.
INSERT INTO reminders (
  owner_uid, session_id, kind, delay_seconds, interval_seconds, anchor_at, local_time, weekdays,
  cron_expression, time_zone, title, prompt, context, scheduled_at, after_at, computed_at,
  created_at)
VALUES (
  :owner_uid, :session_id, :kind, :delay_seconds, :interval_seconds, :anchor_at, :local_time,
  :weekdays, :cron_expression, :time_zone, :title, :prompt, :context, :scheduled_at, :after_at,
  :computed_at, :created_at)

-- name: update_reminder
-- Everything that a caller may change, at once.
UPDATE reminders SET
  kind = :kind, delay_seconds = :delay_seconds, interval_seconds = :interval_seconds,
  anchor_at = :anchor_at, local_time = :local_time, weekdays = :weekdays,
  cron_expression = :cron_expression, time_zone = :time_zone, title = :title, prompt = :prompt,
  context = :context, scheduled_at = :scheduled_at, after_at = :after_at,
  computed_at = :computed_at, generation = :generation, revision = :revision,
  timing_revision = :timing_revision, words_revision = :words_revision
WHERE number = :number

-- name: delete_reminder
-- The row goes; its receipts stay.
DELETE FROM reminders
WHERE number = :number AND (:owner IS NULL OR owner_uid = :owner)
  AND (:session IS NULL OR session_id = :session)
RETURNING owner_uid, session_id

-- name: key_found
-- What an idempotency key made before.
SELECT request_hash, reminder_number FROM idempotency_keys
WHERE owner_uid = :owner AND session_id = :session AND key = :key

-- name: insert_key
-- An idempotency key with the hash of its request.
INSERT INTO idempotency_keys (owner_uid, session_id, key, request_hash, reminder_number, created_at)
VALUES (:owner, :session, :key, :request_hash, :number, :now)

-- name: key_gone
-- The reminder of a key was deleted now.
UPDATE idempotency_keys SET gone_at = :now WHERE reminder_number = :number

-- name: active_of_session
-- How many active reminders a Session has.
SELECT active FROM sessions WHERE owner_uid = :owner AND session_id = :session

-- name: active_of_owner
-- How many active reminders an owner has.
SELECT active FROM owners WHERE owner_uid = :owner

-- name: insert_dispatch
-- A receipt; one that exists counts as written.
INSERT INTO dispatches (
  occurrence_id, followup_id, reminder_number, owner_uid, session_id, occurrence_at, decided_at,
  admitted_at, host, message_id, outcome, words_revision)
VALUES (
  :occurrence_id, :followup_id, :number, :owner, :session, :occurrence_at, :decided_at,
  :admitted_at, :host, :message_id, :outcome, :words_revision)
ON CONFLICT (occurrence_id) DO NOTHING

-- name: keep_sent_words
-- The words of a receipt, when its reminder has others by now or is gone.
INSERT OR IGNORE INTO past_words (reminder_number, words_revision, title, prompt)
SELECT :number, :words_revision, :title, :prompt
WHERE NOT EXISTS (
  SELECT 1 FROM reminders WHERE number = :number AND words_revision = :words_revision)

-- name: advance_reminder
-- The target moves on, unless the timing changed since the plan or the target moved already.
UPDATE reminders SET scheduled_at = :next_at, after_at = :decided_at, computed_at = :decided_at
WHERE number = :number AND status = 'active' AND timing_revision = :timing_revision
  AND scheduled_at = :target

-- name: end_reminder
-- The last occurrence was dispatched, under the same conditions.
UPDATE reminders SET status = 'ended', ended_at = :ended_at, ended_reason = :reason
WHERE number = :number AND status = 'active' AND timing_revision = :timing_revision
  AND scheduled_at = :target

-- name: note_occurrence
-- The newest occurrence dispatched; a target at or before it gets a new generation.
UPDATE reminders SET
  last_occurrence_at = :occurrence_at,
  generation = generation + (status = 'active' AND scheduled_at <= :occurrence_at)
WHERE number = :number
  AND (last_occurrence_at IS NULL OR last_occurrence_at < :occurrence_at)

-- name: decided_at
-- Under which clock an occurrence was dispatched last.
SELECT decided_at FROM dispatches
WHERE reminder_number = :number AND occurrence_at = :occurrence_at
ORDER BY number DESC LIMIT 1

-- name: set_aside
-- A row that does not decode leaves what is due, with its reason; one that left is not changed.
UPDATE reminders SET status = 'set_aside', former_status = status, set_aside_reason = :reason
WHERE number = :number AND status <> 'set_aside'
RETURNING owner_uid, session_id

-- name: retarget
-- A target computed anew, unless it moved or its timing changed meanwhile.
UPDATE reminders SET scheduled_at = :target, after_at = :after_at, computed_at = :computed_at,
  generation = generation + (last_occurrence_at IS NOT NULL AND :target <= last_occurrence_at)
WHERE number = :number AND timing_revision = :timing_revision AND status = 'active'
  AND scheduled_at = :former

-- name: computed_ahead
-- Active reminders whose target was computed under a clock that ran ahead of :limit_at.
SELECT {reminder} FROM reminders
WHERE status = 'active' AND kind <> 'at' AND computed_at > :limit_at
ORDER BY computed_at LIMIT :count

-- name: slice_by_number
-- The next reminders by number, but for what is set aside.
SELECT {reminder} FROM reminders
WHERE number > :number AND status <> 'set_aside' ORDER BY number LIMIT :count

-- name: meta_value
-- A fact about the file itself.
SELECT value FROM meta WHERE name = :name

-- name: put_meta
-- Replace a fact about the file itself.
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_meta
-- Forget a fact about the file itself.
DELETE FROM meta WHERE name = :name

-- name: session_target
-- The earliest target of a Session's active reminders.
SELECT next_target_at FROM sessions WHERE owner_uid = :owner AND session_id = :session

-- name: next_target_of_session
-- The earliest target of a Session after an instant.
SELECT min(target) FROM (
  SELECT min(scheduled_at) AS target FROM reminders
  WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND recurring = 0
    AND scheduled_at > :now
  UNION ALL
  SELECT min(scheduled_at) FROM reminders
  WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND recurring = 1
    AND scheduled_at > :now)

-- name: sessions_due
-- Sessions of an owner with something due, after a place in the order of targets.
SELECT next_target_at, session_id FROM sessions
WHERE owner_uid = :owner AND next_target_at <= :now
  AND (next_target_at, session_id) > (:after_target, :after_session)
ORDER BY next_target_at, session_id LIMIT :count

-- name: next_target
-- The earliest target of an owner after an instant.
SELECT min(next_target_at) FROM sessions WHERE owner_uid = :owner AND next_target_at > :after

-- name: owners_active
-- Owners with anything to send; grows with the uids that ever made a reminder.
SELECT owner_uid FROM owners WHERE active > 0

-- name: due_one_shots
-- Due one-shots of a Session, by target and creation.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND recurring = 0
  AND scheduled_at <= :now
ORDER BY scheduled_at, number LIMIT :count

-- name: due_recurring
-- Overdue recurring reminders of a Session after a place in their order.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND recurring = 1
  AND scheduled_at = :after_target AND number > :after_number AND scheduled_at <= :now
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND recurring = 1
  AND scheduled_at > :after_target AND scheduled_at <= :now
ORDER BY scheduled_at, number LIMIT :count

-- name: list_owner_created
-- A page of an owner's reminders of one status, by creation.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND status = :status AND number > :after_number
ORDER BY number LIMIT :count

-- name: list_owner_target
-- A page of an owner's reminders of one status, by target.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND status = :status
  AND scheduled_at = :after_target AND number > :after_number
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND status = :status AND scheduled_at > :after_target
ORDER BY scheduled_at, number LIMIT :count

-- name: list_session_created
-- A page of a Session's reminders of one status, by creation.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND number > :after_number
ORDER BY number LIMIT :count

-- name: list_session_target
-- A page of a Session's reminders of one status, by target.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND recurring = 0
  AND scheduled_at = :after_target AND number > :after_number
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND recurring = 0
  AND scheduled_at > :after_target
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND recurring = 1
  AND scheduled_at = :after_target AND number > :after_number
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND recurring = 1
  AND scheduled_at > :after_target
ORDER BY scheduled_at, number LIMIT :count

-- name: all_owners
-- Everybody, for an admin's pages; grows with the uids that ever made a reminder.
SELECT owner_uid FROM owners

-- name: last_dispatch
-- The newest receipt of a reminder.
SELECT {dispatch} FROM dispatches AS d
LEFT JOIN past_words AS w
  ON w.reminder_number = d.reminder_number AND w.words_revision = d.words_revision
LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.reminder_number = :number ORDER BY d.number DESC LIMIT 1

-- name: history_of_reminder
-- A page of a reminder's receipts, newest first.
SELECT {dispatch} FROM dispatches AS d
LEFT JOIN past_words AS w
  ON w.reminder_number = d.reminder_number AND w.words_revision = d.words_revision
LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.reminder_number = :number AND d.number < :before
  AND (:owner IS NULL OR d.owner_uid = :owner) AND (:session IS NULL OR d.session_id = :session)
ORDER BY d.number DESC LIMIT :count

-- name: history_of_session
-- A page of a Session's receipts, newest first; those of deleted reminders too.
SELECT {dispatch} FROM dispatches AS d
LEFT JOIN past_words AS w
  ON w.reminder_number = d.reminder_number AND w.words_revision = d.words_revision
LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.owner_uid = :owner AND d.session_id = :session AND d.number < :before
ORDER BY d.number DESC LIMIT :count

-- name: counts_of_owner
-- How many reminders of an owner have which status.
SELECT active, ended, set_aside FROM owners WHERE owner_uid = :owner

-- name: overdue_of_owner
-- How many active reminders of an owner are overdue; grows with those, for status only.
SELECT count(*) FROM reminders
WHERE owner_uid = :owner AND status = 'active' AND scheduled_at <= :now

-- name: overdue_of_session
-- How many active reminders of a Session are overdue; grows with those, for status only.
SELECT count(*) FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active'
  AND recurring IN (0, 1) AND scheduled_at <= :now
