"""Records the transcripts of docs/protocol.md anew: `python -m tests.protocol_transcripts`.

Each scene has a daemon of its own (real store, real socket, a clock that stands still unless the
scene turns it), so that no scene renumbers another.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from scheduler_daemon.log import configure
from tests.support import protocol_page as page
from tests.support.stage import Stage, stage
from tests.support.transcript import readable

BUILD = {
    "session_id": "build-7",
    "prompt": "Check whether the build is green.",
    "after_seconds": 1200,
}
STAND_UP = {
    "session_id": "team",
    "prompt": "Collect the open pull requests.",
    "title": "Stand-up",
    "weekly": {"time": "09:00", "time_zone": "America/New_York", "weekdays": [1, 2, 3, 4, 5]},
}
DISK = {
    "session_id": "team",
    "prompt": "Look at the disk.\nWarn above 90 %.",
    "context": {"directory": "/srv/data"},
    "every_seconds": 3600,
}
CALL_BACK = {"session_id": "team", "prompt": "Call Ada back.", "after_seconds": 600}
HOURS = 3600


async def wire_errors(on: Stage) -> None:
    await on.peer.line('{"jsonrpc": "2.0", "id": 1, "method": "reminder.list"')
    await on.peer.line('{"jsonrpc": "2.0", "id": 2, "method": "reminder.postpone"}')


async def hello(on: Stage) -> None:
    await on.peer.call("hello", {"protocol": 1, "client": "my-client 1.0"})


async def create(on: Stage) -> None:
    await on.peer.call("reminder.create", STAND_UP | {"idempotency_key": "turn-118"})


async def refusal(on: Stage) -> None:
    past = {"session_id": "team", "prompt": "Say hello.", "at": "2026-08-06T18:00:00+02:00"}
    await on.peer.call("reminder.create", past)


async def get(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    on.clock.advance(1500)
    await on.peer.call("reminder.get", {"id": "r1"})


async def list_reminders(on: Stage) -> None:
    await on.aside.call("reminder.create", STAND_UP)
    await on.aside.call("reminder.create", DISK)
    first = await on.peer.call("reminder.list", {"session_id": "team", "limit": 1})
    cursor = first["result"]["next_cursor"]
    await on.peer.call("reminder.list", {"session_id": "team", "limit": 1, "cursor": cursor})


async def update(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    on.clock.advance(60)
    change = {"id": "r1", "revision": 1, "after_seconds": 300}
    await on.peer.call("reminder.update", change)
    await on.peer.call("reminder.update", change)


async def delete(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    await on.peer.call("reminder.delete", {"id": "r1"})
    await on.peer.call("reminder.delete", {"id": "r1"})


async def pause(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    await on.peer.call("reminder.pause", {"id": "r1"})


async def resume(on: Stage) -> None:
    """A week and an hour later: what was missed does not come."""
    await on.aside.call("reminder.create", STAND_UP)
    await on.aside.call("reminder.pause", {"id": "r1"})
    on.clock.advance(169 * HOURS)
    await on.peer.call("reminder.resume", {"id": "r1"})


async def snooze(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    on.clock.advance(1260)
    asked = {"id": "r1", "seconds": 600, "idempotency_key": "button-31"}
    await on.peer.call("reminder.snooze", asked)


async def skip(on: Stage) -> None:
    await on.aside.call("reminder.create", STAND_UP)
    await on.peer.call("reminder.skip", {"id": "r1"})
    await on.peer.call("reminder.history", {"id": "r1"})


async def run_now(on: Stage) -> None:
    on.shorten_text()
    await on.aside.call("reminder.create", STAND_UP)
    await on.peer.call("reminder.run_now", {"id": "r1", "idempotency_key": "turn-120"})
    with on.peer.unwritten():
        await on.peer.call("host.attach", {"name": "my-host", "sessions": ["team"]})
    request = await on.peer.receive()
    await on.peer.answer(request, {"status": "admitted"})


async def preview(on: Stage) -> None:
    rule = {"expression": "30 8 1 * *", "time_zone": "Europe/Berlin"}
    await on.peer.call("reminder.preview", {"cron": rule, "count": 3})


async def history(on: Stage) -> None:
    await build_delivered(on)
    await on.peer.call("reminder.history", {"session_id": "build-7"})


async def build_delivered(on: Stage) -> None:
    """Aside, r1 of build-7 is made, comes and is admitted."""
    await on.aside.call("reminder.create", BUILD)
    await on.aside.call("host.attach", {"name": "my-host", "sessions": ["build-7"]})
    on.clock.advance(1200)
    request = await on.aside.receive()
    await on.aside.answer(request, {"status": "admitted", "message_id": "m-31"})
    await on.dispatched("r1")


async def list_sessions(on: Stage) -> None:
    await on.aside.call("reminder.create", STAND_UP)
    await on.aside.call("reminder.create", BUILD)
    on.clock.advance(1500)
    await on.aside.call("host.attach", {"name": "my-host", "sessions": ["team"]})
    await on.peer.call("session.list")


async def forget(on: Stage) -> None:
    await build_delivered(on)
    await on.peer.call("session.forget", {"session_id": "build-7"})


async def transfer(on: Stage) -> None:
    await on.aside.call("reminder.create", STAND_UP)
    await on.aside.call("reminder.create", DISK)
    await on.peer.call("session.transfer", {"from": "team", "to": "team-resumed"})


async def status(on: Stage) -> None:
    await on.aside.call("reminder.create", STAND_UP)
    await on.aside.call("reminder.create", BUILD)
    on.clock.advance(1500)
    await on.aside.call("host.attach", {"name": "my-host", "sessions": ["team"]})
    await on.scanned()
    await on.peer.call("daemon.status")


async def watch(on: Stage) -> None:
    await on.peer.call("daemon.watch", {"session_id": "build-7"})
    await on.aside.call("reminder.create", BUILD)
    await on.peer.receive()


async def reminder_changed(on: Stage) -> None:
    await on.aside.call("reminder.create", BUILD)
    await on.aside.call("host.attach", {"name": "my-host", "sessions": ["build-7"]})
    with on.peer.unwritten():
        await on.peer.call("daemon.watch")
    on.clock.advance(1200)
    await on.aside.answer(await on.aside.receive(), {"status": "admitted"})
    await on.peer.receive()
    await on.peer.receive()


async def lagged(on: Stage) -> None:
    with on.peer.unwritten():
        await on.peer.call("daemon.watch")
        for _ in range(40):
            await on.aside.call("reminder.create", BUILD | {"prompt": "\N{SNOWFLAKE}" * 32_768})
        while (frame := await on.peer.receive())["method"] != "watch.lagged":
            pass
    on.peer.lines.append(f"← {readable(frame)}")


async def attach(on: Stage) -> None:
    await on.peer.call("host.attach", {"name": "my-host", "sessions": ["team", "build-7"]})


async def detach(on: Stage) -> None:
    with on.peer.unwritten():
        await on.peer.call("host.attach", {"name": "my-host", "sessions": ["team", "build-7"]})
    await on.peer.call("host.detach", {"sessions": ["build-7"]})


async def followup(on: Stage) -> None:
    with on.peer.unwritten():
        await on.peer.call("reminder.create", BUILD)
        await on.peer.call("host.attach", {"name": "my-host", "sessions": ["build-7"]})
    on.clock.advance(1200)
    request = await on.peer.receive()
    await on.peer.answer(request, {"status": "admitted", "message_id": "m-31"})


async def ready(on: Stage) -> None:
    on.shorten_text()
    with on.peer.unwritten():
        await on.peer.call("reminder.create", BUILD)
        await on.peer.call("host.attach", {"name": "my-host", "sessions": ["build-7"]})
    on.clock.advance(1200)
    request = await on.peer.receive()
    await on.peer.answer(request, {"status": "busy", "retry_after_seconds": 300})
    await on.peer.notify("session.ready", {"session_id": "build-7"})
    request = await on.peer.receive()
    await on.peer.answer(request, {"status": "admitted"})


async def life(on: Stage) -> None:
    on.shorten_text()
    for params in (STAND_UP, DISK, CALL_BACK):
        await on.aside.call("reminder.create", params)
    on.clock.advance(13 * HOURS)
    await on.peer.call("host.attach", {"name": "my-host", "sessions": ["team"]})
    one_shot = await on.peer.receive()
    await on.peer.answer(one_shot, {"status": "admitted", "message_id": "m-1"})
    batch = await on.peer.receive()
    await on.peer.answer(batch, {"status": "admitted", "message_id": "m-2"})


async def text(on: Stage) -> None:
    for params in (STAND_UP, DISK):
        await on.aside.call("reminder.create", params)
    on.clock.advance(13 * HOURS)
    await on.aside.call("host.attach", {"name": "my-host", "sessions": ["team"]})
    batch = await on.aside.receive()
    on.peer.lines.append(batch["params"]["text"])


SCENES: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "errors on the wire": wire_errors,
    "hello": hello,
    "reminder.create": create,
    "a refusal": refusal,
    "reminder.get": get,
    "reminder.list": list_reminders,
    "reminder.update": update,
    "reminder.delete": delete,
    "reminder.pause": pause,
    "reminder.resume": resume,
    "reminder.snooze": snooze,
    "reminder.skip": skip,
    "reminder.run_now": run_now,
    "reminder.preview": preview,
    "reminder.history": history,
    "session.list": list_sessions,
    "session.forget": forget,
    "session.transfer": transfer,
    "daemon.status": status,
    "daemon.watch": watch,
    "host.attach": attach,
    "host.detach": detach,
    "session.ready": ready,
    "session.followup": followup,
    "reminder.changed": reminder_changed,
    "watch.lagged": lagged,
    "the life of a host": life,
    "the text of a batch": text,
}


async def record(name: str) -> str:
    """What the scene of this name puts on the page."""
    async with stage() as on:
        await SCENES[name](on)
        return "".join(f"{line}\n" for line in on.peer.lines)


async def record_all() -> dict[str, str]:
    return {name: await record(name) for name in SCENES}


if __name__ == "__main__":
    configure("error", "text", sys.stderr)
    recorded = asyncio.run(record_all())
    old = page.PAGE.read_text(encoding="utf-8")
    page.PAGE.write_text(page.with_transcripts(old, recorded), encoding="utf-8")
