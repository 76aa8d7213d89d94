"""What is remembered in a worktree and not committed yet, kept a second time in the main checkout.

A worktree's memory files are the worktree's own until they are merged, so whoever deletes the folder by hand would
delete what was staged there. After every command and every iteration in a worktree the memory files that differ from
its last commit are copied to `.ralph/log/staged/<worktree>/`, readable by their owner alone, each with the text that it
began from. A worktree that is made again gets them back: as they were where nothing else has happened, else both sides'
entries; what cannot be joined is kept in `.ralph/log/rescued/` and told. The person's own index and branch are not
touched for it, and no hook runs. Only Ralph's memory files are copied, and AGENTS.md only for its marked region.
`tests/app/worktrees/test_staging.py` deletes real worktrees.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app.repository import Repository
from ralph.app.worktrees import task_union
from ralph.errors import RalphError
from ralph.formats.pages import parse_region
from ralph.store import files

PAGE = "AGENTS.md"
_SEEN = "seen.json"
NOW, BEFORE = "now", "before"


@dataclass(frozen=True, slots=True)
class Restored:
    """Memory files that a worktree got back, and those whose words could not be joined, with where they are."""

    back: tuple[str, ...] = ()
    apart: tuple[Path, ...] = ()


def folder(root: Path, name: str) -> Path:
    """Where the memory of a worktree is kept, by git's name for it."""
    return paths.log_folder(root) / "staged" / name


def names(root: Path, name: str) -> list[str]:
    """The memory files of a worktree that were not committed when they were last looked at."""
    now = folder(root, name) / NOW
    return sorted(path.relative_to(now).as_posix() for path in now.rglob("*") if path.is_file())


def left(root: Path) -> dict[str, list[str]]:
    """What is kept of worktrees that are not there any more, by git's names for them."""
    there = paths.worktrees(root)
    gone = (each.name for each in sorted((paths.log_folder(root) / "staged").glob("*")) if each.name not in there)
    return {name: found for name in gone if (found := names(root, name))}


def keep(root: Path) -> list[str]:
    """Copy the memory files of a worktree that changed since the last time; nothing elsewhere. Gives which.

    The copy of one that is gone stays: the whole folder may be going at this moment.
    """
    name = paths.worktree_name(root)
    if not name:
        return []
    home = folder(root, name)
    known = _known(home)
    found = {each.relative_to(root).as_posix(): _stamp(each) for each in _memory(root)}
    if found == known:
        return []
    changed = [each for each in found if found[each] != known.get(each)]
    for each in changed:
        _copy(root, home, each)
    _write(root, home / _SEEN, json.dumps(found, indent=1, sort_keys=True) + "\n")
    return changed


def _memory(root: Path) -> Iterator[Path]:
    """The memory files of a checkout that are there."""
    places = (*paths.memories_files(root), *paths.guardrails_files(root), paths.global_patterns(root), root / PAGE)
    for path in (*places, *sorted(paths.knowledge_folder(root).glob("*.md"))):
        if path.is_file() and not path.is_symlink():
            yield path


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_mtime_ns, status.st_size]


def _known(home: Path) -> dict[str, object]:
    with suppress(ValueError, RalphError):
        said = json.loads(files.read(home / _SEEN) or "{}")
        return said if isinstance(said, dict) else {}
    return {}


def _copy(root: Path, home: Path, name: str) -> None:
    """Copy one file, unless it says what is committed, or nothing of ours."""
    text = files.read(root / name) or ""
    before = Repository(root).text(f"HEAD:./{name}")
    if text == before or (name == PAGE and not parse_region(text).entries):
        _forget(home, name)
        return
    _write(root, home / BEFORE / name, before or "")
    _write(root, home / NOW / name, text)


def _write(root: Path, path: Path, text: str) -> None:
    files.update(path, lambda _: text, root=paths.state_root(root), mode=files.PRIVATE)


def _forget(home: Path, name: str) -> None:
    for part in (NOW, BEFORE):
        files.delete(home / part / name)


def restore(at: Path) -> Restored:
    """Put back into a worktree that was made again what was staged in it."""
    name = paths.worktree_name(at)
    home = folder(at, name)
    back: list[str] = []
    apart: list[Path] = []
    for each in names(at, name) if name else ():
        staged, before = files.read(home / NOW / each) or "", files.read(home / BEFORE / each) or ""
        there = files.read(at / each)
        joined = staged if (there or "") == before else task_union.joined(each, before, there or "", staged)
        if joined is not None and joined != there:
            files.write(at / each, joined, root=at, expect=there or "")
            back.append(each)
        elif joined is None and staged != there:
            aside = paths.log_folder(at) / "rescued" / name / each
            _write(at, aside, staged)
            apart.append(aside)
    files.delete(home / _SEEN)
    keep(at)
    return Restored(tuple(back), tuple(apart))


def discard(root: Path, name: str) -> None:
    """Forget what was kept of a worktree, because somebody agreed to lose it or because it is merged."""
    home = folder(root, name)
    for path in sorted(home.rglob("*"), reverse=True):
        if path.is_dir():
            files.remove_folder(path)
        else:
            files.delete(path)
    if home.is_dir():
        files.remove_folder(home)
