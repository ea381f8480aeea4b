"""`schedctl service`: the daemon as a service of this user's own service manager."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from scheduler_daemon.cli import asking, exits, output, unit_files, user_manager
from scheduler_daemon.cli.exits import ConfigurationError, FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from scheduler_daemon.config import Effective

USAGE = "install | uninstall | status [options]"
ABOUT = """\
Let systemd start the daemon for this user, and again when it failed.

`install` writes two user units for the Python that runs this, and starts them;
the reminders stay where a daemon that is started by hand keeps them.
`uninstall` stops and removes them; the reminders stay. Neither touches a file
that it did not write, or that somebody has changed since.
`status` shows how they are, and ends with 1 when the daemon does not run.

User units end when the user logs out; `loginctl enable-linger` keeps them. The
unit for all users of a machine is in the documentation."""
EXAMPLES = """\
  schedctl service install --dry-run
  schedctl service install
  schedctl service status"""


SOCKET, SERVICE = unit_files.NAMES

_STATES = {
    "missing": "not there",
    "ours": "written by schedctl",
    "changed": "written by schedctl, and changed since",
    "foreign": "not written by schedctl",
}


def options(parser: Parser) -> None:
    parser.add_argument("act", metavar="ACT", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what install would write, and do nothing"
    )


def run(args: argparse.Namespace) -> int:
    acts = {"install": _install, "uninstall": _uninstall, "status": _status}
    if args.act not in acts:
        given = "nothing" if args.act is None else repr(args.act)
        raise MisuseError(f"service takes install, uninstall or status, not {given}")
    if args.dry_run and args.act != "install":
        raise MisuseError("--dry-run is for install")
    return acts[args.act](args, _folder())


def _install(args: argparse.Namespace, folder: Path) -> int:
    socket = _socket()
    texts = unit_files.texts(os.environ, socket)
    if args.dry_run:
        return _show_texts(args, {str(folder / name): text for name, text in texts.items()})
    unit_files.check(folder)
    _check_manager(folder)
    _check_command()
    _check_nobody_listens(socket)
    before = unit_files.written(folder)
    user_manager.stop()
    try:
        _start(folder, texts)
    except FailedError as error:
        why = user_manager.prop("StatusText", SERVICE) or str(error)
        _take_away(folder)
        raise FailedError(
            f"the daemon does not start, and {_put_back(folder, before)}: {why}"
        ) from None
    _say_files(args, "installed", [folder / name for name in texts])
    if not args.json:
        output.say("The daemon runs, and starts at each login.")
        _offer_linger()
    return exits.DONE


def _start(folder: Path, texts: Mapping[str, str]) -> None:
    unit_files.write(folder, texts)
    user_manager.ask("daemon-reload")
    user_manager.ask("enable", "--now", *unit_files.NAMES)


def _put_back(folder: Path, before: Mapping[str, str]) -> str:
    """Start what was installed before; what was done, in words."""
    if not before:
        return "the units were taken away again"
    try:
        _start(folder, before)
    except FailedError:
        return "the units of before were put back, with which it does not start either"
    return "the units of before were put back and run"


def _uninstall(args: argparse.Namespace, folder: Path) -> int:
    unit_files.check(folder)
    if not any(unit_files.state(folder / name) == "ours" for name in unit_files.NAMES):
        raise FailedError(f"there is no unit in {folder}; nothing was done")
    user_manager.folders()
    _say_files(args, "removed", _take_away(folder))
    if not args.json:
        state = _settings().settings.state_directory
        output.say(output.safe(f"The reminders stay in {state}."))
    return exits.DONE


def _take_away(folder: Path) -> list[Path]:
    user_manager.stop()
    gone = unit_files.remove(folder)
    user_manager.ask("daemon-reload")
    return gone


def _status(args: argparse.Namespace, folder: Path) -> int:
    files = {str(folder / name): unit_files.state(folder / name) for name in unit_files.NAMES}
    user_manager.folders()
    facts: dict[str, Any] = {
        "files": files,
        "service": user_manager.prop("ActiveState", SERVICE),
        "socket": user_manager.prop("ActiveState", SOCKET),
        "enabled": user_manager.prop("UnitFileState", SERVICE) == "enabled",
        "status": user_manager.prop("StatusText", SERVICE),
        "lingers": user_manager.lingers(),
    }
    if args.json:
        output.say(output.json_line(facts))
    else:
        _show(facts)
    return exits.DONE if facts["service"] == "active" else exits.FAILED


def _show(facts: dict[str, Any]) -> None:
    for path, state in facts["files"].items():
        output.say(output.safe(f"{path}: {_STATES[state]}"))
    said = f" ({facts['status']})" if facts["status"] else ""
    login = "starts at each login" if facts["enabled"] else "does not start at login"
    output.say(output.safe(f"service {facts['service']}{said}, socket {facts['socket']}; {login}"))
    output.say("goes on after logout" if facts["lingers"] else _ends_at_logout())


def _show_texts(args: argparse.Namespace, texts: dict[str, str]) -> int:
    if args.json:
        output.say(output.json_line(texts))
        return exits.DONE
    for path, text in texts.items():
        output.say(output.safe(f"# {path}"))
        output.say(text)
    return exits.DONE


def _say_files(args: argparse.Namespace, what: str, paths: list[Path]) -> None:
    if args.json:
        output.say(output.json_line({what: [str(path) for path in paths]}))
        return
    for path in paths:
        output.say(output.safe(f"{what} {path}"))


def _offer_linger() -> None:
    """User units end at logout: say so, and let whoever sits there decide."""
    if user_manager.lingers():
        return
    output.say(_ends_at_logout())
    if not asking.can_ask():
        return
    try:
        asking.agree(f"Run `loginctl enable-linger {user_manager.user()}` now", yes=False)
    except FailedError:
        return
    user_manager.enable_linger()
    output.say("It goes on after logout now.")


def _ends_at_logout() -> str:
    who = output.safe(user_manager.user())
    return f"It ends when you log out, as all user units; `loginctl enable-linger {who}` keeps it."


def _check_manager(folder: Path) -> None:
    """Raises FailedError where the manager would not find the units, or has others."""
    known = user_manager.folders()
    if str(folder) not in known:
        raise FailedError(
            f"the service manager of this user does not look in {folder}: "
            "XDG_CONFIG_HOME has another value here than it has there"
        )
    other = user_manager.prop("FragmentPath", SERVICE)
    if other not in ("", str(folder / SERVICE)):
        raise FailedError(
            f"this user has the unit already, {other}: "
            f"`systemctl --user enable --now {SOCKET} {SERVICE}` starts it"
        )


def _check_command() -> None:
    """Raises FailedError where a manager could not start the daemon with this interpreter."""
    done = subprocess.run(  # noqa: S603  words of ours, no shell
        [*unit_files.command(), "--version"],
        cwd="/",
        env={"PATH": os.defpath, **unit_files.carried(os.environ)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FailedError(
            f"{sys.executable} finds no scheduler_daemon outside of this folder: install it first"
        )


def _check_nobody_listens(socket: Path | None) -> None:
    """Raises FailedError where a daemon answers that the units would cut off from its socket."""
    from scheduler_daemon.client import finding

    where = socket or f"/run/user/{os.getuid()}/scheduler-daemon/scheduler.sock"
    of_the_unit = user_manager.prop("Listen", SOCKET).startswith(f"{where} ")
    if of_the_unit and user_manager.prop("ActiveState", SOCKET) == "active":
        return
    try:
        finding.connect(where, 5).close()
    except (finding.DaemonUnreachable, BlockingIOError):
        return
    raise FailedError(
        f"a daemon listens at {where} already: stop it, or name another socket, and run this again"
    )


def _folder() -> Path:
    from scheduler_daemon import places

    home = places.home_directory(os.environ, os.getuid())
    file = places.config_file(os.environ, home)
    if file is None:
        raise FailedError("this user has no home directory; the unit for the machine needs none")
    return file.parents[1] / "systemd/user"


def _settings() -> Effective:
    """What a daemon that is started here would take. Raises ConfigurationError."""
    from scheduler_daemon import config  # only here: pydantic comes with it

    try:
        return config.load()
    except config.ConfigError as error:
        raise ConfigurationError(str(error)) from None


def _socket() -> Path | None:
    """Where the settings want the socket; None where nothing but the machine says it."""
    effective = _settings()
    named = effective.sources["socket"]
    chosen = named.startswith("SCHEDULER_DAEMON_") or ", line " in named
    return effective.settings.socket if chosen else None
