"""`ralph team` as its users meet it: a few commands to set up, and one clear line for what is wrong."""

import os
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests.support.asking import Site
from tests.support.machines import Fleet, joined, session
from tests.support.runner import Project, executable

from ralph.core import paths
from ralph.core.settings import Config, Team
from ralph.mcp.server import build
from ralph.sharing import team
from ralph.storage.team_server import VERSION


def test_two_machines_share_by_commands(fleet: Fleet) -> None:
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    ann("memory", "add", "ECONNREFUSED: run docker compose up first", "-t", "fix")
    shown = ann("team", "sync", "--dry-run")
    assert "docker compose up first" in shown.out
    (row,) = ann("team", "sync", "--dry-run", "--format", "json").json
    assert row["source"] == ".agent/memories.md"
    assert row["text"] == "ECONNREFUSED: run docker compose up first"
    assert f"{row['source']} {row['id']} {row['text']}" in shown.out
    assert ben("team", "sync", "--pull-only").out.startswith("0 row(s)")  # a dry run sends nothing
    assert ann("team", "sync", "--push-only").out.startswith("1 row(s)")
    assert ann("team", "sync", "--dry-run", "--format", "json").json == []
    assert ben("search", "--team", "docker").code == 0
    assert ben("team", "sync", "--pull-only").out.startswith("1 row(s)")
    hit = ben("search", "--team", "docker compose", "--format", "json").json["hits"][0]
    assert (hit["member"], hit["text"][:12]) == (fleet.role("ann"), "ECONNREFUSED")
    assert "docker" in ben("search", "--team", "--full", "docker compose").out
    state = ben("team", "status", "--format", "json").json
    assert (state["pulled_rows"], state["machines"], state["server_rows"], state["may_write"]) == (
        1,
        1,
        1,
        True,
    )
    assert "on the server" in ben("team", "status").out
    short = f"mem-{hit['id'].rpartition('-')[2]}"
    assert "1 row(s)" in ben("team", "forget", short).out
    assert ben("search", "--team", "docker compose").out.startswith("Nothing found")
    ann("memory", "add", "Another one", "-t", "fix")
    assert ann("team", "sync", "--push-only").out.startswith(
        "1 row(s) of 1"
    )  # without the forgotten one
    assert ben("team", "leave", "--delete-mine").code == 0
    left = ben("team", "sync", "--push-only")
    assert (left.code, "ignored" in left.err) == (2, False)


def test_a_row_that_describes_a_session_has_no_text_in_a_dry_run(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    log = paths.log_folder(ann.root) / "sessions" / "s1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(session("s1", "Changed billing.py"), encoding="utf-8")
    rows = ann("team", "sync", "--dry-run", "--format", "json").json
    assert [row["text"] for row in rows] == ["", "summary: Changed billing.py"]
    assert " s1 (session)\n" in ann("team", "sync", "--dry-run").out


def test_mcp_and_pages_search_the_team(fleet: Fleet) -> None:
    ann, ben = joined(fleet, "ann"), joined(fleet, "ben")
    ann("memory", "add", "Invoices are rounded half to even", "-t", "decision")
    for each in (ann, ben):
        assert "pulled" in each("team", "sync").out

    async def ask() -> str:
        async with Client(build(ben.root)) as client:
            answer = await client.call_tool("search", {"query": "invoices rounded", "team": True})
            return str(answer.content)

    assert "half to even" in anyio.run(ask)
    site = Site(ben.root)
    assert site.get("/api/state")["team"] is True
    page = site.get("/api/records", q="invoices rounded", team="1")
    assert [item["source"] for item in page["items"]] == [f"team/{fleet.role('ann')}"]
    assert site.get("/api/records", q="invoices rounded")["total"] == 0


def test_a_loop_shares_at_its_end_and_says_when_it_cannot(fleet: Fleet) -> None:
    one = fleet.machine("one", "ann")
    one.remember("from the loop")
    assert team.exchange(one.root, one.config) == ""
    one.set(loop=True)
    assert team.exchange(one.root, one.config) == "shared with the team: 1 row(s) sent, 0 received"
    away = Config(team=Team(url="host=/nowhere", loop=True))
    assert team.exchange(one.root, away).startswith(
        "not shared with the team: the team's server does not answer"
    )


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["team", "sync", "--push-only"], 2, "shares nothing with a team"),
        (["team", "sync", "--pull-only"], 2, "shares nothing with a team"),
        (["search", "--team", "x"], 2, "shares nothing with a team"),
        (["team", "join", "postgresql://ann:secret@localhost/x"], 2, "has a password"),
        (
            ["team", "join", "postgresql://ann@db.example.com/x?sslmode=disable"],
            1,
            "does not check",
        ),
        (["team", "join", "nonsense"], 2, "PostgreSQL URL"),
        (["team", "join", "host=/nowhere"], 1, "does not answer"),
        (["team", "admin", "host=/nowhere", "--check"], 1, "does not answer"),
        (["team", "admin", "host=127.0.0.1 port=1"], 1, "does not answer"),
        (["team", "sync", "--push-only", "--pull-only"], 2, "cannot be used together"),
        (["team", "sync", "--dry-run", "--pull-only"], 2, "cannot be used together"),
        (["team", "sync", "--format", "json"], 2, "requires --dry-run"),
        (["team", "admin", "x", "--format", "json"], 2, "requires --check"),
        (["team", "admin", "x", "--check", "--member", "ann"], 2, "--member does not apply"),
        (["team", "admin", "x", "--member", "ann"], 2, "need --project"),
        (["team", "admin", "x", "--project", "shop"], 2, "needs --member"),
        (
            ["team", "admin", "x", "--project", "shop", "--member", "ann", "--reader", "ann"],
            2,
            "cannot be a member and a reader",
        ),
        (["team", "join", "host=/nowhere", "--project", ""], 2, "--project is empty"),
        (["team", "join", "host=/nowhere", "--project", " "], 2, "--project is empty"),
        (["team", "admin", "host=/nowhere", "--project", ""], 2, "--project is empty"),
        (
            ["team", "admin", "host=/nowhere", "--project", "", "--member", "ann"],
            2,
            "--project is empty",
        ),
        (["team", "admin", ""], 2, "is empty"),
        (["team", "join", " "], 2, "is empty"),
        (["team", "status"], 0, ""),
    ],
)
def test_what_is_wrong_is_one_line_and_changes_nothing(
    tmp_path: Path, words: list[str], code: int, what: str
) -> None:
    (tmp_path / ".ralph").mkdir()
    ralph = Project(tmp_path)
    before = ralph.marks()
    said = ralph(*words)
    assert (said.code, "secret" in said.err) == (code, False)
    assert what in said.err
    assert len(said.err.splitlines()) <= 2
    assert ralph.marks() == before


def test_a_server_that_refuses_is_not_called_silent(fleet: Fleet) -> None:
    refused = Project(fleet.folder)("team", "admin", fleet.postgres.url("somebody_else"), "--check")
    assert (refused.code, "refused the connection" in refused.err, "~/.pgpass" in refused.err) == (
        1,
        True,
        True,
    )
    empty = Project(fleet.folder)("team", "admin", fleet.postgres.url(), "--check")
    assert (empty.code, "no Ralph tables" in empty.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (["team", "sync", "--push-only"], "the next push sends what is missing"),
        (["team", "sync", "--pull-only"], "the next pull fetches what is missing"),
        (["team", "join", "{url}"], "the project's settings are unchanged"),
        (["team", "forget", "obs-1"], "the server may still have the record"),
        (["team", "leave", "--delete-mine"], "without --delete-mine needs no server"),
        (["search", "--team", "words"], "a search without the team needs no server"),
        (["team", "admin", "{url}"], "the command can be repeated safely"),
        (["team", "admin", "{url}", "--check"], "the command can be repeated safely"),
    ],
    ids=["push", "pull", "join", "forget", "leave", "search", "migrate", "check"],
)
def test_the_hint_of_a_connection_error_says_what_it_means_for_the_command(
    fleet: Fleet, words: list[str], meaning: str
) -> None:
    ann = joined(fleet, "ann")
    assert ann("config", "team.search", "server", "--local").code == 0
    fleet.drop()
    said = ann(*(word.format(url=fleet.url("ann")) for word in words))
    message, hint = said.err.splitlines()
    assert (said.code, "refused the connection" in message) == (1, True)
    assert hint.endswith(meaning)


def test_a_url_of_the_repository_counts_after_trust(fleet: Fleet) -> None:
    fleet.join("ann", "shop")
    root = fleet.folder / "clone"
    (root / ".ralph").mkdir(parents=True)
    (root / "ralph.yml").write_text(
        f'team:\n  url: "{fleet.url("ann")}"\n  project: shop\n', encoding="utf-8"
    )
    ralph = Project(root)
    assert ralph("team", "sync", "--pull-only").code == 2
    assert ralph("trust", "--yes").code == 0
    assert ralph("team", "sync", "--pull-only").code == 0


def test_a_team_can_be_left_before_it_is_trusted(fleet: Fleet) -> None:
    fleet.join("ann", "shop")
    root = fleet.folder / "clone"
    (root / ".ralph").mkdir(parents=True)
    ralph = Project(root)
    assert ralph("team", "join", fleet.url("ann"), "--project", "shop").code == 0
    settings = root / "ralph.local.yml"
    joined_settings = settings.read_text(encoding="utf-8")
    deletes = ralph("team", "leave", "--delete-mine")
    assert (deletes.code, "is not trusted" in deletes.err) == (2, True)
    assert settings.read_text(encoding="utf-8") == joined_settings
    assert ralph("team", "leave").out == "Left the team.\n"
    assert "postgresql:" not in settings.read_text(encoding="utf-8")
    assert not paths.team_tombstones(root).exists()
    again = ralph("team", "leave")
    assert (again.code, "shares nothing with a team" in again.err) == (2, True)


def test_the_administrator_makes_checks_and_adds(fleet: Fleet) -> None:
    ralph = Project(fleet.folder)
    assert "up to date" in ralph("team", "admin", fleet.url()).out
    fleet.join("ann", "shop")
    roles = ("--member", fleet.role("ann"), "--member", "nobody_here")
    assert "no role" in ralph("team", "admin", fleet.url(), "--project", "new", *roles).err
    with fleet.server("ann") as server:
        assert [name for name, *_ in server.call("my_projects")] == ["shop"]
    assert ralph("team", "admin", fleet.url(), "--check").out == f"Schema {VERSION}: no problems.\n"
    assert ralph("team", "admin", fleet.url(), "--check", "--format", "json").json == []
    fleet.postgres.execute("SELECT 1")
    import psycopg

    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("GRANT SELECT ON ralph_team.records TO PUBLIC")
    said = ralph("team", "admin", fleet.url(), "--check")
    assert (said.code, "everybody may use the table records" in said.err) == (1, True)
    listed = ralph("team", "admin", fleet.url(), "--check", "--format", "json")
    (problem,) = listed.json
    assert (listed.code, listed.err) == (1, "")
    assert "everybody may use the table records" in problem["message"]


def test_the_demo_runs_for_root_as_well(tmp_path: Path) -> None:
    done = executable(tmp_path, "demo", "--team")
    if done.returncode == 2:  # for root, whose Python nobody else can read
        assert (os.geteuid(), b"`nobody`" in done.stderr, len(done.stderr.splitlines())) == (
            0,
            True,
            2,
        )
    else:
        assert (done.returncode, b"Done: shared" in done.stdout) == (0, True)


def test_somebody_without_a_project_learns_who_adds_members(fleet: Fleet) -> None:
    ann = joined(fleet, "ann")
    elsewhere = ann("team", "join", fleet.url("ann"), "--project", "books")
    assert "your projects there: shop" in elsewhere.err
    nowhere = ann("team", "join", fleet.url(), "--project", "shop")
    assert (nowhere.code, "--project shop --member postgres" in nowhere.err) == (1, True)
    denied = ann("team", "admin", fleet.url("ann"), "--check")
    assert (denied.code, "only the role that owns" in denied.err) == (1, True)
