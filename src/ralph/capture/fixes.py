"""Errors and what resolved them: a command failed, something was done, and the same command passed.

`runs` says which commands are the same; what newly stands in front of it is then what resolved it, and so may be an
option that was added. Between the last failure of one sort and the next run, edits and commands that change
something count; when there are none it was chance. Then `junk` is asked: what was expected, passed by itself, was
interrupted or misspelt is no lesson, and neither is code that was not finished yet and then was. An error about
what stands around the code (a variable, a version, an order) is one, and so is whatever was resolved by a command
or in a setting, and any failure for which the edit or the agent gives a reason (`reasons`), kept with it. Where work
fails every day (a linter, a test that was there first, `complaints`), only somebody who tells why makes it a lesson.
`tests/capture/test_fixes.py` holds a session for each rule.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ralph.capture import junk
from ralph.capture.causes import explanation, is_cause
from ralph.capture.chatter import is_test_first
from ralph.capture.commands import Check, Words, check_of, kind_of, programs
from ralph.capture.complaints import (
    complains,
    is_declared,
    is_not_there,
    is_of_style,
    is_of_types,
    is_testing,
    names_a_rule,
)
from ralph.capture.reasons import details, said_in, said_near, sets_a_constant, slips
from ralph.capture.runs import Run, answered, run_of
from ralph.capture.secret_values import words_of
from ralph.capture.statements import particular
from ralph.capture.trim import first_line
from ralph.model.record import ObservationKind, Record

_CALL, _HOW = 120, 200
_LINE = 500  # characters of a line that are looked at
_MANY = 6  # commands and files of which nobody can say any more what helped
_ACTIONS = 3  # commands and files that are named
_FAR = 40  # records before a failure in which the last change is looked for
_REASON = 1.5  # how particular a reason must be for an assertion that failed
_BEFORE = 3  # records before a failure in which the agent may announce it
_TESTING = re.compile(r"(?i)test|spec|check|verify")
_EDITS = words_of(
    """edit multiedit write notebookedit apply_patch create_file create replace str_replace write_file
    str_replace_editor str_replace_based_edit_tool update patch"""
)
_NAMED = re.compile(
    r"\b\w*(?:Error|Exception|Warning)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|\b[EW][A-Z]{4,}\b|✖|\bERR\w*"
)
_TROUBLE = re.compile(
    r"(?i)\b(?:errors?|fail(?:ed|ure|s)?|cannot|can't|could not|not (?:found|set|installed|supported|allowed)|no such"
    r"|refused|denied|undefined|unable|missing|must|expected|invalid|unsupported|out of|too many|does not|doesn't"
    r"|mismatch|locked|timed? ?out|unknown|exceeded|required|stale|fehl\w*|nicht)\b|실패|오류|없|失败|错误|找不到|未"
)
_EXIT = re.compile(r"(?i)\W*(?:command )?(?:failed with )?exit(?:ed with)? (?:code|status)\s*:?\s*\d+\W*")
_FRAME = re.compile(r"(?:at |File \"|\.\.\. |\^+|\d+ \||> \d+ \||-{3,}|={3,}|\+{3,})")
_BARE_COUNT = re.compile(
    r"(?i)^\W*(?:exit (?:code|status)\W*\d+|\d+ \w+|error|failed|failure|npm err!.{0,20})\W*$"
    r"|^g?make(?:\[\d+\])?: \*\*\*"
)


@dataclass(frozen=True, slots=True)
class Fix:
    """A failure and what resolved it, with the observations that show both."""

    call: str
    error: str
    commands: tuple[str, ...]
    files: tuple[str, ...]
    front: tuple[str, ...]
    details: tuple[str, ...]
    said: str
    evidence: tuple[Record, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """The lesson in a sentence or two."""
        return f"`{self.call}` failed: {self.gist}" if self.error else f"`{self.call}` failed. {self.gist}"

    @property
    def gist(self) -> str:
        """The lesson without the command that failed: that is the same for whatever it finds."""
        steps = [*(f"with `{each}`" for each in self.front), *(f"after `{each}`" for each in self.commands)]
        if self.files:
            steps.append(f"after a change of {', '.join(self.files[:_ACTIONS])}")
        how = [f"{self.error}."] if self.error else []
        more = [f"New there: {', '.join(f'`{each}`' for each in self.details)}."] if self.details else []
        return " ".join([*how, f"It passed {' and '.join(steps)}.", *more, *([self.said] if self.said else [])])


# --- reading -----------------------------------------------------------------------------------


def is_edit(record: Record) -> bool:
    """Whether an observation changed files with a tool for it."""
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0]).lower()
    return tool in _EDITS and record.kind is not ObservationKind.ERROR


def error_line(record: Record) -> str:
    """The line of an output that says most about why it failed, or ""."""
    return next(iter(_error_lines(record)), "")


def _error_lines(record: Record) -> list[str]:
    """The lines of an output, those first that say most about why it failed."""
    sign = str(record.extra.get("error") or "").strip()
    shown = [line.strip()[:_LINE] for line in record.text.splitlines() if not line.startswith(("$ ", "# "))]
    lines = [line for line in (*shown, sign) if line and not _EXIT.fullmatch(line)]
    return sorted(dict.fromkeys(lines), key=lambda line: -_tells(line))


def _told(record: Record) -> str:
    """How a command failed, in a line: what says most, and what says something more when there is room for it."""
    lines = _error_lines(record)[:2]
    if len(lines) < 2 or _BARE_COUNT.match(lines[1]) or _FRAME.match(lines[1]) or len(" ".join(lines)) > _HOW:
        lines = lines[:1]
    return first_line("; ".join(line.rstrip(".") for line in lines), _HOW)


def _tells(line: str) -> int:
    """How much a line of an output says: what is named, about what stands around the code, and no mere count."""
    score = 2 * (junk.of_setup(line) and _TROUBLE.search(line) is not None)
    score += 2 * (_NAMED.search(line) is not None) + (_TROUBLE.search(line) is not None)
    return score - 3 * (_BARE_COUNT.match(line) is not None) - 2 * (_FRAME.match(line) is not None)


# --- pairs -------------------------------------------------------------------------------------


def fixes(records: Sequence[Record]) -> list[Fix]:
    """The lessons of one session's observations, which are given in the order in which they happened."""
    if all(record.kind is not ObservationKind.ERROR for record in records):
        return []
    runs = [run_of(record) for record in records]
    waiting: dict[Words, list[int]] = {}
    found: list[Fix] = []
    for number, run in enumerate(runs):
        if run is None:
            continue
        if run.failed:
            waiting.setdefault(run.key, []).append(number)
            continue
        newest = ((each, records[waiting[each][-1]]) for each in reversed(waiting))
        key = run.key if run.key in waiting else answered(run, newest)
        for at in _sorts(records, waiting.pop(key, []), number) if key is not None else ():
            fix = _fix(records, runs, at, number)
            if fix is not None:
                found.append(fix)
    return found


def _sorts(records: Sequence[Record], failures: Sequence[int], passed: int) -> Iterator[tuple[int, int, int]]:
    """Of the failures before a pass, the last of each sort: its place, the place of the next run, and the first's.

    An error that does not come back was resolved by what was done before the next run, although that failed, too.
    """
    signs = [_sign(records[at]) for at in failures]
    for place, at in enumerate(failures):
        if signs[place] not in signs[place + 1 :]:
            until = failures[place + 1] if place + 1 < len(failures) else passed
            yield at, until, failures[signs.index(signs[place])]


def _sign(record: Record) -> str:
    return re.sub(r"\d+", "0", error_line(record)).strip()


def _fix(records: Sequence[Record], runs: Sequence[Run | None], place: tuple[int, int, int], passed: int) -> Fix | None:
    """What resolved one failure, unless nothing did, or nothing is to be learned from it."""
    at, until, first = place
    failure, success = runs[at], runs[passed]
    if failure is None or success is None:
        return None
    commands = tuple(dict.fromkeys(each.command for each in runs[at + 1 : until] if each and _helps(each, failure)))
    edits = [each for each in records[at + 1 : until] if is_edit(each)]
    shown = f"{failure.command}\n{failure.record.text}"
    files = tuple(
        dict.fromkeys(
            file
            for each in edits
            for file in each.origin.files
            if not junk.is_prose(file) or PurePosixPath(file).name.partition(".")[0] in shown
        )
    )
    added = tuple(word for word in success.key if word not in failure.key)
    front = tuple(each for each in (*success.front, *added) if each not in failure.front) if until == passed else ()
    error = error_line(failure.record)
    reason, said = said_in(edits), said_near(records, at, passed, error)
    driven = _driven(records, runs, first, failure)
    why = said.text if said.why else explanation(reason)
    done = _Done(
        failure,
        error,
        commands,
        files,
        front,
        said.text or reason,
        said.reason or bool(reason),
        why,
        driven,
        tuple(edits),
    )
    if not done.teaches:
        return None
    return Fix(
        first_line(failure.command, _CALL),
        "" if _BARE_COUNT.match(error) else _told(failure.record),
        tuple(first_line(each, _CALL) for each in commands[-_ACTIONS:]),
        files,
        tuple(first_line(each, _CALL) for each in front),
        tuple(details(edits)),
        " ".join(f"{each.rstrip('.')}." for each in (reason, said.text) if each),
        (failure.record, *(each for each in records[at + 1 : until] if _counts(each, commands)), success.record),
    )


def _helps(run: Run, failure: Run) -> bool:
    """Whether a command may have changed what the failed one then found; a build makes something, other checks look."""
    if run.failed or run.key == failure.key:
        return False
    return any(
        junk.changes_something(each) and kind_of(each[0], each[1:]) in (None, Check.BUILD)
        for each in programs(run.command)
    )


def _counts(record: Record, commands: Sequence[str]) -> bool:
    return is_edit(record) or " ".join(str(record.extra.get("command", "")).split()) in commands


def _driven(records: Sequence[Record], runs: Sequence[Run | None], first: int, failure: Run) -> bool:
    """Whether a test was written just before it failed: the last change is one of a test, or somebody says so."""
    check = check_of(failure.command)
    if not (check.kind is Check.TEST if check is not None else _TESTING.search(failure.command)):
        return False
    said = (each.text for each in records[max(0, first - _BEFORE) : first] if each.kind is ObservationKind.NOTE)
    if any(map(is_test_first, said)):
        return True
    for number in range(first - 1, max(-1, first - 1 - _FAR), -1):
        run = runs[number]
        if run is not None and run.key == failure.key:
            return False
        if is_edit(records[number]):
            return any(junk.is_test(file) for file in records[number].origin.files)
    return False


@dataclass(frozen=True, slots=True)
class _Done:
    """A failure with what was done about it, to be judged."""

    failure: Run
    error: str
    commands: tuple[str, ...]
    files: tuple[str, ...]
    front: tuple[str, ...]
    said: str
    reasoned: bool
    """Whether the edit itself says why it was made, or the agent did before the pass."""
    why: str
    """What was said about how things are, before the pass."""
    driven: bool
    edits: tuple[Record, ...]

    @property
    def teaches(self) -> bool:
        """Whether somebody who meets the same failure would want to know."""
        text = f"{self.error}\n{self.failure.record.text}"
        outside = bool(self.commands or self.front or self._around)
        if not outside and not self._code:
            return False  # chance
        if junk.looks(self.failure.program) or junk.interrupted(text) or self._is_passing(text):
            return False
        if junk.is_inline(self.failure.program) and not (junk.of_setup(self.error) or self._around):
            return False
        if (self._is_mistyped(text) and not self._is_caused) or (
            self._is_flaky(text) and not (self._around or self.said)
        ):
            return False
        if self._is_everyday or (self._is_slip and not self.said):
            return False
        if self._is_driven and (self.files or not (self.commands or self.front)) and not self.why:
            return False  # what was made for the test is work, whatever it was
        if len(self.commands) + len(self.files) > _MANY and not self.said:
            return False  # who knows which of them it was
        return not self._is_of_linters and (not self._code or self._is_more_than_work(outside))

    def _is_mistyped(self, text: str) -> bool:
        """Whether a command line or a file was typed wrongly, and then rightly."""
        if self.commands or self.front:
            return False
        shown = f"{self.failure.command}\n{text}"
        named = any(PurePosixPath(file).stem in shown for file in self.files)
        wrong = junk.is_syntax(self.error) and (named or bool(self._code))
        return wrong or junk.is_mistyped(self.error) or junk.misspelt(self.error)

    @property
    def _is_everyday(self) -> bool:
        """Whether it was git's own trouble, a build that says nothing, or what everybody installs first."""
        if self.files or self.front or self.said:
            return False
        run = [program for each in self.commands for program in programs(each) if junk.changes_something(program)]
        if junk.is_git(self.failure.program) and not any(junk.is_git(each) for each in run):
            return True
        if all(junk.installs_all(each) for each in run):
            return True
        return all(kind_of(each[0], each[1:]) is Check.BUILD for each in run) and not junk.of_setup(self.error)

    @property
    def _is_slip(self) -> bool:
        """Whether a word or a sign was mistyped in the file that the failure is about, and then was not."""
        if self.commands or self.front:
            return False
        shown = f"{self.failure.command}\n{self.failure.record.text}"
        return slips(self.edits, shown, syntax=junk.is_syntax(self.error), deep=junk.is_deep(self.error))

    def _is_flaky(self, text: str) -> bool:
        check = check_of(self.failure.command)
        return check is not None and check.kind is Check.TEST and junk.is_flaky(text)

    @property
    def _is_caused(self) -> bool:
        """Whether somebody told a cause with its consequence, which reaches beyond the line that was mended."""
        return is_cause(self.why)

    @property
    def _is_driven(self) -> bool:
        """Whether a test was there before what it tests."""
        inside = bool(self._code) and not (self.commands or self.front)
        return self.driven or (inside and self._tests and is_not_there(self.failure.record.text))

    @property
    def _tests(self) -> bool:
        return is_testing(self.failure.command)

    @property
    def _is_of_linters(self) -> bool:
        """Whether it was about how something is written, and not about the linter's own settings."""
        text = self.failure.record.text
        style = is_of_style(self.failure.command) or junk.is_linter(self.failure.program)
        if not (style or names_a_rule(text)) or (self._is_caused if complains(text) else self.said):
            return False
        if not self.files:
            mended = not (self.front or is_of_types(self.failure.command) or junk.of_setup(self.error))
            return mended and complains(text)  # by the tool itself
        return bool(self._code) or any(not junk.is_of_linters(file) for file in self.files)

    def _is_more_than_work(self, outside: bool) -> bool:
        """Whether a failure that also code was edited for was more than code that was not finished yet."""
        if self.reasoned or self.why:  # of what a test found missing, the reason must be about something
            return not (self._tests and junk.unfinished(self.error)) or particular(self.said) >= _REASON
        if not self.error or _BARE_COUNT.match(self.error):
            return False
        if junk.is_deep(self.error):
            return True
        if junk.unfinished(self.error):
            return outside and junk.of_setup(self.error)
        return (outside and junk.of_setup(self.error)) or bool(self.said)

    def _is_passing(self, text: str) -> bool:
        if junk.refused(text) and any(junk.starts_a_service(each) for each in self.commands):
            return False
        lasting = self._around or any(each.startswith(("export ", "source ")) for each in self.commands)
        return (junk.passing(text) or junk.refused(text)) and not (lasting or (self._code and self.why))

    @property
    def _around(self) -> tuple[str, ...]:
        set_in = {file for edit in self.edits if sets_a_constant(edit) for file in edit.origin.files}
        return tuple(
            file
            for file in self.files
            if (junk.is_around(file) or file in set_in)
            and not (junk.is_test(file) or (is_declared(file) and self._tests and not junk.of_setup(self.error)))
        )

    @property
    def _code(self) -> tuple[str, ...]:
        return tuple(file for file in self.files if file not in self._around)
