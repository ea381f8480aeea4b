"""Packages that only some verbs need, and that a plain installation does not bring."""

from __future__ import annotations

from importlib import import_module

from scheduler_daemon.cli.exits import FailedError


def need(module: str, package: str, extra: str) -> None:
    """Raises FailedError where `module` cannot be imported: `package` of an `extra` has it."""
    try:
        import_module(module)
    except ModuleNotFoundError:
        raise FailedError(
            f"this needs the package {package}, which the extra `{extra}` brings: "
            f"pip install {package}"
        ) from None
