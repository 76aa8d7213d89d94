"""Proposals of sessions without a task: what a person sees of them, decides about them, and undoes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.insights import BUILD
from tests.support.proposals import propose_from
from tests.support.site_changes import everything
from tests.support.situations import TEACHING

from ralph.core.errors import Refused, UsageError
from ralph.core.record import MemoryKind, Record, Status
from ralph.learning import inbox, insights, learned, promotion, removal, review
from ralph.learning.candidates import Operation
from ralph.learning.inbox import ReviewItem
from ralph.learning.promotion import Target
from ralph.learning.propose import OPERATION, TARGETS, evidence
from ralph.memory import memory, reading
from ralph.memory.author import BY_AGENT
from ralph.web.changes import ChangeHistory, ChangeRequest, apply_planned

SIMILAR = "`npm test` needs ../dist/parser.js"
UNRELATED = "Invoices are numbered without gaps"
MERGED = "`npm run build` makes ../dist/parser.js, which `npm test` needs"


@pytest.fixture
def proposal(tmp_path: Path) -> Record:
    """The fix that a session without a task proposes in the project at `tmp_path`."""
    (tmp_path / ".ralph").mkdir()
    return propose_from(tmp_path, TEACHING[BUILD])


def waiting(root: Path) -> ReviewItem:
    [item] = [item for item in inbox.items(root) if item.kind == inbox.PROPOSAL]
    return item


def remember(root: Path, text: str) -> str:
    return memory.add(root, text, MemoryKind.FIX).stored.record.id


# --- what is offered ----------------------------------------------------------------------------


def test_a_proposal_can_be_merged_with_the_most_similar_memory(
    tmp_path: Path, proposal: Record
) -> None:
    remember(tmp_path, UNRELATED)
    similar = remember(tmp_path, SIMILAR)
    item = waiting(tmp_path)
    assert item.verbs == ("accept", "edit", "merge", "reject")
    assert (item.other, item.other_text) == (similar, SIMILAR)
    assert f"{similar} is similar: {SIMILAR}" in item.why


def test_merging_is_not_offered_without_a_similar_memory(tmp_path: Path, proposal: Record) -> None:
    remember(tmp_path, UNRELATED)
    removal.archive(tmp_path, remember(tmp_path, SIMILAR))
    item = waiting(tmp_path)
    assert (item.verbs, item.other) == (("accept", "edit", "reject"), "")


def test_a_proposal_without_quotes_shows_a_line_of_each_record(
    tmp_path: Path, proposal: Record
) -> None:
    item = waiting(tmp_path)
    assert item.quotes == ()
    [quoted] = inbox.with_quotes(tmp_path, [item])
    assert quoted.quotes == (
        "Error: Cannot find module '../dist/parser.js'",
        "Bash: npm run build",
        "Bash: npm test",
    )


# --- decisions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "text", "expected", "status"),
    [
        ("accept", None, None, "promoted"),
        ("edit", MERGED, MERGED, "promoted"),
        ("merge", MERGED, MERGED, "promoted"),
        ("reject", None, "", "rejected"),
    ],
    ids=["accept", "edit", "merge", "reject"],
)
def test_a_decision_is_applied_and_undone(
    tmp_path: Path,
    proposal: Record,
    action: str,
    text: str | None,
    expected: str | None,
    status: str,
) -> None:
    similar = remember(tmp_path, SIMILAR)
    before = everything(tmp_path)
    into = similar if action == "merge" else ""
    history = ChangeHistory(tmp_path)
    change = apply_planned(history, ChangeRequest(action, proposal.id, to=into, text=text))
    assert insights.state(insights.find(tmp_path, proposal.id).record) == status
    wording = proposal.text if expected is None else expected
    texts = [stored.record.text for stored in reading.list_entries(tmp_path)]
    assert (wording in texts) == bool(wording)
    assert (SIMILAR in texts) == (action != "merge")
    assert [item for item in inbox.items(tmp_path) if item.kind == inbox.PROPOSAL] == []
    history.undo(change.undo)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("action", ["accept", "edit", "merge"])
def test_a_memory_that_was_learned_names_its_evidence(
    tmp_path: Path, proposal: Record, action: str
) -> None:
    similar = remember(tmp_path, SIMILAR)
    request = ChangeRequest(action, proposal.id, to=similar, text=MERGED)
    changed = apply_planned(ChangeHistory(tmp_path), request)
    assert learned.evidence_of(tmp_path, changed.result["id"]) == list(evidence(proposal))


def test_merging_without_a_text_keeps_the_wording_of_the_memory(
    tmp_path: Path, proposal: Record
) -> None:
    similar = remember(tmp_path, SIMILAR)
    merged = review.merge(tmp_path, proposal.id, similar, text=None)
    assert merged.record.text == SIMILAR
    assert learned.evidence_of(tmp_path, similar) == list(evidence(proposal))


def test_an_agent_cannot_merge_its_own_proposal(tmp_path: Path, proposal: Record) -> None:
    similar = remember(tmp_path, SIMILAR)
    with pytest.raises(Refused, match="waits for a person"):
        review.merge(tmp_path, proposal.id, similar, text=MERGED, context=BY_AGENT)
    assert reading.get_entry(tmp_path, similar).record.text == SIMILAR


def test_an_agent_cannot_promote_its_own_proposal(tmp_path: Path, proposal: Record) -> None:
    before = everything(tmp_path)
    for target in Target:
        with pytest.raises(Refused, match="waits for a person"):
            promotion.promote(tmp_path, proposal.id, target, page="cart", context=BY_AGENT)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (ChangeRequest("edit", text=" \n"), UsageError),
        (ChangeRequest("archive"), Refused),
    ],
    ids=["an empty text", "an action of memories"],
)
def test_what_is_not_a_decision_changes_nothing(
    tmp_path: Path, proposal: Record, request_: ChangeRequest, error: type[Exception]
) -> None:
    before = everything(tmp_path)
    with pytest.raises(error):
        apply_planned(ChangeHistory(tmp_path), request_._replace(id=proposal.id))
    assert everything(tmp_path) == before


# --- the evidence of memories that go ------------------------------------------------------------


@pytest.mark.parametrize("remove", [removal.archive, removal.delete], ids=["archive", "delete"])
def test_the_evidence_of_a_memory_that_goes_is_visible_again(
    tmp_path: Path, proposal: Record, remove: Callable[[Path, str], object]
) -> None:
    other = remember(tmp_path, UNRELATED)
    learned.note_evidence(tmp_path, other, ["obs-1-aaaa"])
    name = review.accept(tmp_path, proposal.id).record.id
    remove(tmp_path, name)
    assert learned.evidence_of(tmp_path, name) == []
    assert learned.evidence_of(tmp_path, other) == ["obs-1-aaaa"]


def test_the_evidence_for_archiving_a_memory_stays_visible(
    tmp_path: Path, proposal: Record
) -> None:
    name = remember(tmp_path, UNRELATED)
    found = insights.find(tmp_path, proposal.id)
    members = {OPERATION: Operation.DELETE.value, TARGETS: [name]}
    insights.change(
        tmp_path, found, lambda record: replace(record, extra={**record.extra, **members})
    )
    assert waiting(tmp_path).verbs == ("accept", "reject")
    assert review.accept(tmp_path, proposal.id).record.id == name
    assert reading.get_entry(tmp_path, name).record.status is Status.RETIRED
    assert learned.evidence_of(tmp_path, name) == []


def test_an_unarchived_memory_replaces_its_evidence_again(tmp_path: Path, proposal: Record) -> None:
    name = review.accept(tmp_path, proposal.id).record.id
    removal.archive(tmp_path, name)
    assert removal.unarchive(tmp_path, name).stored.record.status is Status.ACCEPTED
    assert learned.evidence_of(tmp_path, name) == list(evidence(proposal))


def test_a_memory_keeps_the_evidence_of_a_duplicate_that_is_merged_into_it(
    tmp_path: Path, proposal: Record
) -> None:
    kept = remember(tmp_path, SIMILAR)
    name = review.accept(tmp_path, proposal.id).record.id
    before = everything(tmp_path)
    history = ChangeHistory(tmp_path)
    change = apply_planned(history, ChangeRequest("merge", name, to=kept))
    assert learned.evidence_of(tmp_path, kept) == list(evidence(proposal))
    assert learned.evidence_of(tmp_path, name) == []
    history.undo(change.undo)
    assert everything(tmp_path) == before
