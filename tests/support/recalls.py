"""A filled project, and what a prompt recalls from it."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.support.runner import Block, page

from ralph.core import paths, terms
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.formats.log import encode_record
from ralph.privacy import injection
from ralph.recall import action_recall, prompt_recall
from ralph.recall.eligibility import RecallOptions
from ralph.recall.shown_records import Recalled
from ralph.storage import hook_index
from ralph.storage.index import Index

TODAY = "2026-11-15"


def observed(number: int, text: str, *, session: str = "s-old", by: str = "agent", title: str = "", kind: str = "note",
             files: tuple[str, ...] = ()) -> Record:  # fmt: skip
    """Something that happened in an earlier session."""
    return Record(
        f"obs-{1_762_000_000 + number}-{number:04x}", ObservationKind(kind), text, Family.OBSERVATION, title=title,
        origin=Origin(by=by, session=session, files=files), created_at=f"2026-11-13T10:{number:02}:00Z",
    )  # fmt: skip


def fill(
    root: Path, *blocks: Block, observations: Sequence[Record] = (), knowledge: str = ""
) -> None:
    """Put memories, a session log and a knowledge entry into a project, and make its index."""
    if blocks:
        (root / ".agent").mkdir(parents=True, exist_ok=True)
        (root / ".agent" / "memories.md").write_text(page(*blocks), encoding="utf-8")
    if knowledge:
        (root / ".ralph" / "knowledge").mkdir(parents=True, exist_ok=True)
        (root / ".ralph" / "knowledge" / "webhooks.md").write_text(knowledge, encoding="utf-8")
    for record in observations:
        log = paths.log_folder(root) / "sessions" / f"{record.origin.session}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", newline="") as file:
            file.write(encode_record(record))
    Index(root, terms.index_terms, is_order=injection.is_order).sync()


def asked(root: Path, prompt: str, wanted: RecallOptions | None = None) -> Recalled:
    """What a prompt is answered with."""
    connection = hook_index.open_index(str(paths.index_file(root)))
    assert connection is not None
    with closing(connection):
        return prompt_recall.recall_for_prompt(
            connection, prompt, wanted or RecallOptions(TODAY, "s-new")
        )


def at_place(root: Path, *, files: Sequence[str] = (), command: str = "", error: str | None = None,
             wanted: RecallOptions | None = None) -> Recalled:  # fmt: skip
    """What is injected before an action, or with an error after it."""
    connection = hook_index.open_index(str(paths.index_file(root)))
    assert connection is not None
    wanted = wanted or RecallOptions(TODAY, "s-new")
    with closing(connection):
        if error is not None:
            return action_recall.after_failure(connection, files, command, error, wanted)
        return action_recall.before_action(connection, files, command, wanted)


def ids(told: Recalled) -> list[str]:
    """The ids, in order."""
    return [record for record, _ in told.records]


def wanting(**settings: object) -> RecallOptions:
    """Options of a recall that differ in some settings."""
    made = RecallOptions(TODAY, "s-new")
    for name, value in settings.items():
        setattr(made, name, value)
    return made
