"""`ralph graph ...`: how records, files, tasks, sessions and tags are linked, now or at another time.

The graph is a cache beside the index, updated by each query. Without a time, `show`, `neighbors` and `path` include
what was true in the past; `search` returns what holds now.
"""

from __future__ import annotations

import difflib
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ralph import paths
from ralph.app import filters, index, meaning, memory, outdated
from ralph.app.tasks import board
from ralph.capture.privacy import clean_memory
from ralph.errors import NotFound, RalphError, Refused, UsageError, WriteFailed
from ralph.formats import graphiti
from ralph.formats.graphiti import Embeddings, StatedEdge
from ralph.model import ids
from ralph.model.graph import (
    ENTITY_TYPES,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.model.record import Family, Query, Record
from ralph.search import graph as walking
from ralph.search import rank
from ralph.search.embeddings import row_bytes
from ralph.search.graph import GraphVisibility, ReachedNode, WalkRules, project_files, source_facts
from ralph.store import db, files, lookup, queries, sessions
from ralph.store import graph as stored
from ralph.store.index import FAMILIES, Progress
from ralph.store.library import Library
from ralph.store.queries import digest_of
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding

T = TypeVar("T")
HOPS = 2
LIMIT = 10
_MAX_SEEDS = 20
_MAX_BUSIEST = 10
_MIN_SCORE = 0.05  # nodes with a lower score are related by chance
_NAMED_SCORE = 0.8


class GraphOverview(NamedTuple):
    """The size of the graph, and the nodes with the most edges."""

    nodes: dict[str, int]
    edges: dict[str, int]
    busiest: tuple[tuple[Node, int], ...]


class NodeView(NamedTuple):
    """A node, its record if it has one, and its edges with the node at the other end."""

    node: Node
    record: Record | None
    edges: tuple[tuple[Edge, Node], ...]


Question = Callable[[Connection, Connection, GraphVisibility], T]
"""What is asked of the graph and the index, up to date, and of what a task may see."""


def query_graph(
    root: Path,
    question: Question[T],
    *,
    task: str = "",
    progress: Progress | None = None,
    within: float | None = None,
) -> T:
    """Return what `question` answers; after `within` seconds the graph may lack sources, the first time."""

    def ask(connection: Connection) -> T:
        with closing(_open_graph(root, connection, within)) as graph:
            return question(graph, connection, filters.graph_visibility(graph, connection, task))

    return index.ask(root, ask, progress)


def _open_graph(root: Path, connection: Connection, within: float | None = None) -> Connection:
    """In memory when the index is, or the disk cannot be written."""
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
        nodes = {
            key: node for key, node in stored.nodes(graph).items() if key not in allowed.hidden
        }
        edges = [row for row in stored.edges(graph) if allowed.allows(row.source, row.target)]
        degrees = Counter(end for row in edges for end in (row.source, row.target))
        busiest = sorted(degrees.items(), key=lambda each: (-each[1], nodes[each[0]].id))[
            :_MAX_BUSIEST
        ]
        return GraphOverview(
            dict(sorted(Counter(node.type.value for node in nodes.values()).items())),
            dict(sorted(Counter(row.relation for row in edges).items())),
            tuple((nodes[key], degree) for key, degree in busiest),
        )

    return query_graph(root, question, task=task)


def show(root: Path, name: str, *, at: str = "", task: str = "") -> NodeView:
    """Return a node with its edges, stated ones first."""

    def question(graph: Connection, connection: Connection, allowed: GraphVisibility) -> NodeView:
        key = _find_node(graph, name, allowed)
        rows = {
            row for row in stored.edges_at(graph, [key]) if allowed.allows(row.source, row.target)
        }
        nodes = stored.nodes(
            graph, {key} | {end for row in rows for end in (row.source, row.target)}
        )
        edges = []
        for row in sorted(rows):
            edge = stored.edge_of(row, nodes)
            other = nodes[row.target if row.source == key else row.source]
            if edge.holds(at) and other.holds(at) if at else edge.has_begun(ids.today()):
                edges.append((edge, other))
        edges.sort(
            key=lambda pair: (
                not pair[0].explicit,
                pair[0].relation,
                pair[0].source,
                pair[0].target,
            )
        )
        node = nodes[key]
        return NodeView(node, records(connection, [node.id]).get(node.id), tuple(edges))

    return query_graph(root, question, task=task)


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

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> list[ReachedNode]:
        key = _find_node(graph, name, allowed)
        return walking.neighbours(
            graph, key, hops, WalkRules(relations, at, allowed, ids.today()), types
        )

    return query_graph(root, question, task=task)


def path(
    root: Path, start: str, end: str, *, at: str = "", task: str = ""
) -> tuple[tuple[Node, Node], list[Edge] | None]:
    """Return two nodes and the edges of a shortest path between them; None when there is none."""

    def question(
        graph: Connection, _: Connection, allowed: GraphVisibility
    ) -> tuple[Any, list[Edge] | None]:
        keys = _find_node(graph, start, allowed), _find_node(graph, end, allowed)
        nodes = stored.nodes(graph, keys)
        return tuple(map(nodes.get, keys)), walking.path(
            graph, *keys, WalkRules((), at, allowed, ids.today())
        )

    return query_graph(root, question, task=task)


def link(
    root: Path,
    source: str,
    relation: str,
    target: str,
    *,
    since: str = "",
    until: str = "",
    remove: bool = False,
    by: str = "",
    patterns: Sequence[str] = (),
) -> tuple[memory.SavedMemory, StatedEdge]:
    """State an edge in the entry of its source, from today on unless `since` is given, or remove it."""
    how = parse_relation(relation)
    if how is None:
        raise UsageError(
            f"{relation!r} is not a relation", hint=f"the relations are {', '.join(Relation)}"
        )
    library = Library(root)
    name = show(root, source).node.id
    if entity_type(name) is not None:
        hint = (
            "an edge is stored in a record: begin with one, and name the file, tag or task second"
        )
        raise Refused(f"{name} is no record", hint=hint)
    collection, entry = memory.find(library, name)
    stated = {(each.relation, each.target) for each in graphiti.stated_edges(entry.record)}
    if (how, target) not in stated:  # else it may be a record that is gone
        target = _link_target(root, clean_memory(target, patterns=patterns)[0])
    edge = StatedEdge(how, target, since, until)
    if until and until < (since or ids.today()):
        raise UsageError(
            f"the edge would end ({until}) before it begins", hint="name its first day with --from"
        )
    if edge.target == name:
        raise UsageError(f"{name} cannot lead to itself", hint="name two different nodes")
    if collection.name == "patterns":
        raise Refused(
            f"{name} is a line in {entry.path.name}, which has no room for edges",
            hint="begin with a memory",
        )
    if how is Relation.SUPERSEDES:
        if since or until or remove:
            hint = f"edit the comments in {entry.path.name}: supersedes of {name}, valid-until of {edge.target}"
            raise UsageError("an entry supersedes another for good", hint=hint)
        return outdated.supersede(root, edge.target, name, by=by, patterns=patterns), edge

    def change(record: Record) -> Record:
        edges = graphiti.stated_edges(record)
        old = next(
            (each for each in edges if (each.relation, each.target) == (how, edge.target)), None
        )
        if remove and old is None:
            hint = f"`ralph graph show {name}` lists its edges; a derived one goes with what it comes from"
            raise NotFound(f"{name} states no edge {how} {edge.target}", hint=hint)
        if old is not None and not remove and since in ("", old.since) and until in ("", old.until):
            return record
        first = since or (old.since if old is not None else ids.today())
        return graphiti.with_edge(record, replace(edge, since=first), remove=remove)

    return memory.change_entry(root, library, collection, name, change, None), edge


def _link_target(root: Path, name: str) -> str:
    """Return the id of a node; one that is no record need not be in the graph yet."""
    text = entity_id(NodeType.FILE, name) if (root / name).is_file() else " ".join(name.split())
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
    if kind in (NodeType.FILE, NodeType.SYMBOL):
        file, mark, symbol = rest.partition("#")
        if not next(project_files([posixpath.normpath(file)]), "") or (
            kind is NodeType.SYMBOL and not symbol
        ):
            hint = "name it from the project's root: file:src/a.ts, symbol:src/a.ts#name"
            raise Refused(f"{name} is not in the project", hint=hint)
        rest = f"{posixpath.normpath(file)}{mark}{symbol}"
    return entity_id(kind, rest.lower() if kind is NodeType.TAG else rest)


def search(
    root: Path,
    words: str,
    *,
    at: str = "",
    types: Collection[NodeType] = (),
    hops: int = HOPS,
    limit: int | None = LIMIT,
    task: str = "",
    embedding: Embedding | None = None,
    progress: Progress | None = None,
) -> tuple[list[ReachedNode], list[str]]:
    """Rank nodes by words, then walk from the hits, as of a time; and warnings."""
    when = at or ids.today()
    warnings: list[str] = []

    def question(
        graph: Connection, connection: Connection, allowed: GraphVisibility
    ) -> list[ReachedNode]:
        warnings.clear()
        query = Query(limit=None, families=(Family.MEMORY, Family.JOURNAL), task=task)
        near = (
            None
            if embedding is None
            else meaning.meaning_for(root, embedding, connection, query, warnings.append)
        )
        keep = [
            part
            for part in lookup.visible_to(queries.safe(task))
            if FAMILIES[part[0]] is not Family.OBSERVATION
        ]
        ranked = rank.rank(
            connection, words, today=when[:10], keep=keep, limit=_MAX_SEEDS, meaning=near
        )
        scores: dict[str, float] = {}
        if ranked.weak and ranked.best:
            warnings.append(rank.WEAK)
        for each in ranked.best:
            if ranked.weak or rank.is_answer(each) or each.link:
                name = each.row.id
                if (
                    FAMILIES[each.row.key % len(FAMILIES)] is Family.JOURNAL
                ):  # an entry counts for its task
                    name = entity_id(
                        NodeType.TASK, sessions.task_of_entry(connection, each.row.key)
                    )
                scores.setdefault(name, each.score)
        names = {words.strip(), *words.split()}
        entities = {entity_id(kind, name) for name in names for kind in ENTITY_TYPES}
        scores |= dict.fromkeys(
            entities | {name for name in names if entity_type(name) is not None}, _NAMED_SCORE
        )
        keys = stored.keys_of(graph, sorted(scores))
        nodes = stored.nodes(graph, keys.values())
        seeds = {
            key: scores[name]
            for name, key in keys.items()
            if nodes[key].holds(when) and key not in allowed.hidden
        }
        hits = walking.walk(
            graph, seeds, hops, WalkRules(at=when, visibility=allowed, hub=walking.HUB)
        )
        fit = [
            each
            for each in hits
            if each.score >= _MIN_SCORE and (not types or each.node.type in types)
        ]
        return [
            each._replace(weak=ranked.weak and scores.get(each.start) != _NAMED_SCORE)
            for each in fit[:limit]
        ]

    return query_graph(root, question, task=task, progress=progress), warnings


def _find_node(graph: Connection, name: str, allowed: GraphVisibility = walking.ALL_VISIBLE) -> int:
    text = name.strip()
    tidy = posixpath.normpath(text or ".")
    kind = entity_type(text)
    rest = text.partition(":")[2].strip()
    spellings = [
        text,
        f"file:{tidy}",
        f"task:{text}",
        f"session:{text}",
        f"tag:{text.lower()}",
        f"symbol:{tidy}",
    ]
    if kind is not None:
        spellings = [
            text,
            entity_id(kind, posixpath.normpath(rest) if kind is NodeType.FILE else rest.lower()),
        ]
    by_id = stored.keys_of(graph, spellings)
    by_words = stored.RecordNames(graph).key(text)
    keys = [by_id[name] for name in spellings if name in by_id] + (
        [] if by_words is None else [by_words]
    )
    for key in keys:
        if key not in allowed.hidden:
            return key
    if keys:
        raise NotFound(
            f"the graph has no node {name} that this task may see",
            hint="--all-tasks shows everything",
        )
    visible = [node for key, node in stored.nodes(graph).items() if key not in allowed.hidden]
    names = {spelling.casefold(): node.id for node in visible for spelling in (node.id, node.name)}
    near = difflib.get_close_matches(text.casefold(), list(names)[:20_000], n=1)
    hint = (
        f"did you mean {names[near[0]]}?" if near else '`ralph graph search "words"` shows the ids'
    )
    raise NotFound(f"the graph has no node {name}", hint=hint)


def records(connection: Connection, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of nodes, by node id."""
    keys = queries.row_keys(connection, names)
    by_key = queries.records(connection, list(keys.values()))
    return {name: by_key[key] for name, key in keys.items() if key in by_key}


def export(
    root: Path, *, task: str = "", embedding: Embedding | None = None
) -> list[dict[str, Any]]:
    """Write a task's part of the graph to `graphiti/` in its folder, or every task's."""
    folders = {name: location.path.parent for name, location in board.read(root).placed.items()}
    if task and task not in folders:
        raise NotFound(f"there is no task {task}", hint="`ralph task list` names them")
    names = [task] if task else sorted(folders)
    parts = query_graph(
        root, lambda graph, connection, _: [_task_graph(graph, connection, name) for name in names]
    )
    exports = []
    for name, (nodes, edges, digests) in zip(names, parts, strict=True):
        vectors = _embeddings(root, digests, embedding) if embedding is not None else None
        texts: dict[str, str | None] = {"nodes.json": graphiti.nodes_text(nodes)}
        texts |= {"edges.json": graphiti.edges_text(edges), "embeddings.bin": None}
        count = 0
        if vectors is not None:  # the very bytes, both ways
            texts["embeddings.bin"] = graphiti.embeddings_bytes(vectors).decode(
                "utf-8", "surrogateescape"
            )
            size = 4 * vectors.dimensions
            count = sum(
                any(vectors.rows[start : start + size])
                for start in range(0, len(vectors.rows), size)
            )
        folder = folders[name] / "graphiti"
        changed = False
        for file, text in texts.items():
            if files.read(folder / file) == text:
                continue
            changed = True
            if text is None:
                files.delete(folder / file)
            else:
                files.write(folder / file, text, root=paths.main_checkout(root))
        sizes = {"nodes": len(nodes), "edges": len(edges), "vectors": count}
        exports.append({"task": name, **sizes, "changed": changed, "folder": folder})
    return exports


def _task_graph(
    graph: Connection, connection: Connection, task: str
) -> tuple[list[Node], list[Edge], list[str]]:
    """Never records or sessions of another task."""
    keys = set(stored.task_keys(graph, task))
    keys.update(stored.keys_of(graph, [entity_id(NodeType.TASK, task)]).values())
    touching = stored.edges_at(graph, sorted(keys))
    near = stored.nodes(graph, keys | {end for row in touching for end in (row.source, row.target)})
    part = {
        key: node
        for key, node in near.items()
        if key in keys or not node.task or node.type is NodeType.TASK
    }
    edges = [
        stored.edge_of(row, part)
        for row in stored.edges_at(graph, sorted(part))
        if row.source in part and row.target in part
    ]
    texts = records(connection, [node.id for node in part.values() if entity_type(node.id) is None])
    nodes = graphiti.sort_nodes(
        node._replace(text=texts[node.id].text) if node.id in texts else node
        for node in part.values()
    )
    return nodes, edges, [digest_of(texts[node.id]) if node.id in texts else "" for node in nodes]


def _embeddings(root: Path, digests: Sequence[str], embedding: Embedding) -> Embeddings | None:
    path = paths.vectors_file(root)
    try:
        embedder = meaning.embedder_of(embedding)
    except RalphError:  # one that is not installed: an export needs none
        return None
    if embedder is None or not path.exists():
        return None
    with VectorCache(path) as cache:
        cached = {
            name: rows
            for name, rows in cache.get(embedder.name, filter(None, digests)).items()
            if rows
        }
    if not cached:
        return None
    import numpy as np

    dimensions = embedder.dimensions or min(map(len, cached.values())) - row_bytes(0)
    layout = np.dtype([("scale", "<f4"), ("values", "i1", (dimensions,))])
    rows = []
    for digest in digests:
        content = cached.get(digest, b"")
        if not content or len(content) % row_bytes(dimensions):
            rows.append(bytes(4 * dimensions))
            continue
        chunks = np.frombuffer(content, dtype=layout)
        mean = (
            chunks["values"].astype(np.float64) * chunks["scale"][:, None].astype(np.float64)
        ).sum(axis=0)
        length = float(np.sqrt((mean * mean).sum()))
        rows.append((mean / length if length else mean).astype("<f4").tobytes())
    return Embeddings(embedder.name, dimensions, b"".join(rows))
