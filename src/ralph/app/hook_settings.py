"""What the hooks know without reading a config: the settings cache, and the count of what went wrong.

`.ralph/cache/hook` is text, `key value` a line, with the time and size of every config file that it was
made from, so that a hook tells by a few `stat` calls whether it still holds. The variables that set
something of it stand there, too: with others it does not count. A worktree has a cache of its own beside
that of the main checkout, named by the folder's number, so that the two do not overwrite each other's.
`.ralph/log/hook-failures` has one line that is overwritten in place; it is made beforehand as
large as it will ever be, because the failure that matters most is a full disk.
`tests/hooks/test_place.py` proves that the light reader understands what is written here.
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import config, paths
from ralph.app import hook_rules
from ralph.config import Layer, Loaded
from ralph.errors import RalphError
from ralph.settings import Config
from ralph.store import files

FIRST_LINE = "ralph-hook 2"
VARIABLES = ("RALPH_MEMORIES_", "RALPH_CONTEXT_", "RALPH_PRIVACY_", "RALPH_CAPTURE_")
"""How the variables begin that set what hooks go by: all of the sections that `said` looks at."""
_DIGITS = 12
"""A longer count is none that a hook has written."""


@dataclass(frozen=True, slots=True)
class Failures:
    """How often hooks have failed in a project, and what the last failure was."""

    count: int
    at: str
    what: str


def cache_file(root: Path) -> Path:
    """The settings cache; a worktree's is another one than that of its main checkout."""
    own = "" if paths.state_root(root) == root else f"-{root.stat().st_ino}"
    return paths.cache_folder(root) / f"hook{own}"


def failures_file(root: Path) -> Path:
    """Where failures are counted."""
    return paths.log_folder(root) / "hook-failures"


def look(root: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The config files as they are now: to be asked for before they are loaded, so that no change gets lost."""
    found = []
    counted = [path for _, path in config.sources(root, env)]
    for path in dict.fromkeys([*counted, *paths.config_files(root), *paths.config_files(paths.state_root(root))]):
        try:
            now = path.stat()
            found.append(f"file {now.st_mtime_ns} {now.st_size} {path}")
        except OSError:
            found.append(f"file 0 0 {path}")
    return tuple(found)


def write(
    root: Path, loaded: Loaded, *, env: Mapping[str, str], seen: tuple[str, ...] | None = None, capture: bool = True
) -> bool:
    """Write the settings cache and make the failures file; False when these settings are not for others.

    `seen` is what `look` gave before the config was loaded; `capture` is whether sessions are recorded at all.
    """
    if any(origin.layer is Layer.FLAG for origin in loaded.origins.values()):
        return False
    state = paths.state_root(root)
    files.make_folder(cache_file(root).parent, 0o700, root=state)
    compiled = (f"rules {hook_rules.write(root)}", f"compiled {hook_rules.own(loaded.config.privacy.patterns)}")
    said = (*(seen or look(root, env)), *_lines(root, loaded, env, capture), *compiled)
    text = "\n".join([FIRST_LINE, *said, ""])
    if files.read(cache_file(root)) != text:
        files.write(cache_file(root), text, root=state, mode=files.PRIVATE)
    _make_failures(root)
    return True


def _lines(root: Path, loaded: Loaded, env: Mapping[str, str], capture: bool) -> Iterator[str]:
    yield f"root {root.stat().st_ino}"
    yield f"user {paths.user_config_file(env) or ''}"
    yield f"env {_quoted(sorted(f'{name}={env[name]}' for name in env if name.startswith(VARIABLES)))}"
    yield from (f"{key} {value}" for key, value in said(loaded.config, capture=capture).items())


def said(settings: Config, *, capture: bool = True) -> dict[str, str]:
    """What hooks have to know of the settings, in the words of the cache."""
    memories = settings.memories
    tags = tuple(" ".join(tag.split()) for tag in memories.filter.tags)
    known: dict[str, object] = {
        "capture": int(capture),
        "patterns": _quoted(settings.privacy.patterns),
        "paths": _quoted(settings.privacy.paths),
        "inject": memories.inject.value,
        "budget": memories.budget,
        "types": ",".join(kind.value for kind in memories.filter.types),
        "tags": ",".join(tags),
        "recent": memories.filter.recent,
        "enabled": int(memories.enabled),
        "window": settings.context.window,
        "share": settings.context.shares.memory,
    }
    return {key: str(value) for key, value in known.items()}


def _quoted(texts: Iterable[str]) -> str:
    """Texts as JSON, one behind the other."""
    return "".join(map(json.dumps, texts))


def _make_failures(root: Path) -> None:
    path = failures_file(root)
    if not path.exists():
        files.make_folder(path.parent, 0o700, root=paths.state_root(root))
        files.write(path, _none_yet(), root=paths.state_root(root), expect="", mode=files.PRIVATE)


def _none_yet() -> str:
    from ralph.store.light import FAILURES_SIZE  # noqa: PLC0415 - not to be had on Windows

    return " " * (FAILURES_SIZE - 1) + "\n"


def count_failure(root: Path, event: str, what: str) -> bool:
    """Count one failure of a hook; False when there was no way to, and then nobody hears of it."""
    if sys.platform == "win32":
        return False
    from ralph.store import light  # noqa: PLC0415 - not to be had on Windows

    with contextlib.suppress(OSError, RalphError, light.Unsure):
        if not failures_file(root).exists():
            _make_failures(root)
        return light.count_failure(str(failures_file(root)), event, what)
    return False


def failures(root: Path) -> Failures | None:
    """What has been counted, or None when nothing went wrong or the file says nothing."""
    with contextlib.suppress(RalphError):
        line = (files.read(failures_file(root)) or "").partition("\n")[0].rstrip()
        count, _, rest = line.partition(" ")
        at, _, what = rest.partition(" ")
        if count.isdecimal() and len(count) <= _DIGITS and int(count) and what:
            return Failures(int(count), at, what)
    return None
