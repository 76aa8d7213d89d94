"""knowledge/*.md: one file is one entry, YAML front matter and a markdown body.

The id is `know-` and the file's slug, which the caller knows. `title` and at least one tag must
be there, or the file is no entry: it is kept and told as a Problem. `replace` changes the values
that differ and the body, nothing else. `[[Title]]` in the body is a link, unless it stands in
code. The rules for naming a file, for cutting a long body and for "this is the same entry"
are pure functions here, so that every writer uses the same ones.
Proved by `tests/formats/test_knowledge.py` and `tests/golden/knowledge`.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ralph.errors import Conflict, Refused
from ralph.formats import frontmatter
from ralph.formats.document import Entry, Problem, find, newline_of
from ralph.formats.frontmatter import Flaw, FrontMatter
from ralph.formats.lines import BOM, lines, oddity, writable
from ralph.model import ids
from ralph.model.record import Link, MemoryKind, Record, Status, kind_of

LABEL = "knowledge"
TRUNCATED = "[truncated]"
_KIND_KEYS = ("kind", "type")
_STATUS = "status"
"""Somebody's own key, unless it says `retired`: then the entry is kept and no longer offered."""
_OWN = frozenset({"title", "tags", "created_at", "updated_at"})
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
        return self._checked(_bom(self.text) + render(record), as_entry(record, self.slug))

    def replace(self, record_id: str, record: Record) -> "KnowledgeDocument":
        """The file with the values and the body that differ written anew."""
        old = find(self.entries, record_id).record
        wanted = as_entry(record, self.slug)
        text, newline = self.text, newline_of(self.text)
        if self.matter is None or wanted == old:
            return self
        if wanted.text != old.text:
            text = text[: self.matter.body] + self._body(wanted.text, newline)
        before, after = _values(old), _values(wanted)
        key = next((name for name in _KIND_KEYS if _known(self.matter, name)), "kind")
        written = {
            key if name == "kind" else name: value
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        removed = [key if name == "kind" else name for name in before if name not in after]
        return self._checked(frontmatter.changed(text, self.matter, written, removed, newline), wanted)

    def remove(self, record_id: str) -> "KnowledgeDocument":
        """The empty file; a byte order mark stays."""
        find(self.entries, record_id)
        return parse(_bom(self.text), self.slug)

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

    def _checked(self, text: str, wanted: Record) -> "KnowledgeDocument":
        after = parse(text, self.slug)
        if [entry.record for entry in after.entries] != [wanted]:
            raise Refused(
                "this entry cannot be written so that it reads back the same",
                hint="look for odd characters in its title, tags and text",
            )
        return after


def parse(text: str, slug: str = "") -> KnowledgeDocument:
    """Read a knowledge file; `slug` is its name without `.md`."""
    matter = frontmatter.read(text)
    if isinstance(matter, Flaw):
        return _no_entry(text, slug, matter.line, matter.what, "bad-front-matter")
    title = _words(matter, "title")
    if not title:
        return _no_entry(text, slug, _line_of(text, matter, "title"), "the entry has no `title`", "no-title")
    tags = _tags(matter)
    if not tags:
        return _no_entry(text, slug, _line_of(text, matter, "tags"), "the entry has no `tags`", "no-tags")
    body = _split(text[matter.body :])[1].replace("\r\n", "\n")
    start = len(_bom(text))
    record = _record(matter, slug, title, tags, body)
    problems = tuple(sorted(_problems(text, matter, body), key=lambda problem: problem.line))
    return KnowledgeDocument(text, (Entry(record, start, len(text), 1),), problems, slug, matter)


def render(record: Record) -> str:
    """A record as a file."""
    wanted = as_entry(record, "")
    front = "".join(f"{frontmatter.write_field(name, value)}\n" for name, value in _values(wanted).items())
    return f"---\n{front}---\n\n{wanted.text}\n"


def as_entry(record: Record, slug: str) -> Record:
    """What is left of a record in a knowledge file; Refused when it lacks a title, a tag or words."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories are knowledge")
    title = " ".join(record.title.split())
    tags = clean_tags(record.tags)
    if not title or not tags:
        raise Refused("a knowledge entry needs a title and at least one tag", hint="give it both")
    text = writable(record.text, "entry")
    label = " ".join(record.label.split()) if kind_of(record.label) is record.kind else record.kind.value
    if label == MemoryKind.CONTEXT.value and record.label != label:
        label = LABEL
    extra = {name: value for name, value in record.extra.items() if name not in _OWN}
    if label != LABEL:
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
    plain = _fitting(ids.slug(title)) or ids.derived("entry", title)
    slug, number = plain, 1
    while slug in taken and _folded(taken[slug]) != _folded(title):
        number += 1
        suffix = f"-{number}"
        slug = plain[: 80 - len(suffix)].rstrip("-") + suffix
    return slug


def same_entry(title_a: str, tags_a: Iterable[str], title_b: str, tags_b: Iterable[str]) -> bool:
    """Whether two entries are about the same: equal titles, or one within the other and most tags shared."""
    one, other = sorted((_folded(title_a), _folded(title_b)), key=len)
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
    for line in lines(body):
        total += len(line.text.split())
        if total > words:
            break
        if line.blank and not line.closer and total:
            block_end = line.start
        if not line.blank and total + bool(line.closer) <= words:
            line_end, closer = line.start + len(line.text), line.closer
    newline = newline_of(body)
    if block_end:
        kept = body[:block_end].rstrip()
    elif line_end:
        kept = body[:line_end] + (newline + closer if closer else "")
    else:
        kept = body[: [found.end() for found in _first_words(body, words)][-1]]
    return f"{kept}{newline}{newline}{TRUNCATED}"


def _first_words(body: str, count: int) -> list[re.Match[str]]:
    found = re.finditer(r"\S+", body)
    return [word for _, word in zip(range(max(count, 1)), found, strict=False)]


def links_in(body: str) -> tuple[str, ...]:
    """The titles in `[[...]]`, each once, in order; not those in code or comments."""
    titles: dict[str, str] = {}
    for line in lines(body) if "[[" in body else ():
        if line.plain and "[[" in line.text:
            for found in _LINK.findall(_without_code(line.text)):
                title = " ".join(found.split())
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
    out, begin = [], 0
    for start, end in code_spans(line):
        out.append(line[begin:start])
        begin = end
    return "`".join([*out, line[begin:]])


def _links(body: str) -> tuple[Link, ...]:
    return tuple(Link("links_to", title) for title in links_in(body))


def _folded(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def _fitting(slug: str) -> str:
    """A slug whose file name every file system takes."""
    return slug.encode("utf-8")[:_LONGEST_NAME].decode("utf-8", "ignore").strip("-")


def _split(body: str) -> tuple[str, str, str]:
    """The blank line above the words, the words, and the line end below them."""
    above = next((end for end in ("\n", "\r\n") if body.startswith(end)), "")
    words = body[len(above) :]
    below = next((end for end in ("\r\n", "\n") if words.endswith(end)), "")
    return above, words[: len(words) - len(below)], below


def _bom(text: str) -> str:
    return BOM if text.startswith(BOM) else ""


def _no_entry(text: str, slug: str, line: int, what: str, code: str) -> KnowledgeDocument:
    hint = "begin the file with `---`, a `title:` and `tags:`, and `---` again"
    return KnowledgeDocument(text, (), (Problem(line, what, hint, "error", code),), slug, None)


def _line_of(text: str, matter: FrontMatter, name: str) -> int:
    field = matter.get(name)
    return 1 if field is None else text.count("\n", 0, field.line_start) + 1


def _problems(text: str, matter: FrontMatter, body: str) -> Iterable[Problem]:
    for name, number in matter.doubled:
        yield Problem(number, f"`{name}` stands here twice; the last one counts", "delete one", code="duplicate-key")
    if not body.strip():
        yield Problem(1, "the entry has no text", "write below the front matter what is known", code="no-text")
    above = text.count("\n", 0, matter.body)
    for line in lines(text[matter.body :]):
        problem = oddity(line)
        if problem is not None:
            yield replace(problem, line=problem.line + above)


def _known(matter: FrontMatter, name: str) -> MemoryKind | None:
    field = matter.get(name)
    return kind_of(field.raw) if field is not None and field.raw is not None else None


def _words(matter: FrontMatter, name: str) -> str:
    field = matter.get(name)
    return " ".join(field.raw.split()) if field is not None and field.raw is not None else ""


def _tags(matter: FrontMatter) -> tuple[str, ...]:
    field = matter.get("tags")
    if field is None:
        return ()
    return clean_tags(field.items if field.items is not None else (field.raw or "").split(","))


def _record(matter: FrontMatter, slug: str, title: str, tags: tuple[str, ...], body: str) -> Record:
    named = next((name for name in _KIND_KEYS if _known(matter, name)), None)
    extra: dict[str, object] = {}
    retired = False
    for field in matter.fields:
        if field.name == "feature" and not isinstance(field.value, list | dict):
            if field.raw:
                extra["feature"] = field.raw
        elif field.name == _STATUS and (field.raw or "").strip().lower() == Status.RETIRED.value:
            retired = True
        elif field.name not in _OWN and field.name != named:
            extra[field.name] = field.value
    return Record(
        id=f"know-{slug}",
        kind=(_known(matter, named) if named else None) or MemoryKind.CONTEXT,
        text=body,
        label=_words(matter, named) if named else LABEL,
        title=title,
        tags=tags,
        status=Status.RETIRED if retired else Status.ACCEPTED,
        created_at=_words(matter, "created_at"),
        updated_at=_words(matter, "updated_at"),
        links=_links(body),
        extra=extra,
    )


def _values(record: Record) -> dict[str, object]:
    """The front matter of a record, in the order in which a new file has it."""
    values: dict[str, object] = {"title": record.title, "tags": record.tags}
    if record.label != LABEL or record.kind is not MemoryKind.CONTEXT:
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
