"""The checks of `ralph doctor` that have tables of their own: the index, agents and MCP servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from ralph.cli.invocation import Invocation
from ralph.cli.output import one_line, print_json, print_rows, warn
from ralph.core.errors import UsageError
from ralph.core.work import McpServer, ServerStatus, Transport

if TYPE_CHECKING:
    from ralph.loop.mcp_status import ServerState


def check_index(call: Invocation, form: str) -> int:
    """Compare the index with the files, record by record. Return 1 if they differ."""
    from ralph.search import index

    problems = index.verify(call.root)
    if form == "json":
        print_json(problems)
    else:
        for problem in problems:
            click.echo(problem)
        if problems:
            click.echo("Run `ralph index sync --rebuild` to rebuild it.")
        else:
            click.echo("Index and files agree.")
    return 1 if problems else 0


# --- agents ---------------------------------------------------------------------------------------


def print_agents(call: Invocation, form: str) -> int:
    """Print the agents that a run can use."""
    from ralph.loop.agents import choice

    _print_agent_rows(choice.list_agents(call.root), "usable", "usable", form)
    return 0


def check_agents(call: Invocation, names: Sequence[str], command: str, form: str) -> int:
    """Send a test prompt to each installed agent, or to one. Return 1 if one does not answer.

    Raises `UsageError` if more than one agent is named, or if `command` is given without one.
    """
    from ralph.loop.agents import choice

    if len(names) > 1 or (command and not names):
        raise UsageError(
            "--check takes one agent, and --command needs one",
            hint="ralph doctor --agents --check acp --command LINE",
        )
    rows = choice.check_agents(call.root, names[0] if names else "", command)
    _print_agent_rows(rows, "answer", "answers", form)
    all_answer = bool(rows) and all(agent["answer"] for agent in rows)
    return 0 if all_answer else 1


def _print_agent_rows(
    rows: Sequence[dict[str, Any]], usable_key: str, usable_heading: str, form: str
) -> None:
    def row(agent: dict[str, Any]) -> Sequence[object]:
        location = agent["path"]
        if agent["note"]:
            location += f" ({agent['note']})"
        usable = "yes" if agent[usable_key] else "no"
        return agent["name"], usable, agent["version"] or "-", location

    print_rows(
        rows,
        form,
        to_json=dict,
        headings=("agent", usable_heading, "version", "where"),
        row=row,
        empty="No agent is installed.",
    )


# --- MCP servers ----------------------------------------------------------------------------------


def check_servers(call: Invocation, *, refresh: bool, form: str) -> int:
    """Print whether each MCP server that agents use in this project works."""
    from ralph.loop import mcp_status

    states, problems = mcp_status.server_status(
        call.root, os.environ, refresh=refresh, patterns=call.patterns, needed=True
    )
    warn(*map(one_line, problems))
    print_rows(
        states,
        form,
        to_json=_server_json,
        headings=("server", "status", "from", "checked", "what"),
        row=_server_row,
        empty="No MCP server is configured for this project.",
    )
    if form != "json":
        for line in mcp_status.describe_denied(states):
            click.echo(one_line(line))
    return 0


def _server_row(state: ServerState) -> Sequence[object]:
    if state.checked:
        checked = "now"
    elif state.status is ServerStatus.UNKNOWN:
        checked = "no"
    else:
        checked = "before"
    what = _address(state.server)
    if state.why:
        what += f": {state.why}"
    return state.server.name, state.status.value, state.server.scope.value, checked, what


def _address(server: McpServer) -> str:
    """Return a server's program, or its address without the user name and query.

    Arguments and queries are left out because they may contain a key.
    """
    if server.transport is Transport.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = parts.hostname or ""
        if parts.port:
            host += f":{parts.port}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def _server_json(state: ServerState) -> dict[str, object]:
    return {
        "name": state.server.name,
        "status": state.status.value,
        "usable": state.usable,
        "trusted": state.server.trusted,
        "source": state.server.scope.value,
        "file": state.server.where,
        "type": state.server.transport.value,
        "cachedAt": state.cached_at,
        "asked": state.checked,
        "why": state.why,
    }
