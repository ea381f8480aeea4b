"""The table of agents: what is shipped, with what a user's file adds to it or changes in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHIPPED = Path(__file__).with_name("profiles.toml")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*")
"""What any id must match: no program takes it for an option, a path to elsewhere or two words."""

_LISTS = ("command", "busy", "unknown", "when_busy")
_TEXTS = ("session", "server", "agent")


class ProfilesRefused(Exception):
    """A table of profiles that cannot be used; the message says what can."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How messages reach one kind of agent; the members are explained in profiles.toml."""

    name: str
    command: Sequence[str]
    agent: str | None = None
    session: str = ".*"
    busy: Sequence[str] = ()
    unknown: Sequence[str] = ()
    when_busy: Sequence[str] = ()
    server: str | None = None

    def has_session(self, session_id: str) -> bool:
        """Whether the id may be one of this agent, and may be an argument at all."""
        return bool(ID.fullmatch(session_id) and re.fullmatch(self.session, session_id))


def load(path: Path | None) -> dict[str, Profile]:
    """All profiles by name; `path` is the user's file, None for none. Raises ProfilesRefused."""
    tables = dict(_tables(SHIPPED))
    if path is not None:
        for name, table in _tables(path).items():
            tables[name] = {**tables.get(name, {}), **table}
    return {name: _profile(name, table) for name, table in tables.items()}


def _tables(path: Path) -> Mapping[str, dict[str, object]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfilesRefused(f"{path} cannot be read: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ProfilesRefused(f"{path}: {name} is not a table; a profile begins with [{name}]")
    return tables


def _profile(name: str, table: Mapping[str, object]) -> Profile:
    if name == "auto":
        raise ProfilesRefused("no profile can be named auto: that means all of them")
    for key, value in table.items():
        if key not in (*_LISTS, *_TEXTS):
            known = ", ".join((*_LISTS, *_TEXTS))
            raise ProfilesRefused(f"[{name}] knows no {key}; it has {known}")
        if key in _TEXTS and not (isinstance(value, str) and value):
            raise ProfilesRefused(f"[{name}] {key} is a text in quotes")
        if key in _LISTS and not _is_list_of_texts(value):
            raise ProfilesRefused(f'[{name}] {key} is a list of texts, ["…", "…"]')
    if not table.get("command"):
        raise ProfilesRefused(f"[{name}] has no command")
    members: dict[str, object] = {"agent": name, **table}
    profile = Profile(name, **members)  # type: ignore[arg-type]  # looked at above
    _check(profile)
    return profile


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check(profile: Profile) -> None:
    for pattern in (profile.session, *profile.busy, *profile.unknown):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ProfilesRefused(
                f"[{profile.name}] {pattern!r} is no regular expression: {error}"
            ) from None
    if profile.server is not None and not re.match(r"http://[^/]+/?$", profile.server):
        raise ProfilesRefused(
            f"[{profile.name}] server is like http://127.0.0.1:4096, not {profile.server!r}"
        )
