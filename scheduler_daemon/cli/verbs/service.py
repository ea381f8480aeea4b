"""`schedctl service`: the daemon as a service of this user's own service manager."""

from __future__ import annotations

import argparse
import os

from scheduler_daemon.cli import asking, exits, output, unit_checks, unit_files, user_manager
from scheduler_daemon.cli.exits import ConfigurationError, FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from scheduler_daemon.config import Effective

USAGE = "install | uninstall | status [options]"
ABOUT = """\
Let systemd start the daemon for this user, and again when it failed; with
--host-exec the host of command-line agents, `schedctl host-exec --all --profile
auto`.

`install` writes user units for the Python that runs this, and starts them; the
reminders stay where a daemon that is started by hand keeps them, and agents are
found in the PATH of the moment. `uninstall` stops and removes them all, or the
host's alone; the reminders stay. Neither touches a file that it did not write,
or that somebody has changed since.
`status` shows how they are, and ends with 1 when the daemon does not run.

User units end when the user logs out; `loginctl enable-linger` keeps them. The
unit for all users of a machine is in the documentation."""
EXAMPLES = """\
  schedctl service install --dry-run
  schedctl service install
  schedctl service install --host-exec
  schedctl service status"""


SOCKET, SERVICE = unit_files.DAEMON
(HOST,) = unit_files.HOST_EXEC

_STATES = {
    "missing": "not there",
    "ours": "written by schedctl",
    "changed": "written by schedctl, and changed since",
    "foreign": "not written by schedctl",
}


def options(parser: Parser) -> None:
    parser.add_argument("act", metavar="ACT", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument(
        "--host-exec", action="store_true", help="install or uninstall the host of agents"
    )
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
    if args.host_exec and args.act == "status":
        raise MisuseError("status shows the host of agents too: leave out --host-exec")
    return acts[args.act](args, _folder())


def _install(args: argparse.Namespace, folder: Path) -> int:
    socket = _socket(args)
    made = unit_files.host_texts if args.host_exec else unit_files.texts
    texts = made(os.environ, socket)
    if args.dry_run:
        return _show_texts(args, {str(folder / name): text for name, text in texts.items()})
    unit_files.check(folder, texts)
    unit_checks.manager_takes(folder, list(texts))
    if args.host_exec:
        unit_checks.host_can_start()
    else:
        unit_checks.daemon_can_start(socket)
    what = "the host of agents" if args.host_exec else "the daemon"
    _exchange(what, folder, texts)
    _say_files(args, "installed", [folder / name for name in texts])
    if not args.json:
        output.say(f"{what.capitalize()} runs, and starts at each login.")
        _offer_linger()
    return exits.DONE


def _exchange(what: str, folder: Path, texts: Mapping[str, str]) -> None:
    """Start the units, in place of those of before. Raises FailedError, and puts back."""
    before = unit_files.written(folder, texts)
    user_manager.stop(texts)
    try:
        _start(folder, texts)
    except FailedError as error:
        why = user_manager.prop("StatusText", [*texts][-1]) or str(error)
        _take_away(folder, texts)
        raise FailedError(
            f"{what} does not start, and {_put_back(folder, before)}: {why}"
        ) from None


def _start(folder: Path, texts: Mapping[str, str]) -> None:
    unit_files.write(folder, texts)
    user_manager.ask("daemon-reload")
    user_manager.ask("enable", "--now", *texts)


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
    names = unit_files.HOST_EXEC
    if not args.host_exec:  # then the host's goes too, where it is from here
        names = (*unit_files.DAEMON, *unit_files.written(folder, names))
    unit_files.check(folder, names)
    there = unit_files.written(folder, names)
    if not there:
        raise FailedError(f"there is no unit in {folder}; nothing was done")
    user_manager.folders()
    _say_files(args, "removed", _take_away(folder, there))
    if not args.json:
        output.say(output.safe(f"The reminders stay {_where()}."))
    return exits.DONE


def _where() -> str:
    try:
        return f"in {_settings().settings.state_directory}"
    except ConfigurationError:  # which is no reason to fail: all is done
        return "where they are"


def _take_away(folder: Path, names: Iterable[str]) -> list[Path]:
    user_manager.stop(names)
    gone = unit_files.remove(folder, names)
    user_manager.ask("daemon-reload")
    return gone


def _status(args: argparse.Namespace, folder: Path) -> int:
    files = {str(folder / name): unit_files.state(folder / name) for name in unit_files.ALL}
    user_manager.folders()
    facts: dict[str, Any] = {
        "files": files,
        "service": user_manager.prop("ActiveState", SERVICE),
        "socket": user_manager.prop("ActiveState", SOCKET),
        "enabled": user_manager.prop("UnitFileState", SERVICE) == "enabled",
        "status": user_manager.prop("StatusText", SERVICE),
        "host_exec": user_manager.prop("ActiveState", HOST),
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
    output.say(f"host of agents {facts['host_exec']}")
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


def _socket(args: argparse.Namespace) -> Path | None:
    """Where the settings want the socket; None where nothing but the machine says it.

    The host of agents looks where it is told to.
    """
    from pathlib import Path

    if args.host_exec and args.socket is not None:
        return Path(args.socket).absolute()
    effective = _settings()
    named = effective.sources["socket"]
    chosen = named.startswith("SCHEDULER_DAEMON_") or ", line " in named
    return effective.settings.socket if chosen else None
