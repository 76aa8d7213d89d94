"""Make the observation of an Event that may be stored, by plain functions from event to event.

The order is the safety: private paths are searched in the event as it came, then every text is redacted in the order of
the payload, and only then is anything cut, classified or rendered. What was rendered is redacted once more, because key
and value meet only there.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any

from ralph.capture.commands import CommandCheck, check_of, parts, programs
from ralph.capture.events import Action, Event, FileEdit, Happening, event_of, outline, whole_number
from ralph.capture.invisible_characters import remove_codes
from ralph.capture.privacy import (
    PrivatePaths,
    Redactor,
    has_private_parts,
    map_texts,
    redact,
    redact_members,
)
from ralph.capture.secret_rules import rules_mark
from ralph.capture.secrets import MARKER
from ralph.capture.summary import choose_error_line
from ralph.model import (
    FORGET_COMMAND,
    INJECTED,
    NOTE,
    PROSE,
    calls_forget,
    human_prompt,
    is_own_prompt,
)
from ralph.model.ids import parse_time
from ralph.model.record import Family, ObservationKind, Origin, Record, Scope, Status

_LOOP_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_TOOL_EVENTS = (Happening.POST_TOOL_USE, Happening.POST_TOOL_USE_FAILURE)
_WRITERS = {
    Happening.USER_PROMPT_SUBMIT: "human",
    Happening.STOP: "agent",
    Happening.SUBAGENT_STOP: "agent",
}
"""Who wrote the text of an event; other observations are those of tools."""


def observe(
    event: Event, *, patterns: Sequence[str] | None = (), paths: Sequence[str] = ()
) -> Record | None:
    """Return the observation of an event; `patterns` is None when the rules have redacted it."""
    if event.happening not in (*_TOOL_EVENTS, *_WRITERS) or _names_private_file(event, paths):
        return None
    if _forgets(event):
        if event.happening is not Happening.USER_PROMPT_SUBMIT:
            return None
        event = replace(event, prompt=FORGET_COMMAND)  # what it names must not be stored
    redacted = event if patterns is None else _redact_event(event, patterns)
    human = keep_human_prompt(drop_sigils(drop_injected(redacted)))
    return None if human is None else _make_record(drop_results(human), patterns)


def interpret(
    value: Mapping[str, object], *, patterns: Sequence[str] = (), paths: Sequence[str] = ()
) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """Return the observations and the session's fields of a raw log line."""
    payload = value.get("payload")
    at = value.get("at")
    host = value.get("host")
    name = value.get("event")
    if not isinstance(payload, Mapping) or not isinstance(host, str) or not isinstance(name, str):
        return (), None
    event = event_of(host, name, payload, at if isinstance(at, str) else "")
    if event is None or not event.session:
        return (), None
    unredacted = None if value.get("rules") == rules_mark(patterns) else patterns
    record = observe(event, patterns=unredacted, paths=paths)
    return (() if record is None else (of_loop(record, value),)), session_of(
        event, patterns=unredacted
    )


def of_loop(record: Record, line: Mapping[str, object]) -> Record:
    """Add the run, iteration and task that a raw line names."""
    run, task = (
        value if isinstance(value := line.get(name), str) and _LOOP_ID.fullmatch(value) else ""
        for name in ("run", "task")
    )
    number = whole_number(line.get("iteration"))
    iteration = None if number is not None and number < 0 else number
    if not run and not task and iteration is None:
        return record
    return replace(record, origin=replace(record.origin, run=run, iteration=iteration, task=task))


def session_of(event: Event, *, patterns: Sequence[str] | None = ()) -> Mapping[str, object] | None:
    """Return an event's fields of its session; the earliest `started_at` counts."""
    at = event.at if parse_time(event.at) is not None else ""
    ended = event.happening is Happening.SESSION_END
    fields = {
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
    fields = {key: _redact(remove_codes(text), patterns) for key, text in fields.items()}
    return {key: text for key, text in fields.items() if text} if fields["id"] else None


# --- the steps ----------------------------------------------------------------------------------

_OUR_TOOL = re.compile(r"mcp__(?:plugin_ralph_\w+?|ralph)(?:__|/)|mcp_ralph_(?!_)")
_OUR_PROGRAMS = ("ralph", "ralph-memory")
_BESIDE_US = (
    "cd",
    "echo",
    "printf",
    "true",
    "export",
    "for",
    "done",
    "fi",
)
_OUTPUT_FILTERS = (
    "head",
    "tail",
    "cat",
    "less",
    "more",
    "grep",
    "rg",
    "sed",
    "awk",
    "jq",
    "json.tool",
    "sort",
    "uniq",
    "wc",
    "cut",
    "tr",
    "column",
)
"""Programs that do nothing of their own in a line with a call of ours, and those that only filter its output."""
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
    r"# Ralph loop: iteration \d.*?^## Assigned Task\n\n(?:\*\*[\w-]+\*\*: )?(?P<task>.*?)(?=^#{1,2} |\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A prompt of `loop/prompt.py`, and what a person wrote of it."""


def _names_private_file(event: Event, globs: Sequence[str]) -> bool:
    if not globs or event.happening not in _TOOL_EVENTS:
        return False
    names = (*event.files, *(change.path for change in event.changes))
    texts = (outline(dict(event.parameters)), event.response, event.error)
    return PrivatePaths(globs).named_in(texts, names, event.cwd)


def _forgets(event: Event) -> bool:
    """A call of `ralph forget`, also in a log of a version whose hooks stored its texts."""
    if event.happening in _WRITERS:
        return any(calls_forget(text, PROSE) for text in (event.prompt, event.message))
    if event.happening not in _TOOL_EVENTS or (event.files and event.action is not Action.SHELL):
        return False
    is_our_tool = _OUR_TOOL.match(event.tool) is not None and "forget" in event.tool
    return is_our_tool or calls_forget(outline(dict(event.parameters)))


def _redact_event(event: Event, patterns: Sequence[str]) -> Event:
    redactor = Redactor(patterns, tolerant=True)
    changes = tuple(
        replace(change, before="", after="")  # it may be inside of a private part
        if any(map(has_private_parts, (change.whole, change.before, change.after)))
        else change
        for change in event.changes
    )
    event = _map_event(replace(event, changes=changes), redactor)
    if redactor.astray and redactor.open:
        # Opened in one text and closed in an earlier one: what is between them cannot be known.
        event = _map_event(event, lambda _: "")

    def redact_text(text: str) -> str:
        return redact(remove_codes(text), patterns).text

    names = ("session", "at", "cwd", "agent", "tool", "call")
    texts: dict[str, Any] = {name: redact_text(getattr(event, name)) for name in names}
    texts["parameters"] = redact_members(event.parameters, patterns)
    return replace(event, **texts, files=tuple(map(redact_text, event.files)))


def drop_injected(event: Event) -> Event:
    """Drop what we injected and our own tools' answers: nothing new."""
    ours = _OUR_TOOL.match(event.tool) is not None
    if event.action is Action.SHELL:
        ours = any(
            program[0] in _OUR_PROGRAMS for program in programs(_parameter(event, "command"))
        )
    return _map_event(replace(event, response="") if ours else event, without_injected)


def drop_sigils(event: Event) -> Event:
    """Remove what the loop keeps as journal and knowledge."""
    if "<" not in event.message:
        return event
    from ralph.formats.sigils import without_sigils  # few messages need it

    return replace(event, message=without_sigils(event.message)) if event.message else event


def is_own_traffic(record: Record) -> bool:
    """Whether an observation is Ralph at work: its commands or tools."""
    if record.kind is ObservationKind.NOTE:
        return record.origin.by == "human" and is_own_prompt(record.text.lstrip())
    tool = str(record.extra.get("tool") or "")
    command = record.extra.get("command")
    if isinstance(command, str):
        return _only_calls_ralph(command)
    if tool in ("Skill", "SlashCommand"):
        return is_own_prompt(
            "/" + record.text.partition(": ")[2].lstrip("/")
        )  # its first parameter
    return _OUR_TOOL.match(tool) is not None


def _only_calls_ralph(command: str) -> bool:
    calls = False
    is_piped = False
    for words, operator in parts(command):
        for name, *_ in programs(shlex.join(words)) if not words[0].startswith("#") else ():
            calls = calls or name in _OUR_PROGRAMS
            if name not in (*_OUR_PROGRAMS, *(_OUTPUT_FILTERS if is_piped else _BESIDE_US)):
                return False
        is_piped = operator in ("|", "|&")
    return calls


def keep_human_prompt(event: Event) -> Event | None:
    """Drop a prompt that no person wrote, and what is around one."""
    if event.happening is not Happening.USER_PROMPT_SUBMIT:
        return event
    prompt = human_prompt(event.prompt)
    if of_our_loop := _OUR_LOOP.match(prompt):  # the run's snapshots have its prompt
        prompt = human_prompt(of_our_loop["task"])
    return replace(event, prompt=prompt) if prompt or not event.prompt.strip() else None


def drop_results(event: Event) -> Event:
    """Keep of reads, searches and fetches only the location."""
    keys = _LOCATION_KEYS.get(event.action)
    if keys is None:
        return event
    parameters = {key: value for key, value in event.parameters.items() if key in keys}
    if event.action is Action.FETCH and "url" not in parameters:
        url = _URL.search(_parameter(event, "prompt"))
        parameters = {"url": url[0]} if url else {}
    return replace(event, parameters=parameters, response="")


def _map_event(event: Event, change_text: Callable[[str], str]) -> Event:
    # in the order of the payload: a private part that one text opens hides the texts after it
    texts: dict[str, Any] = {"prompt": change_text(event.prompt)}
    texts["parameters"] = map_texts(dict(event.parameters), change_text) or {}
    texts["changes"] = tuple(
        FileEdit(change_text(change.path), change_text(change.before), change_text(change.after))
        for change in event.changes
    )
    for name in ("response", "error", "message", "source", "reason"):
        texts[name] = change_text(getattr(event, name))
    return replace(event, **texts)


_BREAK = r"(?:\r?\n|(?:\\r)?\\n)"
_OPENING = re.compile(rf"[^\n`]{{0,600}}?{_BREAK}(?P<fence>`{{3,}})")
_NOTE_LINE = re.compile(rf"(?:^|(?<=\n)){re.escape(NOTE)}[^\n]*(?:\n|\Z)")


def without_injected(text: str) -> str:
    """Remove the blocks that we injected; one may be cut off."""
    if NOTE not in text:
        return text
    pieces = []
    at = 0
    while (start := text.find(INJECTED, at)) >= 0:
        pieces.append(text[at:start])
        opening = _OPENING.match(text, start)
        end = rf"{_BREAK}{opening['fence']}(?!`){_BREAK}?" if opening else r"\n"
        closing = re.compile(end).search(text, opening.end() if opening else start)
        at = closing.end() if closing else len(text)
    return _NOTE_LINE.sub("", "".join([*pieces, text[at:]]))


# --- the kind of an event -----------------------------------------------------------------------

_REACH = 40_000  # how much of either end of an output is read
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
"""What other commands print only when they fail."""
_VIEWERS = frozenset(
    {
        "cat",
        "bat",
        "less",
        "more",
        "head",
        "tail",
        "grep",
        "rg",
        "ag",
        "sed",
        "awk",
        "jq",
        "yq",
        "echo",
        "printf",
        "ls",
        "find",
        "fd",
        "tree",
        "diff",
        "git",
        "gh",
        "journalctl",
        "docker",
        "kubectl",
        "wc",
        "sort",
        "uniq",
        "cut",
        "strings",
        "xxd",
        "curl",
        "wget",
        "history",
        "man",
    }
)


def failure_line(output: str, *, check: bool = True) -> str:
    """Return the first line that reports a failure."""
    text = output if len(output) <= 2 * _REACH else f"{output[:_REACH]}\n{output[-_REACH:]}"
    match = re.compile(_FAILURE if check else _PLAIN_FAILURE).search(text)
    if match is None:
        return ""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[start : end if end >= 0 else len(text)].strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of an event, what was checked, and the failure's line."""

    kind: ObservationKind
    check: CommandCheck | None = None
    line: str = ""


def verdict(event: Event) -> Verdict:
    """Classify an event."""
    if event.happening in _WRITERS:
        return Verdict(ObservationKind.NOTE)
    command = _parameter(event, "command") if event.action is Action.SHELL else ""
    check, is_last = check_of(command)
    output = event.error or event.response
    if event.failed or event.exit_code:
        return Verdict(ObservationKind.ERROR, check, failure_line(output) if check else "")
    background = any(
        event.parameters.get(key) is True for key in ("run_in_background", "is_background")
    )
    if not command or background:
        return Verdict(ObservationKind.TOOL_USE)
    # An exit code counts if it is the check's own; a viewer shows what was written before.
    is_sure = event.exit_code == 0 and (check is None or is_last)
    is_viewer = check is None and any(program[0] in _VIEWERS for program in programs(command))
    line = "" if is_sure or is_viewer else failure_line(output, check=check is not None)
    passed = ObservationKind.TOOL_USE if check is None else ObservationKind.SUCCESS
    return Verdict(ObservationKind.ERROR if line else passed, check, line)


# --- the record ---------------------------------------------------------------------------------

_TITLE = 120
_COMMAND = 1_000
_ERROR = 200
_REQUEST = 800
_DIFF = 1_200
_SEARCHED = 20_000
OWN = (
    "own"  # how many characters of a text the agent caused itself; the rest is what a tool printed
)
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
"""What a call is about, the best first."""


def _redact(text: str, patterns: Sequence[str] | None) -> str:
    return text if patterns is None else redact(text, patterns).text


def _make_record(event: Event, patterns: Sequence[str] | None) -> Record | None:
    title, request, result = _render(event)
    if not (request.strip() or result.strip()) or not title:
        return None
    outcome = verdict(event)
    request, result = (_redact(part, patterns).strip("\n") for part in (request, result))
    request = trim(request, _REQUEST if result and event.action is not Action.CHANGE else LIMIT)
    text = trim(
        _redact(f"{request}\n{trim(result, LIMIT - len(request) - 1)}".strip("\n"), patterns)
    )
    error = ""
    if outcome.kind is ObservationKind.ERROR:
        error = outcome.line or choose_error_line(
            (event.error or event.response)[:_SEARCHED].splitlines()
        )
    extra = {
        "tool": event.tool,
        "command": trim(_parameter(event, "command"), _COMMAND)
        if event.action is Action.SHELL
        else "",
        "check": outcome.check.value if outcome.check else "",
        "exit_code": event.exit_code,
        "error": first_line(error, _ERROR),
        "agent_id": event.agent,
        OWN: (len(request) if text.startswith(request) else 0) if result else None,
    }
    moment = parse_time(event.at)
    record = Record(
        id="",
        kind=outcome.kind,
        text=text,
        family=Family.OBSERVATION,
        title=_redact(first_line(title, _TITLE), patterns),
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=Origin(
            by=_WRITERS.get(event.happening, "tool"),
            session=event.session,
            agent=event.host,
            files=tuple(filter(None, event.files)),
        ),
        created_at=event.at if moment is not None else "",
        extra={
            key: _redact(value, patterns) if isinstance(value, str) else value
            for key, value in extra.items()
            if value not in ("", None)
        },
    )
    stored = sorted((key, str(value)) for key, value in record.extra.items())
    parts = (
        record.created_at,
        event.call,
        record.origin,
        record.kind.value,
        record.title,
        record.text,
        stored,
    )
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return replace(
        record, id=f"obs-{max(0, int(moment.timestamp())) if moment else 0}-{digest[:6]}"
    )


def _render(event: Event) -> tuple[str, str, str]:
    if event.happening in _WRITERS:
        is_prompt = event.happening is Happening.USER_PROMPT_SUBMIT
        return ("prompt", event.prompt, "") if is_prompt else ("answer", event.message, "")
    tool = first_line(event.tool, 100)
    code = f"exit code {event.exit_code}" if event.exit_code is not None else ""
    result = "\n".join(dict.fromkeys(part for part in (event.error, event.response) if part))
    if event.action is Action.SHELL:
        command = _parameter(event, "command")
        description = _parameter(event, "description")
        lines = [f"$ {command}" if command else "", f"# {description}" if description else "", code]
        title = f"{tool}: {first_line(command, _TITLE)}" if command else tool
        return title, "\n".join(filter(None, lines)), result
    parameters = "\n".join(
        f"{key}: {outline(value)}"
        for key, value in event.parameters.items()
        if value not in (None, "", [], {})
    )
    if event.action in (Action.CHANGE, Action.READ):
        several = len({change.path for change in event.changes}) > 1
        lines = list[str]()
        for change in event.changes if event.action is Action.CHANGE else ():
            if several:
                lines.append(change.path)
            hunks = unified_diff(
                change.before.split("\n"), change.after.split("\n"), n=0, lineterm=""
            )
            lines += [
                f"{line[0]} {line[1:]}"
                for line in list(hunks)[2:]
                if line[0] in "+-" and line[1:].strip()
            ]
        difference = trim("\n".join(lines), _DIFF)
        request = "\n".join(filter(None, ("\n".join(event.files) or parameters, difference)))
        return f"{tool} {', '.join(event.files[:3])}".strip(), request, result
    subject = next(filter(None, (_parameter(event, key) for key in _SUBJECTS)), "")
    return f"{tool}: {first_line(subject, _TITLE)}" if subject else tool, parameters, result


def _parameter(event: Event, key: str) -> str:
    value = event.parameters.get(key)
    return value if isinstance(value, str) else ""


# --- short texts --------------------------------------------------------------------------------

LIMIT = 2_000  # characters of text in one observation
_HEAD_SHARE = 0.55
_NOTE_ROOM = 48


def trim(text: str, limit: int = LIMIT) -> str:
    """Shorten a text to its head and tail around a note."""
    if len(text) <= limit:
        return text
    room = limit - _NOTE_ROOM
    if room < 2:
        return text[: _outside_marker(text, max(limit, 0), last=False)]
    # Cut behind a whole line, unless that would cost more than half of the head or the tail.
    end = int(room * _HEAD_SHARE)
    start = len(text) - (room - end)
    head = text.rfind("\n", 0, end) + 1
    tail = text.find("\n", start) + 1
    if head < end // 2:
        head = _outside_marker(text, end, last=False)
    if not 0 < tail <= start + (len(text) - start) // 2:
        tail = _outside_marker(text, start, last=True)
    before = "" if not head or text[head - 1] == "\n" else "\n"
    after = "" if text[tail : tail + 1] in ("", "\n") else "\n"
    return f"{text[:head]}{before}[... {tail - head:,} characters left out ...]{after}{text[tail:]}"


def first_line(text: str, limit: int) -> str:
    """Return the first line that is not blank, cut to `limit` characters."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    return (
        line
        if len(line) <= limit
        else line[: _outside_marker(line, limit - 3, last=False)].rstrip() + "..."
    )


def _outside_marker(text: str, at: int, *, last: bool) -> int:
    for marker in re.compile(MARKER).finditer(text, max(0, at - 64), at + 64):
        if marker.start() < at < marker.end():
            return marker.end() if last else marker.start()
    return at
