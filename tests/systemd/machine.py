"""A machine in a container: systemd as PID 1 over a throw-away copy of this machine's own tree.

It boots in about a second. What is enabled on this machine does not start in it; limits of memory
and processor are not enforced.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.support.peer import DEADLINE_SECONDS
from tests.systemd.inside import (
    INSTALLED,
    WITHOUT_CLOCK,
    CannotRun,
    Inside,
    needs,
    own_cgroup,
    remove_cgroup,
    until,
)

# systemd-nspawn refuses / itself: it gets it under another name, in a mount namespace of its own.
_BOOT = 'mount --bind / "$1" && shift && exec systemd-nspawn "$@"'


class Machine(Inside):
    """Boots when it is made. Raises CannotRun."""

    def __init__(self) -> None:
        needs("systemd-nspawn", "setpriv", "nsenter", "unshare")
        name = f"sd-test-{os.getpid()}-{secrets.token_hex(2)}"
        self._cgroup = own_cgroup(name)
        self._folder = Path(tempfile.mkdtemp(prefix="sd-machine-"))
        (self._folder / "root").mkdir()
        self._console = self._folder / "console"
        self._process = self._start(name)
        try:
            until(self._is_up)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        root = str(self._folder / "root")
        binds = [f"--bind-ro={ours}:{theirs}" for ours, theirs in INSTALLED.items()]
        options = [
            *(f"--directory={root}", "--volatile=overlay", "--boot", "--keep-unit"),
            *("--register=no", "--private-network", "--console=read-only", "--link-journal=no"),
            *(f"--machine={name}", f"--hostname={name}", f"--uuid={secrets.token_hex(16)}"),
            *("--drop-capability=CAP_SYS_TIME", *binds, "systemd.unit=basic.target"),
        ]
        enter = f"echo $$ > {self._cgroup}/cgroup.procs && exec "
        unshare = 'unshare --mount --propagation=private sh -c "$0" sh "$@"'
        with self._console.open("wb") as console:
            return subprocess.Popen(
                # It ends with the tests, however they end.
                [
                    *WITHOUT_CLOCK,
                    "--pdeathsig=TERM",
                    "sh",
                    "-c",
                    enter + unshare,
                    _BOOT,
                    root,
                    *options,
                ],
                env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            said = self._console.read_text("utf-8", "replace")
            raise CannotRun(f"no machine can be booted here: {said[-500:]}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                self.leader = int(child)
                state = self.run("systemctl is-system-running").stdout.strip()
                return state in ("running", "degraded")
        return False

    def close(self) -> None:
        """Shut it down; nothing of it stays."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(DEADLINE_SECONDS / 3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        remove_cgroup(self._cgroup)
        shutil.rmtree(self._folder)
