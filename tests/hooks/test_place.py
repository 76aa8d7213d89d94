"""Where a hook acts, and whether the settings cache still holds: the light reader against the real writer."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hooks.world import World, world

from ralph import config, paths
from ralph.app import hook_settings
from ralph.errors import ConfigError
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
    assert (said.capture, said.enabled, said.inject, said.budget) == (True, True, "manual", 900)
    assert (said.patterns, said.paths) == ((), ())
    assert (said.types, said.tags, said.recent, said.window) == (("fix", "decision"), ("ci", "배포"), 7, 50000)


@pytest.mark.parametrize("key", ["patterns", "paths"])
def test_rules_of_the_users_own_are_read_as_they_were_written(here: World, key: str) -> None:
    texts = ("x-[0-9]+", 'a "b" \\d', "가나\n다", "", "é\u2028 #")
    said = json.dumps(texts)
    (here.root / "ralph.yml").write_text(f"privacy:\n  {key}: {said}\n", encoding="utf-8")
    here.cached()
    found = placed(here)
    assert found is not None
    assert getattr(found.settings, key) == texts


def test_a_cache_that_is_too_large_says_nothing(here: World) -> None:
    (here.root / "ralph.yml").write_text(f"privacy:\n  paths: {json.dumps(['a' * 70_000])}\n", encoding="utf-8")
    here.cached()
    assert placed(here) is None


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


def test_settings_from_the_environment_count_for_that_environment_alone(here: World) -> None:
    env = here.env | {"RALPH_MEMORIES_INJECT": "none", "RALPH_PRIVACY_PATTERNS": '["a\\nb"]'}
    assert places.place(str(here.root), env) is None
    assert hook_settings.write(here.root, config.load(here.root, env=env), env=env)
    found = places.place(str(here.root), env)
    assert found is not None
    assert found.settings.inject == "none"
    for other in (here.env, env | {"RALPH_MEMORIES_INJECT": "auto"}, env | {"RALPH_MEMORIES_BUDGET": ""}):
        assert places.place(str(here.root), other) is None


def test_variables_that_set_nothing_of_hooks_cost_nothing(here: World) -> None:
    loop = {"RALPH_RUN": "r-1", "RALPH_ITERATION": "3", "RALPH_TASK": "t-1", "RALPH_EXECUTION_MAX_RETRIES": "7"}
    assert placed(here, **loop, RALPH_WHATEVER="x") is not None


def test_every_setting_that_hooks_know_may_be_set_by_a_variable_that_they_look_at(here: World) -> None:
    assert places.VARIABLES == hook_settings.VARIABLES
    plain = hook_settings.said(config.load(here.root, env=here.env).config)
    for key in config.KEYS:
        for value in ("7", "x", "none", "fix", "false"):
            env = here.env | {key.variable: value}
            try:
                changed = hook_settings.said(config.load(here.root, env=env).config) != plain
            except ConfigError:
                continue
            assert not changed or key.variable.startswith(places.VARIABLES), key.name


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
        lambda text: "ralph-hook 1" + text[12:],
        lambda text: text.replace("patterns ", "patterns x"),
        lambda text: text.replace("paths ", 'paths "'),
        lambda text: text.replace("paths ", 'paths "\\q"'),
        without("env"),
        without("user"),
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
    assert (found.root, found.state) == (str(tmp_path), str(tmp_path))


def test_a_project_is_never_found_above_the_git_root(tmp_path: Path) -> None:
    (tmp_path / "ralph.yml").touch()
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    assert places.project(str(tmp_path / "checkout")) is None


def checkout(folder: Path, gitdir: str | None = None, commondir: str | None = "../..\n", main: str = "main") -> Path:
    """A worktree as git makes it: a pointer to its own folder in the main checkout, which points to the common one."""
    own = folder / main / ".git" / "worktrees" / "side"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/side\n", encoding="utf-8")
    if commondir is not None:
        (own / "commondir").write_text(commondir, encoding="utf-8")
    side = folder / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {own}\n" if gitdir is None else gitdir, encoding="utf-8")
    (side / "ralph.yml").touch()
    return side


@pytest.mark.parametrize("inner", ["", "packages/one"])
@pytest.mark.parametrize("gitdir", [None, "gitdir: ../main/.git/worktrees/side\n"])
def test_a_worktree_keeps_its_log_in_the_main_checkout(tmp_path: Path, inner: str, gitdir: str | None) -> None:
    side = checkout(tmp_path, gitdir)
    (side / inner).mkdir(parents=True, exist_ok=True)
    (side / inner / "ralph.yml").touch()
    found = places.project(str(side / inner))
    assert found is not None
    assert Path(found.root) == side / inner
    assert Path(found.state) == tmp_path / "main" / inner == paths.state_root(side / inner)


@pytest.mark.parametrize(
    ("gitdir", "commondir"),
    [
        ("gitdir: /elsewhere\n", "../..\n"),
        ("gitdir: \n", "../..\n"),
        ("nonsense", "../..\n"),
        ("\xff", "../..\n"),
        (None, "/nowhere/.git\n"),
        (None, "\n"),
        ("gitdir: ../link/.git/worktrees/side\n", "../..\n"),
    ],
)
def test_odd_pointers_are_for_the_full_path(tmp_path: Path, gitdir: str | None, commondir: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "main")
    side = checkout(tmp_path, gitdir, commondir)
    found = places.project(str(side))
    assert found is not None
    assert found.state == ""


@pytest.mark.parametrize("commondir", [None, "../../../bare\n"])
def test_a_submodule_and_a_worktree_of_a_bare_repository_keep_their_own_log(
    tmp_path: Path, commondir: str | None
) -> None:
    (tmp_path / "main" / "bare").mkdir(parents=True)
    side = checkout(tmp_path, commondir=commondir)
    found = places.project(str(side))
    assert found is not None
    assert Path(found.state) == side == paths.state_root(side)


def test_a_worktree_has_a_cache_beside_that_of_its_main_checkout(here: World, tmp_path: Path) -> None:
    side = checkout(tmp_path, main=here.root.name)
    (side / "ralph.yml").write_text("memories:\n  budget: 70\n", encoding="utf-8")
    assert places.place(str(side), here.env, str(here.root)) is None
    hook_settings.write(side, config.load(side, env=here.env), env=here.env)
    found, main = places.place(str(side), here.env, str(here.root)), placed(here)
    assert found is not None
    assert main is not None
    assert (found.root, found.settings.budget, main.settings.budget) == (str(here.root), 70, 1500)


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
