"""The ledger of an import, which records the items that were imported and their versions.

A transcript is imported again only if its version has changed. A proposal is never repeated, even
if a person has rejected it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.formats.log import encode_line
from ralph.storage import files


class ImportedItem(NamedTuple):
    """An item in a source, and the version of it that was imported."""

    source: str
    key: str
    version: str


class ImportLedger:
    """The transcripts and proposals that were imported, with their versions."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = paths.import_ledger(root)
        self._versions: dict[tuple[str, str], str] = {}
        for line in (files.read(self._path) or "").split("\n"):
            try:
                value = json.loads(line)
                self._versions[value["source"], value["key"]] = value["mark"]
            except (ValueError, LookupError, TypeError):
                continue  # a killed process left half a line, so its transcript is read again

    def is_imported(self, item: ImportedItem) -> bool:
        """Return whether this version of an item was already imported."""
        return self._versions.get((item.source, item.key)) == item.version

    def has(self, source: str, key: str) -> bool:
        """Return whether any version of an item was already imported."""
        return (source, key) in self._versions

    def add(self, items: Iterable[ImportedItem]) -> None:
        """Record that these items were imported."""
        lines = []
        for item in items:
            self._versions[item.source, item.key] = item.version
            members = {"source": item.source, "key": item.key, "mark": item.version}
            lines.append(encode_line("import", members))
        files.append(self._path, "".join(lines), root=paths.state_boundary(self._root))
