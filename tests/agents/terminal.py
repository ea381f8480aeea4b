"""An open terminal: tmux is only the screen that is read."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agents.programs import DEADLINE_SECONDS


class Terminal:
    """One program on a screen."""

    def __init__(self, server: str) -> None:
        self._tmux = ["tmux", "-L", server]

    def start(self, words: list[str], cwd: Path, environ: Mapping[str, str]) -> None:
        subprocess.run(
            [
                *self._tmux,
                *("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "60"),
                shlex.join(words),
            ],
            cwd=cwd,
            env={**environ, "TERM": "xterm-256color", "PWD": str(cwd)},
            check=True,
        )

    def screen(self) -> str:
        shown = subprocess.run(
            [*self._tmux, "capture-pane", "-p", "-S", "-500"], capture_output=True, text=True
        )
        return shown.stdout

    def shows(self, text: str) -> None:
        """Wait until the text is on the screen."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in self.screen():
            assert time.monotonic() < deadline, f"{text!r} does not show:\n{self.screen()}"
            time.sleep(0.2)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A terminal on a tmux of its own, ended when left."""
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux")
    opened = Terminal(f"sd-{os.getpid()}-{secrets.token_hex(2)}")
    try:
        yield opened
    finally:
        opened.close()
