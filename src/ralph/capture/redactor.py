r"""The texts of one event redacted one after the other, as they may be kept.

`privacy.redact` knows a text; this knows what stands around texts in an event. Colours and control signs come
off first, because they could stand between a secret and the sign that must not be before it. A private part
that one text opens and none closes hides the texts after it. What a patch takes out (`-ghp_...`) is looked at
without its sign. A name and its value in two members of an object are put together again. Of a very long text
only the ends are looked at and kept. Light, like all that it uses: hooks run it before they write a line.
`tests/capture/test_pipeline.py` and `tests/hooks/test_careful.py` prove it.
"""

from ralph.capture.assignments import holder
from ralph.capture.privacy import find_secrets, lower, redact, strip_private
from ralph.capture.values import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0x85), *range(0x86, 0xA0)])
_CODES = ("\x1b", "\x9b", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\\u001", "\\x1", "\\033")
_REMOVED = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"
_HALF = "[\ud800-\udfff]"
WINDOW, _EDGE = 64_000, 8_000
"""Of a very long text this much of either end is looked at; what stands at the inner edges is dropped."""
_LONGEST = 4_000_000
"""So much of either end is looked through for private parts."""
_MOST_SIGNS, _MOST_TEXTS = 640_000, 12_000
"""What the rules are asked to look at in one event: they take some 2 seconds for it in the worst case."""
_OWN_WINDOW = 160_000
DEEPEST = 24
"""Members of members: no honest payload goes deeper."""


def plain(text: str) -> str:
    """Text without colours, control signs and half characters: they could stand between a secret and its signs."""
    if any(code in text for code in _CODES):
        from ralph.capture.veils import uncoded  # noqa: PLC0415 - few texts have a code

        text = uncoded(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL)
    return text if text.isascii() else regex(_HALF).sub("\ufffd", text)


class Redactor:
    """Redacts the texts of one event one after the other.

    It remembers a private part that is still open (`open`), and whether one was closed that nothing had opened
    (`astray`). What is more than the rules can look at in time is left out, unseen and unkept.
    """

    def __init__(self, patterns: "Sequence[str]") -> None:
        self.patterns = patterns
        self.open = 0
        self.astray = False
        self._signs, self._texts = _MOST_SIGNS, _MOST_TEXTS

    def __call__(self, text: str, window: int = WINDOW) -> str:
        """The text as it may be kept; of one that is longer than twice the window its ends."""
        if self.open >= MOST_OPEN or self._signs <= 0 or self._texts <= 0:
            return ""
        self._texts -= 1
        found = parted(self._ends(text), self.open, wary=True)
        self.open, self.astray = max(self.open, found.open) if self._lost else found.open, self.astray or found.astray
        text, window = found.text, max(window, _OWN_WINDOW) if self.patterns else window
        self._signs -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._safe(text)
        head, tail = self._safe(text[:window]), self._safe(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"


def without_secrets(text: str, patterns: "Sequence[str]" = ()) -> str:
    """The text redacted, also as it is without the signs of a patch: `-ghp_...` is a token that was taken out."""
    text = redact(text, patterns).text
    unsigned = regex(_REMOVED).sub(" ", text) if "-" in text else text
    if unsigned == text:
        return text
    pieces, at = [], 0
    for finding in find_secrets(unsigned, patterns):
        pieces += [text[at : finding.start], f"[redacted: {finding.kind}]"]
        at = finding.end
    return "".join([*pieces, text[at:]])


def _still_open(text: str) -> int:
    """How many private parts a text leaves open: so many closing tags it takes to be seen behind it."""
    for count in range(_MOST_OPEN):
        if strip_private(f"{text}{'</private>' * count}{_END}")[0].endswith(_END):
            return count
    return _MOST_OPEN


def mapped(value: object, words: "Callable[[str], str]", depth: int = 0) -> object:
    """A value with a function applied to each of its texts, names of members too; what is too deep is dropped."""
    if isinstance(value, str):
        return words(value)
    if depth >= DEEPEST:
        return None
    if isinstance(value, dict):
        return {words(str(key)): mapped(inner, words, depth + 1) for key, inner in value.items()}
    return [mapped(inner, words, depth + 1) for inner in value] if isinstance(value, list | tuple) else value


def named_secrets(value: object, patterns: "Sequence[str]" = (), key: str = "") -> object:
    """A value without what only the name of a member tells to be a secret, also within lists and objects."""
    if isinstance(value, dict):
        return {name: named_secrets(inner, patterns, name if holder(name) else key) for name, inner in value.items()}
    if isinstance(value, list):
        return [named_secrets(inner, patterns, key) for inner in value]
    if not key or value is None or isinstance(value, bool):
        return value
    found = [finding for finding in find_secrets(f'"{key}": "{value}"', patterns) if finding.end > len(key) + 5]
    return f"[redacted: {found[0].kind}]" if found else value


def secretive(whole: str) -> bool:
    """Whether a file has private parts or a key: a piece of it may be one from their inside."""
    return "PRIVATE KEY" in whole or strip_private(plain(whole))[0] != plain(whole)
