"""What was done to which file, and what it held before: for `--undo`, and for a look by hand.

A record is written before its file is touched, so that a kill in between leaves nothing unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_daemon.cli import files
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.setup.edits import Edit, edit_of
from scheduler_daemon.ways import make


@dataclass(frozen=True, slots=True)
class Record:
    """`of`: the setup that it belongs to, `number`: its place among the files of that.

    `before` is None where there was no file, `after` the digest of what was written. `folders` were
    made for it, the innermost first.
    """

    path: Path
    of: str
    number: int
    edit: Edit
    before: bytes | None
    after: str
    folders: tuple[Path, ...] = ()


class Records:
    """The records of one user, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def backup(self, record: Record) -> Path:
        """Where what the file held before is kept; each setup that shares the file has its own."""
        key = hashlib.sha256(f"{record.of}\n{record.path}".encode()).hexdigest()[:12]
        return self._folder / f"{record.path.name}-{key}.before"

    def add(self, record: Record) -> None:
        """Keep it. Raises FailedError."""
        make_folder(self._folder)
        backup = self.backup(record)
        if record.before is not None:
            files.write(str(backup), record.before, 0o600)
        members = {
            "path": str(record.path),
            "of": record.of,
            "number": record.number,
            "edit": record.edit.members(),
            "existed": record.before is not None,
            "after": record.after,
            "folders": [str(folder) for folder in record.folders],
        }
        files.write(str(backup.with_suffix(".json")), json.dumps(members).encode(), 0o600)

    def drop(self, record: Record) -> None:
        """Forget it."""
        backup = self.backup(record)
        for path in (backup.with_suffix(".json"), backup):
            path.unlink(missing_ok=True)
        for folder in record.folders:
            with suppress(OSError):  # somebody else has something in it
                folder.rmdir()

    def all_of(self, of: str) -> list[Record]:
        """The records of one setup, what was written last first. Raises FailedError."""
        found = (record for record in self._all() if record.of == of)
        return sorted(found, key=lambda record: record.number, reverse=True)

    def _all(self) -> Iterator[Record]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                members: dict[str, Any] = json.loads(path.read_bytes())
                existed = members["existed"]
                yield Record(
                    Path(members["path"]),
                    members["of"],
                    members["number"],
                    edit_of(members["edit"]),
                    path.with_suffix(".before").read_bytes() if existed else None,
                    members["after"],
                    tuple(map(Path, members["folders"])),
                )
            except (OSError, ValueError, LookupError, TypeError) as error:
                raise FailedError(f"{path} cannot be read ({error!r}): take it away") from None


def make_folder(folder: Path) -> None:
    """The folder of the records, and the daemon's above it, both private. Raises FailedError."""
    try:
        for each in (folder.parent, folder):
            make(each, 0o700)
    except OSError as error:
        raise FailedError(f"cannot make {folder}: {error.strerror}") from None


def digest(data: bytes) -> str:
    """What tells whether a file is as it was written."""
    return hashlib.sha256(data).hexdigest()
