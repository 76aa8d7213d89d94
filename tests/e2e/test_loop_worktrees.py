"""A task with stories in a worktree, on the real Claude Code with the permission that the loop gives it by default."""

import json

import pytest
from tests.e2e.clients import Claude
from tests.e2e.loops import Looping, begun, claim, on_path
from tests.e2e.ralphs import bash, write
from tests.e2e.scripted import say, use
from tests.support.git import git

pytestmark = pytest.mark.e2e

STORIES = {
    "project": "Till",
    "userStories": [
        {"id": "US-001", "title": "The total is right", "priority": 1, "passes": False},
        {"id": "US-002", "title": "The change is right", "priority": 2, "passes": False},
        {"id": "US-003", "title": "The receipt is right", "priority": 3, "passes": False},
    ],
}
MARKED = '"title": "The total is right", "priority": 1, "passes": '


@pytest.fixture
def looping(claude: Claude) -> Looping:
    """A repository with one commit, and Claude Code as the agent."""
    on_path(claude, claude.program, "claude")
    claude.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.com\n").rename(
        claude.home / ".gitconfig"
    )
    claude.write("till.py", "")
    git(claude.project, "init", "-q", "-b", "main")
    git(claude.project, "add", "-A")
    git(claude.project, "commit", "-q", "-m", "first")
    return begun(claude, "--agent", "claude")


def test_an_agent_ticks_stories_in_both_ways_and_commits(looping: Looping) -> None:
    given = looping.client.write("stories.json", json.dumps(STORIES))
    said = looping.ralph("task", "add", "till", "--prd", given, "--worktree", "--format", "json")
    task = json.loads(said)["id"]
    folder = looping.project / ".worktrees" / task
    prd = looping.project / ".ralph" / "tasks" / task / "prd.json"
    looping.script(
        1,
        use("Read", file_path=str(prd)),
        use(
            "Edit",
            file_path=str(prd),
            old_string=f"{MARKED}false",
            new_string=f"{MARKED}true",
        ),
        write(folder / "total.py", "total = sum\n"),
        bash("git add -A && git commit -q -m 'Add the total'"),
        say("The first story is done."),
    )
    looping.script(2, say("The second one as well.\n\n<story-done>US-002</story-done>"))
    looping.script(3, claim("<story-done>US-003</story-done>"))

    run = looping.run("--task", task, "-c", "none", "--no-verify")

    assert run.code == 0, run.errors
    assert looping.server.unscripted == []
    assert "refused" not in run.errors
    prompts = [looping.asked(number).text for number in (1, 2, 3)]
    assert "- [ ] US-001" in prompts[0]
    assert ["- [x] US-001" in prompt for prompt in prompts] == [False, True, True]
    assert ["- [x] US-002" in prompt for prompt in prompts] == [False, False, True]
    assert "story US-002 is done" in run.errors
    assert "Add the total" in git(folder, "log", "--format=%s")
    assert git(folder, "status", "--porcelain", "total.py") == ""
    progress = prd.with_name("progress.txt").read_text(encoding="utf-8")
    assert [name in progress for name in ("US-001", "US-002", "US-003")] == [True] * 3
    looping.ralph("task", "merge", task)
    assert (looping.project / "total.py").exists()


def test_another_folder_of_the_main_checkout_stays_closed(looping: Looping) -> None:
    task = json.loads(looping.ralph("task", "add", "till", "--worktree", "--format", "json"))["id"]
    looping.script(1, write(looping.project / "other.py", "x = 1\n"), claim())
    run = looping.run("--task", task, "-c", "none", "--no-verify")
    assert run.code == 0, run.errors
    assert "refused: Write" in run.errors
    assert not (looping.project / "other.py").exists()
