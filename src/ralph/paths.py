"""Every path that Ralph touches, one function each, and where a project begins.

The root is found upward from the working directory: the nearest folder with a `ralph.yml`, a
`.ralph/`, an `.agent/` or a `.git` wins. In a git worktree, files that git tracks are the
worktree's own, while logs, index and cache live in the main checkout (`state_root`), so that
deleting a worktree strands nothing. Worktrees are recognised by reading git's own pointer
files: that costs no process.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from ralph.errors import UsageError

MARKERS = ("ralph.yml", ".ralph", ".agent", ".git")


def project_root(start: Path, explicit: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """The project's folder: `--root`, `$RALPH_ROOT`, `$CLAUDE_PROJECT_DIR`, else upward from `start`, else `start`."""
    env = env or {}
    named = explicit or env.get("RALPH_ROOT") or env.get("CLAUDE_PROJECT_DIR")
    if named:
        folder = Path(named)
        with contextlib.suppress(RuntimeError):  # `~name` without such a user stays as it is
            folder = folder.expanduser()
        if not folder.is_dir():
            raise UsageError(f"{named}: there is no such folder", hint="name an existing project folder as the root")
        return folder.resolve()
    start = start.resolve()
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return start


def state_root(root: Path) -> Path:
    """Where logs, index and cache live: the same place in the main checkout of a worktree, else the root itself."""
    for top in (root, *root.parents):
        pointer = top / ".git"
        if pointer.exists():
            main = _main_checkout(pointer) if pointer.is_file() else None
            return root if main is None else main / root.relative_to(top)
    return root


def _main_checkout(pointer: Path) -> Path | None:
    """The main checkout that a worktree's `.git` file leads to; None for submodules, bare ones and nonsense."""
    try:
        word, _, where = pointer.read_text(encoding="utf-8").strip().partition(": ")
        git_dir = Path(os.path.realpath(pointer.parent / where))
        common = Path(os.path.realpath(git_dir / (git_dir / "commondir").read_text(encoding="utf-8").strip()))
    except (OSError, ValueError):
        return None
    return common.parent if word == "gitdir" and common.name == ".git" else None


def memories_files(root: Path) -> tuple[Path, ...]:
    """Where memories may be; new ones go to the first that exists, else to the first."""
    return (root / ".agent" / "memories.md", root / ".ralph" / "agent" / "memories.md")


def guardrails_files(root: Path) -> tuple[Path, ...]:
    """Where guardrails may be."""
    return (root / ".ralph" / "guardrails.md", root / "guardrails.md")


def ralph_folder(root: Path) -> Path:
    """`.ralph/`: what Ralph keeps besides memories.md."""
    return root / ".ralph"


def knowledge_folder(root: Path) -> Path:
    """Knowledge entries, one file each."""
    return root / ".ralph" / "knowledge"


def global_patterns(root: Path) -> Path:
    """Patterns that tasks promoted to the whole project."""
    return root / ".ralph" / "global-patterns.md"


def scratchpad(root: Path) -> Path:
    """The working memory of the current iteration."""
    return root / ".ralph" / "scratchpad.md"


def tasks_folder(root: Path) -> Path:
    """Tasks, one folder each, in the main checkout."""
    return state_root(root) / ".ralph" / "tasks"


def features_folder(root: Path) -> Path:
    """Features, one folder each, in the main checkout."""
    return state_root(root) / ".ralph" / "features"


def log_folder(root: Path) -> Path:
    """What happened: sessions, runs and injections, in the main checkout."""
    return state_root(root) / ".ralph" / "log"


def index_file(root: Path) -> Path:
    """The SQLite index, in the main checkout; it can be deleted at any time."""
    return state_root(root) / ".ralph" / "ralph.db"


def cache_folder(root: Path) -> Path:
    """What may be thrown away but costs time to make again."""
    return state_root(root) / ".ralph" / "cache"


def progress_files(root: Path) -> tuple[Path, ...]:
    """progress.txt outside of tasks, as other tools leave it."""
    folder = root / ".ralph"
    return (root / "progress.txt", root / "scripts/ralph/progress.txt", folder / "progress.txt", folder / "progress.md")


def skills_folder(root: Path) -> Path:
    """Claude Code's own skills."""
    return root / ".claude" / "skills"


def old_skills_folder(root: Path) -> Path:
    """Where skills stood before Claude Code found them by itself."""
    return root / ".ralph" / "skills"


def config_file(root: Path) -> Path:
    """The project's settings."""
    return root / "ralph.yml"


def shown(path: Path, root: Path) -> str:
    """A path as people want to read it: relative to the root when it is inside."""
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)
