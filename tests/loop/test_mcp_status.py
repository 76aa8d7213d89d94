"""What is remembered of servers, for how long, and what the loop makes of it; with real programs as servers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_server import program, started

from ralph.loop import mcp_servers, mcp_status
from ralph.loop.mcp_status import TTL_MS, ServerState
from ralph.storage import trust_records

SECONDS = 60.0
SLOW_SECONDS = 3.0
SILENT_SECONDS = 0.2


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


def env_of(root: Path) -> dict[str, str]:
    return {"HOME": str(root.parent / "home"), "PATH": os.environ["PATH"]}


def pids(root: Path, name: str) -> Path:
    return root.parent / f"{name}.pids"


def spec(root: Path, how: str, name: str) -> dict[str, object]:
    command, *args = program(name, how, pids(root, name)).command
    return {"command": command, "args": args}


def user_names(root: Path, **how: str) -> None:
    """The user's own servers, by how they behave."""
    file = root.parent / "home/.claude.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    said = {"mcpServers": {name: spec(root, each, name) for name, each in how.items()}}
    file.write_text(json.dumps(said), encoding="utf-8", newline="")


def asked(
    root: Path, *, refresh: bool = False, now: int = 1_000_000
) -> tuple[list[ServerState], list[str]]:
    return mcp_status.server_status(root, env_of(root), refresh=refresh, seconds=SECONDS, now=now)


def statuses(found: tuple[list[ServerState], list[str]]) -> dict[str, str]:
    return {each.server.name: each.status.value for each in found[0]}


def cache(root: Path) -> Any:
    return json.loads((root / ".ralph/cache/mcp-status.json").read_text(encoding="utf-8"))


def test_the_cache_is_as_the_spec_has_it(project: Path) -> None:
    user_names(project, good="good", bad="crash")
    assert statuses(asked(project)) == {"good": "running", "bad": "failed"}
    assert cache(project) == {
        "version": 1,
        "entries": {
            str(project): {
                "servers": {
                    "good": {"status": "running", "cachedAt": 1_000_000},
                    "bad": {"status": "failed", "cachedAt": 1_000_000},
                },
                "updatedAt": 1_000_000,
            }
        },
    }


def test_an_answer_counts_for_five_minutes_and_then_the_server_is_asked_again(
    project: Path,
) -> None:
    user_names(project, a="crash")
    asked(project)
    user_names(project, a="good")
    assert statuses(asked(project, now=1_000_000 + TTL_MS - 1)) == {"a": "failed"}
    assert statuses(asked(project, now=1_000_000 + TTL_MS)) == {"a": "running"}
    assert cache(project)["entries"][str(project)]["servers"]["a"]["cachedAt"] == 1_000_000 + TTL_MS


def test_who_asks_for_it_gets_a_new_answer_at_once(project: Path) -> None:
    user_names(project, a="crash")
    asked(project)
    user_names(project, a="good")
    assert statuses(asked(project, refresh=True)) == {"a": "running"}


def test_an_answer_of_the_future_does_not_count(project: Path) -> None:
    user_names(project, a="good")
    asked(project, now=9_000_000)
    asked(project, now=1_000_000)
    assert cache(project)["entries"][str(project)]["servers"]["a"]["cachedAt"] == 1_000_000


def test_only_servers_without_an_answer_are_asked(project: Path) -> None:
    user_names(project, a="good")
    asked(project)
    user_names(project, a="good", b="good")
    found = asked(project)
    assert statuses(found) == {"a": "running", "b": "running"}
    assert [each.checked for each in found[0]] == [False, True]
    assert len(started(pids(project, "a"))) == 1


def test_what_others_keep_in_the_file_stays_there(project: Path) -> None:
    user_names(project, a="good", gone="crash")
    asked(project)
    held = cache(project)
    held["mine"] = 1
    held["entries"]["/other"] = {"servers": {}, "updatedAt": 5, "theirs": [2]}
    held["entries"][str(project)]["note"] = "kept"
    held["entries"][str(project)]["servers"]["a"]["tools"] = 7
    (project / ".ralph/cache/mcp-status.json").write_text(
        json.dumps(held), encoding="utf-8", newline=""
    )
    user_names(project, a="good")
    asked(project, refresh=True, now=3_000_000)
    assert cache(project) == {
        "version": 1,
        "mine": 1,
        "entries": {
            "/other": {"servers": {}, "updatedAt": 5, "theirs": [2]},
            str(project): {
                "servers": {"a": {"status": "running", "cachedAt": 3_000_000, "tools": 7}},
                "updatedAt": 3_000_000,
                "note": "kept",
            },
        },
    }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"version": 2, "entries": {}}',
        '{"version": 1, "entries": 3}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_file_or_one_of_another_version_is_replaced(project: Path, text: str) -> None:
    file = project / ".ralph/cache/mcp-status.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    user_names(project, a="good")
    assert statuses(asked(project)) == {"a": "running"}
    assert cache(project)["entries"][str(project)]["servers"]["a"]["status"] == "running"


@pytest.mark.parametrize(
    "value",
    [
        3,
        None,
        {"status": "happy", "cachedAt": 999_999},
        {"status": "failed"},
        {"status": "failed", "cachedAt": "x"},
    ],
)
def test_a_damaged_cache_entry_is_no_answer(project: Path, value: object) -> None:
    file = project / ".ralph/cache/mcp-status.json"
    file.parent.mkdir(parents=True)
    text = json.dumps({"version": 1, "entries": {str(project): {"servers": {"a": value}}}})
    file.write_text(text, encoding="utf-8", newline="")
    user_names(project, a="good")
    assert statuses(asked(project)) == {"a": "running"}


def test_a_cloned_repository_runs_nothing(project: Path) -> None:
    text = json.dumps({"mcpServers": {"evil": spec(project, "good", "evil")}})
    (project / ".mcp.json").write_text(text, encoding="utf-8", newline="")
    assert statuses(asked(project, refresh=True)) == {"evil": "unknown"}
    assert started(pids(project, "evil")) == []

    trust_records.record_trust(
        project, mcp_servers.trust_candidates(project, env_of(project)), env_of(project)
    )
    assert statuses(asked(project)) == {"evil": "running"}
    assert len(started(pids(project, "evil"))) == 1

    trust_records.revoke_trust(project, env_of(project))
    assert statuses(asked(project)) == {"evil": "unknown"}


def test_the_loop_gets_all_but_failed_and_needs_auth_servers(project: Path) -> None:
    user_names(project, good="good", bad="crash")
    (project / ".mcp.json").write_text(
        '{"mcpServers": {"new": {"command": "x"}}}', encoding="utf-8", newline=""
    )
    known = asked(project)[0]
    assert statuses(asked(project)) == {"new": "unknown", "good": "running", "bad": "failed"}
    assert json.loads(mcp_status.denying_settings(known)) == {
        "deniedMcpServers": [{"serverName": "new"}, {"serverName": "bad"}]
    }
    untrusted, failed = mcp_status.describe_denied(known)
    assert untrusted == (
        "MCP servers left out because you have not trusted them (`ralph trust`): new"
    )
    assert failed.startswith("MCP servers left out: bad (failed: ")
    assert [
        each.server.name for each in mcp_status.untrusted_servers(project, env_of(project))
    ] == ["new"]


def test_a_slow_server_is_asked_again_with_more_time(project: Path) -> None:
    user_names(project, a="slow once")
    found = mcp_status.server_status(project, env_of(project), seconds=SLOW_SECONDS)
    assert statuses(found) == {"a": "running"}
    assert len(started(pids(project, "a"))) == 2


def test_a_silent_server_is_left_out_and_not_cached_as_failed(project: Path) -> None:
    user_names(project, a="hang")
    found = mcp_status.server_status(project, env_of(project), seconds=SILENT_SECONDS)
    assert statuses(found) == {"a": "failed"}
    assert "no answer within" in mcp_status.describe_denied(found[0])[0]
    assert cache(project)["entries"][str(project)]["servers"]["a"]["status"] == "unknown"


def test_ralphs_own_server_is_never_denied(project: Path) -> None:
    broken = project.parent / "bin/ralph"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8", newline="")
    broken.chmod(0o755)
    entry = {"command": str(broken), "args": ["mcp", "serve"]}
    file = project.parent / "home/.claude.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"ralph": entry}}), encoding="utf-8", newline="")
    known = asked(project)[0]
    assert [(each.status.value, each.usable) for each in known] == [("failed", True)]
    assert mcp_status.denying_settings(known) == ""


@pytest.mark.parametrize(
    ("more", "trusted"),
    [({}, True), ({"env": {"PYTHONPATH": "."}}, False), ({"args": ["mcp", "serve", "x"]}, False)],
    ids=["as installed", "with an environment", "with other arguments"],
)
def test_this_ralph_in_the_projects_file_needs_no_trust(
    project: Path, more: dict[str, object], trusted: bool
) -> None:
    program = str(Path(sys.executable).with_name("ralph"))
    entry = {"command": program, "args": ["mcp", "serve"], **more}
    (project / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"ralph": entry}}), encoding="utf-8", newline=""
    )
    servers, _ = mcp_servers.list_servers(project, env_of(project))
    assert [server.trusted for server in servers] == [trusted]


def test_an_unknown_server_that_is_trusted_is_allowed(project: Path) -> None:
    text = '{"mcpServers": {"new": {"command": "x", "headersHelper": "y"}, "old": {"type": "ws", "url": "ws://a"}}}'
    (project / ".mcp.json").write_text(text, encoding="utf-8", newline="")
    assert not any(state.usable for state in asked(project)[0])
    trust_records.record_trust(
        project, mcp_servers.trust_candidates(project, env_of(project)), env_of(project)
    )
    known = asked(project)[0]
    assert statuses(asked(project)) == {"new": "unknown", "old": "unknown"}
    assert (mcp_status.denying_settings(known), mcp_status.describe_denied(known)) == ("", [])


@pytest.mark.parametrize("file", ["home/.claude/settings.json", "project/.claude/settings.json"])
def test_only_ralph_trust_approves_a_server_of_the_repository(project: Path, file: str) -> None:
    (project / ".mcp.json").write_text(
        '{"mcpServers": {"new": {"command": "x"}}}', encoding="utf-8", newline=""
    )
    place = project.parent / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text('{"enableAllProjectMcpServers": true}', encoding="utf-8", newline="")
    assert [each.server.trusted for each in asked(project)[0]] == [False]


def test_where_all_servers_work_nothing_is_refused(project: Path) -> None:
    user_names(project, good="good")
    assert mcp_status.denying_settings(asked(project)[0]) == ""


def test_a_secret_in_error_output_is_redacted(project: Path) -> None:
    user_names(project, a="crash")
    found = mcp_status.server_status(
        project, env_of(project), seconds=SECONDS, patterns=("database",)
    )
    assert "database" not in found[0][0].why
    assert found[0][0].why


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(project: Path) -> None:
    (project / ".ralph").write_text("in the way", encoding="utf-8", newline="")
    user_names(project, a="good")
    assert statuses(asked(project)) == {"a": "running"}


def test_a_worktree_has_an_entry_of_its_own_in_the_main_checkout(project: Path) -> None:
    worktree, own = project / ".worktrees/t-000001", project / ".git/worktrees/t-000001"
    worktree.mkdir(parents=True)
    own.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8", newline="")
    (own / "commondir").write_text("../..\n", encoding="utf-8", newline="")
    (own / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8", newline="")
    user_names(project, a="good")
    mcp_status.server_status(worktree, env_of(project), seconds=SECONDS)
    assert list(cache(project)["entries"]) == [str(worktree)]
