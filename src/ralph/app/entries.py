"""The verbs that memories and guardrails share: one implementation, two shelves.

`app/memory.py` and `app/guardrails.py` name the shelf; everything else is here. Text is cleaned
by `capture/privacy.py` before anything else sees it, ids and duplicates are decided under the
file's lock, and every verb returns values: printing is the adapters' business.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ralph.errors import Conflict, Refused, UsageError
from ralph.formats import sections
from ralph.model import ids
from ralph.model.kinds import MemoryKind
from ralph.model.query import Found, Query
from ralph.model.record import Origin, Record
from ralph.store import files
from ralph.store.library import Library, Shelf, Stored

TRUNCATED = "<!-- truncated: budget exceeded -->"


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` did: the new entry, or the one that already says so."""

    stored: Stored
    is_new: bool
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class Primed:
    """Entries chosen for an agent: the text to hand over and the entries behind it."""

    text: str
    records: tuple[Record, ...]
    total: int


class _AlreadyThere(Conflict):
    """Carries the entry that says the same, out of the locked section."""

    def __init__(self, record: Record) -> None:
        super().__init__(f"{record.id} already says this")
        self.record = record


def init(library: Library, shelf: Shelf, *, force: bool = False) -> str:
    """Make the shelf's file; over an existing one only by force, which keeps a backup. Says what was done."""
    home = shelf.home
    template = shelf.layout.template()
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=library.root, expect="")
        return f"made {home}"
    if not force:
        raise Conflict(f"{home}: is already there", hint="use --force to start anew; the old file is kept as a backup")
    copy = files.backup(home, root=library.root)
    files.write(home, template, root=library.root)
    return f"made {home} anew; the old one is {copy}"


def add(
    library: Library,
    shelf: Shelf,
    text: str,
    kind: MemoryKind,
    tags: Sequence[str] = (),
    *,
    by: str = "",
    force: bool = False,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Added:
    """Keep a new entry at the end of its section, unless one already says the same."""
    text, private = clean(text, tags, allow_secret=allow_secret, patterns=patterns)
    wanted = Record("", kind, text, label=kind.value, tags=tidy_tags(tags), origin=Origin(by=by))

    def make(existing: Sequence[Record]) -> Record:
        same = None if force else next((record for record in existing if says_the_same(record.text, text)), None)
        if same is not None:
            raise _AlreadyThere(same)
        return replace(wanted, id=fresh_id(shelf, kind, existing), created_at=ids.today())

    try:
        return Added(library.add(shelf, make), is_new=True, private_parts=private)
    except _AlreadyThere as there:
        return Added(library.find(shelf, there.record.id), is_new=False, private_parts=private)


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
) -> Stored:
    """Change an entry's text, kind or tags, and nothing else of it or of its file."""
    if text is not None:
        text, _ = clean(text, allow_secret=allow_secret, patterns=patterns)
    if tags:
        clean("\n".join(tags), allow_secret=allow_secret, patterns=patterns)

    def change(record: Record) -> Record:
        changed = replace(
            record,
            text=record.text if text is None else text,
            kind=record.kind if kind is None else kind,
            tags=record.tags if tags is None else tidy_tags(tags),
        )
        return changed if changed == record else replace(changed, updated_at=ids.today())

    return library.replace(shelf, record_id, change)


def search(library: Library, shelf: Shelf, query: Query) -> tuple[Found, list[Stored]]:
    """The best entries for a query, and where each stands."""
    from ralph.search import text as searching  # noqa: PLC0415  (listing does not pay for it)

    everything = library.read(shelf)
    found = searching.search([stored.record for stored in everything], query)
    places = {id(stored.record): stored for stored in everything}
    return found, [places[id(hit.record)] for hit in found.hits]


def list_(
    library: Library, shelf: Shelf, *, kinds: Sequence[MemoryKind] = (), tags: Sequence[str] = (), last: int | None = None
) -> list[Stored]:
    """Entries in file order; with `last`, the newest by date, then by place in the file."""
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    kept = [stored for stored in library.read(shelf) if query.accepts(stored.record)]
    if last is None:
        return kept
    newest = sorted(range(len(kept)), key=lambda row: (kept[row].record.created_at, row))[-last:] if last > 0 else []
    return [kept[row] for row in newest]


def prime(
    library: Library,
    shelf: Shelf,
    *,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
) -> Primed:
    """Whole entries for an agent within a budget of tokens (0: no limit), the most useful first to be chosen.

    `form` is `markdown` or `json`; the budget holds for the text in that form.
    """
    since = (ids.now().date() - timedelta(days=recent)).isoformat() if recent > 0 else ""
    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=since)
    everything = [stored.record for stored in library.read(shelf)]
    kept = [record for record in current(everything) if query.accepts(record)]
    ordered = list(sections.in_order(kept, shelf.layout.kinds))
    return _fitted(shelf, ordered, budget, form)


def current(records: Sequence[Record]) -> list[Record]:
    """What still holds: not out of date, and not superseded by another entry."""
    today = ids.today()
    replaced = {link.target for record in records for link in record.links if link.relation == "supersedes"}
    return [
        record
        for record in records
        if record.id not in replaced and not (record.valid_until and record.valid_until < today)
    ]


def clean(
    text: str, tags: Sequence[str] = (), *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> tuple[str, int]:
    """Text that may be stored: private parts gone, secrets refused, line ends and edges tidied."""
    from ralph.capture import privacy  # noqa: PLC0415  (its rules are compiled only when something is written)

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    bare, private = privacy.strip_private(text)
    findings = () if allow_secret else privacy.find_secrets("\n".join([bare, *tags]), patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        raise Refused(
            f"this looks like a secret ({kinds}, line {findings[0].line}): nothing was stored",
            hint="leave the value out and say where it is kept; --allow-secret stores it anyway",
        )
    lines = bare.rstrip().split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    bare = "\n".join(lines)
    if not bare.strip():
        raise Refused(
            "the text is empty" + (" once its private parts are removed" if private else ""),
            hint="say what was learned, in a sentence",
        )
    if any("\ud800" <= char <= "\udfff" for part in (bare, *tags) for char in part):
        raise Refused("the text is not valid UTF-8", hint="pass it as UTF-8, or from a file with --file")
    return bare, private


def tidy_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are written: private parts gone, trimmed, without `#`, each once."""
    from ralph.capture import privacy  # noqa: PLC0415  (its rules are compiled only when something is written)

    bare, _ = privacy.strip_private(",".join(tags))
    return tuple(dict.fromkeys(tidy for tag in bare.split(",") if (tidy := tag.strip().lstrip("#").strip())))


def says_the_same(left: str, right: str) -> bool:
    """Whether two texts differ only in case, spacing and final punctuation."""
    return _normal(left) == _normal(right)


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
    optional = {"updated": record.updated_at, "valid_until": record.valid_until, "by": record.origin.by}
    shape.update({key: value for key, value in optional.items() if value})
    if record.links:
        shape["links"] = [{"relation": link.relation, "target": link.target} for link in record.links]
    if record.extra:
        shape["extra"] = dict(record.extra)
    return shape


def to_json(stored: Stored) -> dict[str, object]:
    """An entry as machines read it, with the place where it stands."""
    return {**record_json(stored.record), "file": str(stored.path), "line": stored.line}


def _fitted(shelf: Shelf, ordered: Sequence[Record], budget: int, form: str) -> Primed:
    from ralph.context import budget as budgets  # noqa: PLC0415  (listing does not pay for it)

    command = "memory" if shelf.noun == "memory" else "guardrails"

    def markdown(kept: tuple[int, ...], left_out: int) -> str:
        body = sections.render([ordered[row] for row in kept], shelf.layout.kinds)
        if not left_out:
            return body
        gap = "\n" if body else ""
        note = f"{len(kept)} of {len(ordered)} shown; more: ralph {command} search"
        return f"{body}{gap}{TRUNCATED}\n<!-- {note} -->\n"

    def as_json(kept: tuple[int, ...], left_out: int) -> str:
        return json_array([ordered[row] for row in kept])

    text, selection = budgets.fit(ordered, budget, as_json if form == "json" else markdown)
    return Primed(text, tuple(ordered[row] for row in selection.kept), len(ordered))


def json_array(records: Sequence[Record]) -> str:
    """Records as a JSON array; valid when there are none."""
    return json.dumps([record_json(record) for record in records], ensure_ascii=False, indent=2) + "\n"


def _normal(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!?。")


def shared(budget: int, guardrails: Primed) -> tuple[int, int]:
    """How guardrails and memories share a budget: guardrails first, at most half."""
    from ralph.context import budget as budgets  # noqa: PLC0415  (listing does not pay for it)
    from ralph.context import tokens  # noqa: PLC0415

    return budgets.share(budget, tokens.estimate(guardrails.text))
