r"""Determine what a command line checks: tests, a build, a linter, types, or nothing.

Prefixes that only start another program (`timeout 60`, `uv run`, `bash -c`) are removed. The
program and its first arguments are then looked up in a table: `timeout 60 cargo clippy` is a lint
check. An unknown command is not a check.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise


class CommandCheck(StrEnum):
    """What a command checks."""

    TEST = "test"
    BUILD = "build"
    LINT = "lint"
    TYPES = "types"


Words = tuple[str, ...]


_MAX_CHARACTERS = 8_000  # how much of a command is parsed
_MAX_DEPTH = 8  # how many programs may start one another
_HEREDOC = re.compile(
    r"<<-?[ \t]{0,8}([\"']?)(\w{1,40})\1([^\n]{0,2000})\n"
    r"(?:[^\n]*\n){0,400}?[ \t]{0,40}\2[ \t]*(?=\n|$)"
)
_TOKEN = re.compile(
    r"\\\n|(?P<operator>&&|\|\|?&?|;;?|\n|[()])"
    r"|(?P<redirect>\d?[<>]{1,2}&?\d?|&>)|(?P<background>&)"
    r"|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;|&()<>]|['\"\\])+)",
    re.DOTALL,
)
_QUOTES = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SHELLS = frozenset(
    {
        "bash",
        "sh",
        "zsh",
        "dash",
        "ksh",
    }
)
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_STARTERS = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "do",
        "while",
        "until",
        "!",
        "{",
        "time",
        "exec",
        "command",
        "builtin",
        "nohup",
        "sudo",
        "doas",
        "nice",
        "ionice",
        "stdbuf",
        "unbuffer",
        "setsid",
        "xvfb-run",
        "timeout",
        "gtimeout",
        "env",
        "dotenv",
        "chronic",
        "caffeinate",
        "npx",
        "bunx",
        "uvx",
    }
)
_RUNNERS = {
    **dict.fromkeys(
        [
            "uv",
            "poetry",
            "pipenv",
            "pdm",
            "hatch",
            "rye",
            "pixi",
            "conda",
            "micromamba",
            "pipx",
            "coverage",
        ],
        ("run",),
    ),
    **dict.fromkeys(["npm", "mise", "asdf", "bundle", "pnpm", "yarn", "bun"], ("exec", "x", "dlx")),
}
"""Programs that run another program, and the words after which it is named."""
_STARTER_VALUES = frozenset(
    {
        "-n",
        "-u",
        "-k",
        "-s",
        "-p",
        "-C",
        "--signal",
        "--kill-after",
        "--project",
        "--directory",
        "--package",
        "--python",
        "--with",
        "--extra",
        "--group",
        "--only-group",
        "--env-file",
        "--name",
    }
)
_SCRIPT_VALUES = frozenset(
    {
        "-C",
        "-f",
        "-F",
        "--prefix",
        "--cwd",
        "--workspace",
        "--filter",
        "--file",
        "--dir",
        "--project",
        "-pl",
        "-t",
    }
)
"""Options whose value is the next word."""


def parts(command: str) -> list[tuple[Words, str]]:
    """Split a command line into simple commands, each with the operator that follows it."""
    commands: list[tuple[Words, str]] = []
    words: list[str] = []
    is_redirect_target = False
    for token in _TOKEN.finditer(_HEREDOC.sub(r"\3", command[:_MAX_CHARACTERS])):
        if token["word"]:
            if not is_redirect_target:
                words.append(_QUOTES.sub(_unquote, token["word"]))
            is_redirect_target = False
        elif token["redirect"]:
            is_redirect_target = not token["redirect"][-1].isdigit()
        elif token["operator"] or token["background"]:
            if words:
                commands.append((tuple(words), token[0].strip() or ";"))
            words = []
            is_redirect_target = False
    if words:
        commands.append((tuple(words), ""))
    return commands


def _unquote(quoted: re.Match[str]) -> str:
    return quoted[1] or quoted[2] or quoted[3] or ""


def programs(command: str) -> Iterator[Words]:
    """Yield every program that a command line runs, with its arguments."""
    for words, _ in parts(command):
        yield from _find_programs(words)


def _find_programs(words: Words, depth: int = 0) -> Iterator[Words]:
    while words and depth <= _MAX_DEPTH:
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
            continue
        program = _program_name(words[0])
        rest = _skip_options(words[1:], _STARTER_VALUES)
        if program in _STARTERS:
            words = rest
            if rest and _DURATION.fullmatch(rest[0]):
                words = rest[1:]
        elif rest and rest[0] in _RUNNERS.get(program, ()):
            words = _skip_options(rest[1:], _STARTER_VALUES)
        elif program in _SHELLS:
            for inner, _ in parts(_shell_script(words)):
                yield from _find_programs(inner, depth + 1)
            return
        elif _PYTHON.fullmatch(program):
            start = words.index("-m") + 1 if "-m" in words else 1
            words = words[start:]
            depth += 1
        else:
            yield (program, *words[1:])
            return


def _program_name(path: str) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(".exe").removesuffix(".cmd")


def _shell_script(words: Words) -> str:
    """Return SCRIPT from `bash -c SCRIPT`, or ""."""
    for option, script in pairwise(words[1:]):
        if _SCRIPT_OPTION.fullmatch(option):
            return script
    return ""


def _skip_options(words: Words, options_with_value: Collection[str]) -> Words:
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            return words[position + 1 :]
        position += 2 if words[position] in options_with_value else 1
    return words[position:]


_TABLE = """
test  | pytest py.test nose2 trial behave tox nox unittest doctest jest ava tap mocha phpunit | *
test  | pest rspec cucumber | *
test  | ctest gotestsum ginkgo bats busted lit | *
test  | vitest | run related -
test  | playwright cypress newman wdio testcafe | test run
test  | cargo | test t nextest bench miri llvm-cov tarpaulin
build | cargo | build b rustc doc
lint  | cargo | clippy deny audit
types | cargo | check c
test  | go | test
build | go | build
lint  | go | vet
lint  | golangci-lint | run -
lint  | staticcheck revive gosec errcheck | *
test  | dotnet swift mix rails artisan manage.py setup.py react-scripts ng | test test:unit spec
test  | vue-cli-service | test test:unit spec
build | dotnet swift mix setup.py react-scripts ng vue-cli-service | build publish pack compile
lint  | mix manage.py | credo dialyzer check
build | xcodebuild swiftc | *
test  | bazel bazelisk buck buck2 pants plz | test coverage
build | bazel bazelisk buck buck2 pants plz | build
test  | sbt mill lein clj cabal stack zig dart flutter deno gleam dub nimble forge | test testOnly
test  | hardhat anchor moon | test testOnly
build | sbt mill lein cabal stack zig dart flutter gleam dub | build compile build-exe build-lib
build | nimble forge moon | build compile build-exe build-lib
lint  | deno dart flutter | lint analyze
types | deno gleam | check
build | tsup rollup webpack esbuild parcel rspack tsdown ncc microbundle | *
build | vite next nuxt astro gatsby remix expo svelte-kit | build
types | tsc vue-tsc tsgo mypy dmypy pyright basedpyright pyre ty pytype flow svelte-check srb | *
types | steep phpstan psalm | *
lint  | ruff | check
lint  | flake8 pylint pycodestyle pydocstyle bandit vulture codespell eslint oxlint stylelint | *
lint  | standard xo tslint | *
lint  | biome buf | check lint ci
lint  | rubocop standardrb phpcs hadolint shellcheck yamllint markdownlint markdownlint-cli2 | *
lint  | actionlint cppcheck | *
lint  | ansible-lint clang-tidy sqlfluff djlint semgrep swiftlint ktlint detekt | *
lint  | pre-commit lefthook | run
lint  | terraform tofu helm | validate lint
build | cmake | --build
build | ninja scons msbuild gcc g++ clang clang++ cc c++ rustc javac kotlinc ghc latexmk | *
build | sphinx-build build | *
build | meson | compile
test  | meson | test
build | docker podman buildah | build buildx
build | hugo mkdocs jekyll | build
"""
"""Each row has a kind, programs, and the first arguments that make them a check.

`*` stands for any arguments, and `-` for none.
"""
_NO_RUN = frozenset(
    {
        "--watch",
        "--watchAll",
        "--help",
        "-h",
        "--version",
        "-V",
        "--list",
        "--collect-only",
        "--co",
        "--listTests",
        "--list-tests",
        "--init",
        "--showConfig",
        "--dry-run",
        "-N",
    }
)
_FORMATTERS = frozenset(
    {
        "prettier",
        "black",
        "isort",
        "rustfmt",
        "gofmt",
        "shfmt",
        "yapf",
        "autopep8",
        "clang-format",
        "dprint",
    }
)
_FORMATS = frozenset(
    {
        "cargo",
        "ruff",
        "mix",
        "dart",
        "dotnet",
        "deno",
        "terraform",
        "tofu",
    }
)
_CHECK_OPTIONS = (
    "--check",
    "-check",
    "--list-different",
    "-l",
    "--diff",
    "--verify-no-changes",
    "--set-exit-if-changed",
    "-c",
)
"""Options with which a formatter only reports what it would change."""


def _parse_table(table: str) -> dict[str, list[tuple[CommandCheck, frozenset[str]]]]:
    checks: dict[str, list[tuple[CommandCheck, frozenset[str]]]] = {}
    for row in table.strip().splitlines():
        kind, names, verbs = row.split("|")
        for name in names.split():
            checks.setdefault(name, []).append(
                (CommandCheck(kind.strip()), frozenset(verbs.split()))
            )
    return checks


_PROGRAMS = _parse_table(_TABLE)
_SCRIPT_RUNNERS = frozenset(
    {
        "npm",
        "yarn",
        "pnpm",
        "bun",
        "turbo",
        "lerna",
        "deno",
        "composer",
        "mise",
        "nx",
        "rush",
    }
)
"""Programs that run the script named by their first argument and pass the others on to it."""
_TARGET_RUNNERS = frozenset(
    {
        "make",
        "gmake",
        "just",
        "task",
        "rake",
        "invoke",
        "inv",
        "gradle",
        "gradlew",
        "mvn",
        "mvnw",
        "ant",
        "grunt",
        "gulp",
        "doit",
        "poe",
        "earthly",
        "lake",
        "waf",
        "hatch",
    }
)
_BUILD_BY_DEFAULT = frozenset(
    {
        "make",
        "gmake",
        "ant",
        "mvn",
        "mvnw",
        "ninja",
    }
)
_VERBS = frozenset(
    {
        "run",
        "run-script",
        "run-many",
        "workspaces",
        "foreach",
        "task",
        "recursive",
        "affected",
    }
)
_TARGETS = {
    CommandCheck.TYPES: "type-?check|check-?types|types|tsc|mypy|pyright",
    CommandCheck.LINT: r"lint|eslint|stylelint|ruff|clippy|detekt|checkstyle\w*|ktlint\w*"
    r"|(?:format|fmt|spotless|prettier)[:\-_]?check|check[:\-_]?(?:format|fmt|style)",
    CommandCheck.TEST: "tests?|specs?|check|verify|validate|e2e|unit|integration|smoke"
    "|jest|vitest|pytest|test[A-Z].*",
    CommandCheck.BUILD: r"build|compile\w*|bundle|package|assemble\w*|dist",
}
_TARGET_REGEXES = [
    (kind, re.compile(rf"(?:\S*[:\-_])?(?:{names})(?:[:\-_./]\S*)?"))
    for kind, names in _TARGETS.items()
]
_SHORT_TARGETS = {"t": CommandCheck.TEST, "ci": CommandCheck.TEST, "all": CommandCheck.BUILD}
_NO_CHECK = re.compile(
    r"(?i)\S*(?:watch|\bdev\b|serve|clean|update|install|[:\-_](?:fix|ui|open|init)\b)\S*"
)


def check_of(command: str) -> tuple[CommandCheck | None, bool]:
    """Return the last check that a command line runs, and whether its exit code is the line's."""
    check = None
    has_own_code = False
    line = parts(command)
    operators = [operator for _, operator in line]
    for number, (words, _) in enumerate(line):
        for program, *arguments in _find_programs(words):
            kind = _check_kind(program, arguments)
            if kind is not None:
                check = kind
                has_own_code = _ends_with_code_of(operators, number)
    return check, has_own_code


def _ends_with_code_of(operators: Sequence[str], number: int) -> bool:
    """Return whether command `number` decides the line's exit code.

    It does if it comes last, or if only `&&` follows it.
    """
    if operators[-1] not in ("", ";"):
        return False
    return all(operator == "&&" for operator in operators[number:-1])


def _check_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    if not _NO_RUN.isdisjoint(arguments):
        return None
    words = tuple(word for word in arguments if not word.startswith("+"))  # `cargo +nightly test`
    first_words = _skip_options(words, _SCRIPT_VALUES)[:1]
    is_format_verb = program in _FORMATS and first_words in (("fmt",), ("format",))
    if program in _FORMATTERS or is_format_verb:
        only_checks = any(word.startswith(_CHECK_OPTIONS) for word in arguments)
        return CommandCheck.LINT if only_checks else None
    for kind, verbs in _PROGRAMS.get(program, ()):
        if _has_verb(verbs, first_words, arguments):
            return kind
    if program in _SCRIPT_RUNNERS or program in _TARGET_RUNNERS:
        return _target_kind(program, arguments)
    return None


def _has_verb(verbs: frozenset[str], first_words: Words, arguments: Sequence[str]) -> bool:
    if "*" in verbs:
        return True
    if "-" in verbs and not first_words:
        return True
    return not verbs.isdisjoint((*first_words, *arguments[:1]))


def _target_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    """Return what a build tool's targets or a package manager's script check."""
    words = _target_words(program, arguments)
    if program == "npm" and words[:1] not in (["run"], ["run-script"]):
        # `npm ci` is not a script.
        return CommandCheck.TEST if words[:1] in (["test"], ["t"], ["tst"]) else None
    if program in _SCRIPT_RUNNERS:
        words = [word for word in words if word not in _VERBS][:1]
        if program in ("yarn", "pnpm", "bun", "nx") and words and words[0] in _PROGRAMS:
            return _check_kind(words[0], arguments[arguments.index(words[0]) + 1 :])
    if not words:
        return CommandCheck.BUILD if program in _BUILD_BY_DEFAULT else None
    for word in words:
        kind = _kind_of_target(program, word)
        if kind:
            return kind
    return None


def _target_words(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the targets among the arguments, without options and their values."""
    options_with_value = _SCRIPT_VALUES | {"workspace"}
    if program == "npm":
        options_with_value |= {"-w"}
    words: list[str] = []
    previous = ""
    for word in arguments:
        if word == "--":
            break
        is_option = word.startswith("-") or word == "workspace"
        if word.startswith(("--target=", "--targets=")):
            words.append(word.partition("=")[2])
        elif is_option or previous in options_with_value or _ASSIGNMENT.fullmatch(word):
            pass
        else:
            words.append(word)
        previous = word
    return words


def _kind_of_target(program: str, word: str) -> CommandCheck | None:
    name = word
    if program in ("gradle", "gradlew", "nx"):
        name = word.rpartition(":")[2]  # the project comes first: `:app:test`, `app:test`
    if not _NO_CHECK.fullmatch(name):
        for kind, pattern in _TARGET_REGEXES:
            if pattern.fullmatch(name):
                return kind
    return _SHORT_TARGETS.get(name)
