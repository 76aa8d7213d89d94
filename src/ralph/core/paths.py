"""Every path that Ralph uses, as a function of the project's root.

`discovery` decides where the state folder is. Each checkout has its own copy of the files that git
tracks, while tasks, logs and caches are shared by all worktrees.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from ralph.core import ids
from ralph.core.errors import NotFound, Unreadable, UsageError
from ralph.lean import discovery

LOG = discovery.LOG
MARKERS = (*discovery.MARKERS, ".git")
_GIT_PATTERN_CHARACTERS = r"[\\*?\[\] ]"  # must be escaped in a pattern
_BRANCH_PREFIX = "ref: refs/heads/"  # of a branch in git's file HEAD
_UNFINISHED_MERGE_FILES = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
)
PathOf = Callable[[Path], Path]  # a path as a function of the project's root
_UNPORTABLE_CHARACTERS = r'[\x00-\x1f<>:"|?*\\]'
MAX_WINDOWS_PATH = 259  # characters, unless long paths are enabled
_SESSION_NAME = r"[A-Za-z0-9_-]{1,80}"


def project_root(
    start: Path, explicit: Path | None = None, env: Mapping[str, str] | None = None
) -> Path:
    """Return the root of the project.

    It is the folder given by `explicit` (the `--root` option) or `$RALPH_ROOT`. Failing that, it is
    searched for upwards from `$CLAUDE_PROJECT_DIR` or `start`. Raises UsageError if a folder named
    by the option or a variable does not exist.
    """
    env = env or {}
    named_root = explicit or env.get("RALPH_ROOT")
    name = named_root or env.get("CLAUDE_PROJECT_DIR") or start
    folder = Path(name)
    with contextlib.suppress(RuntimeError):  # `~name` is kept if there is no such user
        folder = folder.expanduser()
    if name is not start and not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "no such folder"
        raise UsageError(f"{name}: {what}", hint="name the folder of an existing project")
    folder = folder.resolve()
    if named_root:
        return folder
    here = folder.as_posix()
    with _explain_broken_checkout():
        return Path(discovery.find_root(here) or _git_top(here) or here)


def _git_top(folder: str) -> str:
    """Return the top of the checkout that contains a folder, or "" if that is the home folder."""
    top = discovery.find_top(folder)
    if discovery.is_home(top):
        return ""
    return top


def require_project(root: Path, *, named: bool = False) -> bool:
    """Return whether a folder is not yet a project, but will become one with its first file.

    Raises NotFound for such a folder outside git, unless it was `named` explicitly.
    """
    if discovery.find_root(root.as_posix()):
        return False
    if any(os.path.lexists(root / name) for name in discovery.MARKERS):
        return False
    if not named and not _git_top(root.as_posix()):
        raise NotFound(
            f"{root} is neither a Ralph project nor a git work tree",
            hint="`ralph init` makes this folder a project",
        )
    return True


def is_set_up(root: Path) -> bool:
    """Return whether hooks treat a folder as a project: it has Ralph's files or was set up."""
    with _explain_broken_checkout():
        return discovery.find_root(root.as_posix()) == root.as_posix()


def location(root: Path) -> discovery.Location:
    """Return where a project's folders are.

    Raises Unreadable if one of git's pointer files points to nothing.
    """
    with _explain_broken_checkout():
        return discovery.locate(root.as_posix())


def is_state_outside(root: Path) -> bool:
    """Return whether the state is in the user's own folder, because the checkout is not theirs."""
    return location(root).boundary == discovery.user_folder("STATE")


def current_task(root: Path, env: Mapping[str, str]) -> str:
    """Return the current task: $RALPH_TASK if it is set, or else the worktree's task."""
    return env.get("RALPH_TASK") or location(root).task


@contextlib.contextmanager
def _explain_broken_checkout() -> Iterator[None]:
    try:
        yield
    except discovery.BrokenCheckout as error:
        hint = (
            "run `git worktree repair` in the main checkout, "
            "or remove the file if this is no longer a checkout"
        )
        raise Unreadable(str(error), hint=hint) from error


def worktree_name(root: Path) -> str:
    """Return git's name for the project's linked worktree, or "" in the main checkout."""
    return location(root).worktree


def head_log(root: Path) -> Path | None:
    """Return the file that git appends to when HEAD moves, or None outside git."""
    git = location(root).git
    if not git:
        return None
    return Path(git, "logs", "HEAD")


def current_branch(root: Path) -> str:
    """Return the branch that is checked out, or "" outside git and for a detached HEAD.

    It is read from git's own file, because starting git takes longer than a hook should.
    """
    git = location(root).git
    if not git:
        return ""
    head = discovery.read_text(f"{git}/HEAD")
    if not head.startswith(_BRANCH_PREFIX):
        return ""
    return head.removeprefix(_BRANCH_PREFIX)


def is_merging(root: Path) -> bool:
    """Return whether a merge, rebase, revert or cherry-pick is unfinished in this checkout."""
    git = location(root).git
    if not git:
        return False
    return any(Path(git, name).exists() for name in _UNFINISHED_MERGE_FILES)


def git_exclude(path: Path) -> tuple[Path, str] | None:
    """Return this clone's exclude file and the pattern that excludes `path`.

    Returns None outside git.
    """
    here = location(path.parent)
    if not here.common:
        return None
    pattern = re.sub(_GIT_PATTERN_CHARACTERS, r"\\\g<0>", path.relative_to(here.top).as_posix())
    return Path(here.common, "info", "exclude"), f"/{pattern}"


def enclosing_projects(root: Path) -> tuple[Path, ...]:
    """Return the projects in the same checkout that enclose a project, nearest first."""
    with _explain_broken_checkout():
        return tuple(map(Path, discovery.enclosing_roots(root.as_posix())))


def source_path(root: Path, name: str) -> Path:
    """Return the path of a source file, given its name in the index."""
    if name.startswith((f"{LOG}/", "cache/")):
        return state_folder(root) / name
    return root / name


def other_state_folders(root: Path) -> list[Path]:
    """Return the state folders that other machines left here, which Ralph does not trust."""
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


# --- the project and its state ------------------------------------------------------------------

# The project's folder in the main checkout. Outside worktrees, this is the root itself.
main_checkout = _located(lambda here: here.main)

# This machine's logs, index, caches and ledger.
state_folder = _located(lambda here: here.state)

# The folder outside which no state may be written, wherever symbolic links lead.
state_boundary = _located(lambda here: here.boundary)

# A checkout's SQLite index, which can be deleted at any time.
index_file = _located(lambda here: here.index)

# The folder in which git keeps one subfolder per linked worktree.
git_worktrees = _located(lambda here: f"{here.common}/worktrees")

_in_main = partial(_below, main_checkout)
_in_state = partial(_below, state_folder)

# --- files in each checkout ---------------------------------------------------------------------

# A new memory file is created at the first of these paths.
memories_files = _several_in_project(".agent/memories.md", ".ralph/agent/memories.md")
guardrails_files = _several_in_project(".ralph/guardrails.md", "guardrails.md")

# Progress files that other tools leave outside of tasks.
progress_files = _several_in_project(
    "progress.txt", "scripts/ralph/progress.txt", ".ralph/progress.txt", ".ralph/progress.md"
)

ralph_folder = _in_project(".ralph")  # all of Ralph's files except memories.md
knowledge_folder = _in_project(".ralph/knowledge")  # one file per entry
global_patterns = _in_project(".ralph/global-patterns.md")  # promoted from tasks
scratchpad = _in_project(".ralph/scratchpad.md")  # working memory of the current iteration
gitignore = _in_project(".ralph/.gitignore")
index_link = _in_project(".ralph/ralph.db")  # for people with `sqlite3`; Ralph never reads it
old_skills_folder = _in_project(".ralph/skills")
claude_folder = _in_project(".claude")
skills_folder = _in_project(".claude/skills")
git_attributes = _in_project(".gitattributes")
config_file = _in_project("ralph.yml")
local_config_file = _in_project("ralph.local.yml")  # personal; ignored by git

# --- files in the main checkout -----------------------------------------------------------------

tasks_folder = _in_main(".ralph/tasks")  # one folder per task
features_folder = _in_main(".ralph/features")
mcp_status_file = _in_main(".ralph/cache/mcp-status.json")  # where other tools expect it

# --- the state folder ---------------------------------------------------------------------------

log_folder = _in_state(LOG)  # what happened: sessions, runs and injections
sessions_folder = _in_state(discovery.SESSIONS)
runs_folder = _in_state(discovery.RUNS)
proposals_file = _in_state(f"{LOG}/proposals.jsonl")  # proposed memories that belong to no task
learn_progress = _in_state(f"{LOG}/learn.json")  # how far `ralph learn` has come
learned_file = _in_state(f"{LOG}/{discovery.LEARNED}")  # records replaced by an accepted memory
held_memories = _in_state(f"{LOG}/held.jsonl")  # memories waiting for a person
import_ledger = _in_state(f"{LOG}/imports.jsonl")  # imported transcripts and stores
kept_items = _in_state(f"{LOG}/accepted")  # hashes of review items that a person let stay
ledger_file = _in_state(f"{LOG}/injections.jsonl")  # what was injected and used
hook_failures = _in_state(f"{LOG}/hook-failures")  # counts failed hooks
pause_file = _in_state(f"{LOG}/paused")  # stops the hooks; contains the time

extracted_file = _in_state(f"{discovery.CACHE}/extracted")  # sessions searched for lessons
learn_mentioned = _in_state(f"{discovery.CACHE}/learn-mentioned")  # the day of the reminder
failures_reported = _in_state(f"{discovery.CACHE}/failures-reported")  # what the user was told
secret_check = _in_state(f"{discovery.CACHE}/secret-check.json")  # after an update of the rules
cache_folder = _in_state(discovery.CACHE)  # can be rebuilt, but that takes time
tree_caches = _in_state(discovery.TREE_CACHES)  # one folder per linked worktree, named as by git
heartbeats_folder = _in_state(discovery.HEARTBEATS)
injected_folder = _in_state(discovery.INJECTED)  # what each session was given
subagents_folder = _in_state(discovery.SUBAGENTS)  # the tasks of each session's subagents
last_good_settings = _in_state("last-good")  # copies of the config files that could be used
harmless_texts = _in_state(f"{discovery.CACHE}/harmless")  # hashes of memories judged before
slow_patterns_file = _in_state(f"{discovery.CACHE}/slow-patterns")  # patterns that timed out
catch_up_file = _in_state(f"{discovery.CACHE}/{discovery.CATCH_UP}")
vectors_file = _in_state(f"{discovery.CACHE}/vectors.db")

team_database = _in_state("team.db")  # records pulled from the team
team_pulled = _in_state("team.pulled")  # its modification time is the time of the last pull
team_failures = _in_state("team.failures")  # the latest errors of syncs, as JSON lines
team_tombstones = _in_state("team.forgotten")  # ids to delete on the server, one per line

run_log = _of_run(runs_folder, "{}.jsonl")  # the state and the journal
run_folder = _of_run(runs_folder, "{}")  # the prompt of each iteration
run_output = _of_run(runs_folder, "{}.log")  # what a run printed
heartbeat = _of_run(heartbeats_folder, "{}.alive")
stop_request = _of_run(heartbeats_folder, "{}.stop")

# --- the user's folders -------------------------------------------------------------------------

user_config_file = _of_user("CONFIG", "config.yml")  # the user's settings for all projects
trust_file = _of_user("CONFIG", "trust.json")  # project settings that the user trusts
personal_memories = _of_user("CONFIG", "memories.md")
accepted_texts = _of_user("STATE", "accepted")  # hashes of texts that a person has accepted
removed_projects = _of_user("STATE", discovery.REMOVED)
forgotten_file = _of_user("STATE", "forgotten")  # what was forgotten, across all projects


PACKED = ".jsonl.gz"
LOG_SUFFIXES = (".jsonl", PACKED)


def session_log(root: Path, session_id: str) -> Path:
    """Return the path of a session's log. An id that is not a plain name is hashed."""
    name = session_id
    if not re.fullmatch(_SESSION_NAME, session_id) or discovery.is_device_name(session_id):
        name = ids.derived("session", session_id)
    return sessions_folder(root) / f"{name}.jsonl"


def is_portable_name(name: str) -> bool:
    """Return whether a file may have this name on Windows, where a team may check it out."""
    if discovery.is_device_name(name) or name.endswith((".", " ")):
        return False
    return not re.search(_UNPORTABLE_CHARACTERS, name)


def is_too_long(path: str, platform: str = sys.platform) -> bool:
    """Return whether a path is longer than Windows allows by default."""
    return platform == "win32" and len(path) > MAX_WINDOWS_PATH


def user_folder_hint(kind: str, platform: str = sys.platform) -> str:
    """Return the hint for a user who has no folder for `kind` (CONFIG or STATE)."""
    if platform == "win32":
        variable = discovery.WINDOWS_FOLDERS[kind][0]
        return f"set USERPROFILE or {variable}"
    return f"set HOME or XDG_{kind}_HOME"


def packed_log(root: Path, session_id: str) -> Path:
    """Return the path of an imported session's compressed log.

    Hooks append to `session_log` instead.
    """
    log = session_log(root, session_id)
    return log.with_name(f"{log.name}.gz")


def log_files(folder: Path) -> list[Path]:
    """Return every log below a folder, including compressed ones."""
    return sorted(path for path in folder.rglob("*.jsonl*") if path.name.endswith(LOG_SUFFIXES))


def memory_root(root: Path, own_files: Iterable[Path]) -> Path:
    """Return the checkout whose memory files are used.

    That is the worktree if any of `own_files` exists in it, and otherwise the main checkout.
    """
    if any(os.path.lexists(path) for path in own_files):
        return root
    return main_checkout(root)


def knowledge_root(root: Path) -> Path:
    """Return the checkout whose knowledge folder is used."""
    return memory_root(root, knowledge_folder(root).glob("*.md"))


def curated_files(root: Path) -> tuple[Path, ...]:
    """Return the files in which people curate memories and guardrails."""
    return (*memories_files(root), *guardrails_files(root))


def patterns_file(root: Path) -> Path:
    """Return the global patterns file to use, from the worktree or else the main checkout."""
    return global_patterns(memory_root(root, [global_patterns(root)]))


def checkout_cache(root: Path) -> Path:
    """Return the folder for caches derived from this checkout's files."""
    worktree = worktree_name(root)
    if worktree:
        return tree_caches(root) / worktree
    return cache_folder(root)


def graph_file(root: Path) -> Path:
    """Return the path of the graph database derived from a checkout's index."""
    return checkout_cache(root) / "graph.db"


def old_state(root: Path) -> tuple[Path, Path, Path]:
    """Return where earlier versions kept the log, the cache and the index.

    All three were in the main work tree.
    """
    folder = main_checkout(root) / ".ralph"
    return folder / "log", folder / "cache", folder / "ralph.db"


def has_old_state(root: Path) -> bool:
    """Return whether an earlier version left state behind.

    Symbolic links are ignored, because Ralph did not create them.
    """
    log, _, index = old_state(root)
    if log.parent.is_symlink():
        return False
    return any(os.path.lexists(path) and not path.is_symlink() for path in (log, index))


def config_files(root: Path) -> tuple[Path, ...]:
    """Return every project file that may hold settings. A later file overrides an earlier one."""
    return tuple(root / name for name in discovery.CONFIG_FILES)


def settings_files(root: Path) -> tuple[Path, ...]:
    """Return the files whose settings are used.

    A worktree without any settings uses those of the main checkout. One that only lacks a local
    file uses the main checkout's local file.
    """
    files = config_files(root)
    main = main_checkout(root)
    if main == root:
        return files
    if not any(os.path.lexists(path) for path in files):
        return config_files(main)
    *shared_files, local_file = files
    if not os.path.lexists(local_file):
        local_file = local_config_file(main)
    return (*shared_files, local_file)


def write_boundary(path: Path, root: Path) -> Path | None:
    """Return the folder that a write to `path` must stay in, wherever symbolic links lead.

    Returns None for a file of the user.
    """
    for personal in (personal_memories(), accepted_texts()):
        if personal is not None and path in (personal, Path(os.path.realpath(personal))):
            return None
    if path.is_relative_to(state_folder(root)):
        return state_boundary(root)
    here = location(root)
    for top in (root, Path(here.main), Path(here.top or root)):
        if path.is_relative_to(top):
            return top
    return root


def written_folders(root: Path) -> tuple[Path, ...]:
    """Return every project folder in which a killed process may have left a temporary file."""
    written = (*memories_files(root), *guardrails_files(root), config_file(root))
    folders = [path.parent for path in written]
    folders.append(knowledge_folder(root))
    return tuple(dict.fromkeys(folders))


def is_store(folder: Path) -> bool:
    """Return whether a folder is named like one that holds memories or guardrails."""
    if folder.name in (".agent", ".ralph"):
        return True
    return folder.name == "agent" and folder.parent.name == ".ralph"


def shown(path: Path, root: Path) -> str:
    """Format a path for messages, relative to the root if it is inside."""
    if path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)
