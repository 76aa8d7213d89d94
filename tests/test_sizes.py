"""Functions and files have a longest length: it is the few long ones that make code hard to read."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LIMIT, FUNCTION_LIMIT = 600, 60

EXCEPTIONS: dict[str, str] = {}
"""`path` or `path:function`, and the reason why it may be longer."""


def sources() -> list[Path]:
    return sorted(
        [*ROOT.glob("src/**/*.py"), *ROOT.glob("bench/**/*.py"), *ROOT.glob("docs/**/*.py")]
    )


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_file_is_short_enough_to_read() -> None:
    counts = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()
    }
    assert {
        name: count
        for name, count in counts.items()
        if count > FILE_LIMIT and name not in EXCEPTIONS
    } == {}


def long_functions(path: Path) -> Iterator[str]:
    """The functions of a file that are too long, where and by how much."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LIMIT and f"{name_of(path)}:{node.name}" not in EXCEPTIONS:
                yield f"{name_of(path)}:{node.lineno}: {node.name} has {count} lines"


def test_a_function_fits_on_a_screen() -> None:
    assert [told for path in sources() for told in long_functions(path)] == []
