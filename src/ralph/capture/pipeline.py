"""From an Event to the observation that may be kept: a list of plain functions, each of which may say no.

The order is the safety. Files that nobody may know of are looked for first, in the event as it came. Then
every text of the event is redacted, in the order in which the host told it, so that a private part that is
opened in one member and never closed hides those after it. Only then is anything cut, judged or rendered,
and what was rendered is redacted once more (`observation`), because there key and value stand together.
The same functions read the raw lines of the log (`interpret`), so that a line that the screen let pass by
mistake still does not reach the index.
`tests/capture/test_pipeline.py` puts secrets and private parts everywhere and looks for them in every field.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ralph.capture.commands import programs
from ralph.capture.event import Action, Change, Event, Happening, outline, whole_number
from ralph.capture.hosts import event_of
from ralph.capture.invisible_characters import remove_codes
from ralph.capture.observation import record_of, when
from ralph.capture.privacy import PrivatePaths, Redactor, has_private_parts, map_texts, redact, redact_members
from ralph.model.marks import INJECTED, NOTE, human_prompt
from ralph.model.record import Record


@dataclass(frozen=True, slots=True)
class Rules:
    """The user's own: expressions that are secret, and globs of files that nobody may know of."""

    patterns: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


_PLAIN_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_TOLD = (Happening.POST_TOOL_USE, Happening.POST_TOOL_USE_FAILURE)
_SAID = (Happening.USER_PROMPT_SUBMIT, Happening.STOP, Happening.SUBAGENT_STOP)


def observe(event: Event, *, patterns: Sequence[str] = (), paths: Sequence[str] = ()) -> Record | None:
    """The observation of an event, or None when it is not to be kept."""
    rules = Rules(tuple(patterns), tuple(paths))
    for step in STEPS:
        kept = step(event, rules)
        if kept is None:
            return None
        event = kept
    return record_of(event, rules.patterns)


def interpret(
    value: Mapping[str, object], *, patterns: Sequence[str] = (), paths: Sequence[str] = ()
) -> tuple[Sequence[Record], Mapping[str, object] | None]:
    """The observations and the session's fields of a raw line of the log, of the type `event`."""
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
        run=run if _PLAIN_ID.fullmatch(run) else "",
        iteration=iteration if iteration is None or iteration >= 0 else None,
        task=task if _PLAIN_ID.fullmatch(task) else "",
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
    return event if event.happening in (*_TOLD, *_SAID) else None


def no_hidden_files(event: Event, rules: Rules) -> Event | None:
    """A tool's use that touches or shows a file of `privacy.paths` is not recorded."""
    if not rules.paths or event.happening not in _TOLD:
        return event
    names = (*event.files, *(change.path for change in event.changes))
    texts = (outline(dict(event.parameters)), event.response, event.error)
    return None if PrivatePaths(rules.paths).named_in(texts, names, event.cwd) else event


def redacted(event: Event, rules: Rules) -> Event | None:
    """Every text of the event without its private parts and secrets."""

    def alone(text: str) -> str:
        return redact(remove_codes(text), rules.patterns).text

    shown = (replace(change, before="", after="") if _hides(change) else change for change in event.changes)
    words = Redactor(rules.patterns, tolerant=True)
    event = _each_text(replace(event, changes=tuple(shown)), words)
    if words.astray and words.open:
        # Opened in one text and closed in one that we read before it: nobody can say what the host told between them.
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


def _hides(change: Change) -> bool:
    """Whether a change stands in a file with private parts or a key, or makes something private that was not."""
    return any(map(has_private_parts, (change.whole, change.before, change.after)))


def without_our_words(event: Event, _rules: Rules) -> Event | None:
    """What we handed over is not taken for something new, neither as it was nor as our own tools answer."""
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
    if of_our_loop := _OUR_LOOP.match(prompt):  # what it was told stands in the run's snapshots
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


def _each_text(event: Event, words: Callable[[str], str]) -> Event:
    """The event with a function applied to everything that was said in it, in the order of telling."""
    parameters = _members(map_texts(dict(event.parameters), words))
    changes = tuple(Change(words(change.path), words(change.before), words(change.after)) for change in event.changes)
    return replace(
        event,
        prompt=words(event.prompt),
        parameters=parameters,
        changes=changes,
        response=words(event.response),
        error=words(event.error),
        message=words(event.message),
        source=words(event.source),
        reason=words(event.reason),
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
    kept, at = [], 0
    while (start := text.find(INJECTED, at)) >= 0:
        kept.append(text[at:start])
        at = _block_end(text, start)
    left = "".join([*kept, text[at:]])
    return _NOTE_LINE.sub("", left)


def _block_end(text: str, start: int) -> int:
    """Where a block ends: behind its fence and that line, or at the end of a text that was cut before."""
    opening = _OPENING.match(text, start)
    if opening is None:
        line = text.find("\n", start)
        return line + 1 if line >= 0 else len(text)
    closing = re.compile(rf"{_BREAK}{opening['fence']}(?!`){_BREAK}?").search(text, opening.end())
    return closing.end() if closing else len(text)
