"""Which Session a call belongs to: every source alone, two that agree, two that do not, none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.mcp.proof import new_key, proof_of, read_key
from scheduler_daemon.mcp.session import PLACEHOLDER, Sources

ARGUMENT = Sources(argument=True)
ENVIRONMENT = Sources(environment=("AGENT_SESSION", "s1"))
FIXED = Sources(fixed="s1")
ALL = Sources(argument=True, environment=("AGENT_SESSION", "s1"), fixed="s1")


@pytest.mark.parametrize(
    ("sources", "meta", "arguments"),
    [
        (Sources(), {"threadId": "s1"}, {}),
        (Sources(), {"sessionId": "s1"}, {}),
        (Sources(), {"threadId": "s1", "sessionId": "s1"}, {}),
        (Sources(), {"ai.opencode/sessionID": "s1"}, {}),
        (Sources(), {"threadId": "s1", "sessionId": None, "progressToken": 7}, {}),
        (ARGUMENT, {}, {"session": "s1"}),
        (ARGUMENT, {"threadId": "s1"}, {"session": "s1"}),
        (ENVIRONMENT, {}, {}),
        (ENVIRONMENT, {"sessionId": "s1"}, {}),
        (FIXED, {}, {}),
        (FIXED, {"threadId": ""}, {}),
        (ALL, {"threadId": "s1"}, {"session": "s1"}),
    ],
)
def test_those_that_say_something_say_the_session(
    sources: Sources, meta: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert sources.session_of(meta, arguments) == "s1"


@pytest.mark.parametrize(
    ("sources", "meta", "arguments", "named"),
    [
        (Sources(), {"threadId": "s1", "sessionId": "s2"}, {}, ["threadId", "sessionId"]),
        (ARGUMENT, {"threadId": "s2"}, {"session": "s1"}, ["argument", "threadId"]),
        (ENVIRONMENT, {"threadId": "s2"}, {}, ["AGENT_SESSION", "threadId"]),
        (FIXED, {"sessionId": "s2"}, {}, ["--session", "sessionId"]),
        (
            Sources(environment=("AGENT_SESSION", "s1"), fixed="s2"),
            {},
            {},
            ["AGENT_SESSION", "--session"],
        ),
        (ALL, {}, {"session": "s2"}, ["argument", "AGENT_SESSION", "--session"]),
    ],
)
def test_two_that_disagree_are_refused_by_their_names_and_without_the_sessions(
    sources: Sources, meta: dict[str, Any], arguments: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        sources.session_of(meta, arguments)
    for each in [*named, "name different conversations"]:
        assert each in refusal.value.message
    assert "s2" not in refusal.value.message


@pytest.mark.parametrize("meta", [{}, {"threadId": None}, {"sessionId": ""}, {"session": "s1"}])
def test_where_none_says_it_nothing_is_guessed(meta: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="nothing says which conversation") as refusal:
        Sources().session_of(meta, {})
    assert refusal.value.field == "session"


@pytest.mark.parametrize("sources", [Sources(), ENVIRONMENT, FIXED])
@pytest.mark.parametrize("given", ["s1", "s2", "", None])
def test_a_session_in_the_arguments_is_refused_where_no_hook_puts_it_there(
    sources: Sources, given: str | None
) -> None:
    with pytest.raises(InvalidRequest, match="no argument here"):
        sources.session_of({"threadId": "s1"}, {"session": given})


@pytest.mark.parametrize(
    "arguments", [{}, {"session": ""}, {"session": None}, {"session": PLACEHOLDER}]
)
def test_a_session_that_no_hook_filled_in_is_refused_whatever_else_says_one(
    arguments: dict[str, Any],
) -> None:
    everything = Sources(argument=True, fixed="s1")
    with pytest.raises(InvalidRequest, match="did not fill in `session`"):
        everything.session_of({"threadId": "s1"}, arguments)


@pytest.mark.parametrize("name", ["*", "a\nb", "x" * 201, "\ud83d", "a\0b", 7, True, ["s1"], {}])
def test_what_can_name_no_session_is_refused_wherever_it_comes_from(name: Any) -> None:
    for sources, meta, arguments in (
        (Sources(), {"threadId": name}, {}),
        (ARGUMENT, {}, {"session": name}),
        (Sources(environment=("V", name)), {}, {}),
        (Sources(fixed=name), {}, {}),
    ):
        with pytest.raises(InvalidRequest, match="the id of a conversation must"):
            sources.session_of(meta, arguments)


PROVING = Sources(argument=True, key=bytes(range(32)))


def test_with_a_key_a_session_counts_with_its_own_proof_only() -> None:
    """What a model writes itself, or has seen in its own Session, reaches no other."""
    assert PROVING.key is not None
    mine = proof_of(PROVING.key, "s1")
    assert PROVING.session_of({}, {"session": "s1", "session_proof": mine}) == "s1"
    forged: list[dict[str, Any]] = [
        {"session": "s2", "session_proof": mine},
        {"session": "s1", "session_proof": proof_of(b"\1" * 32, "s1")},
        {"session": "s1", "session_proof": mine.upper()},
        {"session": "s1", "session_proof": "é\ud800"},
        {"session": "s1", "session_proof": 7},
        {"session": "s1"},
    ]
    for arguments in forged:
        with pytest.raises(InvalidRequest, match="hook or plugin did not run"):
            PROVING.session_of({}, arguments)


def test_a_key_is_made_anew_each_time_and_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = {new_key(), new_key()}
    assert len(made) == 2
    for text in made:
        path.write_text(text)
        assert len(read_key(path)) == 32
    for text in ("", "00", "x" * 64, "00" * 33):
        path.write_text(text)
        with pytest.raises(ValueError):
            read_key(path)
    with pytest.raises(FileNotFoundError):
        read_key(tmp_path / "missing")
