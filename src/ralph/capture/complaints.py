r"""What checks complain about every day: how something is written, and what is not there yet.

Nobody can list all linters and test runners. A linter is known by the words of its command (`lint`, `style`, `fmt`,
`spell`, `types`) or by the shape of what it prints: a file with a line, or the name of a rule in brackets at the end.
A crash is no complaint, wherever it points. A test is known by the word `test` or `spec` in its command. When
it fails because something is undefined or not implemented, it was written first, and when what it tests is declared
and not programmed (Terraform, SQL, a script), the declaration is the code under test and no setting.
`tests/capture/test_complaints.py` holds commands and outputs on both sides.
"""

import re

from ralph.capture.commands import Check, Words, check_of, parts, programs

_STYLE = re.compile(
    r"(?i)lint|typecheck|phpcs|critic$|^vale$|(?:fmt|spell)$|(?:^|[^a-z])(?:code)?(?:style|fmt|format|formatting|spell"
    r"|spelling|spellcheck|prettier|tidy|vet|cs|types?|typos)(?![a-z])|(?:format|style|types|typos)(?:$|[:_-])"
)
"""A word of a command that looks at how something is written."""
_NO_STYLE = re.compile(r"(?i)--?(?:o|out|output|log|test)?-?(?:format|style)\b")
_LINE = re.compile(
    r"""(?mx)
    ^\s*(?:\S+\s)?[\w./\\@+-]{1,200}\.\w{1,8}(?::\d{1,6}(?::\d{1,6})?(?=[:\s-])|\(\d{1,6}(?:[,:]\d{1,6})?\)(?=[:\s]))
    | ^\s*\d{1,6}(?::\d{1,6}|\s?\|)\s+(?i:\|?\s?(?:error|warning|warn|info|note|style)\b)
    | ^\s*(?:-->|→)\s\S+:\d{1,6} | \bon\ [\w./\\-]+\ line\ \d+ | ^\S+\.\w{1,8}:\ (?i:line|needs|would|not)\b
    | \bwould\ (?:be\ )?(?:re)?format(?:ted)?\b | \b(?:not|incorrectly|isn't)\ (?:properly\ )?formatted\b
    | \bneeds\ formatting\b
    | (?i:\bunknown\ word\b | \bmisspelled\b)
    """
)
"""A complaint about a line of a file."""
_RULE_NAMED = re.compile(
    r"""(?mx) (?:\(|\[)(?:[a-z@][\w@]*(?:[-_/.:][\w]+)+|[a-z]{5,24}|[A-Z]{1,6}\d{2,5}[\w:-]*)(?:\)|\])\s*$
    | ^\s*(?:rule|check)\b\s?[:=]"""
)
"""The name of a rule at the end of a line, in brackets."""
_CRASH = re.compile(
    r"(?m)\bTraceback\b|\bpanicked\b|^panic:|\bSegmentation fault\b|\bcore dumped\b|\b[A-Z]\w+(?:Exception|Error)\b"
    r"(?:: |$)|^\s+at \S+ ?\(|\bcannot (?:be built|open|load)\b"
    r"|\b(?:not installed|no such file|out of date|Cannot find module)\b"
)
_NOT_THERE = re.compile(
    r"""(?ix)\bnot\ (?:yet\ |been\ )?implemented\b | \bunimplemented\b | \btodo!\( | \bNotImplemented\w*
    | \bundeclared\b | \bundefined:\ \w | \bundefined\ (?:name|function|symbol|reference\ to|variable|constant|local)
    | \bundefined\ method\b(?!.{0,60}\bnil\b) | \b(?:is\ )?not\ (?:defined|declared)\b(?!\ in\ the\ env)
    | \bfunction\ \S+\ is\ undefined\b | \bis\ not\ a\ function\b | \bcannot\ find\ (?:function|symbol|value|type|name
    |struct|trait|macro|derive|method)\b
    | \bhas\ no\ (?:member|method|function|field|exported\ member) | \bunresolved\ (?:import|reference|name
    |identifier)\b
    | \bno\ (?:function|method|member|field|variant|associated\ item|rule|route|resource)\ (?:named|called|matches
    |matching)\b
    | \bcannot\ import\ name\b(?!.{0,80}partially) | \bunknown\ (?:function|method|type|identifier|variable)\b
    | \bno\ (?:such\ )?(?:function|method|class)\b | \bcall\ to\ undefined\b | \bclass\ \S+\ not\ found\b
    | \b(?:function|procedure|method|class|type)\ \S+\ (?:does\ not\ exist|doesn't\ exist|is\ missing)
    | \bvariable\ not\ in\ scope\b | \bunbound\ (?:value|identifier|variable)\b | \bis\ not\ exported\b"""
)
_TEST_WORD = re.compile(
    r"(?:^|[^a-zA-Z])(?:[Tt]ests?|e2e)(?![a-z])|^t/|(?:unit|smoke|load|golden|acceptance|integration)[-_]?tests?$|[a-z](?:Tests?|Specs?)(?![a-z])|(?:^|[:_./-])specs?(?=$|/|\.\w{1,3}$)"
)
_WORDS_LOOKED_AT = 5
_DECLARED = re.compile(
    r"""(?ix)\.(?:tf|tofu|hcl|nix|rego|cue|jsonnet|libsonnet|bicep|pp|sh|bash|zsh|bats|proto|graphql|gql|prisma|dhall
    |j2|tpl|rules)$|(?:^|/)(?:roles|tasks|handlers|manifests|charts|templates|rules|policies|alerts)/"""
)
_PREPARING = re.compile(
    r"(?i)(?:^|/)(?:migrat\w*|env\w*|setup|init|seeds?)/|(?:^|[/_-])(?:init|setup|env|seed|schema)[^/]*$"
)
"""Files that make ready what a test stands on."""


def is_of_style(command: str) -> bool:
    """Whether a command looks at how files are written: a linter, a formatter, a checker of types or of spelling."""
    check = check_of(command)
    if check is not None and check.kind in (Check.LINT, Check.TYPES):
        return True
    return (check is None or check.kind is not Check.TEST) and any(map(_is_of_style, programs(command)))


def is_of_types(command: str) -> bool:
    """Whether a command checks types, which no tool can mend by itself."""
    check = check_of(command)
    return check is not None and check.kind is Check.TYPES


def _is_of_style(program: Words) -> bool:
    words = [word for word in program[:3] if not _NO_STYLE.match(word)]
    return any(_STYLE.search(word) for word in words if not word.startswith("-") or word == "--check")


def complains(text: str) -> bool:
    """Whether an output points at a line of a file or names a rule, and is no crash."""
    return (_LINE.search(text) is not None or _RULE_NAMED.search(text) is not None) and _CRASH.search(text) is None


def names_a_rule(text: str) -> bool:
    """Whether an output points at a line of a file and says which rule that breaks: so speaks a linter only."""
    return _LINE.search(text) is not None and _RULE_NAMED.search(text) is not None and _CRASH.search(text) is None


def is_testing(command: str) -> bool:
    """Whether a command runs tests, with whatever runner."""
    check = check_of(command)
    if check is not None:
        return check.kind is Check.TEST
    return any(_TEST_WORD.search(word) for part in parts(command) for word in part.words[:_WORDS_LOOKED_AT])


def is_not_there(error: str) -> bool:
    """Whether a failure says that something is undefined or not implemented yet."""
    return _NOT_THERE.search(error) is not None


def is_declared(path: str) -> bool:
    """Whether a file declares what is to be, so that for a test it is the code."""
    return _DECLARED.search(path) is not None and _PREPARING.search(path) is None
