"""Fails when a wheel or sdist lacks something or has too much: package_contents.py SOURCE DIST."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

COMMANDS = {"schedctl", "scheduler-daemon"}
KEPT_OUT = (".ci/", ".gitignore")
"""What git has and an sdist has not; hatchling adds .gitignore by itself."""
SHARED = ("man/man1/schedctl.1", "man/man8/scheduler-daemon.8", "zsh/site-functions/_schedctl")


def tracked(source: Path) -> set[str]:
    """Every file that git has."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=source, capture_output=True, check=True)
    return set(listed.stdout.decode().strip("\0").split("\0"))


def placed(source: Path) -> list[tuple[str, str]]:
    """The folders that go into a wheel, each with its place there."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    extra = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    return [("scheduler_daemon", "scheduler_daemon"), *extra.items()]


def made(source: Path) -> set[str]:
    """The man pages and completions, below build/share."""
    share = source / "build" / "share"
    return {str(file.relative_to(share)) for file in share.rglob("*") if file.is_file()}


def wheel_faults(wheel: Path, source: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
        points = archive.read(f"{info}/entry_points.txt").decode()
    data = info.replace(".dist-info", ".data/data/share")
    wanted = {
        place + name[len(part) :]
        for part, place in placed(source)
        for name in tracked(source)
        if name.startswith(f"{part}/")
    }
    wanted |= {f"{data}/{name}" for name in made(source)}
    found = {name for name in names if not name.startswith(f"{info}/")}
    faults = [f"the wheel lacks {name}" for name in sorted(wanted - found)]
    faults += [f"the wheel should not have {name}" for name in sorted(found - wanted)]
    return faults + [
        f"the wheel lacks the command {c}" for c in COMMANDS if f"{c} = " not in points
    ]


def sdist_faults(sdist: Path, source: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        found = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    wanted = {name for name in tracked(source) if not name.startswith(KEPT_OUT)}
    wanted |= {f"build/share/{name}" for name in made(source)}
    found -= {"PKG-INFO", ".gitignore"}
    faults = [f"the sdist lacks {name}" for name in sorted(wanted - found)]
    return faults + [f"the sdist should not have {name}" for name in sorted(found - wanted)]


def main(source: str, dist: str) -> int:
    root, folder = Path(source), Path(dist)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    faults = [f"{name} was not made" for name in SHARED if name not in made(root)]
    faults += wheel_faults(wheel, root) + sdist_faults(sdist, root)
    print("\n".join(faults) or f"{wheel.name} and {sdist.name} have what they should")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
