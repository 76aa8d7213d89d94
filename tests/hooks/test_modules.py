"""What each event loads: an event is as cheap as the modules that it imports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.broken_configs import BROKEN
from tests.support.hook_answers import BLOCKS, JWT
from tests.support.runner import page
from tests.support.world import HOOKS, World, patient_hook, payload, world

from ralph.capture import recorder
from ralph.search import index

CLASSIFIER = "ralph.privacy.injection_guard"
HEAVY = {"dataclasses", "typing", "pathlib", "inspect", "contextlib"}
SLOW_TO_LOAD = {"json"}
"""What an answer avoids, because loading it takes as long as a query."""
RECORDING = {
    "ralph", "ralph.lean", "ralph.hooks", "ralph.hooks.handler", "ralph.lean.discovery",
    "ralph.lean.secret_prefilter", "ralph.lean.secret_rules", "ralph.lean.hook_files", "ralph.lean.open_files",
    "__future__", "errno", "gc", "os", "os.path", "stat", "_stat", "_collections_abc", "posixpath", "genericpath", "fcntl",
}  # fmt: skip
TOOL_CALLS = {"ralph.lean.taint", "ralph.lean.foreign_commands"}
RULES = {"ralph.privacy"} | {
    f"ralph.privacy.{name}"
    for name in (
        "assignment_places",
        "redactor",
        "private_parts",
        "json_values",
        "hook_payloads",
        "assignment_values",
        "assignments",
        "harmless_values",
        "passwords",
        "privacy",
        "secret_context",
        "secret_names",
        "secret_phrases",
        "secret_values",
        "secrets",
        "word_splitters",
    )
}
ANSWERING = {
    "ralph.core", "ralph.privacy", "ralph.storage",
    "ralph.hooks.answer", "ralph.storage.hook_index", "ralph.storage.index_schema", "ralph.storage.lookup", "ralph.storage.record_filters",
    "ralph.storage.supersession", "ralph.recall", "ralph.recall.eligibility", "ralph.recall.shown_records",
    "ralph.core.render", "ralph.privacy.injection", "ralph.core.tokens", "ralph.core.prompts", "ralph.core.family",
    "ralph.search", "ralph.search.rank", "ralph.search.candidates", "ralph.search.scoring", "ralph.search.question",
    "ralph.core.terms",
}  # fmt: skip
FOR_PROMPTS = {
    "ralph.core.remember",
    "ralph.recall.one_line",
    "ralph.recall.passage_search",
    "ralph.recall.pointers",
    "ralph.recall.relevance",
    "ralph.search.background",
    "ralph.recall.passages",
    "ralph.recall.prompt_recall",
}
FOR_FAILURES = {
    "ralph.capture",
    "ralph.capture.error_lines",
    "ralph.capture.uninformative_lines",
    "ralph.core.programs",
    *(
        f"ralph.recall.{name}"
        for name in ("action_recall", "lessons", "file_mentions", "command_lines", "error_features")
    ),
}
REPORT = """
import sys
before = set(sys.modules)
import os
def leave(code, write=os.write, end=os._exit):
    write(1, " ".join(sorted(set(sys.modules) - before)).encode())
    end(code)
os._exit = leave
sys.argv = sys.argv[1:]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {"__name__": "__main__", "__file__": sys.argv[0]})
"""
"""Runs the stub as the interpreter would, and prints at its end what it had loaded."""


def loaded(here: World, event: str, stdin: bytes) -> tuple[str, set[str]]:
    """What an event prints, and the modules that it loads."""
    command = [sys.executable, "-I", "-S", "-c", REPORT, str(HOOKS / "run.py"), "claude", event]
    done = subprocess.run(command, input=stdin, env=here.env, capture_output=True, check=True)
    assert done.stderr == b""
    printed = done.stdout.decode()
    if not printed.startswith("{"):
        return "", set(printed.split())
    answer, end = json.JSONDecoder().raw_decode(printed)
    return answer["hookSpecificOutput"]["additionalContext"], set(printed[end:].split())


@pytest.mark.parametrize("event", ["PostToolUse", "SubagentStop"])
@pytest.mark.parametrize("text", ["40 passed", "안녕하세요", "é"])
def test_a_recording_event_loads_few_modules(tmp_path: Path, event: str, text: str) -> None:
    here = world(tmp_path)
    printed, names = loaded(here, event, payload(event, note=text))
    assert printed == ""
    assert names - TOOL_CALLS == RECORDING
    assert (names >= TOOL_CALLS) is (event == "PostToolUse")
    assert len(here.lines()) == 1


@pytest.mark.parametrize("config", [None, "memories:\n  budget: 900\n"], ids=["none", "changed"])
def test_an_event_without_a_current_cache_loads_no_more(tmp_path: Path, config: str | None) -> None:
    here = world(tmp_path)
    if config is None:
        recorder.cache_file(here.root).unlink()
    else:
        (here.root / "ralph.yml").write_text(config, encoding="utf-8")
    assert loaded(here, "PostToolUse", payload()) == ("", RECORDING | TOOL_CALLS)
    assert len(here.lines()) == 1


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_an_event_after_a_broken_config_file_was_noticed_loads_no_more(
    tmp_path: Path, text: str
) -> None:
    here = world(tmp_path)
    (here.root / "ralph.yml").write_bytes(os.fsencode(text))
    patient_hook("Stop", payload("Stop"), here.env)
    answer, names = loaded(here, "PostToolUse", payload(tool_response={}))
    assert answer == ""
    assert not names & HEAVY


def test_a_read_loads_no_rules_whatever_was_read(tmp_path: Path) -> None:
    here = world(tmp_path)
    answer = {"file": {"content": "PASSWORD=hunter2x9\n" * 3_000}}
    read: dict[str, Any] = {
        "tool_name": "Read",
        "tool_input": {"file_path": "a.py"},
        "tool_response": answer,
    }
    assert loaded(here, "PostToolUse", payload(**read)) == ("", RECORDING | {"ralph.lean.taint"})
    assert "hunter2" not in here.log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text", ["PASSWORD=hunter2x9", "<private>x</private> y", "tests PASSED\n" * 9_000, "\x1b[1m"]
)
def test_an_event_that_needs_the_rules_loads_nothing_heavy(tmp_path: Path, text: str) -> None:
    here = world(tmp_path)
    _, names = loaded(here, "PostToolUse", payload(tool_response={"stdout": text}))
    assert names >= RECORDING | RULES | {"re", "json"}
    assert ("signal" in names) == (len(text) > 16_384)  # a timer is for what may take long
    assert not names & HEAVY
    with_timer = (
        RECORDING | TOOL_CALLS | RULES | {"ralph.core", "ralph.core.alarms", "ralph.core.errors"}
    )
    assert {name for name in names if name.startswith("ralph")} <= with_timer


@pytest.mark.parametrize(
    ("event", "members", "more"),
    [
        ("UserPromptSubmit", {"prompt": "rotate the jwt refresh tokens"}, FOR_PROMPTS),
        (
            "PostToolUseFailure",
            {"tool_input": {"command": "x"}, "error": "EADDRINUSE"},
            FOR_FAILURES,
        ),
    ],
)
def test_an_answering_event_loads_sqlite_and_the_search(
    tmp_path: Path, event: str, members: dict[str, object], more: set[str]
) -> None:
    here = world(tmp_path)
    (here.root / ".agent").mkdir()
    (here.root / ".agent" / "memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    index.sync(here.root)
    text, names = loaded(here, event, payload(event, **members))
    assert (JWT in text) is (event == "UserPromptSubmit")
    assert text
    assert names >= ANSWERING | more | {"sqlite3", "re"}
    assert not names & (HEAVY | SLOW_TO_LOAD)
    assert {name for name in names if name.startswith("ralph")} <= (
        RECORDING | TOOL_CALLS | ANSWERING | more
    )


def test_a_prompt_loads_the_classifier_only_for_what_is_not_judged(tmp_path: Path) -> None:
    here = world(tmp_path)
    asked = payload("UserPromptSubmit", prompt="make the marmoset daemon listen on a port")
    patient_hook("UserPromptSubmit", asked, here.env)
    said = "The marmoset daemon listens on port 4477 now."
    patient_hook("Stop", payload("Stop", last_assistant_message=said), here.env)
    question = {"session_id": "another", "prompt": "which port has the marmoset daemon?"}
    text, names = loaded(here, "UserPromptSubmit", payload("UserPromptSubmit", **question))
    assert said in text
    assert CLASSIFIER not in names
    index.of(here.root).rebuild()
    question["session_id"] = "a third"
    text, names = loaded(here, "UserPromptSubmit", payload("UserPromptSubmit", **question))
    assert said in text
    assert CLASSIFIER in names


def test_a_session_start_loads_neither_the_distillation_nor_the_loop(tmp_path: Path) -> None:
    here = world(tmp_path)
    (here.root / ".agent").mkdir()
    (here.root / ".agent" / "memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    # The first session of a project counts the sessions that could be imported.
    first = payload("SessionStart", session_id="first", source="startup")
    patient_hook("SessionStart", first, here.env)
    _, names = loaded(here, "SessionStart", payload("SessionStart", source="startup"))
    assert names & {"ralph.learning.learn", "ralph.core.work"} == set()


def test_an_event_outside_of_projects_loads_no_more_than_recording(tmp_path: Path) -> None:
    here = World(tmp_path / "none", tmp_path / "home")
    here.root.mkdir()
    for event in ("PostToolUse", "Stop", "SessionStart"):
        assert loaded(here, event, payload(event))[1] <= RECORDING
