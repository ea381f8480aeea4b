"""The verbs that open the file themselves: where they look, what they say, how they end."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_daemon.store.database import Lock
from tests.cli.conftest import Ended
from tests.store.support import HOURLY, by_hand, made, new_file, opened

Schedctl = Callable[..., Ended]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of this user's daemon, with a file that has one reminder."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SCHEDULER_DAEMON_STATE_DIRECTORY", str(folder))
    asyncio.run(fill(new_file(folder)))
    return folder


async def fill(path: Path) -> None:
    async with opened(path) as store:
        await made(store, HOURLY, prompt="grüße\x1b", key="k")


def prompts(path: Path) -> list[str]:
    with by_hand(path) as conn:
        return [text for (text,) in conn.execute("SELECT prompt FROM reminders")]


def test_a_backup_is_of_the_file_that_the_daemon_would_take(
    schedctl: Schedctl, state: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    source = state / "scheduler.db"
    assert schedctl("backup", str(copy)) == (0, f"copied {source} to {copy}\n", "")
    assert prompts(copy) == prompts(source)
    again = schedctl("backup", str(copy))
    assert (again.status, again.out) == (1, "")
    assert again.err == f"schedctl: {copy} is there already; it is replaced with --force\n"
    said = schedctl("backup", str(copy), "--force", "--json")
    assert json.loads(said.out) == {"database": str(source), "file": str(copy)}


def test_a_configuration_file_and_a_path_say_where_it_is(
    schedctl: Schedctl, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDULER_DAEMON_STATE_DIRECTORY")
    config = tmp_path / "config.toml"
    config.write_text(f'state_directory = "{state}"\n')
    by_config = schedctl("export", "--config", str(config)).out.splitlines()[1:]
    by_path = schedctl("export", "--database", str(state / "scheduler.db")).out.splitlines()[1:]
    assert by_config == by_path
    assert "grüße" in by_path[0]


def test_a_bad_configuration_has_a_status_of_its_own(schedctl: Schedctl, tmp_path: Path) -> None:
    ended = schedctl("export", "--config", str(tmp_path / "none.toml"))
    assert (ended.status, ended.out) == (6, "")
    assert "none.toml: cannot be read" in ended.err


def test_a_restore_says_where_the_former_file_is(
    schedctl: Schedctl, state: Path, tmp_path: Path
) -> None:
    copy, place = tmp_path / "copy.db", state / "scheduler.db"
    schedctl("backup", str(copy))
    with by_hand(place) as conn:
        conn.execute("UPDATE reminders SET prompt = 'later'")
    said = schedctl("restore", str(copy))
    (kept,) = state.glob("scheduler.db.replaced-*Z")
    assert said == (0, f"restored {place}; what it held is in {kept}\n", "")
    assert (prompts(kept), prompts(place)) == (["later"], ["grüße\x1b"])
    other = tmp_path / "other" / "s.db"
    done = schedctl("restore", str(copy), "--database", str(other), "--json")
    assert json.loads(done.out) == {"database": str(other)}
    assert schedctl("restore", str(copy), "--database", str(tmp_path / "o" / "s.db")).out == (
        f"restored {tmp_path / 'o' / 's.db'}\n"
    )


@pytest.mark.parametrize("verb", ["restore", "import"])
def test_while_a_daemon_runs_it_is_told_how_to_stop_it(
    schedctl: Schedctl, state: Path, tmp_path: Path, verb: str
) -> None:
    copy = tmp_path / "copy.db"
    schedctl("backup", str(copy))
    lock = Lock(state / "scheduler.db")
    try:
        ended = schedctl(verb, str(copy))
    finally:
        lock.release()
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert f"process {os.getpid()}" in ended.err
    assert "systemctl --user stop scheduler-daemon.socket scheduler-daemon.service" in ended.err


def test_an_export_is_for_its_owner_alone_and_comes_back_by_an_import(
    schedctl: Schedctl, state: Path, tmp_path: Path
) -> None:
    lines, other = tmp_path / "all.jsonl", tmp_path / "other" / "s.db"
    assert schedctl("export", str(lines)) == (0, "", "")
    assert stat.S_IMODE(lines.stat().st_mode) == 0o600
    where = ("--database", str(other))
    assert schedctl("import", str(lines), "--dry-run", *where).out == (
        f"could import into {other}: 1 reminder, 1 key\n"
    )
    assert not other.exists()
    done = json.loads(schedctl("import", str(lines), "--json", *where).out)
    assert done == {
        "database": str(other),
        "dry_run": False,
        "reminder": 1,
        "words": 0,
        "receipt": 0,
        "key": 1,
        "run": 0,
    }
    assert schedctl("export", *where).out.splitlines()[1:] == lines.read_text().splitlines()[1:]
    full = schedctl("import", str(lines))
    assert (full.status, "is not empty" in full.err) == (1, True)


def test_half_a_character_in_a_context_is_replaced_in_an_export_that_comes_back(
    schedctl: Schedctl, state: Path, tmp_path: Path
) -> None:
    """`sqlite3` lets it in; JSON has an escape for it, UTF-8 has nothing."""
    with by_hand(state / "scheduler.db") as conn:
        conn.execute("""UPDATE reminders SET context = '{"a":"\\ud800"}'""")
    lines, other = tmp_path / "all.jsonl", tmp_path / "other" / "s.db"
    assert schedctl("export", str(lines)) == (0, "", "")
    assert schedctl("import", str(lines), "--database", str(other)).status == 0
    with by_hand(other) as conn:
        assert conn.execute("SELECT context FROM reminders").fetchall() == [('{"a": "\ufffd"}',)]


def test_an_import_reads_stdin(process: Schedctl, state: Path, tmp_path: Path) -> None:
    lines = process("export").out.encode()
    where = ("--database", str(tmp_path / "s.db"))
    cut = process("import", "-", *where, data=lines[: len(lines) // 2])
    assert cut.status == 1
    assert "line 2: it is not whole: the file was cut off" in cut.err
    assert process("import", "-", *where, data=lines).status == 0


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (Path.mkdir, "cannot read {}: Is a directory"),
        (lambda path: path.symlink_to("nowhere"), "cannot read {}: No such file or directory"),
        (lambda path: path.symlink_to("/proc/self/mem"), "cannot read {}: Input/output error"),
        (lambda path: path.symlink_to("/dev/null"), "line 1: the file is empty"),
        (lambda path: path.symlink_to("/dev/zero"), "line 1: longer than"),
        (lambda path: new_file(path.parent).rename(path), "line 1: this is a database"),
    ],
)
def test_what_is_no_export_is_told_in_one_line(
    schedctl: Schedctl, tmp_path: Path, made: Callable[[Path], object], why: str
) -> None:
    path, other = tmp_path / "given", tmp_path / "new" / "other.db"
    made(path)
    ended = schedctl("import", str(path), "--database", str(other))
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"schedctl: {why.format(path)}")
    assert ended.err.count("\n") == 1
    assert not other.exists()


def test_an_import_of_nothing_says_so(schedctl: Schedctl, tmp_path: Path) -> None:
    empty, lines = new_file(tmp_path), tmp_path / "none.jsonl"
    assert schedctl("export", str(lines), "--database", str(empty)).status == 0
    other = tmp_path / "other.db"
    assert schedctl("import", str(lines), "--database", str(other)).out == (
        f"imported into {other}: nothing\n"
    )
    said = schedctl("import", str(lines), "--database", str(other), "--json")
    assert json.loads(said.out)["kept"].startswith(f"{other}.replaced-")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("backup", "b.db", "--database", "none.db"), "there is no database"),
        (("export", "--database", "none.db"), "there is no database"),
        (("restore", "none.db"), "is not a backup"),
        (("import", "none.jsonl"), "cannot read none.jsonl: No such file"),
        (("export", "no/such/folder.jsonl"), "cannot write no/such/folder.jsonl"),
        (("import", "--dry-run", "/dev/null", "--database", "x" * 300), "File name too long"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    schedctl: Schedctl,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = schedctl(*words)
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert why in ended.err


def test_a_closed_stdin_is_no_export(
    schedctl: Schedctl, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert schedctl("import", "-").err == "schedctl: - reads stdin, and stdin is closed\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
def test_an_export_that_cannot_be_written_is_a_failure_of_the_output(state: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "scheduler_daemon.cli", "export"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == b"schedctl: cannot write the output: No space left on device\n"
