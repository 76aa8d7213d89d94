"""Count the events that hooks have recorded, and the failures of hooks (`ralph status`)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ralph.capture import recorder
from ralph.search import index
from ralph.storage import files, sessions
from ralph.storage.sources import FoundLog, log_folders

_EVENT = re.compile(
    rb'\s*\{"v": ?\d+, ?"type": ?"(?:observation|event"(?:, ?"at": ?"[^"]*", ?"host": ?"(\w+))?)"'
)


def hook_usage(root: Path, logs: Sequence[FoundLog] | None = None) -> dict[str, Any]:
    """Count the recorded events and the failures of hooks, from the index where possible.

    A caller that has scanned the logs passes them. Raises Unreadable if a log cannot be read.
    """
    recorded = 0
    failures = recorder.Failures(0, "", "")
    hosts: set[str] = set()
    if index.outside(root) is None:  # do not follow a link out of the project
        if index.is_known_to_be_current(root):
            recorded, hosts = index.ask(root, sessions.recorded_events)
        else:
            recorded, hosts = _read_events(root, logs)
        failures = recorder.read_failures(root) or failures
    return {
        "recorded": recorded,
        "hosts": sorted(filter(None, hosts)),
        "failures": failures.count,
        "success_rate": _success_rate(recorded, failures.count),
        "last_failure_at": failures.at,
        "last_failure": failures.what,
    }


def _read_events(root: Path, logs: Sequence[FoundLog] | None) -> tuple[int, set[str]]:
    """Count the events in the logs of sessions, and collect the hosts that sent them."""
    recorded = 0
    hosts: set[str] = set()
    sessions_folder = f"{log_folders(root)[0]}{os.sep}"
    for path, read in index.read_logs(root, logs).items():
        if not path.startswith(sessions_folder):
            continue
        recorded += read.events
        hosts.update(read.hosts.split())
        if read.unread_bytes > 0:
            new_events = _count_events(path, read.offset)
            recorded += new_events.total()
            hosts.update(new_events)
    return recorded, hosts


def _count_events(path: str, offset: int) -> Counter[str]:
    """Count the events after an offset of a log by host. Observations count under ""."""
    events: Counter[str] = Counter()
    try:
        with files.open_unpacked(Path(path)) as file:
            file.seek(offset)
            for line in file:
                match = _EVENT.match(line)
                if match is not None:
                    host = match[1] or b""
                    events[host.decode()] += 1
    except OSError as error:
        from ralph.recall.injection_ledger import unreadable_file

        raise unreadable_file(path, error) from error
    return events


def _success_rate(recorded: int, failures: int) -> float | None:
    if not recorded + failures:
        return None
    return recorded / (recorded + failures)
