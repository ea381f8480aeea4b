"""The profiles that `schedctl host-exec` runs agents by: those that are shipped, and one's own."""

from __future__ import annotations

import os

from scheduler_daemon.cli.exits import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from scheduler_daemon.exec_host.profiles import Profile


def known(named: str | None = None) -> dict[str, Profile]:
    """All of them by name; `named` is the file with one's own, None looks in the usual place.

    Raises ConfigurationError.
    """
    from pathlib import Path

    from scheduler_daemon.exec_host.profiles import ProfilesRefused, load

    try:
        return load(_usual() if named is None else Path(named))
    except ProfilesRefused as error:
        raise ConfigurationError(str(error)) from None


def _usual() -> Path | None:
    from scheduler_daemon import places

    config = places.config_file(os.environ, places.home_directory(os.environ, os.getuid()))
    path = config and config.with_name("profiles.toml")
    return path if path is not None and path.exists() else None
