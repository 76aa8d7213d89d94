"""`ralph graph ...`: how records, files, tasks, sessions and tags are linked, now or at another time.

The graph is a cache beside the index, updated by each query, or built in memory where it cannot be written. A node is
named by its id, by a record's title, or by a plain path, task or tag. Without a time, `show`, `neighbors` and `path`
include what was true in the past and say so; `search` returns what holds now. Inside a task, records of other tasks
are hidden (`app/filters.py`). A search ranks like `ralph search` and then walks from the hits.
"""

import difflib
import posixpath
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph import paths
from ralph.app import filters, index, meaning, outdated
from ralph.capture.privacy import clean_memory
from ralph.errors import NotFound, RalphError, Refused, UsageError, WriteFailed
from ralph.formats.graphiti import EdgeForm, StatedEdge, stated_edges, with_edge, without_edge
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.memories import GUARDRAILS, MEMORIES, parse_memories
from ralph.formats.text import Document, find_entry
from ralph.formats.work import parse_insights
from ralph.model import ids
from ralph.model.graph import ENTITY_TYPES, Edge, Node, NodeType, Relation, entity_id, entity_type, parse_relation
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.search import graph as walking
from ralph.search import rank
from ralph.search.graph import GraphVisibility, ReachedNode, project_files, source_facts
from ralph.store import db, files, lookup, queries, sessions
from ralph.store import graph as stored
from ralph.store.index import FAMILIES, Progress
from ralph.store.sources import Format, Source, sources

if TYPE_CHECKING:
    from ralph.settings import Embedding

T = TypeVar("T")
HOPS = 2
LIMIT = 10
_MAX_SEEDS = 20
_MAX_BUSIEST = 10
_MIN_SCORE = 0.05
"""Nodes with a lower score are related by chance."""
_NAMED_SCORE = 0.8


@dataclass(frozen=True, slots=True)
class GraphOverview:
    """The size of the graph: nodes by type, edges by relation, and the nodes with the most edges."""

    nodes: dict[str, int]
    edges: dict[str, int]
    busiest: tuple[tuple[Node, int], ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, its record if it has one, and its edges with the node at the other end."""

    node: Node
    record: Record | None
    edges: tuple[tuple[Edge, Node], ...]


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A shortest path between two nodes: its edges in order."""

    start: Node
    end: Node
    edges: tuple[Edge, ...]
    found: bool


@dataclass(frozen=True, slots=True)
class GraphHit:
    """The nodes that a search returned, best first, with warnings."""

    hits: tuple[ReachedNode, ...]
    at: str
    warnings: tuple[str, ...] = ()


def query_graph(
    root: Path,
    question: Callable[[sqlite3.Connection, sqlite3.Connection], T],
    progress: Progress | None = None,
) -> T:
    """Call `question` with connections to the graph and the index, both up to date."""

    def ask(connection: sqlite3.Connection) -> T:
        with closing(open_graph(root, connection)) as graph:
            return question(graph, connection)

    return index.ask(root, ask, progress)


def open_graph(root: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Open the graph of an open index, up to date; in memory when the index is, or the disk cannot be written."""
    path = paths.graph_file(root)
    if not db.is_in_memory(connection):
        for _ in range(2):
            with suppress(WriteFailed, OSError):
                try:
                    return _bring_up_to_date(stored.connect(path), connection, path)
                except db.Damaged:
                    db.remove(path)
    return _bring_up_to_date(stored.in_memory(), connection, path)


def _bring_up_to_date(graph: sqlite3.Connection, connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        with db.explained(path):
            stored.sync(graph, connection, lambda key, name: source_facts(connection, key, name))
    except BaseException:
        graph.close()
        raise
    return graph


def rebuild(root: Path) -> dict[str, int]:
    """Build the graph again; return the number of nodes of each type."""
    db.remove(paths.graph_file(root))
    return query_graph(root, lambda graph, _: stored.counts(graph)[0])


def related_records(
    root: Path, connection: sqlite3.Connection
) -> Callable[[Sequence[int]], list[tuple[int, int, float]]]:
    """Return a function that finds records linked to the best hits; it returns none if the graph fails."""

    def near(keys: Sequence[int]) -> list[tuple[int, int, float]]:
        with suppress(RalphError, sqlite3.Error), closing(open_graph(root, connection)) as graph:
            return walking.related(graph, connection, keys, at=ids.today())
        return []

    return near


def overview(root: Path, *, task: str = "") -> GraphOverview:
    """Return the size of the graph, or of the part that a task may see."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> GraphOverview:
        if task:
            return _visible_overview(graph, filters.graph_visibility(graph, connection, task))
        busiest = stored.busiest(graph, _MAX_BUSIEST)
        nodes = stored.nodes(graph, [key for key, _ in busiest])
        return GraphOverview(*stored.counts(graph), tuple((nodes[key], degree) for key, degree in busiest))

    return query_graph(root, question)


def _visible_overview(graph: sqlite3.Connection, sight: GraphVisibility) -> GraphOverview:
    seen = {key: node for key, node in stored.nodes(graph).items() if key not in sight.hidden}
    edges = [row for row in stored.edges(graph) if sight.allows(row.source, row.target)]
    degrees = Counter(end for row in edges for end in (row.source, row.target))
    busiest = sorted(degrees.items(), key=lambda each: (-each[1], seen[each[0]].id))[:_MAX_BUSIEST]
    return GraphOverview(
        dict(Counter(node.type.value for node in seen.values())),
        dict(Counter(row.relation for row in edges)),
        tuple((seen[key], degree) for key, degree in busiest),
    )


def show(root: Path, name: str, *, at: str = "", task: str = "") -> NodeView:
    """Return a node with its edges, stated ones first."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> NodeView:
        sight = filters.graph_visibility(graph, connection, task)
        key = find_node(graph, name, sight)
        rows_there = sorted({row for row in stored.edges_at(graph, [key]) if sight.allows(row.source, row.target)})
        nodes = stored.nodes(graph, {key} | {end for row in rows_there for end in (row.source, row.target)})
        edges = [
            (stored.edge_of(row, nodes), nodes[row.target if row.source == key else row.source]) for row in rows_there
        ]
        today = ids.today()
        held = [
            (edge, other)
            for edge, other in edges
            if (edge.holds(at) and other.holds(at) if at else edge.has_begun(today))
        ]
        held.sort(key=lambda pair: (not pair[0].explicit, pair[0].relation, pair[0].source, pair[0].target))
        return NodeView(nodes[key], _record(connection, nodes[key]), tuple(held))

    return query_graph(root, question)


def neighbors(
    root: Path,
    name: str,
    *,
    hops: int = HOPS,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
    task: str = "",
) -> list[ReachedNode]:
    """Return the nodes within some hops of a node, nearest first."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> list[ReachedNode]:
        sight = filters.graph_visibility(graph, connection, task)
        key = find_node(graph, name, sight)
        return walking.neighbours(
            graph, key, hops=hops, types=types, relations=relations, at=at, visibility=sight, by=ids.today()
        )

    return query_graph(root, question)


def path(root: Path, start: str, end: str, *, at: str = "", task: str = "") -> GraphPath:
    """Find a shortest path between two nodes."""

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> GraphPath:
        sight = filters.graph_visibility(graph, connection, task)
        keys = find_node(graph, start, sight), find_node(graph, end, sight)
        nodes = stored.nodes(graph, keys)
        way = walking.path(graph, *keys, at=at, visibility=sight, by=ids.today())
        return GraphPath(nodes[keys[0]], nodes[keys[1]], tuple(way or ()), way is not None)

    return query_graph(root, question)


def search(
    root: Path,
    words: str,
    *,
    at: str = "",
    types: Collection[NodeType] = (),
    hops: int = HOPS,
    limit: int | None = LIMIT,
    task: str = "",
    embedding: "Embedding | None" = None,
    progress: Progress | None = None,
) -> GraphHit:
    """Search nodes by words and return them with linked nodes, as of a time or now."""
    when = at or ids.today()
    warnings: list[str] = []

    def question(graph: sqlite3.Connection, connection: sqlite3.Connection) -> GraphHit:
        warnings.clear()
        query = Query(limit=None, families=(Family.MEMORY, Family.JOURNAL), task=task)
        near = None if embedding is None else meaning.meaning_for(root, embedding, connection, query, warnings.append)
        keep = [part for part in lookup.visible_to(queries.safe(task)) if FAMILIES[part[0]] is not Family.OBSERVATION]
        ranked = rank.rank(connection, words, today=when[:10], keep=keep, limit=_MAX_SEEDS, meaning=near)
        seeds = _seeds(graph, connection, ranked) | _named_nodes(graph, words)
        known = stored.nodes(graph, seeds)
        sight = filters.graph_visibility(graph, connection, task)
        kept = {key: score for key, score in seeds.items() if known[key].holds(when) and key not in sight.hidden}
        hits = walking.walk(graph, kept, hops=hops, at=when, visibility=sight, hub=walking.HUB)
        fit = [each for each in hits if each.score >= _MIN_SCORE and (not types or each.node.type in types)]
        return GraphHit(tuple(fit[:limit]), when, tuple(warnings))

    return query_graph(root, question, progress)


def _seeds(graph: sqlite3.Connection, connection: sqlite3.Connection, ranked: rank.Ranking) -> dict[int, float]:
    """Return the nodes of the ranked records; a journal entry stands for its task."""
    scores: dict[str, float] = {}
    for each in ranked.best:
        if rank.is_answer(each) or each.link:
            scores.setdefault(_node_of(connection, each.row.key, each.row.id), each.score)
    keys = stored.keys_of(graph, list(scores))
    return {keys[name]: score for name, score in scores.items() if name in keys}


def _node_of(connection: sqlite3.Connection, key: int, name: str) -> str:
    if FAMILIES[key % len(FAMILIES)] is not Family.JOURNAL:
        return name
    return entity_id(NodeType.TASK, sessions.task_of_entry(connection, key))


def _named_nodes(graph: sqlite3.Connection, words: str) -> dict[int, float]:
    spellings = {words.strip(), *words.split()}
    wanted = [entity_id(kind, name) for name in spellings for kind in ENTITY_TYPES]
    wanted += [name for name in spellings if entity_type(name) is not None]
    return dict.fromkeys(stored.keys_of(graph, sorted(wanted)).values(), _NAMED_SCORE)


def find_node(graph: sqlite3.Connection, name: str, sight: GraphVisibility = walking.ALL_VISIBLE) -> int:
    """Return the key of a visible node by name. Raises NotFound, with the nearest name as a hint."""
    bare = name.strip()
    named_ = (stored.key_of(graph, spelling) for spelling in spellings(bare))
    meant = [key for key in (*named_, stored.find_by_words(graph, bare)) if key is not None]
    for key in meant:
        if key not in sight.hidden:
            return key
    if meant:
        raise NotFound(f"the graph has no node {name} that this task may see", hint="--all-tasks shows everything")
    raise NotFound(f"the graph has no node {name}", hint=_nearest(graph, bare, sight))


def spellings(name: str) -> list[str]:
    """Return the ids that a name may mean: itself, a file, a task, a session, a tag or a symbol."""
    kind = entity_type(name)
    if kind is not None:
        rest = name.partition(":")[2].strip()
        return [name, entity_id(kind, posixpath.normpath(rest) if kind is NodeType.FILE else rest.lower())]
    tidy = posixpath.normpath(name) if name else name
    return [
        name,
        entity_id(NodeType.FILE, tidy),
        entity_id(NodeType.TASK, name),
        entity_id(NodeType.SESSION, name),
        entity_id(NodeType.TAG, name.lower()),
        entity_id(NodeType.SYMBOL, tidy),
    ]


def _nearest(graph: sqlite3.Connection, name: str, sight: GraphVisibility) -> str:
    there = [node for key, node in stored.nodes(graph).items() if key not in sight.hidden]
    names = {spelling.casefold(): node.id for node in there for spelling in (node.id, node.name)}
    near = difflib.get_close_matches(name.casefold(), list(names)[:20_000], n=1)
    return f"did you mean {names[near[0]]}?" if near else '`ralph graph search "words"` shows the ids'


def _record(connection: sqlite3.Connection, node: Node) -> Record | None:
    if entity_type(node.id) is not None:
        return None
    return records(connection, [node.id]).get(node.id)


def records(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of nodes, by node id."""
    keys = {name: key for name in names if (key := _row(connection, name)) is not None}
    held = queries.records(connection, list(keys.values()))
    return {name: held[key] for name, key in keys.items() if key in held}


def _row(connection: sqlite3.Connection, name: str) -> int | None:
    return queries.row_keys(connection, [name]).get(name)


_LINKABLE = {
    Format.MEMORIES: EdgeForm.COMMENT,
    Format.GUARDRAILS: EdgeForm.COMMENT,
    Format.KNOWLEDGE: EdgeForm.FRONT,
    Format.INSIGHTS: EdgeForm.LINKS,
}
"""The files that can hold edges, and how."""


@dataclass(frozen=True, slots=True)
class LinkChange:
    """What became of an edge: where it stands, whether that changed anything, and the change as a diff."""

    source: str
    edge: StatedEdge
    path: Path
    changed: bool
    diff: str


def link(
    root: Path,
    source: str,
    relation: str,
    target: str,
    *,
    since: str = "",
    until: str = "",
    dry_run: bool = False,
    patterns: Sequence[str] = (),
) -> LinkChange:
    """Add an edge, valid from today unless `since` is given. Adding it again changes nothing."""
    how = _parse_relation(relation)
    clean_memory(target, patterns=patterns)  # Refused for a secret
    if since and until and until < since:
        raise UsageError(f"the edge would end ({until}) before it begins ({since})", hint="swap the two days")
    record_id, place = _locate_source(root, source)
    end = _link_target(root, record_id, how, target)
    if how is Relation.SUPERSEDES and (since or until):
        hint = "leave out the days: it holds from when the new record was made"
        raise UsageError("what supersedes something does so for good", hint=hint)
    if how is Relation.SUPERSEDES:
        _refuse_cycle(root, record_id, end)

    stated = StatedEdge(how, end, since, until)

    def change(record: Record, form: EdgeForm) -> tuple[Record, StatedEdge]:
        there = next((edge for edge in stated_edges(record) if (edge.relation, edge.target) == (how, end)), None)
        if there is not None and (not since or since == there.since) and (not until or until == there.until):
            return record, stated
        begin = since or (there.since if there is not None else ids.today())
        bare = how is Relation.SUPERSEDES
        return with_edge(record, StatedEdge(how, end, "" if bare else begin, until), form), stated

    return _write_link(root, record_id, place, change, dry_run)


def _refuse_cycle(root: Path, new: str, old: str) -> None:
    pairs = index.ask(root, lookup.superseding)
    if new in outdated.find_circles([*pairs, (new, old)]) and new not in outdated.find_circles(pairs):
        what = f"{old} already supersedes {new}: if each took the other's place, neither would hold"
        raise Refused(what, hint=f"take that away first: `ralph graph link {old} supersedes {new} --remove`")


def remove_link(root: Path, source: str, relation: str, target: str, *, dry_run: bool = False) -> LinkChange:
    """Remove a stated edge. Raises NotFound when nobody stated it."""
    how = _parse_relation(relation)
    record_id, place = _locate_source(root, source)
    bare = target.strip()
    wanted = [name for name in (bare, *spellings(bare), _record_id(root, bare)) if name]

    def change(record: Record, form: EdgeForm) -> tuple[Record, StatedEdge]:
        targets = [edge.target for edge in stated_edges(record) if edge.relation is how]
        end = next((name for name in wanted if name in targets), None)
        if end is None:
            hint = f"`ralph graph show {record_id}` lists its edges; derived ones go with what they come from"
            raise NotFound(f"{record_id} states no edge {how.value} {target}", hint=hint)
        return without_edge(record, how, end, form), StatedEdge(how, end)

    return _write_link(root, record_id, place, change, dry_run)


def _parse_relation(word: str) -> Relation:
    found = parse_relation(word)
    if found is None:
        raise UsageError(f"{word!r} is not a relation", hint=f"the relations are {', '.join(Relation)}")
    return found


def _locate_source(root: Path, source: str) -> tuple[str, Source]:
    def question(found: sqlite3.Connection, held: sqlite3.Connection) -> tuple[Node, str, str]:
        node = _read_node(found, source)
        if entity_type(node.id) is not None:
            hint = "an edge is kept by a record: begin with one, and name the file, tag or task as its target"
            raise Refused(f"{node.id} is no record", hint=hint)
        key = queries.row_keys(held, [node.id])[node.id]
        return node, queries.records(held, [key])[key].id, queries.locations(held, [key])[key][0]

    node, given, path = query_graph(root, question)
    file = next((each for each in sources(root) if each.name == path), None)
    if file is None:
        raise NotFound(f"{path}: is gone", hint="run the command again")
    if file.format not in _LINKABLE:
        hint = "put it the other way round, or keep it as a memory first: `ralph memory add`"
        raise Refused(f"{path}: {node.type.value} {given} is stored in a file that cannot hold edges", hint=hint)
    return given, file


def _read_node(found: sqlite3.Connection, name: str) -> Node:
    key = find_node(found, name)
    return stored.nodes(found, [key])[key]


def _record_id(root: Path, name: str) -> str:
    try:
        return query_graph(root, lambda found, _: _read_node(found, name).id)
    except NotFound:
        return ""


def _link_target(root: Path, record_id: str, how: Relation, name: str) -> str:
    """Return the target's id: an existing node, or a file, tag, task or symbol that may be created later."""
    bare = name.strip()
    end = _record_id(root, bare)
    kind = entity_type(end or bare)
    if not end and kind is not None:
        end = _normalise_name(kind, bare)
    if not end and (root / bare).is_file():
        end = _normalise_name(NodeType.FILE, entity_id(NodeType.FILE, bare))
    if not end:
        hint = (
            f"name a record by its id or title, or another node as {', '.join(f'{each}:...' for each in ENTITY_TYPES)}"
        )
        raise NotFound(f"there is no record {name}", hint=hint)
    if end == record_id:
        raise UsageError(f"{record_id} cannot lead to itself", hint="name two different nodes")
    if how is Relation.SUPERSEDES and entity_type(end) is not None:
        raise UsageError(f"{end} is no record, so nothing supersedes it", hint="name the record that is outdated")
    return end


def _normalise_name(kind: NodeType, name: str) -> str:
    """Return the id of a node that does not exist yet. Raises Refused for a path outside of the project."""
    rest = " ".join(name.partition(":")[2].split())
    if kind in (NodeType.FILE, NodeType.SYMBOL):
        file, mark, symbol = rest.partition("#") if kind is NodeType.SYMBOL else (rest, "", "")
        inside = next(project_files([posixpath.normpath(file)] if file else []), "")
        if not inside or (kind is NodeType.SYMBOL and not symbol):
            hint = "name it from the project's root: file:src/a.ts, symbol:src/a.ts#name"
            raise Refused(f"{name} is not in the project", hint=hint)
        rest = f"{inside}{mark}{symbol}"
    return entity_id(kind, rest.lower() if kind is NodeType.TAG else rest)


def _write_link(
    root: Path,
    record_id: str,
    place: Source,
    change: Callable[[Record, EdgeForm], tuple[Record, StatedEdge]],
    dry_run: bool,
) -> LinkChange:
    name = paths.shown(place.path, root)

    def edit(text: str) -> tuple[str, LinkChange]:
        document = _parse_document(place, text)
        record = find_entry(document.entries, record_id).record
        changed, edge = change(record, _LINKABLE[place.format])
        after = text if changed is record else str(document.replace(record_id, changed))
        lines = (text.splitlines(keepends=True), after.splitlines(keepends=True))
        diff = "".join(difflib.unified_diff(*lines, name, name, n=1))
        return after, LinkChange(record_id, edge, place.path, after != text, diff)

    if dry_run:
        return edit(files.read(place.path) or "")[1]
    return files.update(place.path, edit, root=paths.main_checkout(root) if place.format is Format.INSIGHTS else root)


def _parse_document(place: Source, text: str) -> Document:
    if place.format is Format.KNOWLEDGE:
        return parse_knowledge(text, place.path.stem)
    if place.format is Format.INSIGHTS:
        return parse_insights(text)
    return parse_memories(text, GUARDRAILS if place.format is Format.GUARDRAILS else MEMORIES)
