"""What an accepted memory was learned from: it is listed, and the memory takes its place in recall."""

from pathlib import Path

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.world import World, world

from ralph.core.errors import Refused
from ralph.learning import insights, learned, removal, review
from ralph.memory.author import BY_AGENT, BY_PERSON
from ralph.search import index

DECISION = "we round invoices per position with ROUND_HALF_EVEN, the auditor wants it"
PROMPT = "how do we round invoices per position, what does the auditor want?"
LESSON = "Decision: invoices are rounded per position with ROUND_HALF_EVEN for the auditor."


@pytest.fixture
def here(tmp_path: Path) -> World:
    made = world(tmp_path)
    (made.root / ".agent").mkdir(exist_ok=True)
    session = HookedSession(made, "earlier")
    session.start()
    session.prompt(f"From now on {DECISION}. Change src/invoice.py accordingly.")
    session.stop(f"Done in src/invoice.py.\n\n{LESSON}")
    return made


def answer(here: World) -> str:
    """What a later session gets with a prompt about the decision."""
    index.sync(here.root)
    return HookedSession(here, "later").send("UserPromptSubmit", prompt=PROMPT).decode()


def test_a_memory_takes_the_place_of_what_it_was_learned_from(here: World) -> None:
    assert "Done in src/invoice.py" in answer(here)
    [proposal] = insights.list_(here.root)
    memory = review.accept(here.root, proposal.record.id, context=BY_PERSON).record
    told = answer(here)
    assert memory.id in told
    assert "Done in src/invoice.py" not in told


def test_an_archived_memory_gives_its_place_back(here: World) -> None:
    [proposal] = insights.list_(here.root)
    memory = review.accept(here.root, proposal.record.id, context=BY_PERSON).record
    assert learned.evidence_of(here.root, memory.id)
    removal.archive(here.root, memory.id)
    assert "Done in src/invoice.py" in answer(here)


def test_another_lesson_of_the_same_message_stays(here: World) -> None:
    session = HookedSession(here, "two lessons")
    session.start()
    session.prompt("Let the zebra importer read the old files, and set up the mail server.")
    session.stop(
        "Both work.\n\nGotcha: the zebra importer needs latin-1 for files of the old system.\n"
        "Gotcha: postfix relays only from the port 2525 of the mail server."
    )
    for proposal in insights.list_(here.root):
        if "postfix" in proposal.record.text:
            review.accept(here.root, proposal.record.id, context=BY_PERSON)
    index.sync(here.root)
    prompt = "which encoding does the zebra importer need for files of the old system?"
    told = HookedSession(here, "later").send("UserPromptSubmit", prompt=prompt).decode()
    assert "latin-1" in told


def test_an_agent_cannot_reject_a_proposal(here: World) -> None:
    [proposal] = insights.list_(here.root)
    with pytest.raises(Refused, match="waits for a person"):
        review.reject(here.root, proposal.record.id, context=BY_AGENT)
