"""What a page says to do is something that can be done in a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import sample
from tests.support.asking import Site
from tests.support.sample import Sample

from ralph.core.errors import Hint, RalphError
from ralph.memory import knowledge
from ralph.web import requests

if TYPE_CHECKING:
    from ralph.core.errors import Clauses

TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
OPTION = re.compile(r"(?<![\w`-])--[a-z]")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Hint("find-record", '`ralph search "words"` shows the ids'), "search in Memory"),
        (
            ("leave the value out", Hint("allow-secret", "--allow-secret stores it anyway")),
            "leave the value out; or tick the box to store it anyway",
        ),
        (
            Hint("force", "--force promotes it anyway"),
            "tick the box to do it anyway, or change the text",
        ),
        (Hint("find-task", "`ralph task list` names them"), "search in Tasks"),
        (
            "the file is as it was; free some space and run again",
            "the file is as it was; free some space and try again",
        ),
        (
            "run `ralph doctor --fix` to give each its own id",
            "run `ralph doctor --fix` to give each its own id",
        ),
        ("uv tool install --force 'ralph[web]'", "uv tool install --force 'ralph[web]'"),
        ("`ralph config --files` lists the files", "`ralph config --files` lists the files"),
        (Hint("encode", "pass it as UTF-8, or from a file with --file"), "pass it as UTF-8"),
        ("look at it and run the command again", "look at it and try again"),
        ("", ""),
    ],
)
def test_a_hint_names_what_the_page_has(said: str | Hint | Clauses, told: str) -> None:
    assert requests.web_hint(RalphError("no", hint=said).clauses) == told


def test_the_command_line_keeps_the_words_of_a_hint() -> None:
    error = RalphError("no", hint=(Hint("force", "use --force"), "a backup is kept"))
    assert error.hint == "use --force; a backup is kept"
    assert str(error) == "no\n  use --force; a backup is kept"


@pytest.fixture
def shop(tmp_path: Path) -> Sample:
    return sample.copied(tmp_path / "shop")


def refusals(shop: Sample) -> list[dict[str, str]]:
    """Errors that a person can meet in the pages."""
    window = Site(shop.root)
    memory = shop.memories["redis"]
    long = knowledge.add(
        shop.root, "A long page", "All of it is said here. " * 90, ["long"]
    ).stored.record.id
    posted = [
        {"action": "add", "text": f"The token is {TOKEN}."},
        {"action": "edit", "id": memory, "text": f"The token is {TOKEN}."},
        {"action": "promote", "id": long, "to": "agents"},
        {"action": "promote", "id": memory, "to": "agents", "page": "x"},
        {"action": "promote", "id": memory, "to": "design", "page": "not-there"},
        {"action": "delete", "id": "mem-1-none"},
        {"action": "fly", "id": memory},
    ]
    asked = ["/api/records/none", "/api/tasks/t-none", "/api/sessions/none", "/api/runs/run-none",
             "/api/graph/neighbors?id=none"]  # fmt: skip
    answers = [window.posted("/api/changes/plan", **body) for body in posted]
    answers += [(there.status_code, there.json()) for there in map(window.client.get, asked)]
    assert all(status < 500 for status, _ in answers), answers
    errors = [answer["error"] for status, answer in answers if status >= 400]
    assert len(errors) >= 11
    return errors


def test_no_error_of_the_pages_names_an_option_of_the_command_line(shop: Sample) -> None:
    for error in refusals(shop):
        assert not OPTION.search(error["message"]), error
        assert not OPTION.search(error["hint"]), error


def test_a_secret_can_be_saved_with_the_override(shop: Sample) -> None:
    body = {"action": "add", "text": f"The token is {TOKEN}."}
    status, told = Site(shop.root).posted("/api/changes/plan", **body)
    assert (status, told["error"]["override"]) == (400, "allow_secret")
    assert Site(shop.root).post("/api/changes/plan", allow_secret=True, **body)["files"]


PAGES = Path(__file__).resolve().parents[2] / "src/ralph/web/static"


def test_sentences_of_the_pages_name_no_option() -> None:
    for path in [*PAGES.glob("pages/*.js"), *PAGES.glob("parts/*.js"), PAGES / "app.js"]:
        text = path.read_text(encoding="utf-8")
        bare = re.sub(
            r"^\s*(//|\*|/\*\*).*$", "", text, flags=re.MULTILINE
        )  # what is for readers of the code
        bare = re.sub(
            r"command(=|: )(\$\{`[^`]*`\}|'[^']*'|\"[^\"]*\")", "", bare
        )  # what can be copied
        bare = re.sub(
            r"[\"'`]--(plot|node|graph|hue|ink|line|accent|paper|surface|danger)[\w$-]*|var\(--",
            "",
            bare,
        )
        found = re.findall(r".*[\s\"'`(]--[a-z]+.*", bare)
        assert found == [], (path.name, found)
