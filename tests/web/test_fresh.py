"""Who asks after a change is told of it, also while another thread or process is bringing the index up to date.

That other one may have looked at the file before the change. So an answer waits for it, and looks again. The lock is
held here until the question stands before it (which Linux tells: the file is open twice) or was answered without it.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.web import sample
from tests.web.asking import Site
from tests.web.sample import Sample

from ralph import paths
from ralph.store.index import sole_writer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who stands before the lock")


@pytest.fixture
def shop(tmp_path: Path) -> Sample:
    return sample.copied(tmp_path / "shop")


def openings(path: Path) -> int:
    """How many times this process has a file open."""
    found = 0
    for handle in Path("/proc/self/fd").iterdir():
        try:
            found += handle.readlink() == path
        except OSError:  # closed by another thread meanwhile
            continue
    return found


def asked_meanwhile(root: Path, question: Callable[[], object]) -> object:
    """What is answered to somebody who comes while the index is being written."""
    index = paths.index_file(root)
    said: list[object] = []
    asking = threading.Thread(target=lambda: said.append(question()))
    with sole_writer(index):
        asking.start()
        while asking.is_alive() and openings(index.with_name(index.name + "-lock")) < 2:
            asking.join(0.005)
    asking.join()
    return said[0]


def test_a_request_waits_for_an_index_that_is_being_written(shop: Sample) -> None:
    window = Site(shop.root)
    name = shop.memories["vat"]
    retire = {"action": "archive", "id": name}
    shown = window.post("/api/changes/plan", **retire)["files"]
    stamps = {each["name"]: each["before"] for each in shown}
    undo = window.post("/api/changes/apply", **retire, stamps=stamps)["undo"]
    told = asked_meanwhile(shop.root, lambda: window.get(f"/api/records/{name}")["record"]["status"])
    assert told == "archived"
    window.post("/api/changes/undo", undo=undo)
    told = asked_meanwhile(shop.root, lambda: window.get(f"/api/records/{name}")["record"]["status"])
    assert told == "active"


def test_a_list_has_what_somebody_else_wrote_just_before(shop: Sample) -> None:
    window = Site(shop.root)
    before = window.get("/api/records", limit=1)["total"]
    path = shop.root / ".agent" / "memories.md"
    text = path.read_text(encoding="utf-8")
    block = "### mem-1700000000-abcd\n> Written by hand, a moment ago.\n<!-- tags: hand | created: 2026-11-16 -->\n\n"
    path.write_text(text.replace("## Fixes\n\n", f"## Fixes\n\n{block}"), encoding="utf-8", newline="")
    told = asked_meanwhile(shop.root, lambda: window.get("/api/records", limit=1)["total"])
    assert told == before + 1
