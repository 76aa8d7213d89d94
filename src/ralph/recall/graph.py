"""Query how records, files, tasks, sessions and tags are linked (`ralph graph ...`).

The graph is a cache next to the index, and each query updates it. Nodes are linked by edges, which
are either explicit, because a record defines them, or derived from other facts. Without a time,
`show`, `neighbors` and `path` include what was true in the past, while `search` returns only what
holds now.
"""

from __future__ import annotations

import difflib
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, RalphError, Refused, UsageError, WriteFailed
from ralph.core.graph import (
    ENTITY_TYPES,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.core.record import Family, Query, Record
from ralph.formats import graphiti
from ralph.formats.graphiti import Embeddings, StatedEdge
from ralph.memory import memory
from ralph.memory.author import BY_RALPH, WriteContext
from ralph.privacy.privacy import clean_memory
from ralph.recall import outdated
from ralph.search import filters, index, meaning, rank
from ralph.search import graph as walking
from ralph.search.embeddings import row_bytes
from ralph.search.graph import GraphVisibility, ReachedNode, WalkRules, project_files, source_facts
from ralph.storage import board, db, files, lookup, queries, sessions
from ralph.storage import graph as stored
from ralph.storage.index import Progress
from ralph.storage.library import Library
from ralph.storage.queries import digest_of
from ralph.storage.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.core.settings import Embedding

T = TypeVar("T")
HOPS = 2
LIMIT = 10
_MAX_SEEDS = 20  # hits from which a search starts walking
_MAX_BUSIEST = 10  # nodes listed in an overview
_MIN_SCORE = 0.05  # nodes with a lower score are related by chance
_NAMED_SCORE = 0.8  # score of a node that the words name
_MAX_SPELLINGS = 20_000  # names compared with a misspelt one
_FLOAT_BYTES = 4  # per value in embeddings.bin


class GraphOverview(NamedTuple):
    """The size of the graph, and the nodes with the most edges."""

    nodes: dict[str, int]
    edges: dict[str, int]
    busiest: tuple[tuple[Node, int], ...]


class NodeView(NamedTuple):
    """A node, its record if it has one, and its edges, each with the node at the other end."""

    node: Node
    record: Record | None
    edges: tuple[tuple[Edge, Node], ...]


Question = Callable[[Connection, Connection, GraphVisibility], T]
"""A function that is passed the up-to-date graph, the index, and what the task may see."""


def query_graph(
    root: Path,
    question: Question[T],
    *,
    task: str = "",
    progress: Progress | None = None,
    within: float | None = None,
) -> T:
    """Bring the graph up to date, and return the result of `question`.

    `within` limits the seconds spent on updating. A graph that is being built for the first time
    may then be incomplete.
    """

    def ask(connection: Connection) -> T:
        with closing(_open_graph(root, connection, within)) as graph:
            return question(graph, connection, filters.graph_visibility(graph, connection, task))

    return index.ask(root, ask, progress)


def _open_graph(root: Path, connection: Connection, within: float | None = None) -> Connection:
    """Open the graph and update it.

    It is kept in memory if the index is, or if it cannot be written to disk.
    """
    path = paths.graph_file(root)

    def synced(graph: Connection) -> Connection:
        try:
            with db.explained(path):
                stored.sync(graph, connection, partial(source_facts, connection), within=within)
        except BaseException:
            graph.close()
            raise
        return graph

    if not db.is_in_memory(connection):
        for _ in range(2):
            with suppress(WriteFailed, OSError):
                try:
                    return synced(stored.connect(path))
                except db.Damaged:
                    db.remove(path)
    return synced(stored.in_memory())


def overview(root: Path, *, task: str = "") -> GraphOverview:
    """Return the size of the graph, or of the part that a task may see."""

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> GraphOverview:
        nodes = {}
        node_counts = Counter[str]()
        for key, node in stored.nodes(graph).items():
            if key not in allowed.hidden:
                nodes[key] = node
                node_counts[node.type.value] += 1
        degrees = Counter[int]()
        edge_counts = Counter[str]()
        for row in stored.edges(graph):
            if allowed.allows(row.source, row.target):
                edge_counts[row.relation] += 1
                degrees[row.source] += 1
                degrees[row.target] += 1
        busiest = sorted(degrees, key=lambda key: (-degrees[key], nodes[key].id))[:_MAX_BUSIEST]
        return GraphOverview(
            dict(sorted(node_counts.items())),
            dict(sorted(edge_counts.items())),
            tuple((nodes[key], degrees[key]) for key in busiest),
        )

    return query_graph(root, question, task=task)


def show(root: Path, name: str, *, at: str = "", task: str = "") -> NodeView:
    """Return a node with its edges, explicit ones first. Raises NotFound for an unknown node."""

    def question(graph: Connection, connection: Connection, allowed: GraphVisibility) -> NodeView:
        key = _find_node(graph, name, allowed)
        rows = set()
        ends = {key}
        for row in stored.edges_at(graph, [key]):
            if allowed.allows(row.source, row.target):
                rows.add(row)
                ends.update((row.source, row.target))
        nodes = stored.nodes(graph, ends)
        edges = []
        for row in sorted(rows):
            edge = stored.edge_of(row, nodes)
            other = nodes[row.target if row.source == key else row.source]
            if _is_shown(edge, other, at):
                edges.append((edge, other))
        edges.sort(key=lambda pair: _edge_order(pair[0]))
        node = nodes[key]
        return NodeView(node, records(connection, [node.id]).get(node.id), tuple(edges))

    return query_graph(root, question, task=task)


def _is_shown(edge: Edge, other: Node, at: str) -> bool:
    """Return whether an edge held at a given time. Without a time, return whether it has begun."""
    if at:
        return edge.holds(at) and other.holds(at)
    return edge.has_begun(ids.today())


def _edge_order(edge: Edge) -> tuple[bool, str, str, str]:
    return (not edge.explicit, edge.relation, edge.source, edge.target)


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
    """Return the nodes at most `hops` hops from a node, nearest first.

    Raises NotFound for an unknown node.
    """

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> list[ReachedNode]:
        key = _find_node(graph, name, allowed)
        rules = WalkRules(relations, at, allowed, ids.today())
        return walking.neighbours(graph, key, hops, rules, types)

    return query_graph(root, question, task=task)


def path(
    root: Path, start: str, end: str, *, at: str = "", task: str = ""
) -> tuple[tuple[Node, Node], list[Edge] | None]:
    """Return two nodes and the edges of a shortest path between them.

    The edges are None if there is no path. Raises NotFound for an unknown node.
    """

    def question(
        graph: Connection, _: Connection, allowed: GraphVisibility
    ) -> tuple[tuple[Node, Node], list[Edge] | None]:
        start_key = _find_node(graph, start, allowed)
        end_key = _find_node(graph, end, allowed)
        nodes = stored.nodes(graph, (start_key, end_key))
        rules = WalkRules((), at, allowed, ids.today())
        edges = walking.path(graph, start_key, end_key, rules)
        return (nodes[start_key], nodes[end_key]), edges

    return query_graph(root, question, task=task)


# --- adding edges -------------------------------------------------------------------------------


def link(
    root: Path,
    source: str,
    relation: str,
    target: str,
    *,
    since: str = "",
    until: str = "",
    remove: bool = False,
    context: WriteContext = BY_RALPH,
) -> tuple[memory.SavedMemory, StatedEdge]:
    """Add an edge to the entry of its source node, or remove it.

    A new edge holds from today unless `since` is given. Raises NotFound for an unknown node or
    edge, UsageError for an edge that is not possible, and Refused if the source cannot store edges.
    """
    kind = parse_relation(relation)
    if kind is None:
        raise UsageError(
            f"{relation!r} is not a relation", hint=f"the relations are {', '.join(Relation)}"
        )
    library = Library(root)
    name = show(root, source).node.id
    if entity_type(name) is not None:
        raise Refused(
            f"{name} is not a record",
            hint="an edge is stored in a record: "
            "begin with one, and name the file, tag or task second",
        )
    collection, entry = memory.find(library, name)
    if _stated_edge(entry.record, kind, target) is None:  # else the target may have been removed
        target = _link_target(root, clean_memory(target, patterns=context.patterns)[0])
    edge = StatedEdge(kind, target, since, until)
    _check_edge(name, edge)
    if collection.name == "patterns":
        raise Refused(
            f"{name} is a line in {entry.path.name}, which has no room for edges",
            hint="begin with a memory",
        )
    if kind is Relation.SUPERSEDES:
        if since or until or remove:
            raise UsageError(
                "an entry supersedes another permanently",
                hint=f"edit the comments in {entry.path.name}: "
                f"supersedes of {name}, valid-until of {edge.target}",
            )
        return outdated.supersede(root, edge.target, name, context=context), edge
    change = partial(_with_edge, edge=edge, remove=remove)
    return memory.change_entry(root, library, collection, name, change, None), edge


def _stated_edge(record: Record, relation: Relation, target: str) -> StatedEdge | None:
    for edge in graphiti.stated_edges(record):
        if edge.relation == relation and edge.target == target:
            return edge
    return None


def _check_edge(name: str, edge: StatedEdge) -> None:
    if edge.until and edge.until < (edge.since or ids.today()):
        raise UsageError(
            f"the edge would end ({edge.until}) before it begins",
            hint="name its first day with --from",
        )
    if edge.target == name:
        raise UsageError(f"{name} cannot lead to itself", hint="name two different nodes")


def _with_edge(record: Record, *, edge: StatedEdge, remove: bool) -> Record:
    """Return a record with the edge added or removed.

    An existing edge keeps its first day unless a new one is given.
    """
    old = _stated_edge(record, edge.relation, edge.target)
    if old is None:
        if remove:
            raise NotFound(
                f"{record.id} states no edge {edge.relation} {edge.target}",
                hint=(
                    Hint("find-edge", f"`ralph graph show {record.id}` lists its edges"),
                    "a derived one disappears with its source",
                ),
            )
        since = edge.since or ids.today()
        return graphiti.with_edge(record, replace(edge, since=since))
    is_same = edge.since in ("", old.since) and edge.until in ("", old.until)
    if is_same and not remove:
        return record
    return graphiti.with_edge(record, replace(edge, since=edge.since or old.since), remove=remove)


def _link_target(root: Path, name: str) -> str:
    """Return the id of a node. A node that is not a record need not be in the graph yet."""
    if (root / name).is_file():
        text = entity_id(NodeType.FILE, name)
    else:
        text = " ".join(name.split())
    with suppress(NotFound):
        return show(root, text).node.id
    kind = entity_type(text)
    rest = text.partition(":")[2]
    if kind is None:
        kinds = ", ".join(f"{each}:..." for each in ENTITY_TYPES)
        raise NotFound(
            f"there is no record {name}",
            hint=f"name a record by id or title, or another node as {kinds}",
        )
    if kind is NodeType.TAG:
        rest = rest.lower()
    if kind in (NodeType.FILE, NodeType.SYMBOL):
        file, mark, symbol = rest.partition("#")
        file = posixpath.normpath(file)
        is_in_project = any(project_files([file]))
        if not is_in_project or (kind is NodeType.SYMBOL and not symbol):
            raise Refused(
                f"{name} is not in the project",
                hint="name it from the project's root: file:src/a.ts, symbol:src/a.ts#name",
            )
        rest = f"{file}{mark}{symbol}"
    return entity_id(kind, rest)


# --- searching ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """What to search the graph for, as of when, and how far to walk from the hits."""

    words: str
    at: str = ""  # a day or an instant; "" is today
    types: Collection[NodeType] = ()  # empty: all types
    hops: int = HOPS
    limit: int | None = LIMIT  # None: all nodes
    task: str = ""  # the task whose records are visible; "" for all


def search(
    root: Path,
    query: GraphQuery,
    *,
    embedding: Embedding | None = None,
    progress: Progress | None = None,
) -> tuple[list[ReachedNode], list[str]]:
    """Rank nodes by words as of a time, and walk from the hits; return the nodes and warnings."""
    words = query.words
    task = query.task
    when = query.at or ids.today()
    warnings: list[str] = []

    def question(
        graph: Connection, connection: Connection, allowed: GraphVisibility
    ) -> list[ReachedNode]:
        warnings.clear()
        by_meaning = None
        if embedding is not None:
            records = Query(limit=None, families=(Family.MEMORY, Family.JOURNAL), task=task)
            by_meaning = meaning.meaning_for(root, embedding, connection, records, warnings.append)
        ranked = _rank_records(connection, words, when, task, by_meaning)
        if ranked.weak and ranked.best:
            warnings.append(rank.WEAK)
        scores = _scores_by_node(connection, ranked)
        scores |= dict.fromkeys(_named_nodes(words), _NAMED_SCORE)
        seeds = _visible_seeds(graph, scores, when, allowed)
        rules = WalkRules(at=when, visibility=allowed, hub=walking.HUB)
        found: list[ReachedNode] = []
        for reached in walking.walk(graph, seeds, query.hops, rules):
            is_wanted = not query.types or reached.node.type in query.types
            if reached.score < _MIN_SCORE or not is_wanted:
                continue
            is_named = scores.get(reached.start) == _NAMED_SCORE
            found.append(reached._replace(weak=ranked.weak and not is_named))
        return found[: query.limit]

    return query_graph(root, question, task=task, progress=progress), warnings


def _rank_records(
    connection: Connection, words: str, when: str, task: str, by_meaning: rank.Meaning | None
) -> rank.Ranking:
    """Rank the memories and journal entries that a task may see."""
    visible = lookup.visible_to(queries.safe(task))
    keep = [
        (family, test, values)
        for family, test, values in visible
        if family is not Family.OBSERVATION
    ]
    return rank.rank(
        connection, words, today=when[:10], keep=keep, limit=_MAX_SEEDS, meaning=by_meaning
    )


def _scores_by_node(connection: Connection, ranked: rank.Ranking) -> dict[str, float]:
    """Return the scores of the nodes that were found. A journal entry counts toward its task."""
    scores: dict[str, float] = {}
    for hit in ranked.best:
        if not (ranked.weak or rank.is_answer(hit) or hit.link):
            continue
        name = hit.row.id
        if lookup.family_of(hit.row.key) is Family.JOURNAL:
            name = entity_id(NodeType.TASK, sessions.task_of_entry(connection, hit.row.key))
        scores.setdefault(name, hit.score)
    return scores


def _named_nodes(words: str) -> set[str]:
    """Return the ids of nodes that the words may name, together or one by one."""
    named = set[str]()
    for name in (words.strip(), *words.split()):
        named.update(entity_id(kind, name) for kind in ENTITY_TYPES)
        if entity_type(name) is not None:
            named.add(name)
    return named


def _visible_seeds(
    graph: Connection, scores: Mapping[str, float], when: str, allowed: GraphVisibility
) -> dict[int, float]:
    """Return the scores, by key, of the nodes that held at a time and that the task may see."""
    keys = stored.keys_of(graph, sorted(scores))
    nodes = stored.nodes(graph, keys.values())
    seeds = {}
    for name, key in keys.items():
        if nodes[key].holds(when) and key not in allowed.hidden:
            seeds[key] = scores[name]
    return seeds


def _find_node(graph: Connection, name: str, allowed: GraphVisibility = walking.ALL_VISIBLE) -> int:
    """Return the key of a node, given its id, title or file name.

    Raises NotFound for an unknown node.
    """
    text = name.strip()
    spellings = _spellings_of(text)
    by_id = stored.keys_of(graph, spellings)
    keys = [by_id[spelling] for spelling in spellings if spelling in by_id]
    by_words = stored.RecordNames(graph).key(text)
    if by_words is not None:
        keys.append(by_words)
    for key in keys:
        if key not in allowed.hidden:
            return key
    if keys:
        raise NotFound(
            f"the graph has no node {name} that this task may see",
            hint=Hint("show-all-tasks", "--all-tasks shows everything"),
        )
    hint = '`ralph graph search "words"` shows the ids'
    closest = _closest_node(graph, text, allowed)
    if closest:
        hint = f"did you mean {closest}?"
    raise NotFound(f"the graph has no node {name}", hint=hint)


def _spellings_of(text: str) -> list[str]:
    """Return the ids that `text` may stand for, most likely first."""
    kind = entity_type(text)
    if kind is None:
        tidy = posixpath.normpath(text or ".")
        return [
            text,
            f"file:{tidy}",
            f"task:{text}",
            f"session:{text}",
            f"tag:{text.lower()}",
            f"symbol:{tidy}",
        ]
    rest = text.partition(":")[2].strip()
    if kind is NodeType.FILE:
        return [text, entity_id(kind, posixpath.normpath(rest))]
    return [text, entity_id(kind, rest.lower())]


def _closest_node(graph: Connection, text: str, allowed: GraphVisibility) -> str:
    """Return the id of the visible node whose id or name is most similar to `text`, or ""."""
    ids_by_spelling: dict[str, str] = {}
    for key, node in stored.nodes(graph).items():
        if key not in allowed.hidden:
            ids_by_spelling[node.id.casefold()] = node.id
            ids_by_spelling[node.name.casefold()] = node.id
    spellings = list(ids_by_spelling)[:_MAX_SPELLINGS]
    matches = difflib.get_close_matches(text.casefold(), spellings, n=1)
    if not matches:
        return ""
    return ids_by_spelling[matches[0]]


def records(connection: Connection, names: Sequence[str]) -> dict[str, Record]:
    """Return the records behind the named nodes, by node id."""
    keys = queries.row_keys(connection, names)
    by_key = queries.records(connection, list(keys.values()))
    return {name: by_key[key] for name, key in keys.items() if key in by_key}


# --- export -------------------------------------------------------------------------------------


class _TaskGraph(NamedTuple):
    """The part of the graph that belongs to a task, and the digests of its nodes' records."""

    nodes: list[Node]
    edges: list[Edge]
    digests: list[str]  # "" for a node without a record


def export(
    root: Path, *, task: str = "", embedding: Embedding | None = None
) -> list[dict[str, Any]]:
    """Write a task's part of the graph to `graphiti/` in its folder.

    Without a task, do so for every task. Returns a description of each export. Raises NotFound for
    an unknown task.
    """
    folders = {name: location.path.parent for name, location in board.read(root).placed.items()}
    if task and task not in folders:
        raise NotFound(
            f"there is no task {task}", hint=Hint("find-task", "`ralph task list` names them")
        )
    names = [task] if task else sorted(folders)
    parts = query_graph(
        root, lambda graph, connection, _: [_task_graph(graph, connection, name) for name in names]
    )
    exports: list[dict[str, Any]] = []
    for name, part in zip(names, parts, strict=True):
        vectors = None
        if embedding is not None:
            vectors = _embeddings(root, part.digests, embedding)
        folder = folders[name] / "graphiti"
        exports.append(
            {
                "task": name,
                "nodes": len(part.nodes),
                "edges": len(part.edges),
                "vectors": _count_vectors(vectors),
                "changed": _write_export(root, folder, part, vectors),
                "folder": folder,
            }
        )
    return exports


def _count_vectors(vectors: Embeddings | None) -> int:
    """Return the number of rows that have a vector. All other rows are zeros."""
    if vectors is None:
        return 0
    row_size = _FLOAT_BYTES * vectors.dimensions
    count = 0
    for start in range(0, len(vectors.rows), row_size):
        if any(vectors.rows[start : start + row_size]):
            count += 1
    return count


def _write_export(root: Path, folder: Path, part: _TaskGraph, vectors: Embeddings | None) -> bool:
    """Write the files of an export, and return whether any of them changed."""
    vectors_text = None  # without vectors, the file is deleted
    if vectors is not None:
        # Files are written as text, and `surrogateescape` preserves the bytes.
        vectors_text = graphiti.embeddings_bytes(vectors).decode("utf-8", "surrogateescape")
    texts = {
        "nodes.json": graphiti.nodes_text(part.nodes),
        "edges.json": graphiti.edges_text(part.edges),
        "embeddings.bin": vectors_text,
    }
    changed = False
    for name, text in texts.items():
        if files.read(folder / name) == text:
            continue
        changed = True
        if text is None:
            files.delete(folder / name)
        else:
            files.write(folder / name, text, root=paths.main_checkout(root))
    return changed


def _task_graph(graph: Connection, connection: Connection, task: str) -> _TaskGraph:
    """Return a task's part of the graph, without the records and sessions of other tasks."""
    keys = set(stored.task_keys(graph, task))
    keys.update(stored.keys_of(graph, [entity_id(NodeType.TASK, task)]).values())
    near = set(keys)
    for row in stored.edges_at(graph, sorted(keys)):
        near.update((row.source, row.target))
    part = {}
    for key, node in stored.nodes(graph, near).items():
        if key in keys or not node.task or node.type is NodeType.TASK:
            part[key] = node
    edges = []
    for row in stored.edges_at(graph, sorted(part)):
        if row.source in part and row.target in part:
            edges.append(stored.edge_of(row, part))
    record_ids = [node.id for node in part.values() if entity_type(node.id) is None]
    by_id = records(connection, record_ids)
    with_texts = []
    for node in part.values():
        if node.id in by_id:
            node = node._replace(text=by_id[node.id].text)
        with_texts.append(node)
    nodes = graphiti.sort_nodes(with_texts)
    digests = []
    for node in nodes:
        record = by_id.get(node.id)
        digests.append("" if record is None else digest_of(record))
    return _TaskGraph(nodes, edges, digests)


def _embeddings(root: Path, digests: Sequence[str], embedding: Embedding) -> Embeddings | None:
    """Return one vector per digest, or None if there are no vectors at all.

    A digest without a vector gets a row of zeros.
    """
    path = paths.vectors_file(root)
    try:
        embedder = meaning.embedder_of(embedding)
    except RalphError:  # a missing embedder must not stop an export
        return None
    if embedder is None or not path.exists():
        return None
    with VectorCache(path) as cache:
        stored_rows = cache.get(embedder.name, filter(None, digests))
    cached = {digest: rows for digest, rows in stored_rows.items() if rows}
    if not cached:
        return None
    dimensions = embedder.dimensions or min(map(len, cached.values())) - row_bytes(0)
    vectors = []
    for digest in digests:
        content = cached.get(digest, b"")
        if content and len(content) % row_bytes(dimensions) == 0:
            vectors.append(_mean_vector(content, dimensions))
        else:
            vectors.append(bytes(_FLOAT_BYTES * dimensions))
    return Embeddings(embedder.name, dimensions, b"".join(vectors))


def _mean_vector(content: bytes, dimensions: int) -> bytes:
    """Return the normalised mean of a record's chunk vectors, as 32-bit floats."""
    import numpy as np

    layout = np.dtype([("scale", "<f4"), ("values", "i1", (dimensions,))])
    chunks = np.frombuffer(content, dtype=layout)
    scales = chunks["scale"][:, None].astype(np.float64)
    total = (chunks["values"].astype(np.float64) * scales).sum(axis=0)
    length = float(np.sqrt((total * total).sum()))
    if length:
        total = total / length
    result: bytes = total.astype("<f4").tobytes()
    return result
