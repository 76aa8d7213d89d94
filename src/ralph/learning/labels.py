"""Find lessons that an agent has labelled as such.

Two forms count. The first is a bullet below a heading:

    ## Gotchas
    - vite needs `optimizeDeps.include` for linked packages

The second is a line that begins with a label:

    Decision: `argon2`, because bcrypt truncates at 72 bytes.
    Note for next time: run `make gen` before the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LABELS = (
    "gotcha",
    "decision",
    "convention",
    "pattern",
    "learning",
    "learned",
    "lesson",
    "noted",
    "discovery",
    "tip",
)
"""The words before a colon that make a line a lesson."""
_FOUND = r"(?:discovered|encountered|found|learned)"
_NOTE_FOR_LATER = r"notes?[ ]for[ ](?:next[ ]time|later|the[ ]future|future[ ]\w+)"
_HEADINGS = (*_LABELS, "discoverie", "note")
"""The words, without a plural s, that make the bullets below a heading lessons."""

_HEADING = re.compile(
    r"\s*(?:[-*+]\s+)?(?P<mark>#{1,6}\s*|\*{2})?(?:[\w-]+\s+){0,2}"
    rf"(?P<name>{'|'.join(_HEADINGS)})s?\b[^:*\n]{{0,40}}"
    r"(?P<end>:?\*{0,2}:?)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_LABEL = re.compile(
    rf"\s*(?:[-*+]\s+)?(?P<mark>[*_]*)(?P<name>{'|'.join(_LABELS)}|{_NOTE_FOR_LATER})"
    rf"(?:s?[ ]{_FOUND})?"
    r"(?P<closing>[*_]*:[*_]*)\s+(?P<text>\S.*)",
    re.IGNORECASE,
)
_SENTENCE_BREAK = re.compile(
    rf"(?<=[.!?])[ \t]+(?=(?:{'|'.join(_LABELS)}|{_NOTE_FOR_LATER}):\s)", re.IGNORECASE
)
"""The space between two sentences on a line, if the second one begins with a label."""
_CANONICAL_LABELS = {
    "discoverie": "learning",
    "discovery": "learning",
    "learned": "learning",
    "lesson": "learning",
    "noted": "learning",
}
_LISTED = ("learning", "gotcha", "decision", "convention", "pattern")
"""The labels of headings below which each bullet is a lesson."""
_SPECIFIC = re.compile(r"`|\d|\w[./_:]\w|\w-\w|[a-z][A-Z]|[A-Z]{2}|[^.!?:]\s[A-Z][a-z]")
"""Something specific: code, a number, a path, an identifier or a name inside a sentence."""
_WARNING = re.compile(
    r"""
      ^\W*(?:always|never|don[’']?t|do\ not|avoid|beware|(?:be\ )?careful|watch\ out|make\ sure)\b
    | \b(?:or|otherwise|else)\b[^.;]{0,80}\b(?:fail|break|crash|hang|los[et]|corrupt|error)
    | \b(?:fails?|breaks?|crash(?:es)?|hangs?)\ (?:if|unless|when|without|until)\b
    | ^\W*(?:항상|절대|반드시|주의)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""How a warning begins, or how it names the consequence of a mistake."""
_SOON_AFTER = r"(?:[ ](?:new|else|special|much|yet|so[ ]far|this[ ]time|to[ ]report|here))*"
_SMALL_TALK = re.compile(
    rf"""
      # no lesson, or a placeholder of the template
      (?:none|nothing|n/?a|tbd|todo|see[ ]above|same[ ]as[ ]before){_SOON_AFTER}
    | (?:there[ ](?:is|are|was|were)[ ])?no(?:[ ]\w+)?[ ]
      (?:{"|".join(_HEADINGS)}|problem|issue)s?(?:[ ]{_FOUND})?{_SOON_AFTER}
    | (?:{"|".join(_HEADINGS)}|useful[ ]context)s?(?:[ ]{_FOUND})?:?
      # a report of progress
    | (?:it|this|that|everything|all|all[ ](?:the[ ])?tests)(?:[ ]now)?[ ]
      (?:works?|pass(?:es)?|(?:looks?|is|are)[ ](?:done|good|fine|green))(?:[ ]\w+){{0,3}}
    | make[ ]sure[ ](?:that[ ])?(?:all|the)[ ](?:the[ ])?tests[ ]pass(?:[ ]\w+){{0,3}}
    | (?:all[ ])?(?:done|good|fine|green)
      # praise or advice without a fact
    | (?:\w+[ ]){{1,4}}(?:is|are)[ ](?:very[ ]|really[ ]|well[ ]|quite[ ])?
      (?:important|key|crucial|essential|helpful|good|great|nice|useful|clean|clear|structured
        |organi[sz]ed|documented|written|readable)
    | (?:\w+[ ]){{1,4}}(?:could|should)[ ]be[ ](?:better|cleaner|clearer|improved)(?:[ ]\w+)?
    | it[ ]helps[ ]to[ ]understand(?:[ ]\w+){{0,3}}
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A whole line that teaches nothing."""
_BANNER = re.compile(r"[>$]+[ ].*|[=*~-]{3,}.*")
"""A line that a tool printed above its output, such as `> shop@1.0.0 test`."""
_MIN_WORDS = 4
_MIN_LISTED_WORDS = 2  # of a lesson that its author listed as one, such as "Use pnpm"
_MIN_NON_ASCII_CHARACTERS = 10  # Chinese, Japanese and Korean use few or no spaces


class LabelledText(NamedTuple):
    """A lesson and its label, such as `gotcha`.

    `is_listed` tells whether its author listed it below a heading such as Learnings.
    """

    label: str
    text: str
    is_listed: bool = False


def headed_bullets(text: str) -> Iterator[LabelledText]:
    """Yield each bullet below a heading such as "Gotchas:", with a label for it."""
    label = ""
    outer_indent = 0
    bullets: list[str] = []
    for line in text.splitlines():
        heading = _heading_label(line)
        bullet = _BULLET.fullmatch(line)
        if label and bullet and heading is None:
            indent = len(bullet["indent"].expandtabs())
            if bullets and indent > outer_indent:
                bullets[-1] += f" {bullet['text'].strip()}"
            else:
                outer_indent = indent
                bullets.append(bullet["text"].strip())
        elif label and bullets and line[:1].isspace() and line.strip():
            bullets[-1] += f" {line.strip()}"
        elif line.strip():
            yield from _label_bullets(bullets, label)
            bullets = []
            label = heading or ""
    yield from _label_bullets(bullets, label)


def labelled_lines(text: str) -> Iterator[LabelledText]:
    """Yield each line or sentence that begins with a label such as "Gotcha:"."""
    for line in _SENTENCE_BREAK.sub("\n", text).splitlines():
        labelled = _LABEL.fullmatch(line)
        if labelled and not _HEADING.fullmatch(line):
            lesson = f"{labelled['name']}: {_without_emphasis(labelled)}"
            yield LabelledText(label_of(lesson), lesson)


def _without_emphasis(labelled: re.Match[str]) -> str:
    """Return the text after a label, without the end of an emphasis that began before it."""
    text = labelled["text"].strip()
    if labelled["closing"] == ":":
        return text.removesuffix(labelled["mark"])
    return text


def label_of(text: str, default: str = "learning") -> str:
    """Return the label at the beginning of a lesson, or `default` if it has none."""
    labelled = _LABEL.fullmatch(text.partition("\n")[0])
    name = labelled["name"].lower() if labelled is not None else default
    if name.startswith("note"):
        name = "learning"
    return _CANONICAL_LABELS.get(name, name)


def without_label(text: str) -> str:
    """Return a lesson without the label at its beginning, such as "Gotcha:"."""
    labelled = _LABEL.fullmatch(text.partition("\n")[0])
    if labelled is None:
        return text
    rest = text[labelled.start("text") :]
    if labelled["closing"] == ":":
        return rest.removesuffix(labelled["mark"])
    return rest


def titled_lesson(title: str, text: str) -> str:
    """Join a title and a lesson. A label that the title repeats or replaces is left out."""
    return f"{title}: {without_label(text)}"


def is_warning(text: str) -> bool:
    """Return whether a lesson warns of a mistake, so that it is a gotcha without being called so.

    Warnings are "Always use IF NOT EXISTS, or the second deploy fails" and "Don't forget types.ts".
    """
    return _WARNING.search(text) is not None


def is_substantial(text: str) -> bool:
    """Return whether a text can be a lesson.

    It must be long enough, and either have a label or name something specific, such as code, a path
    or a number.
    """
    has_words = len(text.split()) >= _MIN_WORDS
    is_long_non_ascii = not text.isascii() and len(text) >= _MIN_NON_ASCII_CHARACTERS
    if not has_words and not is_long_non_ascii:
        return False
    if _LABEL.fullmatch(text.partition("\n")[0]):
        return True
    return _SPECIFIC.search(text) is not None


def is_listed_lesson(text: str) -> bool:
    """Return whether a bullet below a heading such as Learnings is a lesson.

    Its author has called it one, so it need not name anything specific. Small talk, banners and
    placeholders are left out.
    """
    if is_substantial(text):
        return True
    plain = text.strip(" \t*_`")
    is_long_non_ascii = not plain.isascii() and len(plain) >= _MIN_NON_ASCII_CHARACTERS
    if len(plain.split()) < _MIN_LISTED_WORDS and not is_long_non_ascii:
        return False
    return not _BANNER.fullmatch(plain) and not _SMALL_TALK.fullmatch(plain.rstrip(" .!"))


def _heading_label(line: str) -> str | None:
    """Return the label that a heading gives its bullets, or None if the line is not a heading."""
    heading = _HEADING.fullmatch(line)
    if heading is None:
        return None
    if not heading["mark"] and ":" not in heading["end"]:
        return None
    name = heading["name"].lower()
    return _CANONICAL_LABELS.get(name, name)


def _label_bullets(bullets: Iterable[str], default: str) -> Iterator[LabelledText]:
    for bullet in bullets:
        yield LabelledText(label_of(bullet, default), bullet, default in _LISTED)
