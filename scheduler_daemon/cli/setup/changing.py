"""Work out what a setup changes, and do it: all of its files, or none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.setup import replacing
from scheduler_daemon.cli.setup.agents import Edits
from scheduler_daemon.cli.setup.edits import Broken, Edit, InTheWay
from scheduler_daemon.cli.setup.records import Record, Records, digest

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds, and what it is to hold; None: no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    edit: Edit


def planned(of: str, edits: Edits, records: Records) -> list[Change]:
    """What a setup has to change, nothing where all is there; `of` tells it from others.

    Raises FailedError where something is in the way, or was done before and is not as it was left.
    """
    again = bool(records.all_of(of))
    changes = [_putting(Path(os.path.realpath(path)), edit, again=again) for path, edit in edits]
    wanted = [change for change in changes if change.before != change.after]
    if wanted and again:
        raise FailedError(
            f"this was set up before, otherwise, or was changed since ({wanted[0].path}); nothing "
            "was changed: run it with --undo first"
        )
    return wanted


def _putting(path: Path, edit: Edit, *, again: bool = False) -> Change:
    """What puts it there; `again` where it was put there before, by other options or versions."""
    before = replacing.read(path)
    try:
        return Change(path, before, edit.put(before), edit)
    except InTheWay as error:
        advice = "run this with --undo first" if again else "rename it or take it away first"
        raise FailedError(f"{path}: {error}; nothing was changed: {advice}") from None
    except Broken as error:
        raise FailedError(f"{path}: {error}; nothing was changed") from None


def carry_out(of: str, changes: Sequence[Change], records: Records) -> None:
    """Change all files. What they hold by now is read anew. Raises FailedError, and puts back."""
    try:
        for number, change in enumerate(changes):
            _write(of, number, change, records)
    except BaseException:
        for record in records.all_of(of):
            with suppress(FailedError):  # the first failure is what is told
                _restore(record, records)
        raise


def _write(of: str, number: int, change: Change, records: Records) -> None:
    folders = tuple(replacing.missing_folders(change.path))
    for _ in range(_TRIES):
        now = _putting(change.path, change.edit)
        if now.before == now.after:
            return  # somebody else did it meanwhile
        assert now.after is not None  # nothing is put by removing
        record = Record(now.path, of, number, now.edit, now.before, digest(now.after), folders)
        records.add(record)
        if replacing.replace(now.path, now.before, now.after):
            return
    raise FailedError(f"{change.path} is changed by something else all the time")


def undoing(record: Record, records: Records) -> Change:
    """What takes a setup out of one file: byte for byte where nobody has changed it since.

    Raises FailedError where that would lose what somebody wrote.
    """
    now = replacing.read(record.path)
    if now is None or digest(now) == record.after:
        return Change(record.path, now, None if now is None else record.before, record.edit)
    if now == record.before:  # it was killed before it wrote, or somebody put it back
        return Change(record.path, now, now, record.edit)
    try:
        return Change(record.path, now, record.edit.cut(now, record.before), record.edit)
    except (InTheWay, Broken) as error:
        kept = "did not exist" if record.before is None else f"is in {records.backup(record)}"
        raise FailedError(
            f"{record.path} was changed since: {error}; nothing was changed: take by hand what "
            f"setup wrote out of it, and run this again (what it was before {kept})"
        ) from None


def undo(of: str, records: Records) -> None:
    """Take it out of all its files, what needs the hook before the hook. Raises FailedError."""
    for record in records.all_of(of):
        _restore(record, records)


def _restore(record: Record, records: Records) -> None:
    for _ in range(_TRIES):
        change = undoing(record, records)
        if change.before == change.after or replacing.replace(
            change.path, change.before, change.after
        ):
            records.drop(record)
            return
    raise FailedError(f"{record.path} is changed by something else all the time")
