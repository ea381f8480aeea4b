"""What this process asks for itself, of the system and of Python: to be called once, at start."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD = -3  # malloc.h; Python has no name for it
_LARGE = 128 * 1024
"""Bytes from which on a freed block is the system's again; what glibc begins with."""

_SWITCH_SECONDS = 0.0002
"""How long one thread may keep the others from running; Python's own is 5 ms."""

_YOUNG = 5_000
"""Objects made between two looks for rings among them; Python's own is 700."""


def take_descriptors() -> None:
    """Let this process open as much as it may at all: each peer takes a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a filter of system calls; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def give_memory_back() -> None:
    """Let large blocks go back to the system when they are freed, mallopt(3).

    Left alone, glibc learns from the first frame of a megabyte to keep all that come after it.
    """
    with suppress(AttributeError):  # another libc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def share_time() -> None:
    """Let the loop and the file's threads take turns more often, and garbage be sought less often.

    Each statement of SQL waits for its turn twice. Objects of a start are never looked at again.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(_YOUNG)
    gc.freeze()
