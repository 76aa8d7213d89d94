"""The codecs for the graph: nodes.json, edges.json, embeddings.bin, and edges stated in records.

The three files are derived from records, and the same records always give the same bytes. A stated
edge is a link in a record's metadata, whose key is the relation and whose value is the target with
optional dates, such as `affects: file:src/a.ts @2026-01-01..2026-02-01`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ralph.core.graph import Edge, Node, Relation, parse_relation
from ralph.core.json_text import dump_json
from ralph.core.record import Record
from ralph.core.text import DATE

# --- exports -----------------------------------------------------------------------------------

VERSION = 1
MAGIC = b"RALPHVEC"
_BYTES_PER_NUMBER = 4  # a float32
_TIMES = ("recorded", "valid_from", "valid_until")


class Embeddings(NamedTuple):
    """One row of little-endian float32 numbers per node, as bytes."""

    model: str
    dimensions: int
    rows: bytes


def sort_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Sort nodes as they are in nodes.json. The embedding rows have the same order."""
    return sorted(nodes, key=lambda node: node.id)


def nodes_text(nodes: Iterable[Node]) -> str:
    """Return the content of nodes.json."""
    return _render("nodes", [_node_members(node) for node in sort_nodes(nodes)])


def edges_text(edges: Iterable[Edge]) -> str:
    """Return the content of edges.json, without duplicate edges."""
    unique: dict[str, Edge] = {}
    for edge in edges:
        line = json.dumps(_edge_members(edge), ensure_ascii=False, sort_keys=True)
        unique[line] = edge

    def sort_key(line: str) -> tuple[str, str, str, str]:
        edge = unique[line]
        return edge.source, edge.relation, edge.target, line

    return _render("edges", [_edge_members(unique[line]) for line in sorted(unique, key=sort_key)])


def embeddings_bytes(embeddings: Embeddings) -> bytes:
    """Return the content of embeddings.bin, which is a header, the model's name and the rows."""
    name = embeddings.model.encode("utf-8")
    row_size = _BYTES_PER_NUMBER * embeddings.dimensions
    count = 0
    if row_size:
        count = len(embeddings.rows) // row_size
    header = struct.pack("<IIII", VERSION, embeddings.dimensions, count, len(name))
    return MAGIC + header + name + embeddings.rows


def _render(name: str, objects: Iterable[Mapping[str, object]]) -> str:
    lines = ",\n".join(dump_json(members) for members in objects)
    content = f"\n{lines}\n" if lines else ""
    return f'{{"version": {VERSION}, "{name}": [{content}]}}\n'


def _node_members(node: Node) -> dict[str, object]:
    members: dict[str, object] = {"id": node.id, "type": node.type.value, "name": node.name}
    members |= _set_fields(node, (*_TIMES, "since"))
    if node.replaced is not None:
        members["replaced"] = node.replaced
    return members | _set_fields(node, ("retired", "task", "text"))


def _edge_members(edge: Edge) -> dict[str, object]:
    members: dict[str, object] = {
        "source": edge.source,
        "relation": edge.relation.value,
        "target": edge.target,
    }
    return members | _set_fields(edge, (*_TIMES, "explicit"))


def _set_fields(value: Node | Edge, names: Iterable[str]) -> dict[str, object]:
    """Map the names of the fields that are set to their values."""
    fields = {name: getattr(value, name) for name in names}
    return {name: field for name, field in fields.items() if field}


# --- stated edges ------------------------------------------------------------------------------

_VALIDITY = re.compile(rf" @({DATE})?(?:\.\.({DATE}))?\Z")
_CODES = {"%": "%25", ",": "%2C", "|": "%7C", " @": "%20@"}
"""The characters that separate edges and times in metadata, and how a target encodes them."""
_CODE = re.compile("%(25|2C|7C|3E|20)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedEdge:
    """An edge stated in a record. The target is an id or a title."""

    relation: Relation
    target: str
    since: str = ""
    until: str = ""


def stated_edges(record: Record) -> list[StatedEdge]:
    """Return every edge stated in a record's metadata, in order."""
    pairs: list[tuple[str, str]] = []
    for key, value in record.extra.items():
        for text in _split_targets(value):
            pairs.append((key, text))
    for link in record.links:
        pairs.append((link.relation, link.target))
    edges: dict[tuple[Relation, str], StatedEdge] = {}
    for word, text in pairs:
        relation = parse_relation(word)
        if relation is None:
            continue
        edge = _parse_stated(relation, text)
        if edge.target:
            edges.setdefault((relation, edge.target), edge)
    return list(edges.values())


def with_edge(record: Record, edge: StatedEdge, *, remove: bool = False) -> Record:
    """Return a record with an edge added, replacing any with the same relation and target.

    With `remove`, such an edge is only removed.
    """
    key = _key_for(record, edge.relation)
    texts: list[str] = []
    for text in _split_targets(record.extra.get(key)):
        if _parse_stated(edge.relation, text).target != edge.target:
            texts.append(text)
    if not remove:
        texts.append(_render_stated(edge))
    extra = {name: value for name, value in record.extra.items() if name != key}
    if texts:
        extra[key] = ", ".join(texts)
    return replace(record, extra=extra)


def _key_for(record: Record, relation: Relation) -> str:
    """Return the metadata key that a record uses for a relation, in the author's own spelling."""
    for key in record.extra:
        if parse_relation(key) is relation:
            return key
    return relation.value


def _split_targets(value: object) -> list[str]:
    parts: Iterable[object] = ()
    if isinstance(value, str):
        parts = value.split(",")
    elif isinstance(value, list | tuple):
        parts = value
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


def _render_stated(edge: StatedEdge) -> str:
    target = edge.target
    for character, code in _CODES.items():
        target = target.replace(character, code)
    until = f"..{edge.until}" if edge.until else ""
    return f"{target} @{edge.since}{until}"


def _parse_stated(relation: Relation, text: str) -> StatedEdge:
    since = ""
    until = ""
    validity = _VALIDITY.search(text)
    if validity is not None:
        text = text[: validity.start()]
        since = validity[1] or ""
        until = validity[2] or ""
    target = _CODE.sub(lambda code: chr(int(code[1], 16)), text).strip()
    return StatedEdge(relation, target, since, until)
