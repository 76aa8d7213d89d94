r"""Secrets that are only known by the name they are given: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

From each secret word in the text we read the whole key to its left, the sign of assignment to
its right, and then the value. The key says what is held (`max_tokens`, `password_min_length`
and `secretName` hold no secret); the syntax says how sure one may be (an environment line more
than prose, a quoted string more than a bare word that may be a variable); the value must look
as strong as key and syntax together ask for (`values.Strength`).
Every step from a word is bounded, so the work grows with the length of the text and no faster.
`tests/capture/test_assignments.py` holds examples for each syntax and its look-alikes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from ralph.capture.values import MARKER, Strength, basic_login, strength

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Holder:
    """What a key holds: the kind to tell, and the weakest value that counts."""

    kind: str
    least: Strength


_PASSWORD = Holder("password", Strength.WEAK)
_LONE_PASS = Holder("password", Strength.STRONG)
_SECRET = Holder("secret", Strength.FAIR)
_TOKEN = Holder("token", Strength.FAIR)
_API_KEY = Holder("api key", Strength.FAIR)
_SECRET_KEY = Holder("secret key", Strength.FAIR)
_AWS_KEY = Holder("aws secret key", Strength.FAIR)
_CREDENTIAL = Holder("credential", Strength.STRONG)
_SOME_KEY = Holder("api key", Strength.STRONG)

_ENDINGS: tuple[tuple[tuple[str, ...], Holder], ...] = (
    (("password", "passwd", "passwrd", "passphrase", "passcode", "pwd", "userpass", "dbpass", "storepass", "keypass",
      "rootpass", "adminpass", "smtppass", "mailpass", "passwort", "pswd", "psswd"), _PASSWORD),
    (("secretaccesskey", "awssecretkey", "awssecret"), _AWS_KEY),
    (("apikey", "appkey", "applicationkey", "subscriptionkey", "integrationkey", "ingestkey", "servicerolekey",
      "functionskey", "functionkey", "servicekey", "apisecret"), _API_KEY),
    (("accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey", "accountkey", "sharedkey",
      "authkey", "webhookkey", "deploykey", "hmackey", "jwtkey", "sessionkey", "cookiekey", "cryptkey", "adminkey",
      "clientkey", "licensekey", "presharedkey", "noncekey", "loggedinkey", "authsalt", "noncesalt", "loggedinsalt",
      "cipherkey", "aeskey", "decryptionkey", "securekey"), _SECRET_KEY),
    (("secret", "secrets"), _SECRET),
    (("token", "jwt", "bearer"), _TOKEN),
    (("credential", "credentials", "auth", "authorization", "connectionkey", "creds"), _CREDENTIAL),
)  # fmt: skip
_LAST_WORDS = {"pass": _PASSWORD, "pw": _PASSWORD, "pat": _SOME_KEY, "key": _SOME_KEY}

_NEUTRAL = frozenset(
    "value val prod production dev development staging stage test testing live sandbox local old new current previous"
    " primary secondary backup main default base b64 base64 plain plaintext raw confirmation confirm string str text"
    " env ro rw read write readonly admin root v".split(" ")
)  # fmt: skip
_NOT_HELD = re.compile(
    r"(?:next|page|nextpage|continuation|eos|bos|pad|unk|sep|cls|mask|cancellation|cancel|stop|design|sync|resume|lexer|"
    r"syntax|separator|delimiter|image|start|end|special|lookahead|public|csrf|xsrf|sentinel|num|max|min|per|first|last|"
    r"prev|peek|is|has|needs?|requires?|show|hide|forgot|reset|invalid|missing|no|without|by|input|output)(?:token|pass|password|secret|auth)$"
    r"|(?:public|cache|primary|foreign|partition|sort|hash|object|row|idempotency|translation|i18n|lookup|index|group|"
    r"dedupe|feature|storage|composite|natural|unique|candidate|config|registry|reg|site|publishable|anon|map|dict|json|"
    r"record|message|label|query|state|react|order|host|search|header|env|arrow|pub|gpg|s3|bucket|routing|tag|shift|"
    r"ctrl|alt|hot|short|metric|trace|region|asset|lock|kms|file|entry|store|item|column|data|param|session|redis)key$"
    r"|bypass$|compass$|onepass$|lastpass$|oldpwd$|surpass$|trespass$|encompass$"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(maxsize=4096)
def holder(key: str) -> Holder | None:
    """What a key of this name holds, or None: its last word decides, after neutral words like `_prod`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    while len(words) > 1 and (words[-1] in _NEUTRAL or words[-1].isdigit()):
        words.pop()
    joined = "".join(words)
    if not words or _NOT_HELD.search(joined):
        return None
    for endings, found in _ENDINGS:
        if joined.endswith(endings):
            return found
    return _by_last_word(key, words)


def _by_last_word(key: str, words: list[str]) -> Holder | None:
    """`DB_PASS`, `GITHUB_PAT`, `ACME_KEY`: short words that mean it only in some company."""
    found = _LAST_WORDS.get(words[-1])
    if found is _PASSWORD and len(words) == 1:
        return _LONE_PASS
    if found is _SOME_KEY:
        spelled = key.rpartition(".")[2].strip("-")
        return found if len(words) > 1 and spelled.isupper() else None
    return found


_KEYWORDS = (
    "pass", "pwd", "psswd", "pswd", "secret", "token", "credential", "creds", "auth", "jwt", "bearer", "key", "_pat",
    "_pw", "salt",
)  # fmt: skip
_AFTER_WORD = r"""(?P<rest>[a-z0-9_.\-]{0,40}+)(?P<close>[*"'`\\\])]{0,5}+)
    (?:(?P<pair>[\s,"'\\]{1,24}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8})
      |[ \t]{0,24}+(?P<sep>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>|,|\||(?:is|was)[ ](?=\S)|(?<=[ \t]))[* \t]{0,24}+)"""
_TYPED = re.compile(r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])")
_SCHEME = re.compile(r"(?:bearer|token|apikey|api-key|key|basic|digest)[ :]+(?=\S)", re.IGNORECASE)
_QUOTED = re.compile(
    r"[brfuBRFUL@$]{0,2}(?P<quote>[\"'`])(?P<value>(?:\\.|(?!(?P=quote))[^\\\n\r]){1,512})(?P<shut>(?P=quote))?"
)
_ESCAPED = re.compile(r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,512})(?P<shut>\\)?")
_BARE = re.compile(r"(?P<value>(?:[^\s\"'`,;&|<>(){}\[\]\\]|\\(?![nrt\"'\\])){1,512})")
_WHOLE = re.compile(r"(?P<value>(?:[^\s\\]|\\(?![nrt\"'])){1,512})")
_MORE = re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\]*")
_KEY_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_ENV_LINE = re.compile(
    r"(?:^|\\n)[ \t]*(?:[-+>*#$][ \t]+)?(?:export[ \t]+|ENV[ \t]+|ARG[ \t]+|set[ \t]+(?:-\w+[ \t]+)?|-e[ \t]+)?\Z"
)
_SPACE_ASSIGNS = re.compile(
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx|\bsetenv|#define|\bconfig[ \t]+set|\bsecrets?[ \t]+set)[ \t]+\S*\Z"
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\??\.|->|::)[A-Za-z_$][\w$]*)*")


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(word + _AFTER_WORD, re.VERBOSE) for word in _KEYWORDS)


def assignments(text: str, lowered: str) -> Iterator[Span]:
    """Every value that a key of a telling name is given, when it looks like a secret."""
    seen: set[int] = set()
    for pattern in _patterns():
        for match in pattern.finditer(lowered):
            if match.end() not in seen:
                seen.add(match.end())
                found = _assigned(text, match)
                if found is not None:
                    yield found


def _assigned(text: str, match: re.Match[str]) -> Span | None:
    start = _key_start(text, match.start())
    key = text[start : match.end("rest")]
    held = holder(key)
    if held is None:
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    place = _place(text, match, key, line)
    if place is None:
        return None
    at, asked = place
    return _value(text, at, held, asked, bare=_env_line(match, line))


def _key_start(text: str, at: int) -> int:
    """Where the key begins: over its own signs, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    while at > floor and text[at - 1] in _KEY_SIGNS:
        at -= 1
    for _ in range(2):
        before = at - 1
        if before <= floor or text[before] != " " or not text[before - 1].isalpha():
            break
        while before > floor and text[before - 1].isalpha():
            before -= 1
        if text[before:at].strip().lower() not in ("api", "access", "secret", "private", "auth", "aws", "client"):
            break
        at = before
    return at


def _env_line(match: re.Match[str], line: str) -> bool:
    """Whether this is a line of a `.env` file or the like: then the value goes on to the next space."""
    tight = match["sep"] == "=" and not match["close"] and match.end("sep") == match.end()
    return tight and _ENV_LINE.search(line) is not None


def _place(text: str, match: re.Match[str], key: str, line: str) -> tuple[int, Strength] | None:
    """Where the value begins and what this syntax asks of it, or None when it assigns nothing."""
    at, sep, close = match.end(), match["sep"], match["close"]
    typed = _TYPED.match(text, at) if sep in (":", "") else None
    if typed:
        return typed.end(), Strength.WEAK
    if match["pair"] or sep in ("=", ":=", "=>", "?=", ":"):
        return at, Strength.WEAK
    quoted = text[at : at + 1] in ("'", '"', "`", "\\")
    if sep == ">":
        return (at, Strength.WEAK) if line.endswith("<") else None
    if sep == ",":
        return (at, Strength.STRONG) if quoted and close else None
    if sep == "":
        flag = key.startswith("-") or _SPACE_ASSIGNS.search(line) is not None
        return (at, Strength.WEAK) if flag else (at, Strength.STRONG) if quoted and not close else None
    if sep in ("==", "===", "!=", "!=="):
        return (at, Strength.STRONG) if quoted else None
    return at, Strength.STRONG


def _value(text: str, at: int, held: Holder, asked: Strength, *, bare: bool) -> Span | None:
    scheme = _SCHEME.match(text, at)
    if scheme:
        at = scheme.end()
    quoted = _QUOTED.match(text, at) or _ESCAPED.match(text, at)
    match = quoted or (_WHOLE if bare else _BARE).match(text, at)
    if match is None:
        return None
    value, end = match["value"], match.end("value")
    if quoted:
        inner = _SCHEME.match(value)
        at = match.start("value") + (inner.end() if inner else 0)
        value = value[inner.end() :] if inner else value
    else:
        least = _bare_asks(text, value, end, env=bare)
        if least is None:
            return None
        asked = max(asked, least)
        value = value.rstrip(",;\"'") if bare else value.rstrip(".:,;!?" if asked > Strength.WEAK else ",;")
        end = at + len(value)
    if not _secret(value, max(asked, held.least), held):
        return None
    if not quoted or not match["shut"]:
        more = _MORE.match(text, end)
        end = more.end() if more and len(value) >= 500 else end
    return at, end, held.kind


def _bare_asks(text: str, value: str, end: int, *, env: bool) -> Strength | None:
    """What is asked of a value without quotes: it may be a variable or begin a sentence; None for a call."""
    if env:
        return None if _called(value) else Strength.WEAK
    if text[end : end + 1] in ("(", "[", "{", "<") or "->" in value or "::" in value:
        return None
    rest = text[end : end + 3]
    prose = rest[:1] in (" ", "\t") and rest.strip()[:1] not in ("", *"#/;-&|\\>)}]\"'")
    if prose or _IDENTIFIER.fullmatch(value):
        return Strength.STRONG
    return Strength.WEAK


def _called(value: str) -> bool:
    match = _IDENTIFIER.match(value)
    return match is not None and value[match.end() : match.end() + 1] in ("(", "[")


def _secret(value: str, asked: Strength, held: Holder) -> bool:
    if MARKER.search(value) or "[redacted" in value:
        return False
    if held.kind == "credential" and basic_login(value):
        return True
    return strength(value) >= asked
