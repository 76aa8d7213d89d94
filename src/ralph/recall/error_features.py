"""Compare an error with a lesson by the distinctive parts of the error.

These parts are called features: an error code or name, something in quotes, a file, or a
word that is not common to all errors. Each has a weight:

    KeyError: 'session_id' in src/auth.py (EADDRINUSE)
    ->  {"EADDRINUSE": 3, "session_id": 2, "src/auth.py": 2, "keyerror": 1}

A code that occurs in a lesson is enough on its own. Otherwise the weights of the features that
occur in the lesson must add up to a minimum, and to a share of the telling words in the lesson, so
that a long lesson does not match by chance. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import terms
from ralph.core.terms import EVERYDAY_WORDS
from ralph.lean import TYPE_CHECKING
from ralph.recall.file_mentions import is_common_name, path_parts

if TYPE_CHECKING:
    from collections.abc import Sequence


# How much each feature of an error counts.
_CODE_WEIGHT = 3  # an error code or name
_NAME_WEIGHT = 2  # a file, or something in quotes
_WORD_WEIGHT = 1
_MIN_WEIGHT = 3  # total weight of features that a lesson must reach
_MIN_SHARE_OF_LESSON = 0.2  # of a lesson's features the error must have, unless a code matches
_MIN_SHARED_BY_SAME_ERROR = 0.6  # of the weight of all features of either error
_MIN_WORD_CHARACTERS = 3
_MIN_CODE_LETTERS = 4  # in a code in capitals; a mixed-case name needs twice as many


def find_features(error: str) -> dict[str, int]:
    """Return the features of an error and their weights."""
    quoted: set[str] = set()  # every second piece between quotes
    for quote in "'\"`":
        quoted.update(error.replace("’", "'").split(quote)[1::2])
    features: dict[str, int] = {}
    for word in terms.split_words(error):
        weight = _feature_weight(word, is_quoted=word in quoted)
        if weight >= _CODE_WEIGHT:
            features[word] = weight
        elif weight:
            features[terms.fold(word)] = weight
    return features


def _feature_weight(word: str, *, is_quoted: bool = False) -> int:
    """Return the weight of a word, or 0 if it is not a feature."""
    folded = terms.fold(word)
    if folded in EVERYDAY_WORDS or folded in terms.STOP_WORDS:
        return 0
    if folded in _GENERIC_WORDS or terms.word_terms(folded)[0] in _GENERIC_WORDS:
        return _generic_weight(folded)
    letters = [char for char in word if char.isalpha()]
    if not letters or any(char in word for char in "./:\\@"):
        return _path_weight(word, has_letters=bool(letters))
    if terms.is_cjk(word):
        return _WORD_WEIGHT
    if _is_code(word, letters):
        return _CODE_WEIGHT
    if is_quoted:
        return _NAME_WEIGHT
    if len(word) >= _MIN_WORD_CHARACTERS or any(map(str.isdecimal, word)):
        return _WORD_WEIGHT
    return 0


def _generic_weight(folded: str) -> int:
    # The name of an error, such as `keyerror`, is better than nothing.
    if folded.endswith("error") and folded != "error":
        return _WORD_WEIGHT
    return 0


def _path_weight(word: str, *, has_letters: bool) -> int:
    if has_letters and "." in word and not is_common_name(path_parts(word)[-1]):
        return _NAME_WEIGHT
    if len(word) >= _MIN_WORD_CHARACTERS:
        return _WORD_WEIGHT
    return 0


def _is_code(word: str, letters: Sequence[str]) -> bool:
    """Return whether a word is a code such as `EADDRINUSE` or a name such as `refreshToken`."""
    if len(letters) >= _MIN_CODE_LETTERS and all(map(str.isupper, letters)):
        return True
    is_mixed = word[1:] != word[1:].lower()
    return is_mixed and len(letters) >= 2 * _MIN_CODE_LETTERS


def weigh_lesson(features: dict[str, int], lesson: str) -> int:
    """Return the total weight of the features that occur in a lesson, or 0 if it is too low."""
    # Splitting a lesson into words is slow, so first look for the beginnings of the features.
    folded_lesson = terms.fold(lesson)
    likely: dict[str, int] = {}
    for name, weight in features.items():
        if terms.fold(name[:_MIN_WORD_CHARACTERS]) in folded_lesson:
            likely[name] = weight
    if sum(likely.values()) < _MIN_WEIGHT:
        return 0
    words = {*terms.split_words(lesson)}
    folded = {terms.fold(word) for word in words}
    stems: set[str] = set()
    for word in folded:
        stems.update(terms.word_terms(word)[:1])
    total = 0
    for name, weight in likely.items():
        if weight >= _CODE_WEIGHT:
            if name in words:  # a code is enough on its own
                return _CODE_WEIGHT + _sum_present(features, words)
        elif name in folded or terms.word_terms(name)[0] in stems:
            total += weight
    telling = [word for word in folded if _feature_weight(word)]
    if total < _MIN_WEIGHT or total < _MIN_SHARE_OF_LESSON * len(telling):
        return 0
    return total


def is_same_error(features: dict[str, int], others: dict[str, int]) -> bool:
    """Return whether the features of two errors are those of one error.

    The same exception about something else is another error, so most features must be shared.
    """
    shared = sum(weight for name, weight in features.items() if name in others)
    total = max(sum(features.values()), sum(others.values()))
    return shared >= max(_MIN_WEIGHT, _MIN_SHARED_BY_SAME_ERROR * total)


def _sum_present(features: dict[str, int], words: set[str]) -> int:
    return sum(weight for name, weight in features.items() if name in words)


# Words and names that occur in all kinds of errors. A stem covers all forms of its word.
_GENERIC_WORDS = frozenset(
    {
        "abort",
        "access",
        "address",
        "array",
        "assert",
        "assertionerror",
        "attribute",
        "attributeerror",
        "bin",
        "branch",
        "build",
        "byte",
        "call",
        "cannot",
        "class",
        "client",
        "close",
        "code",
        "column",
        "command",
        "commit",
        "compile",
        "complete",
        "completed",
        "config",
        "configuration",
        "connect",
        "console",
        "content",
        "couldn",
        "create",
        "created",
        "data",
        "debug",
        "declared",
        "default",
        "define",
        "defined",
        "delete",
        "denied",
        "dependencies",
        "dependency",
        "describe",
        "directory",
        "doesn",
        "don",
        "elements",
        "environ",
        "equal",
        "err",
        "error",
        "exception",
        "exec",
        "exist",
        "exit",
        "expect",
        "export",
        "fail",
        "failure",
        "false",
        "fatal",
        "field",
        "file",
        "filenotfounderror",
        "folder",
        "force",
        "function",
        "get",
        "git",
        "group",
        "handle",
        "head",
        "home",
        "host",
        "http",
        "import",
        "importerror",
        "info",
        "input",
        "install",
        "installed",
        "instance",
        "int",
        "integer",
        "internal",
        "invalid",
        "isn",
        "item",
        "json",
        "key",
        "keyerror",
        "length",
        "lib",
        "line",
        "list",
        "load",
        "local",
        "localhost",
        "location",
        "log",
        "message",
        "method",
        "missing",
        "module",
        "modulenotfounderror",
        "modules",
        "named",
        "nameerror",
        "node",
        "npm",
        "null",
        "number",
        "object",
        "operation",
        "option",
        "origin",
        "output",
        "package",
        "packages",
        "param",
        "parameter",
        "parse",
        "pass",
        "path",
        "permission",
        "permitted",
        "pip",
        "port",
        "print",
        "process",
        "promise",
        "property",
        "push",
        "python",
        "received",
        "ref",
        "referenceerror",
        "reject",
        "remote",
        "remove",
        "request",
        "require",
        "required",
        "resolve",
        "response",
        "result",
        "return",
        "run",
        "runtime",
        "runtimeerror",
        "script",
        "self",
        "server",
        "service",
        "set",
        "shell",
        "solve",
        "source",
        "specified",
        "stack",
        "start",
        "state",
        "statement",
        "static",
        "status",
        "stderr",
        "stdout",
        "step",
        "string",
        "successfully",
        "suite",
        "supported",
        "syntax",
        "syntaxerror",
        "system",
        "target",
        "test",
        "text",
        "throw",
        "token",
        "traceback",
        "tuple",
        "type",
        "typeerror",
        "undefined",
        "unexpected",
        "unable",
        "unhandled",
        "unknown",
        "update",
        "user",
        "usr",
        "valid",
        "value",
        "valueerror",
        "values",
        "var",
        "variable",
        "version",
        "wait",
        "warn",
        "write",
        "zero",
    }
)
