"""`ralph doctor --secrets`: what older rules let through is found again, and `--fix` redacts it."""

import gzip
import json
from pathlib import Path

import pytest
from tests.support.channels import printed
from tests.support.runner import Block, Project, page
from tests.support.secret_logs import raw, seen

from ralph.core import paths

TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
PASSWORD = "Zq8vT2mLr5Xw" + "9KpB4nHs"
MARKER = "[redacted: github token]"
ONE = Block(f"Deploy with {TOKEN} from CI", "mem-1705751400-a3f8")
KNOWLEDGE = "---\ntitle: Release\ntags: [a]\n---\n\nfirst\nuse {}\n"

PLACES = {
    "memories": (".agent/memories.md", page(ONE)),
    "guardrails": (".ralph/guardrails.md", page(ONE, title="Guardrails")),
    "knowledge": (".ralph/knowledge/release.md", KNOWLEDGE.format(TOKEN)),
    "patterns": (".ralph/global-patterns.md", f"# Patterns\n\n- use {TOKEN} here\n"),
    "scratchpad": (".ralph/scratchpad.md", f"x\n{TOKEN}\n"),
    "progress": ("progress.txt", f"## 2026-01-01 - US-1\n- used {TOKEN}\n---\n"),
    "task": (".ralph/tasks/t-1/task.json", json.dumps({"id": "t-1", "title": f"use {TOKEN}"})),
    "backup": (".agent/memories.md.bak", page(ONE)),
    "event": ("log/sessions/s1.jsonl", raw("hello") + raw(f"use {TOKEN}")),
    "observation": ("log/sessions/s1.jsonl", seen(1, "hello") + seen(2, f"use {TOKEN}")),
    "torn line": ("log/sessions/s1.jsonl", seen(1, "hello") + f'{{"v":1,"text":"{TOKEN}\n'),
    "held memory": ("log/held.jsonl", f'{{"v":1,"type":"held","id":"h-1","text":"{TOKEN}"}}\n'),
    "output of a run": ("log/runs/run-1.log", f"one\n{TOKEN}\n"),
    "prompt of a run": ("log/runs/run-1/0001.md", f"use {TOKEN}\n"),
}


def secrets_in(ralph: Project) -> list[tuple[str, int]]:
    found = ralph("doctor", "--secrets", "--format", "json").json["findings"]
    rows = [(Path(one["file"]), one["line"]) for one in found if one["code"] == "secret"]
    return [(paths.shown(path, ralph.root), line) for path, line in rows]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_named_by_file_and_line_and_only_it_is_replaced(
    ralph: Project, place: str
) -> None:
    name, text = PLACES[place]
    if place == "backup":
        ralph.memories()
    path = ralph.put(name, text)
    line = text[: text.index(TOKEN)].count("\n") + 1
    assert secrets_in(ralph) == [(paths.shown(path, ralph.root), line)]
    said = ralph("doctor", "--secrets", "--fix")
    assert TOKEN not in said.out + said.err
    assert f"redacted 1 secret: github token (line {line})" in said.out
    assert TOKEN.encode() not in ralph.everything()
    if place not in ("event", "observation", "held memory"):  # JSON may be written in another way
        assert path.read_text("utf-8") == text.replace(TOKEN, MARKER)
    assert secrets_in(ralph) == []


def test_what_a_command_printed_is_redacted_if_only_the_command_reveals_it(
    ralph: Project,
) -> None:
    chosen = "Kelmo!Trand41"
    _, sent = printed(f"$ op read op://Team/reporting/main\n{chosen}")
    line = json.loads(raw("hello")) | {"payload": json.loads(sent)}
    ralph.put("log/sessions/s1.jsonl", json.dumps(line) + "\n")
    ralph("doctor", "--secrets", "--fix")
    assert chosen.encode() not in ralph.everything()


def test_every_other_byte_of_a_memory_file_stays(ralph: Project) -> None:
    text = page(ONE, Block("Uses tabs", "mem-1705751401-b4c5")).replace("\n", "\r\n")
    before = text.encode().replace(b"tabs", b"t\xff\tbs  ") + b"\r\n\r\n<!-- mine"
    path = ralph.put(".agent/memories.md", "")
    path.write_bytes(before)
    path.chmod(0o640)
    ralph("doctor", "--secrets", "--fix")
    assert path.read_bytes() == before.replace(TOKEN.encode(), MARKER.encode())
    assert path.stat().st_mode & 0o777 == 0o640
    assert not path.with_name("memories.md.bak").exists()


def test_personal_memory_is_searched_and_redacted_too(ralph: Project) -> None:
    path = paths.personal_memories()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text(page(ONE), encoding="utf-8")
    ralph.memories()
    assert secrets_in(ralph) == [(str(path), 6)]
    assert ralph("doctor", "--secrets", "--fix").code == 0
    assert path.read_text("utf-8") == page(ONE).replace(TOKEN, MARKER)


def test_a_packed_log_is_redacted_and_stays_packed(ralph: Project) -> None:
    path = ralph.put("log/sessions/s1.jsonl.gz", "")
    path.write_bytes(gzip.compress((seen(1, "hello") + raw(f"use {TOKEN}")).encode()))
    ralph("doctor", "--secrets", "--fix")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    assert lines[0] == seen(1, "hello")
    assert json.loads(lines[1])["payload"]["prompt"] == f"use {MARKER}"


def test_a_patch_that_was_recorded_line_by_line_is_redacted(ralph: Project) -> None:
    answer = {"structuredPatch": [{"lines": ["+- name: DB_PASSWORD", f"+  value: {PASSWORD}"]}]}
    given = {"file_path": "app.yaml", "new_string": "value: [redacted: password]"}
    payload = {"session_id": "s1", "tool_name": "Edit", "tool_input": given}
    head = {"v": 1, "type": "event", "at": "2026-11-10T10:00:00Z", "host": "claude"}
    event = {**head, "event": "PostToolUse", "payload": {**payload, "tool_response": answer}}
    ralph.put("log/sessions/s1.jsonl", json.dumps(event) + "\n")
    said = ralph("doctor", "--secrets", "--fix")
    assert "redacted 1 secret: password (line 1)" in said.out
    assert PASSWORD.encode() not in ralph.everything()


def test_the_index_agrees_with_the_files_and_keeps_no_byte_of_the_secret(ralph: Project) -> None:
    ralph.memories(ONE)
    ralph.put("log/sessions/s1.jsonl", seen(1, f"deploy frobnicator {TOKEN}"))
    ralph("index", "sync")
    assert TOKEN.lower().encode() in ralph.everything().lower()
    ralph("doctor", "--secrets", "--fix")
    assert TOKEN.lower().encode() not in ralph.everything().lower()
    assert ralph("doctor", "--index").code == 0
    assert MARKER in ralph("search", "frobnicator", "--format", "json").out


def test_an_index_that_still_has_a_secret_is_rebuilt(ralph: Project) -> None:
    log = ralph.put("log/sessions/s1.jsonl", seen(1, f"frobnicator {TOKEN}"))
    ralph("index", "sync")
    log.write_text(seen(1, "frobnicator gone"), encoding="utf-8")
    assert secrets_in(ralph) == [(paths.shown(log, ralph.root), 1)]
    assert "rebuilt it without the secrets" in ralph("doctor", "--secrets", "--fix").out
    assert TOKEN.encode() not in ralph.everything()


def test_fix_alone_redacts_nothing(ralph: Project) -> None:
    path = ralph.memories(ONE)
    ralph("doctor", "--fix")
    assert TOKEN in path.read_text("utf-8")


def test_what_cannot_be_redacted_is_still_reported_and_the_rest_is_redacted(
    ralph: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(page(ONE), encoding="utf-8")
    memories = ralph.file(".agent/memories.md")
    memories.parent.mkdir()
    memories.symlink_to(outside)
    ralph.put("log/sessions/s1.jsonl", seen(1, f"use {TOKEN}"))
    said = ralph("doctor", "--secrets", "--fix")
    assert said.code == 1
    assert outside.read_text("utf-8") == page(ONE)
    assert secrets_in(ralph) == [(".agent/memories.md", 6)]


def test_the_user_s_own_patterns_are_redacted(ralph: Project) -> None:
    path = ralph.memories(Block("ask cust-1234 first"))
    ralph.put("ralph.yml", "privacy:\n  patterns: ['cust-\\d+']\n")
    ralph("doctor", "--secrets", "--fix")
    assert "cust-1234" not in path.read_text("utf-8")
    assert ralph("doctor", "--secrets").code == 0


def test_the_report_in_json_names_what_was_redacted(ralph: Project) -> None:
    path = ralph.memories(ONE)
    shape = ralph("doctor", "--secrets", "--format", "json").json
    assert [(one["line"], one["fixable"]) for one in shape["findings"]] == [(6, True)]
    fixed = ralph("doctor", "--secrets", "--fix", "--format", "json").json["fixed"]
    assert fixed[0]["file"] == str(path)
    assert "github token (line 6)" in fixed[0]["what"]
    assert fixed[0]["backup"] == ""
