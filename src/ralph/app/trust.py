"""`ralph trust`: what a project's config names to be run or sent to, and the user's approval of it.

A project's file may name a command or an address, and none of it counts until its user has approved it. A line of the
trust file has the project's real path, the key and a digest of the value, so that a changed value, a moved folder and
another clone need a new approval. `record` replaces everything about the project by exactly what was shown. Logs that
came with a copy from another machine do not count until then, either.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ralph import config, paths
from ralph.config import Trusted, TrustedValue
from ralph.errors import Unreadable, UsageError
from ralph.model import ids
from ralph.store import files

Change = Callable[[Sequence[Trusted]], list[Trusted]]


def record(root: Path, named: Sequence[TrustedValue], env: Mapping[str, str]) -> tuple[TrustedValue, ...]:
    """Trust these values in this project, and nothing else there; gives those that are new."""
    here, at = config.real_root(root), ids.timestamp()
    wanted = {Trusted(here, each.key, each.digest) for each in named}

    def change(held: Sequence[Trusted]) -> list[Trusted]:
        same = [one for one in held if one.root != here or replace(one, at="") in wanted]
        known = {replace(one, at="") for one in same}
        return [*same, *(replace(one, at=at) for one in wanted - known)]

    _changed(env, change)
    return tuple(each for each in named if not each.trusted)


def list_(env: Mapping[str, str]) -> tuple[Trusted, ...]:
    """Everything that this user trusts, by project and key."""
    path = config.trust_file(env)
    text = files.read(path) if path is not None else None
    return tuple(sorted(config.parse_trust(text or "")))


def revoke(root: Path, env: Mapping[str, str]) -> int:
    """Trust nothing of this project any more; how many values it was before."""
    here = config.real_root(root)
    count = sum(one.root == here for one in list_(env))
    if count:
        _changed(env, lambda held: [one for one in held if one.root != here])
    return count


def foreign_logs(root: Path) -> dict[str, int]:
    """Count the logs that came with a copy from other machines, by machine id; none of them is read."""
    counts = {folder.name: len(list((folder / "log").rglob("*.jsonl"))) for folder in paths.other_state_folders(root)}
    return {name: count for name, count in counts.items() if count}


def accept_logs(root: Path) -> int:
    """Move the logs of other machines to our own, so that they count; a log that is in both stays where it is."""
    own, moved = paths.log_folder(root), 0
    for folder in paths.other_state_folders(root):
        for log in sorted((folder / "log").rglob("*.jsonl")):
            target = own / log.relative_to(folder / "log")
            if log.is_file() and not log.is_symlink() and not target.exists():
                files.move(log, target, root=paths.state_boundary(root))
                moved += 1
    return moved


def _changed(env: Mapping[str, str], change: Change) -> None:
    """Replace what the trust file holds, for its owner's eyes only."""
    path = config.trust_file(env)
    if path is None:
        raise UsageError("there is no folder for what you trust", hint="set HOME or XDG_CONFIG_HOME")

    def edit(text: str) -> str:
        held = config.parse_trust(text)
        if text.strip() and not held and text != _written([]):
            hint = "delete it; `ralph trust` then asks again for each project"
            raise Unreadable(f"{path}: is not a trust file as Ralph writes it", hint=hint)
        return _written(sorted(change(held)))

    files.make_folder(path.parent, 0o700)
    files.update(path, edit, mode=files.PRIVATE)


def _written(held: Sequence[Trusted]) -> str:
    return json.dumps({"version": 1, "trusted": [asdict(one) for one in held]}, indent=2) + "\n"
