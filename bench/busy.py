"""Count the hooks that answer, record and end in time while other processes keep the machine busy.

`python bench/busy.py [--rounds 50] [--busy 20] [--records 2000] [EVENT ...]`. Each round sends one of each event to a
generated project, and before each of them starts a control: a bare interpreter that reads the same input. 50 rounds of
four events are 200 hooks. Every round is a new session, and no session ends properly, so that a session's start finds
an index that is out of date. The columns:

- *answered*: the answer has the memory that the event is about
- *recorded*: the event is in its session's log
- *late*: the hook ended after the time that Claude Code waits for it

The busy processes are children of this one and end with it, however it ends.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.metrics import percentile
from bench.sessions import Words

import ralph.hooks
from bench import speed
from ralph.capture import recorder
from ralph.core import paths
from ralph.core.config import load
from ralph.install.client_entries import timeout_of
from ralph.lean import discovery
from ralph.search import index
from ralph.storage import files

ROUNDS = 50
BUSY_PROCESSES = 20
RECORDS = 2_000
MIN_ANSWERED = 0.95
"""The share of events with an answer that must be answered."""

_HOOK = Path(ralph.hooks.__file__).with_name("run.py")
_OTHER_MEMORIES = 300
_SUBJECTS = ("cart", "invoice", "voucher", "shipment", "refund", "catalogue", "pallet", "warehouse")
_GUARDRAIL = "Never edit a migration that is already on main."
_BUSY_LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""
"""Keeps a core busy until the process with this id is no longer the parent."""
_CONTROL = "import sys\nsys.stdin.buffer.read()\n"


@dataclass(frozen=True, slots=True)
class Case:
    """An event, the text that its answer must contain, and whether it belongs in the log."""

    event: str
    members: Mapping[str, object]
    expected: str = ""
    is_recorded: bool = True


@dataclass(slots=True)
class Counts:
    """What happened to the hooks of one event, and how long they took in seconds."""

    tries: int = 0
    answered: int = 0
    recorded: int = 0
    late: int = 0
    seconds: list[float] = field(default_factory=list)
    control_seconds: list[float] = field(default_factory=list)


def cases(number: int) -> list[Case]:
    """Return the events of one round. Eight rounds in a row are about different subjects."""
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    return [
        Case("SessionStart", {"source": "startup"}, _GUARDRAIL),
        Case(
            "UserPromptSubmit",
            {"prompt": f"which encoding does the {subject} importer expect for umlauts?"},
            _decision(subject),
        ),
        Case(
            "PreToolUse",
            {"tool_name": "Bash", "tool_input": {"command": f"make import-{subject}"}},
            _fix(subject),
            is_recorded=False,
        ),
        Case(
            "PostToolUse",
            {
                "tool_name": "Bash",
                "tool_input": {"command": "pytest -q"},
                "tool_response": {"stdout": "40 passed in 2.31s\n" * 20, "stderr": ""},
            },
        ),
    ]


def _decision(subject: str) -> str:
    return f"The {subject} importer expects umlauts in the encoding latin-1."


def _fix(subject: str) -> str:
    return f"`make import-{subject}` fails unless the {subject} queue is empty."


# --- the project --------------------------------------------------------------------------------


def create_project(root: Path, records: int) -> dict[str, str]:
    """Create an indexed project in a git repository, and return the environment of its hooks."""
    words = Words(records)
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    files.write(root / "ralph.yml", "# made for a measurement\n")
    files.write(paths.guardrails_files(root)[0], _guardrails())
    files.write(paths.memories_files(root)[0], _memories(words))
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    author = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    subprocess.run(["git", *author, "commit", "-q", "-m", "Add memories"], cwd=root, check=True)
    speed.write(root, records, words)
    index.sync(root)
    env = {
        "HOME": str(root.parent),
        "CLAUDE_PROJECT_DIR": str(root),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        # the machine id of this process
        "XDG_STATE_HOME": str(Path(discovery.user_folder("STATE")).parent),
    }
    recorder.write_settings(root, load(root, env=env), env=env)
    return env


def _guardrails() -> str:
    entry = f"### guard-1700000000-0001\n> {_GUARDRAIL}\n<!-- created: 2026-01-01 -->\n"
    return f"# Guardrails\n\n## Patterns\n\n{entry}"


def _memories(words: Words) -> str:
    decisions = [_decision(subject) for subject in _SUBJECTS]
    decisions += [words.prose(25) for _ in range(_OTHER_MEMORIES)]
    fixes = [_fix(subject) for subject in _SUBJECTS]
    entries = [_entry(number, text) for number, text in enumerate([*decisions, *fixes])]
    return "# Memories\n\n## Decisions\n\n{}\n## Fixes\n\n{}".format(
        "\n".join(entries[: len(decisions)]), "\n".join(entries[len(decisions) :])
    )


def _entry(number: int, text: str) -> str:
    name = f"mem-{1_700_000_000 + number}-{number:04x}"
    return f"### {name}\n> {text}\n<!-- created: 2026-01-0{number % 9 + 1} -->\n"


# --- measuring ----------------------------------------------------------------------------------


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep this many processes busy."""
    command = [sys.executable, "-I", "-S", "-c", _BUSY_LOOP, str(os.getpid())]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(number):
            started.append(subprocess.Popen(command))
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def measure(
    root: Path, env: Mapping[str, str], rounds: int, events: Sequence[str] = ()
) -> dict[str, Counts]:
    """Send the events to a project in every round, and count what happened."""
    counts: dict[str, Counts] = {}
    for number in range(rounds):
        for case in cases(number):
            if events and case.event not in events:
                continue
            count = counts.setdefault(case.event, Counts())
            session = f"{number}-{case.event}"
            _send(root, env, case, session, count)
    return counts


def _send(root: Path, env: Mapping[str, str], case: Case, session: str, count: Counts) -> None:
    sent = {
        "session_id": session,
        "cwd": str(root),
        "hook_event_name": case.event,
        **case.members,
    }
    stdin = json.dumps(sent, separators=(",", ":")).encode()
    control = [sys.executable, "-I", "-S", "-c", _CONTROL]
    seconds, _ = _run(control, stdin, env)
    count.control_seconds.append(seconds)
    hook = [sys.executable, "-I", "-S", str(_HOOK), "claude", case.event]
    seconds, printed = _run(hook, stdin, env)
    count.seconds.append(seconds)
    count.tries += 1
    if seconds > timeout_of(case.event):
        count.late += 1
    if case.expected and case.expected in _context_of(printed):
        count.answered += 1
    log = _logs(root) / f"{session}.jsonl"
    if log.exists():
        count.recorded += 1


def _run(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> tuple[float, bytes]:
    """Run a command, and return how long it took and what it printed."""
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        input=stdin,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - begun, done.stdout


def _context_of(printed: bytes) -> str:
    answer = json.loads(printed or b"{}")
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


def _logs(root: Path) -> Path:
    return paths.log_folder(root) / "sessions"


# --- the report ---------------------------------------------------------------------------------


def report(title: str, counts: Mapping[str, Counts]) -> list[str]:
    """Return the lines of a table, with one row per event."""
    lines = [
        f"{title:<26} {'tries':>6} {'answered':>9} {'recorded':>9} {'late':>5}"
        f" {'median s':>9} {'max s':>7} {'control s':>10}"
    ]
    for event, count in counts.items():
        is_answered = any(case.expected for case in cases(0) if case.event == event)
        is_recorded = any(case.is_recorded for case in cases(0) if case.event == event)
        answered = str(count.answered) if is_answered else "-"
        recorded = str(count.recorded) if is_recorded else "-"
        verdict = ""
        if is_answered:
            kept = count.answered >= MIN_ANSWERED * count.tries
            verdict = f"  at least {MIN_ANSWERED:.0%} answered: {'ok' if kept else 'BROKEN'}"
        lines.append(
            f"{event:<26} {count.tries:>6} {answered:>9} {recorded:>9} {count.late:>5}"
            f" {percentile(count.seconds, 0.5):>9.2f} {max(count.seconds):>7.2f}"
            f" {percentile(count.control_seconds, 0.5):>10.2f}{verdict}"
        )
    return lines


def run(
    rounds: int = ROUNDS,
    busy: int = BUSY_PROCESSES,
    records: int = RECORDS,
    events: Sequence[str] = (),
) -> list[str]:
    """Return the table of a busy machine."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        env = create_project(root, records)
        with busy_processes(busy):
            counts = measure(root, env, rounds, events)
    return report(f"beside {busy} busy processes", counts)


def main() -> int:
    """Print the table, and return 1 if too few hooks answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="*", help="events to send (default: all)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="tries of each event")
    parser.add_argument("--busy", type=int, default=BUSY_PROCESSES, help="busy processes")
    parser.add_argument("--records", type=int, default=RECORDS, help="events in the project's logs")
    options = parser.parse_args()
    lines = run(options.rounds, options.busy, options.records, options.events)
    print("\n".join(lines))
    return 1 if any(line.endswith("BROKEN") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
