"""The slash commands that add memories and learn: what they promise is what Ralph does."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.distilling import LESSON, answer, proposed, record_session
from tests.support.runner import command, executable
from tests.support.world import World, handled, payload, world

from ralph.install.slash_commands import SLASH_COMMANDS, slash_command
from ralph.mcp.tools import TOOLS

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def allowed_tools(name: str) -> list[str]:
    found = re.search(r'^allowed-tools: "(.*)"$', slash_command(name), re.MULTILINE)
    if found is None:
        return []
    return found[1].split(", ")


# --- /mem-add ------------------------------------------------------------------------------------


def note_about(here: World, prompt: str) -> str:
    """Send a prompt to the hook, and return what it injects."""
    members = payload("UserPromptSubmit", session_id="s-1", cwd=str(here.root), prompt=prompt)
    return handled(here.env, "UserPromptSubmit", members).decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("Deploys go through make ship.", "remembered", id="new"),
        pytest.param("Use pnpm here.", "already says that", id="known"),
        pytest.param(f"The token is {TOKEN}", "not remembered", id="a secret"),
    ],
)
@pytest.mark.parametrize("name", ["/mem-add", "/ralph:mem-add"])
def test_the_hooks_note_is_what_the_command_says_it_is(
    here: World, name: str, text: str, said: str
) -> None:
    note_about(here, "/mem-add Use pnpm here.")
    printed = note_about(here, f"{name} {text}")
    assert "[ralph] Ralph: " in printed
    assert said in printed
    assert f"`{said}`" in slash_command("mem-add")
    assert "`[ralph] Ralph:`" in slash_command("mem-add")


def test_without_a_text_the_hook_has_no_note(here: World) -> None:
    assert "Ralph: " not in note_about(here, "/mem-add")
    assert "If there is no such note, nothing was stored" in slash_command("mem-add")


def test_adding_needs_no_tool() -> None:
    assert allowed_tools("mem-add") == []


# --- /mem-learn ----------------------------------------------------------------------------------


def test_learning_may_print_a_prompt_and_apply_an_answer_but_start_no_agent() -> None:
    commands = [tool for tool in allowed_tools("mem-learn") if tool.startswith("Bash")]
    assert [re.sub(r" --budget \d+", "", tool) for tool in commands] == [
        "Bash(ralph slash learn --dry-run:*)",
        "Bash(ralph learn --apply:*)",
    ]
    tools = [tool for tool in allowed_tools("mem-learn") if tool.startswith("mcp__")]
    assert {tool.rpartition("__")[2] for tool in tools} == {"memory_learn"}
    assert "memory_learn" in TOOLS


def shell_blocks(name: str, ralph: str) -> list[str]:
    """Return the commands that a slash command runs or shows, in their order."""
    blocks = re.findall(r"```!?\n(.*?)```", slash_command(name, ralph), re.DOTALL)
    return [re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in blocks]


def run_shell(here: World, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script],
        cwd=here.root,
        env={**os.environ, **here.env},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_commands_of_learning_work_as_they_are_written(here: World) -> None:
    record_session(here.root)
    [print_prompt, apply] = shell_blocks("mem-learn", " ".join(command()))
    prompt = run_shell(here, print_prompt)
    assert prompt.returncode == 0
    last_line = prompt.stdout.splitlines()[-1]
    until = last_line.rpartition("--until ")[2]
    text = 'It\'s `make ship` that costs $HOME, and "cents" are integers: floats lose money.'
    json_answer = answer(text)
    applied = run_shell(
        here, apply.replace("TIME", until).replace('{"memories": [...]}', json_answer)
    )
    assert applied.returncode == 0, applied.stderr
    assert "1 proposal(s). Decide with `ralph review`." in applied.stdout
    assert proposed(here.root) == [text]
    assert run_shell(here, print_prompt).stdout == "Nothing was recorded since the last time.\n"


def test_the_digest_of_learning_fits_into_what_claude_code_shows_of_a_command(here: World) -> None:
    words = "and this is why the totals of the invoices are rounded at the very end " * 20
    for number in range(1, 40):
        record_session(here.root, name=f"session-{number}", minute=number, quote=words)
    [print_prompt, _] = shell_blocks("mem-learn", " ".join(command()))
    prompt = run_shell(here, print_prompt).stdout
    assert "# This is prompt 1 of " in prompt
    assert 15_000 < len(prompt) < 30_000


@pytest.mark.parametrize("name", SLASH_COMMANDS)
def test_no_command_may_run_everything_that_ralph_can(name: str) -> None:
    for tool in allowed_tools(name):
        assert not re.fullmatch(r"Bash\(ralph(?: slash)?(?: learn)?:\*\)", tool)


def test_an_answer_that_ralph_applied_is_not_recorded_as_news(here: World) -> None:
    record_session(here.root)
    [_, apply] = shell_blocks("mem-learn", "ralph")
    script = apply.replace('{"memories": [...]}', answer())
    members = payload(
        "PostToolUse",
        session_id="s-2",
        cwd=str(here.root),
        tool_name="Bash",
        tool_input={"command": script},
        tool_response={"stdout": f"ins-1  decision  {LESSON}"},
    )
    handled(here.env, "PostToolUse", members)
    found = executable(here.root, "search", LESSON, "--all", "--format", "json", env=here.env)
    assert LESSON not in found.stdout.decode()
