"""Shared fixtures: real disks that are full or read-only, and programs that are always ended.

Nothing is faked: a full disk is a small tmpfs (or, where mounting is not allowed, the kernel's own
limit on a file's size), a read-only one is a read-only mount, and an ordinary user is an effective
user id without root's rights. Whatever a fixture mounts or starts, it unmounts or kills.
"""

import atexit
import contextlib
import gc
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings
from tests.support.acceptances import forget_acceptances
from tests.support.cases import case_name

if sys.platform == "win32":
    KILL = signal.SIGTERM  # ends a process at once there
else:
    import resource

    KILL = signal.SIGKILL

# A slow machine must not fail a test, and CI must not fail for an example that the change did not cause.
settings.register_profile(
    "ralph",
    deadline=None,
    max_examples=200 if os.environ.get("RALPH_SOAK") == "1" else 15,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ralph")

# A background shell starts its children with SIGINT ignored, and they would pass that on to every program of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Temporary folders in memory where there is room: tests make 50,000 files, and each commit of SQLite waits for a disk.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

# The machine id and the personal memory of the tests are never the developer's own; set here, so that modules of tests
# can pass it on.
for _variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
    os.environ[_variable] = tempfile.mkdtemp(prefix="ralph-user-")
    atexit.register(shutil.rmtree, os.environ[_variable], ignore_errors=True)

# Tests have no terminal, and nobody to ask: they grant trust and decide on pages as a CI job does.
os.environ["CI"] = "true"

# Searches are by words, unless a test says otherwise: the model is installed for the tests of meaning.
os.environ["RALPH_EMBEDDING_PROVIDER"] = "none"

WRITER = Path(__file__).parent / "support" / "writer.py"
NOBODY = 65534

Start = Callable[..., "Program"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave soak tests that cannot be reduced (those without `rounds`) to `make soak`."""
    if os.environ.get("RALPH_SOAK") == "1":
        return
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        is_whole = item.get_closest_marker("soak") and "rounds" not in getattr(
            item, "fixturenames", ()
        )
        (deselected if is_whole else selected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected


@pytest.fixture(autouse=True)
def nothing_accepted() -> Iterator[None]:
    """Start every test on a machine whose user has accepted nothing."""
    yield
    forget_acceptances()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking the collected tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_forgotten() -> Iterator[None]:
    """Remove what a test has forgotten: the list is the user's, for all projects."""
    yield
    Path(os.environ["XDG_STATE_HOME"], "ralph", "forgotten").unlink(missing_ok=True)
    Path(os.environ["XDG_CONFIG_HOME"], "ralph", "memories.md").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """How often a long test repeats: `rounds(full, reduced)`, full with RALPH_SOAK=1."""
    full = os.environ.get("RALPH_SOAK") == "1"
    return lambda many, few: many if full else few


class Program:
    """A running `tests/support/writer.py`: the lines that it prints and reads, and its end."""

    def __init__(self, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WRITER), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self.child = 0

    def read_words(self) -> list[str]:
        """Return the words of its next line; none when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def send_line(self, line: str = "") -> None:
        """Write one line to its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read_rest(self) -> list[list[str]]:
        """Return all lines until it ends; its exit code must be 0."""
        lines = list(iter(self.read_words, []))
        assert self.process.wait() == 0
        return lines

    def start_child(self) -> None:
        """Let a spawner start the next child, and let the child begin."""
        self.send_line()
        word, pid = self.read_words()
        assert word == "started"
        self.child = int(pid)
        assert self.read_words() == ["ready"]
        self.send_line()

    def kill_child(self) -> list[list[str]]:
        """End the spawner's child at once; returns its last lines."""
        os.kill(self.child, KILL)
        self.child = 0
        return list(iter(self.read_words, ["dead"]))

    def close(self) -> None:
        """Make sure that it is gone, and its child."""
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, KILL)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the writer program with these words; killed at the end of the test, whatever happened."""
    with contextlib.ExitStack() as stack:

        def started(*words: object) -> Program:
            program = Program(*words)
            stack.callback(program.close)
            return program

        yield started


def _mount(where: Path, options: str) -> None:
    where.mkdir(exist_ok=True)
    if sys.platform == "win32":
        pytest.skip("Windows cannot mount a tmpfs")
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a tmpfs")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")


def _unmount(where: Path) -> None:
    subprocess.run(["umount", "--lazy", str(where)], capture_output=True, check=True)


class Disk(Protocol):
    """A disk that can be filled up and freed again."""

    folder: Path

    def fill(self) -> None:
        """From now on there is no space left, or a few bytes at most."""

    def free(self) -> None:
        """There is space again."""


class SmallDisk:
    """A tmpfs of a few pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ballast = folder / "ballast"

    def fill(self) -> None:
        """Write until the kernel says no."""
        with self.ballast.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)

    def free(self) -> None:
        """Remove what filled it."""
        self.ballast.unlink()


class LimitedFiles:
    """Any disk, with the kernel's limit on the size of a file that this process writes."""

    LIMIT = 5000

    def __init__(self, folder: Path) -> None:
        if sys.platform == "win32":
            pytest.skip("Windows does not limit the size of files")
        self.folder = folder
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        """Let files grow to a little more than a page only."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.LIMIT, self.before[1]))

    def free(self) -> None:
        """Let them grow again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.fixture(params=["small disk", "limited files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk that the test can fill up and free again; not full yet."""
    folder = tmp_path / "disk"
    if request.param == "small disk":
        _mount(folder, "size=128k")
        try:
            yield SmallDisk(folder)
        finally:
            _unmount(folder)
    else:
        folder.mkdir()
        limited = LimitedFiles(folder)
        try:
            yield limited
        finally:
            limited.free()


@pytest.fixture
def freezable(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder on a disk of its own, and the function that makes this disk read-only."""
    folder = tmp_path / "disk"
    _mount(folder, "size=4m")
    try:
        yield (
            folder,
            lambda: _run("mount", "-o", "remount,ro", str(folder)),
        )
    finally:
        _unmount(folder)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Without root's rights for a moment; nothing changes for somebody who has none."""
    if sys.platform == "win32":
        pytest.skip("Windows has no root")
    if os.geteuid() != 0:
        yield
        return
    group = os.getegid()
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk in memory where there is one: a kill is a kill there too, and fsync costs nothing."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="ralph-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter and change (pytest's own folders are private)."""
    folder = Path(tempfile.mkdtemp(prefix="ralph-shared-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        for path in [folder, *folder.rglob("*")]:
            if stat.S_ISDIR(path.lstat().st_mode):
                path.chmod(0o777)
        shutil.rmtree(folder)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Give the cases of parametrised tests readable names."""
    return case_name(val)
