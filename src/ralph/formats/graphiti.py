"""Graph exports (nodes.json, edges.json, embeddings.bin), and edges stated in records.

The exports are derived and sorted: the same records give the same bytes. An edge that a person
states is a link with a relation and times in a record's metadata.
"""

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from ralph.errors import Refused, Unreadable
from ralph.formats.memories_scan import DATE
from ralph.model.graph import Edge, Node, NodeType, Relation, parse_relation
from ralph.model.record import NO_EXTRA, Link, Record

VERSION = 1
MAGIC = b"RALPHVEC"
_NUMBERS = struct.Struct("<IIII")
_FLOAT = 4
_HINT = "`ralph graph export` writes it again"

Thing = TypeVar("Thing", Node, Edge)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A row of numbers for each node, as bytes: little-endian float32."""

    model: str
    dimensions: int
    rows: bytes

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows) // (_FLOAT * self.dimensions) if self.dimensions else 0


def sort_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Nodes as they stand in the file, which is the order of the embeddings' rows."""
    return sorted(nodes, key=lambda node: node.id)


def nodes_text(nodes: Iterable[Node]) -> str:
    """nodes.json."""
    return _text("nodes", map(_node, sort_nodes(nodes)))


def edges_text(edges: Iterable[Edge]) -> str:
    """edges.json; what two sources say alike stands there once."""
    lines = {json.dumps(_edge(edge), ensure_ascii=False, sort_keys=True): edge for edge in edges}
    ordered = sorted(lines, key=lambda line: (lines[line].source, lines[line].relation, lines[line].target, line))
    return _text("edges", (_edge(lines[line]) for line in ordered))


def parse_nodes(text: str) -> list[Node]:
    """The nodes of a nodes.json, in its order; Unreadable when it is none."""
    return _parse(text, "nodes", _read_node)


def parse_edges(text: str) -> list[Edge]:
    """The edges of an edges.json, in its order; Unreadable when it is none."""
    return _parse(text, "edges", _read_edge)


def embeddings_bytes(embeddings: Embeddings) -> bytes:
    """embeddings.bin."""
    name = embeddings.model.encode("utf-8")
    return MAGIC + _NUMBERS.pack(VERSION, embeddings.dimensions, embeddings.count, len(name)) + name + embeddings.rows


def parse_embeddings(raw: bytes) -> Embeddings:
    """What an embeddings.bin holds; Unreadable when it is cut, or of another version."""
    begin = len(MAGIC) + _NUMBERS.size
    if raw[: len(MAGIC)] != MAGIC or len(raw) < begin:
        raise Unreadable("embeddings.bin does not begin as it should", hint=_HINT)
    version, dimensions, count, length = _NUMBERS.unpack_from(raw, len(MAGIC))
    if version != VERSION:
        raise Unreadable(f"embeddings.bin is of the version {version}, not {VERSION}", hint=_HINT)
    rows = raw[begin + length :]
    if len(raw) < begin + length or len(rows) != count * dimensions * _FLOAT or (count and not dimensions):
        raise Unreadable("embeddings.bin is not as long as it says", hint=_HINT)
    try:
        return Embeddings(raw[begin : begin + length].decode("utf-8"), dimensions, rows)
    except UnicodeDecodeError as error:
        raise Unreadable("embeddings.bin names its model in no UTF-8", hint=_HINT) from error


def _text(name: str, things: Iterable[Mapping[str, object]]) -> str:
    lines = ",\n".join(json.dumps(thing, ensure_ascii=False).translate(_BREAKS) for thing in things)
    inner = f"\n{lines}\n" if lines else ""
    return f'{{"version": {VERSION}, "{name}": [{inner}]}}\n'


_BREAKS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000))}
"""What may break a line for some reader, or is no text by itself, is written as its number."""


def _node(node: Node) -> dict[str, object]:
    said: dict[str, object] = {"id": node.id, "type": node.type.value, "name": node.name}
    said |= {key: value for key in _NODE_TIMES if (value := getattr(node, key))}
    if node.replaced is not None:
        said["replaced"] = node.replaced
    if node.retired:
        said["retired"] = True
    if node.task:
        said["task"] = node.task
    return said | ({"text": node.text} if node.text else {})


_NODE_TIMES = ("recorded", "valid_from", "valid_until", "since")


def _edge(edge: Edge) -> dict[str, object]:
    said: dict[str, object] = {"source": edge.source, "relation": edge.relation.value, "target": edge.target}
    said |= {key: value for key in _NODE_TIMES[:3] if (value := getattr(edge, key))}
    return said | ({"explicit": True} if edge.explicit else {})


def _parse(text: str, name: str, read: Callable[[Mapping[str, object]], Thing]) -> list[Thing]:
    try:
        whole = json.loads(text)
        if whole["version"] != VERSION:
            raise Unreadable(f"{name}.json is of the version {whole['version']!r:.20}, not {VERSION}", hint=_HINT)
        return [read(each) for each in whole[name]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{name}.json is not what it should be: {error!r:.80}", hint=_HINT) from error


def _read_node(said: Mapping[str, object]) -> Node:
    return Node(
        _words(said, "id"),
        NodeType(_words(said, "type")),
        _words(said, "name"),
        _words(said, "recorded"),
        _words(said, "valid_from"),
        _words(said, "valid_until"),
        _words(said, "since"),
        _words(said, "replaced") if "replaced" in said else None,
        said.get("retired") is True,
        _words(said, "task"),
        _words(said, "text"),
    )


def _read_edge(said: Mapping[str, object]) -> Edge:
    return Edge(
        _words(said, "source"),
        Relation(_words(said, "relation")),
        _words(said, "target"),
        _words(said, "recorded"),
        _words(said, "valid_from"),
        _words(said, "valid_until"),
        said.get("explicit") is True,
    )


def _words(said: Mapping[str, object], key: str) -> str:
    found = said.get(key, "")
    if not isinstance(found, str):
        raise TypeError(key)
    return found


_EDGE_TIMES = re.compile(rf" @({DATE})?(?:\.\.({DATE}))?")
_CODES = {"%": "%25", ",": "%2C", "|": "%7C", "-->": "--%3E", " @": "%20@"}
_CODE = re.compile("%(25|2C|7C|3E|20)", re.IGNORECASE)


class EdgeForm(StrEnum):
    """How a kind of file holds edges."""

    COMMENT = "comment"
    FRONT = "front"
    LINKS = "links"


@dataclass(frozen=True, slots=True)
class StatedEdge:
    """One edge that a record states: the target is a node's id, or the title of a record."""

    relation: Relation
    target: str
    since: str = ""
    until: str = ""


def stated_edges(record: Record) -> list[StatedEdge]:
    """Every edge that the record's metadata state, in their order; what is no relation is left alone."""
    found: dict[tuple[Relation, str], StatedEdge] = {}
    for key, value in record.extra.items():
        relation = parse_relation(key)
        if relation is not None:
            for words in _texts(value):
                edge = _read_stated(relation, words)
                found.setdefault((relation, edge.target), edge)
    for link in record.links:
        relation = parse_relation(link.relation)
        if relation is not None:
            edge = _read_stated(relation, link.target)
            found.setdefault((relation, edge.target), edge)
    return [edge for edge in found.values() if edge.target]


def with_edge(record: Record, edge: StatedEdge, form: EdgeForm) -> Record:
    """The record with one more edge; one of the same relation and target is replaced."""
    if not edge.target.strip() or any(mark in edge.target for mark in "\n\r\0"):
        raise Refused(f"{edge.target!r} is not the name of a node", hint="name it on one line, as file:src/a.ts")
    bare = without_edge(record, edge.relation, edge.target, form)
    words = _written(edge, form)
    if form is EdgeForm.LINKS or (edge.relation is Relation.SUPERSEDES and form is EdgeForm.COMMENT):
        return replace(bare, links=(*bare.links, Link(edge.relation.value, words)))
    key = _key(bare, edge.relation)
    there = list(_texts(bare.extra.get(key)))
    value: object = ", ".join([*there, words]) if form is EdgeForm.COMMENT else [*there, words]
    return replace(bare, extra={**bare.extra, key: value})


def without_edge(record: Record, relation: Relation, target: str, form: EdgeForm) -> Record:
    """The record without an edge; the very record when it states none."""

    def same(word: str, words: str) -> bool:
        return parse_relation(word) is relation and _read_stated(relation, words).target == target

    links = tuple(link for link in record.links if not same(link.relation, link.target))
    extra = dict(record.extra)
    for key, value in record.extra.items():
        texts = list(_texts(value))
        kept = [words for words in texts if not same(key, words)]
        if len(kept) == len(texts):
            continue
        if not kept:
            del extra[key]
        else:
            extra[key] = ", ".join(kept) if isinstance(value, str) and form is EdgeForm.COMMENT else kept
    if links == record.links and extra == dict(record.extra):
        return record
    return replace(record, links=links, extra=extra or NO_EXTRA)


def _key(record: Record, relation: Relation) -> str:
    """The key under which the record already has such edges, else the relation's own name."""
    return next((key for key in record.extra if parse_relation(key) is relation), relation.value)


def _texts(value: object) -> Iterator[str]:
    """The edges of a key: between commas, or as a list; anything else states none."""
    if isinstance(value, str):
        yield from (words.strip() for words in value.split(",") if words.strip())
    elif isinstance(value, list | tuple):
        yield from (words.strip() for words in value if isinstance(words, str) and words.strip())


def _read_stated(relation: Relation, words: str) -> StatedEdge:
    times = list(_EDGE_TIMES.finditer(words))
    last = times[-1] if times and times[-1].end() == len(words) else None
    bare = words if last is None else words[: last.start()]
    since, until = (last[1] or "", last[2] or "") if last is not None else ("", "")
    return StatedEdge(relation, _CODE.sub(lambda code: chr(int(code[1], 16)), bare).strip(), since, until)


def _written(edge: StatedEdge, form: EdgeForm) -> str:
    words = edge.target.strip()
    if edge.relation is Relation.SUPERSEDES and form is not EdgeForm.FRONT:
        return words  # as everybody who reads `supersedes` expects it; a sign that cannot stand there is refused
    for sign, code in _CODES.items():
        words = words.replace(sign, code)
    times = f" @{edge.since}" if edge.since else " @" if edge.until else ""
    return f"{words}{times}{f'..{edge.until}' if edge.until else ''}"
