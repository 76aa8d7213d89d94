"""Every path that Ralph touches, as a function of the project's root; `discovery.py` decides where state lives.

Files that git tracks are each checkout's own. All worktrees share tasks, logs and caches.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from ralph import discovery
from ralph.errors import NotFound, Unreadable, UsageError
from ralph.model import ids

LOG = discovery.LOG
MARKERS = (*discovery.MARKERS, ".git")
_SPECIAL = re.compile(r"[\\*?\[\] ]")  # characters that a git pattern has to escape
PathOf = Callable[[Path], Path]  # a path by the project's root
_SESSION_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def project_root(
    start: Path, explicit: Path | None = None, env: Mapping[str, str] | None = None
) -> Path:
    """Return `--root` or `$RALPH_ROOT`, else the project upward from `$CLAUDE_PROJECT_DIR` or from `start`."""
    env = env or {}
    root = explicit or env.get("RALPH_ROOT")
    name = root or env.get("CLAUDE_PROJECT_DIR") or start
    folder = Path(name)
    with contextlib.suppress(RuntimeError):  # `~name` without such a user stays as it is
        folder = folder.expanduser()
    if name is not start and not folder.is_dir():
        raise UsageError(
            f"{name}: there is no such folder", hint="name an existing project folder as the root"
        )
    folder = folder.resolve()
    if root:
        return folder
    here = folder.as_posix()
    with _explain_broken_checkout():
        return Path(discovery.find_root(here) or _git_top(here) or here)


def _git_top(folder: str) -> str:
    """Return the top of the checkout around a folder; "" where the home itself is one."""
    top = discovery.find_top(folder)
    return "" if discovery.is_home(top) else top


def require_project(root: Path, *, named: bool = False) -> bool:
    """Return whether a folder becomes a project with its first file; NotFound outside git unless `named`."""
    if discovery.find_root(root.as_posix()) or any(
        map(os.path.lexists, (root / name for name in discovery.MARKERS))
    ):
        return False
    if not named and not _git_top(root.as_posix()):
        raise NotFound(
            f"{root}: is no project, and no git work tree",
            hint="`ralph init` makes this folder a project",
        )
    return True


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


def worktree_name(root: Path) -> str:
    """Return git's name for the linked worktree that a project is in; "" in a main checkout."""
    return location(root).worktree


def head_log(root: Path) -> Path | None:
    """Return the file that git writes to when the checkout comes to another commit; None outside git."""
    return Path(git, "logs", "HEAD") if (git := location(root).git) else None


def is_merging(root: Path) -> bool:
    """Return whether a merge, rebase or cherry-pick waits in this checkout."""
    git = location(root).git
    names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
    return bool(git) and any(Path(git, name).exists() for name in names)


def git_exclude(path: Path) -> tuple[Path, str] | None:
    """Return git's list of what this clone ignores, and the pattern there for a file; None outside git."""
    here = location(path.parent)
    if not here.common:
        return None
    pattern = _SPECIAL.sub(r"\\\g<0>", path.relative_to(here.top).as_posix())
    return Path(here.common, "info", "exclude"), f"/{pattern}"


def enclosing_projects(root: Path) -> tuple[Path, ...]:
    """Return the projects around a project in its checkout, the nearest first: a package is also read by the root."""
    with _explain_broken_checkout():
        return tuple(map(Path, discovery.enclosing_roots(root.as_posix())))


def source_path(root: Path, name: str) -> Path:
    """Return the file of a source by its name in the index: below `log/` or `cache/` it is in the state folder."""
    return (state_folder(root) if name.startswith((f"{LOG}/", "cache/")) else root) / name


def other_state_folders(root: Path) -> list[Path]:
    """Return the state folders of other machines; Ralph believes nothing in them."""
    own = state_folder(root)
    return [path for path in sorted(own.parent.glob("*")) if path.is_dir() and path != own]


def _located(part: Callable[[discovery.Location], str]) -> PathOf:
    return lambda root: Path(part(location(root)))


def _in_project(name: str) -> PathOf:
    return lambda root: root / name


def _several_in_project(*names: str) -> Callable[[Path], tuple[Path, ...]]:
    return lambda root: tuple(root / name for name in names)


def _below(folder: PathOf, name: str) -> PathOf:
    return lambda root: folder(root) / name


def _of_run(folder: PathOf, pattern: str) -> Callable[[Path, str], Path]:
    return lambda root, run: folder(root) / pattern.format(run)


def _of_user(kind: str, name: str) -> Callable[..., Path | None]:
    def path(env: Mapping[str, str] = os.environ) -> Path | None:
        folder = discovery.user_folder(kind, env)
        return Path(folder, name) if folder else None

    return path


main_checkout = _located(
    lambda here: here.main
)  # the project's folder there; the root itself outside worktrees
state_folder = _located(lambda here: here.state)  # logs, index, caches and ledger of this machine
_in_main = partial(_below, main_checkout)
_in_state = partial(_below, state_folder)
state_boundary = _located(
    lambda here: here.boundary
)  # no write to the state may leave it, wherever links lead
index_file = _located(
    lambda here: here.index
)  # the SQLite index of a checkout; it can be deleted at any time

memories_files = _several_in_project(
    ".agent/memories.md", ".ralph/agent/memories.md"
)  # new ones: to the first
guardrails_files = _several_in_project(".ralph/guardrails.md", "guardrails.md")
progress_files = _several_in_project(  # outside of tasks, as other tools leave it
    "progress.txt", "scripts/ralph/progress.txt", ".ralph/progress.txt", ".ralph/progress.md"
)
ralph_folder = _in_project(".ralph")  # what Ralph keeps besides memories.md
knowledge_folder = _in_project(".ralph/knowledge")  # one file an entry
global_patterns = _in_project(
    ".ralph/global-patterns.md"
)  # what tasks promoted to the whole project
scratchpad = _in_project(".ralph/scratchpad.md")  # the working memory of the current iteration
gitignore = _in_project(".ralph/.gitignore")
index_link = _in_project(
    ".ralph/ralph.db"
)  # for people with `sqlite3`; Ralph makes it and never reads it
old_skills_folder = _in_project(".ralph/skills")
claude_folder = _in_project(".claude")
skills_folder = _in_project(".claude/skills")
git_attributes = _in_project(".gitattributes")  # committed
config_file = _in_project("ralph.yml")
local_config_file = _in_project("ralph.local.yml")  # of one person; git does not see it

tasks_folder = _in_main(".ralph/tasks")  # one folder a task
features_folder = _in_main(".ralph/features")
mcp_status_file = _in_main(".ralph/cache/mcp-status.json")  # other tools look for it there

log_folder = _in_state(LOG)  # what happened: sessions, runs and injections
cache_folder = _in_state("cache")  # what can be made again, at the cost of time
tree_caches = _in_state("cache/worktrees")  # one folder a linked worktree, by git's name
slow_patterns_file = _in_state("cache/slow-patterns")  # of privacy.patterns, what took too long
runs_folder = _in_state(f"{LOG}/runs")
held_memories = _in_state(f"{LOG}/held.jsonl")  # memories that wait for a person
import_ledger = _in_state(
    f"{LOG}/imports.jsonl"
)  # which transcripts and stores were imported, and in which state
team_database = _in_state(
    "team.db"
)  # what other machines of the team shared, as the index has our own
team_pulled = _in_state("team.pulled")  # its time is that of the last pull
team_tombstones = _in_state(
    "team.forgotten"
)  # ids that no server may have; a line each, only where a team was joined
accepted_texts = _in_state(f"{LOG}/accepted")  # hashes of texts that a person wants, a line each
git_worktrees = _located(
    lambda here: f"{here.common}/worktrees"
)  # git's own folder for each linked worktree

user_config_file = _of_user("CONFIG", "config.yml")  # one person's settings for all projects
trust_file = _of_user("CONFIG", "trust.json")  # values that a project names and its user trusts
personal_memories = _of_user("CONFIG", "memories.md")
personal_accepted = _of_user("STATE", "accepted")  # hashes, as `accepted_texts` has a project's
forgotten_file = _of_user("STATE", "forgotten")  # what was forgotten, in all projects

sessions_folder = _in_state(f"{LOG}/sessions")
ledger_file = _in_state(f"{LOG}/injections.jsonl")  # what was injected, and used
hook_failures = _in_state(f"{LOG}/hook-failures")  # where failures of hooks are counted
pause_file = _in_state(f"{LOG}/paused")  # it stops the hooks, and contains the time
vectors_file = _in_state("cache/vectors.db")

run_log = _of_run(runs_folder, "{}.jsonl")  # the state and the journal
run_folder = _of_run(runs_folder, "{}")  # the prompts of the iterations
run_output = _of_run(runs_folder, "{}.log")  # what a run printed
heartbeat = _of_run(cache_folder, "runs/{}.alive")
stop_request = _of_run(cache_folder, "runs/{}.stop")


PACKED = ".jsonl.gz"
LOG_SUFFIXES = (".jsonl", PACKED)


def session_log(root: Path, session_id: str) -> Path:
    """Return the log of a session; an id with other characters than a name has is hashed."""
    name = session_id if _SESSION_NAME.fullmatch(session_id) else ids.derived("session", session_id)
    return sessions_folder(root) / f"{name}.jsonl"


def packed_log(root: Path, session_id: str) -> Path:
    """Return the compressed log of a session that was imported; hooks append to the other one."""
    log = session_log(root, session_id)
    return log.with_name(f"{log.name}.gz")


def log_files(folder: Path) -> list[Path]:
    """Return every log below a folder, compressed ones among them."""
    return sorted(path for path in folder.rglob("*.jsonl*") if path.name.endswith(LOG_SUFFIXES))


def memory_root(root: Path, own_files: Iterable[Path]) -> Path:
    """Return the checkout whose memory files count: a worktree's own, else the main checkout's."""
    return root if any(map(os.path.lexists, own_files)) else main_checkout(root)


def knowledge_root(root: Path) -> Path:
    """Return the checkout whose knowledge folder counts."""
    return memory_root(root, knowledge_folder(root).glob("*.md"))


def patterns_file(root: Path) -> Path:
    """Return the global patterns that count: a worktree's own, else the main checkout's."""
    return global_patterns(memory_root(root, [global_patterns(root)]))


def checkout_cache(root: Path) -> Path:
    """Return the folder with what was made of one checkout's files."""
    return tree_caches(root) / name if (name := worktree_name(root)) else cache_folder(root)


def graph_file(root: Path) -> Path:
    """Return the graph that is made from the index of a checkout."""
    return checkout_cache(root) / "graph.db"


def old_state(root: Path) -> tuple[Path, Path, Path]:
    """Return where earlier versions kept logs, caches and index, in the work tree of the main checkout."""
    folder = main_checkout(root) / ".ralph"
    return folder / "log", folder / "cache", folder / "ralph.db"


def has_old_state(root: Path) -> bool:
    """Return whether there is state of earlier versions; what is behind a link is not ours."""
    log, _, index = old_state(root)
    return not log.parent.is_symlink() and any(
        path.exists() and not path.is_symlink() for path in (log, index)
    )


def config_files(root: Path) -> tuple[Path, ...]:
    """Return every file of the project that may hold settings; a later one wins over an earlier one."""
    return (
        root / ".ralph" / "config.sh",
        root / ".ralph.toml",
        config_file(root),
        local_config_file(root),
    )


def settings_files(root: Path) -> tuple[Path, ...]:
    """Return the files whose settings count, in a worktree also the main checkout's local ones."""
    own = config_files(root)
    main = main_checkout(root)
    if main == root:
        return own
    if not any(map(os.path.lexists, own)):
        return config_files(main)
    return own if os.path.lexists(own[-1]) else (*own[:-1], local_config_file(main))


def write_boundary(path: Path, root: Path) -> Path | None:
    """Return the folder that no link may lead out of; None for the person's own file."""
    personal = personal_memories()
    if personal is not None and path in (personal, Path(os.path.realpath(personal))):
        return None
    if path.is_relative_to(state_folder(root)):
        return state_boundary(root)
    here = location(root)
    tops = (root, Path(here.main), Path(here.top or root))
    return next((top for top in tops if path.is_relative_to(top)), root)


def written_folders(root: Path) -> tuple[Path, ...]:
    """Return every folder of the project in which a killed writer may leave a temporary file."""
    written = (*memories_files(root), *guardrails_files(root), config_file(root))
    return tuple(dict.fromkeys([*(path.parent for path in written), knowledge_folder(root)]))


def is_store(folder: Path) -> bool:
    """Return whether a folder is named like one that holds memories or guardrails."""
    return folder.name in (".agent", ".ralph") or (
        folder.name == "agent" and folder.parent.name == ".ralph"
    )


def shown(path: Path, root: Path) -> str:
    """Return a path as people want to read it: relative to the root when it is inside."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
