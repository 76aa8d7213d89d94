r"""The texts of one event redacted one after the other, as they may be kept.

`privacy.redact` knows a text; this knows what stands around texts in an event. Colours and control signs come
off, because they could stand between a secret and the sign that must not be before it. A private part that one
text opens and none closes hides the texts after it, and one that is closed without having been opened all that
stands before it in its text. What a patch takes out (`-ghp_...`) is looked at without its sign. A name and its
value in two members of an object are put together again. Of a very long text only the ends are looked at and
kept, of very many texts the first and the last; so the work for one event is bounded.
Light, like all that it uses: hooks run it before they write a line.
`tests/capture/test_pipeline.py` and `tests/hooks/test_careful.py` prove it.
"""

from ralph.capture.assignments import holder
from ralph.capture.privacy import MOST_OPEN, find_secrets, may_have_tags, parted, redact, strip_private, tags_alone
from ralph.capture.values import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0x85), *range(0x86, 0xA0)])
_CODES = ("\x1b", "\x9b", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\\u001", "\\x1", "\\033")
_REMOVED = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"
_HALF = "[\ud800-\udfff]"
WINDOW, _EDGE = 64_000, 8_000
"""Of a very long text this much of either end is looked at; what stands at the inner edges is dropped."""
_LONGEST = 1_000_000
"""So much of either end is looked through for private parts."""
_MOST_SIGNS, _MOST_TEXTS = 320_000, 12_000
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


class Astray(Exception):
    """A private part is closed that nothing opened; who puts the texts of an event together must decide."""


class Redactor:
    """Redacts the texts of one event one after the other.

    It remembers a private part that is still open (`open`), and whether one was closed that nothing had opened
    (`astray`): that is the exception Astray, unless `bear` says that the caller asks for it. What is more than the
    rules can look at in time is left out, unseen and unkept.
    """

    def __init__(self, patterns: "Sequence[str]", *, bear: bool = False) -> None:
        self.patterns = patterns
        self.bear = bear
        self.open = 0
        self.astray = False
        self._signs, self._texts = _MOST_SIGNS, _MOST_TEXTS

    def __call__(self, text: str, window: int = WINDOW) -> str:
        """The text as it may be kept; of one that is longer than twice the window its ends."""
        if self.open >= MOST_OPEN or self._signs <= 0 or self._texts <= 0:
            return ""
        self._texts -= 1
        text, lost = _looked_through(text)
        found = parted(text, self.open, wary=True)
        self.open, self.astray = MOST_OPEN if lost else found.open, self.astray or found.astray
        if found.astray and not self.bear:
            raise Astray
        text, window = found.text, max(window, _OWN_WINDOW) if self.patterns else window
        self._signs -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._safe(text)
        head, tail = self._safe(text[:window]), self._safe(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"

    def _safe(self, text: str) -> str:
        """Without secrets as it came, for a code may stand right before one, and again as it is kept."""
        seen = without_secrets(text, self.patterns)
        bare = plain(seen)
        return seen if bare == seen else without_secrets(bare, self.patterns)


def _looked_through(text: str) -> tuple[str, bool]:
    """Of an enormous text its ends; only the first one, and True, when a tag could be in what is left out."""
    if len(text) <= 2 * _LONGEST:
        return text, False
    lost = may_have_tags(text[_LONGEST - _EDGE : _EDGE - _LONGEST])
    note = f"\n[... {len(text) - 2 * _LONGEST:,} characters left out ...]\n"
    return (text[:_LONGEST], True) if lost else (text[:_LONGEST] + note + text[-_LONGEST:], False)


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


class _Gap:
    """What was left out of a list or an object, for it had too many members: how many, and the tags among them."""

    __slots__ = ("count", "tags")

    def __init__(self, left_out: "Sequence[object]") -> None:
        self.count = len(left_out)
        self.tags = tags_alone(_APART.join(_texts(left_out)))

    def __str__(self) -> str:
        return f"[... {self.count:,} left out ...]"


_MOST_MEMBERS = 8_000
_WIDTHS = (4_000, 1_200, 400, 120, 40, 16, 8, 4, 2)
_APART = "\n" * 9
"""More than may stand inside of a tag, so that texts which are joined by it make none."""


def mapped(value: object, words: "Callable[[str], str]", depth: int = 0) -> object:
    """A value with a function applied to each of its texts, names of members too; what is too deep is dropped.

    Where there are too many members the middle of each long list is left out before anything looks at it; only the
    tags there are told, for they may hide what follows.
    """
    return _mapped(_bounded(value, depth), words, depth)


def _bounded(value: object, depth: int) -> object:
    """A value that has not too many members in all; nothing is left of one that is all branches."""
    if not _more_than(value, _MOST_MEMBERS):
        return value
    shorter = (_shortened(value, width, depth) for width in _WIDTHS)
    return next((found for found in shorter if not _more_than(found, _MOST_MEMBERS)), None)


def _mapped(value: object, words: "Callable[[str], str]", depth: int) -> object:
    if isinstance(value, str):
        return words(value)
    if isinstance(value, _Gap):
        words(value.tags)
        return str(value)
    if depth >= DEEPEST:
        return None
    if isinstance(value, dict):
        return {words(str(key)): _mapped(inner, words, depth + 1) for key, inner in value.items()}
    return [_mapped(inner, words, depth + 1) for inner in value] if isinstance(value, list | tuple) else value


def _more_than(value: object, most: int) -> bool:
    """Whether a value has more members, and members of members, than that."""
    left, waiting = most, [value]
    while waiting and left >= 0:
        inner = waiting.pop()
        if isinstance(inner, dict | list | tuple):
            left -= len(inner)
            waiting.extend(inner.values() if isinstance(inner, dict) else inner)
    return left < 0


def _shortened(value: object, width: int, depth: int) -> object:
    """A value of which no list and no object has more members than that; the first ones and the last are kept."""
    if depth >= DEEPEST or not isinstance(value, dict | list | tuple):
        return value
    members = list(value.items() if isinstance(value, dict) else value)
    first = last = len(members)
    if len(members) > width:
        first, last = width - width // 2, len(members) - width // 2
    gap = _Gap(members[first:last])
    if isinstance(value, dict):
        kept = {key: _shortened(inner, width, depth + 1) for key, inner in members[:first]}
        kept.update({str(gap): gap} if gap.count else {})
        kept.update((key, _shortened(inner, width, depth + 1)) for key, inner in members[last:])
        return kept
    ends = [_shortened(inner, width, depth + 1) for inner in members[:first] + members[last:]]
    return [*ends[:first], gap, *ends[first:]] if gap.count else ends


def _texts(value: object) -> "Iterator[str]":
    """Every text of a value in its order, names too."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, _Gap):
            yield inner.tags
        elif isinstance(inner, dict):
            waiting.extend(part for item in reversed(inner.items()) for part in reversed(item))
        elif isinstance(inner, list | tuple):
            waiting.extend(reversed(inner))


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
