"""Build the prompt for an iteration, from sections in a fixed order and within a token budget.

The same files always produce the same bytes. If the context window is small, the global patterns
are dropped before the journal, and the task and the rules are never dropped. Text that does not fit
is cut at the end of a line.

Notes from earlier work were written by agents, so lines in them that read like instructions are
left out (`_leave_out_instructions`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import NotFound, Refused
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry, Task
from ralph.formats.journal import journal_id
from ralph.formats.journal_sentences import is_sentence
from ralph.formats.patterns import PatternsDocument, parse_patterns
from ralph.loop import scratchpad_file
from ralph.loop.prompt_memories import select_memories
from ralph.loop.prompt_sections import ALWAYS, Section, join_sections, titled_section, truncate_text
from ralph.loop.prompt_texts import MEMORY, render_retry, render_rules, render_task
from ralph.loop.state import Run
from ralph.memory import knowledge, quarantine
from ralph.privacy import injection
from ralph.recall import journal, journal_section, skill
from ralph.recall.journal_section import render_journal
from ralph.recall.summarize_command import Compress, no_compression
from ralph.storage import files
from ralph.tasks import feature, prd_file, progress, task

# Token budgets of the sections. Guardrails and memories share `memories.budget`.
JOURNAL_TOKENS = 3_000
KNOWLEDGE_TOKENS = 2_000
SCRATCHPAD_TOKENS = 1_000
PATTERNS_TOKENS = 1_500
_OPTIONAL_SECTIONS = (
    "spec",
    "guardrails",
    "journal",
    "progress",
    "plan",
    "knowledge",
    "memories",
    "scratchpad",
    "patterns",
    "skill",
)
"""Sections that may be left out, in descending order of importance."""


def build(
    root: Path,
    config: Config,
    run: Run,
    work: Task,
    *,
    checks: Sequence[str],
    max_iterations: int,
    verified: bool = False,
    branch: str = "",
    compress: Compress = no_compression,
) -> str:
    """Return the prompt for the next iteration.

    `checks` describe the criteria to the agent, `verified` says that a second session follows, and
    `branch` is the branch of the task's worktree,
    if it works in one. Notes that do not fit are compressed with
    `compress`, or cut if that returns nothing.
    """
    words = f"{work.title}\n{work.description}"
    feature_id = work.feature or ""
    spec = ""
    plan = ""
    if feature_id:
        shown = feature.show(root, feature_id)
        spec = titled_section("Specification", shown.spec)
        plan = titled_section("Plan", shown.plan)
    stories = _or_empty(lambda: prd_file.render_stories(root, work.id))
    injected = select_memories(root, config, words, work.id)
    notes = _journal_notes(root, run, work, words)
    texts = {
        "rules": render_rules(
            work,
            iteration=run.iterations + 1,
            max_iterations=max_iterations,
            folder=str(root),
            branch=branch,
            checks=checks,
            verified=verified,
        ),
        "task": render_task(work, task.prerequisites(root, work)),
        "stories": titled_section("Stories", stories),
        "spec": spec,
        "plan": plan,
        "retry": render_retry(work.attempts, config.execution.max_retries, run),
        "guardrails": titled_section("Guardrails", injected.guardrails),
        "journal": _fit(
            "Run Journal",
            JOURNAL_TOKENS,
            lambda budget: render_journal(notes.of_run, notes.of_others, budget),
            compress,
        ),
        "progress": titled_section("Task Progress", _task_progress(root, work, notes)),
        "knowledge": knowledge.section(
            root,
            words,
            feature=feature_id,
            files=_last_changed_files(root, run.id, work.id),
            budget=KNOWLEDGE_TOKENS,
        ),
        "memories": titled_section("Memories", injected.memories),
        "scratchpad": _fit(
            "Scratchpad", SCRATCHPAD_TOKENS, lambda budget: _scratchpad(root, budget), compress
        ),
        "patterns": _fit(
            "Global Patterns",
            PATTERNS_TOKENS,
            lambda budget: truncate_text(_patterns(root), budget or sys.maxsize),
            compress,
        ),
        "skill": _skill(config),
        "memory": MEMORY,
    }
    ranks = {name: position for position, name in enumerate(_OPTIONAL_SECTIONS, ALWAYS + 1)}
    sections = [Section(text, ranks.get(name, ALWAYS)) for name, text in texts.items()]
    return join_sections(sections, int(config.context.window * config.loop.context_budget))


def _fit(title: str, budget: int, render_within: Callable[[int], str], compress: Compress) -> str:
    """Return a section that fits its budget, compressing or cutting the text if necessary.

    `render_within` renders the text within a number of tokens, where 0 means unlimited.
    """
    text = render_within(0)
    if estimate(text) > budget:
        compressed = compress(text, budget)
        if compressed:
            text = _demote_headings(compressed)
        else:
            text = render_within(budget)
    return titled_section(title, text.removeprefix(f"{journal_section.JOURNAL_HEADING}\n"))


def _demote_headings(text: str) -> str:
    """Turn first-level and second-level headings into third-level ones, below a section."""
    return f"\n{text}".replace("\n# ", "\n## ").replace("\n## ", "\n### ")


def _skill(config: Config) -> str:
    """Return the instructions for using Ralph's memory, or "" if they are not injected."""
    settings = config.memories
    if not settings.enabled or not settings.skill_injection or settings.inject is Inject.NONE:
        return ""
    _, _, body = skill.skill_text().partition("\n")  # its heading is that of a page
    return titled_section("Using the Memories", body.strip())


def _last_changed_files(root: Path, run: str, task_id: str) -> tuple[str, ...]:
    """Return the files that the most recent iteration changed, of this run or an earlier one."""
    of_run = journal.recent(root, run, task=task_id)
    if of_run:
        return of_run[-1].files
    newest, _ = journal.list_(root, journal.JournalFilter(within=task_id), limit=1)
    if newest:
        return newest[0].files
    return ()


# --- notes from earlier work ---------------------------------------------------------------------


class _JournalNotes(NamedTuple):
    """Journal entries for a prompt, without the lines that read like instructions."""

    of_run: list[JournalEntry]
    of_others: list[JournalEntry]
    ids: set[str]


def _journal_notes(root: Path, run: Run, work: Task, words: str) -> _JournalNotes:
    of_run, of_others = journal.for_prompt(
        root, run.id, words, task=work.id, told=(run.failure, run.attempt_failure)
    )
    return _JournalNotes(
        of_run=[_without_instructions(entry) for entry in of_run],
        of_others=[_without_instructions(entry) for entry in of_others],
        ids={journal_id(entry.run, entry.iteration) for entry in (*of_run, *of_others)},
    )


def _without_instructions(entry: JournalEntry) -> JournalEntry:
    return replace(
        entry,
        title=_leave_out_instructions(entry.title),
        notes=_leave_out_instructions(entry.notes),
    )


def _task_progress(root: Path, work: Task, notes: _JournalNotes) -> str:
    text = _or_empty(lambda: progress.prompt_section(root, work.id, told=notes.ids))
    return _leave_out_instructions(text)


def _scratchpad(root: Path, budget: int) -> str:
    text, _ = scratchpad_file.show_scratchpad(root, budget=budget)
    return _leave_out_instructions(text)


def _leave_out_instructions(text: str) -> str:
    """Remove the lines that read like instructions to an agent, and note how many there were.

    The loop's own sentences are kept.
    """
    lines = text.split("\n")
    rest = [line for line in lines if not _is_instruction(line)]
    wrapped: set[int] = set()  # positions of line pairs that read like one instruction
    for position, (first, second) in enumerate(pairwise(rest)):
        continuation = second.lstrip()
        is_continued = continuation[:1].islower() and not is_sentence(continuation)
        if is_continued and injection.looks_like_instructions(f"{first} {continuation}"):
            wrapped.update((position, position + 1))
    kept = [line for position, line in enumerate(rest) if position not in wrapped]
    count = len(lines) - len(kept)
    if count:
        kept.append(f"(lines left out that read like instructions to an agent: {count})")
    return "\n".join(kept)


@lru_cache(maxsize=4096)  # most lines of a prompt were in the one before it
def _is_instruction(line: str) -> bool:
    return not is_sentence(line) and injection.looks_like_instructions(line)


def _or_empty(read: Callable[[], str]) -> str:
    with suppress(NotFound):  # a goal that is not a task yet has no folder
        return read()
    return ""


def _patterns(root: Path) -> str:
    """Return the global patterns that may be injected, without the page's header lines."""
    document = _all_patterns(root)
    may_inject = quarantine.injection_filter(root)
    for entry in document.entries:
        if not may_inject(entry.record):
            document = document.remove(entry.record.id)
    lines = [
        line
        for line in str(document).split("\n")
        if not line.startswith(("# ", "> ", "_Last updated", "---"))
    ]
    body = "\n".join(_without_empty_sections(lines)).strip()
    return f"\n{body}".replace("\n## ", "\n### ").lstrip("\n")


def _all_patterns(root: Path) -> PatternsDocument:
    """Return the patterns of the main checkout, with those that only this worktree has.

    A finished task adds its patterns to the main checkout. A worktree that was created before
    anybody committed them has an older copy of the file.
    """
    document = parse_patterns(files.read(paths.global_patterns(paths.main_checkout(root))) or "")
    of_worktree = parse_patterns(files.read(paths.global_patterns(root)) or "")
    for entry in of_worktree.entries:
        with suppress(Refused):  # a line that only that file can hold
            document = document.add(entry.record)
    return document


def _without_empty_sections(lines: Sequence[str]) -> list[str]:
    """Leave out the headings that have no text below them."""
    kept: list[str] = []
    has_text = False
    for line in reversed(lines):
        if line.startswith("#"):
            if has_text:
                kept.append(line)
            has_text = False
            continue
        kept.append(line)
        has_text = has_text or bool(line.strip())
    return kept[::-1]
