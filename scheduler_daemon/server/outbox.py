"""What one peer is still to be sent, bounded in bytes and in time; what it is told is not here."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable

from scheduler_daemon.clock import Clock, Handle


class Outbox:
    """Writes frames in their order, and says when the peer does not read them.

    The transport holds one piece at a time, which only shrinks; what comes meanwhile waits here.
    Handed every frame at once, it would add up all of them at each write (from Python 3.12 on).
    `given_up` is called with the reason when more than `max_bytes` are unread, or when nothing
    moved for `timeout_seconds` (looked at once in that time, so at the latest after twice as long).
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        clock: Clock,
        *,
        max_bytes: int,
        timeout_seconds: float,
        given_up: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._max_bytes = max_bytes
        self._timeout = timeout_seconds
        self._given_up = given_up
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._beside = False
        self._stuck: Handle | None = None
        self._left = 0
        # The transport says `pause` at the first byte that it cannot pass on.
        transport.set_write_buffer_limits(high=0)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken."""
        return self._transport.get_write_buffer_size() + self._held_bytes

    @property
    def counted(self) -> int:
        """Those of them that `max_bytes` bounds: all but what was offered."""
        return self._held_bytes if self._beside else self.unsent

    def put(self, frame: bytes) -> None:
        """Send a frame, now or when those before it are gone."""
        if self._stuck is None:
            self._transport.write(frame)
        else:
            self._held.append(frame)
            self._held_bytes += len(frame)
        if self.counted > self._max_bytes:
            self._given_up("left too much unread")

    def offer(self, frame: bytes) -> bool:
        """Send a frame if the peer has taken everything before it, and say whether.

        It takes none of the room of other frames, for it is one at a time.
        """
        if self._stuck is not None:
            return False
        self._transport.write(frame)
        self._beside = self._transport.get_write_buffer_size() > 0
        return True

    def pause(self) -> None:
        """The peer did not take the last piece whole."""
        self._left = self._untaken()
        self._stuck = self._clock.call_later(self._timeout, self._check)

    def resume(self) -> None:
        """The last piece is gone: on with what was held."""
        self.close()
        self._beside = False
        held, self._held, self._held_bytes = self._held, [], 0
        self._transport.write(b"".join(held))

    def close(self) -> None:
        """Watch no more."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _check(self) -> None:
        if self._untaken() < self._left:
            self.pause()
        else:
            self._given_up("took nothing for too long")

    def _untaken(self) -> int:
        """Bytes that the peer has not read.

        Those in the kernel too, unix(7): it takes more only when three quarters of its own are
        read, and a slow reader has moved something long before.
        """
        fd = self._transport.get_extra_info("socket").fileno()
        (queued,) = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))
        return self._transport.get_write_buffer_size() + int(queued)
