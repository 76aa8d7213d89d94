"""The program that the tests of indexes in worktrees start side by side: it searches one checkout again and again.

At the word it asks so many times, and says after each question which words of the tests were in what it found. After
every other question it changes its memories a little, so that there is always something to bring up to date.
"""

import sys
from pathlib import Path

from ralph.core import paths
from ralph.core.record import Query
from ralph.recall import search
from ralph.storage import files

QUESTION = "frobnicator"


def say(*words: object) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(root: Path, times: int) -> None:
    """Search, and change."""
    memories = paths.memories_files(root)[0]
    say("ready")
    sys.stdin.readline()
    for number in range(times):
        hits = search.search(root, Query(text=QUESTION, limit=50)).found.hits
        said = " ".join(hit.record.text for hit in hits)
        say(
            "found",
            *sorted({word for word in said.replace(".", " ").split() if word.startswith("mark")}),
        )
        if number % 2:
            files.update(memories, lambda text: f"{text}\n")
    say("over")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
