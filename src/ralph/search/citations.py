"""What a record cites: files with lines, symbols, commands, commits; and what came of looking for each.

Only what a text points at counts. Files are words that end like one (`cited.py`) and those that its metadata names; a
symbol is `name()`, `src/a.ts#name`, `symbol:name` or, in backticks, `Class.method`, and is looked for in the files that
the same record cites;
a command is code that runs something of the project by name (`make lint`, `npm run build`); a commit follows the word
"commit", stands in backticks, or in the metadata. Whether a citation must have existed (`sure`) depends on who says
so: metadata does, prose may speak of what never was. `tests/search/test_citations.py` holds the cases.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ralph.model.record import Record
from ralph.search import cited

MOST = 40
"""Citations of one record that are looked at."""

_CODE = re.compile(r"`([^`\n]{1,200})`|^[ \t>]*\$[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
_CALL = re.compile(r"(?<![\w./-])([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)\(\)")
_DOTTED = re.compile(r"([A-Za-z_]\w*)(?:\.|::)([A-Za-z_]\w*)")
_OF_FILE = re.compile(r"(?<![\w./-])[\w./@+-]*\w\.([A-Za-z]\w{0,9})#(?!L\d)([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)")
_NAMED_SYMBOL = re.compile(r"(?<![\w:/])symbol:([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?![\w/#])")
_WITH_HEADINGS = frozenset("htm html md mdx rst txt".split())
"""Files in which `#name` is a heading."""
_TARGET = re.compile(r"(make|just|(?:npm|pnpm|yarn|bun) run|npm|pnpm|yarn)[ ]+([A-Za-z][\w:.-]*)(?=\s|\Z)")
_SCRIPTS = {"test": "test", "start": "start"}
_NAMED_COMMIT = re.compile(r"\bcommit:?\s+`?([0-9a-f]{7,40})\b`?", re.IGNORECASE)
_HEX = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}")


class Cited(StrEnum):
    """What is cited."""

    FILE = "file"
    SYMBOL = "symbol"
    COMMAND = "command"
    COMMIT = "commit"


class Verdict(StrEnum):
    """What came of looking for it, the worst first."""

    GONE = "gone"
    MOVED = "moved"
    CHANGED = "changed"
    UNVERIFIABLE = "unverifiable"
    FRESH = "fresh"


STALE = (Verdict.GONE, Verdict.MOVED)
"""What makes a record rank lower, and fails `ralph check --ci`; that a file changed happens all the time."""


@dataclass(frozen=True, slots=True)
class Citation:
    """One thing that a record points at; `sure` when its author says that it was there."""

    kind: Cited
    what: str
    first: int = 0
    last: int = 0
    sure: bool = False

    def __str__(self) -> str:
        lines = f":{self.first}" if self.first else ""
        return f"{self.what}{lines}{f'-{self.last}' if self.last > self.first else ''}"


@dataclass(frozen=True, slots=True)
class Looked:
    """A citation and what came of looking for it; `place` is where it is now."""

    citation: Citation
    verdict: Verdict
    place: str = ""
    why: str = ""


def of(record: Record) -> tuple[Citation, ...]:
    """Everything that a record cites, each once, in the order of its text."""
    found: dict[tuple[Cited, str], Citation] = {}
    for each in _all(record, f"{record.title}\n{record.text}"):
        held = found.get((each.kind, each.what))
        if held is None or (each.sure and not held.sure) or (each.first and not held.first):
            found[each.kind, each.what] = each
    return tuple(found.values())[:MOST]


def _all(record: Record, text: str) -> Iterator[Citation]:
    for path in record.origin.files:
        place = cited.file(path)
        if place is not None:
            yield Citation(Cited.FILE, place[0], sure=True)
    for path, first, last in cited.files(text):
        yield Citation(Cited.FILE, path, first, last)
    code = [match[1] or match[2] for match in _CODE.finditer(text)]
    yield from _symbols(text, code)
    for each in code:
        yield from _commands(each.strip())
    if record.origin.commit:
        yield Citation(Cited.COMMIT, record.origin.commit, sure=True)
    yield from (Citation(Cited.COMMIT, match[1], sure=True) for match in _NAMED_COMMIT.finditer(text))
    yield from (Citation(Cited.COMMIT, each) for each in code if _HEX.fullmatch(each))


def _symbols(text: str, code: list[str]) -> Iterator[Citation]:
    for match in _CALL.finditer(text):
        yield Citation(Cited.SYMBOL, match[1].replace("::", "."))
    for match in _OF_FILE.finditer(text):
        if match[1].lower() not in _WITH_HEADINGS:
            yield Citation(Cited.SYMBOL, match[2])
    for match in _NAMED_SYMBOL.finditer(text):
        if cited.file(match[1]) is None:
            yield Citation(Cited.SYMBOL, match[1])
    for each in code:
        match_ = _DOTTED.fullmatch(each)
        if match_ is not None and cited.file(each) is None:
            yield Citation(Cited.SYMBOL, f"{match_[1]}.{match_[2]}")


def _commands(words: str) -> Iterator[Citation]:
    match = _TARGET.match(words)
    if match is None:
        return
    tool, name = match[1], match[2]
    if tool in ("npm", "pnpm", "yarn") and name not in _SCRIPTS:
        return  # the tool's own words, or a package's
    yield Citation(Cited.COMMAND, f"{tool} {name}")
