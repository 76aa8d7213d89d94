"""Iterations, prompts and what differs: of runs that a scripted agent played, and of sessions."""

from pathlib import Path

import pytest
from tests.support.looping import PASSES, Workshop, project, says_done

from ralph.core import paths
from ralph.formats.log import parse_log
from ralph.loop import run_prompts
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.testing import Step
from ralph.web import run_page as compare


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return project(tmp_path / "shop")


def run_of(shop: Workshop, goal: str, *words: str) -> Run:
    """A run that says these words, one an iteration, and is done with the last."""
    steps = [Step(say=f"<journal>{each}</journal>", cost=0.1) for each in words[:-1]]
    last = says_done(f"<journal>{words[-1]}</journal>", {"cart.py": f"# {goal}\n"})
    return shop.start(*steps, last, PASSES, goal=goal)


class TestIterations:
    def test_checks_are_kept_with_what_they_printed(self, shop: Workshop) -> None:
        request = LoopRequest(goal="make it pass", criteria=("custom: cat missing.txt",))
        wrong = says_done("", {"cart.py": "# wrong\n"})
        right = says_done("", {"missing.txt": "here\n"})
        ended = shop.start(wrong, right, PASSES, request=request)
        first, second = compare.run_page(shop.root, ended.id)[1]
        assert [check["passed"] for check in first["checks"]] == [False]
        assert "missing.txt" in first["checks"][0]["output"]
        assert [(check["name"], check["passed"]) for check in second["checks"]] == [
            ("custom: cat missing.txt", True), ("verification", True),
        ]  # fmt: skip

    def test_a_failed_verification_is_a_failed_check(self, shop: Workshop) -> None:
        doubt = Step(
            read_only=True, iteration=1, say="<verify-fail>the tests were weakened</verify-fail>"
        )
        ended = shop.start(
            says_done(),
            doubt,
            goal="do it",
            request=LoopRequest(goal="do it", criteria=("none",), max_iterations=1),
        )
        checks = compare.run_page(shop.root, ended.id)[1][0]["checks"]
        assert checks == [
            {"name": "verification", "passed": False, "output": "the tests were weakened"}
        ]

    def test_no_secret_of_a_check_is_kept(self, shop: Workshop) -> None:
        token = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
        shop.put("leak.sh", f"echo GITHUB_TOKEN={token}; exit 1\n")
        request = LoopRequest(goal="leak", criteria=("custom: sh leak.sh",), max_iterations=1)
        ended = shop.start(says_done(), request=request)
        assert compare.run_page(shop.root, ended.id)[1][0]["checks"][0]["passed"] is False
        assert token not in shop.log(ended)

    def test_checks_of_another_shape_are_passed_over(self, shop: Workshop) -> None:
        ended = run_of(shop, "odd", "one")
        path = paths.log_folder(shop.root) / "runs" / f"{ended.id}.jsonl"
        text = path.read_text(encoding="utf-8")
        path.write_text(
            text.replace('"checks":[', '"checks":[7,{"passed":true},'), encoding="utf-8", newline=""
        )
        assert [
            check["name"] for check in compare.run_page(shop.root, ended.id)[1][0]["checks"]
        ] == ["verification"]
        assert parse_log(text).lines


class TestPrompts:
    def test_what_is_the_same_has_no_difference(self, shop: Workshop) -> None:
        ended = run_of(shop, "same", "a", "b")
        run_prompts.save(shop.root, ended.id, 2, run_prompts.read(shop.root, ended.id, 1))
        assert compare.prompt_page(shop.root, ended.id, 2)["diff"] == ""

    def test_only_the_first_lines_of_a_long_prompt_are_compared(self, shop: Workshop) -> None:
        ended = run_of(shop, "long", "a", "b")
        lines = "".join(f"line {place}\n" for place in range(compare.MAX_DIFF_LINES + 10))
        run_prompts.save(shop.root, ended.id, 1, lines)
        run_prompts.save(shop.root, ended.id, 2, lines + "the end\n")
        found = compare.prompt_page(shop.root, ended.id, 2)
        assert found["diff"] == ""
        assert found["note"] == "only the first 4,000 lines are compared"
