"""Commands that were run, and which of them are the same one although they are not written alike.

The same is the same program with the same arguments, whatever stands in front (`cd x &&`, a variable, `uv run`) and
behind (`| tail`), and whatever it is told to print. One or two long options more are the same command, told better.
A check of everything answers for a check of a part (`pytest` after `pytest tests/a.py`), and a check of a part for
what failed in that part of a larger one. `tests/capture/test_runs.py` proves it.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from ralph.capture.commands import Part, Words, kind_of, parts, programs
from ralph.capture.secret_values import words_of
from ralph.model.record import ObservationKind, Record

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=\S*")
_VERBOSE = words_of(
    "-v -vv -vvv -q -s -x --verbose --quiet --silent --tb=short --tb=long --no-color --color -rA --ff --lf"
)
_PACKAGED = words_of("npm yarn pnpm bun")
_SELECTING = re.compile(
    r"--(?:grep|filter|tests?|only|testNamePattern|testPathPattern|run|match|name|lf|ff|deselect|ignore|maxfail|bail"
    r"|fix|write|update\w*|snapshot-update|watch\w*|force|yes)\b"
)
_LOOKED_AT = 24  # commands still failing, the newest, that another one may answer for


@dataclass(frozen=True, slots=True)
class Run:
    """A command that was run: its main program with arguments, what stood in front of it, and how it ended."""

    record: Record
    command: str
    program: Words
    front: tuple[str, ...]
    failed: bool

    @property
    def key(self) -> Words:
        """What makes it the same command as another one."""
        first, *rest = self.program
        kept = [word for word in rest if word not in _VERBOSE and word != "--"]
        if first in _PACKAGED and kept[:1] == ["run"]:  # `npm run test` is `npm test`
            kept = kept[1:]
        return (first, *kept)


def run_of(record: Record) -> Run | None:
    """The command of an observation, or None when it has none."""
    command = record.extra.get("command")
    if not isinstance(command, str) or not command.strip() or not isinstance(record.kind, ObservationKind):
        return None
    main, before = _main(parts(command))
    if main is None:
        return None
    words = list(main.words)
    front = [shlex.join(part.words) for part in before if part.words[0] not in ("cd", "pushd", "echo", "set", "sleep")]
    while words and _ASSIGNED.fullmatch(words[0]):
        front.append(words.pop(0))
    program = next(iter(programs(shlex.join(words))), ()) if words else ()
    if not program:
        return None
    started = shlex.join(words).removesuffix(shlex.join(words[-len(program) + 1 :])) if len(program) > 1 else ""
    runner = " ".join(started.split()[:-1])
    if runner and not runner.startswith(("timeout", "time", "nohup", "nice", "sudo")):
        front.append(runner)
    return Run(record, " ".join(command.split()), program, tuple(front), record.kind is ObservationKind.ERROR)


def _main(line: Sequence[Part]) -> tuple[Part | None, list[Part]]:
    """The part of a line whose end is the line's, what a pipe or `||` leads to aside, and those before it."""
    kept = [part for number, part in enumerate(line) if number == 0 or line[number - 1].after not in ("|", "|&", "||")]
    return (kept[-1], kept[:-1]) if kept else (None, [])


def answered(run: Run, failing: Iterable[tuple[Words, Record]]) -> Words | None:
    """The key of the failed command for which a pass of this one answers; the newest ones come first."""
    for key, record in islice(failing, _LOOKED_AT):
        if key[0] == run.key[0] and (_is_plainer(key, run.key) or _is_part(key, run.key, record)):
            return key
    return None


def _is_plainer(key: Words, more: Words) -> bool:
    """Whether a command is another one with one or two long options less."""
    added = [word for word in more if word not in key]
    same = [word for word in more if word in key] == list(key)
    return same and 0 < len(added) <= 2 and all(word.startswith("--") and not _SELECTING.match(word) for word in added)


def _is_part(key: Words, passed: Words, record: Record) -> bool:
    """Whether a failed check is part of one that passed, or the other way round and the part is what failed."""
    if kind_of(key[0], key[1:]) is None or kind_of(key[0], key[1:]) is not kind_of(passed[0], passed[1:]):
        return False
    if any(_SELECTING.match(word) and not word.startswith("--run") for word in passed[1:]):
        return False
    if set(passed) < set(key):
        return True
    added = [word for word in passed if word not in key and not word.startswith("-")]
    return set(key) < set(passed) and bool(added) and all(PurePosixPath(word).stem in record.text for word in added)
