"""What doctor finds is called so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that somebody should know, in a sentence.

    A `note` is no fault. `mend` says what to do about a problem; `fixable` is whether
    `doctor --fix` does it.
    """

    code: str
    text: str
    mend: str = ""
    kind: Kind = "problem"
    fixable: bool = False


FIX = "`schedctl doctor --fix` does it"


def fixable(code: str, text: str, mend: str) -> Finding:
    """A problem that `doctor --fix` mends, `mend` being what it does."""
    return Finding(code, text, f"{mend}: {FIX}", fixable=True)
