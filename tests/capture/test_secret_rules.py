"""The table and its pre-filter: every match of a rule contains a keyword, and the pre-filter fires on it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capture.samples import HUMAN_PASSWORDS, STRONG_VALUES, TOKENS
from tests.cases import for_each
from tests.soak.sampling import examples

from ralph.capture import secret_rules
from ralph.capture.secret_rules import needs_rules
from ralph.capture.secrets import find_secrets

ROWS = secret_rules.token_rules()
NAMES = [ending for row in secret_rules.NAMES.strip().splitlines() for ending in row.split()[2:]]
BODIES = {"<word>": "[A-Za-z0-9_-]", "<uuid>": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"}
AROUND = st.sampled_from(
    ["{}", "see {} here", "a={}", '{{"x": "{}"}}', "\\n{}", "https://h/?q={}&y=1", "| {} |", "({})"]
)
SYNTAXES = ["{k}={v}", "{k}: {v}", '"{k}": "{v}"', "export {k}='{v}'", "--{k} {v}", '{k} => "{v}"', "<{k}>{v}</{k}>"]


def regex_of(body: str) -> str:
    for name, characters in BODIES.items():
        body = body.replace(name, characters)
    return re.sub(r"\(\?![^)]*\)", "", body)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1][0]}")
@settings(max_examples=examples(200, 2))
@given(st.data())
def test_the_pre_filter_fires_on_every_match_of_a_token_rule(
    row: tuple[str, list[str], str, str], data: st.DataObject
) -> None:
    _, prefixes, body, lead = row
    before = data.draw(st.from_regex(lead, fullmatch=True, alphabet=st.characters(max_codepoint=126))) if lead else ""
    rest = data.draw(st.from_regex(regex_of(body), fullmatch=True, alphabet=st.characters(max_codepoint=126)))
    token = f"{before}{data.draw(st.sampled_from(prefixes))}{rest}"
    text = data.draw(AROUND).format(token)
    if find_secrets(text):
        assert any(prefix in text for prefix in prefixes)
        assert needs_rules(text)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(SYNTAXES),
    st.sampled_from([*STRONG_VALUES, *HUMAN_PASSWORDS]),
    st.booleans(),
)
def test_the_pre_filter_fires_on_every_assignment(name: str, syntax: str, value: str, upper: bool) -> None:
    text = syntax.format(k=name.upper() if upper else name, v=value)
    if find_secrets(text):
        assert needs_rules(text)


def test_the_pre_filter_fires_on_a_private_key_of_putty() -> None:
    assert needs_rules("Private-Lines: 14\nAAABAQCKqT3mWc9vJ2Zs8bN1pXhQ4rLk7dYf0uGeVaTiMoBn\n")


@for_each("token", [token for tokens in TOKENS.values() for token in tokens])
def test_the_pre_filter_fires_on_every_sample(token: str) -> None:
    assert needs_rules(f"got {token} back")


def test_keywords_are_long_enough_to_be_rare() -> None:
    phrases = [keyword for _, keywords, _, _, _ in secret_rules.PHRASES for keyword in keywords]
    assert all(len(keyword) >= 4 for keyword in (*phrases, *secret_rules.NAME_KEYWORDS))
    short = {prefix for _, prefixes, _, lead in ROWS for prefix in prefixes if len(prefix) < 4 and not lead}
    assert all(not needs_rules(f"{prefix} and {prefix}x") for prefix in short)


def test_every_token_rule_compiles_and_has_a_readable_kind() -> None:
    for kind, prefixes, body, lead in ROWS:
        assert kind == kind.lower().strip()
        assert len(kind) <= 40
        assert prefixes
        re.compile(body)
        re.compile(lead)
