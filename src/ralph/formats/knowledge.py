"""The codec for knowledge/*.md files, which have YAML front matter and a Markdown body.

    ---
    title: Running the tests
    tags: [tests, ci]
    ---

    Run `make gen` first. See also [[Release steps]].

A file has one entry, whose id is derived from the file name. An edit changes only the lines of the
fields that differ (`front_matter`), and the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core import documents
from ralph.core import text as markdown
from ralph.core.documents import Entry, Problem, TextDocument
from ralph.core.errors import Conflict, Refused
from ralph.core.record import Link, MemoryKind, Record, Status, kind_of
from ralph.core.text import BOM
from ralph.formats.front_matter import (
    FrontMatter,
    FrontMatterFault,
    bom_of,
    change_fields,
    plain_value,
    read_front_matter,
    scalar_text,
    write_field,
)
from ralph.formats.knowledge_text import clean_tags, links_in

KNOWLEDGE_LABEL = "knowledge"

_STATUS = "status"  # ours only if its value is `retired`
_RECORD_KEYS = frozenset({"title", "tags", "created_at", "updated_at"})


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
        text = bom_of(self.text) + render_knowledge(record)
        return self._checked(text, normalise_entry(record, self.slug))

    def replace(self, record_id: str, record: Record) -> KnowledgeDocument:
        """Return a copy of the file in which the fields that differ, and the body, are updated.

        Raises NotFound if there is no such entry, and Refused if the record cannot be stored.
        """
        old = documents.find_entry(self.entries, record_id).record
        expected = normalise_entry(record, self.slug)
        if self.matter is None or expected == old:
            return self
        text = self.text
        if expected.text != old.text:
            text = self._with_body(self.matter.body_start, expected.text)
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
        text = change_fields(text, self.matter, values=written, removed=removed, newline=newline)
        return self._checked(text, expected)

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
        documents.find_entry(self.entries, record_id)
        return parse_knowledge(bom_of(self.text), self.slug)

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
    body = _split_body(text[matter.body_start :]).text.replace("\r\n", "\n")
    problems = list(matter.problems)
    if not body.strip():
        problems.append(
            Problem(1, "the entry has no text", "write it below the front matter", code="no-text")
        )
    lines_above = text.count("\n", 0, matter.body_start)
    for line in markdown.scan_lines(text[matter.body_start :]):
        problem = markdown.line_problem(line)
        if problem is not None:
            problems.append(problem._replace(line=problem.line + lines_above))
    entry = Entry(_build_record(matter, slug, body), len(bom_of(text)), len(text), 1)
    return KnowledgeDocument(text, (entry,), documents.sort_problems(problems), slug, matter)


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
            if scalar_text(field):
                extra["feature"] = field.source
        elif name == _STATUS and matter.text(name).lower() == Status.RETIRED.value:
            status = Status.RETIRED
        elif name not in _RECORD_KEYS and (not kind_key or name != kind_key):
            extra[name] = plain_value(field)
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


def _links(body: str) -> tuple[Link, ...]:
    return tuple(Link("links_to", title) for title in links_in(body))
