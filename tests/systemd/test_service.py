"""`schedctl service` for an ordinary user, with a real service manager of that user."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.systemd.inside import Unit
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.acceptance]

USER = "ada"
FOLDER = f"/home/{USER}/.config/systemd/user"
SERVICE = f"{FOLDER}/scheduler-daemon.service"


@pytest.fixture
def own(user: Unit, machine: Machine) -> Iterator[Unit]:
    """The manager of a user for whom nothing is installed; what a test installs goes after it."""
    machine.sh("rm -f /etc/systemd/user/scheduler-daemon.*")
    user.ctl("daemon-reload")
    yield user
    machine.sh(f"rm -rf {FOLDER}")


def service(unit: Unit, words: str, environ: str = "") -> subprocess.CompletedProcess[str]:
    return unit.inside.run(f"{environ} schedctl service {words}", USER)


def installed(unit: Unit, environ: str = "") -> None:
    done = service(unit, "install", environ)
    assert done.returncode == 0, done.stderr


def test_what_it_installs_runs_and_delivers_and_keeps_its_file_where_it_was(own: Unit) -> None:
    inside = own.inside
    dry = service(own, "install --dry-run")
    assert f"# {SERVICE}" in dry.stdout
    assert not inside.path(FOLDER).exists()
    installed(own)
    assert own.is_active()
    assert own.prop("UnitFileState") == own.prop("UnitFileState", "socket") == "enabled"
    inside.sh("schedctl create --session s --after 1h words", USER)
    assert inside.path(f"{own.state}/scheduler.db").exists()
    status = service(own, "status")
    assert status.returncode == 0
    assert "service active" in status.stdout
    assert f"loginctl enable-linger {USER}" in status.stdout


def test_it_says_that_it_ends_at_logout(own: Unit) -> None:
    said = service(own, "install").stdout
    assert "ends when you log out" in said
    assert f"loginctl enable-linger {USER}" in said


def test_where_the_user_lingers_it_needs_no_login_and_says_nothing_of_it(own: Unit) -> None:
    inside = own.inside
    inside.sh("useradd --create-home --uid 1310 --shell /bin/sh dee && loginctl enable-linger dee")
    inside.sh("for i in $(seq 600); do systemctl is-active user@1310 && exit 0; sleep 0.1; done")
    assert "log out" not in inside.sh("schedctl service install", "dee")
    assert json.loads(inside.sh("schedctl service status --json", "dee"))["lingers"] is True
    inside.sh("schedctl service uninstall", "dee")


def test_installed_again_it_is_still_the_same_daemon_with_the_same_reminders(own: Unit) -> None:
    installed(own)
    own.inside.sh("schedctl create --session s --after 1h words", USER)
    installed(own)
    assert "words" in own.inside.sh("schedctl list", USER)


def test_uninstalled_nothing_of_it_is_left_but_the_reminders(own: Unit) -> None:
    installed(own)
    done = service(own, "uninstall")
    assert done.returncode == 0, done.stderr
    assert own.state in done.stdout
    assert own.inside.sh(f"find {FOLDER} -not -type d") == ""
    assert own.prop("LoadState") == "not-found"
    assert not own.inside.path(own.socket).exists()
    assert own.inside.path(f"{own.state}/scheduler.db").exists()
    assert service(own, "uninstall").returncode == 1
    assert service(own, "status").returncode == 1


@pytest.mark.parametrize("act", ["install", "uninstall"])
def test_what_it_did_not_write_or_somebody_changed_is_left_as_it_is(own: Unit, act: str) -> None:
    inside = own.inside
    installed(own)
    inside.sh(f"echo '# mine' >> {SERVICE}")
    before = inside.sh(f"cat {FOLDER}/scheduler-daemon.*")
    refused = service(own, act)
    assert refused.returncode == 1
    assert f"{SERVICE} was changed since schedctl wrote it" in refused.stderr
    assert inside.sh(f"cat {FOLDER}/scheduler-daemon.*") == before
    assert own.is_active()
    inside.sh(f"echo '[Unit]' > {SERVICE}")
    assert f"{SERVICE} was not written by schedctl" in service(own, act).stderr
    assert inside.sh(f"cat {SERVICE}") == "[Unit]"


def test_settings_that_a_daemon_started_by_hand_would_have_are_those_of_the_unit(own: Unit) -> None:
    place = f'/home/{USER}/all my %h "reminders"'
    installed(own, f"XDG_STATE_HOME='{place}' SCHEDULER_DAEMON_MAX_PROMPT_CHARS=5")
    made = own.inside.run("schedctl create --session s --after 1h longer", USER)
    assert made.returncode == 5
    assert own.inside.path(f"{place}/scheduler-daemon/scheduler.db").exists()


def test_a_socket_that_the_settings_name_is_the_one_that_is_listened_at(own: Unit) -> None:
    installed(own, f"SCHEDULER_DAEMON_SOCKET=/home/{USER}/s.sock")
    assert own.inside.sh(f"schedctl --socket /home/{USER}/s.sock list", USER) == ""


def test_a_daemon_that_was_started_by_hand_keeps_its_socket(own: Unit) -> None:
    inside = own.inside
    inside.sh("(scheduler-daemon run >/dev/null 2>&1 & echo $! > /tmp/by-hand)", USER)
    inside.sh("for i in $(seq 600); do schedctl list && exit 0; sleep 0.1; done; exit 1", USER)
    try:
        refused = service(own, "install")
        assert refused.returncode == 1
        assert "scheduler.sock already: stop it" in refused.stderr
        assert not inside.path(SERVICE).exists()
        assert inside.sh("schedctl list", USER) == ""
    finally:
        inside.sh("kill $(cat /tmp/by-hand)")


def test_a_daemon_that_cannot_start_leaves_no_units_and_says_why(own: Unit) -> None:
    own.inside.sh(f"mkdir -p {own.state[:-17]} && touch {own.state}", USER)
    refused = service(own, "install")
    assert refused.returncode == 1
    assert "state directory" in refused.stderr
    assert own.inside.sh(f"find {FOLDER} -not -type d") == ""
    assert own.prop("LoadState") == "not-found"


def test_without_a_manager_nothing_is_written_and_it_says_what_to_do(own: Unit) -> None:
    own.inside.sh("id bea >/dev/null 2>&1 || useradd --create-home --uid 1301 bea")
    refused = own.inside.run("schedctl service install", "bea")
    assert refused.returncode == 1
    assert "no service manager of this user answers" in refused.stderr
    assert "loginctl enable-linger bea" in refused.stderr
    assert not own.inside.path("/home/bea/.config").exists()


def test_a_unit_that_came_with_a_package_is_named_and_left_alone(user: Unit) -> None:
    refused = service(user, "install")
    assert refused.returncode == 1
    assert "this user has the unit already, /etc/" in refused.stderr
    assert "`systemctl --user enable --now scheduler-daemon.socket" in refused.stderr
    assert not user.inside.path(SERVICE).exists()
