"""Baselines: what people would use instead of Ralph's search.

Substring looks for the whole question in the text; any-word is grep with the question's words, with
the text that contains most of them first. Plain FTS5 is a table with the default tokeniser and the
query builder that many tools use: split at whitespace, drop words of one or two characters, take ten,
join with OR. Unquoted, most real questions are a syntax error, which counts as no answer; quoted, they
are not. FTS5 porter uses stemming and drops stop words.
Every baseline sees the same words as the engine: title, tags, text and file names.
"""

import importlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from ralph.core.record import Hit, Record, Status
from ralph.core.terms import STOP_WORDS, stem
from ralph.storage import db

Ask = Callable[[str, int], Sequence[Hit]]
"""Takes a question and the number of answers; returns answers, best first."""

_WORDS = 10
_SHORTEST = 3


def words_of(record: Record) -> str:
    """Return all searchable text of a record."""
    return "\n".join(
        (record.title, " ".join(record.tags), record.text, " ".join(record.origin.files))
    )


@contextmanager
def substring(records: Sequence[Record]) -> Iterator[Ask]:
    """Find the texts that contain the whole question, newest first."""
    texts = _texts(records)

    def ask(text: str, limit: int) -> list[Hit]:
        wanted = text.casefold().strip()
        return [Hit(record, 1.0) for record, words in texts if wanted and wanted in words][:limit]

    yield ask


@contextmanager
def any_word(records: Sequence[Record]) -> Iterator[Ask]:
    """Find the texts that contain any word of the question: most words first, then newest."""
    texts = _texts(records)

    def ask(text: str, limit: int) -> list[Hit]:
        wanted = set(text.casefold().split())
        counted = [(sum(word in words for word in wanted), record) for record, words in texts]
        found = sorted((pair for pair in counted if pair[0]), key=lambda pair: -pair[0])
        return [Hit(record, float(count)) for count, record in found[:limit]]

    yield ask


@contextmanager
def plain_fts5(records: Sequence[Record], *, quoted: bool = False) -> Iterator[Ask]:
    """Search with the default tokeniser, the naive builder and `ORDER BY rank`; a syntax error returns nothing."""
    with _fts5(records, "unicode61", lambda text: naive_match(text, quoted=quoted)) as ask:
        yield ask


@contextmanager
def porter_fts5(records: Sequence[Record]) -> Iterator[Ask]:
    """Search with FTS5 as its manual suggests: stemming, any of the quoted words except stop words, `ORDER BY rank`."""
    with _fts5(records, "porter unicode61", telling_match) as ask:
        yield ask


@contextmanager
def bm25s(records: Sequence[Record]) -> Iterator[Ask]:
    """Search with the package bm25s, with stemming and without stop words; it must be installed."""
    library = importlib.import_module("bm25s")
    offered = [record for record in records if record.status is not Status.RETIRED]

    def tokens(texts: Sequence[str]) -> object:
        stems = {"stemmer": lambda words: [stem(word) for word in words], "show_progress": False}
        return library.tokenize(list(texts), stopwords=sorted(STOP_WORDS), **stems)

    index = library.BM25()
    if offered:
        index.index(tokens([words_of(record) for record in offered]), show_progress=False)

    def ask(text: str, limit: int) -> list[Hit]:
        if not offered or not telling_match(text):
            return []
        places, scores = index.retrieve(
            tokens([text]), k=min(limit, len(offered)), show_progress=False
        )
        pairs = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        return [Hit(offered[place], score) for place, score in pairs if score > 0]

    yield ask


@contextmanager
def _fts5(records: Sequence[Record], tokenizer: str, build: Callable[[str], str]) -> Iterator[Ask]:
    offered = [record for record in records if record.status is not Status.RETIRED]
    with closing(db.connect_memory()) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE plain USING fts5(text, tokenize='{tokenizer}')")
        rows = ((key, words_of(record)) for key, record in enumerate(offered))
        connection.executemany("INSERT INTO plain(rowid, text) VALUES (?, ?)", rows)

        def ask(text: str, limit: int) -> list[Hit]:
            match = build(text)
            sql = "SELECT rowid, -rank FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT ?"
            try:
                found = connection.execute(sql, (match, limit)).fetchall() if match else []
            except sqlite3.OperationalError:
                return []
            return [Hit(offered[row[0]], row[1]) for row in found]

        yield ask


def naive_match(text: str, *, quoted: bool = False) -> str:
    """Return the full-text expression that the naive builder derives from a question."""
    words = [word for word in text.split() if len(word) >= _SHORTEST][:_WORDS]
    return (
        " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        if quoted
        else " OR ".join(words)
    )


def telling_match(text: str) -> str:
    """Return the full-text expression of all words of a question except stop words."""
    words = dict.fromkeys(re.findall(r"\w+", text.lower()))
    return " OR ".join(f'"{word}"' for word in words if word not in STOP_WORDS)


def _texts(records: Sequence[Record]) -> list[tuple[Record, str]]:
    offered = [record for record in records if record.status is not Status.RETIRED]
    newest = sorted(offered, key=lambda record: record.created_at, reverse=True)
    return [(record, words_of(record).casefold()) for record in newest]
