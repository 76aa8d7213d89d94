r"""Whether a name of a secret is given a value, told from bytes: the light side of `capture/assignments`.

From each telling word we look left and right for the whole name, then for a sign of assignment, then at
what follows. Each step asks for less than the rule does: neighbours that make a name harmless, lines of
code and prose are not understood here. A value is let through only for a reason that holds however the
rules may read it: too short, a reference, a call, a text of several words, small letters only. Lengths are
counted in bytes as they came, which are never fewer than the signs that they stand for.
`tests/hooks/test_screen.py` proves it together with the screen.
"""

_WORDS = (
    b"pass", b"pwd", b"psswd", b"pswd", b"secret", b"token", b"credential", b"creds", b"auth", b"jwt", b"bearer",
    b"key", b"_pat", b"_pw", b"salt",
)  # fmt: skip
_ENDINGS = (
    b"password", b"passwd", b"passwrd", b"passphrase", b"passcode", b"pwd", b"userpass", b"dbpass", b"storepass",
    b"keypass", b"rootpass", b"adminpass", b"smtppass", b"mailpass", b"passwort", b"pswd", b"psswd",
    b"awssecretkey", b"awssecret", b"apikey", b"appkey", b"applicationkey", b"subscriptionkey", b"integrationkey",
    b"ingestkey", b"servicerolekey", b"functionskey", b"functionkey", b"servicekey", b"apisecret", b"accesskey",
    b"secretkey", b"privatekey", b"signingkey", b"encryptionkey", b"masterkey", b"accountkey", b"sharedkey",
    b"authkey", b"webhookkey", b"deploykey", b"hmackey", b"jwtkey", b"sessionkey", b"cookiekey", b"cryptkey",
    b"adminkey", b"clientkey", b"licensekey", b"presharedkey", b"noncekey", b"loggedinkey", b"authsalt", b"noncesalt",
    b"loggedinsalt", b"cipherkey", b"aeskey", b"decryptionkey", b"securekey", b"secret", b"secrets", b"token", b"jwt",
    b"bearer", b"credential", b"credentials", b"auth", b"authorization", b"connectionkey", b"creds",
)  # fmt: skip
_NEUTRAL = (
    b"value", b"val", b"prod", b"production", b"dev", b"development", b"staging", b"stage", b"test", b"testing",
    b"live", b"sandbox", b"local", b"old", b"new", b"previous", b"primary", b"secondary", b"backup", b"main",
    b"default", b"base", b"b64", b"base64", b"plain", b"plaintext", b"raw", b"confirmation", b"confirm", b"string",
    b"str", b"text", b"ro", b"rw", b"read", b"write", b"readonly", b"admin", b"root", b"v",
)  # fmt: skip
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER, _DIGITS = _UPPER.lower(), b"0123456789"
_LETTERS = _UPPER + _LOWER
_KEY_SIGNS = _LETTERS + _DIGITS + b"_.-"
_NOT_ALNUM = bytes(sign for sign in range(256) if sign not in _LETTERS + _DIGITS)
_FIRST_WORDS = (b"api", b"access", b"secret", b"private", b"auth", b"aws", b"client")
_CLOSERS = b"*\"'`\\])"
_QUOTES = b"\"'`"
_BEFORE_VALUE = _CLOSERS + b" ,\t\n\rnrtf" + bytes(range(128, 256))
_SEPARATORS = (b"===", b"==", b"=>", b"=", b":=", b"?=", b"!==", b"!=", b":", b">", b",", b"|")
_SETTERS = (b"env", b"arg", b"set", b"define")
_SCHEMES = (b"bearer", b"token", b"apikey", b"api-key", b"key", b"basic", b"digest", b"ssws", b"bot", b"sso-key",
            b"geniekey")  # fmt: skip
_TYPE_SIGNS = bytes(range(128, 256)) + _LETTERS + _DIGITS + b"&_<>[]|., ?*:"
_ENDS = b"\"'`,;|<>(){}[]"
_WEAK = _LOWER + _UPPER + b"_./:,;\"'`()[]{}<>|\\"
"""Signs of which no secret is made, if the letters are few or small: no digit, no `-`, no sign of a password."""

LOWER_LOGIN = (b"jo", b"jp", b"jq", b"jr", b"zo", b"zp", b"zq", b"zr")
"""In base64 without capitals and digits, the `:` of an encoded `user:password` can only be one of these."""

_LABELS = (
    "비밀번호", "비밀 번호", "패스워드", "비번", "암호", "密码", "密碼", "口令", "パスワード", "暗証番号", "пароль",
    "contraseña", "토큰", "令牌", "トークン", "api키", "api 키", "apiキー", "api キー", "비밀키", "비밀 키", "시크릿키",
    "시크릿 키", "密钥", "密鑰", "金鑰", "秘密鍵", "シークレットキー",
)  # fmt: skip


def labelled(lowered: str) -> bool:
    """Whether a label in another script is followed by a sign of assignment."""
    for label in _LABELS:
        at = lowered.find(label)
        while at >= 0:
            rest = (
                lowered[at + len(label) : at + len(label) + 80].replace("\\t", "").lstrip("*\"'`\\])）】」』 \t\u3000")
            )
            if rest[:1] in ("=", "＝", "：", "|", "은", "는", "は", "是", "为", "為", ":"):
                return True
            at = lowered.find(label, at + 1)
    return False


def assigned(raw: bytes, lowered: bytes) -> bool:
    """Whether something named like a secret is given a value that might be one."""
    for word in _WORDS:
        at = lowered.find(word)
        while at >= 0:
            end = at + len(word)
            while end < len(lowered) and lowered[end] in _KEY_SIGNS:
                end += 1
            if _name(raw, lowered, at, len(word), end) and _given(raw, lowered, at, end):
                return True
            at = lowered.find(word, at + 1)
    return False


def _name(raw: bytes, lowered: bytes, at: int, size: int, end: int) -> bool:
    """Whether the name that holds this word may be one of a secret, whatever neutral words end it."""
    before = lowered[max(0, at - 80) : at].translate(None, _NOT_ALNUM)
    last_word = _last_word(raw, lowered, at, size)
    tails = [lowered[at + size : end].translate(None, _NOT_ALNUM)]
    seen = set()
    while tails:
        tail = tails.pop()
        if (
            (not tail and last_word)
            or tail.endswith((b"pw", b"pat"))
            or (before + lowered[at : at + size].lstrip(b"_") + tail).endswith(_ENDINGS)
        ):
            return True
        seen.add(tail)
        shorter = {tail.rstrip(_DIGITS), *(tail[: -len(word)] for word in _NEUTRAL if tail.endswith(word))}
        tails += [each for each in shorter if each not in seen]
    return False


def _last_word(raw: bytes, lowered: bytes, at: int, size: int) -> bool:
    """Whether this word alone may tell: `DB_PASS`, `db_pw`, `GITHUB_PAT`, `ACME_KEY`."""
    word, before = raw[at : at + size], raw[max(0, at - 2) : at]
    if word == b"KEY":
        near = lowered[max(0, at - 12) : at]
        return near[-1:] in (b"_", b".", b"-") or near[-1:].isdigit() or near.rstrip(b" ").endswith(_FIRST_WORDS)
    if word.lower() == b"pass":
        free = not before or before[-1] not in _LETTERS or (before[:1] == b"\\" and before[1:] in b"nrtfb")
        return free or word[0] in _UPPER
    return word.lower() == b"_pw" or word == b"_PAT"


def _given(raw: bytes, lowered: bytes, at: int, end: int) -> bool:
    """Whether the name that ends here is followed by a sign of assignment and something like a secret."""
    ahead = raw[end : end + 400]
    blank = _without_tabs(ahead)
    closed = len(blank) - len(blank.lstrip(_CLOSERS))
    place = len(blank) - len(blank[closed:].lstrip(b" \t"))
    if lowered[end : end + 200].lstrip(_BEFORE_VALUE).startswith(b"value"):
        return True
    if blank.startswith(b"[", place) and 0 < blank.find(b"]:", place) < place + 30:
        place = blank.find(b"]:", place) + 1
    certain, env = closed > 0, raw[at:end] == raw[at:end].upper()
    for sign in _SEPARATORS:
        if blank.startswith(sign, place):
            value = ahead[place + len(sign) :]
            return _value(value, certain, env) or (sign == b":" and _typed(value, env))
    if blank[place : place + 4].lower().startswith((b"is ", b"was ")):
        return _value(ahead[place + 3 :], certain, env)
    if place == closed:
        return False
    quoted = blank[place : place + 1] in (b'"', b"'", b"`", b"\\")
    told = quoted or _told(lowered, at)
    return _typed(ahead[place:], env) or (told and _value(ahead[place:], certain, env))


def _without_tabs(text: bytes) -> bytes:
    """The text with spaces for its tabs, however deep they are quoted, and as long as it was."""
    if b"\\t" in text:
        for tab in (b"\\\\\\\\t", b"\\\\t", b"\\t"):
            text = text.replace(tab, b" " * len(tab))
    return text


def _told(lowered: bytes, at: int) -> bool:
    """Whether `name value` may be an assignment: behind a flag's dash, or a word like ENV."""
    before = lowered[max(0, at - 200) : at]
    run = before[len(before.rstrip(_KEY_SIGNS)) :]
    return b"-" in run or any(word in before for word in _SETTERS)


def _typed(value: bytes, env: bool) -> bool:
    """`: str = "..."`: what is assigned stands behind a type."""
    kind, equals, rest = value[:200].partition(b"=")
    if not equals or kind.translate(None, _TYPE_SIGNS):
        return False
    rest = value[len(value) - len(_without_tabs(value[len(kind) + 1 :]).lstrip(b" \t")) :]
    return rest[:1] in (b'"', b"'", b"`", b"\\") and _value(rest, False, env)


def _value(ahead: bytes, certain: bool, env: bool) -> bool:
    """Whether what follows an assignment may be a secret; `certain`: the name was quoted, so no line of its own."""
    start = _without_tabs(ahead).lstrip(b"* \t")
    start = ahead[len(ahead) - len(start) :]
    bare = start.lstrip(b"\"'`\\")
    if bare.lower().startswith(_SCHEMES):
        after = bare.lower().lstrip(_LETTERS + b"-")[:1]
        if after in (b" ", b":"):
            return True
    body = start.lstrip(b"\\")
    slashes = len(start) - len(body)
    if body[:1] in (b'"', b"'", b"`") and body:
        return _quoted(body[1:], body[:1], slashes, env, certain)
    if start[:1].lower() in (b"b", b"r", b"f", b"u", b"l", b"@", b"$") and _after_prefix(start):
        return True
    return _bare(start, certain, env)


def _after_prefix(start: bytes) -> bool:
    """`b"..."`, `rb'...'`, `$"..."`: a quote stands behind one or two letters."""
    return any(sign in _QUOTES + b"\\" for sign in start[1:3])


def _quoted(inside: bytes, quote: bytes, slashes: int, env: bool, certain: bool) -> bool:
    """Whether a quoted text may be a secret."""
    end = inside.find(quote)
    before = inside[:end] if end >= 0 else inside
    own = len(before) - len(before.rstrip(b"\\"))
    closed = end >= 0 and own == slashes
    content = before[: len(before) - own] if closed else inside
    if closed and not content:
        return not certain and len(inside.partition(b" ")[0]) >= 6
    first, blank, _ = content[:100].partition(b" ")
    if blank and not any(sign in first for sign in _QUOTES + b"\\\x1b"):
        return False
    if closed and len(content) < 6:
        return False
    if content[:1] in (b"[", b"(", b"{", b"@", b"&", b"<") or content[:2] in (b"${", b"$("):
        return False
    return not (closed and _weak(content, env))


def _bare(start: bytes, certain: bool, env: bool) -> bool:
    """Whether a text without quotes may be a secret: as a line of its own (unless `certain`), or up to a sign."""
    line = start
    for blank in (b" ", b"\\n", b"\\r", b"\\t"):
        line = line.partition(blank)[0]
    word = line
    for sign in _ENDS:
        word = word.partition(bytes((sign,)))[0]
    longest = word if certain else line
    if len(longest) < 6 or start[:1] in (b"[", b"(", b"{", b"<"):
        return False
    if start[:2] in (b"${", b"$("):
        return False
    parts = word.split(b".")
    called = (
        all(parts) and not word.translate(None, _LETTERS + b"_.") and start[len(word) : len(word) + 1] in (b"(", b"[")
    )
    return not called and not _weak(longest, env)


def _weak(value: bytes, env: bool) -> bool:
    """Whether a value has only small letters and signs that no password is made of, and no word of it is long."""
    if env or value.translate(None, _WEAK) or value.lower() != value:
        return False
    if any(pair in value for pair in LOWER_LOGIN):
        return False
    longest = run = 0
    for sign in value:
        run = run + 1 if sign in _LOWER else 0
        longest = max(longest, run)
    return longest < 16
