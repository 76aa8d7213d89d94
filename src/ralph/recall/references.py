"""Find out which of the injected records a session went on to use.

A record counts as used if a later message or command of the session contains the record's id, a
file or command that the record mentions, or words that occur in no other injected record and that
the session had not used before. Tool output does not count, because printing a memory file is not
using it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths, terms
from ralph.core.errors import RalphError
from ralph.core.record import ObservationKind, Record
from ralph.core.terms import EVERYDAY_WORDS, stem
from ralph.recall.injection_ledger import read_ledger
from ralph.storage import db, queries
from ralph.storage.library import Library

# Limits on the terms that show a record was used.
_USED_WEIGHT = 2  # total weight that shared terms unique to a record must reach
_NAME_WEIGHT = 2
_WORD_WEIGHT = 1
_MIN_WORD_CHARACTERS = 6
_MIN_CJK_CHARACTERS = 3
_MIN_NAME_CHARACTERS = 4
_COMMAND = re.compile(r"`([^`\n]{4,200})`")  # code in backticks
_NAME = re.compile(r"[a-z][A-Z]|[_./:\\]|\w-\w|[A-Za-z]\d|\d[A-Za-z]")
"""Part of an identifier: `fooBar`, `foo_bar`, `foo.bar`, `foo-bar`, `foo2`."""
_FILE = re.compile(r"[\w.@~/-]*[\w-]\.[A-Za-z][\w]{0,9}")  # `src/auth.py`
_CODE_WORDS = (
    "branch",
    "client",
    "command",
    "commit",
    "config",
    "configuration",
    "create",
    "default",
    "delete",
    "directory",
    "error",
    "failed",
    "failure",
    "fields",
    "folder",
    "function",
    "handle",
    "import",
    "install",
    "library",
    "method",
    "missing",
    "module",
    "object",
    "option",
    "output",
    "package",
    "passed",
    "process",
    "remove",
    "replace",
    "request",
    "require",
    "response",
    "result",
    "return",
    "running",
    "script",
    "server",
    "service",
    "source",
    "statement",
    "string",
    "support",
    "system",
    "target",
    "tested",
    "update",
    "values",
    "variable",
    "version",
    "warning",
    "working",
    "written",
)
"""Words that may occur in any text about code. They are compared by stem."""


class _InjectedRecord(NamedTuple):
    """A record, the time of its injection, and the terms, files and commands that identify it.

    If the record has been deleted since, only its id is known.
    """

    id: str
    injected_at: datetime | None
    terms: Mapping[str, int] = {}
    files: Collection[str] = ()
    commands: Sequence[str] = ()


class _Utterance(NamedTuple):
    """A message or command of a session."""

    at: datetime | None
    text: str
    terms: Mapping[str, int]
    files: Collection[str]
    command: str


def find_referenced(
    root: Path,
    session: str,
    observations: Sequence[Record],
    records: Sequence[Record] | None = None,
) -> list[str]:
    """Return the ids of the injected records that a session has since referred to.

    `records` are the injected records, if the caller already has them.
    """
    injected_at: dict[str, datetime | None] = {}
    for injection in read_ledger(root, session_id=session).injections:
        if injection.session == session:
            injected_at.setdefault(injection.record, ids.parse_time(injection.at))
    if not injected_at:
        return []
    if records is None:
        records = _find_records(root, list(injected_at))
    injected = {name: _InjectedRecord(name, at) for name, at in injected_at.items()}
    for record in records:
        injected[record.id] = _read_record(record, injected_at.get(record.id))
    utterances = [_read_utterance(observation) for observation in observations]
    candidates = list(injected.values())
    return [record.id for record in candidates if _is_used(record, candidates, utterances)]


def _read_record(record: Record, injected_at: datetime | None) -> _InjectedRecord:
    text = f"{record.title}\n{record.text}"
    record_files = set(record.origin.files)
    for name in _FILE.findall(text):
        if "/" in name or _NAME.search(name):
            record_files.add(name)
    commands = []
    for command in _COMMAND.findall(text):
        if " " in command.strip():
            commands.append(" ".join(command.split()))
    return _InjectedRecord(record.id, injected_at, _weigh_terms(text), record_files, commands)


def _read_utterance(observation: Record) -> _Utterance:
    value = observation.extra.get("command")
    command = ""
    if isinstance(value, str):
        command = " ".join(value.split())
    text = command
    if observation.kind is ObservationKind.NOTE:
        text = observation.text
    at = ids.parse_time(observation.created_at)
    return _Utterance(at, text, _weigh_terms(text), observation.origin.files, command)


def _is_used(
    record: _InjectedRecord,
    injected: Sequence[_InjectedRecord],
    utterances: Sequence[_Utterance],
) -> bool:
    """Return whether anything said or run after a record's injection refers to it."""
    if record.injected_at is None:
        return False
    later: list[_Utterance] = []
    not_rare: set[str] = set()  # terms used before the injection, or found in another record
    for utterance in utterances:
        if utterance.at is not None and utterance.at > record.injected_at:
            later.append(utterance)
        else:
            not_rare.update(utterance.terms)
    for other in injected:
        if other.id != record.id:
            not_rare.update(other.terms)
    rare = record.terms.keys() - not_rare
    id_in_text = re.compile(rf"{re.escape(record.id)}(?![^\W_])")  # not the start of a longer id
    for utterance in later:
        if id_in_text.search(utterance.text) or _refers_to(utterance, record, rare):
            return True
    return False


def _refers_to(utterance: _Utterance, record: _InjectedRecord, rare: Collection[str]) -> bool:
    """Return whether an utterance contains a record's rare terms, its file or its command."""
    shared_weight = sum(record.terms[term] for term in rare if term in utterance.terms)
    if shared_weight >= _USED_WEIGHT:
        return True
    if any(command in utterance.command for command in record.commands):
        return True
    for path in utterance.files:
        if any(_is_same_file(path, record_path) for record_path in record.files):
            return True
    return False


def _is_same_file(one: str, other: str) -> bool:
    """Return whether one of two paths ends with the other."""
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _weigh_terms(text: str) -> dict[str, int]:
    """Return the terms that may identify `text`, with their weights."""
    weights: dict[str, int] = {}
    for word in terms.split_words(text):
        folded = terms.fold(word)
        if terms.is_cjk(word):
            if len(folded) < _MIN_CJK_CHARACTERS:
                continue
            term = folded[:_MIN_CJK_CHARACTERS]
        elif _NAME.search(word) and len(word) >= _MIN_NAME_CHARACTERS:
            weights[folded] = _NAME_WEIGHT
            continue
        else:
            word_terms = terms.word_terms(folded)
            if len(word) < _MIN_WORD_CHARACTERS or not word_terms:
                continue
            term = word_terms[0]
        if term not in _common_terms():
            weights[term] = _WORD_WEIGHT
    return weights


@cache
def _common_terms() -> frozenset[str]:
    return frozenset(map(stem, (*EVERYDAY_WORDS, *_CODE_WORDS)))


def _find_records(root: Path, names: Sequence[str]) -> list[Record]:
    """Return the records with these ids, from the memory files and the index."""
    by_id = {record.id: record for record in stored_memories(root)}
    database = paths.index_file(root)
    if not by_id.keys() >= {*names} and database.exists():
        with (
            suppress(RalphError, sqlite3.Error),  # the index may still be being built
            db.explained(database),
            closing(db.connect(database, read_only=True)) as connection,
        ):
            keys = []
            for name in names:
                key = queries.key_of(connection, name)
                if key is not None:
                    keys.append(key)
            for record in queries.records(connection, keys).values():
                by_id[record.id] = record
    return [by_id[name] for name in names if name in by_id]


def stored_memories(root: Path) -> list[Record]:
    """Return all guardrails and memories in the files of a project."""
    library = Library(root)
    records = []
    for shelf in (library.guardrails, library.memories):
        records += [stored.record for stored in library.read(shelf)]
    return records
