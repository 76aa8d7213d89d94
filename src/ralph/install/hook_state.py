"""Find the hooks that are installed, check them, and repair them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.capture.recorder import (
    Failures,
    failures_file,
    pause_file,
    paused_since,
    read_failures,
    recording_problem,
)
from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.install import installations, launcher_scripts
from ralph.install.clients import Host, InstallScope
from ralph.install.findings import Finding, Repair, new_finding
from ralph.install.install_target import InstallTarget
from ralph.lean import hook_files
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.install.hosts import InstallPlan

_FIX = "`ralph doctor --fix` repairs it"
_TOO_LONG = "took too long"
_OUT_OF_SPACE = "no space left"
_NOT_PERMITTED = ("permission denied", "read-only file system", "operation not permitted")
"""What the operating system says when a file may not be written, in lower case."""


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
            # The host may not support the scope, or there is no home folder. A broken file is the
            # host's concern.
            with suppress(RalphError):
                target = InstallTarget(host, scope, root, env)
                if installations.has_entries(target):
                    entry = Installed(host.value, scope.value, target.settings, target)
                    installed.setdefault(str(target.settings), entry)
    with suppress(RalphError):
        notes = installations.installed_file(env)
        if "plugin" in (files.read(notes) or "").splitlines():
            installed["plugin"] = Installed(Host.CLAUDE.value, "plugin", notes)
    return tuple(installed.values())


def find_problems(root: Path, env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the problems with recording in this project and with the installed hooks."""
    failures = read_failures(root)
    if failures is not None:
        yield new_finding(
            failures_file(root),
            str(failures),
            hint=_advise_on_failures(failures),
            level="warning",
            code="hook-failures",
        )
    problem = recording_problem(root)
    if problem:
        hint = "make the folder writable, or free some space"
        yield new_finding(
            paths.log_folder(root), problem, hint=hint, level="error", code="no-recording"
        )
    yield from _slow_pattern_problems(root)
    since = paused_since(root)
    if since is not None:
        what = "nothing is recorded or given: capture is paused"
        if since:
            what = f"nothing is recorded or given since {since}: capture is paused"
        hint = "`ralph capture on` resumes it"
        yield new_finding(pause_file(root), what, hint=hint, level="note", code="paused")
    yield from installation_problems(root, env)


def _advise_on_failures(failures: Failures) -> str:
    """Return what to do about failures of hooks, which depends on the last one."""
    reset = "`ralph doctor --fix` resets the count"
    what = failures.what.lower()
    if _TOO_LONG in what:
        return f"the machine was too busy to answer in time, and nothing needs fixing; {reset}"
    if _OUT_OF_SPACE in what:
        return f"free some disk space; {reset} then"
    if any(words in what for words in _NOT_PERMITTED):
        return f"make the file or folder writable for you; {reset} then"
    return f"fix the cause that it names; {reset} then"


def _slow_pattern_problems(root: Path) -> Iterator[Finding]:
    path = paths.slow_patterns_file(root)
    for pattern in sorted(hook_files.slow_patterns(str(paths.state_folder(root)))):
        what = f"the privacy pattern {pattern!r} took too long and is switched off on this machine"
        hint = f"rewrite it without nested repetitions; to switch it on, delete its line in {path}"
        yield new_finding(path, what, hint=hint, level="warning", code="slow-pattern")


def installation_problems(root: Path, env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield problems that keep hosts from starting Ralph, and outdated entries in their files."""
    installed = find_installed(root, env)
    yield from launcher_problems(env, installed)
    for entry in installed:
        yield from entry_problems(entry)


def launcher_problems(env: Mapping[str, str], installed: Sequence[Installed]) -> Iterator[Finding]:
    """Yield the problem that keeps every host from starting Ralph, if there is one."""
    with suppress(RalphError, OSError):
        if installed or installations.installed_file(env).is_file():
            what = launcher_scripts.launcher_problem(env)
            if what:
                path = launcher_scripts.interpreter_file(env)
                yield new_finding(path, what, hint=_FIX, level="warning", code="launcher")


def entry_problems(entry: Installed) -> Iterator[Finding]:
    """Yield the outdated entries in the files of one host."""
    if entry.target is None:
        return
    with suppress(RalphError):
        for path, change in installations.outdated_entries(entry.target):
            what = f"its entries are not up to date (an update {change})"
            yield new_finding(path, what, hint=_FIX, level="note", code="host-entry")


def repair_installation(root: Path, env: Mapping[str, str]) -> Iterator[Repair]:
    """Rewrite launchers and host entries that have problems, and yield the repairs."""
    if not any(installation_problems(root, env)):
        return
    from ralph.install import hosts  # a status only looks

    program = launcher_scripts.recorded_program(env) or launcher_scripts.running_program(
        sys.executable
    )
    targets = [entry.target for entry in find_installed(root, env) if entry.target is not None]
    yield from _apply(hosts.plan_launchers(env, program))
    for target in targets:  # one at a time, because each plan reads what the previous one wrote
        yield from _apply(hosts.plan_install([installations.with_server(target)], program))


def _apply(plan: InstallPlan) -> Iterator[Repair]:
    from ralph.install import hosts

    hosts.apply_plan(plan)
    for edit in plan.edits:
        yield Repair(edit.path, edit.done)
    for folder in plan.shared_folders:
        yield Repair(folder, "made accessible only to its owner")
