"""Where files lie when nobody says: the environment's word, else the home directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from scheduler_daemon import places
from scheduler_daemon.places import SocketFolder

HOME = Path("/home/alice")
UNKNOWN_UID = 4_000_000_123


class TestHome:
    def test_home_is_taken_from_the_environment(self) -> None:
        assert places.home_directory({"HOME": "/h"}, UNKNOWN_UID) == Path("/h")

    @pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
    def test_without_a_usable_variable_the_user_database_is_asked(
        self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pwd.getpwuid", lambda _uid: FakeUser("/from/passwd"))
        assert places.home_directory(environ, 1000) == Path("/from/passwd")

    def test_a_user_that_is_in_no_database_has_no_home(self) -> None:
        assert places.home_directory({}, UNKNOWN_UID) is None

    def test_a_user_whose_home_is_no_path_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pwd.getpwuid", lambda _uid: FakeUser(""))
        assert places.home_directory({}, 1000) is None


class FakeUser:
    def __init__(self, home: str) -> None:
        self.pw_dir = home


class TestConfigFile:
    def test_it_is_looked_for_in_the_configuration_home(self) -> None:
        found = places.config_file({"XDG_CONFIG_HOME": "/conf"}, HOME)
        assert found == Path("/conf/scheduler-daemon/config.toml")

    @pytest.mark.parametrize("environ", [{}, {"XDG_CONFIG_HOME": "conf"}, {"XDG_CONFIG_HOME": ""}])
    def test_a_missing_or_relative_configuration_home_means_the_default(
        self, environ: dict[str, str]
    ) -> None:
        found = places.config_file(environ, HOME)
        assert found == HOME / ".config/scheduler-daemon/config.toml"

    def test_without_a_home_there_is_none(self) -> None:
        assert places.config_file({}, None) is None


class TestStateDirectory:
    @pytest.mark.parametrize(
        ("environ", "path", "source"),
        [
            ({"STATE_DIRECTORY": "/var/lib/x"}, "/var/lib/x", "$STATE_DIRECTORY"),
            ({"STATE_DIRECTORY": "/a:/b", "XDG_STATE_HOME": "/s"}, "/a", "$STATE_DIRECTORY"),
            ({"XDG_STATE_HOME": "/s"}, "/s/scheduler-daemon", "$XDG_STATE_HOME"),
            ({"STATE_DIRECTORY": "a", "XDG_STATE_HOME": "/s"}, "/s/scheduler-daemon", None),
            ({"XDG_STATE_HOME": "s"}, "/home/alice/.local/state/scheduler-daemon", None),
            ({}, "/home/alice/.local/state/scheduler-daemon", "the home directory"),
        ],
    )
    def test_systemds_folder_comes_before_xdgs_and_that_before_the_home(
        self, environ: dict[str, str], path: str, source: str | None
    ) -> None:
        place = places.state_directory(environ, HOME)
        assert place is not None
        assert place.path == Path(path)
        assert source in (place.source, None)

    def test_without_a_variable_and_a_home_there_is_none(self) -> None:
        assert places.state_directory({}, None) is None


class TestSocket:
    ENVIRON: ClassVar = {"RUNTIME_DIRECTORY": "/run/d:/run/e", "XDG_RUNTIME_DIR": "/run/user/7"}
    ORDER = (
        "/run/d/scheduler.sock",
        "/run/user/7/scheduler-daemon/scheduler.sock",
        "/run/user/1000/scheduler-daemon/scheduler.sock",
        "/home/alice/.local/state/scheduler-daemon/scheduler.sock",
    )

    @pytest.mark.parametrize("unusable", [0, 1, 2, 3])
    def test_the_first_usable_folder_in_the_protocols_order_is_taken(self, unusable: int) -> None:
        answers = iter([False] * unusable + [True])
        place = places.socket(self.ENVIRON, 1000, HOME, lambda _folder: next(answers))
        assert place.path == Path(self.ORDER[unusable])

    def test_when_none_is_usable_it_is_the_last(self) -> None:
        place = places.socket({}, 1000, HOME, lambda _folder: False)
        assert place == (Path(self.ORDER[3]), "the home directory")
        place = places.socket({}, 1000, None, lambda _folder: False)
        assert place == (Path(self.ORDER[2]), "the user's runtime directory")

    def test_the_last_that_is_short_enough_is_taken_when_none_is_usable(self) -> None:
        place = places.socket({}, 1000, Path("/" + "x" * 100), lambda _folder: False)
        assert place.path == Path(self.ORDER[2])

    def test_relative_variables_are_ignored(self) -> None:
        environ = {"RUNTIME_DIRECTORY": "run", "XDG_RUNTIME_DIR": "run"}
        place = places.socket(environ, 1000, HOME, lambda _folder: True)
        assert place.path == Path(self.ORDER[2])

    def test_a_path_that_is_too_long_for_a_socket_is_passed_over(self) -> None:
        environ = {"XDG_RUNTIME_DIR": "/" + "x" * 100}
        place = places.socket(environ, 1000, HOME, lambda _folder: True)
        assert place.path == Path(self.ORDER[2])


class TestUsable:
    def test_a_folder_that_is_there_is_usable(self, tmp_path: Path) -> None:
        assert places.usable(SocketFolder(tmp_path, tmp_path, ""))

    def test_a_folder_that_can_be_made_below_its_base_is_usable(self, tmp_path: Path) -> None:
        deep = tmp_path / ".local/state/scheduler-daemon"
        assert places.usable(SocketFolder(deep, tmp_path, ""))
        assert list(tmp_path.iterdir()) == []

    def test_a_base_that_is_missing_is_never_made(self, tmp_path: Path) -> None:
        """A folder /run/user/1000 that we made would hide the one that logind makes later."""
        base = tmp_path / "1000"
        assert not places.usable(SocketFolder(base / "scheduler-daemon", base, ""))

    def test_a_file_in_the_way_is_not_usable(self, tmp_path: Path) -> None:
        file = tmp_path / "scheduler-daemon"
        file.touch(0o777)
        assert not places.usable(SocketFolder(file, tmp_path, ""))

    def test_a_folder_that_may_not_be_written_is_not_usable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Asked through access(2), which root passes always: its answer is given here."""
        monkeypatch.setattr(os, "access", lambda _path, mode: mode == os.F_OK)
        assert not places.usable(SocketFolder(tmp_path, tmp_path, ""))
