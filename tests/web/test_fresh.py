"""An answer includes every earlier change, also while another process is bringing the index up to date.

That process may have read the file before the change, so a request waits for it and looks again.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site
from tests.support.sample import Sample

from ralph.core import paths
from ralph.storage.index_files import sole_writer


@pytest.fixture
def shop(tmp_path: Path) -> Sample:
    return sample.copied(tmp_path / "shop")


def asked_meanwhile(root: Path, question: Callable[[], object]) -> object:
    """The answer to a request that arrives while another process writes the index."""
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(question()))
    with sole_writer(paths.index_file(root)):
        asking.start()
        asking.join(0.5)
    asking.join()
    return answers[0]


def test_a_request_waits_for_an_index_that_is_being_written(shop: Sample) -> None:
    window = Site(shop.root)
    name = shop.memories["vat"]
    retire = {"action": "archive", "id": name}
    shown = window.post("/api/changes/plan", **retire)["files"]
    stamps = {each["name"]: each["before"] for each in shown}
    undo = window.post("/api/changes/apply", **retire, stamps=stamps)["undo"]
    told = asked_meanwhile(
        shop.root, lambda: window.get(f"/api/records/{name}")["record"]["status"]
    )
    assert told == "archived"
    window.post("/api/changes/undo", undo=undo)
    told = asked_meanwhile(
        shop.root, lambda: window.get(f"/api/records/{name}")["record"]["status"]
    )
    assert told == "active"


def test_a_list_has_what_somebody_else_wrote_just_before(shop: Sample) -> None:
    window = Site(shop.root)
    before = window.get("/api/records", limit=1)["total"]
    path = shop.root / ".agent" / "memories.md"
    text = path.read_text(encoding="utf-8")
    block = "### mem-1700000000-abcd\n> Written by hand, a moment ago.\n<!-- tags: hand | created: 2026-11-16 -->\n\n"
    path.write_text(
        text.replace("## Fixes\n\n", f"## Fixes\n\n{block}"), encoding="utf-8", newline=""
    )
    told = asked_meanwhile(shop.root, lambda: window.get("/api/records", limit=1)["total"])
    assert told == before + 1
