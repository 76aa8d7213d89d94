"""Ralph in the real Codex: the same first scenario, with the hooks that `ralph install codex` writes.

Codex has no event for a failed tool and no exit code of a command. It changes files by a tool that takes a patch
as free text, which it offers to models that it knows; the server here answers in that form. What was handed over
is looked for in the requests, since Codex tells only the model what its hooks print.
"""

import sys
import tomllib
from collections.abc import Iterator

import pytest
from tests.e2e.clients import Codex
from tests.e2e.ralphs import Ralph
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import say, use
from tests.support.codex_patches import PatchingServer, added

from ralph.core.prompts import INJECTED

pytestmark = pytest.mark.e2e

MODEL = ("-m", "gpt-5.5")
UNITTEST = f"{sys.executable} -m unittest test_auth"
DONE = (
    "JWT implementation completed: src/auth.ts signs with RS256, and a token lives for 15 minutes."
)
# Longer than the others of a crowded store, so that a brief without room for those has none for it.
GOTCHA = (
    "src/ledger.ts rounds half to even on purpose."
    + " The auditors asked for it, and the books rely on it." * 5
)


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    """A scripted model for Codex that patches files."""
    with PatchingServer() as server:
        yield server


@pytest.fixture
def ralph(codex: Codex) -> Ralph:
    """A project that remembers, and Codex with Ralph's hooks."""
    return Ralph(codex).begin("codex")


def test_what_a_session_did_reaches_the_next_one_that_names_its_file(
    codex: Codex, responses: ResponsesServer, ralph: Ralph
) -> None:
    codex.write(
        "test_auth.py", "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
    )
    source = 'export const sign = (id: string) => jwt.sign({ id }, key, { algorithm: "RS256" });'
    responses.script(
        added("src/auth.ts", source),
        use("exec_command", cmd=UNITTEST),
        say(DONE),
        say("OF COURSE"),
        say("AGAIN"),
    )
    first = codex.run("Add JWT authentication to src/auth.ts", *MODEL)
    assert first.code == 0, first.errors

    second = codex.run("modify auth.ts", *MODEL)

    assert (second.code, second.text) == (0, "OF COURSE"), second.errors
    seen = ralph.observations(first.session)
    assert [(each.kind, each.title) for each in seen] == [
        ("note", "prompt"),
        ("tool_use", "apply_patch src/auth.ts"),
        ("success", f"Bash: {UNITTEST}"),
        ("note", "answer"),
    ]
    [request] = second.requests
    assert request.text.count(INJECTED) == 2
    assert "Outcome: JWT implementation completed" in request.text
    assert f"agent: {DONE}" in request.text
    injections = ralph.injections(second.session)
    assert injections[0] == ("SessionStart", first.session)
    assert ("UserPromptSubmit", seen[-1].id) in injections
    assert [(each["host"], each["prompt"]) for each in ralph.sessions()] == [
        ("codex", "modify auth.ts"),
        ("codex", "Add JWT authentication to src/auth.ts"),
    ]
    third = codex.run("modify auth.ts again", *MODEL, resume=second.session)
    assert third.code == 0, third.errors
    handed = [record for _, record in ralph.injections(second.session)]
    assert len(handed) == len(set(handed)), "nothing is handed over twice in a session"


def test_a_gotcha_is_handed_over_before_its_file_is_patched(
    codex: Codex, responses: ResponsesServer, ralph: Ralph
) -> None:
    ralph.remember(GOTCHA, "decision")
    ralph.remember_many(60, "decision")
    responses.script(
        added("src/ledger.ts", "export {};"), added("src/other.ts", "export {};"), say("DONE")
    )

    run = codex.run("make the two files", *MODEL)

    assert (run.code, run.text) == (0, "DONE"), run.errors
    assert [request.text.count(GOTCHA) for request in run.requests] == [0, 1, 1]
    assert (codex.project / "src/ledger.ts").read_text(encoding="utf-8") == "export {};\n"


def test_what_a_person_asks_to_remember_is_a_memory(
    codex: Codex, responses: ResponsesServer, ralph: Ralph
) -> None:
    responses.script(say("NOTED"))
    codex.run("remember: deploys go through `make ship`", *MODEL)
    assert "deploys go through `make ship`" in ralph("memory", "list")


def test_uninstalling_leaves_the_hooks_file_as_it_was(
    codex: Codex, responses: ResponsesServer
) -> None:
    hooks = codex.home / ".codex/hooks.json"
    hooks.write_bytes(b'{ "hooks":{"Stop": [ ]} }')
    ralph = Ralph(codex).begin("codex")
    responses.script(say("DONE"))
    run = codex.run("do it", *MODEL)
    assert [each.title for each in ralph.observations(run.session)] == ["prompt", "answer"]

    ralph("uninstall", "codex")

    assert hooks.read_bytes() == b'{ "hooks":{"Stop": [ ]} }'


def test_uninstalling_works_after_codex_has_written_into_its_own_config(
    codex: Codex, responses: ResponsesServer
) -> None:
    config = codex.home / ".codex/config.toml"
    before = tomllib.loads(config.read_text(encoding="utf-8"))
    ralph = Ralph(codex)
    ralph("init")
    ralph("install", "codex")
    with config.open("a", encoding="utf-8") as file:  # as Codex does when a person trusts a project
        file.write(f'\n[projects."{codex.project}"]\ntrust_level = "trusted"\n')
    responses.script(say("DONE"))
    assert codex.run("do it", *MODEL).code == 0

    ralph("uninstall", "codex")

    after = tomllib.loads(config.read_text(encoding="utf-8"))
    assert after.pop("projects") == {str(codex.project): {"trust_level": "trusted"}}
    assert after == before
    assert not (codex.home / ".codex/hooks.json").exists()
