"""Convert legacy Signs in guardrails.md to entries (`ralph memory migrate`).

A Sign is a guardrail in the format of older loops. It has a name instead of an id:

    ### Sign: Migrations run twice
    - **Trigger**: starting the app before `make migrate` has ended
    - **Instruction**: wait for `migrated` in the log

It becomes an entry of type fix. The entry's text is the name followed by the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record
from ralph.formats.memories import parse_memories
from ralph.formats.memories_writer import is_sign
from ralph.memory.memory import new_id
from ralph.memory.memory_files import backup
from ralph.privacy.privacy import clean_memory, clean_tags
from ralph.storage import files
from ralph.storage.library import Collection, Library


def guardrail_formats(root: Path) -> list[tuple[Path, str]]:
    """Return each possible guardrails file with its format.

    The format is `none` (no file), `empty`, `structured`, `legacy` (only Signs) or `mixed`.
    """
    collection = Library(root).guardrails
    formats = []
    for path in collection.places:
        text = files.read(path)
        if text is None:
            formats.append((path, "none"))
        else:
            formats.append((path, parse_memories(text, collection.layout).format))
    return formats


class SignMigration(NamedTuple):
    """The result of converting the Signs in one file."""

    path: Path
    signs: int  # number of converted Signs
    backup: Path | None
    private_parts: int  # number of private sections that were removed
    kept: list[tuple[int, str]]  # line of each Sign that was not converted, and the reason


def migrate_signs(
    root: Path, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> list[SignMigration]:
    """Convert legacy Signs to entries of type fix, keeping a backup of each changed file.

    A Sign that contains a secret is not converted unless `allow_secret` is set.
    """
    library = Library(root)
    migrations = []
    for path, _ in library.documents(library.guardrails):
        migration = _migrate_file(
            path, library.guardrails, allow_secret=allow_secret, patterns=patterns
        )
        if migration.signs or migration.kept:
            migrations.append(migration)
    return migrations


def _migrate_file(
    path: Path, collection: Collection, *, allow_secret: bool, patterns: Sequence[str]
) -> SignMigration:
    text = files.read(path) or ""
    document = parse_memories(text, collection.layout)
    sign_ids = []
    fixes = []
    kept = []
    private_parts = 0
    for entry in document.entries:
        sign = entry.record
        if not is_sign(sign):
            continue
        content = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
        try:
            clean_text, parts = clean_memory(
                content, sign.tags, allow_secret=allow_secret, patterns=patterns
            )
        except Refused as error:
            kept.append((entry.line, str(error).replace("\n  ", "; ")))
            continue
        private_parts += parts
        sign_ids.append(sign.id)
        fixes.append(_as_fix(sign, clean_text))
    if not fixes:
        return SignMigration(path, 0, None, private_parts, kept)
    for sign_id in reversed(sign_ids):  # Signs with the same name are numbered from the top
        document = document.remove(sign_id)
    for fix in fixes:
        existing = [entry.record for entry in document.entries]
        fix_id = new_id(collection, MemoryKind.FIX, existing)
        document = document.add(replace(fix, id=fix_id))
    copy = backup(path, collection.root, text)
    files.write(path, str(document), root=collection.root, expect=text)
    return SignMigration(path, len(fixes), copy, private_parts, kept)


def _as_fix(sign: Record, text: str) -> Record:
    return replace(
        sign,
        kind=MemoryKind.FIX,
        text=text,
        label=MemoryKind.FIX.value,
        title="",
        tags=clean_tags(sign.tags),
        created_at=sign.created_at or ids.today(),
    )
