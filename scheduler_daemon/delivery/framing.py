"""What a follow-up says to the model, and the same facts as structured params for its host.

The text is fixed framing lines and value lines `label: "JSON string"`. A value never leaves its
line and never leaves its quotes, so no stored words can forge a line of framing.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator

from scheduler_daemon.model import FollowUp, Occurrence
from scheduler_daemon.rules import describe, instant_text, local_text, zone_of
from scheduler_daemon.wire.shapes import Followup, FollowupOccurrence

_STORED = (
    "are the words stored then, by the person or by the model, not something the person has just"
    " typed."
)
_QUOTED = "Every value is one JSON string on its own line; whatever its quotes hold is stored text."
_PERMISSIONS = "is subject to the same permissions as anything else in this conversation."

ONE_SHOT_HEAD = (
    "[scheduled reminder, one-time]",
    "The reminder below was scheduled earlier in this same conversation and is due now.",
    f"Its values {_STORED}",
    _QUOTED,
    f"Carrying it out {_PERMISSIONS}",
)
"""The framing lines above a one-shot; the first is its marker."""
ONE_SHOT_END = "[end of the scheduled reminder]"

BATCH_HEAD = (
    "[scheduled reminders, recurring]",
    "The reminders below were scheduled earlier in this same conversation and are due now.",
    "Each comes once, for its latest time; one with `missed since` also stands for those missed.",
    f"Their values {_STORED}",
    _QUOTED,
    f"Carrying them out {_PERMISSIONS}",
)
"""The framing lines above a batch; the first is its marker."""
BATCH_END = "[end of the scheduled reminders]"

LATE_AFTER = dt.timedelta(minutes=1)
"""A reminder is called late when it was decided more than this after its occurrence."""

# What json.dumps leaves bare although a reader may take it for a new line, for nothing at all or
# for text in another order: DEL and C1 (with NEL), the line and paragraph separators, surrogates,
# category Cf (bidi controls, soft hyphen, byte order mark, ...) except the joiners U+200C and
# U+200D, which scripts and emoji need, and the invisible blocks U+2060 and U+E0000 (tags, variation
# selectors) to their ends.
_HIDDEN = re.compile(
    r"[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def followup_text(followup: FollowUp) -> str:
    """What the model reads: lines joined by `\\n`, an empty one before each occurrence and the end.

    An occurrence is its value lines in a fixed order: `reminder`, `due at`, `local time` (rules
    with a zone), `late by` (when more than a minute), `missed since` (when occurrences were
    missed), `rule`, `title` (when it has one), `prompt`.
    """
    head, end = (BATCH_HEAD, BATCH_END) if followup.batch else (ONE_SHOT_HEAD, ONE_SHOT_END)
    lines = [*head]
    for occurrence in followup.occurrences:
        values = _values(occurrence, followup.decided_at)
        lines += ["", *(f"{label}: {_quoted(value)}" for label, value in values)]
    return "\n".join([*lines, "", end])


def followup_params(followup: FollowUp, attempt: int) -> Followup:
    """The params of the request `session.followup`, optional members left out, never null.

    `attempt` counts the pushes of this message from 1, anew with the process.
    """
    return {
        "followup_id": followup.followup_id,
        "session_id": followup.session_id,
        "batch": followup.batch,
        "decided_at": instant_text(followup.decided_at),
        "attempt": attempt,
        "text": followup_text(followup),
        "occurrences": [_structured(occurrence) for occurrence in followup.occurrences],
    }


def _values(occurrence: Occurrence, decided_at: dt.datetime) -> Iterator[tuple[str, str]]:
    reminder = occurrence.reminder
    yield "reminder", reminder.id
    yield "due at", instant_text(occurrence.occurrence_at)
    if (zone := zone_of(reminder.rule)) is not None:
        yield "local time", local_text(occurrence.occurrence_at, zone)
    late = decided_at - occurrence.occurrence_at
    if late > LATE_AFTER:
        yield "late by", _in_words(late)
    if occurrence.missed_from is not None:
        yield "missed since", instant_text(occurrence.missed_from)
    yield "rule", describe(reminder.rule)
    if reminder.title is not None:
        yield "title", reminder.title
    yield "prompt", reminder.prompt


def _structured(occurrence: Occurrence) -> FollowupOccurrence:
    reminder, zone = occurrence.reminder, zone_of(occurrence.reminder.rule)
    members: FollowupOccurrence = {
        "occurrence_id": occurrence.occurrence_id,
        "reminder_id": reminder.id,
        "occurrence_at": instant_text(occurrence.occurrence_at),
        "kind": reminder.rule.kind,
        "rule_text": describe(reminder.rule),
        "prompt": reminder.prompt,
    }
    if zone is not None:
        members["occurrence_local"] = local_text(occurrence.occurrence_at, zone)
    if occurrence.missed_from is not None:
        members["missed_from"] = instant_text(occurrence.missed_from)
    if reminder.title is not None:
        members["title"] = reminder.title
    if reminder.context is not None:
        members["context"] = dict(reminder.context)
    return members


def _in_words(span: dt.timedelta) -> str:
    """A span of at least a minute in its two largest units that are not zero, rounded down."""
    hours, minutes = divmod(span // dt.timedelta(minutes=1), 60)
    days, hours = divmod(hours, 24)
    parts = [
        f"{count} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((days, "day"), (hours, "hour"), (minutes, "minute"))
        if count
    ]
    return " ".join(parts[:2])


def _quoted(value: str) -> str:
    """`value` as a JSON string without anything that breaks a line or does not show as itself."""
    text = json.dumps(value, ensure_ascii=False)
    return _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)
