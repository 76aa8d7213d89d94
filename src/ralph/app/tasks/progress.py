"""A task's PRD and progress.txt, and what it leaves to the project when it is done.

After each iteration the loop appends a block to progress.txt with the id of its journal entry, so that it is written
once. What was learned twice, or was given as knowledge, is put among the patterns at the top; blocks and lines of
people stay as they are. Texts of agents are redacted first. When the PRD names another branch, PRD and progress are
archived in `archive/<date>-<branch>/`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import graph_export, insights, promote, text_cleaning
from ralph.app.promote import Promotion
from ralph.app.tasks import board
from ralph.app.worktrees import worktree
from ralph.capture.invisible_characters import clean_text
from ralph.capture.privacy import redact
from ralph.capture.similarity import TextMatcher
from ralph.context.tokens import estimate
from ralph.errors import RalphError, Refused
from ralph.formats.log import journal_id
from ralph.formats.progress import (
    JOURNAL_KEY,
    ProgressDocument,
    is_progress_pattern,
    parse_progress,
    progress_template,
    read_learnings,
    with_pointer,
    without_pointer,
)
from ralph.formats.text import scan_lines
from ralph.formats.work import PrdDocument, parse_prd
from ralph.model import ids
from ralph.model.record import Family, MemoryKind, Outcome, Record
from ralph.model.work import JournalEntry, Story, Task, ignore_text
from ralph.store import files, queries

BUDGET = 2_000
"""Tokens of progress.txt in the prompt of an iteration."""
SESSION = "ralph://session/"
SEEN = worktree.PRD_BRANCH

LAST = "archive/prd-last.json"
"""The PRD as it was last seen, so that it can be archived also when somebody has written over it."""

_BULLETS, _WORDS, _FILES, _PATTERN = 12, 400, 20, 300
_LABEL = "- **Learnings for future iterations:**"
Clean = Callable[[str], str]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARKS = re.compile(r"^(?:[-*+>#]+[ \t]+|[0-9]{1,3}[.)][ \t]+|\[[ xX]\][ \t]+)+")
_NOISE = re.compile(r"^(?:```.*|~~~.*|-{3,}|={3,}|\*{3,}|<!--|-->)$")


@dataclass(frozen=True, slots=True)
class GivenKnowledge:
    """What an agent gave as knowledge: a title, a text, and the name of the entry that has it."""

    title: str
    text: str
    name: str = ""


def folder(root: Path, task_id: str) -> Path:
    """Where a task's files stand."""
    return board.find(root, task_id).path.parent


# --- the PRD -----------------------------------------------------------------------------------


def set_up(
    root: Path, task_id: str, prd: PrdDocument | None, *, in_worktree: bool, tell: Callable[[str], None] = ignore_text
) -> Task:
    """Give a new task its PRD, its progress.txt and, where wanted, its worktree."""
    if prd is not None:
        _store_prd(root, task_id, prd)
    begin(root, task_id)
    if in_worktree:
        return worktree.create(root, task_id, tell=tell).task
    return board.find(root, task_id).task


def read_prd(text: str, allow_secret: bool, patterns: Sequence[str]) -> PrdDocument:
    """A PRD as it may be stored; Refused when it cannot be read."""
    if not text.strip():
        raise Refused("the PRD is empty", hint="name a prd.json with its userStories; nothing was changed")
    document = parse_prd(
        text_cleaning.clean_description(text, "PRD", allow_secret=allow_secret, patterns=patterns).text + "\n"
    )
    wrong = next((each for each in document.problems if each.level == "error"), None)
    if wrong is not None:
        raise Refused(f"the PRD cannot be taken: line {wrong.line}: {wrong.what}", hint=wrong.hint)
    return document


def set_prd(
    root: Path, task_id: str, text: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> tuple[Task, Path | None]:
    """Give a task a PRD, or another one; where its branch is another one, the old files are archived (to there)."""
    about = read_prd(text, allow_secret, patterns)
    place = folder(root, task_id)
    before = files.read(place / "prd.json")
    kept = None
    if before is not None and before != about.text:
        old = parse_prd(before).branch
        kept = _archived(root, task_id, before, old, moving=old != about.branch)
    after = _store_prd(root, task_id, about)
    begin(root, task_id)
    return after, kept


def _store_prd(root: Path, task_id: str, about: PrdDocument) -> Task:
    for name in ("prd.json", LAST):
        files.write(folder(root, task_id) / name, about.text, root=paths.main_checkout(root))

    def edit(old: Task) -> Task:
        branch = about.branch or None
        after = replace(old, branch=branch if not old.worktree else old.branch)
        return board.with_member(after, SEEN, about.branch)

    return board.change(root, task_id, edit)


def _archived(root: Path, task_id: str, prd: str, branch: str, *, moving: bool) -> Path:
    """Keep a PRD in the archive, and (when the branch is another one) the progress, too, which begins anew."""
    place = folder(root, task_id)
    name = _UNSAFE.sub("-", branch.removeprefix(worktree.BRANCH)).strip("-.") or "unnamed"
    base = place / "archive" / f"{ids.today()}-{name}"
    number = 1
    while (to := base if number == 1 else base.with_name(f"{base.name}-{number}")).exists():
        number += 1
    top = paths.main_checkout(root)
    files.write(to / "prd.json", prd, root=top, expect="")
    if moving and (place / "progress.txt").exists():
        files.move(place / "progress.txt", to / "progress.txt", root=top)
    return to


def begin(root: Path, task_id: str) -> Path | None:
    """See to it that a task has a progress.txt that belongs to its PRD; where an older one went, if it had to."""
    place = folder(root, task_id)
    kept = None
    text = files.read(place / "prd.json")
    if text is not None:
        known, branch = board.find(root, task_id).task.extra.get(SEEN), parse_prd(text).branch
        if isinstance(known, str) and known and branch and known != branch:  # somebody edited the PRD
            kept = _archived(root, task_id, files.read(place / LAST) or text, known, moving=True)
        if branch and known != branch:
            board.change(
                root,
                task_id,
                lambda old: board.with_member(old if old.worktree else replace(old, branch=branch), SEEN, branch),
            )
        files.update(place / LAST, lambda _: text, root=paths.main_checkout(root))
    files.update(place / "progress.txt", lambda old: old or progress_template(), root=paths.main_checkout(root))
    return kept


def start_in_worktree(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> worktree.Worktree:
    """Give a task a worktree, and the files that it remembers with."""
    begin(root, task_id)
    return worktree.create(root, task_id, tell=tell)


def stories(root: Path, task_id: str) -> tuple[Story, ...]:
    """The stories of a task's PRD, the next one first; what passes comes last."""
    text = files.read(folder(root, task_id) / "prd.json")
    found = parse_prd(text).stories if text is not None else ()
    return tuple(sorted(found, key=lambda each: (each.passes, each.priority <= 0, each.priority)))


def current_story(root: Path, task_id: str) -> str:
    """What is worked on now: the next story, else the task itself."""
    return next((each.id for each in stories(root, task_id) if not each.passes), task_id)


def stories_section(root: Path, task_id: str) -> str:
    """The stories for a prompt: those that are open with their criteria, those that pass by name; "" for none."""
    found = stories(root, task_id)
    if not found:
        return ""
    out = [f"The stories are in {folder(root, task_id) / 'prd.json'}. Work on the first open one; set its `passes` to "
           "true there once its criteria hold.", ""]  # fmt: skip
    for each in found:
        out.append(f"- [{'x' if each.passes else ' '}] {each.id}: {each.title}")
        if not each.passes:
            out += [f"  {line}" for line in each.description.splitlines() if line.strip()]
            out += [f"  - {criterion}" for criterion in each.acceptance_criteria]
    return "\n".join(out)


# --- progress.txt ------------------------------------------------------------------------------


def prompt_section(root: Path, task_id: str, budget: int = BUDGET) -> str:
    """progress.txt for a prompt: its patterns, then the newest blocks that fit, the oldest of them first."""
    document = parse_progress(files.read(folder(root, task_id) / "progress.txt") or "")
    patterns = [each.record.text for each in document.entries if is_progress_pattern(each.record)]
    blocks = [each for each in document.entries if each.record.family is Family.JOURNAL]
    out: list[str] = []
    room = budget - 40
    for text in patterns:
        line = f"- {text.replace(chr(10), f'{chr(10)}  ')}"
        if (cost := estimate(line) + 1) <= room:
            room -= cost
            out.append(line)
    head = ["### Codebase Patterns", *out] if out else []
    newest: list[str] = []
    for each in reversed(blocks):
        record, thread = each.record, each.record.extra.get("thread")
        lines = [f"### {record.title}", f"Thread: {thread}" if thread else "", f"({record.kind.value})", record.text]
        block = "\n".join(filter(None, lines))
        if (cost := estimate(block) + 2) > room:
            break
        room -= cost
        newest.insert(0, block)
    left = len(blocks) - len(newest)
    more = [f"({left} older blocks: {folder(root, task_id) / 'progress.txt'})"] if left else []
    return "\n\n".join(filter(None, ["\n".join(head), *more, *newest]))


def append_iteration(
    root: Path,
    entry: JournalEntry,
    learned: Sequence[GivenKnowledge] = (),
    *,
    story: str = "",
    patterns: Sequence[str] = (),
) -> list[Record]:
    """Write down an iteration, once, and put what is worth it among the patterns; gives the patterns that are new."""

    def clean(text: str) -> str:
        return queries.safe(redact(clean_text(text), patterns).text)

    block = _block(entry, story or entry.task, clean)
    known = [with_pointer(f"{_line(clean(each.title))}: {_sentence(clean(each.text))}", each.name) for each in learned]

    def edit(text: str) -> tuple[str, list[Record]]:
        document = parse_progress(text or progress_template())
        name = block.extra[JOURNAL_KEY]
        if all(each.record.extra.get(JOURNAL_KEY) != name for each in document.entries):
            try:
                document = document.add(block)
            except Refused:  # the text would break the file
                short = f"- {Outcome(block.kind).value}; what was noted is in the journal"
                document = document.add(replace(block, text=short))
        document, added = _with_patterns(document, known)
        return str(document), added

    return files.update(folder(root, entry.task) / "progress.txt", edit, root=paths.main_checkout(root))


def _block(entry: JournalEntry, story: str, clean: Clean) -> Record:
    notes = clean(entry.notes)  # whole: a key may be spread over lines
    lessons = [_line(each.text) for each in read_learnings("", list(scan_lines(notes)))]
    body = [f"- {each}" for each in _note_lines(notes, {*lessons})] or [f"- {_line(clean(entry.title))}"]
    if entry.files:
        more = f" and {len(entry.files) - _FILES} more" if len(entry.files) > _FILES else ""
        body.append(f"- Files changed: {', '.join(_line(clean(each)) for each in entry.files[:_FILES])}{more}")
    body += [_LABEL, *(f"  - {each}" for each in dict.fromkeys(lessons) if each)] if any(lessons) else []
    at = (entry.created_at or ids.timestamp())[:16].replace("T", " ")
    extra = {JOURNAL_KEY: journal_id(entry.run, entry.iteration)}
    if entry.session:
        extra["thread"] = SESSION + _UNSAFE.sub("-", clean(entry.session))
    return Record(
        "", entry.outcome, "\n".join(body), Family.JOURNAL, title=f"{at} - {_line(clean(story))}", extra=extra
    )


def _line(text: str) -> str:
    """A text on one line of a bearable length."""
    return " ".join(text.split())[:_WORDS]


def _note_lines(notes: str, lessons: set[str]) -> Iterator[str]:
    """What was noted, line by line as bullets, without the learnings and without marks that mean something here."""
    count = 0
    for line in notes.splitlines():
        bare = _line(_MARKS.sub("", line.strip()))
        is_label = bare.lower().strip("*_: ").startswith("learning") and len(bare) < 60
        if not bare or _NOISE.match(bare) or bare in lessons or is_label:
            continue
        count += 1
        if count > _BULLETS:
            yield "(more in the journal)"
            return
        yield bare


def _sentence(text: str) -> str:
    """The beginning of a text, as far as one line should go."""
    first = " ".join(text.strip().split("\n\n", 1)[0].split())
    return first if len(first) <= _PATTERN else first[: _PATTERN - 1].rsplit(" ", 1)[0] + "…"


def _with_patterns(document: ProgressDocument, known: Iterable[str]) -> tuple[ProgressDocument, list[Record]]:
    """The document with the patterns that it is worth: what is known, and what two blocks have learned."""
    patterns = [without_pointer(each.record.text) for each in document.entries if is_progress_pattern(each.record)]
    shelf, said = TextMatcher(patterns), {*patterns}
    added: list[Record] = []
    for text in [*known, *_repeated_learnings(document)]:
        bare = without_pointer(text)
        if bare in said or shelf.nearest(bare) is not None:
            continue
        record = Record(ids.derived("found", text), MemoryKind.PATTERN, text)
        try:
            document = document.add(record)
        except Refused:  # it cannot stand as a bullet; the block or the knowledge entry has it
            continue
        shelf.add(bare)
        said.add(bare)
        added.append(replace(record, text=bare))
    return document, added


def _repeated_learnings(document: ProgressDocument) -> Iterator[str]:
    """The learnings that stand in a second block as well, as they were worded first."""
    shelf = TextMatcher()
    first: list[tuple[str, str]] = []
    for entry in document.entries:
        block = next((link.target for link in entry.record.links if link.relation == "learned_in"), "")
        if not block:
            continue
        text = " ".join(entry.record.text.split())
        near = shelf.nearest(text)
        at = near if near is not None else next((n for n, (said, _) in enumerate(first) if said == text), None)
        if at is None:
            shelf.add(text)
            first.append((text, block))
        elif first[at][1] != block:
            yield first[at][0]


# --- at the end --------------------------------------------------------------------------------


def promote_insights(root: Path, work: Task, *, patterns: Sequence[str] = ()) -> tuple[Promotion | None, str]:
    """Promote what a task taught; the patterns are the main checkout's. What fails costs nobody the task: why.

    Its part of the graph is written beside it, for whoever reads it from there.
    """
    at = worktree.folder_of(root, work)
    try:
        insights.extract(at if at is not None and at.is_dir() else root, work.id, patterns=patterns)
        done = promote.promote_task(paths.main_checkout(root), work.id, patterns=patterns)
        graph_export.export(root, task=work.id)
        wrong = insights.find_problems(root, work.id)
        return done, f"not everything that {work.id} taught can be read: {wrong[0]}" if wrong else ""
    except RalphError as error:
        way_on = f"; {error.hint}" if error.hint else ""
        return None, f"what {work.id} taught was not promoted: {error.message}{way_on}"
