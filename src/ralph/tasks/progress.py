"""Write a task's progress.txt, and render it for prompts.

After each iteration, the loop appends a block with redacted notes and the learnings in them. A
learning that occurs in two blocks, or that the agent gave as knowledge, is added to the patterns at
the top of the file. Lines that people wrote are never changed. A block looks like this:

    ## 2026-01-31 12:00 - t-0a1b
    - Rounded the totals
    - Files changed: cart.py
    - **Learnings for future iterations:**
      - Money is stored in cents
    ---
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.core.record import Family, MemoryKind, Outcome, Record
from ralph.core.similarity import TextMatcher
from ralph.core.text import scan_lines
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry
from ralph.formats.journal import journal_id
from ralph.formats.journal_sentences import without_sentences
from ralph.formats.progress import (
    ProgressDocument,
    is_progress_pattern,
    parse_progress,
    progress_template,
    with_pointer,
    without_pointer,
)
from ralph.formats.progress_blocks import JOURNAL_KEY
from ralph.formats.progress_learnings import read_learnings
from ralph.learning.labels import titled_lesson
from ralph.memory.knowledge import LearnedEntry
from ralph.privacy.invisible_characters import clean_text
from ralph.privacy.privacy import redact
from ralph.storage import files, record_rows, task_files

BUDGET = 2_000  # tokens that progress.txt may take up in a prompt
_HEADING_TOKENS = 40  # reserved for the headings and the note about older blocks
_MAX_BULLETS = 12
_MAX_FILES = 20
_MAX_LINE_CHARACTERS = 400
_MAX_PATTERN_CHARACTERS = 300
_MAX_LABEL_CHARACTERS = 60  # a longer line that starts with "learning" is a sentence
_MINUTE_CHARACTERS = len("2026-01-31T12:00")  # a timestamp up to its minutes
_LEARNINGS_LABEL = "- **Learnings for future iterations:**"
_UNSAFE_IN_URI = re.compile(r"[^A-Za-z0-9._-]+")
_LIST_MARKERS = re.compile(r"^(?:[-*+>#]+[ \t]+|[0-9]{1,3}[.)][ \t]+|\[[ xX]\][ \t]+)+")
_MARKUP_LINE = re.compile(r"^(?:```.*|~~~.*|-{3,}|={3,}|\*{3,}|<!--|-->)$")

_Cleaner = Callable[[str], str]  # removes secrets and invisible characters from text


# --- the file -----------------------------------------------------------------------------------


def task_folder(root: Path, task_id: str) -> Path:
    """Return the folder that holds a task's files."""
    return task_files.find_task(root, task_id).path.parent


def create_progress_file(root: Path, task_id: str) -> None:
    """Create a task's progress.txt if it does not exist."""
    path = task_folder(root, task_id) / "progress.txt"
    files.update(path, lambda old: old or progress_template(), root=paths.main_checkout(root))


# --- progress.txt in a prompt --------------------------------------------------------------------


def prompt_section(
    root: Path, task_id: str, budget: int = BUDGET, *, told: Collection[str] = ()
) -> str:
    """Return the parts of progress.txt for a prompt: patterns, then the newest blocks that fit.

    `budget` is in tokens. Blocks whose journal id is in `told` are left out, because the prompt
    already contains them elsewhere.
    """
    path = task_folder(root, task_id) / "progress.txt"
    document = parse_progress(files.read(path) or "")
    records = [entry.record for entry in document.entries]
    room = budget - _HEADING_TOKENS
    patterns: list[str] = []
    for record in filter(is_progress_pattern, records):
        line = "- " + record.text.replace("\n", "\n  ")
        cost = estimate(line) + 1
        if cost <= room:
            room -= cost
            patterns.append(line)
    blocks = [record for record in records if _is_block_to_show(record, told)]
    newest = _newest_blocks(blocks, room)
    sections = []
    if patterns:
        sections.append("\n".join(["### Codebase Patterns", *patterns]))
    older = len(blocks) - len(newest)
    if older:
        sections.append(f"({older} older blocks: {path})")
    return "\n\n".join([*sections, *newest])


def _is_block_to_show(record: Record, told: Collection[str]) -> bool:
    return record.family is Family.JOURNAL and record.extra.get(JOURNAL_KEY) not in told


def _newest_blocks(blocks: Sequence[Record], room: int) -> list[str]:
    """Return as many of the newest blocks as fit into `room` tokens, oldest first."""
    newest: list[str] = []
    for record in reversed(blocks):
        block = "\n".join([f"### {record.title}", f"({record.kind.value})", record.text])
        cost = estimate(block) + 2
        if cost > room:
            break
        room -= cost
        newest.append(block)
    newest.reverse()
    return newest


# --- the block of an iteration -------------------------------------------------------------------


def append_iteration(
    root: Path,
    entry: JournalEntry,
    learned: Sequence[LearnedEntry] = (),
    story: str = "",
    done_stories: Sequence[str] = (),
    patterns: Sequence[str] = (),
) -> list[Record]:
    """Append an iteration's block to progress.txt, and return the patterns that are new.

    A block that the file already contains is not appended again. The block is about `story`, or
    about the stories that the iteration finished, if there are any.
    """

    def clean(text: str) -> str:
        return record_rows.storable_text(redact(clean_text(text), patterns).text)

    if done_stories:
        story = ", ".join(done_stories)
        entry = _with_done_stories(entry, story)
    block = _block(entry, story or entry.task, clean)
    knowledge = []
    for learning in learned:
        if learning.slug:
            sentence = _sentence(clean(learning.text))
            text = titled_lesson(_line(clean(learning.title)), sentence)
            knowledge.append(with_pointer(text, learning.slug))

    def edit(text: str) -> tuple[str, list[Record]]:
        document = parse_progress(text or progress_template())
        document = _with_block(document, block)
        document, added = _with_patterns(document, knowledge)
        return str(document), added

    path = task_folder(root, entry.task) / "progress.txt"
    return files.update(path, edit, root=paths.main_checkout(root))[1]


def _with_block(document: ProgressDocument, block: Record) -> ProgressDocument:
    """Return the document with the block added, unless it has one for the same iteration."""
    iteration = block.extra[JOURNAL_KEY]
    for entry in document.entries:
        if entry.record.extra.get(JOURNAL_KEY) == iteration:
            return document
    try:
        return document.add(block)
    except Refused:  # the text would break the file
        pointer = f"- {Outcome(block.kind).value}; the notes are in the journal"
        return document.add(replace(block, text=pointer))


def _with_done_stories(entry: JournalEntry, stories: str) -> JournalEntry:
    """Return the entry as the block of the stories that are done, even if the task is not."""
    outcome = entry.outcome
    if outcome is Outcome.BLOCKED:
        outcome = Outcome.DONE
    notes = without_sentences(entry.notes)
    return replace(entry, outcome=outcome, notes=f"Done: {stories}\n\n{notes}")


def _block(entry: JournalEntry, story: str, clean: _Cleaner) -> Record:
    """Build the record for an iteration's block."""
    notes = clean(entry.notes)  # cleaned as a whole, because a key may span several lines
    lessons = [_line(bullet.text) for bullet in read_learnings("", list(scan_lines(notes)))]
    bullets = _note_bullets(notes, lessons) or [_line(clean(entry.title))]
    body = [f"- {bullet}" for bullet in bullets]
    if entry.files:
        body.append(f"- Files changed: {_list_files(entry.files, clean)}")
    if any(lessons):
        body.append(_LEARNINGS_LABEL)
        body += [f"  - {lesson}" for lesson in dict.fromkeys(lessons) if lesson]
    created_at = (entry.created_at or ids.timestamp())[:_MINUTE_CHARACTERS].replace("T", " ")
    title = f"{created_at} - {_line(clean(story))}"
    extra = {JOURNAL_KEY: journal_id(entry.run, entry.iteration)}
    if entry.session:
        extra["thread"] = "ralph://session/" + _UNSAFE_IN_URI.sub("-", clean(entry.session))
    return Record("", entry.outcome, "\n".join(body), Family.JOURNAL, title=title, extra=extra)


def _note_bullets(notes: str, lessons: Collection[str]) -> list[str]:
    """Return the lines of the notes as bullets, without learnings and markup.

    List markers and horizontal rules are removed, because they have a meaning in progress.txt.
    """
    bullets = []
    for line in notes.splitlines():
        text = _line(_LIST_MARKERS.sub("", line.strip()))
        if not text or _MARKUP_LINE.match(text) or text in lessons:
            continue
        if not _is_learnings_label(text):
            bullets.append(text)
    if len(bullets) > _MAX_BULLETS:
        return [*bullets[:_MAX_BULLETS], "(more in the journal)"]
    return bullets


def _is_learnings_label(text: str) -> bool:
    is_short = len(text) < _MAX_LABEL_CHARACTERS
    return is_short and text.lower().strip("*_: ").startswith("learning")


def _list_files(names: Sequence[str], clean: _Cleaner) -> str:
    listed = ", ".join(_line(clean(name)) for name in names[:_MAX_FILES])
    if len(names) > _MAX_FILES:
        return f"{listed} and {len(names) - _MAX_FILES} more"
    return listed


def _line(text: str) -> str:
    """Put text on one line, shortening it if it is too long."""
    line = " ".join(text.split())
    if len(line) <= _MAX_LINE_CHARACTERS:
        return line
    return f"{line[: _MAX_LINE_CHARACTERS - 1].rstrip()}…"


def _sentence(text: str) -> str:
    """Return the first paragraph on one line, cut at a word boundary if it is too long."""
    paragraph = text.strip().split("\n\n", 1)[0]
    line = " ".join(paragraph.split())
    if len(line) <= _MAX_PATTERN_CHARACTERS:
        return line
    return line[: _MAX_PATTERN_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"


# --- patterns ------------------------------------------------------------------------------------


def _with_patterns(
    document: ProgressDocument, knowledge: Iterable[str]
) -> tuple[ProgressDocument, list[Record]]:
    """Add knowledge and repeated learnings to a document as patterns.

    Returns the new document and the patterns that were added.
    """
    texts = []
    for entry in document.entries:
        if is_progress_pattern(entry.record):
            texts.append(without_pointer(entry.record.text))
    matcher = TextMatcher(texts)
    added: list[Record] = []
    for text in [*knowledge, *_repeated_learnings(document)]:
        bare_text = without_pointer(text)
        if bare_text in texts or matcher.nearest(bare_text) is not None:
            continue
        record = Record(ids.derived("found", text), MemoryKind.PATTERN, text)
        try:
            document = document.add(record)
        except Refused:  # it cannot be a bullet, but the block or the knowledge entry has it
            continue
        matcher.add(bare_text)
        texts.append(bare_text)
        added.append(replace(record, text=bare_text))
    return document, added


class _Learning(NamedTuple):
    """A learning, and the block that it appears in."""

    text: str
    block: str


def _repeated_learnings(document: ProgressDocument) -> Iterator[str]:
    """Yield the learnings that occur in more than one block, each as first worded."""
    matcher = TextMatcher()
    distinct: list[_Learning] = []
    for learning in _learnings(document):
        number = matcher.nearest(learning.text)
        if number is None:
            number = _position_of(learning.text, distinct)
        if number is None:
            matcher.add(learning.text)
            distinct.append(learning)
        elif distinct[number].block != learning.block:
            yield distinct[number].text


def _learnings(document: ProgressDocument) -> Iterator[_Learning]:
    for entry in document.entries:
        for link in entry.record.links:
            if link.relation == "learned_in":
                yield _Learning(" ".join(entry.record.text.split()), link.target)


def _position_of(text: str, learnings: Sequence[_Learning]) -> int | None:
    """Return the position of the learning with exactly this text, or None.

    This is needed because the matcher cannot compare very short texts.
    """
    for number, learning in enumerate(learnings):
        if learning.text == text:
            return number
    return None
