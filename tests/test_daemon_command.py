"""The command `scheduler-daemon run` and `migrate`: what a person gets to read, and its status."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scheduler_daemon
from scheduler_daemon import daemon
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.server.listener import Listener
from scheduler_daemon.settings import Settings
from scheduler_daemon.store.database import DatabaseRefused
from tests.support.fresh import unmeasured
from tests.support.inprocess import needs_root
from tests.support.logs import log_put_back
from tests.support.process import DaemonProcess, short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def _own_log() -> Iterator[None]:
    """`run` takes the log of the whole process."""
    with log_put_back():
        yield


def settings(folder: Path, **more: Any) -> Settings:
    values = {"state_directory": folder / "state", "socket": folder / "run" / "s.sock"}
    return Settings(**(values | more))


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.usefixtures("_own_log")
class TestCommand:
    """`scheduler-daemon run` and `migrate`, as far as they need no process of their own."""

    def plain(self, capsys: pytest.CaptureFixture[str]) -> str:
        """The one line on stderr."""
        out, err = capsys.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        assert line.startswith("scheduler-daemon: ")
        return line.removeprefix("scheduler-daemon: ")

    @pytest.mark.parametrize("act", [daemon.run, daemon.migrate])
    def test_a_state_folder_that_cannot_be_is_a_plain_line(
        self, folder: Path, capsys: pytest.CaptureFixture[str], act: Callable[[Settings], int]
    ) -> None:
        (folder / "state").touch()
        assert act(settings(folder)) == 1
        assert "state directory" in self.plain(capsys)

    def test_a_socket_that_cannot_be_is_a_plain_line(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "run").touch()
        assert daemon.run(settings(folder)) == 1
        assert "cannot listen at" in self.plain(capsys)
        assert (folder / "run").read_bytes() == b""

    def test_a_wrong_file_in_place_of_the_database_is_a_plain_line(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "state").mkdir()
        (folder / "state" / "scheduler.db").write_bytes(b"my diary" * 1000)
        assert daemon.run(settings(folder)) == 1
        assert "left as it is" in self.plain(capsys)
        assert (folder / "state" / "scheduler.db").read_bytes() == b"my diary" * 1000

    @pytest.mark.parametrize(
        ("error", "line"),
        [
            (
                PersistenceFailed("not stored"),
                "not stored; the log says why, and `schedctl doctor` looks through the file",
            ),
            (sqlite3.DatabaseError("malformed"), "the database cannot be used: malformed"),
            (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied"),
            (OSError(24, "Too many open files"), "the system: Too many open files"),
            (OSError("no number"), "the system: no number"),
            (DatabaseRefused("two\nlines"), "two\\nlines"),
        ],
    )
    @pytest.mark.parametrize("act", [daemon.run, daemon.migrate])
    def test_what_the_world_does_is_a_plain_line(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        act: Callable[[Settings], int],
        error: Exception,
        line: str,
    ) -> None:
        monkeypatch.setattr(daemon, "_take", failing(error))
        assert act(settings(folder)) == 1
        assert self.plain(capsys) == line

    def test_a_defect_leaves_its_traceback_in_the_log_and_a_plain_line(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(daemon, "_take", failing(ZeroDivisionError("oh")))
        assert daemon.run(settings(folder, log_format="json")) == 1
        logged, line = capsys.readouterr().err.splitlines()
        assert "ZeroDivisionError" in logged
        assert line == "scheduler-daemon: it failed inside; the log says more"

    def test_an_sqlite_that_is_too_old_is_a_plain_line(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 9))
        assert daemon.run(settings(folder)) == 1
        assert "3.37 or newer is needed" in self.plain(capsys)
        assert list(folder.iterdir()) == []

    def test_migrate_says_what_it_applied_and_then_that_there_is_nothing_to_do(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert daemon.migrate(settings(folder)) == 0
        assert capsys.readouterr().out.startswith("applied 0001_")
        assert daemon.migrate(settings(folder)) == 0
        assert capsys.readouterr().out == "the database is up to date\n"
        assert not (folder / "run").exists()

    def test_run_ends_with_0_when_it_was_stopped(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = Listener.start

        async def start_and_stop(self: Listener) -> None:
            await start(self)
            os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Listener, "start", start_and_stop)
        assert daemon.run(settings(folder)) == 0
        assert not (folder / "run" / "s.sock").exists()


# --- processes


@pytest.fixture
def process(folder: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(folder)
    yield made
    made.close()


def test_a_killed_daemon_starts_again_at_once_on_its_stale_socket(process: DaemonProcess) -> None:
    process.start().kill()
    assert process.socket.exists()
    process.start()
    assert process.peer().call("reminder.list") == {"items": []}
    assert process.stop() == 0
    assert not process.socket.exists()


def test_more_peers_than_there_are_descriptors_do_not_bring_it_down(
    process: DaemonProcess,
) -> None:
    process.start()
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (160, 160))
    socks = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for sock in socks:
        sock.settimeout(30)
        sock.connect(str(process.socket))
        sock.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "hello"}\n')
    answers = [sock.recv(1 << 16) for sock in socks]
    assert sum(b'"result"' in answer for answer in answers) == 16
    assert sum(b'"overloaded"' in answer for answer in answers) == 84
    for sock in socks:
        sock.close()
    assert process.stop() == 0
    assert len(process.events("connections_exhausted")) == 1


@needs_root
def test_where_it_may_not_write_a_user_gets_a_plain_line(folder: Path) -> None:
    package = Path(scheduler_daemon.__file__).parents[1]
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from scheduler_daemon import daemon\n"
        "from scheduler_daemon.settings import Settings\n"
        "os.chdir(sys.argv[2]); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "state = Path('/proc/self/cwd/state')\n"
        "sys.exit(daemon.run(Settings(state_directory=state, socket=Path('/proc/self/cwd/s'))))\n"
    )
    folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(package), str(folder)],
        capture_output=True,
        text=True,
        env=unmeasured(),
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("scheduler-daemon: ")
    assert "Permission denied" in line
    assert list(folder.iterdir()) == []
