"""The house as it is drawn: who may import whom, who reads clocks, who has SQL, who has sockets."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

import scheduler_daemon
from tests.support.fresh import unmeasured

PACKAGE = Path(scheduler_daemon.__file__).parent
ROOT = "scheduler_daemon"

LAYERS = [
    {"", "cores", "errors", "limits", "model", "text", "wall", "places", "systemd", "ways"},
    {"words", "clock", "rules", "settings", "log", "cursors"},
    {"wire", "params", "encoding", "config"},
    {"delivery", "store", "hosts", "client", "watching"},
    {"acts", "changes", "exec_host", "filters", "planning", "sessions", "star_scans", "targets"},
    {"telling", "troubles"},
    {"views", "retention", "sending", "unclaimed", "under_way", "upkeep"},
    {"scheduler"},
    {"desk"},
    {"reminder_acts", "session_care"},
    {"service"},
    {"heart", "status"},
    {"server"},
    {"assembly", "mcp"},
    {"daemon", "cli"},
    {"__main__"},
]
"""Parts of the package, the lowest first: a part imports lower ones, or of its layer as it is."""

OWN_PARTS = {
    "scheduler_daemon.wire.params": "params",
    "scheduler_daemon.wire.encoding": "encoding",
}
"""Modules that stand apart from their folder: what pydantic is needed for."""

ONLY = {
    "errors": set(),
    "model": set(),
    "rules": {"errors", "model"},
    "delivery": {"encoding", "errors", "model", "rules", "wire"},
    "wire": {"errors", "words"},
    "params": {"errors", "words"},
    "encoding": {"wire"},
    "words": {"errors"},
    "store": {"errors", "log", "model", "places", "rules", "ways"},
    "watching": {"encoding", "wire"},
    "client": {"", "errors", "wall", "wire"},
    "exec_host": {"", "client", "delivery", "log", "wire"},
    # config, exec_host, places and store inside functions only: for the verbs that need them
    "cli": {
        *("", "client", "errors", "mcp", "model", "rules", "wall", "ways", "wire"),
        *("config", "exec_host", "places", "store"),
    },
    "mcp": {"", "client", "errors", "rules", "wall", "wire", "words"},
    "hosts": {"clock", "errors", "model", "wire", "words"},
    "server": {
        *("", "clock", "errors", "log", "model", "rules", "words", "wire", "params"),
        *("desk", "encoding", "hosts", "scheduler", "service", "status", "watching", "ways"),
    },
}
"""Parts of which the design says what they may import, beside the standard library."""

OUTSIDE = {
    "aiosqlite": {"store"},
    "sqlite3": {"store", "daemon", "status", "retention", "upkeep", "cli", "client"},
    "socket": {"server", "client", "assembly", "systemd"},
    "socketserver": set(),
    "time": {"clock"},
    "pydantic": {"params", "settings", "config", "mcp"},
    "pydantic_core": {"encoding"},
    "structlog": {"log"},
    "subprocess": {"cli", "exec_host"},
    "tzdata": {"rules"},
    "prometheus_client": {"cli"},
    "icalendar": {"cli"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "anyio": {"mcp"},
    "shtab": {"cli"},
}
"""Modules that only some parts may have. sqlite3: for its version and for types outside store/,
for the receipts that `schedctl demo` shows, and for the queues of hosts; socket: for a type in
assembly.py."""

PURE = {
    "errors",
    "model",
    "rules",
    "delivery",
    "wire",
    "words",
    "text",
    "views",
    "acts",
    "changes",
    "filters",
    "watching",
}
IO_MODULES = {"asyncio", "os", "io", "threading", "select", "signal", "shutil", "logging", "random"}

CLOCK_METHODS = {"now", "utcnow", "today", "time"}

SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|BEGIN|PRAGMA|COMMIT|WITH)\b.*\S", re.DOTALL
)


def names() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MODULES = names()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def part(module: str) -> str:
    """The part that a module of the package belongs to."""
    return OWN_PARTS.get(module) or [*module.split("."), ""][1]


def imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[str]:
    """The modules that import statements name; `from package import module` names the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else str(node.module)


@cache
def all_imports(module: str) -> set[str]:
    """Also those inside functions, and those for type checkers only."""
    return set(imported(ast.walk(tree(module))))


def arrows() -> Iterator[tuple[str, str]]:
    """Every import of one module of the package by another."""
    for module in MODULES:
        for other in all_imports(module):
            if other.split(".")[0] == ROOT:
                yield module, other


def layer(of: str) -> int:
    return next(number for number, parts in enumerate(LAYERS) if of in parts)


def test_every_part_has_its_layer() -> None:
    parts = {part(module) for module in MODULES}
    assert sorted(parts) == sorted(part for parts in LAYERS for part in parts)


def test_no_part_imports_one_that_stands_above_it() -> None:
    upwards = {
        f"{module} imports {other}"
        for module, other in arrows()
        if layer(part(other)) > layer(part(module))
    }
    assert not upwards


@pytest.mark.parametrize("name", ONLY)
def test_a_part_imports_only_what_the_design_lets_it(name: str) -> None:
    outside = {
        f"{module} imports {other}"
        for module, other in arrows()
        if part(module) == name and part(other) not in ONLY[name] | {name}
    }
    assert not outside


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module in MODULES:
        body = tree(module).body  # what runs at import; functions may come later
        graph[module] = {other for other in imported(body) if other in MODULES} - {module}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("outside", OUTSIDE)
def test_only_some_parts_have_a_module_from_outside(outside: str) -> None:
    having = {
        part(module)
        for module in MODULES
        if outside in {name.split(".")[0] for name in all_imports(module)}
    }
    assert having <= OUTSIDE[outside]


NETWORK = {"ssl", "http", "ftplib", "smtplib", "imaplib", "poplib", "socketserver", "xmlrpc"}
ADDRESSES = {"AF_INET", "AF_INET6", "AF_VSOCK", "AF_NETLINK", "getaddrinfo", "gethostbyname"}
CALLS = {"create_connection", "create_server", "open_connection", "start_server"}


def of_the_daemon() -> set[str]:
    """Modules that its process may ever load."""
    found, left = set[str](), [f"{ROOT}.__main__"]
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += [name for name in all_imports(module) if name in MODULES]
    return found


def test_the_daemon_speaks_to_no_other_machine() -> None:
    """Neither by a module for it nor by a socket of another family than Unix."""
    assert f"{ROOT}.server.listener" in of_the_daemon()
    speaking = {
        f"{module} imports {name}"
        for module in of_the_daemon()
        for name in all_imports(module)
        if name.split(".")[0] in NETWORK or name == "urllib.request"
    }
    named = {
        f"{module} has {node.attr}"
        for module in of_the_daemon()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and node.attr in ADDRESSES | CALLS
    }
    assert speaking | named == set()


def test_what_the_daemon_loads_fetches_nothing() -> None:
    loaded = run(
        "import sys, scheduler_daemon.daemon\n"
        "print({'http.client', 'urllib.request', 'ftplib', 'smtplib'} & set(sys.modules))"
    )
    assert loaded == "set()"


def test_what_is_pure_imports_nothing_that_acts() -> None:
    acting = {
        f"{module} imports {other}"
        for module in MODULES
        for other in all_imports(module)
        if part(module) in PURE and other.split(".")[0] in IO_MODULES
    }
    assert not acting


def clock_readings(module: str) -> Iterator[str]:
    """Calls that read a clock: `datetime.now()`, `date.today()`, `loop.time()` and their like."""
    for node in ast.walk(tree(module)):
        if not isinstance(node, ast.Attribute) or node.attr not in CLOCK_METHODS:
            continue
        owner = ast.unparse(node.value)
        on_a_date = owner.split(".")[-1] in ("datetime", "date")
        on_a_loop = owner == "loop" or owner.endswith("get_running_loop()")
        if on_a_loop if node.attr == "time" else on_a_date:
            yield f"{module} line {node.lineno}: {owner}.{node.attr}"


def test_only_the_clock_and_the_command_lines_wall_read_the_time() -> None:
    """The log has its stamps from the latter."""
    readings = [
        reading
        for module in MODULES
        for reading in clock_readings(module)
        if part(module) not in ("clock", "wall")
    ]
    assert not readings


def documentation(module: str) -> set[ast.expr]:
    """Strings that stand for themselves: docstrings and what stands below a name."""
    return {node.value for node in ast.walk(tree(module)) if isinstance(node, ast.Expr)}


def test_only_the_store_has_sql() -> None:
    """And `schedctl demo`, which shows receipts as a person with sqlite3 would read them, and the
    queue of a host, which is a file of its own."""
    having = {
        module
        for module in MODULES
        for node in set(ast.walk(tree(module))) - documentation(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
    }
    assert {module for module in having if part(module) != "store"} == {
        f"{ROOT}.cli.verbs.demo",
        f"{ROOT}.client.spool",
        f"{ROOT}.client.spool_file",
    }


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
        env=unmeasured(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_way_of_a_client_loads_nothing_heavy() -> None:
    verbs = [module for module in MODULES if module.startswith(f"{ROOT}.cli.verbs.")]
    light = [module for module in verbs if not module.endswith((".demo", ".host"))]
    loaded = run(
        "import importlib, sys\n"
        f"for name in {[f'{ROOT}.cli.main', *light, f'{ROOT}.client.sync']}:\n"
        "    importlib.import_module(name)\n"
        "print({'pydantic', 'structlog', 'aiosqlite', 'asyncio', 'sqlite3'} & set(sys.modules))"
    )
    assert loaded == "set()"


ACTS = """
import importlib, os, signal, sys, threading
acts = []
def note(event, args):
    if event == "open" and not (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    if event in ("open", "sqlite3.connect", "subprocess.Popen", "os.mkdir", "os.remove",
                 "os.rename", "os.putenv", "os.fork", "os.system", "_thread.start_new_thread",
                 "socket.__new__", "socket.bind", "socket.connect", "signal.pthread_kill"):
        acts.append((event, args))
handlers = {n: signal.getsignal(n) for n in signal.valid_signals()}
before = os.umask(0o022)
sys.addaudithook(note)
for name in %r:
    importlib.import_module(name)
changed = [n for n, handler in handlers.items() if signal.getsignal(n) is not handler]
print(acts, changed, threading.active_count() - 1, os.umask(before) - 0o022)
"""


def test_importing_the_package_acts_on_nothing() -> None:
    """No file, socket, thread, process or signal handler; `__main__` is there to act."""
    has_sdk = find_spec("mcp_types") is not None  # of the extra `mcp`
    modules = [
        module
        for module in MODULES
        if not module.endswith("__main__") and (has_sdk or part(module) != "mcp")
    ]
    assert run(ACTS % modules) == "[] [] 0 0"
