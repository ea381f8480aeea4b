"""What the file keeps beside reminders, read strictly: words, receipts, idempotency keys, runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, get_args

from scheduler_daemon.model import Dispatch
from scheduler_daemon.store import columns
from scheduler_daemon.store.rows import Row

Outcome = Literal["admitted", "skipped", "missed"]

_OCCURRENCE_ID = re.compile(r"r([1-9][0-9]*)(?:@now-|(?:\.[1-9][0-9]*)?@)(.{24})", re.ASCII)
_RUN_ID = re.compile(r"r([1-9][0-9]*)@now-(.{24})", re.ASCII)


def _occurrence_id(value: Any) -> str:
    return _identity(value, _OCCURRENCE_ID, "r1@2026-08-07T01:00:00.000Z")


def _run_id(value: Any) -> str:
    return _identity(value, _RUN_ID, "r1@now-2026-08-07T01:00:00.000Z")


def _maybe_run_id(value: Any) -> str | None:
    return None if value is None else _run_id(value)


def _identity(value: Any, form: re.Pattern[str], example: str) -> str:
    found = form.fullmatch(columns.text(value, columns.MAX_NAME_CHARS))
    if found is None or not columns.is_instant(found[2]):
        raise ValueError(f"{columns.shown(value)} is no identity such as {example}")
    return str(value)


def _outcome(value: Any) -> Outcome:
    for outcome in get_args(Outcome):
        if value == outcome:
            return cast("Outcome", outcome)
    raise ValueError(f"{columns.shown(value)} is none of admitted, skipped, missed")


def _short(value: Any) -> str:
    return columns.text(value, columns.MAX_NAME_CHARS)


COLUMNS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "words": {
        "reminder_number": columns.counted,
        "words_revision": columns.counted,
        "title": columns.title,
        "prompt": columns.filled(columns.MAX_PROMPT_CHARS),
    },
    "receipt": {
        "occurrence_id": _occurrence_id,
        "followup_id": _short,
        "reminder_number": columns.counted,
        "owner_uid": columns.uid,
        "session_id": columns.session,
        "occurrence_at": columns.instant,
        "decided_at": columns.instant,
        "admitted_at": columns.instant,
        "host": columns.maybe_name,
        "message_id": columns.maybe_name,
        "outcome": _outcome,
        "words_revision": columns.counted,
    },
    "key": {
        "owner_uid": columns.uid,
        "session_id": columns.session,
        "key": columns.name,
        "request_hash": columns.name,
        "reminder_number": columns.counted,
        "created_at": columns.instant,
        "gone_at": columns.maybe_instant,
        "asked_of": columns.maybe_counted,
        "occurrence_id": _maybe_run_id,
    },
    "run": {
        "occurrence_id": _run_id,
        "reminder_number": columns.counted,
        "owner_uid": columns.uid,
        "session_id": columns.session,
        "due_at": columns.instant,
    },
}
"""How each column is read, by the kind of row."""


def wrong(kind: str, row: Mapping[str, Any]) -> dict[str, str]:
    """What cannot be read of a row, by its column; a column that is left out is NULL."""
    found = {}
    for name, read in COLUMNS[kind].items():
        try:
            read(row.get(name))
        except (ValueError, TypeError) as error:
            found[name] = str(error)
    if not found and kind in ("receipt", "run") and (why := _wrong_identity(kind, row)):
        found["occurrence_id"] = why
    if row.get("outcome") == "admitted" and row.get("host") is None:
        found["host"] = "text is missing: somebody admitted it"
    return found


def _wrong_identity(kind: str, row: Mapping[str, Any]) -> str | None:
    """Why an identity is not that of what it stands with, None where it is."""
    occurrence_id, number = row["occurrence_id"], row["reminder_number"]
    if not occurrence_id.startswith((f"r{number}@", f"r{number}.")):
        return f"{occurrence_id!r} is none of r{number}"
    if kind == "receipt" and not is_run_id(occurrence_id, number):
        at = row["occurrence_at"]
        return None if occurrence_id.endswith(f"@{at}") else f"{occurrence_id!r} is not of {at}"
    return None


def is_run_id(value: object, number: int) -> bool:
    """Whether it is the identity of an occurrence of this reminder that was asked for by hand."""
    try:
        return _run_id(value).startswith(f"r{number}@")
    except (ValueError, TypeError):
        return False


def read_dispatch(row: Row) -> Dispatch | None:
    """The dispatch of a row of the `history_…` statements, None for one that does not decode.

    Nobody waits for a receipt that cannot be read: it is left out, and `doctor` names it.
    """
    try:
        return decode_dispatch(row)
    except (ValueError, TypeError):
        return None


def decode_dispatch(row: Row) -> Dispatch:
    """The dispatch of such a row; ValueError or TypeError where it does not decode."""
    (
        number,
        followup_id,
        occurrence_id,
        reminder_id,
        session_id,
        occurrence_at,
        decided_at,
        admitted_at,
        host,
        message_id,
        outcome,
        title,
        prompt,
    ) = row
    return Dispatch(
        number=columns.whole(number),
        followup_id=_short(followup_id),
        occurrence_id=_short(occurrence_id),
        reminder_id=columns.text(reminder_id),
        session_id=columns.text(session_id),
        occurrence_at=columns.instant(occurrence_at),
        decided_at=columns.instant(decided_at),
        admitted_at=columns.instant(admitted_at),
        host=columns.maybe_name(host) or "",
        message_id=columns.maybe_name(message_id),
        outcome=_outcome(outcome),
        title=columns.title(title),
        prompt=columns.maybe_text(prompt, columns.MAX_PROMPT_CHARS) or "",
    )
