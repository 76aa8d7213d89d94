"""One block of progress.txt: a heading, perhaps a thread, the journal's entry and an outcome, and words.

Reading and writing stand side by side here, so that `as_block`, `write_block` and `of_lines` agree: a
line that `write_block` writes above the words is a line that `of_lines` takes off again. The outcome
is written only where the words themselves do not say it, and comes last, so that whatever the words begin with
is theirs. A block of the loop bears a mark with the id of the journal's entry for the same iteration: the two are
one thing, told twice. Proved by `tests/formats/test_progress.py`.
"""

import re
from datetime import datetime
from typing import NamedTuple

from ralph.errors import Refused
from ralph.formats.lines import BLANK, writable
from ralph.model import ids
from ralph.model.record import Family, Outcome, Record, Scope

JOURNAL = "journal"
"""The member of a block that names the journal's entry for the same iteration."""

_DATE = re.compile(
    r"(?<![0-9])([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?))?(?![0-9])"
)
_THREAD = re.compile(r"Thread: (\S+)")
_ENTRY = re.compile(r"\[//\]: # \(ralph: (jrn-[A-Za-z0-9][A-Za-z0-9._-]{0,99})\)")
_ANY_THREAD = re.compile(r"[-*_ \t]*thread[*_]{0,2}:[*_]{0,2}[ \t]*(\S+)", re.IGNORECASE)
_OUTCOME = re.compile(r"Outcome: (done|failed|retried|blocked|interrupted)")
_STATED = re.compile(r"[-*_ \t]*(?:status|outcome|result)[*_]{0,2}:", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9']+")
_DONE = frozenset({"complete", "completed", "done", "pass", "passed", "passes"})
_NEGATED = frozenset({"not", "no", "never", "without", "isn't", "aren't", "wasn't", "doesn't", "didn't", "until"})


def as_block(record: Record) -> Record:
    """What is left of a journal record in this file: outcome, title, words, thread and the journal's entry."""
    title = " ".join(record.title.split())
    if not isinstance(record.kind, Outcome) or not title or "\x00" in title:
        raise Refused("a block in progress.txt needs an outcome and a title", hint="title it `<date> - <story>`")
    body = writable(record.text, "block").split("\n") if record.text.strip() else []
    link = str(record.extra.get("thread") or _thread_in(body))
    entry = _ENTRY.fullmatch(_mark(str(record.extra.get(JOURNAL, ""))))
    return _record(title, "\n".join(trimmed(body)), record.kind, link, entry[1] if entry is not None else "")


def of_lines(title: str, lines: list[str]) -> Record:
    """The record that a block's heading and lines are."""
    body = trimmed(lines)
    head = _head(body)
    words = trimmed(body[head.length :])
    outcome = head.outcome or _outcome_in(title, words)
    return _record(title, "\n".join(words), outcome, head.thread or _thread_in(words), head.entry)


def _record(title: str, text: str, outcome: Outcome, thread: str, entry: str) -> Record:
    return Record(
        id=ids.derived("prog", f"{title}\n{text}"),
        kind=outcome,
        text=text,
        family=Family.JOURNAL,
        label="progress",
        title=title,
        scope=Scope.TASK,
        created_at=_date_in(title),
        extra={key: value for key, value in (("thread", thread), (JOURNAL, entry)) if value},
    )


def write_block(record: Record, newline: str, *, closed: bool = True) -> str:
    """A block as it is written; the `Outcome:` line only where the words do not say it."""
    out = [f"## {record.title}"]
    body = record.text.split("\n") if record.text else []
    thread = record.extra.get("thread")
    if thread and thread != _thread_in(body):
        out.append(f"Thread: {thread}")
    if record.extra.get(JOURNAL):
        out.append(_mark(str(record.extra[JOURNAL])))
    if _outcome_in(record.title, body) is not record.kind or _head(body).length:
        out.append(f"Outcome: {record.kind.value}")
    out += body
    if closed:
        out.append("---")
    return newline.join(out) + newline


def trimmed(body: list[str]) -> list[str]:
    """Lines without the blank ones at both ends."""
    first, last = 0, len(body)
    while first < last and not body[first].strip(BLANK):
        first += 1
    while last > first and not body[last - 1].strip(BLANK):
        last -= 1
    return body[first:last]


def _mark(entry: str) -> str:
    return f"[//]: # (ralph: {entry})"


class _Head(NamedTuple):
    """The lines that we write at a block's top: what they say, and how many they are."""

    thread: str
    entry: str
    outcome: Outcome | None
    length: int


def _head(body: list[str]) -> _Head:
    found: list[str] = []
    count = 0
    for shape in (_THREAD, _ENTRY, _OUTCOME):
        line = shape.fullmatch(body[count]) if len(body) > count else None
        found.append(line[1] if line is not None else "")
        count += line is not None
    return _Head(found[0], found[1], Outcome(found[2]) if found[2] else None, count)


def _thread_in(body: list[str]) -> str:
    return next((found[1] for found in map(_ANY_THREAD.match, body) if found is not None), "")


def _outcome_in(title: str, body: list[str]) -> Outcome:
    """Done, failed or (when the block says neither) blocked; a status line outweighs the rest."""
    stated = [line for line in body if _STATED.match(line)]
    for group in (stated, [title], body):
        said_done = said_failed = False
        for line in group:
            words = _WORD.findall(line.lower())
            if not _NEGATED.isdisjoint(words):
                continue
            for before, word in zip(["", *words], words, strict=False):
                said_done |= word in _DONE and before != "0"
                said_failed |= word == "failed" and before != "0"
        if said_done or said_failed:
            return Outcome.DONE if said_done else Outcome.FAILED
    return Outcome.BLOCKED


def _date_in(title: str) -> str:
    """The first ISO date of a heading, with its time when it has one; "" when there is none."""
    for found in _DATE.finditer(title):
        whole = f"{found[1]}T{found[2]}" if found[2] else found[1]
        try:
            datetime.fromisoformat(whole)
        except ValueError:
            continue
        return whole
    return ""
