"""The daemon's file, for the verbs that open it themselves; they need its rights."""

from __future__ import annotations

import argparse
import os
from contextlib import contextmanager

from scheduler_daemon.cli.exits import ConfigurationError, FailedError, MisuseError, TakenError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def add_database(parser: Parser) -> None:
    """Which file is meant, where it is not the one that this user's daemon would take."""
    parser.add_argument("--database", metavar="PATH", help="the file; scheduler.db of a daemon")
    parser.add_argument(
        "--config", metavar="FILE", help="the daemon's configuration, which may say where it is"
    )


def locate(args: argparse.Namespace) -> Path:
    """The file, as a daemon of this user would find it. Raises ConfigurationError."""
    from pathlib import Path

    if args.database is not None:
        if not args.database or args.config is not None:
            raise MisuseError("--database takes the path of a file, and then --config has no use")
        return Path(os.path.realpath(args.database))
    from scheduler_daemon import config, places  # only here: pydantic comes with it

    try:
        folder = config.load_settings(args.config).state_directory
    except config.ConfigError as error:
        raise ConfigurationError(str(error)) from None
    return Path(os.path.realpath(folder / places.DATABASE_NAME))


@contextmanager
def refusing() -> Iterator[None]:
    """What the store refuses, as a failure of the command."""
    from scheduler_daemon.store.database import DatabaseRefused, DatabaseTaken

    try:
        yield
    except DatabaseTaken as error:
        raise TakenError(str(error)) from None
    except DatabaseRefused as error:
        raise FailedError(str(error)) from None
    except OSError as error:
        if error.filename is None:  # of the output
            raise
        raise FailedError(f"{error.filename}: {error.strerror}") from None


def stamp() -> tuple[str, str]:
    """This instant, canonical and as it stands in names of files (to the second)."""
    from scheduler_daemon import wall
    from scheduler_daemon.rules import instant_text

    now = instant_text(wall.now())
    return now, now[:19].replace("-", "").replace(":", "") + "Z"
