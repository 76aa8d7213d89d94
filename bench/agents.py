"""Measure whether a coding agent solves tasks that hinge on a decision from an earlier chat.

    python bench/agents.py DATA --agent claude
    python bench/agents.py DATA --agent scripted --script steps.json --arms nothing,hook

DATA has a folder for each task, in the form of sde-bench (https://github.com/vectorize-io/sde-bench):

    DATA/
      NAME/build.py              makes the repository: `python build.py FOLDER` (or NAME/repository/, which is copied)
      NAME/tasks/main/task.json  bug_report, conversations, fail_to_pass, pass_to_pass, hidden_to_pass
      NAME/tasks/main/*.py       the tests named by regression_test_file and hidden_test_file
      gen/decoy_conversations.json   chats about other things: [{"id": ..., "turns": [...]}]

A chat is a list of turns, `{"role": "user", "text": ...}`. `conversations` is one chat or a list of chats in which a
later one amends an earlier one. Build programs are run, so DATA must be yours or one that you trust.

For each task and each arm, the agent gets the bug report once, in a fresh repository that contains the visible test. What
comes before the report depends on the arm:

- nothing
- fts5: the five messages that SQLite's full-text search with stemming finds
- hook: what Ralph's prompt hook injects, after all chats were recorded by the hooks
- installed: the text of the session start as well, and the command `ralph` works in the repository

Then the tests are put back, and pytest decides: a task is solved if the existing, the visible and the hidden tests pass.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import baselines, loaders, retrieval
from ralph.core.errors import RalphError, Unreadable, UsageError
from ralph.core.record import Record
from ralph.core.tokens import estimate
from ralph.core.work import Agent, Ask
from ralph.hooks.handler import run_event
from ralph.loop.agents.choice import create_agent
from ralph.search import index

NOTHING = "nothing"
FTS5 = "fts5"
HOOK = "hook"
INSTALLED = "installed"
ARMS = (NOTHING, FTS5, HOOK, INSTALLED)
HEADINGS = ("what the agent had", "tasks", "solved", "tokens added, median")
DECOYS = "gen/decoy_conversations.json"
TASK_FILE = "tasks/main/task.json"
_FULL_TEXT_MESSAGES = 5
_SEED = 11  # decides where among the decoys a task's chats are recorded
_BUILD_SECONDS = 300.0
_TEST_SECONDS = 300.0
_DEFAULT_MINUTES = 20.0

Chat = Sequence[tuple[str, str]]
"""Turns: who speaks ("user" or "assistant"), and the text."""


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A bug report, the chats that decided what is right, and the tests.

    `tests` has the source files of tests that the repository does not contain, by their place in the repository. Those in
    `hidden` are added when the agent has finished, and the others before it starts.
    """

    name: str
    folder: Path
    report: str
    chats: tuple[Chat, ...]
    tests: Mapping[str, Path]
    hidden: frozenset[str]
    graded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task in one arm."""

    task: str
    arm: str
    solved: bool
    tokens: int
    error: str = ""


# --- reading ------------------------------------------------------------------------------------


def read_tasks(data: Path, pattern: str = "*") -> list[AgentTask]:
    """Return the tasks of a data folder whose names match a pattern. Raises Unreadable if there are none."""
    found = []
    for path in sorted(data.glob(f"*/{TASK_FILE}")):
        folder = path.parents[2]
        if fnmatch.fnmatchcase(folder.name, pattern):
            task = _read_task(folder, path)
            if task.chats:
                found.append(task)
    if not found:
        raise Unreadable(
            f"{data}: no task named {pattern!r} with conversations",
            hint=f"a task is a folder that contains {TASK_FILE}",
        )
    return found


def _read_task(folder: Path, path: Path) -> AgentTask:
    members = loaders.read_object(retrieval.read_json(path), str(path))
    visible = _names(members, "fail_to_pass")
    hidden = _names(members, "hidden_to_pass")
    tests: dict[str, Path] = {}
    for names, member in ((visible, "regression_test_file"), (hidden, "hidden_test_file")):
        source = path.parent / loaders.read_text(members, member, str(path))
        for name in names:
            tests[name] = source
    return AgentTask(
        name=folder.name,
        folder=folder,
        report=loaders.read_text(members, "bug_report", str(path)),
        chats=_read_chats(members.get("conversations")),
        tests=tests,
        hidden=frozenset(hidden),
        graded=(*visible, *_names(members, "pass_to_pass"), *hidden),
    )


def _names(members: Mapping[str, object], member: str) -> tuple[str, ...]:
    value = members.get(member)
    if not isinstance(value, list):
        return ()
    return tuple(str(name) for name in value)


def _read_chats(value: object) -> tuple[Chat, ...]:
    """Return the chats of a task, which may be one chat or a list of chats."""
    if not isinstance(value, list) or not value:
        return ()
    if isinstance(value[0], dict):
        value = [value]
    return tuple(_turns({"turns": chat}) for chat in value)


def _turns(members: Mapping[str, object]) -> Chat:
    turns = loaders.read_objects(members, "turns", "a chat")
    return [
        (loaders.read_text(turn, "role", "a turn"), loaders.read_text(turn, "text", "a turn"))
        for turn in turns
    ]


def read_decoys(data: Path) -> list[Chat]:
    """Return the chats about other things, if the data folder has any."""
    path = data / DECOYS
    if not path.exists():
        return []
    value = retrieval.read_json(path)
    return [_turns(decoy) for decoy in loaders.read_objects({"decoys": value}, "decoys", DECOYS)]


def order_chats(task: AgentTask, decoys: Sequence[Chat]) -> list[Chat]:
    """Place the chats of a task among the decoys, at places that are the same in every run."""
    chance = random.Random(f"{_SEED} {task.name}")
    places = sorted(chance.random() for _ in task.chats)
    placed = [(chance.random(), chat) for chat in decoys]
    placed += zip(places, task.chats, strict=True)
    return [chat for _, chat in sorted(placed, key=lambda pair: pair[0])]


# --- what the agent gets ------------------------------------------------------------------------


class HookedProject:
    """A repository in which Ralph's hooks record, with a home folder of its own."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.environment = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PATH": os.environ.get("PATH", os.defpath),
        }
        subprocess.run(
            [sys.executable, "-m", "ralph", "init", "--root", root],
            check=True,
            stdout=subprocess.DEVNULL,
            env=self.environment,
        )

    def send(self, event: str, session: str, **members: object) -> str:
        """Send an event to the hooks as Claude Code does, and return what they inject."""
        payload = {
            "session_id": session,
            "cwd": str(self.root),
            "hook_event_name": event,
            **members,
        }
        environment = {**self.environment, "CLAUDE_PROJECT_DIR": str(self.root)}
        with _environment(self.environment):
            printed = run_event("claude", event, json.dumps(payload).encode(), environment)
        if not printed:
            return ""
        answer = json.loads(printed).get("hookSpecificOutput", {})
        return str(answer.get("additionalContext", ""))

    def record(self, chats: Sequence[Chat]) -> None:
        """Record each chat as a session."""
        for number, chat in enumerate(chats):
            session = f"chat-{number}"
            for role, text in chat:
                if role == "user":
                    self.send("UserPromptSubmit", session, prompt=text)
                else:
                    self.send("Stop", session, last_assistant_message=text)
            self.send("SessionEnd", session, reason="other")
        with _environment(self.environment):
            index.wait_until_current(self.root)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for hooks that run in this process."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def find_messages(prompt: str, chats: Sequence[Chat]) -> str:
    """Return the messages that full-text search finds for a prompt."""
    messages = [
        Record(f"{number}-{turn}", loaders.NOTE, text)
        for number, chat in enumerate(chats)
        for turn, (_, text) in enumerate(chat)
    ]
    with baselines.porter_fts5(messages) as ask:
        return "\n\n".join(hit.record.text for hit in ask(prompt, _FULL_TEXT_MESSAGES))


# --- running and grading ------------------------------------------------------------------------


def build_repository(task: AgentTask, folder: Path) -> None:
    """Make the repository of a task, with its visible tests and one commit more for them."""
    source = task.folder / "repository"
    if source.is_dir():
        shutil.copytree(source, folder)
        _git(folder, "init", "--quiet", "--initial-branch=main")
    else:
        _run([sys.executable, str(task.folder / "build.py"), str(folder)], _BUILD_SECONDS)
    for name, test in task.tests.items():
        if name not in task.hidden:
            _put_test(folder, name, test)
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--allow-empty", "--message", "Add a failing test")


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    _run(["git", "-C", str(folder), *identity, *arguments], _BUILD_SECONDS)


def _run(command: Sequence[str], seconds: float) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=seconds
    )
    if done.returncode:
        raise RalphError(
            f"{' '.join(command[:3])}: exit code {done.returncode}: {done.stderr[-500:]}"
        )


def _put_test(folder: Path, name: str, source: Path) -> None:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def is_solved(task: AgentTask, worked: Path) -> bool:
    """Return whether all tests pass with the agent's changes. Its changes to tests do not count."""
    with tempfile.TemporaryDirectory(prefix="ralph-grade-") as temporary:
        original = Path(temporary) / "original"
        build_repository(task, original)
        for name in task.graded:
            _put_test(worked, name, task.tests.get(name, original / name))
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *task.graded],
            check=False,
            cwd=worked,
            env={**os.environ, "PYTHONPATH": str(worked)},
            capture_output=True,
            timeout=_TEST_SECONDS,
        )
    return tests.returncode == 0


@dataclass(frozen=True, slots=True)
class Trial:
    """How the agent is run."""

    agent: Agent
    model: str = ""
    minutes: float = _DEFAULT_MINUTES


def try_task(task: AgentTask, arm: str, decoys: Sequence[Chat], trial: Trial) -> Outcome:
    """Let the agent work on one task with what one arm gives it, and grade the result."""
    chats = order_chats(task, decoys)
    with tempfile.TemporaryDirectory(prefix="ralph-agents-") as temporary:
        folder = Path(temporary).resolve()
        repository = folder / "repository"
        build_repository(task, repository)
        environment: Mapping[str, str] = {}
        added = ""
        if arm == FTS5:
            added = find_messages(task.report, chats)
        elif arm in (HOOK, INSTALLED):
            project = HookedProject(repository, folder / "home")
            project.record(chats)
            if arm == INSTALLED:
                added = project.send("SessionStart", "asked", source="startup")
                environment = project.environment
            found = project.send("UserPromptSubmit", "asked", prompt=task.report)
            added = "\n\n".join(filter(None, (added, found)))
        reply = trial.agent.run(
            Ask(
                "\n\n".join(filter(None, (added, task.report))),
                repository,
                model=trial.model,
                timeout=60 * trial.minutes,
                environment=environment,
            )
        )
        tokens = estimate(added) if added else 0
        return Outcome(task.name, arm, is_solved(task, repository), tokens, reply.error)


# --- the report ---------------------------------------------------------------------------------


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table, and the tasks that were not solved in each arm."""
    rows = []
    unsolved = []
    for arm in dict.fromkeys(outcome.arm for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.arm == arm]
        solved = sum(outcome.solved for outcome in own)
        tokens = median(outcome.tokens for outcome in own)
        rows.append((arm, str(len(own)), str(solved), f"{tokens:.0f}"))
        for outcome in own:
            if not outcome.solved:
                reason = f": {outcome.error}" if outcome.error else ""
                unsolved.append(f"  not solved with {arm}: {outcome.task}{reason}")
    return [*retrieval.table(HEADINGS, rows), *unsolved]


def parse_arms(text: str) -> tuple[str, ...]:
    """Return the arms named in a text such as "nothing,hook"."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in ARMS:
            raise UsageError(f"there is no arm {name!r}", hint=f"one of: {', '.join(ARMS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tasks and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--agent", default="auto", help="as for `ralph loop start`")
    parser.add_argument("--command", default="", help="the program of the agent, with its options")
    parser.add_argument("--script", type=Path, help="the steps of the agent 'scripted'")
    parser.add_argument("--model", default="")
    parser.add_argument("--permission", default="", help="what the agent may do without asking")
    parser.add_argument("--tasks", default="*", help="a pattern for the names of tasks")
    parser.add_argument("--arms", default=",".join(ARMS), help="separated by commas")
    parser.add_argument("--minutes", type=float, default=_DEFAULT_MINUTES, help="per task")
    chosen = parser.parse_args(arguments)
    try:
        arms = parse_arms(chosen.arms)
        tasks = read_tasks(chosen.data, chosen.tasks)
        decoys = read_decoys(chosen.data)
        outcomes = []
        for task in tasks:
            for arm in arms:
                agent = create_agent(
                    chosen.agent,
                    command=chosen.command,
                    permission=chosen.permission,
                    script=chosen.script,
                )
                trial = Trial(agent, chosen.model, chosen.minutes)
                outcome = try_task(task, arm, decoys, trial)
                outcomes.append(outcome)
                verdict = "solved" if outcome.solved else "not solved"
                print(f"{task.name}, {arm}: {verdict}", file=sys.stderr)
        print("\n".join(report(outcomes)))
    except RalphError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
