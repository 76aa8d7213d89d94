"""Select and clean the rows that a project shares with its team.

A row is a line in the log format, cleaned with the current privacy rules. It contains nothing that
is local to this machine: paths in the project become relative, the home folder becomes `~`, and
temporary files lose their names. Prompts and answers are not shared, because together they would
form a transcript. A source is shared in parts, one for each family of records.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph import __version__
from ralph.capture.observations import AGENT_CHARACTERS
from ralph.core import discovery, ids, paths, terms
from ralph.core.errors import RalphError
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.core.render import SPEECH_TITLES
from ralph.core.repository import Repository
from ralph.core.settings import Privacy, Shared
from ralph.formats.log import encode_line, encode_record
from ralph.privacy.json_values import all_texts, map_texts, redact_members
from ralph.privacy.private_paths import PrivatePaths
from ralph.privacy.redactor import Redactor
from ralph.privacy.secret_prefilter import needs_rules
from ralph.privacy.secret_rules import rules_mark
from ralph.search.scoring import STANDARD
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

_PATH_START = r"(?<![\w.~-])"
_HOME_FOLDERS = (
    _PATH_START
    + r"(?:/home/[^/\s\"'<>]+|/Users/[^/\s\"'<>]+|/root(?=/|\b)|[A-Za-z]:\\Users\\[^\\\s\"'<>]+)"
)
_TEMPORARY_NAME = r"/[^\s\"'<>:;,)\]}]*"
_TEMPORARY_FILES = (
    _PATH_START
    + r"(?:/tmp|/var/tmp|/var/folders|/private/tmp|/private/var|/dev/shm)"
    + _TEMPORARY_NAME
)
_LOCAL_MARKS = (
    "/home/",
    "/Users/",
    "/root",
    "\\Users\\",
    "/tmp/",  # noqa: S108 - the name of a folder, not of a file
    "/var/",
    "/private/",
    "/dev/shm/",  # noqa: S108 - the name of a folder, not of a file
)
"""Parts of local paths, for a quick check.

Text that names a path on this machine contains one of them, or one of this machine's folder names.
"""
_NOT_RELATIVE = ("/", "~", "(", "\\")  # how a cleaned name outside the project can start


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
        records = team_db.records_behind(connection, part.source.key, part.family, line)
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
    columns, levels, length = indexed_terms((text, title, tags, files), STANDARD.field_weights)
    body = storable_text(encode_record(record).rstrip("\n"))
    session = storable_text(record.origin.session).replace("\0", "")
    return PushedRow(
        FAMILIES.index(record.family), record.id, session, seq, body, columns, levels, length
    )


def _folders_pattern(folders: Collection[str]) -> str:
    """Return a pattern that matches folders, whose slashes may be escaped as in JSON.

    A top-level folder such as `/app` does not match within a path such as `src/app`.
    """
    if not folders:
        return "(?!)"  # matches nothing
    alternatives = []
    for folder in sorted(folders, key=len, reverse=True):
        pattern = re.escape(folder).replace("/", r"\\*/")
        if folder.count("/") < 2:
            pattern = _PATH_START + pattern
        alternatives.append(pattern)
    return rf"(?:{'|'.join(alternatives)})"


class RowCleaner:
    """Cleans records before they leave the machine, and rejects those that must not leave it."""

    def __init__(self, root: Path, privacy: Privacy) -> None:
        self.patterns = privacy.patterns
        self._private = PrivatePaths(privacy.paths) if privacy.paths else None
        self._root = os.path.realpath(root)
        folders = {
            str(root),
            self._root,
            str(paths.main_checkout(root)),
            str(paths.state_folder(root)),
        }
        home = str(Path.home())
        homes = {home, os.path.realpath(home)} - {"/", "~"}
        temporary = tempfile.gettempdir()
        folder_names = [Path(folder).name for folder in (*folders, *homes, temporary)]
        self._marks = (*_LOCAL_MARKS, *folder_names)
        project_pattern = _folders_pattern(folders)
        home_pattern = _folders_pattern(homes)
        self._paths = re.compile(
            rf"(?P<here>{project_pattern}(?:(?P<inner>\\*/)|(?P<sibling>(?=[\w-])))?)"
            rf"|(?P<home>{home_pattern}|{_HOME_FOLDERS})"
            rf"|(?P<temporary>{re.escape(temporary)}{_TEMPORARY_NAME}|{_TEMPORARY_FILES})"
        )

    def __call__(self, record: Record, is_redacted: bool = False) -> Record | None:
        """Return the record without secrets, private parts and local paths.

        Returns None if the record must not leave the machine. `is_redacted` means that it has
        already been redacted under the current rules.
        """
        if not _may_be_shared(record) or self._names_private_path(record):
            return None
        extra_texts = list(all_texts(dict(record.extra))) if record.extra else []
        needs_redaction = not is_redacted and self._may_contain_secret(record, extra_texts)
        redact = Redactor(self.patterns, tolerant=True)

        def clean(text: str) -> str:
            if needs_redaction:
                text = redact(text)
            return self.localise(text)

        # A private part may start in one text and end in a later one, so the order matters.
        origin = record.origin
        relative_files = []
        for name in origin.files:
            clean_name = clean(name)
            if clean_name and not clean_name.startswith(_NOT_RELATIVE):
                relative_files.append(clean_name)
        origin = replace(
            origin,
            files=tuple(relative_files),
            task=clean(origin.task),
            agent=clean(origin.agent),
        )
        text = clean(record.text)
        title = clean(record.title)
        label = clean(record.label)
        extra = record.extra
        has_paths = any("/" in value or "\\" in value for value in extra_texts)
        if extra and (needs_redaction or has_paths):
            value = redact_members(map_texts(dict(extra), clean), self.patterns)
            extra = value if isinstance(value, dict) else {}
        if text != record.text:
            # It held the length of the text before the tool's output, which no longer fits.
            extra = {name: value for name, value in extra.items() if name != AGENT_CHARACTERS}
        tags = tuple(map(clean, record.tags))
        return replace(
            record, title=title, text=text, tags=tags, label=label, origin=origin, extra=extra
        )

    def _names_private_path(self, record: Record) -> bool:
        if self._private is None:
            return False
        texts = (record.title, record.text, *record.tags, *record.origin.files)
        return self._private.named_in(texts, record.origin.files, self._root)

    def _may_contain_secret(self, record: Record, extra_texts: Sequence[str]) -> bool:
        """Return whether a record must be redacted. A quick check rules out most records."""
        if self.patterns:
            return True
        origin = record.origin
        texts = (record.title, record.text, *record.tags, *origin.files, *extra_texts)
        return needs_rules("\n".join((*texts, record.label, origin.task, origin.agent)))

    def localise(self, text: str) -> str:
        """Return the text with all paths on this machine replaced."""
        if not any(mark in text for mark in self._marks):
            return text
        return self._paths.sub(_localised_path, text)


def _may_be_shared(record: Record) -> bool:
    """Return whether a record is valid, belongs to the project, and is not part of a dialogue."""
    if record.status in (Status.RETIRED, Status.PROPOSED):
        return False
    if record.scope in (Scope.PERSONAL, Scope.ENCLOSING):
        return False
    return record.family is not Family.OBSERVATION or record.title not in SPEECH_TITLES


def _localised_path(match: re.Match[str]) -> str:
    """Return the replacement for a local path."""
    if match["sibling"] is not None:  # `shop2` next to `shop`
        return "../" + match["here"].rpartition("/")[2]
    if match["inner"]:
        return ""
    if match["here"]:
        return "."
    if match["home"]:
        return "~"
    return "(temporary file)"
