"""Modules that are loaded without the machinery of imports: the same ones, and never of a source that has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooks.world import HOOKS

from ralph.hooks import load

BARE = """
import sys
for name, folder in (("ralph", {top!r}), ("ralph.hooks", {top!r} + "/hooks")):
    bare = type(sys)(name); bare.__path__ = [folder]; sys.modules[name] = bare
from ralph.hooks import load
"""
LISTS = ("SCREEN", "OWN", "RULES", "ANSWER", "ASKING", "TELLING")


def told(top: Path, code: str, *flags: str) -> list[str]:
    """What a bare interpreter prints, with our packages in place as the stub puts them."""
    command = [sys.executable, "-I", "-S", *flags, "-c", BARE.format(top=str(top)) + code]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    return done.stdout.split("\n")[:-1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package somewhere else, with one module that is easily changed; compiled by a first import."""
    top = tmp_path / "ralph"
    shutil.copytree(HOOKS.parent, top, ignore=shutil.ignore_patterns("__pycache__", "web", "cli", "mcp", "app"))
    (top / "hooks" / "small.py").write_text("NUMBER = 1\n", encoding="utf-8")
    os.utime(top / "hooks" / "small.py", (1_000_000_000, 1_000_000_000))
    told(top, "import ralph.hooks.small")
    return top


SMALL = "load.load(('ralph.hooks.small',))\nprint('ralph.hooks.small' in sys.modules)\n"


def test_a_compiled_module_is_loaded_and_the_import_finds_it(copy: Path) -> None:
    code = SMALL + "import ralph.hooks.small as small\nprint(small.NUMBER, small.__name__, small.__file__)"
    assert told(copy, code) == ["True", f"1 ralph.hooks.small {copy}/hooks/small.py"]


@pytest.mark.parametrize("text", ["NUMBER = 2\n", "NUMBER = 22\n"])
def test_a_source_that_changed_is_left_to_the_import(copy: Path, text: str) -> None:
    (copy / "hooks" / "small.py").write_text(text, encoding="utf-8")
    code = SMALL + "import ralph.hooks.small as small\nprint(small.NUMBER)"
    assert told(copy, code) == ["False", text.rsplit(maxsplit=1)[-1]]


@pytest.mark.parametrize("damage", [b"", b"\0" * 400, None])
def test_a_compiled_file_that_is_none_is_left_to_the_import(copy: Path, damage: bytes | None) -> None:
    (compiled,) = (copy / "hooks" / "__pycache__").glob("small.*.pyc")
    if damage is None:
        compiled.unlink()
    else:
        compiled.write_bytes(damage)
    assert told(copy, SMALL + "import ralph.hooks.small as small\nprint(small.NUMBER)") == ["False", "1"]


@pytest.mark.parametrize("flags", [("-O",), ("-X", "pycache_prefix=/nowhere")])
def test_with_another_layout_nothing_is_loaded_beforehand(copy: Path, flags: tuple[str, ...]) -> None:
    assert told(copy, SMALL, *flags) == ["False"]


def test_a_module_that_fails_is_not_there_afterwards(copy: Path) -> None:
    (copy / "hooks" / "small.py").write_text("1 / 0\n", encoding="utf-8")
    code = "try:\n    import ralph.hooks.small\nexcept ZeroDivisionError:\n    pass\n"
    told(copy, code)
    code = "try:\n    load.load(('ralph.hooks.small',))\nexcept ZeroDivisionError:\n    print(1)\n"
    assert told(copy, code + "print('ralph.hooks.small' in sys.modules)") == ["1", "False"]


@pytest.mark.parametrize("name", LISTS)
def test_each_list_is_in_the_order_in_which_its_modules_need_each_other(copy: Path, name: str) -> None:
    """Nothing is imported by the way: each module finds what it needs."""
    before = LISTS[: LISTS.index(name)] if name in ("RULES", "ASKING", "TELLING") else ()
    code = "import _sqlite3, math, ralph.hooks.fast\n"
    code += "".join(f"load.load(load.{each})\n" for each in before)
    told(copy, code + f"for each in load.{name}: __import__(each)")  # all of them are compiled
    code += "import builtins\nusual, missed = builtins.__import__, set()\n"
    code += "def seen(name, *rest):\n    missed.update({name} - set(sys.modules))\n    return usual(name, *rest)\n"
    code += f"builtins.__import__ = seen\nload.load(load.{name})\n"
    code += f"print(*(each for each in missed if each.startswith('ralph')), set(load.{name}) <= set(sys.modules))"
    assert told(copy, code) == ["True"]


def test_in_any_other_process_it_does_nothing() -> None:
    assert "ralph.hooks.nowhere" not in sys.modules
    load.load(("ralph.hooks.nowhere",))
    assert "ralph.hooks.nowhere" not in sys.modules
