"""Detect which commands test, build, lint and type-check a project, from its files alone.

The first command for a kind counts: a language's own files, then targets of make and just, then guesses from a folder
of tests. A command never fetches anything: package managers stay offline, and a script or target that installs, watches
or rewrites is skipped.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, islice
from pathlib import Path

from ralph.loop.criteria import Criterion
from ralph.model.record import CriterionKind

TEST, BUILD, LINT, TYPES = list(CriterionKind)[:4]
_Detected = Iterator[tuple[CriterionKind, str, str]]  # kind, command, and why
_LARGEST_FILE = 1_000_000
_MOST_MATCHES = 2_000

# Kind, tool, command, and the evidence: the first file that exists, or `file ~ regex` that matches. `{x}` in a command
# is filled in by `_fillings`.
_PYTEST = r"^[^#\n]*\bpytest\b"
_PYTHON = (
    (
        *(TEST, "pytest", "{pytest}", r"pyproject.toml ~ ^\[tool\.pytest[.\]]", "pytest.ini", ".pytest.ini"),
        *("pytest.toml", r"setup.cfg ~ ^\[(?:tool:)?pytest\]", r"tox.ini ~ ^\[(?:tool:)?pytest\]", "conftest.py"),
        *("tests/conftest.py", "test/conftest.py", f"pyproject.toml ~ {_PYTEST}", f"setup.cfg ~ {_PYTEST}"),
        *(f"setup.py ~ {_PYTEST}", f"requirements*.txt ~ {_PYTEST}", f"requirements/*.txt ~ {_PYTEST}"),
        f"Pipfile ~ {_PYTEST}",
    ),
    (LINT, "ruff", "{ruff} check .", r"pyproject.toml ~ ^\[tool\.ruff[.\]]", "ruff.toml", ".ruff.toml"),
    (LINT, "flake8", "{flake8}", ".flake8", r"setup.cfg ~ ^\[flake8\]", r"tox.ini ~ ^\[flake8\]"),
    (
        *(TYPES, "mypy", "{mypy}{mypy_target}", r"pyproject.toml ~ ^\[tool\.mypy\]", "mypy.ini", ".mypy.ini"),
        r"setup.cfg ~ ^\[mypy\]",
    ),
    (TYPES, "pyright", "{pyright}", r"pyproject.toml ~ ^\[tool\.pyright\]", "pyrightconfig.json"),
    (TYPES, "basedpyright", "{basedpyright}", r"pyproject.toml ~ ^\[tool\.basedpyright\]"),
)
_NODE = (  # counts when the tool is installed
    (TEST, "vitest", "{bin}vitest run", r'package.json ~ "vitest"\s*:', "vitest.config.*"),
    (TEST, "jest", "{bin}jest", r'package.json ~ "jest"\s*:', "jest.config.*"),
    (LINT, "eslint", "{bin}eslint .", "eslint.config.*", ".eslintrc", ".eslintrc.*", r'package.json ~ "eslintConfig"'),
    (LINT, "@biomejs/biome", "{bin}biome check .", "biome.json", "biome.jsonc"),
    (TYPES, "typescript", "{bin}tsc --build --noEmit", r'tsconfig.json ~ "references"\s*:'),
    (TYPES, "typescript", "{bin}tsc --noEmit", "tsconfig.json"),
)
_GO, _GO_FILES = "env GOPROXY=off go", ("go.mod", "go.work")
_DOTNET = ("*.sln", "*.slnx", "*.csproj", "*.fsproj")
_GRADLE = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
_OTHERS = (
    (TEST, "a test of deno", "deno test --cached-only", "*_test.ts", "*/*_test.ts", "*.test.ts", "*/*.test.ts"),
    (LINT, "deno", "deno lint", "deno.json", "deno.jsonc"),
    (TYPES, "deno", "deno check --cached-only .", "deno.json", "deno.jsonc"),
    (TEST, "cargo", "cargo test --offline{workspace}", "Cargo.toml"),
    (BUILD, "cargo", "cargo build --offline{workspace}", "Cargo.toml"),
    (TYPES, "cargo", "cargo check --all-targets --offline{workspace}", "Cargo.toml"),
    (LINT, "clippy", "cargo clippy --offline{workspace} --all-targets -- -D warnings", "Cargo.toml"),
    (LINT, "golangci-lint", "golangci-lint run", ".golangci.y*ml", ".golangci.toml", ".golangci.json"),
    (TEST, "go", f"{_GO} test ./...", *_GO_FILES),
    (BUILD, "go", f"{_GO} build -o /dev/null ./...", *_GO_FILES),
    (LINT, "go", f"{_GO} vet ./...", *_GO_FILES),
    (TYPES, "go", f"{_GO} vet ./...", *_GO_FILES),
    (TEST, "dotnet", "dotnet test --no-restore", *_DOTNET),
    (BUILD, "dotnet", "dotnet build --no-restore", *_DOTNET),
    (TEST, "mix", "mix test", "mix.exs"),
    (BUILD, "mix", "mix compile", "mix.exs"),
    (LINT, "credo", "mix credo", ".credo.exs"),
    (TEST, "phpunit", "vendor/bin/phpunit", "phpunit.xml", "phpunit.xml.dist"),
    (TYPES, "phpstan", "vendor/bin/phpstan analyse", "phpstan.neon", "phpstan.neon.dist"),
    (TEST, "gradle", "{gradle} --offline test", *_GRADLE),
    (BUILD, "gradle", "{gradle} --offline assemble", *_GRADLE),
    (TEST, "maven", "{mvn} --offline test", "pom.xml"),
    (BUILD, "maven", "{mvn} --offline package -DskipTests", "pom.xml"),
    (TEST, "rspec", "{bundle}rspec", ".rspec", "spec/spec_helper.rb", r"Gemfile ~ ^[^#\n]*\brspec"),
    (TEST, "Rails", "bin/rails test", r"test/test_helper.rb ~ \brails\b"),
    (TEST, "rake", "{bundle}rake test", r"Rakefile ~ ^[^#\n]*TestTask"),
    (LINT, "rubocop", "{bundle}rubocop", ".rubocop.yml"),
)
_MYPY_TARGET = r"(?:(?!^\[)[\s\S])*?^(?:files|packages|modules)\s*="


class _Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = cache(self._text)

    def _text(self, name: str) -> str:
        path = self.folder / name
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
                return ""
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def find(self, *evidence: str) -> str:
        """The first evidence as `file` or `file:line`; a regex means its group, if it has one."""
        for each in evidence:
            pattern, _, regex = each.partition(" ~ ")
            for path in sorted(islice(self.folder.glob(pattern), _MOST_MATCHES)):
                name = path.relative_to(self.folder).as_posix()
                text = self.text(name) if regex else ""
                match = re.search(regex, text, re.MULTILINE)
                if match is not None:
                    return f"{name}:{text.count(chr(10), 0, match.start(match.lastindex or 0)) + 1}" if regex else name
        return ""

    def members(self, name: str, *keys: str) -> Mapping[str, object]:
        try:
            value = json.loads(self.text(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}


def detect_commands(folder: Path) -> Mapping[CriterionKind, Criterion]:
    """Return a criterion for each kind whose command is found."""
    project = _Project(folder)
    commands: dict[CriterionKind, Criterion] = {}
    for kind, command, why in chain(_from_tables(project), _make_and_just(project), _python_tests(project)):
        commands.setdefault(kind, Criterion(kind, argv=tuple(command.split()), why=why))
    return {kind: commands[kind] for kind in (TEST, BUILD, LINT, TYPES) if kind in commands}


def _from_tables(project: _Project) -> _Detected:
    dependencies = {
        name for kind in ("devDependencies", "dependencies") for name in project.members("package.json", kind)
    }
    programs = {row: row[2].removeprefix("{bin}").split()[0] for row in _NODE}
    node = [row for row in _NODE if row[1] in dependencies or project.find(f"node_modules/.bin/{programs[row]}")]
    others = _OTHERS if project.find("deno.json", "deno.jsonc") else _OTHERS[1:]
    yield from _match_rows(project, _PYTHON)
    yield from _scripts(project)
    yield from _match_rows(project, (*node, *others))


def _match_rows(project: _Project, rows: Iterable[tuple[CriterionKind | str, ...]]) -> _Detected:
    fillings = _fillings(project)
    for kind, tool, command, *evidence in rows:
        if why := project.find(*evidence):
            yield CriterionKind(kind), command.format_map(fillings), f"{why}: {tool}"


def _fillings(project: _Project) -> dict[str, str]:
    has_target = project.find(
        rf"pyproject.toml ~ ^\[tool\.mypy\]{_MYPY_TARGET}", f"mypy.ini ~ {_MYPY_TARGET}", f".mypy.ini ~ {_MYPY_TARGET}"
    )
    tools = ("pytest", "ruff", "flake8", "mypy", "pyright", "basedpyright")
    return {name: _python_tool(project, name) for name in tools} | {
        "mypy_target": "" if has_target else " .",
        "bin": "yarn run " if project.find(".pnp.cjs") else "node_modules/.bin/",
        "workspace": " --workspace" if project.find(r"Cargo.toml ~ ^\[workspace") else "",
        "gradle": "./gradlew" if project.find("gradlew") else "gradle",
        "mvn": "./mvnw" if project.find("mvnw") else "mvn",
        "bundle": "bundle exec " if project.find("Gemfile") else "",
    }


_LOCKS = {
    "uv.lock": "uv run --offline",
    "poetry.lock": "poetry run",
    "pdm.lock": "pdm run",
    "Pipfile.lock": "pipenv run",
}


def _python_tool(project: _Project, name: str) -> str:
    if program := project.find(f".venv/bin/{name}", f"venv/bin/{name}"):
        return program
    python = project.find(".venv/bin/python", "venv/bin/python")
    if python and name != "pyright":
        return f"{python} -m {name}"
    runner = next((runner for lock, runner in _LOCKS.items() if project.find(lock)), "")
    if name == "unittest":
        return f"{runner} python -m unittest" if runner else "python3 -m unittest"
    if runner:
        return f"{runner} {name}"
    return name if name in ("ruff", "pyright", "basedpyright") else f"python3 -m {name}"


def _python_tests(project: _Project) -> _Detected:
    for folder in ("tests", "test", "."):
        at = "" if folder == "." else f"{folder}/**/"
        if test := project.find(f"{at}test_*.py", *([f"{at}*_test.py"] if at else [])):
            command = _python_tool(project, "pytest")
            of_unittest = re.search(r"^\s*(?:import|from) unittest\b", project.text(test), re.MULTILINE)
            if of_unittest and not command.endswith("/bin/pytest"):
                top = " -t ." if project.find(f"{folder}/__init__.py") else ""  # only a package can be imported
                command = f"{_python_tool(project, 'unittest')} discover -s {folder}{top}"
            yield TEST, command, f"{test}: a test{' of unittest' if of_unittest else ''}"


_MANAGERS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_SCRIPTS = {
    TEST: "test test:ci test:unit unit",
    BUILD: "build compile",
    LINT: "lint lint:check lint:ci eslint",
    TYPES: "typecheck type-check check-types check:types types:check types tsc check",
}


def _scripts(project: _Project) -> _Detected:
    manager = str(project.members("package.json").get("packageManager", "")).partition("@")[0]
    if manager not in _MANAGERS.values():
        manager = next((name for lock, name in _MANAGERS.items() if project.find(lock)), "npm")
    for file, member, start in (
        ("package.json", "scripts", f"{manager} run"),
        ("deno.json", "tasks", "deno task"),
        ("deno.jsonc", "tasks", "deno task"),
    ):
        scripts = project.members(file, member)
        for kind, name in ((kind, name) for kind, names in _SCRIPTS.items() for name in names.split()):
            lines = [str(scripts.get(script, "")) for script in (name, f"pre{name}", f"post{name}")]
            if lines[0].strip() and "no test specified" not in lines[0] and not any(map(_is_unsuitable, lines)):
                command = "npm test" if f"{start} {name}" == "npm run test" else f"{start} {name}"
                why = project.find(rf'{file} ~ "{member}"\s*:[\s\S]*?("{re.escape(name)}")\s*:')
                yield kind, command, f'{why}: the {member[:-1]} "{name}"'


_UNSUITABLE = re.compile(
    r"(?<!no-)(?<!--)\binstall\b|\bnpm ci\b|\b(?:uv|pipenv|pdm) sync\b|\bpip download\b|\bcurl\b|\bwget\b"
    r"|\b(?:apt|apt-get|brew|apk|dnf)\s|\bgo get\b|\bgit (?:clone|pull|fetch|submodule)\b"
    r"|\bdocker(?:-compose| pull| build| compose)\b|\b(?:deps\.get|mod download|cargo add|npm i|pnpm i)\b"
    r"|\b(?:yarn|pnpm) add\b|\bnpm update\b|\byarn\s*(?:$|&&|;)|\bdlx\b|\bnpx (?!--no)|\bbunx\b|\buvx\b|\bpipx run\b"
    r"|--watch(?!\w|=false)|--watchAll(?!=false)|--fix\b|--write\b|--fix-only\b",
    re.MULTILINE,
)


def _is_unsuitable(command: str) -> bool:
    return _UNSUITABLE.search(command) is not None


_TARGETS = {TEST: "test tests unit-test unittest", BUILD: "build compile", LINT: "lint", TYPES: "typecheck types mypy"}
_TARGET = r"^@?(?:[\w.-]+[ \t]+)*({})(?:[ \t]+{})*[ \t]*:(?!=|:=)[^\n]*(?:\n(?:[ \t][^\n]*)?)*"
"""A target of make, maybe in a list, or one of just, whose parameters have defaults; with its recipe."""


def _make_and_just(project: _Project) -> _Detected:
    for program, more, names in (
        ("make", r"[\w.-]+", ("GNUmakefile", "makefile", "Makefile")),
        ("just", r"\*?[\w-]+='[^'\n]*'", ("justfile", "Justfile", ".justfile")),
    ):
        file = project.find(*names)
        text = project.text(file) if file else ""
        rules = {
            target: match
            for targets in (*_TARGETS.values(), "check")
            for target in targets.split()
            if (match := re.search(_TARGET.format(target, more), text, re.MULTILINE))
        }
        tested = any(name in rules for name in _TARGETS[TEST].split())
        # `check` is the tests if nothing else is, else the linter
        for kind, targets in (*_TARGETS.items(), (LINT if tested else TEST, "check")):
            for target in targets.split():
                if target in rules and not _is_unsuitable(rules[target][0]):
                    line = text.count("\n", 0, rules[target].start(1)) + 1
                    yield kind, f"{program} {target}", f'{file}:{line}: the target "{target}"'
