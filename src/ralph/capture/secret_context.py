"""Find secrets by the words before them, whatever the syntax.

A run of characters that a program made is a secret when the nearest telling word before it is one of a secret (`key`)
and not of something public (`commit`): on its line, on the line above, or at the head of its column. A word with a
symbol inside, as people choose passwords, is one behind a word of a login.
"""

from __future__ import annotations

import re

from ralph.capture import secret_prefilter as prefilter
from ralph.capture import secret_rules as rules
from ralph.capture import secret_values as values
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PUBLIC = frozenset(rules.PUBLIC_WORDS.split())
_NEAR = frozenset(rules.NEAR_WORDS.split())
_VENDORS = frozenset(rules.VENDORS.split())
_LOGIN = frozenset(rules.LOGIN_WORDS.split())
_LINKING = frozenset(
    {
        "is",
        "was",
        "are",
        "be",
        "to",
        "as",
        "the",
        "a",
        "use",
        "one",
    }
)
_WEAK = frozenset(
    {
        "api",
        "auth",
        "webhook",
        "license",
        "licence",
        "pass",
    }
)
_NAME = r"[^\W_](?:[\w.-]*\w)?"
_OTP = r"(?i)\b(?:2fa|mfa|t?otp|authenticator)"
_LINK = r"(?:[:=>→(\[,|]|(?<!\w)(?:is|was|be|to|as|es|est|ist|lautet|é|è))[\s\"'`*«“]*\Z"
_NO_LABEL = r"[\s>*•|`\"'+#/-]*(?:\d+[.)]\s*)?"
_LINE_END = r"[\"'`,;.)=\s*]*(?:\n|\Z)"
_TOLD_FOR = (
    r"(?i)\b(?:password|passwort|passphrase|secret|token|api[ _-]?key|(?:access|signing|master|deploy|license) key)s?"
    r" (?:for|of|to|on|von|für) [\w'@. -]+(?:\([^()]{0,80}\))?[*`\"]{0,3}(?: is)?[:=]?[\s*`\"']*\Z"
)
_BUILT = r"(?i)\b(?:commit|build|image|revision|trace|request|id|csrf|next|page|public|cache)\b"
_DIGEST_AFTER = (
    r"(?i)[\"'`)\s]{0,3}\(?(?:md5|sha|hash|digest|commit|fingerprint)|\.{2,3}[0-9a-f]{7}"
)
_HEX = r"[0-9a-f]+|[0-9A-F]+"
_STRIPE_ID = (
    r"(?:evt|sub|pi|cus|ch|in|pm|acct|txn|price|seti|req)_[A-Za-z0-9]{14,}|prod_[A-Za-z0-9]{14}"
)
_CLASS_NAME = (
    r"(?:Key|Token|Secret|Hash|Error|Exception|Factory|Service|Handler|Provider|Config|Type)s?\Z"
)
_PATH = r"(?:[a-z0-9_-]{0,24}/)+(?=[A-Za-z0-9_-]{16})"
_CHOSEN = (
    r"(?=.*[a-z].*[a-z])(?=.*[A-Z0-9])(?![\w.]+#\d+\Z|.*@\w+\.|.*://)"
    r"[A-Za-z0-9][A-Za-z0-9!#&*^@$%?+_.~-]{6,39}[A-Za-z0-9!?$*]"
)
_FARTHEST = 8  # words between the telling word and the run


def context_secrets(text: str, lowered: str) -> Iterator[values.Span]:
    """Yield the runs and words that only what is before them makes a secret."""
    last = 0
    for start, end in sorted(prefilter.minted_runs(text, lowered)):
        if start < last:
            continue
        path = re.compile(_PATH).match(text, start, end)
        start = path.end() if path else start
        run = text[start:end]
        if (
            _is_minted(run)
            and not re.compile(_DIGEST_AFTER).match(text, end)
            and _has_telling_word(text, start, run)
        ):
            rest = re.compile(r"={0,2}(?:[.~][A-Za-z0-9_-]{6,})*").match(text, end)
            last = rest.end() if rest else end
            yield start, last, "secret key"
    for start, end in prefilter.chosen_words(text, lowered):
        line = lowered[max(0, start - 100) : start].rpartition("\n")[2]
        value = text[start:end].rstrip(".,;:") if "://" not in line else ""
        near = line[-1:] in (*" :`(", '"', "'") and not _LOGIN.isdisjoint(
            re.compile(r"[^\W_]+").findall(line)[-8:]
        )
        place = values.PROSE if line.endswith(" / ") else values.COPULA
        near = near or bool(re.compile(r"@[\w-]+\.\w+[`\"']? / \Z").search(line))
        if near and re.compile(_CHOSEN).fullmatch(value) and values.is_password(value, place):
            yield start, start + len(value), "password"


def _is_minted(run: str) -> bool:
    pieces = re.split(r"[-_/+]", run)
    longest = max(pieces, key=len)
    if len(run) < 32 and re.compile(_HEX).fullmatch(run):
        return False
    if run.isupper() and not re.compile(r"[0-9A-F]{32,}").fullmatch(run):
        return bool(
            re.compile(r"[A-Z2-7]{16,64}|[A-Z0-9]{20,64}").fullmatch(run)
        ) and values.is_random(run)
    if len(longest) < 20 and any(
        re.compile(r"[A-Z]?[a-z]{3,}").fullmatch(piece) for piece in pieces
    ):
        return False  # a name: `auth-service-7d9f8b6c5d`
    if re.compile(_CLASS_NAME).search(run) or (run.startswith("eyJ") and values.decode_text(run)):
        return False  # a name, the header of a JWT
    if re.compile(_STRIPE_ID).fullmatch(run):
        return False
    least = values.FAIR if run.count("-") == 4 else values.STRONG
    return values.is_random(run if len(longest) < 20 else longest) and values.grade(run) >= least


def _has_telling_word(text: str, start: int, run: str) -> bool:
    floor = max(0, start - prefilter.BEFORE_RUN)
    line = text.rfind("\n", floor, start) + 1 or floor
    before = text[line:start]
    if before[-1:] == "/" and "://" in before:
        url = before.rpartition("://")[2]
        return "hook" in url and _PUBLIC.isdisjoint(re.split(r"\W", url))
    if (
        before[-1:] in (*"/.[@#$",)
        or before.endswith(";base64,")
        or "ENC[" in before
        or "encryptedData:" in text[floor:start]
        or "ache" in before
    ):
        return False  # a part of a path, an element, encrypted, the key of a cache
    if re.compile(_NO_LABEL).fullmatch(before):
        lines = [
            each for each in text[floor:line].split("\n") if re.compile(r"\w.*\w").search(each)
        ]
        is_alone = lines and re.compile(_LINE_END).match(text, start + len(run))
        return bool(
            is_alone and len(lines[-1]) <= 200 and _says_secret(lines[-1], run, linked=True)
        )
    if _says_secret(before, run, linked=bool(re.compile(_LINK).search(before))):
        return True
    column = start - line
    for each in (
        reversed(text[max(0, line - prefilter.TABLE) : line].split("\n"))
        if before[-2:] == "  "
        else ()
    ):
        title = re.compile(r"\S+(?: \S+)*").match(each, column)
        if title and each[column - 1 : column] in ("", " ") and values.secret_name(title[0]):
            return True
    return False


def _says_secret(before: str, run: str, *, linked: bool) -> bool:
    """Check what the nearest telling word says; one that could be a commit or a digest needs a link to it."""
    sentence = re.split(r"[.;!?]\s|\s[|&]{1,2}\s|\[redacted: [a-z0-9 ]+\]", before)[-1]
    if run.isupper() and re.compile(_OTP).search(sentence):
        return True
    if re.compile(r"(?i)\b(?:hash|digest|checksum)\b").search(sentence):
        return False
    if (
        linked
        and re.compile(_TOLD_FOR).search(sentence)
        and not re.compile(_BUILT).search(sentence)
    ):
        return True
    is_hex = bool(re.compile(_HEX).fullmatch(run))
    is_uuid = run.count("-") == 4 and len(run) == 36
    is_digest = is_hex and len(run) in (40, 64) and run.islower()
    names = list(re.compile(_NAME).finditer(sentence))
    distance = -1
    crossed = False
    vendor = not _VENDORS.isdisjoint(sentence.lower().split())
    if vendor and linked and " account" in sentence and not is_uuid:
        return True  # `OpenWeatherMap account of the team: ...`
    for number, name in reversed(list(enumerate(names))):
        words = values.name_words(name[0]) if name[0].isascii() else [name[0].lower()]
        in_path = "/" in (
            sentence[name.end() : name.end() + 1],
            sentence[max(0, name.start() - 1) : name.start()],
        )
        if in_path or not words or words[-1] in values.NEUTRAL or words[-1] in _LINKING:
            continue
        distance += 1
        if distance > (0 if is_uuid and not vendor else _FARTHEST) or words[-1] in _PUBLIC:
            return False
        if len(name[0]) >= 16 and values.grade(name[0]) == values.STRONG:
            if distance > 1 or crossed:
                return False
            # another secret: `api ... / app ...`
            distance = -1
            crossed = True
        if words[-1] in _VENDORS:
            return distance < 2 or linked
        if _names_secret(words[-1]):
            first = words[-2:-1] or (values.name_words(names[number - 1][0]) if number else [])
            if not _is_secret_kind(first[-1] if first else "", words[-1], run, is_hex=is_hex):
                return False
            if (
                words[-1] in _WEAK
                and is_digest
                and not _PUBLIC.isdisjoint(sentence.lower().split())
            ):
                return False
            linked = (
                linked
                or (is_uuid and bool(first))
                or bool(re.compile(r" (?:for|of) \w.* ").match(sentence, name.end()))
            )
            return linked or (not is_uuid and (distance == 0 or not is_digest))
    return False


def _names_secret(word: str) -> bool:
    if word in _NEAR or word.endswith(("token", "key", "secret", "passwort")):
        return True
    return not word.isascii() and any(map(word.__contains__, rules.LABELS))


def _is_secret_kind(before: str, word: str, run: str, *, is_hex: bool) -> bool:
    """`cache key` is none, and a key of no kind may be any name that is a hexadecimal number."""
    if values.is_public_name(before, word) or word.startswith("pub"):
        return before == "primary" and values.has_both_cases(run)
    is_id = (
        is_hex and run.isupper() and before in ("dsa", "ecdsa", "eddsa", "rsa")
    )  # as gpg prints it
    return (bool(before) and not is_id) or word != "key" or not is_hex
