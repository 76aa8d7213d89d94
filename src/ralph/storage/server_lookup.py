"""Run the ranking's queries on a team's server: `lookup.RankingStore` for PostgreSQL.

The server's index selects candidates by the *level* of their terms, which says how much a term
counts in a row. BM25 is then computed here from the terms of at most 800 rows, with the same
formula and weights as in SQLite. Keys are built as in the local index, from a row's number on the
server and its family. Records are filtered by a Python function here, so the SQL conditions in a
`Filter` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core.record import USUAL, Family, Record, is_confirmed
from ralph.formats.log import parse_log
from ralph.storage.index_schema import FAMILIES, keys_of_family, make_key, number_of
from ralph.storage.lookup import RecordRow
from ralph.storage.record_rows import EMPTY_LIST, encode_list
from ralph.storage.team_server import TeamServer

if TYPE_CHECKING:
    from ralph.storage.record_filters import Filter

MAX_CANDIDATES = 800  # rows whose terms are read; the server returns at most 2,000
# The constants of BM25, as in SQLite's bm25(): how fast a repeated term saturates, and how much
# the length of a row counts.
_BM25_K1 = 1.2
_BM25_B = 0.75
_MIN_IDF = 1e-6  # as in SQLite: a term in more than half of the records still counts a little
_USUAL_ROW_LENGTH = 80  # number of terms in a row of average length
_LEVELS = "0123456789abcdef"
"""The digit stored before a term: how much it counts in a row, rounded down to sixteenths."""
_COLUMN_COUNT = 4  # text, title, tags, files
_MAX_TERM_CHARACTERS = 200  # of a term in the server's index
_QUOTED_PHRASE = re.compile(r'"([^"]*)"')


class _ColumnWeights(NamedTuple):
    """BM25 weights, ordered like the columns on the server."""

    text: float
    title: float
    tags: float
    files: float


class _IndexedRow(NamedTuple):
    """The number of terms in a candidate, and the terms of each column.

    Terms are separated by two spaces, with one more space at either end of a column. Every term
    thus has its own space on both sides, and can be found and counted as a substring.
    """

    length: int
    columns: list[str]


def indexed_terms(columns: Sequence[str], fields: Sequence[float]) -> tuple[str, str, int]:
    """Return what the server stores for the terms of text, title, tags and files.

    The result consists of the terms by column, the terms with their levels, and the number of
    terms. `fields` are the weights of title, tags, text and files.
    """
    frequencies: dict[str, float] = {}
    length = 0
    lists = [column.split() for column in columns]
    for words, weight in zip(lists, _column_weights(fields), strict=True):
        length += len(words)
        for word in words:
            frequencies[word] = frequencies.get(word, 0.0) + weight
    norm = _length_norm(length, _USUAL_ROW_LENGTH)
    leveled = []
    for word, frequency in frequencies.items():
        if len(word) <= _MAX_TERM_CHARACTERS:
            level = int(len(_LEVELS) * frequency / (frequency + norm))
            leveled.append(_LEVELS[level] + word)
    terms_by_column = "\n".join("  ".join(words) for words in lists)
    return terms_by_column, " ".join(leveled), length


def _column_weights(fields: Sequence[float]) -> _ColumnWeights:
    """Reorder the weights of title, tags, text and files like the server's columns."""
    title, tags, text, files = fields
    return _ColumnWeights(text, title, tags, files)


def _length_norm(length: int, usual_length: float) -> float:
    """Return BM25's saturation constant for a row. It is larger for longer rows."""
    return _BM25_K1 * (1 - _BM25_B + _BM25_B * length / usual_length)


class ServerLookup:
    """The server's rows of one project, as a `RankingStore` for a single query.

    Candidates and records are cached, so create one for each query. The `connection` arguments are
    ignored. `members` maps the keys of fetched records to the members who pushed them.
    """

    def __init__(
        self, server: TeamServer, project: str, accepts: Callable[[Record], bool] | None = None
    ) -> None:
        self._server = server
        self._project = project
        self._accepts = accepts
        self._candidates: dict[int, _IndexedRow] = {}
        self._records: dict[int, Record] = {}
        self.members: dict[int, str] = {}
        self._record_counts: dict[str, int] = {}  # records with each term

    def _call(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        """Call a function on the server for this project."""
        return self._server.call(name, self._project, *values)

    # --- the vocabulary ---

    @cached_property
    def _totals(self) -> tuple[int, int]:
        """The number of records, and the number of terms in them."""
        records, term_count = self._call("size_of")[0]
        return records, int(term_count)

    def size(self, connection: object) -> int:
        records, _ = self._totals
        return records

    def frequencies(
        self, connection: object, terms: Sequence[str], exact: int = 0
    ) -> dict[str, int]:
        return self._remember_counts(self._call("frequencies", list(terms)))

    def _remember_counts(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, int]:
        """Cache and return the term counts that the server returned."""
        counts: dict[str, int] = dict(rows)
        self._record_counts |= counts
        return counts

    def terms_with_prefix(
        self, connection: object, prefix: str, limit: int, length: int | None = None
    ) -> list[tuple[str, int]]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        counts = self._remember_counts(self._call("terms_from", prefix, end, limit))
        if length is None:
            return list(counts.items())
        return [(term, count) for term, count in counts.items() if abs(len(term) - length) <= 1]

    def terms_containing(self, connection: object, part: str, limit: int) -> list[tuple[str, int]]:
        return list(self._remember_counts(self._call("terms_with", part, limit)).items())

    # --- matches and their scores ---

    def best_matches(
        self,
        connection: object,
        match: str,
        weights: Sequence[float],
        limit: int,
        record_filter: Filter | None = None,
    ) -> list[tuple[int, float]]:
        phrases = _QUOTED_PHRASE.findall(match)
        words = [phrase for phrase in phrases if " " not in phrase]
        if words:
            self._fetch_candidates(words)
        scores = self._score(phrases, _column_weights(weights))
        best = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        if record_filter is not None:
            passing = self._passing([key for key, _ in best])
            best = [(key, score) for key, score in best if key in passing]
        if limit < 0:
            return best
        return best[:limit]

    def _fetch_candidates(self, words: Sequence[str]) -> None:
        """Add the rows that the server selects for these words to the candidates."""
        unknown = [word for word in words if word not in self._record_counts]
        if unknown:
            self._remember_counts(self._call("frequencies", unknown))
        present = [word for word in words if word in self._record_counts]
        idfs = [self._idf(self._record_counts[word]) for word in present]
        rows = self._call("candidates", present, idfs, MAX_CANDIDATES)
        for number, family_number, length, columns in rows:
            padded = [f" {column} " for column in columns.split("\n")]
            family = _family(family_number)
            if family is not None and len(padded) == _COLUMN_COUNT:
                self._candidates[make_key(number, family)] = _IndexedRow(length, padded)

    def _idf(self, record_count: int) -> float:
        """Return the inverse document frequency of a term, as SQLite computes it."""
        records, _ = self._totals
        others = max(records - record_count, 0)
        return max(log((others + 0.5) / (record_count + 0.5)), _MIN_IDF)

    def _score(self, phrases: Sequence[str], weights: _ColumnWeights) -> dict[int, float]:
        """Return the BM25 scores of the candidates that contain one of the phrases."""
        records, term_count = self._totals
        average_length = 1.0
        if records:
            average_length = term_count / records
        found = self._weighted_frequencies(phrases, weights)
        scores: dict[int, float] = {}
        for phrase, frequencies in found.items():
            idf = self._idf(self._record_counts.get(phrase, len(frequencies)))
            for key, frequency in frequencies.items():
                norm = _length_norm(self._candidates[key].length, average_length)
                score = idf * frequency * (_BM25_K1 + 1) / (frequency + norm)
                scores[key] = scores.get(key, 0.0) + score
        return scores

    def _weighted_frequencies(
        self, phrases: Sequence[str], weights: _ColumnWeights
    ) -> dict[str, dict[int, float]]:
        """Count how often each candidate contains each phrase, weighted by column.

        Return the weighted counts by phrase and key.
        """
        padded = [(phrase, f" {phrase.replace(' ', '  ')} ") for phrase in phrases]
        found: dict[str, dict[int, float]] = {phrase: {} for phrase in phrases}
        for key, row in self._candidates.items():
            for phrase, needle in padded:
                frequency = 0.0
                for column, weight in zip(row.columns, weights, strict=True):
                    if needle in column:
                        frequency += weight * column.count(needle)
                if frequency:
                    found[phrase][key] = frequency
        return found

    def count_matching(self, connection: object, match: str, record_filter: Filter) -> int:
        return len(self._passing(list(self._candidates)))

    def filter_keys(
        self, connection: object, keys: Sequence[int], record_filter: Filter
    ) -> set[int]:
        return self._passing(keys)

    def _passing(self, keys: Sequence[int]) -> set[int]:
        """Return the keys whose records the filter accepts."""
        if self._accepts is None:
            return set(keys)
        return {key for key, record in self.records(keys).items() if self._accepts(record)}

    # --- records ---

    def sort_values(
        self, connection: object, keys: Sequence[int]
    ) -> dict[int, tuple[str, str, int]]:
        values: dict[int, tuple[str, str, int]] = {}
        for key, record in self.records(keys).items():
            values[key] = (_time_of(record), self.members[key], key)
        return values

    def neighbours(
        self, connection: object, keys: Sequence[int], reach: int
    ) -> Iterator[tuple[int, int, int]]:
        family = Family.OBSERVATION
        numbers = [number_of(key) for key in keys_of_family(keys, family)]
        if not numbers:
            return
        for number, neighbour, distance in self._call("neighbours", numbers, reach):
            yield make_key(number, family), make_key(neighbour, family), distance

    def linked_keys(self, connection: object, keys: Sequence[int]) -> list[tuple[int, int]]:
        memories = self.records(keys_of_family(keys, Family.MEMORY))
        links: list[tuple[int, str]] = []
        for key, record in memories.items():
            links += [(key, link.target) for link in record.links]
        if not links:
            return []
        key_of: dict[str, int] = {}
        targets = [target for _, target in links]
        for target, number, family_number in self._call("keys_with", targets):
            if _family(family_number) is Family.MEMORY:
                key_of.setdefault(target, make_key(number, Family.MEMORY))
        pairs = []
        for key, target in links:
            if target in key_of and key_of[target] != key:
                pairs.append((key, key_of[target]))
        return pairs

    def records(self, keys: Sequence[int]) -> dict[int, Record]:
        """Return the records with these keys, in the order given."""
        missing = [number_of(key) for key in keys if key not in self._records]
        if missing:
            self._fetch_records(missing)
        return {key: self._records[key] for key in keys if key in self._records}

    def _fetch_records(self, numbers: Sequence[int]) -> None:
        """Fetch records by their numbers on the server, and cache them with their members."""
        for number, family_number, member, name, body in self._call("rows_at", numbers):
            family = _family(family_number)
            if family is None:
                continue
            key = make_key(number, family)
            for entry in parse_log(body).entries:
                if entry.record.id == name:
                    self._records[key] = entry.record
                    self.members[key] = member

    def fetch_rows(self, connection: object, keys: Sequence[int]) -> Mapping[int, RecordRow]:
        return {key: _record_row(key, record) for key, record in self.records(keys).items()}


def _family(number: int) -> Family | None:
    """Return the family with this number on the server, or None if the number is not Ralph's."""
    if 0 <= number < len(FAMILIES):
        return FAMILIES[number]
    return None


def _time_of(record: Record) -> str:
    """Return when a record was added. A memory's `created_at` is only a date."""
    if record.family is Family.MEMORY:
        return record.added_at
    return record.created_at


def _record_row(key: int, record: Record) -> RecordRow:
    """Turn a record into the row that `lookup` would select for it."""
    origin = record.origin
    files = encode_list(origin.files) or EMPTY_LIST
    session = ""
    error = ""
    authored_length: Any = None
    scope = ""
    if record.family is Family.MEMORY:
        scope = record.scope.value
    elif record.family is Family.OBSERVATION:
        session = origin.session
        error = str(record.extra.get("error") or "")
        authored_length = record.extra.get("own")
    else:
        session = origin.run
    _, _, usual_author = USUAL[record.family]
    return RecordRow(
        key=key,
        record_id=record.id,
        kind=record.kind.value,
        title=record.title,
        tags=encode_list(record.tags),
        text=record.text,
        files=files,
        created_at=_time_of(record),
        session=session,
        by=origin.by or usual_author,
        is_order=0,
        error=error,
        authored_length=authored_length,
        scope=scope,
        is_confirmed=is_confirmed(record),
    )
