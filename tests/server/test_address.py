"""The socket's path: taken without harm to what is there, private from the start, given back."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import scheduler_daemon
from scheduler_daemon.server.address import SocketRefused, bind
from tests.support.inprocess import needs_root

_BIND_AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from scheduler_daemon.server.address import SocketRefused, bind
os.chdir(sys.argv[2])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    bind(Path(sys.argv[3]))
except SocketRefused as refusal:
    print(refusal)
"""


def bind_as_nobody(folder: Path, path: str) -> str:
    """What a daemon of another user says of a path below `folder`."""
    package = Path(scheduler_daemon.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", _BIND_AS_NOBODY, str(package), str(folder), path],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(path)) == 0


@contextmanager
def listening(path: Path, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.bind(str(path))
        if kind == socket.SOCK_STREAM:
            sock.listen(0)
        yield sock


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_socket_is_private_whatever_the_umask_which_stays(folder: Path, mask: int) -> None:
    path = folder / "a" / "b" / "s"
    with umask(mask):
        address = bind(path)
        assert os.umask(mask) == mask
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert answers(path)
    address.release()


def test_where_others_are_allowed_the_socket_and_its_folder_let_them_knock(folder: Path) -> None:
    path = folder / "a" / "s"
    with umask(0o077):
        address = bind(path, others=True)
    assert (mode(path), mode(path.parent)) == (0o666, 0o711)
    address.release()


def test_the_socket_is_private_from_its_first_instant(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not made open and narrowed later: between bind(2) and listen(2) it is so already."""
    seen: list[int] = []
    listen = socket.socket.listen

    def look_and_listen(sock: socket.socket, backlog: int) -> None:
        seen.append(mode(folder / "s"))
        listen(sock, backlog)

    monkeypatch.setattr(socket.socket, "listen", look_and_listen)
    bind(folder / "s").release()
    assert seen == [0o600]


def test_the_umask_stays_after_a_failure(folder: Path) -> None:
    with umask(0o027):
        with pytest.raises(SocketRefused, match="too long"):
            bind(folder / ("s" * 120))
        assert os.umask(0o027) == 0o027


def test_a_stale_socket_is_replaced(folder: Path) -> None:
    path = folder / "s"
    with listening(path):
        pass
    address = bind(path)
    assert answers(path)
    address.release()


def test_the_socket_of_another_daemon_is_refused_and_stays(folder: Path) -> None:
    path = folder / "s"
    with listening(path) as sock:
        with pytest.raises(SocketRefused, match="another daemon listens at"):
            bind(path)
        assert path.exists()
        sock.setblocking(False)
        sock.accept()[0].close()


def test_one_whose_queue_is_full_is_another_daemon_too(folder: Path) -> None:
    path = folder / "s"
    with listening(path):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(1)]
        for each in waiting:
            each.connect(str(path))
        with pytest.raises(SocketRefused, match="another daemon listens at"):
            bind(path)
        for each in waiting:
            each.close()


def test_one_that_is_removed_while_it_is_asked_is_no_hindrance(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "s"
    connect = socket.socket.connect

    def remove_and_connect(sock: socket.socket, address: str) -> None:
        path.unlink()
        connect(sock, address)

    with listening(path):
        monkeypatch.setattr(socket.socket, "connect", remove_and_connect)
        bind(path).release()


def a_file(path: Path) -> None:
    path.write_text("mine")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def a_link_to_a_stale_socket(path: Path) -> None:
    with listening(path.with_name("other")):
        path.symlink_to(path.with_name("other"))


@pytest.mark.parametrize(
    "make", [a_file, Path.mkdir, os.mkfifo, a_link_to_nothing, a_link_to_a_stale_socket]
)
def test_what_is_no_socket_is_refused_and_left_as_it_is(
    folder: Path, make: Callable[[Path], None]
) -> None:
    path = folder / "s"
    make(path)
    before = path.lstat()
    with pytest.raises(SocketRefused, match="is no socket; it was left as it is"):
        bind(path)
    assert path.lstat() == before


def test_a_socket_of_another_type_is_refused_and_left_as_it_is(folder: Path) -> None:
    path = folder / "s"
    with listening(path, socket.SOCK_DGRAM), pytest.raises(SocketRefused, match="left as it is"):
        bind(path)
    assert path.exists()


def test_a_path_below_a_file_is_refused(folder: Path) -> None:
    (folder / "file").touch()
    for path in (folder / "file" / "s", folder / "file" / "deeper" / "s"):
        with pytest.raises(SocketRefused, match="not inside a folder"):
            bind(path)


def test_two_that_start_at_once_do_not_remove_each_others_socket(folder: Path) -> None:
    """One of them looks while the other holds the folder: it starts again or not at all."""
    fd = os.open(folder, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with pytest.raises(SocketRefused, match="another program holds"):
            bind(folder / "s")
    finally:
        os.close(fd)
    bind(folder / "s").release()


@needs_root
def test_a_folder_that_may_not_be_written_is_a_plain_refusal(folder: Path) -> None:
    folder.chmod(0o755)
    for path in ("s", "new/s"):
        assert bind_as_nobody(folder, path).startswith(f"cannot listen at {path}: Permission")
    assert list(folder.iterdir()) == []


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "words"),
    [
        (0, 0o775, "writable for a group"),
        (0, 0o777, "writable for everybody"),
        (0, 0o1777, "writable for everybody"),
        (1, 0o755, "is that of uid 1"),
        (65534, 0o757, "writable for everybody"),
    ],
)
def test_a_folder_in_which_others_could_replace_the_socket_is_refused(
    folder: Path, owner: int, mode: int, words: str
) -> None:
    os.chown(folder, owner, 65534)
    folder.chmod(mode)
    assert words in bind_as_nobody(folder, "s")
    assert list(folder.iterdir()) == []


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "words"),
    [
        (0, 0o775, "writable for a group"),
        (0, 0o777, "writable for everybody"),
        (1, 0o755, "is that of uid 1"),
    ],
)
def test_the_refusal_of_a_folder_says_whose_fault_it_is_and_what_to_choose(
    folder: Path, owner: int, mode: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(folder, owner, 65534)
    folder.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(SocketRefused, match=f"{words}.*choose a folder that only this user or"):
        bind(folder / "s")


@needs_root
def test_a_folder_of_this_user_that_a_group_writes_in_is_refused(folder: Path) -> None:
    """Its members could put their socket there, and would be asked in the place of the daemon."""
    os.chown(folder, 65534, 65534)
    folder.chmod(0o775)
    assert "writable for a group" in bind_as_nobody(folder, "s")


@needs_root
def test_a_group_gets_the_socket_which_was_never_more_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    chown = os.chown

    def look_and_give(path: Path, uid: int, gid: int, *, follow_symlinks: bool) -> None:
        seen.append(mode(path))
        chown(path, uid, gid, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "chown", look_and_give)
    with umask(0):
        address = bind(folder / "run" / "s", group=60_001)
    found = address.path.stat()
    assert (seen, mode(address.path), found.st_gid) == ([0o600], 0o660, 60_001)
    assert mode(address.path.parent) == 0o711
    address.release()


def test_a_group_that_cannot_be_given_the_socket_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(SocketRefused, match="to the group 60001: Operation not permitted"):
        bind(folder / "s", group=60_001)
    assert list(folder.iterdir()) == []


@needs_root
def test_another_users_socket_is_not_taken_for_a_stale_one(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    with listening(folder / "s"), umask(0):
        (folder / "s").chmod(0o600)
        assert "cannot be asked who listens there" in bind_as_nobody(folder, "s")
    assert (folder / "s").exists()


def test_releasing_removes_the_path(folder: Path) -> None:
    address = bind(folder / "s")
    address.release()
    assert list(folder.iterdir()) == []
    assert address.socket.fileno() == -1


def test_releasing_leaves_what_somebody_put_in_its_place(folder: Path) -> None:
    path = folder / "s"
    address = bind(path)
    path.unlink()
    with listening(path):
        address.release()
        assert answers(path)


def test_releasing_what_is_gone_is_no_failure(folder: Path) -> None:
    address = bind(folder / "a" / "s")
    (folder / "a" / "s").unlink()
    (folder / "a").rmdir()
    address.release()
    assert address.socket.fileno() == -1
