r"""Handle characters that nobody sees but that split words or control a terminal.

A splitter is anything that can divide a token, a name or a tag without being seen: terminal codes
such as `ESC [31m`, control and zero-width characters, a lone carriage return, and the `\` at the
end of a continued line. In `ghp_<ESC>[0mabc...`, for example, a splitter hides a GitHub token. A
`View` is the text without its splitters, which the rules search as well. The place where a splitter
was removed is a joint.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ralph.core.errors import Hint, Refused
from ralph.lean import TYPE_CHECKING
from ralph.privacy.secret_prefilter import has_invisible

if TYPE_CHECKING:
    from collections.abc import Iterator

# --- patterns -------------------------------------------------------------------------------------

# In these patterns, ESC is `\x1b`. Most terminal codes begin with ESC and a second character, and
# have an equivalent single character between `\x80` and `\x9f`: `ESC [` is also `\x9b`.

_NUMBERS = r"(?:<(?=[0-9])|[=>?])?[0-9;:]{0,64}"
"""The parameters of a code: `1;31` in `ESC [1;31m`, or `?25` in `ESC [?25l`.

A leading `<` counts only before a digit, because it may also open a tag.
"""
_ESCAPED = r"\\{1,8}(?:u001[bB]|x1[bB]|033)"
r"""ESC written out as `\u001b`, `\x1b` or `\033`.

Text that was quoted several times has several backslashes.
"""
_TERMINAL = (
    # A string, such as a window title. `ESC ]`, `ESC P`, `ESC X`, `ESC ^` or `ESC _` opens it.
    r"(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    # Its content stays on one line. BEL, `ESC \` or `\x9c` closes it. The `\` of `ESC \` must not
    # begin an escaped character such as `\u003c`, which may belong to a tag.
    r"(?P<inner>[^\x07\x1b\n\x90\x98\x9c-\x9f]{0,4000}+)(?:\x07|\x1b\\(?!u00[23]|x[23])|\x9c))"
    # A code such as `ESC [1;31m`: parameters, intermediate characters, and one final character.
    # The final character is anything from `@` to `~` except for a backslash.
    rf"|(?:\x1b\[|\x9b){_NUMBERS}[ !\"#$'*+,-]{{0,4}}[@-\[\]-~]"
    # The same with ESC written out: `\u001b[1;31m`.
    rf"|{_ESCAPED}\[{_NUMBERS}[A-Za-z]"
    # The choice of a character set or a mode (`ESC (B`, `ESC #8`, `ESC %G`, `ESC SPACE F`), or else
    # a lone ESC. A `\` after a lone ESC is included unless it begins an escape or ends the line.
    r"|\x1b(?:[()#][0-;=-\[\]-~]|%[@G]| [FGLMN])|\x1b(?:\\(?![uxnrt0e\\\r\n]))?"
)
"""One terminal code. The group `string` is set for a string, and `inner` is its content."""
_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
"""Soft hyphen, joiners, direction marks, zero-width spaces and byte order mark."""
_SPLITTER = (
    # A terminal code, also with ESC written as `\e` (shells) or `^[` (`cat -v`).
    rf"{_TERMINAL}|(?:\\e|\^\[)\[{_NUMBERS}[A-Za-z]"
    # A `\` at the end of a line, with the indentation of the next line if `=` precedes it. In JSON
    # that is `\\\n`: an escaped backslash and an escaped line feed. Last, a lone carriage return.
    r"|(?<==)\\\r?\n[ \t]*|\\\r?\n|(?<!\\)\\{3}n|\r(?!\n)"
    # Control characters except for tab, line feed, carriage return and NEL (`\x85`), and
    # zero-width characters.
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_ZERO_WIDTH}]"
    # A variation selector, except after the symbols, East Asian characters and emoji that use it.
    r"|(?<![\u2100-\u2bff\u3000-\ufdff\U00010000-\U0010ffff])[\ufe00-\ufe0f]"
    # Zero-width and control characters written out: `\u200b`, `\ufeff`, `\u0000`.
    r"|\\{1,8}u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]"
    r"|00(?:0[0-8bcefBCEF]|1[0-9a-fA-F]|7[fF]|[aA][dD]))"
)
"""Anything that may split a word without being seen."""
_CODE_STARTS = ("\x1b", "\x9b", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\\u001", "\\x1", "\\033")
"""Every match of `_TERMINAL` contains one of these, and they are faster to search for."""
_CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
"""Control characters other than tab, line feed and carriage return."""
_CONTROLS_REMOVED = {ord(character): None for character in _CONTROLS if character != "\x85"}
_SURROGATE = "[\ud800-\udfff]"
_REPLACEMENT_CHARACTER = "\ufffd"
_LOOKALIKES = {"İ": "i", "ı": "i", "＜": "<", "＞": ">", "﹤": "<", "﹥": ">", "／": "/"}
"""Characters that look like those of a `<private>` tag."""
_FULLWIDTH_OFFSET = 0xFEE0
_FULLWIDTH_LETTERS = (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
_FULLWIDTH_TO_ASCII = {number: number - _FULLWIDTH_OFFSET for number in _FULLWIDTH_LETTERS}
_FULLWIDTH_LETTERS_OF_TAG = "ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"


# --- views ----------------------------------------------------------------------------------------


class View:
    """Text without its splitters.

    `joints` are the positions in the text at which a splitter was removed. `_removed[n]` is the
    total length of the first `n` splitters.
    """

    __slots__ = ("_removed", "joints", "text")

    def __init__(self, text: str, joints: list[int], removed: list[int]) -> None:
        self.text = text
        self.joints = joints
        self._removed = removed

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Translate a span of this text to the span of the original text."""
        joints_before_start = bisect_right(self.joints, start)
        joints_before_end = bisect_right(self.joints, end - 1)
        return start + self._removed[joints_before_start], end + self._removed[joints_before_end]


def view_text(text: str, pattern: str = "") -> View | None:
    """Return a view of the text without its splitters, or None if it has none.

    If `pattern` is given, its matches are removed instead.
    """
    if not pattern:
        if not has_invisible(text):
            return None
        pattern = _SPLITTER
    pieces = []
    joints: list[int] = []
    removed = [0]
    copied = 0  # characters of the text that are already copied or removed
    length = 0  # characters in the view
    splitter = re.compile(pattern).search(text)
    while splitter:
        start = splitter.start()
        end = splitter.end()
        if pattern == _SPLITTER and _may_contain_tag(splitter):
            end = splitter.start("inner")
        pieces.append(text[copied:start])
        length += start - copied
        copied = end
        joints.append(length)
        removed.append(copied - length)
        splitter = re.compile(pattern).search(text, end)
    if not joints:
        return None
    pieces.append(text[copied:])
    return View("".join(pieces), joints, removed)


def blank_splitters(text: str) -> str:
    """Replace splitters with blanks of the same length, because a secret may follow directly."""
    return re.sub(_SPLITTER, lambda splitter: " " * len(splitter[0]), text)


def _may_contain_tag(code: re.Match[str]) -> bool:
    """Return whether a terminal code is a string that may contain a private tag.

    The content of such a string must be kept.
    """
    if not code["string"]:
        return False
    letters = filter(str.isalpha, lower(fold(code["inner"])))
    return "private" in "".join(letters)


def lower(text: str) -> str:
    """Return the text in lowercase, with every character at its original position."""
    return text.replace("İ", "i").lower()


def fold(text: str) -> str:
    """Replace characters that look like those of a `<private>` tag with the real ones."""
    if text.isascii():
        return text
    for character, replacement in _LOOKALIKES.items():
        text = text.replace(character, replacement)
    if any(character in text for character in _FULLWIDTH_LETTERS_OF_TAG):
        return text.translate(_FULLWIDTH_TO_ASCII)
    return text


def remove_codes(text: str) -> str:
    """Remove terminal codes and control characters, which could hide a secret.

    Carriage returns become line feeds, and lone surrogates become U+FFFD.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    if any(start in text for start in _CODE_STARTS):
        text = re.sub(_TERMINAL, _remove_code, text)
    if not text.isprintable():
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS_REMOVED)
    if text.isascii():
        return text
    return re.sub(_SURROGATE, _REPLACEMENT_CHARACTER, text)


def _remove_code(code: re.Match[str]) -> str:
    if _may_contain_tag(code):
        return code["inner"]
    return ""


# --- text that people store -----------------------------------------------------------------------

_CODE = (
    # A code with parameters: `ESC [1;31m`.
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]"
    # A string, such as a window title, and what closes it.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4000}(?:\x07|\x1b\\|\x9c)"
    # Any other code: `ESC (B`, `ESC 7`.
    r"|\x1b[ -/]{0,4}[0-~]"
)
"""One terminal code, as the standard (ECMA-48) defines it.

`_TERMINAL` is stricter about `<` and backslashes, which may belong to a tag or to an escape.
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
    controls = characters & _CONTROLS
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
    text = re.sub(_SURROGATE, _REPLACEMENT_CHARACTER, text)
    if not _CONTROLS.isdisjoint(text):
        text = re.sub(_CODE, "", text)
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
        text = text.translate(_CONTROLS_REMOVED)
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
