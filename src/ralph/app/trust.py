"""`ralph trust`: what a project's config names to be run or sent to, and the user's word for it.

A project's file may name a command or an address, and none of it counts until its user has seen it:
`ralph.config` compares what is named with the trust file, and this module is what writes that file. A line
holds the project's real path, the key and a fingerprint of the value, never the value itself, so that a
changed value, a moved folder and another clone are strangers again. To record is to replace all that was
said about the project before by exactly what was shown. `tests/app/test_trust.py` proves it over `load`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ralph import config
from ralph.config import Named, Trusted
from ralph.errors import Unreadable, UsageError
from ralph.model import ids
from ralph.store import files

Change = Callable[[Sequence[Trusted]], list[Trusted]]


def record(root: Path, named: Sequence[Named], env: Mapping[str, str]) -> tuple[Named, ...]:
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
    return tuple(sorted(config.trusted(text or "")))


def revoke(root: Path, env: Mapping[str, str]) -> int:
    """Trust nothing of this project any more; how many values it was before."""
    here = config.real_root(root)
    count = sum(one.root == here for one in list_(env))
    if count:
        _changed(env, lambda held: [one for one in held if one.root != here])
    return count


def _changed(env: Mapping[str, str], change: Change) -> None:
    """Replace what the trust file holds, for its owner's eyes only."""
    path = config.trust_file(env)
    if path is None:
        raise UsageError("there is no folder for what you trust", hint="set HOME or XDG_CONFIG_HOME")

    def edit(text: str) -> str:
        held = config.trusted(text)
        if text.strip() and not held and text != _written([]):
            hint = "delete it; `ralph trust` then asks again for each project"
            raise Unreadable(f"{path}: is not a trust file as Ralph writes it", hint=hint)
        return _written(sorted(change(held)))

    files.make_folder(path.parent, 0o700)
    files.update(path, edit, mode=files.PRIVATE)


def _written(held: Sequence[Trusted]) -> str:
    return json.dumps({"version": 1, "trusted": [asdict(one) for one in held]}, indent=2) + "\n"
