"""Describes everything that people and programs see: help, JSON members, exit codes, MCP schemas, HTTP routes.

`python -m tests.support.surface` writes the description to `tests/golden/surface/`; `tests/test_surface.py` compares.
Values are left out, so that only a change of the surface itself changes a file.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import click
from docs.generate import commands
from mcp import Client
from starlette.routing import Route
from tests.support import sample
from tests.support.asking import PORT, Site
from tests.support.runner import Project

from ralph.cli.main import cli
from ralph.mcp.server import build
from ralph.web import server

GOLDEN = Path(__file__).parents[1] / "golden" / "surface"
FREE_KEYS = {"extra", "indexed", "facets", "counts", "by_kind", "by_tag", "config"}
"""Members whose keys are data and not part of the surface."""

LISTINGS = """
memory list
memory show {memory}
memory search money
memory prime
memory list --in guardrails
memory list --in knowledge
memory list --in patterns
memory show {guardrail}
memory show {knowledge}
memory search money --in all
memory prime --in all
task list
task list --ready
task show {task}
feature show
review --status all
review show {insight}
search money
search money --layer 2
search money --only memories
search checkout --only tasks
search money --layer 3
search money --explain
search --around {observation}
graph show
graph show {memory}
graph show {memory} --hops 2
graph show --query money
graph show {memory} --to {other}
context
context rotateRefreshToken
context rotateRefreshToken --explain
session list
session show {session}
session show {session} --layer 3
session show {session} --summary
session show {session} --conversation
loop show
loop status {run}
loop show {run}
loop show {run} --iteration 1
loop show --journal
loop show {run} --journal
forget {memory}
doctor --citations
doctor --index
forget --old-logs
scratchpad
doctor
status
status --usage
config
config --origin
config --files
trust --list
doctor --agents
doctor --mcp
"""
"""Calls whose JSON is described; each gets `--format json`."""

EXITS = """
--version
--help
nonsense
add
version
help more
memory
memory rm
memory list
memory list --nonsense
memory list --type nonsense
memory show mem-1-0000
memory add
task show t-000000
task done t-000000
session show nobody
loop status nobody
config nonsense
config nonsense 1
forget
search
"""
"""Calls whose exit codes are described, in an empty project."""

ROUTES = {
    "/api/tasks/{id}": {"id": "task"},
    "/api/records/{id:path}/history": {"id:path": "memory"},
    "/api/records/{id:path}": {"id:path": "memory"},
    "/api/runs/{id}": {"id": "run"},
    "/api/runs/{id}/prompts/{number}": {"id": "run"},
    "/api/sessions/{id:path}": {"id:path": "session"},
}
QUERIES = {
    "/api/graph/neighbors": {"id": "memory"},
    "/api/graph/path": {"a": "memory", "b": "other", "from": "memory", "to": "other"},
}


def members(value: object, name: str = "") -> object:
    """The member names and types of a JSON value; items of an array are merged into one."""
    if isinstance(value, Mapping):
        if name in FREE_KEYS:
            return {"*": merge([members(each) for each in value.values()])} if value else {}
        return {key: members(each, key) for key, each in sorted(value.items())}
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [
            each for each in value if each is not None
        ] or value  # a day without figures depends on the clock
        return [merge([members(each) for each in items])] if value else []
    return (
        "null"
        if value is None
        else {bool: "boolean", int: "number", float: "number"}.get(type(value), "string")
    )


def merge(descriptions: Sequence[object]) -> object:
    """One description that fits all; members that not every object has end with `?`."""
    objects = [each for each in descriptions if isinstance(each, dict)]
    arrays = [each for each in descriptions if isinstance(each, list)]
    names = {part for each in descriptions if isinstance(each, str) for part in each.split(" | ")}
    parts: list[object] = [" | ".join(sorted(names))] if names else []
    if arrays:
        items = [item for each in arrays for item in each]
        parts.append([merge(items)] if items else [])
    if objects:
        keys = sorted({key.rstrip("?") for each in objects for key in each})
        merged = {}
        for key in keys:
            values = [
                each.get(key, each.get(f"{key}?"))
                for each in objects
                if key in each or f"{key}?" in each
            ]
            everywhere = len(values) == len(objects) and not any(
                f"{key}?" in each for each in objects
            )
            merged[key if everywhere else f"{key}?"] = merge(values)
        parts.append(merged)
    return parts[0] if len(parts) == 1 else parts


def help_tree() -> str:
    """Every command with its first line of help, its arguments and its options."""
    lines = []
    for name, command in commands(cli):
        lines.append(f"{name}: {(command.help or '').strip().splitlines()[0]}")
        for param in command.params:
            kind = param.type.choices if isinstance(param.type, click.Choice) else param.type.name
            if isinstance(param, click.Option):
                if param.name != "root":
                    takes = (
                        ""
                        if param.is_flag
                        else f" {'|'.join(kind) if not isinstance(kind, str) else kind}"
                    )
                    lines.append(f"    {', '.join(param.opts)}{takes}: {param.help}")
            else:
                lines.append(
                    f"    {param.metavar or (param.name or '').upper()}{'...' if param.nargs != 1 else ''}"
                )
    leaves = sum(not isinstance(command, click.Group) for _, command in commands(cli))
    return "\n".join([f"{leaves} commands", *lines]) + "\n"


def names_in(made: sample.Sample, ralph: Project) -> dict[str, str]:
    """The ids that listings are asked for."""
    knowledge = next(
        path.stem for path in sorted((made.root / ".ralph" / "knowledge").rglob("*.md"))
    )
    observation = ralph("search", "money", "--format", "json").json["hits"][0]["id"]
    return {
        "memory": made.memories["jwt"], "guardrail": next(reversed(made.memories.values())), "knowledge": knowledge,
        "task": made.tasks["rounding"], "insight": made.insights[0], "session": made.sessions[0],
        "run": made.runs[0], "second_run": made.runs[1], "observation": observation, "other": made.memories["keys"],
    }  # fmt: skip


def json_members(made: sample.Sample) -> str:
    """The members of every listing."""
    ralph = Project(made.root)
    names = names_in(made, ralph)
    described = {}
    for line in LISTINGS.split("\n"):
        words = line.format_map(names).split()
        if not words:
            continue
        answer = ralph(*words, "--format", "json")
        shown: object = f"exit {answer.code}: {answer.err.strip()}"
        with suppress(json.JSONDecodeError):
            shown = members(answer.json)
        described[f"ralph {line}"] = shown
    return text(described)


def exit_codes(empty: Project) -> str:
    """The exit codes of good and wrong calls."""
    calls = [line for line in EXITS.split("\n") if line]
    return "".join(f"{empty(*line.split()).code}  ralph {line}\n" for line in calls)


def mcp_schemas(root: Path) -> str:
    """What an MCP client lists."""

    async def listed() -> object:
        async with Client(build(root, {})) as client:
            tools = (await client.list_tools()).tools
            prompts = (await client.list_prompts()).prompts
            templates = (await client.list_resource_templates()).resource_templates
            return {
                "tools": [
                    each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in tools
                ],
                "prompts": [
                    each.model_dump(by_alias=True, exclude_none=True, mode="json")
                    for each in prompts
                ],
                "resources": [each.uri_template for each in templates],
            }

    return text(anyio.run(listed))


def http_routes(made: sample.Sample) -> str:
    """Every route, and the members of what a GET answers."""
    names = names_in(made, Project(made.root))
    client = Site(made.root).client
    described = {}
    for route in api_routes(made.root):
        method = "POST" if "POST" in (route.methods or ()) else "GET"
        answer: object = None
        if method == "GET" and not route.path.endswith(("/events", "/live")):
            path = route.path.replace("{number}", "1")
            for key, noun in ROUTES.get(route.path, {}).items():
                path = path.replace(f"{{{key}}}", names[noun])
            query = {key: names[noun] for key, noun in QUERIES.get(route.path, {}).items()}
            answer = members(client.get(path, params=query).json())
        described[f"{method} {route.path}"] = answer
    return text(described)


def api_routes(root: Path) -> Iterator[Route]:
    """The routes below /api, in order of their paths."""
    routes = [
        each
        for each in server.build_app(root, port=PORT, token="x").routes
        if isinstance(each, Route)
    ]
    yield from sorted(
        (each for each in routes if each.path.startswith("/api")), key=lambda each: each.path
    )


def text(value: Any) -> str:
    """JSON as a diff shows it best."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def describe(folder: Path) -> dict[str, str]:
    """Every golden file's name with its content; `folder` is empty and may be written to."""
    made = sample.copied(folder / "shop")
    (folder / "empty" / ".git").mkdir(parents=True)
    (folder / "empty" / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    with sample.isolated(made.env):
        return {
            "help.txt": help_tree(),
            "json.json": json_members(made),
            "exits.txt": exit_codes(Project(folder / "empty")),
            "mcp.json": mcp_schemas(made.root),
            "http.json": http_routes(made),
        }


def main() -> None:
    """Write the golden files."""
    import tempfile

    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in describe(Path(folder)).items():
            path = GOLDEN / name
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                path.write_text(content, encoding="utf-8")
                sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
