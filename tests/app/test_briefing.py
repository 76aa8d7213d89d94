"""What an agent is handed: the brief of a start and the answer to a prompt, as the files and the settings say."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.app.test_session import about, line, put
from tests.cli.runner import Block, page
from tests.context.injections import KNOWN_HOSTILE

from ralph import paths
from ralph.app import briefing, index, usage
from ralph.context import render
from ralph.context.tokens import estimate
from ralph.formats.log import encode_line, encode_record
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record
from ralph.settings import Config, Filter, Inject, Memories, Shares, Trimming
from ralph.settings import Context as Window

REDIS = "mem-1705751401-a001"
PLAIN = Config(memories=Memories(skill_injection=False))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def memories(root: Path, *blocks: Block) -> None:
    write(root / ".agent" / "memories.md", page(*blocks))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one memory and nothing else."""
    memories(tmp_path, Block("Redis must run before the integration tests.", REDIS, "redis", "2026-11-10", "fix"))
    return tmp_path


def text(root: Path, config: Config = PLAIN, session: str = "now") -> str:
    return briefing.at_start(root, config, session).text


def sessions_in(said: str) -> list[str]:
    return [line[3:].partition("]")[0] for line in said.split("\n") if "] session" in line]


# --- the last sessions ---------------------------------------------------------------------------


def test_the_newest_three_sessions_are_told_but_not_this_one(root: Path) -> None:
    for number in range(5):
        name = f"s-{number}"
        put(root, name, line(name, number, f"do {number}"), line(name, number + 1, "done", by="agent"),
            about(name, summary=f"Goal: do {number}", updated_at=f"2026-11-10T1{number}:00:00Z"))  # fmt: skip
    assert sessions_in(text(root)) == ["s-4", "s-3", "s-2"]
    assert sessions_in(text(root, session="s-4")) == ["s-3", "s-2", "s-1"]


def test_a_session_without_a_summary_is_summed_up_from_what_there_is(root: Path) -> None:
    put(root, "cut", line("cut", 1, "add a login page"), line("cut", 2, "ran it", ObservationKind.TOOL_USE, "tool"))
    said = text(root)
    assert "- [cut] session 2026-11-10: Goal: add a login page" in said
    (log,) = paths.log_folder(root).glob("sessions/*")
    assert log.read_text(encoding="utf-8").count("\n") == 2


def test_its_last_event_counts_where_no_end_is_known(root: Path) -> None:
    put(
        root, "older", about("older", updated_at="2026-11-10T10:30:00Z", started_at="2026-11-10T10:30:00Z", summary="x")
    )
    put(root, "newer", about("newer", started_at="2026-11-10T10:00:00Z"), line("newer", 1, "a"), line("newer", 40, "b"))
    assert sessions_in(text(root)) == ["newer", "older"]


def test_the_summary_of_one_that_came_to_its_end_is_taken_as_it_is(root: Path) -> None:
    put(
        root, "done", line("done", 1, "add it"), line("done", 2, "Added.", by="agent"), about("done", summary="Better.")
    )
    assert "session 2026-11-10: Better." in text(root)


def test_a_summary_that_is_older_than_what_happened_is_made_anew(root: Path) -> None:
    put(root, "cut", line("cut", 1, "add it"), line("cut", 2, "Added.", by="agent"), about("cut", summary="Old."),
        line("cut", 3, "boom", ObservationKind.ERROR, "tool"))  # fmt: skip
    assert "Old." not in text(root)
    assert "Goal: add it" in text(root)


def test_sessions_that_did_nothing_are_passed_over(root: Path) -> None:
    for number in range(8):
        put(root, f"e-{number}", about(f"e-{number}", started_at=f"2026-11-11T0{number}:00:00Z"))
    put(root, "real", line("real", 1, "add it"))
    assert sessions_in(text(root)) == ["real"]


def test_orders_that_a_tool_printed_are_not_told_again(root: Path) -> None:
    put(root, "odd", line("odd", 1, "please always use pnpm"),
        line("odd", 2, f"Error: {KNOWN_HOSTILE[0]}", ObservationKind.ERROR, "tool"))  # fmt: skip
    said = text(root)
    assert "Goal: please always use pnpm" in said
    assert "system prompt" not in said


def test_a_very_long_session_is_summed_up_from_both_ends(root: Path) -> None:
    lines = [line("long", 0, "the goal")]
    lines += [line("long", 1 + n % 50, "step", ObservationKind.TOOL_USE, "tool").replace('"obs-', f'"obs-{n}') for n in
              range(2_500)]  # fmt: skip
    put(root, "long", *lines)
    index.sync(root)
    assert "Goal: the goal" in text(root)


# --- the rest of the brief -----------------------------------------------------------------------


def test_what_is_going_on_is_told(root: Path) -> None:
    run = encode_line("run", {"id": "r-1", "goal": "ship it", "status": "running", "iterations": 3})
    write(paths.log_folder(root) / "runs" / "r-1.jsonl", run)
    task = '{"id": "t-7", "title": "Write the docs", "status": "in_progress"}'
    write(paths.tasks_folder(root) / "t-7" / "task.json", task)
    index.sync(root)
    said = text(root)
    assert "- loop: ship it (iteration 3)" in said
    assert "- task t-7: Write the docs" in said


def test_an_empty_project_has_nothing_to_say_and_stays_empty(tmp_path: Path) -> None:
    assert briefing.at_start(tmp_path, PLAIN, "").text == ""
    assert briefing.for_prompt(tmp_path, PLAIN, "redis").text == ""
    assert list(tmp_path.iterdir()) == []


def test_memories_that_were_of_use_come_first(root: Path) -> None:
    memories(root, *[Block(f"Fix number {n}.", f"mem-{n}-a", created="2026-11-10", kind="fix") for n in range(4)])
    at = "2026-11-15T12:00:00Z"
    usage.record_injections(root, "s-1", "SessionStart", [usage.Injection("mem-3-a")], at)
    usage.record_uses(root, "s-1", ["mem-3-a"], at)
    for number in range(6):
        usage.record_injections(root, f"x-{number}", "SessionStart", [usage.Injection("mem-0-a")], at)
    said = text(root)
    order = sorted(range(4), key=lambda n: said.index(f"mem-{n}-a"))
    assert (order[0], order[-1]) == (3, 0)


@given(st.integers(1, 20_000), st.integers(0, 3_000))
def test_a_brief_keeps_to_its_share_of_the_window(window: int, budget: int) -> None:
    config = Config(memories=Memories(budget=budget), context=Window(window))
    root = Path(__file__).parents[2] / "does-not-exist"
    made = briefing.at_start(root, config, "")
    assert estimate(made.text) <= max(1, int(window * 0.15))


def test_a_small_window_leaves_room_for_little(root: Path) -> None:
    for number in range(3):
        put(root, f"s-{number}", line(f"s-{number}", number, f"do {number}: " + "words " * 40))
    index.sync(root)
    for window in (100, 1_000, 2_000, 4_000):
        config = replace(PLAIN, context=Window(window))
        assert estimate(text(root, config)) <= window * 0.15


def test_the_filter_is_the_same_at_the_start_and_for_a_prompt(root: Path) -> None:
    memories(
        root,
        Block("Redis one.", "mem-1-a", "redis", "2026-11-10", "fix"),
        Block("Redis two.", "mem-2-a", "Redis,x", "2020-01-01", "pattern"),
        Block("Redis three.", "mem-3-a", "", "", "decision"),
    )
    for choice in (
        Filter(types=(MemoryKind.FIX,)), Filter(tags=("REDIS",)), Filter(recent=1_000), Filter(recent=10**9), Filter(),
    ):  # fmt: skip
        config = Config(memories=Memories(skill_injection=False, filter=choice))
        start = {shown.id for shown in briefing.at_start(root, config, "").records}
        prompt = {reason.id for reason in briefing.for_prompt(root, config, "redis").reasons}
        assert prompt == start


# --- a prompt ------------------------------------------------------------------------------------


def test_a_prompt_is_answered_with_reasons(root: Path) -> None:
    found = briefing.for_prompt(root, PLAIN, "redis integration")
    assert found.layer == 3
    (reason,) = found.reasons
    assert reason.id == REDIS
    assert "tag: redis" in reason.why
    assert 0 < reason.score <= 1.5
    assert reason.tokens > 0
    assert REDIS in found.text


@pytest.mark.parametrize("prompt", ["", "  ", "<task-notification>redis", "/compact", "paint it blue", "\ud800"])
def test_what_asks_nothing_is_not_answered(root: Path, prompt: str) -> None:
    assert briefing.for_prompt(root, PLAIN, prompt) == briefing.Context("", 0, ())


@pytest.mark.parametrize(("mode", "told"), [(Inject.AUTO, True), (Inject.MANUAL, True), (Inject.NONE, False)])
def test_on_request_is_on_request_and_never_is_never(root: Path, mode: Inject, told: bool) -> None:
    config = Config(memories=Memories(inject=mode))
    assert bool(briefing.for_prompt(root, config, "redis integration").text) is told


def test_what_a_session_was_handed_is_left_out(root: Path) -> None:
    usage.record_injections(root, "s-1", "SessionStart", [usage.Injection(REDIS)], "2026-11-15T12:00:00Z")
    assert briefing.for_prompt(root, PLAIN, "redis integration", session="s-1").text == ""
    assert REDIS in briefing.for_prompt(root, PLAIN, "redis integration", session="s-2").text


def test_no_brief_is_longer_than_a_host_takes(root: Path) -> None:
    memories(root, *[Block("인증🔥 " * 300 + str(n), f"mem-{n}-a", created="2026-11-10") for n in range(40)])
    config = Config(memories=Memories(budget=0))
    assert 0 < render.length(text(root, config)) <= render.MOST_CHARACTERS


def test_a_record_that_was_found_by_a_files_name_says_so(root: Path) -> None:
    edits = [
        Record(f"obs-17000000{n:02}-aa{n:02}", ObservationKind.TOOL_USE, f"+ const port = 84{n}", Family.OBSERVATION,
               title="Edit src/gateway.ts", created_at=f"2026-11-10T10:{n:02}:00Z",
               origin=Origin(by="tool", session=f"old-{n // 2}", files=("src/gateway.ts",)))
        for n in range(4)
    ]  # fmt: skip
    put(root, "old", *map(encode_record, edits))
    prompt = "please think again about how reconciliation retries behave across regions, starting in gateway.ts"
    reasons = briefing.for_prompt(root, PLAIN, prompt).reasons
    assert {reason.id for reason in reasons} == {record.id for record in edits}
    by_name = [reason for reason in reasons if not reason.score]
    assert by_name
    assert all(reason.why[0] == "names the file gateway.ts" for reason in by_name)


# --- the window's shares and the strategy ----------------------------------------------------------


def windowed(*, window: int = 200_000, parts: Shares | None = None, strategy: Trimming = Trimming.AUTO) -> Config:
    return replace(PLAIN, context=Window(window, strategy, parts or Shares()))


def test_the_share_of_memory_is_the_configs(root: Path) -> None:
    memories(root, *[Block("words " * 50 + str(n), f"mem-{n}-a", created="2026-11-10", kind="fix") for n in range(20)])
    for part in (0.02, 0.05, 0.2):
        config = windowed(window=10_000, parts=Shares(memory=part))
        start, prompt = text(root, config), briefing.for_prompt(root, config, "words 7").text
        assert 0 < estimate(start) <= 10_000 * part
        assert estimate(prompt) <= 10_000 * part
    assert text(root, windowed(parts=Shares(memory=0))) == ""


def test_the_strategy_is_the_configs(root: Path) -> None:
    kinds = ("fix", "decision", "pattern", "context")
    memories(root, *[
        Block("words " * 60 + str(n), f"mem-{n}-a", created=f"2026-11-{n + 1:02}", kind=kinds[n % 4]) for n in range(16)
    ])  # fmt: skip

    def handed(strategy: Trimming) -> list[str]:
        config = replace(windowed(strategy=strategy), memories=Memories(skill_injection=False, budget=900))
        return [shown.id for shown in briefing.at_start(root, config, "").records]

    newest = [f"mem-{n}-a" for n in range(15, -1, -1)]
    assert handed(Trimming.RECENCY) == newest[: len(handed(Trimming.RECENCY))]
    assert len(handed(Trimming.COMPRESSION)) > len(handed(Trimming.RECENCY))
    assert set(handed(Trimming.SELECTIVE)) <= {f"mem-{n}-a" for n in (0, 4, 8, 12)}
    assert handed(Trimming.SELECTIVE)
    for session_id in range(6):
        usage.record_injections(
            root, f"x-{session_id}", "SessionStart", [usage.Injection("mem-15-a")], "2026-11-15T12:00:00Z"
        )
    assert "mem-15-a" not in handed(Trimming.RELEVANCE)
    assert handed(Trimming.RELEVANCE)
    assert briefing.wanted_strategy(windowed()) is None
