"""`ralph init`: the files and folders of a project that remembers.

Makes what is missing and touches nothing that is there, so it can run again at any time. Skills
that older loops kept in `.ralph/skills/` move to where Claude Code finds them by itself.
"""

from pathlib import Path

from ralph import paths
from ralph.config import template
from ralph.formats import patterns
from ralph.store import files
from ralph.store.library import Library

GITIGNORE = """\
# Written by `ralph init`. What happened stays on this machine; what was learned goes into git.
# Delete the line `tasks/` or `features/` to share those, too.
log/
cache/
locks/
tasks/
features/
ralph.db*
scratchpad.md
*.bak*
*.ralph-tmp
.ralph-lock
"""

LOCAL_CONFIG = "ralph.local.yml"


def init(root: Path) -> list[str]:
    """Make what is missing; one line for each thing that was done."""
    library = Library(root)
    done = [line for shelf in (library.memories, library.guardrails) if (line := _file(root, shelf.home, shelf.layout.template()))]
    folder = paths.ralph_folder(root)
    done += _made(root, folder / ".gitignore", GITIGNORE)
    done += _made(root, paths.global_patterns(root), patterns.template())
    done += _made(root, paths.config_file(root), template())
    for place in (paths.knowledge_folder(root), paths.tasks_folder(root), paths.skills_folder(root)):
        if files.make_folder(place):
            done.append(f"made {paths.shown(place, root)}/")
    return done + _move_skills(root) + _exclude_local_config(root)


def _made(root: Path, path: Path, text: str) -> list[str]:
    line = _file(root, path, text)
    return [line] if line else []


def _file(root: Path, path: Path, text: str) -> str:
    if path.exists() or path.is_symlink():
        return ""
    files.write(path, text, root=root, expect="")
    return f"made {paths.shown(path, root)}"


def _move_skills(root: Path) -> list[str]:
    old, new = paths.old_skills_folder(root), paths.skills_folder(root)
    if not old.is_dir() or old.is_symlink():
        return []
    done = []
    for skill in sorted(old.iterdir()):
        to = new / skill.name
        if to.exists() or to.is_symlink():
            done.append(f"left {paths.shown(skill, root)}: {paths.shown(to, root)} is already there, merge them by hand")
        else:
            files.move(skill, to)
            done.append(f"moved {paths.shown(skill, root)} to {paths.shown(to, root)}")
    if not any(old.iterdir()):
        files.remove_folder(old)
        done.append(f"removed the empty {paths.shown(old, root)}/")
    return done


def _exclude_local_config(root: Path) -> list[str]:
    """Keep ralph.local.yml out of git without touching anybody's .gitignore."""
    git = paths.state_root(root) / ".git"
    if not git.is_dir():
        return []
    exclude = git / "info" / "exclude"
    if LOCAL_CONFIG in (files.read(exclude) or "").split():
        return []
    files.update(exclude, lambda text: text + ("\n" if text and not text.endswith("\n") else "") + LOCAL_CONFIG + "\n")
    return [f"told git to ignore {LOCAL_CONFIG} (in .git/info/exclude)"]
