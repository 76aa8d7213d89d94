"""Edges that somebody stated, as they stand in a record's own metadata.

`ralph graph link A affects file:src/a.ts` must survive a rebuild and travel with git, so it is written where A
stands: in the comment below a memory or guardrail as `affects: file:src/a.ts @2026-01-15`, in the front matter of
a knowledge entry as a list under the same key, in insights.json as one of the `links`. After the target stands
since when the edge holds and, behind two dots, until when. `supersedes` keeps its bare target, as other readers
know it. Signs that would end a list or a comment are written as `%2C`. Pure functions from record to record.
`tests/formats/test_edges.py` proves that what was stated is read back, and taken away without a trace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.errors import Refused
from ralph.formats.metadata import DATE
from ralph.model.graph import Relation, parse_relation
from ralph.model.record import NO_EXTRA, Link, Record

_TIMES = re.compile(rf" @({DATE})?(?:\.\.({DATE}))?")
_CODES = {"%": "%25", ",": "%2C", "|": "%7C", "-->": "--%3E", " @": "%20@"}
_CODE = re.compile("%(25|2C|7C|3E|20)", re.IGNORECASE)


class Form(StrEnum):
    """How a kind of file holds edges."""

    COMMENT = "comment"
    FRONT = "front"
    LINKS = "links"


@dataclass(frozen=True, slots=True)
class Stated:
    """One edge that a record states: the target is a node's id, or the title of a record."""

    relation: Relation
    target: str
    since: str = ""
    until: str = ""


def stated(record: Record) -> list[Stated]:
    """Every edge that the record's metadata state, in their order; what is no relation is left alone."""
    found: dict[tuple[Relation, str], Stated] = {}
    for key, value in record.extra.items():
        relation = parse_relation(key)
        if relation is not None:
            for words in _texts(value):
                edge = _read(relation, words)
                found.setdefault((relation, edge.target), edge)
    for link in record.links:
        relation = parse_relation(link.relation)
        if relation is not None:
            edge = _read(relation, link.target)
            found.setdefault((relation, edge.target), edge)
    return [edge for edge in found.values() if edge.target]


def with_edge(record: Record, edge: Stated, form: Form) -> Record:
    """The record with one more edge; one of the same relation and target is replaced."""
    if not edge.target.strip() or any(mark in edge.target for mark in "\n\r\0"):
        raise Refused(f"{edge.target!r} is not the name of a node", hint="name it on one line, as file:src/a.ts")
    bare = without_edge(record, edge.relation, edge.target, form)
    words = _written(edge, form)
    if form is Form.LINKS or (edge.relation is Relation.SUPERSEDES and form is Form.COMMENT):
        return replace(bare, links=(*bare.links, Link(edge.relation.value, words)))
    key = _key(bare, edge.relation)
    there = list(_texts(bare.extra.get(key)))
    value: object = ", ".join([*there, words]) if form is Form.COMMENT else [*there, words]
    return replace(bare, extra={**bare.extra, key: value})


def without_edge(record: Record, relation: Relation, target: str, form: Form) -> Record:
    """The record without an edge; the very record when it states none."""

    def same(word: str, words: str) -> bool:
        return parse_relation(word) is relation and _read(relation, words).target == target

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
            extra[key] = ", ".join(kept) if isinstance(value, str) and form is Form.COMMENT else kept
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


def _read(relation: Relation, words: str) -> Stated:
    times = list(_TIMES.finditer(words))
    last = times[-1] if times and times[-1].end() == len(words) else None
    bare = words if last is None else words[: last.start()]
    since, until = (last[1] or "", last[2] or "") if last is not None else ("", "")
    return Stated(relation, _CODE.sub(lambda code: chr(int(code[1], 16)), bare).strip(), since, until)


def _written(edge: Stated, form: Form) -> str:
    words = edge.target.strip()
    if edge.relation is Relation.SUPERSEDES and form is not Form.FRONT:
        return words  # as everybody who reads `supersedes` expects it; a sign that cannot stand there is refused
    for sign, code in _CODES.items():
        words = words.replace(sign, code)
    times = f" @{edge.since}" if edge.since else " @" if edge.until else ""
    return f"{words}{times}{f'..{edge.until}' if edge.until else ''}"
