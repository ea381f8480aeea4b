"""A real daemon, with the kernel's timers, whose own clock is set while it waits.

The clock of one process is faked by a small library of ours (faked_clock.c), compiled for the
test: the machine's clock is never set. Skipped where there is no C compiler or where the library
does not take hold (an interpreter that is linked statically).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.steps import receipts
from tests.support.peer import Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

SOURCE = Path(__file__).with_name("faked_clock.c")
YEARS = 20 * 365.25 * 86400
_PROBE = "import time; print(time.time() - float(open('/proc/uptime').read().split()[0]))"


class FakedClock:
    """How far a process's clock is off, in seconds; processes with `environ` follow at once."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.set(0.0)
        self.environ = {"LD_PRELOAD": str(library), "FAKED_CLOCK": str(file)}

    def set(self, wrong_by: float) -> float:
        """Set it; gives when that was, in monotonic seconds."""
        number = round(wrong_by * 1e9).to_bytes(8, sys.byteorder, signed=True)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(descriptor, number, 0)  # in place: it is mapped
        os.close(descriptor)
        return time.monotonic()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    made = tmp_path_factory.mktemp("clock") / "faked_clock.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE), "-ldl", "-lpthread"]
    built = subprocess.run(words, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the compiler does not build it: {built.stderr[-200:]}")
    return made


@pytest.fixture
def clock(library: Path, folder: Path) -> FakedClock:
    faked = FakedClock(library, folder / "offset")
    booted = [_started_at(faked), _started_at(faked, YEARS)]
    faked.set(0.0)
    if not YEARS - 60 < booted[1] - booted[0] < YEARS + 60:
        pytest.skip("this interpreter does not ask the C library for the time")
    return faked


def _started_at(faked: FakedClock, wrong_by: float = 0.0) -> float:
    """When the machine booted, as a process sees it."""
    faked.set(wrong_by)
    words = [sys.executable, "-c", _PROBE]
    ended = subprocess.run(words, env=os.environ | faked.environ, capture_output=True, check=True)
    return float(ended.stdout)


@pytest.fixture
def daemon(clock: FakedClock, folder: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(folder, environ=clock.environ)
    try:
        made.start()
        assert made.logged("daemon_started")["clock"] == "timerfd"
        yield made
    finally:
        made.close()


@pytest.fixture
def host(daemon: DaemonProcess) -> Peer:
    peer = daemon.peer()
    peer.attach(["s"])
    return peer


def processor_seconds(daemon: DaemonProcess) -> float:
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_clock_set_forward_wakes_it_at_once(
    daemon: DaemonProcess, host: Peer, clock: FakedClock
) -> None:
    made = daemon.peer().create("s", "in an hour", after_seconds=3600)
    clock.set(3500)
    host.nothing_comes(0.5)
    set_at = clock.set(3601)
    followup = host.next_followup()  # without the kernel's word it would come at the timer's end
    assert followup.at >= set_at
    assert followup.occurrences == [f"{made['id']}@{made['scheduled_at']}"]


def test_a_clock_set_back_fires_nothing_early_and_set_right_again_nothing_late(
    daemon: DaemonProcess, host: Peer, clock: FakedClock
) -> None:
    daemon.peer().create("s", "soon", after_seconds=3)
    clock.set(-1000)
    host.nothing_comes(4.5)
    set_at = clock.set(0)
    assert host.next_followup().at >= set_at
    host.nothing_comes(0.5)


def test_it_comes_back_from_the_far_future_and_repeats_nothing_after_a_start_in_the_past(
    daemon: DaemonProcess, host: Peer, clock: FakedClock
) -> None:
    made = daemon.peer().create("s", "often", every_seconds=3600)
    clock.set(YEARS)
    host.next_followup()
    daemon.logged("followup_admitted")
    clock.set(10)
    daemon.logged("targets_of_a_fast_clock_corrected")
    host.nothing_comes(0.5)
    clock.set(3610)
    again = host.next_followup()
    assert again.occurrences == [f"{made['id']}.1@{made['scheduled_at']}"]
    daemon.logged("followup_admitted", followup_id=again.params["followup_id"])
    daemon.kill()
    clock.set(-YEARS)
    daemon.start()
    later = daemon.peer()
    later.attach(["s"])
    later.nothing_comes(0.5)
    clock.set(3620)
    later.nothing_comes(1)
    assert len(receipts(daemon, "s")) == 2
    clock.set(7210)
    later.next_followup()


def test_a_clock_that_is_set_again_and_again_does_not_keep_it_busy(
    daemon: DaemonProcess, host: Peer, clock: FakedClock
) -> None:
    daemon.peer().create("s", "far", after_seconds=10_000_000)
    for number in range(20):
        clock.set((-1) ** number * 100_000)
        time.sleep(0.02)
    clock.set(0)
    host.nothing_comes(0.5)
    before = processor_seconds(daemon)
    host.nothing_comes(2)
    assert processor_seconds(daemon) - before < 0.2
    assert host.call("daemon.status")["counts"]["active"] == 1
