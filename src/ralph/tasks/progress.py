"""A task's PRD and progress.txt, and what it leaves to the project when it is done.

After each iteration the loop appends a redacted block to progress.txt. What was learned twice, or was given as
knowledge, is put among the patterns at the top; lines of people stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import RalphError, Refused
from ralph.core.record import Family, MemoryKind, Outcome, Record
from ralph.core.similarity import TextMatcher
from ralph.core.text import scan_lines
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry, Story, Task, ignore_text
from ralph.formats import progress as pages
from ralph.formats.log import journal_id
from ralph.formats.work import PrdDocument, parse_prd, pass_stories
from ralph.learning import insights, review
from ralph.learning.review import Promotion
from ralph.memory.knowledge import LearnedEntry
from ralph.privacy import privacy
from ralph.privacy.invisible_characters import clean_text
from ralph.privacy.privacy import redact
from ralph.recall import graph
from ralph.storage import board, files, queries
from ralph.tasks import worktree

BUDGET = 2_000  # tokens of progress.txt in the prompt of an iteration
_MAX_BULLETS = 12
_MAX_LINE = 400
_MAX_FILES = 20
_MAX_PATTERN = 300
_LABEL = "- **Learnings for future iterations:**"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARKS = re.compile(r"^(?:[-*+>#]+[ \t]+|[0-9]{1,3}[.)][ \t]+|\[[ xX]\][ \t]+)+")
_NOISE = re.compile(r"^(?:```.*|~~~.*|-{3,}|={3,}|\*{3,}|<!--|-->)$")


def folder(root: Path, task_id: str) -> Path:
    """Return the folder with a task's files."""
    return board.find(root, task_id).path.parent


def set_up(
    root: Path,
    task_id: str,
    prd: PrdDocument | None,
    *,
    in_worktree: bool,
    tell: Callable[[str], None] = ignore_text,
) -> Task:
    """Give a new task its PRD, its progress.txt and, where wanted, its worktree."""
    if prd is not None:
        files.write(folder(root, task_id) / "prd.json", prd.text, root=paths.main_checkout(root))
        board.change(root, task_id, lambda task: replace(task, branch=prd.branch or None))
    begin(root, task_id)
    return (
        worktree.create(root, task_id, tell=tell).task
        if in_worktree
        else board.find(root, task_id).task
    )


def read_prd(text: str, allow_secret: bool, patterns: Sequence[str]) -> PrdDocument:
    """Return a PRD as it may be stored; Refused when it cannot be read."""
    if not text.strip():
        raise Refused(
            "the PRD is empty", hint="name a prd.json with its userStories; nothing was changed"
        )
    clean = privacy.clean_description(text, "PRD", allow_secret=allow_secret, patterns=patterns)
    document = parse_prd(clean.text + "\n")
    if wrong := next((each for each in document.problems if each.level == "error"), None):
        raise Refused(f"the PRD cannot be taken: line {wrong.line}: {wrong.what}", hint=wrong.hint)
    return document


def begin(root: Path, task_id: str) -> None:
    """Make sure that a task has a progress.txt."""
    path = folder(root, task_id) / "progress.txt"
    files.update(path, lambda old: old or pages.progress_template(), root=paths.main_checkout(root))


def start_in_worktree(
    root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text
) -> worktree.Worktree:
    """Give a task a worktree, and the files that it remembers with."""
    begin(root, task_id)
    return worktree.create(root, task_id, tell=tell)


def stories(root: Path, task_id: str) -> list[Story]:
    """Return the stories of a task's PRD, the next one first; those that pass come last."""
    text = files.read(folder(root, task_id) / "prd.json")
    found = parse_prd(text).stories if text is not None else ()
    return sorted(found, key=lambda story: (story.passes, story.priority <= 0, story.priority))


def current_story(root: Path, task_id: str) -> str:
    """Return what is worked on now: the next story, else the task itself."""
    return next((story.id for story in stories(root, task_id) if not story.passes), task_id)


def stories_section(root: Path, task_id: str) -> str:
    """Return the stories for a prompt: the open ones with their criteria."""
    path = folder(root, task_id) / "prd.json"
    lines = []
    for story in stories(root, task_id):
        lines.append(f"- [{'x' if story.passes else ' '}] {story.id}: {story.title}")
        if not story.passes:
            lines += [f"  {line}" for line in story.description.splitlines() if line.strip()]
            lines += [f"  - {criterion}" for criterion in story.acceptance_criteria]
    head = "Work on the first open one; set its `passes` to true there once its criteria hold."
    return "\n".join([f"The stories are in {path}. {head}", "", *lines]) if lines else ""


def prompt_section(
    root: Path, task_id: str, budget: int = BUDGET, *, told: Collection[str] = ()
) -> str:
    """Return progress.txt for a prompt: patterns, then the newest blocks that fit, without those `told` elsewhere."""
    path = folder(root, task_id) / "progress.txt"
    records = [entry.record for entry in pages.parse_progress(files.read(path) or "").entries]
    patterns = list[str]()
    room = budget - 40
    for record in filter(pages.is_progress_pattern, records):
        line = "- " + record.text.replace("\n", "\n  ")
        if (cost := estimate(line) + 1) <= room:
            room -= cost
            patterns.append(line)
    blocks = [record for record in records if record.family is Family.JOURNAL]
    blocks = [record for record in blocks if record.extra.get(pages.JOURNAL_KEY) not in told]
    newest: list[str] = []
    for record in reversed(blocks):
        block = "\n".join([f"### {record.title}", f"({record.kind.value})", record.text])
        if (cost := estimate(block) + 2) > room:
            break
        room -= cost
        newest.insert(0, block)
    older = len(blocks) - len(newest)
    head = "\n".join(["### Codebase Patterns", *patterns]) if patterns else ""
    return "\n\n".join(
        filter(None, [head, f"({older} older blocks: {path})" if older else "", *newest])
    )


def append_iteration(
    root: Path,
    entry: JournalEntry,
    learned: Sequence[LearnedEntry] = (),
    story: str = "",
    patterns: Sequence[str] = (),
) -> list[Record]:
    """Append the block of an iteration, once; return the new patterns that it brings."""

    def clean(text: str) -> str:
        return queries.safe(redact(clean_text(text), patterns).text)

    block = _block(entry, story or entry.task, clean)
    known = [
        pages.with_pointer(f"{_line(clean(each.title))}: {_sentence(clean(each.text))}", each.slug)
        for each in learned
        if each.slug
    ]

    def edit(text: str) -> tuple[str, list[Record]]:
        document = pages.parse_progress(text or pages.progress_template())
        name = block.extra[pages.JOURNAL_KEY]
        if all(each.record.extra.get(pages.JOURNAL_KEY) != name for each in document.entries):
            try:
                document = document.add(block)
            except Refused:  # the text would break the file
                short = f"- {Outcome(block.kind).value}; what was noted is in the journal"
                document = document.add(replace(block, text=short))
        document, added = _with_patterns(document, known)
        return str(document), added

    return files.update(
        folder(root, entry.task) / "progress.txt", edit, root=paths.main_checkout(root)
    )[1]


def _block(entry: JournalEntry, story: str, clean: Callable[[str], str]) -> Record:
    notes = clean(entry.notes)  # whole: a key may be spread over lines
    lessons = [_line(each.text) for each in pages.read_learnings("", list(scan_lines(notes)))]
    bullets = []
    for line in (
        notes.splitlines()
    ):  # without the learnings and without marks that mean something in this file
        text = _line(_MARKS.sub("", line.strip()))
        is_label = text.lower().strip("*_: ").startswith("learning") and len(text) < 60
        if text and not _NOISE.match(text) and text not in lessons and not is_label:
            bullets.append(text)
    if len(bullets) > _MAX_BULLETS:
        bullets = [*bullets[:_MAX_BULLETS], "(more in the journal)"]
    body = [f"- {each}" for each in bullets or [_line(clean(entry.title))]]
    if entry.files:
        more = f" and {len(entry.files) - _MAX_FILES} more" if len(entry.files) > _MAX_FILES else ""
        body.append(
            f"- Files changed: {', '.join(_line(clean(each)) for each in entry.files[:_MAX_FILES])}{more}"
        )
    if any(lessons):
        body += [_LABEL, *(f"  - {each}" for each in dict.fromkeys(lessons) if each)]
    at = (entry.created_at or ids.timestamp())[:16].replace("T", " ")
    extra = {pages.JOURNAL_KEY: journal_id(entry.run, entry.iteration)}
    if entry.session:
        extra["thread"] = "ralph://session/" + _UNSAFE.sub("-", clean(entry.session))
    title = f"{at} - {_line(clean(story))}"
    return Record("", entry.outcome, "\n".join(body), Family.JOURNAL, title=title, extra=extra)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1].rstrip()}…"


def _sentence(text: str) -> str:
    first = " ".join(text.strip().split("\n\n", 1)[0].split())
    return (
        first if len(first) <= _MAX_PATTERN else first[: _MAX_PATTERN - 1].rsplit(" ", 1)[0] + "…"
    )


def _with_patterns(
    document: pages.ProgressDocument, known: Sequence[str]
) -> tuple[pages.ProgressDocument, list[Record]]:
    records = (entry.record for entry in document.entries)
    texts = [
        pages.without_pointer(record.text)
        for record in records
        if pages.is_progress_pattern(record)
    ]
    patterns = TextMatcher(texts)
    added = list[Record]()
    for text in [*known, *_repeated_learnings(document)]:
        short = pages.without_pointer(text)
        if short in texts or patterns.nearest(short) is not None:
            continue
        record = Record(ids.derived("found", text), MemoryKind.PATTERN, text)
        try:
            document = document.add(record)
        except Refused:  # it cannot stand as a bullet; the block or the knowledge entry has it
            continue
        patterns.add(short)
        texts.append(short)
        added.append(replace(record, text=short))
    return document, added


def _repeated_learnings(document: pages.ProgressDocument) -> Iterator[str]:
    matcher = TextMatcher()
    first = list[tuple[str, str]]()
    links = [(entry.record, link) for entry in document.entries for link in entry.record.links]
    for record, block in [
        (record, link.target) for record, link in links if link.relation == "learned_in"
    ]:
        text = " ".join(record.text.split())
        at = matcher.nearest(text)
        if at is None:  # texts that are too short to be compared
            at = next((row for row, (other, _) in enumerate(first) if other == text), None)
        if at is None:
            matcher.add(text)
            first.append((text, block))
        elif first[at][1] != block:
            yield first[at][0]


def promote_insights(
    root: Path, task: Task, *, patterns: Sequence[str] = ()
) -> tuple[Promotion | None, str]:
    """Promote what a finished task taught, and write its graph; the second value says why that failed."""
    at = worktree.folder_of(root, task)
    try:
        prd = folder(root, task.id) / "prd.json"
        if prd.exists():
            files.update(prd, pass_stories, root=paths.main_checkout(root))
        insights.extract(at if at is not None and at.is_dir() else root, task.id, patterns=patterns)
        promotion = review.promote_task(paths.main_checkout(root), task.id, patterns=patterns)
        graph.export(root, task=task.id)
        problems = insights.find_problems(root, task.id)
        return (
            promotion,
            f"not everything that {task.id} taught can be read: {problems[0]}" if problems else "",
        )
    except RalphError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return None, f"what {task.id} taught was not promoted: {error.message}{hint}"
