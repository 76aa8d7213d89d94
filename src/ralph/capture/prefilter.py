r"""Decide from the keywords of `secret_rules` whether a text needs the rules at all.

Most events contain nothing private or secret. This check costs a fraction of importing `re`, which it avoids: it
searches the keywords and, around those that ordinary text contains too (`token`, `://`), for a value. It may only err
in one direction, so every condition here is weaker than that of the rule; a property test generates matches for
every rule and compares.
"""

from ralph.capture import secret_rules as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:%$@-"
_OTHERS = bytes(range(256)).translate(None, _RUN)
_BREAKS = bytes.maketrans(_OTHERS, b" " * len(_OTHERS))
_WORD_BREAKS = bytes.maketrans(b".~+/=:%$@", b" " * 9)
_DIGITS = b"0123456789"
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
_ESCAPES = ("\\u", "\\x", "\\033", "\\e[", "^[[", "\\\n", "\\\r", "\\\\\\n")
_LOOKALIKES = "İıſ\u212a\u034f" + "".join(map(chr, range(0xFE00, 0xFE10))) + "＜＞﹤﹥／ｐｒｉｖａｔｅＰＲＩＶＡＴＥ"
_BEFORE_PRIVATE = ("<", "lt;", "60;", "3c", "PRIVATE KEY")
_NAME_TAILS = frozenset(
    ("", "s", "word", "wd", "wrd", "phrase", "code", "wort", "orization", "accesskey", "key", "salt", "pass")
)
_NEUTRAL = tuple(rules.NEUTRAL_WORDS.split())
_SCHEMES = ("bearer", "token", "apikey", "api-key", "key", "basic", "digest", "ssws", "bot", "sso-key", "geniekey")
_SETTERS = frozenset(("env", "arg", "set", "setx", "setenv", "#define", "config", "secret", "secrets"))
_LABEL_SEPARATORS = "=＝：|은는は是为為:"
_SYMBOLS = "!@#$%^&*+=~?-"


def needs_rules(text: str) -> bool:
    """Check whether the rules could change a text, which is JSON with its escapes already resolved."""
    if _has_invisible(text):
        return True
    lowered = text.lower()
    if "private" in lowered and _may_have_private_parts(text, lowered):
        return True
    return (
        has_token(text)
        or _has_login(text, lowered)
        or _has_phrase(text, lowered)
        or any(True for _ in assignment_keywords(text, lowered))
        or (not text.isascii() and _has_label(lowered))
    )


def _has_invisible(text: str) -> bool:
    """Check for anything that can split a word or spell a character differently."""
    if not text.replace("\r\n", "").replace("\n", "").replace("\t", "").isprintable():
        return True
    if ("\\" in text or "^" in text) and any(escape in text for escape in _ESCAPES):
        return True
    return not text.isascii() and any(character in text for character in _LOOKALIKES)


def _may_have_private_parts(text: str, lowered: str) -> bool:
    """Check for `<private`, in any spelling of `<`, and for a private key."""
    if any(header in text for header in rules.KEY_HEADERS):
        return True
    at = lowered.find("private")
    while at >= 0:
        before = lowered[max(0, at - 40) : at]
        if any(mark in before for mark in _BEFORE_PRIVATE):
            return True
        at = lowered.find("private", at + 1)
    return False


def has_token(text: str) -> bool:
    """Check for the prefix of a vendor in a long run of token characters."""
    data = text.encode("utf-8", "replace").translate(_BREAKS)
    runs = {
        run for run in data.split() if len(run) >= 16 and (run.lower() != run or run.translate(None, _DIGITS) != run)
    }
    if not runs:
        return False
    joined = b"\n".join(runs)
    searched = joined.decode("ascii")
    short = []
    for _, prefixes, _, lead in rules.token_rules():
        for prefix in prefixes:
            if len(prefix) > 3 and not lead:
                if prefix in searched:
                    return True
            elif prefix in searched:
                short.append(prefix)
    if any(_is_discord_token(run) for run in runs if run.count(b".") > 1):
        return True
    return bool(short) and any(map(_is_long_run, joined.translate(_WORD_BREAKS).split()))


def _is_long_run(run: bytes) -> bool:
    """Check for a run of 24 or more characters with a digit or letters in both cases."""
    return len(run) >= 24 and (run.translate(None, _DIGITS) != run or run.lower() != run != run.upper())


def _is_discord_token(run: bytes) -> bool:
    sizes = [len(part) for part in run.split(b".")]
    return any(a >= 23 and b == 6 and c >= 27 for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False))


def _positions(text: str, keyword: str) -> list[int]:
    positions = []
    at = text.find(keyword)
    while at >= 0:
        positions.append(at)
        at = text.find(keyword, at + 1)
    return positions


def _has_login(text: str, lowered: str) -> bool:
    """Check for `scheme://user:password@host` and `curl -u user:password`."""
    if "@" in text:
        for at in _positions(text, "://"):
            user, colon, password = _first_chunk(text[at + 3 : at + 420], " \t\r\n\"'`<>").partition(":")
            if colon and "@" in password and not set("/?#@") & set(user):
                return True
    return "curl" in text and any(flag in text for flag in ("-u", "-U", "-user"))


def _first_chunk(text: str, ends: str) -> str:
    for end in ends:
        text = text.partition(end)[0]
    return text


def _has_phrase(text: str, lowered: str) -> bool:
    """Check for a header, a command line or a table that can contain a secret."""
    for _, keywords, other, _, _ in rules.PHRASES:
        for keyword in keywords:
            if (
                keyword in lowered
                and (not other or other in lowered)
                and _phrase_has_value(lowered, text, keyword, other)
            ):
                return True
    if any(receiver in lowered for receiver in rules.RECEIVERS):
        return any(command in lowered for command in ("echo", "printf", "<<<"))
    if any(mark in text for mark in rules.TABLE_MARKS):
        return any(name in lowered for name in (*rules.NAME_KEYWORDS, "key", "pwd", "jwt", "pat", "pw"))
    return False


def _phrase_has_value(lowered: str, text: str, keyword: str, other: str) -> bool:
    """Check each place of a keyword for what its rule requires to follow."""
    for at in _positions(lowered, keyword):
        rest = text[at + len(keyword) : at + len(keyword) + 700]
        if other:
            if other in rest.lower():
                return True
        elif keyword in ("basic ", "bearer"):
            chunk = _first_chunk(rest.lstrip(" :\"'\\\t\n"), " \t\r\n\"'\\,;")
            if len(chunk) >= 8 and (not chunk.isalpha() or not chunk.islower() or len(chunk) > 15):
                return True
        elif len(_first_chunk(rest.lstrip(" \t\r\n\"':="), " \t\r\n\"',;")) >= 3 or keyword[0] == '"':
            return True
    return False


def assignment_keywords(text: str, lowered: str) -> "Iterator[tuple[str, int]]":
    """Yield the keywords, with their positions, at which something named like a secret may be given a value."""
    for keyword in (*rules.NAME_KEYWORDS, *rules.SHORT_NAMES):
        if keyword not in lowered:
            continue
        short, rejected = keyword in rules.SHORT_NAMES, set()
        for at in _positions(lowered, keyword):
            around = (min(at, 100), text[max(0, at - 100) : at + 160])
            after = lowered[at + len(keyword) : at + len(keyword) + 1]
            if around in rejected or (short and after not in rules.AFTER_SHORT_NAME):
                continue  # output repeats its lines
            if _assigns(text, lowered, at, keyword):
                yield keyword, at
            else:
                rejected.add(around)


def _assigns(text: str, lowered: str, at: int, keyword: str) -> bool:
    start = end = at + len(keyword)
    while end < len(lowered) and end < start + 40 and lowered[end] in _NAME:
        end += 1
    if not _is_name_tail(lowered[start:end]):
        return False
    rest = text[end : end + 400]
    upper = text[at : at + len(keyword)].isupper()
    pair = rest.lstrip(" \t\r\n,\"'\\")
    if pair[:5].lower() == "value" and pair is not rest:
        return _may_be_value(pair[5:].lstrip("\"'\\ :="), upper=upper)
    closed = rest.lstrip("*\"'`\\])")
    after = closed.lstrip(" \t")
    if after[:1] == "[":
        after = after.partition("]")[2]
    if after[:1] in ("=", ":", "?", "!", ">", ",", "|"):
        return _may_be_value(after.lstrip("=:?!>,|* \t"), upper=upper)
    if after[:3] in ("is ", "was"):
        return _may_be_value(after.partition(" ")[2].lstrip(), upper=False)
    if after == closed:
        return False
    before = lowered[max(0, at - 100) : at].rpartition("\n")[2]
    flag = before[len(before.rstrip(_NAME)) :].startswith("-")
    if flag or not _SETTERS.isdisjoint(before.replace('"', " ").replace("'", " ").split()):
        return _may_be_value(after, upper=True)
    return after[:1] in ("'", '"', "`", "\\") or "=" in after[:48].partition("\n")[0]


def _is_name_tail(tail: str) -> bool:
    """Check whether a name ends here, but for neutral words such as `_prod`."""
    for _ in range(6):
        tail = tail.strip("_.-0123456789")
        if tail in _NAME_TAILS:
            return True
        neutral = next((word for word in _NEUTRAL if tail.endswith(word)), "")
        if not neutral:
            break
        tail = tail[: -len(neutral)]
    return tail.replace("_", "").replace("-", "").replace(".", "") in _NAME_TAILS


def _may_be_value(rest: str, *, upper: bool) -> bool:
    """Check whether a value of six characters follows that is no word in small letters, reference or call."""
    if "=" in rest[:48].partition("\n")[0]:  # a type before the value: `password: str = "..."`
        typed = rest[:48].partition("=")[2].lstrip()
        if typed[:1] in ("'", '"', "`", "\\") and _may_be_value(rest.partition("=")[2].lstrip(), upper=upper):
            return True
    value = rest.lstrip("brfuBRFUL@$") if rest[:3].lstrip("brfuBRFUL@$")[:1] in ("'", '"', "`") else rest
    value = value.lstrip("\"'`\\ \t*")
    chunk = _first_chunk(value, " \t\r\n\"'`")
    if chunk.lower().rstrip(":") in _SCHEMES:
        return _may_be_value(value[len(chunk) :].lstrip(), upper=upper)
    if len(chunk) < 6 or chunk[0] in "<{([&":
        return False
    if chunk[0] == "$" and chunk[1:].rstrip(",;)}").replace("_", "").isalnum() and not chunk[1:2].isdigit():
        return False
    if upper or any(map(str.isdigit, chunk)) or any(symbol in chunk for symbol in _SYMBOLS):
        return True
    word = chunk.rstrip(",;.)}]")
    return (
        (word.lower() != word and word.upper() != word and not word.istitle())
        or len(word) >= 16
        or (word.istitle() and len(word) >= 8)
    )


def _has_label(lowered: str) -> bool:
    """Check for a label in another script with an assignment behind it."""
    for part in rules.LABELS.split():
        for at in _positions(lowered, part):
            if any(separator in lowered[at : at + 24] for separator in _LABEL_SEPARATORS):
                return True
    return False


def may_match_glob(text: str, globs: "tuple[str, ...]") -> bool:
    """Check whether a text may name a file of `privacy.paths`: it contains a literal part of each glob."""
    lowered = text.lower()
    for glob in globs:
        for character in "*?[]/~!":
            glob = glob.replace(character, "\n")
        longest = max(glob.lower().split("\n"), key=len)
        if len(longest) < 2 or longest in lowered:
            return True
    return False
