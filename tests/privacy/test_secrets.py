"""What shows itself is found wherever it stands; what only looks alike stays."""

import pytest
from tests.support.secret_samples import (
    TOKENS,
    key_block,
)

from ralph.privacy.privacy import find_secrets, redact

EVERY_TOKEN = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]
PLACES = [
    "{}",
    "the key is {}, use it.",
    'client = Client("{}")',
    "| service | {} |",
    '{{\\"note\\": \\"first line\\n{}\\"}}',
    "https://host/path?x={}&y=1",
    "ключ {} 비밀",
]


@pytest.mark.parametrize(
    ("kind", "token"), EVERY_TOKEN, ids=[f"{kind} {n}" for n, (kind, _) in enumerate(EVERY_TOKEN)]
)
def test_a_token_is_found_whole_wherever_it_stands(kind: str, token: str) -> None:
    for place in PLACES:
        text = place.format(token)
        if "=" in place and "=" in token:
            continue
        clean = redact(text)
        assert [finding.kind for finding in clean.findings] == [kind]
        assert clean.text == place.format(f"[redacted: {kind}]")


@pytest.mark.parametrize(
    ("kind", "token"), EVERY_TOKEN, ids=[f"{kind} {n}" for n, (kind, _) in enumerate(EVERY_TOKEN)]
)
def test_a_token_in_the_middle_of_a_word_is_none(kind: str, token: str) -> None:
    if kind != "telegram token":  # its digits may follow the word `bot`
        assert not find_secrets("abcX" + token)


LABELS = ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
          "PGP PRIVATE KEY BLOCK"]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n", "\n    ", "\n> ", "\\n\" +\n  \""])  # fmt: skip
def test_a_private_key_goes_from_its_first_line_to_its_last(label: str, newline: str) -> None:
    assert (
        redact(f"before {key_block(label, newline)} after").text
        == "before [redacted: private key] after"
    )
