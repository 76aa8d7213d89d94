"""The rows that a project shares with its team: which, cleaned by today's rules, without anything machine-local.

A row is a line of the log format. Paths of the project become relative, the home `~`; temporary files have no name.
Prompts and answers are no rows: together they would be a transcript. A source is shared in parts, one for each family.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph import __version__
from ralph.capture.pipeline import OWN
from ralph.core import discovery, ids, paths, terms
from ralph.core.errors import RalphError
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.core.render import SPEECH_TITLES
from ralph.core.repository import Repository
from ralph.core.settings import Privacy, Shared
from ralph.formats.log import encode_line, encode_record
from ralph.privacy.privacy import PrivatePaths, Redactor, all_texts, map_texts, redact_members
from ralph.privacy.secret_prefilter import needs_rules
from ralph.privacy.secret_rules import rules_mark
from ralph.search.rank import STANDARD
from ralph.storage import files, team_db
from ralph.storage.queries import FAMILIES, safe, search_columns
from ralph.storage.server_lookup import indexed_terms
from ralph.storage.sources import Format
from ralph.storage.team_db import IndexedSource
from ralph.storage.team_server import LARGEST, PushedRow

CURATED = {
    Format.MEMORIES: Shared.MEMORIES,
    Format.PATTERNS: Shared.MEMORIES,
    Format.GUARDRAILS: Shared.GUARDRAILS,
    Format.KNOWLEDGE: Shared.KNOWLEDGE,
}
"""The files of memories that may be shared; personal memory and that of enclosing projects never is."""
_GOAL = "Goal: "  # the line of a summary that quotes a prompt
_SESSION = 3  # behind the families
# how lines of a log begin
_EVENT = b'{"v": 1, "type": "event"'
_ABOUT = b'{"v": 1, "type": "session"'
_HEAD = 300
_START = r"(?<![\w.~-])"  # of a path
_LOCAL = (
    _START
    + r"(?:/home/[^/\s\"'<>]+|/Users/[^/\s\"'<>]+|/root(?=/|\b)|[A-Za-z]:\\Users\\[^\\\s\"'<>]+)"
)
_MARKS = ["/home/", "/Users/", "/root", "\\Users\\", "/tmp/", "/var/", "/private/", "/dev/shm/"]  # noqa: S108 - names of folders, not files
"""Parts of paths, one of which is in every text that names one of this machine; others are the names of its folders."""
_TEMPORARY = (
    _START + r"(?:/tmp|/var/tmp|/var/folders|/private/tmp|/private/var|/dev/shm)/[^\s\"'<>:;,)\]}]*"
)


class Part(NamedTuple):
    """A part of a source that is shared, and its family; `None` are summaries."""

    source: IndexedSource
    path: str
    format: str
    family: Family | None


class GitState(NamedTuple):
    """The commit that a checkout is at, and whether its branch is the default one."""

    branch: str = ""
    commit: str = ""
    committed_at: str = ""
    is_default: bool = True


def git_state(root: Path) -> GitState:
    """Ask git; outside of git everything is on the default branch."""
    git = Repository(root)
    commit, _, time = git.answer("log", "-1", "--format=%H %ct").partition(" ")
    branch = git.branch()
    remote = git.answer("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD").partition(
        "/"
    )[2]
    defaults = (
        (remote,) if remote else ("", "main", "master", git.answer("config", "init.defaultBranch"))
    )
    return GitState(branch, commit, f"{int(time or 0):012d}", branch in defaults)


def machine_name(root: Path) -> str:
    """Return the name of this clone on this machine, which says nothing about either."""
    text = f"{discovery.machine_id()} {paths.main_checkout(root)}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class SharedRows:
    """What of an index is shared."""

    def __init__(self, root: Path, share: Collection[Shared], privacy: Privacy) -> None:
        self.root = root
        self.share = frozenset(share)
        self._clean = RowCleaner(root, privacy)
        settings = (__version__, *sorted(self.share), *privacy.patterns, *privacy.paths)
        self.rules = hashlib.sha256(
            "\n".join(map(str, settings)).encode("utf-8", "replace")
        ).hexdigest()[:16]

    def parts(self, connection: sqlite3.Connection) -> Iterator[Part]:
        """Yield the parts of all sources that have something to share."""
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
        """Return what the server stores of a part: the first parameters of its function `push`, behind the machine."""
        source = part.source
        known = git if part.family is Family.MEMORY else GitState()
        return (
            part.path,
            part.format,
            self.rules,
            source.digest,
            source.size,
            source.lines,
            *known,
        )

    def rows(self, connection: sqlite3.Connection, part: Part, line: int = 0) -> list[PushedRow]:
        """Return the rows of a part, behind a line."""
        if part.family is None:
            sessions = team_db.summarized_sessions(connection, part.source.key)
            return [row for each in sessions for row in self._about(each)]
        records = team_db.records_behind(connection, part.source.key, part.family, line)
        is_redacted = part.family is Family.OBSERVATION and self._is_redacted(part.source.path)
        cleaned = ((self._clean(record, is_redacted), seq) for record, seq in records)
        return [
            row for clean, seq in cleaned if clean is not None and _fits(row := _row(clean, seq))
        ]

    def _is_redacted(self, name: str) -> bool:
        """Whether hooks wrote every event of a log under the rules of today: each line names them by a digest."""
        mark = f'"rules": "{rules_mark(self._clean.patterns)}"'.encode()
        with (
            suppress(RalphError, OSError),
            files.open_regular(paths.source_path(self.root, name)) as file,
        ):
            return all(
                mark in line[:_HEAD] if line.startswith(_EVENT) else line.startswith(_ABOUT)
                for line in file
            )
        return False

    def _about(self, session: dict[str, str]) -> Iterator[PushedRow]:
        """Yield a session, and its summary as an observation: sessions are not searched, observations are."""
        name = session["id"]
        lines = session.pop("summary").split("\n")
        text = "\n".join(line for line in lines if not line.startswith(_GOAL))
        yield PushedRow(_SESSION, name, name, 0, encode_line("session", session).rstrip("\n"))
        at = session.get("updated_at") or session.get("ended_at") or session.get("started_at", "")
        origin = Origin("tool", task=session.get("task_id", ""), agent=session.get("host", ""))
        record = Record(
            ids.derived("sum", name),
            ObservationKind.NOTE,
            text,
            Family.OBSERVATION,
            title="summary",
        )
        about = {
            "session": name
        }  # no observation of the session itself, whose neighbours would count
        record = replace(
            record,
            status=Status.RAW,
            scope=Scope.SESSION,
            origin=origin,
            created_at=at,
            extra=about,
        )
        clean = self._clean(record)
        if text and clean is not None and _fits(row := _row(clean, 0)):
            yield row


def _fits(row: PushedRow) -> bool:
    texts = ((row.body, LARGEST), (row.columns, 2 * LARGEST), (row.terms, 2 * LARGEST))
    return all(len(text) * 4 <= limit or len(text.encode()) <= limit for text, limit in texts)


def _row(record: Record, seq: int) -> PushedRow:
    record = replace(record, id=safe(record.id).replace("\0", ""))
    title, tags, text, files = search_columns(record, terms.index_terms)
    columns, levels, length = indexed_terms((text, title, tags, files), STANDARD.fields)
    body = safe(encode_record(record).rstrip("\n"))
    session = safe(record.origin.session).replace("\0", "")
    return PushedRow(
        FAMILIES.index(record.family), record.id, session, seq, body, columns, levels, length
    )


def _any_of(folders: Collection[str]) -> str:
    """Return a pattern for folders, also with slashes as JSON may have them; `/app` is no part of `src/app`."""
    longest_first = sorted(folders, key=len, reverse=True)
    names = (
        _START * (each.count("/") < 2) + re.escape(each).replace("/", r"\\*/")
        for each in longest_first
    )
    return rf"(?:{'|'.join(names)})" if folders else "(?!)"


class RowCleaner:
    """Makes a record fit to leave the machine; None for one that must not."""

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
        here, home_names = (_any_of(names) for names in (folders, homes))
        temporary = re.escape(tempfile.gettempdir())
        self._marks = (
            *_MARKS,
            *(Path(each).name for each in (*folders, *homes, tempfile.gettempdir())),
        )
        self._paths = re.compile(
            rf"(?P<here>{here}(?:(?P<inner>\\*/)|(?P<sibling>(?=[\w-])))?)|(?P<home>{home_names}|{_LOCAL})|"
            rf"(?P<temporary>{temporary}/[^\s\"'<>:;,)\]}}]*|{_TEMPORARY})"
        )

    def __call__(self, record: Record, is_redacted: bool = False) -> Record | None:
        """Return the record without secrets, private parts and local paths; `is_redacted`: today's rules have run."""
        if record.status in (Status.RETIRED, Status.PROPOSED) or record.scope in (
            Scope.PERSONAL,
            Scope.ENCLOSING,
        ):
            return None
        if record.family is Family.OBSERVATION and record.title in SPEECH_TITLES:
            return None
        origin = record.origin
        texts = (record.title, record.text, *record.tags, *origin.files)
        if self._private is not None and self._private.named_in(texts, origin.files, self._root):
            return None
        extra = record.extra
        inner = [*all_texts(dict(extra))] if extra else []
        joined = "\n".join((*texts, *inner, record.label, origin.task, origin.agent))
        is_plain = is_redacted or (not self.patterns and not needs_rules(joined))
        redact = Redactor(self.patterns, tolerant=True)

        def clean(text: str) -> str:
            return self.localise(text if is_plain else redact(text))

        files = tuple(
            each for name in origin.files if (each := clean(name)) and each[0] not in "/~(\\"
        )
        origin = replace(origin, files=files, task=clean(origin.task), agent=clean(origin.agent))
        text = clean(record.text)
        title = clean(record.title)
        label = clean(record.label)
        if extra and not (is_plain and not any("/" in each or "\\" in each for each in inner)):
            value = redact_members(map_texts(dict(extra), clean), self.patterns)
            extra = value if isinstance(value, dict) else {}
        if text != record.text:  # then it is no longer the size of the part before what was printed
            extra = {name: value for name, value in extra.items() if name != OWN}
        tags = tuple(map(clean, record.tags))
        return replace(
            record, title=title, text=text, tags=tags, label=label, origin=origin, extra=extra
        )

    def localise(self, text: str) -> str:
        """Return a text without paths of this machine."""
        if not any(mark in text for mark in self._marks):
            return text

        def change(match: re.Match[str]) -> str:
            if match["sibling"] is not None:  # `shop2` beside `shop`
                return "../" + match["here"].rpartition("/")[2]
            if match["here"]:
                return "" if match["inner"] else "."
            return "~" if match["home"] else "(temporary file)"

        return self._paths.sub(change, text)
