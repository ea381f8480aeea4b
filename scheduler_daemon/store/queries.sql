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
  created_at, snoozed_from, until_at, max_occurrences, expires_after_seconds)
VALUES (
  :owner_uid, :session_id, :kind, :delay_seconds, :interval_seconds, :anchor_at, :local_time,
  :weekdays, :cron_expression, :time_zone, :title, :prompt, :context, :scheduled_at, :after_at,
  :computed_at, :created_at, :snoozed_from, :until_at, :max_occurrences, :expires_after_seconds)

-- name: update_reminder
-- Everything that a caller may change, at once.
UPDATE reminders SET
  kind = :kind, delay_seconds = :delay_seconds, interval_seconds = :interval_seconds,
  anchor_at = :anchor_at, local_time = :local_time, weekdays = :weekdays,
  cron_expression = :cron_expression, time_zone = :time_zone, title = :title, prompt = :prompt,
  context = :context, scheduled_at = :scheduled_at, after_at = :after_at,
  computed_at = :computed_at, last_occurrence_at = :last_occurrence_at, generation = :generation,
  status = :status, ended_at = :ended_at, ended_reason = :ended_reason, revision = :revision,
  timing_revision = :timing_revision, words_revision = :words_revision, paused = :paused,
  until_at = :until_at, max_occurrences = :max_occurrences,
  expires_after_seconds = :expires_after_seconds, skips_after_at = :skips_after_at,
  skips_to_at = :skips_to_at
WHERE number = :number

-- name: delete_reminder
-- The row goes; its receipts stay.
DELETE FROM reminders
WHERE number = :number AND (:owner IS NULL OR owner_uid = :owner)
  AND (:session IS NULL OR session_id = :session)
RETURNING owner_uid, session_id

-- name: key_found
-- What an idempotency key made before.
SELECT request_hash, reminder_number, occurrence_id FROM idempotency_keys
WHERE owner_uid = :owner AND session_id = :session AND key = :key

-- name: key_of_request
-- What an idempotency key made of a reminder, wherever that is now.
SELECT request_hash, reminder_number, occurrence_id FROM idempotency_keys
WHERE asked_of = :asked_of AND key = :key AND request_hash = :request_hash
  AND (:owner IS NULL OR owner_uid = :owner)

-- name: insert_key
-- An idempotency key with the hash of its request.
INSERT INTO idempotency_keys (
  owner_uid, session_id, key, request_hash, reminder_number, created_at, asked_of, occurrence_id)
VALUES (:owner, :session, :key, :request_hash, :number, :now, :asked_of, :occurrence_id)

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
UPDATE reminders SET scheduled_at = :next_at, after_at = :next_after, computed_at = :decided_at,
  skips_after_at = iif(skips_to_at > :next_at, skips_after_at, NULL),
  skips_to_at = iif(skips_to_at > :next_at, skips_to_at, NULL)
WHERE number = :number AND status = 'active' AND timing_revision = :timing_revision
  AND scheduled_at = :target AND until_at IS :until_at AND skips_to_at IS :skips_to_at

-- name: end_reminder
-- The last occurrence was dispatched or passed, under the same conditions.
UPDATE reminders SET status = 'ended', ended_at = :ended_at, ended_reason = :reason, paused = 0,
  skips_after_at = NULL, skips_to_at = NULL
WHERE number = :number AND status = 'active' AND timing_revision = :timing_revision
  AND scheduled_at = :target AND until_at IS :until_at AND skips_to_at IS :skips_to_at

-- name: end_by_count
-- As many occurrences were admitted as were wanted; its target stays the last that came.
UPDATE reminders SET status = 'ended', ended_at = :ended_at, ended_reason = 'count', paused = 0,
  scheduled_at = min(scheduled_at, :target),
  skips_after_at = NULL, skips_to_at = NULL
WHERE number = :number AND status = 'active'

-- name: note_occurrence
-- The newest occurrence dispatched, and one :more; a target at or before it gets a new generation.
-- Gives whether that was the last one wanted, and the Session as it is now.
UPDATE reminders SET
  dispatch_count = dispatch_count + :more,
  last_occurrence_at = max(coalesce(last_occurrence_at, ''), :occurrence_at),
  generation = generation + (status = 'active' AND scheduled_at <= :occurrence_at
    AND coalesce(last_occurrence_at, '') < :occurrence_at)
WHERE number = :number
RETURNING status = 'active' AND dispatch_count >= max_occurrences, session_id

-- name: still_due
-- Whether a record is as it was planned.
SELECT 1 FROM reminders
WHERE number = :number AND status = 'active' AND paused = 0
  AND timing_revision = :timing_revision AND scheduled_at = :target AND until_at IS :until_at
  AND skips_to_at IS :skips_to_at

-- name: insert_run
-- One occurrence beside the rule, due at once.
INSERT INTO runs (occurrence_id, reminder_number, owner_uid, session_id, due_at)
VALUES (:occurrence_id, :number, :owner, :session, :due_at)

-- name: drop_run
-- It was admitted.
DELETE FROM runs WHERE occurrence_id = :occurrence_id

-- name: run_id_taken
-- Whether an occurrence by hand has this identity already.
SELECT 1 FROM runs WHERE occurrence_id = :occurrence_id
UNION ALL SELECT 1 FROM dispatches WHERE occurrence_id = :occurrence_id

-- name: runs_of_session
-- How many occurrences by hand wait in a Session; grows with those, which a limit bounds.
SELECT count(*) FROM runs WHERE owner_uid = :owner AND session_id = :session

-- name: runs_of_owner
-- How many occurrences by hand of an owner wait; grows with those, for status only.
SELECT count(*) FROM runs WHERE owner_uid = :owner

-- name: runs_of_reminder
-- How many occurrences by hand of a reminder wait; grows with those.
SELECT count(*) FROM runs WHERE reminder_number = :number

-- name: due_runs
-- Occurrences by hand of a Session, in the order they were asked for.
SELECT e.occurrence_id, e.due_at, {reminder_r} FROM runs AS e
CROSS JOIN reminders AS r ON r.number = e.reminder_number AND r.status <> 'set_aside'
  AND r.owner_uid = e.owner_uid AND r.session_id = e.session_id
WHERE e.owner_uid = :owner AND e.session_id = :session AND e.due_at <= :now
ORDER BY e.due_at, e.number LIMIT :count

-- name: runs_ahead
-- A run is due at once, also under a clock that was set back since.
UPDATE runs SET due_at = :now WHERE due_at > :now
RETURNING owner_uid, session_id

-- name: forget_reminders
-- Every reminder of a Session; grows with those.
DELETE FROM reminders WHERE owner_uid = :owner AND session_id = :session
RETURNING id

-- name: forget_words
-- Former words of a Session's reminders and of deleted ones; grows with its receipts.
DELETE FROM past_words WHERE reminder_number IN (
  SELECT reminder_number FROM dispatches WHERE owner_uid = :owner AND session_id = :session)
  AND NOT EXISTS (SELECT 1 FROM dispatches AS d
    WHERE d.reminder_number = past_words.reminder_number AND d.session_id <> :session)

-- name: forget_dispatches
-- Every receipt of a Session; grows with those.
DELETE FROM dispatches WHERE owner_uid = :owner AND session_id = :session

-- name: keys_gone
-- The reminders of a Session are about to go: their keys outlive them; grows with those.
UPDATE idempotency_keys SET gone_at = :now WHERE reminder_number IN (
  SELECT number FROM reminders WHERE owner_uid = :owner AND session_id = :session)

-- name: transfer
-- Active reminders go to another Session; grows with those.
UPDATE reminders SET session_id = :to_session
WHERE owner_uid = :owner AND session_id = :session AND status = 'active'
RETURNING id

-- name: beyond_end
-- Active reminders whose target lies after their end.
SELECT {reminder} FROM reminders
WHERE status = 'active' AND scheduled_at > until_at ORDER BY number LIMIT :count

-- name: sessions_page
-- Sessions of an owner after a name (and owner, where several have the same).
SELECT owner_uid, session_id, active, paused, ended, set_aside, next_target_at FROM sessions
WHERE owner_uid = :owner AND session_id >= :after_session
  AND (session_id > :after_session OR owner_uid > :after_owner)
ORDER BY session_id LIMIT :count

-- name: decided_at
-- Under which clock an occurrence was dispatched last.
SELECT decided_at FROM dispatches
WHERE reminder_number = :number AND occurrence_at = :occurrence_at
ORDER BY number DESC LIMIT 1

-- name: dispatched_by
-- Whether an occurrence, or one after it, was dispatched under a clock that showed :now at most.
SELECT 1 FROM dispatches
WHERE reminder_number = :number AND occurrence_at >= :occurrence_at AND decided_at <= :now
LIMIT 1

-- name: set_aside
-- A row that does not decode leaves what is due, with its reason; one that left is not changed.
UPDATE reminders SET status = 'set_aside', set_aside_reason = :reason,
  former_status = iif(status IN ('active', 'ended'), status,
    iif(ended_at IS NULL, 'active', 'ended'))
WHERE number = :number AND status <> 'set_aside'
RETURNING owner_uid, session_id

-- name: retarget
-- A target computed anew, unless it moved or its timing changed meanwhile.
-- Skips are of the time that it was counted from.
UPDATE reminders SET scheduled_at = :target, after_at = :after_at, computed_at = :computed_at,
  skips_after_at = iif(after_at = :after_at AND computed_at = :computed_at, skips_after_at, NULL),
  skips_to_at = iif(after_at = :after_at AND computed_at = :computed_at, skips_to_at, NULL),
  generation = generation + (last_occurrence_at IS NOT NULL AND :target <= last_occurrence_at)
WHERE number = :number AND timing_revision = :timing_revision AND status = 'active'
  AND scheduled_at = :former

-- name: computed_ahead
-- Active reminders whose target was computed under a clock that ran ahead of :limit_at.
SELECT {reminder} FROM reminders
WHERE status = 'active' AND kind <> 'at' AND computed_at > :limit_at
ORDER BY computed_at LIMIT :count

-- name: corrected_until
-- Active reminders corrected for a clock that has come near what they were counted from before.
SELECT {reminder} FROM reminders
WHERE status = 'active' AND kind <> 'at' AND computed_at < after_at
  AND (kind = 'after' OR scheduled_at <= after_at) AND after_at <= :limit_at
ORDER BY after_at LIMIT :count

-- name: remember_correction
-- What a target was counted from before it was corrected another time.
INSERT OR IGNORE INTO corrections (reminder_number, from_at) VALUES (:number, :from_at)

-- name: corrections
-- What a target was counted from before, the earliest first.
SELECT from_at FROM corrections WHERE reminder_number = :number ORDER BY from_at

-- name: drop_corrections
-- What a target goes back to, and what lies before that.
DELETE FROM corrections WHERE reminder_number = :number AND from_at <= :limit_at

-- name: keep_corrected
-- A correction that is not undone any more.
UPDATE reminders SET after_at = computed_at
WHERE number IN (SELECT number FROM reminders
  WHERE status = 'active' AND kind <> 'at' AND computed_at < after_at
    AND (kind = 'after' OR scheduled_at <= after_at) AND after_at <= :limit_at
  ORDER BY after_at LIMIT :count)
RETURNING number

-- name: slice_by_number
-- The next reminders by number, but for what is set aside.
SELECT {reminder} FROM reminders
WHERE number > :number AND status <> 'set_aside' ORDER BY number LIMIT :count

-- name: old_receipts
-- Receipts of before an instant, oldest first, and which must stay.
-- Of a reminder that has not ended: the newest, and the one that says under which clock it came.
SELECT d.admitted_at, d.number, d.reminder_number, r.status IS NOT NULL AND r.status <> 'ended'
  AND (d.occurrence_at IS r.last_occurrence_at OR NOT EXISTS (SELECT 1 FROM dispatches AS n
    WHERE n.reminder_number = d.reminder_number AND n.number > d.number))
FROM dispatches AS d INDEXED BY dispatches_by_admission
LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.admitted_at = :after_at AND d.number > :after_number AND :after_at < :history_limit
UNION ALL
SELECT d.admitted_at, d.number, d.reminder_number, r.status IS NOT NULL AND r.status <> 'ended'
  AND (d.occurrence_at IS r.last_occurrence_at OR NOT EXISTS (SELECT 1 FROM dispatches AS n
    WHERE n.reminder_number = d.reminder_number AND n.number > d.number))
FROM dispatches AS d INDEXED BY dispatches_by_admission
LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.admitted_at > :after_at AND d.admitted_at < :history_limit
ORDER BY d.admitted_at, d.number LIMIT :count

-- name: receipts_after
-- The reminders of the receipts after one, in the order written.
SELECT number, reminder_number FROM dispatches
WHERE number > :after_number ORDER BY number LIMIT :count

-- name: newest_receipt
-- The newest receipt of all.
SELECT number FROM dispatches WHERE number > 0 ORDER BY number DESC LIMIT 1

-- name: receipt_beyond
-- The newest receipt of a reminder that is beyond so many.
SELECT number FROM dispatches
WHERE reminder_number = :number ORDER BY number DESC LIMIT 1 OFFSET :keep

-- name: receipts_up_to
-- Receipts of a reminder up to one of them, but for that which says under which clock it came last.
SELECT d.number FROM dispatches AS d LEFT JOIN reminders AS r ON r.number = d.reminder_number
WHERE d.reminder_number = :number AND d.number <= :newest
  AND (r.status IS NULL OR r.status = 'ended' OR d.occurrence_at IS NOT r.last_occurrence_at)
ORDER BY d.number LIMIT :count

-- name: remove_receipt
-- A receipt goes.
DELETE FROM dispatches WHERE number = :number RETURNING reminder_number, words_revision

-- name: remove_unsent_words
-- Former words of a reminder, where none of its receipts refers to them.
DELETE FROM past_words WHERE reminder_number = :number AND words_revision = :words
  AND NOT EXISTS (SELECT 1 FROM dispatches
    WHERE reminder_number = :number AND words_revision = :words)

-- name: ended_before
-- Reminders that ended before an instant after a place, and whether a run of theirs still waits.
SELECT r.ended_at, r.number, r.number,
  EXISTS (SELECT 1 FROM runs AS e WHERE e.reminder_number = r.number)
FROM reminders AS r INDEXED BY reminders_by_end
WHERE r.status = 'ended' AND r.ended_at = :after_at AND r.number > :after_number
  AND :after_at < :ended_limit
UNION ALL
SELECT r.ended_at, r.number, r.number,
  EXISTS (SELECT 1 FROM runs AS e WHERE e.reminder_number = r.number)
FROM reminders AS r INDEXED BY reminders_by_end
WHERE r.status = 'ended' AND r.ended_at > :after_at AND r.ended_at < :ended_limit
ORDER BY r.ended_at, r.number LIMIT :count

-- name: keys_gone_before
-- Idempotency keys whose reminder is gone since before an instant.
SELECT owner_uid, session_id, key FROM idempotency_keys
WHERE gone_at < :ended_limit ORDER BY gone_at LIMIT :count

-- name: remove_key
-- An idempotency key goes: a request with it is a new one.
DELETE FROM idempotency_keys
WHERE owner_uid = :owner AND session_id = :session AND key = :key

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
  WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
    AND recurring = 0 AND scheduled_at > :now
  UNION ALL
  SELECT min(scheduled_at) FROM reminders
  WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
    AND recurring = 1 AND scheduled_at > :now
  UNION ALL
  SELECT min(due_at) FROM runs
  WHERE owner_uid = :owner AND session_id = :session AND due_at > :now)

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
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
  AND recurring = 0 AND scheduled_at <= :now
ORDER BY scheduled_at, number LIMIT :count

-- name: due_recurring
-- Overdue recurring reminders of a Session after a place in their order.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
  AND recurring = 1 AND scheduled_at = :after_target AND number > :after_number AND scheduled_at <= :now
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
  AND recurring = 1 AND scheduled_at > :after_target AND scheduled_at <= :now
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
-- A page of a Session's reminders of one status, by target; paused or not, recurring or not.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND paused = :paused
  AND recurring = :recurring AND scheduled_at = :after_target AND number > :after_number
UNION ALL
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = :status AND paused = :paused
  AND recurring = :recurring AND scheduled_at > :after_target
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
  AND (:owner IS NULL OR d.owner_uid = :owner)
  AND (:session IS NULL OR d.session_id = :session OR r.session_id = :session)
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
SELECT active, paused, ended, set_aside FROM owners WHERE owner_uid = :owner

-- name: overdue_of_owner
-- How many active reminders of an owner are overdue; grows with those, for status only.
SELECT count(*) FROM reminders
WHERE owner_uid = :owner AND status = 'active' AND scheduled_at <= :now AND paused = 0

-- name: overdue_of_session
-- How many active reminders of a Session are overdue; grows with those, for status only.
SELECT count(*) FROM reminders
WHERE owner_uid = :owner AND session_id = :session AND status = 'active' AND paused = 0
  AND recurring IN (0, 1) AND scheduled_at <= :now
