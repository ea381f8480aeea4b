"""The table of agents: what it says of each, and what a user's file may make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_daemon.exec_host.profiles import Profile, ProfilesRefused, load

UUID = "5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_four_agents_are_shipped_and_none_is_run_without_what_it_asks_approval_for() -> None:
    profiles = load(None)
    assert list(profiles) == ["claude", "codex", "opencode", "dsh"]
    for profile in profiles.values():
        assert profile.agent == profile.name
        assert "{session}" in profile.command
        words = " ".join((*profile.command, *profile.when_busy))
        for skipping in ("dangerous", "yolo", "bypass", "skip-permissions", "--auto", "full-auto"):
            assert skipping not in words


@pytest.mark.parametrize(
    ("name", "session", "has"),
    [
        ("claude", UUID, True),
        ("claude", UUID + "\n", False),
        ("claude", UUID.upper(), False),
        ("codex", f"-{UUID}", False),
        ("opencode", "ses_dd2388e8cffekhchs9WMvEHYIC", True),
        ("opencode", "ses_", False),
        ("opencode", "ses_a b", False),
        ("dsh", "session-8aec461beeee4f599e3edd5dd4ab0e24", True),
        ("dsh", "--session", False),
        ("dsh", "a/../b", False),
        ("dsh", "a$(b)", False),
        ("dsh", "", False),
    ],
)
def test_only_what_is_an_id_of_the_agent_is_one(name: str, session: str, has: bool) -> None:
    assert load(None)[name].has_session(session) is has


def test_no_pattern_of_a_user_lets_an_option_or_two_words_through() -> None:
    profile = Profile("mine", ["agent", "{session}"], session=".*")
    assert profile.has_session("chat:7@home+2.a_b-c")
    for session in ("-rf", "a b", "a\tb", "a\n", "ä", "a'b", ".hidden"):
        assert not profile.has_session(session)


def test_a_users_file_adds_tables_and_changes_members_of_those_there_are(tmp_path: Path) -> None:
    profiles = load(
        written(
            tmp_path,
            """
            [opencode]
            server = "http://127.0.0.1:4096"
            [mine]
            command = ["my-agent", "{session}"]
            agent = "other"
            busy = ["in use"]
            """,
        )
    )
    assert profiles["opencode"].server == "http://127.0.0.1:4096"
    assert profiles["opencode"].command == load(None)["opencode"].command
    assert profiles["mine"] == Profile("mine", ["my-agent", "{session}"], "other", busy=["in use"])
    assert profiles["claude"] == load(None)["claude"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mine", "cannot be read"),
        ("mine = 1", "mine is not a table"),
        ("[auto]\ncommand = ['x']", "no profile can be named auto"),
        ("[mine]\nargv = ['x']", "knows no argv; it has command, busy"),
        ("[mine]\ncommand = 'x {session}'", "command is a list of texts"),
        ("[mine]\ncommand = ['x', 1]", "command is a list of texts"),
        ("[mine]\ncommand = []", "has no command"),
        ("[mine]\nbusy = ['x']", "has no command"),
        ("[claude]\nsession = ''", "session is a text in quotes"),
        ("[claude]\nserver = 4096", "server is a text in quotes"),
        ("[claude]\nsession = '('", r"'\(' is no regular expression"),
        ("[claude]\nunknown = ['*']", r"'\*' is no regular expression"),
        ("[opencode]\nserver = 'https://x'", "server is like http://127.0.0.1:4096"),
        ("[opencode]\nserver = 'http://x:1/path'", "server is like http://127.0.0.1:4096"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_what_can(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ProfilesRefused, match=message):
        load(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfilesRefused, match=r"profiles\.toml cannot be read"):
        load(tmp_path / "profiles.toml")
