"""Every path that Ralph touches, one function for each.

Where a project begins and where its state lives is decided in `discovery.py`; this module gives the same as `Path`s.
Files that git tracks are each checkout's own. Tasks and features are in the main checkout, and logs, index and caches
in the state folder, which all worktrees share.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ralph import discovery
from ralph.errors import Unreadable, UsageError
from ralph.model import ids

TREES = discovery.TREES
MARKERS = (*discovery.MARKERS, ".git")
_SPECIAL = re.compile(r"[\\*?\[\] ]")
"""Characters that a git pattern has to escape."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def project_root(start: Path, explicit: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """Return `--root` or `$RALPH_ROOT`, else the project upward from `$CLAUDE_PROJECT_DIR` or from `start`.

    Without any project there, the top of the git checkout counts, else the folder itself.
    """
    env = env or {}
    root = explicit or env.get("RALPH_ROOT")
    name = root or env.get("CLAUDE_PROJECT_DIR") or start
    folder = Path(name)
    with contextlib.suppress(RuntimeError):  # `~name` without such a user stays as it is
        folder = folder.expanduser()
    if name is not start and not folder.is_dir():
        raise UsageError(f"{name}: there is no such folder", hint="name an existing project folder as the root")
    folder = folder.resolve()
    if root:
        return folder
    here = folder.as_posix()
    with _explain_broken_checkout():
        return Path(discovery.find_root(here) or discovery.find_top(here) or here)


def location(root: Path) -> discovery.Location:
    """Return where a project's folders are; Unreadable when git's pointer files lead nowhere."""
    with _explain_broken_checkout():
        return discovery.locate(root.as_posix())


@contextlib.contextmanager
def _explain_broken_checkout() -> Iterator[None]:
    try:
        yield
    except discovery.BrokenCheckout as error:
        hint = "run `git worktree repair` in the main checkout, or remove the file if it is not a checkout any more"
        raise Unreadable(str(error), hint=hint) from error


def main_checkout(root: Path) -> Path:
    """Return the project's folder in the main checkout: the root itself unless it is in a linked worktree."""
    return Path(location(root).main)


def worktree_name(root: Path) -> str:
    """Return git's name for the linked worktree that a project is in; "" in a main checkout."""
    return location(root).worktree


def task_of(root: Path) -> str:
    """Return the id of the task in whose worktree a project is; "" elsewhere."""
    return location(root).task


def worktrees(root: Path) -> dict[str, Path]:
    """Return the project's folder in each linked worktree of its repository, by git's names."""
    return {name: Path(folder) for name, folder in discovery.worktrees(location(root)).items()}


def git_folders(root: Path) -> tuple[Path, Path] | None:
    """Return the git directories of a linked worktree and of its repository; None elsewhere."""
    here = location(root)
    return (Path(here.git), Path(here.common)) if here.worktree else None


def head_log(root: Path) -> Path | None:
    """Return the file that git writes to when the checkout comes to another commit; None outside git."""
    git = location(root).git
    return Path(git, "logs", "HEAD") if git else None


def git_exclude(path: Path) -> tuple[Path, str] | None:
    """Return git's list of what this clone ignores, and the pattern there for a file; None outside git."""
    here = location(path.parent)
    if not here.common:
        return None
    pattern = _SPECIAL.sub(r"\\\g<0>", path.relative_to(here.top).as_posix())
    return Path(here.common, "info", "exclude"), f"/{pattern}"


def state_folder(root: Path) -> Path:
    """Return the folder with logs, index, caches and ledger of this machine, shared by all worktrees."""
    return Path(location(root).state)


def state_boundary(root: Path) -> Path:
    """Return the folder that no write to the state may leave, wherever links lead."""
    return Path(location(root).boundary)


def source_path(root: Path, name: str) -> Path:
    """Return the file of a source by its name in the index: below `log/` or `cache/` it is in the state folder."""
    return (state_folder(root) if name.startswith(("log/", "cache/")) else root) / name


def other_state_folders(root: Path) -> list[Path]:
    """Return the state folders that came with a copy from other machines; Ralph believes nothing in them."""
    own = state_folder(root)
    return [path for path in sorted(own.parent.glob("*")) if path.is_dir() and path != own]


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
    return root if any(map(os.path.lexists, own_files)) else main_checkout(root)


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
    return main_checkout(root) / ".ralph" / "tasks"


def features_folder(root: Path) -> Path:
    """Features, one folder each, in the main checkout."""
    return main_checkout(root) / ".ralph" / "features"


def log_folder(root: Path) -> Path:
    """What happened: sessions, runs and injections."""
    return state_folder(root) / "log"


def session_log(root: Path, session_id: str) -> Path:
    """Return the log of a session; an id with other characters than a name has is hashed."""
    name = session_id if _SESSION_NAME.fullmatch(session_id) else ids.derived("session", session_id)
    return log_folder(root) / "sessions" / f"{name}.jsonl"


def runs_folder(root: Path) -> Path:
    """Logs of the loop's runs."""
    return log_folder(root) / "runs"


def run_log(root: Path, run: str) -> Path:
    """The state and the journal of one run."""
    return runs_folder(root) / f"{run}.jsonl"


def run_folder(root: Path, run: str) -> Path:
    """The prompts of a run's iterations."""
    return runs_folder(root) / run


def run_output(root: Path, run: str) -> Path:
    """What a run printed."""
    return runs_folder(root) / f"{run}.log"


def heartbeat(root: Path, run: str) -> Path:
    """The file that a live run keeps touching."""
    return cache_folder(root) / "runs" / f"{run}.alive"


def stop_request(root: Path, run: str) -> Path:
    """The file that asks a run to stop."""
    return cache_folder(root) / "runs" / f"{run}.stop"


def index_link(root: Path) -> Path:
    """A link to the index for people with `sqlite3`; Ralph makes it and never reads it."""
    return root / ".ralph" / "ralph.db"


def mcp_status_file(root: Path) -> Path:
    """What other MCP servers answered last, in the main checkout, where other tools look for it."""
    return main_checkout(root) / ".ralph" / "cache" / "mcp-status.json"


def old_state(root: Path) -> tuple[Path, ...]:
    """State of earlier versions, which kept it in the work tree of the main checkout."""
    folder = main_checkout(root) / ".ralph"
    return (folder / "log", folder / "cache", folder / "ralph.db")


def has_old_state(root: Path) -> bool:
    """Whether there is state of earlier versions in the work tree; what is behind a link is not ours."""
    log, _, index = old_state(root)
    own = (path for path in (log, index) if path.exists() and not path.is_symlink())
    return not log.parent.is_symlink() and any(own)


def index_file(root: Path) -> Path:
    """The SQLite index of a checkout; it can be deleted at any time."""
    return Path(location(root).index)


def graph_file(root: Path) -> Path:
    """The graph of a checkout, made from its index."""
    name = worktree_name(root)
    return (tree_cache(root, name) if name else cache_folder(root)) / "graph.db"


def tree_cache(root: Path, name: str) -> Path:
    """The caches of one linked worktree, by git's name for it."""
    return tree_caches(root) / name


def tree_caches(root: Path) -> Path:
    """The folder with the caches of each linked worktree."""
    return cache_folder(root) / "worktrees"


def cache_folder(root: Path) -> Path:
    """What can be made again, at the cost of time."""
    return state_folder(root) / "cache"


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
    own, main = config_files(root), main_checkout(root)
    if main == root:
        return own
    if not any(map(os.path.lexists, own)):
        return config_files(main)
    return own if os.path.lexists(own[-1]) else (*own[:-1], local_config_file(main))


def user_config_file(env: Mapping[str, str]) -> Path | None:
    """The settings of one person for all projects; None without a home."""
    folder = discovery.user_folder("CONFIG", env)
    return Path(folder, "config.yml") if folder else None


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
