"""What is told of records whose cited files are not there any more, in the answer to a prompt and at a place."""

from pathlib import Path

import pytest
from tests.cli.runner import Block
from tests.context.test_recall import asked, at_place, fill, ids, observed, wanting

from ralph.context import stale
from ralph.context.recall import Wanted
from ralph.context.stale import Known

FLUX, FLOW, PAY, PAID = "mem-1705751401-a001", "mem-1705751402-a002", "mem-1705751403-a003", "mem-1705751404-a004"
BLOCKS = (
    Block("The flux capacitor is charged in src/flux.py.", FLUX, "", "2026-11-10", "decision"),
    Block("Before the flux capacitor is charged, src/flow.py must run.", FLOW, "", "2026-11-10", "decision"),
    Block("src/pay.ts: amounts are cents.", PAY, "", "2026-11-10", "fix"),
    Block("src/pay.ts is generated from src/pay.yml.", PAID, "", "2026-11-10", "fix"),
)
FILES = ("src/flux.py", "src/flow.py", "src/pay.ts", "src/pay.yml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with four memories, and every file that they cite."""
    fill(tmp_path, *BLOCKS, observations=[observed(1, "charged the flux capacitor in src/flux.py", files=FILES[:1])])
    (tmp_path / "src").mkdir()
    for name in FILES:
        (tmp_path / name).touch()
    return tmp_path


def verified(root: Path, *more: str, **settings: object) -> Wanted:
    """What may be told where all that is cited was found, before what the test did."""
    cited = ((FLUX, FILES[0]), (FLOW, FILES[1]), (PAY, FILES[2]), (PAID, FILES[2]), (PAID, FILES[3]))
    page = stale.page([*(stale.line(name, "file", "fresh", path, path) for name, path in cited), *more])
    return wanting(stale=Known(str(root), page.encode()), **settings)


def test_a_prompt_is_told_that_a_cited_file_is_gone_and_hears_of_that_record_last(root: Path) -> None:
    first, second, *logs = ids(asked(root, "charge the flux capacitor", verified(root)))
    assert {first, second} == {FLUX, FLOW}
    gone = "src/flux.py" if first == FLUX else "src/flow.py"
    (root / gone).unlink()
    told = asked(root, "charge the flux capacitor", verified(root))
    assert ids(told) == [second, first, *logs], "it comes behind its like, and before what only a log has"
    assert f"\n  (cited file is gone: {gone})\n" in told.text
    assert told.text.count("(cited") == 1
    assert told.judged[0].score > told.judged[1].score


def test_the_note_is_there_at_every_layer_and_counts(root: Path) -> None:
    (root / "src/flux.py").unlink()
    for budget in range(80, 400, 20):
        told = asked(root, "charge the flux capacitor", verified(root, budget=budget))
        assert (FLUX in ids(told)) == ("(cited file is gone: src/flux.py)" in told.text)
    plain = dict(asked(root, "charge the flux capacitor").records)
    noted = dict(asked(root, "charge the flux capacitor", verified(root)).records)
    assert noted[FLUX] > plain[FLUX]
    assert noted[FLOW] == plain[FLOW]


def test_at_a_place_what_cites_something_gone_comes_last_with_its_note(root: Path) -> None:
    first, second = ids(at_place(root, files=["src/pay.ts"], wanted=verified(root)))
    assert {first, second} == {PAY, PAID}
    (root / "src/pay.yml").unlink()
    told = at_place(root, files=["src/pay.ts"], wanted=verified(root))
    assert ids(told) == [PAY, PAID]
    assert "(cited file is gone: src/pay.yml)" in told.text


def test_what_moved_is_told_with_its_place(root: Path) -> None:
    line = stale.line(FLUX, "symbol", "moved", "flux", "src/flow.py")
    told = asked(root, "charge the flux capacitor", verified(root, line))
    assert "(cited symbol flux is now in src/flow.py)" in told.text


def test_nothing_in_a_cache_breaks_the_line(root: Path) -> None:
    (root / "src/a\rb").touch()
    told = asked(root, "flux capacitor", verified(root, stale.line(FLUX, "symbol", "moved", "flux", "src/a\rb")))
    assert "(cited symbol flux is now in src/a b)" in told.text


def test_without_a_cache_everything_is_as_it_was(root: Path) -> None:
    (root / "src/flux.py").unlink()
    assert "(cited" not in asked(root, "charge the flux capacitor").text
    assert asked(root, "charge the flux capacitor", wanting(stale=Known(str(root), b""))).text == (
        asked(root, "charge the flux capacitor").text
    )
