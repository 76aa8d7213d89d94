"""Read sigils, the tags with which an agent reports what it did and learned.

A sigil is an opening tag, a body and a closing tag in the agent's answer:

    <journal>Fixed the parser and added a test.</journal>
    <knowledge title="Running tests" tags="tests, ci">Run `make gen` first.</knowledge>
    <task-done>t-1a2b3c</task-done>

Tags in code, comments and quotes are examples, unless a code block contains nothing else. An agent
may also repeat sigils that it has read, and those are not its own. They are recognised by comparing
the answer with its sources, which are the prompt (`echo`) and what its tools printed (`outputs`).

Some sigils are decisive: they say that a task is done or verified. They count only if they are
alone on a line of the agent's last message.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.core.text import Line, LineRole, scan_lines
from ralph.formats.knowledge_text import clean_tags, code_spans

COMPLETE = "COMPLETE"
FAILURE = "FAILURE"

_TAG = re.compile(
    r"""<(?P<close>/)?
    (?P<name>journal|knowledge|task[-_]done|task[-_]failed|promise
        |next[-_]model|verify[-_]pass|verify[-_]fail)
    (?P<attributes>(?:[\s,]++[\w:.-]{1,50}+(?:\s*+=\s*+(?:
        "[^"]{0,2000}+" | '[^']{0,2000}+' | “[^”]{0,2000}+” | [^\s"'“<>/,]{1,200}+
    ))?+){0,20}+)
    [\s,]*+(?P<void>/)?\s*+>""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_ATTRIBUTE = re.compile(
    r"""([\w:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|“([^”]*+)”|([^\s"'“<>/,]++))""", re.ASCII
)
_REST_OF_LINE = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}", re.ASCII)
_TASK = re.compile(r"[^\W_][\w.-]{0,99}")
_ID_CHARACTER = re.compile(r"[\d_.-]")  # an id has one, a word in a sentence does not
_AROUND_TASK_ID = "`*\"':;.()"
_AROUND_REASON = "`*\"':;.,() \t\n-–—"
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_LETTER = re.compile(r"[^\W\d_]")
_LINE_PREFIX = re.compile(
    r"^[ \t]*+(?:(?:[^\s:]{1,400}+:)?\d{1,7}[→\t:|-]|[+>-])[ \t]?", re.MULTILINE
)
"""What tools print before a line of a file: a line number, a path, or a diff or quote mark."""

_WITH_BODY = ("journal", "knowledge", "verify-fail")
"""Sigils with a long body. They count as repeated only if their body is."""
_DECISIVE = ("task-done", "promise", "verify-pass", "verify-fail")
"""Sigils that decide a task's fate. They must be alone on a line of the last message."""
# In words. A tool may happen to print a line that contains a shorter body.
_MIN_REPEATED_WORDS = 4
_MAX_NEIGHBOUR = 200  # characters next to a short sigil that are compared with the prompt
_MAX_INDENT = 8  # characters of whitespace before a tag that is first on its line


class KnowledgeSigil(NamedTuple):
    """A piece of knowledge. The caller checks that it is complete."""

    title: str
    tags: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Sigils:
    """The sigils in an answer. Where only one value is possible, the last one wins."""

    journal: str = ""
    knowledge: tuple[KnowledgeSigil, ...] = ()
    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)  # the reason for each task
    promise: str = ""
    next_model: str = ""
    verified: bool | None = None  # None without a verdict, False if there are both
    reason: str = ""


class _Tag(NamedTuple):
    name: str
    start: int
    end: int
    closes: bool
    is_void: bool
    leads: bool  # only whitespace precedes it on its line
    attributes: str


class _Sigil(NamedTuple):
    name: str
    attributes: str
    start: int
    end: int
    body: str


class _HiddenSpan(NamedTuple):
    start: int
    end: int


def read_sigils(
    text: str, *, echo: str = "", outputs: Sequence[str] = (), final: int = 0
) -> Sigils:
    """Read the sigils in an agent's answer.

    `echo` is the prompt, `outputs` is what the tools printed, and `final` is the position at which
    the last message of the answer begins.
    """
    tags = list(_find_tags(text))
    if not tags:
        return Sigils()
    visible = _visible_tags(text, tags)
    sigils = _outermost([*_pair_tags(text, visible), *_unclosed_journal(text, visible)])
    alone = set(_alone_on_line(text, sigils))
    counting: list[_Sigil] = []
    for sigil in sigils:
        is_final = sigil in alone and sigil.start >= final
        if sigil.name not in _DECISIVE or is_final:
            counting.append(sigil)
    if not counting:
        return Sigils()
    sources = _read_sources(echo, outputs)
    return _interpret([sigil for sigil in counting if not _is_repeated(sigil, text, sources)])


def without_sigils(text: str) -> str:
    """Remove sigils, including their bodies, and unpaired tags. Examples in code are kept."""
    if "<" not in text:
        return text
    tags = _visible_tags(text, list(_find_tags(text)))
    if not tags:
        return text
    spans = [(sigil.start, sigil.end) for sigil in _pair_tags(text, tags)]
    spans += [(tag.start, tag.end) for tag in tags]
    spans.sort(key=lambda span: (span[0], -span[1]))
    pieces: list[str] = []
    copied_to = 0
    for start, end in spans:
        if start >= copied_to:  # otherwise it is inside another span
            pieces.append(text[copied_to:start].rstrip(" \t"))
            copied_to = end
    pieces.append(text[copied_to:])
    return _BLANK_LINES.sub("\n\n", "".join(pieces)).strip()


# --- tags --------------------------------------------------------------------------------------


def _find_tags(text: str) -> Iterator[_Tag]:
    for match in _TAG.finditer(text):
        yield _Tag(
            match["name"].lower().replace("_", "-"),
            match.start(),
            match.end(),
            closes=bool(match["close"]),
            is_void=bool(match["void"]),
            leads=_leads_line(text, match.start()),
            attributes=match["attributes"],
        )


def _leads_line(text: str, position: int) -> bool:
    before = text[max(0, position - _MAX_INDENT) : position]
    reaches_line_start = "\n" in before or len(before) == position
    return reaches_line_start and not before.rpartition("\n")[2].strip(" \t")


def _visible_tags(text: str, tags: list[_Tag]) -> list[_Tag]:
    """Return the tags that are not in an example or a quote."""
    hidden = _hidden_spans(text, tags)
    starts = [span.start for span in hidden]
    visible: list[_Tag] = []
    for tag in tags:
        number = bisect_right(starts, tag.start)
        if number == 0 or tag.start >= hidden[number - 1].end:
            visible.append(tag)
    return visible


def _hidden_spans(text: str, tags: Iterable[_Tag]) -> list[_HiddenSpan]:
    """Return the spans of code, comments and quotes, in order."""
    # If a tag spans several lines, its last line may begin with `>`, which is not a quote.
    last_lines_of_tags = {text.rfind("\n", tag.start, tag.end) + 1 for tag in tags} - {0}
    hidden: list[_HiddenSpan] = []
    fence: Line | None = None
    for line in scan_lines(text):
        if fence is not None:
            if not line.closer:
                if not _only_sigils(text[fence.end : line.start]):
                    hidden.append(_HiddenSpan(fence.start, line.end))
                fence = None
            continue
        if line.role is LineRole.OPENS and line.closer not in ("", "-->"):
            fence = line
            continue
        is_quote = line.text.lstrip().startswith(">") and line.start not in last_lines_of_tags
        if is_quote or not line.is_markdown:
            hidden.append(_HiddenSpan(line.start, line.end))
        elif "`" in line.text and not _only_sigils(line.text.strip(" \t`")):
            for start, end in code_spans(line.text):
                hidden.append(_HiddenSpan(line.start + start, line.start + end))
    return hidden


def _only_sigils(text: str) -> bool:
    """Return whether `text` consists of nothing but sigils and whitespace, with at least one."""
    end = 0
    for sigil in _outermost(_pair_tags(text, _find_tags(text))):
        if text[end : sigil.start].strip():
            return False
        end = sigil.end
    return end > 0 and not text[end:].strip()


# --- sigils ------------------------------------------------------------------------------------


def _pair_tags(text: str, tags: Iterable[_Tag]) -> Iterator[_Sigil]:
    """Yield a sigil for each closing tag that has an opening tag.

    If there are several opening tags, one with attributes is preferred, then one that comes first
    on its line, then the last.
    """
    waiting: dict[str, list[_Tag]] = {}
    for tag in tags:
        if tag.is_void and not tag.closes:
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")
        elif not tag.closes:
            waiting.setdefault(tag.name, []).append(tag)
        elif tag.name in waiting:
            openings = waiting.pop(tag.name)
            opening = max(
                reversed(openings), key=lambda one: (bool(one.attributes.strip()), one.leads)
            )
            body = text[opening.end : tag.start].replace("\r\n", "\n").strip()
            yield _Sigil(tag.name, opening.attributes, opening.start, tag.end, body)
    for tag in waiting.get("verify-pass", []):  # has no body, so agents often forget to close it
        if tag.leads and _REST_OF_LINE.match(text, tag.end):
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")


def _unclosed_journal(text: str, tags: Sequence[_Tag]) -> Iterator[_Sigil]:
    """Yield the journal of an agent that was cut off, up to the next tag or the end of the text."""
    numbers = [number for number, tag in enumerate(tags) if tag.name == "journal"]
    if not numbers:
        return
    last = numbers[-1]
    opening = tags[last]
    if opening.closes or not opening.leads:
        return
    end = len(text)
    if last + 1 < len(tags):
        end = tags[last + 1].start
    body = text[opening.end : end].strip()
    yield _Sigil("journal", opening.attributes, opening.start, end, body)


def _outermost(sigils: Iterable[_Sigil]) -> list[_Sigil]:
    """Return the sigils that are not inside another sigil, in order."""
    outermost: list[_Sigil] = []
    for sigil in sorted(sigils, key=lambda sigil: sigil.start):
        if not outermost or sigil.start >= outermost[-1].end:
            outermost.append(sigil)
    return outermost


def _alone_on_line(text: str, sigils: Sequence[_Sigil]) -> Iterator[_Sigil]:
    """Yield the sigils that share their lines only with other sigils and punctuation."""
    nothing_before: list[bool] = []
    is_clean = True
    end = 0
    for sigil in sigils:
        _, newline, before = text[end : sigil.start].rpartition("\n")
        is_clean = (is_clean or bool(newline)) and not _LETTER.search(before)
        nothing_before.append(is_clean)
        end = sigil.end
    is_clean = True
    start = len(text)
    for sigil, is_clean_before in zip(reversed(sigils), reversed(nothing_before), strict=True):
        after, newline, _ = text[sigil.end : start].partition("\n")
        is_clean = (is_clean or bool(newline)) and not _LETTER.search(after)
        start = sigil.start
        if is_clean and is_clean_before:
            yield sigil


# --- values ------------------------------------------------------------------------------------


def _interpret(sigils: Iterable[_Sigil]) -> Sigils:
    journal = promise = model = reason = ""
    verified: bool | None = None
    knowledge: list[KnowledgeSigil] = []
    finished: dict[str, None] = {}
    failed: dict[str, str] = {}
    for sigil in sigils:
        match sigil.name:
            case "journal":
                journal = sigil.body or journal
            case "knowledge":
                knowledge.append(_read_knowledge(sigil))
            case "task-done":
                finished.update(dict.fromkeys(_task_ids(sigil)))
            case "task-failed":
                failed.update(_read_failure(sigil))
            case "promise":
                promise = _read_promise(sigil) or promise
            case "next-model":
                model = _read_model(sigil) or model
            case "verify-pass":
                verified = verified is not False
            case "verify-fail":
                verified = False
                reason = sigil.body or reason
    return Sigils(
        journal, tuple(knowledge), tuple(finished), failed, promise, model, verified, reason
    )


def _read_knowledge(sigil: _Sigil) -> KnowledgeSigil:
    values = _attribute_values(sigil.attributes)
    title = " ".join(values.get("title", "").split())
    tags = clean_tags(values.get("tags", values.get("tag", "")).split(","))
    return KnowledgeSigil(title, tags, sigil.body)


def _read_promise(sigil: _Sigil) -> str:
    word = sigil.body.strip(" \t\n.!").upper()
    return word if word in (COMPLETE, FAILURE) else ""


def _read_model(sigil: _Sigil) -> str:
    word = sigil.body.strip("`")
    return word if _MODEL.fullmatch(word) else ""


def _task_ids(sigil: _Sigil) -> list[str]:
    """Return the ids of the tasks that a sigil names.

    If the body is a sentence, only its first word can be an id.
    """
    text = _attribute_values(sigil.attributes).get("id", "") or sigil.body
    parts = [part.split() for part in text.split(",") if part.strip()]
    first_words = [words[0].strip(_AROUND_TASK_ID) for words in parts]
    if any(len(words) > 1 for words in parts):
        first = first_words[0]
        if _TASK.fullmatch(first) and _ID_CHARACTER.search(first):
            return [first]
        return []
    return [word for word in first_words if _TASK.fullmatch(word)]


def _read_failure(sigil: _Sigil) -> dict[str, str]:
    """Return the task that failed, mapped to the reason.

    If no task is named, the key is "", which stands for the current task, so that the failure is
    not lost.
    """
    values = _attribute_values(sigil.attributes)
    reason = sigil.body or values.get("reason", "")
    names = _task_ids(sigil)[:1]
    if names and values.get("id"):
        return {names[0]: reason}
    if names and _ID_CHARACTER.search(names[0]):
        after_name = reason.find(names[0]) + len(names[0])
        return {names[0]: reason[after_name:].lstrip(_AROUND_REASON)}
    if reason:
        return {"": reason}
    return {}


def _attribute_values(attributes: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, double, single, curly, unquoted in _ATTRIBUTE.findall(attributes):
        value = double or single or curly or unquoted
        values.setdefault(name.lower(), html.unescape(value))
    return values


# --- repeats -----------------------------------------------------------------------------------


class _Neighbour(NamedTuple):
    """The text of a sigil, and a line above or below it."""

    sigil: str
    line: str


@dataclass(slots=True)
class _Sources:
    """What the prompt and the tool outputs contain, with each text joined into one line.

    `bodies` holds sigil bodies from both and the printed lines, `printed_sigils` the sigils that
    are alone on a line of an output, and `outputs` the complete outputs.
    """

    prompt_sigils: set[str] = field(default_factory=set)
    prompt_lines: set[str] = field(default_factory=set)
    prompt_neighbours: set[_Neighbour] = field(default_factory=set)
    bodies: set[str] = field(default_factory=set)
    printed_sigils: set[str] = field(default_factory=set)
    outputs: list[str] = field(default_factory=list)


def _read_sources(prompt: str, outputs: Iterable[str]) -> _Sources:
    sources = _Sources()
    for sigil in _pair_tags(prompt, _find_tags(prompt)):
        text = _one_line(prompt[sigil.start : sigil.end])
        around = _read_surroundings(prompt, sigil)
        sources.prompt_sigils.add(text)
        sources.prompt_lines.add(around.line)
        sources.prompt_neighbours.add(_Neighbour(text, around.above))
        sources.prompt_neighbours.add(_Neighbour(text, around.below))
        sources.bodies.add(_one_line(sigil.body))
    for output in outputs:
        printed = _LINE_PREFIX.sub("", output.replace("\\n", "\n"))  # JSON escapes line endings
        inside = _outermost(_pair_tags(printed, _find_tags(printed)))
        for sigil in inside:
            sources.bodies.add(_one_line(sigil.body))
        for sigil in _alone_on_line(printed, inside):
            sources.printed_sigils.add(_fingerprint(printed, sigil))
        for row in printed.split("\n"):
            line = _one_line(row)
            if " " in line:
                sources.bodies.add(line)
        sources.outputs.append(_one_line(printed))
    return sources


def _is_repeated(sigil: _Sigil, answer: str, sources: _Sources) -> bool:
    """Return whether a sigil repeats the prompt or a tool output.

    A short sigil counts as repeating the prompt only if the text next to it is the same too.
    """
    body = _one_line(sigil.body)
    if sigil.name in _WITH_BODY and body:
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


def _fingerprint(text: str, sigil: _Sigil) -> str:
    return "".join(text[sigil.start : sigil.end].split()).lower().replace("_", "-")


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Surroundings(NamedTuple):
    """The line that a sigil is on, and the nearest lines with words above and below, or ""."""

    line: str
    above: str
    below: str


def _read_surroundings(text: str, sigil: _Sigil) -> _Surroundings:
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
        if line and not line.startswith(("```", "~~~")) and not _TAG.fullmatch(line):
            lines.append(line)
    return lines
