"""`schedctl service` as far as it needs no systemd: files, refusals, what it asks of a manager.

The manager is a script that notes what it was asked (tests/systemd has a real one).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_daemon.cli import unit_files, user_manager
from scheduler_daemon.cli.exits import FailedError
from tests.cli.conftest import Ended
from tests.support.short import short_path as short_path

Schedctl = Callable[..., Ended]

_SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
  *UnitPath*) cat {folder}/paths || {{ echo "no bus" >&2; exit 1; }} ;;
  *FragmentPath*) test ! -e {folder}/fragment || cat {folder}/fragment ;;
  *ActiveState*) test -e {folder}/inactive && echo inactive || echo active ;;
  *Listen*) test ! -e {folder}/listens || cat {folder}/listens ;;
  *StatusText*) echo "how it is" ;;
  *UnitFileState*) echo enabled ;;
  *enable\\ --now*) test ! -e {folder}/broken-for-good || exit 1
    test ! -e {folder}/broken || {{ rm {folder}/broken; exit 1; }} ;;
esac
"""
_LOGINCTL = """\
#!/bin/sh
echo "loginctl $@" >> {folder}/asked
test -e {folder}/denied && {{ echo denied >&2; exit 1; }}
test -e {folder}/lingers && echo yes || echo no
"""


class Stand:
    """A home, and programs that stand for systemd's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.units = folder / "home/.config/systemd/user"
        self.paths = folder / "paths"
        self.paths.write_text(f"/etc/systemd/user {self.units}\n")
        for name, script in (("systemctl", _SYSTEMCTL), ("loginctl", _LOGINCTL)):
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(script.format(folder=folder))
            path.chmod(0o755)

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()

    def has(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text)


@pytest.fixture
def stand(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    for name in list(os.environ):
        if name.startswith(("XDG_", "SCHEDULER_DAEMON_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(short_path / "home"))
    monkeypatch.setenv("PATH", f"{short_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(user_manager, "LINGERING", short_path)
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(short_path / "d.sock"))
    return Stand(short_path)


def test_install_writes_both_units_and_starts_them(stand: Stand, schedctl: Schedctl) -> None:
    ended = schedctl("service", "install")
    assert ended.status == 0, ended.err
    assert {path.name for path in stand.units.iterdir()} == set(unit_files.DAEMON)
    service = (stand.units / "scheduler-daemon.service").read_text()
    assert f'ExecStart="{sys.executable}" -P -m scheduler_daemon run\n' in service
    socket_unit = (stand.units / "scheduler-daemon.socket").read_text()
    assert f"ListenStream={stand.folder}/d.sock\n" in socket_unit
    assert stand.asked()[-3:-1] == [
        "--user daemon-reload",
        "--user enable --now scheduler-daemon.socket scheduler-daemon.service",
    ]
    assert "loginctl enable-linger" in ended.out


def test_a_dry_run_shows_both_and_writes_nothing(stand: Stand, schedctl: Schedctl) -> None:
    ended = schedctl("service", "install", "--dry-run")
    assert ended.status == 0
    shown = json.loads(schedctl("service", "install", "--dry-run", "--json").out)
    assert list(shown) == [str(stand.units / name) for name in unit_files.DAEMON]
    for path, text in shown.items():
        assert f"# {path}\n{text}" in ended.out
    assert not stand.units.exists()
    assert not (stand.folder / "asked").exists()


def test_uninstall_stops_both_and_removes_them(stand: Stand, schedctl: Schedctl) -> None:
    schedctl("service", "install")
    ended = schedctl("service", "uninstall")
    assert ended.status == 0
    assert list(stand.units.iterdir()) == []
    assert f"The reminders stay in {stand.folder}/home/.local/state" in ended.out
    names = "scheduler-daemon.socket scheduler-daemon.service"
    assert f"--user disable --now {names}" in stand.asked()
    again = schedctl("service", "uninstall")
    assert (again.status, again.err.count("there is no unit in")) == (1, 1)


def test_status_shows_files_state_and_what_happens_at_logout(
    stand: Stand, schedctl: Schedctl
) -> None:
    schedctl("service", "install")
    (stand.units / "scheduler-daemon.socket").unlink()
    (stand.units / "scheduler-daemon.service").write_text("[Service]\n")
    stand.has("lingers")
    ended = schedctl("service", "status")
    assert ended.status == 0
    assert "scheduler-daemon.socket: not there\n" in ended.out
    assert "scheduler-daemon.service: not written by schedctl\n" in ended.out
    assert "service active (how it is), socket active; starts at each login" in ended.out
    assert "goes on after logout" in ended.out
    facts = json.loads(schedctl("service", "status", "--json").out)
    assert facts["files"][str(stand.units / "scheduler-daemon.socket")] == "missing"


def test_json_names_what_was_written_and_removed(stand: Stand, schedctl: Schedctl) -> None:
    paths = [str(stand.units / name) for name in unit_files.DAEMON]
    assert json.loads(schedctl("service", "install", "--json").out) == {"installed": paths}
    assert json.loads(schedctl("service", "uninstall", "--json").out) == {"removed": paths}


@pytest.mark.parametrize("act", ["install", "uninstall"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[Service]\n", "was not written by schedctl"),
        ("\xff", "was not written by schedctl"),
        (unit_files.marked("[Service]\n") + "# mine\n", "was changed since schedctl wrote it"),
    ],
)
def test_a_file_that_is_not_its_own_is_left_as_it_is(
    stand: Stand, schedctl: Schedctl, act: str, text: str, why: str
) -> None:
    path = stand.units / "scheduler-daemon.service"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    ended = schedctl("service", act)
    assert ended.status == 1
    assert f"{path} {why}" in ended.err
    assert path.read_bytes() == text.encode("latin-1")
    assert not (stand.folder / "asked").exists()


def test_a_link_is_not_its_own_wherever_it_leads(stand: Stand, schedctl: Schedctl) -> None:
    schedctl("service", "install")
    path = stand.units / "scheduler-daemon.service"
    path.rename(stand.folder / "elsewhere")
    path.symlink_to(stand.folder / "elsewhere")
    assert "was not written by schedctl" in schedctl("service", "uninstall").err
    assert path.is_symlink()


def test_where_no_manager_answers_nothing_is_written(stand: Stand, schedctl: Schedctl) -> None:
    stand.paths.unlink()
    for act in ("install", "status"):
        ended = schedctl("service", act)
        assert ended.status == 1
        assert "no service manager of this user answers" in ended.err
        assert "no bus" in ended.err
    assert not stand.units.exists()


def test_where_systemd_is_not_installed_it_says_so(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(stand.folder / "home"))
    assert "systemctl is not installed" in schedctl("service", "install").err


def test_a_manager_that_looks_elsewhere_is_told_of(stand: Stand, schedctl: Schedctl) -> None:
    stand.paths.write_text("/home/else/.config/systemd/user\n")
    assert "XDG_CONFIG_HOME has another value here" in schedctl("service", "install").err


def test_a_unit_of_a_package_is_named(stand: Stand, schedctl: Schedctl) -> None:
    stand.has("fragment", "/usr/lib/systemd/user/scheduler-daemon.service")
    err = schedctl("service", "install").err
    assert "has the unit already, /usr/lib/systemd/user/scheduler-daemon.service" in err
    assert not stand.units.exists()


def test_a_daemon_that_does_not_start_leaves_no_units_and_its_reason(
    stand: Stand, schedctl: Schedctl
) -> None:
    stand.has("broken")
    ended = schedctl("service", "install")
    assert ended.status == 1
    assert "does not start, and the units were taken away again: how it is" in ended.err
    assert list(stand.units.iterdir()) == []


def test_what_was_installed_before_is_put_back_when_the_new_one_does_not_start(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedctl("service", "install")
    before = unit_files.written(stand.units, unit_files.ALL)
    stand.has("broken")
    monkeypatch.setenv("SCHEDULER_DAEMON_MAX_PROMPT_CHARS", "7")
    ended = schedctl("service", "install")
    assert ended.status == 1
    assert ended.err == (
        "schedctl: the daemon does not start, and the units of before were put back and run: "
        "how it is\n"
    )
    assert unit_files.written(stand.units, unit_files.ALL) == before
    assert stand.asked()[-1].startswith("--user enable --now")


def test_where_those_of_before_do_not_start_either_it_says_so(
    stand: Stand, schedctl: Schedctl
) -> None:
    schedctl("service", "install")
    before = unit_files.written(stand.units, unit_files.ALL)
    stand.has("broken-for-good")
    ended = schedctl("service", "install")
    assert "put back, with which it does not start either: how it is" in ended.err
    assert unit_files.written(stand.units, unit_files.ALL) == before


def test_a_daemon_of_the_units_is_no_other_that_listens(stand: Stand, schedctl: Schedctl) -> None:
    stand.has("listens", f"{stand.folder}/d.sock (Stream)\n")
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(stand.folder / "d.sock"))
        ours.listen()
        assert schedctl("service", "install").status == 0


def test_a_daemon_that_listens_already_is_left_alone(stand: Stand, schedctl: Schedctl) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(stand.folder / "d.sock"))
        other.listen()
        ended = schedctl("service", "install")
    assert "d.sock already: stop it" in ended.err
    assert not stand.units.exists()
    assert not any("disable" in asked for asked in stand.asked())


def test_an_interpreter_that_finds_the_daemon_only_here_is_refused(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "install it first" in schedctl("service", "install").err


def test_settings_that_cannot_be_used_are_told_before_anything_is_done(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDULER_DAEMON_MAX_PROMPT_CHARS", "many")
    assert schedctl("service", "install").status == 6
    assert not stand.units.exists()


def test_a_folder_that_cannot_be_written_is_named(stand: Stand, schedctl: Schedctl) -> None:
    stand.units.parent.mkdir(parents=True)
    stand.units.write_text("")
    ended = schedctl("service", "install")
    assert (ended.status, ended.err) == (1, f"schedctl: {stand.units}: File exists\n")


@pytest.mark.parametrize("words", [[], ["start"], ["uninstall", "--dry-run"]])
def test_a_misuse_says_what_it_takes(schedctl: Schedctl, words: list[str]) -> None:
    ended = schedctl("service", *words)
    assert ended.status == 2
    assert "install" in ended.err


@pytest.mark.parametrize("answer", ["y", "n"])
def test_whoever_sits_there_is_asked_whether_it_is_to_go_on_after_logout(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    asked: list[str] = []

    def agree(what: str, *, yes: bool) -> None:
        asked.append(what)
        if answer == "n":
            raise FailedError("nothing was changed")

    monkeypatch.setattr("scheduler_daemon.cli.asking.can_ask", lambda: True)
    monkeypatch.setattr("scheduler_daemon.cli.asking.agree", agree)
    ended = schedctl("service", "install")
    assert ended.status == 0
    assert len(asked) == 1
    assert any("enable-linger" in line for line in stand.asked()) == (answer == "y")
    stand.has("denied")
    ended = schedctl("service", "install")
    assert ended.status == (1 if answer == "y" else 0)


def test_a_user_who_lingers_is_asked_nothing(stand: Stand, schedctl: Schedctl) -> None:
    stand.has("lingers")
    ended = schedctl("service", "install")
    assert ended.out.endswith("The daemon runs, and starts at each login.\n")


def test_a_user_without_a_home_is_told_of_the_other_unit(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.places.home_directory", lambda *_: None)
    ended = schedctl("service", "install")
    assert "no home directory; the unit for the machine needs none" in ended.err


def test_words_of_a_unit_file_are_quoted_and_what_cannot_be_is_refused() -> None:
    assert unit_files.quoted('a "b" \\ 50%') == '"a \\"b\\" \\\\ 50%%"'
    with pytest.raises(FailedError, match="cannot stand in a unit file"):
        unit_files.quoted("a\nb")


def test_variables_that_say_where_things_are_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {
        "HOME": "/home/ana",
        "XDG_STATE_HOME": "/srv",
        "XDG_CONFIG_HOME": "",
        "SCHEDULER_DAEMON_SOCKET": "/s",
        "SCHEDULER_DAEMON_CONFIG": "c.toml",
    }
    assert unit_files.carried(environ) == {
        "SCHEDULER_DAEMON_CONFIG": f"{tmp_path}/c.toml",
        "XDG_STATE_HOME": "/srv",
    }
    text = unit_files.texts(environ, None)["scheduler-daemon.service"]
    assert 'Environment="XDG_STATE_HOME=/srv"\nExecStart=' in text


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert user_manager.user() == "54321"


def test_the_units_that_are_shipped_have_the_lines_that_are_replaced() -> None:
    lines = [
        line
        for name in unit_files.DAEMON
        for line in (unit_files.templates() / name).read_text().splitlines()
    ]
    assert lines.count("ExecStart=scheduler-daemon run") == 1
    assert lines.count("ListenStream=%t/scheduler-daemon/scheduler.sock") == 1


@pytest.mark.parametrize("odd", ["it's", 'a "b"', "a\\b"])
def test_an_interpreter_that_systemd_would_not_start_is_refused_with_the_reason(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    monkeypatch.setattr(sys, "executable", f"/opt/{odd}/bin/python")
    ended = schedctl("service", "install", "--dry-run")
    assert ended.status == 1
    assert "systemd starts nothing with a quote or a backslash in its path" in ended.err


def test_a_home_with_a_blank_is_found_where_the_manager_quotes_it(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = stand.folder / "a $b"
    monkeypatch.setenv("HOME", str(home))
    units = str(home / ".config/systemd/user").replace("$", "\\$")
    stand.paths.write_text(f'/etc/systemd/user "{units}"\n')
    assert schedctl("service", "install").status == 0


def test_uninstalling_is_done_also_where_settings_cannot_be_used(
    stand: Stand, schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedctl("service", "install")
    monkeypatch.setenv("SCHEDULER_DAEMON_MAX_PROMPT_CHARS", "many")
    ended = schedctl("service", "uninstall")
    assert (ended.status, list(stand.units.iterdir())) == (0, [])
    assert "The reminders stay where they are." in ended.out
