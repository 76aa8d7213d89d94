"""Command lines that start a program on Windows, for the shells in which clients run hooks.

A client starts a hook with PowerShell, cmd.exe or Git Bash, and some clients choose between them.
The three shells have no quoting in common: PowerShell takes a quoted path for a value, bash takes a
backslash for an escape, and cmd.exe knows no single quotes. A command line for several shells
therefore contains no quotes, and only paths that need none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath

from ralph.core.errors import Refused

_PLAIN_CHARACTERS = "-_.:/\\~+"  # besides letters and digits, which no shell interprets
_MAX_SHORT_PATH = 32_767  # characters, the maximum of Windows

Shorten = Callable[[str], str]


def short_path(path: str) -> str:
    """Return the short form (8.3) of a path on Windows, or the path itself if it has none.

    Only files that exist have one, so the launcher's name is kept before it is written.
    """
    if sys.platform != "win32":
        return path
    import ctypes

    existing = Path(path)
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    buffer = ctypes.create_unicode_buffer(_MAX_SHORT_PATH)
    length = ctypes.windll.kernel32.GetShortPathNameW(str(existing), buffer, _MAX_SHORT_PATH)
    if not 0 < length < _MAX_SHORT_PATH:
        return path
    return str(Path(buffer.value, Path(path).relative_to(existing)))


def powershell_line(words: Sequence[str]) -> str:
    """Return the command line for PowerShell, in which every path is allowed."""
    quoted = [word if _is_option_or_name(word) else _quote_for_powershell(word) for word in words]
    return f"& {' '.join(quoted)}"


def any_shell_line(words: Sequence[str], shorten: Shorten = short_path) -> str:
    """Return one command line for PowerShell, cmd.exe and bash.

    The backslashes of the program are doubled: bash makes one of two, and Windows takes two for
    one. (cmd.exe would take a slash for the beginning of an option.) Raises Refused if a path needs
    quotes and has no short form.
    """
    program, *arguments = [_plain_path(word, shorten) for word in words]
    return " ".join([program.replace("\\", "\\\\"), *map(with_slashes, arguments)])


def bash_or_powershell_line(words: Sequence[str], shorten: Shorten = short_path) -> str | None:
    """Return one command line for bash and PowerShell, or None if a path needs quotes."""
    try:
        return " ".join(with_slashes(_plain_path(word, shorten)) for word in words)
    except Refused:
        return None


def with_slashes(word: str) -> str:
    """Return a path of Windows with slashes, as bash and git expect it. Other words are kept."""
    if PureWindowsPath(word).is_absolute():
        return word.replace("\\", "/")
    return word


def _plain_path(word: str, shorten: Shorten) -> str:
    """Return a word that no shell interprets, or raise Refused."""
    if _is_plain(word):
        return word
    short = _shorten_names(word, shorten)
    if _is_plain(short):
        return short
    raise Refused(
        f"{word}: this path needs quotes, which PowerShell, cmd.exe and bash read differently",
        hint="install Ralph in a folder whose path contains only letters, digits, '.', '-' and "
        "'_', and set XDG_STATE_HOME to such a folder; nothing was written",
    )


def _shorten_names(path: str, shorten: Shorten) -> str:
    """Return a path with short forms only where they are needed.

    The name of our launcher stays as it is, because it shows that an entry is ours.
    """
    names = path.split("\\")
    short_names = shorten(path).split("\\")
    if len(names) != len(short_names):
        return path
    shortened = []
    for name, short_name in zip(names, short_names, strict=True):
        shortened.append(name if _is_plain(name) else short_name)
    return "\\".join(shortened)


def _is_plain(word: str) -> bool:
    if word.startswith(("\\\\", "//", "~")):
        return False
    return all(character.isalnum() or character in _PLAIN_CHARACTERS for character in word)


def _is_option_or_name(word: str) -> bool:
    return _is_plain(word) and "\\" not in word and "/" not in word


def _quote_for_powershell(word: str) -> str:
    # PowerShell takes typographic quotes for straight ones, so they are doubled as well.
    for quote in "'\u2018\u2019\u201a\u201b":
        word = word.replace(quote, quote * 2)
    return f"'{word}'"
