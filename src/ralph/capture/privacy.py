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

from ralph.capture.assignments import assignments
from ralph.capture.secrets import Span, header_and_command_secrets, key_blocks, tokens, url_logins
from ralph.capture.values import MARKER, regex
from ralph.errors import ConfigError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence


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


_TAG = (
    rf"(?i){_LESS}{_SPACE}{{0,8}}+(?P<close>{_SLASH})?{_SPACE}{{0,8}}+private"
    rf"(?P<rest>(?:{_SPACE}|{_SLASH})(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*+)?{_MORE}"
)
"""A tag in any of its spellings; its attributes end at the next `<` or `>` however that is written."""


def _tags(text: str) -> "list[re.Match[str]]":
    return [tag for tag in regex(_TAG).finditer(text) if tag.end() - tag.start() <= _TAG_LENGTH]


def lower(text: str) -> str:
    """The text in lower case with every character in its place (`İ` alone would become two)."""
    return text.replace("İ", "i").lower()


def strip_private(text: str) -> tuple[str, int]:
    """The text without its private parts, and how many there were; an unclosed part goes to the end."""
    if "private" not in lower(text):
        return text, 0
    kept, count = _outside(text)
    joined = "".join(kept)
    # Cutting may have joined the halves of a tag: nobody writes that by accident, so the rest is private too.
    formed = _tags(joined) if len(kept) > 1 else []
    return (joined[: formed[0].start()], count + 1) if formed else (joined, count)


def _outside(text: str) -> tuple[list[str], int]:
    """The pieces of text outside of every private part, and the number of outermost parts."""
    tags = _tags(text)
    kept: list[str] = []
    depth = count = at = 0
    for number, tag in enumerate(tags):
        if depth == 0:
            kept.append(text[at : tag.start()])
        at = tag.end()
        if tag["close"]:
            depth = max(0, depth - 1)
        elif not (tag["rest"] or "").rstrip().endswith("/") or _closes(tags, number + 1):
            count += depth == 0
            depth += 1
    if depth == 0:
        kept.append(text[at:])
    return kept, count


def _closes(tags: "list[re.Match[str]]", number: int) -> bool:
    """Whether the next tag is a closing one: then `<private/>` was meant to open."""
    return number < len(tags) and bool(tags[number]["close"])


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


def check_storable(text: str) -> None:
    """Refuse a text that no file of ours can hold: bytes that were no UTF-8, or a NUL."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise Refused("the text is not valid UTF-8", hint="pass it as UTF-8, or from a file with --file")
    if "\0" in text:
        raise Refused("the text holds a NUL character", hint="remove it: text files cannot keep it")


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
    markers = [match.span() for match in regex(MARKER).finditer(text)] if "[redacted: " in text else []
    found = _found(text)
    veiled = _veiled(text)
    if veiled != text:
        found += _found(veiled)
    spans = [span for span in found if not _touches(markers, span)] if markers else found
    return _joined([*spans, *_custom_spans(text, custom, markers)])


def _found(text: str) -> list[Span]:
    lowered = lower(text)
    return [
        *key_blocks(text),
        *tokens(text),
        *url_logins(text),
        *header_and_command_secrets(text, lowered),
        *assignments(text, lowered),
    ]


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
