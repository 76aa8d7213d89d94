"""The user's own patterns on events in which nothing else was found: as `careful` finds them, only sooner."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.hooks.test_modules import CHEAP, OWN, loaded
from tests.hooks.world import World, payload, world

from ralph.app import hook_rules, hook_settings
from ralph.capture.privacy import unveiled
from ralph.capture.redactor import DEEPEST, Redactor, plain
from ralph.hooks import careful, fast, own

PATTERNS = (r"ACME-\d{6}", r"(?i)project falcon", "b.c", "^x$", "한국")
SIGNS = "abcx \n\t\r\\\"'{}[]:,-+ACME0123456^[mé한국\u200b\u034f\ufe0f\u2028\x1b\x7f\x85\b\f😀"
TEXTS = st.text(SIGNS, max_size=30) | st.sampled_from(["ACME-123456", "Project Falcon", "x", "a\nb"])
EVENTS = st.fixed_dictionaries(
    {"session_id": st.just("s")},
    optional={
        "prompt": TEXTS,
        "tool_name": st.sampled_from(["Bash", "apply_patch"]),
        "tool_input": st.dictionaries(TEXTS, TEXTS | st.integers() | st.none(), max_size=3) | TEXTS,
        "tool_response": TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS, max_size=3),
        "error": TEXTS,
    },
)


def line_of(said: dict[str, object], ascii_only: bool = False) -> bytes:
    return json.dumps(said, ensure_ascii=ascii_only, separators=(",", ":")).encode("utf-8", "surrogatepass")


@given(EVENTS, st.booleans(), st.sampled_from(["claude", "codex"]))
@example({"prompt": "co\u200bdename"}, False, "claude")
def test_the_patterns_find_the_same(said: dict[str, object], ascii_only: bool, host: str) -> None:
    found = own.matched(host, line_of(said, ascii_only), said, PATTERNS, hook_rules.own(PATTERNS))
    assert found == careful.matched(host, said, PATTERNS)


@given(TEXTS | st.text(max_size=20), st.booleans())
@example("\\\n", False)
@example("a\r\nb", False)
@example("\x1b[1m", True)
@example("^[[1m", False)
@example("\\x1b", False)
def test_a_simple_text_is_what_the_rules_look_at(text: str, ascii_only: bool) -> None:
    try:
        line = json.dumps({"a": text}, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    if own.simple(line):
        assert plain(text) == text
        assert unveiled(text) is None


@pytest.mark.parametrize("text", ["fix the failing test", "안녕하세요", 'a "quoted" one\n\tand more', "🎉 done"])
def test_ordinary_texts_are_simple(text: str) -> None:
    assert own.simple(line_of({"prompt": text}))


def test_an_event_that_is_too_deep_is_doubtful_there_too() -> None:
    assert own.DEEPEST == DEEPEST
    said: dict[str, object] = {}
    for _ in range(DEEPEST + 1):
        said = {"a": said}
    with pytest.raises(own.Doubt):
        own.matched("claude", line_of(said), said, PATTERNS)


def test_compiled_patterns_are_the_very_patterns() -> None:
    import re

    held = own.ready(hook_rules.own(PATTERNS))
    assert held == {pattern: re.compile(pattern) for pattern in PATTERNS}


@pytest.mark.parametrize("compiled", ["", "{", "[]", '{"for": [1, 2], "expressions": {"b.c": []}}'])
def test_what_another_python_compiled_is_not_believed(compiled: str) -> None:
    assert own.ready(compiled) == {}
    assert own.matched("claude", b'{"prompt":"b-c"}', {"prompt": "b-c"}, PATTERNS, compiled)


def test_a_pattern_that_is_wrong_or_too_many_are_left_to_the_hook() -> None:
    assert hook_rules.own(()) == ""
    assert hook_rules.own(("[",)) == ""
    assert hook_rules.own(tuple(f"word{number}" for number in range(2_000))) == ""


@pytest.fixture
def here(tmp_path: Path) -> World:
    made = world(tmp_path)
    text = "privacy:\n  patterns: ['ACME-\\d{6}']\n  paths: ['secrets/**']\n"
    (made.root / "ralph.yml").write_text(text, encoding="utf-8")
    made.cached()
    return made


@pytest.mark.parametrize("event", ["PostToolUse", "SessionEnd"])
def test_with_patterns_an_event_loads_one_module_more_and_no_compiler(here: World, event: str) -> None:
    more = {"ralph.hooks.own", "ralph.hooks.unseen", "_sre"}
    assert loaded(here, event, payload(event)) - OWN - CHEAP <= more | {"binascii"}
    assert len(here.lines()) == 1


def test_what_a_pattern_finds_is_not_kept(here: World) -> None:
    sent = payload(tool_response={"stdout": "for ACME-123456 only"})
    loaded(here, "PostToolUse", sent)
    said = here.log.read_text(encoding="utf-8")
    assert "only" in said
    assert "ACME-1" not in said


def test_the_cache_is_still_read_whole(here: World) -> None:
    text = hook_settings.cache_file(here.root).read_text(encoding="utf-8")
    assert "\ncompiled {" in text
    assert len(text) < 20_000


def test_the_words_of_the_hosts_have_nothing_that_a_rule_finds() -> None:
    for word in careful._KNOWN:
        assert Redactor(())(word) == word
    assert set(fast.EVENTS) <= careful._KNOWN


def test_a_word_of_the_hosts_in_an_open_private_part_is_private() -> None:
    said: dict[str, object] = {"session_id": "s", "prompt": "<private>", "tool_name": "Bash"}
    line = careful.kept("claude", said)
    assert b"Bash" not in line
