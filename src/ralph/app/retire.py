"""`retire` and `restore` of memories and guardrails: kept in the file, offered to nobody, and back.

To delete is to forget; somebody who only doubts that an entry still holds retires it. Its comment then says
`status: retired`, which every search, brief and listing passes over; by its id it is still shown, and `restore` takes
the word away again. `tests/app/test_retire.py` proves it. Knowledge has the same in `app/knowledge_edit.py`.
"""

from dataclasses import replace

from ralph.app.entries import Edited
from ralph.model import ids
from ralph.model.record import Record, Status
from ralph.store.library import Library, Shelf


def retire(library: Library, shelf: Shelf, record_id: str) -> Edited:
    """Offer an entry to nobody any more."""
    return _with_status(library, shelf, record_id, Status.RETIRED)


def restore(library: Library, shelf: Shelf, record_id: str) -> Edited:
    """Offer a retired entry again."""
    return _with_status(library, shelf, record_id, Status.ACCEPTED)


def _with_status(library: Library, shelf: Shelf, record_id: str, status: Status) -> Edited:
    changes: list[bool] = []

    def change(record: Record) -> Record:
        changes[:] = [record.status is not status]
        return replace(record, status=status, updated_at=ids.today()) if changes[0] else record

    stored = library.replace(shelf, record_id, change)
    return Edited(stored, changes[0])
