"""The image, the project on a disk, and machines that are gone at the end of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vm.guest import Guest, payload

IMAGE = os.environ.get("SCHEDULER_DAEMON_TEST_VM", "")

PYTHON = (3, 11)
"""Of Debian 12, which the image is."""

NewGuest = Callable[..., Guest]


@pytest.fixture(scope="session")
def image() -> Path:
    if not IMAGE:
        pytest.skip("the long suite: set SCHEDULER_DAEMON_TEST_VM (docs/systemd.md)")
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("there is no qemu-system-x86_64")
    if sys.version_info[:2] != PYTHON:
        pytest.skip("the packages that the image takes are those of a Python 3.11")
    return Path(IMAGE)


@pytest.fixture(scope="session")
def project(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return payload(tmp_path_factory.mktemp("vm"))


@pytest.fixture
def disk(image: Path, tmp_path: Path) -> Path:
    """A copy of the image's disk, which the machines of one test write to."""
    copy = tmp_path / "disk.ext4"
    subprocess.run(["cp", "--sparse=always", image / "disk.ext4", copy], check=True)
    return copy


@pytest.fixture
def new_guest(image: Path, disk: Path, project: Path) -> Iterator[NewGuest]:
    """Boots machines; the arguments are options of QEMU."""
    guests: list[Guest] = []

    def boot(*options: str) -> Guest:
        guest = Guest(image, disk, project, *options)
        guests.append(guest)
        print(f"booted in {guest.boot():.0f} s")
        return guest

    try:
        yield boot
    finally:
        for guest in guests:
            guest.close()
