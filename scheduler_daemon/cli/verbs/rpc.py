"""`schedctl rpc`: any method of the protocol, its params and its result as they are."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, output
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.wire.frames import WireError, decode

USAGE = "METHOD [JSON] [options]"
ABOUT = "Call any method of the protocol, and print its result as a line of JSON."
EXAMPLES = """\
  schedctl rpc hello
  schedctl rpc reminder.list '{"status": "ended", "limit": 3}'
  schedctl rpc reminder.preview '{"every_seconds": 3600, "count": 2}'"""


def options(parser: Parser) -> None:
    parser.add_argument("method", metavar="METHOD", help="reminder.get, daemon.status, ...")
    parser.add_argument(
        "params", metavar="JSON", nargs="?", default="{}", help="an object (default {})"
    )


def run(args: argparse.Namespace) -> int:
    params = _params(args.params)
    with connection.connect(args) as client:
        result = client.call(args.method, params)
    output.say(output.json_line(result))
    return exits.DONE


def _params(text: str) -> dict[str, object]:
    try:
        params = decode(text.encode("utf-8"))
    except WireError as error:
        raise MisuseError(f"JSON: {error.message}") from None
    if not isinstance(params, dict):
        raise MisuseError('JSON must be an object, such as {"id": "r7"}')
    return params
