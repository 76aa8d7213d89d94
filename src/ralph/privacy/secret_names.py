"""Decide by its name whether a value is a secret: `DB_PASSWORD`, `apiKey`, `next_token`.

A name is split into words, and the last ones decide: `stripeApiKey` ends with `apikey` and names an
API key. Trailing words that mean nothing are ignored (`DB_PASSWORD_PROD`), and some words make a
name public if they precede the last one (`next_token`, `cache_key`).

    secret_name("DB_PASSWORD_PROD")  ->  SecretName("password", FAIR)
    secret_name("cacheKey")          ->  None
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record, secret_rules
from ralph.privacy.secret_values import CHUNK, FAIR, GRADES, STRONG

if TYPE_CHECKING:
    from collections.abc import Iterable


@record
class SecretName:
    """What a name says about the secret stored under it.

    `kind` is the kind of secret. `weakest_grade` is the lowest grade with which a value counts. It
    does not apply to passwords.
    """

    kind: str
    weakest_grade: int


_NAMES = (
    (
        "password",
        "fair",
        "password passwd passwrd passphrase passcode pwd userpass dbpass storepass keypass "
        "rootpass adminpass",
    ),
    (
        "password",
        "fair",
        "sharedsecret presharedkey haslo salasana adgangskode passord smtppass "
        "mailpass passwort pswd",
    ),
    (
        "password",
        "fair",
        "authtok psswd kennwort wachtwoord secvaluedata sshpass requirepass contrasena",
    ),
    ("aws secret key", "fair", "secretaccesskey awssecretkey awssecret"),
    (
        "api key",
        "fair",
        "apikey appkey applicationkey subscriptionkey integrationkey ingestkey servicerolekey "
        "functionskey",
    ),
    ("api key", "fair", "functionkey servicekey apisecret"),
    (
        "secret key",
        "fair",
        "accesskey secretkey privatekey signingkey encryptionkey masterkey accountkey sharedkey "
        "authkey",
    ),
    (
        "secret key",
        "fair",
        "webhookkey deploykey hmackey jwtkey sessionkey cookiekey cryptkey adminkey clientkey "
        "licensekey",
    ),
    (
        "secret key",
        "fair",
        "noncekey loggedinkey authsalt noncesalt loggedinsalt cipherkey aeskey decryptionkey",
    ),
    (
        "secret key",
        "fair",
        "securekey unsealkey recoverykey rootkey secretid",
    ),
    ("secret", "fair", "secret secrets"),
    ("token", "fair", "token jwt bearer"),
    ("credential", "strong", "credential credentials auth authorization connectionkey creds"),
)
"""Rows of kind, weakest grade that counts, and endings, by which key names are recognised.

An ending is compared with the name's words joined together. The first matching row decides.
"""

# Words that make a name public if they precede `token`, `key`, or any name.
_BEFORE_TOKEN = (
    "next page continuation eos bos pad unk sep cls mask cancellation "  # noqa: S105 - words of names
    "cancel stop design sync resume lexer syntax key separator delimiter "
    "image start end special lookahead csrf xsrf sentinel per first last "
    "prev peek change update lock verification idempotency request "
    "action caller etag snapshot revision input output prompt completion "
    "current starting"
)
_BEFORE_KEY = (
    "public cache restore primary foreign partition sort hash object row idempotency translation "
    "i18n lookup index group dedupe feature storage composite natural unique candidate config "
    "registry reg site publishable anon map dict json record message label query state react "
    "order host search header env arrow pub gpg s3 bucket tag shift ctrl alt hot short metric "
    "trace region asset lock kms file entry store item column data param redis socket recv "
    "component style library collection image"
)
_BEFORE_ANY_NAME = (
    "is has need needs require requires show hide forgot invalid missing no without public "
    "sealed hashed"
)
_NOT_PASSWORD_NAMES = (
    "bypass",
    "compass",
    "onepass",
    "lastpass",
    "oldpwd",
    "surpass",
    "trespass",
    "encompass",
)
"""Words that end like the name of a password but do not name one."""
_CONSTANT_WORDS = (
    "reset change forgot forgotten update wrong incorrect invalid weak confirm show grant error "
    "field label enter allow empty random use with enable enabled disable disabled require "
    "required type route action event message title screen view msg err code page form has is "
    "no"
)
"""Words in the names of constants. `RESET_PASSWORD: resetting` does not assign a password."""

API_KEY = SecretName("api key", STRONG)
_PASSWORD = SecretName("password", FAIR)
_PASSWORD_NAMES = ("pass", "pw", "psk", "mdp")
_CONSTANT_KEY_NAMES = ("pat", "key", "keys", "salt", "pepper")
"""Last words that name a key in a constant's name, such as `GITHUB_PAT`."""
_BEFORE = {
    "token": frozenset(_BEFORE_TOKEN.split()),
    "key": frozenset(_BEFORE_KEY.split()),
}
_BEFORE_ANY = frozenset(_BEFORE_ANY_NAME.split())
NEUTRAL = frozenset(secret_rules.NEUTRAL_WORDS.split())
CONSTANTS = frozenset(_CONSTANT_WORDS.split())


def _read_names(rows: Iterable[tuple[str, str, str]]) -> list[tuple[tuple[str, ...], SecretName]]:
    names = []
    for kind, weakest_grade, endings in rows:
        names.append((tuple(endings.split()), SecretName(kind, GRADES[weakest_grade])))
    return names


_NAMES_BY_ENDING = _read_names(_NAMES)


def name_words(key: str) -> list[str]:
    """Return the words in a name, in lowercase and without trailing words that mean nothing."""
    words = [word.lower() for word in re.findall(CHUNK, key) if word.isalnum()]
    while len(words) > 1 and (words[-1] in NEUTRAL or words[-1].isdigit()):
        words.pop()
    return words


def is_public_name(before: str, last: str) -> bool:
    """Return whether a name's last two words name something public: `next_token`, `cache_key`."""
    if before in _BEFORE_ANY:
        return True
    return before in _BEFORE.get(last.removesuffix("s"), ())


def secret_name(key: str) -> SecretName | None:
    """Return what kind of secret is stored under a name, or None. The last words decide."""
    words = name_words(key)
    if not words:
        return None
    joined = "".join(words)
    if joined.endswith(_NOT_PASSWORD_NAMES):
        return None
    if len(words) > 1 and is_public_name(words[-2], words[-1]):
        return None
    for endings, name in _NAMES_BY_ENDING:
        if joined.endswith(endings):
            return name
    if words[-1] in _PASSWORD_NAMES:
        return _PASSWORD
    if len(words) > 1 and _is_key_name(key, words[-1]):
        return API_KEY
    return None


def _is_key_name(key: str, last_word: str) -> bool:
    if last_word == "key":
        return True
    is_constant = key.rpartition(".")[2].strip("-").isupper()
    return is_constant and last_word in _CONSTANT_KEY_NAMES
