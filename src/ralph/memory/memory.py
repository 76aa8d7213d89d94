"""Read and write the entries in every curated file with one set of verbs (`ralph memory ...`).

A collection is one of these files, and `in_` names it: memories, guardrails, patterns, knowledge
(`memory/knowledge.py`) or personal, which belongs to the user rather than to a project. An id alone
is enough to find an entry, including one in an enclosing project. Text is cleaned before anything
else sees it. Ids and duplicates are decided while the file is locked, so that two writers cannot
choose the same id.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core import ids
from ralph.core.errors import Conflict, Hint, NotFound, RalphError, Refused, UsageError
from ralph.core.record import (
    AT,
    NO_EXTRA,
    SESSION,
    VIA,
    WHO,
    Link,
    MemoryKind,
    Query,
    Record,
    Status,
)
from ralph.core.text import normalise_text
from ralph.formats.memories_metadata import WHY
from ralph.formats.memories_writer import render_memories, sort_by_section
from ralph.memory.author import BY_RALPH, Author, WriteContext
from ralph.memory.record_shapes import memory_json
from ralph.storage import files, forgotten, supersession
from ralph.storage.library import NAMES, AlreadyThere, Collection, Library, Stored, check_folders
from ralph.storage.write_observers import WriteObserver

if TYPE_CHECKING:
    pass

ALL = "all"
MEMORIES = ("memories",)
_DEFAULT_KINDS = {
    "memories": MemoryKind.PATTERN,
    "guardrails": MemoryKind.FIX,
    "patterns": MemoryKind.PATTERN,
    "personal": MemoryKind.PATTERN,
}
_PRIME_ORDER = ("guardrails", "memories", "patterns", "knowledge", "personal")
_TRUNCATED = "<!-- truncated: budget exceeded -->"
_HIDDEN_FROM_AGENTS = (AT, WHO, SESSION, WHY)
"""Members of `extra` that agents do not get: instants, names and reasons."""


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
    """An entry to add, and the file it goes to. Only knowledge has a title and a feature."""

    text: str
    kind: MemoryKind | None = None  # None is the usual kind of the file
    tags: Sequence[str] = ()
    in_: str = "memories"
    title: str = ""
    feature: str = ""
    links: tuple[Link, ...] = ()
    force: bool = False  # add it although an entry has the same text


class PrimedMemories(NamedTuple):
    """Entries chosen for an agent.

    `text` is what to inject, `records` are the entries it contains, and `total` counts the
    candidates.
    """

    text: str
    records: tuple[Record, ...]
    total: int


_NOTHING_PRIMED = PrimedMemories("", (), 0)


def names_of(in_: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the given collections, with `all` expanded.

    Raises UsageError for any other name.
    """
    valid = (*NAMES, ALL)
    for name in in_:
        if name not in valid:
            raise UsageError(f"{name!r} is not a memory file", hint=f"one of {', '.join(valid)}")
    if ALL in in_:
        return NAMES
    return tuple(dict.fromkeys(in_))


def kinds_named(names: Sequence[str]) -> tuple[MemoryKind, ...]:
    """Return the kinds with the given names, in any case.

    Raises UsageError for an unknown name.
    """
    valid = {kind.value: kind for kind in MemoryKind}
    kinds = []
    for name in names:
        kind = valid.get(name.strip().lower())
        if kind is None:
            raise UsageError(f"{name!r} is not a type", hint=f"valid types: {', '.join(valid)}")
        kinds.append(kind)
    return tuple(kinds)


# --- reading -----------------------------------------------------------------------------------


def list_(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    last: int | None = None,
    as_of: str = "",
) -> list[Stored]:
    """List entries in file order.

    With `last`, return only that many of the most recently added entries, oldest first. With
    `as_of`, return the entries that were valid on that day.
    """
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    library = Library(root)
    everything: list[Stored] = []
    for name in names_of(in_):
        everything += library.read(library.collection(name))
    if as_of:
        everything = _valid_on(everything, as_of)
    entries = [stored for stored in everything if query.accepts(stored.record)]
    if last is None:
        return entries
    if last <= 0:
        return []
    entries.sort(key=lambda stored: stored.record.added_at)
    return entries[-last:]


def _valid_on(entries: Sequence[Stored], day: str) -> list[Stored]:
    """Return the entries that were valid on `day`.

    They are returned as active entries, even if they were archived later.
    """
    records = [stored.record for stored in entries]
    valid = {record.id for record in current(records, day)}
    found = []
    for stored in entries:
        if stored.record.id in valid:
            active = replace(stored.record, status=Status.ACCEPTED)
            found.append(stored._replace(record=active))
    return found


def injected(root: Path, in_: str = "memories") -> list[Record]:
    """Return the memories or guardrails that agents receive in this project.

    They come from the project itself, from enclosing projects and, for memories, from the user's
    personal file.
    """
    library = Library(root)
    records = [stored.record for stored in list_(root, in_=(in_,))]
    others = [collection for collection in library.enclosing if collection.name == in_]
    if in_ == "memories":
        others.append(library.personal)
    for collection in others:
        with contextlib.suppress(RalphError):  # an unreadable file outside the project
            for stored in library.read(collection):
                if stored.record.status is not Status.RETIRED:
                    records.append(stored.record)
    return records


def show(root: Path, name: str) -> Stored:
    """Return the entry with this full or short id.

    A knowledge entry can also be named by its title or file name. Raises NotFound for an unknown
    name.
    """
    return find(Library(root), name)[1]


def find(library: Library, name: str) -> tuple[Collection, Stored]:
    """Return the entry with this name, together with its collection.

    Raises NotFound for an unknown name.
    """
    try:
        return library.find(name)
    except NotFound:
        from ralph.memory.knowledge_match import Titles

        by_id = {stored.record.id: stored for stored in library.read(library.knowledge)}
        titles = Titles(stored.record for stored in by_id.values())
        record = titles.find(name.removesuffix(".md"))
        if record is None:
            raise
        return library.knowledge, by_id[record.id]


def prime(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
    as_of: str = "",
) -> PrimedMemories:
    """Choose as many whole entries as fit into `budget` tokens, guardrails first.

    A budget of 0 means no limit. `form` is `markdown` or `json`.
    """
    from ralph.memory import quarantine

    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=ids.first_day(recent))
    library = Library(root)
    may_inject = quarantine.injectable(root)
    names = names_of(in_)
    chosen: dict[Collection, list[Record]] = {}
    for name in _PRIME_ORDER:
        if name not in names:
            continue
        records = [stored.record for stored in list_(root, in_=(name,), as_of=as_of)]
        if not as_of:
            records = current(records)
        chosen[library.collection(name)] = [
            record for record in records if query.accepts(record) and may_inject(record)
        ]
    primed = _NOTHING_PRIMED
    for collection, records in chosen.items():
        room = budget
        if collection.name == "guardrails" and budget:
            room = _guardrails_budget(chosen, budget, form)
        primed = _fit(collection, records, room, form, primed)
    return primed


def _guardrails_budget(
    chosen: Mapping[Collection, Sequence[Record]], budget: int, form: str
) -> int:
    """Return the number of tokens for guardrails, leaving part of the budget for other entries."""
    from ralph.core import budget as budgets
    from ralph.core import tokens

    guardrails_cost = 0
    other_costs = 0
    for collection, records in chosen.items():
        cost = tokens.estimate(_fit(collection, records, 0, form, _NOTHING_PRIMED).text)
        if collection.name == "guardrails":
            guardrails_cost = cost
        else:
            other_costs += cost
    return budgets.guardrails_budget(budget, guardrails_cost, other_costs)


def _fit(
    collection: Collection,
    records: Sequence[Record],
    budget: int,
    form: str,
    before: PrimedMemories,
) -> PrimedMemories:
    """Append the entries from one collection that fit into the budget to those chosen before."""
    from ralph.core import budget as budgets
    from ralph.memory import knowledge_match as knowledge

    is_knowledge = collection.name == "knowledge"
    if is_knowledge:
        ordered = [_without_signature(record) for record in records]
    else:
        by_time = sorted(records, key=lambda record: record.added_at)
        plain = [_without_signature(record) for record in by_time]
        ordered = list(sort_by_section(plain, collection.layout.kinds))

    def render(rows: tuple[int, ...], omitted: int) -> str:
        chosen = [ordered[row] for row in rows]
        if form == "json":
            everything = [memory_json(record) for record in (*before.records, *chosen)]
            return json.dumps(everything, ensure_ascii=False, indent=2) + "\n"
        if is_knowledge:
            text = knowledge.render(chosen, 0)
        else:
            text = render_memories(chosen, collection.layout.kinds)
        parts = [before.text, text]
        if omitted:
            where = "" if collection.name == "memories" else f" --in {collection.name}"
            note = f"{len(rows)} of {len(ordered)} shown; more: ralph memory search{where}"
            parts.append(f"{_TRUNCATED}\n<!-- {note} -->\n")
        return "\n".join(part for part in parts if part)

    text, shown = budgets.fit(ordered, budget, render)
    chosen = before.records + tuple(ordered[row] for row in shown)
    return PrimedMemories(text or before.text, chosen, before.total + len(ordered))


def _without_signature(record: Record) -> Record:
    """Return an entry as agents see it, without instants, names and reasons."""
    extra = {name: value for name, value in record.extra.items() if name not in _HIDDEN_FROM_AGENTS}
    return replace(record, updated_at=record.updated_at[:10], extra=extra)


def predecessors(record: Record) -> list[str]:
    """Return the ids of the entries that this entry supersedes."""
    return [link.target for link in record.links if link.relation == "supersedes"]


def successors(records: Sequence[Record]) -> Mapping[str, str]:
    """Map the id of each superseded entry to the id of its successor."""
    pairs = []
    for record in records:
        for old in predecessors(record):
            pairs.append((record.id, old))
    return supersession.latest_successors(pairs)


def current(records: Sequence[Record], as_of: str = "") -> list[Record]:
    """Leave out expired and superseded entries.

    Entries that supersede each other in a cycle are kept. With `as_of`, return what was valid on
    that day: archived entries count until they were archived, superseded ones until they were
    superseded.
    """
    day = as_of[:10] or ids.today()
    replaced = successors(records)
    by_id = {record.id: record for record in records}

    def was_valid(record: Record) -> bool:
        ends = []
        if record.status is Status.RETIRED:
            ends.append(record.updated_at)
        if record.id in replaced:
            ends.append(record.valid_until or by_id[replaced[record.id]].created_at)
        return record.created_at[:10] <= day and all(day < end[:10] for end in ends)

    valid = []
    for record in records:
        if record.valid_until and record.valid_until < day:
            continue
        is_valid = was_valid(record) if as_of else record.id not in replaced
        if is_valid:
            valid.append(record)
    return valid


# --- writing -----------------------------------------------------------------------------------


def init(root: Path, in_: str = "memories", *, force: bool = False) -> str:
    """Create a memory file, and return a description of what was done.

    Raises Conflict if the file already exists. With `force`, the existing file is backed up and
    replaced instead.
    """
    from ralph.formats.patterns import patterns_template

    names_of([in_])
    if in_ not in _DEFAULT_KINDS:
        raise UsageError(
            f"{in_} needs no file", hint=f"ralph memory init --in {', '.join(_DEFAULT_KINDS)}"
        )
    collection = Library(root).collection(in_)
    home = collection.home
    check_folders(home, collection.root)
    if in_ == "patterns":
        template = patterns_template()
    else:
        template = collection.layout.template()
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=collection.root, expect="", mode=collection.mode)
        return f"created {home}"
    if not force:
        raise Conflict(
            f"{home}: already exists",
            hint=(Hint("force", "use --force to replace it"), "the old file is kept as a backup"),
        )
    files.target(home, collection.root)  # before the backup: a refusal must leave nothing behind
    before = files.read(home) or ""
    copy = backup(home, collection.root, before)
    files.write(home, template, root=collection.root, expect=before, mode=collection.mode)
    return f"replaced {home}; the old file is {copy}"


def backup(path: Path, root: Path, text: str | None = None) -> Path | None:
    """Back up a file that is about to change, and hide the copy from git.

    Returns the path of the copy, or None if there is no such file.
    """
    from ralph.storage.config import hide_from_git

    copy = files.backup(path, root=root, text=text)
    if copy is not None:
        # A git exclude file that cannot be written must not stop the change.
        with contextlib.suppress(RalphError):
            hide_from_git(path.with_name(f"{path.name}.bak"), root, numbered=True)
    return copy


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
    """Add an entry with the members that most entries have; see `add_entry`."""
    entry = NewEntry(text, kind, tags, in_=in_, title=title, force=force)
    return add_entry(root, entry, context)


def add_entry(root: Path, entry: NewEntry, context: WriteContext = BY_RALPH) -> SavedMemory:
    """Add an entry unless one with the same text exists; knowledge with the same title is updated.

    Knowledge with the same title is updated instead. Raises UsageError for options that the file
    does not support. Raises Refused for a secret, for forgotten text added by an agent, and for
    text that is held for review.
    """
    if names_of([entry.in_]) == ("knowledge",):
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
    is_pattern = entry.in_ == "patterns"

    def make(existing: Sequence[Record]) -> Record:
        if is_pattern:
            from ralph.formats.patterns import as_pattern

            return as_pattern(record)
        name = new_id(collection, MemoryKind(record.kind), existing)
        added_at = ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        extra = {**record.extra, AT: added_at}
        return replace(record, id=name, created_at=added_at[:10], extra=extra)

    def has_same_text(other: Record) -> bool:
        if other.status is Status.RETIRED:
            return False
        return normalise_text(other.text) == normalise_text(record.text)

    may_repeat = entry.force and not is_pattern
    try:
        stored = library.add(collection, make, unless=None if may_repeat else has_same_text)
        saved = SavedMemory(stored, Change.NEW, private_parts)
    except AlreadyThere as there:
        saved = SavedMemory(there.stored, Change.UNCHANGED, private_parts)
    return accept_by_author(root, saved, context)


def _check_options(entry: NewEntry) -> None:
    if entry.title or entry.feature:
        raise UsageError("only knowledge has a title and a feature", hint="use --in knowledge")
    if entry.in_ == ALL:
        raise UsageError("a new entry goes to one file", hint=f"--in {', '.join(NAMES)}")
    if entry.in_ == "patterns" and entry.tags:
        raise UsageError("patterns have no tags", hint="leave out --tags, or --in patterns")


def _new_record(root: Path, entry: NewEntry, context: WriteContext) -> tuple[Record, int]:
    """Return the cleaned and signed record of an entry, and how many private parts it lost."""
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
    """Return an entry signed by an author instead of whoever signed it before."""
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
    return replace(record, origin=replace(record.origin, by=author.by), extra=extra or NO_EXTRA)


def check_author(
    root: Path, record: Record, context: WriteContext, *, in_: str = "", feature: str = ""
) -> None:
    """Hold a new entry for review if it reads like an instruction and was not added by a person.

    Raises Refused if the entry is held.
    """
    from ralph.memory import quarantine

    if context.is_trusted or not quarantine.is_suspicious(record):
        return
    held = quarantine.HeldMemory(
        id="",
        at="",
        text=record.text,
        in_=in_,
        kind=record.kind.value,
        title=record.title,
        feature=feature,
        tags=record.tags,
        by=context.author.by,
        via=context.author.via,
        who=str(record.extra.get(WHO) or ""),
        session=str(record.extra.get(SESSION) or ""),
    )
    raise quarantine.hold(root, held)


def accept_by_author(root: Path, saved: SavedMemory, context: WriteContext) -> SavedMemory:
    """Accept what a person has stored; `is_order` tells if it reads like an instruction."""
    from ralph.memory import quarantine

    record = saved.stored.record
    if not context.is_decided_by_person or not quarantine.is_suspicious(record):
        return saved
    quarantine.remember_accepted(root, record, context.observer)
    return replace(saved, is_order=True)


def check_forgotten(text: str, context: WriteContext) -> None:
    """Refuse a text that was forgotten, unless a person adds it: that undoes the forgetting.

    Raises Refused for any other author, although a person has accepted the text.
    """
    if not forgotten.load().has(text):
        return
    if not context.author.is_trusted:
        raise Refused(
            "this text was forgotten by `ralph forget` and is not stored again",
            hint="a person can restore it with `ralph memory add`",
        )
    if context.is_real:
        forgotten.lift(text)


def new_id(collection: Collection, kind: MemoryKind, existing: Sequence[Record]) -> str:
    """Mint an id that no existing entry has. Call this while the file is locked."""
    taken = {record.id for record in existing}
    while True:
        minted = ids.mint(collection.layout.prefix or kind.value)
        if minted not in taken:
            return minted


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
    collection, before = find(library, name)
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
            changed = _sign(root, changed, author)
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
        same_as = _find_same_text(library, collection, saved.stored.record)
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


def _find_same_text(library: Library, collection: Collection, record: Record) -> str:
    """Return the id of another entry with the same text, or ""."""
    text = normalise_text(record.text)
    for stored in library.read(collection):
        other = stored.record
        if other.id != record.id and normalise_text(other.text) == text:
            return other.id
    return ""


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
            replaced = knowledge.keep_body(root, record, now, observer=observer)
        return replace(after, updated_at=now)

    stored = library.replace(collection, record_id, change_and_date)
    return SavedMemory(stored, Change.UPDATED if changed else Change.UNCHANGED, replaced=replaced)


def archive(
    root: Path, name: str, observer: WriteObserver | None = None, *, status: Status = Status.RETIRED
) -> SavedMemory:
    """Hide an entry from searches, listings and agents.

    The entry stays in its file and keeps its id. Raises Refused for a pattern, which has no status.
    """
    library = Library(root, observer)
    collection, stored = find(library, name)
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
    """Remove an entry from its file. With `expect`, do so only if that is still its text."""
    library = Library(root, observer)
    collection, stored = find(library, name)
    return library.remove(collection, stored.record.id, expect=expect)
