"""Recording an event in the time that a bare interpreter takes, or handing it to the full path.

An event that is only recorded goes to the session's log as it came, in one line with our envelope, if
nothing in it looks private or secret (`screen`), it is small, and no rule of the user's own is about it;
what it means is told when the log is read. Reads and searches go without what they found. What the screen
stops, or what is large, is made safe first (`careful`). Answering events are recorded the same way and then
answered, by what may be kept of them; a prompt of Ralph's own loop is not, since the loop has put into it what
memory knows. In every other case, and in every doubt, `full` does the work with everything loaded. Only modules
that a bare interpreter has loaded, or that cost nothing, are imported: `tests/hooks/test_modules.py`
pins them. A failure is counted where `ralph doctor` finds it, and the host never sees it.
"""

import sys

try:
    import _json
    import posix

    from ralph.hooks import place as places
    from ralph.store import light
except ImportError:  # Windows, or an interpreter of another make: the full path does everything
    _json = posix = None  # type: ignore[assignment]  # nothing below is used then

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.hooks.place import Place, Settings

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact", "Stop",
          "SubagentStop", "SessionEnd")  # fmt: skip
RECORDED = ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SubagentStop", "SessionEnd")
ANSWERED = ("UserPromptSubmit", "PreToolUse", "PostToolUseFailure")
PATH_ONLY = {
    "claude": ("Read", "NotebookRead", "Grep", "Glob", "LS", "WebSearch", "ToolSearch", "WebFetch"),
    "codex": ("read_file", "view_image", "grep_files", "list_dir", "web_search"),
}
"""Tools whose results are files and pages: the rules keep the path and drop the rest."""
PLUGIN = "--plugin"
"""The last word of a call by the plugin's launcher."""
HOSTS = ("claude", "codex")
"""Hosts whose payloads begin with the session's id; the others take the full path."""
SMALL = 16 * 1024
_LARGEST = 32 * 1024 * 1024
_BEGINS, _OUTPUT = b'{"session_id":"', '{"output":'
_NAME_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
RUN, ITERATION = "RALPH_RUN", "RALPH_ITERATION"
"""The variables by which the loop tells its agents, and so us, what they work on; the task's is in `place`."""
_LONGEST_ID, _MOST_DIGITS = 80, 9


class Whole(Exception):
    """This event needs the full path."""


def start(words: list[str], hooks: str) -> None:
    """One event, from the command line to the end of the process; nothing is written but a whole answer."""
    if posix is None:
        _print(_whole(hooks, words, sys.stdin.buffer.read(), None))
        return
    env = places.environment()
    answer = b""
    if env.get("RALPH_DISABLE") != "1" and len(words) in (2, 3) and words[2:] in ([], [PLUGIN]):
        try:
            answer = _either(words, hooks, env)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the session goes on
            found = places.project(places.start(env, None))
            if found is not None:
                failed(found.state or found.root, words[1], f"{type(error).__name__}: {error}")
    _print(answer)
    posix._exit(0)  # what an interpreter does before it ends takes longer than recording did


def _either(words: list[str], hooks: str, env: "Mapping[str, str]") -> bytes:
    """The fast path, and where it gives up, the full one."""
    payload = _stdin()
    if words[2:]:
        from ralph.hooks.twice import installed  # noqa: PLC0415 - only the plugin asks

        if installed(env, words[1]):
            return b""
    try:
        return event(words[0], words[1], payload, env)
    except Whole:
        return _whole(hooks, words, payload, env)


def event(host: str, name: str, payload: bytes, env: "Mapping[str, str]") -> bytes:
    """What to print about one event, after it has been recorded; Whole when the full path must do it."""
    if name not in EVENTS and host in HOSTS:
        return b""
    said = parsed(payload) if host in HOSTS else None
    found = places.project(places.start(env, said.get("cwd") if said else None))
    if found is None and not places.may_be_everywhere(env):
        return b""
    if said is None or found is None or not found.state or name not in RECORDED + ANSWERED:
        raise Whole
    place = places.place(found.root, env, found.state, found.tree, found.task)
    if place is None:
        raise Whole
    if place.paused:
        return b""
    if name in RECORDED and place.settings.capture:
        payload = record(host, name, payload, said, place, env) or payload
    if name not in ANSWERED or (name == "UserPromptSubmit" and env.get(RUN)):
        return b""
    return _answered(host, name, payload, place)


def record(
    host: str, name: str, payload: bytes, said: "dict[str, object]", place: "Place", env: "Mapping[str, str]"
) -> bytes:
    """Append an event to its session's log; the payload that is there now, nothing when that failed and was counted."""
    session = session_of(payload.lstrip(b" \t\r\n"))
    if not session or said.get("session_id") != session:
        raise Whole
    line = safe(host, payload.strip(b" \t\r\n"), said, place.settings)
    head = f'{{"v": 1, "type": "event", "at": "{light.stamp()}", "host": "{host}", "event": "{name}"'
    head += of_loop(env, place.task)
    text = head.encode() + b', "payload": ' + line + b"}\n"
    try:
        light.append(place.root, (".ralph", "log", "sessions"), f"{session}.jsonl", text)
    except light.Unsure as unsure:
        raise Whole from unsure
    except OSError as error:
        failed(place.root, name, f"cannot append: {error.strerror}")
        return b""
    return line


def of_loop(env: "Mapping[str, str]", usual: str = "") -> str:
    """The members of a line that say in which run, iteration and task it was written, as far as they are plain.

    Where the environment names no task it is the `usual` one: that of the worktree.
    """
    run, iteration, task = env.get(RUN, ""), env.get(ITERATION, ""), env.get(places.TASK) or usual
    said = f', "run": "{run}"' if _plain(run) else ""
    if iteration.isascii() and iteration.isdecimal() and len(iteration) <= _MOST_DIGITS:
        said += f', "iteration": {int(iteration)}'
    return said + (f', "task": "{task}"' if _plain(task) else "")


def _plain(name: str) -> bool:
    """Whether an id is of letters, digits and `-`."""
    return 0 < len(name) <= _LONGEST_ID and name.isascii() and (name.replace("-", "") or "0").isalnum()


def safe(host: str, line: bytes, said: "dict[str, object]", settings: "Settings | None" = None) -> bytes:
    """The payload as it may be kept: as it came, without what was read, or redacted; Whole when in doubt."""
    patterns, paths = (settings.patterns, settings.paths) if settings else ((), ())
    try:
        if b"NaN" in line or b"Infinity" in line:
            encoded(said)  # a ValueError where they are numbers: no other reader would take the line
        if paths:
            _ready("OWN")
            from ralph.hooks.own import check_hidden  # noqa: PLC0415 - few have such a rule

            check_hidden(host, said, paths)
        shaped = _shaped(host, said)
        if shaped is not said:
            line = encoded(shaped)
        if len(line) <= SMALL and b"\n" not in line and b"\r" not in line:
            _ready("SCREEN")
            from ralph.hooks.screen import suspicious  # noqa: PLC0415 - not for events that go the other way

            if not suspicious(line) and not (settings and patterns and _matched(host, line, shaped, settings)):
                return line
        _ready("RULES")
        from ralph.hooks.careful import kept  # noqa: PLC0415 - it brings the rules

        return kept(host, shaped, patterns, *((settings.prepared, settings.compiled) if settings else ()))
    except Exception as doubt:  # whatever it is, the full path has all rules, and counts what fails there
        raise Whole from doubt


def _ready(group: str) -> None:
    """Have the modules of a group loaded the short way; an event that nobody keeps does not come here."""
    from ralph.hooks import load  # noqa: PLC0415 - hence not at the beginning

    load.load(getattr(load, group))


def _matched(host: str, line: bytes, said: "dict[str, object]", settings: "Settings") -> bool:
    _ready("OWN")
    from ralph.hooks.own import matched  # noqa: PLC0415 - few have such a rule

    return matched(host, line, said, settings.patterns, settings.compiled)


def _shaped(host: str, said: "dict[str, object]") -> "dict[str, object]":
    """The event without what a tool only read, and with an answer that is JSON as text as the object that it is."""
    answer = said.get("tool_response")
    if said.get("tool_name") in PATH_ONLY[host] and "tool_response" in said:
        return {**said, "tool_response": flags_of(answer)}
    inner = scanned(answer) if host == "codex" and isinstance(answer, str) and answer.startswith(_OUTPUT) else None
    return said if inner is None else {**said, "tool_response": inner}


def flags_of(answer: object) -> "dict[str, object]":
    """What an answer tells about how it went, without what it says."""
    told = answer if isinstance(answer, dict) else {}
    return {name: True for name in ("interrupted", "isError", "is_error") if told.get(name) is True}


def encoded(value: object) -> bytes:
    """A value as JSON on one line, in the order that it has; ValueError for what no other reader would take."""
    make = _json.make_encoder(None, _unknown, _json.encode_basestring, None, ":", ",", False, False, False)
    return "".join(make(value, 0)).encode()


def _unknown(value: object) -> object:
    raise ValueError(type(value).__name__)


def session_of(payload: bytes) -> str:
    """The session's id, if the payload begins with one that can be a file's name; else nothing."""
    if not payload.startswith(_BEGINS):
        return ""
    name = payload[len(_BEGINS) : len(_BEGINS) + 81].partition(b'"')
    return name[0].decode("ascii") if name[1] and name[0] and not name[0].translate(None, _NAME_SIGNS) else ""


def _answered(host: str, name: str, payload: bytes, place: "Place") -> bytes:
    """What the project's memory has to say; a failure there is counted and says nothing."""
    try:
        _ready("ANSWER")
        from ralph.hooks.answer import answer  # noqa: PLC0415 - recording must not pay for it
    except ImportError as error:
        if error.name != "ralph.hooks.answer":
            failed(place.root, name, f"ImportError: {error}")
        return b""
    try:
        told: bytes = answer(host, name, payload, place)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the session goes on
        failed(place.root, name, f"{type(error).__name__}: {error}")
        return b""
    return told


class _Json:
    """What the scanner of the standard library asks for."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: "dict[str, str]" = {}  # noqa: RUF012 - the scanner's own, for one payload


def parsed(payload: bytes) -> "dict[str, object] | None":
    """The payload's object; None when it is none, or enormous: then the full path reads it."""
    if len(payload) > _LARGEST:
        return None
    try:
        return scanned(payload.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def scanned(text: str) -> "dict[str, object] | None":
    """The object that a JSON text holds, or None."""
    text = text.strip(" \t\r\n")
    try:
        value, end = _json.make_scanner(_Json)(text, 0)  # type: ignore[arg-type]  # any object with these members
    except (
        ValueError,
        StopIteration,
        RecursionError,
        SystemError,
    ):  # the last where `json` with its error is not loaded
        return None
    return value if isinstance(value, dict) and end == len(text) else None


def failed(root: str, name: str, what: str) -> None:
    """Count a failure, if there is a file to count in."""
    try:
        light.count_failure(f"{root}/.ralph/log/hook-failures", name, what)
    except (OSError, light.Unsure):
        return


def _whole(hooks: str, words: list[str], payload: bytes, env: "Mapping[str, str] | None") -> bytes:
    """The full path, in an interpreter as it usually is: with site-packages and the whole of `ralph`."""
    for name in [name for name in sys.modules if name == "ralph" or name.startswith("ralph.")]:
        del sys.modules[name]
    import gc  # noqa: PLC0415 - what `load` has switched off
    import site  # noqa: PLC0415 - what `-S` left out

    gc.enable()
    site.main()
    sys.path.insert(0, hooks.rpartition("/")[0].rpartition("/")[0])
    from ralph.hooks import full  # noqa: PLC0415 - it imports all that the fast path avoids

    if env is None:
        import os  # noqa: PLC0415 - there is no `posix`

        env = os.environ
    return full.main(words[0], words[1], payload, env) if len(words) > 1 else b""


def _stdin() -> bytes:
    pieces = []
    while piece := posix.read(0, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _print(answer: bytes) -> None:
    """Write an answer out whole; a host that does not listen any more is none of our concern."""
    if posix is None:
        sys.stdout.buffer.write(answer)
        return
    try:
        while answer:
            answer = answer[posix.write(1, answer) :]
    except OSError:
        pass
