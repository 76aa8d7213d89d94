"""Ralph does not remember itself: its commands, its tools and the answers to them are recorded, but never found."""

import json
from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.world import World, handled, payload, world

from ralph.core import paths
from ralph.core.record import Outcome
from ralph.core.work import JournalEntry
from ralph.formats.sigils import read_sigils
from ralph.learning import promotion, task_insights
from ralph.recall import journal


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def send(
    here: World, event: str, session: str = "s-1", host: str = "claude", **members: object
) -> str:
    """Send an event to the public handler, and return what it injects."""
    printed = handled(
        here.env, event, payload(event, session_id=session, cwd=str(here.root), **members), host
    )
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"]) if printed else ""


def run_command(here: World, command: str, session: str = "s-1", output: str = "zebra") -> None:
    send(
        here,
        "PostToolUse",
        session,
        tool_input={"command": command},
        tool_response={"stdout": output},
    )


def hits(here: World, words: str = "zebra") -> list[str]:
    found = Project(here.root)("search", words, "--all", "--format", "json").json["hits"]
    return [f"{hit['title']}|{hit['text']}" for hit in found]


def brief(here: World) -> str:
    return send(here, "SessionStart", "s-next", source="startup")


@pytest.mark.parametrize(("host", "event", "prompt"), [
    ("claude", "UserPromptSubmit", "/mem-search zebra"),
    ("claude", "UserPromptSubmit", "/ralph:mem-search zebra"),
    ("claude", "UserPromptSubmit", "/ralph start paint the zebra"),
    ("claude", "UserPromptSubmit", "/mem-forget zebra"),
    ("codex", "UserPromptSubmit", "/prompts:mem-inject zebra"),
    ("codex", "UserPromptSubmit", "$mem-search zebra"),
    ("gemini", "BeforeAgent", "/mem-search zebra"),
])  # fmt: skip
def test_a_session_that_only_called_ralph_is_not_remembered(
    here: World, host: str, event: str, prompt: str
) -> None:
    end, answer = (
        ("AfterAgent", "prompt_response")
        if host == "gemini"
        else ("Stop", "last_assistant_message")
    )
    send(here, event, host=host, prompt=prompt)
    assert hits(here) == []  # the index is read in the middle of the turn, as `/mem-search` does
    send(here, end, host=host, **{answer: "The zebra is striped, says mem-1."})
    assert hits(here) == []
    assert Project(here.root)("search", "mem-1", "--format", "json").json["hits"] == []
    assert "Work in progress" not in brief(here)
    assert paths.session_log(here.root, "s-1").exists()


def test_work_after_a_command_of_ralph_is_remembered_with_its_answer(here: World) -> None:
    send(here, "UserPromptSubmit", prompt="/mem-search zebra")
    send(here, "Stop", last_assistant_message="Memory has nothing about a zebra.")
    send(here, "UserPromptSubmit", prompt="paint the zebra")
    send(here, "Stop", last_assistant_message="The zebra is uncommitted.")
    assert sorted(hits(here)) == ["answer|The zebra is uncommitted.", "prompt|paint the zebra"]
    assert ": paint the zebra. Open: The zebra is uncommitted." in brief(here)


def test_a_command_of_ralph_that_led_to_work_keeps_its_answer(here: World) -> None:
    send(here, "UserPromptSubmit", prompt="/mem-inject zebra")
    send(
        here,
        "PostToolUse",
        tool_name="Write",
        tool_input={"file_path": "zoo.py", "content": "zebra = 1"},
    )
    send(here, "Stop", last_assistant_message="The zebra has a file.")
    assert "answer|The zebra has a file." in hits(here)


@pytest.mark.parametrize("command", [
    "ralph search zebra",
    "/opt/tools/bin/ralph memory add 'a zebra'",
    "RALPH_TASK=t-1 python3 -I -m ralph search zebra",
    "env A=1 ralph search zebra 2>&1 | head -20",
    "cd src && ralph search zebra || true",
    "# what do we know?\nralph search zebra; echo ---; ralph memory list",
    "for id in zebra mem-2; do ralph memory show $id; done",
    "ralph memory add - <<'EOF'\nthe zebra && pytest\nEOF",
    "bash -lc 'ralph search zebra'",
    "uvx --from ralph-memory ralph search zebra",
])  # fmt: skip
def test_a_command_line_that_only_calls_ralph_is_not_remembered(here: World, command: str) -> None:
    run_command(here, command)
    send(here, "PostToolUseFailure", tool_input={"command": command}, error="Exit code 1\nzebra")
    assert hits(here) == []


@pytest.mark.parametrize("command", [
    "ralph search zebra && pytest",
    "bash -c 'ralph search zebra && pytest'",
    "ralph memory list | xargs rm zebra",
    "cat zebra.ralph",
    "./ralph-tests zebra",
    "pytest -k zebra",
])  # fmt: skip
def test_a_command_line_with_work_of_its_own_stays(here: World, command: str) -> None:
    run_command(here, command)
    assert any(command.partition("\n")[0][:20] in hit for hit in hits(here))


@pytest.mark.parametrize(("tool", "parameters", "stays"), [
    ("mcp__ralph__memory_search", {"query": "zebra"}, False),
    ("mcp__plugin_ralph_ralph__memory_add", {"text": "zebra"}, False),
    ("SlashCommand", {"command": "/mem-search zebra"}, False),
    ("Skill", {"skill": "ralph:mem-search", "args": "zebra"}, False),
    ("mcp__ralphael__paint", {"query": "zebra"}, True),
    ("Skill", {"skill": "zebra", "args": "paint"}, True),
])  # fmt: skip
def test_tools_of_ralph_are_not_remembered(
    here: World, tool: str, parameters: dict[str, object], stays: bool
) -> None:
    send(here, "PostToolUse", tool_name=tool, tool_input=parameters, tool_response="ok")
    assert bool(hits(here)) is stays


def test_a_prompt_that_begins_with_a_path_is_no_command(here: World) -> None:
    for number, prompt in enumerate(
        ("/ralph/zebra.py is broken", "$RALPH_ZEBRA is unset", "/memo zebra")
    ):
        send(here, "UserPromptSubmit", f"s-{number}", prompt=prompt)
        send(here, "Stop", f"s-{number}", last_assistant_message="Done.")
    assert len([hit for hit in hits(here) if hit.startswith("prompt|")]) == 3


def test_logs_of_earlier_versions_follow_the_same_rule(here: World) -> None:
    log = paths.session_log(here.root, "s-old")
    log.parent.mkdir(parents=True)
    lines = [
        {
            "id": "obs-1-a",
            "kind": "note",
            "title": "prompt",
            "text": "/mem-search zebra",
            "origin": {"by": "human"},
        },
        {
            "id": "obs-1-b",
            "kind": "note",
            "title": "answer",
            "text": "A zebra.",
            "origin": {"by": "agent"},
        },
    ]
    for line in lines:
        line["origin"]["session"] = "s-old"  # type: ignore[index]
    session = {
        "type": "session",
        "id": "s-old",
        "summary": "Goal: /mem-search zebra",
        "updated_at": "2026-11-15",
    }
    written = [
        {"v": 1, "type": "observation", "created_at": "2026-11-15T12:00:00Z", **line}
        for line in lines
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in (*written, {"v": 1, **session}))
    log.write_text(text, encoding="utf-8")
    assert hits(here) == []
    assert "Work in progress" not in brief(here)


LEARNED = "`zebra.py` needs a stripe before it is painted"
SIGILS = f"""Done.

<journal>
make_zebra(None) is empty now

Gotchas:
- {LEARNED}
</journal>
<knowledge tags="zoo" title="Zebra">stripes are in `zoo.toml`, one a line</knowledge>
<promise>COMPLETE</promise>"""


def test_sigils_are_no_words_of_the_agent(here: World) -> None:
    send(here, "UserPromptSubmit", prompt="paint the zebra")
    send(here, "Stop", last_assistant_message=SIGILS)
    assert "answer|Done." in hits(here, "Done")
    log = paths.session_log(here.root, "s-1").read_text(encoding="utf-8")
    assert "Last: Done." in log
    assert hits(here, "journal") == []


def test_what_the_loop_keeps_is_proposed_once_and_promoted_without_markup(here: World) -> None:
    ralph = Project(here.root)
    task_id = ralph("task", "add", "paint the zebra", "--format", "json").json["id"]
    for number in (1, 2):
        in_loop = {
            "RALPH_RUN": "run-1a2b3c4d",
            "RALPH_ITERATION": str(number),
            "RALPH_TASK": task_id,
        }
        sigils = read_sigils(SIGILS)
        send(
            World(here.root, here.home, in_loop),
            "Stop",
            f"s-{number}",
            last_assistant_message=SIGILS,
        )
        told = JournalEntry(
            "run-1a2b3c4d",
            number,
            Outcome.DONE,
            task_id,
            notes=sigils.journal,
            session=f"s-{number}",
        )
        journal.append(here.root, told)
    assert [each.text for each in task_insights.extract(here.root, task_id).added] == [LEARNED]
    promotion.promote_task(here.root, task_id)
    assert f"- {LEARNED}\n" in ralph.read(".ralph/global-patterns.md")
    assert "<" not in ralph.read(".ralph/global-patterns.md")


def test_an_insight_of_an_earlier_version_is_promoted_without_its_markup(here: World) -> None:
    ralph = Project(here.root)
    task_id = ralph("task", "add", "paint the zebra", "--format", "json").json["id"]
    texts = [
        f"Gotcha: {LEARNED}</journal> <promise>COMPLETE</promise>",
        "<promise>COMPLETE</promise>",
    ]
    stored = [
        {"id": f"ins-1705751400-a{number}", "kind": "fix", "text": text, "status": "accepted"}
        for number, text in enumerate(texts)
    ]
    text = json.dumps({"version": 1, "insights": stored})
    ralph.put(f".ralph/tasks/{task_id}/memory/insights.json", text)
    promoted = promotion.promote_task(here.root, task_id)
    assert ["tags for the loop" in why for _, why in promoted.skipped] == [True]
    assert f"- {LEARNED}\n" in ralph.read(".ralph/global-patterns.md")
    assert "<" not in ralph.read(".ralph/global-patterns.md")
