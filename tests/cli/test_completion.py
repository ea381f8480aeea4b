"""`schedctl completion`: the scripts have everything, and real shells complete with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_daemon.cli import main as cli
from scheduler_daemon.cli.verbs.completion import SHELLS
from tests.cli.conftest import Ended

Schedctl = Callable[..., Ended]

TYPED = {
    "schedctl cre": {"create"},
    "schedctl create --max": {"--max-occurrences"},
    "schedctl list --status ": {"active", "ended", "all"},
    "schedctl backup sched": {"scheduled.db"},
    "schedctl backup --database sched": {"scheduled.db"},
    "schedctl run-now --idem": {"--idempotency-key"},
}
"""What is typed before the tab key, and what it offers in a folder with one file."""

BASH = """
source <(cat)
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<< "$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
words=$(complete -p schedctl)
function=${words##* -F }
"${function%% *}" schedctl "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "source -; complete -C $argv[1]"

ASKED = {"bash": ["bash", "-c", BASH, "bash"], "fish": ["fish", "--no-config", "-c", FISH]}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_option_is_in_the_script(schedctl: Schedctl, shell: str) -> None:
    ended = schedctl("completion", shell)
    assert (ended.status, ended.err) == (0, "")
    for verb in cli.VERBS:
        assert verb in ended.out
        for option in cli.load(verb)[1]._option_string_actions:
            fish = f" -l {option.lstrip('-')} " if len(option) > 2 else f" -s {option[1]} "
            assert (fish if shell == "fish" else option) in ended.out, (verb, option)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_takes_the_script(schedctl: Schedctl, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    done = subprocess.run(
        [shell, "-n"], input=schedctl("completion", shell).out, text=True, check=False, timeout=60
    )
    assert done.returncode == 0


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.parametrize("shell", ASKED)
def test_the_tab_key_offers_what_fits(
    schedctl: Schedctl, tmp_path: Path, shell: str, typed: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    (tmp_path / "scheduled.db").touch()
    script = schedctl("completion", shell).out
    done = subprocess.run(
        [*ASKED[shell], typed],
        input=script,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    offered = {line.split("\t")[0].strip() for line in done.stdout.splitlines()}
    assert offered == TYPED[typed], done.stderr


def test_json_has_the_script_too(schedctl: Schedctl) -> None:
    plain, given = schedctl("completion", "bash"), schedctl("completion", "bash", "--json")
    assert json.loads(given.out) == {"shell": "bash", "script": plain.out.removesuffix("\n")}


def test_another_shell_is_refused_and_told_which_there_are(schedctl: Schedctl) -> None:
    ended = schedctl("completion", "csh")
    assert (ended.status, ended.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in ended.err


def test_without_the_package_it_says_what_to_install(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ended = schedctl("completion", "bash")
    assert (ended.status, ended.out) == (1, "")
    assert "pip install shtab" in ended.err
