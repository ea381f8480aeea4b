"""What the process remembers of a Session between two looks at the file: nothing that must last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from scheduler_daemon.clock import Handle
from scheduler_daemon.model import FollowUp, Key, OneShot, Reminder

MessageKey: TypeAlias = tuple[int, int] | str | None
"""Which message: number and revision of a one-shot, the occurrence's id of what was asked for by
hand, None for the batch of recurring ones. One of those that cannot be put into its batch stands
aside alone, by its number and revision."""

REFUSALS_BEFORE_ASIDE = 3

SILENT = "the host did not answer in time"


def record_of(reminder: Reminder) -> tuple[int, int]:
    """What stands for the reminder alone, also where it would come among others."""
    return reminder.number, reminder.revision


def message_of(reminder: Reminder) -> MessageKey:
    """The message that a reminder would come in."""
    if isinstance(reminder.rule, OneShot):
        return record_of(reminder)
    return None


def message_in(followup: FollowUp) -> MessageKey:
    """The message that a follow-up carries."""
    first = followup.occurrences[0]
    return first.occurrence_id if first.by_hand else message_of(first.reminder)


@dataclass(slots=True, eq=False)
class Pause:
    """Until when (monotonic seconds) nothing is tried, and how the last attempt ended.

    `message` is what was tried and `attempts` how often; 0 where it did not come to a push.
    """

    why: Literal["busy", "no_answer", "refused"]
    message: MessageKey
    attempts: int
    last_error: str | None
    until: float
    timer: Handle


@dataclass(slots=True, eq=False)
class Aside:
    """Until when (monotonic seconds) a message that was refused too often lets others pass."""

    last_error: str
    until: float
    timer: Handle


@dataclass(slots=True, eq=False)
class Tried:
    """A message that was pushed and not admitted: how often, and refused how often in a row."""

    attempts: int = 0
    refusals: int = 0
    aside: Aside | None = None


@dataclass(slots=True, eq=False)
class SessionState:
    """One Session that is live by name, pausing, waiting for a slot or has a message in flight.

    `pushed` waits for its answer, `recording` holds what was admitted and is not on disk yet.
    `epoch` rises whenever a plan that was made before must not be pushed any more. `failures`
    counts attempts in a row that spoke of the Session, `silent` is whether the last met silence.
    """

    key: Key
    task: asyncio.Task[None] | None = None
    pushed: FollowUp | None = None
    recording: list[FollowUp] = field(default_factory=list)
    epoch: int = 0
    pause: Pause | None = None
    failures: int = 0
    silent: bool = False
    tried: dict[MessageKey, Tried] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Whether something of it is under way."""
        return self.task is not None or bool(self.recording)

    @property
    def idle(self) -> bool:
        """Whether forgetting it would lose nothing but counts of attempts."""
        return not (self.busy or self.pause or any(each.aside for each in self.tried.values()))

    def begin(self, message: MessageKey) -> Tried:
        """Count an attempt at `message`; its number, from 1, is in `attempts`."""
        tried = self.tried.setdefault(message, Tried())
        tried.attempts += 1
        return tried

    def attempts(self, message: MessageKey) -> int:
        """How often `message` was tried and not admitted."""
        return self.tried[message].attempts if message in self.tried else 0

    def unanswered(self) -> int:
        """How often the Session's message was tried, where silence was all that came.

        0 otherwise, and while a pause tells it. It waits for a slot of its host.
        """
        if not self.silent or self.pause:
            return 0
        return max((each.attempts for each in self.tried.values() if not each.aside), default=0)

    def read_admission(self, followup: FollowUp) -> None:
        """The host has it: until its receipt is written nothing of the Session goes."""
        self.recording.append(followup)

    def recorded(self, followup: FollowUp) -> None:
        """Its receipt is on disk: nothing counts against its message or the Session any more."""
        self.epoch += 1
        self._forget(message_in(followup))
        self.failures = 0
        self.silent = False
        self.recording.remove(followup)

    def resume(self) -> None:
        """End the pause, if there is one, and let the next attempt count as the first."""
        if self.pause:
            self.pause.timer.cancel()
            self.pause = None
        self.failures = 0

    def set_aside(self, now: float) -> dict[MessageKey, Aside]:
        """The messages that stand aside at `now` (monotonic seconds)."""
        asides = {message: tried.aside for message, tried in self.tried.items()}
        return {message: aside for message, aside in asides.items() if aside and aside.until > now}

    def forget_tried(self, now: float) -> None:
        """Forget messages that do not stand aside: they are no longer due, or nobody takes them."""
        for message in self.tried.keys() - self.set_aside(now).keys():
            self._forget(message)

    def drop(self) -> None:
        """Cancel its timers: it is forgotten."""
        self.resume()
        for message in list(self.tried):
            self._forget(message)

    def _forget(self, message: MessageKey) -> None:
        tried = self.tried.pop(message, None)
        if tried and tried.aside:
            tried.aside.timer.cancel()
