"""The knowledge graph: its nodes and edges from the rows of a source, and walks over it.

A memory is related to its tags, files and `[[links]]`, discovered in its session and task; a session affects the files
it wrote and mentions those it read; a task affects the files of its journal and depends on its blockers. Observations
and journal entries are no nodes: there are too many.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2
from typing import NamedTuple

from ralph.formats.graphiti import stated_edges
from ralph.formats.knowledge import links_in
from ralph.model.graph import (
    TYPE_OF_KIND,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.model.record import Family, MemoryKind, Record, Status
from ralph.store import db, queries, sessions
from ralph.store import graph as stored
from ralph.store.graph import EdgeRow, Fact, SourceFacts

_DECAY = 0.5  # the factor of a score with each hop
_WEIGHTS = {  # of a derived edge; a stated one has 1
    Relation.SUPERSEDES.value: 0.9,
    Relation.FIXES.value: 0.9,
    Relation.CONTRADICTS.value: 0.9,
    Relation.DEPENDS_ON.value: 0.8,
    Relation.AFFECTS.value: 0.8,
    Relation.RELATED_TO.value: 0.7,
    Relation.DISCOVERED_IN.value: 0.6,
    Relation.MENTIONS.value: 0.4,
}

HUB = 200  # a search is not expanded beyond a node with more edges than this
# characters of a text that are scanned for paths and symbols, and mentions of one kind
_SCANNED = 20_000
_MOST = 20
_NAME = 80
_PATH = re.compile(
    r"(?<![\w/.:@~\\-])(?:\./)?((?:[\w.@+-]+/)+[\w.@+-]*\w\.[A-Za-z]\w{0,9})(?:#([A-Za-z_$][\w$.]*))?(?![\w/])"
)
_CALL = re.compile(r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\(\)`")
_CHANGES = frozenset(
    {"edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"}
)
"""Tools that write the file they name; the first word of an observation's title."""
_TASKS = ".ralph/tasks/"


class ReachedNode(NamedTuple):
    """A node that a walk reached: hops, how near it is (1 is the start), the last edge, and if its start is weak."""

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""
    weak: bool = False


class GraphVisibility(NamedTuple):
    """What a task may not see: `hidden` nodes, and the edges of `silent` ones."""

    hidden: AbstractSet[int] = frozenset()
    silent: AbstractSet[int] = frozenset()
    tasks: AbstractSet[int] = frozenset()

    def allows(self, source: int, target: int) -> bool:
        """Whether an edge between two nodes may be seen."""
        if source in self.hidden or target in self.hidden:
            return False
        return (source not in self.silent and target not in self.silent) or {
            source,
            target,
        } <= self.tasks


ALL_VISIBLE = GraphVisibility()  # outside of any task


class _Step(NamedTuple):
    score: float
    hops: int
    row: EdgeRow | None
    before: int
    start: int


class WalkRules(NamedTuple):
    """What a walk may walk over; without a time, not what begins after the day `by`."""

    relations: Collection[Relation] = ()
    at: str = ""
    visibility: GraphVisibility = ALL_VISIBLE
    by: str = ""
    hub: int | None = None

    def allow(self, row: EdgeRow) -> bool:
        """Whether an edge may be followed."""
        if self.relations and row.relation not in self.relations:
            return False
        if self.visibility is not ALL_VISIBLE and not self.visibility.allows(
            row.source, row.target
        ):
            return False
        if self.by and row.valid_from[:10] > self.by:
            return False
        times = (row.recorded, row.valid_from, row.valid_until)
        return not self.at or Edge("", Relation.RELATED_TO, "", *times).holds(self.at)


ANYWHERE = WalkRules()


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    hops: int = 2,
    rules: WalkRules = ANYWHERE,
    types: Collection[NodeType] = (),
) -> list[ReachedNode]:
    """Return the nodes within some hops of a node, the nearest first."""
    return [
        each
        for each in walk(graph, {key: 1.0}, hops, rules)
        if each.hops and (not types or each.node.type in types)
    ]


def walk(
    graph: sqlite3.Connection, seeds: Mapping[int, float], hops: int, rules: WalkRules = ANYWHERE
) -> list[ReachedNode]:
    """Return everything within some hops of any seed, the seeds included, each by its best path, best first."""
    known = stored.nodes(graph, seeds)
    steps = {key: _Step(score, 0, None, key, key) for key, score in seeds.items() if key in known}
    level = dict(steps)
    for hop in range(1, hops + 1):
        level = _expand(graph, level, steps, known, hop, rules)
        known |= stored.nodes(graph, level)
        if rules.at:
            level = {key: step for key, step in level.items() if known[key].holds(rules.at)}
        if not level:
            break
        steps |= level
    reached = []
    for key, step in steps.items():
        via = stored.edge_of(step.row, known) if step.row is not None else None
        reached.append(
            ReachedNode(known[key], step.hops, round(step.score, 9), via, known[step.start].id)
        )
    return sorted(reached, key=lambda node: (-node.score, node.hops, node.node.id))


def _expand(
    graph: sqlite3.Connection,
    level: Mapping[int, _Step],
    steps: Mapping[int, _Step],
    known: Mapping[int, Node],
    hop: int,
    rules: WalkRules,
) -> dict[int, _Step]:
    """Ties go by id, whatever the keys are."""
    rows_at: dict[int, list[EdgeRow]] = {key: [] for key in level}
    for row in stored.edges_at(graph, level):
        if rules.allow(row):
            rows_at[row.here].append(row)
    nearest: dict[int, _Step] = {}
    for key, rows in rows_at.items():
        degree = len(rows)
        if rules.hub is not None and hop > 1 and degree > rules.hub:
            continue
        share = level[key].score * _DECAY
        if hop > 1 and degree > 2:  # a node passes all of its score on to one other, less to many
            share *= 1 / (1 + log2(degree / 2))
        for row in rows:
            other = row.target if row.source == key else row.source
            if other in steps:
                continue
            score = share if row.explicit else share * _WEIGHTS[row.relation]
            best = nearest.get(other)
            if best is not None and best.row is not None and score == best.score:
                better = (known[key].id, *row[3:]) < (known[best.before].id, *best.row[3:])
            else:
                better = best is None or score > best.score
            if better:
                nearest[other] = _Step(score, hop, row, key, level[key].start)
    return nearest


def path(
    graph: sqlite3.Connection, start: int, end: int, rules: WalkRules = ANYWHERE
) -> list[Edge] | None:
    """Return the edges of a shortest path between two nodes, or None; of several, a fixed one."""
    steps: dict[int, EdgeRow | None] = {start: None}
    known = stored.nodes(graph, [start])
    level = [start]
    while level and end not in steps:
        rows = [
            (row, row.source + row.target - row.here)
            for row in stored.edges_at(graph, level)
            if rules.allow(row)
        ]
        known |= stored.nodes(graph, {other for _, other in rows})
        level = []
        for row, other in sorted(
            rows, key=lambda pair: (known[pair[0].here].id, known[pair[1]].id, pair[0].relation)
        ):
            if other not in steps and (not rules.at or known[other].holds(rules.at)):
                steps[other] = row
                level.append(other)
    if end not in steps or (rules.at and not known[start].holds(rules.at)):
        return None
    way: list[Edge] = []
    while (step := steps[end]) is not None:
        way.append(stored.edge_of(step, known))
        end = step.here
    return way[::-1]


def source_facts(index: sqlite3.Connection, source: int, path: str) -> SourceFacts:
    """Return the nodes and edges of one source of the index."""
    db.restart_deadline(index)
    owner = path[len(_TASKS) :].partition("/")[0] if path.startswith(_TASKS) else ""
    nodes: list[tuple[Node, str]] = []
    facts: list[Fact] = []
    for _, record in queries.select_records(
        index, Family.MEMORY, "source = ? ORDER BY key", (source,)
    ):
        nodes.append((node_of(record, owner), record.title))
        facts += _memory_facts(record, owner)
    for task, title, blocked_by, parent, at in sessions.tasks_in(index, source):
        own = entity_id(NodeType.TASK, task)
        nodes.append((Node(own, NodeType.TASK, _short_name(title) or task, at, task=task), ""))
        facts += (
            Fact(own, Relation.DEPENDS_ON, entity_id(NodeType.TASK, other), at)
            for other in blocked_by
        )
        if parent:
            facts.append(Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, parent), at))
    for session, task, at, prompt in sessions.first_prompts(index, source):
        own = entity_id(NodeType.SESSION, session)
        nodes.append(
            (Node(own, NodeType.SESSION, _short_name(prompt) or session, at, task=task), "")
        )
        if task:
            facts.append(Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, task), at))
    facts += _event_facts(index, source, owner)
    return nodes, facts


def node_of(record: Record, task: str = "") -> Node:
    """Return the node of a memory."""
    kind = TYPE_OF_KIND[record.kind] if isinstance(record.kind, MemoryKind) else NodeType.DISCOVERY
    name = _short_name(record.title or record.text.strip().partition("\n")[0])
    since = record.extra.get("valid-from", record.extra.get("valid_from", ""))
    times = (record.created_at, since if isinstance(since, str) else "", record.valid_until)
    is_retired = record.status is Status.RETIRED
    return Node(record.id, kind, name, *times, retired=is_retired, task=record.origin.task or task)


def _short_name(words: str) -> str:
    line = " ".join(words[: 3 * _NAME].split())
    return line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"


def _memory_facts(record: Record, task: str) -> list[Fact]:
    facts: dict[tuple[str, Relation, str], Fact] = {}

    def add(fact: Fact) -> None:
        facts.setdefault((fact.source, fact.relation, fact.target), fact)

    own = record.id
    at = record.created_at
    for edge in stated_edges(record):
        words = entity_type(edge.target) is None
        add(
            Fact(
                own,
                edge.relation,
                edge.target,
                at,
                edge.since,
                edge.until,
                True,
                target_is_words=words,
            )
        )
    for link in record.links:
        if link.relation == "superseded_by":
            add(Fact(link.target, Relation.SUPERSEDES, own, at, source_is_words=True))
        elif parse_relation(link.relation) is None:
            add(Fact(own, Relation.RELATED_TO, link.target, at, target_is_words=True))
    for title in links_in(record.text) if "[[" in record.text else ():
        add(Fact(own, Relation.RELATED_TO, title, at, target_is_words=True))
    for tag in record.tags:
        if name := " ".join(tag.lower().split()):
            add(Fact(own, Relation.RELATED_TO, entity_id(NodeType.TAG, name), at))
    if record.origin.session:
        add(
            Fact(
                own, Relation.DISCOVERED_IN, entity_id(NodeType.SESSION, record.origin.session), at
            )
        )
    if record.origin.task or task:
        add(
            Fact(
                own,
                Relation.DISCOVERED_IN,
                entity_id(NodeType.TASK, record.origin.task or task),
                at,
            )
        )
    about = list(dict.fromkeys(project_files(record.origin.files)))
    how = Relation.DISCOVERED_IN if record.kind is MemoryKind.FIX else Relation.RELATED_TO
    files, symbols = find_mentions(record.text, about)
    for file in about:
        add(Fact(own, how, entity_id(NodeType.FILE, file), at))
    for file in files:
        if file not in about:
            add(Fact(own, Relation.MENTIONS, entity_id(NodeType.FILE, file), at))
    for symbol in symbols:
        node = entity_id(NodeType.SYMBOL, symbol)
        file = entity_id(NodeType.FILE, symbol.partition("#")[0])
        add(Fact(own, Relation.MENTIONS, node, at))
        add(Fact(node, Relation.RELATED_TO, file, at))
    return list(facts.values())


def find_mentions(text: str, about: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the paths in a text, and the symbols: `path#name`, or `name()` of the only file."""
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
    """Return the files of the project, named from its root."""
    for file in files:
        name = file.strip().removeprefix("./")
        if name and not name.startswith(("/", "~", "..")) and "\\" not in name and name[1:2] != ":":
            yield name


def _event_facts(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Fact]:
    first: dict[tuple[str, Relation, str], str] = {}

    def add(source: str, relation: Relation, target: str, at: str) -> None:
        earlier = first.get((source, relation, target))
        first[source, relation, target] = (
            at if earlier is None or (at and at < earlier) else earlier
        )

    for _, record in queries.select_records(index, Family.JOURNAL, "source = ?", (source,)):
        if name := record.origin.task or owner:
            task = entity_id(NodeType.TASK, name)
            for file in project_files(record.origin.files):
                add(task, Relation.AFFECTS, entity_id(NodeType.FILE, file), record.created_at)
            if record.origin.session:
                session = entity_id(NodeType.SESSION, record.origin.session)
                add(task, Relation.RELATED_TO, session, record.created_at)
    for name, title, files, at in sessions.touched_files(index, source):
        changes = title.partition(" ")[0].rstrip(":").lower() in _CHANGES
        for file in project_files(files) if name else ():
            how = Relation.AFFECTS if changes else Relation.MENTIONS
            add(entity_id(NodeType.SESSION, name), how, entity_id(NodeType.FILE, file), at)
    for ends, at in first.items():
        if (
            ends[1] is not Relation.MENTIONS or (ends[0], Relation.AFFECTS, ends[2]) not in first
        ):  # writing says more
            yield Fact(*ends, at)
