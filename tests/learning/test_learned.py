"""What an accepted memory was learned from: it is listed, and the memory takes its place in recall."""

from pathlib import Path

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.world import World, world

from ralph.learning import insights, learned, removal, review
from ralph.memory.author import BY_PERSON
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
