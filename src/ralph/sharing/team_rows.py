"""Select and clean the rows that a project shares with its team.

A row is a line in the log format, cleaned with the current privacy rules. It contains nothing that
is local to this machine: paths in the project become relative, the home folder becomes `~`, and
temporary files lose their names. Prompts and answers are not shared, because together they would
form a transcript. A source is shared in parts, one for each family of records.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph import __version__
from ralph.core import ids, paths, terms
from ralph.core.errors import RalphError
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.core.repository import Repository
from ralph.core.settings import Privacy, Shared
from ralph.formats.log import encode_line, encode_record
from ralph.lean import discovery
from ralph.lean.secret_rules import rules_mark
from ralph.search.scoring import SEARCH
from ralph.sharing.row_cleaner import RowCleaner
from ralph.storage import files, team_db
from ralph.storage.index_schema import FAMILIES
from ralph.storage.record_rows import search_columns, storable_text
from ralph.storage.server_lookup import indexed_terms
from ralph.storage.sources import Format
from ralph.storage.team_db import IndexedSource
from ralph.storage.team_server import MAX_ROW_BYTES, SESSION_FAMILY, PushedRow

CURATED = {
    Format.MEMORIES: Shared.MEMORIES,
    Format.PATTERNS: Shared.MEMORIES,
    Format.GUARDRAILS: Shared.GUARDRAILS,
    Format.KNOWLEDGE: Shared.KNOWLEDGE,
}
"""The memory files that may be shared.

Personal memory and the memory of enclosing projects are never shared.
"""
_GOAL = "Goal: "  # starts the line in a summary that quotes a prompt
_NAME_DIGITS = 16  # hexadecimal digits in the names of machines and rule sets
_MAX_BYTES_PER_CHARACTER = 4  # in UTF-8
_MAX_INDEX_BYTES = 2 * MAX_ROW_BYTES  # for a row's search columns, and for its terms

# How lines in a log start, and how far into an event line its rules are named.
_EVENT_START = b'{"v": 1, "type": "event"'
_SESSION_START = b'{"v": 1, "type": "session"'
_EVENT_HEAD_BYTES = 300


class Part(NamedTuple):
    """A shared part of a source, and its family, which is None for session summaries."""

    source: IndexedSource
    path: str
    format: str
    family: Family | None


class GitState(NamedTuple):
    """The commit of a checkout, and whether its branch is the default branch."""

    branch: str = ""
    commit: str = ""
    committed_at: str = ""
    is_default: bool = True


def git_state(root: Path) -> GitState:
    """Ask git for the state of a checkout. Without git, the branch counts as the default one."""
    git = Repository(root)
    commit, _, committed_at = git.output_or_empty("log", "-1", "--format=%H %ct").partition(" ")
    branch = git.branch()
    remote_head = git.output_or_empty(
        "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"
    )
    _, _, remote_default = remote_head.partition("/")
    if remote_default:
        is_default = branch == remote_default
    else:
        configured = git.output_or_empty("config", "init.defaultBranch")
        is_default = branch in ("", "main", "master", configured)
    return GitState(branch, commit, f"{int(committed_at or 0):012d}", is_default)


def machine_name(root: Path) -> str:
    """Return a name for this clone that reveals nothing about the clone or the machine."""
    text = f"{discovery.machine_id()} {paths.main_checkout(root)}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_NAME_DIGITS]


class SharedRows:
    """Selects the rows in an index that are shared."""

    def __init__(self, root: Path, share: Collection[Shared], privacy: Privacy) -> None:
        self.root = root
        self.share = frozenset(share)
        self._clean = RowCleaner(root, privacy)
        settings = (__version__, *sorted(self.share), *privacy.patterns, *privacy.paths)
        raw = "\n".join(map(str, settings)).encode("utf-8", "replace")
        self.rules = hashlib.sha256(raw).hexdigest()[:_NAME_DIGITS]

    def parts(self, connection: sqlite3.Connection) -> Iterator[Part]:
        """Yield the parts to share, from all sources."""
        for source in team_db.indexed_sources(connection):
            form = Format(source.format)
            if CURATED.get(form) in self.share:
                yield Part(source, source.path, form.value, Family.MEMORY)
            elif form in (Format.LOG, Format.PROGRESS):
                if source.has_journal and Shared.JOURNAL in self.share:
                    yield Part(source, source.path, Shared.JOURNAL.value, Family.JOURNAL)
                if source.has_observations and Shared.OBSERVATIONS in self.share:
                    yield Part(
                        source,
                        f"{source.path}#observations",
                        Shared.OBSERVATIONS.value,
                        Family.OBSERVATION,
                    )
                if source.has_summary and Shared.SUMMARIES in self.share:
                    yield Part(source, f"{source.path}#summary", Shared.SUMMARIES.value, None)

    def describe(self, part: Part, git: GitState) -> tuple[object, ...]:
        """Return what the server stores about a part.

        These are the parameters that follow the machine in the server's function `push`.
        """
        source = part.source
        state = git if part.family is Family.MEMORY else GitState()
        return (
            part.path,
            part.format,
            self.rules,
            source.digest,
            source.size,
            source.lines,
            *state,
        )

    def rows(self, connection: sqlite3.Connection, part: Part, line: int = 0) -> list[PushedRow]:
        """Return the rows of a part after a given line."""
        rows: list[PushedRow] = []
        if part.family is None:
            for session in team_db.summarized_sessions(connection, part.source.key):
                rows += self._session_rows(session)
            return rows
        is_redacted = part.family is Family.OBSERVATION and self._is_redacted(part.source.path)
        records = team_db.records_after(connection, part.source.key, part.family, line)
        for record, seq in records:
            clean = self._clean(record, is_redacted)
            if clean is None:
                continue
            row = _row(clean, seq)
            if _fits(row):
                rows.append(row)
        return rows

    def _is_redacted(self, name: str) -> bool:
        """Return whether hooks wrote every event in a log under the current rules.

        Each line names the rules it was written under by their digest.
        """
        mark = f'"rules": "{rules_mark(self._clean.patterns)}"'.encode()
        try:
            with files.open_regular(paths.source_path(self.root, name)) as file:
                return all(_has_mark(line, mark) for line in file)
        except (RalphError, OSError):
            return False

    def _session_rows(self, session: dict[str, str]) -> Iterator[PushedRow]:
        """Yield a row for a session, and one for its summary.

        The summary is an observation, because sessions themselves are not searched.
        """
        name = session["id"]
        members = {key: value for key, value in session.items() if key != "summary"}
        line = encode_line("session", members).rstrip("\n")
        yield PushedRow(SESSION_FAMILY, name, name, 0, line)
        record = _summary_record(session)
        clean = self._clean(record)
        if not record.text or clean is None:
            return
        row = _row(clean, 0)
        if _fits(row):
            yield row


def _has_mark(line: bytes, mark: bytes) -> bool:
    """Return whether a log line is an event with this mark, or describes the session."""
    if line.startswith(_EVENT_START):
        return mark in line[:_EVENT_HEAD_BYTES]
    return line.startswith(_SESSION_START)


def _summary_record(session: dict[str, str]) -> Record:
    """Return a session's summary as a record, without the prompt that it quotes.

    The record names the session only in `extra`. If it were an observation in the session itself,
    the observations next to it would count as its neighbours.
    """
    name = session["id"]
    lines = session["summary"].split("\n")
    ended_at = session.get("updated_at") or session.get("ended_at")
    return Record(
        ids.derived("sum", name),
        ObservationKind.NOTE,
        "\n".join(line for line in lines if not line.startswith(_GOAL)),
        Family.OBSERVATION,
        title="summary",
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=Origin("tool", task=session.get("task_id", ""), agent=session.get("host", "")),
        created_at=ended_at or session.get("started_at", ""),
        extra={"session": name},
    )


def _fits(row: PushedRow) -> bool:
    """Return whether a row is small enough for the server."""
    return (
        _has_at_most(row.body, MAX_ROW_BYTES)
        and _has_at_most(row.columns, _MAX_INDEX_BYTES)
        and _has_at_most(row.terms, _MAX_INDEX_BYTES)
    )


def _has_at_most(text: str, max_bytes: int) -> bool:
    """Return whether text fits into this many bytes, encoding it only if necessary."""
    if len(text) * _MAX_BYTES_PER_CHARACTER <= max_bytes:
        return True
    return len(text.encode()) <= max_bytes


def _row(record: Record, seq: int) -> PushedRow:
    record = replace(record, id=storable_text(record.id).replace("\0", ""))
    title, tags, text, files = search_columns(record, terms.index_terms)
    columns, levels, length = indexed_terms((text, title, tags, files), SEARCH.weights.fields)
    body = storable_text(encode_record(record).rstrip("\n"))
    session = storable_text(record.origin.session).replace("\0", "")
    return PushedRow(
        FAMILIES.index(record.family), record.id, session, seq, body, columns, levels, length
    )
