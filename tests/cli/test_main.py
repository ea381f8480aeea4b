"""The command line as a whole: verbs, help, errors in one line, exit statuses."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

import pytest

from scheduler_daemon import __version__
from scheduler_daemon.cli import main as cli
from scheduler_daemon.cli import output
from scheduler_daemon.errors import ERRORS
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]


def test_help_shows_every_verb_with_a_line_each_and_three_examples(schedctl: Schedctl) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        ended = schedctl(*words)
        assert ended.status == 0
        for verb, summary in cli.VERBS.items():
            assert f"  {verb:<10} {summary}\n" in ended.out
        assert ended.out.count("\n  schedctl ") == 3


@pytest.mark.parametrize("verb", cli.VERBS)
def test_each_verb_has_help_with_examples(schedctl: Schedctl, verb: str) -> None:
    ended = schedctl(verb, "--help")
    assert ended.status == 0
    assert f"usage: schedctl {verb}" in ended.out
    assert f"examples:\n  schedctl {verb}" in ended.out or "| schedctl" in ended.out
    assert schedctl("help", verb).out == ended.out
    assert all(len(line) <= 100 for line in ended.out.splitlines())


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_examples_of_the_help_can_be_typed(verb: str) -> None:
    module, parser = cli.load(verb)
    for line in module.EXAMPLES.splitlines():
        command = line.partition("schedctl ")[2].partition(" | ")[0]
        words = shlex.split(command)
        assert words[0] == verb
        parser.read(words[1:])


def test_the_version_is_told(schedctl: Schedctl) -> None:
    assert schedctl("--version") == (0, f"schedctl {__version__}\n", "")


def test_no_verb_is_misuse_and_names_them(schedctl: Schedctl) -> None:
    ended = schedctl()
    assert (ended.status, ended.out) == (2, "")
    assert "a verb is missing: create, list" in ended.err


@pytest.mark.parametrize(("typed", "meant"), [("lst", "list"), ("delte", "delete")])
def test_an_unknown_verb_suggests_the_nearest(schedctl: Schedctl, typed: str, meant: str) -> None:
    ended = schedctl(typed)
    assert ended.status == 2
    assert f"there is no verb '{typed}'; did you mean `{meant}`?" in ended.err


def test_a_verb_like_no_other_gets_the_list(schedctl: Schedctl) -> None:
    assert "there is no verb 'qqqq': create, list" in schedctl("qqqq").err


@pytest.mark.parametrize(
    "words",
    [
        ["create"],
        ["create", "--session", "s1", "hi"],
        ["create", "--session", "s1", "--after", "1h", "--every", "1h", "hi"],
        ["create", "--session", "s1", "--after", "1h", "two", "words"],
        ["create", "--session", "s1", "--aft", "1h", "hi"],
        ["list", "--status", "some"],
        ["preview", "--every", "1h", "--count", "x"],
        ["show"],
        ["show", "r7", "--owner"],
        ["list", "--order"],
        ["list", "--socket", ""],
    ],
)
def test_what_cannot_be_parsed_is_one_line_with_the_way_to_the_help(
    schedctl: Schedctl, words: list[str]
) -> None:
    ended = schedctl(*words)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.endswith(f"; see `schedctl {words[0]} --help`\n")


def test_words_that_want_quotes_are_told_so(schedctl: Schedctl) -> None:
    ended = schedctl("create", "--session", "s1", "--after", "1h", "two", "words")
    assert "unrecognized arguments: words; words that belong together want quotes" in ended.err


def test_other_words_too_many_are_not_told_of_quotes(schedctl: Schedctl) -> None:
    assert "unrecognized arguments: r8; see" in schedctl("show", "r7", "r8").err


@pytest.mark.parametrize("prompt", ["-help me", "-hurry", "-h2", "--helpful"])
def test_words_that_start_with_a_dash_are_no_call_for_help(schedctl: Schedctl, prompt: str) -> None:
    ended = schedctl("create", "--session", "s1", "--after", "1h", prompt)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert f"there is no option {prompt}; put -- before words" in ended.err


def test_behind_two_dashes_everything_is_a_word() -> None:
    _, parser = cli.load("create")
    words = ["--session", "s1", "--after", "1h", "--title=-x", "--", "-help me"]
    args = parser.read(words)
    assert (args.prompt, args.title) == ("-help me", "-x")
    assert parser.read([*words[:-1], "--"]).prompt == "--"


def test_two_dashes_alone_change_nothing() -> None:
    for verb in ("list", "status"):
        _, parser = cli.load(verb)
        assert parser.read(["--"]) == parser.read([])


def test_two_dashes_may_stand_before_the_verb(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["hello"] = lambda params: {"uid": 1}
    assert schedctl("--json", "--", "rpc", "hello") == (0, '{"uid": 1}\n', "")


def test_options_may_stand_between_the_words_of_a_list() -> None:
    _, parser = cli.load("host")
    args = parser.read(["s1", "--name", "n", "s2"])
    assert (args.sessions, args.name) == (["s1", "s2"], "n")


def test_a_value_that_starts_with_a_dash_is_told_how(schedctl: Schedctl) -> None:
    ended = schedctl("update", "r7", "--title", "-x")
    assert ended.status == 2
    assert "one that starts with a dash is --title=-x" in ended.err


@pytest.mark.parametrize("option", ["--session", "--title", "--socket", "--tz", "--owner"])
def test_an_option_given_twice_is_refused_because_one_would_be_lost(
    schedctl: Schedctl, option: str
) -> None:
    ended = schedctl("create", "hi", "--after", "1h", option, "a", f"{option}=a")
    assert ended.status == 2
    assert f"{option} may be given once" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ["history", "r7", "--limit", "0"],
        ["history", "r7", "--limit", "\u0663"],
        ["history", "r7", "--limit", "1_0"],
        ["preview", "--every", "1h", "--count", "0"],
        ["preview", "--every", "1h", "--count", "101"],
    ],
)
def test_a_number_out_of_range_or_not_of_ascii_digits_is_misuse(
    schedctl: Schedctl, words: list[str]
) -> None:
    ended = schedctl(*words)
    assert ended.status == 2
    assert f"argument {words[-2]}: takes a whole number, 1 to " in ended.err


def test_a_selector_given_twice_is_refused_because_one_would_be_lost(schedctl: Schedctl) -> None:
    ended = schedctl("create", "--session", "s1", "--after", "1h", "--after", "2h", "hi")
    assert ended.status == 2
    assert "--after may be given once" in ended.err


def test_options_may_stand_before_the_verb(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["hello"] = lambda params: {"uid": 1}
    path = str(daemon.path)
    assert schedctl("--json", "--socket", path, "rpc", "hello") == (0, '{"uid": 1}\n', "")
    assert schedctl("--socket=" + path, "rpc", "hello").status == 0


@pytest.mark.parametrize("code", ERRORS)
def test_a_refusal_is_one_line_on_stderr_with_its_code_and_status(
    schedctl: Schedctl, daemon: ScriptedDaemon, code: str
) -> None:
    def refuse(params: dict[str, object]) -> object:
        raise ERRORS[code]("no,\nnever\x1b[0m", field="at")

    daemon.answers["hello"] = refuse
    ended = schedctl("rpc", "hello")
    assert ended.out == ""
    assert ended.err.startswith(f"schedctl: no,\\nnever\\x1b[0m ({code} [at])")
    assert ended.err.count("\n") == 1
    assert ended.status in (1, 4, 5)


def test_a_daemon_that_is_not_there_is_status_3_and_says_how_to_start_it(
    schedctl: Schedctl,
) -> None:
    ended = schedctl("list")
    assert (ended.status, ended.out) == (3, "")
    assert "d.sock" in ended.err
    assert "scheduler-daemon run" in ended.err
    assert ended.err.count("\n") == 1


def test_an_argument_that_is_not_utf8_is_misuse(schedctl: Schedctl) -> None:
    ended = schedctl("show", "r\udcff")
    assert ended.status == 2
    assert "UTF-8" in ended.err


def run_with(monkeypatch: pytest.MonkeyPatch, ending: BaseException) -> int:
    def end(words: object) -> int:
        raise ending

    monkeypatch.setattr(cli, "main", end)
    return cli.run()


@pytest.mark.parametrize(
    ("ending", "status"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141)]
)
def test_an_interrupt_and_a_closed_pipe_are_quiet(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ending: BaseException,
    status: int,
) -> None:
    monkeypatch.setattr(output, "abandon", lambda stream: None)
    assert run_with(monkeypatch, ending) == status
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_under_the_output_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "abandon", lambda stream: None)
    assert run_with(monkeypatch, OSError(28, "No space left on device")) == 1
    assert capfd.readouterr().err == (
        "schedctl: cannot write the output: No space left on device\n"
    )


def test_the_console_script_takes_the_arguments_of_its_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["schedctl", "--version"])
    assert cli.run() == 0
    assert capsys.readouterr().out == f"schedctl {__version__}\n"


def test_a_module_of_the_package_is_the_command_too(process: Schedctl) -> None:
    assert process("--version") == (0, f"schedctl {__version__}\n", "")


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Berlin", "this machine's own is Europe/Berlin: add --tz Europe/Berlin"),
        ("Foo/Bar", "for example --tz Europe/Berlin or --tz UTC"),
        ("Local", "for example --tz Europe/Berlin or --tz UTC"),
    ],
)
def test_the_machine_s_zone_is_suggested_where_it_is_one(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch, zone: str, hint: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    ended = schedctl("preview", "--daily", "09:00")
    assert ended.status == 2
    assert hint in ended.err
