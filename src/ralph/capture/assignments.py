r"""Secrets that are only known by the name they are given: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

From each secret word in the text we read the whole key to its left, the sign of assignment to
its right, and then the value. The key says what is held (`max_tokens`, `password_min_length`
and `secretName` hold no secret); the syntax says how sure one may be (an environment line more
than prose, a quoted string more than a bare word that may be a variable); the value must look
as strong as key and syntax together ask for (`values.Strength`).
Every step from a word is bounded, so the work grows with the length of the text and no faster.
`tests/capture/test_assignments.py` holds examples for each syntax and its look-alikes.
"""

from ralph.capture.values import (
    Strength,
    basic_login,
    cased_password,
    plain_password,
    regex,
    scrambled,
    strength,
    words_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

Span = tuple[int, int, str]


class Holder:
    """What a key holds: the kind to tell, and the weakest value that counts."""

    __slots__ = ("kind", "least")

    def __init__(self, kind: str, least: Strength) -> None:
        self.kind = kind
        self.least = least


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

_NEUTRAL = words_of(
    """value val prod production dev development staging stage test testing live sandbox local old new previous
    primary secondary backup main default base b64 base64 plain plaintext raw confirmation confirm string str text
    ro rw read write readonly admin root v"""
)
_NO_TOKEN = words_of(
    """next page continuation eos bos pad unk sep cls mask cancellation cancel stop design sync resume lexer syntax key
    separator delimiter image start end special lookahead csrf xsrf sentinel per first last prev peek change update
    client lock verification idempotency request action caller etag snapshot revision input output prompt completion
    current starting"""
)
_NO_KEY = words_of(
    """public cache primary foreign partition sort hash object row idempotency translation i18n lookup index group
    dedupe feature storage composite natural unique candidate config registry reg site publishable anon map dict json
    record message label query state react order host search header env arrow pub gpg s3 bucket routing tag shift ctrl
    alt hot short metric trace region asset lock kms file entry store item column data param session redis"""
)
_NOTHING_HELD = words_of(
    "is has need needs require requires show hide forgot invalid missing no without by public max min num"
)
"""What stands before `token`, before `key`, and before anything when no secret is meant."""
_NO_PASS = ("bypass", "compass", "onepass", "lastpass", "oldpwd", "surpass", "trespass", "encompass")
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"


_HELD: dict[str, Holder | None] = {}
_MOST_HELD = 4096


def holder(key: str) -> Holder | None:
    """What a key of this name holds, or None: its last word decides, after neutral words like `_prod`."""
    if key not in _HELD:
        if len(_HELD) >= _MOST_HELD:
            _HELD.clear()
        _HELD[key] = _holder(key)
    return _HELD[key]


def _holder(key: str) -> Holder | None:
    words = [word.lower() for word in regex(_WORDS).findall(key)]
    while len(words) > 1 and (words[-1] in _NEUTRAL or words[-1].isdigit()):
        words.pop()
    joined = "".join(words)
    if not words or joined.endswith(_NO_PASS) or _other_meaning(words):
        return None
    for endings, found in _ENDINGS:
        if joined.endswith(endings):
            return found
    return _by_last_word(key, words)


def _other_meaning(words: list[str]) -> bool:
    """`next_token`, `cache_key`, `is_password`: the word before the last one makes it something else."""
    if len(words) < 2:
        return False
    before, last = words[-2:]
    taken = _NO_TOKEN if last == "token" else _NO_KEY if last == "key" else frozenset()
    return before in taken or before in _NOTHING_HELD


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
_AFTER_WORD = r"""(?x)(?P<rest>[a-z0-9_.\-]{0,40}+)(?P<close>[*"'`\\\])]{0,5}+)(?:[ ]\[[^\]\n]{0,24}\](?=:))?
    (?:(?P<pair>[\s,"'\\]{1,24}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8})
      |[ \t]{0,24}+(?P<sep>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>|,|\||(?:is|was)[ ](?=\S)|(?<=[ \t]))[* \t]{0,24}+)"""
_TYPED = r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])"
_SCHEME = r"(?i)(?:bearer|token|apikey|api-key|key|basic|digest|ssws|bot|sso-key|geniekey)[ :]+(?=\S)"
_QUOTED = (
    r"[brfuBRFUL@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+(?:(?:\\.|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
_ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
_BARE = (
    r"(?P<value>(?=\S)[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+"
    r"(?:(?:&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\]))[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+){0,9})"
)
_WHOLE = r"(?P<value>(?=\S)[^\s\\]{0,300}+(?:\\(?![nrt\"'])[^\s\\]{0,300}+){0,9})"
_MORE = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_LABEL = r"""(?x)(?=[비패암密口パ暗пc토令トa시金秘シ])
    (?:(?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль|contraseña)
      |(?P<token>토큰|令牌|トークン)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|密钥|密鑰|金鑰|秘密鍵|シークレットキー))
    [*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+(?P<sep>[=＝：|은는は是为為]|:(?!//))[* \t\u3000]{0,8}+"""
_LABEL_PARTS = tuple(
    "번호 비번 패스워드 암호 密 口令 パスワード 暗証 пароль contraseña 토큰 令牌 トークン 키 キー 金鑰".split()
)
"""One of these is in each label: most texts are done when none is found."""
_ASSIGNING = ("=", ":", "：", "＝")
_ASCII = r"(?P<value>[!-~]{6,300}+)"
_KEY_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_ENV_LINE = (
    r"(?:^|\\n)[ \t]*(?:[-+>*#$][ \t]+)?(?:export[ \t]+|ENV[ \t]+|ARG[ \t]+|set[ \t]+(?:-\w+[ \t]+)?|-e[ \t]+)?\Z"
)
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx|\bsetenv|#define|\bconfig[ \t]+set|\bsecrets?[ \t]+set)[ \t]+\S*\Z"
)
_IDENTIFIER = r"[A-Za-z_$][\w$]*(?:(?:\??\.|->|::)[A-Za-z_$][\w$]*)*"
_DIGITS = r"\d+"
_PAIR = r"[\"']?[A-Za-z_]\w{0,40}=[^=,;()\[\]{}<>]{1,100}"
_NEXT_PAIR = r"[ \t]{1,4}[A-Za-z_]\w{0,40}=[^=\s]"
_NO_ENV = words_of(
    """reset change forgot forgotten update wrong incorrect invalid weak confirm show grant error field label enter
    allow empty random use with enable enabled disable disabled require required type route action event message title
    screen view msg err code page form has is no"""
)
"""Words of a constant's name: `RESET_PASSWORD: resetting` is no environment line."""
_EXPRESSION = r"[A-Za-z_]\w*=[A-Za-z]\w*|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"


def assignments(text: str, lowered: str) -> "Iterator[Span]":
    """Every value that a key of a telling name is given, when it looks like a secret."""
    seen: set[int] = set()
    for word in _KEYWORDS:
        done = 0
        at = lowered.find(word)
        after = regex(_AFTER_WORD) if at >= 0 else None
        while after and at >= 0:
            match = after.match(lowered, at + len(word))
            end = match.end() if match else at + 1
            # What stands inside of a secret is no key: looking there again would cost its length each time.
            if match and at >= done and end not in seen:
                seen.add(end)
                found = _assigned(text, at, match)
                if found is not None:
                    done = found[1]
                    yield found
            at = lowered.find(word, end)
    if not text.isascii() and any(part in lowered for part in _LABEL_PARTS):
        yield from _labelled(text, lowered)


def _labelled(text: str, lowered: str) -> "Iterator[Span]":
    """What a label in another script is followed by; the value is ASCII, for words of that script may follow it."""
    for match in regex(_LABEL).finditer(lowered):
        held = _PASSWORD if match["password"] else _TOKEN if match["token"] else _SECRET_KEY
        quoted = regex(_QUOTED).match(text, match.end()) or regex(_ESCAPED).match(text, match.end())
        found = quoted or regex(_ASCII).match(text, match.end())
        if found is None or _called(found["value"]):
            continue
        value = found["value"] if quoted else found["value"].rstrip("\"'`,;.:|)]}>*")
        end = found.start("value") + len(value)
        after = text[end : end + 40].partition("\n")[0].strip(" \t\r*|,;.)」』】。、，")
        sure = match["sep"] in _ASSIGNING and (quoted or not after or after.startswith(("#", "//")))
        if _secret(value, held.least if sure else Strength.STRONG, held):
            yield found.start("value"), end, held.kind


def _assigned(text: str, at: int, match: "re.Match[str]") -> Span | None:
    start = _key_start(text, at)
    key = text[start : match.end("rest")]
    held = holder(key)
    # In `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."` the word is one of a chain of names.
    if held is None or (match["sep"] == ":" and text[start - 1 : start] == ":"):
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    place = _place(text, match, key, line)
    if place is None:
        return None
    first, asked = place
    return _value(text, first, held, asked, _line(match, key, line))


_FIRST_WORDS = ("api", "access", "secret", "private", "auth", "aws", "client")


def _key_start(text: str, at: int) -> int:
    """Where the key begins: over its own signs, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    if at > floor and text[at - 1] in _KEY_SIGNS:
        at = floor + len(text[floor:at].rstrip(_KEY_SIGNS))
    for _ in range(2):
        before = at - 1
        if before <= floor or text[before] != " " or not text[before - 1].isalpha():
            break
        while before > floor and text[before - 1].isalpha():
            before -= 1
        if text[before:at].strip().lower() not in _FIRST_WORDS:
            break
        at = before
    return at


def _own_line(match: "re.Match[str]", line: str) -> bool:
    """Whether key and value have a line of a `.env`, YAML or INI file: then the value goes on to the next space."""
    return match["sep"] in ("=", ":") and not match["close"] and regex(_ENV_LINE).search(line) is not None


def _place(text: str, match: "re.Match[str]", key: str, line: str) -> tuple[int, Strength] | None:
    """Where the value begins and what this syntax asks of it, or None when it assigns nothing."""
    at, sep, close = match.end(), match["sep"], match["close"]
    typed = regex(_TYPED).match(text, at) if sep in (":", "") else None
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
        flag = key.startswith("-") or regex(_SPACE_ASSIGNS).search(line) is not None
        named = holder(key) is _PASSWORD and quoted and not close
        return (at, Strength.WEAK) if flag else (at, Strength.STRONG) if named else None
    if sep in ("==", "===", "!=", "!=="):
        return (at, Strength.STRONG) if quoted else None
    return at, Strength.STRONG


class _Line:
    """Where an assignment stands.

    It may have a line of its own (`whole`), be `tight` (`KEY=value`), have a key in capitals as in a `.env` file
    (`env`) or stand in a list like `user=a password=b host=c` (`listed`; `follows` when it is not the first there).
    """

    __slots__ = ("env", "follows", "listed", "tight", "whole")

    def __init__(self, whole: bool, tight: bool, env: bool, listed: bool, follows: bool) -> None:
        self.whole = whole
        self.tight = tight
        self.env = env
        self.listed = listed
        self.follows = follows


def _line(match: "re.Match[str]", key: str, line: str) -> _Line:
    whole = _own_line(match, line)
    close = match["sep"] == "=" and match.end("sep") == match.end()
    env = whole and key.isupper() and ("_" in key or close) and _NO_ENV.isdisjoint(key.lower().split("_"))
    before = line.split()[-1:] if line[-1:] in (" ", "\t") else []
    follows = bool(before) and regex(_PAIR).fullmatch(before[0]) is not None
    listed = close and not whole and not match["close"] and match.start("sep") == match.end("rest")
    return _Line(whole, whole and close, env, listed, follows)


def _value(text: str, at: int, held: Holder, asked: Strength, line: _Line) -> Span | None:
    scheme = regex(_SCHEME).match(text, at)
    if scheme and scheme[0].lower().startswith("basic"):
        return None  # `secrets` looks inside
    at = scheme.end() if scheme else at
    quoted = regex(_QUOTED).match(text, at) or regex(_ESCAPED).match(text, at)
    match = quoted or regex(_WHOLE if line.whole else _BARE).match(text, at)
    if match is None:
        return None
    value, end = match["value"], match.end("value")
    if quoted:
        inner = regex(_SCHEME).match(value)
        at = match.start("value") + (inner.end() if inner else 0)
        value = value[inner.end() :] if inner else value
    else:
        least = _bare_asks(text, value, end, line)
        if least is None:
            return None
        asked = max(asked, least)
        value = value.rstrip(",;\"'" if line.whole else ".:,;" if asked > Strength.WEAK else ",;")
        end = at + len(value)
    if not _secret(value, max(asked, held.least), held) and not _told_by_line(text, value, end, held, line, quoted):
        return None
    if len(value) >= 280 and not (quoted and match["shut"]):
        more = regex(_MORE).match(text, end)
        end = more.end() if more else end
    return at, end, held.kind


def _told_by_line(text: str, value: str, end: int, held: Holder, line: _Line, quoted: "re.Match[str] | None") -> bool:
    """Whether the line makes a secret of a value that would be none elsewhere: `DB_ROOT_PASSWORD: rootpw`."""
    if held.kind == "password" and _in_list(text, end, line):
        return cased_password(value)
    if not line.env or (quoted and not line.tight):
        return False
    after = text[end : end + 40].partition("\n")[0].strip("\"' \t\r")
    if after and not after.startswith("#"):
        return False
    return plain_password(value) if held is _PASSWORD else held.least == Strength.FAIR and scrambled(value)


def _in_list(text: str, end: int, line: _Line) -> bool:
    """Whether a bare `password=x` has a neighbour of the same form, as in a libpq connection string."""
    return line.listed and (line.follows or regex(_NEXT_PAIR).match(text, end) is not None)


def _bare_asks(text: str, value: str, end: int, line: _Line) -> Strength | None:
    """What is asked of a value without quotes: it may be a variable, a type or a word; None when it is code."""
    value = value.rstrip(",;") if line.whole and not line.tight else value
    identifier = regex(_IDENTIFIER).fullmatch(value) is not None
    in_list = _in_list(text, end, line)
    if _called(value) or "->" in value or "::" in value:
        return None
    if identifier and holder(value) and not ((line.whole or in_list) and len(regex(_DIGITS).findall(value)) > 1):
        return None
    if line.tight and not value.endswith(","):
        return Strength.WEAK
    after, rest = text[end : end + 2], text[end : end + 3]
    if after[:1] in ("(", "[", "{", "<") and after != "</":
        return None
    if len(value) < 20 and regex(_EXPRESSION).fullmatch(value):
        return None
    if line.whole and rest[:1] in ("", "\n", "\r") and text[end - 1 : end] != ",":
        return Strength.WEAK
    if in_list and "." not in value and rest[:1] in ("", " ", "\t", "\n", "\r", '"', "'"):
        return Strength.WEAK
    prose = rest[:1] in (" ", "\t") and rest.strip()[:1] not in ("", *"#/;-&|\\>)}]\"'")
    return Strength.STRONG if prose or identifier else Strength.WEAK


def _called(value: str) -> bool:
    match = regex(_IDENTIFIER).match(value)
    return match is not None and value[match.end() : match.end() + 1] in ("(", "[")


def _secret(value: str, asked: Strength, held: Holder) -> bool:
    if "[redacted" in value:
        return False
    if held.kind == "credential" and basic_login(value):
        return True
    return strength(value) >= asked
