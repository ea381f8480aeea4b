"""`schedctl host-exec` as a process, with a daemon that the test plays and agents of shell."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.exec_host.host import CUT_OFF, REPEATED
from scheduler_daemon.wire.shapes import Followup
from tests.client.followups import followup, occurrence
from tests.client.scripted import AsyncPeer, Listener
from tests.exec_host.stage import SESSION, Stage, exists, touch, waiting_for

Json = dict[str, Any]

ALL = ("--all", "--profile", "auto")


def due(*ids: str, agent: str | None = "claude", cwd: object = None, **more: Any) -> Followup:
    """A follow-up of a Session of this agent in this directory."""
    context = {} if agent is None else {"agent": agent}
    context |= {} if cwd is None else {"cwd": str(cwd)}
    return followup(*(occurrence(each, context=context) for each in ids), **more)


async def attached(daemon: Listener) -> AsyncPeer:
    async with asyncio.timeout(60):  # an interpreter that starts on a loaded machine
        while True:
            try:
                peer = await daemon.accepted()
                break
            except TimeoutError:
                continue
    await peer.answer({"sessions": "*"})
    return peer


async def answer(peer: AsyncPeer, pushed: Followup) -> Json:
    peer.write({"jsonrpc": "2.0", "id": 1, "method": "session.followup", "params": pushed})
    while (message := await peer.read()).get("id") != 1:
        pass
    result: Json = message["result"]
    return result


async def test_each_agent_gets_what_is_its_own_in_its_directory(
    stage: Stage, daemon: Listener
) -> None:
    for agent in ("claude", "codex", "opencode", "dsh"):
        stage.agent(agent)
    project = stage.directory("project")
    stage.host(*ALL)
    peer = await attached(daemon)
    sessions = {
        "claude": SESSION,
        "codex": SESSION[:-1] + "2",
        "opencode": "ses_1",
        "dsh": "session-1",
    }
    for number, (agent, session) in enumerate(sessions.items(), 1):
        pushed = due(f"r{number}@1", agent=agent, cwd=project, session=session)
        assert await answer(peer, pushed) == {"status": "admitted", "message_id": str(number)}
        stage.settled(number, "done")
        ((directory, arguments, *text),) = stage.runs(agent)
        assert directory == str(project)
        assert session in arguments.split()
        assert "\n".join(text) == pushed["text"]


async def test_what_is_for_others_is_gone_and_never_in_the_queue(
    stage: Stage, daemon: Listener
) -> None:
    stage.host(*ALL)
    peer = await attached(daemon)
    for pushed in (
        due("r1@1", agent="somebody", session=SESSION),
        due("r2@1", agent=None, session=SESSION),
        due("r3@1", agent="claude", session="--resume"),
        due("r4@1", agent="claude", session="ses_1"),
    ):
        assert await answer(peer, pushed) == {"status": "gone"}
    assert stage.queue() == []


async def test_distinct_directories_get_a_command_each_in_order(
    stage: Stage, daemon: Listener
) -> None:
    a, b = stage.directory("a"), stage.directory("b")
    stage.host("s1", "--", "agent", "--id={session}")
    stage.agent("agent")
    peer = await attached(daemon)
    places = [occurrence(f"r{n}@1", context={"cwd": str(cwd)}) for n, cwd in enumerate((a, b, a))]
    await answer(peer, followup(*places))
    stage.settled(2, "done")
    first, second = stage.runs("agent")
    assert (first[:2], second[:2]) == ([str(a), "--id=s1"], [str(b), "--id=s1"])
    assert ("r0" in str(first), "r1" in str(first), "r2" in str(first)) == (True, False, True)
    assert ("r0" in str(second), "r1" in str(second)) == (False, True)


async def test_a_missing_program_and_a_forbidden_directory_are_told_and_tried_again(
    stage: Stage, daemon: Listener
) -> None:
    stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION))
    told = stage.settled(1, "queued", waits="failed")
    assert told["reason"].startswith("there is no program claude in PATH=")
    await answer(peer, due("r2@1", session=SESSION, cwd="/usr"))
    assert stage.settled(2, "queued", waits="failed")["reason"].startswith("the directory /usr ")
    status = stage.schedctl("host-exec", "--status")
    assert status.returncode == 0
    assert "there is no program claude" in status.stdout
    stage.agent("claude")
    assert stage.schedctl("spool", "retry", "1").stdout == "message 1 is tried again\n"
    stage.settled(1, "done")


async def test_an_id_that_the_agent_does_not_know_ends_in_a_state_that_is_shown(
    stage: Stage, daemon: Listener
) -> None:
    stage.agent("claude", "echo 'No conversation found with session ID: x' >&2; exit 1")
    stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION))
    stage.settled(1, "unknown", reason="No conversation found with session ID: x", attempts=1)
    assert "unknown" in stage.schedctl("spool", "list").stdout
    assert len(stage.runs("claude")) == 1


async def test_a_busy_session_keeps_its_place_and_the_daemon_is_called_back(
    stage: Stage, daemon: Listener
) -> None:
    stage.agent("codex", '[ "$1" = exec ] || exit 1; echo already has an active writer >&2; exit 1')
    stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", agent="codex", session=SESSION))
    stage.settled(1, "queued", waits="busy", attempts=0)
    second = due("r2@1", agent="codex", session=SESSION)
    assert await answer(peer, second) == {"status": "busy"}
    assert [run[1].split()[0] for run in stage.runs("codex")] == ["exec", "queue"]
    stage.agent("codex")
    stage.schedctl("spool", "retry", "1")
    ready = {"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": SESSION}}
    assert await peer.read() == ready
    stage.settled(1, "done", attempts=1)


async def test_a_repeat_is_dropped_also_by_a_host_that_was_killed_meanwhile(
    stage: Stage, daemon: Listener
) -> None:
    stage.agent("claude")
    host = stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION))
    stage.settled(1, "done")
    stage.end(host, signal.SIGKILL)
    stage.host(*ALL)
    peer = await attached(daemon)
    again = await answer(peer, due("r1@1", session=SESSION, push=2))
    assert again == {"status": "admitted", "message_id": "1"}
    assert len(stage.queue()) == len(stage.runs("claude")) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("ends", ["before", "after"])
async def test_a_turn_outlives_its_host_and_the_next_one_learns_how_it_ended(
    stage: Stage, daemon: Listener, number: signal.Signals, ends: str
) -> None:
    go = stage.home / "go"
    stage.agent("claude", f"touch began; {waiting_for(go)}; touch ended; exit 1")
    host = stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION, cwd=stage.home))
    exists(stage.home / "began")
    assert stage.end(host, number) == (0 if number is not signal.SIGKILL else -signal.SIGKILL)
    if ends == "before":
        touch(go)
        exists(stage.home / "ended")
    stage.host(*ALL)
    await attached(daemon)
    touch(go)
    stage.settled(1, "queued", waits="failed", reason="exit status 1", attempts=1)
    assert len(stage.runs("claude")) == 1


async def test_a_turn_whose_keeper_was_killed_comes_again_and_says_that_it_may_be_a_repeat(
    stage: Stage, daemon: Listener
) -> None:
    stage.agent("claude", "echo $PPID >keeper; exec sleep 600")
    stage.host(*ALL)
    peer = await attached(daemon)
    pushed = due("r1@1", session=SESSION, cwd=stage.home)
    await answer(peer, pushed)
    os.kill(await number_in(stage.home / "keeper"), signal.SIGKILL)
    stage.settled(1, "queued", waits="failed", reason=CUT_OFF)
    stage.agent("claude")
    stage.schedctl("spool", "retry", "1")
    stage.settled(1, "done", attempts=2)
    first, second = stage.runs("claude")
    assert "\n".join(first[2:]) == pushed["text"]
    assert "\n".join(second[2:]) == REPEATED + pushed["text"]


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
async def test_what_a_killed_keepers_agent_had_started_ends_before_the_turn_comes_again(
    stage: Stage, daemon: Listener, stubborn: str
) -> None:
    """An agent behind a wrapper would take two turns of one Session side by side."""
    inner = f"{stubborn}echo $$ >child; while :; do sleep 0.1; done"
    stage.agent("claude", f"echo $PPID >keeper; setsid sh -c {shlex.quote(inner)}")
    stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION, cwd=stage.home))
    child, keeper = [await number_in(stage.home / name) for name in ("child", "keeper")]
    os.kill(keeper, signal.SIGKILL)
    stage.settled(1, "queued", waits="failed", reason=CUT_OFF)
    with suppress(FileNotFoundError):
        assert Path(f"/proc/{child}/cmdline").read_bytes() == b""  # nobody has asked for its end


async def number_in(path: Path) -> int:
    exists(path)
    while not (words := path.read_text()).endswith("\n"):
        await asyncio.sleep(0.02)
    return int(words)


async def test_a_turn_that_takes_too_long_is_ended_and_kept(stage: Stage, daemon: Listener) -> None:
    stage.agent("claude", "exec sleep 600")
    stage.host(*ALL, "--timeout", "1s")
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION))
    stage.settled(1, "failed", reason="ended after 1 s without coming to an end")


async def test_sessions_run_side_by_side_and_no_more_than_was_said(
    stage: Stage, daemon: Listener
) -> None:
    go = stage.home / "go"
    stage.agent("agent", f"touch began-$1; {waiting_for(go)}")
    stage.host("--all", "--max-parallel", "2", "--", "agent", "{session}")
    peer = await attached(daemon)
    for number in (1, 2, 3):
        await answer(peer, due(f"r{number}@1", agent=None, session=f"s{number}", cwd=stage.home))
    exists(stage.home / "began-s1")
    exists(stage.home / "began-s2")
    assert [each["state"] for each in stage.queue()] == ["running", "running", "queued"]
    touch(go)
    for number in (1, 2, 3):
        stage.settled(number, "done")


async def test_what_is_named_relatively_runs_from_where_the_host_was_started(
    stage: Stage, daemon: Listener
) -> None:
    stage.agent("agent")
    elsewhere = stage.directory("elsewhere")
    stage.host("s1", "s2", "--", "bin/agent", "{session}", "a b")
    peer = await attached(daemon)
    await answer(peer, due("r1@1", agent=None, cwd=elsewhere))
    await answer(peer, due("r2@1", agent=None, session="s2"))
    stage.settled(1, "done")
    stage.settled(2, "done")
    assert sorted(run[:2] for run in stage.runs("agent")) == [
        [str(stage.home), "s2 a b"],
        [str(elsewhere), "s1 a b"],
    ]


async def test_a_queue_that_a_host_works_on_is_refused_to_another(
    stage: Stage, daemon: Listener
) -> None:
    stage.host(*ALL)
    await attached(daemon)
    second = stage.schedctl("host-exec", *ALL)
    assert second.returncode == 1
    assert "another host works on the queue" in second.stderr


async def test_a_message_of_an_agent_that_no_profile_has_any_more_waits_for_one(
    stage: Stage, daemon: Listener, tmp_path: Path
) -> None:
    stage.agent("claude", "exit 75")
    host = stage.host(*ALL)
    peer = await attached(daemon)
    await answer(peer, due("r1@1", session=SESSION))
    stage.settled(1, "queued", waits="busy")
    stage.end(host, signal.SIGTERM)
    stage.schedctl("spool", "retry", "1")
    stage.host("--all", "--profile", "codex")
    await attached(daemon)
    reason = "this host runs no profile for the agent 'claude'"
    stage.settled(1, "queued", waits="failed", reason=reason)
