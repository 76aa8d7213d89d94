"""Write the generated pages.

They are docs/cli.md, docs/json.md, the keys of docs/config.md, and the tables of docs/loop.md and
docs/clients.md. `make docs` runs this; `tests/test_docs.py` fails if a page and the program disagree.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click

from ralph.cli.help_topics import TOPICS
from ralph.cli.main import cli
from ralph.core.config import KEYS, TRUSTED, as_json
from ralph.core.config_files import ConfigKey
from ralph.core.graph import Edge, Node, NodeType, Relation
from ralph.core.record import MemoryKind, Origin, Outcome, Record
from ralph.core.work import Feature, JournalEntry, Task
from ralph.install.clients import CLIENTS
from ralph.loop import run_shapes
from ralph.loop.state import EndReason, Run
from ralph.memory import record_shapes
from ralph.recall import json_shapes as shapes
from ralph.recall.sessions import Session
from ralph.storage.features import FeatureView
from ralph.tasks import task_shapes
from ralph.tasks.task import ListedTask

DOCS = Path(__file__).parent
INTRO = """\
# The commands

Generated from the program by `make docs`; `ralph COMMAND --help` prints the same.

Exit codes: 0 success, 1 failed or not found, 2 wrong usage, 130 interrupted. Every listing supports
`--format json`, which is valid JSON even if the listing is empty. Notes and warnings go to standard error.
"""


JSON_INTRO = """\
# JSON

Generated from `src/ralph/recall/json_shapes.py` by `make docs`. The command line (`--format json`), MCP and the pages use
these names. A listing is an array and a single item an object; both are valid JSON even if there is nothing. A search hit
is a record with `family`, `score`, `why`, `tokens` and `excerpt`, the text that the chosen layer shows.
"""


def _default(key: ConfigKey) -> str:
    return json.dumps(as_json(key.default)).strip('"')


def _limit(key: ConfigKey) -> str:
    if not key.personal:
        return ""
    return (
        "In a project's files only after `ralph trust`."
        if key.name in TRUSTED
        else "Not in a project's files."
    )


def keys_table() -> str:
    """Return the table of all keys, for docs/config.md."""
    rows = ["| key | value | default | variable | what it does |", "|---|---|---|---|---|"]
    for key in KEYS:
        default = f"`{_default(key)}`" if _default(key) and not key.ignored else "-"
        doc = f"{key.doc} {_limit(key)}".rstrip()
        rows.append(f"| `{key.name}` | {key.expected} | {default} | `{key.variable}` | {doc} |")
    return "\n".join(rows) + "\n"


def commands(
    command: click.Command, path: tuple[str, ...] = ("ralph",)
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group, parents first."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path[-1]) as ctx:
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                if child is not None and not child.hidden:
                    yield from commands(child, (*path, name))


def help_text(name: str, command: click.Command) -> str:
    """Return what `--help` prints, at a fixed width."""
    names = ["-h", "--help"]
    with click.Context(
        command, info_name=name, max_content_width=100, terminal_width=100, help_option_names=names
    ) as ctx:
        return command.get_help(ctx).rstrip()


def cli_page() -> str:
    """Return the page docs/cli.md."""
    parts = [INTRO]
    for name, command in commands(cli):
        parts.append(
            f"{'#' * min(len(name.split()) + 1, 4)} {name}\n\n```\n{help_text(name, command)}\n```\n"
        )
    for topic, text in TOPICS.items():
        parts.append(f"## ralph help {topic}\n\n```\n{text}```\n")
    return "\n".join(parts)


def config_page(text: str) -> str:
    """Return docs/config.md with its table of keys updated."""
    pattern = re.compile(r"(<!-- generated: keys -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: match[1] + keys_table().strip("\n") + match[2], text)


def loop_page(text: str) -> str:
    """Return docs/loop.md with its table of exit codes updated."""
    rows = ["| exit code | reason | meaning |", "|---|---|---|"]
    rows += [f"| {reason.code} | `{reason.value}` | {reason.meaning} |" for reason in EndReason]
    table = "\n".join(rows)
    pattern = re.compile(r"(<!-- generated: exit codes -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def clients_page(text: str) -> str:
    """Return docs/clients.md with its table updated."""
    heads = [
        "client",
        "name",
        "records",
        "at the start",
        "at a prompt",
        "at a tool",
        "MCP",
        "tested",
    ]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for host, client in CLIENTS.items():
        cells = ["yes" if able else "-" for able in client.abilities.values()]
        rows.append(
            f"| {client.title} | `{host}` | {' | '.join(cells)} | {client.tested_version or 'not run'} |"
        )
    table = "\n".join(rows)
    pattern = re.compile(r"(<!-- generated: clients -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def json_examples() -> Iterator[tuple[str, Callable[..., object], object]]:
    """Yield one example of each noun: its name, its function in json_shapes, and the function's result."""
    edge = Edge(
        "mem-1705751400-a3f8", Relation.AFFECTS, "file:src/db.ts", "2026-01-20", explicit=True
    )
    text, about = "ECONNREFUSED: run docker compose up first", Origin(by="human")
    record = Record("mem-1705751400-a3f8", MemoryKind.FIX, text, tags=("docker",), origin=about)
    record = replace(record, created_at="2026-01-20")
    task = ListedTask(Task("t-1a2b3c", "Refund an order", priority=1), is_ready=True)
    session = Session(
        "3f2a", "2026-01-20T10:00:00Z", "2026-01-20T10:20:00Z", "claude", prompt="fix the login"
    )
    entry = JournalEntry(
        "run-1a2b3c4d", 1, Outcome.DONE, "t-1a2b3c", "Refund an order", duration=61.5
    )
    run = Run("run-1a2b3c4d", "make the tests pass", agent="claude")
    yield (
        "Record",
        record_shapes.record_json,
        record_shapes.record_json(record, ".agent/memories.md:5"),
    )
    yield (
        "Memory",
        record_shapes.memory_json,
        record_shapes.memory_json(record, ".agent/memories.md:5"),
    )
    yield "Task", task_shapes.task_json, task_shapes.task_json(task)
    yield (
        "Feature",
        task_shapes.feature_json,
        task_shapes.feature_json(FeatureView(Feature("f-0c0ffe", "Refunds"), Path())),
    )
    yield "Session", shapes.session_json, shapes.session_json(session)
    yield (
        "Run",
        run_shapes.run_json,
        run_shapes.run_json(run, alive=True, heartbeat="2026-01-20T10:00:00Z"),
    )
    yield "Journal entry", shapes.journal_json, shapes.journal_json(entry)
    yield (
        "Node",
        shapes.node_json,
        shapes.node_json(Node("file:src/db.ts", NodeType.FILE, "src/db.ts")),
    )
    yield "Edge", shapes.edge_json, shapes.edge_json(edge)


def json_page() -> str:
    """Return the page docs/json.md."""
    parts = [JSON_INTRO]
    for noun, function, example in json_examples():
        text = json.dumps(example, indent=2, ensure_ascii=False)
        parts.append(f"## {noun}\n\n{inspect.getdoc(function)}\n\n```json\n{text}\n```\n")
    return "\n".join(parts)


PAGES = {
    "json.md": lambda text: json_page(),
    "cli.md": lambda text: cli_page(),
    "config.md": config_page,
    "loop.md": loop_page,
    "clients.md": clients_page,
}
"""Every page that is generated, in whole or in part."""


def main() -> None:
    """Write the pages that changed."""
    for name, page in PAGES.items():
        path = DOCS / name
        text = page(path.read_text(encoding="utf-8") if path.exists() else "")
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="")
            sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
