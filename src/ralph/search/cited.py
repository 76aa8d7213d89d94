"""Which files a text names: `src/db.py`, `schema.ts:40-60`, `docs/a.md#L3`, `src/a.ts#name`. Plain words, plain values.

A word is a file when it ends like one: anything with a folder and a short ending, or a bare name with an ending
that source files have. Addresses, patterns (`*.py`), versions, paths that leave the project and names with a
placeholder in them are none. Whether the file is there is not asked here. A hook may load this module, so nothing is
imported. `tests/search/test_citations.py` holds the cases.
"""

ENDINGS = frozenset(
    """bash bat c cc cfg cjs clj cmake conf cpp cs css csv dart ejs erl ex exs fish go gradle graphql h hbs hcl hpp hs
    htm html ini ipynb java jl js json jsonl jsx kt kts less lock lua m md mdx mjs ml mm nix php pl prisma properties
    proto ps1 py pyi pyx r rb rs rst sass scala scss sh sol sql svelte swift tf tfvars toml ts tsx txt vue xml yaml yml
    zig zsh""".split()
)
"""How the names of source files end."""
NAMES = frozenset("Makefile Dockerfile Justfile Procfile Gemfile Rakefile Jenkinsfile".split())
"""Files that need no ending."""

_AROUND = "`'\"()[]{}<>*,;!?“”‘’«»"
_NEVER = frozenset("\\*?{}<>$~|@\"'`;&%^=!")
_LONGEST = 300
_ENDING = 8


def files(text: str) -> "list[tuple[str, int, int]]":
    """The files that a text names, each with the first and the last line that it points at (0: none), once."""
    found: dict[tuple[str, int, int], None] = {}
    for word in text.replace("](", " ").replace(",", " ").split():
        if ("." in word or "file" in word) and len(word) <= _LONGEST and "://" not in word:
            place = file(word.rpartition("=")[2])
            if place is not None:
                found[place] = None
    return list(found)


def file(word: str) -> "tuple[str, int, int] | None":
    """The file that one word names, or None."""
    bare = word.strip(_AROUND).rstrip(".:").removeprefix("file:").removeprefix("symbol:")
    path, first, last = _lines(bare)
    path = path.strip(_AROUND).removeprefix("./")
    if not path or path[0] in "/-" or not _NEVER.isdisjoint(path):
        return None
    folder, _, name = path.rpartition("/")
    parts = folder.split("/") if folder else []
    if ".." in parts or "" in parts or (parts and "." in parts[0][1:]):
        return None  # outside of the project, or a host's name
    if name in NAMES:
        return path, first, last
    stem, _, ending = name.rpartition(".")
    if not stem and not folder:
        return None
    known = ending.lower() in ENDINGS
    plausible = bool(folder) and ending.isalpha() and ending.islower() and len(ending) <= _ENDING and bool(stem)
    return (path, first, last) if known or plausible else None


def _lines(word: str) -> "tuple[str, int, int]":
    """A word without the lines that it points at: `:12`, `:12-20`, `:12:5`, `#L12`, `#L12-L20`."""
    path, mark, rest = word.partition("#L")
    if mark:
        first, last = _range(rest.replace("L", ""))
        return path, first, last
    word = word.partition("#")[0]
    path, colon, rest = word.partition(":")
    first, last = _range(rest.partition(":")[0])
    return (path, first, last) if colon and (first or not rest) else (word, 0, 0)


def _range(text: str) -> "tuple[int, int]":
    first, _, last = text.replace("–", "-").partition("-")
    if not (first.isdecimal() and first.isascii() and len(first) < _ENDING):
        return 0, 0
    end = int(last) if last.isdecimal() and last.isascii() and len(last) < _ENDING else int(first)
    return int(first), max(int(first), end)
