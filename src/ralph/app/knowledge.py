"""Knowledge: entries with a title and a file of their own in `.ralph/knowledge/`, chosen for a task by their tags.

An entry about the same subject replaces the body of the existing one; the old body is logged first, so that no crash
loses both. A person's secret is refused, an agent's is redacted, because a loop cannot ask.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import feature as features
from ralph.app import quarantine
from ralph.app.json_shapes import SESSION, VIA, WHO
from ralph.app.memory import (
    Change,
    SavedMemory,
    accept_by_author,
    check_author,
    check_forgotten,
    find,
)
from ralph.capture import invisible_characters, privacy
from ralph.capture.privacy import clean_memory, clean_tags
from ralph.context import knowledge as choosing
from ralph.context.knowledge import BUDGET, Match, Titles, Work
from ralph.errors import Conflict, RalphError, Refused
from ralph.formats import knowledge
from ralph.formats.log import encode_record
from ralph.formats.sigils import KnowledgeSigil
from ralph.formats.text import Document
from ralph.model import ids
from ralph.model.record import Link, MemoryKind, Origin, Record, Status
from ralph.store import files
from ralph.store.files import WriteObserver, hide_state
from ralph.store.library import Library, Stored, check_folders

_TRIES = 20
_SIGNED = ("run", "by", VIA, WHO, SESSION)


class LearnedEntry(NamedTuple):
    """What became of one `<knowledge>` sigil; `why` explains a refusal or an alteration."""

    title: str
    slug: str
    change: Change
    why: str = ""
    text: str = ""


class KnowledgeLink(NamedTuple):
    """One `[[link]]`: the entry that has it, its words, and the entry it leads to, if there is one."""

    source: Record
    words: str
    target: Record | None


# --- reading -----------------------------------------------------------------------------------


def entries(root: Path) -> list[Stored]:
    """Return every entry that can be read, in the order of the files' names."""
    library = Library(root)
    return library.read(library.knowledge)


def match(root: Path, words: str, *, feature: str = "", files: Sequence[str] = ()) -> list[Match]:
    """Return the entries that belong to a piece of work, and what they link to, the best first."""
    records = [
        stored.record for stored in entries(root) if stored.record.status is not Status.RETIRED
    ]
    work = Work(words, features.names(root, feature), tuple(files))
    return choosing.expand(choosing.match(records, work), records)


def section(
    root: Path, words: str, *, feature: str = "", files: Sequence[str] = (), budget: int = BUDGET
) -> str:
    """Return the entries for a piece of work as a section of a prompt; "" when there are none."""
    matches = [each.record for each in match(root, words, feature=feature, files=files)]
    return choosing.render([*filter(quarantine.injectable(root), matches)], budget)


def links(root: Path, name: str = "") -> list[KnowledgeLink]:
    """Return every `[[link]]` between entries; with a name, those from and to this one."""
    records = [stored.record for stored in entries(root)]
    titles = Titles(records)
    only = find(Library(root), name)[1].record.id if name else ""
    edges = [
        KnowledgeLink(record, link.target, titles.find(link.target))
        for record in records
        for link in record.links
        if link.relation == "links_to"
    ]
    return [
        each
        for each in edges
        if not only or only in (each.source.id, each.target.id if each.target else "")
    ]


# --- writing -----------------------------------------------------------------------------------


def add(
    root: Path,
    title: str,
    text: str,
    tags: Sequence[str],
    kind: MemoryKind | None = None,
    feature: str = "",
    by: str = "",
    via: str = "",
    patterns: Sequence[str] = (),
    *,
    allow_secret: bool = False,
    accepted: bool = False,
    signed: Mapping[str, str] | None = None,
    observer: WriteObserver | None = None,
) -> SavedMemory:
    """Add an entry, or update the one about the same subject; `accepted` as in `memory.add`."""
    feature = features.resolve_name(root, feature)
    text, private = clean_memory(text, tags, allow_secret=allow_secret, patterns=patterns)
    for words in filter(None, (title, feature)):
        private += clean_memory(words, allow_secret=allow_secret, patterns=patterns)[1]
    check_forgotten(text, by, observer)
    extra = {"feature": privacy.strip_private(feature)[0], "by": by, VIA: via}
    extra |= quarantine.signature(root, by) if signed is None else signed
    entry = _new_entry(
        privacy.strip_private(title)[0], text, clean_tags(tags), kind or MemoryKind.CONTEXT, extra
    )
    reader = "human" if accepted else by
    check_author(root, entry, reader, via=via, in_="knowledge", feature=feature)
    saved = replace(_save(root, entry, observer), private_parts=private)
    return accept_by_author(root, saved, reader, observer)


def learn(
    root: Path,
    sigils: Sequence[KnowledgeSigil],
    *,
    feature: str = "",
    run: str = "",
    patterns: Sequence[str] = (),
) -> list[LearnedEntry]:
    """Store what an agent has learned, secrets redacted; one that is refused does not cost the others."""
    learned = []
    feature = features.title_of(root, feature)
    for sigil in sigils:
        title = ""
        try:
            texts = map(invisible_characters.clean_text, (sigil.title, sigil.text))
            clean = [privacy.redact(each, patterns) for each in texts]
            title = " ".join(clean[0].text.split())
            text = clean[1].text.strip()
            invisible_characters.check_text(title + text)
            check_forgotten(text, "agent")
            tags = [invisible_characters.clean_text(tag) for tag in sigil.tags]
            tags = [tag for tag in tags if privacy.redact(tag, patterns).text == tag]
            entry = _new_entry(
                title, text, tags, MemoryKind.CONTEXT, {"feature": feature, "run": run}
            )
            check_author(root, entry, "agent", in_="knowledge", feature=feature)
            saved = _save(root, entry)
        except RalphError as error:
            learned.append(LearnedEntry(title, "", Change.REFUSED, error.message))
            continue
        hidden = (
            sum(len(each.findings) + each.private for each in clean) + len(sigil.tags) - len(tags)
        )
        notes = [f"{hidden} secret or private parts left out"] if hidden else []
        if saved.shortened:
            notes.append("cut to about 500 words")
        learned.append(
            LearnedEntry(title, saved.stored.path.stem, saved.change, "; ".join(notes), text)
        )
    return learned


def _new_entry(
    title: str, text: str, tags: Sequence[str], kind: MemoryKind, extra: dict[str, str]
) -> Record:
    needed = {"title": title.strip(), "tag": knowledge.clean_tags(tags)}
    if missing := [name for name, value in needed.items() if not value]:
        hint = "a title, at least one tag and a text are needed"
        raise Refused(
            f"a knowledge entry without a {' and a '.join(missing)} would never be found", hint=hint
        )
    label = knowledge.KNOWLEDGE_LABEL if kind is MemoryKind.CONTEXT else kind.value
    members = {name: " ".join(value.split()) for name, value in extra.items() if value.strip()}
    record = Record("", kind, text, label=label, title=title, tags=tuple(tags), extra=members)
    return knowledge.normalise_entry(record, "")


def _save(root: Path, entry: Record, observer: WriteObserver | None = None) -> SavedMemory:
    """Write an entry to the file where it belongs, which depends on all others and is checked again under the lock."""
    short = replace(entry, text=knowledge.shorten(entry.text))
    collection = Library(root).knowledge
    check_folders(collection.places[0] / "entry.md", collection.root)

    def edit(text: str) -> tuple[str, SavedMemory | None]:
        if _file_for(root, short) != path:  # another writer was faster
            return text, None
        after, change, replaced = _with_entry(
            root, knowledge.parse_knowledge(text, path.stem), short, observer
        )
        stored = Stored(after.entries[0].record, path, after.entries[0].line)
        return after.text, SavedMemory(
            stored, change, replaced=replaced, shortened=short.text != entry.text
        )

    for _ in range(_TRIES):
        path = _file_for(root, short)
        if saved := files.update(path, edit, root=collection.root, observer=observer)[1]:
            return saved
    raise Conflict(
        f"{collection.places[0]}: keeps changing",
        hint="end the program that writes there, and run again",
    )


def _file_for(root: Path, entry: Record) -> Path:
    """Return the file of the entry about the same subject (by title, else by most common tags), or a new one."""
    library = Library(root)
    records = [(stored.record, stored.path) for stored in library.read(library.knowledge)]
    similar = [
        each
        for each in records
        if knowledge.same_entry(each[0].title, each[0].tags, entry.title, entry.tags)
    ]
    if similar:
        titled = [
            path
            for record, path in similar
            if knowledge.same_entry(record.title, (), entry.title, ())
        ]
        return (
            titled[0]
            if titled
            else max(similar, key=lambda each: len({*each[0].tags} & {*entry.tags}))[1]
        )
    taken = {
        unicodedata.normalize("NFC", path.stem).lower(): ""
        for path in library.files_of(library.knowledge)
    }
    return library.knowledge.places[0] / f"{knowledge.slug_for(entry.title, taken)}.md"


def _with_entry(
    root: Path, document: knowledge.KnowledgeDocument, entry: Record, observer: WriteObserver | None
) -> tuple[Document, Change, str]:
    now = ids.timestamp()
    if not document.entries:
        return document.add(replace(entry, created_at=now)), Change.NEW, ""
    old = document.entries[0].record
    tags = knowledge.clean_tags((*old.tags, *entry.tags))
    if (old.text.strip(), old.tags, old.status) == (entry.text.strip(), tags, Status.ACCEPTED):
        return document, Change.UNCHANGED, ""
    extra = {**old.extra, **{key: entry.extra[key] for key in _SIGNED if key in entry.extra}}
    new = replace(
        old, text=entry.text, tags=tags, status=Status.ACCEPTED, updated_at=now, extra=extra
    )
    after = document.replace(old.id, new)
    run = str(entry.extra.get("run", ""))
    replaced = (
        keep_body(root, old, now, run, observer) if old.text.strip() != entry.text.strip() else ""
    )
    return after, Change.UPDATED, replaced


def as_stored(record: Record) -> Record:
    """Return an edited entry as its file can hold it."""
    if record.origin.by:
        record = replace(record, extra={**record.extra, "by": record.origin.by})
    return knowledge.normalise_entry(record, record.id.removeprefix("know-"))


def keep_body(
    root: Path, old: Record, now: str, run: str = "", observer: WriteObserver | None = None
) -> str:
    """Log a body that is about to be replaced; its id comes from its text, so that a second try adds nothing."""
    if not old.text.strip():
        return ""
    log = replaced_bodies(root)
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
    files.target(log, paths.state_boundary(root))  # before anything is made there
    hide_state(root)
    files.append(
        log, encode_record(record), root=paths.state_boundary(root), durable=True, observer=observer
    )
    return name


def replaced_bodies(root: Path) -> Path:
    """Return the log of bodies that were replaced, in the main checkout."""
    return paths.log_folder(root) / "knowledge.jsonl"
