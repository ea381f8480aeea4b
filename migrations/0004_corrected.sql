-- Targets that were counted from a clock far behind the instant that they were counted from before:
-- what is undone when that clock was wrong. As a rule none, so that no creation pays for it.
CREATE INDEX reminders_corrected ON reminders (after_at)
  WHERE status = 'active' AND kind <> 'at' AND computed_at < after_at
    AND (kind = 'after' OR scheduled_at <= after_at);
