"""How long a Session or a message waits before it is tried again; when that counts is not here."""

from __future__ import annotations

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0


def pause(attempts: int, jitter: float) -> float:
    """The seconds to wait after `attempts` failed tries in a row.

    `attempts` is at least 1. The full pause is 1 s, doubling with each further failure to 300 s.
    `jitter` in [0, 1) takes up to half of it away, so that Sessions which failed together do not
    come back together: the result is at least half the full pause, never above 300 s. It is
    passed in because nothing here draws random numbers.
    """
    doublings = min(attempts - 1, 9)  # 2**9 s is past the ceiling; an int of any size stays cheap
    full = min(FIRST_SECONDS * 2.0**doublings, LONGEST_SECONDS)
    return full * (1 - jitter / 2)
