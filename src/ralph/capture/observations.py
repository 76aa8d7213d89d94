"""Make the record of an observation from a redacted event.

The text of an observation is the request, followed by the result. For a shell command:

    $ pytest -q tests/api
    # Run the API tests
    exit code 1
    E   assert 401 == 200

A secret may come together only here, for example when a key and its value are rendered on one line.
Every rendered text is therefore redacted once more before it is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from ralph.capture.error_lines import name_error
from ralph.capture.events import WRITERS, Action, Event, EventKind, outline
from ralph.capture.outcomes import Verdict, classify
from ralph.capture.short_text import LIMIT, first_line, trim
from ralph.core.ids import parse_time
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.privacy.privacy import redact

# Limits for the parts of an observation, in characters.
_MAX_TITLE = 120
_MAX_TOOL_NAME = 100
_MAX_COMMAND = 1_000
_MAX_ERROR_LINE = 200
_MAX_REQUEST = 800  # if a result follows
_MAX_DIFF = 1_200
_MAX_TITLE_FILES = 3  # files
AGENT_CHARACTERS = "own"
"""The member of `extra` that counts the characters of the request, which the agent wrote.

A tool printed the rest of the text.
"""
_SUBJECTS = (
    "description",
    "query",
    "skill",
    "subject",
    "title",
    "name",
    "url",
    "pattern",
    "file_path",
    "path",
)
"""Parameters that say what a call is about, most telling first."""


class _Rendered(NamedTuple):
    """An event as text: its title, what was asked for, and what came back."""

    title: str
    request: str
    result: str


def redact_text(text: str, patterns: Sequence[str] | None) -> str:
    """Redact a text unless `patterns` is None, which says that it has already been redacted."""
    if patterns is None:
        return text
    return redact(text, patterns).text


def make_record(event: Event, patterns: Sequence[str] | None) -> Record | None:
    """Return the record of an event, or None if there is nothing to store.

    `patterns` are the user's, or None if the event has already been redacted.
    """
    rendered = _render(event)
    has_content = rendered.request.strip() or rendered.result.strip()
    if not has_content or not rendered.title:
        return None
    outcome = classify(event)
    request = redact_text(rendered.request, patterns).strip("\n")
    result = redact_text(rendered.result, patterns).strip("\n")
    request_limit = LIMIT
    if result and event.action is not Action.CHANGE:
        request_limit = _MAX_REQUEST
    request = trim(request, request_limit)
    result_limit = LIMIT - len(request) - 1
    text = trim(redact_text(f"{request}\n{trim(result, result_limit)}".strip("\n"), patterns))
    extra: dict[str, object] = {
        "tool": event.tool,
        "command": _shell_command(event),
        "check": outcome.check.value if outcome.check else "",
        "exit_code": event.exit_code,
        "error": first_line(_error_of(event, outcome), _MAX_ERROR_LINE),
        "agent_id": event.agent,
    }
    if result:
        extra[AGENT_CHARACTERS] = len(request) if text.startswith(request) else 0
    moment = parse_time(event.at)
    stored = _Stored(
        created_at=event.at if moment is not None else "",
        call=event.call,
        origin=Origin(
            by=WRITERS.get(event.kind, "tool"),
            session=event.session,
            agent=event.host,
            files=tuple(filter(None, event.files)),
        ),
        kind=outcome.kind.value,
        title=redact_text(first_line(rendered.title, _MAX_TITLE), patterns),
        text=text,
    )
    redacted_extra = _redact_extra(extra, patterns)
    seconds = max(0, int(moment.timestamp())) if moment else 0
    return Record(
        id=f"obs-{seconds}-{_digest(stored, redacted_extra)}",
        kind=outcome.kind,
        text=text,
        family=Family.OBSERVATION,
        title=stored.title,
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=stored.origin,
        created_at=stored.created_at,
        extra=redacted_extra,
    )


def _shell_command(event: Event) -> str:
    if event.action is not Action.SHELL:
        return ""
    return trim(event.text_parameter("command"), _MAX_COMMAND)


def _error_of(event: Event, outcome: Verdict) -> str:
    if outcome.kind is not ObservationKind.ERROR:
        return ""
    return name_error(_output(event))


def _output(event: Event) -> str:
    """Return what an event printed, each text once."""
    if not event.error or event.error == event.response:
        return event.response
    if not event.response:
        return event.error
    return f"{event.error}\n{event.response}"


def _redact_extra(extra: Mapping[str, object], patterns: Sequence[str] | None) -> dict[str, object]:
    redacted: dict[str, object] = {}
    for key, value in extra.items():
        if value is None or value == "":
            continue
        if patterns is not None and isinstance(value, str):
            redacted[key] = redact_text(value, patterns)
        else:
            redacted[key] = value
    return redacted


class _Stored(NamedTuple):
    """What of an observation determines its id, besides `extra`. The order matters."""

    created_at: str
    call: str
    origin: Origin
    kind: str
    title: str
    text: str


def _digest(stored: _Stored, extra: Mapping[str, object]) -> str:
    """Return six hex digits derived from what is stored and the call's id.

    The error line is left out, so that a better rule for choosing it does not change the id.
    """
    members = sorted((key, str(value)) for key, value in extra.items() if key != "error")
    return hashlib.sha256(repr((*stored, members)).encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _render(event: Event) -> _Rendered:
    if event.kind is EventKind.USER_PROMPT_SUBMIT:
        return _Rendered("prompt", event.prompt, "")
    if event.kind in WRITERS:
        return _Rendered("answer", event.message, "")
    tool = first_line(event.tool, _MAX_TOOL_NAME)
    result = _output(event)
    if event.action is Action.SHELL:
        return _render_command(event, tool, result)
    if event.action in (Action.CHANGE, Action.READ):
        files = ", ".join(event.files[:_MAX_TITLE_FILES])
        return _Rendered(f"{tool} {files}".strip(), _describe_files(event), result)
    title = tool
    for key in _SUBJECTS:
        subject = event.text_parameter(key)
        if subject:
            title = f"{tool}: {first_line(subject, _MAX_TITLE)}"
            break
    return _Rendered(title, _describe_parameters(event), result)


def _render_command(event: Event, tool: str, result: str) -> _Rendered:
    command = event.text_parameter("command")
    description = event.text_parameter("description")
    title = tool
    lines = []
    if command:
        title = f"{tool}: {first_line(command, _MAX_TITLE)}"
        lines.append(f"$ {command}")
    if description:
        lines.append(f"# {description}")
    if event.exit_code is not None:
        lines.append(f"exit code {event.exit_code}")
    return _Rendered(title, "\n".join(lines), result)


def _describe_parameters(event: Event) -> str:
    lines = []
    for key, value in event.parameters.items():
        if value not in (None, "", [], {}):
            lines.append(f"{key}: {outline(value)}")
    return "\n".join(lines)


def _describe_files(event: Event) -> str:
    subject = "\n".join(event.files) or _describe_parameters(event)
    difference = ""
    if event.action is Action.CHANGE:
        difference = trim("\n".join(_changed_lines(event)), _MAX_DIFF)
    return "\n".join(part for part in (subject, difference) if part)


def _changed_lines(event: Event) -> Iterator[str]:
    has_several_files = len({change.path for change in event.changes}) > 1
    for change in event.changes:
        if has_several_files:
            yield change.path
        before = change.before.split("\n")
        after = change.after.split("\n")
        for removed, added in _differences(before, after):
            for line in before[removed]:
                if line.strip():
                    yield f"- {line}"
            for line in after[added]:
                if line.strip():
                    yield f"+ {line}"


def _differences(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[slice, slice]]:
    """Yield the places in which two texts differ: the lines removed, and those added there.

    Most changes are small: the lines that stay occur once in each text, and in the same order.
    Such lines are the ones that `difflib` finds too, but it takes ten times as long.
    """
    common = set(before).intersection(after)
    kept_before = [number for number, line in enumerate(before) if line in common]
    kept_after = [number for number, line in enumerate(after) if line in common]
    if len(kept_before) == len(common) and (
        [before[number] for number in kept_before] == [after[number] for number in kept_after]
    ):
        start_before = 0
        start_after = 0
        ends = zip([*kept_before, len(before)], [*kept_after, len(after)], strict=True)
        for end_before, end_after in ends:
            yield slice(start_before, end_before), slice(start_after, end_after)
            start_before = end_before + 1
            start_after = end_after + 1
        return
    for tag, *bounds in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            yield slice(*bounds[:2]), slice(*bounds[2:])
