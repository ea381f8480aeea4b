"""The unit files of one user: what is in them, and which of them may be touched.

They are those of systemd/user with the interpreter in use in place of a command that is
installed for all. What is asked of a manager stands in user_manager.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import scheduler_daemon
from scheduler_daemon.cli.exits import FailedError

DAEMON = ("scheduler-daemon.socket", "scheduler-daemon.service")
HOST_EXEC: tuple[str, ...] = ("scheduler-daemon-host-exec.service",)
ALL = DAEMON + HOST_EXEC

State: TypeAlias = Literal["missing", "ours", "changed", "foreign"]

_COMMAND = "ExecStart=scheduler-daemon run"
_HOST_COMMAND = "ExecStart=schedctl host-exec --all --profile auto"
_PLACE = "ListenStream=%t/scheduler-daemon/scheduler.sock"
_MARK = "# Written by `schedctl service install`, and its own as long as nobody changes it: "

_CARRIED = ("PYTHONPATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Variables by which a daemon started here would find itself, its settings and its file."""


def templates() -> Path:
    """Where the units are: inside the package when installed, beside it in a checkout."""
    package = Path(scheduler_daemon.__file__).parent
    inside = package / "units"
    return inside if inside.is_dir() else package.parent / "systemd/user"


def command(module: str = "scheduler_daemon") -> list[str]:
    """What starts a module of the package with this interpreter, wherever it is started."""
    return [sys.executable, "-P", "-m", module]


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the daemon would be started with here and a manager does not know."""
    kept = {
        name: text
        for name, text in sorted(environ.items())
        if text and (name in _CARRIED or name.startswith("SCHEDULER_DAEMON_"))
    }
    kept.pop("SCHEDULER_DAEMON_SOCKET", None)  # the socket unit has it
    if "SCHEDULER_DAEMON_CONFIG" in kept:
        kept["SCHEDULER_DAEMON_CONFIG"] = str(Path(kept["SCHEDULER_DAEMON_CONFIG"]).absolute())
    return kept


def texts(environ: Mapping[str, str], socket: Path | None) -> dict[str, str]:
    """Each of the daemon's files by its name; `socket` where it is not in the usual place.

    Raises FailedError for what a unit file cannot hold.
    """
    changes = {_COMMAND: _start([*command(), "run"], carried(environ))}
    if socket is not None:
        changes[_PLACE] = f"ListenStream={_specified(str(socket))}"
    return _texts(DAEMON, changes)


def host_texts(environ: Mapping[str, str], socket: Path | None) -> dict[str, str]:
    """The same of the host of agents, which are found in the PATH of the moment."""
    variables = {"PATH": environ.get("PATH", os.defpath), **carried(environ)}
    if socket is not None:
        variables["SCHEDULER_DAEMON_SOCKET"] = str(socket)
    words = _HOST_COMMAND.split()[1:]
    start = _start([*command("scheduler_daemon.cli"), *words], variables)
    return _texts(HOST_EXEC, {_HOST_COMMAND: start})


def _start(words: Sequence[str], variables: Mapping[str, str]) -> str:
    """The lines that start a command with these variables; its first word is a path.

    Raises FailedError for one that systemd would not start.
    """
    if set(words[0]) & set("\\'\""):
        raise FailedError(
            f"this Python is {words[0]}, and systemd starts nothing with a quote or a backslash in "
            "its path: install in an environment that lies elsewhere"
        )
    lines = [f"Environment={quoted(f'{name}={text}')}" for name, text in variables.items()]
    return "\n".join([*lines, " ".join(["ExecStart=" + quoted(words[0]), *words[1:]])])


def _texts(names: Iterable[str], changes: Mapping[str, str]) -> dict[str, str]:
    return {name: marked(_changed(templates() / name, changes)) for name in names}


def _changed(template: Path, changes: Mapping[str, str]) -> str:
    lines = template.read_text(encoding="utf-8").splitlines()
    return "\n".join(changes.get(line, line) for line in lines) + "\n"


def quoted(text: str) -> str:
    """One word of a unit file, systemd.syntax(7). Raises FailedError for control characters."""
    return '"' + _specified(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _specified(text: str) -> str:
    if not text.isprintable():
        raise FailedError(f"{text!r} cannot stand in a unit file")
    return text.replace("%", "%%")


def marked(text: str) -> str:
    """The text as it is written, so that `state` knows it again."""
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def state(path: Path) -> State:
    """Whether the file was written by this program, and is as it was then."""
    try:
        if path.is_symlink() or not path.is_file():
            return "foreign" if os.path.lexists(path) else "missing"
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return "foreign"
    if not first.startswith(_MARK):
        return "foreign"
    return "ours" if marked(rest).startswith(first + "\n") else "changed"


def check(folder: Path, names: Iterable[str]) -> None:
    """Raises FailedError where one of these files in `folder` may not be touched."""
    for name in names:
        match state(folder / name):
            case "foreign":
                was = "was not written by schedctl"
            case "changed":
                was = "was changed since schedctl wrote it (`systemctl --user edit` adds to a unit)"
            case _:
                continue
        raise FailedError(f"{folder / name} {was}; nothing was done: take it away first")


def written(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Those of them that are there and this program's, whole, by name."""
    paths = [folder / name for name in names]
    return {p.name: p.read_text(encoding="utf-8") for p in paths if state(p) == "ours"}


def write(folder: Path, contents: Mapping[str, str]) -> None:
    """Write all of them, each in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        new = folder / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(folder / name)


def remove(folder: Path, names: Iterable[str]) -> list[Path]:
    """Remove those of them that are there; `check` has been asked. Gives what went."""
    gone = [folder / name for name in names if state(folder / name) == "ours"]
    for path in gone:
        path.unlink()
    return gone
