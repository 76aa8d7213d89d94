"""What is told of a record by the cache and by a look at the disk."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.context import stale
from ralph.context.stale import Known

NAMES = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=3)


def known(root: Path, *lines: tuple[str, str, str, str, str]) -> Known:
    return Known(str(root), stale.page(stale.line(*each) for each in lines).encode())


def put(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).touch()


def test_a_file_that_went_away_since_it_was_verified_is_gone(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "fresh", "a.py", "src/a.py"))
    put(tmp_path, "src/a.py")
    assert told.note("m", "see a.py") == ""
    assert told.share("m", "see a.py") == 1.0
    (tmp_path / "src/a.py").unlink()
    assert told.note("m", "see a.py") == "cited file is gone: a.py"
    assert told.share("m", "see a.py") == stale.GONE


def test_a_file_that_came_back_is_not_gone(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "gone", "src/a.py", ""))
    assert told.note("m", "src/a.py") == "cited file is gone: src/a.py"
    put(tmp_path, "src/a.py")
    assert told.note("m", "src/a.py") == ""


def test_a_file_that_moved_is_told_with_its_new_place_as_long_as_that_is_there(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "moved", "a.py", "lib/a.py"))
    put(tmp_path, "lib/a.py")
    assert told.note("m", "a.py") == "cited file a.py is now in lib/a.py"
    assert told.share("m", "a.py") == stale.MOVED
    (tmp_path / "lib/a.py").unlink()
    assert told.note("m", "a.py") == "cited file is gone: a.py"


def test_the_worst_is_told(tmp_path: Path) -> None:
    put(tmp_path, "b.py")
    told = known(tmp_path, ("m", "file", "moved", "a.py", "b.py"), ("m", "symbol", "gone", "Store.write", ""))
    assert told.note("m", "a.py and Store.write") == "cited symbol is gone: Store.write"


def test_what_only_changed_is_not_told(tmp_path: Path) -> None:
    put(tmp_path, "a.py")
    assert known(tmp_path, ("m", "file", "changed", "a.py", "a.py")).note("m", "a.py") == ""


def test_a_record_that_was_rewritten_since_is_believed(tmp_path: Path) -> None:
    told = known(tmp_path, ("m", "file", "gone", "old/x.py", ""), ("m", "symbol", "gone", "old_call", ""))
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
        stale.HEAD + b"m",
        stale.HEAD + b"\n\nm\n",
        stale.HEAD + b"m\tfile\tgone\ta.py\n",
        stale.HEAD + b"m\tfile\tgone\ta.py\t",
    ],
)
def test_a_cache_of_another_shape_says_nothing(tmp_path: Path, held: bytes) -> None:
    assert Known(str(tmp_path), held).note("m", "a.py") == ""


def test_what_was_cut_off_is_not_believed_and_the_rest_is(tmp_path: Path) -> None:
    held = stale.page([stale.line("m", "file", "gone", "a.py", ""), stale.line("n", "file", "gone", "b.py", "")])
    told = Known(str(tmp_path), held.encode()[:-3])
    assert (told.note("m", "a.py"), told.note("n", "b.py")) == ("cited file is gone: a.py", "")


@given(st.lists(st.tuples(NAMES, st.sampled_from(["a.py", "b.py", "안.py"])), max_size=30), NAMES)
def test_each_record_is_found_among_any_others(lines: list[tuple[str, str]], other: str) -> None:
    page = stale.page(stale.line(name, "file", "gone", what, "") for name, what in lines)
    told = Known("/nowhere", page.encode("utf-8", "surrogateescape"))
    for name in (*dict(lines), other):
        cited = [what for own, what in lines if own == name]
        expected = f"cited file is gone: {cited[0]}" if name and cited else ""
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
    assert stale.line("a\tb", "file", "gone", "x", "") == ""
    assert stale.line("a", "file", "gone", "x\ny", "") == ""
    assert stale.line("a", "file", "gone", "\ud800", "") == ""
