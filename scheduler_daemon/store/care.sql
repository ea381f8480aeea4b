-- Statements that put right what was edited by hand, and those of doctor, which visit everything.
-- A Session's name is given as bytes: one that is not UTF-8 can be given in no other way.

-- name: wrong_sessions
-- The next :count Sessions of an owner, each with whether the table of Sessions lacks it, has other
-- counts or another target of it, or whether it has a reminder that would never come due.
WITH counted AS (
  SELECT owner_uid, session_id,
    sum(status = 'active') AS active, sum(status = 'active' AND paused <> 0) AS paused,
    sum(status = 'ended') AS ended, sum(status = 'set_aside') AS set_aside,
    max(status NOT IN ('active', 'ended', 'set_aside') OR status = 'active'
      AND (paused NOT IN (0, 1)
        OR scheduled_at NOT BETWEEN '0001' AND '9999-12-31T23:59:59.999Z')) AS unreadable
  FROM reminders
  WHERE owner_uid = :owner AND session_id > CAST(:session AS TEXT)
  GROUP BY owner_uid, session_id ORDER BY owner_uid, session_id LIMIT :count)
SELECT c.session_id, c.unreadable
  OR (c.active, c.paused, c.ended, c.set_aside) IS NOT (s.active, s.paused, s.ended, s.set_aside)
  OR s.next_target_at IS NOT t.target
FROM counted AS c
LEFT JOIN sessions AS s USING (owner_uid, session_id)
LEFT JOIN session_targets AS t USING (owner_uid, session_id)
ORDER BY c.owner_uid, c.session_id

-- name: next_owner
-- The next owner of any reminder.
SELECT min(owner_uid) FROM reminders WHERE owner_uid > :owner

-- name: empty_sessions
-- Sessions of that table without any reminder.
SELECT owner_uid, session_id FROM sessions AS s
WHERE NOT EXISTS (SELECT 1 FROM reminders AS r
  WHERE r.owner_uid = s.owner_uid AND r.session_id = s.session_id)

-- name: wrong_owners
-- Owners whose counts are not the sums of their Sessions' counts, or that are missing.
SELECT owner_uid FROM (
  SELECT owner_uid, sum(active) AS active, sum(paused) AS paused, sum(ended) AS ended,
    sum(set_aside) AS set_aside
  FROM sessions GROUP BY owner_uid) AS c
LEFT JOIN owners AS o USING (owner_uid)
WHERE (c.active, c.paused, c.ended, c.set_aside) IS NOT (o.active, o.paused, o.ended, o.set_aside)
UNION ALL
SELECT owner_uid FROM owners AS o
WHERE active + paused + ended + set_aside > 0
  AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.owner_uid = o.owner_uid)

-- name: sessions_at
-- Sessions of an owner whose target is this text.
SELECT owner_uid, session_id FROM sessions
WHERE owner_uid = :owner AND next_target_at = CAST(:target AS TEXT)

-- name: forget_counts
-- A Session is counted anew from nothing.
DELETE FROM sessions WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)

-- name: count_session
-- The counts of a Session that has any reminder.
INSERT INTO sessions (owner_uid, session_id, active, paused, ended, set_aside)
SELECT owner_uid, session_id, sum(status = 'active'), sum(status = 'active' AND paused <> 0),
  sum(status = 'ended'), sum(status = 'set_aside')
FROM reminders WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)
GROUP BY owner_uid, session_id

-- name: target_session
-- The earliest target of a Session, from its reminders and runs.
UPDATE sessions SET next_target_at = (SELECT target FROM session_targets AS t
    WHERE t.owner_uid = sessions.owner_uid AND t.session_id = sessions.session_id)
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)

-- name: count_owner
-- The counts of an owner from those of its Sessions.
INSERT INTO owners (owner_uid, active, paused, ended, set_aside)
SELECT :owner, coalesce(sum(active), 0), coalesce(sum(paused), 0), coalesce(sum(ended), 0),
  coalesce(sum(set_aside), 0)
FROM sessions WHERE owner_uid = :owner
ON CONFLICT (owner_uid) DO UPDATE SET active = excluded.active, paused = excluded.paused,
  ended = excluded.ended, set_aside = excluded.set_aside

-- name: runs_in_session
-- Every occurrence by hand of a Session.
SELECT number, occurrence_id, reminder_number, due_at FROM runs
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)

-- name: put_run
-- An occurrence by hand with an identity and an instant that can be read.
UPDATE runs SET occurrence_id = :occurrence_id, due_at = :due_at WHERE number = :number

-- name: to_be_met
-- Every reminder of a Session that is active, or has a status that there is not.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)
  AND status NOT IN ('ended', 'set_aside')

-- name: force_aside
-- A row with values of types that its STRICT table would not take again: those are cast.
UPDATE reminders SET status = 'set_aside', set_aside_reason = :reason,
  former_status = iif(status IN ('active', 'ended'), status,
    iif(ended_at IS NULL, 'active', 'ended')),
  kind = CAST(kind AS TEXT), title = CAST(title AS TEXT), prompt = CAST(prompt AS TEXT),
  context = CAST(context AS TEXT), anchor_at = CAST(anchor_at AS TEXT),
  local_time = CAST(local_time AS TEXT), weekdays = CAST(weekdays AS TEXT),
  cron_expression = CAST(cron_expression AS TEXT), time_zone = CAST(time_zone AS TEXT),
  scheduled_at = CAST(scheduled_at AS TEXT), after_at = CAST(after_at AS TEXT),
  computed_at = CAST(computed_at AS TEXT), last_occurrence_at = CAST(last_occurrence_at AS TEXT),
  ended_at = CAST(ended_at AS TEXT), ended_reason = CAST(ended_reason AS TEXT),
  created_at = CAST(created_at AS TEXT), until_at = CAST(until_at AS TEXT),
  skips_after_at = CAST(skips_after_at AS TEXT), skips_to_at = CAST(skips_to_at AS TEXT),
  delay_seconds = CAST(delay_seconds AS INTEGER),
  interval_seconds = CAST(interval_seconds AS INTEGER), generation = CAST(generation AS INTEGER),
  revision = CAST(revision AS INTEGER), timing_revision = CAST(timing_revision AS INTEGER),
  words_revision = CAST(words_revision AS INTEGER), paused = CAST(paused AS INTEGER),
  snoozed_from = CAST(snoozed_from AS INTEGER),
  max_occurrences = CAST(max_occurrences AS INTEGER),
  dispatch_count = CAST(dispatch_count AS INTEGER),
  expires_after_seconds = CAST(expires_after_seconds AS INTEGER)
WHERE number = :number AND status <> 'set_aside'
RETURNING owner_uid, session_id

-- name: all_reminders
-- Every reminder.
SELECT {reminder} FROM reminders ORDER BY number

-- name: all_runs
-- Every occurrence by hand, with the Session that its reminder is in.
SELECT e.*, r.owner_uid AS of_owner, r.session_id AS in_session
FROM runs AS e LEFT JOIN reminders AS r ON r.number = e.reminder_number
ORDER BY e.number

-- name: all_receipts
-- Every receipt.
SELECT * FROM dispatches ORDER BY number

-- name: all_words
-- All former words, with whether a receipt refers to them.
SELECT w.*, EXISTS (SELECT 1 FROM dispatches AS d
  WHERE d.reminder_number = w.reminder_number AND d.words_revision = w.words_revision) AS is_used
FROM past_words AS w

-- name: all_keys
-- Every idempotency key, with when its reminder was made where that is there.
SELECT k.*, r.created_at AS made_at FROM idempotency_keys AS k
LEFT JOIN reminders AS r ON r.number = k.reminder_number

-- name: put_key
-- The instants of an idempotency key.
UPDATE idempotency_keys SET created_at = :created_at, gone_at = :gone_at
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT) AND key = CAST(:key AS TEXT)

-- name: last_numbers
-- The last number that was given out; a hand may have written anything, and several.
SELECT seq FROM sqlite_sequence WHERE name = 'reminders'

-- name: spoken_of
-- The highest number that anything speaks of; what no number of ours can be is passed over.
SELECT max(
  coalesce((SELECT max(number) FROM reminders WHERE number <= :largest), 0),
  coalesce((SELECT max(reminder_number) FROM dispatches WHERE reminder_number <= :largest), 0),
  coalesce((SELECT max(reminder_number) FROM idempotency_keys
    WHERE reminder_number <= :largest), 0),
  coalesce((SELECT max(reminder_number) FROM past_words WHERE reminder_number <= :largest), 0))

-- name: put_back
-- A row that can be read again is what it was.
UPDATE reminders SET status = :status, former_status = NULL, set_aside_reason = NULL
WHERE number = :number

-- name: newest_receipt_of
-- The newest occurrence of the rule that a receipt of a reminder says came.
SELECT max(occurrence_at) FROM dispatches
WHERE reminder_number = :number AND occurrence_id NOT LIKE '%@now-%'
  AND occurrence_at <= '9999-12-31T23:59:59.999Z'

-- name: put_last_occurrence
-- The newest occurrence that came, as its receipts say it.
UPDATE reminders SET last_occurrence_at = :at WHERE number = :number

-- name: put_target
-- A target that could not be read is what its rule says.
UPDATE reminders SET scheduled_at = :target WHERE number = :number

-- name: drop_orphan_runs
-- Occurrences by hand of reminders that are not there.
DELETE FROM runs WHERE NOT EXISTS (SELECT 1 FROM reminders WHERE number = reminder_number)

-- name: move_runs
-- Occurrences by hand go where their reminders are.
UPDATE runs SET (owner_uid, session_id) =
  (SELECT owner_uid, session_id FROM reminders WHERE number = reminder_number)
WHERE (owner_uid, session_id) IS NOT
  (SELECT owner_uid, session_id FROM reminders WHERE number = reminder_number)

-- name: drop_words
-- Former words that no receipt refers to.
DELETE FROM past_words AS w
WHERE NOT EXISTS (SELECT 1 FROM dispatches AS d
  WHERE d.reminder_number = w.reminder_number AND d.words_revision = w.words_revision)

-- name: drop_last_number
-- Before it is put anew.
DELETE FROM sqlite_sequence WHERE name = 'reminders'

-- name: put_last_number
-- No number is given out again.
INSERT INTO sqlite_sequence (name, seq) VALUES ('reminders', :number)
