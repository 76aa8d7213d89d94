"""Codec of knowledge/*.md: YAML front matter and a markdown body.

Edits change only the lines of the fields that differ: YAML is composed, not loaded, for the positions of the values.
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

from ralph.errors import Conflict, Refused
from ralph.formats import text as markdown
from ralph.formats.config_files import ConfigNode, YamlError, read_yaml
from ralph.formats.text import BOM, Entry, Problem, TextDocument
from ralph.model import ids
from ralph.model.record import Link, MemoryKind, Record, Status, kind_of

KNOWLEDGE_LABEL = "knowledge"
TRUNCATED = "[truncated]"

_MAX_FRONT_MATTER = (
    16_384  # characters: a larger one is an accident, and parsing YAML is not always linear
)
_CLOSING_LINE = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9]*(?:[-_/.][a-z0-9]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_STATUS = "status"  # somebody's own key, unless its value is `retired`
_RECORD_KEYS = frozenset({"title", "tags", "created_at", "updated_at"})
_LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields with their positions, where it ends and where the body begins."""

    fields: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...]
    end: int
    body: int

    def text(self, name: str) -> str:
        """The text of a scalar on one line, or ""."""
        return " ".join(_scalar_text(self.fields.get(name)).split())

    def kind_key(self) -> str:
        """The key that names a kind of memory, or ""."""
        return next((name for name in ("kind", "type") if kind_of(self.text(name)) is not None), "")

    def tags(self) -> tuple[str, ...]:
        """The tags, from a list or a text with commas."""
        if (field := self.fields.get("tags")) is not None and isinstance(field.value, tuple):
            return clean_tags(_scalar_text(item) for item in field.value)
        return clean_tags(_scalar_text(field).split(","))


def _scalar_text(node: ConfigNode | None) -> str:
    if node is None or node.value is None or isinstance(node.value, tuple | Mapping):
        return ""
    return node.source


def read_front_matter(text: str) -> FrontMatter | tuple[int, str]:
    """Return the front matter, or the line and what is wrong there."""
    begin = len(BOM) if text.startswith(BOM) else 0
    opening = text.find("\n", begin)
    if text[begin : begin + 3] != "---" or text[begin : max(opening, 0)].rstrip("\r") != "---":
        return (1, "the first line must be `---`, the start of the front matter")
    if (closing := _CLOSING_LINE.search(text, opening + 1)) is None:
        return (1, "the front matter is not closed by a line `---`")
    if closing.start() - opening > _MAX_FRONT_MATTER:
        return (1, f"the front matter is larger than {_MAX_FRONT_MATTER} characters")
    front = text[opening : closing.start()]
    try:
        root, problems = read_yaml(
            "#" * opening + front
        )  # a comment of that length keeps every position
        if not isinstance(root.value, Mapping):
            raise YamlError(2, "it is not a list of `key: value` lines")
    except YamlError as error:
        return (error.line, f"this front matter cannot be read: {error}")
    return FrontMatter(root.value, tuple(problems), closing.start(), closing.end())


def _plain_value(node: ConfigNode) -> object:
    """A number only where writing it again gives the same characters."""
    if isinstance(node.value, Mapping):
        return {name: _plain_value(item) for name, item in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain_value(item) for item in node.value]
    if node.value is None or isinstance(node.value, bool) or node.style != "plain":
        return node.value
    with suppress(ValueError):
        number = json.loads(node.source)
        if (
            isinstance(number, int | float)
            and math.isfinite(number)
            and json.dumps(number) == node.source
        ):
            return number
    return node.source


def _change_fields(
    text: str,
    matter: FrontMatter,
    values: Mapping[str, object],
    removed: Iterable[str],
    newline: str,
) -> str:
    edits = []
    for name in removed:
        if (field := matter.fields.get(name)) is not None:
            edits.append(
                (
                    text.rfind("\n", 0, field.key_start) + 1,
                    text.find("\n", _value_end(text, field)) + 1,
                    "",
                )
            )
    new = [
        write_field(name, value) + newline
        for name, value in values.items()
        if name not in matter.fields
    ]
    edits.append((matter.end, matter.end, "".join(new)))
    for name, value in values.items():
        if (field := matter.fields.get(name)) is None:
            continue
        if isinstance(field.value, tuple) and field.style == "block" and isinstance(value, tuple):
            column = field.start - text.rfind("\n", 0, field.start) - 1
            written = f"{newline}{' ' * column}".join(
                f"- {_write_tag(str(item))}" for item in value
            )
        else:
            written = _write_value(value)
        space = "" if text[field.start - 1] in " \t\n" else " "
        edits.append((field.start, _value_end(text, field), space + written))
    for start, end, written in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _value_end(text: str, field: ConfigNode) -> int:
    """YAML counts the blank lines below a block scalar as part of it."""
    return len(text[: field.end].rstrip()) if field.style == "literal" else field.end


def write_field(name: str, value: object) -> str:
    """Return a line of front matter."""
    unquoted = _PLAIN_KEY.fullmatch(name) and name.lower() not in _RESERVED
    return f"{name if unquoted else _write_value(name)}: {_write_value(value)}"


def _write_tag(tag: str) -> str:
    return tag if _PLAIN_TAG.fullmatch(tag) and tag not in _RESERVED else _write_value(tag)


def _write_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_write_tag(str(item)) for item in value)}]"
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "use texts, numbers, lists or mappings"
        raise Refused(f"front matter cannot hold {value!r:.60}", hint=hint) from error
    if "\\u0000" in text.replace("\\\\", "") or any("\ud800" <= char <= "\udfff" for char in text):
        what = "the front matter would hold a character that YAML cannot: NUL or half of a surrogate pair"
        raise Refused(what, hint="remove it from the title, the tags or the other values")
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@dataclass(frozen=True, slots=True)
class KnowledgeDocument(TextDocument):
    """A parsed knowledge file: one entry or none."""

    slug: str
    matter: FrontMatter | None

    def add(self, record: Record) -> KnowledgeDocument:
        """The file with its entry; Conflict when it is not empty."""
        if self.text.strip(BOM + " \t\r\n"):
            hint = "write the entry to a file of its own, or replace this one"
            raise Conflict("a knowledge file holds one entry, and this one is not empty", hint=hint)
        text = self.text[: self.text.startswith(BOM)] + render_knowledge(record)
        return self._checked(text, normalise_entry(record, self.slug))

    def replace(self, record_id: str, record: Record) -> KnowledgeDocument:
        """The file with the values and the body that differ changed."""
        old = markdown.find_entry(self.entries, record_id).record
        expected = normalise_entry(record, self.slug)
        text = self.text
        newline = markdown.newline_of(self.text)
        if self.matter is None or expected == old:
            return self
        if expected.text != old.text:
            start = self.matter.body
            above, _, below = _split(text[start:])
            if not text[:start].endswith("\n"):
                above = newline * 2
                below = newline
            elif not above and expected.text.startswith("\n"):
                above = newline
            if not below and expected.text.endswith("\n"):
                below = newline
            text = text[:start] + above + expected.text.replace("\n", newline) + below
        before = _field_values(old)
        after = _field_values(expected)
        key = self.matter.kind_key() or "kind"
        written = {
            name: value
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        if "kind" in written:
            written[key] = written.pop("kind")
        removed = [key if name == "kind" else name for name in before if name not in after]
        return self._checked(_change_fields(text, self.matter, written, removed, newline), expected)

    def remove(self, record_id: str) -> KnowledgeDocument:
        """The empty file; a byte order mark stays."""
        markdown.find_entry(self.entries, record_id)
        return parse_knowledge(self.text[: self.text.startswith(BOM)], self.slug)

    def _checked(self, text: str, expected: Record) -> KnowledgeDocument:
        after = parse_knowledge(text, self.slug)
        if [entry.record for entry in after.entries] != [expected]:
            hint = "look for unusual characters in its title, tags and text"
            raise Refused("this entry cannot be written so that it reads back the same", hint=hint)
        return after


def parse_knowledge(text: str, slug: str = "") -> KnowledgeDocument:
    """Parse a knowledge file; `slug` is its name without `.md`."""

    def no_entry(line: int, what: str, code: str) -> KnowledgeDocument:
        hint = "begin the file with `---`, a `title:` and `tags:`, and `---` again"
        return KnowledgeDocument(text, (), (Problem(line, what, hint, "error", code),), slug, None)

    matter = read_front_matter(text)
    if isinstance(matter, tuple):
        return no_entry(*matter, "bad-front-matter")
    for name, value in (("title", matter.text("title")), ("tags", matter.tags())):
        if not value:
            line = matter.fields[name].line if name in matter.fields else 1
            return no_entry(line, f"the entry has no `{name}`", f"no-{name}")
    body = _split(text[matter.body :])[1].replace("\r\n", "\n")
    problems = list(matter.problems)
    if not body.strip():
        problems.append(
            Problem(1, "the entry has no text", "write it below the front matter", code="no-text")
        )
    above = text.count("\n", 0, matter.body)
    in_body = filter(None, map(markdown.line_problem, markdown.scan_lines(text[matter.body :])))
    problems += [replace(problem, line=problem.line + above) for problem in in_body]
    start = len(BOM) if text.startswith(BOM) else 0
    entry = Entry(_build_record(matter, slug, body), start, len(text), 1)
    return KnowledgeDocument(text, (entry,), markdown.sort_problems(problems), slug, matter)


def render_knowledge(record: Record) -> str:
    """A record as a file."""
    expected = normalise_entry(record, "")
    front = "".join(
        f"{write_field(name, value)}\n" for name, value in _field_values(expected).items()
    )
    return f"---\n{front}---\n\n{expected.text}\n"


def normalise_entry(record: Record, slug: str) -> Record:
    """A record as a knowledge file can hold it, or Refused."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories are knowledge")
    title = " ".join(record.title.split())
    tags = clean_tags(record.tags)
    if not title or not tags:
        raise Refused("a knowledge entry needs a title and at least one tag", hint="give it both")
    text = markdown.check_text(record.text, "entry")
    label = (
        " ".join(record.label.split())
        if kind_of(record.label) is record.kind
        else record.kind.value
    )
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
    """The name of a new entry's file; `taken` has titles by slug."""
    title = unicodedata.normalize("NFC", title)
    fitting = (
        ids.slug(title).encode("utf-8")[:240].decode("utf-8", "ignore").strip("-")
    )  # `.md` must fit, too
    base = fitting or ids.derived("entry", title)
    slug = base
    number = 1
    while slug in taken and fold_title(taken[slug]) != fold_title(title):
        number += 1
        suffix = f"-{number}"
        slug = base[: 80 - len(suffix)].rstrip("-") + suffix
    return slug


def same_entry(title_a: str, tags_a: Iterable[str], title_b: str, tags_b: Iterable[str]) -> bool:
    """Whether two entries have equal titles, or similar ones and most tags shared."""
    one, other = sorted((fold_title(title_a), fold_title(title_b)), key=len)
    if one == other:
        return True
    first = set(clean_tags(tags_a))
    second = set(clean_tags(tags_b))
    if not first or not second or 2 * len(first & second) <= min(len(first), len(second)):
        return False
    return one in other and (len(one) >= 8 or len(one.split()) >= 2)


def shorten(body: str, words: int = 500) -> str:
    """A body of at most so many words, cut between two blocks where possible."""
    counted = body.rstrip().removesuffix(TRUNCATED)
    if len(counted.split()) <= words:
        return body
    total = block_end = line_end = 0
    closer = ""
    for line in markdown.scan_lines(body):
        total += len(line.text.split())
        if total > words:
            break
        if line.blank and not line.closer and total:
            block_end = line.start
        if not line.blank and total + bool(line.closer) <= words:
            line_end = line.start + len(line.text)
            closer = line.closer
    newline = markdown.newline_of(body)
    if block_end:
        result = body[:block_end].rstrip()
    elif line_end:
        result = body[:line_end] + (newline + closer if closer else "")
    else:
        matches = itertools.islice(re.finditer(r"\S+", body), max(words, 1))
        result = body[: max(match.end() for match in matches)]
    return f"{result}{newline}{newline}{TRUNCATED}"


def links_in(body: str) -> tuple[str, ...]:
    """The titles in `[[...]]` outside code and comments, each once."""
    titles: dict[str, str] = {}
    for line in markdown.scan_lines(body) if "[[" in body else ():
        if line.is_markdown and "[[" in line.text:
            edges = [0, *itertools.chain.from_iterable(code_spans(line.text)), len(line.text)]
            outside_code = "`".join(
                line.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)
            )
            for link in _LINK.findall(outside_code):
                if title := " ".join(link.split()):
                    titles.setdefault(title.casefold(), title)
    return tuple(titles.values())


def code_spans(line: str) -> list[tuple[int, int]]:
    """The spans of inline code: from a run of backticks to the next of its length."""
    runs = [match.span() for match in re.finditer(r"`+", line)]
    by_length: dict[int, list[int]] = {}
    for number, (start, end) in enumerate(runs):
        by_length.setdefault(end - start, []).append(number)
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(runs):
        alike = by_length[runs[at][1] - runs[at][0]]
        after = bisect_right(alike, at)
        if after < len(alike):
            spans.append((runs[at][0], runs[alike[after]][1]))
            at = alike[after]
        at += 1
    return spans


def _links(body: str) -> tuple[Link, ...]:
    return tuple(Link("links_to", title) for title in links_in(body))


def fold_title(title: str) -> str:
    """A title as links are compared: in any case and spacing."""
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def _split(body: str) -> tuple[str, str, str]:
    above = next((end for end in ("\n", "\r\n") if body.startswith(end)), "")
    text = body[len(above) :]
    below = next((end for end in ("\r\n", "\n") if text.endswith(end)), "")
    return above, text[: len(text) - len(below)], below


def _build_record(matter: FrontMatter, slug: str, body: str) -> Record:
    key = matter.kind_key()
    extra: dict[str, object] = {}
    status = Status.ACCEPTED
    for name, field in matter.fields.items():
        if name == "feature" and not isinstance(field.value, tuple | Mapping):
            if _scalar_text(field):
                extra["feature"] = field.source
        elif name == _STATUS and matter.text(name).lower() == Status.RETIRED.value:
            status = Status.RETIRED
        elif name not in _RECORD_KEYS and (not key or name != key):
            extra[name] = _plain_value(field)
    return Record(
        id=f"know-{slug}",
        kind=kind_of(matter.text(key)) or MemoryKind.CONTEXT,
        text=body,
        label=matter.text(key) if key else KNOWLEDGE_LABEL,
        title=matter.text("title"),
        tags=matter.tags(),
        status=status,
        created_at=matter.text("created_at"),
        updated_at=matter.text("updated_at"),
        links=_links(body),
        extra=extra,
    )


def _field_values(record: Record) -> dict[str, object]:
    values: dict[str, object] = {"title": record.title, "tags": record.tags}
    if record.label != KNOWLEDGE_LABEL or record.kind is not MemoryKind.CONTEXT:
        values["kind"] = record.label
    extra = dict(record.extra)
    dated = {
        "feature": extra.pop("feature", None),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }
    values |= {name: value for name, value in dated.items() if value}
    if record.status is Status.RETIRED:
        values[_STATUS] = record.status.value
    return {**values, **extra}
