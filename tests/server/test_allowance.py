"""What all connections of one user hold together, and which of them has to go."""

from __future__ import annotations

from scheduler_daemon.server.allowance import Allowance


class Holding:
    """Something that holds bytes and lets go when it is told."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.told = 0

    def overheld(self) -> None:
        self.told += 1
        self.allowance.note(self, 0)


def test_up_to_the_bound_nobody_is_told_whatever_comes_and_goes() -> None:
    allowance = Allowance(100)
    one, other = Holding(allowance), Holding(allowance)
    for held in (60, 0, 100, 50, 50):
        allowance.note(one, held)
    allowance.note(other, 50)
    assert one.told == other.told == 0


def test_beyond_it_the_one_that_holds_most_has_to_let_go() -> None:
    allowance = Allowance(100)
    small, large, new = (Holding(allowance) for _ in range(3))
    allowance.note(small, 20)
    allowance.note(large, 60)
    allowance.note(new, 30)
    assert (small.told, large.told, new.told) == (0, 1, 0)
    allowance.note(new, 80)
    assert (small.told, new.told) == (0, 0)
    allowance.note(new, 81)
    assert (small.told, new.told) == (0, 1)
    allowance.note(large, 80)
    assert large.told == 1
