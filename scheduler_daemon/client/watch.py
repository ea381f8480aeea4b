"""What a watch hears: the blocking reader of changes, and what stands for those left out."""

from __future__ import annotations

from scheduler_daemon.wire.messages import Error, Message, Notification, error_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TypeAlias

    from scheduler_daemon.client.connection import Connection
    from scheduler_daemon.wire import shapes

    Change: TypeAlias = "shapes.ReminderChanged | Lagged"


class Lagged:
    """Changes were left out, for this watch read more slowly than they came: list again."""

    __slots__ = ()


def change_in(message: Message) -> Change | None:
    """The change that a message tells of, None where it is none.

    Raises the SchedulerError that an error without an id carries: it speaks of the connection.
    """
    if isinstance(message, Error) and message.id is None:
        raise error_from(message.error)
    if isinstance(message, Notification):
        if message.method == "watch.lagged":
            return Lagged()
        if message.method == "reminder.changed":
            return message.params  # type: ignore[return-value]  # as the protocol says
    return None


class Changes:
    """Every change from the beginning of the watch on, in order; waits for the next without end.

    Each is the params of a `reminder.changed`, or a `Lagged`. Raises ConnectionLost when the
    connection ends. The watch ends when this is closed, which leaving a `with` does.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        while self._connection is not None:
            try:
                change = change_in(self._connection.hear())
            except BaseException:
                self.close()
                raise
            if change is not None:
                return change
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the watch."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
