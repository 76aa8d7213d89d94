"""Recognise sigils that an agent only repeats from its prompt or from the output of a tool.

The prompt explains the sigils, so an agent that restates its task also repeats the examples. A tool
may print a file or a log that contains sigils. Neither is a report by the agent:

    prompt    When a task is done, write: <task-done>t-1a2b3c</task-done>
    answer    I was told: When a task is done, write: <task-done>t-1a2b3c</task-done>

But an agent that has finished writes exactly the same sigil, only without the sentence around it.
So a short sigil repeats the prompt only if the text next to it does as well. A sigil with a body,
such as a journal, repeats a source if the source contains the body.

All texts are compared with each run of whitespace replaced by one space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.formats.sigil_tags import TAG, Sigil, alone_on_line, find_tags, outermost, pair_tags

_SIGILS_WITH_BODY = ("journal", "knowledge", "verify-fail")
"""Sigils with a long body. They count as repeated only if their body is."""
# In words. A tool may happen to print a line that contains a shorter body.
_MIN_REPEATED_WORDS = 4
_MAX_NEIGHBOUR = 200  # characters next to a short sigil that are compared with the prompt
# What tools print before a line of a file.
_LINE_PREFIX = re.compile(
    r"""^[ \t]*+
    (?:
        (?:[^\s:]{1,400}+:)?\d{1,7}[→\t:|-]    # `12→`, `12:` or `src/a.py:12:`
        | [+>-]                                # the mark of a diff or a quote
    )
    [ \t]?""",
    re.MULTILINE | re.VERBOSE,
)


class _Neighbour(NamedTuple):
    """The text of a sigil, and a line above or below it."""

    sigil: str
    line: str


@dataclass(slots=True)
class Sources:
    """What the prompt and the outputs of the tools contain, with each text joined into one line."""

    prompt_sigils: set[str] = field(default_factory=set)
    prompt_lines: set[str] = field(default_factory=set)  # the lines around these sigils
    prompt_neighbours: set[_Neighbour] = field(default_factory=set)
    bodies: set[str] = field(default_factory=set)  # of sigils anywhere, and printed lines
    printed_sigils: set[str] = field(default_factory=set)  # alone on a line of an output
    outputs: list[str] = field(default_factory=list)  # in full


def read_sources(prompt: str, tool_outputs: Iterable[str]) -> Sources:
    """Collect everything that an agent may have repeated."""
    sources = Sources()
    for sigil in pair_tags(prompt, find_tags(prompt)):
        text = _one_line(prompt[sigil.start : sigil.end])
        around = _read_surroundings(prompt, sigil)
        sources.prompt_sigils.add(text)
        sources.prompt_lines.add(around.line)
        sources.prompt_neighbours.add(_Neighbour(text, around.above))
        sources.prompt_neighbours.add(_Neighbour(text, around.below))
        sources.bodies.add(_one_line(sigil.body))
    for output in tool_outputs:
        printed = _LINE_PREFIX.sub("", output.replace("\\n", "\n"))  # JSON escapes line endings
        inside = outermost(pair_tags(printed, find_tags(printed)))
        for sigil in inside:
            sources.bodies.add(_one_line(sigil.body))
        for sigil in alone_on_line(printed, inside):
            sources.printed_sigils.add(_fingerprint(printed, sigil))
        for row in printed.split("\n"):
            line = _one_line(row)
            if " " in line:
                sources.bodies.add(line)
        sources.outputs.append(_one_line(printed))
    return sources


def is_repeated(sigil: Sigil, answer: str, sources: Sources) -> bool:
    """Return whether a sigil repeats the prompt or a tool output.

    A short sigil counts as repeating the prompt only if the text next to it is the same too.
    """
    body = _one_line(sigil.body)
    if sigil.name in _SIGILS_WITH_BODY and body:
        if body in sources.bodies:
            return True
        is_long = body.count(" ") + 1 >= _MIN_REPEATED_WORDS
        return is_long and any(body in output for output in sources.outputs)
    if _fingerprint(answer, sigil) in sources.printed_sigils:
        return True
    text = _one_line(answer[sigil.start : sigil.end])
    if text not in sources.prompt_sigils:
        return False
    around = _read_surroundings(answer, sigil)
    if around.line != text:
        return around.line in sources.prompt_lines
    for row in (around.above, around.below):
        if row and _Neighbour(text, row) in sources.prompt_neighbours:
            return True
    return False


def _fingerprint(text: str, sigil: Sigil) -> str:
    return "".join(text[sigil.start : sigil.end].split()).lower().replace("_", "-")


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Surroundings(NamedTuple):
    """The line that a sigil is on, and the nearest lines with words above and below, or ""."""

    line: str
    above: str
    below: str


def _read_surroundings(text: str, sigil: Sigil) -> _Surroundings:
    lowest = max(0, sigil.start - _MAX_NEIGHBOUR)
    highest = min(sigil.end + _MAX_NEIGHBOUR, len(text))
    line_start = text.rfind("\n", lowest, sigil.start) + 1
    if not line_start:
        line_start = lowest
    line_end = text.find("\n", sigil.end, highest)
    if line_end < 0:
        line_end = highest
    above = _neighbour_lines(text[max(0, line_start - _MAX_NEIGHBOUR) : line_start])
    below = _neighbour_lines(text[line_end : line_end + _MAX_NEIGHBOUR])
    return _Surroundings(
        _one_line(text[line_start:line_end]),
        above[-1] if above else "",
        below[0] if below else "",
    )


def _neighbour_lines(text: str) -> list[str]:
    """Return the lines of a text, except for blank lines, fences and lone tags."""
    lines: list[str] = []
    for row in text.split("\n"):
        line = _one_line(row)
        if line and not line.startswith(("```", "~~~")) and not TAG.fullmatch(line):
            lines.append(line)
    return lines
