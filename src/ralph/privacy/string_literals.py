r"""Read string literals as the texts that they stand for.

A file or a log inside of JSON is one string, in which `\n` stands for a line feed. A rule that
looks at lines finds nothing there, so literals are decoded and searched as texts of their own:

    text     `{"env": "user,password\nada,Wint3r!Kettle"}`
    literal  `user,password` and, on the next line, `ada,Wint3r!Kettle`

A decoded text may contain literals again. `Literal.locate` translates a span of the decoded text to
the text around it, in whole escapes, so that JSON stays valid when the span is replaced.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LITERAL = (
    r"\"(?P<double>(?>(?:[^\"\\\n]|\\[^\n])*))(?:\"|(?=\n)|\Z)"
    r"|'(?P<single>(?>(?:[^'\\\n]|\\[^\n])*))(?:'|(?=\n)|\Z)"
)
"""A literal in double or single quotes. The end may be missing in a text that was cut."""
_MIN_LITERAL_LENGTH = 12  # characters; a shorter one has no room for a secret and its name
_ESCAPE = r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>[^\n]))"
_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
"""What the letters after a backslash stand for. Any other character stands for itself."""


class Literal:
    """The decoded text of a literal.

    `_decoded` and `_original` are the positions after each escape, in the decoded text and in the
    text around the literal.
    """

    __slots__ = ("_decoded", "_original", "text")

    def __init__(self, encoded: str, start: int) -> None:
        pieces = []
        self._decoded = [0]
        self._original = [start]
        copied = 0
        length = 0
        for escape in re.finditer(_ESCAPE, encoded):
            plain = encoded[copied : escape.start()]
            pieces.append(plain)
            pieces.append(_character(escape))
            length += len(plain) + 1
            copied = escape.end()
            self._decoded.append(length)
            self._original.append(start + copied)
        pieces.append(encoded[copied:])
        self.text = "".join(pieces)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Translate a span of the decoded text to the span of the text around the literal."""
        return self._position(start), self._position(end)

    def _position(self, decoded: int) -> int:
        number = bisect_right(self._decoded, decoded) - 1
        return self._original[number] + decoded - self._decoded[number]


def find_literals(text: str) -> Iterator[Literal]:
    """Yield the literals of a text that contain escapes."""
    for match in re.finditer(_LITERAL, text):
        group = "double" if match["double"] else "single"
        encoded = match[group]
        if encoded and len(encoded) >= _MIN_LITERAL_LENGTH and "\\" in encoded:
            yield Literal(encoded, match.start(group))


def _character(escape: re.Match[str]) -> str:
    if escape["code"]:
        return chr(int(escape["code"], 16))
    letter = escape["letter"]
    return _CHARACTERS.get(letter, letter)
