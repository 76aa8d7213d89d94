"""A rich project for the pages: everything in it was made by the app's own verbs and by real hook payloads.

`make(folder)` tells two weeks of a small shop's life: sources in git, memories of every kind, guardrails, knowledge,
patterns, tasks in every state, runs of the loop, sessions with what was injected and used, chats, insights. Times are
counted back from `now` and ids come from a seeded generator, so that the same `now` gives the same project. While it
is made, `ids` (the only reader of clock and chance) and the hooks' stamp read a clock that is turned by hand.
By hand: `python -m tests.support.sample FOLDER [--records N] [--live SECONDS]`, then `ralph --root FOLDER web`.
"""

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from types import SimpleNamespace

from tests.support import sample_texts as texts
from tests.support.acceptances import forget_acceptances, keep_acceptances
from tests.support.sample_live import quiet

from ralph.core import config as settings
from ralph.core import ids, paths
from ralph.core.record import MemoryKind
from ralph.core.work import Ask, Reply, ToolCall
from ralph.hooks.handler import run_event
from ralph.install import project
from ralph.lean import hook_files
from ralph.learning import insights as insight
from ralph.learning import promotion, review, task_insights
from ralph.loop import chats, loop
from ralph.loop.request import LoopRequest
from ralph.memory import knowledge, memory
from ralph.memory.author import BY_PERSON, WriteContext
from ralph.recall import citation_check
from ralph.recall.chat_log import Mode
from ralph.search import index
from ralph.tasks import task
from ralph.testing import ScriptedAgent, Step

PATTERN, DECISION, FIX, CONTEXT = MemoryKind
HOME = ".home"
"""The empty home of the sample's user, in the project itself; git does not look at it."""
SESSIONS = tuple(
    f"5e551011-0000-4000-8000-00000000000{number}" for number in range(1, len(texts.STORIES) + 1)
)
"""The ids of the sessions that hooks recorded, the oldest first."""
WORKED_AFTER = 3
"""The runs of the loop come after this session."""


@dataclass
class Sample:
    """The project and the ids that tests ask for."""

    root: Path
    home: Path
    memories: dict[str, str] = field(default_factory=dict)
    """Short names of memories and guardrails, with their ids."""
    tasks: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    chats: dict[str, str] = field(default_factory=dict)
    insights: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment of its user: an empty home."""
        return clean_environment(self.home)


class Clock:
    """Turned by hand; every look at it takes a moment, so that no two things happen at once."""

    def __init__(self, now: datetime) -> None:
        self.today = now
        self.at = now
        self.chance = Random(11)

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=self.chance.choice((6, 8, 9, 11, 14, 21, 38)))
        return self.at

    def go(self, days: float, hour: float = 10.0) -> None:
        """To an hour of the day so many days ago."""
        day = (self.today - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)
        self.at = min(day + timedelta(hours=hour), self.today - timedelta(minutes=5))

    def wait(self, minutes: float) -> None:
        self.at += timedelta(minutes=minutes)

    def stamp(self) -> str:
        """This moment, as hooks write it."""
        return self().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextmanager
def turned(clock: Clock, seed: int) -> Iterator[None]:
    """Let ids and hooks read this clock and a seeded generator."""
    chance = Random(seed)
    before = (ids.now, os, hook_files.timestamp)
    setattr(ids, "now", clock)  # noqa: B010  (mypy knows that a module's function is no variable)
    setattr(ids, "os", SimpleNamespace(urandom=chance.randbytes))  # noqa: B010 - not the stated type
    setattr(hook_files, "timestamp", clock.stamp)  # noqa: B010 - not the stated type
    try:
        yield
    finally:
        for module, name, value in zip(
            (ids, ids, hook_files), ("now", "os", "timestamp"), before, strict=True
        ):
            setattr(module, name, value)


def state_edge(root: Path, record_id: str, edge: str) -> None:
    """Write an edge into the metadata of an entry, as a person would."""
    path = root / ".agent" / "memories.md"
    before, mark, after = path.read_text(encoding="utf-8").partition(f"### {record_id}\n")
    path.write_text(
        before + mark + after.replace("<!-- ralph: ", f"<!-- ralph: {edge} ", 1), encoding="utf-8"
    )


def clean_environment(home: Path) -> dict[str, str]:
    """Return our PATH and machine id, and nobody's settings."""
    state = {name: os.environ[name] for name in ("XDG_STATE_HOME",) if name in os.environ}
    return {
        **state, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "RALPH_EMBEDDING_PROVIDER": "none",
    }  # fmt: skip


@dataclass
class Maker:
    """Makes one sample, step by step."""

    made: Sample
    clock: Clock

    @property
    def root(self) -> Path:
        return self.made.root

    def put(self, name: str, text: str) -> None:
        path = paths.source_path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")

    def git(self, *words: str) -> None:
        """Tell git something, as somebody with a name, at the clock's time."""
        at = self.clock().isoformat(timespec="seconds")
        named = [
            "git",
            "-c",
            "user.name=Mina Cho",
            "-c",
            "user.email=mina@example.com",
            "-c",
            "gc.auto=0",
            *words,
        ]
        dated = {**self.made.env, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        subprocess.run(named, cwd=self.root, env=dated, check=True, capture_output=True)

    def commit(self, subject: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def remember(
        self, name: str, text: str, kind: MemoryKind, *tags: str, force: bool = False
    ) -> None:
        added = memory.add(self.root, text, kind, tags, force=force, context=BY_PERSON)
        self.made.memories[name] = added.stored.record.id

    def guard(self, name: str, text: str, kind: MemoryKind, *tags: str) -> None:
        self.made.memories[name] = memory.add(
            self.root, text, kind, tags, in_="guardrails"
        ).stored.record.id

    # --- the story -----------------------------------------------------------------------------

    def begin(self) -> None:
        """The repository, and `ralph init`, fourteen days ago."""
        self.clock.go(14, 9)
        self.git("init", "-q", "-b", "main")
        for name, text in texts.SOURCES.items():
            self.put(name, text)
        self.commit("Shop: auth, cart, database, SOAP import")
        project.init(self.root)
        self.put("ralph.yml", texts.SETTINGS)
        self.commit("Ralph keeps our memory")

    def learn(self) -> None:
        """Memories of every kind, on several days, committed as a person would."""
        for days, subject, some in texts.MEMORIES:
            self.clock.go(days, 11)
            for name, text, kind, tags in some:
                self.remember(name, text, kind, *tags, force=name == "duplicate")
                self.clock.wait(9)
            self.commit(subject)
        memory.add(
            self.root, texts.SECRET, CONTEXT, ("payments",), context=WriteContext(allow_secret=True)
        )
        self.clock.go(7, 16)
        for name, text, kind, tags in texts.GUARDRAILS:
            self.guard(name, text, kind, *tags)
        for title, text, tags in texts.KNOWLEDGE:
            self.clock.wait(20)
            knowledge.add(self.root, title, text, tags)
        self.commit("Guardrails and knowledge")

    def change(self) -> None:
        """Sources move and go, memories are corrected: history, and citations that no longer hold."""
        self.clock.go(7, 18)
        memory.edit(self.root, self.made.memories["pool"], text=texts.POOL_EDITED)
        self.git("rm", "-q", "src/legacy/soap.ts")
        self.git("mv", "src/db/pool.ts", "src/db/connection.ts")
        self.commit("SOAP import is gone; the pool has its own name")
        self.clock.go(6, 8)
        memory.edit(self.root, self.made.memories["jwt"], tags=("auth", "jwt", "security"))
        self.commit("Tag what is about security")
        names = self.made.memories
        state_edge(self.root, names["keys"], f"supersedes={names['env-key']}")
        state_edge(self.root, names["redis"], "affects=file:src/db/connection.ts")
        state_edge(self.root, names["jwt"], f"related_to={names['keys']}")
        state_edge(self.root, names["rounding"], "fixes=file:src/cart/total.ts")

    def plan(self) -> None:
        """Tasks in every state; two get theirs from the loop."""
        self.clock.go(10, 9)
        tasks = self.made.tasks
        for name, title, description, priority in texts.TASKS:
            parent = tasks.get("checkout") if name in texts.PARTS_OF_CHECKOUT else None
            blocked = [tasks["invoice"]] if name == "mail" else []
            prd = texts.PRD if name == "checkout" else None
            added = task.add(
                self.root,
                title,
                description,
                priority=priority,
                parent=parent,
                blocked_by=blocked,
                prd=prd,
            )
            tasks[name] = added.task.id
            self.clock.wait(12)
        self.clock.go(6, 9)
        task.start(self.root, tasks["search"])
        task.block(self.root, tasks["rates"], "Waits for the bank's sandbox account.")
        task.fail(
            self.root,
            tasks["soap"],
            "The supplier turned the SOAP endpoint off; nothing is left to import.",
        )

    def run(self, days: float, hour: float, request: LoopRequest, *steps: Step) -> None:
        """One whole run of the loop with the scripted agent."""
        self.clock.go(days, hour)
        loaded = settings.load(self.root, env=self.made.env).config
        ended = loop.start(
            self.root,
            loaded,
            request,
            quiet(),
            agent=ScriptedAgent(steps),
            sleep=lambda seconds: self.clock.wait(1),
        )
        self.made.runs.append(ended.id)

    def work(self) -> None:
        """Two runs: one that retries and ends well, one that gives its task up."""
        check_it = ("custom: grep -q 'Math.round' src/cart/total.ts",)
        self.run(
            4,
            13,
            LoopRequest(task=self.made.tasks["rounding"], criteria=check_it),
            *texts.first_run(),
        )
        self.run(
            2,
            10,
            LoopRequest(task=self.made.tasks["invoice"], criteria=("none",)),
            *texts.second_run(),
        )
        self.commit("What the loop did")

    # --- sessions ------------------------------------------------------------------------------

    def hook(self, session: str, event: str, **members: object) -> bytes:
        """One event, as the host tells it, through the same door as a real one."""
        said = {"session_id": session, "transcript_path": "/nowhere.jsonl", "cwd": str(self.root),
                "hook_event_name": event, "permission_mode": "default", **members}  # fmt: skip
        payload = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        env = {**self.made.env, "CLAUDE_PROJECT_DIR": str(self.root)}
        self.clock.wait(1)
        return run_event("claude", event, payload, env)

    def session(self, name: str, days: float, hour: float, story: texts.Story) -> None:
        """A whole session, from its start to its end."""
        self.clock.go(days, hour)
        self.hook(name, "SessionStart", source="startup", model="opus")
        for event, members in story:
            if "ToolUse" in event:
                before = {key: members[key] for key in ("tool_name", "tool_input")}
                self.hook(name, "PreToolUse", **before)
            self.hook(name, event, **texts.at(members, self.root))
        self.hook(name, "SessionEnd", reason="other")
        self.made.sessions.append(name)

    def talk(self) -> None:
        """Two chats about a task: one that only plans, and one that writes."""
        for name, mode, days, turns in texts.CHATS:
            self.clock.go(days, 15)
            loaded = settings.load(self.root, env=self.made.env).config
            agent = _Talker([reply for _, reply in turns])
            request = chats.ChatRequest(
                task=self.made.tasks["checkout"], mode=Mode(mode), agent=agent
            )
            said = chats.new(self.root, loaded, request, turns[0][0])
            for words, _ in turns[1:]:
                self.clock.wait(4)
                said = chats.resume(
                    self.root, loaded, said.chat.id, words, chats.ChatRequest(agent=agent)
                )
            self.made.chats[name] = said.chat.id

    def judge(self) -> None:
        """Insights: proposed from what happened, one accepted, one rejected, one promoted."""
        self.clock.go(1, 17)
        of = {}
        for name in ("rounding", "invoice"):
            task_insights.extract(self.root, self.made.tasks[name])
            of[name] = [
                each.record.id for each in insight.list_(self.root, task_id=self.made.tasks[name])
            ]
        review.accept(self.root, of["invoice"][0])
        review.reject(self.root, of["rounding"][-1])
        self.made.insights = [*of["rounding"], *of["invoice"]]
        for name in ("dates", "flags"):
            promotion.promote(self.root, self.made.memories[name], promotion.Target.PATTERNS)
        self.commit("Patterns that hold everywhere")

    def more(self, count: int) -> None:
        """So many memories more, straight into the file, since one by one would take minutes."""
        if count:
            path = self.root / ".agent" / "memories.md"
            text = path.read_text(encoding="utf-8")
            path.write_text(
                texts.with_records(text, count, self.clock.today), encoding="utf-8", newline=""
            )


class _Talker(ScriptedAgent):
    """Answers one turn after the other under one id."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__([], name="codex")
        self.replies = replies

    def run(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        at = len(self.asks) - 1
        calls = (
            () if ask.read_only else (ToolCall("apply_patch", ("src/checkout.ts",), writes=True),)
        )
        name = (
            "5e551011-0000-4000-8000-0000000000c1"
            if ask.read_only
            else "5e551011-0000-4000-8000-0000000000c2"
        )
        return Reply(self.replies[at], calls=calls, session=name)


def make(root: Path, records: int = 0, *, now: datetime | None = None) -> Sample:
    """Build the sample in a folder that is empty or not there yet; everything stays below it."""
    home = root / HOME
    home.mkdir(parents=True)
    clock = Clock(now or datetime.now(UTC))
    maker = Maker(Sample(root, home), clock)
    with isolated(maker.made.env), turned(clock, seed=7):
        maker.begin()
        maker.learn()
        maker.plan()
        maker.change()
        for name, (days, hour, story) in zip(SESSIONS, texts.STORIES, strict=True):
            maker.session(name, days, hour, story)
            if name == SESSIONS[WORKED_AFTER]:
                maker.work()
        maker.talk()
        maker.judge()
        maker.more(records)
        citation_check.check_citations(maker.root)
        index.ask(maker.root, lambda connection: None)
    return maker.made


@lru_cache(maxsize=1)
def shared() -> Sample:
    """A sample for all tests of this process that only read it; it is gone when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="ralph-sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    forget_acceptances()
    made = make(folder / "shop")
    keep_acceptances()
    return made


def copied(to: Path) -> Sample:
    """A copy of the shared sample, for a test that changes something."""
    held = shared()
    shutil.copytree(held.root, to, symlinks=True)
    return replace(held, root=to, home=to / HOME)


@contextmanager
def isolated(env: Mapping[str, str]) -> Iterator[None]:
    """This process in another environment for a while: git and the settings look nowhere else."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(words: list[str]) -> None:
    """Make a sample by hand, and play a run in it for a while."""
    from tests.support.sample_live import play

    parser = argparse.ArgumentParser(prog="python -m tests.support.sample", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=0, help="so many memories more")
    parser.add_argument(
        "--live", type=float, default=0.0, metavar="SECONDS", help="then play a run, so long a step"
    )
    asked = parser.parse_args(words)
    root = asked.folder.resolve()
    if not (root / HOME).exists():
        make(root, asked.records)
    sys.stdout.write(f"ralph --root {root} web --no-open\n")
    if asked.live:
        play(root, asked.live)


if __name__ == "__main__":
    main(sys.argv[1:])
