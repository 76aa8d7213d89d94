"""Runs over HTTP: lists, iterations with checks and prompts, two side by side, and one while it is under way."""

from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site, tags
from tests.support.page_texts import TAGS
from tests.support.sample_live import ENDED, Live


class TestListing:
    def test_the_newest_come_first_with_how_they_ended(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.get("/api/runs")
        assert [row["id"] for row in told["items"]] == here.runs[::-1]
        assert told["total"] == 2
        first = told["items"][1]
        members = (
            "id task goal status started_at ended_at iterations agent tokens cost_usd alive why"
        )
        assert set(members.split()) <= set(first)
        assert (first["status"], first["iterations"], first["cost_usd"]) == (
            "success",
            3,
            pytest.approx(0.2),
        )
        assert first["tokens"] > 1000
        assert shop.get("/api/runs", limit=1, offset=1)["items"] == [first]

    def test_a_project_without_runs_lists_none(self, tmp_path: Path) -> None:
        assert Site(tmp_path).get("/api/runs") == {"items": [], "total": 0}


class TestOne:
    def test_iterations_have_outcome_checks_files_and_journal(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.get(f"/api/runs/{here.runs[0]}")
        assert [each["outcome"] for each in told["iterations"]] == ["blocked", "retried", "done"]
        assert [each["number"] for each in told["iterations"]] == [1, 2, 3]
        last = told["iterations"][-1]
        assert last["files"] == ["src/cart/total.ts"]
        assert [(check["name"].partition(":")[0], check["passed"]) for check in last["checks"]] == [
            ("custom", True), ("verification", True),
        ]  # fmt: skip
        failed = told["iterations"][1]["checks"][0]
        assert (failed["passed"], failed["output"]) == (False, "ended with 1 instead of 0")
        assert last["summary"] == "Math.round at the end of total()."
        assert tags(last["journal_html"]) <= TAGS
        assert all(each["has_prompt"] and each["tokens"] for each in told["iterations"])

    def test_a_prompt_is_told_with_what_changed(self, shop: Site, here: sample.Sample) -> None:
        path = f"/api/runs/{here.runs[0]}/prompts"
        first = shop.get(f"{path}/1")
        assert (first["diff"], first["previous"]) == ("", None)
        assert first["text"].startswith("# Ralph loop: iteration 1")
        second = shop.get(f"{path}/2")
        assert "-# Ralph loop: iteration 1 of" in second["diff"]
        assert "+# Ralph loop: iteration 2 of" in second["diff"]
        assert second["tokens"] > 0

    @pytest.mark.parametrize("number", ["0", "99", "x", "-1", "..%2f1", "9" * 30])
    def test_a_prompt_that_is_not_there_is_a_sentence(
        self, shop: Site, here: sample.Sample, number: str
    ) -> None:
        assert shop.refusal(f"/api/runs/{here.runs[0]}/prompts/{number}")[0] == 404

    def test_an_unknown_run_is_a_sentence(self, shop: Site) -> None:
        assert shop.refusal("/api/runs/run-ffffffff") == (404, "Run not found: run-ffffffff")


class TestUnderWay:
    def test_a_run_is_seen_from_its_beginning_to_its_end(self, tmp_path: Path) -> None:
        here = sample.copied(tmp_path / "shop")
        site = Site(here.root)
        live = Live(here.root).start()
        try:
            told = site.get(f"/api/runs/{live.id}")
            assert [(each["number"], each["outcome"]) for each in told["iterations"]] == [
                (1, "running")
            ]
            assert site.get(f"/api/runs/{live.id}/prompts/1")["text"]
            live.advance("Found the unit price.", write={"src/price.ts": "// price\n"})
            told = site.get(f"/api/runs/{live.id}")
            assert [each["outcome"] for each in told["iterations"]] == ["blocked", "running"]
            assert told["run"]["alive"]
            live.advance("It is shown.", done=True)
            assert live.state == ENDED
        finally:
            live.stop()
        told = site.get(f"/api/runs/{live.id}")
        assert (told["run"]["status"], told["run"]["alive"]) == ("success", False)
        assert [each["outcome"] for each in told["iterations"]] == ["blocked", "done"]
