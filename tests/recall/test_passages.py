"""Passages: turns of an earlier session are injected together, in their order, with date and speaker."""

from pathlib import Path

import pytest
from tests.support.injections import KNOWN_HOSTILE
from tests.support.recalls import asked, fill, ids, observed, wanting
from tests.support.runner import Block

from ralph.core.record import Record
from ralph.core.tokens import estimate
from ralph.recall.eligibility import COMPACTED, RecallOptions

TALK = (
    "The ledger export drops the leading zeros of part numbers.",
    "I could quote every field of the ledger export in /srv/export.py.",
    "We tried that; the importer still strips the zeros.",
    "Then which form of the part numbers does the importer keep?",
    'Only ="00042", and only for numbers with leading zeros.',
    'Settled: part numbers with leading zeros are written as ="00042" in the ledger export; CRLF ends each row.',
)
PROMPT = "the ledger export loses the leading zeros of part numbers again"


def talk(*texts: str, start: int = 1, session: str = "s-old") -> list[Record]:
    """Turns of a person and an agent, who take turns."""
    speakers = (("human", "prompt"), ("agent", "answer"))
    pairs = ((at, text, *speakers[at % 2]) for at, text in enumerate(texts))
    return [
        observed(start + at, text, session=session, by=by, title=title)
        for at, text, by, title in pairs
    ]


def test_turns_of_a_session_are_quoted_in_their_order_with_date_and_speaker(tmp_path: Path) -> None:
    turns = talk(*TALK)
    fill(tmp_path, observations=turns)
    told = asked(tmp_path, PROMPT)
    lines = [f"  {'agent' if at % 2 else 'user'}: {text}" for at, text in enumerate(TALK)]
    head, *quoted = told.text.split("\n")[2:-2]
    assert head.endswith("] 2026-11-13, turns of an earlier session:")
    assert quoted == lines
    assert ids(told) == [turn.id for turn in turns]
    assert sum(tokens for _, tokens in told.records) <= estimate(told.text)


def test_a_compacted_session_gets_its_own_turns_from_before(tmp_path: Path) -> None:
    turns = talk(*TALK, session="s-new")
    fill(tmp_path, observations=turns)
    assert ids(asked(tmp_path, PROMPT, RecallOptions("2026-11-14", "s-new"))) == []
    options = RecallOptions("2026-11-14", "s-new", {f"{COMPACTED}2026-11-13T10:05:30.000001Z"})
    told = asked(tmp_path, PROMPT, options)
    assert ids(told) == [turn.id for turn in turns[:5]]  # the sixth came after the compaction
    assert "turns of this session before its compaction:" in told.text


def test_where_nothing_gathers_one_record_is_enough(tmp_path: Path) -> None:
    other = talk(
        "How are you?",
        "Fine. The ledger export writes leading zeros of part numbers.",
        "Good.",
        "Bye.",
    )
    fill(tmp_path, observations=other)
    assert other[1].id in ids(asked(tmp_path, PROMPT))


def test_with_less_room_an_answer_is_not_cut_from_what_the_person_said_to_it(
    tmp_path: Path,
) -> None:
    turns = talk(*TALK)
    fill(tmp_path, observations=turns)
    for budget in range(180, 300, 5):
        told = asked(tmp_path, PROMPT, wanting(budget=budget))
        assert estimate(told.text) <= budget
        for answer, reply in ((1, 2), (3, 4)):
            if turns[answer].id in ids(told):
                assert turns[reply].id in ids(told)
    assert 0 < len(ids(asked(tmp_path, PROMPT, wanting(budget=190)))) < len(turns)
    assert (
        len(ids(asked(tmp_path, PROMPT, wanting(budget=140)))) == 1
    )  # too little room for a passage


def test_what_comes_along_of_a_long_session_is_near_a_match(tmp_path: Path) -> None:
    before = [f"remark {number} on the weather" for number in range(20)]
    fill(tmp_path, observations=talk(*before, *TALK, *before))
    told = asked(tmp_path, PROMPT, wanting(budget=10_000))
    assert all(text in told.text for text in TALK)
    assert "remark 0 on" not in told.text.partition(TALK[0])[0]
    assert "remark 19 on" in told.text.partition(TALK[0])[0]


def test_code_and_plain_sentences_of_a_long_answer_go_before_digits_and_names(
    tmp_path: Path,
) -> None:
    filler = " ".join(
        f"Nothing of note was seen {'again ' * number}there." for number in range(1, 25)
    )
    long = f"The ledger export has leading zeros. {filler} The part numbers are padded to 9.\n```\nprint()\n```\nDone."
    fill(tmp_path, observations=talk(TALK[0], long, *TALK[2:]))
    told = asked(tmp_path, PROMPT, wanting(budget=700))
    assert "padded to 9" in told.text
    assert "print()" not in told.text
    assert told.text.count("Nothing of note") < 24


def test_a_turn_that_the_session_knows_is_not_quoted_again(tmp_path: Path) -> None:
    turns = talk(*TALK)
    fill(tmp_path, observations=turns)
    known = frozenset(turn.id for turn in turns[:3])
    assert ids(asked(tmp_path, PROMPT, wanting(seen=known))) == [turn.id for turn in turns[3:]]
    assert ids(asked(tmp_path, PROMPT, wanting(seen=frozenset(turn.id for turn in turns)))) == []


@pytest.mark.parametrize("by", ["human", "agent"])
def test_a_turn_that_looks_like_prompt_injection_is_not_quoted(tmp_path: Path, by: str) -> None:
    at = 2 if by == "human" else 3
    texts = [*TALK]
    texts[at] = f"{texts[at]} {KNOWN_HOSTILE[0]}"
    turns = talk(*texts)
    fill(tmp_path, observations=turns)
    told = ids(asked(tmp_path, PROMPT))
    assert turns[at].id not in told
    assert turns[-1].id in told


def test_what_a_tool_printed_is_not_quoted(tmp_path: Path) -> None:
    turns = talk(*TALK)
    printed = observed(
        9,
        "$ cat ledger\nleading zeros of part numbers in the ledger export",
        by="tool",
        title="cat ledger",
    )
    fill(tmp_path, observations=[*turns[:3], printed, *turns[3:]])
    assert (
        "cat ledger" not in asked(tmp_path, PROMPT).text.partition("turns of an earlier session")[2]
    )


def test_the_newer_of_two_sessions_on_one_subject_is_first_and_says_so(tmp_path: Path) -> None:
    newer = talk(
        "Amendment: the importer changed.",
        'Settled anew: part numbers with leading zeros are no longer written as ="00042" in the ledger; pad them.',
        start=20,
        session="s-later",
    )
    fill(tmp_path, observations=[*talk(*TALK), *newer])
    told = asked(tmp_path, PROMPT)
    assert ids(told)[:2] == [turn.id for turn in newer]
    assert (
        "newer than the next passage; where they differ, this one holds:"
        in told.text.split("\n")[2]
    )
    assert TALK[-1] in told.text


def test_a_newer_session_that_ranks_first_by_itself_says_so_too(tmp_path: Path) -> None:
    changed = TALK[-1].replace("Settled", "Anew").replace("written as", "not")
    first = "The leading zeros of part numbers in the ledger export."
    newer = talk(first, *TALK[1:-1], changed, start=20, session="s-later")
    fill(tmp_path, observations=[*talk(*TALK), *newer])
    told = asked(tmp_path, PROMPT).text
    assert told.index(changed) < told.index(TALK[-1])
    assert told.split("\n")[2].endswith(
        "newer than the next passage; where they differ, this one holds:"
    )
    assert told.count("this one holds") == 1


def test_a_later_session_that_may_not_be_quoted_amends_nothing(tmp_path: Path) -> None:
    known = talk(
        "The importer changed.",
        TALK[-1].replace("Settled", "Settled anew"),
        start=20,
        session="s-later",
    )
    fill(tmp_path, observations=[*(turns := talk(*TALK)), *known])
    told = asked(tmp_path, PROMPT, wanting(seen=frozenset(turn.id for turn in known)))
    assert ids(told) == [turn.id for turn in turns]


def test_a_later_question_without_an_answer_amends_nothing(tmp_path: Path) -> None:
    question = 'Part numbers with leading zeros are written as ="00042" in the ledger export, but the CRLF is lost?'
    fill(tmp_path, observations=[*talk(*TALK), *talk(question, start=20, session="s-later")])
    assert "this one holds" not in asked(tmp_path, PROMPT).text


def test_in_a_session_about_many_things_the_best_matches_come_first(tmp_path: Path) -> None:
    other = [
        f"{('The', 'Which')[at % 2]} number {at} of the parts list is red. {'So it is. ' * 60}"
        for at in range(8)
    ]
    turns = talk(*TALK, *other)
    fill(tmp_path, observations=turns)
    assert {turn.id for turn in turns[: len(TALK)]} <= {
        *ids(asked(tmp_path, PROMPT, wanting(budget=900)))
    }


def test_words_that_are_scattered_over_a_session_are_chance(tmp_path: Path) -> None:
    fill(
        tmp_path,
        observations=talk("The ledger is old.", "The export is fine.", "The zeros?", "Part of it."),
    )
    assert ids(asked(tmp_path, "the ledger export loses zeros in every part")) == []


def test_two_words_of_a_prompt_whose_subject_nobody_knows_are_chance(tmp_path: Path) -> None:
    turns = talk(
        "Generate reports in two sizes.",
        "Which sizes?",
        "Generate them small.",
        "Both sizes, then, the small one first.",
    )
    fill(
        tmp_path,
        observations=[
            *turns,
            *talk("A remark", "Another", "And one more", start=20, session="s-2"),
        ],
    )
    assert ids(asked(tmp_path, "Generate the favicon sizes")) == []
    assert ids(asked(tmp_path, "Generate the report sizes"))


def test_a_prompt_that_was_sent_before_finds_the_same_turns(tmp_path: Path) -> None:
    turns = talk(*TALK)
    remarks = talk(*(f"remark {number} on the weather" for number in range(30)), session="s-other")
    prompt = f"{PROMPT}: two customers complain, sales is upset, and support wants a patch today"
    fill(tmp_path, observations=[*turns, *remarks])
    first_time = ids(asked(tmp_path, prompt))
    repeated = [
        record
        for number in range(5)
        for record in talk(prompt, start=20 + number, session=f"s-again-{number}")
    ]
    fill(tmp_path, observations=repeated)
    assert ids(asked(tmp_path, prompt)) == first_time == [turn.id for turn in turns]


RECAP = (
    'So the ledger export works like this: part numbers with leading zeros are written as ="00042", '
    "only for numbers with leading zeros, which is the form that the importer keeps; every other "
    "field is quoted only if it contains a comma; CRLF ends each row."
)


def test_the_recap_of_a_long_session_is_quoted_before_its_middle(tmp_path: Path) -> None:
    details = [
        f"{('The', 'Which')[at % 2]} importer reads field {at} of the export. {'So it is. ' * 30}"
        for at in range(12)
    ]
    fill(tmp_path, observations=talk(*TALK[:-1], "Noted.", *details, RECAP))
    told = asked(tmp_path, PROMPT)
    assert RECAP in told.text
    assert estimate(told.text) <= 700


def test_a_passage_ends_with_the_last_turn_about_its_subject(tmp_path: Path) -> None:
    tail = ("Thanks. Bump the linter, please.", "Bumped, and 212 passed.", "Bye", "See you.")
    fill(tmp_path, observations=talk(*TALK, *tail))
    told = asked(tmp_path, PROMPT).text
    assert TALK[-1] in told
    assert "Bumped" not in told


def test_a_session_without_a_recap_is_quoted_to_its_end(tmp_path: Path) -> None:
    end = ("And the header?", "Twice, it is longer there.", "Done, green.")
    fill(tmp_path, observations=talk(*TALK[:-1], *end))
    told = asked(tmp_path, PROMPT).text
    assert "Twice, it is longer there." in told


def test_an_amendment_that_shares_no_word_with_the_prompt_is_found_by_the_decision(
    tmp_path: Path,
) -> None:
    amended = (
        'The importer was replaced. ="00042" is not needed, what do we do about the CRLF?',
        "Without the importer I would write plain fields, and LF ends each row.",
        "Plain fields. Keep CRLF for each row.",
        "Plain fields, CRLF, nothing quoted.",
    )
    others = []
    for number in range(8):
        others += talk(
            f"Please rename the page of customer {number}.",
            f"The page of customer {number} is renamed.",
            start=30 + 2 * number,
            session=f"s-{number}",
        )
    later = talk(*amended, start=20, session="s-later")
    fill(tmp_path, observations=[*talk(*TALK), *others, *later])
    told = asked(tmp_path, "part numbers have lost their leading zeros, look at the ledger").text
    assert told.index(amended[-1]) < told.index(TALK[-1])


def test_an_older_decision_is_not_quoted_without_its_amendment(tmp_path: Path) -> None:
    newer = talk(
        "The importer changed.",
        TALK[-1].replace("Settled", "Settled anew") + " Pad them to nine digits instead." * 12,
        start=20,
        session="s-later",
    )
    older = talk(*TALK)
    fill(tmp_path, observations=[*older, *newer])
    for budget in range(180, 700, 20):  # a smaller one has no room for a passage
        told = ids(asked(tmp_path, PROMPT, wanting(budget=budget)))
        if older[-1].id in told:
            assert newer[-1].id in told


def test_each_of_two_amendments_is_quoted_the_newest_first(tmp_path: Path) -> None:
    second = TALK[-1].replace("CRLF ends each row", "LF ends each row since the importer changed")
    third = second.replace("ledger export", "ledger export, padded to nine digits")
    fill(
        tmp_path,
        observations=[
            *talk(*TALK),
            *talk("The importer changed.", second, start=20, session="s-second"),
            *talk("Pad the numbers.", third, start=30, session="s-third"),
        ],
    )
    told = asked(tmp_path, PROMPT).text
    assert told.index(third) < told.index(second) < told.index(TALK[-1])


def test_a_turn_that_became_a_memory_is_not_quoted_next_to_it(tmp_path: Path) -> None:
    rule = "The ledger export keeps the leading zeros of part numbers as text."
    turns = talk(*TALK, f"remember: {rule}", "Noted.")
    fill(tmp_path, Block(rule), observations=turns)
    told = asked(tmp_path, PROMPT).text
    assert told.count(rule) == 1
    assert TALK[-1] in told
