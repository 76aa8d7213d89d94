"""The pre-filter: whether the rules could change a text, by their keywords alone.

Every event of a hook runs it, so it imports no other module, and may only err in one direction.
"""

from __future__ import annotations

from ralph.capture import secret_rules as rules
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:%$@-"
_OTHERS = bytes(range(256)).translate(None, _RUN)
_BREAKS = bytes.maketrans(_OTHERS, b" " * len(_OTHERS))
_VISIBLE = bytes(range(32, 127)) + b"\n\t"
_WORD_BREAKS = bytes.maketrans(b".~+/=:%$@", b" " * 9)
_DIGITS = b"0123456789"
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
_ESCAPES = ("\\u", "\\x", "\\033", "\\e[", "^[[", "\\\n", "\\\r", "\\\\\\n")
_LOOKALIKES = (
    "İıſ\u212a\u034f"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "＜＞﹤﹥／ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"
)
_BEFORE_PRIVATE = ("<", "lt;", "60;", "3c", "PRIVATE KEY")
_NAME_TAILS = (
    "",
    *[
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
    ],
)
_NAME_JOINTS = ("", *"_-.0123456789")
_NEUTRAL = tuple(rules.NEUTRAL_WORDS.split())
_SYMBOLS = "!@#$%^&*+=~?-"
_FALLBACKS = (
    "||",
    "??",
    "?:",
    " or ",
    "{",
    '",',
    "',",
)  # between a variable and the literal that replaces it
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
"""Prefixes that ordinary words in small letters contain, too."""
_IN_WORDS = frozenset(
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
"""Prefixes with which many words end: they count only where a word begins."""
_BEFORE_LONG = frozenset(
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


def needs_rules(text: str) -> bool:
    """Check whether the rules could change a text."""
    if len(text) < 16 and text.isascii() and text.isidentifier():
        return False  # the shortest token has 16 characters
    if not text.isascii():
        text = text.translate(rules.BOX)
    lowered = text.lower().replace("passed", "p_ssed")  # tests print it, and it names no secret
    return (
        has_invisible(text)
        or _may_have_private_parts(text, lowered)
        or bool(token_prefixes(runs := _long_runs(text)))
        or _has_login(text)
        or _has_phrase(text, lowered)
        or any(True for _ in assignment_keywords(text, lowered))
        or has_label(lowered)
        or any(True for _ in encoded_texts(runs))
        or any(True for _ in minted_runs(text, lowered, runs))
        or any(True for _ in chosen_words(text, lowered))
        or any(True for _ in separated_tables(text, lowered))
        or any(True for _ in member_values(text, lowered))
        or "kind: secret" in lowered
        or ("insert into" in lowered and any(name in lowered for name in _HEAD_WORDS))
    )


def has_invisible(text: str) -> bool:
    """Check for what may split a word or spell a character differently."""
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
    befores = [lowered[max(0, at - 40) : at] for at in positions(lowered, "private")]
    has_key = any(header in text for header in rules.KEY_HEADERS)
    return has_key or any(mark in before for before in befores for mark in _BEFORE_PRIVATE)


def positions(text: str, keyword: str) -> Iterator[int]:
    """Yield where a keyword is."""
    at = text.find(keyword)
    while at >= 0:
        yield at
        at = text.find(keyword, at + 1)


def _long_runs(text: str) -> str:
    """Return the runs of 16 and more token characters, each once on a line: the part that tokens and base64 are in."""
    data = text.encode("utf-8", "replace").translate(_BREAKS)
    return b"\n".join({run for run in data.split() if len(run) >= 16}).decode("ascii")


def token_prefixes(text: str) -> list[str]:
    """Return the vendors' prefixes in long runs of token characters; "." may be Discord's."""
    searched = _long_runs(text)
    if not searched:
        return []
    runs = {*searched.encode("ascii").split()}
    short = list[str]()
    prefixes = list[str]()
    characters = set(searched)
    candidates = filter(characters.issuperset, rules.token_prefixes())
    for prefix in [prefix for prefix in candidates if prefix in searched]:
        check = (
            _begins_word
            if prefix in _IN_WORDS
            else _precedes_run
            if prefix in _BEFORE_LONG
            else None
        )
        if check is None or any(check(searched, at, prefix) for at in positions(searched, prefix)):
            (short if len(prefix) < 4 and prefix != "Q~" else prefixes).append(prefix)
    if short or not _COMMON_PREFIXES.isdisjoint(prefixes):
        runs = {
            run
            for run in runs
            if run.lower() != run or run.translate(None, _DIGITS) != run or _has_long_word(run)
        }
        searched = b"\n".join(runs).decode("ascii")
        prefixes = [
            prefix for prefix in prefixes if prefix not in _COMMON_PREFIXES or prefix in searched
        ]
    joined = b"\n".join(runs)
    for sizes in ([len(part) for part in run.split(b".")] for run in runs if run.count(b".") > 1):
        if any(
            a >= 23 and b == 6 and c >= 27
            for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False)
        ):
            return [*prefixes, *short, "."]
    for run in joined.translate(_WORD_BREAKS).split() if short else ():
        if len(run) >= 20 and (
            run.translate(None, _DIGITS) != run or run.lower() != run or _has_long_word(run)
        ):
            return prefixes + short
    return prefixes


def _precedes_run(searched: str, at: int, prefix: str) -> bool:
    run = searched[at + len(prefix) : at + len(prefix) + 28]
    return len(run) == 28 and run.isalnum()


def _begins_word(searched: str, at: int, _: str) -> bool:
    """Check whether a token may begin here: not inside of a word, but after `\\n` and `%3D`."""
    before = searched[max(0, at - 3) : at]
    is_escaped = before[-1:] in ("n", "r", "t") and before[-2:-1] in ("", "\n")
    return is_escaped or before[:1] == "%" or not (before[-1:].isalnum() or before[-1:] == "_")


def _has_long_word(run: bytes) -> bool:
    return any(
        len(word) >= 16
        for word in run.translate(_WORD_BREAKS).replace(b"_", b" ").replace(b"-", b" ").split()
    )


def _has_login(text: str) -> bool:
    chunks = (
        _first_chunk(text[at + 3 : at + 420], " \t\r\n\"'`<>") for at in positions(text, "://")
    )
    if "@" in text and any(
        "@" in chunk.partition(":")[2] or "@" in chunk[20:256] for chunk in chunks
    ):
        return True
    hosts = (_first_chunk(text[at + 1 : at + 120], " \t\r\n\"'`<>/") for at in positions(text, "@"))
    return any("." in host.partition(":")[0] and len(host.partition(":")[2]) > 5 for host in hosts)


def _first_chunk(text: str, ends: str) -> str:
    for end in ends:
        text = text.partition(end)[0]
    return text


_STEMS = ("pass", "key", "token", "secret", "login", "auth", "cred")
"""Parts of many keywords: where one is absent from a text that is not short, so are the keywords that contain it."""
_SHORT = 1_000


def phrase_keywords(lowered: str) -> set[str]:
    """Return the keywords of phrases in a text."""
    keywords = rules.phrase_keywords()
    if len(lowered) > _SHORT:
        lowered = "\n".join({*lowered.split("\n")}) + "\n"  # output repeats its lines
        characters = set(lowered)
        keywords = [keyword for keyword in keywords if characters.issuperset(keyword)]
        for stem in _STEMS:
            if stem not in lowered:
                keywords = [keyword for keyword in keywords if stem not in keyword]
    return {keyword for keyword in keywords if keyword in lowered}


def _has_phrase(text: str, lowered: str) -> bool:
    present = phrase_keywords(lowered)
    for _, condition, keywords, other, _ in rules.phrase_rules() if present else ():
        for keyword in (
            present.intersection(keywords) if other != "<<<" else ()
        ):  # they are piped to as well
            if any(
                _goes_on(text, at, keyword, condition, other) for at in positions(lowered, keyword)
            ):
                return True
    marks = (
        rules.TABLE_MARKS
        if "|" in text or "+" in text or " row" in text or "RECORD" in text
        else ()
    )
    return any(mark in text for mark in marks) and any(name in lowered for name in _HEAD_WORDS)


def _goes_on(text: str, at: int, keyword: str, condition: str, other: str) -> bool:
    """Check what follows a keyword; an option must be on its line."""
    if condition in ("piped", "before", "any"):
        return True
    start = at + len(keyword)
    rest = text[start : start + 700]
    if other:
        line = (
            text[start - 1 : start + 700].partition("\n")[0] if other.strip()[:1] == "-" else " -"
        )
        return (" -" in line or "\t-" in line) and follows(rest, other)
    chunk = _first_chunk(rest.lstrip(" :=\"'\\\t\r\n"), " \t\r\n\"'\\,;")
    is_word = keyword in ("basic ", "bearer") and (
        chunk.isalpha() and chunk.islower() and len(chunk) < 16
    )
    return len(rest.strip() if keyword[-1] == " " else chunk) > 2 and not is_word


def follows(rest: str, other: str) -> bool:
    """Check for what must follow a keyword; `~` is a value after `is ` or `: `."""
    if other == ":\n":
        return rest[:64].partition("\n")[0].rstrip(" \t*")[-1:] == ":"
    if other[:1] != "~":
        return other in rest.lower()
    words = (
        rest[:130]
        .partition("\n")[0]
        .partition("assword")[0]
        .replace("’", "'")
        .replace("« ", "")
        .split()
    )
    for before, word in zip(["", *words], words, strict=False):
        is_linked = before.lower() in rules.COPULAS or before[-1:] in (":", "=")
        if is_linked and other == "~~" and len(word) > 6:
            return True
        if is_linked and (word[0] in "\"'`«„“*" or word == "«"):
            return True
        is_value = len(word) > 4 and (before.lower() in rules.COPULAS or before[-1:] in (":", "="))
        word = word.strip("`*\"'(")
        if is_value and (
            len(word) > 19 or any(character in "0123456789!@#$%^&*_+-" for character in word)
        ):
            return True
    return False


_ASCII_LABELS = tuple(filter(str.isascii, rules.LABELS))
_HEAD_WORDS = (*rules.NAME_KEYWORDS, "key", "pwd", "jwt", "pat", "pw")
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


def separated_tables(text: str, lowered: str) -> Iterator[tuple[int, str]]:
    """Yield where the head of a table that names a secret begins, and its separator."""
    end = -1
    keywords = (
        ["pass", "secret", "token", "pwd", "api_key", "apikey", "wachtwoord", "kennwort", "senha"]
        if "\n" in text
        else ()
    )
    for keyword in keywords:
        at = lowered.find(keyword)
        while at >= 0:
            start = text.rfind("\n", max(0, at - 400), at) + 1
            end = text.find("\n", at, at + 400)
            head = (
                text[start:end].rpartition('":"')[2].rpartition('": "')[2] if end > at else ""
            )  # a member of JSON
            label, _, titles = head.partition(": ")
            head = (
                titles if titles and " " not in titles and label.isalnum() else head
            )  # `note: user,password`
            if "," in head or "\t" in head or ";" in head:
                yield from _separators(text, head, end)
            elif "  " in head and head.isupper() and not any(mark in head for mark in "(){}=:|"):
                yield end - len(head), " "
            at = lowered.find(keyword, max(end, at + 1))


def _separators(text: str, head: str, end: int) -> Iterator[tuple[int, str]]:
    start = end - len(head)
    before = (
        text[max(0, start - 400) : start - 1].rpartition("\n")[2]
        if text[start - 1 : start] == "\n"
        else ""
    )
    following = text[end + 1 : end + 800].partition("\n")[0]
    for separator in ",\t;" if not any(mark in head for mark in "(){}=:") else "":
        count = head.count(separator)
        is_row = count == following.count(separator) or (
            '"' in following and count < following.count(separator)
        )
        if count and is_row and count != before.count(separator):
            yield start, separator


def member_values(text: str, lowered: str) -> Iterator[int]:
    """Yield where a member `value` is near words of a secret's name."""
    for at in (*positions(lowered, "value"), *positions(lowered, "default")):
        rest = text[at + (5 if lowered[at] == "v" else 7) : at + 40].lstrip("\"'\\ \t")
        if (
            rest[:1] in (":", "=")
            and len(_first_chunk(rest[1:].lstrip("\"'\\ \t\n"), " \t\r\n\"'\\,}")) > 5
        ):
            near = lowered[max(0, at - 240) : at + 560]
            if any(name in near for name in _HEAD_WORDS):
                yield at


def encoded_texts(text: str) -> Iterator[str]:
    """Yield base64 of ASCII text: the high bit of each of its bytes is 0."""
    for run in _long_runs(text).encode("ascii").translate(_NOT_BASE64).split():
        if len(run) >= 24 and not (
            run[::4].translate(None, _LOW[0])
            or run[1::4].translate(None, _LOW[1])
            or run[2::4].translate(None, _LOW[2])
        ):
            yield run.decode("ascii")


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes.maketrans(bytes(range(256)).translate(None, _BASE64), b" " * 192)
_LOW = [bytes(byte for value, byte in enumerate(_BASE64) if not value & bit) for bit in (32, 8, 2)]


_MINTED = _BASE64 + b"_-"
_NOT_MINTED = bytes.maketrans(bytes(range(256)).translate(None, _MINTED), b" " * 190)
_PIECES = bytes.maketrans(b"-_+/", b"    ")
BEFORE_RUN = 320
TABLE = 4_000
"""How far before a run the word that makes it a secret may be, and the head of its column."""
_NEAR = (*f"{rules.NEAR_WORDS} {rules.VENDORS} hook".split(), *rules.LABELS)


def minted_runs(text: str, lowered: str, runs: str = "") -> Iterator[tuple[int, int]]:
    """Yield runs that a program may have made and that have a word of a secret before them."""
    data = (runs or _long_runs(text)).encode("ascii").translate(_NOT_MINTED)
    for run in {
        run
        for run in (run.strip(b"-_") for run in data.split() if len(run) > 15)
        if _may_be_minted(run)
    }:
        for at in positions(text, run.decode("ascii")):
            near = lowered[max(0, at - (TABLE if text[at - 2 : at] == "  " else BEFORE_RUN)) : at]
            if any(map(near.__contains__, _NEAR)):
                yield at, at + len(run)


def _may_be_minted(run: bytes) -> bool:
    if run.islower():
        longest = max(map(len, run.translate(_PIECES).split()))
        is_long = longest >= 20 or (len(run) == 36 and run.count(b"-") == 4)
        return is_long and len(run) - len(run.translate(None, _DIGITS)) > 2
    digits = len(run) - len(run.translate(None, _DIGITS))
    return bool(digits) and (len(run) >= 20 or run.isupper()) and digits < len(run)


_LOGIN = tuple(rules.LOGIN_WORDS.split())


def chosen_words(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    """Yield words with a symbol inside, as people choose passwords, on a line with a word of a login before them."""
    for at in positions(text, " / "):  # a name and its password
        line = lowered[max(0, at - 100) : at + 3].rpartition("\n")[2]
        if "@" in line or any(map(line.__contains__, _LOGIN)):
            yield at + 3, at + 3 + len(_first_chunk(text[at + 3 : at + 60], " \t\r\n\"'`),;/"))
    for symbol in "!#&*^":
        for at in positions(text, symbol) if symbol in text else ():
            if not (text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum()):
                continue
            start = max(
                0, at - 40, *(text.rfind(edge, max(0, at - 40), at) + 1 for edge in " \t\n\"'`(:/")
            )
            end = at + len(_first_chunk(text[at : at + 60], " \t\r\n\"'`),;/"))
            line = lowered[max(0, start - 100) : start].rpartition("\n")[2]
            if 8 <= end - start <= 40 and any(map(line.__contains__, _LOGIN)):
                yield start, end


def has_label(lowered: str) -> bool:
    """Check for a label in another language."""
    return any(map(lowered.__contains__, _ASCII_LABELS if lowered.isascii() else rules.LABELS))


def assignment_keywords(text: str, lowered: str) -> Iterator[tuple[str, int]]:
    """Yield keywords at which a secret may be assigned, with their positions."""
    tails: dict[str, bool] = {}  # output repeats its words
    for keyword in (*rules.NAME_KEYWORDS, *rules.SHORT_NAMES):
        contexts: dict[str, bool] = {}
        for at in positions(lowered, keyword) if keyword in lowered else ():
            start = at + len(keyword)
            rest = lowered[start : start + 40]
            if keyword in rules.SHORT_NAMES and rest[:1] not in rules.AFTER_SHORT_NAME:
                continue
            tail = rest[: len(rest) - len(rest.lstrip(_NAME))]
            if tail not in tails:
                ends = (tail[len(name) :] for name in _NAME_TAILS if tail.startswith(name))
                tails[tail] = any(
                    end[:1] in _NAME_JOINTS or end.startswith(_NEUTRAL) for end in ends
                )
            if not tails[tail]:
                continue
            end = start + len(tail)
            upper = text[at:start].isupper()
            context = f"{upper}{text[end : end + 400]}"
            if context not in contexts:
                contexts[context] = _assigns(
                    text, end, upper=upper, password=keyword in _PASSWORD_KEYWORDS
                )
            if contexts[context]:
                yield keyword, at


def _assigns(text: str, end: int, *, upper: bool, password: bool) -> bool:
    rest = text[end : end + 400]
    pair = rest.lstrip(" \t\r\n,\"'\\+-")
    after = rest.lstrip("*\"'`\\])")
    if pair[:5].lower() == "value" and pair is not rest:
        return (
            _may_be_value(pair[5:].lstrip("\"'\\ :=+\n\r\t"), upper=upper, password=password)
            or '""' in pair[5:12]
        )
    if rest[:2] == "</":
        return _may_be_value(
            rest.partition(">")[2].lstrip().partition(">")[2].lstrip(),
            upper=upper,
            password=password,
        )
    value = after.lstrip(" \t")
    attributes, _, content = value[:200].partition(">")
    if (
        content and value[:1].isalpha() and "=" in attributes and after is rest
    ):  # `<password type="x">`
        value = ">" + content
    if value[:1] == "(":  # a note before the sign: `secret_key_base (production) = ...`
        behind = value[:32].partition(")")[2].lstrip()[:1]
        is_call = password or value[1:2] in ("'", '"')
        value = (
            value.partition(")")[2].lstrip() if behind in (":", "=") else value if is_call else ""
        )
    if value[:1] == "[" and value[1:2] != "-":
        value = value.partition("]")[2]
    if value[:1].isdigit() and value[:4].lstrip(" 0123456789")[:1] == ":":
        value = value.lstrip(" 0123456789")
    if value[:12].partition(" ")[0] in rules.COPULAS:
        value = value.partition(" ")[2]
    if value[:1] == "%":
        return value[:8].lower().replace("%22", "").startswith(("%3a", "%3d"))
    if value[:1] not in ("=", ":", "?", "!", ">", ",", "|", "(", *"은는이가はが："):
        return value is not after and _may_be_value(
            value, upper=False, password=password and value[:1] in ("'", '"')
        )
    sign, _, below = value.partition("\n")
    if sign[:1] == ":" and sign[1:].strip() in ("|", ">", "|-", ">-", "|+", ">+"):
        value = ":" + below.lstrip()  # a block of YAML
    value = value.lstrip(
        "\"'\\=:?!>,|* \t\r\n" if value[0] == ">" else "\"'\\=:?!>,|*( \t은는이가はが："
    )
    return _may_be_value(
        value[1:].lstrip() if value[:1] == "[" else value, upper=upper, password=password
    )


def _may_be_value(rest: str, *, upper: bool, password: bool) -> bool:
    line = rest[:200].partition("\n")[0]
    for mark in _FALLBACKS if "|" in line or "?" in line or "(" in line or " or " in line else ():
        if mark in line and _may_be_value(
            line.partition(mark)[2].lstrip(), upper=upper, password=password
        ):
            return True
    typed = line[:48].partition("=")[2].lstrip()
    is_typed = typed[:1] in ("'", '"', "`", "\\")
    if is_typed and _may_be_value(rest.partition("=")[2].lstrip(), upper=upper, password=password):
        return True  # a type before the value: `password: str = "..."`
    quote = next((at for at, character in enumerate(rest[:3]) if character in "\"'`"), -1)
    value = rest[quote + 1 :].lstrip("\"'`\\ \t*")
    chunk = _first_chunk(value, " \t\r\n\"'`")
    if chunk.lower().rstrip(":") in rules.SCHEMES:
        value = value[len(chunk) :].lstrip()
        chunk = _first_chunk(value, " \t\r\n\"'`")
    is_variable = (
        chunk[:1] == "$"
        and chunk[1:].rstrip(",;)}").replace("_", "").isalnum()
        and not chunk[1].isdigit()
    )
    if (
        chunk[:1] in ("", *"<{([")
        or is_variable
        or (chunk[0] == "&" and not any(map(str.isdigit, chunk)))
    ):
        return False
    phrase = (
        _first_chunk(value[:128], "\"'`\n<") if password and value[len(chunk) :][:1] == " " else ""
    )
    is_quoted = phrase and value[len(phrase) :][:1] in ("'", '"', "`")
    if is_quoted or any(map(str.isdigit, phrase)) or "!" in phrase or phrase.count(" ") > 2:
        return True  # a passphrase of several words
    if len(chunk) < (5 if password else 6):
        return False
    if upper or any(map(str.isdigit, chunk)) or any(symbol in chunk for symbol in _SYMBOLS):
        return True
    word = chunk.rstrip(",;.)}]")
    if password and len(word) > 5 and not _is_name(word):
        return True
    return len(word) >= (8 if word.istitle() else 16) or (
        word.lower() != word != word.upper() and not word.istitle()
    )


def _is_name(word: str) -> bool:
    if not _known_words:
        _known_words.update(
            f"{rules.DEFAULT_PASSWORDS} {rules.STATES_AND_PRODUCTS} {rules.NOTICE_WORDS} {rules.LABEL_WORDS}".split()
        )
    parts = _first_chunk(word.lower(), "([").replace(".", "_").replace("-", "_").split("_")
    return _known_words.issuperset(part for part in parts if part) or (
        "(" in word and "-" not in word
    )


_known_words: set[str] = set()


def may_match_glob(text: str, globs: tuple[str, ...]) -> bool:
    """Check whether a text may name a file of `privacy.paths`."""
    lowered = text.lower()
    for glob in globs:
        for character in "*?[]/~!":
            glob = glob.replace(character, "\n")
        longest = max(glob.lower().split("\n"), key=len)
        if len(longest) < 2 or longest in lowered:
            return True
    return False
