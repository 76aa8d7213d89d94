"""What an event may load: a recording event is as cheap as the modules that it imports."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooks.world import HOOKS, World, payload, world

OWN = {
    "ralph", "ralph.hooks", "ralph.hooks.load", "ralph.hooks.fast", "ralph.hooks.place", "ralph.store",
    "ralph.store.light",
    "ralph.hooks.screen", "ralph.hooks.anchors", "ralph.hooks.named",
}  # fmt: skip
CHEAP = {"_json", "fcntl", "gc"}
TELL = """
import posix, sys
before = set(sys.modules)
def told(code):
    posix.write(1, " ".join(sorted(set(sys.modules) - before)).encode())
    leave(code)
leave, posix._exit = posix._exit, told
sys.argv = sys.argv[1:]
code = __import__("_frozen_importlib_external").SourceFileLoader("__main__", sys.argv[0]).get_code("__main__")
exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})
"""
"""Runs the stub as the interpreter would, and says at its end what it had loaded."""


def loaded(here: World, event: str, stdin: bytes) -> set[str]:
    """The modules that a bare interpreter has more, at the end of an event."""
    command = [sys.executable, "-I", "-S", "-c", TELL, str(HOOKS / "run.py"), "claude", event]
    done = subprocess.run(command, input=stdin, env=here.env, capture_output=True, check=True)
    assert done.stderr == b""
    return set(done.stdout.decode().split())


@pytest.mark.parametrize("event", ["PostToolUse", "SubagentStop", "SessionEnd"])
def test_a_recording_event_loads_our_few_modules_and_nothing_else(tmp_path: Path, event: str) -> None:
    here = world(tmp_path)
    assert loaded(here, event, payload(event)) == OWN | CHEAP
    assert len(here.lines()) == 1


@pytest.mark.parametrize("text", ["안녕하세요", "colour \x1b[1m", "é"])
def test_other_scripts_load_nothing_more(tmp_path: Path, text: str) -> None:
    here = world(tmp_path)
    assert loaded(here, "PostToolUse", payload(tool_response={"stdout": text})) == OWN | CHEAP


RULES = {
    "ralph.hooks.careful", "ralph.hooks.own", "ralph.hooks.prepared", "ralph.capture", "ralph.errors",
    *(f"ralph.capture.{name}" for name in "redactor privacy secrets assignments values trim".split()),
}  # fmt: skip
COMPILER = {"re._compiler", "re._parser", "re._constants", "re._casefix", "_sre", "itertools"}
"""What compiles regular expressions, without the package around it, which loads `enum` and `functools`."""


@pytest.mark.parametrize(
    "members",
    [{"tool_response": {"stdout": "PASSWORD=hunter2x9"}}, {"tool_response": {"stdout": "<private>x</private> y"}},
     {"tool_response": {"stdout": "tests PASSED\n" * 9_000}}, {"note": "Authorization: Bearer Zx81kLm20Qp93Vt47Yc6"},
     {"tool_name": "Edit", "tool_input": {"file_path": "a", "new_string": "API_KEY=Zx81kLm20Qp93Vt47Yc6"}}],
)  # fmt: skip
def test_a_careful_event_loads_the_rules_and_a_compiler_for_them(tmp_path: Path, members: dict[str, object]) -> None:
    here = world(tmp_path)
    more = loaded(here, "PostToolUse", payload("PostToolUse", **members)) - OWN - CHEAP
    assert RULES <= more <= RULES | COMPILER | {"binascii", "ralph.capture.veils"}
    assert [line["type"] for line in here.lines()] == ["event"]


def test_a_read_loads_no_rules(tmp_path: Path) -> None:
    here = world(tmp_path)
    answer = {"file": {"content": "PASSWORD=hunter2x9\n" * 3_000}}
    assert loaded(here, "PostToolUse", payload(tool_name="Read", tool_response=answer)) == OWN | CHEAP
    assert "hunter2" not in here.log.read_text(encoding="utf-8")


def test_an_event_outside_of_projects_loads_even_less(tmp_path: Path) -> None:
    here = World(tmp_path / "none", tmp_path / "home")
    here.root.mkdir()
    screen = {"ralph.hooks.screen", "ralph.hooks.named", "ralph.hooks.anchors", "ralph.hooks.load", "gc"}
    for event in ("PostToolUse", "Stop", "SessionStart"):
        assert loaded(here, event, payload(event)) == (OWN | CHEAP) - screen


@pytest.mark.parametrize("module", sorted(OWN - {"ralph", "ralph.hooks", "ralph.store"}))
def test_no_light_module_names_a_heavy_one(module: str) -> None:
    code = "import sys\n"
    for package in ("ralph", "ralph.hooks", "ralph.store"):
        folder = HOOKS.parents[1].joinpath(*package.split("."))
        code += f"bare = type(sys)({package!r}); bare.__path__ = [{str(folder)!r}]; sys.modules[{package!r}] = bare\n"
    code += f"import {module}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, encoding="utf-8")
    assert not {"re", "json", "os", "typing", "enum", "dataclasses", "pathlib", "collections"} & set(
        done.stdout.split()
    )
