"""Every setting of the daemon: its key, default, range and unit. Not where values come from.

Flags, environment variables, error messages and `config.example.toml` follow from what is here.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from scheduler_daemon import places

MIB = 1024 * 1024
_MAX_ID = 2**32 - 2  # the highest uid or gid; one more means "no change" to chown(2)


def _absolute(value: object) -> object:
    """Text and paths as an absolute path; anything else as it is, for pydantic to refuse."""
    if not isinstance(value, str | Path):
        return value
    if not str(value).startswith("/") or "\0" in str(value):
        raise ValueError
    return Path(value)


def user_number(user: int | str) -> int:
    """The uid of a user given by number or name; ValueError when there is none."""
    return _number(user, "user", lambda name: pwd.getpwnam(name).pw_uid)


def group_number(group: int | str) -> int:
    """The gid of a group given by number or name; ValueError when there is none."""
    return _number(group, "group", lambda name: grp.getgrnam(name).gr_gid)


def _number(entry: int | str, kind: str, look_up: Callable[[str], int]) -> int:
    if isinstance(entry, int):
        if not 0 <= entry <= _MAX_ID:
            raise ValueError(f"hold numbers of a {kind} from 0 to {_MAX_ID}")
        return entry
    try:
        return look_up(entry)
    except (KeyError, ValueError):  # ValueError: a NUL in the name
        raise ValueError(f"name a {kind} of this machine where it names one") from None


def _users(entries: tuple[int | str, ...]) -> tuple[int | str, ...]:
    for entry in entries:
        user_number(entry)
    return entries


def _groups(entries: tuple[int | str, ...]) -> tuple[int | str, ...]:
    for entry in entries:
        group_number(entry)
    return entries


AbsolutePath = Annotated[Path, BeforeValidator(_absolute)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[float, Field(ge=0.001, le=86_400)]
Days = Annotated[int, Field(ge=1, le=36_500)]
Accounts = Annotated[tuple[int | str, ...], Field(strict=False)]  # lists of TOML and JSON are lists


class Settings(BaseModel):
    """The effective settings. Both paths are absolute; `load_settings` finds their defaults."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    state_directory: Annotated[
        AbsolutePath,
        Field(
            description="Folder of the database, scheduler.db. Default: the first entry of"
            " $STATE_DIRECTORY, else scheduler-daemon in $XDG_STATE_HOME, else"
            " ~/.local/state/scheduler-daemon.",
            examples=["~/.local/state/scheduler-daemon"],
        ),
    ]
    socket: Annotated[
        AbsolutePath,
        Field(
            description="Path of the Unix socket, at most 107 bytes; not used when systemd hands"
            " one over. Default: scheduler.sock in the first of these folders that is there or can"
            " be made: the first entry of $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/scheduler-daemon,"
            " /run/user/<uid>/scheduler-daemon, ~/.local/state/scheduler-daemon.",
            examples=["/run/user/1000/scheduler-daemon/scheduler.sock"],
        ),
    ]
    max_prompt_chars: Annotated[
        int, Field(ge=1, le=32_768, description="Longest prompt, in characters (code points).")
    ] = 32_768
    max_active_per_session: Annotated[
        Count, Field(description="Number of active reminders kept for one Session.")
    ] = 1_000
    max_active_per_owner: Annotated[
        Count, Field(description="Number of active reminders kept for one owner (uid).")
    ] = 100_000
    max_connections_per_uid: Annotated[
        Count, Field(description="Number of connections open at once for one uid.")
    ] = 256
    max_pending_requests: Annotated[
        Count, Field(description="Number of unanswered requests on one connection.")
    ] = 64
    max_frame_bytes: Annotated[
        int,
        Field(ge=MIB, le=64 * MIB, description="Longest frame (line) of the protocol, in bytes."),
    ] = MIB
    max_write_buffer_bytes: Annotated[
        int,
        Field(
            ge=MIB,
            le=1024 * MIB,
            validate_default=True,
            description="Kept for a peer that does not read before it is dropped, in bytes;"
            " not less than max_frame_bytes.",
        ),
    ] = 8 * MIB
    write_timeout_seconds: Annotated[
        Seconds,
        Field(description="A peer that read nothing for so long is dropped, in seconds."),
    ] = 30
    followup_timeout_seconds: Annotated[
        Seconds, Field(description="How long a host may take to answer a follow-up, in seconds.")
    ] = 30
    write_wait_seconds: Annotated[
        Seconds,
        Field(
            description="How long a request waits while another process holds the database, in"
            " seconds."
        ),
    ] = 10
    unclaimed_warn_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=31_536_000,
            description="A reminder overdue without a host for so long is warned of, in seconds.",
        ),
    ] = 3_600
    history_days: Annotated[
        Days,
        Field(
            description="How long receipts are kept, in days; the newest of an active reminder"
            " stays."
        ),
    ] = 30
    history_per_reminder: Annotated[
        Count, Field(description="Number of receipts kept for one reminder.")
    ] = 200
    ended_days: Annotated[
        Days,
        Field(
            description="How long ended reminders are kept, and the idempotency keys of those"
            " that are gone, in days."
        ),
    ] = 30
    stop_timeout_seconds: Annotated[
        Seconds,
        Field(description="How long stopping waits for follow-ups in flight, in seconds."),
    ] = 10
    allowed_uids: Annotated[
        Accounts,
        AfterValidator(_users),
        Field(
            description="Users who may connect, as numbers or names, beside root and the daemon's"
            " own user. Their socket is open to all (0666), and each peer is judged by its"
            " credentials; for one group alone (allowed_gids) it is that group's (0660). A unit of"
            " systemd makes its socket itself: give that SocketMode=0666.",
            examples=[[1000, "alice"]],
        ),
    ] = ()
    allowed_gids: Annotated[
        Accounts,
        AfterValidator(_groups),
        Field(
            description="Groups whose members may connect, as numbers or names.",
            examples=[["scheduler"]],
        ),
    ] = ()
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="What is logged: this level and above. Words of reminders: debug only."),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "text"],
        Field(description="Form of the log on stderr; auto is text on a terminal, else json."),
    ] = "auto"

    @field_validator("socket")
    @classmethod
    def _fits_an_address(cls, path: Path) -> Path:
        if len(os.fsencode(path)) > places.MAX_SOCKET_BYTES:
            raise ValueError(f"be at most {places.MAX_SOCKET_BYTES} bytes long")
        return path

    @field_validator("max_write_buffer_bytes")
    @classmethod
    def _holds_a_frame(cls, size: int, info: ValidationInfo) -> int:
        frame = info.data.get("max_frame_bytes", MIB)
        if size < frame:
            raise ValueError(f"be at least max_frame_bytes, {frame}")
        return size


SCHEMA: dict[str, dict[str, Any]] = Settings.model_json_schema()["properties"]
"""What pydantic says of each key: type, bounds, default, description."""


def accepted(key: str) -> str:
    """What may stand for `key`, in words that follow `must be`."""
    schema = SCHEMA[key]
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"a list of numbers and names, such as {json.dumps(schema['examples'][0])}"
    if schema["type"] == "string":
        return "an absolute path or one that starts with ~/"
    kind = "an integer" if schema["type"] == "integer" else "a number"
    return f"{kind} from {schema['minimum']} to {schema['maximum']}"


def explained(key: str) -> str:
    """A setting in one or two sentences: what it is, its unit, and what it takes."""
    words = accepted(key)
    return f"{SCHEMA[key]['description']} {words[0].upper()}{words[1:]}."
