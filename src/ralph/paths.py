"""Every path that Ralph touches, one function each, and where a project begins.

The root is found upward from the working directory: the nearest folder with a `ralph.yml`, a
`.ralph/`, an `.agent/` or a `.git` wins. In a git worktree, files that git tracks are the
worktree's own, while logs, index and cache live in the main checkout (`state_root`), so that
deleting a worktree strands nothing. What is made of a checkout's own files (index, graph) is made for
each checkout: a worktree's lies in a folder of the main checkout's cache, by git's name for the worktree.
Worktrees are recognised by reading git's own pointer files: that costs no process. Who stands in the worktree of a
task works on that task (`task_of`); `hooks/place.py` knows it the same way.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ralph.errors import UsageError

TREES = ".worktrees"
"""The folder of a main checkout that holds the worktrees of its tasks, by their ids."""
MARKERS = ("ralph.yml", ".ralph", ".agent", ".git")
_SPECIAL = re.compile(r"[\\*?\[\] ]")
"""What git's patterns would not take as itself."""


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
    return _checkout(root)[0]


def worktree_name(root: Path) -> str:
    """What git calls the worktree that a project is in; "" where the project keeps its own state."""
    return _checkout(root)[1]


def task_of(root: Path) -> str:
    """The task in whose worktree a project is: `.worktrees/<id>` where there is such a task; "" elsewhere."""
    state, name, top = _checkout(root)
    if not name or top.parent.name != TREES:
        return ""
    known = top.name.startswith("t-") or (state / ".ralph" / "tasks" / top.name).is_dir()
    return top.name if known else ""


def worktrees(root: Path) -> dict[str, Path]:
    """The worktrees of a project's repository that are there, by git's names: the project's folder in each."""
    state = state_root(root)
    for top in (state, *state.parents):
        if (top / ".git").is_dir():
            inside = state.relative_to(top)
            own = (each for each in (top / ".git" / "worktrees").glob("*") if each.is_dir())
            return {each.name: place / inside for each in own if (place := _tree_of(each)) is not None}
        if (top / ".git").exists():
            break
    return {}


def _tree_of(own: Path) -> Path | None:
    """Where the worktree is that one of git's folders is about; None when it is gone, unless git was told to wait."""
    try:
        pointer = Path(os.path.normpath(own / (own / "gitdir").read_text(encoding="utf-8").strip()))
        return pointer.parent if pointer.is_file() or (own / "locked").exists() else None
    except (OSError, ValueError):
        return None


def _checkout(root: Path) -> tuple[Path, str, Path]:
    """Where a project's state is, git's name of the worktree that it is in, and where that begins."""
    for top in (root, *root.parents):
        pointer = top / ".git"
        if pointer.exists():
            own = _git_folder(pointer) if pointer.is_file() else None
            common = own and _common_folder(own)
            if own is None or common is None or common.name != ".git":
                break  # a main checkout, a submodule, a worktree of a bare repository, or nonsense
            return common.parent / root.relative_to(top), own.name, top
    return root, "", root


def git_folders(root: Path) -> tuple[Path, Path] | None:
    """Git's own folder of the worktree that a project is in, and the one of its repository; None elsewhere."""
    _, name, top = _checkout(root)
    own = _git_folder(top / ".git") if name else None
    common = own and _common_folder(own)
    return (own, common) if own is not None and common is not None else None


def git_exclude(path: Path) -> tuple[Path, str] | None:
    """Git's own list of what this clone ignores, and the pattern there that means this file; None outside of git."""
    for top in path.parents:
        pointer = top / ".git"
        if pointer.exists():
            own = pointer if pointer.is_dir() else _git_folder(pointer)
            common = own and (_common_folder(own) or own)
            if common is None or not (pointer.is_dir() or (common / "HEAD").is_file()):
                return None
            return common / "info" / "exclude", "/" + _SPECIAL.sub(r"\\\g<0>", path.relative_to(top).as_posix())
    return None


def _git_folder(pointer: Path) -> Path | None:
    """The folder that a `.git` file of a worktree or a submodule names."""
    try:
        word, _, where = pointer.read_text(encoding="utf-8").strip().partition(": ")
        return Path(os.path.realpath(pointer.parent / where)) if word == "gitdir" else None
    except (OSError, ValueError):
        return None


def _common_folder(own: Path) -> Path | None:
    """The folder that a worktree's own git folder shares with the main checkout."""
    try:
        return Path(os.path.realpath(own / (own / "commondir").read_text(encoding="utf-8").strip()))
    except (OSError, ValueError):
        return None


def memories_files(root: Path) -> tuple[Path, ...]:
    """Where memories may be; new ones go to the first that exists, else to the first."""
    return (root / ".agent" / "memories.md", root / ".ralph" / "agent" / "memories.md")


def guardrails_files(root: Path) -> tuple[Path, ...]:
    """Where guardrails may be."""
    return (root / ".ralph" / "guardrails.md", root / "guardrails.md")


def ralph_folder(root: Path) -> Path:
    """`.ralph/`: what Ralph keeps besides memories.md."""
    return root / ".ralph"


def memory_root(root: Path, own_files: Iterable[Path]) -> Path:
    """The checkout whose memory files count: a worktree's own or, where it has none of these, the main checkout's."""
    return root if any(map(os.path.lexists, own_files)) else state_root(root)


def knowledge_root(root: Path) -> Path:
    """The checkout whose knowledge folder counts."""
    return memory_root(root, knowledge_folder(root).glob("*.md"))


def knowledge_folder(root: Path) -> Path:
    """Knowledge entries, one file each."""
    return root / ".ralph" / "knowledge"


def global_patterns(root: Path) -> Path:
    """Patterns that tasks promoted to the whole project."""
    return root / ".ralph" / "global-patterns.md"


def patterns_file(root: Path) -> Path:
    """The global patterns that count: a worktree's own or, where it has none, the main checkout's."""
    return global_patterns(memory_root(root, [global_patterns(root)]))


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


def runs_folder(root: Path) -> Path:
    """What the runs of the loop did, in the main checkout."""
    return log_folder(root) / "runs"


def run_log(root: Path, run: str) -> Path:
    """The state and the journal of one run."""
    return runs_folder(root) / f"{run}.jsonl"


def run_folder(root: Path, run: str) -> Path:
    """What each iteration of a run was asked."""
    return runs_folder(root) / run


def run_output(root: Path, run: str) -> Path:
    """What a run printed."""
    return runs_folder(root) / f"{run}.log"


def heartbeat(root: Path, run: str) -> Path:
    """By which a run says that it lives."""
    return cache_folder(root) / "runs" / f"{run}.alive"


def stop_request(root: Path, run: str) -> Path:
    """By which somebody asks a run to stop."""
    return cache_folder(root) / "runs" / f"{run}.stop"


def index_file(root: Path) -> Path:
    """The SQLite index of a checkout, kept in the main one; it can be deleted at any time."""
    name = worktree_name(root)
    return (tree_cache(root, name) if name else ralph_folder(root)) / "ralph.db"


def graph_file(root: Path) -> Path:
    """The graph of a checkout, which is made of its index."""
    name = worktree_name(root)
    return (tree_cache(root, name) if name else cache_folder(root)) / "graph.db"


def tree_cache(root: Path, name: str) -> Path:
    """What is made of the files of one worktree, by git's name for it; in the main checkout."""
    return tree_caches(root) / name


def tree_caches(root: Path) -> Path:
    """The folder with a folder for each worktree that was ever searched."""
    return cache_folder(root) / "worktrees"


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


def claude_folder(root: Path) -> Path:
    """Claude Code's folder, which holds worktrees, too."""
    return root / ".claude"


def config_file(root: Path) -> Path:
    """The project's settings."""
    return root / "ralph.yml"


def local_config_file(root: Path) -> Path:
    """The settings of one person in this project, which git does not see."""
    return root / "ralph.local.yml"


def shell_config_file(root: Path) -> Path:
    """Settings as older loops keep them."""
    return root / ".ralph" / "config.sh"


def toml_config_file(root: Path) -> Path:
    """Settings as other loops keep them."""
    return root / ".ralph.toml"


def config_files(root: Path) -> tuple[Path, ...]:
    """Every file of the project that may hold settings; a later one wins over an earlier one."""
    return (shell_config_file(root), toml_config_file(root), config_file(root), local_config_file(root))


def settings_files(root: Path) -> tuple[Path, ...]:
    """The files whose settings count in a checkout: its own, and in a worktree what only the main checkout has.

    The branch of a worktree may be older than the project's settings, or these may not be committed, and the settings
    of one person never are. What is private is so there, too.
    """
    own, main = config_files(root), state_root(root)
    if main == root:
        return own
    if not any(map(os.path.lexists, own)):
        return config_files(main)
    return own if os.path.lexists(own[-1]) else (*own[:-1], local_config_file(main))


def user_config_file(env: Mapping[str, str]) -> Path | None:
    """The settings of one person for all projects; None when there is no home to keep them in."""
    folder = Path(env.get("XDG_CONFIG_HOME") or "")
    if not folder.is_absolute():
        folder = Path(env.get("HOME") or "", ".config")
    return folder / "ralph" / "config.yml" if folder.is_absolute() else None


def gitignore(root: Path) -> Path:
    """What git leaves out of `.ralph/`."""
    return root / ".ralph" / ".gitignore"


def written_folders(root: Path) -> tuple[Path, ...]:
    """Every folder of the project whose files Ralph writes whole, and where a killed writer may leave something."""
    places = (*memories_files(root), *guardrails_files(root), config_file(root))
    return tuple(dict.fromkeys([*(place.parent for place in places), knowledge_folder(root)]))


def is_store(folder: Path) -> bool:
    """Whether a folder is named like one that holds memories or guardrails."""
    return folder.name in (".agent", ".ralph") or (folder.name == "agent" and folder.parent.name == ".ralph")


def shown(path: Path, root: Path) -> str:
    """A path as people want to read it: relative to the root when it is inside."""
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)
