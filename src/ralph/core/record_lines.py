"""Render a record for people and agents: on one line, or with all of its details.

mem-1700000000-1a2b fix .82 Jan 31 (personal) Restart the connection pool after a deploy…
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ralph.core.match_windows import LINES_BUDGET, MIN_HITS, MatchWindow
from ralph.core.record import record_marks, scope_mark
from ralph.core.render import SPEECH_TITLES, cut, short_day
from ralph.core.tokens import estimate

if TYPE_CHECKING:
    from ralph.core.record import Hit, Record

NEIGHBOUR_TOKENS = 42  # for a layer 2 line next to a hit, including the line break
_BEGINNING_CHARACTERS_PER_TOKEN = 8  # kept before the exact cut by tokens


# --- one line -----------------------------------------------------------------------------------


def record_line(
    record: Record, name: str = "", count: int = 1, budget: int = LINES_BUDGET // MIN_HITS
) -> str:
    """Render a record on one line, with its id or short name, its kind, and its first words."""
    text = " ".join(outcome_text(record).split()) or line_text(record)
    return MatchWindow(line_head(record, name, count), text, 0).resize(budget)


def outcome_text(record: Record) -> str:
    """Return what failed and the line that names the error, or "" for anything else."""
    error = record.extra.get("error")
    if not isinstance(error, str) or not error:
        return ""
    command = record.extra.get("command")
    if not isinstance(command, str) or not command:
        command = record.title
    return f"{command}: {error}"


def hit_head(hit: Hit, today: str, name: str, count: int = 1, note: str = "") -> str:
    """Return the start of a hit's line: as `line_head`, with the score and the day."""
    moment = f"{_short_score(hit.score)} {short_day(hit.record.created_at, today)}"
    return line_head(hit.record, name, count, note, moment)


def line_head(
    record: Record, name: str = "", count: int = 1, note: str = "", moment: str = ""
) -> str:
    """Return the start of a line, with the id, the kind, a count, and the first word of a note.

    A `moment` comes after the kind.
    """
    parts = [name or record.id, record.kind.value, moment.strip()]
    if count > 1:
        parts.append(f"{count}x")
    parts.append(record_marks(record).strip())
    if note:
        parts.append(f"({note.partition(' ')[0]})")
    return " ".join(filter(None, parts))


def line_text(record: Record) -> str:
    """Return a record's text for use on one line, with its title unless the text repeats it."""
    text = record.text.removeprefix("$ ")
    label, _, rest = record.title.partition(" ")
    if rest and text.startswith(rest):
        if not label.endswith(":"):
            text = f"{label} {text}"
    elif record.title and not (record.title in SPEECH_TITLES or text.startswith(record.title)):
        text = f"{record.title}: {record.text}"
    return " ".join(text.split())


def record_moment(
    record: Record,
    score: float | None = None,
    count: int = 1,
    *,
    budget: int = NEIGHBOUR_TOKENS,
    note: str = "",
) -> str:
    """Render a record as one line of layer 2.

    The line has the id, score, time, count, a note, and the record's first words.
    """
    fields = [record.id]
    if score:
        fields.append(_short_score(score))
    fields.append(record.created_at[:16].replace("T", " "))
    if count > 1:
        fields.append(f"{count}x")
    if note:
        fields.append(f"({note})")
    head = " ".join(filter(None, fields))
    return _head_and_words(head, _beginning(record, budget), budget, mark="…")


def _short_score(score: float) -> str:
    """Return a score as a few characters, such as `.82`."""
    return f"{score:.2f}".rstrip("0").rstrip(".").lstrip("0")


def linked_line(head: str, target: Record | str) -> str:
    """Render a line about a linked record, or just its id if the record is unknown."""
    words = target
    if not isinstance(words, str):
        words = _beginning(words)
    return _head_and_words(head, words, NEIGHBOUR_TOKENS)


def _beginning(record: Record, budget: int = NEIGHBOUR_TOKENS) -> str:
    text = titled_text(record)
    if budget <= NEIGHBOUR_TOKENS:
        text = outcome_text(record) or text
    text = text[: _BEGINNING_CHARACTERS_PER_TOKEN * budget]
    return " ".join(f"{record_marks(record)}{text}".split())


def titled_text(record: Record) -> str:
    """Join the title and the text of a record."""
    if record.title:
        return f"{record.title}: {record.text}"
    return record.text


def _head_and_words(head: str, words: str, budget: int, mark: str = "") -> str:
    return cut(f"{head} {words}".rstrip() + "\n", budget, f"{mark}\n", len(head)).rstrip("\n")


# --- all details --------------------------------------------------------------------------------


def record_details(record: Record, count: int = 1) -> str:
    """Render a record in full: its kind, its origin, and all of its text."""
    head = f"{record.id} ({record.family.value}, {record.kind.value}) {record.created_at}".rstrip()
    lines = [head]
    if record.title:
        lines.append(record.title)
    for name, value in (*_detail_fields(record, count), *_extra_fields(record)):
        if value:
            lines.append(f"{name}: {value}")
    return "\n".join([*lines, "", record.text])


def _detail_fields(record: Record, count: int) -> list[tuple[str, str]]:
    origin = record.origin
    label = record.label
    if label == record.kind.value:
        label = ""
    author = origin.by
    if author == "tool":
        author = "tool (below the command is what it printed)"
    links = [f"{link.relation.replace('_', ' ')} {link.target}" for link in record.links]
    repeated = ""
    if count > 1:
        repeated = f"{count} times in this session"
    return [
        ("scope", scope_mark(record).strip("() ")),
        ("label", label),
        ("by", author),
        ("tags", ", ".join(record.tags)),
        ("updated", record.updated_at[:10]),
        ("valid until", record.valid_until),
        ("links", ", ".join(links)),
        ("session", origin.session),
        ("run", origin.run),
        ("task", origin.task),
        ("agent", origin.agent),
        ("commit", origin.commit),
        ("files", ", ".join(origin.files)),
        ("repeated", repeated),
    ]


def _extra_fields(record: Record) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    for name, value in record.extra.items():
        if name == "own":
            continue
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False)
        fields.append((name, value))
    return fields


def cut_details(text: str, budget: int, record_id: str) -> str:
    """Cut text to a budget, adding a note about how to get the rest."""
    if estimate(text.rstrip() + "\n") <= budget:
        return text
    note = f"\n[cut; `ralph search --layer 3 {record_id}` shows the full text]"
    return cut(text, budget - 1, note)
