"""Nothing of the daemon's memory comes to a disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.fresh import unmeasured
from tests.support.process import DaemonProcess
from tests.support.short import short_path as short_path

_ABORT = """
import os, resource
from scheduler_daemon.cores import dump_no_core
resource.setrlimit(resource.RLIMIT_CORE, (hard := resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
dump_no_core()
print(resource.getrlimit(resource.RLIMIT_CORE))
os.abort()
"""


def test_a_process_that_said_so_dumps_no_core(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ABORT], cwd=tmp_path, stdout=subprocess.PIPE, env=unmeasured()
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.read() == b"(0, 0)\n"
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -signal.SIGABRT
    assert os.WTERMSIG(status) == signal.SIGABRT
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_that_runs_has_no_core_to_dump(short_path: Path) -> None:
    daemon = DaemonProcess(short_path)
    try:
        daemon.start()
        limits = Path(f"/proc/{daemon.pid}/limits").read_text()
        (cores,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert cores.split()[4:6] == ["0", "0"]
    finally:
        daemon.close()
