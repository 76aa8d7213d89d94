"""How hooks import Ralph on Windows: with few questions about files, and the same result."""

import subprocess
import sys
from pathlib import Path

import pytest

import ralph
from ralph.lean import quick_imports

SOURCE = Path(ralph.__file__).parents[1]
BEGIN = """\
import sys
names = {{}}
exec(open({program!r}, encoding="utf-8").read(), names)
sys.meta_path.insert(0, names["QuickFinder"]({source!r}))
"""


def run(source: Path, code: str) -> list[str]:
    """Run code in an interpreter that imports Ralph from a folder, and return its output."""
    begin = BEGIN.format(program=quick_imports.__file__, source=source.as_posix())
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", begin + code],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return ended.stdout.splitlines()


def test_all_that_records_an_event_is_imported_quickly() -> None:
    code = (
        "import ralph.hooks.handler\n"
        "for name, module in sys.modules.items():\n"
        "    if name.partition('.')[0] == 'ralph':\n"
        "        print(name, type(module.__loader__).__name__)\n"
    )
    loaders = dict(line.split() for line in run(SOURCE, code))
    assert {"ralph", "ralph.lean", "ralph.lean.hook_files", "ralph.hooks.handler"} <= set(loaders)
    assert set(loaders.values()) == {"_QuickLoader"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "ralph"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "part.py").write_text("value = 'old'\n", encoding="utf-8")
    return folder


PRINT = "from ralph.part import value\nprint(value)"


def test_bytecode_is_written_once_and_not_used_for_a_changed_source(package: Path) -> None:
    assert run(package.parent, PRINT) == ["old"]
    assert list((package / "__pycache__").glob("part.*"))
    (package / "part.py").write_text("value = 'changed'\n", encoding="utf-8")
    assert run(package.parent, PRINT) == ["changed"]


def test_damaged_bytecode_is_not_used(package: Path) -> None:
    run(package.parent, PRINT)
    (bytecode,) = (package / "__pycache__").glob("part.*")
    bytecode.write_bytes(bytecode.read_bytes()[:10])
    assert run(package.parent, PRINT) == ["old"]


def test_only_modules_of_ralph_are_found(package: Path) -> None:
    finder = quick_imports.QuickFinder(package.parent.as_posix())
    assert finder.find_spec("ralph.part") is not None
    assert finder.find_spec("ralph.nothing") is None
    assert finder.find_spec("ralph.nothing.deeper") is None
    assert finder.find_spec("json") is None
    assert finder.find_spec("ralphs") is None
