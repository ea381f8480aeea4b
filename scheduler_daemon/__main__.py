"""The command `scheduler-daemon`: run, migrate, config. What they do stands elsewhere.

Exit status: 0 done, 1 failed, 2 misused, 6 bad configuration.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, TextIO

from scheduler_daemon import __version__, config
from scheduler_daemon.settings import SCHEMA, Settings, explained
from scheduler_daemon.text import printable

DONE, FAILED, MISUSED, BAD_CONFIGURATION = 0, 1, 2, 6

DESCRIPTION = """\
Keeps the reminders that AI agents make in their conversations, and brings each one back into
its conversation when it is due. Agents and people talk to it with schedctl or over its socket.
"""
EPILOG = f"""\
Settings come from a TOML file, over it from the environment, over that from flags. An ordinary
user needs none of them. The file is the one that --config names, else the one that
{config.CONFIG_VARIABLE} names, else $XDG_CONFIG_HOME/scheduler-daemon/config.toml
(~/.config/scheduler-daemon/config.toml) where that exists.

The setting max_prompt_chars, say, is {config.variable("max_prompt_chars")} in the
environment and {config.flag("max_prompt_chars")} as a flag. Lists are JSON in both.

Exit status: 0 done, 1 failed, 2 misused, 6 bad configuration.
"""
COMMANDS = {
    "run": "run the daemon in the foreground, until SIGTERM or SIGINT",
    "migrate": "bring the database to the schema of this version, and stop",
    "config": "print the settings in effect as TOML (--json: JSON), each with where it came from",
}
_METAVARS = {"integer": "N", "number": "SECONDS", "array": "JSON", "string": "PATH"}


class _Parser(argparse.ArgumentParser):
    """Says in one line what it cannot parse."""

    def error(self, message: str) -> NoReturn:
        line = printable(f"scheduler-daemon: {message}; see `{self.prog} --help`")
        _write(sys.stderr, f"{line}\n")
        raise SystemExit(MISUSED)


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Carry out one command line and give its exit status; data to stdout, the rest to stderr."""
    try:
        options = command_line().parse_args(arguments)
    except SystemExit as stop:  # argparse has said why, or has printed the help
        return MISUSED if stop.code else _put("")
    flags = {key: text for key in SCHEMA if (text := getattr(options, key)) is not None}
    try:
        effective = config.load(options.config, flags)
    except config.ConfigError as error:
        if options.command == "run":
            _turn_away()
        return _refused(error)
    if options.command == "config":
        return _put(_as_json(effective) if options.json else _as_toml(effective))
    from scheduler_daemon import daemon  # the whole daemon: not for --help and config

    if options.command == "migrate":
        return daemon.migrate(effective.settings) or _put("")
    load = partial(config.load_settings, options.config, flags)
    return daemon.run(effective.settings, load) or _put("")


def _refused(error: config.ConfigError) -> int:
    from scheduler_daemon.log import complain  # only for a failure

    with suppress(OSError):
        complain(f"scheduler-daemon: {error}")
    return BAD_CONFIGURATION


def _turn_away() -> None:
    """Tell those for whom systemd started this that it cannot."""
    from scheduler_daemon import systemd
    from scheduler_daemon.errors import InternalError
    from scheduler_daemon.wire import frames, messages

    words = "the daemon cannot start, since its settings cannot be used; its log says more"
    with suppress(systemd.SocketsRefused):
        sock = systemd.adopted_socket(os.environ, os.getpid())
        if sock is not None:
            systemd.turn_away(sock, frames.encode(messages.error(None, InternalError(words))))


def toml_value(value: object) -> str:
    """A setting's value as TOML, ASCII only; whole seconds without a decimal point."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | Path):
        return '"' + "".join(map(_toml_character, str(value))) + '"'
    return repr(value)


def _toml_character(character: str) -> str:
    if " " <= character <= "~":
        return "\\" + character if character in '"\\' else character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _as_toml(effective: config.Effective) -> str:
    """Lines that can be a configuration file again."""
    read = f"file {effective.file}" if effective.file else "no file"
    lines = [f"# scheduler-daemon {__version__}, {printable(read)}"]
    for key, value in effective.settings:
        lines.append(f"{key} = {toml_value(value)}  # {printable(effective.sources[key])}")
    return "\n".join(lines).encode("ascii", "backslashreplace").decode() + "\n"


def _as_json(effective: config.Effective) -> str:
    file = {"file": str(effective.file)} if effective.file else {}
    settings = dict(effective.settings)
    return (
        json.dumps({**file, "settings": settings, "sources": effective.sources}, default=str) + "\n"
    )


def command_line() -> _Parser:
    parser = _Parser(
        "scheduler-daemon",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"scheduler-daemon {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog="How settings are found, and the exit status: scheduler-daemon --help",
            allow_abbrev=False,
        )
        if name == "config":
            command.add_argument("--json", action="store_true", help="print one JSON object")
        add_settings(command)
    return parser


def add_settings(command: argparse.ArgumentParser) -> None:
    """One flag per setting, and --config."""
    group = command.add_argument_group("settings")
    group.add_argument(
        "--config", type=_file, metavar="FILE", help="the TOML file to read settings from"
    )
    for key, schema in SCHEMA.items():
        choices = "|".join(schema.get("enum", ()))
        default = Settings.model_fields[key].get_default()
        known = "" if key in ("state_directory", "socket") else f" Default: {toml_value(default)}."
        group.add_argument(
            config.flag(key),
            dest=key,
            metavar=choices or _METAVARS[schema["type"]],
            help=(explained(key) + known).replace("%", "%%"),
        )


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("takes the path of a file, and this one is empty")
    return text


def _put(text: str) -> int:
    """Print data; a reader that has left early is no news, anything else is."""
    error = _write(sys.stdout, text)
    if error is None:
        return DONE
    if not isinstance(error, BrokenPipeError):
        _write(sys.stderr, f"scheduler-daemon: stdout cannot be written: {error.strerror}\n")
    return FAILED


def _write(stream: TextIO | None, text: str) -> OSError | None:
    """Write at once; gives what went wrong. Nothing is written where the stream was closed."""
    if stream is None:
        return None
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # Python flushes once more at its end, would fail again and end with another status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


if __name__ == "__main__":
    run()
