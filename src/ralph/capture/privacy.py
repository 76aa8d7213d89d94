r"""Nothing private reaches the disk: `<private>` parts are cut out, secrets are replaced by their kind.

Every writer calls `redact` on the text as it came, before it is stored, logged or indexed. The
private parts go first and leave nothing behind. A secret leaves `[redacted: kind]`, so that the
sentence stays readable; a Finding says what and where, never the secret itself. The result is
a fixed point: what was redacted is never redacted again, and no finding is left in it.
Precision comes first, because a memory full of `[redacted]` is no memory: see `secrets` for what
shows itself, `assignments` for what is known by its key, `values` for what a secret looks like.
Standard library only: the hook path imports this. The property tests are in
`tests/capture/test_privacy.py`.
"""

from itertools import islice

from ralph.capture.assignments import assignments
from ralph.capture.secrets import Span, header_and_command_secrets, key_blocks, tokens, url_logins
from ralph.capture.values import MARKER, regex
from ralph.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterator, Sequence

    from ralph.capture.veils import View


class _Compared:
    """Equal to another with the same members; plain, because `dataclasses` costs a hook more than the rules."""

    __slots__: tuple[str, ...] = ()

    def _members(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self._members() == other._members() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._members())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._members()!r}"


class Finding(_Compared):
    """A secret's kind and place: `text[start:end]`, on `line` (from 1)."""

    __slots__ = ("end", "kind", "line", "start")

    def __init__(self, kind: str, start: int, end: int, line: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.line = line


class Clean(_Compared):
    """A text that may be kept; the findings stand where they stood before they were replaced.

    `private` is the number of private parts that were cut out.
    """

    __slots__ = ("findings", "private", "text")

    def __init__(self, text: str, findings: tuple[Finding, ...], private: int) -> None:
        self.text = text
        self.findings = findings
        self.private = private


_LESS = r"(?:<|\\{1,8}(?:u003c|x3c)|&(?:amp;){0,4}(?:lt|\#0{0,4}60|\#x0{0,4}3c);|%3c)"
_MORE = r"(?:>|\\{1,8}(?:u003e|x3e)|&(?:amp;){0,4}(?:gt|\#0{0,4}62|\#x0{0,4}3e);|%3e)"
_SLASH = r"(?:\\{0,8}/|\\{1,8}(?:u002f|x2f)|&(?:amp;){0,4}(?:sol|\#0{0,4}47|\#x0{0,4}2f);|%2f)"
_SPACE = r"(?:\s|\\{1,8}[nrt]|%20|&nbsp;)"
_TAG_LENGTH = 600
"""A `<private` with no `>` for so long is not a tag."""
_ROUNDS = 16
"""More than any text needs; only a pattern that looks at its neighbours may ask for a second round."""
_TAG_HEAD = rf"(?i){_LESS}{_SPACE}{{0,8}}+(?P<close>{_SLASH})?{_SPACE}{{0,8}}+"
_TAG = (
    rf"{_TAG_HEAD}private"
    rf"(?P<rest>(?:{_SPACE}|{_SLASH})(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*+)?{_MORE}"
)
"""A tag in any of its spellings; its attributes end at the next `<` or `>` however that is written."""
_BEFORE_WORD = 260
"""No spelling of what stands before the word in a tag is longer."""
_LONGEST_VEILED, _MOST_TAGS = 2_000_000, 20_000
"""Nobody hides so many parts: what follows is private."""
_FOLDED = {"İ": "i", "ı": "i", "＜": "<", "＞": ">", "﹤": "<", "﹥": ">", "／": "/"}
_WIDE = {number: number - 0xFEE0 for number in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
_UNSEEN = (
    *map(chr, (*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0x85), *range(0x86, 0xA0), 0xAD, 0x34F, 0x61C,
               0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070),
               *range(0xFE00, 0xFE10), 0xFEFF)),
    "\\\n", "\\\r", "\\\\\\n", "\\u", "\\x1", "\\033", "\\e[", "^[[",
)  # fmt: skip
"""What every veil begins with or holds: a text without any of these has none."""


class Parted(_Compared):
    """A text without its private parts.

    `count` is how many were cut out, `open` how many are still open at its end; `astray` tells that one was closed
    which nothing had opened.
    """

    __slots__ = ("astray", "count", "open", "text")

    def __init__(self, text: str, count: int, still_open: int, astray: bool) -> None:
        self.text = text
        self.count = count
        self.open = still_open
        self.astray = astray


def lower(text: str) -> str:
    """The text in lower case with every character in its place (`İ` alone would become two)."""
    return text.replace("İ", "i").lower()


def unveiled(text: str) -> "View | None":
    """The text as it is without what splits words unseen (see `veils`), or None when it has nothing of that."""
    if not _may_be_veiled(text):
        return None
    from ralph.capture.veils import view  # noqa: PLC0415 - few texts have a veil

    seen = view(text)
    return seen if seen.joints else None


def _may_be_veiled(text: str) -> bool:
    if text.isascii() and text.isprintable() and "\\" not in text and "^[[" not in text:
        return False  # mostly, and then nothing has to be looked for
    return "\r" in text.replace("\r\n", "") or any(sign in text for sign in _UNSEEN)


def folded(text: str) -> str:
    """The text with the signs that look like those of a tag as these, each in its place."""
    if text.isascii():
        return text
    for sign, meant in _FOLDED.items():
        text = text.replace(sign, meant)
    wide = any(sign in text for sign in "ｐｒｉｖａｔｅＰＲＩＶＡＴＥ")
    return text.translate(_WIDE) if wide else text


def _tags(text: str) -> "Iterator[re.Match[str]]":
    """The tags of a folded text; each is looked for around its word, so that other signs cost nothing."""
    lowered, at = lower(text), 0
    word = lowered.find("private")
    while word >= 0:
        head = regex(rf"{_TAG_HEAD}\Z").search(text, max(at, word - _BEFORE_WORD), word)
        tag = regex(_TAG).match(text, head.start(), head.start() + _TAG_LENGTH) if head else None
        if tag:
            yield tag
        at = tag.end() if tag else word + 7
        word = lowered.find("private", at)


def strip_private(text: str) -> tuple[str, int]:
    """The text without its private parts, and how many there were; an unclosed part goes to the end."""
    found = parted(text)
    return found.text, found.count


def parted(text: str, still_open: int = 0, *, wary: bool = False) -> Parted:
    """The text without its private parts, when so many were open before it.

    A closing tag that nothing opened is removed; who is `wary` has all that stands before it removed as well, for
    the opening one may be in a text of which only the host knows that it came first.
    """
    seen = unveiled(text)
    meant = folded(seen.text if seen else text)
    if "private" not in lower(meant):
        return Parted("" if still_open else text, 0, still_open, False)
    kept, found = _outside(text, meant, seen, still_open, wary)
    joined = "".join(kept)
    if len(kept) < 2:
        return Parted(joined, *found)
    # Cutting may have joined the halves of a tag: nobody writes that by accident, so the rest is private too.
    again = unveiled(joined)
    formed = next(_tags(folded(again.text if again else joined)), None)
    if formed is None:
        return Parted(joined, *found)
    start = again.place(*formed.span())[0] if again else formed.start()
    return Parted(joined[:start], found[0] + 1, MOST_OPEN, found[2])


MOST_OPEN = 8
"""Nobody opens so many private parts at once: then all that follows is private."""


def _outside(
    text: str, meant: str, seen: "View | None", depth: int, wary: bool
) -> tuple[list[str], tuple[int, int, bool]]:
    """The pieces outside of every private part; the number of outermost parts, those still open, any stray end."""
    kept: list[str] = []
    count = at = number = 0
    astray = False
    found = list(islice(_tags(meant), _MOST_TAGS + 1))
    for number, tag in enumerate(found):
        start, end = seen.place(*tag.span()) if seen else tag.span()
        if depth == 0:
            kept.append(text[at:start])
        at = end
        if number == _MOST_TAGS:
            return kept, (count + 1, MOST_OPEN, astray)
        if tag["close"]:
            astray = astray or depth == 0
            if depth == 0 and wary:
                count += any(kept)
                kept.clear()
            depth = max(0, depth - 1)
        elif not (tag["rest"] or "").rstrip().endswith("/") or any(
            after["close"] for after in found[number + 1 : number + 2]
        ):
            count += depth == 0
            depth += 1
    if depth == 0:
        kept.append(text[at:])
    return kept, (count, min(depth, MOST_OPEN), astray)


def may_have_tags(text: str) -> bool:
    """Whether a tag could be in a text, told at once however long it is."""
    if len(text) > _LONGEST_VEILED and _may_be_veiled(text):
        return True
    seen = unveiled(text)
    return "private" in lower(folded(seen.text if seen else text))


def tags_alone(text: str) -> str:
    """The tags of a text as they are usually written: what is left out of it may still open or close a part."""
    seen = unveiled(text)
    found = list(islice(_tags(folded(seen.text if seen else text)), _MOST_TAGS + 1))
    if len(found) > _MOST_TAGS:
        return "<private>" * MOST_OPEN
    return "".join("</private>" if tag["close"] else "<private>" for tag in found)


def find_secrets(text: str, patterns: "Sequence[str]" = ()) -> tuple[Finding, ...]:
    """Every secret in the text, sorted and apart from each other; `patterns` are the user's own."""
    compiled = _custom(patterns)
    spans = _scan(text, compiled)
    for _ in range(_ROUNDS if spans else 0):
        more = _scan(_replaced(text, spans), compiled)
        if not more:
            break
        spans = _joined([*spans, *_as_before(spans, more)])
    return tuple(_findings(text, spans))


def redact(text: str, patterns: "Sequence[str]" = ()) -> Clean:
    """The text as it may be kept: without private parts, each secret replaced by its kind."""
    stripped, private = strip_private(text)
    findings = find_secrets(stripped, patterns)
    result = _replaced(stripped, [(finding.start, finding.end, finding.kind) for finding in findings])
    for _ in range(_ROUNDS if findings else 0):
        again, more = strip_private(result)
        if again == result:
            break
        # A replaced secret made a tag short enough to be one.
        private, result = private + more, redact(again, patterns).text
    return Clean(result, findings, private)


def _custom(patterns: "Sequence[str]") -> "tuple[re.Pattern[str], ...]":
    if not patterns:
        return ()
    import re  # noqa: PLC0415 - for its errors, and only where somebody has patterns

    compiled = []
    for pattern in patterns:
        try:
            compiled.append(regex(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"privacy.patterns: {pattern!r} is not a regular expression: {error}",
                hint="write it as Python's re module reads it, and quote it with single quotes in YAML",
            ) from error
    return tuple(compiled)


def _scan(text: str, custom: "Sequence[re.Pattern[str]]") -> list[Span]:
    """One look at the text: what was found outside of earlier markers, joined where it overlaps."""
    markers = _markers(text)
    found = _found(text)
    blank = _veiled(text)
    seen = unveiled(text)
    if seen is not None:
        from ralph.capture.veils import blanked  # noqa: PLC0415 - few texts have a veil

        blank = blanked(blank)
        hidden = [*_found(seen.text, frozenset(seen.joints)), *_custom_spans(seen.text, custom, _markers(seen.text))]
        found += [(*seen.place(start, end), kind) for start, end, kind in hidden]
    if blank != text:
        found += _found(blank)
    spans = [span for span in found if not _touches(markers, span)] if markers else found
    return _joined([*spans, *_custom_spans(text, custom, markers)])


def _markers(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in regex(MARKER).finditer(text)] if "[redacted: " in text else []


_SURROUNDED = ("PRIVATE KEY", "(1 row)", " rows)", "stdin", "with-token", "sudo -S", "chpasswd", "vault login -",
               "passphrase-fd")  # fmt: skip
"""What `blocks` looks for, in the usual spelling; and tables."""


def _found(text: str, joints: "Collection[int]" = ()) -> list[Span]:
    lowered = lower(text)
    found = [
        *key_blocks(text),
        *tokens(text, joints),
        *url_logins(text),
        *header_and_command_secrets(text, lowered),
        *assignments(text, lowered),
    ]
    if ("|" in text and "--" in text) or any(word in text for word in _SURROUNDED):
        from ralph.capture.blocks import told_by_surroundings  # noqa: PLC0415 - few texts have one of these

        found += told_by_surroundings(text, lowered)
    return found


def _veiled(text: str) -> str:
    """The text with blanks where a copied colour (`[32m`) or an escaped sign stands: a secret may follow at once."""
    if ("[" not in text or "m" not in text) and "\\" not in text:
        return text
    return regex(_VEIL).sub(lambda match: " " * len(match[0]), text)


_VEIL = r"(?:\^\[|\\e)?\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m|\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}"


def _custom_spans(text: str, custom: "Sequence[re.Pattern[str]]", markers: list[tuple[int, int]]) -> "Iterator[Span]":
    """What the user's patterns match between the markers, so that nothing is redacted twice."""
    edges = [0, *(edge for marker in markers for edge in marker), len(text)]
    for pattern in custom:
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            for match in pattern.finditer(text, start, end):
                if match.end() > match.start():
                    yield match.start(), match.end(), "custom"


def _touches(markers: list[tuple[int, int]], span: Span) -> bool:
    """Whether a span overlaps a marker: only the last one that begins before the span's end can."""
    from bisect import bisect_left  # noqa: PLC0415 - few texts ask for it

    last = bisect_left(markers, (span[1], 0)) - 1
    return last >= 0 and span[0] < markers[last][1]


def _joined(spans: list[Span]) -> list[Span]:
    """Sorted, with what overlaps made one; the first to be found names it, for rules come before guesses."""
    order = sorted(range(len(spans)), key=lambda number: spans[number][0])
    joined: list[tuple[int, int, str, int]] = []
    for number in order:
        start, end, kind = spans[number]
        if joined and start < joined[-1][1]:
            first, last, name, rank = joined.pop()
            joined.append((first, max(last, end), *((name, rank) if rank < number else (kind, number))))
        else:
            joined.append((start, end, kind, number))
    return [(start, end, kind) for start, end, kind, _ in joined]


def _replaced(text: str, spans: "Sequence[Span]") -> str:
    pieces, at = [], 0
    for start, end, kind in spans:
        pieces += [text[at:start], f"[redacted: {kind}]"]
        at = end
    return "".join([*pieces, text[at:]])


def _as_before(spans: "Sequence[Span]", later: "Sequence[Span]") -> "Iterator[Span]":
    """Spans of the replaced text, told in places of the text before; none of them touches a marker."""
    grown, number = 0, 0
    for start, end, kind in later:
        while number < len(spans) and spans[number][0] + grown <= start:
            first, last, name = spans[number]
            grown += len(f"[redacted: {name}]") - (last - first)
            number += 1
        yield start - grown, end - grown, kind


def _findings(text: str, spans: "Sequence[Span]") -> "Iterator[Finding]":
    line, at = 1, 0
    for start, end, kind in spans:
        line += text.count("\n", at, start)
        at = start
        yield Finding(kind, start, end, line)
