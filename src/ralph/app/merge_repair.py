"""Find what a merge by lines left in Ralph's files, and what the merge by entry makes of it, for `ralph doctor --fix`.

An open merge is read from the index's three stages, a committed one from its parents. A committed file counts as
damaged where it has conflict markers, doubled entries, or just what git's union of both sides gives.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app.merge_driver import merge_lines
from ralph.app.merge_registration import ATTRIBUTES
from ralph.app.repository import Repository
from ralph.formats.merge import can_merge, merge
from ralph.store import files

_ENTRY = re.compile(r"^### (\S+-\d+-\w+)$", re.MULTILINE)
_MARKER = re.compile("^<<<<<<< ", re.MULTILINE)
_MARKERS = re.compile(r"^(?:[<>]{7} .*|\|{7}.*\n(?:(?!={7}$).*\n)*={7}|={7})\n", re.MULTILINE)


class MergeDamage(NamedTuple):
    """A damaged file and its text by entry; `is_settled`: of an open merge, without a conflict."""

    path: Path
    what: str
    text: str
    is_settled: bool


def find_damage(root: Path) -> Iterator[MergeDamage]:
    """Yield each file that the merge by entry would change, with its text after it."""
    if not paths.location(root).common:
        return
    repository = Repository(root)
    unmerged = {line.partition("\t")[2] for line in repository.names("ls-files", "-u", "-z")}
    for name in filter(can_merge, sorted(unmerged)):
        versions, current = [repository.text(f":{stage}:./{name}") for stage in (1, 2, 3)], files.read(root / name)
        if None not in versions[1:] and current is not None and _MARKER.search(current):
            merged = merge(name, versions[0] or "", versions[1] or "", versions[2] or "", merge_lines)
            if merged.text != current and "\ufffd" not in merged.text:
                yield MergeDamage(root / name, "conflict markers of an open merge", merged.text, not merged.conflicts)
    tracked = [*paths.memories_files(root), *paths.guardrails_files(root), paths.global_patterns(root)]
    both = "log --merges -n 20 -c --name-only --format= -z --relative".split()  # what differs from both sides
    folder = paths.knowledge_folder(root)
    knowledge = sorted({root / name for name in repository.names(*both, "--", str(folder)) if can_merge(name)})
    for path in (*tracked, root / "AGENTS.md", root / "CLAUDE.md", *knowledge):
        name = path.relative_to(root).as_posix()
        text = _repaired(repository, name, files.read(path)) if name not in unmerged and path.is_file() else None
        if text is not None:
            yield MergeDamage(path, "entries that a merge by lines doubled, stripped or brought back", text, False)


def find_unions(root: Path) -> list[str]:
    """Return the files of Ralph for which git's attributes say `merge=union`, by their names in the project."""
    names = [name for name in (line.split()[0].lstrip("/").replace("*", "x") for line in ATTRIBUTES) if can_merge(name)]
    found = Repository(root).names("check-attr", "-z", "merge", "--", *names) if paths.location(root).common else []
    return [name.replace("/x", "/*") for name, value in zip(found[::3], found[2::3], strict=True) if value == "union"]


def repair(root: Path, damage: MergeDamage) -> None:
    """Write the merged text; a file without conflicts is marked as resolved in git."""
    files.write(damage.path, damage.text, root=root)
    if damage.is_settled:
        Repository(root).tell("add", "--", f":(literal){damage.path.relative_to(root).as_posix()}")


def _repaired(repository: Repository, name: str, current: str | None) -> str | None:
    """Return a file as it would be after its last merge by entry, with later edits; None where nothing is wrong."""
    commits = repository.answer("rev-list", "--merges", "--parents", "-n", "1", "HEAD", "--", name).split()
    if len(commits) != 3 or current is None:
        return None
    base = repository.answer("merge-base", *commits[1:])
    texts = [repository.text(f"{commit}:./{name}") if commit else "" for commit in (base, *commits[1:], commits[0])]
    before, one, two, result = (text or "" for text in texts)
    merged = merge(name, before, one, two, merge_lines)
    if merged.conflicts and "/knowledge/" in name:  # its body keeps the lines of both sides
        merged = merge(name, before, one, two, lambda *each: merge_lines(*each, union=not each[0].startswith("---")))
    if None in texts[1:] or merged.conflicts or merged.text == result or "\ufffd" in f"{result}{merged.text}{current}":
        return None
    entries = _ENTRY.findall(result)
    is_union = result == merge_lines(before, one, two, union=True)[0]
    if not is_union and not _MARKER.search(result) and len(entries) == len(set(entries)):
        return None
    text, conflicts = (merged.text, 0) if current == result else merge_lines(result, current, merged.text)
    if conflicts and _MARKER.search(current):
        text, conflicts, _ = merge(name, _MARKERS.sub("", result), _MARKERS.sub("", current), merged.text, merge_lines)
    return None if conflicts or text == current else text
