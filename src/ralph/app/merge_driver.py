"""`ralph merge-driver`: merge memory files for git, and register that in a repository.

Git starts the registered command in place of its own merge. Where Ralph is gone or fails, the same command line runs
`git merge-file`: a driver that cannot start would leave one side alone.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ralph import paths
from ralph.app.repository import Repository
from ralph.errors import Refused, Unreadable
from ralph.formats import merge as merging
from ralph.formats.merge import Merged
from ralph.store import files

ATTRIBUTES = (
    ".agent/memories.md merge=ralph",
    ".ralph/guardrails.md merge=ralph",
)
_NAME = "Ralph's memory files, by entry"
_DRIVER = (
    '"$0" merge-driver "$1" "$2" "$3" "$4"; code=$?; [ $code -le 1 ] && exit $code; '
    'exec git merge-file --marker-size="$5" "$2" "$1" "$3"'
)


@dataclass(frozen=True, slots=True)
class Registration:
    """What a registration changed: in the repository's config, and in the file of attributes."""

    config: bool
    attributes: tuple[str, ...]
    path: Path


def merge_files(base: Path, ours: Path, theirs: Path, name: str) -> Merged:
    """Merge three files as git passes them, and write the result to `ours`; Unreadable before anything is written."""
    texts = [files.read(path) for path in (base, ours, theirs)]
    if None in texts:
        raise Unreadable("a file of the merge does not exist", hint="git passes base, ours and theirs")
    first, second, third = (text or "" for text in texts)
    merged = merging.merge(name, first, second, third, merge_lines)
    files.write(ours, merged.text)
    return merged


def merge_lines(base: str, ours: str, theirs: str) -> tuple[str, int]:
    """Merge three texts by lines with `git merge-file`; return the text and the number of conflicts."""
    with TemporaryDirectory(prefix="ralph-merge-") as folder:
        names = ("ours", "base", "theirs")
        for name, text in zip(names, (ours, base, theirs), strict=True):
            files.write(Path(folder) / name, text)
        labels = [word for name in names for word in ("-L", name)]
        ran = Repository(Path(folder)).ask("merge-file", "-p", *labels, *names)
    if ran.code is None or ran.code < 0 or ran.code > 127:
        raise Refused(f"git merge-file failed: {ran.err.strip()}", hint="merge the file by hand")
    return ran.out, ran.code


def driver_command(program: str) -> str:
    """Return the command for git's config, which falls back to `git merge-file`."""
    return f"sh -c {shlex.quote(_DRIVER)} {shlex.quote(program)} %O %A %B %P %L"


def register(root: Path, program: str) -> Registration:
    """Register the driver in the repository's own config, and name the files that it merges in .gitattributes."""
    repository = Repository(root)
    if repository.top is None:
        raise Refused(f"{root}: is not in a git repository", hint="`git init` makes one")
    command = driver_command(program)
    changed = repository.answer("config", "--local", "merge.ralph.driver") != command
    for key, value in (("merge.ralph.name", _NAME), ("merge.ralph.driver", command)) if changed else ():
        ran = repository.tell("config", "--local", key, value)
        if ran.code != 0:
            raise Refused(f"git config failed: {ran.err.strip()}", hint="check the permissions of .git/config")
    path = paths.git_attributes(root)
    missing = tuple(line for line in ATTRIBUTES if line not in (files.read(path) or "").splitlines())
    if missing:
        files.update(
            path, lambda text: text + "\n" * (bool(text) and not text.endswith("\n")) + "\n".join([*missing, ""])
        )
    return Registration(changed, missing, path)
