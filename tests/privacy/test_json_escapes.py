"""JSON stays valid when the secrets in its strings are replaced, however deep it is nested."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.privacy_corpus import multi_line_texts
from tests.support.sampling import every, examples
from tests.support.secret_samples import HUMAN_PASSWORDS, TOKENS

from ralph.privacy.redactor import Redactor

ESCAPED = ['"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\x01", "\u00e9", "\u2028", "\U0001f511"]
"""A character for each escape that JSON has: `\\"`, `\\\\`, `\\/`, `\\n`, `\\u00e9` and so on."""
ENDS = ["", '"', "\\", "\n", "\t", " \u00e9"]
SECRETS = [
    *(tokens[0] for tokens in TOKENS.values()),
    *(f"PASSWORD={password}" for password in HUMAN_PASSWORDS),
    *(f"postgres://ada:{password}@db.example.org/app" for password in HUMAN_PASSWORDS[:1]),
    f"the password is {HUMAN_PASSWORDS[1]}",
    f"Authorization: Bearer {TOKENS['jwt'][0]}",
]
MEMBERS = ("env", "password", "notes", "token")


def nested(text: str, member: str, depth: int, *, only_ascii: bool, slashes: bool) -> str:
    """JSON in which the text is a string in an object, `depth` times one in a string of the next."""
    for _ in range(depth):
        text = json.dumps({member: text, "after": "end"}, ensure_ascii=only_ascii)
        if slashes:
            text = text.replace("/", "\\/")
    return text


def innermost(text: str, depth: int) -> str:
    """The string in the innermost object. Raises ValueError if any level is not valid JSON."""
    for _ in range(depth):
        value = json.loads(text)
        assert value["after"] == "end"
        [text] = [inner for name, inner in value.items() if name != "after"]
    return text


@settings(max_examples=examples(2_000, 200))
@given(
    st.sampled_from(SECRETS),
    st.sampled_from(ESCAPED),
    st.sampled_from(ENDS),
    st.sampled_from(MEMBERS),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_json_stays_valid_behind_every_escape(
    secret: str,
    before: str,
    after: str,
    member: str,
    depth: int,
    only_ascii: bool,
    slashes: bool,
) -> None:
    text = nested(
        f"A=1{before}{secret}{after}", member, depth, only_ascii=only_ascii, slashes=slashes
    )
    redacted = Redactor(())(text)
    assert secret not in innermost(redacted, depth)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_secret_in_a_text_is_found_in_a_string_of_json_as_well(depth: int) -> None:
    for case in every(multi_line_texts(), 2):
        text = nested(case.text, "notes", depth, only_ascii=True, slashes=False)
        redacted = innermost(Redactor(())(text), depth)
        assert [secret for secret in case.secrets if secret in redacted] == [], case.id
