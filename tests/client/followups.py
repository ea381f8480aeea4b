"""Follow-ups as a daemon would push them, for tests of hosts."""

from __future__ import annotations

from typing import Any, cast

from scheduler_daemon.wire.shapes import Followup, FollowupOccurrence


def occurrence(occurrence_id: str, **members: Any) -> FollowupOccurrence:
    """One occurrence of the reminder that stands before the `@` of its id."""
    reminder_id, _, instant = occurrence_id.partition("@")
    made: FollowupOccurrence = {
        "occurrence_id": occurrence_id,
        "reminder_id": reminder_id,
        "occurrence_at": instant,
        "kind": "after",
        "rule_text": "once, 1 second after it was set",
        "prompt": f"do {reminder_id}",
    }
    return cast("FollowupOccurrence", made | members)


def followup(
    *occurrences: str | FollowupOccurrence, session: str = "s1", push: int = 1
) -> Followup:
    """A follow-up with these occurrences, ids of which are made into whole ones."""
    whole = [occurrence(each) if isinstance(each, str) else each for each in occurrences]
    prompts = [f'reminder: "{each["reminder_id"]}"\nprompt: "{each["prompt"]}"' for each in whole]
    return {
        "followup_id": f"f{push}-{whole[0]['occurrence_id']}",
        "session_id": session,
        "batch": len(whole) > 1,
        "decided_at": "2026-08-07T01:00:00.000Z",
        "attempt": push,
        "text": "\n\n".join(["[head]", *prompts, "[end]"]),
        "occurrences": whole,
    }
