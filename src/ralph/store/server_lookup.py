"""The SELECTs behind the ranking on the team's server: the PostgreSQL implementation of `lookup.RankingStore`.

The index of the server gives candidates by the levels of their terms; BM25 is computed here from the terms of at most
800 rows, with the same formula and weights as SQLite's. Keys have the family as `key % 3`, as local ones have. A
filter is a function of records, so conditions on tables (`Filter`) do not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

from ralph.formats.log import parse_log
from ralph.model.record import USUAL, Family, Record
from ralph.store.lookup import RecordRow
from ralph.store.queries import FAMILIES, list_text
from ralph.store.team_server import TeamServer

if TYPE_CHECKING:
    from ralph.store.lookup import Filter

MOST = 800  # rows whose terms are read; the server gives at most 2,000
# as in SQLite's bm25()
_K1 = 1.2
_B = 0.75
# terms of a row that is neither long nor short
_AVERAGE = 80
_LEVELS = "0123456789abcdef"
_COLUMNS = 4  # text, title, tags, files
_LONGEST = 200  # characters of a term in the index of the server
_PHRASE = re.compile(r'"([^"]*)"')


def indexed_terms(columns: Sequence[str], fields: Sequence[float]) -> tuple[str, str, int]:
    """Return what the server stores for the terms of text, title, tags and files: columns, leveled terms, length.

    `fields` are the weights of title, tags, text and files.
    """
    weights = _by_column(fields)
    frequencies: dict[str, float] = {}
    length = 0
    lists = [column.split() for column in columns]
    for words, weight in zip(lists, weights, strict=True):
        length += len(words)
        for word in words:
            frequencies[word] = frequencies.get(word, 0.0) + weight
    norm = _K1 * (1 - _B + _B * length / _AVERAGE)
    leveled = [
        _LEVELS[int(len(_LEVELS) * frequency / (frequency + norm))] + word
        for word, frequency in frequencies.items()
        if len(word) <= _LONGEST
    ]
    return "\n".join("  ".join(words) for words in lists), " ".join(leveled), length


def _by_column(fields: Sequence[float]) -> tuple[float, float, float, float]:
    title, tags, text, files = fields
    return text, title, tags, files


class ServerLookup:
    """The rows of one project for one question; every function takes a connection, as in `lookup`, and ignores it."""

    def __init__(
        self, server: TeamServer, project: str, accepts: Callable[[Record], bool] | None = None
    ) -> None:
        self._server = server
        self._project = project
        self._accepts = accepts
        self._columns: dict[int, tuple[int, list[str]]] = {}
        self._records: dict[int, Record] = {}
        self.members: dict[int, str] = {}
        self._docs: dict[str, int] = {}

    def _ask(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        return self._server.call(name, self._project, *values)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        records, tokens = self._ask("size_of")[0]
        return records, int(tokens)

    def size(self, connection: object) -> int:
        return self._totals[0]

    def frequencies(
        self, connection: object, terms: Sequence[str], exact: int = 0
    ) -> dict[str, int]:
        return self._counted(self._ask("frequencies", list(terms)))

    def _counted(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, int]:
        counts: dict[str, int] = dict(rows)
        self._docs |= counts
        return counts

    def terms_starting(
        self, connection: object, prefix: str, limit: int, length: int | None = None
    ) -> list[tuple[str, int]]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        pairs = self._counted(self._ask("terms_from", prefix, end, limit)).items()
        return [pair for pair in pairs if length is None or abs(len(pair[0]) - length) <= 1]

    def terms_with(self, connection: object, part: str, limit: int) -> list[tuple[str, int]]:
        return list(self._counted(self._ask("terms_with", part, limit)).items())

    def matching(
        self,
        connection: object,
        match: str,
        weights: Sequence[float],
        limit: int,
        keep: Filter | None = None,
    ) -> list[tuple[int, float]]:
        phrases = _PHRASE.findall(match)
        words = [phrase for phrase in phrases if " " not in phrase]
        if words:
            self._fetch_candidates(words)
        scores = self._scores(phrases, _by_column(weights))
        best = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        if keep is not None:
            passing = self._passing([key for key, _ in best])
            best = [pair for pair in best if pair[0] in passing]
        return best[: limit if limit >= 0 else None]

    def _fetch_candidates(self, words: Sequence[str]) -> None:
        if unknown := [word for word in words if word not in self._docs]:
            self._counted(self._ask("frequencies", unknown))
        present = [word for word in words if word in self._docs]
        weights = [self._idf(self._docs[word]) for word in present]
        for key, family, length, columns in self._ask("candidates", present, weights, MOST):
            # two blanks at either end and between terms: a term has a blank of its own on both sides
            words = [f" {each} " for each in columns.split("\n")]
            if len(words) == _COLUMNS and 0 <= family < len(FAMILIES):  # as Ralph pushes it
                self._columns[key * len(FAMILIES) + family] = (length, words)

    def _idf(self, docs: int) -> float:
        return max(log((max(self._totals[0] - docs, 0) + 0.5) / (docs + 0.5)), 1e-6)

    def _scores(self, phrases: Sequence[str], weights: Sequence[float]) -> dict[int, float]:
        records, tokens = self._totals
        average = tokens / records if records else 1.0
        needles = [(phrase, f" {phrase.replace(' ', '  ')} ") for phrase in phrases]
        found: dict[str, dict[int, float]] = {phrase: {} for phrase in phrases}
        for key, (_, columns) in self._columns.items():
            for phrase, needle in needles:
                frequency = 0.0
                for column, weight in zip(columns, weights, strict=True):
                    if needle in column:
                        frequency += weight * column.count(needle)
                if frequency:
                    found[phrase][key] = frequency
        scores: dict[int, float] = {}
        for phrase, rows in found.items():
            idf = self._idf(self._docs.get(phrase, len(rows)))
            for key, frequency in rows.items():
                norm = _K1 * (1 - _B + _B * self._columns[key][0] / average)
                scores[key] = scores.get(key, 0.0) + idf * frequency * (_K1 + 1) / (
                    frequency + norm
                )
        return scores

    def count_matching(self, connection: object, match: str, keep: Filter) -> int:
        return len(self._passing(list(self._columns)))

    def _passing(self, keys: Sequence[int]) -> set[int]:
        if self._accepts is None:
            return set(keys)
        return {key for key, record in self.records(keys).items() if self._accepts(record)}

    def filter_keys(self, connection: object, keys: Sequence[int], keep: Filter) -> set[int]:
        return self._passing(keys)

    def sort_values(
        self, connection: object, keys: Sequence[int]
    ) -> dict[int, tuple[str, str, int]]:
        return {
            key: (_instant(record), self.members[key], key)
            for key, record in self.records(keys).items()
        }

    def neighbours(
        self, connection: object, keys: Sequence[int], reach: int
    ) -> Iterator[tuple[int, int, int]]:
        place = FAMILIES.index(Family.OBSERVATION)
        step = len(FAMILIES)
        own = [key // step for key in keys if key % step == place]
        for key, other, distance in self._ask("neighbours", own, reach) if own else ():
            yield key * step + place, other * step + place, distance

    def linked_keys(self, connection: object, keys: Sequence[int]) -> list[tuple[int, int]]:
        records = self.records([key for key in keys if key % len(FAMILIES) == 0])
        targets = [link.target for record in records.values() for link in record.links]
        found: dict[str, int] = {}
        for name, key, family in self._ask("keys_with", targets) if targets else ():
            if family == 0:
                found.setdefault(name, key * len(FAMILIES))
        pairs = [(key, link.target) for key, record in records.items() for link in record.links]
        return [(key, found[target]) for key, target in pairs if found.get(target, key) != key]

    def records(self, keys: Sequence[int]) -> dict[int, Record]:
        missing = [key // len(FAMILIES) for key in keys if key not in self._records]
        for number, family, member, name, body in self._ask("rows_at", missing) if missing else ():
            for entry in parse_log(body).entries:
                key = number * len(FAMILIES) + family
                if entry.record.id == name:
                    self._records[key] = entry.record
                    self.members[key] = member
        return {key: self._records[key] for key in keys if key in self._records}

    def fetch_rows(self, connection: object, keys: Sequence[int]) -> Mapping[int, RecordRow]:
        return {key: _ranked_row(key, record) for key, record in self.records(keys).items()}


def _instant(record: Record) -> str:
    return record.added_at if record.family is Family.MEMORY else record.created_at


def _ranked_row(key: int, record: Record) -> RecordRow:
    """Return a record as `lookup` selects it from its table."""
    family = record.family
    origin = record.origin
    extra = record.extra
    is_observation = family is Family.OBSERVATION
    tags, files = (list_text(items) for items in (record.tags, origin.files))
    files = files or ("[]" if family is Family.JOURNAL else "")
    words = (record.id, record.kind.value, record.title, tags, record.text, files, _instant(record))
    session = origin.session if is_observation else origin.run if family is Family.JOURNAL else ""
    error, own = (extra.get("error") or "", extra.get("own")) if is_observation else ("", None)
    scope = record.scope.value if family is Family.MEMORY else ""
    return RecordRow(key, *words, session, origin.by or USUAL[family][2], 0, error, own, scope)
