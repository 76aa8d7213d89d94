"""A search does not find the prompt that asked for it."""

from pathlib import Path

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.runner import Project
from tests.support.world import World, world

PROMPT = "why does the zebra importer drop the last row"
SAME_WORDS = "--format", "json", PROMPT


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


@pytest.fixture
def project(here: World) -> Project:
    return Project(here.root)


def found(project: Project, *words: str) -> list[str]:
    return [hit["text"] for hit in project("search", *words).json["hits"]]


def test_the_prompt_of_an_open_turn_is_not_found_by_its_own_words(
    here: World, project: Project
) -> None:
    session = HookedSession(here, "s-1")
    session.prompt(PROMPT)
    assert found(project, *SAME_WORDS) == []
    session.stop("The zebra importer skips rows without a newline.")
    assert any(PROMPT in text for text in found(project, *SAME_WORDS))


def test_an_earlier_prompt_with_the_same_words_is_found(here: World, project: Project) -> None:
    earlier = HookedSession(here, "s-1")
    earlier.prompt(f"{PROMPT}, please check")
    earlier.stop("It is fixed.")
    HookedSession(here, "s-2").prompt(PROMPT)
    [hit] = [text for text in found(project, *SAME_WORDS) if PROMPT in text]
    assert "please check" in hit


def test_the_clients_session_names_its_current_prompt(
    here: World, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    HookedSession(here, "s-1").prompt(PROMPT)
    HookedSession(here, "s-2").prompt("update the changelog")
    assert any(PROMPT in text for text in found(project, *SAME_WORDS))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    assert found(project, *SAME_WORDS) == []
    assert project("context", "--best", PROMPT, "--format", "json").json["records"] == []


def test_the_current_prompt_is_listed_without_words_and_shown_by_its_id(
    here: World, project: Project
) -> None:
    HookedSession(here, "s-1").prompt(PROMPT)
    [hit] = project("search", "--only", "sessions", "--format", "json").json["hits"]
    assert PROMPT in project("search", "--layer", "3", hit["id"]).out
