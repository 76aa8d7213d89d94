"""Ralph: a memory that lasts, for coding agents.

Public names are loaded on first use, because every hook imports this package.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.core.errors import RalphError
    from ralph.core.record import Link, MemoryKind, Origin, Record, Scope, Status
    from ralph.core.settings import Config
    from ralph.storage.library import Library

__version__ = "0.1.0"

_MODULE_OF_NAME = {
    "Config": "ralph.core.settings",
    "Library": "ralph.storage.library",
    "Link": "ralph.core.record",
    "MemoryKind": "ralph.core.record",
    "Origin": "ralph.core.record",
    "RalphError": "ralph.core.errors",
    "Record": "ralph.core.record",
    "Scope": "ralph.core.record",
    "Status": "ralph.core.record",
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
