"""The codec for knowledge/*.md files, which have YAML front matter and a Markdown body.

    ---
    title: Running the tests
    tags: [tests, ci]
    ---

    Run `make gen` first. See also [[Release steps]].

An edit changes only the lines of the fields that differ. The YAML is composed rather than loaded,
because that preserves the positions of the values.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from ralph.core import ids
from ralph.core import text as markdown
from ralph.core.config_files import ConfigNode, YamlError, read_yaml
from ralph.core.errors import Conflict, Refused
from ralph.core.record import Link, MemoryKind, Record, Status, kind_of
from ralph.core.text import BOM, Entry, Problem, TextDocument

KNOWLEDGE_LABEL = "knowledge"
TRUNCATED = "[truncated]"

# In characters. Larger front matter is an accident, and parsing YAML is not always linear.
_MAX_FRONT_MATTER = 16_384
_MAX_SHOWN_VALUE = 60  # characters of a value that an error shows
_MAX_SLUG = 80  # characters
_MAX_SLUG_BYTES = 240  # a file name has at most 255 bytes, including `.md` and a number
_MAX_WORDS = 500  # in a body
_MIN_SUBSTRING_TITLE = 8  # characters; a shorter one-word title is too common to match by itself
_CLOSING_LINE = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9]*(?:[-_/.][a-z0-9]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_STATUS = "status"  # ours only if its value is `retired`
_RECORD_KEYS = frozenset({"title", "tags", "created_at", "updated_at"})
_LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")

# --- front matter ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields with their positions, where the front matter ends, and where the body starts."""

    fields: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...]
    end: int
    body: int

    def text(self, name: str) -> str:
        """Return a scalar field as one line of text, or "" if there is none."""
        return " ".join(_scalar_text(self.fields.get(name)).split())

    def kind_key(self) -> str:
        """Return the key whose value names a kind of memory, or "" if there is none."""
        for name in ("kind", "type"):
            if kind_of(self.text(name)) is not None:
                return name
        return ""

    def tags(self) -> tuple[str, ...]:
        """Return the tags, which may be a list or a comma-separated string."""
        field = self.fields.get("tags")
        if field is not None and isinstance(field.value, tuple):
            return clean_tags(_scalar_text(item) for item in field.value)
        return clean_tags(_scalar_text(field).split(","))


class FrontMatterFault(NamedTuple):
    """Why front matter cannot be read, and on which line."""

    line: int
    what: str


def _scalar_text(node: ConfigNode | None) -> str:
    if node is None or node.value is None or isinstance(node.value, tuple | Mapping):
        return ""
    return node.source


def read_front_matter(text: str) -> FrontMatter | FrontMatterFault:
    """Return the front matter of a text, or what is wrong with it."""
    begin = len(_bom_of(text))
    opening = text.find("\n", begin)
    if opening < 0 or text[begin:opening].rstrip("\r") != "---":
        return FrontMatterFault(1, "the first line must be `---`, the start of the front matter")
    closing = _CLOSING_LINE.search(text, opening + 1)
    if closing is None:
        return FrontMatterFault(1, "the front matter is not closed by a line `---`")
    if closing.start() - opening > _MAX_FRONT_MATTER:
        return FrontMatterFault(
            1, f"the front matter is larger than {_MAX_FRONT_MATTER} characters"
        )
    # Replacing the text above by a comment keeps all positions the same.
    yaml = "#" * opening + text[opening : closing.start()]
    try:
        root, problems = read_yaml(yaml)
        if not isinstance(root.value, Mapping):
            raise YamlError(2, "it is not a list of `key: value` lines")
    except YamlError as error:
        return FrontMatterFault(error.line, f"this front matter cannot be read: {error}")
    return FrontMatter(root.value, tuple(problems), closing.start(), closing.end())


def _bom_of(text: str) -> str:
    return BOM if text.startswith(BOM) else ""


def _plain_value(node: ConfigNode) -> object:
    """Return the value of a node. A number not written in its shortest form remains text."""
    if isinstance(node.value, Mapping):
        return {name: _plain_value(item) for name, item in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain_value(item) for item in node.value]
    if node.value is None or isinstance(node.value, bool) or node.style != "plain":
        return node.value
    with suppress(ValueError):
        number = json.loads(node.source)
        is_number = isinstance(number, int | float) and math.isfinite(number)
        if is_number and json.dumps(number) == node.source:
            return number
    return node.source


class _Edit(NamedTuple):
    """Text that replaces `text[start:end]`."""

    start: int
    end: int
    text: str


def _change_fields(
    text: str,
    matter: FrontMatter,
    values: Mapping[str, object],
    removed: Iterable[str],
    newline: str,
) -> str:
    """Return the text with some fields removed, and others changed or added."""
    edits: list[_Edit] = []
    for name in removed:
        field = matter.fields.get(name)
        if field is not None:
            line_start = text.rfind("\n", 0, field.key_start) + 1
            line_end = text.find("\n", _value_end(text, field)) + 1
            edits.append(_Edit(line_start, line_end, ""))
    for name, value in values.items():
        field = matter.fields.get(name)
        if field is not None:
            edits.append(_change_value(text, field, value, newline))
    added = [
        write_field(name, value) + newline
        for name, value in values.items()
        if name not in matter.fields
    ]
    edits.append(_Edit(matter.end, matter.end, "".join(added)))
    edits.sort(key=lambda edit: (edit.start, edit.end), reverse=True)
    for edit in edits:  # from the end, so that the positions before it stay valid
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _change_value(text: str, field: ConfigNode, value: object, newline: str) -> _Edit:
    is_block_list = isinstance(field.value, tuple) and field.style == "block"
    if is_block_list and isinstance(value, tuple):
        column = field.start - text.rfind("\n", 0, field.start) - 1
        items = [f"- {_write_tag(str(item))}" for item in value]
        written = f"{newline}{' ' * column}".join(items)
    else:
        written = _write_value(value)
    if text[field.start - 1] not in " \t\n":
        written = " " + written
    return _Edit(field.start, _value_end(text, field), written)


def _value_end(text: str, field: ConfigNode) -> int:
    """Return the end of a value, not counting blank lines that YAML adds to a block scalar."""
    if field.style == "literal":
        return len(text[: field.end].rstrip())
    return field.end


def write_field(name: str, value: object) -> str:
    """Render one line of front matter. Raises Refused if YAML cannot represent the value."""
    key = name
    if not _PLAIN_KEY.fullmatch(name) or name.lower() in _RESERVED:
        key = _write_value(name)
    return f"{key}: {_write_value(value)}"


def _write_tag(tag: str) -> str:
    if _PLAIN_TAG.fullmatch(tag) and tag not in _RESERVED:
        return tag
    return _write_value(tag)


def _write_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_write_tag(str(item)) for item in value)}]"
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            f"front matter cannot hold {repr(value)[:_MAX_SHOWN_VALUE]}",
            hint="use texts, numbers, lists or mappings",
        ) from error
    has_nul = "\\u0000" in text.replace("\\\\", "")
    if has_nul or any("\ud800" <= char <= "\udfff" for char in text):
        raise Refused(
            "YAML cannot hold a character of this entry: a NUL or half of a surrogate pair",
            hint="remove it from the title, the tags or the other values",
        )
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# --- the document ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnowledgeDocument(TextDocument):
    """A parsed knowledge file, which has at most one entry."""

    slug: str
    matter: FrontMatter | None

    def add(self, record: Record) -> KnowledgeDocument:
        """Return a copy of the file with an entry added.

        Raises Conflict if the file is not empty, and Refused if the record cannot be stored in it.
        """
        if self.text.strip(BOM + " \t\r\n"):
            raise Conflict(
                "a knowledge file has one entry, and this file is not empty",
                hint="write the entry to a file of its own, or replace this one",
            )
        text = _bom_of(self.text) + render_knowledge(record)
        return self._checked(text, normalise_entry(record, self.slug))

    def replace(self, record_id: str, record: Record) -> KnowledgeDocument:
        """Return a copy of the file in which the fields that differ, and the body, are updated.

        Raises NotFound if there is no such entry, and Refused if the record cannot be stored.
        """
        old = markdown.find_entry(self.entries, record_id).record
        expected = normalise_entry(record, self.slug)
        if self.matter is None or expected == old:
            return self
        text = self.text
        if expected.text != old.text:
            text = self._with_body(self.matter.body, expected.text)
        before = _field_values(old)
        after = _field_values(expected)
        written: dict[str, object] = {}
        for name, value in after.items():
            if name not in before or before[name] != value:
                written[name] = value
        removed = [name for name in before if name not in after]
        kind_key = self.matter.kind_key() or "kind"
        if "kind" in written:
            written[kind_key] = written.pop("kind")
        if "kind" in removed:
            removed[removed.index("kind")] = kind_key
        newline = markdown.newline_of(self.text)
        return self._checked(_change_fields(text, self.matter, written, removed, newline), expected)

    def _with_body(self, start: int, body: str) -> str:
        """Return the text with its body replaced. Line endings around it are kept if possible."""
        newline = markdown.newline_of(self.text)
        front = self.text[:start]
        old = _split_body(self.text[start:])
        above = old.above
        below = old.below
        if not front.endswith("\n"):
            above = newline * 2
            below = newline
        elif not above and body.startswith("\n"):
            above = newline
        if not below and body.endswith("\n"):
            below = newline
        return front + above + body.replace("\n", newline) + below

    def remove(self, record_id: str) -> KnowledgeDocument:
        """Return an empty file, with a byte order mark if there was one.

        Raises NotFound if there is no such entry.
        """
        markdown.find_entry(self.entries, record_id)
        return parse_knowledge(_bom_of(self.text), self.slug)

    def _checked(self, text: str, expected: Record) -> KnowledgeDocument:
        after = parse_knowledge(text, self.slug)
        if [entry.record for entry in after.entries] != [expected]:
            raise Refused(
                "this entry cannot be written so that it reads back the same",
                hint="look for unusual characters in its title, tags and text",
            )
        return after


def parse_knowledge(text: str, slug: str = "") -> KnowledgeDocument:
    """Parse a knowledge file. `slug` is its file name without `.md`."""

    def without_entry(line: int, what: str, code: str) -> KnowledgeDocument:
        hint = "begin the file with `---`, a `title:` and `tags:`, and `---` again"
        return KnowledgeDocument(text, (), (Problem(line, what, hint, "error", code),), slug, None)

    matter = read_front_matter(text)
    if isinstance(matter, FrontMatterFault):
        return without_entry(matter.line, matter.what, "bad-front-matter")
    for name, value in (("title", matter.text("title")), ("tags", matter.tags())):
        if not value:
            number = matter.fields[name].line if name in matter.fields else 1
            return without_entry(number, f"the entry has no `{name}`", f"no-{name}")
    body = _split_body(text[matter.body :]).text.replace("\r\n", "\n")
    problems = list(matter.problems)
    if not body.strip():
        problems.append(
            Problem(1, "the entry has no text", "write it below the front matter", code="no-text")
        )
    lines_above = text.count("\n", 0, matter.body)
    for line in markdown.scan_lines(text[matter.body :]):
        problem = markdown.line_problem(line)
        if problem is not None:
            problems.append(replace(problem, line=problem.line + lines_above))
    entry = Entry(_build_record(matter, slug, body), len(_bom_of(text)), len(text), 1)
    return KnowledgeDocument(text, (entry,), markdown.sort_problems(problems), slug, matter)


class _Body(NamedTuple):
    """A body without its first and last line endings, which are kept in `above` and `below`."""

    above: str
    text: str
    below: str


def _split_body(body: str) -> _Body:
    above = ""
    if body.startswith(("\n", "\r\n")):
        above = body[: body.index("\n") + 1]
    text = body[len(above) :]
    below = ""
    if text.endswith("\r\n"):
        below = "\r\n"
    elif text.endswith("\n"):
        below = "\n"
    return _Body(above, text.removesuffix(below), below)


def _build_record(matter: FrontMatter, slug: str, body: str) -> Record:
    kind_key = matter.kind_key()
    extra: dict[str, object] = {}
    status = Status.ACCEPTED
    for name, field in matter.fields.items():
        if name == "feature" and not isinstance(field.value, tuple | Mapping):
            if _scalar_text(field):
                extra["feature"] = field.source
        elif name == _STATUS and matter.text(name).lower() == Status.RETIRED.value:
            status = Status.RETIRED
        elif name not in _RECORD_KEYS and (not kind_key or name != kind_key):
            extra[name] = _plain_value(field)
    return Record(
        id=f"know-{slug}",
        kind=kind_of(matter.text(kind_key)) or MemoryKind.CONTEXT,
        text=body,
        label=matter.text(kind_key) if kind_key else KNOWLEDGE_LABEL,
        title=matter.text("title"),
        tags=matter.tags(),
        status=status,
        created_at=matter.text("created_at"),
        updated_at=matter.text("updated_at"),
        links=_links(body),
        extra=extra,
    )


def render_knowledge(record: Record) -> str:
    """Render a record as a file. Raises Refused if it cannot be stored in one."""
    expected = normalise_entry(record, "")
    fields = [f"{write_field(name, value)}\n" for name, value in _field_values(expected).items()]
    return f"---\n{''.join(fields)}---\n\n{expected.text}\n"


def _field_values(record: Record) -> dict[str, object]:
    """Return a record's fields in the order in which a new file lists them."""
    values: dict[str, object] = {"title": record.title, "tags": record.tags}
    if record.label != KNOWLEDGE_LABEL or record.kind is not MemoryKind.CONTEXT:
        values["kind"] = record.label
    extra = dict(record.extra)
    feature = extra.pop("feature", None)
    if feature:
        values["feature"] = feature
    if record.created_at:
        values["created_at"] = record.created_at
    if record.updated_at:
        values["updated_at"] = record.updated_at
    if record.status is Status.RETIRED:
        values[_STATUS] = record.status.value
    return {**values, **extra}


def normalise_entry(record: Record, slug: str) -> Record:
    """Return a record in the form in which a knowledge file can store it.

    Raises Refused if it is not a memory, or lacks a title, tags or text.
    """
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is not a memory", hint="only memories can be knowledge")
    title = " ".join(record.title.split())
    tags = clean_tags(record.tags)
    if not title or not tags:
        raise Refused("a knowledge entry needs a title and at least one tag", hint="give it both")
    text = markdown.check_text(record.text, "entry")
    label = _normalise_label(record)
    extra = {name: value for name, value in record.extra.items() if name not in _RECORD_KEYS}
    if label != KNOWLEDGE_LABEL:
        extra.pop("kind", None)
    if not extra.get("feature"):
        extra.pop("feature", None)
    status = Status.ACCEPTED
    if record.status is Status.RETIRED:
        status = Status.RETIRED
        extra.pop(_STATUS, None)
    return Record(
        id=f"know-{slug}",
        kind=record.kind,
        text=text,
        label=label,
        title=title,
        tags=tags,
        status=status,
        created_at=record.created_at.strip(),
        updated_at=record.updated_at.strip(),
        links=_links(text),
        extra=extra,
    )


def _normalise_label(record: Record) -> str:
    label: str = record.kind.value
    if kind_of(record.label) is record.kind:
        label = " ".join(record.label.split())
    if label == MemoryKind.CONTEXT.value and record.label != label:
        return KNOWLEDGE_LABEL
    return label


# --- titles, tags and slugs --------------------------------------------------------------------


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Lowercase tags, and remove duplicates and empty tags."""
    cleaned = [" ".join(tag.lower().split()) for tag in tags]
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def fold_title(title: str) -> str:
    """Normalise case and whitespace in a title, for comparing links."""
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def slug_for(title: str, taken: Mapping[str, str]) -> str:
    """Return the slug that names a new entry's file. `taken` maps existing slugs to titles."""
    title = unicodedata.normalize("NFC", title)
    encoded = ids.slug(title).encode("utf-8")[:_MAX_SLUG_BYTES]
    base = encoded.decode("utf-8", "ignore").strip("-") or ids.derived("entry", title)
    slug = base
    number = 1
    while slug in taken and fold_title(taken[slug]) != fold_title(title):
        number += 1
        suffix = f"-{number}"
        slug = base[: _MAX_SLUG - len(suffix)].rstrip("-") + suffix
    return slug


def same_entry(title_a: str, tags_a: Iterable[str], title_b: str, tags_b: Iterable[str]) -> bool:
    """Return whether two entries have equal titles, or similar titles and most tags in common."""
    shorter, longer = sorted((fold_title(title_a), fold_title(title_b)), key=len)
    if shorter == longer:
        return True
    first_tags = set(clean_tags(tags_a))
    second_tags = set(clean_tags(tags_b))
    if not first_tags or not second_tags:
        return False
    common = len(first_tags & second_tags)
    if 2 * common <= min(len(first_tags), len(second_tags)):
        return False
    is_distinctive = len(shorter) >= _MIN_SUBSTRING_TITLE or len(shorter.split()) >= 2
    return shorter in longer and is_distinctive


# --- bodies ------------------------------------------------------------------------------------


def shorten(body: str, words: int = _MAX_WORDS) -> str:
    """Shorten a body to at most `words` words, cutting between two blocks if possible."""
    if len(body.rstrip().removesuffix(TRUNCATED).split()) <= words:
        return body
    newline = markdown.newline_of(body)
    return f"{_cut_body(body, words, newline)}{newline}{newline}{TRUNCATED}"


def _cut_body(body: str, words: int, newline: str) -> str:
    total = 0
    block_end = 0
    line_end = 0
    closer = ""  # closes the fence or comment that is open at `line_end`
    for line in markdown.scan_lines(body):
        total += len(line.text.split())
        if total > words:
            break
        if line.blank:
            if total and not line.closer:
                block_end = line.start
            continue
        needed = total
        if line.closer:
            needed += 1  # the closer counts as a word
        if needed <= words:
            line_end = line.start + len(line.text)
            closer = line.closer
    if block_end:
        return body[:block_end].rstrip()
    if line_end and closer:
        return body[:line_end] + newline + closer
    if line_end:
        return body[:line_end]
    first_words = list(itertools.islice(re.finditer(r"\S+", body), max(words, 1)))
    return body[: first_words[-1].end()]


def links_in(body: str) -> tuple[str, ...]:
    """Return the titles in `[[...]]` links outside code and comments, without duplicates."""
    if "[[" not in body:
        return ()
    titles: dict[str, str] = {}
    for line in markdown.scan_lines(body):
        if not line.is_markdown or "[[" not in line.text:
            continue
        for link in _LINK.findall(_without_code(line.text)):
            title = " ".join(link.split())
            if title:
                titles.setdefault(title.casefold(), title)
    return tuple(titles.values())


def _without_code(line: str) -> str:
    """Replace each code span in a line by a backtick."""
    pieces: list[str] = []
    copied_to = 0
    for start, end in code_spans(line):
        pieces.append(line[copied_to:start])
        copied_to = end
    pieces.append(line[copied_to:])
    return "`".join(pieces)


def code_spans(line: str) -> list[tuple[int, int]]:
    """Return the spans of inline code.

    A span extends from a run of backticks to the next run of the same length.
    """
    runs = list(re.finditer(r"`+", line))
    numbers_by_length: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        numbers_by_length.setdefault(len(run[0]), []).append(number)
    spans: list[tuple[int, int]] = []
    number = 0
    while number < len(runs):
        opening = runs[number]
        alike = numbers_by_length[len(opening[0])]
        following = bisect_right(alike, number)
        if following < len(alike):
            number = alike[following]
            spans.append((opening.start(), runs[number].end()))
        number += 1
    return spans


def _links(body: str) -> tuple[Link, ...]:
    return tuple(Link("links_to", title) for title in links_in(body))
