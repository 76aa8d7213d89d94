"""`ralph graph`: show how records, files, symbols, tags, tasks and sessions are linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ralph.cli import options, suggestions
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import read_words
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
from ralph.core import ids
from ralph.core.errors import UsageError
from ralph.core.graph import Edge, Node
from ralph.memory.memory import Change
from ralph.memory.record_shapes import mark_weak, record_json
from ralph.recall import graph, graph_export, graph_links, graph_search
from ralph.recall.graph import HOPS, GraphOverview, NodeView
from ralph.recall.graph_search import LIMIT, GraphQuery
from ralph.recall.json_shapes import edge_json, node_json
from ralph.search.filters import parse_node_types, parse_relations, parse_time
from ralph.search.graph_walks import ReachedNode
from ralph.search.record_ids import expand_id, short_ids

_MAX_HOPS = 6
_DAY_LENGTH = len("2026-01-31")
_VISIBILITY = ("within", "all_tasks")
_COMMON = ("as_of", *_VISIBILITY, "form")
"""Parameters of `graph show` that apply to whatever is shown of the graph."""


class _Graph(NamedTuple):
    """The graph to show: the day, the task whose records are visible, and the output format."""

    call: Invocation
    moment: str
    task: str
    form: str


@click.group(
    name="graph",
    cls=Group,
    examples=["ralph graph show src/db/schema.ts", "ralph graph show mem-a3f8"],
)
def cli() -> None:
    """Show how memories, files and tasks are linked.

    A node is named by its id; a record can also be named by its title. Files, symbols, tags, tasks
    and sessions are written as file:src/a.ts, symbol:src/a.ts#name, tag:db, task:t-1a2b3c and
    session:ID; the prefix can be left out. Inside a task (RALPH_TASK, or the task's worktree),
    records of other unfinished tasks are left out.
    """


# --- one node -------------------------------------------------------------------------------------


@cli.command(
    "show",
    examples=[
        "ralph graph show",
        "ralph graph show tag:db --as-of 2026-01-31 --format json",
        'ralph graph show "Retry policy" --hops 1 --type gotcha,pattern',
        "ralph graph show mem-a3f8 --to tag:db",
        'ralph graph show --query "session storage" --type file,gotcha',
    ],
)
@click.argument(
    "name",
    metavar="[ID]",
    type=suggestions.Text(suggestions.nodes),
    required=False,
    default="",
)
@click.option(
    "--to",
    "end",
    type=suggestions.Text(suggestions.nodes),
    default="",
    metavar="ID",
    help="Show a shortest path to this node.",
)
@click.option(
    "--hops",
    type=click.IntRange(1, _MAX_HOPS),
    help=f"List the nodes at most this many edges away (1 to {_MAX_HOPS}), nearest first.",
)
@click.option(
    "--query",
    default="",
    metavar="WORDS",
    help='Find nodes by words or meaning ("-" reads the words from standard input).',
)
@click.option(
    "-t",
    "--type",
    "types",
    type=suggestions.Text(suggestions.node_types),
    multiple=True,
    metavar="TYPE",
    help="List only nodes of these types, comma-separated.",
)
@click.option(
    "--relation",
    "relations",
    multiple=True,
    metavar="NAME",
    help="With --hops: follow only these relations, comma-separated.",
)
@options.limit(None, f"Maximum number of nodes in a list [default with --query: {LIMIT}].")
@click.option(
    "--as-of",
    "as_of",
    default="",
    metavar="DATE",
    help="Show the graph as of this date or age (7d, 2w, 3m).",
)
@options.visibility
@options.formats("table", "json", "quiet")
@pass_call
def show(
    call: Invocation,
    name: str,
    end: str,
    hops: int | None,
    query: str,
    types: tuple[str, ...],
    relations: tuple[str, ...],
    limit: int | None,
    as_of: str,
    within: str,
    form: str,
) -> int:
    """Show a node, what is near it, a path, or the whole graph.

    Without ID, show the size of the graph. With ID, show the node with its dates and edges; with
    --hops, list what is near it; with --to, show a shortest path (the exit code is 1 if there is
    none). --query finds nodes by words and lists what is linked to them, at most --hops edges away
    (2 by default). Only what is valid now, or on the day given with --as-of, is shown.
    """
    shown = _Graph(call, parse_time(as_of), within, form)
    options.exclude({"ID": name.strip(), "--query": query})
    options.exclude({"--to": end, "--hops": hops})
    if query:
        options.allow_only("a search", "query", "hops", "types", "limit", *_COMMON)
        _search(shown, query, hops or HOPS, types, limit or LIMIT)
    elif not name.strip():
        options.allow_only("the size of the graph", *_VISIBILITY, "form")
        _show_overview(shown)
    elif end:
        options.allow_only("a path", "end", *_COMMON)
        return _show_path(shown, name, end)
    elif hops:
        options.allow_only("nearby nodes", "hops", "types", "relations", "limit", *_COMMON)
        _list_nearby(shown, name, hops, types, relations, limit)
    else:
        options.allow_only("a node", *_COMMON)
        _show_node(shown, name)
    return 0


def _show_overview(shown: _Graph) -> None:
    options.refuse_quiet("the size of the graph", shown.form)
    overview = graph.overview(shown.call.root, task=shown.task)
    if shown.form == "json":
        _print_overview_json(overview)
    else:
        _print_overview(overview, shown.call)


def _show_node(shown: _Graph, name: str) -> None:
    root = shown.call.root
    view = graph.show(root, expand_id(root, name), at=shown.moment, task=shown.task)
    if shown.form == "json":
        _print_node_json(view)
    elif shown.form == "quiet":
        click.echo(view.node.id)
    else:
        _print_node(view, shown.call, shown.moment or ids.today())


def _print_overview_json(overview: GraphOverview) -> None:
    busiest = [{**node_json(node), "edges": degree} for node, degree in overview.busiest]
    print_json({"nodes": overview.nodes, "edges": overview.edges, "busiest": busiest})


def _print_overview(overview: GraphOverview, call: Invocation) -> None:
    if not overview.nodes:
        click.echo("The graph is empty: nothing is remembered yet.")
        return
    click.echo(_describe_counts("nodes", overview.nodes))
    click.echo(_describe_counts("edges", overview.edges))
    if not overview.busiest:
        return
    click.echo("")
    short = short_ids(call.root, [node.id for node, _ in overview.busiest])
    rows = []
    for node, degree in overview.busiest:
        rows.append((degree, short.get(node.id, node.id), _node_name(node)))
    print_table(("EDGES", "ID", "NAME"), rows)


def _describe_counts(noun: str, counts: Mapping[str, int]) -> str:
    """Return the total, and the count of each type, largest first."""
    text = f"{sum(counts.values())} {noun}"
    by_count = sorted(counts.items(), key=lambda item: -item[1])
    if by_count:
        text += ": " + ", ".join(f"{count} {name}" for name, count in by_count)
    return text


def _print_node_json(view: NodeView) -> None:
    record = record_json(view.record) if view.record is not None else None
    edges = [edge_json(edge) | {"other": node_json(other)} for edge, other in view.edges]
    print_json({**node_json(view.node), "record": record, "edges": edges})


def _print_node(view: NodeView, call: Invocation, today: str) -> None:
    node = view.node
    click.echo(click.style(one_line(node.name), bold=True))
    print_fields(
        {
            "id": node.id,
            "type": node.type.value,
            "recorded": node.recorded,
            "valid from": node.since if node.since != node.recorded else node.valid_from,
            "valid until": node.valid_until,
            "holds": _validity(node, today),
        }
    )
    if view.record is not None and view.record.text.strip() != node.name:
        click.echo("")
        print_raw(view.record.text.rstrip() + "\n")
    if not view.edges:
        click.echo("\n  No edges.")
        return
    click.echo("")
    short = short_ids(call.root, [other.id for _, other in view.edges])
    for edge, other in view.edges:
        line = f"  {_arrow(edge, other.id, short)}  {_node_name(other)}"
        if edge.explicit:
            line += f" ({_describe_stated(edge)})"
        click.echo(line.rstrip())


def _describe_stated(edge: Edge) -> str:
    """Describe an explicitly stated edge, with its first and last day."""
    text = "stated"
    if edge.valid_from:
        text += f" from {one_line(edge.valid_from[:_DAY_LENGTH])}"
    if edge.valid_until:
        text += f" until {one_line(edge.valid_until[:_DAY_LENGTH])}"
    return text


def _validity(node: Node, moment: str) -> str:
    """Return a note if a node is not valid yet or no longer valid, or "" if it is valid."""
    if node.is_valid_at(moment):
        return ""
    start = max(node.since or node.valid_from, node.recorded)
    if moment < start[: len(moment)]:
        return f"not yet: from {start[:_DAY_LENGTH]} on"
    return "no longer"


def _arrow(edge: Edge, other: str, short: Mapping[str, str]) -> str:
    """Describe an edge as seen from the node that is not `other`."""
    relation = edge.relation.value
    name = one_line(short.get(other, other))
    if edge.target == other:
        return f"-{relation}-> {name}"
    return f"<-{relation}- {name}"


def _node_name(node: Node) -> str:
    """Return a node's name, or "" if it is already part of the id."""
    if node.id.endswith(f":{node.name}"):
        return ""
    return one_line(node.name)


# --- several nodes --------------------------------------------------------------------------------


def _list_nearby(
    shown: _Graph,
    name: str,
    hops: int,
    types: Sequence[str],
    relations: Sequence[str],
    limit: int | None,
) -> None:
    """List the nodes near a node, nearest first."""
    root = shown.call.root
    nodes = graph.neighbors(
        root,
        expand_id(root, name),
        hops=hops,
        types=parse_node_types(types),
        relations=parse_relations(relations),
        at=shown.moment,
        task=shown.task,
    )
    _print_reached(nodes[:limit], shown, "No neighbors.")
    if limit is not None and len(nodes) > limit:
        say(f"{len(nodes) - limit} more")


def _show_path(shown: _Graph, start: str, end: str) -> int:
    """Show a shortest path, and return 1 if there is none."""
    options.refuse_quiet("a path", shown.form)
    root = shown.call.root
    (first, last), edges = graph.path(
        root, expand_id(root, start), expand_id(root, end), at=shown.moment, task=shown.task
    )
    if shown.form == "json":
        print_json(
            {
                "from": node_json(first),
                "to": node_json(last),
                "found": edges is not None,
                "edges": list(map(edge_json, edges or ())),
            }
        )
    elif edges is None:
        click.echo(f"There is no path from {one_line(first.id)} to {one_line(last.id)}.")
    else:
        _print_path(first, edges, shown.call)
    return 1 if edges is None else 0


def _print_path(first: Node, edges: Sequence[Edge], call: Invocation) -> None:
    names = [first.id]
    for edge in edges:
        names += [edge.source, edge.target]
    short = short_ids(call.root, names)
    click.echo(f"{one_line(short.get(first.id, first.id))}  {_node_name(first)}".rstrip())
    here = first.id
    for edge in edges:
        here = _other_end(edge, here)
        click.echo(f"  {_arrow(edge, here, short)}")


def _other_end(edge: Edge, node_id: str) -> str:
    if edge.source == node_id:
        return edge.target
    return edge.source


def _search(shown: _Graph, query: str, hops: int, types: Sequence[str], limit: int) -> None:
    """Find nodes by words or meaning, and what is linked to them."""
    request = GraphQuery(
        read_words((query,)),
        at=shown.moment,
        types=parse_node_types(types),
        hops=hops,
        limit=limit,
        task=shown.task,
    )
    embedding = shown.call.config.embedding
    with bar("reading the files") as progress:
        nodes, warnings = graph_search.search(
            shown.call.root, request, embedding=embedding, progress=progress
        )
    warn(*warnings)
    _print_reached(nodes, shown, "Nothing found.")


def _print_reached(nodes: Sequence[ReachedNode], shown: _Graph, empty: str) -> None:
    short: Mapping[str, str] = {}
    if nodes and shown.form == "table":
        names = []
        for reached in nodes:
            names.append(reached.node.id)
            if reached.via is not None:
                names += [reached.via.source, reached.via.target]
        short = short_ids(shown.call.root, names)

    def row(reached: ReachedNode) -> Sequence[object]:
        node = reached.node
        return (
            f"{reached.score:.2f}",
            reached.hops,
            node.type.value,
            short.get(node.id, node.id),
            _describe_last_edge(reached, short),
            _describe_reached(node),
        )

    print_rows(
        nodes,
        shown.form,
        to_json=_reached_json,
        headings=("SCORE", "HOPS", "TYPE", "ID", "BY", "NAME"),
        row=row,
        empty=empty,
    )


def _reached_json(reached: ReachedNode) -> dict[str, object]:
    return {
        **node_json(reached.node),
        "score": reached.score,
        "hops": reached.hops,
        "via": edge_json(reached.via) if reached.via is not None else None,
        "start": reached.start,
        **mark_weak(reached.weak),
    }


def _describe_last_edge(reached: ReachedNode, short: Mapping[str, str]) -> str:
    """Describe the edge through which a node was reached."""
    edge = reached.via
    if edge is None:
        return "-"
    if edge.target == reached.node.id:
        return f"{edge.relation.value} of {short.get(edge.source, edge.source)}"
    return f"{edge.relation.value} {short.get(edge.target, edge.target)}"


def _describe_reached(node: Node) -> str:
    """Return a node's task, its name, and a note if it is not valid today."""
    parts = []
    if node.task and not node.id.endswith(node.task):
        parts.append(f"({node.task})")
    name = _node_name(node)
    if name:
        parts.append(name)
    validity = _validity(node, ids.today())
    if validity:
        parts.append(f"({validity})")
    return " ".join(parts)


# --- changing and exporting -----------------------------------------------------------------------


@cli.command(
    "link", examples=["ralph graph link mem-a3f8 affects file:src/db/schema.ts --from 2026-01-31"]
)
@click.argument("source", metavar="A", type=suggestions.Text(suggestions.memories))
@click.argument("relation")
@click.argument("target", metavar="B", type=suggestions.Text(suggestions.nodes))
@click.option(
    "--from",
    "since",
    default="",
    metavar="DATE",
    help="First day on which the link is valid [default: today].",
)
@click.option("--until", default="", metavar="DATE", help="Last day on which the link is valid.")
@click.option("--remove", is_flag=True, help="Remove the link (only links added by hand).")
@pass_call
def link(
    call: Invocation, source: str, relation: str, target: str, since: str, until: str, remove: bool
) -> None:
    """Link a memory to a file, a task or another memory.

    The link is stored in the entry of A, which must be a memory, a guardrail or a knowledge entry.
    B can also be a file, a symbol, a tag, a task or a session. RELATION is one of related_to,
    discovered_in, affects, fixes, supersedes, contradicts, mentions, depends_on.
    """
    options.exclude({"--remove": remove, "--from or --until": since or until})
    source_id = expand_id(call.root, source)
    target_id = expand_id(call.root, target)
    saved, edge = graph_links.link(
        call.root,
        source_id,
        relation,
        target_id,
        since=_parse_day(since),
        until=_parse_day(until),
        remove=remove,
        context=call.write_context(),
    )
    verb = "Unlinked" if remove else "Linked"
    if saved.change is Change.UNCHANGED:
        verb = "Already there:"
    name = saved.stored.record.id
    file = call.show_path(saved.stored.path)
    click.echo(f"{verb} {name} {edge.relation.value} {one_line(edge.target)} ({file})")


def _parse_day(text: str) -> str:
    day = parse_time(text)[:_DAY_LENGTH]
    if day and len(day) < _DAY_LENGTH:
        raise UsageError("a link begins and ends on a day", hint="use a date such as 2026-01-31")
    return day


@cli.command("export", examples=["ralph graph export --task t-1a2b3c --format json"])
@click.option(
    "--task", default="", metavar="ID", help="Export only this task's part [default: all tasks]."
)
@options.formats("table", "json")
@pass_call
def export(call: Invocation, task: str, form: str) -> None:
    """Write each task's part of the graph to its folder.

    The files are nodes.json, edges.json and embeddings.bin in .ralph/tasks/ID/graphiti/.
    """

    def to_json(part: dict[str, Any]) -> dict[str, object]:
        return part | {"folder": call.show_path(part["folder"])}

    def row(part: dict[str, Any]) -> Sequence[object]:
        folder = call.show_path(part["folder"])
        if not part["changed"]:
            folder += " (unchanged)"
        return part["task"], part["nodes"], part["edges"], part["vectors"], folder

    parts = graph_export.export(call.root, task=task, embedding=call.config.embedding)
    print_rows(
        parts,
        form,
        to_json=to_json,
        headings=("TASK", "NODES", "EDGES", "VECTORS", "FOLDER"),
        row=row,
        empty="There is no task, so there is nothing to export.",
    )
