"""`ralph memory migrate`: legacy Signs in guardrails.md become structured entries.

The text of a Sign is cleaned like every text that is stored; one that holds a secret stays a Sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.app.memory import backup, new_id
from ralph.capture.privacy import clean_memory, clean_tags
from ralph.errors import Refused
from ralph.formats.memories import is_sign, parse_memories
from ralph.model import ids
from ralph.model.record import MemoryKind, Record
from ralph.store import files
from ralph.store.library import Collection, Library


@dataclass(frozen=True, slots=True)
class KeptSign:
    """A Sign that may not be stored as an entry, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One file's Signs that became entries, those that stay, and the backup of the file if it changed."""

    path: Path
    backup: Path | None
    ids: tuple[str, ...]
    kept: tuple[KeptSign, ...] = ()
    private_parts: int = 0


def guardrail_formats(root: Path) -> list[tuple[Path, str]]:
    """Return each possible guardrails file with its format: none, empty, structured, legacy or mixed."""
    collection = Library(root).guardrails
    texts = [(path, files.read(path)) for path in collection.places]
    return [(path, "none" if text is None else parse_memories(text, collection.layout).format) for path, text in texts]


def migrate(root: Path, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> list[Migration]:
    """Turn every legacy Sign that may be stored into a structured fix; a backup of the file is kept."""
    library = Library(root)
    collection = library.guardrails
    migrations = []
    for path, _ in library.documents(collection):
        signs, kept, _ = _clean_signs(files.read(path) or "", collection, allow_secret, patterns)
        if not signs:
            migrations += [Migration(path, None, (), kept)] if kept else []
            continue
        copy = backup(path, collection.root)

        def edit(text: str, path: Path = path, copy: Path | None = copy) -> tuple[str, Migration]:
            signs, kept, private = _clean_signs(text, collection, allow_secret, patterns)
            document = parse_memories(text, collection.layout)
            for old_id, _ in reversed(signs):  # ids of Signs with one name are counted from the top
                document = document.remove(old_id)
            new_ids = []
            for _, sign in signs:
                existing = [entry.record for entry in document.entries]
                new_ids.append(new_id(collection, MemoryKind.FIX, existing))
                document = document.add(replace(sign, id=new_ids[-1]))
            return str(document), Migration(path, copy, tuple(new_ids), kept, private)

        migrations.append(files.update(path, edit, root=collection.root))
    return migrations


def _clean_signs(
    text: str, collection: Collection, allow_secret: bool, patterns: Sequence[str]
) -> tuple[list[tuple[str, Record]], tuple[KeptSign, ...], int]:
    """Return a file's Signs as entries with their old ids, those that may not be stored, and the private parts."""
    signs, kept, private = [], [], 0
    for entry in parse_memories(text, collection.layout).entries:
        sign = entry.record
        if not is_sign(sign):
            continue
        whole = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
        try:
            clean, parts = clean_memory(whole, sign.tags, allow_secret=allow_secret, patterns=patterns)
        except Refused as error:
            kept.append(KeptSign(entry.line, str(error).replace("\n  ", "; ")))
            continue
        private += parts
        structured = replace(
            sign,
            kind=MemoryKind.FIX,
            text=clean,
            label=MemoryKind.FIX.value,
            title="",
            tags=clean_tags(sign.tags),
            created_at=sign.created_at or ids.today(),
        )
        signs.append((sign.id, structured))
    return signs, tuple(kept), private
