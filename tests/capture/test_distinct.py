"""Pairs that look alike and are two things, and pairs that are one in other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.capture.alike import Shelf
from ralph.capture.distinct import are_two

TWO = [
    ("The queue rounds down to whole cents.", "The ledger rounds down to whole cents."),
    ("Retry the upload 3 times before giving up.", "Retry the upload 30 times before giving up."),
    ("Run the migrations before the tests.", "Run the tests before the migrations."),
    ("Set DEBUG=1 when the worker hangs.", "Set DEBUG=0 when the worker hangs."),
    ("Deploy hotfixes to staging with the blue pipeline.", "Deploy hotfixes to production with the blue pipeline."),
    ("Always close() the cursor of the ledger.", "Never close() the cursor of the ledger."),
    ("Vouchers come in euros: multiply by 100.", "Vouchers do not come in euros: never multiply by 100."),
    ("The cache of vite must be emptied before a build.", "The cache of vite must not be emptied before a build."),
    ("Don't use UTC in the ledger tables.", "Use UTC in the ledger tables."),
]
ONE = [
    ("Money is integer cents.", "money is integer cents"),
    ("Run `make proto` before the tests, otherwise importing user_pb2 fails.",
     "user_pb2 cannot be imported until make proto has been run"),
    ("Gotcha: invoices are numbered without gaps.", "Invoices: invoices are numbered without gaps."),
    ("The worker needs REDIS_URL at its start.", "The workers need the REDIS_URL at start"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), TWO)
def test_one_sentence_about_two_things_is_two(one: str, other: str) -> None:
    assert are_two(one, other)
    assert are_two(other, one)
    assert Shelf([one]).nearest(other) is None


@pytest.mark.parametrize(("one", "other"), ONE)
def test_other_words_for_one_thing_are_left_to_the_measure(one: str, other: str) -> None:
    assert not are_two(one, other)
    assert not are_two(other, one)


@given(st.text())
def test_a_text_is_itself(text: str) -> None:
    assert not are_two(text, text)
