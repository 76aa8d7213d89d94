"""Handle one event of a host: record it, answer it, or load the app for it.

The payload is stored as one raw line; what it means is worked out when the log is read. Its top level is scanned
without a parser, so that an event without anything private or secret imports neither `json` nor `re`; modules that
hooks load import neither dataclasses, typing, pathlib, enum, inspect nor contextlib. The exit code is always 0.
"""

from __future__ import annotations

import gc
import os
import sys

from ralph import discovery
from ralph.capture.secret_prefilter import may_match_glob, needs_rules
from ralph.lean import TYPE_CHECKING
from ralph.store import hook_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ralph.store.hook_files import HookSettings

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
ANSWERED = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "BeforeAgent",
    "AfterTool",
)
HANDLED = ("SessionStart", "PreCompact", "Stop", "AfterAgent", "PreCompress")
"""Events that are recorded as they are, that are answered from the index, and that the app handles."""
_RECORDING = 2.0
_ANSWERING = 3.0
_HANDLING = 5.0
_SECONDS = (
    dict.fromkeys(ANSWERED, _ANSWERING) | dict.fromkeys(HANDLED, _HANDLING) | {"SessionEnd": 1.2}
)
"""When an event that takes the slow path gives up, before its host ends it; recording takes 2 seconds at most."""
_LOCK_SECONDS = 0.5  # how long the app waits for each lock
_TRIES = (1.0, 0.4, 0.2)
"""Seconds for redaction: at first, and again without a pattern of the user's that took too long."""


def main(arguments: list[str]) -> None:
    """Handle one event and end the process."""
    answer = b""
    if arguments == ["statusline"]:
        from ralph.hooks import statusline

        statusline.main()
    elif len(arguments) == 2 or arguments[2:] == ["--plugin"]:
        host, event = arguments[:2]
        if not arguments[2:] or not _is_installed_twice(event):
            pieces = []
            size = 0
            while piece := os.read(0, 1 << 20):
                size += len(piece)
                if (
                    size <= _LARGEST
                ):  # the rest of a larger one is read, so that the host is not kept waiting
                    pieces.append(piece)
            answer = run_event(
                host, event, b"".join(pieces), os.environ, _set_deadline, cut=size > _LARGEST
            )
    try:
        while answer:
            answer = answer[os.write(1, answer) :]
    except OSError:
        pass
    os._exit(0)  # what an interpreter does before it ends takes longer than recording did


def run_event(
    host: str,
    event: str,
    raw: bytes,
    env: Mapping[str, str],
    set_deadline: Callable[[float], None] = lambda _: None,
    *,
    cut: bool = False,
) -> bytes:
    """Record an event and return what to print about it; whatever fails is counted, and the session goes on.

    `set_deadline` is called before anything slow, with the seconds that are left; `cut`: the end of `raw` is missing.
    """
    if env.get("RALPH_DISABLE") == "1":
        return b""
    state = ""
    is_adapted = host not in ("claude", "codex", "gemini")
    try:
        if is_adapted and not cut:
            from ralph.hooks import adapters  # the others send what we read

            event, raw = adapters.read_payload(host, event, raw)
        payload = Payload(raw[:_HEAD], cut=True) if cut else Payload(raw)
        folders = [env.get("CLAUDE_PROJECT_DIR") or "", payload.text("cwd")]
        valid = [folder for folder in folders if folder.startswith("/") and "\0" not in folder]
        project = Project(valid[0] if valid else os.getcwd())
        state = project.state if project.root else ""
        answer = _handle(host, event, payload, project, env, set_deadline)
        return adapters.write_answer(host, answer) if answer and is_adapted and not cut else answer
    except BaseException as error:  # noqa: BLE001 - a host would take any message or exit code as ours
        try:
            if state:
                hook_files.count_failure(state, event, f"{type(error).__name__}: {error}")
        except BaseException:  # noqa: BLE001, S110 - there is no other place to report it
            pass
        return b""


def _handle(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: Mapping[str, str],
    set_deadline: Callable[[float], None],
) -> bytes:
    if event not in RECORDED + ANSWERED + HANDLED:
        return b""
    # The user's config may let hooks act outside of projects only if it has the word.
    if not project.root and b"everywhere" not in (hook_files.read_file(_user_config(env)) or b""):
        return b""
    if project.root and os.path.exists(f"{project.state}/{discovery.LOG}/paused"):
        return b""
    seconds = _SECONDS.get(event, _RECORDING)
    if event in HANDLED or not project.root:
        if payload.cut and project.root:
            payload = _redact_in_time(payload, project, event, set_deadline) or payload
        _prepare_app(lambda: set_deadline(seconds))
        from ralph.app.hook import handle_event

        printed = handle_event(
            project.folder, host, event, payload.raw, env=env, project=bool(project.root)
        )
        return printed.encode("utf-8", "replace")
    if project.load_settings(env) is None:
        _prepare_app(lambda: set_deadline(seconds))
        from ralph.app.hook import refresh_settings

        refresh_settings(project.root, event, env)
        if project.load_settings(env) is None:
            return b""
    if event in RECORDED and project.settings.capture:
        if not payload.members:
            raise ValueError("the payload is no JSON object")
        if payload.text("session_id"):
            if _forgets(event, payload, project):
                stored: Payload | None = _without_texts(payload, forgets=True)
            else:
                stored = _redact_in_time(payload, project, event, set_deadline)
            if stored is not None:
                append_event(host, event, stored, project, env)
            payload = stored or Payload(b"{}")
    if event == "SessionEnd":
        _prepare_app(lambda: set_deadline(seconds))
        from ralph.app.hook import update_index

        update_index(project.root, event)
        return b""
    if (
        event == "PreToolUse"
        and payload.text("tool_name") in ("Agent", "Task")
        and project.settings.capture
    ):
        stored = (
            None
            if _forgets(event, payload, project)
            else _redact_in_time(payload, project, event, set_deadline)
        )
        if stored is not None:  # the event of the subagent's start does not say what it shall do
            name = session_name(payload.text("session_id"))
            project.append("cache/subagents", name, stored.value("tool_input") + b"\n")
        return b""
    in_loop = event in ("UserPromptSubmit", "BeforeAgent") and env.get("RALPH_RUN")
    if event not in ANSWERED or in_loop or project.settings.inject != "auto":
        return b""  # Ralph's own loop has put into its prompt what memory has
    from ralph.hooks.answer import answer_event

    return answer_event(host, event, payload, project, env)


def _prepare_app(set_deadline: Callable[[], None]) -> None:
    """Collect garbage again, and make installed packages importable, as they are without `-S`."""
    gc.enable()
    set_deadline()
    if "site" not in sys.modules:
        import site

        site.main()
        from ralph.store import files

        files.set_patience(_LOCK_SECONDS)


def _set_deadline(seconds: float) -> None:
    """Raise DeadlineExceeded after so many seconds; a later call replaces an earlier one."""
    import signal  # it loads enum, which recording must not

    from ralph.errors import DeadlineExceeded

    def give_up(_number: int, _frame: object) -> None:
        raise DeadlineExceeded("took too long and was given up")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _is_installed_twice(event: str) -> bool:
    """Check whether the user's settings start our hook as well: then the plugin leaves the event to them."""
    home = os.environ.get("HOME")
    project = os.environ.get("CLAUDE_PROJECT_DIR")
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or (f"{home}/.claude" if home else "")
    files = [f"{folder}/settings.json"] if folder else []
    if project:
        files += [f"{project}/.claude/settings.json", f"{project}/.claude/settings.local.json"]
    for text in [hook_files.read_file(file, 1 << 22) or b"" for file in files]:
        if b"ralph/bin/ralph-hook" not in text and b"ralph/hooks" not in text:
            continue
        import json  # few have both

        try:
            groups = json.loads(text)["hooks"][event]
            if any(_can_start(hook) for group in groups for hook in group["hooks"]):
                return True
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return False


def _can_start(hook: Mapping[str, object]) -> bool:
    """Check that the launcher, or the interpreter and the file, that a hook of ours names can be started."""
    words = hook.get("args")
    launcher = hook.get("command")
    if isinstance(launcher, str) and launcher.endswith("/ralph/bin/ralph-hook"):
        note = (hook_files.read_file(f"{launcher[:-14]}interpreter") or b"").decode(
            "utf-8", "surrogateescape"
        )
        python, runner = (*note.split("\n"), "", "")[:2]
        # the launcher looks for run.py in the interpreter's environment, as the plugin that started us did
        is_there = os.access(runner, os.R_OK) or __file__.startswith(
            f"{python.rpartition('/bin/')[0]}/lib/"
        )
        return is_there and os.access(launcher, os.X_OK) and os.access(python, os.X_OK)
    texts = [word for word in (words if isinstance(words, list) else []) if isinstance(word, str)]
    runner = next((word for word in texts if word.endswith("ralph/hooks/run.py")), "")
    command = hook.get("command")
    programs = [
        word
        for word in (command, *texts)
        if isinstance(word, str) and word.startswith("/") and word != runner
    ]
    can_run = bool(runner and programs) and os.access(runner, os.R_OK)
    return can_run and all(
        "\0" not in program and os.access(program, os.X_OK) for program in programs
    )


# --- the payload ---------------------------------------------------------------------------------

_ESCAPES = (
    ('\\"', '"'),
    ("\\n", "\n"),
    ("\\t", "\t"),
    ("\\r", "\r"),
    ("\\/", "/"),
    ("\\b", "\b"),
    ("\\f", "\f"),
)


class Payload:
    """A JSON object as bytes, with the positions of its own members; nested values are skipped.

    `members` is empty for anything that is not an object; spacing and order do not matter. `cut` says that the end is
    missing: then the members before it count.
    """

    __slots__ = ("cut", "members", "raw")

    def __init__(self, raw: bytes, *, cut: bool = False) -> None:
        self.cut = cut
        raw = raw.strip(b" \t\r\n")
        if b"\n" in raw or b"\r" in raw:  # only between members: inside of a text JSON has escapes
            raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
        self.raw = raw
        self.members = _scan_members(raw, cut=cut)

    def value(self, name: str) -> bytes:
        """Return a member as it is written, b"" when there is none."""
        start, end = self.members.get(name, (0, 0))
        return self.raw[start:end].strip(b" \t")

    def text(self, name: str) -> str:
        """Return a member that is a string, else ""."""
        return _decode_string(self.value(name))

    def object(self, name: str) -> Payload:
        """Return a member that is an object, else an empty one."""
        return Payload(self.value(name))


def _scan_members(raw: bytes, *, cut: bool = False) -> dict[str, tuple[int, int]]:
    """Return where the values of a JSON object's own members are; {} when it is not one object that is complete."""
    if not raw.startswith(b"{") or not (cut or raw.endswith(b"}")):
        return {}
    # Texts are every second piece between quotes, once escaped backslashes and quotes are covered.
    pieces = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    members: dict[str, tuple[int, int]] = {}
    depth = at = start = key_start = key_end = 0
    for number, piece in enumerate(pieces):
        if number % 2:
            if depth == 1 and not start:
                key_start = at
                key_end = at + len(piece)
        elif depth < 2 or piece not in (b":", b",", b": ", b", "):
            for offset, byte in enumerate(piece, at):
                if byte in b"{[":
                    depth += 1
                elif byte in b"}],":
                    if depth == 1 and start:
                        members[_decode_string(raw[key_start - 1 : key_end + 1])] = (start, offset)
                        start = 0
                    depth -= byte != 44
                elif byte == 58 and depth == 1:
                    start = offset + 1
        at += len(piece) + 1
    return members if cut or (depth == 0 and len(pieces) % 2) else {}


def _decode_string(value: bytes) -> str:
    """Return the text of a JSON string, "" for any other value."""
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
    """Resolve the escapes of JSON but for `\\u`."""
    if "\\" in text:
        text = text.replace("\\\\", "\0")
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
        text = text.replace("\0", "\\")
    return text


# --- the project ---------------------------------------------------------------------------------


class Project:
    """The project of an event: `folder` where it happened, `root` ("" outside of projects), state and settings."""

    __slots__ = ("boundary", "folder", "index", "root", "settings", "state", "task", "worktree")

    settings: HookSettings

    def __init__(self, folder: str) -> None:
        self.root = discovery.find_root(folder)
        self.folder = self.root or folder
        if self.root:
            location = discovery.locate(self.root)
            self.worktree = location.worktree
            self.task = location.task
            self.state = location.state
            self.index = location.index
            self.boundary = location.boundary

    def append(self, folders: str, name: str, line: bytes) -> None:
        """Append one line to a file below the state folder, without following a link on the way there."""
        state = self.state[len(self.boundary) + 1 :]
        hook_files.append(self.boundary, (*state.split("/"), *folders.split("/")), name, line)

    def load_settings(self, env: Mapping[str, str]) -> HookSettings | None:
        """Return the cached settings and remember them; None when they are out of date."""
        own = f"-{os.stat(self.root).st_ino}" if self.worktree else ""
        settings = hook_files.read_settings(
            f"{self.state}/cache/hook{own}", self.root, env, _user_config(env)
        )
        if settings is not None:
            self.settings = settings
            if settings.patterns:
                settings.switch_off(hook_files.slow_patterns(self.state))
        return settings


def _user_config(env: Mapping[str, str]) -> str:
    folder = discovery.user_folder("CONFIG", env)
    return f"{folder}/config.yml" if folder else ""


# --- recording ----------------------------------------------------------------------------------

_SMALL = 16 * 1024
_LARGEST = 32 * 1024 * 1024
_HEAD = 64 * 1024
"""A larger payload is redacted and shortened even if nothing in it looks private; of one over the second limit only the
head is read, and it is stored without its texts."""
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
"""Tools whose results are files and pages: only their parameters are recorded."""
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
"""Tools that read or change files: `ralph forget` is not called there."""
_HOST_MEMBERS = ("session_id", "transcript_path", "cwd", "tool_use_id")
"""Members that the host fills by itself: nothing is searched there."""
_PATH_MEMBERS = ("file_path", "notebook_path", "path", "absolute_path")
_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST_ID = 80


def append_event(
    host: str, event: str, stored: Payload, project: Project, env: Mapping[str, str]
) -> bool:
    """Append a payload to its session's log in our envelope; False when it cannot be written, which is counted."""
    run = env.get("RALPH_RUN", "")
    iteration = env.get("RALPH_ITERATION", "")
    task = env.get("RALPH_TASK")
    task = task or project.task
    head = f'{{"v": 1, "type": "event", "at": "{hook_files.timestamp()}", "host": "{host}", "event": "{event}"'
    head += f', "run": "{run}"' if _is_id(run) else ""
    if iteration.isascii() and iteration.isdecimal() and len(iteration) < 10:
        head += f', "iteration": {int(iteration)}'
    head += f', "task": "{task}"' if _is_id(task) else ""
    head += f', "rules": "{project.settings.rules}"'
    line = head.encode() + b', "payload": ' + stored.raw + b"}\n"
    name = f"{session_name(stored.text('session_id'))}.jsonl"
    try:
        try:
            project.append(f"{discovery.LOG}/sessions", name, line)
        except hook_files.Unsure:
            from pathlib import Path  # for links and file systems without locks

            from ralph.store import files

            path = Path(project.state, discovery.LOG, "sessions", name)
            files.append(path, line.decode("utf-8", "replace"), root=Path(project.boundary))
    except Exception as error:  # noqa: BLE001 - whatever keeps the log from growing, the event is stored
        try:
            hook_files.spill(project.state, name, line)
        except (OSError, hook_files.Unsure):
            hook_files.count_failure(
                project.state, event, f"cannot append: {getattr(error, 'strerror', '') or error}"
            )
            return False
    return True


def session_name(session: str) -> str:
    """Return the name of a session's files; an unusual id does not become a path."""
    if len(session) <= _LONGEST_ID and _ID_CHARACTERS.issuperset(session):
        return session
    from ralph.model import ids  # few sessions have such an id

    return ids.derived("session", session)


def _is_id(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_ID and name.isascii() and (name.replace("-", "") or "0").isalnum()
    )


def stored_payload(payload: Payload, settings: HookSettings) -> Payload | None:
    """Return the payload as it may be stored; None for an event about a private path."""
    payload = _without_read_results(payload)
    return _redacted(payload, settings) if _needs_redaction(payload, settings) else payload


def _redact_in_time(
    payload: Payload, project: Project, event: str, set_deadline: Callable[[float], None]
) -> Payload | None:
    """Return the payload as it may be stored; without its texts if the rules do not end in time.

    A pattern of the user's that takes too long is switched off on this machine, and the event is redacted again. Our
    own rules need no timer for a small payload: the worst text of that size takes them a third of a second.
    """
    if not payload.cut:
        payload = _without_read_results(payload)
        if not _needs_redaction(payload, project.settings):
            return payload
        if len(payload.raw) <= _SMALL and not (project.settings.patterns or project.settings.paths):
            return _redacted(payload, project.settings)
    from ralph.errors import DeadlineExceeded  # only where the rules run

    for seconds in () if payload.cut else _TRIES:
        set_deadline(seconds)
        try:
            stored = _redacted(payload, project.settings)
        except DeadlineExceeded as error:
            if not error.pattern:
                break
            hook_files.count_failure(
                project.state, event, f"privacy.patterns: {error.pattern} took too long"
            )
            hook_files.switch_off_pattern(project.boundary, project.state, error.pattern)
            project.settings.switch_off({error.pattern})
        else:
            set_deadline(_SECONDS.get(event, _RECORDING) - seconds)
            return stored
    set_deadline(_RECORDING - sum(_TRIES))
    hook_files.count_failure(
        project.state, event, "too large or too slow to redact: stored without its texts"
    )
    return _without_texts(payload)


def _without_read_results(payload: Payload) -> Payload:
    """Leave out what a tool has read: only that it was read is recorded."""
    if payload.text("tool_name") not in READING_TOOLS or "tool_response" not in payload.members:
        return payload
    start, end = payload.members["tool_response"]
    result = payload.raw[start:end].replace(b" ", b"")
    flags = [
        name
        for name in ("interrupted", "isError", "is_error")
        if f'"{name}":true'.encode() in result
    ]
    shorter = ", ".join(f'"{name}": true' for name in flags)
    return Payload(payload.raw[:start] + f"{{{shorter}}}".encode() + payload.raw[end:])


def _needs_redaction(payload: Payload, settings: HookSettings) -> bool:
    """Check whether anything in a payload may be private, or too long to be stored as it is."""
    raw = searched = payload.raw
    if (
        len(raw) > _SMALL
        or settings.patterns
        or b"\\u" in raw
        or b"NaN" in raw
        or b"Infinity" in raw
    ):
        return True
    for start, end in sorted(
        (payload.members.get(name, (0, 0)) for name in _HOST_MEMBERS), reverse=True
    ):
        searched = searched[:start] + searched[end:]
    text = _unescape(searched.decode("utf-8", "replace"))
    return needs_rules(text) or (bool(settings.paths) and may_match_glob(text, settings.paths))


def _redacted(payload: Payload, settings: HookSettings) -> Payload | None:
    """Return the payload redacted and shortened; None for an event about a private path."""
    import json  # most events do not need it

    from ralph.capture.privacy import mentions_private_path, redact_payload

    value = json.loads(payload.raw, parse_constant=lambda _: None)
    if not isinstance(value, dict):
        raise TypeError("the payload is no JSON object")
    if settings.paths and mentions_private_path(value, settings.paths):
        return None
    redacted = redact_payload(value, settings.patterns)
    return Payload(
        json.dumps(redacted, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    )


def _forgets(event: str, payload: Payload, project: Project) -> bool:
    """Check whether an event may name what is forgotten, and note that for the answers of this turn."""
    name = session_name(payload.text("session_id"))
    calls = f"{project.state}/{hook_files.FORGETS}/{name}"
    mark = b"0\n" if "prompt" in payload.members and os.path.exists(calls) else b""
    may_quote = event == "SubagentStop" or payload.text("tool_name").endswith(("Output", "_stdin"))
    if (
        may_quote and hook_files.read_file(calls, 2, end=True) == hook_files.CALLED
    ) or _calls_forget(payload):
        mark = hook_files.CALLED
    try:
        if mark:
            project.append(hook_files.FORGETS, name, mark)
    except (OSError, hook_files.Unsure) as error:  # the event itself is stored all the same
        hook_files.count_failure(
            project.state, event, f"cannot note a call of `ralph forget`: {error}"
        )
    return mark == hook_files.CALLED


def _calls_forget(payload: Payload) -> bool:
    """Check whether an event is or quotes a call of `ralph forget` or `/mem-forget`; one of a file's tools is not."""
    tool = payload.text("tool_name")
    if b"forget" not in payload.raw.lower() or tool in _FILE_TOOLS:
        return False
    from ralph.model import PROSE, calls_forget  # few events have the word

    # a tool without a command may bring what an earlier command printed
    has_command = not payload.object("tool_input").members.keys().isdisjoint(("command", "cmd"))
    outputs = () if has_command else ("tool_response", "error")
    texts = []
    for value in map(payload.value, ("tool_input", "prompt", "last_assistant_message", *outputs)):
        if b"\\u" in value:
            import json  # few texts have such an escape

            value = json.dumps(json.loads(value), ensure_ascii=False).encode("utf-8", "replace")
        texts.append(_unescape(value.decode("utf-8", "replace")))
    is_call = ("ralph" in tool.lower() and "forget" in tool.lower()) or calls_forget(texts[0])
    return is_call or any(calls_forget(text, PROSE) for text in texts[1:])


def _without_texts(payload: Payload, *, forgets: bool = False) -> Payload:
    """Return an event with its tool, its file and its exit code alone, as far as these need no rules."""
    import json  # few events come to this

    from ralph.model import FORGET_COMMAND

    members: dict[str, object] = {
        name: payload.text(name) for name in (*_HOST_MEMBERS, "hook_event_name", "tool_name")
    }
    parameters = payload.object("tool_input")
    path = next(filter(None, map(parameters.text, _PATH_MEMBERS)), "")
    members["tool_input"] = {"file_path": path} if path and not needs_rules(path) else {}
    exit_line = payload.text("error").partition("\n")[0]
    members["prompt"] = FORGET_COMMAND if forgets and "prompt" in payload.members else ""
    members["error"] = (
        exit_line if exit_line.startswith("Exit code ") and len(exit_line) < 20 else ""
    )
    stored = {name: value for name, value in members.items() if value}
    return Payload(
        json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    )
