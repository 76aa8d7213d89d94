"""The table and its pre-filter: every match of a rule contains a keyword, and the pre-filter fires on it."""

import re
import string
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.random_tokens import BODY_KINDS, random_token, regex_of
from tests.support.sampling import examples
from tests.support.secret_samples import HUMAN_PASSWORDS, STRONG_VALUES, TOKENS

from ralph.lean import secret_prefilter, secret_rules
from ralph.lean.secret_prefilter import (
    index_keywords,
    needs_rules,
    phrase_keywords,
    token_prefixes,
)
from ralph.privacy import secret_names
from ralph.privacy.privacy import redact
from ralph.privacy.secret_values import is_placeholder
from ralph.privacy.secrets import find_secrets

ROWS = secret_rules.token_rules()
NAMES = [ending for _, _, endings in secret_names._NAMES for ending in endings.split()]
AROUND = st.sampled_from(
    ["{}", "see {} here", "a={}", '{{"x": "{}"}}', "\\n{}", "https://h/?q={}&y=1", "| {} |", "({})"]
)
SYNTAXES = [
    "{k}={v}",
    "{k}: {v}",
    '"{k}": "{v}"',
    "export {k}='{v}'",
    "--{k} {v}",
    '{k} => "{v}"',
    "<{k}>{v}</{k}>",
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1][0]}")
@settings(max_examples=examples(200, 2))
@given(st.data())
def test_the_pre_filter_fires_on_every_match_of_a_token_rule(
    row: tuple[str, list[str], str, str], data: st.DataObject
) -> None:
    _, prefixes, body, lead = row
    before = (
        data.draw(st.from_regex(lead, fullmatch=True, alphabet=st.characters(max_codepoint=126)))
        if lead
        else ""
    )
    rest = data.draw(
        st.from_regex(regex_of(body), fullmatch=True, alphabet=st.characters(max_codepoint=126))
    )
    token = f"{before}{data.draw(st.sampled_from(prefixes))}{rest}"
    text = data.draw(AROUND).format(token)
    if find_secrets(text):
        assert any(prefix in text for prefix in prefixes)
        assert needs_rules(text)


BODIES_EACH = -(-examples(30_000, 300) // (len(ROWS) * len(BODY_KINDS)))


@for_each("row", ROWS)
def test_a_random_body_is_never_taken_for_words(row: tuple[str, list[str], str, str]) -> None:
    random = Random(str(row))
    left = []
    for kind in BODY_KINDS:
        for _ in range(BODIES_EACH):
            token = random_token(row, kind, random)
            if token in redact(f"use {token} now").text or not needs_rules(f"use {token} now"):
                left.append(token)
    assert not left


SECRET_KEYS = """\
DB_PASSWORD={}
PASSWORD={}
PW={}
password: {}
password = {}
{ password: {}, user: x }
connect(password={})
"password": "{}"
--password {}
<password>{}</password>
setPassword("{}")
mysql -uroot -p{} db
비밀번호: {}
api_key={}
API_KEY={}
"apiKey": "{}"
SECRET_KEY={}
client_secret: {}
secret: {}
AUTH_TOKEN={}
token: {}
"token": "{}"
--token {}
Authorization: Bearer {}""".splitlines()
ALPHABETS = (
    *BODY_KINDS[:4],
    "0123456789ABCDEF",
    string.ascii_letters,
    string.ascii_letters + string.digits,
)
VALUES_EACH = -(-examples(30_000, 700) // len(ALPHABETS))


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_long_random_value_behind_the_name_of_a_secret_never_stays(key: str) -> None:
    random = Random(key)
    for alphabet in ALPHABETS:
        for _ in range(VALUES_EACH):
            value = "".join(random.choices(alphabet, k=random.randint(16, 32)))
            text = "a line\n" + key.replace("{}", value) + "\nanother"
            assert needs_rules(text)
            assert value not in redact(text).text


@pytest.mark.parametrize("key", ["password: {}", "PASSWORD={}", "DB_PASSWORD={}"])
def test_eight_small_letters_are_a_password(key: str) -> None:
    random = Random(key)
    for _ in range(examples(30_000, 300)):
        value = "".join(random.choices("bcdfghjklmnprstvwaeiou", k=8))
        text = "a line\n" + key.replace("{}", value) + "\nanother"
        kept = redact(text).text == text
        assert not kept or is_placeholder(value) or value.endswith(WORD_ENDS), value


WORD_ENDS = (
    "ed",
    "ing",
    "able",
    "ible",
    "ly",
    "al",
    "ory",
    "ary",
    "ent",
    "ant",
    "ive",
    "ous",
    "ful",
    "less",
    "tion",
    "sion",
    "ic",
    "ty",
    "ment",
    "tten",
    "pwd",
    "pat",
    "psk",
)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(SYNTAXES),
    st.sampled_from([*STRONG_VALUES, *HUMAN_PASSWORDS]),
    st.booleans(),
)
def test_the_pre_filter_fires_on_every_assignment(
    name: str, syntax: str, value: str, upper: bool
) -> None:
    text = syntax.format(k=name.upper() if upper else name, v=value)
    if find_secrets(text):
        assert needs_rules(text)


def test_the_pre_filter_fires_on_a_private_key_of_putty() -> None:
    assert needs_rules("Private-Lines: 14\nAAABAQCKqT3mWc9vJ2Zs8bN1pXhQ4rLk7dYf0uGeVaTiMoBn\n")


@pytest.mark.parametrize("token", [token for tokens in TOKENS.values() for token in tokens])
def test_the_pre_filter_fires_on_every_sample(token: str) -> None:
    assert needs_rules(f"got {token} back")


COUNT_IN_THREADS = """
import importlib, sys
from concurrent.futures import ThreadPoolExecutor
from ralph.lean import secret_rules
sys.setswitchinterval(1e-6)
counts = set()
with ThreadPoolExecutor(8) as threads:
    for _ in range(100):
        importlib.reload(secret_rules)
        asked = [threads.submit(lambda: tuple(secret_rules.token_prefixes())) for _ in range(8)]
        counts.update(len(prefixes.result()) for prefixes in asked)
print(*counts)
"""


def test_every_thread_gets_all_prefixes_from_the_first_question_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_IN_THREADS],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout.split() == [str(len(secret_rules.token_prefixes()))]


RANDOM_BODY = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


@pytest.fixture(scope="module", params=["indexed", "not indexed"])
def _keyword_search(request: pytest.FixtureRequest) -> None:
    """Search with the index, and without it, as a hook does that only searches its payload."""
    for index in (secret_prefilter._token_index, secret_prefilter._phrase_index):
        index.clear()
    if request.param == "indexed":
        index_keywords()


@pytest.mark.usefixtures("_keyword_search")
@pytest.mark.parametrize("body", [RANDOM_BODY, RANDOM_BODY * 30], ids=["short", "long"])
def test_every_prefix_is_found_in_short_and_long_texts(body: str) -> None:
    prefixes = secret_rules.token_prefixes()
    assert [prefix for prefix in prefixes if prefix not in token_prefixes(prefix + body)] == []


@pytest.mark.usefixtures("_keyword_search")
@given(
    st.lists(st.sampled_from([*secret_rules.phrase_keywords(), "x", " ", "7"])).map("".join),
    st.sampled_from(["", "x" * 1_000]),
)
def test_every_keyword_is_found_in_short_and_long_texts(text: str, padding: str) -> None:
    searched = f"{text}{padding}x"
    expected = {keyword for keyword in secret_rules.phrase_keywords() if keyword in searched}
    assert phrase_keywords(searched) == expected


def test_keywords_are_long_enough_to_be_rare() -> None:
    phrases = [keyword for row in secret_rules.phrase_rules() for keyword in row[2]]
    assert all(len(keyword) >= 4 for keyword in (*phrases, *secret_rules.NAME_KEYWORDS))
    short = {
        prefix
        for _, prefixes, _, lead in ROWS
        for prefix in prefixes
        if len(prefix) < 4 and not lead
    }
    assert all(not needs_rules(f"{prefix} and {prefix}x") for prefix in short)


def test_every_token_rule_compiles_and_has_a_readable_kind() -> None:
    for kind, prefixes, body, lead in ROWS:
        assert kind == kind.lower().strip()
        assert len(kind) <= 40
        assert prefixes
        re.compile(body)
        re.compile(lead)
