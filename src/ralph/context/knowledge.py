"""Which knowledge belongs to a piece of work, and its section in a prompt.

An entry is matched by its tags: +2 for a tag in the words of the task, +2 for the name of the feature, +1 for a tag in
the paths of changed files. Words are compared as search compares them; a tag of several words must occur as a phrase
(`error-handling` is also `errorHandling`), and a Korean, Chinese or Japanese tag may be part of a word. Linked entries
follow with half of the score for each hop. Entries are complete, as many as fit.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ralph.context.render import clean, one_line
from ralph.context.tokens import estimate
from ralph.formats.text import LineRole, fence_mark, parse_heading, scan_lines
from ralph.model.record import Record
from ralph.search import terms

HEADING = "## Project Knowledge"
BUDGET = 2000
"""Tokens for the section."""
HOPS = 2
_TASK, _FEATURE, _FILES, _DECAY = 2.0, 2.0, 1.0, 0.5
_SHORT = 2  # shorter words of a path say nothing
_JOINTS = re.compile(r"[_\-./:@\\]+")
_PARTICLES = frozenset("은는이가을를의에로와과도만")
_PATH_END = " | "  # no term has this character, so no phrase spans two paths


@dataclass(frozen=True, slots=True)
class Work:
    """What is being worked on: the task's words, the names of its feature, and the files that were changed last."""

    words: str = ""
    features: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that belongs to the work: its score, the reasons, and how many links away from a match it is."""

    record: Record
    score: float
    why: tuple[str, ...]
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Rendered:
    """The section, and how many entries it shows and leaves out."""

    text: str
    shown: int
    left_out: int


def match(entries: Sequence[Record], work: Work) -> list[Match]:
    """The entries whose tags belong to the work, the best first; equal ones in their order."""
    task, paths = _TagFinder([work.words]), _TagFinder(work.files)
    features = {_slug(name) for name in work.features} - {""}
    matches = []
    for record in entries:
        score, why = 0.0, []
        for tag in record.tags:
            for points, matched, reason in (
                (_TASK, task.contains(tag), "in the task"),
                (_FEATURE, _slug(tag) in features, "is the feature"),
                (_FILES, paths.contains(tag, longer_than=_SHORT), "in a changed file's path"),
            ):
                if matched:
                    score += points
                    why.append(f"{tag} {reason} +{points:g}")
        if score:
            matches.append(Match(record, score, tuple(why)))
    return sorted(matches, key=lambda match: -match.score)


def expand(matches: Sequence[Match], entries: Sequence[Record], hops: int = HOPS) -> list[Match]:
    """The matches, and behind them what they link to, and what that links to; each entry once, by its best way."""
    titles = Titles(entries)
    reached = {match.record.id for match in matches}
    linked: list[Match] = []
    edge = list(matches)
    for hop in range(1, hops + 1):
        nearest: dict[str, Match] = {}
        for source in edge:
            score = source.score * _DECAY
            for target in titles.targets(source.record):
                if target.id not in reached and score > getattr(nearest.get(target.id), "score", 0.0):
                    nearest[target.id] = Match(target, score, (f"linked from {source.record.title}",), hop)
        reached |= nearest.keys()
        edge = list(nearest.values())
        linked += edge
    return [*matches, *sorted(linked, key=lambda match: -match.score)]


def render(records: Sequence[Record], budget: int = BUDGET) -> Rendered:
    """The section with as many entries as fit, in their order (0: all of them); "" when none does."""
    blocks = [_block(record) for record in records]
    text = _section(blocks, 0)
    if not budget or estimate(text) <= budget:
        return Rendered(text, len(blocks), 0)
    kept: list[str] = []
    for block in blocks:
        if estimate(_section([*kept, block], len(blocks))) <= budget:
            kept.append(block)
    text = _section(kept, len(blocks) - len(kept))
    while kept and estimate(text) > budget:  # a smaller number in the note may cost more
        kept.pop()
        text = _section(kept, len(blocks) - len(kept))
    return Rendered(text, len(kept), len(blocks) - len(kept))


def _section(blocks: Sequence[str], left_out: int) -> str:
    if not blocks:
        return ""
    note = f"_{left_out} more did not fit: `ralph context --knowledge` shows them._\n" if left_out else ""
    return "\n".join([f"{HEADING}\n", *blocks, *filter(None, [note])])


def _block(record: Record) -> str:
    """An entry whose body stays below its title: headings three levels down, and an open fence closed."""
    body = clean(record.text).strip()
    if any(mark in body for mark in ("#", "```", "~~~")):
        lines, closer = [], ""
        for line in scan_lines(body):
            heading = parse_heading(line)
            lines.append(("#" * min(3, 6 - heading[0]) if heading is not None else "") + line.text)
            if line.role is LineRole.UNCLOSED:
                closer = closer or fence_mark(line.text.lstrip())
        body = "\n".join([*lines, *filter(None, [closer])])
    return f"### {one_line(record.title)}\n_Tags: {', '.join(map(one_line, record.tags))}_\n\n{body}\n"


# --- tags and words ----------------------------------------------------------------------------


class _TagFinder:
    """The words of some texts, in which tags are looked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        texts = list(texts)
        rows = [" ".join(_pieces(text, parts=parts)) for text in texts for parts in (False, True)]
        self._phrases = f" {_PATH_END.join(rows)} "
        words = {word for text in texts for word in terms.split_words(_normalized(text))}
        self._terms = {term for word in words for term in terms.word_terms(word)}
        self._low = "\n".join(terms.fold(text) for text in texts)

    def contains(self, tag: str, longer_than: int = 0) -> bool:
        """Whether a tag occurs; of a single word, only when it is longer than that."""
        folded = terms.fold(_normalized(tag))
        if terms.is_cjk(folded):
            return self._contains_cjk(folded)
        pieces = list(_pieces(folded))
        joined = "".join(_JOINTS.sub(" ", folded).split())
        if not pieces or (len(pieces) == 1 and len(joined) <= longer_than):
            return False
        if f" {' '.join(pieces)} " in self._phrases:
            return True
        return len(joined) > 3 and not self._terms.isdisjoint((joined, *terms.word_terms(joined)[:1]))

    def _contains_cjk(self, tag: str) -> bool:
        """Whether the tag is part of a word; a single character only alone or with a particle."""
        parts = re.findall(r"[^\W_]+", tag)
        if not parts:
            return False
        if len("".join(parts)) > 1:
            return re.search(r"[\W_]{0,3}".join(map(re.escape, parts)), self._low) is not None
        runs = re.findall(r"[^\W_]+", self._low)
        return any(run == parts[0] or (run[:-1] == parts[0] and run[-1] in _PARTICLES) for run in runs)


def _pieces(text: str, *, parts: bool = False) -> Iterator[str]:
    """A text's words as terms, in order; with `parts`, those of `camelCase` instead."""
    for word in terms.split_words(_normalized(text)):
        for piece in filter(None, _JOINTS.split(word) if word[-1].isalnum() else [word]):
            found = terms.word_terms(piece)
            yield from found if terms.is_cjk(piece) else found[1:] if parts and len(found) > 1 else found[:1]


def _normalized(text: str) -> str:
    return terms.unaccented(text.encode("utf-8", "ignore").decode("utf-8"))


def _slug(name: str) -> str:
    return " ".join(_pieces(terms.fold(_normalized(name))))


# --- links -------------------------------------------------------------------------------------


class Titles:
    """Entries by what a link may call them: the title in any case, else the name of the file."""

    def __init__(self, entries: Iterable[Record]) -> None:
        self._by_title: dict[str, Record] = {}
        self._by_name: dict[str, Record] = {}
        for record in entries:
            self._by_title.setdefault(_folded(record.title), record)
            for name in (record.id, record.id.removeprefix("know-")):
                self._by_name.setdefault(_folded(name), record)

    def find(self, name: str) -> Record | None:
        """The entry that a link or a person means; `Title#part` and `Title|other words` mean the title."""
        for spelling in (name, name.partition("|")[0], name.partition("|")[0].partition("#")[0]):
            folded = _folded(spelling)
            if record := self._by_title.get(folded) or self._by_name.get(folded):
                return record
        return None

    def targets(self, record: Record) -> list[Record]:
        """The other entries that one links to, each once, in order."""
        linked = (self.find(link.target) for link in record.links if link.relation == "links_to")
        return list({entry.id: entry for entry in linked if entry is not None and entry.id != record.id}.values())


def _folded(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())
