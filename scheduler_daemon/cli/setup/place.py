"""What a setup has to know of this machine: how schedctl starts, where the daemon listens."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scheduler_daemon import config, places
from scheduler_daemon.cli import files
from scheduler_daemon.cli.exits import ConfigurationError, FailedError
from scheduler_daemon.cli.setup.agents import Server
from scheduler_daemon.cli.setup.records import Records, make_folder
from scheduler_daemon.client.finding import answering
from scheduler_daemon.mcp.proof import new_key, read_key


def server(socket: str | None) -> Server:
    """How this very schedctl is started; `socket` is the daemon's, None looks for it.

    Raises FailedError for a path that is no text, ConfigurationError.
    """
    python_path = os.environ.get("PYTHONPATH")
    variables = {"PYTHONPATH": python_path} if python_path else {}
    made = Server(_words(), socket_path(socket), str(key_file()), variables)
    for word in [*made.args(), made.key, *variables.values()]:
        if not _is_text(word):
            raise FailedError(f"{word!r} is not UTF-8, and cannot stand in a configuration")
    return made


def _words() -> list[str]:
    program = Path(sys.argv[0])
    if program.name == "schedctl" and program.exists():
        return [str(program.absolute())]
    return [sys.executable, "-P", "-m", "scheduler_daemon.cli"]


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def socket_path(named: str | None) -> str:
    """Where the daemon listens, or would: `named`, the variable, who answers, its settings.

    Raises ConfigurationError.
    """
    given = named or os.environ.get("SCHEDULER_DAEMON_SOCKET")
    if given:
        return str(Path(given).absolute())
    found = answering()
    if found:
        return found[0]
    try:
        return str(config.load().settings.socket)
    except config.ConfigError as error:
        raise ConfigurationError(str(error)) from None


def home() -> Path:
    """This user's home directory. Raises FailedError."""
    found = places.home_directory(os.environ, os.getuid())
    if found is None:
        raise FailedError("this user has no home directory, so there is no configuration")
    return found


def records() -> Records:
    """What was set up before, in the folder of the daemon's state. Raises FailedError."""
    return Records(_folder())


def key_file() -> Path:
    """Where the key is by which hooks and plugins prove a Session. Raises FailedError."""
    return _folder() / "session-key"


def make_key() -> None:
    """Make the key, for this user's eyes only, where none is. Raises FailedError."""
    path = key_file()
    try:
        read_key(path)
    except (OSError, ValueError):
        make_folder(path.parent)
        files.write(str(path), new_key().encode(), 0o600)


def _folder() -> Path:
    state = places.state_directory(os.environ, home())
    assert state is not None  # there is a home
    return state.path / places.SETUP_NAME
