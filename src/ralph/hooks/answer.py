"""Answer an event with the memory that relates to it.

The event is a prompt, the start of a subagent, or a tool call that is about to run or has failed.
The answer is one JSON object with `additionalContext`, or nothing. Each injected record is noted
twice: in the ledger, with its tokens, and in the session's own list, so that the session is not
given the same record again. The index is opened read-only, and nothing waits for a lock.

This is the answering tier of the hooks. It may load `re`, `enum` and `collections`, but neither
`typing` nor `dataclasses`. An answer to a prompt does not load `json` either.
"""

from __future__ import annotations

import os
import time

from ralph.hooks.handler import Payload, session_name
from ralph.lean import TYPE_CHECKING, discovery, hook_files, record, replace
from ralph.storage import hook_index

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from ralph.hooks.handler import Project
    from ralph.recall.citation_cache import CitationCache
    from ralph.recall.eligibility import RecallOptions
    from ralph.recall.shown_records import Recalled

# How a JSON string writes characters that it may not contain as they are.
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)}
_JSON_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}

_LINE_LAYER = 1  # the level of detail of a pointer, which is one line
SUBAGENT_TOKENS = 600  # the most that a subagent is given
MOST_CHARACTERS = 9_500  # hosts replace a longer answer with a preview
_MAX_ATTEMPTS = 3  # to index the same state of a memory file, because each takes a while
_MAX_STATE_FILE = 1 << 20  # bytes to read from a session's list of records or tasks
_SECONDS_PER_DAY = 86_400
_MAX_LOG_END = 1 << 18  # bytes at the end of a session's log that are searched for earlier prompts
_PROMPT_EVENTS = (b'"event": "UserPromptSubmit"', b'"event": "BeforeAgent"')
_PROMPT_MEMBER = b'"prompt":'
_MIN_PROMPT_BYTES = 16  # a shorter first prompt ("hi", "good morning") does not begin the work
_LOOP_NOTE = "[ralph] A loop is running: {0} (`ralph loop status {0}` shows it)."
_SAME_AS = {"BeforeAgent": "UserPromptSubmit", "AfterTool": "PreToolUse"}
"""Other hosts' event names, mapped to the Claude event they are answered like.

These hosts read no answer before a tool runs, so the answer comes with the tool's result.
"""


SILENT_HOSTS = frozenset({"cline", "copilot", "cursor", "opencode", "windsurf"})
"""Hosts that show no message of a hook to the user, so that the agent has to pass it on."""


@record
class _Request:
    """What to look up for an event: a question, or the files and command of a tool call."""

    question: str = ""
    files: Sequence[str] = ()
    command: str = ""


def answer_event(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    index_memories: Callable[[], None] = lambda: None,
) -> bytes:
    """Return what to print for an event, or b"" if no memory relates to it.

    `index_memories` is called if the index lacks memories. It may fail to add them.
    """
    moment = _SAME_AS.get(event, event)
    is_subagent = moment == "SubagentStart"
    request = _read_request(host, moment, payload, project)
    if not (request.question or request.files or request.command):
        return b""
    connection = _open_index(project, index_memories)
    if connection is None:
        return b""
    session = payload.text("session_id")
    try:
        # A subagent has not seen what its session was given.
        options = _recall_options(project, "" if is_subagent else session, env)
        if is_subagent:
            budget = min(options.budget or SUBAGENT_TOKENS, SUBAGENT_TOKENS)
            options = replace(options, budget=budget)
        memory = _recall(connection, moment, request, payload.text("error"), options)
    finally:
        connection.close()
    lines = [memory.text] if memory.text else []
    runs: list[str] = []
    if moment == "UserPromptSubmit":
        runs = _running_loops(project, options.seen)
        lines += [_LOOP_NOTE.format(run) for run in runs]
    text = "\n".join(lines)
    if not text or len(text) > MOST_CHARACTERS:
        return b""
    try:
        _note_in_ledger(project, session, event, memory)
        if session and not is_subagent:
            _note_as_seen(project, session, memory, runs)
    except (OSError, hook_files.Unsure) as error:  # a full disk must not suppress an answer
        project.count_failure(event, f"cannot note what was given: {error}")
    return _encode_answer(project, event, text, memory)


def _open_index(project: Project, index_memories: Callable[[], None]) -> sqlite3.Connection | None:
    connection = hook_index.open_index(project.index)
    lacking = hook_index.NO_INDEX
    if connection is not None:
        lacking = hook_index.lacking_memories(project.index, project.root)
    if not lacking or not _may_try(project, lacking):
        return connection
    if connection is not None:
        connection.close()
    index_memories()
    return hook_index.open_index(project.index)


def _may_try(project: Project, lacking: str) -> bool:
    """Note an attempt to index what is lacking, and return whether to make it."""
    path = f"{project.state}/{discovery.CACHE}/{discovery.CATCH_UP}"
    line = f"{lacking}\n".encode("utf-8", "surrogateescape")
    attempts = hook_files.read_file(path, _MAX_STATE_FILE, end=True) or b""
    if attempts.count(line) >= _MAX_ATTEMPTS:
        return False
    try:
        project.append(discovery.CACHE, discovery.CATCH_UP, line)
    except (OSError, hook_files.Unsure):
        return False  # the index cannot be written either
    return True


def join_answers(first: bytes, second: bytes) -> bytes:
    """Return the first answer with the context of the second one added. Either may be empty."""
    if not first or not second:
        return first or second
    import json  # few prompts ask to remember something

    joined = _parse_object(first)
    contexts = [_context_of(joined), _context_of(_parse_object(second))]
    joined["hookSpecificOutput"]["additionalContext"] = "\n".join(contexts)
    return json.dumps(joined, ensure_ascii=False).encode("utf-8", "replace")


def add_message(host: str, event: str, answer: bytes, message: str) -> bytes:
    """Return an answer that also tells the user something. The answer may be empty."""
    import json  # few answers have such a message

    members = _parse_object(answer)
    if host not in SILENT_HOSTS:
        shown = members.get("systemMessage")
        members["systemMessage"] = f"{shown}; {message}" if shown else f"Ralph: {message}"
    else:
        from ralph.core import render

        note = render.notes([message])
        context = note
        if "hookSpecificOutput" in members:
            context = f"{_context_of(members)}\n{note}"
        members["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    return json.dumps(members, ensure_ascii=False).encode("utf-8", "replace")


def _context_of(answer: Mapping[str, Any]) -> str:
    return str(answer["hookSpecificOutput"]["additionalContext"])


def _encode_answer(project: Project, event: str, text: str, memory: Recalled) -> bytes:
    answer: dict[str, object] = {}
    if project.settings.presence == "full":
        tokens = sum(cost for _, cost in memory.records)
        tokens += sum(pointer.tokens for pointer in memory.pointers)
        count = len(memory.records) + len(memory.pointers)
        answer["systemMessage"] = f"Ralph: {count} given, {tokens} tokens"
    answer["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": text}
    return _encode_object(answer)


def _encode_object(members: Mapping[str, object]) -> bytes:
    return _format_json(members).encode("utf-8", "replace")


def _format_json(value: object) -> str:
    """Format an object, a text or an integer as JSON. The module `json` takes longer to load."""
    if isinstance(value, str):
        return f'"{value.translate(_JSON_ESCAPES)}"'
    if isinstance(value, dict):
        members = [f"{_format_json(name)}: {_format_json(value[name])}" for name in value]
        return "{" + ", ".join(members) + "}"
    return str(value)


# --- what an event asks -------------------------------------------------------------------------

_REDACTION_MARKER = "[redacted: "
_GEMINI_CONTEXTS = ("<hook_context>", "<session_context>")
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
"""Tools, on any host, that read or change the files they name."""
_PATH_MEMBERS = ("file_path", "notebook_path", "path", "absolute_path")
_PATCH_MEMBERS = ("command", "input", "patch")
_PATCH_LINES = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MAX_PATCHED_FILES = 8


def _read_request(host: str, moment: str, payload: Payload, project: Project) -> _Request:
    """Return what to look up for an event. The request is empty if there is nothing to look up."""
    if moment == "SubagentStart":
        return _Request(question=_take_subagent_task(payload, project))
    if moment == "UserPromptSubmit":
        return _Request(question=_question(host, payload))
    command = payload.object("tool_input").text("command")
    return _Request(files=_touched_files(payload), command=command)


def _question(host: str, payload: Payload) -> str:
    """Return the person's prompt, without the markers left by redacted secrets."""
    from ralph.recall.prompt_recall import human_question  # only for prompts

    prompt = payload.text("prompt")
    if host == "gemini" and prompt.lstrip().startswith(_GEMINI_CONTEXTS):
        from ralph.capture.host_payloads import without_context  # only for one host

        prompt = without_context(prompt)
    first, *rest = prompt.split(_REDACTION_MARKER)
    return human_question(first + " ".join(part.partition("]")[2] for part in rest))


def _take_subagent_task(payload: Payload, project: Project) -> str:
    """Take the oldest untaken task for this type of subagent and return it, or "".

    The event that starts a subagent does not say its task, so the tasks are handed out in order.
    """
    session = session_name(payload.text("session_id"))
    agent_type = payload.text("agent_type")
    if not agent_type:
        return ""
    path = f"{project.state}/{discovery.SUBAGENTS}/{session}"
    tasks = []
    taken = 0
    for line in (hook_files.read_file(path, _MAX_STATE_FILE) or b"").split(b"\n"):
        entry = _parse_object(line)
        if entry.get("subagent_type") == agent_type:
            tasks.append(entry)
        if entry.get("taken") == agent_type:
            taken += 1
    if taken >= len(tasks):
        return ""
    mark = _encode_object({"taken": agent_type}) + b"\n"
    project.append(discovery.SUBAGENTS, session, mark)
    return f"{_text(tasks[taken], 'description')}\n{_text(tasks[taken], 'prompt')}"


def _parse_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object on a line, or {} if the line is anything else."""
    import json  # a prompt's answer parses nothing

    try:
        value = json.loads(line.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _touched_files(payload: Payload) -> list[str]:
    """Return the files that a tool call reads or changes."""
    if payload.text("tool_name") not in _FILE_TOOLS:
        return []
    parameters = payload.object("tool_input")
    names = [discovery.composed(name) for name in _texts(parameters, _PATH_MEMBERS)]
    if names:
        return names
    patch = payload.text("tool_input")
    patches = _texts(parameters, _PATCH_MEMBERS)
    if not patch and patches:
        patch = patches[0]
    return _patched_files(patch)[:_MAX_PATCHED_FILES]


def _texts(parameters: Payload, names: Sequence[str]) -> list[str]:
    return list(filter(None, map(parameters.text, names)))


def _patched_files(patch: str) -> list[str]:
    files = []
    for line in patch.split("\n"):
        if line.startswith(_PATCH_LINES):
            files.append(line.partition(": ")[2].strip())
    return files


# --- recall -------------------------------------------------------------------------------------


def _recall(
    connection: sqlite3.Connection,
    moment: str,
    request: _Request,
    error: str,
    options: RecallOptions,
) -> Recalled:
    if request.question:
        from ralph.recall import prompt_recall  # only for prompts

        return prompt_recall.recall_for_prompt(connection, request.question, options)
    from ralph.recall import action_recall  # only for actions

    files = list(request.files)
    if moment == "PreToolUse":
        return action_recall.before_action(connection, files, request.command, options)
    return action_recall.after_failure(connection, files, request.command, error, options)


def _recall_options(project: Project, session: str, env: Mapping[str, str]) -> RecallOptions:
    from ralph.recall import eligibility  # only when there is an index to ask

    settings = project.settings
    task = env.get("RALPH_TASK", "").encode("utf-8", "replace").decode("utf-8")
    since = ""
    if settings.recent:
        first_second = max(0, time.time() - settings.recent * _SECONDS_PER_DAY)
        since = time.strftime("%Y-%m-%d", time.gmtime(first_second))
    seen = _injected_names(project, session)
    return eligibility.RecallOptions(
        today=hook_files.timestamp()[:10],
        session=session,
        continues=_has_earlier_prompt(project, session, seen),
        seen=seen,
        learned=eligibility.parse_learned(_learned_text(project)),
        enabled=settings.enabled,
        types=settings.types,
        tags=settings.tags,
        since=since,
        task=task or project.task,
        citations=_load_citations(project),
        accepted_file=f"{discovery.user_folder('STATE', env)}/accepted",
        budget=eligibility.within_window(settings.window, settings.budget, settings.share),
    )


def _has_earlier_prompt(project: Project, session: str, seen: Collection[str]) -> bool:
    """Return whether a session has had a prompt before its newest one.

    After a compaction, the agent has forgotten earlier prompts, so they do not count.
    """
    from ralph.recall.eligibility import last_compaction

    if not session:
        return False
    path = f"{project.state}/{discovery.SESSIONS}/{session_name(session)}.jsonl"
    log = hook_files.read_file(path, _MAX_LOG_END, end=True) or b""
    compacted_at = last_compaction(seen).encode()
    begins_work = []
    for line in log.split(b"\n"):
        head, _, payload = line.partition(b'"payload": ')
        if not any(event in head for event in _PROMPT_EVENTS):
            continue
        at = head.partition(b'"at": "')[2].partition(b'"')[0]
        text = payload.partition(_PROMPT_MEMBER)[2].lstrip(b' "').partition(b'"')[0]
        begins_work.append(at > compacted_at and len(text) >= _MIN_PROMPT_BYTES)
    return any(begins_work[:-1])


def _load_citations(project: Project) -> CitationCache | None:
    from ralph.recall.eligibility import CITATIONS_BYTES, CITATIONS_FILE

    folder = f"{project.state}/{discovery.CACHE}"
    if project.worktree:
        folder = f"{project.state}/{discovery.TREE_CACHES}/{project.worktree}"
    verified = hook_files.read_file(f"{folder}/{CITATIONS_FILE}", CITATIONS_BYTES)
    if not verified:
        return None
    from ralph.recall.citation_cache import CitationCache  # only if there is a cache

    return CitationCache(project.root, verified)


def _learned_text(project: Project) -> str:
    """Return the file that lists what accepted memories were learned from, or ""."""
    path = f"{project.state}/{discovery.LOG}/{discovery.LEARNED}"
    learned = hook_files.read_file(path, _MAX_STATE_FILE) or b""
    return learned.decode("utf-8", "replace")


def _injected_names(project: Project, session: str) -> frozenset[str]:
    """Return the ids of the records and runs that a session has already been given."""
    if not session:
        return frozenset()
    path = f"{project.state}/{discovery.INJECTED}/{session_name(session)}"
    injected = hook_files.read_file(path, _MAX_STATE_FILE) or b""
    return frozenset(injected.decode("utf-8", "replace").split("\n"))


_HEARTBEAT = ".alive"  # the suffix of a run's heartbeat file
_MAX_HEARTBEAT_AGE = 60  # seconds after which a loop counts as ended; it writes every ten


def _running_loops(project: Project, seen: Collection[str]) -> list[str]:
    """Return the ids of running loops that the session has not been told about.

    A loop counts as running while its heartbeat file is recent.
    """
    folder = f"{project.state}/{discovery.HEARTBEATS}"
    runs = []
    try:
        for file in os.listdir(folder):
            if not file.endswith(_HEARTBEAT):
                continue
            run = file.removesuffix(_HEARTBEAT)
            age = time.time() - os.stat(f"{folder}/{file}").st_mtime
            is_running = age < _MAX_HEARTBEAT_AGE and session_name(run) == run
            if is_running and run not in seen:
                runs.append(run)
    except OSError:
        return []
    return sorted(runs)


# --- the ledger ---------------------------------------------------------------------------------


def _note_in_ledger(project: Project, session: str, event: str, memory: Recalled) -> None:
    """Append one line per injected record to the ledger."""
    now = hook_files.timestamp()
    items = [(record_id, tokens, memory.layer) for record_id, tokens in memory.records]
    items += [(pointer.row.id, pointer.tokens, _LINE_LAYER) for pointer in memory.pointers]
    lines = []
    for record_id, tokens, layer in items:
        injection = {
            "v": 1,
            "type": "injection",
            "at": now,
            "event": event,
            "layer": layer,
            "record": record_id,
            "session": session,
            "tokens": tokens,
        }
        lines.append(_encode_object(injection) + b"\n")
    if lines:
        project.append(discovery.LOG, "injections.jsonl", b"".join(lines))


def _note_as_seen(project: Project, session: str, memory: Recalled, runs: Sequence[str]) -> None:
    """Append what was injected to the session's list, so that it is injected only once."""
    names = [*runs, *(record_id for record_id, _ in memory.records)]
    names += [pointer.mark for pointer in memory.pointers]
    lines = [f"{name}\n" for name in names if "\n" not in name]
    project.append(
        discovery.INJECTED, session_name(session), "".join(lines).encode("utf-8", "replace")
    )
