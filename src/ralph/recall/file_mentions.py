"""Recognize whether text mentions a particular file.

A path in text may be shorter or longer than the path in question, and it may be followed by
punctuation or a Korean particle. For `src/auth/token.py`:

    "see token.py."                   mentions it
    "see auth/token.py"               mentions it
    "see /home/me/src/auth/token.py"  mentions it
    "see lib/token.py"                mentions another file
    "see test_token.py"               mentions another file

A name such as `index.ts` exists in many folders and counts only together with its folder. Hooks
load this module.
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


_COMMON_FILE_NAMES = frozenset(
    {
        "index",
        "main",
        "mod",
        "lib",
        "app",
        "init",
        "utils",
        "util",
        "helpers",
        "types",
        "type",
        "readme",
        "package",
        "config",
        "setup",
        "test",
        "tests",
        "conftest",
        "settings",
        "models",
        "views",
        "routes",
        "route",
        "page",
        "layout",
        "schema",
        "constants",
        "common",
        "base",
        "core",
    }
)
_NAMELESS_PARTS = ("", ".", "..", "~")  # path parts that are not the name of a folder
_PATH_CHARACTERS = "_-./\\@~:+"  # in addition to letters and digits


def mentions_file(text: str, path: str) -> bool:
    """Return whether `text` mentions this file, and not another file of the same name."""
    parts = path_parts(path)
    if not parts or ("." not in parts[-1] and parts[-1] not in text):
        return False
    text = terms.fold(text)
    folded_path = [terms.fold(part) for part in parts]
    name = folded_path[-1]
    needs_folder = is_common_name(name)
    position = text.find(name)
    while position >= 0:
        if _is_whole_name(text, position, name):
            start = _path_start(text, position)
            mentioned = [*path_parts(text[start:position]), name]
            if _is_same_path(mentioned, folded_path) and not (needs_folder and len(mentioned) < 2):
                return True
        position = text.find(name, position + 1)
    return False


def file_terms(path: str) -> list[str]:
    """Return terms that every record that mentions this file contains.

    Returns no terms if the file's name is too common to identify it.
    """
    parts = path_parts(path)
    if not parts:
        return []
    name = parts[-1]
    naming_parts = parts[-1:]
    if is_common_name(name):
        if len(parts) == 1:
            return []
        naming_parts = parts[-2:]  # a common name needs its folder
    found: list[str] = []
    for part in naming_parts:
        for word in terms.split_words(part):
            found += terms.word_terms(word)
    is_ordinary_word = len(found) == 1 and "." not in name and name.islower()
    if not found or is_ordinary_word:
        return []
    whole_name = terms.fold("".join(filter(str.isalnum, name)))
    # A file extension such as `ts` is too frequent to help.
    ending = terms.fold(name.rpartition(".")[2])
    telling = [term for term in dict.fromkeys(found) if term not in (whole_name, ending)]
    return telling or found[:1]


def path_parts(path: str) -> list[str]:
    """Return the folders and the name in a path, without a drive."""
    parts = path.replace("\\", "/").split("/")
    parts = [part for part in parts if part not in _NAMELESS_PARTS]
    if parts and len(parts[0]) == 2 and parts[0][1] == ":":
        return parts[1:]
    return parts


def is_common_name(name: str) -> bool:
    """Return whether a file of this name is common to many folders."""
    stem = name.strip("._").partition(".")[0]
    return stem.strip("_").lower() in _COMMON_FILE_NAMES


def _path_start(text: str, end: int) -> int:
    """Return the position where the path that ends at `end` starts."""
    start = end
    while start and (text[start - 1].isalnum() or text[start - 1] in _PATH_CHARACTERS):
        start -= 1
    return start


def _is_whole_name(text: str, position: int, name: str) -> bool:
    """Return whether the name at a position is not part of a longer one.

    A Korean particle may follow it.
    """
    if position:
        before = text[position - 1]
        if before in "_-.":
            return False
        if before.isalnum() and before.isascii() == name[0].isascii():
            return False
    end = position + len(name)
    after = text[end : end + 1]
    if after == ".":  # the end of a sentence, unless another extension follows
        next_character = text[end + 1 : end + 2]
        return not (next_character.isalnum() and next_character.isascii())
    if after in ("_", "-", "/", "\\"):
        return False
    return not (after.isalnum() and after.isascii())


def _is_same_path(mentioned: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether one of two paths ends with the other.

    The first folder of the mentioned path may be incomplete, because a path is cut off at a space.
    """
    for distance in range(1, min(len(mentioned), len(path)) + 1):
        folder = mentioned[-distance]
        expected = path[-distance]
        if folder == expected:
            continue
        is_first_folder = distance == len(mentioned) and distance > 1
        if not (is_first_folder and expected.endswith(f" {folder}")):
            return False
    return True
