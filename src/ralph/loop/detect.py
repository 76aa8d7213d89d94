"""Detect which commands test, build, lint and type-check a project, from its files alone.

The first command for a kind counts: a language's own files, then targets of make, then a folder of tests. Python, Node,
Rust and Go are known; others name their commands in a Makefile or a criterion. A command never fetches anything:
package managers stay offline, and a script or target that installs, watches or rewrites is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path

from ralph.core.record import CriterionKind
from ralph.loop.criteria import Criterion

TEST, BUILD, LINT, TYPES = list(CriterionKind)[:4]
_Detected = Iterator[tuple[CriterionKind, str, str]]  # kind, command, and why

# Kind, tool, command, and the evidence: the first file that exists, or `file ~ regex` that matches. `{x}` in a command
# is filled in by `_fillings`.
_PYTEST = r"^[^#\n]*\bpytest\b"
_PYTHON = (
    (
        *(
            TEST,
            "pytest",
            "{pytest}",
            r"pyproject.toml ~ ^\[tool\.pytest[.\]]",
            "pytest.ini",
            "conftest.py",
        ),
        *(
            "tests/conftest.py",
            r"setup.cfg ~ ^\[(?:tool:)?pytest\]",
            r"tox.ini ~ ^\[(?:tool:)?pytest\]",
        ),
        *(
            f"pyproject.toml ~ {_PYTEST}",
            f"setup.cfg ~ {_PYTEST}",
            f"requirements*.txt ~ {_PYTEST}",
        ),
    ),
    (
        LINT,
        "ruff",
        "{ruff} check .",
        r"pyproject.toml ~ ^\[tool\.ruff[.\]]",
        "ruff.toml",
        ".ruff.toml",
    ),
    (
        TYPES,
        "mypy",
        "{mypy}{mypy_target}",
        r"pyproject.toml ~ ^\[tool\.mypy\]",
        "mypy.ini",
        r"setup.cfg ~ ^\[mypy\]",
    ),
    (TYPES, "pyright", "pyright", r"pyproject.toml ~ ^\[tool\.pyright\]", "pyrightconfig.json"),
)
_NODE = (  # counts when the tool is installed
    (TEST, "vitest", "vitest run", r'package.json ~ "vitest"\s*:', "vitest.config.*"),
    (TEST, "jest", "jest", r'package.json ~ "jest"\s*:', "jest.config.*"),
    (
        LINT,
        "eslint",
        "eslint .",
        "eslint.config.*",
        ".eslintrc",
        ".eslintrc.*",
        r'package.json ~ "eslintConfig"',
    ),
    (TYPES, "typescript", "tsc --build --noEmit", r'tsconfig.json ~ "references"\s*:'),
    (TYPES, "typescript", "tsc --noEmit", "tsconfig.json"),
)
_GO = "env GOPROXY=off go"
_OTHERS = (
    (TEST, "cargo", "cargo test --offline --workspace", "Cargo.toml"),
    (BUILD, "cargo", "cargo build --offline --workspace", "Cargo.toml"),
    (TYPES, "cargo", "cargo check --all-targets --offline --workspace", "Cargo.toml"),
    (
        LINT,
        "clippy",
        "cargo clippy --offline --workspace --all-targets -- -D warnings",
        "Cargo.toml",
    ),
    (LINT, "golangci-lint", "golangci-lint run", ".golangci.y*ml"),
    (TEST, "go", f"{_GO} test ./...", "go.mod", "go.work"),
    (BUILD, "go", f"{_GO} build -o /dev/null ./...", "go.mod", "go.work"),
    (LINT, "go", f"{_GO} vet ./...", "go.mod", "go.work"),
    (TYPES, "go", f"{_GO} vet ./...", "go.mod", "go.work"),
)
_MANAGERS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "package-lock.json": "npm",
}
_SCRIPTS = {
    TEST: "test test:ci test:unit",
    BUILD: "build compile",
    LINT: "lint lint:check lint:ci",
    TYPES: "typecheck type-check check-types types tsc",
}
_TARGETS = {TEST: "test tests", BUILD: "build compile", LINT: "lint", TYPES: "typecheck types mypy"}
_TARGET = r"^(?:[\w.-]+[ \t]+)*({})(?:[ \t]+[\w.-]+)*[ \t]*:(?!=|:=)[^\n]*(?:\n(?:[ \t][^\n]*)?)*"
"""A target of make, maybe in a list, with its recipe."""
_UNSUITABLE = re.compile(
    r"(?<!no-)(?<!--)\binstall\b|\bnpm ci\b|\b(?:uv|pipenv|pdm) sync\b|\bpip download\b|\bcurl\b|\bwget\b"
    r"|\b(?:apt|apt-get|brew|apk|dnf)\s|\bgo get\b|\bgit (?:clone|pull|fetch|submodule)\b"
    r"|\bdocker(?:-compose| pull| build| compose)\b|\b(?:deps\.get|mod download|cargo add|npm i|pnpm i)\b"
    r"|\b(?:yarn|pnpm) add\b|\bnpm update\b|\byarn\s*(?:$|&&|;)|\bdlx\b|\bnpx (?!--no)|\bbunx\b|\buvx\b|\bpipx run\b"
    r"|--watch(?!\w|=false)|--watchAll(?!=false)|--fix\b|--write\b|--fix-only\b",
    re.MULTILINE,
)


class _Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = cache(self._text)

    def _text(self, name: str) -> str:
        path = self.folder / name
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= 1_000_000:
                return path.read_text(encoding="utf-8", errors="replace")
        return ""

    def find(self, *evidence: str) -> str:
        """The first evidence as `file` or `file:line`; a regex means its group, if it has one."""
        for each in evidence:
            pattern, _, regex = each.partition(" ~ ")
            for path in sorted(islice(self.folder.glob(pattern), 2_000)):
                name = path.relative_to(self.folder).as_posix()
                text = self.text(name) if regex else ""
                if (match := re.search(regex, text, re.MULTILINE)) is not None:
                    return (
                        f"{name}:{text.count(chr(10), 0, match.start(match.lastindex or 0)) + 1}"
                        if regex
                        else name
                    )
        return ""

    def package(self, key: str) -> dict[str, object]:
        """An object in package.json."""
        try:
            value = json.loads(self.text("package.json") or "{}")
        except (ValueError, RecursionError):
            return {}
        value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def python_tool(self, name: str) -> str:
        if program := self.find(f".venv/bin/{name}", f"venv/bin/{name}"):
            return program
        if python := self.find(".venv/bin/python", "venv/bin/python"):
            return f"{python} -m {name}"
        runner = (
            "uv run --offline"
            if self.find("uv.lock")
            else "poetry run"
            if self.find("poetry.lock")
            else ""
        )
        if runner:
            return f"{runner} python -m {name}"
        return name if name == "ruff" else f"python3 -m {name}"


def detect_commands(folder: Path) -> Mapping[CriterionKind, Criterion]:
    """Return a criterion for each kind whose command is found."""
    project = _Project(folder)
    commands: dict[CriterionKind, Criterion] = {}
    for kind, command, why in chain(
        _from_tables(project), _make_targets(project), _python_tests(project)
    ):
        commands.setdefault(kind, Criterion(kind, argv=tuple(command.split()), why=why))
    return {kind: commands[kind] for kind in (TEST, BUILD, LINT, TYPES) if kind in commands}


def _from_tables(project: _Project) -> _Detected:
    has_target = r"(?:(?!^\[)[\s\S])*?^(?:files|packages|modules)\s*="
    targets = (rf"pyproject.toml ~ ^\[tool\.mypy\]{has_target}", f"mypy.ini ~ {has_target}")
    fillings = {name: project.python_tool(name) for name in ("pytest", "ruff", "mypy")}
    fillings["mypy_target"] = "" if project.find(*targets) else " ."
    installed = {**project.package("devDependencies"), **project.package("dependencies")}
    programs = "yarn run " if project.find(".pnp.cjs") else "node_modules/.bin/"
    node = [
        (kind, tool, f"{programs}{command}", *evidence)
        for kind, tool, command, *evidence in _NODE
        if tool in installed or project.find(f"node_modules/.bin/{command.split()[0]}")
    ]
    for rows in (_PYTHON, node, _OTHERS):
        yield from _scripts(project) if rows is node else ()
        for kind, tool, command, *evidence in rows:
            if why := project.find(*evidence):
                yield CriterionKind(kind), command.format_map(fillings), f"{why}: {tool}"


def _scripts(project: _Project) -> _Detected:
    manager = next((name for lock, name in _MANAGERS.items() if project.find(lock)), "npm")
    scripts = project.package("scripts")
    for kind, name in ((kind, name) for kind, names in _SCRIPTS.items() for name in names.split()):
        lines = [str(scripts.get(f"{when}{name}", "")) for when in ("", "pre", "post")]
        if (
            lines[0].strip()
            and "no test specified" not in lines[0]
            and not any(map(_UNSUITABLE.search, lines))
        ):
            command = "npm test" if (manager, name) == ("npm", "test") else f"{manager} run {name}"
            why = project.find(rf'package.json ~ "scripts"\s*:[\s\S]*?("{re.escape(name)}")\s*:')
            yield kind, command, f'{why}: the script "{name}"'


def _make_targets(project: _Project) -> _Detected:
    file = project.find("GNUmakefile", "makefile", "Makefile")
    text = project.text(file) if file else ""
    names = [name for targets in (*_TARGETS.values(), "check") for name in targets.split()]
    rules = {
        name: match
        for name in names
        if (match := re.search(_TARGET.format(name), text, re.MULTILINE))
    }
    # `check` is the tests if nothing else is, else the linter
    check = LINT if any(name in rules for name in _TARGETS[TEST].split()) else TEST
    for kind, targets in (*_TARGETS.items(), (check, "check")):
        for name in targets.split():
            if name in rules and not _UNSUITABLE.search(rules[name][0]):
                line = text.count("\n", 0, rules[name].start(1)) + 1
                yield kind, f"make {name}", f'{file}:{line}: the target "{name}"'


def _python_tests(project: _Project) -> _Detected:
    for folder in ("tests", "test", "."):
        if test := project.find("test_*.py" if folder == "." else f"{folder}/**/test_*.py"):
            command = project.python_tool("pytest")
            of_unittest = re.search(
                r"^\s*(?:import|from) unittest\b", project.text(test), re.MULTILINE
            )
            if of_unittest and not command.endswith("/bin/pytest"):
                top = (
                    " -t ." if project.find(f"{folder}/__init__.py") else ""
                )  # only a package can be imported
                command = f"{project.python_tool('unittest')} discover -s {folder}{top}"
            yield TEST, command, f"{test}: a test{' of unittest' if of_unittest else ''}"
