"""The files of an agent: links, rights, other writers, and what is in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.setup import changing, replacing
from scheduler_daemon.cli.setup.showing import difference
from tests.cli.test_setup_undo import MakeStand
from tests.cli.test_setup_undo import stand as stand

IN_THE_WAY = [
    ("claude", b'{"mcpServers": {"reminders": {"command": "x"}}}', "mcpServers.reminders is there"),
    ("claude", b'{"mcpServers": []}', "mcpServers is something else than an object"),
    ("claude", b'{"hooks": {"PreToolUse": "x"}}', "hooks.PreToolUse is something else"),
    ("claude", b'{"a": 1', "line 1, column 8: a comma is missing"),
    ("claude", b"\xff{}", "byte 0 is not UTF-8"),
    ("opencode", b'{"mcp": {"reminders": {}}}', "mcp.reminders is there"),
    ("opencode", b"[]", "the whole is something else"),
    ("codex", b"[mcp_servers.reminders]\ncommand = 'x'\n", "mcp_servers.reminders is there"),
    ("codex", b"mcp_servers = 1\n", "mcp_servers.reminders is there"),
    ("codex", b"mcp_servers = { x = {} }\n", "cannot stand there"),
    ("codex", b"x = \n", "line 1, column 5"),
    ("codex", b"x = " + b"[" * 100_000, "nested too deeply|recursion|Unclosed|Invalid"),
]


@pytest.mark.parametrize(("kind", "data", "said"), IN_THE_WAY)
def test_what_is_in_the_way_is_named_and_stays(
    stand: MakeStand, kind: str, data: bytes, said: str
) -> None:
    one = stand(kind)
    one.has(data)
    before = one.held()
    with pytest.raises(FailedError, match=said) as told:
        one.set_up()
    assert "nothing was changed" in str(told.value)
    assert (one.held(), one.left()) == (before, [])


def test_without_hooks_claude_is_not_set_up(stand: MakeStand) -> None:
    """The server would take the model's word for the Session."""
    one = stand("claude")
    settings = one.edits[0][0]
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    with pytest.raises(FailedError, match="has disableAllHooks"):
        one.set_up()
    settings.write_text('{"disableAllHooks": false}')
    one.set_up()


def test_a_link_stays_a_link_and_the_mode_stays(stand: MakeStand, tmp_path: Path) -> None:
    one = stand("codex")
    real = tmp_path / "dotfiles/codex.toml"
    real.parent.mkdir()
    real.write_text("x = 1\n")
    real.chmod(0o640)
    one.path.parent.mkdir()
    one.path.symlink_to("../dotfiles/codex.toml")
    one.set_up()
    assert one.path.is_symlink()
    assert "mcp_servers" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    one.undo()
    assert (one.path.is_symlink(), real.read_text()) == (True, "x = 1\n")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(stand: MakeStand) -> None:
    one = stand("codex")
    one.has(b"")
    os.chown(one.path, 12345, 54321)
    one.set_up()
    assert (one.path.stat().st_uid, one.path.stat().st_gid) == (12345, 54321)


def test_a_folder_or_a_pipe_in_its_place_is_refused(stand: MakeStand) -> None:
    one = stand("codex")
    one.path.mkdir(parents=True)
    with pytest.raises(FailedError, match="is no regular file"):
        one.set_up()
    one.path.rmdir()
    os.mkfifo(one.path)
    with pytest.raises(FailedError, match="is no regular file"):
        one.set_up()


def test_a_file_in_the_place_of_its_folder_is_refused(stand: MakeStand) -> None:
    one = stand("codex")
    one.path.parent.write_text("")
    with pytest.raises(FailedError, match=r"cannot write .*config\.toml"):
        one.set_up()
    assert one.left() == []


def test_a_file_that_may_not_be_read_or_written_is_left(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stand("codex")
    one.has(b"x = 1\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _mode: path != one.path)
        with pytest.raises(FailedError, match="may not be written to"):
            one.set_up()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", _denied)
        with pytest.raises(FailedError, match=r"cannot read .*: Permission denied"):
            one.set_up()
    assert (one.held(), one.left()) == ([b"x = 1\n"], [])


def _denied(_path: Path) -> bytes:
    raise PermissionError(13, "Permission denied")


def test_what_another_program_writes_in_the_meantime_is_kept(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stand("claude")
    one.has(b'{"starts": 1}')
    real, starts = replacing.replace, iter(range(2, 4))

    def busy(path: Path, before: bytes | None, after: bytes | None) -> bool:
        if path == one.path and (number := next(starts, None)):
            path.write_text(f'{{"starts": {number}}}')
        return real(path, before, after)

    monkeypatch.setattr(replacing, "replace", busy)
    one.set_up()
    assert one.path.read_text().startswith('{"starts": 3, "mcpServers": ')
    one.undo()
    assert one.path.read_text() == '{"starts": 3}'


def test_one_that_is_written_all_the_time_is_left_and_the_others_are_put_back(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stand("claude")
    one.has(b"{}")
    real = replacing.replace

    def busy(path: Path, before: bytes | None, after: bytes | None) -> bool:
        return path != one.path and real(path, before, after)

    monkeypatch.setattr(replacing, "replace", busy)
    with pytest.raises(FailedError, match="is changed by something else all the time"):
        one.set_up()
    assert (one.held(), one.left()) == ([b"{}", b"{}"], [])


def test_an_undo_against_a_busy_writer_gives_up(
    stand: MakeStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stand("codex")
    one.set_up()
    monkeypatch.setattr(replacing, "replace", lambda *_: False)
    with pytest.raises(FailedError, match="is changed by something else all the time"):
        one.undo()
    assert len(one.left()) == 1


def test_a_file_that_changed_before_it_was_to_be_removed_stays(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("new")
    assert not replacing.replace(path, b"old", None)
    assert path.read_text() == "new"


def test_somebody_may_do_the_same_in_the_meantime(stand: MakeStand) -> None:
    one = stand("codex")
    changes = one.plan()
    one.set_up()
    text = one.path.read_bytes()
    one.undo()
    one.has(text)
    changing.carry_out("codex", changes, one.records)
    assert (one.path.read_bytes(), one.left()) == (text, [])


def test_without_room_for_its_records_it_does_nothing(stand: MakeStand, tmp_path: Path) -> None:
    one = stand("codex")
    (tmp_path / "state").write_text("")
    with pytest.raises(FailedError, match="cannot make"):
        one.set_up()
    assert one.held() == [None]


def test_a_folder_that_somebody_uses_by_now_stays(stand: MakeStand) -> None:
    one = stand("codex")
    one.set_up()
    (one.path.parent / "auth.json").touch()
    one.undo()
    assert [path.name for path in one.path.parent.iterdir()] == ["auth.json"]


def test_what_is_private_is_private_in_the_backup(stand: MakeStand) -> None:
    one = stand("claude")
    one.has(b'{"key": "secret"}')
    one.set_up()
    for path in one.left():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((one.home / "state/setup").stat().st_mode) == 0o700


def test_of_a_huge_file_only_what_changes_is_shown(stand: MakeStand) -> None:
    one = stand("claude")
    one.has(b'{"a": "' + b"x" * 2_000_000 + b'", "list": [' + b"1, " * 99_999 + b'1], "end": 0}')
    for change in one.plan():
        lines = list(difference(change))
        assert sum(map(len, lines)) < 5_000
        assert any("reminders" in line for line in lines)


def test_control_characters_of_a_file_steer_no_terminal(stand: MakeStand) -> None:
    one = stand("codex")
    one.has("# \u202e\u2066 \u0085\n".encode())
    shown = "\n".join(difference(one.plan()[0]))
    assert "\\u202e\\u2066" in shown
    assert all(line.isprintable() for line in shown.split("\n"))
