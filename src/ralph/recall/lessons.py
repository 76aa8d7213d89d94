"""Find lessons about a file, a command or an error, to inject them when an agent acts.

At that point a wrong lesson costs more than none, so nothing is ranked by similarity. The full-text
index provides candidates. A lesson must name that very file, that very command (program and
subcommand), or what is special about the error: an error code or name, something in quotes, or
enough words that are not common to all errors. These special parts are called the features of an
error. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import terms
from ralph.core.terms import EVERYDAY_WORDS
from ralph.lean import TYPE_CHECKING
from ralph.storage import lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

_MAX_CANDIDATES = 30
_MAX_FILES = 8
_MAX_COMMANDS = 6
_MAX_ERROR_WORDS = 30
_MAX_LESSON_CHARACTERS = 2_000  # of a lesson, compared with an error
# The number of records that the terms of files or of an error may match in total. The most common
# terms are skipped, because they decide little and take longest.
_MAX_POSTINGS = 2_000
_FIELD_WEIGHTS = (1.0, 1.0, 1.0, 1.0)  # for title, tags, text and files

# How much each feature of an error counts.
_CODE_WEIGHT = 3  # an error code or name
_NAME_WEIGHT = 2  # a file, or something in quotes
_WORD_WEIGHT = 1
_MIN_WEIGHT = 3  # total weight of features that a lesson must reach
_MIN_SHARE_OF_LESSON = 0.2  # of a lesson's features the error must have, unless a code matches
_MIN_WORD_CHARACTERS = 3
_MIN_CODE_LETTERS = 4  # in a code in capitals; a mixed-case name needs twice as many

_COMMON_FILE_NAMES = frozenset(
    {
        "index",
        "main",
        "mod",
        "lib",
        "app",
        "init",
        "utils",
        "util",
        "helpers",
        "types",
        "type",
        "readme",
        "package",
        "config",
        "setup",
        "test",
        "tests",
        "conftest",
        "settings",
        "models",
        "views",
        "routes",
        "route",
        "page",
        "layout",
        "schema",
        "constants",
        "common",
        "base",
        "core",
    }
)
# Programs that run the command that follows.
_WRAPPERS = frozenset(
    {
        "sudo",
        "time",
        "env",
        "exec",
        "command",
        "nohup",
        "npx",
        "bunx",
        "uvx",
        "xvfb-run",
    }
)
# Word pairs that run the program that follows.
_RUNNERS = (
    "uv run",
    "poetry run",
    "pipenv run",
    "bundle exec",
    "pnpm exec",
    "yarn run",
    "npm exec",
    "python -m",
    "python3 -m",
)
# Words after which the next word is the subcommand.
_COMMAND_GROUPS = frozenset(
    {
        "run",
        "compose",
        "exec",
    }
)
# Programs that do one thing. What follows is their argument, not a subcommand.
_SINGLE_PURPOSE = frozenset(
    {
        "pytest",
        "jest",
        "vitest",
        "mocha",
        "rspec",
        "phpunit",
        "tox",
        "nox",
        "eslint",
        "tsc",
        "mypy",
        "pylint",
        "flake8",
    }
)
# Programs whose name alone says nothing about what they do.
_ORDINARY_PROGRAMS = frozenset(
    {
        "ls",
        "cd",
        "cat",
        "echo",
        "rm",
        "cp",
        "mv",
        "pwd",
        "touch",
        "mkdir",
        "rmdir",
        "chmod",
        "chown",
        "ln",
        "head",
        "tail",
        "less",
        "wc",
        "sort",
        "uniq",
        "cut",
        "tr",
        "sed",
        "awk",
        "grep",
        "rg",
        "xargs",
        "tee",
        "date",
        "sleep",
        "kill",
        "pkill",
        "ps",
        "export",
        "source",
        "set",
        "which",
        "type",
        "test",
        "true",
        "false",
        "printf",
        "read",
        "clear",
        "history",
        "man",
        "python",
        "python3",
        "node",
        "deno",
        "bun",
        "bash",
        "sh",
        "zsh",
        "ruby",
        "perl",
        "php",
        "java",
        "go",
        "tsx",
        "ts-node",
        "git",
        "docker",
        "npm",
        "pnpm",
        "yarn",
        "pip",
        "uv",
        "cargo",
        "make",
        "code",
        "vim",
        "nano",
        "curl",
        "wget",
        "ssh",
        "kubectl",
        "terraform",
    }
)
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
_UNNAMED_PARTS = ("", ".", "..", "~")  # path parts that do not name a folder
_PATH_CHARACTERS = "_-./\\@~:+"  # in addition to letters and digits
_COMMAND_SEPARATORS = ("&&", "||", ";", "|", "\n")


# --- lessons about a file ------------------------------------------------------------------------


def on_files(connection: sqlite3.Connection, files: Sequence[str], keep: Filter) -> list[RecordRow]:
    """Return the records that name one of these files, best first."""
    files = files[:_MAX_FILES]
    groups: list[list[str]] = []
    for path in files:
        group = _file_terms(path)
        if group:
            groups.append(group)
    found: list[RecordRow] = []
    for row in _candidates(connection, _match_files(connection, groups), keep):
        text = f"{row.title}\n{row.text}\n{row.files}"
        if any(names_file(text, path) for path in files):
            found.append(row)
    return found


def _match_files(connection: sqlite3.Connection, groups: Sequence[Sequence[str]]) -> str:
    """Return the full-text query for records that contain all terms of a group.

    Groups with the rarest terms come first.
    """
    terms_of_groups: set[str] = set()
    terms_of_groups.update(*groups)
    counts = lookup.frequencies(connection, list(terms_of_groups), _MAX_POSTINGS)
    indexed: list[list[str]] = []
    for group in groups:
        if counts.keys() >= {*group}:
            indexed.append(sorted(group, key=lambda term: counts[term]))
    indexed.sort(key=lambda group: counts[group[0]])
    matches: list[str] = []
    postings = 0
    for group in indexed:
        postings += counts[group[0]]
        if postings < _MAX_POSTINGS:
            rare = [f'"{term}"' for term in group if counts[term] < _MAX_POSTINGS]
            matches.append(f"({' AND '.join(rare)})")
    return " OR ".join(matches)


def _file_terms(path: str) -> list[str]:
    """Return the terms that every record naming this file contains.

    Returns no terms if the file's name is too common to identify it.
    """
    parts = _path_parts(path)
    if not parts:
        return []
    name = parts[-1]
    naming_parts = parts[-1:]
    if _is_common_name(name):
        if len(parts) == 1:
            return []
        naming_parts = parts[-2:]  # a common name needs its folder
    file_terms: list[str] = []
    for part in naming_parts:
        for word in terms.split_words(part):
            file_terms += terms.word_terms(word)
    is_ordinary_word = len(file_terms) == 1 and "." not in name and name.islower()
    if not file_terms or is_ordinary_word:
        return []
    whole_name = terms.fold("".join(filter(str.isalnum, name)))
    # A file extension such as `ts` is too frequent to help.
    ending = terms.fold(name.rpartition(".")[2])
    telling = [term for term in dict.fromkeys(file_terms) if term not in (whole_name, ending)]
    return telling or file_terms[:1]


def names_file(text: str, path: str) -> bool:
    """Return whether `text` names this file, and not another file of the same name."""
    parts = _path_parts(path)
    if not parts or ("." not in parts[-1] and parts[-1] not in text):
        return False
    text = terms.fold(text)
    folded_path = [terms.fold(part) for part in parts]
    name = folded_path[-1]
    needs_folder = _is_common_name(name)
    position = text.find(name)
    while position >= 0:
        if _is_whole_name(text, position, name):
            start = _path_start(text, position)
            named = [*_path_parts(text[start:position]), name]
            if _is_same_path(named, folded_path) and not (needs_folder and len(named) < 2):
                return True
        position = text.find(name, position + 1)
    return False


def _path_parts(path: str) -> list[str]:
    """Return the folders and the name in a path, without a drive."""
    parts = path.replace("\\", "/").split("/")
    parts = [part for part in parts if part not in _UNNAMED_PARTS]
    if parts and len(parts[0]) == 2 and parts[0][1] == ":":
        return parts[1:]
    return parts


def _is_common_name(name: str) -> bool:
    """Return whether a file of this name is common to many folders."""
    stem = name.strip("._").partition(".")[0]
    return stem.strip("_").lower() in _COMMON_FILE_NAMES


def _path_start(text: str, end: int) -> int:
    """Return the position where the path that ends at `end` starts."""
    start = end
    while start and (text[start - 1].isalnum() or text[start - 1] in _PATH_CHARACTERS):
        start -= 1
    return start


def _is_whole_name(text: str, position: int, name: str) -> bool:
    """Return whether the name at a position is not part of a longer one.

    A Korean particle may follow it.
    """
    if position:
        before = text[position - 1]
        if before in "_-.":
            return False
        if before.isalnum() and before.isascii() == name[0].isascii():
            return False
    end = position + len(name)
    after = text[end : end + 1]
    if after == ".":  # the end of a sentence, unless another extension follows
        next_character = text[end + 1 : end + 2]
        return not (next_character.isalnum() and next_character.isascii())
    if after in ("_", "-", "/", "\\"):
        return False
    return not (after.isalnum() and after.isascii())


def _is_same_path(named: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether one of two paths ends with the other.

    The first folder of the named path may have been cut off at a space.
    """
    for distance in range(1, min(len(named), len(path)) + 1):
        folder = named[-distance]
        expected = path[-distance]
        if folder == expected:
            continue
        is_first_folder = distance == len(named) and distance > 1
        if not (is_first_folder and expected.endswith(f" {folder}")):
            return False
    return True


# --- lessons about a command ---------------------------------------------------------------------


def on_command(
    connection: sqlite3.Connection, command: str, keep: Filter, *, least: int = 1
) -> list[RecordRow]:
    """Return the lessons that name what a command does, then those that name a file in it.

    `least` is the number of words that a command's name must have. A program without a subcommand
    counts only if it is 1.
    """
    phrases: dict[str, None] = {}
    for name in _command_names(command):
        phrase = _phrase(name)
        if len(name) >= least and phrase:
            phrases[phrase] = None
    match = " OR ".join(f'{{title text}} : "{phrase}"' for phrase in phrases)
    found = {row.key: row for row in _candidates(connection, match, keep)}
    files = [word for word in _command_words(command) if "." in word]
    for row in on_files(connection, files, keep):
        found.setdefault(row.key, row)
    return list(found.values())


def _phrase(words: Sequence[str]) -> str:
    phrase: list[str] = []
    for word in words:
        phrase += terms.word_terms(word)
    return " ".join(phrase)


def _command_words(command: str) -> list[str]:
    return [word.strip("'\"`()") for word in command.split()]


def _command_names(command: str) -> Iterator[tuple[str, ...]]:
    """Yield what each part of a command line runs: a program and its subcommand, if any."""
    for separator in _COMMAND_SEPARATORS:
        command = command.replace(separator, "\0")
    for part in command.split("\0")[:_MAX_COMMANDS]:
        words = _without_wrappers([word for word in _command_words(part) if word])
        if not words:
            continue
        program = words[0].replace("\\", "/").rpartition("/")[2]
        arguments = [word for word in words[1:] if not word.startswith("-")]
        subcommand = _subcommand(program, arguments)
        if subcommand:
            yield (program, *subcommand)
        elif _is_telling_program(program):
            yield (program,)


def _without_wrappers(words: list[str]) -> list[str]:
    """Return a command without variables, wrappers such as `sudo`, or runners such as `uv run`."""
    start = 0
    while start < len(words) and (words[start] in _WRAPPERS or "=" in words[start]):
        start += 1
    words = words[start:]
    if len(words) > 2 and " ".join(words[:2]) in _RUNNERS:
        return words[2:]
    return words


def _subcommand(program: str, arguments: Sequence[str]) -> Sequence[str]:
    """Return the words of a subcommand, such as `install` or `compose up`.

    Returns no words if there is no subcommand.
    """
    if not arguments or program in _SINGLE_PURPOSE:
        return ()
    action = arguments[0]
    is_word = all(char.isalnum() or char in "-:_" for char in action)
    if not is_word or action.isdecimal():
        return ()
    if action in _COMMAND_GROUPS:
        return arguments[:2]
    return arguments[:1]


def _is_telling_program(program: str) -> bool:
    return (
        len(program) >= _MIN_WORD_CHARACTERS
        and program not in _ORDINARY_PROGRAMS
        and program not in EVERYDAY_WORDS
        and "." not in program
    )


# --- lessons about an error ----------------------------------------------------------------------


def on_error(connection: sqlite3.Connection, error: str, keep: Filter) -> list[RecordRow]:
    """Return the lessons that share enough features with an error, best matches first."""
    features = _features(error)
    if not features:
        return []
    weighed: list[tuple[int, RecordRow]] = []
    for row in _candidates(connection, _match_features(connection, features), keep):
        weight = _lesson_weight(features, f"{row.title}\n{row.text}"[:_MAX_LESSON_CHARACTERS])
        if weight:
            weighed.append((weight, row))
    weighed.sort(key=lambda pair: -pair[0])
    return [row for _, row in weighed]


def _match_features(connection: sqlite3.Connection, features: dict[str, int]) -> str:
    """Return the full-text query for records that contain one of the rarest features."""
    heaviest = sorted(features, key=lambda word: -features[word])[:_MAX_ERROR_WORDS]
    feature_terms: list[str] = []
    for word in heaviest:
        feature_terms += terms.word_terms(word)[-1:]
    counts = lookup.frequencies(connection, feature_terms)
    chosen: list[str] = []
    postings = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        postings += counts[term]
        if chosen and postings > _MAX_POSTINGS:
            break
        chosen.append(f'"{term}"')
    return " OR ".join(chosen)


def _features(error: str) -> dict[str, int]:
    """Return the features of an error and their weights.

    Codes and error names weigh most, then quoted words, then other words.
    """
    quoted: set[str] = set()
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
    """Return how much a word says about an error, or 0 if it says nothing."""
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
    """Return the weight of a generic word.

    Only the name of an error, such as `keyerror`, has any weight.
    """
    if folded.endswith("error") and folded != "error":
        return _WORD_WEIGHT
    return 0


def _path_weight(word: str, *, has_letters: bool) -> int:
    """Return how much a path, an address or a number says about an error."""
    if has_letters and "." in word and not _is_common_name(_path_parts(word)[-1]):
        return _NAME_WEIGHT
    if len(word) >= _MIN_WORD_CHARACTERS:
        return _WORD_WEIGHT
    return 0


def _is_code(word: str, letters: Sequence[str]) -> bool:
    """Return whether a word is written in capitals, or is a long name in mixed case."""
    if len(letters) >= _MIN_CODE_LETTERS and all(map(str.isupper, letters)):
        return True
    is_mixed = word[1:] != word[1:].lower()
    return is_mixed and len(letters) >= 2 * _MIN_CODE_LETTERS


def _lesson_weight(features: dict[str, int], lesson: str) -> int:
    """Return the total weight of the error's features found in a lesson, or 0 if it is too low."""
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


def _sum_present(features: dict[str, int], words: set[str]) -> int:
    return sum(weight for name, weight in features.items() if name in words)


def _candidates(connection: sqlite3.Connection, match: str, keep: Filter) -> list[RecordRow]:
    """Return the best full-text matches, best first."""
    if not match or not keep:
        return []
    found = lookup.matching(connection, match, _FIELD_WEIGHTS, _MAX_CANDIDATES, keep)
    rows = lookup.fetch_rows(connection, [key for key, _ in found])
    return [rows[key] for key, _ in found if key in rows]
