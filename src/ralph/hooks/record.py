"""Record one event: find the project, redact the payload if it needs that, and append it to the session's log.

The payload is stored as one raw line; what it means is worked out when the log is read. Its top level is scanned
without a parser, so that an event without anything private or secret imports neither `json` nor `re`. Only the
result of tools that read or search is left out.
"""

import os

from ralph import discovery
from ralph.capture.secret_rules import may_match_glob, needs_rules
from ralph.store import hook_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ralph.store.hook_files import HookSettings

SMALL = 16 * 1024
"""Larger payloads are redacted and shortened even if nothing in them looks private."""
_LARGEST = 32 * 1024 * 1024
READING_TOOLS = {
    "claude": ("Read", "NotebookRead", "Grep", "Glob", "LS", "WebSearch", "ToolSearch", "WebFetch"),
    "codex": ("read_file", "view_image", "grep_files", "list_dir", "web_search"),
    "gemini": ("read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search",
               "google_web_search", "web_fetch"),
}  # fmt: skip
"""Tools whose results are files and pages: only their parameters are recorded."""
_OWN_MEMBERS = ("session_id", "transcript_path", "cwd", "tool_use_id")
"""Members that the host fills by itself: nothing is searched there."""
_ESCAPES = (('\\"', '"'), ("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r"), ("\\/", "/"), ("\\b", "\b"), ("\\f", "\f"))
_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST_ID = 80


class Payload:
    """A JSON object as bytes, with the positions of its own members; nested values are skipped.

    `members` is empty for anything that is not an object; spacing and order do not matter.
    """

    __slots__ = ("members", "raw")

    def __init__(self, raw: bytes) -> None:
        raw = raw.strip(b" \t\r\n")
        if b"\n" in raw or b"\r" in raw:  # only between members: inside of a text JSON has escapes
            raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
        self.raw = raw
        self.members = _scan_members(raw)

    def value(self, name: str) -> bytes:
        """Return a member as it is written, b"" when there is none."""
        start, end = self.members.get(name, (0, 0))
        return self.raw[start:end]

    def text(self, name: str) -> str:
        """Return a member that is a string, else ""."""
        return decode_string(self.value(name))

    def object(self, name: str) -> "Payload":
        """Return a member that is an object, else an empty one."""
        return Payload(self.value(name))


def _scan_members(raw: bytes) -> dict[str, tuple[int, int]]:
    """Return where the values of a JSON object's own members are; {} when it is not one complete object."""
    if not raw.startswith(b"{") or not raw.endswith(b"}"):
        return {}
    # Texts are every second piece between quotes, once escaped backslashes and quotes are covered.
    pieces = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    members: dict[str, tuple[int, int]] = {}
    depth = at = start = key_start = key_end = 0
    for number, piece in enumerate(pieces):
        if number % 2:
            if depth == 1 and not start:
                key_start, key_end = at, at + len(piece)
        elif depth < 2 or piece not in (b":", b",", b": ", b", "):
            for offset, byte in enumerate(piece, at):
                if byte in b"{[":
                    depth += 1
                elif byte in b"}],":
                    if depth == 1 and start:
                        members[decode_string(raw[key_start - 1 : key_end + 1])] = (start, offset)
                        start = 0
                    depth -= byte != 44
                elif byte == 58 and depth == 1:
                    start = offset + 1
        at += len(piece) + 1
    return {name: _trim(raw, *span) for name, span in members.items()} if depth == 0 and len(pieces) % 2 else {}


def _trim(raw: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and raw[start] in b" \t":
        start += 1
    while end > start and raw[end - 1] in b" \t":
        end -= 1
    return start, end


def decode_string(value: bytes) -> str:
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
    return unescape(text)


def unescape(text: str) -> str:
    """Resolve the escapes of JSON but for `\\u`."""
    if "\\" in text:
        text = text.replace("\\\\", "\0")
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
        text = text.replace("\0", "\\")
    return text


class Project:
    """The project of an event: `folder` where it happened, `root` ("" outside of projects), state and settings."""

    __slots__ = ("folder", "index", "root", "settings", "state", "task", "worktree")

    settings: "HookSettings"

    def __init__(self, folder: str) -> None:
        self.root = discovery.find_root(folder)
        self.folder = self.root or folder
        if self.root:
            location = discovery.locate(self.root)
            self.worktree, self.task = location.worktree, location.task
            self.state, self.index = location.state, location.index

    def may_be_everywhere(self, env: "Mapping[str, str]") -> bool:
        """Check whether the user's config may let hooks act outside of projects: it has the word."""
        return b"everywhere" in (hook_files.read_file(_user_config(env)) or b"")

    def load_settings(self, env: "Mapping[str, str]") -> "HookSettings | None":
        """Return the cached settings and remember them; None when they are out of date."""
        own = f"-{os.stat(self.root).st_ino}" if self.worktree else ""
        settings = hook_files.read_settings(f"{self.state}/cache/hook{own}", self.root, env, _user_config(env))
        if settings is not None:
            self.settings = settings
        return settings


def _user_config(env: "Mapping[str, str]") -> str:
    folder = discovery.user_folder("CONFIG", env)
    return f"{folder}/config.yml" if folder else ""


def find_project(payload: Payload, env: "Mapping[str, str]") -> Project:
    """Return the project of an event: by the host's project folder, the payload's, or the current one."""
    for folder in (env.get("CLAUDE_PROJECT_DIR"), payload.text("cwd")):
        if folder and folder.startswith("/") and "\0" not in folder:
            return Project(folder)
    return Project(os.getcwd())


# --- recording ----------------------------------------------------------------------------------


def record_event(
    host: str,
    event: str,
    payload: Payload,
    project: Project,
    env: "Mapping[str, str]",
    before_rules: "Callable[[], None]",
) -> Payload:
    """Append an event to its session's log and return what was stored; failures are counted."""
    session = payload.text("session_id")
    if not payload.members:
        raise ValueError("the payload is no JSON object")
    if not session:
        return payload
    stored = stored_payload(host, payload, project.settings, before_rules)
    if stored is None:
        return Payload(b"{}")
    append_event(host, event, stored, project, env)
    return stored


def append_event(host: str, event: str, stored: Payload, project: Project, env: "Mapping[str, str]") -> bool:
    """Append a payload to its session's log in our envelope; False when it cannot be written, which is counted."""
    head = f'{{"v": 1, "type": "event", "at": "{hook_files.timestamp()}", "host": "{host}", "event": "{event}"'
    line = f"{head}{_loop_members(env, project.task)}".encode() + b', "payload": ' + stored.raw + b"}\n"
    try:
        _append(project, f"{session_name(stored.text('session_id'))}.jsonl", line)
    except OSError as error:
        hook_files.count_failure(project.state, event, f"cannot append: {error.strerror}")
        return False
    return True


def session_name(session: str) -> str:
    """Return the name of a session's files; an unusual id does not become a path."""
    if len(session) <= _LONGEST_ID and _ID_CHARACTERS.issuperset(session):
        return session
    from ralph.model import ids  # few sessions have such an id

    return ids.derived("session", session)


def _append(project: Project, name: str, line: bytes) -> None:
    top, _, folder = project.state.rpartition("/")
    try:
        hook_files.append(top, (folder, "log", "sessions"), name, line)
    except hook_files.Unsure:
        from pathlib import Path  # for links and file systems without locks

        from ralph.store import files

        files.append(Path(project.state, "log", "sessions", name), line.decode("utf-8", "replace"), root=Path(top))


def _loop_members(env: "Mapping[str, str]", worktree_task: str) -> str:
    """Return the run, iteration and task that the loop set, or the task of the worktree, as members of a line."""
    run, iteration = env.get("RALPH_RUN", ""), env.get("RALPH_ITERATION", "")
    task = env.get("RALPH_TASK") or worktree_task
    members = f', "run": "{run}"' if _is_id(run) else ""
    if iteration.isascii() and iteration.isdecimal() and len(iteration) < 10:
        members += f', "iteration": {int(iteration)}'
    return members + (f', "task": "{task}"' if _is_id(task) else "")


def _is_id(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_ID and name.isascii() and (name.replace("-", "") or "0").isalnum()


def stored_payload(
    host: str, payload: Payload, settings: "HookSettings", before_rules: "Callable[[], None]" = lambda: None
) -> Payload | None:
    """Return the payload as it may be stored; None for an event about a private path."""
    if payload.text("tool_name") in READING_TOOLS.get(host, ()):
        payload = _without_result(payload)
    raw = payload.raw
    text = _searched_text(payload)
    private = bool(settings.paths) and may_match_glob(text, settings.paths)
    plain = len(raw) <= SMALL and not settings.patterns and not private
    if plain and b"\\u" not in raw and b"NaN" not in raw and b"Infinity" not in raw and not needs_rules(text):
        return payload
    if not plain:  # on a small text the rules are bounded, and a deadline costs an import
        before_rules()
    return _redacted_payload(raw, settings, private=private)


def _without_result(payload: Payload) -> Payload:
    """Return an event without what a tool read, but for the flags that it failed."""
    start, end = payload.members.get("tool_response", (0, 0))
    if not end:
        return payload
    result = payload.raw[start:end].replace(b" ", b"")
    flags = [name for name in ("interrupted", "isError", "is_error") if f'"{name}":true'.encode() in result]
    shorter = ", ".join(f'"{name}": true' for name in flags)
    return Payload(payload.raw[:start] + f"{{{shorter}}}".encode() + payload.raw[end:])


def _searched_text(payload: Payload) -> str:
    """Return the payload without the members that the host fills, and without JSON's escapes."""
    raw = payload.raw
    for start, end in sorted((payload.members.get(name, (0, 0)) for name in _OWN_MEMBERS), reverse=True):
        raw = raw[:start] + raw[end:]
    return unescape(raw.decode("utf-8", "replace"))


def _redacted_payload(raw: bytes, settings: "HookSettings", *, private: bool) -> Payload | None:
    import json  # most events do not need it

    from ralph.capture.privacy import mentions_private_path, redact_payload

    if len(raw) > _LARGEST:
        raise ValueError("the payload is too large")
    value = json.loads(raw, parse_constant=lambda _: None)
    if not isinstance(value, dict):
        raise TypeError("the payload is no JSON object")
    if private and mentions_private_path(value, settings.paths):
        return None
    redacted = redact_payload(value, settings.patterns)
    text = json.dumps(redacted, ensure_ascii=False, separators=(",", ":"))
    return Payload(text.encode("utf-8", "replace"))
