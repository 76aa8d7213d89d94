"""What must never be on the disk, on the real Claude Code: private sections, secrets, and all of it when switched off.

Whatever is private or secret is made up here, piece by piece, so that this file holds none. It is looked for in
every file of Ralph's in the project (the index and what stands beside it too), in the user's state folder and in
the temporary folder of the run; the client's own transcript is its own affair. What stands around it must be there.
"""

import json
import shlex
from pathlib import Path

import pytest
from tests.e2e.clients import Claude
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, bash, printed, went_well, write
from tests.e2e.scripted import Reply, say, use

from ralph.lean import discovery

pytestmark = pytest.mark.e2e

PRIVATE = "zanzibar" + "lagoon"
TOKEN = "ghp_" + "Zk3vQ9xWb7LmT2cRf8Ny" + "H5pJd4Gs6VaE1uKo"
PASSWORD = "Vq7!" + "mar" + "Gold92"
SECRETS = (PRIVATE, TOKEN, TOKEN[:24], TOKEN[-16:], PASSWORD)


@pytest.fixture
def ralph(claude: Claude) -> Ralph:
    """A project that remembers, and Claude Code with Ralph's hooks in the project's local settings."""
    return Ralph(claude).begin(scope="local")


def shown(claude: Claude, name: str, text: str, *, code: int = 0) -> Reply:
    """A step that prints a text which is not in the command itself, and exits with this code."""
    file = claude.home.parent / name
    file.write_text(text, encoding="utf-8")
    return bash(f"cat {shlex.quote(str(file))}; exit {code}")


def leaks(ralph: Ralph) -> list[str]:
    """The files of Ralph's, wherever they are, that hold something which they must not."""
    client = ralph.client
    others = [
        path
        for top in (client.home / ".local", client.temporary)
        for path in top.rglob("*")
        if path.is_file()
    ]
    own = [path for path in others if b"ralph" in path.read_bytes()[:200] or "ralph" in path.name]
    found = [
        str(path) for path in own if any(secret.encode() in path.read_bytes() for secret in SECRETS)
    ]
    return ralph.holding(*SECRETS) + found


def test_private_parts_and_secrets_reach_the_model_and_never_the_disk_or_the_next_session(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    around = "refactor the login form"
    messages.script(
        shown(claude, "a", f"before it\n<private>{PRIVATE}</private>\nafter it\n"),
        shown(claude, "b", f"pushed with {TOKEN}\nto the mirror\n"),
        shown(claude, "c", f"login failed: password={PASSWORD}\n", code=3),
        shown(
            claude,
            "d",
            "padding\n" * 4_000 + f"export GITHUB_TOKEN={TOKEN}\n" + "padding\n" * 4_000,
        ),
        shown(claude, "e", f"so far so good <PRIVATE>{PRIVATE} and no end\n"),
        bash(f"GITHUB_TOKEN={TOKEN} true"),
        write(
            claude.project / "deploy.sh", f"#!/bin/sh\n# a comment\nexport GITHUB_TOKEN={TOKEN}\n"
        ),
        use(
            "Edit",
            file_path=str(claude.project / "deploy.sh"),
            old_string="# a comment",
            new_string="# a change",
        ),
        use("Read", file_path=str(claude.project / "deploy.sh")),
        say(
            f"I used {TOKEN}, and <private>{PRIVATE}</private> stays between us. The form is done."
        ),
    )

    run = claude.run(f"{around} <private>the code name is {PRIVATE}</private> with {TOKEN}, soon")

    went_well(run)
    assert PRIVATE in run.requests[0].text
    assert TOKEN in run.requests[0].text
    assert leaks(ralph) == []
    assert set(ralph.holding(around)) == {f"log/sessions/{run.session}.jsonl", "ralph.db"}
    texts = [each.text for each in ralph.observations(run.session)]
    assert len(texts) == 11
    assert around in texts[0]
    assert "soon" in texts[0]
    assert "before it" in texts[1]
    assert "after it" in texts[1]
    assert "to the mirror" in texts[2]
    assert "login failed" in texts[3]
    assert "padding" in texts[4]
    assert "so far so good" in texts[5]
    assert "# a change" in texts[8]
    assert texts[9].strip() == "deploy.sh"
    assert "The form is done." in texts[10]
    ralph("index", "sync", "--rebuild")
    assert leaks(ralph) == []
    messages.script(say("OK"))
    after = claude.run("what about the login form?")
    [brief] = printed(after, "SessionStart")
    assert around in brief
    assert [TOKEN in after.requests[0].text, PRIVATE in after.requests[0].text] == [False, False]
    assert leaks(ralph) == []


def test_the_users_own_patterns_and_paths_are_kept_out_too(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    with (ralph.project / "ralph.yml").open("a", encoding="utf-8", newline="") as file:
        file.write(f"privacy:\n  patterns: ['{PRIVATE[:4]}[a-z]+']\n  paths: ['vault/**']\n")
    messages.script(
        bash(f"echo the word {PRIVATE} was said"),
        write(claude.project / "vault/plan.txt", "buy the island\n"),
        bash("cat vault/plan.txt"),
        say("DONE"),
    )

    run = claude.run("look at the plan")

    went_well(run)
    assert ralph.holding(PRIVATE, "buy the island") == []
    assert [each.title.split(":")[0] for each in ralph.observations(run.session)] == [
        "prompt",
        "Bash",
        "answer",
    ]


def test_nothing_is_written_or_injected_while_ralph_is_switched_off(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember("The importer needs port 5432.", "fix")
    steps = bash("echo one"), bash("exit 1"), say("DONE")
    messages.script(*steps, *steps, say("AGAIN"))
    for env in ({"RALPH_DISABLE": "1"}, None):
        if env is None:
            ralph("capture", "off")
        before = ralph.files()

        run = claude.run("what needs port 5432?", env=env)

        went_well(run)
        assert {each["stdout"] for each in run.hooks} == {""}
        assert ralph.files() == before
    ralph("capture", "on")
    claude.run("what needs port 5432?")
    assert len(messages.reached("The importer needs port 5432.")) == 1
    assert len(ralph.sessions()) == 1


def test_a_folder_without_ralphs_files_is_left_alone(
    claude: Claude, messages: MessagesServer
) -> None:
    ralph = Ralph(claude)
    (claude.project / ".git").mkdir()
    (claude.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    ralph("install", "claude")
    above = claude.project.parent / ".ralph"
    above.mkdir()
    messages.script(bash("echo one"), bash("exit 1"), say("DONE"))

    run = claude.run("do it")

    went_well(run)
    said = [each["stdout"] for each in run.hooks if each["stdout"]]
    assert [json.loads(line) for line in said] == [{"systemMessage": discovery.NOT_SET_UP}]
    assert sorted(path.name for path in claude.project.iterdir()) == [".git"]
    assert listing(above) == []


def listing(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
