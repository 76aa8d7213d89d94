"""Make the observation of an Event that may be stored: a list of plain functions, each of which may drop it.

The order is the safety. Private paths are searched first, in the event as it came. Then every text is redacted in the
order of the payload, so that a private part that one member opens hides those after it. Only then is anything cut,
classified or rendered, and what was rendered is redacted once more, because key and value meet only there. The same
functions read the raw lines of the log (`interpret`). The id of an observation is derived from what is stored.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from ralph.capture.commands import CommandCheck, check_of, programs
from ralph.capture.events import Action, Event, FileEdit, Happening, event_of, outline, whole_number
from ralph.capture.invisible_characters import remove_codes
from ralph.capture.privacy import PrivatePaths, Redactor, has_private_parts, map_texts, redact, redact_members
from ralph.capture.secrets import MARKER
from ralph.model.marks import INJECTED, NOTE, human_prompt
from ralph.model.record import Family, ObservationKind, Origin, Record, Scope, Status


@dataclass(frozen=True, slots=True)
class Rules:
    """The user's settings: regexes of secrets, and globs of private files."""

    patterns: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


_LOOP_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_TOOL_EVENTS = (Happening.POST_TOOL_USE, Happening.POST_TOOL_USE_FAILURE)
_TEXT_EVENTS = (Happening.USER_PROMPT_SUBMIT, Happening.STOP, Happening.SUBAGENT_STOP)


def observe(event: Event, *, patterns: Sequence[str] = (), paths: Sequence[str] = ()) -> Record | None:
    """Return the observation of an event, or None when it is not to be stored."""
    rules = Rules(tuple(patterns), tuple(paths))
    for step in STEPS:
        result = step(event, rules)
        if result is None:
            return None
        event = result
    return record_of(event, rules.patterns)


def interpret(
    value: Mapping[str, object], *, patterns: Sequence[str] = (), paths: Sequence[str] = ()
) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """Return the observations and the session's fields of a raw line of the log."""
    payload, at = value.get("payload"), value.get("at")
    host, name = value.get("host"), value.get("event")
    if not isinstance(payload, Mapping) or not isinstance(host, str) or not isinstance(name, str):
        return (), None
    event = event_of(host, name, payload, at if isinstance(at, str) else "")
    if event is None or not event.session:
        return (), None
    record = observe(event, patterns=patterns, paths=paths)
    return (() if record is None else (of_loop(record, value),)), session_of(event, patterns=patterns)


def of_loop(record: Record, said: Mapping[str, object]) -> Record:
    """The record with the run, iteration and task that a raw line names, as far as they are plain."""
    run, task = (found if isinstance(found := said.get(name), str) else "" for name in ("run", "task"))
    iteration = whole_number(said.get("iteration"))
    origin = replace(
        record.origin,
        run=run if _LOOP_ID.fullmatch(run) else "",
        iteration=iteration if iteration is None or iteration >= 0 else None,
        task=task if _LOOP_ID.fullmatch(task) else "",
    )
    return record if origin == record.origin else replace(record, origin=origin)


def session_of(event: Event, *, patterns: Sequence[str] = ()) -> Mapping[str, object] | None:
    """What an event says about its session; `started_at` is this event's time, and the earliest one counts."""
    at = event.at if when(event.at) is not None else ""
    ended = event.happening is Happening.SESSION_END
    said = {
        "id": event.session,
        "session_id": event.session,
        "project_path": event.cwd,
        "mode": event.mode,
        "host": event.host,
        "started_at": at,
        "updated_at": at,
        "ended_at": at if ended else "",
        "reason": event.reason if ended else "",
    }
    cleaned = {key: redact(remove_codes(text), patterns).text for key, text in said.items()}
    return {key: text for key, text in cleaned.items() if text} if cleaned["id"] else None


# --- the steps ----------------------------------------------------------------------------------


def only_what_happened(event: Event, _rules: Rules) -> Event | None:
    """Only tools that were used, prompts and answers are observations."""
    return event if event.happening in (*_TOOL_EVENTS, *_TEXT_EVENTS) else None


def no_hidden_files(event: Event, rules: Rules) -> Event | None:
    """A tool's use that touches or shows a file of `privacy.paths` is not recorded."""
    if not rules.paths or event.happening not in _TOOL_EVENTS:
        return event
    names = (*event.files, *(change.path for change in event.changes))
    texts = (outline(dict(event.parameters)), event.response, event.error)
    return None if PrivatePaths(rules.paths).named_in(texts, names, event.cwd) else event


def redacted(event: Event, rules: Rules) -> Event | None:
    """Every text of the event without its private parts and secrets."""

    def alone(text: str) -> str:
        return redact(remove_codes(text), rules.patterns).text

    changes = tuple(
        replace(change, before="", after="")
        if any(map(has_private_parts, (change.whole, change.before, change.after)))
        else change
        for change in event.changes
    )
    redactor = Redactor(rules.patterns, tolerant=True)
    event = _each_text(replace(event, changes=changes), redactor)
    if redactor.astray and redactor.open:
        # Opened in one text and closed in an earlier one: what is between them cannot be known.
        event = _each_text(event, lambda _: "")
    return replace(
        event,
        parameters=_members(redact_members(event.parameters, rules.patterns)),
        session=alone(event.session),
        at=alone(event.at),
        cwd=alone(event.cwd),
        agent=alone(event.agent),
        tool=alone(event.tool),
        call=alone(event.call),
        files=tuple(alone(path) for path in event.files),
    )


def without_our_words(event: Event, _rules: Rules) -> Event | None:
    """Do not take what we injected, or our own tools' answers, for something new."""
    ours = _OUR_TOOL.match(event.tool) is not None
    if event.action is Action.SHELL:
        command = event.parameters.get("command")
        ours = isinstance(command, str) and any(program[0] == "ralph" for program in programs(command))
    return _each_text(replace(event, response="") if ours else event, without_injected)


def no_machine_prompts(event: Event, _rules: Rules) -> Event | None:
    """A prompt that no person wrote is dropped, and what a host or our loop put around one is cut off."""
    if event.happening is not Happening.USER_PROMPT_SUBMIT:
        return event
    prompt = human_prompt(event.prompt)
    if of_our_loop := _OUR_LOOP.match(prompt):  # the run's snapshots have its prompt
        prompt = human_prompt(of_our_loop["task"])
    return replace(event, prompt=prompt) if prompt or not event.prompt.strip() else None


def only_places(event: Event, _rules: Rules) -> Event | None:
    """Reads, searches and fetches are kept as the place they looked at, without what was there."""
    keys = _PLACES.get(event.action)
    if keys is None:
        return event
    kept = {key: value for key, value in event.parameters.items() if key in keys}
    if event.action is Action.FETCH and "url" not in kept:
        asked = event.parameters.get("prompt")
        kept = {"url": url[0]} if isinstance(asked, str) and (url := _URL.search(asked)) else {}
    return replace(event, parameters=kept, response="")


STEPS: tuple[Callable[[Event, Rules], Event | None], ...] = (
    only_what_happened,
    no_hidden_files,
    redacted,
    without_our_words,
    no_machine_prompts,
    only_places,
)
"""What an event goes through, in this order."""

_OUR_TOOL = re.compile(r"(?:mcp_{1,2})(?:plugin_ralph_)?ralph\w*?_{1,2}")
_URL = re.compile(r"https?://[^\s\"'<>)\]]{1,2000}")
_PLACES: Mapping[Action, frozenset[str]] = {
    Action.READ: frozenset("file_path notebook_path path paths absolute_path include".split()),
    Action.SEARCH: frozenset("pattern query path paths glob include type dir_path file_path".split()),
    Action.FETCH: frozenset(["url"]),
}
_OUR_LOOP = re.compile(
    r"# Ralph loop: iteration \d.*?^## Assigned Task\n\n(?:\*\*[\w-]+\*\*: )?(?P<task>.*?)(?=^#{1,2} |\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A prompt of `loop/prompt.py`, and what of it a person has said."""


def _each_text(event: Event, change_text: Callable[[str], str]) -> Event:
    """Apply a function to every text of an event, in the order of the payload."""
    parameters = _members(map_texts(dict(event.parameters), change_text))
    changes = tuple(
        FileEdit(change_text(change.path), change_text(change.before), change_text(change.after))
        for change in event.changes
    )
    return replace(
        event,
        prompt=change_text(event.prompt),
        parameters=parameters,
        changes=changes,
        response=change_text(event.response),
        error=change_text(event.error),
        message=change_text(event.message),
        source=change_text(event.source),
        reason=change_text(event.reason),
    )


def _members(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


# --- our own words ------------------------------------------------------------------------------

_BREAK = r"(?:\r?\n|(?:\\r)?\\n)"
_OPENING = re.compile(rf"[^\n`]{{0,600}}?{_BREAK}(?P<fence>`{{3,}})")
_NOTE_LINE = re.compile(rf"(?:^|(?<=\n)){re.escape(NOTE)}[^\n]*(?:\n|\Z)")


def without_injected(text: str) -> str:
    """The text without the blocks that we put there, whole or torn; the rest stays."""
    if NOTE not in text:
        return text
    pieces, at = [], 0
    while (start := text.find(INJECTED, at)) >= 0:
        pieces.append(text[at:start])
        at = _block_end(text, start)
    return _NOTE_LINE.sub("", "".join([*pieces, text[at:]]))


def _block_end(text: str, start: int) -> int:
    """Where a block ends: behind its fence and that line, or at the end of a text that was cut before."""
    opening = _OPENING.match(text, start)
    if opening is None:
        line = text.find("\n", start)
        return line + 1 if line >= 0 else len(text)
    closing = re.compile(rf"{_BREAK}{opening['fence']}(?!`){_BREAK}?").search(text, opening.end())
    return closing.end() if closing else len(text)


# --- the kind of an event -----------------------------------------------------------------------

_REACH = 40_000
"""How much of either end of an output is read."""
_FAILURE = r"""(?mx)
    \b[1-9]\d{0,6}[ ](?:(?:tests?|specs?|suites?|test[ ]suites?)[ ])?(?:failed|failures?|failing|fails|errored)\b
    |^(?:FAILED|FAIL|ERRORS!|FAILURES!)(?:[ ]\(|\b[:!]|[ \t]+\S|$)|^ERROR[ ]\S+(?:::|\.py)
    |^[ ]*---[ ]FAIL:|\btest[ ]result:[ ]FAILED
    |\b(?:[Ff]ailures|[Ee]rrors|[Ff]ailed):?[ =]{1,8}[1-9]|\bFailed!
    |=[ ][^=\n]{0,80}\b[1-9]\d{0,6}[ ]errors?\b
    |\bFound[ ][1-9]\d{0,6}[ ]errors?\b(?![ ]\(\d+[ ]fixed,[ ]0[ ]remaining)
    |\([1-9]\d{0,6}[ ]errors?[,)]|^[ ]*[1-9]\d{0,6}[ ]errors?(?:,|$|[ ]generated)
    |\berror[ ]?(?:TS|CS|FS|BC|MSB|NU|LNK|C)\d{2,6}\b
    |^[ ]*error(?:\[E\d{4}\])?:[ ]
    |^[^\s:][^\n:]{0,300}:\d{1,7}:(?:\d{1,7}:)?[ ](?:fatal[ ])?error\b
    |^[^\s:]{1,300}:\d{1,7}:\d{1,7}:[ ][A-Z]{1,4}\d{1,4}\b
    |^(?:\./)?[^\s:]{1,300}\.go:\d{1,7}:\d{1,7}:[ ]
    |^npm[ ](?:ERR!|error\b)|^error[ ]Command[ ]failed|^[ ]?(?:ERR_PNPM|ELIFECYCLE)|\bMissing[ ]script:
    |^g?make(?:\[\d+\])?:[ ]\*\*\*|^ninja:[ ]build[ ]stopped|^CMake[ ]Error|\bexited[ ]with[ ]code[ ][1-9]
    |\bBUILD[ ]FAIL(?:ED|URE)\b|\bBuild[ ]FAILED\b|\*\*[ ](?:BUILD|TEST)[ ]FAILED|\bFAILED[ ]TO[ ]BUILD\b
    |\bdid[ ]NOT[ ]complete[ ]successfully|\bThe[ ]following[ ]tests[ ]FAILED|\bFAILED[ ]\|
    |\bwould[ ]reformat\b|\bCode[ ]style[ ]issues\b|^[ ]*✖[ ]|^not[ ]ok[ ]\d|^\#[ ]fail[ ][1-9]|^\#\#\[error\]
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\)|^(?:Uncaught[ ])?(?:Syntax|Reference|ModuleNotFound|Import)Error:[ ]
    |^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$
"""
_PLAIN_FAILURE = r"""(?mx)
    ^npm[ ](?:ERR!|error[ ]code)|^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$|^fatal:[ ]
    |^error:[ ](?:failed|could[ ]not|cannot|unable)\b|^ERROR:[ ](?:Could[ ]not|Failed|No[ ]matching)
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\):
"""
"""What also other commands say only when they fail."""
_VIEWERS = frozenset(
    """cat bat less more head tail grep rg ag sed awk jq yq echo printf ls find fd tree diff git gh journalctl docker
    kubectl wc sort uniq cut strings xxd curl wget history man""".split()
)


def failure_line(output: str, *, check: bool = True) -> str:
    """The first line with which an output says that something failed, or ""."""
    text = output if len(output) <= 2 * _REACH else f"{output[:_REACH]}\n{output[-_REACH:]}"
    found = re.compile(_FAILURE if check else _PLAIN_FAILURE).search(text)
    if found is None:
        return ""
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    return text[start : end if end >= 0 else len(text)].strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of an event, what was checked, and the line that says what went wrong."""

    kind: ObservationKind
    check: CommandCheck | None = None
    line: str = ""


def verdict(event: Event) -> Verdict:
    """What an event was."""
    if event.happening in (Happening.USER_PROMPT_SUBMIT, Happening.STOP, Happening.SUBAGENT_STOP):
        return Verdict(ObservationKind.NOTE)
    command = event.parameters.get("command")
    checking = check_of(command) if event.action is Action.SHELL and isinstance(command, str) else None
    check = checking.kind if checking else None
    output = event.error or event.response
    if event.failed or event.exit_code:
        return Verdict(ObservationKind.ERROR, check, failure_line(output) if check else "")
    background = any(event.parameters.get(key) is True for key in ("run_in_background", "is_background"))
    if event.action is not Action.SHELL or not isinstance(command, str) or background:
        return Verdict(ObservationKind.TOOL_USE)
    if checking is None:
        views = any(program[0] in _VIEWERS for program in programs(command))  # its output was written before
        line = "" if event.exit_code == 0 or views else failure_line(output, check=False)
        return Verdict(ObservationKind.ERROR if line else ObservationKind.TOOL_USE, None, line)
    line = "" if event.exit_code == 0 and checking.last else failure_line(output)
    return Verdict(ObservationKind.ERROR if line else ObservationKind.SUCCESS, check, line)


# --- the record ---------------------------------------------------------------------------------

_TITLE = 120
_COMMAND = 1_000
_ERROR = 200
_ASKED = 800
_DIFF = 1_200
_SUBJECTS = ("description", "query", "skill", "subject", "title", "name", "url", "pattern", "file_path", "path")
"""What a call is about, the best first."""


def record_of(event: Event, patterns: Sequence[str] = ()) -> Record | None:
    """The observation of a redacted event, or None when nothing is left of it."""
    result = verdict(event)
    title, asked, told = _title_and_texts(event)
    if not (asked.strip() or told.strip()) or not title:
        return None
    asked, told = (redact(squeeze(part), patterns).text.strip("\n") for part in (asked, told))
    asked = trim(asked, _ASKED if told else LIMIT)
    text = redact(f"{asked}\n{trim(told, LIMIT - len(asked) - 1)}".strip("\n"), patterns).text
    title = redact(first_line(title, _TITLE), patterns).text
    extra = {
        key: redact(value, patterns).text if isinstance(value, str) else value
        for key, value in _extra(event, result).items()
        if value not in ("", None)
    }
    moment = when(event.at)
    origin = Origin(
        by=_BY.get(event.happening, "tool"),
        session=event.session,
        agent=event.host,
        files=tuple(path for path in event.files if path),
    )
    record = Record(
        id="",
        kind=result.kind,
        text=trim(text),
        family=Family.OBSERVATION,
        title=title,
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=origin,
        created_at=event.at if moment is not None else "",
        extra=extra,
    )
    stored = sorted((key, str(value)) for key, value in extra.items())
    parts = (record.created_at, event.call, origin, record.kind.value, record.title, record.text, stored)
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return replace(record, id=f"obs-{max(0, int(moment.timestamp())) if moment else 0}-{digest[:6]}")


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


def _extra(event: Event, result: Verdict) -> Mapping[str, object]:
    """What later readers ask for by name."""
    command = _parameter(event, "command") if event.action is Action.SHELL else ""
    error = ""
    if result.kind is ObservationKind.ERROR:
        error = first_line(result.line or event.error or event.response, _ERROR)
    return {
        "tool": event.tool,
        "command": trim(command, _COMMAND),
        "check": result.check.value if result.check else "",
        "exit_code": event.exit_code,
        "error": error,
        "agent_id": event.agent,
    }


# --- words --------------------------------------------------------------------------------------


def _title_and_texts(event: Event) -> tuple[str, str, str]:
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
        said, description = _parameter(event, "command"), _parameter(event, "description")
        asked = [f"$ {said}" if said else "", f"# {description}" if description else ""]
        return f"{tool}: {first_line(said, _TITLE)}" if said else tool, "\n".join(filter(None, asked)), told
    if event.action is Action.CHANGE:
        return f"{tool} {', '.join(event.files[:3])}".strip(), places, _diff(event.changes, told)
    if event.action is Action.READ:
        return f"{tool} {', '.join(event.files[:3])}".strip(), places, told
    subject = next(filter(None, (_parameter(event, key) for key in _SUBJECTS)), "")
    return f"{tool}: {first_line(subject, _TITLE)}" if subject else tool, _listed(event.parameters), told


def _parameter(event: Event, key: str) -> str:
    found = event.parameters.get(key)
    return found if isinstance(found, str) else ""


def _listed(parameters: Mapping[str, object]) -> str:
    return "\n".join(f"{key}: {outline(value)}" for key, value in parameters.items() if value not in (None, "", [], {}))


def _diff(changes: Sequence[FileEdit], told: str) -> str:
    """The lines that differ, short: where the change was made is known from the file."""
    several = len({change.path for change in changes}) > 1
    lines = [line for change in changes for line in (*([change.path] if several else []), *_differing(change))]
    return "\n".join(part for part in (trim("\n".join(lines), _DIFF), told) if part)


def _differing(change: FileEdit) -> Iterator[str]:
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


# --- short texts --------------------------------------------------------------------------------

LIMIT = 2_000
"""Characters of text in one observation."""
_HEAD_SHARE = 0.55
_NOTE_ROOM = 48
_FEWEST_REPEATS = 3


def trim(text: str, limit: int = LIMIT) -> str:
    """The text when it is at most `limit` characters, else its head and tail around a note."""
    if len(text) <= limit:
        return text
    room = limit - _NOTE_ROOM
    if room < 2:
        return text[: _outside_marker(text, max(limit, 0), last=False)]
    # Cut behind a whole line, unless that would cost more than half of the head or the tail.
    end = int(room * _HEAD_SHARE)
    start = len(text) - (room - end)
    head, tail = text.rfind("\n", 0, end) + 1, text.find("\n", start) + 1
    if head < end // 2:
        head = _outside_marker(text, end, last=False)
    if not 0 < tail <= start + (len(text) - start) // 2:
        tail = _outside_marker(text, start, last=True)
    note = f"[... {tail - head:,} characters left out ...]"
    before = "" if not head or text[head - 1] == "\n" else "\n"
    after = "" if text[tail : tail + 1] in ("", "\n") else "\n"
    return f"{text[:head]}{before}{note}{after}{text[tail:]}"


def first_line(text: str, limit: int) -> str:
    """The first line that says something, cut to `limit` characters."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: _outside_marker(line, limit - 3, last=False)].rstrip() + "..."


def squeeze(text: str) -> str:
    """The text with each line that repeats itself said once, and how often."""
    said: list[str] = []
    for line, group in groupby(text.split("\n")):
        times = sum(1 for _ in group)
        note = f"[the line above, {times - 1:,} more times]"
        if times >= _FEWEST_REPEATS and (times - 1) * (len(line) + 1) > len(note) + 1:
            said += [line, note]
        else:
            said += [line] * times
    return "\n".join(said)


def _outside_marker(text: str, at: int, *, last: bool) -> int:
    """A place to cut that is in no marker: in front of it, or behind it."""
    for marker in re.compile(MARKER).finditer(text, max(0, at - 64), at + 64):
        if marker.start() < at < marker.end():
            return marker.end() if last else marker.start()
    return at
