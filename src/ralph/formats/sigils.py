"""Reader of sigils: the tags by which an agent reports what it did and learned.

Tags in code, comments and quotes are examples. What an agent copied from its prompt (`echo`) is
no report. A text of any size or form is read in linear time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.formats.knowledge import code_spans
from ralph.formats.text import scan_lines

COMPLETE, FAILURE = "COMPLETE", "FAILURE"
"""What an agent can promise."""

_TAG = re.compile(
    r"""<(?P<close>/)?
    (?P<name>journal|knowledge|task[-_]done|task[-_]failed|promise|next[-_]model|verify[-_]pass|verify[-_]fail)
    (?P<attributes>(?:[\s,]++[\w:.-]{1,50}+(?:\s*+=\s*+(?:
        "[^"]{0,2000}+" | '[^']{0,2000}+' | “[^”]{0,2000}+” | [^\s"'“<>/,]{1,200}+
    ))?+){0,20}+)
    [\s,]*+(?P<void>/)?\s*+>""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|“([^”]*+)”|([^\s"'“<>/,]++))""", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*+>", re.MULTILINE)
_LINE_ENDS = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}", re.ASCII)
_TASK = re.compile(r"[^\W_][\w.-]{0,99}")
_SIGN = re.compile(r"[\d_.-]")
"""What an id has and a word of a sentence has not."""
_LONG = ("journal", "knowledge", "verify-fail")
"""Sigils with words of their own: nobody says by chance just what the prompt says."""
_BESIDE = 200  # characters beside a short sigil that are compared with the prompt
_CANDIDATES = 4  # openings before one closing that are looked at in a prompt


@dataclass(frozen=True, slots=True)
class KnowledgeSigil:
    """What an agent wants to be known; it may lack a title, tags or words: whoever keeps it says so."""

    title: str
    tags: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Sigils:
    """Everything that an answer says by sigils.

    `failed` has the reason for each task; `verified` is None when there is no verdict, and False when there are
    both, with what is wrong as `reason`. Of what can be said once, the last counts.
    """

    journal: str = ""
    knowledge: tuple[KnowledgeSigil, ...] = ()
    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)
    promise: str = ""
    next_model: str = ""
    verified: bool | None = None
    reason: str = ""


class _Tag(NamedTuple):
    """One tag: where it stands, and whether it is the first thing on its line."""

    name: str
    start: int
    end: int
    closes: bool
    void: bool
    leads: bool
    attributes: str


class _Sigil(NamedTuple):
    """A sigil in a text: its name, what its opening says, where it stands, and its body."""

    name: str
    attributes: str
    start: int
    end: int
    body: str


def read_sigils(text: str, *, echo: str = "") -> Sigils:
    """What an answer says; `echo` is the prompt that it answers."""
    tags = list(_tags(text))
    if not tags:
        return Sigils()
    said = list(_outermost(_paired(text, _visible_tags(text, tags))))
    if said and echo:
        known = _Prompt(echo)
        said = [each for each in said if not known.has(text, each)]
    return _meaning(said)


# --- tags and what is only shown ---------------------------------------------------------------


def _tags(text: str) -> Iterator[_Tag]:
    for found in _TAG.finditer(text):
        start = found.start()
        bare = start
        while bare > 0 and start - bare < 8 and text[bare - 1] in " \t":
            bare -= 1
        leads = bare == 0 or text[bare - 1] == "\n"
        name = found["name"].lower().replace("_", "-")
        yield _Tag(name, start, found.end(), bool(found["close"]), bool(found["void"]), leads, found["attributes"])


def _visible_tags(text: str, tags: list[_Tag]) -> list[_Tag]:
    """The tags that are said, without those in fences, comments, inline code and quotes."""
    if not any(sign in text for sign in ("`", "~~~", "<!--")) and not _QUOTE.search(text):
        return tags
    kept: list[_Tag] = []
    number = 0
    for line in scan_lines(text):
        if number == len(tags):
            break
        if tags[number].start >= line.end:
            continue
        here = number
        while number < len(tags) and tags[number].start < line.end:
            number += 1
        goes_on = here > 0 and tags[here - 1].end > line.start  # then the line's `>` is a tag's end
        if line.is_markdown and (goes_on or not line.text.lstrip().startswith(">")):
            kept += _outside_code(line.text, line.start, tags[here:number])
    return kept


def _outside_code(line: str, start: int, tags: list[_Tag]) -> Iterator[_Tag]:
    spans = code_spans(line) if "`" in line else []
    at = 0
    for tag in tags:
        while at < len(spans) and start + spans[at][1] <= tag.start:
            at += 1
        if at == len(spans) or tag.start < start + spans[at][0]:
            yield tag


# --- sigils ------------------------------------------------------------------------------------


def _paired(text: str, tags: Iterable[_Tag], most: int = 1) -> Iterator[_Sigil]:
    """The sigils of these tags; with `most`, also those that other openings before the same closing would give."""
    waiting: dict[str, list[_Tag]] = {}
    for tag in tags:
        if tag.closes:
            for opening in _likely(waiting.pop(tag.name, []), most):
                body = text[opening.end : tag.start].replace("\r\n", "\n").strip()
                yield _Sigil(tag.name, opening.attributes, opening.start, tag.end, body)
        elif tag.void:
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")
        else:
            waiting.setdefault(tag.name, []).append(tag)
    for tag in waiting.pop("verify-pass", []):  # it has nothing inside, so that its end is easily forgotten
        if tag.leads and _LINE_ENDS.match(text, tag.end):
            yield _Sigil(tag.name, tag.attributes, tag.start, tag.end, "")


def _likely(openings: list[_Tag], most: int) -> list[_Tag]:
    """Which of several openings are meant: with attributes where they are needed, at a line's start, the last."""
    if len(openings) <= 1:
        return openings
    if most > 1:
        return openings[-most:]
    best = max(range(len(openings)), key=lambda at: (bool(openings[at].attributes.strip()), openings[at].leads, at))
    return [openings[best]]


def _outermost(sigils: Iterable[_Sigil]) -> Iterator[_Sigil]:
    """Those that do not begin within another one."""
    end = 0
    for each in sorted(sigils, key=lambda sigil: sigil.start):
        if each.start >= end:
            end = each.end
            yield each


def _meaning(said: Iterable[_Sigil]) -> Sigils:
    journal = promise = model = reason = ""
    verified: bool | None = None
    knowledge: list[KnowledgeSigil] = []
    done: dict[str, None] = {}
    failed: dict[str, str] = {}
    for each in said:
        match each.name:
            case "journal":
                journal = each.body or journal
            case "knowledge":
                knowledge.append(_knowledge(each))
            case "task-done":
                done.update((name, None) for name in _tasks(each))
            case "task-failed":
                failed.update(_failures(each))
            case "promise":
                word = each.body.strip(" \t\n.!").upper()
                promise = word if word in (COMPLETE, FAILURE) else promise
            case "next-model":
                word = each.body.strip("`")
                model = word if _MODEL.fullmatch(word) else model
            case "verify-pass":
                verified = verified is not False
            case "verify-fail":
                verified, reason = False, each.body or reason
    return Sigils(journal, tuple(knowledge), tuple(done), failed, promise, model, verified, reason)


def _knowledge(sigil: _Sigil) -> KnowledgeSigil:
    values = _values(sigil.attributes)
    tags = [" ".join(tag.lower().split()) for tag in values.get("tags", values.get("tag", "")).split(",")]
    return KnowledgeSigil(
        " ".join(values.get("title", "").split()), tuple(dict.fromkeys(filter(None, tags))), sigil.body
    )


def _tasks(sigil: _Sigil) -> list[str]:
    """The ids that a sigil names: its attribute, else its body, be it an id, a list, or an id and words about it."""
    named = _values(sigil.attributes).get("id", "") or sigil.body
    parts = [part.split() for part in named.split(",") if part.strip()]
    if any(len(part) > 1 for part in parts):
        first = _inner_text(parts[0][0])
        return [first] if _TASK.fullmatch(first) and _SIGN.search(first) else []
    return [word for part in parts if _TASK.fullmatch(word := _inner_text(part[0]))]


def _inner_text(word: str) -> str:
    return word.strip("`*\"':;.()")


def _failures(sigil: _Sigil) -> dict[str, str]:
    """The task that failed, and why: the body, without the id when it is not an attribute.

    One that names no task speaks of the one at hand: its name is "". A failure is not to be missed for a slip.
    """
    values = _values(sigil.attributes)
    names = [name for name in _tasks(sigil)[:1] if values.get("id") or _SIGN.search(name)]
    why = sigil.body or values.get("reason", "")
    if not names:
        return {"": why} if why else {}
    if not values.get("id"):
        why = why[why.find(names[0]) + len(names[0]) :].lstrip("`*\"':;.,() \t\n-–—")
    return {names[0]: why}


def _values(attributes: str) -> dict[str, str]:
    """Attributes by name; the first of a name counts."""
    found: dict[str, str] = {}
    for name, *quoted in _ATTRIBUTE.findall(attributes):
        found.setdefault(name.lower(), _ENTITY.sub(_resolved, next(filter(None, quoted), "")))
    return found


def _resolved(entity: re.Match[str]) -> str:
    if entity[1]:
        return _ENTITIES[entity[1]]
    code = int(entity[2]) if entity[2] else int(entity[3], 16)
    printable = 0x20 <= code < 0xD800 or 0xE000 <= code < 0x110000
    return chr(code) if printable else entity[0]


# --- echoes ------------------------------------------------------------------------------------


class _Prompt:
    """What a prompt says in the form of sigils, wherever it stands there, to know an echo of it."""

    def __init__(self, prompt: str) -> None:
        self._words: set[str] = set()
        self._lines: set[str] = set()
        self._beside: set[tuple[str, str]] = set()
        for each in _paired(prompt, _tags(prompt), _CANDIDATES):
            words = _plain_text(prompt[each.start : each.end])
            line, above, below = _echo_position(prompt, each)
            self._words.add(words)
            self._lines.add(line)
            self._beside.update(((words, above), (words, below)))

    def has(self, text: str, sigil: _Sigil) -> bool:
        """Whether a sigil of an answer repeats the prompt."""
        words = _plain_text(text[sigil.start : sigil.end])
        if words not in self._words:
            return False
        if sigil.name in _LONG and sigil.body:
            return True
        line, *beside = _echo_position(text, sigil)
        if line != words:
            return line in self._lines
        return any(near and (words, near) in self._beside for near in beside)


def _plain_text(text: str) -> str:
    return " ".join(text.split())


def _echo_position(text: str, sigil: _Sigil) -> tuple[str, str, str]:
    """The line on which a sigil stands, and the nearest words above and below it; all only as far as they are near."""
    low, high = max(0, sigil.start - _BESIDE), sigil.end + _BESIDE
    first = text.rfind("\n", low, sigil.start) + 1 or low
    last = text.find("\n", sigil.end, high)
    end = min(high, len(text)) if last < 0 else last
    above = _near(text[max(0, first - _BESIDE) : first].split("\n"))
    below = _near(text[end : end + _BESIDE].split("\n"))
    return _plain_text(text[first:end]), above[-1] if above else "", below[0] if below else ""


def _near(rows: Iterable[str]) -> list[str]:
    """The rows with words of their own: no fences, no tags alone."""
    texts = map(_plain_text, rows)
    return [row for row in texts if row and not row.startswith(("```", "~~~")) and not _TAG.fullmatch(row)]
