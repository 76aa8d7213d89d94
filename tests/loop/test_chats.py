"""Chats: new, resume, fork and the host's client, with the scripted agent and real programs."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.support.chatting import HOST, Place, answers, place

from ralph.capture.events import Event, EventKind
from ralph.core import paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.core.paths import session_log
from ralph.core.settings import Config, Loop, Privacy
from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.formats.log import encode_line
from ralph.hooks import events as hook
from ralph.loop import chats
from ralph.loop.chats import ChatRequest
from ralph.recall import chat_log, conversation, sessions
from ralph.recall.chat_log import Chat, Mode
from ralph.storage import board


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "project")


def test_a_new_chat_is_asked_about_its_task_and_recorded_with_it(here: Place) -> None:
    said = here.new("How would you do it?", *answers("In two steps."), mode=Mode.PLAN)
    [ask] = here.agent.asks
    assert (ask.read_only, ask.session, ask.folder) == (True, "", here.root)
    assert ask.environment == {"RALPH_TASK": here.task, "RALPH_RUN": "", "RALPH_ITERATION": ""}
    assert "split the till" in ask.prompt
    assert "The printer stays." in ask.prompt
    assert ask.prompt.endswith("\nHow would you do it?")
    assert said.chat == Chat(HOST, here.task, Mode.PLAN, "codex", folder=".", host=HOST)
    [listed] = sessions.list_(here.root, task=here.task)[0]
    assert (listed.id, listed.task, listed.mode, listed.host, listed.messages) == (
        HOST,
        here.task,
        "plan",
        "codex",
        2,
    )
    assert here.told(HOST) == [("user", "How would you do it?"), ("assistant", "In two steps.")]


def test_a_resumed_chat_keeps_its_mode_whatever_is_written_behind_it(here: Place) -> None:
    here.new("Plan it.", *answers("Yes."), mode=Mode.PLAN)
    with session_log(here.root, HOST).open("a", encoding="utf-8", newline="") as log:
        log.write(encode_line("session", {"id": HOST, "mode": "agent", "host": "codex"}))
    assert sessions.find(here.root, HOST).mode == "plan"
    here.resume(HOST[:8], "Go on.", *answers("Gladly."))
    [ask] = here.agent.asks
    assert (ask.read_only, ask.session, ask.prompt) == (True, HOST, "Go on.")
    assert [text for _, text in here.told(HOST)] == ["Plan it.", "Yes.", "Go on.", "Gladly."]


def test_a_plan_can_be_carried_out_in_agent_mode(here: Place) -> None:
    here.new("Plan it.", *answers("In two steps."), mode=Mode.PLAN)
    here.resume(HOST, "Do it.", *answers("Done."), request=ChatRequest(mode=Mode.AGENT))
    [ask] = here.agent.asks
    assert (ask.read_only, ask.session) == (False, HOST)
    assert sessions.find(here.root, HOST).mode == "agent"
    here.resume(HOST, "And now?", *answers("Nothing is left."))
    assert not here.agent.asks[0].read_only, "it keeps its new mode"
    assert [text for _, text in here.told(HOST)][:3] == ["Plan it.", "In two steps.", "Do it."]


def test_an_unknown_mode_is_plan(here: Place) -> None:
    here.new("Work.", *answers("Yes."))
    log = session_log(here.root, HOST)
    log.write_text(
        here.log(HOST).replace('"mode":"agent"', '"mode":"godlike"'), encoding="utf-8", newline=""
    )
    found = chat_log.read_chat(here.root, HOST)
    assert found is not None
    assert found.mode is Mode.PLAN


def test_an_agent_that_could_write_is_not_asked_to_plan(here: Place) -> None:
    agent = here.by(*answers("Yes."), name="command", enforces_read_only=False)
    with pytest.raises(UsageError, match="'command' has no read-only mode"):
        chats.new(
            here.root,
            here.config,
            ChatRequest(task=here.task, mode=Mode.PLAN, agent=agent),
            "Plan.",
        )
    assert agent.asks == []
    assert sessions.list_(here.root) == ((), 0)


def test_an_agent_without_sessions_gets_an_id_of_ours_and_cannot_go_on(here: Place) -> None:
    said = here.new("Hello.", *answers("Hi.", session=""), name="command")
    assert said.chat.id.startswith("chat-")
    agent = here.by(*answers("Hi."), name="command")
    with pytest.raises(Refused, match="keeps no sessions") as refused:
        chats.resume(here.root, here.config, said.chat.id, "And?", ChatRequest(agent=agent))
    assert f"ralph session chat --task {here.task}" in refused.value.hint
    assert agent.asks == []


@pytest.mark.parametrize(
    "words",
    [
        "No conversation found with session ID: 0a1b",
        "thread/resume failed: no rollout found for thread id 0a1b",
        "Resource not found: 0a1b",
        "Session not found",
        "it cannot go on with an earlier session",
    ],
)
def test_a_session_that_its_host_has_lost_is_an_error_and_not_recorded(
    here: Place, words: str
) -> None:
    here.new("Hello.", *answers("Hi."))
    before = here.log(HOST)
    with pytest.raises(NotFound, match=f"codex .*the session {HOST}") as lost:
        here.resume(
            HOST, "And?", lambda ask: Reply("", StopReason.CRASHED, session=HOST, error=words)
        )
    assert f"ralph session chat --task {here.task}" in lost.value.hint
    assert here.log(HOST) == before


def test_a_host_that_gives_a_resumed_session_another_id_is_followed(here: Place) -> None:
    here.new("Hello.", *answers("Hi."), mode=Mode.PLAN)
    said = here.resume(HOST, "And?", *answers("Well.", session="later-2"))
    assert (said.chat.id, said.chat.source, said.chat.mode) == ("later-2", HOST, Mode.PLAN)
    assert here.told("later-2") == [("user", "And?"), ("assistant", "Well.")]


def test_a_session_that_hooks_have_recorded_can_be_resumed_in_its_mode(here: Place) -> None:
    path = session_log(here.root, "by-hand")
    path.parent.mkdir(parents=True)
    line = encode_line(
        "session", {"id": "by-hand", "host": "codex", "mode": "plan", "started_at": "2026-11-10"}
    )
    path.write_text(line, encoding="utf-8", newline="")
    said = here.resume("by-hand", "Go on.", *answers("Yes.", session="by-hand"))
    assert (here.agent.asks[0].session, here.agent.asks[0].read_only) == ("by-hand", True)
    assert (said.chat.id, said.chat.task) == ("by-hand", "")


@pytest.mark.parametrize("host", ["--dangerously-skip-permissions", "a b", ""])
def test_an_id_that_looks_like_an_option_is_refused(here: Place, host: str) -> None:
    path = session_log(here.root, "odd")
    path.parent.mkdir(parents=True)
    about = {"agent": "codex", "mode": "agent", "host": host}
    path.write_text(
        encode_line("session", {"id": "odd", "chat": about}), encoding="utf-8", newline=""
    )
    with pytest.raises(Refused, match="odd cannot continue"):
        here.resume("odd", "Go on.", *answers("Yes."))
    assert here.agent.asks == []


def test_a_chat_takes_place_in_the_tasks_worktree_and_says_when_that_is_gone(here: Place) -> None:
    worktree = here.root / ".worktrees" / here.task
    worktree.mkdir(parents=True)
    file = here.root / ".ralph/tasks" / here.task / "task.json"
    text = file.read_text(encoding="utf-8").rstrip().removesuffix("}").rstrip()
    file.write_text(
        f'{text},\n  "worktree": ".worktrees/{here.task}"\n}}\n', encoding="utf-8", newline=""
    )
    said = here.new("Hello.", *answers("Hi."))
    assert here.agent.asks[0].folder == worktree
    assert said.chat.folder == f".worktrees/{here.task}"
    worktree.rmdir()
    with pytest.raises(NotFound, match="is gone"):
        here.resume(HOST, "And?", *answers("Well."))


def test_an_agent_that_did_not_begin_leaves_nothing(here: Place) -> None:
    missing = Config(loop=Loop(agent="claude", agent_command="no-such-program-of-ours"))
    said = chats.new(here.root, missing, ChatRequest(task=here.task), "Hello.")
    assert (said.reply.stop, said.recorded) == (StopReason.UNAVAILABLE, False)
    assert "there is no such program" in said.reply.error
    assert sessions.list_(here.root) == ((), 0)


def test_claude_code_is_given_an_id_so_that_a_chat_is_known_while_it_runs(
    here: Place, tmp_path: Path
) -> None:
    program = tmp_path / "claude"
    listing = f'ls {paths.log_folder(here.root)}/sessions > {tmp_path}/known; echo "$@" > {tmp_path}/words; cat > /dev/null'
    event = '{"type":"result","subtype":"success","result":"Hi."}'
    program.write_text(f"#!/bin/sh\n{listing}\necho '{event}'\n", encoding="utf-8", newline="")
    program.chmod(0o755)
    config = Config(loop=Loop(agent="claude", agent_command=str(program), permission="plan"))
    said = chats.new(here.root, config, ChatRequest(task=here.task), "Hello.")
    assert (tmp_path / "known").read_text(encoding="utf-8") == f"{said.chat.id}.jsonl\n"
    words = (tmp_path / "words").read_text(encoding="utf-8")
    assert f"--session-id {said.chat.id}" in words
    assert "--permission-mode plan" in words
    assert here.told(said.chat.id) == [("user", "Hello."), ("assistant", "Hi.")]


def test_an_empty_message_or_an_unknown_task_starts_no_agent(here: Place) -> None:
    with pytest.raises(UsageError, match="there is no message"):
        here.new(" \n", *answers("Hi."))
    with pytest.raises(NotFound, match="Task not found: t-nope"):
        chats.new(
            here.root,
            here.config,
            ChatRequest(task="t-nope", agent=here.by(*answers("Hi."))),
            "Hello.",
        )
    assert here.agent.asks == []


def test_a_silent_chat_can_go_on_and_keeps_no_word(here: Place) -> None:
    said = here.new("A quiet word.", *answers("A quiet answer."), silent=True)
    assert not said.recorded
    assert "quiet" not in here.log(HOST)
    assert here.told(HOST) == []
    here.resume(HOST, "Aloud.", *answers("Yes."))
    assert here.told(HOST) == [("user", "Aloud."), ("assistant", "Yes.")]


def test_a_stopped_turn_records_its_text(here: Place) -> None:
    cut = Reply("I was about to", StopReason.CANCELLED, session=HOST, error="it was stopped")
    said = here.new("Go.", lambda ask: cut)
    assert said.reply.stop is StopReason.CANCELLED
    assert here.told(HOST) == [("user", "Go."), ("assistant", "I was about to")]


def test_what_is_private_or_secret_reaches_no_file(here: Place) -> None:
    here.config = Config(privacy=Privacy(patterns=("swordfish-[0-9]+",), paths=("vault/**",)))
    secret = "ghp_" + "9fQ2mX7vLr4Kt8Zb" + "Wc1Ny6HsDe3Jp5Ga0Ru2"
    calls: list[Ask] = []

    def reply(ask: Ask) -> Reply:
        calls.append(ask)
        used = (ToolCall("Read", ("vault/key.txt",)), ToolCall("Edit", ("till.py",), writes=True))
        return Reply(
            f"It is {secret} and swordfish-42. " + "More words. " * 400, session=HOST, calls=used
        )

    here.new(f"<private>hush</private> My token is {secret}.", reply)
    assert "hush" in calls[0].prompt, "the agent is told what was said"
    everything = b"".join(path.read_bytes() for path in here.root.rglob("*") if path.is_file())
    for word in (secret, "hush", "swordfish-42", "vault/key"):
        assert word.encode() not in everything
    told = conversation.read_history(here.root, HOST).turns
    assert [tool.title for turn in told for tool in turn.tools] == ["Edit till.py"]


HOLDER = """
import sys
from pathlib import Path
from ralph.loop import chats
with chats.chat_lock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
"""


class Killed(BaseException):
    """The end of our process in the middle of a turn."""


def hooked(here: Place, name: str, host: str = "codex") -> None:
    """What a host's hooks record of a session while it runs."""
    event = Event(
        EventKind.USER_PROMPT_SUBMIT,
        host,
        name,
        board.precise_timestamp(),
        prompt="Hello.",
        mode="agent",
    )
    hook.record_event(here.root, event, Config(), {"task": here.task})


def killed(
    here: Place, mode: Mode = Mode.PLAN, name: str = "codex", host: str = "codex", seen: str = HOST
) -> None:
    """A chat whose first turn is cut short by our own end, after the hooks have seen it."""

    def step(ask: Ask) -> NoReturn:
        if seen:
            hooked(here, seen, host)
        raise Killed

    with pytest.raises(Killed):
        here.new("Plan.", step, mode=mode, name=name)


def test_a_second_process_is_refused_until_the_first_one_is_gone(here: Place) -> None:
    words = [sys.executable, "-c", HOLDER, str(here.root), HOST]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            Conflict, match=f"another turn of {HOST} is running \\(process {other.pid}, since "
        ):
            chats.chat_lock(here.root, HOST).__enter__()
        with chats.chat_lock(here.root, "another"):
            pass
        other.kill()
    with chats.chat_lock(here.root, HOST):
        pass
    assert list((paths.cache_folder(here.root) / "chats").iterdir()) == []


def test_what_was_held_leaves_no_file(here: Place) -> None:
    with chats.chat_lock(here.root, HOST):
        pass
    assert list((paths.cache_folder(here.root) / "chats").iterdir()) == []


def test_a_chat_that_is_being_answered_is_not_resumed_meanwhile_and_the_agent_is_not_asked(
    here: Place,
) -> None:
    here.new("Hello.", *answers("Hi."))
    second = Place(here.root, here.task)

    def step(ask: Ask) -> Reply:
        with pytest.raises(Conflict, match="another turn of"):
            second.resume(HOST, "Me, too.", *answers("Never."))
        return Reply("First.", session=HOST)

    here.resume(HOST, "One.", step)
    assert second.agent.asks == []
    assert [text for _, text in here.told(HOST)] == ["Hello.", "Hi.", "One.", "First."]
    second.resume(HOST, "Two.", *answers("Second."))
    assert here.told(HOST)[-1] == ("assistant", "Second.")


def test_a_chat_in_its_first_turn_cannot_be_resumed_though_hooks_have_recorded_it(
    here: Place,
) -> None:
    second = Place(here.root, here.task)

    def step(ask: Ask) -> Reply:
        hooked(here, HOST)
        with pytest.raises(Conflict, match="another turn of chat-"):
            second.resume(HOST, "Me, too.", *answers("Never."))
        return Reply("First.", session=HOST)

    said = here.new("One.", step, mode=Mode.PLAN)
    assert (said.chat.id, said.chat.mode, said.chat.source) == (HOST, Mode.PLAN, "")
    assert [each.id for each in sessions.list_(here.root)[0]] == [HOST], "the id of ours is gone"


@pytest.mark.parametrize(
    ("name", "host"), [("codex", "codex"), ("acp", "claude"), ("acp", "gemini")]
)
def test_a_plan_that_was_killed_in_its_first_turn_is_resumed_as_a_plan(
    here: Place, name: str, host: str
) -> None:
    killed(here, name=name, host=host)
    said = chats.resume(
        here.root,
        here.config,
        HOST,
        "Do it.",
        ChatRequest(agent=here.by(*answers("No."), name=name)),
    )
    assert here.agent.asks[0].read_only
    assert here.agent.asks[0].session == HOST
    assert (said.chat.mode, said.chat.agent) == (Mode.PLAN, name)
    assert [each.id for each in sessions.list_(here.root)[0]] == [HOST]


def test_its_mode_is_on_the_disk_while_the_agent_starts(here: Place) -> None:
    seen: list[Mode] = []

    def step(ask: Ask) -> Reply:
        seen.extend(each.mode for each, _ in chat_log.unnamed_chats(here.root))
        return Reply("Yes.", session=HOST)

    here.new("Plan.", step, mode=Mode.PLAN)
    assert seen == [Mode.PLAN]
    assert chat_log.unnamed_chats(here.root) == []


def test_only_the_first_session_since_is_taken_for_the_chat_that_was_killed(here: Place) -> None:
    hooked(here, "before-1")
    killed(here)
    hooked(here, "later-1")
    assert [chats.find_chat(here.root, name).mode for name in ("before-1", "later-1")] == [
        Mode.AGENT,
        Mode.AGENT,
    ]
    assert chats.find_chat(here.root, HOST).mode is Mode.PLAN
    assert chats.find_chat(here.root, "later-1").mode is Mode.AGENT, "and it is taken once"


def test_a_chat_without_messages_is_shown_and_cannot_go_on(here: Place) -> None:
    killed(here, seen="")
    [left] = sessions.list_(here.root)[0]
    assert (left.mode, left.task, left.messages) == ("plan", here.task, 0)
    with pytest.raises(RalphError, match="cannot continue"):
        here.resume(left.id, "Well?", *answers("Never."))


def test_an_agent_without_a_session_id_leaves_nothing_unless_hooks_recorded_it(here: Place) -> None:
    nothing = Reply("", StopReason.CANCELLED, error="it was stopped")
    with pytest.raises(RalphError, match="codex did not begin: it was stopped"):
        here.new("Plan.", lambda ask: nothing, mode=Mode.PLAN)
    assert sessions.list_(here.root) == ((), 0)

    def step(ask: Ask) -> Reply:
        hooked(here, HOST)
        return nothing

    assert not here.new("Plan.", step, mode=Mode.PLAN).recorded
    assert chats.find_chat(here.root, HOST).mode is Mode.PLAN


PLAYER = Path(__file__).parents[1] / "support" / "acp_agent.py"
THREAD = "0199f1aa-0000-7000-8000-000000000001"
CODEX = f"""#!/bin/sh
echo "$@" >> words
cat >> asked
echo '{{"type":"thread.started","thread_id":"{THREAD}"}}'
echo '{{"type":"item.completed","item":{{"type":"agent_message","text":"The plan."}}}}'
echo '{{"type":"turn.completed"}}'
"""


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(0o755)
    return str(path)


def test_a_plan_on_codex_begins_and_goes_on_in_the_read_only_sandbox(here: Place) -> None:
    request = ChatRequest(
        task=here.task, mode=Mode.PLAN, agent="codex", command=program(here.root, "codex", CODEX)
    )
    said = chats.new(here.root, here.config, request, "How?")
    assert (said.chat.id, said.chat.host, said.reply.text) == (THREAD, THREAD, "The plan.")
    more = ChatRequest(command=request.command, permission="bypass")
    chats.resume(here.root, here.config, THREAD, "And now do it.", more)
    first, second = (here.root / "words").read_text(encoding="utf-8").splitlines()
    assert "--sandbox read-only" in first
    assert "--sandbox read-only" in second
    assert second.endswith(f"resume {THREAD} -")
    assert [text for _, text in here.told(THREAD)] == [
        "How?",
        "The plan.",
        "And now do it.",
        "The plan.",
    ]
    assert [(each.id, each.mode) for each in sessions.list_(here.root)[0]] == [(THREAD, "plan")]


def test_a_plan_over_acp_writes_nothing_and_goes_on_in_the_loaded_session(
    here: Place, tmp_path: Path
) -> None:
    words = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(PLAYER))} works\n"
    request = ChatRequest(
        task=here.task,
        mode=Mode.PLAN,
        agent="acp",
        command=program(tmp_path, "claude-agent-acp", words),
    )
    said = chats.new(here.root, here.config, request, "How?")
    assert (said.chat.id, said.chat.mode, said.reply.files) == ("s-1", Mode.PLAN, ())
    assert heard(tmp_path)["answers"] == ["no", "no", "no", "yes", "no"], (
        "to read is all that it may"
    )
    again = chats.resume(
        here.root,
        here.config,
        "s-1",
        "And now do it.",
        ChatRequest(command=request.command, permission="bypass"),
    )
    assert heard(tmp_path)["loaded"] == "s-1"
    assert heard(tmp_path)["answers"] == ["no", "no", "no", "yes", "no"]
    assert again.chat == said.chat
    assert not (here.root / "inside.txt").exists()
    assert [(each.id, each.mode) for each in sessions.list_(here.root)[0]] == [("s-1", "plan")]


def heard(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "heard.json").read_text(encoding="utf-8"))
    return found
