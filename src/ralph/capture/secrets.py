r"""Secrets that show themselves: by a prefix, a header, a block or the user part of a URL.

Each rule names the literal that every such secret holds (the anchor), so that `str.find` does
the searching and a regular expression is compiled and run only where the anchor stands. An
anchor counts only when no letter, digit, `-` or `_` stands before it; therefore a run of token
characters is looked at once per anchor and hostile text cannot make the search quadratic. What
could reach further (blocks, command lines) is bounded. Lengths are lower bounds on purpose: a
vendor that lengthens its tokens stays covered, and `values.plausible` keeps manuals out.
`tests/capture/test_secrets.py` holds an example and a look-alike for the kinds.
"""

from ralph.capture.values import basic_login, digits_in_base64, login_password, plausible, regex, strength

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterator

Span = tuple[int, int, str]
"""Start, end and kind of a secret."""


class Rule:
    """One kind of token: the literal to look for, what follows it and, for a few, what stands before it."""

    __slots__ = ("anchor", "body", "kind", "lead")

    def __init__(self, kind: str, anchor: str, body: str, lead: str = "") -> None:
        self.kind = kind
        self.anchor = anchor
        self.body = body
        self.lead = lead


_WORD = r"[A-Za-z0-9_-]"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

_TABLE = rf"""
aws access key      | AKIA ASIA ABIA ACCA                              | [A-Z0-9]{{16}}(?![A-Za-z0-9_-])
aws session token   | IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz           | [A-Za-z0-9+/=]{{60,}}
aws api key         | ABSK bedrock-api-key-                            | [A-Za-z0-9+/=]{{60,}}
aws mws token       | amzn.mws.                                        | {_UUID}
google api key      | AIza                                             | {_WORD}{{33,}}
google oauth token  | ya29.                                            | [A-Za-z0-9_.-]{{20,}}
google oauth token  | 1//0                                             | {_WORD}{{36,}}
google oauth secret | GOCSPX-                                          | {_WORD}{{20,}}
firebase key        | AAAA                                             | {_WORD}{{7}}:{_WORD}{{100,}}
github token        | ghp_ gho_ ghu_ ghs_ ghr_                         | [A-Za-z0-9_]{{30,}}
github token        | github_pat_                                      | [A-Za-z0-9_]{{30,}}
gitlab token        | glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt- | [A-Za-z0-9_.-]{{18,}}
gitlab token        | GR1348941                                        | {_WORD}{{20,}}
bitbucket token     | ATBB                                             | [A-Za-z0-9]{{24,}}
atlassian token     | ATATT3 ATCTT3 ATSTT3                             | [A-Za-z0-9_=-]{{40,}}
trello token        | ATTA                                             | [0-9a-f]{{60,}}
slack token         | xoxb- xoxa- xoxp- xoxo- xoxs- xoxr- xoxe- xoxc- xoxd- xoxe.xoxp- xoxe.xoxb- xapp- xwfp- | [A-Za-z0-9%/+.-]{{16,}}
slack webhook       | hooks.slack.com/                                 | (?:services|workflows|triggers)/[A-Za-z0-9/+_-]{{20,}}
discord webhook     | discord.com/api/ discordapp.com/api/             | (?:v\d+/)?webhooks/\d{{10,}}/{_WORD}{{40,}}
teams webhook       | webhook.office.com/ outlook.office.com/          | webhook[a-z0-9]*/[^\s"'<>]{{40,}}
telegram token      | :AA                                              | {_WORD}{{31,}} | (?:bot)?\d{{8,11}}
twitter token       | AAAAAAAAAAAAAAAAAAAA                             | [A-Za-z0-9%]{{40,}}
facebook token      | EAA                                              | [A-Za-z0-9]{{80,}}
instagram token     | IGQ IGAA                                         | {_WORD}{{60,}}
twilio key          | SK                                               | [0-9a-f]{{32}}(?![A-Za-z0-9_-])
sendgrid key        | SG.                                              | {_WORD}{{16,}}\.{_WORD}{{16,}}
mailgun key         | key- pubkey-                                     | [0-9a-f]{{32}}(?![A-Za-z0-9_-])
mailchimp key       | -us                                              | \d{{1,2}}(?![A-Za-z0-9_-]) | [0-9a-f]{{32}}
brevo key           | xkeysib- xsmtpsib-                               | [0-9a-f]{{40,}}-[A-Za-z0-9]{{10,}}
resend key          | re_                                              | [A-Za-z0-9]{{6,}}_[A-Za-z0-9]{{16,}}
stripe key          | sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ sk_org_live_ sk_org_test_ | [A-Za-z0-9_]{{16,}}
webhook secret      | whsec_                                           | [A-Za-z0-9+/=]{{24,}}
square token        | sq0atp- sq0csp- EAAA                             | {_WORD}{{22,}}
shopify token       | shpat_ shpca_ shppa_ shpss_ shpua_ shptka_       | [0-9a-fA-F]{{30,}}
braintree token     | access_token$production$ access_token$sandbox$   | [0-9a-z]{{16}}\$[0-9a-f]{{32}}
plaid token         | access-production- access-development- access-sandbox- | {_UUID}
flutterwave key     | FLWSECK_TEST- FLWSECK-                           | [0-9a-zA-Z]{{12,}}-X
payment key         | shippo_live_ shippo_test_ duffel_live_ duffel_test_ EZAK EZTK | {_WORD}{{38,}}
openai key          | sk-proj- sk-svcacct- sk-admin- sk-None-          | {_WORD}{{20,}}
anthropic key       | sk-ant-                                          | [a-z0-9]+-{_WORD}{{20,}}
openrouter key      | sk-or-                                           | v\d-{_WORD}{{30,}}
api key             | sk-                                              | [A-Za-z0-9_-]{{24,}}
api key             | sk_                                              | [0-9a-f]{{40,}}(?![A-Za-z0-9_-])
groq key            | gsk_                                             | [A-Za-z0-9]{{40,}}
xai key             | xai-                                             | [A-Za-z0-9]{{60,}}
perplexity key      | pplx-                                            | [A-Za-z0-9]{{40,}}
replicate token     | r8_                                              | [A-Za-z0-9]{{30,}}
hugging face token  | hf_ api_org_                                     | [A-Za-z0-9]{{30,}}
langsmith key       | lsv2_pt_ lsv2_sk_ ls__                           | [0-9a-f_]{{32,}}
model api key       | pcsk_ tgp_v1_ tvly-dev- tvly-prod- tvly- nvapi- csk- fw_ jina_ e2b_ wandb_v1_ voyage- pa- BSA | {_WORD}{{24,}}
firecrawl key       | fc-                                              | [0-9a-f]{{32}}(?![A-Za-z0-9_-])
npm token           | npm_                                             | [A-Za-z0-9]{{30,}}
pypi token          | pypi-                                            | {_WORD}{{50,}}
rubygems key        | rubygems_                                        | [0-9a-f]{{40,}}
crates token        | cio                                              | [A-Za-z0-9]{{32}}(?![A-Za-z0-9_-])
nuget key           | oy2                                              | [a-z0-9]{{43}}(?![A-Za-z0-9_-])
clojars token       | CLOJARS_                                         | [0-9a-f]{{50,}}
docker token        | dckr_pat_ dckr_oat_                              | {_WORD}{{20,}}
docker credentials  | eyJhdXRocyI6                                     | [A-Za-z0-9+/=]{{20,}}
artifactory key     | AKCp                                             | [A-Za-z0-9]{{60,}}
artifactory key     | cmVmdGtuOj                                       | [A-Za-z0-9]{{40,}}
digitalocean token  | dop_v1_ doo_v1_ dor_v1_                          | [0-9a-f]{{40,}}
heroku key          | HRKU-                                            | {_WORD}{{36,}}
databricks token    | dapi dkea dose                                   | [0-9a-f]{{32}}(?:-\d)?(?![A-Za-z0-9_-])
vault token         | hvs. hvb. hvr.                                   | {_WORD}{{20,}}
terraform token     | .atlasv1.                                        | {_WORD}{{40,}} | [A-Za-z0-9]{{14}}
pulumi token        | pul-                                             | [0-9a-f]{{40}}(?![A-Za-z0-9_-])
linear key          | lin_api_ lin_oauth_                              | [A-Za-z0-9]{{30,}}
notion token        | secret_ ntn_                                     | [A-Za-z0-9]{{40,}}
figma token         | figd_ figh_ figo_ figu_ figr_                    | {_WORD}{{36,}}
airtable token      | pat                                              | [A-Za-z0-9]{{14}}\.[0-9a-f]{{40,}}
asana token         | 0/ 1/ 2/                                         | \d{{10,}}[/:][0-9a-f/:]{{32,}}
clickup token       | pk_                                              | \d{{5,}}_[A-Z0-9]{{30,}}
typeform token      | tfp_                                             | [A-Za-z0-9_.-]{{40,}}
contentful token    | CFPAT-                                           | {_WORD}{{40,}}
readme key          | rdme_                                            | [a-z0-9]{{60,}}
hubspot token       | pat-na1- pat-na2- pat-eu1- pat-ap1-              | {_UUID}
postman key         | PMAK-                                            | [0-9a-f]{{24}}-[0-9a-f]{{30,}}
sentry token        | sntrys_ sntryu_ sntrya_ sntryi_                  | [A-Za-z0-9+/=_-]{{40,}}
doppler token       | dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.   | [A-Za-z0-9_.-]{{36,}}
infisical token     | st.                                              | [0-9a-f]{{24}}\.[0-9a-f]{{32}}\.[0-9a-f]{{32}}
one password token  | ops_eyJ                                          | [A-Za-z0-9+/=_-]{{100,}}
one password key    | A3-                                              | [A-Z0-9]{{6}}-(?:[A-Z0-9]{{5,11}}-){{3,5}}[A-Z0-9]{{5}}
grafana token       | glsa_ glc_ eyJrIjoi                              | [A-Za-z0-9+/=_-]{{32,}}
cloudflare key      | v1.0-                                            | [0-9a-f]{{24}}-[0-9a-f]{{100,}}
cloudflare token    | cfk_ cfut_ cfat_                                 | {_WORD}{{36,}}
fly token           | fo1_ fm1r_ fm1a_ fm2_                            | [A-Za-z0-9+/=_-]{{40,}}
vercel token        | vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_         | [A-Za-z0-9_]{{24,}}
netlify token       | nfp_ nfc_ nfo_ nfu_ nfb_                         | [A-Za-z0-9]{{36,}}
supabase key        | sbp_ sb_secret_ sbp_v0_ sbp_oauth_               | {_WORD}{{20,}}
planetscale token   | pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_pat_ | [A-Za-z0-9_.=-]{{30,}}
neon key            | napi_ npg_                                       | [A-Za-z0-9]{{12,}}
render key          | rnd_                                             | [A-Za-z0-9]{{26,}}
xata key            | xau_                                             | [A-Za-z0-9]{{30,}}
tailscale key       | tskey-                                           | [a-z]+-[A-Za-z0-9]{{8,}}(?:-[A-Za-z0-9]{{16,}})?
age key             | AGE-SECRET-KEY-1 AGE-PLUGIN-                     | [A-Z0-9-]{{50,}}
dropbox token       | sl. sl.u. sl.B.                                  | {_WORD}{{60,}}
dynatrace token     | dt0c01. dt0s01. dt0s16.                          | [A-Z0-9]{{20,}}\.[A-Z0-9]{{60,}}
new relic key       | NRAK- NRII- NRIQ- NRRA- NRSP-                    | [A-Za-z0-9_-]{{24,}}
new relic key       | NRAL                                             | (?![A-Za-z0-9_-]) | [0-9a-f]{{36}}
honeycomb key       | hcaik_ hcbik_ hcalk_ hcamk_                      | [a-z0-9]{{26,}}
datadog key         | ddapp_ ddapi_ pub_dd_                            | [A-Za-z0-9]{{30,}}
posthog key         | phx_ phs_                                        | [A-Za-z0-9]{{30,}}
sonar token         | sqp_ squ_ sqa_                                   | [0-9a-f]{{40}}(?![A-Za-z0-9_-])
sourcegraph token   | sgp_ slk_                                        | [A-Za-z0-9_]{{40,}}
circleci token      | CCIPAT_ CCIPRJ_                                  | {_WORD}{{40,}}
buildkite token     | bkua_ bkct_ bkaj_                                | [A-Za-z0-9]{{36,}}
launchdarkly key    | sdk- api-                                        | {_UUID}
harness token       | pat.                                             | {_WORD}{{22}}\.[0-9a-f]{{24}}\.[A-Za-z0-9]{{20}}
octopus key         | API-                                             | [A-Z0-9]{{25,}}(?![A-Za-z0-9_-])
prefect key         | pnu_ pnb_                                        | [A-Za-z0-9]{{30,}}
mapbox token        | sk.eyJ                                           | {_WORD}{{20,}}\.{_WORD}{{16,}}
linkedin token      | WPL_AP1.                                         | [A-Za-z0-9.=+/]{{16,}}
alibaba key         | LTAI                                             | [A-Za-z0-9]{{16,30}}(?![A-Za-z0-9_-])
tencent key         | AKID                                             | [A-Za-z0-9]{{32}}(?![A-Za-z0-9_-])
yandex token        | AQVN t1.                                         | {_WORD}{{36,}}
infracost key       | ico-                                             | [A-Za-z0-9]{{32}}(?![A-Za-z0-9_-])
service token       | dnkey- ion_ fio-u- sgs_ rpa_ pk_prod_secret_ svix_ clk_ unkey_ ory_pat_ ory_at_ ory_rt_ zpka_ hsp_ bb_live_ | {_WORD}{{32,}}
azure secret        | Q~                                               | [A-Za-z0-9_~.-]{{30,}} | [A-Za-z0-9_~.]{{3}}\d
azure key           | AzFu AzSe AzCa JQQJ9                            | [A-Za-z0-9+/=_-]{{6,}} | [A-Za-z0-9_-]{{40,56}}
jwt                 | eyJ                                              | {_WORD}{{8,}}\.{_WORD}{{8,}}\.{_WORD}{{8,}}(?:\.{_WORD}+)*
private key         | LS0tLS1CRUdJTiBQUklWQVRF LS0tLS1CRUdJTiBSU0EgUFJJ LS0tLS1CRUdJTiBFQyBQUklW LS0tLS1CRUdJTiBPUEVOU1NI LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJ b3BlbnNzaC1rZXktdjE | [A-Za-z0-9+/=]{{40,}}
signed url          | X-Amz-Signature= X-Goog-Signature=               | [0-9a-f]{{64,}}
"""  # noqa: E501 - one row a kind, so that the table can be read and sorted as a table


_RULES: list[Rule] = []


def rules() -> tuple[Rule, ...]:
    """Every rule that has an anchor, one for each anchor."""
    if not _RULES:
        for row in _TABLE.strip().splitlines():
            # A pipe inside a body stands without spaces around it.
            kind, anchors, body, *lead = (cell.strip() for cell in row.split(" | "))
            _RULES.extend(Rule(kind, anchor, body, lead[0] if lead else "") for anchor in anchors.split())
    return tuple(_RULES)


_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in ".$-"})
"""The signs of anchors that mean something in an expression."""


def _anchored(anchor: str, body: str) -> "re.Pattern[str]":
    r"""The anchor first, then the look behind it: a pattern that begins with a literal is found fast.

    A token may follow any sign, an escaped `\\n` or a `%3D`, but no letter, digit, `-` or `_`.
    """
    name = anchor.translate(_SIGNS)
    begins = rf"(?:(?<![A-Za-z0-9_-]{name})|(?<=\\[nrt]{name})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{name}))"
    return regex(rf"{name}{begins}(?:{body})")


_RUN = r"[A-Za-z0-9_.~+/=:%$@-]{16,}"
_DIGIT = r"[0-9]"
_BASE64 = r"[A-Za-z0-9+/]{24}"
_CHECKSUM = r"(?i)(?:sha\d{1,3}|md5|integrity)[=:-]\Z"


def _long_runs(text: str) -> str:
    """The few parts of a text that could hold a token, so that 300 anchors are not sought in the whole of it."""
    runs = regex(_RUN).findall(text)
    return "\n".join(run for run in runs if not (run.islower() or run.isupper()) or regex(_DIGIT).search(run))


def tokens(text: str, joints: "Collection[int]" = ()) -> "Iterator[Span]":
    """Everything that a rule of the table recognises; at a joint a token may begin, whatever stands before it."""
    runs = _long_runs(text)
    for rule in rules() if runs else ():
        if rule.anchor not in runs:
            continue
        for start, end in _led(text, rule) if rule.lead else _plain(text, rule):
            if not _inside_other(text, start):
                yield start, end, rule.kind
        for match in regex(f"{rule.anchor.translate(_SIGNS)}(?:{rule.body})").finditer(text) if joints else ():
            if match.start() in joints and not rule.lead and plausible(match[0][len(rule.anchor) :]):
                yield *match.span(), rule.kind


def _inside_other(text: str, start: int) -> bool:
    """Whether a checksum or a long base64 text (an image, a module) happens to hold an anchor."""
    before = text[max(0, start - 24) : start]
    if before[-1:] in ("+", "/") and regex(_BASE64).fullmatch(before) and not (before.islower() or before.isupper()):
        return regex(_DIGIT).search(before) is not None
    return regex(_CHECKSUM).search(before) is not None


def _plain(text: str, rule: Rule) -> "Iterator[tuple[int, int]]":
    """Tokens that begin with their anchor."""
    for match in _anchored(rule.anchor, rule.body).finditer(text):
        if plausible(match[0][len(rule.anchor) :]):
            yield match.span()


def _led(text: str, rule: Rule) -> "Iterator[tuple[int, int]]":
    """Tokens whose anchor stands inside them."""
    lead, body = regex(rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])){rule.lead}\Z"), regex(rule.body)
    at = text.find(rule.anchor)
    while at >= 0:
        first = max(0, at - 64)
        before = lead.search(text[first:at])
        after = body.match(text, at + len(rule.anchor)) if before else None
        if before and after and plausible(before[0] + after[0]):
            yield first + before.start(), after.end()
        at = text.find(rule.anchor, after.end() if after else at + 1)


_GAP = r"""(?:\s|\\{1,4}[nrt]|["',;>|\#]|[+*][ ])"""
_BEGIN = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END = r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_BODY = rf"""(?x){_GAP}*+(?:[A-Z][A-Za-z-]{{2,30}}:[ ][^\n\\]{{0,200}}{_GAP}++){{0,6}}
    (?P<body>[A-Za-z0-9+/]{{16,}}+={{0,3}}(?:{_GAP}++[A-Za-z0-9+/]{{16,}}+={{0,3}})*+)
    (?:(?:\s|\\{{1,4}}[nrt])++(?:[A-Za-z0-9+/]{{1,15}}+={{0,3}}(?=\s*\Z)
                         |[A-Za-z+/]{{0,14}}[0-9+/][A-Za-z0-9+/]{{0,15}}={{0,3}}(?=["'\s])))?"""
"""Headers, lines of base64, and a last line that was cut off; there is no end marker."""
_PUTTY = r"Private-Lines: \d+\s+(?P<body>[A-Za-z0-9+/]{32,}={0,2}(?:\s[A-Za-z0-9+/=]{16,})*)"
_LONG_LINE = r"[A-Za-z0-9+/]{24,}"


def key_blocks(text: str) -> "Iterator[Span]":
    """PEM, OpenSSH, PGP and PuTTY private keys, whole or cut off, also flattened into one string."""
    begins = list(regex(_BEGIN).finditer(text)) if "PRIVATE KEY" in text else []
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        end = regex(_END).search(text, begin.end(), min(limit, begin.end() + 20_000))
        if end:
            inside = "".join(regex(_LONG_LINE).findall(text, begin.end(), end.start()))
            if len(inside) >= 40 and plausible(inside[-400:]):
                yield begin.start(), end.end(), "private key"
        else:
            body = regex(_BODY).match(text, begin.end(), limit)
            if body and len(body["body"]) >= 40 and plausible(body["body"][-400:]):
                yield begin.start(), body.end(), "private key"
    for match in regex(_PUTTY).finditer(text) if "Private-Lines: " in text else ():
        yield match.start("body"), match.end(), "private key"


_LOGIN = r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>[^\s/\"'`<>?#\\]{1,256})@(?=[\w\[$({%.-])"
_RAW_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{1,128}):(?P<password>(?!\d{2,5}(?:/|\Z))[^\s\"'`<>@\\]{1,128})@(?=[\w.-]+[:/])"
)
_STORES = ("postgres", "mysql", "mariadb", "mongodb", "redis", "amqp", "mssql", "sqlserver", "oracle", "cockroach",
           "clickhouse", "cassandra", "neo4j", "nats", "ldap", "kafka", "rediss", "couchbase", "snowflake", "asyncpg",
           "psycopg", "pymysql", "srv", "libsql", "amqps", "bolt", "db2", "ldaps", "memcached")  # fmt: skip


def url_logins(text: str) -> "Iterator[Span]":
    """The password in `scheme://user:password@host`; databases allow signs in it that other URLs do not."""
    at = text.find("://")
    while at >= 0:
        store = text[max(0, at - 12) : at].lower().endswith(_STORES)
        match = regex(_LOGIN).match(text, at) or (regex(_RAW_LOGIN).match(text, at) if store else None)
        if match and login_password(match["user"], match["password"]):
            yield (
                match.start("password"),
                match.end("password"),
                "connection string" if store else "url password",
            )
        at = text.find("://", match.end() if match else at + 3)


def _graded(least: int) -> "Callable[[str], bool]":
    def check(value: str) -> bool:
        return strength(value) >= least and plausible(value)

    return check


def _login_value(value: str) -> bool:
    return login_password("", value) and not value.isdigit()


_QUOTE = r"[\"'\\]{0,2}"
_LINES: "tuple[tuple[str, str, str, Callable[[str], bool]], ...]" = (
    ("bearer token", "bearer", rf"bearer{_QUOTE}[\s:]{{1,3}}{_QUOTE}(?P<s>[A-Za-z0-9._~+/=-]{{16,}})", _graded(2)),
    ("basic login", "basic ", rf"basic {_QUOTE}(?P<s>[A-Za-z0-9+/]{{8,}}={{0,2}})", basic_login),
    ("password", "login ", r"login\s+\S{1,128}\s+password\s+(?P<s>\S{4,256})", _login_value),
    ("password", "requirepass ", r"requirepass\s+[\"']?(?P<s>[^\s\"']{4,128})", _graded(1)),
    ("password", "sshpass ", r"sshpass\s+-p\s*[\"']?(?P<s>[^\s\"']{4,128})", _login_value),
    ("password", "mysql", r"mysql(?:dump|admin|sh)?\b[^\n|;]{0,160}?\s-p[\"']?(?P<s>[^\s\"']{4,128})", _login_value),
    ("password", "redis-cli", r"redis-cli\b[^\n|;]{0,160}?\s(?:-a|--pass)[ =][\"']?(?P<s>[^\s\"']{4,128})",
     _login_value),
    ("password", " login ", r" login [^\n|;]{0,160}?\s-p[ =]?[\"']?(?P<s>[^\s\"']{4,128})", _graded(1)),
    ("password", "pass:", r"pass:(?P<s>[^\s\"',;]{6,128})", _graded(1)),
    ("password", "identified ", r"identified\s+(?:with\s+\S+\s+)?by\s+[\"'](?P<s>[^\s\"']{4,128})", _login_value),
    ("password", "convertto-securestring ", r"convertto-securestring\s+[\"'](?P<s>[^\s\"']{6,128})", _login_value),
    ("password", ":543", r":543\d:[\w*.-]{1,64}:[\w.-]{1,64}:(?P<s>[^\s:]{4,128})(?=\s|\Z)", _graded(1)),
    ("seed phrase", "mnemonic", r"mnemonic[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
     bool),
    ("seed phrase", "seed", r"seed[ _-]?phrase[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
     bool),
    ("private key", '"d"', r"\"d\"\s{0,4}:\s{0,4}\"(?P<s>[A-Za-z0-9_-]{40,})\"", _graded(3)),
    ("azure signature", "sig=", r"sig=(?P<s>[A-Za-z0-9%+/]{40,200}=?)", plausible),
    ("session cookie", "cookie",
     rf"cookie{_QUOTE}[:=,]\s{{0,4}}{_QUOTE}(?:[^\n;=]{{1,64}}=[^\n;]{{0,300}};\s?){{0,12}}?"
     r"[\w.-]{0,24}?(?:sess[a-z]*|sid|auth[a-z_]*|jwt|remember[a-z_]*)=(?P<s>[A-Za-z0-9._~%+/=-]{16,})", _graded(3)),
)  # fmt: skip


def header_and_command_secrets(text: str, lowered: str) -> "Iterator[Span]":
    """Headers, netrc, SQL and the command lines that take a password without naming it."""
    for kind, anchor, body, check in _LINES:
        pattern = None
        at = lowered.find(anchor)
        while at >= 0:
            pattern = pattern or regex(f"(?i){body}")
            match = pattern.match(text, at)
            if match and check(match["s"]):
                yield match.start("s"), match.end("s"), kind
            at = lowered.find(anchor, max(at + 1, match.end() if match else 0))
    yield from _curl_logins(text)
    yield from _discord_tokens(text)


_CURL = r"(?:-u|--user|--proxy-user|-U)[ =]?[\"']?(?P<user>[^\s:\"'/]{1,64}):(?P<s>[^\s\"']{1,128})"


def _curl_logins(text: str) -> "Iterator[Span]":
    if "curl" not in text:
        return
    for match in regex(_CURL).finditer(text):
        before = text[max(0, match.start() - 400) : match.start()]
        if "curl" in before and login_password(match["user"], match["s"]) and not match["s"].isdigit():
            yield match.start("s"), match.end("s"), "password"


_DISCORD = rf"[MNO](?<![A-Za-z0-9_.-][MNO])(?P<id>{_WORD}{{22,27}})\.{_WORD}{{6}}\.{_WORD}{{27,45}}(?!{_WORD})"


def _discord_tokens(text: str) -> "Iterator[Span]":
    for match in regex(_DISCORD).finditer(text):
        if digits_in_base64(text[match.start() : match.end("id")]):
            yield match.start(), match.end(), "discord token"
