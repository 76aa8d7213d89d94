"""Merge one of Ralph's files for git, entry by entry (`ralph merge-driver`).

`formats/merge.py` merges the entries. The text between them is merged line by line with git.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ralph.core.errors import Refused, Unreadable
from ralph.formats import merge as merging
from ralph.formats.merge import Merged
from ralph.storage import files

_MARKER_SIZE = 7  # characters in one of git's conflict markers
_MAX_CONFLICTS = 127  # `git merge-file` exits with the number of conflicts, up to this


def merge_files(
    base: Path, ours: Path, theirs: Path, name: str, marker_size: int = _MARKER_SIZE
) -> Merged:
    """Merge the three files that git passes, and write the result to `ours`.

    Raises Unreadable, before anything is written, if a file is missing or cannot be read.
    """
    merged = merging.merge(
        name,
        _read(base),
        _read(ours),
        _read(theirs),
        partial(merge_lines, marker_size=marker_size),
    )
    files.write(ours, merged.text)
    return merged


def _read(path: Path) -> str:
    text = files.read(path)
    if text is None:
        raise Unreadable(
            f"{path}: there is no such file to merge",
            hint="git passes the files of the base, ours and theirs",
        )
    return text


def merge_lines(
    base: str, ours: str, theirs: str, marker_size: int = _MARKER_SIZE, *, union: bool = False
) -> tuple[str, int]:
    """Merge three strings line by line with `git merge-file`.

    Returns the merged text and the number of conflicts. With `union`, lines from both sides are
    kept instead of marking a conflict. Raises Refused if git fails.
    """
    # Imported here because most merges change no prose and do not need git.
    from tempfile import TemporaryDirectory

    from ralph.core.repository import Repository

    options = [f"--marker-size={marker_size}"]
    if union:
        options.append("--union")
    texts = {"ours": ours, "base": base, "theirs": theirs}
    with TemporaryDirectory(prefix="ralph-merge-") as folder:
        for name, text in texts.items():
            files.write(Path(folder) / name, text)
            options += ["-L", name]
        ended = Repository(Path(folder)).ask("merge-file", *options, *texts)
        # Git's output may be truncated or not be UTF-8, so read the file instead.
        merged = files.read(Path(folder) / "ours")
    if ended.code is None or not 0 <= ended.code <= _MAX_CONFLICTS or merged is None:
        raise Refused(f"git merge-file failed: {ended.err.strip()}", hint="merge the file by hand")
    return merged, ended.code
