"""What the careful path writes holds nothing private or secret, and means what the full path would have kept."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.capture.hooks import AT, NAMES, PAYLOADS, SESSION, recorded
from tests.capture.samples import HUMAN_PASSWORDS, TOKENS, key_block
from tests.hooks.ordinary import payloads
from tests.hooks.test_screen import SECRETS, TEXTS, encodings, texts

from ralph.capture.event import outline as real_outline
from ralph.capture.event import words_of
from ralph.capture.hosts import event_of
from ralph.capture.pipeline import interpret, observe, session_of
from ralph.capture.redactor import Redactor, plain
from ralph.formats.log import encode_record
from ralph.hooks import careful, fast, own
from ralph.hooks.fast import Whole, parsed, safe
from ralph.model.record import Record

PRIVATE = "marmalade and toast"
TOKEN = TOKENS["github token"][0]
HOSTS = ("claude", "codex")
EVENTS = ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SubagentStop", "SessionEnd")
FIRST = {"session_id": SESSION, "cwd": "/home/user/proj"}


def line_of(host: str, payload: Mapping[str, object]) -> bytes | None:
    """What is written about a payload; None when the full path decides."""
    sent = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    said = parsed(sent)
    if said is None:
        return None
    try:
        return safe(host, sent, said)
    except Whole:
        return None


def redacted(host: str, payload: Mapping[str, object]) -> bytes:
    line = line_of(host, payload)
    assert line is not None
    return line


def read(host: str, name: str, line: bytes) -> tuple[Record | None, object]:
    """The record and the session's fields that a line gives when it is read."""
    value = {"v": 1, "type": "event", "at": AT, "host": host, "event": name, "payload": json.loads(line)}
    records, session = interpret(value)
    return (records[0] if records else None), session


def forms(secret: str) -> Iterator[bytes]:
    """A secret as it would stand in a file, plain and quoted as JSON once and twice."""
    yield secret.encode()
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once.encode()
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1].encode()


def is_gone(secret: str, host: str, payload: Mapping[str, object]) -> None:
    """Neither in the bytes of the line, nor in what is read from it."""
    line = line_of(host, payload)
    if line is None:
        return
    assert not any(form in line for form in forms(secret)), line
    for name in EVENTS:
        record, session = read(host, name, line)
        told = (encode_record(record) if record else "") + repr((record, session))
        assert not any(form.decode() in told for form in forms(secret))


# --- golden secrets -----------------------------------------------------------------------------


def shapes(text: str) -> Iterator[Mapping[str, object]]:
    """Payloads that hold a text in one place or another."""
    noise = "some words of a log\n" * 2_000
    tool: dict[str, object] = {"tool_name": "Bash", "tool_input": {"command": "cat x"}}
    yield {**FIRST, "prompt": text}
    yield {**FIRST, **tool, "tool_response": {"stdout": text, "stderr": f"{text}\n"}}
    yield {**FIRST, **tool, "tool_input": {"command": f"x\n{text}"}, "error": f"Exit code 1\n{text}"}
    yield {**FIRST, **tool, "tool_response": {"stdout": f"{text}\n{noise}{text}\n{noise}{text}"}}
    yield {**FIRST, **tool, "tool_response": [{"type": "text", "text": text}, {"a": [[{"b": {text: text}}]]}]}
    edit = {"file_path": "/home/user/proj/a.py", "old_string": "a\nb", "new_string": f"a\n{text}\nb"}
    lines = [" a", *(f"+{line}" for line in text.split("\n")), " b"]
    answer = {"filePath": "a.py", "structuredPatch": [{"lines": lines}], "originalFile": text, "newString": text}
    yield {**FIRST, "tool_name": "Edit", "tool_input": edit, "tool_response": answer}
    yield {**FIRST, "tool_name": "Write", "tool_input": {"file_path": "a", "content": text}}
    patch = "*** Begin Patch\n*** Update File: a\n@@\n" + "\n".join(f"-{line}" for line in text.split("\n"))
    yield {**FIRST, "tool_name": "apply_patch", "tool_input": {"command": patch}}


@pytest.mark.parametrize("case", SECRETS, ids=[str(case["id"]) for case in SECRETS])
def test_no_golden_secret_that_the_rules_know_is_in_the_line(case: dict[str, list[str]]) -> None:
    text, secret = "".join(case["parts"]), "".join(case["secret_parts"])
    if secret in Redactor(())(text):
        return  # one of the few that the rules miss
    for payload in shapes(text):
        for host in HOSTS:
            is_gone(secret, host, payload)


@pytest.mark.parametrize("case", SECRETS, ids=[str(case["id"]) for case in SECRETS])
def test_no_golden_secret_is_in_the_line_of_an_answer_that_is_json_as_text(case: dict[str, list[str]]) -> None:
    text, secret = "".join(case["parts"]), "".join(case["secret_parts"])
    for ascii_only in (True, False):
        answer = json.dumps({"output": text, "metadata": {"exit_code": 0}}, ensure_ascii=ascii_only)
        payload = {**FIRST, "tool_name": "Bash", "tool_response": answer}
        if secret not in Redactor(())(text):
            is_gone(secret, "codex", payload)
        if secret not in Redactor(())(answer):
            is_gone(secret, "claude", payload)


@pytest.mark.parametrize("text", [text for text in TEXTS if "PRIVATE KEY" not in text][::7])
def test_it_does_not_matter_how_the_host_writes_its_json(text: str) -> None:
    for sent in encodings({**FIRST, "tool_name": "Bash", "tool_response": {"stdout": text}}):
        said = parsed(sent)
        assert said is not None
        if "session_id" in said:
            line = safe("claude", sent, said)
            assert json.loads(line)["tool_response"]["stdout"] in (text, Redactor(())(text))


# --- secrets and private parts everywhere -------------------------------------------------------

CARRIERS: tuple[Mapping[str, object], ...] = (
    {"prompt": "*"},
    {"last_assistant_message": "*"},
    {"tool_input": {"command": "*", "description": "*"}},
    {"tool_input": {"command": "npm test *"}, "tool_response": {"stderr": "*", "x": "y", "stdout": "*"}},
    {"tool_input": {"file_path": "/home/user/proj/*.ts", "old_string": "*", "new_string": "*\nmore"}},
    {"tool_input": {"edits": [{"old_string": "*", "new_string": "b"}, 3], "file_path": "*"}},
    {"tool_input": {"pattern": "*", "path": "*", "query": "*", "url": "https://example.org/*"}},
    {"tool_input": {"*": 1, "a": {"*": ["*", {"b": "*"}]}, "c": [["*"]]}},
    {"tool_input": "*", "tool_response": "*"},
    {"tool_response": [{"type": "text", "text": "*"}], "error": "Exit code 1\n*"},
    {"tool_response": {"structuredPatch": [{"lines": ["-*", "+*", " *"]}], "originalFile": "*"}},
    {"tool_response": {"content": [{"type": "text", "text": "*"}], "isError": True, "x": "*"}},
    {"tool_response": {"password": "*", "list": [{"name": "DB_PASSWORD", "value": "*"}]}},
    {"cwd": "/home/*/proj", "agent_id": "*", "tool_use_id": "*", "agent_type": "*"},
    {"reason": "*", "source": "*", "permission_mode": "*", "*": "*"},
)
AROUND = (
    "{}",
    "a {} b",
    "x\n{}\ny",
    '{{"k": "{}"}}',
    "\x1b[32m{}\x1b[0m",
    "v={}",
    "x\n-{}",
    "\\033[1m{}",
    "a\x1b[0m\n{}",
)
TOOLS = "Bash Edit Write MultiEdit NotebookEdit Read Grep WebFetch Agent mcp__a__b apply_patch read_file".split()
CANARIES = [*(token for tokens in TOKENS.values() for token in tokens), key_block()]


def filled(value: object, secret: str) -> object:
    if isinstance(value, str):
        return value.replace("*", secret)
    if isinstance(value, Mapping):
        return {str(filled(key, secret)): filled(inner, secret) for key, inner in value.items()}
    return [filled(inner, secret) for inner in value] if isinstance(value, list) else value


@settings(max_examples=600)
@given(
    st.sampled_from(HOSTS),
    st.lists(st.sampled_from(CARRIERS), min_size=1, max_size=3),
    st.sampled_from(TOOLS),
    st.sampled_from(CANARIES),
    st.sampled_from(AROUND),
)
def test_no_token_is_in_the_line_wherever_it_stood(
    host: str, carriers: list[Mapping[str, object]], tool: str, secret: str, around: str
) -> None:
    payload: dict[str, object] = {**FIRST, "tool_name": tool, "agent_type": "x"}
    for carrier in carriers:
        payload |= {str(filled(key, secret)): filled(value, around.format(secret)) for key, value in carrier.items()}
    is_gone(secret, host, payload)


OPENINGS = ("<private>", "<PRIVATE >", "&lt;private&gt;", "<pri\x1b[1mvate>", "<private>a</private><private>")
CLOSINGS = ("</private>", "</ private>", "&lt;/private&gt;", "</pri\x1b[0mvate>")


@settings(max_examples=400)
@given(
    st.sampled_from(HOSTS),
    st.lists(st.sampled_from(CARRIERS), min_size=1, max_size=3),
    st.sampled_from(TOOLS),
    st.sampled_from(OPENINGS),
    st.sampled_from(CLOSINGS),
    st.sampled_from(["{}", "a {} b", "x\n{}\ny"]),
)
def test_no_private_part_is_in_the_line_wherever_it_stood(
    host: str, carriers: list[Mapping[str, object]], tool: str, opening: str, closing: str, around: str
) -> None:
    payload: dict[str, object] = {**FIRST, "tool_name": tool, "agent_type": "x"}
    for carrier in carriers:
        inside = around.format(f"{opening}{PRIVATE}{closing}")
        payload |= {str(filled(key, inside)): filled(value, inside) for key, value in carrier.items()}
    is_gone(PRIVATE, host, payload)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*OPENINGS, *CLOSINGS, PRIVATE, "<", "private>", "x", "\n"]), min_size=2, max_size=7))
def test_what_the_full_path_hides_behind_an_open_part_is_not_in_the_line(pieces: list[str]) -> None:
    members = dict(zip("command description x y z".split(), pieces[1:], strict=False))
    answer = {"stdout": pieces[0], "stderr": pieces[-1]}
    payload: dict[str, object] = {**FIRST, "tool_name": "Bash", "tool_input": members, "tool_response": answer}
    line = line_of("claude", payload)
    event = event_of("claude", "PostToolUse", payload, AT)
    assert event is not None
    record = observe(event)
    if line is not None:
        assert read("claude", "PostToolUse", line)[0] == record


@settings(max_examples=300)
@given(texts, texts, st.sampled_from(HOSTS), st.sampled_from(["Bash", "mcp__a__b", "Edit", "Write"]))
def test_nothing_is_left_that_the_rules_would_take_out(text: str, other: str, host: str, tool: str) -> None:
    assume(not any("\ud800" <= sign <= "\udfff" for sign in text + other))
    given = {"file_path": "a", "command": other, "new_string": text}
    line = line_of(host, {**FIRST, "tool_name": tool, "tool_input": given, "tool_response": {"stdout": text}})
    if line is not None:
        for string in own.strings(json.loads(line)):
            assert Redactor(())(string) == plain(string)


# --- the same meaning ---------------------------------------------------------------------------


def agree(host: str, name: str, payload: Mapping[str, object]) -> None:
    """What is read from the line is what the full path would have kept."""
    line = line_of(host, payload)
    event = event_of(host, name, payload, AT)
    if line is None or event is None or not event.session:
        return
    record, session = read(host, name, line)
    assert record == observe(event)
    assert session == session_of(event)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(HOSTS)])
@pytest.mark.parametrize("more", [{}, {"note": TOKEN}, {"note": "<private>x</private>"}])
def test_recorded_payloads_mean_the_same(name: str, more: Mapping[str, object]) -> None:
    host, happening, payload = recorded(name)
    agree(host, happening, {**payload, **more})


def test_ordinary_payloads_mean_the_same() -> None:
    for sent in payloads():
        payload = {**json.loads(sent), "note": TOKEN}
        assert line_of("claude", payload) is not None
        agree("claude", payload["hook_event_name"], payload)


@settings(max_examples=600)
@given(st.sampled_from(HOSTS), st.sampled_from(EVENTS), PAYLOADS, st.sampled_from(["x", TOKEN, "PASSWORD=hunter2x9"]))
def test_payloads_of_any_shape_mean_the_same(host: str, name: str, payload: dict[str, object], note: str) -> None:
    agree(host, name, {**FIRST, **payload, "session_id": SESSION, "note": note})


_KEYS = st.sampled_from(["stdout", "stderr", "content", "text", "message", "x"])
_ANSWERS = st.recursive(
    st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(_ANSWERS)
def test_answers_are_put_together_as_they_are_read(value: object) -> None:
    assert own.words(value) == words_of(value)
    assert own.outline(value) == real_outline(value, 1)


# --- cutting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [20_000, 200_000, 2_000_000])
def test_a_long_text_is_cut_to_its_ends_after_it_was_redacted(size: int) -> None:
    noise = "".join(f"{number} some words\n" for number in range(size // 15))
    text = f"first {TOKEN}\n{noise}PASSWORD={HUMAN_PASSWORDS[0]}\n{noise}{TOKEN} last"
    line = redacted("claude", {**FIRST, "tool_name": "Bash", "tool_response": {"stdout": text}})
    assert len(line) < 2 * careful.LONGEST
    kept = json.loads(line)["tool_response"]["stdout"]
    assert kept.startswith("first [redacted: github token]\n0 some words")
    assert kept.endswith("[redacted: github token] last")
    assert "characters left out" in kept


def test_a_change_is_kept_as_the_lines_that_differ() -> None:
    lines = ["same\n" * 3, f"key = {TOKEN}\n", "end\n" * 3]
    given = {
        "file_path": "/home/user/proj/a.py",
        "old_string": "".join(lines),
        "new_string": "same\n" * 3 + "end\n" * 3,
    }
    answer = {"filePath": "a.py", "oldString": TOKEN, "originalFile": "".join(lines) * 50, "isError": True}
    line = redacted("claude", {**FIRST, "tool_name": "Edit", "tool_input": given, "tool_response": answer})
    said = json.loads(line)
    assert said["tool_input"] == {"file_path": "/home/user/proj/a.py"}
    hunks = [{"lines": ["-key = [redacted: github token]"]}]
    assert said["tool_response"] == {"filePath": "/home/user/proj/a.py", "isError": True, "structuredPatch": hunks}


@pytest.mark.parametrize("whole", [f"<private>\n{PRIVATE}\n</private>", key_block()])
def test_of_a_file_with_private_parts_no_line_is_kept(whole: str) -> None:
    given = {"file_path": "a.py", "old_string": PRIVATE, "new_string": "x"}
    answer = {"structuredPatch": [{"lines": [f"-{PRIVATE}", "+x"]}], "originalFile": whole}
    payload = {**FIRST, "tool_name": "Edit", "tool_input": given, "tool_response": answer}
    assert PRIVATE.encode() not in redacted("claude", payload)
    agree("claude", "PostToolUse", payload)


# --- reads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", fast.PATH_ONLY["claude"])
def test_of_a_read_only_the_place_is_kept_and_no_rules_run(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(careful, "kept", None)
    given = {"file_path": "/home/user/proj/a.py", "pattern": "x", "url": "https://example.org/a", "query": "q"}
    answer = {"content": f"PASSWORD={HUMAN_PASSWORDS[0]} {PRIVATE} " * 5_000, "interrupted": True, "isError": False}
    payload = {**FIRST, "tool_name": tool, "tool_input": given, "tool_response": answer, "tool_use_id": "t1"}
    line = redacted("claude", payload)
    assert json.loads(line) == {**payload, "tool_response": {"interrupted": True}}
    assert line.startswith(b'{"session_id":"')
    agree("claude", "PostToolUse", payload)


def test_a_secret_in_a_place_is_taken_out() -> None:
    payload = {**FIRST, "tool_name": "Grep", "tool_input": {"pattern": TOKEN}, "tool_response": "found"}
    line = redacted("claude", payload)
    assert json.loads(line)["tool_input"] == {"pattern": "[redacted: github token]"}


# --- doubt --------------------------------------------------------------------------------------


def nested(depth: int) -> object:
    value: object = TOKEN
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "members",
    [{"tool_input": nested(30)}, {"tool_response": {"stdout": "<private> x", "stderr": PRIVATE}},
     {"tool_response": {"stdout": key_block()[:300], "stderr": key_block()}},
     {"tool_response": [{"text": "login bob"}, {"text": f"password {HUMAN_PASSWORDS[0]}"}, TOKEN]},
     {"tool_response": {"name": "DB_PASSWORD", "value": HUMAN_PASSWORDS[0]}},
     {"tool_response": {"stdout": [f"{TOKEN} {number}" for number in range(9_000)]}},
     {"tool_name": "Edit", "tool_input": {"new_string": TOKEN}},
     {"tool_response": ["<", "private>", PRIVATE, TOKEN]}, {"tool_response": float("nan"), "x": TOKEN}],
)  # fmt: skip
def test_the_full_path_decides_in_doubt(members: Mapping[str, object]) -> None:
    assert line_of("claude", {**FIRST, "tool_name": "Agent", **members}) is None


def test_an_open_private_part_in_a_prompt_hides_the_rest() -> None:
    line = redacted("claude", {**FIRST, "prompt": f"fix it <private>{PRIVATE}", "more": PRIVATE})
    assert json.loads(line) == {**FIRST, "prompt": "fix it ", "": ""}
    assert line_of("claude", {**FIRST, "message": "x", "prompt": f"fix it <private>{PRIVATE}"}) is None


def test_nothing_of_the_rules_is_said_about_a_payload_of_another_kind(tmp_path: Path) -> None:
    for sent in (b'{"session_id":"a","x":"\xff"}', b"[]", b"{", b'{"session_id":"a"} x'):
        assert parsed(sent) is None
