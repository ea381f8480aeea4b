"""The host of command-line agents as a unit of a user, under a real systemd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.inside import Unit, until
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.acceptance]

NAME = "scheduler-daemon-host-exec.service"
SESSION = "5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11"

_AGENT = """\
#!/bin/sh
cat >text
echo "$@" >>runs
while ! test -e go; do sleep 0.05; done
"""


@pytest.fixture
def project(machine: Machine, user: Unit) -> Iterator[Path]:
    """A folder of the user, seen from outside, and an agent in `~/bin`."""
    machine.write("/home/ada/bin/claude", _AGENT, 0o755)
    machine.write("/home/ada/project/.keep", "")
    machine.sh("chown -R ada: /home/ada")
    lines = "[Service]\nEnvironment=PATH=%h/bin:/usr/local/bin:/usr/bin:/bin\n"
    machine.write(f"{user.drop_ins}/{NAME}.d/test.conf", lines)
    user.ctl("daemon-reload")
    yield machine.path("/home/ada/project")
    (machine.path("/home/ada/project") / "go").touch()
    user.run(f"systemctl stop {NAME}")
    machine.sh(f"rm -rf /home/ada/bin /home/ada/project {user.drop_ins}/{NAME}.d")


def messages(user: Unit) -> list[tuple[str, int]]:
    """State and attempts of each in the queue."""
    listed = user.run("schedctl spool list --all --json").stdout.splitlines()
    return [(each["state"], each["attempts"]) for each in map(json.loads, listed)]


def test_a_turn_outlives_a_restart_of_the_unit_and_a_kill(user: Unit, project: Path) -> None:
    user.ctl(f"start scheduler-daemon.socket {NAME}")
    made = user.run(
        f"schedctl create --session {SESSION} --after 1s --context agent=claude"
        " --context cwd=/home/ada/project 'Check the build'"
    )
    assert made.returncode == 0, made.stderr
    until((project / "runs").exists)
    user.ctl(f"restart {NAME}")
    user.ctl(f"kill --kill-who=main --signal=KILL {NAME}")
    until(lambda: user.ctl(f"show -P ActiveState {NAME}") == "active")
    assert messages(user) == [("running", 1)]
    (project / "go").touch()
    until(lambda: messages(user) == [("done", 1)])
    assert len((project / "runs").read_text().splitlines()) == 1
    assert 'prompt: "Check the build"' in (project / "text").read_text()


def test_a_table_of_profiles_that_cannot_be_used_is_not_tried_again(
    machine: Machine, user: Unit, project: Path
) -> None:
    machine.write("/home/ada/.config/scheduler-daemon/profiles.toml", "[claude]\nargv = []\n")
    try:
        user.run(f"systemctl start {NAME}")
        until(lambda: user.ctl(f"show -P ActiveState {NAME}") == "failed")
        assert user.ctl(f"show -P ExecMainStatus {NAME}") == "6"
        assert user.ctl(f"show -P NRestarts {NAME}") == "0"
    finally:
        machine.sh("rm /home/ada/.config/scheduler-daemon/profiles.toml")
        user.run(f"systemctl reset-failed {NAME}")


def test_the_unit_that_schedctl_writes_finds_agents_where_its_shell_did(
    machine: Machine, user: Unit, project: Path
) -> None:
    """A clone installed with pip brings no unit, and starts no `schedctl` of all users."""
    machine.sh(f"rm /etc/systemd/user/{NAME}")
    machine.sh(f"rm -r {user.drop_ins}/{NAME}.d")  # with the PATH of the other tests
    user.ctl("daemon-reload")
    (project / "go").touch()
    done = user.run("PATH=$HOME/bin:$PATH schedctl service install --host-exec")
    assert done.returncode == 0, done.stderr
    user.ctl("start scheduler-daemon.socket")
    user.run(
        f"schedctl create --session {SESSION} --after 1s --context agent=claude"
        " --context cwd=/home/ada/project 'Check the build'"
    )
    until(lambda: messages(user) == [("done", 1)])
    status = json.loads(user.run("schedctl service status --json").stdout)
    assert status["host_exec"] == "active"
    gone = user.run("schedctl service uninstall --host-exec")
    assert gone.returncode == 0, gone.stderr
    assert user.ctl(f"show -P LoadState {NAME}") == "not-found"
