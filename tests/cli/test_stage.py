"""The stage of the demo: real processes, and nothing left of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scheduler_daemon.cli import stage
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.stage import Stage


def test_leaving_the_stage_ends_its_processes_and_removes_its_folder() -> None:
    with Stage() as here:
        here.start_daemon()
        here.start_host("s1")
        assert here.folder.is_dir()
        assert '"hosts": [{"name": "demo-host"' in here.schedctl("status", "--json")
        daemon, host = here.daemon, here.host
    assert daemon is not None
    assert host is not None
    assert daemon.returncode == 0
    assert host.returncode is not None
    assert not here.folder.exists()


def test_a_daemon_that_does_not_start_is_quoted() -> None:
    with Stage() as here:
        here.database.write_text("not a database, whatever it is called " * 100)
        with pytest.raises(FailedError, match=r"the daemon did not start; its last words: .*[a-z]"):
            here.start_daemon()
    assert not here.folder.exists()


def test_patience_with_a_daemon_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_PATIENCE", 0)
    with Stage() as here, pytest.raises(FailedError, match="its last words: none"):
        here.start_daemon()


@pytest.mark.parametrize(("session", "patience"), [("no\nname", 400), ("s1", 0)])
def test_a_host_that_does_not_attach_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, session: str, patience: int
) -> None:
    with Stage() as here:
        here.start_daemon()
        monkeypatch.setattr(stage, "_PATIENCE", patience)
        with pytest.raises(FailedError, match="did not attach"):
            here.start_host(session)


def test_a_command_that_fails_is_named() -> None:
    with Stage() as here, pytest.raises(FailedError, match="`schedctl list` ended with status 3"):
        here.schedctl("list")


def test_a_long_temporary_folder_gives_way_to_one_that_a_socket_fits_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with Stage() as here:
        assert str(here.folder).startswith("/tmp/")
    assert list(deep.iterdir()) == []


def test_a_process_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    monkeypatch.setattr(stage, "_GRACE", 0.1)
    with Stage() as here:
        here.daemon = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
        assert here.daemon.stdout is not None
        here.daemon.stdout.readline()
    assert here.daemon.returncode == -9
