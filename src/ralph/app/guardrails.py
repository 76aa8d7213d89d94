"""`ralph guardrails ...`: what must not go wrong again, in `.ralph/guardrails.md`.

The same functions as for memories on another file, with its own ids and sections, and one verb
more: `migrate` turns legacy Signs into structured entries, cleaned like every text that is stored; one that
holds a secret stays a Sign. Guardrails stay until somebody
removes them (docs/adr/0011).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.app import entries
from ralph.app import retire as retiring
from ralph.app.entries import Added, Edited, Primed
from ralph.errors import Refused
from ralph.formats.memories import MemoriesDocument, is_sign, parse_memories
from ralph.model import ids
from ralph.model.query import Query, SearchResult
from ralph.model.record import MemoryKind, Record
from ralph.store import files
from ralph.store.library import Library, Stored


@dataclass(frozen=True, slots=True)
class Left:
    """A Sign that may not be stored anew, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Migrated:
    """One file's Signs that became entries, those that were left, and the copy of the file as it was, if it changed."""

    path: Path
    backup: Path | None
    ids: tuple[str, ...]
    left: tuple[Left, ...] = ()
    private_parts: int = 0


def init(root: Path, *, force: bool = False) -> str:
    """Make guardrails.md."""
    library = Library(root)
    return entries.init(library, library.guardrails, force=force)


def add(
    root: Path,
    text: str,
    kind: MemoryKind = MemoryKind.FIX,
    tags: Sequence[str] = (),
    *,
    by: str = "",
    force: bool = False,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Added:
    """Keep a new guardrail."""
    library = Library(root)
    return entries.add(
        library, library.guardrails, text, kind, tags, by=by, force=force, allow_secret=allow_secret, patterns=patterns
    )


def search(root: Path, query: Query) -> tuple[SearchResult, list[Stored]]:
    """Find guardrails by their words."""
    library = Library(root)
    return entries.search(library, library.guardrails, query)


def list_(
    root: Path, *, kinds: Sequence[MemoryKind] = (), tags: Sequence[str] = (), last: int | None = None
) -> list[Stored]:
    """Every guardrail, Signs included, or the newest few."""
    library = Library(root)
    return entries.list_(library, library.guardrails, kinds=kinds, tags=tags, last=last)


def show(root: Path, guardrail_id: str) -> Stored:
    """One guardrail."""
    library = Library(root)
    return library.find(library.guardrails, guardrail_id)


def delete(root: Path, guardrail_id: str) -> Stored:
    """Take a guardrail out of its file."""
    library = Library(root)
    return library.remove(library.guardrails, guardrail_id)


def edit(
    root: Path,
    guardrail_id: str,
    *,
    text: str | None = None,
    kind: MemoryKind | None = None,
    tags: Sequence[str] | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
    expect: str | None = None,
) -> Edited:
    """Correct a guardrail; with `expect`, only if its text is still that one."""
    library = Library(root)
    return entries.edit(
        library, library.guardrails, guardrail_id,
        text=text, kind=kind, tags=tags, allow_secret=allow_secret, patterns=patterns, expect=expect,
    )  # fmt: skip


def retire(root: Path, guardrail_id: str) -> Edited:
    """Offer a guardrail to nobody any more; it stays in its file."""
    library = Library(root)
    return retiring.retire(library, library.guardrails, guardrail_id)


def restore(root: Path, guardrail_id: str) -> Edited:
    """Offer a retired guardrail again."""
    library = Library(root)
    return retiring.restore(library, library.guardrails, guardrail_id)


def prime(
    root: Path,
    *,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
) -> Primed:
    """Guardrails for an agent within a budget."""
    library = Library(root)
    return entries.prime(library, library.guardrails, budget=budget, kinds=kinds, tags=tags, recent=recent, form=form)


def formats(root: Path) -> list[tuple[Path, str]]:
    """Each place and its format: none, empty, structured, legacy or mixed."""
    library = Library(root)
    there = {path: document.format for path, document in library.documents(library.guardrails)}
    return [(place, there.get(place, "none")) for place in library.guardrails.places]


def migrate(root: Path, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> list[Migrated]:
    """Turn every Sign that may be stored into a structured fix; the rest of the file stays, and a backup is kept."""
    library = Library(root)
    done = []

    def cleaned(document: MemoriesDocument) -> _Cleaned:
        return _cleaned(document, allow_secret, patterns)

    for path, document in library.documents(library.guardrails):
        first = cleaned(document)
        if not first.signs:
            done += [Migrated(path, None, (), first.left)] if first.left else []
            continue
        copy = entries.backup(path, root)
        made: list[str] = []
        last = [first]

        def edit(text: str, made: list[str] = made, last: list[_Cleaned] = last) -> str:
            made.clear()
            current = parse_memories(text, library.guardrails.layout)
            last[:] = [cleaned(current)]
            for old_id, _ in reversed(last[0].signs):  # ids of Signs with one name are counted from the top
                current = current.remove(old_id)
            for _, sign in last[0].signs:
                new_id = entries.fresh_id(
                    library.guardrails, MemoryKind.FIX, [entry.record for entry in current.entries]
                )
                current = current.add(replace(sign, id=new_id))
                made.append(new_id)
            return str(current)

        files.update(path, edit, root=root)
        done.append(Migrated(path, copy, tuple(made), last[0].left, last[0].private_parts))
    return done


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """A file's Signs as they may be stored, each with its old id, and those that may not."""

    signs: tuple[tuple[str, Record], ...]
    left: tuple[Left, ...]
    private_parts: int


def _cleaned(document: MemoriesDocument, allow_secret: bool, patterns: Sequence[str]) -> _Cleaned:
    signs, left, private = [], [], 0
    for entry in document.entries:
        sign = entry.record
        if not is_sign(sign):
            continue
        text = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
        try:
            text, parts = entries.clean(text, sign.tags, allow_secret=allow_secret, patterns=patterns)
        except Refused as error:
            left.append(Left(entry.line, str(error).replace("\n  ", "; ")))
            continue
        private += parts
        signs.append((sign.id, _structured(sign, text)))
    return _Cleaned(tuple(signs), tuple(left), private)


def _structured(sign: Record, text: str) -> Record:
    return replace(
        sign, kind=MemoryKind.FIX, text=text, label=MemoryKind.FIX.value, title="",
        tags=entries.tidy_tags(sign.tags), created_at=sign.created_at or ids.today(),
    )  # fmt: skip
