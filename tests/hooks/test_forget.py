"""`ralph forget` really forgets: hooks store no call of it, and no pull, import or old log brings it back."""

import json
import stat
from pathlib import Path

import pytest
from tests.support.runner import Block, Project, executable, page
from tests.support.world import SESSION, World, call_hook, payload, world

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.prompts import calls_forget
from ralph.formats.sigils import KnowledgeSigil
from ralph.memory import knowledge, memory
from ralph.memory.author import BY_PERSON, Author, WriteContext
from ralph.search import index

SENTENCE = "The zebrafish vault opens with the quokka song"
ID = "mem-1705751400-a3f8"
OTHER = Block("Run the migrations before the tests", id="mem-1705751401-0001")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = world(tmp_path)
    made.more.update({"XDG_STATE_HOME": str(tmp_path / "state")})  # type: ignore[attr-defined]  # a dict
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(made.home))
    made.cached()
    return made


@pytest.fixture
def ralph(here: World) -> Project:
    project = Project(here.root)
    project.memories(Block(SENTENCE, id=ID), OTHER)
    return project


def forgotten_file(here: World) -> Path:
    path = paths.forgotten_file(here.env)
    assert path is not None
    return path


COMMANDS = (
    f"ralph forget --matching '{SENTENCE}' --yes",
    f"/opt/tools/bin/ralph forget --matching '{SENTENCE}'",
    f"python -m ralph forget --matching '{SENTENCE}'",
    f"/usr/bin/python3 -I -m ralph forget --matching '{SENTENCE}'",
    f"cd src && ralph forget --matching '{SENTENCE}' && echo ok",
    f"cd src;ralph forget \\\n  --matching '{SENTENCE}'",
    f"uvx --from ralph-memory ralph forget --matching '{SENTENCE}'",
    f"pipx run ralph-memory forget --matching '{SENTENCE}'",
    f"uvx ralph-memory@latest forget --matching '{SENTENCE}'",
    f"bash -lc \"ralph --root . forget --matching '{SENTENCE}'\"",
    f"echo '{SENTENCE}' | \"$RALPH\" 'forget' --matching -",
    f"r=ralph; $r forget --matching '{SENTENCE}'",
    f"R=$(command -v ralph); $R forget --matching '{SENTENCE}'",
    f"alias r=ralph; r forget --matching '{SENTENCE}'",
    f"python src/ralph/__main__.py forget --matching '{SENTENCE}'",
    f"python -m ralph.cli.main forget --matching '{SENTENCE}'",
    f"ralph${{X}} forget --matching '{SENTENCE}'",
    f"C:\\tools\\ralph.exe FORGET --matching '{SENTENCE}'",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hook_stores_neither_the_command_nor_the_output_of_forget(
    here: World, command: str
) -> None:
    sent = payload(
        tool_input={"command": command}, tool_response={"stdout": f"would remove {SENTENCE}"}
    )
    assert call_hook("PostToolUse", sent, here.env).returncode == 0
    failed = payload(
        "PostToolUseFailure", tool_input={"command": command}, error=f"Exit code 1\n{SENTENCE}"
    )
    assert call_hook("PostToolUseFailure", failed, here.env).returncode == 0
    assert "zebrafish" not in here.log.read_text(encoding="utf-8")
    ran, broke = (line["payload"] for line in here.lines())
    assert isinstance(ran, dict)
    assert isinstance(broke, dict)
    assert (ran["tool_name"], "tool_input" in ran, "tool_response" in ran) == ("Bash", False, False)
    assert broke["error"] == "Exit code 1"
    assert here.failures() == 0


@pytest.mark.parametrize("members", [
    {"tool_name": "shell", "tool_input": {"command": ["bash", "-lc", f"ralph forget --matching '{SENTENCE}'"]}},
    {"tool_name": "SlashCommand", "tool_input": {"command": f"/ralph:mem-forget {SENTENCE}"}},
    {"tool_name": "mcp__ralph__memory_forget", "tool_input": {"text": SENTENCE}},
    {"tool_name": "Task", "tool_input": {"prompt": f"Run `ralph forget --matching '{SENTENCE}'`"}},
    {"tool_name": "mcp__sh__exec", "tool_input": {"path": "/p", "command": f"ralph forget --matching '{SENTENCE}'"}},
    {"tool_name": "Bash", "tool_input": {"file_path": "/p/a", "command": f"ralph forget --matching '{SENTENCE}'"}},
    {"tool_name": "BashOutput", "tool_input": {"id": "b"}, "error": f"ralph forget --matching '{SENTENCE}'"},
])  # fmt: skip
def test_other_tools_that_call_forget_are_stored_without_texts(
    here: World, members: dict[str, object]
) -> None:
    assert (
        call_hook(
            "PostToolUse", payload("PostToolUse", **members, tool_response=SENTENCE), here.env
        ).returncode
        == 0
    )
    assert len(here.lines()) == 1
    assert "zebrafish" not in here.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("prompt", [
    f"/mem-forget {SENTENCE}",
    f"/ralph:mem-forget {SENTENCE}",
    f"The user wants Ralph to forget what is named between the two lines.\n----\n{SENTENCE}\n----",
    f"please run: ralph forget --matching '{SENTENCE}' --yes",
    f"/MEM-FORGET {SENTENCE}",
    f"ralph: forget {SENTENCE}",
    f"Ralph, please forget that {SENTENCE}",
])  # fmt: skip
def test_a_prompt_that_calls_forget_is_neither_stored_nor_answered(
    here: World, ralph: Project, prompt: str
) -> None:
    index.sync(here.root)
    for host, event in (("claude", "UserPromptSubmit"), ("gemini", "BeforeAgent")):
        done = call_hook(event, payload(event, prompt=prompt), here.env, host=host)
        assert (done.returncode, done.stdout) == (0, b"")
    assert len(here.lines()) == 2
    assert "zebrafish" not in here.log.read_text(encoding="utf-8")
    assert ralph("search", "zebrafish", "--format", "json").json["hits"][0]["id"] == ID


@pytest.mark.parametrize("members", [
    {"tool_input": {"command": "git commit -m 'Do not forget the ralph logs'"}},
    {"tool_input": {"command": "cd /home/ralph/shop && npm test -- -t 'forget password'"}},
    {"tool_input": {"command": "ls ~/ralph-shop; ssh ralph@host cat forget"}},
    {"tool_input": {"command": "pytest src/ralph/learning/forget.py && git commit -m 'Never forget it'"}},
    {"tool_name": "Edit", "tool_input": {"file_path": "/p/a.md", "old_string": "x", "new_string": "`ralph forget ID`"}},
    {"tool_input": {"command": "cat docs/cli.md"}, "tool_response": {"stdout": "ralph forget mem-a3f8"}},
])  # fmt: skip
def test_an_event_that_only_mentions_forget_is_stored_whole(
    here: World, members: dict[str, object]
) -> None:
    sent = payload("PostToolUse", **members)
    assert call_hook("PostToolUse", sent, here.env).returncode == 0
    assert [line["payload"] for line in here.lines()] == [json.loads(sent)]


def test_a_prompt_that_only_mentions_forget_is_stored_whole(here: World) -> None:
    for prompt in (
        "Use ralph, and don't forget the tests",
        "ralph has a memory, so that people need not forget",
        "In /home/ralph/shop the forget password page fails",
    ):
        call_hook("UserPromptSubmit", payload("UserPromptSubmit", prompt=prompt), here.env)
        assert here.lines()[-1]["payload"] == json.loads(payload("UserPromptSubmit", prompt=prompt))


def test_a_call_is_searched_for_at_both_ends_of_a_large_text() -> None:
    filler = "/usr/lib " * 50_000
    assert calls_forget(f"ralph forget it {filler}")
    assert calls_forget(f"{filler} ralph forget it")
    assert not calls_forget(f"{filler} ralph forget it {filler}")


def test_no_event_is_lost_where_a_call_cannot_be_noted(here: World) -> None:
    notes = paths.cache_folder(here.root) / "forgets"
    notes.write_text("", encoding="utf-8")
    call_hook(
        "PostToolUse", payload(tool_input={"command": f"ralph forget '{SENTENCE}'"}), here.env
    )
    notes.unlink()
    (notes / SESSION).mkdir(parents=True)
    call_hook(
        "UserPromptSubmit", payload("UserPromptSubmit", prompt="now something else"), here.env
    )
    assert [line["event"] for line in here.lines()] == ["PostToolUse", "UserPromptSubmit"]
    assert "zebrafish" not in here.log.read_text(encoding="utf-8")
    assert here.failures() == 2


def test_no_answer_of_a_turn_with_forget_is_stored(here: World) -> None:
    answer = {
        "last_assistant_message": f"This would go: {SENTENCE}",
        "agent_type": "general",
        "agent_id": "a",
    }
    for command in ("echo a wombat", f"ralph forget {ID}"):
        call_hook("UserPromptSubmit", payload("UserPromptSubmit", prompt="go on"), here.env)
        call_hook("PostToolUse", payload(tool_input={"command": command}), here.env)
    polled = payload(
        tool_name="BashOutput", tool_input={"bash_id": "b"}, tool_response={"stdout": SENTENCE}
    )
    call_hook("PostToolUse", polled, here.env)
    for event in ("SubagentStop", "Stop", "Stop"):
        call_hook(event, payload(event, **answer), here.env)
    call_hook(
        "AfterAgent",
        payload("AfterAgent", prompt="go on", prompt_response=SENTENCE),
        here.env,
        host="gemini",
    )
    assert "zebrafish" not in here.log.read_text(encoding="utf-8")
    call_hook(
        "UserPromptSubmit", payload("UserPromptSubmit", prompt="now something else"), here.env
    )
    for event in ("SubagentStop", "Stop"):
        call_hook(event, payload(event, **answer), here.env)
    assert here.log.read_text(encoding="utf-8").count(SENTENCE) >= 2
    assert here.failures() == 0


def test_an_answer_that_quotes_the_call_is_not_stored(here: World) -> None:
    quoted = f"I ran `ralph forget --matching '{SENTENCE}'`"
    for event in ("SubagentStop", "Stop"):
        call_hook(
            event,
            payload(event, last_assistant_message=quoted, agent_type="general", agent_id="a"),
            here.env,
        )
    task = payload(
        "PreToolUse", tool_name="Agent", tool_input={"prompt": quoted}, tool_response=None
    )
    call_hook("PreToolUse", task, here.env)
    assert b"zebrafish" not in Project(here.root).everything()


def test_a_text_with_longer_words_does_not_quote_a_forgotten_memory(
    here: World, ralph: Project
) -> None:
    korean = "한국 서버는 금요일에 배포하지 않는다"
    ralph.memories(Block("Use pnpm here", id=ID), Block(korean, id=OTHER.id))
    prompts = (
        "because pnpm hereafter is nice",
        "I said: USE pnpm, here!",
        f"「{korean}고 적혀 있다",
    )
    for session, prompt in zip("abc", prompts, strict=True):
        call_hook(
            "UserPromptSubmit",
            payload("UserPromptSubmit", prompt=prompt, session_id=session),
            here.env,
        )
    assert ralph("forget", ID, OTHER.id, "--yes").code == 0
    assert [name for name in "abc" if (here.log.parent / f"{name}.jsonl").exists()] == ["a"]


def test_what_quotes_a_forgotten_memory_goes_with_it(here: World, ralph: Project) -> None:
    quoted = f"I know this:\n\n> {SENTENCE.replace(' with', chr(10) + '> with')}."
    for session, message in (("a", quoted), ("b", "Nothing about any vault")):
        call_hook(
            "Stop", payload("Stop", session_id=session, last_assistant_message=message), here.env
        )
    run = ralph.put("log/runs/run-1/0001.md", f"# Memories\n\n- [{ID}] {SENTENCE}\n")
    other = ralph.put("log/runs/run-1/0002.md", "# Memories\n")
    ralph.put(".ralph/scratchpad.md", f"first\nnote: {SENTENCE}\n")
    done = ralph("forget", ID, "--yes")
    assert done.code == 1
    assert ".ralph/scratchpad.md:2: not removed: edit it by hand" in done.err
    assert not run.exists()
    assert other.exists()
    ralph.put(".ralph/scratchpad.md", "")
    assert b"zebrafish" not in ralph.everything().lower()
    assert "Nothing about any vault" in ralph.read("log/sessions/b.jsonl")
    started = call_hook(
        "SessionStart", payload("SessionStart", source="startup", session_id="c"), here.env
    )
    assert b"zebrafish" not in started.stdout


def test_forget_prints_ids_and_no_text_and_leaves_a_salted_hash(
    here: World, ralph: Project
) -> None:
    done = executable(here.root, "forget", ID, "--yes", env=here.env)
    assert done.returncode == 0
    assert ID.encode() in done.stdout
    assert b"zebrafish" not in done.stdout + done.stderr
    ralph("memory", "add", f"{SENTENCE} twice", "--format", "json")
    added = ralph("memory", "list", "--format", "json").json[-1]["id"]
    assert "zebrafish" not in ralph("forget", added, "--yes", "--format", "json").out
    file = forgotten_file(here)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key, *hashes = file.read_text(encoding="utf-8").splitlines()
    assert len(key) == 64
    assert len(hashes) == 2
    assert not file.is_relative_to(here.root)


def test_a_pull_that_brings_the_entry_back_neither_shows_nor_injects_it(
    here: World, ralph: Project
) -> None:
    before = ralph.read()
    assert ralph("forget", ID, "--yes").code == 0
    ralph.put(
        ".agent/memories.md", before.replace("The zebrafish vault", "the  Zebrafish\n> vault")
    )
    assert ralph("search", "zebrafish", "--format", "json").json["hits"] == []
    assert "zebrafish" not in ralph("memory", "prime").out.lower()
    assert "zebrafish" not in ralph("memory", "list").out.lower()
    started = call_hook("SessionStart", payload("SessionStart", source="startup"), here.env)
    assert b"migrations" in started.stdout
    assert b"zebrafish" not in started.stdout.lower()
    asked = call_hook(
        "UserPromptSubmit",
        payload("UserPromptSubmit", prompt="the zebrafish vault quokka song"),
        here.env,
    )
    assert b"zebrafish" not in asked.stdout.lower()
    assert ralph("doctor", "--index").code == 0
    doctor = ralph("doctor")
    assert "1 forgotten entry is back" in doctor.out
    assert f"ralph forget {ID} --yes" in doctor.out
    assert ralph("forget", ID, "--yes").code == 0
    assert "zebrafish" not in ralph.read().lower()
    assert "forgotten" not in ralph("doctor").out


def test_a_person_who_adds_the_text_again_gets_it_back(here: World, ralph: Project) -> None:
    before = ralph.read()
    assert ralph("forget", ID, "--yes").code == 0
    assert ralph("memory", "add", SENTENCE).code == 1  # without a terminal it is no person
    memory.add(ralph.root, f"  {SENTENCE.upper()} ", context=BY_PERSON)
    assert len(ralph("search", "zebrafish", "--format", "json").json["hits"]) == 1
    assert ralph("forget", "--matching", "zebrafish", "--yes").code == 0
    ralph.put(".agent/memories.md", before)
    assert ralph("search", "zebrafish", "--format", "json").json["hits"] == []
    memory.add(ralph.root, SENTENCE, context=BY_PERSON)  # it is in the file already
    assert ralph("search", "zebrafish", "--format", "json").json["hits"][0]["id"] == ID


def texts(ralph: Project) -> list[str]:
    return [
        hit["text"] for hit in ralph("search", "zebrafish wombat", "--format", "json").json["hits"]
    ]


def test_another_project_keeps_its_index_and_hides_the_same_text(
    here: World, ralph: Project, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    other = World(world(tmp_path / "more").root, here.home, here.more)
    other.cached()
    theirs = Project(other.root)
    theirs.memories(Block(SENTENCE, id=ID), OTHER)
    for prompt in (SENTENCE, "compare the wombat tables"):
        call_hook("UserPromptSubmit", payload("UserPromptSubmit", prompt=prompt), other.env)
    call_hook("Stop", payload("Stop", last_assistant_message="Done."), other.env)
    assert texts(theirs).count(SENTENCE) == 2
    before = paths.index_file(other.root).stat().st_ino
    assert ralph("forget", ID, "--yes").code == 0
    assert SENTENCE not in texts(theirs)
    assert "compare the wombat tables" in texts(theirs)
    assert theirs("doctor", "--index").code == 0
    assert paths.index_file(other.root).stat().st_ino == before
    memory.add(theirs.root, SENTENCE, context=BY_PERSON)
    assert SENTENCE in texts(theirs)


def test_an_agent_and_a_loop_do_not_store_a_forgotten_text_again(
    here: World, ralph: Project
) -> None:
    assert ralph("forget", ID, "--yes").code == 0
    by_mcp = WriteContext(Author("agent", via="mcp"))
    for in_, more in (("memories", {}), ("knowledge", {"title": "Vault", "tags": ("vault",)})):
        with pytest.raises(Refused, match="was forgotten"):
            memory.add(here.root, SENTENCE, in_=in_, context=by_mcp, **more)  # type: ignore[arg-type]  # names
    [learned] = knowledge.learn(here.root, [KnowledgeSigil("Vault", ("vault",), f"{SENTENCE}.")])
    assert learned.change is memory.Change.REFUSED
    assert b"zebrafish" not in ralph.everything().lower()


def test_a_restored_log_brings_back_neither_event_nor_summary(here: World, ralph: Project) -> None:
    call_hook(
        "UserPromptSubmit", payload("UserPromptSubmit", prompt=f"Remember: {SENTENCE}"), here.env
    )
    call_hook("UserPromptSubmit", payload("UserPromptSubmit", prompt="continue"), here.env)
    call_hook("Stop", payload("Stop", last_assistant_message="Noted."), here.env)
    restored = here.log.read_text(encoding="utf-8")
    assert "zebrafish" in restored
    assert ralph("forget", "--matching", "zebrafish", "--yes").code == 0
    assert b"zebrafish" not in ralph.everything().lower()
    here.log.write_text(restored, encoding="utf-8")
    assert ralph("search", "zebrafish", "--format", "json").json["hits"] == []
    assert "zebrafish" not in ralph("session", "list").out.lower()
    for more in ("startup", "resume"):
        started = call_hook(
            "SessionStart", payload("SessionStart", source=more, session_id="other"), here.env
        )
        assert b"zebrafish" not in started.stdout.lower()
    assert ralph("doctor", "--index").code == 0


def test_a_forgotten_session_does_not_hide_what_others_say_in_the_same_words(
    here: World, ralph: Project
) -> None:
    sent = payload("UserPromptSubmit", prompt="compare the wombat tables")
    call_hook("UserPromptSubmit", sent, here.env)
    assert ralph("forget", "--session", SESSION, "--yes").code == 0
    call_hook("UserPromptSubmit", sent, here.env)
    call_hook("Stop", payload("Stop", last_assistant_message="Done."), here.env)
    assert texts(ralph).count("compare the wombat tables") == 1


def test_an_old_log_with_the_call_itself_does_not_bring_the_text_back(
    here: World, ralph: Project
) -> None:
    call_hook("PostToolUse", payload(tool_input={"command": "echo wombat"}), here.env)
    line = here.log.read_text(encoding="utf-8").replace(
        "echo wombat", f"ralph forget --matching '{SENTENCE} 2'"
    )
    here.log.write_text(line, encoding="utf-8")
    ralph.put(".agent/memories.md", page(OTHER))
    assert ralph("search", "zebrafish", "--format", "json").json["hits"] == []
