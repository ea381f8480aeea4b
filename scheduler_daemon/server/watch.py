"""What one connection watches, and the changes that wait until its peer has read those before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scheduler_daemon.desk import Caller, any_owner
from scheduler_daemon.errors import LimitReached
from scheduler_daemon.watching import Watch, Watchers
from scheduler_daemon.wire import messages, params
from scheduler_daemon.wire.encoding import encode

MOST_WATCHES = 1000
"""On one connection; more would be memory that a peer can take at will."""

LAGGED = encode(messages.notification("watch.lagged", {}))


class PeerWatcher:
    """The watcher that a connection is; it hears of a change once, however many watches it fits.

    `offer` sends a frame if the peer has taken everything before, and says whether. Others wait
    here, and `waits` is called. When they are more than `max_bytes` together, one `watch.lagged`
    takes their place: the peer has to list again anyway, and those of answers and follow-ups lose
    no room.
    """

    def __init__(
        self,
        watchers: Watchers,
        *,
        max_bytes: int,
        offer: Callable[[bytes], bool],
        waits: Callable[[], None],
    ) -> None:
        self._watchers = watchers
        self._max_bytes = max_bytes
        self._offer = offer
        self._waits = waits
        self._watches: set[Watch] = set()
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        """What waits for its peer."""

    def add(self, watch: Watch) -> None:
        """Watch this as well. Raises limit_reached."""
        if len(self._watches) >= MOST_WATCHES and watch not in self._watches:
            raise LimitReached(
                f"one connection may have {MOST_WATCHES} watches; leave out session_id to watch"
                " every Session with one"
            )
        self._watches.add(watch)
        self._watchers.add(self, watch)

    def hear(self, frame: bytes) -> None:
        """Pass a change on, now or when those before it are read."""
        self._waiting.append(frame)
        self.waiting_bytes += len(frame)
        self.go_on()
        if self.waiting_bytes > self._max_bytes:
            self._waiting = deque([LAGGED])
            self.waiting_bytes = len(LAGGED)
        if self._waiting:
            self._waits()

    def go_on(self) -> None:
        """The peer has read something: pass on what waited."""
        while self._waiting and self._offer(self._waiting[0]):
            self.waiting_bytes -= len(self._waiting.popleft())

    def end(self) -> None:
        """Watch nothing more, and forget what waited."""
        for watch in self._watches:
            self._watchers.remove(self, watch)
        self._watches.clear()
        self._waiting.clear()
        self.waiting_bytes = 0


def watch_of(caller: Caller, asked: params.Watch) -> Watch:
    """What `caller` asks to watch. Raises permission_denied."""
    return Watch(any_owner(caller, asked.owner_uid), asked.session_id or None)
