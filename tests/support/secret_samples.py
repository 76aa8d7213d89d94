"""Secrets made at run time, from pieces and a seeded generator, so that no whole token stands in the repository."""

import base64
import random
import string

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
URL_SAFE = ALNUM + "-_"
UPPER = string.ascii_uppercase + "234567"
DIGITS = "123456789"

_random = random.Random(20240517)


def made(length: int, alphabet: str = ALNUM) -> str:
    """Characters as a machine would choose them."""
    return "".join(_random.choice(alphabet) for _ in range(length))


def uuid() -> str:
    return "-".join(made(length, HEX) for length in (8, 4, 4, 4, 12))


def key_block(label: str = "RSA PRIVATE KEY", newline: str = "\n") -> str:
    lines = [made(64, BASE64) for _ in range(12)]
    return newline.join(
        [f"-----BEGIN {label}-----", *lines, made(22, BASE64) + "==", f"-----END {label}-----"]
    )


def login(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


TOKENS: dict[str, list[str]] = {
    "aws access key": ["AK" + "IA" + made(16, UPPER), "AS" + "IA" + made(16, UPPER)],
    "google api key": ["AI" + "za" + made(35, URL_SAFE)],
    "google oauth token": ["ya" + "29." + made(120, URL_SAFE), "1/" + "/0" + made(60, URL_SAFE)],
    "google oauth secret": ["GOC" + "SPX-" + made(28, URL_SAFE)],
    "github token": [f"gh{letter}" + "_" + made(36) for letter in "pousr"]
    + ["github" + "_pat_" + made(22) + "_" + made(59)],
    "gitlab token": ["gl" + "pat-" + made(20, URL_SAFE), "gl" + "rt-" + made(20, URL_SAFE)],
    "atlassian token": ["ATA" + "TT3xFfGF0" + made(180, URL_SAFE)],
    "slack token": [
        "xo" + f"xb-{made(12, DIGITS)}-{made(12, DIGITS)}-{made(24)}",
        "xa" + f"pp-1-A{made(10)}-{made(64, HEX)}",
    ],
    "telegram token": [made(10, DIGITS) + ":A" + "A" + made(33, URL_SAFE)],
    "twilio key": ["S" + "K" + made(32, HEX)],
    "sendgrid key": ["S" + "G." + made(22, URL_SAFE) + "." + made(43, URL_SAFE)],
    "mailgun key": ["ke" + "y-" + made(32, HEX)],
    "mailchimp key": [made(32, HEX) + "-us" + "14"],
    "brevo key": ["xkey" + "sib-" + made(64, HEX) + "-" + made(16)],
    "resend key": ["re" + "_" + made(8) + "_" + made(24)],
    "stripe key": [
        f"{kind}_{mode}_" + made(24) for kind in ("sk", "rk") for mode in ("live", "test")
    ],
    "webhook secret": ["wh" + "sec_" + made(32)],
    "square token": ["sq0" + "atp-" + made(22, URL_SAFE)],
    "shopify token": ["shp" + "at_" + made(32, HEX), "shp" + "ss_" + made(32, HEX)],
    "openai key": ["sk-" + "proj-" + made(74, URL_SAFE), "sk-" + "svcacct-" + made(74, URL_SAFE)],
    "anthropic key": ["sk-" + "ant-api03-" + made(93, URL_SAFE) + "AA"],
    "openrouter key": ["sk-" + "or-v1-" + made(64, HEX)],
    "api key": ["sk" + "-" + made(48), "sk" + "-" + made(32, HEX)],
    "groq key": ["gs" + "k_" + made(52)],
    "xai key": ["xa" + "i-" + made(80)],
    "perplexity key": ["pp" + "lx-" + made(48)],
    "replicate token": ["r8" + "_" + made(37)],
    "hugging face token": ["h" + "f_" + made(34, string.ascii_letters)],
    "langsmith key": ["ls" + "v2_pt_" + made(32, HEX) + "_" + made(10, HEX)],
    "npm token": ["np" + "m_" + made(36)],
    "pypi token": ["py" + "pi-AgEIcHlwaS5vcmc" + made(70, URL_SAFE)],
    "rubygems key": ["ruby" + "gems_" + made(48, HEX)],
    "nuget key": ["oy" + "2" + made(43, string.ascii_lowercase + string.digits)],
    "docker token": ["dckr" + "_pat_" + made(27, URL_SAFE)],
    "artifactory key": ["AK" + "Cp" + made(69)],
    "digitalocean token": ["do" + "p_v1_" + made(64, HEX)],
    "heroku key": ["HR" + "KU-" + uuid()],
    "databricks token": ["da" + "pi" + made(32, HEX)],
    "vault token": ["hv" + "s." + made(24, URL_SAFE), "hv" + "s." + made(90, URL_SAFE)],
    "terraform token": [made(14) + ".atlas" + "v1." + made(67, URL_SAFE)],
    "pulumi token": ["pu" + "l-" + made(40, HEX)],
    "linear key": ["lin" + "_api_" + made(40)],
    "notion token": ["sec" + "ret_" + made(43), "nt" + "n_" + made(46)],
    "figma token": ["fi" + "gd_" + made(40, URL_SAFE)],
    "airtable token": ["pa" + "t" + made(14) + "." + made(64, HEX)],
    "hubspot token": ["pat-" + "na1-" + uuid()],
    "postman key": ["PM" + "AK-" + made(24, HEX) + "-" + made(34, HEX)],
    "sentry token": ["sn" + "trys_eyJ" + made(80, BASE64), "sn" + "tryu_" + made(64, HEX)],
    "doppler token": ["dp." + "pt." + made(43), "dp." + "st.dev." + made(43)],
    "grafana token": ["gl" + "sa_" + made(32) + "_" + made(8, HEX)],
    "cloudflare key": ["v1" + ".0-" + made(24, HEX) + "-" + made(146, HEX)],
    "fly token": ["fo" + "1_" + made(43, URL_SAFE)],
    "vercel token": ["vc" + "p_" + made(56)],
    "netlify token": ["nf" + "p_" + made(40)],
    "supabase key": ["sb" + "p_" + made(40, HEX), "sb_" + "secret_" + made(31, URL_SAFE)],
    "planetscale token": [
        "pscale" + "_tkn_" + made(43, URL_SAFE),
        "pscale" + "_pw_" + made(43, URL_SAFE),
    ],
    "render key": ["rn" + "d_" + made(32)],
    "tailscale key": ["ts" + "key-auth-" + made(12) + "-" + made(32)],
    "age key": ["AGE-" + "SECRET-KEY-1" + made(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")],
    "dropbox token": ["s" + "l." + made(140, URL_SAFE)],
    "dynatrace token": ["dt0" + "c01." + made(24, UPPER) + "." + made(64, UPPER)],
    "new relic key": ["NR" + "AK-" + made(27, UPPER)],
    "posthog key": ["ph" + "x_" + made(43)],
    "sonar token": ["sq" + "u_" + made(40, HEX)],
    "circleci token": ["CCI" + "PAT_" + made(22) + "_" + made(40, HEX)],
    "azure secret": ["abc8" + "Q~" + made(34)],
    "jwt": ["ey" + "J" + made(33) + ".ey" + "J" + made(80) + "." + made(43, URL_SAFE)],
    "private key": ["LS0tLS1C" + "RUdJTiBQUklWQVRF" + made(800, BASE64)],
}
"""For each kind of token with a shape of its own, some examples."""

STRONG_VALUES = [
    made(32, HEX),
    made(40),
    made(24),
    made(32, string.ascii_lowercase + string.digits),
    made(42, BASE64) + "9=",
]
HUMAN_PASSWORDS = ["hunter2!x9", "Tr0ub4dor&3", "Xk9#mP2$vL", "S3cr3t_Winter!"]
