r"""Tell what a command line checks: tests, a build, a linter, types, or nothing.

What only starts a program is removed (`timeout 60`, `uv run`, `bash -c`), and the program with its first words is
looked up in one table. An unknown command is no check.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum


class CommandCheck(StrEnum):
    """The kinds of checks."""

    TEST = "test"
    BUILD = "build"
    LINT = "lint"
    TYPES = "types"


Words = tuple[str, ...]


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST = 8_000
_DEEPEST = 8
_HEREDOC = re.compile(
    r"<<-?[ \t]{0,8}([\"']?)(\w{1,40})\1([^\n]{0,2000})\n(?:[^\n]*\n){0,400}?[ \t]{0,40}\2[ \t]*(?=\n|$)"
)
_TOKEN = re.compile(
    r"\\\n|(?P<operator>&&|\|\|?&?|;;?|\n|[()])|(?P<redirect>\d?[<>]{1,2}&?\d?|&>)|(?P<background>&)"
    r"|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;|&()<>]|['\"\\])+)",
    re.DOTALL,
)
_QUOTES = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SHELLS = _word_set("bash sh zsh dash ksh")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_STARTERS = _word_set(
    """if then else elif do while until ! { time exec command builtin nohup sudo doas nice ionice stdbuf unbuffer
    setsid xvfb-run timeout gtimeout env dotenv chronic caffeinate npx bunx uvx"""
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
"""Programs that run another one, after one of these words."""
_STARTER_VALUES = _word_set(
    """-n -u -k -s -p -C --signal --kill-after --project --directory --package --python --with --extra --group
    --only-group --env-file --name"""
)
_SCRIPT_VALUES = _word_set(
    "-C -f -F --prefix --cwd --workspace --filter --file --dir --project -pl -t"
)
"""Options whose value is the next word."""


def parts(command: str) -> list[tuple[Words, str]]:
    """Split a line into simple commands, each with the operator after it."""
    commands: list[tuple[Words, str]] = []
    words: list[str] = []
    skip = False
    for token in _TOKEN.finditer(_HEREDOC.sub(r"\3", command[:_LONGEST])):
        if token["word"]:
            if not skip:
                words.append(
                    _QUOTES.sub(
                        lambda quoted: quoted[1] or quoted[2] or quoted[3] or "", token["word"]
                    )
                )
            skip = False
        elif token["redirect"]:
            skip = not token["redirect"][-1].isdigit()
        elif token["operator"] or token["background"]:
            if words:
                commands.append((tuple(words), token[0].strip() or ";"))
            words = []
            skip = False
    return [*commands, (tuple(words), "")] if words else commands


def programs(command: str) -> Iterator[Words]:
    """Yield every program that a line runs, with its arguments."""
    for words, _ in parts(command):
        yield from _find_programs(words)


def _find_programs(words: Words, depth: int = 0) -> Iterator[Words]:
    while words and depth <= _DEEPEST:
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
            continue
        program = (
            words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")
        )
        rest = _skip_options(words[1:], _STARTER_VALUES)
        if program in _STARTERS:
            words = rest[1:] if rest and _DURATION.fullmatch(rest[0]) else rest
        elif rest and rest[0] in _RUNNERS.get(program, ()):
            words = _skip_options(rest[1:], _STARTER_VALUES)
        elif program in _SHELLS:
            script = next(
                (at + 2 for at, word in enumerate(words[1:]) if _SCRIPT_OPTION.fullmatch(word)),
                len(words),
            )
            for inner, _ in parts(words[script]) if script < len(words) else ():
                yield from _find_programs(inner, depth + 1)
            return
        elif _PYTHON.fullmatch(program):
            words = words[words.index("-m") + 1 if "-m" in words else 1 :]
            depth += 1
        else:
            yield (program, *words[1:])
            return


def _skip_options(words: Words, valued: Collection[str]) -> Words:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in valued else 1
    return words[at:]


_TABLE = """
test  | pytest py.test nose2 trial behave tox nox unittest doctest jest ava tap mocha phpunit pest rspec cucumber | *
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
test  | dotnet swift mix rails artisan manage.py setup.py react-scripts ng vue-cli-service | test test:unit spec
build | dotnet swift mix setup.py react-scripts ng vue-cli-service | build publish pack compile
lint  | mix manage.py | credo dialyzer check
build | xcodebuild swiftc | *
test  | bazel bazelisk buck buck2 pants plz | test coverage
build | bazel bazelisk buck buck2 pants plz | build
test  | sbt mill lein clj cabal stack zig dart flutter deno gleam dub nimble forge hardhat anchor moon | test testOnly
build | sbt mill lein cabal stack zig dart flutter gleam dub nimble forge moon | build compile build-exe build-lib
lint  | deno dart flutter | lint analyze
types | deno gleam | check
build | tsup rollup webpack esbuild parcel rspack tsdown ncc microbundle | *
build | vite next nuxt astro gatsby remix expo svelte-kit | build
types | tsc vue-tsc tsgo mypy dmypy pyright basedpyright pyre ty pytype flow svelte-check srb steep phpstan psalm | *
lint  | ruff | check
lint  | flake8 pylint pycodestyle pydocstyle bandit vulture codespell eslint oxlint stylelint standard xo tslint | *
lint  | biome buf | check lint ci
lint  | rubocop standardrb phpcs hadolint shellcheck yamllint markdownlint markdownlint-cli2 actionlint cppcheck | *
lint  | ansible-lint clang-tidy sqlfluff djlint semgrep swiftlint ktlint detekt | *
lint  | pre-commit lefthook | run
lint  | terraform tofu helm | validate lint
build | cmake | --build
build | ninja scons msbuild gcc g++ clang clang++ cc c++ rustc javac kotlinc ghc latexmk sphinx-build build | *
build | meson | compile
test  | meson | test
build | docker podman buildah | build buildx
build | hugo mkdocs jekyll | build
"""
"""Kind, programs, and the first words that make it one (`*`: any, `-`: none at all)."""
_NO_RUN = _word_set(
    """--watch --watchAll --help -h --version -V --list --collect-only --co --listTests --list-tests --init --showConfig
    --dry-run -N"""
)
_FORMATTERS = _word_set(
    "prettier black isort rustfmt gofmt shfmt yapf autopep8 clang-format dprint"
)
_FORMATS = _word_set("cargo ruff mix dart dotnet deno terraform tofu")
_ASKS = (
    "--check",
    "-check",
    "--list-different",
    "-l",
    "--diff",
    "--verify-no-changes",
    "--set-exit-if-changed",
    "-c",
)
"""With these a formatter only reports what it would change."""
_PROGRAMS: dict[str, list[tuple[CommandCheck, frozenset[str]]]] = {}
for _row in _TABLE.strip().splitlines():
    _kind, _names, _verbs = _row.split("|")
    for _name in _names.split():
        _PROGRAMS.setdefault(_name, []).append((CommandCheck(_kind.strip()), _word_set(_verbs)))

_SCRIPT_RUNNERS = _word_set("npm yarn pnpm bun turbo lerna deno composer mise nx rush")
"""Where only the first word is a script's name; the others are its arguments."""
_TARGET_RUNNERS = _word_set(
    "make gmake just task rake invoke inv gradle gradlew mvn mvnw ant grunt gulp doit poe earthly lake waf hatch"
)
_BUILD_BY_DEFAULT = _word_set("make gmake ant mvn mvnw ninja")
_VERBS = _word_set("run run-script run-many workspaces foreach task recursive affected")
_TARGETS = {
    CommandCheck.TYPES: "type-?check|check-?types|types|tsc|mypy|pyright",
    CommandCheck.LINT: r"lint|eslint|stylelint|ruff|clippy|detekt|checkstyle\w*|ktlint\w*"
    r"|(?:format|fmt|spotless|prettier)[:\-_]?check|check[:\-_]?(?:format|fmt|style)",
    CommandCheck.TEST: "tests?|specs?|check|verify|validate|e2e|unit|integration|smoke|jest|vitest|pytest|test[A-Z].*",
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
    """Return the last check of a line, and whether the exit code is its own."""
    check = None
    alone = False
    line = parts(command)
    operators = [after for _, after in line]
    for number, (words, _) in enumerate(line):
        for program, *arguments in _find_programs(words):
            if (kind := _check_kind(program, arguments)) is not None:
                check = kind
                alone = all(after == "&&" for after in operators[number:-1]) and operators[-1] in (
                    "",
                    ";",
                )
    return check, alone


def _check_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    if not _NO_RUN.isdisjoint(arguments):
        return None
    words = tuple(word for word in arguments if not word.startswith("+"))  # `cargo +nightly test`
    first = _skip_options(words, _SCRIPT_VALUES)[:1]
    if program in _FORMATTERS or (program in _FORMATS and first and first[0] in ("fmt", "format")):
        return CommandCheck.LINT if any(word.startswith(_ASKS) for word in arguments) else None
    for kind, verbs in _PROGRAMS.get(program, ()):
        if (
            "*" in verbs
            or ("-" in verbs and not first)
            or not verbs.isdisjoint((*first, *arguments[:1]))
        ):
            return kind
    return (
        _target_kind(program, arguments) if program in _SCRIPT_RUNNERS | _TARGET_RUNNERS else None
    )


def _target_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    valued = _SCRIPT_VALUES | {"workspace"} | ({"-w"} if program == "npm" else set())
    words: list[str] = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "--":
            break
        if word.startswith(("--target=", "--targets=")):
            words.append(word.partition("=")[2])
        elif not (
            word.startswith("-")
            or word == "workspace"
            or before in valued
            or _ASSIGNMENT.fullmatch(word)
        ):
            words.append(word)
    if program == "npm" and words[:1] not in (["run"], ["run-script"]):
        return (
            CommandCheck.TEST if words[:1] in (["test"], ["t"], ["tst"]) else None
        )  # `npm ci` is no script
    if program in _SCRIPT_RUNNERS:
        words = [word for word in words if word not in _VERBS][:1]
        if program in ("yarn", "pnpm", "bun", "nx") and words and words[0] in _PROGRAMS:
            return _check_kind(words[0], arguments[arguments.index(words[0]) + 1 :])
    if not words:
        return CommandCheck.BUILD if program in _BUILD_BY_DEFAULT else None
    for word in words:
        # Only gradle and nx put the project in front of the target: `:app:test`, `app:test`.
        name = word.rpartition(":")[2] if program in ("gradle", "gradlew", "nx") else word
        kinds = (
            kind
            for kind, pattern in _TARGET_REGEXES
            if pattern.fullmatch(name) and not _NO_CHECK.fullmatch(name)
        )
        if kind := next(kinds, _SHORT_TARGETS.get(name)):
            return kind
    return None
