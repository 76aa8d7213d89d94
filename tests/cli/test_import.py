"""`ralph import`: the transcripts of agents become sessions as hooks would have recorded them."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.channels import CHANNELS
from tests.support.privacy_corpus import cases, multi_line_texts, secrets_in
from tests.support.runner import Project
from tests.support.sampling import every
from tests.support.secret_samples import TOKENS
from tests.support.transcripts import (
    SESSION,
    TOKEN,
    Claude,
    bring,
    home,
    observations,
    sessions,
    stored,
    work,
)
from tests.support.world import patient_hook

from ralph.core import paths

__all__ = ["home"]


def test_without_yes_it_shows_what_is_there_and_writes_nothing(ralph: Project, home: Path) -> None:
    work(ralph.root).write(home)
    said = ralph("import", "--format", "json")
    [found] = said.json["sources"]
    assert (found["source"], found["kind"], found["count"], found["new"], found["added"]) == (
        "claude",
        "sessions",
        1,
        1,
        0,
    )
    assert "--yes" in ralph("import").out
    assert ralph("import", "--yes", "--dry-run").code == 0
    assert not paths.state_folder(ralph.root).exists()


def test_where_nothing_is_found_nothing_is_written(
    ralph: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    said = ralph("import", "--yes")
    assert (said.out, said.err) == ("Nothing was found for this project.\n", "")
    assert not paths.state_folder(ralph.root).exists()


def test_a_transcript_becomes_a_session_as_hooks_record_it(ralph: Project, home: Path) -> None:
    path = work(ralph.root).write(home)
    before = path.read_bytes()
    assert bring(ralph, "--format", "json").json["sources"][0]["added"] == 5
    kinds = [(each["kind"], each["title"], each["origin"]["by"]) for each in observations(ralph)]
    assert kinds == [
        ("note", "prompt", "human"),
        ("tool_use", "Edit src/a.ts", "tool"),
        ("tool_use", "Read src/a.ts", "tool"),
        ("error", "Bash: npm test --token [redacted: github token]", "tool"),
        ("note", "answer", "agent"),
    ]
    assert observations(ralph)[1]["text"] == "src/a.ts\n- a = 1\n+ a = 2"
    assert observations(ralph)[0]["created_at"] == "2026-02-03T10:00:00.000000Z"
    [listed] = ralph("session", "list", "--format", "json").json
    assert (listed["id"], listed["host"]) == (SESSION, "claude")
    assert ralph("search", "parser", "--format", "json").json["hits"]
    everything = b"".join(stored(paths.state_folder(ralph.root)).values())
    assert TOKEN.encode() not in everything
    assert b"very long file" not in everything
    assert path.read_bytes() == before
    [log] = (paths.log_folder(ralph.root) / "sessions").glob("*")
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_second_import_and_one_without_the_ledger_change_nothing(
    ralph: Project, home: Path
) -> None:
    work(ralph.root).write(home)
    bring(ralph)
    before = sessions(ralph)
    assert bring(ralph, "--format", "json").json["sources"][0]["new"] == 0
    paths.import_ledger(ralph.root).unlink()
    bring(ralph)
    assert sessions(ralph) == before


def test_a_grown_transcript_adds_what_is_new(ralph: Project, home: Path) -> None:
    made = work(ralph.root)
    made.write(home)
    bring(ralph)
    made.prompt("please make the parser").say("It was made already.").write(home)
    assert bring(ralph, "--format", "json").json["sources"][0]["added"] == 2
    texts = [each["text"] for each in observations(ralph)]
    assert texts.count("please make the parser") == 2
    assert len(texts) == 7


def hook(ralph: Project, event: str, members: Mapping[str, object]) -> str:
    payload = {"session_id": SESSION, "cwd": str(ralph.root), "hook_event_name": event, **members}
    done = patient_hook(event, json.dumps(payload).encode(), os.environ, cwd=ralph.root)
    assert done.returncode == 0
    return done.stdout.decode()


def test_a_session_goes_on_in_a_log_of_its_own_beside_the_packed_one(
    ralph: Project, home: Path
) -> None:
    ralph("init")
    made = work(ralph.root)
    made.write(home)
    bring(ralph)
    folder = paths.log_folder(ralph.root) / "sessions"
    [packed] = folder.iterdir()
    assert packed.name == f"{SESSION}.jsonl.gz"
    before = packed.read_bytes()
    hook(ralph, "UserPromptSubmit", {"prompt": "and the lexer"})
    made.prompt("and the lexer").say("The lexer is made.").write(home)
    assert bring(ralph, "--format", "json").json["sources"][0]["added"] == 1
    assert packed.read_bytes() == before
    for _ in range(2):
        shown = ralph("session", "show", SESSION).out
        places = [
            shown.index(text)
            for text in ("make the parser", "parser is made", "and the lexer", "lexer is made")
        ]
        assert places == sorted(places)
        assert ralph("doctor", "--index").code == 0
        assert ralph("index", "sync", "--rebuild").code == 0
    assert ralph("forget", "--matching", "make the parser", "--yes").code == 0
    assert not [
        path
        for path, raw in stored(paths.state_folder(ralph.root)).items()
        if b"make the parser" in raw
    ]
    assert "and the lexer" in sessions(ralph)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="another form"),
        pytest.param(gzip.compress(b"{}\n")[:-6], id="cut"),
        pytest.param(gzip.compress(bytes(1 << 29)), id="bomb"),
    ],
)
def test_a_damaged_packed_log_is_reported_and_the_others_count(
    ralph: Project, home: Path, damage: bytes
) -> None:
    work(ralph.root).write(home)
    bring(ralph)
    broken = paths.packed_log(ralph.root, "broken")
    broken.write_bytes(damage)
    assert ralph("search", "parser", "--format", "json").json["hits"]
    assert "broken.jsonl.gz" in ralph("doctor").out
    assert broken.read_bytes() == damage


def test_the_next_prompt_is_answered_from_what_was_imported(ralph: Project, home: Path) -> None:
    ralph("init")
    made = Claude(ralph.root).prompt("how do we run the payment importer against staging")
    made.say("Use make importer-staging; the payment importer needs the VPN.").write(home)
    bring(ralph)
    asked = {"session_id": "another", "prompt": "how do I run the payment importer against staging"}
    assert "needs the VPN" in hook(ralph, "UserPromptSubmit", asked)


def test_a_session_that_hooks_recorded_is_not_doubled(ralph: Project, home: Path) -> None:
    ralph("init")
    made = (
        Claude(ralph.root)
        .prompt("what is there")
        .use("Bash", "one", {"stdout": "one", "stderr": ""}, command="ls")
    )
    made.say("One file.").prompt("and now").write(home)
    hook(ralph, "UserPromptSubmit", {"prompt": "what is there"})
    call = {
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "one"},
    }
    hook(ralph, "PostToolUse", {**call, "tool_use_id": "toolu_0001"})
    hook(ralph, "Stop", {"last_assistant_message": "One file."})
    assert bring(ralph, "--format", "json").json["sources"][0]["added"] == 1
    assert [each["text"] for each in observations(ralph)][-1] == "and now"


@pytest.mark.parametrize("words", [("--session", SESSION), ("--matching", "boom happened")])
def test_what_was_forgotten_does_not_come_back(
    ralph: Project, home: Path, words: tuple[str, ...]
) -> None:
    made = work(ralph.root)
    made.write(home)
    bring(ralph)
    assert ralph("forget", *words, "--yes").code == 0
    paths.import_ledger(ralph.root).unlink()
    made.say("One more.").write(home)
    bring(ralph)
    assert "boom happened" not in sessions(ralph)


def test_what_hooks_recorded_and_a_person_forgot_does_not_come_back(
    ralph: Project, home: Path
) -> None:
    ralph("init")
    Claude(ralph.root).prompt("the blue whale").say("Seen.").write(home)
    hook(ralph, "UserPromptSubmit", {"prompt": "the blue whale"})
    hook(ralph, "Stop", {"last_assistant_message": "Seen."})
    hit = ralph("search", "blue whale", "--format", "json").json["hits"][0]
    assert ralph("forget", hit["id"], "--yes").code == 0
    bring(ralph)
    assert "blue whale" not in sessions(ralph)


def test_only_sessions_of_this_project_are_imported(
    ralph: Project, home: Path, tmp_path: Path
) -> None:
    inner, clone, other = ralph.root / "packages" / "own", tmp_path / "clone", tmp_path / "other"
    for folder, remote in (
        (clone, "git@github.com:Acme/thing.git"),
        (other, "https://github.com/acme/other"),
    ):
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (folder / ".git" / "config").write_text(
            f'[remote "origin"]\n\turl = {remote}\n', encoding="utf-8"
        )
    config = '[remote "origin"]\n\turl = https://github.com/acme/thing\n'
    (ralph.root / ".git" / "config").write_text(config, encoding="utf-8")
    (inner / ".ralph").mkdir(parents=True)
    (ralph.root / "sub").mkdir()
    folders = {
        "sub": ralph.root / "sub",
        "gone": ralph.root / "gone",
        "clone": clone,
        "other": other,
        "inner": inner,
    }
    for name, folder in folders.items():
        path = Claude(folder, name).prompt(f"in {name}").write(home)
        path.rename(path.parent.parent.joinpath(name).with_suffix(".x"))
        (path.parent.parent / name).mkdir()
        path.parent.parent.joinpath(name).with_suffix(".x").rename(
            path.parent.parent / name / path.name
        )
    bring(ralph)
    assert sorted(each["text"] for each in observations(ralph)) == ["in clone", "in gone", "in sub"]


def test_the_folder_of_a_session_decides_and_not_the_name_of_the_clients(
    ralph: Project, home: Path
) -> None:
    """Claude Code names its folders of `x/y` and `x-y` alike."""
    nested, tree, git = (
        ralph.root / "nested",
        ralph.root.parent / "tree",
        ralph.root / ".git/worktrees/tree",
    )
    (nested / ".git").mkdir(parents=True)
    (nested / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    git.mkdir(parents=True)
    tree.mkdir()
    for path, text in {
        tree / ".git": f"gitdir: {git}\n",
        git / "HEAD": "ref: refs/heads/b\n",
        git / "commondir": "../..\n",
        git / "gitdir": f"{tree}/.git\n",
    }.items():
        path.write_text(text, encoding="utf-8")
    named = home / ".claude/projects" / re.sub(r"[^A-Za-z0-9]", "-", str(ralph.root))
    for name, folder in {
        "a": Path(f"{ralph.root}-y"),
        "b": nested,
        "c": tree,
        "d": ralph.root,
    }.items():
        Claude(folder, name).prompt(f"in {folder.name}").write(home)
    (home / ".claude/projects/-project").rename(named)
    bring(ralph)
    assert sorted(each["text"] for each in observations(ralph)) == [
        f"in {ralph.root.name}",
        "in tree",
    ]


def test_a_subagent_is_part_of_its_session(ralph: Project, home: Path) -> None:
    path = work(ralph.root).write(home)
    agent = (
        Claude(ralph.root)
        .prompt("look")
        .use("Bash", "in-sub", command="echo in-sub")
        .say("Nothing there.")
    )
    for value in agent.values:
        value |= {"isSidechain": True, "agentId": "a1"}
    made = agent.write(home, "x")
    (path.parent / SESSION / "subagents").mkdir(parents=True)
    made.rename(path.parent / SESSION / "subagents" / "agent-a1.jsonl")
    bring(ralph)
    inside = [each for each in observations(ralph) if each.get("extra", {}).get("agent_id")]
    assert [each["text"] for each in inside] == ["$ echo in-sub\nin-sub", "Nothing there."]


def test_hostile_transcripts_are_left_out_with_a_note(ralph: Project, home: Path) -> None:
    path = work(ralph.root).write(home)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"user", broken\n' + "[" * 100_000 + '"type":"user"\n')
    os.mkfifo(path.parent / "fifo.jsonl")
    (path.parent / "link.jsonl").symlink_to("/etc/passwd")
    said = bring(ralph)
    assert len(observations(ralph)) == 5
    for name in ("fifo.jsonl", "link.jsonl"):
        assert f"{name}: skipped, a symlink" in said.err
    assert f"{path.name}: skipped 2 lines" in said.err


FOUND = "earlier session of this project found: run `ralph import --yes`"


def test_init_and_install_count_the_earlier_sessions_until_they_are_imported(
    ralph: Project, home: Path
) -> None:
    work(ralph.root).write(home)
    assert f"note: 1 {FOUND}\n" in ralph("init").err
    assert f"note: 1 {FOUND}\n" in ralph("install", "claude", "--no-mcp").err
    bring(ralph)
    assert FOUND not in ralph("init").err
    assert FOUND not in ralph("install", "claude", "--no-mcp").err


def test_recorded_and_forgotten_sessions_are_not_earlier_ones(ralph: Project, home: Path) -> None:
    for name in ("recorded", "forgotten", "left", "agent-0"):
        Claude(ralph.root, name).prompt("hello").write(home)
    assert "note: 3 earlier sessions of this project found" in ralph("init").err
    for name in ("recorded", "forgotten"):
        payload = {"session_id": name, "cwd": str(ralph.root), "prompt": "hello"}
        patient_hook("UserPromptSubmit", json.dumps(payload).encode(), os.environ)
    assert ralph("forget", "--session", "forgotten", "--yes").code == 0
    assert f"note: 1 {FOUND}\n" in ralph("init").err


def test_an_unknown_source_is_refused(ralph: Project) -> None:
    said = ralph("import", "--from", "teletype")
    assert said.code == 2
    assert "'teletype' is not an import source" in said.err


def test_killed_at_any_point_and_run_again_gives_the_same(ralph: Project, home: Path) -> None:
    for number in range(12):
        made = Claude(ralph.root, f"s-{number:02}")
        for turn in range(20):
            made.prompt(f"turn {turn}").use(
                "Bash", f"out {turn}", {"stdout": f"out {turn}"}, command=f"ls {turn}"
            ).say("ok")
        made.write(home)
    bring(ralph)
    expected = sessions(ralph)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    folder = paths.log_folder(ralph.root) / "sessions"
    for count in every((1, 8, 4), 2):
        for path in folder.glob("*"):
            path.unlink()
        paths.import_ledger(ralph.root).unlink(missing_ok=True)
        words = [sys.executable, "-m", "ralph", "import", "--yes"]
        with subprocess.Popen(
            words, cwd=ralph.root, env=environment, stdout=subprocess.DEVNULL
        ) as running:
            while running.poll() is None and len(list(folder.glob("*"))) < count:
                pass  # a kill in the middle of the work
            running.send_signal(signal.SIGKILL)
        bring(ralph)
        assert sessions(ralph) == expected
    assert ralph("doctor", "--index").code == 0


def test_no_secret_of_the_corpus_reaches_the_disk(ralph: Project, home: Path) -> None:
    texts = {
        "".join(case["secret_parts"]): "".join(case["parts"]) for case in cases("secrets.json")
    }
    texts |= {token: f"use {token} for it" for tokens in TOKENS.values() for token in tokens}
    made = Claude(ralph.root)
    texts = dict(
        every(list(texts.items()), 4)
    )  # the rules are tested with all of them in tests/capture
    for number, text in enumerate(texts.values()):
        patch = {
            "filePath": "/x/a.txt",
            "originalFile": "a",
            "structuredPatch": [{"lines": [f"+{text}"]}],
        }
        made.prompt(f"{number}: {text}").use(
            "Bash", text, {"stdout": text, "stderr": ""}, command="cat it"
        )
        made.use("Edit", "ok", patch, file_path="/x/a.txt", new_string=text).use(
            "Bash", text, failed=True, command=text
        )
        made.say(f"{number}: {text}")
    made.write(home)
    bring(ralph)
    everything = b"".join(stored(paths.state_folder(ralph.root)).values())
    assert len(observations(ralph)) >= 5 * len(texts)
    assert [secret for secret in texts if secret.encode() in everything] == []


def test_no_secret_of_several_lines_reaches_the_disk_by_an_import(
    ralph: Project, home: Path
) -> None:
    searched = every(multi_line_texts(), 3)
    made = Claude(ralph.root)
    for case in searched:
        text = case.text
        made.prompt(text).say(text)
        made.use("Bash", text, {"stdout": text, "stderr": ""}, command="cat it")
        made.use("Bash", f"Exit code 1\n{text}", "Error", failed=True, command="cat it")
        for channel in ("edit", "context of an edit", "changed value", "multi-edit", "write"):
            sent = json.loads(CHANNELS[channel](text)[1])
            made.use(sent["tool_name"], "ok", sent["tool_response"], **sent["tool_input"])
    made.write(home)
    bring(ralph)
    assert len(observations(ralph)) > len(searched)
    disk = b"\n".join(stored(paths.state_folder(ralph.root)).values())
    assert secrets_in(disk, searched) == []
