"""Recognise what Ralph itself said or did in a session.

Ralph injects text into prompts, and agents call its commands and tools. None of that is news, and
storing it would make a memory its own evidence. `without_injected` removes injected blocks from
text, and `is_own_traffic` recognises observations that show only Ralph at work:

    $ cd app && ralph search "retry policy" | head     only Ralph, filters and `cd`
    $ ralph status && make test                        not only Ralph
"""

from __future__ import annotations

import re
import shlex

from ralph.capture.command_lines import find_programs, split_commands
from ralph.capture.events import Action, Event
from ralph.core.prompts import INJECTED, NOTE, is_own_prompt
from ralph.core.record import ObservationKind, Record

OWN_TOOL = re.compile(r"mcp__(?:plugin_ralph_\w+?|ralph)(?:__|/)|mcp_ralph_(?!_)")
_WRITING_TOOLS = ("memory_add", "memory_edit")
_OWN_PROGRAMS = ("ralph", "ralph-memory")
_NEUTRAL_PROGRAMS = (
    "cd",
    "echo",
    "printf",
    "true",
    "export",
    "for",
    "done",
    "fi",
)
_OUTPUT_FILTERS = (
    "head",
    "tail",
    "cat",
    "less",
    "more",
    "grep",
    "rg",
    "sed",
    "awk",
    "jq",
    "json.tool",
    "sort",
    "uniq",
    "wc",
    "cut",
    "tr",
    "column",
)
"""Programs that only filter what is piped into them.

A command line counts as Ralph's own if it contains only Ralph, `_NEUTRAL_PROGRAMS`, and these
filters in a pipe.
"""


def is_own_traffic(record: Record) -> bool:
    """Return whether an observation only shows Ralph's own commands or tools at work."""
    if record.kind is ObservationKind.NOTE:
        return record.origin.by == "human" and is_own_prompt(record.text.lstrip())
    tool = str(record.extra.get("tool") or "")
    command = record.extra.get("command")
    if isinstance(command, str):
        return _only_calls_ralph(command)
    if tool in ("Skill", "SlashCommand"):
        first_parameter = record.text.partition(": ")[2]
        return is_own_prompt("/" + first_parameter.lstrip("/"))
    return OWN_TOOL.match(tool) is not None and not is_own_refusal(record)


def is_own_refusal(record: Record) -> bool:
    """Return whether Ralph refused to store something that an agent wanted to add or change.

    Such a record is kept, because the agent may claim the opposite.
    """
    tool = str(record.extra.get("tool") or "")
    is_writing_tool = OWN_TOOL.match(tool) is not None and tool.endswith(_WRITING_TOOLS)
    return record.kind is ObservationKind.ERROR and is_writing_tool


def _may_run_ralph(command: str) -> bool:
    """Return whether a command line may run Ralph. Quotes can divide the name of a program."""
    unquoted = command.replace("'", "").replace('"', "").replace("\\", "")
    return "ralph" in unquoted


def _only_calls_ralph(command: str) -> bool:
    if not _may_run_ralph(command):
        return False
    calls_ralph = False
    is_piped = False
    for words, operator in split_commands(command):
        is_comment = words[0].startswith("#")
        if not is_comment:
            for name, *_ in find_programs(shlex.join(words)):
                if name in _OWN_PROGRAMS:
                    calls_ralph = True
                elif name not in (_OUTPUT_FILTERS if is_piped else _NEUTRAL_PROGRAMS):
                    return False
        is_piped = operator in ("|", "|&")
    return calls_ralph


def calls_ralph(event: Event) -> bool:
    """Return whether a tool call runs a command of Ralph or calls one of its tools."""
    if event.action is Action.SHELL:
        command = event.text_parameter("command")
        if not _may_run_ralph(command):
            return False
        return any(program[0] in _OWN_PROGRAMS for program in find_programs(command))
    return OWN_TOOL.match(event.tool) is not None


_BREAK = r"(?:\r?\n|(?:\\r)?\\n)"
_OPENING = re.compile(rf"[^\n`]{{0,600}}?{_BREAK}(?P<fence>`{{3,}})")
_NOTE_LINE = re.compile(rf"(?:^|(?<=\n)){re.escape(NOTE)}[^\n]*(?:\n|\Z)")


def without_injected(text: str) -> str:
    """Remove the blocks that Ralph injected, even one that is cut off."""
    if NOTE not in text:
        return text
    kept = []
    position = 0
    start = text.find(INJECTED)
    while start >= 0:
        kept.append(text[position:start])
        position = _end_of_injected(text, start)
        start = text.find(INJECTED, position)
    kept.append(text[position:])
    return _NOTE_LINE.sub("", "".join(kept))


def _end_of_injected(text: str, start: int) -> int:
    """Return where an injected block ends: after its closing fence, or after its only line."""
    opening = _OPENING.match(text, start)
    if opening:
        fence = re.compile(rf"{_BREAK}{opening['fence']}(?!`){_BREAK}?")
        closing = fence.search(text, opening.end())
    else:
        closing = re.compile(r"\n").search(text, start)
    if closing:
        return closing.end()
    return len(text)
