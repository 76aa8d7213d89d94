r"""The rules by which secrets are recognised, one table each for tokens, phrases, names and words.

A token rule is a row `kind | prefixes | regex of the rest || regex before the prefix`; a prefix of fewer than four
characters counts only beside a run of 20 token characters. Every match of another rule contains one of its keywords in
lower case, which the pre-filter searches. Only Discord's tokens, known by the lengths of their parts, and base64 of
text need no keyword.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 5
"""Raise it whenever a rule finds more than before: lines of the log that older rules redacted are redacted again."""


def rules_mark(patterns: Sequence[str]) -> str:
    """Return the mark of log lines that these rules and patterns redacted."""
    if not patterns:
        return str(VERSION)
    import hashlib  # few users have patterns of their own

    return f"{VERSION}-{hashlib.sha256(chr(10).join(patterns).encode('utf-8', 'replace')).hexdigest()[:16]}"


TOKENS = r"""
aws access key | AKIA ASIA ABIA ACCA | [A-Z0-9]{16}(?![A-Za-z0-9_-])
aws session token | IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz | [A-Za-z0-9+/=]{60,}
aws api key | ABSK bedrock-api-key- | [A-Za-z0-9+/=]{60,}
aws mws token | amzn.mws. | <uuid>
google api key | AIza AQ.Ab | <word>{33,}
google storage key | GOOG1E | [A-Z0-9]{50,}
google oauth token | ya29. | [A-Za-z0-9_.-]{20,}
google oauth token | 1//0 4/0A | <word>{36,}
google oauth secret | GOCSPX- | <word>{20,}
firebase key | AAAA | <word>{7}:<word>{100,}
github token | ghp_ gho_ ghu_ ghs_ ghr_ | [A-Za-z0-9_]{30,}
github token | github_pat_ | [A-Za-z0-9_]{30,}
gitlab token | glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt- glrtr- BBDC- | [A-Za-z0-9_.-]{18,}
gitlab token | GR1348941 | <word>{20,}
bitbucket token | ATBB | [A-Za-z0-9]{24,}
atlassian token | ATATT3 ATCTT3 ATSTT3 | [A-Za-z0-9_=-]{40,}
trello token | ATTA | [0-9a-f]{60,}
slack token | xoxb- xoxa- xoxp- xoxo- xoxs- xoxr- xoxe- xoxc- xoxd- xoxe.xoxp- xoxe.xoxb- xapp- xwfp- | [A-Za-z0-9%/+.-]{16,}
slack webhook | hooks.slack.com/ | (?:services|workflows|triggers)/[A-Za-z0-9/+_-]{20,}
discord webhook | discord.com/api/ discordapp.com/api/ | (?:v\d+/)?webhooks/\d{10,}/<word>{40,}
teams webhook | webhook.office.com/ outlook.office.com/ | webhook[a-z0-9]*/[^\s"'<>]{40,}
telegram token | :AA | <word>{31,} || (?:bot)?\d{8,11}
twitter token | AAAAAAAAAAAAAAAAAAAA | [A-Za-z0-9%]{40,}
facebook token | EAA | [A-Za-z0-9]{80,}
instagram token | IGQ IGAA | <word>{60,}
twilio key | SK | [0-9a-f]{32}(?![A-Za-z0-9_-])
sendgrid key | SG. | <word>{20,}\.<word>{30,}
mailgun key | key- pubkey- | [0-9a-f]{32}(?![A-Za-z0-9_-])
mailchimp key | -us | \d{1,2}(?![A-Za-z0-9_-]) || [0-9a-f]{32}
brevo key | xkeysib- xsmtpsib- | [0-9a-f]{40,}-[A-Za-z0-9]{10,}
resend key | re_ | [A-Za-z0-9]{6,}_[A-Za-z0-9]{20,}
stripe key | sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ sk_org_live_ sk_org_test_ | [A-Za-z0-9_]{16,}
webhook secret | whsec_ whsk_ | [A-Za-z0-9+/=]{24,}
square token | sq0atp- sq0csp- EAAA | <word>{22,}
shopify token | shpat_ shpca_ shppa_ shpss_ shpua_ shptka_ | [0-9a-fA-F]{30,}
braintree token | access_token$production$ access_token$sandbox$ | [0-9a-z]{16}\$[0-9a-f]{32}
plaid token | access-production- access-development- access-sandbox- | <uuid>
flutterwave key | FLWSECK_TEST- FLWSECK- | [0-9a-zA-Z]{12,}-X
payment key | shippo_live_ shippo_test_ duffel_live_ duffel_test_ EZAK EZTK | <word>{38,}
openai key | sk-proj- sk-svcacct- sk-admin- sk-None- sess- | <word>{20,}
anthropic key | sk-ant- | [a-z0-9]+-<word>{20,}
openrouter key | sk-or- | v\d-<word>{30,}
api key | sk- | [A-Za-z0-9_-]{24,}
api key | sk_ | [0-9a-f]{40,}(?![A-Za-z0-9_-])
groq key | gsk_ | [A-Za-z0-9]{40,}
xai key | xai- | [A-Za-z0-9]{60,}
perplexity key | pplx- | [A-Za-z0-9]{40,}
replicate token | r8_ | [A-Za-z0-9]{30,}
hugging face token | hf_ api_org_ | [A-Za-z0-9]{30,}
langsmith key | lsv2_pt_ lsv2_sk_ ls__ | [0-9a-f_]{32,}
model api key | pcsk_ tgp_v1_ tvly-dev- tvly-prod- tvly- nvapi- csk- fw_ jina_ e2b_ wandb_v1_ voyage- pa- BSA llx- up_ flp_ nk- ak- as- | <word>{24,}
firecrawl key | fc- | [0-9a-f]{32}(?![A-Za-z0-9_-])
npm token | npm_ | [A-Za-z0-9]{30,}
pypi token | pypi- | <word>{50,}
rubygems key | rubygems_ | [0-9a-f]{40,}
crates token | cio | [A-Za-z0-9]{32}(?![A-Za-z0-9_-])
service key | live_ test_ sandbox_ sk_sbox_ pat_ sat_ jsrp_ jsrd_ pfx_ ddp_ ddo_ vtwn_ | [A-Za-z0-9]{28,}
nuget key | oy2 | [a-z0-9]{43}(?![A-Za-z0-9_-])
clojars token | CLOJARS_ | [0-9a-f]{50,}
docker token | dckr_pat_ dckr_oat_ | <word>{20,}
docker credentials | eyJhdXRocyI6 eyJwYXlsb2FkIjoi | [A-Za-z0-9+/=]{20,}
swarm token | SWMTKN-1- | [a-z0-9]{40,}-[a-z0-9]{20,}
cluster token | AstraCS: K10 token- kubeconfig-u- | [A-Za-z0-9]{5,80}::?(?:[a-z:]{3,20}[0-9a-f]{32}|[a-z0-9]{50,})
artifactory key | AKCp | [A-Za-z0-9]{60,}
artifactory key | cmVmdGtuOj | [A-Za-z0-9]{40,}
digitalocean token | dop_v1_ doo_v1_ dor_v1_ | [0-9a-f]{40,}
heroku key | HRKU- | <word>{36,}
databricks token | dapi dkea dose | [0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9_-])
vault token | hvs. hvb. hvr. | <word>{20,}
vault token | s. | [A-Za-z0-9]{24}(?![A-Za-z0-9_.-])
terraform token | .atlasv1. | <word>{40,} || [A-Za-z0-9]{14}
pulumi token | pul- | [0-9a-f]{40}(?![A-Za-z0-9_-])
linear key | lin_api_ lin_oauth_ | [A-Za-z0-9]{30,}
notion token | secret_ ntn_ | [A-Za-z0-9]{40,}
figma token | figd_ figh_ figo_ figu_ figr_ | <word>{36,}
airtable token | pat | [A-Za-z0-9]{14}\.[0-9a-f]{40,}
asana token | 0/ 1/ 2/ | \d{10,}(?:/\d{10,})?[/:][0-9a-f]{32}
clickup token | pk_ | \d{5,}_[A-Z0-9]{30,}
typeform token | tfp_ | [A-Za-z0-9_.-]{40,}
contentful token | CFPAT- | <word>{40,}
readme key | rdme_ | [a-z0-9]{60,}
hubspot token | pat-na1- pat-na2- pat-eu1- pat-ap1- | <uuid>
postman key | PMAK- | [0-9a-f]{24}-[0-9a-f]{30,}
sentry token | sntrys_ sntryu_ sntrya_ sntryi_ | [A-Za-z0-9+/=_-]{40,}
doppler token | dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. | [A-Za-z0-9_.-]{36,}
infisical token | st. | [0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}
one password token | ops_eyJ | [A-Za-z0-9+/=_-]{100,}
one password key | A3- | [A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,5}[A-Z0-9]{5}
grafana token | glsa_ glc_ eyJrIjoi | [A-Za-z0-9+/=_-]{32,}
cloudflare key | v1.0- | [0-9a-f]{24}-[0-9a-f]{100,}
cloudflare token | cfk_ cfut_ cfat_ eyJhIjoi | <word>{36,}={0,2}
fly token | fo1_ fm1r_ fm1a_ fm2_ | [A-Za-z0-9+/=_-]{40,}
vercel token | vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_ | [A-Za-z0-9_]{24,}
netlify token | nfp_ nfc_ nfo_ nfu_ nfb_ | [A-Za-z0-9]{36,}
supabase key | sbp_ sb_secret_ sbp_v0_ sbp_oauth_ | <word>{20,}
planetscale token | pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_pat_ | [A-Za-z0-9_.=-]{30,}
neon key | napi_ npg_ | [A-Za-z0-9]{12,}
render key | rnd_ | [A-Za-z0-9]{26,}
xata key | xau_ | [A-Za-z0-9]{30,}
tailscale key | tskey- | [a-z]+-[A-Za-z0-9]{8,}(?:-[A-Za-z0-9]{16,})?
age key | AGE-SECRET-KEY-1 AGE-PLUGIN- | [A-Z0-9-]{50,}
dropbox token | sl. sl.u. sl.B. | <word>{60,}
dynatrace token | dt0c01. dt0s01. dt0s16. | [A-Z0-9]{20,}\.[A-Z0-9]{60,}
new relic key | NRAK- NRII- NRIQ- NRRA- NRSP- | [A-Za-z0-9_-]{24,}
new relic key | NRAL | (?![A-Za-z0-9_-]) || [0-9a-f]{36}
honeycomb key | hcaik_ hcbik_ hcalk_ hcamk_ | [a-z0-9]{26,}
datadog key | ddapp_ ddapi_ pub_dd_ | [A-Za-z0-9]{30,}
posthog key | phx_ pha_ phs_ | [A-Za-z0-9]{30,}
sonar token | sqp_ squ_ sqa_ | [0-9a-f]{40}(?![A-Za-z0-9_-])
sourcegraph token | sgp_ slk_ | [A-Za-z0-9_]{40,}
circleci token | CCIPAT_ CCIPRJ_ | <word>{40,}
webhook | hooks.zapier.com/hooks/catch/ | \d{4,}/[a-z0-9]{6,}
webhook | api.render.com/deploy/srv- | [a-z0-9]{16,24}\?key=<word>{8,}
webhook | api.netlify.com/build_hooks/ make.com/ api.vercel.com/v1/integrations/deploy/ hc-ping.com/ | <word>{20,}(?:/<word>{8,})?
buildkite token | bkua_ bkct_ bkaj_ | [A-Za-z0-9]{36,}
launchdarkly key | sdk- api- | <uuid>
harness token | pat. sat. | <word>{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}
octopus key | API- | [A-Z0-9]{25,}(?![A-Za-z0-9_-])
prefect key | pnu_ pnb_ | [A-Za-z0-9]{30,}
mapbox token | sk.eyJ p.eyJ | <word>{20,}\.<word>{16,}
linkedin token | WPL_AP1. | [A-Za-z0-9.=+/]{16,}
mandrill key | md- | <word>{22}(?![A-Za-z0-9_-])
klaviyo key | pk_ | [0-9a-f]{34}(?![A-Za-z0-9_-])
service key | base64: K000 K001 K002 K003 K004 K005 | [A-Za-z0-9+/]{27}(?:[A-Za-z0-9+/]{16}=)?(?![A-Za-z0-9_-])
service key | /hooks/ oauth: | [a-z0-9]{26,30}(?![A-Za-z0-9_-])
service key | RGAPI- open.feishu.cn/open-apis/bot/v2/hook/ open.larksuite.com/open-apis/bot/v2/hook/ | <uuid>
service token | A21AA AQE xprv9 nsec1 RWRTY0Iy dG9rOi | [A-Za-z0-9+/=_-]{40,}
alibaba key | LTAI | [A-Za-z0-9]{16,30}(?![A-Za-z0-9_-])
tencent key | AKID | [A-Za-z0-9]{32}(?![A-Za-z0-9_-])
yandex token | AQVN t1. y0_ YCP | <word>{36,}
infracost key | ico- | [A-Za-z0-9]{32}(?![A-Za-z0-9_-])
service token | fnA fnE sha256~ dnkey- ion_ fio-u- sgs_ rpa_ pk_prod_secret_ svix_ clk_ unkey_ ory_pat_ ory_at_ ory_rt_ zpka_ hsp_ bb_live_ | <word>{32,}
azure devops token | AZDO | [A-Za-z0-9]{4}(?![A-Za-z0-9_-]) || [A-Za-z0-9]{76}
azure secret | Q~ | [A-Za-z0-9_~.-]{30,} || [A-Za-z0-9_~.]{3}\d
azure key | AzFu AzSe AzCa JQQJ9 | [A-Za-z0-9+/=_-]{6,} || [A-Za-z0-9_-]{40,56}
jwt | eyJ | <word>{17,}\.<word>{8,}\.<word>{8,}(?:\.<word>+)*
jwt | eyJhbGci eyJ0eXAi eyJraWQi | <word>{8,}\.eyJ<word>{16,}
private key | LS0tLS1CRUdJTiBQUklWQVRF LS0tLS1CRUdJTiBSU0EgUFJJ LS0tLS1CRUdJTiBFQyBQUklW LS0tLS1CRUdJTiBPUEVOU1NI LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJ b3BlbnNzaC1rZXktdjE | [A-Za-z0-9+/=]{40,}
minted key | _live_ _prod_ _sk_ _pat_ _secret_ _token_ _apikey_ | [A-Za-z0-9]{28,} || (?!pk|prod|price|cus|sub)[a-z][a-z0-9]{1,15}
model api key | sk-lf- sk-helicone- sk_car_ esecret_ apify_api_ pylf_v1_ crsr_ xaat- xapt- sk-kimi- bce-v3/ | [A-Za-z0-9_/-]{24,}
cursor key | key_ | [0-9a-f]{60,}
deploy token | depot_ nsc_ chpt_ koyeb_ railway_ ovsxp_ ovsxat_ nbp_ inc_ rootly_ dbtc_ dbtu_ essu_ mdb_sa_sk_ CCDB1_ AVNS_ aivenv1 ucat_ ptr_ jca_ dag_ cxtp_ aio_ BBFF- os_v2_app_ os_v2_org_ lip_ | <word>{18,}
payment key | pdl_live_ pdl_sdbx_ polar_oat_ bxt_ xnd_production_ xnd_development_ skey_live_ skey_test_ SB-Mid-server- Mid-server- sup_sk_ klarna_live_api_ klarna_test_api_ secret-token:mercury_ live_sk_ test_gsk_ live_gsk_ rzp_live_ rzp_test_ | [A-Za-z0-9]{14,}
payment key | APP_USR- | \d{10,}-\d{6}-[0-9a-f]{32}-\d{5,}
payment key | test_sk_ creem_ | [A-Za-z0-9]{20,}
stytch secret | secret-live- secret-test- | [A-Za-z0-9_=-]{30,}
trigger key | tr_dev_ tr_prod_ tr_pat_ signkey-prod- signkey-test- testsk_ | [A-Za-z0-9]{16,}
snyk token | snyk_uat. snyk_sat. sktsec_ mlsn. wlu_ tgpak_ tgpat_ cal_live_ permit_key_ retool_01 lin_wh_ sgd_ tsec_ | [A-Za-z0-9_.-]{24,}
volcengine key | AKLT | [A-Za-z0-9]{30,}
scaleway key | SCW | [A-Z0-9]{17}(?![A-Za-z0-9_-])
porkbun key | sk1_ pk1_ | [0-9a-f]{60,}
signed url | X-Amz-Signature= X-Goog-Signature= | [0-9a-f]{64,}
"""
"""`<word>` is a character of a token, `<uuid>` a UUID; a pipe inside a regex has no blanks around it."""

AMBIGUOUS_PREFIXES = frozenset(
    {
        "voyage-",
        "ion_",
        "sgs_",
        "rpa_",
        "clk_",
        "hsp_",
        "svix_",
        "jina_",
        "EAAA",
        "AAAA",
        "key-",
        "inc_",
        "test_sk_",
        "creem_",
        "depot_",
        "nsc_",
        "token-",
        "sess-",
        "live_",
        "test_",
        "sandbox_",
        "pat_",
        "sat_",
        "_live_",
        "_prod_",
        "_sk_",
        "_pat_",
        "_secret_",
        "_token_",
        "_apikey_",
    }
)
"""Prefixes that ordinary names begin with: what follows must look random."""

_ECHOED = (
    r"(?P<s>(?<=\")[^\"\n]{1,256}?(?=<ends>\\?\")|(?<=')[^'\n]{1,256}?(?=<ends>')"
    r"|(?:[^\s\"'|;&\\]|\\[^\s\"'nrt]){1,256})"
)
PASSWORD_WORDS = (
    "password,passwort,passphrase,passcode,kennwort,wachtwoord,contraseña,mot de passe,senha,parola,hasło,lösenord"  # noqa: S105 - words
    ",heslo,jelszó,şifre,пароль,passord,adgangskode,salasana,mật khẩu,kata sandi,clave,wifi key,كلمة المرور, pw ,pwd "
)
COPULAS = {
    *[
        "is",
        "be",
        "it's",
        "was",
        "to",
        "as",
        "lautet",
        "ist",
        "est",
        "es",
        "c'est",
        "=",
        "-",
        "->",
        "→",
        "—",
        "–",
        "são",
        "set",
        "är",
        "jest",
        "je",
        "è",
        "é",
        "là",
        "هي",
        "still",
        "now",
    ]
}
_RECEIVERS = (
    "password-stdin,token-stdin,secret-stdin,key-stdin,passwd --stdin,login --stdin,with-token,pass stdin,vault login -"
    ",passphrase-fd 0,devops login,cryptsetup,secret create,secrets create,versions add,secret put,secret set"
    ",secrets import,smbpasswd,kinit,ssh-add,pass insert,from-file=password"
)
"""Options that make programs read a password from standard input."""
_PARTS = (
    ("<value>", r"[\"']?(?P<s>(?<=\")[^\"\n]{4,128}|(?<=')[^'\n]{4,128}|[^\s\"']{4,128})"),
    ("<literal>", r"(?:[a-z]{1,12}\()?[\"'](?P<s>[^\"'\n]{4,128})[\"']\s{0,9}[,)]"),
    ("<line>", r"[^\n|;]{0,160}?\s"),
    ("<argument>", r"[^,()\n]{0,120},\s{0,40}"),
    ("<quote>", r"[\"'\\]{0,2}"),
    (
        "<seed>",
        r"[\"']?(?:[^\n:=]{0,80}(?=:)|\s{0,4})(?:(?:is|are|was)[:=]?|[:=])"
        r"\s{0,4}[\"'`]?(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
    ),
    (
        "<code>",
        r"[-*\d.)\s]{0,6}(?=[^\n]{0,40}\d)[A-Za-z0-9]{4,10}(?:[- ]?[A-Za-z0-9]{4,10}){0,3}[ \t,]{0,4}(?:\n|\Z)",
    ),
    ("<option>", rf"(?:{_RECEIVERS.replace(',', '|')}|(?-i:sudo -S))"),
    (
        "<echo>",
        r"\b(?:echo|printf)[ \t]+(?:-[neE]{1,3}[ \t]+)?(?:[\"']?%s(?:\\{1,2}n)?[\"']?[ \t]+)?[\"'\\]{0,3}",
    ),
    ("<echoed>", _ECHOED),
    ("<to>", r"<ends>[\"'\\]{0,3}[ \t]*\|[^|;\n]{0,200}"),
    ("<ends>", r"(?:\\{1,2}[nrt])*"),
    ("<random>", r"(?=\S*\d)(?-i:(?=\S*[a-z])(?=\S*[A-Z]))[A-Za-z0-9_+/=-]{32,128}"),
    ("<words>", PASSWORD_WORDS.replace(",", "|").replace(" pw |pwd ", " ?pwd?(?= )")),
    ("<for>", r"<gap>(?:«\s|[\"'`«„“*]{0,3})"),
    ("<gap>", r"(?!<about>)(?:[^\n.;!?:=]|\.(?=\w)){0,60}?(?:[\s,(]<is>|\s?[:=])\s{1,3}"),
    (
        "<about>",
        r"\s(?:policy|field|column|hash|type|manager|length|input|label|reset|parameter|option|file|name)",
    ),
    ("<uuid>", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    (
        "<is>",
        r"(?:ist?|be|it['’]s|was|to|as|lautet|est?|c['’]est|set|->|→|[—–]|är|jest|je|[èé]|là|هي|still|now)",
    ),
)
_PHRASES = r"""
bearer token | fair | bearer |  | bearer<quote>[\s:]{1,3}<quote>(?P<s>[A-Za-z0-9._~+/=-]{16,})
basic login | basic login | basic  |  | basic <quote>(?P<s>[A-Za-z0-9+/]{8,}={0,2})
password | login | login  | password | login\s+\S{1,128}\s+password\s+(?P<s>\S{4,256})
password | login | requirepass ,masterauth ,rootpw ,bindpw , on > |  | (?: on |[a-z]+\s+)(?:--\w+\s+|>)?<value>
password | login | sshpass  | -p | sshpass\s+-p\s*<value>
password | login | mysql | -p | mysql(?:dump|admin|sh|import)?\b<line>(?-i:-p)<value>
password | login | redis-cli | - | redis-cli\b<line>(?:-a|--pass)[ =]<value>
password | password |  login ,mongo,mariadb,cypher-shell,evil-winrm,psexec,useradd,usermod,unlock-keychain,certutil,rdesktop,7z a ,7z x ,7za ,rar ,security import,ipmitool,cqlsh,rabbitmqadmin | -p | [ a-z0-9-]+<line>-p[ =]?<value>
password | spoken |  -u , -l , --user | -p | \s--?[a-z]+[ =]\S{1,80}(?:\s|<line>)(?-i:-p)[ =]?<value>
password | password | sqlcmd,zip ,mosquitto_,bcp ,isql,tsql,osql | -p | [a-z_]+\b<line>(?-i:-P)[ =]?<value>
password | password | ssh-keygen ,wpa_passphrase ,smbclient  |  | (?:ssh-keygen\b<line>(?-i:-[NP])\s?|wpa_passphrase [\"']?[^\s\"']{1,40}[\"']? |smbclient //\S{3,80} (?!-))<value>
password | login | lftp  | , | lftp\b<line>-u[ =]?[\"']?[^\s,\"']{1,64},(?P<s>[^\s\"']{4,128})
password | login | sqlplus ,impdp ,expdp ,sqlldr ,rman ,:thin: | / | [a-z:]+(?:<line>|(?<=:))(?:userid=|target )?[\w.$]{1,40}/\"?(?P<s>[^\s@/\"']{4,128})\"?@
password | password | openssl  |  -k | openssl\b<line>-k\s<value>
password | password | openssl passwd,mkpasswd,rclone obscure,hash-password |  | [a-z -]{1,80}?(?:\s+-\S+(?:\s+sha-?\d+)?){0,4}\s+(?![-<|])<value>
password | password | snmpwalk,snmpget,snmpset,snmpbulk |  - | [a-z]+<line>(?-i:-[cA])\s<value>
password | password | snmpwalk,snmpget,snmpset,snmpbulk |  -x | [a-z]+<line>(?-i:-X)\s<value>
password | login | --user ,--user=,--userpass,--basic-auth,--auth ,--auth=,--http-auth,--creds ,bundle config | : | (?:--[a-z-]+[ =]|bundle config[^\n:|;]{4,120}\s)[\"']?[^\s:\"'/<]{1,64}:(?P<s>[^\s\"']{4,128})
password | password | http-basic.,mc alias set,config host add |  | (?:http-basic\.\S{1,80}|(?:mc alias set|config host add) \S{1,64} \S{1,120}) \S{1,80} <value>
password | password | net use  | /user: | net use<line>/user:\S{1,64}\s+(?P<s>[^\s/\"']\S{3,64})
password | password | net use  | /user: | net use\s+(?:[a-z*]:?\s+)?\S{4,80}\s+[\"']?(?P<s>[^\s/\"']\S{3,64}?)[\"']?\s+/user:
api key | fair | snyk auth ,authtoken ,cargo login ,setapikey ,vault login ,auth init -t ,--oauth2-bearer ,--authkey ,wandb login ,auth login --key  |  | [a-z0-9-]+(?: [a-z-]+){0,3}? [\"']?(?P<s>[A-Za-z0-9_.~+/=-]{16,400})
api key | fair | nuget push,cypress run,codecov,doctl ,surge ,dotnet nuget,influx ,vercel ,netlify ,gitlab-runner  |  - | [a-z-]+\b<line>(?:-k|-t|-r|--key|-apikey)[ =][\"']?(?P<s>[A-Za-z0-9_-]{16,400}={0,2})
password | password | snmp-server community ,enable secret ,enable password ,key-string ,-server key ,psksecret ,isakmp key  |  | [a-z-]+ ?[a-z]*\s+(?:[067]\s+)?<value>(?=[ \t]*(?:\r?\n|\Z)|[ ]r[ow]\b|[ ]address)
password | password |  secret 0 , secret 7 , password 0 , password 7 , key 0 , key 7  |  |  [a-z]+ \d (?P<s>\S{4,128})
password | password | identified by  |  | identified by (?P<s>[^\s\"'`;,()]{5,64}(?=\s*;)|(?=[^\s;]*\d)[^\s\"'`;,()]{5,64})
webhook | any | webhook/send?key=,with/key/ |  | \S+?key[=/](?P<s>[A-Za-z0-9_-]{20,64})
api key | strong | ("ac,('ac |  | \([\"']ac[0-9a-f]{32}[\"']\s{0,4},\s{0,9}[\"'](?P<s>[0-9a-f]{32})[\"']
password | password | ldap,add-generic-password | -w | [a-z-]+\b<line>(?-i:-w)[ =]?<value>
password | login | smbclient,rpcclient | % | [a-z]+<line>-u[ =]?[\"']?[^\s\"'%]{1,80}%(?P<s>[^\s\"']{4,128})
password | password | net user  | / | net user \S{1,64} (?P<s>[^\s/*]\S{3,64})(?= /)
password | login | htpasswd ,mosquitto_passwd  | - | \w{8,16}\s+(?=[^\n]{0,40}(?-i:-\w*b))(?:-\w+\s+){1,4}(?:\S+\s+){1,2}?[\"']?(?P<s>[^\s\"'|>;]{4,128})(?=[\"']?\s*(?:\Z|[|>;&\n)]))
password | literal | add_user ,change_password  |  | [a-z_]+\s+\S{1,64}\s+<value>
password | password | secret set  | -b | secret set \S{1,64}<line>(?:--body|-b)[ =]<value>
password | password | createuser  |  | createuser\s+\S{1,64}\s+(?:md5|sha)\S*\s+[\"']?(?P<s>[^\s\"']{4,128})
password | password | createuser  |  | createuser[^\n]{5,120}?\s(?:aes|des)\S*\s+[\"']?(?P<s>[^\s\"']{4,128})
password | password | : psk ,: eap ,: xauth  |  | : \w+\s+\"(?P<s>[^\"\n]{4,128})\"
password | password | pass: |  | pass:(?!\w+\()(?P<s>[^\s\"',;(){}]{6,128})
password | login | identified  | by | identified\s+(?:with\s+\S+\s+)?by\s+(?=[\"'])<value>
password | login | convertto-securestring  |  | convertto-securestring\s+(?=[\"'])<value>
password | login | :543,:643,*:*: |  | (?::[56]43\d|\*:\*):[\w*.-]{1,64}:[\w.-]{1,64}:(?P<s>(?:[^\s:\\]|\\.){4,128})(?=\s|\Z)
password | login | curl | - | curl\b[^\n|;]{0,400}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{1,256}:(?P<s>[^\s\"']{1,128})
password | piped | <receivers>,sudo -s |  | <echo><echoed><to><option>
password | login | <receivers>,sudo -s | <<< | <option>[^\n]{0,200}<<<[ \t]*[\"']?<echoed>
password | login | http -a ,xh -a  |  | (?:http|xh) -a [\"']?[^\s:\"'/]{1,64}:(?P<s>[^\s\"']{1,128})
password | password | xfreerdp | /p: | xfreerdp<line>/p:<value>
password | password | put-parameter,--secret-string |  | (?:put-parameter<line>--value|--secret-string)[ =]<value>
password | piped | :152 |  | (?<![\w./-])[\w.$]{1,40}/\"?(?P<s>[^\s:@\"'/]{4,128})\"?@(?://)?[\w.-]{1,80}:152
password | piped | @tcp( |  | (?<![\w.-])[\w.-]{1,64}:(?P<s>[^\s:@\"'/]{4,128})@tcp\(
password | piped | chpasswd |  | <echo>[^\s:|;&]{1,64}:(?P<s>\S{1,256}?)<to>chpasswd
password | password | assword | send | assword[^\n]{0,12}?\s{0,20}\bsend(?:line)?\s+(?:--\s+)?[\"'](?P<s>[^\"'\n]{4,128}?)(?:\\{1,2}[rn])*[\"']
password | spoken | password | ). | password[\w-]{0,20}[\"'\])]{1,5}[^\n\"']{0,40}?[.(](?:fill|type(?:text)?|replacetext|entertext|send_?keys|set(?:value|text)|input(?:text)?)\([\"'](?P<s>[^\"'\n]{4,128})
password | literal | basic_auth(,basicauth(,networkcredential(,plainauth(,passwordauthentication(,credentials(,login(,auth=(,.auth(,authenticationinfo(,auth((,authenticate(,sign_in(,signin(,.basic(,digestauth(,wifi.begin(,userpassword(,userinfo(,credential(,credentials.new(,username_pw_set(,oci_connect(,ldap_bind(,simple_bind | , | [a-z_.=]+\({1,2}\s{0,40}<argument><literal>
password | password | jwt.sign(,jwt.verify(,jwt.encode(,jwt.decode(,createhmac(,hmac.new(,hmac( | , | [a-z_.]+\(\s{0,40}<argument><literal>
password | spoken | real_connect(,bind(,createcipheriv( | , | [a-z_]+\(\s{0,40}(?:<argument>){1,3}?(?<=[,\s])[\"'](?P<s>(?=[^\"'\n]*\d)[^\"'\n]{6,128})[\"']\s{0,9}[,)]
password | spoken | cookieparser(,signedcookie(,fernet(,jwtsecret(,.secret(,hmac.new(b |  | [a-z.]+\(\s{0,9}b?[\"'](?P<s>[^\"'\n]{6,128})[\"']
password | literal | connect(,pdo(,mysqli(,connection(,sequelize(,create_user(,create_superuser( | , | [a-z_]+\(\s{0,40}(?:<argument>){2,3}?<literal>
password | spoken | password"].,/password/i),(passwordinput,(passwordfield | ) | [^\n]{0,80}?[\"'](?P<s>[^\"'\n]{6,128})[\"']\s{0,2}[)}]
password | spoken | .auth(,:auth( |  | .auth\(\s{0,9}[\"'](?P<s>[^\"'\n]{6,128})[\"']\s{0,9}\)
password | password | pwd={,password={ |  | [a-z]+=\{(?P<s>[^{}\n]{4,64})\}
password | literal | <spoken> | ~ | (?<!_)(?:<words>)(?:s|et|si)?(?![\w-])<gap>\*{0,2}[\"'`«„“]\s?(?P<s>[^\"'`»“”\n]{5,80}?)\s?[\"'`»“”]
password | plain | <spoken>,pw is ,pwd is  | ~~ | (?<![\w.\"'{])(?:<words>|pwd?)(?![\w-]|<about>)(?:[\w ,'()]{0,50})?(?:\s(?:is|was|lautet|ist|est|es|är|jest|è)\s|:\s(?=(?:[a-z]+-){2}))[\"'`]?(?P<s>(?-i:[a-z][a-z.-]{6,30}[a-z]))(?=[\"'`]?[.,;)]?\s*(?:\n|\Z))
password | any | :$6$,:$5$,:$1$,:$y$ |  | :(?P<s>\$\w{1,2}\$[^\s:]{20,200})(?=:)
password | any | encoding="base64"> |  | encoding="base64">(?P<s>[A-Za-z0-9+/=]{6,400})</pass
secret key | any | key: [,key = [,key=[,key": [,key":[,secret: [,keypair |  | [a-z\"':= ]{1,80}(?P<s>\[\s?(?:\d{1,3},\s?){15,63}\d{1,3}\s?\])
password | literal | passphrase |   | passphrase(?![\w-])(?:<gap>(?=(?:[a-z]+ ){3})|\s?[:=]\s?)(?P<s>(?:[a-z]{3,10} ){1,7}[a-z]{3,10})(?=\.?\s*(?:\n|\Z)|\. )
password | spoken | <spoken> | ~ | (?:<words>)(?:s|et|si)?(?![\w-])<for>(?P<s>(?=\S{0,40}(?:[\d!@#$%^&*_+]|(?-i:[a-z]-[A-Z]))|[a-z]{20})(?:[^\s\"'`»“”,;)]|[,;)](?=[^\s\"'`»“”,;)])){5,127}(?<![.:*]))
token | fair | token for ,secret for ,key for ,token of ,token to ,token on ,key of ,token (,key (,secret (,token von ,token für ,token created,key created,secret created,this token,this secret,this key,secret we ,token we ,token in ,secret in ,secret value | ~ | (?<!public )[a-z]+ <for>(?P<s>[A-Za-z0-9_+/=.~-]{16,256})
password | spoken | login,credential,creds,account,log in,logs in,zugang,identifiant,wifi,db user |  /  | [^\n]{0,80}?[\s(`\"'](?:[\w.+-]{1,64}@[\w.-]{1,64}[`\"']? ?/|[\w.+-]{2,40}[`\"']? /)[ ]?[`\"']?(?P<s>[^\s`\"',)]{6,128})
password | spoken | changed it to ,set it to ,reset it to ,changed that to |  | [a-z ]{1,80} to [`\"']?(?P<s>[^\s`\"',]{6,64})(?=[^\n]{0,80}(?:passw|login|\bpw\b))
secret key | any | secret id,secretid |  | secret ?id[\"']?\s{0,12}[:=]\s{0,4}[\"']?(?P<s><uuid>)
secret key | any | product key,license key,licence key,recovery key,filevault,bitlocker,activation key,serial key |  | [a-z]{1,40}[^\n]{0,40}?\b(?P<s>(?-i:(?:[A-Z0-9]{4,8}-){3,7}[A-Z0-9]{4,8}))\b
password | prose | admin / ,root / |  | [a-z]+ / [`\"']?(?P<s>[^\s`\"',)/]{6,64})
password | spoken | creds: ,creds are ,credentials: ,credentials are ,login: ,login is ,logins: ,basic_auth=,http_auth=,credentials=,zugangsdaten: ,identifiants: ,login with ,credentials for  |  | [a-z_]+(?: (?:is|are|with|for))?[ :=]{1,3}[`\"']{0,2}[\w.@+-]{2,40}(?:[:/]| and )[`\"']?(?P<s>[^\s`\"',)/]{6,128}(?<![.;:]))(?!/)
password | prose | in as ,anmelden als ,ssh ,encrypted,protected,locked,unlock,opens  |  with | \w{2,12}(?:[^\n.;:,]|\.(?=\w)|,(?= with)){0,60}?\swith:? (?:the )?[`\"']?(?P<s>[^\s`\"',)\[]{6,128}(?<![.;:]))
password | before | asks for a pass,asks for the pass,asked for a pass,asked for the pass,password prompt,prompted for |  | \b(?:use|type|enter|try|give|put|is) [`\"']?(?P<s>[^\s`\"']{6,64})[`\"']? (?:when|at|if|once|where)\b
password | prose | login,credential,creds,account | @ | [^\n]{0,160}?[\s(`\"'][\w.+-]{1,64}@[\w.-]{1,64}[`\"']? ?(?:→|->|=>|:|\||,|with|mit|/)[ ][`\"']?(?P<s>[^\s`\"',)\[]{6,128})
password | spoken | passw,passphrase, pw , pwd  |  from  | \w{2,20}(?:[^\n.;!?:=]|\.(?=\w)){0,40}?\sfrom [`\"']?(?P<s>[^\s`\"',)]{6,128})[`\"']? to\b
password | spoken | wpa key ,wpa2 key ,wpa3 key ,wifi key ,wi-fi key ,network key ,shared secret ,radius secret ,vpn secret ,mdp  |  | [a-z0-9-]+(?: [a-z]+)?:? [`\"']?(?P<s>[^\s`\"',)]{6,128}(?<![.;:]))
password | password | password-command,password_command,passcommand,passcmd,askpass |  | [a-z_-]{6,40}[ =:][\"'\\]{0,3}(?:echo|printf)\s+[\"'\\]{0,3}(?P<s>[^\s\"'\\]{4,128})
password | any | chpasswd: | list: | chpasswd:[^|]{0,120}?list:\s{0,4}\|\s{0,4}\n(?P<s>(?:[ \t]+[\w.-]{1,40}:(?!RANDOM|R\s)\S{4,128}\n?){1,20})
password | before | password") |  | \([\"'](?P<s>[^\"'\n]{6,64})[\"'],\s(?:for)?key:\s[\"'][\w.-]{0,24}password\"\)
password | any | app password,smtp.gmail,smtp_gmail |  | (?:app password|smtp.gmail)(?:[\s\S]{0,200}?pass(?:word|wd)?)?[\"']?(?:\s|\s?[:=]\s?|\sis\s)[\"'`]?(?P<s>(?=[a-z ]{0,16}\b[bcdfghjklmnpqrstvwxz]{4}\b)(?:[a-z]{4} ){3}[a-z]{4})\b
password | spoken | basic auth | : | basic auth[^\n]{0,60}?[\s`\"'(][\w.@-]{1,40}:(?!//)(?P<s>[^\s`\"')]{6,64})
password | before | basic auth |  | `(?:[\w.@-]{1,40}:(?!//)|(?=[A-Za-z0-9+/]{20,256}={0,2}`))(?P<s>[^\s`\"']{6,256})`
password | spoken | password,passwort,passphrase,clave | \n | (?<![\w.-])[a-z]+(?: [\w ()'-]{0,60})?:?[ \t*]*\n\s{0,20}`{0,3}\s{0,4}(?P<s>[^\s`:=,|()\"']{8,128})`{0,3}[ \t]*(?:\n|\Z)
password | any | random_password | result | random_password[\s\S]{0,400}?\"result\"\s*:\s*\"(?P<s>[^\"\n]{6,128})\"
secret | output | master.key,print-access-token,ssm get-parameter,printenv,genkey,genpsk,/dev/urandom,token_urlsafe,token_hex,rails secret,makepasswd,auth token,base64 -d,base64 --decode,get-login-password,print-identity-token,get-access-token,token create,generate-secret,openssl rand,pwgen,op read,pass show,get-secret-value,secrets get,versions access,initialadminpassword,create token,get secret,kv get,keyvault secret,initial-password | \n | [^\n]{4,200}\n[\"']?(?P<s>[^\s:\"']{8,4000})[\"']?[ \t]*(?:\n|\Z)
secret | output | .key\n,secret\n,password\n,passwd\n,token\n,_pass\n |  | [^\s]+\n(?:[#/]{1,2} )?(?P<s>[^\s:=,|()\"']{8,4000}={0,2})[ \t]*(?:\n|\Z)
secret key | fair | account.key.,alchemy.com/v2/,infura.io/v3/,accounts: [,jsessionid=,phpsessid=,connect.sid=,bw_session=,login(key= |  | (?:account\.key\.[\w.-]{1,80}[\"']?\s{0,4}[,=\s]\s{0,4}[\"']?|[a-z.]+/v[23]/|accounts: \[\s{0,9}[\"']|[a-z._()]+=(?:s%3a)?[\"'\\]{0,2})(?P<s>[A-Za-z0-9+/=_-]{20,})
secret key | any | auth_key',logged_in_key',nonce_key',auth_salt',logged_in_salt',nonce_salt' |  | [a-z_]+'\s{0,20},\s{0,20}'(?P<s>[^'\n]{60,70})'
password | password | password> |  | password>\s{0,40}<valu[e]>(?P<s>[^<\n]{4,128})
password | any | safe combination |  | [a-z ]+(?: is|:) (?P<s>\d{1,3}(?:[- ]\d{1,3}){2,3})\b
password | password | ssid | \n | ssid[^\n]{1,60}\n[-*\s]{0,6}(?:key|pass\w*|pw|psk)\s?[:=]\s?<value>
password | any | pin for ,pin is ,pin: ,pin=, pin ,-pin ,pin code,passcode,puk: , puk ,door code,unlock code,pin":,pin\":,türcode,otp":,otp\":,otp: ,otp= |  | [\s-]?(?<![a-z])(?:pin(?: code)?|passcode|puk|otp|türcode|(?:door |unlock )?code)s?\\?[\"']?(?:(?:[^\n.;:=]{0,40}?\s<is>|[^\n.;:=]{0,40}[:=])(?:\s{1,3}|(?=\\?[\"']))|[ =])[`\"'*\\]{0,2}(?P<s>\d{4,10})\b(?!\.\d)
api key | strong | appid=,sonar.login= |  | [a-z.]+=(?P<s>[0-9a-f]{32,40})\b
private key | any | openvpn static key |  | openvpn static key[^\n]{0,9}-----\s*(?P<s>[0-9a-fnr\s\\]{64,1200})
secret key | any | totp,otp se,2fa s,mfa s,setup key,authenticator |  | [\w -]{3,16}[\w ()'-]{0,80}?(?:\s<is>|[:=])\s{0,3}[\"'`]?(?P<s>(?-i:[A-Z2-7]{16,64}|(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4}|(?=[a-z ]*[2-7])(?:[a-z2-7]{4} ){3,15}[a-z2-7]{4}))\b
password | before | as the password,as password,as its password,as my password,as passphrase,als passwort,comme mot de passe,como contraseña |  | (?:\A|[\s\"'`])[\"'`]?(?P<s>[^\s\"'`]{6,64})[\"'`]?,? (?:as|als|comme|como)\s
recovery codes | any | recovery code,backup code,scratch code |  | [a-z]+ codes?(?:[^\n]{0,60}\n(?P<s>(?:<code>){2,24})|[^\n:]{0,40}:\s{1,2}(?P<t>(?:(?=[a-z-]*\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?:[ ,;/]{1,3}(?:and )?|(?=[\s.)]|\Z))){2,20}))
seed phrase | any | mnemonic,seed phrase,seed_phrase,seed-phrase,seedphrase,seed: ,seed words |  | (?:mnemonic|seed(?:.?phrase| words)?)<seed>
private key | strong | "d":,"d" ,"p":,"q":,"dp":,"dq":,"qi":,"k":,"p" ,"q" ,"k"  |  | \"[dpqk][pqi]?\"\s{0,4}:\s{0,4}\"(?P<s>[A-Za-z0-9_-]{40,})\"
azure signature | random | sig= |  | sig=(?P<s>[A-Za-z0-9%+/]{40,200}=?)
session cookie | strong | cookie,-b ',-b " | = | (?:cookie<quote>[:=,]?\s{0,4}|-b )<quote>(?:[^\n;=]{1,64}=[^\n;]{0,300};\s?){0,12}?[\w.-]{0,24}?(?:sess[a-z]*|sid|auth[a-z_]*|jwt|remember[a-z_]*)=(?P<s>[A-Za-z0-9._~%+/=-]{16,})
session cookie | strong | \ttrue\t,\tfalse\t |  | \t\w+\t\d{1,12}\t[\w.-]{1,60}\t(?P<s>\S{16,400})
"""
"""Headers, calls, command lines and sentences: kind, condition of the value `s` (piped: before the keyword), keywords,
what must follow, regex with `<parts>`; `\\n` and `\\t` are written out."""
NAMES = """
password fair password passwd passwrd passphrase passcode pwd userpass dbpass storepass keypass rootpass adminpass
password fair sharedsecret presharedkey senha heslo haslo salasana adgangskode passord smtppass mailpass passwort pswd
password fair authtok psswd kennwort wachtwoord secvaluedata sshpass requirepass contrasena
aws_secret_key fair secretaccesskey awssecretkey awssecret
api_key fair apikey appkey applicationkey subscriptionkey integrationkey ingestkey servicerolekey functionskey
api_key fair functionkey servicekey apisecret
secret_key fair accesskey secretkey privatekey signingkey encryptionkey masterkey accountkey sharedkey authkey
secret_key fair webhookkey deploykey hmackey jwtkey sessionkey cookiekey cryptkey adminkey clientkey licensekey
secret_key fair noncekey loggedinkey authsalt noncesalt loggedinsalt cipherkey aeskey decryptionkey
secret_key fair securekey unsealkey unsealkeys recoverykey recoverykeys keysb64 keysbase64 rootkey secretid
secret fair secret secrets
token fair token jwt bearer
credential strong credential credentials auth authorization connectionkey creds
"""
"""Names of keys by their last words, joined: kind, weakest value that counts, endings."""

NAME_KEYWORDS = (
    "pass",
    "passwd",
    "psswd",
    "pswd",
    "secret",
    "token",
    "credential",
    "creds",
    "auth",
    "bearer",
    "salt",
    "kennwort",
    "secvaluedata",
    "wachtwoord",
    "contrasena",
    "unseal_keys",
    "recovery_keys",
    "keys_base64",
    "senha",
    "heslo",
    "haslo",
    "salasana",
    "adgangskode",
)
SHORT_NAMES = ("key", "pwd", "jwt", "_pat", "pw", "psk", "_keys", "mdp")
"""Words in names of secrets; after a short one the name must end, or go on with a joint or a digit."""
AFTER_SHORT_NAME = "=:\"'`\\*])>|, \t_-.?!0123456789(%"

NEUTRAL_WORDS = (
    "value val prod production dev development staging stage test testing live sandbox local old new previous primary"
    " secondary backup main default base b64 base64 plain plaintext raw confirmation confirm string str text ro rw read"
    " write readonly admin root v b hex"
)
"""Words at the end of a name that do not change what it means."""
BEFORE_TOKEN = (
    "next page continuation eos bos pad unk sep cls mask cancellation cancel stop design sync resume lexer syntax key"  # noqa: S105 - words of names
    " separator delimiter image start end special lookahead csrf xsrf sentinel per first last prev peek change update"
    " lock verification idempotency request action caller etag snapshot revision input output prompt completion"
    " current starting"
)
BEFORE_KEY = (
    "public cache primary foreign partition sort hash object row idempotency translation i18n lookup index group dedupe"
    " feature storage composite natural unique candidate config registry reg site publishable anon map dict json record"
    " message label query state react order host search header env arrow pub gpg s3 bucket tag shift ctrl alt"
    " hot short metric trace region asset lock kms file entry store item column data param redis socket recv"
)
BEFORE_ANY = "is has need needs require requires show hide forgot invalid missing no without public sealed hashed"
"""Words before `token`, before `key` and before any name that make it no secret."""
NOT_PASS = (
    "bypass",
    "compass",
    "onepass",
    "lastpass",
    "oldpwd",
    "surpass",
    "trespass",
    "encompass",
)
CONSTANT_WORDS = (
    "reset change forgot forgotten update wrong incorrect invalid weak confirm show grant error field label enter allow"
    " empty random use with enable enabled disable disabled require required type route action event message title"
    " screen view msg err code page form has is no"
)
"""Words of constants: `RESET_PASSWORD: resetting` is no environment line."""

NEAR_WORDS = (
    "key keys apikey token tokens secret secrets seed hmac credential credentials cred creds password passphrase pass"
    " passwd pwd licence license webhook signing api auth bearer jwt pat psk private totp otp 2fa mfa unseal wallet aes"
)
"""Words that make a run of random characters after them a secret."""
LOGIN_WORDS = (
    "password passwort passphrase pass pw pwd admin administrator root login log creds credential credentials account"
    " user username vpn rdp ssh ftp sftp wifi unlock contraseña senha clave robot teamviewer"
    " anydesk 계정 접속 로그인 아이디 konto compte cuenta"
)
"""Words after which a word with a symbol inside is a password."""
VENDORS = (
    "deepgram datadog algolia mailchimp gitea forgejo openweathermap openweather assemblyai elevenlabs cohere mistral"
    " newsapi pagerduty opsgenie newrelic amplitude mixpanel intercom pusher jenkins sonarqube adyen paypal braintree"
    " twilio vonage nexmo plivo messagebird postmark sparkpost mandrill shodan virustotal abuseipdb ipinfo maxmind tmdb"
    " sonar omdb alphavantage finnhub coinbase binance etherscan infura alchemy moralis wandb runpod tavily serpapi"
    " apify bugsnag rollbar honeybadger loggly papertrail codecov coveralls snyk circleci bitrise appveyor heroku"
    " zendesk freshdesk pipedrive trello clickup todoist contentful mapbox tomtom opencage rapidapi weatherapi spotify"
    " unsplash giphy cloudinary imgix hetzner linode vultr digitalocean sendinblue brevo mailgun klaviyo splunk"
    " codacy expo"
)
"""Services that issue keys without a prefix: a run directly after the name of one is a secret."""
PUBLIC_WORDS = (
    "commit commits sha md crc digest checksum checksums integrity etag hash hashes hashed id ids uid uuid guid image"
    " revision rev fingerprint thumbprint public pub publishable anon trace span request build version tag branch"
    " release head tree blob parent object merge index diff layer manifest csrf xsrf nonce iv kid arn address contract"
    " tx transaction block account zone tenant org organization project cursor page signature sig certificate cert"
    " run job pod container user customer order invoice bucket file folder path doc document row record table column"
    " event log node deployment dataset snapshot client session sealed encrypted ciphertext name email url host uri"
    " correlation message subscription sitekey site png svg woff font test fixture sum"
)
"""Words that make a run after them something public."""

LABELS = (
    "번호",
    "비번",
    "패스워드",
    "암호",
    "密",
    "口令",
    "パスワード",
    "暗証",
    "пароль",
    "contraseña",
    "토큰",
    "令牌",
    "トークン",
    "키",
    "キー",
    "金鑰",
    "시크릿",
    "シークレット",
    "mot de passe",
    "senha",
    "hasło",
    "lösenord",
    "şifre",
    "heslo",
    "jelszó",
    "khẩu",
    "รหัสผ่าน",
    "पासवर्ड",
    "סיסמה",
    "المرور",
    "токен",
    "ключ",
    "clé",
    "schlüssel",
    "chiave",
    "chave",
    "sleutel",
    "jeton",
    "κωδικός",
    "parolă",
    "лозинка",
)
"""Parts of labels for passwords, tokens and keys in other languages; each label contains one."""

KEY_HEADERS = ("PRIVATE KEY", "Private-Lines: ")
BOX = str.maketrans("│┃║─━═┼╪╫╬┿╋├┤┝┥┣┫┡┩┢┪╇╈", "|||---" + "+" * 18)  # characters of tables
TABLE_MARKS = ("-+-", "-|-", "+---", "|---", "| -", "|:-", "(1 row)", " rows)", "-[ RECORD")
"""One of these is in every table that a database or Markdown draws."""
DATABASES = (
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "redis",
    "amqp",
    "mssql",
    "sqlserver",
    "oracle",
    "cockroach",
    "clickhouse",
    "cassandra",
    "neo4j",
    "nats",
    "ldap",
    "kafka",
    "rediss",
    "couchbase",
    "snowflake",
    "asyncpg",
    "psycopg",
    "pymysql",
    "srv",
    "libsql",
    "amqps",
    "bolt",
    "db2",
    "ldaps",
)

PLACEHOLDERS = (
    "xxxx", "***", "...", "…", "____", "----", "00000000", "yourpass", "yourkey", "yourtoken", "yoursecret", "yourapi",
    "example", "sample", "placeholder", "redacted", "replace", "insert", "mocked", "removed", "foobar", "12345678",
    "abcdefgh", "qwerty", "deadbeef", "notreal", "abc123", "supersecret", "changeme", "changethis", "changeit",
    "notset", "goeshere", "mysecret", "mypass", "mytoken", "mykey", "myapi", "notareal", "••", "notneeded", "notused",
)  # fmt: skip
WEAK_PASSWORDS = (
    "changeme",
    "changeit",
    "changethis",
    "supersecret",
    "mysecret",
    "mypass",
    "qwerty",
    "replace",
    "insert",
    "sample",
)
PLACEHOLDER_WORDS = frozenset(
    {
        "your",
        "here",
        "todo",
        "fixme",
        "fake",
        "dummy",
        "hidden",
        "lorem",
        "some",
        "tbd",
    }
)
EXAMPLE_UUIDS = (
    "123e4567-e89b-", "550e8400-e29b-", "00000000-", "a1b2c3d4-e5f6-", "f47ac10b-58cc-", "6ba7b810-9dad-",
    "3fa85f64-5717-", "12345678-1234-", "01234567-89ab-", "xxxxxxxx-",
)  # fmt: skip
REFERENCE_STARTS = (
    *[
        "--",
        "<",
        "[",
        "(",
        "@",
        "&",
        "{",
        "enc[",
        "$env:",
        "$argon2",
        "$ansible",
        "$y$",
        "$pbkdf2",
        "$scrypt",
        "$apr1",
        "arn:",
        "env:",
        "file:",
        "vault:",
        "ssm:",
        "urn:",
    ],
    *[
        "op:",
        "secretsmanager:",
        "keyring:",
        "awskms:",
        "gcpkms:",
        "data:",
        "secret:",
        "md5-",
        "md5:",
        "md5$",
        "bcrypt",
        "scrypt",
        "pbkdf2",
        "argon2",
    ],
    *[
        "npm:",
        "projects/",
        "secret/",
        "secrets/",
        "secrets.",
        "vault_",
        "vault/",
        "kv/",
        "var.",
        "local.",
        "module.",
        "data.",
        "params.",
        "pk_live_",
    ],
    *[
        "pk_test_",
        "pk.eyj",
        "sb_publishable_",
        "phc_",
        "ssh-rsa",
        "ssh-ed25519",
        "aaaab3nza",
        "aaaac3nza",
        "passlib",
    ],
)
TEMPLATES = (
    "${",
    "$(",
    "{{",
    "#{",
    "<%",
    "%(",
    "$[",
    "process.env",
    "os.environ",
    "getenv",
    "import.meta",
)
PUBLIC_KEY_STARTS = ("MIIBIjAN", "MIICIjAN", "MIGfMA0G", "MFkwEwYH", "MCowBQYD")
PATH_STARTS = ("./", "../", "/", "~", "\\\\")
PATH_ENDS = (
    "/",
    *[
        ".pem",
        ".key",
        ".crt",
        ".cer",
        ".p12",
        ".pfx",
        ".json",
        ".yml",
        ".yaml",
        ".txt",
        ".py",
        ".js",
        ".jsx",
        ".ts",
        ".tsx",
        ".env",
        ".toml",
        ".ini",
        ".md",
        ".htm",
        ".html",
    ],
    *[
        ".go",
        ".rs",
        ".java",
        ".rb",
        ".sh",
        ".conf",
        ".cfg",
        ".pub",
        ".jks",
        ".lock",
        ".log",
        ".svg",
        ".png",
        ".css",
        ".com",
        ".org",
        ".net",
        ".io",
        ".dev",
        ".local",
        ".xml",
    ],
    *[".php", ".enc", ".gpg", ".db", ".sql", ".pdf", ".zip", ".gz", ".csv", ".jpg", ".jpeg"],
)
HOST_ENDS = (".key", ".com", ".org", ".net", ".io", ".dev", ".local")
"""What the locations of secrets begin with, contain and end with."""
OTHER_FORMAT = (
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d?(?:[:.]|$)|v?\d+(?:\.\d+)+|\#[0-9a-fA-F]{3,8}$|[\w.+-]+@[\w-]+\.[a-z]{2,}$|\d{1,9}[a-z%]{1,3}$"
    r"|[a-z]+/[a-z0-9.+-]+$|0x[0-9a-fA-F]{40}$|.*(?:\\[dwsbDWSB]|\[[A-Za-z]-[A-Za-z]|\[\^|\(\?|\{\d+,?\d*\}|\.\*|\.\+)"
)
"""Dates, times, versions, addresses, colours, e-mail, sizes, mime types and regexes."""
FOLLOWERS = (
    "04540140402655040656322230634351115406325304535000416032610540553172043641002052247220600422520453410020425633312"
    "01446232665132420513355107005126205445010304121713550043542055342101171127101601332610434300020435443400005475304"
    "55030203502271005041016303416020205133723360151433036330402061247200601512620144310050641371005012415601434000105"
    "05553614033134201563300102345133020355645064453410061226203501511540645401040211211001103031014417020006144723050"
    "32435204553210304042622450232244025651203051327205600321530554411040444344304005563506550000006120711060003142022"
    "101100061336305600305520552002200535365125004203602371103313343532150044546036612312250207103600222500222000021"
)
"""How often letters follow each other in words, on a scale of twos: `aa`, `ab` to `zz`; 4 is as often as by chance."""
DUMMY_BODY = (
    r"(?i)example|placeholder|redacted|changeme|replace|sample|insert|notreal|foobar|goeshere|abcdefghi|0123456789"
    r"|1234567890|deadbeefdead|(?:your|my|some)[-_]?(?:token|key|api|secret|access|personal|actual|real|bot)"
    r"|(?:^|[-_.])(?:your|fake|dummy|todo|fixme|here|goes|secret|token)(?:[-_.]|$)|(?-i:x{6}|X{6}|^[xX]{4})|\*{3}|\.{3}|…"
    r"|([^0-9a])\1{5}|([0-9])\2{7}"
)
"""What manuals write after the prefix of a vendor; too long for a random body to contain it."""
DEFAULT_PASSWORDS = (
    "admin root guest postgres postgresql mysql redis mongo mongodb rabbitmq user username usr password passwd pass pwd"
    " pw secret token test testing example changeme default foo bar baz qux hello world none null true false key creds"
    " credentials host port name minio elastic neo4j oracle sa db database app dev local docker string xxx yyy"
)
STATES_AND_PRODUCTS = (
    "required optional missing unset empty enabled disabled auto automatic generated rotated prompt prompted ask masked"
    " hashed encrypted encoded plaintext stdin interactive keyring keychain vault inherit inherited external internal"
    " managed unknown invalid valid boolean number object undefined unused anonymous nobody nothing provided deprecated"
    " ignored supported unsupported accepted rejected expired correct incorrect wrong stored removed changed updated"
    " created deleted private public protected sensitive confidential credential variable environment mandatory absent"
    " present yes no always never manual later elsewhere config settings configured server client mismatch wordpress"
    " airflow keycloak grafana laravel django nextcloud gitea gitlab github drupal joomla magento odoo sonar sonarqube"
    " zabbix superset metabase hasura strapi directus umami sentry jenkins nexus kibana logstash elasticsearch"
    " clickhouse cassandra mariadb sqlserver influxdb couchdb couchbase timescale supabase prisma symfony rails"
    " minioadmin postgis pgadmin openldap kafka vagrant ubuntu debian raspberry website backend frontend development"
    " production staging localhost"
)
"""What an environment line has instead of a password: a state, a place, or the name of a product."""
LABEL_WORDS = (
    "str text bytes bytea varchar char chararray uuid secretstr securestring type any field value val form input result"
    " data row column col hash login demo email mail smtp ssh ftp http api auth account wifi my temp tmp forgot"
    " forgotten reset change confirm confirmation repeat current old min max length chars characters zeichen character"
    " digits option flag argument parameter param params args env placeholder hint help labels textfield charfield"
    " show confirmed nullable sometimes passwort kennwort contrasena wachtwoord senha parola requerida"
    " obligatoria requis erforderlich pflichtfeld sandi kata passe mot de losenord"
    " hasło salasana heslo jelszo sifre contraseña lösenord şifre jelszó first last at least is of or an a be in on to"
    " it if when only also are was than then has have will does did do please same ci cd id ids sql php"
)
"""Words of labels, types and variables."""
TECHNICAL_WORDS = (
    "sha md bcrypt argon scrypt pbkdf base aes gcm cbc utf oauth oidc http https rfc saml sso mfa otp totp jwt tls"
    " ssl rsa hmac crc cha poly ed curve kms sse gpg pgp luks ecdsa pkcs salsa xts bit bits byte characters character"
    " chars char hashed encoded encrypted only based protected"
)
"""Words beside which a sentence does not give a password away: `password is SHA-256 hashed`."""
NOTICE_WORDS = (
    "use the this that with from not set get enter error required invalid label name app prod dev service config long"
    " generated random strong for and your put new must may should can database server client production staging local"
    " version release build step phase chapter section page figure table issue ticket model type level group team room"
)
"""Words of a name or a notice, which a passphrase of random words does not have."""
PHRASE_WORDS = (
    "too short match matches matching blank more than contain contains include includes letter letters number numbers"
    " symbol symbols uppercase lowercase again try cannot check weak different between special see read saved kept"
    " comes goes found shared sent given needed asked via file yet already before after next every each you we"
    " they our their his her me us anything something someone everyone unchanged copied sign signin been being would"
    " could there where which who what how why else maybe soon once twice longer shorter used using like over into out"
    " all both but so just even very really still now here by up one two same words please enter type choose pick"
    " hidden chosen taken broken open later other either under weaker stronger together whatever"
)
"""Words of sentences about a password, which a passphrase rarely has."""
SCHEMES = (
    "bearer",
    "token",
    "apikey",
    "api-key",
    "key",
    "basic",
    "digest",
    "ssws",
    "bot",
    "sso-key",
    "geniekey",
    "splunk",
    "oauth",
    "apitoken",
)
"""Words between the name of a header and its value."""

_token_rules: list[tuple[str, list[str], str, str]] = []
_phrase_rules: list[tuple[str, str, list[str], str, str]] = []
_token_prefixes = list[str]()
_phrase_keywords = list[str]()


def token_rules() -> list[tuple[str, list[str], str, str]]:
    """Return the rows of `TOKENS`, split once."""
    if not _token_rules:
        for line in TOKENS.strip().splitlines():
            kind, prefixes, regex = line.split(" | ")
            body, _, lead = regex.partition(" || ")
            _token_rules.append((kind, prefixes.split(), body, lead))
    return _token_rules


def token_prefixes() -> list[str]:
    """Return the prefixes of all token rules; hooks need no more of them, and no row is taken apart."""
    if not _token_prefixes:
        _token_prefixes.extend(" ".join(TOKENS.split(" | ")[1::2]).split())
    return _token_prefixes


def phrase_rules() -> list[tuple[str, str, list[str], str, str]]:
    """Return the rows of phrases, split once."""
    if not _phrase_rules:
        for line in _PHRASES.strip("\n").splitlines():
            kind, condition, keywords, other, regex = line.split(" | ")
            _phrase_rules.append(
                (kind, condition, _split_keywords(keywords), other.replace("\\n", "\n"), regex)
            )
    return _phrase_rules


def phrase_keywords() -> list[str]:
    """Return the keywords of all phrases, in the same way."""
    if not _phrase_keywords:
        _phrase_keywords.extend(
            dict.fromkeys(_split_keywords(",".join(_PHRASES.split(" | ")[2::4])))
        )
    return _phrase_keywords


def _split_keywords(keywords: str) -> list[str]:
    keywords = keywords.replace("<receivers>", _RECEIVERS).replace("<spoken>", PASSWORD_WORDS)
    return keywords.replace("\\t", "\t").replace("\\n", "\n").split(",")


def phrase_regex(regex: str) -> str:
    """Return the regex of a phrase without its `<parts>`."""
    for name, part in _PARTS:
        regex = regex.replace(name, part)
    return f"(?i){regex}"
