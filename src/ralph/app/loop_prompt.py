"""Build the prompt of a loop's iteration from everything that the project remembers.

Each section has its own budget, and all of them share what `ralph.context_budget` leaves of the window. Memories
related to the task come first, then the most useful ones. The same files give the same bytes.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ralph import paths
from ralph.app import feature, index, journal, knowledge, memory, outdated, scratchpad
from ralph.app.tasks import progress, task
from ralph.context import brief, render
from ralph.context.budget import useful_order
from ralph.context.tokens import estimate
from ralph.errors import NotFound
from ralph.loop import prompt
from ralph.loop.prompt import PromptSection
from ralph.loop.state import Run
from ralph.model import ids
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.model.work import Task
from ralph.search import rank
from ralph.settings import Config, Inject
from ralph.store import files

GUARDRAILS, JOURNAL, KNOWLEDGE, SCRATCHPAD, PATTERNS = 2_000, 3_000, 2_000, 1_000, 1_500
"""Tokens of these sections; memories have `memories.budget`."""

_RELATED = 30
_NOTE = 40  # tokens for the note about entries that are left out
_OPTIONAL = "spec guardrails journal progress plan knowledge memories scratchpad patterns skill".split()
"""Sections that may be left out, the most important first."""


def build(root: Path, config: Config, run: Run, work: Task, checks: Sequence[str], most: int) -> str:
    """Return the prompt of the next iteration."""
    words = f"{work.title}\n{work.description}"
    recent = journal.recent(root, run.id, task=work.id)
    last_files = recent[-1].files if recent else ()
    retry = prompt.render_retry(work.attempts, config.execution.max_retries, run.failure, run.feedback)
    settings = config.memories
    has_skill = settings.enabled and settings.skill_injection and settings.inject is not Inject.NONE
    skill = brief.skill_text("memories") if has_skill else ""
    texts = {
        "rules": prompt.render_rules(work, iteration=run.iterations + 1, most=most, folder=str(root), checks=checks),
        "task": prompt.render_task(work, task.prerequisites(root, work)),
        "stories": prompt.render_section("Stories", _or_empty(lambda: progress.stories_section(root, work.id))),
        "spec": prompt.render_section("Specification", feature.spec(root, work.feature)) if work.feature else "",
        "plan": prompt.render_section("Plan", feature.plan(root, work.feature)) if work.feature else "",
        "retry": retry,
        "guardrails": _guardrails(root, config),
        "journal": journal.section(root, run.id, words, JOURNAL, task=work.id),
        "progress": prompt.render_section("Task Progress", _or_empty(lambda: progress.prompt_section(root, work.id))),
        "knowledge": knowledge.section(root, words, feature=work.feature or "", files=last_files, budget=KNOWLEDGE),
        "memories": _memories(root, config, words, work.id),
        "scratchpad": prompt.render_section("Scratchpad", scratchpad.show(root, budget=SCRATCHPAD).text),
        "patterns": prompt.render_section("Global Patterns", _patterns(root)),
        "skill": skill,
        "memory": prompt.MEMORY,
    }
    limits = {
        "guardrails": GUARDRAILS,
        "journal": JOURNAL + 50,
        "progress": progress.BUDGET + 50,
        "knowledge": KNOWLEDGE + 50,
        "patterns": PATTERNS,
    }
    ranks = {name: rank for rank, name in enumerate(_OPTIONAL, 1)}
    sections = [
        PromptSection(name, text, ranks.get(name, prompt.ALWAYS), limits.get(name, 0)) for name, text in texts.items()
    ]
    return prompt.build_prompt(sections, int(config.context.window * config.loop.context_budget), estimate)


def _or_empty(read: Callable[[], str]) -> str:
    """Return a text from a task's folder; "" for a goal that is no task yet (a preview)."""
    with suppress(NotFound):
        return read()
    return ""


def _guardrails(root: Path, config: Config) -> str:
    if not config.memories.enabled:
        return ""
    records = outdated.add_citation_notes(
        root, memory.current([stored.record for stored in memory.list_(root, in_=("guardrails",))])
    )
    return prompt.render_section("Guardrails", _within(records, list(useful_order(records)), GUARDRAILS - 20))


def _memories(root: Path, config: Config, words: str, task_id: str) -> str:
    settings = config.memories
    if not settings.enabled or settings.inject is not Inject.AUTO:
        return ""
    choice = settings.filter
    records = outdated.add_citation_notes(root, memory.current([stored.record for stored in memory.list_(root)]))
    records = brief.filter_memories(
        records, types=choice.types, tags=choice.tags, recent=choice.recent, today=ids.now().date()
    )
    positions = {record.id: position for position, record in enumerate(records)}
    query = Query(text=words, families=(Family.MEMORY,), limit=_RELATED, task=task_id)
    result = index.ask(root, lambda connection: rank.search(connection, query, today=ids.now().date()))
    related = [positions[hit.record.id] for hit in result.hits if hit.record.id in positions]
    order = [*related, *(position for position in useful_order(records) if position not in set(related))]
    return prompt.render_section("Memories", _within(records, order, settings.budget))


def _within(records: Sequence[Record], order: Sequence[int], budget: int) -> str:
    blocks: list[str] = []
    used = 0
    safe = [records[position] for position in order]
    safe = [record for record in safe if not render.withheld(record.origin.by, record.text)]
    for record in safe:
        block = render.entry(3, record.id, record.kind.value, record.title, record.text, record.created_at, record.tags)
        cost = estimate(block) + 1
        if budget <= 0 or used + cost <= budget - _NOTE:
            blocks.append(block)
            used += cost
    if len(blocks) < len(safe):
        blocks.append(render.shown_note(len(blocks), len(safe), brief.ALL_OF_IT))
    return "\n".join(blocks)


def _patterns(root: Path) -> str:
    text = files.read(paths.patterns_file(root)) or ""
    lines = [line for line in text.split("\n") if not line.startswith(("# ", "> ", "_Last updated", "---"))]
    body = "\n".join(lines).strip()
    has_some = any(line.strip() and not line.startswith("#") for line in lines)
    return f"\n{body}".replace("\n## ", "\n### ").lstrip("\n") if has_some else ""
