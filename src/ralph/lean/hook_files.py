"""Read and write the files that hooks need, with few imports.

These are the session logs, the failure count and the settings cache. `append` does what
`files.append` does, using only `os`. Anything unusual, such as a link in the path or a file system
without locks, raises Unsure, and the caller falls back to `files`. A line that cannot be appended
in time is *spilled*: it is stored in a separate file and appended later. Failures are counted in
place, in a file that is already large enough, because the failure that matters most is a full disk.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from ralph.lean import TYPE_CHECKING, discovery, open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# The handle is not inherited, no link is followed, and a FIFO does not block.
_SAFELY = open_files.BINARY | open_files.CLOEXEC | open_files.NOFOLLOW | open_files.NONBLOCK
_ANY_WRITE_BIT = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
SPILL = "spill"  # the folder below `log` for lines that could not be appended in time
FAILURES_SIZE = 4096  # bytes reserved for the failure count, so that counting never needs space
_LOCK_SECONDS = 0.5  # how long to wait for a lock
_LOCK_PAUSE = 0.0005  # seconds between two attempts


class Unsure(Exception):
    """This is not the ordinary case. Nothing was written, and `files` should try instead."""


# --- appending ----------------------------------------------------------------------------------


def append(top: str, folders: Sequence[str], name: str, line: bytes) -> None:
    """Append one line to `top/folders.../name`.

    Raises Unsure if this is not the ordinary case, and OSError if the line cannot be written.
    """
    folder = _make_folders(top, folders)
    lock = _lock_folder(folder)
    try:
        handle, size = _open_log(f"{folder}/{name}")
        try:
            if size and open_files.read_at(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(handle, line) != len(line):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, "no space left")
        finally:
            os.close(handle)
    finally:
        os.close(lock)


def _make_folders(top: str, folders: Sequence[str]) -> str:
    path = top
    for folder in folders:
        path = f"{path}/{folder}"
        try:
            os.mkdir(path, _PRIVATE_FOLDER)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise Unsure(path) from None  # a link is not followed
    return path


def _open_log(path: str) -> tuple[int, int]:
    """Open a log, and return its handle and its size. Raises Unsure unless it is a plain file."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY
    try:
        handle = os.open(path, flags, _PRIVATE_FILE)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EFBIG):
            raise
        raise Unsure(path) from error
    now = os.fstat(handle)
    if not stat.S_ISREG(now.st_mode) or not now.st_mode & _ANY_WRITE_BIT:
        os.close(handle)
        raise Unsure(path)
    return handle, now.st_size


def _lock_folder(folder: str) -> int:
    while True:
        handle = open_files.open_to_lock_folder(folder)
        try:
            _lock(handle)
            if open_files.is_locked_file(handle, folder):
                return handle
        except FileNotFoundError:
            os.close(handle)
            raise Unsure(folder) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the folder was replaced while we waited


def _lock(handle: int) -> None:
    end = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < end:
        try:
            if open_files.try_lock(handle):
                return
        except OSError as error:
            raise Unsure(str(error)) from error
        time.sleep(_LOCK_PAUSE)  # waiting in the kernel has no time limit
    raise OSError(errno.EAGAIN, "another process holds the lock")


_TAINT = '"taint":'  # in a raw event, before its payload
_PAYLOAD = '"payload":'
_UNCONFIRMED = '"unconfirmed":'  # in an observation
_OBSERVATION = '{"v":1,"type":"observation",'


def taint_in_log(log: str) -> str:
    """Return the first taint that a session's log names (see `lean/taint.py`), or ""."""
    if _TAINT not in log and _UNCONFIRMED not in log:
        return ""
    for line in log.split("\n"):
        if line.startswith(_OBSERVATION):
            _, mark, rest = line.partition(_UNCONFIRMED)
        else:
            _, mark, rest = line.partition(_PAYLOAD)[0].partition(_TAINT)
        if mark:
            return rest.lstrip(' "').partition('"')[0]
    return ""


def spill(state: str, name: str, line: bytes) -> None:
    """Store a line that cannot be appended now. `files.collect_spilled` appends it later.

    Raises OSError or Unsure if it cannot be stored either.
    """
    folder = _make_folders(state, (discovery.LOG, SPILL))
    path = f"{folder}/{time.time_ns():020d}-{os.getpid()}-{name}"
    draft = f"{path}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
    handle = os.open(draft, flags, _PRIVATE_FILE)
    try:
        try:
            if os.write(handle, line) != len(line):
                raise OSError(errno.ENOSPC, "no space left")
        finally:
            os.close(handle)
    except OSError:
        os.unlink(draft)
        raise
    os.replace(draft, path)


def probe(folder: str) -> str:
    """Return why no event can be stored in a folder, or "" if one can.

    If the folder does not exist, its nearest existing parent is checked.
    """
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        if _can_hold_failures(folder):
            return ""
    except OSError as error:
        reason = error.strerror or "cannot be written"
        return f"{folder}: {reason.lower()}"
    return f"{folder}: no space left"


def _can_hold_failures(folder: str) -> bool:
    """Return whether a folder has space, by writing a temporary file.

    Raises OSError if the folder cannot be written to.
    """
    path = ""
    unnamed = getattr(os, "O_TMPFILE", os.O_CREAT)  # where supported, the folder keeps its mtime
    try:
        handle = os.open(folder, os.O_WRONLY | unnamed | open_files.CLOEXEC, _PRIVATE_FILE)
    except OSError:
        path = f"{folder}/.ralph-probe-{os.getpid()}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, _PRIVATE_FILE)
    try:
        return os.write(handle, bytes(FAILURES_SIZE)) == FAILURES_SIZE
    finally:
        os.close(handle)
        if path:
            os.unlink(path)


def timestamp() -> str:
    """Return the current time in UTC, in the format used in logs."""
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{microseconds:06d}Z"


# --- counting failures --------------------------------------------------------------------------

_FAILURES = "hook-failures"  # the file in the folder `log`
_COUNT_DIGITS = 12
_MAX_PROBLEM = 300  # characters of the last failure that are kept


def overwrite(path: str, edit: Callable[[bytes], bytes], size: int) -> bool:
    """Replace the first `size` bytes of a file in place with the result of `edit`.

    Return False if the file is missing or too small. Raises OSError if the file cannot be written,
    and Unsure if it cannot be locked.
    """
    try:
        handle = os.open(path, os.O_RDWR | _SAFELY)
    except FileNotFoundError:
        return False
    try:
        _lock(handle)
        now = os.fstat(handle)
        if not stat.S_ISREG(now.st_mode) or now.st_size < size:
            return False
        before = open_files.read_at(handle, size, 0)
        open_files.write_at(handle, edit(before)[:size].ljust(size), 0)
    finally:
        os.close(handle)
    return True


def count_failure(state: str, event: str, problem: str, *, top: str = "") -> bool:
    """Count one more failure, even on a full disk.

    If there is no file to count in, it is created below `top`, which must contain the state folder.
    Return False if that is impossible, or without `top`.
    """

    def next_line(before: bytes) -> bytes:
        count = 1
        if before[:_COUNT_DIGITS].isdigit():
            count = int(before[:_COUNT_DIGITS]) + 1
        text = f"{event}: {problem}".encode("ascii", "replace").decode("ascii")
        text = " ".join(text.split())[:_MAX_PROBLEM]
        line = f"{count:0{_COUNT_DIGITS}d} {timestamp()} {text}"
        return line.encode("ascii").ljust(FAILURES_SIZE - 1) + b"\n"

    path = f"{state}/{discovery.LOG}/{_FAILURES}"
    try:
        if overwrite(path, next_line, FAILURES_SIZE):
            return True
        if not top or os.path.lexists(path):
            return False
        _create_private(
            top, (*_folders_below(top, state), discovery.LOG), _FAILURES, next_line(b"")
        )
        return True
    except (OSError, Unsure):
        return False


def _folders_below(top: str, path: str) -> list[str]:
    return discovery.with_slashes(path)[len(top) + 1 :].split("/")


def _create_private(top: str, folders: Sequence[str], name: str, text: bytes) -> None:
    """Create a file that only its owner may read. Raises FileExistsError if there is one."""
    folder = _make_folders(top, folders)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
    handle = os.open(f"{folder}/{name}", flags, _PRIVATE_FILE)
    try:
        os.write(handle, text)
    finally:
        os.close(handle)


# --- the settings cache -------------------------------------------------------------------------

CACHE_VERSION = "ralph-hook 7"
VARIABLES = (
    "RALPH_MEMORIES_",
    "RALPH_CONTEXT_",
    "RALPH_PRIVACY_",
    "RALPH_CAPTURE_",
    "RALPH_LEARNING_",
    "RALPH_PRESENCE",
)
"""Prefixes of the environment variables that affect hooks."""
FORGETS = f"{discovery.CACHE}/forgets"
"""Folder with one file per session.

Each call of `ralph forget` adds a line `CALLED` to its session's file. Prompts add other lines.
"""
CALLED = b"1\n"
SLOW_PATTERNS = "slow-patterns"  # the file that lists user patterns that timed out
_MAX_SMALL_FILE = 65_536  # bytes
_PRIVACY_VARIABLES = "RALPH_PRIVACY_"
_TOLD = "told"  # the file in the cache that lists what the user was told once
_TOLD_TODAY = "told-today"  # the file in the user's state folder: a date, then what they were told
_DATE_LENGTH = len("YYYY-MM-DD")


class RecordingRules:
    """What is private in a project: all that recording an event has to know."""

    def __init__(self, lines: Mapping[str, list[str]]) -> None:
        # Identifies the version of the rules; see `secret_rules.rules_mark`.
        self.mark = lines.get("rules", [""])[-1]
        self.patterns = tuple(lines.get("pattern", ()))
        self.paths = tuple(lines.get("path", ()))

    def switch_off(self, patterns: set[str]) -> None:
        """Stop using these user patterns."""
        remaining = tuple(pattern for pattern in self.patterns if pattern not in patterns)
        if remaining != self.patterns:
            self.patterns = remaining
            self.mark = ""


class HookSettings:
    """The settings that hooks use, read from the lines of the settings cache."""

    def __init__(self, lines: Mapping[str, list[str]]) -> None:
        values = {key: texts[-1] for key, texts in lines.items() if texts}
        self.rules = RecordingRules(lines)
        self.problem = values.get("problem", "")  # why some settings cannot be used
        self.broken = values.get("broken", "")  # changes with the files that cannot be used
        self.remember = tuple(lines.get("remember", ()))  # empty means the defaults
        self.enabled = values["enabled"] == "1"
        self.inject = values["inject"]
        self.presence = values.get("presence", "")
        self.budget = int(values["budget"])
        self.recent = int(values["recent"])
        self.window = int(values["window"])
        self.share = float(values["share"])
        self.types = tuple(filter(None, values["types"].split(",")))
        self.tags = tuple(filter(None, values["tags"].split(",")))


def escape(value: str) -> str:
    """Escape a value so that it fits on one line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _unescape(value: str) -> str:
    return value.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")


def set_variables(env: Mapping[str, str]) -> str:
    """Return the environment variables that affect hooks, joined into one line."""
    return "\t".join(sorted(f"{name}={env[name]}" for name in env if name.startswith(VARIABLES)))


def file_state(path: str) -> str:
    """Return a config file's modification time, size and path, or `0 0 <path>` if missing."""
    try:
        now = os.stat(path)
        return f"{now.st_mtime_ns} {now.st_size} {path}"
    except (OSError, ValueError):
        return f"0 0 {path}"


def read_settings(
    path: str, root: str, env: Mapping[str, str], user_config: str
) -> HookSettings | None:
    """Return the cached settings, or None if the cache cannot be used.

    The cache is outdated once a config file or an environment variable has changed.
    """
    lines = _read_cache(path)
    try:
        if _is_current(lines, root, env, user_config):
            return HookSettings(lines)
    except (LookupError, ValueError, OSError):
        pass
    return None


def read_recording_rules(
    path: str, root: str, env: Mapping[str, str], user_config: str, main: str
) -> RecordingRules | None:
    """Return rules that are strict enough to record with, although the cache is not current.

    They are the cached ones, or none before the first cache. That is enough if no config file that
    has changed can contain privacy rules. Return None if one might, because only the YAML parser
    can tell. `main` is the project's folder in the main checkout.
    """
    if any(name.startswith(_PRIVACY_VARIABLES) for name in env):
        return None
    lines = _read_cache(path)
    try:
        if not _is_of_project(lines, root, env, user_config):
            lines = {}
    except (LookupError, OSError):
        lines = {}
    known_states = lines.get("file", ())
    config_files = [user_config]
    for folder in (root, main):
        config_files += [f"{folder}/{name}" for name in discovery.CONFIG_FILES]
    for config_file in config_files:
        if file_state(config_file) not in known_states and _may_contain_rules(config_file):
            return None
    from ralph.lean.secret_rules import rules_mark  # recording loads it, the status line does not

    return RecordingRules({"rules": [rules_mark(())], **lines})


def _may_contain_rules(config_file: str) -> bool:
    """Return whether a config file may contain privacy rules, without parsing it.

    A key can be written with escapes, so a backslash counts as well.
    """
    try:
        mode = os.stat(config_file).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    text = read_file(config_file, _MAX_SMALL_FILE + 1)
    if not stat.S_ISREG(mode) or text is None or len(text) > _MAX_SMALL_FILE:
        return True
    return b"privacy" in text or b"\\" in text


def _read_cache(path: str) -> dict[str, list[str]]:
    """Return the values in the settings cache by their keys, or {} if it cannot be read."""
    text = (read_file(path) or b"").decode("utf-8", "surrogateescape")
    lines: dict[str, list[str]] = {}
    if not text.startswith(f"{CACHE_VERSION}\n") or not text.endswith("\n"):
        return lines
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            lines.setdefault(key, []).append(_unescape(value))
    return lines


def _is_current(
    lines: Mapping[str, list[str]], root: str, env: Mapping[str, str], user_config: str
) -> bool:
    if not _is_of_project(lines, root, env, user_config):
        return False
    for state in lines["file"]:
        config_path = state.split(" ", 2)[2]
        if state != file_state(config_path):
            return False
    return True


def _is_of_project(
    lines: Mapping[str, list[str]], root: str, env: Mapping[str, str], user_config: str
) -> bool:
    """Return whether a cache was written for this folder, this user and these variables."""
    if lines["root"] != [str(os.stat(root).st_ino)]:  # a copy of the folder has a different inode
        return False
    return lines["user"] == [user_config] and lines["env"] == [set_variables(env)]


def tell_once(top: str, state: str, what: str) -> bool:
    """Record that the user is told something, and return whether it is new to them.

    If it cannot be recorded, the user is told again next time.
    """
    line = f"{escape(what)}\n".encode("utf-8", "replace")
    told = read_file(f"{state}/{discovery.CACHE}/{_TOLD}", end=True) or b""
    if line in told:
        return False
    try:
        append(top, (*_folders_below(top, state), discovery.CACHE), _TOLD, line)
    except (OSError, Unsure):
        return True
    return True


def is_told_today(folder: str, what: str) -> bool:
    """Return whether `tell_daily` has recorded today that the user was told something."""
    told = read_file(f"{folder}/{_TOLD_TODAY}") or b""
    today = timestamp()[:_DATE_LENGTH]
    line = f"{escape(what)}\n".encode("utf-8", "surrogateescape")
    return told.startswith(f"{today}\n".encode()) and b"\n" + line in told


def tell_daily(folder: str, what: str) -> bool:
    """Record in the user's state folder that they are told something today.

    Return whether that is new today. If it cannot be recorded, they are not told.
    """
    if not folder or is_told_today(folder, what):  # without a home folder there is no state folder
        return False
    path = f"{folder}/{_TOLD_TODAY}"
    today = timestamp()[:_DATE_LENGTH]
    line = f"{escape(what)}\n".encode("utf-8", "surrogateescape")
    told = read_file(path) or b""
    try:
        if not told.startswith(f"{today}\n".encode()):
            _replace_private(path, f"{today}\n".encode() + line)
            return True
        append(folder, (), _TOLD_TODAY, line)
    except (OSError, Unsure):
        return False
    return True


def _replace_private(path: str, text: bytes) -> None:
    """Write a file that only its owner may read. It replaces an older one, also if that is a link.

    Raises OSError.
    """
    draft = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
    handle = os.open(draft, flags, _PRIVATE_FILE)
    try:
        os.write(handle, text)
    finally:
        os.close(handle)
    os.replace(draft, path)


def switch_off_pattern(top: str, state: str, pattern: str) -> None:
    """Record that a user's pattern timed out, so that hooks and commands skip it.

    If it cannot be recorded, the pattern stays on.
    """
    line = f"{escape(pattern)}\n".encode("utf-8", "replace")
    folders = (*_folders_below(top, state), discovery.CACHE)
    try:
        append(top, folders, SLOW_PATTERNS, line)
    except (OSError, Unsure):
        return  # the pattern will time out again


def slow_patterns(state: str) -> set[str]:
    """Return the patterns that are switched off on this machine."""
    text = (read_file(f"{state}/{discovery.CACHE}/{SLOW_PATTERNS}") or b"").decode(
        "utf-8", "replace"
    )
    return {_unescape(line) for line in text.split("\n") if line}


def read_file(path: str, largest: int = _MAX_SMALL_FILE, *, end: bool = False) -> bytes | None:
    """Return at most `largest` bytes from the beginning of a file, or from its end.

    This never blocks. Return None if the file cannot be read.
    """
    try:
        handle = os.open(path, open_files.FOR_READING)
        try:
            size = os.fstat(handle).st_size
            if end:
                os.lseek(handle, max(0, size - largest), os.SEEK_SET)
            # A large buffer takes longer to allocate than a small file to read. A pipe has no size.
            return os.read(handle, min(size or largest, largest))
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return None


# --- the index ----------------------------------------------------------------------------------

SEAL_FIELDS = 4  # size, modification time, inode, and the inode of the folder
MEMORY_STATES = "-memories"
"""The suffix of the file that lists the memory files as the index read them.

Its first line is the version of the index, and every other line is a `memory_state`.
"""
_MAX_MEMORY_STATES = 1 << 18  # bytes


def seal_fields(path: str) -> list[int]:
    """Return the numbers that a seal has for a database. Raises OSError if it is missing."""
    now = os.stat(path)
    folder = os.stat(os.path.dirname(path) or "/")
    return [now.st_size, now.st_mtime_ns, now.st_ino, folder.st_ino]


def fits_seal(sealed: list[int], now: list[int]) -> bool:
    """Check whether a database is the one that was sealed, or came with a copy of its folder.

    A copy that keeps the times (`cp -a`) differs in both inodes. In the same folder, a file with
    another inode was put there by another program.
    """
    if len(sealed) != SEAL_FIELDS or sealed[:2] != now[:2]:
        return False
    return sealed[2] == now[2] or sealed[3] != now[3]


def is_index_complete(path: str) -> bool:
    """Return whether the index still fits its seal, or is being updated right now."""
    seal = (read_file(f"{path}-seal") or b"").split()
    try:
        now = seal_fields(path)
        if not seal or not now[0]:
            return False
        if fits_seal([int(number) for number in seal[:SEAL_FIELDS]], now):
            return True
        handle = os.open(f"{path}-lock", os.O_RDWR | _SAFELY)
    except (OSError, ValueError):
        return False
    try:
        return open_files.is_locked(handle)  # another process holds the lock while it writes
    finally:
        os.close(handle)


def memory_state(root: str, name: str) -> str:
    """Return the state of a memory file or of a folder with such files, for comparison.

    `name` is relative to the project if the file is inside it, so that it holds for a copy as well.
    """
    try:
        now = os.stat(name if os.path.isabs(name) else f"{root}/{name}")
    except (OSError, ValueError):
        return f"0 0 {name}"
    size = 0 if stat.S_ISDIR(now.st_mode) else now.st_size
    return f"{now.st_mtime_ns} {size} {name}"


def read_memory_states(path: str) -> list[str]:
    """Return the version of an index and the states of its memory files, or []."""
    states = read_file(path + MEMORY_STATES, _MAX_MEMORY_STATES) or b""
    return states.decode("utf-8", "surrogateescape").split("\n")[:-1]
