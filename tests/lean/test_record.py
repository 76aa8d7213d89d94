"""`record` makes value classes that compare and print as dataclasses do."""

import pytest

from ralph.lean import record, replace


@record
class Point:
    x: int
    y: int
    label: str = ""


def test_fields_are_given_by_position_or_by_name() -> None:
    assert Point(1, 2) == Point(y=2, x=1)
    assert repr(Point(y=2, x=1)) == "Point(x=1, y=2, label='')"


def test_equal_records_have_the_same_hash() -> None:
    assert hash(Point(x=1, y=2)) == hash(Point(y=2, x=1))


def test_replace_changes_some_fields_of_a_copy() -> None:
    point = Point(1, 2)
    assert replace(point, label="a") == Point(1, 2, "a")
    assert point.label == ""


@pytest.mark.parametrize("fields", [{"x": 1}, {"x": 1, "y": 2, "z": 3}])
def test_missing_and_unknown_fields_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"wrong fields: [yz]"):
        Point(**fields)  # type: ignore[arg-type]
