"""Render the journal of a loop for the prompt of its next iteration.

An entry looks like this:

    ### Iteration 2 [failed]
    - **Task**: T-3
    - **Duration**: 41.0s
    - **Notes**: The migration test still fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import indent

from ralph.core import render
from ralph.core.render import clean, one_line
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry
from ralph.formats.journal import journal_id

JOURNAL_BUDGET = 3_000  # tokens
JOURNAL_HEADING = "## Run Journal"
_MAX_JOURNAL_FILES = 20
_MIN_CUT_TOKENS = 60  # with less room than this, an entry is left out, not cut
_BLANK_LINE_TOKENS = 2  # the blank line between two entries


def render_journal(
    recent: Sequence[JournalEntry],
    others: Sequence[JournalEntry] = (),
    budget: int = JOURNAL_BUDGET,
) -> str:
    """Render the Run Journal section: this run's entries in order, then those of other runs.

    The newest entry is placed first. When room runs out, notes are cut. No entry takes more than
    half of the room unless it is the only one. A budget of 0 means unlimited.
    """
    entries = [_Listed(entry, of_run=False) for entry in reversed(recent)]
    entries += [_Listed(entry, of_run=True) for entry in others]
    if not entries:
        return ""
    text = _join_journal([entry.render() for entry in entries], len(recent))
    if budget <= 0 or estimate(text) <= budget:
        return text
    most = budget
    if len(entries) > 1:
        most = budget // 2
    blocks: list[str] = []
    for entry in entries:
        used = estimate(_join_journal(blocks, len(recent), omitted=len(entries)))
        room = min(most, budget - _BLANK_LINE_TOKENS - used)
        block = entry.render()
        if estimate(block) > room:
            block = entry.render_cut(room)
        if not block:
            break
        blocks.append(block)
    if not blocks:
        return ""
    return _join_journal(blocks, len(recent), omitted=len(entries) - len(blocks))


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry in the journal section. With `of_run`, its heading names the run it belongs to."""

    entry: JournalEntry
    of_run: bool

    def render(self) -> str:
        return journal_block(self.entry, of_run=self.of_run)

    def render_cut(self, room: int) -> str:
        """Render the entry with as much of its notes as there is room for.

        Returns "" if there is too little room.
        """
        entry = self.entry
        mark = f"… (full entry: ralph loop show {journal_id(entry.run, entry.iteration)})"
        frame = estimate(journal_block(replace(entry, notes=mark), of_run=self.of_run))
        indented = clean(entry.notes).strip().replace("\n", "\n  ")
        notes = render.cut(indented, room - frame, "").replace("\n  ", "\n")
        block = journal_block(replace(entry, notes=notes + mark), of_run=self.of_run)
        if not notes or room < _MIN_CUT_TOKENS or estimate(block) > room:
            return ""
        return block


def _join_journal(blocks: Sequence[str], own_count: int, omitted: int = 0) -> str:
    """Join the blocks into a section.

    The first `own_count` blocks are this run's entries, newest first.
    """
    lines = [f"{JOURNAL_HEADING}\n", *reversed(blocks[:own_count]), *blocks[own_count:]]
    if omitted:
        lines.append(f"_{omitted} more left out; `ralph loop show --journal` shows them._\n")
    return "\n".join(lines)


def journal_block(entry: JournalEntry, *, of_run: bool = False) -> str:
    """Render one entry as Markdown. With `of_run`, its heading names the run."""
    heading = f"### Iteration {entry.iteration}"
    if of_run:
        heading += f" of {one_line(entry.run)}"
    duration = f"{entry.duration:.1f}s"
    if round(entry.cost, 4):
        duration += f" | **Cost**: ${entry.cost:.4f}"
    files = [one_line(name) for name in entry.files[:_MAX_JOURNAL_FILES]]
    if len(entry.files) > _MAX_JOURNAL_FILES:
        files.append(f"and {len(entry.files) - _MAX_JOURNAL_FILES} more")
    notes = render.short_tracebacks(clean(entry.notes)).strip()
    fields = (
        ("Task", one_line(entry.task or entry.title)),
        ("Model", one_line(entry.model)),
        ("Duration", duration),
        ("Files", ", ".join(files)),
        ("Notes", indent(notes, "  ").strip()),
    )
    lines = [f"{heading} [{entry.outcome.value}]"]
    for name, value in fields:
        if value:
            lines.append(f"- **{name}**: {value}")
    return "\n".join(lines) + "\n"
