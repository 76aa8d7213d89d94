"""What is told of a record by the cache and by a look at the disk."""

from pathlib import Path

import pytest

from ralph.context import stale
from ralph.context.stale import Known


def known(root: Path, *lines: tuple[str, str, str, str, str]) -> Known:
    return Known(str(root), stale.HEAD + "".join(stale.line(*each) for each in lines))


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
    assert told.note("m", "in other words", '["old/x.py"]') == "cited file is gone: old/x.py"
    assert told.note("m", "in other words", ["old/x.py"]) == "cited file is gone: old/x.py"


@pytest.mark.parametrize(
    "text", ["", "ralph citations 2\nm\tfile\tgone\ta.py\t\n", "m\tfile\tgone\ta.py\t\n", "\0", "\n\n"]
)
def test_a_cache_of_another_shape_says_nothing(tmp_path: Path, text: str) -> None:
    assert Known(str(tmp_path), text).note("m", "a.py") == ""


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
