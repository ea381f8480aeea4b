"""A machine for all tests of a module, and the units in it, as new for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.systemd.inside import UNITS, CannotRun, Unit
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
        install(machine, "system")
        accounts = "sysusers.d/scheduler-daemon.conf"
        machine.write(f"/etc/{accounts}", (UNITS / accounts).read_text())
        machine.sh("systemd-sysusers && systemctl daemon-reload")
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
    install(machine, "user")
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


def install(machine: Machine, form: str) -> None:
    """The units of one form, for all; the manager is told later."""
    for unit in (UNITS / form).iterdir():
        machine.write(f"/etc/systemd/{form}/{unit.name}", unit.read_text())


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
        unit.inside.sh(f"rm -rf {unit.state} {unit.config}")
