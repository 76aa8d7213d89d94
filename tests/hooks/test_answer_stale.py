"""A hook tells that a cited file is gone, as it is at that moment in the very checkout that it runs in."""

import json
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.hook_answers import BLOCKS, PAY, said
from tests.support.runner import page
from tests.support.world import World, call_hook, payload

from ralph.capture import recorder
from ralph.core import config, paths
from ralph.recall import citation_check, stale_citations
from ralph.search import index

GONE = "(cited file is gone: src/pay.ts)"


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A repository in which everything that is cited was verified."""
    made = World(tmp_path / "proj", tmp_path / "home")
    made.home.mkdir()
    for name, text in (
        (".agent/memories.md", page(*BLOCKS)),
        ("src/pay.ts", "//\n"),
        ("ralph.yml", "# none\n"),
    ):
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        (made.root / name).write_text(text, encoding="utf-8", newline="")
    git(made.root, "init", "-q")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "begin")
    prepared(made)
    return made


def prepared(here: World) -> None:
    here.cached()
    index.sync(here.root)
    assert citation_check.refresh_citations(here.root)


@pytest.mark.parametrize(
    ("event", "members"),
    [
        ("UserPromptSubmit", {"prompt": "amounts in src/pay.ts"}),
        ("PreToolUse", {"tool_name": "Edit", "tool_input": {"file_path": "src/pay.ts"}}),
        (
            "PostToolUseFailure",
            {"tool_name": "Edit", "tool_input": {"file_path": "src/pay.ts"}, "error": "x"},
        ),
    ],
)
def test_what_went_away_since_is_told_with_what_cites_it(
    here: World, event: str, members: dict[str, object]
) -> None:
    told = said(here, event, **members)
    assert PAY in told
    assert "(cited" not in told
    (here.root / "src/pay.ts").unlink()
    assert GONE in said(here, event, session_id="another-one", **members)


def test_a_worktree_is_told_of_its_own_files(here: World, tmp_path: Path) -> None:
    git(here.root, "worktree", "add", "-q", str(tmp_path / "side"))
    side = World(tmp_path / "side", here.home)
    assert recorder.write_settings(side.root, config.load(side.root, env=side.env), env=side.env)
    prepared(side)
    (side.root / "src/pay.ts").unlink()
    told = {}
    for each in (here, side):
        done = call_hook(
            "UserPromptSubmit",
            payload("UserPromptSubmit", prompt="amounts in src/pay.ts"),
            each.env,
        )
        told[each.root.name] = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
        # what one checkout was told is not known to be told: each is a session of its own
        (paths.cache_folder(here.root) / "injected").rename(tmp_path / each.root.name / "told")
    assert (GONE in told["proj"], GONE in told["side"]) == (False, True)


def test_a_cache_that_is_no_cache_says_nothing(here: World) -> None:
    place = stale_citations.cache_file(here.root)
    place.unlink()
    place.mkdir()
    (here.root / "src/pay.ts").unlink()
    assert PAY in said(here, "UserPromptSubmit", prompt="amounts in src/pay.ts")
    assert here.failures() == 0
