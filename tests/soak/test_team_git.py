"""A team's branches in real git: random edits, merged in every way, lose, double, bring back and strip no entry.

A ledger knows what each branch did to each entry. What a merge may leave to a person is prose that both sides edited
(no branch does here) and a knowledge file that one side deleted and the other edited. RALPH_SOAK=1 gives 500 runs.
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.git import git

from ralph.core.record import AT, SECTIONS, Link, MemoryKind, Origin, Record
from ralph.formats.knowledge import parse_knowledge, render_knowledge
from ralph.formats.memories import GUARDRAILS, parse_memories
from ralph.formats.memories_metadata import CONFLICTS
from ralph.formats.memories_writer import render_memories
from ralph.formats.patterns import parse_patterns, patterns_template
from ralph.formats.regions import parse_region
from ralph.install import launcher_scripts, merge_registration

MEMORIES, RAILS, PATTERNS = (
    ".agent/memories.md",
    ".ralph/guardrails.md",
    ".ralph/global-patterns.md",
)
PAGE, KNOWLEDGE = "AGENTS.md", ".ralph/knowledge"
KINDS = list(MemoryKind)
BRANCHES = 8
WORDS = [
    "lock",
    "cache",
    "테스트",
    "배포",
    "queue",
    "한국어",
    "retry",
    "token",
    "서버",
    "schema",
    "index",
    "마이그레이션",
]
WAYS = ("merge", "merge", "rebase", "cherry-pick", "squash")
ADDITIONS = ("add", "supersede", "rail", "pattern", "learn")
OPERATIONS = [
    "add",
    "add",
    "add",
    "edit",
    "delete",
    "tag",
    "supersede",
    "move",
    "prose",
    "know",
    "unknow",
    "rail",
    "pattern",
    "learn",
]


@dataclass
class Ledger:
    """The entries of one version: of memories by id, and what else was written."""

    memories: dict[str, Record] = field(default_factory=dict)
    others: set[tuple[str, str]] = field(default_factory=set)  # file and a text that must be in it
    gone: set[str] = field(default_factory=set)  # knowledge files that were deleted

    def copy(self) -> "Ledger":
        return Ledger(dict(self.memories), set(self.others), set(self.gone))


@dataclass
class Team:
    """One repository, its random choices and a clock."""

    root: Path
    chance: random.Random
    newline: str
    seconds: int = 0

    def git(self, *words: str) -> str:
        return git(self.root, *words)

    def now(self) -> str:
        self.seconds += self.chance.randrange(1, 3)
        return (datetime(2026, 11, 1) + timedelta(seconds=self.seconds)).isoformat() + "Z"

    def read(self, name: str) -> str:
        return (self.root / name).read_bytes().decode("utf-8")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))

    def phrase(self) -> str:
        words = " ".join(self.chance.choice(WORDS) for _ in range(self.chance.randrange(2, 7)))
        lines = [f"{words} {self.chance.randrange(10**9)}"]
        return "\n".join(lines + ["", "more of it"] * (self.chance.random() < 0.2))

    def record(self, kind: MemoryKind) -> Record:
        at = self.now()
        name = f"mem-{1_793_500_000 + self.seconds}-{self.chance.randrange(16**4):04x}"
        tags = tuple(self.chance.sample(["api", "db", "ci", "도구"], self.chance.randrange(3)))
        return Record(
            name,
            kind,
            self.phrase(),
            tags=tags,
            created_at=at[:10],
            origin=Origin(by="human"),
            extra={AT: at},
        )


def build(team: Team, count: int) -> Ledger:
    """Make the repository with its first commit."""
    ledger = Ledger()
    team.git("init", "-q", "-b", "main", ".")
    merge_registration.register(team.root, {"HOME": str(team.root)})
    prose = "\n".join(f"Paragraph {number}.\n" for number in range(BRANCHES))
    for _ in range(count):
        record = team.record(team.chance.choice(KINDS))
        ledger.memories[record.id] = record
    empty = "".join(f"\n## {SECTIONS[kind]}\n" for kind in KINDS)
    text = f"# Memories\n\n{prose}\n{render_memories(ledger.memories.values()) if count > 20 else empty}"
    document = parse_memories(text)
    for record in ledger.memories.values() if count <= 20 else ():
        document = document.add(record)
    team.write(MEMORIES, str(document).replace("\n", team.newline))
    team.write(RAILS, GUARDRAILS.template(team.newline))
    team.write(PATTERNS, patterns_template(team.newline))
    team.write(PAGE, f"# How we work{team.newline}")
    for number in range(4):
        body = "\n\n".join(f"Part {part}." for part in range(BRANCHES))
        entry = Record(
            "",
            MemoryKind.CONTEXT,
            body,
            title=f"문서 {number}",
            tags=("docs",),
            created_at=team.now(),
        )
        team.write(
            f"{KNOWLEDGE}/doc-{number}.md", render_knowledge(entry).replace("\n", team.newline)
        )
    commit(team)
    return ledger


def commit(team: Team) -> None:
    team.git("add", "-A")
    if team.git("status", "--porcelain"):
        team.git("commit", "-qm", "work")


def operate(team: Team, ledger: Ledger, branch: int, choices: Sequence[str]) -> None:
    """Do one random thing in the checkout, and note it."""
    what, chance = team.chance.choice(choices), team.chance
    if what in ("know", "unknow", "rail", "pattern", "learn", "prose"):
        operate_elsewhere(team, ledger, branch, what)
        return
    document = parse_memories(team.read(MEMORIES))
    mine = sorted(name for name in ledger.memories)
    if what == "add" or not mine:
        record = team.record(chance.choice(KINDS))
        document, ledger.memories[record.id] = document.add(record), record
    else:
        name = chance.choice(mine)
        old = ledger.memories[name]
        if what == "supersede":
            record = replace(team.record(MemoryKind(old.kind)), links=(Link("supersedes", name),))
            document, ledger.memories[record.id] = document.add(record), record
        elif what == "delete":
            document = document.remove(name)
            del ledger.memories[name]
        else:
            new = replace(old, updated_at=team.now())
            if what == "edit":
                new = replace(new, text=team.phrase())
            elif what == "tag":
                new = replace(new, tags=(*old.tags, f"t{chance.randrange(999)}"))
            else:
                new = replace(
                    new, kind=chance.choice([kind for kind in KINDS if kind is not old.kind])
                )
            document, ledger.memories[name] = document.replace(name, new), new
    team.write(MEMORIES, str(document))


def operate_elsewhere(team: Team, ledger: Ledger, branch: int, what: str) -> None:
    chance, text = team.chance, team.phrase()
    if what == "prose":
        lines = team.read(MEMORIES).split(team.newline)
        at = next(at for at, line in enumerate(lines) if line.startswith(f"Paragraph {branch}"))
        ledger.others -= {(MEMORIES, lines[at])}
        lines[at] = f"Paragraph {branch} {chance.randrange(10**6)}"
        ledger.others.add((MEMORIES, lines[at]))
        team.write(MEMORIES, team.newline.join(lines))
    elif what in ("know", "unknow"):
        name = f"{KNOWLEDGE}/doc-{chance.randrange(4)}.md"
        path = team.root / name
        if not path.exists():
            return
        if what == "unknow":
            if chance.random() < 0.3:
                path.unlink()
                ledger.gone.add(name)
                ledger.others = {each for each in ledger.others if each[0] != name}
            return
        document = parse_knowledge(team.read(name))
        entry = document.entries[0].record
        old = next(line for line in entry.text.split("\n") if line.startswith(f"Part {branch}"))
        new = f"Part {branch}, {chance.randrange(10**6)}."
        tag = f"k{chance.randrange(999)}"
        ledger.others = {each for each in ledger.others if each != (name, old)} | {
            (name, new),
            (name, tag),
        }
        changed = replace(
            entry, text=entry.text.replace(old, new), tags=(*entry.tags, tag), updated_at=team.now()
        )
        team.write(name, str(document.replace(entry.id, changed)))
    else:
        name = {"rail": RAILS, "pattern": PATTERNS, "learn": PAGE}[what]
        record = replace(team.record(MemoryKind.FIX), text=text.split("\n", 1)[0])
        record = replace(record, id=record.id.replace("mem-", "fix-"))
        if what == "rail":
            team.write(name, str(parse_memories(team.read(name), GUARDRAILS).add(record)))
        elif what == "pattern":
            stamped = (
                parse_patterns(team.read(name)).add(record).stamped(team.now()[:10], f"t-{branch}")
            )
            team.write(name, str(stamped))
        else:
            team.write(name, str(parse_region(team.read(name)).add(record)))
        ledger.others.add((name, record.text))


def work(
    team: Team, ledger: Ledger, branch: int, most: int, choices: Sequence[str] = OPERATIONS
) -> None:
    """Do some operations on the branch that is checked out, in a few commits."""
    for _ in range(team.chance.randrange(1, 4)):
        for _ in range(team.chance.randrange(1, max(2, most // 3))):
            operate(team, ledger, branch, choices)
        commit(team)


def attempt(team: Team, go_on: Iterable[str], *words: str) -> None:
    """Run a merge; settle what a person may have to decide: a knowledge file deleted here and edited there."""
    named = [
        "git",
        "-c",
        "user.name=Ann",
        "-c",
        "user.email=ann@example.com",
        "-c",
        "core.editor=true",
    ]
    ran = subprocess.run(
        [*named, *words], cwd=team.root, capture_output=True, encoding="utf-8", check=False
    )
    while ran.returncode:
        unmerged = {line.partition("\t")[2] for line in team.git("ls-files", "-u").splitlines()}
        assert (
            unmerged or "nothing to commit" in ran.stdout or "now empty" in ran.stderr + ran.stdout
        ), ran
        for name in unmerged:
            stages = team.git("ls-files", "-u", "--", name).splitlines()
            assert name.startswith(KNOWLEDGE), f"a conflict in {name}: {team.read(name)}"
            assert len(stages) < 3, f"not of a deletion: {team.read(name)}"
            team.git("add", "--", name)
        step = list(go_on) if unmerged or words[0] == "merge" else [words[0], "--skip"]
        ran = subprocess.run(
            [*named, *step], cwd=team.root, capture_output=True, encoding="utf-8", check=False
        )


def integrate(team: Team, name: str, ways: Sequence[str]) -> str:
    """Bring a branch into main in one of the ways that people use; return which."""
    way = team.chance.choice(ways)
    finish = ("commit", "-q", "--no-edit")
    if way == "merge":
        heads = team.git("rev-parse", "main", name).split()
        attempt(team, finish, "merge", "-q", "--no-ff", "--no-edit", name)
        tree = team.git("rev-parse", "HEAD^{tree}")
        if team.chance.random() < 0.3:  # the other direction gives the same bytes
            team.git("checkout", "-q", "--detach", heads[1])
            attempt(team, finish, "merge", "-q", "--no-ff", "--no-edit", heads[0])
            other = team.git("rev-parse", "HEAD^{tree}")
            team.git("checkout", "-q", "main")
            assert other == tree, team.git("diff", tree.strip(), other.strip())
    elif way == "rebase":
        team.git("checkout", "-q", name)
        attempt(team, ("rebase", "--continue"), "rebase", "-q", "main")
        team.git("checkout", "-q", "main")
        team.git("merge", "-q", "--ff-only", name)
    elif way == "cherry-pick":
        commits = team.git("rev-list", "--reverse", "--no-merges", f"main..{name}").split()
        if commits:
            attempt(team, ("cherry-pick", "--continue"), "cherry-pick", *commits)
    else:
        attempt(team, finish, "merge", "-q", "--squash", name)
        commit(team)
    return way


def check_other_files(team: Team, branches: list[Ledger]) -> None:
    """Check that nothing written to the other files is lost, unless a branch deleted the file."""
    deleted = set().union(*(branch.gone for branch in branches))
    for branch in branches:
        for name, text in branch.others:
            if (team.root / name).exists() or name not in deleted:
                content = team.read(name)
                assert text in content, f"lost in {name}: {text}\n{content}"


def check(team: Team, base: Ledger, branches: list[Ledger]) -> None:
    """Compare main with what all branches did."""
    entries = [entry.record for entry in parse_memories(team.read(MEMORIES)).entries]
    found = {record.id: record for record in entries}
    assert len(entries) == len(found), "doubled"
    texts = Counter(record.text for record in entries)
    assert max(texts.values()) == 1, [text for text, count in texts.items() if count > 1]
    for number, branch in enumerate(branches):
        for name, record in branch.memories.items():
            before = base.memories.get(name)
            if before is not None and before.text == record.text:
                continue
            others = [
                each for each in entries if each.id == name or each.extra.get(CONFLICTS) == name
            ]
            assert record.text in {each.text for each in others}, f"lost: {name} of branch {number}"
            if before is None:
                after = found[name]
                assert {*record.tags} <= {*after.tags}, "stripped"
                assert after.extra.get(AT) == record.extra[AT]
                assert (after.created_at, after.links, after.origin) == (
                    record.created_at,
                    record.links,
                    record.origin,
                )
    for name, before in base.memories.items():
        sides = [branch.memories.get(name) for branch in branches]
        if None in sides and all(side in (None, before) for side in sides):
            assert name not in found, "brought back"
        if None not in sides:
            assert name in found, "lost"
        kinds = {side.kind for side in sides if side is not None} - {before.kind}
        # a branch that edited it may have moved it there and back, which a rebase does again
        if len(kinds) == 1 and all(
            side is not None and (side == before or side.kind in kinds) for side in sides
        ):
            assert found[name].kind in kinds, "moved back"
    check_other_files(team, branches)
    for name in (MEMORIES, RAILS, PATTERNS, PAGE):
        content = team.read(name)
        assert "<<<<<<<" not in content
        assert content.count("\n") == content.count(team.newline), "mixed line ends"
        assert ("\r" in content) == (team.newline == "\r\n")


def run_team(folder: Path, seed: int, most_branches: int, most_operations: int) -> None:
    chance = random.Random(seed)
    team = Team(folder, chance, chance.choice(["\n", "\n", "\n", "\r\n"]))
    base = build(team, chance.choice([0, 3, 12, 60, 180]))
    count = chance.randrange(2, most_branches + 1)
    ledgers = []
    for number in range(count):
        team.git("checkout", "-qb", f"b{number}", "main")
        ledger = base.copy()
        work(team, ledger, number, chance.choice([4, 8, 16, most_operations]))
        ledgers.append(ledger)
    crossed = 2 * (chance.random() < 0.3)
    if crossed:  # criss-cross: both merge the other as it was
        one, two = "b0", "b1"
        tips = team.git("rev-parse", one, two).split()
        for name, other in ((one, tips[1]), (two, tips[0])):
            team.git("checkout", "-q", name)
            attempt(
                team, ("commit", "-q", "--no-edit"), "merge", "-q", "--no-ff", "--no-edit", other
            )
    team.git("checkout", "-q", "main")
    for number in chance.sample(range(count), count):
        # replaying the commits of two branches that have merged each other would edit the same prose twice
        way = integrate(team, f"b{number}", WAYS[:1] if number < crossed else WAYS)
        if number >= crossed and way != "rebase" and chance.random() < 0.15:
            team.git(
                "checkout", "-q", f"b{number}"
            )  # it goes on, and is merged again, whatever main has of it
            work(team, ledgers[number], number, 5, ADDITIONS)
            team.git("checkout", "-q", "main")
            attempt(
                team,
                ("commit", "-q", "--no-edit"),
                "merge",
                "-q",
                "--no-ff",
                "--no-edit",
                f"b{number}",
            )
    check(team, base, ledgers)


@pytest.mark.soak
def test_branches_merge_without_loss_or_conflict(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    many = rounds(500, 2)
    for seed in range(many):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            run_team(folder, seed, *((BRANCHES, 40) if many > 2 else (3, 9)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def start(folder: Path, *words: str, stdin: str = "") -> str:
    """Run a command as an agent does in its worktree."""
    ran = subprocess.run(
        words, cwd=folder, input=stdin, capture_output=True, encoding="utf-8", check=False
    )
    assert ran.returncode == 0, ran
    return ran.stdout


def iterate(folder: Path, agent: int, iteration: int) -> list[str]:
    """Let an agent do one iteration with its hooks; return what must be in the files after the merges."""
    ours = launcher_scripts.running_program(sys.executable)
    session = f"session-{agent}-{iteration}"
    payload = {
        "session_id": session,
        "cwd": str(folder),
        "source": "startup",
        "prompt": "go on",
        "tool_name": "Bash",
    }

    def hook(event: str, **more: object) -> None:
        argv = (str(ours.interpreter), "-I", "-S", str(ours.runner), "claude", event)
        start(folder, *argv, stdin=json.dumps({**payload, "hook_event_name": event, **more}))

    def ralph(*words: str) -> str:
        return start(folder, sys.executable, "-m", "ralph", *words)

    text = f"agent {agent} learned in iteration {iteration} that shelf {agent * 7 + iteration} is {session}"
    hook("SessionStart")
    ralph("memory", "add", f"{text} 하나", "-t", "fix", "--tags", f"a{agent}")
    hook("PostToolUse", tool_input={"command": "make test"}, tool_response={"stdout": "ok"})
    ralph("memory", "add", f"{text} two", "-t", "decision", "--in", "guardrails")
    ralph("memory", "add", f"{text} three", "--in", "patterns")
    hook("Stop")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", text)
    return [f"{text} {word}" for word in ("하나", "two", "three")]


@pytest.mark.soak
def test_agents_in_worktrees_merge_without_conflict(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    agents, iterations = rounds(10, 2), rounds(3, 1)
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", ".")
    start(root, sys.executable, "-m", "ralph", "init")
    (root / ".gitattributes").write_text(
        "".join(f"{line}\n" for line in merge_registration.ATTRIBUTES), encoding="utf-8"
    )
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    folders = [tmp_path / f"tree-{agent}" for agent in range(agents)]
    for agent, folder in enumerate(folders):
        git(root, "worktree", "add", "-q", "-b", f"agent-{agent}", str(folder))
    with ThreadPoolExecutor(agents) as pool:

        def run(agent: int) -> list[str]:
            return [
                text
                for iteration in range(iterations)
                for text in iterate(folders[agent], agent, iteration)
            ]

        texts = [text for each in pool.map(run, range(agents)) for text in each]
    assert 'merge "ralph"' in (root / ".git/config").read_text(encoding="utf-8"), (
        "registered by a session's start"
    )
    for agent in range(agents):
        git(root, "merge", "-q", "--no-edit", f"agent-{agent}")
    content = "".join(
        (root / name).read_text(encoding="utf-8") for name in (MEMORIES, RAILS, PATTERNS)
    )
    assert [text for text in texts if content.count(text) != 1] == []
    assert len(texts) == agents * iterations * 3
