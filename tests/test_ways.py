"""Who could put something else in the place of a folder."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from scheduler_daemon import ways
from scheduler_daemon.ways import make, weak_spot
from tests.support.inprocess import needs_root

OTHER = 60_001


@pytest.fixture
def way(tmp_path: Path) -> Path:
    """A folder below one that tests change."""
    folder = tmp_path / "above" / "state"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o755)
    return folder


def spot(folder: Path, *, itself: bool = True) -> str | None:
    return weak_spot(folder, os.geteuid(), itself=itself)


def test_folders_of_this_user_and_root_that_nobody_else_writes_are_a_good_way(way: Path) -> None:
    assert spot(way) is None


def test_a_folder_above_that_others_write_in_is_named(way: Path) -> None:
    way.parent.chmod(0o757)
    assert spot(way) == f"{way.parent} is writable for everybody"
    way.parent.chmod(0o775)
    assert spot(way) in (None, f"{way.parent} is writable for a group")


def test_in_a_sticky_folder_above_each_keeps_what_is_its_own(way: Path) -> None:
    way.parent.chmod(0o1777)
    assert spot(way) is None


def test_the_folder_itself_may_not_even_be_sticky(way: Path) -> None:
    way.chmod(0o1777)
    assert spot(way) == f"{way} is writable for everybody"
    assert spot(way, itself=False) is None


@needs_root
def test_a_folder_above_or_a_link_of_another_user_is_named(way: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(way.parent)
    assert spot(link / "state") is None
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert spot(link / "state") == f"{link} is that of uid {OTHER}"
    assert weak_spot(link / "state", OTHER) is None
    os.chown(way.parent, OTHER, OTHER)
    assert spot(way) == f"{way.parent} is that of uid {OTHER}"


@pytest.mark.parametrize("target", ["above/state", "above/../above/state", "second"])
def test_links_are_followed_to_what_is_behind_them(way: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "second").symlink_to(way)
    (tmp_path / "link").symlink_to(target)
    assert spot(tmp_path / "link") is None
    way.parent.chmod(0o777)
    assert spot(tmp_path / "link") == f"{way.parent} is writable for everybody"


def test_a_link_to_itself_is_no_way(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    spot(tmp_path / "link")  # ends


def test_where_there_is_no_folder_there_is_no_way(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spot(tmp_path / "missing" / "state")


@needs_root
def test_the_group_that_a_user_has_alone_may_write(
    way: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a umask of 002 makes folders, where each user has a group of its own."""
    ada = pwd.struct_passwd(("ada", "x", OTHER, 700, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {OTHER: ada}.__getitem__)
    groups = {700: grp.struct_group(("ada", "x", 700, ["ada"]))}
    monkeypatch.setattr(grp, "getgrgid", groups.__getitem__)
    os.chown(way, OTHER, 700)
    way.chmod(0o775)
    assert weak_spot(way, OTHER) is None
    for name, members in (("users", []), ("ada", ["ada", "ben"])):
        groups[700] = grp.struct_group((name, "x", 700, members))
        assert weak_spot(way, OTHER) == f"{way} is writable for a group"
    os.chown(way, OTHER, 701)
    assert weak_spot(way, OTHER) == f"{way} is writable for a group"
    os.chown(way, OTHER, 0)
    assert weak_spot(way, OTHER) is None


@needs_root
@pytest.mark.parametrize("mapped", [b"0 0 4294967295\n", b"1000 1000 1\n"])
def test_where_root_is_not_mapped_its_folders_are_those_of_the_overflow_uid(
    way: Path, monkeypatch: pytest.MonkeyPatch, mapped: bytes
) -> None:
    read = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: mapped if path.name == "uid_map" else read(path)
    )
    os.chown(way, int(Path("/proc/sys/kernel/overflowuid").read_text("utf-8")), 0)
    assert (weak_spot(way, 1000) is None) == mapped.startswith(b"1000")


def test_what_is_made_on_the_way_is_nobody_elses_to_write_whatever_the_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        make(tmp_path / "a" / "b" / "c", 0o711)
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    modes = [(tmp_path / each).stat().st_mode & 0o777 for each in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o755, 0o711]
    make(tmp_path / "a", 0o700)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


def test_no_more_links_are_followed_than_the_kernel_follows(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    for number in range(1, ways._LINKS + 3):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    with pytest.raises(OSError, match="Too many levels"):
        (tmp_path / str(ways._LINKS + 2)).stat()
    spot(tmp_path / str(ways._LINKS + 2))  # ends
