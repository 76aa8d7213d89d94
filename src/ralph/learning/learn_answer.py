"""Verify what an agent returns for a digest, and turn it into proposals.

The answer is JSON of the form described in docs/schemas/learn.json. Nothing in it is believed:

- every record that it names must exist in the digest's sessions, and every quote must occur in that
  record literally (only whitespace may differ);
- every memory that it supersedes, merges or deletes must exist;
- a secret, text that reads like an instruction to an agent, and what is already known are dropped.

Whatever fails is dropped and counted by its reason. Members that the schema does not have are
ignored, and null means that an optional member is absent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.core import ids, render
from ralph.core.errors import Unreadable
from ralph.core.record import MemoryKind, Origin, Record, Scope, Status
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.learning import propose
from ralph.learning.candidates import InsightSource, Operation
from ralph.learning.digest import line_label, shown_text
from ralph.privacy import injection, privacy

MAX_ANSWER_CHARACTERS = 400_000
MAX_ITEMS = 100  # per list in an answer
MAX_TEXT_CHARACTERS = 700
MAX_QUOTE_CHARACTERS = 1_500  # longer than any line of a digest
MIN_QUOTE_CHARACTERS = 12  # unless the whole record is shorter
_MAX_FAILED_ATTEMPTS = 50  # braces in an answer that do not open an object with memories
_MAX_TAGS = 6
_MAX_STORED_QUOTES = 12  # per item
_EMPTY_ANSWER = re.compile(r"\s*(?:```\w*\s*)?\{\s*\}\s*(?:```\s*)?")
QUOTES = "quotes"  # the member of a proposal with its quotes
UNVERIFIED = "unverified"  # the member with the files and commands that it names and nobody found


class Dropped(StrEnum):
    """Why part of an answer is not proposed."""

    MALFORMED = "malformed"
    TOO_MANY = "too many"
    NO_EVIDENCE = "no evidence"
    UNKNOWN_RECORD = "unknown record"
    ALTERED_QUOTE = "altered quote"
    SHORT_QUOTE = "quote too short"
    UNKNOWN_MEMORY = "unknown memory"
    SECRET = "secret"  # noqa: S105 - the name of a reason
    INSTRUCTION = "reads like an instruction"
    KNOWN = "already known"
    FORGOTTEN = "forgotten"


class KnownTexts:
    """What memories and proposals already say."""

    def __init__(self) -> None:
        self._matcher = TextMatcher()
        self._numbers: dict[str, set[int]] = {}  # by owner
        self._owners: dict[str, set[str]] = {}  # by normalised text

    def add(self, text: str, owner: str) -> None:
        """Add what the memory or proposal with the id `owner` says."""
        number = self._matcher.add(text)
        self._numbers.setdefault(owner, set()).add(number)
        self._owners.setdefault(normalise_text(text), set()).add(owner)

    def contains(self, text: str, replaced: Collection[str] = ()) -> bool:
        """Check whether a text says what is known. It may resemble what it replaces."""
        if self._owners.get(normalise_text(text), set()).difference(replaced):
            return True
        ignored = set[int]()
        for owner in replaced:
            ignored |= self._numbers.get(owner, set())
        nearest = self._matcher.nearest(
            text, min_overlap=propose.DISTILLED_OVERLAP, ignored=ignored
        )
        return nearest is not None


@dataclass(frozen=True, slots=True)
class Known:
    """What an answer is verified against.

    `records` are the records of the digest, `memories` the present memories and waiting proposals,
    `texts` what memories and proposals already say, and `deletions` the memories that were proposed
    for deletion before.
    """

    records: Mapping[str, Record]
    memories: Mapping[str, Record]
    texts: KnownTexts = field(default_factory=KnownTexts)
    deletions: Collection[str] = ()
    patterns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """The proposals in an answer, and how many items were dropped for which reason."""

    proposals: tuple[Record, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


class _DropError(Exception):
    """An item of an answer cannot be proposed."""

    def __init__(self, reason: Dropped) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Quote:
    """A literal part of a record."""

    record: Record
    text: str


@dataclass(frozen=True, slots=True)
class _Draft:
    """The verified content of a proposal."""

    text: str
    kind: MemoryKind
    operation: Operation
    targets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


# --- reading ------------------------------------------------------------------------------------

_SECTIONS = {
    "memories": Operation.ADD,
    "merges": Operation.MERGE,
    "deletions": Operation.DELETE,
}


def parse_answer(text: str) -> Mapping[str, Sequence[object]]:
    """Extract the items from an agent's answer, by section.

    The answer may have prose and fences around its JSON object. If there are several objects, their
    items are combined. Raises Unreadable if there is none.
    """
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise Unreadable(
            f"the answer has {len(text):,} characters, more than {MAX_ANSWER_CHARACTERS:,}",
            hint="nothing was proposed; run `ralph learn` again",
        )
    if not text.strip():
        raise Unreadable("the answer is empty", hint="nothing was proposed")
    objects = list(_find_objects(text))
    if not objects and not _EMPTY_ANSWER.fullmatch(text):
        raise Unreadable(
            "the answer is not JSON of the expected form",
            hint="nothing was proposed; docs/schemas/learn.json describes the form",
        )
    combined: dict[str, list[object]] = {section: [] for section in _SECTIONS}
    for found in objects:
        for section, items in combined.items():
            value = found.get(section)
            if isinstance(value, list):
                items += value
            elif value is not None:
                items.append(None)  # counts as one malformed item
    return combined


def _find_objects(text: str) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects in a text that have a section of an answer."""
    decoder = json.JSONDecoder()
    failed = 0
    start = text.find("{")
    while start >= 0 and failed < _MAX_FAILED_ATTEMPTS:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and not _SECTIONS.keys().isdisjoint(value):
            yield value
        else:
            failed += 1
            end = start + 1  # the object may be inside of this one
        start = text.find("{", end)


# --- verifying ----------------------------------------------------------------------------------


def verify_answer(answer: Mapping[str, Sequence[object]], known: Known) -> VerifiedAnswer:
    """Return a proposal for each item of an answer that holds, and count the others."""
    dropped: Counter[str] = Counter()
    proposals: dict[str, Record] = {}
    deletions = set(known.deletions)
    for section, operation in _SECTIONS.items():
        items = answer.get(section, ())
        if len(items) > MAX_ITEMS:
            dropped[Dropped.TOO_MANY] += len(items) - MAX_ITEMS
        for item in items[:MAX_ITEMS]:
            try:
                proposal = _verify_item(operation, item, known, deletions)
            except _DropError as error:
                dropped[error.reason] += 1
                continue
            proposals[proposal.id] = proposal
            if operation is Operation.DELETE:
                deletions.update(propose.targets(proposal))
            else:
                known.texts.add(proposal.text, proposal.id)
    return VerifiedAnswer(tuple(proposals.values()), dict(dropped))


def _verify_item(
    operation: Operation, item: object, known: Known, deletions: Collection[str]
) -> Record:
    """Return the proposal for an item. Raises _DropError if it does not hold."""
    if not isinstance(item, dict):
        raise _DropError(Dropped.MALFORMED)
    quotes = _verify_quotes(item, known)
    if operation is Operation.DELETE:
        draft = _verify_deletion(item, known, deletions)
    elif operation is Operation.MERGE:
        draft = _verify_merge(item, known)
    else:
        draft = _verify_memory(item, known)
    return _make_proposal(draft, quotes)


def _verify_deletion(
    item: Mapping[str, object], known: Known, deletions: Collection[str]
) -> _Draft:
    target = _verify_targets([item.get("id")], known.memories)[0]
    if target in deletions:
        raise _DropError(Dropped.KNOWN)
    record = known.memories[target]
    text = f"Archive {target}: {render.one_line(record.text)}"
    return _Draft(text, MemoryKind(record.kind), Operation.DELETE, (target,))


def _verify_merge(item: Mapping[str, object], known: Known) -> _Draft:
    targets = _verify_targets(item.get("ids"), known.memories)
    if len(targets) < 2:
        raise _DropError(Dropped.MALFORMED)
    tags = _verify_tags(item)
    text = _verify_text(item, tags, known)
    if known.texts.contains(text, targets):
        raise _DropError(Dropped.KNOWN)
    return _Draft(text, _verify_kind(item), Operation.MERGE, targets, tags)


def _verify_memory(item: Mapping[str, object], known: Known) -> _Draft:
    targets = _verify_targets(_optional(item, "supersedes", []), known.memories)
    tags = _verify_tags(item)
    text = _verify_text(item, tags, known)
    replaced = [normalise_text(known.memories[target].text) for target in targets]
    if normalise_text(text) in replaced or known.texts.contains(text, targets):
        raise _DropError(Dropped.KNOWN)
    operation = Operation.SUPERSEDE if targets else Operation.ADD
    return _Draft(text, _verify_kind(item), operation, targets, tags)


def _verify_quotes(item: Mapping[str, object], known: Known) -> list[_Quote]:
    """Return the quotes of an item. Every one of them must hold."""
    evidence = item.get("evidence")
    if not isinstance(evidence, list) or not evidence:
        raise _DropError(Dropped.NO_EVIDENCE)
    quotes = []
    for entry in evidence:
        if not isinstance(entry, dict):
            raise _DropError(Dropped.MALFORMED)
        name = entry.get("id")
        quote = entry.get("quote")
        if not isinstance(name, str) or not isinstance(quote, str):
            raise _DropError(Dropped.MALFORMED)
        if len(quote) > MAX_QUOTE_CHARACTERS:
            raise _DropError(Dropped.MALFORMED)
        quotes.append(_verify_quote(name, quote, known))
    return quotes


def _verify_quote(name: str, quote: str, known: Known) -> _Quote:
    matches = ids.match_ids(_bare_id(name), known.records)
    if not matches:
        raise _DropError(Dropped.UNKNOWN_RECORD)
    wanted = " ".join(quote.split())
    if not wanted:
        raise _DropError(Dropped.SHORT_QUOTE)
    for match in matches:
        record = known.records[match]
        text = shown_text(record)
        literal = wanted
        if wanted not in text:
            literal = wanted.removeprefix(line_label(record)).lstrip()
        if not literal or literal not in text:
            continue
        if len(literal) < min(MIN_QUOTE_CHARACTERS, len(text)):
            raise _DropError(Dropped.SHORT_QUOTE)
        if privacy.find_secrets(literal, known.patterns):
            raise _DropError(Dropped.SECRET)
        return _Quote(record, literal)
    raise _DropError(Dropped.ALTERED_QUOTE)


def _verify_targets(names: object, memories: Mapping[str, Record]) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise _DropError(Dropped.MALFORMED)
    targets: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str):
            raise _DropError(Dropped.MALFORMED)
        matches = ids.match_ids(_bare_id(name), memories)
        if len(matches) != 1:
            raise _DropError(Dropped.UNKNOWN_MEMORY)
        targets[matches[0]] = None
    return tuple(targets)


def _bare_id(name: str) -> str:
    """Return an id without the brackets around it, which an agent may have copied."""
    return name.strip("[] ")


def _verify_text(item: Mapping[str, object], tags: Sequence[str], known: Known) -> str:
    """Return the text of an item without invisible characters and private sections."""
    text = item.get("text")
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS:
        raise _DropError(Dropped.MALFORMED)
    public = privacy.strip_private(render.remove_invisible(text))[0]
    public = " ".join(public.split())
    if not any(map(str.isalnum, public)):
        raise _DropError(Dropped.MALFORMED)
    guarded = injection.guarded_text("", public, tags)
    if privacy.find_secrets(guarded, known.patterns):
        raise _DropError(Dropped.SECRET)
    if injection.looks_like_instructions(guarded):
        raise _DropError(Dropped.INSTRUCTION)
    return public


def _verify_kind(item: Mapping[str, object]) -> MemoryKind:
    kind = _optional(item, "type", MemoryKind.CONTEXT.value)
    if not isinstance(kind, str) or kind not in list(MemoryKind):
        raise _DropError(Dropped.MALFORMED)
    return MemoryKind(kind)


def _verify_tags(item: Mapping[str, object]) -> tuple[str, ...]:
    tags = _optional(item, "tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _DropError(Dropped.MALFORMED)
    lines = [" ".join(render.remove_invisible(tag).split()) for tag in tags]
    return privacy.clean_tags(lines)[:_MAX_TAGS]


def _optional(item: Mapping[str, object], member: str, default: object) -> object:
    """Return an optional member. null means that it is absent."""
    value = item.get(member)
    return default if value is None else value


def _make_proposal(draft: _Draft, quotes: Sequence[_Quote]) -> Record:
    files: dict[str, None] = {}
    for quote in quotes:
        files.update(dict.fromkeys(quote.record.origin.files))
    sessions = list(dict.fromkeys(quote.record.origin.session for quote in quotes))
    evidence = list(dict.fromkeys(quote.record.id for quote in quotes))
    stored_quotes = []
    for quote in quotes[:_MAX_STORED_QUOTES]:
        stored_quotes.append({"id": quote.record.id, "quote": quote.text})
    extra: dict[str, object] = {
        propose.SOURCE: InsightSource.AGENT.value,
        propose.EVIDENCE: evidence[: propose.MAX_EVIDENCE],
        propose.COUNT: len(sessions),
        propose.PLACES: sessions[: propose.MAX_PLACES],
        propose.PROMOTED: None,
        QUOTES: stored_quotes,
        propose.OPERATION: draft.operation.value,
    }
    if draft.targets:
        extra[propose.TARGETS] = list(draft.targets)
    created_at = quotes[0].record.created_at
    return Record(
        id=propose.insight_id(draft.text, created_at),
        kind=draft.kind,
        text=draft.text,
        label=draft.kind.value,
        tags=draft.tags,
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
        "operation": propose.operation(proposal).value,
        "targets": list(propose.targets(proposal)),
        "quotes": proposal.extra.get(QUOTES, []),
        "unverified": proposal.extra.get(UNVERIFIED, []),
    }


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Describe what was dropped, such as "dropped: 2 altered quote, 1 secret", or return ""."""
    if not dropped:
        return ""
    return "dropped: " + ", ".join(f"{count} {why}" for why, count in sorted(dropped.items()))
