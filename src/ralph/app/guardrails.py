"""`ralph guardrails ...`: what must not go wrong again, in `.ralph/guardrails.md`.

The same functions as for memories on another file, with its own ids and sections, and one verb
more: `migrate` turns legacy Signs into structured entries. Guardrails stay until somebody
removes them (docs/adr/0011).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.app import entries
from ralph.app.entries import Added, Primed
from ralph.formats.sections import SectionsDocument, is_sign, parse
from ralph.model import ids
from ralph.model.kinds import MemoryKind
from ralph.model.query import Found, Query
from ralph.model.record import Record
from ralph.store import files
from ralph.store.library import Library, Stored


@dataclass(frozen=True, slots=True)
class Migrated:
    """One file's Signs that became entries, and the copy of the file as it was."""

    path: Path
    backup: Path
    ids: tuple[str, ...]


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


def search(root: Path, query: Query) -> tuple[Found, list[Stored]]:
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


def migrate(root: Path) -> list[Migrated]:
    """Turn every Sign into a structured fix; the rest of the file stays, and a backup is kept."""
    library = Library(root)
    done = []
    for path, document in library.documents(library.guardrails):
        if not _signs(document):
            continue
        copy = files.backup(path, root=root)
        made: list[str] = []

        def edit(text: str, made: list[str] = made) -> str:
            made.clear()
            current = parse(text, library.guardrails.layout)
            signs = _signs(current)
            for sign in reversed(signs):  # ids of Signs with one name are counted from the top
                current = current.remove(sign.id)
            for sign in signs:
                record = _structured(sign, [entry.record for entry in current.entries], library)
                current = current.add(record)
                made.append(record.id)
            return str(current)

        files.update(path, edit, root=root)
        if copy is not None:
            done.append(Migrated(path, copy, tuple(made)))
    return done


def _signs(document: SectionsDocument) -> list[Record]:
    return [entry.record for entry in document.entries if is_sign(entry.record)]


def _structured(sign: Record, existing: Sequence[Record], library: Library) -> Record:
    text = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
    new_id = entries.fresh_id(library.guardrails, MemoryKind.FIX, existing)
    return replace(
        sign, id=new_id, kind=MemoryKind.FIX, text=text, label=MemoryKind.FIX.value, title="",
        created_at=sign.created_at or ids.today(),
    )  # fmt: skip
