"""Chats on the real Claude Code: a plan that writes nothing, work, going on, and one history whoever recorded it.

`ralph session ...` is a process as a person starts it, with the client's clean environment, and finds the client on
the PATH. The hooks are installed where a test says so.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.clients import Claude
from tests.e2e.loops import begun, claim, on_path
from tests.e2e.ralphs import Ralph, bash, write
from tests.e2e.scripted import refuse, say, use
from tests.support.project_files import files

pytestmark = pytest.mark.e2e

TITLE = "split the till from the printer"


@dataclass
class Chats:
    """A project with a task, and `ralph session` in it."""

    client: Claude
    ralph: Ralph
    task: str

    @property
    def project(self) -> Path:
        return self.client.project

    def json(self, *words: object) -> Any:
        """What a command prints as JSON; one that starts an agent is a process of its own."""
        command = self.ralph.start if words[0] == "chat" else self.ralph
        return json.loads(command("session", *words, "--format", "json"))

    def new(self, message: str, mode: str = "agent", *words: str) -> Any:
        return self.json(
            "chat", "--task", self.task, "--mode", mode, "--agent", "claude", *words, message
        )

    def notes(self, session: str) -> list[tuple[str, str]]:
        """What is recorded of what was said, in its order."""
        said = self.json("show", session, "--layer", "3")["hits"]
        return [(each["title"], each["text"]) for each in said if each["type"] == "note"]


def made(client: Claude, *, hooks: bool) -> Chats:
    on_path(client, client.program, "claude")
    ralph = Ralph(client)
    ralph("init")
    if hooks:
        ralph("install", "claude", "--scope", "user", "--no-mcp")
    task = json.loads(ralph("task", "add", TITLE, "--format", "json"))["id"]
    client.write("till.py", "old = 1\n")
    return Chats(client, ralph, task)


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.soak)], ids=["with hooks", "without hooks"]
)
def chats(request: pytest.FixtureRequest, claude: Claude) -> Chats:
    """The same with and without hooks: what is recorded and shown must be the same."""
    return made(claude, hooks=request.param)


@pytest.fixture
def hooked(claude: Claude) -> Chats:
    """With hooks in the user's settings."""
    return made(claude, hooks=True)


def edit(chats: Chats) -> Any:
    file = str(chats.project / "till.py")
    return use("Edit", file_path=file, old_string="old = 1", new_string="new = 2")


def tries(chats: Chats) -> list[Any]:
    """Everything by which a model could write."""
    till = chats.project / "till.py"
    return [
        use("Read", file_path=str(till)),
        edit(chats),
        write(chats.project / "made.txt", "x\n"),
        bash("echo x > made-too.txt"),
        use("NotebookEdit", notebook_path=str(chats.project / "a.ipynb"), new_source="x"),
        use("ExitPlanMode", plan="now write"),
    ]


def test_a_plan_writes_nothing_though_the_model_tries_and_the_user_allows_it(chats: Chats) -> None:
    chats.client.settings({"permissions": {"allow": ["Bash", "Write", "Edit"]}}, scope="project")
    before = files(chats.project)
    chats.client.server.script(*tries(chats), say("THE PLAN"))
    done = chats.new("How would you do it?", "plan", "--permission", "bypass")
    assert (done["mode"], done["text"], done["files"], done["stop"]) == (
        "plan",
        "THE PLAN",
        [],
        "end_turn",
    )
    assert files(chats.project) == before

    chats.client.server.script(*tries(chats), say("STILL A PLAN"))
    again = chats.json("chat", done["id"], "--permission", "bypass", "And now do it.")
    assert (again["id"], again["mode"], again["text"], again["files"]) == (
        done["id"],
        "plan",
        "STILL A PLAN",
        [],
    )
    assert files(chats.project) == before
    assert chats.client.server.finished(), "the model did try"
    assert chats.client.server.unscripted == []
    [listed] = chats.json("list", "--task", chats.task)
    assert (listed["mode"], listed["task"], listed["messages"]) == ("plan", chats.task, 4)


def test_an_agent_works_and_a_resumed_one_sees_the_earlier_turn(chats: Chats) -> None:
    server = chats.client.server
    server.script(
        use("Read", file_path=str(chats.project / "till.py")), edit(chats), say("FIRST ANSWER")
    )
    done = chats.new("The word is PELICAN.")
    assert (chats.project / "till.py").read_text(encoding="utf-8") == "new = 2\n"
    assert (done["files"], done["recorded"]) == (["till.py"], True)
    assert TITLE in server.requests[0].text, "the agent knows what it is about"
    server.script(say("SECOND ANSWER"))
    again = chats.json("chat", done["id"][:8], "Which word?")

    assert (again["id"], again["text"]) == (done["id"], "SECOND ANSWER")
    last = server.requests[-1].text
    assert "PELICAN" in last
    assert "FIRST ANSWER" in last
    assert chats.notes(done["id"]) == [
        ("prompt", "The word is PELICAN."), ("answer", "FIRST ANSWER"),
        ("prompt", "Which word?"), ("answer", "SECOND ANSWER"),
    ]  # fmt: skip
    told = chats.json("show", done["id"], "--conversation")["messages"]
    assert [(each["role"], each["text"]) for each in told] == [
        ("user", "The word is PELICAN."), ("assistant", "FIRST ANSWER"),
        ("user", "Which word?"), ("assistant", "SECOND ANSWER"),
    ]  # fmt: skip
    assert [tool["title"] for tool in told[1]["tools"]][-1] == "Edit till.py"
    page = chats.ralph("session", "show", done["id"], "--conversation")
    assert "2 tools: Read till.py, Edit till.py" in page
    assert page.startswith("# The word is PELICAN.\n")
    assert page.count("## User (") == page.count("## Assistant (") == 2
    found = json.loads(chats.ralph("search", "PELICAN", "--format", "json"))
    assert len([hit for hit in found["hits"] if "PELICAN" in hit["text"]]) == 1, (
        "nothing is recorded twice"
    )


def test_what_hooks_observe_carries_the_task(hooked: Chats) -> None:
    hooked.client.server.script(bash("echo one-and-twenty"), say("DONE"))
    done = hooked.new("Count.", "agent", "--permission", "bypass")
    lines = [
        json.loads(line)
        for line in hooked.ralph.log(done["id"]).read_text(encoding="utf-8").splitlines()
    ]
    tasks = [
        line.get("task") or line.get("origin", {}).get("task")
        for line in lines
        if line["type"] != "session"
    ]
    assert tasks == [hooked.task] * 5, "the start, the prompt, the command, the answer and the end"
    assert not any("run" in line for line in lines)
    assert hooked.ralph.injections(done["id"]) == []


def test_a_session_that_its_host_has_lost_is_told(chats: Chats) -> None:
    server = chats.client.server
    server.script(say("FIRST ANSWER"))
    done = chats.new("The word is PELICAN.", "plan")
    for path in (chats.client.home / ".claude/projects").rglob("*.jsonl"):
        path.unlink()
    before = chats.notes(done["id"])
    lost = chats.ralph.call("session", "chat", done["id"], "Which word?")
    assert lost.returncode == 1
    assert f"claude no longer knows the session {done['id']}" in lost.stderr
    assert f"ralph session chat --task {chats.task}" in lost.stderr
    assert chats.notes(done["id"]) == before, "what nobody heard is not recorded"


def test_a_secret_that_is_said_reaches_no_file_and_a_long_answer_is_shown_whole(
    chats: Chats,
) -> None:
    secret = "ghp_" + "9fQ2mX7vLr4Kt8Zb" + "Wc1Ny6HsDe3Jp5Ga0Ru2"
    plan = "\n".join(f"Step {number}: {'do something useful ' * 3}" for number in range(200))
    chats.client.server.script(say(f"{plan}\nThe token is {secret}."))
    done = chats.new(f"My token is {secret}, what now?", "plan")
    assert chats.ralph.holding(secret) == []
    told = chats.json("show", done["id"], "--conversation")["messages"]
    assert "Step 100: do something" in told[1]["text"]
    assert "[redacted: " in told[1]["text"]
    assert "[redacted: " in told[0]["text"]


def test_a_model_that_refuses_leaves_a_clear_error(chats: Chats) -> None:
    chats.client.server.script(*[refuse(401)] * 5)
    done = chats.ralph.call("session", "chat", "--task", chats.task, "--agent", "claude", "Hello?")
    assert done.returncode == 1
    assert "claude did not finish its answer" in done.stderr
    assert "401" in done.stderr


def test_the_loops_sessions_belong_to_the_task_and_can_be_resumed(claude: Claude) -> None:
    on_path(claude, claude.program, "claude")
    looping = begun(claude, "--agent", "claude")
    looping.server.script(claim("The word is PELICAN."), when="mend the printer")
    run = looping.run("mend the printer", "-c", "none", "--no-verify")
    assert run.code == 0, run.errors
    [entry] = looping.journal()
    chats = Chats(claude, looping.ralph, entry.task)
    [listed] = chats.json("list", "--task", entry.task)
    assert listed["id"] == entry.session
    looping.server.script(say("IT WAS PELICAN"))
    again = chats.json("chat", entry.session, "Which word?")
    assert (again["id"], again["task"], again["text"]) == (
        entry.session,
        entry.task,
        "IT WAS PELICAN",
    )
    assert "The word is PELICAN." in looping.server.requests[-1].text
