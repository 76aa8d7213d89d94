"""Measure the cost of each hook event against a bare interpreter, `true` and, if given, another tool's hook.

`python bench/hooks.py [rounds [records]] [-- command of another hook ...]`. The commands alternate, because the load of
a machine varies: only ratios of CPU time (user and system) are meaningful. Events go through a sh launcher into a
generated project, with payloads as Claude Code sends them; with `records`, it has that many observations and a few
hundred memories. Another tool's command gets the payload of a PostToolUse on standard input.

In projects of up to 20,000 records, the observations are judged before the measurement, as they are if hooks have
recorded them: a stop judges what its session has said (`storage/judgements.py`). In larger ones, that would take too
long, so prompts there show what an index costs that was just rebuilt.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure
from bench.sessions import Words

import ralph.hooks
from bench import speed
from ralph.capture import recorder
from ralph.core import paths
from ralph.core.config import load
from ralph.formats.log import encode_line
from ralph.lean import discovery
from ralph.recall import citation_check
from ralph.search import index
from ralph.storage import files
from ralph.tasks import task

Start = Callable[[Sequence[str], bytes, Mapping[str, str]], float]
"""Runs a command with this stdin and environment to its end; returns the CPU seconds it took."""

BARE, NOTHING = "python -I -S -c pass", "true"
SESSION = "00000000-0000-4000-8000-000000000000"
ANSWERING = 4.2
"""The limit for events that get an answer."""
MOST_JUDGED = 20_000
"""The most records that are judged before the measurement."""
ON_MORE = ((200_000, 8.0), (MOST_JUDGED, 7.0))
"""The limit for prompts and other answers on more records than these."""
PASTED = 4_000
"""Characters of a prompt with pasted output."""
LONG_PROMPT = f"UserPromptSubmit, {PASTED} characters"
_MEMORIES, _QUESTIONS, _TASKS = 300, 100, 25
_SOME, _MOST = 0.2, 0.9
"""The share of sessions that belong to other tasks."""
SECRET = "PASSWORD=" + "kw9" + "Zr4tQ"  # fake, so that the rules have to run


class Where(StrEnum):
    """The checkout in which an event runs: the main one, one of its worktrees, another project, or none."""

    MAIN = "project"
    WORKTREE = "worktree"
    RULES = "rules"
    VARIABLES = "variables"
    TASK = "task"
    BARE = "bare"
    CROWDED = "crowded"
    NONE = "none"


_TREES = (Where.WORKTREE, Where.RULES, Where.VARIABLES, Where.TASK, Where.BARE)
_PRIVACY = r"""privacy:
  patterns: ['ACME-\d{6}', '(?i)project falcon']
  paths: ['secrets/**', '*.pem']
"""
_VARIABLES = {
    Where.VARIABLES: {"RALPH_MEMORIES_BUDGET": "2000", "RALPH_RUN_ID": "1"},
    Where.TASK: {"RALPH_TASK": "t-000000"},
    Where.CROWDED: {"RALPH_TASK": "t-000000"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One event: its name in the table, its limit as a multiple of the bare interpreter, and its checkout."""

    name: str
    event: str
    members: Mapping[str, object]
    at_most: float
    where: Where = Where.MAIN


_BASH: Mapping[str, object] = {
    "tool_name": "Bash",
    "tool_input": {"command": "pytest -q", "description": "Run the tests"},
    "tool_response": {
        "stdout": "40 passed in 2.31s\n" * 20,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
    },
    "tool_use_id": "toolu_0000",
    "duration_ms": 2310,
}

_READ: Mapping[str, object] = {
    "tool_name": "Read",
    "tool_input": {"file_path": "/home/user/project/src/cart.py"},
    "tool_response": {
        "type": "text",
        "file": {"content": "def total(items):\n    return sum(items)\n" * 900},
    },
}
_LONG = "tests/test_cart.py::test_total PASSED\n" * 1_600
"""The output of a test run that names each of its tests."""

_ASKED: Mapping[str, object] = {"prompt": "fix the failing test in the cart"}

CASES = (
    Case("PostToolUse", "PostToolUse", _BASH, 1.5),
    Case(
        "PostToolUse, 6 KB",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": _LONG[:5_500]}},
        1.5,
    ),
    Case(
        "PostToolUse, 16 KB",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": _LONG[:15_500]}},
        1.6,
    ),
    Case(
        "rules must run, 6 KB",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": _LONG[:5_500] + SECRET}},
        3,
    ),
    Case(
        "rules must run, 16 KB",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": _LONG[:15_000] + SECRET}},
        3.5,
    ),
    Case("PostToolUse of a Read", "PostToolUse", {**_BASH, **_READ}, 1.5),
    Case("SubagentStop", "SubagentStop", {"agent_id": "a1", "agent_type": "general-purpose"}, 1.5),
    Case("SessionEnd", "SessionEnd", {"reason": "other"}, 0),
    Case(
        "PostToolUse, rules must run",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": SECRET}},
        3,
    ),
    Case("PostToolUse, large", "PostToolUse", {**_BASH, "tool_response": {"stdout": _LONG}}, 3.5),
    Case("PostToolUse in a worktree", "PostToolUse", _BASH, 1.5, Where.WORKTREE),
    Case("PostToolUse in a bare worktree", "PostToolUse", _BASH, 1.5, Where.BARE),
    Case("PostToolUse without Ralph", "PostToolUse", _BASH, 1.5, Where.NONE),
    Case("PostToolUse, variables set", "PostToolUse", _BASH, 1.5, Where.VARIABLES),
    Case("PostToolUse, patterns and globs", "PostToolUse", _BASH, 3, Where.RULES),
    Case(
        "the same, large",
        "PostToolUse",
        {**_BASH, "tool_response": {"stdout": _LONG}},
        3,
        Where.RULES,
    ),
    Case("UserPromptSubmit", "UserPromptSubmit", _ASKED, ANSWERING),
    Case(
        LONG_PROMPT,
        "UserPromptSubmit",
        {**_ASKED, "pasted": PASTED},
        4.5,
    ),
    Case(
        "UserPromptSubmit, rules must run",
        "UserPromptSubmit",
        {"prompt": f"fix the cart {SECRET}"},
        ANSWERING,
    ),
    Case("UserPromptSubmit in a worktree", "UserPromptSubmit", _ASKED, ANSWERING, Where.WORKTREE),
    Case("UserPromptSubmit, variables set", "UserPromptSubmit", _ASKED, ANSWERING, Where.VARIABLES),
    Case("UserPromptSubmit, patterns", "UserPromptSubmit", _ASKED, ANSWERING, Where.RULES),
    Case("UserPromptSubmit in a task", "UserPromptSubmit", _ASKED, ANSWERING, Where.TASK),
    Case("UserPromptSubmit, 90 % of others", "UserPromptSubmit", _ASKED, ANSWERING, Where.CROWDED),
    Case("PreToolUse", "PreToolUse", _BASH, 3.5),
    Case(
        "PostToolUseFailure",
        "PostToolUseFailure",
        {**_BASH, "error": "Exit code 2\nmake: no rule"},
        ANSWERING,
    ),
    Case("Stop", "Stop", {"stop_hook_active": False, "last_assistant_message": "Done."}, 0),
    Case("SessionStart", "SessionStart", {"source": "startup"}, 0),
)
"""The measured cases; a limit of 0 means none."""
BASELINES = {
    "PostToolUse": 1.59,
    "PostToolUse, 6 KB": 1.61,
    "PostToolUse, 16 KB": 1.71,
    "PostToolUse, rules must run": 3.26,
    "rules must run, 16 KB": 3.58,
    "PreToolUse": 3.27,
    "PostToolUseFailure": 3.95,
    "UserPromptSubmit": 5.04,
    LONG_PROMPT: 5.86,
    "Stop": 25.7,
    "SessionStart": 35.4,
}
"""The cases of the page, with their ratios of 2026-11-18 on a machine that other processes used as well."""
LARGE_BASELINES = {"UserPromptSubmit": 4.99, LONG_PROMPT: 7.93}
"""The same in a large project."""
PAGE_ROUNDS = 15
PAGE_RECORDS = 10_000
LARGE_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took, in milliseconds, and as multiples of the bare interpreter."""

    name: str
    median: float
    p99: float
    ratio: float
    at_most: float = 0

    @property
    def kept(self) -> bool:
        """Whether it is within its limit; always true without one."""
        return not self.at_most or self.ratio <= self.at_most


def measure(
    folder: Path,
    start: Start,
    *,
    interpreter: str,
    stub: Path,
    rounds: int = 101,
    records: int = 0,
    others: Mapping[str, Sequence[str]] | None = None,
    cases: Sequence[Case] = CASES,
) -> tuple[Cost, ...]:
    """Measure every event and its comparisons alternately; `folder` is an empty folder for the generated project.

    `others` are further commands by name, such as another tool's hook; they get the first case's payload.
    """
    root = folder / Where.MAIN
    envs = {where: made_project(folder / where, where) for where in Where}
    asked = _filled(folder, records, {case.where for case in cases}) if records else []
    first = payload(CASES[0], root)
    launcher = folder / "hook"
    launcher.write_text(
        f'#!/bin/sh\n[ -x {interpreter} ] && exec {interpreter} -I -S {stub} "$@"\nexit 0\n'
    )
    launcher.chmod(0o755)
    commands: dict[str, tuple[Sequence[str], bytes | Case]] = {
        BARE: ([interpreter, "-I", "-S", "-c", "pass"], b""),
        NOTHING: (["true"], b""),
    }
    for case in cases:
        commands[case.name] = ([str(launcher), "claude", case.event], case)
    commands.update({name: (command, first) for name, command in (others or {}).items()})
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds):
        for number, (name, (command, given)) in enumerate(commands.items()):
            if isinstance(given, bytes):
                taken[name].append(start(command, given, envs[Where.MAIN]) * 1000)
            else:
                stdin = payload(_asking(given, asked, turn), folder / given.where, turn, number)
                taken[name].append(start(command, stdin, envs[given.where]) * 1000)
    return costs(taken, {case.name: _limit(case, records) for case in cases})


def _limit(case: Case, records: int) -> float:
    """Return the limit of a case in a project of this size."""
    is_answer = case.at_most == ANSWERING or case.event == "UserPromptSubmit"
    if is_answer:
        return next((bar for more, bar in ON_MORE if records > more), case.at_most)
    return case.at_most


def _asking(case: Case, asked: Sequence[str], turn: int) -> Case:
    """Return the case with a different question in every round."""
    if not asked or case.event != "UserPromptSubmit":
        return case
    words = asked[turn % len(asked)]
    if "pasted" in case.members:
        return replace(
            case, members={"prompt": "\n".join([words, "", *asked[turn:], *asked[:turn]])[:PASTED]}
        )
    if case.event == "UserPromptSubmit":
        secret = f" {SECRET}" if SECRET in str(case.members) else ""
        return replace(case, members={"prompt": words + secret})
    return replace(case, members={**case.members, "tool_input": {"command": words}})


def _filled(folder: Path, records: int, used: Collection[Where]) -> list[str]:
    """Fill the projects with sessions and memories, index those that are used, and return questions about them."""
    asked = _told(folder / Where.MAIN, records, _SOME)
    if Where.CROWDED in used:
        _told(folder / Where.CROWDED, records, _MOST)
    judging = math.inf if records <= MOST_JUDGED else 0.0
    for where in (Where.MAIN, Where.CROWDED, *_TREES):
        if where not in used:
            continue
        if where is not Where.BARE and where in _TREES:
            memories = files.read(paths.memories_files(folder / Where.MAIN)[0]) or ""
            files.write(paths.memories_files(folder / where)[0], memories)
        checkout_index = index.of(folder / where)  # every checkout has its own
        checkout_index.sync()
        checkout_index.judge(judging)
        citation_check.refresh_citations(folder / where)
    return asked


def _told(root: Path, records: int, others: float) -> list[str]:
    """Write the sessions and memories of a project, and return questions about them."""
    words = Words(records)
    speed.write(root, records, words)
    entries = [
        f"### mem-{1_700_000_000 + number}-{number % 65536:04x}\n> {words.prose(25)} ({_cited(number)})\n"
        f"<!-- tags: {words.prose(2).split()[0]} | created: 2026-01-0{number % 9 + 1} -->\n"
        for number in range(_MEMORIES)
    ]
    half = len(entries) // 2
    text = (
        "# Memories\n\n## Decisions\n\n"
        + "\n".join(entries[:half])
        + "\n## Fixes\n\n"
        + "\n".join(entries[half:])
    )
    files.write(paths.memories_files(root)[0], text)
    for number in range(0, _MEMORIES, 2):
        files.write(root / _cited(number), "# what a memory cites\n")
    _work_beside(root, others)
    return [words.question() for _ in range(_QUESTIONS)]


def _cited(number: int) -> str:
    """Return the file that a memory cites; every second one exists, in the main checkout."""
    return f"src/part{number}.py"


def _work_beside(root: Path, others: float) -> None:
    """Create tasks in progress elsewhere, with this share of the sessions."""
    names = [
        task.add(root, f"What somebody does, part {number}").task.id for number in range(_TASKS)
    ]
    for number, log in enumerate(sorted((paths.log_folder(root) / "sessions").glob("*.jsonl"))):
        if int(number * others) < int((number + 1) * others):
            line = encode_line("session", {"id": log.stem, "task_id": names[number % _TASKS]})
            time_ns = log.stat().st_mtime_ns
            files.append(log, line, root=root)
            os.utime(log, ns=(time_ns, time_ns))  # otherwise it would look as if written today


def costs(taken: Mapping[str, Sequence[float]], bars: Mapping[str, float]) -> tuple[Cost, ...]:
    """Return medians, 99th percentiles and ratios of the times in milliseconds."""
    medians = {name: _share(times, 0.5) for name, times in taken.items()}
    return tuple(
        Cost(
            name,
            medians[name],
            _share(times, 0.99),
            medians[name] / medians[BARE],
            bars.get(name, 0),
        )
        for name, times in taken.items()
    )


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def made_project(root: Path, where: Where = Where.MAIN) -> dict[str, str]:
    """Create a project, or a worktree next to the main one, with its settings cache; return its environment."""
    env = {
        "HOME": str(root.parent),
        "CLAUDE_PROJECT_DIR": str(root),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }
    env["XDG_STATE_HOME"] = str(
        Path(discovery.user_folder("STATE")).parent
    )  # the machine id of this process
    env |= _VARIABLES.get(where, {})
    if where not in _TREES:
        files.write(root / ".git" / "HEAD", "ref: refs/heads/main\n")
    else:
        own = root.parent / Where.MAIN / ".git" / "worktrees" / where
        files.write(own / "HEAD", "ref: refs/heads/side\n")
        files.write(own / "commondir", "../..\n")
        files.write(root / ".git", f"gitdir: {own}\n")
    if where is Where.NONE:
        return env
    if where is not Where.BARE:
        files.write(
            root / "ralph.yml", _PRIVACY if where is Where.RULES else "# made for a measurement\n"
        )
    recorder.write_settings(root, load(root, env=env), env=env)
    return env


def payload(case: Case, root: Path, turn: int = 0, number: int = 0) -> bytes:
    """Return the case's event as Claude Code sends it; each case and round has its own session."""
    said = {
        "session_id": f"{turn:08x}-{number:04x}{SESSION[13:]}",
        "transcript_path": f"{root.parent}/.claude/projects/x/{SESSION}.jsonl",
        "cwd": str(root),
        "permission_mode": "default",
        "hook_event_name": case.event,
        **case.members,
    }
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()


def report(found: Sequence[Cost]) -> list[str]:
    """Return the lines of the table."""
    lines = [f"{'':<32} {'median ms':>10} {'p99 ms':>9} {'ratio':>7}"]
    for cost in found:
        bar = (
            ""
            if not cost.at_most
            else f"  at most {cost.at_most:g}: {'ok' if cost.kept else 'BROKEN'}"
        )
        lines.append(f"{cost.name:<32} {cost.median:10.2f} {cost.p99:9.2f} {cost.ratio:7.2f}{bar}")
    return lines


def started(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> float:
    """Return the CPU seconds that a command took, started as a host starts it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        input=stdin,
        env=dict(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(rounds: int = 101, records: int = 10_000, other: Sequence[str] = ()) -> list[str]:
    """Return the table."""
    stub = Path(ralph.hooks.__file__).with_name("run.py")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            Path(folder),
            started,
            interpreter=sys.executable,
            stub=stub,
            rounds=rounds,
            records=records,
            others={"other hook": other} if other else None,
        )
    return report(found)


def figures() -> list[Figure]:
    """Measure the events that sessions consist of, and prompts in a large project."""
    return _figures(PAGE_RECORDS, BASELINES) + _figures(LARGE_RECORDS, LARGE_BASELINES)


def _figures(records: int, baselines: Mapping[str, float]) -> list[Figure]:
    cases = [case for case in CASES if case.name in baselines]
    size = f", {records // 1_000}k" if records > PAGE_RECORDS else ""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            Path(folder),
            started,
            interpreter=sys.executable,
            stub=Path(ralph.hooks.__file__).with_name("run.py"),
            rounds=PAGE_ROUNDS,
            records=records,
            cases=cases,
        )
    return [
        Figure(
            f"{cost.name}{size} / bare interpreter",
            cost.ratio,
            "x",
            baselines[cost.name],
            cost.at_most or None,
        )
        for cost in found
        if cost.name in baselines
    ]


if __name__ == "__main__":
    words = sys.argv[1:]
    mine, others = (
        (words[: words.index("--")], words[words.index("--") + 1 :])
        if "--" in words
        else (words, [])
    )
    print(
        "\n".join(run(int(mine[0]) if mine else 101, int(mine[1]) if mine[1:] else 10_000, others))
    )
