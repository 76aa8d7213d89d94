"""Two tasks in one project that work on the same thing, each with a memory of every kind.

Whatever task one has written holds one of the words `ONE_*`, so that a test can tell what of it is seen anywhere.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.runner import Block, page

from ralph.core import paths
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.core.work import JournalEntry
from ralph.formats.insight_files import parse_insights
from ralph.formats.log import encode_line, encode_record
from ralph.recall import journal
from ralph.search import index
from ralph.tasks import task

ASKED = "grease the frobnicator"
PROJECT = "projectword"
ONE_SEEN, ONE_CHAT, ONE_ENTRY, ONE_RUN, ONE_BLOCK = (
    "oneseen",
    "onechat",
    "oneentry",
    "onerun",
    "oneblock",
)
ONE_LEARNING, ONE_PATTERN, ONE_INSIGHT = "onelearning", "onepattern", "oneinsight"
TWO_SEEN, TWO_INSIGHT = "twoseen", "twoinsight"
WHEN_DONE = {ONE_SEEN, ONE_CHAT, ONE_ENTRY, ONE_RUN, ONE_BLOCK, ONE_LEARNING}
"""What others read of task one as soon as it is finished (a learning stands in its block); the rest is promoted."""
ONE = WHEN_DONE | {ONE_PATTERN, ONE_INSIGHT}
TWO = {TWO_SEEN, TWO_INSIGHT}
HITS, HITS_WHEN_DONE = ONE - {ONE_RUN}, WHEN_DONE - {ONE_RUN}
"""What a search shows of task one: a run and its journal entry are one hit."""


def words(mark: str) -> str:
    """What every record says, with its own word."""
    return f"The frobnicator needs grease: {mark}."


def seen(text: str) -> set[str]:
    """The marks that a text holds."""
    return {mark for mark in (*ONE, *TWO, PROJECT) if mark in text}


@dataclass(frozen=True, slots=True)
class Both:
    """The project, and the ids of its tasks."""

    root: Path
    one: str
    two: str


def write(path: Path, text: str) -> None:
    """A file by hand, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def observed(number: int, mark: str, session: str, name: str = "") -> Record:
    """Something that was said in a session."""
    origin = Origin("agent", session=session, task=name)
    return Record(
        f"obs-{1_762_000_000 + number}-{number:04x}", ObservationKind.NOTE, words(mark), Family.OBSERVATION,
        title="message", origin=origin, created_at=f"2026-11-13T10:{number:02}:00Z",
    )  # fmt: skip


def insight(mark: str, number: int, text: str = "") -> Record:
    """Something that a task proposes."""
    return Record(
        f"ins-{number}", MemoryKind.FIX, text or words(mark), status=Status.PROPOSED, scope=Scope.TASK,
        created_at="2026-11-13",
    )  # fmt: skip


def entry(mark: str, name: str, iteration: int = 1, run: str = "run-0001") -> JournalEntry:
    """How an iteration of a task ended."""
    return JournalEntry(
        run, iteration, Outcome.DONE, name, "Grease the frobnicator", notes=words(mark),
        created_at=f"2026-11-13T11:{iteration:02}:00Z",
    )  # fmt: skip


def both(root: Path) -> Both:
    """A project with two tasks that are begun, and all that they have written."""
    one, two = (
        task.add(root, f"Grease the frobnicator, part {number}").task.id for number in (1, 2)
    )
    write(
        root / ".agent" / "memories.md",
        page(Block(words(PROJECT), "mem-1705751401-a001", created="2026-11-10")),
    )
    logs = paths.log_folder(root) / "sessions"
    write(logs / "s-one.jsonl", encode_record(observed(1, ONE_SEEN, "s-one", one)))
    chat = encode_line(
        "session", {"id": "s-chat", "task_id": one, "updated_at": "2026-11-13T10:05:00Z"}
    )
    write(logs / "s-chat.jsonl", chat + encode_record(observed(2, ONE_CHAT, "s-chat")))
    write(logs / "s-two.jsonl", encode_record(observed(3, TWO_SEEN, "s-two", two)))
    journal.append(root, entry(ONE_ENTRY, one))
    log = journal.run_file(root, "run-0001")
    summed = replace(observed(4, ONE_RUN, ""), id="run-0001", kind=Outcome.DONE, family=Family.JOURNAL, label="run",
                     origin=Origin("agent", run="run-0001"))  # fmt: skip
    write(log, log.read_text(encoding="utf-8") + encode_record(summed))
    folder = paths.tasks_folder(root) / one
    patterns = f"## Codebase Patterns\n- {words(ONE_PATTERN)}\n---\n\n"
    block = f"## It works\n{words(ONE_BLOCK)}\n**Learnings:**\n- Fix: {words(ONE_LEARNING)}\n---\n"
    write(folder / "progress.txt", patterns + block)
    write(folder / "memory" / "insights.json", parse_insights("").add(insight(ONE_INSIGHT, 1)).text)
    write(
        paths.tasks_folder(root) / two / "memory" / "insights.json",
        parse_insights("").add(insight(TWO_INSIGHT, 2)).text,
    )
    index.sync(root)
    return Both(root, one, two)
