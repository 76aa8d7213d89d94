"""Count the hooks that record, answer and end in time while other processes keep the machine busy.

`python bench/busy.py [--agents 4] [--busy 20] [--records 2000]`. Each agent runs one session of
Claude Code in the same project, all of them at the same time: a start, two turns with a prompt, 22
tool calls and a stop, and an end. That is 50 recorded events per agent, and 200 for four. Some
commands print a secret, some fail, and before some Ralph is asked what it knows about them. A hook
that takes longer than its client waits is killed, as the client would.

- *recorded*: the event is in its session's log
- *answered*: the session has been given the memory that the event is about
- *late*: the hook was killed

The busy processes are children of this one and end with it, however it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Better, Figure, show
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

AGENTS = 4
BUSY_PROCESSES = 20
RECORDS = 2_000
TURNS = 2
TOOL_CALLS = 22
"""Tool calls in a turn."""
ASKED_CALLS = (2, 8, 14, 20)
"""The tool calls of a turn that a PreToolUse announces, which is answered and not recorded."""
SECRET_CALLS = (3, 13)
FAILED_CALLS = (9, 19)
MIN_ANSWERED = 0.95
"""The share of events with an answer that must be answered."""
MAX_LATE = 0.05
"""The share of hooks that may be killed by the client, and of those that may give up."""
SESSION_END_SECONDS = 1.5
"""How long Claude Code waits for the end of a session, whatever the hook's own timeout is."""

_HOOK = Path(ralph.hooks.__file__).with_name("run.py")
_OTHER_MEMORIES = 300
_SUBJECTS = ("cart", "invoice", "voucher", "shipment", "refund", "catalogue", "pallet", "warehouse")
_GUARDRAIL = "Never edit a migration that is already on main."
_SECRET = "PASSWORD=" + "kw9" + "Zr4tQ"  # fake, so that the rules have to run
_BUSY_LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""
"""Keeps a core busy until the process with this id is no longer the parent."""


@dataclass(frozen=True, slots=True)
class Call:
    """One hook: its payload, what its answer must contain, and what the log must contain."""

    session: str
    event: str
    members: Mapping[str, object]
    expected: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a hook."""

    call: Call
    is_late: bool
    is_answered: bool
    is_recorded: bool


def session_calls(number: int) -> Iterator[Call]:
    """Yield the hooks of one session in their order."""
    session = f"agent-{number}"
    yield Call(session, "SessionStart", {"source": "startup"}, _GUARDRAIL, f'"{session}"')
    for turn in range(TURNS):
        subject = _SUBJECTS[(number * TURNS + turn) % len(_SUBJECTS)]
        yield from _turn_calls(session, turn, subject)
    ended = f"{session}-end"
    yield Call(session, "SessionEnd", {"reason": "other", "prompt_id": ended}, mark=ended)


def _turn_calls(session: str, turn: int, subject: str) -> Iterator[Call]:
    prompt = f"which encoding does the {subject} importer expect for umlauts?"
    mark = f"{session}-prompt-{turn}"
    members: dict[str, object] = {"prompt": prompt, "prompt_id": mark}
    yield Call(session, "UserPromptSubmit", members, _decision(subject), mark)
    for number in range(TOOL_CALLS):
        yield from _tool_calls(session, f"{session}-call-{turn}-{number}", number, subject)
    mark = f"{session}-answer-{turn}"
    message = f"The {subject} importer reads umlauts correctly now ({mark})."
    members = {"stop_hook_active": False, "last_assistant_message": message}
    yield Call(session, "Stop", members, mark=mark)


def _tool_calls(session: str, mark: str, number: int, subject: str) -> Iterator[Call]:
    command = f"make import-{subject}"
    tool: dict[str, object] = {
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": mark,
    }
    if number in ASKED_CALLS:
        yield Call(session, "PreToolUse", tool, _fix(subject))
    if number in FAILED_CALLS:
        error = "Exit code 2\nmake: *** [import] Error 1"
        yield Call(session, "PostToolUseFailure", {**tool, "error": error}, mark=mark)
        return
    printed = "40 passed in 2.31s\n" * 20
    if number in SECRET_CALLS:
        printed += _SECRET
    response = {"stdout": printed, "stderr": "", "interrupted": False}
    yield Call(session, "PostToolUse", {**tool, "tool_response": response}, mark=mark)


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


def measure(root: Path, env: Mapping[str, str], agents: int) -> list[Outcome]:
    """Run the sessions of all agents at the same time, and return what became of each hook."""
    outcomes: list[Outcome] = []

    def run_session(number: int) -> None:
        given = ""
        for call in session_calls(number):
            is_late, printed = _send(root, env, call)
            given += _context_of(printed)  # a session is not given the same memory twice
            is_answered = bool(call.expected) and call.expected in given
            outcomes.append(Outcome(call, is_late, is_answered, _is_recorded(root, call)))

    threads = [threading.Thread(target=run_session, args=(number,)) for number in range(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _send(root: Path, env: Mapping[str, str], call: Call) -> tuple[bool, bytes]:
    """Run a hook, and return whether it was killed and what it printed."""
    payload = {
        "session_id": call.session,
        "cwd": str(root),
        "hook_event_name": call.event,
        **call.members,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_HOOK), "claude", call.event],
            input=json.dumps(payload, separators=(",", ":")).encode(),
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_client_timeout(call.event),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, b""
    return False, done.stdout


def _client_timeout(event: str) -> float:
    if event == "SessionEnd":
        return SESSION_END_SECONDS
    return timeout_of(event)


def _is_recorded(root: Path, call: Call) -> bool:
    """Whether the log, or what could not be appended to it, contains the event."""
    if not call.mark:
        return False
    log = paths.session_log(root, call.session)
    spilled = (paths.log_folder(root) / "spill").glob("*")
    found = [path.read_text(encoding="utf-8") for path in (log, *spilled) if path.exists()]
    return any(call.mark in text for text in found)


def _context_of(printed: bytes) -> str:
    answer = json.loads(printed or b"{}")
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


def run(
    agents: int = AGENTS, busy: int = BUSY_PROCESSES, records: int = RECORDS
) -> tuple[list[Outcome], int]:
    """Return what became of each hook beside busy processes, and how many failures were counted."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        env = create_project(root, records)
        with busy_processes(busy):
            outcomes = measure(root, env, agents)
        failures = recorder.read_failures(root)
    return outcomes, failures.count if failures else 0


# --- the report ---------------------------------------------------------------------------------


def figures(outcomes: Sequence[Outcome] | None = None, failures: int = 0) -> list[Figure]:
    """Return the shares of the hooks that recorded, answered and were late."""
    if outcomes is None:
        outcomes, failures = run()
    recorded = [outcome.is_recorded for outcome in outcomes if outcome.call.mark]
    answered = [outcome.is_answered for outcome in outcomes if outcome.call.expected]
    late = sum(outcome.is_late for outcome in outcomes)
    total = len(outcomes)
    return [
        Figure(
            f"{len(recorded)} events recorded",
            sum(recorded) / len(recorded),
            "%",
            baseline=0.94,
            target=1.0,
            better=Better.HIGHER,
        ),
        Figure(
            f"{len(answered)} starts, prompts and calls answered",
            sum(answered) / len(answered),
            "%",
            baseline=0.909,
            target=MIN_ANSWERED,
            better=Better.HIGHER,
        ),
        Figure(f"{total} hooks killed by the client", late / total, "%", 0.034, MAX_LATE),
        Figure(f"{total} hooks that gave up", failures / total, "%", 0.034, MAX_LATE),
    ]


def by_event(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a table with one row per event."""
    lines = [f"{'':<22} {'hooks':>6} {'recorded':>12} {'answered':>12} {'late':>5}"]
    for event in dict.fromkeys(outcome.call.event for outcome in outcomes):
        of_event = [outcome for outcome in outcomes if outcome.call.event == event]
        recorded = _count([each.is_recorded for each in of_event if each.call.mark])
        answered = _count([each.is_answered for each in of_event if each.call.expected])
        late = sum(each.is_late for each in of_event)
        lines.append(f"{event:<22} {len(of_event):>6} {recorded:>12} {answered:>12} {late:>5}")
    return lines


def _count(checks: Sequence[bool]) -> str:
    if not checks:
        return "-"
    return f"{sum(checks)} of {len(checks)}"


def main() -> int:
    """Print the table, and return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=AGENTS, help="sessions at the same time")
    parser.add_argument("--busy", type=int, default=BUSY_PROCESSES, help="busy processes")
    parser.add_argument("--records", type=int, default=RECORDS, help="events in the project's logs")
    options = parser.parse_args()
    outcomes, failures = run(options.agents, options.busy, options.records)
    print("\n".join(by_event(outcomes)))
    print()
    return show("Hooks on a busy machine", figures(outcomes, failures))


if __name__ == "__main__":
    sys.exit(main())
