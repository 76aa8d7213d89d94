"""The beginnings of tokens, for the screen: a light copy of what the table in `capture/secrets` looks for.

Each row says of which signs a token goes on after its anchor (a key of `SIGNS`) and how many of them there
are at least; nothing more, so that a row can only be wider than the rule it stands for. A tuple of
constants, because it is read from the compiled file at every event. `tests/hooks/test_screen.py` draws
tokens from every rule of the table and proves that none of them gets past its row.
"""

_ALNUM = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SIGNS = {
    "digits": b"0123456789" + bytes(range(128, 256)),
    "hex": b"0123456789abcdefABCDEF-",
    "word": _ALNUM + b"_-",
    "run": _ALNUM + b"_.~+/=:%$@-",
}
"""Rules count the digits of every script, which are more than one byte."""

LEADING: tuple[tuple[str, int, tuple[bytes, ...]], ...] = (
    ("digits", 10, (b"0/", b"1/", b"2/")),
    ("digits", 5, (b"pk_",)),
    ("hex", 24, (b"st.",)),
    ("hex", 30, (b"shpat_", b"shpca_", b"shppa_", b"shpss_", b"shpua_", b"shptka_", b"dapi", b"dkea", b"dose")),
    ("hex", 32, (b"SK", b"key-", b"pubkey-", b"fc-")),
    ("hex", 36, (b"amzn.mws.", b"access-production-", b"access-development-", b"access-sandbox-", b"pat-na1-",
                 b"pat-na2-", b"pat-eu1-", b"pat-ap1-", b"sdk-", b"api-")),
    ("hex", 40, (b"sk_", b"rubygems_", b"dop_v1_", b"doo_v1_", b"dor_v1_", b"pul-", b"sqp_", b"squ_", b"sqa_",
                 b"CLOJARS_", b"PMAK-", b"ATTA", b"X-Amz-Signature=", b"X-Goog-Signature=", b"v1.0-")),
    ("word", 10, (b"tskey-", b"napi_", b"npg_", b"FLWSECK_TEST-", b"FLWSECK-")),
    ("word", 14, (b"pat",)),
    ("word", 16, (b"AKIA", b"ASIA", b"ABIA", b"ACCA", b"sk_live_", b"sk_test_", b"rk_live_", b"rk_test_", b"sk_prod_",
                  b"rk_prod_", b"sk_org_live_", b"sk_org_test_", b"LTAI")),
    ("word", 20, (b"GOCSPX-", b"GR1348941", b"sk-proj-", b"sk-svcacct-", b"sk-admin-", b"sk-None-", b"dckr_pat_",
                  b"dckr_oat_", b"hvs.", b"hvb.", b"hvr.", b"sbp_", b"sb_secret_", b"sbp_v0_", b"sbp_oauth_")),
    ("word", 22, (b"sq0atp-", b"sq0csp-", b"EAAA", b"sk-ant-", b"re_", b"pat.")),
    ("word", 24, (b"ATBB", b"sk-", b"pcsk_", b"tgp_v1_", b"tvly-dev-", b"tvly-prod-", b"tvly-", b"nvapi-", b"csk-",
                  b"fw_", b"jina_", b"e2b_", b"wandb_v1_", b"voyage-", b"pa-", b"BSA", b"vcp_", b"vci_", b"vca_",
                  b"vcr_", b"vck_", b"vercel_blob_rw_", b"NRAK-", b"NRII-", b"NRIQ-", b"NRRA-", b"NRSP-")),
    ("word", 25, (b"API-", b"rnd_", b"hcaik_", b"hcbik_", b"hcalk_", b"hcamk_")),
    ("word", 30, (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"r8_", b"hf_", b"api_org_", b"npm_",
                  b"lin_api_", b"lin_oauth_", b"A3-", b"xau_", b"ddapp_", b"ddapi_", b"pub_dd_", b"phx_", b"phs_",
                  b"pnu_", b"pnb_", b"lsv2_pt_", b"lsv2_sk_", b"ls__", b"cio", b"AKID", b"ico-", b"dnkey-", b"ion_",
                  b"fio-u-", b"sgs_", b"rpa_", b"pk_prod_secret_", b"svix_", b"clk_", b"unkey_", b"ory_pat_",
                  b"ory_at_", b"ory_rt_", b"zpka_", b"hsp_", b"bb_live_", b"AIza")),
    ("word", 36, (b"1//0", b"HRKU-", b"figd_", b"figh_", b"figo_", b"figu_", b"figr_", b"cfk_", b"cfut_", b"cfat_",
                  b"nfp_", b"nfc_", b"nfo_", b"nfu_", b"nfb_", b"bkua_", b"bkct_", b"bkaj_", b"AQVN", b"t1.",
                  b"shippo_live_", b"shippo_test_", b"duffel_live_", b"duffel_test_", b"EZAK", b"EZTK")),
    ("word", 40, (b"gsk_", b"pplx-", b"cmVmdGtuOj", b"secret_", b"ntn_", b"CFPAT-", b"sgp_", b"slk_", b"CCIPAT_",
                  b"CCIPRJ_", b"oy2", b"pypi-", b"AGE-SECRET-KEY-1", b"AGE-PLUGIN-", b"xkeysib-", b"xsmtpsib-")),
    ("word", 60, (b"IGQ", b"IGAA", b"xai-", b"AKCp", b"rdme_", b"sl.", b"sl.u.", b"sl.B.", b"EAA")),
    ("run", 0, (b"sk-or-", b"webhook.office.com", b"outlook.office.com", b"discord.com/api", b"discordapp.com/api",
                b"hooks.slack.com")),
    ("run", 16, (b"xoxb-", b"xoxa-", b"xoxp-", b"xoxo-", b"xoxs-", b"xoxr-", b"xoxe-", b"xoxc-", b"xoxd-",
                 b"xoxe.xoxp-", b"xoxe.xoxb-", b"xapp-", b"xwfp-", b"WPL_AP1.")),
    ("run", 18, (b"glpat-", b"gldt-", b"glrt-", b"glcbt-", b"glptt-", b"glft-", b"glimt-", b"glagent-", b"gloas-",
                 b"glsoat-", b"glffct-", b"glwt-")),
    ("run", 20, (b"ya29.", b"eyJ", b"whsec_", b"sk.eyJ", b"ops_eyJ", b"pscale_tkn_", b"pscale_pw_", b"pscale_oauth_",
                 b"pscale_pat_", b"glsa_", b"glc_")),
    ("run", 33, (b"SG.", b"dp.pt.", b"dp.st.", b"dp.ct.", b"dp.sa.", b"dp.scim.", b"dp.audit.")),
    ("run", 40, (b"ATATT3", b"ATCTT3", b"ATSTT3", b"AAAAAAAAAAAAAAAAAAAA", b"tfp_", b"sntrys_", b"sntryu_", b"sntrya_",
                 b"sntryi_", b"fo1_", b"fm1r_", b"fm1a_", b"fm2_", b"LS0tLS1CRUdJTiBQUklWQVRF",
                 b"LS0tLS1CRUdJTiBSU0EgUFJJ", b"LS0tLS1CRUdJTiBFQyBQUklW", b"LS0tLS1CRUdJTiBPUEVOU1NI",
                 b"LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJ", b"b3BlbnNzaC1rZXktdjE", b"access_token$production$",
                 b"access_token$sandbox$", b"IQoJb3JpZ2lu", b"FwoGZXIvYXdz", b"FQoGZXIvYXdz", b"ABSK",
                 b"bedrock-api-key-", b"dt0c01.", b"dt0s01.", b"dt0s16.", b"AAAA")),
)  # fmt: skip
"""Anchors that a token begins with."""

INSIDE: tuple[tuple[str, int, tuple[bytes, ...]], ...] = (
    ("digits", 1, (b"-us",)),
    ("run", 0, (b"NRAL",)),
    ("run", 6, (b"AzFu", b"AzSe", b"AzCa", b"JQQJ9")),
    ("run", 30, (b"Q~",)),
    ("word", 31, (b":AA",)),
    ("word", 40, (b".atlasv1.",)),
)
"""Anchors in the middle of a token."""
