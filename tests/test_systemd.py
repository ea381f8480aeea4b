"""What systemd hands over and what it hears: by its own documents, over real sockets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_daemon.client import Client
from scheduler_daemon.server.address import keeps_out
from scheduler_daemon.systemd import Manager, adopted_socket, journal_reads, with_priority
from tests.support.short import short_path as short_path

PID = 4321


@pytest.fixture
def manager_socket(short_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(short_path / "notify"))
        sock.settimeout(30)
        yield sock


def environ(sock: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": sock.getsockname(), **more}


def test_each_state_is_one_datagram_in_the_words_of_sd_notify(
    manager_socket: socket.socket,
) -> None:
    manager = Manager(environ(manager_socket), PID)
    manager.ready()
    manager.reloading(12.5)
    manager.stopping(30)
    manager.alive()
    manager.status("next wake\nat nine")
    assert [manager_socket.recv(1000) for _ in range(5)] == [
        b"READY=1",
        b"RELOADING=1\nMONOTONIC_USEC=12500000",
        b"STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000",
        b"WATCHDOG=1",
        b"STATUS=next wake at nine",
    ]


def test_an_abstract_address_is_one_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0scheduler-daemon-test-{os.getpid()}")
        sock.settimeout(30)
        name = sock.getsockname()[1:].decode()
        Manager({"NOTIFY_SOCKET": f"@{name}"}, PID).ready()
        assert sock.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative", "/nobody/there"])
def test_without_a_manager_nothing_happens(address: str) -> None:
    manager = Manager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}, PID)
    manager.ready()
    assert manager.listens == address.startswith("/")


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(PID)}, 30.0),
        ({"WATCHDOG_USEC": "500000"}, 0.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_for_the_process_that_it_names(
    manager_socket: socket.socket, variables: dict[str, str], seconds: float | None
) -> None:
    assert Manager(environ(manager_socket, **variables), PID).watchdog_seconds == seconds
    assert Manager(variables, PID).watchdog_seconds is None


def test_the_journal_reads_where_its_variable_names_what_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        found = os.fstat(file.fileno())
        name = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert journal_reads(file.fileno(), name)
        assert not journal_reads(file.fileno(), {"JOURNAL_STREAM": f"{found.st_dev}:1"})
        assert not journal_reads(file.fileno(), {})
    assert not journal_reads(9999, name)


def test_each_line_for_the_journal_begins_with_its_priority() -> None:
    assert with_priority("error", "one\ntwo") == "<3>one\n<3>two"
    assert with_priority("debug", "") == "<7>"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(PID)},
        {"LISTEN_FDS": "some", "LISTEN_PID": str(PID)},
        {"LISTEN_FDS": "1"},
    ],
)
def test_a_socket_for_nobody_or_for_another_process_is_none(variables: dict[str, str]) -> None:
    assert adopted_socket(variables, PID) is None


_ADOPT = """
import os, sys
from scheduler_daemon.systemd import SocketsRefused, adopted_socket
os.environ["LISTEN_PID"] = str(os.getpid())
try:
    sock = adopted_socket(os.environ, os.getpid())
    print(sock.getsockname(), os.get_inheritable(sock.fileno()))
except SocketsRefused as error:
    print("refused:", error)
"""


def adopting(*descriptors: int) -> str:
    """What a process says that starts with these as its descriptors 3 and on."""
    dups = "; ".join(f"os.dup2({fd}, {3 + n})" for n, fd in enumerate(descriptors))
    start = (
        f"import os; {dups}; os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {_ADOPT!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", start],
        env=os.environ | {"LISTEN_FDS": str(len(descriptors))},
        pass_fds=descriptors,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_one_listening_socket_is_taken_and_not_passed_on(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(short_path / "s"))
        sock.listen()
        assert adopting(sock.fileno()) == f"{short_path / 's'} False"


def test_what_cannot_be_listened_on_is_refused_in_words(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as quiet, socket.socket(socket.AF_INET) as other:
        quiet.bind(str(short_path / "q"))
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "does not listen as a Unix stream socket" in adopting(quiet.fileno())
        assert "does not listen as a Unix stream socket" in adopting(other.fileno())
        assert "handed over 2 sockets" in adopting(quiet.fileno(), other.fileno())
    with (short_path / "file").open("w") as file:
        assert "is no socket" in adopting(file.fileno())


# The numbers that systemd uses: the process's own pid, and descriptor 3.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
program = [sys.executable, "-m", "scheduler_daemon", "run", *sys.argv[2:]]
os.execv(sys.executable, program)
"""


class Service:
    """A daemon as a manager starts it: with a socket, somebody to tell, and a watchdog."""

    def __init__(
        self, folder: Path, told: socket.socket, handed: socket.socket, *more: str
    ) -> None:
        self.told = told
        state = f"--state-directory={folder / 'state'}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, str(handed.fileno()), state, *more],
            env=os.environ | environ(told, WATCHDOG_USEC="1000000", HOME=str(folder)),
            pass_fds=[handed.fileno()],
            stderr=subprocess.DEVNULL,
        )

    def hears(self, state: str) -> str:
        """The next state that begins so."""
        while not (heard := self.told.recv(1000).decode()).startswith(state):
            pass
        return heard

    def end(self) -> int:
        self.process.terminate()
        self.hears("STOPPING=1")
        return self.process.wait(30)


@pytest.fixture
def service(short_path: Path, manager_socket: socket.socket) -> Iterator[Service]:
    with socket.socket(socket.AF_UNIX) as handed:
        handed.bind(str(short_path / "s.sock"))
        handed.listen()
        service = Service(short_path, manager_socket, handed)
        try:
            yield service
        finally:
            service.process.kill()
            service.process.wait()


@pytest.mark.acceptance
def test_a_daemon_listens_on_the_socket_that_it_was_handed_and_leaves_it(
    service: Service, short_path: Path
) -> None:
    service.hears("READY=1")
    with Client(short_path / "s.sock") as client:
        made = client.create("s", "p", after_seconds=3600)
        assert made["created"]
    assert service.end() == 0
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(str(short_path / "s.sock"))  # whoever is started next answers it


@pytest.mark.acceptance
def test_the_watchdog_hears_of_the_loop_and_the_status_is_in_words(
    service: Service, short_path: Path
) -> None:
    service.hears("READY=1")
    assert service.hears("STATUS=") == (
        "STATUS=nothing to wake for; 0 overdue; 0 agent hosts connected"
    )
    for _ in range(3):
        service.hears("WATCHDOG=1")
    assert service.end() == 0


@pytest.mark.acceptance
def test_with_bad_settings_whoever_waits_is_told_and_starts_nothing_again(
    short_path: Path, manager_socket: socket.socket
) -> None:
    """What is left in the queue of its socket would have systemd start it without end."""
    (short_path / "bad.toml").write_text("nope = 1\n")
    with socket.socket(socket.AF_UNIX) as handed, socket.socket(socket.AF_UNIX) as gone:
        handed.bind(str(short_path / "s.sock"))
        handed.listen()
        gone.connect(str(short_path / "s.sock"))
        gone.close()
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(str(short_path / "s.sock"))
            waiting.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n')
            waiting.settimeout(60)
            bad = f"--config={short_path / 'bad.toml'}"
            service = Service(short_path, manager_socket, handed, bad)
            assert service.process.wait(60) == 6
            (line,) = waiting.makefile("rb").read().splitlines()
        handed.setblocking(False)
        with pytest.raises(BlockingIOError):
            handed.accept()
    error = json.loads(line)["error"]
    assert error["data"]["code"] == "internal_error"
    assert "its settings cannot be used" in error["message"]


def wanted(mode: int, folder: Path, *, others: bool = False, group: int | None = None) -> str:
    """What a socket with this mode is said to want."""
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        path.chmod(mode)
        found = keeps_out(sock, others=others, group=group)
        path.unlink()
        assert keeps_out(sock, others=True, group=None) is None  # nobody finds it any more
        return found or "nothing"


def test_a_socket_handed_over_that_keeps_allowed_users_out_is_noticed(short_path: Path) -> None:
    group = os.getegid()
    assert wanted(0o660, short_path, others=True) == "SocketMode=0666 in its unit"
    assert wanted(0o666, short_path, others=True) == "nothing"
    assert wanted(0o660, short_path, group=group) == "nothing"
    narrow = f"SocketMode=0660 and SocketGroup={group} in its unit"
    assert wanted(0o600, short_path, group=group) == narrow
    assert wanted(0o660, short_path, group=group + 1) != "nothing"
    assert wanted(0o666, short_path, group=group + 1) == "nothing"
    assert wanted(0o600, short_path) == "nothing"
