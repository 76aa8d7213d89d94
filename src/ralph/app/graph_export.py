"""`ralph graph export`: a task's part of the graph as files in `.ralph/tasks/<id>/graphiti/`.

A task's part is its records, its sessions, itself, and what these touch: files, symbols, tags, project records and
the tasks it names; never records or sessions of another task. Vectors come from the cache, so an export sends nothing
anywhere. The same records and vectors give the same bytes, and an unchanged file is not written.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app import graph, meaning
from ralph.app.tasks import board
from ralph.errors import NotFound, RalphError
from ralph.formats.graphiti import Embeddings, edges_text, embeddings_bytes, nodes_text, sort_nodes
from ralph.model.graph import Edge, Node, NodeType, entity_id, entity_type
from ralph.search.embeddings import row_bytes
from ralph.store import files
from ralph.store import graph as stored
from ralph.store.index import digest_of
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding


@dataclass(frozen=True, slots=True)
class GraphExport:
    """The number of nodes, edges and vectors that were written for a task, and whether a file changed."""

    task: str
    folder: Path
    nodes: int
    edges: int
    vectors: int
    changed: bool


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """A task's part of the graph, and the digests that identify its nodes' vectors."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    digests: tuple[str, ...]


def export(root: Path, *, task: str = "", embedding: "Embedding | None" = None) -> list[GraphExport]:
    """Write a task's part of the graph into its folder, or every task's."""
    folders = _folders(root)
    if task and task not in folders:
        raise NotFound(f"there is no task {task}", hint="`ralph task list` names them")
    wanted = [task] if task else sorted(folders)
    parts = graph.query_graph(root, lambda found, index: [task_graph(found, index, name) for name in wanted])
    return [_written(root, name, folders[name], part, embedding) for name, part in zip(wanted, parts, strict=True)]


def _folders(root: Path) -> dict[str, Path]:
    return {name: placed.path.parent for name, placed in board.read(root).placed.items()}


def task_graph(found: sqlite3.Connection, index: sqlite3.Connection, task: str) -> TaskGraph:
    """Return what belongs to a task."""
    own = set(stored.task_keys(found, task))
    itself = stored.key_of(found, entity_id(NodeType.TASK, task))
    own |= {itself} if itself is not None else set()
    touching = stored.edges_at(found, sorted(own))
    near = stored.nodes(found, own | {end for row in touching for end in (row.source, row.target)})
    shared = {key for key, node in near.items() if not node.task or node.type is NodeType.TASK}
    kept = {key: node for key, node in near.items() if key in own | shared}
    between = [row for row in stored.edges_at(found, sorted(kept)) if row.source in kept and row.target in kept]
    records = graph.records(index, [node.id for node in kept.values() if entity_type(node.id) is None])
    nodes = [node._replace(text=records[node.id].text) if node.id in records else node for node in kept.values()]
    ordered = sort_nodes(nodes)
    digests = tuple(digest_of(records[node.id]) if node.id in records else "" for node in ordered)
    return TaskGraph(tuple(ordered), tuple(stored.edge_of(row, kept) for row in between), digests)


def _written(root: Path, task: str, folder: Path, part: TaskGraph, embedding: "Embedding | None") -> GraphExport:
    home = folder / "graphiti"
    vectors = _embeddings(root, part.digests, embedding) if embedding is not None else None
    texts: dict[str, str | None] = {
        "nodes.json": nodes_text(part.nodes),
        "edges.json": edges_text(part.edges),
        "embeddings.bin": None
        if vectors is None
        else embeddings_bytes(vectors).decode("utf-8", "surrogateescape"),  # the very bytes, both ways
    }
    changed = [_put(root, home / name, text) for name, text in texts.items()]
    count = sum(map(bool, _rows(vectors))) if vectors is not None else 0
    return GraphExport(task, home, len(part.nodes), len(part.edges), count, any(changed))


def _put(root: Path, path: Path, text: str | None) -> bool:
    there = files.read(path)
    if there == text:
        return False
    if text is None:
        files.delete(path)
    else:
        files.write(path, text, root=paths.main_checkout(root))
    return True


def _rows(vectors: Embeddings) -> list[bool]:
    size = 4 * vectors.dimensions
    return [any(vectors.rows[start : start + size]) for start in range(0, len(vectors.rows), size)]


def _embeddings(root: Path, digests: Sequence[str], embedding: "Embedding") -> Embeddings | None:
    """Return a row for each node from the cache; None without a model or without vectors."""
    path = paths.cache_folder(root) / "vectors.db"
    try:
        embedder = meaning.embedder_of(embedding)
    except RalphError:  # one that is not installed: an export needs none
        return None
    if embedder is None or not path.exists():
        return None
    with VectorCache(path) as cache:
        held = {name: rows for name, rows in cache.get(embedder.name, filter(None, digests)).items() if rows}
    if not held:
        return None
    dimensions = embedder.dimensions or min(map(len, held.values())) - row_bytes(0)
    rows = b"".join(_row(held.get(digest, b""), dimensions) for digest in digests)
    return Embeddings(embedder.name, dimensions, rows)


def _row(packed: bytes, dimensions: int) -> bytes:
    """Return the normalised mean of a record's vectors as float32; zeros when it has none."""
    import numpy as np

    size = row_bytes(dimensions)
    if not packed or len(packed) % size:
        return bytes(4 * dimensions)
    layout = np.dtype([("scale", "<f4"), ("values", "i1", (dimensions,))])
    chunks = np.frombuffer(packed, dtype=layout)
    mean = (chunks["values"].astype(np.float64) * chunks["scale"][:, None].astype(np.float64)).sum(axis=0)
    length = float(np.sqrt((mean * mean).sum()))
    return bytes((mean / length if length else mean).astype("<f4").tobytes())
