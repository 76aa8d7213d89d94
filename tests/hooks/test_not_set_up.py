"""A repository without Ralph's files: its user is told once a day, or `init.auto` sets it up."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.runner import Project
from tests.support.transcripts import Claude
from tests.support.world import HOOKS, SESSION, World, hook, patient_hook, payload

from ralph.core import paths
from ralph.hooks.statusline import status_line
from ralph.install import automatic_setup
from ralph.lean import discovery

NOT_SET_UP = "Ralph is not set up here: run `ralph init`"
RECORDING = "Ralph is recording; your next session will know"
AUTO = "init:\n  auto: true\n"


@pytest.fixture
def repository(tmp_path: Path) -> World:
    made = World(tmp_path / "proj", tmp_path / "home")
    made.root.mkdir()
    made.home.mkdir()
    git(made.root, "init", "-q")
    return made


@pytest.fixture
def automatic(repository: World) -> World:
    configure(repository, AUTO)
    return repository


def configure(here: World, text: str) -> None:
    config = here.home / ".config" / "ralph" / "config.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text, encoding="utf-8")


def start(here: World, session: str = SESSION, host: str = "claude") -> str:
    """Start a session with the real hook, and return what it prints."""
    stdin = payload("SessionStart", session_id=session, source="startup", cwd=str(here.root))
    done = patient_hook("SessionStart", stdin, here.env, host=host)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def message(printed: str) -> str:
    return str(json.loads(printed).get("systemMessage", "")) if printed else ""


def status(here: World) -> str:
    return git(here.root, "status", "--porcelain", "--ignored")


def ralph(here: World, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Run commands as the user of the hooks."""
    monkeypatch.setenv("HOME", str(here.home))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    return Project(here.root)


# --- the report -----------------------------------------------------------------------------------


def test_a_session_in_a_repository_without_ralph_says_so_once_a_day(repository: World) -> None:
    assert message(start(repository)) == NOT_SET_UP
    assert start(repository, "another") == ""
    told = Path(os.environ["XDG_STATE_HOME"], "ralph", "told-today")
    assert told.stat().st_mode & 0o777 == 0o600
    day, _, rest = told.read_text(encoding="utf-8").partition("\n")
    told.write_text(f"2020-01-01\n{rest}", encoding="utf-8")
    assert message(start(repository)) == NOT_SET_UP
    assert told.read_text(encoding="utf-8").startswith(f"{day}\n")
    assert status(repository) == ""
    assert not (repository.root / ".git" / "ralph").exists()


def test_it_is_one_report_for_all_worktrees_and_subfolders(
    repository: World, tmp_path: Path
) -> None:
    git(repository.root, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository.root, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert message(start(World(tmp_path / "tree", repository.home))) == NOT_SET_UP
    (repository.root / "src").mkdir()
    assert start(World(repository.root / "src", repository.home)) == ""


@pytest.mark.parametrize("host", ["codex", "gemini", "qwen"])
def test_other_clients_show_it_as_their_line(repository: World, host: str) -> None:
    assert NOT_SET_UP in start(repository, host=host)


@pytest.mark.parametrize("host", ["cursor", "opencode"])
def test_an_agent_passes_it_on_where_the_client_shows_no_line(repository: World, host: str) -> None:
    printed = start(repository, host=host)
    assert "Tell the user in one line" in printed
    assert "ralph init" in printed


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"])
def test_other_events_say_nothing(repository: World, event: str) -> None:
    done = hook(event, payload(event, prompt="x"), repository.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_nothing_is_said_outside_of_repositories_and_at_home(
    repository: World, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert start(World(plain, repository.home)) == ""
    git(repository.home, "init", "-q")
    for folder in (repository.home, repository.home / ".config"):
        folder.mkdir(exist_ok=True)
        assert start(World(folder, repository.home)) == ""


@pytest.mark.parametrize(
    "more",
    [{"RALPH_RUN": "run-1"}, {"RALPH_DISABLE": "1"}, {"RALPH_PRESENCE": "off"}],
    ids=["loop", "disabled", "presence off"],
)
def test_nothing_is_said_where_nobody_wants_it(repository: World, more: dict[str, str]) -> None:
    assert start(World(repository.root, repository.home, more)) == ""


def test_only_the_user_can_silence_it_and_that_does_not_use_up_the_day(repository: World) -> None:
    (repository.root / ".ralph.toml").write_text('presence = "off"\n', encoding="utf-8")
    assert start(World(repository.root, repository.home, {"RALPH_PRESENCE": "off"})) == ""
    assert message(start(repository)) == NOT_SET_UP


def test_capture_off_and_deinit_silence_it_until_init(
    repository: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ralph(repository, monkeypatch)
    assert run("capture", "off").code == 0
    assert start(repository) == ""
    assert status_line(b"", repository.env) == ""
    assert run("capture", "on").code == 0
    run("init")
    assert run("deinit", "--yes").code == 0
    assert start(repository) == ""
    assert status_line(b"", repository.env) == ""
    assert status(repository) == ""
    run("init")
    assert message(start(repository)) == RECORDING


def test_the_status_line_says_it_in_a_repository_alone(repository: World, tmp_path: Path) -> None:
    assert status_line(b"", repository.env) == NOT_SET_UP
    for folder in (repository.home, tmp_path):
        assert status_line(b"", World(folder, repository.home).env) == ""


@pytest.mark.parametrize("pointer", ["gitdir: /nowhere\n", "\0\xff", ""])
def test_a_broken_checkout_is_silent(repository: World, pointer: str) -> None:
    broken = repository.root / "broken"
    broken.mkdir()
    (broken / ".git").write_text(pointer, encoding="utf-8")
    assert start(World(broken, repository.home)) == ""


def _a_folder(path: Path) -> None:
    path.mkdir()


def _a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize(
    ("make", "is_told"),
    [(os.mkfifo, True), (_a_link_to_nowhere, True), (_a_folder, False)],
    ids=["fifo", "link", "folder"],
)
def test_a_note_that_cannot_be_read_never_ends_a_hook(
    repository: World, tmp_path: Path, make: Callable[[Path], None], is_told: bool
) -> None:
    state = tmp_path / "state" / "ralph"
    state.mkdir(parents=True)
    for name in ("told-today", "removed"):
        make(state / name)
    here = World(repository.root, repository.home, {"XDG_STATE_HOME": str(state.parent)})
    assert message(start(here)) == (NOT_SET_UP if is_told else "")
    assert start(here, "another") == ""


# --- init.auto ------------------------------------------------------------------------------------


def test_a_repository_is_set_up_with_its_first_session(automatic: World) -> None:
    assert message(start(automatic)) == RECORDING
    assert [line["type"] for line in automatic.lines()][-1] == "session"
    assert status(automatic) == ""
    assert sorted(path.name for path in automatic.root.iterdir()) == [".git"]


def test_the_first_prompt_sets_it_up_if_the_session_had_begun_before(automatic: World) -> None:
    done = hook("UserPromptSubmit", payload("UserPromptSubmit", prompt="hello"), automatic.env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "hello" in automatic.log.read_text(encoding="utf-8")
    assert status(automatic) == ""


@pytest.mark.parametrize("event", ["PostToolUse", "PreToolUse", "Stop", "SessionEnd"])
def test_other_events_set_up_nothing(automatic: World, event: str) -> None:
    done = hook(event, payload(event, tool_name="Bash"), automatic.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (automatic.root / ".git" / "ralph").exists()


def test_a_failed_attempt_is_explained_and_not_repeated_that_day(automatic: World) -> None:
    in_the_way = automatic.root / ".git" / "ralph"
    in_the_way.write_text("a file", encoding="utf-8")
    said = message(start(automatic))
    assert said.startswith(f"{NOT_SET_UP} (init.auto failed: ")
    assert str(in_the_way) in said
    assert said.endswith(": File exists)")
    in_the_way.unlink()
    assert start(automatic, "second") == ""
    assert not in_the_way.exists()
    told = Path(os.environ["XDG_STATE_HOME"], "ralph", "told-today")
    told.write_text("2020-01-01\n", encoding="utf-8")
    assert message(start(automatic, "third")) == RECORDING


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        (AUTO, True),
        ("init: {auto: true}\n", True),
        ("init: {other: 1, auto: true}\n", True),
        ("init:\n  auto: false\n", False),
        ("init:\nmemories:\n  auto: true\n", False),
        ("memories: {inject: auto} # as init said: true\n", False),
    ],
)
def test_the_setting_is_found_without_a_parser(
    repository: World, text: str, is_wanted: bool
) -> None:
    configure(repository, text)
    assert discovery.wants_automatic_setup(repository.env) is is_wanted


def test_status_says_that_the_next_session_sets_it_up(
    automatic: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ralph(automatic, monkeypatch)("status").out
    assert "Ralph is set up here with the next session (init.auto)" in said
    assert "capture:      on\n" in said


def test_files_appear_with_the_first_memory(
    automatic: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(automatic)
    run = ralph(automatic, monkeypatch)
    assert run("status", "--format", "json").json["set_up"] is True
    assert run("memory", "list").code == 0
    assert status(automatic) == ""
    assert run("memory", "add", "Use pnpm.").code == 0
    assert "?? .agent/" in status(automatic)
    assert "Use pnpm." in start(automatic, "next")


def test_a_worktree_belongs_to_the_repository_that_was_set_up(
    automatic: World, tmp_path: Path
) -> None:
    start(automatic)
    git(automatic.root, "commit", "-q", "--allow-empty", "-m", "x")
    git(automatic.root, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert discovery.find_root(str(tmp_path / "tree")) == str(tmp_path / "tree")
    assert start(World(tmp_path / "tree", automatic.home), "in-the-tree") != ""
    assert (paths.sessions_folder(automatic.root) / "in-the-tree.jsonl").exists()


@pytest.mark.parametrize("kind", ["file", "link", "fake worktree"])
def test_a_folder_that_only_names_a_repository_does_not_set_it_up(
    automatic: World, tmp_path: Path, kind: str
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    theirs = automatic.root / ".git"
    if kind == "file":
        (stranger / ".git").write_text(f"gitdir: {theirs}\n", encoding="utf-8")
    elif kind == "link":
        (stranger / ".git").symlink_to(theirs)
    else:
        fake = stranger / "fake"
        fake.mkdir()
        (fake / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (fake / "commondir").write_text(f"{theirs}\n", encoding="utf-8")
        (fake / "gitdir").write_text(f"{stranger}/.git\n", encoding="utf-8")
        (stranger / ".git").write_text(f"gitdir: {fake}\n", encoding="utf-8")
    start(World(stranger, automatic.home))
    assert not (theirs / "ralph").exists()


def test_the_first_session_in_a_worktree_or_submodule_sets_it_up(
    automatic: World, tmp_path: Path
) -> None:
    git(automatic.root, "commit", "-q", "--allow-empty", "-m", "x")
    tree = tmp_path / "tree"
    git(automatic.root, "worktree", "add", "-q", str(tree))
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    allowed = ("-c", "protocol.file.allow=always")
    git(outer, *allowed, "submodule", "add", "-q", str(automatic.root), "inner")
    for folder in (tree, outer / "inner"):
        start(World(folder, automatic.home))
        assert discovery.find_root(str(folder)) == str(folder)


def test_deinit_takes_it_back_for_good(automatic: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start(automatic)
    run = ralph(automatic, monkeypatch)
    assert run("deinit", "--yes").code == 0
    assert NOT_SET_UP in run("status").out
    assert not (automatic.root / ".git" / "ralph").exists()
    assert start(automatic) == ""
    assert not (automatic.root / ".git" / "ralph").exists()
    run("init")
    assert message(start(automatic)) == RECORDING


def test_a_removed_repository_is_left_alone_however_many_others_were_removed(
    automatic: World, tmp_path: Path
) -> None:
    for number in range(400):
        automatic_setup.note_removed(tmp_path / f"{'x' * 180}-{number}")
    automatic_setup.note_removed(automatic.root)
    assert start(automatic) == ""
    automatic_setup.note_wanted(automatic.root)
    assert message(start(automatic)) == RECORDING


@pytest.mark.parametrize(
    "text",
    ["init:\n  auto: false\n", "init: [auto\n", "embedding: {provider: auto}\n# init\n", ""],
    ids=["off", "broken", "other key", "empty"],
)
def test_without_the_setting_nothing_is_set_up(repository: World, text: str) -> None:
    configure(repository, text)
    assert message(start(repository)) == NOT_SET_UP
    assert not (repository.root / ".git" / "ralph").exists()


def test_a_project_cannot_set_it(repository: World) -> None:
    (repository.root / "ralph.local.yml").write_text(AUTO, encoding="utf-8")
    (repository.root / ".ralph.toml").write_text("[init]\nauto = true\n", encoding="utf-8")
    assert message(start(repository)) == NOT_SET_UP
    assert not (repository.root / ".git" / "ralph").exists()


def test_other_folders_are_left_alone(automatic: World, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    git(automatic.home, "init", "-q")
    for folder in (plain, automatic.home):
        assert start(World(folder, automatic.home)) == ""
    assert list(plain.iterdir()) == []
    assert not (automatic.home / ".git" / "ralph").exists()


def test_a_state_folder_in_the_work_tree_is_not_made_unasked(automatic: World) -> None:
    configure(automatic, f"{AUTO}state:\n  home: project\n")
    assert message(start(automatic)) == NOT_SET_UP
    assert status(automatic) == ""


# --- the first session ----------------------------------------------------------------------------


def test_only_the_first_session_says_that_ralph_is_recording(automatic: World) -> None:
    assert message(start(automatic)) == RECORDING
    for session in ("second", "third"):
        assert RECORDING not in message(start(automatic, session))


def test_the_first_session_counts_the_earlier_ones(automatic: World) -> None:
    for name in ("one", "two", SESSION):
        Claude(automatic.root, name).prompt("hello").write(automatic.home)
    found = "2 earlier sessions of this project found: run `ralph import --yes`"
    assert message(start(automatic)) == f"{RECORDING}. {found}"
    assert "earlier" not in message(start(automatic, "second"))


def test_a_session_that_cannot_be_recorded_claims_nothing(automatic: World) -> None:
    start(automatic)
    folder = paths.sessions_folder(automatic.root)
    for log in folder.iterdir():
        log.unlink()
    folder.rmdir()
    folder.write_text("in the way", encoding="utf-8")
    assert RECORDING not in message(start(automatic))


def test_presence_off_hides_the_line(automatic: World) -> None:
    quiet = World(automatic.root, automatic.home, {"RALPH_PRESENCE": "off"})
    assert message(start(quiet)) == ""


def test_sessions_that_start_together_all_find_it_set_up(automatic: World) -> None:
    command = [sys.executable, "-I", "-S", str(HOOKS / "run.py"), "claude", "SessionStart"]
    running = []
    for name in ("s-1", "s-2", "s-3"):
        started = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=automatic.env
        )
        assert started.stdin is not None
        started.stdin.write(payload("SessionStart", session_id=name))
        started.stdin.close()
        running.append(started)
    for started in running:
        assert started.stdout is not None
        assert NOT_SET_UP.encode() not in started.stdout.read()
        started.stdout.close()
        assert started.wait() == 0
    assert len(list(paths.sessions_folder(automatic.root).glob("s-*.jsonl"))) == len(running)


# --- settings with which nothing is missing -------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "reason"),
    [(AUTO, "(init.auto)"), ("capture:\n  everywhere: true\n", "(capture.everywhere)")],
    ids=["init.auto", "capture.everywhere"],
)
def test_no_command_reports_it_where_sessions_are_recorded_anyway(
    repository: World, monkeypatch: pytest.MonkeyPatch, config: str, reason: str
) -> None:
    configure(repository, config)
    run = ralph(repository, monkeypatch)
    installed = run("install", "claude")
    assert (installed.code, "not set up" in installed.err) == (0, False)
    checked = run("doctor")
    assert (checked.code, checked.out) == (0, "Everything is in order.\n")
    shown = run("status").out
    assert reason in shown
    assert NOT_SET_UP not in shown
    assert "nothing is recorded" not in shown
    assert status_line(b"", repository.env) == ""


def test_automatic_setup_is_for_repositories_alone(
    automatic: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    run = ralph(World(plain, automatic.home), monkeypatch)
    assert "nothing is recorded where Ralph is not set up" in run("status").out


def test_the_status_line_respects_that_reports_are_off(repository: World) -> None:
    configure(repository, "presence: off\n")
    assert status_line(b"", repository.env) == ""
