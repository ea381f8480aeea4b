"""Whatever the files of an agent look like: nothing of them is lost, and undo brings all back."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.setup import changing, replacing
from scheduler_daemon.cli.setup.agents import AGENTS, Edits, Places, Server
from scheduler_daemon.cli.setup.changing import carry_out, planned, undo, undoing
from scheduler_daemon.cli.setup.records import Record, Records, digest
from tests.cli.test_setup_json import documents

SERVER = Server(["/opt/o'b in/schedctl"], "/run/d.sock", "/a key", {"PYTHONPATH": "/x y"})

JSON = [
    b"",
    b"{}",
    b'{"theme":"dark"}',
    b'\xef\xbb\xbf{\r\n\t"theme": "dark",\r\n\t// comment\r\n}',
    b'{\n    "mcp": {"x": {}}, /* one */\n    "mcpServers": {}\n}  // end',
    b'{\n  "hooks": {"PreToolUse": [\n    {"matcher": "Bash", "hooks": []} // mine\n  ]}\n}\n\n',
    ("{\n" + "".join(f'  "k{n}": "{"v" * 90}",\n' for n in range(3_000)) + "}\n").encode(),
    json.dumps({f"k{n}": {"v": [n]} for n in range(3_000)}).encode(),
]
TOML = [
    b"",
    b"# only a comment",
    b'model = "x" # why\r\n[a.b]\r\nc = 1\r\n',
    b"\xef\xbb\xbfx = nan\n\n\n",
    b'[mcp_servers.mine]\ncommand = "x"\n[[a]]\nb = 1.50\n[[a]]\n',
    b'mcp_servers.mine.command = "x"',
    b'text = """\n[mcp_servers.reminders]\n"""\nwhen = 1979-05-27T07:32:00Z\n',
]


class Stand:
    """A home, and the setup of one agent in it."""

    def __init__(self, home: Path, kind: str) -> None:
        self.home = home
        self.kind = kind
        self.records = Records(home / "state/setup")

    @property
    def edits(self) -> Edits:
        return AGENTS[self.kind](SERVER, Places({}, self.home))

    @property
    def path(self) -> Path:
        """The file with the entry."""
        return self.edits[-1][0]

    def plan(self) -> list[changing.Change]:
        return planned(self.kind, self.edits, self.records)

    def set_up(self) -> None:
        carry_out(self.kind, self.plan(), self.records)

    def undo(self) -> None:
        undo(self.kind, self.records)

    def has(self, data: bytes) -> None:
        for path, _ in self.edits:
            if path.suffix != ".js":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def held(self) -> list[bytes | None]:
        return [replacing.read(path) for path, _ in self.edits]

    def left(self) -> list[Path]:
        """What is kept for an undo."""
        return list((self.home / "state").rglob("*.*"))


MakeStand = Callable[[str], Stand]


@pytest.fixture
def stand(tmp_path: Path) -> MakeStand:
    return lambda kind: Stand(tmp_path, kind)


CASES = [(kind, data) for kind in AGENTS for data in (TOML if kind == "codex" else JSON)]


@pytest.mark.parametrize(("kind", "data"), CASES)
def test_undo_brings_back_every_byte(stand: MakeStand, kind: str, data: bytes) -> None:
    one = stand(kind)
    one.has(data)
    before = one.held()
    one.set_up()
    assert one.plan() == []
    assert one.held() != before
    if kind == "codex":
        assert one.path.read_bytes().startswith(data)
        tomllib.loads(one.path.read_text().removeprefix("\ufeff"))
    one.undo()
    assert one.held() == before
    assert one.left() == []


@contextmanager
def a_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@given(documents(), st.sampled_from(["claude", "opencode"]))
@settings(max_examples=40, deadline=None)
def test_undo_brings_back_every_byte_of_any_json(text: str, kind: str) -> None:
    with a_home() as home:
        one = Stand(home, kind)
        one.has(text.encode())
        before = one.held()
        try:
            one.set_up()
        except FailedError:  # something is in the way, and then nothing has changed
            assert one.held() == before
            return
        one.undo()
        assert one.held() == before


@pytest.mark.parametrize("kind", AGENTS)
def test_what_somebody_wrote_since_stays(stand: MakeStand, kind: str) -> None:
    one = stand(kind)
    more = b"\n[more]\nx = 1 # c\n" if kind == "codex" else b" // more\n"
    one.set_up()
    for path, _ in one.edits:
        if path.suffix != ".js":
            path.write_bytes(path.read_bytes() + more)
    one.undo()
    text = one.path.read_bytes()
    assert text.endswith(more)
    assert b"reminders" not in text
    assert one.left() == []


@pytest.mark.parametrize("kind", AGENTS)
def test_what_was_taken_out_by_hand_is_done(stand: MakeStand, kind: str) -> None:
    one = stand(kind)
    one.has(b"")
    one.set_up()
    one.has(b"x = 1\n" if kind == "codex" else b'{"x": 1}')
    one.undo()
    assert one.path.read_bytes() in (b"x = 1\n", b'{"x": 1}')
    one.set_up()
    for path, _ in one.edits:
        path.unlink()
    one.undo()
    assert one.held() == [None] * len(one.edits)
    assert one.left() == []


@pytest.mark.parametrize("kind", AGENTS)
def test_an_entry_that_was_changed_since_is_left_and_the_backup_is_named(
    stand: MakeStand, kind: str
) -> None:
    one = stand(kind)
    one.has(b"" if kind == "codex" else b"{}")
    one.set_up()
    changed = one.path.read_bytes().replace(b"/run/d.sock", b"/run/e.sock")
    one.path.write_bytes(changed)
    backup = one.records.backup(one.records.all_of(kind)[0])
    with pytest.raises(FailedError) as told:
        one.undo()
    assert "says something else" in str(told.value)
    assert str(backup) in str(told.value)
    assert one.path.read_bytes() == changed
    assert backup.read_bytes() in (b"", b"{}")
    with pytest.raises(FailedError, match=r"says something else"):
        one.set_up()


def test_a_plugin_that_was_changed_since_is_left(stand: MakeStand) -> None:
    one = stand("opencode")
    one.set_up()
    plugin = one.edits[0][0]
    plugin.write_text("// mine now\n")
    with pytest.raises(FailedError, match="did not exist"):
        undoing(one.records.all_of("opencode")[1], one.records)
    one.path.write_text("{}")
    with pytest.raises(FailedError, match="is there already, and says something else"):
        one.set_up()


def test_after_a_change_of_hand_a_second_setup_wants_an_undo_first(stand: MakeStand) -> None:
    one = stand("claude")
    one.set_up()
    one.path.write_text("{}")
    with pytest.raises(FailedError, match="run it with --undo first"):
        one.plan()
    one.undo()
    one.set_up()


def test_a_kill_before_the_file_was_written_leaves_nothing_unknown(stand: MakeStand) -> None:
    """Then the record is there, which is written first, and the file is as it was."""
    one = stand("codex")
    one.has(b"x = 1\n")
    (change,) = one.plan()
    assert change.after is not None
    after = digest(change.after)
    one.records.add(Record(one.path, "codex", 0, change.edit, change.before, after))
    with pytest.raises(FailedError, match="run it with --undo first"):
        one.plan()
    one.undo()
    assert (one.held(), one.left()) == ([b"x = 1\n"], [])


def test_a_record_that_cannot_be_read_is_named(stand: MakeStand) -> None:
    one = stand("codex")
    one.set_up()
    (record,) = one.left()
    record.write_text("{")
    with pytest.raises(FailedError, match=f"{record} cannot be read"):
        one.undo()
