"""`ralph graph link` and `unlink`: an edge that somebody states, written into the record's own file.

The index only says where the record stands; its file is parsed, changed and written by its codec, under its lock,
so that the edge survives a rebuild and travels with git. Memories, guardrails, knowledge and insights can hold
edges; a bullet of global-patterns.md, a line of progress.txt or of a log cannot, and says so. The target may be any
node: another record must be there, a file, tag, task or symbol need not be. A record supersedes a record.
`tests/app/test_graph_link.py` proves it on each kind of file.
"""

import difflib
import posixpath
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import graph, index, outdated
from ralph.app.text_cleaning import clean_text
from ralph.errors import NotFound, Refused, UsageError
from ralph.formats.graphiti import EdgeForm, StatedEdge, stated_edges, with_edge, without_edge
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.memories import GUARDRAILS, MEMORIES, parse_memories
from ralph.formats.text import Document, find_entry
from ralph.formats.work import parse_insights
from ralph.model import ids
from ralph.model.graph import ENTITY_TYPES, Node, NodeType, Relation, entity_id, entity_type, parse_relation
from ralph.model.record import Record
from ralph.search.graph import project_files
from ralph.store import files, lookup, rows
from ralph.store import graph as stored
from ralph.store.sources import Format, Source, sources

_FORMS = {
    Format.MEMORIES: EdgeForm.COMMENT,
    Format.GUARDRAILS: EdgeForm.COMMENT,
    Format.KNOWLEDGE: EdgeForm.FRONT,
    Format.INSIGHTS: EdgeForm.LINKS,
}
"""The files that can hold edges, and how."""


@dataclass(frozen=True, slots=True)
class Linked:
    """What became of an edge: where it stands, whether that changed anything, and the change as a diff."""

    source: str
    edge: StatedEdge
    path: Path
    changed: bool
    diff: str


def link(
    root: Path,
    source: str,
    relation: str,
    target: str,
    *,
    since: str = "",
    until: str = "",
    dry_run: bool = False,
    patterns: Sequence[str] = (),
) -> Linked:
    """State an edge; from today on, unless another day is named. The same one again changes nothing."""
    how = _relation(relation)
    clean_text(target, patterns=patterns)  # Refused for a secret
    if since and until and until < since:
        raise UsageError(f"the edge would end ({until}) before it begins ({since})", hint="swap the two days")
    record_id, place = _place(root, source)
    end = _target(root, record_id, how, target)
    if how is Relation.SUPERSEDES and (since or until):
        hint = "leave out the days: it holds from when the new record was made"
        raise UsageError("what supersedes something does so for good", hint=hint)
    if how is Relation.SUPERSEDES:
        _check_circle(root, record_id, end)

    def change(record: Record, form: EdgeForm) -> Record:
        there = next((edge for edge in stated_edges(record) if (edge.relation, edge.target) == (how, end)), None)
        if there is not None and (not since or since == there.since) and (not until or until == there.until):
            return record
        begin = since or (there.since if there is not None else ids.today())
        bare = how is Relation.SUPERSEDES
        return with_edge(record, StatedEdge(how, end, "" if bare else begin, until), form)

    return _write(root, record_id, place, StatedEdge(how, end, since, until), change, dry_run)


def _check_circle(root: Path, new: str, old: str) -> None:
    """Refused when the outdated one already supersedes the other, directly or by way of others."""
    pairs = index.ask(root, lookup.superseding)
    if new in outdated.circling([*pairs, (new, old)]) and new not in outdated.circling(pairs):
        what = f"{old} already supersedes {new}: if each took the other's place, neither would hold"
        raise Refused(what, hint=f"take that away first: `ralph graph link {old} supersedes {new} --remove`")


def unlink(root: Path, source: str, relation: str, target: str, *, dry_run: bool = False) -> Linked:
    """Take a stated edge away; NotFound when nobody stated it."""
    how = _relation(relation)
    record_id, place = _place(root, source)
    bare = target.strip()
    wanted = [name for name in (bare, *graph.spellings(bare), _id(root, bare)) if name]
    meant: list[str] = []

    def change(record: Record, form: EdgeForm) -> Record:
        there = [edge.target for edge in stated_edges(record) if edge.relation is how]
        meant[:] = [name for name in wanted if name in there][:1]
        if not meant:
            hint = f"`ralph graph show {record_id}` lists its edges; derived ones go with what they come from"
            raise NotFound(f"{record_id} states no edge {how.value} {target}", hint=hint)
        return without_edge(record, how, meant[0], form)

    done = _write(root, record_id, place, StatedEdge(how, target), change, dry_run)
    return Linked(done.source, StatedEdge(how, meant[0]), done.path, done.changed, done.diff)


def _relation(word: str) -> Relation:
    found = parse_relation(word)
    if found is None:
        raise UsageError(f"{word!r} is not a relation", hint=f"the relations are {', '.join(Relation)}")
    return found


def _place(root: Path, source: str) -> tuple[str, Source]:
    """The record that is to hold an edge, and its file; Refused when such a file cannot hold one."""

    def question(found: sqlite3.Connection, held: sqlite3.Connection) -> tuple[Node, str, str]:
        node = _node(found, source)
        if entity_type(node.id) is not None:
            hint = "an edge is kept by a record: begin with one, and name the file, tag or task as its target"
            raise Refused(f"{node.id} is no record", hint=hint)
        sql = "SELECT r.key, s.path FROM records r JOIN sources s ON s.key = r.source WHERE r.id = ?"
        key, path = held.execute(sql, (node.id,)).fetchone()
        return node, rows.records(held, [key])[key].id, path

    node, given, path = graph.asked(root, question)
    file = next((each for each in sources(root) if each.name == path), None)
    if file is None:
        raise NotFound(f"{path}: is gone", hint="run the command again")
    if file.format not in _FORMS:
        hint = "put it the other way round, or keep it as a memory first: `ralph memory add`"
        raise Refused(f"{path}: {node.type.value} {given} stands in a file that cannot hold edges", hint=hint)
    return given, file


def _node(found: sqlite3.Connection, name: str) -> Node:
    key = graph.found(found, name)
    return stored.nodes(found, [key])[key]


def _id(root: Path, name: str) -> str:
    """The id of the node that a name means, or "" when there is none."""
    try:
        return graph.asked(root, lambda found, _: _node(found, name).id)
    except NotFound:
        return ""


def _target(root: Path, record_id: str, how: Relation, name: str) -> str:
    """The id of what an edge leads to: a node that is there, or a file, tag, task or symbol that may come."""
    bare = name.strip()
    end = _id(root, bare)
    kind = entity_type(end or bare)
    if not end and kind is not None:
        end = _tidy(kind, bare)
    if not end and (root / bare).is_file():
        end = _tidy(NodeType.FILE, entity_id(NodeType.FILE, bare))
    if not end:
        hint = (
            f"name a record by its id or title, or another node as {', '.join(f'{each}:...' for each in ENTITY_TYPES)}"
        )
        raise NotFound(f"there is no record {name}", hint=hint)
    if end == record_id:
        raise UsageError(f"{record_id} cannot lead to itself", hint="name two different nodes")
    if how is Relation.SUPERSEDES and entity_type(end) is not None:
        raise UsageError(f"{end} is no record, so nothing supersedes it", hint="name the record that is outdated")
    return end


def _tidy(kind: NodeType, name: str) -> str:
    """The id of a node that is not there yet; Refused for a path outside of the project."""
    rest = " ".join(name.partition(":")[2].split())
    if kind in (NodeType.FILE, NodeType.SYMBOL):
        file, mark, symbol = rest.partition("#") if kind is NodeType.SYMBOL else (rest, "", "")
        inside = next(project_files([posixpath.normpath(file)] if file else []), "")
        if not inside or (kind is NodeType.SYMBOL and not symbol):
            hint = "name it from the project's root: file:src/a.ts, symbol:src/a.ts#name"
            raise Refused(f"{name} is not in the project", hint=hint)
        rest = f"{inside}{mark}{symbol}"
    return entity_id(kind, rest.lower() if kind is NodeType.TAG else rest)


def _write(
    root: Path,
    record_id: str,
    place: Source,
    edge: StatedEdge,
    change: Callable[[Record, EdgeForm], Record],
    dry_run: bool,
) -> Linked:
    """Change one record in its file, or only say how."""
    texts: list[str] = []

    def edit(text: str) -> str:
        document = _parse(place, text)
        record = find_entry(document.entries, record_id).record
        after = change(record, _FORMS[place.format])
        texts[:] = [text, text if after is record else str(document.replace(record_id, after))]
        return texts[1]

    if dry_run:
        edit(files.read(place.path) or "")
    else:
        files.update(place.path, edit, root=paths.main_checkout(root) if place.format is Format.INSIGHTS else root)
    name = paths.shown(place.path, root)
    before, after = (text.splitlines(keepends=True) for text in texts)
    diff = "".join(difflib.unified_diff(before, after, name, name, n=1))
    return Linked(record_id, edge, place.path, texts[0] != texts[1], diff)


def _parse(place: Source, text: str) -> Document:
    if place.format is Format.KNOWLEDGE:
        return parse_knowledge(text, place.path.stem)
    if place.format is Format.INSIGHTS:
        return parse_insights(text)
    return parse_memories(text, GUARDRAILS if place.format is Format.GUARDRAILS else MEMORIES)
