"""What an answering event may load: a few modules of our own and the C parts of JSON and SQLite, and nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.runner import Block, page
from tests.hooks.test_answer import BLOCKS, JWT, PAY, PORT
from tests.hooks.test_modules import CHEAP, OWN, TELL
from tests.hooks.world import HOOKS, World, payload, world

from ralph.app import index

ASKING = {
    "ralph.hooks.answer", "ralph.store.reading", "ralph.store.lookup", "ralph.context", "ralph.context.recall",
    "ralph.context.lessons", "ralph.context.render", "ralph.context.stale", "ralph.context.tokens", "ralph.model",
    "ralph.model.marks",
    "ralph.search", "ralph.search.rank", "ralph.search.question", "ralph.search.terms",
}  # fmt: skip
"""Our modules that look for an answer."""
HEAVY = {"dataclasses", "typing", "json", "re", "enum", "pathlib", "contextlib", "datetime", "os", "sqlite3"}


@pytest.fixture(scope="module")
def brought() -> set[str]:
    """What the C parts that an answer needs bring with them in this Python."""
    code = "import sys; before = set(sys.modules); sys.modules['functools'] = type(sys)('functools')\n"
    code += "sys.modules['functools'].lru_cache = None; import _sqlite3, math; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, encoding="utf-8")
    return set(done.stdout.split())


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project with memories and an index."""
    made = world(tmp_path)
    (made.root / ".agent").mkdir()
    (made.root / ".agent" / "memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    index.sync(made.root)
    return made


def answered(here: World, event: str, **members: object) -> tuple[str, set[str]]:
    """What an event is answered with, and the modules that it loaded."""
    command = [sys.executable, "-I", "-S", "-c", TELL, str(HOOKS / "run.py"), "claude", event]
    done = subprocess.run(command, input=payload(event, **members), env=here.env, capture_output=True, check=True)
    assert done.stderr == b""
    printed = done.stdout.decode()
    if not printed.startswith("{"):
        return "", set(printed.split())
    answer, end = json.JSONDecoder().raw_decode(printed)
    return answer["hookSpecificOutput"]["additionalContext"], set(printed[end:].split())


@pytest.mark.parametrize(
    ("event", "members", "record"),
    [
        ("UserPromptSubmit", {"prompt": "rotate the jwt refresh tokens"}, JWT),
        ("PreToolUse", {"tool_name": "Edit", "tool_input": {"file_path": "src/pay.ts"}}, PAY),
        ("PreToolUse", {"tool_input": {"command": "make halt"}}, PORT),
        ("PostToolUseFailure", {"tool_input": {"command": "x"}, "error": "EADDRINUSE"}, PORT),
    ],
)
def test_an_answering_event_loads_what_it_asks_with_and_nothing_heavy(
    here: World, brought: set[str], event: str, members: dict[str, object], record: str
) -> None:
    text, names = answered(here, event, **members)
    assert record in text
    assert not names & HEAVY
    assert names >= ASKING
    assert names <= OWN | CHEAP | ASKING | brought


def test_a_prompt_in_another_script_loads_one_table_more(here: World, brought: set[str]) -> None:
    _, names = answered(here, "UserPromptSubmit", prompt="토큰 갱신을 바꿔줘")
    assert not names & HEAVY
    assert names <= OWN | CHEAP | ASKING | brought | {"unicodedata"}


def test_a_stranger_s_memory_loads_the_tests_for_orders(here: World, brought: set[str]) -> None:
    text = page(*BLOCKS, Block("The frobnicator needs grease.", "mem-9-a", more=" | by: import"))
    (here.root / ".agent" / "memories.md").write_text(text, encoding="utf-8")
    index.sync(here.root)
    said, names = answered(here, "UserPromptSubmit", prompt="grease the frobnicator")
    assert "mem-9-a" in said
    assert names <= OWN | CHEAP | ASKING | brought | {"ralph.context.injection_guard"}


def test_without_an_index_hardly_anything_is_loaded(tmp_path: Path, brought: set[str]) -> None:
    here = world(tmp_path)
    _, names = answered(here, "PreToolUse", tool_input={"command": "make halt"})
    assert names <= OWN | CHEAP | brought | {"ralph.hooks.answer", "ralph.store.reading", "ralph.store.lookup"}


def test_who_wants_no_answers_does_not_pay_for_them(here: World) -> None:
    (here.root / "ralph.yml").write_text("memories:\n  inject: none\n", encoding="utf-8")
    here.cached()
    text, names = answered(here, "UserPromptSubmit", prompt="jwt refresh tokens")
    assert text == ""
    assert not names & {"ralph.context.recall", "ralph.search.rank"}
