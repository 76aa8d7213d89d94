"""Graph exports (nodes.json, edges.json, embeddings.bin), and edges stated in records.

The same records give the same bytes. A stated edge is a link with a relation and times in a record's metadata.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ralph.formats.json_text import dump_json
from ralph.formats.text import DATE
from ralph.model.graph import Edge, Node, Relation, parse_relation
from ralph.model.record import Record

VERSION = 1
MAGIC = b"RALPHVEC"
_TIMES = ("recorded", "valid_from", "valid_until")


class Embeddings(NamedTuple):
    """A row of numbers for each node, as bytes: little-endian float32."""

    model: str
    dimensions: int
    rows: bytes


def sort_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in the order of the file and of the embeddings' rows."""
    return sorted(nodes, key=lambda node: node.id)


def nodes_text(nodes: Iterable[Node]) -> str:
    """nodes.json."""
    return _render("nodes", map(_node_members, sort_nodes(nodes)))


def edges_text(edges: Iterable[Edge]) -> str:
    """edges.json, each edge once."""
    lines = {
        json.dumps(_edge_members(edge), ensure_ascii=False, sort_keys=True): edge for edge in edges
    }
    ordered = sorted(
        lines, key=lambda line: (lines[line].source, lines[line].relation, lines[line].target, line)
    )
    return _render("edges", (_edge_members(lines[line]) for line in ordered))


def embeddings_bytes(embeddings: Embeddings) -> bytes:
    """embeddings.bin."""
    name = embeddings.model.encode("utf-8")
    size = 4 * embeddings.dimensions
    count = len(embeddings.rows) // size if size else 0
    return (
        MAGIC
        + struct.pack("<IIII", VERSION, embeddings.dimensions, count, len(name))
        + name
        + embeddings.rows
    )


def _render(name: str, members: Iterable[Mapping[str, object]]) -> str:
    lines = ",\n".join(map(dump_json, members))
    content = f"\n{lines}\n" if lines else ""
    return f'{{"version": {VERSION}, "{name}": [{content}]}}\n'


def _node_members(node: Node) -> dict[str, object]:
    members: dict[str, object] = {"id": node.id, "type": node.type.value, "name": node.name}
    members |= {key: value for key in (*_TIMES, "since") if (value := getattr(node, key))}
    if node.replaced is not None:
        members["replaced"] = node.replaced
    return members | {
        key: value for key in ("retired", "task", "text") if (value := getattr(node, key))
    }


def _edge_members(edge: Edge) -> dict[str, object]:
    members: dict[str, object] = {
        "source": edge.source,
        "relation": edge.relation.value,
        "target": edge.target,
    }
    return members | {key: value for key in (*_TIMES, "explicit") if (value := getattr(edge, key))}


_VALIDITY = re.compile(rf" @({DATE})?(?:\.\.({DATE}))?\Z")
_CODES = {"%": "%25", ",": "%2C", "|": "%7C", " @": "%20@"}
_CODE = re.compile("%(25|2C|7C|3E|20)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedEdge:
    """One edge that a record states; the target is an id or a title."""

    relation: Relation
    target: str
    since: str = ""
    until: str = ""


def stated_edges(record: Record) -> list[StatedEdge]:
    """Every edge that the record's metadata state, in their order."""
    edges: dict[tuple[Relation, str], StatedEdge] = {}
    pairs = [(key, text) for key, value in record.extra.items() for text in _texts(value)]
    for word, text in [*pairs, *((link.relation, link.target) for link in record.links)]:
        if (relation := parse_relation(word)) is not None:
            edge = _parse_stated(relation, text)
            edges.setdefault((relation, edge.target), edge)
    return [edge for edge in edges.values() if edge.target]


def with_edge(record: Record, edge: StatedEdge, *, remove: bool = False) -> Record:
    """The record with an edge, in place of one with the same relation and target, or without it."""
    key = next(
        (key for key in record.extra if parse_relation(key) is edge.relation), edge.relation.value
    )
    stated = _texts(record.extra.get(key))
    texts = [text for text in stated if _parse_stated(edge.relation, text).target != edge.target]
    if not remove:
        name = edge.target
        for character, code in _CODES.items():
            name = name.replace(character, code)
        texts.append(f"{name} @{edge.since}{f'..{edge.until}' if edge.until else ''}")
    extra = {name: value for name, value in record.extra.items() if name != key}
    return replace(record, extra=extra | ({key: ", ".join(texts)} if texts else {}))


def _texts(value: object) -> list[str]:
    parts = (
        value.split(",")
        if isinstance(value, str)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return [text.strip() for text in parts if isinstance(text, str) and text.strip()]


def _parse_stated(relation: Relation, text: str) -> StatedEdge:
    times = _VALIDITY.search(text)
    target, since, until = (
        (text[: times.start()], times[1] or "", times[2] or "") if times else (text, "", "")
    )
    return StatedEdge(
        relation, _CODE.sub(lambda code: chr(int(code[1], 16)), target).strip(), since, until
    )
