"""`ralph merge-driver`: merge one of Ralph's files for git, by entry (`formats/merge.py`)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ralph.core.errors import Refused, Unreadable
from ralph.formats import merge as merging
from ralph.formats.merge import Merged
from ralph.storage import files

_MARKER_SIZE = 7  # of git's conflict markers


def merge_files(
    base: Path, ours: Path, theirs: Path, name: str, marker_size: int = _MARKER_SIZE
) -> Merged:
    """Merge three files as git passes them, and write the result to `ours`; Unreadable before anything is written."""
    texts = [files.read(path) for path in (base, ours, theirs)]
    if None in texts:
        raise Unreadable(
            "a file of the merge does not exist", hint="git passes base, ours and theirs"
        )
    first, second, third = (text or "" for text in texts)
    merged = merging.merge(
        name, first, second, third, partial(merge_lines, marker_size=marker_size)
    )
    files.write(ours, merged.text)
    return merged


def merge_lines(
    base: str, ours: str, theirs: str, marker_size: int = _MARKER_SIZE, *, union: bool = False
) -> tuple[str, int]:
    """Merge three texts by lines with `git merge-file`; return the text and the number of conflicts."""
    from tempfile import TemporaryDirectory  # most merges change no prose, and start no git

    from ralph.core.repository import Repository

    with TemporaryDirectory(prefix="ralph-merge-") as folder:
        names = ("ours", "base", "theirs")
        for name, text in zip(names, (ours, base, theirs), strict=True):
            files.write(Path(folder) / name, text)
        labels = [word for name in names for word in ("-L", name)]
        options = [f"--marker-size={marker_size}", *(["--union"] if union else [])]
        ran = Repository(Path(folder)).ask("merge-file", *options, *labels, *names)
        merged = files.read(
            Path(folder) / names[0]
        )  # not from its output, which may be cut or not be UTF-8
    if ran.code is None or ran.code < 0 or ran.code > 127 or merged is None:
        raise Refused(f"git merge-file failed: {ran.err.strip()}", hint="merge the file by hand")
    return merged, ran.code
