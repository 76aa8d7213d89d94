"""Remove records from every file, log, index and vector, down to the bytes (`ralph forget`).

Forgetting has two steps. `plan_forget` finds everything that has to be removed and changes nothing.
`forget` then edits each file under its lock and rebuilds the index, because a database keeps the
bytes of deleted rows. Whatever Ralph must not change is reported as a leftover.

The plan covers memory files (`forget_entries`), logs (`forget_logs`), other files
(`forget_leftovers`) and the records that were pulled from a team.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Hint, NotFound, Refused, UsageError
from ralph.core.record import Family
from ralph.learning import insights
from ralph.learning.forget_entries import plan_entries, remove_entries
from ralph.learning.forget_leftovers import (
    find_leftovers,
    injected_files,
    quoting_outputs,
    subagent_files,
)
from ralph.learning.forget_logs import LogFilter, plan_logs
from ralph.learning.forget_matching import (
    MAX_QUOTE_CHARACTERS,
    MIN_NEEDLE_CHARACTERS,
    normalise_words,
)
from ralph.learning.forget_plan import (
    MAX_PREVIEW_CHARACTERS,
    WHITESPACE,
    FileChange,
    ForgetPlan,
    ForgetRequest,
    ForgottenRecord,
)
from ralph.memory import held_memories
from ralph.recall import sessions
from ralph.search import index
from ralph.storage import db, files, forgotten, queries, team_db
from ralph.storage.index import PATIENCE, Progress
from ralph.storage.index_files import discard
from ralph.storage.source_contents import parse_source
from ralph.storage.sources import Format, Source, format_of
from ralph.storage.vectors import VectorCache

_BACKUP_SUFFIX = re.compile(r"\.bak\d*$")


# --- public functions ---------------------------------------------------------------------------


def plan_forget(root: Path, request: ForgetRequest) -> ForgetPlan:
    """Plan what to forget without changing anything.

    Raises UsageError unless the request selects in exactly one way, and NotFound if nothing
    matches.
    """
    _check_request(request)
    if request.session:
        request = replace(request, session=sessions.find(root, request.session).id)
    plan = index.ask(root, lambda connection: _make_plan(root, request, connection))
    if not any(plan):
        raise NotFound(
            "Nothing found that matches",
            hint=Hint("find-record", "`ralph search` and `ralph session list` show the ids"),
        )
    return plan


def _check_request(request: ForgetRequest) -> None:
    ways = (request.ids, request.session, request.before, request.matching.strip())
    given = [way for way in ways if way]
    hint = "give ids, or one of --session ID, --before WHEN, --matching TEXT"
    if not given:
        raise UsageError("say what to forget", hint=hint)
    if len(given) > 1:
        raise UsageError("more than one way to choose was given", hint=hint)


def forget(root: Path, plan: ForgetPlan, progress: Progress | None = None) -> None:
    """Carry out a plan.

    Raises Busy if another process keeps writing to the index.
    """
    digests_before = set(index.ask(root, queries.digests).values())
    team_database = paths.team_database(root)
    ids_here = [record.id for record in plan.records if record.path != team_database]
    team_db.note_forgotten(root, ids_here)
    # Hashes are stored before any file changes. If this process is killed halfway, an index that is
    # rebuilt from the remaining files leaves out everything that has these hashes.
    for_hashing: list[str] = []
    for record in plan.records:
        for_hashing += record.hashed
    forgotten.remember(for_hashing)
    if any(record.path == team_database for record in plan.records):
        # The next pull recreates the database without the forgotten records.
        discard(team_database, PATIENCE)
        files.delete(paths.team_pulled(root))
    index.discard_all(root)
    for change in plan.changes:
        _apply(root, change)
    _rebuild_index(root, progress)
    digests_after = set(index.ask(root, queries.digests).values())
    forget_vectors(root, digests_before - digests_after)


def _apply(root: Path, change: FileChange) -> None:
    files.update(change.path, change.edit, root=paths.write_boundary(change.path, root))
    with files.lock(change.path):
        text = files.read(change.path) or ""
        if change.deletes and not text.strip(WHITESPACE):
            files.delete(change.path)


def _rebuild_index(root: Path, progress: Progress | None) -> None:
    try:
        index.discard_all(root)
        index.sync(root, progress)
    except db.Busy as error:
        raise db.Busy(
            f"{paths.index_file(root)}: another process keeps writing, "
            "so it may hold what was forgotten",
            hint="the files are clean; run `ralph index sync --rebuild` when the other process has "
            "ended",
        ) from error


def forget_vectors(root: Path, digests: set[str]) -> None:
    """Remove the vectors of texts with these digests."""
    vectors = paths.vectors_file(root)
    if not digests or not vectors.exists():
        return
    with VectorCache(vectors) as cache:
        cache.forget(digests)
    db.compact(vectors)


def without_forgotten(root: Path, path: Path, text: str) -> tuple[str, int]:
    """Remove all forgotten entries from the text of a file or its backup.

    Returns the remaining text and the number of entries removed. Raises Refused if a forgotten
    entry cannot be removed.
    """
    hidden = forgotten.load()
    if not hidden.hashes:
        return text, 0
    original = path.with_name(_BACKUP_SUFFIX.sub("", path.name))
    form = format_of(root, original)
    if form is None or form is Format.TASK:
        return text, 0
    if form is Format.LOG:
        log_filter = LogFilter(path, ForgetRequest(hidden=hidden), set(), index.interpreter(root))
        after, removed = log_filter.cut(text)
        return after, len(removed)
    source = Source(original, original.name, form)
    entries = parse_source(source, text).entries
    record_ids = {entry.record.id for entry in entries if hidden.hides(entry.record)}
    if not record_ids:
        return text, 0
    after, refused = remove_entries(source, record_ids, text)
    if refused:
        reason = next(iter(refused.values()))
        raise Refused(f"{path}: has a forgotten entry: {reason}", hint="nothing was written")
    return after, len(record_ids)


# --- planning -----------------------------------------------------------------------------------


def _make_plan(root: Path, request: ForgetRequest, connection: sqlite3.Connection) -> ForgetPlan:
    record_ids = set(request.ids)
    keys: list[int] = []
    if record_ids:
        record_ids |= _earlier_versions(connection, record_ids)
        for record_id in record_ids:
            keys += queries.keys_of(connection, record_id)
    entries = plan_entries(root, record_ids, request.matching.casefold())
    if record_ids:
        waiting = _waiting_texts(root)
        _check_ids(request.ids, connection, entries, waiting)
        texts = [waiting[record_id] for record_id in record_ids if record_id in waiting]
        request = replace(request, quotes=_find_quotes(connection, keys, texts))
    logs = plan_logs(root, request, record_ids, indexed=_sources_of(connection, keys))
    changes = [
        *entries.changes,
        *logs.changes,
        *injected_files(root, request.session),
        *subagent_files(root),
    ]
    records = [*entries.records, *logs.records]
    leftovers = list(entries.leftovers)
    if record_ids or request.matching:
        changes += quoting_outputs(root, request, record_ids)
        records += _pulled_records(root, request, record_ids)
        texts_after = {change.path: change.after for change in changes}
        if record_ids:  # do not report these files a second time
            texts_after |= dict.fromkeys((leftover.path for leftover in leftovers), "")
        leftovers += find_leftovers(root, request, records, texts_after)
    return ForgetPlan(tuple(records), tuple(leftovers), tuple(changes))


def _waiting_texts(root: Path) -> dict[str, str]:
    """Return the texts of held memories and of proposals, which the index does not contain."""
    texts = {memory.id: memory.text for memory in held_memories.list_held(root)}
    for insight in insights.list_(root):
        if insight.task == insights.NO_TASK:
            texts[insight.record.id] = insight.record.text
    return texts


def _earlier_versions(connection: sqlite3.Connection, record_ids: set[str]) -> set[str]:
    """Return the ids of all retired records that were superseded by one of these records."""
    found = set[str]()
    retired = queries.records(connection, queries.retired_keys(connection))
    for record in retired.values():
        for link in record.links:
            if link.relation == "superseded_by" and link.target in record_ids:
                found.add(record.id)
    return found


def _check_ids(
    requested: Sequence[str],
    connection: sqlite3.Connection,
    entries: ForgetPlan,
    waiting: Mapping[str, str],
) -> None:
    found = {record.id for record in entries.records}
    found.update(leftover.id for leftover in entries.leftovers)
    found.update(waiting)
    missing = []
    for record_id in requested:
        if record_id not in found and not queries.keys_of(connection, record_id):
            missing.append(record_id)
    if missing:
        raise NotFound(
            f"Record not found: {', '.join(missing)}",
            hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        )


def _find_quotes(
    connection: sqlite3.Connection, keys: Sequence[int], waiting_texts: Sequence[str]
) -> tuple[str, ...]:
    """Return the beginnings of records, held memories and proposals, which others may quote."""
    texts = list(waiting_texts)
    for record in queries.records(connection, keys).values():
        if record.family is not Family.OBSERVATION:
            texts.append(record.text)
    quotes = (normalise_words(text)[:MAX_QUOTE_CHARACTERS] for text in texts)
    return tuple(quote for quote in quotes if len(quote) >= MIN_NEEDLE_CHARACTERS)


def _sources_of(connection: sqlite3.Connection, keys: Sequence[int]) -> set[str]:
    return {name for name, _ in queries.locations(connection, keys).values()}


# --- other files --------------------------------------------------------------------------------


def _pulled_records(
    root: Path, request: ForgetRequest, record_ids: set[str]
) -> Iterator[ForgottenRecord]:
    """Yield the matching records that were pulled from the team."""
    database = paths.team_database(root)
    with suppress(NotFound), team_db.read_team(database) as shared:
        for record_id, title, text in team_db.texts(shared):
            if record_id in record_ids or request.is_quoted((title, text)):
                yield ForgottenRecord(
                    path=database,
                    line=0,
                    id=record_id,
                    what="pulled",
                    text=text[:MAX_PREVIEW_CHARACTERS],
                    hashed=(text,),
                )
