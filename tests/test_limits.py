"""What a process asks of the system for itself; in processes of their own, for it stays so."""

from __future__ import annotations

import subprocess
import sys

from tests.support.fresh import unmeasured


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=unmeasured()
    )
    return done.stdout.strip()


def test_it_takes_all_descriptors_that_it_may() -> None:
    assert (
        said(
            "import resource; from scheduler_daemon.limits import take_descriptors\n"
            "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
            "take_descriptors()\n"
            "print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))"
        )
        == "True"
    )


def test_a_system_that_refuses_either_is_no_failure() -> None:
    assert (
        said(
            "import ctypes, resource; from scheduler_daemon import limits\n"
            "def refuse(*_): raise OSError(1, 'no')\n"
            "resource.setrlimit = refuse\n"
            "limits.take_descriptors()\n"
            "ctypes.CDLL = lambda _: object()\n"
            "limits.give_memory_back()\n"
            "print('on')"
        )
        == "on"
    )


def test_large_blocks_that_are_freed_are_the_systems_again() -> None:
    """A hundred megabytes in frames, freed with something small left between them."""
    code = (
        "from scheduler_daemon.limits import give_memory_back\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "give_memory_back()\n"
        "before, kept = resident(), []\n"
        "for _ in range(3):\n"
        "    frames = [bytearray(1 << 20) for _ in range(100)]\n"
        "    kept += [bytearray(100_000) for _ in range(3)]\n"
        "    frames.clear()\n"
        "print(resident() - before)"
    )
    assert int(said(code)) < 20
