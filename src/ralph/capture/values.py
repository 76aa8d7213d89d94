r"""What a value looks like: a secret, a word, a placeholder, a reference to a secret kept elsewhere.

The shape of a value decides more than the name of its key: `token: str`, `PASSWORD=$DB_PASS`
and `secret: my-app-secret` are said a thousand times for each real secret. So everything here
is about saying no with a reason: references, placeholders, words, sequences, dates, paths. What
remains is graded, and each syntax asks for the grade that its ambiguity calls for.
No dictionary: a word is recognised by its case, its vowels and the length of its parts.
A hook runs these rules in a process of its own, so nothing heavy is imported here (`enum` and `re` would take
as long as all of the work), and each expression is compiled when it is first needed.
`tests/capture/test_values.py` holds the examples, `tests/hooks/test_modules.py` pins what is loaded.
"""

import sys
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import ClassVar


class _Closed(type):
    """The type of a class whose few members are all there are."""

    def __contains__(cls, value: object) -> bool:
        return type(value) is cls


class Strength(int, metaclass=_Closed):
    """How much a value looks like a secret; WEAK is a human password: `hunter2`."""

    NONE: "ClassVar[Strength]"
    WEAK: "ClassVar[Strength]"
    FAIR: "ClassVar[Strength]"
    STRONG: "ClassVar[Strength]"


Strength.NONE, Strength.WEAK, Strength.FAIR, Strength.STRONG = map(Strength, range(4))

MARKER = r"\[redacted: [a-z0-9 ]{1,40}\]"
"""What stands where a secret stood; nothing is ever found inside it."""

_EXPRESSIONS: "dict[str, re.Pattern[str]]" = {}


def regex(source: str) -> "re.Pattern[str]":
    """A regular expression, compiled when it is first needed: start-up pays for none."""
    try:
        return _EXPRESSIONS[source]
    except KeyError:
        found = _EXPRESSIONS[source] = _compiler()(source)
        return found


def _compiler() -> "Callable[[str], re.Pattern[str]]":
    """`re.compile`; where `re` is not loaded, the function below it, which comes without `enum` and `functools`."""
    if "re" not in sys.modules:
        try:
            return _bare_compiler()
        except (ImportError, AttributeError):  # another layout of the library
            sys.modules.pop("re", None)
    import re  # noqa: PLC0415 - only where it is loaded already, or cannot be avoided

    return re.compile


def _bare_compiler() -> "Callable[[str], re.Pattern[str]]":
    """The compiler of the package `re`, imported while a bare module stands in for the package itself."""
    spec = next(filter(None, (finder.find_spec("re", None) for finder in sys.meta_path)), None)
    if spec is None:
        raise ImportError(name="re")
    bare = type(sys)("re")
    bare.__path__ = spec.submodule_search_locations or []
    sys.modules["re"] = bare
    from re import _compiler as compiler  # type: ignore[attr-defined]  # noqa: PLC0415 - private, hence the way out

    del sys.modules["re"]  # whoever imports it gets the real one, with this very compiler
    compiled: Callable[[str], re.Pattern[str]] = compiler.compile
    return compiled


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
_TEACHING = r"(?i)passw|passwd|secret|token|test|pass|key|demo|user|field|value|string|login"
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
_TEMPLATE = r"\{\w*\}|%[sd]\b|\$[A-Z][A-Z_]{3,}"
_REFERENCE = (
    r"(?i)%\w+%$|\$[A-Za-z_]\w*$|\$env:|<.*>?$|[\[({@&]|[A-Za-z][\w+.-]*://|ENC\[|![A-Za-z]"
    r"|(?:arn|env|file|vault|ssm|secretsmanager|keyring|awskms|gcpkms|urn|data|secret|op):"
    r"|\$(?:\d|argon2|ANSIBLE|y\$|pbkdf2|scrypt|apr1)"
    r"|\{?(?:md5|sha\d+|s?sha|pbkdf2\w*|bcrypt|scrypt|argon2\w*|cipher)[}:$-]"
)
"""How a variable, a template, a tag, a URL, the name of a vault or a hash begins."""
_PATH = (r"(?i)^(?:\.{0,2}/|~|[A-Za-z]:[\\/]|\\\\)|^\.\w|/$"
    r"|\.(?:pem|key|crt|cer|p12|pfx|json|ya?ml|txt|py|jsx?|tsx?|env|toml|ini|md|html?|go|rs|java|rb|sh|conf|cfg|pub|jks|lock"
    r"|log|svg|png|css|com|org|net|io|dev|local|xml|php|enc|gpg|db|sql|pdf|zip|gz|csv|jpe?g)$")  # fmt: skip
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"
_OTHER_FORMAT = (
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d+[a-z%]{1,3}$"
    r"|[a-z]+/[a-z0-9.+-]+$|[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$|.*(?:\\[dwsbDWSB]|\[[a-z]-[a-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, addresses, colours, e-mail, sizes, mime types, dotted names and regular expressions."""

_CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1"
_VOWEL = r"[aeiouy]"
_STRONG_SYMBOLS = frozenset("!@#$%^&*+=~?")
_BLANK, _DIGIT, _LETTER = r"\s", r"\d", r"[^\W\d_]"
_SEPARATORS = frozenset("-_./: ")
_UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KNOWN_EXAMPLE_UUIDS = (
    "123e4567-e89b-", "550e8400-e29b-", "00000000-", "a1b2c3d4-e5f6-", "f47ac10b-58cc-", "6ba7b810-9dad-",
    "3fa85f64-5717-", "12345678-1234-", "01234567-89ab-", "xxxxxxxx-",
)  # fmt: skip
_DEFAULT_PASSWORDS = words_of(
    """admin root guest postgres postgresql mysql redis mongo mongodb rabbitmq user username usr password passwd pass
    pwd pw secret token test testing example changeme default foo bar baz qux hello world none null true false key creds
    credentials host port name minio elastic neo4j oracle sa db database app dev local docker string xxx yyy"""
)
_PLAIN = r"[a-z][a-z0-9]{5,23}"
_NO_PASSWORDS = words_of(
    """required optional missing unset empty enabled disabled auto automatic generated rotated prompt prompted ask
    masked hashed encrypted encoded plaintext stdin interactive keyring keychain vault inherit inherited external
    internal managed unknown invalid valid boolean number object undefined unused anonymous nobody nothing provided
    deprecated ignored supported unsupported accepted rejected expired correct incorrect wrong stored removed changed
    updated created deleted private public protected sensitive confidential credential variable environment mandatory
    absent present yes no always never manual later elsewhere config settings configured server client mismatch
    wordpress airflow keycloak grafana laravel django nextcloud gitea gitlab github drupal joomla magento odoo sonar
    sonarqube zabbix superset metabase hasura strapi directus umami sentry jenkins nexus kibana logstash
    elasticsearch clickhouse cassandra mariadb sqlserver influxdb couchdb couchbase timescale supabase prisma symfony
    rails minioadmin postgis pgadmin openldap kafka vagrant ubuntu debian raspberry website backend frontend
    development production staging localhost"""
)
"""What an environment line says instead of a password: a state, a place, or the product's own name."""
_JOINT = r"[-_.]"
_TITLED_PHRASE = r"[A-Z][a-z]{2,11}(?:[-_.][A-Z][a-z]{2,11}){1,5}[-_.]?\d{2,4}"
_PHRASE = r"[a-z]{3,12}(?:-[a-z]{3,12}){3,7}"
_DESCRIBES = words_of(
    """use the this that with from not set get enter error required invalid label name app prod dev service config long
    generated random strong for and your put new must may should can database server client production staging local
    version release build step phase chapter section page figure table issue ticket model type level group team room"""
)
"""Words of a name or a notice, which a passphrase of random words does not have."""


def _runs(value: str) -> float:
    """The share of neighbours that repeat or count upwards: near 1 for `aaaa`, `abc123`, `0123456789`."""
    return sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(value)) / max(1, len(value) - 1)


def placeholder(value: str) -> bool:
    """Whether a value only stands in for a secret: `changeme`, `xxxx`, `your-key-here`, `abc123`."""
    head = value[:_HEAD].lower()
    return _stands_in(head) or _runs(value[:48]) > 0.5


def _stands_in(head: str) -> bool:
    joined = head.translate(_JOINTS)
    both = f"{head}\n{joined}"
    for word in _STAND_INS:
        if word in both:
            return True
    return joined.endswith("here") or joined.startswith("some") or len(set(head)) < 4


def _by_policy(value: str) -> bool:
    """Whether a sequence has capitals and digits because a login asks for them: `Abcd1234` is typed by people."""
    return 8 <= len(value) <= 10 and _cased(value) and regex(_DIGIT).search(value) is not None


def reference(value: str) -> bool:
    """Whether a value names the place of a secret: a variable, a template, a path, a URL, a vault, or is a hash."""
    head = value[:_HEAD]
    if regex(_REFERENCE).match(head) or any(sign in head for sign in _TEMPLATE_SIGNS):
        return True
    if ("{" in head or "%" in head or "$" in head) and regex(_TEMPLATE).search(head):
        return True
    return regex(_PATH).search(head) is not None and not (regex(_BASE64_RUN).fullmatch(head) and not wordy(head))


def wordy(value: str) -> bool:
    """Whether a value is made of words, in any usual way of joining them, with few digits."""
    chunks = regex(_CHUNK).findall(value[:_HEAD])
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
    return regex(_VOWEL).search(word) is not None and regex(_UNNATURAL).search(word) is None


def plausible(body: str) -> bool:
    """Whether what follows a known prefix was made by a machine, rather than written in a manual."""
    head = body[:_HEAD]
    if placeholder(head) or wordy(head) or len(set(head)) < min(8, len(head) // 2):
        return False
    mixed = head.lower() != head and head.upper() != head
    return mixed or regex(_DIGIT).search(head) is not None


_GRADES: dict[str, Strength] = {}
_MOST_GRADES = 1024


def strength(value: str) -> Strength:
    """The grade of a value that was assigned to something.

    A hostile text is one value many times over, and an honest one repeats its few: each is judged once.
    """
    head = value[:_HEAD]
    found = _GRADES.get(head)
    if found is None:
        if len(_GRADES) >= _MOST_GRADES:
            _GRADES.clear()
        found = _GRADES[head] = _grade(head)
    return found


def _grade(head: str) -> Strength:
    if regex(_UUID).fullmatch(head):
        return _uuid_strength(head)
    if len(head) < 6 or (placeholder(head) and (_stands_in(head.lower()) or not _by_policy(head))):
        return Strength.NONE
    if reference(head) or regex(_OTHER_FORMAT).match(head) or regex(_BLANK).search(head) or regex(MARKER).search(head):
        return Strength.NONE
    if wordy(head):
        return _word_strength(head)
    digit, letter = regex(_DIGIT).search(head), regex(_LETTER).search(head)
    if digit and letter:
        return _mixed_strength(head)
    if digit:
        return Strength.WEAK if len(head) >= 8 and head.isdigit() else Strength.NONE
    return _letter_strength(head) if letter and head.isascii() else Strength.NONE


def _uuid_strength(value: str) -> Strength:
    """One that counts upwards is a stand-in, unless it keeps to the rules for random ones (version 4)."""
    lowered = value.lower()
    if lowered.startswith(_KNOWN_EXAMPLE_UUIDS) or len(set(lowered)) < 6:
        return Strength.NONE
    random = lowered[14] == "4" and lowered[19] in "89ab"
    return Strength.FAIR if random or not placeholder(value) else Strength.NONE


def _cased(value: str) -> bool:
    return value.lower() != value and value.upper() != value


def _word_strength(value: str) -> Strength:
    """`hunter2`, `Summer2024` and `Blue-Horse-77` are passwords; `test-token-2`, `password1` and `sha256` are not."""
    if regex(_TEACHING).search(value):
        return Strength.NONE
    if regex(_DIGIT).search(value) and _SEPARATORS.isdisjoint(value) and len(value) >= 7:
        return Strength.WEAK
    phrase = regex(_PHRASE).fullmatch(value) or regex(_TITLED_PHRASE).fullmatch(value)
    if phrase and _DESCRIBES.isdisjoint(regex(_JOINT).split(value.lower())):
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
    symbols = [character for character in value[1:-1] if character in _STRONG_SYMBOLS and character not in "=+"]
    if symbols and (_cased(value) or len(symbols) > 1):
        return Strength.FAIR
    if not value.isalpha():
        return Strength.NONE
    if _cased(value):
        return Strength.STRONG if len(value) >= 20 else Strength.FAIR if len(value) >= 8 else Strength.NONE
    return Strength.FAIR if len(value) >= 16 else Strength.NONE


def plain_password(value: str) -> bool:
    """Whether a short word may be the password of an environment line: no default, no state, no product's name."""
    if not regex(_PLAIN).fullmatch(value) or value in _DEFAULT_PASSWORDS or value in _NO_PASSWORDS:
        return False
    return not (regex(_TEACHING).search(value) or placeholder(value) or reference(value))


def cased_password(value: str) -> bool:
    """Whether letters in both cases may be the password in a list of `name=value`: `BlueHorse`, not `userName`."""
    if not 6 <= len(value) <= 64 or not (value.isascii() and value.isalpha() and _cased(value)):
        return False
    words = {word.lower() for word in regex(_CHUNK).findall(value)}
    taught = words & (_DESCRIBES | _DEFAULT_PASSWORDS | _NO_PASSWORDS)
    return not (taught or regex(_TEACHING).search(value) or placeholder(value))


def scrambled(value: str) -> bool:
    """Whether a short value mixes capitals, small letters and digits in no word's way: `Zx9kLm`."""
    return _cased(value) and strength(value) >= Strength.WEAK and not wordy(value)


def login_password(user: str, password: str) -> bool:
    """Whether `user:password` in a URL or a Basic header holds a password, not a default or a stand-in."""
    lowered = password.lower()
    if len(password) < 4 or lowered == user.lower() or lowered in _DEFAULT_PASSWORDS:
        return False
    if placeholder(password) or reference(password) or regex(MARKER).search(password):
        return False
    if regex(_BLANK).search(password):
        return False
    return not (wordy(password) and regex(_TEACHING).search(password))


def basic_login(encoded: str) -> bool:
    """Whether base64 text is a `user:password` worth hiding."""
    try:
        decoded = _decoded(encoded).decode("utf-8")
    except ValueError:
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon) and decoded.isprintable() and login_password(user, password)


def digits_in_base64(encoded: str) -> bool:
    """Whether base64 text holds nothing but digits, as the first part of a Discord token does."""
    try:
        return _decoded(encoded.replace("-", "+").replace("_", "/")).isdigit()
    except ValueError:
        return False


def _decoded(encoded: str) -> bytes:
    import binascii  # noqa: PLC0415 - few texts ask for it, and `base64` would load `re`

    return binascii.a2b_base64(encoded + "=" * (-len(encoded) % 4), strict_mode=True)
