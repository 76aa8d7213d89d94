"""`ralph scratchpad ...`: the working memory of the current iteration, free text.

It is the one file that is made to be overwritten, and git ignores it. What an agent puts there
passes the same redaction as everything else; a secret is masked here, not refused, so that the
note is not lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.capture import privacy
from ralph.context import budget as budgets
from ralph.errors import Refused
from ralph.store import files


@dataclass(frozen=True, slots=True)
class Shown:
    """The scratchpad, or its tail within a budget, and the headings that were left out."""

    text: str
    left_out: tuple[str, ...] = ()


def show(root: Path, *, budget: int = 0) -> Shown:
    """The text; within a budget its tail, since the newest notes stand last."""
    text = files.read(paths.scratchpad(root)) or ""
    if budget <= 0:
        return Shown(text)
    kept, left_out = budgets.tail(text, budget)
    return Shown(kept, left_out)


def set_(root: Path, text: str, patterns: Sequence[str] = ()) -> privacy.Clean:
    """Replace the whole text; says what was redacted."""
    cleaned = _clean(text, patterns)
    files.write(paths.scratchpad(root), cleaned.text, root=root, mode=files.PRIVATE)
    return cleaned


def append(root: Path, text: str, patterns: Sequence[str] = ()) -> privacy.Clean:
    """Add to the end, on a line of its own."""
    cleaned = _clean(text, patterns)

    def edit(before: str) -> str:
        return before + ("\n" if before and not before.endswith("\n") else "") + cleaned.text

    files.update(paths.scratchpad(root), edit, root=root, mode=files.PRIVATE)
    return cleaned


def clear(root: Path) -> bool:
    """Empty it; False when there was nothing."""
    path = paths.scratchpad(root)
    if not files.read(path):
        return False
    files.write(path, "", root=root)
    return True


def _clean(text: str, patterns: Sequence[str]) -> privacy.Clean:
    cleaned = privacy.redact(text.replace("\r\n", "\n"), patterns)
    if not cleaned.text.strip():
        raise Refused("the text is empty", hint="`ralph scratchpad clear` empties the scratchpad")
    privacy.check_storable(cleaned.text)
    end = "" if cleaned.text.endswith("\n") else "\n"
    return privacy.Clean(cleaned.text + end, cleaned.findings, cleaned.private)
