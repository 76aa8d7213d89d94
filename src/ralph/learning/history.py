"""Show a record's history: commits that changed its lines, uncommitted changes, and the logs.

Git follows the lines of an entry (`git log -L`) back to the commit that moved them from another
section. From there the search continues in that commit's parent. The logs contribute the earlier
bodies of a knowledge entry and the number of injections. A block is an entry's lines in one version
of its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, RalphError
from ralph.core.record import WHO, Record
from ralph.core.repository import Repository, first_line, is_git_installed
from ralph.learning.promotion import unified_diff
from ralph.memory.reading import replaced_bodies
from ralph.recall import injection_ledger
from ralph.recall.locate import locate_record
from ralph.storage import files
from ralph.storage.source_contents import parse_source
from ralph.storage.sources import Format, Source, memory_files, source_names

MAX_CHANGES = 50
_MAX_DIFF_CHARACTERS = 20_000
_LOG_OPTIONS = (
    "--format=%x01%H%x00%P%x00%aI%x00%an%x00%s%x00",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
)
_COMMIT_SEPARATOR = "\x01"
_FIELD_SEPARATOR = "\0"
_DIFF_HEADERS = ("diff ", "--- ", "+++ ", "@@ ")
_NOT_COMMITTED = "not committed yet"


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit that changed an entry, with the entry's lines before and after."""

    hash: str = ""
    parent: str = ""
    at: str = ""
    author: str = ""
    subject: str = ""
    old: str = ""
    new: str = ""


class _Block(NamedTuple):
    """An entry's lines in one version of its file, and the number of the first line."""

    text: str = ""
    line: int = 0


def record_history(root: Path, record_id: str) -> dict[str, Any]:
    """Return the changes to a record, the number of injections, and a note about git.

    A deleted record can be found by its full id. Raises NotFound if no version has the id.
    """
    repository = Repository(root)
    try:
        record, name, form = locate_record(root, record_id)
    except NotFound:
        changes = _deleted_history(repository, record_id)
        return {"id": record_id, "items": changes, "note": "It was deleted."}
    source = Source(paths.source_path(root, name), name, form)
    committed = repository.text(f"HEAD:./{name}")
    before = _find_block(source, committed, record_id).text
    items: list[dict[str, Any]] = []
    if form is not Format.LOG:
        now = _find_block(source, files.read(source.path), record_id).text
        if now != before:
            at = record.updated_at or record.created_at
            commit = _Commit(at=at, author=_author_of(record), subject=_NOT_COMMITTED)
            items.append(_describe_change(name, before, now, commit))
    if before:
        items += _commits(repository, source, record_id, "HEAD")
    if form is Format.KNOWLEDGE:
        logged = list(_logged_bodies(root, record, items))
        items = [*reversed(logged), *items]
    uses = injection_ledger.count_uses(
        injection_ledger.read_ledger(root, injection_ledger.WHOLE_LEDGER)
    )
    sessions, used = uses.get(record_id, (0, 0))
    return {
        "id": record_id,
        "items": items[:MAX_CHANGES],
        "given": sessions,
        "used": used,
        "note": _describe_git_state(repository, source, committed, is_committed=bool(before)),
    }


def _describe_git_state(
    repository: Repository, source: Source, committed: str | None, *, is_committed: bool
) -> str:
    """Return why git cannot show an entry's history, or "" if it can."""
    if source.format is Format.LOG:
        return "It is stored in a log, which stays on this machine."
    if not is_git_installed():
        return "Git was not found, so earlier versions are not shown."
    if repository.top is None:
        return "This project is not in a git repository."
    if committed is None:
        options = ("--others", "--ignored", "--exclude-standard")
        if repository.output_or_empty("ls-files", *options, "--", source.name):
            return f"Git ignores {source.name}."
        return f"{source.name} is not committed yet."
    if not is_committed:
        return "It is not committed yet."
    return ""


def _logged_bodies(
    root: Path, record: Record, items: list[dict[str, Any]]
) -> Iterator[dict[str, str]]:
    """Yield the changes to a knowledge entry that only the log has, oldest first."""
    bodies = []
    for stored in replaced_bodies(root):
        if any(link.target == record.id for link in stored.record.links):
            bodies.append(stored.record)
    in_git = [item["old"] for item in items]
    following = [*bodies[1:], record]
    for body, successor in zip(bodies, following, strict=False):
        text = body.text.strip()
        if any(text in old for old in in_git):
            continue
        commit = _Commit(
            at=body.valid_until,
            author=_author_of(successor),
            subject=f"the log keeps the text before as {body.id}",
        )
        yield _describe_change(record.id, body.text, successor.text, commit)


def _author_of(record: Record) -> str:
    """Return who wrote the present text of a record: a name, `human` or `agent`, or ""."""
    author = record.extra.get(WHO) or record.origin.by or record.extra.get("by")
    if author:
        return str(author)
    if record.extra.get("run"):  # an agent reported it in a loop
        return "agent"
    return ""


def record_at(root: Path, record: Record, day: str) -> Record:
    """Return a record with the text it had on a given day, as far as git and the logs know.

    Raises NotFound if the record was created after that day.
    """
    if record.created_at[:10] > day:
        raise NotFound(
            f"{record.id} was created on {record.created_at[:10]}",
            hint=f"nothing of it is older than {day}",
        )
    items = record_history(root, record.id)["items"]
    for item in items:  # newest first
        if item["at"][:10] <= day and item["new"]:
            return replace(record, text=item["new"])
    if items and items[-1]["new"]:
        return replace(record, text=items[-1]["new"])
    return record


def was_deleted(root: Path, record_id: str) -> bool:
    """Return whether git knows a record with this full id that is no longer in any file."""
    try:
        return bool(_deleted_history(Repository(root), record_id))
    except NotFound:
        return False


# --- git ----------------------------------------------------------------------------------------


def _deleted_history(repository: Repository, record_id: str) -> list[dict[str, Any]]:
    """Return the changes to a record that is no longer in any file, starting with its deletion."""
    root = repository.folder
    name_of = source_names(root)
    for path, form in memory_files(root):
        source = Source(path, name_of(path), form)
        block = _block_at(repository, source, "HEAD", record_id)
        commit = _Commit(at=ids.today(), subject=_NOT_COMMITTED)
        parent = "HEAD"
        if not block.text:
            commit = _last_commit(repository, source, f"### {record_id}\n")
            parent = commit.parent
            block = _block_at(repository, source, parent, record_id)
        if block.text:
            deletion = _describe_change(source.name, block.text, "", commit)
            earlier = _commits(repository, source, record_id, parent)
            return [deletion, *earlier][:MAX_CHANGES]
    raise NotFound(
        f"Memory not found: {record_id}",
        hint=(
            Hint("find-record", "`ralph memory list --in all` shows the ids"),
            "a deleted one needs its full id",
        ),
    )


def _last_commit(repository: Repository, source: Source, text: str) -> _Commit:
    """Return the last commit that added or removed `text` in a file, or an empty one."""
    log = repository.ask("log", "-n1", *_LOG_OPTIONS, "-s", f"-S{text}", "--", source.name)
    entries = log.out.split(_COMMIT_SEPARATOR)[1:]
    if not entries:
        return _Commit()
    return _parse_commit(entries[0])


def _commits(
    repository: Repository, source: Source, record_id: str, start: str
) -> list[dict[str, Any]]:
    """Return the commits that changed an entry's lines, newest first."""
    items: list[dict[str, Any]] = []
    block = _block_at(repository, source, start, record_id)
    while block.text and len(items) < MAX_CHANGES:
        last_line = block.line + block.text.count("\n")
        lines = f"-L{block.line},{last_line}:{source.name}"
        log = repository.ask("log", f"-n{MAX_CHANGES}", *_LOG_OPTIONS, lines, start)
        if log.code != 0:
            raise RalphError(
                f"git failed: {first_line(log)}", hint="`git log` in this folder says more"
            )
        block = _Block()
        for entry in log.out.split(_COMMIT_SEPARATOR)[1:]:
            commit = _parse_commit(entry)
            old = commit.old
            if commit.new.startswith("### ") and not old.startswith(f"### {record_id}"):
                old = ""  # these are the lines of another entry, which this one has replaced
            if old:
                items.append(_describe_change(source.name, old, commit.new, commit))
                continue
            # The commit added these lines. Its parent may have the entry elsewhere in the file.
            block = _block_at(repository, source, commit.parent, record_id)
            item = _describe_change(source.name, block.text, commit.new, commit)
            if block.text:
                item["change"] = "moved"
                start = commit.parent
            items.append(item)
            break
    return items


def _parse_commit(entry: str) -> _Commit:
    """Parse a commit in the format given by `_LOG_OPTIONS`, and the diff that follows it."""
    name, parents, at, author, subject, rest = entry.split(_FIELD_SEPARATOR, 5)
    old = []
    new = []
    for line in rest.split("\n"):
        if not line or line.startswith(_DIFF_HEADERS):
            continue
        if line[0] in " -":
            old.append(line[1:])
        if line[0] in " +":
            new.append(line[1:])
    first_parent = parents.split(" ")[0]
    return _Commit(name, first_parent, at, author, subject, "\n".join(old), "\n".join(new))


def _block_at(repository: Repository, source: Source, revision: str, record_id: str) -> _Block:
    """Return an entry's block in a revision, or an empty block."""
    if not revision:
        return _Block()
    return _find_block(source, repository.text(f"{revision}:./{source.name}"), record_id)


def _find_block(source: Source, text: str | None, record_id: str) -> _Block:
    """Return an entry's block in one version of its file, or an empty block."""
    if not text:
        return _Block()
    try:
        entries = parse_source(source, text).entries
    except RalphError:
        return _Block()
    for entry in entries:
        if entry.record.id == record_id:
            return _Block(text[entry.start : entry.end].strip("\r\n"), entry.line)
    return _Block()


# --- changes ------------------------------------------------------------------------------------


def _describe_change(name: str, before: str, after: str, commit: _Commit) -> dict[str, str]:
    diff = unified_diff(name, _as_lines(before), _as_lines(after))
    if len(diff) > _MAX_DIFF_CHARACTERS:
        diff = diff[:_MAX_DIFF_CHARACTERS].rpartition("\n")[0] + "\n... the rest is not shown\n"
    return {
        "commit": commit.hash,
        "at": commit.at,
        "author": commit.author,
        "subject": commit.subject,
        "change": _kind_of_change(before, after),
        "old": _text_of(before),
        "new": _text_of(after),
        "diff": diff,
    }


def _as_lines(block: str) -> str:
    return f"{block}\n" if block else ""


def _kind_of_change(before: str, after: str) -> str:
    if not after:
        return "deleted"
    if not before:
        return "added"
    was_archived = "status=retired" in before
    is_archived = "status=retired" in after
    if is_archived and not was_archived:
        return "archived"
    if was_archived and not is_archived:
        return "unarchived"
    return "edited"


def _text_of(block: str) -> str:
    """Return an entry's text: the quoted lines of a memory, or the whole block otherwise."""
    if not block.startswith("### "):
        return block
    quoted = [line[1:].removeprefix(" ") for line in block.split("\n") if line.startswith(">")]
    return "\n".join(quoted)
