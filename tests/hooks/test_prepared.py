"""The rules with expressions that were compiled beforehand: the same patterns, and none that was not asked for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooks.test_modules import CHEAP, OWN, RULES, loaded
from tests.hooks.world import HOOKS, World, payload, world

from ralph.app import hook_rules, hook_settings

SUSPICIOUS = payload(tool_response={"stdout": "API_KEY=Zx81kLm20Qp93Vt47Yc6"})
CHECK = """
import re, sys
from ralph.capture import values
from ralph.hooks.prepared import prepare
prepare(sys.argv[1], sys.argv[2])
found = values._EXPRESSIONS
for source in list(found.places):
    assert values.regex(source) == re.compile(source), source
print(len(found))
"""


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def stamp(here: World) -> str:
    now = hook_rules.file(here.root).stat()
    return f"{now.st_ino} {now.st_mtime_ns} {now.st_size}"


def test_each_prepared_expression_is_the_very_pattern(here: World) -> None:
    command = [sys.executable, "-c", CHECK, str(hook_rules.file(here.root)), stamp(here)]
    done = subprocess.run(command, capture_output=True, check=True, cwd=HOOKS.parents[1], encoding="utf-8")
    assert int(done.stdout) > 50


def test_with_them_no_compiler_is_loaded(here: World) -> None:
    assert loaded(here, "PostToolUse", SUSPICIOUS) - OWN - CHEAP <= RULES | {
        "ralph.hooks.prepared",
        "_sre",
        "itertools",
        "binascii",
    }
    assert "Zx81" not in here.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [None, "", "{}", '{"for": [1, 2, "x"], "expressions": {}}', "\0" * 99])
def test_a_file_that_is_not_the_one_that_was_written_is_not_believed(here: World, text: str | None) -> None:
    path = hook_rules.file(here.root)
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")
    assert "re._compiler" in loaded(here, "PostToolUse", SUSPICIOUS)
    assert "Zx81" not in here.log.read_text(encoding="utf-8")


def test_one_for_another_python_is_written_anew(here: World) -> None:
    path = hook_rules.file(here.root)
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(str(sys.hexversion), "1"), encoding="utf-8")
    here.cached()
    assert path.read_text(encoding="utf-8") == whole
    assert f"rules {stamp(here)}\n" in hook_settings.cache_file(here.root).read_text(encoding="utf-8")
    before = stamp(here)
    here.cached()
    assert stamp(here) == before


def test_it_holds_no_secret_and_is_for_its_owner_alone(here: World) -> None:
    path = hook_rules.file(here.root)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not re.search("kw9Zr4tQ|hunter", path.read_text(encoding="utf-8"))
