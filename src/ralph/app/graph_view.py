"""A part of the graph that a person can look at: by task, tag, kind, words and time, at most so many nodes.

A picture of ten thousand nodes shows nothing, so the nodes with the most edges are taken, with all edges between them;
how many there are in all is told. A task or a tag brings its own records and what these speak of. A node's degree is
that of the whole graph, so that it does not change with what is shown. The graph is kept in memory between two looks
as long as its sources are what they were: the slider of time asks again and again. `tests/web/test_graph.py`
proves it.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralph.app import graph, index
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import Edge, Node, NodeType, named, type_named
from ralph.store import graph as stored

LIMIT, MOST = 400, 2_000
_TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2})?)?)?)?")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part: what is about a task or a tag, of these kinds, with these words in its name, as of a time."""

    task: str = ""
    tag: str = ""
    kinds: tuple[NodeType, ...] = ()
    words: str = ""
    at: str = ""
    limit: int = LIMIT


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes with their degrees, the edges between them, how many there are in all, and the time they span."""

    nodes: tuple[tuple[Node, int], ...] = ()
    edges: tuple[Edge, ...] = ()
    total_nodes: int = 0
    total_edges: int = 0
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """The graph in memory: its nodes and edges by id, and what stands next to what."""

    nodes: Mapping[str, Node] = field(default_factory=dict, hash=False)
    edges: tuple[Edge, ...] = ()
    degrees: Mapping[str, int] = field(default_factory=dict, hash=False)
    since: str = ""

    def beside(self, names: Collection[str], edges: Iterable[Edge] | None = None) -> set[str]:
        """What is one edge away from some nodes."""
        found: set[str] = set()
        for edge in self.edges if edges is None else edges:
            if edge.source in names:
                found.add(edge.target)
            if edge.target in names:
                found.add(edge.source)
        return found - set(names)


def kinds_named(words: Sequence[str]) -> tuple[NodeType, ...]:
    """The kinds of nodes that words mean; UsageError names the valid ones."""
    known = {kind.value: kind for kind in NodeType}
    wrong = [word for word in words if word not in known]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is no kind of node", hint=f"one of {', '.join(known)}")
    return tuple(known[word] for word in words)


def checked_time(at: str) -> str:
    """A time to look at the graph as of; UsageError when it is none."""
    if at and not _TIME.fullmatch(at):
        raise UsageError(f"{at[:40]!r} is no day and no time", hint="for example 2026-11-15")
    return at


def show(root: Path, wanted: Wanted) -> Part:
    """The part that is asked for; an empty one where nothing is known."""
    whole = _whole(root)
    at = checked_time(wanted.at)
    nodes = {name for name, node in whole.nodes.items() if not at or node.holds(at)}
    edges = _holding(whole, at)
    if at:
        nodes &= {name for name in nodes if type_named(name) is None} | _ends(edges)
    if wanted.task:
        nodes &= _about(whole, edges, _of_task(whole, wanted.task))
    if wanted.tag:
        nodes &= _about(whole, edges, {named(NodeType.TAG, wanted.tag.lower())})
    if wanted.kinds:
        nodes = {name for name in nodes if whole.nodes[name].type in wanted.kinds}
    if wanted.words.strip():
        words = wanted.words.casefold().split()
        nodes = {
            name for name in nodes if all(word in f"{name}\n{whole.nodes[name].name}".casefold() for word in words)
        }
    return _part(whole, nodes, edges, wanted.limit)


@index.one_look()
def neighbors(root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT) -> Part:
    """A node and what is within some hops of it; NotFound when there is none of that name."""
    key = graph.show(root, name).node.id
    whole = _whole(root)
    at = checked_time(at)
    edges = _holding(whole, at)
    seen = {key}
    for _ in range(hops):
        seen |= whole.beside(seen, edges)
    return _part(whole, seen, edges, limit, first=key)


@index.one_look()
def path(root: Path, start: str, end: str, *, at: str = "") -> tuple[Part, bool]:
    """A shortest way between two nodes, in its order, and whether there is one."""
    way = graph.path(root, start, end, at=checked_time(at))
    whole = _whole(root)
    names = [way.start.id]
    for edge in way.edges:
        names.append(edge.target if edge.source == names[-1] else edge.source)
    names = list(dict.fromkeys([*names, way.end.id]))
    nodes = tuple((whole.nodes[name], whole.degrees.get(name, 0)) for name in names if name in whole.nodes)
    return Part(nodes, way.edges, len(nodes), len(way.edges), whole.since, ids.today()), way.found


def _holding(whole: Whole, at: str) -> list[Edge]:
    """The edges that hold at a time, between nodes that do."""
    if not at:
        return list(whole.edges)
    known = {name for name, node in whole.nodes.items() if node.holds(at)}
    return [edge for edge in whole.edges if edge.source in known and edge.target in known and edge.holds(at)]


def _ends(edges: Iterable[Edge]) -> set[str]:
    """What some edges join; a file or a tag that nothing spoke of yet has no time of its own."""
    return {end for edge in edges for end in (edge.source, edge.target)}


def _of_task(whole: Whole, task: str) -> set[str]:
    own = {name for name, node in whole.nodes.items() if node.task == task}
    return own | {named(NodeType.TASK, task)}


def _about(whole: Whole, edges: Sequence[Edge], first: set[str]) -> set[str]:
    """What some nodes have, and what that speaks of: records of a tag, and their files, symbols and other tags."""
    records = {name for name in whole.beside(first, edges) | first if type_named(name) is None}
    return first | records | whole.beside(records, edges) | whole.beside(first, edges)


def _part(whole: Whole, names: Collection[str], edges: Sequence[Edge], limit: int, first: str = "") -> Part:
    """The nodes with the most edges of these, with the edges between them."""
    between = [edge for edge in edges if edge.source in names and edge.target in names]
    order = sorted(names, key=lambda name: (name != first, -whole.degrees.get(name, 0), name))
    kept = order[: min(limit, MOST)]
    shown = set(kept)
    return Part(
        tuple((whole.nodes[name], whole.degrees.get(name, 0)) for name in kept),
        tuple(edge for edge in between if edge.source in shown and edge.target in shown),
        len(order), len(between), whole.since, ids.today() if whole.nodes else "",
    )  # fmt: skip


# --- kept between two looks --------------------------------------------------------------------------

_Stamp = tuple[Path, tuple[tuple[str, str], ...]]
_HELD: dict[_Stamp, Whole] = {}


def _whole(root: Path) -> Whole:
    """The whole graph, as its sources are now."""

    def question(found: sqlite3.Connection, _: sqlite3.Connection) -> Whole:
        told = found.execute("SELECT path, stamp FROM sources ORDER BY path")
        stamp = (root, tuple((str(row[0]), str(row[1])) for row in told))
        held = _HELD.get(stamp)
        if held is None:
            held = _read(found)
            _HELD.clear()  # of one project, and as it is now: the pages ask for nothing else
            _HELD[stamp] = held
        return held

    return graph.asked(root, question)


def _read(found: sqlite3.Connection) -> Whole:
    nodes = stored.nodes(found)
    edges = tuple(stored.edge_of(row, nodes) for row in sorted(set(stored.edges(found))))
    degrees = Counter(end for edge in edges for end in {edge.source, edge.target})
    times = [node.since or node.recorded for node in nodes.values()] + [edge.recorded for edge in edges]
    since = min((at for at in times if at), default="")[:10]
    return Whole({node.id: node for node in nodes.values()}, edges, degrees, since)
