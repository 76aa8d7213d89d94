r"""Find secrets in text, using the rules in `secret_rules`.

Every rule has keywords, one of which each match must contain, so that a regex runs only where a
keyword is found. All searches are bounded, so that hostile text cannot make them quadratic. A token
counts only if no letter, digit, `-` or `_` precedes it.

A span is the start, end and kind of a secret. A marker, such as `[redacted: github token]`, is what
replaces a secret. A joint is a place where something that splits words was removed from the text
(see `invisible_characters`).
"""

from __future__ import annotations

import re
from functools import partial

from ralph.core.errors import ConfigError, DeadlineExceeded
from ralph.core.patterns import PrivacyPatterns
from ralph.lean import TYPE_CHECKING, record
from ralph.privacy import secret_prefilter as prefilter
from ralph.privacy import secret_rules as rules
from ralph.privacy import secret_values as values
from ralph.privacy.assignments import assigned_secrets
from ralph.privacy.invisible_characters import View, blank_splitters, lower, view_text
from ralph.privacy.secret_context import context_secrets
from ralph.privacy.secret_values import (
    SecretName,
    Span,
    decode_text,
    has_both_cases,
    has_digit,
    secret_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MARKER = r"\[redacted: [a-z0-9 ]{1,40}\]"
_MARKER_START = "[redacted: "
_MAX_ROUNDS = 16
"""How often one text is searched, each time with the secrets found so far replaced.

This is more than any text needs.
"""
_REST_LENGTH = 32
"""How many characters after a secret are searched for more text on its line."""


@record
class FoundSecret:
    """A secret's kind and position: it is `text[start:end]`, and `line` counts from 1."""

    kind: str
    start: int
    end: int
    line: int


def find_secrets(text: str, patterns: Sequence[str] = ()) -> tuple[FoundSecret, ...]:
    """Return every secret in a text, sorted by position and without overlaps.

    `patterns` are the user's own. Raises ConfigError if one is not a valid regular expression.
    """
    spans = _scan(text, patterns)
    if spans and (patterns or _has_text_after_secret(text, spans)):
        spans = _scan_again(text, spans, patterns)
    findings = []
    line = 1
    counted = 0
    for start, end, kind in spans:
        line += text.count("\n", counted, start)
        counted = start
        findings.append(FoundSecret(kind, start, end, line))
    return tuple(findings)


def replace_spans(text: str, spans: Sequence[Span]) -> str:
    """Return the text with a marker in place of each span."""
    pieces = []
    copied = 0
    for start, end, kind in spans:
        pieces.append(text[copied:start])
        pieces.append(_marker(kind))
        copied = end
    pieces.append(text[copied:])
    return "".join(pieces)


def _marker(kind: str) -> str:
    return f"[redacted: {kind}]"


def _has_text_after_secret(text: str, spans: Sequence[Span]) -> bool:
    for _, end, _ in spans:
        rest = text[end : end + _REST_LENGTH].lstrip(" \t\"'`*\\])")
        if rest[:1] not in ("", "\n", "\r"):
            return True
    return False


def _scan_again(text: str, spans: list[Span], patterns: Sequence[str]) -> list[Span]:
    """Search again with the secrets replaced, until nothing more is found.

    A token may begin where another one ended, a marker may be read as a name, and a user's pattern
    may match next to a secret.
    """
    for _ in range(_MAX_ROUNDS):
        more = _scan(replace_spans(text, spans), patterns)
        if not more:
            break
        spans = _merge([*spans, *_original_spans(spans, more)])
    return spans


def _original_spans(replaced: Sequence[Span], later: Sequence[Span]) -> Iterator[Span]:
    """Translate spans in a text with markers to spans in the text before the replacement."""
    growth = 0
    number = 0
    for start, end, kind in later:
        while number < len(replaced):
            replaced_start, replaced_end, replaced_kind = replaced[number]
            if replaced_start + growth > start:
                break
            growth += len(_marker(replaced_kind)) - (replaced_end - replaced_start)
            number += 1
        yield start - growth, end - growth, kind


def _merge(spans: Sequence[Span]) -> list[Span]:
    """Join overlapping spans. The kind of the span that comes first in `spans` wins."""
    by_start = sorted((start, rank, end) for rank, (start, end, _) in enumerate(spans))
    merged: list[tuple[int, int, int]] = []
    for start, rank, end in by_start:
        if merged:
            merged_start, merged_end, merged_rank = merged[-1]
            if start < merged_end:
                merged[-1] = (merged_start, max(merged_end, end), min(merged_rank, rank))
                continue
        merged.append((start, end, rank))
    joined = []
    for start, end, rank in merged:
        _, _, kind = spans[rank]
        joined.append((start, end, kind))
    return joined


# --- views of a text ------------------------------------------------------------------------------

_ESCAPES = r"(?:\^\[|\\e)?\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m|\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}"
"""A colour code copied as text (`[32m`) or an escaped character. A secret may follow directly."""
_STRING_JOINT = (
    r"(?<=[A-Za-z0-9_+/=-])[\"'][ \t]{0,9}(?:[+.&\\][ \t]{0,9}(?:\r?\n[ \t]{0,40})?"
    r"|\r?\n[ \t]{0,40}(?:[+.&][ \t]{0,9})?)[\"'](?=[A-Za-z0-9_+/=-])"
    r"(?![^\"'\n]{0,60}[\"']\s{0,4}:)"
)
"""What stands between the parts of a string literal: `" + "` in `"abc" + "def"`."""

# What to remove from a word diff, `[-old-]{+new+}`, to get its old or its new side.
_OLD_WORDS = r"\{\+(?:[^+\n]|\+(?!\})){0,400}+\+\}|\[-|-\]"
_NEW_WORDS = r"\[-(?:[^-\n]|-(?!\])){0,400}+-\]|\{\+|\+\}"


def _scan(text: str, patterns: Sequence[str]) -> list[Span]:
    """Search a text, both as it is and without what may hide a secret."""
    spans = _apply_rules(text)
    blanked = _blank_escapes(text)
    view = view_text(text)
    if view is not None:
        blanked = blank_splitters(blanked)
        hidden = _apply_rules(view.text, frozenset(view.joints))
        hidden += _custom_spans(view.text, patterns)
        spans += _locate_spans(view, hidden)
    if blanked != text:
        spans += _apply_rules(blanked)
    for joined in _joined_views(text):
        spans += _locate_spans(joined, _apply_rules(joined.text))
    spans = _outside_markers(text, spans)
    return _merge([*spans, *_custom_spans(text, patterns)])


def _blank_escapes(text: str) -> str:
    if "[" not in text and "\\" not in text:
        return text
    return re.sub(_ESCAPES, lambda escape: " " * len(escape[0]), text)


def _locate_spans(view: View, spans: Sequence[Span]) -> list[Span]:
    return [(*view.locate(start, end), kind) for start, end, kind in spans]


def _joined_views(text: str) -> Iterator[View]:
    """Yield views of the text with string literals joined, and of each side of a word diff."""
    joints = []
    if '"' in text or "'" in text:
        joints.append(_STRING_JOINT)
    if "-]{+" in text:
        joints += [_OLD_WORDS, _NEW_WORDS]
    for joint in joints:
        view = view_text(text, joint)
        if view is not None:
            yield view


def _outside_markers(text: str, spans: list[Span]) -> list[Span]:
    """Return the spans that do not overlap a marker."""
    markers = _find_markers(text)
    if not markers:
        return spans
    from bisect import bisect_left  # few texts have markers

    outside = []
    for start, end, kind in spans:
        # Only the last marker that begins before the end of a span can overlap it.
        number = bisect_left(markers, (end, 0)) - 1
        if number >= 0:
            _, marker_end = markers[number]
            if start < marker_end:
                continue
        outside.append((start, end, kind))
    return outside


def _find_markers(text: str) -> list[tuple[int, int]]:
    if _MARKER_START not in text:
        return []
    return [marker.span() for marker in re.finditer(MARKER, text)]


def _apply_rules(text: str, joints: Collection[int] = ()) -> list[Span]:
    """Return the spans that the rules find. At a joint, a token may begin whatever precedes it."""
    if not text.isascii():
        text = text.translate(rules.BOX)
    lowered = lower(text)
    spans = list(_vendor_tokens(text, joints))
    if any(header in text for header in rules.KEY_HEADERS):
        spans += _private_keys(text)
    spans += _url_passwords(text)
    spans += _phrases(text, lowered)
    spans += assigned_secrets(text, lowered)
    if any(mark in text for mark in rules.TABLE_MARKS):
        spans += _table_secrets(text)
    for start, separator in prefilter.separated_tables(text, lowered):
        spans += _separated_secrets(text, start, separator)
    spans += _member_secrets(text, lowered)
    spans += _inserted_secrets(text, lowered)
    spans += _encoded_secrets(text, lowered)
    spans += context_secrets(text, lowered)
    return spans


# --- the user's patterns --------------------------------------------------------------------------


def _custom_spans(text: str, patterns: Sequence[str]) -> list[Span]:
    """Return the spans that the user's patterns match.

    Only the text between markers is searched, so that nothing is redacted twice. A pattern that
    exceeds its time limit is skipped. Hooks have no such limit, but a deadline of their own.
    """
    if not patterns:
        return []
    parts = _parts_between_markers(text)
    limit = patterns.limit if isinstance(patterns, PrivacyPatterns) else None
    spans: list[Span] = []
    for pattern in patterns:
        search = partial(_pattern_spans, _compile_pattern(pattern), text, parts)
        if limit is None:
            spans += search()
            continue
        matches = limit.run(pattern, search)
        if matches is not None:
            spans += matches
    return spans


def _parts_between_markers(text: str) -> list[tuple[int, int]]:
    parts = []
    part_start = 0
    for marker_start, marker_end in _find_markers(text):
        parts.append((part_start, marker_start))
        part_start = marker_end
    parts.append((part_start, len(text)))
    return parts


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"privacy.patterns: {pattern!r} is not a regular expression: {error}",
            hint="use the syntax of Python's re module; in YAML, quote it with single quotes",
        ) from error


def _pattern_spans(
    pattern: re.Pattern[str], text: str, parts: Sequence[tuple[int, int]]
) -> list[Span]:
    spans = []
    try:
        for start, end in parts:
            for match in pattern.finditer(text, start, end):
                if match[0]:
                    spans.append((match.start(), match.end(), "custom"))
    except DeadlineExceeded as error:
        error.pattern = pattern.pattern
        raise
    return spans


# --- vendor tokens --------------------------------------------------------------------------------

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


def _vendor_tokens(text: str, joints: Collection[int]) -> Iterator[Span]:
    """Yield tokens with a vendor's prefix. At a joint, a token may begin whatever precedes it."""
    present = prefilter.token_prefixes(text)
    if not present:
        return
    for kind, prefixes, body, lead in rules.token_rules():
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
    for position in prefilter.positions(text, prefix):
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
        if token.start() in joints and values.is_token_body(token[0][len(prefix) :]):
            yield token.start(), token.end(), kind


def _is_body(prefix: str, body: str) -> bool:
    """Return whether the text after a prefix can be that of a token.

    If ordinary names begin with the prefix too, the text must look random.
    """
    is_long = len(prefix) >= _MIN_KNOWN_PREFIX_LENGTH
    is_known = is_long and prefix not in rules.AMBIGUOUS_PREFIXES
    if is_known or prefix in _KNOWN_SHORT_PREFIXES:
        return values.is_token_body(body)
    return values.is_random(body)


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
        if len(line) > length + column or values.is_wordy(line):
            break
        if not has_both_cases(line) or line.isalpha():
            break
        length = len(line)
        end = continued.end("line")
        column = 0
    return end


# --- base64 ---------------------------------------------------------------------------------------

_ENCODED = (
    r"(?P<line>[A-Za-z0-9+/]{24,}+={0,2})"
    r"(?:\r?\n[ \t]{0,16}+[A-Za-z0-9+/]{8,76}+={0,2}(?=[ \t]*(?:[\r\n\"\\]|\Z))){0,400}+"
)
_MAX_ENCODED_LENGTH = 20_000
_ENCODED_DATA = (
    r"(?m)^[ \t]{1,8}[\w.-]{1,64}:[ ][\"']?(?P<data>[A-Za-z0-9+/]{8,4000}={0,2})[\"']?[ \t\r]*$"
)


def _encoded_secrets(text: str, lowered: str) -> Iterator[Span]:
    if any(True for _ in prefilter.encoded_texts(text)):
        for encoded in re.finditer(_ENCODED, text):
            yield from _encoded_text_secret(text, encoded)
    if "kind: secret" in lowered:  # Kubernetes
        for member in re.finditer(_ENCODED_DATA, text):
            decoded = decode_text(member["data"])
            is_strong = values.grade(decoded) == values.STRONG
            if is_strong or values.is_password(decoded, values.COPULA):
                yield member.start("data"), member.end("data"), "encoded secret"


def _encoded_text_secret(text: str, encoded: re.Match[str]) -> Iterator[Span]:
    start = encoded.start()
    if text[max(0, start - len("pk.")) : start] == "pk.":
        return  # a public Mapbox token
    for end in (encoded.end(), encoded.end("line")):  # the next lines may be something else
        base64 = "".join(text[start:end].split())
        decoded = decode_text(base64[:_MAX_ENCODED_LENGTH])
        if decoded and prefilter.needs_rules(decoded) and _apply_rules(decoded):
            yield start, end, "encoded secret"
            return


# --- private keys ---------------------------------------------------------------------------------

_GAP = r"""(?:\s|\\{1,4}[nrt]|["',;>|\#]|[+*][ ])"""
_BEGIN = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END = r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_BODY = rf"""(?x){_GAP}*+(?:[A-Z][A-Za-z-]{{2,30}}:[ ][^\n\\]{{0,200}}{_GAP}++){{0,6}}
    (?P<body>[A-Za-z0-9+/]{{16,}}+={{0,3}}(?:{_GAP}++[A-Za-z0-9+/]{{16,}}+={{0,3}})*+)
    (?:(?:\s|\\{{1,4}}[nrt])++(?:[A-Za-z0-9+/]{{1,15}}+={{0,3}}(?=\s*\Z)
                         |[A-Za-z+/]{{0,14}}[0-9+/][A-Za-z0-9+/]{{0,15}}={{0,3}}(?=["'\s])))?"""
"""The body of a key without an END line: headers, lines of base64, and a last line cut off."""
_PUTTY = r"Private-Lines: \d+\s+(?P<body>[A-Za-z0-9+/]{32,}={0,2}(?:\s[A-Za-z0-9+/=]{16,})*)"
_LONG_LINE = r"[A-Za-z0-9+/]{24,}"
_KEY_PARTS = rf"(?xs)(?P<gap>{_GAP}++)|(?P<line>[A-Za-z0-9+/=]++)|."
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


def _private_keys(text: str) -> Iterator[Span]:
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
        if values.is_random(body[start : start + _KEY_LINE_LENGTH]):
            return True
    return False


# --- URLs -----------------------------------------------------------------------------------------

_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>[^\s/\"'`<>?#\\]{1,256})@(?=[\w\[$({%.-])"
)
_RAW_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):"
    r"(?P<password>(?!\d{2,5}(?:/|\Z))[^\s\"'`<>@\\]{1,128})@(?=[\w.-]+[:/])"
)
"""A login in a database URL, in which more characters are allowed than in other URLs."""
_USER_LOGIN = r"://(?P<user>[A-Za-z0-9_-]{20,255})@(?![\w.-]{0,60}sentry)(?=[\w.-]+[:/])"
_MAIL_LOGIN = (
    r"@[\w-]{1,40}(?:\.[\w-]{2,20}){1,3}:(?P<password>[^\s/:,;\"'`<>]{6,64})(?=[\s,;\"'`<>)]|\Z)"
)
_MAX_SCHEME_LENGTH = 12


def _url_passwords(text: str) -> Iterator[Span]:
    if "@" not in text:
        return
    position = text.find("://")
    while position >= 0:
        scheme = text[max(0, position - _MAX_SCHEME_LENGTH) : position].lower()
        is_database = scheme.endswith(rules.DATABASES)
        login = re.compile(_LOGIN).match(text, position)
        if login is None and is_database:
            login = re.compile(_RAW_LOGIN).match(text, position)
        if login:
            yield from _login_password(login, is_database=is_database)
            position = text.find("://", login.end())
        else:
            user = re.compile(_USER_LOGIN).match(text, position)
            if user and values.meets("strong", user["user"]):
                yield user.start("user"), user.end("user"), "url password"
            position = text.find("://", position + len("://"))
    for login in re.finditer(_MAIL_LOGIN, text):
        if values.is_password(login["password"], values.LITERAL):
            yield login.start("password"), login.end("password"), "password"


def _login_password(login: re.Match[str], *, is_database: bool) -> Iterator[Span]:
    if login["password"].startswith("x-oauth"):
        yield login.start("user"), login.end("user"), "url password"
    elif values.is_login_password(login["user"], login["password"]):
        kind = "connection string" if is_database else "url password"
        yield login.start("password"), login.end("password"), kind


# --- headers, command lines and sentences ---------------------------------------------------------

_BEFORE_KEYWORD = ("piped", "before")
"""Conditions of rules in which the password precedes the keyword on its line."""
_MAX_DISTANCE_BEFORE = 500  # characters
_MAX_DISTANCE_AFTER = 700  # characters


def _phrases(text: str, lowered: str) -> Iterator[Span]:
    present = prefilter.phrase_keywords(lowered)
    if not present:
        return
    for kind, condition, keywords, follows, regex in rules.phrase_rules():
        for keyword in keywords:
            if keyword not in present:
                continue
            if condition in _BEFORE_KEYWORD:
                matches = _matches_before_keyword(text, lowered, keyword, regex)
            else:
                matches = _matches_at_keyword(text, lowered, keyword, regex, follows)
            for match in matches:
                group = "s" if match["s"] else "t"
                if values.meets(condition, match[group]):
                    yield match.start(group), match.end(group), kind


def _matches_before_keyword(
    text: str, lowered: str, keyword: str, regex: str
) -> Iterator[re.Match[str]]:
    pattern = re.compile(rules.phrase_regex(regex))
    floor = 0
    position = lowered.find(keyword)
    while position >= 0:
        start = max(floor, position - _MAX_DISTANCE_BEFORE)
        line_start = max(start, lowered.rfind("\n", start, position) + 1)
        floor = position + len(keyword)
        yield from pattern.finditer(text, line_start, floor)
        position = lowered.find(keyword, floor)


def _matches_at_keyword(
    text: str, lowered: str, keyword: str, regex: str, follows: str
) -> Iterator[re.Match[str]]:
    full_regex = rules.phrase_regex(regex)
    position = lowered.find(keyword)
    while position >= 0:
        next_position = position + 1
        keyword_end = position + len(keyword)
        rest = text[keyword_end : keyword_end + _MAX_DISTANCE_AFTER]
        if not follows or prefilter.follows(rest, follows):
            match = re.compile(full_regex).match(text, position)  # compiled only when needed
            if match:
                next_position = max(next_position, match.end())
                yield match
        position = lowered.find(keyword, next_position)


# --- drawn tables ---------------------------------------------------------------------------------

_RULE = r"[|+]?[ ]?:?-{3,}:?[ ]?(?:[|+][ ]?:?-{3,}:?[ ]?)*[|+]?"
_ROW_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_CELL_PADDING = " \t\r*`\"'"
_USER_TITLES = ("user", "username", "login", "account")
_MAX_COUNTED_ROWS = 1_000
_MAX_TITLE_LENGTH = 40
_MAX_TITLE_BLANKS = 2
_MIN_CELL_LENGTH = 4
_MAX_CELL_LENGTH = 300


@record
class _Table:
    """The columns of a table that may contain secrets, and the table's form.

    `is_drawn` says that a program printed the table. `is_long` says that each row is a name and its
    value, as in the expanded output of `psql`.
    """

    columns: Mapping[int, SecretName]
    width: int
    is_drawn: bool
    is_long: bool = False


def _table_secrets(text: str) -> Iterator[Span]:
    r"""Yield secrets in drawn tables.

    They are below a title that names a secret, or next to such a name in `psql`'s expanded output.
    """
    if "\\n" in text:
        text = text.replace("\\n", " \n")
    lines = text.split("\n")
    table = _Table({}, 0, is_drawn=False)
    previous_width = 0
    start = 0
    for number, line in enumerate(lines):
        cells = line.split("|")
        width = len(cells)
        if "--" in line and re.fullmatch(_RULE, line.strip()):
            table = _table_below_rule(lines, number)
        elif line.lstrip().startswith("-[ RECORD"):
            table = _Table({}, 2, is_drawn=True, is_long=True)
        elif width not in (table.width, previous_width):
            table = _table_without_rule(lines, number)
        elif width == table.width:
            yield from _row_secrets(cells, start, table)
        previous_width = width
        start += len(line) + len("\n")


def _table_below_rule(lines: Sequence[str], number: int) -> _Table:
    titles: list[str] = []
    if number > 0:
        titles = lines[number - 1].split("|")
    columns: Mapping[int, SecretName] = {}
    if len(titles) > 1 or _is_counted(lines, number + 1, 1):
        columns = _secret_columns(titles)
    names_user = any(title.strip(_CELL_PADDING).lower() in _USER_TITLES for title in titles)
    return _Table(columns, len(titles), is_drawn=names_user or "+" in lines[number])


def _table_without_rule(lines: Sequence[str], number: int) -> _Table:
    titles = lines[number].split("|")
    width = len(titles)
    columns: Mapping[int, SecretName] = {}
    if width > 1 and _is_counted(lines, number + 1, width):
        columns = _secret_columns(titles)
    return _Table(columns, width, is_drawn=True)


def _is_counted(lines: Sequence[str], first: int, width: int) -> bool:
    """Return whether the table ends with a line such as `(2 rows)`."""
    for line in lines[first : first + _MAX_COUNTED_ROWS]:
        if line.startswith("(") and re.fullmatch(_ROW_COUNT, line.strip()):
            return True
        if line.count("|") != width - 1 or not line.strip() or "--" in line:
            return False
    return False


def _row_secrets(cells: Sequence[str], start: int, table: _Table) -> Iterator[Span]:
    columns = table.columns
    if table.is_long:
        columns = _secret_columns(["", cells[0]])
    for number, cell in enumerate(cells):
        if number in columns:
            yield from _cell_secret(cell, start, columns[number], is_drawn=table.is_drawn)
        start += len(cell) + len("|")


def _secret_columns(titles: Sequence[str]) -> dict[int, SecretName]:
    """Return the columns whose title names a secret, by number."""
    columns = {}
    for number, cell in enumerate(titles):
        title = cell.strip(_CELL_PADDING)
        name = None
        if title.lower() == "key":
            name = values.API_KEY
        elif 0 < len(title) <= _MAX_TITLE_LENGTH and title.count(" ") <= _MAX_TITLE_BLANKS:
            name = secret_name(title)
        if name is not None:
            columns[number] = name
    return columns


def _cell_secret(cell: str, start: int, name: SecretName, *, is_drawn: bool) -> Iterator[Span]:
    value = cell.strip(_CELL_PADDING)
    if not _MIN_CELL_LENGTH <= len(value) <= _MAX_CELL_LENGTH or "[redacted" in value:
        return
    if _is_cell_secret(value, name, is_drawn=is_drawn):
        value_start = start + cell.index(value)
        yield value_start, value_start + len(value), name.kind


def _is_cell_secret(value: str, name: SecretName, *, is_drawn: bool) -> bool:
    if name.kind == "password":
        place = values.SURE if is_drawn else values.LITERAL
        return values.is_password(value, place)
    if _may_be_chosen(value, name) and values.is_password(value, values.LITERAL):
        return True
    if is_drawn or values.is_long_run(value):
        return values.grade(value) >= name.weakest_grade
    return values.grade(value) == values.STRONG


def _may_be_chosen(value: str, name: SecretName) -> bool:
    """Return whether a person may have made up a secret or token as one would a password."""
    if name.kind not in ("secret", "token") or not has_both_cases(value):
        return False
    min_digits = 2 if name.kind == "token" else 1
    return sum(map(str.isdigit, value)) >= min_digits


# --- tables with separators -----------------------------------------------------------------------

_MAX_TABLE_LENGTH = 64_000
_TITLE = r"\S+(?: \S+)*"


def _separated_secrets(text: str, start: int, separator: str) -> Iterator[Span]:
    """Yield secrets in a table separated by commas, tabs or semicolons, or aligned with blanks."""
    lines = re.compile(r"[^\n]*\n?").finditer(text, start, start + _MAX_TABLE_LENGTH)
    head = next(lines)[0].rstrip("\r\n")
    column_starts: list[int] = []
    if separator == " ":
        column_starts = [title.start() for title in re.finditer(_TITLE, head)]
    titles = _split_row(head, separator, column_starts)
    columns = _secret_columns(titles)
    if not columns:
        return
    for line in lines:
        row = line[0].rstrip("\r\n")
        cells = _split_row(row, separator, column_starts)
        if len(cells) != len(titles):
            break
        if column_starts and row.isupper() and _secret_columns(cells):
            break  # the head of another table
        cell_start = line.start()
        for number, cell in enumerate(cells):
            if number in columns:
                name = columns[number]
                is_drawn = name.kind == "password"
                yield from _cell_secret(cell, cell_start, name, is_drawn=is_drawn)
            cell_start += len(cell)
            if separator != " ":
                cell_start += len(separator)


def _split_row(row: str, separator: str, column_starts: Sequence[int]) -> list[str]:
    if separator == " ":
        return _split_aligned_row(row, column_starts)
    cells: list[str] = []
    for piece in row.split(separator):
        is_quote_open = bool(cells) and cells[-1].startswith('"') and cells[-1].count('"') % 2 == 1
        if is_quote_open:
            cells[-1] += separator + piece
        else:
            cells.append(piece)
    return cells


def _split_aligned_row(row: str, column_starts: Sequence[int]) -> list[str]:
    column_ends = [*column_starts[1:], len(row)]
    cells = []
    for start, end in zip(column_starts, column_ends, strict=True):
        if row[start - 1 : start] in ("", " "):
            cells.append(row[start:end])
    return cells


# --- SQL and members of objects -------------------------------------------------------------------

_INSERT = r"(?i)insert into\s+[^\s(]{1,80}\s{0,9}\((?P<names>[^()]{1,400})\)\s{0,9}values\s{0,9}\("
_SQL_VALUE = (
    r"\s{0,40}(?:[nN]?'(?P<text>(?:[^'\n]|''){0,300}+)'|[^,()']{0,200}+(?:\([^()]{0,80}\))?)\s{0,9}"
    r"(?P<end>\)\s{0,9},\s{0,40}\(|[,)])"
)


def _inserted_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield secrets in INSERT statements, in columns whose name names a secret."""
    if "insert into" not in lowered:
        return
    for statement in re.finditer(_INSERT, text):
        columns = _secret_columns(statement["names"].split(","))
        if not columns:
            continue
        number = 0
        value = re.compile(_SQL_VALUE).match(text, statement.end())
        while value:
            if value["text"] and number in columns:
                start = value.start("text")
                yield from _cell_secret(value["text"], start, columns[number], is_drawn=True)
            if value["end"] == ")":
                break
            if value["end"] == ",":
                number += 1
            else:
                number = 0  # the next row
            value = re.compile(_SQL_VALUE).match(text, value.end())


_MEMBER = (
    r"(?i)(?:value|default)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}\\?"
    r"(?:[\"'](?P<quoted>[^\"'\\\n]{4,400})|(?P<plain>[^\s\"',{}\[\]\\]{4,400}))"
)
_MEMBER_NAME = (
    r"(?i)\b(?:name|key|id|variable|title|label|field)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}"
    r"(?P<name>[\w./-]{2,64})"
    r"|[\"'](?P<parent>[\w.-]{2,64})[\"'\\]{1,3}\s{0,4}:?\s{0,4}\{|(?P<listed>keyname)"
)
_LISTED_KEY = SecretName("secret key", values.STRONG)
_MEMBER_LENGTH_BEFORE = 240
"""How many characters before a value are searched for its name."""
_MEMBER_LENGTH_AFTER = 160
"""How many characters after a value are searched for its name."""


def _member_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values of `value` members next to a `name` member that names a secret."""
    floor = 0
    for position in prefilter.member_values(text, lowered):
        member = re.compile(_MEMBER).match(text, position)
        if member is None:
            continue
        before = text[max(floor, member.start() - _MEMBER_LENGTH_BEFORE) : member.start()]
        after = text[member.end() : member.end() + _MEMBER_LENGTH_AFTER]
        floor = member.end()
        name = _member_name(before.rpartition("}")[2], after.partition("}")[0].partition("- ")[0])
        if name is not None:
            group = "quoted" if member["quoted"] else "plain"
            yield from _cell_secret(member[group], member.start(group), name, is_drawn=True)


def _member_name(before: str, after: str) -> SecretName | None:
    """Return what the name nearest to a value stands for, or None.

    The name usually precedes the value.
    """
    names_before = list(re.finditer(_MEMBER_NAME, before))
    if names_before:
        match: re.Match[str] | None = names_before[-1]
    else:
        match = re.search(_MEMBER_NAME, after)
    if match is None:
        return None
    if match["listed"]:
        return _LISTED_KEY
    name = match["name"] or match["parent"]
    return secret_name(name.rpartition("/")[2])
