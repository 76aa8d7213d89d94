"""Decide whether a memory names something that its project does not know.

This module is small, so that commands that only add a memory of a person need not load the rules.
"""

from __future__ import annotations

from pathlib import Path

from ralph.core.record import Family, Record

_UNTRUSTED_AUTHORS = ("agent", "import")


def names_unknown(root: Path, record: Record) -> bool:
    """Return whether an agent or an import wrote a memory that names something unknown.

    That is a package, a host or a command that the project does not know.
    """
    if record.family is not Family.MEMORY or record.origin.by not in _UNTRUSTED_AUTHORS:
        return False
    return bool(describe_unknown(root, record))


def describe_unknown(root: Path, record: Record) -> str:
    """Return a line that says what of a memory its project does not know, or ""."""
    from ralph.search.known_names import unknown_demands  # only for agents and imports

    demands = unknown_demands(root, f"{record.title}\n{record.text}")
    if not demands:
        return ""
    return f"unknown to this project: {', '.join(map(str, demands))}"
