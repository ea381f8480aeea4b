"""The eight tools: what each takes, gives and may be relied on for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler_daemon.mcp import arguments as given
from scheduler_daemon.mcp import results
from scheduler_daemon.mcp.reminders import Call, Reminders


class Hints(NamedTuple):
    """What a client may rely on when it asks the person, or calls again."""

    reads: bool = False
    destroys: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is listed and called. `repeats`: a second call changes nothing more."""

    title: str
    takes: type[given.Arguments]
    gives: type[results.Result]
    run: Callable[[Reminders, Call, Any], Awaitable[results.Result]]
    hints: Hints = field(default=Hints())


TOOLS = {
    "reminder_create": Tool("Create a reminder", given.Create, results.Made, Reminders.create),
    "reminder_list": Tool(
        "List reminders", given.List, results.Listed, Reminders.list, Hints(reads=True)
    ),
    "reminder_update": Tool(
        "Change a reminder",
        given.Update,
        results.Changed,
        Reminders.update,
        Hints(destroys=True, repeats=True),
    ),
    "reminder_delete": Tool(
        "Delete a reminder",
        given.One,
        results.Deleted,
        Reminders.delete,
        Hints(destroys=True, repeats=True),
    ),
    "reminder_pause": Tool(
        "Pause a reminder",
        given.One,
        results.OneReminder,
        Reminders.pause,
        Hints(repeats=True),
    ),
    "reminder_resume": Tool(
        "Resume a reminder",
        given.One,
        results.OneReminder,
        Reminders.resume,
        Hints(repeats=True),
    ),
    "reminder_snooze": Tool("Snooze a reminder", given.Snooze, results.Made, Reminders.snooze),
    "reminder_preview": Tool(
        "Preview a rule",
        given.Preview,
        results.Previewed,
        Reminders.preview,
        Hints(reads=True),
    ),
}
