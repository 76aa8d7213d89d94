"""Turn an event into an observation that may be stored, in a chain of plain functions.

The order of the steps is what keeps secrets out. First, the unchanged event is searched for private
paths. Then every text is redacted, in the order in which the payload has them. Only then is
anything cut, classified or rendered. The rendered text is redacted once more, because a key and its
value may come together only there.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any

from ralph.capture.commands import CommandCheck, check_of, parts, programs
from ralph.capture.events import Action, Event, FileEdit, Happening, event_of, outline, whole_number
from ralph.capture.summary import choose_error_line
from ralph.core.ids import parse_time
from ralph.core.prompts import (
    FORGET_COMMAND,
    INJECTED,
    NOTE,
    PROSE,
    calls_forget,
    human_prompt,
    is_own_prompt,
)
from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status
from ralph.privacy.json_values import map_texts, redact_members
from ralph.privacy.privacy import redact
from ralph.privacy.private_parts import has_private_parts
from ralph.privacy.private_paths import PrivatePaths
from ralph.privacy.redactor import Redactor
from ralph.privacy.secret_rules import rules_mark
from ralph.privacy.secrets import MARKER
from ralph.privacy.word_splitters import remove_terminal_codes

_LOOP_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_TOOL_EVENTS = (Happening.POST_TOOL_USE, Happening.POST_TOOL_USE_FAILURE)
_WRITERS = {
    Happening.USER_PROMPT_SUBMIT: "human",
    Happening.STOP: "agent",
    Happening.SUBAGENT_STOP: "agent",
}
"""Who wrote an event's text. All other observations come from tools."""


def observe(
    event: Event, *, patterns: Sequence[str] | None = (), paths: Sequence[str] = ()
) -> Record | None:
    """Return an event's observation, or None if nothing is to be stored.

    `patterns` are the user's. Pass None if the event has already been redacted.
    """
    if event.happening not in (*_TOOL_EVENTS, *_WRITERS) or _names_private_file(event, paths):
        return None
    if _forgets(event):
        if event.happening is not Happening.USER_PROMPT_SUBMIT:
            return None
        event = replace(event, prompt=FORGET_COMMAND)  # what it names must not be stored
    if patterns is not None:
        event = _redact_event(event, patterns)
    human = keep_human_prompt(drop_sigils(drop_injected(event)))
    if human is None:
        return None
    return _make_record(drop_results(human), patterns)


def interpret(
    value: Mapping[str, object], *, patterns: Sequence[str] = (), paths: Sequence[str] = ()
) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """Return the observations in a raw log line, and its session fields or None."""
    payload = value.get("payload")
    host = value.get("host")
    name = value.get("event")
    if not isinstance(payload, Mapping) or not isinstance(host, str) or not isinstance(name, str):
        return (), None
    at = value.get("at")
    if not isinstance(at, str):
        at = ""
    event = event_of(host, name, payload, at)
    if event is None or not event.session:
        return (), None
    patterns_to_apply: Sequence[str] | None = patterns
    if value.get("rules") == rules_mark(patterns):
        patterns_to_apply = None  # the hook has already applied these very rules
    session = session_of(event, patterns=patterns_to_apply)
    record = observe(event, patterns=patterns_to_apply, paths=paths)
    if record is None:
        return (), session
    return (of_loop(record, value),), session


def of_loop(record: Record, line: Mapping[str, object]) -> Record:
    """Add the run, iteration and task named in a raw log line to a record's origin."""
    run = _loop_id(line.get("run"))
    task = _loop_id(line.get("task"))
    iteration = whole_number(line.get("iteration"))
    if iteration is not None and iteration < 0:
        iteration = None
    if not run and not task and iteration is None:
        return record
    return replace(record, origin=replace(record.origin, run=run, iteration=iteration, task=task))


def _loop_id(value: object) -> str:
    if isinstance(value, str) and _LOOP_ID.fullmatch(value):
        return value
    return ""


def session_of(event: Event, *, patterns: Sequence[str] | None = ()) -> Mapping[str, object] | None:
    """Return what an event says about its session, or None if it has no session.

    Every event has a `started_at`. The earliest one of a session counts.
    """
    at = event.at
    if parse_time(at) is None:
        at = ""
    fields = {
        "id": event.session,
        "session_id": event.session,
        "project_path": event.cwd,
        "mode": event.mode,
        "host": event.host,
        "started_at": at,
        "updated_at": at,
    }
    if event.happening is Happening.SESSION_END:
        fields["ended_at"] = at
        fields["reason"] = event.reason
    redacted = {key: _redact(remove_terminal_codes(text), patterns) for key, text in fields.items()}
    if not redacted["id"]:
        return None
    return {key: text for key, text in redacted.items() if text}


# --- the steps ----------------------------------------------------------------------------------

_OUR_TOOL = re.compile(r"mcp__(?:plugin_ralph_\w+?|ralph)(?:__|/)|mcp_ralph_(?!_)")
_OUR_PROGRAMS = ("ralph", "ralph-memory")
_NEUTRAL_PROGRAMS = (
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
"""Programs that only filter what is piped into them.

A command line counts as Ralph's own if it contains only Ralph, `_NEUTRAL_PROGRAMS`, and these
filters in a pipe.
"""
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
    if not globs or event.happening not in _TOOL_EVENTS:
        return False
    names = (*event.files, *(change.path for change in event.changes))
    texts = (outline(dict(event.parameters)), event.response, event.error)
    return PrivatePaths(globs).named_in(texts, names, event.cwd)


def _forgets(event: Event) -> bool:
    """Return whether an event calls `ralph forget`.

    Hooks no longer store such events, but logs from older versions contain them.
    """
    if event.happening in _WRITERS:
        return any(calls_forget(text, PROSE) for text in (event.prompt, event.message))
    if event.happening not in _TOOL_EVENTS:
        return False
    if event.files and event.action is not Action.SHELL:
        return False
    if "forget" in event.tool and _OUR_TOOL.match(event.tool):
        return True
    return calls_forget(outline(dict(event.parameters)))


def _redact_event(event: Event, patterns: Sequence[str]) -> Event:
    redactor = Redactor(patterns, tolerant=True)
    changes = tuple(_without_private_edit(change) for change in event.changes)
    event = _map_event(replace(event, changes=changes), redactor)
    if redactor.astray and redactor.open:
        # A tag opens in one text and closes in an earlier one, so nobody knows what is private.
        event = _map_event(event, lambda _: "")

    def redact_text(text: str) -> str:
        return redact(remove_terminal_codes(text), patterns).text

    names = ("session", "at", "cwd", "agent", "tool", "call")
    texts: dict[str, Any] = {name: redact_text(getattr(event, name)) for name in names}
    texts["parameters"] = redact_members(event.parameters, patterns)
    texts["files"] = tuple(redact_text(file) for file in event.files)
    return replace(event, **texts)


def _without_private_edit(change: FileEdit) -> FileEdit:
    """Drop an edit's texts if they may come from a private part of the file."""
    texts = (change.whole, change.before, change.after)
    if any(has_private_parts(text) for text in texts):
        return replace(change, before="", after="")
    return change


def drop_injected(event: Event) -> Event:
    """Drop injected text and the answers from Ralph's own tools, which are nothing new."""
    if _is_call_of_ralph(event):
        event = replace(event, response="")
    return _map_event(event, without_injected)


def _is_call_of_ralph(event: Event) -> bool:
    if event.action is Action.SHELL:
        command = _parameter(event, "command")
        return any(program[0] in _OUR_PROGRAMS for program in programs(command))
    return _OUR_TOOL.match(event.tool) is not None


def drop_sigils(event: Event) -> Event:
    """Remove sigils from a message: the loop stores them as journal and knowledge entries."""
    if "<" not in event.message:
        return event
    from ralph.formats.sigils import without_sigils  # few messages need it

    return replace(event, message=without_sigils(event.message))


def is_own_traffic(record: Record) -> bool:
    """Return whether an observation only shows Ralph's own commands or tools at work."""
    if record.kind is ObservationKind.NOTE:
        return record.origin.by == "human" and is_own_prompt(record.text.lstrip())
    tool = str(record.extra.get("tool") or "")
    command = record.extra.get("command")
    if isinstance(command, str):
        return _only_calls_ralph(command)
    if tool in ("Skill", "SlashCommand"):
        first_parameter = record.text.partition(": ")[2]
        return is_own_prompt("/" + first_parameter.lstrip("/"))
    return _OUR_TOOL.match(tool) is not None


def _only_calls_ralph(command: str) -> bool:
    calls_ralph = False
    is_piped = False
    for words, operator in parts(command):
        is_comment = words[0].startswith("#")
        if not is_comment:
            for name, *_ in programs(shlex.join(words)):
                if name in _OUR_PROGRAMS:
                    calls_ralph = True
                elif name not in (_OUTPUT_FILTERS if is_piped else _NEUTRAL_PROGRAMS):
                    return False
        is_piped = operator in ("|", "|&")
    return calls_ralph


def keep_human_prompt(event: Event) -> Event | None:
    """Reduce a prompt to what a person wrote, and return None if no person wrote any of it.

    Events other than prompts are returned unchanged.
    """
    if event.happening is not Happening.USER_PROMPT_SUBMIT:
        return event
    prompt = human_prompt(event.prompt)
    loop_prompt = _OUR_LOOP.match(prompt)
    if loop_prompt:  # the run's snapshots contain the whole prompt
        prompt = human_prompt(loop_prompt["task"])
    if event.prompt.strip() and not prompt:
        return None
    return replace(event, prompt=prompt)


def drop_results(event: Event) -> Event:
    """Keep only the location that was read, searched or fetched, not the result."""
    keys = _LOCATION_KEYS.get(event.action)
    if keys is None:
        return event
    parameters = {key: value for key, value in event.parameters.items() if key in keys}
    if event.action is Action.FETCH and "url" not in parameters:
        url = _URL.search(_parameter(event, "prompt"))
        parameters = {"url": url[0]} if url else {}
    return replace(event, parameters=parameters, response="")


def _map_event(event: Event, change_text: Callable[[str], str]) -> Event:
    # In payload order, because a private part that opens in one text hides the texts after it.
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
    """Remove the blocks that Ralph injected, even one that is cut off."""
    if NOTE not in text:
        return text
    kept = []
    position = 0
    start = text.find(INJECTED)
    while start >= 0:
        kept.append(text[position:start])
        position = _end_of_injected(text, start)
        start = text.find(INJECTED, position)
    kept.append(text[position:])
    return _NOTE_LINE.sub("", "".join(kept))


def _end_of_injected(text: str, start: int) -> int:
    """Return where an injected block ends: after its closing fence, or after its only line."""
    opening = _OPENING.match(text, start)
    if opening:
        fence = re.compile(rf"{_BREAK}{opening['fence']}(?!`){_BREAK}?")
        closing = fence.search(text, opening.end())
    else:
        closing = re.compile(r"\n").search(text, start)
    if closing:
        return closing.end()
    return len(text)


# --- the kind of an event -----------------------------------------------------------------------

_SEARCHED_END = 40_000  # characters to search at each end of an output
_FAILURE = r"""(?mx)
    \b[1-9]\d{0,6}[ ](?:(?:tests?|specs?|suites?|test[ ]suites?)[ ])?
      (?:failed|failures?|failing|fails|errored)\b
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
    |^npm[ ](?:ERR!|error\b)|^error[ ]Command[ ]failed
    |^[ ]?(?:ERR_PNPM|ELIFECYCLE)|\bMissing[ ]script:
    |^g?make(?:\[\d+\])?:[ ]\*\*\*|^ninja:[ ]build[ ]stopped
    |^CMake[ ]Error|\bexited[ ]with[ ]code[ ][1-9]
    |\bBUILD[ ]FAIL(?:ED|URE)\b|\bBuild[ ]FAILED\b
    |\*\*[ ](?:BUILD|TEST)[ ]FAILED|\bFAILED[ ]TO[ ]BUILD\b
    |\bdid[ ]NOT[ ]complete[ ]successfully|\bThe[ ]following[ ]tests[ ]FAILED|\bFAILED[ ]\|
    |\bwould[ ]reformat\b|\bCode[ ]style[ ]issues\b
    |^[ ]*✖[ ]|^not[ ]ok[ ]\d|^\#[ ]fail[ ][1-9]|^\#\#\[error\]
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\)
    |^(?:Uncaught[ ])?(?:Syntax|Reference|ModuleNotFound|Import)Error:[ ]
    |^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$
"""
_PLAIN_FAILURE = r"""(?mx)
    ^npm[ ](?:ERR!|error[ ]code)|^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$|^fatal:[ ]
    |^error:[ ](?:failed|could[ ]not|cannot|unable)\b|^ERROR:[ ](?:Could[ ]not|Failed|No[ ]matching)
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\):
"""
"""What a command that is not a check prints only if it fails."""
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
    """Return the first line of an output that reports a failure, or "".

    `check` says that the output comes from a check, such as a test run.
    """
    text = output
    if len(output) > 2 * _SEARCHED_END:
        text = f"{output[:_SEARCHED_END]}\n{output[-_SEARCHED_END:]}"
    match = re.search(_FAILURE if check else _PLAIN_FAILURE, text)
    if match is None:
        return ""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    if end < 0:
        end = len(text)
    return text[start:end].strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An event's kind, what it checked, and the line that reports its failure."""

    kind: ObservationKind
    check: CommandCheck | None = None
    line: str = ""


def verdict(event: Event) -> Verdict:
    """Classify an event by its command, exit code and output."""
    if event.happening in _WRITERS:
        return Verdict(ObservationKind.NOTE)
    command = ""
    if event.action is Action.SHELL:
        command = _parameter(event, "command")
    check, is_last = check_of(command)
    output = event.error or event.response
    if event.failed or event.exit_code:
        line = failure_line(output) if check else ""
        return Verdict(ObservationKind.ERROR, check, line)
    if not command or _runs_in_background(event):
        return Verdict(ObservationKind.TOOL_USE)
    # The exit code is conclusive only if it is the check's own.
    is_conclusive = event.exit_code == 0 and (check is None or is_last)
    if not is_conclusive and not _is_viewer(command, check):
        line = failure_line(output, check=check is not None)
        if line:
            return Verdict(ObservationKind.ERROR, check, line)
    if check is None:
        return Verdict(ObservationKind.TOOL_USE)
    return Verdict(ObservationKind.SUCCESS, check)


def _runs_in_background(event: Event) -> bool:
    flags = ("run_in_background", "is_background")
    return any(event.parameters.get(flag) is True for flag in flags)


def _is_viewer(command: str, check: CommandCheck | None) -> bool:
    """Return whether a command only displays existing text, which may mention old failures."""
    return check is None and any(program[0] in _VIEWERS for program in programs(command))


# --- the record ---------------------------------------------------------------------------------

# Limits for the parts of an observation, in characters.
_MAX_TITLE = 120
_MAX_TOOL_NAME = 100
_MAX_COMMAND = 1_000
_MAX_ERROR_LINE = 200
_MAX_REQUEST = 800  # if a result follows
_MAX_DIFF = 1_200
_MAX_SEARCHED_OUTPUT = 20_000  # how much is searched for the line that names the error
_MAX_TITLE_FILES = 3  # files
OWN = "own"  # how many characters come from the agent; a tool printed the rest
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


@dataclass(frozen=True, slots=True)
class _Rendered:
    """An event as text: its title, what was asked for, and what came back."""

    title: str
    request: str
    result: str


def _redact(text: str, patterns: Sequence[str] | None) -> str:
    if patterns is None:
        return text
    return redact(text, patterns).text


def _make_record(event: Event, patterns: Sequence[str] | None) -> Record | None:
    rendered = _render(event)
    has_content = rendered.request.strip() or rendered.result.strip()
    if not has_content or not rendered.title:
        return None
    outcome = verdict(event)
    request = _redact(rendered.request, patterns).strip("\n")
    result = _redact(rendered.result, patterns).strip("\n")
    request_limit = LIMIT
    if result and event.action is not Action.CHANGE:
        request_limit = _MAX_REQUEST
    request = trim(request, request_limit)
    result_limit = LIMIT - len(request) - 1
    text = trim(_redact(f"{request}\n{trim(result, result_limit)}".strip("\n"), patterns))
    extra: dict[str, object] = {
        "tool": event.tool,
        "command": _shell_command(event),
        "check": outcome.check.value if outcome.check else "",
        "exit_code": event.exit_code,
        "error": first_line(_error_of(event, outcome), _MAX_ERROR_LINE),
        "agent_id": event.agent,
    }
    if result:
        extra[OWN] = len(request) if text.startswith(request) else 0
    moment = parse_time(event.at)
    record = Record(
        id="",
        kind=outcome.kind,
        text=text,
        family=Family.OBSERVATION,
        title=_redact(first_line(rendered.title, _MAX_TITLE), patterns),
        status=Status.RAW,
        scope=Scope.SESSION,
        origin=Origin(
            by=_WRITERS.get(event.happening, "tool"),
            session=event.session,
            agent=event.host,
            files=tuple(file for file in event.files if file),
        ),
        created_at=event.at if moment is not None else "",
        extra=_redact_extra(extra, patterns),
    )
    seconds = max(0, int(moment.timestamp())) if moment else 0
    return replace(record, id=f"obs-{seconds}-{_digest(record, event.call)}")


def _shell_command(event: Event) -> str:
    if event.action is not Action.SHELL:
        return ""
    return trim(_parameter(event, "command"), _MAX_COMMAND)


def _error_of(event: Event, outcome: Verdict) -> str:
    if outcome.kind is not ObservationKind.ERROR:
        return ""
    if outcome.line:
        return outcome.line
    output = (event.error or event.response)[:_MAX_SEARCHED_OUTPUT]
    return choose_error_line(output.splitlines())


def _redact_extra(extra: Mapping[str, object], patterns: Sequence[str] | None) -> dict[str, object]:
    redacted: dict[str, object] = {}
    for key, value in extra.items():
        if value in ("", None):
            continue
        redacted[key] = _redact(value, patterns) if isinstance(value, str) else value
    return redacted


def _digest(record: Record, call: str) -> str:
    """Return six hex digits derived from what is stored and the call's id."""
    stored = (
        record.created_at,
        call,
        record.origin,
        record.kind.value,
        record.title,
        record.text,
        sorted((key, str(value)) for key, value in record.extra.items()),
    )
    return hashlib.sha256(repr(stored).encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _render(event: Event) -> _Rendered:
    if event.happening is Happening.USER_PROMPT_SUBMIT:
        return _Rendered("prompt", event.prompt, "")
    if event.happening in _WRITERS:
        return _Rendered("answer", event.message, "")
    tool = first_line(event.tool, _MAX_TOOL_NAME)
    outputs = dict.fromkeys(part for part in (event.error, event.response) if part)
    result = "\n".join(outputs)
    if event.action is Action.SHELL:
        return _render_command(event, tool, result)
    if event.action in (Action.CHANGE, Action.READ):
        files = ", ".join(event.files[:_MAX_TITLE_FILES])
        return _Rendered(f"{tool} {files}".strip(), _describe_files(event), result)
    title = tool
    for key in _SUBJECTS:
        subject = _parameter(event, key)
        if subject:
            title = f"{tool}: {first_line(subject, _MAX_TITLE)}"
            break
    return _Rendered(title, _describe_parameters(event), result)


def _render_command(event: Event, tool: str, result: str) -> _Rendered:
    command = _parameter(event, "command")
    description = _parameter(event, "description")
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
        header_lines = 2
        hunks = list(unified_diff(before, after, n=0, lineterm=""))
        for line in hunks[header_lines:]:
            if line[0] in "+-" and line[1:].strip():
                yield f"{line[0]} {line[1:]}"


def _parameter(event: Event, key: str) -> str:
    value = event.parameters.get(key)
    if isinstance(value, str):
        return value
    return ""


# --- short texts --------------------------------------------------------------------------------

LIMIT = 2_000  # characters of text in one observation
_HEAD_SHARE = 0.55  # of what remains of a trimmed text; the tail gets the rest
_NOTE_CHARACTERS = 48  # reserved for the note about what was left out
_MARKER_REACH = 64  # characters around a cut in which a redaction marker may lie


def trim(text: str, limit: int = LIMIT) -> str:
    """Shorten text to its head and tail, with a note between them, if it exceeds `limit`."""
    if len(text) <= limit:
        return text
    room = limit - _NOTE_CHARACTERS
    if room < 2:
        return text[: _outside_marker(text, max(limit, 0), after=False)]
    # Cut at a line end, unless that would cost more than half of the head or the tail.
    head_end = int(room * _HEAD_SHARE)
    tail_start = len(text) - (room - head_end)
    head = text.rfind("\n", 0, head_end) + 1
    if head < head_end // 2:
        head = _outside_marker(text, head_end, after=False)
    tail = text.find("\n", tail_start) + 1
    middle_of_tail = tail_start + (len(text) - tail_start) // 2
    if not 0 < tail <= middle_of_tail:
        tail = _outside_marker(text, tail_start, after=True)
    before = "" if not head or text[head - 1] == "\n" else "\n"
    after = "" if text[tail : tail + 1] in ("", "\n") else "\n"
    note = f"[... {tail - head:,} characters left out ...]"
    return f"{text[:head]}{before}{note}{after}{text[tail:]}"


def first_line(text: str, limit: int) -> str:
    """Return the first line that is not blank, cut to `limit` characters, or ""."""
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words:
            continue
        if len(words) <= limit:
            return words
        return words[: _outside_marker(words, limit - 3, after=False)].rstrip() + "..."
    return ""


def _outside_marker(text: str, position: int, *, after: bool) -> int:
    """Return where to cut a text: at `position`, unless that would split a redaction marker.

    In that case the cut moves to the marker's start, or to its end if `after`.
    """
    start = max(0, position - _MARKER_REACH)
    for marker in re.compile(MARKER).finditer(text, start, position + _MARKER_REACH):
        if marker.start() < position < marker.end():
            return marker.end() if after else marker.start()
    return position
