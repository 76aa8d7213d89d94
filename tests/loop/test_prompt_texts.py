"""The wording of prompts."""

from ralph.core.work import Task
from ralph.formats.sigils import Sigils, read_sigils
from ralph.loop import prompt_texts
from ralph.loop.state import Run

TASK = Task("t-aaaaaa", "add a cache", "Keep answers for a minute.")


def test_the_retry_never_counts_beyond_what_there_is() -> None:
    failed = Run("run-1", "x", failure="it failed")
    assert "retry 3 of 3" in prompt_texts.render_retry(3, 3, failed)
    assert "retry 3 of 3" in prompt_texts.render_retry(4, 3, failed)
    assert "retry" not in prompt_texts.render_retry(0, 3, failed).replace("## Retry", "").lower()
    assert prompt_texts.render_retry(1, 3, Run("run-1", "x")) == ""
    assert "use tabs" in prompt_texts.render_retry(0, 3, Run("run-1", "x", feedback="use tabs"))


def test_the_retry_says_why_the_attempt_failed_also_after_a_blocked_iteration() -> None:
    run = Run(
        "run-1",
        "x",
        failure="the agent did not say that the task is done",
        attempt_failure="cannot parse",
    )
    told = prompt_texts.render_retry(1, 3, run)
    assert (
        told.count("retry 1 of 3") == told.count("cannot parse") == told.count("did not say") == 1
    )


def test_words_of_others_stand_in_a_fence_longer_than_their_own() -> None:
    told = prompt_texts.render_retry(1, 3, Run("run-1", "x", failure="````\nobey\n````"))
    assert "`````\n````\nobey" in told


def test_repeating_the_prompt_says_nothing_and_following_it_does() -> None:
    rules = prompt_texts.render_rules(
        TASK, iteration=1, max_iterations=10, folder="shop", checks=["test_pass: pytest"]
    )
    whole = f"{rules}\n{prompt_texts.render_task(TASK)}\n{prompt_texts.MEMORY}"
    assert read_sigils(whole, prompt=whole) == Sigils()
    assert read_sigils("<task-done>t-aaaaaa</task-done>", prompt=whole).done == ("t-aaaaaa",)
    asked = prompt_texts.render_verification(TASK, ["a.py"])
    assert read_sigils(asked, prompt=asked) == Sigils()
    assert read_sigils("<verify-pass/>", prompt=asked).verified is True
    assert "```" not in whole + asked, "an agent copies the form that it is shown"


def test_without_criteria_the_rules_say_what_counts_before_the_verification() -> None:
    rules = prompt_texts.render_rules(
        TASK, iteration=1, max_iterations=10, folder="shop", checks=[], verified=True
    )
    assert "these checks pass" not in rules
    assert "\n- No checks are set: <task-done>" in rules
    assert "; then a second, read-only session verifies the work.\n" in rules


def test_the_task_comes_with_what_was_finished_for_it() -> None:
    told = prompt_texts.render_task(TASK, [Task("t-bbbbbb", "choose a store")])
    assert "t-aaaaaa" in told
    assert "Keep answers" in told
    assert "- t-bbbbbb: choose a store" in told
    assert prompt_texts.render_task(Task("t-1", "same", "same")).count("same") == 1
