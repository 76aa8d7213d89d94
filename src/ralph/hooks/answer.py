"""What a hook says to its host: memory that relates to a prompt, or to what a tool is about to do or failed at.

The answer is one JSON object with `additionalContext`, or nothing. What was said goes to the ledger and to the
session's list of what it knows, so that it is said once. Everything is read-only otherwise, and nothing heavy
is loaded: SQLite's C part asks for `functools` only to remember statements, which takes longer to load than
SQLite itself, so that a few lines stand in for it. In which task it is asked says the environment, else the folder of
the worktree. `tests/hooks/test_answer_modules.py` pins the modules, `tests/hooks/test_answer.py` proves the answers.
"""

import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _remembering(_size: int) -> "Callable[[Callable[[str], object]], Callable[[str], object]]":
    """In place of `functools.lru_cache`: what a function gave for a text, for as long as a hook lives."""

    def remembered(make: "Callable[[str], object]") -> "Callable[[str], object]":
        known: dict[str, object] = {}

        def found(text: str) -> object:
            if text not in known:
                known[text] = make(text)
            return known[text]

        return found

    return remembered


def _load_sqlite() -> None:
    """Import SQLite's C part with a stand-in for `functools`, where neither is loaded; else as usual."""
    if "functools" in sys.modules or "_sqlite3" in sys.modules:
        return
    stand_in = type(sys)("functools")
    stand_in.lru_cache = _remembering  # type: ignore[attr-defined]  # that is what a module is for
    sys.modules["functools"] = stand_in
    try:
        import _sqlite3  # noqa: F401, PLC0415 - for its being loaded
    except (ImportError, AttributeError, TypeError):  # it asks for more in this Python: it will get the real one
        sys.modules.pop("_sqlite3", None)
    finally:
        del sys.modules["functools"]


_load_sqlite()

from ralph.hooks import load as modules  # noqa: E402 - SQLite comes first

modules.load(modules.ASKING)

from ralph.store import light, reading  # noqa: E402 - `reading` brings SQLite

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from ralph.context.recall import Told, Wanted
    from ralph.context.stale import Known
    from ralph.hooks.place import Place

_REDACTED = "[redacted: "
_TOUCHING = ("Edit", "Write", "MultiEdit", "NotebookEdit", "Read", "apply_patch")
"""Tools that touch the files that they name."""
_PATCHED = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
_MOST_SEEN = 1 << 20
_MOST_FILES = 8
_DAY = 86_400
_LONGEST_NAME = 80


def answer(host: str, name: str, payload: bytes, place: "Place") -> bytes:
    """What to print about an event; nothing when there is nothing to say."""
    from ralph.hooks.fast import failed, parsed  # noqa: PLC0415 - whoever calls has it loaded

    if place.settings.inject != "auto":
        return b""
    said = parsed(payload)
    if said is None or not _asks(name, said):
        return b""
    connection = reading.read_only(place.index)
    if connection is None:
        return b""
    try:
        session = said.get("session_id")
        wanted = _wanted(place, session if isinstance(session, str) else "")
        told = _told(connection, name, said, wanted)
    finally:
        connection.close()
    if not told.text:
        return b""
    try:
        note(place, wanted.session, name, told)
    except (OSError, light.Unsure) as error:  # a full or read-only disk keeps no answer back
        failed(place.root, name, f"cannot note what was said: {error}")
    return envelope(name, told.text)


def _asks(name: str, said: "Mapping[str, object]") -> bool:
    """Whether an event asks anything of us: a person's prompt, a file, a command."""
    if name == "UserPromptSubmit":
        return bool(_question(said))
    return bool(_files(said) or _command(said))


def _question(said: "Mapping[str, object]") -> str:
    modules.load(modules.TELLING)
    from ralph.context.recall import question  # noqa: PLC0415 - not for those who asked for no answers

    prompt = said.get("prompt")
    return question(_without_marks(prompt)) if isinstance(prompt, str) else ""


def _without_marks(prompt: str) -> str:
    """A prompt without what stands where secrets stood: nobody asks for that."""
    first, *rest = prompt.split(_REDACTED)
    return first + " ".join(part.partition("]")[2] for part in rest)


def _told(connection: "sqlite3.Connection", name: str, said: "Mapping[str, object]", wanted: "Wanted") -> "Told":
    from ralph.context import recall  # noqa: PLC0415 - only when there is an index to ask

    if name == "UserPromptSubmit":
        return recall.related(connection, _question(said), wanted)
    if name == "PreToolUse":
        return recall.before_action(connection, _files(said), _command(said), wanted)
    error = said.get("error")
    return recall.after_failure(
        connection, _files(said), _command(said), error if isinstance(error, str) else "", wanted
    )


def _wanted(place: "Place", session: str) -> "Wanted":
    modules.load(modules.TELLING)
    from ralph.context import recall  # noqa: PLC0415 - only when there is an index to ask
    from ralph.hooks.place import TASK  # noqa: PLC0415 - whoever calls has it loaded

    settings = place.settings
    wanted = recall.Wanted(light.stamp()[:10], session, _seen(place, session))
    wanted.task = posix.environ.get(TASK.encode(), b"").decode("utf-8", "replace") or place.task
    wanted.enabled = settings.enabled
    wanted.types, wanted.tags = settings.types, settings.tags
    wanted.budget = recall.within_window(settings.window, settings.budget, settings.share)
    wanted.stale = _stale(place)
    if settings.recent:
        then = time.gmtime(max(0, time.time() - settings.recent * _DAY))
        wanted.since = f"{then[0]:04}-{then[1]:02}-{then[2]:02}"
    return wanted


def _stale(place: "Place") -> "Known | None":
    """What was verified of the files that records cite in this checkout; None for nothing."""
    from ralph.context import stale  # noqa: PLC0415 - only when there is an index to ask
    from ralph.hooks.place import read  # noqa: PLC0415 - whoever calls has it loaded

    tree = f"worktrees/{place.tree}/" if place.tree else ""
    held = read(f"{place.folder}/cache/{tree}{stale.NAME}", stale.MOST)
    return stale.Known(place.checkout, held) if held else None


def _files(said: "Mapping[str, object]") -> list[str]:
    """The files that a tool is about to touch."""
    given = said.get("tool_input")
    if said.get("tool_name") not in _TOUCHING:
        return []
    if not isinstance(given, dict):
        return _patched(given)
    named = [path for key in ("file_path", "notebook_path", "path") if isinstance(path := given.get(key), str)]
    return named or _patched(given.get("command") or given.get("input") or given.get("patch"))


def _patched(patch: object) -> list[str]:
    """The files of Codex's patches."""
    lines = patch.split("\n") if isinstance(patch, str) else []
    return [line.partition(": ")[2].strip() for line in lines if line.startswith(_PATCHED)][:_MOST_FILES]


def _command(said: "Mapping[str, object]") -> str:
    given = said.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    return command if isinstance(command, str) else ""


# --- the ledger --------------------------------------------------------------------------------


def _seen(place: "Place", session: str) -> frozenset[str]:
    """What this session was told already."""
    if not session:
        return frozenset()
    try:
        with open(f"{place.folder}/cache/injected/{_list_name(session)}", "rb") as file:  # noqa: PTH123 - pathlib is heavy
            return frozenset(file.read(_MOST_SEEN).decode("utf-8", "replace").split("\n"))
    except (OSError, ValueError):
        return frozenset()


def _list_name(session: str) -> str:
    """The file of a session's list; an odd id does not become a path, and is named as `app/ledger` does it."""
    signs = session.replace("-", "").replace("_", "")
    if len(session) <= _LONGEST_NAME and session.isascii() and (signs.isalnum() or not signs):
        return session
    from ralph.model import ids  # noqa: PLC0415 - few sessions have such an id

    return ids.derived("session", session)


def note(place: "Place", session: str, name: str, told: "Told") -> None:
    """Write down what was said: in the ledger, and in the session's own list."""
    at = light.stamp()
    lines = "".join(
        f'{{"v": 1, "type": "injection", "at": {_quoted(at)}, "event": {_quoted(name)}, "layer": {told.layer}, '
        f'"record": {_quoted(record)}, "session": {_quoted(session)}, "tokens": {tokens}}}\n'
        for record, tokens in told.records
    )
    names = "".join(f"{record}\n" for record, _ in told.records if "\n" not in record)
    light.append(place.root, (".ralph", "log"), "injections.jsonl", lines.encode("utf-8", "replace"))
    if session:
        light.append(place.root, (".ralph", "cache", "injected"), _list_name(session), names.encode("utf-8", "replace"))


def envelope(name: str, text: str) -> bytes:
    """The host's JSON around a text."""
    inner = f'{{"hookEventName": {_quoted(name)}, "additionalContext": {_quoted(text)}}}'
    return f'{{"hookSpecificOutput": {inner}}}'.encode()


def _quoted(text: str) -> str:
    import _json  # noqa: PLC0415 - as light as it gets

    return _json.encode_basestring_ascii(text)
