"""What must hold before work counts as done: how criteria are named, run, and told.

A criterion is a command with an expected exit code, or a marker in the agent's words. A command that the user
wrote is split and started without a shell; only where it has a shell's signs in it, `/bin/sh -c` gets exactly the
words as they were written, with nothing put into them. All criteria are run, also after one has failed: the
agent should hear of everything at once. A command that is not there is told as such, since no work on the code
would mend it. `tests/loop/test_criteria.py` runs real commands.
"""

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ralph.errors import NotFound, UsageError
from ralph.formats.text import LineRole, scan_lines
from ralph.loop.output import tail
from ralph.model.work import never_stop

MARKER = "[RALPH_SUCCESS]"
TIMEOUT = 600.0
"""Seconds for a criterion that names none of its own."""


class CriterionKind(StrEnum):
    """What a criterion looks at; the first four know their command from the project's files."""

    TEST_PASS = "test_pass"  # noqa: S105 - a kind of criterion, no password
    BUILD_SUCCESS = "build_success"
    LINT_CLEAN = "lint_clean"
    TYPE_CHECK = "type_check"
    CUSTOM = "custom"
    MARKER = "marker"


class Ran(Protocol):
    """How a program ended."""

    @property
    def code(self) -> int | None:
        """Its exit code; negative after a signal, None when it was not started."""

    @property
    def out(self) -> str:
        """What it wrote to standard output."""

    @property
    def err(self) -> str:
        """What it wrote to standard error, or why it could not be started."""

    @property
    def timed_out(self) -> bool:
        """Whether it took too long."""

    @property
    def stopped(self) -> bool:
        """Whether somebody asked to stop."""

    @property
    def missing(self) -> bool:
        """Whether it could not be started."""


class Runner(Protocol):
    """Runs a program to its end, without a shell."""

    def __call__(self, argv: Sequence[str], *, cwd: Path, timeout: float, stopped: Callable[[], bool]) -> Ran:
        """Run it in a folder; a timeout of 0 is none."""


@dataclass(frozen=True, slots=True)
class Found:
    """A command that the project's files name, and where: `package.json:7: the script "test"`."""

    argv: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that must hold: a command as somebody wrote it, or as it was found (`argv`), or a marker."""

    kind: CriterionKind
    command: str = ""
    argv: tuple[str, ...] = ()
    expected: int = 0
    marker: str = MARKER
    timeout: float = 0.0
    why: str = ""  # where the command was found

    @property
    def shown(self) -> str:
        """The criterion for people: its kind, and what is run or looked for."""
        what = self.marker if self.kind is CriterionKind.MARKER else self.command or shlex.join(self.argv)
        code = f" (exit code {self.expected})" if self.expected else ""
        return f"{self.kind}: {what}{code}" if what else self.kind.value


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one criterion; `words` say it, `tail` is the end of what the command printed."""

    criterion: Criterion
    passed: bool
    words: str
    seconds: float = 0.0
    code: int | None = None
    tail: str = ""
    timed_out: bool = False
    missing: bool = False

    @property
    def is_file(self) -> bool:
        """Whether a file of the project is run, which may yet be written."""
        return "/" in (self.criterion.argv or argv_of(self.criterion.command))[0]

    @property
    def told(self) -> str:
        """The whole of it, for the next prompt and the journal."""
        return f"{self.criterion.shown}: {self.words}" + (f"\n{self.tail}" if self.tail and not self.passed else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of all criteria; without any, nothing speaks against the work."""

    checks: tuple[Checked, ...] = ()
    marked: bool = False  # whether the agent's words have the marker
    stopped: bool = False  # before all were run

    @property
    def passed(self) -> bool:
        """Whether all hold."""
        return not self.stopped and all(check.passed for check in self.checks)

    @property
    def told(self) -> str:
        """Every criterion that does not hold, with the end of its output; "" when all do."""
        parts = [check.told for check in self.checks if not check.passed]
        return "\n\n".join([*parts, *(["stopped before all criteria were checked"] if self.stopped else [])])

    @property
    def summary(self) -> str:
        """One line for people."""
        if not self.checks:
            return "stopped before anything was checked" if self.stopped else "nothing to check"
        good = sum(check.passed for check in self.checks)
        bad = ", ".join(check.criterion.kind for check in self.checks if not check.passed)
        return f"{good} of {len(self.checks)} criteria hold" + (f"; not: {bad}" if bad else "")


# --- running them --------------------------------------------------------------------------------


def check(
    criteria: Sequence[Criterion],
    *,
    folder: Path,
    run: Runner,
    text: str = "",
    echo: str = "",
    timeout: float = TIMEOUT,
    stopped: Callable[[], bool] = never_stop,
) -> Verdict:
    """Run all criteria in a folder; `text` is what the agent said, `echo` the prompt that it might repeat."""
    markers = [each.marker for each in criteria if each.kind is CriterionKind.MARKER] or [MARKER]
    marked = any(has_marker(text, marker, echo) for marker in markers)
    checks: list[Checked] = []
    for each in criteria:
        if each.kind is CriterionKind.MARKER:
            checks.append(_looked_for(each, text, echo))
            continue
        started = time.monotonic()
        ran = None if stopped() else run(_argv(each), cwd=folder, timeout=each.timeout or timeout, stopped=stopped)
        if ran is None or ran.stopped:
            return Verdict(tuple(checks), marked, stopped=True)
        checks.append(_checked(each, ran, time.monotonic() - started, each.timeout or timeout))
    return Verdict(tuple(checks), marked)


def _looked_for(criterion: Criterion, text: str, echo: str) -> Checked:
    there = has_marker(text, criterion.marker, echo)
    return Checked(criterion, there, "is there" if there else "is not alone on a line of the agent's answer")


def _argv(criterion: Criterion) -> tuple[str, ...]:
    argv = criterion.argv or argv_of(criterion.command)
    if argv:
        return argv
    raise NotFound(f"{criterion.kind}: no command is known for it", hint=f'name it: --criteria "{criterion.kind}:..."')


def _checked(criterion: Criterion, ran: Ran, seconds: float, limit: float) -> Checked:
    argv = _argv(criterion)
    program = _missing(argv, ran) if ran.code != criterion.expected else ""
    if ran.timed_out:
        words = f"took longer than {limit:g} s and was stopped"
    elif program:
        words = f"{program} is missing or cannot be started; install it, or name another command for {criterion.kind}"
    elif ran.code is not None and ran.code < 0:
        words = f"was ended by signal {-ran.code}"
    elif ran.code != criterion.expected:
        words = f"ended with {ran.code} instead of {criterion.expected}"
    else:
        words = "passed"
    passed = not ran.timed_out and ran.code == criterion.expected
    return Checked(criterion, passed, words, seconds, ran.code, tail(ran.out, ran.err), ran.timed_out, bool(program))


_READ = 20_000
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_NOT_FOUND = re.compile(
    r"([\w./+@-]{1,200})['’]?: (?:command not found|not found|No such file or directory|Permission denied)"
)


def _missing(argv: Sequence[str], ran: Ran) -> str:
    """The program that is not there: not started, not found by a shell or by what was started, or no module."""
    if ran.missing:
        return argv[0]
    if ran.code in (126, 127):  # by which shells, npm and env tell
        found = _NOT_FOUND.search(ran.err[-_READ:]) or _NOT_FOUND.search(ran.out[-_READ:])
        return found[1] if found else "a program that it needs"
    if "-m" in argv[1:-1]:
        module = argv[argv.index("-m", 1) + 1]
        found = _NO_MODULE.search(ran.err[-_READ:])
        return f"the module {module} of {argv[0]}" if found and found[1] == module else ""
    return ""


# --- the marker ----------------------------------------------------------------------------------


def has_marker(text: str, marker: str = MARKER, echo: str = "") -> bool:
    """Whether the marker stands alone on a line, outside of fences, and not where the prompt is repeated."""
    if marker not in text:
        return False
    repeated = {(before, after) for _, before, after in _marked(echo, marker)} if marker in echo else set()
    befores, afters = {before for before, _ in repeated if before}, {after for _, after in repeated if after}
    return any(
        shown and before not in befores and after not in afters for shown, before, after in _marked(text, marker)
    )


def _marked(text: str, marker: str) -> Iterator[tuple[bool, str, str]]:
    """Each line that is the marker: whether it is no example, and the lines with words before and after it."""
    shown, unclosed = [], False
    for line in scan_lines(text):
        unclosed = unclosed or (line.place is LineRole.UNCLOSED and not line.text.lstrip().startswith("<"))
        if line.text.strip():
            shown.append((line.text.strip(), line.plain and not unclosed))
    for at, (words, is_text) in enumerate(shown):
        if words == marker or words.strip("*") == marker:
            before = shown[at - 1][0] if at else ""
            yield is_text, before, shown[at + 1][0] if at + 1 < len(shown) else ""


# --- from words ----------------------------------------------------------------------------------

FORMS = (
    'test_pass, build_success, lint_clean, type_check (found from the project; or "test_pass:COMMAND"), '
    '"custom:COMMAND", "custom:COMMAND =3" (expected exit code), marker, "marker:TEXT", or a command'
)
_SHELL = ("/bin/sh", "-c")
_SHELL_SIGNS = re.compile(r"[|&;<>()$`\\*?\[\]{}~#!\n]")
_SHELL_WORDS = frozenset(
    "cd exit if for while until case set export unset eval exec source . : command type trap umask ulimit".split()
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KIND = re.compile(r"\s*([A-Za-z][A-Za-z_-]*)\s*:(?!//)\s*(.*)", re.DOTALL)
_CODE = re.compile(r"(.*\S)(\s*)=\s*(\d{1,4})", re.DOTALL)
_MEANT = {
    **dict.fromkeys(("test", "tests", "tests_pass", "test_passes", "tests_passed"), CriterionKind.TEST_PASS),
    **dict.fromkeys(("build", "builds", "build_passes", "build_pass"), CriterionKind.BUILD_SUCCESS),
    **dict.fromkeys(("lint", "linter", "lint_pass", "lint_passes", "clean"), CriterionKind.LINT_CLEAN),
    **dict.fromkeys(("types", "typecheck", "type_checks", "typing", "types_pass"), CriterionKind.TYPE_CHECK),
}  # fmt: skip


def argv_of(command: str) -> tuple[str, ...]:
    """A user's command as arguments: split, or as it stands for a shell where it is written for one."""
    command = command.strip()
    first = command.split(maxsplit=1)[0] if command else ""
    if _SHELL_SIGNS.search(command) or first in _SHELL_WORDS or _ASSIGNMENT.match(first):
        return (*_SHELL, command)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise UsageError(f"{command}: a quote is not closed", hint="close it, or write it twice") from None


def parse_criteria(words: Sequence[str]) -> tuple[Criterion, ...]:
    """Criteria as they are written after `--criteria`, each once."""
    return tuple(dict.fromkeys(_parsed(word) for word in words))


def _parsed(word: str) -> Criterion:
    if not word.strip() or "\x00" in word:
        raise UsageError("an empty criterion", hint=f"valid are: {FORMS}")
    kind, named = _kind_of(word.strip()), _KIND.fullmatch(word)
    if kind is CriterionKind.CUSTOM:
        raise UsageError("custom: no command", hint='write it behind a colon: "custom:./check.sh"')
    if kind is not None:
        return Criterion(kind)
    if named is None:
        return _with_command(CriterionKind.CUSTOM, word.strip())
    kind = _kind_of(named[1])
    if kind is None:
        raise UsageError(
            f"{named[1]}: there is no such criterion", hint=f"valid are: {FORMS}; a command may need custom: before it"
        )
    rest = named[2].strip()
    if not rest:
        raise UsageError(f"{word.strip()}: nothing stands after the colon", hint=f"valid are: {FORMS}")
    return Criterion(kind, marker=rest) if kind is CriterionKind.MARKER else _with_command(kind, rest)


def _kind_of(word: str) -> CriterionKind | None:
    """The kind that a word names; a word that nearly does is more likely a slip than a command."""
    bare = word.lower().replace("-", "_")
    if bare in _MEANT:
        raise UsageError(
            f"{word}: do you mean {_MEANT[bare]}?", hint=f'a command of that name is written "custom:{word}"'
        )
    return CriterionKind(bare) if bare in set(CriterionKind) else None


def _with_command(kind: CriterionKind, text: str) -> Criterion:
    """A criterion with a command; `=3` at its end is the code, unless it is a variable or an option (`V=1`)."""
    found = _CODE.fullmatch(text)
    if found is None:
        argv_of(text)
        return Criterion(kind, text)
    command, space, code = found.groups()
    words = command.split()
    part_of_it = not space and len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*|-.*", words[-1])
    if part_of_it:
        argv_of(text)
        return Criterion(kind, text)
    if int(code) > 255:
        raise UsageError(f"{text}: an exit code is at most 255", hint="name one from 0 to 255")
    argv_of(command)
    return Criterion(kind, command, expected=int(code))


def completed(criteria: Sequence[Criterion], found: Mapping[CriterionKind, Found]) -> tuple[Criterion, ...]:
    """The criteria with the commands that were found; one that has none is an error, never left out."""
    return tuple(_completed(each, found) for each in criteria)


def _completed(criterion: Criterion, found: Mapping[CriterionKind, Found]) -> Criterion:
    kind = criterion.kind
    if kind is CriterionKind.MARKER or criterion.command.strip() or criterion.argv:
        return criterion
    if kind is CriterionKind.CUSTOM:
        raise UsageError("custom: no command", hint='write it behind a colon: "custom:./check.sh"')
    if kind not in found:
        raise NotFound(
            f"{kind}: no command for it was found in this project's files",
            hint=f'name it: --criteria "{kind}:COMMAND", or `command:` of that criterion in ralph.yml',
        )
    return replace(criterion, argv=found[kind].argv, why=found[kind].why)
