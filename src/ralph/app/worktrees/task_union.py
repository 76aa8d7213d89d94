"""Both sides' entries: a file to which two branches have added, with what each added, those that say the same once.

It is done only where more than that did not happen, or happened on one side alone: what people wrote themselves on both
sides is for git and for them. The footer of global-patterns.md is derived, so two of them are no conflict: the newest
date stands, unless one is in words that Ralph does not write. Nothing is read or written here.
`tests/app/worktrees/test_task_merge.py` merges with real git, and states the laws.
"""

import re
from collections.abc import Callable, Sequence

from ralph.errors import Conflict, RalphError
from ralph.formats.memories import GUARDRAILS, parse_memories
from ralph.formats.pages import parse_patterns, parse_region
from ralph.formats.text import Document, newline_of, normalise_text
from ralph.model.record import Record

Parse = Callable[[str], Document]
_PATTERNS = ".ralph/global-patterns.md"
_PARSERS: dict[str, Parse] = {
    "AGENTS.md": parse_region,
    "CLAUDE.md": parse_region,
    ".agent/memories.md": parse_memories,
    ".ralph/agent/memories.md": parse_memories,
    ".ralph/guardrails.md": lambda text: parse_memories(text, GUARDRAILS),
    "guardrails.md": lambda text: parse_memories(text, GUARDRAILS),
}
JOINABLE = frozenset((*_PARSERS, _PATTERNS))
"""Files of which both sides' new entries can be kept."""
_NOTHING = "_Last updated:_"
_FOOTER = re.compile(r"[_*]+Last updated: (\d{4}-\d{2}-\d{2}) by [^\s_*]+[_*]+")


def joined(name: str, base: str, ours: str, theirs: str) -> str | None:
    """A file of the project with what both sides added; None when it is not that kind of file, or more has changed."""
    if name == _PATTERNS:
        return _patterns(base, ours, theirs)
    parse = _PARSERS.get(name)
    return union(parse, base, ours, theirs) if parse is not None else None


def _patterns(base: str, ours: str, theirs: str) -> str | None:
    """The same for global-patterns.md: the footers are taken off, and the newest one is put below what is joined."""
    footers = [footer for text in (ours, theirs) if (footer := _footer(text))]
    if len(set(footers)) > 1 and not all(map(_FOOTER.fullmatch, footers)):
        return None  # somebody's own words
    text = union(parse_patterns, *(_unstamped(each) for each in (base, ours, theirs)))
    if text is None or not footers:
        return text
    newest = max(footers, key=lambda each: _FOOTER.sub(r"\1", each))
    at = parse_patterns(text).footer
    if at is not None:
        return f"{text[: at[0]]}{newest}{text[at[1] :]}"
    model = ours if _footer(ours) else theirs
    return text.rstrip() + _end(model).replace(_footer(model), newest)


def _footer(text: str) -> str:
    at = parse_patterns(text).footer
    return text[at[0] : at[1]].rstrip() if at is not None else ""


def _end(text: str) -> str:
    """What the footer is, with the rule and the blank lines above it; "" where there is none, or not at the end."""
    document = parse_patterns(text)
    below = document.footer is None or text[document.footer[1] :].strip()
    return "" if below else text[len(text[: document.closing].rstrip()) :]


def _unstamped(text: str) -> str:
    """A text without its footer, or with one that says nothing where more stands below it."""
    end = _end(text)
    if end:
        return text.removesuffix(end) + newline_of(text)
    at = parse_patterns(text).footer
    return text if at is None else f"{text[: at[0]]}{_NOTHING}{text[at[1] :]}"


def union(parse: Parse, base: str, ours: str, theirs: str) -> str | None:
    """A text with what both sides added to it, each thing once; None when one side did more than the other can bear."""
    if "\ufffd" in f"{base}{ours}{theirs}":  # bytes that are no text: git's own merge keeps them
        return None
    try:
        if _reworded(parse, base, ours, theirs):
            return None
        (our_bare, our_new), (their_bare, their_new) = bare(parse, base, ours), bare(parse, base, theirs)
        if _same(their_bare, base) or _same(our_bare, their_bare):
            return _with(parse, ours, their_new)
        return _with(parse, theirs, our_new) if _same(our_bare, base) else None
    except RalphError:
        return None


def new(parse: Parse, base: str, ours: str, theirs: str) -> list[Record]:
    """What one side has that neither the other one nor their past has."""
    there = {normalise_text(entry.record.text) for text in (base, ours) for entry in parse(text).entries}
    return [entry.record for entry in parse(theirs).entries if normalise_text(entry.record.text) not in there]


def bare(parse: Parse, base: str, text: str) -> tuple[str, list[Record]]:
    """A text without the entries that it has beyond its past, and those."""
    known = {entry.record.id for entry in parse(base).entries}
    document = parse(text)
    new = [entry.record for entry in document.entries if entry.record.id not in known]
    for record in reversed(new):
        document = document.remove(record.id)
    return str(document), new


def _reworded(parse: Parse, base: str, ours: str, theirs: str) -> bool:
    """Whether both sides have put words of their own in the place of the same entry: which ones hold, a person says."""
    left, right = _instead(parse, base, ours), _instead(parse, base, theirs)
    return any(normalise_text(left[name]) != normalise_text(right[name]) for name in left.keys() & right.keys())


def _instead(parse: Parse, base: str, text: str) -> dict[str, str]:
    """The entries that a side no longer has, each with the words that stand in its place, if any do."""
    before = [entry.record.id for entry in parse(base).entries]
    now = [entry.record for entry in parse(text).entries]
    held, known = {record.id for record in now}, set(before)
    fresh: dict[str, list[str]] = {}  # by the entry above them that both have
    above = ""
    for record in now:
        if record.id in known:
            above = record.id
        else:
            fresh.setdefault(above, []).append(record.text)
    found: dict[str, str] = {}
    above = ""
    for name in before:
        if name in held:
            above = name
        elif fresh.get(above):
            found[name] = fresh[above].pop(0)
    return found


def _same(one: str, other: str) -> bool:
    return one == other or (not other.strip() and not one.strip())


def _with(parse: Parse, text: str, new: Sequence[Record]) -> str:
    """A text with some entries more; what it says already, word for word, is not said again."""
    document = parse(text)
    held = {entry.record.id: entry.record for entry in document.entries}
    for record in new:
        there = held.get(record.id)
        if there is not None and normalise_text(there.text) != normalise_text(record.text):
            raise Conflict(f"{record.id} stands on both sides with other words")
        if there is None:
            document = document.add(record)
            held[record.id] = record
    return str(document)
