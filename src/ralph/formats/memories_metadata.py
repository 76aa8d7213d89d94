"""The metadata of an entry in memories.md, which is written in two HTML comments on one line.

    <!-- tags: build, tests | created: 2025-10-09 --> <!-- ralph: updated=2025-10-10 by=human -->

The first comment is shared with other programs. Its pairs have the form `key: value` and are
separated by `|`. The second comment is read only by Ralph. Its pairs have the form `key=value` and
are separated by spaces, so spaces in values are encoded, as in `why=it%20failed`.

A comment is torn if its end was lost, as in `<!-- tags: build | created: 2025`. In Markdown, it
would hide all entries below it, so such comments are masked before the file is read.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ralph.core.record import AT, UNCONFIRMED, Link, Origin, Record, Status
from ralph.core.text import DATE

CONFLICTS = "conflicts"
"""The metadata key that, after a merge, names the entry that this one is another wording of."""
WHY = "why"
"""The metadata key for the reason why an entry supersedes another one."""

_METADATA_KEYS = frozenset(
    {"tags", "created", "updated", "supersedes", "valid-until", "source", "by", "ralph"}
)
_SECOND_COMMENT_EXTRA = (
    "source",
    "via",
    "who",
    "session",
    UNCONFIRMED,
    WHY,
    AT,
    CONFLICTS,
)
"""The keys in `Record.extra` that are written to the second comment, besides relations."""
_FIELD_OF_KEY = {"updated": "updated_at", "valid-until": "valid_until"}

_MOMENT = DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?"  # a date, perhaps with a time
_ENCODED_CHARACTER = r"[% \t>]"  # has a meaning in the second comment
_CODE = r"%([0-9A-F]{2})"

# --- torn comments -----------------------------------------------------------------------------

TORN_COMMENT_START = "<!-\0"
"""Replaces the opening mark of a torn comment. It has the same length, so positions stay valid."""

_TORN_COMMENT_END = r" (?:-- >|->|--|-)\Z"  # what is left of ` -->`
_COMMENT_TOKEN = (
    "(?im)"
    # A metadata comment and the rest of its line.
    rf"^ {{0,3}}<!--[ \t]*(?:{'|'.join(sorted(_METADATA_KEYS))})[ \t]*:.*"
    # The end of any comment.
    r"|-->"
    # The marks of a heading. The space after them may be missing if an id follows.
    r"|^ {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)"
)


_OPEN_ON_ITS_LINE = re.compile(r"<!(?=--)(?!.*-->)")
"""Matches the opening mark of a comment that does not end on the same line."""


def mask_torn_comments(text: str) -> str:
    """Replace the opening marks of torn metadata comments by `TORN_COMMENT_START`.

    A metadata comment is torn if no `-->` follows before the next heading.
    """
    if not _OPEN_ON_ITS_LINE.search(text):
        return text
    # Going backwards, it is known at each opening mark whether a `-->` follows it.
    is_closed = False
    reversed_pieces: list[str] = []
    end = len(text)
    for token in reversed(list(re.finditer(_COMMENT_TOKEN, text))):
        if "-->" in token[0]:
            is_closed = True
        elif "<!--" not in token[0]:  # a heading
            is_closed = False
        elif not is_closed:
            start = text.index("<!--", token.start())
            rest = text[start + len(TORN_COMMENT_START) : end]
            reversed_pieces += [rest, TORN_COMMENT_START]
            end = start
    reversed_pieces.append(text[:end])
    return "".join(reversed(reversed_pieces))


def torn_metadata(comment: str) -> str:
    """Return the content of a masked comment, without the remains of its closing mark."""
    return re.sub(_TORN_COMMENT_END, "", comment[len(TORN_COMMENT_START) :])


# --- reading -----------------------------------------------------------------------------------


def metadata_in(comment: str) -> str | None:
    """Return the content of a metadata comment, or None for any other comment."""
    if not comment.endswith("-->"):
        return None
    content = comment.removeprefix("<!--").removesuffix("-->")
    if "-->" in content:  # two comments on one line
        content = content.replace("-->", "|").replace("<!--", "")
    for part in content.split("|"):
        key, colon, _ = part.partition(":")
        if colon and key.strip().lower() in _METADATA_KEYS:
            return content
    return None


def read_metadata(content: str) -> dict[str, Any]:
    """Return the Record fields that metadata sets, given the content of its comments."""
    fields: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for pair in _metadata_pairs(content):
        key = pair.word.lower()
        if key == "supersedes" and pair.value:
            links.append(Link("supersedes", pair.value))
            continue
        field_values = _read_field(key, pair)
        if field_values:
            fields |= field_values
        elif pair.word or pair.value:
            name = key if key in _METADATA_KEYS else pair.word
            extra[name] = pair.value if pair.has_value else None
    if links:
        fields["links"] = tuple(links)
    if extra:
        fields["extra"] = extra
    return fields


class _MetadataPair(NamedTuple):
    """A `key: value` pair from the first comment, or a `key=value` pair from the second."""

    word: str
    has_value: bool
    value: str


def _metadata_pairs(content: str) -> list[_MetadataPair]:
    first_comment: list[_MetadataPair] = []
    second_comment: list[_MetadataPair] = []
    for part in content.split("|"):
        word, colon, value = part.partition(":")
        if word.strip() != "ralph":
            first_comment.append(_MetadataPair(word.strip(), bool(colon), value.strip()))
            continue
        for encoded_pair in value.split():
            word, equals, encoded = encoded_pair.partition("=")
            decoded = re.sub(_CODE, lambda code: chr(int(code[1], 16)), encoded)
            second_comment.append(_MetadataPair(word.strip(), bool(equals), decoded.strip()))
    return [*first_comment, *second_comment]


def _read_field(key: str, pair: _MetadataPair) -> dict[str, Any]:
    """Return the Record field that a pair sets, or {} if the key or value is not valid."""
    if key == "tags" and pair.has_value:
        return {"tags": split_tags(pair.value)}
    if key == "created" and re.fullmatch(_MOMENT, pair.value):
        return {"created_at": pair.value}
    if key in _FIELD_OF_KEY and pair.value:
        return {_FIELD_OF_KEY[key]: pair.value}
    if key == "by" and pair.value:
        return {"origin": Origin(by=pair.value)}
    if key == "status" and pair.value.lower() == Status.RETIRED.value:
        return {"status": Status.RETIRED}
    return {}


def split_tags(tags: str) -> tuple[str, ...]:
    """Split a comma-separated list of tags, and drop empty ones."""
    return tuple([tag.strip() for tag in tags.split(",") if tag and not tag.isspace()])


# --- writing -----------------------------------------------------------------------------------


def render_metadata(record: Record) -> str:
    """Render both comments. The second one is left out if it would be empty."""
    parts = [f"tags: {', '.join(record.tags)}"]
    for key, value in first_comment_pairs(record):
        parts.append(key if value is None else f"{key}: {value}")
    metadata = f"<!-- {' | '.join(parts)} -->"
    second_pairs = second_comment_pairs(record)
    if second_pairs:
        encoded_pairs = [f"{key}={_encode_value(value)}" for key, value in second_pairs]
        metadata += f" <!-- ralph: {' '.join(encoded_pairs)} -->"
    return metadata


def _encode_value(value: str) -> str:
    return re.sub(_ENCODED_CHARACTER, lambda match: f"%{ord(match[0]):02X}", value)


def _is_in_second_comment(key: str) -> bool:
    if key in _SECOND_COMMENT_EXTRA:
        return True
    from ralph.core.graph import Relation  # few entries state a relation

    return key in tuple(Relation)


def first_comment_pairs(record: Record) -> list[tuple[str, str | None]]:
    """Return the pairs for the first comment after the tags.

    Other programs match this comment exactly, so it contains nothing that only Ralph needs. The
    value is None for a key that was written without a colon.
    """
    pairs: list[tuple[str, str | None]] = []
    if record.created_at:
        pairs.append(("created", record.created_at))
    for key, value in record.extra.items():
        if not _is_in_second_comment(key) or not value:
            pairs.append((key, None if value is None else str(value)))
    return pairs


def second_comment_pairs(record: Record) -> list[tuple[str, str]]:
    """Return the pairs for the second comment, in the order in which they are written."""
    pairs: list[tuple[str, str]] = []
    if record.extra.get(AT):
        pairs.append((AT, str(record.extra[AT])))
    if record.updated_at:
        pairs.append(("updated", record.updated_at))
    for link in record.links:
        if link.relation == "supersedes" and link.target:
            pairs.append(("supersedes", link.target))
    if record.valid_until:
        pairs.append(("valid-until", record.valid_until))
    if record.origin.by:
        pairs.append(("by", record.origin.by))
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    for key, value in record.extra.items():
        if _is_in_second_comment(key) and key != AT and value:
            pairs.append((key, str(value)))
    return pairs
