"""Export the part of the graph that belongs to a task (`ralph graph export`).

An export consists of `nodes.json`, `edges.json` and, if vectors are available, `embeddings.bin` in
the folder `graphiti/` of the task. Row N of the embeddings belongs to node N.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, RalphError
from ralph.core.graph import (
    Edge,
    Node,
    NodeType,
    entity_id,
    entity_type,
)
from ralph.formats import graphiti
from ralph.formats.graphiti import Embeddings
from ralph.recall.graph import query_graph, records
from ralph.search import meaning
from ralph.search.vectors import row_bytes
from ralph.storage import files, task_files
from ralph.storage import graph as graph_store
from ralph.storage.record_rows import digest_of
from ralph.storage.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.core.settings import Embedding


_FLOAT_BYTES = 4  # per value in embeddings.bin


class _TaskGraph(NamedTuple):
    """The part of the graph that belongs to a task, and the digests of its nodes' records."""

    nodes: list[Node]
    edges: list[Edge]
    digests: list[str]  # "" for a node without a record


def export(
    root: Path, *, task: str = "", embedding: Embedding | None = None
) -> list[dict[str, Any]]:
    """Export the part of the graph that belongs to a task, or to each of the tasks.

    Vectors are taken from the cache: those of the embedder in the settings, or if no settings are
    given, those of the model that has the most. Returns a description of each export. Raises
    NotFound for an unknown task.
    """
    folders = {
        name: location.path.parent
        for name, location in task_files.read_board(root).locations.items()
    }
    if task and task not in folders:
        raise ids.not_found(
            "task",
            task,
            hint=Hint("find-task", "`ralph task list` shows the ids"),
            known=folders,
        )
    names = [task] if task else sorted(folders)
    parts = query_graph(
        root, lambda graph, connection, _: [_task_graph(graph, connection, name) for name in names]
    )
    exports: list[dict[str, Any]] = []
    for name, part in zip(names, parts, strict=True):
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
    """Count the rows with a vector. The others consist of zeros."""
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
    keys = set(graph_store.task_keys(graph, task))
    keys.update(graph_store.keys_of(graph, [entity_id(NodeType.TASK, task)]).values())
    near = set(keys)
    for row in graph_store.edges_at(graph, sorted(keys)):
        near.update((row.source, row.target))
    part = {}
    for key, node in graph_store.nodes(graph, near).items():
        if key in keys or not node.task or node.type is NodeType.TASK:
            part[key] = node
    edges: dict[Edge, None] = {}  # an edge between two nodes is found at both
    for row in graph_store.edges_at(graph, sorted(part)):
        if row.source in part and row.target in part:
            edges[graph_store.edge_of(row, part)] = None
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
    return _TaskGraph(nodes, list(edges), digests)


def _embeddings(
    root: Path, digests: Sequence[str], embedding: Embedding | None
) -> Embeddings | None:
    """Return one vector per digest, or None if there are no vectors at all.

    A digest without a vector gets a row of zeros.
    """
    path = paths.vectors_file(root)
    if not path.exists():
        return None
    with VectorCache(path) as cache:
        model = _model_with_most_vectors(cache, digests)
        if embedding is not None:
            model = _configured_model(embedding)
        if model is None:
            return None
        stored_rows = cache.get(model, filter(None, digests))
        row_size = cache.smallest_row(model)
    cached = {digest: rows for digest, rows in stored_rows.items() if rows}
    if not cached:
        return None
    dimensions = row_size - row_bytes(0)
    vectors = []
    for digest in digests:
        content = cached.get(digest, b"")
        if content and len(content) % row_size == 0:
            vectors.append(_mean_vector(content, dimensions))
        else:
            vectors.append(bytes(_FLOAT_BYTES * dimensions))
    return Embeddings(model, dimensions, b"".join(vectors))


def _configured_model(embedding: Embedding) -> str | None:
    try:
        embedder = meaning.embedder_of(embedding)
    except RalphError:  # a missing embedder must not stop an export
        return None
    if embedder is None:
        return None
    return embedder.name


def _model_with_most_vectors(cache: VectorCache, digests: Sequence[str]) -> str | None:
    """Return the model with the most vectors for these digests, or None if there are none."""
    counts = {model: len(cache.get(model, filter(None, digests))) for model in cache.models()}
    if not any(counts.values()):
        return None
    return max(counts, key=lambda model: counts[model])


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
