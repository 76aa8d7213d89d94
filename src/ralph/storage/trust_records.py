"""Record which of a project's values the user trusts, and accept logs from other machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ralph.core import config, ids, paths
from ralph.core.config import Trusted, TrustedValue
from ralph.core.errors import Unreadable, UsageError
from ralph.storage import files

_PRIVATE_FOLDER_MODE = 0o700
_TRUST_VERSION = 1


def record_trust(
    root: Path, named: Sequence[TrustedValue], env: Mapping[str, str]
) -> tuple[TrustedValue, ...]:
    """Trust these values in this project and nothing else in it.

    Return the values that were not trusted before. Raises UsageError if there is no folder for the
    trust file, and Unreadable if the file is damaged.
    """
    project = os.path.realpath(root)
    now = ids.timestamp()
    chosen = {Trusted(project, value.key, value.digest) for value in named}

    def change(entries: Sequence[Trusted]) -> list[Trusted]:
        kept = []
        new = set(chosen)
        for entry in entries:
            without_time = replace(entry, at="")
            if entry.root != project or without_time in chosen:
                kept.append(entry)
                new.discard(without_time)
        return [*kept, *(replace(entry, at=now) for entry in new)]

    _update_trust(env, change)
    return tuple(value for value in named if not value.trusted)


def add_trust(root: Path, value: TrustedValue, env: Mapping[str, str]) -> None:
    """Trust one more value in this project.

    Raises UsageError if there is no folder for the trust file, and Unreadable if the file is
    damaged.
    """
    new = Trusted(os.path.realpath(root), value.key, value.digest, ids.timestamp())

    def change(entries: Sequence[Trusted]) -> list[Trusted]:
        others = [entry for entry in entries if (entry.root, entry.key) != (new.root, new.key)]
        return [*others, new]

    _update_trust(env, change)


def trusted_values(env: Mapping[str, str]) -> tuple[Trusted, ...]:
    """Return everything that this user trusts, sorted by project and key."""
    path = config.trust_file(env)
    if path is None:
        return ()
    return tuple(sorted(config.parse_trust(files.read(path) or "")))


def revoke_trust(root: Path, env: Mapping[str, str]) -> int:
    """Revoke all trust in this project, and return how many values were trusted."""
    project = os.path.realpath(root)
    count = sum(1 for entry in trusted_values(env) if entry.root == project)
    if count:
        _update_trust(env, lambda entries: [entry for entry in entries if entry.root != project])
    return count


def _update_trust(
    env: Mapping[str, str], change: Callable[[Sequence[Trusted]], list[Trusted]]
) -> None:
    path = config.trust_file(env)
    if path is None:
        raise UsageError(
            "there is no folder for the trust file", hint=paths.user_folder_hint("CONFIG")
        )

    def edit(text: str) -> str:
        entries = config.parse_trust(text)
        is_empty = not text.strip() or text == _trust_text([])
        if not entries and not is_empty:
            raise Unreadable(
                f"{path} is not a trust file that Ralph wrote",
                hint="delete it; `ralph trust` then asks again for each project",
            )
        return _trust_text(sorted(change(entries)))

    files.make_folder(path.parent, _PRIVATE_FOLDER_MODE)
    files.update(path, edit, mode=files.PRIVATE)


def _trust_text(entries: Sequence[Trusted]) -> str:
    rows = [asdict(entry) for entry in entries]
    return json.dumps({"version": _TRUST_VERSION, "trusted": rows}, indent=2) + "\n"


def foreign_logs(root: Path) -> dict[str, int]:
    """Count the logs from other machines, by machine id.

    They arrived with a copy of the project. None of them is read until `accept_logs` is called.
    """
    counts = {}
    for folder in paths.other_state_folders(root):
        count = len(paths.log_files(folder / paths.LOG))
        if count:
            counts[folder.name] = count
    return counts


def accept_logs(root: Path) -> int:
    """Move logs from other machines into this machine's log folder, so that they are read.

    Return how many were moved. A log that exists in both places stays where it is.
    """
    moved = 0
    for folder in paths.other_state_folders(root):
        for log in paths.log_files(folder / paths.LOG):
            target = paths.log_folder(root) / log.relative_to(folder / paths.LOG)
            if log.is_file() and not log.is_symlink() and not target.exists():
                files.move(log, target, root=paths.state_boundary(root))
                moved += 1
    return moved
