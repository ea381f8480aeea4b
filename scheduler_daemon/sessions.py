"""What the process remembers of a Session between two looks at the file: nothing that must last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from scheduler_daemon.clock import Handle
from scheduler_daemon.model import FollowUp, OneShot, Reminder
from scheduler_daemon.server.hosts import Key

MessageKey: TypeAlias = tuple[int, int] | None
"""Which message: number and revision of a one-shot, None for the batch of recurring ones."""

REFUSALS_BEFORE_ASIDE = 3


def message_of(reminder: Reminder) -> MessageKey:
    """The message that a reminder would come in."""
    if isinstance(reminder.rule, OneShot):
        return reminder.number, reminder.revision
    return None


def message_in(followup: FollowUp) -> MessageKey:
    """The message that a follow-up carries."""
    return message_of(followup.occurrences[0].reminder)


@dataclass(slots=True, eq=False)
class Pause:
    """Until when (monotonic seconds) nothing is tried, and how the last attempt ended."""

    why: Literal["busy", "no_answer", "refused"]
    until: float
    timer: Handle


@dataclass(slots=True, eq=False)
class Aside:
    """A message that was refused again and again: it lets others pass until its own pause ends."""

    attempts: int
    last_error: str
    until: float
    timer: Handle


@dataclass(slots=True, eq=False)
class SessionState:
    """One Session that is live by name, pausing, waiting for a slot or has a message in flight.

    `pushed` waits for its answer, `recording` holds what was admitted and is not on disk yet.
    `epoch` rises whenever a plan that was made before must not be pushed any more. `failures`
    counts attempts in a row that spoke of the Session, `attempts` the pushes of the message
    `message`, `refusals` those in a row that spoke of it.
    """

    key: Key
    task: asyncio.Task[None] | None = None
    pushed: FollowUp | None = None
    recording: list[FollowUp] = field(default_factory=list)
    epoch: int = 0
    pause: Pause | None = None
    failures: int = 0
    silent: bool = False
    message: MessageKey = None
    attempts: int = 0
    refusals: int = 0
    last_error: str | None = None
    asides: dict[MessageKey, Aside] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Whether something of it is under way."""
        return self.task is not None or bool(self.recording)

    @property
    def idle(self) -> bool:
        """Whether forgetting it would lose nothing."""
        return not (self.busy or self.pause or self.asides)

    def begin(self, message: MessageKey) -> int:
        """Count a push of `message`; gives the number of this attempt, from 1."""
        if message != self.message or self.attempts == 0:
            aside = self.asides.get(message)
            self.message = message
            self.attempts = self.refusals = aside.attempts if aside else 0
        self.attempts += 1
        return self.attempts

    def read_admission(self, followup: FollowUp) -> None:
        """The host has it: until its receipt is written nothing of the Session goes."""
        self.recording.append(followup)
        self.epoch += 1

    def recorded(self, followup: FollowUp) -> None:
        """Its receipt is on disk: nothing counts against its message or the Session any more."""
        self.recording.remove(followup)
        self.epoch += 1
        message = message_in(followup)
        aside = self.asides.pop(message, None)
        if aside:
            aside.timer.cancel()
        if message == self.message:
            self.attempts = self.refusals = 0
        self.failures = 0
        self.silent = False
        self.last_error = None

    def resume(self) -> None:
        """End the pause, if there is one, and let the next attempt count as the first."""
        if self.pause:
            self.pause.timer.cancel()
            self.pause = None
        self.failures = 0

    def set_aside(self, now: float) -> set[MessageKey]:
        """The messages that stand aside at `now` (monotonic seconds)."""
        return {message for message, aside in self.asides.items() if aside.until > now}

    def forget_asides(self, now: float) -> None:
        """Forget messages whose own pause is over: they are no longer due, or nobody takes them."""
        stay = self.set_aside(now)
        self.asides = {message: self.asides[message] for message in stay}

    def drop(self) -> None:
        """Cancel its timers: it is forgotten."""
        self.resume()
        for aside in self.asides.values():
            aside.timer.cancel()
        self.asides.clear()
