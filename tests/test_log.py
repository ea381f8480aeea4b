"""The log: one line per event, in one form, whoever wrote it; never an error for the writer."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import logging
import os
import re
import select
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

import pytest

from scheduler_daemon import log
from scheduler_daemon.log import LineWriter, configure, get_logger
from tests.support.logs import log_put_back

at_import = get_logger("tests.at_import")
HOSTILE = 'a\nb\r\x1b[31m\x9b1m\u2028\u202e\x00\udcff "quoted" {"level": "error"}'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    with log_put_back():
        yield


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def written(
    form: Literal["auto", "json", "text"],
    event: str,
    stream: io.StringIO | None = None,
    /,
    **fields: Any,
) -> str:
    stream = stream or io.StringIO()
    configure("debug", form, stream)
    get_logger("tests").warning(event, **fields)
    return stream.getvalue()


class TestJson:
    def test_an_event_is_one_object_with_its_ids_as_fields(self) -> None:
        line = written("json", "reminder_created", reminder_id="r1", owner_uid=1000)
        event = json.loads(line)
        stamp = event.pop("timestamp")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(stamp)
        assert abs(age) < dt.timedelta(minutes=1)
        assert event == {
            "level": "warning",
            "event": "reminder_created",
            "module": "tests",
            "reminder_id": "r1",
            "owner_uid": 1000,
        }
        assert line.startswith('{"timestamp"')

    def test_no_text_can_forge_a_line(self) -> None:
        line = written("json", HOSTILE, None, **{HOSTILE: HOSTILE})
        assert line.endswith("\n")
        assert line.isascii()
        assert len(line.splitlines()) == 1
        event = json.loads(line)
        assert (event["event"], event[HOSTILE], event["level"]) == (HOSTILE, HOSTILE, "warning")

    def test_an_exception_is_a_field_with_its_traceback(self) -> None:
        stream = io.StringIO()
        configure("info", "json", stream)
        try:
            raise RuntimeError("forged\n{}")
        except RuntimeError:
            get_logger("tests").exception("request_failed", request_id=7)
        (event,) = lines(stream)
        assert event["level"] == "error"
        assert event["exception"].startswith("Traceback (most recent call last):")
        assert event["exception"].endswith("RuntimeError: forged\n{}")

    def test_a_traceback_never_shows_local_variables(self) -> None:
        """They would hold a reminder's words."""
        stream = io.StringIO()
        for form in ("json", "text"):
            configure("info", form, stream)
            prompt = "secret " + "words"
            try:
                raise RuntimeError
            except RuntimeError:
                get_logger("tests").exception("request_failed")
            assert prompt not in stream.getvalue()

    def test_values_that_are_not_json_are_written_all_the_same(self) -> None:
        circle: list[object] = []
        circle.append(circle)
        moment = dt.datetime(2026, 8, 7, 1, tzinfo=dt.UTC)
        event = json.loads(written("json", "e", at=moment, path=Path("/x"), odd=b"1", words={"s"}))
        assert (event["at"], event["path"]) == ("2026-08-07T01:00:00.000Z", "/x")
        assert (event["odd"], event["words"]) == ("b'1'", "{'s'}")
        assert json.loads(written("json", "e", circle=circle))["circle"] == "[[...]]"
        assert json.loads(written("json", "e", keys={(1, 2): 3}))["keys"] == "{(1, 2): 3}"


class TestText:
    def test_an_event_is_one_readable_line(self) -> None:
        line = written("text", "reminder_created", reminder_id="r1", count=2, names=["a", "b"])
        time, rest = line.split(" ", 1)
        assert time.endswith("Z")
        words = 'warning  reminder_created module=tests reminder_id=r1 count=2 names=["a", "b"]'
        assert rest == words + "\n"

    def test_no_text_can_forge_a_line_a_field_or_steer_the_terminal(self) -> None:
        line = written("text", HOSTILE, None, **{HOSTILE: HOSTILE}, listed=[HOSTILE])
        assert line.endswith("\n")
        assert line[:-1].isprintable()
        assert written("text", "e", word="x level=error").endswith(' word="x level=error"\n')

    @pytest.mark.parametrize(
        ("value", "field"),
        [("", '""'), ("a b", '"a b"'), ("a=b", '"a=b"'), ('"', r'"\""'), ("\\n", r'"\\n"'),
         ("é", "é"), ([None], "[null]"), (True, "true"), (1.5, "1.5"), ({(1,): 2}, "{(1,): 2}")],
    )  # fmt: skip
    def test_a_value_is_quoted_where_it_is_not_a_plain_word(
        self, value: object, field: str
    ) -> None:
        assert written("text", "e", value=value).endswith(f" value={field}\n")

    def test_a_traceback_follows_indented_and_escaped(self) -> None:
        stream = io.StringIO()
        configure("info", "text", stream)
        try:
            raise RuntimeError("one\n2026-01-01T00:00:00.000Z info forged\x1b[0m")
        except RuntimeError:
            get_logger("tests").exception("request_failed")
        first, *rest = stream.getvalue().splitlines()
        assert " request_failed " in first
        assert rest[0] == "    Traceback (most recent call last):"
        assert rest[-1] == r"    2026-01-01T00:00:00.000Z info forged\x1b[0m"
        assert all(line.startswith("    ") for line in rest)

    def test_colours_are_for_terminals_that_want_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert "\x1b[33mwarning" in written("text", "e", Terminal())
        assert "\x1b" not in written("text", "e")
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in written("text", "e", Terminal())


class TestConfigure:
    def test_auto_is_text_for_a_terminal_and_json_for_everything_else(self) -> None:
        assert written("auto", "e").startswith("{")
        assert not written("auto", "e", Terminal()).startswith("{")
        assert written("json", "e", Terminal()).startswith("{")

    @pytest.mark.parametrize(
        ("level", "seen"),
        [
            ("debug", ["debug", "info", "warning", "error"]),
            ("info", ["info", "warning", "error"]),
            ("warning", ["warning", "error"]),
            ("error", ["error"]),
        ],
    )
    def test_a_level_shows_itself_and_what_is_above(
        self, level: Literal["debug", "info", "warning", "error"], seen: list[str]
    ) -> None:
        stream = io.StringIO()
        configure(level, "json", stream)
        for logger in (get_logger("ours"), logging.getLogger("theirs")):
            for name in ("debug", "info", "warning", "error"):
                getattr(logger, name)("e")
        assert [event["level"] for event in lines(stream)] == seen * 2

    def test_a_logger_made_before_follows_the_last_call(self) -> None:
        first, second = io.StringIO(), io.StringIO()
        configure("info", "json", first)
        at_import.info("one")
        configure("info", "json", second)
        at_import.info("two")
        logging.getLogger("theirs").warning("three")
        assert [event["event"] for event in lines(first)] == ["one"]
        assert [event["event"] for event in lines(second)] == ["two", "three"]
        assert lines(second)[0]["module"] == "tests.at_import"


class TestStandardLibrary:
    @pytest.fixture
    def stream(self) -> io.StringIO:
        stream = io.StringIO()
        configure("info", "json", stream)
        return stream

    def test_its_loggers_write_in_the_same_form(self, stream: io.StringIO) -> None:
        logging.getLogger("aiosqlite").warning("closed %s\n%d", "twice", 2)
        (event,) = lines(stream)
        assert (event["event"], event["module"]) == ("closed twice\n2", "aiosqlite")
        assert (event["level"], "exception" in event) == ("warning", False)

    def test_a_percent_sign_in_a_message_is_left_alone(self, stream: io.StringIO) -> None:
        logging.getLogger("x").warning("100 %s")
        assert lines(stream)[0]["event"] == "100 %s"

    def test_arguments_that_do_not_fit_raise_nothing(self, stream: io.StringIO) -> None:
        """Given to the handler itself: pytest's own would raise."""
        record = logging.LogRecord("x", logging.WARNING, "", 0, "%d of %s", ("one",), None)
        log._Bridge().emit(record)
        assert lines(stream)[0]["event"] == "%d of %s"

    @pytest.mark.parametrize(
        ("number", "level"), [(21, "info"), (45, "error"), (50, "critical"), (99, "critical")]
    )
    def test_odd_levels_count_as_the_one_below(
        self, stream: io.StringIO, number: int, level: str
    ) -> None:
        logging.getLogger("x").log(number, "e")
        assert lines(stream)[0]["level"] == level

    async def test_what_asyncio_cannot_raise_is_logged_with_its_traceback(
        self, stream: io.StringIO
    ) -> None:
        def fail() -> None:
            raise RuntimeError("lost")

        loop = asyncio.get_running_loop()
        loop.call_soon(fail)
        await asyncio.sleep(0)
        (event,) = lines(stream)
        assert event["module"] == "asyncio"
        assert event["exception"].endswith("RuntimeError: lost")

    def test_warnings_of_python_are_lines_too(self, stream: io.StringIO) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("odd\nthing", ResourceWarning, stacklevel=1)
        (event,) = lines(stream)
        assert event["module"] == "py.warnings"
        assert "odd\nthing" in event["event"]


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A read end, and a write end as stderr would be."""
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
        yield reader, stream
    os.close(reader)


def drain(reader: int) -> str:
    data = b""
    while select.select([reader], [], [], 0)[0] and (piece := os.read(reader, 65536)):
        data += piece
    return data.decode()


class TestFaultyStream:
    """Nothing here may raise: the assertion is that the calls return."""

    def test_a_closed_stream_drops_everything(self, tmp_path: Path) -> None:
        memory, file = io.StringIO(), (tmp_path / "log").open("w")
        for stream in (memory, file):
            configure("info", "auto", stream)
            stream.close()
            get_logger("tests").info("e")
            configure("info", "auto", stream)
            get_logger("tests").info("e")

    def test_a_stderr_that_was_closed_at_the_start_drops_everything(self) -> None:
        configure("info", "auto", None)
        get_logger("tests").info("e")
        logging.getLogger("theirs").error("e")

    def test_a_full_disk_drops_the_line(self) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
            configure("info", "json", full)
            get_logger("tests").info("e")
            get_logger("tests").info("e")

    def test_a_reader_that_has_gone_drops_the_line(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as stream:  # noqa: PTH123
            configure("info", "json", stream)
            get_logger("tests").info("e")

    @pytest.mark.parametrize("blocking", [True, False])
    def test_a_pipe_that_nobody_reads_stops_nobody_and_tells_later_what_was_lost(
        self, pipe: tuple[int, TextIO], blocking: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "PATIENCE_MS", 1)
        reader, stream = pipe
        os.set_blocking(stream.fileno(), blocking)
        configure("info", "json", stream)
        for number in range(2_000):
            get_logger("tests").info("e", number=number)
        got = [json.loads(line) for line in drain(reader).splitlines()]
        assert [event["number"] for event in got] == list(range(len(got)))
        assert 100 < len(got) < 2_000
        get_logger("tests").info("back")
        report, back = (json.loads(line) for line in drain(reader).splitlines())
        assert (report["event"], report["level"]) == ("log_lines_dropped", "warning")
        assert report["lines"] == 2_000 - len(got)
        assert re.fullmatch(r"\S{19}\.\d{3}Z", report["timestamp"])
        assert back["event"] == "back"

    def test_the_report_of_dropped_lines_has_the_form_of_the_log(self) -> None:
        assert "log_lines_dropped lines=5" in log._dropped_line(5, log.TextRenderer(colours=False))

    def test_a_line_that_was_broken_off_is_ended_before_the_next(
        self, pipe: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "PATIENCE_MS", 1)
        reader, stream = pipe
        writer = LineWriter(stream, "dropped {}".format)
        writer.msg("x" * 100_000)
        writer.msg("dropped as well")
        cut = drain(reader)
        assert set(cut) == {"x"}
        assert len(cut) == 65_536
        writer.msg("whole")
        assert drain(reader) == "\ndropped 2\nwhole\n"

    def test_a_long_line_is_whole_for_a_reader_that_reads(
        self, pipe: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "PATIENCE_MS", 10_000)  # a busy machine is no fault
        reader, stream = pipe
        got: list[str] = []

        def read() -> None:
            data = b""
            while not data.endswith(b"\n"):
                data += os.read(reader, 4096)
            got.append(data.decode())

        thread = threading.Thread(target=read)
        thread.start()
        LineWriter(stream, str).msg("é" * 200_000)
        thread.join(10)
        assert got == ["é" * 200_000 + "\n"]

    def test_text_that_is_not_unicode_is_escaped(self, pipe: tuple[int, TextIO]) -> None:
        reader, stream = pipe
        LineWriter(stream, str).msg("lone \udcff")
        assert drain(reader) == "lone \\udcff\n"


def test_the_real_stderr_can_be_configured() -> None:
    configure("error", "auto", sys.stderr)
    get_logger("tests").info("not shown")


def test_a_field_that_is_none_is_left_out() -> None:
    assert "host" not in written("json", "asked", host=None)
    assert "host" not in written("text", "asked", host=None)


def test_a_dumb_terminal_is_not_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in written("auto", "asked", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in written("auto", "asked", Terminal())


def test_the_statements_of_aiosqlite_are_no_news_at_debug() -> None:
    stream = io.StringIO()
    configure("debug", "json", stream)
    logging.getLogger("aiosqlite").debug("executing functools.partial")
    logging.getLogger("asyncio").debug("Using selector")
    logging.getLogger("aiosqlite").warning("lost")
    assert [line["event"] for line in lines(stream)] == ["Using selector", "lost"]


# --- the journal


def as_the_journal(monkeypatch: pytest.MonkeyPatch, stream: TextIO) -> None:
    found = os.fstat(stream.fileno())
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_journal_gets_each_line_with_its_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Literal["json", "text"]
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        as_the_journal(monkeypatch, stream)
        configure("debug", form, stream)
        logger = get_logger("tests")
        for level in ("debug", "info", "warning", "error"):
            getattr(logger, level)("it_happened", words="<0>\n<0>")
        try:
            raise ValueError("one\ntwo")
        except ValueError:
            logger.exception("it_failed")
        stream.seek(0)
        priorities = [line[:3] for line in stream.read().splitlines()]
    assert priorities[:4] == ["<7>", "<6>", "<4>", "<3>"]
    assert set(priorities[4:]) == {"<3>"}


def test_a_line_for_whoever_starts_it_is_an_error_in_the_journal_and_plain_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        log.complain("it cannot be")
        as_the_journal(monkeypatch, stream)
        log.complain("it cannot be")
        stream.seek(0)
        assert stream.read() == "it cannot be\n<3>it cannot be\n"
    monkeypatch.setattr(sys, "stderr", None)
    log.complain("nobody reads this")
