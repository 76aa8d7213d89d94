"""Refuse or remove invisible characters in text that is to be stored.

A memory that a person adds is checked: a control character or an unclosed direction mark would make
a terminal show something other than what is stored. Text that nobody can be asked about, such as
the output of an agent, is cleaned instead:

    clean_text("\\x1b[31mred\\x1b[0m")  ->  "red"
    check_text("tw\\x07o")              raises Refused: ... a control character (BEL, U+0007) ...
"""

from __future__ import annotations

import re

from ralph.core.errors import Hint, Refused
from ralph.lean import TYPE_CHECKING
from ralph.privacy.word_splitters import CONTROLS, CONTROLS_REMOVED, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator

_TERMINAL_CODE = (
    # A code with parameters: `ESC [1;31m`.
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]"
    # A string, such as a window title, and the character that closes it.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4000}(?:\x07|\x1b\\|\x9c)"
    # Any other code: `ESC (B`, `ESC 7`.
    r"|\x1b[ -/]{0,4}[0-~]"
)
"""One terminal code, as the standard (ECMA-48) defines it.

The pattern in `word_splitters` is stricter about `<` and backslashes, because text is searched for
tags and escapes with it. Here the text is only cleaned.
"""
_CLOSED_BY = {
    "\u202a": "\u202c",
    "\u202b": "\u202c",
    "\u202d": "\u202c",
    "\u202e": "\u202c",
    "\u2066": "\u2069",
    "\u2067": "\u2069",
    "\u2068": "\u2069",
}
"""Marks that change the direction of writing, and the mark that closes each."""
_DIRECTION_MARKS = frozenset((*_CLOSED_BY, *_CLOSED_BY.values()))
_CHARACTER_NAMES = {
    "\x1b": "ESC",
    "\x07": "BEL",
    "\x08": "backspace",
    "\x7f": "DEL",
    "\x00": "NUL",
    "\x0c": "form feed",
}


def check_text(text: str) -> None:
    """Check that text contains nothing invisible that should not be stored.

    Raises Refused for control characters, unclosed direction marks and invalid UTF-8. Except for
    invalid UTF-8, the error names the character and its line.
    """
    characters = set(text)
    if any("\ud800" <= character <= "\udfff" for character in characters):
        raise Refused(
            "the text is not valid UTF-8",
            hint=Hint("encode", "pass it as UTF-8, or from a file with --file"),
        )
    controls = characters & CONTROLS
    if controls:
        raise _refusal("a control character", text, min(map(text.index, controls)))
    if characters & _DIRECTION_MARKS:
        position = next(_unclosed_marks(text), None)
        if position is not None:
            raise _refusal("a direction mark that is not closed", text, position)


def clean_text(text: str) -> str:
    """Remove terminal codes and the characters that `check_text` refuses.

    Carriage returns become line feeds, and lone surrogates become U+FFFD.
    """
    text = replace_surrogates(text)
    if not CONTROLS.isdisjoint(text):
        text = re.sub(_TERMINAL_CODE, "", text)
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
        text = text.translate(CONTROLS_REMOVED)
    if _DIRECTION_MARKS.isdisjoint(text):
        return text
    unclosed = set(_unclosed_marks(text))
    return "".join(character for position, character in enumerate(text) if position not in unclosed)


def _unclosed_marks(text: str) -> Iterator[int]:
    """Yield the positions of direction marks that are not closed on their line or close nothing."""
    line_start = 0
    for line in text.splitlines(keepends=True):
        open_marks: list[int] = []
        for position, character in enumerate(line, line_start):
            if character in _CLOSED_BY:
                open_marks.append(position)
            elif character in _DIRECTION_MARKS:
                if open_marks and _CLOSED_BY[text[open_marks[-1]]] == character:
                    open_marks.pop()
                else:
                    yield position
        yield from open_marks
        line_start += len(line)


def _refusal(what: str, text: str, position: int) -> Refused:
    character = text[position]
    code = f"U+{ord(character):04X}"
    if character in _CHARACTER_NAMES:
        code = f"{_CHARACTER_NAMES[character]}, {code}"
    line = text.count("\n", 0, position) + 1
    return Refused(
        f"the text contains {what} ({code}) in line {line}: nothing was stored",
        hint="remove it; most programs print no such characters when piped (NO_COLOR=1)",
    )
