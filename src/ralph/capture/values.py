r"""What a value looks like: a secret, a word, a placeholder, a reference to a secret kept elsewhere.

The shape of a value decides more than the name of its key: `token: str`, `PASSWORD=$DB_PASS`
and `secret: my-app-secret` are said a thousand times for each real secret. So everything here
is about saying no with a reason: references, placeholders, words, sequences, dates, paths. What
remains is graded, and each syntax asks for the grade that its ambiguity calls for.
No dictionary: a word is recognised by its case, its vowels and the length of its parts.
`tests/capture/test_values.py` holds the examples.
"""

import base64
import binascii
import re
from enum import IntEnum
from itertools import pairwise


class Strength(IntEnum):
    """How much a value looks like a secret."""

    NONE = 0
    WEAK = 1
    """A human password: `hunter2`."""
    FAIR = 2
    STRONG = 3


MARKER = re.compile(r"\[redacted: [a-z0-9 ]{1,40}\]")
"""What stands where a secret stood; nothing is ever found inside it."""


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


_HEAD = 128
"""How much of a value is looked at: enough to know it, and a bound on the work for each key in a hostile text."""

_STAND_INS = (
    "xxxx", "***", "...", "…", "____", "----", "00000000", "your", "example", "sample", "dummy", "placeholder",
    "redacted", "replace", "insert", "todo", "fixme", "fake", "mocked", "removed", "hidden", "lorem", "foobar",
    "12345678", "abcdefgh", "qwerty", "deadbeef", "notreal", "abc123", "supersecret", "changeme", "changethis",
    "changeit", "notset", "goeshere", "mysecret", "mypass", "mytoken", "mykey", "myapi", "notareal",
)  # fmt: skip
_JOINTS = str.maketrans("", "", "-_. ")
_TEACHING = re.compile(
    r"passw|passwd|secret|token|test|pass|key|demo|user|field|value|string|login", re.IGNORECASE
)
"""Words that stand for the thing itself: `password1`, `test-token-2`."""

_TEMPLATE_SIGNS = (
    "${",
    "$(",
    "{{",
    "#{",
    "<%",
    "%(",
    "$[",
    "process.env",
    "os.environ",
    "getenv",
    "import.meta",
)
_TEMPLATE = re.compile(r"\{\w*\}|%[sd]\b|\$[A-Z][A-Z_]{3,}")
_REFERENCE = re.compile(
    r"%\w+%$|\$[A-Za-z_]\w*$|\$env:|<.*>?$|[\[({@&]|[A-Za-z][\w+.-]*://|ENC\[|![A-Za-z]"
    r"|(?:arn|env|file|vault|ssm|secretsmanager|keyring|awskms|gcpkms|urn|data|secret|op):"
    r"|\$(?:\d|argon2|ANSIBLE|y\$|pbkdf2|scrypt|apr1)"
    r"|\{?(?:md5|sha\d+|s?sha|pbkdf2\w*|bcrypt|scrypt|argon2\w*|cipher)[}:$-]",
    re.IGNORECASE,
)
"""How a variable, a template, a tag, a URL, the name of a vault or a hash begins."""
_PATH = re.compile(
    r"^(?:\.{0,2}/|~|[A-Za-z]:[\\/]|\\\\)|^\.\w|/$"
    r"|\.(?:pem|key|crt|cer|p12|pfx|json|ya?ml|txt|py|jsx?|tsx?|env|toml|ini|md|html?|go|rs|java|rb|sh|conf|cfg|pub|jks|lock"
    r"|log|svg|png|css|com|org|net|io|dev|local|xml|php|enc|gpg|db|sql|pdf|zip|gz|csv|jpe?g)$",
    re.IGNORECASE,
)  # fmt: skip
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{32,}={0,2}")
_OTHER_FORMAT = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d+[a-z%]{1,3}$"
    r"|[a-z]+/[a-z0-9.+-]+$|[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$|.*(?:\\[dwsbDWSB]|\[[a-z]-[a-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, addresses, colours, e-mail, sizes, mime types, dotted names and regular expressions."""

_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]")
_UNNATURAL = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1")
_VOWEL = re.compile(r"[aeiouy]")
_STRONG_SYMBOLS = frozenset("!@#$%^&*+=~?")
_BLANK, _DIGIT, _LETTER = re.compile(r"\s"), re.compile(r"\d"), re.compile(r"[^\W\d_]")
_SEPARATORS = frozenset("-_./: ")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_KNOWN_EXAMPLE_UUIDS = ("123e4567-e89b-", "550e8400-e29b-", "00000000-")
_DEFAULT_PASSWORDS = words_of(
    """admin root guest postgres postgresql mysql redis mongo mongodb rabbitmq user username usr password passwd pass
    pwd pw secret token test testing example changeme default foo bar baz qux hello world none null true false key creds
    credentials host port name minio elastic neo4j oracle sa db database app dev local docker string xxx yyy"""
)
_PASSPHRASE = re.compile(r"[a-z]{3,12}(?:-[a-z]{3,12}){3,7}")
_DESCRIBES = words_of(
    """use the this that with from not set get enter error required invalid label name app prod dev service config long
    generated random strong for and your put new must may should can database server client production staging local"""
)
"""Words of a name or a notice, which a passphrase of random words does not have."""


def _runs(value: str) -> float:
    """The share of neighbours that repeat or count upwards: near 1 for `aaaa`, `abc123`, `0123456789`."""
    pairs = pairwise(value)
    return sum(ord(right) - ord(left) in (0, 1) for left, right in pairs) / max(1, len(value) - 1)


def placeholder(value: str) -> bool:
    """Whether a value only stands in for a secret: `changeme`, `xxxx`, `your-key-here`, `abc123`."""
    head = value[:_HEAD].lower()
    joined = head.translate(_JOINTS)
    if any(word in head or word in joined for word in _STAND_INS):
        return True
    return (
        joined.endswith("here") or joined.startswith("some") or _runs(value[:48]) > 0.5 or len(set(head)) < 4
    )


def reference(value: str) -> bool:
    """Whether a value names the place of a secret: a variable, a template, a path, a URL, a vault, or is a hash."""
    head = value[:_HEAD]
    if _REFERENCE.match(head) or any(sign in head for sign in _TEMPLATE_SIGNS):
        return True
    if ("{" in head or "%" in head or "$" in head) and _TEMPLATE.search(head):
        return True
    return _PATH.search(head) is not None and not (_BASE64_RUN.fullmatch(head) and not wordy(head))


def wordy(value: str) -> bool:
    """Whether a value is made of words, in any usual way of joining them, with few digits."""
    chunks = _CHUNK.findall(value[:_HEAD])
    words = [chunk for chunk in chunks if chunk[0].isalpha()]
    digits = [chunk for chunk in chunks if chunk[0].isdigit()]
    others = {chunk for chunk in chunks if not chunk[0].isalnum()}
    if not words or not others <= _SEPARATORS or len(digits) > 2 or sum(map(len, digits)) > 4:
        return False
    if sum(map(len, words)) / len(words) < 3 or (not others and len(digits) > 1):
        return False
    return all(map(_natural, words))


def _natural(word: str) -> bool:
    """Whether letters could be a word or a short name, by their vowels and consonants."""
    if len(word) <= 4:
        return True
    if len(word) > 14 and word.isupper():
        return False
    word = word.lower()
    return _VOWEL.search(word) is not None and _UNNATURAL.search(word) is None


def plausible(body: str) -> bool:
    """Whether what follows a known prefix was made by a machine, rather than written in a manual."""
    head = body[:_HEAD]
    if placeholder(head) or wordy(head) or len(set(head)) < min(8, len(head) // 2):
        return False
    mixed = head.lower() != head and head.upper() != head
    return mixed or _DIGIT.search(head) is not None


def strength(value: str) -> Strength:
    """The grade of a value that was assigned to something."""
    head = value[:_HEAD]
    if len(head) < 6 or placeholder(head) or reference(head) or _OTHER_FORMAT.match(head):
        return Strength.NONE
    if _BLANK.search(head) or MARKER.search(head):
        return Strength.NONE
    if wordy(head):
        return _word_strength(head)
    if _UUID.fullmatch(head):
        return Strength.NONE if head.lower().startswith(_KNOWN_EXAMPLE_UUIDS) else Strength.FAIR
    digit, letter = _DIGIT.search(head), _LETTER.search(head)
    if digit and letter:
        return _mixed_strength(head)
    if digit:
        return Strength.WEAK if len(head) >= 8 and head.isdigit() else Strength.NONE
    return _letter_strength(head) if letter and head.isascii() else Strength.NONE


def _cased(value: str) -> bool:
    return value.lower() != value and value.upper() != value


def _word_strength(value: str) -> Strength:
    """`hunter2` and `Summer2024` are passwords; `test-token-2`, `password1` and `sha256` are not."""
    if (
        _DIGIT.search(value)
        and _SEPARATORS.isdisjoint(value)
        and len(value) >= 7
        and not _TEACHING.search(value)
    ):
        return Strength.WEAK
    if (
        _PASSPHRASE.fullmatch(value)
        and _DESCRIBES.isdisjoint(value.split("-"))
        and not _TEACHING.search(value)
    ):
        return Strength.WEAK
    return Strength.NONE


def _mixed_strength(value: str) -> Strength:
    """The grade of letters with digits."""
    if len(set(value)) < 5:
        return Strength.NONE
    symbol = not _STRONG_SYMBOLS.isdisjoint(value)
    if len(value) >= 16 or (len(value) >= 8 and (symbol or _cased(value))):
        return Strength.STRONG
    return Strength.FAIR if len(value) >= 10 else Strength.WEAK


def _letter_strength(value: str) -> Strength:
    """The grade of letters and symbols without a digit."""
    symbols = [
        character for character in value[1:-1] if character in _STRONG_SYMBOLS and character not in "=+"
    ]
    if symbols and (_cased(value) or len(symbols) > 1):
        return Strength.FAIR
    if not value.isalpha():
        return Strength.NONE
    if _cased(value):
        return Strength.STRONG if len(value) >= 20 else Strength.FAIR if len(value) >= 8 else Strength.NONE
    return Strength.FAIR if len(value) >= 16 else Strength.NONE


def login_password(user: str, password: str) -> bool:
    """Whether `user:password` in a URL or a Basic header holds a password, not a default or a stand-in."""
    lowered = password.lower()
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULT_PASSWORDS:
        return False
    if placeholder(password) or reference(password) or MARKER.search(password):
        return False
    if _BLANK.search(password):
        return False
    return not (wordy(password) and _TEACHING.search(password))


def basic_login(encoded: str) -> bool:
    """Whether base64 text is a `user:password` worth hiding."""
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon) and decoded.isprintable() and login_password(user, password)


def digits_in_base64(encoded: str) -> bool:
    """Whether base64 text holds nothing but digits, as the first part of a Discord token does."""
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).isdigit()
    except (binascii.Error, ValueError):
        return False
