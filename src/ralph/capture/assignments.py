r"""Judge values, and find those that their name makes a secret: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

Behind a name that says password, everything counts that is no reference, placeholder, type, state or prose
(`is_password`); behind other names only what a program made (`grade`), for `token: str` is common. Every step is
bounded, and regexes are compiled where they are needed: hooks load this module.
"""

import re
from functools import lru_cache
from itertools import pairwise

from ralph.capture import secret_prefilter as prefilter
from ralph.capture import secret_rules as rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int, str]  # start, end and kind of a secret
NONE, FAIR, STRONG = range(3)  # how much a value looks as if a program made it
PROSE, COPULA, LITERAL, SURE = range(4)
"""How sure a place is to contain a password: `password x`, `the password is x`, `login(user, "x")`, `PASSWORD=x`."""
GRADES = {"fair": FAIR, "strong": STRONG}
_HEAD = 128  # how much of a value is examined: enough to recognise it, and a bound on the work for hostile text

_JOINTS = str.maketrans("", "", "-_. ")
_LEET = str.maketrans("0@134$5", "oaieass")
_NAMING = frozenset("password passwd passwort pwd secret secrets token pass passphrase kennwort credential".split())
_REFERENCE = r"\A(?:![a-z]|\$(?:\d|[a-z_]\w*(?:\Z|\())|%\w+%\Z|:'|[a-z][a-z0-9+._-]*://|s?sha\d*[}:$-]|\.[a-z0-9]|[a-z]:[/\\])|\{\w*\}|%[sd]\b"
"""Variables, templates, tags, URLs, names of vaults, publishable keys, and hashes."""
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"
_DOTTED_NAME = r"[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$"
_CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1|\A[^aeiouy]*\Z"
_SYMBOLS = frozenset("!@#$%^&*+=~?")
_SEPARATORS = frozenset("-_./: ")
_UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DEFAULTS = frozenset(rules.DEFAULT_PASSWORDS.split())
_NAME_WORDS = _DEFAULTS | {*rules.STATES_AND_PRODUCTS.split(), *rules.NOTICE_WORDS.split(), *rules.LABEL_WORDS.split()}
_TECHNICAL = frozenset(rules.TECHNICAL_WORDS.split())
_KNOWN = _NAME_WORDS | _TECHNICAL
_MESSAGE_KEY = r"[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+"
_NO_PROSE = r"[A-Z]{2,10}-\d+|\d+\+?[a-z]{1,6}|\d+-[a-z]+|[a-z]{1,5}-?\d{1,3}|[A-Z]\w*\(.*|.*[\w)!?]\(.*"
"""What a sentence has beside the word password: a ticket, `12-character`, `step2`, a call."""
_CHOSEN_WORDS = r".*[a-z][-_][A-Z][a-z]|.*[a-z]_|[a-z]{20,40}\Z"


def is_placeholder(value: str) -> bool:
    """Check for a stand-in: `changeme`, `xxxx`, `your-key-here`, `abc123`, a sequence."""
    return _has_placeholder_word(value[:_HEAD]) or _is_sequence(value[:48])


def _has_placeholder_word(head: str) -> bool:
    lowered = head.lower()
    joined = lowered.translate(_JOINTS)
    both = f"{lowered}\n{joined}"
    stand_in = next((word for word in rules.PLACEHOLDERS if word in both), "")
    mixed = has_both_cases(head) and any(map(str.isdigit, head))  # `changeit-Acme-91`
    if stand_in or len(set(lowered)) < 4:
        extended = mixed or re.compile(r"(?=.*[a-z]{2}).*\d{2}").search(lowered.replace(stand_in, ""))
        return not (stand_in in rules.WEAK_PASSWORDS and extended)
    words = {word.lower() for word in re.compile(_CHUNK).findall(head)}
    if mixed and _NAMING.isdisjoint(words) and "key" not in words:
        words -= {"your", "here", "some", "hidden"}  # `Wint3r_is_here`
    return not rules.PLACEHOLDER_WORDS.isdisjoint(words)


def _is_sequence(head: str, share: float = 0.5) -> bool:
    return sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head)) / max(1, len(head) - 1) > share


def is_reference(value: str) -> bool:
    """Check for the location of a secret: a variable, a path, a URL, a vault, a hash."""
    head = value[:_HEAD]
    if head.isalnum():
        return False
    lowered = head.lower()
    digit = any(map(str.isdigit, head))
    if digit and has_both_cases(head) and head[0] in "(@&!~" and {*head[1:]}.isdisjoint("()/. "):
        return False  # `&x9Kp2-Lm`
    if lowered.startswith(rules.REFERENCE_STARTS) or any(mark in lowered for mark in rules.TEMPLATES):
        return True
    if re.compile(_REFERENCE).search(lowered) or ("$" in head and re.compile(r"\$[A-Z][A-Z_]{3,}").search(head)):
        return True
    is_host = digit and "/" not in head and lowered.endswith(rules.HOST_ENDS)
    is_path = lowered.startswith(rules.PATH_STARTS) or (lowered.endswith(rules.PATH_ENDS) and not is_host)
    return is_path and (re.compile(_BASE64_RUN).fullmatch(head) is None or is_wordy(head))


def is_wordy(value: str) -> bool:
    """Check whether a value is made of words with few digits."""
    chunks = re.compile(_CHUNK).findall(value[:_HEAD])
    words = [chunk for chunk in chunks if chunk[0].isalpha()]
    digits = [chunk for chunk in chunks if chunk[0].isdigit()]
    others = {chunk for chunk in chunks if not chunk[0].isalnum()}
    if not words or not others <= _SEPARATORS or len(digits) > 2 or sum(map(len, digits)) > 4:
        return False
    if sum(map(len, words)) / len(words) < 3 or (not others and len(digits) > 1):
        return False
    if not others and sum(set("aeiouy").isdisjoint(word.lower()) for word in words if len(word) > 1) > 1:
        return False
    long = [word for word in words if len(word) > 4]  # a shorter one may be any name
    regex = re.compile(_UNNATURAL)
    return not any((len(word) > 14 and word.isupper()) or regex.search(word.lower()) for word in long)


def is_token_body(body: str) -> bool:
    """Check what follows the prefix of a vendor: anything but a stand-in."""
    head = body[:_HEAD]
    return not (re.compile(rules.DUMMY_BODY).search(head) or _is_sequence(head[:48], 0.8) or len(set(head)) < 4)


def is_random(body: str) -> bool:
    """Check whether a program made this text, not the author of a manual."""
    head = body[:_HEAD]
    if not is_token_body(head):
        return False
    if re.compile(r"[a-z]{18}|[A-Z]{16}|\d{16}").search(head):
        return True  # no word is so long
    if len(set(head)) < min(8, len(head) // 2):
        return False
    return (has_both_cases(head) or any(map(str.isdigit, head))) and not is_placeholder(head) and not is_wordy(head)


def has_both_cases(value: str) -> bool:
    """Check for upper and lower case letters."""
    return value.lower() != value and value.upper() != value


def grade(value: str) -> int:
    """Return how much a value looks as if a program made it."""
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
    if is_placeholder(head) or _is_other_format(head) or re.compile(_DOTTED_NAME).match(head) or is_reference(head):
        return NONE
    digit, letter, cased = any(map(str.isdigit, head)), any(map(str.isalpha, head)), has_both_cases(head)
    if is_wordy(head) or not letter or len(set(head)) < 5:
        return NONE
    if digit:
        if len(head) >= 16 or (len(head) >= 8 and (cased or not _SYMBOLS.isdisjoint(head))):
            return STRONG
        return FAIR if len(head) >= 10 else NONE
    symbols = [character for character in head[1:-1] if character in _SYMBOLS and character not in "=+"]
    if symbols and head.isascii() and (cased or len(symbols) > 1):
        return FAIR
    if not (head.isascii() and head.isalpha()):
        return NONE
    if cased:
        return STRONG if len(head) >= 20 else FAIR if len(head) >= 8 else NONE
    return FAIR if len(head) >= 16 else NONE


def _is_other_format(head: str) -> bool:
    return bool((not head.isalnum() or head[0].isdigit()) and re.compile(rules.OTHER_FORMAT).match(head))


def is_password(value: str, place: int = SURE) -> bool:
    """Check a value behind a key that says password."""
    return _is_password(value[:_HEAD], place)


@lru_cache(1024)
def _is_password(head: str, place: int) -> bool:
    if len(head) < 5 or "[redacted" in head or any(character > "\u024f" for character in head):
        return False
    digit, cased = any(map(str.isdigit, head)), has_both_cases(head)
    by_policy = 8 <= len(head) <= 10 and cased and digit and not head.lower().startswith("abc123")  # `Abcd1234`
    if _has_placeholder_word(head) or (_is_sequence(head[:48]) and not by_policy) or is_reference(head):
        return False
    words = [chunk.lower() for chunk in re.compile(_CHUNK).findall(head) if chunk.isalpha()]
    symbol = not _SYMBOLS.isdisjoint(head[1:-1])
    if len(head.split()) > 1:  # a passphrase, but no sentence
        plain = len(words) > 3 and head.isascii() and head.replace(" ", "").isalpha() and head[0].islower()
        random = digit or (place == SURE and (plain or (len(words) < 5 and "!" in head)))
        return place > COPULA and random and len(_KNOWN & {*words}) < 2 and len(words) < 9 and head[-1] not in ".?:…"
    if _is_other_format(head) or head.lower() in _NAME_WORDS or (not words and (place < SURE or len(head) < 6)):
        return False
    plain = not symbol and head[-1] not in "!@#$%^&*?"
    if not digit and (_NAME_WORDS.issuperset(words) or re.compile(_MESSAGE_KEY).fullmatch(head)):
        return False  # `Password*`, `errors.mismatch`
    joints, digits = sum(map(head.count, "-_.")), sum(map(str.isdigit, head))
    spoken = place == COPULA and cased and _TECHNICAL.isdisjoint(words)
    composed = digit and (cased or digits > 3) and joints > (place < SURE) and (place > COPULA or spoken)  # `old_Pw1`
    if plain and words and ((_KNOWN.issuperset(words) and not composed) or head.lower().translate(_LEET) in _NAMING):
        return False
    if not _NAMING.isdisjoint(words) and is_wordy(head) and not composed:
        return False
    if place == SURE:
        return len(head) >= 6 or (digit and not head.isdigit())
    if len(head) < 6 or not _TECHNICAL.isdisjoint(words) or re.compile(_NO_PROSE).fullmatch(head):
        return False
    if place > PROSE:
        strange = {*words} - _KNOWN
        unknown = "." not in head and len(strange) == len({*words})
        chosen = bool(unknown and re.compile(_CHOSEN_WORDS).match(head))
        if place == LITERAL and strange and not chosen:
            chosen = symbol or head[-1] in "!#$%&*" or (joints > 0 and (cased or len(words) > 2 or unknown))
        return digit or (symbol and cased) or ("-" in head and len(strange) > 2) or chosen
    digits += joints > 1 and len(words) > 1 and min(map(len, words)) > 3
    numbered = digit and digits > 1 and len(head) > 9 and _KNOWN.isdisjoint(words) and "." not in head
    return (digit and cased and len(head) >= 8) or (symbol and (digit or cased)) or numbered or _grade(head) == STRONG


def is_login_password(user: str, password: str) -> bool:
    """Check the password of `user:password`: no default, no placeholder."""
    lowered = password.lower()
    is_sentence = any(map(str.isspace, password)) and not is_password(password)
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULTS or is_sentence:
        return False
    if is_placeholder(password) or is_reference(password) or "[redacted: " in password:
        return False
    words = {word.lower() for word in re.compile(_CHUNK).findall(password) if word.isalpha()}
    chosen = any(map(str.isdigit, password)) and (not words <= _KNOWN or (lowered != password and len(words) > 1))
    return chosen or not (is_wordy(password) and not (_NAMING | {"test", "demo", "user", "key"}).isdisjoint(words))


def _is_basic_login(encoded: str) -> bool:
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
    return decoded if decoded.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else ""


def meets(condition: str, value: str) -> bool:
    """Check a value by the condition that a rule names."""
    if condition == "basic login":
        return _is_basic_login(value)
    if condition in ("login", "piped"):
        return is_login_password("", value) and not value.isdigit()
    if condition in PLACES:
        return is_password(value, PLACES[condition])
    return condition == "any" or ((condition == "random" or grade(value) >= GRADES[condition]) and is_random(value))


PLACES = {"password": SURE, "literal": LITERAL, "spoken": COPULA, "before": COPULA, "prose": PROSE}

# --- names --------------------------------------------------------------------------------------

SecretName = tuple[str, int]
"""What a key of this name stores: the kind of secret, and the weakest value that counts (not for passwords)."""

_PASSWORD: SecretName = ("password", FAIR)
_ENDINGS = [
    (tuple(endings), (kind.replace("_", " "), GRADES[least]))
    for kind, least, *endings in map(str.split, rules.NAMES.strip().splitlines())
]
_NEUTRAL = frozenset(rules.NEUTRAL_WORDS.split())
_BEFORE = {"token": frozenset(rules.BEFORE_TOKEN.split()), "key": frozenset(rules.BEFORE_KEY.split())}
_BEFORE_ANY = frozenset(rules.BEFORE_ANY.split())
_CONSTANTS = frozenset(rules.CONSTANT_WORDS.split())


def secret_name(key: str) -> SecretName | None:
    """Return what a key of this name stores: its last word decides."""
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
    if words[-1] in ("pass", "pw", "psk", "mdp"):
        return _PASSWORD
    is_constant = len(words) > 1 and key.rpartition(".")[2].strip("-").isupper()
    is_key = words[-1] in ("pat", "key", "keys", "salt", "pepper") if is_constant else words[-1] == "key"
    return ("api key", STRONG) if is_key and len(words) > 1 else None


# --- the syntax of an assignment ----------------------------------------------------------------

_AFTER_WORD = r"""(?x)(?P<rest>[a-z0-9_.\-]{0,40}+(?:[ ]\d{1,2}(?=:[ ]))?)(?P<close>[*"'`\\\])]{0,5}+)
    (?:[ ](?:\[[^\]\n]{0,24}\](?=:)|\([^()\n]{0,24}\)(?=[ ]?[:=])))?
    (?:(?P<pair>(?:[\s,"'\\+-]{1,60}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8}(?:""[ ]{0,4}(?=\n))?){1,2}
                |</(?:key|name)>\s{0,40}<(?:string|value)>\s{0,40})
      |(?P<encoded>(?:%22|%27)?%3[ad](?:%20|\+)?(?:%22|%27)?)
      |(?P<sep>\((?=["'`]))
      |[ \t]{0,24}+(?P<sign>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>\s{0,40}|,|\|
          |(?:(?:is|was|ist|est|es|lautet|war|è|é|är|jest|je|er|—|–|-)[ ]|\?[ ])(?=\S)
          |(?:은|는|이|가|は|が|：)[ ]?|(?<=[ \t]))[* \t]{0,24}+)"""
_CHOSEN = r"(?i)(?:jwt|session|cookie|webhook|signing|hs256)[_-]?(?:secret|key)$"
_IN_TAG = r"<(?:[\w:-]{1,40}\s(?:[^<>\n]{0,80}\s)?(?:name|key|id)=\\?[\"'])?\Z"
_TYPED = (
    r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])|[|>][-+]?[ \t]*\r?\n[ \t]+"
    r"|(?:[\w.$!]{1,60}(?:[(\[]\s?[\"'][\w.-]{1,60}[\"']\s?[)\]])?\s{0,4}(?:\|\||\?\?|\?:|or\b|\{)"
    r"|[\w.$]{1,60}\(\s?[\"'][\w.-]{1,60}[\"']\s?,)\s{0,4}(?=[\"'`])"
)
_QUOTED = (
    r"[brfuBRFULN@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+(?:(?:\\.|''(?=\w)|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
_ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
_UNQUOTED = (
    r"(?P<value>(?=\S)[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+"
    r"(?:(?:&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\]))[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+){0,9})"
)
_TO_BLANK = r"(?P<value>(?=\S)[^\s\\]{0,300}+(?:\\(?![nrt\"'])[^\s\\]{0,300}+){0,9})"
_IN_ELEMENT = r"(?P<value>[^<>\n]{4,200})(?=</)"
_URL_ENCODED = (
    r"(?P<value>(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267c]|7d))(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267cC]|7[dD])){4,200})"
)
_LIST = r"\[\s{0,8}\\?[\"'](?P<value>[^\"'\\\n]{8,300}(?:\\?[\"']\s{0,40},\s{0,40}\\?[\"'][^\"'\\\n]{8,300}){0,40}+)"
_MORE = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_LABEL = r"""(?x)(?:(?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль|contraseña
        |mot\ de\ passe|senha|hasło|lösenord|şifre|heslo|jelszó|mật[ ]khẩu|κωδικός|parolă|лозинка|รหัสผ่าน|सिसमा
        |पासवर्ड|סיסמה|كلمة[ ]المرور)(?:si|et)?
      |(?P<token>토큰|令牌|トークン|токен|jeton)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|시크릿|密钥|密鑰|金鑰|秘密鍵|シークレット(?:キー)?
        |ключ|clé[ ]api|schlüssel|chiave|chave(?:[ ]de[ ]api)?|sleutel))
    (?:[ ]?[（(][^()（）\n]{0,24}[)）])?[*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+
    (?P<sep>[=＝：|은는이は是为為]|:(?!//)|(?:est|es|é|е|is|ist|è|är|je|jest|lautet|—)[ ]|(?<=[ ]))
    [:* \t\u3000「『]{0,8}+"""
_ASCII = r"(?P<value>[!-~\u00c0-\u024f]{6,300}+)"
_KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_FIRST_WORDS = (
    r"(?i)(?:\b(?:api|access|secret|private|auth|aws|client|unseal|recovery|master|encryption|signing|admin|root|account"
    r"|license|subscription|shared|service|personal|deploy|webhook|app|initial) ){1,2}\Z"
)
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx(?:[ \t]+/\w)?|\bsetenv|#define|\bconfig(?:ure)?[ \t]+set"
    r"|\bsecrets?[ \t]+set|\b(?:operator|add)|\bconfig[ \t]+\S+)[ \t]+\S*\Z"
)
_LINE_START = r"(?:\A|\\n)[ \t\r]*(?:[-+>*#$][ \t]*)?(?:(?:export|ENV|ARG|set(?:[ \t]+-\S*)?|-e)[ \t]+)?\Z"
"""Nothing before a name but blanks, a list mark, and `export` or the like."""
_SCHEME = rf"(?i)(?:{'|'.join(sorted(rules.SCHEMES, key=len, reverse=True))})[ :]+(?=[^\s:])"
_EXPRESSION = r"[A-Za-z_]\w*=[A-Za-z]\w*|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"
_AFTER_USER = (
    r"\b(?i:user|username|login|account|benutzer|usuario|utilisateur|utente|ssid)\b[ :=]+[^\s,;({]{2,64}[,;/]?[ ]"
    r"(?:(?i:and|und|y|et|e|with|mit|avec|con)[ ])?\Z"
)
_PROSE_LINE = rf"\A[-*#>\s]{{0,8}}(?:[^\W\d_][\w'’./()-]{{0,40}},?[ ]){{1,12}}\Z|{_AFTER_USER}"
_SIBLING = r"(?im)^[-+ \t]*(?:[\w.-]*(?:user|username|login|host|hostname|server|port|database|dbname|email)\b)[ \t]*[:=][ \t]*[^\s,;(){}\"']+[ \t]*$|^\[[\w.-]+\]$"  # noqa: E501 - one regex
"""A line of a config file beside which a plain word is a password."""


def assigned_secrets(text: str, lowered: str) -> "Iterator[Span]":
    """Yield every value assigned to the name of a secret that looks like one."""
    ends: set[int] = set()
    covered, current = 0, ""
    for keyword, at in prefilter.assignment_keywords(text, lowered):
        covered, current = (covered, current) if keyword == current else (0, keyword)
        match = re.compile(_AFTER_WORD).match(lowered, at + len(keyword)) if at >= covered else None
        # Inside of a secret there is no key: looking there again would cost its length each time.
        if match and match.end() not in ends:
            ends.add(match.end())
            span = _assigned(text, at, match)
            if span is not None:
                covered = span[1]
                yield span
    if prefilter.has_label(lowered):
        yield from _labelled(text, lowered)


def _labelled(text: str, lowered: str) -> "Iterator[Span]":
    """What follows a label in another language is Latin: words of that script may follow it."""
    for match in re.compile(_LABEL).finditer(lowered):
        quoted = re.compile(_QUOTED).match(text, match.end()) or re.compile(_ESCAPED).match(text, match.end())
        value_match = quoted or re.compile(_ASCII).match(text, match.end())
        if value_match is None or _is_call(value_match["value"]):
            continue
        value = value_match["value"] if quoted else value_match["value"].rstrip("\"'`,;.:|)]}>*")
        end = value_match.start("value") + len(value)
        after = text[end : end + 40].partition("\n")[0].strip(" \t\r*|,;.)」』】。、，")
        assigned = match["sep"] in ("=", ":", "：", "＝")
        sure = assigned and (quoted or not after or after.startswith(("#", "//"))) and not _is_attribute(value)
        if match["password"]:
            # A word of the same script directly after it belongs to it: `bcrypt12로`.
            follower = text[end : end + 2]
            joined = follower > "\u024f" and follower[0] not in "「」』】。、，입이야" and follower != "です"
            place = PROSE if (joined and not quoted) or not match["sep"].strip() else SURE if sure else LITERAL
            if is_password(value, place):
                yield value_match.start("value"), end, "password"
        elif grade(value) >= (FAIR if sure else STRONG):
            yield value_match.start("value"), end, "token" if match["token"] else "secret key"


def _assigned(text: str, at: int, match: "re.Match[str]") -> Span | None:
    start = _key_start(text, at)
    key, separator = text[start : match.end("rest")], (match["sep"] or match["sign"] or "").strip()
    name = secret_name(key)
    before = text[max(0, start - 2) : start]
    is_chain = before == "::" or (before[-1:] == ":" and not text[match.end() - 1].isspace())
    # In `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."` the word is one of a chain of names.
    if name is None or (separator == ":" and is_chain):
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    typed = re.compile(_TYPED).match(text, match.end()) if separator in (*_ASSIGNS, "") else None
    begin = typed.end() if typed else match.end()
    at = _after_scheme(text, begin)
    is_filter = separator == "|" and ("{{" in line or match.end() - match.start("sign") < 2)  # `auth0|65f1c0`
    if is_filter or (at > begin and text[begin : begin + 5].lower() == "basic"):
        return None  # a filter of a template; a rule for the header decodes it
    listed = re.compile(_LIST).match(text, at) if text[at : at + 1] == "[" and not typed else None
    if listed:
        return (*listed.span("value"), name[0]) if grade(re.split(r"[\"'\\]", listed["value"])[0]) == STRONG else None
    quoted = None
    if text[at : at + 3].lstrip("brfuBRFULN@$")[:1] in ("'", '"', "`", "\\"):
        quoted = re.compile(_QUOTED).match(text, at) or re.compile(_ESCAPED).match(text, at)
    whole = separator in ("=", ":") and not match["close"] and bool(not line or re.compile(_LINE_START).search(line))
    shape = _URL_ENCODED if match["encoded"] else _TO_BLANK if whole else _IN_ELEMENT if separator == ">" else _UNQUOTED
    value_match = quoted or re.compile(shape).match(text, at)
    if value_match is None:
        return None
    value, end = value_match["value"], value_match.end("value")
    if quoted:
        skipped = _after_scheme(value, 0)
        at, value = value_match.start("value") + skipped, value[skipped:]
        place = _quoted_place(key, separator, match, line, typed=bool(typed))
    else:
        place = _unquoted_place(text, value, end, key, line, match, whole=whole)
        value = value.rstrip(",;\"'" if whole else ".:,;" if place < SURE or name[0] != "password" else ",;")
        value = value.rstrip("/") if value.count("/") == 1 else value  # `sed s/PASSWORD=.*/PASSWORD=x/`
        end = at + len(value)
    if place == NOWHERE or not _is_secret(value, place, key, name, quoted=bool(quoted)):
        return None
    if len(value) >= 280 and not (quoted and value_match["shut"]):
        more = re.compile(_MORE).match(text, end)
        end = more.end() if more else end
    return at, end, name[0]


NOWHERE = -1
_ASSIGNS = ("=", ":=", "=>", "?=", ":")


def _quoted_place(key: str, separator: str, match: "re.Match[str]", line: str, *, typed: bool) -> int:
    if separator == "(":
        owner, dot, method = key.lower().rpartition(".")
        is_setter = method.startswith(("set", "with", "use")) or ((dot or line[-1:] in (".", ":")) and len(method) < 11)
        return SURE if (is_setter and owner != "t") or key == "PASSWORD" else NOWHERE
    if typed or match["pair"] or match["encoded"] or separator in _ASSIGNS:
        return SURE
    if separator == "" and (key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line) or line.endswith("(:")):
        return SURE
    if separator == ",":
        return SURE if line.rstrip("'\" ").endswith("define(") else LITERAL if match["close"] else NOWHERE
    if separator == ">":
        return SURE if re.compile(_IN_TAG).search(line) else NOWHERE
    return NOWHERE if separator == "" and match["close"] else LITERAL


def _unquoted_place(
    text: str, value: str, end: int, key: str, line: str, match: "re.Match[str]", *, whole: bool
) -> int:
    """It may be a variable or a word of a sentence."""
    separator = (match["sep"] or match["sign"] or "").strip()
    if whole:
        value = value.rstrip(",;")
    identifier, rest = _is_identifier(value), text[end : end + 3]
    if _is_call(value) or value[:2] == "--" or any(joint in value for joint in ("->", "::")):
        return NOWHERE
    if separator in ("(", "==", "===", "!=", "!==", ",") or (rest[:1] in ("(", "[", "{", "<") and rest[:2] != "</"):
        return NOWHERE
    after = text[end : end + 40].partition("\n")[0].strip("\"' \t\r")
    alone = not after or after.startswith(("#", "//", "\\n"))
    if match["pair"] or match["encoded"] or separator == ">":
        return SURE if match["pair"] or match["encoded"] or re.compile(_IN_TAG).search(line) else NOWHERE
    if separator == "":
        is_option = key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line)
        plain = value.isalpha() and value.islower() and not (alone or after[0] in "-&|;>)")
        place = LITERAL if re.compile(_AFTER_USER).search(line) else PROSE
        return (PROSE if plain else SURE) if is_option else NOWHERE if match["close"] else place
    if separator not in ("=", ":"):
        return SURE if separator in _ASSIGNS and not identifier else LITERAL if separator == "|" else COPULA
    tight = separator == "=" and match.end("sign") == match.end() and match.start("sign") == match.end("rest")
    opening = max(line.rfind("("), line.rfind("{"))
    in_call = opening > max(line.rfind(")"), line.rfind("}"))
    in_call = in_call and not any(line.count(quote, opening + 1) % 2 for quote in "\"'")
    trailing = text[end - 1 : end] in (",", ";") and whole
    if not whole:
        if separator == ":" and re.compile(_PROSE_LINE if alone else _AFTER_USER).search(line):
            return LITERAL  # `staging password: blue-Kettle`
        is_listed = tight and not in_call and not match["close"] and not _is_attribute(value)
        is_value = not identifier and not re.compile(_EXPRESSION).fullmatch(value)
        if is_listed or (is_value and (tight or separator == ":")):
            return SURE if is_listed or tight else COPULA
        chosen = ("_" in value and has_both_cases(value)) or (
            not in_call and re.compile(r"(?i)\b(?:user|login)\w*[:=]").search(line)
        )
        return COPULA if not identifier or (chosen and any(map(str.isdigit, value))) else STRICT
    if trailing or not identifier:
        return STRICT if trailing and identifier else SURE if (alone or tight) and not trailing else COPULA
    if not alone:
        return SURE if tight and rest[:1] == " " else STRICT
    if re.compile(r"\s*\)").match(text, end) or _is_attribute(value):
        return STRICT
    if (key.isupper() and _CONSTANTS.isdisjoint(key.lower().split("_"))) or tight:
        return SURE
    if any(map(str.isdigit, value)) and not (separator == "=" and has_both_cases(value) and value[0].islower()):
        return SURE
    is_config = value.islower() and re.compile(_SIBLING).search(text[max(0, end - 240) : end + 160])
    return SURE if is_config else LITERAL if separator == ":" and value.count("_") > 1 else STRICT


STRICT = -2  # a variable, most likely: only what a program made counts


def _is_secret(value: str, place: int, key: str, name: SecretName, *, quoted: bool) -> bool:
    if "[redacted" in value or re.compile(r"[A-Z_]{4,40}=").match(value):
        return False
    if name[0] == "password":
        if place == STRICT:
            return grade(value) == STRONG
        words = key.lower().replace("-", "_").split("_")
        plain = value.isalpha() or not any(map(str.isdigit, value))
        if plain and not (_CONSTANTS.isdisjoint(words) and (key.upper() != "PASS" or not key[0].isupper())):
            return False  # `RESET_PASSWORD = "resetting"`, `PASS: test-names`
        if key.lower() == "pass" and (value.isdigit() or (key.isupper() and "/" in value)):
            return False
        mixed = quoted and has_both_cases(value) and any(map(str.isdigit, value[:-1]))
        is_name = (
            not mixed and _is_identifier(value) and secret_name(value) and not re.compile(r"\d\D+\d").search(value)
        )
        return not is_name and is_password(value, place)
    if name[0] == "credential" and (_is_basic_login(value) or re.compile(r"[0-9a-f]{40}").fullmatch(value)):
        return not value.isalnum() or _is_basic_login(value)
    if place == PROSE and not re.compile(_UUID).fullmatch(value):
        return len(value) >= 20 and key.count(".") + key.count("-") < 2 and grade(value) == STRONG and is_random(value)
    if _is_identifier(value) and secret_name(value) and not (place == SURE and is_random(value)):
        return False
    if place == SURE and key.isupper() and 5 < len(value) < 9 and has_both_cases(value) and not is_placeholder(value):
        return any(map(str.isdigit, value)) and not is_wordy(value)  # `SECRET=Zx9kLm`
    if name == ("api key", STRONG) and not key.isupper() and not (has_both_cases(value) or value.isalnum()):
        return False
    if place != SURE and grade(value) == FAIR and re.compile(_UUID).fullmatch(value):
        return name[1] == FAIR
    strange = key.isupper() and _KNOWN.isdisjoint(
        re.compile(_CHUNK).findall(value.lower())
    )  # `APP_SECRET=kettle_drum_9`
    mixed = any(map(str.isdigit, value)) and (strange or (has_both_cases(value) and len(value) > 8))
    chosen = (mixed and name[0].startswith("secret")) or re.compile(_CHOSEN).search(key)
    if chosen and place >= COPULA and is_password(value, min(place, LITERAL)):
        return True  # `secret: "keyboard-Cat-2025"`
    return grade(value) >= (name[1] if place == SURE else STRONG)


def _key_start(text: str, at: int) -> int:
    """Over its own characters, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    at = floor + len(text[floor:at].rstrip(_KEY_CHARACTERS))
    words = re.compile(_FIRST_WORDS).search(text, floor, at) if text[at - 1 : at] == " " and text[at] != "-" else None
    return words.start() if words else at


def _after_scheme(text: str, at: int) -> int:
    if not text[at : at + 8].lower().startswith(rules.SCHEMES):
        return at
    match = re.compile(_SCHEME).match(text, at, at + 48)
    return match.end() if match else at


def _is_call(value: str) -> bool:
    name = value.partition("(")[0].partition("[")[0].rstrip("!?")
    return ("(" in value or "[" in value) and _is_identifier(name)


def _is_identifier(value: str) -> bool:
    """A variable, also of an object: `$this->token`, `a?.b`, `Some::key`."""
    for joint in ("?.", "->", "::"):
        value = value.replace(joint, ".")
    return all(part.replace("$", "_").isidentifier() for part in value.split("."))


def _is_attribute(value: str) -> bool:
    return "." in value and _is_identifier(value) and value[0].islower()
