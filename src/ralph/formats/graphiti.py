"""graphiti/: a task's part of the graph, as files that other tools can read.

`nodes.json` and `edges.json` hold one object a line between two lines of frame, sorted, so that the same records
give the same bytes and a diff shows what changed. `embeddings.bin` begins with eight bytes of magic, then four
little-endian numbers of four bytes (version, dimensions, count, length of the model's name), the name, and a row
of float32 for each node in the order of `nodes.json`; a node without a vector has a row of zeros. Without any
vector there is no such file. All three are derived: nobody edits them, and a reader refuses what is damaged.
`tests/formats/test_graphiti.py` reads back whatever is written, and cuts it anywhere.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ralph.errors import Unreadable
from ralph.model.graph import Edge, Node, NodeType, Relation

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


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Nodes as they stand in the file, which is the order of the embeddings' rows."""
    return sorted(nodes, key=lambda node: node.id)


def nodes_text(nodes: Iterable[Node]) -> str:
    """nodes.json."""
    return _text("nodes", map(_node, in_order(nodes)))


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
    said |= {key: value for key in _TIMES if (value := getattr(node, key))}
    if node.replaced is not None:
        said["replaced"] = node.replaced
    if node.retired:
        said["retired"] = True
    if node.task:
        said["task"] = node.task
    return said | ({"text": node.text} if node.text else {})


_TIMES = ("recorded", "valid_from", "valid_until", "since")


def _edge(edge: Edge) -> dict[str, object]:
    said: dict[str, object] = {"source": edge.source, "relation": edge.relation.value, "target": edge.target}
    said |= {key: value for key in _TIMES[:3] if (value := getattr(edge, key))}
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
