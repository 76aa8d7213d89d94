"""Verify what an agent returns for a digest, and turn it into proposals.

The answer is JSON of the form described in docs/schemas/learn.json. Nothing in it is believed:

- every record that it names must exist in the digest's sessions, and every quote must occur in that
  record literally (only whitespace may differ);
- every memory that it supersedes, merges or deletes must exist;
- a secret, text that reads like an instruction to an agent, and what is already known are dropped.

Whatever fails is dropped and counted by its reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.core import ids
from ralph.core.errors import Unreadable
from ralph.core.record import MemoryKind, Origin, Record, Scope, Status
from ralph.core.similarity import TextMatcher
from ralph.learning import propose
from ralph.learning.candidates import InsightSource
from ralph.learning.digest import describe_record
from ralph.privacy import injection, privacy

MAX_ANSWER_CHARACTERS = 400_000
_MAX_ATTEMPTS = 50  # braces in an answer that may open the object
_MAX_ITEMS = 100  # per list in an answer
_MAX_TEXT_CHARACTERS = 700
# Two memories about one subject share up to .45 of the weight of their words, and two that say the
# same .55 and more (106 memories that an agent distilled from four weeks).
_MIN_KNOWN_OVERLAP = 0.5
_MAX_TAGS = 6
_MAX_QUOTES = 12  # per item
_MIN_QUOTE_CHARACTERS = 12
QUOTES = "quotes"  # the member of a proposal with its quotes
OPERATION = "operation"  # the member that says what accepting a proposal does
TARGETS = "targets"  # the member with the ids of the memories that it replaces or archives


class Operation(StrEnum):
    """What accepting a proposal does."""

    ADD = "add"
    SUPERSEDE = "supersede"
    MERGE = "merge"
    DELETE = "delete"


class Dropped(StrEnum):
    """Why part of an answer is not proposed."""

    MALFORMED = "malformed"
    NO_EVIDENCE = "no evidence"
    UNKNOWN_RECORD = "unknown record"
    ALTERED_QUOTE = "altered quote"
    UNKNOWN_MEMORY = "unknown memory"
    SECRET = "secret"  # noqa: S105 - the name of a reason
    INSTRUCTION = "reads like an instruction"
    KNOWN = "already known"


@dataclass(frozen=True, slots=True)
class Known:
    """What an answer is verified against.

    `records` are the records of the digest, `memories` the present memories, and `texts` what
    memories and proposals already say.
    """

    records: Mapping[str, Record]
    memories: Mapping[str, Record]
    texts: TextMatcher = field(default_factory=TextMatcher)
    patterns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """The proposals in an answer, and how many items were dropped for which reason."""

    proposals: tuple[Record, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


def targets_of(proposal: Record) -> tuple[str, ...]:
    """Return the ids of the memories that a proposal replaces or archives."""
    targets = proposal.extra.get(TARGETS)
    if not isinstance(targets, list | tuple):
        return ()
    return tuple(map(str, targets))


class _DropError(Exception):
    """An item of an answer cannot be proposed."""

    def __init__(self, reason: Dropped) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_answer(text: str) -> Mapping[str, object]:
    """Extract the JSON object from an agent's answer, which may have prose or a fence around it.

    Raises Unreadable if there is none.
    """
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise Unreadable(
            f"the answer has {len(text):,} characters, more than {MAX_ANSWER_CHARACTERS:,}",
            hint="nothing was proposed; run `ralph learn` again",
        )
    if not text.strip():
        raise Unreadable("the answer is empty", hint="nothing was proposed")
    start = text.find("{")
    for _ in range(_MAX_ATTEMPTS):
        if start < 0:
            break
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and not _SECTIONS.keys().isdisjoint(value):
            return value
        start = text.find("{", start + 1)
    raise Unreadable(
        "the answer is not JSON of the expected form",
        hint="nothing was proposed; docs/schemas/learn.json describes the form",
    )


def verify_answer(answer: Mapping[str, object], known: Known) -> VerifiedAnswer:
    """Return a proposal for each item of an answer that holds, and count the others."""
    dropped: Counter[str] = Counter()
    proposals: dict[str, Record] = {}
    for operation, item in _items(answer, dropped):
        try:
            proposal = _verify_item(operation, item, known)
        except _DropError as error:
            dropped[error.reason] += 1
            continue
        proposals[proposal.id] = proposal
        known.texts.add(proposal.text)
    return VerifiedAnswer(tuple(proposals.values()), dict(dropped))


_SECTIONS = {
    "memories": Operation.ADD,
    "merges": Operation.MERGE,
    "deletions": Operation.DELETE,
}


def _items(
    answer: Mapping[str, object], dropped: Counter[str]
) -> Iterator[tuple[Operation, Mapping[str, object]]]:
    for section, operation in _SECTIONS.items():
        items = answer.get(section)
        if items is None:
            continue
        if not isinstance(items, list):
            dropped[Dropped.MALFORMED] += 1
            continue
        for item in items[:_MAX_ITEMS]:
            if isinstance(item, dict):
                yield operation, item
            else:
                dropped[Dropped.MALFORMED] += 1
        if len(items) > _MAX_ITEMS:
            dropped[Dropped.MALFORMED] += len(items) - _MAX_ITEMS


def _verify_item(operation: Operation, item: Mapping[str, object], known: Known) -> Record:
    """Return the proposal for an item. Raises _DropError if it does not hold."""
    quotes = _verify_quotes(item, known.records)
    if operation is Operation.DELETE:
        targets = _verify_targets([item.get("id")], known.memories)
        text = f"Archive {targets[0]}: {known.memories[targets[0]].text}"
        kind = MemoryKind(known.memories[targets[0]].kind)
        tags: tuple[str, ...] = ()
    else:
        text = _verify_text(item, known)
        kind = _verify_kind(item)
        tags = _clean_tags(item)
        names = item.get("ids") if operation is Operation.MERGE else item.get("supersedes")
        targets = _verify_targets(names or [], known.memories)
        if operation is Operation.MERGE and len(targets) < 2:
            raise _DropError(Dropped.UNKNOWN_MEMORY)
        if operation is Operation.ADD and targets:
            operation = Operation.SUPERSEDE
    records = [known.records[quote["id"]] for quote in quotes]
    return _make_proposal(text, kind, tags, records, quotes, operation, targets)


def _verify_quotes(
    item: Mapping[str, object], records: Mapping[str, Record]
) -> list[dict[str, str]]:
    """Return the quotes of an item with full record ids. Every one of them must hold."""
    evidence = item.get("evidence")
    if not isinstance(evidence, list) or not evidence:
        raise _DropError(Dropped.NO_EVIDENCE)
    quotes = []
    for entry in evidence[:_MAX_QUOTES]:
        if not isinstance(entry, dict):
            raise _DropError(Dropped.MALFORMED)
        name = entry.get("id")
        quote = entry.get("quote")
        if not isinstance(name, str) or not isinstance(quote, str):
            raise _DropError(Dropped.MALFORMED)
        matches = ids.match_ids(name.strip("[] "), records)
        if not matches:
            raise _DropError(Dropped.UNKNOWN_RECORD)
        quoted = [match for match in matches if _is_quoted(quote, records[match])]
        if not quoted:
            raise _DropError(Dropped.ALTERED_QUOTE)
        quotes.append({"id": quoted[0], "quote": " ".join(quote.split())})
    return quotes


def _is_quoted(quote: str, record: Record) -> bool:
    """Return whether a quote occurs in a record, or in the line about it that the agent saw."""
    wanted = " ".join(quote.split())
    text = " ".join(record.text.split())
    is_long_enough = len(wanted) >= min(_MIN_QUOTE_CHARACTERS, len(text))
    return is_long_enough and (wanted in text or wanted in describe_record(record))


def _verify_targets(names: object, memories: Mapping[str, Record]) -> list[str]:
    if not isinstance(names, list):
        raise _DropError(Dropped.MALFORMED)
    targets = []
    for name in names:
        matches = ids.match_ids(name, memories) if isinstance(name, str) else []
        if len(matches) != 1:
            raise _DropError(Dropped.UNKNOWN_MEMORY)
        targets.append(matches[0])
    return list(dict.fromkeys(targets))


def _verify_text(item: Mapping[str, object], known: Known) -> str:
    text = item.get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_TEXT_CHARACTERS:
        raise _DropError(Dropped.MALFORMED)
    text = " ".join(text.split())
    if privacy.find_secrets(text, known.patterns):
        raise _DropError(Dropped.SECRET)
    if injection.looks_like_instructions(text):
        raise _DropError(Dropped.INSTRUCTION)
    if known.texts.nearest(text, min_overlap=_MIN_KNOWN_OVERLAP) is not None:
        raise _DropError(Dropped.KNOWN)
    return text


def _verify_kind(item: Mapping[str, object]) -> MemoryKind:
    kind = item.get("type", MemoryKind.CONTEXT.value)
    if kind not in list(MemoryKind):
        raise _DropError(Dropped.MALFORMED)
    return MemoryKind(str(kind))


def _clean_tags(item: Mapping[str, object]) -> tuple[str, ...]:
    tags = item.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _DropError(Dropped.MALFORMED)
    return privacy.clean_tags(tags)[:_MAX_TAGS]


def _make_proposal(
    text: str,
    kind: MemoryKind,
    tags: tuple[str, ...],
    records: Sequence[Record],
    quotes: list[dict[str, str]],
    operation: Operation,
    targets: list[str],
) -> Record:
    files: dict[str, None] = {}
    for record in records:
        files.update(dict.fromkeys(record.origin.files))
    sessions = list(dict.fromkeys(record.origin.session for record in records))
    extra: dict[str, object] = {
        propose.SOURCE: InsightSource.AGENT.value,
        propose.EVIDENCE: list(dict.fromkeys(quote["id"] for quote in quotes)),
        propose.COUNT: len(sessions),
        propose.PLACES: sessions,
        propose.PROMOTED: None,
        QUOTES: quotes,
        OPERATION: operation.value,
    }
    if targets:
        extra[TARGETS] = targets
    created_at = records[0].created_at
    return Record(
        id=propose.insight_id(text, created_at),
        kind=kind,
        text=text,
        label=kind.value,
        tags=tags,
        status=Status.PROPOSED,
        scope=Scope.TASK,  # as in every file of insights
        origin=Origin(by="agent", session=sessions[0], files=tuple(files)[: propose.MAX_FILES]),
        created_at=created_at,
        extra=extra,
    )


# --- as JSON and text ---------------------------------------------------------------------------


def answer_json(answer: VerifiedAnswer) -> dict[str, object]:
    """Return the proposals of an answer and the counts of what was dropped, as JSON."""
    return {
        "proposals": [proposal_json(proposal) for proposal in answer.proposals],
        "dropped": dict(answer.dropped),
    }


def proposal_json(proposal: Record) -> dict[str, object]:
    """Return a proposal as JSON, with the quotes that prove it."""
    return {
        "id": proposal.id,
        "type": proposal.kind.value,
        "text": proposal.text,
        "tags": list(proposal.tags),
        "operation": proposal.extra.get(OPERATION),
        "targets": proposal.extra.get(TARGETS, []),
        "quotes": proposal.extra.get(QUOTES, []),
    }


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Describe what was dropped, such as "dropped: 2 altered quote, 1 secret", or return ""."""
    if not dropped:
        return ""
    return "dropped: " + ", ".join(f"{count} {why}" for why, count in sorted(dropped.items()))
