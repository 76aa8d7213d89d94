"""Answer an event: memory that relates to a prompt, a subagent's task, or what a tool is about to do or failed at.

The answer is one JSON object with `additionalContext`, or nothing. What was injected goes to the ledger and to the
session's list, so that it is injected once. The index is opened read-only and nothing is waited for.
"""

from __future__ import annotations

import os
import time

from ralph import discovery
from ralph.hooks.handler import Payload, session_name
from ralph.lean import TYPE_CHECKING
from ralph.store import hook_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ralph.context.recall import Recalled, RecallOptions
    from ralph.hooks.handler import Project

_REDACTED = "[redacted: "
_OTHER_NAMES = {"BeforeAgent": "UserPromptSubmit", "AfterTool": "PreToolUse"}
"""Gemini and others read no answer before a tool: theirs comes with its result."""
_FILE_TOOLS = (
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "apply_patch",
    "replace",
    "write_file",
    "read_file",
)
"""Tools that touch the files that they name, of all hosts."""
_PATCH_LINES = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MOST_FILES = 8
_DAY = 86_400
_SILENCE = 60  # seconds without a heartbeat, which comes each ten, after which a loop does not count as running
_LOOP = "[ralph] A loop is running: {0} (`ralph loop status {0}` shows it)."
SUBAGENT_TOKENS = 600  # that a subagent is given at most
MOST_CHARACTERS = 9_500  # hosts replace a longer answer by a preview


def answer_event(
    host: str, event: str, payload: Payload, project: Project, env: Mapping[str, str]
) -> bytes:
    """Return what to print about an event; b"" when memory has nothing that relates."""
    name = _OTHER_NAMES.get(event, event)
    question = ""
    is_subagent = name == "SubagentStart"
    if is_subagent:
        question = _subagent_task(payload, project)
    elif name == "UserPromptSubmit":
        question = _question(host, payload)
    files = _files(payload)
    command = payload.object("tool_input").text("command")
    if not (question or files or command) or (
        not question and name in ("UserPromptSubmit", "SubagentStart")
    ):
        return b""
    connection = hook_files.open_index(project.index)
    if connection is None:
        return b""
    try:
        from ralph.context import recall  # only when there is an index to ask

        session = payload.text("session_id")
        options = _request(project, "" if is_subagent else session, env)
        if is_subagent:  # it knows nothing of what its session was given
            options.budget = min(options.budget or SUBAGENT_TOKENS, SUBAGENT_TOKENS)
        if question:
            memory = recall.recall_for_prompt(connection, question, options)
        elif name == "PreToolUse":
            memory = recall.before_action(connection, files, command, options)
        else:
            memory = recall.after_failure(
                connection, files, command, payload.text("error"), options
            )
    finally:
        connection.close()
    runs = _running_loops(project, options.seen) if name == "UserPromptSubmit" else []
    text = "\n".join(filter(None, (memory.text, *map(_LOOP.format, runs))))
    if not text or len(text) > MOST_CHARACTERS:
        return b""
    try:
        _note_injection(
            project, session, event, memory, [] if is_subagent else runs, seen=not is_subagent
        )
    except (
        OSError,
        hook_files.Unsure,
    ) as error:  # a full or read-only disk must not hold an answer back
        hook_files.count_failure(project.state, event, f"cannot note what was injected: {error}")
    inner = f'{{"hookEventName": {_quote(event)}, "additionalContext": {_quote(text)}}}'
    said = ""
    if project.settings.presence == "full":
        tokens = sum(cost for _, cost in memory.records)
        said = f'"systemMessage": "Ralph: {len(memory.records)} injected, {tokens} tokens", '
    return f'{{{said}"hookSpecificOutput": {inner}}}'.encode()


def _question(host: str, payload: Payload) -> str:
    """Return a person's prompt without markers of redacted secrets: nobody searches for those."""
    from ralph.context.recall import human_question  # only for prompts

    prompt = payload.text("prompt")
    if host == "gemini" and prompt.lstrip().startswith(("<hook_context>", "<session_context>")):
        from ralph.capture.events import without_context  # for one host

        prompt = without_context(prompt)
    first, *rest = prompt.split(_REDACTED)
    return human_question(first + " ".join(part.partition("]")[2] for part in rest))


def _subagent_task(payload: Payload, project: Project) -> str:
    """Return the task of a subagent that starts: the oldest one for its type that no other has taken."""
    session = session_name(payload.text("session_id"))
    kind = payload.text("agent_type")
    lines = (
        hook_files.read_file(f"{project.state}/cache/subagents/{session}", 1 << 20) or b""
    ).split(b"\n")
    tasks = [task for line in lines if (task := Payload(line)).text("subagent_type") == kind]
    taken = sum(1 for line in lines if Payload(line).text("taken") == kind)
    if not kind or taken >= len(tasks):
        return ""
    project.append("cache/subagents", session, f'{{"taken": {_quote(kind)}}}\n'.encode())
    return f"{tasks[taken].text('description')}\n{tasks[taken].text('prompt')}"


def _running_loops(project: Project, seen: Collection[str]) -> list[str]:
    """Return the loops that run now, by their heartbeats, and that the session has not been told of."""
    folder = f"{project.state}/cache/runs"
    try:
        names = [
            name.removesuffix(".alive") for name in os.listdir(folder) if name.endswith(".alive")
        ]
        ages = {name: time.time() - os.stat(f"{folder}/{name}.alive").st_mtime for name in names}
    except OSError:
        return []
    return [
        name
        for name in sorted(names)
        if name not in seen and ages[name] < _SILENCE and session_name(name) == name
    ]


def _request(project: Project, session: str, env: Mapping[str, str]) -> RecallOptions:
    from ralph.context import recall  # only when there is an index to ask

    settings = project.settings
    path = f"{project.state}/cache/injected/{session_name(session)}"
    injected = (hook_files.read_file(path, 1 << 20) if session else None) or b""
    names = (
        frozenset(injected.decode("utf-8", "replace").split("\n")) if session else frozenset[str]()
    )
    options = recall.RecallOptions(hook_files.timestamp()[:10], session, names)
    options.task = (
        env.get("RALPH_TASK", "").encode("utf-8", "replace").decode("utf-8") or project.task
    )
    options.enabled = settings.enabled
    options.types = settings.types
    options.tags = settings.tags
    options.accepted_files = (
        f"{project.state}/{discovery.LOG}/accepted",
        f"{discovery.user_folder('STATE', env)}/accepted",
    )
    options.budget = recall.within_window(settings.window, settings.budget, settings.share)
    folder = f"worktrees/{project.worktree}/" if project.worktree else ""
    verified = hook_files.read_file(
        f"{project.state}/cache/{folder}{recall.CITATIONS_FILE}", recall.CITATIONS_BYTES
    )
    options.stale = recall.CitationCache(project.root, verified) if verified else None
    if settings.recent:
        then = time.gmtime(max(0, time.time() - settings.recent * _DAY))
        options.since = f"{then[0]:04}-{then[1]:02}-{then[2]:02}"
    return options


def _files(payload: Payload) -> list[str]:
    """Return the files that a tool is about to touch."""
    if payload.text("tool_name") not in _FILE_TOOLS:
        return []
    parameters = payload.object("tool_input")
    names = [
        parameters.text(key) for key in ("file_path", "notebook_path", "path", "absolute_path")
    ]
    patch = payload.text("tool_input") or next(
        filter(None, map(parameters.text, ("command", "input", "patch"))), ""
    )
    patched = [
        line.partition(": ")[2].strip()
        for line in patch.split("\n")
        if line.startswith(_PATCH_LINES)
    ]
    return [name for name in names if name] or patched[:_MOST_FILES]


# --- the ledger ---------------------------------------------------------------------------------


def _note_injection(
    project: Project,
    session: str,
    event: str,
    memory: Recalled,
    runs: list[str],
    *,
    seen: bool,
) -> None:
    """Write what was injected to the ledger and, where it was `seen`, to the session's list, also runs of the loop."""
    at = hook_files.timestamp()
    lines = "".join(
        f'{{"v": 1, "type": "injection", "at": {_quote(at)}, "event": {_quote(event)}, "layer": {memory.layer}, '
        f'"record": {_quote(record)}, "session": {_quote(session)}, "tokens": {tokens}}}\n'
        for record, tokens in memory.records
    )
    names = "".join(
        f"{name}\n"
        for name in (*runs, *(record for record, _ in memory.records))
        if "\n" not in name
    )
    if lines:
        project.append(discovery.LOG, "injections.jsonl", lines.encode("utf-8", "replace"))
    if session and seen:
        project.append("cache/injected", session_name(session), names.encode("utf-8", "replace"))


_CONTROLS = {number: f"\\u{number:04x}" for number in (*range(32), 127)}


def _quote(text: str) -> str:
    """Return a text as a JSON string."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if not text.isprintable():
        text = text.translate(_CONTROLS).encode("utf-8", "replace").decode("utf-8")
    return f'"{text}"'
