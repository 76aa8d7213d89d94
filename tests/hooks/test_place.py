"""Where a hook acts, and whether the settings cache still holds: the light reader against the real writer."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hooks.world import World, world

from ralph import config
from ralph.app import hook_settings
from ralph.hooks import full
from ralph.hooks import place as places
from ralph.hooks.place import Place


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def placed(here: World, **env: str) -> Place | None:
    return places.place(str(here.root), here.env | env)


def test_the_light_reader_understands_what_was_written(here: World) -> None:
    text = "memories:\n  inject: manual\n  budget: 900\n  filter:\n    types: [fix, decision]\n"
    text += "    tags: [ci, 배포]\n    recent: 7\ncontext:\n  window: 50000\n"
    (here.root / "ralph.yml").write_text(text, encoding="utf-8")
    here.cached()
    found = placed(here)
    assert found is not None
    said = found.settings
    assert (said.capture, said.plain, said.enabled, said.inject, said.budget) == (True, True, True, "manual", 900)
    assert (said.types, said.tags, said.recent, said.window) == (("fix", "decision"), ("ci", "배포"), 7, 50000)


@pytest.mark.parametrize("text", ["privacy:\n  patterns: ['x-[0-9]+']\n", "privacy:\n  paths: ['*.pem']\n"])
def test_rules_of_the_users_own_ask_for_the_full_path(here: World, text: str) -> None:
    (here.root / "ralph.yml").write_text(text, encoding="utf-8")
    here.cached()
    found = placed(here)
    assert found is not None
    assert not found.settings.plain


@pytest.mark.parametrize("name", ["ralph.yml", "ralph.local.yml", ".ralph.toml", ".ralph/config.sh"])
def test_a_config_file_that_changed_or_came_makes_the_cache_void(here: World, name: str) -> None:
    assert placed(here) is not None
    (here.root / name).write_text("# changed\n", encoding="utf-8")
    assert placed(here) is None


def test_a_config_of_the_user_that_came_makes_the_cache_void(here: World) -> None:
    (here.home / ".config" / "ralph").mkdir(parents=True)
    (here.home / ".config" / "ralph" / "config.yml").write_text("memories:\n  enabled: false\n", encoding="utf-8")
    assert placed(here) is None


def test_another_home_makes_the_cache_void(here: World, tmp_path: Path) -> None:
    assert placed(here, HOME=str(tmp_path / "other")) is None
    assert placed(here, XDG_CONFIG_HOME=str(tmp_path / "other")) is None


def test_a_change_while_the_config_is_loaded_is_not_lost(here: World) -> None:
    seen = hook_settings.look(here.root, here.env)
    loaded = config.load(here.root, env=here.env)
    (here.root / "ralph.yml").write_text("memories:\n  enabled: false\n", encoding="utf-8")
    hook_settings.write(here.root, loaded, env=here.env, seen=seen)
    assert placed(here) is None


def test_settings_from_the_environment_are_neither_written_nor_overlooked(here: World) -> None:
    env = here.env | {"RALPH_MEMORIES_INJECT": "none"}
    assert not hook_settings.write(here.root, config.load(here.root, env=env), env=env)
    assert placed(here) is not None
    assert places.place(str(here.root), env) is None


def test_a_copy_of_a_project_does_not_believe_the_first_ones_cache(here: World, tmp_path: Path) -> None:
    shutil.copytree(here.root, tmp_path / "copy", symlinks=True)
    assert places.place(str(tmp_path / "copy"), here.env) is None


def without(word: str) -> Callable[[str], str]:
    return lambda text: "\n".join(line for line in text.split("\n") if not line.startswith(word))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[:-5],
        lambda text: "ralph-hook 2" + text[12:],
        lambda text: text.replace("budget 1500", "budget x"),
        lambda text: "\0" * 50,
        without("inject"),
        without("file"),
    ],
)
def test_a_broken_cache_says_nothing(here: World, spoil: Callable[[str], str]) -> None:
    path = hook_settings.cache_file(here.root)
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert placed(here) is None


@pytest.mark.parametrize("mark", ["ralph.yml", ".ralph/x", ".agent/memories.md"])
def test_a_project_is_found_upward_by_its_marks(tmp_path: Path, mark: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    found = places.project(str(inner))
    assert found is not None
    assert (found.root, found.plain) == (str(tmp_path), True)


def test_a_project_is_never_found_above_the_git_root(tmp_path: Path) -> None:
    (tmp_path / "ralph.yml").touch()
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    assert places.project(str(tmp_path / "checkout")) is None


@pytest.mark.parametrize("inner", ["", "packages/one"])
def test_a_worktree_is_not_plain(tmp_path: Path, inner: str) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    (tmp_path / inner).mkdir(parents=True, exist_ok=True)
    (tmp_path / inner / "ralph.yml").touch()
    found = places.project(str(tmp_path / inner))
    assert found is not None
    assert not found.plain


def test_the_walk_begins_where_the_host_says_else_where_the_payload_says(tmp_path: Path) -> None:
    assert places.start({"CLAUDE_PROJECT_DIR": "/a/b/"}, "/c") == "/a/b"
    assert places.start({}, "/c") == "/c"
    assert places.start({"CLAUDE_PROJECT_DIR": "relative"}, 7) == os.getcwd()  # noqa: PTH109 - what it gives


def test_only_a_users_config_with_the_word_lets_hooks_act_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "ralph" / "config.yml"
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert not places.may_be_everywhere(env)
    path.parent.mkdir()
    path.write_text("memories:\n  enabled: true\n", encoding="utf-8")
    assert not places.may_be_everywhere(env)
    path.write_text("capture:\n  everywhere: true\n", encoding="utf-8")
    assert places.may_be_everywhere(env)


def test_failures_are_counted_and_told(here: World) -> None:
    assert hook_settings.failures(here.root) is None
    assert hook_settings.count_failure(here.root, "Stop", "ValueError: ümlaut\nand more")
    assert hook_settings.count_failure(here.root, "PostToolUse", "x" * 9000)
    found = hook_settings.failures(here.root)
    assert found is not None
    assert (found.count, found.what[:14]) == (2, "PostToolUse: x")
    assert hook_settings.failures_file(here.root).stat().st_size == 4096


def test_a_missing_or_broken_failures_file_is_made_or_begun_anew(here: World) -> None:
    path = hook_settings.failures_file(here.root)
    path.unlink()
    assert hook_settings.count_failure(here.root, "Stop", "one")
    path.write_bytes(b"\xff" * 4096)
    assert hook_settings.failures(here.root) is None
    assert hook_settings.count_failure(here.root, "Stop", "two")
    found = hook_settings.failures(here.root)
    assert found is not None
    assert replace(found, at="") == hook_settings.Failures(1, "", "Stop: two")


def test_both_paths_find_the_same_project(tmp_path: Path) -> None:
    for number in range(64):
        top = tmp_path / str(number)
        inner = top / "a" / "b"
        inner.mkdir(parents=True)
        if number & 1:
            (top / "ralph.yml").touch()
        if number & 2:
            (top / ".git").mkdir()
        if number & 4:
            (top / "a" / ".git").mkdir()
        if number & 8:
            (top / "a" / ".ralph").mkdir()
        if number & 16:
            (inner / ".git").touch()
        if number & 32:
            (inner / ".agent").mkdir()
            (inner / ".agent" / "memories.md").touch()
        found = places.project(str(inner))
        assert (Path(found.root) if found else None) == full._project(inner)
