"""Add, edit, archive and delete entries in every memory file (`ralph memory ...`).

Text is cleaned before anything else sees it. An entry that reads like an instruction and was not
written by a person is held for review. Ids and duplicates are decided while the file is locked, so
that two writers cannot choose the same id.

Some imports are inside functions, because most commands do not need these modules, and a command
should start quickly. Entries are read in `reading`, and knowledge is stored in `knowledge`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids
from ralph.core.errors import Conflict, Hint, Refused, UsageError
from ralph.core.record import (
    AT,
    NO_EXTRA,
    SESSION,
    VIA,
    WHO,
    Link,
    MemoryKind,
    Record,
    Status,
    confirm,
    is_confirmed,
)
from ralph.memory.author import BY_RALPH, Author, WriteContext
from ralph.memory.confirmation import mark_edited, mark_new
from ralph.memory.reading import ALL, collection_names, find_entry
from ralph.memory.write_checks import (
    accept_by_author,
    check_author,
    check_forgotten,
    check_undamaged,
    hold_unconfirmed,
)
from ralph.storage.library import NAMES, AlreadyThere, Collection, Library, Stored
from ralph.storage.write_observers import WriteObserver

_DEFAULT_KINDS = {
    "memories": MemoryKind.PATTERN,
    "guardrails": MemoryKind.FIX,
    "patterns": MemoryKind.PATTERN,
    "personal": MemoryKind.PATTERN,
}


class Change(StrEnum):
    """What happened to an entry."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """An entry as it is now stored, and what changed."""

    stored: Stored
    change: Change
    private_parts: int = 0
    same_as: str = ""  # the id of another entry with the same text
    replaced: str = ""  # the log id of the body that a knowledge entry had before
    shortened: bool = False
    is_order: bool = False  # a person stored it, and it reads like an instruction to an agent

    @property
    def is_new(self) -> bool:
        """Whether the entry was added."""
        return self.change is Change.NEW

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.change is not Change.UNCHANGED


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to add to the collection `in_`. Only knowledge has a title and a feature."""

    text: str
    kind: MemoryKind | None = None  # None means the default kind of the collection
    tags: Sequence[str] = ()
    in_: str = "memories"
    title: str = ""
    feature: str = ""
    links: tuple[Link, ...] = ()
    force: bool = False  # add it even if another entry has the same text


# --- writing -----------------------------------------------------------------------------------


def add(
    root: Path,
    text: str,
    kind: MemoryKind | None = None,
    tags: Sequence[str] = (),
    *,
    in_: str = "memories",
    title: str = "",
    force: bool = False,
    context: WriteContext = BY_RALPH,
) -> SavedMemory:
    """Add an entry that has no feature and no links. See `add_entry`."""
    entry = NewEntry(text, kind, tags, in_=in_, title=title, force=force)
    return add_entry(root, entry, context)


def add_entry(root: Path, entry: NewEntry, context: WriteContext = BY_RALPH) -> SavedMemory:
    """Add an entry unless one with the same text exists.

    Knowledge with the same title is updated instead. Raises UsageError for options that the
    collection does not support. Raises Refused for a secret, for forgotten text added by an agent,
    for text that is held for review, and for a file that a person must repair first.
    """
    if collection_names([entry.in_]) == ("knowledge",):
        from ralph.memory import knowledge

        return knowledge.add(
            root,
            entry.title,
            entry.text,
            entry.tags,
            kind=entry.kind,
            feature=entry.feature,
            context=context,
        )
    _check_options(entry)
    record, private_parts = _new_record(root, entry, context)
    library = Library(root, context.observer)
    collection = library.collection(entry.in_)
    check_author(root, record, context, in_=entry.in_)
    record = mark_new(root, record, context)
    is_pattern = entry.in_ == "patterns"
    if is_pattern:
        hold_unconfirmed(root, record, context, in_=entry.in_)

    def make(existing_ids: Sequence[str]) -> Record:
        if is_pattern:
            from ralph.formats.patterns import as_pattern

            return as_pattern(record)
        name = new_id(collection, MemoryKind(record.kind), existing_ids)
        added_at = ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        extra = {**record.extra, AT: added_at}
        return replace(record, id=name, created_at=added_at[:10], extra=extra)

    may_repeat = entry.force and not is_pattern
    try:
        stored = library.add(
            collection,
            make,
            unless_text=None if may_repeat else record.text,
            unless_archived=False,
            check=partial(check_undamaged, root),
        )
        saved = SavedMemory(stored, Change.NEW, private_parts)
    except AlreadyThere as error:
        saved = SavedMemory(error.stored, Change.UNCHANGED, private_parts)
        if is_confirmed(record) and not is_confirmed(error.stored.record):
            confirmed = confirm_entry(root, error.stored.record.id, context.observer)
            saved = replace(confirmed, private_parts=private_parts)
    return accept_by_author(root, saved, context)


def _check_options(entry: NewEntry) -> None:
    if entry.title or entry.feature:
        raise UsageError(
            "only knowledge has a title and a feature",
            hint=Hint("choose-knowledge", "use --in knowledge"),
        )
    if entry.in_ == ALL:
        raise UsageError("a new entry goes to one file", hint=f"--in {', '.join(NAMES)}")
    if entry.in_ == "patterns" and entry.tags:
        raise UsageError("patterns have no tags", hint="leave out --tags, or --in patterns")


def _new_record(root: Path, entry: NewEntry, context: WriteContext) -> tuple[Record, int]:
    """Return an entry as a cleaned, signed record, and the number of private sections removed."""
    from ralph.privacy.privacy import clean_memory, clean_tags

    text, private_parts = clean_memory(
        entry.text, entry.tags, allow_secret=context.allow_secret, patterns=context.patterns
    )
    check_forgotten(text, context)
    kind = entry.kind or _DEFAULT_KINDS[entry.in_]
    tags = clean_tags(entry.tags)
    record = Record("", kind, text, label=kind.value, tags=tags, links=entry.links)
    return _sign(root, record, context.author), private_parts


def _sign(root: Path, record: Record, author: Author) -> Record:
    """Return an entry with the signature of this author, replacing any earlier one."""
    members = {WHO: "", SESSION: ""}
    if author.via:
        members[VIA] = author.via
    members |= author.signature(root)
    extra = dict(record.extra)
    for name, value in members.items():
        if value:
            extra[name] = value
        else:
            extra.pop(name, None)
    return replace(record, origin=record.origin._replace(by=author.by), extra=extra or NO_EXTRA)


def new_id(collection: Collection, kind: MemoryKind, existing_ids: Sequence[str]) -> str:
    """Create an id that no existing entry has. Call this while the file is locked."""
    while True:
        new = ids.mint(collection.layout.prefix or kind.value)
        if new not in existing_ids:
            return new


class _CleanEdit(NamedTuple):
    """The members that an edit changes, after cleaning."""

    members: dict[str, Any]
    private_parts: int = 0
    shortened: bool = False


def edit(
    root: Path,
    name: str,
    *,
    text: str | None = None,
    title: str | None = None,
    kind: MemoryKind | None = None,
    tags: Sequence[str] | None = None,
    expect: str | None = None,
    context: WriteContext = BY_RALPH,
) -> SavedMemory:
    """Change an entry's text, title, kind or tags, and nothing else.

    Raises Conflict if the entry's text is no longer `expect`, and UsageError for a member that the
    entry cannot have. Raises Refused for a secret, or if an agent writes something that reads like
    an instruction to agents.
    """
    from ralph.memory import quarantine

    author = context.author
    library = Library(root, context.observer)
    collection, before = find_entry(library, name)
    _check_members(collection, before.record.id, title, tags)
    clean = _clean_edit(collection, context, text=text, title=title, tags=tags)
    members = clean.members
    if kind is not None:
        members["kind"] = kind

    def change(record: Record) -> Record:
        if expect is not None and record.text != expect:
            if members.get("text") == expect:
                return record
            raise Conflict(
                f"{record.id}: changed in its file while it was being edited",
                hint="nothing was stored",
            )
        changed = replace(record, **members)
        if author.by and changed.text != record.text:
            changed = mark_edited(root, _sign(root, changed, author), context)
        if changed == record:
            return record
        if not context.is_trusted and quarantine.is_suspicious(changed):
            raise Refused(
                f"{record.id} would read like an instruction to an agent: nothing was changed",
                hint="only a person at a terminal can store that",
            )
        if author.via:
            changed = replace(changed, extra={**changed.extra, VIA: author.via})
        return changed

    saved = change_entry(root, library, collection, before.record.id, change, context.observer)
    saved = accept_by_author(root, saved, context)
    same_as = ""
    if text is not None and saved.changed:
        record = saved.stored.record
        same_as = library.find_text(collection, record.text, except_id=record.id)
    return replace(
        saved, private_parts=clean.private_parts, same_as=same_as, shortened=clean.shortened
    )


def _check_members(
    collection: Collection, record_id: str, title: str | None, tags: Sequence[str] | None
) -> None:
    if title is not None and collection.name != "knowledge":
        raise UsageError(f"{record_id} has no title", hint="only knowledge has one")
    if tags and collection.name == "patterns":
        raise UsageError("patterns have no tags", hint="leave out --tags")


def _clean_edit(
    collection: Collection,
    context: WriteContext,
    *,
    text: str | None,
    title: str | None,
    tags: Sequence[str] | None,
) -> _CleanEdit:
    """Clean the members that an edit changes.

    Raises Refused for a secret, or if no tag is left.
    """
    from ralph.formats.knowledge_text import shorten
    from ralph.privacy.privacy import clean_memory, clean_tags, clean_title, count_private_tags

    allow_secret = context.allow_secret
    patterns = context.patterns
    is_knowledge = collection.name == "knowledge"
    members: dict[str, Any] = {}
    private_parts = 0
    shortened = False
    if text is not None:
        public, private_parts = clean_memory(text, allow_secret=allow_secret, patterns=patterns)
        members["text"] = shorten(public) if is_knowledge else public
        shortened = members["text"] != public
    if title is not None:
        clean = clean_title(title, allow_secret=allow_secret, patterns=patterns)
        members["title"] = clean.text
        private_parts += clean.private
    if tags is not None:
        private_parts += count_private_tags(tags, allow_secret=allow_secret, patterns=patterns)
        members["tags"] = clean_tags(tags)
        if not members["tags"] and (tags or is_knowledge):
            what = "no tag is left"
            if is_knowledge:
                what = "a knowledge entry without a tag would never be found"
            raise Refused(
                what, hint="name a tag, or pass an empty string to remove the tags of a memory"
            )
    return _CleanEdit(members, private_parts, shortened)


def change_entry(
    root: Path,
    library: Library,
    collection: Collection,
    record_id: str,
    change: Callable[[Record], Record],
    observer: WriteObserver | None,
) -> SavedMemory:
    """Change an entry while its file is locked, and date the change.

    If a knowledge entry's body is replaced, the old body is logged first.
    """
    from ralph.memory import knowledge

    is_knowledge = collection.name == "knowledge"
    changed = False
    replaced = ""

    def change_and_date(record: Record) -> Record:
        nonlocal changed, replaced
        after = change(record)
        if is_knowledge:
            after = knowledge.as_stored(after)
        changed = after != record
        replaced = ""
        if not changed or collection.name == "patterns":
            return after
        # A merge compares these times, and knowledge files store whole seconds.
        now = ids.timestamp(precision="seconds" if is_knowledge else "microseconds")
        if is_knowledge and after.text.strip() != record.text.strip():
            replaced = knowledge.log_replaced_body(root, record, now, observer=observer)
        return replace(after, updated_at=now)

    stored = library.replace(collection, record_id, change_and_date)
    return SavedMemory(stored, Change.UPDATED if changed else Change.UNCHANGED, replaced=replaced)


def confirm_entry(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Remove the mark from an unconfirmed entry, because its text was accepted or added again."""
    library = Library(root, observer)
    collection, stored = find_entry(library, name)
    return change_entry(root, library, collection, stored.record.id, confirm, observer)


def archive(
    root: Path, name: str, observer: WriteObserver | None = None, *, status: Status = Status.RETIRED
) -> SavedMemory:
    """Hide an entry from searches, listings and agents.

    The entry stays in its file and keeps its id. Raises Refused for a pattern, which has no status.
    """
    library = Library(root, observer)
    collection, stored = find_entry(library, name)
    record_id = stored.record.id
    if collection.name == "patterns":
        raise Refused(
            "a pattern cannot be archived", hint=f"`ralph memory delete {record_id}` removes it"
        )

    def set_status(record: Record) -> Record:
        return replace(record, status=status)

    return change_entry(root, library, collection, record_id, set_status, observer)


def unarchive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Make an archived entry active again."""
    return archive(root, name, observer, status=Status.ACCEPTED)


def delete(
    root: Path, name: str, *, expect: str | None = None, observer: WriteObserver | None = None
) -> Stored:
    """Remove an entry from its file. With `expect`, its text must not have changed."""
    library = Library(root, observer)
    collection, stored = find_entry(library, name)
    return library.remove(collection, stored.record.id, expect=expect)
