"""What is proposed from records of every sort, how it is merged, and what counts as well-evidenced."""

from dataclasses import replace
from functools import cache
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capture.situations import EMPTY, NOTE, TEACHING, observed, session

from ralph.capture.insights import (
    COUNT,
    EVIDENCE,
    REPEATS,
    evidence,
    is_proven,
    is_well_evidenced,
    of_origin,
    places,
    propose,
    sightings,
)
from ralph.formats.log import journal_record
from ralph.model.record import Family, Link, MemoryKind, ObservationKind, Origin, Outcome, Record, Scope, Status
from ralph.model.work import JournalEntry

PROTO = "Run `make proto` before the tests, otherwise importing user_pb2 fails."
PROTO_AGAIN = "user_pb2 cannot be imported until make proto has been run"


def learning(text: str, place: str = "s1", number: int = 0) -> Record:
    """A bullet below "Learnings"."""
    return Record(
        f"learn-{number:08x}", MemoryKind.CONTEXT, text, label="learning", status=Status.PROPOSED, scope=Scope.TASK,
        origin=Origin(session=place), created_at=f"2026-10-0{number % 9 + 1}", links=(Link("learned_in", "prog-1"),),
    )  # fmt: skip


def noted(text: str, iteration: int = 1, session: str = "") -> Record:
    """An entry of the journal."""
    at = f"2026-10-01T11:{iteration:02d}:00Z"
    return journal_record(
        JournalEntry("run-1", iteration, Outcome.DONE, "t-0001aa", notes=text, session=session, created_at=at)
    )


def known(title: str, text: str, *tags: str) -> Record:
    """An entry of knowledge."""
    return Record("know-1", MemoryKind.CONTEXT, text, label="knowledge", title=title, tags=tags)


def test_every_source_gives_insights_with_their_evidence() -> None:
    fixed = session(*TEACHING["a migration before the tests"])
    records = [
        *fixed,
        learning(PROTO, number=1),
        noted("Did the export.\n\nDecided on `argon2` instead of bcrypt because bcrypt cuts at 72 bytes."),
        known(
            "Nightly reset", "The staging database is reset every night at 02:00, so never keep fixtures there.", "db"
        ),
        observed(NOTE, "Gotcha: vite needs `optimizeDeps.include` for linked packages.", by="agent", number=40),
    ]
    found = {each.label + " " + each.text[:19]: each for each in propose(records)}
    assert sorted(found) == sorted(
        [
            "gotcha `pytest -q` failed:",
            "gotcha Run `make proto` be",
            "decision Decided on `argon2`",
            "pattern Nightly reset: The ",
            "gotcha Gotcha: vite needs ",
        ]
    )
    for each in found.values():
        assert evidence(each)
        assert each.status is Status.PROPOSED
        assert each.scope is Scope.TASK
        assert each.id.startswith("ins-")
        assert each.extra["promoted_to"] is None
    fix = found["gotcha `pytest -q` failed:"]
    assert evidence(fix) == tuple(each.id for each in fixed)
    assert (fix.kind, fix.tags) == (MemoryKind.FIX, ("pytest", "test"))
    assert found["pattern Nightly reset: The "].tags == ("db",)


def test_the_files_that_were_touched_go_with_an_insight() -> None:
    found = propose(session(*TEACHING["a setting that was wrong"]))
    assert found[0].origin.files == ("jest.config.js",)


def test_what_says_the_same_is_one_insight_with_the_words_of_the_oldest_and_a_count() -> None:
    found = propose([learning(PROTO_AGAIN, "s2", 5), learning(PROTO, "s1", 1), learning(PROTO, "s1", 2)])
    assert [(each.text, each.extra[COUNT], places(each)) for each in found] == [(PROTO, 2, ("s1", "s2"))]
    assert len(evidence(found[0])) == 3


def test_two_iterations_are_two_places_although_their_session_has_one_name() -> None:
    found = propose([noted(PROTO, 1, "scripted"), noted(PROTO, 2, "scripted")])
    assert [(each.extra[COUNT], places(each)) for each in found] == [(2, ("run-1#1", "run-1#2"))]
    assert is_well_evidenced(found[0])


def test_what_one_iteration_said_is_one_sighting_wherever_it_was_written_down() -> None:
    origin = Origin("agent", "s1", "run-1", 1)
    copies = [
        noted(f"Did it.\n\n{PROTO}", 1, "s1"),
        of_origin(learning(PROTO, number=1), origin),
        of_origin(known("Protobuf", PROTO, "proto"), origin),
        replace(observed(NOTE, f"Gotcha: {PROTO}", by="agent", number=3), origin=origin),
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


def test_what_was_observed_counts_as_often_as_it_happened() -> None:
    steps = TEACHING["a migration before the tests"]
    found = propose([*session(*steps, *steps, *steps), *session(*steps, name="s2")])
    assert [(each.extra[COUNT], sightings(each)) for each in found] == [(4, {"s1": 3, "s2": 1})]
    assert found[0].extra[REPEATS] == {"s1": 3}


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


def test_noise_gives_nothing() -> None:
    for number, steps in enumerate(EMPTY.values()):
        assert propose(session(*steps, name=f"s{number}")) == []
    assert propose([noted("Implemented the form. All tests pass."), learning("Tests are important.")]) == []


def test_prompts_of_people_and_talk_are_no_insights() -> None:
    said = "Gotcha: always run `make proto` before the tests, because user_pb2 is not committed."
    assert propose([observed(NOTE, said, by="human")]) == []
    talk = "I must always run `make proto` before the tests, because user_pb2 is not committed."
    assert propose([observed(NOTE, talk, by="agent")]) == []


def test_talk_adds_to_what_was_written_down() -> None:
    talk = observed(NOTE, f"Again: {PROTO_AGAIN}, because it is not committed.", by="agent", session="s2")
    assert places(propose([learning(PROTO, "s1", 1), talk])[0]) == ("s2", "s1")


def test_something_that_was_met_again_in_another_session_is_an_insight_without_any_rule() -> None:
    first = noted("The badge flickers: `useSyncExternalStore` got a new snapshot object during render.", 1)
    second = noted("Same flicker in the menu: a new snapshot object for `useSyncExternalStore` during render.", 2)
    assert propose([first]) == []
    assert is_well_evidenced(propose([first, second])[0])


def test_what_comes_back_word_for_word_without_a_rule_is_no_second_sighting() -> None:
    text = "42 pallets per AGV lane in Berlin"
    found = propose([learning(text, "s1", 1), learning(text, "s2", 2)])
    assert [places(each) for each in found] == [("s1",)]
    note = "Please keep `layers.toml` in order, because the generator of layers.gen.h never sorts."
    twice = [observed(NOTE, note, by="agent", session=name) for name in ("s1", "s2")]
    assert [places(each) for each in propose(twice)] == [("s1",)]


def test_a_note_that_states_a_rule_is_an_insight_and_two_notes_of_one_thing_are_well_evidenced() -> None:
    rule = "Please don't touch the enum in layers.gen.h, it is generated; layers are added in layers.toml only."
    assert [each.text for each in propose([observed(NOTE, rule, by="agent")])] == [rule]
    first = "numbers of the 31st use the rates of the 30th. FX table closes 02:30 UTC, month-end starts 02:00"
    second = "month-end rates are off: somebody moved the schedule back to 02:00, FX closes at 02:30"
    notes = [observed(NOTE, first, by="agent"), observed(NOTE, second, by="agent", session="s2", number=9)]
    assert is_well_evidenced(propose(notes)[0])


def test_what_a_session_is_for_is_no_insight() -> None:
    for brief in (
        "`larder`, an app for pantries. Goal for today: the CSV import, which must not need `iconv`.",
        "Ticket: rows of `orders` are posted twice when the broker is restarted. Services live in svc/ only.",
    ):
        assert propose([observed(NOTE, brief, by="agent")]) == []


def test_a_heading_makes_no_lesson_of_what_the_code_says() -> None:
    body = "`PantryStore` has the methods put and take. `PantryView` renders a list of PantryItem."
    assert propose([known("Structure of lib/pantry", body)]) == []
    more = "`PantryStore` reads shelves.toml once; tests call resetShelves first."
    assert len(propose([known("Shelves", more)])) == 1
    assert len(propose([known("Structure of lib/pantry", f"{body} Never import PantryView from lib/sync.")])) == 1


def test_two_failures_of_one_command_are_two_insights() -> None:
    def failed(number: int, error: str, change: str) -> list[Record]:
        steps = (("fail", "make -C infra plan-guard STACK=stage", error), ("edit", "infra/main.tf", change))
        return session(*steps, ("ok", "make -C infra plan-guard STACK=stage"), name=f"s{number}")

    found = propose(
        [
            *failed(1, "error: volume.cache would be destroyed", "moved block; a new name is a new volume otherwise"),
            *failed(2, "error: queue.mails is unknown until apply", "output instead of depends_on, which defers reads"),
        ]
    )
    assert [places(each) for each in found] == [("s1",), ("s2",)]


def test_what_the_loop_says_about_an_iteration_is_no_insight() -> None:
    told = "test: `pytest` must pass but failed (exit 1)\n\nError: DATABASE_URL must be set before tests in conftest.py"
    for why in ("the agent did not say that the task is done", "it was called done, but the criteria do not agree"):
        assert propose([noted(f"Did the export.\n\n{why}\n{told}")]) == []
        assert [each.text for each in propose([noted(f"{PROTO}\n\n{why}\n{told}")])] == [PROTO]


def test_the_record_that_sums_up_a_run_is_no_entry() -> None:
    assert propose([replace(noted(PROTO), label="run")]) == []


def test_a_learning_is_of_the_session_of_its_block() -> None:
    moved = of_origin(learning(PROTO, ""), Origin(session="s9", run="run-1", iteration=2))
    assert (moved.origin.session, moved.origin.iteration) == ("s9", 2)


@cache
def many_parts() -> tuple[list[list[Record]], list[Record]]:
    """Sessions that teach something and what else is known, and what is proposed from all of it."""
    sessions = [session(*steps, name=f"s{number}") for number, steps in enumerate(TEACHING.values())]
    parts = [*sessions, [learning(PROTO, "s1", 1)], [learning(PROTO_AGAIN, "s2", 2)], [noted(PROTO, 3)]]
    return parts, list(propose([record for part in parts for record in part]))


@settings(max_examples=30)  # each takes as long as the insights of a whole project
@given(st.randoms(use_true_random=False))
def test_the_same_records_in_any_order_of_sessions_give_the_same_insights(chance: Random) -> None:
    parts, wanted = many_parts()
    shuffled = chance.sample(parts, len(parts))
    assert propose([record for part in shuffled for record in part]) == wanted


@given(st.lists(st.text(max_size=200), max_size=6))
def test_any_text_can_be_looked_at(texts: list[str]) -> None:
    records = [
        Record(f"learn-{number}", MemoryKind.CONTEXT, text, label="learning") for number, text in enumerate(texts)
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


def test_a_million_characters_cost_their_length() -> None:
    long = "a" * 300_000 + " must `x` " + "b_c " * 100_000 + "." * 100_000
    assert propose([noted(long), learning(long, number=3)]) is not None
