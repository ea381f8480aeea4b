-- The first schema. Constraints carry the invariants; triggers keep the two tables of counts.
-- Every instant is RFC 3339 UTC text with three fractional digits, which sorts as text. Its CHECK
-- lets SQLite compute the date anew ('+0 days'), so that one that no calendar has is refused.

CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reminders (
  number           INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused, not even after a delete
  id               TEXT GENERATED ALWAYS AS ('r' || number) VIRTUAL,
  owner_uid        INTEGER NOT NULL CHECK (owner_uid >= 0),
  session_id       TEXT NOT NULL CHECK (length(session_id) BETWEEN 1 AND 200 AND session_id <> '*'),
  kind             TEXT NOT NULL
    CHECK (kind IN ('after', 'at', 'every', 'daily', 'weekly', 'cron')),
  recurring        INTEGER GENERATED ALWAYS AS (kind NOT IN ('after', 'at')) VIRTUAL,
  title            TEXT CHECK (length(title) BETWEEN 1 AND 120 AND instr(title, char(0)) = 0),
  prompt           TEXT NOT NULL
    CHECK (length(prompt) BETWEEN 1 AND 32768 AND instr(prompt, char(0)) = 0),
  context          TEXT -- an object of strings
    CHECK (context IS NULL OR json_valid(context) AND json_type(context) = 'object'),

  -- the rule: which of these are set is decided by the kind
  delay_seconds    INTEGER CHECK (delay_seconds >= 1),
  interval_seconds INTEGER CHECK (interval_seconds >= 300),
  anchor_at        TEXT,
  local_time       TEXT CHECK (local_time < '24'
    AND local_time GLOB '[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]'),
  weekdays         TEXT CHECK (weekdays GLOB '[1-7]*' AND weekdays NOT GLOB '*[^1-7,]*'),
  cron_expression  TEXT CHECK (length(cron_expression) >= 9),
  time_zone        TEXT CHECK (length(time_zone) BETWEEN 3 AND 64),

  scheduled_at     TEXT NOT NULL, -- the target
  after_at         TEXT NOT NULL, -- the target is the first occurrence after this
  computed_at      TEXT NOT NULL, -- what the clock showed when the target was computed
  last_occurrence_at TEXT,        -- the newest occurrence dispatched
  generation       INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),

  status           TEXT NOT NULL DEFAULT 'active'
    CHECK (status IN ('active', 'ended', 'set_aside')),
  ended_at         TEXT,
  ended_reason     TEXT CHECK (ended_reason IN ('delivered', 'until', 'count', 'range', 'missed')),
  former_status    TEXT CHECK (former_status IN ('active', 'ended')),
  set_aside_reason TEXT,

  revision         INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  timing_revision  INTEGER NOT NULL DEFAULT 1 CHECK (timing_revision >= 1),
  words_revision   INTEGER NOT NULL DEFAULT 1 CHECK (words_revision >= 1),
  created_at       TEXT NOT NULL,

  CHECK ((kind = 'after') = (delay_seconds IS NOT NULL)),
  CHECK ((kind = 'every') = (interval_seconds IS NOT NULL)),
  CHECK ((kind = 'every') = (anchor_at IS NOT NULL)),
  CHECK ((kind IN ('daily', 'weekly')) = (local_time IS NOT NULL)),
  CHECK ((kind = 'weekly') = (weekdays IS NOT NULL)),
  CHECK ((kind = 'cron') = (cron_expression IS NOT NULL)),
  CHECK ((kind IN ('daily', 'weekly', 'cron')) = (time_zone IS NOT NULL)),
  CHECK ((status = 'set_aside') = (set_aside_reason IS NOT NULL)),
  CHECK ((status = 'set_aside') = (former_status IS NOT NULL)),
  CHECK ((ended_at IS NULL) = (ended_reason IS NULL)),
  CHECK (status <> 'active' OR ended_at IS NULL),
  CHECK (status <> 'ended' OR ended_at IS NOT NULL),
  CHECK (anchor_at >= '0001' AND substr(anchor_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND anchor_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(anchor_at, 1, 19), '+0 days')
      || substr(anchor_at, 20, 5)),
  CHECK (scheduled_at >= '0001' AND substr(scheduled_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND scheduled_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(scheduled_at, 1, 19), '+0 days')
      || substr(scheduled_at, 20, 5)),
  CHECK (after_at >= '0001' AND substr(after_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND after_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(after_at, 1, 19), '+0 days')
      || substr(after_at, 20, 5)),
  CHECK (computed_at >= '0001' AND substr(computed_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND computed_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(computed_at, 1, 19), '+0 days')
      || substr(computed_at, 20, 5)),
  CHECK (last_occurrence_at >= '0001' AND substr(last_occurrence_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND last_occurrence_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(last_occurrence_at, 1, 19), '+0 days')
      || substr(last_occurrence_at, 20, 5)),
  CHECK (ended_at >= '0001' AND substr(ended_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND ended_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(ended_at, 1, 19), '+0 days')
      || substr(ended_at, 20, 5)),
  CHECK (created_at >= '0001' AND substr(created_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND created_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(created_at, 1, 19), '+0 days')
      || substr(created_at, 20, 5))
) STRICT;

-- Each index ends with the number, which SQLite keeps in every entry: an order by target or by
-- status is one by creation among equals.

-- what is due in one Session, and its pages by target
CREATE INDEX reminders_due ON reminders (owner_uid, session_id, status, recurring, scheduled_at);
-- pages of a Session and of an owner, by creation and by target
CREATE INDEX reminders_of_session ON reminders (owner_uid, session_id, status);
CREATE INDEX reminders_of_owner ON reminders (owner_uid, status);
CREATE INDEX reminders_by_target ON reminders (owner_uid, status, scheduled_at);
-- targets that were computed under a clock that ran ahead
CREATE INDEX reminders_by_computed ON reminders (computed_at)
  WHERE status = 'active' AND kind <> 'at';

CREATE TABLE dispatches (
  number          INTEGER PRIMARY KEY,
  occurrence_id   TEXT NOT NULL UNIQUE,
  followup_id     TEXT NOT NULL,
  reminder_number INTEGER NOT NULL,
  reminder_id     TEXT GENERATED ALWAYS AS ('r' || reminder_number) VIRTUAL,
  owner_uid       INTEGER NOT NULL,
  session_id      TEXT NOT NULL,
  occurrence_at   TEXT NOT NULL,
  decided_at      TEXT NOT NULL,
  admitted_at     TEXT NOT NULL,
  host            TEXT,
  message_id      TEXT,
  outcome         TEXT NOT NULL CHECK (outcome IN ('admitted', 'skipped', 'missed')),
  words_revision  INTEGER NOT NULL,
  CHECK (outcome <> 'admitted' OR host IS NOT NULL),
  CHECK (occurrence_at >= '0001' AND substr(occurrence_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND occurrence_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(occurrence_at, 1, 19), '+0 days')
      || substr(occurrence_at, 20, 5)),
  CHECK (decided_at >= '0001' AND substr(decided_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND decided_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(decided_at, 1, 19), '+0 days')
      || substr(decided_at, 20, 5)),
  CHECK (admitted_at >= '0001' AND substr(admitted_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND admitted_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(admitted_at, 1, 19), '+0 days')
      || substr(admitted_at, 20, 5))
) STRICT;

CREATE INDEX dispatches_of_reminder ON dispatches (reminder_number);
CREATE INDEX dispatches_of_session ON dispatches (owner_uid, session_id);

-- words that a receipt refers to and that its reminder no longer has
CREATE TABLE past_words (
  reminder_number INTEGER NOT NULL,
  words_revision  INTEGER NOT NULL,
  title           TEXT,
  prompt          TEXT NOT NULL,
  PRIMARY KEY (reminder_number, words_revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
  owner_uid       INTEGER NOT NULL,
  session_id      TEXT NOT NULL,
  key             TEXT NOT NULL,
  request_hash    TEXT NOT NULL, -- SHA-256 of the canonical request as first received
  reminder_number INTEGER NOT NULL,
  created_at      TEXT NOT NULL,
  gone_at         TEXT, -- when its reminder was deleted
  PRIMARY KEY (owner_uid, session_id, key),
  CHECK (created_at >= '0001' AND substr(created_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND created_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(created_at, 1, 19), '+0 days')
      || substr(created_at, 20, 5)),
  CHECK (gone_at >= '0001' AND substr(gone_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND gone_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(gone_at, 1, 19), '+0 days')
      || substr(gone_at, 20, 5))
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_of_reminder ON idempotency_keys (reminder_number);

-- kept by the triggers below and by nothing else
CREATE TABLE sessions (
  owner_uid      INTEGER NOT NULL,
  session_id     TEXT NOT NULL,
  next_target_at TEXT, -- the earliest target of its active reminders
  active         INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
  ended          INTEGER NOT NULL DEFAULT 0 CHECK (ended >= 0),
  set_aside      INTEGER NOT NULL DEFAULT 0 CHECK (set_aside >= 0),
  PRIMARY KEY (owner_uid, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_target ON sessions (owner_uid, next_target_at, session_id)
  WHERE next_target_at IS NOT NULL;

-- a row stays when the last reminder goes, as its receipts do
CREATE TABLE owners (
  owner_uid INTEGER NOT NULL PRIMARY KEY,
  active    INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
  ended     INTEGER NOT NULL DEFAULT 0 CHECK (ended >= 0),
  set_aside INTEGER NOT NULL DEFAULT 0 CHECK (set_aside >= 0)
) STRICT;

CREATE TRIGGER reminders_inserted AFTER INSERT ON reminders BEGIN
  INSERT INTO owners (owner_uid, active, ended, set_aside)
    VALUES (NEW.owner_uid, NEW.status = 'active', NEW.status = 'ended', NEW.status = 'set_aside')
    ON CONFLICT (owner_uid) DO UPDATE SET
      active = active + excluded.active,
      ended = ended + excluded.ended,
      set_aside = set_aside + excluded.set_aside;
  INSERT INTO sessions (owner_uid, session_id, next_target_at, active, ended, set_aside)
    VALUES (NEW.owner_uid, NEW.session_id, iif(NEW.status = 'active', NEW.scheduled_at, NULL),
            NEW.status = 'active', NEW.status = 'ended', NEW.status = 'set_aside')
    ON CONFLICT (owner_uid, session_id) DO UPDATE SET
      next_target_at = coalesce(min(next_target_at, excluded.next_target_at),
                                next_target_at, excluded.next_target_at),
      active = active + excluded.active,
      ended = ended + excluded.ended,
      set_aside = set_aside + excluded.set_aside;
END;

CREATE TRIGGER reminders_deleted AFTER DELETE ON reminders BEGIN
  UPDATE owners SET
      active = active - (OLD.status = 'active'),
      ended = ended - (OLD.status = 'ended'),
      set_aside = set_aside - (OLD.status = 'set_aside')
    WHERE owner_uid = OLD.owner_uid;
  UPDATE sessions SET
      active = active - (OLD.status = 'active'),
      ended = ended - (OLD.status = 'ended'),
      set_aside = set_aside - (OLD.status = 'set_aside'),
      next_target_at = (SELECT min(target) FROM (
        SELECT min(scheduled_at) AS target FROM reminders WHERE status = 'active'
          AND owner_uid = OLD.owner_uid AND session_id = OLD.session_id AND recurring = 0
        UNION ALL
        SELECT min(scheduled_at) FROM reminders WHERE status = 'active'
          AND owner_uid = OLD.owner_uid AND session_id = OLD.session_id AND recurring = 1))
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id;
  DELETE FROM sessions
    WHERE owner_uid = OLD.owner_uid AND session_id = OLD.session_id
      AND active = 0 AND ended = 0 AND set_aside = 0;
  INSERT OR IGNORE INTO past_words (reminder_number, words_revision, title, prompt)
    SELECT OLD.number, OLD.words_revision, OLD.title, OLD.prompt
    WHERE EXISTS (SELECT 1 FROM dispatches
      WHERE reminder_number = OLD.number AND words_revision = OLD.words_revision);
END;

CREATE TRIGGER reminders_status_changed AFTER UPDATE OF status ON reminders
WHEN NEW.status <> OLD.status BEGIN
  UPDATE owners SET
      active = active + (NEW.status = 'active') - (OLD.status = 'active'),
      ended = ended + (NEW.status = 'ended') - (OLD.status = 'ended'),
      set_aside = set_aside + (NEW.status = 'set_aside') - (OLD.status = 'set_aside')
    WHERE owner_uid = NEW.owner_uid;
  UPDATE sessions SET
      active = active + (NEW.status = 'active') - (OLD.status = 'active'),
      ended = ended + (NEW.status = 'ended') - (OLD.status = 'ended'),
      set_aside = set_aside + (NEW.status = 'set_aside') - (OLD.status = 'set_aside')
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

CREATE TRIGGER reminders_target_changed AFTER UPDATE OF status, scheduled_at ON reminders
WHEN NEW.status <> OLD.status OR NEW.scheduled_at <> OLD.scheduled_at BEGIN
  UPDATE sessions SET next_target_at = (SELECT min(target) FROM (
        SELECT min(scheduled_at) AS target FROM reminders WHERE status = 'active'
          AND owner_uid = NEW.owner_uid AND session_id = NEW.session_id AND recurring = 0
        UNION ALL
        SELECT min(scheduled_at) FROM reminders WHERE status = 'active'
          AND owner_uid = NEW.owner_uid AND session_id = NEW.session_id AND recurring = 1))
    WHERE owner_uid = NEW.owner_uid AND session_id = NEW.session_id;
END;

CREATE TRIGGER reminders_moved BEFORE UPDATE OF number, owner_uid, session_id ON reminders
WHEN NEW.number <> OLD.number OR NEW.owner_uid <> OLD.owner_uid OR NEW.session_id <> OLD.session_id
BEGIN
  SELECT raise(ABORT, 'a reminder keeps its number, owner and Session');
END;

CREATE TRIGGER reminders_words_edited AFTER UPDATE OF title, prompt ON reminders
WHEN NEW.words_revision = OLD.words_revision
  AND (NEW.title IS NOT OLD.title OR NEW.prompt <> OLD.prompt) BEGIN
  INSERT OR IGNORE INTO past_words (reminder_number, words_revision, title, prompt)
    SELECT OLD.number, OLD.words_revision, OLD.title, OLD.prompt
    WHERE EXISTS (SELECT 1 FROM dispatches
      WHERE reminder_number = OLD.number AND words_revision = OLD.words_revision);
  UPDATE reminders SET words_revision = words_revision + 1 WHERE number = NEW.number;
END;

CREATE TRIGGER reminders_words_changed AFTER UPDATE OF title, prompt, words_revision ON reminders
WHEN NEW.words_revision <> OLD.words_revision BEGIN
  INSERT OR IGNORE INTO past_words (reminder_number, words_revision, title, prompt)
    SELECT OLD.number, OLD.words_revision, OLD.title, OLD.prompt
    WHERE EXISTS (SELECT 1 FROM dispatches
      WHERE reminder_number = OLD.number AND words_revision = OLD.words_revision);
END;

-- what a person types first
CREATE VIEW upcoming AS
  SELECT id, owner_uid, session_id, scheduled_at, kind, title, prompt
  FROM reminders
  WHERE status = 'active' AND scheduled_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  ORDER BY scheduled_at, number;

CREATE VIEW overdue AS
  SELECT id, owner_uid, session_id, scheduled_at, kind, title, prompt
  FROM reminders
  WHERE status = 'active' AND scheduled_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  ORDER BY scheduled_at, number;

CREATE VIEW history AS
  SELECT d.admitted_at, d.outcome, d.reminder_id, d.owner_uid, d.session_id, d.occurrence_at,
         d.decided_at, d.host, d.message_id, d.followup_id, d.occurrence_id,
         iif(w.prompt IS NULL, r.title, w.title) AS title,
         coalesce(w.prompt, r.prompt) AS prompt
  FROM dispatches AS d
  LEFT JOIN past_words AS w
    ON w.reminder_number = d.reminder_number AND w.words_revision = d.words_revision
  LEFT JOIN reminders AS r ON r.number = d.reminder_number
  ORDER BY d.number DESC;
