"""The program that the crash test starts and kills: it records events through a hook until it is killed.

For each event it says `did <token>` when the append returned its full length, `not <token>` when it failed
and was counted. While a file `full` stands in the folder above the project, its files may grow to a page
only: that stands in for a full disk where none can be mounted.
"""

import json
import os
import random
import resource
import sys
from pathlib import Path

from ralph.hooks.handler import Payload, Project, append_event
from ralph.lean.hook_files import RecordingRules

SESSIONS = 4
LIMIT = 4096


def token(number: int) -> str:
    return f"{os.getpid()}-{number}"


def event(name: str) -> tuple[int, dict[str, object]]:
    """An event of one of a few sessions, of any size that hooks store as it came."""
    session = random.randrange(SESSIONS)
    size = random.choice([0, 20, 200, 200, 3000, 9000])
    return session, {
        "session_id": f"s-{session}",
        "tool_name": "Bash",
        "note": name,
        "tool_response": "ab " * (size // 3),
    }


def main(root: Path) -> None:
    project = Project(str(root))
    project.rules = RecordingRules({})
    number = 0
    while True:
        number += 1
        full = (root.parent / "full").exists()
        resource.setrlimit(
            resource.RLIMIT_FSIZE,
            (LIMIT if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        )
        name = token(number)
        _, said = event(name)
        kept = append_event(
            "claude", "PostToolUse", Payload(json.dumps(said).encode()), project, {}
        )
        os.write(1, f"{'did' if kept else 'not'} {name}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
