r"""The tables by which secrets are recognised: tokens, phrases, names and words.

A token is a secret with a vendor's prefix, such as `ghp_`. A phrase is a header, call, command line
or sentence that reveals a secret, such as `the password is ...`. A name is the key that a secret is
assigned to, such as `API_KEY`. The rules for tokens are in `vendor_tokens.txt`. To add a rule, add
a row and run `tests/privacy/test_secret_rules.py`, which generates matches for it.

The pre-filter loads this module for every recorded event and searches for keywords only. Every
match of a phrase therefore contains, in lowercase, one of its rule's keywords, and every match of a
token one of its prefixes. A prefix of fewer than four characters counts only if there is a run of
20 token characters. Only two kinds of secrets need no keyword: Discord tokens, which are recognised
by the lengths of their parts, and text encoded as base64.
"""

from __future__ import annotations

import os

from ralph.lean import TYPE_CHECKING, hook_files

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 9
"""Increase this whenever a rule finds more than before.

Log lines that were redacted with older rules are then redacted again.
"""

_MARK_DIGITS = 16


def rules_mark(patterns: Sequence[str]) -> str:
    """Return the mark for log lines that were redacted with these rules and the user's patterns."""
    if not patterns:
        return str(VERSION)
    import hashlib  # few users have patterns of their own

    joined = "\n".join(patterns).encode("utf-8", "replace")
    return f"{VERSION}-{hashlib.sha256(joined).hexdigest()[:_MARK_DIGITS]}"


# --- vendor tokens --------------------------------------------------------------------------------

TokenRule = tuple[str, list[str], str, str]
"""Kind, prefixes, regex for the text after the prefix, regex for the text before it (or "")."""

_TOKENS_FILE = "vendor_tokens.txt"
_MAX_TOKENS_FILE = 1 << 18  # bytes, many times its size
_BEFORE = "before "

AMBIGUOUS_PREFIXES = frozenset(
    {
        "voyage-",
        "ion_",
        "sgs_",
        "rpa_",
        "clk_",
        "hsp_",
        "svix_",
        "jina_",
        "EAAA",
        "AAAA",
        "key-",
        "inc_",
        "creem_",
        "depot_",
        "nsc_",
        "token-",
        "sess-",
        "live_",
        "test_",
        "sandbox_",
        "pat_",
        "sat_",
        "_live_",
        "_prod_",
        "_sk_",
        "_pat_",
        "_secret_",
        "_token_",
        "_apikey_",
    }
)
"""Prefixes that ordinary names also begin with. The text after them must look random."""


def token_rules() -> list[TokenRule]:
    """Return the rules for vendor tokens."""
    if not _token_rules:
        _token_rules[:] = _read_token_rules()
    return _token_rules


_token_rules: list[TokenRule] = []  # filled when first needed


def _read_token_rules() -> list[TokenRule]:
    rules: list[TokenRule] = []
    for line in _token_lines():
        if line[0] != " ":
            kind, _, prefixes = line.partition(": ")
            rules.append((kind, prefixes.split(), "", ""))
            continue
        kind, prefix_list, body, _ = rules.pop()
        regex = line.strip()
        if regex.startswith(_BEFORE):
            rules.append((kind, prefix_list, body, regex.removeprefix(_BEFORE)))
        else:
            rules.append((kind, prefix_list, regex, ""))
    return rules


def token_prefixes() -> list[str]:
    """Return the prefixes of all token rules."""
    if not _token_prefixes:
        prefixes: list[str] = []
        for line in _token_lines():
            if line[0] != " ":
                prefixes += line.partition(": ")[2].split()
        _token_prefixes[:] = prefixes  # in one step, because another thread may be asking too
    return _token_prefixes


_token_prefixes: list[str] = []  # filled when first needed


def _token_lines() -> list[str]:
    """Return the lines of the file with the token rules, without comments and empty lines.

    Raises FileNotFoundError rather than recording an event that no rule has seen.
    """
    path = os.path.dirname(__file__) + "/" + _TOKENS_FILE
    data = hook_files.read_file(path, _MAX_TOKENS_FILE)
    if data is None:
        raise FileNotFoundError(path)
    return [line for line in data.decode("utf-8").split("\n") if line and line[0] != "#"]


# --- phrases --------------------------------------------------------------------------------------

_PASSWORD_LABELS = (
    "password",
    "passwort",
    "passphrase",
    "passcode",
    "kennwort",
    "wachtwoord",
    "contraseña",
    "mot de passe",
    "senha",
    "parola",
    "hasło",
    "lösenord",
    "heslo",
    "jelszó",
    "şifre",
    "пароль",
    "passord",
    "adgangskode",
    "salasana",
    "jelszava",
    "palavra-passe",
    "κωδικός",
    "лозинка",
    "mật khẩu",
    "kata sandi",
    "clave",
    "wifi key",
    "كلمة المرور",
)
_SPOKEN = (*_PASSWORD_LABELS, " pw ", "pwd ")
"""Keywords that introduce a password in a sentence."""
_ENDINGS = "(?:et|en|n|si|s)?"
"""Endings of words for a password: `lösenordet`, `adgangskoden`, `şifresi`, `passwords`."""
_NOW = (
    "now",
    "jetzt",
    "nun",
    "nu",
    "nå",
    "nyt",
    "maintenant",
    "désormais",
    "ahora",
    "agora",
    "adesso",
    "ora",
    "acum",
    "teraz",
    "nyní",
    "teď",
    "теперь",
    "тепер",
    "artık",
    "sekarang",
)
"""Words for `now`, which may stand between `is` and a value, or instead of `is`."""
COPULAS = frozenset(
    {
        *_NOW,
        "is",
        "be",
        "it's",
        "was",
        "to",
        "as",
        "lautet",
        "ist",
        "est",
        "es",
        "c'est",
        "=",
        "-",
        "->",
        "→",
        "—",
        "–",
        "são",
        "set",
        "är",
        "jest",
        "je",
        "è",
        "é",
        "là",
        "هي",
        "er",
        "on",
        "este",
        "adalah",
        "είναι",
        "still",
    }
)
"""Words and signs that link a name to its value in a sentence."""
_RECEIVERS = (
    "password-stdin",
    "token-stdin",
    "secret-stdin",
    "key-stdin",
    "passwd --stdin",
    "login --stdin",
    "with-token",
    "pass stdin",
    "vault login -",
    "passphrase-fd 0",
    "devops login",
    "cryptsetup",
    "secret create",
    "secrets create",
    "versions add",
    "secret put",
    "secret set",
    "secrets import",
    "smbpasswd",
    "kinit",
    "ssh-add",
    "pass insert",
    "from-file=password",
)
"""Options that make programs read a password from standard input."""
_ECHOED = (
    r"(?P<s>(?<=\")[^\"\n]{1,256}?(?=<ends>\\?\")|(?<=')[^'\n]{1,256}?(?=<ends>')"
    r"|(?:[^\s\"'|;&\\]|\\[^\s\"'nrt]){1,256})"
)
_PARTS = (
    # One quoted or unquoted value.
    ("<value>", r"[\"']?(?P<s>(?<=\")[^\"\n]{4,128}|(?<=')[^'\n]{4,128}|[^\s\"']{4,128})"),
    # A string literal that is an argument, possibly converted: `bytes("...")`.
    ("<literal>", r"(?:[a-z]{1,12}\()?[\"'](?P<s>[^\"'\n]{4,128})[\"']\s{0,9}[,)]"),
    # Other words on the line, up to a pipe or semicolon.
    ("<line>", r"[^\n|;]{0,160}?\s"),
    # One argument of a call and the comma after it.
    ("<argument>", r"[^,()\n]{0,120},\s{0,40}"),
    # Optional quotes, possibly escaped.
    ("<quote>", r"[\"'\\]{0,2}"),
    # The words of a seed phrase: `: apple river ...`.
    (
        "<seed>",
        r"[\"']?(?:[^\n:=]{0,80}(?=:)|\s{0,4})(?:(?:is|are|was)[:=]?|[:=])\s{0,4}[\"'`]?"
        r"(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
    ),
    # One recovery code on its line: `- 1a2b-3c4d`.
    (
        "<code>",
        r"[-*\d.)\s]{0,6}(?=[^\n]{0,40}\d)[A-Za-z0-9]{4,10}(?:[- ]?[A-Za-z0-9]{4,10}){0,3}"
        r"[ \t,]{0,4}(?:\n|\Z)",
    ),
    # A program that reads a password from standard input.
    ("<option>", rf"(?:{'|'.join(_RECEIVERS)}|(?-i:sudo -S))"),
    # The beginning of a pipe: `echo -n "`, `printf '%s' "`.
    (
        "<echo>",
        r"\b(?:echo|printf)[ \t]+(?:-[neE]{1,3}[ \t]+)?(?:[\"']?%s(?:\\{1,2}n)?[\"']?[ \t]+)?"
        r"[\"'\\]{0,3}",
    ),
    # The text that is printed into the pipe.
    ("<echoed>", _ECHOED),
    # The end of the printed text, and the pipe after it.
    ("<to>", r"<ends>[\"'\\]{0,3}[ \t]*\|[^|;\n]{0,200}"),
    # Escaped line ends: `\\n`.
    ("<ends>", r"(?:\\{1,2}[nrt])*"),
    # Words for a password, in several languages.
    ("<words>", "|".join((*_PASSWORD_LABELS, " ?pwd?(?= )"))),
    ("<endings>", _ENDINGS),
    # Like `<gap>`, followed by an opening quote.
    ("<for>", r"<gap>(?:«\s|[\"'`«„“*]{0,3})"),
    # Words between `password` and its value: ` for the staging server is `.
    ("<gap>", r"(?!<about>)(?:[^\n.;!?:=]|\.(?=\w)){0,60}?(?:[\s,(]<is>|\s?[:=])\s{1,3}"),
    # Words that show that a sentence is about passwords in general: ` policy`.
    (
        "<about>",
        r"\s(?:policy|field|column|hash|type|manager|length|input|label|reset|parameter"
        r"|option|file|name)",
    ),
    ("<uuid>", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    # Words and signs that link a name to its value.
    (
        "<is>",
        r"(?:ist?|be|it['’]s|was|to|as|lautet|est?|c['’]est|set|->|→|[—–]|är|jest|je|[èé]|là"
        rf"|هي|er|(?<=salasana )on|este|adalah|είναι|still|{'|'.join(_NOW)})",
    ),
)
"""The `<parts>` that phrase regexes may use, in the order in which they are replaced."""

OUTPUT = "output"
"""The condition of rules for what a command prints."""

PhraseRule = tuple[str, str, tuple[str, ...], str, str]
"""Kind, condition, keywords, what must follow a keyword (or ""), regex."""


def _phrase(
    kind: str, condition: str, keywords: tuple[str, ...], regex: str, follows: str = ""
) -> PhraseRule:
    """Make a phrase rule, for a header, call, command line or sentence.

    The value is the group `s` or `t` in `regex`, and must meet `condition`, which names a function
    in `secret_phrases`. `regex` may use the placeholders in `_PARTS`. With the conditions `piped`
    and `before`, the value precedes the keyword. `follows` must occur after the keyword (see
    `secret_prefilter.has_follower`).
    """
    return kind, condition, keywords, follows, regex


# The comment above a rule shows what it matches, with VALUE in place of the secret.
_PHRASE_RULES = [
    # --- headers and configuration files ----------------------------------------------------------
    # `Authorization: Bearer VALUE`
    _phrase(
        "bearer token",
        "fair",
        ("bearer",),
        r"bearer<quote>[\s:]{1,3}<quote>(?P<s>[A-Za-z0-9._~+/=-]{16,})",
    ),
    # `Authorization: Basic VALUE`
    _phrase(
        "basic login",
        "basic login",
        ("basic ",),
        r"basic <quote>(?P<s>[A-Za-z0-9+/]{8,}={0,2})",
    ),
    # `334 UGFzc3dvcmQ6` and the encoded password on the next line (SMTP)
    _phrase(
        "password",
        "any",
        ("334 ugfzc3dvcmq6",),
        r"334 \S{12}\s{1,4}(?:[a-z]{1,8}:\s|[<>~-]{1,3}\s{0,2})?(?P<s>[a-z0-9+/]{4,400}={0,2})",
    ),
    # `machine host login user password VALUE` (.netrc)
    _phrase(
        "password",
        "login",
        ("login ",),
        r"login\s+\S{1,128}\s+password\s+(?P<s>[^\s\"\\]{4,256})",
        follows="password",
    ),
    # `requirepass VALUE` (Redis), `rootpw VALUE` (Kickstart)
    _phrase(
        "password",
        "login",
        ("requirepass ", "masterauth ", "rootpw ", "bindpw ", " on >"),
        r"(?: on |[a-z]+\s+)(?:--\w+\s+|>)?<value>",
    ),
    # --- command lines ----------------------------------------------------------------------------
    # `sshpass -p VALUE`
    _phrase("password", "login", ("sshpass ",), r"sshpass\s+-p\s*<value>", follows="-p"),
    # `mysql -u root -pVALUE`
    _phrase(
        "password",
        "login",
        ("mysql",),
        r"mysql(?:dump|admin|sh|import)?\b<line>(?-i:-p)<value>",
        follows="-p",
    ),
    # `redis-cli -a VALUE`
    _phrase(
        "password",
        "login",
        ("redis-cli",),
        r"redis-cli\b<line>(?:-a|--pass)[ =]<value>",
        follows="-",
    ),
    # `docker login -p VALUE`, `mongo -p VALUE`
    _phrase(
        "password",
        "password",
        (
            " login ",
            "mongo",
            "mariadb",
            "cypher-shell",
            "evil-winrm",
            "psexec",
            "useradd",
            "usermod",
            "unlock-keychain",
            "certutil",
            "rdesktop",
            "7z a ",
            "7z x ",
            "7za ",
            "rar ",
            "security import",
            "ipmitool",
            "cqlsh",
            "rabbitmqadmin",
        ),
        r"[ a-z0-9-]+<line>-p[ =]?<value>",
        follows="-p",
    ),
    # `deploy -u ada -p VALUE`
    _phrase(
        "password",
        "spoken",
        (" -u ", " -l ", " --user"),
        r"\s--?[a-z]+[ =]\S{1,80}(?:\s|<line>)(?-i:-p)[ =]?<value>",
        follows="-p",
    ),
    # `sqlcmd -P VALUE`, `zip -P VALUE`
    _phrase(
        "password",
        "password",
        ("sqlcmd", "zip ", "mosquitto_", "bcp ", "isql", "tsql", "osql"),
        r"[a-z_]+\b<line>(?-i:-P)[ =]?<value>",
        follows="-p",
    ),
    # `ssh-keygen -N VALUE`, `smbclient //host/share VALUE`
    _phrase(
        "password",
        "password",
        ("ssh-keygen ", "wpa_passphrase ", "smbclient "),
        r"(?:ssh-keygen\b<line>(?-i:-[NP])\s?|wpa_passphrase [\"']?[^\s\"']{1,40}[\"']? "
        r"|smbclient //\S{3,80} (?!-))<value>",
    ),
    # `lftp -u user,VALUE`
    _phrase(
        "password",
        "login",
        ("lftp ",),
        r"lftp\b<line>-u[ =]?[\"']?[^\s,\"']{1,64},(?P<s>[^\s\"']{4,128})",
        follows=",",
    ),
    # `sqlplus user/VALUE@db`
    _phrase(
        "password",
        "login",
        ("sqlplus ", "impdp ", "expdp ", "sqlldr ", "rman ", ":thin:"),
        r"[a-z:]+(?:<line>|(?<=:))(?:userid=|target )?[\w.$]{1,40}/\"?(?P<s>[^\s@/\"']{4,128})"
        r"\"?@",
        follows="/",
    ),
    # `openssl enc -k VALUE`
    _phrase("password", "password", ("openssl ",), r"openssl\b<line>-k\s<value>", follows=" -k"),
    # `mkpasswd -m sha-512 VALUE`
    _phrase(
        "password",
        "password",
        ("openssl passwd", "mkpasswd", "rclone obscure", "hash-password"),
        r"(?:openssl passwd|mkpasswd|rclone obscure|hash-password)"
        r"(?:\s+-\S+(?:\s+sha-?\d+)?){0,4}\s+(?![-<|])<value>",
        follows=" ",
    ),
    # `snmpwalk -A VALUE`
    _phrase(
        "password",
        "password",
        ("snmpwalk", "snmpget", "snmpset", "snmpbulk"),
        r"[a-z]+<line>(?-i:-[cA])\s<value>",
        follows=" -",
    ),
    # `snmpwalk -X VALUE`
    _phrase(
        "password",
        "password",
        ("snmpwalk", "snmpget", "snmpset", "snmpbulk"),
        r"[a-z]+<line>(?-i:-X)\s<value>",
        follows=" -x",
    ),
    # `tool --user name:VALUE`
    _phrase(
        "password",
        "login",
        (
            "--user ",
            "--user=",
            "--userpass",
            "--basic-auth",
            "--auth ",
            "--auth=",
            "--http-auth",
            "--creds ",
            "bundle config",
        ),
        r"(?:--[a-z-]+[ =]|bundle config[^\n:|;]{4,120}\s)[\"']?[^\s:\"'/<]{1,64}:"
        r"(?P<s>[^\s\"']{4,128})",
        follows=":",
    ),
    # `composer config http-basic.host user VALUE`
    _phrase(
        "password",
        "password",
        ("http-basic.", "mc alias set", "config host add"),
        r"(?:http-basic\.\S{1,80}|(?:mc alias set|config host add) \S{1,64} \S{1,120}) \S{1,80} "
        r"<value>",
    ),
    # `net use X: //host/share /user:name VALUE`
    _phrase(
        "password",
        "password",
        ("net use ",),
        r"net use<line>/user:\S{1,64}\s+(?P<s>[^\s/\"']\S{3,64})",
        follows="/user:",
    ),
    # `net use X: //host/share VALUE /user:name`
    _phrase(
        "password",
        "password",
        ("net use ",),
        r"net use\s+(?:[a-z*]:?\s+)?\S{4,80}\s+[\"']?(?P<s>[^\s/\"']\S{3,64}?)[\"']?\s+/user:",
        follows="/user:",
    ),
    # `cargo login VALUE`, `vault login VALUE`
    _phrase(
        "api key",
        "fair",
        (
            "snyk auth ",
            "authtoken ",
            "cargo login ",
            "setapikey ",
            "vault login ",
            "auth init -t ",
            "--oauth2-bearer ",
            "--authkey ",
            "wandb login ",
            "auth login --key ",
        ),
        r"[a-z0-9-]+(?: [a-z-]+){0,3}? [\"']?(?P<s>[A-Za-z0-9_.~+/=-]{16,400})",
    ),
    # `doctl auth init -t VALUE`
    _phrase(
        "api key",
        "fair",
        (
            "nuget push",
            "cypress run",
            "codecov",
            "doctl ",
            "surge ",
            "dotnet nuget",
            "influx ",
            "vercel ",
            "netlify ",
            "gitlab-runner ",
        ),
        r"[a-z-]+\b<line>(?:-k|-t|-r|--key|-apikey)[ =][\"']?(?P<s>[A-Za-z0-9_-]{16,400}={0,2})",
        follows=" -",
    ),
    # `enable secret 0 VALUE` (Cisco)
    _phrase(
        "password",
        "password",
        (
            "snmp-server community ",
            "enable secret ",
            "enable password ",
            "key-string ",
            "-server key ",
            "psksecret ",
            "isakmp key ",
        ),
        r"[a-z-]+ ?[a-z]*\s+(?:[067]\s+)?<value>(?=[ \t]*(?:\r?\n|\Z)|[ ]r[ow]\b|[ ]address)",
    ),
    # `username ada password 7 VALUE` (Cisco)
    _phrase(
        "password",
        "password",
        (" secret 0 ", " secret 7 ", " password 0 ", " password 7 ", " key 0 ", " key 7 "),
        r" [a-z]+ \d (?P<s>[^\s\"\\]{4,128})",
    ),
    # `ALTER USER ada IDENTIFIED BY VALUE;`
    _phrase(
        "password",
        "password",
        ("identified by ",),
        r"identified by (?P<s>[^\s\"'`;,()]{5,64}(?=\s*;)|(?=[^\s;]*\d)[^\s\"'`;,()]{5,64})",
    ),
    # `https://host/cgi-bin/webhook/send?key=VALUE`
    _phrase(
        "webhook",
        "any",
        ("webhook/send?key=", "with/key/"),
        r"\S+?key[=/](?P<s>[A-Za-z0-9_-]{20,64})",
    ),
    # `provider :github, "...", "VALUE"` (OmniAuth)
    _phrase(
        "api key",
        "fair",
        ("provider :", "omniauth :"),
        r"[a-z]+ :\w{2,40},\s{0,40}[\"'][^\"'\n]{4,120}[\"'],\s{0,40}"
        r"[\"'](?P<s>[^\s\"']{16,128})[\"']",
    ),
    # `Client("AC...", "VALUE")` (Twilio)
    _phrase(
        "api key",
        "strong",
        ('("ac', "('ac"),
        r"\([\"']ac[0-9a-f]{32}[\"']\s{0,4},\s{0,9}[\"'](?P<s>[0-9a-f]{32})[\"']",
    ),
    # `ldapsearch -w VALUE`
    _phrase(
        "password",
        "password",
        ("ldap", "add-generic-password"),
        r"[a-z-]+\b<line>(?-i:-w)[ =]?<value>",
        follows="-w",
    ),
    # `smbclient -U user%VALUE`
    _phrase(
        "password",
        "login",
        ("smbclient", "rpcclient"),
        r"[a-z]+<line>-u[ =]?[\"']?[^\s\"'%]{1,80}%(?P<s>[^\s\"']{4,128})",
        follows="%",
    ),
    # `net user ada VALUE /add`
    _phrase(
        "password",
        "password",
        ("net user ",),
        r"net user \S{1,64} (?P<s>[^\s/*\"][^\s\"]{3,64})(?= /)",
        follows="/",
    ),
    # `htpasswd -b file user VALUE`
    _phrase(
        "password",
        "login",
        ("htpasswd ", "mosquitto_passwd "),
        r"\w{8,16}\s+(?=[^\n]{0,40}(?-i:-\w*b))(?:-\w+\s+){1,4}(?:\S+\s+){1,2}?[\"']?"
        r"(?P<s>[^\s\"'|>;]{4,128})(?=[\"']?\s*(?:\Z|[|>;&\n)]))",
        follows="-",
    ),
    # `rabbitmqctl add_user ada VALUE`
    _phrase(
        "password",
        "literal",
        ("add_user ", "change_password "),
        r"[a-z_]+\s+\S{1,64}\s+<value>",
    ),
    # `gh secret set NAME --body VALUE`
    _phrase(
        "password",
        "password",
        ("secret set ",),
        r"secret set \S{1,64}<line>(?:--body|-b)[ =]<value>",
        follows="-b",
    ),
    # `createUser ada SHA VALUE` (SNMP, authentication)
    _phrase(
        "password",
        "password",
        ("createuser ",),
        r"createuser\s+\S{1,64}\s+(?:md5|sha)\S*\s+[\"']?(?P<s>[^\s\"']{4,128})",
    ),
    # `createUser ada SHA ... AES VALUE` (SNMP, privacy)
    _phrase(
        "password",
        "password",
        ("createuser ",),
        r"createuser[^\n]{5,120}?\s(?:aes|des)\S*\s+[\"']?(?P<s>[^\s\"']{4,128})",
    ),
    # `: PSK "VALUE"` (strongSwan)
    _phrase(
        "password",
        "password",
        (": psk ", ": eap ", ": xauth "),
        r": \w+\s+\"(?P<s>[^\"\n]{4,128})\"",
    ),
    # `openssl ... -passin pass:VALUE`
    _phrase("password", "password", ("pass:",), r"pass:(?!\w+\()(?P<s>[^\s\"',;(){}]{6,128})"),
    # `IDENTIFIED WITH plugin BY 'VALUE'`
    _phrase(
        "password",
        "login",
        ("identified ",),
        r"identified\s+(?:with\s+\S+\s+)?by\s+(?=[\"'])<value>",
        follows="by",
    ),
    # `ConvertTo-SecureString "VALUE"`
    _phrase(
        "password",
        "login",
        ("convertto-securestring ",),
        r"convertto-securestring\s+(?=[\"'])<value>",
    ),
    # `host:5432:db:user:VALUE` (.pgpass)
    _phrase(
        "password",
        "login",
        (":543", ":643", "*:*:"),
        r"(?::[56]43\d|\*:\*):[\w*.-]{1,64}:[\w.-]{1,64}:(?P<s>(?:[^\s:\\\"]|\\[:\\]){4,128})(?=[\s\"\\]|\Z)",
    ),
    # `curl -u user:VALUE`
    _phrase(
        "password",
        "login",
        ("curl",),
        r"curl\b[^\n|;]{0,400}?\s(?:-u|--user|--proxy-user)[ =]{0,9}[\"']?[^\s:\"'/]{1,256}:"
        r"(?P<s>[^\s\"']{1,128})",
        follows="-",
    ),
    # --- passwords that are piped or passed to a program ------------------------------------------
    # `echo VALUE | docker login --password-stdin`
    _phrase("password", "piped", (*_RECEIVERS, "sudo -s"), r"<echo><echoed><to><option>"),
    # `docker login --password-stdin <<< VALUE`
    _phrase(
        "password",
        "login",
        (*_RECEIVERS, "sudo -s"),
        r"<option>[^\n]{0,200}<<<[ \t]*[\"']?<echoed>",
        follows="<<<",
    ),
    # `http -a user:VALUE`
    _phrase(
        "password",
        "login",
        ("http -a ", "xh -a "),
        r"(?:http|xh) -a [\"']?[^\s:\"'/]{1,64}:(?P<s>[^\s\"']{1,128})",
    ),
    # `xfreerdp /p:VALUE`
    _phrase("password", "password", ("xfreerdp",), r"xfreerdp<line>/p:<value>", follows="/p:"),
    # `aws ssm put-parameter --value VALUE`
    _phrase(
        "password",
        "password",
        ("put-parameter", "--secret-string"),
        r"(?:put-parameter<line>--value|--secret-string)[ =]<value>",
    ),
    # `user/VALUE@host:1521` (Oracle)
    _phrase(
        "password",
        "piped",
        (":152",),
        r"(?<![\w./-])[\w.$]{1,40}/\"?(?P<s>[^\s:@\"'/]{4,128})\"?@(?://)?[\w.-]{1,80}:152",
    ),
    # `user:VALUE@tcp(` (Go's MySQL driver)
    _phrase(
        "password",
        "piped",
        ("@tcp(",),
        r"(?<![\w.-])[\w.-]{1,64}:(?P<s>[^\s:@\"'/]{4,128})@tcp\(",
    ),
    # `echo user:VALUE | chpasswd`
    _phrase(
        "password",
        "piped",
        ("chpasswd",),
        r"<echo>[^\s:|;&]{1,64}:(?P<s>\S{1,256}?)<to>chpasswd",
    ),
    # --- calls and test scripts -------------------------------------------------------------------
    # `expect "assword:"`, followed by `send "VALUE\r"`
    _phrase(
        "password",
        "password",
        ("assword",),
        r"assword[^\n]{0,12}?\s{0,20}\bsend(?:line)?\s+(?:--\s+)?[\"'](?P<s>[^\"'\n]{4,128}?)"
        r"(?:\\{1,2}[rn])*[\"']",
        follows="send",
    ),
    # `page.locator("#password").fill("VALUE")`
    _phrase(
        "password",
        "spoken",
        ("password",),
        r"password[\w-]{0,20}[\"'\])]{1,5}[^\n\"']{0,40}?[.(](?:fill|type(?:text)?|replacetext"
        r"|entertext|send_?keys|set(?:value|text)|input(?:text)?)\([\"'](?P<s>[^\"'\n]{4,128})",
        follows=").",
    ),
    # `login(user, "VALUE")`
    _phrase(
        "password",
        "literal",
        (
            "basic_auth(",
            "basicauth(",
            "networkcredential(",
            "plainauth(",
            "passwordauthentication(",
            "credentials(",
            "login(",
            "auth=(",
            ".auth(",
            "authenticationinfo(",
            "auth((",
            "authenticate(",
            "sign_in(",
            "signin(",
            ".basic(",
            "digestauth(",
            "wifi.begin(",
            "userpassword(",
            "userinfo(",
            "credential(",
            "credentials.new(",
            "username_pw_set(",
            "oci_connect(",
            "ldap_bind(",
            "simple_bind",
        ),
        r"[a-z_.=]+\({1,2}\s{0,40}<argument><literal>",
        follows=",",
    ),
    # `jwt.sign(payload, "VALUE")`
    _phrase(
        "password",
        "password",
        (
            "jwt.sign(",
            "jwt.verify(",
            "jwt.encode(",
            "jwt.decode(",
            "createhmac(",
            "hmac.new(",
            "hmac(",
        ),
        r"[a-z_.]+\(\s{0,40}<argument><literal>",
        follows=",",
    ),
    # `mysqli_real_connect(link, host, user, "VALUE")`
    _phrase(
        "password",
        "spoken",
        ("real_connect(", "bind(", "createcipheriv("),
        r"[a-z_]+\(\s{0,40}(?:<argument>){1,3}?(?<=[,\s])[\"'](?P<s>"
        r"(?=[^\"'\n]*\d)[^\"'\n]{6,128})[\"']\s{0,9}[,)]",
        follows=",",
    ),
    # `cookieParser("VALUE")`
    _phrase(
        "password",
        "spoken",
        ("cookieparser(", "signedcookie(", "fernet(", "jwtsecret(", ".secret(", "hmac.new(b"),
        r"[a-z.]+\(\s{0,9}b?[\"'](?P<s>[^\"'\n]{6,128})[\"']",
    ),
    # `connect(host, user, "VALUE")`
    _phrase(
        "password",
        "literal",
        (
            "connect(",
            "pdo(",
            "mysqli(",
            "connection(",
            "sequelize(",
            "create_user(",
            "create_superuser(",
        ),
        r"[a-z_]+\(\s{0,40}(?:<argument>){2,3}?<literal>",
        follows=",",
    ),
    # `find("[name=password"].type("VALUE")`
    _phrase(
        "password",
        "spoken",
        ('password"].', "/password/i)", "(passwordinput", "(passwordfield"),
        r"[^\n]{0,80}?[\"'](?P<s>[^\"'\n]{6,128})[\"']\s{0,2}[)}]",
        follows=")",
    ),
    # `redis.auth("VALUE")`
    _phrase(
        "password",
        "spoken",
        (".auth(", ":auth("),
        r".auth\(\s{0,9}[\"'](?P<s>[^\"'\n]{6,128})[\"']\s{0,9}\)",
    ),
    # `Pwd={VALUE}` (connection strings)
    _phrase("password", "password", ("pwd={", "password={"), r"[a-z]+=\{(?P<s>[^{}\n]{4,64})\}"),
    # --- sentences about passwords and tokens -----------------------------------------------------
    # `the password for staging is "VALUE"`
    _phrase(
        "password",
        "literal",
        _SPOKEN,
        r"(?<!_)(?:<words>)<endings>(?![\w-])<gap>\*{0,2}[\"'`«„“]\s?"
        r"(?P<s>[^\"'`»“”\n]{5,80}?)\s?[\"'`»“”]",
        follows="~",
    ),
    # `the password is kettle-drum-song`, at the end of a line
    _phrase(
        "password",
        "plain",
        (*_SPOKEN, "pw is ", "pwd is "),
        r"(?<![\w.\"'{])(?:<words>|pwd?)(?![\w-]|<about>)(?:[\w ,'()]{0,50})?(?:\s(?:is|was"
        r"|lautet|ist|est|es|är|jest|è)\s|:\s(?=(?:[a-z]+-){2}))[\"'`]?(?P<s>"
        r"(?-i:[a-z][a-z.-]{6,30}[a-z]))(?=[\"'`]?[.,;)]?\s*(?:\n|\Z))",
        follows="~~",
    ),
    # `user:VALUE:` in /etc/shadow, where the value is a hash that begins with `$6$`
    _phrase(
        "password",
        "any",
        (":$6$", ":$5$", ":$1$", ":$y$"),
        r":(?P<s>\$\w{1,2}\$[^\s:]{20,200})(?=:)",
    ),
    # `secret key: [12, 255, ...]`, a list of bytes
    _phrase(
        "secret key",
        "any",
        ("key: [", "key = [", "key=[", 'key": [', 'key":[', "secret: [", "keypair"),
        r"[a-z\"':= ]{1,80}(?P<s>\[\s?(?:\d{1,3},\s?){15,63}\d{1,3}\s?\])",
    ),
    # `passphrase: correct horse battery staple`
    _phrase(
        "password",
        "literal",
        ("passphrase",),
        r"passphrase(?![\w-])(?:<gap>(?=(?:[a-z]+ ){3})|\s?[:=]\s?)(?P<s>(?:[a-z]{3,10} ){1,7}"
        r"[a-z]{3,10})(?=\.?\s*(?:\n|\Z)|\. )",
        follows=" ",
    ),
    # `with passphrase orange staple comet 5`, `passphrase: orange staple comet 5`
    _phrase(
        "password",
        "words",
        ("with passphrase ", "with the passphrase ", "passphrase is ", "passphrase: "),
        r"(?:with (?:the )?)?passphrase(?: is|:)? (?P<s>(?-i:[a-z]{3,10} ){3,7}\d{1,4})(?![\w.-])",
    ),
    # `mot de passe provisoire « VALUE »`, `Passwort „VALUE“`
    _phrase(
        "password",
        "spoken",
        (
            "mot de passe provisoire",
            "mot de passe temporaire",
            "mot de passe initial",
            "contraseña temporal",
            "contraseña provisional",
            "contraseña inicial",
            "clave temporal",
            "senha temporária",
            "senha provisória",
            "senha inicial",
            "password temporanea",
            "password provvisoria",
            "password iniziale",
            "passwort „",
            "kennwort „",
            "mot de passe «",
            "contraseña «",
        ),
        r"(?:mot de )?[^\W\d_]+(?: [^\W\d_]+)? ?:? ?[«„“\"'`]\s?"
        r"(?P<s>[^\s\"'`»“”]{6,80})\s?[»“”\"'`]",
    ),
    # `a senha do banco mudou para VALUE`, `changé le mot de passe de ada en "VALUE"`
    _phrase(
        "password",
        "spoken",
        (
            "senha d",
            "senha mudou",
            "senha foi",
            "contraseña d",
            "contraseña ha ",
            "clave del usuario",
            "clave de la cuenta",
            "clave de usuario",
            "mot de passe d",
            "password di ",
        ),
        r"[^\W\d_]+ (?:[^\n.;:=]|\.(?=\w)){0,80}?(?:\s(?:a|para|en|in)\s[`\"'«]\s?"
        r"(?=[^\s`\"'»]{0,80}[!#$%^&*?+])"
        r"|(?:mudou|mudada|alterada|trocada|cambiado|cambiada) (?:para|pra|a)\s)"
        r"(?P<s>[^\s`\"'»,;]{6,80}(?<![.:]))",
    ),
    # `the password for staging is VALUE`
    _phrase(
        "password",
        "spoken",
        _SPOKEN,
        r"(?:<words>)<endings>(?![\w-])<for>(?P<s>(?=\S{0,40}(?:[\d!@#$%^&*_+]|"
        r"(?-i:[a-z]-[A-Z]))|[a-z]{20})(?:[^\s\"'`»“”,;)]|[,;)](?=[^\s\"'`»“”,;)])){5,127}"
        r"(?<![.:*]))",
        follows="~",
    ),
    # `the token for the build server: VALUE`
    _phrase(
        "token",
        "fair",
        (
            "token for ",
            "secret for ",
            "key for ",
            "token of ",
            "token to ",
            "token on ",
            "key of ",
            "token (",
            "key (",
            "secret (",
            "token von ",
            "token für ",
            "token created",
            "key created",
            "secret created",
            "this token",
            "this secret",
            "this key",
            "secret we ",
            "token we ",
            "token in ",
            "secret in ",
            "secret value",
        ),
        r"(?<!public )[a-z]+ <for>(?P<s>[A-Za-z0-9_+/=.~-]{16,256})",
        follows="~",
    ),
    # `login: ada@host.com / VALUE`
    _phrase(
        "password",
        "spoken",
        (
            "login",
            "credential",
            "creds",
            "account",
            "log in",
            "logs in",
            "zugang",
            "identifiant",
            "wifi",
            "db user",
        ),
        r"[^\n]{0,80}?[\s(`\"'](?:[\w.+-]{1,64}@[\w.-]{1,64}[`\"']? ?/|[\w.+-]{2,40}[`\"']? /)"
        r"[ ]?[`\"']?(?P<s>[^\s`\"',)]{6,128})",
        follows=" / ",
    ),
    # `changed it to VALUE`, before a word about a login
    _phrase(
        "password",
        "spoken",
        ("changed it to ", "set it to ", "reset it to ", "changed that to"),
        r"[a-z ]{1,80} to [`\"']?(?P<s>[^\s`\"',]{6,64})(?=[^\n]{0,80}(?:passw|login|\bpw\b))",
    ),
    # `"policies": [...], "value": "VALUE"`, the answer to the creation of a token
    _phrase(
        "token",
        "strong",
        ('"policies"', '"scopes"', '"permissions"'),
        r"\"[a-z]+\"\s{0,4}:\s{0,4}\[[\s\S]{0,1200}?\]\s{0,20},[^{}\[\]]{0,300}?\"value\"\s{0,4}:"
        r"\s{0,4}\"(?P<s>[A-Za-z0-9_-]{32,80})\"",
        follows='"value"',
    ),
    # `Secret ID: VALUE`, where the value is a UUID (Azure, Vault)
    _phrase(
        "secret key",
        "any",
        ("secret id", "secretid"),
        r"secret ?id[\"']?\s{0,12}[:=]\s{0,4}[\"']?(?P<s><uuid>)",
    ),
    # `License key: ABCD-1234-EFGH-5678`, `recovery key: cbdefghi-...` (systemd-cryptenroll)
    _phrase(
        "secret key",
        "any",
        (
            "product key",
            "license key",
            "licence key",
            "recovery key",
            "filevault",
            "bitlocker",
            "activation key",
            "serial key",
        ),
        r"[a-z]{1,40}[^\n]{0,40}?\b(?P<s>(?-i:(?:[A-Z0-9]{4,8}-){3,7}[A-Z0-9]{4,8}"
        r"|(?:[cbdefghijklnrtuv]{8}-){7}[cbdefghijklnrtuv]{8}))\b",
    ),
    # `credentials: ada:VALUE`
    _phrase(
        "password",
        "spoken",
        (
            "creds: ",
            "creds are ",
            "credentials: ",
            "credentials are ",
            "login: ",
            "login is ",
            "logins: ",
            "basic_auth=",
            "http_auth=",
            "credentials=",
            "zugangsdaten: ",
            "identifiants: ",
            "login with ",
            "credentials for ",
        ),
        r"[a-z_]+(?: (?:is|are|with|for))?[ :=]{1,3}[`\"']{0,2}[\w.@+-]{2,40}(?:[:/]"
        r"| and )[`\"']?(?P<s>[^\s`\"',)/]{6,128}(?<![.;:]))(?!/)",
    ),
    # `log in as ada with VALUE`
    _phrase(
        "password",
        "prose",
        ("in as ", "anmelden als ", "ssh ", "encrypted", "protected", "locked", "unlock", "opens "),
        r"\w{2,12}(?:[^\n.;:,]|\.(?=\w)|,(?= with)|;(?= open| unlock)){0,60}?\swith:? "
        r"(?:the )?[`\"']?(?P<s>[^\s`\"',)\[]{6,128}(?<![.;:]))",
        follows=" with",
    ),
    # `type VALUE when it asks for a password`
    _phrase(
        "password",
        "before",
        (
            "asks for a pass",
            "asks for the pass",
            "asked for a pass",
            "asked for the pass",
            "password prompt",
            "prompted for",
        ),
        r"\b(?:use|type|enter|try|give|put|is) [`\"']?(?P<s>[^\s`\"']{6,64})[`\"']? (?:when|at"
        r"|if|once|where)\b",
    ),
    # `the login is ada@host.com -> VALUE`
    _phrase(
        "password",
        "prose",
        ("login", "credential", "creds", "account"),
        r"[^\n]{0,160}?[\s(`\"'][\w.+-]{1,64}@[\w.-]{1,64}[`\"']? ?(?:→|->|=>|:|\||,|with|mit"
        r"|/)[ ][`\"']?(?P<s>[^\s`\"',)\[]{6,128})",
        follows="@",
    ),
    # `changed the password from VALUE to ...`
    _phrase(
        "password",
        "spoken",
        ("passw", "passphrase", " pw ", " pwd "),
        r"\w{2,20}(?:[^\n.;!?:=]|\.(?=\w)){0,40}?\sfrom [`\"']?(?P<s>[^\s`\"',)]{6,128})"
        r"[`\"']? to\b",
        follows=" from ",
    ),
    # `wifi key VALUE`
    _phrase(
        "password",
        "spoken",
        (
            "wpa key",
            "wpa2 key",
            "wpa3 key",
            "wifi key",
            "wi-fi key",
            "network key",
            "shared secret ",
            "radius secret ",
            "vpn secret ",
            "mdp ",
        ),
        r"[a-z0-9-]+(?: [a-z]+)?:? [`\"']?(?P<s>[^\s`\"',)]{6,128}(?<![.;:]))",
    ),
    # --- passwords in other formats ---------------------------------------------------------------
    # `BORG_PASSCOMMAND="echo VALUE"`
    _phrase(
        "password",
        "password",
        ("password-command", "password_command", "passcommand", "passcmd", "askpass"),
        r"[a-z_-]{6,40}[ =:][\"'\\]{0,3}(?:echo|printf)\s+[\"'\\]{0,3}(?P<s>[^\s\"'\\]{4,128})",
    ),
    # `chpasswd:` and `list: |`, with `user:VALUE` on the lines below (cloud-init)
    _phrase(
        "password",
        "any",
        ("chpasswd:",),
        r"chpasswd:[^|]{0,120}?list:\s{0,4}\|\s{0,4}\n(?P<s>(?:[ \t]+[\w.-]{1,40}:(?!RANDOM"
        r"|R\s)\S{4,128}\n?){1,20})",
        follows="list:",
    ),
    # `keychain.set("VALUE", forKey: "password")`
    _phrase(
        "password",
        "before",
        ('password")',),
        r"\([\"'](?P<s>[^\"'\n]{6,64})[\"'],\s(?:for)?key:\s[\"'][\w.-]{0,24}password\"\)",
    ),
    # `app password: abcd efgh ijkl mnop` (Gmail)
    _phrase(
        "password",
        "any",
        ("app password", "smtp.gmail", "smtp_gmail"),
        r"(?:app password|smtp.gmail)"
        r"(?:[\s\S]{0,200}?pass(?:word|wd)?| [\w @.()-]{1,60}?(?=:| is ))?"
        r"[\"']?(?:\s|\s?[:=]\s?|\sis\s)[\"'`]?(?P<s>(?=[a-z ]{0,16}\b[bcdfghjklmnpqrstvwxz]{4}\b)"
        r"(?:[a-z]{4} ){3}[a-z]{4})\b",
    ),
    # `app-specific password abcd-efgh-ijkl-mnop` (Apple)
    _phrase(
        "password",
        "any",
        ("app-specific password", "app specific password"),
        r"app.specific password[^\n]{0,60}?[\s\"'`:=](?!abcd-|(?P<first>[a-z])(?P=first))"
        r"(?P<s>(?-i:(?:[a-z]{4}-){3}[a-z]{4}))(?![\w-])",
    ),
    # `basic auth: user:VALUE`
    _phrase(
        "password",
        "spoken",
        ("basic auth",),
        r"basic auth[^\n]{0,60}?[\s`\"'(][\w.@-]{1,40}:(?!//)(?P<s>[^\s`\"')]{6,64})",
        follows=":",
    ),
    # `user:VALUE` in backticks, before the words `basic auth`
    _phrase(
        "password",
        "before",
        ("basic auth",),
        r"`(?:[\w.@-]{1,40}:(?!//)|(?=[A-Za-z0-9+/]{20,256}={0,2}`))(?P<s>[^\s`\"']{6,256})`",
    ),
    # A password alone on the line after its label.
    _phrase(
        "password",
        "spoken",
        ("password", "passwort", "passphrase", "clave"),
        r"(?<![\w.-])[a-z]+(?: [\w ()'-]{0,60})?:?[ \t*]*\n\s{0,20}`{0,3}\s{0,4}"
        r"(?P<s>[^\s`:=,|()\"']{8,128})`{0,3}[ \t]*(?:\n|\Z)",
        follows="\n",
    ),
    # `"result": "VALUE"`, below `random_password` (Terraform)
    _phrase(
        "password",
        "any",
        ("random_password",),
        r"random_password[\s\S]{0,400}?\"result\"\s*:\s*\"(?P<s>[^\"\n]{6,128})\"",
        follows="result",
    ),
    # --- output of commands that print a secret ---------------------------------------------------
    # The line after `$ openssl rand -hex 32`.
    _phrase(
        "secret",
        OUTPUT,
        (
            "master.key",
            "print-access-token",
            "ssm get-parameter",
            "printenv",
            "genkey",
            "genpsk",
            "/dev/urandom",
            "token_urlsafe",
            "token_hex",
            "rails secret",
            "makepasswd",
            "auth token",
            "base64 -d",
            "base64 --decode",
            "get-login-password",
            "print-identity-token",
            "get-access-token",
            "token create",
            "generate-secret",
            "openssl rand",
            "pwgen",
            "op read",
            "pass show",
            "get-secret-value",
            "secrets get",
            "versions access",
            "initialadminpassword",
            "create token",
            "get secret",
            "kv get",
            "keyvault secret",
            "initial-password",
        ),
        r"[^\n]{4,200}\n[\"']?(?P<s>[^\s:\"']{8,4000})[\"']?[ \t]*(?:\n|\Z)",
        follows="\n",
    ),
    # The line below a file name that ends with .key, secret or token.
    _phrase(
        "secret",
        OUTPUT,
        (".key\n", "secret\n", "password\n", "passwd\n", "token\n", "_pass\n"),
        r"[^\s]+\n(?:[#/]{1,2} )?(?P<s>[^\s:=,|()\"']{8,4000}={0,2})[ \t]*(?:\n|\Z)",
    ),
    # --- keys and codes of certain services -------------------------------------------------------
    # `https://mainnet.infura.io/v3/VALUE`, `JSESSIONID=VALUE`
    _phrase(
        "secret key",
        "fair",
        (
            "account.key.",
            "alchemy.com/v2/",
            "infura.io/v3/",
            "accounts: [",
            "jsessionid=",
            "phpsessid=",
            "connect.sid=",
            "bw_session=",
            "login(key=",
        ),
        r"(?:account\.key\.[\w.-]{1,80}[\"']?\s{0,4}[,=\s]\s{0,4}[\"']?|[a-z.]+/v[23]/"
        r"|accounts: \[\s{0,9}[\"']|[a-z._()]+=(?:s%3a)?[\"'\\]{0,2})"
        r"(?P<s>[A-Za-z0-9+/=_-]{20,})",
    ),
    # `define('AUTH_KEY', 'VALUE')` (WordPress)
    _phrase(
        "secret key",
        "any",
        (
            "auth_key'",
            "logged_in_key'",
            "nonce_key'",
            "auth_salt'",
            "logged_in_salt'",
            "nonce_salt'",
        ),
        r"[a-z_]+'\s{0,20},\s{0,20}'(?P<s>[^'\n]{60,70})'",
    ),
    # `<password> <value>VALUE` (XML)
    _phrase(
        "password",
        "password",
        ("password>",),
        r"password>\s{0,40}<valu[e]>(?P<s>[^<\n]{4,128})",
    ),
    # `safe combination: 12-34-56`
    _phrase(
        "password",
        "any",
        ("safe combination",),
        r"[a-z ]+(?: is|:) (?P<s>\d{1,3}(?:[- ]\d{1,3}){2,3})\b",
    ),
    # `SSID: office`, with `key: VALUE` on the next line
    _phrase(
        "password",
        "password",
        ("ssid",),
        r"ssid[^\n]{1,60}\n[-*\s]{0,6}(?:key|pass\w*|pw|psk)\s?[:=]\s?<value>",
        follows="\n",
    ),
    # `the PIN is 1234`
    _phrase(
        "password",
        "any",
        (
            "pin for ",
            "pin is ",
            "pin: ",
            "pin=",
            " pin ",
            " pin, ",
            "-pin ",
            "pin code",
            "passcode",
            "puk: ",
            " puk ",
            "door code",
            "unlock code",
            'pin":',
            'pin\\":',
            "türcode",
            'otp":',
            'otp\\":',
            "otp: ",
            "otp=",
        ),
        r"[\s-]?(?<![a-z])(?:pin(?: code)?|passcode|puk|otp|türcode|(?:door |unlock )?code)s?\\?"
        r"[\"']?(?:(?:[^\n.;:=]{0,40}?\s<is>|[^\n.;:=]{0,40}[:=])(?:\s{1,3}|(?=\\?[\"']))"
        r"|[ =])[`\"'*\\]{0,2}(?P<s>\d{4,10})\b(?!\.\d)",
    ),
    # `appid=VALUE`, `sonar.login=VALUE`
    _phrase("api key", "strong", ("appid=", "sonar.login="), r"[a-z.]+=(?P<s>[0-9a-f]{32,40})\b"),
    # The lines below `-----BEGIN OpenVPN Static key V1-----`.
    _phrase(
        "private key",
        "any",
        ("openvpn static key",),
        r"openvpn static key[^\n]{0,9}-----\s*(?P<s>[0-9a-fnr\s\\]{64,1200})",
    ),
    # `TOTP secret: VALUE`, where the value is base32
    _phrase(
        "secret key",
        "any",
        ("totp", "otp se", "2fa s", "mfa s", "setup key", "authenticator"),
        r"[\w -]{3,16}[\w ()'-]{0,80}?(?:\s<is>|[:=])\s{0,3}[\"'`]?(?P<s>(?-i:[A-Z2-7]{16,64}|"
        r"(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4}|(?=[a-z ]*[2-7])(?:[a-z2-7]{4} ){3,15}"
        r"[a-z2-7]{4}))\b",
    ),
    # `use VALUE as the password`
    _phrase(
        "password",
        "before",
        (
            "as the password",
            "as password",
            "as its password",
            "as my password",
            "as passphrase",
            "als passwort",
            "comme mot de passe",
            "como contraseña",
        ),
        r"(?:\A|[\s\"'`])[\"'`]?(?P<s>[^\s\"'`]{6,64})[\"'`]?,? (?:as|als|comme|como)\s",
    ),
    # `recovery codes:` and a list of codes, on one line or one per line
    _phrase(
        "recovery codes",
        "any",
        ("recovery code", "backup code", "scratch code"),
        r"[a-z]+ codes?(?:[^\n]{0,60}\n(?P<s>(?:<code>){2,24})|[^\n:]{0,40}:\s{1,2}(?P<t>"
        r"(?:(?=[a-z-]*\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?:[ ,;/]{1,3}(?:and )?|"
        r"(?=[\s.)]|\Z))){2,20}))",
    ),
    # `seed phrase:` and 12 to 24 words
    _phrase(
        "seed phrase",
        "any",
        (
            "mnemonic",
            "seed phrase",
            "seed_phrase",
            "seed-phrase",
            "seedphrase",
            "seed: ",
            "seed words",
        ),
        r"(?:mnemonic|seed(?:.?phrase| words)?)<seed>",
    ),
    # --- parts of keys, signatures and cookies ----------------------------------------------------
    # `"d": "VALUE"` (a JSON web key)
    _phrase(
        "private key",
        "strong",
        ('"d":', '"d" ', '"p":', '"q":', '"dp":', '"dq":', '"qi":', '"k":', '"p" ', '"q" ', '"k" '),
        r"\"[dpqk][pqi]?\"\s{0,4}:\s{0,4}\"(?P<s>[A-Za-z0-9_-]{40,})\"",
    ),
    # `https://account.blob.core.windows.net/?sig=VALUE`
    _phrase("azure signature", "random", ("sig=",), r"sig=(?P<s>[A-Za-z0-9%+/]{40,200}=?)"),
    # `Cookie: sessionid=VALUE`
    _phrase(
        "session cookie",
        "strong",
        ("cookie", "-b '", '-b "'),
        r"(?:cookie<quote>[:=,]?\s{0,4}|-b )<quote>(?:[^\n;=]{1,64}=[^\n;]{0,300};\s?){0,12}?"
        r"[\w.-]{0,24}?(?:sess[a-z]*|sid|auth[a-z_]*|jwt|remember[a-z_]*)="
        r"(?P<s>[A-Za-z0-9._~%+/=-]{16,})",
        follows="=",
    ),
    # `next-auth.csrf-token=VALUE`, the token and its hash
    _phrase(
        "session cookie",
        "any",
        ("next-auth.csrf-token=", "authjs.csrf-token="),
        r"[a-z.-]+=(?P<s>[0-9a-f]{64}(?:%7c|\|)[0-9a-f]{64})",
    ),
    # A line of cookies.txt, in which tabs separate the fields.
    _phrase(
        "session cookie",
        "strong",
        ("\ttrue\t", "\tfalse\t"),
        r"\t\w+\t\d{1,12}\t[\w.-]{1,60}\t(?P<s>[^\s\"\\]{16,400})",
    ),
]


def phrase_rules() -> list[PhraseRule]:
    """Return the phrase rules."""
    return _PHRASE_RULES


def output_rules() -> list[PhraseRule]:
    """Return the rules for the output of commands that print a secret."""
    return [rule for rule in _PHRASE_RULES if rule[1] == OUTPUT]


def phrase_keywords() -> list[str]:
    """Return the distinct keywords of all phrase rules."""
    return _PHRASE_KEYWORDS


_PHRASE_KEYWORDS = list(dict.fromkeys(keyword for rule in _PHRASE_RULES for keyword in rule[2]))


def phrase_regex(regex: str) -> str:
    """Return a phrase rule's regex with its `<parts>` expanded. The regex ignores case."""
    for name, part in _PARTS:
        regex = regex.replace(name, part)
    return f"(?i){regex}"


# --- key names ------------------------------------------------------------------------------------


NAME_KEYWORDS = (
    "pass",
    "passwd",
    "psswd",
    "pswd",
    "secret",
    "token",
    "credential",
    "creds",
    "auth",
    "bearer",
    "salt",
    "kennwort",
    "secvaluedata",
    "wachtwoord",
    "contrasena",
    "unseal_keys",
    "recovery_keys",
    "keys_base64",
    "senha",
    "heslo",
    "haslo",
    "salasana",
    "adgangskode",
)
SHORT_NAMES = ("key", "pwd", "jwt", "_pat", "pw", "psk", "_keys", "mdp")
"""Short words in secrets' names. Only a character in `AFTER_SHORT_NAME` may follow one.

`NAME_KEYWORDS` are the longer words, which may be followed by more letters.
"""
AFTER_SHORT_NAME = "=:\"'`\\*])>|, \t_-.?!0123456789(%"

NEUTRAL_WORDS = (
    "value val prod production dev development staging stage test testing live sandbox local "
    "old new previous primary secondary backup main default base b64 base64 plain plaintext raw "
    "confirmation confirm string str text ro rw read write readonly admin root v b hex"
)
"""Words at the end of a name that do not change what it means."""


# --- words near a secret --------------------------------------------------------------------------

NEAR_WORDS = (
    "key keys apikey token tokens secret secrets seed hmac credential credentials cred creds "
    "password passphrase pass passwd pwd licence license webhook signing api auth bearer jwt "
    "pat psk private totp otp 2fa mfa unseal wallet aes"
)
"""Words that make a run of random characters a secret if they precede it."""
LOGIN_WORDS = (
    "password passwort passphrase pass pw pwd admin administrator root login log creds "
    "credential credentials account accounts user users username logins vpn rdp ssh ftp sftp "
    "wifi unlock contraseña senha clave robot teamviewer anydesk 계정 접속 로그인 아이디 "
    "konto compte cuenta"
)
"""Words about a login. A word with a symbol inside is a password after one of these."""
VENDORS = (
    "deepgram datadog algolia mailchimp gitea forgejo openweathermap openweather assemblyai "
    "elevenlabs cohere mistral newsapi pagerduty opsgenie newrelic amplitude mixpanel intercom "
    "pusher jenkins sonarqube adyen paypal braintree twilio vonage nexmo plivo messagebird "
    "postmark sparkpost mandrill shodan virustotal abuseipdb ipinfo maxmind tmdb sonar omdb "
    "alphavantage finnhub coinbase binance etherscan infura alchemy moralis wandb runpod tavily "
    "serpapi apify bugsnag rollbar honeybadger loggly papertrail codecov coveralls snyk "
    "circleci bitrise appveyor heroku zendesk freshdesk pipedrive trello clickup todoist "
    "contentful mapbox tomtom opencage rapidapi weatherapi spotify unsplash giphy cloudinary "
    "imgix hetzner linode vultr digitalocean sendinblue brevo mailgun klaviyo splunk codacy "
    "expo"
)
"""Services that issue keys without a prefix. A run directly after such a name is a secret."""
PUBLIC_WORDS = (
    "commit commits sha md crc digest checksum checksums integrity etag hash hashes hashed id "
    "ids uid uuid guid image revision rev fingerprint thumbprint public pub publishable anon "
    "trace span request build version tag branch release head tree blob parent object merge "
    "index diff layer manifest csrf xsrf nonce iv kid arn address contract tx transaction block "
    "account zone tenant org organization project cursor page signature sig certificate cert "
    "run job pod container user customer order invoice bucket file folder path doc document row "
    "record table column event log node deployment dataset snapshot client session sealed "
    "encrypted ciphertext name email url host uri correlation message subscription sitekey site "
    "png svg woff font test fixture sum fingerprints"
)
"""Words that make a run of random characters public if they precede it."""
LABELS = (
    "번호",
    "비번",
    "패스워드",
    "암호",
    "密",
    "口令",
    "パスワード",
    "暗証",
    "пароль",
    "contraseña",
    "토큰",
    "令牌",
    "トークン",
    "키",
    "キー",
    "金鑰",
    "시크릿",
    "シークレット",
    "mot de passe",
    "senha",
    "hasło",
    "lösenord",
    "şifre",
    "heslo",
    "jelszó",
    "khẩu",
    "รหัสผ่าน",
    "पासवर्ड",
    "סיסמה",
    "المرور",
    "токен",
    "ключ",
    "clé",
    "schlüssel",
    "chiave",
    "chave",
    "sleutel",
    "jeton",
    "κωδικός",
    "parolă",
    "лозинка",
)
"""Parts of labels for passwords, tokens and keys in other languages.

Every label that the rules know contains one of these.
"""
SCHEMES = (
    "bearer",
    "token",
    "apikey",
    "api-key",
    "key",
    "basic",
    "digest",
    "ssws",
    "bot",
    "sso-key",
    "geniekey",
    "splunk",
    "oauth",
    "apitoken",
)
"""Words between a header's name and its value, such as `Bearer`."""

# --- blocks, tables and URLs ----------------------------------------------------------------------

KEY_HEADERS = ("PRIVATE KEY", "Private-Lines: ")
BOX = str.maketrans("│┃║─━═┼╪╫╬┿╋├┤┝┥┣┫┡┩┢┪╇╈", "|||---" + "+" * 18)
"""Box-drawing characters in tables, and the ASCII characters that replace them."""
TABLE_MARKS = ("-+-", "-|-", "+---", "|---", "| -", "|:-", "(1 row)", " rows)", "-[ RECORD")
"""Every table in Markdown or in a database client's output contains one of these."""


# --- words that are not passwords -----------------------------------------------------------------

DEFAULT_PASSWORDS = (
    "admin root guest postgres postgresql mysql redis mongo mongodb rabbitmq user username usr "
    "password passwd pass pwd pw secret token test testing example changeme default foo bar baz "
    "qux hello world none null true false key creds credentials host port name minio elastic "
    "neo4j oracle sa db database app dev local docker string xxx yyy"
)
STATES_AND_PRODUCTS = (
    "required optional missing unset empty enabled disabled auto automatic generated rotated "
    "prompt prompted ask masked hashed encrypted encoded plaintext stdin interactive keyring "
    "keychain vault inherit inherited external internal managed unknown invalid valid boolean "
    "number object undefined unused anonymous nobody nothing provided deprecated ignored "
    "supported unsupported accepted rejected expired correct incorrect wrong stored removed "
    "changed updated created deleted private public protected sensitive confidential credential "
    "variable environment mandatory absent present yes no always never manual later elsewhere "
    "config settings configured server client mismatch wordpress airflow keycloak grafana "
    "laravel django nextcloud gitea gitlab github drupal joomla magento odoo sonar sonarqube "
    "zabbix superset metabase hasura strapi directus umami sentry jenkins nexus kibana logstash "
    "elasticsearch clickhouse cassandra mariadb sqlserver influxdb couchdb couchbase timescale "
    "supabase prisma symfony rails minioadmin postgis pgadmin openldap kafka vagrant ubuntu "
    "debian raspberry website backend frontend development production staging localhost"
)
"""What an environment file may have instead of a password: a state, a place or a product."""
LABEL_WORDS = (
    "str text bytes bytea varchar char chararray uuid secretstr securestring type any field "
    "value val form input result data row column col hash login demo email mail smtp ssh ftp "
    "http api auth account wifi my temp tmp forgot forgotten reset change confirm confirmation "
    "repeat current old min max length chars characters zeichen character digits option flag "
    "argument parameter param params args env placeholder hint help labels textfield charfield "
    "show confirmed nullable sometimes passwort kennwort contrasena wachtwoord senha parola "
    "requerida obligatoria requis erforderlich pflichtfeld sandi kata passe mot de losenord "
    "hasło salasana heslo jelszo sifre contraseña lösenord şifre jelszó first last at least is "
    "of or an a be in on to it if when only also are was than then has have will does did do "
    "please same ci cd id ids sql php"
)
"""Words used in labels, types and variables."""

NOTICE_WORDS = (
    "use the this that with from not set get enter error required invalid label name app prod "
    "dev service config long generated random strong for and your put new must may should can "
    "database server client production staging local version release build step phase chapter "
    "section page figure table issue ticket model type level group team room"
)
"""Words found in names and notices, but not in a passphrase of random words."""
