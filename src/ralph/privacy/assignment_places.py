"""Judge how certain it is that a value belongs to the name before it.

The result is a place, from NOWHERE to SURE. The syntax decides, and whether the value may be code:

    PASSWORD=kettle               SURE      an assignment without blanks
    login(user, password, "x")    LITERAL   a literal next to the name
    password = get_password()     NOWHERE   a call
    password = user.password      VARIABLE  most likely an attribute
    the password kettle           PROSE     a word in a sentence

`passwords` defines the other places and says how much proof each of them requires.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record
from ralph.privacy.passwords import COPULA, LITERAL, PROSE, SURE
from ralph.privacy.secret_names import CONSTANTS
from ralph.privacy.secret_phrases import is_plain_password
from ralph.privacy.secret_values import FAIR, grade, has_both_cases, has_digit

if TYPE_CHECKING:
    from ralph.privacy.secret_names import SecretName

# Places in addition to those in `passwords`.
NOWHERE = -1  # the syntax assigns nothing
VARIABLE = -2  # the value is most likely a variable, and counts only if a program generated it

ASSIGNMENT_SIGNS = ("=", ":=", "=>", "?=", ":")
_COMPARISON_SIGNS = ("(", "==", "===", "!=", "!==", ",")
"""Signs that do not assign an unquoted value."""


@record
class Assignment:
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


# What may precede a name on its line.
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx(?:[ \t]+/\w)?|\bsetenv|#define"
    r"|\bconfig(?:ure)?[ \t]+set|\bsecrets?[ \t]+set|\b(?:operator|add)|\bconfig[ \t]+\S+)"
    r"[ \t]+\S*\Z"
)
"""A command in which a blank separates the name from its value."""
_AFTER_USER = (
    r"\b(?i:user|username|login|account|benutzer|usuario|utilisateur|utente|ssid)\b[ :=]+"
    r"[^\s,;({]{2,64}[,;/]?[ ](?:(?i:and|und|y|et|e|with|mit|avec|con)[ ])?\Z"
)
_MAX_SETTER_LENGTH = 10
"""The most characters in a method that sets the secret it is named after: `.password("x")`."""
_STRING_RESOURCE = '<string name="'
_USER_ASSIGNED = r"(?i)\b(?:user|login)\w*[:=]"

# Values that may be code.
_EXPRESSION = (
    r"[A-Za-z_]\w*=[\"']?[A-Za-z]\w*[\"']?\)?|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"
)
_SIBLING = (
    r"(?im)^[-+ \t]*(?:[\w.-]*"
    r"(?:user|username|login|name|id|host|hostname|server|port|database|dbname|email|ipaddr)\b)"
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

REST_LENGTH = 40
"""How many characters after a value are examined."""


def quoted_place(assignment: Assignment, *, is_typed: bool) -> int:
    """Return the place of a quoted value: how certain it is that it belongs to the name."""
    separator = assignment.separator
    syntax = assignment.syntax
    if separator == "(":
        return _argument_place(assignment)
    if is_typed or syntax["pair"] or syntax["encoded"] or separator in ASSIGNMENT_SIGNS:
        return SURE
    if separator == "":
        if _assigns_by_blank(assignment) or assignment.line.endswith("(:"):
            return SURE
        if syntax["close"]:
            return NOWHERE
        return LITERAL
    if separator == ",":
        if assignment.line.rstrip("'\" ").endswith("define("):
            return SURE
        if syntax["close"]:
            return LITERAL
        return NOWHERE
    return LITERAL


def _argument_place(assignment: Assignment) -> int:
    """Return the place of an argument in a call.

    `setPassword("x")` assigns a password, but `t.password("x")` does not.
    """
    if assignment.key == "PASSWORD":
        return SURE
    owner, dot, method = assignment.key.lower().rpartition(".")
    if owner == "t":
        return NOWHERE
    if method.startswith(("set", "with", "use")):
        return SURE
    is_method = dot or assignment.line[-1:] in (".", ":")
    if is_method and len(method) <= _MAX_SETTER_LENGTH:
        return SURE
    return NOWHERE


def _assigns_by_blank(assignment: Assignment) -> bool:
    if assignment.key.startswith("-"):
        return True
    return re.search(_SPACE_ASSIGNS, assignment.line) is not None


def unquoted_place(assignment: Assignment, value: str, end: int, *, is_whole_line: bool) -> int:
    """Return the place of an unquoted value: how certain it is that it belongs to the name.

    It may also be a variable or a word in a sentence.
    """
    text = assignment.text
    separator = assignment.separator
    if is_whole_line:
        value = value.rstrip(",;")
    if _is_code(value) or separator in _COMPARISON_SIGNS:
        return NOWHERE
    if separator == ">" and _is_label(assignment.line, value):
        return NOWHERE
    if assignment.syntax["pair"] or assignment.syntax["encoded"] or separator == ">":
        return SURE
    rest = text[end : end + REST_LENGTH].partition("\n")[0].strip("\"' \t\r")
    unquoted = _Unquoted(
        value=value,
        end=end,
        rest=rest,
        is_last=not rest or rest.startswith(("#", "//", "\\n")),
        is_identifier=is_identifier(value),
    )
    if separator == "":
        return _place_after_blank(assignment, unquoted)
    if separator not in ("=", ":"):
        return _place_after_other_sign(separator, unquoted)
    if is_whole_line:
        return _place_on_own_line(assignment, unquoted)
    return _place_inside_line(assignment, unquoted)


def _is_label(line: str, value: str) -> bool:
    """Return whether a value is a word that an app shows: `<string name="password">Lozinka<`."""
    return line.endswith(_STRING_RESOURCE) and value.isalpha()


def _is_code(value: str) -> bool:
    if is_call(value) or value.startswith("--") or "->" in value or "::" in value:
        return True
    first, comma, rest = value.partition(",")
    return bool(comma) and "=" in rest and is_attribute(first)  # minified: `a.b,c.d===e.f`


def _place_after_blank(assignment: Assignment, unquoted: _Unquoted) -> int:
    if _assigns_by_blank(assignment):
        value = unquoted.value
        ends_command = unquoted.is_last or unquoted.rest[0] in "-&|;>)"
        if value.isalpha() and value.islower() and not ends_command:
            return PROSE
        return SURE
    if assignment.syntax["close"]:
        return NOWHERE
    if re.search(_AFTER_USER, assignment.line):
        return LITERAL
    return PROSE


def _place_after_other_sign(separator: str, unquoted: _Unquoted) -> int:
    if separator in ASSIGNMENT_SIGNS and not unquoted.is_identifier:
        return SURE
    if separator == "|":
        return LITERAL
    return COPULA


def _place_inside_line(assignment: Assignment, unquoted: _Unquoted) -> int:
    """Return the place of the value in `name=value` or `name: value` after other text."""
    value = unquoted.value
    line = assignment.line
    is_tight = _is_tight(assignment)
    is_in_call = _is_in_call(line)
    if is_tight and not is_in_call and not assignment.syntax["close"] and not is_attribute(value):
        return SURE
    if not unquoted.is_identifier:
        if re.fullmatch(_EXPRESSION, value) or not is_tight:
            return COPULA
        return SURE
    if not has_digit(value):
        return VARIABLE
    if "_" in value and has_both_cases(value):
        return COPULA
    if not is_in_call and re.search(_USER_ASSIGNED, line):
        return COPULA
    return VARIABLE


def _is_tight(assignment: Assignment) -> bool:
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


def _place_on_own_line(assignment: Assignment, unquoted: _Unquoted) -> int:
    """Return the place of the value in `name=value` or `name: value` on its own line."""
    text = assignment.text
    is_tight = _is_tight(assignment)
    if text[unquoted.end - 1 : unquoted.end] in (",", ";"):
        if unquoted.is_identifier:
            return VARIABLE
        return COPULA
    if not unquoted.is_identifier:
        if unquoted.is_last or is_tight:
            return SURE
        return COPULA
    if not unquoted.is_last:
        if is_tight and text[unquoted.end : unquoted.end + 1] == " ":
            return SURE
        return VARIABLE
    if re.compile(r"\s*\)").match(text, unquoted.end):
        return VARIABLE
    return _identifier_place(assignment, unquoted, is_tight=is_tight)


def _identifier_place(assignment: Assignment, unquoted: _Unquoted, *, is_tight: bool) -> int:
    """Return the place of an identifier that is the last thing on its line.

    It may be a variable or a plain password.
    """
    value = unquoted.value
    if is_attribute(value) and not _is_config_value(assignment.text, unquoted):
        return VARIABLE
    if is_tight or _is_environment_name(assignment.key) or _is_numbered(assignment, value):
        return SURE
    is_config = _is_config_value(assignment.text, unquoted)
    if is_config and (value.islower() or "." in value or grade(value) == FAIR):
        return SURE
    if is_config and has_digit(value) and "_" in value:
        return SURE  # `secret = heath9Kettle_drum`
    if assignment.separator == ":":
        if _is_password_word(assignment.text, unquoted):
            return SURE
        if value.count("_") > 1:
            return LITERAL
    return VARIABLE


def _is_numbered(assignment: Assignment, value: str) -> bool:
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
    if not is_plain_password(value):
        return False
    # In code, a bracket follows the last member of an object.
    return re.compile(r"[\s;,]*[)}\]]").match(text, unquoted.end) is None


def is_call(value: str) -> bool:
    """Return whether a value is a call or an index: `get_token()`, `env["TOKEN"]`."""
    if "(" not in value and "[" not in value:
        return False
    name = value.partition("(")[0].partition("[")[0].rstrip("!?")
    return is_identifier(name)


def is_identifier(value: str) -> bool:
    """Return whether a value is a variable or an attribute: `$this->token`, `a?.b`, `Some::key`."""
    for joint in ("?.", "->", "::"):
        value = value.replace(joint, ".")
    return all(part.replace("$", "_").isidentifier() for part in value.split("."))


def is_attribute(value: str) -> bool:
    """Return whether a value is an attribute in code: `user.password`."""
    return "." in value and is_identifier(value) and value[0].islower()
