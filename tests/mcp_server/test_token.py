"""The token of a server at an address: where it comes from, and what is refused before anything listens."""

import pytest

from ralph.core.errors import UsageError
from ralph.mcp.transports import VARIABLE, choose_token

GOOD = "0123456789abcdef0123456789ABCDEF"


def test_without_the_variable_each_start_has_a_token_of_its_own() -> None:
    first, second = choose_token({}), choose_token({})
    assert first[0] != second[0]
    assert len(first[0]) >= 43
    assert not first[1]
    assert not second[1]


def test_the_token_of_the_variable_is_used() -> None:
    assert choose_token({VARIABLE: f" {GOOD}xx "}) == (f"{GOOD}xx", True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "short",
        "x" * 513,
        f"{GOOD} {GOOD}",
        f"{GOOD}\n{GOOD}",
        f"{GOOD}é",
        f"{GOOD}\r\nX-Evil: 1",
        f"{GOOD}\0",
    ],
)
def test_what_cannot_be_sent_or_could_be_guessed_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="not a token") as caught:
        choose_token({VARIABLE: text})
    assert not text.strip() or text.strip() not in str(caught.value)
