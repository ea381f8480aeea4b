"""What this process asks of the system for itself: descriptors, and memory that goes back."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

_M_MMAP_THRESHOLD = -3  # malloc.h; Python has no name for it
_LARGE = 128 * 1024
"""Bytes from which on a freed block is the system's again; what glibc begins with."""


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
