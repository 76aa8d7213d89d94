"""Codec of knowledge/*.md: YAML front matter and a markdown body.

Edits change only the lines of the fields that differ; unknown keys, comments and order stay. YAML
is composed, not loaded, because the positions of the values are needed to splice them.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ralph.errors import Conflict, Refused
from ralph.formats.text import BOM, Entry, Problem, check_text, find_entry, line_problem, newline_of, scan_lines
from ralph.model import ids
from ralph.model.record import Link, MemoryKind, Record, Status, kind_of

MAX_FRONT_MATTER = 16_384
"""Front matter is a few lines; a larger one is an accident, and parsing YAML is not always linear."""

_MAX_DEPTH = 20
_MAX_MARKS = 500  # brackets in all, list marks in a line: the C parser recurses into them without a check
_CLOSING_LINE = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9]*(?:[-_/.][a-z0-9]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNPRINTABLE = re.compile(
    "[^\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)
_TAG = "tag:yaml.org,2002:"
_NULL = _TAG + "null"


@dataclass(frozen=True, slots=True)
class FrontMatterFlaw:
    """Why a text has no front matter that can be read, and at which line."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class FrontMatterField:
    """One key: its value, the words as they were written, and where they stand in the text."""

    name: str
    value: object
    raw: str | None
    """A scalar's words; None for null, lists and mappings."""
    items: tuple[str, ...] | None
    """A list's scalars in their own words; None when the value is no list."""
    line_start: int
    start: int
    end: int
    column: int
    """The column of a block list's dashes; -1 for every other value."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields, and where the front matter and the body stand."""

    fields: tuple[FrontMatterField, ...]
    duplicates: tuple[tuple[str, int], ...]
    """Keys that occur twice, with the line of the last one, which counts."""
    end: int
    body: int

    def get(self, name: str) -> FrontMatterField | None:
        """The field of that name."""
        return next((field for field in self.fields if field.name == name), None)


def read_front_matter(text: str) -> FrontMatter | FrontMatterFlaw:
    """The front matter at the top of a text, or why there is none."""
    begin = len(BOM) if text.startswith(BOM) else 0
    opening = text.find("\n", begin)
    if text[begin : begin + 3] != "---" or text[begin : max(opening, 0)].rstrip("\r") != "---":
        return FrontMatterFlaw(1, "the first line must be `---`, the start of the front matter")
    closing = _CLOSING_LINE.search(text, opening + 1)
    if closing is None:
        return FrontMatterFlaw(1, "the front matter is not closed by a line `---`")
    if closing.start() - opening > MAX_FRONT_MATTER:
        return FrontMatterFlaw(1, f"the front matter is larger than {MAX_FRONT_MATTER} characters")
    front = text[opening + 1 : closing.start()]
    import yaml  # noqa: PLC0415 - loading PyYAML takes longer than most commands

    try:
        marks = [sum(line.count(mark) for mark in ("- ", "? ", "-\t", "?\t")) for line in front.split("\n")]
        if max(front.count("[") + front.count("{"), *marks) > _MAX_MARKS:
            raise ValueError("it is nested too deeply")
        root = yaml.compose(front, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        fields = _read_fields(root, front, opening + 1)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.index if error.problem_mark is not None else 0
        return FrontMatterFlaw(_line(text, opening + 1 + at), f"this is not YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        return FrontMatterFlaw(_line(text, opening + 1 + error.position), "a character that YAML does not allow")
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        return FrontMatterFlaw(2, f"this front matter cannot be read: {str(error)[:80]}")
    last = {field.name: field for field in fields}
    duplicates = [field.name for field in fields if last[field.name] is not field]
    lines = tuple((name, _line(text, last[name].start)) for name in duplicates)
    return FrontMatter(tuple(last.values()), lines, closing.start(), closing.end())


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, min(at, len(text))) + 1


def _read_fields(root: Any, front: str, offset: int) -> list[FrontMatterField]:
    if root is None or root.id != "mapping":
        raise ValueError("it is not a list of `key: value` lines")
    fields = []
    visited: set[int] = set()
    for key, node in root.value:
        value = _node_value(node, visited, 0)
        if key.id != "scalar":
            continue
        items = None
        if node.id == "sequence":
            items = tuple(item.value for item in node.value if item.id == "scalar" and item.tag != _NULL)
        fields.append(
            FrontMatterField(
                key.value,
                value,
                node.value if node.id == "scalar" and value is not None else None,
                items,
                offset + front.rfind("\n", 0, key.start_mark.index) + 1,
                offset + node.start_mark.index,
                offset + _node_end(node, front),
                node.start_mark.column if items is not None and not node.flow_style else -1,
            )
        )
    return fields


def _node_value(node: Any, visited: set[int], depth: int) -> object:
    """A node as plain values; ValueError for aliases, which can grow without bound, and for deep nesting."""
    if id(node) in visited or depth > _MAX_DEPTH:
        raise ValueError("YAML aliases and deep nesting are not read here")
    visited.add(id(node))
    if node.id == "sequence":
        return [_node_value(item, visited, depth + 1) for item in node.value]
    if node.id == "mapping":
        return {
            str(_node_value(key, visited, depth + 1)): _node_value(item, visited, depth + 1) for key, item in node.value
        }
    return _scalar_value(str(node.tag).removeprefix(_TAG), str(node.value))


def _scalar_value(tag: str, words: str) -> object:
    """A scalar's value: a number only where writing it again gives the same characters."""
    if tag == "null":
        return None
    if tag == "bool":
        return words.lower() in ("true", "yes", "on")
    if tag == "int" and re.fullmatch(r"-?[0-9]{1,18}", words) and str(int(words)) == words:
        return int(words)
    if tag == "float" and re.fullmatch(r"-?[0-9]+\.[0-9]+(?:e[-+][0-9]+)?", words):
        number = float(words)
        return number if math.isfinite(number) and _write_float(number) == words else words
    return words


def _node_end(node: Any, front: str) -> int:
    """Where a value's own characters end; YAML counts the comments below a block as part of it."""
    if node.id == "scalar":
        return len(front[: node.end_mark.index].rstrip()) if node.style in ("|", ">") else int(node.end_mark.index)
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _node_end(last[1] if node.id == "mapping" else last, front)


def change_fields(
    text: str, matter: FrontMatter, values: Mapping[str, object], removed: Iterable[str], newline: str
) -> str:
    """The text with other values in its front matter and without some keys; a new key goes to the end."""
    fields = [field for field in map(matter.get, removed) if field is not None]
    edits = [(field.line_start, text.find("\n", field.end) + 1, "") for field in fields]
    new = [write_field(name, value) + newline for name, value in values.items() if matter.get(name) is None]
    edits.append((matter.end, matter.end, "".join(new)))
    for name, value in values.items():
        field = matter.get(name)
        if field is None:
            continue
        if field.column >= 0 and isinstance(value, tuple):
            written = f"{newline}{' ' * field.column}".join(f"- {write_tag(str(item))}" for item in value)
        else:
            written = write_value(value)
        edits.append((field.start, field.end, written if text[field.start - 1] in " \t\n" else f" {written}"))
    for start, end, written in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + written + text[end:]
    return text


def write_field(name: str, value: object) -> str:
    """One line `key: value`."""
    unquoted = _PLAIN_KEY.fullmatch(name) and name.lower() not in _RESERVED
    return f"{name if unquoted else write_value(name)}: {write_value(value)}"


def write_tag(tag: str) -> str:
    """A tag, quoted only where a YAML reader could take it for something else."""
    return tag if _PLAIN_TAG.fullmatch(tag) and tag not in _RESERVED else write_value(tag)


def write_value(value: object) -> str:
    """A value on one line; a tuple holds tags."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return _write_float(value)
    if isinstance(value, tuple):
        return f"[{', '.join(write_tag(str(item)) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_quote(str(key))}: {write_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(write_value(item) for item in value)}]"
    raise Refused(f"front matter cannot hold {value!r}", hint="use words, numbers, lists or mappings")


def _write_float(value: float) -> str:
    words = repr(value)
    return words if "." in words else words.replace("e", ".0e")


def _quote(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" or char == "\x00" for char in text):
        raise Refused(
            "the front matter would hold a character that YAML cannot: NUL or half of a surrogate pair",
            hint="remove it from the title, the tags or the other values",
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


KNOWLEDGE_LABEL = "knowledge"
TRUNCATED = "[truncated]"
_KIND_KEYS = ("kind", "type")
_STATUS = "status"
"""Somebody's own key, unless it says `retired`: then the entry is kept and no longer offered."""
_RECORD_KEYS = frozenset({"title", "tags", "created_at", "updated_at"})
_LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_TICKS = re.compile(r"`+")
_LONGEST_NAME = 240  # bytes, so that the file's name with `.md` and a suffix fits everywhere


@dataclass(frozen=True, slots=True)
class KnowledgeDocument:
    """A parsed knowledge file: one entry or none."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    slug: str
    matter: FrontMatter | None

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "KnowledgeDocument":
        """The file with its entry; Conflict when something stands in it already."""
        if self.text.strip(BOM + " \t\r\n"):
            raise Conflict(
                "a knowledge file holds one entry, and this one is not empty",
                hint="write the entry to a file of its own, or replace this one",
            )
        return self._checked(
            self.text[: self.text.startswith(BOM)] + render_knowledge(record), normalise_entry(record, self.slug)
        )

    def replace(self, record_id: str, record: Record) -> "KnowledgeDocument":
        """The file with the values and the body that differ written anew."""
        old = find_entry(self.entries, record_id).record
        expected = normalise_entry(record, self.slug)
        text, newline = self.text, newline_of(self.text)
        if self.matter is None or expected == old:
            return self
        if expected.text != old.text:
            text = text[: self.matter.body] + self._body(expected.text, newline)
        before, after = _field_values(old), _field_values(expected)
        key = next((name for name in _KIND_KEYS if _kind_field(self.matter, name)), "kind")
        written = {
            key if name == "kind" else name: value
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        removed = [key if name == "kind" else name for name in before if name not in after]
        return self._checked(change_fields(text, self.matter, written, removed, newline), expected)

    def remove(self, record_id: str) -> "KnowledgeDocument":
        """The empty file; a byte order mark stays."""
        find_entry(self.entries, record_id)
        return parse_knowledge(self.text[: self.text.startswith(BOM)], self.slug)

    def _body(self, words: str, newline: str) -> str:
        """A new body between the old one's blank line above and its line end below."""
        begin = self.matter.body if self.matter is not None else 0
        above, _, below = _split(self.text[begin:])
        if not self.text[:begin].endswith("\n"):
            above, below = newline * 2, newline
        elif not above and words.startswith("\n"):
            above = newline
        if not below and words.endswith("\n"):
            below = newline
        return above + words.replace("\n", newline) + below

    def _checked(self, text: str, expected: Record) -> "KnowledgeDocument":
        after = parse_knowledge(text, self.slug)
        if [entry.record for entry in after.entries] != [expected]:
            raise Refused(
                "this entry cannot be written so that it reads back the same",
                hint="look for odd characters in its title, tags and text",
            )
        return after


def parse_knowledge(text: str, slug: str = "") -> KnowledgeDocument:
    """Read a knowledge file; `slug` is its name without `.md`."""
    matter = read_front_matter(text)
    if isinstance(matter, FrontMatterFlaw):
        return _no_entry(text, slug, matter.line, matter.what, "bad-front-matter")
    title = _text_field(matter, "title")
    if not title:
        return _no_entry(text, slug, _line_of(text, matter, "title"), "the entry has no `title`", "no-title")
    tags = _tags_field(matter)
    if not tags:
        return _no_entry(text, slug, _line_of(text, matter, "tags"), "the entry has no `tags`", "no-tags")
    body = _split(text[matter.body :])[1].replace("\r\n", "\n")
    start = len(BOM) if text.startswith(BOM) else 0
    record = _build_record(matter, slug, title, tags, body)
    problems = tuple(sorted(_problems(text, matter, body), key=lambda problem: problem.line))
    return KnowledgeDocument(text, (Entry(record, start, len(text), 1),), problems, slug, matter)


def render_knowledge(record: Record) -> str:
    """A record as a file."""
    expected = normalise_entry(record, "")
    front = "".join(f"{write_field(name, value)}\n" for name, value in _field_values(expected).items())
    return f"---\n{front}---\n\n{expected.text}\n"


def normalise_entry(record: Record, slug: str) -> Record:
    """What is left of a record in a knowledge file; Refused when it lacks a title, a tag or words."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories are knowledge")
    title = " ".join(record.title.split())
    tags = clean_tags(record.tags)
    if not title or not tags:
        raise Refused("a knowledge entry needs a title and at least one tag", hint="give it both")
    text = check_text(record.text, "entry")
    label = " ".join(record.label.split()) if kind_of(record.label) is record.kind else record.kind.value
    if label == MemoryKind.CONTEXT.value and record.label != label:
        label = KNOWLEDGE_LABEL
    extra = {name: value for name, value in record.extra.items() if name not in _RECORD_KEYS}
    if label != KNOWLEDGE_LABEL:
        extra.pop("kind", None)
    if not extra.get("feature"):
        extra.pop("feature", None)
    if record.status is Status.RETIRED:
        extra.pop(_STATUS, None)
    return Record(
        id=f"know-{slug}",
        kind=record.kind,
        text=text,
        label=label,
        title=title,
        tags=tags,
        status=record.status if record.status is Status.RETIRED else Status.ACCEPTED,
        created_at=record.created_at.strip(),
        updated_at=record.updated_at.strip(),
        links=_links(text),
        extra=extra,
    )


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags in lowercase, each once, none empty."""
    return tuple(dict.fromkeys(filter(None, (" ".join(tag.lower().split()) for tag in tags))))


def slug_for(title: str, taken: Mapping[str, str]) -> str:
    """The name of a new entry's file; `taken` says which title each slug in use belongs to."""
    title = unicodedata.normalize("NFC", title)
    plain = _fit_file_name(ids.slug(title)) or ids.derived("entry", title)
    slug, number = plain, 1
    while slug in taken and _fold_title(taken[slug]) != _fold_title(title):
        number += 1
        suffix = f"-{number}"
        slug = plain[: 80 - len(suffix)].rstrip("-") + suffix
    return slug


def same_entry(title_a: str, tags_a: Iterable[str], title_b: str, tags_b: Iterable[str]) -> bool:
    """Whether two entries are about the same: equal titles, or one within the other and most tags shared."""
    one, other = sorted((_fold_title(title_a), _fold_title(title_b)), key=len)
    if one == other:
        return True
    first, second = set(clean_tags(tags_a)), set(clean_tags(tags_b))
    if not first or not second or 2 * len(first & second) <= min(len(first), len(second)):
        return False
    return one in other and (len(one) >= 8 or len(one.split()) >= 2)


def shorten(body: str, words: int = 500) -> str:
    """A body of at most so many words, cut between two blocks where that is possible."""
    counted = body.rstrip().removesuffix(TRUNCATED)
    if len(counted.split()) <= words:
        return body
    total = block_end = line_end = 0
    closer = ""
    for line in scan_lines(body):
        total += len(line.text.split())
        if total > words:
            break
        if line.blank and not line.closer and total:
            block_end = line.start
        if not line.blank and total + bool(line.closer) <= words:
            line_end, closer = line.start + len(line.text), line.closer
    newline = newline_of(body)
    if block_end:
        result = body[:block_end].rstrip()
    elif line_end:
        result = body[:line_end] + (newline + closer if closer else "")
    else:
        matches = islice(re.finditer(r"\S+", body), max(words, 1))
        result = body[: max(match.end() for match in matches)]
    return f"{result}{newline}{newline}{TRUNCATED}"


def links_in(body: str) -> tuple[str, ...]:
    """The titles in `[[...]]`, each once, in order; not those in code or comments."""
    titles: dict[str, str] = {}
    for line in scan_lines(body) if "[[" in body else ():
        if line.is_markdown and "[[" in line.text:
            for link in _LINK.findall(_without_code(line.text)):
                title = " ".join(link.split())
                if title:
                    titles.setdefault(title.casefold(), title)
    return tuple(titles.values())


def code_spans(line: str) -> list[tuple[int, int]]:
    """Where inline code stands in a line: from a run of backticks to the next run of the same length."""
    runs = list(_TICKS.finditer(line))
    partner: list[int] = []
    next_of: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at].end() - runs[at].start()
        partner.append(next_of.get(length, -1))
        next_of[length] = at
    partner.reverse()
    spans, at = [], 0
    while at < len(runs):
        if partner[at] >= 0:
            spans.append((runs[at].start(), runs[partner[at]].end()))
            at = partner[at]
        at += 1
    return spans


def _without_code(line: str) -> str:
    """A line with its code spans blanked."""
    pieces, begin = [], 0
    for start, end in code_spans(line):
        pieces.append(line[begin:start])
        begin = end
    return "`".join([*pieces, line[begin:]])


def _links(body: str) -> tuple[Link, ...]:
    return tuple(Link("links_to", title) for title in links_in(body))


def _fold_title(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def _fit_file_name(slug: str) -> str:
    """A slug whose file name every file system takes."""
    return slug.encode("utf-8")[:_LONGEST_NAME].decode("utf-8", "ignore").strip("-")


def _split(body: str) -> tuple[str, str, str]:
    """The blank line above the words, the words, and the line end below them."""
    above = next((end for end in ("\n", "\r\n") if body.startswith(end)), "")
    words = body[len(above) :]
    below = next((end for end in ("\r\n", "\n") if words.endswith(end)), "")
    return above, words[: len(words) - len(below)], below


def _no_entry(text: str, slug: str, line: int, what: str, code: str) -> KnowledgeDocument:
    hint = "begin the file with `---`, a `title:` and `tags:`, and `---` again"
    return KnowledgeDocument(text, (), (Problem(line, what, hint, "error", code),), slug, None)


def _line_of(text: str, matter: FrontMatter, name: str) -> int:
    field = matter.get(name)
    return 1 if field is None else text.count("\n", 0, field.line_start) + 1


def _problems(text: str, matter: FrontMatter, body: str) -> Iterable[Problem]:
    for name, number in matter.duplicates:
        yield Problem(number, f"`{name}` occurs twice; the last one counts", "delete one", code="duplicate-key")
    if not body.strip():
        yield Problem(1, "the entry has no text", "write below the front matter what is known", code="no-text")
    above = text.count("\n", 0, matter.body)
    for line in scan_lines(text[matter.body :]):
        problem = line_problem(line)
        if problem is not None:
            yield replace(problem, line=problem.line + above)


def _kind_field(matter: FrontMatter, name: str) -> MemoryKind | None:
    field = matter.get(name)
    return kind_of(field.raw) if field is not None and field.raw is not None else None


def _text_field(matter: FrontMatter, name: str) -> str:
    field = matter.get(name)
    return " ".join(field.raw.split()) if field is not None and field.raw is not None else ""


def _tags_field(matter: FrontMatter) -> tuple[str, ...]:
    field = matter.get("tags")
    if field is None:
        return ()
    return clean_tags(field.items if field.items is not None else (field.raw or "").split(","))


def _build_record(matter: FrontMatter, slug: str, title: str, tags: tuple[str, ...], body: str) -> Record:
    named = next((name for name in _KIND_KEYS if _kind_field(matter, name)), None)
    extra: dict[str, object] = {}
    retired = False
    for field in matter.fields:
        if field.name == "feature" and not isinstance(field.value, list | dict):
            if field.raw:
                extra["feature"] = field.raw
        elif field.name == _STATUS and (field.raw or "").strip().lower() == Status.RETIRED.value:
            retired = True
        elif field.name not in _RECORD_KEYS and field.name != named:
            extra[field.name] = field.value
    return Record(
        id=f"know-{slug}",
        kind=(_kind_field(matter, named) if named else None) or MemoryKind.CONTEXT,
        text=body,
        label=_text_field(matter, named) if named else KNOWLEDGE_LABEL,
        title=title,
        tags=tags,
        status=Status.RETIRED if retired else Status.ACCEPTED,
        created_at=_text_field(matter, "created_at"),
        updated_at=_text_field(matter, "updated_at"),
        links=_links(body),
        extra=extra,
    )


def _field_values(record: Record) -> dict[str, object]:
    """The front matter of a record, in the order in which a new file has it."""
    values: dict[str, object] = {"title": record.title, "tags": record.tags}
    if record.label != KNOWLEDGE_LABEL or record.kind is not MemoryKind.CONTEXT:
        values["kind"] = record.label
    extra = dict(record.extra)
    feature = extra.pop("feature", None)
    for name, value in (
        ("feature", feature),
        ("created_at", record.created_at),
        ("updated_at", record.updated_at),
    ):
        if value:
            values[name] = value
    if record.status is Status.RETIRED:
        values[_STATUS] = record.status.value
    return {**values, **extra}
