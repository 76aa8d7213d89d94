"""Sentences that tell why, those that only surprise, and those that do neither."""

import pytest

from ralph.capture.causes import explanation, is_cause

CAUSES = [
    "Go turns SIGPIPE into EPIPE for other descriptors, so the writer of cmd/export has to end quietly itself.",
    "Date is banned in src/clock.ts, because tests freeze the clock through now() only.",
    "A third of the sites run Python 3.9 of RHEL, so no match statements in src/.",
    "Der Treiber liefert DECIMAL als Text, deshalb vergleicht PriceTable nach Zeichen.",
    "Le cache garde la page deux jours, donc le jeton wp_nonce est périmé.",
    "El proxy corta a los 60 s, así que `export_all` debe responder por partes.",
    "서버는 UTC라서 KST 자정 이전의 Order 날짜가 하루 밀린다.",
    "因为 SQLite 只允许一个写入者，所以 worker_pool 必须是 1。",
]
SURPRISES = [
    "current_time() is not a Unix timestamp: the offset of the site is already in it.",
    "Works from the shell, not in the image. LoadLocation reads zoneinfo of the system, and scratch has neither.",
    "DateTime.now!/1 wants tzdata, and the database that Elixir ships knows only Etc/UTC.",
]
NEITHER = [
    "Collect the errors of CartParser in a list rather than returning at the first.",
    "apply(voucher:) gives back a new Cart, with all four fields.",
    "So Prorate takes the two plans and the moment of the change and gives back Money.",
    "This happened because Chart.yaml was not copied over from charts/base.",
    "I forgot the export of CartStore, so the test of CartPage did not find it.",
    "Das war ein Tippfehler in CartStore, deshalb fehlte der Export.",
    "Waiting for the image. Still downloading, meanwhile I read the docs of apt.",
    "Next: the CartFooter, because the design is there.",
    "The registry was down, so `npm ci` of the CartPage did not finish.",
    "because it is so",
    "",
]


@pytest.mark.parametrize("text", CAUSES)
def test_one_thing_that_follows_from_another_is_a_cause(text: str) -> None:
    assert explanation(text)
    assert is_cause(text)


@pytest.mark.parametrize("text", SURPRISES)
def test_what_is_not_as_one_would_think_explains_and_is_no_cause(text: str) -> None:
    assert explanation(text) == text
    assert not is_cause(text)


@pytest.mark.parametrize("text", NEITHER)
def test_what_was_done_a_slip_and_talk_explain_nothing(text: str) -> None:
    assert not explanation(text)


def test_reports_and_plans_around_an_explanation_are_left_out() -> None:
    why = CAUSES[0]
    assert explanation(f"Fixed the export. {why} Next: the docs.") == why
