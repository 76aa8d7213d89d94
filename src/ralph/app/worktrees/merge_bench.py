"""Where a merge is made: a checkout of its own, so that the main one is touched last, and only with a whole result.

`checkout` is a worktree in the cache, on no branch; the user's own git merges there, hooks and all, and whatever
happens to it, the main checkout knows nothing of it: no conflict marks, no half merge. `land` then moves the main
checkout to the finished commit, which git does file by file; so a note is written before, and whoever comes after a
kill finishes it (`complete`) from what git knows, unless somebody has changed one of those files meanwhile: then
nothing is touched, and that is told. `tests/app/worktrees/test_merge_bench.py` kills real merges.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app.repository import Repository, first_line, listed
from ralph.errors import RalphError, Refused
from ralph.model import ids
from ralph.store import files

_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
_BATCH = 500
_FILES, _PLACES, _LINES, _WIDTH = 5, 3, 8, 200
_LOCKED = "if no git is running here, delete the lock file that git names; then run it again"


@dataclass(frozen=True, slots=True)
class Landing:
    """A finished merge on its way into the main checkout: whose it is, and the commits before and after."""

    task: str
    before: str
    after: str


# --- the checkout ------------------------------------------------------------------------------


@contextmanager
def checkout(main: Repository, state: Path, at: str) -> Iterator[Repository]:
    """A checkout of a commit that nobody else works in; it is gone afterwards, and what a killed one left, too."""
    home = paths.cache_folder(state) / "merging"
    for left in sorted(home.glob("*")):
        _remove(main, left)
    files.make_folder(home, 0o700, root=state)
    folder = home / ids.short("m")
    ran = main.tell(*_QUIET, "worktree", "add", "--quiet", "--detach", str(folder), at)
    try:
        if ran.code != 0:
            raise Refused(f"git made no checkout to merge in: {first_line(ran)}", hint="nothing was merged")
        yield Repository(folder)
    finally:
        _remove(main, folder)


def _remove(main: Repository, folder: Path) -> None:
    main.tell("worktree", "remove", "--force", "--force", str(folder))


# --- into the main checkout --------------------------------------------------------------------


def note_file(state: Path) -> Path:
    """Where it is noted that a merge is on its way into the main checkout."""
    return paths.cache_folder(state) / "landing.json"


def under_way(state: Path) -> Landing | None:
    """The merge that is on its way, or that was when its process was killed."""
    with suppress(ValueError, RalphError, KeyError, TypeError):
        said = json.loads(files.read(note_file(state)) or "")
        return Landing(str(said["task"]), str(said["before"]), str(said["after"]))
    return None


def land(main: Repository, state: Path, landing: Landing) -> None:
    """Move the main checkout on to a finished merge; Refused, and nothing changed, when git does not."""
    words = json.dumps({"task": landing.task, "before": landing.before, "after": landing.after})
    files.write(note_file(state), words + "\n", root=state, mode=files.PRIVATE)
    ran = main.tell("merge", "--ff-only", "--quiet", landing.after)
    if main.commit("HEAD") != landing.after and not _is_untouched(main, landing):
        return complete(main, state)
    files.delete(note_file(state))
    if main.commit("HEAD") != landing.after:
        raise Refused(f"nothing was merged: git says {first_line(ran)}", hint="mend that, and run it again")
    return None


def complete(main: Repository, state: Path) -> None:
    """Finish the merge that a killed process had on its way; Refused when its files were changed since."""
    landing = under_way(state)
    if landing is None:
        return
    head = main.commit("HEAD")
    if head != landing.before or not main.commit(landing.after):  # it arrived, or somebody has gone on without it
        files.delete(note_file(state))
        return
    if not _is_untouched(main, landing):
        if foreign := _foreign(main, state, landing):
            raise Refused(
                f"a merge of {landing.task} was killed while it wrote files, of which some were changed since: "
                f"{listed(foreign)}",
                hint=f"`git diff {landing.after[:12]} -- FILE` shows what; keep what is yours, then "
                f"`git checkout {landing.before[:12]} -- FILE`, delete {note_file(state)}, and run it again",
            )
        _written(main, landing)
        ran = main.tell("update-ref", "-m", f"merge {landing.task}", "HEAD", landing.after, landing.before)
        if ran.code != 0:
            raise Refused(f"git did not finish the merge of {landing.task}: {first_line(ran)}", hint=_LOCKED)
    files.delete(note_file(state))


def _is_untouched(main: Repository, landing: Landing) -> bool:
    """Whether the main checkout is as it was before, in all that the merge changes."""
    wanted = set(_changed(main, landing))
    return main.commit("HEAD") == landing.before and not wanted & {each.path for each in main.dirt()}


def _changed(main: Repository, landing: Landing) -> list[str]:
    return main.names("diff", "--name-only", "-z", "--no-renames", landing.before, landing.after)


def _foreign(main: Repository, state: Path, landing: Landing) -> list[str]:
    """The files of a merge that are neither as they were before it, nor as they should be after it.

    One that is not there is nobody's work: git takes a file away before it writes it anew.
    """
    changed = _changed(main, landing)
    before, after = (_differing(main, state, commit, changed) for commit in (landing.before, landing.after))
    return [name for name in changed if name in before & after and os.path.lexists(main.folder / name)]


def _differing(main: Repository, state: Path, commit: str, names: Sequence[str]) -> set[str]:
    """Which of these files are on the disk not as a commit has them; git compares, through an index of our own."""
    index = paths.cache_folder(state) / "landing-index"
    try:
        main.ask("read-tree", commit, index=index)
        ran = main.ask("diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", index=index)
    finally:
        files.delete(index)
    held = _entries(main, commit, names)
    there = {name for name in names if name not in held and os.path.lexists(main.folder / name)}
    return {name for name in ran.out.split("\0") if name} | there


def _entries(main: Repository, commit: str, names: Sequence[str]) -> dict[str, str]:
    """What git's lists say of these files in a commit, by name; nothing of those that it has not."""
    found: dict[str, str] = {}
    for at in range(0, len(names), _BATCH):
        out = main.ask("ls-tree", "-r", "-z", "--full-tree", commit, "--", *names[at : at + _BATCH]).out
        found |= {line.partition("\t")[2]: line for line in out.split("\0") if line}
    return found


def _written(main: Repository, landing: Landing) -> None:
    """Put the files of a merge into the index and on the disk."""
    changed = _changed(main, landing)
    kept = _entries(main, landing.after, changed)
    gone = "".join(f"0 {'0' * len(landing.after)}\t{name}\0" for name in changed if name not in kept)
    lines = "".join(f"{line}\0" for line in kept.values())
    for ran in (
        main.tell("update-index", "-z", "--index-info", stdin=gone + lines),
        main.tell("checkout-index", "--force", "-z", "--stdin", stdin="".join(f"{name}\0" for name in kept)),
    ):
        if ran.code != 0:
            raise Refused(f"git did not finish the merge of {landing.task}: {first_line(ran)}", hint=_LOCKED)
    for name in changed:
        if name not in kept:
            files.delete(main.folder / name)


# --- what both sides say -----------------------------------------------------------------------


def words_of_both(bench: Repository, names: Sequence[str], ours: str, theirs: str) -> str:
    """The places of a conflict with the words of both sides, as lines below a sentence."""
    out: list[str] = []
    for name in names[:_FILES]:
        out += _marked(bench, name, ours, theirs) or [f"{name}: {_without_marks(bench, name, ours, theirs)}"]
    return "".join(f"\n  {_plain(line)}" for line in out)


def _marked(bench: Repository, name: str, ours: str, theirs: str) -> list[str]:
    """Git's marks in a file, told with the names of the branches."""
    with suppress(RalphError):
        out: list[str] = []
        side, count, places = "", 0, 0
        for number, line in enumerate((files.read(bench.folder / name) or "").splitlines(), 1):
            if line.startswith("<<<<<<< "):
                side, count, places = ours, 0, places + 1
                out += [f"{name}:{number}:"] if places <= _PLACES else []
            elif side and line.startswith("======="):
                side, count = theirs, 0
            elif side and line.startswith(">>>>>>> "):
                side = ""
            elif side and places <= _PLACES and (count := count + 1) <= _LINES + 1:
                out.append(f"  {side}: {line}" if count <= _LINES else f"  {side}: (more)")
        return out
    return []


def _without_marks(bench: Repository, name: str, ours: str, theirs: str) -> str:
    """Why a file is in conflict that has no marks: one side has deleted it, or it is no text."""
    stages = {line.split("\t")[0].split(" ")[-1] for line in bench.names("ls-files", "-u", "-z", "--", name)}
    if {"2", "3"} <= stages:
        return "both sides have changed it, and git cannot join them"
    gone, other = (ours, theirs) if "2" not in stages else (theirs, ours)
    return f"{gone} has deleted it, {other} has changed it"


def _plain(line: str) -> str:
    """A line of somebody's file as a terminal may show it."""
    return "".join(char if char.isprintable() else " " for char in line)[:_WIDTH]
