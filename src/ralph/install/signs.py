"""Convert legacy Signs in guardrails.md to entries (`ralph doctor --fix`).

A Sign is a guardrail in the format of older loops. It has a name instead of an id:

    ### Sign: Migrations run twice
    - **Trigger**: starting the app before `make migrate` has ended
    - **Instruction**: wait for `migrated` in the log

It becomes an entry of type fix. The entry's text is the name followed by the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record
from ralph.formats.memories import parse_memories
from ralph.formats.memories_writer import is_sign
from ralph.install.findings import Finding, new_finding
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


def find_signs(root: Path, patterns: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield a note for each file with Signs, and a warning for each Sign that has a secret."""
    library = Library(root)
    for path, form in guardrail_formats(root):
        if form not in ("legacy", "mixed"):
            continue
        document = parse_memories(files.read(path) or "", library.guardrails.layout)
        converted = 0
        for entry in document.entries:
            if not is_sign(entry.record):
                continue
            try:
                _clean_sign(entry.record, allow_secret=False, patterns=patterns)
            except Refused as error:
                reason = error.message.removesuffix(": nothing was stored")
                what = f"this Sign cannot be converted to an entry: {reason}"
                hint = "remove the secret, or use `ralph doctor --fix --allow-secret`"
                yield new_finding(
                    path, what, hint=hint, level="warning", code="sign-secret", line=entry.line
                )
            else:
                converted += 1
        if converted:
            what = f"has {converted} Sign(s), the format of older loops; they are read as they are"
            hint = "run `ralph doctor --fix` to convert them to entries"
            yield new_finding(path, what, hint=hint, level="note", code="signs")


class SignMigration(NamedTuple):
    """The result of converting the Signs in one file."""

    path: Path
    signs: int  # number of converted Signs
    backup: Path | None
    private_parts: int  # number of private sections that were removed


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
        if migration.signs:
            migrations.append(migration)
    return migrations


def _migrate_file(
    path: Path, collection: Collection, *, allow_secret: bool, patterns: Sequence[str]
) -> SignMigration:
    text = files.read(path) or ""
    document = parse_memories(text, collection.layout)
    sign_ids = []
    fixes = []
    private_parts = 0
    for entry in document.entries:
        sign = entry.record
        if not is_sign(sign):
            continue
        try:
            clean_text, parts = _clean_sign(sign, allow_secret=allow_secret, patterns=patterns)
        except Refused:
            continue
        private_parts += parts
        sign_ids.append(sign.id)
        fixes.append(_as_fix(sign, clean_text))
    if not fixes:
        return SignMigration(path, 0, None, private_parts)
    for sign_id in reversed(sign_ids):  # Signs with the same name are numbered from the top
        document = document.remove(sign_id)
    for fix in fixes:
        fix_id = new_id(collection, MemoryKind.FIX, document.entries.ids)
        document = document.add(replace(fix, id=fix_id))
    copy = backup(path, collection.root, text)
    files.write(path, str(document), root=collection.root, expect=text)
    return SignMigration(path, len(fixes), copy, private_parts)


def _clean_sign(sign: Record, *, allow_secret: bool, patterns: Sequence[str]) -> tuple[str, int]:
    """Return the text of the entry, and the number of private sections removed from it.

    Raises Refused if it contains a secret, unless `allow_secret` is set.
    """
    content = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
    return clean_memory(content, sign.tags, allow_secret=allow_secret, patterns=patterns)


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
