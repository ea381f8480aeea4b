"""What each agent needs to have reminders as tools, and in which of its files that stands."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.setup.edits import Edit, JsonEdit, TextEdit, TomlEdit
from scheduler_daemon.cli.setup.jsonc import Value
from scheduler_daemon.cli.setup.weaving import Piece, state

NAME = "reminders"
"""How agents call the server; the names of its tools begin with it."""

START_SECONDS = 60
"""How long an agent may wait for the tools: a loaded machine takes more than most agents do."""

Object: TypeAlias = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Server:
    """How `schedctl mcp` is started: `words`, with `variables` in its environment.

    `key` is the file by which a hook or plugin proves which Session it is from.
    """

    words: Sequence[str]
    socket: str
    key: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def args(self, *more: str) -> list[str]:
        """All words, the program first."""
        return [*self.words, "mcp", "--socket", self.socket, *more]

    def from_argument(self) -> list[str]:
        """The options of a server that is told the Session by a hook or plugin."""
        return ["--session-from-argument", "--session-proof", self.key]

    def environment(self, name: str) -> Object:
        """The variables as a member of an entry; none where there are none."""
        return {name: {**self.variables}} if self.variables else {}


Edits: TypeAlias = "list[tuple[Path, Edit]]"
"""What is put into which files, the hook before what needs it."""


class Places(NamedTuple):
    """Where an agent has its configuration, by its environment and this user's home."""

    environ: Mapping[str, str]
    home: Path

    def folder(self, agent: str) -> Path:
        """The folder of it."""
        variable, usual = _FOLDERS[agent]
        given = self.environ.get(variable, "")
        if agent == "opencode":  # its variable is that of many programs
            return (Path(given) if given.startswith("/") else self.home / ".config") / "opencode"
        return Path(given).absolute() if given else self.home / usual


_FOLDERS = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "opencode": ("XDG_CONFIG_HOME", ".config"),
}


def claude(server: Server, places: Places) -> Edits:
    """Claude Code: an entry of this user, and a hook that says which Session a call is from."""
    folder = places.folder("claude")
    settings = folder / "settings.json"
    entries = folder / ".config.json"  # where versions of long ago had it
    if not entries.exists():
        moved = places.environ.get("CLAUDE_CONFIG_DIR")
        entries = (folder if moved else places.home) / ".claude.json"
    _check_hooks_run(settings)
    command, *args = server.args(*server.from_argument(), "--agent", "claude")
    entry: Object = {"type": "stdio", "command": command, "args": [*args]}
    entry |= server.environment("env")
    entry["alwaysLoad"] = True  # or its first turn may begin without the tools
    hook: Object = {"type": "command", "command": hook_command(server)}
    matcher: Object = {"matcher": f"mcp__{NAME}__.*", "hooks": [hook]}
    pieces = (Piece(("hooks", "PreToolUse"), matcher, listed=True),)
    return [
        (settings, JsonEdit(pieces)),
        (entries, JsonEdit((Piece(("mcpServers", NAME), entry),))),
    ]


def hook_command(server: Server) -> str:
    """A line for the shell. A hook that cannot run must not let the call pass: 2 stops it."""
    words = [*server.words, "mcp", "--claude-hook", "--session-proof", server.key]
    if server.variables:
        words = ["env", *(f"{name}={text}" for name, text in server.variables.items()), *words]
    return f"{shlex.join(words)} || exit 2"


def _check_hooks_run(settings: Path) -> None:
    """Raises FailedError where the hook would not run, and the model's word would count."""
    try:
        text = settings.read_text("utf-8")
        off = state(text, Piece(("disableAllHooks",), True)) == "there"
    except (OSError, ValueError):
        return  # whoever edits the file says what is wrong with it
    if off:
        raise FailedError(
            f"{settings} has disableAllHooks: without its hook nothing tells Claude Code's "
            "conversations from each other; nothing was changed"
        )


def codex(server: Server, places: Places) -> Edits:
    """Codex: it says by itself which Session a call is from."""
    command, *args = server.args("--agent", "codex")
    table: Object = {"command": command, "args": [*args]}
    table |= server.environment("env")
    table["required"] = True  # or a turn without a terminal may begin without the tools
    table["startup_timeout_sec"] = START_SECONDS
    comment = "Reminders: `schedctl setup codex` wrote this, `… --undo` takes it out."
    edit = TomlEdit(("mcp_servers", NAME), table, comment)
    return [(places.folder("codex") / "config.toml", edit)]


_PLUGIN = """\
// Tells the tools of `schedctl mcp` which Session calls them, whatever the model wrote there.
// `schedctl setup opencode` wrote this file, `schedctl setup opencode --undo` removes it.

import {{ createHmac }} from "node:crypto"
import {{ readFileSync }} from "node:fs"

// Only who has this key can say to the tools which Session it is: a model cannot.
const proof = (session) => {{
  const key = Buffer.from(readFileSync({key}, "utf8").trim(), "hex")
  return createHmac("sha256", key).update(session).digest("hex")
}}

export const SchedulerDaemon = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    if (!input.tool.startsWith("{name}_reminder_")) return
    // In place, because opencode does not look at another object.
    const session = input.sessionID
    Object.assign(output.args, {{ session, session_proof: proof(session), directory }})
  }},
}})
"""


def opencode(server: Server, places: Places) -> Edits:
    """opencode: an entry, and a plugin that says which Session a call is from."""
    folder = places.folder("opencode")
    names = ("opencode.jsonc", "opencode.json", "config.json")  # in its own order
    found = [folder / name for name in names if os.path.lexists(folder / name)]
    command: Value = [*server.args(*server.from_argument(), "--agent", "opencode")]
    entry: Object = {"type": "local", "command": command, "enabled": True}
    entry |= server.environment("environment")
    entry["timeout"] = START_SECONDS * 1000
    plugin = _PLUGIN.format(name=NAME, key=json.dumps(server.key))
    return [
        (folder / "plugin/scheduler-daemon.js", TextEdit(plugin)),
        (found[0] if found else folder / names[1], JsonEdit((Piece(("mcp", NAME), entry),))),
    ]


AGENTS: Mapping[str, Callable[[Server, Places], Edits]] = {
    "claude": claude,
    "codex": codex,
    "opencode": opencode,
}


def any_client(server: Server, session: Sequence[str]) -> Object:
    """What stands below `mcpServers`; `session` are the options that say which one is meant."""
    command, *args = server.args(*session)
    entry: Object = {"command": command, "args": [*args]}
    return {NAME: entry | server.environment("env")}


def in_file(path: Path, entries: Object) -> Edits:
    """Such an entry in a file that any client reads."""
    return [(path, JsonEdit((Piece(("mcpServers", NAME), entries[NAME]),)))]
