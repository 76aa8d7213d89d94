"""Where hooks are installed, and what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.capture.recorder import (
    failures_file,
    pause_file,
    paused_since,
    read_failures,
    recording_problem,
)
from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.text import Problem
from ralph.install import hosts as install
from ralph.install.clients import Host, InstallScope
from ralph.install.hosts import InstallPlan, InstallTarget
from ralph.storage import files, hook_files

_FIX = "`ralph doctor --fix` repairs it"


class Installed(NamedTuple):
    """Our hooks in one host's settings. `target` is None for the plugin."""

    host: str
    scope: str
    file: Path
    target: InstallTarget | None = None


def find_installed(root: Path, env: Mapping[str, str]) -> tuple[Installed, ...]:
    """Return every host whose settings contain our hooks, for this user or this project."""
    installed: dict[str, Installed] = {}
    for host in Host:
        for scope in InstallScope:
            # no such scope, no home folder, or a broken file that is its host's concern
            with suppress(RalphError):
                target = InstallTarget(host, scope, root, env)
                if install.has_entries(target):
                    entry = Installed(host.value, scope.value, target.settings, target)
                    installed.setdefault(str(target.settings), entry)
    with suppress(RalphError):
        notes = install.installed_file(env)
        if "plugin" in (files.read(notes) or "").splitlines():
            installed["plugin"] = Installed(Host.CLAUDE.value, "plugin", notes)
    return tuple(installed.values())


def find_problems(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """Yield each problem with the hooks here, with its file and what to do about it."""
    failures = read_failures(root)
    if failures is not None:
        hint = "fix what it names (space, permissions); `ralph doctor --fix` then resets the count"
        yield failures_file(root), Problem(1, str(failures), hint, "warning", "hook-failures")
    problem = recording_problem(root)
    if problem:
        hint = "make the folder writable, or free some space"
        yield paths.log_folder(root), Problem(1, problem, hint, "error", "no-recording")
    yield from _slow_pattern_problems(root)
    since = paused_since(root)
    if since is not None:
        what = "nothing is recorded or injected: capture is paused"
        if since:
            what = f"nothing is recorded or injected since {since}: capture is paused"
        yield pause_file(root), Problem(1, what, "`ralph capture on` resumes it", "note", "paused")
    yield from installation_problems(root, env)


def _slow_pattern_problems(root: Path) -> Iterator[tuple[Path, Problem]]:
    path = paths.slow_patterns_file(root)
    for pattern in sorted(hook_files.slow_patterns(str(paths.state_folder(root)))):
        what = f"the privacy pattern {pattern!r} took too long and is switched off on this machine"
        hint = f"rewrite it without nested repetitions; to switch it on, delete its line in {path}"
        yield path, Problem(1, what, hint, "warning", "slow-pattern")


def installation_problems(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """Yield what keeps hosts from starting Ralph, and entries that this version would change."""
    installed = find_installed(root, env)
    with suppress(RalphError, OSError):
        if installed or install.installed_file(env).is_file():
            what = install.launcher_problem(env)
            if what:
                yield install.interpreter_file(env), Problem(1, what, _FIX, "warning", "launcher")
    for entry in installed:
        if entry.target is None:
            continue
        with suppress(RalphError):
            for path, change in install.outdated_entries(entry.target):
                what = f"its entries are not up to date ({change})"
                yield path, Problem(1, what, _FIX, "note", "host-entry")


def repair_installation(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Rewrite launchers and host entries that have problems, and yield what changed."""
    if not any(installation_problems(root, env)):
        return
    program = install.noted_program(env) or install.hook_program(sys.executable)
    targets = [entry.target for entry in find_installed(root, env) if entry.target is not None]
    yield from _apply(install.plan_launchers(env, program))
    for target in targets:  # one at a time, since each plan reads what the last one wrote
        yield from _apply(install.plan_install(install.with_server(target), program))


def _apply(plan: InstallPlan) -> Iterator[tuple[Path, str]]:
    install.apply_plan(plan)
    for edit in plan.edits:
        yield edit.path, edit.what
