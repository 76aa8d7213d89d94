"""Group, list and end processes on Windows, where there are no sessions and no signals.

A program and all processes that it starts belong to a *job*. Ending the job ends them all, and so
does the end of the process that created it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from ctypes import wintypes

assert sys.platform == "win32"  # noqa: S101 - type checkers skip the module on other systems

# Programs get no console window, and Ctrl+C in ours does not reach them.
CREATION_FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP

_EXTENDED_LIMITS = 9  # the kind of information that SetInformationJobObject sets
_KILL_ON_JOB_CLOSE = 0x2000
_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
_SNAPSHOT_OF_PROCESSES = 0x2
_INVALID_HANDLE = wintypes.HANDLE(-1).value
_EXIT_CODE_OF_ENDED = 1

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)


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
_kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.GetExitCodeProcess.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
_kernel32.GetProcessTimes.argtypes = (wintypes.HANDLE, *[wintypes.LPFILETIME] * 4)
_kernel32.CreateToolhelp32Snapshot.argtypes = (wintypes.DWORD, wintypes.DWORD)
_kernel32.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
_kernel32.Process32FirstW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
_kernel32.Process32NextW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))


class Job:
    """A program and all processes that it starts."""

    def __init__(self, process_id: int) -> None:
        self._handle = _kernel32.CreateJobObjectW(None, None)
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        _kernel32.SetInformationJobObject(
            self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        all_access = 0x1F_FFFF
        program = _kernel32.OpenProcess(all_access, False, process_id)
        if program:  # otherwise it has ended already
            _kernel32.AssignProcessToJobObject(self._handle, program)
            _kernel32.CloseHandle(program)

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
