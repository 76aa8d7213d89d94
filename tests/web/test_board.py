"""The dashboard and tasks over HTTP: shapes, filters, empty projects, and no hostile text comes through."""

from collections import Counter
from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site, tags
from tests.support.page_texts import ORDER, TAGS
from tests.support.sample_live import Live

from ralph.core.errors import Refused
from ralph.install import project
from ralph.memory import memory
from ralph.memory.author import BY_AGENT
from ralph.recall import usage
from ralph.tasks import task


class TestDashboard:
    def test_it_has_the_week_tasks_runs_sessions_and_tokens(self, shop: Site) -> None:
        told = shop.get("/api/dashboard")
        assert sorted(told) == [
            "doctor",
            "learned",
            "learning",
            "loop",
            "runs",
            "sessions",
            "setup",
            "tasks",
            "tokens",
            "week",
        ]
        assert told["tasks"]["by_state"] == {
            "pending": 2,
            "in_progress": 1,
            "blocked": 1,
            "done": 1,
            "failed": 2,
        }
        assert len(told["tasks"]["items"]) == 7
        assert [run["status"] for run in told["runs"]] == ["failed", "success"]
        assert (told["sessions"]["total"], told["sessions"]["empty"]) == (9, 0)
        newest = [row["created_at"] for row in told["learned"]["items"]]
        assert newest == sorted(newest, reverse=True)
        assert told["learned"]["total"] >= told["learning"]["kept"] > 0
        days = told["tokens"]["days"]
        assert days == sorted(days)
        assert (
            len(days)
            == len(told["tokens"]["given"])
            == len(told["tokens"]["used"])
            == len(told["tokens"]["rate"])
        )
        assert sum(told["tokens"]["used"]) > 0

    def test_the_week_counts_as_the_command_does(self, shop: Site, here: sample.Sample) -> None:
        week = shop.get("/api/dashboard")["week"]
        assert week == usage.usage_stats(here.root)["week"]
        assert week["given"] > week["referenced"] > 0

    def test_the_success_of_loops_is_what_the_command_says(
        self, shop: Site, here: sample.Sample
    ) -> None:
        loop = shop.get("/api/dashboard")["loop"]
        assert loop == usage.loop_usage(here.root)
        assert (loop["runs"], loop["succeeded"], loop["success_rate"]) == (2, 1, 0.5)

    def test_the_inbox_lists_held_memories_before_insights_and_stale_citations(
        self, tmp_path: Path
    ) -> None:
        here = sample.copied(tmp_path / "shop")
        with pytest.raises(Refused):
            memory.add(here.root, ORDER, context=BY_AGENT)
        window = Site(here.root)
        told = window.get("/api/review")
        every = [item["kind"] for item in told["items"]]
        kinds = list(dict.fromkeys(every))
        assert kinds == ["held", "proposal", "task-proposal", "citation"]
        assert told["counts"] == Counter(every)
        assert (told["items"][0]["text"], told["items"][-1]["id"]) == (ORDER, here.memories["soap"])
        assert [item["kind"] for item in window.get("/api/review", kind="citation")["items"]] == [
            "citation"
        ]

    def test_secrets_are_counted_and_hook_latency_is_apart(
        self, shop: Site, tmp_path: Path
    ) -> None:
        assert shop.get("/api/secrets") == {"secrets": 1}
        events = {event["event"]: event for event in shop.get("/api/hooks")["events"]}
        assert events["UserPromptSubmit"]["count"] > 0
        assert 0 < events["UserPromptSubmit"]["p50_ms"] <= events["UserPromptSubmit"]["p95_ms"]
        assert Site(tmp_path).get("/api/secrets") == {"secrets": 0}
        assert Site(tmp_path).get("/api/hooks") == {"events": [], "note": ""}

    def test_a_task_row_has_what_the_list_shows(self, shop: Site) -> None:
        rows = {row["title"]: row for row in shop.get("/api/dashboard")["tasks"]["items"]}
        row = rows["Mail the invoice"]
        members = "id title status priority created_at updated_at parent feature branch worktree run attempts blocked_by"
        assert set(members.split()) | {"ready"} <= set(row)
        assert row["blocked_by"] == [rows["Number invoices without gaps"]["id"]]
        assert row["ready"] is False
        assert rows["Checkout in one page"]["branch"] == "ralph/one-page-checkout"

    def test_a_run_under_way_comes_first_and_is_live(self, tmp_path: Path) -> None:
        here = sample.copied(tmp_path / "shop")
        live = Live(here.root).start()
        try:
            first = Site(here.root).get("/api/dashboard")["runs"][0]
        finally:
            live.stop()
        assert (first["id"], first["alive"], first["status"]) == (live.id, True, "running")
        assert first["why"] == "waiting for the agent"
        assert Site(here.root).get("/api/dashboard")["runs"][0]["alive"] is False

    def test_a_folder_where_nothing_is_has_an_empty_one(self, tmp_path: Path) -> None:
        told = Site(tmp_path).get("/api/dashboard")
        assert (
            told["tasks"]["items"]
            == told["runs"]
            == told["sessions"]["items"]
            == told["learned"]["items"]
            == told["tokens"]["days"]
            == []
        )
        assert told["week"]["given"] == 0

    def test_a_project_after_init_alone_has_an_empty_one(self, tmp_path: Path) -> None:
        project.init(tmp_path)
        told = Site(tmp_path).get("/api/dashboard")
        assert told["tasks"]["items"] == told["runs"] == told["sessions"]["items"] == []


class TestTasks:
    def test_they_are_filtered_by_state_and_words(self, shop: Site) -> None:
        told = shop.get("/api/tasks", state=["failed", "done"])
        assert {row["status"] for row in told["items"]} == {"failed", "done"}
        assert told["total"] == 3
        assert sum(told["by_state"].values()) == 7  # counts are those of every state
        found = shop.get("/api/tasks", q="이름으로")
        assert [row["title"] for row in found["items"]] == ["Search orders by name"]
        assert shop.get("/api/tasks", q="nothing like it")["items"] == []

    def test_they_are_sorted_as_wanted(self, shop: Site) -> None:
        by_title = [row["title"] for row in shop.get("/api/tasks", sort="title")["items"]]
        assert by_title == sorted(by_title, key=str.casefold)
        newest = [row["created_at"] for row in shop.get("/api/tasks", sort="newest")["items"]]
        assert newest == sorted(newest, reverse=True)
        first = [row["priority"] for row in shop.get("/api/tasks")["items"]]
        assert first == [1, 1, 2, 2, 3, 4, 0]
        assert shop.get("/api/tasks", sort="state")["items"][0]["status"] == "in_progress"
        assert shop.refusal("/api/tasks", sort="colour")[0] == 400

    def test_pages_are_cut_out_of_many(self, tmp_path: Path) -> None:
        for number in range(30):
            task.add(tmp_path, f"task {number:02}")
        site = Site(tmp_path)
        told = site.get("/api/tasks", sort="title", limit=10, offset=25)
        assert [row["title"] for row in told["items"]] == [
            f"task {number}" for number in range(25, 30)
        ]
        assert told["total"] == 30

    def test_a_task_page_has_stories_progress_log_sessions_runs_and_insights(
        self, shop: Site
    ) -> None:
        names = sample.shared().tasks
        told = shop.get(f"/api/tasks/{names['checkout']}")
        assert [story["passes"] for story in told["stories"]] == [True, False, False]
        assert {row["mode"] for row in told["sessions"]} == {"plan", "agent"}
        assert {child["id"] for child in told["children"]} == {names["invoice"], names["mail"]}
        told = shop.get(f"/api/tasks/{names['rounding']}")
        assert [step["to"] for step in told["log"]][-1] == "done"
        assert told["log"][0]["to"] == "added"
        assert [run["status"] for run in told["runs"]] == ["success"]
        assert "rejected" in {each["status"] for each in told["insights"]}
        assert "<li>" in told["progress_html"]
        assert tags(told["progress_html"]) <= TAGS

    def test_insights_are_told_with_how_they_were_judged(self, shop: Site) -> None:
        told = shop.get(f"/api/tasks/{sample.shared().tasks['invoice']}")["insights"]
        assert {each["status"] for each in told} == {"accepted", "proposed"}
        listed = shop.get("/api/insights", task=sample.shared().tasks["invoice"])["items"]
        assert told == listed

    def test_a_failure_is_told_with_its_reason(self, shop: Site) -> None:
        told = shop.get(f"/api/tasks/{sample.shared().tasks['soap']}")
        assert "turned the SOAP endpoint off" in told["log"][-1]["note"]
        assert (told["log"][-1]["from"], told["log"][-1]["to"]) == ("pending", "failed")

    def test_an_unknown_one_is_a_sentence(self, shop: Site) -> None:
        assert shop.refusal("/api/tasks/t-nope") == (404, "Task not found: t-nope")
        assert shop.refusal("/api/tasks/..%2f..%2f")[0] == 404
