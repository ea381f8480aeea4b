"""What one user sends, leaves unread or keeps open costs the others nothing, and little memory.

`pytest -s` prints how much the daemon took. Floods are held to 100 ms on a machine that is not
busy; here to more, since tests share theirs.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support.inprocess import connected_as, line, needs_root, request
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess, short_folder

pytestmark = pytest.mark.acceptance

ADA, BEN = 54_321, 54_322
MIB = 1 << 20
PATIENCE = float(os.environ.get("SCHEDULER_DAEMON_TEST_LATENCY_MS", "1500"))
"""The median of what others wait, in ms: ten of them share a slow machine with all other tests."""


def resident(process: DaemonProcess, which: str = "VmRSS") -> int:
    """Its memory in MiB, proc(5); VmHWM is the most that it ever was."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    (kib,) = re.findall(rf"{which}:\s+(\d+) kB", status)
    return int(kib) // 1024


def connected(process: DaemonProcess) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(process.socket))  # waits where the queue is full, which one in a hurry cannot
    sock.settimeout(DEADLINE_SECONDS)
    return sock


def said(sock: socket.socket) -> list[Any]:
    """All frames until the daemon closes."""
    with sock, sock.makefile("rb") as stream:
        try:
            return [json.loads(each) for each in stream]
        except ConnectionResetError:
            return []


@contextmanager
def flood(process: DaemonProcess, data: bytes) -> Iterator[None]:
    """Somebody sends this again and again, as fast as it is taken, and reads what comes."""
    over = threading.Event()
    sock = connected(process)

    def send() -> None:
        with suppress(OSError):
            while not over.is_set():
                sock.sendall(data)

    def read() -> None:
        with suppress(OSError):
            while sock.recv(MIB):
                pass

    threads = [threading.Thread(target=each) for each in (send, read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        sock.close()


HEAD = b'{"jsonrpc":"2.0","id":1,"method":"reminder.get","params":{"id":'
CRON = {"cron": {"expression": "0 0 29 2 *", "time_zone": "Europe/Berlin"}}
FLOODS = {
    "requests": line(request(1, "hello")) * 200,
    "pages": line(request(1, "reminder.list", limit=1000)) * 64,
    "filters": line(request(1, "reminder.list", limit=1000, text="nothing")) * 64,
    "sessions": line(request(1, "session.list", limit=1000)) * 64,
    "previews": line(request(1, "reminder.preview", count=100, **CRON)) * 64,
    "names": line(request(1, "host.attach", name="h", sessions=[f"{n}" for n in range(2000)])),
    "objects": HEAD + b"[" + b"{}," * (MIB // 3 - 100) + b"1]}}\n",
    "strings": HEAD + b"[" + b'"a",' * (MIB // 4 - 100) + b"1]}}\n",
    "members": b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{'
    + b",".join(b'"%d":""' % number for number in range(100_000))[: MIB - 200].rpartition(b",")[0]
    + b"}}\n",
    "context": line(
        request(1, "reminder.create", session_id="s", context={f"{n:x}": "" for n in range(9_900)})
    ),
    "nesting": (HEAD + b"[" * 9000 + b"]" * 9000 + b"}}\n") * 8,
    "digits": HEAD + b"1" * (MIB - 200) + b"}}\n",
    "escapes": HEAD + b'"' + rb"\u0041" * (MIB // 6 - 100) + b'"}}\n',
    "noise": os.urandom(MIB),
    "lines": b"x\n" * 100_000,
    "blank lines": b"\n" * MIB,
}


@pytest.fixture(scope="module")
def filled() -> Iterator[DaemonProcess]:
    """A daemon with 1,000 Sessions, for which floods ask."""
    folder = short_folder()
    running = DaemonProcess(folder)
    running.start()
    peer = running.peer()
    for first in range(0, 1000, 50):
        made = [
            peer.begin(
                "reminder.create", session_id=f"s{number}", prompt="w" * 300, after_seconds=90_000
            )
            for number in range(first, first + 50)
        ]
        for each in made:
            each.result(DEADLINE_SECONDS)
    yield running
    running.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", FLOODS)
def test_one_that_floods_delays_nobody_else(filled: DaemonProcess, kind: str) -> None:
    other = filled.peer()
    waits: list[float] = []
    with flood(filled, FLOODS[kind]):
        for number in range(20):
            began = time.monotonic()
            if number % 2:
                other.call("reminder.get", id="r1")
            else:
                other.call("reminder.preview", every_seconds=300)
            waits.append(1000 * (time.monotonic() - began))
    print(f"{kind}: others waited {median(waits):.0f} ms, {max(waits):.0f} at most; "
          f"{resident(filled, 'VmHWM')} MiB")  # fmt: skip
    assert median(waits) < PATIENCE


def test_long_lines_on_many_connections_delay_no_other_by_more_than_one_line(
    filled: DaemonProcess,
) -> None:
    other = filled.peer()
    waits: list[float] = []
    with ExitStack() as floods:
        for _ in range(30):
            floods.enter_context(flood(filled, FLOODS["context"]))
        for _ in range(20):
            began = time.monotonic()
            other.call("reminder.get", id="r1")
            waits.append(1000 * (time.monotonic() - began))
    print(f"30 connections with long lines: others waited {median(waits):.0f} ms")
    assert median(waits) < PATIENCE


def test_a_sender_of_single_bytes_is_served_and_so_are_the_others(process: DaemonProcess) -> None:
    process.start()
    other = process.peer()
    with connected(process) as slow:
        for byte in line(request(1, "hello")):
            slow.send(bytes([byte]))
            other.call("hello")
        assert json.loads(slow.makefile("rb").readline())["result"]


def opened(process: DaemonProcess, stack: ExitStack, count: int) -> list[socket.socket]:
    """So many connections of this user that stay, of which those that were refused are closed."""
    return [stack.enter_context(connected(process)) for _ in range(count)]


def test_ten_thousand_idle_connections_are_refused_in_words_and_cost_little(
    process: DaemonProcess,
) -> None:
    process.start()
    first = process.peer()
    before = resident(process)
    with ExitStack() as stack:
        opened(process, stack, 255)
        for _ in range(10):
            for sock in opened(process, stack, 10):
                refusal = json.loads(sock.makefile("rb").readline())
                assert refusal["error"]["data"]["code"] == "overloaded"
        for _ in range(9_645):
            connected(process).close()
        first.call("hello")
        grown = resident(process) - before
    print(f"10,000 connections, 256 of them open: {grown} MiB more")
    assert grown < 64
    assert first.call("daemon.status")["counts"]["active"] == 0


@needs_root
def test_one_users_connections_leave_some_for_every_other(folder: Path) -> None:
    """Also where the process may open so few that one could take them all."""
    process = DaemonProcess(folder, settings={"allowed_uids": json.dumps([ADA, BEN])})
    folder.chmod(0o755)
    process.start()
    try:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (192, 192))  # 64 for connections
        shares = []
        with ExitStack() as stack:
            for uid in (0, ADA, BEN):
                socks = connected_as(process.socket, uid, count=60)
                answers = []
                for sock in socks:
                    stack.enter_context(sock)
                    sock.settimeout(DEADLINE_SECONDS)
                    with suppress(BrokenPipeError):
                        sock.sendall(line(request(1, "hello")))
                    answers.append(json.loads(sock.makefile("rb").readline()))
                shares.append(sum("result" in answer for answer in answers))
        print(f"of 64 connections: {shares}")
        assert shares == [32, 16, 8]
        assert len(process.events("connections_exhausted")) == 1
    finally:
        process.close()


@needs_root
def test_a_user_who_floods_on_all_connections_delays_no_other_user(folder: Path) -> None:
    process = DaemonProcess(folder, settings={"allowed_uids": json.dumps([ADA])})
    folder.chmod(0o755)
    process.start()
    other = process.peer()
    other.create("s", "p", after_seconds=90_000)
    page = line(request(1, "reminder.list", limit=1000, owner_uid=ADA))
    try:
        with ExitStack() as stack:
            socks = connected_as(process.socket, ADA, count=200)
            for number in range(40):
                maker = socks[0]
                made = request(
                    number, "reminder.create", session_id="s", prompt="w" * 9000, after_seconds=9000
                )
                maker.sendall(line(made))
            for sock in socks:
                stack.enter_context(sock)
                sock.sendall(page * 50)
            waits = []
            for _ in range(20):
                began = time.monotonic()
                other.call("reminder.get", id="r1")
                waits.append(1000 * (time.monotonic() - began))
        print(f"200 connections: others waited {median(waits):.0f} ms, {max(waits):.0f} at most")
        assert median(waits) < PATIENCE
    finally:
        process.close()


Fill = Callable[[socket.socket], object]


def unended(sock: socket.socket) -> None:
    """A line of a megabyte that does not end."""
    sock.sendall(b'"' + b"x" * (MIB - 2))


def unread(sock: socket.socket) -> None:
    """Requests whose answers nobody reads."""
    sock.sendall(line(request(1, "reminder.list", limit=1000)) * 60)


def unanswered(sock: socket.socket) -> None:
    """Large requests that wait behind answers that nobody reads."""
    unread(sock)
    sock.sendall(line(request(1, "reminder.get", id="x" * (MIB - 1000))) * 3)


@pytest.mark.parametrize("fill", [unended, unread, unanswered])
def test_all_that_one_user_leaves_unread_or_unfinished_is_bounded(folder: Path, fill: Fill) -> None:
    """Whatever each of 256 connections may hold: the ones that hold most are dropped."""
    process = DaemonProcess(folder)
    process.start()
    try:
        peer = process.peer()
        for _ in range(40):
            peer.create("s", "\N{SNOWMAN}" * 9000, after_seconds=90_000)
        before = resident(process)
        with ExitStack() as stack:
            for sock in opened(process, stack, 250):
                sock.setblocking(False)
                with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                    fill(sock)
            for _ in range(20):
                peer.call("reminder.get", id="r1")
            most = resident(process, "VmHWM")
        print(f"{fill.__name__}: {before} MiB, then {most} MiB at most")
        assert most < before + 400
        assert peer.call("hello")
    finally:
        process.close()


def test_one_that_never_reads_is_dropped_and_told_of_in_one_line(folder: Path) -> None:
    process = DaemonProcess(folder, settings={"write_timeout_seconds": 1})
    process.start()
    try:
        process.peer().create("s", "x" * 30_000, after_seconds=90_000)
        with connected(process) as deaf:
            deaf.sendall(line(request(1, "reminder.list")) * 60)
            assert process.logged("peer_dropped")["why"] == "took nothing for too long"
        assert len(process.events("peer_dropped")) == 1
    finally:
        process.close()


def test_without_descriptors_it_rests_says_so_and_goes_on(process: DaemonProcess) -> None:
    process.start()
    peer = process.peer()
    open_now = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (open_now, hard))
    with connected(process) as waiting:  # in the queue of the socket
        waiting.sendall(line(request(1, "hello")))
        assert process.logged("accept_failed")["reason"] == "Too many open files"
        began = time.monotonic()
        used = cpu_seconds(process)
        while time.monotonic() < began + 3:
            peer.call("hello")
            time.sleep(0.1)
        assert cpu_seconds(process) - used < 1.5  # no busy loop
        assert len(process.events("accept_failed")) <= 4
        assert "last_accept_failure_at" in peer.call("daemon.status")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert json.loads(waiting.makefile("rb").readline())["result"]
    process.peer().call("hello")
    assert process.stop() == 0


def cpu_seconds(process: DaemonProcess) -> float:
    """What it has spent so far, proc(5)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_it_takes_all_descriptors_that_it_may(process: DaemonProcess) -> None:
    process.start()
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


def test_half_a_line_that_stays_costs_its_length_and_no_more(process: DaemonProcess) -> None:
    process.start()
    peer: Peer = process.peer()
    with connected(process) as half:
        half.sendall(line(request(1, "hello"))[:-10])
        peer.call("hello")
        half.shutdown(socket.SHUT_WR)
        (refusal,) = said(half)
    assert "does not end with a newline" in refusal["error"]["message"]
