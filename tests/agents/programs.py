"""The real agents, each set up in a home of its own to talk to the stand-in for a model.

They are looked for in the folders of SCHEDULER_DAEMON_TEST_AGENTS (as in a PATH), and skipped where
they are not: `npm install @openai/codex opencode-ai @anthropic-ai/claude-code` has three of them,
`pip install --pre deepseek-harness-sdk` the fourth, some hundred megabytes each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from tests.agents.model import Model

WHERE = "SCHEDULER_DAEMON_TEST_AGENTS"
DEADLINE_SECONDS = 180.0
"""A first turn on a loaded machine takes half a minute."""


class Agent(ABC):
    """One agent in `home`, with a project to work in; `environ` is what its processes get."""

    name: str

    def __init__(self, home: Path, model: Model) -> None:
        folders = os.environ.get(WHERE)
        if not folders:
            pytest.skip(f"real agents are tried where {WHERE} says in which folders they are")
        program = shutil.which(self.name, path=folders)
        if program is None:
            pytest.skip(f"{self.name} is not in {folders}")
        self.program = program
        self.home = home
        self.model = model
        self.project = home / f"project-{self.name}"
        self.project.mkdir(exist_ok=True)
        self.path = f"{folders}:/usr/bin:/bin"
        self.environ = self.settings()

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Write its configuration; return the variables that it needs."""

    @abstractmethod
    def begin(self, text: str) -> str:
        """Make a Session in the project, with this as its first turn; its id."""

    @abstractmethod
    def delete(self, session: str) -> None:
        """Let the agent forget the Session."""

    def run(self, *words: str, stdin: str = "", status: int = 0) -> str:
        """Run the agent in the project; what it printed."""
        ended = subprocess.run(
            [self.name, *words],
            executable=self.program,
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.project,
            env=self.whole_environ() | {"PWD": str(self.project)},
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert ended.returncode == status, f"{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def whole_environ(self) -> dict[str, str]:
        return {"PATH": self.path, "HOME": str(self.home), "LANG": "C.UTF-8"} | self.environ


class Claude(Agent):
    """Claude Code."""

    name = "claude"

    def settings(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "sk-fake",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            # Whether and how long a headless turn waits for its tools.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_CONNECT_TIMEOUT_MS": "120000",
            "MCP_TIMEOUT": "120000",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def begin(self, text: str) -> str:
        session = str(uuid.uuid4())
        self.run("-p", "--output-format", "json", "--session-id", session, stdin=text)
        return session

    def delete(self, session: str) -> None:
        (found,) = (self.home / ".claude/projects").glob(f"*/{session}.jsonl")
        found.unlink()


class Codex(Agent):
    """Codex."""

    name = "codex"

    def settings(self) -> dict[str, str]:
        home = self.home / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f"""
            model = "fake"
            model_provider = "fake"
            approval_policy = "never"
            sandbox_mode = "read-only"
            check_for_update_on_startup = false
            [model_providers.fake]
            name = "fake"
            base_url = "{self.model.url}/v1"
            wire_api = "responses"
            requires_openai_auth = false
            [projects."{self.project}"]
            trust_level = "trusted"
            """
        )
        return {"CODEX_HOME": str(home)}

    def begin(self, text: str) -> str:
        out = self.run("exec", "--skip-git-repo-check", "--json", "-", stdin=text)
        session: str = json.loads(out.splitlines()[0])["thread_id"]
        return session

    def delete(self, session: str) -> None:
        for found in (self.home / ".codex").rglob(f"*{session}*"):
            found.unlink()


class Opencode(Agent):
    """opencode."""

    name = "opencode"

    def settings(self) -> dict[str, str]:
        options = {"baseURL": f"{self.model.url}/v1", "apiKey": "x"}
        models = {"fake": {"name": "fake", "limit": {"context": 100_000, "output": 4_000}}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "loopback"}
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": "fake/fake",
            "small_model": "fake/fake",
            "provider": {"fake": {**provider, "options": options, "models": models}},
        }
        (self.project / "opencode.json").write_text(json.dumps(config))
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def begin(self, text: str) -> str:
        out = self.run("run", "--format", "json", stdin=text)
        session: str = json.loads(out.splitlines()[0])["sessionID"]
        return session

    def delete(self, session: str) -> None:
        self.run("session", "delete", session)


class Dsh(Agent):
    """DeepSeek Harness."""

    name = "dsh"

    def settings(self) -> dict[str, str]:
        return {
            "DSH_HOME": str(self.home / ".dsh"),
            "DEEPSEEK_BASE_URL": f"{self.model.url}/v1",
            "DEEPSEEK_API_KEY": "sk-fake",
        }

    def begin(self, text: str) -> str:
        self.run("--profile", "headless", "-", stdin=text)
        return self._sessions()[-1].name

    def delete(self, session: str) -> None:
        for found in self._sessions():
            if found.name == session:
                shutil.rmtree(found)

    def _sessions(self) -> list[Path]:
        found = (self.home / ".dsh").rglob("session-*")
        return sorted((each for each in found if each.is_dir()), key=lambda p: p.stat().st_mtime)


AGENTS: dict[str, type[Agent]] = {each.name: each for each in (Claude, Codex, Opencode, Dsh)}
