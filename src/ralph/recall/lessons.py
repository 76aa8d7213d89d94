"""Find lessons about a file, a command or an error in the index.

Nothing is ranked by similarity here. The full-text index provides candidates, and a lesson must
then mention that very file (`file_mentions`) or command (`command_lines`), or share enough with the
error (`error_features`). Hooks load this module.
"""

from __future__ import annotations

from ralph.core import terms
from ralph.lean import TYPE_CHECKING
from ralph.recall.command_lines import command_names, split_command_line
from ralph.recall.error_features import find_features, is_same_error, weigh_lesson
from ralph.recall.file_mentions import file_terms, mentions_file
from ralph.storage import lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter


_MAX_CANDIDATES = 30
_MAX_FILES = 8
_MAX_SEARCHED_FEATURES = 30
_MAX_LESSON_CHARACTERS = 2_000  # of a lesson, compared with an error
# The number of records that the terms of files or of an error may match in total. The most common
# terms are skipped, because they decide little and take longest.
_MAX_POSTINGS = 2_000
_FIELD_WEIGHTS = (1.0, 1.0, 1.0, 1.0)  # for title, tags, text and files


# --- files ---------------------------------------------------------------------------------------


def on_files(
    connection: sqlite3.Connection, files: Sequence[str], allowed: Filter
) -> list[RecordRow]:
    """Return the records that mention one of these files, best first."""
    files = files[:_MAX_FILES]
    groups: list[list[str]] = []
    for path in files:
        group = file_terms(path)
        if group:
            groups.append(group)
    found: list[RecordRow] = []
    for row in _full_text_matches(connection, _file_query(connection, groups), allowed):
        text = f"{row.title}\n{row.text}\n{row.files}"
        if any(mentions_file(text, path) for path in files):
            found.append(row)
    return found


def _file_query(connection: sqlite3.Connection, groups: Sequence[Sequence[str]]) -> str:
    """Return a full-text query for records that contain all terms of one of the groups.

    Groups with rare terms are added first, until the query would match too many records.
    """
    terms_of_groups: set[str] = set()
    terms_of_groups.update(*groups)
    counts = lookup.frequencies(connection, list(terms_of_groups), _MAX_POSTINGS)
    indexed: list[list[str]] = []
    for group in groups:
        if counts.keys() >= {*group}:
            indexed.append(sorted(group, key=lambda term: counts[term]))
    indexed.sort(key=lambda group: counts[group[0]])
    matches: list[str] = []
    postings = 0
    for group in indexed:
        postings += counts[group[0]]
        if postings < _MAX_POSTINGS:
            rare = [f'"{term}"' for term in group if counts[term] < _MAX_POSTINGS]
            matches.append(f"({' AND '.join(rare)})")
    return " OR ".join(matches)


# --- commands ------------------------------------------------------------------------------------


def on_command(
    connection: sqlite3.Connection, command: str, allowed: Filter, *, min_words: int = 1
) -> list[RecordRow]:
    """Return the lessons about a command, followed by those about a file on its command line.

    With `min_words=2`, a program without a subcommand does not count.
    """
    phrases: dict[str, None] = {}
    for name in command_names(command):
        phrase = _to_phrase(name)
        if len(name) >= min_words and phrase:
            phrases[phrase] = None
    match = " OR ".join(f'{{title text}} : "{phrase}"' for phrase in phrases)
    found = {row.key: row for row in _full_text_matches(connection, match, allowed)}
    files = [word for word in split_command_line(command) if "." in word]
    for row in on_files(connection, files, allowed):
        found.setdefault(row.key, row)
    return list(found.values())


def _to_phrase(words: Sequence[str]) -> str:
    phrase: list[str] = []
    for word in words:
        phrase += terms.word_terms(word)
    return " ".join(phrase)


# --- errors --------------------------------------------------------------------------------------


def on_error(connection: sqlite3.Connection, error: str, allowed: Filter) -> list[RecordRow]:
    """Return the lessons that share enough features with an error, best matches first."""
    features = find_features(error)
    if not features:
        return []
    weighed: list[tuple[int, RecordRow]] = []
    for row in _full_text_matches(connection, _feature_query(connection, features), allowed):
        weight = weigh_lesson(features, f"{row.title}\n{row.text}"[:_MAX_LESSON_CHARACTERS])
        if weight:
            weighed.append((weight, row))
    weighed.sort(key=lambda pair: -pair[0])
    return [row for _, row in weighed]


def failures_with_error(
    connection: sqlite3.Connection, error: str, allowed: Filter
) -> list[RecordRow]:
    """Return the failures that were the same error, best matches first."""
    features = find_features(error)
    if not features:
        return []
    found = _full_text_matches(connection, _feature_query(connection, features), allowed)
    return [row for row in found if is_same_error(features, find_features(row.error))]


def _feature_query(connection: sqlite3.Connection, features: dict[str, int]) -> str:
    """Return a full-text query for records that contain one of the rarest features."""
    heaviest = sorted(features, key=lambda word: -features[word])[:_MAX_SEARCHED_FEATURES]
    feature_terms: list[str] = []
    for word in heaviest:
        feature_terms += terms.word_terms(word)[-1:]
    counts = lookup.frequencies(connection, feature_terms)
    chosen: list[str] = []
    postings = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        postings += counts[term]
        if chosen and postings > _MAX_POSTINGS:
            break
        chosen.append(f'"{term}"')
    return " OR ".join(chosen)


def _full_text_matches(
    connection: sqlite3.Connection, match: str, allowed: Filter
) -> list[RecordRow]:
    if not match or not allowed:
        return []
    found = lookup.best_matches(connection, match, _FIELD_WEIGHTS, _MAX_CANDIDATES, allowed)
    rows = lookup.fetch_rows(connection, [key for key, _ in found])
    return [rows[key] for key, _ in found if key in rows]
