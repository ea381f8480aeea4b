"""No memory of this process on a disk: prompts would lie in it."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

_PR_SET_DUMPABLE = 4  # linux/prctl.h; Python has no name for it


def dump_no_core() -> None:
    """Leave no core dump, however the process ends; for good, and for its children the limit.

    The limit alone does not bind a kernel that pipes dumps to a program, core(5); the attribute
    does, and keeps other processes of the user from reading the memory, prctl(2).
    """
    with suppress(OSError, ValueError):  # a filter of system calls that knows no setrlimit(2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
