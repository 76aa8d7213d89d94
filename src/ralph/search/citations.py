"""Citations: the files with lines, symbols, commands and commits that a record cites.

A symbol is `name()`, `src/a.ts#name`, `symbol:name` or, in backticks, `Class.method`; a command is code that runs
something of the project by name (`make lint`); a commit follows the word "commit", is in backticks, or in the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from ralph.model.record import Record

MOST = 40  # citations of one record that are checked
_ENDINGS = frozenset(
    {
        "bash",
        "bat",
        "c",
        "cc",
        "cfg",
        "cjs",
        "clj",
        "cmake",
        "conf",
        "cpp",
        "cs",
        "css",
        "csv",
        "dart",
        "ejs",
        "erl",
        "ex",
        "exs",
        "fish",
        "go",
        "gradle",
        "graphql",
        "h",
        "hbs",
        "hcl",
        "hpp",
        "hs",
        "htm",
        "html",
        "ini",
        "ipynb",
        "java",
        "jl",
        "js",
        "json",
        "jsonl",
        "jsx",
        "kt",
        "kts",
        "less",
        "lock",
        "lua",
        "m",
        "md",
        "mdx",
        "mjs",
        "ml",
        "mm",
        "nix",
        "php",
        "pl",
        "prisma",
        "properties",
        "proto",
        "ps1",
        "py",
        "pyi",
        "pyx",
        "r",
        "rb",
        "rs",
        "rst",
        "sass",
        "scala",
        "scss",
        "sh",
        "sol",
        "sql",
        "svelte",
        "swift",
        "tf",
        "tfvars",
        "toml",
        "ts",
        "tsx",
        "txt",
        "vue",
        "xml",
        "yaml",
        "yml",
        "zig",
        "zsh",
    }
)
_NAMES = frozenset(
    {
        "Makefile",
        "Dockerfile",
        "Justfile",
        "Procfile",
        "Gemfile",
        "Rakefile",
        "Jenkinsfile",
    }
)
_AROUND = "`'\"()[]{}<>*,;!?“”‘’«»"
_NEVER = frozenset("\\*?{}<>$~|@\"'`;&%^=!")
_LONGEST = 300
_LONGEST_ENDING = 8
_REFERENCE = re.compile(
    r"(.*?)(?:#L(\d{1,7})(?:-L?(\d{1,7}))?|:(\d{1,7})(?:[-–](\d{1,7}))?(?::.*)?|#.*)?"
)
"""A file with its lines: `:12`, `:12-20`, `:12:5`, `#L12`, `#L12-L20`."""
_NAMED_COMMIT = re.compile(r"\bcommit:?\s+`?([0-9a-f]{7,40})\b`?", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]{1,200})`|^[ \t>]*\$[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
_SYMBOL = re.compile(
    r"(?<![\w./-])([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)\(\)"
    r"|\w\.(?!(?:html?|mdx?|rst|txt)#)[A-Za-z]\w{0,9}#(?!L\d)([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)"  # no heading
    r"|(?<![\w:/])symbol:([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?![\w/#])"
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.|::)[A-Za-z_]\w*")
_COMMAND = re.compile(
    r"((?:make|just|(?:npm|pnpm|yarn|bun) run) +[A-Za-z][\w:.-]*|(?:npm|pnpm|yarn) +(?:test|start))(?=\s|\Z)"
)
"""Without `run` only two names are scripts: others are subcommands of the tool, or packages."""
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


class Citation(NamedTuple):
    """One thing that a record cites; `sure` when metadata say that it existed."""

    kind: CitationKind
    what: str
    first: int = 0
    last: int = 0
    sure: bool = False

    def __str__(self) -> str:
        lines = f":{self.first}" if self.first else ""
        return f"{self.what}{lines}{f'-{self.last}' if self.last > self.first else ''}"


class CheckedCitation(NamedTuple):
    """A citation with its state; `place` is where it is now."""

    citation: Citation
    verdict: CitationState
    place: str = ""
    why: str = ""


def find_citations(record: Record) -> tuple[Citation, ...]:
    """Return everything that a record cites, each once, in the order of its text."""
    citations: dict[tuple[CitationKind, str], Citation] = {}
    for each in _all(record, f"{record.title}\n{record.text}"):
        earlier = citations.get((each.kind, each.what))
        if (
            earlier is None
            or (each.sure and not earlier.sure)
            or (each.first and not earlier.first)
        ):
            citations[each.kind, each.what] = each
    return tuple(citations.values())[:MOST]


def _all(record: Record, text: str) -> Iterator[Citation]:
    for path in record.origin.files:
        if parsed := _parse_file(path):
            yield Citation(CitationKind.FILE, parsed[0], sure=True)
    for path, first, last in cited_files(text):
        yield Citation(CitationKind.FILE, path, first, last)
    code = [(match[1] or match[2]).strip() for match in _CODE.finditer(text)]
    symbols = [match[1] or match[2] or match[3] for match in _SYMBOL.finditer(text)]
    for name in (*symbols, *filter(_DOTTED.fullmatch, code)):
        if _parse_file(name) is None:
            yield Citation(CitationKind.SYMBOL, name.replace("::", "."))
    for command in filter(None, map(_COMMAND.match, code)):
        yield Citation(CitationKind.COMMAND, " ".join(command[1].split()))
    if record.origin.commit:
        yield Citation(CitationKind.COMMIT, record.origin.commit, sure=True)
    yield from (
        Citation(CitationKind.COMMIT, match[1], sure=True) for match in _NAMED_COMMIT.finditer(text)
    )
    yield from (Citation(CitationKind.COMMIT, each) for each in filter(_HEX.fullmatch, code))


def cited_files(text: str) -> list[tuple[str, int, int]]:
    """Return the files in a text, each once, with the first and last line that are cited (0: none)."""
    references: dict[tuple[str, int, int], None] = {}
    for word in text.replace("](", " ").replace(",", " ").split():
        if ("." in word or "file" in word) and len(word) <= _LONGEST and "://" not in word:
            parsed = _parse_file(word.rpartition("=")[2])
            if parsed is not None:
                references[parsed] = None
    return list(references)


def _parse_file(word: str) -> tuple[str, int, int] | None:
    """A folder and a short ending, or an ending of source files; no address, pattern, version or outside path."""
    reference = word.strip(_AROUND).rstrip(".:").removeprefix("file:").removeprefix("symbol:")
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    first = int(match[2] or match[4] or 0)
    lines = (first, max(first, int(match[3] or match[5] or 0)))
    path = match[1].strip(_AROUND).removeprefix("./")
    if not path or path[0] in "/-" or not _NEVER.isdisjoint(path):
        return None
    folder, _, name = path.rpartition("/")
    parts = folder.split("/") if folder else []
    if ".." in parts or "" in parts or (parts and "." in parts[0][1:]):
        return None  # outside of the project, or a host name
    stem, _, ending = name.rpartition(".")
    is_source = name in _NAMES or (ending.lower() in _ENDINGS and bool(stem or folder))
    plausible = (
        folder and stem and ending.isalpha() and ending.islower() and len(ending) <= _LONGEST_ENDING
    )
    return (path, *lines) if is_source or plausible else None
