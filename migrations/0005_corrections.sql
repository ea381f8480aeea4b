-- What a target was counted from before the instant in after_at, where clocks that fell back made it
-- be corrected more than once: each lies further ahead. As a rule none.
CREATE TABLE corrections (
  reminder_number INTEGER NOT NULL,
  from_at         TEXT NOT NULL,
  PRIMARY KEY (reminder_number, from_at),
  CHECK (from_at >= '0001' AND substr(from_at, 20, 5) GLOB '.[0-9][0-9][0-9]Z'
    AND from_at IS strftime('%Y-%m-%dT%H:%M:%S', substr(from_at, 1, 19), '+0 days')
      || substr(from_at, 20, 5))
) STRICT, WITHOUT ROWID;

-- A target that is counted from a clock of now has nothing to go back to.
CREATE TRIGGER reminders_correction_over AFTER UPDATE OF after_at, computed_at ON reminders
WHEN OLD.computed_at < OLD.after_at AND NEW.computed_at >= NEW.after_at BEGIN
  DELETE FROM corrections WHERE reminder_number = NEW.number;
END;

CREATE TRIGGER reminders_corrections_deleted AFTER DELETE ON reminders BEGIN
  DELETE FROM corrections WHERE reminder_number = OLD.number;
END;
