"""Signs that nobody sees and a terminal, an editor or a model obeys: they do not get into what Ralph keeps.

These are the control characters but for the line end and the tab, DEL, the second set of controls (C1), and marks that
turn the direction of writing and are not closed again on their line: by them a text reads otherwise than it is. Marks
that are closed belong to texts in Arabic or Hebrew and stay. One rule for every text that enters by a command or over
MCP, and it is refused with the place, since whoever gave it can mend it (`check`); what an agent said in a loop cannot
be asked for again, so it is cleaned (`cleaned`). What a person wrote into a file by hand is never touched.
`tests/capture/test_unseen.py` tries every one of these signs, and `tests/cli/test_unseen.py` every command.
"""

import re
from collections.abc import Iterator

from ralph.errors import Refused

_CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
_GONE = dict.fromkeys(map(ord, _CONTROLS))
_LINE_ENDS = re.compile(r"\r\n?|\x85")
_HALF = re.compile("[\ud800-\udfff]")
_CODE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4000}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
"""What a terminal obeys, with its sign; not what is written out in letters."""
_CLOSED_BY = {
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
}
_TURNING = frozenset((*_CLOSED_BY, *_CLOSED_BY.values()))
_NAMES = {"\x1b": "ESC", "\x07": "BEL", "\x08": "backspace", "\x7f": "DEL", "\x00": "NUL", "\x0c": "form feed"}


def check(text: str) -> None:
    """Refuse a text with such a sign, and say which one it is and in which line; or one that was no UTF-8."""
    signs = set(text)
    if any("\ud800" <= char <= "\udfff" for char in signs):
        raise Refused("the text is not valid UTF-8", hint="pass it as UTF-8, or from a file with --file")
    if found := signs & _CONTROLS:
        at = next(place for place, char in enumerate(text) if char in found)
        raise _refused("a control character", text, at)
    if signs & _TURNING and (at := next(_lone(text), -1)) >= 0:
        raise _refused("a mark that turns the direction of writing and is not closed", text, at)


def cleaned(text: str) -> str:
    """A text without such signs, a terminal's colours as a whole; words about such signs stay as they are.

    Half a character, which no file can hold, becomes the sign for one that cannot be read.
    """
    text = _HALF.sub("\ufffd", text)
    if set(text) & _CONTROLS:
        text = _LINE_ENDS.sub("\n", _CODE.sub("", text)).translate(_GONE)
    if not set(text) & _TURNING:
        return text
    lone = set(_lone(text))
    return "".join(char for place, char in enumerate(text) if place not in lone)


def _lone(text: str) -> Iterator[int]:
    """The places of marks that open what is not closed on their line, or close what was not opened."""
    start = 0
    for line in text.splitlines(keepends=True):
        open_: list[int] = []
        for at, char in enumerate(line, start):
            if char in _CLOSED_BY:
                open_.append(at)
            elif char in _TURNING:
                if open_ and _CLOSED_BY[text[open_[-1]]] == char:
                    open_.pop()
                else:
                    yield at
        yield from open_
        start += len(line)


def _refused(what: str, text: str, at: int) -> Refused:
    sign = text[at]
    named = f"{_NAMES[sign]}, " if sign in _NAMES else ""
    line = text.count("\n", 0, at) + 1
    return Refused(
        f"the text holds {what} ({named}U+{ord(sign):04X}) in line {line}: nothing was stored",
        hint="remove it; what programs print for a terminal is mostly without such signs when it is piped (NO_COLOR=1)",
    )
