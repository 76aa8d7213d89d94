"""Payloads that nobody has judged yet: the result is that of `redact_payload`, whatever they contain."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.privacy_corpus import GoldenCase, golden_cases
from tests.support.sampling import examples

from ralph.privacy.harmless_payloads import redact_unjudged
from ralph.privacy.hook_payloads import redact_payload

Json = dict[str, object]

PLAIN = (
    "",
    "ok",
    "see below:",
    "the password is on the next line:",
    "user,password,role",
    "user;token",
    "- deploy",
    "Passwords of the staging server:",
    '"name": "token",',
    "value",
    "Wint3r!Kettle",
    "a1b2c3d4e5f6a7b8c9d0",
    "key",
    "@@ -1,2 +1,2 @@",
    "+-/",
    "x" * 299,
    "word " * 100,
    "3 passed, 1 failed",
    "<private>",
    "</private>",
    "-----",
    " pw hunter2!x9",
    "    password = os.environ['A']",
    "https://app:",
    "insert into",
)
CASES = [case.text for case in golden_cases()]
TEXTS = st.one_of(st.sampled_from(PLAIN), st.sampled_from(CASES))


def _part(text: str) -> st.SearchStrategy[str]:
    """Part of a text, which may be half of a secret."""
    places = st.integers(0, len(text))
    return st.tuples(places, places).map(lambda ends: text[min(ends) : max(ends)])


PIECES = st.sampled_from(CASES).flatmap(_part)


def _command(texts: list[str]) -> Json:
    command, description, output = texts
    return {
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": description},
        "tool_response": {"stdout": output, "stderr": "", "interrupted": False},
    }


def _edit(lines: list[str]) -> Json:
    signed = [f"{'+- '[number % 3]}{line}" for number, line in enumerate(lines)]
    return {
        "tool_name": "Edit",
        "tool_input": {"file_path": "/app/config.py"},
        "tool_response": {
            "filePath": "/app/config.py",
            "originalFile": lines[0],
            "structuredPatch": [{"oldStart": 1, "lines": signed}],
        },
    }


def _call(texts: list[str]) -> Json:
    return {
        "tool_name": "mcp__notes__save",
        "tool_input": {"fields": [{"name": texts[0], "text": texts[1]}, texts[2]], "size": 3},
    }


SHAPES = st.sampled_from([_command, _edit, _call])


@for_each("case", golden_cases())
def test_a_payload_with_a_case_is_redacted(case: GoldenCase) -> None:
    for payload in (_command(["make", case.text, "ok"]), _edit(["x = 1", *case.text.split("\n")])):
        assert redact_unjudged(payload) == redact_payload(payload)


@settings(max_examples=examples(20_000, 500))
@given(SHAPES, st.lists(st.one_of(TEXTS, PIECES), min_size=3, max_size=3))
def test_texts_are_redacted_as_if_each_was_judged_by_itself(
    shape: Callable[[list[str]], Json], texts: list[str]
) -> None:
    payload = shape(texts)
    assert redact_unjudged(payload) == redact_payload(payload)


NESTED: object = "x"
for _ in range(30):
    NESTED = [NESTED]
LARGE: dict[str, Json] = {
    "text": _command(["make", "build", "word " * 5_000]),
    "numbers": {"tool_input": {"list": list(range(2_000))}},
    "nested": {"tool_input": {"list": NESTED}},
    "hunk with many lines": _edit(["    a = 1"] * 900),
    "hunk with long lines": _edit(["    word" + " word" * 20] * 700),
    "many texts": {"tool_input": {"texts": ["word " * 2_000] * 12}},
}


@for_each("payload", LARGE)
def test_what_is_too_large_is_shortened(payload: str) -> None:
    large = LARGE[payload]
    shortened = redact_payload(large)
    assert redact_unjudged(large) == shortened
    assert len(str(shortened)) < len(str(large))


def test_the_patterns_of_the_user_count() -> None:
    payload = _command(["make", "build", "ticket ABC-123"])
    redacted = redact_unjudged(payload, ["ABC-[0-9]+"])
    assert redacted == redact_payload(payload, ["ABC-[0-9]+"]) != payload
