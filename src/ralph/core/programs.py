"""List the programs that developers run: checks, and programs that only look at things.

`capture/commands.py` decides with the table of checks what a command line checks, and
`recall/command_lines.py` which programs have no subcommands. Hooks load this module.
"""

from __future__ import annotations

CHECK_TABLE = """
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
"""Each row has a kind, programs, and the first arguments that make the call a check.

`*` stands for any arguments, and `-` for none. The first matching row of a program decides.
"""
READING_PROGRAMS = frozenset(
    {
        "ag",
        "awk",
        "cat",
        "cd",
        "code",
        "curl",
        "date",
        "df",
        "diff",
        "dig",
        "du",
        "echo",
        "env",
        "fd",
        "find",
        "gh",
        "git",
        "grep",
        "head",
        "history",
        "jq",
        "kill",
        "less",
        "ls",
        "lsof",
        "man",
        "nc",
        "netstat",
        "open",
        "ping",
        "pkill",
        "printenv",
        "printf",
        "ps",
        "pwd",
        "read",
        "rg",
        "sed",
        "sleep",
        "sort",
        "ss",
        "stat",
        "tail",
        "test",
        "tree",
        "true",
        "type",
        "vim",
        "wc",
        "which",
    }
)
"""Programs that look at things. They neither fail for a reason worth knowing nor fix a failure."""
OUTPUT_OPTIONS = frozenset(
    {
        "--",
        "--no-color",
        "--quiet",
        "--silent",
        "--tb=long",
        "--tb=short",
        "--verbose",
        "-q",
        "-s",
        "-v",
        "-vv",
        "-x",
    }
)
"""Options that change only what a program prints."""


def single_purpose_programs() -> frozenset[str]:
    """Return the checks that do one thing. What follows is their argument, not a subcommand."""
    programs: list[str] = []
    for row in CHECK_TABLE.strip().splitlines():
        _, names, verbs = row.split("|")
        if verbs.strip() == "*" or "-" in verbs.split():
            programs += names.split()
    return frozenset(programs)
