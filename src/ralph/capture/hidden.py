"""Files that nobody may know of: the globs of `privacy.paths`.

A glob without a slash, or one that begins with `**/`, holds anywhere; another one from the session's folder
or, when it begins with `/` or `~`, from the root. Whatever is inside of a folder that matches is hidden as
well, and capitals do not matter: hiding too much is a nuisance, too little a leak. A tool's event is looked
through for names in its parameters and in what it answered, since `git diff` and `grep -r` show files that
the command does not name.
`tests/capture/test_pipeline.py` holds the ways to name a file.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from ralph.capture.event import Event

_NAME = re.compile(r"[^\s\"'`()<>=,;|&\[\]{}]{1,1000}")
_PLACE = re.compile(r":\d+(?:[:-]\d+)?(?::.*)?$|[:.]+$", re.DOTALL)
_LONGEST = 400_000
_DEEPEST = 24
_NEVER = r"(?!)"


@dataclass(frozen=True, slots=True)
class Hidden:
    """The globs: those that hold anywhere, and those that hold from a place."""

    anywhere: re.Pattern[str]
    placed: re.Pattern[str]

    def holds(self, name: str, cwd: str) -> bool:
        """Whether a name is that of a hidden file, or of something in a hidden folder."""
        full = os.path.normpath(os.path.join(cwd, os.path.expanduser(name))).lower()  # noqa: PTH111, PTH118  (names, not files)
        inner = full.removeprefix(cwd.rstrip("/") + "/") if cwd else full
        if self.anywhere.search(full.strip("/")):
            return True
        return any(self.placed.match(path) for path in (*_folders(full), *_folders(inner)))


@lru_cache(maxsize=8)
def globs(paths: tuple[str, ...]) -> Hidden:
    """The globs of `privacy.paths`, ready to be asked."""
    anywhere, placed = list[str](), list[str]()
    for path in paths:
        glob = os.path.expanduser(path.strip()).lower().removeprefix("./").rstrip("/").removesuffix("/**")  # noqa: PTH111 - no pathlib here
        if glob:
            (anywhere if glob.startswith("**/") or "/" not in glob else placed).append(
                translate(glob.removeprefix("**/"))
            )
    free = "|".join(glob.removesuffix(r"\Z").removesuffix(r"\z") for glob in anywhere)
    # Folders and files in a row anywhere in a path: asking for each row would take a thousand times as long.
    return Hidden(re.compile(rf"(?:^|/)(?:{free})(?=/|\Z)" if free else _NEVER), re.compile("|".join(placed) or _NEVER))


def touches(event: Event, paths: tuple[str, ...]) -> bool:
    """Whether a tool's event names or shows a hidden file."""
    hidden = globs(paths)
    said = [*_texts(event.parameters, 0), event.response, event.error]
    names = {*event.files, *(change.path for change in event.changes), *_names(said)}
    cwd = event.cwd.lower()
    return any(hidden.holds(name.lower(), cwd) for name in names if name and "\0" not in name)


def _names(texts: Iterable[str]) -> Iterator[str]:
    """Everything in these texts that may be a file's name, also as `name:12:` and as `a/name` of a patch."""
    for text in texts:
        for found in _NAME.finditer(text[:_LONGEST]):
            name = _PLACE.sub("", found[0]).removeprefix("file://")
            yield name
            if name.startswith(("a/", "b/", "@")):
                yield name.partition("/")[2] if name[1:2] == "/" else name[1:]
            if ":" in name:
                yield from (part for part in name.split(":") if part)


def _texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner, depth + 1)


def _folders(path: str) -> Iterator[str]:
    """A path and every folder that it is in."""
    while path and path != "/":
        yield path
        path = path.rpartition("/")[0]
