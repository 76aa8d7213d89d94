"""A value is a secret when its key, its syntax and its look all say so."""

import pytest
from tests.support.cases import for_each
from tests.support.secret_samples import HUMAN_PASSWORDS, STRONG_VALUES, uuid

from ralph.privacy.privacy import find_secrets, redact
from ralph.privacy.secret_names import secret_name

PASSWORD_PLACES = """\
PASSWORD={}
DB_PASSWORD={}
export DB_PASS='{}'
password: {}
  password: {}  # production
  password: "{}"
password = {}
password = "{}"
'password': '{}',
"password": "{}"
{"user":"x","pwd":"{}"}
{\\"password\\": \\"{}\\"}
"text": "line\\nDB_PASSWORD={}\\nnext"
PGPASSWORD={} psql -h host
ENV DB_PASSWORD={}
ENV DB_PASSWORD {}
- DB_PASSWORD={}
docker run -e POSTGRES_PASSWORD={} postgres
kubectl create secret generic x --from-literal=password={}
spring.datasource.password={}
keystore.password={}
ansible_become_pass={}
tool --password {}
tool --password={} --user x
tool --db-password "{}"
<password>{}</password>
<add key="DbPassword" value="{}"/>
{"name": "DB_PASSWORD", "value": "{}"}
Server=x;User Id=sa;Password={};Database=d
Server=x;Uid=sa;Pwd={};
jdbc:postgresql://h/d?user=x&password={}&ssl=true
define('DB_PASSWORD', '{}');
'password' => '{}',
:password => '{}'
password := "{}"
const dbPassword: string = '{}';
String password = "{}";
var password string = "{}"
login(user='x', password='{}')
os.environ['DB_PASSWORD'] = '{}'
$env:DB_PASSWORD = '{}'
$password = '{}';
setx DB_PASSWORD {}
CREATE USER x WITH PASSWORD '{}';
my password is {}
The password is `{}`.
**Password:** {}
Password: {}
| password | {} |
passphrase: {}
auth: { user: 'x', pass: '{}' }
"""

SECRET_PLACES = """\
API_KEY={}
api_key: {}
api-key: {}
"apiKey": "{}"
{\\"api_key\\":\\"{}\\"}
client_secret = '{}'
"client_secret": "{}"
export GITHUB_TOKEN={}
export X_TOKEN="{}"
X-Api-Key: {}
X-Auth-Token: {}
Authorization: token {}
tool --token {}
tool --token={}
tool --api-key '{}'
https://host/x?access_token={}&y=1
SECRET_KEY = '{}'
SECRET_KEY_BASE={}
jwt_secret: {}
auth_token: "{}"
const apiKey = '{}'
const API_KEY: string = "{}"
let api_key: &str = "{}";
api_key: str = "{}"
var token string = "{}"
#define API_KEY "{}"
//registry.host/:_authToken={}
encryption_key: {}
TWILIO_AUTH_TOKEN={}
webhookSecret: '{}'
oauth_token_secret={}
my_service_api_key_prod: {}
set -x API_TOKEN {}
fly secrets set API_TOKEN={}
<apiKey>{}</apiKey>
API key: {}
API Key = {}
the API key is {}
token: {}
token = "{}"
config.api_key = '{}'
OPENAI_KEY={}
GITHUB_PAT={}
PrivateKey = {}
AWS_SECRET_ACCESS_KEY={}
aws_secret_access_key = {}
AWS Secret Access Key [None]: {}
"SecretAccessKey": "{}",
DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=y
Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}
"""


def filled(place: str, value: str) -> str:
    return place.replace("{}", value)


@pytest.mark.parametrize("place", PASSWORD_PLACES.splitlines())
def test_a_password_is_replaced_in_every_syntax_and_nothing_else_is(place: str) -> None:
    for value in HUMAN_PASSWORDS:
        assert redact(filled(place, value)).text == filled(place, "[redacted: password]")


@pytest.mark.parametrize("place", SECRET_PLACES.splitlines())
def test_a_machine_made_secret_is_replaced_in_every_syntax(place: str) -> None:
    for value in STRONG_VALUES:
        clean = redact(filled(place, value))
        assert len(clean.findings) == 1
        assert clean.text == filled(place, f"[redacted: {clean.findings[0].kind}]")


def test_a_kubernetes_variable_has_its_value_on_the_next_line() -> None:
    text = "env:\n  - name: DB_PASSWORD\n    value: {}\n  - name: MODE\n    value: fast9lane8\n"
    assert redact(filled(text, "hunter2!x9")).text == filled(text, "[redacted: password]")


def test_weak_passwords_count_in_config_files() -> None:
    for text in ("DB_PASSWORD={}", "password: {}", '"password": "{}"', "--password {}"):
        assert redact(filled(text, "Summer2024!")).text == filled(text, "[redacted: password]")
    for text in ("DB_PASSWORD={}", "password: {}", '"password": "{}"'):
        assert redact(filled(text, "hunter2")).text == filled(text, "[redacted: password]")


def test_a_uuid_is_a_secret_only_under_a_key_that_says_so() -> None:
    assert find_secrets(f"HEROKU_API_KEY={uuid()}")
    assert not find_secrets(f"session_id={uuid()}")
    assert not find_secrets(f"request: {uuid()}")


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


LOOK_ALIKES = r"""
password: the field is validated
password = getpass()
password = os.environ["DB_PASSWORD"]
PASSWORD=$DB_PASSWORD
PASSWORD=${DB_PASSWORD}
PASSWORD=${DB_PASSWORD:-changeme1}
password: {{ vault_password }}
password: ${{ secrets.DB_PASSWORD }}
apiKey: process.env.API_KEY
const token = process.env.GITHUB_TOKEN2;
api_key = ENV["API_KEY"]
api_key: your-api-key-here1
API_KEY=xxxxxxxxxxxxxxxx
API_KEY=changeme123
password: "********"
token: null
token = None
"token": true
max_tokens: 4096
max_tokens=128000
token_budget = 12000
tokens: 1234567890
"total_tokens": 18234
password_min_length: 12
api_key_header: X-Api-Key-2
secret_name: my-app-secret-v2
secretName: db-credentials-2024
token_type: Bearer
password_field = "password_input_2"
public_key: MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtestkey
ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8f2kfj"
def login(user: str, password: str) -> Token:
class Token(BaseModel): token: str; token_type: str
password: Optional[str] = None
password: string;
password?: string
private readonly apiKey: string,
let token: Option<String> = None;
token = self._next_token()
token = tokens[i]
token = lexer.next_token1
secret = hashlib.sha256(b"x").hexdigest()
password = input("Password: ")
password=args.password2
token=request.headers.get("X-Token")
if token == "identifier":
cache_key = "user:profile:1234:v2abc"
cacheKey = "a1b2c3d4e5f6a7b8c9d0"
primary_key: user_id2
partition_key = "2024-01-01T00:00:00Z"
PRIMARY_KEY=abc123def456ghi789jkl0
pwd: /home/user/project2
PWD=/home/me/v1
password_hash: $2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW
password: $2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW
secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf
secret: projects/123/secrets/db-pass/versions/3
password: op://vault/item/password
password: vault:secret/data/db#password
password: !vault |
password: ENC[AES256_GCM,data:p673w==,iv:YY=,tag:UQ==,type:str]
password-file: /run/secrets/db_password1
DB_PASSWORD_FILE=/run/secrets/db_password1
tokenUrl: https://auth.example.com/oauth2/token
token_endpoint: "https://login.microsoftonline.com/common/oauth2/v2.0/token"
auth_type: oauth2
auth: "oauth2-client-v2"
"authProvider": "google-oauth2"
secretKeyRef: { name: db, key: password2 }
- name: DB_PASSWORD
password = "changeme"
password: "secret"
password: example123
"password": "Your password must be 8+ characters"
"password": "Passwort"
"password": "Password*"
"password_label": "Enter password 123!"
passwordPlaceholder="P@ssw0rd example"
token: GITHUB_TOKEN
token: ${GITHUB_TOKEN}
api_key_env: OPENAI_API_KEY
api_key="OPENAI_API_KEY2"
eos_token: "<|endoftext|>"
pad_token_id: 50256
next_token = "eyJsYXN0IjoiYWJjMTIzZGVmIn0"
nextPageToken: "CAUQAA12345abcdefXYZ"
design-token: "#1a2b3c"
token: "#ff00aa11"
--color-token: rgba(12,34,56,0.5);
secret santa: 2024-12-24
The secret is to use SQLite.
The token is refreshed every 15m.
The password is at least 8 characters.
api key is required
The API key is stored in 1Password.
Set the token in ~/.config/x/token2
password: /^(?=.*[A-Z])(?=.*\d).{8,}$/
password: "^[A-Za-z0-9]{8,}$"
if "-----BEGIN PRIVATE KEY-----" in text: raise
test_secret_is_removed_when_expired_v2
token_count = 1234567
TOKENS_PER_MINUTE=90000
session_id: 01HQ8Z9Y7X6W5V4U3T2S1R0Q9P
client_id: 1234567890-abc123def456.apps.googleusercontent.com
AWS_ACCESS_KEY_ID=$(op read x)
publishable_key: pk_test_TYooMQauvdEDq54NiTphI7jx
username: admin, password: see 1Password
passwd:x:1000:1000::/home/u:/bin/bash
root:x:0:0:root:/root:/bin/bash
auth = HTTPBasicAuth(user, password)
credentials: "same-origin"
credential_process = /usr/local/bin/get-creds2
secrets: inherit
- secret/data/app2
password ||= SecureRandom.hex(16)
password = Faker::Internet.password
secret = Rails.application.credentials.secret_key_base
api_key = config.get("openai", "api_key")
api_key = settings.OPENAI_API_KEY
token = jwt.encode({"a": 1}, key)
token = f"{prefix}-{uuid4()}"
token = "abc" + suffix
token = `Bearer ${x}`
password = %DB_PASSWORD%
password=%s
password: [redacted: password]
API_KEY=[redacted: api key]
token: "fake-token-123"
SECRET_KEY = "django-insecure-change-me-please"
SECRET_KEY=dev
access_token: access-token
"access_token": "string"
tokenizer: "cl100k_base"
"password": {"type": "string", "minLength": 8}
password: z.string().min(8)
secret: !Ref DbSecret2
authToken: Constants.AUTH_TOKEN_V2
private_key_path: ~/.ssh/id_ed25519
private_key: ./certs/server1.key
PRIVATE_KEY_FILE=certs/id_rsa4096.pem
identity_file: id_ed25519
key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
kms_key_id: 1234abcd-12ab-34cd-56ef-1234567890ab
S3_KEY=uploads/2024/01/report-final-v2.pdf
TRANSLATION_KEY=home.page.title2
REDIS_KEY=session:user:12345:abcdef
foreign_key: users.id
Key: Ctrl+Shift+K2
hot_key = "Ctrl+Alt+F12"
compass: N42E71
pass: 12 fail: 3
PASS tests/foo2_test.py
pass_through: x1y2z3a4
passenger_count: 12345678
author: John3Smith9
auth0_domain: dev-a1b2c3d4.us.auth0.com
authority: https://login.x.com/a1b2c3d4
oauth_callback: http://localhost:3000/cb
"keywords": "a1b2c3d4e5f6"
keyboard: qwerty105
monkey = banana42x9
tokenization=bpe50k
secretary: Jane2024x
the "token" parameter, e.g. "abc123XYZ"
x-api-key: string
sentry_dsn: https://examplePublicKey@o0.ingest.sentry.io/0
SENTRY_DSN=https://a1b2c3d4e5f60718293a4b5c6d7e8f90@o123.ingest.sentry.io/456
"version": "1.2.3-beta.4"
token = 550e8400-e29b-41d4-a716-446655440000
AccountName=devstoreaccount1;AccountKey=...;
Password=;User Id=sa
password="";
--password <password>
--token $TOKEN
--password-stdin
--auth-no-challenge
password is stored in the keychain
DB_PASSWORD=<set in Vercel>
DB_PASSWORD="{{ .Values.db.password }}"
DB_PASSWORD=#{ENV['X']}
DB_PASSWORD=`cat /run/secret`
DB_PASSWORD="$(cat /run/secret)"
export TOKEN="$(gh auth token)"
ARG NPM_TOKEN
ENV NPM_TOKEN=$NPM_TOKEN
GITHUB_TOKEN: ${{ github.token }}
password: !secret wifi_password
password: (none)
refresh_token_expires_in: 15897600
access_token_lifetime=3600s
"token_hash": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
csrf_token: "{{ csrf_token() }}"
password: ${env:DB_PASSWORD}
password: env:DB_PASSWORD2
api_key: file:///etc/keys/x1
Password reset token sent to user@example.com
secret_rotation_days = 30
Token usage: 12,345 / 200,000
tokens=[1234567, 2345678]
"secret": ["a", "b"]
"""


@for_each("line", LOOK_ALIKES.strip().splitlines())
def test_what_only_looks_like_an_assigned_secret_stays(line: str) -> None:
    assert redact(line).text == line
    assert redact(f"    {line}\n").text == f"    {line}\n"


TRUE_ONES = """
PASSWORD={hunter2Secret9}
passwd={Abcd1234}
password = '{Blue-Horse-77}'
password: {Green_River_2031}
MYSQL_ROOT_PASSWORD: {rootpw}
MYSQL_ROOT_PASSWORD={rootpw}
  MYSQL_ROOT_PASSWORD: {rootpw}  # local
export DB_PASSWORD="{gartenzaun}"
SECRET={Zx9kLm}
APP_TOKEN={q7RtW2}
HEROKU_API_KEY={12345678-abcd-4bcd-8def-1234567890ab}
user=a password={hunter2} host=b
host=b user=a password={hunter2}
conn = "host=b password={BlueHorse} dbname=x"
user=a password={hunter2Secret9} host=b
비밀번호={Xk29slQpz81}
비밀번호: {Xk29slQpz81}
**비밀번호**: {hunter2!x9}
내 비밀번호는 {hunter2!x9}입니다
"비밀번호": "{hunter2!x9}"
관리자 암호 : {hunter22}
密码: {Xk29slQpz81}
密碼：{Xk29slQpz81}。
密码是 {hunter2!x9}
パスワード：{Xk29slQpz81}
パスワード：{kumo49Tsuki!}(2026年3月まで)
パスワード　＝　{Xk29slQpz81}
| パスワード | {Xk29slQpz81} |
토큰: {q7RtW2mZ9pLx4Kd8}
API 키: {q7RtW2mZ9pLx4Kd8}
密钥: {q7RtW2mZ9pLx4Kd8}
пароль: {hunter22}
contraseña: {hunter22}
contraseña: {Xk9$mQ2(zLongRest99}
密码: {(Hunter2!x99}
"""


@pytest.mark.parametrize("line", TRUE_ONES.strip().splitlines())
def test_a_password_that_people_choose_is_replaced_where_the_line_tells_it(line: str) -> None:
    before, value, after = line.replace("}", "{").split("{")
    clean = redact(before + value + after)
    assert len(clean.findings) == 1
    assert clean.text == f"{before}[redacted: {clean.findings[0].kind}]{after}"


MORE_LOOK_ALIKES = r"""
password = hash_value
password = hashValue2
token = Token.EOF
token = Token.EOF2
secret = "prod/db"
secret = "prod/db2"
password: str
password: Str2
passwordField = loginForm2
POSTGRES_PASSWORD: postgres
POSTGRES_PASSWORD=postgres
MYSQL_ROOT_PASSWORD: root
MYSQL_ROOT_PASSWORD: example
MYSQL_PASSWORD=wordpress
DB_PASSWORD: required
DB_PASSWORD: string
DB_PASSWORD=secret
DB_PASSWORD: needed for migrations
DB_PASSWORD: optional  # see the manual
- DB_PASSWORD: mandatory
RESET_PASSWORD: resetting
RESET_PASSWORD = 'resetting'
FORGOT_PASSWORD=forgotten
ERR_WRONG_PASSWORD: mismatched
GRANT_TYPE_PASSWORD = "password"
FIELD_PASSWORD: "userpw"
ALLOW_EMPTY_PASSWORD=yesplease
DB_PASSWORD: dbpass
DB_PASSWORD: dbPassword2,
DB_PASSWORD: config.password2
DB_PASSWORD=$PGPASS
PASSWORD=dbPassword2
PASSWORD=dbSecret
SECRET=AppSecret2
TOKEN=Foo
SECRET=production
SECRET_KEY=development
API_KEY=OpenAi2Key
API_TOKEN=abc123
TOKEN=Abcd1234
API_KEY=Abcdefgh12345678
password = 'test-token-22'
password = "UserService12"
password = 'Enter-Password'
secret: blue-horse-77
token = "Blue-Horse-77"
api_key: 00000000-0000-0000-0000-000000000000
API_KEY=12345678-1234-1234-1234-123456789012
API_KEY=12345678-1234-5678-1234-567812345678
API_KEY=a1b2c3d4-e5f6-7890-abcd-ef1234567890
API_KEY=xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx
API_KEY=11111111-1111-4111-8111-111111111111
user=a password=required host=b
user=$1 password=$2 host=$3
user=args.user password=args.password2 host=h
connect(user=a, password=pw_value2, host=b)
connect(user=user_name, password=dbPw2, host=host)
user=userName password=userPass host=hostName
user=me password=secretValue host=h
user=a password=changeme1 host=b
user=x password=${PW1} host=y
level=info password=redacted user=bob
a password of 12 characters
비밀번호는 8자 이상이어야 합니다
비밀번호: 8자 이상, 특수문자 포함
비밀번호: ${DB_PASSWORD}
비밀번호: 필수
비밀번호 확인: 입력하세요
비밀번호: bcrypt12로 해시
비밀번호는 bcrypt로 저장한다
암호: AES-256-GCM
암호화: aes256gcm9X
토큰: JWT
토큰: 4096
토큰 한도: 128000
密码: 至少8位
密码：your-password
密码: ********
密码: getPwd2()
密码不能为空: ERR1001x
令牌: access_token
密钥: /etc/keys/id1
密钥长度: 2048
パスワード：8文字以上
パスワード: example123
パスワードは必須です
パスワードはpassword_hashで検証
トークン: GITHUB_TOKEN
пароль: changeme
contraseña: requerida
label: { password: '비밀번호', confirm: '비밀번호 확인' }
"비밀번호": "string"
t('비밀번호') = t("password2")
비밀번호=user.password2
비밀번호 | 설명 |
test_password_is_rejected_when_short2
password_policy = "Min8Chars"
password_strength: Weak2Strong
PASSWORD_HASHERS=Argon2PasswordHasher
PASSWORD_RESET_TIMEOUT=259200
AUTH_PASSWORD_VALIDATORS = []
DB_PASSWORD_SECRET_NAME=prod-db-77
SECRET_NAME=Zx9kLm
TOKEN_LIMIT=Zx9kLm
KEY=Zx9kLm
password: Passw0rd
export PASSWORD=password
set password=foo
DB_PASSWORD=localhost
DB_PASSWORD: # set me
DB_PASSWORD=vault
REDIS_PASSWORD=
PASSWORD_CHAR=*
KEYCLOAK_ADMIN_PASSWORD: keycloak
GF_SECURITY_ADMIN_PASSWORD=grafana
MYSQL_PASSWORD=mysql
RABBITMQ_DEFAULT_PASS: rabbitmq
ROUTE_PASSWORD: forgotten
password = default_password
password = password2
password = self.password1
password = row[3]
password = form.cleaned_data["password1"]
password = prompt
token = next(tokens)
token = TokenType2.IDENT
token: TokenKind2
secret: SecretStr
secret: Secret2Ref
"""


@for_each("line", MORE_LOOK_ALIKES.strip().splitlines())
def test_a_word_that_a_line_gives_to_a_telling_key_is_not_yet_a_password(line: str) -> None:
    assert redact(line).text == line
    assert redact(f"    {line}\n").text == f"    {line}\n"
