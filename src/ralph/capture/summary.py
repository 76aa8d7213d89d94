"""Summarise a session without a model: goal, changes, failures, what passed, how it ended, what is open.

A failure is resolved when the same command later did not fail; commands are compared without what does not change them
(`cd x &&`, `| tail`). Of a conversation, what the person said to an answer stays together with that answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from ralph.model.record import ObservationKind, Record
from ralph.search.question import has_form, shorten

_EDIT_TOOLS = frozenset(
    {
        "edit",
        "multiedit",
        "write",
        "notebookedit",
        "apply_patch",
        "create_file",
        "replace",
        "str_replace",
        "write_file",
        "patch",
    }
)
_GENERIC_NAMES = frozenset(
    {
        "src",
        "lib",
        "app",
        "apps",
        "test",
        "tests",
        "spec",
        "specs",
        "packages",
        "pkg",
        "internal",
        "cmd",
        "index",
        "main",
        "init",
        "mod",
        "utils",
        "util",
        "home",
        "user",
        "users",
        "tmp",
        "readme",
        "package",
    }
)
_BEFORE = re.compile(r"(?:cd\s+\S+\s*(?:&&|;)\s*|[A-Za-z_]\w*=\S*\s+|env\s+)")
_AFTER = re.compile(r"\s*(?:2>&1|\|\s*(?:tail|head|cat)\b[^|;&]*|>\s*/dev/null)\s*$")
_NAMED_ERROR = re.compile(
    r"\b\w*(?:Error|Exception)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|\bpanicked at\b|\bERR\w*"
)
_PROBLEM = re.compile(
    r"(?i)\b(?:error|fail(?:ed|ure|s)?|cannot|could not|not (?:found|set|installed)|no such|refused|denied|undefined"
    r"|unable|missing|must)\b"
)
_EXIT_CODE = re.compile(
    r"(?i)\W*(?:command )?(?:failed with )?exit(?:ed with)? (?:code|status)\s*:?\s*\d+\W*"
)
_OPEN_END = re.compile(
    r"(?i)\b(?:todo|fixme|next steps?|remaining|remains|still (?:to do|fails?|failing|missing|open|need\w*)|not yet"
    r"|left to do|follow[- ]?ups?)\b|^\s*[-*]\s*\[ \]"
)
_HEADING = re.compile(
    r"(?i)^\W*(?:todos?|next steps?|remaining|open (?:ends|points)|follow[- ]?ups?)\W*:?\W*$"
)
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[ \]\s*)?")
ASKED = "Asked: "  # how a line begins that quotes a person
PRINTED = "Error: "  # how a line begins that quotes what a tool printed
TOKENS = 400  # the most tokens of one session's summary, stored or injected
_LONG = 300
_SHORT = 160
_MOST = 8
_TAGS = 8
# of a compacted session: characters of a turn, and turns that are worth more than the rest
_TURN = 600
_NEWEST = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """What one session was about and how it ended."""

    goal: str = ""
    changed: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    state: str = ""
    open_ends: tuple[str, ...] = ()
    replies: tuple[tuple[int, str], ...] = ()
    """What the person said to answers, each below its answer, in their order, with its rank (1: the most telling)."""
    errors: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def is_prompt(record: Record) -> bool:
    """Whether an observation is a person's prompt."""
    return record.kind is ObservationKind.NOTE and record.origin.by == "human"


def is_message(record: Record) -> bool:
    """Whether an observation is the agent's last message, not a subagent's."""
    by_agent = record.kind is ObservationKind.NOTE and record.origin.by == "agent"
    return by_agent and not record.extra.get("agent_id")


def is_edit(record: Record) -> bool:
    """Whether an observation changed files."""
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0])
    return record.kind is not ObservationKind.ERROR and tool.lower() in _EDIT_TOOLS


def error_line(record: Record) -> str:
    """Return the line of an output that says most about a failure."""
    shown = [line for line in record.text.splitlines() if not line.startswith(("$ ", "# "))]
    return _cut(choose_error_line(shown, str(record.extra.get("error") or "")), _SHORT)


def choose_error_line(output: Iterable[str], reason: str = "") -> str:
    """Return the line that names an error, else the reason, else a problem, else the first."""
    *lines, reason = (
        line if not _EXIT_CODE.fullmatch(line) else "" for line in map(str.strip, (*output, reason))
    )
    named = [line for line in lines if _NAMED_ERROR.search(line)]
    problems = [line for line in lines if _PROBLEM.search(line)]
    return next(filter(None, (*named[-1:], reason, *problems, *lines)), "")


def summary(records: Sequence[Record]) -> Summary:
    """Summarise one session's observations, given in the order in which they happened."""
    message = next((record.text for record in reversed(records) if is_message(record)), "")
    resolved: list[str] = []
    errors: list[str] = []
    failing: dict[str, int] = {}
    passed: list[str] = []
    for number, record in enumerate(records):
        call = _describe_call(record) if record.kind is not ObservationKind.NOTE else ""
        if call and record.kind is ObservationKind.ERROR:
            if call not in failing and (error := error_line(record)):
                errors.append(f"{call}: {error}")
            failing.setdefault(call, number)
        elif call in failing:
            edited = ", ".join(_edited_files(records[failing.pop(call) : number])[:4])
            how = f"after editing {edited}" if edited else "on a later try, without an edit"
            resolved.append(f"{call}; {how}")
        if record.kind is ObservationKind.SUCCESS:
            passed.append(call)
    changed = _edited_files(records)
    replies = _replies(records)
    return Summary(
        goal=goal(records),
        changed=changed,
        resolved=tuple(resolved),
        passed=_unique(call for call in passed if call not in failing),
        state=_brief(message, _TURN) if replies and message else _last_state(records, message),
        open_ends=_unique([*(f"{call} fails" for call in failing), *_find_todos(message)])[:_MOST],
        replies=replies,
        errors=_unique(errors)[-_MOST:],
        tags=_find_tags(records, changed),
    )


def goal(records: Sequence[Record]) -> str:
    """Return the first prompt that is no slash command, if any."""
    prompts = [
        line for record in records if is_prompt(record) and (line := _cut(record.text, _LONG))
    ]
    return next(
        (line for line in prompts if not line.startswith("/")), prompts[0] if prompts else ""
    )


def _describe_call(record: Record) -> str:
    command = record.extra.get("command")
    text = " ".join(command.split()) if isinstance(command, str) else ""
    while (before := _BEFORE.match(text)) and len(before[0]) < len(text):
        text = text[before.end() :]
    while (after := _AFTER.search(text)) and after.start():
        text = text[: after.start()]
    tool = str(record.extra.get("tool") or record.title or "")
    return _cut(text or " ".join([tool, *record.origin.files[:1]]), _SHORT)


def _edited_files(records: Iterable[Record]) -> tuple[str, ...]:
    return _unique(file for record in records if is_edit(record) for file in record.origin.files)


def _last_state(records: Sequence[Record], message: str) -> str:
    for paragraph in re.split(r"\n\s*\n", message):
        if paragraph.strip(" \t\n#*-`"):
            return _cut(paragraph, _LONG)
    last = next((record for record in reversed(records) if not is_prompt(record)), None)
    return (
        _cut(f"{last.kind.value}: {_describe_call(last) or _cut(last.text, _SHORT)}", _LONG)
        if last
        else ""
    )


def _replies(records: Sequence[Record]) -> tuple[tuple[int, str], ...]:
    """Return prompts that follow an answer, with it; those with digits or identifiers rank first, then the newest."""
    said = [record for record in records if is_prompt(record) or is_message(record)]
    pairs = [
        (
            has_form(prompt.text),
            number,
            f"Answered: {_brief(answer.text, _SHORT)}\n{ASKED}{_brief(prompt.text, _LONG)}",
        )
        for number, (answer, prompt) in enumerate(pairwise(said))
        if is_message(answer) and is_prompt(prompt) and not prompt.text.startswith("/")
    ]
    best = enumerate(sorted(pairs, reverse=True)[:_MOST], 1)
    return tuple((rank, text) for rank, (_, _, text) in sorted(best, key=lambda each: each[1][1]))


def _brief(text: str, size: int) -> str:
    """Return a turn on one line; sentences without digits or identifiers are the first to go."""
    return _cut(shorten(text, size, len), size)


def _find_todos(message: str) -> Iterator[str]:
    below_heading = False
    for line in message.splitlines():
        if _HEADING.match(line):
            below_heading = True
        elif line.strip():
            below_heading = below_heading and _BULLET.match(line) is not None
            if below_heading or _OPEN_END.search(line):
                yield _cut(_BULLET.sub("", line, count=1), _SHORT)


def _find_tags(records: Sequence[Record], changed: Sequence[str]) -> tuple[str, ...]:
    names: Counter[str] = Counter()
    for file in changed:
        path = PurePosixPath(file.replace("\\", "/"))
        for part in (path.name.lstrip(".").partition(".")[0], path.parent.name):
            name = part.lower().strip("_-. ")
            if (
                len(name) > 1
                and name not in _GENERIC_NAMES
                and not name.isdigit()
                and not set(name) & set(',|/<>"')
            ):
                names[name] += 1
    return _unique(
        [*(record.origin.task for record in records), *(name for name, _ in names.most_common())]
    )[:_TAGS]


def text(session: Summary, budget: int, cost: Callable[[str], int]) -> str:
    """Format a summary in a budget of tokens (0: none), the most important first."""
    return _fit(list(_lines(session)), budget, cost)


def recap(
    records: Sequence[Record],
    budget: int,
    cost: Callable[[str], int],
    is_withheld: Callable[[str], bool],
) -> str:
    """Say what was asked and answered so far, the newest turns first to stay."""
    said = [record for record in records if is_prompt(record) or is_message(record)]
    first = next((number for number, record in enumerate(said) if is_prompt(record)), 0)
    lines = []
    for number, record in enumerate(said):
        who = ASKED if is_prompt(record) else "Answered: "
        lines.append(
            (0 if number == first else len(said) - number, f"{who}{_cut(record.text, _TURN)}")
        )
    done = replace(summary(records), goal="", state="", replies=())
    lines += [(rank + _NEWEST, line) for rank, line in _lines(done)]
    own = [(rank, line) for rank, line in lines if not line.startswith(PRINTED)]
    return _fit(
        [each for each in own if each[1].startswith(ASKED) or not is_withheld(each[1])],
        budget,
        cost,
    )


def _fit(lines: Sequence[tuple[int, str]], budget: int, cost: Callable[[str], int]) -> str:
    chosen: list[int] = []
    for number in sorted(range(len(lines)), key=lambda number: (lines[number][0], number)):
        more = sorted([*chosen, number])
        if budget <= 0 or cost("\n".join(lines[each][1] for each in more)) <= budget:
            chosen = more
    return "\n".join(lines[number][1] for number in chosen)


def _lines(session: Summary) -> Iterator[tuple[int, str]]:
    if session.goal:
        yield 0, f"Goal: {session.goal}"
    yield from ((min(rank, 5), reply) for rank, reply in session.replies)
    for start in range(0, len(session.changed), _MOST):
        yield 6 if start else 3, f"Changed: {', '.join(session.changed[start : start + _MOST])}"
    for failure in session.resolved:
        yield 2, f"Failed, then passed: {failure}"
    for start in range(0, len(session.passed), _MOST):
        yield 5, f"Passed: {'; '.join(session.passed[start : start + _MOST])}"
    if session.state:
        yield 1 if session.replies else 4, f"Last: {session.state}"
    for open_end in session.open_ends:
        yield 1, f"Open: {open_end}"
    for error in session.errors:
        yield 4, f"{PRINTED}{error}"


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _cut(text: str, size: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= size else line[: size - 1].rstrip() + "…"
