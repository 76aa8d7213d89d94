"""The knowledge graph: the facts that a source contains, and walks over the graph.

A memory is related to its tags, files and `[[links]]`, and was discovered in its session and task.
A session affects the files it wrote and mentions those it read. A task affects the files in its
journal and depends on its blockers. Observations and journal entries are not nodes, because there
are too many of them.

A *stated* edge is written in a record's metadata. All other edges are *derived* by Ralph. A *walk*
starts at some nodes and follows edges for a number of *hops*.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from math import log2
from typing import NamedTuple

from ralph.core.graph import (
    TYPE_OF_KIND,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.core.record import Family, MemoryKind, Record, Status
from ralph.formats.graphiti import stated_edges
from ralph.formats.knowledge_text import links_in
from ralph.storage import db, queries, sessions
from ralph.storage import graph as stored
from ralph.storage.graph import EdgeRow
from ralph.storage.graph_sync import Fact, SourceFacts, TitledNode

_DECAY = 0.5  # a score is multiplied by this with each hop
_DERIVED_WEIGHTS = {  # of edges that Ralph derived; a stated edge has a weight of 1
    Relation.SUPERSEDES.value: 0.9,
    Relation.FIXES.value: 0.9,
    Relation.CONTRADICTS.value: 0.9,
    Relation.DEPENDS_ON.value: 0.8,
    Relation.AFFECTS.value: 0.8,
    Relation.RELATED_TO.value: 0.7,
    Relation.DISCOVERED_IN.value: 0.6,
    Relation.MENTIONS.value: 0.4,
}
_SCORE_DIGITS = 9  # scores are rounded to this many decimal places
HUB = 200  # a search does not continue from a node with more edges than this

_MAX_SCANNED_CHARACTERS = 20_000  # of a text, searched for paths and symbols
_MAX_MENTIONS = 20  # of files in one text, and likewise of symbols
_MAX_NAME_CHARACTERS = 80
_PATH = re.compile(
    r"(?<![\w/.:@~\\-])(?:\./)?((?:[\w.@+-]+/)+[\w.@+-]*\w\.[A-Za-z]\w{0,9})"
    r"(?:#([A-Za-z_$][\w$.]*))?(?![\w/])"
)
"""A relative path with a suffix, and the symbol after `#`, if there is one."""
_CALL = re.compile(r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\(\)`")
_WRITING_TOOLS = frozenset(
    {"edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"}
)
"""Tools that write the file they name. An observation's title begins with its tool."""
_TASKS_FOLDER = ".ralph/tasks/"


# --- walks --------------------------------------------------------------------------------------


class ReachedNode(NamedTuple):
    """A node that a walk reached.

    `score` is 1 at the start of a walk and decreases with each hop. `via` is the last edge on the
    path, and `start` the id of the node where it began. `weak` is set if that node is a weak match.
    """

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""
    weak: bool = False


class GraphVisibility(NamedTuple):
    """The part of the graph that a task may not see.

    `hidden` nodes are invisible. The edges of `silent` nodes are invisible, except those between
    two nodes in `tasks`.
    """

    hidden: AbstractSet[int] = frozenset()
    silent: AbstractSet[int] = frozenset()
    tasks: AbstractSet[int] = frozenset()

    def allows(self, source: int, target: int) -> bool:
        """Return whether an edge between two nodes may be seen."""
        if source in self.hidden or target in self.hidden:
            return False
        if source in self.silent or target in self.silent:
            return source in self.tasks and target in self.tasks
        return True


ALL_VISIBLE = GraphVisibility()  # when no task is given


class WalkRules(NamedTuple):
    """The edges that a walk may follow.

    With `at`, a walk follows only what is valid at that time. With `by`, it follows no edge that
    becomes valid after that day. With `hub`, it does not continue from a node with more edges.
    """

    relations: Collection[Relation] = ()
    at: str = ""
    visibility: GraphVisibility = ALL_VISIBLE
    by: str = ""
    hub: int | None = None

    def allow(self, row: EdgeRow) -> bool:
        """Return whether an edge may be followed."""
        if self.relations and row.relation not in self.relations:
            return False
        is_limited = self.visibility is not ALL_VISIBLE
        if is_limited and not self.visibility.allows(row.source, row.target):
            return False
        if self.by and row.valid_from[:10] > self.by:
            return False
        return not self.at or row.holds(self.at)

    def allow_node(self, node: Node) -> bool:
        """Return whether a walk may enter a node."""
        return not self.at or node.holds(self.at)


ANYWHERE = WalkRules()


class _Step(NamedTuple):
    """How a walk reached a node on the best path so far."""

    score: float
    hops: int
    start: int
    previous: int
    edge: EdgeRow | None = None


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    hops: int = 2,
    rules: WalkRules = ANYWHERE,
    types: Collection[NodeType] = (),
) -> list[ReachedNode]:
    """Return the nodes within `hops` hops of a node, best score first."""
    found = []
    for reached in walk(graph, {key: 1.0}, hops, rules):
        is_wanted = not types or reached.node.type in types
        if reached.hops > 0 and is_wanted:
            found.append(reached)
    return found


def walk(
    graph: sqlite3.Connection, seeds: Mapping[int, float], hops: int, rules: WalkRules = ANYWHERE
) -> list[ReachedNode]:
    """Return the seeds and every node within `hops` hops of them, best score first.

    `seeds` maps the keys of the starting nodes to their scores. A node that can be reached in
    several ways gets the score of its best path.
    """
    nodes = stored.nodes(graph, seeds)
    steps: dict[int, _Step] = {}
    for key, score in seeds.items():
        if key in nodes:
            steps[key] = _Step(score, hops=0, start=key, previous=key)
    level = dict(steps)
    for hop in range(1, hops + 1):
        level = _expand(graph, level, steps, nodes, hop, rules)
        nodes |= stored.nodes(graph, level)
        level = {key: step for key, step in level.items() if rules.allow_node(nodes[key])}
        if not level:
            break
        steps |= level
    reached = [_reached_node(nodes, key, step) for key, step in steps.items()]
    return sorted(reached, key=lambda found: (-found.score, found.hops, found.node.id))


def _reached_node(nodes: Mapping[int, Node], key: int, step: _Step) -> ReachedNode:
    return ReachedNode(
        node=nodes[key],
        hops=step.hops,
        score=round(step.score, _SCORE_DIGITS),
        via=None if step.edge is None else stored.edge_of(step.edge, nodes),
        start=nodes[step.start].id,
    )


def _expand(
    graph: sqlite3.Connection,
    level: Mapping[int, _Step],
    steps: Mapping[int, _Step],
    nodes: Mapping[int, Node],
    hop: int,
    rules: WalkRules,
) -> dict[int, _Step]:
    """Return the best step to each node that is one hop further and not reached yet."""
    edges_of: dict[int, list[EdgeRow]] = {key: [] for key in level}
    for row in stored.edges_at(graph, level):
        if rules.allow(row):
            edges_of[row.here].append(row)
    nearest: dict[int, _Step] = {}
    for key, rows in edges_of.items():
        if rules.hub is not None and hop > 1 and len(rows) > rules.hub:
            continue
        share = _passed_score(level[key].score, hop, degree=len(rows))
        for row in rows:
            other = row.other_end
            if other in steps:
                continue
            score = share if row.explicit else share * _DERIVED_WEIGHTS[row.relation]
            step = _Step(score, hop, level[key].start, key, row)
            best = nearest.get(other)
            if best is None or _is_better(step, best, nodes):
                nearest[other] = step
    return nearest


def _passed_score(score: float, hop: int, *, degree: int) -> float:
    """Return the score that a node passes on along a stated edge.

    Apart from the decay per hop, the seeds of a walk and nodes with only one other edge pass on
    their full score. A node with many edges passes on less along each of them.
    """
    share = score * _DECAY
    if hop > 1 and degree > 2:
        share *= 1 / (1 + log2(degree / 2))
    return share


def _is_better(step: _Step, best: _Step, nodes: Mapping[int, Node]) -> bool:
    """Return whether a step is better than the best one so far.

    Steps are compared by score. Ties are broken by id and edge, because a rebuild changes the keys.
    """
    if step.score != best.score or step.edge is None or best.edge is None:
        return step.score > best.score
    order = (nodes[step.previous].id, step.edge.sort_key)
    best_order = (nodes[best.previous].id, best.edge.sort_key)
    return order < best_order


def path(
    graph: sqlite3.Connection, start: int, end: int, rules: WalkRules = ANYWHERE
) -> list[Edge] | None:
    """Return the edges on a shortest path between two nodes, or None if there is none.

    If there are several shortest paths, the choice is always the same.
    """
    arrivals: dict[int, EdgeRow | None] = {start: None}  # the edge that led to each node
    nodes = stored.nodes(graph, [start])
    level = [start]
    while level and end not in arrivals:
        rows = [row for row in stored.edges_at(graph, level) if rules.allow(row)]
        nodes |= stored.nodes(graph, {row.other_end for row in rows})
        rows.sort(key=lambda row: (nodes[row.here].id, nodes[row.other_end].id, row.relation))
        level = []
        for row in rows:
            if row.other_end not in arrivals and rules.allow_node(nodes[row.other_end]):
                arrivals[row.other_end] = row
                level.append(row.other_end)
    if end not in arrivals or not rules.allow_node(nodes[start]):
        return None
    edges: list[Edge] = []
    arrival = arrivals[end]
    while arrival is not None:
        edges.append(stored.edge_of(arrival, nodes))
        arrival = arrivals[arrival.here]
    edges.reverse()
    return edges


# --- the facts of a source ----------------------------------------------------------------------


def source_facts(index: sqlite3.Connection, source: int, path: str) -> SourceFacts:
    """Return the nodes and edges defined by one indexed source."""
    db.restart_deadline(index)
    owner = _owning_task(path)
    nodes: list[TitledNode] = []
    facts: list[Fact] = []
    for _, record in queries.select_records(
        index, Family.MEMORY, "source = ? ORDER BY key", (source,)
    ):
        nodes.append(TitledNode(node_of(record, owner), record.title))
        facts += _memory_facts(record, owner)
    for task in sessions.tasks_in(index, source):
        nodes.append(TitledNode(_task_node(task)))
        facts += _task_facts(task)
    for session in sessions.first_prompts(index, source):
        nodes.append(TitledNode(_session_node(session)))
        if session.task:
            session_id = entity_id(NodeType.SESSION, session.id)
            task_id = entity_id(NodeType.TASK, session.task)
            facts.append(_fact(session_id, Relation.RELATED_TO, task_id, session.started_at))
    facts += _event_facts(index, source, owner)
    return SourceFacts(nodes, facts)


def _owning_task(path: str) -> str:
    """Return the id of the task whose folder contains a source, or "" if none does."""
    if not path.startswith(_TASKS_FOLDER):
        return ""
    return path.removeprefix(_TASKS_FOLDER).partition("/")[0]


def _fact(source: str, relation: Relation, target: str, recorded: str) -> Fact:
    return Fact(Edge(source, relation, target, recorded))


def node_of(record: Record, task: str = "") -> Node:
    """Return the node for a memory. `task` is the task that owns its file."""
    kind = NodeType.DISCOVERY
    if isinstance(record.kind, MemoryKind):
        kind = TYPE_OF_KIND[record.kind]
    valid_from = record.extra.get("valid-from", record.extra.get("valid_from", ""))
    if not isinstance(valid_from, str):
        valid_from = ""
    return Node(
        id=record.id,
        type=kind,
        name=_short_name(record.title or record.text.strip().partition("\n")[0]),
        recorded=record.created_at,
        valid_from=valid_from,
        valid_until=record.valid_until,
        retired=record.status is Status.RETIRED,
        task=record.origin.task or task,
    )


def _task_node(task: sessions.IndexedTask) -> Node:
    name = _short_name(task.title) or task.id
    node_id = entity_id(NodeType.TASK, task.id)
    return Node(node_id, NodeType.TASK, name, recorded=task.created_at, task=task.id)


def _session_node(session: sessions.SessionPrompt) -> Node:
    name = _short_name(session.prompt) or session.id
    node_id = entity_id(NodeType.SESSION, session.id)
    return Node(node_id, NodeType.SESSION, name, recorded=session.started_at, task=session.task)


def _short_name(words: str) -> str:
    # Whitespace is collapsed, so a few times the length is enough to fill a name.
    line = " ".join(words[: 3 * _MAX_NAME_CHARACTERS].split())
    if len(line) <= _MAX_NAME_CHARACTERS:
        return line
    return f"{line[: _MAX_NAME_CHARACTERS - 1]}…"


def _task_facts(task: sessions.IndexedTask) -> Iterator[Fact]:
    task_id = entity_id(NodeType.TASK, task.id)
    for blocker in task.blocked_by:
        blocker_id = entity_id(NodeType.TASK, blocker)
        yield _fact(task_id, Relation.DEPENDS_ON, blocker_id, task.created_at)
    if task.parent:
        parent_id = entity_id(NodeType.TASK, task.parent)
        yield _fact(task_id, Relation.RELATED_TO, parent_id, task.created_at)


def _memory_facts(record: Record, task: str) -> list[Fact]:
    """Return the facts in a memory. If several have the same ends and relation, the first wins."""
    facts: dict[_EdgeKey, Fact] = {}
    for found in (
        _stated_facts(record),
        _link_facts(record),
        _origin_facts(record, task),
        _file_facts(record),
    ):
        for fact in found:
            edge = fact.edge
            facts.setdefault(_EdgeKey(edge.source, edge.relation, edge.target), fact)
    return list(facts.values())


class _EdgeKey(NamedTuple):
    source: str
    relation: Relation
    target: str


def _stated_facts(record: Record) -> Iterator[Fact]:
    """Yield the edges that are written in a record's metadata."""
    for stated in stated_edges(record):
        edge = Edge(
            source=record.id,
            relation=stated.relation,
            target=stated.target,
            recorded=record.created_at,
            valid_from=stated.since,
            valid_until=stated.until,
            explicit=True,
        )
        yield Fact(edge, target_is_words=entity_type(stated.target) is None)


def _link_facts(record: Record) -> Iterator[Fact]:
    """Yield an edge for each link to another record, in the metadata or in the text."""
    for link in record.links:
        if link.relation == "superseded_by":
            edge = Edge(link.target, Relation.SUPERSEDES, record.id, record.created_at)
            yield Fact(edge, source_is_words=True)
        elif parse_relation(link.relation) is None:
            edge = Edge(record.id, Relation.RELATED_TO, link.target, record.created_at)
            yield Fact(edge, target_is_words=True)
    if "[[" in record.text:
        for title in links_in(record.text):
            edge = Edge(record.id, Relation.RELATED_TO, title, record.created_at)
            yield Fact(edge, target_is_words=True)


def _origin_facts(record: Record, task: str) -> Iterator[Fact]:
    """Yield the edges to a record's tags, session and task."""
    for tag in record.tags:
        name = " ".join(tag.lower().split())
        if name:
            tag_id = entity_id(NodeType.TAG, name)
            yield _fact(record.id, Relation.RELATED_TO, tag_id, record.created_at)
    if record.origin.session:
        session_id = entity_id(NodeType.SESSION, record.origin.session)
        yield _fact(record.id, Relation.DISCOVERED_IN, session_id, record.created_at)
    owner = record.origin.task or task
    if owner:
        task_id = entity_id(NodeType.TASK, owner)
        yield _fact(record.id, Relation.DISCOVERED_IN, task_id, record.created_at)


def _file_facts(record: Record) -> Iterator[Fact]:
    """Yield edges to the files and symbols that a record is about or mentions."""
    subject_files = list(dict.fromkeys(project_files(record.origin.files)))
    mentioned_files, symbols = find_mentions(record.text, subject_files)
    is_fix = record.kind is MemoryKind.FIX
    relation = Relation.DISCOVERED_IN if is_fix else Relation.RELATED_TO
    for file in subject_files:
        yield _fact(record.id, relation, entity_id(NodeType.FILE, file), record.created_at)
    for file in mentioned_files:
        if file not in subject_files:
            file_id = entity_id(NodeType.FILE, file)
            yield _fact(record.id, Relation.MENTIONS, file_id, record.created_at)
    for symbol in symbols:
        symbol_id = entity_id(NodeType.SYMBOL, symbol)
        file_id = entity_id(NodeType.FILE, symbol.partition("#")[0])
        yield _fact(record.id, Relation.MENTIONS, symbol_id, record.created_at)
        yield _fact(symbol_id, Relation.RELATED_TO, file_id, record.created_at)


def find_mentions(text: str, about: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the paths and the symbols mentioned in `text`.

    `about` lists the files that the text is about. A symbol is written as `path#name`, or as
    `name()` in backticks if only one file can be meant.
    """
    files: dict[str, None] = {}  # used as an ordered set
    symbols: dict[str, None] = {}
    scanned = text[:_MAX_SCANNED_CHARACTERS]
    if "/" in scanned:
        for found in _PATH.finditer(scanned):
            file, symbol = found.groups()
            if {".", ".."}.isdisjoint(file.split("/")):
                files[file] = None
                if symbol:
                    symbols[f"{file}#{symbol.rstrip('.')}"] = None
    candidates = {*about, *files}
    if len(candidates) == 1 and "()`" in scanned:
        file = candidates.pop()
        for name in _CALL.findall(scanned):
            symbols[f"{file}#{name}"] = None
    return list(files)[:_MAX_MENTIONS], list(symbols)[:_MAX_MENTIONS]


def project_files(files: Sequence[str]) -> Iterator[str]:
    """Yield the files with a path relative to the project's root, without a leading `./`."""
    for file in files:
        name = file.strip().removeprefix("./")
        if not name or name.startswith(("/", "~", "..")):
            continue
        is_windows_path = "\\" in name or name[1:2] == ":"
        if not is_windows_path:
            yield name


def _event_facts(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Fact]:
    """Yield the facts about tasks, sessions and files in a log, each with its earliest time."""
    earliest: dict[_EdgeKey, str] = {}
    for edge in chain(_journal_edges(index, source, owner), _touched_file_edges(index, source)):
        key = _EdgeKey(edge.source, edge.relation, edge.target)
        known = earliest.get(key)
        if known is None or (edge.recorded and edge.recorded < known):
            earliest[key] = edge.recorded
    for key, recorded in earliest.items():
        # If a session wrote a file, no second edge has to say that it read the file.
        if (
            key.relation is Relation.MENTIONS
            and key._replace(relation=Relation.AFFECTS) in earliest
        ):
            continue
        yield _fact(key.source, key.relation, key.target, recorded)


def _journal_edges(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Edge]:
    for _, record in queries.select_records(index, Family.JOURNAL, "source = ?", (source,)):
        name = record.origin.task or owner
        if not name:
            continue
        task_id = entity_id(NodeType.TASK, name)
        for file in project_files(record.origin.files):
            file_id = entity_id(NodeType.FILE, file)
            yield Edge(task_id, Relation.AFFECTS, file_id, record.created_at)
        if record.origin.session:
            session_id = entity_id(NodeType.SESSION, record.origin.session)
            yield Edge(task_id, Relation.RELATED_TO, session_id, record.created_at)


def _touched_file_edges(index: sqlite3.Connection, source: int) -> Iterator[Edge]:
    for touched in sessions.touched_files(index, source):
        if not touched.session:
            continue
        session_id = entity_id(NodeType.SESSION, touched.session)
        tool = touched.title.partition(" ")[0].rstrip(":").lower()
        relation = Relation.AFFECTS if tool in _WRITING_TOOLS else Relation.MENTIONS
        for file in project_files(touched.files):
            yield Edge(session_id, relation, entity_id(NodeType.FILE, file), touched.created_at)
