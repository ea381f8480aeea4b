"""What the system unit alone promises: its folders, who may come, what the filter lets through."""

from __future__ import annotations

import json

import pytest

from tests.systemd.inside import Unit

pytestmark = [pytest.mark.systemd, pytest.mark.acceptance]

CLIENT = "schedctl --socket /run/scheduler-daemon/scheduler.sock"


def test_its_folder_is_private_and_its_socket_is_for_the_group(system: Unit) -> None:
    system.ctl("start scheduler-daemon.socket")
    look = f"stat -c '%U %G %a' {system.socket}"
    assert system.inside.sh(look) == "root scheduler 660"
    system.start()
    assert system.inside.sh(look) == "scheduler-daemon scheduler 660"
    assert system.inside.sh(f"stat -c '%U %a' {system.state}") == "scheduler-daemon 700"
    files = system.inside.sh(f"stat -c '%U %a' {system.state}/*").splitlines()
    assert set(files) == {"scheduler-daemon 600"}
    assert system.prop("User") == "scheduler-daemon"


def test_members_of_the_group_come_in_as_themselves_and_nobody_else_does(system: Unit) -> None:
    inside = system.inside
    inside.sh("id bea >/dev/null 2>&1 || useradd --uid 1301 --groups scheduler bea")
    inside.sh("id cyd >/dev/null 2>&1 || useradd --uid 1302 cyd")
    system.ctl("start scheduler-daemon.socket")
    made = inside.sh(f"{CLIENT} create --json --session s --after 1h words", "bea")
    assert json.loads(made)["reminder"]["owner_uid"] == 1301
    refused = inside.run(f"{CLIENT} list", "cyd")
    assert refused.returncode == 3
    assert "this user may not open it" in refused.stderr
    assert inside.sh(f"{CLIENT} list --json") == ""
    everybodys = json.loads(inside.sh(f"{CLIENT} list --json --all-owners"))
    assert everybodys["owner_uid"] == 1301


def test_whoever_the_socket_lets_through_and_the_settings_do_not_is_refused_in_words(
    system: Unit,
) -> None:
    system.inside.sh("id cyd >/dev/null 2>&1 || useradd --uid 1302 cyd")
    system.more("[Socket]\nSocketMode=0666\n", "socket")
    system.ctl("start scheduler-daemon.socket")
    refused = system.inside.run(f"{CLIENT} list", "cyd")
    assert refused.returncode == 5
    assert "must be a member of the group scheduler" in refused.stderr
    assert [entry["PRIORITY"] for entry in system.entries()][-1] == "4"


@pytest.mark.parametrize(
    "timing",
    [
        {"after_seconds": 1},
        {"daily": {"time": "09:00", "time_zone": "Europe/Berlin"}},
        {"cron": {"expression": "*/5 * * * *", "time_zone": "America/New_York"}},
    ],
)
def test_hardened_it_does_all_of_its_work(system: Unit, timing: dict[str, object]) -> None:
    system.ctl("start scheduler-daemon.socket")
    peer = system.peer()
    peer.attach(["s"])
    made = peer.create("s", "words", **timing)
    if "after_seconds" not in timing:
        peer.call("reminder.run_now", id=made["id"])
    assert peer.next_followup().prompts == ["words"]
    status = peer.call("daemon.status")
    assert status["clock"] == "timerfd"
    assert status["free_disk_bytes"] > 0
    assert "last_persistence_error" not in status
    system.ctl("stop scheduler-daemon.service")
    assert {entry["PRIORITY"] for entry in system.entries()} == {"6"}


def test_it_waits_for_the_clock_to_be_synchronised_and_starts_at_boot(system: Unit) -> None:
    assert "time-sync.target" in system.prop("After")
    assert system.prop("UnitFileState") == system.prop("UnitFileState", "socket") == "enabled"
