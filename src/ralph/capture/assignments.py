r"""Find secrets by the name that they are given: `PASSWORD=`, `"apiKey": "..."`, `--token x`, a column of a table.

From each keyword in the text the key is read to its left, the assignment to its right, and then the value. The key
decides what is stored (`max_tokens`, `password_min_length` and `secretName` are no secrets), the syntax how sure one
may be (an environment line more than prose, a quoted string more than a word that may be a variable), and the value
must be as strong as both require. Every step is bounded, so the work grows with the length of the text.
"""

import re

from ralph.capture import secret_rules as rules
from ralph.capture.prefilter import assignment_keywords
from ralph.capture.secret_values import (
    FAIR,
    GRADES,
    STRONG,
    WEAK,
    grade,
    is_basic_login,
    is_cased_password,
    is_plain_password,
    is_scrambled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int, str]
SecretName = tuple[str, int]
"""What a key of this name stores: the kind of secret, and the weakest value that counts."""

_PASSWORD: SecretName = ("password", WEAK)
_PASS_ALONE: SecretName = ("password", STRONG)
_SOME_KEY: SecretName = ("api key", STRONG)
_LAST_WORDS = {"pass": _PASSWORD, "pw": _PASSWORD, "pat": _SOME_KEY, "key": _SOME_KEY}
_ENDINGS = [(tuple(endings.split()), (kind, GRADES[least])) for kind, least, endings in rules.NAMES]
_NEUTRAL = frozenset(rules.NEUTRAL_WORDS.split())
_BEFORE = {"token": frozenset(rules.BEFORE_TOKEN.split()), "key": frozenset(rules.BEFORE_KEY.split())}
_BEFORE_ANY = frozenset(rules.BEFORE_ANY.split())
_CONSTANTS = frozenset(rules.CONSTANT_WORDS.split())
_NAME_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_NAMES: dict[str, SecretName | None] = {}


def secret_name(key: str) -> SecretName | None:
    """Return what a key of this name stores, or None: its last word decides, after neutral words like `_prod`."""
    if key not in _NAMES:
        if len(_NAMES) >= 4096:
            _NAMES.clear()
        _NAMES[key] = _classify_name(key)
    return _NAMES[key]


def _classify_name(key: str) -> SecretName | None:
    words = [word.lower() for word in re.compile(_NAME_WORDS).findall(key)]
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
    last = _LAST_WORDS.get(words[-1])
    if last is _PASSWORD and len(words) == 1:
        return _PASS_ALONE
    if last is _SOME_KEY:
        spelling = key.rpartition(".")[2].strip("-")
        return last if len(words) > 1 and spelling.isupper() else None
    return last


# --- the syntax of an assignment ----------------------------------------------------------------

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
_FIRST_WORDS = ("api", "access", "secret", "private", "auth", "aws", "client")
_ENV_LINE = (
    r"(?:^|\\n)[ \t]*(?:[-+>*#$][ \t]+)?(?:export[ \t]+|ENV[ \t]+|ARG[ \t]+|set[ \t]+(?:-\w+[ \t]+)?|-e[ \t]+)?\Z"
)
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx|\bsetenv|#define|\bconfig[ \t]+set|\bsecrets?[ \t]+set)[ \t]+\S*\Z"
)
_IDENTIFIER = r"[A-Za-z_$][\w$]*(?:(?:\??\.|->|::)[A-Za-z_$][\w$]*)*"
_PAIR = r"[\"']?[A-Za-z_]\w{0,40}=[^=,;()\[\]{}<>]{1,100}"
_NEXT_PAIR = r"[ \t]{1,4}[A-Za-z_]\w{0,40}=[^=\s]"
_EXPRESSION = r"[A-Za-z_]\w*=[A-Za-z]\w*|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"


def assigned_secrets(text: str, lowered: str) -> "Iterator[Span]":
    """Yield every value that is assigned to the name of a secret and looks like one."""
    ends: set[int] = set()
    covered, current = 0, ""
    for keyword, at in assignment_keywords(text, lowered):
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
    start = _key_start(text, at)
    key = text[start : match.end("rest")]
    name = secret_name(key)
    # In `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."` the word is one of a chain of names.
    if name is None or (match["sep"] == ":" and text[start - 1 : start] == ":"):
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    location = _value_start(text, match, key, line)
    if location is None:
        return None
    return _value(text, *location, name, _Syntax(match, key, line))


def _key_start(text: str, at: int) -> int:
    """Return where the key begins: over its own characters, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    if at > floor and text[at - 1] in _KEY_CHARACTERS:
        at = floor + len(text[floor:at].rstrip(_KEY_CHARACTERS))
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


def _value_start(text: str, match: "re.Match[str]", key: str, line: str) -> tuple[int, int] | None:
    """Return where the value begins and the grade that this syntax requires, or None when it assigns nothing."""
    at, separator, close = match.end(), match["sep"], match["close"]
    typed = re.compile(_TYPED).match(text, at) if separator in (":", "") else None
    if typed:
        return typed.end(), WEAK
    if match["pair"] or separator in ("=", ":=", "=>", "?=", ":"):
        return at, WEAK
    quoted = text[at : at + 1] in ("'", '"', "`", "\\")
    if separator == ">":
        return (at, WEAK) if line.endswith("<") else None
    if separator == ",":
        return (at, STRONG) if quoted and close else None
    if separator == "":
        if key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line):
            return at, WEAK
        return (at, STRONG) if secret_name(key) == _PASSWORD and quoted and not close else None
    if separator in ("==", "===", "!=", "!=="):
        return (at, STRONG) if quoted else None
    return at, STRONG


class _Syntax:
    """The line of an assignment.

    `whole`: it has a line of a `.env`, YAML or INI file, and the value goes on to the next blank. `tight`: written
    `KEY=value`. `env`: with a key in capitals. `listed`: in a list like `user=a password=b`, not first if `follows`.
    """

    __slots__ = ("env", "follows", "listed", "tight", "whole")

    def __init__(self, match: "re.Match[str]", key: str, line: str) -> None:
        self.whole = match["sep"] in ("=", ":") and not match["close"] and bool(re.compile(_ENV_LINE).search(line))
        close = match["sep"] == "=" and match.end("sep") == match.end()
        self.tight = self.whole and close
        constant = not _CONSTANTS.isdisjoint(key.lower().split("_"))
        self.env = self.whole and key.isupper() and ("_" in key or close) and not constant
        before = line.split()[-1:] if line[-1:] in (" ", "\t") else []
        self.follows = bool(before) and re.compile(_PAIR).fullmatch(before[0]) is not None
        self.listed = close and not self.whole and not match["close"] and match.start("sep") == match.end("rest")

    def in_list(self, text: str, end: int) -> bool:
        """Check whether `password=x` has a neighbour of the same form, as in a libpq connection string."""
        return self.listed and (self.follows or re.compile(_NEXT_PAIR).match(text, end) is not None)


def _value(text: str, at: int, required: int, name: SecretName, syntax: _Syntax) -> Span | None:
    scheme = re.compile(_SCHEME).match(text, at)
    if scheme and scheme[0].lower().startswith("basic"):
        return None  # a rule for the header decodes it
    at = scheme.end() if scheme else at
    quoted = None
    if text[at : at + 3].lstrip("brfuBRFUL@$")[:1] in ("'", '"', "`", "\\"):
        quoted = re.compile(_QUOTED).match(text, at) or re.compile(_ESCAPED).match(text, at)
    match = quoted or re.compile(_TO_BLANK if syntax.whole else _UNQUOTED).match(text, at)
    if match is None:
        return None
    value, end = match["value"], match.end("value")
    if quoted:
        inner = re.compile(_SCHEME).match(value)
        at = match.start("value") + (inner.end() if inner else 0)
        value = value[inner.end() :] if inner else value
    else:
        least = _unquoted_grade(text, value, end, syntax)
        if least is None:
            return None
        required = max(required, least)
        value = value.rstrip(",;\"'" if syntax.whole else ".:,;" if required > WEAK else ",;")
        end = at + len(value)
    if not _is_secret(value, max(required, name[1]), name) and not _is_secret_by_line(
        text, value, end, name, syntax, quoted=quoted is not None
    ):
        return None
    if len(value) >= 280 and not (quoted and match["shut"]):
        more = re.compile(_MORE).match(text, end)
        end = more.end() if more else end
    return at, end, name[0]


def _is_secret(value: str, required: int, name: SecretName) -> bool:
    if "[redacted" in value:
        return False
    return (name[0] == "credential" and is_basic_login(value)) or grade(value) >= required


def _is_secret_by_line(text: str, value: str, end: int, name: SecretName, syntax: _Syntax, *, quoted: bool) -> bool:
    """Check a value that is a secret only because of its line: `DB_ROOT_PASSWORD: rootpw`."""
    if name[0] == "password" and syntax.in_list(text, end):
        return is_cased_password(value)
    if not syntax.env or (quoted and not syntax.tight):
        return False
    after = text[end : end + 40].partition("\n")[0].strip("\"' \t\r")
    if after and not after.startswith("#"):
        return False
    return is_plain_password(value) if name == _PASSWORD else name[1] == FAIR and is_scrambled(value)


def _unquoted_grade(text: str, value: str, end: int, syntax: _Syntax) -> int | None:
    """Return the grade that a value without quotes needs, for it may be a variable or a word; None for code."""
    value = value.rstrip(",;") if syntax.whole and not syntax.tight else value
    identifier = re.compile(_IDENTIFIER).fullmatch(value) is not None
    in_list = syntax.in_list(text, end)
    if _is_call(value) or "->" in value or "::" in value:
        return None
    if identifier and secret_name(value) and not ((syntax.whole or in_list) and _count_numbers(value) > 1):
        return None
    if syntax.tight and not value.endswith(","):
        return WEAK
    after, rest = text[end : end + 2], text[end : end + 3]
    if after[:1] in ("(", "[", "{", "<") and after != "</":
        return None
    if len(value) < 20 and re.compile(_EXPRESSION).fullmatch(value):
        return None
    if syntax.whole and rest[:1] in ("", "\n", "\r") and text[end - 1 : end] != ",":
        return WEAK
    if in_list and "." not in value and rest[:1] in ("", " ", "\t", "\n", "\r", '"', "'"):
        return WEAK
    prose = rest[:1] in (" ", "\t") and rest.strip()[:1] not in ("", *"#/;-&|\\>)}]\"'")
    return STRONG if prose or identifier else WEAK


def _count_numbers(value: str) -> int:
    return len("".join(character if character.isdigit() else " " for character in value).split())


def _is_call(value: str) -> bool:
    match = re.compile(_IDENTIFIER).match(value)
    return match is not None and value[match.end() : match.end() + 1] in ("(", "[")


# --- tables -------------------------------------------------------------------------------------

_RULE = r"[|+]?[ ]?:?-{3,}:?[ ]?(?:[|+][ ]?:?-{3,}:?[ ]?)*[|+]?"
_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_CELL = " \t\r*`\"'"


def table_secrets(text: str) -> "Iterator[Span]":
    """Yield the values below a head that names a secret, and those beside a name in the long form of `psql`."""
    table = _Table(text)
    for number, line in enumerate(table.lines):
        stripped = line.strip()
        if stripped.startswith("(") and re.compile(_COUNT).fullmatch(stripped):
            yield from _unaligned(table, number)
        elif "--" not in stripped:
            continue
        elif stripped.startswith("-[ RECORD"):
            yield from _long_form(table, number + 1)
        elif number and table.is_rule(number):
            yield from _below_head(table, number - 1, number + 1, drawn="+" in stripped)


class _Table:
    r"""The lines of a text and where they begin; a line end may also be written `\n`."""

    __slots__ = ("lines", "starts")

    def __init__(self, text: str) -> None:
        self.lines = (text.replace("\\n", " \n") if "\\n" in text else text).split("\n")
        self.starts, at = list[int](), 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1

    def is_rule(self, number: int) -> bool:
        line = self.lines[number].strip() if number < len(self.lines) else ""
        return "--" in line and re.compile(_RULE).fullmatch(line) is not None

    def has_count(self, first: int) -> bool:
        """Check whether a table of one column ends with the number of its rows; else it may be a title."""
        for line in self.lines[first : first + 1000]:
            if re.compile(_COUNT).fullmatch(line.strip()):
                return True
            if not line.strip() or "--" in line:
                return False
        return False


def _below_head(table: _Table, head: int, first: int, *, drawn: bool) -> "Iterator[Span]":
    """Yield the values of the columns that the line `head` names, from the line `first` to the end of the table."""
    titles = table.lines[head].split("|")
    columns = [(number, name) for number, title in enumerate(titles) if (name := _column_name(title)) is not None]
    if not columns or (len(titles) == 1 and not table.has_count(first)):
        return
    for row in range(first, len(table.lines)):
        cells = table.lines[row].split("|")
        if len(cells) != len(titles):
            if table.is_rule(row):
                continue
            return
        starts = [table.starts[row]]
        for cell in cells:
            starts.append(starts[-1] + len(cell) + 1)
        for number, name in columns:
            yield from _cell_secret(cells[number], starts[number], name, drawn=drawn)
        if table.is_rule(row + 1) and any(map(_column_name, cells)):
            return  # the head of another table


def _unaligned(table: _Table, end: int) -> "Iterator[Span]":
    """Yield the secrets of `id|name|password` above its rows, where only the count tells that it is a table."""
    width = table.lines[end - 1].count("|") if end else 0
    head = end - 1
    while width and head > 0 and table.lines[head - 1].count("|") == width and "--" not in table.lines[head - 1]:
        head -= 1
    if width and head < end - 1 and not (head and "--" in table.lines[head - 1]):
        yield from _below_head(table, head, head + 1, drawn=True)


def _long_form(table: _Table, first: int) -> "Iterator[Span]":
    """Yield the value of `password | hunter2`."""
    for row in range(first, min(first + 400, len(table.lines))):
        title, bar, value = table.lines[row].partition("|")
        if not bar or "--" in title:
            return
        name = _column_name(title)
        if name is not None:
            yield from _cell_secret(value, table.starts[row] + len(title) + 1, name, drawn=True)


def _column_name(cell: str) -> SecretName | None:
    title = cell.strip(_CELL)
    return secret_name(title) if 0 < len(title) <= 40 and title.count(" ") < 2 else None


def _cell_secret(cell: str, at: int, name: SecretName, *, drawn: bool) -> "Iterator[Span]":
    """Yield the value of a cell if it is a secret; in the table of a database also a plain word."""
    value = cell.strip(_CELL)
    if not 4 <= len(value) <= 300 or "[redacted" in value:
        return
    password = name[0] == "password"
    least = name[1] if password or drawn else STRONG
    if grade(value) >= least or (drawn and password and (is_plain_password(value) or is_cased_password(value))):
        start = at + cell.index(value)
        yield start, start + len(value), name[0]
