"""Our hooks in a settings file of any layout: put in by insertions only, and out again without a trace."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ralph.app.hosts.install_hosts import STUB, Host, Program, events, groups
from ralph.errors import Unreadable
from ralph.formats.host_files import has_current_hooks, is_ralph_hook, ralph_hooks, with_hooks, without_hooks

OURS = Program(Path("/opt/ralph/bin/python"), Path("/opt/ralph/lib/ralph/hooks/run.py"))
MOVED = Program(Path("/new place/bin/python"), Path("/new place/lib/ralph/hooks/run.py"))
THEIRS_HOOK = {"type": "command", "command": "echo ralph/hooks/run.pyc"}
THEIRS = {"matcher": "Bash", "hooks": [THEIRS_HOOK]}
WANTED = groups(Host.CLAUDE, OURS)

# --- files as people and programs lay them out ---------------------------------------------------

_SPACE = st.sampled_from(["", "", " ", "\n", "\r\n", "\n  ", "\n\t", "\r\n    ", "  ", " \n\n "])
_KEYS = st.sampled_from(["a", "model", "hook", "env", "Stop", "ключ", 'q"uote'])
_VALUES = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "", "x", "hooks", "// no comment", "ralph", "}{", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_GROUPS = st.lists(st.sampled_from([THEIRS, {"hooks": []}, {"hooks": [{"type": "prompt", "prompt": "?"}]}]), max_size=2)
_HOOKS = st.dictionaries(st.sampled_from([*events(Host.CLAUDE), "Notification"]), _GROUPS, max_size=4)


@st.composite
def settings_files(draw: st.DrawFn) -> str:
    """A settings file: any values, any white space between them, with or without hooks of other people."""
    value: dict[str, object] = dict(draw(st.dictionaries(_KEYS, _VALUES, max_size=3)))
    if draw(st.booleans()):
        value["hooks"] = draw(_HOOKS)
    if draw(st.booleans()):
        value["last"] = 1
    neat = draw(st.sampled_from([None, None, 2, 4, "\t"]))
    if neat is None:
        text = draw(_SPACE) + _written(draw, value) + draw(_SPACE)
    else:
        text = json.dumps(value, indent=neat, ensure_ascii=False) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


def _written(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, dict):
        parts = [
            f"{draw(_SPACE)}{json.dumps(key)}{draw(_SPACE)}:{draw(_SPACE)}{_written(draw, inner)}{draw(_SPACE)}"
            for key, inner in value.items()
        ]
        return "{" + (",".join(parts) or draw(_SPACE)) + "}"
    if isinstance(value, list):
        parts = [draw(_SPACE) + _written(draw, inner) + draw(_SPACE) for inner in value]
        return "[" + (",".join(parts) or draw(_SPACE)) + "]"
    return json.dumps(value)


@given(settings_files() | st.sampled_from(["", "\n", "\ufeff", " \r\n", "{}", "{\n}", "{ }\n"]))
@example('{"hooks":{"Stop":[]}}')
@example('{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}\n')
def test_hooks_put_in_and_taken_out_leave_every_byte_as_it_was(text: str) -> None:
    there = with_hooks(text, WANTED)
    assert has_current_hooks(there, WANTED)
    assert without_hooks(there) == text


@given(settings_files())
def test_what_was_there_means_the_same_with_our_hooks_beside_it(text: str) -> None:
    before = json.loads(text.lstrip("\ufeff"))
    after = json.loads(with_hooks(text, WANTED).lstrip("\ufeff"))
    hooks = after.pop("hooks")
    for event, group in WANTED.items():
        assert hooks[event].pop() == group
    others = before.pop("hooks", {})
    assert {event: left for event, left in hooks.items() if left} == {e: left for e, left in others.items() if left}
    assert after == before


@given(settings_files())
def test_only_insertions_are_made(text: str) -> None:
    rest = iter(with_hooks(text, WANTED))
    assert all(char in rest for char in text)


@given(settings_files(), st.sampled_from([None, 2, "\t"]))
def test_hooks_are_found_and_removed_after_another_program_laid_the_file_out_anew(
    text: str, indent: int | str | None
) -> None:
    value = json.loads(with_hooks(text, WANTED).lstrip("\ufeff"))
    left = without_hooks(json.dumps(value, indent=indent))
    assert ralph_hooks(left) == ()
    was, is_now = json.loads(text.lstrip("\ufeff")), json.loads(left or "{}")
    for hooks in (was.pop("hooks", {}), is_now.pop("hooks", {})):
        assert not [group for event in hooks.values() for group in event if group == WANTED.get("Stop")]
    assert is_now == was


def test_a_hook_of_ours_that_stands_in_somebodys_group_goes_alone() -> None:
    mine = WANTED["Stop"]
    assert isinstance(mine, Mapping)
    shared = {"hooks": {"Stop": [{"hooks": [THEIRS_HOOK, *mine["hooks"]]}]}}
    assert json.loads(without_hooks(json.dumps(shared)) or "") == {"hooks": {"Stop": [{"hooks": [THEIRS_HOOK]}]}}


@pytest.mark.parametrize(
    "text",
    [
        '{ // mine\n  "a": 1 // one\n}\n',
        '// top\n{\n  "hooks": {\n    /* , none */\n  }\n}',
        '{"url": "http://x/*y*/", "hooks": {"AfterTool": [ /* { */ ]}}',
        '{\n  "a": 1, // last, with a comma\n  "b": 2 /* end */\n}\n// bottom\n',
    ],
)
def test_comments_stay_in_a_file_whose_host_allows_them(text: str) -> None:
    wanted = groups(Host.GEMINI, OURS)
    there = with_hooks(text, wanted, comments=True)
    assert has_current_hooks(there, wanted, comments=True)
    assert without_hooks(there, comments=True) == text
    with pytest.raises(Unreadable, match="line"):
        with_hooks(text.replace("http://x/*y*/", "x"), wanted)


def test_a_comment_that_somebody_wrote_beside_our_hook_stays() -> None:
    there = with_hooks('{"hooks": {"AfterTool": [1]}}', {"AfterTool": WANTED["Stop"]})
    noted = there.replace("[1,", "[1, /* , theirs */")
    assert without_hooks(noted, comments=True) == '{"hooks": {"AfterTool": [1 /* , theirs */ ]}}'


def test_our_own_entries_are_known_by_what_they_start() -> None:
    for host in Host:
        for group in groups(host, MOVED).values():
            assert isinstance(group, dict)
            assert is_ralph_hook(group["hooks"][0])
    for other in (THEIRS_HOOK, {}, "x", None, {"command": "x", "args": "y"}, {"args": ["my-ralph/hooks/run.py2"]}):
        assert not is_ralph_hook(other)
    assert "run.py" not in STUB
