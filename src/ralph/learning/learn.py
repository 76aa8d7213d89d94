"""Distil memories from recorded sessions with the user's own agent (`ralph learn`).

The sessions since the last time are described in digests (`learning/digest.py`). For each digest,
an agent is asked once, and its answer is verified (`learning/learn_answer.py`). What holds is
stored as proposals for `ralph review`. Only then is the progress noted, so a crash changes nothing
and the next run begins where the last one ended.

The caller passes the agent as a function, so that this module does not know how agents are run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path

from ralph.core import ids, paths, render
from ralph.core.errors import Unreadable, UsageError
from ralph.core.record import Record, Status
from ralph.core.settings import Learning
from ralph.core.similarity import TextMatcher
from ralph.core.tokens import estimate
from ralph.learning import insights, propose
from ralph.learning.candidates import InsightSource, Operation
from ralph.learning.digest import Digest, line_tokens, make_digests
from ralph.learning.insights import NO_TASK, Insight
from ralph.learning.learn_answer import (
    Dropped,
    Known,
    KnownTexts,
    VerifiedAnswer,
    parse_answer,
    verify_answer,
)
from ralph.learning.learn_progress import note_progress, progress
from ralph.learning.unverified import mark_unverified
from ralph.memory import quarantine, reading
from ralph.search import index
from ralph.storage import files, queries

TIMEOUT_SECONDS = 300.0  # for one call of the agent
_KNOWN_SHARE = 0.25  # of the budget, for the list of existing memories and proposals
_MAX_RECORDS = 20_000  # read in one run
_PROMPT_FILE = "learn.md"


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent answered, what that cost in dollars, and what went wrong, if anything did."""

    text: str
    cost: float = 0.0
    error: str = ""


AskAgent = Callable[[str], AgentAnswer]


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """What to learn from, and under which rules. An empty `since` means since the last time."""

    settings: Learning = field(default_factory=Learning)
    since: str = ""
    patterns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LearnCall:
    """One prompt for an agent, with the records that its answer may quote."""

    digest: Digest
    prompt: str

    @property
    def tokens(self) -> int:
        """The estimated number of tokens in the prompt."""
        return estimate(self.prompt)


@dataclass(slots=True)
class LearnReport:
    """What a run has done so far."""

    sessions: int = 0
    calls: int = 0
    tokens_sent: int = 0
    tokens_received: int = 0
    cost: float = 0.0
    proposals: list[Record] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


# --- running ------------------------------------------------------------------------------------


def learn(
    root: Path, request: LearnRequest, ask: AskAgent, tell: Callable[[str], None]
) -> LearnReport:
    """Ask the agent about every digest, and store what it proposes.

    `tell` is called with a line of progress before each call. A digest that the agent fails on is
    reported as a problem and tried again by the next run, as are all later ones.
    """
    report = LearnReport()
    digests = plan_digests(root, request)
    for number, digest in enumerate(digests, 1):
        call = make_call(root, request, digest)  # it lists what the calls before it proposed
        sessions = len(digest.sessions)
        tell(f"asking about {sessions} session(s), call {number} of {len(digests)} ...")
        answer = ask(call.prompt)
        report.calls += 1
        report.tokens_sent += call.tokens
        report.tokens_received += estimate(answer.text)
        report.cost += answer.cost
        if answer.error:
            report.problems.append(answer.error)
            break
        try:
            verified = apply_answer(root, answer.text, call.digest.records, request.patterns)
        except Unreadable as error:
            report.problems.append(error.message)
            break
        report.sessions += sessions
        report.proposals += verified.proposals
        report.dropped.update(verified.dropped)
        if not request.since:  # what happened before that time is still to be distilled
            note_progress(root, call.digest.until)
    return report


def plan_digests(root: Path, request: LearnRequest) -> list[Digest]:
    """Return the digests of everything that was recorded since the last time."""
    budget = request.settings.budget
    records = new_records(root, request.since)
    room = budget - estimate(_describe_known(root, _room_for_known(budget)))
    digests = make_digests(records, room)
    if len(digests) > 1:  # the later calls also list what the earlier ones proposed
        digests = make_digests(records, budget - _room_for_known(budget))
    return digests


def make_call(root: Path, request: LearnRequest, digest: Digest) -> LearnCall:
    """Return the prompt for a digest, with the present memories and proposals."""
    settings = request.settings
    parts = [load_prompt(settings.prompt)]
    known = _describe_known(root, _room_for_known(settings.budget))
    if known:
        parts.append(render.framed("Existing memories:", known))
    parts.append(render.framed("Sessions:", digest.text))
    return LearnCall(digest, "\n".join(parts))


def _room_for_known(budget: int) -> int:
    return int(budget * _KNOWN_SHARE)


def load_prompt(file: str = "") -> str:
    """Return the request to the agent: Ralph's own, or the user's file.

    Raises UsageError if the file cannot be read.
    """
    if not file:
        return (resources.files("ralph.learning") / _PROMPT_FILE).read_text(encoding="utf-8")
    text = files.read(Path(file).expanduser())
    if not text:
        raise UsageError(
            f"{file}: there is no such file, or it is empty",
            hint="learning.prompt must name a text file; `ralph config learning.prompt ''` "
            "uses Ralph's own",
        )
    return text


def _describe_known(root: Path, budget: int) -> str:
    """Return the newest memories and distilled proposals with their ids, within a budget."""
    records = list(_replaceable_records(root).values())
    records.sort(key=lambda record: record.added_at, reverse=True)
    names = ids.short_ids(record.id for record in records)
    lines: list[str] = []
    tokens = 0
    for record in records:
        line = f"[{names.get(record.id, record.id)}] {render.one_line(record.text)}"
        tokens += line_tokens(line)
        if tokens > budget:
            break
        lines.append(line)
    return "\n".join(lines)


def _replaceable_records(root: Path) -> dict[str, Record]:
    """Return what an agent sees and may propose to replace: current memories, and proposals."""
    entries = [stored.record for stored in reading.list_entries(root)]
    may_inject = quarantine.injection_filter(root)
    current = [record for record in reading.current_records(entries) if may_inject(record)]
    return {**{record.id: record for record in current}, **_waiting_proposals(root)}


def _waiting_proposals(root: Path) -> dict[str, Record]:
    """Return the proposals that an agent has distilled and nobody has decided, by their ids."""
    waiting = {}
    for insight in insights.list_(root, status=Status.PROPOSED):
        if insight.task == NO_TASK and not _is_found_by_rule(insight):
            waiting[insight.record.id] = insight.record
    return waiting


# --- applying an answer -------------------------------------------------------------------------


def apply_answer(
    root: Path, text: str, records: Mapping[str, Record] | None = None, patterns: Sequence[str] = ()
) -> VerifiedAnswer:
    """Verify an agent's answer and store its proposals.

    `records` are those that the answer may quote; None means all that were recorded since the last
    time. Raises Unreadable if the answer is not JSON of the expected form.
    """
    answer = parse_answer(text)
    if records is None:
        records = {record.id: record for record in new_records(root)}
    verified = verify_answer(answer, _what_is_known(root, records, patterns))
    clean = insights.clean_proposals(verified.proposals, patterns)
    dropped = Counter(verified.dropped)
    dropped[Dropped.FORGOTTEN] = len(verified.proposals) - len(clean)
    waiting = _waiting_proposals(root)
    proposals = [_without_proposed_targets(proposal, waiting) for proposal in clean]
    kept = mark_unverified(root, list(filter(_changes_something, proposals)))
    replaced = {**_reworded_proposals(root, kept), **_replaced_proposals(clean, waiting)}
    insights.save_proposals(root, NO_TASK, paths.proposals_file(root), kept, replaced)
    return VerifiedAnswer(tuple(kept), dict(+dropped))


def _without_proposed_targets(proposal: Record, waiting: Mapping[str, Record]) -> Record:
    """Return a proposal that only has memories as targets, because proposals are withdrawn."""
    targets = [target for target in propose.targets(proposal) if target not in waiting]
    if len(targets) == len(propose.targets(proposal)):
        return proposal
    extra = {**proposal.extra, propose.TARGETS: targets}
    if not targets:
        del extra[propose.TARGETS]
        if propose.operation(proposal) is not Operation.DELETE:
            extra[propose.OPERATION] = Operation.ADD.value
    return replace(proposal, extra=extra)


def _changes_something(proposal: Record) -> bool:
    """Return whether there is anything left to accept: a deletion needs a memory."""
    return propose.operation(proposal) is not Operation.DELETE or bool(propose.targets(proposal))


def _replaced_proposals(
    proposals: Sequence[Record], waiting: Mapping[str, Record]
) -> dict[str, str]:
    """Map the earlier proposals that later sessions changed or proved wrong to the new ones."""
    replaced = {}
    for proposal in proposals:
        for target in propose.targets(proposal):
            if target in waiting:
                replaced[target] = proposal.id
    return replaced


def apply_to_printed_prompt(
    root: Path, text: str, request: LearnRequest, until: str = ""
) -> VerifiedAnswer:
    """Verify an answer to a prompt that was printed earlier, and store its proposals.

    `until` is the time that was printed with the prompt. Everything up to it counts as distilled;
    without it, the same sessions are in the next prompt again. Raises Unreadable if the answer is
    not JSON of the expected form, and UsageError if `until` is a time at which nothing was
    recorded. In both cases, nothing is changed.
    """
    parse_answer(text)  # before anything else is read
    records = {record.id: record for record in new_records(root, request.since)}
    times = {record.created_at for record in records.values()}
    if until > progress(root) and until not in times:
        raise UsageError(
            f"{until!r} is not the time of a recorded event",
            hint="use the time in the last line of `ralph learn --dry-run`; nothing was proposed",
        )
    verified = apply_answer(root, text, records, request.patterns)
    if until and not request.since:
        note_progress(root, until)
    return verified


def _what_is_known(root: Path, records: Mapping[str, Record], patterns: Sequence[str]) -> Known:
    """Collect what memories say, and what was proposed or rejected before.

    What the rules propose does not count, because an agent says it better.
    """
    texts = KnownTexts()
    for stored in reading.list_entries(root, in_=(reading.ALL,)):
        if stored.record.status is not Status.RETIRED:
            texts.add(stored.record.text, stored.record.id)
    deletions = set[str]()
    for insight in insights.list_(root):
        record = insight.record
        if propose.operation(record) is Operation.DELETE:
            deletions.update(propose.targets(record))
        elif not _is_found_by_rule(insight):
            texts.add(record.text, str(record.extra.get(insights.MEMORY) or record.id))
    return Known(records, _replaceable_records(root), texts, deletions, patterns)


def _is_found_by_rule(insight: Insight) -> bool:
    record = insight.record
    is_waiting = insight.task == NO_TASK and record.status is Status.PROPOSED
    return is_waiting and record.extra.get(propose.SOURCE) != InsightSource.AGENT.value


def _reworded_proposals(root: Path, proposals: Sequence[Record]) -> dict[str, str]:
    """Map what the rules proposed to what an agent has proposed in better words."""
    additions = [
        proposal for proposal in proposals if propose.operation(proposal) is not Operation.DELETE
    ]
    matcher = TextMatcher(proposal.text for proposal in additions)
    reworded = {}
    for insight in insights.list_(root, status=Status.PROPOSED):
        if not _is_found_by_rule(insight):
            continue
        number = matcher.nearest(insight.record.text)
        if number is not None:
            reworded[insight.record.id] = additions[number].id
    return reworded


# --- progress -----------------------------------------------------------------------------------


def new_records(root: Path, since: str = "", limit: int = _MAX_RECORDS) -> list[Record]:
    """Return the oldest observations since a time, or since the last run of `ralph learn`."""
    start = since or progress(root)
    records = index.ask(root, partial(queries.observations_since, since=start, limit=limit))
    if len(records) < limit:
        return records
    # There may be more records of the same moment. The next run reads all of them.
    last = records[-1].created_at
    return [record for record in records if record.created_at < last] or records
