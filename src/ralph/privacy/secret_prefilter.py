"""Decide by keywords alone whether the secret rules could change a text.

Every recorded event passes this filter before anything is written, so it imports neither `re` nor
any other costly module. It may err in one direction only: a text that the rules would change must
never pass as harmless. The rules in `secrets`, `assignments` and `secret_context` start from the
same candidates, which is why most functions here are public.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING
from ralph.privacy import secret_rules as rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ALL_BYTES = bytes(range(256))
_DIGITS = b"0123456789"


def _blank_all_but(kept: bytes) -> bytes:
    """Return a translation table that turns every byte not in `kept` into a space."""
    others = _ALL_BYTES.translate(None, kept)
    return bytes.maketrans(others, b" " * len(others))


# --- the decision -------------------------------------------------------------------------------

_SHORTEST_TOKEN = 16  # characters of the shortest token that a rule knows
_TABLE_NAMES = (*rules.NAME_KEYWORDS, "key", "pwd", "jwt", "pat", "pw")
"""Words that name a secret in the head of a column or near a member `value`."""


def needs_rules(text: str) -> bool:
    """Check whether the rules could change a text."""
    if len(text) < _SHORTEST_TOKEN and text.isascii() and text.isidentifier():
        return False
    if not text.isascii():
        text = text.translate(rules.BOX)
    lowered = text.lower().replace("passed", "p_ssed")  # tests print it, and it names no secret
    if has_invisible(text) or _may_have_private_parts(text, lowered):
        return True
    runs = _long_runs(text)
    return (
        bool(token_prefixes(runs))
        or _has_login(text)
        or _may_assign_secret(text, lowered)
        or _may_have_random_value(text, lowered, runs)
        or _may_have_secret_table(text, lowered)
    )


def _may_assign_secret(text: str, lowered: str) -> bool:
    return (
        _has_phrase(text, lowered)
        or _has_any(assignment_keywords(text, lowered))
        or has_label(lowered)
    )


def _may_have_random_value(text: str, lowered: str, runs: str) -> bool:
    return (
        _has_any(encoded_texts(runs))
        or _has_any(minted_runs(text, lowered, runs))
        or _has_any(chosen_words(text, lowered))
    )


def _may_have_secret_table(text: str, lowered: str) -> bool:
    if _has_any(separated_tables(text, lowered)) or _has_any(member_values(text, lowered)):
        return True
    if "kind: secret" in lowered:  # a Kubernetes manifest
        return True
    return "insert into" in lowered and _names_secret(lowered)


def _names_secret(lowered: str) -> bool:
    return any(name in lowered for name in _TABLE_NAMES)


def _has_any(candidates: Iterator[object]) -> bool:
    """Check whether an iterator yields anything, without running it to its end."""
    return any(True for _ in candidates)


def positions(text: str, keyword: str) -> Iterator[int]:
    """Yield every position of a keyword in a text."""
    position = text.find(keyword)
    while position >= 0:
        yield position
        position = text.find(keyword, position + 1)


def _first_chunk(text: str, ends: str) -> str:
    """Return the text up to the first of some characters."""
    for end in ends:
        text = text.partition(end)[0]
    return text


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


# --- hidden characters and private parts --------------------------------------------------------

_VISIBLE = bytes(range(32, 127)) + b"\n\t"
_ESCAPES = ("\\u", "\\x", "\\033", "\\e[", "^[[", "\\\n", "\\\r", "\\\\\\n")
_VARIATION_SELECTORS = "".join(map(chr, range(0xFE00, 0xFE10)))
_LOOKALIKES = "İıſ\u212a\u034f" + _VARIATION_SELECTORS + "＜＞﹤﹥／ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"
_BEFORE_PRIVATE = ("<", "lt;", "60;", "3c", "PRIVATE KEY")
_TAG_HEAD_CHARACTERS = 40  # how far before `private` the `<` of its tag may be


def has_invisible(text: str) -> bool:
    """Check for anything that may split a word or spell a character differently."""
    plain = text.replace("\r\n", "")
    if plain.isascii():  # faster than `isprintable`
        if plain.encode("ascii").translate(None, _VISIBLE):
            return True
    elif not plain.replace("\n", "").replace("\t", "").isprintable():
        return True
    if ("\\" in text or "^" in text) and any(escape in text for escape in _ESCAPES):
        return True
    return not text.isascii() and any(character in text for character in _LOOKALIKES)


def _may_have_private_parts(text: str, lowered: str) -> bool:
    if "private" not in lowered:
        return False
    if any(header in text for header in rules.KEY_HEADERS):
        return True
    for position in positions(lowered, "private"):
        before = lowered[max(0, position - _TAG_HEAD_CHARACTERS) : position]
        if any(mark in before for mark in _BEFORE_PRIVATE):
            return True
    return False


# --- vendor tokens ------------------------------------------------------------------------------

_TOKEN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:%$@-"
_TOKENS_ONLY = _blank_all_but(_TOKEN_CHARACTERS)
_WORD_BREAKS = bytes.maketrans(b".~+/=:%$@", b" " * 9)
_MIN_PREFIX = 4  # characters; a shorter prefix counts only next to a run of random characters
_MIN_SHORT_PREFIX_RUN = 20
_MIN_SERVICE_BODY = 28  # letters and digits after one of `_BEFORE_LONG_RUN`
_DISCORD = "."  # what `token_prefixes` returns for Discord's tokens, which have no prefix

_COMMON_PREFIXES = frozenset(
    {
        "key-",
        "api-",
        "sdk-",
        "pat-",
        "pul-",
        "npm_",
        "secret_",
        "dose",
        "dapi",
        "key_",
        "inc_",
        "test_sk_",
        "-us",
        "pub_dd_",
        "token-",
    }
)
"""Prefixes that ordinary lowercase words also contain."""
_WORD_ENDINGS = frozenset(
    {
        "ion_",
        "s.",
        "b.",
        "re_",
        "st.",
        "pat",
        "cio",
        "SK",
        "fw_",
    }
)
"""Prefixes that many words end with: they count only at the beginning of a word."""
_BEFORE_LONG_RUN = frozenset(
    {
        "_token_",
        "_secret_",
        "_live_",
        "_prod_",
        "_sk_",
        "_pat_",
        "_apikey_",
        "live_",
        "test_",
        "sandbox_",
        "pat_",
        "sat_",
    }
)
"""Prefixes of tokens whose body is one run of letters and digits."""


def _long_runs(text: str) -> str:
    """Return the distinct runs of 16 or more token characters, one per line.

    Tokens and base64 can only be in these.
    """
    data = text.encode("utf-8", "replace").translate(_TOKENS_ONLY)
    return b"\n".join({run for run in data.split() if len(run) >= _SHORTEST_TOKEN}).decode("ascii")


def token_prefixes(text: str) -> list[str]:
    """Return the vendor prefixes in long runs of token characters; "." for a Discord token."""
    searched = _long_runs(text)
    if not searched:
        return []
    runs = {*searched.encode("ascii").split()}
    long_prefixes: list[str] = []
    short_prefixes: list[str] = []
    for prefix in _prefixes_in(searched):
        if len(prefix) < _MIN_PREFIX and prefix != "Q~":
            short_prefixes.append(prefix)
        else:
            long_prefixes.append(prefix)
    if short_prefixes or not _COMMON_PREFIXES.isdisjoint(long_prefixes):
        runs = {run for run in runs if _may_be_random(run)}
        searched = b"\n".join(runs).decode("ascii")
        long_prefixes = [
            prefix
            for prefix in long_prefixes
            if prefix not in _COMMON_PREFIXES or prefix in searched
        ]
    if any(map(_may_be_discord_token, runs)):
        return [*long_prefixes, *short_prefixes, _DISCORD]
    if short_prefixes and _has_long_random_word(runs):
        return long_prefixes + short_prefixes
    return long_prefixes


def _prefixes_in(runs: str) -> list[str]:
    """Return the prefixes at a place where a token may begin."""
    characters = set(runs)
    present = []
    for prefix in rules.token_prefixes():
        if characters.issuperset(prefix) and prefix in runs and _may_begin_token(runs, prefix):
            present.append(prefix)
    return present


def _may_begin_token(runs: str, prefix: str) -> bool:
    if prefix in _WORD_ENDINGS:
        return any(_begins_word(runs, position) for position in positions(runs, prefix))
    if prefix in _BEFORE_LONG_RUN:
        return any(
            _is_service_body(runs, position + len(prefix)) for position in positions(runs, prefix)
        )
    return True


def _begins_word(runs: str, position: int) -> bool:
    """Check whether a word may begin here; an escape such as `\\n` or `%3D` may come before it."""
    before = runs[max(0, position - 3) : position]
    is_after_escape = before[-1:] in ("n", "r", "t") and before[-2:-1] in ("", "\n")
    if is_after_escape or before[:1] == "%":
        return True
    return not before[-1:].isalnum() and before[-1:] != "_"


def _is_service_body(runs: str, start: int) -> bool:
    body = runs[start : start + _MIN_SERVICE_BODY]
    return len(body) == _MIN_SERVICE_BODY and body.isalnum()


def _may_be_random(run: bytes) -> bool:
    has_upper = run.lower() != run
    has_digit = run.translate(None, _DIGITS) != run
    return has_upper or has_digit or _has_long_word(run)


def _has_long_word(run: bytes) -> bool:
    words = run.translate(_WORD_BREAKS).replace(b"_", b" ").replace(b"-", b" ").split()
    return any(len(word) >= _SHORTEST_TOKEN for word in words)


def _has_long_random_word(runs: Iterable[bytes]) -> bool:
    for word in b"\n".join(runs).translate(_WORD_BREAKS).split():
        if len(word) >= _MIN_SHORT_PREFIX_RUN and _may_be_random(word):
            return True
    return False


def _may_be_discord_token(run: bytes) -> bool:
    """Check for three parts with the lengths of a Discord token: 23 or more, 6, 27 or more."""
    if run.count(b".") < 2:
        return False
    sizes = [len(part) for part in run.split(b".")]
    for user, time, signature in zip(sizes, sizes[1:], sizes[2:], strict=False):
        if user >= 23 and time == 6 and signature >= 27:
            return True
    return False


# --- logins in URLs -----------------------------------------------------------------------------

_URL_ENDS = " \t\r\n\"'`<>"
_MAX_URL = 420  # characters after `://` that are searched for a login
_MAX_HOST = 120  # characters after `@` that are searched for a host and what follows it
_MIN_AFTER_HOST = 6  # characters after `host:`; a port has at most five digits


def _has_login(text: str) -> bool:
    """Check for `scheme://name:password@host` or `name@host:password`."""
    if "@" not in text:
        return False
    for position in positions(text, "://"):
        url = _first_chunk(text[position + 3 : position + _MAX_URL], _URL_ENDS)
        if "@" in url.partition(":")[2] or "@" in url[20:256]:  # a long name may be a token
            return True
    for position in positions(text, "@"):
        address = _first_chunk(text[position + 1 : position + _MAX_HOST], _URL_ENDS + "/")
        host, _, rest = address.partition(":")
        if "." in host and len(rest) >= _MIN_AFTER_HOST:
            return True
    return False


# --- phrases ------------------------------------------------------------------------------------

_KEYWORD_STEMS = ("pass", "key", "token", "secret", "login", "auth", "cred")
"""Parts of many keywords: a text without one of them has no keyword that contains it."""
_MIN_STEM_TEXT = 1_000  # characters from which searching for stems first is faster
_MAX_PHRASE = 700  # characters after a keyword in which its value must be
_MAX_SENTENCE = 130  # characters after a keyword in which a sentence must name its value
_OPENING_QUOTES = "\"'`«„“*"
_PASSWORD_CHARACTERS = "0123456789!@#$%^&*_+-"  # noqa: S105 - digits and symbols


def phrase_keywords(lowered: str) -> set[str]:
    """Return the keywords of phrases that occur in a text in lower case."""
    keywords = rules.phrase_keywords()
    if len(lowered) > _MIN_STEM_TEXT:
        lowered = "\n".join({*lowered.split("\n")}) + "\n"  # output repeats its lines
        characters = set(lowered)
        keywords = [keyword for keyword in keywords if characters.issuperset(keyword)]
        for stem in _KEYWORD_STEMS:
            if stem not in lowered:
                keywords = [keyword for keyword in keywords if stem not in keyword]
    return {keyword for keyword in keywords if keyword in lowered}


def _has_phrase(text: str, lowered: str) -> bool:
    present = phrase_keywords(lowered)
    if present and _has_phrase_value(text, lowered, present):
        return True
    may_be_table = "|" in text or "+" in text or " row" in text or "RECORD" in text
    if not may_be_table or not any(mark in text for mark in rules.TABLE_MARKS):
        return False
    return _names_secret(lowered)


def _has_phrase_value(text: str, lowered: str, present: set[str]) -> bool:
    for _kind, condition, keywords, follower, _regex in rules.phrase_rules():
        if follower == "<<<":  # another rule has the same programs with a pipe
            continue
        for keyword in present.intersection(keywords):
            for position in positions(lowered, keyword):
                if _may_have_value(text, position, keyword, condition, follower):
                    return True
    return False


def _may_have_value(text: str, position: int, keyword: str, condition: str, follower: str) -> bool:
    """Check for a value after a keyword; an option must be on the same line."""
    if condition in ("piped", "before", "any"):
        return True
    start = position + len(keyword)
    rest = text[start : start + _MAX_PHRASE]
    if follower:
        if follower.strip()[:1] == "-":
            line = text[start - 1 : start + _MAX_PHRASE].partition("\n")[0]
            if " -" not in line and "\t-" not in line:
                return False
        return follows(rest, follower)
    word = _first_chunk(rest.lstrip(" :=\"'\\\t\r\n"), " \t\r\n\"'\\,;")
    is_prose = word.isalpha() and word.islower() and len(word) < _SHORTEST_TOKEN
    if keyword in ("basic ", "bearer") and is_prose:
        return False
    if keyword[-1] == " ":
        return len(rest.strip()) > 2
    return len(word) > 2


def follows(rest: str, other: str) -> bool:
    """Check for what must follow a keyword.

    `other` is a text in lower case, `:\\n` for a colon at the end of the line, or `~` for a value
    after `is` or `:`; after `~~` that value may be any longer word.
    """
    if other == ":\n":
        return rest[:64].partition("\n")[0].rstrip(" \t*")[-1:] == ":"
    if other[:1] != "~":
        return other in rest.lower()
    sentence = rest[:_MAX_SENTENCE].partition("\n")[0].partition("assword")[0]
    words = sentence.replace("’", "'").replace("« ", "").split()
    for before, word in zip(["", *words], words, strict=False):
        is_linked = before.lower() in rules.COPULAS or before[-1:] in (":", "=")
        if is_linked and _may_be_spoken_value(word, allow_words=other == "~~"):
            return True
    return False


def _may_be_spoken_value(word: str, *, allow_words: bool) -> bool:
    if allow_words and len(word) > 6:
        return True
    if word[0] in _OPENING_QUOTES:
        return True
    if len(word) < 5:
        return False
    word = word.strip("`*\"'(")
    return len(word) > 19 or any(character in _PASSWORD_CHARACTERS for character in word)


# --- tables and members -------------------------------------------------------------------------

_HEAD_KEYWORDS = (
    "pass",
    "secret",
    "token",
    "pwd",
    "api_key",
    "apikey",
    "wachtwoord",
    "kennwort",
    "senha",
)
_MAX_HEAD = 400  # characters from a keyword to either end of its line
_CODE_MARKS = "(){}=:"
_BEFORE_VALUE = "\"'\\ \t"


def separated_tables(text: str, lowered: str) -> Iterator[tuple[int, str]]:
    """Yield where the head of a table that names a secret begins, and the table's separator."""
    if "\n" not in text:
        return
    for keyword in _HEAD_KEYWORDS:
        position = lowered.find(keyword)
        while position >= 0:
            start = text.rfind("\n", max(0, position - _MAX_HEAD), position) + 1
            end = text.find("\n", position, position + _MAX_HEAD)
            head = ""
            if end > position:
                head = _table_head(text[start:end])
            if "," in head or "\t" in head or ";" in head:
                for separator in _separators(text, head, end):
                    yield end - len(head), separator
            elif _is_spaced_head(head):
                yield end - len(head), " "
            position = lowered.find(keyword, max(end, position + 1))


def _table_head(line: str) -> str:
    """Return a line without the JSON member or the label (`note: user,password`) before it."""
    head = line.rpartition('":"')[2].rpartition('": "')[2]
    label, _, titles = head.partition(": ")
    if titles and " " not in titles and label.isalnum():
        return titles
    return head


def _is_spaced_head(head: str) -> bool:
    has_code = any(mark in head for mark in "(){}=:|")
    return "  " in head and head.isupper() and not has_code


def _separators(text: str, head: str, end: int) -> Iterator[str]:
    """Yield the separators that occur as often in the line after a head, but not before it."""
    if any(mark in head for mark in _CODE_MARKS):
        return
    start = end - len(head)
    before = ""
    if text[start - 1 : start] == "\n":
        before = text[max(0, start - _MAX_HEAD) : start - 1].rpartition("\n")[2]
    following = text[end + 1 : end + 2 * _MAX_HEAD].partition("\n")[0]
    for separator in ",\t;":
        count = head.count(separator)
        next_count = following.count(separator)
        is_row = count == next_count or ('"' in following and count < next_count)
        if count and is_row and count != before.count(separator):
            yield separator


def member_values(text: str, lowered: str) -> Iterator[int]:
    """Yield the positions of members `value` and `default` near words that name a secret."""
    for keyword in ("value", "default"):
        for position in positions(lowered, keyword):
            rest = text[position + len(keyword) : position + 40].lstrip(_BEFORE_VALUE)
            if rest[:1] not in (":", "="):
                continue
            value = _first_chunk(rest[1:].lstrip(_BEFORE_VALUE + "\n"), " \t\r\n\"'\\,}")
            near = lowered[max(0, position - 240) : position + 560]
            if len(value) > 5 and _names_secret(near):
                yield position


# --- base64 and random values -------------------------------------------------------------------

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64_ONLY = _blank_all_but(_BASE64)
_MIN_BASE64 = 24
_MINTED_ONLY = _blank_all_but(_BASE64 + b"_-")
_PIECES = bytes.maketrans(b"-_+/", b"    ")
_MIN_MINTED = 20  # characters of a run with small and capital letters, or of one piece of a run
_UUID_LENGTH = 36
BEFORE_RUN = 320  # characters before a random value in which the word that names it must be
TABLE = 4_000  # the same for a value in a column, whose title may be far above
_NEAR_WORDS = (*f"{rules.NEAR_WORDS} {rules.VENDORS} hook".split(), *rules.LABELS)


def _characters_without(bit: int) -> bytes:
    """Return the base64 characters in whose value a bit is not set."""
    return bytes(byte for value, byte in enumerate(_BASE64) if not value & bit)


# Three bytes are four characters; the high bit of each byte is one bit of the first three.
_ASCII_FIRST = _characters_without(32)
_ASCII_SECOND = _characters_without(8)
_ASCII_THIRD = _characters_without(2)


def encoded_texts(text: str) -> Iterator[str]:
    """Yield base64 of ASCII text: the high bit of each of its bytes is 0."""
    for run in _long_runs(text).encode("ascii").translate(_BASE64_ONLY).split():
        if len(run) >= _MIN_BASE64 and _is_encoded_ascii(run):
            yield run.decode("ascii")


def _is_encoded_ascii(run: bytes) -> bool:
    has_high_bit = (
        run[::4].translate(None, _ASCII_FIRST)
        or run[1::4].translate(None, _ASCII_SECOND)
        or run[2::4].translate(None, _ASCII_THIRD)
    )
    return not has_high_bit


def minted_runs(text: str, lowered: str, runs: str = "") -> Iterator[tuple[int, int]]:
    """Yield the spans of random-looking values preceded by a word such as `key`."""
    data = (runs or _long_runs(text)).encode("ascii").translate(_MINTED_ONLY)
    candidates = {run.strip(b"-_") for run in data.split() if len(run) >= _SHORTEST_TOKEN}
    for run in candidates:
        if not _may_be_minted(run):
            continue
        for position in positions(text, run.decode("ascii")):
            reach = BEFORE_RUN
            if text[position - 2 : position] == "  ":
                reach = TABLE
            near = lowered[max(0, position - reach) : position]
            if any(map(near.__contains__, _NEAR_WORDS)):
                yield position, position + len(run)


def _may_be_minted(run: bytes) -> bool:
    """Check whether a program may have generated a value: it has digits, and is long enough."""
    digits = len(run) - len(run.translate(None, _DIGITS))
    if run.islower():
        longest_piece = max(map(len, run.translate(_PIECES).split()))
        is_uuid = len(run) == _UUID_LENGTH and run.count(b"-") == 4
        return digits > 2 and (longest_piece >= _MIN_MINTED or is_uuid)
    return 0 < digits < len(run) and (len(run) >= _MIN_MINTED or run.isupper())


# --- passwords that people choose ---------------------------------------------------------------

_LOGIN_WORDS = tuple(rules.LOGIN_WORDS.split())
_CHOSEN_ENDS = " \t\r\n\"'`),;/"
_CHOSEN_STARTS = " \t\n\"'`(:/"
_INNER_SYMBOLS = "!#&*^"
_MIN_CHOSEN = 8
_MAX_CHOSEN = 40
_MAX_CHOSEN_REST = 60  # characters after a symbol in which its word must end
_LOGIN_LINE = 100  # characters before a password in which its line must have a word of a login


def chosen_words(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of words that people may choose as passwords, on a line about a login."""
    yield from _login_pairs(text, lowered)
    for symbol in _INNER_SYMBOLS:
        for position in positions(text, symbol):
            if (
                text[position - 1 : position].isalnum()
                and text[position + 1 : position + 2].isalnum()
            ):
                yield from _symbol_word(text, lowered, position)


def _login_pairs(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    """Yield the password of each pair `name / password`."""
    for position in positions(text, " / "):
        start = position + 3
        line = lowered[max(0, position - _LOGIN_LINE) : start].rpartition("\n")[2]
        if "@" in line or _is_about_login(line):
            password = _first_chunk(text[start : position + _MAX_CHOSEN_REST], _CHOSEN_ENDS)
            yield start, start + len(password)


def _symbol_word(text: str, lowered: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the word around a symbol if it may be a password."""
    earliest = max(0, position - _MAX_CHOSEN)
    start = max(text.rfind(edge, earliest, position) + 1 for edge in _CHOSEN_STARTS)
    start = max(start, earliest)
    rest = _first_chunk(text[position : position + _MAX_CHOSEN_REST], _CHOSEN_ENDS)
    end = position + len(rest)
    line = lowered[max(0, start - _LOGIN_LINE) : start].rpartition("\n")[2]
    if _MIN_CHOSEN <= end - start <= _MAX_CHOSEN and _is_about_login(line):
        yield start, end


def _is_about_login(line: str) -> bool:
    return any(map(line.__contains__, _LOGIN_WORDS))


# --- assignments --------------------------------------------------------------------------------

_ASCII_LABELS = tuple(filter(str.isascii, rules.LABELS))
_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
_NAME_TAILS = (
    "",
    "s",
    "word",
    "wd",
    "wrd",
    "phrase",
    "code",
    "wort",
    "ord",
    "orization",
    "accesskey",
    "key",
    "salt",
    "pass",
    "id",
    "tok",
)
"""How a keyword may go on in the name of a secret: `password`, `authorization`."""
_NAME_JOINTS = ("", *"_-.0123456789")
_NEUTRAL_WORDS = tuple(rules.NEUTRAL_WORDS.split())
_PASSWORD_KEYWORDS = frozenset(
    {
        "pass",
        "passwd",
        "psswd",
        "pswd",
        "kennwort",
        "pwd",
        "pw",
        "psk",
        "wachtwoord",
        "contrasena",
        "secvaluedata",
    }
)
_MAX_NAME_TAIL = 40  # characters after a keyword that may belong to the name
_MAX_ASSIGNMENT = 400  # characters after a name in which its value must be
_PARTICLES = "은는이가はが："  # Korean and Japanese particles and the wide colon
_SIGNS = ("=", ":", "?", "!", ">", ",", "|", "(", *_PARTICLES)
"""Characters that assign the value after them to the name before them."""
_YAML_BLOCKS = ("|", ">", "|-", ">-", "|+", ">+")


def has_label(lowered: str) -> bool:
    """Check for a label such as `password:` in another language."""
    labels: tuple[str, ...] = rules.LABELS
    if lowered.isascii():
        labels = _ASCII_LABELS
    return any(map(lowered.__contains__, labels))


def assignment_keywords(text: str, lowered: str) -> Iterator[tuple[str, int]]:
    """Yield the keywords at which a secret may be assigned, with their positions."""
    tails: dict[str, bool] = {}  # output repeats its words
    for keyword in (*rules.NAME_KEYWORDS, *rules.SHORT_NAMES):
        if keyword not in lowered:
            continue
        is_short = keyword in rules.SHORT_NAMES
        is_password = keyword in _PASSWORD_KEYWORDS
        contexts: dict[str, bool] = {}
        for position in positions(lowered, keyword):
            start = position + len(keyword)
            rest = lowered[start : start + _MAX_NAME_TAIL]
            if is_short and rest[:1] not in rules.AFTER_SHORT_NAME:
                continue
            tail = rest[: len(rest) - len(rest.lstrip(_NAME_CHARACTERS))]
            if tail not in tails:
                tails[tail] = _may_end_name(tail)
            if not tails[tail]:
                continue
            end = start + len(tail)
            is_upper = text[position:start].isupper()
            context = f"{is_upper}{text[end : end + _MAX_ASSIGNMENT]}"
            if context not in contexts:
                contexts[context] = _assigns(text, end, upper=is_upper, password=is_password)
            if contexts[context]:
                yield keyword, position


def _may_end_name(tail: str) -> bool:
    """Check whether a name may go on like this after its keyword: `word`, `_1`, but not `ive`."""
    for ending in _NAME_TAILS:
        if not tail.startswith(ending):
            continue
        rest = tail[len(ending) :]
        if rest[:1] in _NAME_JOINTS or rest.startswith(_NEUTRAL_WORDS):
            return True
    return False


def _assigns(text: str, end: int, *, upper: bool, password: bool) -> bool:
    """Check whether a value is assigned to the name that ends here."""
    rest = text[end : end + _MAX_ASSIGNMENT]
    pair = rest.lstrip(" \t\r\n,\"'\\+-")
    if pair[:5].lower() == "value" and pair != rest:  # `"name": "password", "value": "..."`
        value = pair[5:].lstrip("\"'\\ :=+\n\r\t")
        return _may_be_value(value, upper=upper, password=password) or '""' in pair[5:12]
    if rest[:2] == "</":  # `<key>password</key> <string>...`
        value = rest.partition(">")[2].lstrip().partition(">")[2].lstrip()
        return _may_be_value(value, upper=upper, password=password)
    after = rest.lstrip("*\"'`\\])")
    value = after.lstrip(" \t")
    if after == rest:
        value = _skip_attributes(value)
    value = _skip_to_sign(value, password=password)
    if value[:1] == "%":  # a URL's `%3D`
        return value[:8].lower().replace("%22", "").startswith(("%3a", "%3d"))
    if value[:1] not in _SIGNS:
        is_quoted_password = password and value[:1] in ("'", '"')
        return value != after and _may_be_value(value, upper=False, password=is_quoted_password)
    return _may_be_value(_skip_signs(value), upper=upper, password=password)


def _skip_attributes(value: str) -> str:
    """Skip the attributes of an XML element: `<password type="x">`."""
    attributes, _, content = value[:200].partition(">")
    if content and value[:1].isalpha() and "=" in attributes:
        return ">" + content
    return value


def _skip_to_sign(value: str, *, password: bool) -> str:
    """Skip what may be between a name and the sign that assigns its value."""
    if value[:1] == "(":  # a note before the sign: `secret_key_base (production) = ...`
        after_note = value[:32].partition(")")[2].lstrip()[:1]
        is_call = password or value[1:2] in ("'", '"')
        if after_note in (":", "="):
            value = value.partition(")")[2].lstrip()
        elif not is_call:
            value = ""
    if value[:1] == "[" and value[1:2] != "-":  # an index
        value = value.partition("]")[2]
    if value[:1].isdigit() and value[:4].lstrip(" 0123456789")[:1] == ":":  # a number: `key 1: ...`
        value = value.lstrip(" 0123456789")
    if value[:12].partition(" ")[0] in rules.COPULAS:
        value = value.partition(" ")[2]
    return value


def _skip_signs(value: str) -> str:
    """Skip the sign of an assignment, quotes, and what else may be before the value."""
    first_line, _, below = value.partition("\n")
    if first_line[:1] == ":" and first_line[1:].strip() in _YAML_BLOCKS:
        value = ":" + below.lstrip()
    if value[0] == ">":
        value = value.lstrip("\"'\\=:?!>,|* \t\r\n")
    else:
        value = value.lstrip("\"'\\=:?!>,|*( \t" + _PARTICLES)
    if value[:1] == "[":
        return value[1:].lstrip()
    return value


# --- values -------------------------------------------------------------------------------------

_MAX_VALUE_LINE = 200  # characters of a value's line that are searched for another value
_MAX_PASSPHRASE = 128
_VALUE_ENDS = " \t\r\n\"'`"
_FALLBACKS = ("||", "??", "?:", " or ", "{", '",', "',")
"""What may be between a variable and the literal that replaces it."""
_NOT_LITERAL = ("", "<", "{", "(", "[")  # how a placeholder or an expression begins
_SYMBOLS = "!@#$%^&*+=~?-"
_MIN_VALUE = 6
_MIN_PASSWORD = 5
_MIN_UNUSUAL_PASSWORD = 6  # characters of a password without digits that is not a known word
_MIN_TITLE = 8  # characters of a capitalized word that may be a secret
_MIN_LOWERCASE = 16  # the same for a word in one case


def _may_be_value(rest: str, *, upper: bool, password: bool) -> bool:
    """Check whether a text begins with a value that may be secret.

    `upper` says that the name is in capitals, `password` that it is a password's name.
    """
    line = rest[:_MAX_VALUE_LINE].partition("\n")[0]
    if _has_fallback(line, upper=upper, password=password):
        return True
    after_type = line[:48].partition("=")[2].lstrip()
    if after_type[:1] in ("'", '"', "`", "\\"):  # `password: str = "..."`
        value = rest.partition("=")[2].lstrip()
        if _may_be_value(value, upper=upper, password=password):
            return True
    value = _skip_quote(rest)
    word = _first_chunk(value, _VALUE_ENDS)
    if word.lower().rstrip(":") in rules.SCHEMES:
        value = value[len(word) :].lstrip()
        word = _first_chunk(value, _VALUE_ENDS)
    if _is_reference(word):
        return False
    if password and _is_passphrase(value, word):
        return True
    return _may_be_secret_word(word, upper=upper, password=password)


def _has_fallback(line: str, *, upper: bool, password: bool) -> bool:
    """Check for a literal that replaces a missing variable: `os.environ["TOKEN"] or "..."`."""
    if not ("|" in line or "?" in line or "(" in line or " or " in line):
        return False
    for mark in _FALLBACKS:
        if mark not in line:
            continue
        value = line.partition(mark)[2].lstrip()
        if _may_be_value(value, upper=upper, password=password):
            return True
    return False


def _skip_quote(rest: str) -> str:
    """Return a value without its opening quote, which may have a prefix such as `rb`."""
    for position, character in enumerate(rest[:3]):
        if character in "\"'`":
            rest = rest[position + 1 :]
            break
    return rest.lstrip("\"'`\\ \t*")


def _is_reference(word: str) -> bool:
    """Check whether a word is a placeholder, an expression, a variable or an alias, not a value."""
    if word[:1] in _NOT_LITERAL:
        return True
    if word[0] == "$":
        name = word[1:].rstrip(",;)}").replace("_", "")
        return name.isalnum() and not word[1].isdigit()
    return word[0] == "&" and not _has_digit(word)


def _is_passphrase(value: str, first_word: str) -> bool:
    """Check for a passphrase of several words."""
    if value[len(first_word) :][:1] != " ":
        return False
    phrase = _first_chunk(value[:_MAX_PASSPHRASE], "\"'`\n<")
    is_quoted = bool(phrase) and value[len(phrase) :][:1] in ("'", '"', "`")
    return is_quoted or _has_digit(phrase) or "!" in phrase or phrase.count(" ") > 2


def _may_be_secret_word(word: str, *, upper: bool, password: bool) -> bool:
    if len(word) < (_MIN_PASSWORD if password else _MIN_VALUE):
        return False
    if upper or _has_digit(word) or any(symbol in word for symbol in _SYMBOLS):
        return True
    word = word.rstrip(",;.)}]")
    if password and len(word) >= _MIN_UNUSUAL_PASSWORD and not _is_name(word):
        return True
    if word.istitle():
        return len(word) >= _MIN_TITLE
    has_both_cases = word.lower() != word != word.upper()
    return has_both_cases or len(word) >= _MIN_LOWERCASE


_known_words: set[str] = set()  # filled when first needed


def _is_name(word: str) -> bool:
    """Check whether a word consists of known words, or calls a function."""
    if not _known_words:
        _known_words.update(rules.DEFAULT_PASSWORDS.split())
        _known_words.update(rules.STATES_AND_PRODUCTS.split())
        _known_words.update(rules.NOTICE_WORDS.split())
        _known_words.update(rules.LABEL_WORDS.split())
    parts = _first_chunk(word.lower(), "([").replace(".", "_").replace("-", "_").split("_")
    is_known = _known_words.issuperset(part for part in parts if part)
    is_call = "(" in word and "-" not in word
    return is_known or is_call


# --- private paths ------------------------------------------------------------------------------


def may_match_glob(text: str, globs: tuple[str, ...]) -> bool:
    """Check whether a text may name a file that matches `privacy.paths`."""
    lowered = text.lower()
    for glob in globs:
        for character in "*?[]/~!":
            glob = glob.replace(character, "\n")
        longest_part = max(glob.lower().split("\n"), key=len)
        if len(longest_part) < 2 or longest_part in lowered:
            return True
    return False
