r"""Characters that nobody sees: those that split a word, and those that a terminal or a model obeys.

Terminal codes, control and zero-width characters, a lone carriage return and the `\` of a continued line can split a
token, a name or a tag, so the rules also search the text without them (`View`).
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ralph.core.errors import Refused
from ralph.lean import TYPE_CHECKING
from ralph.privacy.secret_prefilter import has_invisible

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = r"(?:<(?=[0-9])|[=>?])?[0-9;:]{0,64}"
_ESCAPED = r"\\{1,8}(?:u001[bB]|x1[bB]|033)"
_TERMINAL = (
    r"(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"(?P<inner>[^\x07\x1b\n\x90\x98\x9c-\x9f]{0,4000}+)(?:\x07|\x1b\\(?!u00[23]|x[23])|\x9c))"
    rf"|(?:\x1b\[|\x9b){_NUMBERS}[ !\"#$'*+,-]{{0,4}}[@-\[\]-~]"
    rf"|{_ESCAPED}\[{_NUMBERS}[A-Za-z]"
    r"|\x1b(?:[()#][0-;=-\[\]-~]|%[@G]| [FGLMN])|\x1b(?:\\(?![uxnrt0e\\\r\n]))?"
)
"""Strings with their end, codes with numbers, character sets, and an escape that begins nothing else."""
_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_SPLITTER = (
    rf"{_TERMINAL}|(?:\\e|\^\[)\[{_NUMBERS}[A-Za-z]"
    r"|(?<==)\\\r?\n[ \t]*|\\\r?\n|(?<!\\)\\{3}n|\r(?!\n)"
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_ZERO_WIDTH}]"
    r"|(?<![\u2100-\u2bff\u3000-\ufdff\U00010000-\U0010ffff])[\ufe00-\ufe0f]"
    r"|\\{1,8}u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]"
    r"|00(?:0[0-8bcefBCEF]|1[0-9a-fA-F]|7[fF]|[aA][dD]))"
)
_CODES = ("\x1b", "\x9b", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\\u001", "\\x1", "\\033")
_CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
_REMOVED = {ord(character): None for character in _CONTROLS if character != "\x85"}
_SURROGATE = "[\ud800-\udfff]"
_LOOKALIKES = {"İ": "i", "ı": "i", "＜": "<", "＞": ">", "﹤": "<", "﹥": ">", "／": "/"}
_WIDE = {number: number - 0xFEE0 for number in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}


class View:
    """A text without its splitters; `joints` are the positions where one was."""

    __slots__ = ("_removed", "joints", "text")

    def __init__(self, text: str, joints: list[int], removed: list[int]) -> None:
        self.text = text
        self.joints = joints
        self._removed = removed

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text is in the original text."""
        first = bisect_right(self.joints, start)
        last = bisect_right(self.joints, end - 1)
        return start + self._removed[first], end + self._removed[last]


def view_text(text: str, pattern: str = "") -> View | None:
    """Return the text without what splits words, or a pattern; None when it has none."""
    if not pattern and not has_invisible(text):
        return None
    pattern = pattern or _SPLITTER
    pieces = []
    joints = list[int]()
    removed = [0]
    at = length = gone = 0
    splitter = re.compile(pattern).search(text)
    while splitter:
        start = splitter.start()
        end = splitter.end()
        if pattern == _SPLITTER and _may_contain_tag(splitter):
            end = splitter.start("inner")
        pieces.append(text[at:start])
        length = length + start - at
        gone = gone + end - start
        at = end
        joints.append(length)
        removed.append(gone)
        splitter = re.compile(pattern).search(text, end)
    return View("".join([*pieces, text[at:]]), joints, removed) if joints else None


def blank_splitters(text: str) -> str:
    """Replace what splits words by blanks: a secret may follow it directly."""
    return re.compile(_SPLITTER).sub(lambda splitter: " " * len(splitter[0]), text)


def _may_contain_tag(code: re.Match[str]) -> bool:
    """Then only the beginning of a terminal string is removed."""
    return bool(code["string"]) and "private" in "".join(
        filter(str.isalpha, lower(fold(code["inner"])))
    )


def lower(text: str) -> str:
    """Return the text in lower case with every character at its position."""
    return text.replace("İ", "i").lower()


def fold(text: str) -> str:
    """Replace characters that look like those of a tag."""
    if text.isascii():
        return text
    for character, meaning in _LOOKALIKES.items():
        text = text.replace(character, meaning)
    wide = any(character in text for character in "ｐｒｉｖａｔｅＰＲＩＶＡＴＥ")
    return text.translate(_WIDE) if wide else text


def remove_codes(text: str) -> str:
    """Remove terminal codes, control characters and lone surrogates, which could hide a secret."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    if any(code in text for code in _CODES):
        text = re.compile(_TERMINAL).sub(
            lambda code: code["inner"] if _may_contain_tag(code) else "", text
        )
    if not text.isprintable():
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_REMOVED)
    return text if text.isascii() else re.compile(_SURROGATE).sub("\ufffd", text)


_CODE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4000}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
_CLOSED_BY = dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c") | dict.fromkeys(
    "\u2066\u2067\u2068", "\u2069"
)
_DIRECTIONS = frozenset((*_CLOSED_BY, *_CLOSED_BY.values()))
_NAMES = {
    "\x1b": "ESC",
    "\x07": "BEL",
    "\x08": "backspace",
    "\x7f": "DEL",
    "\x00": "NUL",
    "\x0c": "form feed",
}


def check_text(text: str) -> None:
    """Refuse control characters, unclosed direction marks and invalid UTF-8, with the line."""
    characters = set(text)
    if any("\ud800" <= character <= "\udfff" for character in characters):
        raise Refused(
            "the text is not valid UTF-8", hint="pass it as UTF-8, or from a file with --file"
        )
    if controls := characters & _CONTROLS:
        at = next(position for position, character in enumerate(text) if character in controls)
        raise _refusal("a control character", text, at)
    if characters & _DIRECTIONS and (at := next(_unclosed(text), -1)) >= 0:
        raise _refusal("a direction mark that is not closed", text, at)


def clean_text(text: str) -> str:
    """Return a text without such characters; surrogates become U+FFFD."""
    text = re.compile(_SURROGATE).sub("\ufffd", text)
    if set(text) & _CONTROLS:
        text = re.compile(_CODE).sub("", text)
        text = (
            text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n").translate(_REMOVED)
        )
    if not set(text) & _DIRECTIONS:
        return text
    unclosed = set(_unclosed(text))
    return "".join(character for position, character in enumerate(text) if position not in unclosed)


def _unclosed(text: str) -> Iterator[int]:
    """Direction marks that are not closed on their line, or close nothing."""
    start = 0
    for line in text.splitlines(keepends=True):
        stack: list[int] = []
        for at, character in enumerate(line, start):
            if character in _CLOSED_BY:
                stack.append(at)
            elif character in _DIRECTIONS:
                if stack and _CLOSED_BY[text[stack[-1]]] == character:
                    stack.pop()
                else:
                    yield at
        yield from stack
        start += len(line)


def _refusal(what: str, text: str, at: int) -> Refused:
    name = f"{_NAMES[text[at]]}, " if text[at] in _NAMES else ""
    line = text.count("\n", 0, at) + 1
    return Refused(
        f"the text contains {what} ({name}U+{ord(text[at]):04X}) in line {line}: nothing was stored",
        hint="remove it; programs usually print no such characters when their output is piped (NO_COLOR=1)",
    )
