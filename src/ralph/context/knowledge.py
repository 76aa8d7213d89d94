"""Which knowledge belongs to a piece of work, and its section in a prompt.

An entry is matched by its tags: +2 for a tag in the words of the task, +2 for the name of the feature, +1 for a tag in
the paths of changed files. Words are compared as search compares them; a tag of several words must occur as a phrase.
Linked entries follow with half of the score for each hop. Entries are complete, as many as fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ralph.context.render import clean, one_line
from ralph.context.tokens import estimate
from ralph.formats.knowledge import fold_title
from ralph.formats.text import LineRole, fence_mark, parse_heading, scan_lines
from ralph.model.record import Record
from ralph.search import terms

HEADING = "## Project Knowledge"
BUDGET = 2000  # tokens for the section
HOPS = 2
_TASK = 2.0
_FEATURE = 2.0
_FILES = 1.0
_DECAY = 0.5
_JOINTS = re.compile(r"[_\-./:@\\]+")


class Work(NamedTuple):
    """What is being worked on: the task's words, the names of its feature, and the files that were changed last."""

    words: str = ""
    features: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Match(NamedTuple):
    """An entry that belongs to the work: its score, the reasons, and how many links away from a match it is."""

    record: Record
    score: float
    why: tuple[str, ...]
    hops: int = 0


def match(entries: Sequence[Record], work: Work) -> list[Match]:
    """Return the entries whose tags belong to the work, the best first; equal ones in their order."""
    task = _TagFinder([work.words])
    paths = _TagFinder(work.files)
    features = {_slug(name) for name in work.features} - {""}
    matches = []
    for record in entries:
        score = 0.0
        why = []
        for tag in record.tags:
            for points, matched, reason in (
                (_TASK, task.contains(tag), "in the task"),
                (_FEATURE, _slug(tag) in features, "is the feature"),
                (_FILES, paths.contains(tag, longer_than=2), "in a changed file's path"),
            ):
                if matched:
                    score += points
                    why.append(f"{tag} {reason} +{points:g}")
        if score:
            matches.append(Match(record, score, tuple(why)))
    return sorted(matches, key=lambda match: -match.score)


def expand(matches: Sequence[Match], entries: Sequence[Record], hops: int = HOPS) -> list[Match]:
    """Append what the matches link to, and what that links to; each entry once, by its best way."""
    titles = Titles(entries)
    reached = {match.record.id for match in matches}
    linked: list[Match] = []
    edge = list(matches)
    for hop in range(1, hops + 1):
        nearest: dict[str, Match] = {}
        for source in edge:
            score = source.score * _DECAY
            for target in titles.targets(source.record):
                if target.id not in reached and score > getattr(
                    nearest.get(target.id), "score", 0.0
                ):
                    nearest[target.id] = Match(
                        target, score, (f"linked from {source.record.title}",), hop
                    )
        reached |= nearest.keys()
        edge = list(nearest.values())
        linked += edge
    return [*matches, *sorted(linked, key=lambda match: -match.score)]


def render(records: Sequence[Record], budget: int = BUDGET) -> str:
    """Render the section with as many entries as fit, in their order (0: all of them); "" when none does."""
    blocks = [_block(record) for record in records]

    def join(shown: Sequence[str]) -> str:
        omitted = len(blocks) - len(shown)
        note = (
            [f"_{omitted} more did not fit: `ralph memory list --in knowledge` lists them._\n"]
            if omitted
            else []
        )
        return "\n".join([f"{HEADING}\n", *shown, *note]) if shown else ""

    if not budget or estimate(join(blocks)) <= budget:
        return join(blocks)
    shown: list[str] = []
    for block in blocks:
        if estimate(join([*shown, block])) <= budget:
            shown.append(block)
    return join(shown)


def _block(record: Record) -> str:
    """An entry whose body stays below its title: headings three levels down, and an open fence closed."""
    body = clean(record.text).strip()
    if any(mark in body for mark in ("#", "```", "~~~")):
        lines = []
        closer = ""
        for line in scan_lines(body):
            heading = parse_heading(line)
            lines.append(("#" * min(3, 6 - heading[0]) if heading is not None else "") + line.text)
            if line.role is LineRole.UNCLOSED:
                closer = closer or fence_mark(line.text.lstrip())
        body = "\n".join([*lines, *filter(None, [closer])])
    return (
        f"### {one_line(record.title)}\n_Tags: {', '.join(map(one_line, record.tags))}_\n\n{body}\n"
    )


class _TagFinder:
    def __init__(self, texts: Sequence[str]) -> None:
        rows = [" ".join(_pieces(text, parts=parts)) for text in texts for parts in (False, True)]
        self._phrases = (
            f" {' | '.join(rows)} "  # no term has this character, so no phrase spans two paths
        )
        words = {word for text in texts for word in terms.split_words(_normalized(text))}
        self._terms = {term for word in words for term in terms.word_terms(word)}
        self._low = "\n".join(terms.fold(text) for text in texts)

    def contains(self, tag: str, longer_than: int = 0) -> bool:
        """Whether a tag occurs; of a single word, only when it is longer than that."""
        folded = terms.fold(_normalized(tag))
        if terms.is_cjk(folded):  # part of a word; a single character only alone or with a particle
            parts = list(map(re.escape, re.findall(r"[^\W_]+", folded)))
            letters = "".join(parts)
            pattern = (
                r"[\W_]{0,3}".join(parts)
                if len(letters) > 1
                else rf"\b{letters}[은는이가을를의에로와과도만]?\b"
            )
            return bool(letters) and re.search(pattern, self._low) is not None
        pieces = list(_pieces(folded))
        joined = "".join(_JOINTS.sub(" ", folded).split())
        if not pieces or (len(pieces) == 1 and len(joined) <= longer_than):
            return False
        if f" {' '.join(pieces)} " in self._phrases:
            return True
        return len(joined) > 3 and not self._terms.isdisjoint(
            (joined, *terms.word_terms(joined)[:1])
        )


def _pieces(text: str, *, parts: bool = False) -> Iterator[str]:
    """Yield a text's words as terms, in order; with `parts`, those of `camelCase` instead."""
    for word in terms.split_words(_normalized(text)):
        for piece in filter(None, _JOINTS.split(word) if word[-1].isalnum() else [word]):
            names = terms.word_terms(piece)
            yield from (
                names
                if terms.is_cjk(piece)
                else names[1:]
                if parts and len(names) > 1
                else names[:1]
            )


def _normalized(text: str) -> str:
    return terms.unaccented(text.encode("utf-8", "ignore").decode("utf-8"))


def _slug(name: str) -> str:
    return " ".join(_pieces(terms.fold(_normalized(name))))


class Titles:
    """Entries by what a link may call them: the title in any case, else the name of the file."""

    def __init__(self, entries: Iterable[Record]) -> None:
        self._by_title: dict[str, Record] = {}
        self._by_name: dict[str, Record] = {}
        for record in entries:
            self._by_title.setdefault(fold_title(record.title), record)
            for name in (record.id, record.id.removeprefix("know-")):
                self._by_name.setdefault(fold_title(name), record)

    def find(self, name: str) -> Record | None:
        """Return the entry that a link or a person means; `Title#part` and `Title|other words` mean the title."""
        for spelling in (name, name.partition("|")[0], name.partition("|")[0].partition("#")[0]):
            folded = fold_title(spelling)
            if record := self._by_title.get(folded) or self._by_name.get(folded):
                return record
        return None

    def targets(self, record: Record) -> list[Record]:
        """Return the other entries that one links to, each once, in order."""
        linked = (self.find(link.target) for link in record.links if link.relation == "links_to")
        return list(
            {
                entry.id: entry for entry in linked if entry is not None and entry.id != record.id
            }.values()
        )
