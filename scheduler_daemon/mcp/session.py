"""Which Session a tool call belongs to. Whoever runs the agent says so, never its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler_daemon import words
from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.mcp.proof import proves

META_KEYS = ("threadId", "sessionId", "ai.opencode/sessionID")
"""Where agents put the conversation's id into the `_meta` of a call: Codex, and opencode 2."""

PLACEHOLDER = "auto"
"""What a model writes for `session`. A call that still has it has met no hook and no plugin."""

_UNFILLED = (
    "this agent's hook or plugin did not fill in `session`, so nothing says which conversation "
    "this is, and nothing was done. Tell the person: `schedctl setup` installs it"
)
_UNPROVEN = (
    "this agent's hook or plugin did not run, so nothing proves which conversation this is, and "
    "nothing was done. Tell the person: hooks or plugins of this agent are turned off, or changed "
    "since `schedctl setup` wrote them, which installs them"
)
_UNWANTED = (
    "`session` is no argument here: this agent says by itself which conversation is meant. Leave "
    "it out"
)
_UNKNOWN = (
    "nothing says which conversation this is, so nothing was done. Tell the person: `schedctl mcp` "
    "wants --session, --session-from-env or --session-from-argument with this agent"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """What says which Session is meant, beside the `_meta` of a call.

    `argument`: the member `session` of a call's arguments, which a hook or plugin of the agent
    always overwrites; with a `key`, only where that has proven it (proof.py). `environment`: the
    name of a variable and its value. `fixed`: one Session for every call. Of those that say
    something all must say the same.
    """

    argument: bool = False
    environment: tuple[str, str] | None = None
    fixed: str | None = None
    key: bytes | None = None

    def check(self, arguments: Mapping[str, object]) -> None:
        """Refuse a call that names a Session where it is not the arguments that do."""
        if "session" in arguments and not self.argument:
            raise InvalidRequest(_UNWANTED, field="session")

    def session_of(self, meta: Mapping[str, object], arguments: Mapping[str, object]) -> str:
        """The Session of a call. Raises InvalidRequest where none is named, or two are."""
        self.check(arguments)
        found = dict(self._found(meta, arguments))
        if not found:
            raise InvalidRequest(_UNKNOWN, field="session")
        if len(set(found.values())) > 1:
            raise InvalidRequest(
                f"{' and '.join(found)} name different conversations, so nothing was done. Tell "
                "the person: only one of them can be right",
                field="session",
            )
        return next(iter(found.values()))

    def _found(
        self, meta: Mapping[str, object], arguments: Mapping[str, object]
    ) -> Iterator[tuple[str, str]]:
        """Each source that says something, and the Session that it names."""
        if self.argument:
            given = arguments.get("session")
            if given in (None, "", PLACEHOLDER):
                raise InvalidRequest(_UNFILLED, field="session")
            session = checked(given)
            if self.key and not proves(self.key, session, arguments.get("session_proof")):
                raise InvalidRequest(_UNPROVEN, field="session")
            yield "the argument `session`", session
        for key in META_KEYS:
            if meta.get(key) not in (None, ""):
                yield f"`_meta.{key}`", checked(meta[key])
        if self.environment is not None:
            variable, value = self.environment
            yield f"the variable {variable}", checked(value)
        if self.fixed is not None:
            yield "the option --session", checked(self.fixed)


def checked(value: object) -> str:
    """`value` as the name of a Session. Raises InvalidRequest."""
    if not isinstance(value, str):
        raise InvalidRequest("the id of a conversation must be a string", field="session")
    try:
        return words.session_name(value)
    except ValueError as error:
        raise InvalidRequest(f"the id of a conversation {error}", field="session") from None
