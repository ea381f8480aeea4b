"""`schedctl service` for the host of agents, with a script in the place of a manager."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scheduler_daemon.cli import unit_files
from scheduler_daemon.client.spool import Spool
from tests.cli.test_service import Schedctl, Stand
from tests.cli.test_service import stand as stand
from tests.support.short import short_path as short_path

(NAME,) = unit_files.HOST_EXEC


def test_install_writes_the_unit_of_the_host_for_this_interpreter_and_this_path(
    stand: Stand, schedctl: Schedctl
) -> None:
    ended = schedctl("service", "install", "--host-exec")
    assert ended.status == 0, ended.err
    assert [path.name for path in stand.units.iterdir()] == [NAME]
    lines = (stand.units / NAME).read_text().splitlines()
    start = "-P -m scheduler_daemon.cli host-exec --all --profile auto"
    assert f'ExecStart="{sys.executable}" {start}' in lines
    assert f'Environment="PATH={os.environ["PATH"]}"' in lines
    assert f'Environment="SCHEDULER_DAEMON_SOCKET={stand.folder}/d.sock"' in lines
    assert stand.asked()[-3:-1] == ["--user daemon-reload", f"--user enable --now {NAME}"]
    assert "The host of agents runs, and starts at each login.\n" in ended.out


def test_the_socket_that_is_named_is_the_one_where_it_looks_for_the_daemon(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("service", "install", "--host-exec", "--dry-run")
    assert 'SOCKET=/run/other.sock"' in schedctl(*words, "--socket", "/run/other.sock").out
    monkeypatch.delenv("SCHEDULER_DAEMON_SOCKET")
    assert "SOCKET=" not in schedctl(*words).out
    assert not stand.units.exists()


def test_the_daemon_and_the_host_are_installed_and_removed_each_by_itself(
    stand: Stand, schedctl: Schedctl
) -> None:
    for more in ([], ["--host-exec"]):
        assert schedctl("service", "install", *more).status == 0
    assert {path.name for path in stand.units.iterdir()} == set(unit_files.ALL)
    gone = schedctl("service", "uninstall", "--host-exec")
    assert gone.status == 0
    assert f"--user disable --now {NAME}" in stand.asked()
    assert {path.name for path in stand.units.iterdir()} == set(unit_files.DAEMON)
    assert "there is no unit" in schedctl("service", "uninstall", "--host-exec").err


def test_without_the_daemon_the_host_is_of_no_use_so_it_goes_with_it(
    stand: Stand, schedctl: Schedctl
) -> None:
    for more in ([], ["--host-exec"]):
        schedctl("service", "install", *more)
    assert schedctl("service", "uninstall").status == 0
    assert list(stand.units.iterdir()) == []


def test_a_unit_of_the_host_that_somebody_else_wrote_stays(
    stand: Stand, schedctl: Schedctl
) -> None:
    schedctl("service", "install")
    (stand.units / NAME).write_text("[Service]\n")
    refused = schedctl("service", "install", "--host-exec")
    assert (refused.status, "was not written by schedctl" in refused.err) == (1, True)
    assert schedctl("service", "uninstall").status == 0
    assert (stand.units / NAME).read_text() == "[Service]\n"


def test_status_shows_the_host_as_well(stand: Stand, schedctl: Schedctl) -> None:
    schedctl("service", "install", "--host-exec")
    ended = schedctl("service", "status")
    assert f"{NAME}: written by schedctl\n" in ended.out
    assert "host of agents active\n" in ended.out
    assert json.loads(schedctl("service", "status", "--json").out)["host_exec"] == "active"
    assert schedctl("service", "status", "--host-exec").status == 2


def test_a_host_that_cannot_start_leaves_no_unit(stand: Stand, schedctl: Schedctl) -> None:
    stand.has("broken")
    ended = schedctl("service", "install", "--host-exec")
    assert ended.status == 1
    assert "the host of agents does not start, and the units were taken away again" in ended.err
    assert list(stand.units.iterdir()) == []


def test_a_host_that_was_started_by_hand_is_told_of(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit would start in vain, again and again."""
    stand.has("inactive")
    queue = stand.folder / "home/.local/state/scheduler-daemon/host-exec.db"
    queue.parent.mkdir(parents=True, mode=0o700)
    spool = Spool(queue)
    try:
        spool.hold()
        spool.describe({"pid": 4321})
        ended = schedctl("service", "install", "--host-exec")
        assert (ended.status, "host-exec runs already, as process 4321" in ended.err) == (1, True)
        assert not stand.units.exists()
    finally:
        spool.close()
    assert schedctl("service", "install", "--host-exec").status == 0


def test_that_the_unit_itself_runs_is_no_reason_not_to_install_it_again(
    stand: Stand, schedctl: Schedctl
) -> None:
    queue = stand.folder / "home/.local/state/scheduler-daemon/host-exec.db"
    queue.parent.mkdir(parents=True, mode=0o700)
    spool = Spool(queue)
    try:
        spool.hold()
        assert schedctl("service", "install", "--host-exec").status == 0
    finally:
        spool.close()


def test_profiles_that_cannot_be_used_are_told_before_anything_is_done(
    stand: Stand, schedctl: Schedctl
) -> None:
    table = stand.folder / "home/.config/scheduler-daemon/profiles.toml"
    table.parent.mkdir(parents=True)
    table.write_text("[claude]\nargv = []\n")
    assert schedctl("service", "install", "--host-exec").status == 6
    assert not stand.units.exists()


def test_the_unit_that_is_shipped_has_the_line_that_is_replaced() -> None:
    lines = (unit_files.templates() / NAME).read_text().splitlines()
    assert lines.count("ExecStart=schedctl host-exec --all --profile auto") == 1


def test_what_it_is_started_with_is_quoted_for_a_unit_file(tmp_path: Path) -> None:
    text = unit_files.host_texts({"PATH": "/a%b"}, tmp_path / "s.sock")[NAME]
    assert 'Environment="PATH=/a%%b"\n' in text
    assert f'Environment="SCHEDULER_DAEMON_SOCKET={tmp_path}/s.sock"\nExecStart=' in text
