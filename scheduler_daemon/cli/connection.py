"""The client of one command, and the warning that it may be talking to one daemon of two."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import output
from scheduler_daemon.client import Client
from scheduler_daemon.client.finding import answering


def connect(args: argparse.Namespace) -> Client:
    """A client of the daemon of `--socket`, or of the first one found. Raises DaemonUnreachable."""
    return Client(args.socket)


def warn_of_a_second(args: argparse.Namespace) -> None:
    """One line on stderr where two daemons answer: what is made in one is not seen in the other.

    A socket that was named, by option or environment, stands alone and gives no warning.
    """
    found = answering(args.socket)
    if len(found) > 1:
        output.note(
            f"warning: {len(found)} daemons answer ({', '.join(found)}); this is about the first: "
            "name the one you mean with --socket"
        )
