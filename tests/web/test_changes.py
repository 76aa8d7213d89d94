"""Changes over HTTP: what is shown is what is written, and it can be taken back."""

import re
from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site
from tests.support.page_texts import ORDER
from tests.support.sample import Sample
from tests.support.site_changes import MEMORIES, clean, everything, rows_in, stamps

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.memory import memory
from ralph.memory.author import BY_AGENT


@pytest.fixture
def shop(tmp_path: Path) -> Sample:
    return sample.copied(tmp_path / "shop")


@pytest.fixture
def window(shop: Sample) -> Site:
    return Site(shop.root)


def actions(window: Site) -> list[dict[str, object]]:
    memory, know = clean(window), "know-how-checkout-works"
    proposed = window.get("/api/insights")["items"][0]["id"]
    return [
        {"action": "edit", "id": memory, "text": "Said in other words"},
        {"action": "retag", "id": memory, "tags": ["one", "two"]},
        {"action": "retag", "id": memory, "tags": []},
        {"action": "archive", "id": memory},
        {"action": "delete", "id": memory},
        {"action": "promote", "id": memory, "to": "agents", "text": "The ports are in ports.yml."},
        {
            "action": "promote",
            "id": memory,
            "to": "patterns",
            "text": "The ports are in ports.yml.",
        },
        {"action": "edit", "id": know, "text": "A new body", "title": "A new title"},
        {"action": "retag", "id": know, "tags": ["one"]},
        {"action": "archive", "id": know},
        {"action": "delete", "id": know},
        {
            "action": "accept"
            if "accept" in window.get(f"/api/records/{proposed}")["actions"]
            else "reject",
            "id": proposed,
        },
        {"action": "promote", "id": proposed, "to": "memory", "text": "What was learned."},
        {"action": "archive", "id": rows_in(window, ".ralph/guardrails.md")[0]["id"]},
        {"action": "delete", "id": rows_in(window, ".ralph/guardrails.md")[0]["id"]},
        {"action": "add", "text": "A new thing", "tags": ["new"], "type": "fix"},
        {"action": "add", "family": "guardrail", "text": "Never do that"},
        {
            "action": "add",
            "family": "knowledge",
            "title": "Something new",
            "text": "All of it",
            "tags": ["new"],
        },
    ]


def test_every_action_can_be_planned_applied_and_undone(window: Site, shop: Sample) -> None:
    for body in actions(window):
        before = everything(shop.root)
        plan = window.post("/api/changes/plan", **body)
        assert everything(shop.root) == before, f"{body}: the plan wrote something"
        assert plan["files"], body
        assert all(each["diff"].startswith("--- ") for each in plan["files"])
        done = window.post("/api/changes/apply", **body, stamps=stamps(plan))
        after = everything(shop.root)
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        planned = {each["name"] for each in plan["files"]}
        assert changed == planned - {str(paths.accepted_texts())}, body
        undone = window.post("/api/changes/undo", undo=done["undo"])
        assert everything(shop.root) == before, body
        assert {each["name"] for each in undone["files"]} == planned


@pytest.mark.parametrize("action", ["accept", "reject"])
def test_a_held_memory_is_decided_and_the_decision_undone(
    window: Site, shop: Sample, action: str
) -> None:
    with pytest.raises(Refused):
        memory.add(shop.root, ORDER, context=BY_AGENT)
    before = everything(shop.root)
    body = {"action": action, "id": window.get("/api/review")["items"][0]["id"]}
    plan = window.post("/api/changes/plan", **body)
    assert everything(shop.root) == before
    written = {"log/held.jsonl"}
    if action == "accept":
        written |= {MEMORIES, str(paths.accepted_texts())}
    assert {each["name"] for each in plan["files"]} == written
    done = window.post("/api/changes/apply", **body, stamps=stamps(plan))
    assert "held" not in window.get("/api/review")["counts"]
    texts = [row["text"] for row in rows_in(window, MEMORIES)]
    assert (ORDER in texts) is (action == "accept")
    window.post("/api/changes/undo", undo=done["undo"])
    assert window.get("/api/review")["counts"]["held"] == 1
    assert (shop.root / MEMORIES).read_bytes() == before[MEMORIES]


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (ORDER, ""),
        ("Use pnpm.", " <!-- ralph: at=2026-11-06T10:00:00Z by=agent unconfirmed=web -->"),
    ],
    ids=["an order", "an unconfirmed memory"],
)
def test_what_waits_for_a_person_is_accepted_on_its_page(
    window: Site, shop: Sample, text: str, mark: str
) -> None:
    file = shop.root / MEMORIES
    entry = f"\n## Patterns\n\n### mem-1794000000-feed\n> {text}\n<!-- tags: x | created: 2026-11-06 -->{mark}\n"
    file.write_text(file.read_text(encoding="utf-8") + entry, encoding="utf-8")
    page = window.get("/api/records/mem-1794000000-feed")
    assert (page["held"], page["actions"][0]) == (True, "accept")
    body = {"action": "accept", "id": "mem-1794000000-feed"}
    window.post(
        "/api/changes/apply", **body, stamps=stamps(window.post("/api/changes/plan", **body))
    )
    assert window.get("/api/records/mem-1794000000-feed")["held"] is False
    assert window.posted("/api/changes/plan", **body)[0] == 400


def test_the_plan_is_what_is_written(window: Site, shop: Sample) -> None:
    body = {"action": "edit", "id": clean(window), "text": "Said in other words"}
    plan = window.post("/api/changes/plan", **body)
    before = (shop.root / MEMORIES).read_text(encoding="utf-8")
    window.post("/api/changes/apply", **body, stamps=stamps(plan))
    from ralph.learning.promotion import unified_diff

    after = unified_diff(MEMORIES, before, (shop.root / MEMORIES).read_text(encoding="utf-8"))
    planned, written = (
        re.sub(r"updated=[^ ]+", "", diff) for diff in (plan["files"][0]["diff"], after)
    )
    assert planned == written


def test_a_file_that_changed_since_the_plan_is_not_written(window: Site, shop: Sample) -> None:
    body = {"action": "edit", "id": clean(window), "text": "Said in other words"}
    plan = window.post("/api/changes/plan", **body)
    file = shop.root / MEMORIES
    file.write_text(file.read_text(encoding="utf-8") + "\nSomebody else.\n", encoding="utf-8")
    before = everything(shop.root)
    status, said = window.posted("/api/changes/apply", **body, stamps=stamps(plan))
    assert status == 409
    assert "changed since" in said["error"]["message"]
    assert everything(shop.root) == before


@pytest.mark.parametrize(
    "given", [{}, {MEMORIES: ""}, {MEMORIES: "0" * 64}, {"../../etc/passwd": "x"}]
)
def test_apply_needs_the_stamps_of_the_plan(
    window: Site, shop: Sample, given: dict[str, str]
) -> None:
    before = everything(shop.root)
    status, _ = window.posted(
        "/api/changes/apply", action="archive", id=clean(window), stamps=given
    )
    assert status == 409
    assert everything(shop.root) == before


def test_undo_is_refused_when_the_file_changed_since(window: Site, shop: Sample) -> None:
    body = {"action": "archive", "id": clean(window)}
    done = window.post(
        "/api/changes/apply", **body, stamps=stamps(window.post("/api/changes/plan", **body))
    )
    file = shop.root / MEMORIES
    file.write_text(
        file.read_text(encoding="utf-8").replace("status=retired", "status=mine"), encoding="utf-8"
    )
    before = everything(shop.root)
    assert window.posted("/api/changes/undo", undo=done["undo"])[0] == 409
    assert everything(shop.root) == before


def test_a_change_is_undone_once(window: Site) -> None:
    body = {"action": "archive", "id": clean(window)}
    done = window.post(
        "/api/changes/apply", **body, stamps=stamps(window.post("/api/changes/plan", **body))
    )
    window.post("/api/changes/undo", undo=done["undo"])
    assert window.posted("/api/changes/undo", undo=done["undo"])[0] == 404


def test_an_archived_memory_is_kept_and_not_listed(window: Site) -> None:
    name = clean(window)
    words = window.get(f"/api/records/{name}")["record"]["text"]
    body = {"action": "archive", "id": name}
    window.post(
        "/api/changes/apply", **body, stamps=stamps(window.post("/api/changes/plan", **body))
    )
    assert name not in [row["id"] for row in window.get("/api/records", q=words)["items"]]
    assert name in [row["id"] for row in window.get("/api/records", status="archived")["items"]]
    page = window.get(f"/api/records/{name}")
    assert (page["record"]["status"], page["actions"]) == ("archived", ["unarchive", "delete"])
    body["action"] = "unarchive"
    window.post(
        "/api/changes/apply", **body, stamps=stamps(window.post("/api/changes/plan", **body))
    )
    assert window.get(f"/api/records/{name}")["record"]["status"] == "active"


def test_a_secret_is_refused_with_the_message_of_the_command(window: Site, shop: Sample) -> None:
    before = everything(shop.root)
    for body in ({"action": "add"}, {"action": "edit", "id": clean(window)}):
        status, said = window.posted(
            "/api/changes/plan",
            **body,
            text="the token is ghp_q7Rk2mXc9Lw4Tz8VbN3eY6uHs1Jd5fPa0GiQ",
        )
        assert status == 400
        assert "looks like a secret" in said["error"]["message"]
    assert everything(shop.root) == before


def test_private_parts_are_left_out_with_a_warning(window: Site) -> None:
    plan = window.post(
        "/api/changes/plan", action="add", text="Known. <private>hidden</private>", tags=["a"]
    )
    assert "hidden" not in plan["files"][0]["diff"]
    assert any("private" in each for each in plan["warnings"])


def test_a_pattern_of_the_project_counts_also_when_it_is_new(window: Site, shop: Sample) -> None:
    (shop.root / "ralph.local.yml").write_text(
        "privacy:\n  patterns: ['zz-[0-9]{4}']\n", encoding="utf-8"
    )
    status, said = window.posted("/api/changes/plan", action="add", text="it is zz-1234")
    assert status == 400
    assert "secret" in said["error"]["message"]


def test_what_is_there_already_changes_nothing(window: Site) -> None:
    body = {"action": "add", "text": window.get(f"/api/records/{clean(window)}")["record"]["text"]}
    plan = window.post("/api/changes/plan", **body)
    assert plan["files"] == []
    assert plan["summary"].startswith("Nothing would change. Already there:")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "fly"}, 400), ({}, 400), ({"action": "edit", "id": "mem-1-none", "text": "x"}, 404),
        ({"action": "retag", "id": "mem-1-none", "tags": "a"}, 400), ({"action": 1}, 400),
        ({"action": "add", "text": ""}, 400),
        ({"action": "add", "text": "x", "tags": [1]}, 400), ({"action": "add", "text": "x", "type": "wish"}, 400),
        ({"action": "add", "text": "x", "family": "poem"}, 400), ({"action": "add", "text": "x", "force": "yes"}, 400),
        ({"action": "edit", "id": "know-how-checkout-works", "tags": []}, 400),
    ],
)  # fmt: skip
def test_wrong_requests_are_errors(window: Site, body: dict[str, object], status: int) -> None:
    answer = window.posted("/api/changes/plan", **body)
    assert answer[0] == status
    assert answer[1]["error"]["message"]


def test_an_impossible_action_names_the_possible_ones(window: Site) -> None:
    name = window.get("/api/records", family="observation", limit=1)["items"][0]["id"]
    status, said = window.posted("/api/changes/plan", action="edit", id=name, text="x")
    assert status == 400
    assert said["error"]["hint"] == "possible actions: promote"


def test_malformed_stamps_are_errors(window: Site) -> None:
    several: list[object] = [[], "x", {"a": 1}]
    for wrong in several:
        assert (
            window.posted("/api/changes/apply", action="archive", id=clean(window), stamps=wrong)[0]
            == 400
        )
