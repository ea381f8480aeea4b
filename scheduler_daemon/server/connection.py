"""One connection: its frames in and out, the order of its requests, and what it is besides."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from scheduler_daemon.clock import Clock
from scheduler_daemon.desk import ENVELOPE_BYTES, Caller
from scheduler_daemon.errors import InternalError, LimitReached, Overloaded, SchedulerError
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.hosts.outcomes import outcome_of, refusal_of
from scheduler_daemon.log import get_logger
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.allowance import Allowance
from scheduler_daemon.server.farewell import Farewell
from scheduler_daemon.server.methods import METHODS, Method
from scheduler_daemon.server.outbox import Outbox
from scheduler_daemon.server.requests import Asked, Requests
from scheduler_daemon.server.turns import LONG_BYTES, Turns
from scheduler_daemon.server.watch import PeerWatcher
from scheduler_daemon.service import Service
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.watching import Watch, Watchers
from scheduler_daemon.wire import messages, params
from scheduler_daemon.wire.encoding import encode
from scheduler_daemon.wire.frames import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    FrameTooLong,
    Splitter,
    WireError,
    check_cost,
)

LINES_AT_ONCE, BYTES_AT_ONCE = 64, LONG_BYTES
"""A peer that sends without end is listened to in parts, so that others are answered between."""

log = get_logger(__name__)


class Connection(asyncio.Protocol):
    """The daemon's end of one connection of an admitted peer.

    In which order requests are carried out is said in requests.py. `closed` is called once, when
    the connection is gone and nothing that came on it is carried out any more.
    """

    def __init__(
        self,
        caller: Caller,
        service: Service,
        status: StatusBoard,
        scheduler: Scheduler,
        watchers: Watchers,
        clock: Clock,
        *,
        max_frame_bytes: int,
        max_pending_requests: int,
        max_write_buffer_bytes: int,
        write_timeout_seconds: float,
        allowance: Allowance,
        turns: Turns,
        closed: Callable[[Connection], None],
    ) -> None:
        self.caller = caller
        self.service = service
        self.status = status
        self._scheduler = scheduler
        self._clock = clock
        self._splitter = Splitter(max_frame_bytes)
        self._max_frame = max_frame_bytes
        self._max_pending = max_pending_requests
        self._max_buffer = max_write_buffer_bytes
        self._write_timeout = write_timeout_seconds
        self._allowance = allowance
        self._turns = turns
        self._closed = closed
        self._transport: asyncio.Transport
        self._outbox: Outbox
        self._lines: deque[bytes] = deque()
        self._lines_bytes = 0
        self._waits_for_turn = False
        self._broken: FrameTooLong | None = None
        self._host: Host | None = None
        self._watcher = PeerWatcher(
            watchers, max_bytes=max_frame_bytes, offer=self._offer, waits=self._note_held
        )
        self._requests = Requests(self._has_room, self._carry_out, self._done)
        self._ending = False
        self._last_words: bytes | None = None
        self._lost = False

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outbox = Outbox(
            transport,
            self._clock,
            max_bytes=self._max_buffer,
            timeout_seconds=self._write_timeout,
            given_up=self._drop,
        )

    def data_received(self, data: bytes) -> None:
        try:
            lines = self._splitter.feed(data)
        except FrameTooLong as error:
            lines, self._broken = error.lines, error
        self._lines.extend(lines)
        self._lines_bytes += sum(map(len, lines))
        self._note_held()
        if not self._waits_for_turn:
            self._take_lines()

    def eof_received(self) -> bool:
        """The peer sends no more: what it asked is answered, what it attached is ended."""
        if self._splitter.partial:
            unended = "the last line does not end with a newline; it was not carried out"
            self.send(messages.error(None, WireError(INVALID_REQUEST, unended)))
        self._leave()
        self.end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's face
        self._outbox.close()
        self._gone()

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()
        self._watcher.go_on()
        self._note_held()
        self._requests.go_on()
        self._tell_room()
        self._close_when_answered()

    # --- what comes in

    def _take_lines(self, *, at_turn: bool = False) -> None:
        """Take a few lines, and more when other connections had their turn."""
        room = BYTES_AT_ONCE
        for _ in range(min(LINES_AT_ONCE, len(self._lines))):
            if self._ending:
                return
            if room < 0 or (len(self._lines[0]) > LONG_BYTES and not at_turn):
                break
            at_turn = False
            line = self._lines.popleft()
            room -= len(line)
            self._lines_bytes -= len(line)
            self._take(line)
        self._note_held()
        if self._lines:
            self._transport.pause_reading()
            self._go_on_later()
        elif self._broken is not None:
            self._leave()
            self.end(self._broken)
        else:
            self._transport.resume_reading()

    def _go_on_later(self) -> None:
        if self._waits_for_turn:
            return
        if len(self._lines[0]) > LONG_BYTES:
            self._waits_for_turn = True
            self._turns.ask(self.caller.uid, self._take_at_turn)
        else:
            asyncio.get_running_loop().call_soon(self._take_lines)

    def _take_at_turn(self) -> None:
        self._waits_for_turn = False
        self._take_lines(at_turn=True)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            check_cost(line)
            message = messages.parse(line)
        except WireError as error:
            self.send(messages.error(error.request_id, error))
            return
        if isinstance(message, messages.Request):
            self._ask(message, len(line))
        elif isinstance(message, messages.Notification):
            self._note(message)
        elif self._host is not None:
            # What goes wrong with one answer must not cost the host its connection.
            with self._scheduler.troubles.caught("answer_not_read", uid=self.caller.uid):
                self._take_answer(self._host, message)

    def _take_answer(self, host: Host, message: messages.Result | messages.Error) -> None:
        if isinstance(message, messages.Result):
            host.answered(message.id, outcome_of(message.value))
        else:
            host.answered(message.id, refusal_of(message.error))

    def _note(self, message: messages.Notification) -> None:
        """Carry out the one notification that there is; others are of newer versions."""
        if message.method != "session.ready" or self._host is None:
            return
        try:
            asked = params.parse(params.Ready, message.params)
        except SchedulerError:
            log.debug("notification_ignored", uid=self.caller.uid, method=message.method)
            return
        with self._scheduler.troubles.caught("ready_not_taken", uid=self.caller.uid):
            self._scheduler.ready(self._host, asked.session_id)

    def _ask(self, request: messages.Request, size: int) -> None:
        method = METHODS.get(request.method)
        if method is None:
            known = ", ".join(METHODS)
            refusal: SchedulerError = WireError(METHOD_NOT_FOUND, f"no such method; known: {known}")
            self.send(messages.error(request.id, refusal))
        elif self._requests.unanswered >= self._max_pending:
            refusal = Overloaded(
                f"{self._max_pending} requests wait on this connection; send more after answers"
            )
            self.send(messages.error(request.id, refusal))
        else:
            self._requests.add(Asked(request, method, size))

    def _has_room(self) -> bool:
        """Whether one more answer may be made. The first always is when there is room at all."""
        pushes = self._host.preparing if self._host and self._requests.running else 0
        return self._room() > pushes

    def _room(self) -> int:
        """How many frames, whatever their length, may still be made for the peer.

        One that reads, only slower than answers are made, must not be dropped for what they add
        up to. What looks may be answered with a whole frame; answers of what writes are short.
        """
        free = self._max_buffer - self._outbox.counted
        return free // self._max_frame - self._requests.looking

    def _tell_room(self) -> None:
        if self._host is not None:
            for_a_request = 1 if self._max_buffer >= 2 * self._max_frame else 0
            self._host.set_room(max(0, self._room() - for_a_request))

    def _done(self) -> None:
        if self._lost:
            self._gone()
        else:
            self._tell_room()
            self._close_when_answered()

    async def _carry_out(self, asked: Asked) -> None:
        if asked.method.access == "read":
            async with self._allowance.looking:
                await self._carry_out_now(asked)
        else:
            await self._carry_out_now(asked)

    async def _carry_out_now(self, asked: Asked) -> None:
        answer = await self._answer(asked.request, asked.method)
        # Before the peer can have it: its next request may be read before this task is done.
        self._requests.answered(asked)
        self._put(answer)

    async def _answer(self, request: messages.Request, method: Method) -> bytes:
        """The frame that answers a request, whatever happens."""
        try:
            asked = params.parse(method.params, request.params)
            self._log_owner(method, asked)
            return encode(messages.result(request.id, await method.carry_out(self, asked)))
        except SchedulerError as error:
            return encode(messages.error(request.id, error))
        except Exception:
            log.exception("request_failed", method=method.name, uid=self.caller.uid)
            failed = InternalError("this failed inside the daemon; its log says more")
            return encode(messages.error(request.id, failed))

    def _log_owner(self, method: Method, asked: params.Params) -> None:
        """What an admin does for others, or looks at, is known afterwards; also when it fails."""
        owner = getattr(asked, "owner_uid", -1)
        if self.caller.admin and owner not in (-1, self.caller.uid):
            log.info(
                "owner_named",
                method=method.name,
                owner_uid=owner,
                by_uid=self.caller.uid,
                reminder_id=getattr(asked, "id", "") or None,
                session_id=getattr(asked, "session_id", "") or None,
            )

    # --- the host and the watcher that this connection may be

    def host(self) -> Host:
        if self._host is None:
            self._host = self._scheduler.new_host(self)
        return self._host

    @property
    def uid(self) -> int:
        return self.caller.uid

    def attach(self, sessions: list[str] | Literal["*"], name: str) -> Host:
        """Let the host, which has this name from now on, take Sessions. Raises limit_reached."""
        host = self.host()
        if sessions != "*":
            names = {*host.sessions, *sessions}
            too_long = len(encode([*names])) > self._max_frame - ENVELOPE_BYTES
            if too_long or len(names) > params.MOST_NAMES:
                raise LimitReached(
                    f"one connection may name {params.MOST_NAMES} Sessions, and their names must "
                    'fit one frame; attach some on another connection, or take "*"',
                    field="sessions",
                )
            self._scheduler.hosts.check_names(self.uid, len(names) - len(host.sessions))
        host.name = name
        # A half-closed peer still gets its answer, and nothing more.
        if not self._ending:
            self._scheduler.attach(host, sessions)
        return host

    def detach(self, sessions: list[str] | Literal["*"]) -> None:
        """Take Sessions back from the host; `*` takes back everything."""
        self._scheduler.detach(self.host(), sessions)

    def watch(self, watch: Watch) -> None:
        """Tell the peer of these changes too, until it sends no more. Raises limit_reached."""
        if not self._ending:
            self._watcher.add(watch)

    def _leave(self) -> None:
        if self._host is not None and not self._host.closed:
            self._scheduler.close(self._host)

    # --- what goes out

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message for the peer; one that does not read is dropped."""
        self._put(encode(message))

    def _put(self, frame: bytes) -> None:
        if len(frame) > self._max_frame + 1:  # its newline is not counted
            # Pages and follow-ups are made to fit, so it is the id that is so long.
            too_long = WireError(INVALID_REQUEST, "the answer does not fit a frame: shorten the id")
            frame = encode(messages.error(None, too_long))
        if not self._transport.is_closing():
            self._outbox.put(frame)
            self._note_held()
            self._tell_room()

    def _offer(self, frame: bytes) -> bool:
        return not self._transport.is_closing() and self._outbox.offer(frame)

    def end(self, refusal: SchedulerError | None = None) -> None:
        """Take nothing more, and close when everything asked was answered, the refusal last."""
        self._ending = True
        self._watcher.end()
        if refusal is not None:
            self._last_words = encode(messages.error(None, refusal))
        self._transport.pause_reading()
        self._close_when_answered()

    def abort(self) -> None:
        """Close at once; what is being carried out may still take effect."""
        self._ending = True
        self._transport.abort()
        self._requests.cancel()

    def _close_when_answered(self) -> None:
        if not self._ending or self._requests.any or self._outbox.unsent:
            return
        if self._last_words is None or self._transport.is_closing():
            self._transport.close()
            return
        words, self._last_words = self._last_words, None
        farewell = Farewell(words, self._clock, self._write_timeout, self._gone)
        self._outbox.close()
        self._transport.set_protocol(farewell)
        farewell.connection_made(self._transport)

    def _gone(self) -> None:
        """The transport is closed; tell so once nothing runs any more."""
        self._ending = self._lost = True
        self._watcher.end()
        self._leave()
        self._requests.forget()
        self._allowance.note(self, 0)
        if not self._requests.any:
            self._closed(self)

    def _note_held(self) -> None:
        """What the peer makes the daemon hold counts for its user, whatever it is."""
        if not self._transport.is_closing():
            came = self._splitter.partial + self._lines_bytes + self._requests.held_bytes
            goes = self._outbox.unsent + self._watcher.waiting_bytes
            self._allowance.note(self, came + goes)

    def overheld(self) -> None:
        """Of all connections of its user, which hold too much, this one holds most."""
        self._allowance.note(self, 0)
        self._drop("its user's connections left too much unread or unfinished, and it most of it")

    def _drop(self, why: str) -> None:
        log.warning("peer_dropped", uid=self.caller.uid, why=why)
        self._ending = True
        self._transport.abort()
