-- Pausing, ends, ages, running by hand, moving to another Session.

ALTER TABLE reminders ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));
-- the reminder whose words it repeats; that one may be gone
ALTER TABLE reminders ADD COLUMN snoozed_from INTEGER CHECK (snoozed_from >= 1);
-- no occurrence after this
ALTER TABLE reminders ADD COLUMN until_at TEXT CHECK (
  until_at IS NULL OR kind NOT IN ('after', 'at')
  AND until_at >= '0001' AND substr(until_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
  AND until_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(until_at, 1, 19), '+0 days')
    || substr(until_at, 20, 5));
-- so many admitted occurrences end it; the count is kept, since receipts go
ALTER TABLE reminders ADD COLUMN max_occurrences INTEGER
  CHECK (max_occurrences IS NULL OR max_occurrences >= 1 AND kind NOT IN ('after', 'at'));
ALTER TABLE reminders ADD COLUMN dispatch_count INTEGER NOT NULL DEFAULT 0
  CHECK (dispatch_count >= 0);
UPDATE reminders SET dispatch_count = (
  SELECT count(*) FROM dispatches
  WHERE reminder_number = reminders.number AND outcome = 'admitted');
-- an occurrence older than this is not sent
ALTER TABLE reminders ADD COLUMN expires_after_seconds INTEGER CHECK (expires_after_seconds >= 1);
-- a skip that met an occurrence in flight: those after the first instant, up to the second
ALTER TABLE reminders ADD COLUMN skips_after_at TEXT CHECK (
  skips_after_at IS NULL OR skips_after_at >= '0001'
  AND substr(skips_after_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
  AND skips_after_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(skips_after_at, 1, 19), '+0 days')
    || substr(skips_after_at, 20, 5));
ALTER TABLE reminders ADD COLUMN skips_to_at TEXT CHECK (
  (skips_to_at IS NULL) = (skips_after_at IS NULL)
  AND (skips_to_at IS NULL OR skips_to_at > skips_after_at
  AND substr(skips_to_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
  AND skips_to_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(skips_to_at, 1, 19), '+0 days')
    || substr(skips_to_at, 20, 5)));

DROP INDEX reminders_due;
-- what is due in one Session, and its pages by target
CREATE INDEX reminders_due
  ON reminders (owner_uid, session_id, status, paused, recurring, scheduled_at);
-- what is kept beyond its end until the clock can be trusted
CREATE INDEX reminders_beyond_end ON reminders (number)
  WHERE status = 'active' AND scheduled_at > until_at;

-- asked for by hand, beside the rule, and not yet admitted
CREATE TABLE runs (
  number          INTEGER PRIMARY KEY,
  occurrence_id   TEXT NOT NULL UNIQUE,
  reminder_number INTEGER NOT NULL,
  owner_uid       INTEGER NOT NULL,
  session_id      TEXT NOT NULL,
  due_at          TEXT NOT NULL,
  CHECK (due_at >= '0001' AND substr(due_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND due_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(due_at, 1, 19), '+0 days')
      || substr(due_at, 20, 5))
) STRICT;

CREATE INDEX runs_of_session ON runs (owner_uid, session_id, due_at);
CREATE INDEX runs_of_reminder ON runs (reminder_number);
-- those that a clock that was set back has left ahead
CREATE INDEX runs_by_due ON runs (due_at);

-- the reminder that was snoozed or run, and the occurrence that running it made
ALTER TABLE idempotency_keys ADD COLUMN asked_of INTEGER;
ALTER TABLE idempotency_keys ADD COLUMN occurrence_id TEXT;
CREATE INDEX idempotency_keys_asked_of ON idempotency_keys (asked_of) WHERE asked_of IS NOT NULL;

-- Paused reminders are active ones that are never due. A run is due at once.
ALTER TABLE sessions ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused >= 0);
ALTER TABLE owners ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused >= 0);

CREATE VIEW session_targets AS
  SELECT owner_uid, session_id, (SELECT min(target) FROM (
      SELECT min(scheduled_at) AS target FROM reminders AS r WHERE status = 'active' AND paused = 0
        AND r.owner_uid = s.owner_uid AND r.session_id = s.session_id AND recurring = 0
      UNION ALL
      SELECT min(scheduled_at) FROM reminders AS r WHERE status = 'active' AND paused = 0
        AND r.owner_uid = s.owner_uid AND r.session_id = s.session_id AND recurring = 1
      UNION ALL
      SELECT min(due_at) FROM runs AS e
        CROSS JOIN reminders AS r ON r.number = e.reminder_number AND r.status <> 'set_aside'
        WHERE e.owner_uid = s.owner_uid AND e.session_id = s.session_id)) AS target
  FROM sessions AS s;

DROP TRIGGER reminders_inserted;
CREATE TRIGGER reminders_inserted AFTER INSERT ON reminders BEGIN
  INSERT INTO owners (owner_uid, active, paused, ended, set_aside)
    VALUES (NEW.owner_uid, NEW.status = 'active', NEW.status = 'active' AND NEW.paused,
            NEW.status = 'ended', NEW.status = 'set_aside')
    ON CONFLICT (owner_uid) DO UPDATE SET
      active = active + excluded.active,
      paused = paused + excluded.paused,
      ended = ended + excluded.ended,
      set_aside = set_aside + excluded.set_aside;
  INSERT INTO sessions (owner_uid, session_id, next_target_at, active, paused, ended, set_aside)
    VALUES (NEW.owner_uid, NEW.session_id,
            iif(NEW.status = 'active' AND NEW.paused = 0, NEW.scheduled_at, NULL),
            NEW.status = 'active', NEW.status = 'active' AND NEW.paused,
            NEW.status = 'ended', NEW.status = 'set_aside')
    ON CONFLICT (owner_uid, session_id) DO UPDATE SET
      next_target_at = coalesce(min(next_target_at, excluded.next_target_at),
                                next_target_at, excluded.next_target_at),
      active = active + excluded.active,
      paused = paused + excluded.paused,
      ended = ended + excluded.ended,
      set_aside = set_aside + excluded.set_aside;
END;

DROP TRIGGER reminders_deleted;
CREATE TRIGGER reminders_deleted AFTER DELETE ON reminders BEGIN
  DELETE FROM runs WHERE reminder_number = OLD.number;
  UPDATE owners SET
      active = active - (OLD.status = 'active'),
      paused = paused - (OLD.status = 'active' AND OLD.paused),
      ended = ended - (OLD.status = 'ended'),
      set_aside = set_aside - (OLD.status = 'set_aside')
    WHERE owner_uid = OLD.owner_uid;
  UPDATE sessions SET
      active = active - (OLD.status = 'active'),
      paused = paused - (OLD.status = 'active' AND OLD.paused),
      ended = ended - (OLD.status = 'ended'),
      set_aside = set_aside - (OLD.status = 'set_aside'),
      next_target_at = (SELECT target FROM session_targets
        WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id)
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id;
  DELETE FROM sessions
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id
      AND active = 0 AND ended = 0 AND set_aside = 0;
  INSERT OR IGNORE INTO past_words (reminder_number, words_revision, title, prompt)
    SELECT OLD.number, OLD.words_revision, OLD.title, OLD.prompt
    WHERE EXISTS (SELECT 1 FROM dispatches
      WHERE reminder_number = OLD.number AND words_revision = OLD.words_revision);
END;

DROP TRIGGER reminders_status_changed;
CREATE TRIGGER reminders_status_changed AFTER UPDATE OF status, paused ON reminders
WHEN NEW.status <> OLD.status OR NEW.paused <> OLD.paused BEGIN
  UPDATE owners SET
      active = active + (NEW.status = 'active') - (OLD.status = 'active'),
      paused = paused + (NEW.status = 'active' AND NEW.paused)
        - (OLD.status = 'active' AND OLD.paused),
      ended = ended + (NEW.status = 'ended') - (OLD.status = 'ended'),
      set_aside = set_aside + (NEW.status = 'set_aside') - (OLD.status = 'set_aside')
    WHERE owner_uid = NEW.owner_uid;
  UPDATE sessions SET
      active = active + (NEW.status = 'active') - (OLD.status = 'active'),
      paused = paused + (NEW.status = 'active' AND NEW.paused)
        - (OLD.status = 'active' AND OLD.paused),
      ended = ended + (NEW.status = 'ended') - (OLD.status = 'ended'),
      set_aside = set_aside + (NEW.status = 'set_aside') - (OLD.status = 'set_aside')
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

DROP TRIGGER reminders_target_changed;
CREATE TRIGGER reminders_target_changed AFTER UPDATE OF status, paused, scheduled_at ON reminders
WHEN NEW.status <> OLD.status OR NEW.paused <> OLD.paused OR NEW.scheduled_at <> OLD.scheduled_at
BEGIN
  UPDATE sessions SET next_target_at = (SELECT target FROM session_targets
      WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id)
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

DROP TRIGGER reminders_moved;
CREATE TRIGGER reminders_moved BEFORE UPDATE OF number, owner_uid ON reminders
WHEN NEW.number <> OLD.number OR NEW.owner_uid <> OLD.owner_uid
BEGIN
  SELECT raise(ABORT, 'a reminder keeps its number and owner');
END;

CREATE TRIGGER reminders_transferred AFTER UPDATE OF session_id ON reminders
WHEN NEW.session_id <> OLD.session_id BEGIN
  UPDATE runs SET session_id = NEW.session_id WHERE reminder_number = NEW.number;
  INSERT INTO sessions (owner_uid, session_id, active, paused, ended, set_aside)
    VALUES (NEW.owner_uid, NEW.session_id, NEW.status = 'active',
            NEW.status = 'active' AND NEW.paused, NEW.status = 'ended', NEW.status = 'set_aside')
    ON CONFLICT (owner_uid, session_id) DO UPDATE SET
      active = active + excluded.active,
      paused = paused + excluded.paused,
      ended = ended + excluded.ended,
      set_aside = set_aside + excluded.set_aside;
  UPDATE sessions SET
      active = active - (OLD.status = 'active'),
      paused = paused - (OLD.status = 'active' AND OLD.paused),
      ended = ended - (OLD.status = 'ended'),
      set_aside = set_aside - (OLD.status = 'set_aside')
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id;
  UPDATE sessions SET next_target_at = (SELECT target FROM session_targets AS t
      WHERE t.owner_uid = sessions.owner_uid AND t.session_id = sessions.session_id)
    WHERE owner_uid = NEW.owner_uid AND session_id IN (OLD.session_id, NEW.session_id);
  DELETE FROM sessions
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id
      AND active = 0 AND ended = 0 AND set_aside = 0;
END;

CREATE TRIGGER runs_inserted AFTER INSERT ON runs BEGIN
  UPDATE sessions SET next_target_at = (SELECT target FROM session_targets
      WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id)
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

CREATE TRIGGER runs_changed AFTER UPDATE OF due_at ON runs BEGIN
  UPDATE sessions SET next_target_at = (SELECT target FROM session_targets
      WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id)
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

CREATE TRIGGER runs_deleted AFTER DELETE ON runs BEGIN
  UPDATE sessions SET next_target_at = (SELECT target FROM session_targets
      WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id)
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id;
END;

DROP VIEW upcoming;
CREATE VIEW upcoming AS
  SELECT id, owner_uid, session_id, scheduled_at, kind, title, prompt
  FROM reminders
  WHERE status = 'active' AND paused = 0 AND scheduled_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  ORDER BY scheduled_at, number;

DROP VIEW overdue;
CREATE VIEW overdue AS
  SELECT id, owner_uid, session_id, scheduled_at, kind, title, prompt
  FROM reminders
  WHERE status = 'active' AND paused = 0 AND scheduled_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  ORDER BY scheduled_at, number;
