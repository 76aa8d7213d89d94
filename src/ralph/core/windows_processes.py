"""Group, list and end processes on Windows, where there are no sessions and no signals.

A program and all processes that it starts belong to a *job*. Ending the job ends them all, and so
does the end of the process that created it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from ctypes import wintypes
from pathlib import Path

assert sys.platform == "win32"  # noqa: S101 - type checkers skip the module on other systems

_CREATE_SUSPENDED = 0x4
JOB_FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP | _CREATE_SUSPENDED
"""How to create a program for a job.

It gets no console window, and Ctrl+C in ours does not reach it. It waits until it belongs to its
job, because a process that it started before that would not.
"""
DETACHED_FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
"""How to create a program that outlives this process.

It gets a console that nobody sees. Without one, each program that it starts would open a window.
"""
LEAVING_JOB_FLAGS = DETACHED_FLAGS | subprocess.CREATE_BREAKAWAY_FROM_JOB
"""The same, but the program also outlives the job of this process, if the job permits that."""

_CMD = os.environ.get("SYSTEMROOT", r"C:\Windows") + r"\System32\cmd.exe"
SHELL = (_CMD, "/d", "/s", "/c")
_BATCH_SUFFIXES = (".bat", ".cmd")
_LINE_BREAKS = ("\0", "\r", "\n")
_BACKSLASHES_BEFORE_QUOTE = re.compile(r'(\\+)("|$)')
# An expression without a value, so that cmd finds no variable between two percent signs.
_HARMLESS_PERCENT = "%%cd:~,%"

_EXTENDED_LIMITS = 9  # the kind of information that SetInformationJobObject sets
_BREAKAWAY_OK = 0x800  # a process may leave the job, as a new session leaves a group on POSIX
_KILL_ON_JOB_CLOSE = 0x2000
_ALL_ACCESS = 0x1F_FFFF
_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
_SNAPSHOT_OF_PROCESSES = 0x2
_INVALID_HANDLE = wintypes.HANDLE(-1).value
_EXIT_CODE_OF_ENDED = 1

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_ntdll = ctypes.WinDLL("ntdll")


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
        ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
        ("LimitFlags", wintypes.DWORD),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", wintypes.DWORD),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", wintypes.DWORD),
        ("SchedulingClass", wintypes.DWORD),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_ulonglong * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class _ProcessEntry(ctypes.Structure):
    _fields_ = (
        ("dwSize", wintypes.DWORD),
        ("cntUsage", wintypes.DWORD),
        ("th32ProcessID", wintypes.DWORD),
        ("th32DefaultHeapID", ctypes.c_size_t),
        ("th32ModuleID", wintypes.DWORD),
        ("cntThreads", wintypes.DWORD),
        ("th32ParentProcessID", wintypes.DWORD),
        ("pcPriClassBase", wintypes.LONG),
        ("dwFlags", wintypes.DWORD),
        ("szExeFile", wintypes.WCHAR * 260),
    )


_kernel32.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
_kernel32.CreateJobObjectW.restype = wintypes.HANDLE
_kernel32.SetInformationJobObject.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
)
_kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_kernel32.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel32.TerminateProcess.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.GetExitCodeProcess.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
_kernel32.GetProcessTimes.argtypes = (wintypes.HANDLE, *[wintypes.LPFILETIME] * 4)
_kernel32.CreateToolhelp32Snapshot.argtypes = (wintypes.DWORD, wintypes.DWORD)
_kernel32.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
_kernel32.Process32FirstW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
_kernel32.Process32NextW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
_ntdll.NtResumeProcess.argtypes = (wintypes.HANDLE,)


def command_line(
    argv: Sequence[str], folder: Path, env: Mapping[str, str] | None
) -> list[str] | str:
    """Return what `subprocess` needs to start a program.

    Programs from npm are batch files, which Windows does not find without their suffix, and whose
    arguments cmd interprets. Raises ValueError for an argument that cannot be passed to one.
    """
    words = list(argv)
    if tuple(words[:-1]) == SHELL:
        return f'{" ".join(SHELL)} "{words[-1]}"'
    program = find_program(words[0], folder, env)
    if not is_batch_file(program):
        return [program, *words[1:]]
    return f'{_CMD} /d /e:ON /v:OFF /s /c "{batch_file_line(program, words[1:])}"'


def is_batch_file(program: str) -> bool:
    """Return whether cmd runs a program."""
    return program.lower().endswith(_BATCH_SUFFIXES)


def batch_file_line(program: str, words: Sequence[str]) -> str:
    """Return the line with which cmd starts a batch file.

    Raises ValueError for an argument that cannot be passed to one.
    """
    return " ".join(_quote_for_batch_file(word) for word in (program, *words))


def find_program(name: str, folder: Path, env: Mapping[str, str] | None) -> str:
    """Return the path of a program.

    Windows looks for a name in the current folder first, and a clone may bring a program with the
    name of a common one. Only the folders of PATH are searched here. A path is relative to the
    folder in which the program will run. Raises FileNotFoundError if there is no such program.
    """
    if env is None:
        env = os.environ
    if _is_path(name):
        candidates = [folder / name]
    else:
        search_path = env.get("PATH") or env.get("Path") or ""
        folders = [Path(part.strip('"')) for part in search_path.split(os.pathsep)]
        candidates = [path / name for path in folders if path.is_absolute()]
    for candidate in candidates:
        found = shutil.which(str(candidate), path="")
        if found is not None:
            return found
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _is_path(name: str) -> bool:
    return "/" in name or "\\" in name


def _quote_for_batch_file(word: str) -> str:
    """Quote an argument so that neither cmd nor the batch file interprets any part of it."""
    for line_break in _LINE_BREAKS:
        if line_break in word:
            raise ValueError("an argument of a batch file cannot have several lines")
    word = _BACKSLASHES_BEFORE_QUOTE.sub(r"\1\1\2", word)
    return '"' + word.replace('"', '""').replace("%", _HARMLESS_PERCENT) + '"'


class Job:
    """A program and all processes that it starts."""

    def __init__(self, process_id: int) -> None:
        """Put a program that was created with `JOB_FLAGS` into a job, and let it run.

        Raises OSError if that fails. The program is ended then.
        """
        self._handle = _kernel32.CreateJobObjectW(None, None)
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE | _BREAKAWAY_OK
        _kernel32.SetInformationJobObject(
            self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        program = _kernel32.OpenProcess(_ALL_ACCESS, False, process_id)
        if not program:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            self._take_over(program)
        except OSError:
            _kernel32.TerminateProcess(program, _EXIT_CODE_OF_ENDED)
            self.close()
            raise
        finally:
            _kernel32.CloseHandle(program)

    def _take_over(self, program: int) -> None:
        if not _kernel32.AssignProcessToJobObject(self._handle, program):
            raise ctypes.WinError(ctypes.get_last_error())
        if _ntdll.NtResumeProcess(program) != 0:
            raise OSError("the program cannot be resumed")

    def end(self) -> None:
        """End all processes of the job."""
        _kernel32.TerminateJobObject(self._handle, _EXIT_CODE_OF_ENDED)

    def close(self) -> None:
        """Forget the job, ending whatever is left of it."""
        if self._handle:
            _kernel32.CloseHandle(self._handle)
            self._handle = None


def started_at(process_id: int) -> str:
    """Return when a process started, or "" if it has ended."""
    handle = _kernel32.OpenProcess(_QUERY_LIMITED_INFORMATION, False, process_id)
    if not handle:
        return ""
    try:
        exit_code = wintypes.DWORD()
        _kernel32.GetExitCodeProcess(handle, ctypes.byref(exit_code))
        if exit_code.value != _STILL_ACTIVE:
            return ""
        times = [wintypes.FILETIME() for _ in range(4)]
        _kernel32.GetProcessTimes(handle, *map(ctypes.byref, times))
        created = times[0]
        return f"{created.dwHighDateTime:x}-{created.dwLowDateTime:x}"
    finally:
        _kernel32.CloseHandle(handle)


def list_parents() -> Iterator[tuple[int, int]]:
    """Return the id of every process together with the id of its parent."""
    snapshot = _kernel32.CreateToolhelp32Snapshot(_SNAPSHOT_OF_PROCESSES, 0)
    if snapshot == _INVALID_HANDLE:
        return
    try:
        entry = _ProcessEntry()
        entry.dwSize = ctypes.sizeof(entry)
        has_entry = _kernel32.Process32FirstW(snapshot, ctypes.byref(entry))
        while has_entry:
            yield entry.th32ProcessID, entry.th32ParentProcessID
            has_entry = _kernel32.Process32NextW(snapshot, ctypes.byref(entry))
    finally:
        _kernel32.CloseHandle(snapshot)
