"""What shows itself is found wherever it stands; what only looks alike stays."""

import base64

import pytest
from tests.support.secret_samples import (
    ALNUM,
    BASE64,
    DIGITS,
    HEX,
    TOKENS,
    URL_SAFE,
    key_block,
    login,
    made,
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


def kinds(text: str) -> list[str]:
    return [finding.kind for finding in find_secrets(text)]


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


@pytest.mark.parametrize(
    "text",
    [
        "OpenAI keys look like sk-... and GitHub's like ghp_...",
        "gh" + "p_" + "x" * 36,
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "AIza" + "X" * 35,
        "glpat-" + "x" * 20,
        "xoxb" + "-your-token-here-please-replace-it",
        "sk" + "_test_your_key_goes_here_1",
        "gh" + "p_" + "1234567890abcdefghijklmnopqrstuvwxyz",
        "sk-learn-contrib-something-long-name",
        'class="sk-toggleable__content sk-container-id-1"',
        "risk-assessment-task-12345678901234567890",
        "npm_config_registry npm_lifecycle_event npm_package_json",
        "hf_transformers_cache_directory_name_v2",
        "key-value-store-with-a-long-name",
        "pk" + "_live_" + made(24),
        "commit " + made(40, HEX),
        "sha256:" + made(64, HEX),
        '"integrity": "sha512-' + made(86, BASE64) + '=="',
        "record,sha256=glc" + "_" + made(40, URL_SAFE) + ",12",
        "data:image/png;base64,iVBORw0KGgo" + made(400, BASE64),
        made(50, ALNUM) + "/EA" + "A" + made(120, ALNUM) + "/" + made(50, ALNUM),
        "eyJhbGciOiJIUzI1NiJ9",
        "a JWT is eyJ... with header.payload.signature",
        "https://hooks.slack.com/services/YOUR/WEBHOOK/URL",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9 req_011CSHoEeqs5C35K2UUqR7Fy",
        "mem-1737372000-a1b2",
        "https://a1b2c3d4e5f60718293a4b5c6d7e8f90@o123.ingest.sentry.io/456",
    ],
)
def test_what_only_looks_like_a_token_stays(text: str) -> None:
    assert redact(text).text == text


def test_webhooks_are_found() -> None:
    slack = "https://hooks.slack" + f".com/services/T{made(8)}/B{made(8)}/{made(24)}"
    discord = "https://discord" + f".com/api/webhooks/{made(18, DIGITS)}/{made(68, URL_SAFE)}"
    assert kinds(f"{slack} and {discord}") == ["slack webhook", "discord webhook"]


def test_a_discord_token_is_known_by_the_number_inside_it() -> None:
    number = base64.b64encode(made(18, DIGITS).encode()).decode()
    assert kinds(f"client.login('{number}.{made(6, URL_SAFE)}.{made(38, URL_SAFE)}')") == [
        "discord token"
    ]
    assert kinds(f"Module{made(18)}.{made(6)}.{made(38)}") == []


def test_a_telegram_token_is_found_in_its_url() -> None:
    assert kinds(f"https://api.telegram.org/bot{TOKENS['telegram token'][0]}/getMe") == [
        "telegram token"
    ]


LABELS = ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
          "PGP PRIVATE KEY BLOCK"]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n", "\n    ", "\n> ", "\\n\" +\n  \""])  # fmt: skip
def test_a_private_key_goes_from_its_first_line_to_its_last(label: str, newline: str) -> None:
    assert (
        redact(f"before {key_block(label, newline)} after").text
        == "before [redacted: private key] after"
    )


@pytest.mark.parametrize("cut", [120, 200, 463, 500, 800])
def test_a_private_key_that_was_cut_off_goes_to_the_end_of_its_body(cut: int) -> None:
    assert redact("key:\n" + key_block()[:cut]).text == "key:\n[redacted: private key]"


def test_a_cut_private_key_does_not_swallow_the_words_after_it() -> None:
    cut = "\n".join(key_block().split("\n")[:5])
    assert redact(f"{cut}\n\nThis is the key of the old host.").text.endswith(
        "]\n\nThis is the key of the old host."
    )


def test_a_private_key_may_have_headers() -> None:
    first, _, rest = key_block().partition("\n")
    text = f"{first}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{made(32, HEX)}\n\n{rest}"
    assert redact(text).text == "[redacted: private key]"
    assert redact(text[:400]).text == "[redacted: private key]"


@pytest.mark.parametrize(
    "text",
    [
        key_block("PUBLIC KEY"),
        key_block("CERTIFICATE"),
        "-----BEGIN RSA PRIVATE KEY-----",
        'if "-----BEGIN PRIVATE KEY-----" in text: raise Refused("a key")',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n<your key here>\n-----END PRIVATE KEY-----",
    ],
)
def test_a_public_key_or_the_mention_of_a_private_one_stays(text: str) -> None:
    assert not find_secrets(text)


URLS = ["postgres://app:{}@db:5432/x", "mysql://root:{}@localhost/x", "mongodb+srv://u:{}@c.mongodb.net",
        "redis://:{}@r/0",
        "amqp://u:{}@mq", "https://user:{}@host.com/x", "postgresql+asyncpg://u:{}@h/d",
        "ftp://bob:{}@ftp.org"]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "password", ["hunter2", "s3cr3t!pw", "Xk9mP2vLq8", "p%40ss1word", "swordfish"]
)
def test_only_the_password_of_a_url_is_replaced(url: str, password: str) -> None:
    clean = redact(f"DATABASE_URL={url.format(password)}")
    assert clean.text in (
        f"DATABASE_URL={url.format(f'[redacted: {kind}]')}"
        for kind in ("connection string", "url password")
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:password@localhost:5432/db",
        "postgres://postgres:postgres@localhost/test",
        "amqp://guest:guest@localhost",
        "mysql://root:${MYSQL_PASSWORD}@db/app",
        "https://$USER:$TOKEN@github.com/x/y",
        "https://user:pass@host.org",
        "postgresql://user:***@host/db",
        "mongodb://<user>:<password>@host",
        "postgres://USER:PASSWORD@HOST:PORT/NAME",
        "postgres://%s:%s@%s/%s",
        'f"postgres://{user}:{password}@{host}/db"',
        "http://localhost:8080/path@v2",
        "git@github.com:user/repo.git",
        "https://registry.host.com:5000/a/b@sha256:e3b0c44298fc1c149afb",
    ],
)
def test_a_url_without_a_real_password_stays(url: str) -> None:
    assert not find_secrets(url)


@pytest.mark.parametrize("value", [made(40), made(32, HEX), made(30, URL_SAFE)])
@pytest.mark.parametrize(
    "text",
    ["Authorization: Bearer {}", "-H 'authorization: bearer {}'", '"Authorization", "Bearer {}"'],
)
def test_a_bearer_token_is_found(text: str, value: str) -> None:
    assert value not in redact(text.format(value)).text


def test_a_basic_header_is_read_before_it_is_judged() -> None:
    assert kinds("Authorization: Basic " + login("admin", "Xk9mP2vLq8")) == ["basic login"]
    assert kinds('{"auths": {"host": {"auth": "' + login("admin", "Xk9mP2vLq8") + '"}}}') == [
        "credential"
    ]
    assert kinds("Authorization: Basic " + login("user", "password")) == []
    assert kinds("Basic understanding of authorisation") == []


@pytest.mark.parametrize(
    "text",
    ["Authorization: Bearer <token>", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer YOUR_ACCESS_TOKEN",
     'headers["Authorization"] = f"Bearer {token}"', "a bearer authentication-scheme-description"],
)  # fmt: skip
def test_a_header_that_is_only_described_stays(text: str) -> None:
    assert not find_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "curl -u admin:{} https://host",
        "curl -s \\\n  --user 'admin:{}' https://host",
        "machine host login joe password {}",
        "sshpass -p '{}' ssh host",
        "mysql -u root -p{} db",
        "redis-cli -h host -a {} ping",
        "docker login -u me -p {} registry.io",
        "openssl rsa -passin pass:{}",
        "CREATE USER x IDENTIFIED BY '{}';",
        'ConvertTo-SecureString "{}" -AsPlainText',
        "db.internal:5432:app:appuser:{}",
        "requirepass {}",
    ],
)
def test_commands_that_take_a_password_are_known(text: str) -> None:
    assert redact(text.format("hunter2!x9")).text == text.format("[redacted: password]")


@pytest.mark.parametrize(
    "text",
    ["curl -u user:password https://host", "curl -u $USER:$PASS https://host", "docker run -u 1000:1000 curl",
     "mysql -u root -p",
     "mkdir -p src/mysql2/deep", 'mysql -uroot -p"$MYSQL_PW" db', "redis-cli -a $REDIS_PASS",
     "docker login -u user -p password",
     "machine host login me password mypassword"],
)  # fmt: skip
def test_commands_without_a_real_password_stay(text: str) -> None:
    assert not find_secrets(text)


def test_a_session_cookie_is_found() -> None:
    value = made(32)
    assert redact(f"Cookie: theme=dark; sessionid={value}; a=b").text == (
        "Cookie: theme=dark; sessionid=[redacted: session cookie]; a=b"
    )
