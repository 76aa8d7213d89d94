"""Reader of sigils: the tags by which an agent reports what it did and learned.

Tags in code, comments and quotes are examples, unless a code block holds nothing else. What repeats the prompt (`echo`)
or a tool's output is not the agent's own. What decides over a task must be alone on a line of the last message.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.formats.knowledge import clean_tags, code_spans
from ralph.formats.text import Line, LineRole, scan_lines

COMPLETE = "COMPLETE"
FAILURE = "FAILURE"

_TAG = re.compile(
    r"""<(?P<close>/)?
    (?P<name>journal|knowledge|task[-_]done|task[-_]failed|promise|next[-_]model|verify[-_]pass|verify[-_]fail)
    (?P<attributes>(?:[\s,]++[\w:.-]{1,50}+(?:\s*+=\s*+(?:
        "[^"]{0,2000}+" | '[^']{0,2000}+' | “[^”]{0,2000}+” | [^\s"'“<>/,]{1,200}+
    ))?+){0,20}+)
    [\s,]*+(?P<void>/)?\s*+>""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_ATTRIBUTE = re.compile(
    r"""([\w:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|“([^”]*+)”|([^\s"'“<>/,]++))""", re.ASCII
)
_LINE_ENDS = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}", re.ASCII)
_TASK = re.compile(r"[^\W_][\w.-]{0,99}")
_ID_CHARACTER = re.compile(r"[\d_.-]")  # an id has one, a word of a sentence has not
_LONG = (
    "journal",
    "knowledge",
    "verify-fail",
)  # their body repeats that of the prompt only as an echo
_DECISIVE = (
    "task-done",
    "promise",
    "verify-pass",
    "verify-fail",
)  # alone on a line of the last message
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_LETTER = re.compile(r"[^\W\d_]")
_LINE_PREFIX = re.compile(
    r"^[ \t]*+(?:(?:[^\s:]{1,400}+:)?\d{1,7}[→\t:|-]|[+>-])[ \t]?", re.MULTILINE
)
"""What tools print before a line of a file: its number, its path, the mark of a diff or a quote."""
_SHORTEST_REPEAT = (
    4  # words; a shorter body may be in a line of a tool's output by chance, unless it is the line
)
_BESIDE = 200  # characters beside a short sigil that are compared with the prompt


class KnowledgeSigil(NamedTuple):
    """A piece of knowledge; the caller checks that it is complete."""

    title: str
    tags: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Sigils:
    """The sigils of an answer; of a single value the last one counts."""

    journal: str = ""
    knowledge: tuple[KnowledgeSigil, ...] = ()
    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)  # the reason for each task
    promise: str = ""
    next_model: str = ""
    verified: bool | None = None  # without a verdict; False with both
    reason: str = ""


class _Tag(NamedTuple):
    name: str
    start: int
    end: int
    closes: bool
    void: bool
    leads: bool
    attributes: str


class _Sigil(NamedTuple):
    name: str
    attributes: str
    start: int
    end: int
    body: str


def read_sigils(
    text: str, *, echo: str = "", outputs: Sequence[str] = (), final: int = 0
) -> Sigils:
    """Read an answer to the prompt `echo`; `outputs` are those of tools, `final` starts its last message."""
    if not (tags := list(_tags(text))):
        return Sigils()
    visible = _visible_tags(text, tags)
    sigils = _outermost([*_paired(text, visible), *_unclosed_journal(text, visible)])
    counting = {sigil for sigil in _alone(text, sigils) if sigil.start >= final}
    sigils = [sigil for sigil in sigils if sigil.name not in _DECISIVE or sigil in counting]
    return _interpret(_without_repeats(sigils, text, echo, outputs) if sigils else ())


def without_sigils(text: str) -> str:
    """Remove sigils with their bodies, and unpaired tags; examples in code stay."""
    tags = _visible_tags(text, list(_tags(text))) if "<" in text else []
    if not tags:
        return text
    pieces = []
    at = 0
    spans = [
        *((sigil.start, sigil.end) for sigil in _paired(text, tags)),
        *((tag.start, tag.end) for tag in tags),
    ]
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= at:  # else it is inside of another one
            pieces.append(text[at:start].rstrip(" \t"))
            at = end
    return _BLANK_LINES.sub("\n\n", "".join([*pieces, text[at:]])).strip()


def _tags(text: str) -> Iterator[_Tag]:
    for match in _TAG.finditer(text):
        start = match.start()
        before = text[max(0, start - 8) : start]
        leads = not before.rpartition("\n")[2].strip(" \t") and (
            "\n" in before or len(before) == start
        )
        name = match["name"].lower().replace("_", "-")
        yield _Tag(
            name,
            start,
            match.end(),
            bool(match["close"]),
            bool(match["void"]),
            leads,
            match["attributes"],
        )


def _visible_tags(text: str, tags: list[_Tag]) -> list[_Tag]:
    tag_ends = {text.rfind("\n", tag.start, tag.end) + 1 for tag in tags} - {
        0
    }  # a `>` there is no quote
    hidden: list[tuple[int, int]] = []
    fence: Line | None = None
    for line in scan_lines(text):
        if fence is not None:
            if not line.closer and not _only_sigils(text[fence.end : line.start]):
                hidden.append((fence.start, line.end))
            fence = fence if line.closer else None
        elif line.role is LineRole.OPENS and line.closer not in ("", "-->"):
            fence = line
        elif not line.is_markdown or (
            line.text.lstrip().startswith(">") and line.start not in tag_ends
        ):
            hidden.append((line.start, line.end))
        elif "`" in line.text and not _only_sigils(line.text.strip(" \t`")):
            hidden += [
                (line.start + start, line.start + end) for start, end in code_spans(line.text)
            ]
    starts = [start for start, _ in hidden]
    return [
        tag
        for tag in tags
        if not (at := bisect_right(starts, tag.start)) or tag.start >= hidden[at - 1][1]
    ]


def _only_sigils(text: str) -> bool:
    end = 0
    rest = ""
    for sigil in _outermost(_paired(text, _tags(text))):
        rest = rest or text[end : sigil.start].strip()
        end = sigil.end
    return end > 0 and not rest and not text[end:].strip()


def _outermost(sigils: Iterable[_Sigil]) -> list[_Sigil]:
    outermost: list[_Sigil] = []
    for sigil in sorted(sigils, key=lambda sigil: sigil.start):
        if not outermost or sigil.start >= outermost[-1].end:
            outermost.append(sigil)
    return outermost


def _alone(text: str, sigils: Sequence[_Sigil]) -> Iterator[_Sigil]:
    clean_left: list[bool] = []
    clean = True
    end = 0
    for sigil in sigils:
        _, newline, beside = text[end : sigil.start].rpartition("\n")
        clean = (clean or bool(newline)) and not _LETTER.search(beside)
        end = sigil.end
        clean_left.append(clean)
    clean = True
    start = len(text)
    for sigil, is_clean in zip(reversed(sigils), reversed(clean_left), strict=True):
        beside, newline, _ = text[sigil.end : start].partition("\n")
        clean = (clean or bool(newline)) and not _LETTER.search(beside)
        start = sigil.start
        if clean and is_clean:
            yield sigil


def _paired(text: str, tags: Iterable[_Tag]) -> Iterator[_Sigil]:
    """Of several openings one with attributes, else one leading its line, else the last."""
    waiting: dict[str, list[_Tag]] = {}
    for tag in tags:
        if tag.closes:
            if openings := waiting.pop(tag.name, []):
                opening = max(
                    reversed(openings), key=lambda one: (bool(one.attributes.strip()), one.leads)
                )
                body = text[opening.end : tag.start].replace("\r\n", "\n").strip()
                yield _Sigil(tag.name, opening.attributes, opening.start, tag.end, body)
        elif tag.void:
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")
        else:
            waiting.setdefault(tag.name, []).append(tag)
    for tag in waiting.pop(
        "verify-pass", []
    ):  # it has nothing inside, so that its end is easily forgotten
        if tag.leads and _LINE_ENDS.match(text, tag.end):
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")


def _unclosed_journal(text: str, tags: Sequence[_Tag]) -> Iterator[_Sigil]:
    """The journal of an agent that was cut off, to the next tag or the end."""
    of_journal = [number for number, tag in enumerate(tags) if tag.name == "journal"]
    if of_journal and not tags[of_journal[-1]].closes and tags[of_journal[-1]].leads:
        opening, *after = tags[of_journal[-1] :]
        end = after[0].start if after else len(text)
        yield _Sigil(
            "journal", opening.attributes, opening.start, end, text[opening.end : end].strip()
        )


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
                values = _values(sigil.attributes)
                tags = clean_tags(values.get("tags", values.get("tag", "")).split(","))
                knowledge.append(
                    KnowledgeSigil(" ".join(values.get("title", "").split()), tags, sigil.body)
                )
            case "task-done":
                finished.update(dict.fromkeys(_task_ids(sigil)))
            case "task-failed":
                failed.update(_failures(sigil))
            case "promise":
                word = sigil.body.strip(" \t\n.!").upper()
                promise = word if word in (COMPLETE, FAILURE) else promise
            case "next-model":
                word = sigil.body.strip("`")
                model = word if _MODEL.fullmatch(word) else model
            case "verify-pass":
                verified = verified is not False
            case "verify-fail":
                verified = False
                reason = sigil.body or reason
    return Sigils(
        journal, tuple(knowledge), tuple(finished), failed, promise, model, verified, reason
    )


def _task_ids(sigil: _Sigil) -> list[str]:
    text = _values(sigil.attributes).get("id", "") or sigil.body
    parts = [part.split() for part in text.split(",") if part.strip()]
    first_words = [part[0].strip("`*\"':;.()") for part in parts]
    if any(len(part) > 1 for part in parts):
        first = first_words[0]
        return [first] if _TASK.fullmatch(first) and _ID_CHARACTER.search(first) else []
    return [word for word in first_words if _TASK.fullmatch(word)]


def _failures(sigil: _Sigil) -> dict[str, str]:
    """Without a task the current one is meant, "": a failure must not get lost."""
    values = _values(sigil.attributes)
    names = [
        name for name in _task_ids(sigil)[:1] if values.get("id") or _ID_CHARACTER.search(name)
    ]
    why = sigil.body or values.get("reason", "")
    if not names:
        return {"": why} if why else {}
    if not values.get("id"):
        why = why[why.find(names[0]) + len(names[0]) :].lstrip("`*\"':;.,() \t\n-–—")
    return {names[0]: why}


def _values(attributes: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, *quoted in _ATTRIBUTE.findall(attributes):
        values.setdefault(name.lower(), html.unescape(next(filter(None, quoted), "")))
    return values


def _without_repeats(
    sigils: list[_Sigil], answer: str, prompt: str, outputs: Sequence[str]
) -> list[_Sigil]:
    """A repeat of the prompt is the same text beside the same text."""
    texts: set[str] = set()
    lines: set[str] = set()
    neighbours: set[tuple[str, str]] = set()
    bodies: set[str] = set()
    for sigil in _paired(prompt, _tags(prompt)):
        text = _one_line(prompt[sigil.start : sigil.end])
        line, above, below = _echo_position(prompt, sigil)
        texts.add(text)
        lines.add(line)
        neighbours.update(((text, above), (text, below)))
        bodies.add(_one_line(sigil.body))
    printed = [
        _LINE_PREFIX.sub("", output.replace("\\n", "\n")) for output in outputs
    ]  # JSON escapes line ends
    printed_sigils: set[str] = set()
    for output in printed:
        inside = _outermost(_paired(output, _tags(output)))
        bodies.update(_one_line(sigil.body) for sigil in inside)
        printed_sigils.update(_fingerprint(output, sigil) for sigil in _alone(output, inside))
        bodies.update(line for line in map(_one_line, output.split("\n")) if " " in line)
    printed = [_one_line(output) for output in printed]

    def is_repeated(sigil: _Sigil) -> bool:
        if sigil.name in _LONG and (body := _one_line(sigil.body)):
            is_long = body.count(" ") + 1 >= _SHORTEST_REPEAT
            return body in bodies or (is_long and any(body in output for output in printed))
        if _fingerprint(answer, sigil) in printed_sigils:
            return True
        text = _one_line(answer[sigil.start : sigil.end])
        if text not in texts:
            return False
        line, *near = _echo_position(answer, sigil)
        return (
            line in lines
            if line != text
            else any(row and (text, row) in neighbours for row in near)
        )

    return [sigil for sigil in sigils if not is_repeated(sigil)]


def _fingerprint(text: str, sigil: _Sigil) -> str:
    return "".join(text[sigil.start : sigil.end].split()).lower().replace("_", "-")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _echo_position(text: str, sigil: _Sigil) -> tuple[str, str, str]:
    low = max(0, sigil.start - _BESIDE)
    high = sigil.end + _BESIDE
    first = text.rfind("\n", low, sigil.start) + 1 or low
    last = text.find("\n", sigil.end, high)
    end = min(high, len(text)) if last < 0 else last
    above, below = (
        [
            row
            for row in map(_one_line, part.split("\n"))
            if row and not row.startswith(("```", "~~~")) and not _TAG.fullmatch(row)
        ]
        for part in (text[max(0, first - _BESIDE) : first], text[end : end + _BESIDE])
    )
    return _one_line(text[first:end]), above[-1] if above else "", below[0] if below else ""
