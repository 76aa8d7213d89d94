"""What a loop says to its user: why something failed or waits, what was refused, archived or not trusted."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.looping import GOAL, PASSES, Workshop, done, project, says_done

from ralph.core import paths
from ralph.core.errors import UsageError
from ralph.core.settings import Config
from ralph.core.tokens import estimate
from ralph.core.work import Ask, Reply, StopReason
from ralph.learning import inbox
from ralph.loop import prompt as loop_prompt
from ralph.loop import runs, scratchpad_file
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.memory import knowledge as pages
from ralph.memory import memory, reading
from ralph.tasks import feature, task
from ralph.testing import Step


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return project(tmp_path / "shop")


def test_a_refused_start_leaves_no_run_and_no_task(shop: Workshop) -> None:
    with pytest.raises(UsageError, match="is missing or cannot be started"):
        shop.start(request=LoopRequest(goal=GOAL, criteria=("there-is-no-such-program",)))
    assert runs.list_newest(shop.root) == ([], 0)
    assert not [line for line in shop.said if "run-" in line], "there is no run to name"
    assert task.ready(shop.root) == []
    assert not list(paths.runs_folder(shop.root).glob("*"))


def test_criteria_that_hold_already_leave_no_run(shop: Workshop) -> None:
    run = shop.start(request=LoopRequest(goal=GOAL, criteria=("custom:true",)))
    assert run.reason == "already_passing"
    assert runs.list_newest(shop.root) == ([], 0)
    assert not [line for line in shop.said if "run-" in line], "there is no run to name"


def test_resuming_makes_the_check_of_the_start(shop: Workshop) -> None:
    shop.set(max_iterations=1)
    run = shop.start(Step(say="hm"))
    with pytest.raises(UsageError, match="is missing or cannot be started"):
        shop.resume(request=LoopRequest(criteria=("custom:there-is-no-such-program",)))
    assert runs.read(shop.root, run.id) == run


def test_every_iteration_says_why_it_failed_or_was_blocked(shop: Workshop) -> None:
    shop.set(max_iterations=2)
    shop.start(
        lambda _: Reply("", StopReason.CRASHED, error="sh exited with 3: oops"), Step(say="hm")
    )
    said = "\n".join(shop.said)
    assert "iteration 1: failed" in said
    assert "  the agent crashed: sh exited with 3: oops" in said
    assert "  the agent did not say that the task is done" in said


def test_a_sigil_that_does_not_count_is_explained_on_screen_and_in_the_next_prompt(
    shop: Workshop,
) -> None:
    def says(ask: Ask) -> Reply:
        fenced = '```\nx\n<knowledge tags="a" title="T">Words.</knowledge>\n```'
        return Reply(f"{fenced}\n\nI am done: {done(ask)}")

    run = shop.start(says, says_done(), PASSES)
    why = "there are other words on its line"
    assert any(line.startswith("warning: <knowledge> does not count") for line in shop.said)
    assert any(why in line for line in shop.said)
    assert why in shop.journal(run)[0].notes
    assert why in shop.prompt(run, 2)


def test_a_verdict_that_does_not_count_is_explained(shop: Workshop) -> None:
    fine = Step(read_only=True, say="It is fine <verify-pass/>")
    shop.start(says_done(), fine, PASSES)
    assert any("it gave no verdict; <verify-pass> does not count" in line for line in shop.said)


def test_what_waits_for_what_is_named_when_nothing_is_ready(shop: Workshop) -> None:
    first = task.add(shop.root, "alpha").task
    second = task.add(shop.root, "beta", blocked_by=(first.id,)).task
    task.fail(shop.root, first.id, "no database")
    run = shop.start(request=LoopRequest(criteria=("none",)))
    assert run.reason == "nothing_ready"
    assert f"{second.id} waits for {first.id} (failed)" in run.words
    assert f"`ralph task set {first.id} pending`" in run.words


def test_the_archived_scratchpad_is_named(shop: Workshop) -> None:
    scratchpad_file.write_scratchpad(shop.root, "keep the API stable")
    run = shop.start(says_done(), PASSES)
    [line] = [line for line in shop.said if "scratchpad was archived" in line]
    assert str(paths.run_log(shop.root, run.id)) in line


def test_the_end_of_a_run_says_what_waits_for_review_and_how_to_merge(shop: Workshop) -> None:
    name = task.add(shop.root, "till", in_worktree=True).task.id
    learned = (
        "<journal>\nLearnings:\n- Gotcha: empty the cache after a change of policy.yaml\n</journal>"
    )
    shop.start(says_done(learned), PASSES, request=LoopRequest(task=name, criteria=("none",)))
    waiting = len(inbox.items(shop.root))
    assert waiting == 1
    assert shop.said[-2:] == [
        f"  `ralph task merge {name}` merges ralph/{name}",
        "  1 item waits for review: `ralph review`",
    ]


@pytest.mark.parametrize(
    ("sigil", "why"),
    [
        ('<knowledge title="Ports">The API listens on 7443.</knowledge>', "tag"),
        ('<knowledge tags="api">The API listens on 7443.</knowledge>', "title"),
        ('<knowledge tags="api" title="Ports"> </knowledge>', "empty"),
    ],
    ids=["no tags", "no title", "no text"],
)
def test_refused_knowledge_is_told_in_the_journal_and_to_the_next_iteration(
    shop: Workshop, sigil: str, why: str
) -> None:
    run = shop.start(lambda _: Reply(f"{sigil}\n<journal>half</journal>"), says_done(), PASSES)
    first = shop.journal(run)[0].notes
    [line] = [line for line in first.splitlines() if line.startswith("Knowledge was not stored")]
    assert why in line
    assert line in shop.prompt(run, 2)


def test_refused_calls_are_printed(shop: Workshop) -> None:
    shop.start(lambda _: Reply("hm", refused=("Bash python3 -m unittest",)), says_done(), PASSES)
    assert "  refused: Bash python3 -m unittest" in shop.said


def test_the_agent_may_run_the_criteria_and_ralph_and_knows_the_model(shop: Workshop) -> None:
    shop.set(model="large")
    request = LoopRequest(goal=GOAL, criteria=("custom:test -f ok",))
    shop.start(Step(say="there", write={"ok": ""}), PASSES, request=request)
    ask = shop.agent.asks[0]
    assert ask.allowed[:2] == ("test -f ok", "ralph")
    assert ask.environment["RALPH_MODEL"] == "large"


def test_the_prompt_says_that_verification_follows(shop: Workshop) -> None:
    run = shop.start(says_done(), PASSES)
    assert "then a second, read-only session verifies the work" in shop.prompt(run, 1)
    again = shop.start(says_done(), goal="another", enforces_read_only=False)
    assert "verifies" not in shop.prompt(again, 1)


def test_a_failure_is_said_once_in_a_prompt(shop: Workshop) -> None:
    def fails(_: Ask) -> Reply:
        return Reply(
            "<journal>tried the lexer</journal>", StopReason.CRASHED, error="cannot parse line 7"
        )

    run = shop.start(fails, Step(say="hm"), says_done(), PASSES)
    second, third = shop.prompt(run, 2), shop.prompt(run, 3)
    assert second.count("cannot parse line 7") == third.count("cannot parse line 7") == 1
    assert "This is retry 1 of 3. The attempt before it failed like this" in third
    assert second.count("tried the lexer") == 1


@pytest.mark.parametrize("budget", [200, 500, 2_000, 0])
def test_the_budget_holds_for_guardrails_and_memories_together(shop: Workshop, budget: int) -> None:
    for number in range(60):
        memory.add(
            shop.root,
            f"Rule number {number}: never call the payment service twice.",
            in_="guardrails",
        )
    config = replace(
        Config(), memories=replace(Config().memories, budget=budget, skill_injection=False)
    )
    [work] = [task.add(shop.root, "payments").task]
    prompt = loop_prompt.build(
        shop.root, config, Run("run-1", "payments"), work, checks=[], max_iterations=10
    )
    section = prompt.partition("## Guardrails\n")[2].partition("\n## ")[0]
    assert not budget or estimate(section) <= budget
    assert section.count("Rule number") == (60 if not budget else section.count("Rule number"))
    if budget:
        assert "`ralph memory list --in guardrails`" in section
        assert section.count("Rule number") >= budget // 60, "memories leave their half"


def test_knowledge_about_the_files_of_an_earlier_run_is_in_the_first_prompt(
    shop: Workshop,
) -> None:
    pages.add(shop.root, "Tokens", "The lexer keeps comments.", ["parser"])
    shop.start(says_done(write={"parser_util.py": "x = 1\n"}), PASSES)
    shop.start(says_done(), PASSES, goal="write the manual")
    assert "The lexer keeps comments." in shop.agent.asks[0].prompt


def test_the_loop_names_a_body_that_knowledge_replaced(shop: Workshop) -> None:
    pages.add(shop.root, "Cache", "keep the lexer warm", ["perf"])
    shop.start(
        says_done('<knowledge tags="perf" title="Cache">keep the parser warm</knowledge>'), PASSES
    )
    [line] = [line for line in shop.said if line.startswith("knowledge updated")]
    name = line.rpartition(" ")[2].rstrip(")")
    assert reading.get_entry(shop.root, name).record.text == "keep the lexer warm"


def test_knowledge_has_the_name_of_the_feature(shop: Workshop) -> None:
    made = feature.add(shop.root, "Perf Optimization").feature
    work = task.add(shop.root, "faster", feature_id=made.id).task
    learned = '<knowledge tags="perf" title="Cache">keep the parser warm</knowledge>'
    shop.start(says_done(learned), PASSES, request=LoopRequest(task=work.id, criteria=("none",)))
    assert [entry.record.extra["feature"] for entry in pages.entries(shop.root)] == [
        "Perf Optimization"
    ]


@pytest.mark.parametrize(
    "text",
    ["Gotcha: keep the parser warm.", "Keep the parser warm.\n\n" + "It reads `cart.py`. " * 60],
    ids=["labelled", "long"],
)
def test_knowledge_of_a_run_does_not_also_wait_for_review(shop: Workshop, text: str) -> None:
    shop.start(says_done(f'<knowledge tags="perf" title="Cache warmth">{text}</knowledge>'), PASSES)
    assert [entry.record.title for entry in pages.entries(shop.root)] == ["Cache warmth"]
    assert inbox.items(shop.root) == []
    later = '<knowledge tags="perf" title="Cache warmth">Nothing is warm.</knowledge>'
    shop.start(says_done(later), PASSES, goal="warm it up")
    assert inbox.items(shop.root) == []
