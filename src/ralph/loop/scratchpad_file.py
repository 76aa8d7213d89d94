"""The scratchpad: the working memory of the current iteration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ralph.core import budget as budgets
from ralph.core import paths, tokens
from ralph.core.errors import Refused
from ralph.privacy import invisible_characters, privacy
from ralph.storage import files

_OMITTED_NOTE = "<!-- the beginning is left out -->\n"


_ESTIMATE_SLACK = 3  # tokens: the estimate of a joined text may exceed the sum of its parts


def show_scratchpad(root: Path, *, budget: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return the scratchpad and the headings that are left out.

    With a budget in tokens, it is the newest part that fits, below a note.
    """
    text = files.read(paths.scratchpad(root)) or ""
    if budget <= 0 or tokens.estimate(text) <= budget:
        return text, ()
    tail_budget = max(1, budget - tokens.estimate(_OMITTED_NOTE) - _ESTIMATE_SLACK)
    tail, omitted_headings = budgets.fit_tail(text, tail_budget)
    tail = tail.rstrip("\n") + "\n"
    with_note = _OMITTED_NOTE + tail
    if tokens.estimate(with_note) <= budget:
        return with_note, omitted_headings
    return tail, omitted_headings


def write_scratchpad(
    root: Path, text: str, patterns: Sequence[str] = (), *, append: bool = False
) -> privacy.Clean:
    """Replace the scratchpad, or append to it on a new line.

    A secret is masked instead of refused, so that the note is not lost. Raises Refused for an empty
    text or one with invisible characters.
    """
    cleaned = privacy.redact(text.replace("\r\n", "\n").replace("\r", "\n"), patterns)
    if not cleaned.text.strip():
        raise Refused("the text is empty", hint="`ralph scratchpad --clear` empties the scratchpad")
    invisible_characters.check_text(cleaned.text)
    new = _ended(cleaned.text)

    def edit(before: str) -> str:
        if not append:
            return new
        return _ended(before) + new

    files.update(paths.scratchpad(root), edit, root=root, mode=files.PRIVATE)
    return cleaned


def _ended(text: str) -> str:
    """Return a text with a line break at its end; an empty text stays empty."""
    if text and not text.endswith("\n"):
        return f"{text}\n"
    return text


def clear_scratchpad(root: Path) -> bool:
    """Empty the scratchpad; return False if it was already empty."""
    path = paths.scratchpad(root)
    if not files.read(path):
        return False
    files.write(path, "", root=root)
    return True
