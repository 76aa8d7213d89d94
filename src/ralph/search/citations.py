"""Find what a record cites: files with lines, symbols, commands and commits.

A file may be cited with lines, as in `src/a.py:12-20`. A symbol is written as `name()`,
`src/a.ts#name`, `symbol:name` or, in backticks, `Class.method`. A command is code that runs one of
the project's own targets or scripts by name, such as `make lint`. A commit follows the word
"commit", is in backticks, or comes from the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from ralph.core.record import Record

MAX_CITATIONS = 40  # citations checked per record

# fmt: off
_SOURCE_EXTENSIONS = frozenset({
    "bash", "bat", "c", "cc", "cfg", "cjs", "clj", "cmake", "conf", "cpp", "cs", "css", "csv",
    "dart", "ejs", "erl", "ex", "exs", "fish", "go", "gradle", "graphql", "h", "hbs", "hcl", "hpp",
    "hs", "htm", "html", "ini", "ipynb", "java", "jl", "js", "json", "jsonl", "jsx", "kt", "kts",
    "less", "lock", "lua", "m", "md", "mdx", "mjs", "ml", "mm", "nix", "php", "pl", "prisma",
    "properties", "proto", "ps1", "py", "pyi", "pyx", "r", "rb", "rs", "rst", "sass", "scala",
    "scss", "sh", "sol", "sql", "svelte", "swift", "tf", "tfvars", "toml", "ts", "tsx", "txt",
    "vue", "xml", "yaml", "yml", "zig", "zsh",
})
# fmt: on
_SOURCE_NAMES = frozenset(
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
_SURROUNDING = "`'\"()[]{}<>*,;!?“”‘’«»"
"""Characters that may surround a path in prose."""
_NOT_IN_PATHS = frozenset("\\*?{}<>$~|@\"'`;&%^=!")
"""Characters that occur in patterns, variables and addresses, but not in paths."""
_MAX_WORD_CHARACTERS = 300
_MAX_EXTENSION_CHARACTERS = 8  # in an unknown extension, if the path has a folder

_LINE_REFERENCE = re.compile(
    r"(?P<path>.*?)"
    r"(?:"
    r"\#L(?P<hash_first>\d{1,7})(?:-L?(?P<hash_last>\d{1,7}))?"
    r"|:(?P<colon_first>\d{1,7})(?:[-–](?P<colon_last>\d{1,7}))?(?::.*)?"
    r"|\#.*"
    r")?"
)
"""A file with line numbers: `:12`, `:12-20`, `:12:5`, `#L12`, `#L12-L20`."""
_NAMED_COMMIT = re.compile(r"\bcommit:?\s+`?([0-9a-f]{7,40})\b`?", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]{1,200})`|^[ \t>]*\$[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
"""Code in backticks, or a command after a `$` prompt."""
_SYMBOL = re.compile(
    r"(?<![\w./-])([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)\(\)"
    # the anchor of a page is a heading, not a symbol
    r"|\w\.(?!(?:html?|mdx?|rst|txt)#)[A-Za-z]\w{0,9}"
    r"#(?!L\d)([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)"
    r"|(?<![\w:/])symbol:([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?![\w/#])"
)
"""`name()`, `src/a.ts#name` or `symbol:name`."""
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(?:\.|::)[A-Za-z_]\w*")
_COMMAND = re.compile(
    r"((?:make|just|(?:npm|pnpm|yarn|bun) run) +[A-Za-z][\w:.-]*"
    r"|(?:npm|pnpm|yarn) +(?:test|start))(?=\s|\Z)"
)
"""Without `run`, only `test` and `start` are scripts. Other words are subcommands or packages."""
_COMMIT_HASH = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}")
"""Must contain both a digit and a letter. Otherwise it could be a number or a word."""


class CitationKind(StrEnum):
    """The kind of a citation."""

    FILE = "file"
    SYMBOL = "symbol"
    COMMAND = "command"
    COMMIT = "commit"


class CitationState(StrEnum):
    """The result of checking a citation, worst first."""

    GONE = "gone"
    MOVED = "moved"
    CHANGED = "changed"
    UNVERIFIABLE = "unverifiable"
    FRESH = "fresh"


STALE = (CitationState.GONE, CitationState.MOVED)
"""The states that lower a record's rank. CHANGED does not, as files change all the time."""


class Citation(NamedTuple):
    """One thing that a record cites.

    `first` and `last` are line numbers, or 0 if no lines are cited. `sure` says that the metadata,
    or the word "commit" before a hash, proves that the cited thing existed.
    """

    kind: CitationKind
    what: str
    first: int = 0
    last: int = 0
    sure: bool = False

    def __str__(self) -> str:
        if not self.first:
            lines = ""
        elif self.last > self.first:
            lines = f":{self.first}-{self.last}"
        else:
            lines = f":{self.first}"
        return f"{self.what}{lines}"


class CheckedCitation(NamedTuple):
    """A citation with its state. `place` is the current location of the cited file or symbol."""

    citation: Citation
    verdict: CitationState
    place: str = ""
    why: str = ""


_MAX_SEARCHED_CHARACTERS = 100_000  # of a record's text; longer ones are rarely written by hand


class FileReference(NamedTuple):
    """A cited file, with the first and last cited line (0 if no lines are cited)."""

    path: str
    first: int
    last: int


def find_citations(record: Record) -> tuple[Citation, ...]:
    """Return the citations in a record without duplicates.

    Files come first, then symbols, commands and commits. Each group is ordered as in the text.
    """
    citations: dict[tuple[CitationKind, str], Citation] = {}
    for citation in _all_citations(record):
        key = (citation.kind, citation.what)
        if key not in citations or _is_better(citation, citations[key]):
            citations[key] = citation
    return tuple(citations.values())[:MAX_CITATIONS]


def _is_better(citation: Citation, earlier: Citation) -> bool:
    """Return whether a repeated citation is more specific than the earlier one."""
    is_surer = citation.sure and not earlier.sure
    has_new_line = citation.first > 0 and earlier.first == 0
    return is_surer or has_new_line


def _all_citations(record: Record) -> Iterator[Citation]:
    """Yield all citations in a record, including duplicates."""
    text = f"{record.title}\n{record.text[:_MAX_SEARCHED_CHARACTERS]}"
    code = [(match[1] or match[2]).strip() for match in _CODE.finditer(text)]
    yield from _file_citations(record, text)
    yield from _symbol_citations(text, code)
    yield from _command_citations(code)
    yield from _commit_citations(record, text, code)


def _file_citations(record: Record, text: str) -> Iterator[Citation]:
    for path in record.origin.files:
        reference = _parse_file(path)
        if reference is not None:
            yield Citation(CitationKind.FILE, reference.path, sure=True)
    for reference in cited_files(text):
        yield Citation(CitationKind.FILE, *reference)


def _symbol_citations(text: str, code: list[str]) -> Iterator[Citation]:
    names = [match[1] or match[2] or match[3] for match in _SYMBOL.finditer(text)]
    names += [part for part in code if _DOTTED_NAME.fullmatch(part)]
    for name in names:
        if _parse_file(name) is None:
            yield Citation(CitationKind.SYMBOL, name.replace("::", "."))


def _command_citations(code: list[str]) -> Iterator[Citation]:
    for part in code:
        command = _COMMAND.match(part)
        if command is not None:
            yield Citation(CitationKind.COMMAND, " ".join(command[1].split()))


def _commit_citations(record: Record, text: str, code: list[str]) -> Iterator[Citation]:
    if record.origin.commit:
        yield Citation(CitationKind.COMMIT, record.origin.commit, sure=True)
    for match in _NAMED_COMMIT.finditer(text):
        yield Citation(CitationKind.COMMIT, match[1], sure=True)
    for part in code:
        if _COMMIT_HASH.fullmatch(part):
            yield Citation(CitationKind.COMMIT, part)


def cited_files(text: str) -> list[FileReference]:
    """Return the files cited in `text`, once for each cited range of lines."""
    references: dict[FileReference, None] = {}
    for word in text.replace("](", " ").replace(",", " ").split():
        if not _may_be_file(word):
            continue
        reference = _parse_file(word.rpartition("=")[2])
        if reference is not None:
            references[reference] = None
    return list(references)


def _may_be_file(word: str) -> bool:
    """Return whether a word may be a file reference and is worth parsing. Most words are not."""
    has_mark = "." in word or "file" in word
    return has_mark and len(word) <= _MAX_WORD_CHARACTERS and "://" not in word


def _parse_file(word: str) -> FileReference | None:
    """Return the file that a word refers to, or None.

    Addresses, patterns, versions, and paths outside the project are not file references.
    """
    reference = word.strip(_SURROUNDING).rstrip(".:")
    reference = reference.removeprefix("file:").removeprefix("symbol:")
    match = _LINE_REFERENCE.fullmatch(reference)
    if match is None:
        return None
    path = match["path"].strip(_SURROUNDING).removeprefix("./")
    if not _is_project_path(path):
        return None
    first = int(match["hash_first"] or match["colon_first"] or 0)
    last = int(match["hash_last"] or match["colon_last"] or 0)
    return FileReference(path, first, max(first, last))


def _is_project_path(path: str) -> bool:
    """Return whether `path` is a relative path to a file within the project."""
    if not path or path[0] in "/-" or not _NOT_IN_PATHS.isdisjoint(path):
        return False
    folder, _, name = path.rpartition("/")
    folders = folder.split("/") if folder else []
    is_outside = ".." in folders or "" in folders
    is_host_name = bool(folders) and "." in folders[0][1:]
    if is_outside or is_host_name:
        return False
    return name in _SOURCE_NAMES or _has_file_extension(folder, name)


def _has_file_extension(folder: str, name: str) -> bool:
    """Return whether a name has a known extension, or any short one if it is in a folder."""
    stem, _, extension = name.rpartition(".")
    if extension.lower() in _SOURCE_EXTENSIONS and (stem or folder):
        return True
    is_short = extension.isalpha() and len(extension) <= _MAX_EXTENSION_CHARACTERS
    return bool(folder and stem) and extension.islower() and is_short
