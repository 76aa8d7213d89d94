"""What an iteration noted is forgotten in the run's log and in the task's progress.txt alike."""

from pathlib import Path

import pytest
from tests.support.looping import PASSES, Workshop, project, says_done
from tests.support.secret_logs import SECRET

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.formats.progress import parse_progress
from ralph.learning import forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.loop.request import LoopRequest
from ralph.recall import journal
from ralph.tasks import task
from ralph.testing import Step


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A task on which a run worked for three iterations, the second of which noted a secret."""
    shop = project(tmp_path / "shop")
    name = task.add(shop.root, "Add up the cart").task.id
    shop.start(
        Step(say="<journal>looked at cart.py</journal>"),
        Step(say=f"<journal>the word is {SECRET}\nLearnings:\n- {SECRET} opens it</journal>"),
        says_done("<journal>it adds up</journal>"), PASSES, request=LoopRequest(task=name),
    )  # fmt: skip
    return shop


def progress_file(shop: Workshop) -> Path:
    [found] = paths.tasks_folder(shop.root).glob("*/progress.txt")
    return found


def entry(shop: Workshop, iteration: int) -> str:
    [run] = {each.run for each in journal.list_(shop.root)[0]}
    return f"jrn-{run}-{iteration}"


def test_the_block_of_the_iteration_goes_with_its_entry_and_every_other_byte_stays(
    shop: Workshop,
) -> None:
    path = progress_file(shop)
    before = path.read_bytes().decode()
    blocks = {each.record.extra.get("journal"): each for each in parse_progress(before).entries}
    gone = blocks[entry(shop, 2)]
    made = forget.plan_forget(shop.root, ForgetRequest(ids=(entry(shop, 2),)))
    assert path.read_bytes().decode() == before, "a plan changes nothing"
    told = [(each.id, each.line) for each in made.records if each.path == path]
    assert told == [(entry(shop, 2), gone.line)]
    assert {each.path.suffix for each in made.records} == {".txt", ".jsonl"}
    forget.forget(shop.root, made)
    assert (
        path.read_bytes().decode() == before[: gone.start].removesuffix("\n") + before[gone.end :]
    )
    assert SECRET not in path.read_bytes().decode()
    assert [each.iteration for each in journal.list_(shop.root)[0]] == [3, 1]


def test_a_block_whose_entry_is_gone_already_is_forgotten_by_the_same_id(shop: Workshop) -> None:
    name = entry(shop, 2)
    for log in paths.log_folder(shop.root).glob("runs/*.jsonl"):
        log.unlink()
    made = forget.plan_forget(shop.root, ForgetRequest(ids=(name,)))
    assert [(each.path, each.id) for each in made.records] == [(progress_file(shop), name)]
    forget.forget(shop.root, made)
    assert SECRET not in progress_file(shop).read_bytes().decode()
    with pytest.raises(NotFound):
        forget.plan_forget(shop.root, ForgetRequest(ids=(name,)))
