"""What the rows of one source mean for the graph: nodes, and edges with the reason that they have.

A memory is a node. It is related to its tags, to the files it cites (a gotcha was discovered in them) and to what
its `[[links]]` name; it was discovered in its session and its task; what its text speaks of in passing (a path, a
function of the one file that it is about) it mentions; what its metadata state is said explicitly. A session
affects the files that it wrote and mentions those it read; a task affects the files of its journal and depends on
the tasks that block it. Observations and journal entries are no nodes: there are too many, and they say nothing by
themselves. Paths outside of the project are nobody's business. Pure but for the rows that are read;
`tests/search/test_facts.py` has a case for each sentence.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ralph.formats.graphiti import stated_edges
from ralph.formats.knowledge import links_in
from ralph.model.graph import TYPE_OF_KIND, Node, NodeType, Relation, entity_id, entity_type, parse_relation
from ralph.model.record import Family, MemoryKind, Record, Status
from ralph.store import rows
from ralph.store.graph import Fact, Told

_LOOKED_AT = 20_000
"""Characters of a text in which paths and symbols are looked for."""
_MOST = 20
"""Of one kind, a text mentions at most so many."""
_NAME = 80
_PATH = re.compile(
    r"(?<![\w/.:@~\\-])(?:\./)?((?:[\w.@+-]+/)+[\w.@+-]*\w\.[A-Za-z]\w{0,9})(?:#([A-Za-z_$][\w$.]*))?(?![\w/])"
)
_CALL = re.compile(r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\(\)`")
_CHANGES = frozenset({"edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"})
"""Tools that write what they name; the first word of an observation's title."""
_TASKS = ".ralph/tasks/"
_SESSIONS = """
SELECT s.id, s.task_id, coalesce(s.started_at, s.created_at, ''), (
    SELECT o.content FROM observations o
    WHERE o.session_id = s.id AND o.source = s.source AND o.title = 'prompt' ORDER BY o.seq LIMIT 1
) FROM sessions s WHERE s.source = ?
"""
"""Sessions with what was asked first, which says more than an id."""


def told(index: sqlite3.Connection, source: int, path: str) -> Told:
    """What a source of the index says."""
    task = path[len(_TASKS) :].partition("/")[0] if path.startswith(_TASKS) else ""
    nodes: list[tuple[Node, str]] = []
    facts: list[Fact] = []
    names = dict(index.execute("SELECT key, id FROM records WHERE source = ?", (source,)).fetchall())
    for key, record in rows.stored(index, Family.MEMORY, "source = ?", (source,)):
        record = replace(record, id=names[key])
        nodes.append((node_of(record, task), record.title))
        facts += memory(record, task)
    for part in (_tasks(index, source), _sessions(index, source)):
        for node, more in part:
            nodes.append((node, ""))
            facts += more
    facts += _journal(index, source, task)
    facts += _observations(index, source)
    return Told(tuple(nodes), tuple(facts))


def node_of(record: Record, task: str = "") -> Node:
    """The node of a memory."""
    kind = TYPE_OF_KIND[record.kind] if isinstance(record.kind, MemoryKind) else NodeType.DISCOVERY
    since = record.extra.get("valid-from", record.extra.get("valid_from", ""))
    return Node(
        record.id,
        kind,
        _name(record.title or record.text.strip().partition("\n")[0]),
        record.created_at,
        since if isinstance(since, str) else "",
        record.valid_until,
        retired=record.status is Status.RETIRED,
        task=record.origin.task or task,
    )


def _name(words: str) -> str:
    """A name on one line, and not too long for a picture."""
    line = " ".join(words[: 3 * _NAME].split())
    return line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"


def memory(record: Record, task: str = "") -> Iterator[Fact]:
    """The edges of a memory, each once."""
    seen: set[tuple[str, Relation, str]] = set()
    for fact in _memory(record, task):
        ends = (fact.source, fact.relation, fact.target)
        if ends not in seen:
            seen.add(ends)
            yield fact


def _memory(record: Record, task: str) -> Iterator[Fact]:
    at = record.created_at
    for edge in stated_edges(record):
        words = entity_type(edge.target) is None
        yield Fact(record.id, edge.relation, edge.target, at, edge.since, edge.until, True, target_is_words=words)
    for link in record.links:
        if link.relation == "superseded_by":
            yield Fact(link.target, Relation.SUPERSEDES, record.id, at, source_is_words=True)
        elif parse_relation(link.relation) is None:
            yield Fact(record.id, Relation.RELATED_TO, link.target, at, target_is_words=True)
    for title in links_in(record.text) if "[[" in record.text else ():
        yield Fact(record.id, Relation.RELATED_TO, title, at, target_is_words=True)
    for tag in record.tags:
        if name := " ".join(tag.lower().split()):
            yield Fact(record.id, Relation.RELATED_TO, entity_id(NodeType.TAG, name), at)
    if record.origin.session:
        yield Fact(record.id, Relation.DISCOVERED_IN, entity_id(NodeType.SESSION, record.origin.session), at)
    if record.origin.task or task:
        yield Fact(record.id, Relation.DISCOVERED_IN, entity_id(NodeType.TASK, record.origin.task or task), at)
    yield from _cited(record)


def _cited(record: Record) -> Iterator[Fact]:
    """The files that a record is about, and what its text mentions."""
    at = record.created_at
    about = list(dict.fromkeys(inside(record.origin.files)))
    how = Relation.DISCOVERED_IN if record.kind is MemoryKind.FIX else Relation.RELATED_TO
    for file in about:
        yield Fact(record.id, how, entity_id(NodeType.FILE, file), at)
    files, symbols = mentioned(record.text, about)
    for file in files:
        if file not in about:
            yield Fact(record.id, Relation.MENTIONS, entity_id(NodeType.FILE, file), at)
    for symbol in symbols:
        yield Fact(record.id, Relation.MENTIONS, entity_id(NodeType.SYMBOL, symbol), at)
        yield Fact(
            entity_id(NodeType.SYMBOL, symbol),
            Relation.RELATED_TO,
            entity_id(NodeType.FILE, symbol.partition("#")[0]),
            at,
        )


def mentioned(text: str, about: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The paths in a text, and the symbols: `path#name`, or `name()` when just one file can be meant."""
    files: dict[str, None] = {}
    symbols: dict[str, None] = {}
    part = text[:_LOOKED_AT]
    for found in _PATH.finditer(part) if "/" in part else ():
        if not any(piece in ("..", ".") for piece in found[1].split("/")):
            files[found[1]] = None
            if found[2]:
                symbols[f"{found[1]}#{found[2].rstrip('.')}"] = None
    meant = {*about, *files}
    if len(meant) == 1 and "()`" in part:
        (file,) = meant
        symbols.update((f"{file}#{name}", None) for name in _CALL.findall(part))
    return list(files)[:_MOST], list(symbols)[:_MOST]


def inside(files: Sequence[str]) -> Iterator[str]:
    """Files of the project, named from its root."""
    for file in files:
        name = file.strip().removeprefix("./")
        if name and not name.startswith(("/", "~", "..")) and "\\" not in name and name[1:2] != ":":
            yield name


def _tasks(index: sqlite3.Connection, source: int) -> Iterator[tuple[Node, list[Fact]]]:
    sql = "SELECT id, title, blocked_by, parent, created_at FROM tasks WHERE source = ?"
    for task, title, blocked_by, parent, created in index.execute(sql, (source,)):
        own, at = entity_id(NodeType.TASK, task), created or ""
        node = Node(own, NodeType.TASK, _name(title) or task, at, task=task)
        facts = [Fact(own, Relation.DEPENDS_ON, entity_id(NodeType.TASK, other), at) for other in _list(blocked_by)]
        if parent:
            facts.append(Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, parent), at))
        yield node, facts


def _sessions(index: sqlite3.Connection, source: int) -> Iterator[tuple[Node, list[Fact]]]:
    for session, task, at, asked in index.execute(_SESSIONS, (source,)):
        own = entity_id(NodeType.SESSION, session)
        facts = [Fact(own, Relation.RELATED_TO, entity_id(NodeType.TASK, task), at)] if task else []
        yield Node(own, NodeType.SESSION, _name(asked or "") or session, at, task=task or ""), facts


def _journal(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Fact]:
    """What the iterations of tasks did, each edge at the time of the first that did it."""
    first: dict[tuple[str, Relation, str], str] = {}
    for _, record in rows.stored(index, Family.JOURNAL, "source = ?", (source,)):
        task = record.origin.task or owner
        if not task:
            continue
        ends = [(Relation.AFFECTS, entity_id(NodeType.FILE, file)) for file in inside(record.origin.files)]
        if record.origin.session:
            ends.append((Relation.RELATED_TO, entity_id(NodeType.SESSION, record.origin.session)))
        for relation, target in ends:
            _earliest(first, (entity_id(NodeType.TASK, task), relation, target), record.created_at)
    yield from (Fact(*ends, at) for ends, at in first.items())


def _observations(index: sqlite3.Connection, source: int) -> Iterator[Fact]:
    """The files of sessions: written or only read."""
    sql = "SELECT session_id, title, files, created_at FROM observations WHERE source = ? AND files <> ''"
    first: dict[tuple[str, Relation, str], str] = {}
    for session, title, files, at in index.execute(sql, (source,)):
        if not session:
            continue
        changes = title.partition(" ")[0].rstrip(":").lower() in _CHANGES
        how = Relation.AFFECTS if changes else Relation.MENTIONS
        for file in inside(_list(files)):
            _earliest(first, (entity_id(NodeType.SESSION, session), how, entity_id(NodeType.FILE, file)), at)
    yield from (Fact(*ends, at) for ends, at in first.items() if not _wrote(first, ends))


def _wrote(first: dict[tuple[str, Relation, str], str], ends: tuple[str, Relation, str]) -> bool:
    """Whether the file that was read was written, too: that says more."""
    return ends[1] is Relation.MENTIONS and (ends[0], Relation.AFFECTS, ends[2]) in first


def _earliest(first: dict[tuple[str, Relation, str], str], ends: tuple[str, Relation, str], at: str) -> None:
    known = first.get(ends)
    first[ends] = at if known is None or (at and at < known) else known


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return [item for item in found if isinstance(item, str) and item] if isinstance(found, list) else []
