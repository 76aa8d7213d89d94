"""What the clients say when it does not work, and what that means for the next try."""

import pytest

from ralph.agents.process import Finished
from ralph.agents.trouble import crash, forced, judged
from ralph.model.work import StopReason


@pytest.mark.parametrize(
    "words",
    [
        "Failed to authenticate. API Error: 401 invalid x-api-key",
        "API Error: Request rejected (429) · too many",
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary",
        "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        "Not logged in · Please run /login",
        "unexpected status 401 Unauthorized: no, url: http://127.0.0.1:40487/v1/responses",
        "unexpected status 404 Not Found: no such model, url: http://127.0.0.1/v1/responses",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "stream disconnected before completion: error sending request for url",
        "You've hit your usage limit.",
        "Credit balance is too low",
        "There's an issue with the selected model (nope). It may not exist: model nope not found",
    ],
)
def test_what_may_pass_is_worth_another_try(words: str) -> None:
    assert judged(words) is StopReason.UNAVAILABLE


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503, 529])
def test_a_status_decides_where_there_is_one(status: int) -> None:
    assert judged("some words", status) is StopReason.UNAVAILABLE


@pytest.mark.parametrize("words", ["", "segmentation fault", "API Error: 400 bad request", "no rollout found"])
def test_what_is_not_known_is_a_crash(words: str) -> None:
    assert judged(words) is StopReason.CRASHED


@pytest.mark.parametrize("words", ["Prompt is too long", "API Error: 400 input exceeds the context window"])
def test_a_prompt_that_does_not_fit_is_no_crash(words: str) -> None:
    assert judged(words, 400) is StopReason.MAX_TOKENS


def test_a_program_that_was_ended_says_by_whom() -> None:
    assert forced(Finished(0, "", "")) is None
    assert forced(Finished(None, "", "x: there is no such program", missing=True)) == (
        StopReason.UNAVAILABLE,
        "x: there is no such program",
    )
    assert forced(Finished(-15, "", "", stopped=True)) == (StopReason.CANCELLED, "it was stopped")
    assert forced(Finished(-9, "", "", timed_out=True)) == (StopReason.TIMEOUT, "it took too long and was ended")


def test_a_crash_tells_the_end_of_the_complaint() -> None:
    assert crash("x", Finished(3, "", "a" * 9000 + "why\n")).endswith("why")
    assert crash("x", Finished(-11, "", "")) == "x was ended by signal 11"
    assert crash("x", Finished(2, "", "")) == "x exited with 2"
