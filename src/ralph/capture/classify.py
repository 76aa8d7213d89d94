"""Which of the four kinds an event is: above all, whether a check passed.

A prompt and an answer are notes, a failed tool is an error, a check that passed (`commands.check_of`) is a
success, and the rest is a tool's use. The exit code decides where it speaks for the check itself; behind
a pipe or `|| true`, and on hosts that tell none, the output is asked for what the tools themselves print
when they fail. No sign of failure is a success. Viewers (`cat test.log`) are never judged by what they show.
`tests/capture/test_classify.py` holds the commands and outputs.
"""

import re
from dataclasses import dataclass

from ralph.capture.commands import Check, check_of, programs
from ralph.capture.event import Action, Event, Happening
from ralph.model.record import ObservationKind

_REACH = 40_000
"""How much of either end of an output is read."""
_FAILURE = r"""(?mx)
    \b[1-9]\d{0,6}[ ](?:(?:tests?|specs?|suites?|test[ ]suites?)[ ])?(?:failed|failures?|failing|fails|errored)\b
    |^(?:FAILED|FAIL|ERRORS!|FAILURES!)(?:[ ]\(|\b[:!]|[ \t]+\S|$)|^ERROR[ ]\S+(?:::|\.py)
    |^[ ]*---[ ]FAIL:|\btest[ ]result:[ ]FAILED
    |\b(?:[Ff]ailures|[Ee]rrors|[Ff]ailed):?[ =]{1,8}[1-9]|\bFailed!
    |=[ ][^=\n]{0,80}\b[1-9]\d{0,6}[ ]errors?\b
    |\bFound[ ][1-9]\d{0,6}[ ]errors?\b(?![ ]\(\d+[ ]fixed,[ ]0[ ]remaining)
    |\([1-9]\d{0,6}[ ]errors?[,)]|^[ ]*[1-9]\d{0,6}[ ]errors?(?:,|$|[ ]generated)
    |\berror[ ]?(?:TS|CS|FS|BC|MSB|NU|LNK|C)\d{2,6}\b
    |^[ ]*error(?:\[E\d{4}\])?:[ ]
    |^[^\s:][^\n:]{0,300}:\d{1,7}:(?:\d{1,7}:)?[ ](?:fatal[ ])?error\b
    |^[^\s:]{1,300}:\d{1,7}:\d{1,7}:[ ][A-Z]{1,4}\d{1,4}\b
    |^(?:\./)?[^\s:]{1,300}\.go:\d{1,7}:\d{1,7}:[ ]
    |^npm[ ](?:ERR!|error\b)|^error[ ]Command[ ]failed|^[ ]?(?:ERR_PNPM|ELIFECYCLE)|\bMissing[ ]script:
    |^g?make(?:\[\d+\])?:[ ]\*\*\*|^ninja:[ ]build[ ]stopped|^CMake[ ]Error|\bexited[ ]with[ ]code[ ][1-9]
    |\bBUILD[ ]FAIL(?:ED|URE)\b|\bBuild[ ]FAILED\b|\*\*[ ](?:BUILD|TEST)[ ]FAILED|\bFAILED[ ]TO[ ]BUILD\b
    |\bdid[ ]NOT[ ]complete[ ]successfully|\bThe[ ]following[ ]tests[ ]FAILED|\bFAILED[ ]\|
    |\bwould[ ]reformat\b|\bCode[ ]style[ ]issues\b|^[ ]*✖[ ]|^not[ ]ok[ ]\d|^\#[ ]fail[ ][1-9]|^\#\#\[error\]
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\)|^(?:Uncaught[ ])?(?:Syntax|Reference|ModuleNotFound|Import)Error:[ ]
    |^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$
"""
_PLAIN_FAILURE = r"""(?mx)
    ^npm[ ](?:ERR!|error[ ]code)|^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$|^fatal:[ ]
    |^error:[ ](?:failed|could[ ]not|cannot|unable)\b|^ERROR:[ ](?:Could[ ]not|Failed|No[ ]matching)
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\):
"""
"""What also other commands say only when they fail."""
_VIEWERS = frozenset(
    """cat bat less more head tail grep rg ag sed awk jq yq echo printf ls find fd tree diff git gh journalctl docker
    kubectl wc sort uniq cut strings xxd curl wget history man""".split()
)


def failure_line(output: str, *, check: bool = True) -> str:
    """The first line with which an output says that something failed, or ""."""
    text = output if len(output) <= 2 * _REACH else f"{output[:_REACH]}\n{output[-_REACH:]}"
    found = re.compile(_FAILURE if check else _PLAIN_FAILURE).search(text)
    if found is None:
        return ""
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    return text[start : end if end >= 0 else len(text)].strip()


def _views(command: str) -> bool:
    """Whether a command shows something that was written before: what it says did not happen now."""
    return any(program[0] in _VIEWERS for program in programs(command))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of an event, what was checked, and the line that says what went wrong."""

    kind: ObservationKind
    check: Check | None = None
    sign: str = ""


def verdict(event: Event) -> Verdict:
    """What an event was."""
    if event.happening in (Happening.USER_PROMPT_SUBMIT, Happening.STOP, Happening.SUBAGENT_STOP):
        return Verdict(ObservationKind.NOTE)
    command = event.parameters.get("command")
    checking = check_of(command) if event.action is Action.SHELL and isinstance(command, str) else None
    check = checking.kind if checking else None
    output = event.error or event.response
    if event.failed or event.exit_code:
        return Verdict(ObservationKind.ERROR, check, failure_line(output) if check else "")
    if event.action is not Action.SHELL or not isinstance(command, str) or _in_background(event):
        return Verdict(ObservationKind.TOOL_USE)
    if checking is None:
        sign = "" if event.exit_code == 0 or _views(command) else failure_line(output, check=False)
        return Verdict(ObservationKind.ERROR if sign else ObservationKind.TOOL_USE, None, sign)
    sign = "" if event.exit_code == 0 and checking.last else failure_line(output)
    return Verdict(ObservationKind.ERROR if sign else ObservationKind.SUCCESS, check, sign)


def _in_background(event: Event) -> bool:
    """Whether the command was only started."""
    return any(event.parameters.get(key) is True for key in ("run_in_background", "is_background"))
