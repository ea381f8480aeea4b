"""What somebody edited by hand, put right: counts, Sessions' targets, rows that do not decode.

The tables of Sessions and owners are derived; what they say wrongly is counted anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from scheduler_daemon.model import Instant, Key, Reminder
from scheduler_daemon.rules import parse_instant_text
from scheduler_daemon.store.columns import is_readable
from scheduler_daemon.store.putting_right import as_bytes, mend_runs, named
from scheduler_daemon.store.queries import CARE, QUERIES
from scheduler_daemon.store.rows import BadRow, read_reminder

COUNTED_AT_ONCE = 100
"""Sessions that are compared in one look."""

BEFORE_ALL: Key = (-(2**63), "")
"""Before every Session."""

_COUNTS = ("active", "paused", "ended", "set_aside")


class Unreadable(Exception):
    """The table of Sessions has what cannot be read of these; Store.mend puts it right."""

    def __init__(self, keys: list[Key]) -> None:
        super().__init__(keys)
        self.keys = keys


@dataclass(slots=True)
class Mended:
    """The Sessions that were counted anew, and rows that were set aside."""

    keys: list[Key] = field(default_factory=list)
    aside: list[BadRow] = field(default_factory=list)


def mend(keys: Iterable[Key]) -> Callable[[sqlite3.Connection], Mended]:
    """Put Sessions right: count them, set aside what does not decode, find their targets."""

    def act(conn: sqlite3.Connection) -> Mended:
        mended = Mended()
        for key in keys:
            _mend_session(conn, key, mended)
        count_owners(conn, {key[0] for key in mended.keys})
        return mended

    return act


def _mend_session(conn: sqlite3.Connection, key: Key, mended: Mended) -> None:
    values = as_bytes(key)
    mend_runs(conn, list(named(conn.execute(CARE["runs_in_session"], values))))
    bad = [
        read
        for read in map(read_reminder, conn.execute(CARE["to_be_met"], values))
        if not isinstance(read, Reminder)
    ]
    count_session(conn, key)
    # Only with counts that are right can the triggers take one away.
    conn.execute(CARE["count_owner"], {"owner": key[0]})
    set_aside(conn, bad)
    conn.execute(CARE["target_session"], values)
    mended.keys.append(key)
    mended.aside += bad


def count_session(conn: sqlite3.Connection, key: Key) -> None:
    """Count a Session's reminders anew and find its target; without any it is forgotten."""
    for name in ("forget_counts", "count_session", "target_session"):
        conn.execute(CARE[name], as_bytes(key))


def set_aside(conn: sqlite3.Connection, rows: Sequence[BadRow]) -> list[tuple[BadRow, Key]]:
    """Take rows that do not decode out of what is due; gives those that were not before."""
    found = []
    for bad in rows:
        key = _set_one_aside(conn, bad)
        if key is not None:
            found.append((bad, key))
    return found


def _set_one_aside(conn: sqlite3.Connection, bad: BadRow) -> Key | None:
    values = {"number": bad.number, "reason": bad.reason}
    conn.execute("SAVEPOINT aside")
    try:
        key: Key | None = conn.execute(QUERIES["set_aside"], values).fetchone()
    except sqlite3.IntegrityError as error:
        if is_of_counts(error):
            raise
        conn.execute("ROLLBACK TO aside")
        values["reason"] = f"{bad.reason} (values of another type were made text, or 0)"
        conn.execute("PRAGMA ignore_check_constraints = ON")
        try:
            key = conn.execute(CARE["force_aside"], values).fetchone()
        finally:
            conn.execute("PRAGMA ignore_check_constraints = OFF")
    conn.execute("RELEASE aside")
    return key


def wrong_sessions(conn: sqlite3.Connection, after: Key) -> tuple[list[Key], Key | None]:
    """Of the Sessions after a place those that are to be mended, and the place they end at.

    No place when there are no more.
    """
    owner = after[0]
    rows = conn.execute(
        CARE["wrong_sessions"], as_bytes(after) | {"count": COUNTED_AT_ONCE}
    ).fetchall()
    wrong = [(owner, session) for session, is_wrong in rows if is_wrong]
    if len(rows) == COUNTED_AT_ONCE:
        return wrong, (owner, rows[-1][0])
    (following,) = conn.execute(CARE["next_owner"], {"owner": owner}).fetchone()
    return wrong, None if following is None else (following, "")


def wrong_elsewhere(conn: sqlite3.Connection) -> tuple[list[Key], list[int]]:
    """Sessions that have no reminder, and owners whose counts are wrong."""
    owners = [owner for (owner,) in conn.execute(CARE["wrong_owners"])]
    return conn.execute(CARE["empty_sessions"]).fetchall(), owners


def count_all(conn: sqlite3.Connection) -> list[Key]:
    """Count every Session and owner anew whose counts are wrong; gives the Sessions."""
    counted: list[Key] = []
    place: Key | None = BEFORE_ALL
    while place is not None:
        wrong, place = wrong_sessions(conn, place)
        counted += wrong
    counted += wrong_elsewhere(conn)[0]
    for key in counted:
        count_session(conn, key)
    count_owners(conn, wrong_elsewhere(conn)[1])
    return counted


def count_owners(conn: sqlite3.Connection, owners: Iterable[int]) -> None:
    """Count the reminders of owners anew, from their Sessions."""
    for owner in owners:
        conn.execute(CARE["count_owner"], {"owner": owner})


def is_of_counts(error: Exception) -> bool:
    """Whether a count would fall below nothing: it was wrong before."""
    return isinstance(error, sqlite3.IntegrityError) and str(error) in {
        f"CHECK constraint failed: {name} >= 0" for name in _COUNTS
    }


def target(text: str | None, keys: Callable[[], list[Key]]) -> Instant | None:
    """The target of a Session, None for none. Raises Unreadable with `keys` for any other text."""
    try:
        return None if text is None else parse_instant_text(text)
    except ValueError:
        raise Unreadable(keys()) from None


def sessions_at(conn: sqlite3.Connection, owner: int, text: str) -> list[Key]:
    """The Sessions of an owner whose target is a text that is no instant."""
    given = {"owner": owner, "target": text.encode("utf-8", "surrogateescape")}
    return conn.execute(CARE["sessions_at"], given).fetchall()


def is_named(key: Key) -> bool:
    """Whether the Session's name is UTF-8; nothing can be asked about any other."""
    return is_readable(key[1])


def check_name(key: Key) -> Key:
    """The key. Raises Unreadable where its name could not be asked for."""
    if not is_named(key):
        raise Unreadable([key])
    return key
