"""Which follow-ups the host takes, by whose conversation they are for, and where each belongs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler_daemon.client.answers import Gone
from scheduler_daemon.exec_host.profiles import Profile
from scheduler_daemon.wire.cutting import followup_of_some
from scheduler_daemon.wire.shapes import Followup, FollowupOccurrence


class Context(NamedTuple):
    """What the host reads of a reminder's context; None where the reminder does not say it."""

    agent: str | None
    cwd: str | None


class Choice:
    """Takes what is for one of `profiles`.

    `unnamed` takes reminders whose context names no agent, None for nobody. Among others of their
    follow-up that do, they are for the same agent.
    """

    def __init__(self, profiles: Iterable[Profile], unnamed: Profile | None) -> None:
        self._profiles = {each.agent: each for each in profiles if each.agent is not None}
        self._unnamed = unnamed

    def accept(self, followup: Followup) -> list[Followup] | Gone:
        """The messages that the follow-up becomes: one for each agent and directory in it."""
        spoken = next(filter(_names_agent, followup["occurrences"]), None)
        occurrences = [_completed(each, spoken) for each in followup["occurrences"]]
        contexts = [context_of(each) for each in occurrences]
        for context in contexts:
            profile = self.profile(context.agent)
            if profile is None or not profile.has_session(followup["session_id"]):
                return Gone()
        whole: Followup = {**followup, "occurrences": occurrences}
        distinct = list(dict.fromkeys(contexts))
        if len(distinct) == 1:
            return [whole]
        parts = [followup_of_some(whole, _places(contexts, each)) for each in distinct]
        return [
            {**part, "followup_id": f"{part['followup_id']}.{number}"}
            for number, part in enumerate(parts, 1)
        ]

    def profile(self, agent: str | None) -> Profile | None:
        """Who takes reminders of this agent."""
        return self._unnamed if agent is None else self._profiles.get(agent)


def context_of(occurrence: FollowupOccurrence) -> Context:
    """What the occurrence's context says; an empty text says nothing."""
    context = occurrence.get("context", {})
    return Context(context.get("agent") or None, context.get("cwd") or None)


def _names_agent(occurrence: FollowupOccurrence) -> bool:
    return context_of(occurrence).agent is not None


def _completed(own: FollowupOccurrence, other: FollowupOccurrence | None) -> FollowupOccurrence:
    """One that names no agent, with what is missing taken from another of its follow-up."""
    if other is None or _names_agent(own):
        return own
    completed: FollowupOccurrence = {**own, "context": other["context"] | own.get("context", {})}
    return completed


def _places(contexts: Sequence[Context], wanted: Context) -> list[int]:
    return [place for place, own in enumerate(contexts) if own == wanted]
