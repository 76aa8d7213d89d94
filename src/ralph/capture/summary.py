"""Summarise a session without a model.

A summary has the session's goal, its changes, failures and checks, how it ended, and what is still
open. A failure counts as resolved once the same command no longer fails. Commands are compared
without parts that make no difference, such as `cd x &&` and `| tail`. A person's reply stays
together with the answer that it responds to.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ralph.capture.error_lines import name_error
from ralph.capture.open_ends import (
    CommandIdentity,
    identify_command,
    is_still_open,
    open_points,
)
from ralph.capture.own_traffic import is_own_refusal
from ralph.capture.recoveries import Recovery, find_recoveries, is_edit, parse_run
from ralph.capture.small_talk import is_small_talk
from ralph.capture.uninformative_lines import names_nothing
from ralph.core.record import ObservationKind, Record
from ralph.core.render import has_digits_or_code, shorten

GENERIC_NAMES = frozenset(
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
"""Names of files and folders that say nothing about what is in them."""
_COMMAND_PREFIX = re.compile(r"(?:cd\s+\S+\s*(?:&&|;)\s*|[A-Za-z_]\w*=\S*\s+|env\s+)")
_COMMAND_SUFFIX = re.compile(r"\s*(?:2>&1|\|\s*(?:tail|head|cat)\b[^|;&]*|>\s*/dev/null)\s*$")
ASKED = "Asked: "  # opens a line that quotes a person
_ANSWERED = "Answered: "  # opens a line that quotes the agent
PRINTED = "Error: "  # opens a line that quotes what a tool printed
_GOAL = "Goal: "
_CHANGED = "Changed: "
_RESOLVED = "Failed, then passed: "
_PASSED = "Passed: "
_LAST = "Last: "
_REFUSED = "Not stored: Ralph refused it: "
_OPEN = "Open: "
_LABELS = (
    ASKED,
    _ANSWERED,
    PRINTED,
    _GOAL,
    _CHANGED,
    _RESOLVED,
    _PASSED,
    _LAST,
    _REFUSED,
    _OPEN,
)
"""What the lines of a summary begin with."""
TOKENS = 400  # the limit for one session's summary, stored or injected
_MAX_LINE = 300  # characters in a goal, a state or a reply
_MAX_SHORT_LINE = 160  # characters in a command, an error or an open point
_MAX_OPEN_CALL = 50  # characters; of a longer command line, only the program is named
_MAX_TURN = 600  # characters in one turn of a compacted session
_MAX_ITEMS = 8  # errors, open points, replies, or files on one line
_MAX_TAGS = 8
_MAX_EDITED_FILES = 4  # files that a resolved failure names
_MAX_NAMED_COMMANDS = 2  # commands that a resolved failure names
_RANK_AFTER_NEWEST_TURNS = 3  # a recap prefers its newest turns over other lines
_FORBIDDEN_IN_TAGS = frozenset(',|/<>"')


@dataclass(frozen=True, slots=True)
class RankedLine:
    """One line of a summary. When space is short, lines with lower ranks are kept."""

    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What one session was about and how it ended."""

    goal: str = ""
    changed: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    state: str = ""
    open_ends: tuple[str, ...] = ()
    replies: tuple[RankedLine, ...] = ()  # a person's replies, each below the agent's answer
    errors: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # why Ralph refused to store something, whatever the agent says
    tags: tuple[str, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """The agent's answers to which a person replied, in order."""
        first_lines = [reply.text.partition("\n")[0] for reply in self.replies]
        return tuple(line.removeprefix(_ANSWERED) for line in first_lines)


def is_prompt(record: Record) -> bool:
    """Return whether an observation is a person's prompt."""
    return record.kind is ObservationKind.NOTE and record.origin.by == "human"


def is_message(record: Record) -> bool:
    """Return whether an observation is the main agent's last message in a turn."""
    by_agent = record.kind is ObservationKind.NOTE and record.origin.by == "agent"
    return by_agent and not record.extra.get("agent_id")


def error_line(record: Record) -> str:
    """Return the line of a record's output that names the error, or "".

    The line that was chosen when the output was still complete is preferred.
    """
    chosen = str(record.extra.get("error") or "")
    if names_nothing(chosen):
        output = [line for line in record.text.splitlines() if not line.startswith(("$ ", "# "))]
        chosen = name_error("\n".join(output))
    return _cut(chosen, _MAX_SHORT_LINE)


def summary(records: Sequence[Record]) -> Summary:
    """Summarise one session from its observations, given in chronological order."""
    message = _last_message(records)
    checks = _follow_checks(records)
    changed = _edited_files(records)
    replies = _replies(records)
    if replies and message:
        state = _brief(message, _MAX_TURN)
    else:
        state = _last_state(records, message)
    failing = [failure.call for failure in checks.failing]
    still_failing = [f"{call} fails" for call in _open_calls(checks, records)]
    todos = [_cut(point, _MAX_SHORT_LINE) for point in open_points(message)]
    return Summary(
        goal=goal(records),
        changed=changed,
        resolved=tuple(checks.resolved),
        passed=_unique(call for call in checks.passed if call not in failing),
        state=state,
        open_ends=_unique([*still_failing, *todos])[:_MAX_ITEMS],
        replies=replies,
        errors=_unique(checks.errors)[-_MAX_ITEMS:],
        refused=_unique(_refusals(records))[-_MAX_ITEMS:],
        tags=_find_tags(records, changed),
    )


def _last_message(records: Sequence[Record]) -> str:
    for record in reversed(records):
        if is_message(record):
            return record.text
    return ""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A call that still fails, and the positions of its first and last failure."""

    call: str
    identity: CommandIdentity | None
    first: int
    last: int

    def is_same_call(self, call: str, identity: CommandIdentity | None) -> bool:
        """Return whether a call is this one, possibly in another spelling."""
        if identity is None or self.identity is None:
            return call == self.call
        return identity == self.identity

    def is_resolved_by(self, call: str, identity: CommandIdentity | None) -> bool:
        """Return whether the success of a call shows that this one no longer fails."""
        if identity is None or self.identity is None:
            return call == self.call
        return identity.covers(self.identity)


@dataclass(slots=True)
class _Checks:
    """How a session's calls went, in order."""

    errors: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    failing: list[_Failure] = field(default_factory=list)

    def add_failure(self, call: str, record: Record, number: int) -> None:
        """Note that a call failed."""
        identity = identify_command(record)
        for index, failure in enumerate(self.failing):
            if failure.is_same_call(call, identity):
                self.failing[index] = replace(failure, last=number)
                return
        self.failing.append(_Failure(call, identity, number, number))
        error = error_line(record)
        if error:
            self.errors.append(f"{call}: {error}")

    def take_resolved(self, call: str, record: Record) -> list[_Failure]:
        """Remove and return the failures that a successful call resolves."""
        if not self.failing:
            return []
        identity = identify_command(record)
        resolved = [one for one in self.failing if one.is_resolved_by(call, identity)]
        self.failing = [one for one in self.failing if one not in resolved]
        return resolved


def _follow_checks(records: Sequence[Record]) -> _Checks:
    checks = _Checks()
    recoveries = {id(recovery.success.record): recovery for recovery in find_recoveries(records)}
    for number, record in enumerate(records):
        if record.kind is ObservationKind.NOTE or is_own_refusal(record):
            continue
        call = _describe_call(record)
        if call and record.kind is ObservationKind.ERROR:
            checks.add_failure(call, record, number)
            continue
        for failure in checks.take_resolved(call, record):
            edited = _edited_files(records[failure.first : number])[:_MAX_EDITED_FILES]
            resolution = _describe_resolution(edited, recoveries.get(id(record)))
            checks.resolved.append(f"{failure.call}; {resolution}")
        if record.kind is ObservationKind.SUCCESS:
            checks.passed.append(call)
    return checks


def _open_calls(checks: _Checks, records: Sequence[Record]) -> list[str]:
    """Return the calls that still matter at the end of the session because they failed."""
    calls = []
    for failure in checks.failing:
        if is_still_open(records[failure.last], records[failure.last + 1 :]):
            calls.append(_short_call(failure.call, records[failure.last]))
    return calls


def _short_call(call: str, record: Record) -> str:
    """Return a call, or only its last program if the command line is long."""
    run = parse_run(record)
    if run is None or len(call) <= _MAX_OPEN_CALL:
        return call
    return _cut(shlex.join(run.key), _MAX_SHORT_LINE)


def _refusals(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        if is_own_refusal(record):
            yield error_line(record)


def _describe_resolution(edited: Sequence[str], recovery: Recovery | None) -> str:
    """Describe what was done between a failure and a success."""
    steps = []
    if recovery is not None:
        steps += [f"with {words}" for words in recovery.new_preparation]
        for run in recovery.commands[-_MAX_NAMED_COMMANDS:]:
            steps.append(f"after {_cut(run.command, _MAX_SHORT_LINE)}")
    if edited:
        steps.append(f"after editing {', '.join(edited)}")
    if steps:
        return " and ".join(steps)
    return "on a later try, with nothing changed in between"


def goal(records: Sequence[Record]) -> str:
    """Return the first prompt that says what is wanted, or "" if there is no prompt.

    Slash commands and small talk count only if there is nothing else.
    """
    prompts = [_cut(record.text, _MAX_LINE) for record in records if is_prompt(record)]
    prompts = [prompt for prompt in prompts if prompt]
    typed = [prompt for prompt in prompts if not prompt.startswith("/")]
    for prompt in typed:
        if not is_small_talk(prompt):
            return prompt
    return next(iter([*typed, *prompts]), "")


def _describe_call(record: Record) -> str:
    command = record.extra.get("command")
    text = ""
    if isinstance(command, str):
        text = _strip_command(" ".join(command.split()))
    if not text:
        tool = str(record.extra.get("tool") or record.title or "")
        text = " ".join([tool, *record.origin.files[:1]])
    return _cut(text, _MAX_SHORT_LINE)


def _strip_command(text: str) -> str:
    """Remove the parts around a command that make no difference, such as `| tail`."""
    prefix = _COMMAND_PREFIX.match(text)
    while prefix and len(prefix[0]) < len(text):
        text = text[prefix.end() :]
        prefix = _COMMAND_PREFIX.match(text)
    suffix = _COMMAND_SUFFIX.search(text)
    while suffix and suffix.start():
        text = text[: suffix.start()]
        suffix = _COMMAND_SUFFIX.search(text)
    return text


def _edited_files(records: Iterable[Record]) -> tuple[str, ...]:
    files: list[str] = []
    for record in records:
        if is_edit(record):
            files += record.origin.files
    return _unique(files)


def _last_state(records: Sequence[Record], message: str) -> str:
    for paragraph in re.split(r"\n\s*\n", message):
        if paragraph.strip(" \t\n#*-`"):
            return _cut(paragraph, _MAX_LINE)
    for record in reversed(records):
        if not is_prompt(record):
            what = _describe_call(record) or _cut(record.text, _MAX_SHORT_LINE)
            return _cut(f"{record.kind.value}: {what}", _MAX_LINE)
    return ""


class _Reply(NamedTuple):
    """A person's reply, in a form that sorts by importance.

    Replies with digits or identifiers outrank the others. Ties go to the later reply.
    """

    has_digits_or_code: bool
    position: int
    text: str


def _replies(records: Sequence[Record]) -> tuple[RankedLine, ...]:
    """Return the prompts that follow an answer, each together with that answer.

    Replies with digits or identifiers rank first. Among equals, the newest does.
    """
    turns = [record for record in records if is_prompt(record) or is_message(record)]
    replies = []
    for position, (answer, prompt) in enumerate(pairwise(turns)):
        if not is_message(answer) or not is_prompt(prompt) or prompt.text.startswith("/"):
            continue
        answered = _brief(answer.text, _MAX_SHORT_LINE)
        asked = _brief(prompt.text, _MAX_LINE)
        text = f"{_ANSWERED}{answered}\n{ASKED}{asked}"
        replies.append(_Reply(has_digits_or_code(prompt.text), position, text))
    best = sorted(replies, reverse=True)[:_MAX_ITEMS]
    rank_of = {reply.position: rank for rank, reply in enumerate(best, 1)}
    best.sort(key=lambda reply: reply.position)
    return tuple(RankedLine(rank_of[reply.position], reply.text) for reply in best)


def _brief(text: str, size: int) -> str:
    """Shorten a turn to one line. Sentences without digits or identifiers are dropped first."""
    return _cut(shorten(text, size, len), size)


def _find_tags(records: Sequence[Record], changed: Sequence[str]) -> tuple[str, ...]:
    names: Counter[str] = Counter()
    for file in changed:
        path = PurePosixPath(file.replace("\\", "/"))
        stem = path.name.lstrip(".").partition(".")[0]
        for part in (stem, path.parent.name):
            name = part.lower().strip("_-. ")
            if _is_telling(name):
                names[name] += 1
    tasks = [record.origin.task for record in records]
    frequent = [name for name, _ in names.most_common()]
    return _unique([*tasks, *frequent])[:_MAX_TAGS]


def _is_telling(name: str) -> bool:
    if len(name) <= 1 or name.isdigit() or name in GENERIC_NAMES:
        return False
    return _FORBIDDEN_IN_TAGS.isdisjoint(name)


def text(session: Summary, budget: int, cost: Callable[[str], int]) -> str:
    """Format a summary within a token budget, where 0 means no limit.

    If not everything fits, the most important lines are kept.
    """
    return _fit(list(_lines(session)), budget, cost)


def parse(text: str) -> Summary:
    """Read the goal, changes, answers, state and open ends of a summary that `text` formatted.

    A user's command may have written free text instead. Its first line then counts as the goal, and
    the others as the state.
    """
    lines_of_labels: dict[str, list[str]] = {label: [] for label in _LABELS}
    free_lines = []
    for line in text.splitlines():
        label = next((label for label in _LABELS if line.startswith(label)), "")
        if label:
            lines_of_labels[label].append(line.removeprefix(label))
        else:
            free_lines.append(line.strip())
    goals = lines_of_labels[_GOAL] or free_lines[:1]
    states = lines_of_labels[_LAST] or free_lines[1:]
    changed = ", ".join(lines_of_labels[_CHANGED])
    replies = [RankedLine(0, f"{_ANSWERED}{answer}") for answer in lines_of_labels[_ANSWERED]]
    return Summary(
        goal=" ".join(goals),
        changed=tuple(name for name in changed.split(", ") if name),
        state=" ".join(states),
        open_ends=tuple(lines_of_labels[_OPEN]),
        replies=tuple(replies),
    )


def recap(
    records: Sequence[Record],
    budget: int,
    cost: Callable[[str], int],
    is_withheld: Callable[[str], bool],
) -> str:
    """Return what was asked and answered so far, within a token budget.

    The first prompt and the newest turns are kept first. `is_withheld` rejects lines that must not
    be injected. A person's prompts are always allowed.
    """
    lines = list(_turn_lines(records))
    done = replace(summary(records), goal="", state="", replies=())
    for line in _lines(done):
        if not line.text.startswith(PRINTED):
            lines.append(RankedLine(line.rank + _RANK_AFTER_NEWEST_TURNS, line.text))
    shown = [line for line in lines if line.text.startswith(ASKED) or not is_withheld(line.text)]
    return _fit(shown, budget, cost)


def _turn_lines(records: Sequence[Record]) -> Iterator[RankedLine]:
    turns = [record for record in records if is_prompt(record) or is_message(record)]
    goal_number = _first_prompt_number(turns)
    for number, record in enumerate(turns):
        rank = len(turns) - number
        if number == goal_number:
            rank = 0
        speaker = ASKED if is_prompt(record) else _ANSWERED
        yield RankedLine(rank, f"{speaker}{_cut(record.text, _MAX_TURN)}")


def _first_prompt_number(turns: Sequence[Record]) -> int:
    for number, record in enumerate(turns):
        if is_prompt(record):
            return number
    return 0


def _fit(lines: Sequence[RankedLine], budget: int, cost: Callable[[str], int]) -> str:
    """Join the lines with the lowest ranks that fit into the budget, in their original order."""
    by_rank = sorted(range(len(lines)), key=lambda number: (lines[number].rank, number))
    chosen: list[int] = []
    for number in by_rank:
        candidate = sorted([*chosen, number])
        joined = "\n".join(lines[index].text for index in candidate)
        if budget <= 0 or cost(joined) <= budget:
            chosen = candidate
    return "\n".join(lines[index].text for index in chosen)


def _lines(session: Summary) -> Iterator[RankedLine]:
    """Yield a summary's lines with their ranks, in display order."""
    if session.goal:
        yield RankedLine(0, f"{_GOAL}{session.goal}")
    for reply in session.replies:
        yield RankedLine(min(reply.rank, 5), reply.text)
    for number, files in enumerate(_chunks(session.changed)):
        yield RankedLine(6 if number else 3, f"{_CHANGED}{', '.join(files)}")
    for failure in session.resolved:
        yield RankedLine(2, f"{_RESOLVED}{failure}")
    for calls in _chunks(session.passed):
        yield RankedLine(5, f"{_PASSED}{'; '.join(calls)}")
    if session.state:
        yield RankedLine(1 if session.replies else 4, f"{_LAST}{session.state}")
    for refusal in session.refused:
        yield RankedLine(1, f"{_REFUSED}{refusal}")
    for open_end in session.open_ends:
        yield RankedLine(1, f"{_OPEN}{open_end}")
    for error in session.errors:
        yield RankedLine(4, f"{PRINTED}{error}")


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _MAX_ITEMS):
        yield items[start : start + _MAX_ITEMS]


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _cut(text: str, size: int) -> str:
    line = " ".join(text.split())
    if len(line) <= size:
        return line
    return line[: size - 1].rstrip() + "…"
