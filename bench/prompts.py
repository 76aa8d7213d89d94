"""Measure what later prompts get from earlier weeks of work: passages, pointers, or nothing.

`python bench/prompts.py [--keep DIR] [--show] [FILE ...]`. A FILE has one week per line (or is one week as JSON);
without files, the six weeks of bench/weeks.jsonl.gz are used (see bench/weeks.md). A week has

- `sessions`, which are sent through the hooks into a fresh project, as in bench/learning.py, and/or `memories`
  (`{"id", "text", "type", "tags", "supersedes"}`), which are added to it;
- `lessons` (`{"id", "text", "sessions", "memories"}`), with the sessions and memories that contain each;
- `later_prompts` (`{"text", "lesson"}`), where `lesson` is an id, a list of ids, or null for an unrelated prompt.

Each prompt is asked on its own, in a new session, and nothing is recorded. Printed per week and in total:

- delivered: 60% of the distinctive words of a lesson are in the text that is injected without its pointers;
- quoted: a record of the right session, or the right memory, is injected, whatever it says;
- pointed: one of the pointers names a record of the right session, or the right memory;
- reached: delivered, quoted or pointed; a quoted session is named as well;
- precision: the share of prompts with a passage or record, related or not, where a right one is among these;
- no passage, nothing: the share of unrelated prompts without a passage or record, and without a pointer as well;
- tokens: what a prompt costs in the median; pointers: the most tokens that the pointers of one prompt cost;
- searched: `ralph search` has a right record among its first five.

`--keep DIR` keeps the projects in a folder and reuses them. `--show` prints every prompt with its verdict and what
it got.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.delivery import has_clause
from bench.learning import WEEKS, replay

from ralph.core import config
from ralph.core.record import MemoryKind, Query
from ralph.core.tokens import estimate
from ralph.memory import memory
from ralph.recall import prompt_context, search, successors
from ralph.recall.one_line import short_id
from ralph.search import index
from ralph.storage import lookup, queries

Json = dict[str, Any]
BUILT = "built.json"  # maps the memories of a kept project to their ids
SEARCHED = 5  # hits of `ralph search` that count
COLUMNS = (
    "week",
    "prompts",
    "delivered",
    "quoted",
    "pointed",
    "reached",
    "precision",
    "unrelated",
    "no passage",
    "nothing",
    "tokens",
    "pointers",
    "searched",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one prompt got. A related prompt has a lesson."""

    prompt: str
    is_related: bool
    delivered: bool
    quoted: bool
    pointed: bool
    has_passage: bool
    has_pointer: bool
    tokens: int
    pointer_tokens: int
    searched: bool
    text: str

    @property
    def reached(self) -> bool:
        """Whether the lesson was delivered, or its session quoted or pointed to."""
        return self.delivered or self.quoted or self.pointed


def weeks(files: Sequence[str]) -> Iterator[tuple[str, Json]]:
    """Yield the weeks of the files, or those that come with the project, with their names."""
    if not files:
        with gzip.open(WEEKS, "rt", encoding="utf-8") as lines:
            for line in lines:
                week = json.loads(line)
                yield f"{week['week']} {week['split']}", week
    for file in files:
        content = Path(file).read_bytes()
        if file.endswith(".gz"):
            content = gzip.decompress(content)
        text = content.decode()
        try:
            yield Path(file).stem, json.loads(text)
        except json.JSONDecodeError:
            for number, line in enumerate(text.splitlines(), 1):
                yield f"{Path(file).stem} {number}", json.loads(line)


def build(week: Json, folder: Path) -> dict[str, str]:
    """Send a week into a fresh project; return the ids of its memories by their names."""
    root = folder / "project"
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", root], check=True)
    subprocess.run(
        [sys.executable, "-m", "ralph", "init", "--root", root],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for _ in replay({"sessions": week.get("sessions", ())}, root):
        pass
    built = {}
    for entry in week.get("memories", ()):
        kind = MemoryKind(entry["type"]) if entry.get("type") else None
        saved = memory.add(root, entry["text"], kind, entry.get("tags", ()))
        built[entry["id"]] = saved.stored.record.id
    for entry in week.get("memories", ()):
        if entry.get("supersedes"):
            successors.supersede(root, built[entry["supersedes"]], built[entry["id"]])
    index.wait_until_current(root)
    return built


def isolate(home: Path) -> None:
    """Let neither the user's own memory nor the settings of this machine take part."""
    for variable in list(os.environ):
        if variable.startswith(("XDG_", "CLAUDE", "RALPH_")):
            del os.environ[variable]
    home.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(home)


def measure(name: str, week: Json, keep: Path | None) -> list[Verdict]:
    """Return the verdicts on the later prompts of a week."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as temporary:
        folder = Path(temporary)
        if keep is not None:
            folder = keep / name.replace(" ", "-")
        isolate(folder / "home")
        if not (folder / BUILT).exists():
            built = build(week, folder)
            (folder / BUILT).write_text(json.dumps(built), encoding="utf-8")
        built = json.loads((folder / BUILT).read_text(encoding="utf-8"))
        lessons = {lesson["id"]: lesson for lesson in week["lessons"]}
        judge = Judge(folder / "project", lessons, built)
        return [judge.ask(prompt) for prompt in week["later_prompts"]]


class Judge:
    """Asks prompts in a project, and compares what they get with the lessons."""

    def __init__(self, root: Path, lessons: Mapping[str, Json], built: Mapping[str, str]) -> None:
        self.root = root
        self.config = config.load(root=root, env=os.environ).config
        self.lessons = lessons
        self.built = built

    def ask(self, prompt: Json) -> Verdict:
        """Return the verdict on one prompt."""
        names = prompt["lesson"] or []
        if isinstance(names, str):
            names = [names]
        lessons = [self.lessons[name] for name in names]
        answer = prompt_context.answer_prompt(self.root, self.config, prompt["text"])
        pointed = [reason["id"] for reason in answer.reasons if reason.get("pointer")]
        shown = [reason["id"] for reason in answer.reasons if not reason.get("pointer")]
        lines = answer.text.splitlines()
        pointer_lines = [
            line for line in lines if any(f"[{short_id(name)}]" in line for name in pointed)
        ]
        passage = "\n".join(line for line in lines if line not in pointer_lines)
        right = self._right_records(lessons)
        found = search.search(self.root, Query(prompt["text"], limit=SEARCHED)).found.hits
        return Verdict(
            prompt["text"],
            bool(lessons),
            any(has_clause([passage], lesson["text"]) for lesson in lessons),
            any(self._is_right(name, right) for name in shown),
            any(self._is_right(name, right) for name in pointed),
            bool(shown),
            bool(pointed),
            estimate(answer.text) if answer.text else 0,
            sum(estimate(line) for line in pointer_lines),
            any(self._is_right(hit.record.id, right) for hit in found),
            answer.text,
        )

    def _right_records(self, lessons: Sequence[Json]) -> set[str]:
        """Return the sessions and the ids of memories that contain one of the lessons."""
        right = set()
        for lesson in lessons:
            right.update(lesson.get("sessions", ()))
            right.update(self.built[name] for name in lesson.get("memories", ()))
        return right

    def _is_right(self, record_id: str, right: set[str]) -> bool:
        return record_id in right or self._session_of(record_id) in right

    def _session_of(self, record_id: str) -> str:
        def ask(connection: sqlite3.Connection) -> str:
            key = queries.key_of(connection, record_id)
            if key is None:
                return ""
            rows = lookup.fetch_rows(connection, [key])
            return str(rows[key].session)

        return index.ask(self.root, ask)


def row(name: str, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the figures of some prompts as a row of the table."""
    related = [verdict for verdict in verdicts if verdict.is_related]
    unrelated = [verdict for verdict in verdicts if not verdict.is_related]
    passages = [verdict for verdict in verdicts if verdict.has_passage]
    return (
        name,
        str(len(related)),
        share([verdict.delivered for verdict in related]),
        share([verdict.quoted for verdict in related]),
        share([verdict.pointed for verdict in related]),
        share([verdict.reached for verdict in related]),
        share([verdict.quoted for verdict in passages]),
        str(len(unrelated)),
        share([not verdict.has_passage for verdict in unrelated]),
        share([not (verdict.has_passage or verdict.has_pointer) for verdict in unrelated]),
        f"{median(verdict.tokens for verdict in verdicts):.0f}",
        str(max(verdict.pointer_tokens for verdict in verdicts)),
        share([verdict.searched for verdict in related]),
    )


def share(values: Sequence[bool]) -> str:
    """Return the share of true values, with two decimals."""
    return f"{fmean(values):.2f}" if values else "-"


def describe(verdict: Verdict) -> str:
    """Return a prompt, what became of it, and what it got."""
    marks = [
        name for name in ("delivered", "quoted", "pointed", "searched") if getattr(verdict, name)
    ]
    head = "related" if verdict.is_related else "UNRELATED"
    text = verdict.text.replace("\n", "\n      ")
    return f"\n  {head} {verdict.tokens} tokens, {', '.join(marks) or 'missed'}: {verdict.prompt}\n      {text}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--only", help="names of weeks that begin with one of these, such as 1,2")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = [COLUMNS]
    everything: list[Verdict] = []
    for name, week in weeks(options.files):
        if options.only and not name.startswith(tuple(options.only.split(","))):
            continue
        verdicts = measure(name, week, options.keep)
        everything += verdicts
        rows.append(row(name, verdicts))
        if options.show:
            print(f"\n== {name}", *map(describe, verdicts), sep="\n")
    rows.append(row("all", everything))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))


if __name__ == "__main__":
    main()
