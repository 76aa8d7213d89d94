"""The knowledge graph: its nodes and edges from the rows of a source, and walks over it.

A memory is a node, related to its tags, files and `[[links]]`, discovered in its session and task; a session affects
the files it wrote and mentions those it read; a task affects the files of its journal and depends on its blockers.
Observations and journal entries are no nodes: there are too many. A walk follows edges in both directions, level by
level; a score falls with every hop, with weak edges, and through nodes that many share. Ties go by id.
"""

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import log2
from typing import NamedTuple

from ralph.formats.graphiti import stated_edges
from ralph.formats.knowledge import links_in
from ralph.model.graph import TYPE_OF_KIND, Edge, Node, NodeType, Relation, entity_id, entity_type, parse_relation
from ralph.model.record import Family, MemoryKind, Record, Status
from ralph.store import graph as stored
from ralph.store import queries, sessions
from ralph.store.graph import EdgeRow, Fact, SourceFacts

DECAY = 0.5
"""The factor of a score with each hop."""

WEIGHTS = {
    Relation.SUPERSEDES.value: 0.9,
    Relation.FIXES.value: 0.9,
    Relation.CONTRADICTS.value: 0.9,
    Relation.DEPENDS_ON.value: 0.8,
    Relation.AFFECTS.value: 0.8,
    Relation.RELATED_TO.value: 0.7,
    Relation.DISCOVERED_IN.value: 0.6,
    Relation.MENTIONS.value: 0.4,
}
"""The weight of a derived edge; a stated one has 1."""

HUB = 200
"""A search is not expanded beyond a node with more edges than this."""

FARTHEST = 12
"""Hops of a path, at most."""

_STRONG = (NodeType.PATTERN, NodeType.DECISION, NodeType.GOTCHA, NodeType.DISCOVERY)
_SCANNED = 20_000
"""Characters of a text that are scanned for paths and symbols."""
_MOST = 20
"""Mentions of one kind in a text."""
_NAME = 80
_PATH = re.compile(
    r"(?<![\w/.:@~\\-])(?:\./)?((?:[\w.@+-]+/)+[\w.@+-]*\w\.[A-Za-z]\w{0,9})(?:#([A-Za-z_$][\w$.]*))?(?![\w/])"
)
_CALL = re.compile(r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\(\)`")
_CHANGES = frozenset({"edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"})
"""Tools that write the file they name; the first word of an observation's title."""
_TASKS = ".ralph/tasks/"


class ReachedNode(NamedTuple):
    """A node that a walk reached: hops, how near it is (1 is the start), and the last edge."""

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""


class GraphVisibility(NamedTuple):
    """What a task may not see, by key: `hidden` nodes, and the edges of `silent` ones (unfinished tasks of others).

    That those tasks exist, and which of the `tasks` waits for which, is visible to all.
    """

    hidden: AbstractSet[int] = frozenset()
    silent: AbstractSet[int] = frozenset()
    tasks: AbstractSet[int] = frozenset()

    def allows(self, source: int, target: int) -> bool:
        """Whether an edge between two nodes may be seen."""
        if source in self.hidden or target in self.hidden:
            return False
        return (source not in self.silent and target not in self.silent) or {source, target} <= self.tasks


ALL_VISIBLE = GraphVisibility()
"""Outside of any task."""

_Step = tuple[float, int, EdgeRow | None, int, int]
"""A step of a walk: score, hops, the last edge, the node before, and the start."""


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    *,
    hops: int = 2,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
    visibility: GraphVisibility = ALL_VISIBLE,
    by: str = "",
) -> list[ReachedNode]:
    """The nodes within some hops of a node, the nearest first."""
    reached = walk(graph, {key: 1.0}, hops=hops, relations=relations, at=at, visibility=visibility, by=by)
    return [each for each in reached if each.hops and (not types or each.node.type in types)]


def walk(
    graph: sqlite3.Connection,
    seeds: Mapping[int, float],
    *,
    hops: int,
    relations: Collection[Relation] = (),
    at: str = "",
    visibility: GraphVisibility = ALL_VISIBLE,
    hub: int | None = None,
    by: str = "",
) -> list[ReachedNode]:
    """Everything within some hops of any seed, the seeds included, each by its best path, best first.

    What is not visible is not walked over; nor, without a time, is what begins after the day `by`.
    """
    known = stored.nodes(graph, seeds)
    seen: dict[int, _Step] = {key: (score, 0, None, key, key) for key, score in seeds.items() if key in known}
    edge = seen
    rules = _WalkRules({relation.value for relation in relations}, at, visibility, by)
    for hop in range(1, hops + 1):
        nearest = _expand(graph, edge, seen, known, hop, rules, hub)
        known |= stored.nodes(graph, nearest)
        if at:
            nearest = {key: step for key, step in nearest.items() if known[key].holds(at)}
        if not nearest:
            break
        seen = seen | nearest
        edge = nearest
    reached = []
    for key, (score, hops_, row, _, start) in seen.items():
        via = stored.edge_of(row, known) if row is not None else None
        reached.append(ReachedNode(known[key], hops_, round(score, 9), via, known[start].id))
    return sorted(reached, key=lambda node: (-node.score, node.hops, node.node.id))


class _WalkRules(NamedTuple):
    """What a walk may walk over."""

    relations: Collection[str]
    at: str
    visibility: GraphVisibility
    by: str

    def allow(self, row: EdgeRow) -> bool:
        if self.relations and row.relation not in self.relations:
            return False
        if self.visibility is not ALL_VISIBLE and not self.visibility.allows(row.source, row.target):
            return False
        if self.by and row.valid_from[:10] > self.by:
            return False
        times = (row.recorded, row.valid_from, row.valid_until)
        return not self.at or Edge("", Relation.RELATED_TO, "", *times).holds(self.at)


def _expand(
    graph: sqlite3.Connection,
    edge: Mapping[int, _Step],
    seen: Mapping[int, _Step],
    known: Mapping[int, Node],
    hop: int,
    rules: _WalkRules,
    hub: int | None,
) -> dict[int, _Step]:
    """The nodes one hop further, each by the best path to it; of equal ones a fixed one, whatever the keys are."""
    rows_at: dict[int, list[EdgeRow]] = {key: [] for key in edge}
    for row in stored.edges_at(graph, edge):
        if rules.allow(row):
            rows_at[row.here].append(row)
    nearest: dict[int, _Step] = {}
    for key, edges in rows_at.items():
        degree = len(edges)
        if hub is not None and hop > 1 and degree > hub:
            continue
        share = edge[key][0] * DECAY
        if hop > 1 and degree > 2:  # a node passes all of its score on to one other, less to many
            share *= 1 / (1 + log2(degree / 2))
        for row in edges:
            other = row.target if row.source == key else row.source
            if other in seen:
                continue
            score = share if row.explicit else share * WEIGHTS[row.relation]
            best = nearest.get(other)
            if best is not None and best[2] is not None and score == best[0]:
                better = (known[key].id, *row[3:]) < (known[best[3]].id, *best[2][3:])
            else:
                better = best is None or score > best[0]
            if better:
                nearest[other] = (score, hop, row, key, edge[key][4])
    return nearest


def path(
    graph: sqlite3.Connection,
    start: int,
    end: int,
    *,
    at: str = "",
    visibility: GraphVisibility = ALL_VISIBLE,
    by: str = "",
    most: int = FARTHEST,
) -> list[Edge] | None:
    """The edges of a shortest path from one node to another, or None; of several, a fixed one.

    Both ends walk towards each other, always the one with fewer nodes to expand.
    """
    known = stored.nodes(graph, {start, end})
    if at and not all(node.holds(at) for node in known.values()):
        return None
    came: tuple[_Came, _Came] = ({start: None}, {end: None})
    edges: list[set[int]] = [{start}, {end}]
    met = {start} & {end}
    while not met and most > 0 and all(edges):
        most -= 1
        side = int(len(edges[1]) < len(edges[0]))
        edges[side] = _onward(graph, came[side], edges[side], known, _WalkRules((), at, visibility, by))
        met = edges[side] & came[1 - side].keys()
    if not met:
        return None
    middle = min(met, key=lambda key: known[key].id)
    halves: list[list[Edge]] = []
    for side_came in came:
        half: list[Edge] = []
        step = side_came[middle]
        while step is not None:
            half.append(stored.edge_of(step[1], known))
            step = side_came[step[0]]
        halves.append(half)
    return [*reversed(halves[0]), *halves[1]]


_Came = dict[int, tuple[int, EdgeRow] | None]
"""Nodes reached from one end, each with the node before it and the edge between; None for the end itself."""


def _onward(
    graph: sqlite3.Connection, came: _Came, edge: set[int], known: dict[int, Node], rules: _WalkRules
) -> set[int]:
    """Go one hop further; return the new nodes, each reached by a fixed one of the paths to it."""
    found: dict[int, tuple[tuple[str, str, str], int, EdgeRow]] = {}
    for row in stored.edges_at(graph, edge):
        other = row.target if row.source == row.here else row.source
        if other in came or not rules.allow(row):
            continue
        way = (known[row.here].id, row.relation, row.recorded)
        if other not in found or way < found[other][0]:
            found[other] = (way, row.here, row)
    nodes = stored.nodes(graph, found)
    fresh = {key for key, node in nodes.items() if not rules.at or node.holds(rules.at)}
    known |= nodes
    came |= {key: found[key][1:] for key in fresh}
    return fresh


def related(
    graph: sqlite3.Connection, index: sqlite3.Connection, keys: Sequence[int], *, at: str = "", hops: int = 2
) -> list[tuple[int, int, float]]:
    """Records connected with others, for the expansion of a search: source, target, and how near (at most 1)."""
    names = queries.row_ids(index, keys)
    seeds = stored.keys_of(graph, list(names.values()))
    found: list[tuple[int, str, float]] = []
    for key, name in names.items():
        if name in seeds:
            near = walk(graph, {seeds[name]: 1.0}, hops=hops, at=at, hub=HUB)
            for reached in near:
                node = reached.node
                if reached.hops and entity_type(node.id) is None and node.type in _STRONG:
                    found.append((key, node.id, reached.score / DECAY))
    back = queries.row_keys(index, [name for _, name, _ in found])
    return [(key, back[name], score) for key, name, score in found if name in back]


# --- facts of a source --------------------------------------------------------------------------


def source_facts(index: sqlite3.Connection, source: int, path: str) -> SourceFacts:
    """The nodes and edges of one source of the index."""
    task = path[len(_TASKS) :].partition("/")[0] if path.startswith(_TASKS) else ""
    nodes: list[tuple[Node, str]] = []
    facts: list[Fact] = []
    names = queries.source_row_ids(index, source)
    for key, record in queries.select_records(index, Family.MEMORY, "source = ?", (source,)):
        record = replace(record, id=names[key])
        nodes.append((node_of(record, task), record.title))
        facts += memory_facts(record, task)
    for part in (_tasks(index, source), _sessions(index, source)):
        for node, more in part:
            nodes.append((node, ""))
            facts += more
    facts += _journal(index, source, task)
    facts += _observations(index, source)
    return SourceFacts(tuple(nodes), tuple(facts))


def node_of(record: Record, task: str = "") -> Node:
    """The node of a memory."""
    kind = TYPE_OF_KIND[record.kind] if isinstance(record.kind, MemoryKind) else NodeType.DISCOVERY
    since = record.extra.get("valid-from", record.extra.get("valid_from", ""))
    return Node(
        record.id,
        kind,
        _short_name(record.title or record.text.strip().partition("\n")[0]),
        record.created_at,
        since if isinstance(since, str) else "",
        record.valid_until,
        retired=record.status is Status.RETIRED,
        task=record.origin.task or task,
    )


def _short_name(words: str) -> str:
    """A name on one short line."""
    line = " ".join(words[: 3 * _NAME].split())
    return line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"


def memory_facts(record: Record, task: str = "") -> Iterator[Fact]:
    """The edges of a memory, each once."""
    seen: set[tuple[str, Relation, str]] = set()
    for fact in _memory_edges(record, task):
        ends = (fact.source, fact.relation, fact.target)
        if ends not in seen:
            yield fact
        seen.add(ends)


def _memory_edges(record: Record, task: str) -> Iterator[Fact]:
    at = record.created_at
    for edge in stated_edges(record):
        words = entity_type(edge.target) is None
        yield Fact(record.id, edge.relation, edge.target, at, edge.since, edge.until, True, target_is_words=words)
    for link in record.links:
        if link.relation == "superseded_by":
            yield Fact(link.target, Relation.SUPERSEDES, record.id, at, source_is_words=True)
        elif parse_relation(link.relation) is None:
            yield Fact(record.id, Relation.RELATED_TO, link.target, at, target_is_words=True)
    for title in links_in(record.text) if "[[" in record.text else ():
        yield Fact(record.id, Relation.RELATED_TO, title, at, target_is_words=True)
    for tag in record.tags:
        if name := " ".join(tag.lower().split()):
            yield Fact(record.id, Relation.RELATED_TO, entity_id(NodeType.TAG, name), at)
    if record.origin.session:
        yield Fact(record.id, Relation.DISCOVERED_IN, entity_id(NodeType.SESSION, record.origin.session), at)
    if record.origin.task or task:
        yield Fact(record.id, Relation.DISCOVERED_IN, entity_id(NodeType.TASK, record.origin.task or task), at)
    yield from _file_edges(record)


def _file_edges(record: Record) -> Iterator[Fact]:
    """The files that a record is about, and what its text mentions."""
    at = record.created_at
    about = list(dict.fromkeys(project_files(record.origin.files)))
    how = Relation.DISCOVERED_IN if record.kind is MemoryKind.FIX else Relation.RELATED_TO
    for file in about:
        yield Fact(record.id, how, entity_id(NodeType.FILE, file), at)
    files, symbols = find_mentions(record.text, about)
    for file in files:
        if file not in about:
            yield Fact(record.id, Relation.MENTIONS, entity_id(NodeType.FILE, file), at)
    for symbol in symbols:
        yield Fact(record.id, Relation.MENTIONS, entity_id(NodeType.SYMBOL, symbol), at)
        yield Fact(
            entity_id(NodeType.SYMBOL, symbol),
            Relation.RELATED_TO,
            entity_id(NodeType.FILE, symbol.partition("#")[0]),
            at,
        )


def find_mentions(text: str, about: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The paths in a text, and the symbols: `path#name`, or `name()` when just one file can be meant."""
    files: dict[str, None] = {}
    symbols: dict[str, None] = {}
    part = text[:_SCANNED]
    for found in _PATH.finditer(part) if "/" in part else ():
        if not any(piece in ("..", ".") for piece in found[1].split("/")):
            files[found[1]] = None
            if found[2]:
                symbols[f"{found[1]}#{found[2].rstrip('.')}"] = None
    meant = {*about, *files}
    if len(meant) == 1 and "()`" in part:
        (file,) = meant
        symbols.update((f"{file}#{name}", None) for name in _CALL.findall(part))
    return list(files)[:_MOST], list(symbols)[:_MOST]


def project_files(files: Sequence[str]) -> Iterator[str]:
    """Files of the project, named from its root."""
    for file in files:
        name = file.strip().removeprefix("./")
        if name and not name.startswith(("/", "~", "..")) and "\\" not in name and name[1:2] != ":":
            yield name


def _tasks(index: sqlite3.Connection, source: int) -> Iterator[tuple[Node, list[Fact]]]:
    for task, title, blocked_by, parent, at in sessions.tasks_in(index, source):
        own = entity_id(NodeType.TASK, task)
        node = Node(own, NodeType.TASK, _short_name(title) or task, at, task=task)
        facts = [Fact(own, Relation.DEPENDS_ON, entity_id(NodeType.TASK, other), at) for other in blocked_by]
        if parent:
            facts.append(Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, parent), at))
        yield node, facts


def _sessions(index: sqlite3.Connection, source: int) -> Iterator[tuple[Node, list[Fact]]]:
    for session, task, at, prompt in sessions.first_prompts(index, source):
        own = entity_id(NodeType.SESSION, session)
        facts = [Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, task), at)] if task else []
        yield Node(own, NodeType.SESSION, _short_name(prompt) or session, at, task=task), facts


def _journal(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Fact]:
    """The files and sessions of tasks, each edge at its earliest time."""
    first: dict[tuple[str, Relation, str], str] = {}
    for _, record in queries.select_records(index, Family.JOURNAL, "source = ?", (source,)):
        task = record.origin.task or owner
        if not task:
            continue
        ends = [(Relation.AFFECTS, entity_id(NodeType.FILE, file)) for file in project_files(record.origin.files)]
        if record.origin.session:
            ends.append((Relation.RELATED_TO, entity_id(NodeType.SESSION, record.origin.session)))
        for relation, target in ends:
            _earliest(first, (entity_id(NodeType.TASK, task), relation, target), record.created_at)
    yield from (Fact(*ends, at) for ends, at in first.items())


def _observations(index: sqlite3.Connection, source: int) -> Iterator[Fact]:
    """The files that sessions wrote or only read."""
    first: dict[tuple[str, Relation, str], str] = {}
    for session, title, files, at in sessions.touched_files(index, source):
        if not session:
            continue
        changes = title.partition(" ")[0].rstrip(":").lower() in _CHANGES
        how = Relation.AFFECTS if changes else Relation.MENTIONS
        for file in project_files(files):
            _earliest(first, (entity_id(NodeType.SESSION, session), how, entity_id(NodeType.FILE, file)), at)
    for ends, at in first.items():
        if ends[1] is not Relation.MENTIONS or (ends[0], Relation.AFFECTS, ends[2]) not in first:  # writing says more
            yield Fact(*ends, at)


def _earliest(first: dict[tuple[str, Relation, str], str], ends: tuple[str, Relation, str], at: str) -> None:
    known = first.get(ends)
    first[ends] = at if known is None or (at and at < known) else known
