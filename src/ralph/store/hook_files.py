"""The files of hooks, with few imports: session logs, failure count, settings cache, index.

`append` is `files.append` with `os` alone. What is not the ordinary case (a link on the way, a file system without
locks) raises Unsure, and the caller uses `files`. Failures are counted in place in a file that is large enough: the
failure that matters most is a full disk.
"""

from __future__ import annotations

import fcntl
import os
import time

from ralph import discovery
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

_EACCES = 13
_EAGAIN = 11
_EFBIG = 27
_ENOSPC = 28
_TYPE = 0o170000
_REGULAR = 0o100000
_FOLDER = 0o040000
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
SPILL = "spill"  # the folder below `log` with lines that could not be appended in time
FAILURES_SIZE = (
    4096  # the size of the file that counts failures, so that counting never needs space
)
# seconds for a lock in all, and between two tries
_PATIENCE = 0.5
_PAUSE = 0.0005


class Unsure(Exception):
    """This is not the plain case; nothing was written."""


# --- appending ----------------------------------------------------------------------------------


def append(top: str, folders: tuple[str, ...], name: str, line: bytes) -> None:
    """Append one line to `top/folders.../name`; Unsure when `files` should try."""
    folder = _make_folders(top, folders)
    lock = _lock_folder(folder)
    try:
        handle = _open_log(f"{folder}/{name}")
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(handle, line) != len(line):
                os.ftruncate(handle, size)
                raise OSError(_ENOSPC, "no space left")
        finally:
            os.close(handle)
    finally:
        os.close(lock)


def _make_folders(top: str, folders: tuple[str, ...]) -> str:
    folder = top
    for each in folders:
        folder = f"{folder}/{each}"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if os.lstat(folder).st_mode & _TYPE != _FOLDER:
                raise Unsure(folder) from None  # a link is not followed
    return folder


def spill(state: str, name: str, line: bytes) -> None:
    """Store a line that cannot be appended now; `files.collect_spilled` appends it later."""
    folder = _make_folders(state, (discovery.LOG, SPILL))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC
    path = f"{folder}/{time.time_ns():020d}-{os.getpid()}-{name}"
    handle = os.open(f"{path}.part", flags, 0o600)
    try:
        if os.write(handle, line) != len(line):
            raise OSError(_ENOSPC, "no space left")
    except OSError:
        os.unlink(f"{path}.part")
        raise
    finally:
        os.close(handle)
    os.rename(f"{path}.part", path)


def probe(folder: str) -> str:
    """Return why no event can be stored in a folder, or in the nearest one above it; "" when one can."""
    while not os.path.lexists(folder):
        folder = folder.rpartition("/")[0]
    path = ""
    try:
        try:  # without a name, where the system can: then the folder keeps its time
            handle = os.open(
                folder, os.O_WRONLY | getattr(os, "O_TMPFILE", os.O_CREAT) | _CLOEXEC, 0o600
            )
        except OSError:
            path = f"{folder}/.ralph-probe-{os.getpid()}"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, 0o600)
        try:
            is_written = os.write(handle, bytes(FAILURES_SIZE)) == FAILURES_SIZE
        finally:
            os.close(handle)
            if path:
                os.unlink(path)
    except OSError as error:
        return f"{folder}: {(error.strerror or 'cannot be written').lower()}"
    return "" if is_written else f"{folder}: no space left"


def _lock_folder(folder: str) -> int:
    while True:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
        try:
            _lock(handle)
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except FileNotFoundError:
            os.close(handle)
            raise Unsure(folder) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)  # waiting in the kernel could not be ended after a time
        except OSError as error:
            raise Unsure(str(error)) from error
    raise OSError(_EAGAIN, "another process holds the lock")


def _open_log(path: str) -> int:
    try:
        handle = os.open(
            path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NOFOLLOW | _CLOEXEC | _NONBLOCK, 0o600
        )
    except OSError as error:
        if error.errno in (_ENOSPC, _EACCES, _EFBIG):
            raise
        raise Unsure(path) from error
    mode = os.fstat(handle).st_mode
    if mode & _TYPE != _REGULAR or not mode & 0o222:
        os.close(handle)
        raise Unsure(path)
    return handle


def timestamp() -> str:
    """Return this moment, as a log writes it."""
    now = time.time_ns() // 1000
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now // 1_000_000))}.{now % 1_000_000:06d}Z"


# --- counting failures --------------------------------------------------------------------------


def overwrite(path: str, edit: Callable[[bytes], bytes], size: int) -> bool:
    """Replace the first `size` bytes in place by `edit`; False when there is no such file."""
    try:
        handle = os.open(path, os.O_RDWR | _NOFOLLOW | _CLOEXEC | _NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        _lock(handle)
        now = os.fstat(handle)
        if now.st_mode & _TYPE != _REGULAR or now.st_size < size:
            return False
        os.pwrite(handle, edit(os.pread(handle, size, 0))[:size].ljust(size), 0)
    finally:
        os.close(handle)
    return True


def count_failure(state: str, event: str, problem: str) -> bool:
    """Count one more failure, on a full disk, too; False without a file to count in."""

    def next_line(before: bytes) -> bytes:
        count = int(before[:12]) + 1 if before[:12].isdigit() else 1
        text = " ".join(f"{event}: {problem}".encode("ascii", "replace").decode("ascii").split())
        return (
            f"{count:012d} {timestamp()} {text[:300]}".encode("ascii").ljust(FAILURES_SIZE - 1)
            + b"\n"
        )

    try:
        return overwrite(f"{state}/{discovery.LOG}/hook-failures", next_line, FAILURES_SIZE)
    except (OSError, Unsure):
        return False


# --- the settings cache -------------------------------------------------------------------------

CACHE_VERSION = "ralph-hook 5"
VARIABLES = (
    "RALPH_MEMORIES_",
    "RALPH_CONTEXT_",
    "RALPH_PRIVACY_",
    "RALPH_CAPTURE_",
    "RALPH_PRESENCE",
)
"""Prefixes of the variables that set what hooks use."""
FORGETS = "cache/forgets"  # a file a session: a line CALLED for each call of `ralph forget`, another for later prompts
CALLED = b"1\n"
SLOW_PATTERNS = "slow-patterns"  # the file that lists patterns of the user's that took too long
_LARGEST = 65_536


class HookSettings:
    """What hooks know of the settings."""

    def __init__(self, lines: Mapping[str, list[str]]) -> None:
        values = {key: texts[-1] for key, texts in lines.items() if texts}
        self.rules = values.get(
            "rules", ""
        )  # which rules a line was redacted by; see `secret_rules.rules_mark`
        self.capture = values["capture"] == "1"
        self.patterns = tuple(lines.get("pattern", ()))
        self.paths = tuple(lines.get("path", ()))
        self.enabled = values["enabled"] == "1"
        self.inject = values["inject"]
        self.presence = values.get("presence", "")
        self.budget, self.recent, self.window = (
            int(values[key]) for key in ("budget", "recent", "window")
        )
        self.share = float(values["share"])
        self.types = tuple(filter(None, values["types"].split(",")))
        self.tags = tuple(filter(None, values["tags"].split(",")))

    def switch_off(self, patterns: set[str]) -> None:
        """Do without some patterns of the user's."""
        left = tuple(pattern for pattern in self.patterns if pattern not in patterns)
        if left != self.patterns:
            self.patterns = left
            self.rules = ""


def escape(value: str) -> str:
    """Return a value on one line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _unescape(value: str) -> str:
    return value.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")


def set_variables(env: Mapping[str, str]) -> str:
    """Return the variables that set what hooks use, on one line."""
    return "\t".join(sorted(f"{name}={env[name]}" for name in env if name.startswith(VARIABLES)))


def file_state(path: str) -> str:
    """Return time, size (`0 0` for no file) and path of a config file."""
    try:
        now = os.stat(path)
        return f"{now.st_mtime_ns} {now.st_size} {path}"
    except (OSError, ValueError):
        return f"0 0 {path}"


def read_settings(
    path: str, root: str, env: Mapping[str, str], user_config: str
) -> HookSettings | None:
    """Return the cached settings; None when a file or variable behind them has changed."""
    text = (read_file(path) or b"").decode("utf-8", "surrogateescape")
    if not text.startswith(f"{CACHE_VERSION}\n") or not text.endswith("\n"):
        return None
    lines: dict[str, list[str]] = {}
    for key, equals, value in (line.partition("=") for line in text.split("\n")):
        if equals:
            lines.setdefault(key, []).append(_unescape(value))
    try:
        same = lines["root"] == [
            str(os.stat(root).st_ino)
        ]  # a copy of the folder has another number
        same = same and lines["user"] == [user_config] and lines["env"] == [set_variables(env)]
        same = same and all(state == file_state(state.split(" ", 2)[2]) for state in lines["file"])
        return HookSettings(lines) if same else None
    except (LookupError, ValueError, OSError):
        return None


def switch_off_pattern(top: str, state: str, pattern: str) -> None:
    """Note that a user's pattern took too long, if that can be written: hooks and commands do without it."""
    from contextlib import suppress  # few patterns take so long

    line = f"{escape(pattern)}\n".encode("utf-8", "replace")
    with suppress(OSError, Unsure):
        append(top, (*state[len(top) + 1 :].split("/"), "cache"), SLOW_PATTERNS, line)


def slow_patterns(state: str) -> set[str]:
    """Return the patterns that are switched off on this machine."""
    lines = (
        (read_file(f"{state}/cache/{SLOW_PATTERNS}") or b"").decode("utf-8", "replace").split("\n")
    )
    return {_unescape(line) for line in lines if line}


def read_file(path: str, largest: int = _LARGEST, *, end: bool = False) -> bytes | None:
    """Return a small file's bytes without waiting; of a larger one the beginning or the `end`."""
    try:
        handle = os.open(path, os.O_RDONLY | _CLOEXEC | _NONBLOCK)
        try:
            if end:
                os.lseek(handle, max(0, os.fstat(handle).st_size - largest), os.SEEK_SET)
            return os.read(handle, largest)
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return None


# --- the index ----------------------------------------------------------------------------------

_ANSWER_SECONDS = 2.0
_MAPPED = (
    1 << 28
)  # bytes of the index that are mapped into memory: a question reads hundreds of its pages


def _is_sealed(path: str) -> bool:
    seal = (read_file(f"{path}-seal") or b"").split()
    try:
        now = os.stat(path)
        if not seal or not now.st_size:
            return False
        if [int(number) for number in seal[:3]] == [now.st_size, now.st_mtime_ns, now.st_ino]:
            return True
        handle = os.open(f"{path}-lock", os.O_RDWR | _NOFOLLOW | _CLOEXEC | _NONBLOCK)
    except (OSError, ValueError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def open_index(path: str) -> sqlite3.Connection | None:
    """Return a read-only connection, or None without a complete index of this version."""
    import sqlite3  # recording must not load it

    from ralph.store.lookup import SCHEMA_VERSION, UNEXPECTED

    if not _is_sealed(path):
        return None
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    connection = sqlite3.connect(
        f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=0.2
    )
    deadline = time.monotonic() + _ANSWER_SECONDS  # `signal` would cost as much as an answer
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 20_000)
    try:
        connection.execute(f"PRAGMA mmap_size = {_MAPPED}").fetchone()
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")  # one lock for all statements
        is_current = connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        if is_current and not connection.execute(UNEXPECTED).fetchone()[0]:
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None
