"""The hooks of a merge, which find what is installed: the merge is made in a fresh checkout, and ends as git ends one.

Decided so. A hook judges the merged files, so it cannot run in the main checkout, which is touched last; a fresh
checkout has the merged files, but nothing that git ignores, and hooks need that (node_modules, .venv, .husky/_). So
while they run, what the main checkout has and git ignores there is linked into the fresh one; the links are hidden from
git, so that a hook that adds everything does not commit them, and they go with the checkout: never what they lead to.
Git's `pre-merge-commit` runs where nothing had to be joined, then `pre-commit`, `prepare-commit-msg` and `commit-msg`
as in any commit; `post-merge` runs in the main checkout. What Ralph commits of its own memory on a task's branch runs
none: a worktree may have nothing installed, and the merge brings all of it before the hooks. `--no-verify` is git's own
word for doing without `pre-*` and `commit-msg`. `tests/app/worktrees/test_merge_hooks.py` has hooks that need ignored
files.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ralph.app.repository import Repository, first_line
from ralph.errors import RalphError, Refused
from ralph.model.work import ProcessResult
from ralph.store import files

NO_VERIFY = "--no-verify"
_OURS = {".git", ".ralph", ".worktrees", ".agent", "__pycache__"}
"""Parts of a path that are git's or Ralph's own, or made of the very files: no hook needs them of the main checkout."""
_LINES, _WIDTH = 12, 300
_SPECIAL = "\\*?[] !#"


@contextmanager
def furnished(main: Repository, bench: Repository) -> Iterator[Mapping[str, str]]:
    """A fresh checkout with what git ignores in the main one; gives the variables that hide the links from git."""
    top = bench.folder.resolve()
    linked = [name for name in _ignored(main) if _link(main.folder / name, top / name)]
    hidden = bench.folder.parent.with_name("merging-ignored")
    try:
        if not linked:
            yield {}
            return
        lines = [_excluded(main), *(f"/{_escaped(name)}" for name in linked)]
        files.write(hidden, "\n".join(lines) + "\n", mode=files.PRIVATE)
        yield _setting("core.excludesFile", str(hidden))
    finally:
        for name in linked:
            if (bench.folder / name).is_symlink():
                files.delete(bench.folder / name)
        with suppress(RalphError):
            files.delete(hidden)


def concluded(main: Repository, bench: Repository, words: str, *, is_clean: bool, verify: bool) -> None:
    """Commit the merge that is under way, unless a hook refuses it; without `verify` as git does it then."""
    with furnished(main, bench) as env:
        _concluded(bench, words, env, is_clean and verify, unverified(verify))


def _concluded(bench: Repository, words: str, env: Mapping[str, str], is_asked: bool, quiet: Sequence[str]) -> None:
    if is_asked:
        ran = bench.tell("hook", "run", "--ignore-missing", "pre-merge-commit", env=env)
        if ran.code != 0 and "is not a git command" not in ran.err:  # `git hook` came with 2.36
            raise refused(ran, "the merge", "nothing was merged")
    ran = bench.tell("commit", "--quiet", *quiet, "-m", words, env=env)
    if ran.code != 0:
        raise refused(ran, "the merge", "nothing was merged")


def refused(ran: ProcessResult, what: str, so: str) -> Refused:
    """That git, or a hook, did not commit something, with what was said about it and what can be done."""
    said = [line.rstrip()[:_WIDTH] for line in f"{ran.out}\n{ran.err}".splitlines() if line.strip()]
    why = first_line(ran)
    more = "".join(f"\n  {_plain(line)}" for line in said[-_LINES:]) if len(said) > 1 else ""
    return Refused(
        f"git did not commit {what}, and {so}: {_plain(why)}{more}",
        hint="a hook of this repository may have refused it: mend what it names in the worktree, and run it again; "
        f"{NO_VERIFY} does without hooks, as in git",
    )


def _plain(line: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in line)


# --- what is installed -------------------------------------------------------------------------


def _ignored(main: Repository) -> list[str]:
    """What git ignores in the main checkout, whole folders as one; not what is Ralph's or git's own."""
    found = main.names("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    return [name for each in found if not _OURS & set(Path(name := each.rstrip("/")).parts)]


def _link(there: Path, here: Path) -> bool:
    """Link what is there, unless the merged files have something at that place, no folder for it, or one elsewhere."""
    if os.path.lexists(here) or not here.parent.is_dir() or here.parent.resolve() != here.parent:
        return False
    with suppress(RalphError):
        files.link(here, there)
        return True
    return False


def _excluded(main: Repository) -> str:
    """What the user's own list of ignored files says, which ours stands for."""
    named = main.answer("config", "--type=path", "--get", "core.excludesFile")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", ""), ".config"))
    with suppress(RalphError):
        return files.read(Path(named) if named else home / "git" / "ignore") or ""
    return ""


def _escaped(name: str) -> str:
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in name)


def _setting(name: str, value: str) -> dict[str, str]:
    """A setting of git's for all that is started below, after those that are given so already."""
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    number = int(given) if given.isdecimal() else 0
    return {
        "GIT_CONFIG_COUNT": str(number + 1), f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value,
    }  # fmt: skip


def unverified(verify: bool) -> Sequence[str]:
    """The words that let git commit without asking the hooks."""
    return () if verify else (NO_VERIFY,)
