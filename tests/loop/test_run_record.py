"""The record of an ended run."""

import json
from pathlib import Path

from tests.support.looping import PASSES, Workshop, project, says_done

from ralph.testing import Step


def test_the_run_record_is_written_once_and_anew_when_a_run_goes_on(tmp_path: Path) -> None:
    shop: Workshop = project(tmp_path / "shop")
    shop.set(max_iterations=1)
    run = shop.start(Step(say="<journal>the tax is missing</journal>"))
    shop.resume(Step(), says_done(), PASSES)
    lines = [json.loads(line) for line in shop.log(run).splitlines()]
    [record] = [line for line in lines if line.get("label") == "run"]
    assert record["id"] == run.id
    assert "Ended: success" in record["text"]
    assert "1. blocked: the tax is missing" in record["text"]
