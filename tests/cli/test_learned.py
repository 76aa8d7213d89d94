"""Proposals of sessions on the command line: their evidence, the keys that decide them, and what was learned."""

import sys
from pathlib import Path

import pytest
from tests.support.insights import BUILD
from tests.support.proposals import propose_from
from tests.support.review_keys import reviewing
from tests.support.runner import Project
from tests.support.situations import TEACHING

from ralph.core.record import MemoryKind, Record, Status
from ralph.learning import insights, learned, review
from ralph.learning.propose import evidence
from ralph.memory import memory, reading

ERROR = "Error: Cannot find module '../dist/parser.js'"
SIMILAR = "`npm test` needs ../dist/parser.js"


@pytest.fixture
def proposal(ralph: Project) -> Record:
    """The fix that a session without a task proposes."""
    return propose_from(ralph.root, TEACHING[BUILD])


def test_a_proposal_is_shown_with_its_evidence(ralph: Project, proposal: Record) -> None:
    shown = ralph("review", "show", proposal.id).out
    assert f'  "{ERROR}"\n  "Bash: npm run build"\n' in shown
    assert ralph("review", "show", proposal.id, "--format", "json").json["quotes"][0] == ERROR
    assert ralph("review", "--format", "json").json[0]["quotes"][0] == ERROR


def test_a_learned_memory_lists_its_evidence(ralph: Project, proposal: Record) -> None:
    name = review.accept(ralph.root, proposal.id).record.id
    shown = ralph("memory", "show", name).out
    first = evidence(proposal)[0]
    assert f"Learned from:\n  {first}  {ERROR}\n" in shown
    assert ralph("memory", "show", name, "--format", "json").json["evidence"] == list(
        evidence(proposal)
    )


def test_a_record_that_is_gone_is_named_as_such(ralph: Project) -> None:
    name = memory.add(ralph.root, SIMILAR, MemoryKind.FIX).stored.record.id
    assert "evidence" not in ralph("memory", "show", name, "--format", "json").json
    learned.note_evidence(ralph.root, name, ["obs-1-aaaa"])
    assert "  obs-1-aaaa  (no longer recorded)\n" in ralph("memory", "show", name).out


@pytest.mark.parametrize("words", [("edit", "--archive"), ("delete",)], ids=["archive", "delete"])
def test_the_evidence_of_a_memory_that_goes_is_released(
    ralph: Project, proposal: Record, words: tuple[str, ...]
) -> None:
    name = review.accept(ralph.root, proposal.id).record.id
    assert ralph("memory", *words, name).code == 0
    assert learned.evidence_of(ralph.root, name) == []


# --- keys ---------------------------------------------------------------------------------------


def editor(folder: Path, text: str) -> str:
    """Return the command of an editor that replaces the text of a file."""
    script = folder / "editor.py"
    script.write_text(
        "import sys; from pathlib import Path\n"
        f"Path(sys.argv[1]).write_text({text!r}, encoding='utf-8')\n",
        encoding="utf-8",
    )
    return f"{sys.executable} {script}"


def test_keys_accept_undo_and_reject_a_proposal(ralph: Project, proposal: Record) -> None:
    propose_from(ralph.root, TEACHING["a service that was not up"], "host-2")
    with reviewing(ralph.root) as keys:
        keys.wait("1/2  proposal")
        assert f'"{ERROR}"' in keys.printed
        keys.press("a", "2/2  proposal")
        assert reading.list_entries(ralph.root)[0].record.text == proposal.text
        keys.press("u", "1/2  proposal")
        assert reading.list_entries(ralph.root) == []
        keys.press("r", "2/2  proposal")
        keys.press("q")
        assert keys.end() == 0
    assert insights.find(ralph.root, proposal.id).record.status is insights.REJECTED


@pytest.mark.parametrize(
    ("key", "count"), [("e", 2), ("m", 1)], ids=["edited and accepted", "merged"]
)
def test_a_key_opens_the_editor_for_the_new_wording(
    ralph: Project, proposal: Record, tmp_path: Path, key: str, count: int
) -> None:
    memory.add(ralph.root, SIMILAR, MemoryKind.FIX)
    text = "`npm run build` makes what `npm test` needs"
    with reviewing(ralph.root, EDITOR=editor(tmp_path, text)) as keys:
        keys.wait("1/1  proposal")
        assert "m merge" in keys.printed
        keys.press(key)
        assert keys.end() == 0
    texts = [stored.record.text for stored in reading.list_entries(ralph.root)]
    assert (len(texts), text in texts) == (count, True)
    assert insights.find(ralph.root, proposal.id).record.status is Status.ACCEPTED
