r"""Search text as if the invisible characters that split its words were not there.

A splitter is anything that can divide a token, a name or a tag without being seen: terminal codes
such as `ESC [31m`, control and zero-width characters, a lone carriage return, and the `\` at the
end of a continued line. In `ghp_<ESC>[0mabc...`, for example, a splitter hides a GitHub token from
a rule that looks for `ghp_abc...`.

A `View` is the text without its splitters. The rules search the view as well, and `View.locate`
translates what they find to positions in the original text:

    text  `ghp_\x1b[0mabc`      view  `ghp_abc`      joints  [4]
    view.locate(0, 7)  ->  (0, 11)

A joint is the position in the view at which a splitter was removed.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING
from ralph.lean.secret_prefilter import has_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# --- views ----------------------------------------------------------------------------------------


class View:
    """Text from which something was removed.

    `joints` are the positions in the text at which a piece was removed. `_removed[n]` is the total
    length of the first `n` pieces.
    """

    __slots__ = ("_removed", "joints", "text")

    def __init__(self, text: str, joints: list[int], removed: list[int]) -> None:
        self.text = text
        self.joints = joints
        self._removed = removed

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Translate a span of this text to the span of the original text.

        A piece removed at either edge of the span is not part of the result.
        """
        from bisect import bisect_right  # few texts have splitters

        joints_before_start = bisect_right(self.joints, start)
        joints_before_end = bisect_right(self.joints, end - 1)
        return start + self._removed[joints_before_start], end + self._removed[joints_before_end]


def view_text(text: str) -> View | None:
    """Return a view of the text without its splitters, or None if it has none."""
    if not has_invisible(text):
        return None
    return _remove_spans(text, _splitter_spans(text))


def view_without(text: str, pattern: str) -> View | None:
    """Return a view of the text without the matches of a regex, or None if it has none."""
    return _remove_spans(text, (match.span() for match in re.finditer(pattern, text)))


def blank_splitters(text: str) -> str:
    """Replace splitters with blanks of the same length, because a secret may follow directly."""
    return re.sub(_SPLITTER, lambda splitter: " " * len(splitter[0]), text)


def remove_terminal_codes(text: str) -> str:
    """Remove terminal codes and control characters, which could hide a secret.

    Carriage returns become line feeds, and lone surrogates become U+FFFD.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    if any(start in text for start in _TERMINAL_CODE_STARTS):
        text = re.sub(_TERMINAL_CODE, _remove_code, text)
    if not text.isprintable():
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(CONTROLS_REMOVED)
    if text.isascii():
        return text
    return replace_surrogates(text)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    return re.sub(_SURROGATE, _REPLACEMENT_CHARACTER, text)


def _splitter_spans(text: str) -> Iterator[tuple[int, int]]:
    pattern = re.compile(_SPLITTER)
    splitter = pattern.search(text)
    while splitter:
        start, end = splitter.span()
        if _may_contain_tag(splitter):
            end = splitter.start("inner")  # only what opens the string is removed
        yield start, end
        splitter = pattern.search(text, end)


def _remove_spans(text: str, spans: Iterable[tuple[int, int]]) -> View | None:
    pieces = []
    joints: list[int] = []
    removed = [0]
    copied = 0  # characters of the text that are already copied or removed
    length = 0  # characters in the view
    for start, end in spans:
        pieces.append(text[copied:start])
        length += start - copied
        copied = end
        joints.append(length)
        removed.append(copied - length)
    if not joints:
        return None
    pieces.append(text[copied:])
    return View("".join(pieces), joints, removed)


def _remove_code(code: re.Match[str]) -> str:
    if _may_contain_tag(code):
        return code["inner"]
    return ""


def _may_contain_tag(code: re.Match[str]) -> bool:
    """Return whether a terminal code is a string that may contain a private tag.

    The content of such a string must be kept, because the tag would be lost with it.
    """
    if not code["string"]:
        return False
    letters = filter(str.isalpha, lowercase(fold_lookalikes(code["inner"])))
    return "private" in "".join(letters)


# --- characters that look alike -------------------------------------------------------------------

_LOOKALIKES = {"İ": "i", "ı": "i", "＜": "<", "＞": ">", "﹤": "<", "﹥": ">", "／": "/"}
"""Characters that look like those of a `<private>` tag."""
_FULLWIDTH_OFFSET = 0xFEE0
_FULLWIDTH_LETTERS = (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
_FULLWIDTH_TO_ASCII = {number: number - _FULLWIDTH_OFFSET for number in _FULLWIDTH_LETTERS}
_FULLWIDTH_LETTERS_OF_TAG = "ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"


def lowercase(text: str) -> str:
    """Return the text in lowercase, with every character at its original position.

    `str.lower` alone would turn `İ` into two characters.
    """
    return text.replace("İ", "i").lower()


def fold_lookalikes(text: str) -> str:
    """Replace characters that look like those of a `<private>` tag with the real ones."""
    if text.isascii():
        return text
    for character, replacement in _LOOKALIKES.items():
        text = text.replace(character, replacement)
    if any(character in text for character in _FULLWIDTH_LETTERS_OF_TAG):
        return text.translate(_FULLWIDTH_TO_ASCII)
    return text


# --- patterns -------------------------------------------------------------------------------------

# In these patterns, ESC is `\x1b`. Most terminal codes begin with ESC and a second character, and
# have an equivalent single character between `\x80` and `\x9f`: `ESC [` is also `\x9b`.

_PARAMETERS = r"(?:<(?=[0-9])|[=>?])?[0-9;:]{0,64}"
"""The parameters of a code: `1;31` in `ESC [1;31m`, or `?25` in `ESC [?25l`.

A leading `<` counts only before a digit, because it may also open a tag.
"""
_ESCAPED_ESC = r"\\{1,8}(?:u001[bB]|x1[bB]|033)"
r"""ESC written out as `\u001b`, `\x1b` or `\033`.

Text that was quoted several times has several backslashes.
"""
_STRING = (
    # `ESC ]`, `ESC P`, `ESC X`, `ESC ^` or `ESC _` opens the string.
    r"(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    # The content stays on one line.
    r"(?P<inner>[^\x07\x1b\n\x90\x98\x9c-\x9f]{0,4000}+)"
    # BEL, `ESC \` or `\x9c` closes it. The `\` of `ESC \` must not begin an escaped character such
    # as `\u003c`, which may belong to a tag.
    r"(?:\x07|\x1b\\(?!u00[23]|x[23])|\x9c))"
)
"""A string for the terminal, such as a window title: `ESC ]0;make test BEL`."""
_CONTROL_SEQUENCE = (
    # Parameters and intermediate characters, and then one final character: anything from `@` to `~`
    # except for a backslash.
    rf"(?:\x1b\[|\x9b){_PARAMETERS}[ !\"#$'*+,-]{{0,4}}[@-\[\]-~]"
)
"""The most common code, for colours and the cursor: `ESC [1;31m`."""
_ESCAPED_SEQUENCE = rf"{_ESCAPED_ESC}\[{_PARAMETERS}[A-Za-z]"
r"""The same with ESC written out: `\u001b[1;31m`."""
_CHARACTER_SET = r"\x1b(?:[()#][0-;=-\[\]-~]|%[@G]| [FGLMN])"
"""The choice of a character set or a mode: `ESC (B`, `ESC #8`, `ESC %G`, `ESC SPACE F`."""
_LONE_ESC = r"\x1b(?:\\(?![uxnrt0e\\\r\n]))?"
r"""Any other ESC, with a `\` after it unless that begins an escape or ends the line."""
_TERMINAL_CODE = "|".join(
    (_STRING, _CONTROL_SEQUENCE, _ESCAPED_SEQUENCE, _CHARACTER_SET, _LONE_ESC)
)
"""One terminal code. The group `string` is set for a string, and `inner` is its content."""
_TERMINAL_CODE_STARTS = (
    "\x1b",
    "\x9b",
    "\x90",
    "\x98",
    "\x9d",
    "\x9e",
    "\x9f",
    "\\u001",
    "\\x1",
    "\\033",
)
"""Every match of `_TERMINAL_CODE` contains one of these, and they are faster to search for."""

_SHELL_SEQUENCE = rf"(?:\\e|\^\[)\[{_PARAMETERS}[A-Za-z]"
r"""A code with ESC written as `\e` (shells) or `^[` (`cat -v`)."""
_CONTINUED_LINE = r"(?<==)\\\r?\n[ \t]*|\\\r?\n|(?<!\\)\\{3}n"
r"""A `\` at the end of a line, with the indentation of the next line if `=` precedes it.

In JSON that is `\\\n`: an escaped backslash and an escaped line feed.
"""
_LONE_RETURN = r"\r(?!\n)"
_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
"""Soft hyphen, joiners, direction marks, zero-width spaces and byte order mark."""
_INVISIBLE = rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_ZERO_WIDTH}]"
"""Zero-width and control characters, except for tab, line feed, carriage return and NEL."""
_VARIATION_SELECTOR = r"(?<![\u2100-\u2bff\u3000-\ufdff\U00010000-\U0010ffff])[\ufe00-\ufe0f]"
"""A variation selector, except after the symbols, East Asian characters and emoji that use it."""
_ESCAPED_INVISIBLE = (
    r"\\{1,8}u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]"
    r"|00(?:0[0-8bcefBCEF]|1[0-9a-fA-F]|7[fF]|[aA][dD]))"
)
r"""Zero-width and control characters written out: `\u200b`, `\ufeff`, `\u0000`."""
_SPLITTER = "|".join(
    (
        _TERMINAL_CODE,
        _SHELL_SEQUENCE,
        _CONTINUED_LINE,
        _LONE_RETURN,
        _INVISIBLE,
        _VARIATION_SELECTOR,
        _ESCAPED_INVISIBLE,
    )
)
"""Anything that may split a word without being seen."""

CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
"""Control characters other than tab, line feed and carriage return."""
CONTROLS_REMOVED = {ord(character): None for character in CONTROLS if character != "\x85"}
"""A translation table that removes control characters, except for NEL, which ends a line."""
_SURROGATE = "[\ud800-\udfff]"
_REPLACEMENT_CHARACTER = "\ufffd"
