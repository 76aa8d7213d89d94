"""Whether an event may be about a file that nobody may know of: the light side of `capture/hidden`.

The globs of `privacy.paths` are asked in two steps. What stands between the wildcards of a glob must stand in
a name that it matches; mostly some of it is nowhere in the event, and that is all. Otherwise the names that have
it are matched as `capture/hidden` does it. Each step asks for less than that does: more texts are looked
through, more pieces of them taken for names. So a yes is a perhaps, and then the full path decides; a no is sure.
`tests/hooks/test_unseen.py` proves it against the real rule.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BREAKS = str.maketrans(dict.fromkeys("\"'`()<>=,;|&[]{}", " "))
"""Signs that end a name in a text."""
_LONGEST, _LONGEST_PATH = 1_000, 5_000
"""A longer run of signs is cut by the real rule; here it is a perhaps. A longer line is no path."""
_MOST_PIECES = 32
_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789_/ "


class _Glob:
    """A glob made ready: what it needs, and the expression that it is; `free`: it holds anywhere."""

    __slots__ = ("expression", "free", "needs")

    def __init__(self, path: str, home: str) -> None:
        glob = _expanded(_lower(path.strip()), home).removeprefix("./").rstrip("/").removesuffix("/**")
        self.free = glob.startswith("**/") or "/" not in glob
        glob = glob.removeprefix("**/")
        self.needs = tuple(piece for piece in glob.replace("*", "/").replace("?", "/").split("/") if piece)
        signs = {"*": ".*", "?": "."}
        body = "".join(signs.get(sign) or (sign if sign in _SIGNS or sign > "\x7f" else f"\\{sign}") for sign in glob)
        self.expression = f"(?s:{body})\\Z"


def perhaps(texts: "Iterable[str]", cwd: str, paths: "Iterable[str]") -> bool:
    """Whether one of the globs may match a file that these texts name; False is certain."""
    home = _lower(posix.environ.get(b"HOME", b"").decode("utf-8", "surrogateescape")).rstrip("/")
    said = [_lower(text) for text in texts]
    cwd, whole = _lower(cwd), "\n".join(said)
    for path in filter(str.strip, paths):
        if any(sign in path for sign in "[:\\\n") or (path.strip().startswith("~") and not home):
            return True  # nothing that these few lines understand
        glob = _Glob(path, home)
        needed = [piece for piece in glob.needs if piece not in cwd and piece not in home]
        if not needed or (all(piece in whole for piece in needed) and _named(glob, needed, said, cwd, home)):
            return True
    return False


def _named(glob: _Glob, needed: list[str], said: list[str], cwd: str, home: str) -> bool:
    for text in said:
        if all(piece in text for piece in needed):
            for run in {text, *map(str.strip, text.split("\n")), *text.translate(_BREAKS).split()}:
                if all(piece in run for piece in needed) and _holds(glob, run, cwd, home):
                    return True
    return False


def _holds(glob: _Glob, run: str, cwd: str, home: str) -> bool:
    """Whether a name in this run of signs, whatever stands around it, is that of a hidden file."""
    if len(run) > _LONGEST and (len(run) > _LONGEST_PATH or not run[_LONGEST:].split()[1:]):
        return not run.split()[1:]
    bare = run.removeprefix("file://")
    pieces = [run, bare, *map(str.strip, bare.split(":"))]
    for part in {*pieces, *(piece.rstrip(":.") for piece in pieces)}:
        for name in {part, part.partition("/")[2] if part[:2] in ("a/", "b/") else part, part.removeprefix("@")}:
            if name.startswith("~") and name[1:2] not in ("", "/"):
                return True  # somebody's home
            if name and _matches(glob, _normal(cwd, _expanded(name, home)), cwd):
                return True
    return False


def _matches(glob: _Glob, full: str, cwd: str) -> bool:
    from ralph.capture.values import regex  # noqa: PLC0415 - few events come so far, and it brings the compiler

    match = regex(glob.expression).match
    if glob.free:
        pieces = [piece for piece in full.split("/") if piece][-_MOST_PIECES:]
        ends = range(1, len(pieces) + 1)
        return any(match("/".join(pieces[at:end])) for end in ends for at in range(end))
    inner = full.removeprefix(f"{cwd.rstrip('/')}/") if cwd else full
    return any(map(match, (*_folders(full), *_folders(inner))))


def _folders(path: str) -> "Iterator[str]":
    while path and path != "/":
        yield path
        path = path.rpartition("/")[0]


def _normal(cwd: str, name: str) -> str:
    """The name as seen from the root, without `.` and `..`."""
    path = name if name.startswith("/") or not cwd else f"{cwd}/{name}"
    pieces: list[str] = []
    for piece in path.split("/"):
        if piece == ".." and pieces and pieces[-1] != "..":
            pieces.pop()
        elif piece not in ("", ".") and (piece != ".." or not path.startswith("/")):
            pieces.append(piece)
    return ("/" if path.startswith("/") else "") + "/".join(pieces)


def _expanded(name: str, home: str) -> str:
    return home + name[1:] if name == "~" or name.startswith("~/") else name


def _lower(text: str) -> str:
    """In small letters; the two small sigmas are one here, since which it becomes depends on what follows."""
    return text.lower().replace("ς", "σ")
