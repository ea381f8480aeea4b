"""The command scheduler-daemon: what it prints where, and its exit status."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import scheduler_daemon
from scheduler_daemon import __version__
from scheduler_daemon.__main__ import main, run
from scheduler_daemon.config import flag
from scheduler_daemon.settings import SCHEMA, Settings

COMMAND = [sys.executable, "-m", "scheduler_daemon"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user with a home and nothing else."""
    for name in list(os.environ):
        if name.startswith(("SCHEDULER_DAEMON_", "XDG_")) or name.endswith("_DIRECTORY"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "100")
    return home


class FakeDaemon(SimpleNamespace):
    """In place of the daemon: takes the settings and ends with `status`."""

    status = 0
    got: Settings

    def run(self, settings: Settings, load: Callable[[], Settings]) -> int:
        self.got = load()  # as at SIGHUP
        assert self.got == settings
        return self.status

    def migrate(self, settings: Settings) -> int:
        print("applied one")
        self.got = settings
        return self.status


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    fake = FakeDaemon()
    monkeypatch.setitem(sys.modules, "scheduler_daemon.daemon", fake)
    monkeypatch.setattr(scheduler_daemon, "daemon", fake, raising=False)
    return fake


def process(
    *arguments: str, environ: Mapping[str, str] | None = None, shell: str = '"$@"'
) -> subprocess.CompletedProcess[str]:
    """A real process; `shell` may redirect what stands for its command line."""
    return subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(environ or {})},
    )


class TestRunning:
    @pytest.mark.parametrize("command", ["run", "migrate"])
    @pytest.mark.parametrize("status", [0, 1])
    def test_the_daemon_gets_the_settings_and_gives_the_status(
        self, daemon: FakeDaemon, command: str, status: int
    ) -> None:
        daemon.status = status
        assert main([command, "--max-prompt-chars", "100", "--log-level=debug"]) == status
        assert (daemon.got.max_prompt_chars, daemon.got.log_level) == (100, "debug")

    def test_the_console_script_ends_with_the_status(
        self, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        daemon.status = 1
        monkeypatch.setattr(sys, "argv", ["scheduler-daemon", "run"])
        with pytest.raises(SystemExit) as stop:
            run()
        assert stop.value.code == 1

    @pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
    def test_the_package_can_be_run_as_a_module(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["scheduler-daemon", "--version"])
        with pytest.raises(SystemExit) as stop:
            runpy.run_module("scheduler_daemon", run_name="__main__")
        assert stop.value.code == 0
        assert capsys.readouterr().out == f"scheduler-daemon {__version__}\n"


class TestHelp:
    def test_the_help_names_commands_sources_and_statuses(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--help"]) == 0
        text = capsys.readouterr().out
        for part in ("run ", "migrate ", "config ", "config.toml", "6 bad configuration"):
            assert part in text
        assert text.isascii()

    @pytest.mark.parametrize("command", ["run", "migrate", "config"])
    def test_every_setting_is_a_flag_of_every_command(
        self, command: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert all(f"\n  {flag(key)} " in text for key in SCHEMA)
        assert "Default: 32768." in text
        assert "--config FILE" in text

    @pytest.mark.parametrize(
        "arguments",
        [[], ["start"], ["run", "--max-promt-chars", "5"], ["run", "--max-prompt", "5"],
         ["run", "more"], ["run", "--json"], ["config", "--log-level"], ["run", "--config", ""]],
    )  # fmt: skip
    def test_misuse_is_2_with_one_line_on_stderr(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("scheduler-daemon: ")
        assert err.count("\n") == 1
        assert "--help`" in err


class TestConfig:
    def test_it_prints_what_is_in_effect_as_toml_with_where_it_came_from(
        self,
        tmp_path: Path,
        environment: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        file = tmp_path / "c.toml"
        file.write_text("\nmax_pending_requests = 7\nallowed_uids = [0, 'root']")
        monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", "/run/s.sock")
        assert main(["config", "--config", str(file), "--write-wait-seconds", "2.5"]) == 0
        text = capsys.readouterr().out
        state = environment / ".local/state/scheduler-daemon"
        assert text.startswith(f"# scheduler-daemon {__version__}, file {file}\n")
        for line in (
            f'state_directory = "{state}"  # the home directory',
            'socket = "/run/s.sock"  # SCHEDULER_DAEMON_SOCKET',
            f"max_pending_requests = 7  # {file}, line 2",
            "write_wait_seconds = 2.5  # --write-wait-seconds",
            "stop_timeout_seconds = 10  # default",
            f'allowed_uids = [0, "root"]  # {file}, line 3',
            'log_format = "auto"  # default',
        ):
            assert f"\n{line}\n" in text
        assert list(tomllib.loads(text)) == list(SCHEMA)

    def test_its_toml_read_again_gives_the_same_settings(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        odd = '/run/"quoted"\\\n\x7fé🌍'
        assert main(["config", "--state-directory", odd, "--write-wait-seconds", "3.0"]) == 0
        text = capsys.readouterr().out
        assert text.isascii()
        assert tomllib.loads(text)["state_directory"] == odd
        file = tmp_path / "c.toml"
        file.write_text(text)
        assert main(["config", "--config", str(file)]) == 0
        assert tomllib.loads(capsys.readouterr().out) == tomllib.loads(text)

    def test_json_has_settings_sources_and_the_file_if_any(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["config", "--json", "--allowed-gids", '["root"]']) == 0
        shown = json.loads(capsys.readouterr().out)
        assert list(shown) == ["settings", "sources"]
        assert list(shown["settings"]) == list(shown["sources"]) == list(SCHEMA)
        assert shown["settings"]["allowed_gids"] == ["root"]
        assert shown["sources"]["allowed_gids"] == "--allowed-gids"
        file = tmp_path / "c.toml"
        file.touch()
        assert main(["config", "--json", "--config", str(file)]) == 0
        assert json.loads(capsys.readouterr().out)["file"] == str(file)

    @pytest.mark.parametrize("command", ["run", "migrate", "config"])
    def test_bad_configuration_is_6_with_one_line_on_stderr(
        self, command: str, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([command, "--max-prompt-chars", "0"]) == 6
        must = "max_prompt_chars must be an integer from 1 to 32768, not 0"
        line = f"scheduler-daemon: --max-prompt-chars: {must}\n"
        assert capsys.readouterr() == ("", line)


class TestStreams:
    """In this process, with descriptors that fail; the real thing is below."""

    def test_a_full_disk_is_a_failure_with_a_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with open("/dev/full", "w", encoding="ascii") as stream:  # noqa: PTH123 - a device
            monkeypatch.setattr(sys, "stdout", stream)
            assert main(["config"]) == 1
        line = "scheduler-daemon: stdout cannot be written: No space left on device\n"
        assert capsys.readouterr().err == line

    def test_a_reader_that_has_gone_is_no_news(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="ascii") as stream:  # noqa: PTH123 - a descriptor
            monkeypatch.setattr(sys, "stdout", stream)
            assert main(["config"]) == 1
        assert capsys.readouterr().err == ""

    def test_streams_that_were_closed_at_the_start_change_no_status(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        assert main(["config"]) == 0
        assert main(["config", "--log-level", "x"]) == 6


class TestProcess:
    @pytest.mark.parametrize(
        ("arguments", "shell", "status"),
        [
            (["config"], '"$@" >/dev/full', 1),
            (["--help"], '"$@" >/dev/full', 1),
            (["config", "--log-level", "x"], '"$@" 2>/dev/full', 6),
            (["config", "--log-level", "x"], '"$@" >&- 2>&-', 6),
        ],
    )
    def test_the_status_is_told_even_where_nothing_can_be_written(
        self, arguments: list[str], shell: str, status: int
    ) -> None:
        done = process(*arguments, shell=shell)
        assert (done.returncode, done.stdout) == (status, "")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr

    def test_a_reader_that_leaves_early_sees_nothing_on_stderr(self) -> None:
        for arguments in (["config"], ["--help"]):
            done = process(*arguments, shell='"$@" | true')
            assert (done.stdout, done.stderr) == ("", "")

    @pytest.mark.parametrize(
        "environ",
        [
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"LC_ALL": "nonsense", "LANG": "", "TZ": "Pacific/Kiritimati"},
            {"PYTHONUTF8": "1", "PYTHONIOENCODING": "ascii:strict"},
            {"PYTHONIOENCODING": "utf-16", "LANGUAGE": "de"},
        ],
    )
    def test_locale_and_zone_make_no_difference(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        file = tmp_path / "ä.toml"
        file.write_bytes('state_directory = "/ä"\n'.encode())
        done = process("config", "--json", "--config", str(file), environ=environ)
        output = done.stdout.replace("\0", "").lstrip("\ufeff\ufffd")
        assert (done.returncode, done.stderr) == (0, "")
        path = json.loads(output[output.index("{") :])["settings"]["state_directory"]
        assert path.encode("utf-8", "surrogateescape") == "/ä".encode()
