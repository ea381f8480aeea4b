"""Which follow-ups a host of command-line agents takes, and what messages they become."""

from __future__ import annotations

import pytest

from scheduler_daemon.client import Gone
from scheduler_daemon.exec_host.choosing import Choice, context_of
from scheduler_daemon.exec_host.profiles import Profile
from scheduler_daemon.wire.shapes import Followup
from tests.client.followups import followup, occurrence

CLAUDE = Profile("claude", ["claude"], "claude", session="s[0-9]")
CODEX = Profile("codex", ["codex"], "codex")
OWN = Profile("command", ["agent"])


def due(*contexts: dict[str, str] | None, session: str = "s1") -> Followup:
    """A follow-up with an occurrence of r1, r2 and so on for each of the contexts."""
    return followup(
        *(
            occurrence(f"r{number}@1", **({} if context is None else {"context": context}))
            for number, context in enumerate(contexts, 1)
        ),
        session=session,
    )


def test_what_is_for_one_of_its_agents_is_taken_as_it_is() -> None:
    pushed = due({"agent": "codex", "cwd": "/a", "note": "x"})
    assert Choice([CLAUDE, CODEX], None).accept(pushed) == [pushed]


@pytest.mark.parametrize("context", [None, {}, {"agent": "", "cwd": "/a"}, {"agent": "dsh"}])
def test_what_is_for_no_agent_of_its_own_is_gone(context: dict[str, str] | None) -> None:
    assert Choice([CLAUDE, CODEX], None).accept(due(context)) == Gone()


def test_what_names_no_agent_goes_to_whoever_was_asked_to_take_it() -> None:
    pushed = due({"cwd": "/a"})
    assert Choice([OWN], OWN).accept(pushed) == [pushed]
    assert Choice([OWN], OWN).accept(due({"agent": "claude"})) == Gone()


@pytest.mark.parametrize("session", ["t1", "-1", "s 1"])
def test_a_session_that_cannot_be_one_of_the_agent_is_gone(session: str) -> None:
    choice = Choice([CLAUDE], CLAUDE)
    assert choice.accept(due({"agent": "claude"}, session=session)) == Gone()


def test_one_for_another_agent_makes_the_whole_follow_up_anothers() -> None:
    choice = Choice([CLAUDE], None)
    assert choice.accept(due({"agent": "claude"}, {"agent": "codex"})) == Gone()


def test_one_context_makes_one_message_though_other_members_differ() -> None:
    pushed = due({"agent": "claude", "cwd": "/a", "note": "1"}, {"agent": "claude", "cwd": "/a"})
    assert Choice([CLAUDE], None).accept(pushed) == [pushed]


def test_each_distinct_context_makes_a_message_with_its_own_occurrences_and_text() -> None:
    a, b = {"agent": "claude", "cwd": "/a"}, {"agent": "claude", "cwd": "/b"}
    pushed = due(a, b, a)
    first, second = Choice([CLAUDE], None).accept(pushed)  # type: ignore[misc]
    assert first == {
        **pushed,
        "followup_id": f"{pushed['followup_id']}.1",
        "text": '[head]\n\nreminder: "r1"\nprompt: "do r1"\n\n'
        'reminder: "r3"\nprompt: "do r3"\n\n[end]',
        "occurrences": [pushed["occurrences"][0], pushed["occurrences"][2]],
    }
    assert second["followup_id"] == f"{pushed['followup_id']}.2"
    assert second["text"] == '[head]\n\nreminder: "r2"\nprompt: "do r2"\n\n[end]'
    assert [each["reminder_id"] for each in second["occurrences"]] == ["r2"]


def test_two_agents_in_one_directory_get_a_message_each() -> None:
    messages = Choice([CLAUDE, CODEX], None).accept(
        due({"agent": "claude", "cwd": "/a"}, {"agent": "codex", "cwd": "/a"})
    )
    assert isinstance(messages, list)
    agents = [context_of(each["occurrences"][0]).agent for each in messages]
    assert agents == ["claude", "codex"]


def test_beside_others_what_names_no_agent_is_for_theirs() -> None:
    pushed = due(None, {"agent": "claude", "cwd": "/a"}, {"cwd": "/b"})
    messages = Choice([CLAUDE], None).accept(pushed)
    assert isinstance(messages, list)
    contexts = [[context_of(one) for one in each["occurrences"]] for each in messages]
    assert contexts == [[("claude", "/a"), ("claude", "/a")], [("claude", "/b")]]
