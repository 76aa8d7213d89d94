"""Store what a person asks Ralph to remember in a prompt, and archive it again on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ralph.core import ids
from ralph.core.errors import RalphError
from ralph.core.record import SESSION, VIA, MemoryKind, Record, Status, kind_of
from ralph.core.similarity import TextMatcher
from ralph.memory import caller, memory, reading
from ralph.memory.author import PERSON, Author, WriteContext
from ralph.memory.reading import MEMORIES

VIA_PROMPT = "prompt"
_MAX_SHOWN_CHARACTERS = 60
_MAX_CHARACTERS = 2_000  # a longer paragraph is pasted output
_WIDE_COLON = str.maketrans("：", ":")


def remember(
    root: Path, text: str, *, host: str, session: str, patterns: Sequence[str] = ()
) -> str:
    """Add a memory by a person, and return the line that tells the person about it.

    A label such as `fix:` at the beginning sets the type. Otherwise it is a decision.
    """
    if len(text) > _MAX_CHARACTERS:
        return (
            f"Ralph: not remembered: the text has {len(text):,} characters, "
            f"and a memory has at most {_MAX_CHARACTERS:,}"
        )
    kind, text = _split_label(text)
    try:
        records = [stored.record for stored in reading.list_entries(root, in_=MEMORIES)]
        similar = _find_similar(records, text)
        saved = memory.add(root, text, kind, context=_context(root, host, session, patterns))
    except RalphError as error:
        return f"Ralph: not remembered: {error.message}"
    record = saved.stored.record
    names = ids.short_ids([record.id, *(known.id for known in records)])
    name = names.get(record.id, record.id)
    if not saved.is_new:
        return f"Ralph: {name} already says that"
    message = f"Ralph: remembered {name} ({record.kind.value})"
    if similar is not None:
        message += f"; {names.get(similar.id, similar.id)} says nearly the same"
    return message


def forget_last(root: Path, session: str) -> str:
    """Archive the memory that a prompt added last, and return a line about it.

    A memory of this session is preferred. Returns "" if no prompt has added one.
    """
    from ralph.learning import removal  # a prompt that adds a memory does not need it

    try:
        records = [stored.record for stored in reading.list_entries(root, in_=MEMORIES)]
        last = _last_from_prompt(records, session)
        if last is None:
            return ""
        removal.archive(root, last.id)
    except RalphError as error:
        return f"Ralph: not archived: {error.message}"
    name = ids.short_ids([record.id for record in records]).get(last.id, last.id)
    return f"Ralph: archived {name} ({_shorten(last.text)})"


def _last_from_prompt(records: Sequence[Record], session: str) -> Record | None:
    """Return the memory that a prompt added last, preferably in this session."""
    added = []
    for record in records:
        is_from_prompt = str(record.extra.get(VIA) or "").startswith(VIA_PROMPT)
        if is_from_prompt and record.status is not Status.RETIRED:
            added.append(record)
    name = caller.clean_name(session)
    of_session = [record for record in added if record.extra.get(SESSION) == name]
    return max(of_session or added, key=lambda record: record.added_at, default=None)


def _context(root: Path, host: str, session: str, patterns: Sequence[str]) -> WriteContext:
    signature = {**PERSON.signature(root), SESSION: caller.clean_name(session)}
    author = Author(PERSON.by, f"{VIA_PROMPT} ({host})", signature)
    return WriteContext(author, patterns=patterns)


def _split_label(text: str) -> tuple[MemoryKind, str]:
    label, colon, _ = text.translate(_WIDE_COLON).partition(":")
    rest = text[len(label) + 1 :]
    kind = kind_of(label)
    if colon and kind is not None and rest.strip():
        return kind, rest.strip()
    return MemoryKind.DECISION, text


def _find_similar(records: Sequence[Record], text: str) -> Record | None:
    number = TextMatcher(record.text for record in records).nearest(text)
    return None if number is None else records[number]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _MAX_SHOWN_CHARACTERS:
        return line
    return line[: _MAX_SHOWN_CHARACTERS - 1].rstrip() + "…"
