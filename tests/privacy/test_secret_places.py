"""Passwords are found in every place where repositories, logs, chats and terminals have them, and nothing beside."""

import base64

import pytest
from tests.support.cases import for_each
from tests.support.secret_samples import made

from ralph.lean.secret_prefilter import needs_rules
from ralph.privacy.privacy import redact

WORDS = "Elm_" + "Bridge-6"  # made up
PLACES = r"""
SMTP_PASSWORD={}
PW={}
spring.datasource.password={}
<Password>{}</Password>
<property name="password" value="{}"/>
<key>Password</key>~<string>{}</string>
<name>ConnectionPassword</name>~<value>{}</value>
- name: DB_PASSWORD~  value: {}
psql "host=db user=app password={} sslmode=require"
mount -t cifs //nas/x /mnt -o username=m,password={},uid=1000
helm install x --set auth.postgresPassword={},size=20Gi
jdbc:postgresql://h/d?user=x&password={}&ssl=true
cfg=&{Host:h Username:n Password:{} TLS:true}
sed -i 's/^DB_PASS=.*/DB_PASS={}/' .env
mongosh --username root --password {} --eval x
mysql -u root -p{} shop
mongodump -u admin -p {}
sqlcmd -S db -U sa -P {} -Q x
ldapsearch -x -D cn=svc -w {} -b dc=x
smbclient //fs/x -U bob%{} -c ls
zip -r -P {} a.zip x
7z a -p{} a.7z x
keytool -genkeypair -storepass {} -alias x
openssl pkcs12 -passin pass:{} -in a.p12
net user svc {} /add
rclone config create a webdav user=x pass={} --obscure
gh secret set DEPLOY_PASS --repo a/b --body '{}'
http -a bot:{} https://x
root:{}@tcp(db:3306)/app
cfg.setPassword("{}");
new NetworkCredential("svc", "{}");
Client::builder().basic_auth("x", Some("{}"))
requests.get(u, auth=("dana", "{}"))
new PDO('mysql:host=db', 'shop', '{}');
red:auth("{}")
page.getByLabel("Password").fill("{}");
CREATE ROLE x LOGIN PASSWORD '{}';
expect "assword:"; send "{}\r"
requirepass {}
pg.acme.io:5432:*:report:{}
1.2.3.4 : PSK "{}"
createUser monitor SHA "{}" AES x
remote_password {}
the staging password is {}, log in as qa
the password should be {}
my key has a passphrase, it's {} there
router login admin, pw {}
- admin login is demo@acme.io / {}
initial password {} (change it)
Das Passwort für den Admin lautet {}, bitte
Le mot de passe est {}
La contraseña es {}
비밀번호: {} 호스트는 x
암호 {} (10.1.0.20)
パスワードは「{}」です
密码是 {}
user,password,role~bob,{},x
user	password	role~bob	{}	x
"name, full",password~"Bob, B.","{}"
NAME     USER    PASS~grafana  admin   {}
│ NAME        │ VALUE │~│ DB_PASSWORD │ {} │
{"db_password": {"sensitive": true, "type": "string", "value": "{}"}}
{"value": "{}", "name": "DB_PASSWORD"}
variable "db_password" {~  type = string~  default = "{}"~}
<entry key="db.password">{}</entry>
password: |-~  {}
INSERT INTO users (id, password) VALUES (1, '{}');
CREATE LOGIN [svc] WITH PASSWORD = N'{}';
ALTER USER app IDENTIFIED BY {};
const password = process.env.DB_PASS || "{}";
password = os.getenv("DB_PASS", "{}")
  "password": [-"{}"-]{+"${PW}"+},
jdbc:oracle:thin:scott/{}@//db:1521/x
sqlplus app/{}@orcl
lftp -u bob,{} sftp://h
plink -ssh bob@h -pw {} ls
net use Z: \\fs\x /user:acme\bob {} /persistent:no
mosquitto_pub -h h -u a -P {} -t x
openssl enc -aes-256-cbc -k {} -in x
mc alias set prod https://h admin {}
etcdctl --user root:{} get x
printf '%s' '{}' | cryptsetup luksOpen /dev/sdb1 x -
username admin privilege 15 secret 0 {}
snmp-server community {} RW
jwt.sign(payload, '{}');
Credentials.basic("svc", "{}");
mysql_real_connect(c, "h", "u", "{}", "d", 0, NULL, 0);
use {} as the password for it
I changed the root pw to "{}" again
le mot de passe du NAS c'est {} voilà
пароль от базы — {}
密码（生产）：{}
senha: {}
le mdp est {}
the root password is still {}
password - {}
creds: admin:{}
the default login (`admin` / `{}`) works
anna@x.io has an account: anna@x.io → {}
the router logs in as root with {}
I changed the password from {} to another
the office wpa2 key {}, please
restic --password-command 'echo {}' snapshots
ssh-keygen -t ed25519 -N '{}' -f k
onView(withId(R.id.password)).perform(typeText("{}"))
try? keychain.set("{}", key: "admin_password")
define( 'DB_PASSWORD', '{}' );
type {} at the password prompt
<password>~  {}~</password>
<db:password>{}</db:password>
<password type="text">{}</password>
note: user,password,role~ann,{},x
"""
LOOK_ALIKES = r"""
password: user.password
password: hashed_password,
password = models.CharField(max_length=128)
'password' => 'required|min:8|confirmed',
"password": "Password must contain 8 characters"
The password is hashed with bcrypt12
password is SHA-256 hashed
change the password hashing to argon2id
Password changed successfully for user 42
connect("clicked", self.on_click2)
login(user, password)
docker run -p 8080:80 nginx
mysql -h db01 -u root -p shop
curl -u "$USER:$PASS" https://x
git commit -m "Add password policy v2"
name,password_hash,created~bob,x1Y2z3W4,today
setting,type,default~password,string,,
password policy: 12+ chars
--set-secrets=API_KEY=projects/8812/secrets/maps-api-key/versions/latest
signingkey = 3AA5C34371567BD2F1E09C4AB5690EEEBB952194
password: {{ .Values.auth.password | b64enc | quote }}
use bcrypt as the password hash
jwt.sign(payload, 'secret')
INSERT INTO users (name, password) VALUES (?, ?);
variable "secret_name" {~  default = "prod/db/main"~}
NAME        TOKENS   AGE~web-7d9f    12345    12d
docker run --user 1000:1000 x
enable password authentication in sshd_config
password=Contraseña
dedup_key: "alert-1234-web-prod-eu1"
my user id is auth0|65f1c0a2b7d9e3f4a5b6c7d8
pass `--force-config` to it
dsn: https://80d3e44a68e1b10da49b14d26b949890@o44.ingest.sentry.io/45
the disk is encrypted with XChaCha20-Poly1305
Password: unchanged
connect({~  user: name,~  password: plaintextvalue~})
<h2 id="password" class="wide">Change it today</h2>
Fields: name, password~see the page, thanks
signingkey = 3AA5C34371567BD2
token = parseAuthorizationHeader
api_key: environmentvariable
password: getPasswordFromKeyring
token: 4111111111111111
| token | count |~|---|---|~| Identifier2 | 3 |
motd.txt: V2VsY29tZSB0byB0aGUgc3RhZ2luZyBjbHVzdGVyLgpCZSBraW5kIHRvIGl0Lgo=
"""


@for_each("place", PLACES.strip().splitlines())
def test_a_password_of_words_is_found_in_every_place(place: str) -> None:
    text = place.replace("~", "\n").replace("{}", WORDS)
    assert needs_rules(text)
    assert redact(text).text == text.replace(WORDS, "[redacted: password]")


@pytest.mark.parametrize("line", LOOK_ALIKES.strip().splitlines())
def test_what_has_no_password_stays(line: str) -> None:
    text = line.replace("~", "\n")
    assert redact(text).text == text


@pytest.mark.parametrize("title", ["secret", "token"])
@pytest.mark.parametrize("password", ["Kettle31" + "Blued", "Winter-" + "Falls-92"])
def test_a_chosen_password_is_found_in_a_column_of_secrets(title: str, password: str) -> None:
    for table in ("name,{}\nsvc,{}", "name\t{}\nsvc\t{}", "| name | {} |\n|---|---|\n| svc | {} |"):
        text = table.format(title, password)
        assert needs_rules(text)
        assert redact(text).text == table.format(title, f"[redacted: {title}]")


@pytest.mark.parametrize(
    "digits", ["58213", "90417734", "8355760324146863", "835576032414686391520476"]
)
def test_the_password_of_a_client_may_be_a_number(digits: str) -> None:
    text = f"mysql -uroot -p{digits} shop"
    assert redact(text).text == text.replace(digits, "[redacted: password]")


def test_a_column_of_secrets_needs_one_digit_and_a_column_of_tokens_two() -> None:
    assert redact("name,secret\nsvc,my_Pass-word9").text == "name,secret\nsvc,[redacted: secret]"
    assert redact("name,token\nsvc,Identifier9").text == "name,token\nsvc,Identifier9"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "secret"),
    [("token_b64: {}", encoded("gh" + "p_" + made(36))),
     ("echo {} | base64 -d", encoded(f"PORT=80\nDB_PASSWORD={WORDS}\n")),
     ("Unseal Key 1: {}", made(43) + "="), ('{"unseal_keys_b64":["{}"]}', made(43) + "="),
     ("$ cat config/master.key\n{}\n", made(32, "0123456789abcdef")), ("access key and secret {} , x", made(40)),
     ("AWS_SECRET:\n" + "sk-" + "proj-" + made(60) + "\n   {}\n", made(58) + "a1B"),
     ("appid={}", made(32, "0123456789abcdef")),
     ("recovery codes:\n{}\n", "2f853-c3274\n01adf-7f928"),
     ("the mnemonic is {} .", "harbor velvet cousin " * 3 + "lunar maple zebra"),
     ("keys: AK" + "IA2QWERT7YUIOPLKJH\n{}\n", made(40)), ('{"kty": "oct", "k": "{}"}', made(64)),
     ("snyk auth {}", "6a095efc-a830-4e79-b8b2-0252ed45ae1a"), ("session({ secret: '{}' })", f"{WORDS}4"),
     ("$ cat config/prod.key\n{}\n", made(32, "0123456789abcdef")),
     ("Token for the registry:\n\n{}\n", made(40)), ("the secret for the ci account is {}, use it", made(40)),
     ('"token": {"value": "{}"}', made(40)), ("UPDATE x SET value = '{}' WHERE name = 'api_key'", made(40)),
     ('"passphrase": "{}"', "velvet cousin under the maple"), ("app.yml:12:secret_key: {}", made(40)),
     ("fernet_key = {}", made(43) + "="), ('T = (\n  "gh' + 'p_{}")', made(20) + '"\n  "' + made(20)),
     ("kind: Secret\ndata:\n  api: {}\n", encoded(made(20))),
     ("$ base64 .env\n{}\n", "\n".join([encoded(f"A=1\nPASSWORD={WORDS}\n" * 3)[at : at + 64] for at in (0, 64)]))],
    ids=range(25),
)  # fmt: skip
def test_what_is_encoded_wrapped_or_listed_is_found(text: str, secret: str) -> None:
    text = text.replace("{}", secret)
    assert needs_rules(text)
    assert secret not in redact(text).text
