"""A second user of a checkout has state of their own, and the first user's state is never touched."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import NOBODY
from tests.support.git import git
from tests.support.runner import Block, command, page
from tests.support.world import HOOKS, SESSION, payload

MEMORY = "mem-1705751401-a001"
PR_CAPBSET_DROP = 24
OVERRIDES = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER
IS_ROOT = os.geteuid() == 0


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a home of their own, in a checkout."""

    home: Path
    root: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "CLAUDE_PROJECT_DIR": str(self.root),
            "RALPH_EMBEDDING_PROVIDER": "none",
        }

    @property
    def projects(self) -> Path:
        return self.home / ".local/state/ralph/projects"

    def run(self, words: list[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            input=stdin,
            env=self.env,
            cwd=self.root,
            capture_output=True,
            check=False,
            preexec_fn=_drop_overrides,
        )

    def ralph(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return self.run([*command(), *words])

    def hook(self, event: str, **members: object) -> bytes:
        words = [sys.executable, "-I", "-S", str(HOOKS / "run.py"), "claude", event]
        done = self.run(words, payload(event, **members))
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout


def _drop_overrides() -> None:
    """Let the permissions of other users' files hold for root as well."""
    if IS_ROOT:
        for capability in OVERRIDES:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.fixture
def root(shared: Path) -> Path:
    """A checkout that everybody may read and change, apart from its state."""
    root = shared / "proj"
    root.mkdir()
    git(root, "init", "-q")
    (root / ".agent").mkdir()
    (root / ".agent/memories.md").write_text(
        page(Block("JWT refresh tokens rotate on every login.", MEMORY)), encoding="utf-8"
    )
    return root


@pytest.fixture
def alice(shared: Path, root: Path) -> User:
    """The owner of the checkout, who has used Ralph in it."""
    alice = User(shared / "alice", root)
    alice.home.mkdir(mode=0o700)
    assert alice.ralph("init").returncode == 0
    alice.hook("SessionStart", source="startup")
    alice.hook("UserPromptSubmit", prompt="Alice asks about the cart")
    assert alice.ralph("search", "cart").returncode == 0
    assert (root / ".ralph/ralph.db").is_symlink()
    for path in (root, root / ".agent", root / ".ralph"):
        path.chmod(0o777)
    (root / ".agent/memories.md").chmod(0o666)
    return alice


@pytest.fixture
def bob(shared: Path, root: Path, alice: User) -> Iterator[User]:
    """A second user of the checkout.

    If the tests run as root, the checkout is given away. Otherwise, its state becomes inaccessible.
    """
    home = shared / "bob"
    home.mkdir(mode=0o700)
    state = root / ".git/ralph"
    if IS_ROOT:
        for path in [root, *root.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        state.chmod(0)
    yield User(home, root)
    if not IS_ROOT:
        state.chmod(0o700)


def marks(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Owner, size and time of change of everything in a folder."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        now = path.lstat()
        found[str(path)] = (now.st_uid, now.st_size, now.st_mtime_ns)
    return found


COMMANDS = (
    "status", "search jwt", "memory list", "doctor", "session list", "context jwt", "config",
    "capture", "review", "graph show jwt", "task list", "memory show mem-a001", "check",
    "loop status", "scratchpad", "index sync", "journal", "trust", "stats",
)  # fmt: skip


@pytest.fixture
def expected_codes(alice: User) -> dict[str, int]:
    """How each command ends for the owner of the checkout."""
    return {words: alice.ralph(*words.split()).returncode for words in COMMANDS}


def test_no_command_fails_because_of_the_first_users_state(
    expected_codes: dict[str, int], bob: User
) -> None:
    assert expected_codes["search jwt"] == 0
    outcomes = {words: bob.ralph(*words.split()) for words in COMMANDS}
    assert {words: done.returncode for words, done in outcomes.items()} == expected_codes
    for done in outcomes.values():
        assert b"Permission denied" not in done.stdout + done.stderr


def test_each_user_has_state_of_their_own(alice: User, bob: User) -> None:
    before = marks(alice.root / ".git/ralph") if IS_ROOT else {}
    link = (alice.root / ".ralph/ralph.db").readlink()
    started = bob.hook("SessionStart", source="startup", session_id="bob")
    assert MEMORY.encode() in started
    bob.hook("UserPromptSubmit", prompt="Bob asks about the jwt tokens", session_id="bob")
    bob.hook("PostToolUse", session_id="bob")
    bob.hook("Stop", last_assistant_message="Done.", session_id="bob")
    assert bob.ralph("memory", "add", "Bob's build needs node 22.").returncode == 0
    found = bob.ralph("search", "asks")
    assert b"Bob asks" in found.stdout
    assert b"Alice asks" not in found.stdout
    assert b"node 22" in bob.ralph("search", "node").stdout
    logs = list(bob.projects.rglob("*.jsonl"))
    assert "bob.jsonl" in {log.name for log in logs}
    assert SESSION not in {log.stem for log in logs}
    assert all(path.stat().st_mode & 0o077 == 0 for path in [bob.projects, *logs])
    assert (alice.root / ".ralph/ralph.db").readlink() == link
    if IS_ROOT:
        assert marks(alice.root / ".git/ralph") == before


@pytest.fixture
def worktree(alice: User) -> Path:
    """A worktree of the checkout."""
    git(alice.root, "add", "-A")
    git(alice.root, "commit", "-qm", "start")
    git(alice.root, "worktree", "add", "-q", "../side")
    return alice.root.parent / "side"


def test_all_worktrees_of_the_checkout_share_the_second_users_logs(
    worktree: Path, bob: User
) -> None:
    tree = User(bob.home, worktree)
    bob.hook("PostToolUse", session_id="one")
    tree.hook("PostToolUse", session_id="two")
    assert {log.stem for log in bob.projects.rglob("*.jsonl")} == {"one", "two"}
    assert len(list(bob.projects.iterdir())) == 1


def test_the_folder_of_a_very_long_path_has_a_short_name(alice: User, bob: User) -> None:
    deep = alice.root.joinpath(*["a-folder-with-a-rather-long-name"] * 9)
    (deep / ".ralph").mkdir(parents=True)
    User(bob.home, deep).hook("PostToolUse")
    [project] = bob.projects.iterdir()
    assert len(project.name) < 100
    assert list(project.rglob(f"{SESSION}.jsonl"))


def test_deinit_of_the_second_user_does_not_name_the_first_users_state(
    alice: User, bob: User
) -> None:
    bob.hook("PostToolUse")
    done = bob.ralph("deinit")
    assert done.returncode == 0
    assert b".git/ralph" not in done.stdout
    assert str(bob.projects).encode() in done.stdout
