"""The history of one record: the commits that changed its lines, what is not committed, and what the logs keep.

Git follows the lines of an entry (`git log -L`) up to a commit that moved them to another section; from there the
search goes on in the parent. The logs have the bodies that a knowledge entry had, and the injections.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app import usage
from ralph.app.json_shapes import WHO
from ralph.app.knowledge import replaced_bodies
from ralph.app.pages.detail import locate_record
from ralph.app.repository import Repository, first_line
from ralph.app.review import unified_diff
from ralph.errors import NotFound, RalphError
from ralph.model import ids
from ralph.model.record import Record
from ralph.store import files
from ralph.store.sources import Format, Source, contents, memory_files, parse_source, source_names

MAX_CHANGES = 50
_MAX_DIFF_CHARACTERS = 20_000
_LAYOUT = (
    "--format=%x01%H%x00%P%x00%aI%x00%an%x00%s%x00",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
)


def record_history(root: Path, record_id: str) -> dict[str, Any]:
    """Return the changes of a record, also of a deleted one by its full id, its injections, and a note about git."""
    repository = Repository(root)
    note = ""
    try:
        record, name, form = locate_record(root, record_id)
    except NotFound:
        return {
            "id": record_id,
            "items": _deleted(repository, record_id),
            "note": "It was deleted.",
        }
    source = Source(paths.source_path(root, name), name, form)
    items: list[dict[str, Any]] = []
    committed = repository.text(f"HEAD:./{name}")
    before = _find_block(source, committed, record_id)[0]
    if form is Format.LOG:
        note = "It is stored in a log, which stays on this machine."
    elif repository.top is None:
        note = "This project is in no git repository."
    elif committed is None:
        ignored = repository.answer(
            "ls-files", "--others", "--ignored", "--exclude-standard", "--", name
        )
        note = f"Git ignores {name}." if ignored else f"{name} is not committed yet."
    else:
        note = "" if before else "It is not committed yet."
    if form is not Format.LOG and before != (
        now := _find_block(source, files.read(source.path), record_id)[0]
    ):
        when = record.updated_at or record.created_at
        who = str(record.extra.get(WHO) or record.origin.by)
        items.append(_change(name, before, now, "", when, who, "not committed yet"))
    if before:
        items += _commits(repository, source, record_id, "HEAD")
    if form is Format.KNOWLEDGE:
        log = replaced_bodies(root)
        logged = [
            each.record
            for each in contents(Source(log, log.name, Format.LOG), files.read(log) or "").records
        ]
        old = [each for each in logged if any(link.target == record.id for link in each.links)]
        known = [one["old"] for one in items]
        for each, text in zip(
            old, [*(each.text for each in old[1:]), record.text], strict=False
        ):  # the newest first
            if not any(each.text.strip() in one for one in known):
                why = f"the log keeps the text before as {each.id}"
                items.insert(0, _change(record.id, each.text, text, "", each.valid_until, "", why))
    sessions, used = usage.count_uses(usage.read_ledger(root, usage.ALL_BYTES)).get(
        record_id, (0, 0)
    )
    return {
        "id": record_id,
        "items": items[:MAX_CHANGES],
        "injected": sessions,
        "used": used,
        "note": note,
    }


def record_at(root: Path, record: Record, day: str) -> Record:
    """Return a record with the text that it had on a day, as far as git and the logs know; NotFound before its time."""
    if record.created_at[:10] > day:
        raise NotFound(
            f"{record.id} is of {record.created_at[:10]}", hint=f"nothing of it is older than {day}"
        )
    items = record_history(root, record.id)["items"]
    known = [each for each in items if each["at"][:10] <= day and each["new"]] or items[-1:]
    return replace(record, text=known[0]["new"] if known and known[0]["new"] else record.text)


def _deleted(repository: Repository, record_id: str) -> list[dict[str, Any]]:
    root = repository.folder
    name_of = source_names(root)
    for source in (Source(path, name_of(path), form) for path, form in memory_files(root)):
        if block := _find_block(source, repository.text(f"HEAD:./{source.name}"), record_id)[0]:
            gone = _change(source.name, block, "", "", ids.today(), "", "not committed yet")
            return [gone, *_commits(repository, source, record_id, "HEAD")][:MAX_CHANGES]
        log = repository.ask(
            "log", "-n1", *_LAYOUT, "-s", f"-S### {record_id}\n", "--", source.name
        )
        commit, parents, *about = (log.out[1:].split("\0") + [""] * 5)[:5]
        parent = parents.split(" ")[0]
        before, _ = _find_block(
            source, repository.text(f"{parent}:./{source.name}") if parent else "", record_id
        )
        if before:
            gone = _change(source.name, before, "", commit, *about)
            return [gone, *_commits(repository, source, record_id, parent)][:MAX_CHANGES]
    hint = "`ralph memory list --in all` shows the ids; a deleted one needs its full id"
    raise NotFound(f"there is no record {record_id}", hint=hint)


def _commits(
    repository: Repository, source: Source, record_id: str, start: str
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    block, line = _find_block(source, repository.text(f"{start}:./{source.name}"), record_id)
    while block and len(items) < MAX_CHANGES:
        lines = f"-L{line},{line + block.count(chr(10))}:{source.name}"
        log = repository.ask("log", f"-n{MAX_CHANGES}", *_LAYOUT, lines, start)
        if log.code != 0:
            raise RalphError(
                f"git failed: {first_line(log)}", hint="`git log` in this folder says more"
            )
        block = ""
        for text in log.out.split("\x01")[1:]:
            commit, parents, at, author, subject, rest = text.split("\0", 5)
            body = [
                each
                for each in rest.split("\n")
                if each and not each.startswith(("diff ", "--- ", "+++ ", "@@ "))
            ]
            old, new = (
                "\n".join(each[1:] for each in body if each[0] in marks) for marks in (" -", " +")
            )
            if new.startswith("### ") and not old.startswith(f"### {record_id}"):
                old = ""  # of another entry, whose lines this one took
            if not old and parents:
                start = parents.split(" ")[0]
                block, line = _find_block(
                    source, repository.text(f"{start}:./{source.name}"), record_id
                )
            items.append(_change(source.name, old or block, new, commit, at, author, subject))
            if block:
                items[-1]["change"] = "moved"
            if not old:
                break
    return items


def _change(
    name: str, before: str, after: str, commit: str, at: str, author: str, subject: str
) -> dict[str, str]:
    change = "edited" if before and after else "added" if after else "deleted"
    if change == "edited" and ("status=retired" in before) != ("status=retired" in after):
        change = "archived" if "status=retired" in after else "unarchived"
    diff = unified_diff(name, f"{before}\n" if before else "", f"{after}\n" if after else "")
    if len(diff) > _MAX_DIFF_CHARACTERS:
        diff = diff[:_MAX_DIFF_CHARACTERS].rpartition("\n")[0] + "\n... the rest is not shown\n"
    about = {"commit": commit, "at": at, "author": author, "subject": subject, "change": change}
    return {**about, "old": _text_of(before), "new": _text_of(after), "diff": diff}


def _text_of(block: str) -> str:
    quote = [line[1:].removeprefix(" ") for line in block.split("\n") if line.startswith(">")]
    return "\n".join(quote) if block.startswith("### ") else block


def _find_block(source: Source, text: str | None, record_id: str) -> tuple[str, int]:
    """Return an entry as a version of its file has it, and its line; "" when it is not there."""
    try:
        entries = parse_source(source, text).entries if text else ()
    except RalphError:
        entries = ()
    entry = next((each for each in entries if each.record.id == record_id), None)
    return (
        (text[entry.start : entry.end].strip("\r\n"), entry.line)
        if entry is not None and text
        else ("", 0)
    )
