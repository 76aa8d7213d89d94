"""Which knowledge belongs to a piece of work, and how it is handed over: pure functions over records.

An entry is matched by its tags: +2 for a tag that stands in the task's words, +2 for one that is the feature's
name, +1 for one in the paths of the files that were changed last. Words are compared as search compares them
(`search/terms.py`): punctuation, case and endings do not count, a tag of several words must stand there as a
phrase (`error-handling` is also `error handling` and `errorHandling`), and a Korean, Chinese or Japanese tag may
be part of a word, since particles and compounds are written without a space. What a matched entry links to comes
after all that matched, with half of the score a hop and two hops at most. Entries are handed over whole, as many
as fit. The same records in the same order give the same bytes. `tests/context/test_knowledge.py` proves it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralph.context.render import clean
from ralph.context.tokens import estimate
from ralph.formats.text import LineRole, fence_mark, parse_heading, scan_lines
from ralph.model.record import Record
from ralph.search import terms

HEADING = "## Project Knowledge"
BUDGET = 2000
"""Tokens for the section."""
HOPS = 2
_TASK, _FEATURE, _FILES, _DECAY = 2.0, 2.0, 1.0, 0.5
_SHORT = 2  # a word of a path says something when it is longer
_JOINTS = re.compile(r"[_\-./:@\\]+")
_PARTICLES = frozenset("은는이가을를의에로와과도만")
_PATH_END = " | "  # no term has this sign, so that no phrase spans two paths


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
    """The entries whose tags belong to the work, the best first; equal ones in the order in which they are given."""
    said, touched = _Words([work.words]), _Words(work.files)
    features = {_slug(name) for name in work.features} - {""}
    found = []
    for record in entries:
        score, why = 0.0, []
        for tag in record.tags:
            for worth, holds, what in (
                (_TASK, said.hold(tag), "in the task"),
                (_FEATURE, _slug(tag) in features, "is the feature"),
                (_FILES, touched.hold(tag, longer_than=_SHORT), "in a changed file's path"),
            ):
                if holds:
                    score += worth
                    why.append(f"{tag} {what} +{worth:g}")
        if score:
            found.append(Match(record, score, tuple(why)))
    return sorted(found, key=lambda each: -each.score)


def expand(matches: Sequence[Match], entries: Sequence[Record], hops: int = HOPS) -> list[Match]:
    """The matches, and behind them what they link to, and what that links to; each entry once, by its best way."""
    titles = Titles(entries)
    reached = {each.record.id for each in matches}
    linked: list[Match] = []
    edge = list(matches)
    for hop in range(1, hops + 1):
        nearest: dict[str, Match] = {}
        for each in edge:
            for target in titles.targets(each.record):
                score = each.score * _DECAY
                if target.id not in reached and score > getattr(nearest.get(target.id), "score", 0.0):
                    nearest[target.id] = Match(target, score, (f"linked from {each.record.title}",), hop)
        reached |= nearest.keys()
        edge = list(nearest.values())
        linked += edge
    return [*matches, *sorted(linked, key=lambda each: -each.score)]


def render(records: Sequence[Record], budget: int = BUDGET) -> Rendered:
    """The section with as many whole entries as fit, in their order (0: all of them); "" when none does."""
    blocks = [_block(record) for record in records]
    whole = _section(blocks, 0)
    if not budget or estimate(whole) <= budget:
        return Rendered(whole, len(blocks), 0)
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
    title = " ".join(clean(record.title).split())
    tags = ", ".join(" ".join(clean(tag).split()) for tag in record.tags)
    return f"### {title}\n_Tags: {tags}_\n\n{_contained(clean(record.text).strip())}\n"


def _contained(body: str) -> str:
    """A body that stays below its title: headings three levels down, and a fence that is open at its end closed."""
    if "#" not in body and "```" not in body and "~~~" not in body:
        return body
    out, closer = [], ""
    for line in scan_lines(body):
        found = parse_heading(line)
        lower = "#" * min(3, 6 - found[0]) if found is not None else ""
        out.append(lower + line.text)
        if line.role is LineRole.UNCLOSED:
            closer = closer or fence_mark(line.text.lstrip())
    return "\n".join([*out, *filter(None, [closer])])


# --- tags and words ----------------------------------------------------------------------------


class _Words:
    """The words of some texts, in which tags are looked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = list(texts)
        rows = [" ".join(_pieces(text, parts=parts)) for text in found for parts in (False, True)]
        self._phrases = f" {_PATH_END.join(rows)} "
        self._terms = {
            term for text in found for word in terms.split_words(_plain(text)) for term in terms.word_terms(word)
        }
        self._low = "\n".join(terms.fold(text) for text in found)

    def hold(self, tag: str, longer_than: int = 0) -> bool:
        """Whether a tag stands here; of a single word, only when it is longer than that."""
        bare = terms.fold(_plain(tag))
        if terms.is_cjk(bare):
            return self._holds_part(bare)
        pieces = list(_pieces(bare))
        joined = "".join(_JOINTS.sub(" ", bare).split())
        if not pieces or (len(pieces) == 1 and len(joined) <= longer_than):
            return False
        if f" {' '.join(pieces)} " in self._phrases:
            return True
        return len(joined) > 3 and not self._terms.isdisjoint((joined, *terms.word_terms(joined)[:1]))

    def _holds_part(self, tag: str) -> bool:
        """Whether a tag in Chinese, Japanese or Korean is part of a word here; a single sign only with a particle."""
        parts = re.findall(r"[^\W_]+", tag)
        if not parts:
            return False
        if len("".join(parts)) > 1:
            return re.search(r"[\W_]{0,3}".join(map(re.escape, parts)), self._low) is not None
        runs = re.findall(r"[^\W_]+", self._low)
        return any(run == parts[0] or (run[:-1] == parts[0] and run[-1] in _PARTICLES) for run in runs)


def _pieces(text: str, *, parts: bool = False) -> Iterator[str]:
    """A text's words as terms, in order; with `parts`, those of `camelCase` instead of the whole."""
    for word in terms.split_words(_plain(text)):
        for piece in filter(None, _JOINTS.split(word) if word[-1].isalnum() else [word]):
            found = terms.word_terms(piece)
            yield from found if terms.is_cjk(piece) else found[1:] if parts and len(found) > 1 else found[:1]


def _plain(text: str) -> str:
    """A text with one form for each letter, and nothing that cannot be printed."""
    return terms.unaccented(text.encode("utf-8", "ignore").decode("utf-8"))


def _slug(name: str) -> str:
    return " ".join(_pieces(terms.fold(_plain(name))))


# --- links -------------------------------------------------------------------------------------


class Titles:
    """Entries by what a link may call them: the title in any case, else the name of the file."""

    def __init__(self, entries: Iterable[Record]) -> None:
        self._by_title: dict[str, Record] = {}
        by_name: dict[str, Record] = {}
        for record in entries:
            self._by_title.setdefault(_folded(record.title), record)
            for name in (record.id, record.id.removeprefix("know-")):
                by_name.setdefault(_folded(name), record)
        self._by_name: Mapping[str, Record] = by_name

    def find(self, name: str) -> Record | None:
        """The entry that a link or a person means; `Title#part` and `Title|other words` mean the title."""
        for spelling in (name, name.partition("|")[0], name.partition("|")[0].partition("#")[0]):
            found = self._by_title.get(_folded(spelling)) or self._by_name.get(_folded(spelling))
            if found is not None:
                return found
        return None

    def targets(self, record: Record) -> list[Record]:
        """The other entries that one links to, each once, in order."""
        named = (self.find(link.target) for link in record.links if link.relation == "links_to")
        return list({each.id: each for each in named if each is not None and each.id != record.id}.values())


def _folded(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())
