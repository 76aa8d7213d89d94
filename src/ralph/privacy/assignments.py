r"""Find values that are secrets because of their name: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

The search starts at keywords such as `pass` or `token` (see `secret_prefilter`). Around each one, a
name and a value are read. In `export DB_PASSWORD="Wint3r!Kettle"`:

    line       `export `         the text before the name
    key        `DB_PASSWORD`     `secret_names` says that this is a password
    separator  `=`               `assignment_places` says how certainly it assigns the value
    value      `Wint3r!Kettle`   `assignment_values` says whether it is a secret

The name, the syntax around it and the value must all agree. Every step is bounded, and a regex is
compiled when it is first needed, because hooks load this module.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, secret_prefilter, secret_rules
from ralph.privacy.assignment_places import (
    ASSIGNMENT_SIGNS,
    Assignment,
    quoted_place,
    unquoted_place,
)
from ralph.privacy.assignment_values import is_secret
from ralph.privacy.passwords import LITERAL, SURE, is_password
from ralph.privacy.secret_names import SecretName, is_public_name, secret_name
from ralph.privacy.secret_values import STRONG, Span, grade

if TYPE_CHECKING:
    from collections.abc import Iterator

_AFTER_WORD = (
    # The rest of the name, such as `_prod` in `password_prod` or ` 1` in `key 1: ...`.
    r"(?P<rest>[a-z0-9_.\-]{0,40}+(?:[ ]\d{1,2}(?=:[ ]))?)"
    # The quotes and brackets that close the name: `"]` in `env["password"]`.
    r"(?P<close>[*\"'`\\\])]{0,5}+)"
    # A remark or an XML attribute: `token [new]:`, `secret (prod) =`, `<password type="x">`.
    r"(?:[ ](?:\[[^\]\n]{0,24}\](?=:)|\([^()\n]{0,24}\)(?=[ ]?[:=])"
    r"|(?<=\w[ ])[\w:.-]{1,40}=[^<>\n]{1,120}(?=>)))?"
    # Whatever assigns the value, which is one of these:
    # a `value` member or element after the name: `"name": "password", "value": `,
    r"(?:(?P<pair>(?:[\s,\"'\\+-]{1,60}+value[\"'\\]{0,4}[ ]{0,8}[:=][ ]{0,8}"
    r"(?:\"\"[ ]{0,4}(?=\n))?){1,2}"
    r"|</(?:key|name)>\s{0,40}<(?:string|value)>\s{0,40})"
    # a sign in a URL: `%3D`,
    r"|(?P<encoded>(?:%22|%27)?%3[ad](?:%20|\+)?(?:%22|%27)?)"
    # a call with a literal: `password("`,
    r"|(?P<sep>\((?:[ \t]*\r?\n[ \t]{1,40})?(?=[\"'`]))"
    # a sign, a word such as `is` (in several languages), or only blanks.
    # The sign may be on the next line.
    r"|(?:[ \t]*\r?\n[ \t]{1,80}+(?=:?=[>\s])|[ \t]{0,24}+)"
    r"(?P<sign>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>\s{0,40}|,|\|"
    r"|(?:(?:is|was|ist|est|es|lautet|war|è|é|är|jest|je|er|—|–|-)[ ]|\?[ ])(?=\S)"
    r"|(?:은|는|이|가|は|が|：)[ ]?|(?<=[ \t]))[* \t]{0,24}+)"
)
"""What follows a keyword: the rest of the name, what closes it, and what assigns a value to it."""

# The shapes of values.
QUOTED = (
    r"[brfuBRFULN@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+"
    r"(?:(?:\\.|''(?=\w)|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
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
    r"\[\s{0,40}\\?[\"'](?P<value>[^\"'\\\n]{8,300}"
    r"(?>(?:\\?[\"']\s{0,40},\s{0,40}\\?[\"'][^\"'\\\n]{8,300}){0,40}))"
)
_YAML_LIST = (
    r"\r?\n[ \t]*-[ \t]+[\"']?(?P<value>[^\s\"':]{4,300}(?=[\"']?[ \t]*(?:\r?\n|\Z))"
    r"(?>(?:[\"']?[ \t]*\r?\n[ \t]*-[ \t]+[^\n]{1,300}){0,40}))"
)
_REST_OF_RUN = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_CUT_LENGTH = 280
"""The length from which a value may go on beyond what the shapes above match."""
_QUOTE_PREFIXES = "brfuBRFULN@$"
_QUOTES = ("'", '"', "`", "\\")

# What may precede a value.
_SCHEME = rf"(?i)(?:{'|'.join(sorted(secret_rules.SCHEMES, key=len, reverse=True))})[ :]+(?=[^\s:])"
_MAX_SCHEME_LENGTH = 48
_TYPED = (
    # A type: `password: str = "..."`.
    (("=",), r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])"),
    # The start of a YAML block.
    (("|", ">"), r"[|>][-+]?[ \t]*\r?\n[ \t]+"),
    # A variable to which the value is the fallback: `env["TOKEN"] or "..."`.
    (
        ("||", "??", "?:", "or", "{"),
        r"[\w.$!]{1,60}(?:[(\[]\s?[\"'][\w.-]{1,60}[\"']\s?[)\]])?"
        r"\s{0,4}(?:\|\||\?\?|\?:|or\b|\{)\s{0,4}(?=[\"'`])",
    ),
    # The same as a call: `getenv("TOKEN", "...")`.
    (("(",), r"[\w.$]{1,60}\(\s?[\"'][\w.-]{1,60}[\"']\s?,\s{0,4}(?=[\"'`])"),
)
"""What may precede a literal: a regex, and marks of which it needs at least one."""
_TYPED_LENGTH = 160
"""How many characters are searched for a mark. In every match, one of them comes earlier."""
_BEFORE_NEXT_LINE = ("(", " ", "\t", "\r", "\n")
_NEXT_LINE = r"\(?[ \t]*\r?\n(?P<indentation>[ \t]+)(?=\S)"
"""The end of a line that leaves the value to the next line, which is indented."""

# What may precede a name on its line.
_LINE_LENGTH = 160
"""How many characters of the line before a name are examined."""
_LINE_START = (
    r"(?:\A|\\n)[ \t\r]*(?:[-+>*#$][ \t]*)?(?:(?:export|ENV|ARG|set(?:[ \t]+-\S*)?|-e)[ \t]+)?\Z"
)
"""The start of a line, with nothing but blanks, a bullet, and `export` or the like."""
_PREVIOUS_WORD = r"([^\W\d_]+) \Z"
_VERBS = ("has", "is", "need", "needs", "require", "requires")
_HASH_WORDS = ("hash", "digest", "checksum")
_HASH_WORD = r"(?i)\b(?:hash|digest|checksum)\b"
_DIGEST = r"[\"'\\]{0,3}[0-9a-f]{32,128}\b"
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


def assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield every value that is assigned to a secret's name and looks like a secret."""
    seen_ends: set[int] = set()
    current_keyword = ""
    covered = 0
    for keyword, position in secret_prefilter.assignment_keywords(text, lowered):
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


# --- names and their values -----------------------------------------------------------------------


def _assigned_secret(text: str, position: int, syntax: re.Match[str]) -> Span | None:
    start = _key_start(text, position)
    key = text[start : syntax.end("rest")]
    name = secret_name(key) or _name_of_list(text, key, syntax)
    if name is None:
        return None
    line_start = max(
        text.rfind("\n", max(0, start - _LINE_LENGTH), start) + 1, start - _LINE_LENGTH
    )
    line = text[line_start:start]
    separator = (syntax["sep"] or syntax["sign"] or "").strip()
    assignment = Assignment(text, key, name, line, separator, syntax)
    if _is_in_encrypted_block(text, start) or _is_in_chain(assignment, start):
        return None
    if _names_digest(assignment) or _names_something_public(assignment):
        return None
    return _find_value(assignment)


def _name_of_list(text: str, key: str, syntax: re.Match[str]) -> SecretName | None:
    """Return what the items of a list with a plural name are: `passwords = ["..."]`."""
    if not key.lower().endswith("s") or _match_list(text, syntax.end()) is None:
        return None
    return secret_name(key[:-1])


def _match_list(text: str, start: int) -> re.Match[str] | None:
    if text[start : start + 1] == "[":
        return re.compile(_LIST).match(text, start)
    if text.startswith(("\n", "\r\n"), start):
        return re.compile(_YAML_LIST).match(text, start)
    return None


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


def _is_in_chain(assignment: Assignment, start: int) -> bool:
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


def _names_digest(assignment: Assignment) -> bool:
    lowered = assignment.line.lower()
    if not any(word in lowered for word in _HASH_WORDS):
        return False
    if re.search(_HASH_WORD, assignment.line) is None:
        return False
    digest = re.compile(_DIGEST).match(assignment.text, assignment.syntax.end())
    return digest is not None


def _names_something_public(assignment: Assignment) -> bool:
    """Return whether the word before a name makes it public: `next token: ...`."""
    if assignment.line[-1:] != " " or not assignment.key.isalpha():
        return False
    previous = re.search(_PREVIOUS_WORD, assignment.line)
    if previous is None:
        return False
    word = previous[1].lower()
    if assignment.separator == "=" and word in _VERBS:
        return False  # `the database has password=...`
    return is_public_name(word, assignment.key.lower())


def _find_value(assignment: Assignment) -> Span | None:
    if _is_template_filter(assignment):
        return None
    text = assignment.text
    start = assignment.syntax.end()
    listed = _match_list(text, start)
    if listed:
        return _listed_secret(listed, assignment.name)
    typed = None
    if assignment.separator in ASSIGNMENT_SIGNS or assignment.separator == "":
        typed = _match_typed(text, start)
    if typed:
        start = typed.end()
    elif assignment.separator in ASSIGNMENT_SIGNS:
        start = _on_next_line(assignment, start)
    value_start = _after_scheme(text, start)
    if value_start > start and text[start : start + len("basic")].lower() == "basic":
        return None  # the rule for this header decodes it
    if assignment.separator != ">":
        quoted = _match_quoted(text, value_start)
        if quoted:
            return _quoted_secret(assignment, quoted, is_typed=typed is not None)
    return _unquoted_secret(assignment, value_start)


def _match_typed(text: str, start: int) -> re.Match[str] | None:
    """Match what may precede a literal. Most texts need none of the regexes."""
    head = text[start : start + _TYPED_LENGTH]
    for marks, regex in _TYPED:
        if any(mark in head for mark in marks):
            typed = re.compile(regex).match(text, start)
            if typed:
                return typed
    return None


def _on_next_line(assignment: Assignment, start: int) -> int:
    """Return where the value begins if it is on the next line, indented more than its name."""
    if assignment.text[start : start + 1] not in _BEFORE_NEXT_LINE:
        return start
    next_line = re.compile(_NEXT_LINE).match(assignment.text, start)
    if next_line is None:
        return start
    line = assignment.line
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    if len(next_line["indentation"]) <= len(indentation):
        return start
    return next_line.end()


def _after_scheme(text: str, start: int) -> int:
    """Return where the value begins after a scheme such as `Bearer`."""
    if not text[start : start + 8].lower().startswith(secret_rules.SCHEMES):
        return start
    scheme = re.compile(_SCHEME).match(text, start, start + _MAX_SCHEME_LENGTH)
    if scheme is None:
        return start
    return scheme.end()


def _is_template_filter(assignment: Assignment) -> bool:
    """Return whether a pipe introduces a template filter or is part of a value (`auth0|65f1c0`)."""
    if assignment.separator != "|":
        return False
    if "{{" in assignment.line:
        return True
    sign_length = assignment.syntax.end() - assignment.syntax.start("sign")
    return sign_length < len("| ")


def _listed_secret(listed: re.Match[str], name: SecretName) -> Span | None:
    first_item = re.split(r"[\"'\\\s]", listed["value"])[0]
    is_password_item = name.kind == "password" and is_password(first_item, LITERAL)
    if not is_password_item and grade(first_item) != STRONG:
        return None
    return listed.start("value"), listed.end("value"), name.kind


def _match_quoted(text: str, start: int) -> re.Match[str] | None:
    first_character = text[start : start + 3].lstrip(_QUOTE_PREFIXES)[:1]
    if first_character not in _QUOTES:
        return None
    quoted = re.compile(QUOTED).match(text, start)
    if quoted:
        return quoted
    return re.compile(ESCAPED).match(text, start)


def _quoted_secret(assignment: Assignment, quoted: re.Match[str], *, is_typed: bool) -> Span | None:
    if _closes_string(assignment, quoted):
        return None
    scheme_length = _after_scheme(quoted["value"], 0)
    value = quoted["value"][scheme_length:]
    place = quoted_place(assignment, is_typed=is_typed)
    if not is_secret(assignment, value, place, is_quoted=True):
        return None
    start = quoted.start("value") + scheme_length
    end = quoted.end("value")
    if len(value) >= _CUT_LENGTH and not quoted["shut"]:
        end = _end_of_run(assignment.text, end)
    return start, end, assignment.name.kind


def _closes_string(assignment: Assignment, quoted: re.Match[str]) -> bool:
    """Return whether the quote closes the string that contains the name: `"Password: " name`."""
    quote = assignment.text[quoted.start()]
    return quoted["value"][0] == " " and assignment.line.count(quote) % 2 == 1


def _unquoted_secret(assignment: Assignment, start: int) -> Span | None:
    is_whole_line = _is_whole_line(assignment)
    shape = _unquoted_shape(assignment, is_whole_line=is_whole_line)
    match = re.compile(shape).match(assignment.text, start)
    if match is None:
        return None
    value = match["value"]
    place = unquoted_place(assignment, value, match.end("value"), is_whole_line=is_whole_line)
    if is_whole_line:
        value = value.rstrip(",;\"'")
    elif place < SURE or assignment.name.kind != "password":
        value = value.rstrip(".:,;")
    else:
        value = value.rstrip(",;")
    if value.count("/") == 1:
        value = value.rstrip("/")  # `sed s/PASSWORD=.*/PASSWORD=x/`
    if not is_secret(assignment, value, place, is_quoted=False):
        return None
    end = start + len(value)
    if len(value) >= _CUT_LENGTH:
        end = _end_of_run(assignment.text, end)
    return start, end, assignment.name.kind


def _is_whole_line(assignment: Assignment) -> bool:
    """Return whether nothing precedes the assignment on its line, as in a config file."""
    if assignment.separator not in ("=", ":") or assignment.syntax["close"]:
        return False
    return not assignment.line or re.search(_LINE_START, assignment.line) is not None


def _unquoted_shape(assignment: Assignment, *, is_whole_line: bool) -> str:
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
