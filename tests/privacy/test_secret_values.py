"""A value is a secret, a word, a stand-in or a reference."""

import pytest
from tests.support.secret_samples import HUMAN_PASSWORDS, STRONG_VALUES

from ralph.privacy.passwords import (
    COPULA,
    LITERAL,
    PROSE,
    SURE,
    is_login_password,
    is_password,
)
from ralph.privacy.secret_values import (
    FAIR,
    NONE,
    STRONG,
    grade,
    is_placeholder,
    is_random,
    is_reference,
    is_token_body,
    is_wordy,
)


@pytest.mark.parametrize("value", STRONG_VALUES)
def test_what_a_machine_made_is_strong(value: str) -> None:
    assert grade(value) == STRONG
    assert is_random(value)


@pytest.mark.parametrize("value", HUMAN_PASSWORDS)
def test_a_password_with_signs_and_digits_is_strong(value: str) -> None:
    assert grade(value) == STRONG


@pytest.mark.parametrize(
    ("value", "place"),
    [("hunter2", SURE), ("Summer2024", COPULA), ("letmein99", COPULA), ("correct-horse-battery-staple", SURE),
     ("Abcd1234", PROSE), ("Blue-Horse-77", PROSE), ("blue_kettle_morning", SURE), ("Pine.Tar.Ladder", SURE),
     ("otter Lagoon 73 vinyl", SURE), ("Str4nd!K\u00e4fer", PROSE), ("swordfish", SURE), ("48213377", SURE),
     ("Monkey-Bridge-12", SURE), ("Somerset-44", SURE), ("Wint3r_is_here", COPULA), ("old-Service-Pw1", COPULA),
     ("mangrove-Root", LITERAL), ("Replace.Tyres.4", SURE), ("&x9Kp2-Lm", SURE), ("kettle_drum_9", PROSE)],
)  # fmt: skip
def test_a_password_is_known_where_it_may_stand(value: str, place: int) -> None:
    assert is_password(value, place)
    assert is_password(value)


@pytest.mark.parametrize(
    "value",
    ["string", "SecretStr", "varchar", "required", "hidden", "${X}", "$(x)", "{{ x }}", "<x>", "********",
     "your-password",
     "Forgot your password?", "Enter password", "Use at least 12 characters", "errors.mismatch", "required|min:8",
     "\ube44\ubc00\ubc88\ud638", "db_password", "admin123", "Passw0rd", "12px", "2024-01-01", "^[A-Z]{8,}$",
     "Password*", "****"],
)  # fmt: skip
def test_a_reference_a_type_a_label_and_a_mask_are_no_password(value: str) -> None:
    assert not is_password(value)


@pytest.mark.parametrize(
    "value", ["SHA-256", "PLAT-4412", "12-character", "step2", "hashed", "blue-kettle", "v2.3.1"]
)
def test_a_sentence_has_words_that_are_no_password(value: str) -> None:
    assert not is_password(value, COPULA)


@pytest.mark.parametrize(
    "body",
    ["x" * 30, "your_token_here", "1234567890" * 3, "...", "EXAMPLE" + "A1" * 9, "abcdefghij12"],
)
def test_a_stand_in_after_the_prefix_of_a_vendor_is_no_token(body: str) -> None:
    assert not is_token_body(body)


@pytest.mark.parametrize(
    "value",
    ["", "abc", "password", "password123", "changeme", "my-app-secret", "test-token-2", "oauth2", "sha256",
     "user.password2",
     "2024-01-01T00:00:00Z", "1.2.3-beta4", "#1a2b3c", "16px", "text/x-thing2", "me@host.org", "Passwort",
     "비밀번호", "OPENAI_API_KEY",
     "fs.s3.cse.kms.keyId", "^[A-Za-z0-9]{8,}$", "two words9!", "aaaaaaaa1111", "abcdef123456",
     "[redacted: password]"],
)  # fmt: skip
def test_what_is_no_secret_has_no_grade(value: str) -> None:
    assert grade(value) == NONE


@pytest.mark.parametrize(
    "value",
    ["$X", "${X}", "$(cat x)", "{{ x }}", "%X%", "<password>", "process.env.X1", "op://vault/item",
     "arn:aws:x:1", "/run/secrets/x1",
     "~/.ssh/id_ed25519", "./a1.pem", "certs/id1.pem", "https://host/x1", "$2b$12$abcdefghij",
     "ENC[AES256,data:x]", "!vault", "%s",
     "sha256-abc", "{cipher}abc1"],
)  # fmt: skip
def test_a_reference_is_known(value: str) -> None:
    assert is_reference(value)


@pytest.mark.parametrize(
    "value",
    ["xxxx", "****", "your-key-here", "change_me", "replace-this", "...", "0000000000", "abc123"],
)
def test_a_placeholder_is_known(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize(
    "value",
    [
        "my-app-secret",
        "camelCaseName",
        "SNAKE_CASE_NAME",
        "version2",
        "path/to/thing",
        "gpt-large-v2",
    ],
)
def test_words_are_known_by_their_parts(value: str) -> None:
    assert is_wordy(value)


def test_a_login_needs_a_password_that_is_not_the_user_nor_a_default() -> None:
    assert is_login_password("app", "swordfish")
    assert not is_login_password("ralph", "ralph")
    assert not is_login_password("postgres", "postgres")
    assert not is_login_password("user", "my_password")


def test_any_text_can_be_judged() -> None:
    for value in (
        "\udc80" * 20, "\x00" * 20, "é" * 20 + "1", "a" * 100_000, "🔥9aB" * 10, "schlüssel-geheimnis-x",
    ):  # fmt: skip
        assert grade(value) in range(4)
        assert is_random(value) in (True, False)


def test_a_uuid_that_counts_upwards_is_a_stand_in_unless_it_is_a_random_one_by_its_digits() -> None:
    assert grade("12345678-abcd-4bcd-8def-1234567890ab") == FAIR
    for value in ("12345678-abcd-1bcd-1def-1234567890ab", "a1b2c3d4-e5f6-4890-abcd-ef1234567890",
                  "11111111-1111-4111-8111-111111111111"):  # fmt: skip
        assert grade(value) == NONE
