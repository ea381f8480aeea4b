from __future__ import annotations

import datetime as dt

import pytest

from scheduler_daemon.model import After, At, Cron, Daily, Every, Rule, Weekly
from scheduler_daemon.rules import canonical_cron, describe

NOW = dt.datetime(2026, 12, 24, 17, tzinfo=dt.UTC)
NINE = dt.time(9)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (After(1200), "once, 20 minutes after it was set"),
        (After(1), "once, 1 second after it was set"),
        (After(93784), "once, 1 day 2 hours 3 minutes 4 seconds after it was set"),
        (At(NOW), "once, at 2026-12-24T17:00:00.000Z"),
        (Every(7200, NOW), "every 2 hours"),
        (Every(3600, NOW), "every hour"),
        (Every(5400, NOW), "every 1 hour 30 minutes"),
        (Every(86400, NOW), "every 24 hours"),  # not of the local clock
        (Every(604800, NOW), "every 7 days"),
        (Daily(NINE, "Europe/Berlin"), "every day at 09:00 Berlin time"),
        (Daily(NINE, "UTC"), "every day at 09:00 UTC"),
        (Daily(NINE, "Etc/UTC"), "every day at 09:00 UTC"),
        (Daily(NINE, "Etc/GMT+5"), "every day at 09:00 Etc/GMT+5 time"),
        (Daily(NINE, "US/Eastern"), "every day at 09:00 US Eastern time"),
        (
            Daily(NINE, "America/Argentina/Buenos_Aires"),
            "every day at 09:00 Buenos Aires time",
        ),
        (Daily(dt.time(9, 0, 5), "UTC"), "every day at 09:00:05 UTC"),
        (Daily(dt.time(9, 0, 0, 5000), "UTC"), "every day at 09:00:00.005 UTC"),
        (Weekly(NINE, (1, 2, 3, 4, 5), "UTC"), "every weekday at 09:00 UTC"),
        (Weekly(NINE, (6, 7), "UTC"), "every weekend day at 09:00 UTC"),
        (Weekly(NINE, (1, 2, 3, 4, 5, 6, 7), "UTC"), "every day at 09:00 UTC"),
        (Weekly(NINE, (7,), "UTC"), "every Sunday at 09:00 UTC"),
        (
            Weekly(NINE, (1, 3, 5), "America/New_York"),
            "every Monday, Wednesday and Friday at 09:00 New York time",
        ),
    ],
)
def test_a_rule_reads_as_plain_english(rule: Rule, words: str) -> None:
    assert describe(rule) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("@hourly", "every hour, Tokyo time"),
        ("30 * * * *", "every hour at 30 minutes past, Tokyo time"),
        ("@daily", "every day at 00:00 Tokyo time"),
        ("@weekly", "every Sunday at 00:00 Tokyo time"),
        ("@monthly", "on the 1st of every month at 00:00 Tokyo time"),
        ("@yearly", "every year on 1 January at 00:00 Tokyo time"),
        ("0 9 29 2 *", "every leap year on 29 February at 09:00 Tokyo time"),
        ("0 9 * * 1-5", "every weekday at 09:00 Tokyo time"),
        ("0 9 * * sat,sun", "every weekend day at 09:00 Tokyo time"),
        ("0 9,17 * * *", "every day at 09:00 and 17:00 Tokyo time"),
        ("*/15 * * * *", "every 15 minutes, Tokyo time"),
        ("5,20,35,50 * * * *", "every 15 minutes from 00:05 to 23:50, Tokyo time"),
        ("0 */6 * * *", "every 6 hours, Tokyo time"),
        (
            "*/15 9-17 * * mon-fri",
            "every 15 minutes from 09:00 to 17:45, Monday to Friday, Tokyo time",
        ),
        ("0 8-20/2 * * 0,6", "every 2 hours from 08:00 to 20:00, Saturday and Sunday, Tokyo time"),
        ("*/15 23 * * *", "every day at 23:00, 23:15, 23:30 and 23:45 Tokyo time"),
        ("0 9 1,15 * *", "on the 1st and 15th of every month at 09:00 Tokyo time"),
        (
            "0 9 2,3,11-13,22 * *",
            "on the 2nd, 3rd, 11th to 13th and 22nd of every month at 09:00 Tokyo time",
        ),
        ("0 9 1-20 * *", "on the 1st to 20th of every month at 09:00 Tokyo time"),
        ("0 9 1 1,7 *", "on the 1st of January and July at 09:00 Tokyo time"),
        ("0 9 1 4-9 *", "on the 1st of every month from April to September at 09:00 Tokyo time"),
        ("0 9 * 1,7 1", "every Monday in January and July at 09:00 Tokyo time"),
        ("0 9 * 4-9 *", "every day from April to September at 09:00 Tokyo time"),
        ("0 0 13 * 5", "on the 13th of every month and every Friday at 00:00 Tokyo time"),
        ("0 0 13 1 5", "every year on 13 January and every Friday in January at 00:00 Tokyo time"),
        ("0 6 1-31 * 1", "every day at 06:00 Tokyo time"),  # either day field will do
        ("0 6 1 * 0-6", "every day at 06:00 Tokyo time"),
    ],
)
def test_a_common_cron_rule_reads_as_plain_english(expression: str, words: str) -> None:
    assert describe(Cron(canonical_cron(expression), "Asia/Tokyo")) == words


@pytest.mark.parametrize(
    "expression",
    [
        "0 1,3,6,9,13,20,22 * * *",  # too many times to list
        "0 0 */2 * *",  # too many days to list
        "0 0 1-7 * */7",  # both day fields
    ],
)
def test_another_cron_rule_is_told_by_its_expression(expression: str) -> None:
    assert describe(Cron(expression, "UTC")) == f'on the cron schedule "{expression}" in UTC'
    assert describe(Cron(expression, "US/Pacific")).endswith(" in US Pacific time")
