"""`ralph memory ...`: the entries of every curated file, through one set of verbs.

`in_` names the file: memories (`.agent/memories.md`), guardrails (`.ralph/guardrails.md`), patterns
(`.ralph/global-patterns.md`) or knowledge (`.ralph/knowledge/`, one file each; see `app/knowledge.py`). An id finds its
file by itself. Text is cleaned before anything else sees it; ids and duplicates are decided under the file's lock.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app.json_shapes import VIA, memory_json
from ralph.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.formats.memories import render_memories, sort_by_section
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.query import Query, SearchResult
from ralph.model.record import NO_EXTRA, Family, MemoryKind, Origin, Record, Status
from ralph.store import files, lookup, queries
from ralph.store.dry_run import WriteObserver
from ralph.store.library import NAMES, AlreadyThere, Collection, Library, Stored, check_folders

if TYPE_CHECKING:
    import sqlite3

ALL = "all"
MEMORIES = ("memories",)
TRUNCATED = "<!-- truncated: budget exceeded -->"
DEFAULT_KINDS = {
    "memories": MemoryKind.PATTERN,
    "guardrails": MemoryKind.FIX,
    "patterns": MemoryKind.PATTERN,
    "knowledge": MemoryKind.CONTEXT,
}
"""What a new entry is unless its author says otherwise."""
_PRIME_ORDER = ("guardrails", "memories", "patterns", "knowledge")
_INIT_TRIES = 20


class Change(StrEnum):
    """What became of an entry."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """The entry as it is stored now, and what changed.

    `same_as` is the id of another entry with the same text; `replaced` the id under which the log keeps the body that
    a knowledge entry had before.
    """

    stored: Stored
    change: Change
    private_parts: int = 0
    same_as: str = ""
    replaced: str = ""
    shortened: bool = False

    @property
    def is_new(self) -> bool:
        """Whether the entry was added."""
        return self.change is Change.NEW

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.change is not Change.UNCHANGED


@dataclass(frozen=True, slots=True)
class PrimedMemories:
    """Entries chosen for an agent: the text to inject, the entries in it, and how many there were."""

    text: str
    records: tuple[Record, ...]
    total: int


def names_of(in_: Sequence[str]) -> tuple[str, ...]:
    """Return the collections that names mean; UsageError lists the valid ones."""
    wrong = [name for name in in_ if name not in (*NAMES, ALL)]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a memory file", hint=f"one of {', '.join((*NAMES, ALL))}")
    return NAMES if ALL in in_ else tuple(dict.fromkeys(in_))


def kinds_named(names: Sequence[str]) -> tuple[MemoryKind, ...]:
    """Return kinds by their names in any case; UsageError lists the valid ones."""
    valid = {kind.value: kind for kind in MemoryKind}
    wrong = [name for name in names if name.strip().lower() not in valid]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a type", hint=f"valid types: {', '.join(valid)}")
    return tuple(valid[name.strip().lower()] for name in names)


# --- reading -----------------------------------------------------------------------------------


def list_(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    feature: str = "",
    last: int | None = None,
) -> list[Stored]:
    """List entries in file order; with `last`, the newest by date, then by the time in their ids."""
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    library = Library(root)
    entries = [stored for name in names_of(in_) for stored in library.read(library.collection(name))]
    entries = [stored for stored in entries if query.accepts(stored.record)]
    if feature.strip():
        from ralph.app import feature as features

        names = features.names(root, feature)
        entries = [stored for stored in entries if str(stored.record.extra.get("feature", "")) in names]
    if last is None:
        return entries
    oldest_first = sorted(entries, key=lambda stored: (stored.record.created_at, _milliseconds(stored.record.id)))
    return oldest_first[-last:] if last > 0 else []


def _milliseconds(record_id: str) -> int:
    """Return the time in an id, or 0 when it has none that makes sense."""
    match = ids.ID.fullmatch(record_id) if ids.date_of(record_id) else None
    if match is None:
        return 0
    return int(match["unix"]) * (1 if len(match["unix"]) == len("1700000000000") else 1000)


def show(root: Path, name: str) -> Stored:
    """Return one entry by its full or short id; knowledge also by its title or the name of its file."""
    return find(Library(root), name)[1]


def find(library: Library, name: str) -> tuple[Collection, Stored]:
    """Find an entry and its collection."""
    try:
        return library.find(name)
    except NotFound as error:
        from difflib import get_close_matches

        from ralph.context.knowledge import Titles

        stored = {each.record.id: each for each in library.read(library.knowledge)}
        record = Titles(each.record for each in stored.values()).find(name.removesuffix(".md"))
        if record is not None:
            return library.knowledge, stored[record.id]
        titles = {known.casefold(): known for each in stored.values() for known in (each.record.title, each.record.id)}
        close = get_close_matches(name.casefold(), titles, n=1)
        raise NotFound(error.message, hint=f"did you mean {titles[close[0]]!r}?" if close else error.hint) from None


def short_ids(root: Path, in_: Sequence[str] = MEMORIES) -> dict[str, str]:
    """Return the short form of the id of every entry of these files; no kind of id is in two of them."""
    library = Library(root)
    return ids.short_ids(
        stored.record.id for name in names_of(in_) for stored in library.read(library.collection(name))
    )


def search(root: Path, query: Query, *, in_: Sequence[str] = MEMORIES) -> tuple[SearchResult, list[Stored]]:
    """Return the best entries for a query, and where each is stored."""
    from ralph.app import index, outdated
    from ralph.search import engine
    from ralph.store.sources import source_name

    library = Library(root)
    paths_in = [path for name in names_of(in_) for path in library.files_of(library.collection(name))]
    names = {source_name(path, root): path for path in paths_in}
    query = replace(query, sources=tuple(names), families=(Family.MEMORY,))

    def ask(connection: "sqlite3.Connection") -> tuple[SearchResult, list[Stored]]:
        found = engine.search(connection, query, today=ids.now().date())
        past = outdated.describe_outdated(connection, [hit.record for hit in found.hits])
        found = replace(found, hits=outdated.demote_outdated(found.hits, past))
        taken: set[int] = set()
        return found, [_source(connection, hit.record, query, names, taken) for hit in found.hits]

    return index.ask(root, ask) if names else (SearchResult((), 0), [])


def _source(
    connection: "sqlite3.Connection", record: Record, query: Query, names: Mapping[str, Path], taken: set[int]
) -> Stored:
    """Return where a hit is stored; of several records with one id, each once, those with the same text first."""
    keys = [key for key in queries.keys_of(connection, record.id, replace(query, text="")) if key not in taken]
    records = queries.records(connection, keys)
    key = next((key for key in keys if records.get(key) == record), keys[0])
    taken.add(key)
    name, line = queries.locations(connection, [key])[key]
    return Stored(record, names[name], line)


def prime(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
) -> PrimedMemories:
    """Choose whole entries for an agent within a budget of tokens (0: no limit); `form` is `markdown` or `json`.

    Guardrails come first and take at most half of the budget when there is more than them.
    """
    from ralph.context import budget as budgets
    from ralph.context import tokens

    today = ids.now().date()
    since = (today - timedelta(days=min(recent, today.toordinal() - 1))).isoformat() if recent > 0 else ""
    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=since)
    library = Library(root)
    names = names_of(in_)
    primed = PrimedMemories("", (), 0)
    for name in [name for name in _PRIME_ORDER if name in names]:
        collection = library.collection(name)
        records = current([stored.record for stored in library.read(collection)])
        records = [record for record in records if query.accepts(record)]
        room = budget
        if name == "guardrails" and len(names) > 1:
            room, _ = budgets.split_budget(budget, tokens.estimate(_fit(collection, records, 0, form, primed).text))
        primed = _fit(collection, records, room, form, primed)
    return primed


def _fit(
    collection: Collection, records: Sequence[Record], budget: int, form: str, before: PrimedMemories
) -> PrimedMemories:
    """Append as many entries of a collection to what was chosen before as the budget allows."""
    from ralph.context import budget as budgets
    from ralph.context import knowledge, tokens

    is_knowledge = collection.name == "knowledge"
    ordered = list(records) if is_knowledge else list(sort_by_section(records, collection.layout.kinds))

    def markdown(kept: tuple[int, ...], omitted: int) -> str:
        chosen = [ordered[row] for row in kept]
        text = knowledge.render(chosen, 0).text if is_knowledge else render_memories(chosen, collection.layout.kinds)
        where = "" if collection.name == "memories" else f" --in {collection.name}"
        note = f"{len(kept)} of {len(ordered)} shown; more: ralph memory search{where}"
        parts = [before.text, text, f"{TRUNCATED}\n<!-- {note} -->\n" if omitted else ""]
        return "\n".join(part for part in parts if part)

    def as_json(kept: tuple[int, ...], omitted: int) -> str:
        return json_array([*before.records, *(ordered[row] for row in kept)])

    if form == "json":
        costs = [tokens.estimate(json_array([record])) for record in ordered] if budget else None
        text, selection = budgets.fit(ordered, budget, as_json, costs)
    else:
        text, selection = budgets.fit(ordered, budget, markdown)
    chosen = before.records + tuple(ordered[row] for row in selection.kept)
    return PrimedMemories(text or before.text, chosen, before.total + len(ordered))


def json_array(records: Sequence[Record]) -> str:
    """Return records as a JSON array; valid when there are none."""
    return json.dumps([memory_json(record) for record in records], ensure_ascii=False, indent=2) + "\n"


def current(records: Sequence[Record]) -> list[Record]:
    """Leave out what is out of date or superseded; entries that supersede each other in a circle all stay."""
    today = ids.today()
    pairs = [(record.id, link.target) for record in records for link in record.links if link.relation == "supersedes"]
    replaced = lookup.replaced(pairs)
    return [
        record
        for record in records
        if record.id not in replaced and not (record.valid_until and record.valid_until < today)
    ]


# --- writing -----------------------------------------------------------------------------------


def init(root: Path, in_: str = "memories", *, force: bool = False) -> str:
    """Create a memory file; over an existing one only by force, which keeps a backup. Returns what was done."""
    library = Library(root)
    names_of([in_])
    if in_ not in ("memories", "guardrails", "patterns"):
        raise UsageError(f"{in_} needs no file", hint="ralph memory init --in memories, guardrails or patterns")
    collection = library.collection(in_)
    home = collection.home
    check_folders(home, collection.root)
    template = _template(collection)
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=collection.root, expect="")
        return f"made {home}"
    if not force:
        raise Conflict(f"{home}: is already there", hint="use --force to start anew; the old file is kept as a backup")
    files.target(home, collection.root)  # before the copy: what is refused leaves nothing behind
    for _ in range(_INIT_TRIES):
        before = files.read(home) or ""
        with contextlib.suppress(Conflict):  # another program wrote after the copy: copy that, too, and try again
            copy = backup(home, collection.root, before)
            files.write(home, template, root=collection.root, expect=before)
            return f"made {home} anew; the old one is {copy}"
    raise Conflict(f"{home}: keeps changing", hint="end the program that writes it, and run again")


def _template(collection: Collection) -> str:
    from ralph.formats.pages import patterns_template

    return patterns_template() if collection.name == "patterns" else collection.layout.template()


def backup(path: Path, root: Path, text: str | None = None) -> Path | None:
    """Copy a file that is about to change, and ignore the copy in git; None if there is no file."""
    from ralph.app.config import hide_from_git

    copy = files.backup(path, root=root, text=text)
    if copy is not None:
        with contextlib.suppress(RalphError):  # a git exclude file that cannot be written must not stop the change
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
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> SavedMemory:
    """Add an entry unless one with the same text exists; knowledge of the same title is updated instead.

    `by` says whose words they are (human or agent) and `via` which way they came.
    """
    from ralph.app.text_cleaning import clean_tags, clean_text

    if names_of([in_]) == ("knowledge",):
        from ralph.app import knowledge

        return knowledge.add(
            root, title, text, tags, kind=kind or MemoryKind.CONTEXT, feature=feature, by=by, via=via,
            allow_secret=allow_secret, patterns=patterns, observer=observer,
        )  # fmt: skip
    if title or feature:
        raise UsageError("only knowledge has a title and a feature", hint="use --in knowledge")
    if in_ == ALL:
        raise UsageError("a new entry goes to one file", hint=f"--in {', '.join(NAMES)}")
    if in_ == "patterns" and tags:
        raise UsageError("patterns have no tags", hint="leave --tags out, or use --in memories")
    text, private = clean_text(text, tags, allow_secret=allow_secret, patterns=patterns)
    kind = kind or DEFAULT_KINDS[in_]
    library = Library(root, observer)
    collection = library.collection(in_)
    extra = {VIA: via} if via else NO_EXTRA
    record = Record("", kind, text, label=kind.value, tags=clean_tags(tags), origin=Origin(by=by), extra=extra)
    normal = normalise_text(text)

    def make(existing: Sequence[Record]) -> Record:
        if in_ == "patterns":
            from ralph.formats.pages import as_pattern

            return as_pattern(record)
        return replace(record, id=new_id(collection, kind, existing), created_at=ids.today())

    def has_same_text(other: Record) -> bool:
        return other.status is not Status.RETIRED and normalise_text(other.text) == normal

    unless = None if force and in_ != "patterns" else has_same_text
    try:
        return SavedMemory(library.add(collection, make, unless=unless), Change.NEW, private)
    except AlreadyThere as there:
        return SavedMemory(there.stored, Change.UNCHANGED, private)


def new_id(collection: Collection, kind: MemoryKind, existing: Sequence[Record]) -> str:
    """Mint an id that no entry has; called under the lock."""
    taken = {record.id for record in existing}
    while (minted := ids.mint(collection.layout.id_prefix(kind))) in taken:
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
    """Change an entry's text, title, kind or tags, and nothing else of it or of its file.

    `expect` is the text that was shown to the editor: Conflict when the entry has another one by now.
    """
    from ralph.app.text_cleaning import clean_text, clean_title

    library = Library(root, observer)
    collection, before = find(library, name)
    is_knowledge = collection.name == "knowledge"
    if title is not None and not is_knowledge:
        raise UsageError(f"{before.record.id} has no title", hint="only knowledge has one")
    if tags and collection.name == "patterns":
        raise UsageError("patterns have no tags", hint="leave --tags out")
    private, shortened = 0, False
    if text is not None:
        text, private = clean_text(text, allow_secret=allow_secret, patterns=patterns)
    if title is not None:
        clean = clean_title(title, allow_secret=allow_secret, patterns=patterns)
        title, private = clean.text, private + clean.private
    new_tags, private_tags = _edited_tags(tags, is_knowledge, allow_secret, patterns)
    if is_knowledge and text is not None:
        from ralph.formats.knowledge import shorten

        given, text = text, shorten(text)
        shortened = text != given

    def change(record: Record) -> Record:
        if expect is not None and record.text != expect:
            if text == expect:
                return record
            raise Conflict(f"{record.id}: changed in its file while it was being edited", hint="nothing was stored")
        changed = replace(
            record,
            text=record.text if text is None else text,
            title=record.title if title is None else title,
            kind=record.kind if kind is None else kind,
            tags=record.tags if new_tags is None else new_tags,
        )
        if by and changed.text != record.text:
            changed = replace(changed, origin=replace(changed.origin, by=by))
        return replace(changed, extra={**changed.extra, VIA: via}) if via and changed != record else changed

    saved = _change(root, library, collection, before.record.id, change, observer)
    same = _same_text(library, collection, saved.stored.record) if text is not None and saved.changed else ""
    return replace(saved, private_parts=private + private_tags, same_as=same, shortened=shortened)


def _edited_tags(
    tags: Sequence[str] | None, is_knowledge: bool, allow_secret: bool, patterns: Sequence[str]
) -> tuple[tuple[str, ...] | None, int]:
    """Return the new tags (None: as they are) and their private parts; Refused when none is left."""
    from ralph.app.text_cleaning import clean_tags, count_private_tags

    if tags is None:
        return None, 0
    private = count_private_tags(tags, allow_secret=allow_secret, patterns=patterns)
    new_tags = clean_tags(tags)
    if is_knowledge and not new_tags:
        raise Refused("a knowledge entry without a tag would never be found", hint="leave at least one")
    if tags and not new_tags:
        why = " once the private parts are removed" if private else ""
        raise Refused(f"no tag is left{why}", hint="name a tag, or pass an empty string to remove the tags")
    return new_tags, private


def _change(
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
    changed, replaced = False, ""

    def dated(record: Record) -> Record:
        nonlocal changed, replaced
        after = change(record)
        if is_knowledge:
            after = knowledge.as_stored(after)
        changed, replaced = after != record, ""
        if not changed or collection.name == "patterns":
            return after
        now = ids.timestamp() if is_knowledge else ids.today()
        if is_knowledge and after.text.strip() != record.text.strip():
            replaced = knowledge.keep_body(root, record, now, observer=observer)
        return replace(after, updated_at=now)

    stored = library.replace(collection, record_id, dated)
    return SavedMemory(stored, Change.UPDATED if changed else Change.UNCHANGED, replaced=replaced)


def _same_text(library: Library, collection: Collection, record: Record) -> str:
    """Return the id of another entry with the same text, or ""."""
    normal = normalise_text(record.text)
    others = (stored.record for stored in library.read(collection) if stored.record.id != record.id)
    return next((other.id for other in others if normalise_text(other.text) == normal), "")


def archive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Hide an entry from searches, listings and agents; it stays in its file and is shown by its id."""
    return _set_status(root, name, Status.RETIRED, observer)


def unarchive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Take an archived entry into use again."""
    return _set_status(root, name, Status.ACCEPTED, observer)


def _set_status(root: Path, name: str, status: Status, observer: WriteObserver | None) -> SavedMemory:
    library = Library(root, observer)
    collection, stored = find(library, name)
    if collection.name == "patterns":
        raise Refused("a pattern cannot be archived", hint=f"`ralph memory delete {stored.record.id}` removes it")
    return _change(root, library, collection, stored.record.id, lambda record: replace(record, status=status), observer)


def delete(root: Path, name: str, *, expect: str | None = None, observer: WriteObserver | None = None) -> Stored:
    """Remove an entry from its file; with `expect`, only if its text is still that one."""
    library = Library(root, observer)
    collection, stored = find(library, name)
    return library.remove(collection, stored.record.id, expect=expect)
