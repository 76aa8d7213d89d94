"""The brief of a session's start: what is in it, in which order, and that it never grows over its caps."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.context.injections import KNOWN_HOSTILE
from tests.formats.laws import messy

from ralph.context import budget, render
from ralph.context.brief import SKILL, Brief, Caps, Summary, accepted, by_use, session_brief
from ralph.context.tokens import estimate
from ralph.model.marks import INJECTED, NOTE
from ralph.model.record import MemoryKind, Origin, Record, Status

TEXTS = st.one_of(messy("`", "````", INJECTED, "word "), st.text("abc 인증🔥\n`", max_size=400))
KINDS = st.sampled_from(list(MemoryKind))
RECORDS = st.lists(st.tuples(KINDS, TEXTS, st.sampled_from(["", "2025-01-20", "2026-02-03"])), max_size=12)
SUMMARIES = st.lists(TEXTS, max_size=4)
LINES = st.lists(TEXTS, max_size=3)
CAPS = st.builds(Caps, st.integers(0, 3000), st.integers(0, 600), st.integers(0, 300), st.integers(1, 3000))


def _record(number: int, text: str, kind: MemoryKind = MemoryKind.FIX, created: str = "", by: str = "") -> Record:
    return Record(f"mem-{number}-a", kind, text, created_at=created, origin=Origin(by=by))


def _records(values: list[tuple[MemoryKind, str, str]], first: int = 0) -> list[Record]:
    return [_record(first + number, text, kind, created) for number, (kind, text, created) in enumerate(values)]


def _brief(memories: list[Record], caps: Caps | None = None, **more: list[str]) -> Brief:
    return session_brief([], memories, [], more.get("active", []), more.get("notices", []), caps=caps or Caps())


def test_nothing_to_say_gives_nothing() -> None:
    assert session_brief([], [], [], [], [], caps=Caps()) == Brief()


def test_guardrails_come_first_then_memories_then_sessions_then_what_is_active() -> None:
    brief = session_brief(
        [_record(1, "Never push to main")],
        [_record(2, "Use pnpm")],
        [Summary("s-1", "Added JWT to auth.ts", "2026-02-03")],
        ["loop run-1: iteration 3 of 10, JWT"],
        ["2 hooks failed: `ralph doctor` says why"],
        caps=Caps(),
    )
    assert brief.text == (
        f"{render.INTRO}\n```\n"
        "Guardrails:\n- [mem-1-a] fix: Never push to main\n"
        "Memories:\n- [mem-2-a] fix: Use pnpm\n"
        "Last sessions:\n- [s-1] session 2026-02-03: Added JWT to auth.ts\n"
        "Active now:\n- loop run-1: iteration 3 of 10, JWT\n"
        f"```\n{NOTE}2 hooks failed: `ralph doctor` says why\n"
    )
    assert [shown.id for shown in brief.records] == ["mem-1-a", "s-1", "mem-2-a"]
    assert brief.left_out == 0


@given(RECORDS, RECORDS, SUMMARIES, LINES, LINES, CAPS, st.sampled_from(["", "# How to\n```sh\nralph\n```\n"]))
def test_it_is_never_over_its_caps_and_shows_whole_entries(
    rules: list[tuple[MemoryKind, str, str]],
    learned: list[tuple[MemoryKind, str, str]],
    recaps: list[str],
    active: list[str],
    notices: list[str],
    caps: Caps,
    skill: str,
) -> None:
    guardrails, memories = _records(rules), _records(learned, 100)
    summaries = [Summary(f"s-{number}", text) for number, text in enumerate(recaps)]
    brief = session_brief(guardrails, memories, summaries, active, notices, caps=caps, skill=skill)
    assert render.length(brief.text) <= caps.characters
    assert not caps.tokens or estimate(brief.text) <= caps.tokens
    shown = {each.id: each.tokens for each in brief.records}
    entries = [_whole(record) for record in [*guardrails, *memories] if record.id in shown]
    assert all(entry in brief.text for entry in entries)
    assert not caps.memories or estimate("\n".join(entries)) <= caps.memories
    assert brief.left_out == len(guardrails) + len(memories) + len(summaries) - len(shown)
    assert brief.text == session_brief(guardrails, memories, summaries, active, notices, caps=caps, skill=skill).text
    if brief.left_out and shown:
        assert f"{NOTE}{len(shown)} of {brief.left_out + len(shown)} shown" in brief.text


def _whole(record: Record) -> str:
    return render.entry(3, record.id, record.kind.value, "", record.text, record.created_at)


def test_a_large_store_fills_the_cap_and_says_how_to_get_the_rest() -> None:
    many = [_record(number, f"Fact {number}: " + "word " * 30, created="2026-01-01") for number in range(2000)]
    brief = _brief(many)
    assert 8_000 <= render.length(brief.text) <= 9_500 or estimate(brief.text) >= 1_900
    assert f"{len(brief.records)} of 2000 shown; the rest: `ralph memory list`" in brief.text
    assert brief.left_out == 2000 - len(brief.records)
    unlimited = _brief(many, Caps(memories=0))
    assert 9_200 <= render.length(unlimited.text) <= 9_500


def test_guardrails_take_at_most_half_of_the_tokens() -> None:
    rules = [_record(number, "word " * 40) for number in range(100)]
    learned = [_record(1000 + number, "word " * 40) for number in range(100)]
    brief = session_brief(rules, learned, [], [], [], caps=Caps(memories=1000))
    spent = sum(each.tokens for each in brief.records if int(each.id.split("-")[1]) < 1000)
    rest = sum(each.tokens for each in brief.records) - spent
    assert 350 <= spent <= 500
    assert rest >= 350


def test_the_newest_summary_is_there_however_many_memories_there_are() -> None:
    many = [_record(number, "word " * 40) for number in range(500)]
    summaries = [Summary("s-new", "Did this. " * 20), Summary("s-old", "Did that. " * 20)]
    brief = session_brief([], many, summaries, [], [], caps=Caps(memories=0))
    assert "[s-new]" in brief.text
    assert "[s-old]" not in brief.text


def test_a_summary_that_is_far_too_long_is_cut_and_says_so() -> None:
    brief = session_brief([], [], [Summary("s-1", "Did this. " * 1000)], [], [], caps=Caps())
    assert "all of it: ralph search --layer 3 s-1" in brief.text


def test_notices_alone_are_said_without_a_frame() -> None:
    assert _brief([], notices=["3 hooks failed\nsee doctor"]).text == f"{NOTE}3 hooks failed see doctor\n"


@pytest.mark.parametrize("by", ["tool", "import"])
def test_what_a_stranger_orders_is_withheld_and_what_the_user_wrote_is_not(by: str) -> None:
    brief = _brief([_record(1, KNOWN_HOSTILE[0], by=by), _record(2, "Use pnpm", by=by), _record(3, KNOWN_HOSTILE[1])])
    assert [each.id for each in brief.records] == ["mem-3-a", "mem-2-a"]
    assert (brief.withheld, brief.left_out) == (1, 0)


def test_the_skill_is_added_when_it_fits_in_a_block_of_its_own() -> None:
    memories = [_record(1, "Use pnpm")]
    brief = session_brief([], memories, [], [], [], caps=Caps(), skill="# Skill\n```sh\nralph\n```\n")
    assert brief.has_skill
    assert brief.text.endswith(f"{SKILL}\n````\n# Skill\n```sh\nralph\n```\n````\n")
    assert SKILL.startswith(INJECTED)
    full = session_brief([], memories, [], [], [], caps=Caps(characters=400), skill="word " * 100)
    assert not full.has_skill
    assert full.text == _brief(memories, Caps(characters=400)).text


class TestUse:
    def test_used_ones_come_first_within_their_kind_and_useless_ones_last(self) -> None:
        records = [_record(number, "x", created=f"2026-01-0{9 - number}") for number in range(4)]
        records.append(_record(9, "y", MemoryKind.CONTEXT, "2025-01-01"))
        uses = {"mem-0-a": (9, 0), "mem-1-a": (1, 0), "mem-3-a": (4, 2)}
        assert by_use(records) == [0, 4, 1, 2, 3]
        assert by_use(records, uses) == [3, 4, 1, 2, 0]

    @given(RECORDS, st.dictionaries(st.integers(0, 12), st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
    def test_every_record_keeps_one_place_and_kinds_their_turns(
        self, values: list[tuple[MemoryKind, str, str]], use: dict[int, tuple[int, int]]
    ) -> None:
        records = _records(values)
        order = by_use(records, {f"mem-{number}-a": counts for number, counts in use.items()})
        assert sorted(order) == list(range(len(records)))
        assert [records[i].kind for i in order] == [records[i].kind for i in by_use(records)]


class TestFilter:
    def test_types_tags_and_days_decide_and_retired_ones_never_pass(self) -> None:
        today = date(2026, 2, 10)
        fix = Record("a", MemoryKind.FIX, "x", tags=("CI",), created_at="2026-02-09")
        old = Record("b", MemoryKind.DECISION, "x", created_at="2025-02-09")
        gone = Record("c", MemoryKind.FIX, "x", status=Status.RETIRED, created_at="2026-02-09")
        everything = [fix, old, gone]
        assert accepted(everything, today=today) == [fix, old]
        assert accepted(everything, types=[MemoryKind.DECISION], today=today) == [old]
        assert accepted(everything, tags=["ci"], today=today) == [fix]
        assert accepted(everything, recent=7, today=today) == [fix]
        assert accepted(everything, recent=10**9, today=today) == [fix, old]


@given(RECORDS, CAPS, st.sampled_from(list(budget.Strategy)))
def test_no_strategy_breaks_the_caps(
    values: list[tuple[MemoryKind, str, str]], caps: Caps, strategy: budget.Strategy
) -> None:
    brief = session_brief([], _records(values), [], [], [], caps=caps, strategy=strategy)
    assert render.length(brief.text) <= caps.characters
    assert not caps.tokens or estimate(brief.text) <= caps.tokens
    assert len({shown.id for shown in brief.records}) == len(brief.records)
