r"""What a command line checks: tests, a build, a linter, types, or nothing.

The line is read as a shell would cut it: what is quoted or in a here-document is no command. Each part is
freed of what only starts it (`A=b`, `timeout 60`, `uv run`, `npx`, `python -m`, `bash -c`), and the program
with its first words is looked up in one table; for `npm run`, `make` and their like the name of the target
decides. This is a guess by design and errs on the side of no: an unknown command is only a tool's use.
`tests/capture/test_classify.py` holds the corpus of commands.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class CommandCheck(StrEnum):
    """What a command makes sure of."""

    TEST = "test"
    BUILD = "build"
    LINT = "lint"
    TYPES = "types"


Words = tuple[str, ...]

# --- the command line ---------------------------------------------------------------------------

_LONGEST = 8_000
"""How much of a command is read: a longer one carries a file in it."""
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


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command of a line, and the sign after it."""

    words: Words
    after: str


def parts(command: str) -> list[Part]:
    """The simple commands of a line."""
    found: list[Part] = []
    words: list[str] = []
    skip = False
    for token in _TOKEN.finditer(_HEREDOC.sub(r"\3", command[:_LONGEST])):
        if token["word"]:
            if not skip:
                words.append(_QUOTES.sub(lambda quoted: quoted[1] or quoted[2] or quoted[3] or "", token["word"]))
            skip = False
        elif token["redirect"]:
            skip = not token["redirect"][-1].isdigit()
        elif token["operator"] or token["background"]:
            if words:
                found.append(Part(tuple(words), token[0].strip() or ";"))
            words, skip = [], False
    return [*found, Part(tuple(words), "")] if words else found


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STARTERS = _word_set(
    """if then else elif do while until ! { time exec command builtin nohup sudo doas nice ionice stdbuf unbuffer
    setsid xvfb-run timeout gtimeout env dotenv chronic caffeinate"""
)
_STARTER_VALUES = _word_set(
    """-n -u -k -s -p -C --signal --kill-after --project --directory --package --python --with --extra --group
    --only-group --env-file --name"""
)
_SCRIPT_VALUES = _word_set("-C -f -F --prefix --cwd --workspace --filter --file --dir --project -pl -t")
"""Options that take the next word with them."""
_RUNNERS: Mapping[str, Words] = {
    **dict.fromkeys("uv poetry pipenv pdm hatch rye pixi conda micromamba pipx coverage".split(), ("run",)),
    **dict.fromkeys("npm mise asdf bundle pnpm yarn".split(), ("exec", "x", "dlx")),
    **dict.fromkeys("npx bunx uvx".split(), ("",)),
    "bun": ("x",),
}
"""Programs that run another one, after one of these words."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SHELLS = _word_set("bash sh zsh dash ksh")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")


def _program(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")


def _past_options(words: Words, valued: Collection[str]) -> Words:
    """The words from the first that is no option and no option's value."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in valued else 1
    return words[at:]


def programs(command: str) -> Iterator[Words]:
    """Every program that a line runs, with its arguments, freed of what only starts it."""
    for part in parts(command):
        yield from _started(part.words)


def _started(words: Words, depth: int = 0) -> Iterator[Words]:
    words = _without_starters(words)
    if not words or depth > _DEEPEST:
        return
    program, rest = _program(words[0]), words[1:]
    if program in _SHELLS:
        script = next((at + 1 for at, word in enumerate(rest) if _SCRIPT_OPTION.fullmatch(word)), len(rest))
        for part in parts(rest[script]) if script < len(rest) else []:
            yield from _started(part.words, depth + 1)
    elif _PYTHON.fullmatch(program):
        if "-m" in rest:
            yield from _started(rest[rest.index("-m") + 1 :], depth + 1)
        elif rest:
            yield (_program(rest[0]), *rest[1:])
    elif inner := _run_by(program, rest):
        yield from _started(inner, depth + 1)
    else:
        yield (program, *rest)


def _without_starters(words: Words) -> Words:
    while words and (words[0] in _STARTERS or _ASSIGNMENT.fullmatch(words[0])):
        starts = words[0] in _STARTERS
        words = _past_options(words[1:], _STARTER_VALUES) if starts else words[1:]
        if starts and words and _DURATION.fullmatch(words[0]):
            words = words[1:]
    return words


def _run_by(program: str, rest: Words) -> Words:
    """The command that `uv run` and the like start, or nothing."""
    verbs = _RUNNERS.get(program, ())
    left = _past_options(rest, _STARTER_VALUES)
    if "" in verbs:
        return left
    return _past_options(left[1:], _STARTER_VALUES) if left and left[0] in verbs else ()


# --- which commands are checks ------------------------------------------------------------------

_ANY, _NONE = "*", "-"
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
_FORMATTERS = _word_set("prettier black isort rustfmt gofmt shfmt yapf autopep8 clang-format dprint")
_FORMATS = _word_set("cargo ruff mix dart dotnet deno terraform tofu")
_ASKS = ("--check", "-check", "--list-different", "-l", "--diff", "--verify-no-changes", "--set-exit-if-changed", "-c")
"""With these a formatter only says what it would change."""


def _rows() -> Mapping[str, tuple[tuple[CommandCheck, frozenset[str]], ...]]:
    rows: dict[str, tuple[tuple[CommandCheck, frozenset[str]], ...]] = {}
    for row in _TABLE.strip().splitlines():
        kind, names, verbs = (cell.strip() for cell in row.split("|"))
        for name in names.split():
            rows[name] = (*rows.get(name, ()), (CommandCheck(kind), _word_set(verbs)))
    return rows


_PROGRAMS = _rows()


def kind_of(program: str, arguments: Words) -> CommandCheck | None:
    """The check that a program with these arguments is, if it is one."""
    if not _NO_RUN.isdisjoint(arguments):
        return None
    said = tuple(word for word in arguments if not word.startswith("+"))  # `cargo +nightly test`
    first = _past_options(said, _SCRIPT_VALUES)[:1]
    if program in _FORMATTERS or (program in _FORMATS and first and first[0] in ("fmt", "format")):
        return CommandCheck.LINT if any(word.startswith(_ASKS) for word in arguments) else None
    for kind, verbs in _PROGRAMS.get(program, ()):
        if _ANY in verbs or (_NONE in verbs and not first) or not verbs.isdisjoint((*first, *arguments[:1])):
            return kind
    return _by_target(program, arguments) if program in _TARGETED else None


# --- targets of npm, make and their like --------------------------------------------------------

_PACKAGED = _word_set("npm yarn pnpm bun turbo lerna deno composer mise nx rush")
"""Where only the first word is the script's name; the others are its arguments."""
_TARGETED = _PACKAGED | _word_set(
    "make gmake just task rake invoke inv gradle gradlew mvn mvnw ant grunt gulp doit poe earthly lake waf hatch"
)
_BY_DEFAULT = _word_set("make gmake ant mvn mvnw ninja")
"""Programs that build when they are given no target."""
_VERBS = _word_set("run run-script run-many workspaces foreach task recursive affected")
_ENDS = r"(?:[:\-_./]\S*)?"
_TARGETS = tuple(
    (kind, re.compile(f"(?:{names}){_ENDS}|\\S*[:\\-_](?:{last})"))
    for kind, names, last in (
        (CommandCheck.TYPES, "type-?check|check-?types|types|tsc|mypy|pyright", "type-?check|types"),
        (
            CommandCheck.LINT,
            r"lint|eslint|stylelint|ruff|clippy|detekt|checkstyle\w*|ktlint\w*|(?:format|fmt|spotless|prettier)[:\-_]?check"
            r"|check[:\-_]?(?:format|fmt|style)",
            "lint|check-format",
        ),
        (
            CommandCheck.TEST,
            r"tests?|t|specs?|check|ci|verify|validate|e2e|unit|integration|smoke|jest|vitest|pytest|test[A-Z]\w*",
            "tests?|check|e2e",
        ),
        (CommandCheck.BUILD, r"build|compile\w*|bundle|all|package|assemble\w*|dist", "build|compile"),
    )
)
_NO_CHECK = re.compile(r"(?i)\S*(?:watch|\bdev\b|serve|clean|update|[:\-_](?:fix|ui|open|init)\b)\S*")


def _by_target(program: str, arguments: Words) -> CommandCheck | None:
    """What the target of `npm run`, `make`, `gradle` and their like is called."""
    words = list(_targets(program, arguments))
    if program == "npm" and words[:1] not in (["run"], ["run-script"]):
        return CommandCheck.TEST if words[:1] in (["test"], ["t"], ["tst"]) else None  # `npm ci` is no script
    if program in _PACKAGED:
        words = [word for word in words if word not in _VERBS][:1]
        if program in ("yarn", "pnpm", "bun", "nx") and words and words[0] in _PROGRAMS:
            return kind_of(words[0], arguments[arguments.index(words[0]) + 1 :])
    if not words:
        return CommandCheck.BUILD if program in _BY_DEFAULT else None
    for word in words:
        # Only gradle and nx put the project in front of the target: `:app:test`, `app:test`.
        name = word.rpartition(":")[2] if program in ("gradle", "gradlew", "nx") else word
        for kind, pattern in _TARGETS:
            if pattern.fullmatch(name) and not _NO_CHECK.fullmatch(name):
                return kind
    return None


def _targets(program: str, arguments: Words) -> Iterator[str]:
    """The words that are no options, no options' values and no assignments, up to `--`."""
    valued = _SCRIPT_VALUES | {"workspace"} | ({"-w"} if program == "npm" else set())
    before = ""
    for word in arguments:
        if word == "--":
            return
        if word.startswith(("--target=", "--targets=")):
            yield word.partition("=")[2]
        elif not (word.startswith("-") or word == "workspace" or before in valued or _ASSIGNMENT.fullmatch(word)):
            yield word
        before = word


@dataclass(frozen=True, slots=True)
class Checking:
    """A check in a command line; `last` when the line's exit code is the check's own."""

    kind: CommandCheck
    last: bool


def check_of(command: str) -> Checking | None:
    """The check that a command line runs: the last one, as it is what the output ends with."""
    found: Checking | None = None
    line = parts(command)
    for number, part in enumerate(line):
        for program, *arguments in _started(part.words):
            kind = kind_of(program, tuple(arguments))
            if kind is not None:
                alone = all(here.after == "&&" for here in line[number:-1]) and line[-1].after in ("", ";")
                found = Checking(kind, alone)
    return found
