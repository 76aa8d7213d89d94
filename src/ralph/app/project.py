"""`ralph init`: the files and folders of a project, and moving what earlier versions kept elsewhere.

It makes what is missing and touches nothing that is there, so it can run again at any time. Skills that older loops
kept in `.ralph/skills/` move to where Claude Code finds them. Nothing is made or moved outside of the project, wherever
its links lead; only a worktree's tasks are in the main checkout, below a `.gitignore` that hides itself there.
"""

from pathlib import Path

from ralph import paths
from ralph.app.config import hide_from_git, template
from ralph.app.repository import Repository
from ralph.errors import Refused
from ralph.formats.memories import GUARDRAILS, MEMORIES
from ralph.formats.pages import patterns_template
from ralph.store import files
from ralph.store.files import GITIGNORE, UNTIL_INIT, missing_lines
from ralph.store.library import Collection, check_folders


def init(root: Path) -> list[str]:
    """Make what is missing; one line for each thing that was done."""
    done: list[str] = []
    own_files = ((paths.memories_files(root), MEMORIES), (paths.guardrails_files(root), GUARDRAILS))
    for places, layout in own_files:  # a worktree gets files of its own
        done += _made(root, Collection(layout.title, root, places, layout).home, layout.template())
    done += _gitignores(root)
    done += _made(root, paths.global_patterns(root), patterns_template())
    done += _made(root, paths.config_file(root), template())
    done += _made_folder(paths.knowledge_folder(root), root)
    done += _made_folder(paths.tasks_folder(root), root, within=paths.main_checkout(root))
    hidden = hide_from_git(paths.local_config_file(root), root)
    return done + _what_git_sees(root) + _skills(root) + ([hidden] if hidden else [])


def _made(root: Path, path: Path, text: str, *, within: Path | None = None) -> list[str]:
    check_folders(path, root)
    if path.is_symlink() and not path.exists():
        gone = f"a symbolic link to {path.readlink()}, which does not exist"
        return [f"left {paths.shown(path, root)}: {gone}; restore the target or remove the link, and run again"]
    if path.exists():
        return []
    files.write(path, text, root=within or root, expect="")
    return [f"made {paths.shown(path, root)}"]


def _made_folder(path: Path, root: Path, *, within: Path | None = None) -> list[str]:
    return [f"made {paths.shown(path, root)}/"] if files.make_folder(path, root=within or root) else []


def _what_git_sees(root: Path) -> list[str]:
    missing = missing_lines(root)
    if not missing:
        return []
    where = paths.shown(paths.gitignore(root), root)
    return [f"left {where} as it is: git does not ignore {', '.join(missing)}; add these lines to it"]


def _gitignores(root: Path) -> list[str]:
    own, state = paths.gitignore(root), paths.main_checkout(root)
    if state != root:
        return _made(root, own, GITIGNORE) + _made(root, paths.gitignore(state), UNTIL_INIT, within=state)
    if files.read(own) == UNTIL_INIT:
        files.write(own, GITIGNORE, root=root, expect=UNTIL_INIT)
        return [f"made {paths.shown(own, root)} one that git sees"]
    return _made(root, own, GITIGNORE)


def move_old_state(root: Path) -> list[str]:
    """Move logs and caches of earlier versions out of the work tree; one line for each thing that was moved.

    What git tracks came with the repository and was not written here: it is left alone and never read. Without git
    there is no telling, so the logs count as those of another machine until `ralph trust`.
    """
    log, cache, index = paths.old_state(root)
    if not paths.has_old_state(root):
        return []
    main = paths.main_checkout(root)
    if Repository(main).answer("ls-files", "--", ".ralph/log", ".ralph/cache", ".ralph/ralph.db"):
        return []
    own = paths.state_folder(root)
    state = own if paths.location(root).common else own.with_name("earlier")
    with files.lock(index):
        if not index.is_symlink():
            for path in (index, *index.parent.glob("ralph.db-*")):
                files.delete(path)
        _move_into(log, state / "log")
        _move_into(cache, state / "cache", skip=paths.mcp_status_file(root))
    note = "" if state == own else "; `ralph trust` makes its logs count"
    return [f"moved logs and caches from {paths.shown(log.parent, root)} to {paths.shown(state, root)}{note}"]


def _move_into(old: Path, new: Path, skip: Path | None = None) -> None:
    """Move a folder, or file by file where the new one exists; of a file that is in both, the old text goes first."""
    if not old.is_dir() or old.is_symlink():
        return
    if skip is None and not new.exists():
        files.move(old, new)
        return
    for path in sorted(old.iterdir()):
        target = new / path.name
        if path == skip:
            continue
        if path.is_dir() and not path.is_symlink():
            _move_into(path, target)
        elif not target.exists():
            files.move(path, target)
        elif path.suffix == ".jsonl":
            text = files.read(path) or ""
            files.update(target, text.__add__)
            files.delete(path)
        else:
            files.delete(path)
    if not any(old.iterdir()):
        files.remove_folder(old)


def _skills(root: Path) -> list[str]:
    """The folder for skills, and the old ones in it; where a link leads outside, a line says so instead."""
    try:
        done = _made_folder(paths.skills_folder(root), root)
        return done + _move_skills(root)
    except Refused as error:
        return [f"left the skills alone: {error.message}"]


def _move_skills(root: Path) -> list[str]:
    old, new = paths.old_skills_folder(root), paths.skills_folder(root)
    if not old.is_dir() or old.is_symlink():
        return []
    done = []
    for skill in sorted(old.iterdir()):
        to = new / skill.name
        if to.exists() or to.is_symlink():
            there = paths.shown(to, root)
            done.append(f"left {paths.shown(skill, root)}: {there} is already there, merge them by hand")
        else:
            files.move(skill, to, root=root)
            done.append(f"moved {paths.shown(skill, root)} to {paths.shown(to, root)}")
    if not any(old.iterdir()):
        files.remove_folder(old)
        done.append(f"removed the empty {paths.shown(old, root)}/")
    return done
