"""Citations: the files with lines, symbols, commands and commits that a record cites.

Files are words that end like one, and those that its metadata name; a symbol is `name()`, `src/a.ts#name`,
`symbol:name` or, in backticks, `Class.method`; a command is code that runs something of the project by name
(`make lint`, `npm run build`); a commit follows the word "commit", is in backticks, or in the metadata.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ralph.model.record import Record

MOST = 40
"""Citations of one record that are checked."""

ENDINGS = frozenset(
    """bash bat c cc cfg cjs clj cmake conf cpp cs css csv dart ejs erl ex exs fish go gradle graphql h hbs hcl hpp hs
    htm html ini ipynb java jl js json jsonl jsx kt kts less lock lua m md mdx mjs ml mm nix php pl prisma properties
    proto ps1 py pyi pyx r rb rs rst sass scala scss sh sol sql svelte swift tf tfvars toml ts tsx txt vue xml yaml yml
    zig zsh""".split()
)
"""Endings of source files."""
NAMES = frozenset("Makefile Dockerfile Justfile Procfile Gemfile Rakefile Jenkinsfile".split())
"""Files without an ending."""

_AROUND = "`'\"()[]{}<>*,;!?“”‘’«»"
_NEVER = frozenset("\\*?{}<>$~|@\"'`;&%^=!")
_LONGEST = 300
_ENDING = 8
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


class CitationKind(StrEnum):
    """The kind of a citation."""

    FILE = "file"
    SYMBOL = "symbol"
    COMMAND = "command"
    COMMIT = "commit"


class CitationState(StrEnum):
    """The result of checking a citation, the worst first."""

    GONE = "gone"
    MOVED = "moved"
    CHANGED = "changed"
    UNVERIFIABLE = "unverifiable"
    FRESH = "fresh"


STALE = (CitationState.GONE, CitationState.MOVED)
"""States that lower the rank of a record; that a file changed happens all the time."""


@dataclass(frozen=True, slots=True)
class Citation:
    """One thing that a record cites; `sure` when metadata say that it existed, prose may speak of what never did."""

    kind: CitationKind
    what: str
    first: int = 0
    last: int = 0
    sure: bool = False

    def __str__(self) -> str:
        lines = f":{self.first}" if self.first else ""
        return f"{self.what}{lines}{f'-{self.last}' if self.last > self.first else ''}"


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """A citation with its state; `place` is where it is now."""

    citation: Citation
    verdict: CitationState
    place: str = ""
    why: str = ""


def find_citations(record: Record) -> tuple[Citation, ...]:
    """Everything that a record cites, each once, in the order of its text."""
    found: dict[tuple[CitationKind, str], Citation] = {}
    for each in _all(record, f"{record.title}\n{record.text}"):
        earlier = found.get((each.kind, each.what))
        if earlier is None or (each.sure and not earlier.sure) or (each.first and not earlier.first):
            found[each.kind, each.what] = each
    return tuple(found.values())[:MOST]


def _all(record: Record, text: str) -> Iterator[Citation]:
    for path in record.origin.files:
        parsed = parse_file(path)
        if parsed is not None:
            yield Citation(CitationKind.FILE, parsed[0], sure=True)
    for path, first, last in cited_files(text):
        yield Citation(CitationKind.FILE, path, first, last)
    code = [match[1] or match[2] for match in _CODE.finditer(text)]
    yield from _symbols(text, code)
    for each in code:
        yield from _commands(each.strip())
    if record.origin.commit:
        yield Citation(CitationKind.COMMIT, record.origin.commit, sure=True)
    yield from (Citation(CitationKind.COMMIT, match[1], sure=True) for match in _NAMED_COMMIT.finditer(text))
    yield from (Citation(CitationKind.COMMIT, each) for each in code if _HEX.fullmatch(each))


def _symbols(text: str, code: list[str]) -> Iterator[Citation]:
    for match in _CALL.finditer(text):
        yield Citation(CitationKind.SYMBOL, match[1].replace("::", "."))
    for match in _OF_FILE.finditer(text):
        if match[1].lower() not in _WITH_HEADINGS:
            yield Citation(CitationKind.SYMBOL, match[2])
    for match in _NAMED_SYMBOL.finditer(text):
        if parse_file(match[1]) is None:
            yield Citation(CitationKind.SYMBOL, match[1])
    for each in code:
        match_ = _DOTTED.fullmatch(each)
        if match_ is not None and parse_file(each) is None:
            yield Citation(CitationKind.SYMBOL, f"{match_[1]}.{match_[2]}")


def _commands(code: str) -> Iterator[Citation]:
    match = _TARGET.match(code)
    if match is None:
        return
    tool, name = match[1], match[2]
    if tool in ("npm", "pnpm", "yarn") and name not in _SCRIPTS:
        return  # a subcommand of the tool, or a package
    yield Citation(CitationKind.COMMAND, f"{tool} {name}")


# --- file references -----------------------------------------------------------------------------


def cited_files(text: str) -> list[tuple[str, int, int]]:
    """The files in a text, each once, with the first and last line that are cited (0: none)."""
    found: dict[tuple[str, int, int], None] = {}
    for word in text.replace("](", " ").replace(",", " ").split():
        if ("." in word or "file" in word) and len(word) <= _LONGEST and "://" not in word:
            parsed = parse_file(word.rpartition("=")[2])
            if parsed is not None:
                found[parsed] = None
    return list(found)


def parse_file(word: str) -> tuple[str, int, int] | None:
    """The file and the lines that a word names, or None.

    A word is a file when it has a folder and a short ending, or an ending of source files. Addresses, patterns
    (`*.py`), versions, paths outside of the project and placeholders are not. Whether it exists is not checked.
    """
    reference = word.strip(_AROUND).rstrip(".:").removeprefix("file:").removeprefix("symbol:")
    path, first, last = _split_lines(reference)
    path = path.strip(_AROUND).removeprefix("./")
    if not path or path[0] in "/-" or not _NEVER.isdisjoint(path):
        return None
    folder, _, name = path.rpartition("/")
    parts = folder.split("/") if folder else []
    if ".." in parts or "" in parts or (parts and "." in parts[0][1:]):
        return None  # outside of the project, or a host name
    if name in NAMES:
        return path, first, last
    stem, _, ending = name.rpartition(".")
    if not stem and not folder:
        return None
    source = ending.lower() in ENDINGS
    plausible = bool(folder) and ending.isalpha() and ending.islower() and len(ending) <= _ENDING and bool(stem)
    return (path, first, last) if source or plausible else None


def _split_lines(word: str) -> tuple[str, int, int]:
    """Split off the lines of a reference: `:12`, `:12-20`, `:12:5`, `#L12`, `#L12-L20`."""
    path, mark, rest = word.partition("#L")
    if mark:
        first, last = _line_range(rest.replace("L", ""))
        return path, first, last
    word = word.partition("#")[0]
    path, colon, rest = word.partition(":")
    first, last = _line_range(rest.partition(":")[0])
    return (path, first, last) if colon and (first or not rest) else (word, 0, 0)


def _line_range(text: str) -> tuple[int, int]:
    first, _, last = text.replace("–", "-").partition("-")
    if not (first.isdecimal() and first.isascii() and len(first) < _ENDING):
        return 0, 0
    end = int(last) if last.isdecimal() and last.isascii() and len(last) < _ENDING else int(first)
    return int(first), max(int(first), end)
