"""A project's files (`ralph init`), what its user trusts, its scratchpad, and older forms.

`init` makes what is missing, touches nothing that is there and nothing outside of the project. What a project's config
names to be run or sent to counts after its user has approved exactly that value in exactly that folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import budget as budgets
from ralph.core import config, ids, paths, tokens
from ralph.core.config import Trusted, TrustedValue
from ralph.core.errors import Refused, Unreadable, UsageError
from ralph.core.record import MemoryKind
from ralph.core.repository import Repository
from ralph.formats.memories import GUARDRAILS, MEMORIES, is_sign, parse_memories
from ralph.formats.pages import patterns_template
from ralph.memory.memory import backup, new_id
from ralph.privacy import invisible_characters, privacy
from ralph.privacy.privacy import clean_memory, clean_tags
from ralph.storage import files
from ralph.storage.config import hide_from_git, template
from ralph.storage.files import GITIGNORE, UNTIL_INIT, missing_lines
from ralph.storage.library import Collection, Library, check_folders


def init(root: Path) -> list[str]:
    """Make what is missing; one line for each thing that was done."""
    changes = []
    own_files = ((paths.memories_files(root), MEMORIES), (paths.guardrails_files(root), GUARDRAILS))
    for places, layout in own_files:  # a worktree gets files of its own
        changes += _make_file(
            root, Collection(layout.title, root, places, layout).home, layout.template()
        )
    ignore = paths.gitignore(root)
    main = paths.main_checkout(root)
    if main == root and files.read(ignore) == UNTIL_INIT:
        files.write(ignore, GITIGNORE, root=root, expect=UNTIL_INIT)
        changes.append(f"made {paths.shown(ignore, root)} one that git sees")
    changes += _make_file(root, ignore, GITIGNORE)
    if main != root:
        changes += _make_file(root, paths.gitignore(main), UNTIL_INIT, within=main)
    changes += _make_file(root, paths.global_patterns(root), patterns_template())
    changes += _make_file(root, paths.config_file(root), template())
    for folder, top in ((paths.knowledge_folder(root), root), (paths.tasks_folder(root), main)):
        if files.make_folder(folder, root=top):
            changes.append(f"made {paths.shown(folder, root)}/")
    if missing := missing_lines(root):
        lines = f"git does not ignore {', '.join(missing)}; add these lines to it"
        changes.append(f"left {paths.shown(ignore, root)} as it is: {lines}")
    try:
        changes += _move_skills(root)
    except Refused as error:
        changes.append(f"left the skills alone: {error.message}")
    return [*changes, *filter(None, [hide_from_git(paths.local_config_file(root), root)])]


def _make_file(root: Path, path: Path, text: str, *, within: Path | None = None) -> list[str]:
    check_folders(path, root)
    name = paths.shown(path, root)
    if path.is_symlink() and not path.exists():
        gone = f"a symbolic link to {path.readlink()}, which does not exist"
        return [f"left {name}: {gone}; restore the target or remove the link, and run again"]
    if path.exists():
        return []
    files.write(path, text, root=within or root, expect="")
    return [f"made {name}"]


def _move_skills(root: Path) -> list[str]:
    """Make the folder in which Claude Code finds skills, and move those there that older loops kept elsewhere."""
    old = paths.old_skills_folder(root)
    new = paths.skills_folder(root)
    changes = [f"made {paths.shown(new, root)}/"] if files.make_folder(new, root=root) else []
    if not old.is_dir() or old.is_symlink():
        return changes
    for skill in sorted(old.iterdir()):
        to = new / skill.name
        source = paths.shown(skill, root)
        target = paths.shown(to, root)
        if to.exists() or to.is_symlink():
            changes.append(f"left {source}: {target} is already there, merge them by hand")
        else:
            files.move(skill, to, root=root)
            changes.append(f"moved {source} to {target}")
    if not any(old.iterdir()):
        files.remove_folder(old)
    return changes


def move_old_state(root: Path) -> list[str]:
    """Move logs and caches of earlier versions out of the work tree; return a note.

    Nobody can tell whether an archive brought them: the logs count as another machine's until `ralph trust`.
    """
    log, cache, index = paths.old_state(root)
    main = paths.main_checkout(root)
    names = (".ralph/log", ".ralph/cache", ".ralph/ralph.db")
    if not paths.has_old_state(root) or Repository(main).answer("ls-files", "--", *names):
        return []  # what git tracks came with the repository: it is left alone and never read
    state = paths.state_folder(root).with_name("earlier")
    is_moved = index.exists() and not index.is_symlink()
    with files.lock(index):
        for path in (index, *index.parent.glob("ralph.db-*")) if not index.is_symlink() else ():
            files.delete(path)
        for old in (log, cache):
            is_folder = old.is_dir() and not old.is_symlink()
            for path in [*sorted(old.rglob("*"), reverse=True), old] if is_folder else []:
                if path.is_dir() and not path.is_symlink():
                    if not any(path.iterdir()):
                        files.remove_folder(path)
                elif path != paths.mcp_status_file(root):
                    _move_log(path, state / old.name / path.relative_to(old))
                    is_moved = True
    if not is_moved:
        return []
    where = f"{paths.shown(log.parent, root)} to {paths.shown(state, root)}"
    return [f"moved logs and caches from {where}; `ralph trust` makes its logs count"]


def _move_log(path: Path, to: Path) -> None:
    """Move a file; where the new one exists, the lines of an old log go first."""
    if not to.exists():
        files.make_folder(to.parent, 0o700)
        files.move(path, to)
        return
    if path.name.endswith(paths.LOG_SUFFIXES):
        files.update(to, (files.read(path) or "").__add__)
    files.delete(path)


# --- trust -----------------------------------------------------------------------------------------


def record_trust(
    root: Path, named: Sequence[TrustedValue], env: Mapping[str, str]
) -> tuple[TrustedValue, ...]:
    """Trust these values in this project, and nothing else there; return those that are new."""
    here = os.path.realpath(root)
    at = ids.timestamp()
    chosen = {Trusted(here, each.key, each.digest) for each in named}

    def change(entries: Sequence[Trusted]) -> list[Trusted]:
        same = [entry for entry in entries if entry.root != here or replace(entry, at="") in chosen]
        new = chosen - {replace(entry, at="") for entry in same}
        return [*same, *(replace(entry, at=at) for entry in new)]

    _update_trust(env, change)
    return tuple(each for each in named if not each.trusted)


def trusted_values(env: Mapping[str, str]) -> tuple[Trusted, ...]:
    """Return everything that this user trusts, by project and key."""
    path = config.trust_file(env)
    return tuple(sorted(config.parse_trust(files.read(path) or "" if path is not None else "")))


def revoke_trust(root: Path, env: Mapping[str, str]) -> int:
    """Trust nothing of this project any more; return how many values it was before."""
    here = os.path.realpath(root)
    if count := sum(entry.root == here for entry in trusted_values(env)):
        _update_trust(env, lambda entries: [entry for entry in entries if entry.root != here])
    return count


def _update_trust(
    env: Mapping[str, str], change: Callable[[Sequence[Trusted]], list[Trusted]]
) -> None:
    if (path := config.trust_file(env)) is None:
        raise UsageError(
            "there is no folder for what you trust", hint="set HOME or XDG_CONFIG_HOME"
        )

    def to_text(entries: Sequence[Trusted]) -> str:
        return (
            json.dumps({"version": 1, "trusted": [asdict(entry) for entry in entries]}, indent=2)
            + "\n"
        )

    def edit(text: str) -> str:
        entries = config.parse_trust(text)
        if text.strip() and not entries and text != to_text([]):
            hint = "delete it; `ralph trust` then asks again for each project"
            raise Unreadable(f"{path}: is not a trust file as Ralph writes it", hint=hint)
        return to_text(sorted(change(entries)))

    files.make_folder(path.parent, 0o700)
    files.update(path, edit, mode=files.PRIVATE)


def foreign_logs(root: Path) -> dict[str, int]:
    """Count the logs that came with a copy from other machines, by machine id; none of them is read."""
    counts = {
        folder.name: len(paths.log_files(folder / paths.LOG))
        for folder in paths.other_state_folders(root)
    }
    return {name: count for name, count in counts.items() if count}


def accept_logs(root: Path) -> int:
    """Move the logs of other machines to our own, so that they count; a log that is in both stays where it is."""
    moved = 0
    for folder in paths.other_state_folders(root):
        for log in paths.log_files(folder / paths.LOG):
            target = paths.log_folder(root) / log.relative_to(folder / paths.LOG)
            if log.is_file() and not log.is_symlink() and not target.exists():
                files.move(log, target, root=paths.state_boundary(root))
                moved += 1
    return moved


# --- legacy Signs ----------------------------------------------------------------------------------


def guardrail_formats(root: Path) -> list[tuple[Path, str]]:
    """Return each possible guardrails file with its format: none, empty, structured, legacy or mixed."""
    collection = Library(root).guardrails
    texts = [(path, files.read(path)) for path in collection.places]
    return [
        (path, "none" if text is None else parse_memories(text, collection.layout).format)
        for path, text in texts
    ]


class SignMigration(NamedTuple):
    """A file whose Signs became entries: how many, its copy, and the lines of those that stay, with the reason."""

    path: Path
    signs: int
    backup: Path | None
    private_parts: int
    kept: list[tuple[int, str]]


def migrate_signs(
    root: Path, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> list[SignMigration]:
    """Convert legacy Signs to entries of the type fix, with a backup."""
    library = Library(root)
    collection = library.guardrails
    migrations = []
    for path, _ in library.documents(collection):
        text = files.read(path) or ""
        document = parse_memories(text, collection.layout)
        signs = []
        kept = []
        private = 0
        for entry in document.entries:
            sign = entry.record
            if not is_sign(sign):
                continue
            content = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
            try:
                clean, parts = clean_memory(
                    content, sign.tags, allow_secret=allow_secret, patterns=patterns
                )
            except Refused as error:
                kept.append((entry.line, str(error).replace("\n  ", "; ")))
                continue
            private += parts
            kind = MemoryKind.FIX
            tags = clean_tags(sign.tags)
            date = sign.created_at or ids.today()
            fix = replace(
                sign, kind=kind, text=clean, label=kind.value, title="", tags=tags, created_at=date
            )
            signs.append((sign.id, fix))
        for old_id, _ in reversed(signs):  # ids of Signs with one name are counted from the top
            document = document.remove(old_id)
        for _, sign in signs:
            name = new_id(collection, MemoryKind.FIX, [entry.record for entry in document.entries])
            document = document.add(replace(sign, id=name))
        copy = backup(path, collection.root, text) if signs else None
        if signs:
            files.write(path, str(document), root=collection.root, expect=text)
        if signs or kept:
            migrations.append(SignMigration(path, len(signs), copy, private, kept))
    return migrations


# --- the scratchpad ------------------------------------------------------------------------------


def show_scratchpad(root: Path, *, budget: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return the scratchpad, within a budget its newest notes below a note, and the headings that are left out."""
    text = files.read(paths.scratchpad(root)) or ""
    if budget <= 0 or tokens.estimate(text) <= budget:
        return text, ()
    note = "<!-- the beginning is left out -->\n"
    tail, titles = budgets.fit_tail(text, max(1, budget - tokens.estimate(note) - 3))
    tail = tail.rstrip("\n") + "\n"
    return (f"{note}{tail}" if tokens.estimate(f"{note}{tail}") <= budget else tail), titles


def write_scratchpad(
    root: Path, text: str, patterns: Sequence[str] = (), *, append: bool = False
) -> privacy.Clean:
    """Replace the text, or add to its end on a line of its own; a secret is masked, so that the note is not lost."""
    cleaned = privacy.redact(text.replace("\r\n", "\n").replace("\r", "\n"), patterns)
    if not cleaned.text.strip():
        raise Refused("the text is empty", hint="`ralph scratchpad --clear` empties the scratchpad")
    invisible_characters.check_text(cleaned.text)
    new = cleaned.text if cleaned.text.endswith("\n") else f"{cleaned.text}\n"

    def edit(before: str) -> str:
        return (
            before + ("\n" if before and not before.endswith("\n") else "") + new if append else new
        )

    files.update(paths.scratchpad(root), edit, root=root, mode=files.PRIVATE)
    return cleaned


def clear_scratchpad(root: Path) -> bool:
    """Empty it; False when there was nothing."""
    path = paths.scratchpad(root)
    if not files.read(path):
        return False
    files.write(path, "", root=root)
    return True
