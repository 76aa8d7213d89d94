r"""Find values that are secrets because of their name: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

The name, the syntax around it and the value must all agree. A place says how certain the syntax
makes it that the value belongs to the name, such as SURE for `PASSWORD=x` and PROSE for
`password x` (see `secret_values`). Every step is bounded, and a regex is compiled when it is first
needed, because hooks load this module.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record
from ralph.privacy import secret_prefilter as prefilter
from ralph.privacy import secret_rules as rules
from ralph.privacy.secret_values import (
    API_KEY,
    CHUNK,
    CONSTANTS,
    COPULA,
    FAIR,
    FINGERPRINT,
    KNOWN,
    LITERAL,
    NAMING,
    PROSE,
    SENTENCE,
    STRONG,
    SURE,
    UUID,
    SecretName,
    Span,
    grade,
    has_both_cases,
    has_digit,
    is_basic_login,
    is_long_run,
    is_password,
    is_placeholder,
    is_public_name,
    is_random,
    is_wordy,
    meets,
    secret_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Places in addition to those in `secret_values`.
_NOWHERE = -1  # the syntax assigns nothing
_VARIABLE = -2  # the value is most likely a variable, and counts only if a program generated it

_ASSIGNMENT_SIGNS = ("=", ":=", "=>", "?=", ":")
_COMPARISON_SIGNS = ("(", "==", "===", "!=", "!==", ",")
"""Signs that do not assign an unquoted value."""

_AFTER_WORD = r"""(?x)
    (?P<rest>[a-z0-9_.\-]{0,40}+(?:[ ]\d{1,2}(?=:[ ]))?)(?P<close>[*"'`\\\])]{0,5}+)
    (?:[ ](?:\[[^\]\n]{0,24}\](?=:)|\([^()\n]{0,24}\)(?=[ ]?[:=])
          |(?<=\w[ ])[\w:.-]{1,40}=[^<>\n]{1,120}(?=>)))?
    (?:(?P<pair>(?:[\s,"'\\+-]{1,60}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8}
                   (?:""[ ]{0,4}(?=\n))?){1,2}
                |</(?:key|name)>\s{0,40}<(?:string|value)>\s{0,40})
      |(?P<encoded>(?:%22|%27)?%3[ad](?:%20|\+)?(?:%22|%27)?)
      |(?P<sep>\((?=["'`]))
      |[ \t]{0,24}+(?P<sign>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>\s{0,40}|,|\|
          |(?:(?:is|was|ist|est|es|lautet|war|è|é|är|jest|je|er|—|–|-)[ ]|\?[ ])(?=\S)
          |(?:은|는|이|가|は|が|：)[ ]?|(?<=[ \t]))[* \t]{0,24}+)"""
"""What follows a keyword: the rest of the name, what closes it, and what assigns a value to it."""

# The shapes of values.
_QUOTED = (
    r"[brfuBRFULN@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+"
    r"(?:(?:\\.|''(?=\w)|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
_ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
_UNQUOTED = (
    r"(?P<value>(?=\S)[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+"
    r"(?:(?:&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\]))[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+){0,9})"
)
_TO_BLANK = r"(?P<value>(?=\S)[^\s\\]{0,300}+(?:\\(?![nrt\"'])[^\s\\]{0,300}+){0,9})"
_IN_ELEMENT = r"(?P<value>[^<>\n]{3,200}[^<>\s])(?=\s{0,40}</)"
_URL_ENCODED = (
    r"(?P<value>(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267c]|7d))"
    r"(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267cC]|7[dD])){4,200})"
)
_LIST = (
    r"\[\s{0,8}\\?[\"'](?P<value>[^\"'\\\n]{8,300}"
    r"(?:\\?[\"']\s{0,40},\s{0,40}\\?[\"'][^\"'\\\n]{8,300}){0,40}+)"
)
_REST_OF_RUN = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_CUT_LENGTH = 280
"""The length from which a value may go on beyond what the shapes above match."""
_QUOTE_PREFIXES = "brfuBRFULN@$"
_QUOTES = ("'", '"', "`", "\\")

# What may precede a value.
_SCHEME = rf"(?i)(?:{'|'.join(sorted(rules.SCHEMES, key=len, reverse=True))})[ :]+(?=[^\s:])"
_MAX_SCHEME_LENGTH = 48
_TYPED = (
    r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])|[|>][-+]?[ \t]*\r?\n[ \t]+"
    r"|(?:[\w.$!]{1,60}(?:[(\[]\s?[\"'][\w.-]{1,60}[\"']\s?[)\]])?\s{0,4}(?:\|\||\?\?|\?:|or\b|\{)"
    r"|[\w.$]{1,60}\(\s?[\"'][\w.-]{1,60}[\"']\s?,)\s{0,4}(?=[\"'`])"
)
"""A type, the start of a YAML block, or a variable to which the value is the fallback."""

# What may precede a name on its line.
_LINE_LENGTH = 160
"""How many characters of the line before a name are examined."""
_LINE_START = (
    r"(?:\A|\\n)[ \t\r]*(?:[-+>*#$][ \t]*)?(?:(?:export|ENV|ARG|set(?:[ \t]+-\S*)?|-e)[ \t]+)?\Z"
)
"""The start of a line, with nothing but blanks, a bullet, and `export` or the like."""
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx(?:[ \t]+/\w)?|\bsetenv|#define"
    r"|\bconfig(?:ure)?[ \t]+set|\bsecrets?[ \t]+set|\b(?:operator|add)|\bconfig[ \t]+\S+)"
    r"[ \t]+\S*\Z"
)
"""A command in which a blank separates the name from its value."""
_IN_TAG = r"<(?:[\w:-]{1,40}\s(?:[^<>\n]{0,80}\s)?(?:name|key|id)=\\?[\"']|[\w-]{1,40}:)?\Z"
_AFTER_USER = (
    r"\b(?i:user|username|login|account|benutzer|usuario|utilisateur|utente|ssid)\b[ :=]+"
    r"[^\s,;({]{2,64}[,;/]?[ ](?:(?i:and|und|y|et|e|with|mit|avec|con)[ ])?\Z"
)
_PROSE_LINE = rf"\A[-*#>\s]{{0,8}}(?:[^\W\d_][\w'’./()-]{{0,40}},?[ ]){{1,12}}\Z|{_AFTER_USER}"
_MAX_SETTER_LENGTH = 10
"""The most characters in a method that sets the secret it is named after: `.password("x")`."""
_USER_ASSIGNED = r"(?i)\b(?:user|login)\w*[:=]"
_PREVIOUS_WORD = r"([^\W\d_]+) \Z"
_HASH_WORDS = ("hash", "digest", "checksum")
_HASH_WORD = r"(?i)\b(?:hash|digest|checksum)\b"
_DIGEST = r"[0-9a-f]{32,128}\b"
_ENCRYPTED_MARK = "encryptedData:"
_ENCRYPTED_DISTANCE = 400
"""How many characters before a name are searched for the start of an encrypted block."""

# Names.
_KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_MAX_KEY_LENGTH = 64
"""The most characters in a name before its keyword."""
_FIRST_WORDS = (
    r"(?i)(?:\b(?:api|access|secret|private|auth|aws|client|unseal|recovery|master|encryption"
    r"|signing|admin|root|account|license|subscription|shared|service|personal|deploy|webhook|app"
    r"|initial) ){1,2}\Z"
)
_CHOSEN_KEY = r"(?i)(?:jwt|session|cookie|webhook|signing|hs256)[_-]?(?:secret|key)$"
"""Names of secrets that people often make up themselves."""

# Values that may be code.
_EXPRESSION = (
    r"[A-Za-z_]\w*=[\"']?[A-Za-z]\w*[\"']?\)?|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"
)
_SIBLING = (
    r"(?im)^[-+ \t]*(?:[\w.-]*"
    r"(?:user|username|login|name|id|host|hostname|server|port|database|dbname|email)\b)"
    r"[ \t]*[:=][ \t]*[^\s,;(){}\"']+[ \t]*$|^\[[\w.-]+\]$"
)
"""A config file line such as `user: x`, next to which even a plain word is a password."""
_SIBLING_CHARACTERS_BEFORE = 240
_SIBLING_CHARACTERS_AFTER = 160
_CODE_WORDS = frozenset(
    {
        "self",
        "this",
        "config",
        "settings",
        "req",
        "request",
        "os",
        "env",
        "process",
        "params",
        "ctx",
        "args",
        "options",
        "opts",
        "data",
        "user",
        "body",
        "form",
        "conn",
        "db",
        "password",
        "passwd",
        "pass",
        "pwd",
        "pw",
        "secret",
        "token",
        "credentials",
        "creds",
        "auth",
    }
)
"""Words for variables in code, which are not values in a config file."""

# Labels in other languages.
_LABEL = r"""(?x)(?:
    (?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль
        |contraseña|mot\ de\ passe|senha|hasło|lösenord|şifre|heslo|jelszó|mật[ ]khẩu|κωδικός
        |parolă|лозинка|รหัสผ่าน|सिसमा|पासवर्ड|סיסמה|كلمة[ ]المرور)(?:si|et)?
      |(?P<token>토큰|令牌|トークン|токен|jeton)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|시크릿|密钥|密鑰|金鑰|秘密鍵
        |シークレット(?:キー)?|ключ|clé[ ]api|schlüssel|chiave|chave(?:[ ]de[ ]api)?|sleutel))
    (?:[ ]?[（(][^()（）\n]{0,24}[)）])?[*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+
    (?P<sep>[=＝：|은는이을를は是为為]|:(?!//)
        |(?:est|es|é|е|is|ist|è|är|je|jest|lautet|—)[ ]|(?<=[ ]))
    [:* \t\u3000「『]{0,8}+"""
_LATIN_VALUE = r"(?P<value>[!-~\u00c0-\u024f]{6,300}+)"
_LAST_LATIN_CHARACTER = "\u024f"
_LABEL_ASSIGNMENT_SIGNS = ("=", ":", "：", "＝")
_REST_LENGTH = 40
"""How many characters after a value are examined."""


@record
class _Assignment:
    """A secret's name, what assigns a value to it, and the text around it.

    `line` is the part of the line before the name. `syntax` is the match of `_AFTER_WORD`, and
    `separator` is the sign in it, without blanks.
    """

    text: str
    key: str
    name: SecretName
    line: str
    separator: str
    syntax: re.Match[str]


@record
class _Unquoted:
    """An unquoted value, which may also be a variable or a word in a sentence.

    `rest` is the rest of its line. `is_last` says that only a comment may follow on the line.
    """

    value: str
    end: int
    rest: str
    is_last: bool
    is_identifier: bool


def assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield every value that is assigned to a secret's name and looks like a secret."""
    seen_ends: set[int] = set()
    current_keyword = ""
    covered = 0
    for keyword, position in prefilter.assignment_keywords(text, lowered):
        if keyword != current_keyword:
            current_keyword = keyword
            covered = 0
        if position < covered:
            continue  # inside a secret that was already found, which contains no name
        syntax = re.compile(_AFTER_WORD).match(lowered, position + len(keyword))
        if syntax is None or syntax.end() in seen_ends:
            continue
        seen_ends.add(syntax.end())
        span = _assigned_secret(text, position, syntax)
        if span is not None:
            _, covered, _ = span
            yield span
    if prefilter.has_label(lowered):
        yield from _labelled_secrets(text, lowered)


# --- names and their values -----------------------------------------------------------------------


def _assigned_secret(text: str, position: int, syntax: re.Match[str]) -> Span | None:
    start = _key_start(text, position)
    key = text[start : syntax.end("rest")]
    name = secret_name(key)
    if name is None:
        return None
    line_start = max(
        text.rfind("\n", max(0, start - _LINE_LENGTH), start) + 1, start - _LINE_LENGTH
    )
    line = text[line_start:start]
    separator = (syntax["sep"] or syntax["sign"] or "").strip()
    assignment = _Assignment(text, key, name, line, separator, syntax)
    if _is_in_encrypted_block(text, start) or _is_in_chain(assignment, start):
        return None
    if _names_digest(assignment) or _names_something_public(assignment):
        return None
    return _find_value(assignment)


def _key_start(text: str, position: int) -> int:
    """Return where a name begins, including words such as `Access` in `Access Key`."""
    floor = max(0, position - _MAX_KEY_LENGTH)
    start = floor + len(text[floor:position].rstrip(_KEY_CHARACTERS))
    if text[start - 1 : start] != " " or text[start] == "-":
        return start
    words = re.compile(_FIRST_WORDS).search(text, floor, start)
    if words is None:
        return start
    return words.start()


def _is_in_encrypted_block(text: str, start: int) -> bool:
    return _ENCRYPTED_MARK in text[max(0, start - _ENCRYPTED_DISTANCE) : start]


def _is_in_chain(assignment: _Assignment, start: int) -> bool:
    """Return whether a name is part of a chain of names.

    Examples are `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."`.
    """
    if assignment.separator != ":":
        return False
    before = assignment.text[max(0, start - 2) : start]
    if before == "::":
        return True
    last_character = assignment.text[assignment.syntax.end() - 1]
    return before[-1:] == ":" and not last_character.isspace()


def _names_digest(assignment: _Assignment) -> bool:
    lowered = assignment.line.lower()
    if not any(word in lowered for word in _HASH_WORDS):
        return False
    if re.search(_HASH_WORD, assignment.line) is None:
        return False
    digest = re.compile(_DIGEST).match(assignment.text, assignment.syntax.end())
    return digest is not None


def _names_something_public(assignment: _Assignment) -> bool:
    """Return whether the word before a name makes it public: `next token: ...`."""
    if assignment.line[-1:] != " " or not assignment.key.isalpha():
        return False
    previous = re.search(_PREVIOUS_WORD, assignment.line)
    if previous is None:
        return False
    return is_public_name(previous[1].lower(), assignment.key.lower())


def _find_value(assignment: _Assignment) -> Span | None:
    text = assignment.text
    start = assignment.syntax.end()
    is_typed = False
    if assignment.separator in _ASSIGNMENT_SIGNS or assignment.separator == "":
        typed = re.compile(_TYPED).match(text, start)
        if typed:
            is_typed = True
            start = typed.end()
    value_start = _after_scheme(text, start)
    if _is_template_filter(assignment):
        return None
    if value_start > start and text[start : start + len("basic")].lower() == "basic":
        return None  # the rule for this header decodes it
    if text[value_start : value_start + 1] == "[" and not is_typed:
        listed = re.compile(_LIST).match(text, value_start)
        if listed:
            return _listed_secret(listed, assignment.name)
    if assignment.separator != ">":
        quoted = _match_quoted(text, value_start)
        if quoted:
            return _quoted_secret(assignment, quoted, is_typed=is_typed)
    return _unquoted_secret(assignment, value_start)


def _after_scheme(text: str, start: int) -> int:
    """Return where the value begins after a scheme such as `Bearer`."""
    if not text[start : start + 8].lower().startswith(rules.SCHEMES):
        return start
    scheme = re.compile(_SCHEME).match(text, start, start + _MAX_SCHEME_LENGTH)
    if scheme is None:
        return start
    return scheme.end()


def _is_template_filter(assignment: _Assignment) -> bool:
    """Return whether a pipe introduces a template filter or is part of a value (`auth0|65f1c0`)."""
    if assignment.separator != "|":
        return False
    if "{{" in assignment.line:
        return True
    sign_length = assignment.syntax.end() - assignment.syntax.start("sign")
    return sign_length < len("| ")


def _listed_secret(listed: re.Match[str], name: SecretName) -> Span | None:
    first_item = re.split(r"[\"'\\]", listed["value"])[0]
    if grade(first_item) != STRONG:
        return None
    return listed.start("value"), listed.end("value"), name.kind


def _match_quoted(text: str, start: int) -> re.Match[str] | None:
    first_character = text[start : start + 3].lstrip(_QUOTE_PREFIXES)[:1]
    if first_character not in _QUOTES:
        return None
    quoted = re.compile(_QUOTED).match(text, start)
    if quoted:
        return quoted
    return re.compile(_ESCAPED).match(text, start)


def _quoted_secret(
    assignment: _Assignment, quoted: re.Match[str], *, is_typed: bool
) -> Span | None:
    scheme_length = _after_scheme(quoted["value"], 0)
    value = quoted["value"][scheme_length:]
    place = _quoted_place(assignment, is_typed=is_typed)
    if not _is_secret(assignment, value, place, is_quoted=True):
        return None
    start = quoted.start("value") + scheme_length
    end = quoted.end("value")
    if len(value) >= _CUT_LENGTH and not quoted["shut"]:
        end = _end_of_run(assignment.text, end)
    return start, end, assignment.name.kind


def _unquoted_secret(assignment: _Assignment, start: int) -> Span | None:
    is_whole_line = _is_whole_line(assignment)
    shape = _unquoted_shape(assignment, is_whole_line=is_whole_line)
    match = re.compile(shape).match(assignment.text, start)
    if match is None:
        return None
    value = match["value"]
    place = _unquoted_place(assignment, value, match.end("value"), is_whole_line=is_whole_line)
    if is_whole_line:
        value = value.rstrip(",;\"'")
    elif place < SURE or assignment.name.kind != "password":
        value = value.rstrip(".:,;")
    else:
        value = value.rstrip(",;")
    if value.count("/") == 1:
        value = value.rstrip("/")  # `sed s/PASSWORD=.*/PASSWORD=x/`
    if not _is_secret(assignment, value, place, is_quoted=False):
        return None
    end = start + len(value)
    if len(value) >= _CUT_LENGTH:
        end = _end_of_run(assignment.text, end)
    return start, end, assignment.name.kind


def _is_whole_line(assignment: _Assignment) -> bool:
    """Return whether nothing precedes the assignment on its line, as in a config file."""
    if assignment.separator not in ("=", ":") or assignment.syntax["close"]:
        return False
    return not assignment.line or re.search(_LINE_START, assignment.line) is not None


def _unquoted_shape(assignment: _Assignment, *, is_whole_line: bool) -> str:
    if assignment.syntax["encoded"]:
        return _URL_ENCODED
    if is_whole_line:
        return _TO_BLANK
    if assignment.separator == ">":
        return _IN_ELEMENT
    return _UNQUOTED


def _end_of_run(text: str, end: int) -> int:
    rest = re.compile(_REST_OF_RUN).match(text, end)
    if rest is None:
        return end
    return rest.end()


# --- places ---------------------------------------------------------------------------------------


def _quoted_place(assignment: _Assignment, *, is_typed: bool) -> int:
    """Return the place of a quoted value: how certain it is that it belongs to the name."""
    separator = assignment.separator
    syntax = assignment.syntax
    if separator == "(":
        return _argument_place(assignment)
    if is_typed or syntax["pair"] or syntax["encoded"] or separator in _ASSIGNMENT_SIGNS:
        return SURE
    if separator == "":
        if _assigns_by_blank(assignment) or assignment.line.endswith("(:"):
            return SURE
        if syntax["close"]:
            return _NOWHERE
        return LITERAL
    if separator == ",":
        if assignment.line.rstrip("'\" ").endswith("define("):
            return SURE
        if syntax["close"]:
            return LITERAL
        return _NOWHERE
    return LITERAL


def _argument_place(assignment: _Assignment) -> int:
    """Return the place of an argument in a call.

    `setPassword("x")` assigns a password, but `t.password("x")` does not.
    """
    if assignment.key == "PASSWORD":
        return SURE
    owner, dot, method = assignment.key.lower().rpartition(".")
    if owner == "t":
        return _NOWHERE
    if method.startswith(("set", "with", "use")):
        return SURE
    is_method = dot or assignment.line[-1:] in (".", ":")
    if is_method and len(method) <= _MAX_SETTER_LENGTH:
        return SURE
    return _NOWHERE


def _assigns_by_blank(assignment: _Assignment) -> bool:
    if assignment.key.startswith("-"):
        return True
    return re.search(_SPACE_ASSIGNS, assignment.line) is not None


def _element_place(assignment: _Assignment) -> int:
    if re.search(_IN_TAG, assignment.line):
        return SURE
    return _NOWHERE


def _unquoted_place(assignment: _Assignment, value: str, end: int, *, is_whole_line: bool) -> int:
    """Return the place of an unquoted value: how certain it is that it belongs to the name.

    It may also be a variable or a word in a sentence.
    """
    text = assignment.text
    separator = assignment.separator
    if is_whole_line:
        value = value.rstrip(",;")
    if _is_code(value) or separator in _COMPARISON_SIGNS or _continues_as_code(text, end):
        return _NOWHERE
    if assignment.syntax["pair"] or assignment.syntax["encoded"]:
        return SURE
    if separator == ">":
        return _element_place(assignment)
    rest = text[end : end + _REST_LENGTH].partition("\n")[0].strip("\"' \t\r")
    unquoted = _Unquoted(
        value=value,
        end=end,
        rest=rest,
        is_last=not rest or rest.startswith(("#", "//", "\\n")),
        is_identifier=_is_identifier(value),
    )
    if separator == "":
        return _place_after_blank(assignment, unquoted)
    if separator not in ("=", ":"):
        return _place_after_other_sign(separator, unquoted)
    if is_whole_line:
        return _place_on_own_line(assignment, unquoted)
    return _place_inside_line(assignment, unquoted)


def _is_code(value: str) -> bool:
    return _is_call(value) or value.startswith("--") or "->" in value or "::" in value


def _continues_as_code(text: str, end: int) -> bool:
    following = text[end : end + 2]
    return following[:1] in ("(", "[", "{", "<") and following != "</"


def _place_after_blank(assignment: _Assignment, unquoted: _Unquoted) -> int:
    if _assigns_by_blank(assignment):
        value = unquoted.value
        ends_command = unquoted.is_last or unquoted.rest[0] in "-&|;>)"
        if value.isalpha() and value.islower() and not ends_command:
            return PROSE
        return SURE
    if assignment.syntax["close"]:
        return _NOWHERE
    if re.search(_AFTER_USER, assignment.line):
        return LITERAL
    return PROSE


def _place_after_other_sign(separator: str, unquoted: _Unquoted) -> int:
    if separator in _ASSIGNMENT_SIGNS and not unquoted.is_identifier:
        return SURE
    if separator == "|":
        return LITERAL
    return COPULA


def _place_inside_line(assignment: _Assignment, unquoted: _Unquoted) -> int:
    """Return the place of the value in `name=value` or `name: value` after other text."""
    value = unquoted.value
    line = assignment.line
    if assignment.separator == ":" and _follows_prose(line, unquoted):
        return LITERAL  # `staging password: blue-Kettle`
    is_tight = _is_tight(assignment)
    is_in_call = _is_in_call(line)
    if is_tight and not is_in_call and not assignment.syntax["close"] and not _is_attribute(value):
        return SURE
    if not unquoted.is_identifier:
        if re.fullmatch(_EXPRESSION, value) or not is_tight:
            return COPULA
        return SURE
    if not has_digit(value):
        return _VARIABLE
    if "_" in value and has_both_cases(value):
        return COPULA
    if not is_in_call and re.search(_USER_ASSIGNED, line):
        return COPULA
    return _VARIABLE


def _follows_prose(line: str, unquoted: _Unquoted) -> bool:
    if unquoted.is_last:
        return re.search(_PROSE_LINE, line) is not None
    return re.search(_AFTER_USER, line) is not None


def _is_tight(assignment: _Assignment) -> bool:
    """Return whether `=` has no blanks around it."""
    if assignment.separator != "=":
        return False
    syntax = assignment.syntax
    return syntax.end("sign") == syntax.end() and syntax.start("sign") == syntax.end("rest")


def _is_in_call(line: str) -> bool:
    """Return whether the line ends inside brackets, but not inside a string."""
    opening = max(line.rfind("("), line.rfind("{"))
    if opening <= max(line.rfind(")"), line.rfind("}")):
        return False
    return line.count('"', opening + 1) % 2 == 0 and line.count("'", opening + 1) % 2 == 0


def _place_on_own_line(assignment: _Assignment, unquoted: _Unquoted) -> int:
    """Return the place of the value in `name=value` or `name: value` on its own line."""
    text = assignment.text
    is_tight = _is_tight(assignment)
    if text[unquoted.end - 1 : unquoted.end] in (",", ";"):
        if unquoted.is_identifier:
            return _VARIABLE
        return COPULA
    if not unquoted.is_identifier:
        if unquoted.is_last or is_tight:
            return SURE
        return COPULA
    if not unquoted.is_last:
        if is_tight and text[unquoted.end : unquoted.end + 1] == " ":
            return SURE
        return _VARIABLE
    if re.compile(r"\s*\)").match(text, unquoted.end):
        return _VARIABLE
    return _identifier_place(assignment, unquoted, is_tight=is_tight)


def _identifier_place(assignment: _Assignment, unquoted: _Unquoted, *, is_tight: bool) -> int:
    """Return the place of an identifier that is the last thing on its line.

    It may be a variable or a plain password.
    """
    value = unquoted.value
    is_config = _is_config_value(assignment.text, unquoted)
    if _is_attribute(value) and not is_config:
        return _VARIABLE
    if is_tight or _is_environment_name(assignment.key) or _is_numbered(assignment, value):
        return SURE
    if is_config and (value.islower() or "." in value or grade(value) == FAIR):
        return SURE
    if assignment.separator == ":":
        if _is_password_word(assignment.text, unquoted):
            return SURE
        if value.count("_") > 1:
            return LITERAL
    return _VARIABLE


def _is_numbered(assignment: _Assignment, value: str) -> bool:
    """Return whether an identifier has a digit and is not a variable in camel case."""
    if not has_digit(value):
        return False
    is_camel_case = has_both_cases(value) and value[0].islower()
    return assignment.separator != "=" or not is_camel_case


def _is_config_value(text: str, unquoted: _Unquoted) -> bool:
    if not _CODE_WORDS.isdisjoint(unquoted.value.lower().split(".")):
        return False
    first = max(0, unquoted.end - _SIBLING_CHARACTERS_BEFORE)
    around = text[first : unquoted.end + _SIBLING_CHARACTERS_AFTER]
    return re.search(_SIBLING, around) is not None


def _is_environment_name(key: str) -> bool:
    return key.isupper() and CONSTANTS.isdisjoint(key.lower().split("_"))


def _is_password_word(text: str, unquoted: _Unquoted) -> bool:
    value = unquoted.value
    if len(value) < 8 or not value.islower() or not value.isalpha():
        return False
    if not meets("plain", value):
        return False
    # In code, a bracket follows the last member of an object.
    return re.compile(r"[\s;,]*[)}\]]").match(text, unquoted.end) is None


def _is_call(value: str) -> bool:
    if "(" not in value and "[" not in value:
        return False
    name = value.partition("(")[0].partition("[")[0].rstrip("!?")
    return _is_identifier(name)


def _is_identifier(value: str) -> bool:
    """Return whether a value is a variable or an attribute: `$this->token`, `a?.b`, `Some::key`."""
    for joint in ("?.", "->", "::"):
        value = value.replace(joint, ".")
    return all(part.replace("$", "_").isidentifier() for part in value.split("."))


def _is_attribute(value: str) -> bool:
    return "." in value and _is_identifier(value) and value[0].islower()


# --- values ---------------------------------------------------------------------------------------

_ENVIRONMENT_ASSIGNMENT = r"[A-Z_]{4,40}="
_DIGITS_APART = r"\d\D+\d"
_SHA1 = r"[0-9a-f]{40}"
_MAX_PIN_LENGTH = 8
_MIN_PROSE_TOKEN_LENGTH = 20
_MAX_KEY_JOINTS_IN_PROSE = 1
_SHORT_SECRET_LENGTHS = range(6, 9)
_MIN_MIXED_LENGTH = 9


def _is_secret(assignment: _Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    if place == _NOWHERE or "[redacted" in value:
        return False
    if "=" in value and re.match(_ENVIRONMENT_ASSIGNMENT, value):
        return False
    if assignment.name.kind == "password":
        return _is_assigned_password(assignment.key, value, place, is_quoted=is_quoted)
    if assignment.name.kind == "credential":
        if is_basic_login(value):
            return True
        if re.fullmatch(_SHA1, value):
            return False
    if place == PROSE and not re.fullmatch(UUID, value):
        return _is_token_in_prose(assignment.key, value)
    return _is_assigned_token(assignment, value, place, is_quoted=is_quoted)


def _is_assigned_password(key: str, value: str, place: int, *, is_quoted: bool) -> bool:
    is_run = is_long_run(value)
    if place == _VARIABLE:
        if is_run:
            return grade(value) >= FAIR
        return grade(value) == STRONG
    if _is_constant(key, value, is_run=is_run) or _is_test_result(key, value):
        return False
    if is_quoted and "phrase" in key.lower() and _is_quoted_passphrase(value):
        return True
    if not is_run and _is_name_of_secret(value):
        is_mixed = is_quoted and has_both_cases(value) and has_digit(value[:-1])
        if not is_mixed and re.search(_DIGITS_APART, value) is None:
            return False
    return is_password(value, place)


def _is_constant(key: str, value: str, *, is_run: bool) -> bool:
    """Return whether a name is that of a constant, and its value a plain word.

    Examples are `RESET_PASSWORD = "resetting"` and `PASS: test-names`.
    """
    if is_run or has_digit(value):
        return False
    words = key.lower().replace("-", "_").split("_")
    if not CONSTANTS.isdisjoint(words):
        return True
    return key.upper() == "PASS" and key[0].isupper()


def _is_test_result(key: str, value: str) -> bool:
    """Return whether `pass` is followed by the number or the name of tests that passed."""
    if key.lower() != "pass":
        return False
    is_count = value.isdigit() and len(value) <= _MAX_PIN_LENGTH
    is_test_file = key.isupper() and "/" in value
    return is_count or is_test_file


def _is_quoted_passphrase(value: str) -> bool:
    """Return whether words form a passphrase: `BORG_PASSPHRASE="the kettle is singing again"`."""
    if value.count(" ") < 2 or is_placeholder(value):
        return False
    words = value.lower().split()
    if not NAMING.isdisjoint(words):
        return False
    return 2 * len(SENTENCE.intersection(words)) <= len(words) + 1


def _is_name_of_secret(value: str) -> bool:
    return _is_identifier(value) and secret_name(value) is not None


def _is_assigned_token(assignment: _Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    name = assignment.name
    is_run = is_long_run(value)
    if _is_fingerprint_or_name(assignment, value, place, is_run=is_run):
        return False
    if place == SURE and _is_short_secret(assignment.key, value):
        return has_digit(value) and not is_wordy(value)  # `SECRET=Zx9kLm`
    if name == API_KEY and _is_words_of_code(assignment.key, value):
        return False
    if place != SURE and grade(value) == FAIR and re.fullmatch(UUID, value):
        return name.weakest_grade == FAIR
    if place >= COPULA and _is_chosen_secret(assignment, value, place, is_quoted=is_quoted):
        return True
    if place == SURE or is_run:
        return grade(value) >= name.weakest_grade
    return grade(value) == STRONG


def _is_token_in_prose(key: str, value: str) -> bool:
    if len(value) < _MIN_PROSE_TOKEN_LENGTH:
        return False
    if key.count(".") + key.count("-") > _MAX_KEY_JOINTS_IN_PROSE:
        return False
    return grade(value) == STRONG and is_random(value)


def _is_fingerprint_or_name(
    assignment: _Assignment, value: str, place: int, *, is_run: bool
) -> bool:
    """Return whether a value is a fingerprint, or the name of a secret rather than a secret."""
    if is_run:
        is_signature = "sign" in assignment.key.lower()
        return is_signature and re.fullmatch(FINGERPRINT, value) is not None
    if place == SURE and is_random(value):
        return False
    return _is_name_of_secret(value)


def _is_short_secret(key: str, value: str) -> bool:
    if len(value) not in _SHORT_SECRET_LENGTHS or not key.isupper():
        return False
    return has_both_cases(value) and not is_placeholder(value)


def _is_words_of_code(key: str, value: str) -> bool:
    """Return whether a value is words from code: `some-name_1` in `cacheKey: some-name_1`.

    Such a value has separators, and all its letters have the same case.
    """
    if key.isupper() or value.isalnum():
        return False
    return not has_both_cases(value)


def _is_chosen_secret(assignment: _Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    """Return whether a person made up the secret like a password: `secret: "keyboard-Cat-2025"`."""
    is_secret = assignment.name.kind.startswith("secret")
    may_be_chosen = is_secret and _looks_chosen(assignment.key, value, is_quoted=is_quoted)
    if not may_be_chosen and re.search(_CHOSEN_KEY, assignment.key) is None:
        return False
    return is_password(value, min(place, LITERAL))


def _looks_chosen(key: str, value: str, *, is_quoted: bool) -> bool:
    if is_quoted and " " in value and value.islower():
        return True
    if not has_digit(value):
        return False
    if has_both_cases(value) and len(value) >= _MIN_MIXED_LENGTH:
        return True
    # `APP_SECRET=kettle_drum_9`
    return key.isupper() and KNOWN.isdisjoint(re.findall(CHUNK, value.lower()))


# --- labels in other languages --------------------------------------------------------------------


@record
class _LabelledValue:
    """The value after a label, at `start` to `end`.

    `value` stops at an opening bracket. The span goes on if the bracket belongs to the secret.
    """

    value: str
    start: int
    end: int
    is_quoted: bool


def _labelled_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield values in Latin script after a label in another language.

    Words in that language's script may follow the value directly.
    """
    for label in re.compile(_LABEL).finditer(lowered):
        labelled = _find_labelled_value(text, label.end())
        if labelled is None or _is_call(labelled.value):
            continue
        is_sure = label["sep"] in _LABEL_ASSIGNMENT_SIGNS and _is_complete(text, labelled)
        if label["password"]:
            place = _labelled_place(text, label["sep"], labelled, is_sure=is_sure)
            if is_password(labelled.value, place):
                yield labelled.start, labelled.end, "password"
            continue
        weakest_grade = FAIR if is_sure else STRONG
        if grade(labelled.value) >= weakest_grade:
            kind = "token" if label["token"] else "secret key"
            yield labelled.start, labelled.end, kind


def _find_labelled_value(text: str, start: int) -> _LabelledValue | None:
    quoted = re.compile(_QUOTED).match(text, start) or re.compile(_ESCAPED).match(text, start)
    if quoted:
        return _LabelledValue(
            quoted["value"], quoted.start("value"), quoted.end("value"), is_quoted=True
        )
    unquoted = re.compile(_LATIN_VALUE).match(text, start)
    if unquoted is None:
        return None
    value = unquoted["value"].rstrip("\"'`,;.:|)]}>*")
    end = start + len(value)
    before_bracket = value.partition("(")[0]
    if before_bracket and ")" not in unquoted["value"]:
        # A bracket begins a remark if another script follows. Otherwise it belongs to the value.
        following = text[unquoted.end() : unquoted.end() + 1]
        if value.endswith("(") or following > _LAST_LATIN_CHARACTER:
            end = start + len(before_bracket)
        value = before_bracket
    return _LabelledValue(value, start, end, is_quoted=False)


def _is_complete(text: str, labelled: _LabelledValue) -> bool:
    """Return whether the value is all that follows the label on its line."""
    if _is_attribute(labelled.value):
        return False
    if labelled.is_quoted:
        return True
    rest = text[labelled.end : labelled.end + _REST_LENGTH].partition("\n")[0]
    rest = rest.strip(" \t\r*|,;.)」』】。、，")
    return not rest or rest.startswith(("#", "//"))


def _labelled_place(text: str, separator: str, labelled: _LabelledValue, *, is_sure: bool) -> int:
    if not separator.strip():
        return PROSE
    if not labelled.is_quoted and _continues_in_script(text, labelled.end):
        return PROSE
    if is_sure:
        return SURE
    return LITERAL


def _continues_in_script(text: str, end: int) -> bool:
    """Return whether a word in another script continues the value: `bcrypt12로`."""
    following = text[end : end + 2]
    if following <= _LAST_LATIN_CHARACTER or following == "です":
        return False
    return following[0] not in "「」』】。、，입이야"
