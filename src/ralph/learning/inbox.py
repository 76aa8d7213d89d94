"""Collect everything that a person should decide: the inbox of `ralph review`.

The terminal, scripts and pages all show the same items. Nothing is resolved here. When a person
lets an item stay as it is, a hash of its texts is remembered, so that it does not come up again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, islice
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.core.git_history import GitHistory
from ralph.core.record import AT, UNCONFIRMED, MemoryKind, Record, Status, is_confirmed
from ralph.core.repository import Repository, no_repository
from ralph.core.similarity import (
    TextMatcher,
    contradict,
    similarity,
    split_statement,
    term_weights,
)
from ralph.core.text import normalise_text
from ralph.formats.memories_metadata import CONFLICTS
from ralph.learning import evidence as evidence_lines
from ralph.learning import insights as insight
from ralph.learning.candidates import InsightSource, Operation
from ralph.learning.insights import Insight
from ralph.learning.learn_answer import QUOTES, UNVERIFIED
from ralph.learning.propose import (
    COUNT,
    SOURCE,
    evidence,
    is_proven,
    is_well_evidenced,
    operation,
    places,
    targets,
)
from ralph.memory import held_memories, quarantine, reading, waiting_entries
from ralph.memory.confirmation import describe_reason
from ralph.memory.record_shapes import describe_author
from ralph.privacy import injection
from ralph.recall import citation_check, injection_ledger
from ralph.search.citations import STALE
from ralph.search.unknown_names import describe_unknown
from ralph.storage.library import Stored

PROPOSAL = "proposal"
TASK_PROPOSAL = "task-proposal"
HELD = "held"
EDIT = "edit"
CONFLICT = "conflict"
CITATION = "citation"
CONTRADICTION = "contradiction"
DUPLICATE = "duplicate"
UNUSED = "unused"
UNUSED_DAYS = 60
_READS_LIKE = "it reads like an instruction to an agent"
_MIN_SIMILAR_WORDS = 5  # in shorter texts, a single word can make the difference
_WORD = re.compile(r"\w{3,}")
_MAX_TEXTS_WITH_RARE_WORD = 12
_MAX_COMPARED_PAIRS = 20_000
_GIT_SECONDS = 5.0
_MAX_QUOTES = 4  # lines of evidence shown for each item
_VERBS = {
    PROPOSAL: ("accept", "edit", "reject"),
    HELD: ("accept", "reject"),
    EDIT: ("accept", "edit", "delete"),
    CONFLICT: ("accept", "merge", "supersede", "edit", "delete"),
    CONTRADICTION: ("accept", "supersede", "edit", "archive", "delete"),
    DUPLICATE: ("accept", "merge", "archive", "delete"),
    CITATION: ("accept", "edit", "archive", "promote", "delete"),
    UNUSED: ("accept", "edit", "archive", "promote", "delete"),
}
"""What can be done with each kind of item."""
_TIDY_KINDS = (DUPLICATE, CONTRADICTION, CITATION)
_INSIGHT_VERBS = {
    "proposed": ("accept", "reject", "promote"),
    "accepted": ("reject", "promote"),
    "promoted": ("reject", "promote"),
    "rejected": ("accept",),
}
_REVIEW_VERBS = ("accept", "reject", "promote")  # under `ralph review`, not `ralph memory`
_REASONS = {
    InsightSource.FIX: "a command failed and passed after a change",
    InsightSource.HEADING: "an agent noted it as a lesson",
    InsightSource.REPEATED: "it was said more than once",
    InsightSource.AGENT: "your agent distilled it",
}
"""Why something is proposed, by its source."""
_EFFECTS = {
    Operation.ADD: "it adds to",
    Operation.SUPERSEDE: "it replaces",
    Operation.MERGE: "it combines",
    Operation.DELETE: "it archives",
}
"""What accepting a proposal does to existing memories."""
_DEFAULT_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """Something for a person to decide, with the reason, its evidence, and the commands for it."""

    id: str
    kind: str
    text: str
    why: str
    evidence: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    status: str = ""
    label: str = ""
    seen: str = ""
    task: str = ""
    source: str = ""
    other_sources: tuple[str, ...] = ()  # where other tasks noted the same
    other: str = ""  # id of the memory that this one conflicts with, contradicts or resembles
    other_text: str = ""  # what that memory says
    verbs: tuple[str, ...] = ()  # what can be done with it
    quotes: tuple[str, ...] = ()  # what the evidence says, literally

    @property
    def key(self) -> str:
        """The hash that is remembered when a person lets the item stay."""
        return ids.derived(self.kind, f"{self.id} {self.other} {self.text} {self.evidence}")


def items(
    root: Path, *, task_id: str = "", status: str = "proposed", within: str = ""
) -> list[ReviewItem]:
    """Return the insights with this status, and everything else that is waiting for a person.

    A status of "" means any. The other items are included only if the status is "proposed" or ""
    and no task is given.
    """
    found = insight.list_(root, task_id=task_id, within=within)
    found.sort(key=_rank, reverse=True)
    known = _KnownMemories(root) if status == "proposed" else None
    memories = _CurrentMemories(root)
    lessons: dict[Hashable, list[Insight]] = defaultdict(list)
    for proposal in found:
        if known is not None and known.say(proposal.record):
            continue
        if status in ("", insight.state(proposal.record)):
            lessons[insight.lesson_of(proposal)].append(proposal)
    listed = [_lesson_item(same, memories) for same in lessons.values()]
    if status not in ("", "proposed") or task_id:
        return listed
    return [*held_items(root), *listed, *memory_items(root)]


class _KnownMemories:
    """What memory files already say, so that it is not proposed again."""

    def __init__(self, root: Path) -> None:
        self._texts: set[str] = set()
        self._ids: set[str] = set()
        for stored in reading.list_entries(root, in_=(reading.ALL,)):
            record = stored.record
            self._ids.add(record.id)
            self._texts.add(normalise_text(record.text))
            if record.title:
                self._texts.add(normalise_text(f"{record.title}: {record.text}"))

    def say(self, proposal: Record) -> bool:
        """Return whether a memory has the text of a proposal, or is all that it was found in.

        An agent's `<knowledge>` is stored as such, and is an insight of its task in addition.
        """
        if targets(proposal):  # a merge may keep the words of a memory that it combines
            return False
        found_in = evidence(proposal)
        is_only_stored = bool(found_in) and self._ids.issuperset(found_in)
        return is_only_stored or normalise_text(proposal.text) in self._texts


def _rank(found: Insight) -> tuple[int, bool]:
    """Order insights by how often they were seen. A proven one comes first among equals."""
    return len(places(found.record)), is_proven(found.record)


def held_items(root: Path) -> list[ReviewItem]:
    """Return what reads like an instruction to an agent: held additions and entries of files.

    Memories proposed by an import are held as well, and are included.
    """
    found = []
    for held in held_memories.list_held(root):
        text = injection.guarded_text(held.title, held.text, held.tags)
        if injection.looks_like_instructions(text):
            status = "held"
            author = held.by or "somebody"
            way = f" by {held.via}" if held.via else ""
            why = f"{author} added it{way}, and {_READS_LIKE}"
        elif held.reason:
            status = "held"
            why = f"{held.by or 'somebody'} added it, and {held.reason}"
        else:
            status = "proposed"
            why = f"imported from {held.via}"
            record = Record(held.id, MemoryKind.CONTEXT, held.text, title=held.title)
            unknown = describe_unknown(root, record)
            if unknown:
                why += f"; {unknown}"
        item = ReviewItem(
            held.id, HELD, held.text, why, status=status, label=held.kind, source=held.in_
        )
        found.append(_with_actions(item))
    for stored in waiting_entries.find_all(root):
        why = _why_waiting(root, stored.record)
        item = _memory_item(root, EDIT, stored, why, status="held")
        if not waiting_entries.is_editable(root, stored):
            item = _with_actions(replace(item, verbs=("accept",)))
        found.append(item)
    return found


def _why_waiting(root: Path, record: Record) -> str:
    if quarantine.is_suspicious(record) and is_confirmed(record):
        return f"{_READS_LIKE}, and you have not accepted it on this machine"
    author = describe_author(record) or "somebody"
    reason = describe_reason(str(record.extra.get(UNCONFIRMED) or ""))
    if not reason:
        reason = describe_unknown(root, record)
    return f"unconfirmed, by {author}: {reason}"


class _CurrentMemories:
    """The current memories of a project, read when a proposal is first compared with them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _records(self) -> Sequence[Record]:
        entries = reading.list_entries(self.root, in_=("memories", "guardrails"))
        records = reading.current_records([stored.record for stored in entries])
        return [record for record in records if CONFLICTS not in record.extra]

    @cached_property
    def _matcher(self) -> TextMatcher:
        return TextMatcher(record.text for record in self._records)

    def most_similar(self, text: str) -> Record | None:
        """Return the memory that is most similar to a text, or None if none is similar."""
        number = self._matcher.nearest(text)
        if number is None:
            number = self._matcher.most_related(text)
        return None if number is None else self._records[number]


def insight_item(found: Insight, root: Path) -> ReviewItem:
    """Return an insight as an inbox item, together with the same lesson in other tasks."""
    return _lesson_item([found, *insight.find_equal(root, found)], _CurrentMemories(root))


def with_quotes(root: Path, shown: Sequence[ReviewItem]) -> list[ReviewItem]:
    """Return the items with what their evidence says.

    An insight without quotes gets the first line of each record that it is based on.
    """
    wanted: dict[str, None] = {}
    for item in shown:
        wanted.update(dict.fromkeys(_records_to_quote(item)))
    texts = evidence_lines.line_texts(root, list(wanted))
    quoted = []
    for item in shown:
        lines = [texts[record_id] for record_id in _records_to_quote(item) if record_id in texts]
        quoted.append(replace(item, quotes=item.quotes or tuple(dict.fromkeys(lines))))
    return quoted


def _records_to_quote(item: ReviewItem) -> Sequence[str]:
    if item.kind in (PROPOSAL, TASK_PROPOSAL) and not item.quotes:
        return item.evidence[:_MAX_QUOTES]
    return ()


def _insight_item(found: Insight, memories: _CurrentMemories) -> ReviewItem:
    root = memories.root
    record = found.record
    state = insight.state(record)
    count = record.extra.get(COUNT, 1)
    seen = f"{count}x"
    if is_well_evidenced(record):
        seen += "*"
    item = ReviewItem(
        record.id,
        TASK_PROPOSAL,
        record.text,
        why=_why_insight(record),
        verbs=_INSIGHT_VERBS.get(state, ("reject", "promote")),
        evidence=tuple(evidence(record)),
        status=state,
        label=record.label,
        seen=seen,
        task=found.task,
        source=_place_of(found, root),
    )
    if found.task == insight.NO_TASK:
        item = _proposal_item(item, record, memories)
    return _with_actions(item)


def _lesson_item(same: Sequence[Insight], memories: _CurrentMemories) -> ReviewItem:
    """Return insights that are the same lesson as one item, which is decided for all of them."""
    first, *others = same
    item = _insight_item(first, memories)
    if not others:
        return item
    records = [found.record for found in same]
    seen_in = {place for record in records for place in places(record)}
    seen = f"{max(len(seen_in), len(same))}x"
    if any(map(is_well_evidenced, records)):
        seen += "*"
    found_in = {name: None for record in records for name in evidence(record)}
    tasks = dict.fromkeys(found.task for found in others)
    return replace(
        item,
        why=f"{item.why}; also noted in {', '.join(tasks)}",
        evidence=tuple(found_in),
        seen=seen,
        other_sources=tuple(_place_of(found, memories.root) for found in others),
    )


def _place_of(found: Insight, root: Path) -> str:
    return f"{paths.shown(found.stored.path, root)}:{found.stored.line}"


def _why_insight(record: Record) -> str:
    count = record.extra.get(COUNT, 1)
    why = f"{record.label}, seen {count} times in {', '.join(places(record)) or 'no known session'}"
    if is_well_evidenced(record):
        why += "; it goes to the patterns when its task is done"
    return why


def _proposal_item(item: ReviewItem, record: Record, memories: _CurrentMemories) -> ReviewItem:
    """Return the item of an insight that belongs to no task: accepting it adds a memory."""
    item = replace(
        item,
        kind=PROPOSAL,
        why=_why_proposed(record),
        quotes=tuple(islice(_quotes(record), _MAX_QUOTES)),
    )
    if record.status is not Status.PROPOSED:
        return item
    if operation(record) is Operation.DELETE:
        return replace(item, verbs=("accept", "reject"))
    item = replace(item, verbs=_VERBS[PROPOSAL])
    if operation(record) is not Operation.ADD:
        return item
    similar = memories.most_similar(record.text)
    if similar is None:
        return item
    return replace(
        item,
        why=f"{item.why}; {similar.id} is similar: {similar.text}",
        other=similar.id,
        other_text=similar.text,
        verbs=("accept", "edit", "merge", "reject"),
    )


def _why_proposed(record: Record) -> str:
    source = str(record.extra.get(SOURCE) or "")
    why = "it was found in a session"
    if source in list(InsightSource):
        why = _REASONS.get(InsightSource(source), why)
    sessions = len(places(record))
    if sessions > 1:
        why += f", in {sessions} sessions"
    if targets(record):
        why += f"; {_EFFECTS[operation(record)]} {', '.join(targets(record))}"
    unverified = record.extra.get(UNVERIFIED)
    if isinstance(unverified, list | tuple) and unverified:
        why += f"; not found here: {', '.join(map(str, unverified))}"
    return why


def _quotes(record: Record) -> Iterator[str]:
    quotes = record.extra.get(QUOTES)
    if not isinstance(quotes, list | tuple):
        return
    for quote in quotes:
        if isinstance(quote, Mapping):
            yield str(quote.get("quote") or "")


def _memory_item(
    root: Path,
    kind: str,
    stored: Stored,
    why: str,
    *,
    other: str = "",
    other_text: str = "",
    status: str = "",
) -> ReviewItem:
    record = stored.record
    item = ReviewItem(
        record.id,
        kind,
        record.text,
        why,
        other=other,
        other_text=other_text,
        status=status or kind,
        label=record.kind.value,
        source=f"{paths.shown(stored.path, root)}:{stored.line}",
    )
    return _with_actions(item)


def _with_actions(item: ReviewItem) -> ReviewItem:
    """Return an item with the commands of its verbs; without evidence, `other` is its evidence."""
    verbs = item.verbs or _VERBS[item.kind]
    evidence = item.evidence
    if not evidence and item.other:
        evidence = (item.other,)
    # A script deletes one of two entries instead of merging them: only people get that verb.
    commands = [_command(verb, item) for verb in verbs if verb != "merge"]
    return replace(item, evidence=evidence, actions=tuple(commands), verbs=verbs)


def _command(verb: str, item: ReviewItem) -> str:
    if verb == "supersede":
        return f"ralph memory supersede {item.other} {item.id}"
    if verb == "archive":
        return f"ralph memory edit {item.id} --archive"
    if verb == "promote":
        return f"ralph review accept {item.id} --to patterns"
    if verb == "edit" and item.kind == PROPOSAL:
        return f"ralph review accept {item.id} --text TEXT"
    group = "review" if verb in _REVIEW_VERBS else "memory"
    return f"ralph {group} {verb} {item.id}"


# --- findings in the memory files --------------------------------------------------------------


def memory_items(root: Path) -> list[ReviewItem]:
    """Return the memories that need a decision, except those that a person has let stay."""
    entries = reading.list_entries(root, in_=("memories", "guardrails"))
    valid = {record.id for record in reading.current_records([stored.record for stored in entries])}
    current = []
    for stored in entries:
        if stored.record.id in valid and CONFLICTS not in stored.record.extra:
            current.append(stored)
    found = [
        *_conflicts(root, entries),
        *_unsigned(root, current),
        *_contradictions(root, current),
        *_duplicates(root, current),
        *_stale_citations(root),
        *_unused(root, current),
    ]
    if not found:
        return []
    kept = quarantine.kept_keys(root)
    return [item for item in found if item.key not in kept]


def tidy_items(root: Path) -> list[ReviewItem]:
    """Return the memories that repeat or contradict another one, or cite something that is gone."""
    return [item for item in memory_items(root) if item.kind in _TIDY_KINDS]


def _conflicts(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    texts = {stored.record.id: stored.record.text for stored in entries}
    for stored in entries:
        other = str(stored.record.extra.get(CONFLICTS) or "")
        if not other:
            continue
        if other in texts:
            why = f"a merge set it aside: {other} says {texts[other]}"
        else:
            why = f"a merge set it aside: {other} no longer exists"
        other_text = texts.get(other, "")
        yield _memory_item(root, CONFLICT, stored, why, other=other, other_text=other_text)


def _unsigned(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    """Yield entries in committed files that are neither committed nor written by a command."""
    by_path: dict[Path, list[Stored]] = {}
    for stored in entries:
        if not stored.record.extra.get(AT):
            by_path.setdefault(stored.path, []).append(stored)
    for path, group in by_path.items():
        committed = Repository(path.parent, _GIT_SECONDS).text(f"HEAD:./{path.name}")
        if not committed:
            continue
        committed = committed.replace("\r", "")
        for stored in group:
            is_committed = f"### {stored.record.id}\n" in committed
            if not is_committed and not quarantine.is_suspicious(stored.record):
                why = "it is not committed, and no command of Ralph wrote it"
                yield _memory_item(root, EDIT, stored, why)


def _contradictions(root: Path, entries: Iterable[Stored]) -> Iterator[ReviewItem]:
    first_about: dict[tuple[str, ...], tuple[Record, object]] = {}
    for stored in entries:
        subject, claim = split_statement(stored.record.text)
        if not subject:
            continue
        other, other_claim = first_about.setdefault(subject, (stored.record, claim))
        if other_claim != claim:
            why = f"it contradicts {other.id}: {other.text}"
            yield _memory_item(
                root, CONTRADICTION, stored, why, other=other.id, other_text=other.text
            )


def _duplicates(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    """Yield entries that repeat an earlier entry in the same file."""
    weights = cache(term_weights)

    def says_the_same(one: str, other: str) -> bool:
        if normalise_text(one) == normalise_text(other):
            return True
        if min(len(one.split()), len(other.split())) < _MIN_SIMILAR_WORDS:
            return False
        return similarity(weights(one), weights(other)) > 0 and not contradict(one, other)

    repeats = set[int]()
    for earlier, number in sorted(_pairs_to_compare(entries)):
        first = entries[earlier].record
        if number not in repeats and says_the_same(first.text, entries[number].record.text):
            repeats.add(number)
            why = f"{first.id} says the same: {first.text}"
            yield _memory_item(
                root, DUPLICATE, entries[number], why, other=first.id, other_text=first.text
            )


def _pairs_to_compare(entries: Sequence[Stored]) -> set[tuple[int, int]]:
    """Return index pairs of entries in one file that have the same text or share a rare word."""
    pairs = set[tuple[int, int]]()
    first_with_text: dict[tuple[Path, str], int] = {}
    numbers_by_word: dict[tuple[Path, str], list[int]] = {}
    for number, stored in enumerate(entries):
        text = stored.record.text
        first = first_with_text.setdefault((stored.path, normalise_text(text)), number)
        if first != number:
            pairs.add((first, number))
            continue
        for word in set(_WORD.findall(text.lower())):
            numbers_by_word.setdefault((stored.path, word), []).append(number)
    pairs.update(islice(_pairs_with_rare_word(numbers_by_word), _MAX_COMPARED_PAIRS))
    return pairs


def _pairs_with_rare_word(
    numbers_by_word: Mapping[tuple[Path, str], list[int]],
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of entries that share a rare word, rarest words first."""
    for numbers in sorted(numbers_by_word.values(), key=len):
        if len(numbers) <= _MAX_TEXTS_WITH_RARE_WORD:
            yield from combinations(numbers, 2)


def _stale_citations(root: Path) -> Iterator[ReviewItem]:
    for report in citation_check.check_citations(root):
        problems = [checked for checked in report.citations if checked.verdict in STALE]
        if not problems:
            continue
        reasons = []
        locations = []
        for checked in problems:
            citation = checked.citation
            reasons.append(f"{checked.verdict.value}: {citation.kind.value} {citation}")
            if checked.place and checked.place not in locations:
                locations.append(checked.place)
        item = ReviewItem(
            report.record.id,
            CITATION,
            report.record.text,
            "; ".join(reasons),
            evidence=tuple(locations),
            status="stale",
            label=CITATION,
            source=f"{report.source}:{report.line}",
        )
        yield _with_actions(item)


def _unused(root: Path, entries: Iterable[Stored]) -> Iterator[ReviewItem]:
    """Yield old memories that no session received.

    Yields nothing until the ledger of injections reaches back far enough.
    """
    ledger = injection_ledger.read_ledger(root, injection_ledger.WHOLE_LEDGER)
    since = ids.first_day(UNUSED_DAYS)
    injected = {injection.record for injection in ledger.injections}
    if not any(injection.at < since for injection in ledger.injections):
        return
    for stored in entries:
        if stored.record.created_at < since and stored.record.id not in injected:
            why = f"no session got it, and it is older than {UNUSED_DAYS} days"
            yield _memory_item(root, UNUSED, stored, why)


# --- pull requests -----------------------------------------------------------------------------


def changed_items(root: Path, base: str = "") -> list[ReviewItem]:
    """Return what needs a person's decision in the files that differ from the merge base.

    An entry that reads like an instruction needs one if it is new. Raises Refused without a
    repository or a merge base.
    """
    git = GitHistory(root)
    if not git.in_repository:
        raise no_repository(root, "run it in a checkout")
    start = _merge_base(git, base)
    options = ("--name-only", "--relative", "-z", "--diff-filter=d")
    before = {
        name: git.text(f"{start}:./{name}") or "" for name in git.names("diff", *options, start)
    }
    found = []
    for item in items(root):
        is_suspicious_entry = item.kind == EDIT and item.status == HELD
        places_changed = [
            place
            for place in (item.source, *item.other_sources)
            if place.rpartition(":")[0] in before
        ]
        if places_changed and not is_suspicious_entry:
            found.append(item)
    for stored in waiting_entries.find_all(root):
        old_text = before.get(paths.shown(stored.path, root))
        if old_text is not None and stored.record.text.split("\n")[0] not in old_text:
            why = "it is new, and reads like an instruction to an agent"
            found.append(_memory_item(root, EDIT, stored, why))
    return found


def _merge_base(git: GitHistory, base: str) -> str:
    """Return the commit where HEAD left the base branch. Raises Refused if it cannot be found."""
    branches: Sequence[str] = _DEFAULT_BRANCHES
    if base:
        branches = (f"origin/{base}", base)
    branch = ""
    for name in branches:
        if git.commit(name):
            branch = name
            break
    start = git.output_or_empty("merge-base", "HEAD", branch) if branch else ""
    is_shallow = git.is_shallow()
    if start and not (is_shallow and start == git.commit("HEAD")):
        return start
    if branch:
        what = f"{branch} and HEAD have no common ancestor here"
    else:
        what = f"there is no branch {' or '.join(branches)}"
    hint = "name the branch with --base"
    if is_shallow:
        hint = (
            "the clone is shallow: fetch all of it "
            "(`git fetch --unshallow`, or fetch-depth: 0 in a workflow)"
        )
    raise Refused(what, hint=hint)
