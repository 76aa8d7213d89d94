"""An agent gets our environment without an enclosing session, and its files are told relative to the folder."""

from pathlib import Path

import pytest

from ralph.agents.surroundings import environment, is_inside, place
from ralph.model.work import Ask


def test_a_users_settings_reach_the_agent_and_an_enclosing_session_does_not() -> None:
    ours = {
        "ANTHROPIC_API_KEY": "made-up",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "9",
        "CLAUDE_CONFIG_DIR": "/home/somebody",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": "abc",
        "CLAUDE_CODE_SSE_PORT": "1",
        "CLAUDE_CODE_MESSAGING_TOKEN": "abc",
        "CLAUDE_PROJECT_DIR": "/elsewhere",
        "CLAUDE_PLUGIN_ROOT": "/elsewhere",
    }
    kept = environment(Ask("p", Path("/p"), environment={"RALPH_RUN": "r"}), ours)
    assert sorted(kept) == [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CONFIG_DIR",
        "RALPH_RUN",
    ]


def test_what_the_prompt_brings_wins_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_RUN", "outer")
    assert environment(Ask("p", Path("/p"), environment={"RALPH_RUN": "inner"}))["RALPH_RUN"] == "inner"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a.txt", "a.txt"),
        ("./b/../a.txt", "a.txt"),
        ("{folder}/b/a.txt", "b/a.txt"),
        ("/etc/passwd", "/etc/passwd"),
        ("../outside.txt", "../outside.txt"),
        ("", ""),
    ],
)
def test_a_file_inside_is_told_relative_and_another_as_it_was_named(tmp_path: Path, path: str, told: str) -> None:
    assert place(path.format(folder=tmp_path), tmp_path) == told


def test_a_folder_behind_a_link_is_the_same_folder(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert place(str(real / "a.txt"), link) == "a.txt"
    assert place(str(link / "a.txt"), real) == "a.txt"
    assert is_inside(str(real / "a.txt"), link)


def test_a_link_that_leads_outside_is_not_inside(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    assert not is_inside("out/a.txt", folder)
    assert not is_inside("../a.txt", folder)
    assert not is_inside("", folder)
    assert not is_inside("a\0b", folder)
    assert is_inside("new/deep/a.txt", folder)
