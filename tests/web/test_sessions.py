"""Sessions over HTTP: lists, chats with their messages, timelines in pages, and what was injected and used."""

import json
from pathlib import Path

from tests.support import sample
from tests.support.asking import Site, tags
from tests.support.page_texts import TAGS

from ralph.hooks.handler import run_event


def _record(here: sample.Sample, session: str, event: str, **members: object) -> None:
    """Let a hook record an event, as Claude Code reports it."""
    payload = {"session_id": session, "cwd": str(here.root), "hook_event_name": event, **members}
    env = {**here.env, "CLAUDE_PROJECT_DIR": str(here.root)}
    run_event("claude", event, json.dumps(payload).encode(), env)


class TestListing:
    def test_the_newest_come_first_with_what_was_asked(self, shop: Site) -> None:
        told = shop.get("/api/sessions")
        times = [row["started_at"] for row in told["items"]]
        assert times == sorted(times, reverse=True)
        assert told["total"] == len(times) == 9
        assert sorted(told["items"][0]) == [
            "activity",
            "agent",
            "client",
            "ended_at",
            "host",
            "id",
            "messages",
            "mode",
            "outcome",
            "started_at",
            "status",
            "task",
            "title",
            "tokens_given",
        ]
        assert any(row["title"].startswith("영수증 번호가") for row in told["items"])

    def test_pages_follow_each_other(self, shop: Site) -> None:
        whole = [row["id"] for row in shop.get("/api/sessions")["items"]]
        parts = [shop.get("/api/sessions", limit=4, offset=offset)["items"] for offset in (0, 4, 8)]
        assert [row["id"] for part in parts for row in part] == whole

    def test_they_are_found_by_words_and_by_task(self, shop: Site, here: sample.Sample) -> None:
        assert [row["id"] for row in shop.get("/api/sessions", q="legacy_id")["items"]] == [
            here.sessions[3], here.sessions[2],
        ]  # fmt: skip
        assert shop.get("/api/sessions", q="100%_")["items"] == []  # these signs mean themselves
        chats = shop.get("/api/sessions", task=here.tasks["checkout"])
        assert {row["id"] for row in chats["items"]} == {*here.chats.values()}
        assert chats["total"] == 2

    def test_only_a_chat_has_a_mode(self, shop: Site, here: sample.Sample) -> None:
        modes = {
            row["id"]: (row["mode"], row["status"]) for row in shop.get("/api/sessions")["items"]
        }
        assert modes[here.chats["plan"]] == ("plan", "open")
        assert modes[here.chats["agent"]] == ("agent", "open")
        assert modes[here.sessions[0]] == ("", "ended")

    def test_a_project_without_sessions_lists_none(self, tmp_path: Path) -> None:
        assert Site(tmp_path).get("/api/sessions") == {"items": [], "total": 0, "empty": 0}

    def test_a_session_has_its_outcome(self, shop: Site, here: sample.Sample) -> None:
        rows = {row["id"]: row for row in shop.get("/api/sessions")["items"]}
        outcome = rows[here.sessions[3]]["outcome"]
        assert outcome["text"].startswith("The pool has twenty connections")
        assert outcome["changed"] == ["src/db/connection.ts"]
        assert outcome["open"] == "It is not deployed yet."
        assert rows[here.sessions[3]]["client"] == "Claude Code"

    def test_sessions_without_content_are_folded(self, tmp_path: Path) -> None:
        here = sample.copied(tmp_path / "shop")
        opened = "0e551011-0000-4000-8000-0000000000a1"
        greeted = "0e551011-0000-4000-8000-0000000000a2"
        _record(here, opened, "SessionStart", source="startup")
        _record(here, greeted, "UserPromptSubmit", prompt="hi")
        _record(here, greeted, "Stop", last_assistant_message="Hello!")
        window = Site(here.root)
        listed = window.get("/api/sessions")
        assert (listed["total"], listed["empty"]) == (9, 2)
        names = {row["id"] for row in window.get("/api/sessions", empty=1)["items"]}
        assert {opened, greeted} <= names
        assert window.get("/api/sessions", q=greeted)["total"] == 1
        assert window.get("/api/dashboard")["sessions"]["empty"] == 2


class TestOne:
    def test_a_chat_has_its_messages_in_order(self, shop: Site, here: sample.Sample) -> None:
        told = shop.get(f"/api/sessions/{here.chats['agent']}")
        assert [turn["role"] for turn in told["turns"]] == [
            "user",
            "assistant",
            "user",
            "assistant",
        ]
        assert "Begin with the address form." in told["turns"][0]["html"]
        assert told["turns"][1]["tools"] == [
            {"name": "apply_patch", "input": "src/checkout.ts", "failed": False}
        ]
        assert told["session"]["task"] == here.tasks["checkout"]

    def test_a_session_of_hooks_has_a_timeline_and_no_turns(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.get(f"/api/sessions/{here.sessions[0]}")
        assert told["turns"] == []
        kinds = [row["type"] for row in told["timeline"]["items"]]
        assert kinds[0] == "note"
        assert "error" in kinds
        assert told["timeline"]["total"] == len(kinds) == told["session"]["activity"]
        assert [row["at"] for row in told["timeline"]["items"]] == sorted(
            row["at"] for row in told["timeline"]["items"]
        )

    def test_a_long_timeline_comes_in_pages(self, shop: Site, here: sample.Sample) -> None:
        path = f"/api/sessions/{here.sessions[3]}"
        whole = [row["id"] for row in shop.get(path)["timeline"]["items"]]
        parts = [
            shop.get(path, limit=10, offset=offset)["timeline"]["items"]
            for offset in (0, 10, 20, 30)
        ]
        assert [row["id"] for part in parts for row in part] == whole
        assert shop.get(path, offset=1000)["timeline"] == {
            "items": [],
            "total": len(whole),
            "before": [],
        }

    def test_what_was_injected_is_in_the_timeline_where_it_happened(
        self, shop: Site, here: sample.Sample
    ) -> None:
        path = f"/api/sessions/{here.sessions[3]}"
        told = shop.get(path)
        timeline = told["timeline"]
        assert {item["event"] for item in timeline["before"]} == {"SessionStart"}
        first = timeline["items"][0]
        assert first["title"] == "prompt"
        assert {item["event"] for item in first["given"]} == {"UserPromptSubmit"}
        placed = [
            *timeline["before"],
            *(item for row in timeline["items"] for item in row["given"]),
        ]
        assert placed == told["given"]
        parts = [shop.get(path, limit=1, offset=offset)["timeline"] for offset in range(3)]
        assert [part["items"][0]["given"] for part in parts] == [
            row["given"] for row in timeline["items"][:3]
        ]
        assert parts[1]["before"] == []

    def test_a_session_without_a_prompt_has_a_title(self, tmp_path: Path) -> None:
        here = sample.copied(tmp_path / "shop")
        name = "0e551011-0000-4000-8000-00000000000e"
        _record(
            here,
            name,
            "PostToolUse",
            tool_name="Read",
            tool_input={"file_path": "README.md"},
            tool_response={"content": "x"},
        )
        titles = {row["id"]: row["title"] for row in Site(here.root).get("/api/sessions")["items"]}
        assert titles[name] == "Session without a prompt"

    def test_what_was_injected_says_whether_it_was_used(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.get(f"/api/sessions/{here.sessions[0]}")
        by_id = {item["id"]: item for item in told["given"]}
        assert by_id[here.memories["redis"]]["used"] is True
        assert by_id[here.memories["main"]]["used"] is False
        next_one = shop.get(
            f"/api/sessions/{here.sessions[1]}"
        )  # the first is told all that matters at its start
        assert {item["event"] for item in next_one["given"]} == {
            "SessionStart",
            "UserPromptSubmit",
        }
        assert sum(item["tokens"] for item in told["given"]) == told["session"]["tokens_given"]
        assert all(item["title"] for item in told["given"])
        last = {
            item["id"]: item["title"]
            for item in shop.get(f"/api/sessions/{here.sessions[-1]}")["given"]
        }
        assert last[here.sessions[3]].startswith("Postgres is slow")  # as its own page is titled

    def test_what_somebody_said_is_only_text(self, shop: Site, here: sample.Sample) -> None:
        told = shop.get(f"/api/sessions/{here.sessions[-1]}")
        assert "&lt;script&gt;" in told["summary_html"]
        shown = "".join(turn["html"] for turn in told["turns"]) + told["summary_html"]
        assert tags(shown) <= TAGS

    def test_unknown_and_ambiguous_sessions_are_errors(
        self, shop: Site, here: sample.Sample
    ) -> None:
        assert shop.refusal("/api/sessions/nobody") == (404, "Session not found: nobody")
        assert shop.refusal(f"/api/sessions/{here.sessions[0][:8]}")[0] == 409
        assert shop.refusal("/api/sessions/..%2f..%2fetc%2fpasswd")[0] == 404
