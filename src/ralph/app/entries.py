"""The verbs that memories and guardrails share: one implementation, two shelves.

`app/memory.py` and `app/guardrails.py` name the shelf; everything else is here. Text is cleaned
by `capture/privacy.py` before anything else sees it, ids and duplicates are decided under the
file's lock, and every verb returns values: printing is the adapters' business.
"""

import contextlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from ralph.errors import Conflict, RalphError, Refused, UsageError
from ralph.formats.memories import render_memories, sort_by_section
from ralph.model import ids
from ralph.model.query import Query, SearchResult
from ralph.model.record import NO_EXTRA, MemoryKind, Origin, Record, Status
from ralph.store import files, lookup
from ralph.store.library import AlreadyThere, Library, Shelf, Stored, check_folders

TRUNCATED = "<!-- truncated: budget exceeded -->"
VIA = "via"
"""The member of `extra` that says which way an entry came, when it was not the command line."""
_INIT_TRIES = 20


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` did: the new entry, or the one that already says so."""

    stored: Stored
    is_new: bool
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class Edited:
    """What `edit` did: the entry as it now stands, whether that is new, and how many private parts were left out.

    `same_as` is the id of another entry that already says what this one now says.
    """

    stored: Stored
    changed: bool
    private_parts: int = 0
    same_as: str = ""


@dataclass(frozen=True, slots=True)
class Primed:
    """Entries chosen for an agent: the text to hand over and the entries behind it."""

    text: str
    records: tuple[Record, ...]
    total: int


def init(library: Library, shelf: Shelf, *, force: bool = False) -> str:
    """Make the shelf's file; over an existing one only by force, which keeps a backup. Says what was done."""
    home = shelf.home
    check_folders(home, shelf.root)
    template = shelf.layout.template()
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=shelf.root, expect="")
        return f"made {home}"
    if not force:
        raise Conflict(f"{home}: is already there", hint="use --force to start anew; the old file is kept as a backup")
    files.target(home, shelf.root)  # before the copy: what is refused leaves nothing behind
    for _ in range(_INIT_TRIES):
        before = files.read(home) or ""
        with contextlib.suppress(Conflict):  # somebody wrote after the copy: copy that, too, and try again
            copy = backup(home, shelf.root, before)
            files.write(home, template, root=shelf.root, expect=before)
            return f"made {home} anew; the old one is {copy}"
    raise Conflict(f"{home}: keeps changing", hint="end the program that writes it, and run again")


def backup(path: Path, root: Path, text: str | None = None) -> Path | None:
    """A copy of a file that is about to change, kept out of git; None if there is no file."""
    from ralph.app.config import hide_from_git  # noqa: PLC0415  (listing does not pay for it)

    copy = files.backup(path, root=root, text=text)
    if copy is not None:
        with contextlib.suppress(RalphError):  # a list of git's that cannot be written stops nobody
            hide_from_git(path.with_name(f"{path.name}.bak"), root, numbered=True)
    return copy


def add(
    library: Library,
    shelf: Shelf,
    text: str,
    kind: MemoryKind,
    tags: Sequence[str] = (),
    *,
    by: str = "",
    via: str = "",
    force: bool = False,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Added:
    """Keep a new entry at the end of its section, unless one already says the same; `via` says which way it came."""
    from ralph.formats.text import normalise_text  # noqa: PLC0415  (listing does not pay for it)

    text, private = clean(text, tags, allow_secret=allow_secret, patterns=patterns)
    extra = {VIA: via} if via else NO_EXTRA
    wanted = Record("", kind, text, label=kind.value, tags=tidy_tags(tags), origin=Origin(by=by), extra=extra)
    words = normalise_text(text)

    def make(existing: Sequence[Record]) -> Record:
        return replace(wanted, id=fresh_id(shelf, kind, existing), created_at=ids.today())

    def says_the_same(record: Record) -> bool:
        return record.status is not Status.RETIRED and normalise_text(record.text) == words

    try:
        stored = library.add(shelf, make, unless=None if force else says_the_same)
    except AlreadyThere as there:
        return Added(there.stored, is_new=False, private_parts=private)
    return Added(stored, is_new=True, private_parts=private)


def edit(
    library: Library,
    shelf: Shelf,
    record_id: str,
    *,
    text: str | None = None,
    kind: MemoryKind | None = None,
    tags: Sequence[str] | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
    expect: str | None = None,
    by: str = "",
    via: str = "",
) -> Edited:
    """Change an entry's text, kind or tags, and nothing else of it or of its file.

    `expect` is the text that was shown to whoever changed it: Conflict when the entry says something else by now.
    New words are those of `by`; `via` says which way the change came.
    """
    private = 0
    if text is not None:
        text, private = clean(text, allow_secret=allow_secret, patterns=patterns)
    kept = None if tags is None else tidy_tags(tags)
    if tags:
        hidden = _private_in_tags(tags, allow_secret, patterns)
        private += hidden
        if not kept:
            why = " once the private parts are removed" if hidden else ""
            raise Refused(f"no tag is left{why}", hint="name a tag, or pass an empty string to remove the tags")
    changes: list[bool] = []

    def change(record: Record) -> Record:
        changes[:] = [False]
        if expect is not None and record.text != expect:
            if text == expect:
                return record
            raise Conflict(f"{record_id}: changed in its file while it was being edited", hint="nothing was stored")
        changed = replace(
            record,
            text=record.text if text is None else text,
            kind=record.kind if kind is None else kind,
            tags=record.tags if kept is None else kept,
        )
        changes[:] = [changed != record]
        return _signed(replace(changed, updated_at=ids.today()), record, by, via) if changes[0] else record

    stored = library.replace(shelf, record_id, change)
    same = _same_text(library, shelf, stored.record) if text is not None and changes[0] else ""
    return Edited(stored, changes[0], private, same)


def _signed(changed: Record, before: Record, by: str, via: str) -> Record:
    """The changed entry with whose words it holds now, and which way they came."""
    if by and changed.text != before.text:
        changed = replace(changed, origin=replace(changed.origin, by=by))
    return replace(changed, extra={**changed.extra, VIA: via}) if via else changed


def _same_text(library: Library, shelf: Shelf, record: Record) -> str:
    """The id of another entry that says the same, or ""."""
    from ralph.formats.text import normalise_text  # noqa: PLC0415  (listing does not pay for it)

    words = normalise_text(record.text)
    others = (stored.record for stored in library.read(shelf) if stored.record.id != record.id)
    return next((other.id for other in others if normalise_text(other.text) == words), "")


def search(library: Library, shelf: Shelf, query: Query) -> tuple[SearchResult, list[Stored]]:
    """The best entries for a query, and where each stands."""
    from ralph.app import search_files  # noqa: PLC0415  (listing does not pay for it)

    return search_files.in_files(library.root, shelf.places, query)


def list_(
    library: Library,
    shelf: Shelf,
    *,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    last: int | None = None,
) -> list[Stored]:
    """Entries in file order; with `last`, the newest by date, then by their ids' time, then by place in the file."""
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    kept = [stored for stored in library.read(shelf) if query.accepts(stored.record)]
    if last is None:
        return kept
    oldest_first = sorted(kept, key=lambda stored: (stored.record.created_at, _moment(stored.record.id)))
    return oldest_first[-last:] if last > 0 else []


def _moment(record_id: str) -> int:
    """The milliseconds in an id, or 0 when it has no time that makes sense."""
    match = ids.ID.fullmatch(record_id) if ids.date_of(record_id) else None
    if match is None:
        return 0
    return int(match["unix"]) * (1 if len(match["unix"]) == len("1700000000000") else 1000)


def prime(
    library: Library,
    shelf: Shelf,
    *,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
    after: Primed | None = None,
) -> Primed:
    """Whole entries for an agent within a budget of tokens (0: no limit), the most useful first to be chosen.

    `form` is `markdown` or `json`; the budget holds for the text in that form, with all that it goes `after`.
    """
    today = ids.now().date()
    since = (today - timedelta(days=min(recent, today.toordinal() - 1))).isoformat() if recent > 0 else ""
    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=since)
    everything = [stored.record for stored in library.read(shelf)]
    kept = [record for record in current(everything) if query.accepts(record)]
    ordered = list(sort_by_section(kept, shelf.layout.kinds))
    return _fitted(shelf, ordered, budget, form, after or Primed("", (), 0))


def current(records: Sequence[Record]) -> list[Record]:
    """What still holds: not out of date, and not superseded by another entry; in a circle nobody supersedes another."""
    today = ids.today()
    pairs = [(record.id, link.target) for record in records for link in record.links if link.relation == "supersedes"]
    replaced = lookup.replaced(pairs)
    return [
        record
        for record in records
        if record.id not in replaced and not (record.valid_until and record.valid_until < today)
    ]


def clean(
    text: str, tags: Sequence[str] = (), *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> tuple[str, int]:
    """Text that may be stored: private parts gone, secrets refused, line ends and edges tidied."""
    bare, private = _public(text.replace("\r\n", "\n").replace("\r", "\n"), "this", allow_secret, patterns)
    lines = bare.rstrip().split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    bare = "\n".join(lines)
    if not any(_is_visible(char) for char in bare):
        raise Refused(
            "the text is empty" + (" once its private parts are removed" if private else ""),
            hint="say what was learned, in a sentence",
        )
    return bare, private + _private_in_tags(tags, allow_secret, patterns)


def _is_visible(char: str) -> bool:
    """Whether somebody would see it; a zero-width character is as empty as a space."""
    return not char.isspace() and unicodedata.category(char) != "Cf"


def tidy_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are written: private parts gone, trimmed, without `#`, each once (its first spelling wins)."""
    from ralph.capture import privacy  # noqa: PLC0415  (its rules are compiled only when something is written)

    bare, _ = privacy.strip_private(",".join(tags))
    kept: dict[str, str] = {}
    for tag in bare.split(","):
        if tidy := tag.strip().lstrip("#").strip():
            kept.setdefault(tidy.casefold(), tidy)
    return tuple(kept.values())


def _private_in_tags(tags: Sequence[str], allow_secret: bool, patterns: Sequence[str]) -> int:
    """How many private parts the tags hold; Refused when one may not be stored."""
    return _public("\n".join(tags), "a tag", allow_secret, patterns)[1] if tags else 0


def _public(text: str, what: str, allow_secret: bool, patterns: Sequence[str]) -> tuple[str, int]:
    """The text without its private parts, and how many they were; Refused when it holds a secret or no text."""
    from ralph.capture import invisible_characters, privacy  # noqa: PLC0415  (its rules are compiled only when something is written)

    bare, private = privacy.strip_private(text)
    invisible_characters.check_text(bare)
    findings = () if allow_secret else privacy.find_secrets(bare, patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        where = f", line {findings[0].line}" if what == "this" else ""
        raise Refused(
            f"{what} looks like a secret ({kinds}{where}): nothing was stored",
            hint="leave the value out and say where it is kept; --allow-secret stores it anyway",
        )
    return bare, private


def fresh_id(shelf: Shelf, kind: MemoryKind, existing: Sequence[Record]) -> str:
    """An id that no entry has; called under the lock."""
    taken = {record.id for record in existing}
    while (minted := ids.mint(shelf.layout.id_prefix(kind))) in taken:
        pass
    return minted


def kinds_named(words: Sequence[str]) -> tuple[MemoryKind, ...]:
    """Kinds by their names in any case; UsageError names the valid ones."""
    valid = {kind.value: kind for kind in MemoryKind}
    wrong = [word for word in words if word.strip().lower() not in valid]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a type", hint=f"valid types: {', '.join(valid)}")
    return tuple(valid[word.strip().lower()] for word in words)


def record_json(record: Record) -> dict[str, object]:
    """A record as machines read it; the same shape from every verb."""
    shape: dict[str, object] = {
        "id": record.id,
        "type": record.kind.value,
        "content": record.text,
        "tags": list(record.tags),
        "created": record.created_at,
        "label": record.label or record.kind.value,
        "title": record.title,
    }
    origin = record.origin
    optional = {
        "updated": record.updated_at, "valid_until": record.valid_until, "by": origin.by, "session": origin.session,
        "run": origin.run, "iteration": origin.iteration, "task": origin.task,
        "status": record.status.value if record.status is Status.RETIRED else "",
    }  # fmt: skip
    shape.update({key: value for key, value in optional.items() if value})
    if record.links:
        shape["links"] = [{"relation": link.relation, "target": link.target} for link in record.links]
    if record.extra:
        shape["extra"] = dict(record.extra)
    return shape


def to_json(stored: Stored) -> dict[str, object]:
    """An entry as machines read it, with the place where it stands."""
    return {**record_json(stored.record), "file": str(stored.path), "line": stored.line}


def _fitted(shelf: Shelf, ordered: Sequence[Record], budget: int, form: str, after: Primed) -> Primed:
    from ralph.context import budget as budgets  # noqa: PLC0415  (listing does not pay for it)

    command = "memory" if shelf.noun == "memory" else "guardrails"

    def markdown(kept: tuple[int, ...], left_out: int) -> str:
        note = f"{len(kept)} of {len(ordered)} shown; more: ralph {command} search"
        parts = [
            after.text,
            render_memories([ordered[row] for row in kept], shelf.layout.kinds),
            f"{TRUNCATED}\n<!-- {note} -->\n" if left_out else "",
        ]
        return "\n".join(part for part in parts if part)

    def as_json(kept: tuple[int, ...], left_out: int) -> str:
        return json_array([*after.records, *(ordered[row] for row in kept)])

    text, selection = budgets.fit(ordered, budget, as_json if form == "json" else markdown)
    records = after.records + tuple(ordered[row] for row in selection.kept)
    return Primed(text or after.text, records, after.total + len(ordered))


def json_array(records: Sequence[Record]) -> str:
    """Records as a JSON array; valid when there are none."""
    return json.dumps([record_json(record) for record in records], ensure_ascii=False, indent=2) + "\n"


def shared(budget: int, guardrails: Primed) -> tuple[int, int]:
    """How guardrails and memories share a budget: guardrails first, at most half."""
    from ralph.context import budget as budgets  # noqa: PLC0415  (listing does not pay for it)
    from ralph.context import tokens  # noqa: PLC0415  (as above)

    return budgets.split_budget(budget, tokens.estimate(guardrails.text))
