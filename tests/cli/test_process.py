"""schedctl as a process: what it loads, pipes, signals and odd environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon
from tests.support.fresh import unmeasured

Schedctl = Callable[..., Ended]

SCHEDCTL = (sys.executable, "-m", "scheduler_daemon.cli")
HEAVY = frozenset(
    (
        *("pydantic", "structlog", "aiosqlite", "asyncio", "sqlite3", "subprocess", "zoneinfo"),
        *("dataclasses", "inspect", "typing", "contextlib", "pathlib", "logging", "threading"),
        *("shutil", "difflib", "tempfile", "struct", "random", "decimal", "unicodedata"),
        *("scheduler_daemon.rules", "scheduler_daemon.model", "scheduler_daemon.wire.shapes"),
        *("scheduler_daemon.wire.calls", "scheduler_daemon.cli.refusals"),
    )
)
"""What the verbs of every day may not import. What is left, `python -m bench client` measures."""


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "--json"],
        ["show", "r7"],
        ["delete", "r7"],
        ["pause", "r7"],
        ["sessions"],
        ["create", "--session", "s1", "--after", "20m", "Check the build"],
    ],
)
def test_the_client_path_loads_nothing_heavy(daemon: ScriptedDaemon, words: list[str]) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": [shapes.reminder()]}
    daemon.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder()}
    daemon.answers["reminder.delete"] = lambda params: {"id": "r7", "deleted": True}
    daemon.answers["reminder.pause"] = lambda params: {"reminder": shapes.reminder()}
    daemon.answers["session.list"] = lambda params: {"items": [shapes.session()]}
    daemon.answers["reminder.create"] = lambda params: {
        "reminder": shapes.reminder(),
        "created": True,
    }
    # What the interpreter brings along, or whoever set up its site, is not the command's.
    program = (
        "import sys; before = set(sys.modules)\n"
        "from scheduler_daemon.cli.main import main\n"
        f"assert main({words!r}) == 0\n"
        f"print(sorted({HEAVY!r} & sys.modules.keys() - before), file=sys.stderr)"
    )
    # A measurement of coverage in that process would load what is looked for.
    env = unmeasured()
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env=env,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr == "[]\n"


def test_a_reader_that_has_read_enough_ends_it_quietly(daemon: ScriptedDaemon) -> None:
    long = [shapes.reminder(prompt="x" * 1000) for _ in range(300)]
    daemon.answers["reminder.list"] = lambda params: {"items": long}
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        [*SCHEDCTL, "list"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
def test_output_that_cannot_be_written_is_a_failure_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*SCHEDCTL, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == b"schedctl: cannot write the output: No space left on device\n"


def test_a_closed_stdout_is_no_failure(daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": [shapes.reminder()]}
    command = f"exec {sys.executable} -m scheduler_daemon.cli list >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_ctrl_c_while_it_waits_is_130_and_quiet(daemon: ScriptedDaemon) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "scheduler_daemon.cli",
            "create",
            "--session",
            "s",
            "--after",
            "1h",
            "-",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as waiting:
        assert waiting.stdin is not None
        # More than a pipe holds: once it is written, the process is reading.
        waiting.stdin.write(b"x" * 200_000)
        waiting.stdin.flush()
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "no_SUCH.locale", "LANG": ""},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_words_go_in_and_out_as_utf8_whatever_the_locale(
    daemon: ScriptedDaemon, process: Schedctl, env: dict[str, str]
) -> None:
    daemon.answers["reminder.create"] = lambda params: {
        "reminder": shapes.reminder(prompt=params["prompt"]),
        "created": True,
    }
    words = ["create", "--session", "ü", "--after", "20m", "--json"]
    said = process(*words, "--", "-grüße 你好", env=env)
    assert (said.status, said.err) == (0, "")
    assert "-grüße 你好" in said.out
    piped = process(*words, "-", data="grüße".encode(), env=env)
    assert "grüße" in piped.out
    assert [params["session_id"] for params in daemon.params_of("reminder.create")] == ["ü", "ü"]


def test_stdin_that_is_not_utf8_is_misuse(process: Schedctl) -> None:
    ended = process("create", "--session", "s", "--after", "1h", "-", data=b"gr\xfc\xdfe")
    assert (ended.status, ended.out) == (2, "")
    assert "not UTF-8 (byte 3)" in ended.err


def test_a_prompt_on_stdin_that_no_message_could_hold_is_misuse(process: Schedctl) -> None:
    data = b"x" * (1 << 20) + b"y"
    ended = process("create", "--session", "s", "--after", "1h", "-", data=data)
    assert ended.status == 2
    assert "longer than a message" in ended.err


@pytest.mark.parametrize(
    ("words", "status"),
    [("show --owner no-such-user r7 2>&-", 2), ("list 2>&-", 3), ("nonsense 2>/dev/full", 2)],
)
def test_errors_never_go_to_stdout_and_keep_their_status(words: str, status: int) -> None:
    command = f"exec {sys.executable} -m scheduler_daemon.cli {words}"
    ended = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (status, b"")


@pytest.mark.parametrize(
    ("stdin", "why"), [("<&-", "stdin is closed"), ("0>/dev/null", "Bad file descriptor")]
)
def test_a_prompt_from_a_stdin_that_cannot_be_read_is_misuse(stdin: str, why: str) -> None:
    command = f"exec {sys.executable} -m scheduler_daemon.cli create --session s --after 1h -"
    ended = subprocess.run(
        ["sh", "-c", f"{command} {stdin}"], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.decode().startswith("schedctl: - reads the prompt from stdin")
    assert why in ended.stderr.decode()
    assert ended.stderr.count(b"\n") == 1
