"""This user's own service manager, asked with `systemctl --user`; what for, stands elsewhere."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from scheduler_daemon.cli.exits import FailedError

LINGERING = Path("/var/lib/systemd/linger")
"""Holds a file for each user who lingers."""

_FOLDER = re.compile(r'"((?:\\.|[^"\\])*)"|(\S+)')
"""A folder as `systemctl show` has it: one with a blank stands in quotes."""


def _run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """How a command ended. In a session of `su` or `sudo` nothing names the runtime folder."""
    runtime = f"/run/user/{os.getuid()}"
    named = {"XDG_RUNTIME_DIR": runtime} if Path(runtime).is_dir() else {}
    path = shutil.which(program)
    if path is None:
        return subprocess.CompletedProcess(words, 127, "", f"{program} is not installed")
    return subprocess.run(  # noqa: S603  words of ours, no shell
        [path, *words],
        env=named | os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ask(*words: str) -> str:
    """What `systemctl --user` prints. Raises FailedError with what it says when it fails."""
    done = _run("systemctl", "--user", *words)
    if done.returncode:
        raise FailedError(f"`systemctl --user {' '.join(words)}` failed: {_line(done.stderr)}")
    return done.stdout.strip()


def folders() -> list[str]:
    """Where the manager looks for units. Raises FailedError where there is none."""
    done = _run("systemctl", "--user", "show", "--property=UnitPath", "--value")
    if done.returncode:
        raise FailedError(
            f"no service manager of this user answers ({_line(done.stderr)}): log in as the user "
            f"whose daemon it is to be, or let `loginctl enable-linger {user()}` start one"
        )
    return [
        re.sub(r"\\(.)", r"\1", quoted or plain) for quoted, plain in _FOLDER.findall(done.stdout)
    ]


def prop(name: str, unit: str) -> str:
    """A property of a unit, as `systemctl show` has it."""
    return ask("show", f"--property={name}", "--value", unit)


def stop(units: Iterable[str]) -> None:
    """Stop these units, and forget how they ended."""
    _run("systemctl", "--user", "disable", "--now", *units)
    _run("systemctl", "--user", "reset-failed", *units)


def user() -> str:
    """The name of this user, else the number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def lingers() -> bool:
    """Whether what this user runs goes on after the logout."""
    done = _run("loginctl", "show-user", user(), "--property=Linger", "--value")
    # Of a user who is not logged in loginctl says nothing.
    return done.stdout.strip() == "yes" or (LINGERING / user()).exists()


def enable_linger() -> None:
    """Let it go on. Raises FailedError."""
    done = _run("loginctl", "enable-linger", user())
    if done.returncode:
        raise FailedError(f"`loginctl enable-linger {user()}` failed: {_line(done.stderr)}")


def _line(said: str) -> str:
    return " ".join(said.split()) or "it said nothing"
