"""How the hooks fare: in which hosts they are, what they would start, whether they stand still, what failed.

One place for `ralph status`, which shows it, and `ralph doctor`, which says what to do about it. Where hooks
are installed is read from the hosts' own settings, since people edit those; that the plugin is in use only
our own note tells. A count of failures stays until somebody has seen it: `ralph doctor --fix` tells it once
more and sets it back, in place, because a hook may be counting at the same moment.
`tests/app/test_hook_health.py` proves it.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralph.app import hook_settings, pause
from ralph.app.hook_settings import Failures
from ralph.app.hosts import install
from ralph.app.hosts.install_hosts import Host, Scope, has_comments, settings_file
from ralph.errors import RalphError
from ralph.formats.host_files import is_ralph_hook, ralph_hooks
from ralph.formats.text import Problem
from ralph.store import files

PLUGIN = "plugin"
_AGAIN = "run `ralph install {}` again"


@dataclass(frozen=True, slots=True)
class Installed:
    """Our hooks in one host's settings (`scope`: for whom, or that the plugin brings them), and what they start."""

    host: str
    scope: str
    file: Path
    programs: tuple[str, ...] = ()


def installed(root: Path, env: Mapping[str, str]) -> tuple[Installed, ...]:
    """Every host whose settings hold our hooks, for this user or this project; a file of two scopes counts once."""
    found: dict[str, Installed] = {}
    for host in Host:
        for scope in Scope:
            with suppress(RalphError):  # no such scope, no home, or a file that only its host may complain about
                file = settings_file(host, scope, root, env)
                entries = ralph_hooks(files.read(file), comments=has_comments(host))
                programs = dict.fromkeys(word for entry in entries for word in _started(entry.group))
                if entries:
                    found.setdefault(str(file), Installed(host.value, scope.value, file, tuple(programs)))
    with suppress(RalphError):
        listed = install.installed_file(env)
        if PLUGIN in (files.read(listed) or "").splitlines():
            found[PLUGIN] = Installed(Host.CLAUDE.value, PLUGIN, listed)
    return tuple(found.values())


def _started(group: object) -> Iterator[str]:
    """The files that the hooks of a group need: their interpreter and what it runs."""
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    for hook in hooks if isinstance(hooks, list) else []:
        if not is_ralph_hook(hook):
            continue
        command, arguments = hook.get("command"), hook.get("args")
        words = [command, *arguments] if isinstance(arguments, list) else _split(command)
        yield from (word for word in words if isinstance(word, str) and os.path.isabs(word))  # noqa: PTH117 (a word)


def _split(command: object) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # somebody has edited it
        return []


def told(failures: Failures) -> str:
    """Counted failures in words, on one line: how many, when the last was, and what."""
    return f"hooks failed {failures.count} time(s), last at {failures.at}: {failures.what}"


def problems(root: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """What is odd about the hooks here, each with its file and what to do."""
    counted = hook_settings.failures(root)
    if counted is not None:
        hint = "mend what it names (space, permissions); `ralph doctor --fix` then sets the count back"
        yield hook_settings.failures_file(root), Problem(1, told(counted), hint, "warning", "hook-failures")
    since = pause.since(root)
    if since is not None:
        what = f"nothing is recorded or injected{f' since {since}' if since else ''}: it is paused"
        yield pause.paused_file(root), Problem(1, what, "`ralph capture on` goes on", "note", "paused")
    for each in installed(root, env):
        gone = [word for word in each.programs if not Path(word).exists()]
        if gone:
            hint = _AGAIN.format(f"{each.host} --scope {each.scope}")
            yield each.file, Problem(1, f"its hooks start {gone[0]}, which is gone", hint, "warning", "hook-program")
    with suppress(RalphError):
        yield from _noted_program(env)


def _noted_program(env: Mapping[str, str]) -> Iterator[tuple[Path, Problem]]:
    """Whether what the plugin's launcher would start is there, and is this Ralph."""
    file = install.interpreter_file(env)
    again = _AGAIN.format("claude --plugin")
    noted = files.read(file)
    if noted is None:
        if install.installed_file(env).is_file():
            what = "is missing: the plugin's hooks do not know which Ralph to start"
            yield file, Problem(1, what, again, "warning", "interpreter")
        return
    words = noted.splitlines()
    gone = [word for word in words if not Path(word).is_file()]
    if len(words) != 2 or gone:
        what = f"the plugin's hooks would start {gone[0]}, which is gone" if gone else "does not name what to start"
        yield file, Problem(1, what, again, "warning", "interpreter")
        return
    ours = install.program(sys.executable).runner
    if words[1] != str(ours):
        what = f"the plugin's hooks start another Ralph than this one: {words[1]}"
        yield file, Problem(1, what, f"if this one is meant, {again}", "note", "interpreter")


def set_back(root: Path) -> Failures | None:
    """Count failures anew from none; gives what had been counted, or None when there was nothing."""
    counted = hook_settings.failures(root)
    if counted is None or sys.platform == "win32":
        return None
    from ralph.store import light  # noqa: PLC0415 - not to be had on Windows

    blank = (b" " * (light.FAILURES_SIZE - 1)) + b"\n"
    try:
        done = light.overwrite(str(hook_settings.failures_file(root)), lambda _: blank, light.FAILURES_SIZE)
    except (OSError, light.Unsure):
        return None
    return counted if done else None
