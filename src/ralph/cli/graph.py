"""`ralph graph`: how what is known hangs together."""

import click

from ralph import paths
from ralph.app import graph as verbs
from ralph.app import graph_export
from ralph.app.asking import node_types, relations, when
from ralph.app.graph import HOPS, LIMIT, GraphOverview, LinkChange, NodeView, link, unlink
from ralph.app.json_shapes import edge_json, node_json, record_json
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Group, format_option, read_words, visibility_options
from ralph.cli.output import bar, json_text, one_line, print_raw, table
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import Edge, Node
from ralph.search.graph import ReachedNode

_as_of = click.option("--as-of", "as_of", default="", metavar="DATE", help="What held then: a date, or 7d, 2w, 3m.")
_hops = click.option(
    "--hops", type=click.IntRange(1, 6), default=HOPS, show_default=True, help="How many edges away, at most."
)
_types = click.option(
    "-t", "--type", "types", multiple=True, metavar="TYPE", help="Only nodes of these types, comma-separated."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show the change to the file, and write nothing.")


@click.group(name="graph", cls=Group)
def cli() -> None:
    """See how records, files, symbols, tags, tasks and sessions hang together, now or at another time.

    A node is named by its id, a record also by its title; files, symbols, tags, tasks and sessions as
    file:src/a.ts, symbol:src/a.ts#name, tag:db, task:t-1a2b3c, session:ID, or without the prefix.

    Whoever works on a task (RALPH_TASK, or in its worktree) sees what the project's records, those of the task, and the
    journal of finished tasks speak of; whoever has no task everything.

    \b
    Examples:
      ralph graph show src/db/schema.ts
      ralph graph neighbors mem-1705751400-a3f8 --hops 2
      ralph graph link mem-1705751400-a3f8 affects file:src/db/schema.ts
      ralph graph search "similar database problem" --as-of 2026-01-31
    """


@cli.command("show")
@click.argument("name", metavar="[ID]", required=False, default="")
@_as_of
@visibility_options
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, name: str, as_of: str, task: str, all_tasks: bool, form: str) -> None:
    """Show a node with its times and every edge at it; without ID, how large the graph is.

    \b
    Examples:
      ralph graph show
      ralph graph show mem-1705751400-a3f8
      ralph graph show tag:db --as-of 2026-01-31 --format json
    """
    call = invocation(ctx)
    root, asking = call.root, call.asking(task, all_tasks)
    if not name.strip():
        _print_overview(verbs.overview(root, task=asking), form)
        return
    at = when(as_of)
    shown = verbs.show(root, name, at=at, task=asking)
    if form == "json":
        record = record_json(shown.record) if shown.record is not None else None
        edges = [edge_json(edge) | {"other": node_json(other)} for edge, other in shown.edges]
        click.echo(json_text({**node_json(shown.node), "record": record, "edges": edges}))
    else:
        _print_shown(shown, at or ids.today())


@cli.command("neighbors")
@click.argument("name", metavar="ID")
@_hops
@_types
@click.option("--relation", "named", multiple=True, metavar="NAME", help="Only over these edges, comma-separated.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="At most so many.")
@_as_of
@visibility_options
@format_option("table", "json", "quiet")
@click.pass_context
def neighbors(
    ctx: click.Context, name: str, hops: int, types: tuple[str, ...], named: tuple[str, ...], limit: int | None,
    as_of: str, task: str, all_tasks: bool, form: str,
) -> None:  # fmt: skip
    """List what is near a node, the nearest first, with the edge that leads there.

    \b
    Examples:
      ralph graph neighbors file:src/db/schema.ts
      ralph graph neighbors "Retry policy" --hops 1 --type gotcha,pattern
      ralph graph neighbors t-1a2b3c --relation depends_on --format json
    """
    call = invocation(ctx)
    found = verbs.neighbors(
        call.root, name, hops=hops, types=node_types(types), relations=relations(named),
        at=when(as_of), task=call.asking(task, all_tasks),
    )  # fmt: skip
    _print_reached(found[:limit], form, "Nothing is near it.")
    if limit is not None and len(found) > limit:
        say(f"{len(found) - limit} more")


@cli.command("path")
@click.argument("start", metavar="A")
@click.argument("end", metavar="B")
@_as_of
@visibility_options
@format_option("table", "json")
@click.pass_context
def path(ctx: click.Context, start: str, end: str, as_of: str, task: str, all_tasks: bool, form: str) -> None:
    """Show a shortest way from A to B; exit code 1 when there is none.

    \b
    Examples:
      ralph graph path mem-1705751400-a3f8 tag:db
      ralph graph path src/a.ts src/b.ts --format json
    """
    call = invocation(ctx)
    way = verbs.path(call.root, start, end, at=when(as_of), task=call.asking(task, all_tasks))
    if form == "json":
        ends = {"from": node_json(way.start), "to": node_json(way.end), "found": way.found}
        click.echo(json_text({**ends, "edges": list(map(edge_json, way.edges))}))
    elif way.found:
        here = way.start.id
        click.echo(f"{one_line(here)}  {one_line(way.start.name)}")
        for edge in way.edges:
            here = edge.target if edge.source == here else edge.source
            click.echo(f"  {_arrow(edge, here)}")
    else:
        click.echo(f"No way leads from {one_line(way.start.id)} to {one_line(way.end.id)}.")
    if not way.found:
        ctx.exit(1)


@cli.command("search")
@click.argument("words", nargs=-1, required=True)
@_as_of
@visibility_options
@_hops
@_types
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="At most so many.")
@format_option("table", "json", "quiet")
@click.pass_context
def search(
    ctx: click.Context, words: tuple[str, ...], as_of: str, task: str, all_tasks: bool, hops: int,
    types: tuple[str, ...], limit: int, form: str,
) -> None:  # fmt: skip
    """Find nodes by words and meaning, and what hangs together with them: what holds now, or held then.

    \b
    Examples:
      ralph graph search "connection refused"
      ralph graph search "session storage" --as-of 2026-01-31
      ralph graph search "schema" --type file,gotcha --format json
    """
    call = invocation(ctx)
    with bar("reading the files") as progress:
        answer = verbs.search(
            call.root, read_words(words), at=when(as_of), types=node_types(types), hops=hops, limit=limit,
            task=call.asking(task, all_tasks), embedding=call.config.embedding, progress=progress,
        )  # fmt: skip
    for warning in answer.warnings:
        warn(warning)
    _print_reached(answer.hits, form, "Nothing found.")


@cli.command("link")
@click.argument("source", metavar="A")
@click.argument("relation")
@click.argument("target", metavar="B")
@click.option("--from", "since", default="", metavar="DATE", help="Holds from this day on (default: today).")
@click.option("--until", default="", metavar="DATE", help="Holds up to this day.")
@click.option("--remove", is_flag=True, help="Remove the edge; only edges that were stated can be removed.")
@_dry_run
@format_option("table", "json")
@click.pass_context
def link_(
    ctx: click.Context, source: str, relation: str, target: str, since: str, until: str, remove: bool,
    dry_run: bool, form: str,
) -> None:  # fmt: skip
    """State that A has a RELATION to B; it is written into the file of A, which must be a record.

    RELATION is one of related_to, discovered_in, affects, fixes, supersedes, contradicts, mentions, depends_on.
    Memories, guardrails, knowledge and insights can hold edges. B may also be a file, a symbol, a tag or a task.

    \b
    Examples:
      ralph graph link mem-1705751400-a3f8 affects file:src/db/schema.ts
      ralph graph link mem-1736942400-b1c2 supersedes mem-1705751400-a3f8
      ralph graph link "Retry policy" contradicts know-timeouts --until 2026-06-30 --dry-run
      ralph graph link mem-1705751400-a3f8 affects file:src/db/schema.ts --remove
    """
    call = invocation(ctx)
    if remove:
        _print_linked(unlink(call.root, source, relation, target, dry_run=dry_run), call, form, "Unlinked", dry_run)
        return
    done = link(
        call.root, source, relation, target, since=_day(since), until=_day(until), dry_run=dry_run,
        patterns=call.config.privacy.patterns,
    )  # fmt: skip
    _print_linked(done, call, form, "Linked" if done.changed else "Already there:", dry_run)


@cli.command("export")
@click.option("--task", default="", metavar="ID", help="Only this task's part (default: every task's).")
@format_option("table", "json")
@click.pass_context
def export(ctx: click.Context, task: str, form: str) -> None:
    """Write a task's part of the graph to .ralph/tasks/ID/graphiti/ (nodes.json, edges.json, embeddings.bin).

    The same records give the same bytes. Vectors come from `ralph index sync --embed`; without any there is no
    embeddings.bin.

    \b
    Examples:
      ralph graph export
      ralph graph export --task t-1a2b3c --format json
    """
    call = invocation(ctx)
    done = graph_export.export(call.root, task=task, embedding=call.config.embedding)
    if form == "json":
        shapes = [
            {"task": each.task, "folder": paths.shown(each.folder, call.root), "nodes": each.nodes,
             "edges": each.edges, "vectors": each.vectors, "changed": each.changed}
            for each in done
        ]  # fmt: skip
        click.echo(json_text(shapes))
    elif not done:
        click.echo("There is no task, so there is nothing to export.")
    else:
        rows = [
            [one_line(each.task), str(each.nodes), str(each.edges), str(each.vectors),
             one_line(paths.shown(each.folder, call.root)) + ("" if each.changed else " (unchanged)")]
            for each in done
        ]  # fmt: skip
        click.echo(table(["TASK", "NODES", "EDGES", "VECTORS", "FOLDER"], rows))


# --- words ---------------------------------------------------------------------------------------


def _day(words: str) -> str:
    found = when(words)
    if found and len(found) < len("2026-01-31"):
        raise UsageError(f"{words!r} is not a day", hint="use a date such as 2026-01-31")
    return found[:10]


def _print_overview(found: GraphOverview, form: str) -> None:
    if form == "json":
        busiest = [{**node_json(node), "edges": degree} for node, degree in found.busiest]
        click.echo(json_text({"nodes": found.nodes, "edges": found.edges, "busiest": busiest}))
        return
    if not found.nodes:
        click.echo("The graph is empty: nothing is remembered yet.")
        return
    for noun, counts in (("nodes", found.nodes), ("edges", found.edges)):
        parts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
        click.echo(f"{sum(counts.values())} {noun}{f': {parts}' if parts else ''}")
    if found.busiest:
        click.echo("")
        rows = [[str(degree), one_line(node.id), _name(node)] for node, degree in found.busiest]
        click.echo(table(["EDGES", "ID", "NAME"], rows))


def _print_shown(shown: NodeView, today: str) -> None:
    node = shown.node
    click.echo(click.style(one_line(node.name), bold=True))
    for name, value in (
        ("id", node.id),
        ("type", node.type.value),
        ("recorded", node.recorded),
        ("valid from", node.since if node.since != node.recorded else node.valid_from),
        ("valid until", node.valid_until),
        ("holds", _ended(node, today) if not node.holds(today) else ""),
    ):
        if value:
            click.echo(f"  {name + ':':12} {one_line(value)}")
    if shown.record is not None and shown.record.text.strip() != node.name:
        click.echo("")
        print_raw(shown.record.text.rstrip() + "\n")
    click.echo("")
    for edge, other in shown.edges:
        note = f" ({_stated(edge)})" if edge.explicit else ""
        click.echo(f"  {_arrow(edge, other.id)}  {_name(other)}{note}".rstrip())
    if not shown.edges:
        click.echo("  No edges.")


def _stated(edge: Edge) -> str:
    """That somebody stated an edge, and from when until when it holds, where that is said."""
    times = (("from", edge.valid_from), ("until", edge.valid_until))
    return " ".join(["stated", *(f"{word} {one_line(day[:10])}" for word, day in times if day)])


def _describe_node(node: Node, at: str) -> str:
    whose = f"({one_line(node.task)})" if node.task and not node.id.endswith(node.task) else ""
    return " ".join(filter(None, (whose, _name(node), "" if node.holds(at) else f"({_ended(node, at)})")))


def _ended(node: Node, at: str) -> str:
    began = node.since or node.valid_from or node.recorded
    if node.recorded and at < node.recorded[: len(at)]:
        return f"not yet: it did not exist then, it was recorded on {node.recorded[:10]}"
    if began and at < began[: len(at)]:
        return f"not yet: from {began[:10]} on"
    if node.replaced is not None:
        return f"no longer: superseded{f' on {node.replaced[:10]}' if node.replaced else ''}"
    if node.valid_until and node.valid_until[: len(at)] < at:
        return f"no longer: valid until {node.valid_until[:10]}"
    return "no longer: retired" if node.retired else "not now"


def _arrow(edge: Edge, other: str) -> str:
    """An edge as it is seen from the node that is not `other`."""
    return (
        f"-{edge.relation.value}-> {one_line(other)}"
        if edge.target == other
        else f"<-{edge.relation.value}- {one_line(other)}"
    )


def _name(node: Node) -> str:
    """A node's name, when it says more than its id."""
    return "" if node.id.endswith(f":{node.name}") else one_line(node.name)


def _print_reached(found: "list[ReachedNode] | tuple[ReachedNode, ...]", form: str, nothing: str) -> None:
    if form == "json":
        click.echo(json_text([_reached(each) for each in found]))
    elif form == "quiet":
        for each in found:
            click.echo(each.node.id)
    elif not found:
        click.echo(nothing)
    else:
        today = ids.today()
        rows = [
            [f"{each.score:.2f}", str(each.hops), each.node.type.value, one_line(each.node.id), _via(each),
             _describe_node(each.node, today)]
            for each in found
        ]  # fmt: skip
        click.echo(table(["SCORE", "HOPS", "TYPE", "ID", "BY", "NAME"], rows))


def _via(reached: ReachedNode) -> str:
    edge = reached.via
    if edge is None:
        return "-"
    out = edge.target == reached.node.id
    return (
        f"{edge.relation.value} of {one_line(edge.source)}" if out else f"{edge.relation.value} {one_line(edge.target)}"
    )


def _reached(each: ReachedNode) -> dict[str, object]:
    via = edge_json(each.via) if each.via is not None else None
    return {**node_json(each.node), "score": each.score, "hops": each.hops, "via": via, "start": each.start}


def _print_linked(done: LinkChange, call: Invocation, form: str, word: str, dry_run: bool) -> None:
    edge = done.edge
    if form == "json":
        shape = {
            "source": done.source, "relation": edge.relation.value, "target": edge.target, "changed": done.changed,
            "written": done.changed and not dry_run, "file": paths.shown(done.path, call.root), "diff": done.diff,
        }  # fmt: skip
        click.echo(json_text(shape))
        return
    if dry_run:
        print_raw(done.diff)
        say("nothing was written" if done.changed else "nothing would change")
        return
    where = one_line(paths.shown(done.path, call.root))
    click.echo(f"{word} {one_line(done.source)} {edge.relation.value} {one_line(edge.target)} ({where})")
