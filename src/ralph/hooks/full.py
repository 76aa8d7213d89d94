"""An event with all rules: the way around the fast path, which loads everything and takes its time.

It finds the project again, hands the event to `app/hook`, and asks the light answer as well when that
printed nothing, so that an event which the fast path left to us is answered like any other. The light answer
knows Claude's names; Gemini's are put into them, and its own name for the event into what comes back. Whatever
fails is counted; nothing is printed but a whole answer. `handle` can be passed in, for tests.
`tests/hooks/test_full.py` proves it.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import config, paths
from ralph.app import hook_settings

if TYPE_CHECKING:
    from ralph.hooks.place import Place

Handle = Callable[..., str]
"""`handle(root, host, event, payload, *, env, project) -> what to print`."""

ANSWERED = ("UserPromptSubmit", "PreToolUse", "PostToolUseFailure")
_GEMINI_EVENTS = {"BeforeAgent": "UserPromptSubmit", "BeforeTool": "PreToolUse"}
_GEMINI_TOOLS = {"replace": "Edit", "write_file": "Write", "read_file": "Read", "run_shell_command": "Bash"}


def main(host: str, event: str, payload: bytes, env: Mapping[str, str], handle: Handle | None = None) -> bytes:
    """What to print about an event, after everything was done about it."""
    if env.get("RALPH_DISABLE") == "1":
        return b""
    start = _start(payload, env)
    found = _project(start)
    root = found or start
    try:
        if found is None and not _everywhere(env):
            return b""
        if handle is None:
            from ralph.app.hook import handle as handle_all  # noqa: PLC0415 - the largest import there is

            handle = handle_all
            _prepare(root, env)
        printed = handle(root, host, event, payload, env=env, project=found is not None).encode("utf-8", "replace")
        return printed or _answer(host, event, payload, root, env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the session goes on
        if found is not None:
            hook_settings.count_failure(root, event, f"{type(error).__name__}: {error}")
        return b""


def _prepare(root: Path, env: Mapping[str, str]) -> None:
    """Have the rules use the expressions that are compiled already, where the settings cache tells of them."""
    if sys.platform == "win32":
        return
    from ralph.hooks.place import place  # noqa: PLC0415 - not on Windows
    from ralph.hooks.prepared import prepare  # noqa: PLC0415 - the same

    known = place(os.fspath(root), env, os.fspath(paths.state_root(root)))
    if known is not None:
        prepare(*known.settings.prepared)


def _start(payload: bytes, env: Mapping[str, str]) -> Path:
    """The folder to begin in: the host's, the payload's, or our own."""
    try:
        said = json.loads(payload)
        cwd = said.get("cwd") if isinstance(said, dict) else None
    except (ValueError, RecursionError):
        cwd = None
    for folder in (env.get("CLAUDE_PROJECT_DIR"), cwd):
        if isinstance(folder, str) and "\0" not in folder and Path(folder).is_absolute():
            return Path(folder)
    return Path.cwd()


def _project(start: Path) -> Path | None:
    """The nearest folder upward that has one of the marks, here or in the main checkout, never above the git root."""
    for folder in (start, *start.parents):
        if (folder / "ralph.yml").is_file() or (folder / ".ralph").is_dir():
            return folder
        if (folder / ".agent" / "memories.md").is_file():
            return folder
        if (folder / ".git").exists():
            return _bare(start, folder)
    return None


def _bare(start: Path, top: Path) -> Path | None:
    """The project of a worktree without any of Ralph's files: there where its main checkout has `.ralph`."""
    main = paths.state_root(top)
    inside = (start, *start.parents)[: len(start.parts) - len(top.parts) + 1] if main != top else ()
    return next((each for each in inside if (main / each.relative_to(top) / ".ralph").is_dir()), None)


def _everywhere(env: Mapping[str, str]) -> bool:
    """Whether the user's config may let hooks act here, too; `handle` reads it and decides."""
    user = paths.user_config_file(env)
    try:
        return user is not None and "everywhere" in user.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _answer(host: str, event: str, payload: bytes, root: Path, env: Mapping[str, str]) -> bytes:
    """The light answer, where it has one and the settings are known."""
    name = _GEMINI_EVENTS.get(event, "") if host == "gemini" else event
    if name not in ANSWERED or sys.platform == "win32" or (name == "UserPromptSubmit" and env.get("RALPH_RUN")):
        return b""  # the last one: Ralph's own loop has put into its prompt what memory knows
    place = _place(root, env)
    if place.paused:
        return b""
    try:
        from ralph.hooks.answer import answer  # noqa: PLC0415 - may be missing
    except ImportError as error:
        if error.name == "ralph.hooks.answer":
            return b""
        raise
    if name == event:
        told: bytes = answer(host, name, payload, place)
        return told
    return _renamed(answer(host, name, _as_claude(payload), place), event)


def _place(root: Path, env: Mapping[str, str]) -> "Place":
    """The project with its settings: from the cache, or where that does not count from the config."""
    from ralph.hooks.place import Place, Settings, place  # noqa: PLC0415 - not on Windows

    state, tree = os.fspath(paths.state_root(root)), paths.worktree_name(root)
    task = paths.task_of(root)
    known = place(os.fspath(root), env, state, tree, task)
    if known is not None:
        return known
    said = hook_settings.said(config.load(root, env=env).config)
    return Place(state, Settings(said), os.fspath(root), tree, task)


def _as_claude(payload: bytes) -> bytes:
    """Gemini's payload in the words of Claude Code, the session's id first."""
    from ralph.capture.hosts.gemini import asked  # noqa: PLC0415 - for one host

    said = json.loads(payload)
    given = said.get("tool_input")
    given = given if isinstance(given, dict) else {}
    path = given.get("file_path") or given.get("absolute_path")
    tool, prompt = said.get("tool_name"), said.get("prompt")
    translated = {
        "session_id": said.get("session_id"),
        "cwd": said.get("cwd"),
        "prompt": asked(prompt) if isinstance(prompt, str) else "",
        "tool_name": _GEMINI_TOOLS.get(tool, tool) if isinstance(tool, str) else "",
        "tool_input": {**given, "file_path": path} if path else given,
    }
    return json.dumps(translated, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _renamed(told: bytes, event: str) -> bytes:
    """An answer with the host's own name for the event in it."""
    if not told:
        return told
    answer = json.loads(told)
    answer["hookSpecificOutput"]["hookEventName"] = event
    return json.dumps(answer).encode()
