"""Propose what a task has taught, from four sources and without a model.

1. sigil: `<knowledge>` and `<journal>`; of a journal the bullets below a heading and the lines with a label
2. heading: bullets below Learnings, Gotchas, Patterns, Decisions, Discoveries or Notes, in progress.txt or a message
3. fix: an error whose command passed after edits or another command; both are the evidence
4. marked: what a person asks for ("remember: ...")
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from ralph.capture.commands import CommandCheck, Words, check_of, parts, programs
from ralph.capture.pipeline import first_line, trim
from ralph.capture.similarity import TextMatcher
from ralph.capture.summary import error_line, is_edit, is_prompt
from ralph.formats.sigils import without_sigils
from ralph.formats.text import normalise_text
from ralph.model.ids import parse_time
from ralph.model.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Record,
    Scope,
    Status,
    kind_of,
)

EVIDENCE = "evidence"
PLACES = "places"
COUNT = "count"
PROVEN = "proven"
PROMOTED = "promoted_to"
"""Members of an insight beside those of a record."""
SOURCE = "found_by"  # the member that names the source; `source` is the origin in insights.json
MAX_EVIDENCE = 50
MAX_PLACES = 200
_MAX_TEXT = 700
_MAX_FILES = 12
_MAX_TAGS = 6
_RUN_SUMMARY = "run"  # the label of the journal record that sums up a run


class InsightSource(StrEnum):
    """Where an insight comes from."""

    SIGIL = "sigil"
    HEADING = "heading"
    FIX = "fix"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may be an insight; `compared` if not all of it counts."""

    text: str
    label: str
    source: InsightSource
    evidence: tuple[Record, ...]
    tags: tuple[str, ...] = ()
    compared: str = ""

    @property
    def is_summary(self) -> bool:
        """Whether it is a pattern of progress.txt, which is no sighting."""
        return self.evidence[0].id.startswith("found-")


def propose(records: Iterable[Record]) -> list[Record]:
    """Return the insights of these records; candidates that say the same are one."""
    matcher = TextMatcher()
    groups: list[list[Candidate]] = []
    ordered = sorted(
        _find_candidates(list(records)),
        key=lambda each: (each.is_summary, each.evidence[0].created_at, each.evidence[0].id),
    )
    for candidate in ordered:
        text = candidate.compared or candidate.text
        number = matcher.nearest(text)
        if number is None:
            matcher.add(text)
            groups.append([candidate])
        else:
            groups[number].append(candidate)
    return [_make_insight(group) for group in groups]


def is_proven(record: Record) -> bool:
    """Whether an insight is an error whose command passed afterwards."""
    return record.extra.get(PROVEN) is True


def places(record: Record) -> tuple[str, ...]:
    """Return the sessions and iterations in which an insight was seen."""
    return _texts(record.extra.get(PLACES))


def evidence(record: Record) -> tuple[str, ...]:
    """Return the ids of the records that an insight comes from."""
    return _texts(record.extra.get(EVIDENCE))


def _texts(value: object) -> tuple[str, ...]:
    return (
        tuple(each for each in value if isinstance(each, str))
        if isinstance(value, list | tuple)
        else ()
    )


def is_well_evidenced(record: Record) -> bool:
    """Whether an insight was seen in two places, or is proven."""
    return is_proven(record) or len(places(record)) > 1


def location_of(record: Record) -> str:
    """Return the iteration, else the session, else the block, in which something was seen."""
    origin = record.origin
    if origin.run and origin.iteration is not None:  # an agent may give every session the same name
        return f"{origin.run}#{origin.iteration}"
    block = next((link.target for link in record.links if link.relation == "learned_in"), "")
    return origin.session or block or origin.run or record.id


def of_origin(record: Record, origin: Origin) -> Record:
    """Give a record the origin of its block's session or its iteration."""
    return replace(
        record,
        origin=replace(origin, by=record.origin.by, files=record.origin.files or origin.files),
    )


def _make_insight(group: Sequence[Candidate]) -> Record:
    first = group[0]
    records = list({record.id: record for each in group for record in each.evidence}.values())
    text = trim(" ".join(first.text.split()), _MAX_TEXT)
    files = dict.fromkeys(file for record in records for file in record.origin.files)
    tags = dict.fromkeys(tag for each in group for tag in each.tags)
    created = first.evidence[0].created_at
    newest = max(record.created_at for record in records)
    by = {InsightSource.FIX: "tool", InsightSource.MARKED: "human"}.get(first.source, "agent")
    sources = {each.source for each in group}
    locations = dict.fromkeys(
        location_of(each.evidence[0]) for each in group if not each.is_summary
    )
    moment = parse_time(created)
    digest = hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()
    return Record(
        id=f"ins-{max(0, int(moment.timestamp())) if moment else 0}-{digest[:6]}",
        kind=kind_of(first.label) or MemoryKind.CONTEXT,
        text=text,
        label=first.label,
        tags=tuple(tags)[:_MAX_TAGS],
        status=Status.ACCEPTED if InsightSource.MARKED in sources else Status.PROPOSED,
        scope=Scope.TASK,
        origin=replace(first.evidence[0].origin, by=by, files=tuple(files)[:_MAX_FILES]),
        created_at=created,
        updated_at=newest if newest != created else "",
        extra={
            SOURCE: first.source.value,
            EVIDENCE: [record.id for record in records][:MAX_EVIDENCE],
            COUNT: max(1, len(locations)),
            PLACES: list(locations)[:MAX_PLACES],
            **({PROVEN: True} if InsightSource.FIX in sources else {}),
            PROMOTED: None,
        },
    )


_HEADING = re.compile(
    r"\s*(?:[-*+]\s+)?(?P<mark>#{1,6}\s*|\*{2})?(?:[\w-]+\s+){0,2}"
    r"(?P<name>learning|gotcha|pattern|decision|discover(?:y|ie)|note)s?\b[^:*\n]{0,40}(?P<end>:?\*{0,2}:?)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_LABEL = re.compile(
    r"\s*(?:[-*+]\s+)?[*_]*(?P<name>gotcha|decision|convention|pattern|learning|learned|discovery|tip)[*_]*:[*_]*\s+\S.*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=[.!?])[ \t]+(?=(?:gotcha|decision|convention|pattern|learning|discovery|tip):\s)",
    re.IGNORECASE,
)
"""Between two sentences of a line, the second of which begins with a label."""
_REMEMBER = re.compile(r"(?im)^\s*(?:please\s+)?remember:[ \t]*(?P<text>\S.*)$")
_LABELS = {"discovery": "learning", "discoverie": "learning", "learned": "learning"}
_SPECIFIC = re.compile(r"`|\d|\w[./_:]\w|\w-\w|[a-z][A-Z]|[A-Z]{2}|\s[A-Z][a-z]")
_MIN_WORDS = 4
_MIN_CJK = 10


def _find_candidates(records: Sequence[Record]) -> Iterator[Candidate]:
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.family is Family.OBSERVATION:
            sessions.setdefault(record.origin.session, []).append(record)
        elif record.family is Family.JOURNAL:
            if record.label != _RUN_SUMMARY:
                yield from _from_text(record, InsightSource.SIGIL)
        elif _is_substantial(
            record.text
        ):  # an entry of knowledge, or a bullet of progress.txt below a heading
            is_knowledge = record.label == "knowledge"
            text = record.text if is_knowledge else " ".join(record.text.split())
            is_pattern = record.kind is MemoryKind.PATTERN and record.label != "learning"
            label = "pattern" if is_pattern else _label_of(text, "learning")
            source = InsightSource.SIGIL if is_knowledge else InsightSource.HEADING
            yield Candidate(
                f"{record.title}: {text}" if record.title else text,
                label,
                source,
                (record,),
                record.tags,
            )
    for observations in sessions.values():
        yield from _find_fixes(observations)
        for record in observations:
            if is_prompt(record):
                if marked := _REMEMBER.search(record.text):
                    yield Candidate(
                        marked["text"].strip(), "context", InsightSource.MARKED, (record,)
                    )
            elif record.kind is ObservationKind.NOTE:
                plain = replace(
                    record, text=without_sigils(record.text)
                )  # the loop keeps what is in them
                yield from _from_text(plain, InsightSource.HEADING)


def _from_text(record: Record, source: InsightSource) -> Iterator[Candidate]:
    texts = list(headed_bullets(record.text))
    lines = _SENTENCE.sub("\n", record.text).splitlines() if source is InsightSource.SIGIL else ()
    for line in lines:
        if _LABEL.fullmatch(line) and not _HEADING.fullmatch(line):
            text = line.strip().lstrip("-*+ ")
            texts.append((_label_of(text, "learning"), text))
    yield from (
        Candidate(text, label, source, (record,)) for label, text in texts if _is_substantial(text)
    )


def headed_bullets(text: str) -> Iterator[tuple[str, str]]:
    """Yield the bullets below a heading such as "Gotchas:", each with its label."""
    label = ""
    outer = 0
    bullets: list[str] = []
    for line in [*text.splitlines(), "#"]:
        bullet = _BULLET.fullmatch(line)
        heading = _HEADING.fullmatch(line)
        is_heading = heading is not None and bool(heading["mark"] or ":" in heading["end"])
        if label and bullet is not None and not is_heading:
            indent = len(bullet["indent"].expandtabs())
            if bullets and indent > outer:
                bullets[-1] += f" {bullet['text'].strip()}"
            else:
                outer = indent
                bullets.append(bullet["text"].strip())
        elif label and bullets and line[:1].isspace() and line.strip():
            bullets[-1] += f" {line.strip()}"
        elif line.strip():
            yield from ((_label_of(each, label), each) for each in bullets)
            bullets = []
            name = heading["name"].lower() if heading is not None and is_heading else ""
            label = _LABELS.get(name, name)


def _label_of(text: str, default: str) -> str:
    labelled = _LABEL.fullmatch(text.partition("\n")[0])
    name = labelled["name"].lower() if labelled is not None else default
    return _LABELS.get(name, name)


def _is_substantial(text: str) -> bool:
    """Whether a text is long enough to be a lesson and has a label or names something: code, a path or a number."""
    is_long = len(text.split()) >= _MIN_WORDS or (not text.isascii() and len(text) >= _MIN_CJK)
    return (
        is_long
        and (_LABEL.fullmatch(text.partition("\n")[0]) or _SPECIFIC.search(text)) is not None
    )


_CALL = 120
_ACTIONS = 3
_MAX_ACTIONS = 6
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
_PASSING = re.compile(
    r"(?i)interrupted|SIGINT|SIGTERM|timed? ?out|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|address already in use"
    r"|EADDRINUSE|no space left|rate limit|temporary failure|could not resolve host|index\.lock|lock file"
)
"""Errors that pass by themselves, or say nothing about the project."""
_STYLE_CHECK = re.compile(
    r"(?i)lint|fmt|format|--check\b|\bvalidate\b|prettier|black|isort|ruff|phpcs|spell|py_compile"
)
"""Commands that complain about how code is written: no lesson."""
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
    r"(?i)dockerfile|makefile|procfile|jenkinsfile|.*\.config\.\w+|\.\w+rc(?:\.\w+)?|\.env.*|conftest\.py"
)


@dataclass(frozen=True, slots=True)
class _Run:
    record: Record
    command: str
    key: Words
    front: tuple[str, ...]


def _parse_run(record: Record) -> _Run | None:
    """What is before the command (`cd x &&`) or piped behind it does not count."""
    command = record.extra.get("command")
    line = parts(command) if isinstance(command, str) else []
    line = [
        part for number, part in enumerate(line) if number == 0 or "|" not in line[number - 1][1]
    ]
    if not line:
        return None
    words = list(line[-1][0])
    front = [shlex.join(before) for before, _ in line[:-1] if before[0] not in _READERS]
    while words and _ASSIGNMENT.fullmatch(words[0]):
        front.append(words.pop(0))
    program = next(programs(shlex.join(words)), ())
    key = tuple(word for word in program if word not in _QUIET_FLAGS)
    return _Run(record, " ".join(str(command).split()), key, tuple(front)) if key else None


_CHANGING = (None, CommandCheck.BUILD)


def _find_fixes(records: Sequence[Record]) -> Iterator[Candidate]:
    runs = [_parse_run(record) for record in records]
    failures: dict[Words, tuple[int, _Run]] = {}
    for number, run in enumerate(runs):
        if run is not None and run.record.kind is ObservationKind.ERROR:
            failures[run.key] = (number, run)
        elif run is not None and run.key in failures:
            first, failure = failures.pop(run.key)
            between = [each for each in runs[first + 1 : number] if each is not None]
            passed = [each for each in between if each.record.kind is not ObservationKind.ERROR]
            # Of checks only a build may change what another one then finds.
            changes = [
                each
                for each in passed
                if each.key[0] not in _READERS and check_of(each.command)[0] in _CHANGING
            ]
            fix = _make_fix(failure, run, changes, records[first : number + 1])
            if fix is not None:
                yield fix


def _make_fix(
    failure: _Run, success: _Run, changes: Sequence[_Run], records: Sequence[Record]
) -> Candidate | None:
    """None for chance, a passing error, or ordinary work on code."""
    check, _ = check_of(failure.command)
    is_style = check in (CommandCheck.LINT, CommandCheck.TYPES)
    if failure.key[0] in _READERS or is_style or _STYLE_CHECK.search(failure.command):
        return None
    edits = [each for each in records[1:-1] if is_edit(each)]
    files = list(dict.fromkeys(file for each in edits for file in each.origin.files))
    front = [each for each in success.front if each not in failure.front]
    output = f"{failure.command}\n{failure.record.text}"
    paths = [PurePosixPath(file) for file in files if PurePosixPath(file).name not in output]
    settings = [
        str(path)
        for path in paths
        if path.suffix in _SETTINGS or _SETTING_NAMES.fullmatch(path.name)
    ]
    if not (changes or front or settings) or len(files) + len(changes) > _MAX_ACTIONS:
        return (
            None  # what an edit of the code, or of the file at fault, made pass is work, no lesson
        )
    if _PASSING.search(failure.record.text):
        return None
    steps = [f"with `{each}`" for each in front]
    steps += [f"after `{first_line(each.command, _CALL)}`" for each in changes[-_ACTIONS:]]
    if files:
        steps.append(f"after a change of {', '.join((settings or files)[:_ACTIONS])}")
    error = error_line(failure.record).rstrip(".")
    gist = f"{f'{error}. ' if error else ''}It passed {' and '.join(steps)}."
    tags = dict.fromkeys([failure.key[0], *([check.value] if check is not None else [])])
    actions = {id(each.record) for each in changes} | {id(each) for each in edits}
    proof = (records[0], *(each for each in records[1:-1] if id(each) in actions), records[-1])
    text = f"`{first_line(failure.command, _CALL)}` failed: {gist}"
    return Candidate(text, "gotcha", InsightSource.FIX, proof, tuple(tags), compared=gist)
