"""The tables by which values that look like secrets are recognised as harmless.

They list placeholders (`changeme`), references (`${TOKEN}`, `vault:...`, paths), other formats
(dates, versions, colours) and words that occur in sentences about passwords. The tables of the
rules themselves are in `secret_rules`. These are separate because the pre-filter, which every
recorded event loads, does not need them.
"""

from __future__ import annotations

from ralph.lean import secret_rules

PLACEHOLDERS = (
    "xxxx",
    "***",
    "...",
    "…",
    "____",
    "----",
    "00000000",
    "yourpass",
    "yourkey",
    "yourtoken",
    "yoursecret",
    "yourapi",
    "example",
    "sample",
    "placeholder",
    "redacted",
    "replace",
    "insert",
    "mocked",
    "removed",
    "foobar",
    "12345678",
    "abcdefgh",
    "qwerty",
    "deadbeef",
    "notreal",
    "abc123",
    "supersecret",
    "changeme",
    "changethis",
    "changeit",
    "notset",
    "goeshere",
    "mysecret",
    "mypass",
    "mytoken",
    "mykey",
    "myapi",
    "notareal",
    "••",
    "notneeded",
    "notused",
)
WEAK_PASSWORDS = (
    "changeme",
    "changeit",
    "changethis",
    "supersecret",
    "mysecret",
    "mypass",
    "qwerty",
    "replace",
    "insert",
    "sample",
)
"""Placeholders that people extend into a password of their own."""
PLACEHOLDER_WORDS = frozenset(
    {
        "your",
        "here",
        "todo",
        "fixme",
        "fake",
        "dummy",
        "hidden",
        "lorem",
        "some",
        "tbd",
    }
)
EXAMPLE_UUIDS = (
    "123e4567-e89b-",
    "550e8400-e29b-",
    "00000000-",
    "a1b2c3d4-e5f6-",
    "f47ac10b-58cc-",
    "6ba7b810-9dad-",
    "3fa85f64-5717-",
    "12345678-1234-",
    "01234567-89ab-",
    "xxxxxxxx-",
)

# How references to a secret (variables, paths, vaults) begin, what they contain and how they end.
REFERENCE_STARTS = (
    "--",
    "<",
    "[",
    "(",
    "@",
    "&",
    "{",
    "enc[",
    "$env:",
    "$argon2",
    "$ansible",
    "$y$",
    "$pbkdf2",
    "$scrypt",
    "$apr1",
    "arn:",
    "env:",
    "file:",
    "vault:",
    "ssm:",
    "urn:",
    "op:",
    "secretsmanager:",
    "keyring:",
    "awskms:",
    "gcpkms:",
    "data:",
    "secret:",
    "md5-",
    "md5:",
    "md5$",
    "bcrypt",
    "scrypt",
    "pbkdf2",
    "argon2",
    "npm:",
    "projects/",
    "secret/",
    "secrets/",
    "secrets.",
    "vault_",
    "vault/",
    "kv/",
    "var.",
    "local.",
    "module.",
    "data.",
    "params.",
    "pk_live_",
    "pk_test_",
    "pk.eyj",
    "sb_publishable_",
    "phc_",
    "ssh-rsa",
    "ssh-ed25519",
    "aaaab3nza",
    "aaaac3nza",
    "passlib",
)
TEMPLATES = (
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
PUBLIC_KEY_STARTS = (
    "MIIBIjAN",
    "MIICIjAN",
    "MIGfMA0G",
    "MFkwEwYH",
    "MCowBQYD",
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNh",
    "AAAAGnNrLXNz",
    "AAAAInNrLWVj",
)
PATH_STARTS = ("./", "../", "/", "~", "\\\\")
PATH_ENDS = (
    "/",
    ".pem",
    ".key",
    ".crt",
    ".cer",
    ".p12",
    ".pfx",
    ".json",
    ".yml",
    ".yaml",
    ".txt",
    ".py",
    ".js",
    ".jsx",
    ".ts",
    ".tsx",
    ".env",
    ".toml",
    ".ini",
    ".md",
    ".htm",
    ".html",
    ".go",
    ".rs",
    ".java",
    ".rb",
    ".sh",
    ".conf",
    ".cfg",
    ".pub",
    ".jks",
    ".lock",
    ".log",
    ".svg",
    ".png",
    ".css",
    ".com",
    ".org",
    ".net",
    ".io",
    ".dev",
    ".local",
    ".xml",
    ".php",
    ".enc",
    ".gpg",
    ".db",
    ".sql",
    ".pdf",
    ".zip",
    ".gz",
    ".csv",
    ".jpg",
    ".jpeg",
)
HOST_ENDS = (".key", ".com", ".org", ".net", ".io", ".dev", ".local")

OTHER_FORMAT = (
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d?(?:[:.]|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$"
    r"|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d{1,9}[a-z%]{1,3}$|[a-z]+/[a-z0-9.+-]+$|0x[0-9a-fA-F]{40}$"
    r"|.*(?:\\[dwsbDWSB]|\[[A-Za-z]-[A-Za-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, colours, e-mail addresses, sizes, MIME types, addresses and regexes."""
DUMMY_BODY = (
    r"(?i)example|placeholder|redacted|changeme|replace|sample|insert|notreal|foobar|goeshere"
    r"|abcdefghi|0123456789|1234567890|deadbeefdead"
    r"|(?:your|my|some)[-_]?(?:token|key|api|secret|access|personal|actual|real|bot)"
    r"|(?:^|[-_.])(?:your|fake|dummy|todo|fixme|here|goes|secret|token)(?:[-_.]|$)"
    r"|(?-i:x{6}|X{6}|^[xX]{4})|\*{3}|\.{3}|…|([^0-9a])\1{5}|([0-9])\2{7}"
)
"""What manuals write after a vendor prefix. It is too long to occur in a random body by chance."""
FOLLOWERS = (
    "045401404026550406563222306343511154063253045350004160326105405531720436410020"
    "522472206004225204534100204256333120144623266513242051335510700512620544501030"
    "412171355004354205534210117112710160133261043430002043544340000547530455030203"
    "502271005041016303416020205133723360151433036330402061247200601512620144310050"
    "641371005012415601434000105055536140331342015633001023451330203556450644534100"
    "612262035015115406454010402112110011030310144170200061447230503243520455321030"
    "404262245023224402565120305132720560032153055441104044434430400556350655000000"
    "612071106000314202210110006133630560030552055200220053536512500420360237110331"
    "3343532150044546036612312250207103600222500222000021"
)
"""How often each pair of letters, from `aa` and `ab` to `zz`, occurs in words.

There is one digit per pair. 4 means as often as by chance, and each step is a factor of two.
"""

_TECHNICAL_WORDS = (
    "sha md bcrypt argon scrypt pbkdf base aes gcm cbc utf oauth oidc http https rfc saml sso "
    "mfa otp totp jwt tls ssl rsa hmac crc cha poly ed curve kms sse gpg pgp luks ecdsa pkcs "
    "salsa xts bit bits byte characters character chars char hashed encoded encrypted only "
    "based protected"
)
"""Words that show a sentence does not reveal a password: `password is SHA-256 hashed`."""

_PHRASE_WORDS = (
    "too short match matches matching blank more than contain contains include includes letter "
    "letters number numbers symbol symbols uppercase lowercase again try cannot check weak "
    "different between special see read saved kept comes goes found shared sent given needed "
    "asked via file yet already before after next every each you we they our their his her me "
    "us anything something someone everyone unchanged copied sign signin been being would could "
    "there where which who what how why else maybe soon once twice longer shorter used using "
    "like over into out all both but so just even very really still now here by up one two same "
    "words please enter type choose pick hidden chosen taken broken open later other either "
    "under weaker stronger together whatever"
)
"""Words found in sentences about a password, but rarely in a passphrase."""

# --- sets of words --------------------------------------------------------------------------------

NAMING_WORDS = frozenset(
    {
        "password",
        "passwd",
        "passwort",
        "pwd",
        "secret",
        "secrets",
        "token",
        "pass",
        "passphrase",
        "kennwort",
        "credential",
    }
)
"""Words that name a secret instead of being one."""
DEFAULT_PASSWORDS = frozenset(secret_rules.DEFAULT_PASSWORDS.split())
NAME_WORDS = DEFAULT_PASSWORDS | {
    *secret_rules.STATES_AND_PRODUCTS.split(),
    *secret_rules.NOTICE_WORDS.split(),
    *secret_rules.LABEL_WORDS.split(),
}
TECHNICAL_WORDS = frozenset(_TECHNICAL_WORDS.split())
KNOWN_WORDS = NAME_WORDS | TECHNICAL_WORDS
SENTENCE_WORDS = KNOWN_WORDS.union(_PHRASE_WORDS.split())
