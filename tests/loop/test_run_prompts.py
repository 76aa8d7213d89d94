"""The stored prompts of a run."""

from pathlib import Path

import pytest
from tests.support.stored_runs import RUN, empty_repository

from ralph.core.errors import NotFound
from ralph.loop import run_prompts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return empty_repository(tmp_path)


def test_snapshots_are_private_and_listed_in_order(root: Path) -> None:
    for number in (2, 1, 11):
        run_prompts.save(root, RUN.id, number, f"prompt {number}")
    assert list(run_prompts.list_(root, RUN.id)) == [1, 2, 11]
    assert run_prompts.read(root, RUN.id, 11) == "prompt 11"
    with pytest.raises(NotFound, match="no snapshot of iteration 3"):
        run_prompts.read(root, RUN.id, 3)
