"""Time zone, locale, working directory and home of the process make no difference."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import ago, let_pass, recurring
from tests.support.peer import Peer, Refused
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

ODD: dict[str, tuple[dict[str, str], str]] = {
    "Samoa, Turkish, the root folder": (
        {"TZ": "Pacific/Apia", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR"},
        "/",
    ),
    "no such zone, C without UTF-8, a folder that is gone": (
        {"TZ": ":/no/such/zone", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "gone",
    ),
    "half an hour off, no such locale, a folder with a strange name": (
        {
            "TZ": "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
            "LC_ALL": "\u00fc.\u00fc",
            "HOME": "/nowhere",
        },
        "a b\n\u00fc'\"",
    ),
}
"""Variables, and where the daemon is started; `gone` stands for a folder that was removed."""

SELECTORS: list[dict[str, Any]] = [
    {"at": "2030-07-01T12:00:00+05:30"},
    {"at": {"date": "2030-03-31", "time": "03:30:00", "time_zone": "europe/berlin"}},
    {"daily": {"time": "23:59:59.999", "time_zone": "America/St_Johns"}},
    {"weekly": {"time": "09:00", "time_zone": "Pacific/Apia", "weekdays": [7, 1]}},
    {"cron": {"expression": "30 2 29 feb *", "time_zone": "Australia/Lord_Howe"}},
    {"cron": {"expression": "@monthly", "time_zone": "Africa/Casablanca"}},
    {"every_seconds": 86_400},
]
REFUSED: list[dict[str, Any]] = [
    {"at": "2020-01-01T00:00:00Z"},
    {"at": {"date": "2031-03-30", "time": "02:30:00", "time_zone": "Europe/Berlin"}},
    {"daily": {"time": "09:00", "time_zone": "Local"}},
    {"cron": {"expression": "0 0 31 2 *", "time_zone": "UTC"}},
]
WORDS = "\u0130\u0131 \u00e9 \u4f60\u597d \u2028 Gr\u00fc\u00dfe"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\nlate by: .*")
"""What depends on when the test runs."""


def transcript(daemon: DaemonProcess, minute: dt.datetime) -> dict[str, Any]:
    """What the daemon answers to creations and previews, and the follow-up that it sends.

    The recurring reminders of the follow-up are of this minute of the day.
    """
    peer = daemon.start().peer()
    answers = [_told(peer, selector) for selector in SELECTORS]
    previews = [peer.call("reminder.preview", count=3, **each) for each in SELECTORS[:-1]]
    refusals = [_refusal(peer, selector) for selector in REFUSED]
    for selector in recurring(minute):
        peer.create("s1", WORDS, title=WORDS, **selector)
    listed = daemon.schedctl("list", "--session", "s1", "--json").stdout.splitlines()
    let_pass(daemon, "-1 days", "session_id = 's1'")
    host = daemon.peer()
    host.attach(["s1"])
    followup = host.next_followup()
    return {
        "answers": answers,
        "previews": previews,
        "refusals": refusals,
        "listed": [json.loads(line)["prompt"] for line in listed],
        "text": _MOMENT.sub("", followup.params["text"]),
        "rules": [each["rule_text"] for each in followup.params["occurrences"]],
        "prompts": followup.prompts,
    }


def _told(peer: Peer, selector: dict[str, Any]) -> dict[str, Any]:
    told = peer.create("s0", WORDS, **selector)
    if "every_seconds" in selector:
        del told["scheduled_at"]
    return {name: value for name, value in told.items() if name not in ("id", "created_at")}


def _refusal(peer: Peer, selector: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        peer.create("s0", WORDS, **selector)
    return refused.value.code, _MOMENT.sub("", str(refused.value))


@pytest.mark.parametrize("odd", ODD)
def test_time_zone_locale_and_working_directory_make_no_difference(
    new_daemon: NewDaemon, folder: Path, odd: str
) -> None:
    variables, place = ODD[odd]
    cwd = folder / place
    cwd.mkdir(exist_ok=True)
    strange = new_daemon(
        state=folder / "odd", socket=folder / "odd.sock", environ=variables, cwd=cwd
    )
    if place == "gone":
        strange.wrapper = ["sh", "-c", 'cd "$(mktemp -d)"; rmdir "$PWD"; exec "$@"', "sh"]
    minute = ago(hours=2)
    assert transcript(strange, minute) == transcript(new_daemon(), minute)


def test_an_ordinary_user_needs_no_configuration_at_all(
    new_daemon: NewDaemon, folder: Path
) -> None:
    """Only HOME and XDG_RUNTIME_DIR are set; schedctl finds the daemon by the same rules."""
    runtime = folder / "run"
    runtime.mkdir()
    daemon = new_daemon(
        environ={"XDG_RUNTIME_DIR": str(runtime)},
        state=folder / ".local/state/scheduler-daemon",
        socket=runtime / "scheduler-daemon/scheduler.sock",
    )
    daemon.flags.clear()
    daemon.start()
    assert daemon.socket.exists()
    assert daemon.schedctl("create", "--session", "s1", "--after", "1h", "words").returncode == 0
    assert daemon.sql("SELECT prompt FROM reminders") == [("words",)]
    assert daemon.database.stat().st_mode & 0o777 == 0o600
    assert daemon.state.stat().st_mode & 0o777 == 0o700
