"""Where the daemon's files lie when no setting says it. Looks at the machine, makes nothing.

Each rule gets the environment, the uid and the home directory that it is to be tried with.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

NAME = "scheduler-daemon"
SOCKET_NAME = "scheduler.sock"
DATABASE_NAME = "scheduler.db"
HOST_QUEUE_NAME = "host-exec.db"
SETUP_NAME = "setup"
MAX_SOCKET_BYTES = 107
"""The longest path of a Unix socket on Linux, without its ending NUL; unix(7)."""


class Place(NamedTuple):
    """A path, and what it came from, as a person would name that."""

    path: Path
    source: str


class SocketFolder(NamedTuple):
    """A folder that may hold the socket: all below `base`, which must exist, may be made."""

    folder: Path
    base: Path
    source: str


def home_directory(environ: Mapping[str, str], uid: int) -> Path | None:
    """$HOME when it is absolute, else what the user database says of `uid`, else None."""
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            return None
    return Path(home) if home.startswith("/") else None


def config_file(environ: Mapping[str, str], home: Path | None) -> Path | None:
    """Where a configuration file is looked for when none is named; None without a home."""
    base = _xdg(environ, "XDG_CONFIG_HOME", home and home / ".config")
    return base and base.path / NAME / "config.toml"


def state_directory(environ: Mapping[str, str], home: Path | None) -> Place | None:
    """The folder of the database; None when no variable and no home tells one."""
    given = _first_entry(environ, "STATE_DIRECTORY")
    if given:
        return Place(given, "$STATE_DIRECTORY")
    base = _xdg(environ, "XDG_STATE_HOME", home and home / ".local/state")
    return base and Place(base.path / NAME, base.source)


def socket_folders(environ: Mapping[str, str], uid: int, home: Path | None) -> list[SocketFolder]:
    """The folders that may hold the socket, in the order of the protocol's `Finding the socket`."""
    folders = []
    if given := _first_entry(environ, "RUNTIME_DIRECTORY"):
        folders.append(SocketFolder(given, given, "$RUNTIME_DIRECTORY"))
    if runtime := _xdg(environ, "XDG_RUNTIME_DIR", None):
        folders.append(SocketFolder(runtime.path / NAME, runtime.path, runtime.source))
    user = Path("/run/user") / str(uid)
    folders.append(SocketFolder(user / NAME, user, "the user's runtime directory"))
    if home:
        folders.append(SocketFolder(home / ".local/state" / NAME, home, "the home directory"))
    return folders


def usable(place: SocketFolder) -> bool:
    """Whether the folder is there and may be written in, or can be made below its base."""
    folder = place.folder
    while folder != place.base and not os.access(folder, os.F_OK):
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK) and folder.is_dir()


def socket(
    environ: Mapping[str, str],
    uid: int,
    home: Path | None,
    usable: Callable[[SocketFolder], bool] = usable,
) -> Place:
    """The socket in the first usable folder, of those whose path is short enough for one.

    The last of them when none is usable: whoever binds there (systemd may have handed a socket
    over, and then nobody does) says what is wrong with it.
    """
    places = [
        (folder, Place(folder.folder / SOCKET_NAME, folder.source))
        for folder in socket_folders(environ, uid, home)
    ]
    short = [each for each in places if len(os.fsencode(each[1].path)) <= MAX_SOCKET_BYTES]
    return next((place for folder, place in short if usable(folder)), short[-1][1])


def _first_entry(environ: Mapping[str, str], variable: str) -> Path | None:
    """The first of a colon list as systemd sets it; None when unset, empty or relative."""
    first = environ.get(variable, "").partition(":")[0]
    return Path(first) if first.startswith("/") else None


def _xdg(environ: Mapping[str, str], variable: str, default: Path | None) -> Place | None:
    """A base directory; relative values are ignored, as the XDG specification says."""
    value = environ.get(variable, "")
    if value.startswith("/"):
        return Place(Path(value), f"${variable}")
    return Place(default, "the home directory") if default else None
