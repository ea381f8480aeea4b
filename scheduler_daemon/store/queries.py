"""Reads queries.sql and care.sql: the text of every statement by its name."""

from __future__ import annotations

from importlib.resources import files

from scheduler_daemon.store.rows import REMINDER_COLUMNS

_DISPATCH = """d.number, d.followup_id, d.occurrence_id, d.reminder_id, d.session_id,
  d.occurrence_at, d.decided_at, d.admitted_at, d.host, d.message_id, d.outcome,
  iif(w.prompt IS NULL, r.title, w.title), coalesce(w.prompt, r.prompt)"""


def _load(file: str) -> dict[str, str]:
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    text = text.replace("{reminder}", ", ".join(REMINDER_COLUMNS))
    text = text.replace("{reminder_r}", ", ".join(f"r.{name}" for name in REMINDER_COLUMNS))
    text = text.replace("{dispatch}", _DISPATCH)
    statements = {}
    for block in text.split("-- name: ")[1:]:
        name, _, statement = block.partition("\n")
        statements[name.strip()] = statement.strip()
    return statements


QUERIES: dict[str, str] = _load("queries.sql")
"""Statement texts by name; each begins with its line of purpose as a comment."""

CARE: dict[str, str] = _load("care.sql")
"""Those that mending and doctor need beside: no request and no wake waits for them."""
