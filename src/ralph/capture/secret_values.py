"""Judge values and names: whether a value is a password, a reference, a placeholder, or made by a program.

Behind a name that says password, everything counts that is no reference, placeholder, type, state or prose
(`is_password`); behind other names only what a program made (`grade`), for `token: str` is common. Every step is
bounded, and regexes are compiled where they are needed: hooks load this module.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ralph.capture import secret_rules as rules

Span = tuple[int, int, str]  # start, end and kind of a secret
NONE, FAIR, STRONG = range(3)  # how much a value looks as if a program made it
PROSE, COPULA, LITERAL, SURE = range(4)
"""How sure a place is to contain a password: `password x`, `the password is x`, `login(user, "x")`, `PASSWORD=x`."""
GRADES = {"fair": FAIR, "strong": STRONG}
_HEAD = 128  # how much of a value is examined: enough to recognise it, and a bound on the work for hostile text

_JOINTS = str.maketrans("", "", "-_. ")
_LEET = str.maketrans("0@134$5", "oaieass")
NAMING = frozenset(
    {
        "password",
        "passwd",
        "passwort",
        "pwd",
        "secret",
        "secrets",
        "token",
        "pass",
        "passphrase",
        "kennwort",
        "credential",
    }
)
_REFERENCE = r"\A(?:![a-z]|\$(?:\d|[a-z_]\w*(?:\Z|\())|%\w+%\Z|:'|[a-z][a-z0-9+._-]*://|s?sha\d*[}:$-]|\.[a-z0-9]|[a-z]:[/\\])|\{\w*\}|%[sd]\b"
"""Variables, templates, tags, URLs, names of vaults, publishable keys, and hashes."""
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"
FINGERPRINT = r"\d{16,}|[0-9A-F]{16}(?:[0-9A-F]{24})?"  # or a key: the name decides
_DOTTED_NAME = r"[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$"
CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1|\A[^aeiouy]*\Z"
_SYMBOLS = frozenset("!@#$%^&*+=~?")
_SEPARATORS = frozenset("-_./: ")
UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DEFAULTS = frozenset(rules.DEFAULT_PASSWORDS.split())
_NAME_WORDS = _DEFAULTS | {
    *rules.STATES_AND_PRODUCTS.split(),
    *rules.NOTICE_WORDS.split(),
    *rules.LABEL_WORDS.split(),
}
_TECHNICAL = frozenset(rules.TECHNICAL_WORDS.split())
KNOWN = _NAME_WORDS | _TECHNICAL
SENTENCE = KNOWN.union(rules.PHRASE_WORDS.split())
_LONG_WORDS = tuple(word for word in SENTENCE.union(rules.NEAR_WORDS.split()) if len(word) > 5)
_MESSAGE_KEY = r"[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+"
_STEP = r"[a-z]{1,5}-?\d{1,3}"
_NO_PROSE = r"[A-Z]{2,10}-\d+|\d+\+?[a-z]{1,6}|\d+-[a-z]+|[A-Z]\w*\(.*|.*[\w)!?]\(.*|[a-z_]+=.*"
"""What a sentence has beside the word password: a ticket, `12-character`, `step2`, a call."""
_CHOSEN_WORDS = r".*[a-z][-_][A-Z][a-z]|.*[a-z]_|[a-z]{20,40}\Z"


def is_placeholder(value: str) -> bool:
    """Check for a stand-in: `changeme`, `xxxx`, `your-key-here`, `abc123`, a sequence."""
    return _has_placeholder_word(value[:_HEAD]) or _is_sequence(value[:48])


def _has_placeholder_word(head: str) -> bool:
    lowered = head.lower()
    joined = lowered.translate(_JOINTS)
    both = f"{lowered}\n{joined}"
    is_run = is_long_run(head)
    stand_in = next(
        (word for word in rules.PLACEHOLDERS if word in both and not (is_run and len(word) < 6)), ""
    )
    mixed = has_both_cases(head) and any(map(str.isdigit, head))  # `changeit-Acme-91`
    if stand_in or len(set(lowered)) < 4:
        extended = mixed or re.compile(r"(?=.*[a-z]{2}).*\d{2}").search(
            lowered.replace(stand_in, "")
        )
        return not (stand_in in rules.WEAK_PASSWORDS and extended)
    words = {word.lower() for word in re.compile(CHUNK).findall(head)}
    if mixed and NAMING.isdisjoint(words) and "key" not in words:
        words -= {"your", "here", "some", "hidden"}  # `Wint3r_is_here`
    return not is_run and not rules.PLACEHOLDER_WORDS.isdisjoint(words)


def is_long_run(head: str) -> bool:
    """Check for random letters and digits, so long that three or four of them may happen to be a word."""
    is_run = head.isalnum() or (
        has_both_cases(head) and head.replace("-", "").replace("_", "").isalnum()
    )
    return len(head) >= 16 and is_run and head.isascii() and not is_wordy(head)


def _is_sequence(head: str, share: float = 0.0) -> bool:
    share = share or (0.75 if head.isdigit() else 0.6 if len(head) >= 16 else 0.5)
    return (
        sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head))
        / max(1, len(head) - 1)
        > share
    )


def is_reference(value: str) -> bool:
    """Check for the location of a secret: a variable, a path, a URL, a vault, a hash."""
    head = value[:_HEAD]
    if head.isalnum():
        return False
    lowered = head.lower()
    digit = any(map(str.isdigit, head))
    if digit and has_both_cases(head) and head[0] in "(@&!~" and {*head[1:]}.isdisjoint("()/. "):
        return False  # `&x9Kp2-Lm`
    if lowered.startswith(rules.REFERENCE_STARTS) or any(
        mark in lowered for mark in rules.TEMPLATES
    ):
        return True
    if re.compile(_REFERENCE).search(lowered) or (
        "$" in head and re.compile(r"\$[A-Z][A-Z_]{3,}").search(head)
    ):
        return True
    is_host = digit and "/" not in head and lowered.endswith(rules.HOST_ENDS)
    is_path = lowered.startswith(rules.PATH_STARTS) or (
        lowered.endswith(rules.PATH_ENDS) and not is_host
    )
    return is_path and (re.compile(_BASE64_RUN).fullmatch(head) is None or is_wordy(head))


def is_wordy(value: str) -> bool:
    """Check whether a value is made of words with few digits."""
    chunks = re.compile(CHUNK).findall(value[:_HEAD])
    words = [chunk for chunk in chunks if chunk[0].isalpha()]
    digits = [chunk for chunk in chunks if chunk[0].isdigit()]
    others = {chunk for chunk in chunks if not chunk[0].isalnum()}
    if not words or not others <= _SEPARATORS or len(digits) > 2 or sum(map(len, digits)) > 4:
        return False
    if sum(map(len, words)) / len(words) < 3 or (not others and len(digits) > 1):
        return False
    if (
        not others
        and sum(set("aeiouy").isdisjoint(word.lower()) for word in words if len(word) > 1) > 1
    ):
        return False
    long = [word for word in words if len(word) > 4]  # a shorter one may be any name
    regex = re.compile(_UNNATURAL)
    if any((len(word) > 14 and word.isupper()) or regex.search(word.lower()) for word in long):
        return False
    return len(value) < 16 or not others <= {"-", "_"} or _are_english(value, words)


def _are_english(value: str, words: list[str]) -> bool:
    """Check a long name by the letters that follow each other; random letters may look like syllables."""
    pairs = [pair for word in words for pair in pairwise(word.lower().encode())]
    points = sum(int(rules.FOLLOWERS[26 * first + second - 27 * 97]) - 4 for first, second in pairs)
    known = any(map("".join(words).lower().__contains__, _LONG_WORDS))
    return points >= (
        5 if not value.isalnum() else 9 if known else 13 if has_both_cases(value) else 1_000
    )


def is_token_body(body: str) -> bool:
    """Check what follows the prefix of a vendor: anything but a stand-in."""
    head = body[:_HEAD]
    return not (
        re.compile(rules.DUMMY_BODY).search(head)
        or _is_sequence(head[:48], 0.8)
        or len(set(head)) < 4
    )


def is_random(body: str) -> bool:
    """Check whether a program made this text, not the author of a manual."""
    head = body[:_HEAD]
    if not is_token_body(head):
        return False
    if re.compile(r"[a-z]{18}|[A-Z]{16}|\d{16}").search(head):
        return True  # no word is so long
    varied = has_both_cases(head) or any(map(str.isdigit, head)) or is_long_run(head)
    return varied and not is_placeholder(head) and not is_wordy(head)


def has_both_cases(value: str) -> bool:
    """Check for upper and lower case letters."""
    return value.lower() != value and value.upper() != value


def grade(value: str) -> int:
    """Return how much a value looks as if a program made it."""
    return _grade(value[:_HEAD])


@lru_cache(1024)  # output repeats its values
def _grade(head: str) -> int:
    if head.count("-") == 4 and re.compile(UUID).fullmatch(head):
        lowered = head.lower()
        if lowered.startswith(rules.EXAMPLE_UUIDS) or len(set(lowered)) < 6:
            return NONE
        random = lowered[14] == "4" and lowered[19] in "89ab"  # a random one may count upwards
        return FAIR if random or not is_placeholder(head) else NONE
    if (
        len(head) < 6
        or any(map(str.isspace, head))
        or "[redacted: " in head
        or head.startswith(rules.PUBLIC_KEY_STARTS)
    ):
        return NONE
    if (
        is_placeholder(head)
        or _is_other_format(head)
        or re.compile(_DOTTED_NAME).match(head)
        or is_reference(head)
    ):
        return NONE
    digit = any(map(str.isdigit, head))
    letter = any(map(str.isalpha, head))
    cased = has_both_cases(head)
    if re.compile(FINGERPRINT).fullmatch(head):
        return FAIR
    if is_wordy(head) or not letter or len(set(head)) < 5:
        return NONE
    if digit:
        if len(head) >= 16 or (len(head) >= 8 and (cased or not _SYMBOLS.isdisjoint(head))):
            return STRONG
        return FAIR if len(head) >= 10 else NONE
    symbols = [
        character for character in head[1:-1] if character in _SYMBOLS and character not in "=+"
    ]
    if symbols and head.isascii() and (cased or len(symbols) > 1):
        return FAIR
    if not (head.isascii() and head.isalpha()):
        return FAIR if is_long_run(head) else NONE
    if cased:
        return STRONG if len(head) >= 20 else FAIR if len(head) >= 8 else NONE
    return FAIR if len(head) >= 16 else NONE


def _is_other_format(head: str) -> bool:
    return bool(
        (not head.isalnum() or head[0].isdigit()) and re.compile(rules.OTHER_FORMAT).match(head)
    )


def is_password(value: str, place: int = SURE) -> bool:
    """Check a value behind a key that says password."""
    return _is_password(value[:_HEAD], place)


@lru_cache(1024)
def _is_password(head: str, place: int) -> bool:
    if len(head) < 5 or "[redacted" in head or any(character > "\u024f" for character in head):
        return False
    if len(head) == _HEAD and head.startswith(("AgA", "AgB")):
        return False  # a sealed secret
    digit = any(map(str.isdigit, head))
    cased = has_both_cases(head)
    by_policy = (
        8 <= len(head) <= 10 and cased and digit and not head.lower().startswith("abc123")
    )  # `Abcd1234`
    if (
        _has_placeholder_word(head)
        or (_is_sequence(head[:48]) and not by_policy)
        or is_reference(head)
    ):
        return False
    words = [chunk.lower() for chunk in re.compile(CHUNK).findall(head) if chunk.isalpha()]
    symbol = not _SYMBOLS.isdisjoint(head[1:-1])
    if len(head.split()) > 1:  # a passphrase, but no sentence
        known = len(SENTENCE & {*words})
        mark = symbol or "&" in head or head[-1] in "!$#"
        few = known < 2 if digit or len(words) > 3 else not known
        few = few or (
            digit and mark and place == SURE and known < len({*words}) and NAMING.isdisjoint(words)
        )
        plain = mark or (
            NAMING.isdisjoint(words)
            and head.replace(" ", "").isalpha()
            and (place < SURE or head[0].islower())
        )
        return (
            place > COPULA
            and few
            and len(words) < 9
            and (digit or plain)
            and head[-1] not in ".?:…"
        )
    if is_long_run(head) and (place > PROSE or (len(head) >= 20 and _grade(head) == STRONG)):
        return True
    if (
        _is_other_format(head)
        or head.lower() in _NAME_WORDS
        or (not words and (place < SURE or len(head) < 6))
    ):
        return False
    plain = not symbol and head[-1] not in "!@#$%^&*?"
    if not digit and (_NAME_WORDS.issuperset(words) or re.compile(_MESSAGE_KEY).fullmatch(head)):
        return False  # `Password*`, `errors.mismatch`
    joints = sum(map(head.count, "-_."))
    digits = sum(map(str.isdigit, head))
    spoken = place == COPULA and cased and _TECHNICAL.isdisjoint(words)
    composed = (
        digit and (cased or digits > 3) and joints > (place < SURE) and (place > COPULA or spoken)
    )  # `old_Pw1`
    if (
        plain
        and words
        and ((KNOWN.issuperset(words) and not composed) or head.lower().translate(_LEET) in NAMING)
    ):
        return False
    if not NAMING.isdisjoint(words) and is_wordy(head) and not composed:
        return False
    if place == SURE:
        return len(head) >= 6 or (digit and not head.isdigit())
    if len(head) < 6 or not _TECHNICAL.isdisjoint(words) or re.compile(_NO_PROSE).fullmatch(head):
        return False
    if _grade(head) == STRONG:
        return True
    if place < LITERAL and re.compile(_STEP).fullmatch(head):
        return False
    if place > PROSE:
        strange = {*words} - KNOWN
        unknown = "." not in head and len(strange) == len({*words})
        chosen = bool(unknown and re.compile(_CHOSEN_WORDS).match(head))
        if place == LITERAL and strange and not chosen:
            chosen = (
                symbol
                or head[-1] in "!#$%&*"
                or (joints > 0 and (cased or len(words) > 2 or unknown))
            )
        return digit or (symbol and cased) or ("-" in head and len(strange) > 2) or chosen
    digits += joints > 1 and len(words) > 1 and min(map(len, words)) > 3
    numbered = (
        digit and digits > 1 and len(head) > 9 and KNOWN.isdisjoint(words) and "." not in head
    )
    random = bool(re.compile(r"(?i)(?=(?:[a-z]+\d+){2})[a-z0-9]+").fullmatch(head))
    return (
        (digit and cased and len(head) >= 8) or (symbol and (digit or cased)) or numbered or random
    )


def is_login_password(user: str, password: str) -> bool:
    """Check the password of `user:password`: no default, no placeholder."""
    lowered = password.lower()
    is_sentence = any(map(str.isspace, password)) and not is_password(password)
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULTS or is_sentence:
        return False
    if is_placeholder(password) or is_reference(password) or "[redacted: " in password:
        return False
    words = {word.lower() for word in re.compile(CHUNK).findall(password) if word.isalpha()}
    chosen = any(map(str.isdigit, password)) and (
        not words <= KNOWN or (lowered != password and len(words) > 1)
    )
    return chosen or not (
        is_wordy(password) and not (NAMING | {"test", "demo", "user", "key"}).isdisjoint(words)
    )


def is_basic_login(encoded: str) -> bool:
    """Check base64 of `user:password`."""
    decoded = decode_text(encoded)
    user, colon, password = decoded.partition(":")
    return bool(colon) and is_login_password(user, password)


def decode_text(encoded: str) -> str:
    """Return the printable text that base64 encodes, or nothing."""
    import binascii  # few texts need it

    encoded = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4)).decode("utf-8")
    except ValueError:
        return ""
    return (
        decoded
        if decoded.replace("\n", "").replace("\r", "").replace("\t", "").isprintable()
        else ""
    )


def meets(condition: str, value: str) -> bool:
    """Check a value by the condition that a rule names."""
    if condition == "basic login":
        return is_basic_login(value)
    if condition in ("login", "piped"):
        return is_login_password("", value)
    if condition == "plain":
        words = re.split(r"[.-]", value)
        natural = any(map(re.compile(_ADJECTIVE).search, words)) or is_placeholder(value)
        return (
            not natural
            and NAMING.isdisjoint(words)
            and len(SENTENCE.intersection(words)) <= (len(words) > 3)
        )
    if condition == "output":
        return grade(value) == STRONG or (is_password(value, COPULA) and not value.isalpha())
    if condition in PLACES:
        return is_password(value, PLACES[condition])
    return condition == "any" or (
        (condition == "random" or grade(value) >= GRADES[condition]) and is_random(value)
    )


_ADJECTIVE = r"(?:ed|ing|[ai]ble|ly|al|[oa]ry|[ea]nt|ive|ous|ful|less|[ts]ion|ic|ty|ment|tten|words?|keys?)\Z"
"""Endings of English words that follow `the password is`."""
PLACES = {"password": SURE, "literal": LITERAL, "spoken": COPULA, "before": COPULA, "prose": PROSE}

# --- names --------------------------------------------------------------------------------------

SecretName = tuple[str, int]
"""What a key of this name stores: the kind of secret, and the weakest value that counts (not for passwords)."""

_PASSWORD: SecretName = ("password", FAIR)
_ENDINGS = [
    (tuple(endings), (kind.replace("_", " "), GRADES[least]))
    for kind, least, *endings in map(str.split, rules.NAMES.strip().splitlines())
]
NEUTRAL = frozenset(rules.NEUTRAL_WORDS.split())
_BEFORE = {
    "token": frozenset(rules.BEFORE_TOKEN.split()),
    "key": frozenset(rules.BEFORE_KEY.split()),
}
_BEFORE_ANY = frozenset(rules.BEFORE_ANY.split())
CONSTANTS = frozenset(rules.CONSTANT_WORDS.split())


def name_words(key: str) -> list[str]:
    """Return the words of a name in lower case, without those at its end that mean nothing."""
    words = [word.lower() for word in re.compile(CHUNK).findall(key) if word.isalnum()]
    while len(words) > 1 and (words[-1] in NEUTRAL or words[-1].isdigit()):
        words.pop()
    return words


def is_public_name(before: str, last: str) -> bool:
    """Check for `next_token`, `cache_key`, `is_password`."""
    return before in _BEFORE.get(last.removesuffix("s"), ()) or before in _BEFORE_ANY


def secret_name(key: str) -> SecretName | None:
    """Return what a key of this name stores: its last word decides."""
    words = name_words(key)
    joined = "".join(words)
    if (
        not words
        or joined.endswith(rules.NOT_PASS)
        or (len(words) > 1 and is_public_name(words[-2], words[-1]))
    ):
        return None
    for endings, name in _ENDINGS:
        if joined.endswith(endings):
            return name
    if words[-1] in ("pass", "pw", "psk", "mdp"):
        return _PASSWORD
    is_constant = len(words) > 1 and key.rpartition(".")[2].strip("-").isupper()
    is_key = (
        words[-1] in ("pat", "key", "keys", "salt", "pepper") if is_constant else words[-1] == "key"
    )
    return ("api key", STRONG) if is_key and len(words) > 1 else None
