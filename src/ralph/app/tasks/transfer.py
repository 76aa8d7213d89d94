"""Import and export tasks: the stories of a prd.json, and tasks.jsonl with a task a line.

The whole file is checked before anything is written; nothing is imported unless all can be, or the caller asks for the
rest (`partial`). Importing again adds nothing: a task is known by its id, a story by its id and its PRD. Existing tasks
stay as they are; only a story that passes makes its task done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from ralph import paths
from ralph.app import text_cleaning
from ralph.app.tasks import board
from ralph.app.tasks.board import Board, is_time, status_of
from ralph.app.tasks.task import close_parents
from ralph.errors import Refused
from ralph.formats.json_text import read_json
from ralph.formats.text import Problem
from ralph.formats.work import parse_prd, parse_task_line, render_task_line
from ralph.model import ids
from ralph.model.work import Story, Task, TaskStatus

STORY = "story"
"""The member of a task that says which story it was."""

_NAMED = 20
"""Parts that an error names one by one."""

_KEPT = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED)
_COMPARED = ("title", "description", "priority")


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A part of a file that cannot be imported: its line (0: unknown), and why."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class TaskImport:
    """What an import did: new tasks, those that are done now, those that were there, and what was left out.

    `differing` are the tasks that were there and say something else than the file.
    """

    added: tuple[Task, ...] = ()
    finished: tuple[Task, ...] = ()
    there: tuple[Task, ...] = ()
    differing: tuple[str, ...] = ()
    bad: tuple[ImportProblem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A task as the file has it, the line it stands on (0: unknown), and the private parts left out of it."""

    task: Task
    line: int
    private: int = 0


def import_(
    root: Path, text: str, name: str, *, partial: bool = False, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> TaskImport:
    """Take over the tasks of a file; `name` is the file's, for what it is and for errors."""
    wanted, problems = _stories(text, name) if _is_prd(text, name) else _lines(text)
    bad = [ImportProblem(problem.line, problem.what) for problem in problems if problem.level == "error"]
    warnings = tuple(problem for problem in problems if problem.level != "error")
    cleaned, refused = _cleaned(wanted, allow_secret, patterns)
    if not wanted and not bad:
        raise Refused(f"{name}: holds no tasks", hint="give a prd.json with userStories, or a tasks.jsonl")
    with board.lock_all(root) as everything:
        new, there, placeless = _sorted_out(root, everything, cleaned)
        new, unlinked = _linked(everything, new)
        bad = sorted([*bad, *refused, *placeless, *unlinked], key=lambda each: each.line)
        if bad and not partial:
            raise Refused(
                f"{name}: nothing was imported: {_describe(bad)}",
                hint="mend the file, or import the rest with --partial",
            )
        for each in new:
            board.create(root, each.task)
    finished = _finished(root, there)
    return TaskImport(
        tuple(each.task for each in new),
        finished,
        tuple(task for task, _ in there),
        tuple(
            task.id
            for task, wanted_task in there
            if any(getattr(task, key) != getattr(wanted_task.task, key) for key in _COMPARED)
        ),
        tuple(bad),
        warnings,
        sum(each.private for each in new),
    )


def export(root: Path) -> str:
    """Every task as a line of a tasks.jsonl, in the order in which they should be done; claims stay here."""
    tasks = board.read(root).tasks
    return "".join(render_task_line(replace(task, claim=None, worktree=None)) for task in tasks)


def _describe(bad: Sequence[ImportProblem]) -> str:
    lines = [f"line {each.line}: {each.what}" if each.line else each.what for each in bad[:_NAMED]]
    return "; ".join(lines) + (f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else "")


def _is_prd(text: str, name: str) -> bool:
    """Whether a file holds stories: one object with such a list, or something broken that is no .jsonl."""
    if name.lower().endswith(".jsonl"):
        return False
    found = read_json(text)
    if isinstance(found, Problem):
        return name.lower().endswith(".json")
    return isinstance(found.value, dict) and ("userStories" in found.value or "id" not in found.value)


def _lines(text: str) -> tuple[list[_Wanted], list[Problem]]:
    """The tasks of a tasks.jsonl with their lines."""
    wanted: list[_Wanted] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        task, warnings = parse_task_line(line)
        problems += (replace(problem, line=number) for problem in warnings)
        if task is None:
            continue
        if task.id in seen:
            hint = "give each of them its own id"
            problems.append(Problem(number, f"a second task has the id {task.id}", hint, "error", "duplicate-id"))
        else:
            wanted.append(_Wanted(task, number))
        seen.add(task.id)
    return wanted, problems


def _stories(text: str, name: str) -> tuple[list[_Wanted], list[Problem]]:
    """Return the stories of a prd.json as tasks; a second story with the same id is dropped."""
    document = parse_prd(text)
    source = "/".join(part for part in (document.project, document.branch) if part) or name
    twice = [replace(each, level="error") if each.code == "duplicate-id" else each for each in document.problems]
    seen: set[str] = set()
    wanted = []
    for story in document.stories:
        if story.id not in seen:
            seen.add(story.id)
            wanted.append(_Wanted(_task_of(story, source), 0))
    return wanted, twice


def _task_of(story: Story, source: str) -> Task:
    criteria = "\n".join(f"- {each}" for each in story.acceptance_criteria)
    parts = [
        story.description,
        f"Acceptance criteria:\n{criteria}" if criteria else "",
        f"Notes: {story.notes}" if story.notes else "",
    ]
    return Task(
        "",
        story.title,
        "\n\n".join(part for part in parts if part),
        status=(TaskStatus.DONE if story.passes else TaskStatus.PENDING).value,
        priority=max(story.priority, 0),
        extra={STORY: {"id": story.id, "prd": source}},
    )


def _cleaned(
    wanted: Iterable[_Wanted], allow_secret: bool, patterns: Sequence[str]
) -> tuple[list[_Wanted], list[ImportProblem]]:
    """What may be stored of it, and what may not."""
    kept: list[_Wanted] = []
    bad: list[ImportProblem] = []
    for each in wanted:
        task = each.task
        try:
            title = text_cleaning.clean_title(task.title, allow_secret=allow_secret, patterns=patterns)
            told = text_cleaning.clean_description(
                task.description, "description", allow_secret=allow_secret, patterns=patterns
            )
            text_cleaning.clean_description(task.id, "id", patterns=patterns)
            if task.id and not board.is_folder_name(task.id):
                raise Refused(f"the id {task.id[:80]!r} cannot be the name of a folder")
        except Refused as error:
            bad.append(ImportProblem(each.line, f"{_name(task)}: {error.message}"))
            continue
        clean = replace(_foreign(task, patterns), title=title.text, description=told.text)
        kept.append(_Wanted(clean, each.line, title.private + told.private))
    return kept, bad


def _foreign(task: Task, patterns: Sequence[str]) -> Task:
    """Remove what only holds in the other project, and redact the members that are not printed."""
    current = status_of(task)
    status = current if current is not None and current in _KEPT else TaskStatus.PENDING  # nobody works on it here
    extra = text_cleaning.redact_value(dict(task.extra), patterns)
    return replace(
        task,
        status=status.value,
        feature=text_cleaning.redact_note(task.feature, patterns) if task.feature else None,
        branch=text_cleaning.redact_note(task.branch, patterns) if task.branch else None,
        worktree=None,
        claim=None,
        created_at=task.created_at if is_time(task.created_at) else "",
        updated_at=task.updated_at if is_time(task.updated_at) else "",
        extra=extra if isinstance(extra, dict) else {},
    )


def _name(task: Task) -> str:
    """What a task is called in the file it came from."""
    story = task.extra.get(STORY)
    return f"story {story['id']}" if not task.id and isinstance(story, dict) else task.id[:80]


def _sorted_out(
    root: Path, everything: Board, wanted: Iterable[_Wanted]
) -> tuple[list[_Wanted], list[tuple[Task, _Wanted]], list[ImportProblem]]:
    """New tasks, with ids and ages; those that are there, each with what the file says; and what has no place."""
    stories = {_key(each): each for each in everything.tasks if _key(each)}
    folder, now = paths.tasks_folder(root), ids.now()
    new: dict[str, _Wanted] = {}
    there: list[tuple[Task, _Wanted]] = []
    bad: list[ImportProblem] = []
    for each in wanted:
        task = each.task
        known = everything.get(task.id) if task.id else stories.get(_key(task))
        if known is not None:
            there.append((known, each))
            continue
        if task.id and (folder / task.id / "task.json").exists():
            bad.append(
                ImportProblem(each.line, f"{task.id}: its folder holds another task, or one that cannot be read")
            )
            continue
        while not task.id or task.id in new:
            task = replace(task, id=board.fresh_id(everything, folder))
        moment = now + timedelta(microseconds=len(new))  # so that they keep the file's order
        time = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
        task = replace(task, created_at=task.created_at or time, updated_at=task.updated_at or time)
        new[task.id] = replace(each, task=task)
    return list(new.values()), there, bad


def _key(task: Task) -> str:
    """By which a story is known again."""
    story = task.extra.get(STORY)
    return f"{story.get('prd')}\n{story.get('id')}" if isinstance(story, dict) else ""


def _linked(everything: Board, new: list[_Wanted]) -> tuple[list[_Wanted], list[ImportProblem]]:
    """The new tasks without those that name what is not there, or wait for themselves; until none is left."""
    bad: list[ImportProblem] = []
    while True:
        after = everything.with_tasks(each.task for each in new)
        tangled = after.tangled()
        wrong = {}
        for each in new:
            task = each.task
            unknown = [name for name in (*task.blocked_by, task.parent or "") if name and name not in after.placed]
            if unknown:
                wrong[task.id] = ImportProblem(
                    each.line, f"{task.id}: names {unknown[0][:80]!r}, and there is no such task"
                )
            elif task.id in tangled and (way := after.cycle(task.id)):
                wrong[task.id] = ImportProblem(each.line, f"{task.id}: would wait for itself: {' -> '.join(way)}")
        if not wrong:
            return new, bad
        bad += wrong.values()
        new = [each for each in new if each.task.id not in wrong]


def _finished(root: Path, there: Iterable[tuple[Task, _Wanted]]) -> tuple[Task, ...]:
    """End the tasks whose story passes by now."""

    def edit(task: Task) -> Task:
        over = status_of(task) is TaskStatus.DONE
        return task if over else board.with_status(task, TaskStatus.DONE, note="its story passes")

    found = []
    for task, each in there:
        if _key(each.task) and each.task.status == TaskStatus.DONE.value and status_of(task) is not TaskStatus.DONE:
            try:
                found.append(board.change(root, task.id, edit))
            except Refused:  # its state is a word that nobody knows: it stays for a person to look at
                continue
            close_parents(root, found[-1])
    return tuple(found)
