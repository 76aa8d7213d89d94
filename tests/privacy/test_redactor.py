"""The texts of one event: what hides what, and that no event is too large to be looked at."""

import sys
from collections.abc import Mapping
from types import FrameType

import pytest
from tests.support.secret_samples import TOKENS

from ralph.capture.pipeline import interpret
from ralph.formats.log import encode_record
from ralph.privacy.json_values import map_texts, redact_members
from ralph.privacy.redactor import AstrayTag, Redactor

PRIVATE = "marmalade"
TOKEN = TOKENS["github token"][0]


def told(payload: Mapping[str, object], event: str = "PostToolUse") -> str:
    """All that the full path keeps of a payload."""
    value = {"payload": {"session_id": "s", "cwd": "/p", **payload}, "host": "claude", "event": event,
             "at": "2026-11-15T12:00:00Z"}  # fmt: skip
    records, session = interpret(value)
    return "\n".join(map(encode_record, records)) + repr((records, session))


@pytest.mark.parametrize(
    "members",
    [{"tool_response": {"stderr": "x <private>", "stdout": f"{PRIVATE} </private> fine"}},
     {"tool_response": {"stdout": f"{PRIVATE} </private> fine", "stderr": "x <private>"}},
     {"tool_response": [{"text": "<private>"}, {"text": PRIVATE}, {"text": "</private> fine"}]},
     {"tool_response": {"stdout": "<private>", "stderr": f"{PRIVATE}</private>"}},
     {"tool_response": f"{PRIVATE}</private>", "tool_input": {"command": "ls <private>"}},
     {"tool_input": {"a": "<private>", "b": PRIVATE, "c": "</private>", "command": "ls"}},
     {"tool_input": {"command": "ls", "<private>": PRIVATE}},
     {"tool_input": {"command": "ls"}, "tool_response": f"＜private＞{PRIVATE}"},
     {"tool_input": {"command": f"<pri\u200bvate>{PRIVATE}"}, "tool_response": {"stdout": PRIVATE}}],
)  # fmt: skip
def test_what_is_opened_in_one_text_and_closed_in_another_is_hidden(
    members: Mapping[str, object],
) -> None:
    assert PRIVATE not in told({"tool_name": "Bash", **members})
    assert PRIVATE not in told({"tool_name": "Bash", **members}, "PostToolUseFailure")


def test_an_event_is_not_kept_when_nobody_can_say_what_stood_between_its_tags() -> None:
    asked = {"command": PRIVATE, "description": "</private>"}
    assert PRIVATE not in told(
        {"error": "<private>", "tool_name": "Bash", "tool_input": asked}, "PostToolUseFailure"
    )


def test_a_part_that_is_closed_without_an_opening_hides_what_stands_before_it() -> None:
    redactor = Redactor((), tolerant=True)
    assert redactor(f"{PRIVATE}</private> after") == " after"
    assert redactor.astray
    with pytest.raises(AstrayTag):
        Redactor(())(f"{PRIVATE}</private> after")


def test_a_part_that_stays_open_hides_the_texts_after_it_until_it_is_closed() -> None:
    redactor = Redactor(())
    assert [redactor(text) for text in ("a<private>b<private>", PRIVATE, f"{PRIVATE}</private>", "c</private>d")] == [
        "a", "", "", "d",
    ]  # fmt: skip
    assert not redactor.astray


# --- bounds -------------------------------------------------------------------------------------


def work(call: object) -> int:
    """How many functions are called: a count of the work, whatever the machine."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        assert callable(call)
        call()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("piece", ["<private>", "<private>x</private>", "</private>"])
@pytest.mark.soak
def test_a_million_tags_are_as_much_work_as_the_first_thousands(piece: str) -> None:
    few = work(lambda: Redactor((), tolerant=True)(piece * 40_000))
    assert work(lambda: Redactor((), tolerant=True)(piece * 1_000_000)) <= few + 2_000


def test_beyond_the_most_tags_all_is_private() -> None:
    redactor = Redactor(())
    assert PRIVATE not in redactor("<private>x</private>" * 20_000 + PRIVATE)
    assert redactor(PRIVATE) == ""


@pytest.mark.parametrize(
    "value",
    [{f"key{number}": f"value {number}" for number in range(200_000)}, [[1, 2, 3]] * 60_000,
     [{"id": number, "name": f"name {number}", "token": f"x{number}"} for number in range(60_000)]],
    ids=["members", "lists", "rows"],
)  # fmt: skip
def test_of_very_many_members_the_first_and_the_last_are_looked_at(value: object) -> None:
    seen = list[str]()

    def words(text: str) -> str:
        seen.append(text)
        return text

    kept = redact_members(map_texts(value, words))
    assert len(seen) < 20_000
    assert "left out" in str(kept)
    ends = (
        list(value.items())
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, list)
        else []
    )
    left = (
        list(kept.items())
        if isinstance(kept, dict)
        else list(kept)
        if isinstance(kept, list)
        else []
    )
    assert left[0] == ends[0]
    assert left[-1] == ends[-1]


@pytest.mark.parametrize("count", [100, 60_000])
@pytest.mark.parametrize("tag", ["<private>", "<pri\u200bvate>", "＜private＞"])
def test_a_part_that_is_opened_in_what_is_left_out_hides_what_follows(count: int, tag: str) -> None:
    value: list[object] = [f"row {number}" for number in range(count)]
    value[count // 2] = {"text": f"x {tag}"}
    value[-1] = {"text": f"{PRIVATE} </private> fine"}
    value[-2] = PRIVATE
    found = map_texts(value, Redactor(()))
    assert PRIVATE not in str(found)
    assert isinstance(found, list)
    assert found[0] == "row 0"
    assert found[-1] == {"": " fine"}


def test_tags_in_what_is_left_out_that_belong_together_hide_nothing_else() -> None:
    value: list[object] = [f"row {number} <private>x</private>" for number in range(30_000)]
    redactor = Redactor(())
    found = map_texts(value, redactor)
    assert isinstance(found, list)
    assert redactor.open == 0 or found[-1] == ""


@pytest.mark.soak
def test_of_a_value_that_is_all_branches_only_the_first_are_kept() -> None:
    value: object = "x"
    for _ in range(16):
        value = [value, value]
    assert str(map_texts(value, str.upper)).count("X") < 8_000


def test_of_very_many_long_texts_the_first_are_kept_and_the_rest_is_not() -> None:
    redactor = Redactor(())
    found = [redactor(f"{TOKEN} line of a log\n" * 4_000) for _ in range(40)]
    assert found[0].startswith("[redacted: github token] line")
    assert found[-1] == ""
    assert not any(TOKEN in text for text in found)


@pytest.mark.parametrize("middle", ["words ", "a <private> b ", "\x1b[1m "])
@pytest.mark.soak
def test_of_an_enormous_text_nothing_leaks_whatever_is_left_out(middle: str) -> None:
    text = (
        f"first {TOKEN}\n"
        + "words " * 1_000_000
        + middle
        + "words " * 1_000_000
        + f"\n{TOKEN} {PRIVATE}"
    )
    redactor = Redactor(())
    found = redactor(text)
    assert found.startswith("first [redacted: github token]")
    assert TOKEN not in found
    assert (PRIVATE in found) == (middle == "words ")
    assert redactor(PRIVATE) == (PRIVATE if middle == "words " else "")


def test_with_patterns_a_long_text_is_cut_as_well() -> None:
    found = Redactor((r"ACME-\d+",))("ACME-1 and more\n" * 60_000)
    assert "ACME" not in found
    assert len(found) < 600_000
