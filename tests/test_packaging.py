"""What is packaged: one version, pinned dependencies, man pages and completions of everything."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scheduler_daemon import __main__ as daemon
from scheduler_daemon import __version__, config
from scheduler_daemon.cli import main as schedctl
from scheduler_daemon.settings import SCHEMA
from tests.support.fresh import unmeasured

FOR_DEVELOPERS = {"bench", "dev", "fuzz", "release"}
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")


def release_requirements() -> list[Requirement]:
    """What a user may install: the dependencies, and those of the extras for users."""
    extras = PROJECT["optional-dependencies"]
    lines = [line for name in extras if name not in FOR_DEVELOPERS for line in extras[name]]
    return [Requirement(line) for line in [*PROJECT["dependencies"], *lines]]


@pytest.mark.parametrize("wanted", release_requirements(), ids=lambda wanted: wanted.name)
def test_every_dependency_of_a_release_is_pinned_to_a_version_that_it_takes(
    wanted: Requirement,
) -> None:
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", CONSTRAINTS, re.MULTILINE))
    assert wanted.name in pins, "write constraints.txt again, by the command in its head"
    assert wanted.specifier.contains(pins[wanted.name])


def test_the_command_in_the_head_of_the_constraints_names_every_extra_of_a_release() -> None:
    named = set(re.findall(r"--extra (\S+)", CONSTRAINTS))
    assert named == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS


def test_the_version_stands_in_one_place_and_the_change_log_knows_it() -> None:
    assert "version" in PROJECT["dynamic"]
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", log, re.MULTILINE)
    assert next(each for each in headings if each != "Unreleased") == __version__


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that packaging/share.py writes."""
    folder = tmp_path_factory.mktemp("share")
    subprocess.run(
        [sys.executable, "packaging/share.py", str(folder)],
        cwd=ROOT,
        env={**unmeasured(), "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "0"},
        check=True,
        timeout=120,
    )
    return folder


def page(share: Path, name: str) -> str:
    """A man page, with its dashes as they are typed."""
    return (share / "man" / f"man{name[-1]}" / name).read_text(encoding="utf-8").replace("\\-", "-")


def test_schedctl_has_a_man_page_that_names_every_verb(share: Path) -> None:
    text = page(share, "schedctl.1")
    assert f'"scheduler-daemon {__version__}"' in text
    for verb, summary in schedctl.VERBS.items():
        assert f"schedctl-{verb}(1)" in text
        assert summary in text


@pytest.mark.parametrize("verb", schedctl.VERBS)
def test_each_verb_has_a_man_page_with_its_options_and_examples(share: Path, verb: str) -> None:
    text = page(share, f"schedctl-{verb}.1")
    module, parser = schedctl.load(verb)
    assert f".SH NAME\nschedctl-{verb} - {schedctl.VERBS[verb]}\n" in text
    for option in set(parser._option_string_actions) - {"-h", "--help"}:
        assert f"\\fB{option}\\fR" in text
    for line in module.EXAMPLES.splitlines():
        assert line.replace("\\", "\\e") in text


def test_the_daemon_has_a_man_page_with_its_commands_and_every_setting(share: Path) -> None:
    text = page(share, "scheduler-daemon.8")
    for command, purpose in daemon.COMMANDS.items():
        assert f"\\fB{command}\\fR\n{purpose}" in text
    for option in ("--version", "--config", *map(config.flag, SCHEMA)):
        assert f"\\fB{option}\\fR" in text


def test_no_line_of_a_man_page_is_taken_for_a_request_that_is_none(share: Path) -> None:
    known = r"\.(TH|SH|TP|EX|EE|B)\b"
    for file in share.glob("man/man*/*"):
        for line in file.read_text(encoding="utf-8").splitlines():
            assert not line.startswith("'")
            assert not line.startswith(".") or re.match(known, line), (file.name, line)


def test_both_commands_have_completions_for_each_shell(share: Path) -> None:
    found = {str(file.relative_to(share)) for file in share.rglob("*") if file.is_file()}
    assert {each for each in found if not each.startswith("man/")} == {
        f"{place}{command}{end}"
        for command in ("schedctl", "scheduler-daemon")
        for place, end in (
            ("bash-completion/completions/", ""),
            ("zsh/site-functions/_", ""),
            ("fish/vendor_completions.d/", ".fish"),
        )
    }
