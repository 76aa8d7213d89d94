"""Store knowledge: titled entries, each in its own file in `.ralph/knowledge/`.

Entries are chosen for a piece of work by their tags. A new entry about a known subject replaces the
body of the existing entry. The old body is logged first, so that a crash cannot lose both. A secret
is refused in text from a person. In text from an agent it is redacted, because a loop cannot ask.
Agents report knowledge in their output with a sigil, a `<knowledge>` tag that the loop reads.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.documents import Document
from ralph.core.errors import Conflict, RalphError, Refused
from ralph.core.record import (
    SESSION,
    UNCONFIRMED,
    VIA,
    WHO,
    Link,
    MemoryKind,
    Origin,
    Record,
    Status,
    confirm,
    is_confirmed,
    mark_unconfirmed,
)
from ralph.formats import knowledge, knowledge_text
from ralph.formats.log import encode_record
from ralph.formats.sigils import KnowledgeSigil
from ralph.memory import knowledge_match, quarantine
from ralph.memory.author import BY_AGENT, BY_RALPH, WriteContext
from ralph.memory.confirmation import mark_new
from ralph.memory.knowledge_match import BUDGET, Match, Titles, Work
from ralph.memory.memory import Change, SavedMemory
from ralph.memory.reading import find_entry, replaced_bodies_log
from ralph.memory.write_checks import accept_by_author, check_author, check_forgotten
from ralph.privacy import invisible_characters, privacy
from ralph.privacy.privacy import clean_memory, clean_tags
from ralph.storage import features, files
from ralph.storage.gitignore import ensure_gitignore
from ralph.storage.library import Library, Stored, check_folders
from ralph.storage.write_observers import WriteObserver

_MAX_WRITE_ATTEMPTS = 20  # an attempt fails only if another process wrote in between
_SIGNATURE_MEMBERS = ("run", "by", VIA, WHO, SESSION)
"""Members of `extra` that an update takes from the new entry."""


class LearnedEntry(NamedTuple):
    """The result of storing one `<knowledge>` sigil."""

    title: str
    slug: str
    change: Change
    why: str = ""  # why it was refused or altered, or where the previous text is kept
    text: str = ""


class KnowledgeLink(NamedTuple):
    """A `[[link]]` in a knowledge entry."""

    source: Record
    words: str  # between the brackets
    target: Record | None  # None if there is no such entry


# --- reading -----------------------------------------------------------------------------------


def entries(root: Path) -> list[Stored]:
    """Return every readable entry, sorted by file name."""
    library = Library(root)
    return library.read(library.knowledge)


def match(root: Path, words: str, *, feature: str = "", files: Sequence[str] = ()) -> list[Match]:
    """Return the entries relevant to a piece of work and the entries they link to, best first."""
    records = [
        stored.record for stored in entries(root) if stored.record.status is not Status.RETIRED
    ]
    work = Work(words, features.names(root, feature), tuple(files))
    return knowledge_match.expand(knowledge_match.match(records, work), records)


def section(
    root: Path, words: str, *, feature: str = "", files: Sequence[str] = (), budget: int = BUDGET
) -> str:
    """Return the entries for a piece of work as a prompt section, or "" if there are none."""
    may_inject = quarantine.injection_filter(root)
    records = []
    for matched in match(root, words, feature=feature, files=files):
        if may_inject(matched.record):
            records.append(matched.record)
    return knowledge_match.render(records, budget)


def links(root: Path, name: str = "") -> list[KnowledgeLink]:
    """Return every `[[link]]` between entries.

    With a name, return only the links from and to that entry. Raises NotFound if no entry has the
    name.
    """
    records = [stored.record for stored in entries(root)]
    titles = Titles(records)
    edges = []
    for record in records:
        for link in record.links:
            if link.relation == "links_to":
                edges.append(KnowledgeLink(record, link.target, titles.find(link.target)))
    if not name:
        return edges
    record_id = find_entry(Library(root), name)[1].record.id
    return [edge for edge in edges if _touches(edge, record_id)]


def _touches(edge: KnowledgeLink, record_id: str) -> bool:
    if edge.source.id == record_id:
        return True
    return edge.target is not None and edge.target.id == record_id


# --- writing -----------------------------------------------------------------------------------


def add(
    root: Path,
    title: str,
    text: str,
    tags: Sequence[str],
    *,
    kind: MemoryKind | None = None,
    feature: str = "",
    context: WriteContext = BY_RALPH,
) -> SavedMemory:
    """Add an entry, or update the one about the same subject.

    Raises Refused for a secret, a missing title or tag, forgotten text added by an agent, and text
    that is held for review.
    """
    feature = features.resolve_name(root, feature)
    clean = partial(clean_memory, allow_secret=context.allow_secret, patterns=context.patterns)
    text, private = clean(text, tags)
    for words in (title, feature):
        if words:
            private += clean(words)[1]
    check_forgotten(text, context)
    author = context.author
    extra = {"feature": privacy.strip_private(feature)[0], "by": author.by, VIA: author.via}
    extra |= author.signature(root)
    entry = _new_entry(
        privacy.strip_private(title)[0], text, clean_tags(tags), kind or MemoryKind.CONTEXT, extra
    )
    check_author(root, entry, context, in_="knowledge", feature=feature)
    entry = mark_new(root, entry, context)
    saved = replace(_save(root, entry, context.observer), private_parts=private)
    return accept_by_author(root, saved, context)


def learn(
    root: Path,
    sigils: Sequence[KnowledgeSigil],
    *,
    feature: str = "",
    run: str = "",
    patterns: Sequence[str] = (),
) -> list[LearnedEntry]:
    """Store the knowledge that an agent has reported, with secrets redacted.

    If one entry is refused, the others are still stored.
    """
    feature = features.title_of(root, feature)
    learned = []
    for sigil in sigils:
        title = ""
        try:
            clean = _clean_sigil(sigil, patterns)
            title = clean.title
            learned.append(_learn_one(root, clean, feature, run))
        except RalphError as error:
            learned.append(LearnedEntry(title, "", Change.REFUSED, error.message))
    return learned


class _CleanSigil(NamedTuple):
    """A sigil without secrets, private sections or invisible characters."""

    title: str
    text: str
    tags: list[str]
    removed_parts: int


def _clean_sigil(sigil: KnowledgeSigil, patterns: Sequence[str]) -> _CleanSigil:
    title = privacy.redact(invisible_characters.clean_text(sigil.title), patterns)
    text = privacy.redact(invisible_characters.clean_text(sigil.text), patterns)
    tags = []
    for tag in map(invisible_characters.clean_text, sigil.tags):
        if privacy.redact(tag, patterns).text == tag:
            tags.append(tag)
    removed_parts = len(sigil.tags) - len(tags)
    for redacted in (title, text):
        removed_parts += len(redacted.findings) + redacted.private
    return _CleanSigil(" ".join(title.text.split()), text.text.strip(), tags, removed_parts)


def _learn_one(root: Path, clean: _CleanSigil, feature: str, run: str) -> LearnedEntry:
    invisible_characters.check_text(clean.title + clean.text)
    check_forgotten(clean.text, BY_AGENT)
    extra = {"feature": feature, "run": run}
    entry = _new_entry(clean.title, clean.text, clean.tags, MemoryKind.CONTEXT, extra)
    check_author(root, entry, BY_AGENT, in_="knowledge", feature=feature)
    saved = _save(root, mark_new(root, entry, BY_AGENT))
    notes = []
    if clean.removed_parts:
        notes.append(f"{clean.removed_parts} secret or private sections left out")
    if saved.shortened:
        notes.append("cut to about 500 words")
    if saved.replaced:
        notes.append(f"the previous text is kept as {saved.replaced}")
    slug = saved.stored.path.stem
    return LearnedEntry(clean.title, slug, saved.change, "; ".join(notes), clean.text)


def _new_entry(
    title: str, text: str, tags: Sequence[str], kind: MemoryKind, extra: dict[str, str]
) -> Record:
    missing = []
    if not title.strip():
        missing.append("title")
    if not knowledge_text.clean_tags(tags):
        missing.append("tag")
    if missing:
        raise Refused(
            f"a knowledge entry without a {' and a '.join(missing)} would never be found",
            hint="a title, at least one tag and a text are needed",
        )
    label = kind.value
    if kind is MemoryKind.CONTEXT:
        label = knowledge.KNOWLEDGE_LABEL
    members = {name: " ".join(value.split()) for name, value in extra.items() if value.strip()}
    record = Record("", kind, text, label=label, title=title, tags=tuple(tags), extra=members)
    return knowledge.normalise_entry(record, "")


def _save(root: Path, entry: Record, observer: WriteObserver | None = None) -> SavedMemory:
    """Write an entry to its file.

    The choice of file depends on all other entries, so it is checked again under the lock.
    """
    short = replace(entry, text=knowledge_text.shorten(entry.text))
    is_shortened = short.text != entry.text
    collection = Library(root).knowledge
    check_folders(collection.places[0] / "entry.md", collection.root)

    def edit(text: str) -> tuple[str, SavedMemory | None]:
        if _file_for(root, short) != path:  # another process has written in the meantime
            return text, None
        document = knowledge.parse_knowledge(text, path.stem)
        updated = _with_entry(root, document, short, observer)
        written = updated.document.entries[0]
        saved = SavedMemory(
            Stored(written.record, path, written.line),
            updated.change,
            replaced=updated.replaced,
            shortened=is_shortened,
        )
        return updated.document.text, saved

    for _ in range(_MAX_WRITE_ATTEMPTS):
        path = _file_for(root, short)
        _, saved = files.update(path, edit, root=collection.root, observer=observer)
        if saved is not None:
            return saved
    raise Conflict(
        f"{collection.places[0]}: keeps changing",
        hint="end the program that writes there, and run again",
    )


def _file_for(root: Path, entry: Record) -> Path:
    """Return the file of the existing entry about the same subject, or a new file.

    An entry with the same title has the same subject. Failing that, the similar entry with the most
    tags in common is chosen.
    """
    library = Library(root)
    similar = []
    for stored in library.read(library.knowledge):
        record = stored.record
        if knowledge_text.same_entry(record.title, record.tags, entry.title, entry.tags):
            similar.append(stored)
    for stored in similar:
        if knowledge_text.same_entry(stored.record.title, (), entry.title, ()):
            return stored.path
    if similar:
        tags = set(entry.tags)
        return max(similar, key=lambda stored: len(tags.intersection(stored.record.tags))).path
    existing_slugs = {
        unicodedata.normalize("NFC", path.stem).lower(): ""
        for path in library.files_of(library.knowledge)
    }
    return (
        library.knowledge.places[0] / f"{knowledge_text.slug_for(entry.title, existing_slugs)}.md"
    )


class _Update(NamedTuple):
    """A document with an entry added or updated."""

    document: Document
    change: Change
    replaced: str = ""  # the log id of the previous body


def _with_entry(
    root: Path, document: knowledge.KnowledgeDocument, entry: Record, observer: WriteObserver | None
) -> _Update:
    now = ids.timestamp()
    if not document.entries:
        return _Update(document.add(replace(entry, created_at=now)), Change.NEW)
    old = document.entries[0].record
    tags = knowledge_text.clean_tags((*old.tags, *entry.tags))
    has_same_text = old.text.strip() == entry.text.strip()
    reason = str(entry.extra.get(UNCONFIRMED) or "")
    if has_same_text and is_confirmed(old):
        reason = ""
    is_same_state = old.status is Status.ACCEPTED and old.extra.get(UNCONFIRMED, "") == reason
    if has_same_text and old.tags == tags and is_same_state:
        return _Update(document, Change.UNCHANGED)
    extra = dict(mark_unconfirmed(confirm(old), reason).extra)
    for name in _SIGNATURE_MEMBERS:
        if name in entry.extra:
            extra[name] = entry.extra[name]
    new = replace(
        old, text=entry.text, tags=tags, status=Status.ACCEPTED, updated_at=now, extra=extra
    )
    after = document.replace(old.id, new)
    replaced = ""
    if not has_same_text:
        run = str(entry.extra.get("run", ""))
        replaced = log_replaced_body(root, old, now, run, observer)
    return _Update(after, Change.UPDATED, replaced)


def as_stored(record: Record) -> Record:
    """Return an edited entry in the form that its file can store."""
    if record.origin.by:
        record = replace(record, extra={**record.extra, "by": record.origin.by})
    return knowledge.normalise_entry(record, record.id.removeprefix("know-"))


def log_replaced_body(
    root: Path, old: Record, now: str, run: str = "", observer: WriteObserver | None = None
) -> str:
    """Log a body that is about to be replaced, and return its id.

    The id is derived from the text, so that a second attempt adds nothing. Returns "" for an empty
    body.
    """
    if not old.text.strip():
        return ""
    log = replaced_bodies_log(root)
    name = ids.derived("ret", "\n".join((old.id, old.updated_at or old.created_at, old.text)))
    if f'"id":"{name}"' in (files.read(log, observer) or ""):
        return name
    superseded = (*old.links, Link("superseded_by", old.id))
    record = replace(
        old,
        id=name,
        status=Status.RETIRED,
        valid_until=now,
        links=superseded,
        origin=Origin(run=run),
    )
    files.target(log, paths.state_boundary(root))  # a refusal must come before anything is created
    ensure_gitignore(root)
    files.append(
        log, encode_record(record), root=paths.state_boundary(root), durable=True, observer=observer
    )
    return name
