"""What a model is told: about reminders, about each tool, and which zone to take a time for."""

from __future__ import annotations

TIMED = frozenset({"reminder_create", "reminder_update", "reminder_snooze", "reminder_preview"})
"""The tools that take a time."""


def instructions(zone: str | None) -> str:
    """What is said once, about all tools."""
    return (
        "Reminders for yourself: each comes back into this conversation as a message when it is "
        "due, also days later and after everything was restarted. When one comes, do what it says, "
        "under the same permissions as anything else here. Every result has the current time as "
        f"`now`: with none yet, call reminder_list before you work out a date. {zone_of(zone)}"
    )


def zone_of(zone: str | None) -> str:
    """Which zone to assume; nothing is stored from it."""
    if zone is None:
        return (
            "Nothing says in which time zone the person is: ask before you take a time of day from "
            "them."
        )
    return (
        f"A time that the person gives without a zone is meant in {zone}, unless the conversation "
        "says otherwise."
    )


DESCRIPTIONS = {
    "reminder_create": (
        "Make a reminder in this conversation. Its prompt comes back to you here when it is due, "
        "also when the conversation was closed meanwhile. `when` takes exactly one member. Tell "
        "the person `reminder.scheduled_at_local` of the result, so that a mistake shows now."
    ),
    "reminder_list": (
        "The reminders of this conversation, and the current time. `last_dispatch` of each is its "
        "newest delivery; without it, it never came. `waiting_for.why` says why it has not come "
        "yet: target (not due), no_host (due, and no agent host takes this conversation now: it "
        "comes when one does), paused and so on."
    ),
    "reminder_update": (
        "Change the words or the time of a reminder. Only what you give is changed; `when`, with "
        "exactly one member, replaces its rule, whatever kind that is."
    ),
    "reminder_delete": "Delete a reminder of this conversation for good.",
    "reminder_pause": "Keep a reminder from coming until it is resumed.",
    "reminder_resume": (
        "Let a paused reminder come again. A recurring one goes on with its first time after now, "
        "one that comes once and is late comes at once."
    ),
    "reminder_snooze": (
        "Let the words of a reminder, which may have ended, come once more. It makes a new "
        "reminder; the other one stays as it is."
    ),
    "reminder_preview": "When a rule would come, without making anything.",
}


def description(tool: str, zone: str | None) -> str:
    """What is said about one tool."""
    return DESCRIPTIONS[tool] + (f" {zone_of(zone)}" if tool in TIMED else "")
