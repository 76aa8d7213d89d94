"""Ralph: a memory that lasts, for coding agents. Public names are loaded on first use, for the sake of hooks."""

TYPE_CHECKING = (
    False  # the name that type checkers know; `typing` itself would cost a hook more than its work
)
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Record": "ralph.model.record",
    "Scope": "ralph.model.record",
    "Origin": "ralph.model.record",
    "Status": "ralph.model.record",
    "Link": "ralph.model.record",
    "MemoryKind": "ralph.model.record",
    "RalphError": "ralph.errors",
    "Config": "ralph.settings",
    "Library": "ralph.store.library",
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


def __getattr__(name: str) -> "Any":
    """Load a public name from its module the first time it is used."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ralph' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
