"""The context preview over HTTP: what would be handed over, what not and why; and that looking leaves no trace."""

from pathlib import Path

from tests.support import sample
from tests.support.asking import Site

from ralph.core import paths

HANG = "why do the tests hang when redis is down?"


def traces(root: Path) -> dict[str, bytes]:
    """Everything that says what was handed over or seen, and every log."""
    folders = (paths.log_folder(root), paths.cache_folder(root) / "injected")
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


class TestPrompt:
    def test_what_fits_is_handed_over_in_order_with_reasons(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.post("/api/context", prompt=HANG, event="UserPromptSubmit")
        assert sorted(told) == [
            "budget",
            "cap",
            "items",
            "left_out",
            "notes",
            "text",
            "tokens",
            "used",
        ]
        assert [item["order"] for item in told["items"]] == list(range(1, len(told["items"]) + 1))
        assert {item["id"] for item in told["items"][:2]} == {
            here.memories["redis"],
            here.memories["duplicate"],
        }
        assert all(item["why"] and item["tokens"] for item in told["items"])
        assert (
            told["used"] == sum(item["tokens"] for item in told["items"]) <= told["budget"] == 700
        )
        assert all(f"[{item['id']}]" in told["text"] for item in told["items"])

    def test_what_a_session_knows_already_is_left_out(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.post("/api/context", prompt=HANG, session=here.sessions[0])
        assert here.memories["redis"] not in {item["id"] for item in told["items"]}
        reasons = {each["id"]: each["why"] for each in told["left_out"]}
        assert "already knows" in reasons[here.memories["redis"]]

    def test_a_stale_record_says_so(self, shop: Site, here: sample.Sample) -> None:
        told = shop.post("/api/context", prompt="orders of the old supplier through soap")
        item = next(each for each in told["items"] if each["id"] == here.memories["soap"])
        assert "cited file is gone: src/legacy/soap.ts" in item["why"]

    def test_nothing_relates_to_nothing(self, shop: Site) -> None:
        for prompt in ("", "   ", "/clear", "quantum chromodynamics lattice"):
            told = shop.post("/api/context", prompt=prompt)
            assert (told["items"], told["text"], told["tokens"]) == ([], "", 0)


class TestOtherEvents:
    def test_a_sessions_start_has_guardrails_first(self, shop: Site, here: sample.Sample) -> None:
        told = shop.post("/api/context", prompt="", event="SessionStart")
        areas = [item["area"] for item in told["items"]]
        assert areas[:3] == ["guardrails"] * 3
        assert areas[-1] == "sessions"
        assert told["used"] <= told["budget"]
        assert here.memories["deploy"] not in {item["id"] for item in told["items"]}

    def test_words_that_mean_nothing_are_refused(self, shop: Site) -> None:
        assert shop.posted("/api/context", prompt="x", event="Stop")[0] == 400
        assert shop.posted("/api/context", prompt="x", task="t-nope")[0] == 404
        assert shop.posted("/api/context", prompt=7)[0] == 400


def test_looking_leaves_no_trace(shop: Site, here: sample.Sample) -> None:
    before = traces(here.root)
    for event in ("UserPromptSubmit", "SessionStart"):
        shop.post("/api/context", prompt=HANG, event=event)
        shop.post(
            "/api/context",
            prompt=HANG,
            event=event,
            session=here.sessions[0],
            task=here.tasks["search"],
        )
    assert traces(here.root) == before


def test_a_project_without_anything_hands_over_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.post("/api/context", prompt=HANG)["items"] == []
    assert site.post("/api/context", event="SessionStart")["items"] == []


def test_settings_that_hand_over_nothing_are_told(tmp_path: Path) -> None:
    (tmp_path / "ralph.yml").write_text("memories:\n  inject: none\n", encoding="utf-8", newline="")
    told = Site(tmp_path).post("/api/context", prompt=HANG)
    assert [note.partition(":")[0] for note in told["notes"]] == ["memories.inject is none"]
