"""Functions and files have a longest length: it is the few long ones that make code hard to read."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_LIMIT, FUNCTION_LIMIT = 400, 60

EXCEPTIONS: dict[str, str] = {}
"""`path` or `path:function`, and the reason why it may be longer."""


def sources() -> list[Path]:
    return sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("bench/**/*.py"), *ROOT.glob("docs/**/*.py")])


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    count = len(path.read_text(encoding="utf-8").splitlines())
    assert count <= FILE_LIMIT or name_of(path) in EXCEPTIONS, f"{count} lines"


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            allowed = count <= FUNCTION_LIMIT or f"{name_of(path)}:{node.name}" in EXCEPTIONS
            assert allowed, f"{name_of(path)}:{node.lineno}: {node.name} has {count} lines"
