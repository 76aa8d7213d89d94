"""Make invisible characters visible where a person reads a text to decide about it.

A mark that reverses the direction of writing, or a character without width, can make a text look
like another one:

    show_invisible("run \\u202etset ekam")  ->  "run <U+202E>tset ekam"

`web/static/parts/invisible.js` does the same for the pages.
"""

from __future__ import annotations

import re

_INVISIBLE = (
    "["
    "\u00ad"  # soft hyphen
    "\u034f"  # combining grapheme joiner
    "\u061c"  # Arabic letter mark
    "\u115f\u1160\u3164\uffa0"  # Hangul fillers
    "\u17b4\u17b5"  # Khmer inherent vowels
    "\u180b-\u180f"  # Mongolian selectors
    "\u200b-\u200f"  # spaces and joiners without width, direction marks
    "\u2028-\u202e"  # separators, direction marks
    "\u2060-\u206f"  # word joiner, invisible operators, direction marks
    "\u2800"  # blank Braille pattern
    "\ufe00-\ufe0f"  # variation selectors
    "\ufeff"  # byte order mark
    "\ufff0-\ufffb"  # annotations
    "\U0001d173-\U0001d17a"  # musical format characters
    "\U000e0000-\U000e0fff"  # tags, variation selectors
    "]"
)
"""Characters without a shape. Most texts are ASCII, so the pattern is compiled on first use."""
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Characters that emoji and several scripts need. They are harmless after a non-ASCII character."""


def show_invisible(text: str) -> str:
    """Replace invisible characters with their code points, such as `<U+202E>`."""
    if text.isascii():
        return text
    return re.sub(_INVISIBLE, _code_point, text)


def escape_invisible(json_text: str) -> str:
    """Replace invisible characters in JSON with escapes, such as `\\u202e`."""
    import json  # only for programs: tables and pages show code points

    return re.sub(_INVISIBLE, lambda found: json.dumps(found[0]).strip('"'), json_text)


def _code_point(found: re.Match[str]) -> str:
    character = found[0]
    before = found.string[max(0, found.start() - 1) : found.start()]
    if character in _JOINERS and not before.isascii() and not re.match(_INVISIBLE, before):
        return character
    return f"<U+{ord(character):04X}>"
