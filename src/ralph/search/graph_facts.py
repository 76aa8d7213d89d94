"""The facts that a source contributes to the knowledge graph: its nodes and edges.

A memory is related to its tags, files and `[[links]]`, and was discovered in its session and task.
A session affects the files it wrote and mentions those it read. A task affects the files in its
journal and depends on its blockers. Observations and journal entries are not nodes, because there
are too many of them.

For example, a memory tagged `db` with the text "`connect()` in src/db.ts leaks" gives the edges

    mem-... related_to tag:db
    mem-... mentions file:src/db.ts
    mem-... mentions symbol:src/db.ts#connect
    symbol:src/db.ts#connect related_to file:src/db.ts

Increase `VERSION` in `storage/graph.py` with every change to the facts.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from ralph.core.graph import (
    TYPE_OF_KIND,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.core.record import Family, MemoryKind, Record, Status
from ralph.formats.graphiti import stated_edges
from ralph.formats.knowledge_text import links_in
from ralph.storage import db, queries, sessions
from ralph.storage.graph_sync import Fact, SourceFacts, TitledNode

_MAX_SCANNED_CHARACTERS = 20_000  # of a text, searched for paths and symbols
_MAX_MENTIONS = 20  # of files in one text, and likewise of symbols
_MAX_NAME_CHARACTERS = 80
_PATH = re.compile(
    r"""
    (?<! [\w/.:@~\\-] )  # not inside a URL, an absolute path or an address
    (?: \./ )?
    ( (?: [\w.@+-]+/ )+ [\w.@+-]*\w \. [A-Za-z]\w{0,9} )  # folders, and a file with a suffix
    (?: \# ( [A-Za-z_$][\w$.]* ) )?  # the symbol, if there is one
    (?! [\w/] )
    """,
    re.VERBOSE,
)
"""Matches a relative path such as `src/db.ts`, possibly with a symbol as in `src/db.ts#connect`."""
_CALL = re.compile(r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\(\)`")
"""Matches a call in backticks, such as `connect()` or `Pool.close()`."""
_WRITING_TOOLS = frozenset(
    {"edit", "write", "multiedit", "notebookedit", "apply_patch", "write_file", "replace"}
)
"""Tools that write the file in their arguments. An observation's title begins with its tool."""
_TASKS_FOLDER = ".ralph/tasks/"


def source_facts(index: sqlite3.Connection, source: int, path: str) -> SourceFacts:
    """Return the nodes and edges defined by one indexed source."""
    db.restart_deadline(index)
    owner = _owning_task(path)
    nodes: list[TitledNode] = []
    facts: list[Fact] = []
    for _, record in queries.select_records(
        index, Family.MEMORY, "source = ? ORDER BY line, key", (source,)
    ):
        nodes.append(TitledNode(node_of(record, owner), record.title))
        facts += _memory_facts(record, owner)
    for task in sessions.tasks_in(index, source):
        nodes.append(TitledNode(_task_node(task)))
        facts += _task_facts(task)
    for session in sessions.first_prompts(index, source):
        nodes.append(TitledNode(_session_node(session)))
        if session.task:
            session_id = entity_id(NodeType.SESSION, session.id)
            task_id = entity_id(NodeType.TASK, session.task)
            facts.append(_fact(session_id, Relation.RELATED_TO, task_id, session.started_at))
    facts += _event_facts(index, source, owner)
    return SourceFacts(nodes, facts)


def _owning_task(path: str) -> str:
    """Return the id of the task whose folder contains a source, or "" if none does."""
    if not path.startswith(_TASKS_FOLDER):
        return ""
    return path.removeprefix(_TASKS_FOLDER).partition("/")[0]


def _fact(source: str, relation: Relation, target: str, recorded: str) -> Fact:
    return Fact(Edge(source, relation, target, recorded))


def node_of(record: Record, task: str = "") -> Node:
    """Return the node for a memory. `task` is the task that owns its file."""
    kind = NodeType.DISCOVERY
    if isinstance(record.kind, MemoryKind):
        kind = TYPE_OF_KIND[record.kind]
    valid_from = record.extra.get("valid-from", record.extra.get("valid_from", ""))
    if not isinstance(valid_from, str):
        valid_from = ""
    return Node(
        id=record.id,
        type=kind,
        name=_short_name(record.title or record.text.strip().partition("\n")[0]),
        recorded=record.created_at,
        valid_from=valid_from,
        valid_until=record.valid_until,
        retired=record.status is Status.RETIRED,
        task=record.origin.task or task,
    )


def _task_node(task: sessions.IndexedTask) -> Node:
    name = _short_name(task.title) or task.id
    node_id = entity_id(NodeType.TASK, task.id)
    return Node(node_id, NodeType.TASK, name, recorded=task.created_at, task=task.id)


def _session_node(session: sessions.SessionPrompt) -> Node:
    name = _short_name(session.prompt) or session.id
    node_id = entity_id(NodeType.SESSION, session.id)
    return Node(node_id, NodeType.SESSION, name, recorded=session.started_at, task=session.task)


def _short_name(words: str) -> str:
    # Whitespace is collapsed, so a few times the length is enough to fill a name.
    line = " ".join(words[: 3 * _MAX_NAME_CHARACTERS].split())
    if len(line) <= _MAX_NAME_CHARACTERS:
        return line
    return f"{line[: _MAX_NAME_CHARACTERS - 1]}…"


def _task_facts(task: sessions.IndexedTask) -> Iterator[Fact]:
    task_id = entity_id(NodeType.TASK, task.id)
    for blocker in task.blocked_by:
        blocker_id = entity_id(NodeType.TASK, blocker)
        yield _fact(task_id, Relation.DEPENDS_ON, blocker_id, task.created_at)
    if task.parent:
        parent_id = entity_id(NodeType.TASK, task.parent)
        yield _fact(task_id, Relation.RELATED_TO, parent_id, task.created_at)


def _memory_facts(record: Record, task: str) -> list[Fact]:
    """Return the facts in a memory without duplicates. The first one wins."""
    facts: dict[_EdgeKey, Fact] = {}
    for found in (
        _stated_facts(record),
        _link_facts(record),
        _origin_facts(record, task),
        _file_facts(record),
    ):
        for fact in found:
            edge = fact.edge
            facts.setdefault(_EdgeKey(edge.source, edge.relation, edge.target), fact)
    return list(facts.values())


class _EdgeKey(NamedTuple):
    source: str
    relation: Relation
    target: str


def _stated_facts(record: Record) -> Iterator[Fact]:
    """Yield the edges that are written in a record's metadata."""
    for stated in stated_edges(record):
        edge = Edge(
            source=record.id,
            relation=stated.relation,
            target=stated.target,
            recorded=record.created_at,
            valid_from=stated.since,
            valid_until=stated.until,
            explicit=True,
        )
        yield Fact(edge, target_is_words=entity_type(stated.target) is None)


def _link_facts(record: Record) -> Iterator[Fact]:
    """Yield an edge for each link to another record, in the metadata or in the text."""
    for link in record.links:
        if link.relation == "superseded_by":
            edge = Edge(link.target, Relation.SUPERSEDES, record.id, record.created_at)
            yield Fact(edge, source_is_words=True)
        elif parse_relation(link.relation) is None:
            edge = Edge(record.id, Relation.RELATED_TO, link.target, record.created_at)
            yield Fact(edge, target_is_words=True)
    if "[[" in record.text:
        for title in links_in(record.text):
            edge = Edge(record.id, Relation.RELATED_TO, title, record.created_at)
            yield Fact(edge, target_is_words=True)


def _origin_facts(record: Record, task: str) -> Iterator[Fact]:
    """Yield the edges to a record's tags, session and task."""
    for tag in record.tags:
        name = " ".join(tag.lower().split())
        if name:
            tag_id = entity_id(NodeType.TAG, name)
            yield _fact(record.id, Relation.RELATED_TO, tag_id, record.created_at)
    if record.origin.session:
        session_id = entity_id(NodeType.SESSION, record.origin.session)
        yield _fact(record.id, Relation.DISCOVERED_IN, session_id, record.created_at)
    owner = record.origin.task or task
    if owner:
        task_id = entity_id(NodeType.TASK, owner)
        yield _fact(record.id, Relation.DISCOVERED_IN, task_id, record.created_at)


def _file_facts(record: Record) -> Iterator[Fact]:
    """Yield edges to the files and symbols that a record is about or mentions."""
    subject_files = list(dict.fromkeys(project_files(record.origin.files)))
    mentioned_files, symbols = find_mentions(record.text, subject_files)
    is_fix = record.kind is MemoryKind.FIX
    relation = Relation.DISCOVERED_IN if is_fix else Relation.RELATED_TO
    for file in subject_files:
        yield _fact(record.id, relation, entity_id(NodeType.FILE, file), record.created_at)
    for file in mentioned_files:
        if file not in subject_files:
            file_id = entity_id(NodeType.FILE, file)
            yield _fact(record.id, Relation.MENTIONS, file_id, record.created_at)
    for symbol in symbols:
        symbol_id = entity_id(NodeType.SYMBOL, symbol)
        file_id = entity_id(NodeType.FILE, symbol.partition("#")[0])
        yield _fact(record.id, Relation.MENTIONS, symbol_id, record.created_at)
        yield _fact(symbol_id, Relation.RELATED_TO, file_id, record.created_at)


def find_mentions(text: str, about: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the paths and the symbols mentioned in `text`.

    `about` lists the files that the text is about. A symbol is written as `path#name`, or as
    `name()` in backticks if only one file can be meant.
    """
    files: dict[str, None] = {}  # used as an ordered set
    symbols: dict[str, None] = {}
    scanned = text[:_MAX_SCANNED_CHARACTERS]
    if "/" in scanned:
        for found in _PATH.finditer(scanned):
            file, symbol = found.groups()
            if {".", ".."}.isdisjoint(file.split("/")):
                files[file] = None
                if symbol:
                    symbols[f"{file}#{symbol.rstrip('.')}"] = None
    candidates = {*about, *files}
    if len(candidates) == 1 and "()`" in scanned:
        file = candidates.pop()
        for name in _CALL.findall(scanned):
            symbols[f"{file}#{name}"] = None
    return list(files)[:_MAX_MENTIONS], list(symbols)[:_MAX_MENTIONS]


def project_files(files: Sequence[str]) -> Iterator[str]:
    """Yield the files with a path relative to the project root, without a leading `./`."""
    for file in files:
        name = file.strip().removeprefix("./")
        if not name or name.startswith(("/", "~", "..")):
            continue
        is_windows_path = "\\" in name or name[1:2] == ":"
        if not is_windows_path:
            yield name


def _event_facts(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Fact]:
    """Yield the facts about tasks, sessions and files in a log, each with the earliest time."""
    earliest: dict[_EdgeKey, str] = {}
    for edge in chain(_journal_edges(index, source, owner), _touched_file_edges(index, source)):
        key = _EdgeKey(edge.source, edge.relation, edge.target)
        known = earliest.get(key)
        if known is None or (edge.recorded and edge.recorded < known):
            earliest[key] = edge.recorded
    for key, recorded in earliest.items():
        # A session that wrote a file needs no second edge for reading it.
        has_written = key._replace(relation=Relation.AFFECTS) in earliest
        if key.relation is Relation.MENTIONS and has_written:
            continue
        yield _fact(key.source, key.relation, key.target, recorded)


def _journal_edges(index: sqlite3.Connection, source: int, owner: str) -> Iterator[Edge]:
    for _, record in queries.select_records(index, Family.JOURNAL, "source = ?", (source,)):
        name = record.origin.task or owner
        if not name:
            continue
        task_id = entity_id(NodeType.TASK, name)
        for file in project_files(record.origin.files):
            file_id = entity_id(NodeType.FILE, file)
            yield Edge(task_id, Relation.AFFECTS, file_id, record.created_at)
        if record.origin.session:
            session_id = entity_id(NodeType.SESSION, record.origin.session)
            yield Edge(task_id, Relation.RELATED_TO, session_id, record.created_at)


def _touched_file_edges(index: sqlite3.Connection, source: int) -> Iterator[Edge]:
    for touched in sessions.touched_files(index, source):
        if not touched.session:
            continue
        session_id = entity_id(NodeType.SESSION, touched.session)
        tool = touched.title.partition(" ")[0].rstrip(":").lower()
        relation = Relation.AFFECTS if tool in _WRITING_TOOLS else Relation.MENTIONS
        for file in project_files(touched.files):
            yield Edge(session_id, relation, entity_id(NodeType.FILE, file), touched.created_at)
