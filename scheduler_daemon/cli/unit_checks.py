"""What keeps units of this user from being installed. Each check raises FailedError."""

from __future__ import annotations

import os
import subprocess
import sys

from scheduler_daemon.cli import profile_tables, queue, unit_files, user_manager
from scheduler_daemon.cli.exits import FailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def manager_takes(folder: Path, names: Sequence[str]) -> None:
    """The manager would find the units, and has no others with these names."""
    if str(folder) not in user_manager.folders():
        raise FailedError(
            f"the service manager of this user does not look in {folder}: "
            "HOME or XDG_CONFIG_HOME has another value here than it has there"
        )
    main = names[-1]
    other = user_manager.prop("FragmentPath", main)
    if other not in ("", str(folder / main)):
        raise FailedError(
            f"this user has the unit already, {other}: "
            f"`systemctl --user enable --now {' '.join(names)}` starts it"
        )


def daemon_can_start(socket: Path | None) -> None:
    """Nothing keeps a daemon from starting, and listening at `socket`; None: the usual place."""
    _interpreter_finds("scheduler_daemon")
    _nobody_listens(socket)


def host_can_start() -> None:
    """The same of the host of agents. Raises ConfigurationError for a table of profiles, too."""
    _interpreter_finds("scheduler_daemon.cli")
    profile_tables.known()
    _no_host_runs()


def _interpreter_finds(module: str) -> None:
    """A manager could start this module of the package with this interpreter."""
    done = subprocess.run(  # noqa: S603  words of ours, no shell
        [*unit_files.command(module), "--version"],
        cwd="/",
        env={"PATH": os.defpath, **unit_files.carried(os.environ)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FailedError(
            f"{sys.executable} finds no scheduler_daemon outside of this folder: install it first"
        )


def _nobody_listens(socket: Path | None) -> None:
    """No daemon answers that the units would cut off from its socket."""
    from scheduler_daemon.client import finding

    unit = unit_files.DAEMON[0]
    where = socket or f"/run/user/{os.getuid()}/scheduler-daemon/scheduler.sock"
    of_the_unit = user_manager.prop("Listen", unit).startswith(f"{where} ")
    if of_the_unit and user_manager.prop("ActiveState", unit) == "active":
        return
    try:
        finding.connect(where, 5).close()
    except (finding.DaemonUnreachable, BlockingIOError):
        return
    raise FailedError(
        f"a daemon listens at {where} already: stop it, or name another socket, and run this again"
    )


def _no_host_runs() -> None:
    """No other host of agents works on the queue, of which there can be one."""
    path = queue.usual_path()
    if not path.exists() or user_manager.prop("ActiveState", unit_files.HOST_EXEC[0]) == "active":
        return
    with queue.opened(path) as spool:
        if spool.bell.is_held():
            about = spool.description()
            raise FailedError(
                f"host-exec runs already, as process {about.get('pid')}: stop it, and run this "
                "again"
            )
