"""JSON schemas in the plain form that every agent's model takes: no references, unions or null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

EXAMPLE_ZONE = "Europe/Berlin"
"""The zone in the examples below, where no other is to be assumed."""

_TIME_ZONE: Schema = {
    "type": "string",
    "description": 'An IANA name, or UTC. Example: "Europe/Berlin"',
}


def _object(description: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


ONCE: dict[str, Schema] = {
    "after_seconds": {
        "type": "integer",
        "minimum": 1,
        "description": 'Once, so many seconds from now. In 20 minutes: {"after_seconds": 1200}',
    },
    "at": _text(
        "Once, at an instant with its offset from UTC. Example: "
        '{"at": "2026-12-24T18:00:00+01:00"}. With Z in place of the offset it is UTC'
    ),
    "at_local": _object(
        'Once, at a date and time on the clock of a zone. Example: {"at_local": {"date": '
        '"2026-12-24", "time": "18:00:00", "time_zone": "Europe/Berlin"}}',
        date=_text('YYYY-MM-DD. Example: "2026-12-24"'),
        time=_text('HH:MM:SS, 24 hours. Example: "18:00:00"'),
        time_zone=_TIME_ZONE,
    ),
}
RECURRING: dict[str, Schema] = {
    "every_seconds": {
        "type": "integer",
        "minimum": 300,
        "description": "Again and again at this distance, at least 300. Every two hours: "
        '{"every_seconds": 7200}. For a time of day take daily, weekly or cron',
    },
    "daily": _object(
        'Every day at a time. Example: {"daily": {"time": "09:00", "time_zone": "Europe/Berlin"}}',
        time=_text('HH:MM, 24 hours. Example: "09:00"'),
        time_zone=_TIME_ZONE,
    ),
    "weekly": _object(
        'On some weekdays at a time. From Monday to Friday: {"weekly": {"weekdays": '
        '[1, 2, 3, 4, 5], "time": "09:00", "time_zone": "Europe/Berlin"}}',
        weekdays={
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 7},
            "description": "Monday is 1, Sunday is 7. Example: [1, 3]",
        },
        time=_text('HH:MM, 24 hours. Example: "09:00"'),
        time_zone=_TIME_ZONE,
    ),
    "cron": _object(
        "What no other member can say. On the first of each month at nine: "
        '{"cron": {"expression": "0 9 1 * *", "time_zone": "Europe/Berlin"}}',
        expression=_text(
            'minute hour day-of-month month day-of-week. Example: "*/15 9-17 * * mon-fri"'
        ),
        time_zone=_TIME_ZONE,
    ),
}


def when(members: Mapping[str, Schema]) -> Schema:
    """The schema of an object with exactly one of `members`."""
    return {
        "type": "object",
        "description": f"When it comes: an object with exactly one of {', '.join(members)}",
        "properties": dict(members),
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


def schema_of(model: type[BaseModel]) -> Schema:
    """The schema of a model: what may be None is left out in place of null."""
    whole = model.model_json_schema()
    return _plain(whole, whole.get("$defs", {}))


def _plain(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    if "$ref" in schema:
        schema = {**defs[schema["$ref"].rpartition("/")[2]], **schema}
    rest = {"title", "$ref", "$defs", "anyOf"}
    plain = {name: value for name, value in schema.items() if name not in rest}
    for option in schema.get("anyOf", []):
        if option != {"type": "null"}:
            plain = {**_plain(option, defs), **plain}
    if plain.get("default", ...) is None:
        del plain["default"]
    if "properties" in plain:
        plain["properties"] = {
            name: _plain(each, defs) for name, each in plain["properties"].items()
        }
    if "items" in plain:
        plain["items"] = _plain(plain["items"], defs)
    return plain
