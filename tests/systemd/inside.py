"""A process tree with a systemd of its own, entered from outside; nothing of the machine's is used.

Whatever is started here has lost CAP_SYS_TIME for good: a namespace does not keep root from
setting the machine's clock.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import scheduler_daemon
from tests.support.peer import DEADLINE_SECONDS, Json, Peer

PROJECT = Path(scheduler_daemon.__file__).parents[1]
UNITS = PROJECT / "systemd"

WITHOUT_CLOCK = ["setpriv", "--bounding-set=-sys_time,-sys_boot,-sys_module", "--inh-caps=-all"]

INSTALLED = {
    sys.base_prefix: "/opt/scheduler-test/python",
    sysconfig.get_path("purelib"): "/opt/scheduler-test/site",
    str(PROJECT): "/opt/scheduler-test/project",
}
"""The interpreter of the tests, its packages and the project, and where they are inside."""

LAUNCH = f"""\
#!/bin/sh
PYTHONPATH={INSTALLED[str(PROJECT)]}:{INSTALLED[sysconfig.get_path("purelib")]}
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
exec {INSTALLED[sys.base_prefix]}/bin/python{sysconfig.get_python_version()} -P -m """


class CannotRun(Exception):
    """Why there can be no systemd of the tests' own on this machine."""


def needs(*programs: str) -> None:
    """Raises CannotRun where one is missing, or where this is not root's process."""
    if os.geteuid() != 0:
        raise CannotRun("it takes root")
    missing = [each for each in programs if not shutil.which(each) and not Path(each).exists()]
    if missing:
        raise CannotRun(f"missing: {', '.join(missing)}")


def own_cgroup(name: str) -> Path:
    """A new folder in the unified hierarchy. Raises CannotRun."""
    for root in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
        if (root / "cgroup.procs").exists():
            try:
                (root / name).mkdir()
            except OSError as error:
                raise CannotRun(f"no cgroup can be made: {error.strerror}") from None
            return root / name
    raise CannotRun("there is no unified cgroup hierarchy")


def remove_cgroup(cgroup: Path) -> None:
    """The folder and all below it, once their processes are gone."""

    def removed() -> bool:
        try:
            for folder, _, _ in os.walk(cgroup, topdown=False):
                Path(folder).rmdir()
        except OSError:  # the kernel has not done with a process yet
            return False
        return True

    until(removed)


def until(holds: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Return when it holds; AssertionError when it does not in time. Looked at often, not heard."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.05)


class Inside:
    """What can be done in such a tree; `leader` is its systemd, seen from outside."""

    leader: int

    def run(self, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """A shell's command line, as root or as another user in all the groups of that user."""
        variables = [f"{name}={value}" for name, value in self.environ(user).items()]
        who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return subprocess.run(
            [
                *WITHOUT_CLOCK,
                *("nsenter", f"--target={self.leader}", "-m", "-u", "-i", "-n", "-p", "-C"),
                *("env", "-i", "--chdir=/", *variables, *(who if user != "root" else [])),
                *("sh", "-c", command),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def sh(self, command: str, user: str = "root") -> str:
        """What a command prints that must succeed."""
        done = self.run(command, user)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def environ(self, user: str) -> dict[str, str]:
        """What a command of a user knows: as in a session of that user."""
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
        if user == "root":
            return variables | {"HOME": "/root"}
        uid = self.sh(f"id -u {user}")
        return variables | {"HOME": f"/home/{user}", "XDG_RUNTIME_DIR": f"/run/user/{uid}"}

    def path(self, inside: str) -> Path:
        """A path inside, for this process."""
        return Path(f"/proc/{self.leader}/root{inside}")

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        """A file inside, its folder made where it is missing."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def launchers(self, folder: str) -> None:
        """The two commands, for the interpreter and the packages of the tests."""
        libraries = f"{INSTALLED[sys.base_prefix]}/lib\n"  # of one that is linked with its own
        self.write("/etc/ld.so.conf.d/scheduler-test.conf", libraries)
        self.sh("ldconfig")
        self.write(f"{folder}/scheduler-daemon", f'{LAUNCH}scheduler_daemon "$@"\n', 0o755)
        self.write(f"{folder}/schedctl", f'{LAUNCH}scheduler_daemon.cli "$@"\n', 0o755)


class Unit:
    """The service and its socket in a tree, of the system or of a user.

    `state`, `socket` and `config` are where its files are, `drop_ins` where more lines for it go.
    """

    def __init__(
        self,
        inside: Inside,
        user: str,
        *,
        state: str,
        socket: str,
        config: str,
        drop_ins: str,
    ) -> None:
        self.inside = inside
        self.state = state
        self.socket = socket
        self.config = config
        self.drop_ins = drop_ins
        self._user = user
        self._since = inside.sh("date +%s.%N")
        self._peers: list[Peer] = []

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """As whoever manages it: root, or the user; `systemctl` asks the right manager."""
        if not self._user:
            return self.inside.run(command)
        return self.inside.run(command.replace("systemctl ", "systemctl --user "), self._user)

    def ctl(self, words: str) -> str:
        """What `systemctl` prints; it must succeed."""
        done = self.run(f"systemctl {words}")
        assert done.returncode == 0, f"systemctl {words}: {done.stderr}\n{self.log()}"
        return done.stdout.strip()

    def prop(self, name: str, suffix: str = "service") -> str:
        """A property of the service, or of its socket."""
        return self.ctl(f"show -P {name} scheduler-daemon.{suffix}")

    def is_active(self) -> bool:
        return self.prop("ActiveState") == "active"

    def start(self) -> None:
        self.ctl("start scheduler-daemon.service")

    def peer(self) -> Peer:
        """A connection to the socket, as root; closed at the end."""
        self._peers.append(Peer(self.inside.path(self.socket)))
        return self._peers[-1]

    def kill(self, number: str) -> None:
        """A signal for the daemon."""
        self.ctl(f"kill --kill-who=main --signal={number} scheduler-daemon.service")

    def more(self, lines: str, suffix: str = "service") -> None:
        """More lines for a unit; the manager knows them on return."""
        self.inside.write(f"{self.drop_ins}/scheduler-daemon.{suffix}.d/test.conf", lines)
        self.ctl("daemon-reload")

    def log(self, output: str = "cat") -> str:
        """What the journal has of the service since the test began."""
        of = "USER_UNIT" if self._user else "UNIT"
        fields = [f"_SYSTEMD_{of}=scheduler-daemon.service", f"{of}=scheduler-daemon.service"]
        words = f"--since=@{self._since} --output={output} {' + '.join(fields)}"
        return self.inside.sh(f"journalctl --sync && journalctl --no-pager {words}")

    def entries(self) -> list[Json]:
        """The entries that the daemon itself wrote, with their fields."""
        lines = [json.loads(line) for line in self.log("json").splitlines()]
        return [line for line in lines if line.get("SYSLOG_IDENTIFIER") == "scheduler-daemon"]

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
