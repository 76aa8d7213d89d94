"""Import Ralph's modules without asking for the state of each file, which is slow on Windows.

An ordinary import asks for the state of a folder, a source file and its bytecode, several times
each, and Windows must open the file for each answer. Listing a folder answers for all its files
with one question. `hooks/run.py` executes this file there, because importing it would cost as much
as it saves for several others.

A module that is not found this way is imported as usual.
"""

from __future__ import annotations

import os
from importlib.machinery import ModuleSpec, SourceFileLoader

TYPE_CHECKING: bool = False  # `ralph.lean` has it too, but is imported with this module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_PACKAGE = "ralph"
_READ_BYTES = 1 << 15  # at a time; Wine touches each page of a buffer before it reads


class _QuickLoader(SourceFileLoader):
    """Load a module whose source has the state that a listing of its folder gave."""

    def __init__(self, name: str, path: str, state: os.stat_result) -> None:
        super().__init__(name, path)
        self._state = state

    def path_stats(self, path: str) -> Mapping[str, float]:
        """Return when the source was changed, and its size."""
        return {"mtime": self._state.st_mtime, "size": self._state.st_size}

    def get_data(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError."""
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            pieces = []
            while piece := os.read(handle, _READ_BYTES):
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            os.close(handle)


def _make_spec(name: str, path: str, entry: os.DirEntry[str], *, is_package: bool) -> ModuleSpec:
    loader = _QuickLoader(name, path, entry.stat())
    spec = ModuleSpec(name, loader, origin=path, is_package=is_package)
    spec.has_location = True
    return spec


class QuickFinder:
    """Find modules of Ralph below a folder, and list each folder once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._listings: dict[str, dict[str, os.DirEntry[str]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of Ralph is, or None for other modules."""
        if name.partition(".")[0] != _PACKAGE:
            return None
        inside = f"{self._source}/{name.replace('.', '/')}"
        try:
            return self._package(name, inside) or self._module(name, inside)
        except OSError:
            return None

    def _package(self, name: str, folder: str) -> ModuleSpec | None:
        if name != _PACKAGE and not self._is_folder(folder):
            return None
        entry = self._listing(folder).get("__init__.py")
        if entry is None:
            return None
        spec = _make_spec(name, f"{folder}/__init__.py", entry, is_package=True)
        spec.submodule_search_locations = [folder]
        return spec

    def _module(self, name: str, path: str) -> ModuleSpec | None:
        folder, _, last = path.rpartition("/")
        entry = self._listing(folder).get(f"{last}.py")
        if entry is None:
            return None
        return _make_spec(name, f"{path}.py", entry, is_package=False)

    def _is_folder(self, path: str) -> bool:
        folder, _, last = path.rpartition("/")
        entry = self._listing(folder).get(last)
        return entry is not None and entry.is_dir()

    def _listing(self, folder: str) -> dict[str, os.DirEntry[str]]:
        if folder not in self._listings:
            with os.scandir(folder) as entries:
                self._listings[folder] = {entry.name: entry for entry in entries}
        return self._listings[folder]
