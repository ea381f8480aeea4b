"""Settings: file, then environment, then flags; and each fault named where it stands."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scheduler_daemon import config
from scheduler_daemon.__main__ import toml_value
from scheduler_daemon.config import ConfigError, Settings, load, load_settings
from scheduler_daemon.settings import SCHEMA, explained, group_number, user_number

EXAMPLE = Path(__file__).parent.parent / "config.example.toml"
SEMANTICS = {
    "max_prompt_chars": 32_768,
    "max_active_per_session": 1_000,
    "max_active_per_owner": 100_000,
    "max_connections_per_uid": 256,
    "max_pending_requests": 64,
    "max_frame_bytes": 1_048_576,
    "max_write_buffer_bytes": 8_388_608,
    "write_timeout_seconds": 30,
    "followup_timeout_seconds": 30,
    "write_wait_seconds": 10,
    "unclaimed_warn_seconds": 3_600,
    "history_days": 30,
    "history_per_reminder": 200,
    "ended_days": 30,
    "stop_timeout_seconds": 10,
    "allowed_uids": (),
    "allowed_gids": (),
    "log_level": "info",
    "log_format": "auto",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def refusal(*arguments: Any, **named: Any) -> str:
    """The message, which is one plain line."""
    with pytest.raises(ConfigError) as caught:
        load_settings(*arguments, **named)
    message = str(caught.value)
    assert message.isprintable()
    return message


class TestDefaults:
    def test_an_ordinary_user_needs_no_configuration(
        self, environ: dict[str, str], home: Path
    ) -> None:
        effective = load(environ=environ)
        found = dict(effective.settings)
        assert found.pop("state_directory") == home / ".local/state/scheduler-daemon"
        assert found.pop("socket").name == "scheduler.sock"
        assert found == SEMANTICS
        assert effective.file is None
        assert effective.sources["state_directory"] == "the home directory"
        assert effective.sources["max_prompt_chars"] == "default"

    def test_the_process_environment_is_the_default_one(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SCHEDULER_DAEMON_STATE_DIRECTORY", str(tmp_path))
        assert load_settings().state_directory == tmp_path

    def test_without_any_home_the_state_directory_must_be_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)
        message = refusal(environ={})
        assert "state_directory" in message
        assert "SCHEDULER_DAEMON_STATE_DIRECTORY" in message
        assert load_settings(environ={"STATE_DIRECTORY": "/s"}).state_directory == Path("/s")

    def test_settings_cannot_be_changed(self, environ: dict[str, str]) -> None:
        made = load_settings(environ=environ)
        with pytest.raises(ValidationError):
            made.max_prompt_chars = 5


class TestOrder:
    def test_the_environment_is_over_the_file_and_flags_are_over_both(
        self, file: Path, environ: dict[str, str]
    ) -> None:
        file.write_text("max_prompt_chars = 1\nmax_pending_requests = 2\nlog_level = 'debug'\n")
        environ |= {
            "SCHEDULER_DAEMON_MAX_PENDING_REQUESTS": "3",
            "SCHEDULER_DAEMON_LOG_LEVEL": "error",
        }
        effective = load(str(file), {"log_level": "warning"}, environ)
        made, sources = effective.settings, effective.sources
        assert (made.max_prompt_chars, made.max_pending_requests) == (1, 3)
        assert made.log_level == "warning"
        assert sources["max_prompt_chars"] == f"{file}, line 1"
        assert sources["max_pending_requests"] == "SCHEDULER_DAEMON_MAX_PENDING_REQUESTS"
        assert sources["log_level"] == "--log-level"
        assert effective.file == file

    def test_an_argument_names_the_file_before_the_variable_and_that_before_the_users_own(
        self, tmp_path: Path, environ: dict[str, str], home: Path
    ) -> None:
        own = home / ".config/scheduler-daemon/config.toml"
        own.parent.mkdir(parents=True)
        own.write_text("max_prompt_chars = 1")
        named, argument = tmp_path / "named.toml", tmp_path / "argument.toml"
        named.write_text("max_prompt_chars = 2")
        argument.write_text("max_prompt_chars = 3")
        assert load_settings(environ=environ).max_prompt_chars == 1
        environ["SCHEDULER_DAEMON_CONFIG"] = str(named)
        assert load_settings(environ=environ).max_prompt_chars == 2
        assert load_settings(str(argument), environ=environ).max_prompt_chars == 3
        environ["SCHEDULER_DAEMON_CONFIG"] = ""
        assert load_settings(environ=environ).max_prompt_chars == 1

    def test_an_empty_variable_counts_as_unset(self, environ: dict[str, str]) -> None:
        environ["SCHEDULER_DAEMON_MAX_PROMPT_CHARS"] = ""
        assert load_settings(environ=environ).max_prompt_chars == 32_768

    def test_the_socket_variable_of_clients_is_the_setting(self, environ: dict[str, str]) -> None:
        environ["SCHEDULER_DAEMON_SOCKET"] = "/run/s.sock"
        assert load_settings(environ=environ).socket == Path("/run/s.sock")


class TestTexts:
    """Variables and flags are texts; both are read alike."""

    @pytest.mark.parametrize(
        ("key", "text", "value"),
        [
            ("max_prompt_chars", "100", 100),
            ("write_wait_seconds", "2", 2.0),
            ("write_wait_seconds", "0.25", 0.25),
            ("allowed_uids", "[1000, 0]", (1000, 0)),
            ("allowed_uids", '["root"]', ("root",)),
            ("allowed_gids", "[]", ()),
            ("log_format", "json", "json"),
            ("state_directory", "/x", Path("/x")),
        ],
    )
    def test_a_good_text_is_read(
        self, environ: dict[str, str], key: str, text: str, value: object
    ) -> None:
        assert dict(load_settings(None, {key: text}, environ))[key] == value
        environ[config.variable(key)] = text
        assert dict(load_settings(environ=environ))[key] == value

    @pytest.mark.parametrize(
        ("key", "text", "must"),
        [
            ("max_prompt_chars", "many", "an integer from 1 to 32768"),
            ("max_prompt_chars", "0", "an integer from 1 to 32768"),
            ("max_prompt_chars", "32769", "an integer from 1 to 32768"),
            ("max_prompt_chars", "-5", "an integer from 1 to 32768"),
            ("max_prompt_chars", "5.0", "an integer"),
            ("max_prompt_chars", "1_0", "an integer"),
            ("max_prompt_chars", "+5", "an integer"),
            ("max_prompt_chars", " 5", "an integer"),
            ("max_prompt_chars", "٣", "an integer"),
            ("max_prompt_chars", "9" * 5000, "an integer"),
            ("write_wait_seconds", "inf", "a number from 0.001 to 86400"),
            ("write_wait_seconds", "nan", "a number"),
            ("write_wait_seconds", "1e3", "a number"),
            ("write_wait_seconds", "0", "a number"),
            ("write_wait_seconds", "10s", "a number"),
            ("allowed_uids", "1000", "a list of numbers and names"),
            ("allowed_uids", "root", "a list"),
            ("allowed_uids", "[true]", "a list"),
            ("allowed_uids", "[1.0]", "a list"),
            ("allowed_uids", "[[0]]", "a list"),
            ("allowed_uids", '{"a": 1}', "a list"),
            ("allowed_uids", "[" * 100_000, "a list"),
            ("allowed_uids", "[-1]", "from 0 to 4294967294"),
            ("allowed_uids", "[4294967295]", "from 0 to 4294967294"),
            ("allowed_uids", '["no such user"]', "name a user of this machine"),
            ("allowed_gids", '["no such group"]', "name a group of this machine"),
            ("allowed_gids", '["a\\u0000b"]', "name a group"),
            ("log_level", "INFO", "one of debug, info, warning, error"),
            ("log_format", "xml\n\x1b[31m", "one of auto, json, text"),
            ("socket", "/" + "x" * 107, "at most 107 bytes"),
        ],
    )
    def test_a_bad_text_is_refused_with_its_source_its_key_and_what_is_accepted(
        self, environ: dict[str, str], key: str, text: str, must: str
    ) -> None:
        by_flag = refusal(None, {key: text}, environ)
        assert by_flag.startswith(f"--{key.replace('_', '-')}: {key} must ")
        assert must in by_flag
        environ[config.variable(key)] = text
        by_variable = refusal(environ=environ)
        assert by_variable.startswith(f"SCHEDULER_DAEMON_{key.upper()}: {key} must ")
        assert must in by_variable
        assert len(by_variable) < 300

    def test_an_unknown_variable_is_refused_with_the_one_that_was_meant(
        self, environ: dict[str, str]
    ) -> None:
        environ["SCHEDULER_DAEMON_MAX_PROMT_CHARS"] = "5"
        message = refusal(environ=environ)
        assert message == (
            "SCHEDULER_DAEMON_MAX_PROMT_CHARS: unknown variable;"
            " did you mean SCHEDULER_DAEMON_MAX_PROMPT_CHARS?"
        )

    @pytest.mark.parametrize("point", ["before_ready", ""])
    def test_the_variable_that_lets_the_test_build_crash_is_refused_in_one_sentence(
        self, environ: dict[str, str], point: str
    ) -> None:
        environ["SCHEDULER_DAEMON_CRASH_AT"] = point
        assert refusal(environ=environ) == (
            "SCHEDULER_DAEMON_CRASH_AT is for the test build of the daemon; unset it"
        )

    def test_variables_of_others_do_not_matter(self, environ: dict[str, str]) -> None:
        environ |= {"SCHEDULER_X": "1", "scheduler_daemon_socket": "x", "SOCKET": "x"}
        load_settings(environ=environ)

    def test_an_empty_flag_is_not_taken_for_none(self, environ: dict[str, str]) -> None:
        for key in SCHEMA:
            assert refusal(None, {key: ""}, environ).startswith(config.flag(key))


class TestPaths:
    def test_a_home_sign_is_expanded_from_every_source(
        self, file: Path, environ: dict[str, str], home: Path
    ) -> None:
        file.write_text('state_directory = "~/a"')
        environ["SCHEDULER_DAEMON_SOCKET"] = "~/b"
        made = load_settings(str(file), environ=environ)
        assert (made.state_directory, made.socket) == (home / "a", home / "b")
        assert load_settings(None, {"socket": "~/c"}, environ).socket == home / "c"

    def test_a_relative_flag_means_the_working_directory(
        self, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert load_settings(None, {"socket": "s.sock"}, environ).socket == tmp_path / "s.sock"

    def test_a_relative_flag_in_a_deleted_working_directory_is_refused(
        self, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert "an absolute path" in refusal(None, {"socket": "s.sock"}, environ)

    @pytest.mark.parametrize("text", ["relative", "./x", "~other/x", "", "/nul\\u0000"])
    def test_a_path_in_a_file_is_absolute(
        self, file: Path, environ: dict[str, str], text: str
    ) -> None:
        file.write_text(f'socket = "{text}"')
        assert "an absolute path or one that starts with ~/" in refusal(str(file), environ=environ)

    def test_a_relative_path_in_the_environment_is_refused(self, environ: dict[str, str]) -> None:
        """The daemon and its clients have different working directories."""
        environ["SCHEDULER_DAEMON_SOCKET"] = "s.sock"
        assert "an absolute path" in refusal(environ=environ)

    def test_a_home_sign_without_a_home_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)
        environ = {"STATE_DIRECTORY": "/s", "SCHEDULER_DAEMON_SOCKET": "~/s.sock"}
        assert "an absolute path" in refusal(environ=environ)

    def test_a_path_of_any_bytes_is_kept(self, environ: dict[str, str]) -> None:
        environ["SCHEDULER_DAEMON_SOCKET"] = os.fsdecode(b"/run/\xff")
        assert os.fsencode(load_settings(environ=environ).socket) == b"/run/\xff"

    def test_a_path_in_a_file_is_utf8_whatever_the_locale(
        self, file: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_text('state_directory = "/é"', encoding="utf-8")
        monkeypatch.setattr(os, "fsdecode", lambda data: data.decode("latin-1"))
        made = load_settings(str(file), environ=environ)
        assert str(made.state_directory).encode("latin-1") == "/é".encode()


class TestFile:
    def check(self, file: Path, text: str | bytes, environ: dict[str, str]) -> str:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        message = refusal(str(file), environ=environ)
        assert message.startswith(str(file))
        return message.removeprefix(str(file))

    def test_every_setting_can_stand_in_a_file(self, file: Path, environ: dict[str, str]) -> None:
        values = SEMANTICS | {"state_directory": "/s", "socket": "/t", "allowed_uids": (0, "root")}
        file.write_text("".join(f"{key} = {toml_value(value)}\n" for key, value in values.items()))
        made = dict(load_settings(str(file), environ=environ))
        assert made == values | {"state_directory": Path("/s"), "socket": Path("/t")}

    @pytest.mark.parametrize(
        ("value", "must", "shown"),
        [
            ("true", "an integer from 1 to 32768", "true"),
            ("1.0", "an integer", "1.0"),
            ('"1"', "an integer", '"1"'),
            ("0", "an integer", "0"),
            ("inf", "an integer", "Infinity"),
            ("1979-05-27", "an integer", '"1979-05-27"'),
            ("[1]", "an integer", "[1]"),
            ("{a = 1}", "an integer", "a table"),
            ('"' + "x" * 500 + '"', "an integer", '"xxx'),
            ("0x" + "f" * 5000, "an integer", "such a value"),
            ("[" * 90 + "]" * 90, "an integer", "[[["),
        ],
    )
    def test_a_wrong_type_or_size_is_refused_with_its_line(
        self, file: Path, environ: dict[str, str], value: str, must: str, shown: str
    ) -> None:
        message = self.check(file, f"# first\n\nmax_prompt_chars = {value}\n", environ)
        assert message.startswith(f", line 3: max_prompt_chars must be {must}")
        assert f", not {shown}" in message
        assert len(message) < 200

    def test_booleans_are_no_seconds(self, file: Path, environ: dict[str, str]) -> None:
        message = self.check(file, "write_wait_seconds = true", environ)
        assert "line 1: write_wait_seconds must be a number" in message

    @pytest.mark.parametrize(
        ("text", "line", "key"),
        [
            ("max_prompt_chars = 5\nmax_promt_chars = 5\n", 2, "max_promt_chars"),
            ("allowed_uids = [\n  0, # }\n  1,\n]\n\ncolour = 1\n", 6, "colour"),
            ("log_level = '''\ninfo'''\r\n'odd\\key' = 1", 3, "odd\\\\key"),
            ('"a\\nb" = 1', 1, "a\\nb"),
            ("\n[table]\nmax_prompt_chars = 5\n", 2, "table"),
            ("\n\n[[tables]]\nx = 1\n", 3, "tables"),
            ("a.b.c = 1", 1, "a"),
            ("\ufeffx = 1", 1, "x"),
        ],
    )
    def test_an_unknown_key_is_refused_with_its_line(
        self, file: Path, environ: dict[str, str], text: str, line: int, key: str
    ) -> None:
        message = self.check(file, text, environ)
        assert message.startswith(f", line {line}: unknown key {key.replace(chr(92) * 2, chr(92))}")

    def test_a_misspelt_key_is_told_what_was_meant_and_an_odd_one_what_there_is(
        self, file: Path, environ: dict[str, str]
    ) -> None:
        assert "did you mean log_level?" in self.check(file, "loglevel = 1", environ)
        assert "known are state_directory, socket," in self.check(file, "colour = 1", environ)

    def test_a_table_where_a_value_is_wanted_is_refused(
        self, file: Path, environ: dict[str, str]
    ) -> None:
        message = self.check(file, "\n[socket]\npath = '/x'\n", environ)
        assert message == (
            ", line 2: socket must be an absolute path or one that starts with ~/, not a table"
        )

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("max_prompt_chars = ", "not TOML: Invalid value (at end of document)"),
            ("x = 1\ny = = 2\n", "line 2, column 5"),
            ("log_level = 'a'\nlog_level = 'b'\n", "line 2"),
            ("x = " + "9" * 5000, "not TOML"),
            ("x = " + "[" * 100_000, "not TOML"),
            ("x = '\x00'", "not TOML"),
            (b"x = 1\ny = '\xff'", ", line 2: not UTF-8"),
        ],
    )
    def test_what_cannot_be_read_is_refused_in_one_line(
        self, file: Path, environ: dict[str, str], text: str | bytes, part: str
    ) -> None:
        assert part in self.check(file, text, environ)

    def test_a_named_file_must_be_there_and_readable(
        self, file: Path, environ: dict[str, str], tmp_path: Path
    ) -> None:
        missing = f"{file}: cannot be read: No such file or directory"
        assert refusal(str(file), environ=environ) == missing
        environ["SCHEDULER_DAEMON_CONFIG"] = str(file)
        assert refusal(environ=environ) == missing
        assert "Is a directory" in refusal(str(tmp_path), environ=environ)

    def test_a_name_with_line_ends_gives_one_line(self, environ: dict[str, str]) -> None:
        assert "a\\nb" in refusal("/nowhere/a\nb", environ=environ)

    def test_a_users_own_file_that_is_there_must_be_readable(
        self, environ: dict[str, str], home: Path
    ) -> None:
        (home / ".config/scheduler-daemon/config.toml").mkdir(parents=True)
        assert "Is a directory" in refusal(environ=environ)

    def test_a_file_in_place_of_the_configuration_folder_is_no_configuration(
        self, environ: dict[str, str], home: Path
    ) -> None:
        home.mkdir()
        (home / ".config").touch()
        assert load(environ=environ).file is None

    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.one_of(
                st.integers(),
                st.text(st.characters(codec="utf-8")),
                st.lists(st.integers(), max_size=4),
            ),
            max_size=6,
        ),
        st.lists(st.integers(0, 2), min_size=20, max_size=20),
    )
    def test_the_line_of_every_key_is_found(
        self, values: dict[str, object], gaps: list[int]
    ) -> None:
        lines: list[str] = []
        expected = {}
        for (key, value), gap in zip(values.items(), gaps, strict=False):
            lines += ["# ] comment"] * gap
            expected[key] = len(lines) + 1
            written = toml_value(tuple(value) if isinstance(value, list) else value)
            if gap == 1 and isinstance(value, list):
                written = written.replace("[", "[\n").replace(", ", ",\n")
            lines += f"{toml_value(key)} = {written}".split("\n")
        text = "\r\n".join(lines) if len(lines) % 2 else "\n".join(lines)
        assert tomllib.loads(text) == values
        assert config._lines(text) == expected


class TestLimitsTogether:
    def test_the_write_buffer_holds_a_frame_at_least(
        self, file: Path, environ: dict[str, str]
    ) -> None:
        file.write_text("max_frame_bytes = 2_000_000\nmax_write_buffer_bytes = 1_500_000\n")
        assert refusal(str(file), environ=environ) == (
            f"{file}, line 2: max_write_buffer_bytes must be at least max_frame_bytes, 2000000,"
            " not 1500000"
        )

    def test_a_default_that_no_longer_fits_is_told_too(
        self, file: Path, environ: dict[str, str]
    ) -> None:
        file.write_text("max_frame_bytes = 10_000_000\n")
        message = refusal(str(file), environ=environ)
        assert message.startswith("default: max_write_buffer_bytes must be at least")

    def test_a_frame_is_never_smaller_than_the_protocols(self, environ: dict[str, str]) -> None:
        message = refusal(None, {"max_frame_bytes": "1048575"}, environ)
        assert "from 1048576 to" in message


class TestAccounts:
    def test_numbers_stay_and_names_are_looked_up(self) -> None:
        assert (user_number(1234), user_number("root")) == (1234, 0)
        assert (group_number(1234), group_number("root")) == (1234, 0)

    @pytest.mark.parametrize("entry", [-1, 2**32 - 1, "no such name", "", "1000x"])
    def test_what_there_is_not_is_a_value_error(self, entry: int | str) -> None:
        for number in (user_number, group_number):
            with pytest.raises(ValueError):
                number(entry)

    def test_settings_made_by_hand_are_checked_too(self, tmp_path: Path) -> None:
        made = Settings(state_directory=tmp_path, socket=tmp_path / "s", allowed_uids=(0,))
        assert made.allowed_uids == (0,)
        with pytest.raises(ValidationError):
            Settings(state_directory=Path("relative"), socket=tmp_path)
        with pytest.raises(ValidationError):
            Settings(state_directory=5, socket=tmp_path)  # type: ignore[arg-type] # the point


class TestExample:
    HEAD = """\
# The settings of scheduler-daemon, with their defaults. None is needed: take away the # before
# one to change it. The daemon reads ~/.config/scheduler-daemon/config.toml, or the file named by
# --config or SCHEDULER_DAEMON_CONFIG. Each setting is also an environment variable, which beats
# the file (SCHEDULER_DAEMON_LOG_LEVEL), and a flag, which beats both (--log-level).
"""

    def expected(self) -> Iterator[str]:
        yield self.HEAD
        for key, schema in SCHEMA.items():
            yield "\n" + textwrap.fill(
                explained(key), 96, initial_indent="# ", subsequent_indent="# "
            )
            field = Settings.model_fields[key]
            default = schema["examples"][0] if field.is_required() else field.get_default()
            yield f"\n#{key} = {toml_value(default)}\n"

    def test_it_shows_every_setting_with_its_meaning_unit_range_and_default(self) -> None:
        assert EXAMPLE.read_text(encoding="utf-8") == "".join(self.expected())

    def test_its_lines_without_the_sign_change_nothing(
        self, file: Path, environ: dict[str, str], home: Path
    ) -> None:
        lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
        bare = [line.removeprefix("#") if line[:2] != "# " else line for line in lines]
        file.write_text("\n".join(bare))
        made = dict(load_settings(str(file), environ=environ))
        assert made.pop("state_directory") == home / ".local/state/scheduler-daemon"
        assert made.pop("socket") == Path("/run/user/1000/scheduler-daemon/scheduler.sock")
        assert made == SEMANTICS

    def test_every_number_has_a_unit(self) -> None:
        for key, schema in SCHEMA.items():
            if schema["type"] == "number":
                assert "in seconds" in schema["description"], key
            if schema["type"] == "integer":
                words = schema["description"]
                units = ("in bytes", "in char", "in days")
                assert words.startswith("Number of ") or any(unit in words for unit in units)

    def test_accepted_values_are_json_where_they_are_lists(self) -> None:
        for key in ("allowed_uids", "allowed_gids"):
            text = explained(key).split("such as ")[1].removesuffix(".")
            assert isinstance(json.loads(text), list)
