"""Tokens drawn at random from the rules for secrets."""

import re
import string
from random import Random
from re import _parser as sre_parse  # type: ignore[attr-defined]  # tests alone: there is no public parser of regexes
from typing import Any

BODIES = {
    "<word>": "[A-Za-z0-9_-]",
    "<uuid>": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}


def regex_of(body: str) -> str:
    """The regular expression that a body stands for."""
    for name, characters in BODIES.items():
        body = body.replace(name, characters)
    return re.sub(r"\(\?![^)]*\)", "", body)


BODY_KINDS = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "0123456789abcdef", "")
"""Bodies of one kind of character, as far as the regex allows them; at last any."""


def random_token(row: tuple[str, list[str], str, str], kind: str, random: Random) -> str:
    """Return a token of a row whose classes give only characters of one kind, where they have some."""

    def draw(regex: str) -> str:
        parsed = regex_of(regex)
        return "".join(draw_part(part) for part in sre_parse.parse(parsed))

    def draw_part(part: tuple[Any, Any]) -> str:
        operation, value = str(part[0]), part[1]
        if operation == "LITERAL":
            return chr(value)
        if operation == "IN":
            return random.choice(characters(value))
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = value
            count = random.randint(low, min(int(high), low + 12))
            return "".join(draw_part(each) for _ in range(count) for each in inner)
        if operation == "SUBPATTERN":
            return "".join(draw_part(each) for each in value[-1])
        if operation == "BRANCH":
            return "".join(draw_part(each) for each in random.choice(value[1]))
        assert operation in ("ASSERT", "ASSERT_NOT", "AT"), operation
        return ""

    def characters(members: Any) -> str:
        allowed = ""
        if "NEGATE" in str(members):
            return string.ascii_letters
        for operation, value in members:
            name = str(operation)
            allowed += chr(value) if name == "LITERAL" else ""
            allowed += "".join(map(chr, range(value[0], value[1] + 1))) if name == "RANGE" else ""
            allowed += string.digits if name == "CATEGORY" and "DIGIT" in str(value) else ""
            allowed += (
                string.ascii_letters
                if name == "NEGATE" or (name == "CATEGORY" and "WORD" in str(value))
                else ""
            )
        allowed = allowed.replace('"', "").replace("'", "")
        chosen = "".join(each for each in allowed if each in kind)
        return chosen if len(chosen) > 9 else allowed  # letters alone are no hexadecimal number

    return f"{draw(row[3])}{random.choice(row[1])}{draw(row[2])}"
