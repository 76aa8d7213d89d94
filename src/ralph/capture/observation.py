"""The Record of an Event that was made safe: its title, its text, and what else is worth finding it by.

The title is one line that a person would recognise (`Bash: npm test`, `Edit src/auth.ts`, `prompt`). The
text is what was asked and what came of it, at most `trim.LIMIT` characters in all; of a change only the
lines that differ. There are no tags: the tool's name is in the title, and a tag that thousands of
observations share says nothing in a search. What was rendered is redacted again, since key and value
meet only here, and the id is derived from what is kept: not even a digest of something private is.
`tests/capture/test_pipeline.py` proves it together with the steps before.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ralph.capture.classify import Verdict, verdict
from ralph.capture.event import Action, Change, Event, Happening, outline
from ralph.capture.privacy import redact
from ralph.capture.trim import LIMIT, first_line, squeeze, trim
from ralph.model.record import Family, ObservationKind, Origin, Record, Scope, Status

_TITLE = 120
_COMMAND = 1_000
_ERROR = 200
_ASKED = 800
_DIFF = 1_200
_SUBJECTS = ("description", "query", "skill", "subject", "title", "name", "url", "pattern", "file_path", "path")
"""What a call is about, the best first."""


def record_of(event: Event, patterns: Sequence[str] = ()) -> Record | None:
    """The observation of a redacted event, or None when nothing is left of it."""
    seen = verdict(event)
    title, asked, told = _words(event)
    if not (asked.strip() or told.strip()) or not title:
        return None
    asked, told = (redact(squeeze(part), patterns).text.strip("\n") for part in (asked, told))
    asked = trim(asked, _ASKED if told else LIMIT)
    text = redact(f"{asked}\n{trim(told, LIMIT - len(asked) - 1)}".strip("\n"), patterns).text
    title = redact(first_line(title, _TITLE), patterns).text
    extra = {key: _kept(value, patterns) for key, value in _extra(event, seen).items() if value not in ("", None)}
    moment = when(event.at)
    origin = Origin(
        by=_BY.get(event.happening, "tool"),
        session=event.session,
        agent=event.host,
        files=tuple(path for path in event.files if path),
    )
    record = Record(
        id="",
        kind=seen.kind,
        text=trim(text),
        family=Family.OBSERVATION,
        title=title,
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=origin,
        created_at=event.at if moment is not None else "",
        extra=extra,
    )
    return _identified(record, moment, event.call)


_BY = {
    Happening.USER_PROMPT_SUBMIT: "human",
    Happening.STOP: "agent",
    Happening.SUBAGENT_STOP: "agent",
}


def when(at: str) -> datetime | None:
    """The moment that a timestamp means, or None."""
    try:
        moment = datetime.fromisoformat(at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _identified(record: Record, moment: datetime | None, call: str) -> Record:
    """The record with the id that its content gives it."""
    extra = sorted((key, str(value)) for key, value in record.extra.items())
    parts = (record.created_at, call, record.origin, record.kind.value, record.title, record.text, extra)
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
    unix = max(0, int(moment.timestamp())) if moment else 0
    return Record(**{**record.__dict__, "id": f"obs-{unix}-{digest[:6]}"})


def _kept(value: object, patterns: Sequence[str]) -> object:
    return redact(value, patterns).text if isinstance(value, str) else value


def _extra(event: Event, seen: Verdict) -> Mapping[str, object]:
    """What later readers ask for by name."""
    command = _text(event, "command") if event.action is Action.SHELL else ""
    error = ""
    if seen.kind is ObservationKind.ERROR:
        error = first_line(seen.sign or event.error or event.response, _ERROR)
    return {
        "tool": event.tool,
        "command": trim(command, _COMMAND),
        "check": seen.check.value if seen.check else "",
        "exit_code": event.exit_code,
        "error": error,
        "agent_id": event.agent,
    }


# --- words --------------------------------------------------------------------------------------


def _words(event: Event) -> tuple[str, str, str]:
    """The title, what was asked, and what came of it."""
    if event.happening is Happening.USER_PROMPT_SUBMIT:
        return "prompt", event.prompt, ""
    if event.happening in (Happening.STOP, Happening.SUBAGENT_STOP):
        return "answer", event.message, ""
    tool = first_line(event.tool, 100)
    code = f"exit code {event.exit_code}" if event.exit_code is not None else ""
    told = "\n".join(dict.fromkeys(part for part in (code, event.error, event.response) if part))
    places = "\n".join(event.files) or _listed(event.parameters)
    if event.action is Action.SHELL:
        said, description = _text(event, "command"), _text(event, "description")
        asked = [f"$ {said}" if said else "", f"# {description}" if description else ""]
        return f"{tool}: {first_line(said, _TITLE)}" if said else tool, "\n".join(filter(None, asked)), told
    if event.action is Action.CHANGE:
        return f"{tool} {', '.join(event.files[:3])}".strip(), places, _diff(event.changes, told)
    if event.action is Action.READ:
        return f"{tool} {', '.join(event.files[:3])}".strip(), places, told
    subject = next(filter(None, (_text(event, key) for key in _SUBJECTS)), "")
    return f"{tool}: {first_line(subject, _TITLE)}" if subject else tool, _listed(event.parameters), told


def _text(event: Event, key: str) -> str:
    found = event.parameters.get(key)
    return found if isinstance(found, str) else ""


def _listed(parameters: Mapping[str, object]) -> str:
    return "\n".join(f"{key}: {outline(value)}" for key, value in parameters.items() if value not in (None, "", [], {}))


def _diff(changes: Sequence[Change], told: str) -> str:
    """The lines that differ, short: where the change was made is known from the file."""
    several = len({change.path for change in changes}) > 1
    lines = [line for change in changes for line in (*([change.path] if several else []), *_differing(change))]
    return "\n".join(part for part in (trim("\n".join(lines), _DIFF), told) if part)


def _differing(change: Change) -> Iterator[str]:
    before, after = change.before.split("\n"), change.after.split("\n")
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    before, after = before[same:], after[same:]
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    yield from (f"- {line}" for line in before if line.strip())
    yield from (f"+ {line}" for line in after if line.strip())
