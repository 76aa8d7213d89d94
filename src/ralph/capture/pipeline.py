"""Turn an event into an observation that may be stored, in a chain of plain functions.

The order of the steps is what keeps secrets out. First, the unchanged event is searched for private
paths. Then every text is redacted, in the order in which the payload has them. Only then is
anything cut, classified or rendered. The rendered text is redacted once more, because a key and its
value may come together only there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ralph.capture.events import (
    JSON_OBJECT,
    TOOL_EVENTS,
    WRITERS,
    Action,
    Event,
    EventKind,
    FileEdit,
    outline,
    whole_number,
)
from ralph.capture.host_payloads import event_of
from ralph.capture.observations import make_record, redact_text
from ralph.capture.own_traffic import OWN_TOOL, calls_ralph, without_injected
from ralph.capture.short_text import LIMIT, trim
from ralph.core.ids import parse_time
from ralph.core.prompts import FORGET_COMMAND, NOTE, PROSE, calls_forget, human_prompt
from ralph.core.record import NO_EXTRA, TAINT, ObservationKind, Record, mark_unconfirmed
from ralph.lean import discovery
from ralph.lean.secret_rules import rules_mark
from ralph.privacy.json_values import map_texts, redact_members
from ralph.privacy.privacy import redact
from ralph.privacy.private_parts import has_private_parts
from ralph.privacy.private_paths import PrivatePaths
from ralph.privacy.redactor import Redactor
from ralph.privacy.word_splitters import remove_terminal_codes

_STORED_EVENTS = frozenset((*TOOL_EVENTS, *WRITERS))
_rules_mark = lru_cache(rules_mark)
MESSAGES = "messages"
"""The member of a session line with messages in full, each with the id of its observation."""
_MAX_MESSAGE_CHARACTERS = 200_000
_CACHED_SESSIONS = 64
_MAX_PLAIN_PARAMETERS = 100  # fewer than `map_texts` limits
_LOOP_MEMBERS = frozenset(("run", "iteration", "task"))
_LOOP_ID = re.compile(r"[A-Za-z0-9-]{1,80}")


def observe(
    event: Event, *, patterns: Sequence[str] | None = (), paths: Sequence[str] = ()
) -> Record | None:
    """Return an event's observation, or None if nothing is to be stored.

    `patterns` are the user's. Pass None if the event has already been redacted.
    """
    return observe_in_full(event, patterns=patterns, paths=paths)[0]


def observe_in_full(
    event: Event, *, patterns: Sequence[str] | None = (), paths: Sequence[str] = ()
) -> tuple[Record | None, Mapping[str, object]]:
    """Return an event's observation, and its message in full if the observation shortens it.

    The message is a member of a session line, or there is no member.
    """
    prepared = _prepare(event, patterns, paths)
    if prepared is None:
        return None, NO_EXTRA
    record = make_record(prepared, patterns)
    if record is None:
        return None, NO_EXTRA
    return record, _long_message(prepared, record, patterns)


def _prepare(event: Event, patterns: Sequence[str] | None, paths: Sequence[str]) -> Event | None:
    """Return what may be stored of an event, or None if that is nothing."""
    if event.kind not in _STORED_EVENTS or _names_private_file(event, paths):
        return None
    if _forgets(event):
        if event.kind is not EventKind.USER_PROMPT_SUBMIT:
            return None
        event = event._replace(prompt=FORGET_COMMAND)  # what it names must not be stored
    if patterns is not None:
        event = _redact_event(event, patterns)
    human = keep_human_prompt(drop_sigils(drop_injected(event)))
    if human is None:
        return None
    return drop_results(human)


def interpret(
    value: Mapping[str, object], *, patterns: Sequence[str] = (), paths: Sequence[str] = ()
) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """Return the observations in a raw log line, and its session fields or None."""
    payload = value.get("payload")
    host = value.get("host")
    name = value.get("event")
    if not isinstance(payload, JSON_OBJECT):
        return (), None
    if not isinstance(host, str) or not isinstance(name, str):
        return (), None
    at = value.get("at")
    if not isinstance(at, str):
        at = ""
    event = event_of(host, name, payload, at)
    if event is None or not event.session:
        return (), None
    patterns_to_apply: Sequence[str] | None = patterns
    if value.get("rules") == _rules_mark(tuple(patterns)):
        patterns_to_apply = None  # the hook has already applied these very rules
    session = session_of(event, patterns=patterns_to_apply)
    record, message = observe_in_full(event, patterns=patterns_to_apply, paths=paths)
    if record is None:
        return (), session
    if session is not None and message:
        session = {**session, **message}
    return (with_loop_origin(with_taint(record, value.get("taint")), value),), session


def _long_message(
    event: Event, record: Record, patterns: Sequence[str] | None
) -> Mapping[str, object]:
    """Return the member of a session line with a prompt or answer that its record shortens."""
    message = (event.prompt or event.message).strip("\n")
    if event.kind not in WRITERS or len(message) <= LIMIT:
        return NO_EXTRA
    text = trim(redact_text(message, patterns), _MAX_MESSAGE_CHARACTERS)
    return {MESSAGES: [{"id": record.id, "text": text}]}


def with_taint(record: Record, taint: object) -> Record:
    """Mark what a failing command printed that read something foreign, or what an agent said then.

    A call that passed is only marked as tainted: the agent wrote what the tool was given before it
    read the answer. `taint` is the kind of taint (see `lean/taint.py`) as it was read from a log.
    """
    if not isinstance(taint, str) or not taint.isidentifier():
        return record
    if record.kind in (ObservationKind.ERROR, ObservationKind.NOTE):
        return mark_unconfirmed(record, taint)
    return replace(record, extra={**record.extra, TAINT: taint})


def with_loop_origin(record: Record, line: Mapping[str, object]) -> Record:
    """Add the run, iteration and task named in a raw log line to a record's origin."""
    if _LOOP_MEMBERS.isdisjoint(line):
        return record
    run = _loop_id(line.get("run"))
    task = _loop_id(line.get("task"))
    iteration = whole_number(line.get("iteration"))
    if iteration is not None and iteration < 0:
        iteration = None
    if not run and not task and iteration is None:
        return record
    return replace(record, origin=record.origin._replace(run=run, iteration=iteration, task=task))


def _loop_id(value: object) -> str:
    if isinstance(value, str) and _LOOP_ID.fullmatch(value):
        return value
    return ""


def session_of(
    event: Event, *, patterns: Sequence[str] | None = (), branch: str = ""
) -> Mapping[str, object] | None:
    """Return what an event says about its session, or None if it has no session.

    Every event has a `started_at`. The earliest one of a session counts. `branch` is the branch
    that was checked out.
    """
    if patterns is not None:
        patterns = tuple(patterns)
    fields = dict(
        _session_fields(event.session, event.cwd, event.mode, event.host, branch, patterns)
    )
    if not fields.get("id"):
        return None
    at = ""
    if parse_time(event.at) is not None:
        at = _visible_field(event.at, patterns)
    if at:
        fields["started_at"] = at
        fields["updated_at"] = at
    if event.kind is EventKind.SESSION_END:
        reason = _visible_field(event.reason, patterns)
        fields |= {key: text for key, text in (("ended_at", at), ("reason", reason)) if text}
    return fields


@lru_cache(_CACHED_SESSIONS)
def _session_fields(
    session: str,
    cwd: str,
    mode: str,
    host: str,
    branch: str,
    patterns: tuple[str, ...] | None,
) -> Mapping[str, str]:
    """Return the fields that each event of a session repeats, without empty ones."""
    fields = {
        "id": session,
        "session_id": session,
        "project_path": discovery.with_slashes(cwd),
        "mode": mode,
        "host": host,
        "branch": branch,
    }
    visible = {key: _visible_field(text, patterns) for key, text in fields.items()}
    return {key: text for key, text in visible.items() if text}


def _visible_field(text: str, patterns: tuple[str, ...] | None) -> str:
    return redact_text(remove_terminal_codes(text), patterns)


# --- the steps ----------------------------------------------------------------------------------

_URL = re.compile(r"https?://[^\s\"'<>)\]]{1,2000}")
_LOCATION_KEYS = {
    Action.READ: frozenset(
        {
            "file_path",
            "notebook_path",
            "path",
            "paths",
            "absolute_path",
            "include",
        }
    ),
    Action.SEARCH: frozenset(
        {
            "pattern",
            "query",
            "path",
            "paths",
            "glob",
            "include",
            "type",
            "dir_path",
            "file_path",
        }
    ),
    Action.FETCH: frozenset(["url"]),
}
_OUR_LOOP = re.compile(
    r"# Ralph loop: iteration \d.*?^## Assigned Task\n\n"
    r"(?:\*\*[\w-]+\*\*: )?(?P<task>.*?)(?=^#{1,2} |\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A prompt written by Ralph's loop. Its group `task` is the part that a person wrote."""


def _names_private_file(event: Event, globs: Sequence[str]) -> bool:
    if not globs or event.kind not in TOOL_EVENTS:
        return False
    names = (*event.files, *(change.path for change in event.changes))
    texts = (outline(dict(event.parameters)), event.response, event.error)
    return PrivatePaths(globs).named_in(texts, names, event.cwd)


def _forgets(event: Event) -> bool:
    """Return whether an event calls `ralph forget`.

    Hooks no longer store such events, but logs from older versions contain them.
    """
    if event.kind in WRITERS:
        return any(calls_forget(text, PROSE) for text in (event.prompt, event.message))
    if event.kind not in TOOL_EVENTS:
        return False
    if event.files and event.action is not Action.SHELL:
        return False
    if "forget" in event.tool and OWN_TOOL.match(event.tool):
        return True
    return calls_forget(outline(dict(event.parameters)))


def _redact_event(event: Event, patterns: Sequence[str]) -> Event:
    redactor = Redactor(patterns, tolerant=True)
    changes = tuple(_without_private_edit(change) for change in event.changes)
    event = _map_event(event._replace(changes=changes), redactor)
    if redactor.astray and redactor.open:
        # A tag opens in one text and closes in an earlier one, so nobody knows what is private.
        event = _map_event(event, lambda _: "")

    def redact_text(text: str) -> str:
        return redact(remove_terminal_codes(text), patterns).text

    names = ("session", "at", "cwd", "agent", "tool", "call")
    texts: dict[str, Any] = {name: redact_text(getattr(event, name)) for name in names}
    texts["parameters"] = redact_members(event.parameters, patterns)
    texts["files"] = tuple(redact_text(file) for file in event.files)
    return event._replace(**texts)


def _without_private_edit(change: FileEdit) -> FileEdit:
    """Drop an edit's texts if they may come from a private section of the file."""
    texts = (change.whole, change.before, change.after)
    if any(has_private_parts(text) for text in texts):
        return change._replace(before="", after="")
    return change


def drop_injected(event: Event) -> Event:
    """Drop injected text and the answers from Ralph's own tools, which are nothing new."""
    if calls_ralph(event):
        event = event._replace(response="")
    if _is_plain(event):
        return event  # nearly every event
    return _map_event(event, without_injected)


def _is_plain(event: Event) -> bool:
    """Return whether an event contains no note of Ralph's, and nothing that would be dropped."""
    texts = f"{event.prompt}\n{event.response}\n{event.error}\n{event.message}"
    if NOTE in texts or NOTE in event.source or NOTE in event.reason:
        return False
    if len(event.parameters) > _MAX_PLAIN_PARAMETERS:
        return False
    for name, value in event.parameters.items():
        if isinstance(value, str):
            if NOTE in value:
                return False
        elif isinstance(value, dict | list | tuple):
            return False
        if NOTE in name:
            return False
    for change in event.changes:
        if NOTE in change.before or NOTE in change.after or NOTE in change.path:
            return False
    return True


def drop_sigils(event: Event) -> Event:
    """Remove sigils from a message: the loop stores them as journal and knowledge entries."""
    if "<" not in event.message:
        return event
    from ralph.formats.sigils import without_sigils  # few messages need it

    return event._replace(message=without_sigils(event.message))


def keep_human_prompt(event: Event) -> Event | None:
    """Reduce a prompt to what a person wrote, and return None if no person wrote any of it.

    Events other than prompts are returned unchanged.
    """
    if event.kind is not EventKind.USER_PROMPT_SUBMIT:
        return event
    prompt = human_prompt(event.prompt)
    loop_prompt = _OUR_LOOP.match(prompt)
    if loop_prompt:  # the run's snapshots contain the whole prompt
        prompt = human_prompt(loop_prompt["task"])
    if event.prompt.strip() and not prompt:
        return None
    return event._replace(prompt=prompt)


def drop_results(event: Event) -> Event:
    """Keep only the location that was read, searched or fetched, not the result."""
    keys = _LOCATION_KEYS.get(event.action)
    if keys is None:
        return event
    if keys.issuperset(event.parameters) and not event.response:
        return event  # hooks do not record results
    parameters = {key: value for key, value in event.parameters.items() if key in keys}
    if event.action is Action.FETCH and "url" not in parameters:
        url = _URL.search(event.text_parameter("prompt"))
        parameters = {"url": url[0]} if url else {}
    return event._replace(parameters=parameters, response="")


def _map_event(event: Event, change_text: Callable[[str], str]) -> Event:
    # In payload order, because a private section that opens in one text hides the texts after it.
    texts: dict[str, Any] = {"prompt": change_text(event.prompt)}
    texts["parameters"] = map_texts(dict(event.parameters), change_text) or {}
    texts["changes"] = tuple(
        FileEdit(change_text(change.path), change_text(change.before), change_text(change.after))
        for change in event.changes
    )
    for name in ("response", "error", "message", "source", "reason"):
        texts[name] = change_text(getattr(event, name))
    return event._replace(**texts)
