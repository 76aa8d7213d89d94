r"""What can stand inside of a word without being seen, and the text as it is seen without it.

A terminal's codes (colours, links, titles), control signs, zero-width signs, a soft hyphen, a lone carriage
return and the `\` at the end of a continued line may all split a token, a name or a tag. `View` is the text
without them, and tells where a place of it stands in the text as it came; so the rules look at the text as it
is, with blanks for the veils, and without them, and nothing else of the text has to change.
What a terminal hides as a whole (the address of a link) is only taken for a veil when no tag can be in it, and
a code never swallows a `<`, nor what an escaped one begins with. Loaded only for texts that have a veil: few do,
and the expression takes its time to compile.
`tests/capture/test_privacy_veils.py` splits every token and tag with each of them.
"""

from bisect import bisect_right

from ralph.capture.privacy import folded, lower
from ralph.capture.values import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_NUMBERS = r"(?:<(?=[0-9])|[=>?])?[0-9;:]{0,64}"
_ESCAPED = r"\\{1,8}(?:u001[bB]|x1[bB]|033)"
TERMINAL = (
    r"(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"(?P<inner>[^\x07\x1b\n\x90\x98\x9c-\x9f]{0,4000}+)(?:\x07|\x1b\\(?!u00[23]|x[23])|\x9c))"
    rf"|(?:\x1b\[|\x9b){_NUMBERS}[ !\"#$'*+,-]{{0,4}}[@-\[\]-~]"
    rf"|{_ESCAPED}\[{_NUMBERS}[A-Za-z]"
    r"|\x1b(?:[()#][0-;=-\[\]-~]|%[@G]| [FGLMN])|\x1b(?:\\(?![uxnrt0e\\\r\n]))?"
)
"""Strings with their end, codes with numbers, sets of signs, and an escape that begins nothing else."""
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_VEIL = (
    rf"{TERMINAL}|(?:\\e|\^\[)\[{_NUMBERS}[A-Za-z]"
    r"|(?<==)\\\r?\n[ \t]*|\\\r?\n|(?<!\\)\\{3}n|\r(?!\n)"
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_UNSEEN}]"
    r"|(?<![\u2100-\u2bff\u3000-\ufdff\U00010000-\U0010ffff])[\ufe00-\ufe0f]"
    r"|\\{1,8}u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]"
    r"|00(?:0[0-8bcefBCEF]|1[0-9a-fA-F]|7[fF]|[aA][dD]))"
)


class View:
    """A text without its veils; `joints` are the places where one stood."""

    __slots__ = ("_removed", "joints", "text")

    def __init__(self, text: str, joints: list[int], removed: list[int]) -> None:
        self.text = text
        self.joints = joints
        self._removed = removed

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of this text, which is not empty, stands in the text as it came."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, at: int) -> int:
        number = bisect_right(self.joints, at)
        return at + self._removed[number - 1] if number else at


def view(text: str) -> View:
    """The text without its veils."""
    pieces, joints, removed = [], list[int](), list[int]()
    at = seen = gone = 0
    veil = regex(_VEIL).search(text)
    while veil:
        start, end = veil.start(), veil.start("inner") if _may_hold_tag(veil) else veil.end()
        pieces.append(text[at:start])
        seen, gone, at = seen + start - at, gone + end - start, end
        joints.append(seen)
        removed.append(gone)
        veil = regex(_VEIL).search(text, end)
    return View("".join([*pieces, text[at:]]), joints, removed)


def blanked(text: str) -> str:
    """The text with blanks where a veil stands: a secret may follow it at once."""
    return regex(_VEIL).sub(lambda veil: " " * len(veil[0]), text)


def _may_hold_tag(veil: "re.Match[str]") -> bool:
    """Whether this is a string in which a tag could be: then only its beginning is a veil."""
    return bool(veil["string"]) and "private" in "".join(filter(str.isalpha, lower(folded(veil["inner"]))))


def uncoded(text: str) -> str:
    """The text without the codes of terminals, as it is kept; what may hold a tag stays to be looked at."""
    return regex(TERMINAL).sub(lambda code: code["inner"] if _may_hold_tag(code) else "", text)
