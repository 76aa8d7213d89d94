"""Read sigils, the tags with which an agent reports what it did and learned.

A sigil is an opening tag, a body and a closing tag in the agent's answer:

    <journal>Fixed the parser and added a test.</journal>
    <knowledge title="Running tests" tags="tests, ci">Run `make gen` first.</knowledge>
    <task-done>t-1a2b3c</task-done>

This answer is read as

    Sigils(
        journal="Fixed the parser and added a test.",
        knowledge=(KnowledgeSigil("Running tests", ("tests", "ci"), "Run `make gen` first."),),
        done=("t-1a2b3c",),
    )

An answer is read in three steps. The tags are found and paired, except for those in examples
(`sigil_tags`). Sigils that the agent only repeats from its prompt or from the output of a tool are
dropped (`sigil_repeats`). The others are interpreted here.

Some sigils are decisive: they report that a task is done or verified. They count only if they are
alone on a line of the agent's last message. A sigil that does not count is kept in `ignored` with
the reason, so that the agent and its user learn about it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from ralph.formats.knowledge_text import clean_tags
from ralph.formats.sigil_repeats import Sources, is_repeated, read_sources
from ralph.formats.sigil_tags import (
    Sigil,
    Tag,
    alone_on_line,
    find_tags,
    outermost,
    pair_tags,
    unclosed_journal,
    unclosed_tags,
    visible_tags,
)

COMPLETE = "COMPLETE"
FAILURE = "FAILURE"

_DECISIVE = ("task-done", "story-done", "promise", "verify-pass", "verify-fail")
"""Sigils that decide a task's fate. They must be alone on a line of the last message."""

# name="value", name='value', name=“value” or name=value
_ATTRIBUTE = re.compile(
    r"""([\w:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|“([^”]*+)”|([^\s"'“<>/,]++))""", re.ASCII
)
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}", re.ASCII)
_TASK = re.compile(r"[^\W_][\w.-]{0,99}")
_ID_CHARACTER = re.compile(r"[\d_.-]")  # an id has one, a word in a sentence does not
_AROUND_TASK_ID = "`*\"':;.()"
_AROUND_REASON = "`*\"':;.,() \t\n-–—"
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


class WhyIgnored(StrEnum):
    """Why a sigil does not count, and what the agent should do, as a part of a sentence."""

    PROSE = "there are other words on its line; write it alone on a line"
    EXAMPLE = "it is in a quotation or in a code block with other text; write it outside"
    UNCLOSED = "its closing tag is missing"
    EARLY = "it is not in the last message; repeat it there"
    REPEATED = "a tool printed the same text in this iteration; use other words around it"


class IgnoredSigil(NamedTuple):
    """A sigil that does not count."""

    name: str
    body: str
    why: WhyIgnored

    @property
    def remark(self) -> str:
        """A sentence for the agent and its user.

        It contains the body only if that is an id. Anything else may be somebody else's text.
        """
        text = f"<{self.name}>"
        if self.name in ("task-done", "story-done") and _TASK.fullmatch(self.body):
            text = f"<{self.name}>{self.body}</{self.name}>"
        return f"{text} does not count: {self.why}"


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
    stories: tuple[str, ...] = ()  # the stories that are done
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)  # the reason for each task
    promise: str = ""
    next_model: str = ""
    verified: bool | None = None  # None without a verdict, False if there are two different ones
    reason: str = ""  # why the verification failed
    ignored: tuple[IgnoredSigil, ...] = field(default=(), compare=False)  # they mean nothing


def read_sigils(
    answer: str,
    *,
    prompt: str = "",
    tool_outputs: Sequence[str] = (),
    last_message_start: int = 0,
) -> Sigils:
    """Read the sigils in an agent's answer.

    Sigils that only repeat the prompt or the output of a tool are ignored. `last_message_start` is
    the position at which the last message of the answer begins.
    """
    tags = list(find_tags(answer))
    if not tags:
        return Sigils()
    visible = visible_tags(answer, tags)
    sigils = outermost([*pair_tags(answer, visible), *unclosed_journal(answer, visible)])
    alone = set(alone_on_line(answer, sigils))
    sources = read_sources(prompt, tool_outputs)
    counting: list[Sigil] = []
    ignored = list(_find_hidden(answer, tags, visible, sources))
    for sigil in sigils:
        why = None
        if sigil.name in _DECISIVE and sigil not in alone:
            why = WhyIgnored.PROSE
        elif sigil.name in _DECISIVE and sigil.start < last_message_start:
            why = WhyIgnored.EARLY
        elif is_repeated(sigil, answer, sources):
            why = WhyIgnored.REPEATED
        if why is None:
            counting.append(sigil)
        elif why is not WhyIgnored.REPEATED or sigil.name in _DECISIVE:
            ignored.append(IgnoredSigil(sigil.name, sigil.body, why))
    return replace(_interpret(counting), ignored=tuple(ignored))


def _find_hidden(
    answer: str, tags: Sequence[Tag], visible: Sequence[Tag], sources: Sources
) -> Iterator[IgnoredSigil]:
    """Yield the sigils in examples and quotations, and those that are not closed.

    What only repeats the prompt or a tool is left out: the agent does not claim anything with it.
    """
    visible_starts = {tag.start for tag in visible}
    hidden = [tag for tag in tags if tag.start not in visible_starts]
    for sigil in outermost(pair_tags(answer, hidden)):
        if not is_repeated(sigil, answer, sources):
            yield IgnoredSigil(sigil.name, sigil.body, WhyIgnored.EXAMPLE)
    for tag in unclosed_tags(visible):
        if tag.name not in ("journal", "verify-pass"):  # these count without a closing tag
            yield IgnoredSigil(tag.name, "", WhyIgnored.UNCLOSED)


def without_sigils(text: str) -> str:
    """Remove sigils, including their bodies, and unpaired tags. Examples in code are kept."""
    if "<" not in text:
        return text
    tags = visible_tags(text, list(find_tags(text)))
    if not tags:
        return text
    spans = [(sigil.start, sigil.end) for sigil in pair_tags(text, tags)]
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


def _interpret(sigils: Iterable[Sigil]) -> Sigils:
    journal = promise = model = reason = ""
    verified: bool | None = None
    knowledge: list[KnowledgeSigil] = []
    finished: dict[str, None] = {}
    stories: dict[str, None] = {}
    failed: dict[str, str] = {}
    for sigil in sigils:
        match sigil.name:
            case "journal":
                journal = sigil.body or journal
            case "knowledge":
                knowledge.append(_read_knowledge(sigil))
            case "task-done":
                finished.update(dict.fromkeys(_task_ids(sigil)))
            case "story-done":
                stories.update(dict.fromkeys(_task_ids(sigil)))
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
        journal=journal,
        knowledge=tuple(knowledge),
        done=tuple(finished),
        stories=tuple(stories),
        failed=failed,
        promise=promise,
        next_model=model,
        verified=verified,
        reason=reason,
    )


def _read_knowledge(sigil: Sigil) -> KnowledgeSigil:
    values = _read_attributes(sigil.attributes)
    title = " ".join(values.get("title", "").split())
    tags = clean_tags(values.get("tags", values.get("tag", "")).split(","))
    return KnowledgeSigil(title, tags, sigil.body)


def _read_promise(sigil: Sigil) -> str:
    word = sigil.body.strip(" \t\n.!").upper()
    return word if word in (COMPLETE, FAILURE) else ""


def _read_model(sigil: Sigil) -> str:
    word = sigil.body.strip("`")
    return word if _MODEL.fullmatch(word) else ""


def _task_ids(sigil: Sigil) -> list[str]:
    """Return the ids of the tasks that a sigil refers to.

    If the body is a sentence, only its first word can be an id.
    """
    text = _read_attributes(sigil.attributes).get("id", "") or sigil.body
    parts = [part.split() for part in text.split(",") if part.strip()]
    first_words = [words[0].strip(_AROUND_TASK_ID) for words in parts]
    if any(len(words) > 1 for words in parts):
        first = first_words[0]
        if _TASK.fullmatch(first) and _ID_CHARACTER.search(first):
            return [first]
        return []
    return [word for word in first_words if _TASK.fullmatch(word)]


def _read_failure(sigil: Sigil) -> dict[str, str]:
    """Return the task that failed, mapped to the reason.

    If no task is named, the key is "", which stands for the current task, so that the failure is
    not lost.
    """
    values = _read_attributes(sigil.attributes)
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


def _read_attributes(attributes: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, double, single, curly, unquoted in _ATTRIBUTE.findall(attributes):
        value = double or single or curly or unquoted
        values.setdefault(name.lower(), html.unescape(value))
    return values
