"""Where a command may run: in what its user owns, below what was allowed, links or no links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler_daemon.exec_host.folders import FolderRefused, opened, way_to


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "project").mkdir(parents=True)
    (tmp_path / "elsewhere" / "project").mkdir(parents=True)
    return tmp_path / "home"


def real(directory: str, *allowed: Path) -> str:
    """Where the descriptor leads."""
    fd = opened(directory, list(map(str, allowed)))
    try:
        return os.path.realpath(way_to(fd))
    finally:
        os.close(fd)


def test_what_is_allowed_and_all_below_it_may_be_run_in(home: Path) -> None:
    for directory in (home, home / "project"):
        assert real(str(directory), home) == str(directory)
    assert real(str(home / "project"), home.parent / "elsewhere", home) == str(home / "project")


def test_a_link_is_judged_by_where_it_leads(home: Path) -> None:
    (home / "out").symlink_to(home.parent / "elsewhere")
    with pytest.raises(FolderRefused, match="is not below"):
        opened(str(home / "out"), [str(home)])
    with pytest.raises(FolderRefused, match="is not below"):
        opened(str(home / "out" / "project"), [str(home)])
    (home.parent / "in").symlink_to(home)
    assert real(str(home.parent / "in" / "project"), home) == str(home / "project")
    assert real(str(home / "project"), home.parent / "in") == str(home / "project")


def test_a_name_that_only_begins_alike_is_not_below(home: Path) -> None:
    (home.parent / "home2").mkdir()
    with pytest.raises(FolderRefused, match=f"is not below {home} "):
        opened(str(home.parent / "home2"), [str(home)])


def test_what_belongs_to_somebody_else_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(FolderRefused, match=f"belongs to uid {os.getuid()}"):
        opened(str(home), [str(home)])


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("project", "'project' is not an absolute path"),
        ("", "is not an absolute path"),
        ("{}/nowhere", "nowhere: No such file or directory"),
        ("{}/file", "file: Not a directory"),
        ("{}/a\0b", r"b' is not an absolute path"),
    ],
)
def test_what_is_no_directory_is_refused_with_the_reason(
    home: Path, directory: str, reason: str
) -> None:
    (home / "file").touch()
    with pytest.raises(FolderRefused, match=reason):
        opened(directory.format(home), [str(home)])


def test_what_was_looked_at_is_where_it_runs_whatever_stands_there_since(home: Path) -> None:
    fd = opened(str(home / "project"), [str(home)])
    (home / "project").rename(home / "moved")
    (home / "project").symlink_to(home.parent / "elsewhere")
    assert os.path.realpath(way_to(fd)) == str(home / "moved")
    os.close(fd)
