"""Find tokens that begin with a vendor's prefix, such as `ghp_` for GitHub.

The rules are the rows of `secret_rules.token_rules()`: a kind, its prefixes, and a regex for the
body. In `token: ghp_9fK2...`, the prefix is `ghp_` and the body is everything after it. A rule runs
only if the pre-filter finds one of its prefixes in a long run of token characters.

A prefix alone proves little, so the body must not look like a placeholder. After a prefix that
ordinary names also have (`test_`), the body must look random. A token counts only if no letter,
digit, `-` or `_` precedes it.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, secret_prefilter, secret_rules
from ralph.privacy import secret_values
from ralph.privacy.secret_values import Span, decode_text, has_both_cases, has_digit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_WORD = r"[A-Za-z0-9_-]"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_BASE64 = r"[A-Za-z0-9+/]{24}"
_CHECKSUM = r"(?i)(?:sha\d{1,3}|md5|integrity)[=:-]\Z"
_BEFORE_TOKEN_LENGTH = 24
"""How many characters before a token are examined."""
_DISCORD = (
    rf"[MNO](?<![A-Za-z0-9_.-][MNO])(?P<id>{_WORD}{{22,27}})\.{_WORD}{{6}}"
    rf"\.{_WORD}{{27,45}}(?!{_WORD})"
)
_DISCORD_WORDS = ("discord", ".login(", ".run(")
_PAIRED = (
    "aws access key",
    "alibaba key",
    "tencent key",
    "scaleway key",
    "volcengine key",
    "google storage key",
)
"""Kinds of access key ids. The secret that belongs to one has no prefix, but follows shortly."""
_PARTNER = (
    r"(?<![A-Za-z0-9+/=_-])(?:(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{30,64}={0,2}"
    rf"|{_UUID})(?![A-Za-z0-9+/_-])"
)
_PARTNER_DISTANCE = 160  # characters
_MIN_KNOWN_PREFIX_LENGTH = 4
_KNOWN_SHORT_PREFIXES = ("eyJ", "A3-", "SCW")
_MAX_LEAD_LENGTH = 96
_MIN_LONG_PREFIX_LENGTH = 5


def vendor_tokens(text: str, joints: Collection[int]) -> Iterator[Span]:
    """Yield tokens with a vendor's prefix. At a joint, a token may begin whatever precedes it."""
    present = secret_prefilter.token_prefixes(text)
    if not present:
        return
    for kind, prefixes, body, lead in secret_rules.token_rules():
        for prefix in prefixes:
            if prefix not in present:
                continue
            body_regex = body.replace("<word>", _WORD).replace("<uuid>", _UUID)
            if lead:
                tokens = _tokens_after_lead(text, prefix, body_regex, lead)
            else:
                tokens = _tokens_after_prefix(text, prefix, body_regex)
            for start, end in tokens:
                if _is_inside_other_data(text, start):
                    continue
                yield start, _wrapped_end(text, start, end), kind
                if kind in _PAIRED:
                    yield from _partner_secret(text, end, kind)
            if joints and not lead:
                yield from _tokens_at_joints(text, prefix, body_regex, kind, joints)
    if "." in present:
        yield from _discord_tokens(text)


def _tokens_after_prefix(text: str, prefix: str, body: str) -> Iterator[tuple[int, int]]:
    r"""Yield tokens that do not begin inside a word. Escapes such as `\n` and `%3D` end a word."""
    name = re.escape(prefix)
    begins = rf"(?:(?<![A-Za-z0-9_-]{name})|(?<=\\[nrt]{name})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{name}))"
    for token in re.finditer(f"{name}{begins}(?:{body})", text):
        if _is_body(prefix, token[0][len(prefix) :]):
            yield token.span()


def _tokens_after_lead(text: str, prefix: str, body: str, lead: str) -> Iterator[tuple[int, int]]:
    """Yield tokens whose `prefix` is in the middle, after text that matches `lead`."""
    lead_pattern = re.compile(rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])){lead}\Z")
    body_pattern = re.compile(body)
    for position in secret_prefilter.positions(text, prefix):
        floor = max(0, position - _MAX_LEAD_LENGTH)
        before = lead_pattern.search(text[floor:position])
        after = body_pattern.match(text, position + len(prefix))
        if before is None or after is None:
            continue
        judged = after[0]
        if len(prefix) < _MIN_LONG_PREFIX_LENGTH:
            judged = before[0] + after[0]
        if _is_body(prefix, judged):
            yield floor + before.start(), after.end()


def _tokens_at_joints(
    text: str, prefix: str, body: str, kind: str, joints: Collection[int]
) -> Iterator[Span]:
    for token in re.finditer(re.escape(prefix) + f"(?:{body})", text):
        if token.start() in joints and secret_values.is_token_body(token[0][len(prefix) :]):
            yield token.start(), token.end(), kind


def _is_body(prefix: str, body: str) -> bool:
    """Return whether the text after a prefix can be that of a token.

    If ordinary names begin with the prefix too, the text must look random.
    """
    is_long = len(prefix) >= _MIN_KNOWN_PREFIX_LENGTH
    is_known = is_long and prefix not in secret_rules.AMBIGUOUS_PREFIXES
    if is_known or prefix in _KNOWN_SHORT_PREFIXES:
        return secret_values.is_token_body(body)
    return secret_values.is_random(body)


def _is_inside_other_data(text: str, start: int) -> bool:
    """Return whether the prefix at `start` occurs by chance in a checksum or in long base64."""
    before = text[max(0, start - _BEFORE_TOKEN_LENGTH) : start]
    if before.endswith(("+", "/")) and re.fullmatch(_BASE64, before):
        return has_both_cases(before) and has_digit(before)
    return before.endswith(("=", ":", "-")) and re.search(_CHECKSUM, before) is not None


def _partner_secret(text: str, end: int, kind: str) -> Iterator[Span]:
    for partner in re.compile(_PARTNER).finditer(text, end, end + _PARTNER_DISTANCE):
        if has_both_cases(partner[0]) or "-" in partner[0]:
            yield partner.start(), partner.end(), kind.replace("access", "secret")
            return


def _discord_tokens(text: str) -> Iterator[Span]:
    names_discord = any(word in text for word in _DISCORD_WORDS)
    for token in re.finditer(_DISCORD, text):
        if names_discord or decode_text(text[token.start() : token.end("id")]).isdigit():
            yield token.start(), token.end(), "discord token"


_CONTINUED = r"[ \t]*\\?\r?\n[ \t>|]*(?P<line>[A-Za-z0-9_+/=.-]{12,400})[ \t]*(?=\r?\n|\Z)"
_MIN_WRAPPED_LENGTH = 36
_MAX_TERMINAL_WIDTH = 400


def _wrapped_end(text: str, start: int, end: int) -> int:
    """Return the end of a token that a terminal may have wrapped onto more lines.

    Such lines consist of token characters only, and none is longer than the one before.
    """
    column = start - text.rfind("\n", max(0, start - _MAX_TERMINAL_WIDTH), start) - 1
    length = end - start
    while length >= _MIN_WRAPPED_LENGTH and text[end : end + 1] in (" ", "\t", "\r", "\n", "\\"):
        continued = re.compile(_CONTINUED).match(text, end)
        if continued is None:
            break
        line = continued["line"]
        if len(line) > length + column or secret_values.is_wordy(line):
            break
        if not has_both_cases(line) or line.isalpha():
            break
        length = len(line)
        end = continued.end("line")
        column = 0
    return end
