"""`ralph scratchpad ...`: the working memory of the current iteration, free text.

It is the one file that is made to be overwritten, and git ignores it. What an agent puts there
passes the same redaction as everything else; a secret is masked here, not refused, so that the
note is not lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.capture import invisible_characters, privacy
from ralph.context import budget as budgets
from ralph.context.tokens import estimate
from ralph.errors import Refused
from ralph.store import files


@dataclass(frozen=True, slots=True)
class ScratchpadView:
    """The scratchpad, or its tail within a budget below a note of the headings that were left out."""

    text: str
    left_out: tuple[str, ...] = ()


def show(root: Path, *, budget: int = 0) -> ScratchpadView:
    """The text; within a budget its tail, since the newest notes stand last."""
    text = files.read(paths.scratchpad(root)) or ""
    if budget <= 0 or estimate(text) <= budget:
        return ScratchpadView(text)
    safe = _cut(text, budget, budget // 4)
    better = _cut(text, budget, estimate(_note(safe.left_out, budget // 4)))  # a short note leaves room for more
    return better if estimate(better.text) <= budget else safe


def _cut(text: str, budget: int, for_note: int) -> ScratchpadView:
    """The tail of a text that is too long, with so many tokens of the budget kept for the note and the line's end."""
    kept, left_out = budgets.fit_tail(text, max(1, budget - for_note - 1))
    shown = _note(left_out, budget // 4) + kept
    ended = shown.rstrip("\n") + "\n"
    return ScratchpadView(ended if estimate(ended) <= budget else shown, left_out)


def _note(titles: Sequence[str], most: int) -> str:
    """A line that names what was left out, in at most so many tokens; "" when not even the shortest fits."""
    bare = [title.replace("-->", "-- >") for title in titles]
    shorter = [[*bare[:count], f"{len(bare) - count} more"] for count in range(min(len(bare) - 1, most), 0, -1)]
    counted = [[f"{len(bare)} headings"]] if len(bare) > 1 else []
    for words in ([bare] if bare else []) + shorter + counted + [["the beginning"]]:
        note = f"<!-- left out: {'; '.join(words)} -->\n"
        if estimate(note) <= most:
            return note
    return ""


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
    cleaned = privacy.redact(text.replace("\r\n", "\n").replace("\r", "\n"), patterns)
    if not cleaned.text.strip():
        raise Refused("the text is empty", hint="`ralph scratchpad clear` empties the scratchpad")
    invisible_characters.check_text(cleaned.text)
    end = "" if cleaned.text.endswith("\n") else "\n"
    return privacy.Clean(cleaned.text + end, cleaned.findings, cleaned.private)
