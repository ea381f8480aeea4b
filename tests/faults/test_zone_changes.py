"""Zone data that changed between two starts, with two releases that really differ.

tests/zones/ holds a few compiled files of each as the `tzdata` packages 2023.3 and 2026.6 from PyPI
have them. Between the two Almaty went from +06 to +05 (2024), and Vancouver has -07 in winter as
well (from 2026 on); Berlin is as it was.
"""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduler_daemon.model import Instant
from scheduler_daemon.rules import instant_text, parse_instant_text
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

RELEASES = Path(__file__).parents[1] / "zones"
OLD, NEW = "2023c", "2026f"
ALMATY, VANCOUVER, BERLIN = "Asia/Almaty", "America/Vancouver", "Europe/Berlin"
OURS_ALONE = "Etc/Of_This_Test"
"""A zone that no machine has, so that the machine's own data is never taken, however new it is."""

FILLERS = 5000
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)
MINUTE = dt.timedelta(minutes=1)

Json = dict[str, Any]
Use = Callable[[str], DaemonProcess]


@pytest.fixture
def use(folder: Path) -> Iterator[Use]:
    """Gives the daemon of this test, which is not running, a `tzdata` package of a release."""
    daemon = DaemonProcess(folder)
    program = daemon.environ["PYTHONPATH"]

    def choose(release: str) -> DaemonProcess:
        packages = folder / release
        if not packages.exists():
            make_package(packages / "tzdata", release)
        daemon.environ["PYTHONPATH"] = f"{packages}:{program}"
        return daemon

    try:
        yield choose
    finally:
        daemon.close()


def make_package(package: Path, release: str) -> None:
    """The parts of PyPI's package that are read, with the zones that we have."""
    shutil.copytree(RELEASES / release, package / "zoneinfo")
    (package / "zoneinfo/Etc").mkdir()
    shutil.copy(package / "zoneinfo/UTC", package / "zoneinfo" / OURS_ALONE)
    (package / "__init__.py").write_text(f'IANA_VERSION = "{release}"\n')
    zones = ["UTC", ALMATY, VANCOUVER, BERLIN, OURS_ALONE]
    (package / "zones").write_text("\n".join(zones) + "\n")


def zone(name: str, release: str) -> ZoneInfo:
    with (RELEASES / release / name).open("rb") as file:
        return ZoneInfo.from_file(file)


def following(
    after: Instant, hour: int, name: str, release: str, *, month_day: tuple[int, int] | None = None
) -> str:
    """The first instant after another at which a clock shows this hour (on this day of a year)."""
    source = zone(name, release)
    date = after.astimezone(source).date() - DAY
    while True:
        at = dt.datetime.combine(date, dt.time(hour), source).astimezone(dt.UTC)
        if at > after and month_day in (None, (date.month, date.day)):
            return instant_text(at)
        date += DAY


def targets(daemon: DaemonProcess) -> dict[str, str]:
    return dict(daemon.sql("SELECT id, scheduled_at FROM reminders ORDER BY number"))


def recomputed(daemon: DaemonProcess) -> list[int]:
    """How many moved, of each summary line in the logs of all runs."""
    return [entry["moved"] for entry in daemon.events("targets_recomputed_for_zone_data")]


def create_one_of_each(daemon: DaemonProcess) -> tuple[dict[str, str], Instant]:
    """The ids of reminders by what they are, and when the first was made."""
    peer = daemon.peer()
    nine = {"time": "09:00"}
    in_january = "0 9 15 1 *"
    selectors: dict[str, Json] = {
        "daily": {"daily": nine | {"time_zone": ALMATY}},
        "weekly": {"weekly": nine | {"time_zone": ALMATY, "weekdays": [1, 2, 3, 4, 5, 6, 7]}},
        "winter": {"cron": {"expression": in_january, "time_zone": VANCOUVER}},
        "summer": {"cron": {"expression": "0 9 15 7 *", "time_zone": VANCOUVER}},
        "berlin": {"daily": nine | {"time_zone": BERLIN}},
        "every": {"every_seconds": 86_400},
        "after": {"after_seconds": 86_400},
        "at": {"at": {"date": "2090-01-15", "time": "09:00:00", "time_zone": ALMATY}},
    }
    made = {name: peer.create("s", name, **selector) for name, selector in selectors.items()}
    ids = {name: reminder["id"] for name, reminder in made.items()}
    return ids, parse_instant_text(made["daily"]["created_at"])


def test_nine_o_clock_stays_nine_o_clock_and_what_is_no_wall_clock_stays_where_it_is(
    use: Use,
) -> None:
    daemon = use(OLD).start()
    assert daemon.peer().call("daemon.status")["zone_data"] == OLD
    ids, made_at = create_one_of_each(daemon)
    before = targets(daemon)
    assert before[ids["daily"]] == following(made_at, 9, ALMATY, OLD)
    daemon.stop()
    use(NEW).start()
    daemon.logged("targets_recomputed_for_zone_data")
    after = targets(daemon)
    assert after == before | {
        ids["daily"]: following(made_at, 9, ALMATY, NEW),
        ids["weekly"]: following(made_at, 9, ALMATY, NEW),
        ids["winter"]: following(made_at, 9, VANCOUVER, NEW, month_day=(1, 15)),
    }
    assert {each for each in before if before[each] != after[each]} == {
        ids[name] for name in ("daily", "weekly", "winter")
    }
    daemon.restart()
    assert (recomputed(daemon), targets(daemon)) == ([3], after)


def test_what_moved_to_before_now_is_due_at_once_and_once(use: Use) -> None:
    """By going back to the older data, under which Almaty's nine o'clock is an hour earlier."""
    daemon = use(NEW).start()
    now = dt.datetime.now(dt.UTC)
    target = (now + 30 * MINUTE).replace(second=0, microsecond=0)
    local = target.astimezone(zone(ALMATY, NEW))
    selector = {"time": f"{local:%H:%M}", "time_zone": ALMATY}
    made = daemon.peer().create("s", "moved", daily=selector)["id"]
    assert targets(daemon)[made] == instant_text(target)
    daemon.stop()
    long_ago = instant_text(target - 23 * HOUR)
    daemon.sql("UPDATE reminders SET after_at = ?, computed_at = ?", long_ago, long_ago)
    use(OLD).start()
    host = daemon.peer()
    host.attach(["s"])
    assert host.next_followup().occurrences == [f"{made}@{instant_text(target - HOUR)}"]
    daemon.logged("followup_admitted")
    assert targets(daemon)[made] == instant_text(target - HOUR + DAY)
    host.nothing_comes(0.5)


# --- in slices


def fill(daemon: DaemonProcess) -> list[str]:
    """Make many reminders that new data will move, each slowly to compute; their ids."""
    daemon.start()
    rare = {"expression": "0 9 29 2 1", "time_zone": ALMATY}
    made = daemon.peer().create("fillers", "rare", cron=rare)["id"]
    daemon.stop()
    rows = daemon.sql("SELECT name FROM pragma_table_info('reminders')")
    columns = ", ".join(name for (name,) in rows if name != "number")
    daemon.sql(
        f"WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < {FILLERS})"
        f" INSERT INTO reminders ({columns}) SELECT {columns} FROM reminders, more WHERE id = ?",
        made,
    )
    return list(targets(daemon))


def mark(daemon: DaemonProcess) -> int | None:
    """How far computing again came; None when it is done or has not begun."""
    found = daemon.sql("SELECT value FROM meta WHERE name = 'zone_recompute_from'")
    return int(found[0][0]) if found else None


def wait_for_first_slice(daemon: DaemonProcess) -> None:
    until = time.monotonic() + 60
    while not mark(daemon):
        assert time.monotonic() < until
        time.sleep(0.001)


@contextmanager
def locked_between_slices(daemon: DaemonProcess) -> Iterator[None]:
    """A lock that is asked for without a pause: slices follow upon each other at once."""
    wait_for_first_slice(daemon)
    with closing(sqlite3.connect(daemon.database, timeout=0, isolation_level=None)) as conn:
        until = time.monotonic() + 60
        while not conn.in_transaction:
            assert time.monotonic() < until
            with suppress(sqlite3.OperationalError):
                conn.execute("BEGIN IMMEDIATE")
        yield
        conn.execute("ROLLBACK")


def test_killed_in_the_middle_it_goes_on_where_it_was(use: Use) -> None:
    daemon = use(OLD)
    fillers = fill(daemon)
    before = targets(daemon)
    use(NEW).begin()
    wait_for_first_slice(daemon)
    daemon.kill()
    reached = mark(daemon)
    assert reached is not None
    assert 0 < reached < FILLERS
    between = targets(daemon)
    moved = {each for each in fillers if between[each] != before[each]}
    assert moved == set(fillers[:reached])
    daemon.start()
    daemon.logged("targets_recomputed_for_zone_data")
    assert recomputed(daemon) == [FILLERS - reached]
    assert set(targets(daemon).values()) == {between[fillers[0]]}
    assert mark(daemon) is None


def test_a_record_about_to_be_sent_before_its_slice_is_computed_first(use: Use) -> None:
    """A foreign lock keeps the slices from going on while its old target comes."""
    daemon = use(OLD)
    fill(daemon)
    began = time.monotonic()
    daemon.start()
    took = time.monotonic() - began
    target = dt.datetime.now(dt.UTC) + (took * 4 + 6) * dt.timedelta(seconds=1)
    target = target.replace(microsecond=0)
    local = target.astimezone(zone(ALMATY, OLD))
    selector = {"time": f"{local:%H:%M:%S}", "time_zone": ALMATY}
    made = daemon.peer().create("s", "soon", daily=selector)["id"]
    assert targets(daemon)[made] == instant_text(target)
    daemon.stop()
    use(NEW).begin()
    with locked_between_slices(daemon):
        reached = mark(daemon)
        assert reached is not None
        assert reached < FILLERS
        daemon.logged("daemon_started")
        host = daemon.peer()
        host.attach(["s"])
        left = (target - dt.datetime.now(dt.UTC)).total_seconds()
        assert left > 0
        host.nothing_comes(left + 1)
    daemon.logged("targets_recomputed_for_zone_data")
    host.nothing_comes(0)
    assert targets(daemon)[made] == instant_text(target + HOUR)
