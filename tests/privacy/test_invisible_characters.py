"""Signs that nobody sees: each is refused with its place, and cleaned out of what an agent said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import Refused
from ralph.privacy import invisible_characters

CONTROLS = [chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))]
OPENING, CLOSING = (
    "\u202a\u202b\u202d\u202e\u2066\u2067\u2068",
    "\u202c\u202c\u202c\u202c\u2069\u2069\u2069",
)
FINE = [
    "plain words", "two\nlines\tand a tab", "한국어", "日本語", "עברית", "العربية", "👩‍💻 and e\u0301", "\u200fx\u200e",
    "\u00a0\u2028", "a \u2067עברית\u2069 b", "a \u202e\u2067x\u2069\u202c b",
]  # fmt: skip


@pytest.mark.parametrize("text", FINE)
def test_what_people_write_in_any_language_stays(text: str) -> None:
    invisible_characters.check_text(text)
    assert invisible_characters.clean_text(text) == text


@pytest.mark.parametrize("sign", CONTROLS, ids=lambda sign: f"{ord(sign):02x}")
def test_every_control_character_is_refused_with_its_place_and_can_be_cleaned_away(
    sign: str,
) -> None:
    with pytest.raises(
        Refused, match=rf"control character \(.*U\+00{ord(sign):02X}\) in line 2"
    ) as caught:
        invisible_characters.check_text(f"one\ntw{sign}o")
    assert sign not in str(caught.value)
    invisible_characters.check_text(invisible_characters.clean_text(f"one\ntw{sign}o three"))


@pytest.mark.parametrize(
    "sign", [*OPENING, *sorted(set(CLOSING))], ids=lambda sign: f"{ord(sign):04x}"
)
def test_a_mark_that_turns_the_writing_and_stands_alone_is_refused(sign: str) -> None:
    with pytest.raises(Refused, match="direction mark"):
        invisible_characters.check_text(f"access{sign} granted")
    assert invisible_characters.clean_text(f"access{sign} granted") == "access granted"
    with pytest.raises(Refused):
        invisible_characters.check_text(f"\u202e{sign}" if sign != "\u202c" else f"\u2066{sign}")


@pytest.mark.parametrize(("opening", "closing"), list(zip(OPENING, CLOSING, strict=True)))
def test_a_mark_that_is_closed_on_its_line_stays_and_one_that_is_closed_on_the_next_does_not(
    opening: str, closing: str
) -> None:
    invisible_characters.check_text(f"{opening}x{closing}")
    with pytest.raises(Refused):
        invisible_characters.check_text(f"{opening}x\ny{closing}")
    assert invisible_characters.clean_text(f"{opening}x\ny{closing}") == "x\ny"


def test_colours_go_as_a_whole_and_words_about_them_stay() -> None:
    assert invisible_characters.clean_text("\x1b[31mred\x1b[0m") == "red"
    assert invisible_characters.clean_text(r"\x1b[0m ends the colour") == r"\x1b[0m ends the colour"
    both = (
        "\x1b[1mbold\x1b[0m is \x1b]8;;http://x\x07printed\x1b]8;;\x07 by "
        + r"\033[1m and \u001b[0m"
    )
    assert invisible_characters.clean_text(both) == r"bold is printed by \033[1m and \u001b[0m"


@given(st.text(st.sampled_from([*OPENING, *CLOSING, *CONTROLS, "a", "\n", "\t", " "])))
def test_what_was_cleaned_is_never_refused(text: str) -> None:
    invisible_characters.check_text(invisible_characters.clean_text(text))
