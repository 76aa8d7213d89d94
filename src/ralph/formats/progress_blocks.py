"""The blocks of a progress.txt, each of which describes one iteration.

    ## 2026-01-31 - Add the parser
    Thread: T-1234
    [//]: # (ralph: jrn-r-1a2b3c-4)
    Outcome: done
    Added the parser and a test for it.

The three lines below the heading are written by Ralph, and each may be missing. Agents write blocks
freely, so a thread or an outcome is also recognised in the body, as in `**Status:** completed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ralph.core import bullets, ids
from ralph.core import text as markdown
from ralph.core.errors import Refused
from ralph.core.record import Family, Outcome, Record, Scope
from ralph.core.text import BLANK, Line, LineRole

JOURNAL_KEY = "journal"
"""The key in `Record.extra` for the id of the journal entry that a block repeats."""

# A date, perhaps with a time, which may have seconds and a time zone.
_DATE = re.compile(
    r"(?<![0-9])([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?))?(?![0-9])"
)
_THREAD = re.compile(r"Thread: (\S+)")
_JOURNAL_LINE = re.compile(r"\[//\]: # \(ralph: (jrn-[A-Za-z0-9][A-Za-z0-9._-]{0,99})\)")
_OUTCOME = re.compile(r"Outcome: (done|failed|retried|blocked|interrupted)")
# `- **Thread:** T-1234`, as agents write it.
_ANY_THREAD = re.compile(r"[-*_ \t]*thread[*_]{0,2}:[*_]{0,2}[ \t]*(\S+)", re.IGNORECASE)
_STATUS_LINE = re.compile(r"[-*_ \t]*(?:status|outcome|result)[*_]{0,2}:", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9']+")
_DONE_WORDS = frozenset({"complete", "completed", "done", "pass", "passed", "passes"})
_UNFINISHED_WORDS = frozenset(
    {"blocked", "stuck", "incomplete", "unfinished", "interrupted", "aborted", "wip"}
)
_STORY_TITLE = re.compile(r"\S[ \t]+[-–—][ \t]+\S")  # `2026-01-31 10:30 - US-003`
_NEGATIONS = frozenset(
    {"not", "no", "never", "without", "isn't", "aren't", "wasn't", "doesn't", "didn't", "until"}
)


def read_block(title: str, lines: Iterable[Line]) -> Record:
    """Build the record for a block, given its title and the lines below its heading."""
    body = _trim_blank_lines([line.text for line in lines if line.role is not LineRole.CONFLICT])
    head = _read_head(body)
    body = _trim_blank_lines(body[head.length :])
    if head.outcome:
        outcome = Outcome(head.outcome)
    else:
        outcome = _outcome_in(title, body)
    thread = head.thread or _thread_in(body)
    return _block_record(title, body, outcome, thread=thread, journal_id=head.journal_id)


class _BlockHead(NamedTuple):
    """The values of the lines that Ralph writes below a heading, and the number of these lines.

    A value is "" if its line is missing.
    """

    thread: str
    journal_id: str
    outcome: str
    length: int


def _read_head(body: Sequence[str]) -> _BlockHead:
    values: list[str] = []
    length = 0
    for pattern in (_THREAD, _JOURNAL_LINE, _OUTCOME):
        match = None
        if length < len(body):
            match = pattern.fullmatch(body[length])
        if match is None:
            values.append("")
        else:
            values.append(match[1])
            length += 1
    thread, journal_id, outcome = values
    return _BlockHead(thread, journal_id, outcome, length)


def as_block(record: Record) -> Record:
    """Return a journal record in the form in which this file can store it.

    Raises Refused if it has no outcome or no title.
    """
    title = " ".join(record.title.split())
    if not isinstance(record.kind, Outcome) or not title or "\x00" in title:
        raise Refused(
            "a block in progress.txt needs an outcome and a title",
            hint="use the title `<date> - <story>`",
        )
    body: list[str] = []
    if record.text.strip():
        body = _trim_blank_lines(markdown.check_text(record.text, "block").split("\n"))
    thread = str(record.extra.get("thread") or _thread_in(body))
    journal_id = ""
    match = _JOURNAL_LINE.fullmatch(_journal_line(str(record.extra.get(JOURNAL_KEY, ""))))
    if match is not None:
        journal_id = match[1]
    return _block_record(title, body, record.kind, thread=thread, journal_id=journal_id)


def render_block(record: Record, newline: str) -> str:
    """Render a record that `as_block` returned."""
    lines = [f"## {record.title}"]
    body = record.text.split("\n") if record.text else []
    thread = record.extra.get("thread")
    if thread and thread != _thread_in(body):
        lines.append(f"Thread: {thread}")
    if record.extra.get(JOURNAL_KEY):
        lines.append(_journal_line(str(record.extra[JOURNAL_KEY])))
    # Without its own line, the outcome would be read from the title and the body. If the body
    # starts with lines that look like those above, an outcome line keeps them apart.
    if _outcome_in(record.title, body) is not record.kind or _read_head(body).length:
        lines.append(f"Outcome: {record.kind.value}")
    return newline.join([*lines, *body]) + newline


def _journal_line(journal_id: str) -> str:
    return f"[//]: # (ralph: {journal_id})"


def _block_record(
    title: str, body: Sequence[str], outcome: Outcome, *, thread: str, journal_id: str
) -> Record:
    text = "\n".join(body)
    extra: dict[str, object] = {}
    if thread:
        extra["thread"] = thread
    if journal_id:
        extra[JOURNAL_KEY] = journal_id
    return Record(
        id=ids.derived("prog", f"{title}\n{text}"),
        kind=outcome,
        text=text,
        family=Family.JOURNAL,
        label="progress",
        title=title,
        scope=Scope.TASK,
        created_at=_time_in(title),
        extra=extra,
    )


def _time_in(title: str) -> str:
    for match in _DATE.finditer(title):
        moment = f"{match[1]}T{match[2]}" if match[2] else match[1]
        if ids.parse_time(moment):
            return moment
    return ""


def _thread_in(body: Iterable[str]) -> str:
    for line in body:
        match = _ANY_THREAD.match(line)
        if match is not None:
            return match[1]
    return ""


def _outcome_in(title: str, body: Sequence[str]) -> Outcome:
    """Return the outcome that a block reports.

    A status line takes precedence over the title, and the title over the rest. A block that
    reports none is finished if its title is `<time> - <story>` and it lists what was done, because
    agents append such a block when they have finished a story. Otherwise it is BLOCKED.
    """
    status_lines = [line for line in body if _STATUS_LINE.match(line)]
    for lines in (status_lines, [title], body):
        words = _affirmed_words(lines)
        if not _DONE_WORDS.isdisjoint(words):
            return Outcome.DONE
        if "failed" in words:
            return Outcome.FAILED
    lists_work = any(bullets.bullet_marker(line) is not None for line in body)
    is_report = lists_work and _STORY_TITLE.search(title) is not None
    if is_report and not _says_unfinished([title, *body]):
        return Outcome.DONE
    return Outcome.BLOCKED


def _says_unfinished(lines: Iterable[str]) -> bool:
    """Return whether a line says that something is unfinished or not done."""
    for line in lines:
        words = set(_WORD.findall(line.lower()))
        if not _UNFINISHED_WORDS.isdisjoint(words):
            return True
        if not _DONE_WORDS.isdisjoint(words) and not _NEGATIONS.isdisjoint(words):
            return True
    return False


def _affirmed_words(lines: Iterable[str]) -> set[str]:
    """Return the words on all lines that contain no negation.

    A word after a zero, as in `0 failed`, does not count.
    """
    affirmed: set[str] = set()
    for line in lines:
        words = _WORD.findall(line.lower())
        if not _NEGATIONS.isdisjoint(words):
            continue
        previous = ""
        for word in words:
            if previous != "0":
                affirmed.add(word)
            previous = word
    return affirmed


def _trim_blank_lines(body: Sequence[str]) -> list[str]:
    filled = [number for number, line in enumerate(body) if line.strip(BLANK)]
    if not filled:
        return []
    return list(body[filled[0] : filled[-1] + 1])
