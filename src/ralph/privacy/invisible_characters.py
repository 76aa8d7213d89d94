r"""Handle characters that nobody sees: those that split a word, and those that control a program.

Terminal codes, control and zero-width characters, a lone carriage return and the `\` of a continued
line can split a token, a name or a tag. The rules therefore also search the text without them
(`View`).
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

_NUMBERS = r"(?:<(?=[0-9])|[=>?])?[0-9;:]{0,64}"
_ESCAPED = r"\\{1,8}(?:u001[bB]|x1[bB]|033)"
_TERMINAL = (
    r"(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"(?P<inner>[^\x07\x1b\n\x90\x98\x9c-\x9f]{0,4000}+)(?:\x07|\x1b\\(?!u00[23]|x[23])|\x9c))"
    rf"|(?:\x1b\[|\x9b){_NUMBERS}[ !\"#$'*+,-]{{0,4}}[@-\[\]-~]"
    rf"|{_ESCAPED}\[{_NUMBERS}[A-Za-z]"
    r"|\x1b(?:[()#][0-;=-\[\]-~]|%[@G]| [FGLMN])|\x1b(?:\\(?![uxnrt0e\\\r\n]))?"
)
"""Strings with their end, codes with numbers, character sets, and a lone escape character."""
_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_SPLITTER = (
    rf"{_TERMINAL}|(?:\\e|\^\[)\[{_NUMBERS}[A-Za-z]"
    r"|(?<==)\\\r?\n[ \t]*|\\\r?\n|(?<!\\)\\{3}n|\r(?!\n)"
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_ZERO_WIDTH}]"
    r"|(?<![\u2100-\u2bff\u3000-\ufdff\U00010000-\U0010ffff])[\ufe00-\ufe0f]"
    r"|\\{1,8}u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]"
    r"|00(?:0[0-8bcefBCEF]|1[0-9a-fA-F]|7[fF]|[aA][dD]))"
)
"""What may split a word without being seen."""
_CODE_STARTS = ("\x1b", "\x9b", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\\u001", "\\x1", "\\033")
_CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
"""Control characters besides tab, line feed and carriage return."""
_CONTROLS_REMOVED = {ord(character): None for character in _CONTROLS if character != "\x85"}
_SURROGATE = "[\ud800-\udfff]"
_REPLACEMENT_CHARACTER = "\ufffd"
_LOOKALIKES = {"İ": "i", "ı": "i", "＜": "<", "＞": ">", "﹤": "<", "﹥": ">", "／": "/"}
_FULLWIDTH_OFFSET = 0xFEE0
_FULLWIDTH_LETTERS = (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
_FULLWIDTH_TO_ASCII = {number: number - _FULLWIDTH_OFFSET for number in _FULLWIDTH_LETTERS}
_FULLWIDTH_LETTERS_OF_TAG = "ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"


# --- views ----------------------------------------------------------------------------------------


class View:
    """A text without its splitters; `joints` are the positions where one was.

    `removed[n]` is the number of characters that the first `n` splitters had.
    """

    __slots__ = ("_removed", "joints", "text")

    def __init__(self, text: str, joints: list[int], removed: list[int]) -> None:
        self.text = text
        self.joints = joints
        self._removed = removed

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text is in the original text."""
        joints_before_start = bisect_right(self.joints, start)
        joints_before_end = bisect_right(self.joints, end - 1)
        return start + self._removed[joints_before_start], end + self._removed[joints_before_end]


def view_text(text: str, pattern: str = "") -> View | None:
    """Return the text without what splits words, or without a pattern; None if it has neither."""
    if not pattern:
        if not has_invisible(text):
            return None
        pattern = _SPLITTER
    pieces = []
    joints: list[int] = []
    removed = [0]
    copied = 0  # characters of the text that were copied or removed
    length = 0  # characters of the view
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
    """Replace what splits words with blanks, because a secret may follow it directly."""
    return re.sub(_SPLITTER, lambda splitter: " " * len(splitter[0]), text)


def _may_contain_tag(code: re.Match[str]) -> bool:
    """Return whether a terminal string may contain a private tag, and must be kept.

    Then only its beginning is removed.
    """
    if not code["string"]:
        return False
    letters = filter(str.isalpha, lower(fold(code["inner"])))
    return "private" in "".join(letters)


def lower(text: str) -> str:
    """Return the text in lowercase, with every character at its position."""
    return text.replace("İ", "i").lower()


def fold(text: str) -> str:
    """Replace characters that look like those of a tag."""
    if text.isascii():
        return text
    for character, replacement in _LOOKALIKES.items():
        text = text.replace(character, replacement)
    if any(character in text for character in _FULLWIDTH_LETTERS_OF_TAG):
        return text.translate(_FULLWIDTH_TO_ASCII)
    return text


def remove_codes(text: str) -> str:
    """Remove terminal codes, control characters and lone surrogates, which could hide a secret."""
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


# --- texts that people store ----------------------------------------------------------------------

_CODE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4000}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
_CLOSED_BY = {
    "\u202a": "\u202c",
    "\u202b": "\u202c",
    "\u202d": "\u202c",
    "\u202e": "\u202c",
    "\u2066": "\u2069",
    "\u2067": "\u2069",
    "\u2068": "\u2069",
}
"""Direction marks, and the mark that closes each."""
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
    """Refuse control characters, unclosed direction marks and invalid UTF-8.

    Raises Refused, which names the character and its line.
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
    """Return a text without the characters that `check_text` refuses; surrogates become U+FFFD."""
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
    """Yield where direction marks are that are not closed on their line, or close nothing."""
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
