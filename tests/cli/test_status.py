"""`ralph status`: the project in numbers."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.runner import Project, command

from ralph.capture import recorder
from ralph.core import ids
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.formats.log import encode_record


def test_an_empty_project_has_nothing_and_is_no_error(ralph: Project) -> None:
    said = ralph("status", "--format", "json")
    assert said.code == 0
    assert (said.json["memories"], said.json["guardrails"], said.json["database_bytes"]) == (
        0,
        0,
        0,
    )


def test_memories_guardrails_and_the_index_are_counted(ralph: Project) -> None:
    ralph("memory", "add", "Use barrel exports")
    ralph("memory", "add", "--in", "guardrails", "npm test fails: build first")
    ralph("memory", "search", "exports")
    said = ralph("status", "--format", "json").json
    assert (said["memories"], said["guardrails"], said["indexed"]["records"]) == (1, 1, 2)
    assert said["database_bytes"] > 0
    assert "memories:     1" in ralph("status").out


def test_only_memories_of_this_week_count_as_learned_however_they_were_written(
    ralph: Project,
) -> None:
    today = ids.today()
    now = int(ids.now().timestamp())
    page = f"""# Memories

## Patterns

### mem-1700000000-aaaa
> An old entry in the form that Ralph writes, before | created: {today} -->
<!-- tags: a | created: 2023-11-14 -->

### mem-{now}-bbbb
> A new entry in the form that Ralph writes
<!-- tags: a | created: {today} -->

### mem-{now}-cccc

> A new entry in the form of a person

<!-- tags: a | created: {today} -->

### mem-1700000001-dddd

> An old entry in the form of a person

<!-- tags: a | created: 2023-11-14 -->
"""
    ralph("init")
    (ralph.root / ".agent" / "memories.md").write_text(page, encoding="utf-8", newline="")
    said = ralph("status", "--format", "json").json
    assert (said["memories"], said["learning"]["kept_this_week"]) == (4, 2)


def test_it_is_shown_again_when_something_changes_until_it_is_ended(ralph: Project) -> None:
    ralph("init")
    watching = subprocess.Popen(
        [*command(), "status", "--watch"], cwd=ralph.root, stdout=subprocess.PIPE, encoding="utf-8"
    )
    try:
        assert watching.stdout is not None
        lines = iter(watching.stdout.readline, "")
        assert next(line for line in lines if line.startswith("memories:")) == "memories:     0\n"
        assert (
            next(line for line in lines if line.startswith("running:")) == "running:      no run\n"
        )
        assert next(line for line in lines if line.startswith("capture:"))
        ralph("memory", "add", "Use barrel exports")
        assert next(line for line in lines if line.startswith("memories:")) == "memories:     1\n"
        watching.terminate()  # what SIGINT does hangs on who started the tests: it is ignored in the background
        assert watching.wait(timeout=60) == -signal.SIGTERM
    finally:
        watching.kill()
        watching.communicate()


RAW = (
    '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.123456Z", "host": "codex", "event": "Stop", '
    '"payload": {"session_id":"s2","hook_event_name":"Stop"}}\n'
)


def test_json_has_every_key_also_when_nothing_is_there(ralph: Project) -> None:
    said = ralph("status", "--format", "json").json
    assert said["last_session"] is None
    assert said["hooks"] == {
        "installed": [], "problems": [], "hosts": [], "recorded": 0, "failures": 0, "success_rate": None,
        "last_failure_at": "", "last_failure": "",
    }  # fmt: skip
    assert (said["paused"], said["paused_since"], said["index_complete"]) == (False, None, False)
    assert (said["memory_bytes"], said["log_bytes"]) == (0, 0)
    assert not ralph.file(".ralph").exists()
    assert "none yet" in ralph("status").out


def test_hooks_of_which_no_event_has_arrived_are_named_until_one_has(ralph: Project) -> None:
    Path(os.environ["HOME"]).mkdir()
    ralph("install", "claude", "codex")
    said = ralph("status").out
    assert "claude: no event has arrived here yet\n" in said
    assert (
        "codex: no event has arrived here yet; it runs hooks after you have trusted them once, in its /hooks"
        in said
    )
    ralph.put("log/sessions/s2.jsonl", RAW)
    said = ralph("status").out
    assert "claude: no event" in said
    assert "codex: no event" not in said
    installed = ralph("status", "--format", "json").json["hooks"]["installed"]
    assert [(each["host"], each["events"]) for each in installed] == [
        ("claude", False),
        ("codex", True),
    ]


def test_the_last_session_is_read_from_the_end_of_its_log(ralph: Project) -> None:
    old = ralph.put("log/sessions/s1.jsonl", RAW.replace("s2", "s1"))
    os.utime(old, (1_700_000_000, 1_700_000_000))
    ralph.put("log/sessions/s2.jsonl", "garbage\n" + RAW + '{"v": 1, "type": "ev')
    before = ralph.marks()
    said = ralph("status", "--format", "json").json
    assert said["last_session"] == {
        "id": "s2",
        "at": "2026-11-15T12:00:00.123456Z",
        "host": "codex",
    }
    assert said["hooks"]["recorded"] == 2
    assert said["log_bytes"] > 0
    assert "last session: s2, " in ralph("status").out
    assert ralph.marks() == before


def test_a_session_that_the_rules_recorded_is_told_with_its_host(ralph: Project) -> None:
    origin = Origin(session="3f2a", agent="claude")
    record = Record(
        "obs-1",
        ObservationKind.NOTE,
        "x",
        Family.OBSERVATION,
        origin=origin,
        created_at="2026-11-15T12:00:00Z",
    )
    ralph.put("log/sessions/3f2a.jsonl", encode_record(record))
    said = ralph("status", "--format", "json").json["last_session"]
    assert said == {"id": "3f2a", "at": "2026-11-15T12:00:00Z", "host": "claude"}


def test_hooks_failures_and_a_pause_are_shown(ralph: Project) -> None:
    Path(os.environ["HOME"]).mkdir()
    ralph.put("ralph.yml", "")
    ralph("install", "claude")
    recorder.count_failure(ralph.root, "Stop", "disk full")
    ralph("capture", "off")
    said = ralph("status")
    assert "hooks:        claude (user); 0 event(s) recorded, 1 failure(s), the last " in said.out
    assert "capture:      paused since 20" in said.out
    shape = ralph("status", "--format", "json").json
    assert [(each["host"], each["scope"]) for each in shape["hooks"]["installed"]] == [
        ("claude", "user")
    ]
    assert (shape["hooks"]["failures"], shape["hooks"]["last_failure"]) == (1, "Stop: disk full")
    assert shape["paused"] is True
    assert shape["paused_since"].startswith("20")


def test_a_link_that_leads_outside_is_told_and_nothing_behind_it_is_counted(
    ralph: Project, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere" / "log" / "sessions").mkdir(parents=True)
    (tmp_path / "elsewhere" / "log" / "sessions" / "s2.jsonl").write_text(
        RAW, encoding="utf-8", newline=""
    )
    shutil.rmtree(ralph.file(".git"))  # without git, the state is below .ralph
    ralph.file(".ralph").symlink_to(tmp_path / "elsewhere")
    said = ralph("status", "--format", "json").json
    assert said["outside"].startswith(str(tmp_path / "elsewhere"))
    assert (said["last_session"], said["hooks"]["recorded"], said["log_bytes"]) == (None, 0, 0)
    shown = ralph("status").out
    assert "capture:      off: .ralph is a link out of the project" in shown
    assert str(tmp_path / "elsewhere") in shown
    assert "bad-link" in ralph("doctor", "--format", "json").out
    (tmp_path / "elsewhere" / "log" / "sessions" / "s2.jsonl").chmod(0o644)
    ralph("doctor", "--fix")
    assert (
        tmp_path / "elsewhere" / "log" / "sessions" / "s2.jsonl"
    ).stat().st_mode & 0o777 == 0o644
    assert ralph("memory", "search", "anything").code in (0, 1)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["log"]


def test_a_project_without_such_a_link_says_nothing_of_it(ralph: Project) -> None:
    assert ralph("status", "--format", "json").json["outside"] is None
