"""What is odd in a memories.md or guardrails.md, each as a Problem with what to do about it.

Nothing here changes how a file is read: these are the explanations that `ralph doctor` prints
for what the codec tolerated, kept apart or could not read.
"""

import re
from collections.abc import Iterable, Sequence

from ralph.formats.document import Entry, Problem
from ralph.formats.found import Block
from ralph.formats.scan import Scan
from ralph.model.record import kind_of

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PATH_LINE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:\\)[^\n]*\.md")


def oddities(text: str, scan: Scan, entries: Sequence[Entry], expected: Sequence[str]) -> Iterable[Problem]:
    """Everything odd in one file; `expected` are the headings that a new file of its sort has."""
    yield from scan.problems
    seen: dict[str, int] = {}
    mend = "run `ralph doctor --fix` to give it a new one"
    if scan.has_conflict:
        mend = f"resolve the merge; when both are still there, {mend}"
    for found, entry in zip(scan.blocks, entries, strict=True):
        first = seen.setdefault(entry.record.id, entry.line)
        if first != entry.line:
            yield Problem(
                entry.line, f"the id {entry.record.id} is already used at line {first}", mend, "error", "duplicate-id",
            )  # fmt: skip
        yield from _entry_problems(found, entry)
    yield from _section_problems(scan, expected)
    yield from _text_problems(text)
    if scan.words and not entries and not _is_broken(text, scan):
        yield Problem(
            scan.words, "there is text, but no entries were found in it",
            "add one with `ralph memory add` or `ralph guardrails add`, or leave it as notes", "note", "nothing-read",
        )  # fmt: skip


def _is_broken(text: str, scan: Scan) -> bool:
    """Whether an error already says why nothing is read."""
    return _first_line_is_a_path(text) or any(problem.level == "error" for problem in scan.problems)


def _text_problems(text: str) -> Iterable[Problem]:
    if _first_line_is_a_path(text):
        yield Problem(
            1, "the first line is a path: a symbolic link was probably committed as its text",
            "restore the file from git history, then remove this line", "error", "path-line",
        )  # fmt: skip
    byte = _NOT_UTF8.search(text)
    if byte is not None:
        at = text.count("\n", 0, byte.start()) + 1
        yield Problem(at, "bytes that are not UTF-8", "save the file as UTF-8", "error", "not-utf8")
    nul = text.find("\0")
    if nul >= 0:
        at = text.count("\n", 0, nul) + 1
        yield Problem(at, "a NUL character, which text never holds", "remove it", "warning", "nul")


def _entry_problems(found: Block | Entry, entry: Entry) -> Iterable[Problem]:
    if not entry.record.text.strip():
        yield Problem(
            entry.line,
            "this entry has no text",
            "write it below the heading, after `> `",
            "warning",
            "no-text",
        )
    elif isinstance(found, Entry):
        return
    elif found.mark == "plain":
        yield Problem(
            entry.line, "the text of this entry is not a quote", "begin each of its lines with `> `",
            "warning", "no-quote",
        )  # fmt: skip
    elif found.odd:
        yield Problem(
            entry.line, "a line without `>` follows the quote and is read as part of it",
            "begin it with `> `, or put a blank line before it", "warning", "lazy-quote",
        )  # fmt: skip
    created = entry.record.extra.get("created")
    if created is not None:
        yield Problem(
            entry.line, f"`created: {created}` is not a date", "write it as YYYY-MM-DD", "warning", "bad-date"
        )


def _section_problems(scan: Scan, expected: Sequence[str]) -> Iterable[Problem]:
    lines: dict[str, int] = {}
    for section in scan.sections:
        known = kind_of(section.heading)
        if section.heading in lines and section.entries:
            yield Problem(
                section.line, f"the section `## {section.heading}` is already at line {lines[section.heading]}",
                "move its entries there; new ones go to the first", "note", "double-section",
            )  # fmt: skip
        lines.setdefault(section.heading, section.line)
        if known is None and section.entries:
            yield Problem(
                section.line,
                f"`## {section.heading}` is not one of our sections: its entries are read with that label",
                "nothing needs doing", "note", "foreign-section",
            )  # fmt: skip
        if known is not None and section.bullets:
            yield Problem(
                section.line,
                f"{section.bullets} bullet(s) under `## {section.heading}` are not entries and are not read",
                "add each with `ralph memory add`, or leave them as notes", "note", "loose-bullets",
            )  # fmt: skip
        if section.titles:
            yield Problem(
                section.line,
                f"{section.titles} `###` heading(s) under `## {section.heading}` have no id: they are prose",
                "add them with `ralph memory add` or `ralph guardrails add` to have them found",
                "note", "plain-heading",
            )  # fmt: skip
    if scan.blocks or scan.sections:
        there = {section.ours for section in scan.sections}
        missing = [heading for heading in expected if heading not in there]
        if missing and len(missing) < len(expected):
            yield Problem(
                1, f"missing section(s): {', '.join(missing)}",
                "they are made when the first entry needs them, or by `ralph doctor --fix`", "note", "missing-section",
            )  # fmt: skip


def _first_line_is_a_path(text: str) -> bool:
    """Whether the file begins with a bare path: what is left when a symbolic link was committed as text."""
    first = text.lstrip("\ufeff").partition("\n")[0].strip()
    return len(first) < 4096 and _PATH_LINE.fullmatch(first) is not None
