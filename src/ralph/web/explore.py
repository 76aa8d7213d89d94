"""Lists records page by page for the Memory Explorer, with a count for every value of each facet.

A search uses the ranking of `ralph search` for the best hits; the rest follows by its full-text score. Each facet is
counted under the choices of the others, from totals that the index keeps.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralph.core import ids, tokens
from ralph.core.errors import UsageError
from ralph.core.record import Family, Hit, Query, Record, Status
from ralph.recall import outdated
from ralph.recall.json_shapes import STATUS_WORDS, mark_weak, record_json, session_of
from ralph.recall.search import merge_repeats
from ralph.search import index, meaning, question, rank
from ralph.search.rank import STANDARD, WEAK, RankedRow, Ranking
from ralph.storage import lookup, queries, sessions, totals
from ralph.storage.totals import FacetRow, FacetValues

if TYPE_CHECKING:
    from ralph.core.settings import Embedding, Team

FACETS = (*FacetValues._fields, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
SORTS = ("relevance", "newest")
MAX_FACET_VALUES = (
    40  # the most frequent values of a facet that are listed; chosen values are always listed
)
MAX_RANKED = 60  # the hits that are ranked in full; the rest of the list is in full-text order and has no score
PREVIEW_LENGTH = 280

FacetFilter = Mapping[str, Collection[str]]
"""The chosen values of each facet; a facet without any lets everything through."""
FacetCounts = dict[str, list[tuple[str, int]]]
Page = dict[str, Any]  # one page of a list: `items`, `total`, `facets`, and `notes` for the reader


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A search text, the chosen values of each facet, a task, the order, and the page."""

    text: str = ""
    chosen: FacetFilter = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


def record_row(
    record: Record,
    location: tuple[str, int],
    task: str,
    *,
    past: str = "",
    full: bool = False,
    **marks: Any,
) -> dict[str, Any]:
    """Return a record for a list, or in full, with its marks (score, why ...); `past` says why it no longer holds."""
    source, line = location
    text = record.text
    is_weak = marks.pop("weak", False)
    return {
        **record_json(record, f"{source}:{line}" if line else source),
        "text": text if full else " ".join(text[: PREVIEW_LENGTH * 4].split())[:PREVIEW_LENGTH],
        "family": record.family.value,
        "scope": record.scope.value,
        "task": record.origin.task or task,
        "session": session_of(record),
        "tokens": tokens.estimate(text),
        **({"score": None, "why": (), "count": 1, "stale": ""} | marks),
        "superseded_by": past.removeprefix("superseded by ")
        if past.startswith("superseded by ")
        else "",
        "expired": past.removeprefix("expired ") if past.startswith("expired ") else "",
        **mark_weak(is_weak),
    }


def count_facets(rows: Iterable[FacetRow], chosen: FacetFilter) -> tuple[int, FacetCounts]:
    """Return how many records pass, and the values of each facet, counted under the choices of the others."""
    since = first_day(chosen)
    counts: dict[str, Counter[str]] = {facet: Counter() for facet in FacetValues._fields}
    days: Counter[str] = Counter()
    total = 0
    for values, day, number in rows:
        failing = _failing_facets(values, chosen)
        is_young = day >= since
        for facet, counter in counts.items() if is_young else ():
            if failing <= {facet}:
                for value in _facet_values(values, facet):
                    counter[value] += number
        if not failing:
            days[day] += number
            total += number if is_young else 0
    facets: FacetCounts = {
        facet: _top_values(counter, chosen.get(facet, ())) for facet, counter in counts.items()
    }
    first_days = {age: ids.first_day(count) for age, count in AGES.items()}
    facets["age"] = [
        (age, sum(number for day, number in days.items() if day >= at))
        for age, at in first_days.items()
    ]
    return total, facets


def first_day(chosen: FacetFilter) -> str:
    """Return the first day of the chosen ages; "" without one."""
    return ids.first_day(max(AGES[age] for age in chosen["age"])) if chosen.get("age") else ""


def _failing_facets(values: FacetValues, chosen: FacetFilter) -> set[str]:
    """Return the facets whose choice a record does not pass; archived ones pass only where that is chosen."""
    failing = {
        facet
        for facet, wanted in chosen.items()
        if facet != "age" and not any(value in wanted for value in _facet_values(values, facet))
    }
    if "status" not in chosen and values.status == Status.RETIRED:
        failing.add("status")
    return failing


def _facet_values(values: FacetValues, facet: str) -> Sequence[str]:
    value: str | tuple[str, ...] = getattr(values, facet)
    if isinstance(value, tuple):
        return value
    return (STATUS_WORDS.get(value, value) if facet == "status" else value,)


def _top_values(count: Mapping[str, int], chosen: Collection[str]) -> list[tuple[str, int]]:
    best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    top = best[:MAX_FACET_VALUES] + [pair for pair in best[MAX_FACET_VALUES:] if pair[0] in chosen]
    return top + [(value, 0) for value in sorted(set(chosen) - {value for value, _ in top})]


def list_records(root: Path, request: ListRequest, *, embedding: Embedding | None = None) -> Page:
    """Return one page; UsageError for an unknown order or age."""
    if request.sort and request.sort not in SORTS:
        raise UsageError(f"{request.sort!r} is no order", hint=f"valid ones: {', '.join(SORTS)}")
    ages = [age for age in request.chosen.get("age", ()) if age not in AGES]
    if ages:
        raise UsageError(f"{ages[0]!r} is no age", hint=f"valid ones: {', '.join(AGES)}")
    chosen = {facet: set(values) for facet, values in request.chosen.items() if values}
    if "tag" in chosen:
        chosen["tag"] = {tag.lower() for tag in chosen["tag"]}
    request = replace(request, chosen=chosen)

    def ask(connection: sqlite3.Connection) -> Page:
        listing = _Listing(root, connection, request)
        return listing.search(embedding) if request.text.strip() else listing.everything()

    return index.ask(root, ask)


def list_tags(root: Path, begin: str, limit: int) -> list[tuple[str, int]]:
    """Return tags that contain some letters, those that begin with them first, then the most frequent."""
    part = begin.strip().lstrip("#").lower()
    counts: Counter[str] = Counter()
    for values, _, number in index.ask(
        root, lambda connection: list(totals.facet_rows(connection))
    ):
        for tag in values.tag:
            if part in tag:
                counts[tag] += number
    return sorted(
        counts.items(), key=lambda pair: (not pair[0].startswith(part), -pair[1], pair[0])
    )[:limit]


def count_everything(root: Path) -> tuple[int, int]:
    """Return how many records are listed without a filter, and how many tasks there are."""
    return index.ask(
        root, lambda each: (sum(totals.count_records(each).values()), sessions.count_tasks(each))
    )


class _Listing:
    def __init__(self, root: Path, connection: sqlite3.Connection, request: ListRequest) -> None:
        self.root = root
        self.connection = connection
        self.request = request
        stored = {facet: values for facet, values in request.chosen.items() if facet != "age"}
        if "tag" in stored:
            stored["tag"] = totals.tag_texts(connection, stored["tag"])
        if "status" in stored:
            stored["status"] = [
                each.value
                for each in Status
                if STATUS_WORDS.get(each, each.value) in stored["status"]
            ]
        self.keep = queries.facet_filter(stored, since=first_day(request.chosen), task=request.task)
        # the task alone: facets are counted under the choices of the others
        self.visible = queries.facet_filter(
            {"status": [each.value for each in Status]}, task=request.task
        )

    def everything(self) -> Page:
        """Return a page of all records that pass, the newest first."""
        request = self.request
        if request.task:
            total, facets = self._count(None)
        else:
            total, facets = count_facets(totals.facet_rows(self.connection), request.chosen)
        return self._page(
            queries.page(self.connection, self.keep, request.limit, request.offset), total, facets
        )

    def _count(self, keys: Sequence[int] | None) -> tuple[int, FacetCounts]:
        days = [ids.first_day(count) for count in AGES.values()]
        return count_facets(
            totals.facet_rows_of(self.connection, self.visible, keys, days), self.request.chosen
        )

    def _slice(self, order: Sequence[int]) -> Sequence[int]:
        return order[self.request.offset : self.request.offset + self.request.limit]

    def _page(
        self,
        keys: Sequence[int],
        total: int,
        facets: FacetCounts,
        notes: Sequence[str] = (),
        hits: Mapping[int, tuple[Hit, int]] | None = None,
        ranking: Ranking | None = None,
    ) -> Page:
        """Return the page of some keys; `hits` are the best ones with how many repeat each."""
        connection = self.connection
        best = hits or {}
        records = queries.records(connection, [key for key in keys if key not in best])
        records.update({key: best[key][0].record for key in keys if key in best})
        keys = [key for key in keys if key in records]
        locations = queries.locations(connection, keys)
        owners = queries.tasks_of(connection, keys)
        stale = outdated.citation_notes(self.root, list(records.values()))
        past = outdated.describe_outdated(connection, list(records.values()))
        reasons = self._reasons(keys, ranking) if ranking is not None else {}
        items = []
        for key in keys:
            record = records[key]
            hit, count = best.get(key, (None, 1))
            problems: dict[str, Any] = {
                "stale": stale.get(record.id, ""),
                "past": past.get(record.id, ""),
            }
            why = [
                *reasons.get(key, ()),
                *(each for each in (hit.why if hit else ()) if each not in problems.values()),
            ]
            marks: dict[str, Any] = (
                {"score": hit.score, "weak": hit.weak} if hit is not None else {}
            )
            owner = owners.get(key, "")
            items.append(
                record_row(record, locations[key], owner, why=why, count=count, **marks, **problems)
            )
        return {"items": items, "total": total, "facets": facets, "notes": notes}

    def search(self, embedding: Embedding | None) -> Page:
        """Return a page of what a text finds: an id, words by rank, or the beginning of a word."""
        connection = self.connection
        request = self.request
        text = self.request.text.strip()
        if queries.key_of(connection, text) is not None or ids.date_of(
            text
        ):  # an id also finds archived records
            keys = queries.keys_of(connection, text)
            by_time = queries.page(connection, self.visible, None, keys=keys)
            order = (
                [key for key in keys if key in by_time]
                if request.sort in ("", "relevance")
                else by_time
            )
            records = queries.records(connection, order)
            by_id = {key: (Hit(record, 1.0, ("id",)), 1) for key, record in records.items()}
            return self._page(self._slice(order), len(order), self._count(order)[1], hits=by_id)
        notes: list[str] = []
        near = None
        if embedding is not None:
            near = meaning.meaning_for(self.root, embedding, connection, Query(text), notes.append)
        keep = self.keep if request.task or request.chosen else lookup.EVERYTHING
        ranking = rank.rank(
            connection, text, today=ids.today(), keep=keep, limit=MAX_RANKED, meaning=near
        )
        ranked = [row for row in ranking.best if row.matched or row.link or row.close > 0]
        records = queries.records(connection, [row.row.key for row in ranked])
        hits = [
            Hit(records[row.row.key], round(row.score, 4), weak=row.weak)
            for row in ranked
            if row.row.key in records
        ]
        if hits and ranking.weak:
            notes.append(WEAK)
        past = outdated.describe_outdated(connection, [hit.record for hit in hits])
        merged = merge_repeats(
            outdated.demote_outdated(outdated.demote_stale(self.root, hits), past)
        )
        key_of = {id(record): key for key, record in records.items()}
        best = {key_of[id(hit.record)]: (hit, 1 + len(others)) for hit, others in merged}
        match = " OR ".join(
            f'"{term}"' for term in question.rarest_terms(ranking.words, STANDARD.common)
        )
        is_counted = match and (ranked or request.chosen)
        matching = queries.matching_keys(connection, match) if is_counted else []
        everything = [*{*matching, *records}]
        total, facets = self._count(everything)
        total = total if best else 0
        if not total and not request.chosen and (containing := self._containing()) is not None:
            return containing
        if request.sort == "newest":
            order = queries.page(connection, self.keep, None, keys=everything) if total else []
        else:
            order = list(best)
            total = max(total - len(records), 0) + len(best)
            end = request.offset + request.limit
            if len(order) < min(end, total) and match:
                more = lookup.matching(connection, match, STANDARD.fields, end + len(records), keep)
                order += [key for key, _ in more if key not in records]
        replaced = rank.replacements(connection, ranking.words, keep) if hits else ()
        notes = [*rank.describe_replacements(replaced), *notes]
        return self._page(self._slice(order), total, facets, notes, best, ranking)

    def _containing(self) -> Page | None:
        text = queries.safe(self.request.text.strip())
        matching = lookup.containing(self.connection, text.split(), lookup.EVERYTHING)
        keys = queries.page(self.connection, self.keep, None, keys=matching)
        if not keys:
            return None
        notes = [f"Texts that contain {text!r}, newest first."]
        return self._page(self._slice(keys), len(keys), self._count(keys)[1], notes)

    def _reasons(self, keys: Sequence[int], ranking: Ranking) -> dict[int, tuple[str, ...]]:
        rows = {row.row.key: row for row in ranking.best}
        for key, row in lookup.fetch_rows(
            self.connection, [key for key in keys if key not in rows]
        ).items():
            rows[key] = RankedRow(row)
            rows[key].matched = rank.match_words(row, ranking.words)
        return {
            key: tuple(rank.explain(rows[key], ranking.words, ids.today()))
            for key in keys
            if key in rows
        }


def team_page(root: Path, request: ListRequest, team: Team) -> Page:
    """Return a page of what the team shares, and our own: the best hits of a text, or the newest."""
    from ralph.sharing import team_search

    families = tuple(
        Family(each) for each in request.chosen.get("family", ()) if each in set(Family)
    )
    answer = team_search.search(
        root, Query(request.text, families=families, limit=MAX_RANKED), team
    )
    items = []
    for shown in answer.shown:
        where = (f"team/{shown.member}" if shown.member else "", 0)
        score = shown.hit.score
        why = [*shown.hit.why]
        items.append(
            record_row(
                shown.hit.record,
                where,
                "",
                score=score,
                why=why,
                count=shown.count,
                past=shown.note,
            )
        )
    some = items[request.offset : request.offset + request.limit]
    return {
        "items": some,
        "total": len(items),
        "facets": {},
        "notes": [WEAK] if answer.is_weak else [],
    }
