"""A session as a conversation: turns in their order, tools folded into the answer that follows."""

from pathlib import Path

from tests.support.session_logs import about, line, put

from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.recall import conversation
from ralph.recall.conversation import Speaker, ToolUse, Turn
from ralph.recall.json_shapes import history_json


def note(words: str, minute: int, by: str, **extra: object) -> Record:
    at = f"2026-11-10T10:{minute:02}:00Z" if minute >= 0 else ""
    origin = Origin(by=by, session="s")
    kind = ObservationKind.NOTE
    return Record(
        f"obs-{minute}-{by}",
        kind,
        words,
        Family.OBSERVATION,
        origin=origin,
        created_at=at,
        extra=extra,
    )


def tool(title: str, minute: int, kind: ObservationKind = ObservationKind.TOOL_USE) -> Record:
    at = f"2026-11-10T10:{minute:02}:00Z"
    return Record(f"obs-{minute}-t", kind, "", Family.OBSERVATION, title=title, created_at=at)


def test_turns_stand_in_the_order_of_their_times_with_the_tools_before_an_answer() -> None:
    held = [
        note("Do it.", 0, "human"),
        note("Done.", 9, "agent"),
        tool("Read a", 1),
        tool("Bash: make", 2, ObservationKind.ERROR),
        note("found it\nmore", 3, "agent", agent_id="x"),
    ]
    user, assistant = conversation.to_turns(held)
    assert user == Turn(Speaker.USER, "2026-11-10T10:00:00Z", "Do it.")
    assert assistant.text == "Done."
    assert [(each.title, each.failed) for each in assistant.tools] == [
        ("Read a", False),
        ("Bash: make", True),
        ("subagent: found it", False),
    ]


def test_tools_without_an_answer_stand_alone() -> None:
    held = [
        note("Do it.", 0, "human"),
        tool("Read a", 1),
        note("Again.", 2, "human"),
        tool("Read b", 3),
    ]
    assert [
        (each.by.value, each.text, len(each.tools)) for each in conversation.to_turns(held)
    ] == [
        ("user", "Do it.", 0),
        ("assistant", "", 1),
        ("user", "Again.", 0),
        ("assistant", "", 1),
    ]


def test_what_was_used_several_times_is_counted_and_of_many_the_first_are_named() -> None:
    turn = Turn(
        Speaker.ASSISTANT,
        "",
        "",
        (ToolUse("Read a"), ToolUse("Read a"), ToolUse("Bash: make", failed=True)),
    )
    assert turn.tool_summary == "3 tools: Read a x2, Bash: make (failed)"
    assert Turn(Speaker.ASSISTANT, "", "", (ToolUse("Read a"),)).tool_summary == "1 tool: Read a"
    many = Turn(Speaker.ASSISTANT, "", "", tuple(ToolUse(f"Read {number}") for number in range(20)))
    assert many.tool_summary.endswith(", Read 7, and 12 more")
    assert Turn(Speaker.USER, "", "x").tool_summary == ""


def test_a_whole_text_takes_the_place_of_its_observation(tmp_path: Path) -> None:
    first = line("s", 1, "why [... 9 characters left out ...] slow?")
    name = first.split('"id":"')[1].split('"')[0]
    odd = about("s", messages=[{"id": name}, "odd", {"id": 7, "text": "x"}], summary="x") + about(
        "s", messages=2
    )
    put(
        tmp_path, "s", first, about("s", messages=[{"id": name, "text": "why is it so slow?"}]), odd
    )
    [turn] = conversation.read_history(tmp_path, "s").turns
    assert turn.text == "why is it so slow?"


def test_the_page_has_every_message(tmp_path: Path) -> None:
    put(
        tmp_path,
        "s",
        about("s", host="claude", started_at="2026-11-10T09:59:00Z"),
        line("s", 1, "why is it slow?"),
        line("s", 2, "ran make", ObservationKind.TOOL_USE, "tool"),
        line("s", 3, "The cache.\n\nReally.", by="agent"),
    )
    found = conversation.read_history(tmp_path, "s")
    assert conversation.render_markdown(found) == (
        "# why is it slow?\n\n- session: s\n- mode: agent\n- host: claude\n- started: 2026-11-10 09:59\n- messages: 2\n"
        "\n## User (2026-11-10 10:01)\n\nwhy is it slow?\n"
        "\n## Assistant (2026-11-10 10:03)\n\n> 1 tool: ran make\n\nThe cache.\n\nReally.\n"
    )
    shape = history_json(found)
    assert (shape["id"], shape["count"]) == ("s", 2)
    assert shape["messages"] == [
        {"role": "user", "at": "2026-11-10T10:01:00Z", "text": "why is it slow?", "tools": []},
        {
            "role": "assistant",
            "at": "2026-11-10T10:03:00Z",
            "text": "The cache.\n\nReally.",
            "tools": [{"title": "ran make", "at": "2026-11-10T10:02:00Z", "failed": False}],
        },
    ]
