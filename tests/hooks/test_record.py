"""What is stored of an event: nothing private or secret in any byte on the disk, whatever the host sends."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import ordinary
from tests.support.random_tokens import BODY_KINDS, random_token
from tests.support.runner import Project
from tests.support.sampling import every, examples
from tests.support.secret_samples import TOKENS, key_block
from tests.support.world import SESSION, World, handled, hook, payload, world

from ralph.core.errors import Refused
from ralph.hooks import handler
from ralph.hooks.handler import Payload, redact_in_time, session_name
from ralph.lean.hook_files import RecordingRules
from ralph.lean.secret_prefilter import needs_rules
from ralph.lean.secret_rules import token_rules
from ralph.privacy.privacy import clean_memory, redact

GOLDEN = Path(__file__).parents[1] / "golden" / "privacy" / "secrets.json"
CASES: list[dict[str, list[str]]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


def rules(*patterns: str, paths: tuple[str, ...] = ()) -> RecordingRules:
    return RecordingRules({"pattern": list(patterns), "path": list(paths)})


def stored(sent: bytes, *patterns: str) -> dict[str, object]:
    project = cast(handler.Project, SimpleNamespace(rules=rules(*patterns)))
    result = redact_in_time(Payload(sent), project, "PostToolUse", handler.ignore_deadline)
    assert result is not None
    value: dict[str, object] = json.loads(result.raw)
    return value


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


# --- through a real hook -----------------------------------------------------------------------


def test_nothing_of_the_secret_corpus_is_in_any_byte_on_the_disk(here: World) -> None:
    secrets = []
    texts = []
    for case in CASES:
        text, secret = "".join(case["parts"]), "".join(case["secret_parts"])
        if secret not in redact(text).text:  # the rules have two misses, which `test_corpus` counts
            secrets.append(secret)
            texts.append(text)
    for number in range(0, len(texts), 12):
        group = texts[number : number + 12]
        sent = payload(
            tool_response={"stdout": "ok", "parts": group}, tool_input={"command": group[0]}
        )
        assert hook("PostToolUse", sent, here.env).returncode == 0
        handled(here.env, "UserPromptSubmit", payload("UserPromptSubmit", prompt=group[-1]))
    assert len(here.lines()) >= len(texts) // 12
    disk = b"\n".join(path.read_bytes() for path in here.root.parent.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in disk] == []
    assert here.failures() == 0


@pytest.mark.soak
def test_no_random_token_of_any_rule_is_on_the_disk_and_a_memory_with_one_is_refused(
    here: World,
) -> None:
    tokens = [
        random_token(row, BODY_KINDS[number % len(BODY_KINDS)], Random(f"{row}{number}"))
        for row in token_rules()
        for number in range(examples(20, 4))
    ]
    for number in range(0, len(tokens), 80):
        group = tokens[number : number + 80]
        assert (
            hook("PostToolUse", payload(tool_response={"parts": group}), here.env).returncode == 0
        )
    disk = b"\n".join(path.read_bytes() for path in here.root.parent.rglob("*") if path.is_file())
    assert [token for token in tokens if token.encode() in disk] == []
    assert here.failures() == 0
    for token in tokens:
        with pytest.raises(Refused):
            clean_memory(f"the deploy job uses {token} now")
    ralph = Project(here.root)
    for token in every(tokens, 20):
        assert (
            "looks like a secret" in ralph("memory", "add", f"the deploy job uses {token} now").err
        )


@pytest.mark.parametrize("case", every(CASES, 3))
def test_each_secret_that_the_rules_know_is_redacted_in_a_payload(
    case: dict[str, list[str]],
) -> None:
    text, secret = "".join(case["parts"]), "".join(case["secret_parts"])
    if secret in redact(text).text:
        pytest.skip("the rules do not know it")
    for ascii_only in (True, False):
        for sent in ({"stdout": text}, text, [{"type": "text", "text": text}]):
            raw = json.dumps(
                {"session_id": SESSION, "tool_response": sent}, ensure_ascii=ascii_only
            ).encode()
            assert secret not in json.dumps(stored(raw), ensure_ascii=False)


def test_few_ordinary_events_need_the_rules_and_none_is_changed() -> None:
    events = ordinary.payloads()
    slow = [
        raw
        for raw in events
        if needs_rules(json.loads(raw).get("tool_response", {}).get("stdout", ""))
    ]
    assert len(slow) <= 0.15 * len(events)
    for raw in events:
        sent = json.loads(raw)
        if "originalFile" not in str(sent) and "\\u001b" not in raw.decode():
            assert stored(raw) == sent


# --- the payload -------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6), st.sampled_from([None, 1, 4]))
def test_the_scanner_finds_the_members_that_a_parser_finds(
    value: dict[str, object], indent: int | None
) -> None:
    for ascii_only in (True, False):
        raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(
            "utf-8", "surrogatepass"
        )
        if b"\xed" in raw and not ascii_only:
            continue  # half a character
        scanned = Payload(raw)
        assert set(scanned.members) == set(value)
        for name, inner in value.items():
            assert json.loads(scanned.value(name)) == inner
            assert scanned.text(name) == (inner if isinstance(inner, str) else "")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"a":1', b'{"a":[1}', b"null", b'"{}"', b'{"a":"}']
)
def test_what_is_no_complete_object_has_no_members(raw: bytes) -> None:
    assert Payload(raw).members == {} or raw == b'{"a":[1}'


def test_an_odd_session_id_does_not_become_a_path() -> None:
    assert session_name(SESSION) == SESSION
    assert "/" not in session_name("../../x")


# --- redaction of payloads ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        {"tool_input": {"env": {"DB_PASSWORD": "kw9Zr4tQ"}}},
        {"tool_input": {"env": [{"name": "DB_PASSWORD", "value": "kw9Zr4tQ"}]}},
        {"tool_response": "password kw9Zr4tQ\nDB_PASSWORD=kw9Zr4tQ"},
    ],
)
def test_a_value_is_redacted_by_the_name_of_its_member(members: Mapping[str, object]) -> None:
    text = json.dumps(stored(payload("PostToolUse", **members)))
    assert "[redacted: password]" in text


@pytest.mark.parametrize("token", [tokens[0] for tokens in TOKENS.values()])
def test_a_token_that_a_patch_removes_is_redacted(token: str) -> None:
    sent = payload(tool_response={"structuredPatch": [{"lines": [f"-{token}", "+x"]}]})
    assert token not in json.dumps(stored(sent))


def test_a_patch_keeps_its_lines_and_loses_what_two_of_them_reveal_together() -> None:
    lines = [
        " - name: DB_PASSWORD",
        "-  value: blue-Otter_71",
        "+  value: Wint3r!Kettle",
        " - name: MODE",
        "+  value: fast",
    ]
    edit = {"file_path": "a.yaml", "old_string": lines[1][1:], "new_string": lines[2][1:]}
    answer = {"filePath": "a.yaml", "structuredPatch": [{"oldStart": 1, "lines": lines}]}
    value = stored(payload(tool_name="Edit", tool_input=edit, tool_response=answer))
    kept = [
        " - name: DB_PASSWORD",
        "-  value: [redacted: password]",
        "+  value: [redacted: password]",
        " - name: MODE",
        "+  value: fast",
    ]
    assert value["tool_input"] == {"file_path": "a.yaml"}
    assert value["tool_response"] == {
        "filePath": "a.yaml",
        "structuredPatch": [{"oldStart": 1, "lines": kept}],
    }


def test_of_a_very_long_patch_the_first_and_the_last_lines_are_kept() -> None:
    lines = [f"+line {number}" for number in range(5_000)]
    lines[2_500] = "+password=Wint3r!Kettle"
    answer = {"filePath": "a", "structuredPatch": [{"lines": lines}]}
    value = stored(payload(tool_name="Edit", tool_input={}, tool_response=answer))
    kept = value["tool_response"]["structuredPatch"][0]["lines"]  # type: ignore[index]
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert " [... 4,200 lines left out ...]" in kept


def test_a_private_part_hides_the_texts_after_it_until_it_is_closed() -> None:
    sent = payload(
        tool_input={"a": "x <private>", "b": "hidden", "c": "</private> y"}, tool_response="z"
    )
    assert "hidden" not in json.dumps(stored(sent))
    assert stored(sent)["tool_response"] == "z"


@pytest.mark.parametrize(
    "answer",
    [
        {
            "originalFile": "a <private>Bob</private>",
            "structuredPatch": [{"lines": ["-old", "+new"]}],
        },
        {
            "originalFile": key_block("RSA PRIVATE KEY"),
            "structuredPatch": [{"lines": ["-old", "+new"]}],
        },
    ],
)
def test_nothing_of_an_edit_is_stored_when_its_file_has_private_parts(
    answer: Mapping[str, object],
) -> None:
    edit = {"file_path": "a.md", "old_string": "old", "new_string": "new"}
    value = stored(
        payload(tool_name="Edit", tool_input=edit, tool_response={"filePath": "a.md", **answer})
    )
    assert value["tool_input"] == {"file_path": "a.md"}
    assert value["tool_response"] == {"filePath": "a.md"}


def test_what_a_patch_makes_private_is_not_stored() -> None:
    patch = "*** Begin Patch\n*** Update File: a.md\n-Bob was fired\n+<private>Bob was fired</private>\n*** End Patch"
    value = stored(payload(tool_name="apply_patch", tool_input={"command": patch}))
    assert "Bob" not in json.dumps(value)
    assert "*** Update File: a.md" in json.dumps(value)


def test_a_session_id_after_thousands_of_members_is_stored() -> None:
    many = [{f"name {number}": f"value {number}"} for number in range(500)]
    sent = json.dumps(
        {"a": [many] * 40, "tool_input": "PASSWORD=kw9Zr4tQ", "session_id": "s-" + "1" * 34}
    )
    assert stored(sent.encode())["session_id"] == "s-" + "1" * 34


def test_a_long_text_is_shortened_to_its_ends() -> None:
    value = stored(payload(tool_response={"stdout": f"first\n{'x ' * 20_000}\nlast"}))
    text = value["tool_response"]["stdout"]  # type: ignore[index]
    assert text.startswith("first")
    assert text.endswith("last")
    assert "characters left out" in text
    assert len(text) < 13_000


def test_the_users_patterns_are_applied_to_every_text() -> None:
    value = stored(payload(note="for ACME-123456", tool_input={"ACME-654321": "x"}), r"ACME-\d{6}")
    assert "ACME-" not in json.dumps(value).replace("[redacted: custom]", "")


@given(JSON)
def test_any_payload_can_be_stored_and_storing_twice_changes_nothing(value: object) -> None:
    sent = json.dumps({"session_id": "s", "x": value, "y": "PASSWORD=hunter2x9"}).encode()
    once = json.dumps(stored(sent), ensure_ascii=False).encode("utf-8", "replace")
    assert stored(once) == json.loads(once)
