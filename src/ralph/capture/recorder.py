"""Keep the state of recording: the hooks' settings cache, their failures, and the pause marker.

A hook has no time to load the config, so the settings it needs are written to a cache, one
`key=value` per line. `hook_files` reads it. The cache includes the modification time and size of
every config file it was made from, so a few `stat` calls show a hook whether it is current.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralph.core import config, ids, paths
from ralph.core.config import Layer, Loaded
from ralph.core.errors import Conflict, RalphError, Refused
from ralph.lean import hook_files
from ralph.privacy import injection
from ralph.storage import files
from ralph.storage.gitignore import ensure_gitignore

failures_file = paths.hook_failures
pause_file = paths.pause_file

# --- the settings cache -------------------------------------------------------------------------


def cache_file(root: Path) -> Path:
    """Return the path of the settings cache. Each worktree has its own."""
    name = "hook"
    if paths.worktree_name(root):
        name = f"hook-{root.stat().st_ino}"
    return paths.cache_folder(root) / name


def config_state(root: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the modification time and size of each config file.

    Call this before loading the files, so that no change is missed.
    """
    sources = [path for _, path in config.sources(root, env)]
    sources += [*paths.config_files(root), *paths.config_files(paths.main_checkout(root))]
    sources.append(paths.slow_patterns_file(root))
    return tuple(hook_files.file_state(path.as_posix()) for path in dict.fromkeys(sources))


def write_settings(
    root: Path, loaded: Loaded, *, env: Mapping[str, str], state: tuple[str, ...] = ()
) -> bool:
    """Write the settings cache and return True.

    Returns False, without writing, if some settings apply to one command only.
    """
    if any(origin.layer is Layer.FLAG for origin in loaded.origins.values()):
        return False
    text = _cache_text(root, loaded, env, state or config_state(root, env))
    path = cache_file(root)
    top = paths.state_boundary(root)
    files.make_folder(path.parent, 0o700, root=top)
    if files.read(path) != text:
        files.write(path, text, root=top, mode=files.PRIVATE)
    _make_failures_file(root)
    return True


def _cache_text(root: Path, loaded: Loaded, env: Mapping[str, str], state: tuple[str, ...]) -> str:
    from ralph.lean.secret_rules import rules_mark  # only if the settings have changed

    settings = loaded.config
    memories = settings.memories
    user_config = paths.user_config_file(env)
    pairs: list[tuple[str, object]] = [("file", line) for line in state]
    pairs += [
        ("root", root.stat().st_ino),
        ("user", user_config.as_posix() if user_config else ""),
        ("env", hook_files.set_variables(env)),
        ("rules", rules_mark(settings.privacy.patterns)),
        ("inject", memories.inject.value),
        ("budget", memories.budget),
        ("types", ",".join(kind.value for kind in memories.filter.types)),
        ("tags", ",".join(" ".join(tag.split()) for tag in memories.filter.tags)),
        ("recent", memories.filter.recent),
        ("enabled", int(memories.enabled)),
        ("window", settings.context.window),
        ("share", settings.context.shares.memory),
        ("presence", settings.presence.value),
    ]
    pairs += [("pattern", pattern) for pattern in settings.privacy.patterns]
    pairs += [("path", path) for path in settings.privacy.paths]
    pairs += [("remember", prefix) for prefix in settings.learning.remember]
    if loaded.unusable:
        pairs.append(("problem", settings_problem(loaded)))
        pairs.append(("broken", broken_state(loaded)))
    lines = [f"{key}={hook_files.escape(str(value))}" for key, value in pairs]
    return "\n".join([hook_files.CACHE_VERSION, *lines, ""])


# --- settings that cannot be used ---------------------------------------------------------------


def last_good_text(root: Path, config_file: Path) -> str | None:
    """Return the last text of a config file that could be used, or None if there is none."""
    with suppress(RalphError):
        return files.read(_last_good_copy(root, config_file))
    return None


def keep_last_good(root: Path, loaded: Loaded) -> None:
    """Keep a copy of each config file that could be used, in case the next version cannot be."""
    top = paths.state_boundary(root)
    for path, text in loaded.texts.items():
        copy = _last_good_copy(root, path)
        if files.read(copy) != text:
            files.write(copy, text, root=top, mode=files.PRIVATE)


def _last_good_copy(root: Path, config_file: Path) -> Path:
    return paths.last_good_settings(root) / ids.derived("config", str(config_file))


def settings_problem(loaded: Loaded) -> str:
    """Return one line about settings that cannot be used, or "" if all can be.

    The reason is left out if the text it quotes from the config looks like prompt injection.
    """
    if not loaded.unusable:
        return ""
    first = loaded.unusable[0]
    reason = first.problem.message.partition("\n")[0]
    quoted_texts = reason.replace("'", "\n").replace('"', "\n")
    if injection.looks_like_instructions(quoted_texts):
        reason = "a config file cannot be used (`ralph doctor` says why)"
    if first.path is None:
        instead = "ignores this variable"
    elif first.has_last_good:
        instead = "uses the last version of this file that worked"
    else:
        instead = "uses its defaults instead of this file"
    return f"{reason}; until this is fixed, Ralph {instead}"


def broken_state(loaded: Loaded) -> str:
    """Return a text that changes whenever a config file that cannot be used changes."""
    states = []
    for unusable in loaded.unusable:
        if unusable.path is None:
            states.append(unusable.problem.message.partition("\n")[0])
        else:
            states.append(hook_files.file_state(str(unusable.path)))
    return "\t".join(states)


def take_settings_problem(root: Path, loaded: Loaded) -> str:
    """Return the line about settings that cannot be used, once for each change of the files."""
    if not loaded.unusable:
        return ""
    state = str(paths.state_folder(root))
    boundary = str(paths.state_boundary(root))
    if not hook_files.tell_once(boundary, state, broken_state(loaded)):
        return ""
    return settings_problem(loaded)


# --- failures -----------------------------------------------------------------------------------

_MAX_COUNT_DIGITS = 12  # of the count in the file; a longer number is not ours
_NO_FAILURES = " " * (hook_files.FAILURES_SIZE - 1) + "\n"
"""The empty file. Its size is fixed, so that a hook can overwrite it in one write."""


@dataclass(frozen=True, slots=True)
class Failures:
    """How often hooks have failed in a project, and what the last failure was."""

    count: int
    at: str
    what: str

    def __str__(self) -> str:
        return f"hooks failed {self.count} time(s), last at {self.at}: {self.what}"


def _make_failures_file(root: Path) -> None:
    path = failures_file(root)
    top = paths.state_boundary(root)
    if not path.exists():
        files.make_folder(path.parent, 0o700, root=top)
        files.write(path, _NO_FAILURES, root=top, expect="", mode=files.PRIVATE)


def count_failure(root: Path, event: str, problem: str) -> bool:
    """Count one hook failure. Returns False if it cannot be counted."""
    with suppress(OSError, RalphError):
        _make_failures_file(root)
        return hook_files.count_failure(str(paths.state_folder(root)), event, problem)
    return False


def read_failures(root: Path) -> Failures | None:
    """Return the counted failures, or None if there are none."""
    with suppress(RalphError):
        line = (files.read(failures_file(root)) or "").partition("\n")[0].rstrip()
        count, _, rest = line.partition(" ")
        at, _, what = rest.partition(" ")
        if count.isdecimal() and len(count) <= _MAX_COUNT_DIGITS and int(count) and what:
            return Failures(int(count), at, what)
    return None


def recording_problem(root: Path) -> str:
    """Return why hooks cannot record anything at the moment, or "" if they can."""
    reason = hook_files.probe(str(paths.sessions_folder(root)))
    if not reason:
        return ""
    return f"nothing can be recorded: {reason}"


def take_failure_report(root: Path) -> str:
    """Return one line about failures that the user has not been told of, or "".

    The line is returned once for each failure or problem, and at most once a day. If the note about
    that cannot be written, the line is returned again.
    """
    problem = recording_problem(root)
    failures = read_failures(root)
    parts = [problem] if problem else []
    if failures is not None:
        noun = "failure" if failures.count == 1 else "failures"
        parts.append(f"{failures.count} hook {noun}, the last at {failures.at}")
    if not parts:
        return ""
    line = "; ".join(parts)
    reported = paths.failures_reported(root)
    with suppress(RalphError, OSError):
        day, _, reported_line = (files.read(reported) or "").partition(" ")
        if day == ids.today() or reported_line.strip() == line:
            return ""
        boundary = paths.state_boundary(root)
        files.write(reported, f"{ids.today()} {line}\n", root=boundary, mode=files.PRIVATE)
    return f"{line} (`ralph doctor` shows more)"


def reset_failures(root: Path) -> Failures | None:
    """Reset the count to zero and return the failures counted so far.

    Returns None if nothing was reset.
    """
    failures = read_failures(root)
    if failures is None:
        return None
    path = str(failures_file(root))
    no_failures = _NO_FAILURES.encode()
    with suppress(OSError, hook_files.Unsure):
        if hook_files.overwrite(path, lambda _: no_failures, hook_files.FAILURES_SIZE):
            return failures
    return None


# --- pausing ------------------------------------------------------------------------------------

_MAX_PAUSE_TIME = 40  # characters of the pause marker that are shown


def paused_since(root: Path) -> str | None:
    """Return when capture was paused, "" if the time is unknown, or None if it is not paused."""
    file = pause_file(root)
    if not file.is_file():
        return None
    return (files.read(file) or "").strip()[:_MAX_PAUSE_TIME]


def pause_capture(root: Path, *, everywhere: bool = False) -> bool:
    """Pause capture and injection in this project. Returns False if they were already paused.

    Raises Refused in a folder where hooks do not act, unless capture is on `everywhere`. In a git
    repository they act: they report that Ralph is not set up, or set it up (`init.auto`).
    """
    if paused_since(root) is not None:
        return False
    if not everywhere and not _has_marker(root) and not paths.location(root).common:
        raise Refused(
            f"{root}: nothing is captured here, so there is nothing to pause",
            hint="hooks act only where `ralph.yml`, `.ralph/` or `.agent/memories.md` is",
        )
    ensure_gitignore(root)
    file = pause_file(root)
    text = ids.timestamp() + "\n"
    top = paths.state_boundary(root)
    files.make_folder(file.parent, 0o700)
    with suppress(Conflict):  # another process paused capture first
        files.write(file, text, root=top, expect="", mode=files.PRIVATE)
    return True


def _has_marker(root: Path) -> bool:
    """Check for the files that make hooks act in a folder, here or in the main checkout."""
    markers = (
        paths.config_file(root),
        paths.ralph_folder(root),
        paths.ralph_folder(paths.main_checkout(root)),
        paths.memories_files(root)[0],
    )
    return any(marker.exists() for marker in markers)


def resume_capture(root: Path) -> bool:
    """Resume capture and injection. Returns False if they were not paused."""
    if paused_since(root) is None:
        return False
    files.delete(pause_file(root))
    return True
