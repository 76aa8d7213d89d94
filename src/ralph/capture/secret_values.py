r"""Judge a value: a secret, a word, a placeholder, or a reference to a secret that is stored elsewhere.

`token: str`, `PASSWORD=$DB_PASS` and `secret: my-app-secret` are written a thousand times for each real secret, so
references, placeholders, words, sequences, dates and paths are ruled out first; the rest gets a grade. There is no
dictionary: a word is recognised by its case, its vowels and the length of its parts. Regexes are compiled at their
first use, because hooks load this module and compiling all of them takes longer than an event.
"""

import re
from itertools import pairwise

from ralph.capture import secret_rules as rules

NONE, WEAK, FAIR, STRONG = range(4)
"""How much a value looks like a secret; WEAK is a password that a person would choose: `hunter2`."""
GRADES = {"weak": WEAK, "fair": FAIR, "strong": STRONG}
MARKER = r"\[redacted: [a-z0-9 ]{1,40}\]"
_HEAD = 128
"""How much of a value is examined: enough to recognise it, and a bound on the work for hostile text."""

_JOINTS = str.maketrans("", "", "-_. ")
_SCHEME_JOINTS = str.maketrans("", "", "+._-")
_TEACHING = r"(?i)passw|passwd|secret|token|test|pass|key|demo|user|field|value|string|login"
"""Words that stand for the thing itself: `password1`, `test-token-2`."""
_TEMPLATES = ("${", "$(", "{{", "#{", "<%", "%(", "$[", "process.env", "os.environ", "getenv", "import.meta")
_TEMPLATE = r"\{\w*\}|%[sd]\b|\$[A-Z][A-Z_]{3,}"
_REFERENCE_STARTS = ("$env:", "$argon2", "$ansible", "$y$", "$pbkdf2", "$scrypt", "$apr1", "enc[")
_SCHEMES = frozenset("arn env file vault ssm secretsmanager keyring awskms gcpkms urn data secret op".split())
_HASHES = frozenset("md5 sha ssha bcrypt scrypt cipher".split())
_PATH_START = ("./", "../", "/", "~", "\\\\")
_FILE_ENDINGS = frozenset(
    "pem key crt cer p12 pfx json yml yaml txt py js jsx ts tsx env toml ini md htm html go rs java rb sh conf cfg pub"
    " jks lock log svg png css com org net io dev local xml php enc gpg db sql pdf zip gz csv jpg jpeg".split()
)
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"
_OTHER_FORMAT = (
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d+[a-z%]{1,3}$"
    r"|[a-z]+/[a-z0-9.+-]+$|[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$|.*(?:\\[dwsbDWSB]|\[[a-z]-[a-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, addresses, colours, e-mail, sizes, mime types, dotted names and regexes."""
_CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1"
_SYMBOLS = frozenset("!@#$%^&*+=~?")
_SEPARATORS = frozenset("-_./: ")
_UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DEFAULTS = frozenset(rules.DEFAULT_PASSWORDS.split())
_STATES = frozenset(rules.STATES_AND_PRODUCTS.split())
_NOTICES = frozenset(rules.NOTICE_WORDS.split())
_PHRASE = r"[a-z]{3,12}(?:-[a-z]{3,12}){3,7}|[A-Z][a-z]{2,11}(?:[-_.][A-Z][a-z]{2,11}){1,5}[-_.]?\d{2,4}"


def is_placeholder(value: str) -> bool:
    """Check for a stand-in: `changeme`, `xxxx`, `your-key-here`, `abc123`, a sequence."""
    return _has_placeholder_word(value[:_HEAD].lower()) or _is_sequence(value)


def _has_placeholder_word(head: str) -> bool:
    joined = head.translate(_JOINTS)
    both = f"{head}\n{joined}"
    if any(word in both for word in rules.PLACEHOLDERS):
        return True
    return joined.endswith("here") or joined.startswith("some") or len(set(head)) < 4


def _is_sequence(value: str) -> bool:
    """Check whether most neighbours repeat or count upwards: `aaaa`, `abc123`, `0123456789`."""
    head = value[:48]
    return sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head)) / max(1, len(head) - 1) > 0.5


def is_reference(value: str) -> bool:
    """Check for the location of a secret: a variable, a template, a path, a URL, a vault, or a hash."""
    head = value[:_HEAD]
    if _starts_reference(head) or any(mark in head for mark in _TEMPLATES):
        return True
    if ("{" in head or "%" in head or "$" in head) and re.compile(_TEMPLATE).search(head):
        return True
    return _is_path(head) and not (re.compile(_BASE64_RUN).fullmatch(head) and not is_wordy(head))


def _starts_reference(head: str) -> bool:
    """Check how a variable, a template, a tag, a URL, the name of a vault or a hash begins."""
    lowered, first, rest = head.lower(), head[:1], head[1:]
    if (
        first in ("<", "[", "(", "@", "&")
        or (first == "!" and rest[:1].isalpha())
        or lowered.startswith(_REFERENCE_STARTS)
    ):
        return True
    if first == "$" and (rest[:1].isdigit() or rest.isidentifier()):
        return True
    if first == "%" and rest[-1:] == "%" and rest[:-1].replace("_", "a").isalnum():
        return True
    scheme, separator, _ = head.partition("://")
    if separator and scheme[:1].isalpha() and scheme.translate(_SCHEME_JOINTS).isalnum():
        return True
    if lowered.partition(":")[0] in _SCHEMES and ":" in head:
        return True
    name = lowered.removeprefix("{")
    for end in "}:$-":
        name = name.partition(end)[0]
    if len(name) == len(lowered.removeprefix("{")):
        return first == "{"
    numbered = name[:3] == "sha" and name[3:].isdigit()
    return first == "{" or name in _HASHES or numbered or name.startswith(("pbkdf2", "argon2"))


def _is_path(head: str) -> bool:
    if head.startswith(_PATH_START) or head.endswith("/") or (head[:1] == "." and head[1:2].isalnum()):
        return True
    if head[1:3] in (":/", ":\\") and head[:1].isalpha():
        return True
    return head.rpartition(".")[2].lower() in _FILE_ENDINGS and "." in head


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
    return all(map(_is_natural, words))


def _is_natural(word: str) -> bool:
    """Check whether letters could be a word or a short name, by their vowels and consonants."""
    if len(word) <= 4:
        return True
    if len(word) > 14 and word.isupper():
        return False
    word = word.lower()
    return not set("aeiouy").isdisjoint(word) and re.compile(_UNNATURAL).search(word) is None


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


_GRADED: dict[str, int] = {}


def grade(value: str) -> int:
    """Return how much an assigned value looks like a secret; each value is judged once."""
    head = value[:_HEAD]
    result = _GRADED.get(head)
    if result is None:
        if len(_GRADED) >= 1024:
            _GRADED.clear()
        result = _GRADED[head] = _grade(head)
    return result


def _grade(head: str) -> int:
    if head.count("-") == 4 and re.compile(_UUID).fullmatch(head):
        return _grade_uuid(head)
    if len(head) < 6 or any(map(str.isspace, head)) or "[redacted: " in head:
        return NONE
    digit, letter = any(map(str.isdigit, head)), any(map(str.isalpha, head))
    by_policy = 8 <= len(head) <= 10 and has_both_cases(head) and digit  # `Abcd1234` is typed by people
    if _has_placeholder_word(head.lower()) or (_is_sequence(head) and not by_policy):
        return NONE
    if is_reference(head) or re.compile(_OTHER_FORMAT).match(head):
        return NONE
    if is_wordy(head):
        return _grade_words(head)
    if digit and letter:
        return _grade_mixed(head)
    if digit:
        return WEAK if len(head) >= 8 and head.isdigit() else NONE
    return _grade_letters(head) if letter and head.isascii() else NONE


def _grade_uuid(value: str) -> int:
    """Grade a UUID: one that counts upwards is a placeholder, unless it is a random one (version 4)."""
    lowered = value.lower()
    if lowered.startswith(rules.EXAMPLE_UUIDS) or len(set(lowered)) < 6:
        return NONE
    random = lowered[14] == "4" and lowered[19] in "89ab"
    return FAIR if random or not is_placeholder(value) else NONE


def _grade_words(value: str) -> int:
    """`hunter2`, `Summer2024` and `Blue-Horse-77` are passwords; `test-token-2`, `password1` and `sha256` are not."""
    if re.compile(_TEACHING).search(value):
        return NONE
    if any(map(str.isdigit, value)) and _SEPARATORS.isdisjoint(value) and len(value) >= 7:
        return WEAK
    parts = value.lower().replace("_", "-").replace(".", "-").split("-")
    return WEAK if re.compile(_PHRASE).fullmatch(value) and _NOTICES.isdisjoint(parts) else NONE


def _grade_mixed(value: str) -> int:
    if len(set(value)) < 5:
        return NONE
    symbol = not _SYMBOLS.isdisjoint(value)
    if len(value) >= 16 or (len(value) >= 8 and (symbol or has_both_cases(value))):
        return STRONG
    return FAIR if len(value) >= 10 else WEAK


def _grade_letters(value: str) -> int:
    symbols = [character for character in value[1:-1] if character in _SYMBOLS and character not in "=+"]
    if symbols and (has_both_cases(value) or len(symbols) > 1):
        return FAIR
    if not value.isalpha():
        return NONE
    if has_both_cases(value):
        return STRONG if len(value) >= 20 else FAIR if len(value) >= 8 else NONE
    return FAIR if len(value) >= 16 else NONE


def is_plain_password(value: str) -> bool:
    """Check a short word of an environment line: no default, no state, no name of a product."""
    if not (6 <= len(value) <= 24 and value.isascii() and value.isalnum() and value[0].isalpha() and value.islower()):
        return False
    if value in _DEFAULTS or value in _STATES:
        return False
    return not (re.compile(_TEACHING).search(value) or is_placeholder(value) or is_reference(value))


def is_cased_password(value: str) -> bool:
    """Check letters in both cases in a list of `name=value`: `BlueHorse`, not `userName`."""
    if not 6 <= len(value) <= 64 or not (value.isascii() and value.isalpha() and has_both_cases(value)):
        return False
    words = {word.lower() for word in re.compile(_CHUNK).findall(value)}
    return not (
        words & (_NOTICES | _DEFAULTS | _STATES) or re.compile(_TEACHING).search(value) or is_placeholder(value)
    )


def is_scrambled(value: str) -> bool:
    """Check for a short value that mixes cases and digits and forms no word: `Zx9kLm`."""
    return has_both_cases(value) and grade(value) >= WEAK and not is_wordy(value)


def is_login_password(user: str, password: str) -> bool:
    """Check the password of `user:password` in a URL or a Basic header: no default, no placeholder."""
    lowered = password.lower()
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULTS or any(map(str.isspace, password)):
        return False
    if is_placeholder(password) or is_reference(password) or "[redacted: " in password:
        return False
    return not (is_wordy(password) and re.compile(_TEACHING).search(password))


def is_basic_login(encoded: str) -> bool:
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
        return is_basic_login(value)
    if condition == "login":
        return is_login_password("", value) and not value.isdigit()
    if condition == "any":
        return True
    return (condition == "random" or grade(value) >= GRADES[condition]) and is_random(value)
