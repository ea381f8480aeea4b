-- Statements that put right what was edited by hand, and those of doctor, which visit everything.
-- A Session's name is given as bytes: one that is not UTF-8 can be given in no other way.

-- name: wrong_sessions
-- The next :count Sessions of an owner, each with whether the table of Sessions lacks it, has other
-- counts or another target of it, or whether it has a target that would never come due.
WITH counted AS (
  SELECT owner_uid, session_id,
    sum(status = 'active') AS active, sum(status = 'active' AND paused <> 0) AS paused,
    sum(status = 'ended') AS ended, sum(status = 'set_aside') AS set_aside,
    max(status = 'active' AND scheduled_at NOT BETWEEN '0001' AND '9999-12-31T23:59:59.999Z')
      AS unreadable
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

-- name: runs_unreadable
-- A run whose instant cannot be read is due when it was asked for, which its id says.
UPDATE runs SET due_at = iif(substr(occurrence_id, -24)
    IS strftime('%Y-%m-%dT%H:%M:%S', substr(occurrence_id, -24, 19), '+0 days')
      || substr(occurrence_id, -5) AND substr(occurrence_id, -5) GLOB '.[0-9][0-9][0-9]Z',
    substr(occurrence_id, -24), '0001-01-01T00:00:00.000Z')
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT)
  AND (due_at < '0001' OR due_at IS NOT
    strftime('%Y-%m-%dT%H:%M:%S', substr(due_at, 1, 19), '+0 days') || substr(due_at, 20, 5))

-- name: active_in_session
-- Every active reminder of a Session.
SELECT {reminder} FROM reminders
WHERE owner_uid = :owner AND session_id = CAST(:session AS TEXT) AND status = 'active'

-- name: force_aside
-- A row with values of types that its STRICT table would not take again: those are cast.
UPDATE reminders SET status = 'set_aside', set_aside_reason = :reason,
  former_status = iif(status = 'ended', 'ended', 'active'),
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
-- Every reminder, with what was noted of one that is set aside.
SELECT {reminder}, former_status, set_aside_reason FROM reminders ORDER BY number

-- name: all_runs
-- Every occurrence by hand, with whether it is one of a reminder in the same Session.
SELECT e.number, e.occurrence_id, e.due_at, r.number IS NOT NULL,
  (r.owner_uid, r.session_id) IS (e.owner_uid, e.session_id)
FROM runs AS e LEFT JOIN reminders AS r ON r.number = e.reminder_number

-- name: all_dispatches
-- Every receipt.
SELECT {dispatch}
FROM dispatches AS d
LEFT JOIN past_words AS w
  ON w.reminder_number = d.reminder_number AND w.words_revision = d.words_revision
LEFT JOIN reminders AS r ON r.number = d.reminder_number

-- name: keys_of_nobody
-- Keys of reminders that are gone, without when.
SELECT count(*) FROM idempotency_keys AS k
WHERE gone_at IS NULL AND NOT EXISTS (SELECT 1 FROM reminders WHERE number = k.reminder_number)

-- name: words_of_nobody
-- Former words that no receipt refers to.
SELECT count(*) FROM past_words AS w
WHERE NOT EXISTS (SELECT 1 FROM dispatches AS d
  WHERE d.reminder_number = w.reminder_number AND d.words_revision = w.words_revision)

-- name: last_numbers
-- The last number that was given out, and the highest that anything speaks of.
SELECT coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'reminders'), 0), max(
  coalesce((SELECT max(number) FROM reminders), 0),
  coalesce((SELECT max(reminder_number) FROM dispatches), 0),
  coalesce((SELECT max(reminder_number) FROM idempotency_keys), 0),
  coalesce((SELECT max(reminder_number) FROM past_words), 0))

-- name: put_back
-- A row that can be read again is what it was.
UPDATE reminders SET status = former_status, former_status = NULL, set_aside_reason = NULL
WHERE number = :number AND status = 'set_aside'

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

-- name: mend_runs
-- As runs_unreadable, for all.
UPDATE runs SET due_at = iif(substr(occurrence_id, -24)
    IS strftime('%Y-%m-%dT%H:%M:%S', substr(occurrence_id, -24, 19), '+0 days')
      || substr(occurrence_id, -5) AND substr(occurrence_id, -5) GLOB '.[0-9][0-9][0-9]Z',
    substr(occurrence_id, -24), '0001-01-01T00:00:00.000Z')
WHERE due_at < '0001' OR due_at IS NOT
  strftime('%Y-%m-%dT%H:%M:%S', substr(due_at, 1, 19), '+0 days') || substr(due_at, 20, 5)

-- name: mark_keys_gone
-- Keys whose reminders are gone: from now on retention counts.
UPDATE idempotency_keys SET gone_at = :now
WHERE gone_at IS NULL AND NOT EXISTS (SELECT 1 FROM reminders WHERE number = reminder_number)

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
