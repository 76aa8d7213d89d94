"""Find the tags of sigils in an agent's answer, and pair them.

    <journal>Fixed the parser.</journal>     an opening tag and a closing tag
    <verify-pass/>                           a void tag
    <Task_Done id="t-1">...</task-done>      accepted, because agents vary in their spelling

A tag that is in code, in a comment or in a quote is an example, and is called hidden. The exception
is a code block that contains nothing but sigils: some agents fence everything they report.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ralph.core.text import Line, LineRole, scan_lines
from ralph.formats.knowledge_text import code_spans

# The quantifiers are possessive, so that matching takes linear time on any answer.
TAG = re.compile(
    r"""<(?P<close>/)?
    (?P<name>journal|knowledge|task[-_]done|task[-_]failed|story[-_]done|promise
        |next[-_]model|verify[-_]pass|verify[-_]fail)
    (?P<attributes>(?>(?:
        [\s,]++[\w:.-]{1,50}+            # a name, such as `title`
        (?>\s*+=\s*+(?:                  # perhaps a value
            "[^"]{0,2000}+"              # "Running tests"
            | '[^']{0,2000}+'            # 'Running tests'
            | “[^”]{0,2000}+”            # “Running tests”
            | [^\s"'“<>/,]{1,200}+       # tests
        )|)
    ){0,20}))
    [\s,]*+(?P<void>/)?\s*+>""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_REST_OF_LINE = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_LETTER = re.compile(r"[^\W\d_]")
_MAX_INDENT = 8  # characters of whitespace before a tag that is first on its line


class Tag(NamedTuple):
    """An opening, closing or void tag. `leads` says that it is the first text on its line."""

    name: str
    start: int
    end: int
    closes: bool
    is_void: bool
    leads: bool
    attributes: str


class Sigil(NamedTuple):
    """A pair of tags, or a void tag, and the text between them without surrounding whitespace."""

    name: str
    attributes: str
    start: int
    end: int
    body: str


class _HiddenSpan(NamedTuple):
    start: int
    end: int


def find_tags(text: str) -> Iterator[Tag]:
    """Yield every tag of a sigil, including those in examples."""
    for match in TAG.finditer(text):
        yield Tag(
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


def visible_tags(text: str, tags: list[Tag]) -> list[Tag]:
    """Return the tags that are not in an example or a quote."""
    hidden = _hidden_spans(text, tags)
    starts = [span.start for span in hidden]
    visible: list[Tag] = []
    for tag in tags:
        number = bisect_right(starts, tag.start)
        if number == 0 or tag.start >= hidden[number - 1].end:
            visible.append(tag)
    return visible


def _hidden_spans(text: str, tags: Iterable[Tag]) -> list[_HiddenSpan]:
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
    for sigil in outermost(pair_tags(text, find_tags(text))):
        if text[end : sigil.start].strip():
            return False
        end = sigil.end
    return end > 0 and not text[end:].strip()


# --- sigils ------------------------------------------------------------------------------------


def pair_tags(text: str, tags: Iterable[Tag]) -> Iterator[Sigil]:
    """Yield a sigil for each closing tag that has an opening tag.

    If there are several opening tags, one with attributes is preferred, then one that comes first
    on its line, then the last.
    """
    waiting: dict[str, list[Tag]] = {}
    for tag in tags:
        if tag.is_void and not tag.closes:
            yield Sigil(tag.name, tag.attributes, tag.start, tag.end, "")
        elif not tag.closes:
            waiting.setdefault(tag.name, []).append(tag)
        elif tag.name in waiting:
            openings = waiting.pop(tag.name)
            opening = max(
                reversed(openings),
                key=lambda opening: (bool(opening.attributes.strip()), opening.leads),
            )
            body = text[opening.end : tag.start].replace("\r\n", "\n").strip()
            yield Sigil(tag.name, opening.attributes, opening.start, tag.end, body)
    for tag in waiting.get("verify-pass", []):  # has no body, so agents often forget to close it
        if tag.leads and _REST_OF_LINE.match(text, tag.end):
            yield Sigil(tag.name, tag.attributes, tag.start, tag.end, "")


def unclosed_tags(tags: Sequence[Tag]) -> Iterator[Tag]:
    """Yield the opening tags that lead their line and are never closed.

    A tag in the middle of a line is usually only mentioned.
    """
    last_closing = {tag.name: tag.start for tag in tags if tag.closes}
    for tag in tags:
        is_opening = tag.leads and not tag.closes and not tag.is_void
        if is_opening and tag.start > last_closing.get(tag.name, -1):
            yield tag


def unclosed_journal(text: str, tags: Sequence[Tag]) -> Iterator[Sigil]:
    """Yield the last journal if it was never closed, because the agent was cut off.

    It ends at the next tag, or at the end of the text.
    """
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
    yield Sigil("journal", opening.attributes, opening.start, end, body)


def outermost(sigils: Iterable[Sigil]) -> list[Sigil]:
    """Return the sigils that are not inside another sigil, in order."""
    outermost: list[Sigil] = []
    for sigil in sorted(sigils, key=lambda sigil: sigil.start):
        if not outermost or sigil.start >= outermost[-1].end:
            outermost.append(sigil)
    return outermost


def alone_on_line(text: str, sigils: Sequence[Sigil]) -> Iterator[Sigil]:
    """Yield the sigils that share their lines only with other sigils and punctuation.

    Several sigils may share a line. So the text before a sigil is clean if the text before the
    previous sigil on the same line is clean as well, and likewise for the text after it. That takes
    one pass in each direction.
    """
    is_line_start_clean: list[bool] = []
    is_clean = True
    end = 0
    for sigil in sigils:
        _, newline, before = text[end : sigil.start].rpartition("\n")
        is_clean = (is_clean or bool(newline)) and not _LETTER.search(before)
        is_line_start_clean.append(is_clean)
        end = sigil.end
    is_clean = True
    start = len(text)
    for sigil, is_start_clean in zip(reversed(sigils), reversed(is_line_start_clean), strict=True):
        after, newline, _ = text[sigil.end : start].partition("\n")
        is_clean = (is_clean or bool(newline)) and not _LETTER.search(after)
        start = sigil.start
        if is_clean and is_start_clean:
            yield sigil
