"""How the log is written: one line per event, JSON or text. What is logged stands elsewhere.

Events are past-tense facts (`reminder_created`) with ids as fields; a reminder's words are for
the debug level only. A line can be lost (a full disk, a pipe that nobody reads), but writing one
never raises and never waits long for a reader.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from scheduler_daemon import wall
from scheduler_daemon.systemd import journal_reads, with_priority
from scheduler_daemon.text import printable

PATIENCE_MS = 100
"""How long a line waits for a reader that took the one before it."""

_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `name` as `module`; it follows a later `configure`."""
    return cast("FilteringBoundLogger", structlog.get_logger(module=name))


def configure(
    level: Literal["debug", "info", "warning", "error"],
    format: Literal["auto", "json", "text"],  # noqa: A002 - the name of the setting
    stream: TextIO | None,
) -> None:
    """Send every log line of the process, the standard library's too, to `stream`.

    `auto` is text where a terminal reads and JSON lines elsewhere; text is coloured on a terminal
    unless NO_COLOR is set or TERM is `dumb`. Where the journal reads, each line begins with its
    priority, which the journal takes off again. None (stderr was closed) drops everything. The
    last call counts.
    """
    terminal = stream is not None and not stream.closed and stream.isatty()
    render: structlog.typing.Processor = render_json
    if format == "text" or (format == "auto" and terminal):
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        render = TextRenderer(colours=terminal and not plain)
    if stream is not None and _in_journal(stream):
        render = _Prioritised(render)
    number = logging.getLevelNamesMapping()[level.upper()]
    writer = LineWriter(stream, lambda count: _dropped_line(count, render))
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _stamp,
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    _bridge_standard_library(number)


def complain(line: str) -> None:
    """One plain line on stderr for whoever started the process, not an event of the log."""
    stream = sys.stderr
    if stream is not None:
        text = with_priority("error", line) if _in_journal(stream) else line
        print(text, file=stream, flush=True)


class LineWriter:
    """Writes whole lines to a stream or drops them, and says later how many it dropped.

    A descriptor is asked first whether it takes more, because a pipe that nobody reads would
    otherwise stop the event loop: the first line waits `PATIENCE_MS` for the reader, and what
    comes after a dropped line not at all, until the reader is back.
    """

    def __init__(self, stream: TextIO | None, report: Callable[[int], str]) -> None:
        self._stream = stream
        self._report = report
        self._lock = threading.Lock()
        self._dropped = 0
        self._torn = False

    def msg(self, line: str) -> None:
        """Write `line` and a line end. structlog calls it by the name of the level."""
        with self._lock:
            if self._dropped and not self._write(self._report(self._dropped)):
                self._dropped += 1
                return
            self._dropped = 0
            if not self._write(line):
                self._dropped = 1

    debug = info = warning = error = critical = msg

    def _write(self, line: str) -> bool:
        if self._stream is None:
            return True
        try:
            fd = _descriptor(self._stream)
            if fd is not None:
                return self._write_pieces(fd, ("\n" if self._torn else "") + line + "\n")
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed in this process
            return False
        return True

    def _write_pieces(self, fd: int, text: str) -> bool:
        """In pieces that a pipe with room takes whole; remembers a line that was broken off."""
        data = text.encode("utf-8", "backslashreplace")
        sent = 0
        while sent < len(data):
            if not self._has_room(fd):
                return False
            sent += os.write(fd, data[sent : sent + select.PIPE_BUF])
            self._torn = sent < len(data)
        return True

    def _has_room(self, fd: int) -> bool:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return bool(poll.poll(0 if self._dropped else PATIENCE_MS))


def render_json(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """One JSON object, ASCII only: nothing in a value can end the line."""
    ordered = _ordered(event)
    try:
        return _ENCODER.encode(ordered)
    except (TypeError, ValueError, RecursionError):  # odd keys, a value that holds itself
        return json.dumps({key: repr(value) for key, value in ordered.items()})


class TextRenderer:
    """One line for a person, `time level event key=value ...`; a traceback follows indented.

    Every value is escaped, so that none can end the line, look like another field or steer the
    terminal.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, _logger: WrappedLogger, _name: str, event: EventDict) -> str:
        fields = _ordered(event)
        level = str(fields.pop("level"))
        exception = str(fields.pop("exception", ""))
        words = [
            str(fields.pop("timestamp")),
            self._paint(f"{level:<8}", _COLOURS[level]),
            self._paint(printable(str(fields.pop("event"))), "1"),
            *(f"{printable(key)}={_field(value)}" for key, value in fields.items()),
        ]
        traceback = [f"    {printable(line)}" for line in exception.splitlines()]
        return "\n".join([" ".join(words), *traceback])

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text


class _Prioritised:
    """What another renderer makes, for the journal."""

    def __init__(self, render: structlog.typing.Processor) -> None:
        self._render = render

    def __call__(self, logger: WrappedLogger, name: str, event: EventDict) -> str:
        return with_priority(str(event["level"]), str(self._render(logger, name, event)))


class _Bridge(logging.Handler):
    """What the standard library logs (asyncio, aiosqlite, warnings), as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit the message
            event = str(record.msg)
        level = max(logging.DEBUG, min(logging.CRITICAL, record.levelno // 10 * 10))
        get_logger(record.name).log(level, event, exc_info=record.exc_info)


def _bridge_standard_library(level: int) -> None:
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Bridge):
            root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(level)
    # It has two lines for every statement, which would drown everything else.
    logging.getLogger("aiosqlite").setLevel(max(level, logging.INFO))
    logging.captureWarnings(capture=True)


def _descriptor(stream: TextIO) -> int | None:
    """Its file descriptor, None for one in memory; ValueError when it was closed."""
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


def _in_journal(stream: TextIO) -> bool:
    try:
        fd = _descriptor(stream)
    except ValueError:
        return False
    return fd is not None and journal_reads(fd, os.environ)


def _stamp(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    event["timestamp"] = _plain(wall.now())
    return event


def _dropped_line(count: int, render: structlog.typing.Processor) -> str:
    event: Any = {"event": "log_lines_dropped", "level": "warning", "lines": count}
    for processor in (_stamp, render):
        event = processor(None, "warning", event)
    return str(event)


def _ordered(event: Mapping[str, Any]) -> dict[str, Any]:
    """What every line has, first. What is not known is left out, as on the wire."""
    known = {key: event[key] for key in _FIRST if key in event}
    known |= event
    return {key: value for key, value in known.items() if value is not None}


_FIRST = ("timestamp", "level", "event", "module")


def _plain(value: object) -> str:
    """A value that JSON has no form for: instants in the canonical one, the rest as Python does."""
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, PurePath) else repr(value)


_ENCODER = json.JSONEncoder(default=_plain)


def _field(value: object) -> str:
    """A value in one word; in JSON's quotes where it is not a plain word."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, default=_plain, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            value = repr(value)
        return printable(value)
    plain = value.isprintable() and value and not set(value) & set(" \"'=\\")
    return value if plain else printable(json.dumps(value, ensure_ascii=False))
