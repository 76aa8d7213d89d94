"""`ralph graph`: how records, files, tags, tasks and sessions are linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ralph.app import graph as verbs
from ralph.app.filters import full_id, node_types, relations, short_ids, when
from ralph.app.graph import HOPS, LIMIT, GraphOverview, NodeView
from ralph.app.json_shapes import edge_json, mark_weak, node_json, record_json
from ralph.app.memory import Change
from ralph.cli import options as opt
from ralph.cli.options import Group, Invocation, read_words
from ralph.cli.output import (
    bar,
    one_line,
    print_fields,
    print_json,
    print_raw,
    print_rows,
    print_table,
    say,
    warn,
)
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import Edge, Node
from ralph.search.graph import ReachedNode

_as_of = click.option(
    "--as-of", "as_of", default="", metavar="DATE", help="What held then: a date, or 7d, 2w, 3m."
)
_hops = click.option(
    "--hops",
    type=click.IntRange(1, 6),
    default=HOPS,
    show_default=True,
    help="How many edges away, at most.",
)
_types = click.option(
    "-t",
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only nodes of these types, comma-separated.",
)


@click.group(
    name="graph",
    cls=Group,
    examples=["ralph graph show src/db/schema.ts", "ralph graph show mem-a3f8"],
)
def cli() -> None:
    """See how records, files, symbols, tags, tasks and sessions are linked, now or at another time.

    A node is named by its id, a record also by its title; files, symbols, tags, tasks and sessions as
    file:src/a.ts, symbol:src/a.ts#name, tag:db, task:t-1a2b3c, session:ID, or without the prefix. Inside a task
    (RALPH_TASK, or its worktree) records of other unfinished tasks are left out.
    """


@cli.command(
    "show",
    examples=["ralph graph show", "ralph graph show tag:db --as-of 2026-01-31 --format json"],
)
@click.argument("name", metavar="[ID]", required=False, default="")
@_as_of
@opt.visibility
@opt.formats("table", "json")
def show(call: Invocation, name: str, as_of: str, within: str, form: str) -> None:
    """Show a node with its times and every edge at it; without ID, how large the graph is."""
    if not name.strip():
        _print_overview(verbs.overview(call.root, task=within), call, form)
        return
    at = when(as_of)
    view = verbs.show(call.root, full_id(call.root, name), at=at, task=within)
    if form == "json":
        record = record_json(view.record) if view.record is not None else None
        edges = [edge_json(edge) | {"other": node_json(other)} for edge, other in view.edges]
        print_json({**node_json(view.node), "record": record, "edges": edges})
    else:
        _print_node(view, call, at or ids.today())


@cli.command(
    "neighbors", examples=['ralph graph neighbors "Retry policy" --hops 1 --type gotcha,pattern']
)
@click.argument("name", metavar="ID")
@_hops
@_types
@click.option(
    "--relation",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only over these edges, comma-separated.",
)
@opt.limit(None)
@_as_of
@opt.visibility
@opt.formats("table", "json", "quiet")
def neighbors(call: Invocation, name: str, limit: int | None, form: str, **options: Any) -> None:
    """List what is near a node, the nearest first, with the edge that leads there."""
    types = node_types(options["types"])
    edges = relations(options["names"])
    at = when(options["as_of"])
    filters = {
        "hops": options["hops"],
        "types": types,
        "relations": edges,
        "at": at,
        "task": options["within"],
    }
    nodes = verbs.neighbors(call.root, full_id(call.root, name), **filters)
    _print_reached(nodes[:limit], call, form, "Nothing is near it.")
    say(f"{len(nodes) - limit} more" if limit is not None and len(nodes) > limit else "")


@cli.command("path", examples=["ralph graph path mem-a3f8 tag:db"])
@click.argument("start", metavar="A")
@click.argument("end", metavar="B")
@_as_of
@opt.visibility
@opt.formats("table", "json")
def path(call: Invocation, start: str, end: str, as_of: str, within: str, form: str) -> int:
    """Show a shortest path from A to B; exit code 1 when there is none."""
    names = full_id(call.root, start), full_id(call.root, end)
    (first, last), edges = verbs.path(call.root, *names, at=when(as_of), task=within)
    if form == "json":
        ends = {"from": node_json(first), "to": node_json(last), "found": edges is not None}
        print_json({**ends, "edges": list(map(edge_json, edges or ()))})
    elif edges is None:
        click.echo(f"No path leads from {one_line(first.id)} to {one_line(last.id)}.")
    else:
        here = first.id
        short = short_ids(
            call.root, [here, *(end for edge in edges for end in (edge.source, edge.target))]
        )
        click.echo(f"{one_line(short.get(here, here))}  {_name(first)}".rstrip())
        for edge in edges:
            here = edge.target if edge.source == here else edge.source
            click.echo(f"  {_arrow(edge, here, short)}")
    return 0 if edges is not None else 1


@cli.command(
    "link", examples=["ralph graph link mem-a3f8 affects file:src/db/schema.ts --from 2026-01-31"]
)
@click.argument("source", metavar="A")
@click.argument("relation")
@click.argument("target", metavar="B")
@click.option(
    "--from", "since", default="", metavar="DATE", help="Holds from this day on (default: today)."
)
@click.option("--until", default="", metavar="DATE", help="Holds up to this day.")
@click.option(
    "--remove", is_flag=True, help="Remove the edge; only edges that were stated can be removed."
)
def link(
    call: Invocation, source: str, relation: str, target: str, since: str, until: str, remove: bool
) -> None:
    """State that A has a RELATION to B; it is written into the entry of A, which must be a memory.

    RELATION is one of related_to, discovered_in, affects, fixes, supersedes, contradicts, mentions, depends_on.
    Memories, guardrails and knowledge can hold edges. B may also be a file, a symbol, a tag, a task or a session.
    """
    opt.exclude({"--remove": remove, "--from or --until": since or until})
    ends = full_id(call.root, source), relation, full_id(call.root, target)
    days = {"since": when(since)[:10], "until": when(until)[:10]}
    if any(day and len(day) < len("2026-01-31") for day in days.values()):
        raise UsageError("an edge begins and ends on a day", hint="use a date such as 2026-01-31")
    saved, edge = verbs.link(
        call.root, *ends, **days, remove=remove, by=call.author, patterns=call.patterns
    )
    verb = (
        "Already there:" if saved.change is Change.UNCHANGED else "Unlinked" if remove else "Linked"
    )
    name = saved.stored.record.id
    file = call.show_path(saved.stored.path)
    click.echo(f"{verb} {name} {edge.relation.value} {one_line(edge.target)} ({file})")


@cli.command(
    "search",
    examples=['ralph graph search "session storage" --as-of 2026-01-31 --type file,gotcha'],
)
@click.argument("words", nargs=-1, required=True)
@_as_of
@opt.visibility
@_hops
@_types
@opt.limit(LIMIT)
@opt.formats("table", "json", "quiet")
def search(
    call: Invocation,
    words: tuple[str, ...],
    as_of: str,
    types: tuple[str, ...],
    within: str,
    form: str,
    **options: Any,
) -> None:
    """Find nodes by words and meaning, and what is linked to them: what holds now, or held then."""
    options |= {
        "at": when(as_of),
        "types": node_types(types),
        "task": within,
        "embedding": call.config.embedding,
    }
    with bar("reading the files") as progress:
        nodes, warnings = verbs.search(call.root, read_words(words), progress=progress, **options)
    warn(*warnings)
    _print_reached(nodes, call, form, "Nothing found.")


@cli.command("export", examples=["ralph graph export --task t-1a2b3c --format json"])
@click.option(
    "--task", default="", metavar="ID", help="Only this task's part (default: every task's)."
)
@opt.formats("table", "json")
def export(call: Invocation, task: str, form: str) -> None:
    """Write a task's part of the graph to .ralph/tasks/ID/graphiti/ (nodes.json, edges.json, embeddings.bin)."""

    def to_json(part: dict[str, Any]) -> dict[str, object]:
        return part | {"folder": call.show_path(part["folder"])}

    def row(part: dict[str, Any]) -> Sequence[object]:
        folder = call.show_path(part["folder"]) + ("" if part["changed"] else " (unchanged)")
        return part["task"], part["nodes"], part["edges"], part["vectors"], folder

    parts = verbs.export(call.root, task=task, embedding=call.config.embedding)
    nothing = "There is no task, so there is nothing to export."
    print_rows(parts, form, to_json, "TASK,NODES,EDGES,VECTORS,FOLDER", row, nothing)


def _print_overview(overview: GraphOverview, call: Invocation, form: str) -> None:
    if form == "json":
        busiest = [{**node_json(node), "edges": degree} for node, degree in overview.busiest]
        print_json({"nodes": overview.nodes, "edges": overview.edges, "busiest": busiest})
        return
    if not overview.nodes:
        click.echo("The graph is empty: nothing is remembered yet.")
        return
    for noun, counts in (("nodes", overview.nodes), ("edges", overview.edges)):
        parts = ", ".join(
            f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])
        )
        click.echo(f"{sum(counts.values())} {noun}{f': {parts}' if parts else ''}")
    if overview.busiest:
        click.echo("")
        short = short_ids(call.root, [node.id for node, _ in overview.busiest])
        rows = [
            (degree, short.get(node.id, node.id), _name(node)) for node, degree in overview.busiest
        ]
        print_table("EDGES,ID,NAME", rows)


def _print_node(view: NodeView, call: Invocation, today: str) -> None:
    node = view.node
    short = short_ids(call.root, [other.id for _, other in view.edges])
    click.echo(click.style(one_line(node.name), bold=True))
    since = node.since if node.since != node.recorded else node.valid_from
    times = {"recorded": node.recorded, "valid from": since, "valid until": node.valid_until}
    print_fields({"id": node.id, "type": node.type.value, **times, "holds": _validity(node, today)})
    if view.record is not None and view.record.text.strip() != node.name:
        click.echo("")
        print_raw(view.record.text.rstrip() + "\n")
    click.echo("" if view.edges else "\n  No edges.")
    for edge, other in view.edges:
        days = (("from", edge.valid_from), ("until", edge.valid_until))
        stated = " ".join(
            ["stated", *(f"{word} {one_line(day[:10])}" for word, day in days if day)]
        )
        note = f" ({stated})" if edge.explicit else ""
        click.echo(f"  {_arrow(edge, other.id, short)}  {_name(other)}{note}".rstrip())


def _validity(node: Node, at: str) -> str:
    """Return whether a node does not hold yet or no longer at a time; "" when it holds."""
    if node.holds(at):
        return ""
    began = max(node.since or node.valid_from, node.recorded)
    return f"not yet: from {began[:10]} on" if at < began[: len(at)] else "no longer"


def _arrow(edge: Edge, other: str, short: Mapping[str, str]) -> str:
    """Describe an edge as seen from the node that is not `other`."""
    relation = edge.relation.value
    name = one_line(short.get(other, other))
    return f"-{relation}-> {name}" if edge.target == other else f"<-{relation}- {name}"


def _name(node: Node) -> str:
    """Return a node's name, unless its id says the same."""
    return "" if node.id.endswith(f":{node.name}") else one_line(node.name)


def _print_reached(nodes: Sequence[ReachedNode], call: Invocation, form: str, nothing: str) -> None:
    ends = [
        end for reached in nodes if reached.via for end in (reached.via.source, reached.via.target)
    ]
    short = (
        short_ids(call.root, [*ends, *(each.node.id for each in nodes)])
        if nodes and form == "table"
        else {}
    )

    def to_json(reached: ReachedNode) -> dict[str, object]:
        via = edge_json(reached.via) if reached.via is not None else None
        about = {"score": reached.score, "hops": reached.hops, "via": via, "start": reached.start}
        return {**node_json(reached.node), **about, **mark_weak(reached.weak)}

    def row(reached: ReachedNode) -> Sequence[object]:
        node = reached.node
        edge = reached.via
        by = "-"
        if edge is not None:
            other, preposition = (
                (edge.source, " of") if edge.target == node.id else (edge.target, "")
            )
            by = f"{edge.relation.value}{preposition} {short.get(other, other)}"
        task = f"({node.task})" if node.task and not node.id.endswith(node.task) else ""
        validity = _validity(node, ids.today())
        name = " ".join(filter(None, (task, _name(node), f"({validity})" if validity else "")))
        return (
            f"{reached.score:.2f}",
            reached.hops,
            node.type.value,
            short.get(node.id, node.id),
            by,
            name,
        )

    print_rows(nodes, form, to_json, "SCORE,HOPS,TYPE,ID,BY,NAME", row, nothing)
