"""A machine for all tests of a module, and the units in it, as new for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.inside import INSTALLED, PROJECT, UNITS, CannotRun, Unit
from tests.systemd.machine import Machine

USER = "ada"
UID = 1234


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine on which the system unit is installed as docs/systemd.md says, and a user lives."""
    try:
        machine = Machine()
    except CannotRun as reason:
        pytest.skip(f"no systemd of its own: {reason}")
    try:
        machine.launchers("/usr/local/bin")
        machine.sh(f'cd {INSTALLED[str(PROJECT)]}\nset -e\nsudo() {{ "$@"; }}\n{documented()}')
        machine.sh("systemctl stop scheduler-daemon.socket scheduler-daemon.service")
        machine.sh("rm -rf /var/lib/scheduler-daemon /run/scheduler-daemon")
        machine.sh(f"useradd --create-home --uid {UID} --shell /bin/sh {USER}")
        yield machine
    finally:
        machine.close()


@pytest.fixture
def system(machine: Machine) -> Iterator[Unit]:
    """The system unit, with no database yet and the configuration that is shipped."""
    machine.write("/etc/scheduler-daemon/config.toml", (UNITS / "config.toml").read_text())
    unit = Unit(
        machine,
        "",
        state="/var/lib/scheduler-daemon",
        socket="/run/scheduler-daemon/scheduler.sock",
        config="/etc/scheduler-daemon/config.toml",
        drop_ins="/run/systemd/system",
    )
    yield from used(unit)


@pytest.fixture
def user(machine: Machine) -> Iterator[Unit]:
    """The user unit in the manager of an ordinary user, with no database yet."""
    started = machine.run(
        f"systemctl start dbus.socket systemd-logind.service && systemctl start user@{UID}"
    )
    if started.returncode:
        pytest.skip(f"no manager of a user: {started.stderr}")
    for file in (UNITS / "user").iterdir():  # as a package would bring them
        machine.write(f"/etc/systemd/user/{file.name}", file.read_text())
    home = f"/home/{USER}"
    unit = Unit(
        machine,
        USER,
        state=f"{home}/.local/state/scheduler-daemon",
        socket=f"/run/user/{UID}/scheduler-daemon/scheduler.sock",
        config=f"{home}/.config/scheduler-daemon/config.toml",
        drop_ins=f"/run/user/{UID}/systemd/user",
    )
    yield from used(unit)


@pytest.fixture(params=["system", "user"])
def unit(request: pytest.FixtureRequest) -> Unit:
    """Either form."""
    found: Unit = request.getfixturevalue(request.param)
    return found


def documented() -> str:
    """The commands that install the system unit, as docs/systemd.md has them for copying."""
    page = (PROJECT / "docs/systemd.md").read_text(encoding="utf-8")
    block = page.partition("<!-- system -->\n```sh\n")[2].partition("```")[0]
    assert block
    return block


def used(unit: Unit) -> Iterator[Unit]:
    unit.ctl("daemon-reload")
    try:
        yield unit
    finally:
        print(unit.log()[-5000:])
        unit.close()
        unit.run("systemctl stop scheduler-daemon.socket scheduler-daemon.service")
        unit.run("systemctl reset-failed")
        for drop_ins in unit.inside.path(unit.drop_ins).glob("scheduler-daemon.*.d"):
            shutil.rmtree(drop_ins)
        unit.ctl("daemon-reload")
        # The folder of the socket too: who owns the socket hangs on whether the folder is new.
        unit.inside.sh(f"rm -rf {unit.state} {unit.config} {Path(unit.socket).parent}")
