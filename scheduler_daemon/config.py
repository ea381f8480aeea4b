"""How a file, the environment and flags make the settings of the daemon, and what they came from.

The settings themselves stand in settings.py, the rules for their missing paths in places.py.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from scheduler_daemon import places
from scheduler_daemon.settings import SCHEMA, Settings, accepted
from scheduler_daemon.text import printable

__all__ = ["ConfigError", "Effective", "Settings", "flag", "load", "load_settings", "variable"]

PREFIX = "SCHEDULER_DAEMON_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
CRASH_VARIABLE = f"{PREFIX}CRASH_AT"
"""Names the point where a test build of the daemon kills itself (tests/faults)."""

_CLOSERS = ("]", "}", '"""', "'''")  # every TOML statement of several lines ends on one of these


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line for whoever wrote it.

    It names the place (file and line, variable or flag), the key and what would be accepted.
    """


class Given(NamedTuple):
    """A value as it was found, not yet checked, and where."""

    value: object
    source: str


class Effective(NamedTuple):
    """Settings, what each came from, and the file that was read, if any."""

    settings: Settings
    sources: dict[str, str]
    file: Path | None


def load_settings(
    config: str | None = None,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings of a file, over them the environment, over them flags.

    `config` names the file (else $SCHEDULER_DAEMON_CONFIG, else the user's own if there is one);
    `flags` are texts by key. ConfigError for the first thing that cannot be used.
    """
    return load(config, flags, environ).settings


def load(
    config: str | None = None,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Effective:
    """As `load_settings`, with the source of each setting."""
    home = places.home_directory(environ, os.getuid())
    file = _file(config, environ, home)
    given = {} if file is None else _from_file(file)
    given |= _from_environment(environ)
    given |= _from_flags(flags or {})
    given = {key: _expanded(key, value, home) for key, value in given.items()}
    if "state_directory" not in given:
        given["state_directory"] = _default_state_directory(environ, home)
    if "socket" not in given:
        given["socket"] = Given(*places.socket(environ, os.getuid(), home))
    sources = {key: given[key].source if key in given else "default" for key in SCHEMA}
    return Effective(_checked(given), sources, file)


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper()


def flag(key: str) -> str:
    """The flag of a setting."""
    return "--" + key.replace("_", "-")


def _file(config: str | None, environ: Mapping[str, str], home: Path | None) -> Path | None:
    """The file to read: one that was named, whether it exists or not, or the user's own."""
    named = config or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    path = places.config_file(environ, home)
    try:
        if path is not None:
            path.stat()
    except OSError:  # not there, or in a folder that is closed to us: nobody's wish is ignored
        return None
    return path


def _from_file(path: Path) -> dict[str, Given]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(printable(f"{path}: cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(printable(f"{path}, line {line}: not UTF-8")) from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits is a ValueError
        raise ConfigError(printable(f"{path}: not TOML: {error}")) from None
    lines = _lines(text)
    given = {}
    for key, value in values.items():
        source = f"{path}, line {lines[key]}"
        if key not in SCHEMA:
            raise ConfigError(_unknown(f"{source}: unknown key {key}", key, SCHEMA))
        if _is_path(key) and isinstance(value, str):
            value = os.fsdecode(value.encode("utf-8"))  # its bytes are UTF-8 in any locale
        given[key] = Given(value, source)
    return given


def _lines(text: str) -> dict[str, int]:
    """The line on which each key at the top of a valid TOML text first stands, from 1.

    Python's reader does not tell. A statement ends on the first line with which it can be read.
    """
    found: dict[str, int] = {}
    start, lines = 0, text.replace("\r\n", "\n").split("\n")
    for end, line in enumerate(lines, 1):
        if end - start > 1 and not any(closer in line for closer in _CLOSERS):
            continue
        try:
            statement = tomllib.loads("\n".join(lines[start:end]))
        except ValueError:
            continue
        for key in statement:
            found.setdefault(key, start + 1)
        start = end
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    """Settings from variables; an empty one counts as unset, as for the XDG variables."""
    names = {variable(key): key for key in SCHEMA}
    given = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE:
            continue
        if name == CRASH_VARIABLE:
            raise ConfigError(f"{name} is for the test build of the daemon; unset it")
        if name not in names:
            raise ConfigError(_unknown(f"{name}: unknown variable", name, names))
        if text:
            given[names[name]] = Given(_read(names[name], text), name)
    return given


def _from_flags(flags: Mapping[str, str]) -> dict[str, Given]:
    """Settings from the command line, where a relative path means the working directory."""
    given = {}
    for key, text in flags.items():
        value = _read(key, text)
        if _is_path(key):
            value = _from_working_directory(text)
        given[key] = Given(value, flag(key))
    return given


def _read(key: str, text: str) -> object:
    """The value that a text means for `key`; the text itself where it means none."""
    kind = SCHEMA[key]["type"]
    if kind == "integer" and re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    if kind == "number" and re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text):
        return float(text)
    if kind == "array":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _is_path(key: str) -> bool:
    return SCHEMA[key].get("format") == "path"


def _from_working_directory(text: str) -> str:
    """An absolute path where `text` is a relative one; `text` itself where that is not known."""
    if not text or text.startswith("~/"):
        return text
    try:
        return str(Path(text).absolute())
    except OSError:  # the working directory was deleted
        return text


def _expanded(key: str, given: Given, home: Path | None) -> Given:
    """A path with its `~/` replaced; anything else as it is."""
    path = given.value
    if home is None or not _is_path(key) or not isinstance(path, str) or path[:2] != "~/":
        return given
    return given._replace(value=str(home / path[2:]))


def _default_state_directory(environ: Mapping[str, str], home: Path | None) -> Given:
    place = places.state_directory(environ, home)
    if place is None:
        raise ConfigError(
            "state_directory must be set (in the file, as"
            f" {variable('state_directory')} or as {flag('state_directory')}):"
            " there is no HOME, and this user has no home directory"
        )
    return Given(*place)


def _checked(given: Mapping[str, Given]) -> Settings:
    try:
        return Settings.model_validate({key: value for key, (value, _) in given.items()})
    except ValidationError as error:
        first = error.errors()[0]
    key = str(first["loc"][0])
    value, source = given.get(key, Given(first["input"], "default"))
    # Ours end a sentence that begins with `must`; pydantic's own words are for programmers.
    ours = str(first["ctx"]["error"]) if first["type"] == "value_error" else ""
    must = ours or "be " + accepted(key)
    raise ConfigError(printable(f"{source}: {key} must {must}, not {_shown(value)}"))


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # a number of 5000 digits, lists in lists in lists
        return "such a value"
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    hint = f"did you mean {close[0]}?" if close else "known are " + ", ".join(known)
    return printable(f"{what}; {hint}")
