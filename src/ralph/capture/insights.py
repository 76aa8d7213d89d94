"""Propose insights, which are lessons that a task has taught, without using a model.

They come from four sources:

1. sigil: what the agent wrote in `<knowledge>` and `<journal>` tags. In a journal, only bullets
   below a heading and labelled lines ("Gotcha: ...") count.
2. heading: bullets below a heading such as Learnings, Gotchas, Patterns, Decisions, Discoveries or
   Notes, in progress.txt or in a message.
3. fix: an error whose command passed after edits or another command. The failure, the steps between
   and the success are the evidence.
4. marked: what a person asks to remember ("remember: ...").
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TypeGuard

from ralph.capture.commands import CommandCheck, Words, check_of, parts, programs
from ralph.capture.pipeline import first_line, trim
from ralph.capture.summary import error_line, is_edit, is_prompt
from ralph.core.ids import parse_time
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Record,
    Scope,
    Status,
    kind_of,
)
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.formats.sigils import without_sigils

EVIDENCE = "evidence"
PLACES = "places"
COUNT = "count"
PROVEN = "proven"
PROMOTED = "promoted_to"
"""The members that an insight has in addition to those of a record."""
SOURCE = "found_by"  # the member that names the source; `source` is the origin in insights.json
MAX_EVIDENCE = 50  # records
MAX_PLACES = 200  # sessions and iterations
_MAX_TEXT = 700  # characters
_MAX_FILES = 12
_MAX_TAGS = 6
_RUN_SUMMARY = "run"  # the label of the journal record that summarises a run


class InsightSource(StrEnum):
    """Where an insight comes from."""

    SIGIL = "sigil"
    HEADING = "heading"
    FIX = "fix"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Text that may become an insight.

    Candidates are compared by `compared`, or by the whole text if that is empty.
    """

    text: str
    label: str
    source: InsightSource
    evidence: tuple[Record, ...]
    tags: tuple[str, ...] = ()
    compared: str = ""

    @property
    def is_summary(self) -> bool:
        """Whether this is a pattern in progress.txt, which does not count as a sighting."""
        return self.evidence[0].id.startswith("found-")


def propose(records: Iterable[Record]) -> list[Record]:
    """Return the insights found in these records. Candidates that say the same are merged."""
    matcher = TextMatcher()
    groups: list[list[Candidate]] = []
    for candidate in sorted(_find_candidates(list(records)), key=_candidate_order):
        text = candidate.compared or candidate.text
        number = matcher.nearest(text)
        if number is None:
            matcher.add(text)
            groups.append([candidate])
        else:
            groups[number].append(candidate)
    return [_make_insight(group) for group in groups]


def _candidate_order(candidate: Candidate) -> tuple[bool, str, str]:
    first = candidate.evidence[0]
    return candidate.is_summary, first.created_at, first.id


def is_proven(record: Record) -> bool:
    """Return whether an insight is about an error whose command passed afterwards."""
    return record.extra.get(PROVEN) is True


def places(record: Record) -> tuple[str, ...]:
    """Return the sessions and iterations in which an insight was seen."""
    return _texts(record.extra.get(PLACES))


def evidence(record: Record) -> tuple[str, ...]:
    """Return the ids of the records that an insight is based on."""
    return _texts(record.extra.get(EVIDENCE))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def is_well_evidenced(record: Record) -> bool:
    """Return whether an insight was seen in at least two places or is proven."""
    return is_proven(record) or len(places(record)) > 1


def location_of(record: Record) -> str:
    """Return where a record was seen: its iteration, or else its session, block or run."""
    origin = record.origin
    if origin.run and origin.iteration is not None:  # an agent may reuse a session's name
        return f"{origin.run}#{origin.iteration}"
    if origin.session:
        return origin.session
    for link in record.links:
        if link.relation == "learned_in":
            return link.target or origin.run or record.id
    return origin.run or record.id


def of_origin(record: Record, origin: Origin) -> Record:
    """Return the record with the origin of its block's session or iteration.

    The record keeps its own author, and its own files if it has any.
    """
    files = record.origin.files or origin.files
    return replace(record, origin=replace(origin, by=record.origin.by, files=files))


_AUTHORS = {InsightSource.FIX: "tool", InsightSource.MARKED: "human"}
"""Who an insight comes from. For all other sources, it is the agent."""


def _make_insight(group: Sequence[Candidate]) -> Record:
    """Merge candidates that say the same into one record."""
    first = group[0]
    first_record = first.evidence[0]
    records: dict[str, Record] = {}
    tags: dict[str, None] = {}
    locations: dict[str, None] = {}
    for candidate in group:
        records.update((record.id, record) for record in candidate.evidence)
        tags.update(dict.fromkeys(candidate.tags))
        if not candidate.is_summary:
            locations[location_of(candidate.evidence[0])] = None
    files: dict[str, None] = {}
    for record in records.values():
        files.update(dict.fromkeys(record.origin.files))
    sources = {candidate.source for candidate in group}
    newest = max(record.created_at for record in records.values())
    extra: dict[str, object] = {
        SOURCE: first.source.value,
        EVIDENCE: list(records)[:MAX_EVIDENCE],
        COUNT: max(1, len(locations)),
        PLACES: list(locations)[:MAX_PLACES],
    }
    if InsightSource.FIX in sources:
        extra[PROVEN] = True
    extra[PROMOTED] = None
    text = trim(" ".join(first.text.split()), _MAX_TEXT)
    by = _AUTHORS.get(first.source, "agent")
    return Record(
        id=_insight_id(text, first_record.created_at),
        kind=kind_of(first.label) or MemoryKind.CONTEXT,
        text=text,
        label=first.label,
        tags=tuple(tags)[:_MAX_TAGS],
        status=Status.ACCEPTED if InsightSource.MARKED in sources else Status.PROPOSED,
        scope=Scope.TASK,
        origin=replace(first_record.origin, by=by, files=tuple(files)[:_MAX_FILES]),
        created_at=first_record.created_at,
        updated_at=newest if newest != first_record.created_at else "",
        extra=extra,
    )


def _insight_id(text: str, created_at: str) -> str:
    moment = parse_time(created_at)
    seconds = max(0, int(moment.timestamp())) if moment else 0
    digest = hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()
    return f"ins-{seconds}-{digest[:6]}"


_HEADING = re.compile(
    r"\s*(?:[-*+]\s+)?(?P<mark>#{1,6}\s*|\*{2})?(?:[\w-]+\s+){0,2}"
    r"(?P<name>learning|gotcha|pattern|decision|discover(?:y|ie)|note)s?\b[^:*\n]{0,40}"
    r"(?P<end>:?\*{0,2}:?)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_LABEL = re.compile(
    r"\s*(?:[-*+]\s+)?[*_]*"
    r"(?P<name>gotcha|decision|convention|pattern|learning|learned|discovery|tip)"
    r"[*_]*:[*_]*\s+\S.*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=[.!?])[ \t]+(?=(?:gotcha|decision|convention|pattern|learning|discovery|tip):\s)",
    re.IGNORECASE,
)
"""The space between two sentences on a line, if the second one begins with a label."""
_REMEMBER = re.compile(r"(?im)^\s*(?:please\s+)?remember:[ \t]*(?P<text>\S.*)$")
_LABELS = {"discovery": "learning", "discoverie": "learning", "learned": "learning"}
_SPECIFIC = re.compile(r"`|\d|\w[./_:]\w|\w-\w|[a-z][A-Z]|[A-Z]{2}|\s[A-Z][a-z]")
_MIN_WORDS = 4
_MIN_NON_ASCII_CHARACTERS = 10  # Chinese, Japanese and Korean use few or no spaces


def _find_candidates(records: Sequence[Record]) -> Iterator[Candidate]:
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.family is Family.OBSERVATION:
            sessions.setdefault(record.origin.session, []).append(record)
        elif record.family is Family.JOURNAL:
            if record.label != _RUN_SUMMARY:
                yield from _from_text(record, InsightSource.SIGIL)
        elif _is_substantial(record.text):
            yield _from_entry(record)
    for observations in sessions.values():
        yield from _find_fixes(observations)
        for record in observations:
            yield from _from_note(record)


def _from_entry(record: Record) -> Candidate:
    """Make a candidate from a knowledge entry or from a bullet in progress.txt."""
    if record.label == "knowledge":
        text = record.text
        source = InsightSource.SIGIL
    else:
        text = " ".join(record.text.split())
        source = InsightSource.HEADING
    if record.kind is MemoryKind.PATTERN and record.label != "learning":
        label = "pattern"
    else:
        label = _label_of(text, "learning")
    if record.title:
        text = f"{record.title}: {text}"
    return Candidate(text, label, source, (record,), record.tags)


def _from_note(record: Record) -> Iterator[Candidate]:
    if is_prompt(record):
        marked = _REMEMBER.search(record.text)
        if marked:
            text = marked["text"].strip()
            yield Candidate(text, "context", InsightSource.MARKED, (record,))
    elif record.kind is ObservationKind.NOTE:
        # The loop itself stores what is in sigils.
        plain = replace(record, text=without_sigils(record.text))
        yield from _from_text(plain, InsightSource.HEADING)


def _from_text(record: Record, source: InsightSource) -> Iterator[Candidate]:
    labelled_texts = list(headed_bullets(record.text))
    if source is InsightSource.SIGIL:
        labelled_texts += _labelled_lines(record.text)
    for label, text in labelled_texts:
        if _is_substantial(text):
            yield Candidate(text, label, source, (record,))


def _labelled_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _SENTENCE.sub("\n", text).splitlines():
        if _LABEL.fullmatch(line) and not _HEADING.fullmatch(line):
            lesson = line.strip().lstrip("-*+ ")
            yield _label_of(lesson, "learning"), lesson


def headed_bullets(text: str) -> Iterator[tuple[str, str]]:
    """Yield a label and the text for each bullet below a heading such as "Gotchas:"."""
    label = ""
    outer_indent = 0
    bullets: list[str] = []
    for line in text.splitlines():
        heading = _heading_name(line)
        bullet = _BULLET.fullmatch(line)
        if label and bullet and heading is None:
            indent = len(bullet["indent"].expandtabs())
            if bullets and indent > outer_indent:
                bullets[-1] += f" {bullet['text'].strip()}"
            else:
                outer_indent = indent
                bullets.append(bullet["text"].strip())
        elif label and bullets and line[:1].isspace() and line.strip():
            bullets[-1] += f" {line.strip()}"
        elif line.strip():
            yield from _label_bullets(bullets, label)
            bullets = []
            label = heading or ""
    yield from _label_bullets(bullets, label)


def _heading_name(line: str) -> str | None:
    """Return the label that a heading gives its bullets, or None if the line is not a heading."""
    heading = _HEADING.fullmatch(line)
    if heading is None:
        return None
    if not heading["mark"] and ":" not in heading["end"]:
        return None
    name = heading["name"].lower()
    return _LABELS.get(name, name)


def _label_bullets(bullets: Iterable[str], label: str) -> Iterator[tuple[str, str]]:
    for bullet in bullets:
        yield _label_of(bullet, label), bullet


def _label_of(text: str, default: str) -> str:
    labelled = _LABEL.fullmatch(text.partition("\n")[0])
    name = labelled["name"].lower() if labelled is not None else default
    return _LABELS.get(name, name)


def _is_substantial(text: str) -> bool:
    """Return whether `text` can be a lesson.

    It must be long enough, and either have a label or name something specific, such as code, a path
    or a number.
    """
    has_words = len(text.split()) >= _MIN_WORDS
    is_long_non_ascii = not text.isascii() and len(text) >= _MIN_NON_ASCII_CHARACTERS
    if not has_words and not is_long_non_ascii:
        return False
    if _LABEL.fullmatch(text.partition("\n")[0]):
        return True
    return _SPECIFIC.search(text) is not None


_MAX_COMMAND = 120  # characters of a command in a lesson
_MAX_NAMED_ACTIONS = 3  # commands or files that a lesson names
_MAX_ACTIONS = 6  # after more edits and commands, nobody knows what helped
_READERS = frozenset(
    {
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "rg",
        "ag",
        "find",
        "fd",
        "which",
        "wc",
        "diff",
        "less",
        "tree",
        "stat",
        "du",
        "df",
        "ps",
        "jq",
        "echo",
        "printf",
        "pwd",
        "cd",
        "test",
        "true",
        "sleep",
        "env",
        "printenv",
        "curl",
        "ping",
        "sed",
        "awk",
        "sort",
        "git",
        "gh",
        "man",
        "history",
        "kill",
        "pkill",
        "open",
        "code",
        "vim",
        "read",
        "type",
    }
)
_QUIET_FLAGS = frozenset(
    {
        "-v",
        "-vv",
        "-q",
        "-s",
        "-x",
        "--verbose",
        "--quiet",
        "--silent",
        "--tb=short",
        "--tb=long",
        "--no-color",
        "--",
    }
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*")
_TRANSIENT = re.compile(
    r"(?i)interrupted|SIGINT|SIGTERM|timed? ?out|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN"
    r"|address already in use|EADDRINUSE|no space left|rate limit|temporary failure"
    r"|could not resolve host|index\.lock|lock file"
)
"""Errors that are transient, or that say nothing about the project."""
_STYLE_CHECK = re.compile(
    r"(?i)lint|fmt|format|--check\b|\bvalidate\b|prettier|black|isort|ruff|phpcs|spell|py_compile"
)
"""Commands that check the style of code. Their complaints are not lessons."""
_SETTINGS = frozenset(
    {
        ".json",
        ".toml",
        ".yml",
        ".yaml",
        ".cfg",
        ".ini",
        ".conf",
        ".env",
        ".lock",
        ".gradle",
        ".properties",
        ".mod",
        ".sum",
    }
)
_SETTING_NAMES = re.compile(
    r"(?i)dockerfile|makefile|procfile|jenkinsfile|.*\.config\.\w+|\.\w+rc(?:\.\w+)?|\.env.*"
    r"|conftest\.py"
)


@dataclass(frozen=True, slots=True)
class _Run:
    """A command that was run.

    `key` identifies the command. `front` has the commands and variable assignments before it.
    """

    record: Record
    command: str
    key: Words
    front: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return self.record.kind is ObservationKind.ERROR


def _parse_run(record: Record) -> _Run | None:
    """Return the command that an observation ran, or None if it ran none.

    Commands and assignments before it go to `front`, and whatever it is piped into is dropped.
    """
    command = record.extra.get("command")
    if not isinstance(command, str):
        return None
    line = _without_pipes(parts(command))
    if not line:
        return None
    *before, last = line
    front = [shlex.join(words) for words in before if words[0] not in _READERS]
    words = list(last)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        front.append(words.pop(0))
    program = next(programs(shlex.join(words)), ())
    key = tuple(word for word in program if word not in _QUIET_FLAGS)
    if not key:
        return None
    return _Run(record, " ".join(command.split()), key, tuple(front))


def _without_pipes(line: Sequence[tuple[Words, str]]) -> list[Words]:
    """Return the simple commands on a line that do not read from a pipe."""
    commands = []
    previous_operator = ""
    for words, operator in line:
        if "|" not in previous_operator:
            commands.append(words)
        previous_operator = operator
    return commands


def _find_fixes(records: Sequence[Record]) -> Iterator[Candidate]:
    runs = [_parse_run(record) for record in records]
    failures: dict[Words, int] = {}
    for number, run in enumerate(runs):
        if run is None:
            continue
        if run.failed:
            failures[run.key] = number
        elif run.key in failures:
            first = failures.pop(run.key)
            failure = runs[first]
            if failure is None:
                continue
            changes = [other for other in runs[first + 1 : number] if _may_change_result(other)]
            fix = _make_fix(failure, run, changes, records[first : number + 1])
            if fix is not None:
                yield fix


def _may_change_result(run: _Run | None) -> TypeGuard[_Run]:
    """Return whether a command passed and may have changed the result of a later one."""
    if run is None or run.failed or run.key[0] in _READERS:
        return False
    check, _ = check_of(run.command)
    return check in (None, CommandCheck.BUILD)  # a build is the only check that changes anything


def _make_fix(
    failure: _Run, success: _Run, changes: Sequence[_Run], records: Sequence[Record]
) -> Candidate | None:
    """Return the lesson from a failure that was resolved.

    Returns None for coincidences, transient errors and ordinary work on code.
    """
    if _is_uninformative(failure):
        return None
    edits = [record for record in records[1:-1] if is_edit(record)]
    files = _edited_files(edits)
    settings = _edited_settings(files, failure)
    front = [words for words in success.front if words not in failure.front]
    if not changes and not front and not settings:
        return None  # editing the code, or the file at fault, is ordinary work
    if len(files) + len(changes) > _MAX_ACTIONS:
        return None
    gist = f"It passed {_describe_steps(front, changes, settings or files)}."
    error = error_line(failure.record).rstrip(".")
    if error:
        gist = f"{error}. {gist}"
    text = f"`{first_line(failure.command, _MAX_COMMAND)}` failed: {gist}"
    actions = {id(run.record) for run in changes} | {id(record) for record in edits}
    between = [record for record in records[1:-1] if id(record) in actions]
    evidence = (records[0], *between, records[-1])
    tags = _fix_tags(failure)
    return Candidate(text, "gotcha", InsightSource.FIX, evidence, tags, compared=gist)


def _describe_steps(front: Sequence[str], changes: Sequence[_Run], files: Sequence[str]) -> str:
    steps = [f"with `{words}`" for words in front]
    for run in changes[-_MAX_NAMED_ACTIONS:]:
        steps.append(f"after `{first_line(run.command, _MAX_COMMAND)}`")
    if files:
        steps.append(f"after a change of {', '.join(files[:_MAX_NAMED_ACTIONS])}")
    return " and ".join(steps)


def _fix_tags(failure: _Run) -> tuple[str, ...]:
    program = failure.key[0]
    check, _ = check_of(failure.command)
    if check is None or check.value == program:
        return (program,)
    return (program, check.value)


def _is_uninformative(failure: _Run) -> bool:
    check, _ = check_of(failure.command)
    if failure.key[0] in _READERS or check in (CommandCheck.LINT, CommandCheck.TYPES):
        return True
    if _STYLE_CHECK.search(failure.command):
        return True
    return _TRANSIENT.search(failure.record.text) is not None


def _edited_files(edits: Iterable[Record]) -> list[str]:
    files: dict[str, None] = {}
    for record in edits:
        files.update(dict.fromkeys(record.origin.files))
    return list(files)


def _edited_settings(files: Iterable[str], failure: _Run) -> list[str]:
    """Return the edited settings files that the failure does not mention."""
    output = f"{failure.command}\n{failure.record.text}"
    settings = []
    for file in files:
        path = PurePosixPath(file)
        is_setting = path.suffix in _SETTINGS or _SETTING_NAMES.fullmatch(path.name)
        if is_setting and path.name not in output:
            settings.append(str(path))
    return settings
