"""Programs that tell what they do in JSON, one object a line.

Output arrives in pieces of any size; lines are put together again, so that one of many megabytes is no problem
and costs no more than its length. What is no JSON object is kept as a text that the program said: a client's
warning must neither end an iteration nor get lost. The small readers at the end take the place of casts: an
object of another shape than expected reads as empty. Proof: `tests/agents/test_streams.py`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from ralph.agents import process
from ralph.agents.process import Finished
from ralph.agents.surroundings import environment
from ralph.model.work import Ask

_KEPT = 4000
"""Characters of either stream: standard output is heard, and of the complaints the end matters."""

LONGEST = 1 << 27
"""Characters of one line; beyond it there is no client, only a program that has run wild."""


def run(words: Sequence[str], ask: Ask, heard: Callable[[str], None]) -> Finished:
    """Run a client on a prompt, which is its standard input, and hear its lines as they come."""
    lines = Lines(heard)
    done = process.run(
        words,
        cwd=ask.folder,
        stdin=ask.prompt,
        env=environment(ask),
        timeout=ask.timeout,
        limit=_KEPT,
        on_output=lines.add,
        stopped=ask.stopped,
    )
    if done.stopped or done.timed_out:
        lines.drop()
    lines.end()
    return done


class Lines:
    """Pieces of text in, whole lines out."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._pieces: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """The next piece."""
        first, *others = text.split("\n")
        self._keep(first)
        for part in others:
            self.end()
            self._keep(part)

    def end(self) -> None:
        """What is left is a line, too."""
        line = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if line.strip():
            self._heard(line.removesuffix("\r"))

    def drop(self) -> None:
        """What is left was cut off in the middle."""
        self._pieces.clear()
        self._size = 0

    def _keep(self, piece: str) -> None:
        if piece and self._size + len(piece) <= LONGEST:
            self._pieces.append(piece)
            self._size += len(piece)


def parsed(line: str) -> Mapping[str, object] | None:
    """The object on a line, or None when there is none."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def inner(value: object, *keys: str) -> Mapping[str, object]:
    """The object below these keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def word(value: Mapping[str, object], key: str) -> str:
    """The text at a key, or an empty one."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number(value: Mapping[str, object], key: str) -> float:
    """The number at a key, or zero."""
    found = value.get(key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else 0.0


def objects(value: Mapping[str, object], key: str) -> Iterator[Mapping[str, object]]:
    """The objects in the list at a key."""
    found = value.get(key)
    for each in found if isinstance(found, list) else ():
        if isinstance(each, Mapping):
            yield each
