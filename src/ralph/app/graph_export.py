"""`ralph graph export`: a task's part of the graph as files, `.ralph/tasks/<id>/graphiti/`.

A task's part is what is its own (its records, its sessions, itself) and what that touches: files, symbols, tags,
records of the whole project, and the tasks it names; never a record or a session of another task. Vectors come from
the cache alone, so that an export sends nothing anywhere: where nothing is embedded there is no embeddings.bin, and
one that is there goes. A record of several chunks has the mean of their vectors. The same records and vectors give
the same bytes, and a file that says the same already is not written. `tests/app/test_graph_export.py` proves it.
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
from ralph.search.vectors import row_bytes
from ralph.store import files
from ralph.store import graph as stored
from ralph.store.index import digest_of
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written for one task: how many nodes, edges and vectors, and whether any file changed."""

    task: str
    folder: Path
    nodes: int
    edges: int
    vectors: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One task's part of the graph, and the digests by which its nodes' vectors are kept."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    digests: tuple[str, ...]


def export(root: Path, *, task: str = "", embedding: "Embedding | None" = None) -> list[Exported]:
    """Write a task's part of the graph into its folder, or every task's."""
    folders = _folders(root)
    if task and task not in folders:
        raise NotFound(f"there is no task {task}", hint="`ralph task list` names them")
    wanted = [task] if task else sorted(folders)
    parts = graph.query_graph(root, lambda found, index: [part_of(found, index, name) for name in wanted])
    return [_written(root, name, folders[name], part, embedding) for name, part in zip(wanted, parts, strict=True)]


def _folders(root: Path) -> dict[str, Path]:
    return {name: placed.path.parent for name, placed in board.read(root).placed.items()}


def part_of(found: sqlite3.Connection, index: sqlite3.Connection, task: str) -> Part:
    """What belongs to a task, as the records say it now."""
    own = set(stored.own(found, task))
    itself = stored.key_of(found, entity_id(NodeType.TASK, task))
    own |= {itself} if itself is not None else set()
    touching = stored.around(found, sorted(own))
    near = stored.nodes(found, own | {end for row in touching for end in (row.source, row.target)})
    kept = {key: node for key, node in near.items() if key in own or _may_stand(node)}
    between = [row for row in stored.around(found, sorted(kept)) if row.source in kept and row.target in kept]
    records = graph.records(index, [node.id for node in kept.values() if entity_type(node.id) is None])
    nodes = [node._replace(text=records[node.id].text) if node.id in records else node for node in kept.values()]
    ordered = sort_nodes(nodes)
    digests = tuple(digest_of(records[node.id]) if node.id in records else "" for node in ordered)
    return Part(tuple(ordered), tuple(stored.edge_of(row, kept) for row in between), digests)


def _may_stand(node: Node) -> bool:
    """Whether a node that is not the task's own may stand in its part: what belongs to nobody, and other tasks."""
    return not node.task or node.type is NodeType.TASK


def _written(root: Path, task: str, folder: Path, part: Part, embedding: "Embedding | None") -> Exported:
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
    return Exported(task, home, len(part.nodes), len(part.edges), count, any(changed))


def _put(root: Path, path: Path, text: str | None) -> bool:
    """Write a file that says something else, or take away one that says nothing any more."""
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
    """A row for each node, from the cache; None when no model is set or nothing of it is embedded."""
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
    """The mean of a record's vectors, of length one, as float32; zeros when it has none."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    size = row_bytes(dimensions)
    if not packed or len(packed) % size:
        return bytes(4 * dimensions)
    layout = np.dtype([("scale", "<f4"), ("values", "i1", (dimensions,))])
    chunks = np.frombuffer(packed, dtype=layout)
    mean = (chunks["values"].astype(np.float64) * chunks["scale"][:, None].astype(np.float64)).sum(axis=0)
    length = float(np.sqrt((mean * mean).sum()))
    return bytes((mean / length if length else mean).astype("<f4").tobytes())
