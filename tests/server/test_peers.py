"""Who is at the other end, who may come in, and what each may see: real processes of real users."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.server import peers
from scheduler_daemon.server.peers import Door, PeerCredentials, credentials
from tests.support.inprocess import Peer, Running, connected_as, needs_root, request, running, until

ADA, BEN, STRANGER = 54_321, 54_322, 65_534
CLUB = 60_000


def peer_of(path: Path, uid: int, *gids: int) -> PeerCredentials:
    """What the kernel says of a process of that user."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        path.parent.chmod(0o755)
        listening.listen()
        (connected,) = connected_as(path, uid, *gids)
        with connected, listening.accept()[0] as accepted:
            return credentials(accepted)


def test_the_kernel_tells_of_this_process() -> None:
    one, other = socket.socketpair()
    with one, other:
        peer = credentials(one)
    assert peer.pid == os.getpid()
    assert peer.uid == os.geteuid()
    assert peer.gids == {os.getegid(), *os.getgroups()}


@needs_root
def test_a_peer_has_its_uid_its_primary_and_its_supplementary_groups(folder: Path) -> None:
    peer = peer_of(folder / "s", ADA, BEN, CLUB, CLUB + 1)
    assert peer.uid == ADA
    assert peer.gids == {BEN, CLUB, CLUB + 1}
    assert peer.pid != os.getpid()


@needs_root
@pytest.mark.parametrize("count", [256, 257, 5000])
def test_a_peer_may_have_more_groups_than_python_takes(folder: Path, count: int) -> None:
    groups = range(CLUB, CLUB + count)
    assert peer_of(folder / "s", ADA, BEN, *groups).gids == {BEN, *groups}


@needs_root
def test_root_in_no_group_but_its_own_is_a_peer_like_any(folder: Path) -> None:
    assert peer_of(folder / "s", 0, 0).gids == {0}


def test_a_socket_that_knows_no_groups_gives_none() -> None:
    """As a kernel without SO_PEERGROUPS: whoever cannot show a group is not in it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert len(credentials(accepted).gids) == 1
        assert peers._many_groups(accepted) == b""


@pytest.mark.parametrize(
    ("uid", "gids", "comes_in", "admin"),
    [
        (0, {0}, True, True),
        (10, {10}, True, True),
        (20, {1}, True, False),
        (30, {30}, False, False),
        (30, {30, 40}, True, False),
        (40, {30}, False, False),
    ],
)
def test_the_door_opens_for_the_daemons_uid_root_and_whom_settings_name(
    uid: int, gids: set[int], comes_in: bool, admin: bool
) -> None:
    door = Door(10, [20], [40])
    assert door.admits(PeerCredentials(1, uid, frozenset(gids))) is comes_in
    assert door.is_admin(uid) is admin


async def refusal_of(peer: Peer) -> str:
    """The one frame that a refused peer gets, which must be a permission_denied."""
    peer.write(request(1, "hello"))
    (frame,) = await peer.read_until_end()
    assert frame["id"] is None
    assert frame["error"]["code"] == -32000
    assert frame["error"]["data"] == {"code": "permission_denied"}
    message: str = frame["error"]["message"]
    return message


@needs_root
async def test_a_stranger_gets_one_frame_that_names_the_wanted_groups(folder: Path) -> None:
    async with running(folder, allowed_gids=("daemon", CLUB)) as on:
        for uid, gids in ((ADA, [BEN]), (STRANGER, [STRANGER, 0])):
            message = await refusal_of(await on.peer_as(uid, *gids))
            assert f"daemon, {CLUB}" in message


@needs_root
async def test_without_groups_a_stranger_is_told_of_the_settings(on: Running) -> None:
    message = await refusal_of(await on.peer_as(ADA))
    assert "allowed_uids" in message
    assert "allowed_gids" in message


@needs_root
async def test_a_stranger_who_comes_again_and_again_is_one_line_in_the_log(on: Running) -> None:
    with capture_logs() as logs:
        for uid in (ADA, ADA, BEN, ADA):
            await refusal_of(await on.peer_as(uid))
    lines = [entry for entry in logs if entry["event"] == "peer_refused"]
    assert [entry["uid"] for entry in lines] == [ADA, BEN]


@needs_root
async def test_strangers_who_do_not_leave_are_cut_off(on: Running) -> None:
    """After a moment, and the more of them there are the sooner."""
    strangers = await on.peers_as(34, ADA)
    for peer in strangers:
        assert (await peer.read())["error"]["data"]["code"] == "permission_denied"
    assert await strangers[-1].read_until_end() == []
    assert on.clock.pending_calls >= 32
    on.clock.advance(2)
    await until(lambda: on.clock.pending_calls == 0)


@needs_root
@pytest.mark.parametrize(
    ("settings", "gids"),
    [
        ({"allowed_uids": (ADA,)}, [ADA]),
        ({"allowed_uids": ("nobody", ADA)}, [ADA]),
        ({"allowed_gids": (CLUB,)}, [CLUB]),
        ({"allowed_gids": ("daemon",)}, [ADA, 1]),
        ({"allowed_gids": (CLUB + 299,)}, [ADA, *range(CLUB, CLUB + 300)]),
    ],
)
async def test_users_and_groups_that_settings_name_come_in(
    folder: Path, settings: dict[str, Any], gids: list[int]
) -> None:
    async with running(folder, **settings) as on:
        hello = await (await on.peer_as(ADA, *gids)).call("hello")
    assert (hello["uid"], hello["admin"]) == (ADA, False)


@needs_root
async def test_root_is_an_admin(on: Running, peer: Peer) -> None:
    hello = await peer.call("hello")
    assert (hello["uid"], hello["admin"]) == (0, True)
