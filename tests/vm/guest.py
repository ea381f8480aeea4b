"""A virtual machine that boots the image of build_image.sh; its clock and its power are its own."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import scheduler_daemon

PROJECT = Path(scheduler_daemon.__file__).parents[1]
SITE = Path(sysconfig.get_path("purelib"))

BOOT_SECONDS = 600.0
ANSWER_SECONDS = 300.0
"""Without hardware support everything takes some twenty times as long as on the machine itself."""

_KERNEL = (
    "console=ttyS0 quiet panic=-1 root=/dev/vda rw mitigations=off random.trust_cpu=on "
    "tsc=reliable systemd.show_status=0"
)

_INSTALL = """
cp /opt/project/systemd/system/* /etc/systemd/system/
mkdir -p /etc/scheduler-daemon /etc/sysusers.d
cp /opt/project/systemd/config.toml /etc/scheduler-daemon/
cp /opt/project/systemd/sysusers.d/* /etc/sysusers.d/
for name in daemon:scheduler-daemon cli:schedctl; do
  module=scheduler_daemon; [ "${name%:*}" = cli ] && module=scheduler_daemon.cli
  printf '#!/bin/sh\\nexport PYTHONPATH=/opt/project:/opt/project/site\\n'\
'exec python3 -P -m %s "$@"\\n' $module > /usr/local/bin/${name#*:}
  chmod 755 /usr/local/bin/${name#*:}
done
systemd-sysusers && systemctl daemon-reload
"""


class GuestError(Exception):
    """A command in the machine failed, or the machine ended."""


def payload(folder: Path) -> Path:
    """A disk with the project as it is, and the packages that it needs."""
    tree = folder / "payload"
    for name in ("scheduler_daemon", "migrations", "systemd", "tests/vm", "tests/support"):
        shutil.copytree(PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests/__init__.py").touch()
    wanted = ("aiosqlite", "annotated_types", "pydantic", "pydantic_core", "structlog", "tzdata")
    for name in (*wanted, "typing_inspection", "typing_extensions.py"):
        source = SITE / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        (tree / "site").mkdir(exist_ok=True)
        copy(source, tree / "site" / name)
    how = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")  # saves a minute
    subprocess.run([sys.executable, *how, tree], check=True)
    disk = folder / "payload.ext4"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, disk, "200M"], check=True)
    shutil.rmtree(tree)
    return disk


class Guest:
    """One machine, from `boot` to `cut`. `disk` is written to; `options` are more of QEMU's."""

    def __init__(self, image: Path, disk: Path, payload: Path, *options: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sd-vm-"))
        self._command = [
            *("qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-m", "768", "-smp", "1"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-net", "none", "-no-reboot"),
            *("-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img")),
            *("-append", _KERNEL),
            *("-drive", f"file={disk},if=virtio,format=raw"),
            *("-drive", f"file={payload},if=virtio,format=raw,readonly=on"),
            *("-serial", f"file:{self._folder}/console"),
            *("-chardev", f"socket,id=agent,path={self._folder}/agent,server=on,wait=off"),
            *("-serial", "chardev:agent", *options),
        ]
        self._buffer = b""

    def boot(self) -> float:
        """Start it; returns when it can be told things. Gives how many seconds that took."""
        began = time.monotonic()
        with (self._folder / "qemu").open("wb") as log:
            # It ends with the tests, and can set no clock but its own, whatever it does.
            less = ["--bounding-set=-sys_time", "--inh-caps=-all"] if os.geteuid() == 0 else []
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *less, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._socket = socket.socket(socket.AF_UNIX)
        while self._socket.connect_ex(f"{self._folder}/agent"):
            self._alive()
            time.sleep(0.05)
        while "ready" not in self.line(BOOT_SECONDS):
            pass
        return time.monotonic() - began

    def install(self) -> None:
        """The system unit and what belongs to it, as docs/systemd.md says."""
        self.sh(_INSTALL)

    def sh(self, command: str, seconds: float = ANSWER_SECONDS) -> str:
        """What a command prints that must succeed."""
        status, output = self.do("sh", command, seconds=seconds)
        if status:
            raise GuestError(f"{command}: {status}\n{output}")
        return str(output).strip()

    def call(self, method: str, **params: object) -> Any:
        """A request of the agent's host to the daemon."""
        return self.do("call", method, params)

    def do(self, what: str, *words: object, seconds: float = ANSWER_SECONDS) -> Any:
        """Let the agent do something. Raises GuestError."""
        self.tell(what, *words)
        while not (answer := self.line(seconds)).keys() & {"result", "refused", "error"}:
            pass
        if "result" not in answer:
            raise GuestError(f"{what} {words}: {answer}")
        return answer["result"]

    def tell(self, what: str, *words: object) -> None:
        """Let the agent begin something."""
        self._socket.sendall(json.dumps([what, words]).encode() + b"\n")

    def line(self, seconds: float) -> dict[str, Any]:
        """The next thing that the agent says; what is none (the kernel's words) is passed over."""
        end = time.monotonic() + seconds
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                try:
                    said = json.loads(line)
                except ValueError:
                    continue
                if isinstance(said, dict):
                    return said
                continue
            ready, _, _ = select.select([self._socket], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise GuestError(f"it said nothing for {seconds} s: {self._console()}")
            data = self._socket.recv(65536)
            if not data:
                self._process.wait()
                self._alive()
            self._buffer += data

    def _alive(self) -> None:
        if self._process.poll() is not None:
            said = (self._folder / "qemu").read_text()
            raise GuestError(f"it ended with {self._process.returncode}: {said}")

    def _console(self) -> str:
        return (self._folder / "console").read_text("utf-8", "replace")[-2000:]

    def cut(self) -> None:
        """Cut its power: whatever its kernel had not written to the disk is gone."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Nothing of it stays."""
        self.cut()
        self._socket.close()
        shutil.rmtree(self._folder)
