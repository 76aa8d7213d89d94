"""Propose what a task has taught, from four sources and without a model.

1. sigil: `<knowledge>` and `<journal>`; of a journal the bullets below a heading and the lines with a label
2. heading: bullets below Learnings, Gotchas, Patterns, Decisions, Discoveries or Notes, in progress.txt or a message
3. fix: an error whose command passed after edits or another command; both are the evidence
4. marked: what a person asks for ("remember: ...")

Free sentences are not mined. Texts that say the same are one insight with all their evidence.
"""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from ralph.capture.commands import CommandCheck, Words, check_of, parts, programs
from ralph.capture.pipeline import first_line, trim, when
from ralph.capture.similarity import TextMatcher
from ralph.formats.text import normalise_text
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record, Scope, Status, kind_of

EVIDENCE, PLACES, COUNT, PROVEN, PROMOTED = "evidence", "places", "count", "proven", "promoted_to"
"""Members of an insight beside those of a record."""
SOURCE = "found_by"
"""The member that names the source; `source` is the origin in insights.json."""
REPEATS = "repeats"
"""The member that says how often it was seen at a place, for the places where that was more than once."""
MAX_EVIDENCE, MAX_PLACES = 50, 200
_MAX_TEXT, _MAX_FILES, _MAX_TAGS = 700, 12, 6
_RUN_SUMMARY = "run"
"""The label of the journal record that sums up a run."""


class InsightSource(StrEnum):
    """Where an insight comes from."""

    SIGIL = "sigil"
    HEADING = "heading"
    FIX = "fix"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may be an insight, with the records that it comes from."""

    text: str
    label: str
    source: InsightSource
    evidence: tuple[Record, ...]
    tags: tuple[str, ...] = ()
    compared: str = ""
    """The text by which it is compared with others, if that is not all of it."""

    @property
    def order(self) -> tuple[bool, str, str]:
        """By time; a pattern at the top of progress.txt only sums up others and comes after them."""
        return self.is_summary, self.evidence[0].created_at, self.evidence[0].id

    @property
    def is_summary(self) -> bool:
        """Whether it is a pattern at the top of progress.txt, which is no sighting of its own."""
        return self.evidence[0].id.startswith("found-")


def propose(records: Iterable[Record]) -> list[Record]:
    """Return the insights of these records, the oldest first; the same for the same records in any order."""
    matcher = TextMatcher()
    groups: list[list[Candidate]] = []
    for candidate in sorted(find_candidates(list(records)), key=lambda each: each.order):
        text = candidate.compared or candidate.text
        number = matcher.nearest(text)
        if number is None:
            matcher.add(text)
            groups.append([candidate])
        else:
            groups[number].append(candidate)
    return [_insight(group) for group in groups]


# --- members of an insight ---------------------------------------------------------------------


def is_proven(record: Record) -> bool:
    """Whether an insight is an error whose command passed after what resolved it."""
    return record.extra.get(PROVEN) is True


def places(record: Record) -> tuple[str, ...]:
    """The sessions and iterations in which an insight was seen."""
    return _texts(record.extra.get(PLACES))


def evidence(record: Record) -> tuple[str, ...]:
    """The ids of the records that an insight comes from."""
    return _texts(record.extra.get(EVIDENCE))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()


def is_well_evidenced(record: Record) -> bool:
    """Whether an insight was seen in two sessions or iterations, or is proven by a command that passed."""
    return is_proven(record) or len(places(record)) > 1


def sightings(record: Record) -> dict[str, int]:
    """How often an insight was seen at each of its places."""
    value = record.extra.get(REPEATS)
    repeats = value if isinstance(value, Mapping) else {}
    return {each: max(1, number if isinstance(number := repeats.get(each), int) else 1) for each in places(record)}


def place(record: Record) -> str:
    """Where something was seen: the iteration of a run, else the session, else the block of progress.txt.

    An agent may give every session the same name: two iterations are two places all the same.
    """
    origin = record.origin
    if origin.run and origin.iteration is not None:
        return f"{origin.run}#{origin.iteration}"
    block = next((link.target for link in record.links if link.relation == "learned_in"), "")
    return origin.session or block or origin.run or record.id


def count_members(seen: Mapping[str, int]) -> dict[str, object]:
    """The members that say where and how often an insight was seen."""
    counts = dict(list(seen.items())[:MAX_PLACES])
    repeats = {each: number for each, number in counts.items() if number > 1}
    return {COUNT: max(1, sum(counts.values())), PLACES: list(counts), **({REPEATS: repeats} if repeats else {})}


def of_origin(record: Record, origin: Origin) -> Record:
    """A record as something of another origin: a learning as of its block's session, knowledge as of its iteration."""
    return replace(record, origin=replace(origin, by=record.origin.by, files=record.origin.files or origin.files))


# --- sources -----------------------------------------------------------------------------------

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
_REMEMBER = re.compile(r"(?im)^\s*(?:please\s+)?remember:[ \t]*(?P<text>\S.*)$")
_LABELS = {"discover": "learning", "discovery": "learning", "discoverie": "learning", "learned": "learning"}
_SPECIFIC = re.compile(r"`|\d|\w[./_:]\w|\w-\w|[a-z][A-Z]|[A-Z]{2}|\s[A-Z][a-z]")
_MIN_WORDS, _MIN_CJK = 4, 10


def find_candidates(records: Sequence[Record]) -> Iterator[Candidate]:
    """Everything in these records that may be an insight."""
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.family is Family.OBSERVATION:
            sessions.setdefault(record.origin.session, []).append(record)
        elif record.family is Family.JOURNAL:
            if record.label != _RUN_SUMMARY:
                yield from _from_text(record, InsightSource.SIGIL, labelled=True)
        elif _is_substantial(record.text):
            yield _from_memory(record)
    for observations in sessions.values():
        yield from _fixes(observations)
        for record in observations:
            if record.kind is ObservationKind.NOTE and record.origin.by == "human":
                marked = _REMEMBER.search(record.text)
                if marked is not None:
                    yield Candidate(marked["text"].strip(), "context", InsightSource.MARKED, (record,))
            elif record.kind is ObservationKind.NOTE:
                yield from _from_text(record, InsightSource.HEADING, labelled=False)


def _from_memory(record: Record) -> Candidate:
    """An entry of knowledge, or a bullet that progress.txt has below a heading."""
    is_knowledge = record.label == "knowledge"
    text = record.text if is_knowledge else " ".join(record.text.split())
    is_pattern = record.kind is MemoryKind.PATTERN and record.label != "learning"
    label = "pattern" if is_pattern else _label_of(text, "learning")
    source = InsightSource.SIGIL if is_knowledge else InsightSource.HEADING
    return Candidate(f"{record.title}: {text}" if record.title else text, label, source, (record,), record.tags)


def _from_text(record: Record, source: InsightSource, *, labelled: bool) -> Iterator[Candidate]:
    """The bullets of a text below a heading and, where asked for, its lines that begin with a label."""
    for label, text in headed_bullets(record.text):
        if _is_substantial(text):
            yield Candidate(text, label, source, (record,))
    if labelled:
        for line in record.text.splitlines():
            if _LABEL.fullmatch(line) and not _HEADING.fullmatch(line) and _is_substantial(line):
                text = line.strip().lstrip("-*+ ")
                yield Candidate(text, _label_of(text, "learning"), source, (record,))


def headed_bullets(text: str) -> Iterator[tuple[str, str]]:
    """The bullets below a heading such as "Gotchas:", each with the label that the heading or itself gives."""
    label, outer = "", 0
    bullets: list[str] = []
    for line in [*text.splitlines(), "#"]:
        bullet, heading = _BULLET.fullmatch(line), _HEADING.fullmatch(line)
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
    """The label that a text begins with ("Gotcha: ..."), else the default."""
    labelled = _LABEL.fullmatch(text.partition("\n")[0])
    name = labelled["name"].lower() if labelled is not None else default
    return _LABELS.get(name, name)


def _is_substantial(text: str) -> bool:
    """Whether a text is long enough to be a lesson and names something: code, a path, a name or a number."""
    is_long = len(text.split()) >= _MIN_WORDS or (not text.isascii() and len(text) >= _MIN_CJK)
    return is_long and _SPECIFIC.search(text) is not None


# --- errors and what resolved them -------------------------------------------------------------

_CALL, _ERROR, _ACTIONS, _MAX_ACTIONS = 120, 200, 3, 6
_EDIT_TOOLS = frozenset(
    "edit multiedit write notebookedit apply_patch create_file replace str_replace write_file patch".split()
)
_READERS = frozenset(
    """ls cat head tail grep rg ag find fd which wc diff less tree stat du df ps jq echo printf pwd cd test true sleep
    env printenv curl ping sed awk sort git gh man history kill pkill open code vim read type""".split()
)
_QUIET_FLAGS = frozenset("-v -vv -q -s -x --verbose --quiet --silent --tb=short --tb=long --no-color --".split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*")
_PASSING = re.compile(
    r"(?i)interrupted|SIGINT|SIGTERM|timed? ?out|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|address already in use"
    r"|EADDRINUSE|no space left|rate limit|temporary failure|could not resolve host|index\.lock|lock file"
)
"""Errors of a moment: they pass by themselves, or say nothing about the project."""
_STYLE_CHECK = re.compile(
    r"(?i)lint|fmt|format|--check\b|\bvalidate\b|prettier|black|isort|ruff|phpcs|spell|py_compile"
)
"""Commands that complain about how code is written: everyday work, no lesson."""
_NAMED_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|\bERR\w*")
_TROUBLE = re.compile(
    r"(?i)\b(?:error|fail(?:ed|ure)?|cannot|could not|not (?:found|set|installed)|no such|missing|must)\b"
)
_EXIT_CODE = re.compile(r"(?i)\W*(?:command )?(?:failed with )?exit(?:ed with)? (?:code|status)\s*:?\s*\d+\W*")
_SETTINGS = frozenset(".json .toml .yml .yaml .cfg .ini .conf .env .lock .gradle .properties .mod .sum".split())
_SETTING_NAMES = re.compile(
    r"(?i)dockerfile|makefile|procfile|jenkinsfile|.*\.config\.\w+|\.\w+rc(?:\.\w+)?|\.env.*|conftest\.py"
)


@dataclass(frozen=True, slots=True)
class _Run:
    """A command that was run: the program with its arguments, and what was put in front of it."""

    record: Record
    command: str
    key: Words
    front: tuple[str, ...]

    @property
    def has_failed(self) -> bool:
        return self.record.kind is ObservationKind.ERROR


def _run_of(record: Record) -> _Run | None:
    """The command of an observation; the same whatever is in front of it (`cd x &&`, a variable) or piped behind it."""
    command = record.extra.get("command")
    if not isinstance(command, str):
        return None
    found = parts(command)
    line = [part for number, part in enumerate(found) if number == 0 or "|" not in found[number - 1].after]
    if not line:
        return None
    words = list(line[-1].words)
    front = [shlex.join(part.words) for part in line[:-1] if part.words[0] not in _READERS]
    while words and _ASSIGNMENT.fullmatch(words[0]):
        front.append(words.pop(0))
    program = next(programs(shlex.join(words)), ())
    key = tuple(word for word in program if word not in _QUIET_FLAGS)
    return _Run(record, " ".join(command.split()), key, tuple(front)) if key else None


def _fixes(records: Sequence[Record]) -> Iterator[Candidate]:
    """The errors of a session whose command passed later, after something was changed."""
    runs = [_run_of(record) for record in records]
    failed: dict[Words, int] = {}
    for number, run in enumerate(runs):
        if run is not None and run.has_failed:
            failed[run.key] = number
        elif run is not None and run.key in failed:
            first = failed.pop(run.key)
            fix = _fix(records[first : number + 1], runs[first : number + 1])
            if fix is not None:
                yield fix


def _fix(records: Sequence[Record], runs: Sequence[_Run | None]) -> Candidate | None:
    """The lesson of a failure and a pass; None where it was chance, a passing error, or ordinary work on code."""
    failure, success = runs[0], runs[-1]
    if failure is None or success is None or failure.key[0] in _READERS:
        return None
    check = check_of(failure.command)
    is_style = _STYLE_CHECK.search(failure.command) or (
        check is not None and check.kind in (CommandCheck.LINT, CommandCheck.TYPES)
    )
    if is_style or _PASSING.search(records[0].text):
        return None
    edits = [each for each in records[1:-1] if _is_edit(each)]
    files = list(dict.fromkeys(file for each in edits for file in each.origin.files))
    commands = [each for each in runs[1:-1] if each is not None and not each.has_failed and _changes(each)]
    front = [each for each in success.front if each not in failure.front]
    shown = f"{failure.command}\n{records[0].text}"
    settings = [file for file in files if _is_setting(file) and PurePosixPath(file).name not in shown]
    if not (commands or front or settings) or len(files) + len(commands) > _MAX_ACTIONS:
        return None  # what an edit of the code, or of the file at fault, made green is work, no lesson
    steps = [f"with `{each}`" for each in front]
    steps += [f"after `{first_line(each.command, _CALL)}`" for each in commands[-_ACTIONS:]]
    steps += [f"after a change of {', '.join((settings or files)[:_ACTIONS])}"] if files else []
    error = error_line(records[0])
    gist = f"{f'{error}. ' if error else ''}It passed {' and '.join(steps)}."
    tags = dict.fromkeys([failure.key[0], *([check.kind.value] if check is not None else [])])
    changed = {id(each.record) for each in commands} | {id(each) for each in edits}
    proof = (records[0], *(each for each in records[1:-1] if id(each) in changed), records[-1])
    text = f"`{first_line(failure.command, _CALL)}` failed: {gist}"
    return Candidate(text, "gotcha", InsightSource.FIX, proof, tuple(tags), compared=gist)


def _is_edit(record: Record) -> bool:
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0]).lower()
    return tool in _EDIT_TOOLS and record.kind is not ObservationKind.ERROR


def _is_setting(file: str) -> bool:
    path = PurePosixPath(file)
    return path.suffix in _SETTINGS or _SETTING_NAMES.fullmatch(path.name) is not None


def _changes(run: _Run) -> bool:
    """Whether a command may have changed what another one then finds; a build makes something, other checks look."""
    check = check_of(run.command)
    return run.key[0] not in _READERS and (check is None or check.kind is CommandCheck.BUILD)


def error_line(record: Record) -> str:
    """The line of an output that says most about why it failed, or ""."""
    shown = [line.strip() for line in record.text.splitlines() if not line.startswith(("$ ", "# "))]
    lines = [line for line in (*shown, str(record.extra.get("error") or "")) if line and not _EXIT_CODE.fullmatch(line)]
    best = max(lines, key=lambda line: 2 * bool(_NAMED_ERROR.search(line)) + bool(_TROUBLE.search(line)), default="")
    return first_line(best, _ERROR).rstrip(".")


# --- insights ----------------------------------------------------------------------------------


def _insight(group: Sequence[Candidate]) -> Record:
    """One insight of candidates that say the same, in the words of the oldest."""
    first = group[0]
    records = list({record.id: record for each in group for record in each.evidence}.values())
    text = trim(" ".join(first.text.split()), _MAX_TEXT)
    files = dict.fromkeys(file for record in records for file in record.origin.files)
    tags = dict.fromkeys(tag for each in group for tag in each.tags)
    created = first.evidence[0].created_at
    newest = max(record.created_at for record in records)
    by = {InsightSource.FIX: "tool", InsightSource.MARKED: "human"}.get(first.source, "agent")
    is_marked = any(each.source is InsightSource.MARKED for each in group)
    return Record(
        id=_id(created, text),
        kind=kind_of(first.label) or MemoryKind.CONTEXT,
        text=text,
        label=first.label,
        tags=tuple(tags)[:_MAX_TAGS],
        status=Status.ACCEPTED if is_marked else Status.PROPOSED,
        scope=Scope.TASK,
        origin=replace(first.evidence[0].origin, by=by, files=tuple(files)[:_MAX_FILES]),
        created_at=created,
        updated_at=newest if newest != created else "",
        extra={
            SOURCE: first.source.value,
            EVIDENCE: [record.id for record in records][:MAX_EVIDENCE],
            **count_members(_count_places(group)),
            **({PROVEN: True} if any(each.source is InsightSource.FIX for each in group) else {}),
            PROMOTED: None,
        },
    )


def _count_places(group: Sequence[Candidate]) -> dict[str, int]:
    """How often it was seen at each place: what was said there counts once, a fix as often as it happened."""
    fixes = Counter(place(each.evidence[0]) for each in group if each.source is InsightSource.FIX)
    seen = dict.fromkeys(place(each.evidence[0]) for each in group if not each.is_summary)
    return {name: max(1, fixes[name]) for name in seen}


def _id(at: str, text: str) -> str:
    moment = when(at)
    unix = max(0, int(moment.timestamp())) if moment is not None else 0
    digest = hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()
    return f"ins-{unix}-{digest[:6]}"
