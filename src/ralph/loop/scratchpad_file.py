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


_ESTIMATE_SLACK = 3  # tokens; the estimate for joined text may exceed the sum of its parts


def show_scratchpad(root: Path, *, budget: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return the scratchpad's text and the headings that were left out.

    If the text exceeds `budget` (in tokens, 0 for no limit), only the newest part that fits is
    returned, below a note that the beginning is missing.
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

    Secrets are masked rather than refused, so that the note is not lost. Raises Refused if the text
    is empty or contains invisible characters.
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
    """Return the text with a trailing line break, unless it is empty."""
    if text and not text.endswith("\n"):
        return f"{text}\n"
    return text


def clear_scratchpad(root: Path) -> bool:
    """Empty the scratchpad. Returns False if it was already empty."""
    path = paths.scratchpad(root)
    if not files.read(path):
        return False
    files.write(path, "", root=root)
    return True
