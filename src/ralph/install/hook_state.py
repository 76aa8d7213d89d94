"""The state of hooks: their settings cache, counted failures, the pause marker, and where they are installed.

The settings cache has the time and size of every config file behind it, so that a hook knows by a few `stat` calls
whether it is current. Failures are counted in place, because a hook may be counting at the same moment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ralph.core import config, ids, paths
from ralph.core.config import Layer, Loaded
from ralph.core.errors import Conflict, RalphError, Refused
from ralph.core.text import Problem
from ralph.install import hosts as install
from ralph.install.clients import Host, InstallScope
from ralph.install.hosts import InstallTarget
from ralph.privacy.secret_rules import rules_mark
from ralph.storage import files, hook_files
from ralph.storage.files import hide_state

_FIX = "`ralph doctor --fix` repairs it"
_NO_FAILURES = " " * (hook_files.FAILURES_SIZE - 1) + "\n"
failures_file = paths.hook_failures
pause_file = paths.pause_file


def cache_file(root: Path) -> Path:
    """Return the settings cache; a worktree's is another one than that of its main checkout."""
    own = "" if not paths.worktree_name(root) else f"-{root.stat().st_ino}"
    return paths.cache_folder(root) / f"hook{own}"


def config_state(root: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return time and size of the config files, before they are loaded: no change is lost."""
    sources = [path for _, path in config.sources(root, env)]
    sources += [*paths.config_files(root), *paths.config_files(paths.main_checkout(root))]
    sources.append(paths.slow_patterns_file(root))
    return tuple(hook_files.file_state(str(path)) for path in dict.fromkeys(sources))


def write_settings(
    root: Path, loaded: Loaded, *, env: Mapping[str, str], state: tuple[str, ...] = ()
) -> bool:
    """Write the settings cache; False when these settings hold for one command only."""
    if any(origin.layer is Layer.FLAG for origin in loaded.origins.values()):
        return False
    settings = loaded.config
    memories = loaded.config.memories
    pairs: list[tuple[str, object]] = [
        *(("file", line) for line in state or config_state(root, env)),
        ("root", root.stat().st_ino),
        ("user", paths.user_config_file(env) or ""),
        ("env", hook_files.set_variables(env)),
        ("rules", rules_mark(settings.privacy.patterns)),
        ("capture", 1),
        ("inject", memories.inject.value),
        ("budget", memories.budget),
        ("types", ",".join(kind.value for kind in memories.filter.types)),
        ("tags", ",".join(" ".join(tag.split()) for tag in memories.filter.tags)),
        ("recent", memories.filter.recent),
        ("enabled", int(memories.enabled)),
        ("window", settings.context.window),
        ("share", settings.context.shares.memory),
        ("presence", settings.presence.value),
        *(("pattern", pattern) for pattern in settings.privacy.patterns),
        *(("path", path) for path in settings.privacy.paths),
    ]
    lines = [f"{key}={hook_files.escape(str(value))}" for key, value in pairs]
    text = "\n".join([hook_files.CACHE_VERSION, *lines, ""])
    top = paths.state_boundary(root)
    files.make_folder(cache_file(root).parent, 0o700, root=top)
    if files.read(cache_file(root)) != text:
        files.write(cache_file(root), text, root=top, mode=files.PRIVATE)
    _make_failures_file(root)
    return True


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
    """Count one failure of a hook; False when there is no way to."""
    with suppress(OSError, RalphError):
        _make_failures_file(root)
        return hook_files.count_failure(str(failures_file(root).parents[1]), event, problem)
    return False


def read_failures(root: Path) -> Failures | None:
    """Return what has been counted, or None when nothing failed."""
    with suppress(RalphError):
        line = (files.read(failures_file(root)) or "").partition("\n")[0].rstrip()
        count, _, rest = line.partition(" ")
        at, _, what = rest.partition(" ")
        if count.isdecimal() and len(count) <= 12 and int(count) and what:
            return Failures(int(count), at, what)
    return None


def recording_problem(root: Path) -> str:
    """Return why hooks can record nothing now; "" when they can."""
    why = hook_files.probe(str(paths.sessions_folder(root)))
    return f"nothing can be recorded: {why}" if why else ""


def reset_failures(root: Path) -> Failures | None:
    """Set the count back to zero and return what had been counted, or None when there was nothing."""
    counted = read_failures(root)
    path = str(failures_file(root))
    with suppress(OSError, hook_files.Unsure):
        if counted and hook_files.overwrite(
            path, lambda _: _NO_FAILURES.encode(), hook_files.FAILURES_SIZE
        ):
            return counted
    return None


def paused_since(root: Path) -> str | None:
    """Return when capture was paused ("" when the file does not say), or None while it is active."""
    file = pause_file(root)
    return (files.read(file) or "").strip()[:40] if file.is_file() else None


def pause_capture(root: Path, *, everywhere: bool = False) -> bool:
    """Stop capture and injection in this project; False when they were paused already."""
    if paused_since(root) is not None:
        return False
    state = paths.ralph_folder(paths.main_checkout(root))
    marks = (
        paths.config_file(root),
        paths.ralph_folder(root),
        state,
        paths.memories_files(root)[0],
    )
    if not everywhere and not any(mark.exists() for mark in marks):
        hint = "hooks act only where `ralph.yml`, `.ralph/` or `.agent/memories.md` is"
        raise Refused(f"{root}: nothing is captured here, so there is nothing to pause", hint=hint)
    hide_state(root)
    file = pause_file(root)
    files.make_folder(file.parent, 0o700)
    with suppress(Conflict):  # another process was faster: it is paused
        files.write(
            file,
            ids.timestamp() + "\n",
            root=paths.state_boundary(root),
            expect="",
            mode=files.PRIVATE,
        )
    return True


def resume_capture(root: Path) -> bool:
    """Continue capture and injection; False when they were not paused."""
    if paused_since(root) is None:
        return False
    files.delete(pause_file(root))
    return True


class Installed(NamedTuple):
    """Our hooks in one host's settings; `target` is None for the plugin."""

    host: str
    scope: str
    file: Path
    target: InstallTarget | None = None


def find_installed(root: Path, env: Mapping[str, str]) -> tuple[Installed, ...]:
    """Return every host whose settings contain our hooks, for this user or this project."""
    installed: dict[str, Installed] = {}
    for host in Host:
        for scope in InstallScope:
            with suppress(
                RalphError
            ):  # no such scope, no home, or a file that only its host may complain about
                target = InstallTarget(host, scope, root, env)
                if install.has_entries(target):
                    each = Installed(host.value, scope.value, target.settings, target)
                    installed.setdefault(str(target.settings), each)
    with suppress(RalphError):
        notes = install.installed_file(env)
        if "plugin" in (files.read(notes) or "").splitlines():
            installed["plugin"] = Installed(Host.CLAUDE.value, "plugin", notes)
    return tuple(installed.values())


def find_problems(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """Yield what is wrong with the hooks here, each with its file and what to do."""
    if failures := read_failures(root):
        hint = (
            "mend what it names (space, permissions); `ralph doctor --fix` then sets the count back"
        )
        yield failures_file(root), Problem(1, str(failures), hint, "warning", "hook-failures")
    if problem := recording_problem(root):
        hint = "make its folder a folder that you can write to, or free some space"
        yield paths.log_folder(root), Problem(1, problem, hint, "error", "no-recording")
    slow = paths.slow_patterns_file(root)
    for pattern in sorted(hook_files.slow_patterns(str(paths.state_folder(root)))):
        what = f"the privacy pattern {pattern!r} took too long and is switched off on this machine"
        hint = (
            f"write it without nested repetitions; deleting its line in {slow} switches it on again"
        )
        yield slow, Problem(1, what, hint, "warning", "slow-pattern")
    if (since := paused_since(root)) is not None:
        what = f"nothing is recorded or injected{f' since {since}' if since else ''}: it is paused"
        yield pause_file(root), Problem(1, what, "`ralph capture on` goes on", "note", "paused")
    yield from installation_problems(root, env)


def installation_problems(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """Yield what keeps hosts from starting Ralph, and entries that this version would write otherwise."""
    installed = find_installed(root, env)
    with suppress(RalphError, OSError):
        if (installed or install.installed_file(env).is_file()) and (
            what := install.launcher_problem(env)
        ):
            yield install.interpreter_file(env), Problem(1, what, _FIX, "warning", "launcher")
    for each in installed:
        with suppress(RalphError):
            for path, what in (
                install.outdated_entries(each.target) if each.target is not None else ()
            ):
                yield (
                    path,
                    Problem(
                        1, f"its entries are not up to date ({what})", _FIX, "note", "host-entry"
                    ),
                )


def repair_installation(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Write launchers and entries of hosts anew where they have problems."""
    if not any(installation_problems(root, env)):
        return
    ours = install.noted_program(env) or install.hook_program(sys.executable)
    targets = [each.target for each in find_installed(root, env) if each.target is not None]
    entries = (install.plan_install(install.with_server(each), ours) for each in targets)
    for plan in chain(
        [install.plan_launchers(env, ours)], entries
    ):  # each plan begins with the files after the last
        install.apply_plan(plan)
        yield from ((edit.path, edit.what) for edit in plan.edits)
