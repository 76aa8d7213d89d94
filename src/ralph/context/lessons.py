"""Which lessons belong to a file, a command or an error, for injection at the point of an action.

There a wrong lesson costs more than none, so nothing is ranked by similarity. The full-text index gives candidates; a
lesson must name that very file, that very command (program and subcommand), or what is special about the error: a
code or an error's name, something in quotes, or enough words that not every error has. Hooks load this module.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING
from ralph.search import terms
from ralph.search.terms import EVERYDAY_WORDS as EVERYDAY
from ralph.store import lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from ralph.store.lookup import Filter, RecordRow

_CANDIDATES = 30
_MOST_FILES = 8
_MOST_COMMANDS = 6
_MOST_WORDS = 30
_POSTINGS = 2_000  # records that files, or the words of an error, may bring in; the commonest words are left out

COMMON_NAMES = frozenset(
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
_GROUPS = frozenset(
    {
        "run",
        "compose",
        "exec",
    }
)  # after these the next word is the subcommand
# Programs that do one thing: what follows is what they do it to.
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
# Programs whose mere name says nothing about what is done.
_ORDINARY = frozenset(
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
# Words, and names of errors, that all kinds of errors have; a stem stands for all forms of its word.
_GENERIC = frozenset(
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
_ENOUGH = 3
_CODE = 3
_PART = 0.2  # so much of a lesson must be in the error when no single feature decides
_SHORTEST = 3
_SHORTEST_CODE = 4


def on_files(connection: sqlite3.Connection, files: Sequence[str], keep: Filter) -> list[RecordRow]:
    """Return the records that name one of these files, the best first."""
    files = files[:_MOST_FILES]
    groups = [group for group in map(_file_terms, files) if group]
    counts = lookup.frequencies(
        connection, list({term for group in groups for term in group}), _POSTINGS
    )
    groups = [
        sorted(group, key=lambda term: counts[term])
        for group in groups
        if counts.keys() >= {*group}
    ]
    matches: list[str] = []
    spent = 0
    for group in sorted(groups, key=lambda group: counts[group[0]]):
        spent += counts[group[0]]
        if spent < _POSTINGS:  # the commonest terms decide little, and take longest
            matches.append(
                "(" + " AND ".join(f'"{term}"' for term in group if counts[term] < _POSTINGS) + ")"
            )
    rows = _candidates(connection, " OR ".join(matches), keep)
    return [
        row
        for row in rows
        if any(names_file(f"{row.title}\n{row.text}\n{row.files}", path) for path in files)
    ]


def on_command(
    connection: sqlite3.Connection, command: str, keep: Filter, *, least: int = 1
) -> list[RecordRow]:
    """The lessons that name what a command does, with at least so many words, and those that name a file in it."""
    keys = [key for key in _commands(command) if len(key) >= least]
    phrases = [" ".join(term for word in key for term in terms.word_terms(word)) for key in keys]
    match = " OR ".join(
        f'{{title text}} : "{phrase}"' for phrase in dict.fromkeys(phrases) if phrase
    )
    found = {row.key: row for row in _candidates(connection, match, keep)}
    for row in on_files(connection, [word for word in _words(command) if "." in word], keep):
        found.setdefault(row.key, row)
    return list(found.values())


def on_error(connection: sqlite3.Connection, error: str, keep: Filter) -> list[RecordRow]:
    """The lessons that have what is special about an error, the one that has most of it first."""
    if not (features := _features(error)):
        return []
    rarest = sorted(features, key=lambda word: -features[word])[:_MOST_WORDS]
    counts = lookup.frequencies(
        connection, [term for word in rarest for term in terms.word_terms(word)[-1:]]
    )
    chosen: list[str] = []
    spent = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        spent += counts[term]
        if chosen and spent > _POSTINGS:
            break
        chosen.append(f'"{term}"')
    rows = _candidates(connection, " OR ".join(chosen), keep)
    weighed = [
        (weight, row)
        for row in rows
        if (weight := _weight(features, f"{row.title}\n{row.text}"[:2_000]))
    ]
    weighed.sort(key=lambda each: -each[0])
    return [row for _, row in weighed]


def _candidates(connection: sqlite3.Connection, match: str, keep: Filter) -> list[RecordRow]:
    if not match or not keep:
        return []
    keys = [
        key
        for key, _ in lookup.matching(connection, match, (1.0, 1.0, 1.0, 1.0), _CANDIDATES, keep)
    ]
    rows = lookup.fetch_rows(connection, keys)
    return [rows[key] for key in keys if key in rows]


def _parts(path: str) -> list[str]:
    found = [
        part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..", "~")
    ]
    return found[1:] if found and len(found[0]) == 2 and found[0][1] == ":" else found


def is_common(name: str) -> bool:
    """Whether files of this name are in many folders."""
    return name.strip("._").partition(".")[0].strip("_").lower() in COMMON_NAMES


def _file_terms(path: str) -> list[str]:
    """Return the terms that a record which names a file has; none for a name that says nothing."""
    parts = _parts(path)
    common = bool(parts) and is_common(parts[-1])
    if len(parts) < 1 + common:
        return []
    name = parts[-1]
    joined = terms.fold("".join(char for char in name if char.isalnum()))
    ending = terms.fold(
        name.rpartition(".")[2]
    )  # `ts` is in every second record, and brings nothing
    words = [word for part in parts[-1 - common :] for word in terms.split_words(part)]
    all_terms = [term for word in words for term in terms.word_terms(word)]
    if not all_terms or (len(all_terms) == 1 and "." not in name and name.islower()):
        return []
    return [term for term in dict.fromkeys(all_terms) if term not in (joined, ending)] or all_terms[
        :1
    ]


def names_file(text: str, path: str) -> bool:
    """Whether a text names this file and not another one of its name."""
    if not (parts := _parts(path)) or ("." not in parts[-1] and parts[-1] not in text):
        return False
    text = terms.fold(text)
    folders = [terms.fold(part) for part in parts]
    name = folders[-1]
    at = text.find(name)
    while at >= 0:
        if _stands_alone(text, at, name):
            start = at
            while start and (text[start - 1].isalnum() or text[start - 1] in "_-./\\@~:+"):
                start -= 1
            named = [*_parts(text[start:at]), name]
            if _same(named, folders) and not (is_common(name) and len(named) < 2):
                return True
        at = text.find(name, at + 1)
    return False


def _stands_alone(text: str, at: int, name: str) -> bool:
    """Whether a name is not a part of a longer one; a Korean particle may follow it."""
    before = text[at - 1 : at] if at else ""
    after = text[at + len(name) : at + len(name) + 2]
    if before and (before in "_-." or (before.isalnum() and before.isascii() == name[0].isascii())):
        return False
    ends = after[:1] in ("", "_", "-", "/", "\\") or (after[:1].isalnum() and after[:1].isascii())
    return not (
        after and (ends or (after[0] == "." and after[1:].isalnum() and after[1:].isascii()))
    )


def _same(named: Sequence[str], path: Sequence[str]) -> bool:
    """Whether one of two paths ends with the other; the first folder may have been cut at a space."""
    for back in range(1, min(len(named), len(path)) + 1):
        mine = named[-back]
        other = path[-back]
        if mine != other and not (back == len(named) and back > 1 and other.endswith(f" {mine}")):
            return False
    return True


def _words(command: str) -> list[str]:
    return [word.strip("'\"`()") for word in command.split()]


def _commands(command: str) -> Iterator[tuple[str, ...]]:
    """Yield each program of a command line with its subcommand, as far as that says something."""
    for mark in ("&&", "||", ";", "|", "\n"):
        command = command.replace(mark, "\0")
    for part in command.split("\0")[:_MOST_COMMANDS]:
        words = [word for word in _words(part) if word]
        while words and (words[0] in _WRAPPERS or "=" in words[0]):
            words = words[1:]
        if " ".join(words[:2]) in _RUNNERS and len(words) > 2:
            words = words[2:]
        program = words[0].replace("\\", "/").rpartition("/")[2] if words else ""
        rest = [word for word in words[1:] if not word.startswith("-")]
        action = rest[0] if rest and program not in _SINGLE_PURPOSE else ""
        if (
            action
            and not action.isdecimal()
            and all(char.isalnum() or char in "-:_" for char in action)
        ):
            yield (program, action, *(rest[1:2] if action in _GROUPS else []))
        elif (
            len(program) >= _SHORTEST
            and program not in _ORDINARY
            and program not in EVERYDAY
            and "." not in program
        ):
            yield (program,)


def _features(error: str) -> dict[str, int]:
    """What is special about an error, and how much each counts: codes and names most, then quoted words."""
    quoted = {piece for quote in "'\"`" for piece in error.replace("’", "'").split(quote)[1::2]}
    found: dict[str, int] = {}
    for word in terms.split_words(error):
        if weight := _feature_weight(word, word in quoted):
            found[word if weight >= _CODE else terms.fold(word)] = weight
    return found


def _feature_weight(word: str, quoted: bool = False) -> int:
    low = terms.fold(word)
    if low in EVERYDAY or low in terms.STOP_WORDS:
        return 0
    if low in _GENERIC or terms.word_terms(low)[0] in _GENERIC:
        return int(low.endswith("error") and low != "error")
    letters = [char for char in word if char.isalpha()]
    if not letters or any(char in word for char in "./:\\@"):
        return (
            2
            if letters and "." in word and not is_common(_parts(word)[-1])
            else int(len(word) >= _SHORTEST)
        )
    if terms.is_cjk(word):
        return 1
    capitals = sum(char.isupper() for char in letters)
    shouted = capitals == len(letters) >= _SHORTEST_CODE
    if shouted or (word[1:] != word[1:].lower() and len(letters) >= 2 * _SHORTEST_CODE):
        return _CODE
    return 2 if quoted else int(len(word) >= _SHORTEST or any(char.isdecimal() for char in word))


def _weight(features: dict[str, int], lesson: str) -> int:
    """How much of an error's features a lesson has; 0 when that is not enough."""
    folded = terms.fold(lesson)
    likely = {
        name: weight for name, weight in features.items() if terms.fold(name[:_SHORTEST]) in folded
    }
    if sum(likely.values()) < _ENOUGH:
        return 0
    words = terms.split_words(lesson)
    exact = {*words}
    low = {terms.fold(word) for word in words}
    stems = {terms.word_terms(word)[0] for word in low if terms.word_terms(word)}
    total = 0
    for name, weight in likely.items():
        present = (
            name in exact if weight >= _CODE else name in low or terms.word_terms(name)[0] in stems
        )
        if present and weight >= _CODE:
            return _CODE + sum(features[name] for name in features if name in exact)
        total += weight * present
    enough = total >= _ENOUGH and total >= _PART * sum(1 for word in low if _feature_weight(word))
    return total if enough else 0
