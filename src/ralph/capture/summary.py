"""A session in a few lines, made by looking and without a model: goal, changes, failures, what passed, open ends.

`summary` is a function of the observations alone, so it may run at every Stop and PreCompact and is always
replaced, never corrected. A failure counts as resolved when the same command later did not fail; what was
edited in between is how. Commands are compared without what does not change their meaning (`cd x &&`,
variables in front, `2>&1`, a pipe into `tail`). `text` keeps whole lines within a budget, the most telling
first, in a fixed order; `compressed` does the same for many old sessions (spec 3, "Compression"). The
estimate of tokens is an argument, since `context` stands beside this folder and not below it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ralph.model.record import ObservationKind, Record

Cost = Callable[[str], int]

_EDITS = frozenset(
    ["edit", "multiedit", "write", "notebookedit", "apply_patch", "create_file", "replace", "str_replace", "write_file"]
)
_GENERIC = frozenset(
    """src lib app apps test tests spec specs packages pkg internal cmd index main init mod utils util
    home user users tmp readme package""".split()
)
_BEFORE = re.compile(r"(?:cd\s+\S+\s*(?:&&|;)\s*|[A-Za-z_]\w*=\S*\s+|env\s+)")
_AFTER = re.compile(r"\s*(?:2>&1|\|\s*(?:tail|head|cat)\b[^|;&]*|>\s*/dev/null)\s*$")
_NAMED_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\berror(?:\[\w+\])?:|\bpanicked at\b")
_TROUBLE = re.compile(
    r"(?i)\b(?:error|fail(?:ed|ure|s)?|cannot|could not|not found|no such|refused|denied|undefined|unable)\b"
)
_EXIT = re.compile(r"(?i)\s*exit (?:code|status)\s*:?\s*\d+\s*\Z")
_OPEN_END = re.compile(
    r"(?i)\b(?:todo|fixme|next steps?|remaining|remains|still (?:to do|fails?|failing|missing|open|need\w*)|not yet"
    r"|left to do|follow[- ]?ups?)\b|^\s*[-*]\s*\[ \]"
)
_HEADING = re.compile(r"(?i)^\W*(?:todos?|next steps?|remaining|open (?:ends|points)|follow[- ]?ups?)\W*:?\W*$")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[ \]\s*)?")
TOKENS = 400
"""The most tokens of one session's summary, stored or injected."""
_LINE, _WORD, _MOST, _TAGS = 300, 160, 8, 8
_LEAST = 60
"""Tokens for a session before another one gets any: of many, the newest are injected."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A command (or another tool's call) that failed, what it said, and what was edited until it worked."""

    what: str
    error: str
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What one session was about and how it stands; empty parts are what did not happen."""

    goal: str = ""
    changed: tuple[str, ...] = ()
    resolved: tuple[Failure, ...] = ()
    passed: tuple[str, ...] = ()
    state: str = ""
    open_ends: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def is_prompt(record: Record) -> bool:
    """Whether an observation is what the person asked."""
    return record.kind is ObservationKind.NOTE and record.origin.by == "human"


def is_message(record: Record) -> bool:
    """Whether an observation is what the agent said at its end; what a subagent said is no such message."""
    said = record.kind is ObservationKind.NOTE and record.origin.by == "agent"
    return said and not record.extra.get("agent_id")


def summary(records: Sequence[Record]) -> Summary:
    """The summary of one session's observations, given in the order in which they happened."""
    message = next((record.text for record in reversed(records) if is_message(record)), "")
    changed = _unique(file for record in records for file in _edited(record))
    resolved, unresolved = _failures(records)
    waiting = [f"{each.what}: {each.error}" if each.error else each.what for each in unresolved]
    return Summary(
        goal=goal(records),
        changed=changed,
        resolved=tuple(resolved),
        passed=_passed(records, {each.what for each in unresolved}),
        state=_state(records, message),
        open_ends=_unique([*waiting, *_todos(message)])[:_MOST],
        tags=_tags(records, changed),
    )


def goal(records: Sequence[Record]) -> str:
    """The first thing the person asked for; a bare slash command only when there is nothing else."""
    asked = [line for record in records if is_prompt(record) and (line := _one_line(record.text, _LINE))]
    return next((line for line in asked if not line.startswith("/")), asked[0] if asked else "")


def text(found: Summary, budget: int, cost: Cost) -> str:
    """A summary as lines, as many as fit into a budget of tokens (0: no limit); the most telling go in first."""
    lines = list(_lines(found))
    kept: list[int] = []
    for number in sorted(range(len(lines)), key=lambda number: (lines[number][0], number)):
        tried = sorted([*kept, number])
        if budget <= 0 or cost(_joined(lines, tried)) <= budget:
            kept = tried
    return _joined(lines, kept)


def compressed(records: Sequence[Record], budget: int, cost: Cost) -> str:
    """Many sessions' observations within a budget: a summary each, the newest sessions served first."""
    sessions: dict[str, list[Record]] = {}
    for record in records:
        sessions.setdefault(record.origin.session, []).append(record)
    parts: list[str] = []
    for left, held in zip(range(len(sessions), 0, -1), reversed(list(sessions.values())), strict=True):
        heading = f"Session {held[0].origin.session} ({held[0].created_at[:10]})".replace(" ()", "")
        room = budget - (cost("\n".join(parts)) if parts else 0) - cost(heading + "\n") - 1
        share = min(max(room // left, _LEAST), room)
        if budget > 0 and room <= 0:
            break
        body = text(summary(held), share if budget > 0 else 0, cost)
        whole = "\n".join([f"{heading}\n{body}", *parts])
        if body and (budget <= 0 or cost(whole) <= budget):
            parts.insert(0, f"{heading}\n{body}")
    return "\n".join(parts)


# --- reading observations ----------------------------------------------------------------------


def _tool(record: Record) -> str:
    return str(record.extra.get("tool") or record.title or "")


def _command(record: Record) -> str:
    """The command of an observation, without what does not change its meaning."""
    found = record.extra.get("command")
    words = " ".join(found.split()) if isinstance(found, str) else ""
    while (before := _BEFORE.match(words)) and len(before[0]) < len(words):
        words = words[before.end() :]
    while (after := _AFTER.search(words)) and after.start():
        words = words[: after.start()]
    return words


def _what(record: Record) -> str:
    """What was tried: the command, else the tool and its first file."""
    return _command(record) or " ".join([_tool(record), *record.origin.files[:1]]).strip()


def _edited(record: Record) -> tuple[str, ...]:
    """The files that an observation changed."""
    failed = record.kind is ObservationKind.ERROR
    return () if failed or _tool(record).lower() not in _EDITS else record.origin.files


def _failures(records: Sequence[Record]) -> tuple[list[Failure], list[Failure]]:
    """Failures that the same call later got over, with what was edited in between, and those that stand."""
    resolved: list[Failure] = []
    standing: dict[str, tuple[int, str]] = {}
    for number, record in enumerate(records):
        what = _what(record) if record.kind is not ObservationKind.NOTE else ""
        if not what:
            continue
        if record.kind is ObservationKind.ERROR:
            standing.setdefault(what, (number, _error(record)))
        elif what in standing:
            first, error = standing.pop(what)
            files = _unique(file for between in records[first:number] for file in _edited(between))
            resolved.append(Failure(_cut(what, _WORD), error, files))
    return resolved, [Failure(_cut(what, _WORD), error) for what, (_, error) in standing.items()]


def _error(record: Record) -> str:
    """The line of an error that says most: the last that names one, else the sign of failure, else the first."""
    sign = str(record.extra.get("error") or "").strip()
    lines = [line.strip() for line in record.text.splitlines() if not line.startswith(("$ ", "# "))]
    lines = [line for line in lines if line and not _EXIT.match(line)]
    named = [line for line in lines if _NAMED_ERROR.search(line)]
    trouble = [line for line in lines if _TROUBLE.search(line)]
    chosen = named[-1:] or ([sign] if sign and not _EXIT.match(sign) else []) or trouble[:1] or lines[:1]
    return _cut(chosen[0], _WORD) if chosen else ""


def _passed(records: Sequence[Record], failing: set[str]) -> tuple[str, ...]:
    commands = [_cut(_what(record), _WORD) for record in records if record.kind is ObservationKind.SUCCESS]
    return tuple(command for command in _unique(commands) if command not in failing)


def _state(records: Sequence[Record], message: str) -> str:
    """How it stood at the end: how the agent's last message begins, else the last thing that happened."""
    paragraphs = [part for part in re.split(r"\n\s*\n", message) if part.strip(" \t\n#*-`")]
    if paragraphs:
        return _one_line(paragraphs[0], _LINE)
    last = next((record for record in reversed(records) if not is_prompt(record)), None)
    if last is None:
        return ""
    return _cut(f"{last.kind.value}: {_what(last) or _one_line(last.text, _WORD)}", _LINE)


def _todos(message: str) -> Iterator[str]:
    """Lines of a message that say what is left, and the points below a heading that says so."""
    listing = False
    for line in message.splitlines():
        if _HEADING.match(line):
            listing = True
        elif listing and _BULLET.match(line):
            yield _one_line(_BULLET.sub("", line, count=1), _WORD)
        elif line.strip():
            listing = False
            if _OPEN_END.search(line):
                yield _one_line(_BULLET.sub("", line, count=1), _WORD)


def _tags(records: Sequence[Record], changed: Sequence[str]) -> tuple[str, ...]:
    """Words for a session: its tasks, then the names of files and folders that it changed, the commonest first."""
    tasks = _unique(record.origin.task for record in records)
    named: Counter[str] = Counter()
    for file in changed:
        path = PurePosixPath(file.replace("\\", "/"))
        words = [path.name.lstrip(".").partition(".")[0], path.parent.name]
        named.update(word for word in (part.lower().strip("_-. ") for part in words) if _is_tag(word))
    return _unique([*tasks, *(word for word, _ in named.most_common())])[:_TAGS]


def _is_tag(word: str) -> bool:
    return len(word) > 1 and word not in _GENERIC and not word.isdigit() and not set(word) & set(',|/<>"')


# --- writing -----------------------------------------------------------------------------------


def _lines(found: Summary) -> Iterator[tuple[int, str]]:
    """The lines of a summary in their order, each with its rank: which is given up last."""
    if found.goal:
        yield 0, f"Goal: {found.goal}"
    for start in range(0, len(found.changed), _MOST):
        yield 3 + bool(start) * 3, f"Changed: {', '.join(found.changed[start : start + _MOST])}"
    for each in found.resolved:
        how = f"after editing {', '.join(each.edited[:4])}" if each.edited else "on a later try, without an edit"
        yield 2, f"Failed, then passed: {each.what}{f' ({each.error})' if each.error else ''}; {how}"
    for start in range(0, len(found.passed), _MOST):
        yield 5, f"Passed: {'; '.join(found.passed[start : start + _MOST])}"
    if found.state:
        yield 4, f"Last: {found.state}"
    for left in found.open_ends:
        yield 1, f"Open: {left}"


def _joined(lines: Sequence[tuple[int, str]], kept: Sequence[int]) -> str:
    return "\n".join(lines[number][1] for number in kept)


def _unique(words: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))


def _one_line(words: str, size: int) -> str:
    return _cut(" ".join(words.split()), size)


def _cut(words: str, size: int) -> str:
    return words if len(words) <= size else words[: size - 1].rstrip() + "…"
