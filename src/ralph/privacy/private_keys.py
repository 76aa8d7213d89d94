r"""Find private keys: PEM, OpenSSH, PGP and PuTTY.

A complete key is everything from its BEGIN line to its END line:

    -----BEGIN PRIVATE KEY-----
    MIIEvQIBADANBgkqhkiG9w0BAQEFAASC...
    -----END PRIVATE KEY-----

Program output often has only a part of this, or the whole key as one string with `\n` in place of
line breaks. A body that follows a BEGIN line or precedes an END line is therefore enough, as long
as one of its lines looks random.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING
from ralph.privacy import secret_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.privacy.secret_values import Span

_GAP = r"""(?:\s|\\{1,4}[nrt]|["',;>|\#]|[+*][ ])"""
_BEGIN = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END = r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_GAPS = rf"(?>{_GAP}+)"
_BODY = rf"""(?x)(?>{_GAP}*)(?:[A-Z][A-Za-z-]{{2,30}}:[ ][^\n\\]{{0,200}}{_GAPS}){{0,6}}
    (?P<body>[A-Za-z0-9+/]{{16,}}+={{0,3}}(?>(?:{_GAPS}[A-Za-z0-9+/]{{16,}}+={{0,3}})*))
    (?:(?>(?:\s|\\{{1,4}}[nrt])+)(?:[A-Za-z0-9+/]{{1,15}}+={{0,3}}(?=\s*\Z)
                         |[A-Za-z+/]{{0,14}}[0-9+/][A-Za-z0-9+/]{{0,15}}={{0,3}}(?=["'\s])))?"""
"""The body of a key without an END line: headers, lines of base64, and a last line cut off."""
_PUTTY = r"Private-Lines: \d+\s+(?P<body>[A-Za-z0-9+/]{32,}={0,2}(?:\s[A-Za-z0-9+/=]{16,})*)"
_LONG_LINE = r"[A-Za-z0-9+/]{24,}"
_KEY_PARTS = rf"(?xs)(?P<gap>{_GAPS})|(?P<line>[A-Za-z0-9+/=]++)|."
_QUOTED_BLOCK = rf"{_BEGIN}[^-]{{0,200}}+{_END}"
_LINE_START = r"(?:[-+> \t\"']|\\n)*"
_MAX_KEY_LENGTH = 20_000
_MIN_KEY_LENGTH = 40
_KEY_LINE_LENGTH = 64
_MIN_KEY_LINE_LENGTH = 16
_MAX_SHORT_LINES = 2
"""How many lines at the end of a key may be short."""


def has_private_key(text: str) -> bool:
    """Return whether a text contains the BEGIN or END line of a private key.

    A regex or a message that quotes such a line does not count.
    """
    if "PRIVATE KEY" not in text:
        return False
    text = re.sub(_QUOTED_BLOCK, _keep_block_with_key, text)
    for line in text.split("\n"):
        if "-----" in line and "PRIVATE KEY" in line:
            before = line[: line.index("-----")]
            if re.fullmatch(_LINE_START, before):
                return True
    return False


def _keep_block_with_key(block: re.Match[str]) -> str:
    if re.search(_LONG_LINE, block[0]):
        return block[0]
    return ""


def private_keys(text: str) -> Iterator[Span]:
    """Yield PEM, OpenSSH, PGP and PuTTY keys, even if cut off or written as one string."""
    yield from _keys_after_begin(text)
    yield from _keys_before_end(text)
    for key in re.finditer(_PUTTY, text):
        yield key.start("body"), key.end(), "private key"


def _keys_after_begin(text: str) -> Iterator[Span]:
    begins = list(re.finditer(_BEGIN, text))
    for number, begin in enumerate(begins):
        limit = len(text)
        if number + 1 < len(begins):
            limit = begins[number + 1].start()
        end_limit = min(limit, begin.end() + _MAX_KEY_LENGTH)
        end = re.compile(_END).search(text, begin.end(), end_limit)
        if end:
            lines = re.compile(_LONG_LINE).findall(text, begin.end(), end.start())
            if _is_key("".join(lines)):
                yield begin.start(), end.end(), "private key"
            continue
        body = re.compile(_BODY).match(text, begin.end(), limit)
        if body and _is_key(body["body"]):
            yield begin.start(), body.end(), "private key"


def _keys_before_end(text: str) -> Iterator[Span]:
    """Yield keys that precede an END line, however much of their beginning is cut off."""
    floor = 0
    for end in re.finditer(_END, text):
        first = max(floor, end.start() - _MAX_KEY_LENGTH)
        parts = list(re.compile(_KEY_PARTS).finditer(text, first, end.start()))
        start = end.start()
        lines: list[str] = []
        for part in reversed(parts):
            line = part["line"]
            if line and (len(line) >= _MIN_KEY_LINE_LENGTH or len(lines) < _MAX_SHORT_LINES):
                lines.insert(0, line)
                start = part.start()
            elif not part["gap"]:
                break
        if _is_key("".join(lines)):
            yield start, end.end(), "private key"
        floor = end.end()


def _is_key(body: str) -> bool:
    if len(body) < _MIN_KEY_LENGTH:
        return False
    for start in range(0, len(body), _KEY_LINE_LENGTH):
        if secret_values.is_random(body[start : start + _KEY_LINE_LENGTH]):
            return True
    return False
