"""Handle one event from a host: record it, answer it, or load all of Ralph for it.

The host is the coding agent that runs the hook, and the payload is the JSON object it sends. An
event is recorded as one raw line in the session's log, and that line is interpreted only when the
log is read. The top level of the payload is scanned without a parser, so an event without anything
private or secret imports neither `json` nor `re`.

This module and its imports are the recording tier of the hooks. Every event pays for it, so it must
not load `dataclasses`, `typing`, `pathlib`, `enum`, `inspect` or `contextlib`. `hooks.answer` is
the answering tier, and `hooks.events` handles the events that need all of Ralph (called the app
here). The exit code is always 0.
"""

from __future__ import annotations

import gc
import os
import sys

from ralph.lean import TYPE_CHECKING, discovery, hook_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from ralph.lean.hook_files import HookSettings, RecordingRules
    from ralph.lean.taint import Repository

    class SetDeadline(Protocol):
        """Make DeadlineExceeded be raised after some seconds of the clock or of the processor."""

        def __call__(self, seconds: float, processor_seconds: float | None = None) -> None:
            """Replace what an earlier call has set. 0 seconds mean never."""


RECORDED = (
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SubagentStop",
    "SessionEnd",
    "AfterTool",
    "BeforeAgent",
    "beforeSubmitPrompt",
)
"""Events that are recorded as raw log lines."""
ANSWERED = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "BeforeAgent",
    "AfterTool",
)
"""Events that are answered from the index."""
HANDLED = ("SessionStart", "PreCompact", "Stop", "AfterAgent", "PreCompress")
"""Events that need all of Ralph."""
_MESSAGE_EVENTS = ("Stop", "AfterAgent")
"""Events with the message that ends an agent's turn."""
_AGENT_EVENTS = ("SubagentStop", *_MESSAGE_EVENTS)
"""Events with the text of an agent."""
_RECORDED_FIRST = ("SessionStart", *_MESSAGE_EVENTS)
"""Events that are recorded before all of Ralph is loaded for them."""
_PROMPT_EVENTS = ("UserPromptSubmit", "BeforeAgent")
_TYPED_EVENTS = (*_PROMPT_EVENTS, "beforeSubmitPrompt")
"""Events with text that a person has typed. Some hosts do not read an answer to theirs."""
_SETUP_EVENTS = ("SessionStart", *_TYPED_EVENTS)
"""Events that set up a repository if the user's config says so (`init.auto`)."""
_ONLY_RECORDED = ("PostToolUse", "SubagentStop")
"""Events that are recorded and nothing else, which needs no more than the privacy rules."""
_SUBAGENT_TOOLS = ("Agent", "Task")
_UNADAPTED_HOSTS = ("claude", "codex", "gemini")  # payloads need no adapter

# Seconds of the clock after which an event on a slow path gives up, before its host would kill it.
# On a busy machine, an event that needs 0.2 seconds of the processor can take 15 seconds.
_DEADLINE_SECONDS = 8.0
_HANDLING_SECONDS = 16.0
_STARTING_SECONDS = 25.0
_SESSION_END_SECONDS = 0.5  # some hosts wait for 1.5 seconds, whatever our timeout is
_INDEXING_SECONDS = 4.0  # for memories that the index lacks, before an answer
_LAST_SECONDS = 2.0  # to store an event without its texts
_PROCESSOR_SECONDS = 5.0  # that an event may use, however long the machine takes to provide them
_NO_DEADLINE = 0.0
_REDACTION_SECONDS = (1.0, 0.4, 0.2)
"""Seconds of the processor for redaction.

The first is for the first attempt, the others are for attempts without the patterns that were too
slow. Only the user's own patterns are dropped this way.
"""
_LOCK_SECONDS = 0.5  # how long the app waits for each lock
_OBJECTS_PER_COLLECTION = 500_000  # more than a session's start creates; the default is 700

_READ_BYTES = 1 << 16  # to read from standard input at a time; what a pipe holds on Linux
_MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
_HEAD_BYTES = 64 * 1024
"""How much of a payload over the maximum is scanned. It is stored without its texts."""


def main(arguments: list[str]) -> None:
    """Handle one event and end the process."""
    answer = b""
    if arguments == ["statusline"]:
        from ralph.hooks import statusline

        statusline.main()
    elif len(arguments) == 2 or arguments[2:] == ["--plugin"]:
        host = arguments[0]
        event = arguments[1]
        is_plugin = len(arguments) > 2
        if not is_plugin or not _is_installed_twice(event):
            raw, is_cut = _read_input()
            answer = run_event(host, event, raw, os.environ, _set_deadline, cut=is_cut)
    if sys.platform == "win32":
        answer = escape_non_ascii(answer)
    try:
        while answer:
            answer = answer[os.write(1, answer) :]
    except OSError:
        pass
    os._exit(0)  # shutting the interpreter down normally takes longer than recording did


def escape_non_ascii(answer: bytes) -> bytes:
    """Return a JSON text in ASCII.

    On Windows, the shell between a host and its hook may decode the answer with the console's code
    page instead of UTF-8.
    """
    if answer.isascii():
        return answer
    pieces = []
    for character in answer.decode("utf-8", "replace"):
        if character.isascii():
            pieces.append(character)
            continue
        units = character.encode("utf-16-be").hex()
        pieces += [f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)]
    return "".join(pieces).encode()


def _read_input() -> tuple[bytes, bool]:
    """Return the payload from standard input, and whether it was too large and is cut off."""
    pieces = []
    size = 0
    while piece := os.read(0, _READ_BYTES):
        size += len(piece)
        if size <= _MAX_PAYLOAD_BYTES:  # keep reading in any case, so that the host does not block
            pieces.append(piece)
    return b"".join(pieces), size > _MAX_PAYLOAD_BYTES


def ignore_deadline(seconds: float, processor_seconds: float | None = None) -> None:
    """Set no deadline."""


def run_event(
    host: str,
    event: str,
    raw: bytes,
    env: Mapping[str, str],
    set_deadline: SetDeadline = ignore_deadline,
    *,
    cut: bool = False,
) -> bytes:
    """Handle an event and return what to print.

    Failures are counted and never raised, so that the agent's session goes on. `set_deadline` is
    called with the seconds left before anything slow. `cut` says that the end of `raw` is missing.
    """
    if env.get("RALPH_DISABLE") == "1":
        return b""
    project = None
    is_adapted = host not in _UNADAPTED_HOSTS and not cut
    try:
        if is_adapted:
            from ralph.hooks import adapters

            event, raw = adapters.read_payload(host, event, raw)
        payload = Payload(raw[:_HEAD_BYTES], cut=True) if cut else Payload(raw)
        project = Project(_event_folder(payload, env))
        answer = _handle(host, event, payload, project, env, set_deadline)
        if answer and is_adapted:
            return adapters.write_answer(host, answer)
        return answer
    except BaseException as error:  # noqa: BLE001 - a host would act on any message or exit code
        try:
            if project is not None and project.root:
                project.count_failure(event, f"{type(error).__name__}: {error}")
        except BaseException:  # noqa: BLE001, S110 - there is nowhere else to report it
            pass
        return b""


def _event_folder(payload: Payload, env: Mapping[str, str]) -> str:
    """Return the folder of an event: the host's project, its working folder, or else our own."""
    for folder in (env.get("CLAUDE_PROJECT_DIR") or "", payload.text("cwd")):
        if os.path.isabs(folder) and "\0" not in folder:
            return discovery.with_slashes(folder)
    return discovery.with_slashes(os.getcwd())


def _handle(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
) -> bytes:
    """Record and answer an event, and return what to print."""
    if event not in RECORDED + ANSWERED + HANDLED:
        return b""
    if not project.root:
        problem = _set_up(event, project, env, set_deadline)
        if not project.root:
            return _handle_outside(host, event, payload, project, env, set_deadline, problem)
    if os.path.exists(f"{project.state}/{discovery.LOG}/paused"):
        return b""
    if event in HANDLED:
        return _record_and_handle(host, event, payload, project, env, set_deadline)
    typed = payload
    is_current = project.load_settings(env) is not None
    has_rules = is_current or (event in RECORDED and project.load_recording_rules(env))
    if event in RECORDED and has_rules:
        payload = _record(host, event, payload, project, env, set_deadline)
    if not is_current:
        if has_rules and event in _ONLY_RECORDED:
            return b""  # the next event that is answered refreshes the cache
        if not _refresh_settings(event, project, env, set_deadline):
            return b""
        if event in RECORDED and not has_rules:
            payload = _record(host, event, payload, project, env, set_deadline)
    answer = _answer(host, event, typed, payload, project, env, set_deadline)
    if project.settings.problem and event in _PROMPT_EVENTS and not env.get("RALPH_RUN"):
        return _with_settings_problem(host, event, answer, project)
    return answer


def _answer(
    host: str,
    event: str,
    typed: Payload,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
) -> bytes:
    """Do what an event asks for, and return what to print.

    `typed` is the payload as the host sent it, `payload` the one that was stored.
    """
    if event in _TYPED_EVENTS and not env.get("RALPH_RUN"):
        remembered = _remember(host, event, typed, project, set_deadline)
        if remembered:
            return _answer_rest(host, event, payload, project, env, remembered)
    if event == "SessionEnd":
        _prepare_app(_seconds_for(event), set_deadline)
        from ralph.hooks.events import update_index

        update_index(project.root, event, project.rules.patterns, project.rules.paths)
        return b""
    starts_subagent = event == "PreToolUse" and payload.text("tool_name") in _SUBAGENT_TOOLS
    if starts_subagent:
        _store_subagent_task(event, payload, project, set_deadline)
        return b""
    if not _wants_answer(event, project, env):
        return b""
    from ralph.hooks.answer import answer_event

    def index_memories() -> None:
        _index_memories(event, project, set_deadline)

    return answer_event(host, event, payload, project, env, index_memories)


def _with_settings_problem(host: str, event: str, answer: bytes, project: Project) -> bytes:
    """Add the line about settings that cannot be used, once for each change of their files."""
    if not hook_files.tell_once(project.boundary, project.state, project.settings.broken):
        return answer
    from ralph.hooks.answer import add_message

    return add_message(host, event, answer, project.settings.problem)


# --- outside projects ---------------------------------------------------------------------------


def _set_up(
    event: str,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
) -> str:
    """Set up the repository as a project, if the user's config says so for all repositories.

    Return why that failed, or "". After a failure, an event does not try again on the same day.
    """
    if event not in _SETUP_EVENTS or not discovery.wants_automatic_setup(env):
        return ""
    location = discovery.find_unset_up(project.folder, env)
    if location is None:
        return ""
    user_state = discovery.user_folder("STATE", env)
    failed_attempt = f"init.auto {event} {location.main}"
    if hook_files.is_told_today(user_state, failed_attempt):
        return ""
    _prepare_app(_seconds_for(event), set_deadline)
    from ralph.hooks.events import set_up_automatically

    problem = set_up_automatically(location.root, env)
    project.find(project.folder)
    if not project.root:
        hook_files.tell_daily(user_state, failed_attempt)
    return problem


def _handle_outside(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
    problem: str,
) -> bytes:
    """Handle an event outside projects, where the user's config may allow recording.

    A session that starts in a repository without Ralph says so, once a day. `problem` is why the
    repository could not be set up automatically.
    """
    if b"everywhere" in (hook_files.read_file(user_config(env)) or b""):
        return _handle_in_app(host, event, payload, project, env, set_deadline)
    if event != "SessionStart" or env.get("RALPH_RUN"):
        return b""
    location = discovery.find_unset_up(project.folder, env)
    if location is None:
        return b""
    user_state = discovery.user_folder("STATE", env)
    if not problem and hook_files.is_told_today(user_state, location.main):
        return b""
    _prepare_app(_seconds_for(event), set_deadline)
    from ralph.hooks.events import report_not_set_up

    report = report_not_set_up(host, event, env, problem)
    if not report:
        return b""
    is_new = hook_files.tell_daily(user_state, location.main)
    if not is_new and not problem:
        return b""
    return report.encode("utf-8", "replace")


def _wants_answer(event: str, project: Project, env: Mapping[str, str]) -> bool:
    if event in _PROMPT_EVENTS and env.get("RALPH_RUN"):
        return False  # the loop's own prompt already contains what memory knows
    return event in ANSWERED and project.settings.inject == "auto"


def _remember(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    set_deadline: SetDeadline,
) -> bytes:
    """Store what a prompt asks to remember, and return an answer that says so.

    The prompt is the one that was typed, because a redacted one would hide that it has a secret.
    """
    from ralph.core.remember import asks_to_forget, text_to_remember

    prompt = payload.text("prompt")
    text = text_to_remember(prompt, project.settings.remember)
    if not text and not asks_to_forget(prompt):
        return b""
    _prepare_app(_seconds_for(event), set_deadline)
    from ralph.hooks.events import remember_prompt

    return remember_prompt(
        project.root,
        host,
        event,
        text,
        session=payload.text("session_id"),
        patterns=project.rules.patterns,
    ).encode("utf-8", "replace")


def _answer_rest(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    remembered: bytes,
) -> bytes:
    """Add what relates to the other paragraphs of a prompt that asked to remember something."""
    has_other_paragraphs = "\n\n" in payload.text("prompt").strip().replace("\r", "")
    if not has_other_paragraphs or not _wants_answer(event, project, env):
        return remembered
    from ralph.hooks.answer import answer_event, join_answers

    return join_answers(remembered, answer_event(host, event, payload, project, env))


# --- the app and its deadlines ------------------------------------------------------------------


def _record_and_handle(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
) -> bytes:
    """Record an event if that is quick, and load all of Ralph for the rest.

    On a busy machine, loading may take longer than the host waits. If the user has patterns, the
    event is left to the app, which can limit the time of each of them.
    """
    if event not in _RECORDED_FIRST:
        return _handle_in_app(host, event, payload, project, env, set_deadline)
    has_rules = project.load_settings(env) is not None or project.load_recording_rules(env)
    if not has_rules or project.rules.patterns or not payload.text("session_id"):
        return _handle_in_app(host, event, payload, project, env, set_deadline)
    stored = _record(host, event, payload, project, env, set_deadline)
    return _handle_in_app(host, event, stored, project, env, set_deadline, is_recorded=True)


def _handle_in_app(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
    *,
    is_recorded: bool = False,
) -> bytes:
    if payload.cut and project.root and not is_recorded:
        payload = redact_in_time(payload, project, event, set_deadline) or payload
    _prepare_app(_seconds_for(event), set_deadline)
    from ralph.hooks.deadline import Deadline

    deadline = Deadline(set_deadline, _seconds_for(event))
    from ralph.hooks.events import handle_event

    printed = handle_event(
        project.folder,
        host,
        event,
        payload.raw,
        env=env,
        deadline=deadline,
        project=bool(project.root),
        is_recorded=is_recorded,
    )
    return printed.encode("utf-8", "replace")


def _refresh_settings(
    event: str, project: Project, env: Mapping[str, str], set_deadline: SetDeadline
) -> bool:
    """Refresh the settings cache and load it.

    Returns False if there are still no current settings.
    """
    _prepare_app(_seconds_for(event), set_deadline)
    from ralph.hooks.events import refresh_settings

    refresh_settings(project.root, event, env)
    if project.load_settings(env) is None:
        project.count_failure(event, "the settings cache cannot be written")
        return False
    return True


def _index_memories(event: str, project: Project, set_deadline: SetDeadline) -> None:
    """Add the memories that the index lacks, as far as the time allows."""
    from ralph.core.errors import DeadlineExceeded  # few prompts have to index anything

    try:
        _prepare_app(_INDEXING_SECONDS, set_deadline)
        from ralph.hooks.events import index_memories

        index_memories(project.root, event, project.rules.patterns, project.rules.paths)
    except DeadlineExceeded:
        pass  # the answer comes from the index as it is
    finally:
        set_deadline(_NO_DEADLINE)


def _prepare_app(seconds: float, set_deadline: SetDeadline) -> None:
    """Set the deadline, enable garbage collection, and make installed packages importable.

    The interpreter was started with `-S`, which leaves them out. Collections are rare, because what
    is imported is never garbage.
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    gc.enable()
    set_deadline(seconds)
    if "site" not in sys.modules:
        import site

        site.main()
        from ralph.storage import files

        files.set_patience(_LOCK_SECONDS)


def _seconds_for(event: str) -> float:
    if event == "SessionEnd":
        return _SESSION_END_SECONDS
    if event == "SessionStart":
        return _STARTING_SECONDS
    if event in HANDLED:
        return _HANDLING_SECONDS
    return _DEADLINE_SECONDS


def _set_deadline(seconds: float, processor_seconds: float | None = None) -> None:
    """Raise DeadlineExceeded after `seconds`, or never if that is 0.

    It is raised earlier if the process has used the processor for `processor_seconds`, by default
    `_PROCESSOR_SECONDS`. A later call replaces an earlier one.
    """
    from ralph.core.alarms import Clock, set_alarm  # loads enum, which recording must not
    from ralph.core.errors import DeadlineExceeded

    def give_up() -> None:
        raise DeadlineExceeded("took too long and was given up")

    def give_up_working() -> None:
        error = DeadlineExceeded("needed too much processor time and was given up")
        error.used_processor = True
        raise error

    set_alarm(seconds, give_up)
    processor_limit = processor_seconds or _PROCESSOR_SECONDS
    set_alarm(processor_limit if seconds else _NO_DEADLINE, give_up_working, Clock.PROCESSOR)


# --- the plugin ---------------------------------------------------------------------------------

_MAX_HOST_SETTINGS = 1 << 22  # bytes
_HOOK_SCRIPTS = ("ralph/hooks/run.py", "ralph/bin/ralph-hook.py")


def _is_installed_twice(event: str) -> bool:
    """Check whether the user's settings also start our hook, so that the plugin skips the event."""
    for path in _host_settings():
        text = hook_files.read_file(path, _MAX_HOST_SETTINGS) or b""
        if b"ralph-hook" not in text and b"run.py" not in text:
            continue
        import json  # few users have both installed

        try:
            for group in json.loads(text)["hooks"][event]:
                if any(_can_start(hook) for hook in group["hooks"]):
                    return True
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return False


def _host_settings() -> list[str]:
    paths = []
    home = os.environ.get(discovery.HOME_VARIABLE)
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    if not folder and home:
        folder = f"{home}/.claude"
    if folder:
        paths.append(f"{folder}/settings.json")
    project = os.environ.get("CLAUDE_PROJECT_DIR")
    if project:
        paths.append(f"{project}/.claude/settings.json")
        paths.append(f"{project}/.claude/settings.local.json")
    return paths


def _can_start(hook: Mapping[str, object]) -> bool:
    """Check whether a hook is ours and can run.

    It names either a launcher, or an interpreter and a script (`run.py`, or on Windows the
    launcher), all of which must be usable.
    """
    command = hook.get("command")
    if isinstance(command, str) and command.endswith("/ralph/bin/ralph-hook"):
        return _can_start_launcher(command)
    arguments = hook.get("args")
    if not isinstance(arguments, list):
        return False
    words = [discovery.with_slashes(word) for word in arguments if isinstance(word, str)]
    runners = [word for word in words if word.endswith(_HOOK_SCRIPTS)]
    if not runners:
        return False
    if isinstance(command, str):
        words.append(command)
    programs = [word for word in words if os.path.isabs(word) and word != runners[0]]
    return bool(programs) and os.access(runners[0], os.R_OK) and all(map(_is_program, programs))


def _can_start_launcher(launcher: str) -> bool:
    note = hook_files.read_file(launcher.removesuffix("bin/ralph-hook") + "interpreter") or b""
    python, _, rest = note.decode("utf-8", "surrogateescape").partition("\n")
    runner = rest.partition("\n")[0]
    # The launcher looks for run.py in the interpreter's environment, where the plugin found us.
    environment = python.rpartition("/bin/")[0]
    has_runner = os.access(runner, os.R_OK) or __file__.startswith(f"{environment}/lib/")
    return has_runner and os.access(launcher, os.X_OK) and os.access(python, os.X_OK)


def _is_program(path: str) -> bool:
    return "\0" not in path and os.access(path, os.X_OK)


# --- the payload --------------------------------------------------------------------------------

_ESCAPES = (
    ('\\"', '"'),
    ("\\n", "\n"),
    ("\\t", "\t"),
    ("\\r", "\r"),
    ("\\/", "/"),
    ("\\b", "\b"),
    ("\\f", "\f"),
)
_PLAIN_SEPARATORS = (b":", b",", b": ", b", ")  # between two strings; these do not change the depth
_COMMA = ord(",")
_COLON = ord(":")


class Payload:
    """A JSON object as bytes, with the positions of its top-level members.

    `members` maps each name to the start and end of its value. It is empty if the bytes are not an
    object. Values are not parsed until they are asked for. `cut` says that the end is missing, in
    which case `members` has only those that are complete.
    """

    __slots__ = ("cut", "members", "raw")

    def __init__(self, raw: bytes, *, cut: bool = False) -> None:
        self.cut = cut
        raw = raw.strip(b" \t\r\n")
        if b"\n" in raw or b"\r" in raw:  # only between members: JSON escapes them in strings
            raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
        self.raw = raw
        self.members = _scan_members(raw, cut=cut)

    def value(self, name: str) -> bytes:
        """Return a member's raw JSON, or b"" if there is no such member."""
        start, end = self.members.get(name, (0, 0))
        return self.raw[start:end].strip(b" \t")

    def text(self, name: str) -> str:
        """Return a member's string, or "" if it is missing or not a string."""
        return _decode_string(self.value(name))

    def object(self, name: str) -> Payload:
        """Return a member that is an object, or an empty payload if it is not one."""
        return Payload(self.value(name))


def _scan_members(raw: bytes, *, cut: bool = False) -> dict[str, tuple[int, int]]:
    """Return the start and end of each top-level member's value.

    Returns {} for anything but a complete object. If `cut`, the object may be incomplete.
    """
    if not raw.startswith(b"{"):
        return {}
    if not cut and not raw.endswith(b"}"):
        return {}
    # With escaped backslashes and quotes masked, every second piece between quotes is a string.
    pieces = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    scanner = _MemberScanner(raw)
    position = 0
    is_text = False
    for piece in pieces:
        if is_text:
            scanner.read_text(position, position + len(piece))
        elif scanner.depth < 2 or piece not in _PLAIN_SEPARATORS:
            scanner.read_structure(piece, position)
        position += len(piece) + 1
        is_text = not is_text
    is_complete = scanner.depth == 0 and len(pieces) % 2 == 1
    if cut or is_complete:
        return scanner.members
    return {}


class _MemberScanner:
    """Collects the members of the outermost object as its pieces are read in order."""

    __slots__ = ("_key", "_raw", "_value_start", "depth", "members")

    def __init__(self, raw: bytes) -> None:
        self.depth = 0
        self.members: dict[str, tuple[int, int]] = {}
        self._raw = raw
        self._key = b""
        self._value_start = 0  # 0 while a member's name is expected

    def read_text(self, start: int, end: int) -> None:
        if self.depth == 1 and not self._value_start:
            self._key = self._raw[start - 1 : end + 1]

    def read_structure(self, piece: bytes, start: int) -> None:
        for position, byte in enumerate(piece, start):
            if byte in b"{[":
                self.depth += 1
            elif byte in b"}]":
                self._end_value(position)
                self.depth -= 1
            elif byte == _COMMA:
                self._end_value(position)
            elif byte == _COLON and self.depth == 1:
                self._value_start = position + 1

    def _end_value(self, position: int) -> None:
        if self.depth == 1 and self._value_start:
            self.members[_decode_string(self._key)] = (self._value_start, position)
            self._value_start = 0


def _decode_string(value: bytes) -> str:
    """Return the text of a JSON string, or "" for any other value."""
    if len(value) < 2 or value[:1] != b'"':
        return ""
    text = value[1:-1].decode("utf-8", "replace")
    if "\\" not in text:
        return text
    if "\\u" in text:
        import json  # few texts have such an escape

        try:
            return str(json.loads(value))
        except ValueError:
            return ""
    return _unescape(text)


def _unescape(text: str) -> str:
    """Resolve JSON escapes, except for `\\u`."""
    if "\\" in text:
        text = text.replace("\\\\", "\0")
        for escape, character in _ESCAPES:
            if "\\" not in text:
                break
            text = text.replace(escape, character)
        text = text.replace("\0", "\\")
    return text


def _encode(value: object) -> Payload:
    """Encode a JSON object as a payload on one line."""
    import json  # most events do not need it

    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Payload(line.encode("utf-8", "replace"))


# --- the project --------------------------------------------------------------------------------


class Project:
    """The project in which an event happened.

    `root` is the project's root folder, and `folder` is the same. Outside projects, `root` is "",
    `folder` is where the event happened, and nothing else is set.
    """

    __slots__ = (
        "boundary",
        "folder",
        "index",
        "main",
        "root",
        "rules",
        "settings",
        "state",
        "task",
        "worktree",
    )

    rules: RecordingRules
    settings: HookSettings

    def __init__(self, folder: str) -> None:
        self.find(folder)

    def find(self, folder: str) -> None:
        """Set everything for the project that contains a folder."""
        self.root = discovery.find_root(folder)
        self.folder = self.root or folder
        if self.root:
            location = discovery.locate(self.root)
            self.main = location.main
            self.worktree = location.worktree
            self.task = location.task
            self.state = location.state
            self.index = location.index
            self.boundary = location.boundary

    def append(self, folders: str, name: str, line: bytes) -> None:
        """Append one line to a file below the state folder, without following symbolic links.

        Raises OSError or `hook_files.Unsure`.
        """
        state = self.state[len(self.boundary) + 1 :]
        hook_files.append(self.boundary, (*state.split("/"), *folders.split("/")), name, line)

    def load_settings(self, env: Mapping[str, str]) -> HookSettings | None:
        """Set `settings` from the cache and return them, or None if the cache is out of date."""
        settings = hook_files.read_settings(self._settings_cache, self.root, env, user_config(env))
        if settings is None:
            return None
        self.settings = settings
        self._use_rules(settings.rules)
        return settings

    def load_recording_rules(self, env: Mapping[str, str]) -> bool:
        """Set `rules` without a current cache. Returns False if only the app can tell the rules."""
        rules = hook_files.read_recording_rules(
            self._settings_cache, self.root, env, user_config(env), self.main
        )
        if rules is None:
            return False
        self._use_rules(rules)
        return True

    def count_failure(self, event: str, problem: str) -> None:
        """Count a failure of a hook, creating the file to count in if necessary."""
        hook_files.count_failure(self.state, event, problem, top=self.boundary)

    @property
    def _settings_cache(self) -> str:
        path = f"{self.state}/{discovery.CACHE}/hook"
        if self.worktree:
            return f"{path}-{os.stat(self.root).st_ino}"
        return path

    def _use_rules(self, rules: RecordingRules) -> None:
        if rules.patterns:
            rules.switch_off(hook_files.slow_patterns(self.state))
        self.rules = rules


def user_config(env: Mapping[str, str]) -> str:
    """Return the path of the user's config file, or "" without a home folder."""
    folder = discovery.user_folder("CONFIG", env)
    if not folder:
        return ""
    return f"{folder}/config.yml"


# --- recording ----------------------------------------------------------------------------------

_HOST_MEMBERS = ("session_id", "transcript_path", "cwd", "tool_use_id")
"""Members that the host fills in. They are not searched for secrets."""
_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_MAX_ID = 80
_MAX_ITERATION_DIGITS = 9


def _record(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: SetDeadline,
) -> Payload:
    """Redact an event, append it to its session's log, and return the payload as stored.

    The payload is empty for an event about a private path. Raises ValueError if the payload is not
    an object.
    """
    if not payload.members:
        raise ValueError("the payload is not a JSON object")
    if not payload.text("session_id"):
        return payload
    taint = _find_taint(host, event, payload, project)
    stored: Payload | None
    if _check_forget(event, payload, project):
        stored = _without_texts(payload, forgets=True)
    else:
        stored = redact_in_time(payload, project, event, set_deadline)
    if stored is None:
        if taint:
            _append_taint(host, payload, project, env, taint)
        return Payload(b"{}")
    append_event(host, event, stored, project, env, taint=taint)
    return stored


def _store_subagent_task(
    event: str, payload: Payload, project: Project, set_deadline: SetDeadline
) -> None:
    """Store what a subagent is asked to do, because the event that starts it does not say so."""
    if _check_forget(event, payload, project):
        return
    stored = redact_in_time(payload, project, event, set_deadline)
    if stored is not None:
        name = session_name(payload.text("session_id"))
        project.append(discovery.SUBAGENTS, name, stored.value("tool_input") + b"\n")


def append_event(
    host: str,
    event: str,
    stored: Payload,
    project: Project,
    env: Mapping[str, str],
    *,
    taint: str = "",
) -> bool:
    """Append a payload to its session's log.

    If that is impossible, the failure is counted and the result is False.
    """
    head = _envelope_head(host, event, project, env)
    if taint:
        head += f', "taint": "{taint}"'
    line = head.encode() + b', "payload": ' + stored.raw + b"}\n"
    name = f"{session_name(stored.text('session_id'))}.jsonl"
    try:
        _append_line(project, name, line)
    except Exception as error:  # noqa: BLE001 - store the event whatever the log's problem is
        try:
            hook_files.spill(project.state, name, line)
        except (OSError, hook_files.Unsure):
            reason = getattr(error, "strerror", "") or error
            project.count_failure(event, f"cannot append: {reason}")
            return False
    return True


def _envelope_head(host: str, event: str, project: Project, env: Mapping[str, str]) -> str:
    """Return the beginning of a log line: a JSON object up to, but without, its payload."""
    run = env.get("RALPH_RUN", "")
    iteration = env.get("RALPH_ITERATION", "")
    task = env.get("RALPH_TASK") or project.task
    head = f'{{"v": 1, "type": "event", "at": "{hook_files.timestamp()}"'
    head += f', "host": "{host}", "event": "{event}"'
    if _is_id(run):
        head += f', "run": "{run}"'
    is_number = iteration.isascii() and iteration.isdecimal()
    if is_number and len(iteration) <= _MAX_ITERATION_DIGITS:
        head += f', "iteration": {int(iteration)}'
    if _is_id(task):
        head += f', "task": "{task}"'
    return head + f', "rules": "{project.rules.mark}"'


def _append_line(project: Project, name: str, line: bytes) -> None:
    try:
        project.append(discovery.SESSIONS, name, line)
    except hook_files.Unsure:
        from pathlib import Path  # only for links and file systems without locks

        from ralph.storage import files

        path = Path(project.state, discovery.SESSIONS, name)
        files.append(path, line.decode("utf-8", "replace"), root=Path(project.boundary))


def session_name(session: str) -> str:
    """Return the name of a session's files. An unusual id is hashed, so it cannot act as a path."""
    is_plain = len(session) <= _MAX_ID and _ID_CHARACTERS.issuperset(session)
    if is_plain and not discovery.is_device_name(session):
        return session
    from ralph.core import ids  # few sessions have such an id

    return ids.derived("session", session)


def _is_id(name: str) -> bool:
    if not name or len(name) > _MAX_ID or not name.isascii():
        return False
    letters = name.replace("-", "")
    return letters == "" or letters.isalnum()


# --- redaction ----------------------------------------------------------------------------------

_MAX_UNREDACTED_BYTES = 16 * 1024
"""A larger payload is redacted and shortened even if nothing in it looks private."""
READING_TOOLS = frozenset(
    {
        "Read",
        "NotebookRead",
        "Grep",
        "Glob",
        "LS",
        "WebSearch",
        "ToolSearch",
        "WebFetch",
        "read_file",
        "view_image",
        "grep_files",
        "list_dir",
        "web_search",
        "read_many_files",
        "list_directory",
        "glob",
        "search_file_content",
        "grep_search",
        "google_web_search",
        "web_fetch",
    }
)
"""Tools that return files or web pages. Only their parameters are recorded, not the results."""
_RESULT_FLAGS = ("interrupted", "isError", "is_error")
_PATH_MEMBERS = ("file_path", "notebook_path", "path", "absolute_path")
_MAX_EXIT_LINE = 19  # characters in a line such as `Exit code 127`


def redact_in_time(
    payload: Payload, project: Project, event: str, set_deadline: SetDeadline
) -> Payload | None:
    """Return the payload in a form that may be stored, or None if it is about a private path.

    If the rules do not finish in time, the payload loses its texts. A user's pattern that takes too
    long is switched off on this machine, and the event is redacted again. Our own rules need no
    timer for a small payload: the worst text of that size takes a third of a second.
    """
    if payload.cut:
        return _give_up_redaction(payload, project, event, set_deadline)
    payload = _without_read_results(payload)
    rules = project.rules
    if not _needs_redaction(payload, rules):
        return payload
    has_user_rules = bool(rules.patterns or rules.paths)
    if len(payload.raw) <= _MAX_UNREDACTED_BYTES and not has_user_rules:
        return _redacted(payload, rules)
    from ralph.core.errors import DeadlineExceeded  # only where the rules may take long

    event_seconds = _seconds_for(event)
    for processor_seconds in _REDACTION_SECONDS:
        set_deadline(event_seconds, processor_seconds)
        try:
            stored = _redacted(payload, rules)
        except DeadlineExceeded as error:
            if not error.pattern or not error.used_processor:
                break
            problem = f"privacy.patterns: {error.pattern} took too long"
            project.count_failure(event, problem)
            hook_files.switch_off_pattern(project.boundary, project.state, error.pattern)
            rules.switch_off({error.pattern})
        else:
            set_deadline(event_seconds)
            return stored
    return _give_up_redaction(payload, project, event, set_deadline)


def _give_up_redaction(
    payload: Payload, project: Project, event: str, set_deadline: SetDeadline
) -> Payload:
    set_deadline(_LAST_SECONDS)
    problem = "too large or too slow to redact: stored without its texts"
    project.count_failure(event, problem)
    return _without_texts(payload)


def _without_read_results(payload: Payload) -> Payload:
    """Drop the content that a tool has read. Only the fact that it was read is recorded."""
    if payload.text("tool_name") not in READING_TOOLS or "tool_response" not in payload.members:
        return payload
    start, end = payload.members["tool_response"]
    result = payload.raw[start:end].replace(b" ", b"")
    flags = []
    for name in _RESULT_FLAGS:
        if f'"{name}":true'.encode() in result:
            flags.append(f'"{name}": true')
    shorter = "{" + ", ".join(flags) + "}"
    return Payload(payload.raw[:start] + shorter.encode() + payload.raw[end:])


def _needs_redaction(payload: Payload, rules: RecordingRules) -> bool:
    """Check whether a payload may contain anything private, or is too long to store as it is."""
    from ralph.lean.secret_prefilter import may_match_glob, needs_rules  # only to record

    raw = payload.raw
    if len(raw) > _MAX_UNREDACTED_BYTES or rules.patterns:
        return True
    if b"\\u" in raw or b"NaN" in raw or b"Infinity" in raw:
        return True
    text = _unescape(_without_host_members(payload).decode("utf-8", "replace"))
    if needs_rules(text) or _prints_secret(payload):
        return True
    return bool(rules.paths) and may_match_glob(text, rules.paths)


def _prints_secret(payload: Payload) -> bool:
    """Check whether a command may have printed a secret that only the command reveals."""
    if "tool_response" not in payload.members and "error" not in payload.members:
        return False
    from ralph.lean.secret_prefilter import prints_secret  # only to record

    return prints_secret(" ".join(_list_texts(payload.object("tool_input"), _COMMAND_MEMBERS)))


def _without_host_members(payload: Payload) -> bytes:
    spans = [payload.members[name] for name in _HOST_MEMBERS if name in payload.members]
    raw = payload.raw
    for start, end in sorted(spans, reverse=True):  # from the end, so that positions stay valid
        raw = raw[:start] + raw[end:]
    return raw


def _redacted(payload: Payload, rules: RecordingRules) -> Payload | None:
    """Return the payload redacted and shortened, or None if it is about a private path.

    Raises TypeError if the payload is not an object.
    """
    import json  # most events do not need it

    from ralph.privacy.hook_payloads import redact_payload

    value = json.loads(payload.raw, parse_constant=lambda _: None)
    if not isinstance(value, dict):
        raise TypeError("the payload is not a JSON object")
    if rules.paths:
        from ralph.privacy.private_paths import mentions_private_path  # few projects have paths

        if mentions_private_path(value, rules.paths):
            return None
    return _encode(redact_payload(value, rules.patterns))


def _without_texts(payload: Payload, *, forgets: bool = False) -> Payload:
    """Reduce a payload to the host's own members, its tool, its file and its exit code.

    The file is left out if the secret rules would have to check it. If `forgets`, the prompt is
    replaced with a bare forget command.
    """
    from ralph.core.prompts import FORGET_COMMAND
    from ralph.lean.secret_prefilter import needs_rules

    members: dict[str, object] = {}
    for name in (*_HOST_MEMBERS, "hook_event_name", "tool_name"):
        members[name] = payload.text(name)
    path = _first_path(payload.object("tool_input"))
    if path and not needs_rules(path):
        members["tool_input"] = {"file_path": path}
    if forgets and "prompt" in payload.members:
        members["prompt"] = FORGET_COMMAND
    exit_line = payload.text("error").partition("\n")[0]
    if exit_line.startswith("Exit code ") and len(exit_line) <= _MAX_EXIT_LINE:
        members["error"] = exit_line
    return _encode({name: value for name, value in members.items() if value})


def _first_path(parameters: Payload) -> str:
    for name in _PATH_MEMBERS:
        path = parameters.text(name)
        if path:
            return path
    return ""


# --- taint --------------------------------------------------------------------------------------

_TOOL_EVENTS = ("PostToolUse", "PostToolUseFailure", "AfterTool")
_COMMAND_MEMBERS = ("command", "cmd", "script")
_READ_MEMBERS = (*_PATH_MEMBERS, "paths", "files", "include")
_WRITING_MARKS = (b">", b"tee ", b'"content"')  # in every event that writes a file
_TAINT_EVENT = "Taint"  # an event that says only that something foreign was read
_MAX_LOG_BYTES = 1 << 26  # of a session's log that is searched for a taint


def _find_taint(host: str, event: str, payload: Payload, project: Project) -> str:
    """Return what kind of foreign text an event is about, or "" if there is none.

    A tool call may have read it. An agent's message counts if its session has read something.
    """
    if event in _AGENT_EVENTS:
        return _taint_of_session(payload, project)
    if event not in _TOOL_EVENTS:
        return ""
    from ralph.lean import taint  # only for tool calls

    found = taint.taint_of_tool(host, payload.text("tool_name"))
    if found:
        return found
    repository = taint.Repository(
        project.root, payload.text("cwd") or project.root, payload.text("session_id")
    )
    found = _judge_call(payload, repository)
    if found == taint.OUTSIDE:
        _note_written(_read_log(payload, project), repository)
        repository.folder = payload.text("cwd") or project.root
        found = _judge_call(payload, repository)
    return found


def _judge_call(payload: Payload, repository: Repository) -> str:
    """Return the taint of what a tool call reads: the files or the command that it names."""
    from ralph.lean import taint

    parameters = payload.object("tool_input")
    paths = _list_texts(parameters, _READ_MEMBERS)
    if paths:
        return taint.taint_of_paths(payload.text("tool_name"), paths, repository)
    command = " ".join(_list_texts(parameters, _COMMAND_MEMBERS))
    if not command or not taint.may_be_foreign(command, repository):
        return ""
    from ralph.lean.foreign_commands import taint_of_command  # few commands need it

    return taint_of_command(command, repository)


def _note_written(log: bytes, repository: Repository) -> None:
    """Note the files outside the repository that a session has written itself."""
    lines = [line for line in log.split(b"\n") if any(mark in line for mark in _WRITING_MARKS)]
    if not lines:
        return
    import json  # few sessions read files there

    from ralph.lean.foreign_commands import note_written

    for line in lines:
        try:
            payload = json.loads(line).get("payload") or {}
            parameters = payload.get("tool_input") or {}
            command = parameters.get("command")
            path = parameters.get("file_path")
        except (ValueError, AttributeError, RecursionError):
            continue
        repository.folder = str(payload.get("cwd") or "/")
        if isinstance(command, str):
            note_written(command, repository)
        elif isinstance(path, str) and "content" in parameters:
            repository.written.add(repository.resolve(path))


def _list_texts(parameters: Payload, names: tuple[str, ...]) -> list[str]:
    """Return the members with these names that are texts, and the texts in those that are lists."""
    texts = []
    for name in names:
        value = parameters.value(name)
        if value.startswith(b"["):
            import json  # few parameters are lists

            texts += [item for item in json.loads(value) if isinstance(item, str)]
        else:
            texts.append(_decode_string(value))
    return [text for text in texts if text]


def _taint_of_session(payload: Payload, project: Project) -> str:
    return hook_files.taint_in_log(_read_log(payload, project).decode("utf-8", "replace"))


def _read_log(payload: Payload, project: Project) -> bytes:
    """Return the log of an event's session, or b"" if there is none yet."""
    name = session_name(payload.text("session_id"))
    path = f"{project.state}/{discovery.SESSIONS}/{name}.jsonl"
    return hook_files.read_file(path, _MAX_LOG_BYTES) or b""


def _append_taint(
    host: str, payload: Payload, project: Project, env: Mapping[str, str], taint: str
) -> None:
    """Record that something foreign was read by an event that must not be recorded itself."""
    members = {name: payload.text(name) for name in ("session_id", "cwd")}
    append_event(host, _TAINT_EVENT, _encode(members), project, env, taint=taint)


# --- calls to `ralph forget` --------------------------------------------------------------------

_NEW_PROMPT = b"0\n"  # marks a later prompt, which ends the turn of the call
_FILE_TOOLS = READING_TOOLS.union(
    [
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "apply_patch",
        "write_file",
        "replace",
        "edit",
        "write",
    ]
)
"""Tools that read or change files, and so cannot call `ralph forget`."""


def _check_forget(event: str, payload: Payload, project: Project) -> bool:
    """Check whether an event may name what is being forgotten, and mark its turn if so."""
    name = session_name(payload.text("session_id"))
    marks = f"{project.state}/{hook_files.FORGETS}/{name}"
    forgets = _may_quote_forgotten(event, payload, marks) or _calls_forget(payload)
    if forgets:
        mark = hook_files.CALLED
    elif "prompt" in payload.members and os.path.exists(marks):
        mark = _NEW_PROMPT
    else:
        return False
    try:
        project.append(hook_files.FORGETS, name, mark)
    except (OSError, hook_files.Unsure) as error:  # the event itself is stored nevertheless
        problem = f"cannot note a call of `ralph forget`: {error}"
        project.count_failure(event, problem)
    return forgets


def _may_quote_forgotten(event: str, payload: Payload, marks: str) -> bool:
    """Check whether an event may quote the output of a `ralph forget` earlier in the turn."""
    is_late_output = payload.text("tool_name").endswith(("Output", "_stdin"))
    if event not in _AGENT_EVENTS and not is_late_output:
        return False
    last_mark = hook_files.read_file(marks, len(hook_files.CALLED), end=True)
    return last_mark == hook_files.CALLED


def _calls_forget(payload: Payload) -> bool:
    """Check whether an event calls `ralph forget` or `/mem-forget`, or quotes such a call."""
    tool = payload.text("tool_name")
    if b"forget" not in payload.raw.lower() or tool in _FILE_TOOLS:
        return False
    from ralph.core.prompts import PROSE, calls_forget  # few events contain the word

    if "ralph" in tool.lower() and "forget" in tool.lower():
        return True
    if calls_forget(_member_text(payload, "tool_input")):
        return True
    quoting = ["prompt", "last_assistant_message", "prompt_response"]
    has_command = not payload.object("tool_input").members.keys().isdisjoint(("command", "cmd"))
    if not has_command:  # such a tool may return what an earlier command printed
        quoting += ["tool_response", "error"]
    return any(calls_forget(_member_text(payload, name), PROSE) for name in quoting)


def _member_text(payload: Payload, name: str) -> str:
    """Return a member as text with its escapes resolved."""
    value = payload.value(name)
    if b"\\u" in value:
        import json  # few texts have such an escape

        value = json.dumps(json.loads(value), ensure_ascii=False).encode("utf-8", "replace")
    return _unescape(value.decode("utf-8", "replace"))
