"""What a worktree began with, asked of git and kept for the layers below (`store/begun.py`).

A memory that a worktree lacks may have been taken out there, or never have been there: its branch may be older than the
memory, or have none of Ralph's files. Git tells the two apart: what stood in the commit where the branch and the main
checkout's parted, and stands in the worktree no more, was taken out. A file that a sparse checkout left out was not.
The list is made again when either checkout is on another commit, which is seen in git's own files without a process; so
most commands ask git nothing. Git has two seconds; what cannot be found out hides nothing.
`tests/app/worktrees/test_begun.py` deletes, edits, commits and merges with real git.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.errors import RalphError, Unreadable
from ralph.store import begun as stored
from ralph.store import files
from ralph.store.library import Library
from ralph.store.sources import Format, Placed, Source, contents, remembered

if TYPE_CHECKING:
    from ralph.app.repository import Repository

_HEADS = "heads.json"
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_GIVEN_UP = "given up"
_PATIENCE, _AGAIN = 2.0, 60.0
"""Seconds that git has for its answers, since a session may wait; and until it is asked again after it was too slow."""


def refresh(root: Path) -> None:
    """Bring the list of what a worktree began with up to date; nothing in a main checkout."""
    folders = paths.git_folders(root)
    if folders is None or not any(path.is_file() for path, _ in remembered(paths.state_root(root))):
        return
    begun, heads = paths.begun_file(root), paths.begun_file(root).with_name(_HEADS)
    with suppress(RalphError, OSError):  # a disk that cannot be written: then nothing is hidden
        stamp = json.dumps([_head(folder, folders[1]) for folder in folders] + [_sparse(folders[0])])
        if (begun.is_file() and files.read(heads) == stamp) or _is_given_up(heads):
            return
        said = _said(root)
        if said is not None and (not begun.is_file() or files.read(begun) != said):
            _write(root, begun, said)
        _write(root, heads, stamp if said is not None else f"{_GIVEN_UP} {time.time():.0f}")


def known(root: Path) -> Mapping[str, str]:
    """What a worktree began with, by id; nothing in a main checkout."""
    refresh(root)
    return stored.read(paths.begun_file(root)) if paths.state_root(root) != root else stored.NOTHING


def library(root: Path) -> Library:
    """The memory files of a project, in which a worktree knows what it has taken out."""
    refresh(root)
    return Library(root)


def mark(placed: Placed, source: Source) -> str:
    """What tells whether a record is in other words than before; of knowledge, git's own name for the page's bytes."""
    if source.format is not Format.KNOWLEDGE:
        return hashlib.sha1(placed.record.text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    payload = source.path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(payload) + payload, usedforsecurity=False).hexdigest()


def _is_given_up(heads: Path) -> bool:
    """Whether git was too slow a moment ago."""
    word, _, when = (files.read(heads) or "").rpartition(" ")
    return word == _GIVEN_UP and when.isdecimal() and 0 <= time.time() - int(when) < _AGAIN


def _write(root: Path, path: Path, text: str) -> None:
    from ralph.app.index import keep_out_of_git  # noqa: PLC0415  (the index asks this module, too)

    keep_out_of_git(root)
    files.update(path, lambda _: text, root=paths.state_root(root), mode=files.PRIVATE)


# --- what git's files say ----------------------------------------------------------------------


def _head(own: Path, common: Path) -> list[object]:
    """What changes when a checkout is on another commit: its HEAD, and its branch's file, or where that is packed."""
    head = files.read(own / "HEAD") or ""
    ref = head.removeprefix("ref: ").strip() if head.startswith("ref: ") else ""
    at = (files.read(common / ref) if ref and (common / ref).is_file() else None) if ref else head
    return [head, at] if at is not None else [head, *_stamp(common / "packed-refs"), *_stamp(common / "reftable")]


def commit_here(root: Path) -> str:
    """The commit that a worktree is on, as far as git's files say it plainly; "" elsewhere."""
    folders = paths.git_folders(root)
    at = str(_head(*folders)[1]).strip() if folders is not None else ""
    return at if _COMMIT.fullmatch(at) else ""


def _sparse(own: Path) -> list[int]:
    return _stamp(own / "info" / "sparse-checkout")


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return [0, 0]
    return [status.st_mtime_ns, status.st_size]


# --- what git says -----------------------------------------------------------------------------


def _said(root: Path) -> str | None:
    """The list; None when git does not answer in time, Unreadable when it fails."""
    from ralph.app.repository import Repository  # noqa: PLC0415  (most commands ask git nothing)

    git, above = Repository(root, _PATIENCE), Repository(paths.state_root(root), _PATIENCE)
    try:
        main = _answer(above, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        base = _answer(git, "merge-base", "HEAD", main).strip() if main else ""
        records = dict(_records(git, root, base)) if base else {}
    except Unreadable:
        if git.is_late or above.is_late:
            return None
        raise
    if git.is_late:
        return None
    return json.dumps({"commit": base, "records": records}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _answer(git: "Repository", *words: str) -> str:
    """What git says, "" where it says that there is none; Unreadable when it fails, so that nothing is noted then."""
    ran = git.ask(*words)
    if ran.code not in (0, 1) or ran.cut:
        raise Unreadable(f"{git.folder}: git does not say what the worktree began with")
    return ran.out if ran.code == 0 else ""


def _records(git: "Repository", root: Path, base: str) -> Iterator[tuple[str, str]]:
    """The ids and marks of what a commit remembers, but for files that are not to be checked out here."""
    places = {path.relative_to(root).as_posix(): form for path, form in remembered(root, "")}
    folder = paths.knowledge_folder(root).relative_to(root).as_posix()
    listed = _answer(git, "ls-tree", "-r", "-z", base, "--", *places, folder).split("\0")
    tracked = _answer(git, "ls-files", "-v", "-z", "--", *places, folder).split("\0")
    unwanted = {line[2:] for line in tracked if line[:1] in ("s", "S")}
    for line in filter(None, listed):
        head, _, name = line.partition("\t")
        if name in unwanted:
            continue
        if name not in places:
            if name.endswith(".md") and name.count("/") == folder.count("/") + 1:
                yield f"know-{Path(name).stem}", head.split()[2]
        elif (text := git.text(f"{base}:./{name}")) is not None:
            source = Source(root / name, name, places[name])
            yield from ((each.record.id, mark(each, source)) for each in contents(source, text).records)
