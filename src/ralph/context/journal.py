"""`## Run Journal`: what happened in earlier iterations, for the prompt of the next one.

Entries of this run stand in their order, those of other runs after them, best first, with the run in their heading.
When not everything fits, this run's newest entry goes in first, then the older ones, then other runs'. An entry is
never passed over in favour of an older one: where the room ends, its notes are cut and say how to get the rest. None
takes more than half of the room, so that one long note does not silence all others. Notes are an agent's words: they
lose what a host would obey, and are indented, so that no heading in them ends the section.
`tests/context/test_journal.py` proves the budget by property.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from ralph.context.render import clean
from ralph.context.tokens import estimate
from ralph.formats.log import journal_id
from ralph.model.work import JournalEntry

BUDGET = 3_000
HEADING = "## Run Journal"

_MOST_FILES = 20
_LEAST = 60
"""Tokens for an entry whose notes are cut; fewer say nothing."""
_JOINT = 2
"""Tokens that a blank line between two entries costs, rounded up."""


def render(recent: Sequence[JournalEntry], others: Sequence[JournalEntry] = (), budget: int = BUDGET) -> str:
    """Entries of this run in their order, then those of other runs, within so many tokens (0: all); "" for none."""
    wanted = [*((entry, False) for entry in reversed(recent)), *((entry, True) for entry in others)]
    whole = _section([block(entry, of_run=told) for entry, told in wanted], len(recent))
    if budget <= 0 or estimate(whole) <= budget:
        return whole
    share = budget // 2 if len(wanted) > 1 else budget
    kept: list[str] = []
    for entry, told in wanted:
        room = budget - _JOINT - estimate(_section(kept, len(recent), len(wanted)))
        text = _fitted(entry, told, min(share, room))
        if not text:
            break
        kept.append(text)
    return _section(kept, len(recent), len(wanted) - len(kept)) if kept else ""


def block(entry: JournalEntry, *, of_run: bool = False) -> str:
    """One entry: what came of the iteration, and what there is to say about it."""
    run = f" of {_line(entry.run)}" if of_run else ""
    lines = [f"### Iteration {entry.iteration}{run} [{entry.outcome.value}]"]
    price = f" | **Cost**: ${entry.cost:.4f}" if round(entry.cost, 4) else ""
    for name, words in (
        ("Task", _line(entry.task or entry.title)),
        ("Model", _line(entry.model)),
        ("Duration", f"{entry.duration:.1f}s{price}"),
        ("Files", _files(entry.files)),
        ("Notes", _indented(entry.notes)),
    ):
        if words:
            lines.append(f"- **{name}**: {words}")
    return "\n".join(lines) + "\n"


def _section(blocks: Sequence[str], mine: int, left: int = 0) -> str:
    """The blocks, which come newest first, the first so many of this run; "" for none unless some were left out."""
    if not blocks and not left:
        return ""
    note = [f"_{left} more left out; `ralph loop journal` shows them._\n"] if left else []
    return "\n".join([f"{HEADING}\n", *reversed(blocks[:mine]), *blocks[mine:], *note])


def _fitted(entry: JournalEntry, told: bool, room: int) -> str:
    """An entry within so many tokens, with its notes cut if need be; "" when that would say nothing."""
    whole = block(entry, of_run=told)
    if estimate(whole) <= room:
        return whole
    notes = clean(entry.notes).strip()
    mark = f"… (all of it: ralph loop journal {journal_id(entry.run, entry.iteration)})"

    def cut(size: int) -> str:
        return block(replace(entry, notes=notes[:size].rstrip() + mark), of_run=told)

    size = bisect_left(range(len(notes)), True, key=lambda size: estimate(cut(size)) > room) - 1
    space = max(notes.rfind(" ", 0, size + 1), notes.rfind("\n", 0, size + 1))
    size = space if space > size // 2 else size
    while size > 0 and estimate(cut(size)) > room:  # a mark costs more after some letters than after others
        size -= 1
    return cut(size) if size > 0 and room >= _LEAST else ""


def _files(names: Sequence[str]) -> str:
    more = len(names) - _MOST_FILES
    return ", ".join([*map(_line, names[:_MOST_FILES]), *([f"and {more} more"] if more > 0 else [])])


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in clean(text).strip().split("\n")).strip()
