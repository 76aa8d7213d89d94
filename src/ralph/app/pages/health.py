"""Memory health: stale citations, unused records, duplicates and secrets, within the time that a page may take.

With ten thousand records nothing is parsed that the index knows. Citations are checked for the newest records only,
duplicates are searched among texts that share a rare word, and of the logs only so much is scanned for secrets at a
time. Results are cached until the files change. What was not checked is reported in `note`.
"""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from ralph import paths
from ralph.app import doctor, index, lists, outdated, usage
from ralph.app.pages import dashboard
from ralph.app.pages.dashboard import Notice
from ralph.app.pages.detail import one_line
from ralph.capture import privacy
from ralph.capture.similarity import similarity, term_weights
from ralph.errors import RalphError
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import Record
from ralph.store import files, lookup, queries
from ralph.store.sources import Format

MAX_LISTED = 50
"""The entries of each list; the counts are complete."""
MAX_CHECKED = 500
"""The newest records whose citations are checked anew."""
CHECK_SECONDS = 1.0
MAX_PAIRS = 60_000
"""The pairs of texts that are compared."""
CHUNK_SIZE = 16_000
"""Characters after which a chunk ends at the next boundary."""
MAX_SCANNED = 2_000_000
"""Characters of logs that are scanned at a time."""
_RARE_TERMS = 12
"""A word in more texts than this is not rare."""
_WORD = re.compile(r"\w{3,}")
_TITLE_LENGTH = 120
_CURATED = (Format.MEMORIES.value, Format.GUARDRAILS.value, Format.KNOWLEDGE.value)
_LINE = re.compile(r"\n")
_BOUNDARIES = ((re.compile(r"\n\s*\n(?=#{1,3} )"), 1), (re.compile(r"\n\s*\n"), 4), (_LINE, 8))
"""Where a chunk of markdown may end, and after how many chunk sizes: an entry, a paragraph, a line."""
_TAIL = 200
_MAX_SCAN_CACHE = 20_000


class RecordText(NamedTuple):
    """What is compared of a record; only records of the same file format are compared."""

    format: str
    id: str
    title: str
    text: str


def memory_health(root: Path, *, patterns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what needs attention; `more` when another call would continue where this one stopped."""
    notes: list[str] = []
    secrets, unfinished = find_secrets(root, patterns)
    lists_ = {
        "stale": _stale_records(root, notes),
        "unused": _unused_records(root),
        "duplicates": _cached_duplicates(root, notes),
        "secrets": secrets,
    }
    if unfinished:
        notes.append(f"{unfinished} log(s) are not completely scanned for secrets yet")
    return {
        **{name: items[:MAX_LISTED] for name, items in lists_.items()},
        "counts": {name: len(items) for name, items in lists_.items()},
        "note": "; ".join(notes),
        "more": bool(unfinished),
    }


def doctor_notices(root: Path, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """Return what doctor reports, without notes, log contents and the notices of the dashboard."""
    known = set(dashboard.hook_notices(root, env))
    notices: list[Notice] = []
    for finding in doctor.examine(root, env=env, logs=False):
        name, problem = paths.shown(finding.path, root), finding.problem
        on_dashboard = Notice(problem.level, f"{name}: {problem.what}", problem.hint) in known
        if finding.needs_a_person and not on_dashboard:
            notices.append(Notice(problem.level, f"{name}:{problem.line}: {problem.what}", problem.hint))
    if len(notices) > MAX_LISTED:
        more = Notice("warning", f"{len(notices) - MAX_LISTED:,} more problems", "`ralph doctor` names every one")
        return (*notices[:MAX_LISTED], more)
    return tuple(notices)


def _records_by_id(root: Path, names: Iterable[str], formats: Sequence[str] = _CURATED) -> dict[str, Record]:
    """Return those records that are stored in files of these formats and are not archived."""
    wanted = sorted(set(names))

    def question(connection: sqlite3.Connection) -> dict[str, Record]:
        keys = queries.curated_keys(connection, formats, wanted)
        return {record.id: record for record in queries.records(connection, keys).values()}

    return index.ask(root, question) if wanted else {}


def _stale_records(root: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return records that cite something missing or moved; only records with checked citations are read."""
    try:
        outdated.refresh_results(root, most=MAX_CHECKED, patience=CHECK_SECONDS)
    except RalphError as error:
        notes.append(f"citations were not checked: {error.message}")
    if index.ask(root, lambda connection: queries.count_curated(connection, _CURATED)) > MAX_CHECKED:
        notes.append(
            f"citations of all but the newest {MAX_CHECKED} records are from an earlier check: "
            "`ralph doctor --citations` checks all"
        )
    lines: list[bytes] = []
    with suppress(OSError):
        lines = outdated.cache_file(root).read_bytes().split(b"\n")[1:]
    checked = {line.partition(b"\t")[0].decode("utf-8", "surrogateescape") for line in lines if line}
    cited = _records_by_id(root, checked)
    return [
        {"id": name, "title": one_line(cited[name].title or cited[name].text, _TITLE_LENGTH), "what": what}
        for name, what in outdated.citation_notes(root, list(cited.values())).items()
    ]


def _unused_records(root: Path) -> list[dict[str, Any]]:
    """Return records that were injected and never used, those of most sessions first."""
    ledger = lists.read_ledger(root)
    injected = {name: sessions for name, (sessions, used) in usage.count_uses(ledger).items() if not used}
    tokens: dict[str, int] = defaultdict(int)
    for each in ledger.injections:
        tokens[each.record] += each.tokens
    records = _records_by_id(root, injected, _CURATED[:2])
    return [
        {
            "id": name,
            "title": one_line(records[name].text, _TITLE_LENGTH),
            "injected": injected[name],
            "tokens": tokens[name],
        }
        for name in sorted(records, key=lambda name: (-injected[name], -tokens[name], name))
    ]


# --- duplicates ------------------------------------------------------------------------------------

Duplicates = list[dict[str, Any]]
_DUPLICATES_CACHE: dict[tuple[object, ...], tuple[Duplicates, bool]] = {}


def _cached_duplicates(root: Path, notes: list[str]) -> Duplicates:
    """Return records that say the same; computed again when one of their files changes."""
    digests = index.ask(root, lambda connection: queries.source_digests(connection, _CURATED))
    cache_key = (root, ids.today(), digests)
    result = _DUPLICATES_CACHE.get(cache_key)
    if result is None:  # another thread may compute it too, with the same result
        result = find_duplicates(index.ask(root, _texts))
        _DUPLICATES_CACHE.clear()
        _DUPLICATES_CACHE[cache_key] = result
    if result[1]:
        notes.append(f"near duplicates: compared the {MAX_PAIRS:,} pairs of texts that share the rarest words")
    return result[0]


def _texts(connection: sqlite3.Connection) -> list[RecordText]:
    """Return every memory, guardrail and knowledge entry that is neither superseded nor expired."""
    replaced, today = lookup.superseded(connection), ids.today()
    texts: list[RecordText] = []
    for form, name, metadata, title, text in queries.curated_texts(connection, _CURATED):
        until = json.loads(metadata).get("valid_until", "") if '"valid_until"' in metadata else ""
        if name not in replaced and not (isinstance(until, str) and "" < until < today):
            texts.append(RecordText(form, name, title, text))
    return texts


def find_duplicates(texts: Iterable[RecordText]) -> tuple[Duplicates, bool]:
    """Return groups of equal or nearly equal texts of one format, and whether not all pairs were compared."""
    formats: dict[str, list[RecordText]] = defaultdict(list)
    for text in texts:
        formats[text.format].append(text)
    duplicates: Duplicates = []
    incomplete = False
    for own in formats.values():
        exact: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(own):
            exact[normalise_text(f"{text.title}\n{text.text}")].append(number)
        first = [numbers[0] for numbers in exact.values()]
        groups, cut = similar_groups([own[number].text for number in first])
        incomplete = incomplete or cut
        equal = [(numbers, True) for numbers in exact.values() if len(numbers) > 1]
        similar = [([first[number] for number in group], False) for group in groups]
        for numbers, exactly in equal + similar:
            title = one_line(own[numbers[0]].title or own[numbers[0]].text, _TITLE_LENGTH)
            duplicates.append({"ids": [own[number].id for number in numbers], "title": title, "exactly": exactly})
    return duplicates, incomplete


def similar_groups(texts: Sequence[str]) -> tuple[list[tuple[int, ...]], bool]:
    """Return groups of similar texts by number, and whether there were too many pairs to compare all.

    Texts that share a rare word are compared, the rarest words first.
    """
    sharing: dict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        for word in set(_WORD.findall(text.lower())):
            sharing[word].append(number)
    rare = sorted((numbers for numbers in sharing.values() if 1 < len(numbers) <= _RARE_TERMS), key=len)
    pairs: dict[tuple[int, int], None] = {}
    for numbers in rare:
        pairs.update(dict.fromkeys(combinations(numbers, 2)))
        if len(pairs) > MAX_PAIRS:
            break
    weights = {number: term_weights(texts[number]) for number in dict.fromkeys(n for pair in pairs for n in pair)}
    group: dict[int, set[int]] = {}
    for one, other in pairs:
        if similarity(weights[one], weights[other]):
            both = group.get(one, {one}) | group.get(other, {other})
            group.update(dict.fromkeys(both, both))
    return sorted({tuple(sorted(members)) for members in group.values()}), len(pairs) > MAX_PAIRS


# --- secrets ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ScanState:
    """How far a file was scanned, in which version of it, and what was found."""

    stamp: tuple[int, int]
    end: int = 0
    line: int = 1
    tail: str = ""
    complete: bool = False
    secrets: tuple[tuple[int, str], ...] = ()


_SCAN_CACHE: dict[tuple[Path, tuple[str, ...]], _ScanState] = {}


def find_secrets(root: Path, patterns: Sequence[str] = ()) -> tuple[list[dict[str, Any]], int]:
    """Return the locations of possible secrets, and how many logs are not completely scanned yet."""
    secrets: list[dict[str, Any]] = []
    logs, budget, unfinished = paths.log_folder(root), MAX_SCANNED, 0
    for path in doctor.files_to_scan(root):
        is_log = path.is_relative_to(logs)
        state, spent = _scan_file(path, tuple(patterns), budget if is_log else None)
        budget -= spent if is_log else 0
        unfinished += not state.complete
        name = paths.shown(path, root)
        secrets += ({"file": name, "line": line, "rule": rule} for line, rule in state.secrets)
    return secrets, unfinished


def _scan_file(path: Path, patterns: tuple[str, ...], budget: int | None) -> tuple[_ScanState, int]:
    """Return the state of a file, and how many characters were scanned now; None is no limit."""
    try:
        status = path.stat()
    except OSError:  # deleted meanwhile
        return _ScanState((0, 0), complete=True), 0
    stamp, cached = (status.st_mtime_ns, status.st_size), _SCAN_CACHE.get((path, patterns))
    if cached is not None and cached.stamp == stamp and cached.complete:
        return cached, 0
    if budget is not None and budget <= 0:
        return (_ScanState(stamp) if cached is None else replace(cached, complete=False)), 0
    text = ""
    with suppress(RalphError):  # doctor reports unreadable files
        text = files.read(path) or ""
    start = _ScanState(stamp)
    may_continue = cached is not None and (cached.stamp == stamp or path.suffix == ".jsonl")  # a log usually only grew
    if cached is not None and may_continue and len(text) >= cached.end and text[: cached.end].endswith(cached.tail):
        start = replace(cached, stamp=stamp, complete=False)
    state = scan_text(text, start, patterns, budget, lines=path.suffix in (".jsonl", ".json"))
    if len(_SCAN_CACHE) >= _MAX_SCAN_CACHE:
        _SCAN_CACHE.clear()
    _SCAN_CACHE[path, patterns] = state
    return state, max(1, state.end - start.end)


def scan_text(
    text: str, start: _ScanState, patterns: tuple[str, ...], budget: int | None, *, lines: bool
) -> _ScanState:
    """Continue a scan within a budget of characters."""
    done, line, secrets = start.end, start.line, list(start.secrets)
    for begin, end in chunks(text, start.end, lines=lines):
        if budget is not None and begin - start.end >= budget:
            break
        chunk = text[begin:end]
        secrets += ((line + secret.line - 1, secret.kind) for secret in privacy.find_secrets(chunk, patterns))
        done, line = end, line + chunk.count("\n")
    tail = text[max(0, done - _TAIL) : done]
    return _ScanState(start.stamp, done, line, tail, done >= len(text), tuple(secrets))


def chunks(text: str, start: int = 0, *, lines: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each chunk of a text; with `lines` a chunk may end after any line."""
    while start < len(text):
        limit = min(len(text), start + 9 * CHUNK_SIZE)
        end = 0
        for boundary, size in ((_LINE, 1),) if lines else _BOUNDARIES:
            match = boundary.search(text, start + size * CHUNK_SIZE, limit)
            if match is not None:
                end = match.end()
                break
        if not end:  # a very long line is one chunk
            end = text.find("\n", start + 8 * CHUNK_SIZE) + 1 or len(text)
        yield start, end
        start = end
