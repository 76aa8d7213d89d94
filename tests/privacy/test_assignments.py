"""A value is a secret when its key, its syntax and its look all say so."""

import pytest
from tests.support.secret_samples import STRONG_VALUES

from ralph.privacy.privacy import redact
from ralph.privacy.secret_names import secret_name


def test_a_very_long_value_goes_whole() -> None:
    value = STRONG_VALUES[1] * 60
    assert redact(f"API_TOKEN={value} rest").text == "API_TOKEN=[redacted: token] rest"
    assert (
        redact(f'"api_token": "{value}", "x": 1').text == '"api_token": "[redacted: token]", "x": 1'
    )


@pytest.mark.parametrize(
    "key",
    ["password", "DB_PASSWORD", "dbPassword", "db-password", "smtp_pass", "apiKey", "API_KEY", "x-api-key",
     "client_secret",
     "accessToken", "secret_key_base", "AWS_SECRET_ACCESS_KEY", "password2", "API_KEY_PROD", "GITHUB_PAT",
     "STRIPE_KEY",
     "authtoken", "privateKey", "passphrase", "credentials", "user.password"],
)  # fmt: skip
def test_keys_that_hold_a_secret(key: str) -> None:
    assert secret_name(key) is not None


@pytest.mark.parametrize(
    "key",
    ["max_tokens", "token_budget", "password_min_length", "api_key_header", "secret_name", "secretName",
     "token_type", "public_key",
     "password_field", "password_hash", "token_url", "cache_key", "primary_key", "next_token", "nextPageToken",
     "tokenizer", "author",
     "monkey", "keyboard", "compass", "bypass", "password_file", "tokens", "token_count", "access_key_id",
     "is_password", "OLDPWD",
     "secret_arn", "csrf_token", "key", "private_key_path", "api_key_env"],
)  # fmt: skip
def test_keys_that_hold_none(key: str) -> None:
    assert secret_name(key) is None
