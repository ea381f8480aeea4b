"""Text that is safe to print, JSON lines, and tables that fit."""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import sys
import termios

import pytest

from scheduler_daemon.cli import output

HOSTILE = "a\x1b[2Jb\x07\n\r\t\x7f\x9b1m\u202edne\u2066\u2028\ufeff"


def test_control_characters_are_shown_as_their_escapes() -> None:
    assert output.safe(HOSTILE) == (
        "a\\x1b[2Jb\\x07\\n\\r\\t\\x7f\\x9b1m\\u202edne\\u2066\\u2028\\ufeff"
    )


def test_words_of_every_language_stay_as_they_are() -> None:
    for text in ("naïve", "你好", "שלום", "🙂‍↔️", "a\\n"):
        assert output.safe(text) == text


def test_a_prompt_keeps_its_own_lines_and_nothing_else() -> None:
    assert output.safe_lines("one\ntwo\x1b[A\r\n") == ["one", "two\\x1b[A\\r", ""]


def test_a_json_line_is_one_line_of_readable_json_that_no_terminal_obeys() -> None:
    value = {"prompt": HOSTILE + "é\ud800"}
    line = output.json_line(value)
    assert json.loads(line) == value
    assert "é" in line
    assert output.safe(line) == line


def test_a_note_is_one_safe_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("no\n\x1b[31m")
    captured = capsys.readouterr()
    assert captured.err == "schedctl: no\\n\\x1b[31m\n"
    assert captured.out == ""


def test_output_is_utf8_whatever_the_locale_says(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # not a file: left alone
    output.use_utf8()
    print("é\ud800", flush=True)
    assert raw.getvalue() == b"\xc3\xa9\\ud800\n"


def test_wide_characters_count_two_cells_and_combining_ones_none() -> None:
    assert output.cells("abc") == 3
    assert output.cells("你好") == 4
    assert output.cells("e\u0301") == 1
    assert output.cells("é") == 1


def test_a_cut_never_splits_a_wide_character_over_the_edge() -> None:
    assert output.cut("你好吗", 6) == "你好吗"
    assert output.cut("你好吗", 5) == "你好…"
    assert output.cut("你好吗", 4) == "你…"
    assert output.cut("abc", 1) == "…"
    assert output.cut("abc", 2) == "a…"
    assert output.cut("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


def test_a_table_without_a_terminal_is_not_cut() -> None:
    long = "x" * 300
    assert output.table(["A", "B"], [["1", long]], None) == ["A  B", f"1  {long}"]


@pytest.mark.parametrize("width", [80, 40, 30])
def test_a_long_word_costs_only_its_own_column(width: int) -> None:
    lines = output.table(["ID", "NAME", "WORDS"], [["r1", "short", "y" * 5000]], width)
    assert [output.cells(line) for line in lines] == [len("ID  NAME   WORDS"), width]
    assert lines[1].startswith("r1  short  yyy")


def test_the_first_columns_give_way_last() -> None:
    row = ["r1234567", "in 20 minutes", "a" * 50, "b" * 50]
    lines = output.table(["ID", "COMES", "C", "D"], [row], 45, firm=2)
    assert lines[1] == "r1234567  in 20 minutes  aaaaaaaa…  bbbbbbbb…"


@pytest.mark.parametrize("width", [25, 12, 10, 3, 1])
@pytest.mark.parametrize("firm", [0, 2])
def test_even_a_tiny_terminal_is_never_exceeded(width: int, firm: int) -> None:
    row = ["r1234567", "in 20 minutes", "你" * 50, "b" * 50]
    lines = output.table(["ID", "COMES", "C", "D"], [row], width, firm=firm)
    assert all(output.cells(line) <= width for line in lines)


def test_where_there_is_no_room_for_all_columns_the_first_say_something() -> None:
    row = ["r1", "in 20 minutes", "a" * 50, "b" * 50, "c" * 50]
    assert output.table(["ID", "COMES", "C", "D", "E"], [row], 10, firm=3) == [
        "ID  COMES",
        "r1  in 20…",
    ]
    assert output.table(["A", "B", "C"], [["11", "22", "33"]], 1) == ["A", "…"]
    small = output.table(["A", "B", "C"], [["1", "2", "3"]], 7)
    assert small == ["A  B  C", "1  2  3"]


def test_the_width_is_that_of_columns_or_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert output.terminal_width() == 30
    for value in ("", "0", "wide"):
        monkeypatch.setenv("COLUMNS", value)
        assert output.terminal_width() is None
    output.show_table(["A"], [["b"]])
    assert capsys.readouterr().out == "A\nb\n"


def test_the_width_is_asked_from_the_terminal_that_reads_stdout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    leader, follower = os.openpty()
    with os.fdopen(follower, "w") as stdout, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stdout)
        fcntl.ioctl(stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 71, 0, 0))
        assert output.terminal_width() == 71
        fcntl.ioctl(stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 0, 0, 0))
        assert output.terminal_width() is None
    os.close(leader)


def test_an_abandoned_stdout_without_a_file_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    output.abandon(sys.stdout)


def test_an_abandoned_stdout_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stdout, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stdout)
        os.close(read_end)
        print("unread")
        output.abandon(sys.stdout)
