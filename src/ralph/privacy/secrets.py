r"""Find the secrets in a text and replace them with markers.

`find_secrets` applies every kind of rule: vendor tokens, private keys, logins in URLs, phrases,
assignments, tables, base64, and values that only the words before them reveal. Each kind has its
own module and yields spans. For `deploy with ghp_9fK2...`, `vendor_tokens` yields the span of the
token with the kind `github token`, and the marker that replaces it is `[redacted: github token]`.

The text is searched several times: as it is, without the characters that may hide a secret (see
`word_splitters`), with string literals joined, and again with the secrets replaced that were
already found. All searches are bounded, so that hostile text cannot make them quadratic.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record, secret_prefilter, secret_rules
from ralph.privacy import passwords, secret_values
from ralph.privacy.assignments import assigned_secrets
from ralph.privacy.secret_context import context_secrets
from ralph.privacy.secret_phrases import phrase_secrets
from ralph.privacy.secret_values import Span, decode_text
from ralph.privacy.word_splitters import View, blank_splitters, lowercase, view_text, view_without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

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


def replace_secrets(text: str, findings: Iterable[FoundSecret]) -> str:
    """Return the text with a marker in place of each secret."""
    return replace_spans(text, [(found.start, found.end, found.kind) for found in findings])


def replace_spans(text: str, spans: Sequence[Span]) -> str:
    """Return the text with a marker in place of each span. The spans are sorted and disjoint."""
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
        spans = merge_spans([*spans, *_original_spans(spans, more)])
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


def merge_spans(spans: Sequence[Span]) -> list[Span]:
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

_ESCAPES = (
    r"(?:\^\[|\\e)?\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m"
    r"|\\{1,8}(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
)
"""A colour code copied as text (`[32m`) or an escaped character. A secret may follow directly."""
_ESCAPED_CHARACTER = r"\\(?:u[0-9a-fA-F]{4}|[bfnrt\"/])"
_ESCAPED_CHARACTER_LENGTH = len("\\u00e9")
_STRING_JOINT = (
    r"(?<=[A-Za-z0-9_+/=-])[\"'][ \t]{0,9}(?:[+.&\\][ \t]{0,9}(?:\r?\n[ \t]{0,40})?"
    r"|\r?\n[ \t]{0,40}(?:[+.&][ \t]{0,9})?)[\"'](?=[A-Za-z0-9_+/=-])"
    r"(?![^\"'\n]{0,60}[\"']\s{0,4}:)"
)
"""What stands between the parts of a string literal: `" + "` in `"abc" + "def"`."""
_CELL_JOINT = r"(?:\\\\|(?<=[=(:])[ ]?)\\n\",[ \t]*\r?\n[ \t]*\""
"""What stands between two lines of a notebook's cell if the statement goes on."""

_SEALED_MARK = "encryptedData"
_SEALED_VALUE = r"Ag[A-D][A-Za-z0-9+/]{100}"
_BLUETOOTH_WORD = r"(?i)(?<![a-z])(?:ble|bluetooth|gatt)(?![a-z])"
_BLUETOOTH_DISTANCE = 400
"""How many characters around a UUID are searched for a word about Bluetooth."""

# What to remove from a word diff, `[-old-]{+new+}`, to get its old or its new side.
_OLD_WORDS = r"\{\+(?>(?:[^+\n]|\+(?!\})){0,400})\+\}|\[-|-\]"
_NEW_WORDS = r"\[-(?>(?:[^-\n]|-(?!\])){0,400})-\]|\{\+|\+\}"


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
    spans += _literal_secrets(text)
    spans = _without_public_values(text, _outside_markers(text, spans))
    return _keep_escapes(text, merge_spans([*spans, *_custom_spans(text, patterns)]))


def _custom_spans(text: str, patterns: Sequence[str]) -> list[Span]:
    if not patterns:
        return []
    from ralph.privacy.custom_patterns import custom_spans  # few users have patterns of their own

    return custom_spans(text, patterns, _find_markers(text))


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
    if '\\n",' in text:
        joints.append(_CELL_JOINT)
    if "-]{+" in text:
        joints += [_OLD_WORDS, _NEW_WORDS]
    for joint in joints:
        view = view_without(text, joint)
        if view is not None:
            yield view


def _literal_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets in string literals with escapes, which stand for texts of their own."""
    if "\\" not in text:
        return
    from ralph.privacy.string_literals import find_literals  # few texts need it

    for literal in find_literals(text):
        if not secret_prefilter.needs_rules(literal.text):
            continue
        for start, end, kind in _scan(literal.text, ()):
            yield (*literal.locate(start, end), kind)


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


def _without_public_values(text: str, spans: list[Span]) -> list[Span]:
    """Return the spans that are neither sealed secrets nor the UUIDs of Bluetooth services."""
    secret = []
    for start, end, kind in spans:
        if _is_sealed(text, start) or _is_bluetooth_service(text, start, end):
            continue
        secret.append((start, end, kind))
    return secret


def _is_sealed(text: str, start: int) -> bool:
    """Return whether a value is encrypted for a cluster (a SealedSecret of Kubernetes)."""
    return _SEALED_MARK in text and re.compile(_SEALED_VALUE).match(text, start) is not None


def _is_bluetooth_service(text: str, start: int, end: int) -> bool:
    """Return whether a UUID is one of several near a word about Bluetooth."""
    if end - start != secret_values.UUID_LENGTH:
        return False
    if re.fullmatch(secret_values.UUID, text[start:end]) is None:
        return False
    near = text[max(0, start - _BLUETOOTH_DISTANCE) : end + _BLUETOOTH_DISTANCE]
    if re.search(_BLUETOOTH_WORD, near) is None:
        return False
    return len(re.findall(secret_values.UUID, near)) > 1


def _keep_escapes(text: str, spans: list[Span]) -> list[Span]:
    r"""Return the spans without the parts of escapes at their edges, so that JSON stays valid.

    In `A=1\nsk_live_...`, the `n` belongs to the escape and not to the token.
    """
    if "\\" not in text:
        return spans
    kept = []
    for start, end, kind in spans:
        start = _after_escape(text, start)
        end = _before_escape(text, start, end)
        if start < end:
            kept.append((start, end, kind))
    return kept


def _after_escape(text: str, start: int) -> int:
    """Return the end of the escape that `start` is in, or `start` if it is in none."""
    backslash = text.rfind("\\", max(0, start - _ESCAPED_CHARACTER_LENGTH), start)
    if backslash < 0:
        return start
    while text[backslash + 1 : backslash + 2] == "\\":
        backslash += 1
    escape = re.compile(_ESCAPED_CHARACTER).match(text, backslash)
    if escape is None:
        return max(start, backslash + 1)
    return max(start, escape.end())


def _before_escape(text: str, start: int, end: int) -> int:
    """Return where a span must end so that the escape at its end stays whole."""
    backslash = text.rfind("\\", max(start, end - _ESCAPED_CHARACTER_LENGTH), end)
    if backslash < 0:
        return end
    escape = re.compile(_ESCAPED_CHARACTER).match(text, backslash)
    if escape and escape.end() > end and backslash < end - 1:
        return escape.end()
    while end > start and text[end - 1] == "\\":
        end -= 1
    return end


def _find_markers(text: str) -> list[tuple[int, int]]:
    if _MARKER_START not in text:
        return []
    return [marker.span() for marker in re.finditer(MARKER, text)]


def _apply_rules(text: str, joints: Collection[int] = ()) -> list[Span]:
    """Return the spans that the rules find. At a joint, a token may begin whatever precedes it."""
    if not text.isascii():
        text = text.translate(secret_rules.BOX)
    lowered = lowercase(text)
    spans = _rare_secrets(text, joints)
    spans += phrase_secrets(text, lowered)
    spans += assigned_secrets(text, lowered)
    if secret_prefilter.has_label(lowered):
        from ralph.privacy.foreign_labels import labelled_secrets

        spans += labelled_secrets(text, lowered)
    spans += _table_secrets(text, lowered)
    spans += _encoded_secrets(text, lowered)
    spans += context_secrets(text, lowered)
    return spans


# Most texts need only a few kinds of rules. A hook starts a new process for every event, so the
# others are imported where a text may need them.


def _rare_secrets(text: str, joints: Collection[int]) -> list[Span]:
    """Return vendor tokens, private keys and logins in URLs."""
    spans: list[Span] = []
    if secret_prefilter.token_prefixes(text):
        from ralph.privacy.vendor_tokens import vendor_tokens

        spans += vendor_tokens(text, joints)
    if any(header in text for header in secret_rules.KEY_HEADERS):
        from ralph.privacy.private_keys import private_keys

        spans += private_keys(text)
    if "@" in text:
        from ralph.privacy.url_passwords import url_passwords

        spans += url_passwords(text)
    return spans


def _table_secrets(text: str, lowered: str) -> list[Span]:
    """Return secrets in drawn and separated tables, in members and in INSERT statements."""
    is_drawn = any(mark in text for mark in secret_rules.TABLE_MARKS)
    separated = list(secret_prefilter.separated_tables(text, lowered))
    has_members = any(True for _ in secret_prefilter.member_values(text, lowered))
    if not (is_drawn or separated or has_members or "insert into" in lowered):
        return []
    from ralph.privacy import secret_tables

    spans: list[Span] = []
    if is_drawn:
        spans += secret_tables.drawn_table_secrets(text)
    for start, separator in separated:
        spans += secret_tables.separated_table_secrets(text, start, separator)
    spans += secret_tables.member_secrets(text, lowered)
    spans += secret_tables.inserted_secrets(text, lowered)
    return spans


# --- base64 ---------------------------------------------------------------------------------------

_ENCODED = (
    r"(?P<line>[A-Za-z0-9+/]{24,}+={0,2})"
    r"(?>(?:\r?\n[ \t]{0,16}+[A-Za-z0-9+/]{8,76}+={0,2}(?=[ \t]*(?:[\r\n\"\\]|\Z))){0,400})"
)
_MAX_ENCODED_LENGTH = 20_000
_ENCODED_DATA = (
    r"(?m)^[ \t]{1,8}[\w.-]{1,64}:[ ][\"']?(?P<data>[A-Za-z0-9+/]{8,4000}={0,2})[\"']?[ \t\r]*$"
)


def _encoded_secrets(text: str, lowered: str) -> Iterator[Span]:
    if any(True for _ in secret_prefilter.encoded_texts(text)):
        for encoded in re.finditer(_ENCODED, text):
            yield from _encoded_text_secret(text, encoded)
    if "kind: secret" in lowered:  # Kubernetes
        for member in re.finditer(_ENCODED_DATA, text):
            decoded = decode_text(member["data"])
            is_strong = secret_values.grade(decoded) == secret_values.STRONG
            if is_strong or passwords.is_password(decoded, passwords.COPULA):
                yield member.start("data"), member.end("data"), "encoded secret"


def _encoded_text_secret(text: str, encoded: re.Match[str]) -> Iterator[Span]:
    start = encoded.start()
    if text[max(0, start - len("pk.")) : start] == "pk.":
        return  # a public Mapbox token
    for end in (encoded.end(), encoded.end("line")):  # the next lines may be something else
        base64 = "".join(text[start:end].split())
        decoded = decode_text(base64[:_MAX_ENCODED_LENGTH])
        if decoded and secret_prefilter.needs_rules(decoded) and _apply_rules(decoded):
            yield start, end, "encoded secret"
            return
