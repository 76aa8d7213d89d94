"""The program that the journal's crash test kills: a loop that does nothing but keep its journal.

As a loop does, it writes an iteration's entry, then saves which iteration it is at, and begins with what was saved.
Between the two it may be killed; then it writes the entry again. Run as a module from the project's folder.
"""

import sys
from pathlib import Path

from tests.support.writer import PARTS, say, spawner, wait_for_line

from ralph.core.record import Outcome
from ralph.core.work import JournalEntry
from ralph.recall import journal
from ralph.storage import files

RUN = "run-0000dead"
SIZES = (5, 5_000, 1_500_000)


def entry_of(iteration: int) -> JournalEntry:
    """The entry of an iteration; nothing of it is chance, and some are so long that a kill can tear them."""
    more = {"pad": "y" * SIZES[iteration % len(SIZES)]}
    return JournalEntry(
        RUN, iteration, Outcome.DONE, notes=f"note {iteration}", created_at="2026-11-10", extra=more
    )


def state_file(root: Path) -> Path:
    """Where the loop notes which iteration it has written down."""
    return root / "state"


def keep(root: Path) -> None:
    """Write entry after entry until somebody kills us."""
    wait_for_line()
    iteration = int(files.read(state_file(root)) or "0")
    while True:
        iteration += 1
        say("try", iteration)
        journal.append(root, entry_of(iteration))
        files.write(state_file(root), str(iteration))
        say("did", iteration)


if __name__ == "__main__":
    PARTS["journal"] = keep
    spawner(Path(sys.argv[1]), "journal")
