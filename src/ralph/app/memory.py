"""`ralph memory ...`: the entries of every curated file, through one set of verbs.

`in_` names the file: memories, guardrails, patterns, knowledge (`app/knowledge.py`) or personal, which is the user's
and no project's; an id finds its file by itself, also in the projects around this one.
Text is cleaned before anything else sees it; ids and duplicates are decided under the file's lock.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.app.json_shapes import SESSION, VIA, WHO, memory_json
from ralph.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.formats.memories import WHY, render_memories, sort_by_section
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import (
    AT,
    NO_EXTRA,
    Family,
    Link,
    MemoryKind,
    Query,
    Record,
    SearchResult,
    Status,
)
from ralph.store import files, forgotten, lookup
from ralph.store.files import WriteObserver
from ralph.store.library import NAMES, AlreadyThere, Collection, Library, Stored, check_folders

if TYPE_CHECKING:
    import sqlite3

    from ralph.settings import Embedding

ALL = "all"
MEMORIES = ("memories",)
_DEFAULT_KINDS = dict.fromkeys(
    ("memories", "guardrails", "patterns", "personal"), MemoryKind.PATTERN
)
_DEFAULT_KINDS["guardrails"] = MemoryKind.FIX
_PRIME_ORDER = ("guardrails", "memories", "patterns", "knowledge", "personal")
_TRUNCATED = "<!-- truncated: budget exceeded -->"


class Change(StrEnum):
    """What became of an entry."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """The entry as it is stored now, and what changed."""

    stored: Stored
    change: Change
    private_parts: int = 0
    same_as: str = ""  # the id of another entry with the same text
    replaced: str = (
        ""  # the id under which the log keeps the body that a knowledge entry had before
    )
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


class PrimedMemories(NamedTuple):
    """Entries chosen for an agent: the text to inject, the entries in it, and how many there were."""

    text: str
    records: tuple[Record, ...]
    total: int


def names_of(in_: Sequence[str]) -> tuple[str, ...]:
    """Return the collections that names mean; UsageError lists the valid ones."""
    if wrong := [name for name in in_ if name not in (*NAMES, ALL)]:
        raise UsageError(
            f"{wrong[0]!r} is not a memory file", hint=f"one of {', '.join((*NAMES, ALL))}"
        )
    return NAMES if ALL in in_ else tuple(dict.fromkeys(in_))


def kinds_named(names: Sequence[str]) -> tuple[MemoryKind, ...]:
    """Return kinds by their names in any case; UsageError lists the valid ones."""
    valid = {kind.value: kind for kind in MemoryKind}
    if wrong := [name for name in names if name.strip().lower() not in valid]:
        raise UsageError(f"{wrong[0]!r} is not a type", hint=f"valid types: {', '.join(valid)}")
    return tuple(valid[name.strip().lower()] for name in names)


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
    """List entries in file order; with `last`, the newest by the instant they were added; those valid on a day."""
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    library = Library(root)
    everything = [
        stored for name in names_of(in_) for stored in library.read(library.collection(name))
    ]
    if as_of:
        valid = {record.id for record in current([stored.record for stored in everything], as_of)}
        active = (
            each._replace(record=replace(each.record, status=Status.ACCEPTED))
            for each in everything
        )
        everything = [each for each in active if each.record.id in valid]
    entries = [stored for stored in everything if query.accepts(stored.record)]
    if last is None:
        return entries
    entries.sort(key=lambda stored: stored.record.added_at)
    return entries[-last:] if last > 0 else []


def injected(root: Path, in_: str = "memories") -> list[Record]:
    """Return the memories or guardrails that agents get here: the project's, those around it, and personal ones."""
    library = Library(root)
    collections = [each for each in library.enclosing if each.name == in_]
    records = [stored.record for stored in list_(root, in_=(in_,))]
    for collection in [*collections, *([library.personal] if in_ == "memories" else [])]:
        with contextlib.suppress(RalphError):  # a file outside of the project that cannot be read
            records += [
                each.record
                for each in library.read(collection)
                if each.record.status is not Status.RETIRED
            ]
    return records


def show(root: Path, name: str) -> Stored:
    """Return one entry by its full or short id; knowledge also by its title or the name of its file."""
    return find(Library(root), name)[1]


def find(library: Library, name: str) -> tuple[Collection, Stored]:
    """Find an entry and its collection."""
    try:
        return library.find(name)
    except NotFound:
        from ralph.context.knowledge import Titles

        stored = {each.record.id: each for each in library.read(library.knowledge)}
        record = Titles(each.record for each in stored.values()).find(name.removesuffix(".md"))
        if record is None:
            raise
        return library.knowledge, stored[record.id]


def search(
    root: Path,
    query: Query,
    *,
    in_: Sequence[str] = MEMORIES,
    as_of: str = "",
    embedding: Embedding | None = None,
    warn: Callable[[str], None] | None = None,
) -> tuple[SearchResult, list[Stored]]:
    """Return the best entries for a query (of those valid on a day, without archived ones), and where each is."""
    from ralph.app import index, meaning, outdated
    from ralph.search import rank
    from ralph.store import queries
    from ralph.store.sources import source_names

    library = Library(root)
    paths_in = [
        path for name in names_of(in_) for path in library.files_of(library.collection(name))
    ]
    name_of = source_names(root)
    names = {name_of(path): path for path in paths_in}
    query = replace(query, sources=tuple(names), families=(Family.MEMORY,))

    def ask(connection: sqlite3.Connection) -> tuple[SearchResult, list[Stored]]:
        near = (
            None
            if embedding is None
            else meaning.meaning_for(root, embedding, connection, query, warn)
        )
        asked = replace(query, limit=None) if as_of else query
        result = rank.search(connection, asked, today=ids.now().date(), meaning=near)
        if as_of:
            valid = {stored.record.id for stored in list_(root, in_=in_, as_of=as_of)}
            hits = tuple(hit for hit in result.hits if hit.record.id in valid)
            result = replace(result, hits=hits[: query.limit], total=len(hits))
        notes = outdated.describe_outdated(connection, [hit.record for hit in result.hits])
        result = replace(result, hits=outdated.demote_outdated(result.hits, notes))
        stored: dict[int, Stored] = {}  # by row: several records may have one id
        for record in (hit.record for hit in result.hits):
            keys = queries.keys_of(connection, record.id, replace(query, text=""))
            records = queries.records(connection, [key for key in keys if key not in stored])
            key = next((key for key in records if records[key] == record), next(iter(records)))
            name, line = queries.locations(connection, [key])[key]
            stored[key] = Stored(record, names[name], line)
        return result, list(stored.values())

    return index.ask(root, ask) if names else (SearchResult((), 0), [])


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
    """Choose whole entries within a budget (0: no limit), as `markdown` or `json`; guardrails come first."""
    from ralph.app import quarantine
    from ralph.context import budget as budgets
    from ralph.context import tokens

    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=ids.first_day(recent))
    library = Library(root)
    may_inject = quarantine.injectable(root)
    names = names_of(in_)
    primed = empty = PrimedMemories("", (), 0)
    chosen: dict[Collection, list[Record]] = {}
    for collection in map(library.collection, [name for name in _PRIME_ORDER if name in names]):
        records = [stored.record for stored in list_(root, in_=(collection.name,), as_of=as_of)]
        records = records if as_of else current(records)
        chosen[collection] = [
            record for record in records if query.accepts(record) and may_inject(record)
        ]
    for collection, records in chosen.items():
        room = budget
        if collection.name == "guardrails" and budget:
            costs = [
                tokens.estimate(_fit(each, chosen[each], 0, form, empty).text) for each in chosen
            ]
            room = budgets.guardrails_budget(budget, costs[0], sum(costs[1:]))
        primed = _fit(collection, records, room, form, primed)
    return primed


def _fit(
    collection: Collection,
    records: Sequence[Record],
    budget: int,
    form: str,
    before: PrimedMemories,
) -> PrimedMemories:
    from ralph.context import budget as budgets
    from ralph.context import knowledge

    is_knowledge = collection.name == "knowledge"
    by_time = records if is_knowledge else sorted(records, key=lambda record: record.added_at)
    plain = []  # as agents are given them: without their instants, names and reasons
    for record in by_time:
        extra = {
            name: value
            for name, value in record.extra.items()
            if name not in (AT, WHO, SESSION, WHY)
        }
        plain.append(replace(record, updated_at=record.updated_at[:10], extra=extra))
    ordered = plain if is_knowledge else list(sort_by_section(plain, collection.layout.kinds))

    def render(rows: tuple[int, ...], omitted: int) -> str:
        chosen = [ordered[row] for row in rows]
        if form == "json":
            everything = [memory_json(record) for record in (*before.records, *chosen)]
            return json.dumps(everything, ensure_ascii=False, indent=2) + "\n"
        text = (
            knowledge.render(chosen, 0)
            if is_knowledge
            else render_memories(chosen, collection.layout.kinds)
        )
        where = "" if collection.name == "memories" else f" --in {collection.name}"
        note = f"{len(rows)} of {len(ordered)} shown; more: ralph memory search{where}"
        parts = [before.text, text, f"{_TRUNCATED}\n<!-- {note} -->\n" if omitted else ""]
        return "\n".join(part for part in parts if part)

    text, shown = budgets.fit(ordered, budget, render)
    chosen = before.records + tuple(ordered[row] for row in shown)
    return PrimedMemories(text or before.text, chosen, before.total + len(ordered))


def predecessors(record: Record) -> list[str]:
    """Return the ids of the entries whose place an entry takes."""
    return [link.target for link in record.links if link.relation == "supersedes"]


def successors(records: Sequence[Record]) -> Mapping[str, str]:
    """Return which entry supersedes which, by the old one's id."""
    return lookup.replaced((record.id, old) for record in records for old in predecessors(record))


def current(records: Sequence[Record], as_of: str = "") -> list[Record]:
    """Leave out what is out of date or superseded; entries that supersede each other in a circle all stay.

    With a day, what was valid then: an archived entry up to its archiving, a superseded one until it was superseded.
    """
    day = as_of[:10] or ids.today()
    replaced = successors(records)
    by_id = {record.id: record for record in records}

    def is_valid(record: Record) -> bool:
        if record.valid_until and record.valid_until < day:
            return False
        if not as_of:
            return record.id not in replaced
        ends = [record.updated_at] if record.status is Status.RETIRED else []
        if record.id in replaced:
            ends.append(record.valid_until or by_id[replaced[record.id]].created_at)
        return record.created_at[:10] <= day and all(day < end[:10] for end in ends)

    return [record for record in records if is_valid(record)]


# --- writing -----------------------------------------------------------------------------------


def init(root: Path, in_: str = "memories", *, force: bool = False) -> str:
    """Create a memory file; over an existing one only by force, which keeps a backup. Returns what was done."""
    from ralph.formats.pages import patterns_template

    names_of([in_])
    if in_ not in _DEFAULT_KINDS:
        raise UsageError(
            f"{in_} needs no file", hint=f"ralph memory init --in {', '.join(_DEFAULT_KINDS)}"
        )
    collection = Library(root).collection(in_)
    home = collection.home
    check_folders(home, collection.root)
    template = patterns_template() if in_ == "patterns" else collection.layout.template()
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=collection.root, expect="", mode=collection.mode)
        return f"made {home}"
    if not force:
        raise Conflict(
            f"{home}: is already there",
            hint="use --force to start anew; the old file is kept as a backup",
        )
    files.target(home, collection.root)  # before the copy: what is refused leaves nothing behind
    before = files.read(home) or ""
    copy = backup(home, collection.root, before)
    files.write(home, template, root=collection.root, expect=before, mode=collection.mode)
    return f"made {home} anew; the old one is {copy}"


def backup(path: Path, root: Path, text: str | None = None) -> Path | None:
    """Copy a file that is about to change, and ignore the copy in git; None if there is no file."""
    from ralph.app.config import hide_from_git

    if (copy := files.backup(path, root=root, text=text)) is not None:
        with contextlib.suppress(
            RalphError
        ):  # a git exclude file that cannot be written must not stop the change
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
    feature: str = "",
    by: str = "",
    via: str = "",
    force: bool = False,
    allow_secret: bool = False,
    accepted: bool = False,  # a person has read what somebody else (`by`, `signed`) wants to add
    signed: Mapping[str, str] | None = None,
    links: tuple[Link, ...] = (),
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> SavedMemory:
    """Add an entry unless one with the same text exists; knowledge of the same title is updated instead."""
    from ralph.capture.privacy import clean_memory, clean_tags

    if names_of([in_]) == ("knowledge",):
        from ralph.app import knowledge

        options: dict[str, Any] = {
            "allow_secret": allow_secret,
            "accepted": accepted,
            "signed": signed,
        }
        return knowledge.add(
            root, title, text, tags, kind, feature, by, via, patterns, observer=observer, **options
        )
    if title or feature:
        raise UsageError("only knowledge has a title and a feature", hint="use --in knowledge")
    if in_ == ALL or (in_ == "patterns" and tags):
        what = "a new entry goes to one file" if in_ == ALL else "patterns have no tags"
        raise UsageError(
            what,
            hint=f"--in {', '.join(NAMES)}" if in_ == ALL else "leave out --tags, or --in patterns",
        )
    text, private = clean_memory(text, tags, allow_secret=allow_secret, patterns=patterns)
    check_forgotten(text, by, observer)
    kind = kind or _DEFAULT_KINDS[in_]
    collection = (library := Library(root, observer)).collection(in_)
    new = Record("", kind, text, label=kind.value, tags=clean_tags(tags), links=links)
    record = _sign(root, new, by, via, signed)
    check_author(root, record, "human" if accepted else by, via=via, in_=in_)

    def make(existing: Sequence[Record]) -> Record:
        if in_ == "patterns":
            from ralph.formats.pages import as_pattern

            return as_pattern(record)
        name = new_id(collection, kind, existing)
        at = ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return replace(record, id=name, created_at=at[:10], extra={**record.extra, AT: at})

    def has_same_text(other: Record) -> bool:
        return other.status is not Status.RETIRED and normalise_text(other.text) == normalise_text(
            text
        )

    unless = None if force and in_ != "patterns" else has_same_text
    try:
        saved = SavedMemory(library.add(collection, make, unless=unless), Change.NEW, private)
    except AlreadyThere as there:
        saved = SavedMemory(there.stored, Change.UNCHANGED, private)
    return accept_by_author(root, saved, "human" if accepted else by, observer)


def _sign(
    root: Path, record: Record, by: str, via: str = "", signed: Mapping[str, str] | None = None
) -> Record:
    """Return an entry with who says it now: the caller, unless somebody else is given."""
    from ralph.app.quarantine import signature

    names = {
        WHO: "",
        SESSION: "",
        **({VIA: via} if via else {}),
        **(signature(root, by) if signed is None else signed),
    }
    extra = {
        name: value
        for name, value in {**record.extra, **names}.items()
        if value or name not in names
    }
    return replace(record, origin=replace(record.origin, by=by), extra=extra or NO_EXTRA)


def check_author(
    root: Path, record: Record, by: str, *, via: str = "", in_: str = "", feature: str = ""
) -> None:
    """Hold a new entry for review (Refused) if no person adds it and it reads like an instruction to an agent."""
    from ralph.app import quarantine

    if by in ("", "human") or not quarantine.is_suspicious(record):
        return
    kind, who, session = (
        record.kind.value,
        *(str(record.extra.get(name) or "") for name in (WHO, SESSION)),
    )
    about = (record.text, in_, kind, record.title, feature, record.tags, by, via, who, session)
    raise quarantine.hold(root, quarantine.HeldMemory("", "", *about))


def accept_by_author(
    root: Path, saved: SavedMemory, by: str, observer: WriteObserver | None = None
) -> SavedMemory:
    """Accept what a person has stored; the result says whether it reads like an instruction to an agent."""
    from ralph.app import quarantine

    if by != "human" or not quarantine.is_suspicious(saved.stored.record):
        return saved
    quarantine.remember_accepted(root, saved.stored.record, observer)
    return replace(saved, is_order=True)


def check_forgotten(text: str, by: str, observer: WriteObserver | None = None) -> None:
    """Refuse a text that was forgotten, unless a person adds it: then it is forgotten no longer."""
    if not forgotten.load().has(text):
        return
    if by not in ("", "human"):
        hint = "`ralph memory add` by a person takes it back"
        raise Refused(
            "this text was forgotten by `ralph forget` and is not stored again", hint=hint
        )
    if observer is None or observer.real:
        forgotten.lift(text)


def new_id(collection: Collection, kind: MemoryKind, existing: Sequence[Record]) -> str:
    """Mint an id that no entry has; called under the lock."""
    taken = {record.id for record in existing}
    while (minted := ids.mint(collection.layout.prefix or kind.value)) in taken:
        pass
    return minted


def edit(
    root: Path,
    name: str,
    *,
    text: str | None = None,
    title: str | None = None,
    kind: MemoryKind | None = None,
    tags: Sequence[str] | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
    expect: str | None = None,
    by: str = "",
    via: str = "",
    observer: WriteObserver | None = None,
) -> SavedMemory:
    """Change an entry's text, title, kind or tags, and nothing else; Conflict when its text is no longer `expect`."""
    from ralph.app import quarantine
    from ralph.capture.privacy import clean_memory, clean_tags, clean_title, count_private_tags
    from ralph.formats.knowledge import shorten

    collection, before = find(library := Library(root, observer), name)
    is_knowledge = collection.name == "knowledge"
    if title is not None and not is_knowledge:
        raise UsageError(f"{before.record.id} has no title", hint="only knowledge has one")
    if tags and collection.name == "patterns":
        raise UsageError("patterns have no tags", hint="leave --tags out")
    members: dict[str, Any] = {} if kind is None else {"kind": kind}
    private = 0
    shortened = False
    if text is not None:
        public, private = clean_memory(text, allow_secret=allow_secret, patterns=patterns)
        text = members["text"] = shorten(public) if is_knowledge else public
        shortened = text != public
    if title is not None:
        clean = clean_title(title, allow_secret=allow_secret, patterns=patterns)
        members["title"] = clean.text
        private = private + clean.private
    if tags is not None:
        private += count_private_tags(tags, allow_secret=allow_secret, patterns=patterns)
        members["tags"] = clean_tags(tags)
        if not members["tags"] and (tags or is_knowledge):
            why = (
                "a knowledge entry without a tag would never be found"
                if is_knowledge
                else "no tag is left"
            )
            raise Refused(
                why, hint="name a tag, or pass an empty string to remove the tags of a memory"
            )

    def change(record: Record) -> Record:
        if expect is not None and record.text != expect:
            if text == expect:
                return record
            raise Conflict(
                f"{record.id}: changed in its file while it was being edited",
                hint="nothing was stored",
            )
        changed = replace(record, **members)
        changed = _sign(root, changed, by) if by and changed.text != record.text else changed
        if by not in ("", "human") and changed != record and quarantine.is_suspicious(changed):
            what = f"{record.id} would read like an instruction to an agent: nothing was changed"
            raise Refused(what, hint="only a person at a terminal can store that")
        return (
            replace(changed, extra={**changed.extra, VIA: via})
            if via and changed != record
            else changed
        )

    saved = change_entry(root, library, collection, before.record.id, change, observer)
    saved = accept_by_author(root, saved, by, observer)
    others = (
        [each.record for each in library.read(collection)]
        if text is not None and saved.changed
        else []
    )
    name = saved.stored.record.id
    normal = normalise_text(saved.stored.record.text)
    same = (
        other.id for other in others if other.id != name and normalise_text(other.text) == normal
    )
    return replace(saved, private_parts=private, same_as=next(same, ""), shortened=shortened)


def change_entry(
    root: Path,
    library: Library,
    collection: Collection,
    record_id: str,
    change: Callable[[Record], Record],
    observer: WriteObserver | None,
) -> SavedMemory:
    """Change an entry under the lock and date the change; a body that knowledge loses is kept in the log first."""
    from ralph.app import knowledge

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
        now = ids.timestamp(
            precision="seconds" if is_knowledge else "microseconds"
        )  # it decides in a merge
        if is_knowledge and after.text.strip() != record.text.strip():
            replaced = knowledge.keep_body(root, record, now, observer=observer)
        return replace(after, updated_at=now)

    stored = library.replace(collection, record_id, change_and_date)
    return SavedMemory(stored, Change.UPDATED if changed else Change.UNCHANGED, replaced=replaced)


def archive(
    root: Path, name: str, observer: WriteObserver | None = None, *, status: Status = Status.RETIRED
) -> SavedMemory:
    """Hide an entry from searches, listings and agents; it stays in its file and is shown by its id."""
    library = Library(root, observer)
    collection, stored = find(library, name)
    if collection.name == "patterns":
        raise Refused(
            "a pattern cannot be archived",
            hint=f"`ralph memory delete {stored.record.id}` removes it",
        )
    name = stored.record.id
    return change_entry(
        root, library, collection, name, lambda record: replace(record, status=status), observer
    )


def unarchive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Take an archived entry into use again."""
    return archive(root, name, observer, status=Status.ACCEPTED)


def delete(
    root: Path, name: str, *, expect: str | None = None, observer: WriteObserver | None = None
) -> Stored:
    """Remove an entry from its file; with `expect`, only if its text is still that one."""
    library = Library(root, observer)
    collection, stored = find(library, name)
    return library.remove(collection, stored.record.id, expect=expect)
