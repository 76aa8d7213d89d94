"""Ralph: a memory that lasts, for coding agents.

Public names are loaded on first use, because every hook imports this package.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.errors import RalphError
    from ralph.model.record import Link, MemoryKind, Origin, Record, Scope, Status
    from ralph.settings import Config
    from ralph.store.library import Library

__version__ = "0.1.0"

_MODULE_OF_NAME = {
    "Config": "ralph.settings",
    "Library": "ralph.store.library",
    "Link": "ralph.model.record",
    "MemoryKind": "ralph.model.record",
    "Origin": "ralph.model.record",
    "RalphError": "ralph.errors",
    "Record": "ralph.model.record",
    "Scope": "ralph.model.record",
    "Status": "ralph.model.record",
}

__all__ = [
    "Config",
    "Library",
    "Link",
    "MemoryKind",
    "Origin",
    "RalphError",
    "Record",
    "Scope",
    "Status",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module the first time it is used."""
    if name in _MODULE_OF_NAME:
        from importlib import import_module

        return getattr(import_module(_MODULE_OF_NAME[name]), name)
    raise AttributeError(f"module 'ralph' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted(__all__)
