"""What a project's files say about its tests, build, linter and types; every case is a folder of files."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ralph.core.record import CriterionKind
from ralph.loop.detect import detect_commands

TEST, BUILD, LINT, TYPES = ["test_pass", "build_success", "lint_clean", "type_check"]


def project(folder: Path, files: Mapping[str, str], platform: str = "linux") -> dict[str, str]:
    """The commands of a project with these files, as they would be typed."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    detected = detect_commands(folder, platform)
    return {kind.value: " ".join(found.argv) for kind, found in detected.items()}


def package(scripts: Mapping[str, str] | None = None, **more: object) -> str:
    return json.dumps({"name": "x", "scripts": scripts or {}, **more}, indent=2)


PYTEST = {"pyproject.toml": "[tool.pytest.ini_options]\n"}

CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "only words": ({"README.md": "run pytest"}, {}),
    "pytest in pyproject": (PYTEST, {TEST: "python3 -m pytest"}),
    "pytest.ini": ({"pytest.ini": "[pytest]\n"}, {TEST: "python3 -m pytest"}),
    "setup.cfg": ({"setup.cfg": "[tool:pytest]\n"}, {TEST: "python3 -m pytest"}),
    "pytest required": ({"requirements-dev.txt": "# x\npytest>=8\n"}, {TEST: "python3 -m pytest"}),
    "pytest in a comment": ({"requirements.txt": "click  # not pytest\n# pytest\n"}, {}),
    "conftest": ({"tests/conftest.py": ""}, {TEST: "python3 -m pytest"}),
    "own environment": ({**PYTEST, ".venv/bin/pytest": ""}, {TEST: ".venv/bin/pytest"}),
    "own environment without pytest": (
        {**PYTEST, ".venv/bin/python": "", "uv.lock": ""},
        {TEST: ".venv/bin/python -m pytest"},
    ),
    "uv": ({**PYTEST, "uv.lock": ""}, {TEST: "uv run --offline python -m pytest"}),
    "poetry": ({**PYTEST, "poetry.lock": ""}, {TEST: "poetry run python -m pytest"}),
    "a folder of tests": (
        {"tests/unit/test_a.py": "def test_a(): ...\n"},
        {TEST: "python3 -m pytest"},
    ),
    "a folder of unittest": (
        {"tests/test_a.py": "import unittest\n"},
        {TEST: "python3 -m unittest discover -s tests"},
    ),
    "a package of unittest": (
        {"tests/test_a.py": "import unittest\n", "tests/__init__.py": ""},
        {TEST: "python3 -m unittest discover -s tests -t ."},
    ),
    "unittest beside the code": (
        {"test_a.py": "from unittest import TestCase\n"},
        {TEST: "python3 -m unittest discover -s ."},
    ),
    "unittest with pytest installed": (
        {"tests/test_a.py": "import unittest\n", "venv/bin/pytest": ""},
        {TEST: "venv/bin/pytest"},
    ),
    "an empty folder of tests": ({"tests/README.md": ""}, {}),
    "ruff and mypy": (
        {"pyproject.toml": '[tool.ruff]\n[tool.mypy]\nfiles = ["src"]\n'},
        {LINT: "ruff check .", TYPES: "python3 -m mypy"},
    ),
    "mypy.ini": ({"mypy.ini": "[mypy]\n"}, {TYPES: "python3 -m mypy ."}),
    "ruff.toml and pyright": (
        {"ruff.toml": "", "pyrightconfig.json": "{}", ".venv/bin/ruff": "", ".venv/bin/python": ""},
        {LINT: ".venv/bin/ruff check .", TYPES: "pyright"},
    ),
    "a broken pyproject": (
        {"pyproject.toml": "[tool.pytest.ini_options]\nx = [\n"},
        {TEST: "python3 -m pytest"},
    ),
    "npm": (
        {
            "package.json": package(
                {"test": "vitest run", "build": "vite build", "lint": "eslint .", "types": "tsc"}
            )
        },
        {TEST: "npm test", BUILD: "npm run build", LINT: "npm run lint", TYPES: "npm run types"},
    ),
    "pnpm": (
        {"package.json": package({"test": "jest"}), "pnpm-lock.yaml": ""},
        {TEST: "pnpm run test"},
    ),
    "yarn": ({"package.json": package({"test": "jest"}), "yarn.lock": ""}, {TEST: "yarn run test"}),
    "bun": (
        {"package.json": package({"test": "bun test"}), "bun.lock": ""},
        {TEST: "bun run test"},
    ),
    "npm init": (
        {"package.json": package({"test": 'echo "Error: no test specified" && exit 1'})},
        {},
    ),
    "a broken package.json": ({"package.json": "{"}, {}),
    "package.json is a list": ({"package.json": "[]"}, {}),
    "scripts are not texts": ({"package.json": '{"scripts": ["test"]}'}, {}),
    "npm init with vitest": (
        {"package.json": package({"test": "no test specified"}, devDependencies={"vitest": "1"})},
        {TEST: "node_modules/.bin/vitest run"},
    ),
    "jest by plug'n'play": (
        {"package.json": package(devDependencies={"jest": "1"}), ".pnp.cjs": ""},
        {TEST: "yarn run jest"},
    ),
    "a script that watches": (
        {"package.json": package({"test": "jest --watch", "test:ci": "jest"})},
        {TEST: "npm run test:ci"},
    ),
    "a script that does not watch": (
        {"package.json": package({"test": "jest --watchAll=false"})},
        {TEST: "npm test"},
    ),
    "a script that rewrites": (
        {
            "package.json": package({"lint": "eslint --fix ."}, devDependencies={"eslint": "9"}),
            "eslint.config.js": "",
        },
        {LINT: "node_modules/.bin/eslint ."},
    ),
    "a script that installs": (
        {"package.json": package({"test": "npm ci && jest", "build": "npm install"})},
        {},
    ),
    "a script before it installs": (
        {"package.json": package({"pretest": "npm install", "test": "jest"})},
        {},
    ),
    "npx that must not fetch": (
        {"package.json": package({"test": "npx --no-install jest"})},
        {TEST: "npm test"},
    ),
    "npx of what is not": ({"package.json": package({"test": "npx jest"})}, {}),
    "tsc": (
        {
            "package.json": package(devDependencies={"typescript": "5"}),
            "tsconfig.json": "{ // a comment\n}",
        },
        {TYPES: "node_modules/.bin/tsc --noEmit"},
    ),
    "tsc with references": (
        {
            "package.json": package(devDependencies={"typescript": "5"}),
            "tsconfig.json": '{"references": []}',
        },
        {TYPES: "node_modules/.bin/tsc --build --noEmit"},
    ),
    "eslint that is not installed": ({"package.json": package(), "eslint.config.js": ""}, {}),
    "cargo": (
        {"Cargo.toml": "[workspace]\n"},
        {
            TEST: "cargo test --offline --workspace",
            BUILD: "cargo build --offline --workspace",
            LINT: "cargo clippy --offline --workspace --all-targets -- -D warnings",
            TYPES: "cargo check --all-targets --offline --workspace",
        },
    ),
    "go": (
        {"go.mod": "module x\n", ".golangci.yml": ""},
        {
            TEST: "env GOPROXY=off go test ./...",
            BUILD: "env GOPROXY=off go build -o /dev/null ./...",
            LINT: "golangci-lint run",
            TYPES: "env GOPROXY=off go vet ./...",
        },
    ),
    "make": (
        {
            "Makefile": ".PHONY: test\nCC := gcc\ntest: build\n\t./run\nbuild:\n\tcc x.c\nlint:\n\tx\ntypecheck:\n\tx\n"
        },
        {TEST: "make test", BUILD: "make build", LINT: "make lint", TYPES: "make typecheck"},
    ),
    "make check is the tests": ({"Makefile": "check:\n\t./run\n"}, {TEST: "make check"}),
    "make check beside tests": (
        {"Makefile": "test check:\n\t./run\n"},
        {TEST: "make test", LINT: "make check"},
    ),
    "make that fetches": ({"Makefile": "test: deps\n\tnpm ci\n\nlint:\n\tcurl x\n"}, {}),
    "make variables are no targets": ({"Makefile": "test = x\ntest := y\nbuild ::= z\n"}, {}),
    "a language's own word before make's": (
        {**PYTEST, "Makefile": "test:\n\tx\nbuild:\n\ty\n"},
        {TEST: "python3 -m pytest", BUILD: "make build"},
    ),
    "make's word before a guess": (
        {"tests/test_a.py": "", "Makefile": "test:\n\tx\n"},
        {TEST: "make test"},
    ),
    "only the root": (
        {"packages/a/package.json": package({"test": "jest"}), "sub/Cargo.toml": ""},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_commands_are_found_from_the_files(name: str, tmp_path: Path) -> None:
    files, expected = CASES[name]
    assert project(tmp_path, files) == expected


WINDOWS_CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "python": (PYTEST, {TEST: "python -m pytest"}),
    "own environment": (
        {**PYTEST, ".venv/Scripts/pytest.exe": ""},
        {TEST: ".venv/Scripts/pytest.exe"},
    ),
    "own environment without pytest": (
        {**PYTEST, "venv/Scripts/python.exe": "", "uv.lock": ""},
        {TEST: "venv/Scripts/python.exe -m pytest"},
    ),
    "an environment of another system": (
        {**PYTEST, ".venv/bin/pytest": ""},
        {TEST: "python -m pytest"},
    ),
    "a folder of unittest": (
        {"tests/test_a.py": "import unittest\n"},
        {TEST: "python -m unittest discover -s tests"},
    ),
    "unittest with pytest installed": (
        {"tests/test_a.py": "import unittest\n", "venv/Scripts/pytest.exe": ""},
        {TEST: "venv/Scripts/pytest.exe"},
    ),
    "go": (
        {"go.mod": "module x\n", ".golangci.yml": ""},
        {
            TEST: "cmd.exe /d /c set GOPROXY=off&& go test ./...",
            BUILD: "cmd.exe /d /c set GOPROXY=off&& go build -o NUL ./...",
            LINT: "golangci-lint run",
            TYPES: "cmd.exe /d /c set GOPROXY=off&& go vet ./...",
        },
    ),
}


@pytest.mark.parametrize("name", WINDOWS_CASES)
def test_commands_on_windows_need_no_program_of_another_system(name: str, tmp_path: Path) -> None:
    files, expected = WINDOWS_CASES[name]
    assert project(tmp_path, files, "win32") == expected


def test_each_command_says_which_file_and_line_it_is_from(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "package.json": package({"lint": "eslint .", "build": "vite build"}, test={"build": 1}),
            "pyproject.toml": "[project]\n\n[tool.pytest.ini_options]\n",
            "Makefile": "x:\n\ty\n\ntypes:\n\tz\n",
        },
    )
    assert {kind.value: found.why for kind, found in detect_commands(tmp_path).items()} == {
        TEST: "pyproject.toml:3: pytest",
        BUILD: 'package.json:5: the script "build"',
        LINT: 'package.json:4: the script "lint"',
        TYPES: 'Makefile:4: the target "types"',
    }


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "package.json").mkdir()
    (tmp_path / "Makefile").symlink_to(tmp_path / "nowhere")
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "setup.cfg").write_text("[pytest]\n" * 200_000, encoding="utf-8")
    assert detect_commands(tmp_path) == {}
    assert detect_commands(tmp_path / "not there") == {}


def test_detected_commands_have_a_fixed_order(tmp_path: Path) -> None:
    project(tmp_path, {"Cargo.toml": ""})
    found = detect_commands(tmp_path)
    assert list(found) == [CriterionKind(kind) for kind in (TEST, BUILD, LINT, TYPES)]
