"""The rules between folders, as a table; breaking one fails the build."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ralph"

BELOW: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "formats": {"errors", "model"},
    "paths": {"errors"},
    "config": {"errors", "model", "formats"},
    "store": {"errors", "model", "formats", "paths"},
    "search": {"errors", "model", "formats", "paths", "store"},
    "capture": {"errors", "model", "formats", "paths", "store", "search"},
    "context": {"errors", "model", "formats", "paths", "store", "search"},
}
"""What each part may import of ralph, besides itself."""

BELOW["app"] = set(BELOW)
BELOW["cli"] = {*BELOW, "app"}
BELOW["__main__"] = {"cli"}
BELOW["__init__"] = set()

STARTS_PROCESSES = {"cli", "agents", "loop", "paths"}
SQLITE = {"store/db.py"}
CONFIG_LOADERS = {"cli", "app/config.py", "config.py"}
BROAD_EXCEPT = {"cli"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def calls(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    part = part_of(path)
    assert part in BELOW, f"{part} has no row in the table"
    for name, line in imports(path):
        if name.startswith("ralph."):
            other = name.split(".")[1]
            if other in BELOW:
                assert other == part or other in BELOW[part], f"{name_of(path)}:{line}: {part} must not import {other}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_the_file_store_writes_files_and_only_db_opens_sqlite(path: Path) -> None:
    writers = {"write_text", "write_bytes", "mkdir", "unlink", "rename", "touch", "symlink_to", "chmod", "rmdir"}
    for call, line in calls(path):
        method = call.rpartition(".")[2]
        wrong = method in writers or call in {"os.replace", "os.remove", "os.rename", "shutil.rmtree", "open", "os.open"}
        if call == "os.open" and name_of(path) in {"cli/main.py", "store/db.py"}:
            continue  # /dev/null for a closed pipe; a database that only its owner may read
        assert not wrong or name_of(path) == "store/files.py", f"{name_of(path)}:{line}: {call} outside store/files.py"
    for name, line in imports(path):
        assert not name.startswith("sqlite3") or name_of(path) in SQLITE, f"{name_of(path)}:{line}: sqlite3"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_processes_start_in_few_places_and_never_through_a_shell(path: Path) -> None:
    for name, line in imports(path):
        if name.split(".")[0] == "subprocess":
            assert part_of(path) in STARTS_PROCESSES, f"{name_of(path)}:{line}: subprocess"
    for call, line in calls(path):
        assert call not in {"os.system", "os.popen"}, f"{name_of(path)}:{line}: {call}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_the_config_is_loaded_in_adapters_only(path: Path) -> None:
    for name, line in imports(path):
        if name == "ralph.config.load":
            allowed = part_of(path) in CONFIG_LOADERS or name_of(path) in CONFIG_LOADERS
            assert allowed, f"{name_of(path)}:{line}: pass values instead"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_broad_excepts_stand_in_adapters_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type is not None else "everything"
            if caught in {"everything", "Exception"}:
                assert part_of(path) in BROAD_EXCEPT, f"{name_of(path)}:{node.lineno}: except {caught}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_every_module_opens_with_its_design_note(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{name_of(path)}: no docstring"


def test_the_model_reads_no_file_and_only_ids_knows_the_clock() -> None:
    for path in modules():
        if part_of(path) == "model" and path.name != "ids.py":
            names = {name.split(".")[0] for name, _ in imports(path)}
            assert names <= {"collections", "dataclasses", "enum", "types", "typing", "ralph"}, path
