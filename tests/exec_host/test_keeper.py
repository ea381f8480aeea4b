"""The process that keeps an attempt: how it runs a command, and what its folder says afterwards."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.exec_host import keeper
from scheduler_daemon.exec_host.keeping import start
from scheduler_daemon.exec_host.runs import FOLLOWUP, TEXT, Order, Report, Run, Runs
from tests.support.peer import DEADLINE_SECONDS

HOSTILE = "-rf --help \"'`$(touch gone)`' $HOME {session} \x1b[2J\x07 \u202e ä\n\n;&|"

Script = Callable[..., Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """An agent: a shell script with this body."""

    def written(body: str, name: str = "agent") -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return written


def order(tmp_path: Path, *command: object, **members: Any) -> Order:
    values: dict[str, Any] = {
        "session": "s1",
        "directory": str(tmp_path),
        "allowed": [str(tmp_path)],
        "timeout": DEADLINE_SECONDS,
        "command": [str(word) for word in command],
        "busy": [],
        "unknown": [],
        "when_busy": [],
        "server": None,
    }
    return Order(**values | members)


def begin(tmp_path: Path, what: Order, text: str = "do it") -> tuple[Run, subprocess.Popen[bytes]]:
    run = Runs(tmp_path / "runs").of("f1", 1)
    return run, start(run, what, {"session_id": "s1", "text": text}, text)


def carried_out(tmp_path: Path, what: Order, text: str = "do it") -> Report:
    run, process = begin(tmp_path, what, text)
    process.wait(DEADLINE_SECONDS)
    report = run.report()
    assert report is not None
    assert not run.is_kept()
    return report


def appears(path: Path) -> str:
    """The first line of a file once there is one."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)
    return path.read_text().splitlines()[0]


def test_the_text_is_stdin_the_id_one_argument_and_no_shell_reads_either(
    tmp_path: Path, script: Script
) -> None:
    agent = script('cat >stdin; for each; do echo "$each" >>args; done')
    what = order(tmp_path, agent, "--resume", "{session}", "a b;$(touch gone)", "")
    text = HOSTILE + "x" * 32_768 + "\U0001f600" * 32_768
    assert carried_out(tmp_path, what, text) == Report("done")
    assert (tmp_path / "stdin").read_text("utf-8") == text
    assert (tmp_path / "args").read_text() == "--resume\ns1\na b;$(touch gone)\n\n"
    assert not (tmp_path / "gone").exists()


def test_it_runs_in_the_directory_which_pwd_names_as_it_was_given(
    tmp_path: Path, script: Script
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    agent = script('env >out; /bin/pwd -P >>out; stat -c %a "$SCHEDULER_FOLLOWUP_FILE" >>out')
    carried_out(tmp_path, order(tmp_path, agent, directory=str(tmp_path / "link")))
    lines = (tmp_path / "real" / "out").read_text().splitlines()
    assert f"PWD={tmp_path}/link" in lines
    assert lines[-2:] == [str(tmp_path / "real"), "600"]


def test_the_structured_form_is_in_a_file_that_goes_with_the_run(
    tmp_path: Path, script: Script
) -> None:
    agent = script('cat "$SCHEDULER_FOLLOWUP_FILE" >copy; echo "$SCHEDULER_FOLLOWUP_FILE" >name')
    carried_out(tmp_path, order(tmp_path, agent), "täxt")
    assert json.loads((tmp_path / "copy").read_text()) == {"session_id": "s1", "text": "täxt"}
    run = Runs(tmp_path / "runs").of("f1", 1)
    assert (tmp_path / "name").read_text() == f"{run.path / FOLLOWUP}\n"
    assert not (run.path / FOLLOWUP).exists()
    assert not (run.path / TEXT).exists()
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


def test_an_agent_gets_the_hosts_environment_without_what_systemd_meant_for_the_host(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("ITS_KEY", "secret")
    carried_out(tmp_path, order(tmp_path, script("env >out")))
    lines = (tmp_path / "out").read_text().splitlines()
    assert "ITS_KEY=secret" in lines
    assert not [line for line in lines if line.startswith("NOTIFY_SOCKET")]


@pytest.mark.parametrize(
    ("body", "outcome", "reason"),
    [
        ("exit 0", "done", None),
        ("echo 'in use, sorry' >&2; exit 0", "done", None),
        ("exit 75", "busy", ""),
        ("echo 'in use, sorry' >&2; exit 1", "busy", "in use, sorry"),
        ("echo 'in use, sorry'; exit 1", "failed", "exit status 1: in use, sorry"),
        ("exit 67", "unknown", ""),
        ("echo 'no such thread 7' >&2; exit 1", "unknown", "no such thread 7"),
        ("exit 1", "failed", "exit status 1"),
        ("echo one; echo two >&2; exit 3", "failed", "exit status 3: two"),
        ("echo 'Error: it broke'; echo at line 1; exit 1", "failed", "exit status 1: Error: it"),
        (
            r"printf '\033[91mError: \033[0mred\n\n' >&2; exit 1",
            "failed",
            "exit status 1: Error: r",
        ),
        ("kill -KILL $$", "failed", "ended by signal 9"),
    ],
)
def test_what_the_end_of_a_command_means(
    tmp_path: Path, script: Script, body: str, outcome: str, reason: str | None
) -> None:
    what = order(tmp_path, script(body), busy=["in use"], unknown=["^no such thread"])
    report = carried_out(tmp_path, what)
    assert report.outcome == outcome
    assert (report.reason or "").startswith(reason or "")


def test_endless_output_is_read_and_not_kept(tmp_path: Path, script: Script) -> None:
    what = order(tmp_path, script("yes | head -c 5000000; echo 'the end' >&2; exit 1"))
    assert carried_out(tmp_path, what) == Report("failed", "exit status 1: the end")


def test_what_a_command_leaves_running_is_not_waited_for_and_goes_on(
    tmp_path: Path, script: Script
) -> None:
    agent = script("(echo $$ >left; exec sleep 600) & echo $! >pid; exit 0")
    assert carried_out(tmp_path, order(tmp_path, agent)) == Report("done")
    pid = int(appears(tmp_path / "pid"))
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)


def test_a_command_that_takes_too_long_is_ended_with_all_of_its_group(
    tmp_path: Path, script: Script
) -> None:
    agent = script("sleep 600 & echo $! >child; trap 'echo told >>told' TERM; wait; exit 0")
    report = carried_out(tmp_path, order(tmp_path, agent, timeout=1.0))
    assert report == Report("uncertain", "ended after 1 s without coming to an end")
    assert appears(tmp_path / "told") == "told"
    ended(int(appears(tmp_path / "child")))


def test_one_that_does_not_listen_is_killed_after_a_grace(tmp_path: Path, script: Script) -> None:
    agent = script("trap '' TERM; echo $$ >pid; while :; do sleep 1; done")
    program = (
        "import sys; sys.path.append(sys.argv[1]);"
        "from scheduler_daemon.exec_host import command, keeper;"
        "command.GRACE_SECONDS = 0.2; keeper.main(sys.argv[2])"
    )
    run = Runs(tmp_path / "runs").of("f1", 1)
    os.close(run.prepare(order(tmp_path, agent, timeout=1.0), {}, ""))
    root = str(Path(keeper.__file__).parents[2])
    words = [sys.executable, "-P", "-c", program, root, str(run.path)]
    subprocess.run(words, timeout=DEADLINE_SECONDS, check=True)
    assert run.report() == Report("uncertain", "ended after 1 s without coming to an end")
    ended(int(appears(tmp_path / "pid")))


def ended(pid: int) -> None:
    """Wait until the process is no more than a zombie."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        assert time.monotonic() < deadline, f"process {pid} goes on"
        time.sleep(0.02)


def test_an_agent_ends_with_its_keeper_and_the_folder_tells_that_it_was_cut_off(
    tmp_path: Path, script: Script
) -> None:
    run, process = begin(tmp_path, order(tmp_path, script("echo $$ >pid; exec sleep 600")))
    pid = int(appears(tmp_path / "pid"))
    assert run.is_kept()
    process.kill()
    process.wait(DEADLINE_SECONDS)
    ended(pid)
    assert not run.is_kept()
    assert run.report() is None


@pytest.mark.parametrize("program", ["no-such-agent", "{}/no-such-agent", "{}", "{}/text"])
def test_a_program_that_is_not_there_is_named(tmp_path: Path, program: str) -> None:
    (tmp_path / "text").write_text("no program")
    program = program.format(tmp_path)
    report = carried_out(tmp_path, order(tmp_path, program))
    assert report.outcome == "failed"
    assert (report.reason or "").startswith(f"there is no program {program}")
    assert ("in PATH=" in (report.reason or "")) == ("/" not in program)


def test_a_program_of_another_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent").write_bytes(b"\x7fELF and so on")
    (tmp_path / "agent").chmod(0o755)
    report = carried_out(tmp_path, order(tmp_path, tmp_path / "agent"))
    assert report == Report("failed", f"{tmp_path}/agent cannot be run: Exec format error")


def test_nothing_runs_where_it_may_not(tmp_path: Path, script: Script) -> None:
    (tmp_path / "in").mkdir()
    what = order(tmp_path, script("touch ran"), allowed=[str(tmp_path / "in")])
    report = carried_out(tmp_path, what)
    assert report.outcome == "failed"
    assert "is not below" in (report.reason or "")
    assert not (tmp_path / "ran").exists()


def test_a_busy_session_gets_the_text_by_the_command_for_open_ones(
    tmp_path: Path, script: Script
) -> None:
    what = order(
        tmp_path,
        script("exit 75"),
        when_busy=[str(script('echo "$1" "$2" >args', "queue")), "{session}", "--message={text}"],
    )
    assert carried_out(tmp_path, what, HOSTILE) == Report("done")
    assert (tmp_path / "args").read_text() == f"s1 --message={HOSTILE}\n"


@pytest.mark.parametrize(
    ("body", "outcome"), [("exit 1", "busy"), ("exit 67", "unknown"), ("exit 75", "busy")]
)
def test_a_session_stays_busy_where_that_does_not_help(
    tmp_path: Path, script: Script, body: str, outcome: str
) -> None:
    what = order(tmp_path, script("exit 75"), when_busy=[str(script(body, "queue")), "{text}"])
    assert carried_out(tmp_path, what).outcome == outcome


def test_a_text_that_no_argument_can_hold_waits_for_the_session(
    tmp_path: Path, script: Script
) -> None:
    what = order(
        tmp_path,
        script("exit 75"),
        when_busy=[str(script("touch ran", "queue")), "--message={text}"],
    )
    text = "x" * (keeper.LONGEST_ARGUMENT - len("--message=") + 1)
    assert carried_out(tmp_path, what, text).outcome == "busy"
    assert not (tmp_path / "ran").exists()
    Runs(tmp_path / "runs").of("f1", 1).remove()
    assert carried_out(tmp_path, what, text[1:]).outcome == "done"


def test_a_defect_of_the_keeper_is_told_too(tmp_path: Path, script: Script) -> None:
    report = carried_out(tmp_path, order(tmp_path, script("exit 1"), busy=["("]))
    assert report.outcome == "failed"
    assert "in the keeper: " in (report.reason or "")


def test_what_is_left_of_ended_messages_is_swept_away(tmp_path: Path, script: Script) -> None:
    runs = Runs(tmp_path / "runs")
    runs.sweep([])
    for followup_id in ("f1", "../f2", "f3" * 300):
        os.close(runs.of(followup_id, 1).prepare(order(tmp_path, "x"), {}, ""))
    os.close(runs.of("f1", 2).prepare(order(tmp_path, "x"), {}, ""))
    runs.sweep(["f1", "f4"])
    assert runs.of("f1", 1).exists()
    assert runs.of("f1", 2).exists()
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_keeper_that_cannot_be_started_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(FileNotFoundError):
        begin(tmp_path, order(tmp_path, "x"))
    assert not Runs(tmp_path / "runs").of("f1", 1).exists()
