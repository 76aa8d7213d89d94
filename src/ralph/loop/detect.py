"""Detect the commands that test, build, lint and type-check a project, just by reading its files.

For each kind, the first command found wins. Language-specific files are searched first, then make
targets, then folders with tests. Python, Node, Rust and Go are supported. Other projects can name
their commands in a Makefile or in a criterion. Detected commands never download anything: package
managers stay offline, and scripts or targets that install, watch or rewrite files are skipped.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ralph.core.record import CriterionKind
from ralph.loop.criteria import Criterion

TEST = CriterionKind.TEST_PASS
BUILD = CriterionKind.BUILD_SUCCESS
LINT = CriterionKind.LINT_CLEAN
TYPES = CriterionKind.TYPE_CHECK
_MAX_FILE_BYTES = 1_000_000  # a larger file is treated as empty
_MAX_GLOB_MATCHES = 2_000


class _Evidence(NamedTuple):
    """Evidence that a tool is used: a file that exists, or whose text matches `regex`."""

    file: str  # a glob pattern
    regex: str = ""


class _Tool(NamedTuple):
    """A tool and its command, which is used if any of the evidence is found."""

    kind: CriterionKind
    name: str
    command: str
    evidence: tuple[_Evidence, ...]


class _Detected(NamedTuple):
    """A command, and where it was found."""

    kind: CriterionKind
    command: str
    why: str


# --- tables --------------------------------------------------------------------------------------

_MENTIONS_PYTEST = r"^[^#\n]*\bpytest\b"
_PYTHON_TOOLS = (  # `_python_placeholders` fills in the placeholders
    _Tool(
        TEST,
        "pytest",
        "{pytest}",
        (
            _Evidence("pyproject.toml", r"^\[tool\.pytest[.\]]"),
            _Evidence("pytest.ini"),
            _Evidence("conftest.py"),
            _Evidence("tests/conftest.py"),
            _Evidence("setup.cfg", r"^\[(?:tool:)?pytest\]"),
            _Evidence("tox.ini", r"^\[(?:tool:)?pytest\]"),
            _Evidence("pyproject.toml", _MENTIONS_PYTEST),
            _Evidence("setup.cfg", _MENTIONS_PYTEST),
            _Evidence("requirements*.txt", _MENTIONS_PYTEST),
        ),
    ),
    _Tool(
        LINT,
        "ruff",
        "{ruff} check .",
        (
            _Evidence("pyproject.toml", r"^\[tool\.ruff[.\]]"),
            _Evidence("ruff.toml"),
            _Evidence(".ruff.toml"),
        ),
    ),
    _Tool(
        TYPES,
        "mypy",
        "{mypy}{mypy_target}",
        (
            _Evidence("pyproject.toml", r"^\[tool\.mypy\]"),
            _Evidence("mypy.ini"),
            _Evidence("setup.cfg", r"^\[mypy\]"),
        ),
    ),
    _Tool(
        TYPES,
        "pyright",
        "pyright",
        (
            _Evidence("pyproject.toml", r"^\[tool\.pyright\]"),
            _Evidence("pyrightconfig.json"),
        ),
    ),
)
_NODE_TOOLS = (  # used only if the tool is installed
    _Tool(
        TEST,
        "vitest",
        "vitest run",
        (_Evidence("package.json", r'"vitest"\s*:'), _Evidence("vitest.config.*")),
    ),
    _Tool(
        TEST,
        "jest",
        "jest",
        (_Evidence("package.json", r'"jest"\s*:'), _Evidence("jest.config.*")),
    ),
    _Tool(
        LINT,
        "eslint",
        "eslint .",
        (
            _Evidence("eslint.config.*"),
            _Evidence(".eslintrc"),
            _Evidence(".eslintrc.*"),
            _Evidence("package.json", '"eslintConfig"'),
        ),
    ),
    _Tool(
        TYPES,
        "typescript",
        "tsc --build --noEmit",
        (_Evidence("tsconfig.json", r'"references"\s*:'),),
    ),
    _Tool(TYPES, "typescript", "tsc --noEmit", (_Evidence("tsconfig.json"),)),
)
_CARGO_FILES = (_Evidence("Cargo.toml"),)
_RUST_TOOLS = (
    _Tool(TEST, "cargo", "cargo test --offline --workspace", _CARGO_FILES),
    _Tool(BUILD, "cargo", "cargo build --offline --workspace", _CARGO_FILES),
    _Tool(TYPES, "cargo", "cargo check --all-targets --offline --workspace", _CARGO_FILES),
    _Tool(
        LINT,
        "clippy",
        "cargo clippy --offline --workspace --all-targets -- -D warnings",
        _CARGO_FILES,
    ),
)
_GO = "env GOPROXY=off go"
_WINDOWS_GO = "cmd.exe /d /c set GOPROXY=off&& go"
_GO_FILES = (_Evidence("go.mod"), _Evidence("go.work"))
_GO_TOOLS = (
    _Tool(LINT, "golangci-lint", "golangci-lint run", (_Evidence(".golangci.y*ml"),)),
    _Tool(TEST, "go", f"{_GO} test ./...", _GO_FILES),
    _Tool(BUILD, "go", f"{_GO} build -o /dev/null ./...", _GO_FILES),
    _Tool(LINT, "go", f"{_GO} vet ./...", _GO_FILES),
    _Tool(TYPES, "go", f"{_GO} vet ./...", _GO_FILES),
)
_WINDOWS_GO_TOOLS = tuple(
    tool._replace(command=tool.command.replace(_GO, _WINDOWS_GO).replace("/dev/null", "NUL"))
    for tool in _GO_TOOLS
)
_PACKAGE_MANAGERS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "package-lock.json": "npm",
}
_SCRIPTS = {
    TEST: ("test", "test:ci", "test:unit"),
    BUILD: ("build", "compile"),
    LINT: ("lint", "lint:check", "lint:ci"),
    TYPES: ("typecheck", "type-check", "check-types", "types", "tsc"),
}
_TARGETS = {
    TEST: ("test", "tests"),
    BUILD: ("build", "compile"),
    LINT: ("lint",),
    TYPES: ("typecheck", "types", "mypy"),
}
_CHECK_TARGET = "check"
_RULE = (
    r"^(?:[\w.-]+[ \t]+)*({})(?:[ \t]+[\w.-]+)*[ \t]*"  # the target, possibly in a list
    r":(?!=|:=)[^\n]*"  # the colon and the prerequisites, but not `:=` or `::=`
    r"(?:\n(?:[ \t][^\n]*)?)*"  # the recipe: indented or blank lines
)
"""Matches a make target with its recipe, as in `test check: build` followed by indented lines."""
_UNSUITABLE = re.compile(
    # Package managers that install: `pip install`, but not `--install` or `no-install`.
    r"(?<!no-)(?<!--)\binstall\b|\bnpm ci\b|\b(?:uv|pipenv|pdm) sync\b|\bpip download\b"
    r"|\b(?:apt|apt-get|brew|apk|dnf)\s|\bgo get\b"
    r"|\b(?:deps\.get|mod download|cargo add|npm i|pnpm i)\b"
    r"|\b(?:yarn|pnpm) add\b|\bnpm update\b"
    r"|\byarn\s*(?:$|&&|;)"  # yarn without a command installs
    # Programs that download a package in order to run it.
    r"|\bdlx\b|\bnpx (?!--no)|\bbunx\b|\buvx\b|\bpipx run\b"
    # Other downloads.
    r"|\bcurl\b|\bwget\b|\bgit (?:clone|pull|fetch|submodule)\b"
    r"|\bdocker(?:-compose| pull| build| compose)\b"
    # Options that watch or rewrite files.
    r"|--watch(?!\w|=false)|--watchAll(?!=false)|--fix\b|--write\b|--fix-only\b",
    re.MULTILINE,
)
"""Matches a script or recipe that downloads, watches or rewrites files."""
_UNITTEST_IMPORT = re.compile(r"^\s*(?:import|from) unittest\b", re.MULTILINE)
_MYPY_TARGET = r"(?:(?!^\[)[\s\S])*?^(?:files|packages|modules)\s*="
"""Matches the rest of a section, up to the option that selects the files for mypy."""


# --- detection -----------------------------------------------------------------------------------


def detect_commands(
    folder: Path, platform: str = sys.platform
) -> Mapping[CriterionKind, Criterion]:
    """Return a criterion for each kind of command that is found in the folder."""
    project = _Project(folder, platform)
    commands: dict[CriterionKind, Criterion] = {}
    for found in _find_commands(project):
        criterion = Criterion(found.kind, argv=tuple(found.command.split()), why=found.why)
        commands.setdefault(found.kind, criterion)
    return {kind: commands[kind] for kind in (TEST, BUILD, LINT, TYPES) if kind in commands}


class _Project:
    """The files of a project, each read once."""

    def __init__(self, folder: Path, platform: str) -> None:
        self.folder = folder
        self.is_windows = platform == "win32"
        self.text = cache(self._read_text)

    def _read_text(self, name: str) -> str:
        path = self.folder / name
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES:
                return path.read_text(encoding="utf-8", errors="replace")
        return ""

    def find(self, *evidence: _Evidence) -> str:
        """Return the first evidence found, as `file` or `file:line`, or "" if there is none.

        The line is where the regular expression matches, or where its last group does.
        """
        for item in evidence:
            for path in sorted(islice(self.folder.glob(item.file), _MAX_GLOB_MATCHES)):
                name = path.relative_to(self.folder).as_posix()
                if not item.regex:
                    return name
                text = self.text(name)
                match = re.search(item.regex, text, re.MULTILINE)
                if match is not None:
                    return f"{name}:{_line_number(text, match.start(match.lastindex or 0))}"
        return ""

    def find_file(self, *names: str) -> str:
        """Return the first of these files or glob patterns that exists, or ""."""
        return self.find(*(_Evidence(name) for name in names))

    def package(self, key: str) -> dict[str, object]:
        """Return the object at a key of package.json, or an empty one."""
        try:
            package = json.loads(self.text("package.json") or "{}")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(package, dict):
            return {}
        value = package.get(key)
        if not isinstance(value, dict):
            return {}
        return value

    def python_tool(self, name: str) -> str:
        """Return the command that runs a Python tool in the project's environment."""
        program = self.environment_program(name)
        if program:
            return program
        python = self.environment_program("python")
        if python:
            return f"{python} -m {name}"
        if self.find_file("uv.lock"):
            return f"uv run --offline python -m {name}"
        if self.find_file("poetry.lock"):
            return f"poetry run python -m {name}"
        if name == "ruff":
            return name
        if self.is_windows:  # only the store's Python has a python3.exe
            return f"python -m {name}"
        return f"python3 -m {name}"

    def environment_program(self, name: str) -> str:
        """Return the path of a program in the project's Python environment, or ""."""
        program = f"Scripts/{name}.exe" if self.is_windows else f"bin/{name}"
        return self.find_file(f".venv/{program}", f"venv/{program}")


def _line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _find_commands(project: _Project) -> Iterator[_Detected]:
    """Yield every command that is found, in order of preference."""
    placeholders = _python_placeholders(project)
    for found in _find_tools(project, _PYTHON_TOOLS):
        yield found._replace(command=found.command.format_map(placeholders))
    yield from _package_scripts(project)
    yield from _find_tools(project, _installed_node_tools(project))
    yield from _find_tools(project, _RUST_TOOLS)
    yield from _find_tools(project, _WINDOWS_GO_TOOLS if project.is_windows else _GO_TOOLS)
    yield from _make_targets(project)
    yield from _python_tests(project)


def _find_tools(project: _Project, tools: tuple[_Tool, ...]) -> Iterator[_Detected]:
    for tool in tools:
        why = project.find(*tool.evidence)
        if why:
            yield _Detected(tool.kind, tool.command, f"{why}: {tool.name}")


def _python_placeholders(project: _Project) -> dict[str, str]:
    placeholders = {name: project.python_tool(name) for name in ("pytest", "ruff", "mypy")}
    configured = project.find(
        _Evidence("pyproject.toml", rf"^\[tool\.mypy\]{_MYPY_TARGET}"),
        _Evidence("mypy.ini", _MYPY_TARGET),
    )
    placeholders["mypy_target"] = "" if configured else " ."
    return placeholders


def _installed_node_tools(project: _Project) -> tuple[_Tool, ...]:
    dependencies = {**project.package("devDependencies"), **project.package("dependencies")}
    runner = "node_modules/.bin/"
    if project.find_file(".pnp.cjs"):
        runner = "yarn run "
    installed = []
    for tool in _NODE_TOOLS:
        program = tool.command.split()[0]
        if tool.name in dependencies or project.find_file(f"node_modules/.bin/{program}"):
            installed.append(tool._replace(command=f"{runner}{tool.command}"))
    return tuple(installed)


def _package_scripts(project: _Project) -> Iterator[_Detected]:
    manager = _package_manager(project)
    scripts = project.package("scripts")
    for kind, names in _SCRIPTS.items():
        for name in names:
            if not _is_suitable_script(scripts, name):
                continue
            command = f"{manager} run {name}"
            if command == "npm run test":
                command = "npm test"
            regex = rf'"scripts"\s*:[\s\S]*?("{re.escape(name)}")\s*:'
            why = project.find(_Evidence("package.json", regex))
            yield _Detected(kind, command, f'{why}: the script "{name}"')


def _package_manager(project: _Project) -> str:
    for lock_file, manager in _PACKAGE_MANAGERS.items():
        if project.find_file(lock_file):
            return manager
    return "npm"


def _is_suitable_script(scripts: Mapping[str, object], name: str) -> bool:
    """Return whether a script exists and neither it nor its hooks download or rewrite files."""
    script = str(scripts.get(name, ""))
    if not script.strip() or "no test specified" in script:
        return False
    before = str(scripts.get(f"pre{name}", ""))
    after = str(scripts.get(f"post{name}", ""))
    return not any(_UNSUITABLE.search(line) for line in (script, before, after))


def _make_targets(project: _Project) -> Iterator[_Detected]:
    file = project.find_file("GNUmakefile", "makefile", "Makefile")
    if not file:
        return
    text = project.text(file)
    for kind, names in _TARGETS.items():
        for name in names:
            yield from _make_target(file, text, name, kind)
    # `check` is taken to run the tests if no other target does, and the linter otherwise.
    has_tests = any(_find_rule(text, name) is not None for name in _TARGETS[TEST])
    yield from _make_target(file, text, _CHECK_TARGET, LINT if has_tests else TEST)


def _make_target(file: str, text: str, name: str, kind: CriterionKind) -> Iterator[_Detected]:
    rule = _find_rule(text, name)
    if rule is not None and not _UNSUITABLE.search(rule[0]):
        line = _line_number(text, rule.start(1))
        yield _Detected(kind, f"make {name}", f'{file}:{line}: the target "{name}"')


def _find_rule(text: str, name: str) -> re.Match[str] | None:
    return re.search(_RULE.format(name), text, re.MULTILINE)


def _python_tests(project: _Project) -> Iterator[_Detected]:
    for folder in ("tests", "test", "."):
        if folder == ".":
            test = project.find_file("test_*.py")
        else:
            test = project.find_file(f"{folder}/**/test_*.py")
        if not test:
            continue
        uses_unittest = _UNITTEST_IMPORT.search(project.text(test)) is not None
        command = project.python_tool("pytest")
        if uses_unittest and not project.environment_program("pytest"):
            command = _unittest_command(project, folder)
        what = "a unittest test" if uses_unittest else "a test"
        yield _Detected(TEST, command, f"{test}: {what}")


def _unittest_command(project: _Project, folder: str) -> str:
    command = f"{project.python_tool('unittest')} discover -s {folder}"
    if project.find_file(f"{folder}/__init__.py"):  # only a package can be imported from the top
        command += " -t ."
    return command
