"""Describe recorded sessions for an agent that distils memories from them (`ralph learn`).

A digest has one line per event, each with the short id of its record:

    ## Session 4f1c, 2026-11-12
    [obs-a3f8] user: use pnpm here, not npm
    [obs-19c2] agent: Switched the scripts to pnpm.
    [obs-77d0] failed: $ npm test Error: Cannot find module '../dist/parser.js'

Prompts and answers are kept almost whole, the output of tools is cut. Every record has one line, so
that its text cannot pass for another record. Sessions without substance, such as a greeting, are
left out. What does not fit into the token budget goes into the next digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ralph.capture.recoveries import is_edit
from ralph.capture.summary import is_message, is_prompt
from ralph.core import ids, render
from ralph.core.record import ObservationKind, Record
from ralph.core.tokens import estimate

_MAX_SPOKEN_CHARACTERS = 1_200  # of a prompt or an answer
_MAX_OUTPUT_CHARACTERS = 400  # of a command with its output
_MAX_EDIT_CHARACTERS = 250
_HEAD_SHARE = 0.4  # of cut text, the share that comes from its beginning
_MIN_WORDS = 12  # of a conversation without commands and edits
_MIN_BUDGET = 500  # tokens


@dataclass(frozen=True, slots=True)
class Digest:
    """The text for one call of an agent, and the records that it describes.

    `records` has each record by its id. Everything that happened up to `until` is in this digest or
    in an earlier one.
    """

    text: str
    records: Mapping[str, Record]
    sessions: tuple[str, ...]
    until: str


@dataclass(slots=True)
class _Draft:
    lines: list[str] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    sessions: dict[str, None] = field(default_factory=dict)
    tokens: int = 0


def make_digests(records: Sequence[Record], budget: int) -> list[Digest]:
    """Return digests of at most `budget` tokens each.

    `records` may come from several sessions, and must be in chronological order.
    """
    drafts = list(_pack_sessions(records, max(budget, _MIN_BUDGET)))
    digests = []
    for number, draft in enumerate(drafts):
        later = drafts[number + 1 :]
        until = _complete_until(records, later)
        text = "\n".join(draft.lines)
        digests.append(Digest(text, draft.records, tuple(draft.sessions), until))
    return digests


def _complete_until(records: Sequence[Record], later: Sequence[_Draft]) -> str:
    """Return the time of the last record before the first one that is in a later digest.

    Sessions overlap, so a later digest may begin before this one ends.
    """
    first_left = min(
        (record.created_at for draft in later for record in draft.records.values()), default=""
    )
    until = ""
    for record in records:
        if not first_left or record.created_at < first_left:
            until = max(until, record.created_at)
    return until


def _pack_sessions(records: Sequence[Record], budget: int) -> Iterator[_Draft]:
    names = ids.short_ids(record.id for record in records)
    draft = _Draft()
    for session, group in group_sessions(records).items():
        if not has_substance(group):
            continue
        heading = f"## Session {session[:8]}, {group[0].created_at[:10]}"
        heading_tokens = line_tokens(heading)
        for record in group:
            description = describe_record(record)
            if not description:
                continue
            line = _fit(
                f"[{names.get(record.id, record.id)}] {description}", budget - heading_tokens
            )
            tokens = line_tokens(line)
            needed = tokens if session in draft.sessions else heading_tokens + tokens
            if draft.records and draft.tokens + needed > budget:
                yield draft
                draft = _Draft()
            if session not in draft.sessions:
                draft.lines.append(heading)
                draft.sessions[session] = None
                draft.tokens += heading_tokens
            draft.lines.append(line)
            draft.records[record.id] = record
            draft.tokens += tokens
    if draft.records:
        yield draft


def line_tokens(line: str) -> int:
    """Estimate the tokens of a line within a text, including the end of the line."""
    return estimate(f"\n{line}\n")


def _fit(line: str, budget: int) -> str:
    """Cut a line until it has at most `budget` tokens."""
    size = len(line)
    while size > 1 and line_tokens(line) > budget:
        size //= 2
        line = _cut(line, size)
    return line


def group_sessions(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by session. Sessions are in the order in which they began."""
    sessions: dict[str, list[Record]] = {}
    for record in records:
        sessions.setdefault(record.origin.session, []).append(record)
    return sessions


def has_substance(session: Sequence[Record]) -> bool:
    """Return whether anything happened in a session besides small talk."""
    words = 0
    for record in session:
        if is_prompt(record) or is_message(record):
            words += len(record.text.split())
        elif describe_record(record):
            return True
    return words >= _MIN_WORDS


def describe_record(record: Record) -> str:
    """Return the line about a record without its id, or "" if it is not worth a line."""
    label = line_label(record)
    text = shown_text(record)
    if not label or not text:
        return ""
    return f"{label} {_cut(text, _max_characters(record))}"


def line_label(record: Record) -> str:
    """Return what a record's line begins with, or "" if the record is not worth a line."""
    if is_prompt(record):
        return "user:"
    if record.kind is ObservationKind.NOTE:
        return "agent:"
    if is_edit(record):
        return f"edited {', '.join(record.origin.files)}:"
    if not isinstance(record.extra.get("command"), str):
        return ""
    return "failed:" if record.kind is ObservationKind.ERROR else "ran:"


def shown_text(record: Record) -> str:
    """Return a record's text as digests show it: on one line, and without invisible characters."""
    return render.one_line(record.text)


def _max_characters(record: Record) -> int:
    if record.kind is ObservationKind.NOTE:
        return _MAX_SPOKEN_CHARACTERS
    if is_edit(record):
        return _MAX_EDIT_CHARACTERS
    return _MAX_OUTPUT_CHARACTERS


def _cut(line: str, size: int) -> str:
    """Keep the beginning and the end of a line that has more than `size` characters."""
    if len(line) <= size:
        return line
    head = int(size * _HEAD_SHARE)
    return f"{line[:head].rstrip()} … {line[len(line) - (size - head) :].lstrip()}"
