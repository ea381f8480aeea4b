"""One connection: its frames in and out, the order of its requests, and the host that it may be."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from scheduler_daemon.clock import Clock, Handle
from scheduler_daemon.errors import InternalError, Overloaded, SchedulerError
from scheduler_daemon.log import get_logger
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.hosts import Host, outcome_of, refusal_of
from scheduler_daemon.server.methods import METHODS, Method
from scheduler_daemon.service import Caller, Service
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.wire import messages, params
from scheduler_daemon.wire.frames import (
    METHOD_NOT_FOUND,
    FrameTooLong,
    Splitter,
    WireError,
    encode,
)

log = get_logger(__name__)


class Connection(asyncio.Protocol):
    """The daemon's end of one connection of an admitted peer.

    Requests that only look may overlap, and so may those that write; between the two kinds the
    order in which they were sent is kept.
    """

    def __init__(
        self,
        caller: Caller,
        service: Service,
        status: StatusBoard,
        scheduler: Scheduler,
        clock: Clock,
        *,
        max_frame_bytes: int,
        max_pending_requests: int,
        max_write_buffer_bytes: int,
        write_timeout_seconds: float,
        closed: Callable[[Connection], None],
    ) -> None:
        self.caller = caller
        self.service = service
        self.status = status
        self._scheduler = scheduler
        self._clock = clock
        self._splitter = Splitter(max_frame_bytes)
        self._max_pending = max_pending_requests
        self._max_buffer = max_write_buffer_bytes
        self._write_timeout = write_timeout_seconds
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._host: Host | None = None
        self._queue: deque[tuple[messages.Request, Method]] = deque()
        self._running: dict[asyncio.Task[None], Method] = {}
        self._ending = False
        self._stuck: Handle | None = None
        self._unsent = 0

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Both 0: pause_writing tells of the first byte that the peer does not take.
        transport.set_write_buffer_limits(high=0, low=0)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        try:
            lines, broken = self._splitter.feed(data), None
        except FrameTooLong as error:
            lines, broken = error.lines, error
        for line in lines:
            self._take(line)
        if broken is not None:
            self.send(messages.error(None, broken))
            self._leave()
            self.end()

    def eof_received(self) -> bool:
        """The peer sends no more: what it asked is answered, what it attached is ended."""
        self._leave()
        self.end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's face
        self._transport = None
        self._leave()
        self._queue.clear()
        if self._stuck is not None:
            self._stuck.cancel()
        self._closed(self)

    def pause_writing(self) -> None:
        self._watch_write()

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    # --- what comes in

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = messages.parse(line)
        except WireError as error:
            self.send(messages.error(error.request_id, error))
            return
        match message:
            case messages.Request():
                self._ask(message)
            case messages.Notification():
                self._note(message)
            case messages.Result(answer_id, value):
                if self._host is not None:
                    self._host.answered(answer_id, outcome_of(value))
            case messages.Error(answer_id, body):
                if self._host is not None:
                    self._host.answered(answer_id, refusal_of(body))

    def _note(self, message: messages.Notification) -> None:
        """Carry out the one notification that there is; others are of newer versions."""
        if message.method != "session.ready" or self._host is None:
            return
        try:
            asked = params.parse(params.Ready, message.params)
        except SchedulerError:
            log.debug("notification_ignored", uid=self.caller.uid, method=message.method)
            return
        self._scheduler.ready(self._host, asked.session_id)

    def _ask(self, request: messages.Request) -> None:
        method = METHODS.get(request.method)
        if method is None:
            known = ", ".join(METHODS)
            refusal: SchedulerError = WireError(METHOD_NOT_FOUND, f"no such method; known: {known}")
            self.send(messages.error(request.id, refusal))
        elif len(self._queue) + len(self._running) >= self._max_pending:
            refusal = Overloaded(
                f"{self._max_pending} requests wait on this connection; send more after answers"
            )
            self.send(messages.error(request.id, refusal))
        else:
            self._queue.append((request, method))
            self._pump()

    def _pump(self) -> None:
        """Start what may run beside that which runs, in the order sent."""
        while self._queue:
            access = self._queue[0][1].access
            if any(method.access != access for method in self._running.values()):
                return
            request, method = self._queue.popleft()
            task = asyncio.create_task(self._carry_out(request, method))
            self._running[task] = method
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._pump()
        self._close_when_answered()

    async def _carry_out(self, request: messages.Request, method: Method) -> None:
        try:
            asked = params.parse(method.params, request.params)
            answer = messages.result(request.id, await method.carry_out(self, asked))
        except SchedulerError as error:
            answer = messages.error(request.id, error)
        except Exception:
            log.exception("request_failed", method=method.name, uid=self.caller.uid)
            answer = messages.error(
                request.id, InternalError("this failed inside the daemon; its log says more")
            )
        self.send(answer)

    # --- the host that this connection may be

    def host(self) -> Host:
        if self._host is None:
            self._host = self._scheduler.new_host(self)
        return self._host

    @property
    def uid(self) -> int:
        return self.caller.uid

    def attach(self, sessions: list[str] | Literal["*"]) -> None:
        # A half-closed peer still gets its answer, and nothing more.
        if not self._ending and self._transport is not None:
            self._scheduler.attach(self.host(), sessions)

    def detach(self, sessions: list[str] | Literal["*"]) -> None:
        self._scheduler.detach(self.host(), sessions)

    def _leave(self) -> None:
        if self._host is not None and not self._host.closed:
            self._scheduler.close(self._host)

    # --- what goes out

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message for the peer; one that does not read is dropped."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(encode(message))
        if self._transport.get_write_buffer_size() > self._max_buffer:
            self._drop("does not read")

    def end(self) -> None:
        """Take nothing more, and close when everything asked was answered."""
        self._ending = True
        self._close_when_answered()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _close_when_answered(self) -> None:
        if self._ending and not self._queue and not self._running and self._transport is not None:
            self._transport.close()

    def _watch_write(self) -> None:
        assert self._transport is not None
        self._unsent = self._transport.get_write_buffer_size()
        self._stuck = self._clock.call_later(self._write_timeout, self._check_write)

    def _check_write(self) -> None:
        """Drop the peer when nothing moved for the whole time-out."""
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() >= self._unsent:
            self._drop("took nothing for too long")
        else:
            self._watch_write()

    def _drop(self, why: str) -> None:
        log.warning("peer_dropped", uid=self.caller.uid, why=why)
        self.abort()
