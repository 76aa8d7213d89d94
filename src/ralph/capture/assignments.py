r"""Judge values, and find those that their name makes a secret: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

`token: str`, `PASSWORD=$DB_PASS` and `secret: my-app-secret` are written a thousand times for each real secret, so
references, placeholders, words, dates and paths are ruled out first; the rest gets a grade. A word is recognised by its
case and its vowels. Every step is bounded, and regexes are compiled where they are needed: hooks load this module.
"""

import re
from functools import lru_cache
from itertools import pairwise

from ralph.capture import secret_rules as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int, str]  # start, end and kind of a secret
NONE, WEAK, FAIR, STRONG = range(4)
"""How much a value looks like a secret; WEAK is a password that a person would choose: `hunter2`."""
GRADES = {"weak": WEAK, "fair": FAIR, "strong": STRONG}
_HEAD = 128  # how much of a value is examined: enough to recognise it, and a bound on the work for hostile text

_JOINTS = str.maketrans("", "", "-_. ")
_TEACHING = r"(?i)passw|passwd|secret|token|test|pass|key|demo|user|field|value|string|login"
"""Words that name the thing itself: `password1`, `test-token-2`."""
_REFERENCE_STARTS = (
    *"< [ ( @ & { enc[ $env: $argon2 $ansible $y$ $pbkdf2 $scrypt $apr1 arn: env: file: vault: ssm: urn: op:".split(),
    *"secretsmanager: keyring: awskms: gcpkms: data: secret: md5- md5: md5$ bcrypt scrypt pbkdf2 argon2".split(),
)
_TEMPLATES = ("${", "$(", "{{", "#{", "<%", "%(", "$[", "process.env", "os.environ", "getenv", "import.meta")
_REFERENCE = r"\A(?:![a-z]|\$(?:\d|[a-z_]\w*\Z)|%\w+%\Z|[a-z][a-z0-9+._-]*://|s?sha\d*[}:$-]|\.[a-z0-9]|[a-z]:[/\\])|\{\w*\}|%[sd]\b"
"""Variables, templates, tags, URLs, names of vaults, and hashes."""
_PATH_STARTS = ("./", "../", "/", "~", "\\\\")
_PATH_ENDS = (
    "/",
    *".pem .key .crt .cer .p12 .pfx .json .yml .yaml .txt .py .js .jsx .ts .tsx .env .toml .ini .md .htm .html".split(),
    *".go .rs .java .rb .sh .conf .cfg .pub .jks .lock .log .svg .png .css .com .org .net .io .dev .local .xml".split(),
    *".php .enc .gpg .db .sql .pdf .zip .gz .csv .jpg .jpeg".split(),
)
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"
_OTHER_FORMAT = (
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d+[a-z%]{1,3}$"
    r"|[a-z]+/[a-z0-9.+-]+$|[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$|.*(?:\\[dwsbDWSB]|\[[a-z]-[a-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, addresses, colours, e-mail, sizes, mime types, dotted names and regexes."""
_CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1|\A[^aeiouy]*\Z"
_SYMBOLS = frozenset("!@#$%^&*+=~?")
_SEPARATORS = frozenset("-_./: ")
_UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DEFAULTS = frozenset(rules.DEFAULT_PASSWORDS.split())
_STATES = frozenset(rules.STATES_AND_PRODUCTS.split())
_NOTICES = frozenset(rules.NOTICE_WORDS.split())
_PHRASE = r"[a-z]{3,12}(?:-[a-z]{3,12}){3,7}|[A-Z][a-z]{2,11}(?:[-_.][A-Z][a-z]{2,11}){1,5}[-_.]?\d{2,4}"


def is_placeholder(value: str) -> bool:
    """Check for a stand-in: `changeme`, `xxxx`, `your-key-here`, `abc123`, a sequence."""
    return _has_placeholder_word(value[:_HEAD].lower()) or _is_sequence(value[:48])


def _has_placeholder_word(head: str) -> bool:
    joined = head.translate(_JOINTS)
    both = f"{head}\n{joined}"
    if any(word in both for word in rules.PLACEHOLDERS):
        return True
    return joined.endswith("here") or joined.startswith("some") or len(set(head)) < 4


def _is_sequence(head: str) -> bool:
    """Check whether most neighbours repeat or count upwards: `aaaa`, `abc123`, `0123456789`."""
    return sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head)) / max(1, len(head) - 1) > 0.5


def is_reference(value: str) -> bool:
    """Check for the location of a secret: a variable, a template, a path, a URL, a vault, or a hash."""
    head = value[:_HEAD]
    if head.isalnum():
        return False
    lowered = head.lower()
    if lowered.startswith(_REFERENCE_STARTS) or any(mark in lowered for mark in _TEMPLATES):
        return True
    if re.compile(_REFERENCE).search(lowered) or ("$" in head and re.compile(r"\$[A-Z][A-Z_]{3,}").search(head)):
        return True
    is_path = lowered.startswith(_PATH_STARTS) or lowered.endswith(_PATH_ENDS)
    return is_path and (re.compile(_BASE64_RUN).fullmatch(head) is None or is_wordy(head))


def is_wordy(value: str) -> bool:
    """Check whether a value is made of words, in any usual way of joining them, with few digits."""
    chunks = re.compile(_CHUNK).findall(value[:_HEAD])
    words = [chunk for chunk in chunks if chunk[0].isalpha()]
    digits = [chunk for chunk in chunks if chunk[0].isdigit()]
    others = {chunk for chunk in chunks if not chunk[0].isalnum()}
    if not words or not others <= _SEPARATORS or len(digits) > 2 or sum(map(len, digits)) > 4:
        return False
    if sum(map(len, words)) / len(words) < 3 or (not others and len(digits) > 1):
        return False
    long = [word for word in words if len(word) > 4]  # a shorter one may be any name
    regex = re.compile(_UNNATURAL)
    return not any((len(word) > 14 and word.isupper()) or regex.search(word.lower()) for word in long)


def is_random(body: str) -> bool:
    """Check whether a program made this text, rather than somebody who wrote a manual."""
    return is_token_body(body) and not is_wordy(body[:_HEAD])


def is_token_body(body: str) -> bool:
    """Check what follows the prefix of a vendor: anything but a placeholder or plain letters of one case."""
    head = body[:_HEAD]
    if is_placeholder(head) or len(set(head)) < min(8, len(head) // 2):
        return False
    return has_both_cases(head) or any(map(str.isdigit, head))


def has_both_cases(value: str) -> bool:
    """Check for upper and lower case letters."""
    return value.lower() != value and value.upper() != value


def grade(value: str) -> int:
    """Return how much an assigned value looks like a secret."""
    return _grade(value[:_HEAD])


@lru_cache(1024)  # output repeats its values
def _grade(head: str) -> int:
    if head.count("-") == 4 and re.compile(_UUID).fullmatch(head):
        lowered = head.lower()
        if lowered.startswith(rules.EXAMPLE_UUIDS) or len(set(lowered)) < 6:
            return NONE
        random = lowered[14] == "4" and lowered[19] in "89ab"  # a random one may count upwards
        return FAIR if random or not is_placeholder(head) else NONE
    if len(head) < 6 or any(map(str.isspace, head)) or "[redacted: " in head:
        return NONE
    digit, letter, cased = any(map(str.isdigit, head)), any(map(str.isalpha, head)), has_both_cases(head)
    by_policy = 8 <= len(head) <= 10 and cased and digit  # `Abcd1234` is typed by people
    if _has_placeholder_word(head.lower()) or (_is_sequence(head[:48]) and not by_policy):
        return NONE
    other = (not head.isalnum() or head[0].isdigit()) and re.compile(_OTHER_FORMAT).match(head)
    if other or is_reference(head):
        return NONE
    if is_wordy(head):
        # `hunter2` and `Blue-Horse-77` are passwords; `test-token-2`, `password1` and `sha256` are not.
        if re.compile(_TEACHING).search(head):
            return NONE
        if digit and _SEPARATORS.isdisjoint(head) and len(head) >= 7:
            return WEAK
        parts = head.lower().replace("_", "-").replace(".", "-").split("-")
        return WEAK if re.compile(_PHRASE).fullmatch(head) and _NOTICES.isdisjoint(parts) else NONE
    if digit and letter:
        if len(set(head)) < 5:
            return NONE
        if len(head) >= 16 or (len(head) >= 8 and (cased or not _SYMBOLS.isdisjoint(head))):
            return STRONG
        return FAIR if len(head) >= 10 else WEAK
    if digit:
        return WEAK if len(head) >= 8 and head.isdigit() else NONE
    if not (letter and head.isascii()):
        return NONE
    symbols = [character for character in head[1:-1] if character in _SYMBOLS and character not in "=+"]
    if symbols and (cased or len(symbols) > 1):
        return FAIR
    if not head.isalpha():
        return NONE
    if cased:
        return STRONG if len(head) >= 20 else FAIR if len(head) >= 8 else NONE
    return FAIR if len(head) >= 16 else NONE


def is_plain_password(value: str) -> bool:
    """Check a short word of an environment line: no default, no state, no name of a product."""
    if not re.compile(r"[a-z][a-z0-9]{5,23}").fullmatch(value) or value in _DEFAULTS or value in _STATES:
        return False
    return not (re.compile(_TEACHING).search(value) or is_placeholder(value) or is_reference(value))


def is_cased_password(value: str) -> bool:
    """Check letters in both cases in a list of `name=value`: `BlueHorse`, not `userName`."""
    if not re.compile(r"[A-Za-z]{6,64}").fullmatch(value) or not has_both_cases(value):
        return False
    words = {word.lower() for word in re.compile(_CHUNK).findall(value)}
    return not (
        words & (_NOTICES | _DEFAULTS | _STATES) or re.compile(_TEACHING).search(value) or is_placeholder(value)
    )


def is_login_password(user: str, password: str) -> bool:
    """Check the password of `user:password` in a URL or a Basic header: no default, no placeholder."""
    lowered = password.lower()
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULTS or any(map(str.isspace, password)):
        return False
    if is_placeholder(password) or is_reference(password) or "[redacted: " in password:
        return False
    return not (is_wordy(password) and re.compile(_TEACHING).search(password))


def _is_basic_login(encoded: str) -> bool:
    """Check whether base64 text is `user:password` with a real password."""
    try:
        decoded = _decode_base64(encoded).decode("utf-8")
    except ValueError:
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon) and decoded.isprintable() and is_login_password(user, password)


def encodes_digits(encoded: str) -> bool:
    """Check whether base64 text contains digits only, as the first part of a Discord token does."""
    try:
        return _decode_base64(encoded.replace("-", "+").replace("_", "/")).isdigit()
    except ValueError:
        return False


def _decode_base64(encoded: str) -> bytes:
    import binascii  # few texts need it

    return binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4), strict_mode=True)


def meets(condition: str, value: str) -> bool:
    """Check a value by the condition that a rule names."""
    if condition == "basic login":
        return _is_basic_login(value)
    if condition in ("login", "piped"):
        return is_login_password("", value) and not value.isdigit()
    return condition == "any" or ((condition == "random" or grade(value) >= GRADES[condition]) and is_random(value))


# --- names --------------------------------------------------------------------------------------

SecretName = tuple[str, int]
"""What a key of this name stores: the kind of secret, and the weakest value that counts."""

_PASSWORD: SecretName = ("password", WEAK)
_ENDINGS = [
    (tuple(endings), (kind.replace("_", " "), GRADES[least]))
    for kind, least, *endings in map(str.split, rules.NAMES.strip().splitlines())
]
_NEUTRAL = frozenset(rules.NEUTRAL_WORDS.split())
_BEFORE = {"token": frozenset(rules.BEFORE_TOKEN.split()), "key": frozenset(rules.BEFORE_KEY.split())}
_BEFORE_ANY = frozenset(rules.BEFORE_ANY.split())
_CONSTANTS = frozenset(rules.CONSTANT_WORDS.split())


def secret_name(key: str) -> SecretName | None:
    """Return what a key of this name stores, or None: its last word decides, after neutral words like `_prod`."""
    words = [word.lower() for word in re.compile(_CHUNK).findall(key) if word.isalnum()]
    while len(words) > 1 and (words[-1] in _NEUTRAL or words[-1].isdigit()):
        words.pop()
    joined = "".join(words)
    if not words or joined.endswith(rules.NOT_PASS):
        return None
    if len(words) > 1 and (words[-2] in _BEFORE.get(words[-1], ()) or words[-2] in _BEFORE_ANY):
        return None  # `next_token`, `cache_key`, `is_password`
    for endings, name in _ENDINGS:
        if joined.endswith(endings):
            return name
    if words[-1] in ("pass", "pw"):
        return _PASSWORD if len(words) > 1 else ("password", STRONG)
    is_constant = len(words) > 1 and key.rpartition(".")[2].strip("-").isupper()
    return ("api key", STRONG) if words[-1] in ("pat", "key") and is_constant else None


# --- the syntax of an assignment ----------------------------------------------------------------

_AFTER_WORD = r"""(?x)(?P<rest>[a-z0-9_.\-]{0,40}+)(?P<close>[*"'`\\\])]{0,5}+)(?:[ ]\[[^\]\n]{0,24}\](?=:))?
    (?:(?P<pair>[\s,"'\\]{1,24}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8})
      |[ \t]{0,24}+(?P<sep>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>|,|\||(?:is|was)[ ](?=\S)|(?<=[ \t]))[* \t]{0,24}+)"""
_TYPED = r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])"
_QUOTED = (
    r"[brfuBRFUL@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+(?:(?:\\.|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
_ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
_UNQUOTED = (
    r"(?P<value>(?=\S)[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+"
    r"(?:(?:&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\]))[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+){0,9})"
)
_TO_BLANK = r"(?P<value>(?=\S)[^\s\\]{0,300}+(?:\\(?![nrt\"'])[^\s\\]{0,300}+){0,9})"
_MORE = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_LABEL = r"""(?x)(?=[비패암密口パ暗пc토令トa시金秘シ])
    (?:(?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль|contraseña)
      |(?P<token>토큰|令牌|トークン)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|密钥|密鑰|金鑰|秘密鍵|シークレットキー))
    [*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+(?P<sep>[=＝：|은는は是为為]|:(?!//))[* \t\u3000]{0,8}+"""
_ASCII = r"(?P<value>[!-~]{6,300}+)"
_KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_FIRST_WORDS = r"(?i)(?:\b(?:api|access|secret|private|auth|aws|client) ){1,2}\Z"
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx|\bsetenv|#define|\bconfig[ \t]+set|\bsecrets?[ \t]+set)[ \t]+\S*\Z"
)
_LINE_START = r"(?:\A|\\n)[ \t\r]*(?:[-+>*#$][ \t]+)?(?:(?:export|ENV|ARG|set(?:[ \t]+-\S*)?|-e)[ \t]+)?\Z"
"""Nothing before a name but blanks, a list mark, and `export` or the like."""
_SCHEME = rf"(?i)(?:{'|'.join(sorted(rules.SCHEMES, key=len, reverse=True))})[ :]+(?=[^\s:])"
_PAIR_BEFORE = r"(?:\A|[ \t])[\"']?[A-Za-z_]\w{0,40}=[^=,;()\[\]{}<>\s]{1,100}[ \t]+\Z"
_PAIR_AFTER = r"[ \t]{1,4}[A-Za-z_]\w{0,40}=[^=\s]"
_EXPRESSION = r"[A-Za-z_]\w*=[A-Za-z]\w*|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"


def assigned_secrets(text: str, lowered: str) -> "Iterator[Span]":
    """Yield every value that is assigned to the name of a secret and looks like one."""
    ends: set[int] = set()
    covered, current = 0, ""
    for keyword, at in rules.assignment_keywords(text, lowered):
        covered, current = (covered, current) if keyword == current else (0, keyword)
        match = re.compile(_AFTER_WORD).match(lowered, at + len(keyword)) if at >= covered else None
        # Inside of a secret there is no key: looking there again would cost its length each time.
        if match and match.end() not in ends:
            ends.add(match.end())
            span = _assigned(text, at, match)
            if span is not None:
                covered = span[1]
                yield span
    if not text.isascii() and any(part in lowered for part in rules.LABELS.split()):
        yield from _labelled(text, lowered)


def _labelled(text: str, lowered: str) -> "Iterator[Span]":
    """Yield what follows a label in another script; the value is ASCII, for words of that script may follow it."""
    for match in re.compile(_LABEL).finditer(lowered):
        name = _PASSWORD if match["password"] else ("token" if match["token"] else "secret key", FAIR)
        quoted = re.compile(_QUOTED).match(text, match.end()) or re.compile(_ESCAPED).match(text, match.end())
        value_match = quoted or re.compile(_ASCII).match(text, match.end())
        if value_match is None or _is_call(value_match["value"]):
            continue
        value = value_match["value"] if quoted else value_match["value"].rstrip("\"'`,;.:|)]}>*")
        end = value_match.start("value") + len(value)
        after = text[end : end + 40].partition("\n")[0].strip(" \t\r*|,;.)」』】。、，")
        sure = match["sep"] in ("=", ":", "：", "＝") and (quoted or not after or after.startswith(("#", "//")))
        if _is_secret(value, name[1] if sure else STRONG, name):
            yield value_match.start("value"), end, name[0]


def _assigned(text: str, at: int, match: "re.Match[str]") -> Span | None:
    """Return the value of an assignment, whose keyword is at `at`, if it is a secret."""
    start = _key_start(text, at)
    key, separator = text[start : match.end("rest")], match["sep"]
    name = secret_name(key)
    # In `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."` the word is one of a chain of names.
    if name is None or (separator == ":" and text[start - 1 : start] == ":"):
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    begin, required = _value_start(text, match, key, line)
    at = _after_scheme(text, begin)
    if required == NONE or (at > begin and text[begin : begin + 5].lower() == "basic"):
        return None  # a rule for the header decodes it
    tight = separator == "=" and match.end("sep") == match.end()
    whole = separator in ("=", ":") and not match["close"] and bool(not line or re.compile(_LINE_START).search(line))
    quoted = None
    if text[at : at + 3].lstrip("brfuBRFUL@$")[:1] in ("'", '"', "`", "\\"):
        quoted = re.compile(_QUOTED).match(text, at) or re.compile(_ESCAPED).match(text, at)
    value_match = quoted or re.compile(_TO_BLANK if whole else _UNQUOTED).match(text, at)
    if value_match is None:
        return None
    value, end = value_match["value"], value_match.end("value")
    syntax = ("tight" if tight else "line") if whole else ""
    if tight and not whole and not match["close"] and match.start("sep") == match.end("rest"):
        is_listed = re.compile(_PAIR_BEFORE).search(line) or re.compile(_PAIR_AFTER).match(text, end)
        syntax = "list" if is_listed else ""
    if quoted:
        skipped = _after_scheme(value, 0)
        at, value = value_match.start("value") + skipped, value[skipped:]
    else:
        least = _unquoted_grade(text, value, end, syntax)
        if least == NONE:
            return None
        required = max(required, least)
        value = value.rstrip(",;\"'" if whole else ".:,;" if required > WEAK else ",;")
        end = at + len(value)
    if not _is_secret(value, max(required, name[1]), name):
        is_env = syntax == "tight" or (syntax == "line" and "_" in key and not quoted)
        is_env = is_env and key.isupper() and _CONSTANTS.isdisjoint(key.lower().split("_"))
        if not (is_env or syntax == "list") or not _is_secret_by_line(text, value, end, name, syntax):
            return None
    if len(value) >= 280 and not (quoted and value_match["shut"]):
        more = re.compile(_MORE).match(text, end)
        end = more.end() if more else end
    return at, end, name[0]


def _key_start(text: str, at: int) -> int:
    """Return where the key begins: over its own characters, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    at = floor + len(text[floor:at].rstrip(_KEY_CHARACTERS))
    words = re.compile(_FIRST_WORDS).search(text, floor, at) if text[at - 1 : at] == " " else None
    return words.start() if words else at


def _value_start(text: str, match: "re.Match[str]", key: str, line: str) -> tuple[int, int]:
    """Return where the value begins and the grade that this syntax requires, NONE when it assigns nothing."""
    at, separator, close = match.end(), match["sep"], match["close"]
    typed = re.compile(_TYPED).match(text, at) if separator in (":", "") else None
    if typed or match["pair"] or separator in ("=", ":=", "=>", "?=", ":"):
        return typed.end() if typed else at, WEAK
    quoted = text[at : at + 1] in ("'", '"', "`", "\\")
    if separator == ">" or (separator == "" and (key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line))):
        return at, WEAK if separator == "" or line.endswith("<") else NONE
    assigns = {
        ",": quoted and bool(close),
        "": quoted and not close and secret_name(key) == _PASSWORD,
        **dict.fromkeys(("==", "===", "!=", "!=="), quoted),
    }
    return at, STRONG if assigns.get(separator, True) else NONE


def _after_scheme(text: str, at: int) -> int:
    """Return where the value begins after a scheme such as `Bearer`; `at` without one."""
    if not text[at : at + 8].lower().startswith(rules.SCHEMES):
        return at
    match = re.compile(_SCHEME).match(text, at, at + 48)
    return match.end() if match else at


def _is_secret(value: str, required: int, name: SecretName) -> bool:
    if "[redacted" in value:
        return False
    return (name[0] == "credential" and _is_basic_login(value)) or grade(value) >= required


def _is_secret_by_line(text: str, value: str, end: int, name: SecretName, syntax: str) -> bool:
    """Check a value that is a secret only because of its line: `DB_ROOT_PASSWORD: rootpw`."""
    if syntax == "list":
        return name[0] == "password" and is_cased_password(value)
    after = text[end : end + 40].partition("\n")[0].strip("\"' \t\r")
    if after and not after.startswith("#"):
        return False
    if name == _PASSWORD:
        return is_plain_password(value)
    # A short value that mixes cases and digits and forms no word: `Zx9kLm`.
    return name[1] == FAIR and has_both_cases(value) and grade(value) >= WEAK and not is_wordy(value)


def _unquoted_grade(text: str, value: str, end: int, syntax: str) -> int:
    """Return the grade that a value without quotes needs, for it may be a variable or a word; NONE for code.

    `syntax`: "line" for a line of a `.env`, YAML or INI file, "tight" for one written `KEY=value`, "list" for a member
    of a list like `user=a password=b`.
    """
    value = value.rstrip(",;") if syntax == "line" else value
    identifier = _is_identifier(value)
    if _is_call(value) or "->" in value or "::" in value:
        return NONE
    if identifier and secret_name(value) and not (syntax and len(re.compile(r"\d+").findall(value)) > 1):
        return NONE
    if syntax == "tight" and not value.endswith(","):
        return WEAK
    rest = text[end : end + 3]
    if rest[:1] in ("(", "[", "{", "<") and rest[:2] != "</":
        return NONE
    if len(value) < 20 and not value.isalnum() and re.compile(_EXPRESSION).fullmatch(value):
        return NONE
    if syntax in ("line", "tight") and rest[:1] in ("", "\n", "\r") and text[end - 1 : end] != ",":
        return WEAK
    if syntax == "list" and "." not in value and rest[:1] in ("", " ", "\t", "\n", "\r", '"', "'"):
        return WEAK
    prose = rest[:1] in (" ", "\t") and rest.strip()[:1] not in ("", *"#/;-&|\\>)}]\"'")
    return STRONG if prose or identifier else WEAK


def _is_call(value: str) -> bool:
    name = value.partition("(")[0].partition("[")[0]
    return name != value and _is_identifier(name)


def _is_identifier(value: str) -> bool:
    """Check for a variable, also of an object: `settings.password`, `$this->token`, `a?.b`, `Some::key`."""
    for joint in ("?.", "->", "::"):
        value = value.replace(joint, ".")
    return all(part.replace("$", "_").isidentifier() for part in value.split("."))
