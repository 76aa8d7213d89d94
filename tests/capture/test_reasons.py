"""What is taken as the reason of a fix: a note near it, an edit's summary, a comment; and what is a mere slip."""

import pytest
from tests.capture.situations import Step, session

from ralph.capture.reasons import Said, details, said_in, said_near, sets_a_constant, slips
from ralph.model.record import Record

FAILED: Step = ("fail", "make thumbs", "EncodeFailed: no alpha for profile lossless-6")
EDITED: Step = ("edit", "src/thumbs.py", "+ profile = 7")
PASSED: Step = ("ok", "make thumbs")
REASON = "The encoder of make thumbs writes alpha only from lossless-7 on."


def edit(text: str, file: str = "src/a.py") -> Record:
    """One edit."""
    return session(("edit", file, text))[0]


def test_a_note_between_the_failure_and_the_pass_is_a_reason() -> None:
    assert said_near(session(FAILED, EDITED, ("note", REASON), PASSED), 0, 3, "EncodeFailed") == Said(
        REASON, reason=True, why=True
    )


def test_a_note_that_shares_only_part_of_a_word_is_about_the_failure_when_it_tells_why() -> None:
    failed: Step = ("fail", "./t/export.sh", "write: broken pipe")
    why = "Go turns SIGPIPE into an error for other descriptors, so whoever writes must end quietly."
    assert said_near(session(failed, ("note", why), EDITED, PASSED), 0, 3, "write: broken pipe").why
    assert said_near(session(failed, ("note", "SIGPIPE of Go."), EDITED, PASSED), 0, 3, "broken pipe") == Said()


def test_a_note_shortly_after_the_pass_is_kept_and_is_no_reason_for_itself() -> None:
    assert said_near(session(FAILED, EDITED, PASSED, ("note", REASON)), 0, 2, "EncodeFailed") == Said(REASON)


def test_a_note_after_the_next_failure_is_about_that_one() -> None:
    other: Step = ("fail", "make docs", "Error: broken link")
    assert said_near(session(FAILED, EDITED, PASSED, other, ("note", REASON)), 0, 2, "EncodeFailed") == Said()


def test_a_note_about_something_else_is_none() -> None:
    note: Step = ("note", "Always name hooks useX, because the plugin of eslint looks for that.")
    assert said_near(session(FAILED, EDITED, note, PASSED), 0, 3, "EncodeFailed") == Said()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("use the paginator; a single call stops at 1000 keys and says nothing", True),
        ("+ x = y  # the driver returns strings, so compare after a cast to int", True),
        ("- # the driver returns strings, so compare after a cast to int\n+ x = int(y)", False),
        ("The file src/a.py has been updated successfully, and this is the result of it", False),
        ("wrap compare", False),
    ],
)
def test_an_edit_says_why_in_its_summary_or_in_a_comment_that_it_adds(text: str, *, wanted: bool) -> None:
    assert bool(said_in([edit(text)])) is wanted


def test_constants_with_another_value_are_a_setting_and_are_quoted() -> None:
    changed = edit("-#define PAGE_SIZE 1024\n+#define PAGE_SIZE 2048", "boards/mem.h")
    assert sets_a_constant(changed)
    assert list(details([changed])) == ["#define PAGE_SIZE 2048"]
    assert not sets_a_constant(edit("-total = a\n+total = b"))
    assert not sets_a_constant(edit("+PAGE_SIZE = 2048"))


@pytest.mark.parametrize(
    ("text", "shown", "slip"),
    [
        ("email", 'column "emial" does not exist', True),
        ("- RNU apt\n+ RUN apt", "unknown instruction: RNU", True),
        ("+ }", "src/a.py:31: block is not closed", True),
        ("+ replicas: 3", "the replica is not there", False),
        ("+ busy_timeout = 5000", "database is locked", False),
    ],
)
def test_a_slip_is_a_word_in_its_right_spelling_or_a_sign_in_the_line_that_was_named(
    text: str, shown: str, *, slip: bool
) -> None:
    assert slips([edit(text)], shown, syntax=False, deep=False) is slip
