"""A part of a follow-up."""

from __future__ import annotations

import pytest

from scheduler_daemon.wire.cutting import followup_of_some
from tests.client.followups import followup, occurrence


def test_a_part_has_its_paragraphs_between_the_head_and_the_end() -> None:
    whole = followup("r1@1", "r2@1", "r3@1")
    assert followup_of_some(whole, [0, 2]) == {
        **whole,
        "text": '[head]\n\nreminder: "r1"\nprompt: "do r1"\n\n'
        'reminder: "r3"\nprompt: "do r3"\n\n[end]',
        "occurrences": [occurrence("r1@1"), occurrence("r3@1")],
    }
    assert followup_of_some(whole, [0, 1, 2]) == whole


@pytest.mark.parametrize("text", ["", "look at both", "[head]\n\nlook at both\n\n[end]"])
def test_a_text_that_a_host_has_made_itself_is_left_whole(text: str) -> None:
    own = {**followup("r1@1", "r2@1"), "text": text}
    cut = followup_of_some(own, [1])  # type: ignore[arg-type]
    assert (cut["text"], cut["occurrences"]) == (text, [occurrence("r2@1")])
