"""A part of a follow-up, for hosts that have the rest of it or bring that elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_daemon.wire.shapes import Followup


def followup_of_some(followup: Followup, places: Sequence[int]) -> Followup:
    """The follow-up with the occurrences at these places only, in its text too.

    The daemon's text has a paragraph for each occurrence between its head and its end, and no
    stored words have an empty line. Another text, which a host has made itself, is left whole.
    """
    text, occurrences = followup["text"], followup["occurrences"]
    paragraphs = text.split("\n\n")
    if len(paragraphs) == len(occurrences) + 2:
        text = "\n\n".join(paragraphs[at] for at in (0, *(place + 1 for place in places), -1))
    return {**followup, "text": text, "occurrences": [occurrences[place] for place in places]}
