"""Secrets that only the words before them give away, and runs that the nearest word makes public."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.privacy import redact

_DRAW = random.Random(14)
HEX40, HEX64 = ("".join(_DRAW.choices("0123456789abcdef", k=size)) for size in (40, 64))
MIXED = "".join(_DRAW.choices(string.ascii_letters + string.digits, k=36))
BASE32 = "".join(_DRAW.choices(string.ascii_uppercase + "234567", k=32))

SECRET = r"""
Access token was successfully created: {HEX40}
voice stack: deepgram {HEX40} (project voice)
HMAC for notifications {HEX64}
here is the 2FA seed for the bot account so you can compute codes: {BASE32}
key := []byte("{MIXED}")
let token = String::from("{MIXED}");
const key = Buffer.from('{HEX64}', 'hex') // the signing key: {HEX64}
I pasted the token ({MIXED}) into the settings page.
The private token from the old server, {MIXED}, still works.
Your new API key:\n\n    {MIXED}\n\nCopy it now.
Generated webhook signing key\n{HEX64}
$ echo $GITHUB_TOKEN\n{HEX40}
PROVIDER     ENV      API KEY\nmistral      prod     {MIXED}
DATADOG: api {HEX64} / app {HEX40}
API 키는 {MIXED} 이고
токен для бота: {HEX40}
$ export BW_SESSION="{MIXED}=="
El token de acceso para el API es {HEX40}, pruébalo
RSA_KEY={MIXED}
eddsa key: {HEX64}
the deploy token is prod_{MIXED}
curl 'https://app.acme.dev/api' -b 'theme=dark; session={MIXED}; _ga=GA1'
https://hooks.acme.io/in/{MIXED} is the webhook for alerts
"""
PUBLIC = """
mapboxgl.accessToken = 'pk.eyJ1IjoibWFwYm94IiwiYSI6ImNpejY4NXVycTA2emYycXBndHRqcmZ3N3gifQ.rJcFIG214AriISLbB6B5aw';
webhook evt_1{MIXED} for sub_1{MIXED} came twice
gpg:                using EDDSA key C5C489B8FF02CA6F8AAE96F7000349E086661983
cache key: {HEX40}
fix token refresh in {HEX40}
The token bug was introduced by {HEX40}, see the auth module.
sha256 of the key file: {HEX64}
token-service revision {HEX40} deployed
bump secret-manager to v1.2.1 ({HEX40})
file secrets.py changed: {HEX40}..{HEX40}
Cache hit for key node-modules-{HEX64}
image auth-api:{HEX40} pulled
contract token address 0x{HEX40}
csrf token {MIXED}
Next token: {MIXED}
account {HEX64}, zone {HEX64} (cloudflare)
keys: {HEX64} (md5 of the list)
s3 object key: uploads/{HEX64}.bin
password: ENC[AES256_GCM,data:{MIXED},type:str]
pod auth-service-7d9f8b6c5d-x2k9q restarted
The token expired. Deployed {HEX40} to staging.
"""


def fill(line: str) -> str:
    return line.replace("\\n", "\n").format(HEX40=HEX40, HEX64=HEX64, MIXED=MIXED, BASE32=BASE32)


@pytest.mark.parametrize("line", SECRET.strip().splitlines())
def test_a_random_run_after_a_word_of_a_secret_is_redacted(line: str) -> None:
    text = fill(line)
    clean = redact(text).text
    assert needs_rules(text)
    assert not any(run in clean for run in (HEX40, HEX64, MIXED, BASE32))


@pytest.mark.parametrize("line", PUBLIC.strip().splitlines())
def test_a_random_run_after_a_word_of_something_public_stays(line: str) -> None:
    assert redact(fill(line)).text == fill(line)


@pytest.mark.parametrize(
    "text",
    [
        "can you log into the old jenkins? it's admin and then Kestrel#Dawn41",
        "RDP to 10.0.4.4 as Administrator with Clover&Bee77",
        'My password there is "correct horse battery staple 7" (with the spaces).',
        'Das Passwort vom NAS lautet "Drei Kühe im Nebel".',
        "The passphrase of the backup disk is lilac under nine bridges. Alarm is off.",
        "PGPASSWORD='it$ a trap 22' pg_dump -h db-2 app",
        "DB 암호를 'gang-nam-99'로 바꿨어요",
        "ORA_CONN=hr_app/Tiger_Lily_08@//ora-hr.acme.lan:1521/HRPROD",
        "psn: kim@acme.io:Nettle-Soup-5",
        "$ printenv DB_PASSWORD\nRook.Tower.17",
        "root:$6$MIjhCbbfAoGh1lFB$lXg2jc8p2xyHl9r5B6eAVAy7hnySW9xsUh5Uxo8aBiQ:19800:0:99999:7:::",
        "[10:13] Tobi: admin, pw is hausmeister-krause\n",
        "| User | Password |\n|---|---|\n| mq | hasenbau |",
        "users:\n  - name: alice\n    passwd: alice.im.Wald\n",
        "사내 위키 계정: hong / ghdrlfehd77",
        "network_key: [27, 53, 41, 133, 225, 133, 221, 198, 242, 102, 60, 145, 55, 213, 212, 20]",
        "naver:\n  client-id: hQaBX5UbpGWMDorWlhz1\n  client-secret: IlYrZvHVQJ\n",
        "DSN=warehouse;UID=etl;PWD={Sn0w;plow!};",
        "The passphrase for the deploy ssh key: correct-otter-battery-fjord",
        "treasury wallet seed: ribbon fabric brisk umbrella lemon pepper mango zebra icon fossil cactus pepper",
        "MFA setup key: Z4UH FKVM L5CT YXV4 KGAF RFW2 HNYW T3FD",
    ],
)
def test_a_password_of_people_is_redacted(text: str) -> None:
    assert needs_rules(text)
    assert "[redacted: " in redact(text).text


@pytest.mark.parametrize(
    "text",
    [
        "The passphrase is asked for only once.",
        '"password": "Passwort ist zu kurz",',
        'errors.password = "does not match confirmation"',
        'set password policy to "strong-v2"',
        'curl -u "<username>:<password>" https://artifacts.acme.io/api',
        "htpasswd -B -c /etc/nginx/.htpasswd metrics",
        "n={key:'k',pass:function(e){return e}};",
        "비밀번호를 입력하세요",
        "my password manager is Bitwarden",
        "The header of a JWT, `eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9`, decodes to the type.",
        "`test_login_with_wrong_password` failed because the fixture never set `user.is_active`.",
        "the password is case-sensitive",
        "const { username, password } = req.body;",
        "log in and see issue Login#4412",
    ],
)
def test_a_text_about_passwords_stays(text: str) -> None:
    assert redact(text).text == text


@given(
    st.sampled_from(["key", "api token", "secret", "deepgram", "commit", "hash", "x"]),
    st.sampled_from(
        ["{} {}", "{}: {}", "the {} is {}", "{}\n{}", '{} := f("{}")', "NAME  {}\nprod  {}"]
    ),
    st.text(string.ascii_letters + string.digits + "+/_-", min_size=16, max_size=48),
)
def test_the_pre_filter_fires_wherever_the_context_gives_a_secret_away(
    word: str, syntax: str, run: str
) -> None:
    text = syntax.format(word, run)
    assert redact(text).text == text or needs_rules(text)


def test_a_marker_gives_nothing_away() -> None:
    text = f"key {MIXED} and then a note about {HEX40}"
    assert redact(text).text == f"key [redacted: secret key] and then a note about {HEX40}"
