"""Files that somebody put where the daemon's are to be: refused in words, and nothing is harmed."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.inprocess import needs_root
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

OTHER = 54_321
MINE = "words that must stay\n" * 10


@pytest.fixture
def victim(folder: Path) -> Path:
    """A file that a link may lead to."""
    path = folder / "victim"
    path.write_text(MINE)
    path.chmod(0o640)
    return path


def refused(process: DaemonProcess) -> str:
    """The one line that a start ends with."""
    ended = process.refused()
    assert ended.returncode == 1, ended
    (line,) = ended.stderr.splitlines()
    assert line.startswith("scheduler-daemon: ")
    assert "Traceback" not in ended.stderr
    return line


def untouched(victim: Path) -> None:
    assert victim.read_text() == MINE
    assert stat.S_IMODE(victim.stat().st_mode) == 0o640


def a_folder(path: Path, victim: Path) -> None:
    path.mkdir()


def a_pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def a_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def a_link_to_nothing(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("nothing"))


def a_link_in_a_circle(path: Path, victim: Path) -> None:
    path.symlink_to(path)


def a_hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def a_socket(path: Path, victim: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def a_device(path: Path, victim: Path) -> None:
    path.symlink_to("/dev/zero")


Trick = Callable[[Path, Path], None]
TRICKS = [
    a_folder,
    a_pipe,
    a_link,
    a_link_to_nothing,
    a_link_in_a_circle,
    a_hard_link,
    a_socket,
    a_device,
]


@pytest.mark.parametrize("trick", [each for each in TRICKS if each is not a_link_to_nothing])
def test_what_is_no_database_is_refused(process: DaemonProcess, victim: Path, trick: Trick) -> None:
    process.state.mkdir(mode=0o700)
    trick(process.database, victim)
    line = refused(process)
    assert "scheduler.db" in line or "victim" in line or "/dev" in line
    untouched(victim)


@pytest.mark.parametrize("trick", [each for each in TRICKS if each is not a_hard_link])
def test_what_is_no_lock_is_refused(process: DaemonProcess, victim: Path, trick: Trick) -> None:
    """A link to a file would have it overwritten with a number."""
    process.state.mkdir(mode=0o700)
    trick(process.state / "scheduler.db.lock", victim)
    assert "scheduler.db" in refused(process)
    untouched(victim)


@pytest.mark.parametrize("trick", [each for each in TRICKS if each is not a_socket])
def test_what_is_no_socket_is_refused(process: DaemonProcess, victim: Path, trick: Trick) -> None:
    trick(process.socket, victim)
    before = process.socket.lstat()
    assert "is no socket; it was left as it is" in refused(process)
    assert process.socket.lstat() == before
    untouched(victim)


def test_a_stale_socket_is_replaced(process: DaemonProcess, victim: Path) -> None:
    a_socket(process.socket, victim)
    process.start()
    process.peer().call("hello")


def test_a_link_that_leads_to_ones_own_folder_is_followed(
    process: DaemonProcess, folder: Path
) -> None:
    """The database on another disk, say: both daemons that come to it hold the same lock."""
    elsewhere = folder / "disk"
    elsewhere.mkdir(mode=0o700)
    process.state.mkdir(mode=0o700)
    process.database.symlink_to(elsewhere / "scheduler.db")
    process.start()
    assert (elsewhere / "scheduler.db.lock").exists()
    second = DaemonProcess(folder, state=elsewhere, socket=folder / "second.sock")
    assert "is held by another" in refused(second)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_folder_that_everybody_writes_in_holds_no_socket(
    process: DaemonProcess, folder: Path, mode: int
) -> None:
    """Not even a sticky one, such as /tmp: whoever is first there has the name."""
    (folder / "all").mkdir()
    (folder / "all").chmod(mode)
    process.flags["socket"] = folder / "all" / "s.sock"
    assert "writable for everybody" in refused(process)
    assert list((folder / "all").iterdir()) == []


def test_a_sticky_folder_that_everybody_writes_in_holds_no_database(
    process: DaemonProcess, folder: Path
) -> None:
    (folder / "all").mkdir()
    (folder / "all").chmod(0o1777)
    process.flags["state_directory"] = folder / "all"
    assert "others may write in the state directory" in refused(process)
    assert list((folder / "all").iterdir()) == []


@needs_root
@pytest.mark.parametrize("what", ["socket", "state_directory"])
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_the_folder_of_another_user_is_refused(
    process: DaemonProcess, folder: Path, what: str, mode: int
) -> None:
    """That user could put a link there at any time, which a daemon of root would follow."""
    theirs = folder / "theirs"
    theirs.mkdir()
    theirs.chmod(mode)
    os.chown(theirs, OTHER, OTHER)
    process.flags[what] = theirs / "s.sock" if what == "socket" else theirs
    assert f"uid {OTHER}" in refused(process)
    assert list(theirs.iterdir()) == []


@needs_root
def test_the_database_of_another_user_is_refused(process: DaemonProcess) -> None:
    process.start()
    process.stop()
    os.chown(process.database, OTHER, OTHER)
    assert f"belongs to uid {OTHER}" in refused(process)
    assert process.database.stat().st_uid == OTHER


def test_a_path_that_no_address_holds_is_refused(folder: Path) -> None:
    process = DaemonProcess(folder, socket=folder / ("s" * 120))
    ended = process.refused()
    assert ended.returncode == 6
    assert "at most 107 bytes" in ended.stderr


def test_the_socket_of_a_daemon_that_lives_is_left_to_it(
    process: DaemonProcess, folder: Path
) -> None:
    process.start()
    second = DaemonProcess(folder, state=folder / "second", socket=process.socket)
    assert "another daemon listens at" in refused(second)
    process.peer().call("hello")


def test_a_hard_link_to_the_socket_of_a_daemon_that_lives_is_left_to_it(
    process: DaemonProcess, folder: Path
) -> None:
    process.start()
    (folder / "link.sock").hardlink_to(process.socket)
    second = DaemonProcess(folder, state=folder / "second", socket=folder / "link.sock")
    assert "another daemon listens at" in refused(second)
    process.peer().call("hello")


def test_what_replaced_the_socket_is_not_removed_at_the_end(
    process: DaemonProcess, victim: Path
) -> None:
    process.start()
    process.socket.unlink()
    a_link(process.socket, victim)
    assert process.stop() == 0
    assert process.socket.is_symlink()
    untouched(victim)


@needs_root
def test_root_restores_a_users_file_without_following_its_links(
    process: DaemonProcess, victim: Path
) -> None:
    """Where that user put a link in the place of the lock, nothing behind it is changed."""
    process.start()
    process.schedctl("backup", str(process.folder / "copy"), "--database", str(process.database))
    process.stop()
    os.chown(process.state, OTHER, OTHER)
    (process.state / "scheduler.db.lock").unlink()
    a_link(process.state / "scheduler.db.lock", victim)
    done = process.schedctl(
        "restore", str(process.folder / "copy"), "--database", str(process.database)
    )
    assert done.returncode == 1
    assert "scheduler.db.lock is not a file" in done.stderr
    untouched(victim)
    assert victim.stat().st_uid == 0
