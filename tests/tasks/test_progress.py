"""What a task remembers: its PRD and its archive, its progress.txt, and what an iteration is told of it."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.looping import project, says_done

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.record import Family, Outcome, Query
from ralph.core.tokens import estimate
from ralph.core.work import Ask, JournalEntry, Reply
from ralph.formats.progress import is_progress_pattern, parse_progress
from ralph.learning import insights
from ralph.learning.propose import places
from ralph.loop.request import LoopRequest
from ralph.memory.knowledge import LearnedEntry
from ralph.memory.memory import Change
from ralph.recall import search
from ralph.search import index
from ralph.tasks import prd_file, progress, task
from ralph.testing import Step

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BASE64 = "MIIEpAIBAAKCAQEA7bq9x2Lw0cQkz8Vd1sJ3uYp5tRf6gHn4mBe7aKo2iXlZc8vS\n" * 6
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BASE64}-----END RSA PRIVATE KEY-----"
LESSON = "LedgerWriter rejects refunds that are older than 90 days"


def learned_entry(title: str, text: str, slug: str) -> LearnedEntry:
    return LearnedEntry(title, slug, Change.NEW, text=text)


def prd(branch: str = "refunds", *, passes: bool = False) -> str:
    stories = [
        {
            "id": "US-2",
            "title": "second",
            "priority": 2,
            "passes": False,
            "acceptanceCriteria": ["it shows"],
        },
        {
            "id": "US-1",
            "title": "first",
            "priority": 1,
            "passes": passes,
            "acceptanceCriteria": ["it adds up"],
        },
    ]
    return json.dumps(
        {
            "project": "shop",
            "branchName": branch,
            "description": "Money back.",
            "userStories": stories,
        }
    )


def entry(work: str, number: int = 1, notes: str = "", **more: object) -> JournalEntry:
    made = JournalEntry(
        "run-00000001",
        number,
        Outcome.BLOCKED,
        work,
        "refunds",
        notes=notes,
        created_at=f"2026-01-0{number}T10:00:00Z",
    )
    return replace(made, **more)  # type: ignore[arg-type]  # by name, in a test


def noted(lesson: str = LESSON) -> str:
    return f"half of it works\n\nLearnings:\n- {lesson}\n"


def place(root: Path, work: str) -> Path:
    return paths.tasks_folder(root) / work


def text(root: Path, work: str) -> str:
    return (place(root, work) / "progress.txt").read_text(encoding="utf-8")


def patterns(root: Path, work: str) -> list[str]:
    return [
        each.record.text
        for each in parse_progress(text(root, work)).entries
        if is_progress_pattern(each.record)
    ]


# --- the PRD -----------------------------------------------------------------------------------


def test_a_task_with_a_prd_has_it_word_for_word_and_its_description(tmp_path: Path) -> None:
    work = task.add(tmp_path, "refunds", prd=prd()).task
    assert (work.description, work.branch) == ("Money back.", "refunds")
    assert (place(tmp_path, work.id) / "prd.json").read_text(encoding="utf-8").rstrip() == prd()
    assert text(tmp_path, work.id).startswith("## Codebase Patterns\n")
    assert [story.id for story in task.show(tmp_path, work.id).stories] == ["US-2", "US-1"]
    assert task.add(tmp_path, "other", "mine", prd=prd()).task.description == "mine"


@pytest.mark.parametrize(
    "bad", ["{", "[]", '{"userStories": [{"title": "no id"}]}', f'{{"description": "{SECRET}"}}']
)
def test_a_prd_that_cannot_be_taken_makes_no_task(tmp_path: Path, bad: str) -> None:
    with pytest.raises(Refused):
        task.add(tmp_path, "refunds", prd=bad)
    assert not list(paths.tasks_folder(tmp_path).glob("*/task.json"))


# --- progress.txt ------------------------------------------------------------------------------


def test_an_iteration_leaves_a_block_with_its_story_thread_files_and_learnings(
    tmp_path: Path,
) -> None:
    work = task.add(tmp_path, "refunds", prd=prd()).task
    made = entry(work.id, notes=noted(), files=("a.py", "b.py"), session="abc-1")
    progress.append_iteration(tmp_path, made, story=prd_file.open_stories(tmp_path, work.id)[0])
    assert text(tmp_path, work.id).endswith(
        "## 2026-01-01 10:00 - US-1\n"
        "Thread: ralph://session/abc-1\n"
        "[//]: # (ralph: jrn-run-00000001-1)\n"
        "Outcome: blocked\n"
        "- half of it works\n"
        "- Files changed: a.py, b.py\n"
        "- **Learnings for future iterations:**\n"
        f"  - {LESSON}\n"
        "---\n"
    )


def test_an_iteration_that_is_told_again_after_a_crash_is_written_once(tmp_path: Path) -> None:
    work = task.add(tmp_path, "refunds").task
    for _ in range(2):
        progress.append_iteration(tmp_path, entry(work.id, notes=noted()))
    assert text(tmp_path, work.id).count("half of it works") == 1


def test_what_two_blocks_learned_stands_once_at_the_top_and_the_blocks_stay(tmp_path: Path) -> None:
    work = task.add(tmp_path, "refunds").task
    assert progress.append_iteration(tmp_path, entry(work.id, 1, noted())) == []
    first = text(tmp_path, work.id)
    new = progress.append_iteration(tmp_path, entry(work.id, 2, noted(f"{LESSON}.")))
    assert [each.text for each in new] == [LESSON]
    assert progress.append_iteration(tmp_path, entry(work.id, 3, noted())) == []
    assert patterns(tmp_path, work.id) == [LESSON]
    assert first.partition("---\n")[2] in text(tmp_path, work.id)


def test_knowledge_stands_at_the_top_at_once_and_is_found_as_knowledge_only(tmp_path: Path) -> None:
    work = task.add(tmp_path, "refunds").task
    known = [
        learned_entry(
            "Ledger windows", "LedgerWriter closes after 90 days.\n\nMore.", "ledger-windows"
        )
    ]
    [new] = progress.append_iteration(tmp_path, entry(work.id), known)
    assert new.text == "Ledger windows: LedgerWriter closes after 90 days."
    assert patterns(tmp_path, work.id) == [f"{new.text} ([[ledger-windows]])"]
    found = search.search(tmp_path, Query(text="LedgerWriter closes")).found.hits
    assert not [hit for hit in found if hit.record.id.startswith("found-")]


def test_lines_of_a_person_stay_as_they_are(tmp_path: Path) -> None:
    work = task.add(tmp_path, "refunds").task
    mine = f"# My log\n\nsome words\n\n## Codebase Patterns\n* {LESSON}\n\n## 2025-01-01 - US-9\n- mine, passed\n"
    (place(tmp_path, work.id) / "progress.txt").write_text(mine, encoding="utf-8")
    for number in (1, 2):
        progress.append_iteration(tmp_path, entry(work.id, number, noted()))
    assert text(tmp_path, work.id).startswith(mine)
    assert patterns(tmp_path, work.id) == [LESSON]


@pytest.mark.parametrize(
    "secret", [f"the token is {SECRET}", KEY, "<private>the\nname of\nthe client</private>"]
)
def test_no_secret_of_an_agent_reaches_the_disk(tmp_path: Path, secret: str) -> None:
    work = task.add(tmp_path, "refunds").task
    known = [learned_entry(secret, secret, "x")]
    made = entry(
        work.id,
        notes=f"done\n\n{secret}\n\nLearnings:\n- {secret}",
        files=(SECRET,),
        session=SECRET,
    )
    progress.append_iteration(tmp_path, made, known)
    said = text(tmp_path, work.id)
    for word in (SECRET, "MIIEpAIBAAKCAQEA7bq", "name of"):
        assert word not in said


@given(st.text(max_size=300), st.text(max_size=60))
def test_whatever_an_agent_notes_gives_one_block_and_harms_no_neighbour(
    notes: str, title: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        work = task.add(root, "refunds").task
        for number, said in ((1, noted()), (2, notes), (3, "## x\n---\n```\n<!--\n")):
            progress.append_iteration(
                root, entry(work.id, number, said), [learned_entry(title, notes, "x")]
            )
        blocks = [
            each.record
            for each in parse_progress(text(root, work.id)).entries
            if "journal" in each.record.extra
        ]
        assert [block.extra["journal"] for block in blocks] == [
            f"jrn-run-00000001-{number}" for number in (1, 2, 3)
        ]
        assert LESSON in blocks[0].text


# --- what is told and found --------------------------------------------------------------------


def test_an_iteration_is_told_patterns_and_the_newest_blocks_within_the_budget(
    tmp_path: Path,
) -> None:
    work = task.add(tmp_path, "refunds").task
    for number in range(1, 10):
        progress.append_iteration(
            tmp_path, entry(work.id, number, noted() + f"\nstep {number} " + "word " * 70)
        )
    said = progress.prompt_section(tmp_path, work.id, 600)
    assert estimate(said) <= 600
    assert said.startswith(f"### Codebase Patterns\n- {LESSON}\n")
    assert "step 9" in said
    assert "step 1 " not in said
    assert "older blocks" in said
    assert said.index("2026-01-08") < said.index("2026-01-09")


def test_the_prompt_has_stories_and_progress_after_the_journal(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    work = task.add(shop.root, "refunds", prd=prd()).task
    first = Step(say=f"<journal>{noted()}</journal>")
    run = shop.start(
        first,
        says_done("<story-done>US-1</story-done>\n<story-done>US-2</story-done>"),
        request=LoopRequest(task=work.id, criteria=("none",), verify=False),
    )
    told = shop.prompt(run, 2)
    order = [told.index(f"## {name}\n") for name in ("Assigned Task", "Stories", "Run Journal")]
    assert order == sorted(order)
    assert told.index("US-1: first") < told.index("US-2: second")
    assert "it adds up" in told
    assert told.count(LESSON) == 1, "what the journal says is not said again as progress"
    assert [story.passes for story in prd_file.list_stories(shop.root, work.id)] == [True, True]


def test_a_story_that_does_not_say_whether_it_passes_can_be_ticked(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    stories = '{"userStories": [{"id": "US-1", "title": "a" }, {"id": "US-2", "title": "b"}]}'
    work = task.add(shop.root, "refunds", prd=stories).task
    assert prd_file.tick_stories(shop.root, work.id, ["US-1"]) == ["US-1"]
    found = prd_file.list_stories(shop.root, work.id)
    assert [story.id for story in found if story.passes] == ["US-1"]


def test_block_and_journal_entry_of_an_iteration_are_one_hit(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    run = shop.start(
        says_done("<journal>the LedgerWriter was split in two</journal>"), enforces_read_only=False
    )
    assert "LedgerWriter was split" in text(shop.root, run.done[0])
    found = search.search(
        shop.root, Query(text="LedgerWriter split", families=(Family.JOURNAL,))
    ).found.hits
    assert [hit.record.id for hit in found] == [f"jrn-{run.id}-1"], (
        "and the record of the whole run with it"
    )
    assert index.verify(shop.root) == []


def test_one_iteration_is_one_sighting_though_it_is_told_in_several_places(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    known = f'<knowledge tags="ledger" title="Ledger">{LESSON}</knowledge>'
    run = shop.start(says_done(f"<journal>{noted()}</journal>{known}"), enforces_read_only=False)
    assert not paths.global_patterns(shop.root).exists()
    assert all(
        len(places(each.record)) == 1 for each in insights.list_(shop.root, task_id=run.done[0])
    )


# --- at the end --------------------------------------------------------------------------------


def test_a_task_that_is_done_by_hand_leaves_what_it_taught_to_the_project(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")

    def again(ask: Ask) -> Reply:
        return Reply(f"<journal>{noted()}</journal>", session=f"s{len(shop.agent.asks)}")

    shop.set(max_iterations=2)
    work = task.add(shop.root, "refunds").task
    shop.start(again, again, request=LoopRequest(task=work.id, criteria=("none",), verify=False))
    _, promotion, _ = task.complete(shop.root, work.id)
    assert promotion is not None
    assert [each.text for each in promotion.added] == [LESSON]
    assert LESSON in paths.global_patterns(shop.root).read_text(encoding="utf-8")
    nodes = paths.tasks_folder(shop.root) / work.id / "graphiti" / "nodes.json"
    assert "refunds" in nodes.read_text(encoding="utf-8"), "its part of the graph is beside it"
    assert task.complete(shop.root, work.id)[1] is not None, "to say it again changes nothing"
    assert paths.global_patterns(shop.root).read_text(encoding="utf-8").count(LESSON) == 1
