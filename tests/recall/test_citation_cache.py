"""What stale citations change, and how the cache of verified citations is read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.recalls import asked, at_place, fill, ids, observed, wanting
from tests.support.runner import Block

from ralph.recall import citation_cache
from ralph.recall.citation_cache import CitationCache
from ralph.recall.eligibility import RecallOptions

FLUX, FLOW, PAY, PAID = (
    "mem-1705751401-a001",
    "mem-1705751402-a002",
    "mem-1705751403-a003",
    "mem-1705751404-a004",
)
CITING_BLOCKS = (
    Block("The flux capacitor is charged in src/flux.py.", FLUX, "", "2026-11-10", "decision"),
    Block(
        "Before the flux capacitor is charged, src/flow.py must run.",
        FLOW,
        "",
        "2026-11-10",
        "decision",
    ),
    Block("src/pay.ts: amounts are cents.", PAY, "", "2026-11-10", "fix"),
    Block("src/pay.ts is generated from src/pay.yml.", PAID, "", "2026-11-10", "fix"),
)
FILES = ("src/flux.py", "src/flow.py", "src/pay.ts", "src/pay.yml")


@pytest.fixture
def cited_root(tmp_path: Path) -> Path:
    """A project with four memories, and every file that they cite."""
    fill(
        tmp_path,
        *CITING_BLOCKS,
        observations=[observed(1, "charged the flux capacitor in src/flux.py", files=FILES[:1])],
    )
    (tmp_path / "src").mkdir()
    for name in FILES:
        (tmp_path / name).touch()
    return tmp_path


def verified(cited_root: Path, *more: str, **settings: object) -> RecallOptions:
    """Records with valid citations, before the change of the test."""
    cited = (
        (FLUX, FILES[0]),
        (FLOW, FILES[1]),
        (PAY, FILES[2]),
        (PAID, FILES[2]),
        (PAID, FILES[3]),
    )
    page = citation_cache.citation_page(
        [
            *(
                citation_cache.citation_line(name, "file", "fresh", path, path)
                for name, path in cited
            ),
            *more,
        ]
    )
    return wanting(citations=CitationCache(str(cited_root), page.encode()), **settings)


def test_a_prompt_is_told_that_a_cited_file_is_gone_and_hears_of_that_record_last(
    cited_root: Path,
) -> None:
    first, second, *logs = ids(asked(cited_root, "charge the flux capacitor", verified(cited_root)))
    assert {first, second} == {FLUX, FLOW}
    gone = "src/flux.py" if first == FLUX else "src/flow.py"
    (cited_root / gone).unlink()
    told = asked(cited_root, "charge the flux capacitor", verified(cited_root))
    assert ids(told) == [second, first, *logs], (
        "it comes behind its like, and before what only a log has"
    )
    assert f"\n  (cited file is gone: {gone})\n" in told.text
    assert told.text.count("(cited") == 1
    assert told.shown[0].ranked.score > told.shown[1].ranked.score


def test_the_note_is_there_at_every_layer_and_counts(cited_root: Path) -> None:
    (cited_root / "src/flux.py").unlink()
    for budget in range(80, 400, 20):
        told = asked(cited_root, "charge the flux capacitor", verified(cited_root, budget=budget))
        assert (FLUX in ids(told)) == ("(cited file is gone: src/flux.py)" in told.text)
    plain = dict(asked(cited_root, "charge the flux capacitor").records)
    noted = dict(asked(cited_root, "charge the flux capacitor", verified(cited_root)).records)
    assert noted[FLUX] > plain[FLUX]
    assert noted[FLOW] == plain[FLOW]


def test_at_a_place_what_cites_something_gone_comes_last_with_its_note(cited_root: Path) -> None:
    first, second = ids(at_place(cited_root, files=["src/pay.ts"], wanted=verified(cited_root)))
    assert {first, second} == {PAY, PAID}
    (cited_root / "src/pay.yml").unlink()
    told = at_place(cited_root, files=["src/pay.ts"], wanted=verified(cited_root))
    assert ids(told) == [PAY, PAID]
    assert "(cited file is gone: src/pay.yml)" in told.text


def test_what_moved_is_told_with_its_place(cited_root: Path) -> None:
    line = citation_cache.citation_line(FLUX, "symbol", "moved", "flux", "src/flow.py")
    told = asked(cited_root, "charge the flux capacitor", verified(cited_root, line))
    assert "(cited symbol flux is now in src/flow.py)" in told.text


def test_without_a_cache_everything_is_as_it_was(cited_root: Path) -> None:
    (cited_root / "src/flux.py").unlink()
    assert "(cited" not in asked(cited_root, "charge the flux capacitor").text
    assert asked(
        cited_root,
        "charge the flux capacitor",
        wanting(citations=CitationCache(str(cited_root), b"")),
    ).text == (asked(cited_root, "charge the flux capacitor").text)


NAMES = st.text("ab-1 안", max_size=3)


def known(root: Path, *lines: tuple[str, str, str, str, str]) -> CitationCache:
    return CitationCache(
        str(root),
        citation_cache.citation_page(
            citation_cache.citation_line(*each) for each in lines
        ).encode(),
    )


def put(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).touch()


def test_a_file_that_went_away_since_it_was_verified_is_gone(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "fresh", "a.py", "src/a.py"))
    put(tmp_path, "src/a.py")
    assert told.note("m", "see a.py") == ""
    assert told.score_factor("m", "see a.py") == 1.0
    (tmp_path / "src/a.py").unlink()
    assert told.note("m", "see a.py") == "cited file is gone: a.py"
    assert told.score_factor("m", "see a.py") == citation_cache.GONE_FACTOR


def test_a_file_that_came_back_is_not_gone(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "gone", "src/a.py", ""))
    assert told.note("m", "src/a.py") == "cited file is gone: src/a.py"
    put(tmp_path, "src/a.py")
    assert told.note("m", "src/a.py") == ""


def test_a_file_that_moved_is_told_with_its_new_place_as_long_as_that_is_there(
    tmp_path: Path,
) -> None:
    told = known(tmp_path, ("m", "file", "moved", "a.py", "lib/a.py"))
    put(tmp_path, "lib/a.py")
    assert told.note("m", "a.py") == "cited file a.py is now in lib/a.py"
    assert told.score_factor("m", "a.py") == citation_cache.MOVED_FACTOR
    (tmp_path / "lib/a.py").unlink()
    assert told.note("m", "a.py") == "cited file is gone: a.py"


def test_the_worst_is_told(tmp_path: Path) -> None:
    put(tmp_path, "b.py")
    told = known(
        tmp_path, ("m", "file", "moved", "a.py", "b.py"), ("m", "symbol", "gone", "Store.write", "")
    )
    assert told.note("m", "a.py and Store.write") == "cited symbol is gone: Store.write"


def test_what_only_changed_is_not_told(tmp_path: Path) -> None:
    put(tmp_path, "a.py")
    assert known(tmp_path, ("m", "file", "changed", "a.py", "a.py")).note("m", "a.py") == ""


def test_a_record_that_was_rewritten_since_is_believed(tmp_path: Path) -> None:
    told = known(
        tmp_path, ("m", "file", "gone", "old/x.py", ""), ("m", "symbol", "gone", "old_call", "")
    )
    assert told.note("m", "nothing of that") == ""
    assert told.note("m", "nothing of that, but new/y.py") == ""
    assert told.note("m", "in other words", '["old/x.py"]') == "cited file is gone: old/x.py"
    assert told.note("m", "in other words", ["old/x.py"]) == "cited file is gone: old/x.py"


@pytest.mark.parametrize(
    "held",
    [
        b"",
        b"ralph citations 1\nm\tfile\tgone\ta.py\t\n",
        b"m\tfile\tgone\ta.py\t\n",
        b"\0",
        b"\n\n",
        citation_cache.CITATIONS_HEAD + b"m",
        citation_cache.CITATIONS_HEAD + b"\n\nm\n",
        citation_cache.CITATIONS_HEAD + b"m\tfile\tgone\ta.py\n",
        citation_cache.CITATIONS_HEAD + b"m\tfile\tgone\ta.py\t",
    ],
)
def test_a_cache_of_another_shape_says_nothing(tmp_path: Path, held: bytes) -> None:
    assert CitationCache(str(tmp_path), held).note("m", "a.py") == ""


def test_what_was_cut_off_is_not_believed_and_the_rest_is(tmp_path: Path) -> None:
    held = citation_cache.citation_page(
        [
            citation_cache.citation_line("m", "file", "gone", "a.py", ""),
            citation_cache.citation_line("n", "file", "gone", "b.py", ""),
        ]
    )
    told = CitationCache(str(tmp_path), held.encode()[:-3])
    assert (told.note("m", "a.py"), told.note("n", "b.py")) == ("cited file is gone: a.py", "")


@given(st.lists(st.tuples(NAMES, st.sampled_from(["a.py", "b.py", "안.py"])), max_size=30), NAMES)
def test_each_record_is_found_among_any_others(lines: list[tuple[str, str]], other: str) -> None:
    page = citation_cache.citation_page(
        citation_cache.citation_line(name, "file", "gone", what, "") for name, what in lines
    )
    told = CitationCache("/nowhere", page.encode("utf-8", "surrogateescape"))
    for name in (*dict(lines), other):
        cited = [what for own, what in lines if own == name]
        expected = f"cited file is gone: {min(cited)}" if name and cited else ""
        assert told.note(name, " ".join(cited)) == expected


def test_only_whole_ids_count(tmp_path: Path) -> None:
    told = known(tmp_path, ("mem-1-ab", "file", "gone", "a.py", ""))
    assert [told.note(name, "a.py") for name in ("mem-1-a", "em-1-ab", "", "mem-1-ab")] == [
        "",
        "",
        "",
        "cited file is gone: a.py",
    ]


def test_what_cannot_stand_on_a_line_is_left_out() -> None:
    assert citation_cache.citation_line("a\tb", "file", "gone", "x", "") == ""
    assert citation_cache.citation_line("a", "file", "gone", "x\ny", "") == ""
    assert citation_cache.citation_line("a", "file", "gone", "\ud800", "") == ""
    assert citation_cache.citation_line("a", "file", "moved", "x", "src/a\rb") == ""
