"""What is proposed from records of every sort, how it is merged, and what counts as well-evidenced."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.insights import PROTO, PROTO_AGAIN
from tests.support.sampling import examples
from tests.support.situations import EMPTY, NOTE, TEACHING, Step, observed, session

from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.core.work import JournalEntry
from ralph.formats.journal import journal_record
from ralph.learning.labels import headed_bullets
from ralph.learning.propose import (
    COUNT,
    EVIDENCE,
    SOURCE,
    evidence,
    is_proven,
    is_well_evidenced,
    of_origin,
    places,
    propose,
)


def learning(text: str, place: str = "s1", number: int = 0) -> Record:
    """A bullet below "Learnings"."""
    return Record(
        f"learn-{number:08x}", MemoryKind.CONTEXT, text, label="learning", status=Status.PROPOSED, scope=Scope.TASK,
        origin=Origin(session=place), created_at=f"2026-10-0{number % 9 + 1}", links=(Link("learned_in", "prog-1"),),
    )  # fmt: skip


def noted(text: str, iteration: int = 1, session: str = "") -> Record:
    """An entry of the journal with one learning."""
    text = f"Did it.\n\nLearnings:\n- {text}"
    at = f"2026-10-01T11:{iteration:02d}:00Z"
    return journal_record(
        JournalEntry(
            "run-1", iteration, Outcome.DONE, "t-0001aa", notes=text, session=session, created_at=at
        )
    )


def known(title: str, text: str, *tags: str) -> Record:
    """An entry of knowledge."""
    return Record("know-1", MemoryKind.CONTEXT, text, label="knowledge", title=title, tags=tags)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Always use `IF NOT EXISTS`, or the second deploy fails", "gotcha"),
        ("Don't forget to update types.ts when changing the API", "gotcha"),
        ("`npm run gen` must come first, otherwise the build breaks", "gotcha"),
        ("`vite build` hangs when src/index.html is missing", "gotcha"),
        ("반드시 src/types.ts 파일을 먼저 고쳐야 한다", "gotcha"),
        ("Use the `sql<number>` template for aggregations", "learning"),
        ("The worker in src/jobs.py retries failed jobs three times", "learning"),
        ("Check AGENTS.md in the directory before making changes", "learning"),
        ("Decision: always use argon2 for passwords", "decision"),
    ],
)
def test_a_lesson_that_warns_of_a_mistake_is_a_gotcha(text: str, label: str) -> None:
    [found] = propose([learning(text)])
    assert found.label == label


LISTED = {
    "Prices are stored as integer cents, never as floats": "learning",
    "Use pnpm instead of npm in this repository": "learning",
    "Patterns discovered: migrations are numbered": "pattern",
    "Gotchas encountered: the CI database is Postgres 13": "gotcha",
    "Prices are integer cents": "learning",
    "Use pnpm": "learning",
    "가격은 센트 단위로 저장한다": "learning",
    "The worker restarts itself after an hour": "learning",
    "Never call the mailer from a transaction": "gotcha",
    "All totals include tax": "learning",
    "All goods are taxed": "learning",
    "Nothing may be logged before it is redacted": "learning",
    "It is important to close the pool before a fork": "learning",
    "Be careful with the mailer inside a transaction": "gotcha",
    "No pattern may be cached across tenants": "learning",
}
"""Lessons that name no code, no path and no number, with their labels."""

SMALL_TALK = (
    "None", "N/A", "Nothing new this time.", "No new gotchas", "No problems encountered",
    "There were no issues.", "Patterns discovered", "Gotchas encountered:", "Useful context",
    "**Patterns discovered**", "Everything works now.", "All tests pass", "All good!", "Done.", "pnpm",
    "> shop test", "$ node test.js", "=== results ===", "Testing is important.", "TBD",
    "The code could be better structured.",
)  # fmt: skip


@pytest.mark.parametrize("read", [learning, noted], ids=["progress.txt", "journal"])
def test_what_an_agent_lists_as_learnings_is_proposed(read: Callable[[str], Record]) -> None:
    for text, label in LISTED.items():
        assert [(found.text, found.label) for found in propose([read(text)])] == [(text, label)]


@pytest.mark.parametrize("read", [learning, noted], ids=["progress.txt", "journal"])
def test_small_talk_and_banners_below_learnings_are_not_proposed(
    read: Callable[[str], Record],
) -> None:
    for text in SMALL_TALK:
        assert propose([read(text)]) == [], text


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("Gotcha: the palette is cached", "Theme gotcha: the palette is cached"),
        ("**Gotcha:** the palette is cached", "Theme gotcha: the palette is cached"),
        (
            "the palette is cached in `theme.ts`",
            "Theme gotcha: the palette is cached in `theme.ts`",
        ),
    ],
)
def test_a_title_replaces_the_label_of_its_text(text: str, joined: str) -> None:
    [found] = propose([known("Theme gotcha", text)])
    assert found.text == joined


def test_each_source_gives_insights_with_their_label_and_evidence() -> None:
    fixed = session(*TEACHING["a migration before the tests"])
    entry = JournalEntry(
        "run-1",
        1,
        Outcome.DONE,
        "t-0001aa",
        notes="Did it.\n\nDecision: `argon2`, because bcrypt cuts at 72 bytes.",
    )
    message = "All done.\n\n**Gotchas:**\n- vite needs `optimizeDeps.include` for links,\n  see vite.config.ts\n\nBye"
    records = [
        *fixed,
        learning(PROTO, number=1),
        journal_record(entry),
        known(
            "Nightly reset",
            "The staging database is reset at 02:00, so never keep fixtures there.",
            "db",
        ),
        observed(NOTE, message, by="agent", number=40),
        observed(
            NOTE,
            "Merke: prices of the shop are integer cents\n\nNow fix the cart.",
            by="human",
            number=41,
        ),
    ]
    found = {each.text: each for each in propose(records)}
    assert {text[:24]: (each.extra[SOURCE], each.label) for text, each in found.items()} == {
        "`pytest -q` failed: sqli": ("fix", "gotcha"),
        "Run `make proto` before ": ("heading", "gotcha"),
        "Decision: `argon2`, beca": ("sigil", "decision"),
        "Nightly reset: The stagi": ("sigil", "learning"),
        "vite needs `optimizeDeps": ("heading", "gotcha"),
    }
    for text, each in found.items():
        assert evidence(each)
        assert each.status is (Status.ACCEPTED if "prices" in text else Status.PROPOSED)
        assert each.id.startswith("ins-")
    [fix] = [each for text, each in found.items() if "pytest" in text]
    assert evidence(fix) == tuple(each.id for each in fixed)
    assert (fix.kind, fix.tags) == (MemoryKind.FIX, ("pytest", "test"))


@pytest.mark.parametrize("steps", TEACHING.values(), ids=TEACHING)
def test_an_error_that_something_outside_of_the_code_resolved_is_an_insight(
    steps: list[Step],
) -> None:
    [found] = propose(session(*steps))
    assert found.extra[SOURCE] == "fix"
    assert "It passed " in found.text


@pytest.mark.parametrize(
    "heading",
    [
        "Learnings:",
        "## Gotchas",
        "**Patterns**",
        "### Key Decisions",
        "- **Learnings for future iterations:**",
        "Notes:",
    ],
)
def test_bullets_below_a_heading_are_read(heading: str) -> None:
    text = f"Intro with `code`.\n{heading}\n  - one is 1\n  - two\n    is 2\n\nAfter: this is no bullet\n- nor is this 3"
    assert [bullet.text for bullet in headed_bullets(text)] == ["one is 1", "two is 2"]


def test_two_failures_of_one_command_are_two_insights() -> None:
    first = session(
        ("fail", "make x", "Error: queue.mails is unknown"), ("ok", "make queues"), ("ok", "make x")
    )
    second = session(
        ("fail", "make x", "Error: volume.cache is gone"),
        ("ok", "terraform import cache"),
        ("ok", "make x"),
        name="s2",
    )
    assert [places(each) for each in propose([*first, *second])] == [("s1",), ("s2",)]


def test_the_files_that_were_touched_go_with_an_insight() -> None:
    found = propose(session(*TEACHING["a setting that was wrong"]))
    assert found[0].origin.files == ("jest.config.js",)


def test_what_says_the_same_is_one_insight_with_the_words_of_the_oldest_and_a_count() -> None:
    found = propose(
        [learning(PROTO_AGAIN, "s2", 5), learning(PROTO, "s1", 1), learning(PROTO, "s1", 2)]
    )
    assert [(each.text, each.extra[COUNT], places(each)) for each in found] == [
        (PROTO, 2, ("s1", "s2"))
    ]
    assert len(evidence(found[0])) == 3


def test_two_iterations_are_two_places_although_their_session_has_one_name() -> None:
    found = propose([noted(PROTO, 1, "scripted"), noted(PROTO, 2, "scripted")])
    assert [(each.extra[COUNT], places(each)) for each in found] == [(2, ("run-1#1", "run-1#2"))]
    assert is_well_evidenced(found[0])


def test_what_one_iteration_said_is_one_sighting_wherever_it_was_written_down() -> None:
    origin = Origin("agent", "s1", "run-1", 1)
    copies = [
        noted(PROTO, 1, "s1"),
        of_origin(learning(PROTO, number=1), origin),
        of_origin(known("Protobuf", PROTO, "proto"), origin),
        replace(
            observed(NOTE, f"Done.\n\n## Gotchas\n- {PROTO}", by="agent", number=3), origin=origin
        ),
    ]
    found = propose(copies)
    assert [(each.extra[COUNT], places(each)) for each in found] == [(1, ("run-1#1",))]
    assert len(evidence(found[0])) == 4
    assert not is_well_evidenced(found[0])


def test_a_pattern_at_the_top_of_progress_is_no_sighting() -> None:
    pattern = Record("found-1", MemoryKind.PATTERN, PROTO, label="Codebase Patterns")
    alone = propose([pattern])
    assert [(each.text, each.extra[COUNT], places(each)) for each in alone] == [(PROTO, 1, ())]
    assert not is_well_evidenced(alone[0])
    both = propose([pattern, noted(PROTO_AGAIN, 1)])
    assert [(each.text, places(each)) for each in both] == [(PROTO_AGAIN, ("run-1#1",))]


def test_what_was_observed_counts_once_at_each_place() -> None:
    steps = TEACHING["a migration before the tests"]
    found = propose([*session(*steps, *steps, *steps), *session(*steps, name="s2")])
    assert [(each.extra[COUNT], places(each)) for each in found] == [(2, ("s1", "s2"))]


def test_seen_in_two_sessions_is_well_evidenced_and_twice_in_one_is_not() -> None:
    once, twice = learning(PROTO, "s1", 1), learning(PROTO_AGAIN, "s1", 2)
    assert not is_well_evidenced(propose([once])[0])
    assert not is_well_evidenced(propose([once, twice])[0])
    assert is_well_evidenced(propose([once, replace(twice, origin=Origin(session="s2"))])[0])


def test_seen_in_two_iterations_of_a_run_is_well_evidenced() -> None:
    assert is_well_evidenced(propose([noted(PROTO, 1), noted(PROTO_AGAIN, 2)])[0])
    assert not is_well_evidenced(propose([noted(PROTO, 1)])[0])


def test_an_error_whose_command_then_passed_is_well_evidenced_at_once() -> None:
    found = propose(session(*TEACHING["a build that the tests need"]))
    assert is_proven(found[0])
    assert is_well_evidenced(found[0])


def test_a_label_inside_a_line_of_the_journal_and_one_without_a_name_of_code_count() -> None:
    notes = "Wrote src/rev.ts. Gotcha: revenue must be summed in cents."
    entry = journal_record(JournalEntry("run-1", 1, Outcome.DONE, "t-0001aa", notes=notes))
    found = propose([entry, noted("Gotcha: lion migrations lock the table for minutes", 2)])
    assert [each.text for each in found] == [
        "Gotcha: revenue must be summed in cents.",
        "Gotcha: lion migrations lock the table for minutes",
    ]


def test_noise_gives_nothing() -> None:
    for number, steps in enumerate(EMPTY.values()):
        assert propose(session(*steps, name=f"s{number}")) == []
    entry = JournalEntry(
        "run-1",
        1,
        Outcome.DONE,
        "t-0001aa",
        notes="Implemented the form of `cart`. All tests pass.",
    )
    assert propose([journal_record(entry), learning("Tests are important.")]) == []
    talk = "I must always run `make proto` before the tests, because user_pb2 is not committed."
    assert propose([observed(NOTE, talk, by="agent"), observed(NOTE, talk, by="human")]) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\nremember: prices are integer cents\n```",
        "Fix the cart.\nremember: prices are integer cents",
        "> remember: prices are integer cents",
    ],
    ids=["fence", "second line", "quotation"],
)
def test_a_prompt_that_only_quotes_a_request_is_not_marked(text: str) -> None:
    assert propose([observed(NOTE, text, by="human")]) == []


def test_what_a_person_asks_to_remember_is_not_proposed_again() -> None:
    assert propose([observed(NOTE, "remember: prices are integer cents", by="human")]) == []


def test_the_record_that_sums_up_a_run_is_no_entry() -> None:
    assert propose([replace(noted(PROTO), label="run")]) == []


def test_a_learning_is_of_the_session_of_its_block() -> None:
    moved = of_origin(learning(PROTO, ""), Origin(session="s9", run="run-1", iteration=2))
    assert (moved.origin.session, moved.origin.iteration) == ("s9", 2)


@cache
def many_parts() -> tuple[list[list[Record]], list[Record]]:
    """Sessions that teach something and what else is known, and what is proposed from all of it."""
    sessions = [
        session(*steps, name=f"s{number}") for number, steps in enumerate(TEACHING.values())
    ]
    parts = [
        *sessions,
        [learning(PROTO, "s1", 1)],
        [learning(PROTO_AGAIN, "s2", 2)],
        [noted(PROTO, 3)],
    ]
    return parts, list(propose([record for part in parts for record in part]))


@settings(max_examples=examples(30, 10))  # each takes as long as the insights of a whole project
@given(st.randoms(use_true_random=False))
def test_the_same_records_in_any_order_of_sessions_give_the_same_insights(chance: Random) -> None:
    parts, wanted = many_parts()
    shuffled = chance.sample(parts, len(parts))
    assert propose([record for part in shuffled for record in part]) == wanted


@given(st.lists(st.text(max_size=200), max_size=6))
def test_any_text_can_be_looked_at(texts: list[str]) -> None:
    records = [
        Record(f"learn-{number}", MemoryKind.CONTEXT, text, label="learning")
        for number, text in enumerate(texts)
    ]
    records += [noted(text, number) for number, text in enumerate(texts)]
    records += [
        observed(kind, text, command=text, number=number)
        for number, text in enumerate(texts)
        for kind in (ObservationKind.ERROR, NOTE, ObservationKind.TOOL_USE, ObservationKind.SUCCESS)
    ]
    for each in propose(records):
        assert each.family is Family.MEMORY
        assert each.text.strip()
        assert each.extra[EVIDENCE]


@pytest.mark.soak
def test_a_million_characters_cost_their_length() -> None:
    long = "a" * 300_000 + " must `x` " + "b_c " * 100_000 + "." * 100_000
    assert propose([noted(long), learning(long, number=3)]) is not None
