"""What happened is its owner's alone: folders 0700 and files 0600, under any umask."""

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import PASSES, Workshop
from tests.support.runner import Block, Project, page
from tests.support.sampling import every
from tests.support.world import World, call_hook, payload, world

from ralph.core import paths
from ralph.lean.hook_files import switch_off_pattern
from ralph.testing import Step

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
)


@pytest.fixture
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


CASES = [(0o000, "git"), (0o000, "project"), (0o077, "git"), (0o077, "project")]


@pytest.mark.soak
@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize(("_umask", "home"), every(CASES, 3), indirect=["_umask"])
def test_only_the_owner_reads_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    state_home = tmp_path / "state"
    here = World(tmp_path / "proj", tmp_path / "home", {"XDG_STATE_HOME": str(state_home)})
    monkeypatch.setenv("HOME", str(here.home))
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
    here.root.mkdir()
    git(here.root, "init", "-q")
    (here.root / "ralph.yml").write_text(f"state:\n  home: {home}\n", encoding="utf-8")
    (here.root / ".agent").mkdir()
    (here.root / ".agent/memories.md").write_text(
        page(Block("Rotate the jwt refresh tokens")), encoding="utf-8"
    )
    for _ in range(2):
        for event in EVENTS:
            assert (
                call_hook(
                    event, payload(event, prompt="jwt refresh tokens", source="startup"), here.env
                ).returncode
                == 0
            )
    state = paths.state_folder(here.root)
    handle = os.open(state / "log/sessions", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    call_hook("PostToolUse", payload(), here.env)
    os.close(handle)
    assert list((state / "log/spill").iterdir())
    switch_off_pattern(str(paths.state_boundary(here.root)), str(state), "(a+)+$")
    ralph = Project(here.root)
    for words in (
        "memory add keep-this",
        "search jwt",
        "graph show jwt",
        "status --usage",
        "check",
        "capture off",
    ):
        ralph(*words.split())
    git(here.root, "add", "-A")
    git(here.root, "commit", "-qm", "start")
    Workshop(here.root).start(Step(say="done <task-done/>"), PASSES)
    added = ralph("memory", "list", "--format", "json").json[-1]["id"]
    assert ralph("forget", added, "--yes").code == 0
    places = [state, *state.rglob("*"), state_home / "ralph", *(state_home / "ralph").iterdir()]
    assert len(places) > 20
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in places if not path.is_symlink()}
    assert {
        str(path): oct(mode)
        for path, mode in modes.items()
        if mode != (0o700 if path.is_dir() else 0o600)
    } == {}
    top = state.parent
    while top not in (here.root / ".git", here.root / ".ralph"):
        assert stat.S_IMODE(top.stat().st_mode) == 0o700
        top = top.parent


def test_doctor_finds_and_mends_folders_and_files_that_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path)
    monkeypatch.setenv("HOME", str(here.home))
    call_hook("PostToolUse", payload(), here.env)
    here.log.chmod(0o644)
    here.log.parent.chmod(0o777)
    ralph = Project(here.root)
    findings = ralph("doctor", "--format", "json").json["findings"]
    assert [each["code"] for each in findings].count("permissions") == 2
    ralph("doctor", "--fix")
    assert (
        stat.S_IMODE(here.log.stat().st_mode),
        stat.S_IMODE(here.log.parent.stat().st_mode),
    ) == (0o600, 0o700)
