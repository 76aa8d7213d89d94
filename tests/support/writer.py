"""The program that the crash tests start, watch and kill: it changes files through the store.

It says what it does on stdout, a line at a time and flushed: `try ...` before a change, `did ...`
after it. So whoever kills it knows what was acknowledged and what was under way. A text is made
from its token alone, so the tests know every byte of it. `every-line` goes further than chance:
it repeats one change in child processes and kills the n-th at the n-th line of `storage/files.py`.
"""

import contextlib
import itertools
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from ralph.core import ids
from ralph.core.errors import WriteFailed
from ralph.core.record import MemoryKind, Record
from ralph.storage import files
from ralph.storage.library import Library

if sys.platform != "win32":
    import resource

MARK = "written by the crash test"
_NL = r"(?:\r\n|\n)"
BLOCK = re.compile(
    rf"{_NL}{_NL}### mem-\d+-[0-9a-f]+{_NL}> {MARK} [0-9a-f-]+{_NL}(?:> line \d+{_NL})*"
    r"<!-- tags: crash \| created: [\d-]+ -->"
)
"""One of our entries with the blank line before it, found without the codec; the rest is the human's."""


def text_of(token: str) -> str:
    """The text that belongs to a token `<hex>-<number of further lines>`."""
    return "\n".join(
        [f"{MARK} {token}", *(f"line {number}" for number in range(int(token.rpartition("-")[2])))]
    )


def line_of(token: str) -> str:
    """The log line that belongs to a token `<hex>-<number of characters>`."""
    return (
        json.dumps(
            {"v": 1, "type": "note", "token": token, "pad": "y" * int(token.rpartition("-")[2])}
        )
        + "\n"
    )


def say(*words: object) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_line() -> None:
    """Say that we are ready, and go on when we are told."""
    say("ready")
    sys.stdin.readline()


def mine(library: Library) -> list[Record]:
    """The entries that this program wrote."""
    return [
        stored.record
        for stored in library.read(library.memories)
        if stored.record.text.startswith(MARK)
    ]


def add(library: Library, token: str, mint: Callable[[], str] = lambda: ids.mint("mem")) -> str:
    """Add one memory, with an id that nobody has; gives the id."""

    def make(existing_ids: Sequence[str]) -> Record:
        new_id = next(candidate for candidate in iter(mint, None) if candidate not in existing_ids)
        kind = random.choice(list(MemoryKind))
        return Record(new_id, kind, text_of(token), tags=("crash",), created_at=ids.today())

    return library.add(library.memories, make).record.id


def edit(library: Library, record_id: str, token: str) -> None:
    """Give one memory another text, and perhaps another section."""
    kind = random.choice(list(MemoryKind))
    library.replace(
        library.memories, record_id, lambda record: replace(record, text=text_of(token), kind=kind)
    )


def a_token(*sizes: int) -> str:
    """A new token of one of these sizes."""
    return f"{secrets.token_hex(6)}-{random.choice(sizes)}"


def memories(root: Path) -> None:
    """Add, edit and remove memories until somebody kills us."""
    library = Library(root)
    wait_for_line()
    while True:
        there = mine(library)
        token = a_token(0, 1, 3, 1000)
        verb = random.choices(["add", "edit", "remove"], [5, 3, 2 if len(there) < 12 else 8])[0]
        record_id = random.choice(there).id if there and verb != "add" else ""
        if not record_id:
            say("try", "add", "-", token)
            say("did", "add", add(library, token), token)
        elif verb == "edit":
            say("try", "edit", record_id, token)
            edit(library, record_id, token)
            say("did", "edit", record_id, token)
        else:
            say("try", "remove", record_id, token)
            library.remove(library.memories, record_id)
            say("did", "remove", record_id, token)


def log(path: Path, count: str = "0", *sizes: str) -> None:
    """Append lines until somebody kills us, or `count` of them; some are long, so that a kill can tear them."""
    wait_for_line()
    for number in itertools.count(1):
        token = a_token(*map(int, sizes or ("5", "5000", "1500000")))
        line = line_of(token)
        say("try", token)
        files.append(path, line)
        say("did", token)
        if number == int(count):
            return


def adds(root: Path, count: str, space: str) -> None:
    """Add `count` memories at the word go; with a `space`, from that many ids only."""
    library = Library(root)
    wait_for_line()
    for _ in range(int(count)):
        token = a_token(0, 1)
        if int(space):
            say(
                "did",
                "add",
                add(library, token, lambda: f"mem-1705751400-{secrets.randbelow(int(space)):04x}"),
                token,
            )
        else:
            say("did", "add", add(library, token), token)


def hold(path: Path, trail: Path, name: str) -> None:
    """Take the lock of a path, leave our name in the trail when told, and let go."""
    say("ready")
    with files.lock(path):
        say("held")
        sys.stdin.readline()
        files.append(trail, f"{name}\n")
    say("released")


def count_up(path: Path, count: str) -> None:
    """Read a number and write the next one, `count` times: only right if nobody comes in between."""
    wait_for_line()
    for _ in range(int(count)):
        with files.lock(path):
            number = int(path.read_text(encoding="utf-8"))
            path.write_text(str(number + 1), encoding="utf-8")


def every_line(path: Path, verb: str) -> None:
    """Repeat a change in child processes, the n-th of which dies at the n-th line of the store's code."""
    for number in itertools.count(1):
        change = _one_change(path, verb)
        child = os.fork()
        if child == 0:
            _die_at_line(number)
            change()
            os._exit(0)
        if os.WIFEXITED(os.waitpid(child, 0)[1]):
            say("finished", number)
            return
        say("killed", number)
        sys.stdin.readline()


def spawner(place: Path, part: str, *words: str) -> None:
    """At each word from outside, fork a child that does a part, and say when it is dead: quicker than starting anew."""
    while sys.stdin.readline():
        if sys.platform == "win32":  # cannot fork
            program = subprocess.Popen([sys.executable, __file__, part, str(place), *words])
            say("started", program.pid)
            program.wait()
            say("dead")
            continue
        child = os.fork()
        if child == 0:
            say("started", os.getpid())
            PARTS[part](place, *words)
            os._exit(0)
        os.waitpid(child, 0)
        say("dead")


def _one_change(path: Path, verb: str) -> Callable[[], object]:
    """Say what is going to be tried, and give the function that does it."""
    token = a_token(0, 3)
    if verb in ("append", "append without space"):
        say("try", token)
        return lambda: _append(path, token, space=20 if verb != "append" else 0)
    library = Library(path)
    record_id = "-" if verb == "add" else next((record.id for record in mine(library)), "")
    if not record_id:
        say("try", "add", "-", token)
        record_id = add(library, token)
        say("did", "add", record_id, token)
    say("try", verb, record_id, token)
    if verb == "add":
        return lambda: add(library, token)
    if verb == "edit":
        return lambda: edit(library, record_id, token)
    return lambda: library.remove(library.memories, record_id)


def _append(path: Path, token: str, space: int) -> None:
    """Append a line; with `space`, when only so many bytes of it fit."""
    if space:
        size = path.stat().st_size if path.exists() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + space, resource.RLIM_INFINITY))
        with contextlib.suppress(WriteFailed):
            files.append(path, line_of(token))
    else:
        files.append(path, line_of(token))


def _die_at_line(number: int) -> None:
    passed = itertools.count(1)

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and next(passed) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]  # a trace function that returns itself has no finite type


PARTS: dict[str, Callable[..., None]] = {
    "memories": memories, "log": log, "adds": adds, "every-line": every_line, "count-up": count_up,
    "spawner": spawner,
}  # fmt: skip

if __name__ == "__main__":
    part, place, *words = sys.argv[1:]
    if part == "hold":
        hold(Path(place), Path(words[0]), words[1])
    else:
        PARTS[part](Path(place), *words)
