"""Every function that works for one Session or one wake, found by itself, and made to raise.

What is patched before a World is made stays patched; `Fault` says when it raises.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

import pytest

from scheduler_daemon import (
    planning,
    sending,
    sessions,
    star_scans,
    telling,
    unclaimed,
    under_way,
    upkeep,
    watching,
)
from scheduler_daemon.delivery import backoff, framing, plan
from scheduler_daemon.hosts import host, lines, outcomes
from scheduler_daemon.sessions import SessionState
from scheduler_daemon.store import receipts

MODULES = (
    *(planning, backoff, framing, plan, sending, sessions, under_way, receipts),
    *(host, lines, outcomes, telling, watching, star_scans, unclaimed, upkeep),
)

BAD = "bad"
"""The name of the Sessions for which functions fail."""


class Place(NamedTuple):
    """A function of a module, or a method or property of a class in it."""

    module: ModuleType
    owner: type | None
    name: str

    @property
    def text(self) -> str:
        owner = f"{self.owner.__name__}." if self.owner else ""
        return f"{self.module.__name__.removeprefix('scheduler_daemon.')}.{owner}{self.name}"


def places() -> list[Place]:
    """All of them, in the order written; what Python makes itself (dunder) is left out."""
    return [place for module in MODULES for place in _of_module(module)]


def _of_module(module: ModuleType) -> Iterator[Place]:
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            yield Place(module, None, name)
        elif inspect.isclass(value) and not _has_no_code(value):
            for member, what in vars(value).items():
                if isinstance(what, FunctionType | property) and not member.startswith("__"):
                    yield Place(module, value, member)


def _has_no_code(kind: type) -> bool:
    return issubclass(kind, enum.Enum | tuple | BaseException) or Protocol in kind.__bases__


class Fault:
    """Makes a place raise `error` while `on`: for BAD Sessions, or for everybody (`anybody`).

    `hits` counts what it met there. `state_of` finds the Session whose task is running.
    """

    def __init__(self, place: Place, error: Callable[[], BaseException]) -> None:
        self.place = place
        self.error = error
        self.on = False
        self.anybody = False
        self.hits = 0
        self.raised = 0
        self.tasks: Callable[[], list[asyncio.Task[None] | None]] = list

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        place = self.place
        if place.owner is not None:
            found = vars(place.owner)[place.name]
            if isinstance(found, property):
                assert isinstance(found.fget, FunctionType)
                monkeypatch.setattr(place.owner, place.name, property(self._wrapped(found.fget)))
            else:
                monkeypatch.setattr(place.owner, place.name, self._wrapped(found))
            return
        original = getattr(place.module, place.name)
        wrapped = self._wrapped(original)
        for name, module in list(sys.modules.items()):
            ours = name.startswith(("scheduler_daemon", "tests.support"))
            if ours and vars(module).get(place.name) is original:
                monkeypatch.setattr(module, place.name, wrapped)

    def _wrapped(self, function: FunctionType) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **named: Any) -> Any:
                self._met(args, named)
                return await function(*args, **named)

            return waiting

        @functools.wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            self._met(args, named)
            return function(*args, **named)

        return called

    def _met(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not (self.anybody or _concerns(args) or _concerns(named) or self._in_its_task()):
            return
        self.hits += 1
        if self.on:
            self.raised += 1
            raise self.error()

    def _in_its_task(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread of the file
            return False
        return task is not None and task in self.tasks()


def _concerns(value: object, depth: int = 4) -> bool:
    """Whether a value is of a BAD Session, or holds one that is."""
    if not depth:
        return False
    match value:
        case str():
            return value == BAD
        case SessionState():
            return value.key[1] == BAD
        case Mapping():
            return any(_concerns(each, depth - 1) for each in value.values())
        case list() | tuple() if not hasattr(value, "_fields"):
            return any(_concerns(each, depth - 1) for each in value[:3])
    parts = ("session_id", "followup", "reminder", "one_shots", "recurring", "reminders", "shared")
    held = (getattr(value, part, None) for part in parts)
    return any(_concerns(part, depth - 1) for part in held if part is not None)
