"""`ralph knowledge edit`, `retire` and `restore`: an entry corrected where it stands.

`add` brings an entry up to date by its title and never takes a tag away; a person who looks at one entry wants that
one changed, whatever it is called, and nothing else. The body that goes is kept in the log, as with `add`. A retired
entry stays in its file, with `status: retired`, and is offered to nobody. `tests/app/test_retire.py` proves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.app import entries, knowledge
from ralph.app.knowledge import Change, Written
from ralph.capture import privacy
from ralph.errors import Refused
from ralph.formats.knowledge import clean_tags, normalise_entry, parse_knowledge, shorten
from ralph.model import ids
from ralph.model.record import Record, Status
from ralph.store import files
from ralph.store.library import Stored


def edit(
    root: Path,
    name: str,
    *,
    title: str | None = None,
    text: str | None = None,
    tags: Sequence[str] | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Written:
    """Correct an entry's title, body or tags; its file keeps its name."""
    private = 0
    if text is not None:
        text, private = entries.clean(text, allow_secret=allow_secret, patterns=patterns)
    for words in (*((title,) if title is not None else ()), *(tags or ())):
        private += entries.clean(words, allow_secret=allow_secret, patterns=patterns)[1]
    kept = None if tags is None else clean_tags(entries.tidy_tags(tags))
    if kept is not None and not kept:
        raise Refused("a knowledge entry without a tag would never be found", hint="leave at least one")
    called = None if title is None else privacy.strip_private(title)[0]
    shortened = None if text is None else shorten(text)

    def change(record: Record) -> Record:
        return replace(
            record,
            title=record.title if called is None else called,
            text=record.text if shortened is None else shortened,
            tags=record.tags if kept is None else kept,
        )

    return replace(_changed(root, name, change), private_parts=private, shortened=shortened != text)


def retire(root: Path, name: str) -> Written:
    """Offer an entry to nobody any more; it stays in its file."""
    return _changed(root, name, lambda record: replace(record, status=Status.RETIRED))


def restore(root: Path, name: str) -> Written:
    """Offer a retired entry again."""
    return _changed(root, name, lambda record: replace(record, status=Status.ACCEPTED))


def _changed(root: Path, name: str, change: Callable[[Record], Record]) -> Written:
    """Replace an entry by what `change` makes of it as it stands under the lock."""
    path = knowledge.show(root, name).path
    done: list[tuple[Change, str]] = []

    def edited(before: str) -> str:
        document = parse_knowledge(before, path.stem)
        if not document.entries:  # somebody was faster
            raise knowledge.not_found(name)
        old = document.entries[0].record
        new = change(old)
        if normalise_entry(new, path.stem) == old:
            done[:] = [(Change.UNCHANGED, "")]
            return before
        now = ids.timestamp()
        after = str(document.replace(old.id, replace(new, updated_at=now)))
        replaced = knowledge.keep_body(root, old, now) if new.text.strip() != old.text.strip() else ""
        done[:] = [(Change.UPDATED, replaced)]
        return after

    text = files.update(path, edited, root=root)
    entry = parse_knowledge(text, path.stem).entries[0]
    return Written(Stored(entry.record, path, entry.line), *done[0])
