"""Choose the knowledge that is relevant to a piece of work, and render it as a prompt section.

An entry is matched by its tags. A tag scores +2 if it occurs in the task's words, +2 if it is the
name of the feature, and +1 if it occurs in the path of a changed file. Words are compared as in
search, and a tag of several words must occur as a phrase. Linked entries follow, at half the score
for each hop. The section contains as many whole entries as fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ralph.core import terms
from ralph.core.record import Record, record_marks
from ralph.core.render import clean, one_line
from ralph.core.text import LineRole, fence_mark, parse_heading, scan_lines
from ralph.core.tokens import estimate
from ralph.formats.knowledge_text import fold_title

HEADING = "## Project Knowledge"
BUDGET = 2000  # tokens in the section
HOPS = 2  # how many links to follow from a match

_TASK_POINTS = 2.0
_FEATURE_POINTS = 2.0
_FILE_POINTS = 1.0
_DECAY_PER_HOP = 0.5
_MIN_PATH_TAG_CHARACTERS = 3  # shorter one-word tags are not looked up in paths
_MIN_JOINED_CHARACTERS = 4  # shorter tags are not also looked up as one word
_HEADING_SHIFT = 3  # levels by which an entry's headings move down to stay below its title
_MAX_HEADING_LEVEL = 6
_JOINTS = re.compile(r"[_\-./:@\\]+")
_KOREAN_PARTICLE = "[은는이가을를의에로와과도만]"
_CJK_GAP = r"[\W_]{0,3}"  # may occur between the parts of a CJK tag


class Work(NamedTuple):
    """A piece of work: the task's words, the names of its feature, and the changed files."""

    words: str = ""
    features: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Match(NamedTuple):
    """A relevant entry, with its score, the reasons for it, and its distance in links."""

    record: Record
    score: float
    why: tuple[str, ...]
    hops: int = 0


# --- matching ------------------------------------------------------------------------------------


def match(entries: Sequence[Record], work: Work) -> list[Match]:
    """Return the entries whose tags match the work, best first. Ties keep their order."""
    task = _TagFinder([work.words])
    paths = _TagFinder(work.files)
    features = {_normal_name(name) for name in work.features} - {""}
    matches = []
    for record in entries:
        score = 0.0
        why = []
        for tag in record.tags:
            if task.contains(tag):
                score += _TASK_POINTS
                why.append(f"{tag} in the task +{_TASK_POINTS:g}")
            if _normal_name(tag) in features:
                score += _FEATURE_POINTS
                why.append(f"{tag} is the feature +{_FEATURE_POINTS:g}")
            if paths.contains(tag, least=_MIN_PATH_TAG_CHARACTERS):
                score += _FILE_POINTS
                why.append(f"{tag} in a changed file's path +{_FILE_POINTS:g}")
        if score:
            matches.append(Match(record, score, tuple(why)))
    return sorted(matches, key=lambda found: -found.score)


def expand(matches: Sequence[Match], entries: Sequence[Record], hops: int = HOPS) -> list[Match]:
    """Append the entries that the matches link to, following links for up to `hops` steps.

    Each entry is added once, through the link that gives it the highest score.
    """
    titles = Titles(entries)
    reached = {found.record.id for found in matches}
    linked: list[Match] = []
    edge = list(matches)
    for hop in range(1, hops + 1):
        nearest: dict[str, Match] = {}
        for source in edge:
            score = source.score * _DECAY_PER_HOP
            for target in titles.targets(source.record):
                if target.id in reached:
                    continue
                known = nearest.get(target.id)
                if score > 0 and (known is None or score > known.score):
                    why = (f"linked from {source.record.title}",)
                    nearest[target.id] = Match(target, score, why, hop)
        reached |= nearest.keys()
        edge = list(nearest.values())
        linked += edge
    return [*matches, *sorted(linked, key=lambda found: -found.score)]


class _TagFinder:
    """Finds tags in a set of strings."""

    def __init__(self, texts: Sequence[str]) -> None:
        phrases: list[str] = []
        self._terms: set[str] = set()
        for text in texts:
            phrases.append(" ".join(_pieces(text)))
            phrases.append(" ".join(_pieces(text, parts=True)))
            for word in terms.split_words(_normalized(text)):
                self._terms.update(terms.word_terms(word))
        # No term contains `|`, so no phrase can span two texts.
        self._phrases = f" {' | '.join(phrases)} "
        self._folded = "\n".join(terms.fold(text) for text in texts)

    def contains(self, tag: str, least: int = 0) -> bool:
        """Return whether a tag occurs.

        A one-word tag with fewer than `least` characters never does.
        """
        folded = terms.fold(_normalized(tag))
        if terms.is_cjk(folded):
            return self._contains_cjk(folded)
        pieces = list(_pieces(folded))
        joined = "".join(_JOINTS.sub(" ", folded).split())
        if not pieces or (len(pieces) == 1 and len(joined) < least):
            return False
        if f" {' '.join(pieces)} " in self._phrases:
            return True
        if len(joined) < _MIN_JOINED_CHARACTERS:
            return False
        spellings = (joined, *terms.word_terms(joined)[:1])
        return not self._terms.isdisjoint(spellings)

    def _contains_cjk(self, folded: str) -> bool:
        """Return whether a CJK tag occurs, either as a word or inside one.

        A single character must stand alone or be followed only by a particle.
        """
        parts = [re.escape(part) for part in re.findall(r"[^\W_]+", folded)]
        letters = "".join(parts)
        if not letters:
            return False
        pattern = _CJK_GAP.join(parts)
        if len(letters) == 1:
            pattern = rf"\b{letters}{_KOREAN_PARTICLE}?\b"
        return re.search(pattern, self._folded) is not None


def _pieces(text: str, *, parts: bool = False) -> Iterator[str]:
    """Yield the words of a string as terms, in order.

    With `parts`, yield the parts of a `camelCase` word instead of the word.
    """
    for word in terms.split_words(_normalized(text)):
        pieces = [word]
        if word[-1].isalnum():
            pieces = _JOINTS.split(word)
        for piece in filter(None, pieces):
            names = terms.word_terms(piece)
            if terms.is_cjk(piece):
                yield from names
            elif parts and len(names) > 1:
                yield from names[1:]
            else:
                yield from names[:1]


def _normalized(text: str) -> str:
    return terms.unaccented(text.encode("utf-8", "ignore").decode("utf-8"))


def _normal_name(name: str) -> str:
    return " ".join(_pieces(terms.fold(_normalized(name))))


# --- rendering -----------------------------------------------------------------------------------


def render(records: Sequence[Record], budget: int = BUDGET) -> str:
    """Render the section with as many entries as fit, in the given order.

    Returns "" if none fits. A budget of 0 means no limit.
    """
    blocks = [_block(record) for record in records]
    text = _join(blocks, omitted=0)
    if not budget or estimate(text) <= budget:
        return text
    shown: list[str] = []
    for block in blocks:
        longer = [*shown, block]
        if estimate(_join(longer, omitted=len(blocks) - len(longer))) <= budget:
            shown = longer
    return _join(shown, omitted=len(blocks) - len(shown))


def _join(blocks: Sequence[str], omitted: int) -> str:
    if not blocks:
        return ""
    lines = [f"{HEADING}\n", *blocks]
    if omitted:
        lines.append(
            f"_{omitted} more did not fit: `ralph memory list --in knowledge` lists them._\n"
        )
    return "\n".join(lines)


def _block(record: Record) -> str:
    """Render an entry so that its body stays below its title."""
    body = clean(record.text).strip()
    if any(mark in body for mark in ("#", "```", "~~~")):
        body = _lower_headings(body)
    tags = ", ".join(map(one_line, record.tags))
    return f"### {record_marks(record)}{one_line(record.title)}\n_Tags: {tags}_\n\n{body}\n"


def _lower_headings(body: str) -> str:
    """Move the headings in a body three levels down, and close a fence that is left open."""
    lines = []
    closing_fence = ""
    for line in scan_lines(body):
        heading = parse_heading(line)
        shift = 0
        if heading is not None:
            level = heading[0]
            shift = min(_HEADING_SHIFT, _MAX_HEADING_LEVEL - level)
        lines.append("#" * shift + line.text)
        if line.role is LineRole.UNCLOSED and not closing_fence:
            closing_fence = fence_mark(line.text.lstrip())
    if closing_fence:
        lines.append(closing_fence)
    return "\n".join(lines)


# --- links ---------------------------------------------------------------------------------------


class Titles:
    """Looks up entries by title, ignoring case, or by file name."""

    def __init__(self, entries: Iterable[Record]) -> None:
        self._by_title: dict[str, Record] = {}
        self._by_name: dict[str, Record] = {}
        for record in entries:
            self._by_title.setdefault(fold_title(record.title), record)
            for name in (record.id, record.id.removeprefix("know-")):
                self._by_name.setdefault(fold_title(name), record)

    def find(self, name: str) -> Record | None:
        """Return the entry with this title or file name, or None.

        In `Title#part` and `Title|other words`, only the title counts.
        """
        target = name.partition("|")[0]
        for spelling in (name, target, target.partition("#")[0]):
            folded = fold_title(spelling)
            record = self._by_title.get(folded) or self._by_name.get(folded)
            if record is not None:
                return record
        return None

    def targets(self, record: Record) -> list[Record]:
        """Return the other entries that this entry links to, each once, in order."""
        found: dict[str, Record] = {}
        for link in record.links:
            if link.relation != "links_to":
                continue
            entry = self.find(link.target)
            if entry is not None and entry.id != record.id:
                found[entry.id] = entry
        return list(found.values())
