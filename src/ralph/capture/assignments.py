r"""Find values that their name makes a secret: `PASSWORD=`, `"apiKey": "..."`, `--token x`.

Every step is bounded, and regexes are compiled where they are needed: hooks load this module.
"""

from __future__ import annotations

import re

from ralph.capture import secret_prefilter as prefilter
from ralph.capture import secret_rules as rules
from ralph.capture.secret_values import (
    API_KEY,
    CHUNK,
    CONSTANTS,
    COPULA,
    FAIR,
    FINGERPRINT,
    KNOWN,
    LITERAL,
    NAMING,
    PROSE,
    SENTENCE,
    STRONG,
    SURE,
    UUID,
    SecretName,
    Span,
    grade,
    has_both_cases,
    is_basic_login,
    is_long_run,
    is_password,
    is_placeholder,
    is_public_name,
    is_random,
    is_wordy,
    meets,
    secret_name,
)
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_AFTER_WORD = r"""(?x)(?P<rest>[a-z0-9_.\-]{0,40}+(?:[ ]\d{1,2}(?=:[ ]))?)(?P<close>[*"'`\\\])]{0,5}+)
    (?:[ ](?:\[[^\]\n]{0,24}\](?=:)|\([^()\n]{0,24}\)(?=[ ]?[:=])|(?<=\w[ ])[\w:.-]{1,40}=[^<>\n]{1,120}(?=>)))?
    (?:(?P<pair>(?:[\s,"'\\+-]{1,60}+value["'\\]{0,4}[ ]{0,8}[:=][ ]{0,8}(?:""[ ]{0,4}(?=\n))?){1,2}
                |</(?:key|name)>\s{0,40}<(?:string|value)>\s{0,40})
      |(?P<encoded>(?:%22|%27)?%3[ad](?:%20|\+)?(?:%22|%27)?)
      |(?P<sep>\((?=["'`]))
      |[ \t]{0,24}+(?P<sign>=>|:=|\?=|={1,3}|!==?|:(?!:|//)|>\s{0,40}|,|\|
          |(?:(?:is|was|ist|est|es|lautet|war|è|é|är|jest|je|er|—|–|-)[ ]|\?[ ])(?=\S)
          |(?:은|는|이|가|は|が|：)[ ]?|(?<=[ \t]))[* \t]{0,24}+)"""
_DIGEST = r"[0-9a-f]{32,128}\b"
_CHOSEN = r"(?i)(?:jwt|session|cookie|webhook|signing|hs256)[_-]?(?:secret|key)$"
_IN_TAG = r"<(?:[\w:-]{1,40}\s(?:[^<>\n]{0,80}\s)?(?:name|key|id)=\\?[\"']|[\w-]{1,40}:)?\Z"
_TYPED = (
    r"[&\w<>\[\]|., ?*:]{1,40}+=[ \t]*(?=[\"'`\\])|[|>][-+]?[ \t]*\r?\n[ \t]+"
    r"|(?:[\w.$!]{1,60}(?:[(\[]\s?[\"'][\w.-]{1,60}[\"']\s?[)\]])?\s{0,4}(?:\|\||\?\?|\?:|or\b|\{)"
    r"|[\w.$]{1,60}\(\s?[\"'][\w.-]{1,60}[\"']\s?,)\s{0,4}(?=[\"'`])"
)
_QUOTED = (
    r"[brfuBRFULN@$]{0,2}(?P<quote>[\"'`])"
    r"(?P<value>(?=[^\n\r])(?!(?P=quote))[^\"'`\\\n\r]{0,300}+(?:(?:\\.|''(?=\w)|(?!(?P=quote))[\"'`])[^\"'`\\\n\r]{0,300}+){0,9})"
    r"(?P<shut>(?P=quote))?"
)
_ESCAPED = r"\\{1,3}[\"'](?P<value>[^\"'\\\n\r]{1,300})(?P<shut>\\)?"
_UNQUOTED = (
    r"(?P<value>(?=\S)[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+"
    r"(?:(?:&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\]))[^\s\"'`,;&|<>(){}\[\]\\]{0,300}+){0,9})"
)
_TO_BLANK = r"(?P<value>(?=\S)[^\s\\]{0,300}+(?:\\(?![nrt\"'])[^\s\\]{0,300}+){0,9})"
_IN_ELEMENT = r"(?P<value>[^<>\n]{3,200}[^<>\s])(?=\s{0,40}</)"
_URL_ENCODED = r"(?P<value>(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267c]|7d))(?:[^\s\"'`,;&<>(){}\[\]\\%]|%(?!2[267cC]|7[dD])){4,200})"
_LIST = r"\[\s{0,8}\\?[\"'](?P<value>[^\"'\\\n]{8,300}(?:\\?[\"']\s{0,40},\s{0,40}\\?[\"'][^\"'\\\n]{8,300}){0,40}+)"
_MORE = r"[^\s\"'`,;&|<>(){}\[\]\\]*"
_LABEL = r"""(?x)(?:(?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль|contraseña
        |mot\ de\ passe|senha|hasło|lösenord|şifre|heslo|jelszó|mật[ ]khẩu|κωδικός|parolă|лозинка|รหัสผ่าน|सिसमा
        |पासवर्ड|סיסמה|كلمة[ ]المرور)(?:si|et)?
      |(?P<token>토큰|令牌|トークン|токен|jeton)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|시크릿|密钥|密鑰|金鑰|秘密鍵|シークレット(?:キー)?
        |ключ|clé[ ]api|schlüssel|chiave|chave(?:[ ]de[ ]api)?|sleutel))
    (?:[ ]?[（(][^()（）\n]{0,24}[)）])?[*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+
    (?P<sep>[=＝：|은는이을를は是为為]|:(?!//)|(?:est|es|é|е|is|ist|è|är|je|jest|lautet|—)[ ]|(?<=[ ]))
    [:* \t\u3000「『]{0,8}+"""
_ASCII = r"(?P<value>[!-~\u00c0-\u024f]{6,300}+)"
_KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_FIRST_WORDS = (
    r"(?i)(?:\b(?:api|access|secret|private|auth|aws|client|unseal|recovery|master|encryption|signing|admin|root|account"
    r"|license|subscription|shared|service|personal|deploy|webhook|app|initial) ){1,2}\Z"
)
_SPACE_ASSIGNS = (
    r"(?:\bENV|\bARG|\bset[ \t]+-\w+|\bsetx(?:[ \t]+/\w)?|\bsetenv|#define|\bconfig(?:ure)?[ \t]+set"
    r"|\bsecrets?[ \t]+set|\b(?:operator|add)|\bconfig[ \t]+\S+)[ \t]+\S*\Z"
)
_LINE_START = (
    r"(?:\A|\\n)[ \t\r]*(?:[-+>*#$][ \t]*)?(?:(?:export|ENV|ARG|set(?:[ \t]+-\S*)?|-e)[ \t]+)?\Z"
)
"""Nothing before a name but blanks, a list mark, and `export` or the like."""
_SCHEME = rf"(?i)(?:{'|'.join(sorted(rules.SCHEMES, key=len, reverse=True))})[ :]+(?=[^\s:])"
_EXPRESSION = (
    r"[A-Za-z_]\w*=[\"']?[A-Za-z]\w*[\"']?\)?|[A-Za-z_]\w*(?:[-+*/%^&|][A-Za-z_(]\w*){1,6}"
)
_AFTER_USER = (
    r"\b(?i:user|username|login|account|benutzer|usuario|utilisateur|utente|ssid)\b[ :=]+[^\s,;({]{2,64}[,;/]?[ ]"
    r"(?:(?i:and|und|y|et|e|with|mit|avec|con)[ ])?\Z"
)
_PROSE_LINE = rf"\A[-*#>\s]{{0,8}}(?:[^\W\d_][\w'’./()-]{{0,40}},?[ ]){{1,12}}\Z|{_AFTER_USER}"
_SIBLING = r"(?im)^[-+ \t]*(?:[\w.-]*(?:user|username|login|name|id|host|hostname|server|port|database|dbname|email)\b)[ \t]*[:=][ \t]*[^\s,;(){}\"']+[ \t]*$|^\[[\w.-]+\]$"
"""A line of a config file beside which a plain word is a password."""
_CODE = frozenset(
    {
        "self",
        "this",
        "config",
        "settings",
        "req",
        "request",
        "os",
        "env",
        "process",
        "params",
        "ctx",
        "args",
        "options",
        "opts",
        "data",
        "user",
        "body",
        "form",
        "conn",
        "db",
        "password",
        "passwd",
        "pass",
        "pwd",
        "pw",
        "secret",
        "token",
        "credentials",
        "creds",
        "auth",
    }
)


def assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield every value assigned to the name of a secret that looks like one."""
    ends: set[int] = set()
    covered = 0
    current = ""
    for keyword, at in prefilter.assignment_keywords(text, lowered):
        covered, current = (covered, current) if keyword == current else (0, keyword)
        match = re.compile(_AFTER_WORD).match(lowered, at + len(keyword)) if at >= covered else None
        # Inside of a secret there is no key: looking there again would cost its length each time.
        if match and match.end() not in ends:
            ends.add(match.end())
            span = _assigned(text, at, match)
            if span is not None:
                covered = span[1]
                yield span
    if prefilter.has_label(lowered):
        yield from _labelled(text, lowered)


def _labelled(text: str, lowered: str) -> Iterator[Span]:
    """What follows a label in another language is Latin: words of that script may follow it."""
    for match in re.compile(_LABEL).finditer(lowered):
        quoted = re.compile(_QUOTED).match(text, match.end()) or re.compile(_ESCAPED).match(
            text, match.end()
        )
        value_match = quoted or re.compile(_ASCII).match(text, match.end())
        if value_match is None:
            continue
        value = value_match["value"] if quoted else value_match["value"].rstrip("\"'`,;.:|)]}>*")
        head = "" if quoted or ")" in value_match["value"] else value.partition("(")[0]
        # What an open bracket begins is a remark where another script follows, else a part of the value.
        is_remark = value[-1:] == "(" or text[value_match.end() : value_match.end() + 1] > "\u024f"
        end = value_match.start("value") + len(head if head and is_remark else value)
        value = head or value
        if _is_call(value):
            continue
        after = text[end : end + 40].partition("\n")[0].strip(" \t\r*|,;.)」』】。、，")
        assigned = match["sep"] in ("=", ":", "：", "＝")
        sure = (
            assigned
            and (quoted or not after or after.startswith(("#", "//")))
            and not _is_attribute(value)
        )
        if match["password"]:
            # A word of the same script directly after it belongs to it: `bcrypt12로`.
            follower = text[end : end + 2]
            joined = (
                follower > "\u024f"
                and follower[0] not in "「」』】。、，입이야"
                and follower != "です"
            )
            place = (
                PROSE
                if (joined and not quoted) or not match["sep"].strip()
                else SURE
                if sure
                else LITERAL
            )
            if is_password(value, place):
                yield value_match.start("value"), end, "password"
        elif grade(value) >= (FAIR if sure else STRONG):
            yield value_match.start("value"), end, "token" if match["token"] else "secret key"


def _assigned(text: str, at: int, match: re.Match[str]) -> Span | None:
    start = _key_start(text, at)
    key = text[start : match.end("rest")]
    separator = (match["sep"] or match["sign"] or "").strip()
    name = secret_name(key)
    before = text[max(0, start - 2) : start]
    is_chain = before == "::" or (before[-1:] == ":" and not text[match.end() - 1].isspace())
    # In `arn:aws:...:secret:name` and `"AWS::IAM::AccessKey": "..."` the word is one of a chain of names.
    if (
        name is None
        or "encryptedData:" in text[max(0, start - 400) : start]
        or (separator == ":" and is_chain)
    ):
        return None
    line = text[max(text.rfind("\n", max(0, start - 160), start) + 1, start - 160) : start]
    previous = re.compile(r"([^\W\d_]+) \Z").search(line) if line[-1:] == " " else None
    hashed = any(map(line.lower().__contains__, ("hash", "digest", "checksum")))
    hashed = hashed and re.compile(r"(?i)\b(?:hash|digest|checksum)\b").search(line) is not None
    if hashed and re.compile(_DIGEST).match(text, match.end()):
        return None
    if previous and key.isalpha() and is_public_name(previous[1].lower(), key.lower()):
        return None  # `next token: ...`
    typed = re.compile(_TYPED).match(text, match.end()) if separator in (*_ASSIGNS, "") else None
    begin = typed.end() if typed else match.end()
    at = _after_scheme(text, begin)
    is_filter = separator == "|" and (
        "{{" in line or match.end() - match.start("sign") < 2
    )  # `auth0|65f1c0`
    if is_filter or (at > begin and text[begin : begin + 5].lower() == "basic"):
        return None  # a filter of a template; a rule for the header decodes it
    listed = re.compile(_LIST).match(text, at) if text[at : at + 1] == "[" and not typed else None
    if listed:
        return (
            (*listed.span("value"), name.kind)
            if grade(re.split(r"[\"'\\]", listed["value"])[0]) == STRONG
            else None
        )
    quoted = None
    if separator != ">" and text[at : at + 3].lstrip("brfuBRFULN@$")[:1] in ("'", '"', "`", "\\"):
        quoted = re.compile(_QUOTED).match(text, at) or re.compile(_ESCAPED).match(text, at)
    whole = (
        separator in ("=", ":")
        and not match["close"]
        and bool(not line or re.compile(_LINE_START).search(line))
    )
    shape = (
        _URL_ENCODED
        if match["encoded"]
        else _TO_BLANK
        if whole
        else _IN_ELEMENT
        if separator == ">"
        else _UNQUOTED
    )
    value_match = quoted or re.compile(shape).match(text, at)
    if value_match is None:
        return None
    value = value_match["value"]
    end = value_match.end("value")
    if quoted:
        skipped = _after_scheme(value, 0)
        at = value_match.start("value") + skipped
        value = value[skipped:]
        place = _quoted_place(key, separator, match, line, typed=bool(typed))
    else:
        place = _unquoted_place(text, value, end, key, line, match, whole=whole)
        value = value.rstrip(
            ",;\"'" if whole else ".:,;" if place < SURE or name.kind != "password" else ",;"
        )
        value = (
            value.rstrip("/") if value.count("/") == 1 else value
        )  # `sed s/PASSWORD=.*/PASSWORD=x/`
        end = at + len(value)
    if place == NOWHERE or not _is_secret(value, place, key, name, quoted=bool(quoted)):
        return None
    if len(value) >= 280 and not (quoted and value_match["shut"]):
        more = re.compile(_MORE).match(text, end)
        end = more.end() if more else end
    return at, end, name.kind


NOWHERE = -1
_ASSIGNS = ("=", ":=", "=>", "?=", ":")


def _quoted_place(key: str, separator: str, match: re.Match[str], line: str, *, typed: bool) -> int:
    if separator == "(":
        owner, dot, method = key.lower().rpartition(".")
        is_setter = method.startswith(("set", "with", "use")) or (
            (dot or line[-1:] in (".", ":")) and len(method) < 11
        )
        return SURE if (is_setter and owner != "t") or key == "PASSWORD" else NOWHERE
    if typed or match["pair"] or match["encoded"] or separator in _ASSIGNS:
        return SURE
    if separator == "" and (
        key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line) or line.endswith("(:")
    ):
        return SURE
    if separator == ",":
        return (
            SURE
            if line.rstrip("'\" ").endswith("define(")
            else LITERAL
            if match["close"]
            else NOWHERE
        )
    if separator == ">":
        return SURE if re.compile(_IN_TAG).search(line) else NOWHERE
    return NOWHERE if separator == "" and match["close"] else LITERAL


def _unquoted_place(
    text: str, value: str, end: int, key: str, line: str, match: re.Match[str], *, whole: bool
) -> int:
    """It may be a variable or a word of a sentence."""
    separator = (match["sep"] or match["sign"] or "").strip()
    if whole:
        value = value.rstrip(",;")
    identifier = _is_identifier(value)
    rest = text[end : end + 3]
    if _is_call(value) or value[:2] == "--" or any(joint in value for joint in ("->", "::")):
        return NOWHERE
    if separator in ("(", "==", "===", "!=", "!==", ",") or (
        rest[:1] in ("(", "[", "{", "<") and rest[:2] != "</"
    ):
        return NOWHERE
    after = text[end : end + 40].partition("\n")[0].strip("\"' \t\r")
    alone = not after or after.startswith(("#", "//", "\\n"))
    if match["pair"] or match["encoded"] or separator == ">":
        return (
            SURE
            if match["pair"] or match["encoded"] or re.compile(_IN_TAG).search(line)
            else NOWHERE
        )
    if separator == "":
        is_option = key.startswith("-") or re.compile(_SPACE_ASSIGNS).search(line)
        plain = value.isalpha() and value.islower() and not (alone or after[0] in "-&|;>)")
        place = LITERAL if re.compile(_AFTER_USER).search(line) else PROSE
        return (PROSE if plain else SURE) if is_option else NOWHERE if match["close"] else place
    if separator not in ("=", ":"):
        return (
            SURE
            if separator in _ASSIGNS and not identifier
            else LITERAL
            if separator == "|"
            else COPULA
        )
    tight = (
        separator == "="
        and match.end("sign") == match.end()
        and match.start("sign") == match.end("rest")
    )
    opening = max(line.rfind("("), line.rfind("{"))
    in_call = opening > max(line.rfind(")"), line.rfind("}"))
    in_call = in_call and not any(line.count(quote, opening + 1) % 2 for quote in "\"'")
    trailing = text[end - 1 : end] in (",", ";") and whole
    if not whole:
        if separator == ":" and re.compile(_PROSE_LINE if alone else _AFTER_USER).search(line):
            return LITERAL  # `staging password: blue-Kettle`
        is_listed = tight and not in_call and not match["close"] and not _is_attribute(value)
        is_value = not identifier and not re.compile(_EXPRESSION).fullmatch(value)
        if is_listed or (is_value and (tight or separator == ":")):
            return SURE if is_listed or tight else COPULA
        chosen = ("_" in value and has_both_cases(value)) or (
            not in_call and re.compile(r"(?i)\b(?:user|login)\w*[:=]").search(line)
        )
        return COPULA if not identifier or (chosen and any(map(str.isdigit, value))) else STRICT
    if trailing or not identifier:
        return (
            STRICT
            if trailing and identifier
            else SURE
            if (alone or tight) and not trailing
            else COPULA
        )
    if not alone:
        return SURE if tight and rest[:1] == " " else STRICT
    sibling = re.compile(_SIBLING).search(text[max(0, end - 240) : end + 160])
    is_config = sibling is not None and _CODE.isdisjoint(value.lower().split("."))
    if re.compile(r"\s*\)").match(text, end) or (_is_attribute(value) and not is_config):
        return STRICT
    if (key.isupper() and CONSTANTS.isdisjoint(key.lower().split("_"))) or tight:
        return SURE
    if any(map(str.isdigit, value)) and not (
        separator == "=" and has_both_cases(value) and value[0].islower()
    ):
        return SURE
    is_word = (
        separator == ":"
        and len(value) > 7
        and value.islower()
        and value.isalpha()
        and meets("plain", value)
    )
    is_word = is_word and not re.compile(r"[\s;,]*[)}\]]").match(
        text, end
    )  # the last member of an object in code
    if is_word or (is_config and (value.islower() or "." in value or grade(value) == FAIR)):
        return SURE
    return LITERAL if separator == ":" and value.count("_") > 1 else STRICT


STRICT = -2  # a variable, most likely: only what a program made counts


def _is_secret(value: str, place: int, key: str, name: SecretName, *, quoted: bool) -> bool:
    if "[redacted" in value or ("=" in value and re.compile(r"[A-Z_]{4,40}=").match(value)):
        return False
    if name.kind == "password":
        if place == STRICT:
            return grade(value) >= (FAIR if is_long_run(value) else STRONG)
        words = key.lower().replace("-", "_").split("_")
        plain = not any(map(str.isdigit, value)) and not is_long_run(value)
        if plain and not (
            CONSTANTS.isdisjoint(words) and (key.upper() != "PASS" or not key[0].isupper())
        ):
            return False  # `RESET_PASSWORD = "resetting"`, `PASS: test-names`
        if key.lower() == "pass" and (
            (value.isdigit() and len(value) < 9) or (key.isupper() and "/" in value)
        ):
            return False
        if (
            quoted
            and "phrase" in key.lower()
            and value.count(" ") > 1
            and not is_placeholder(value)
        ):
            parts = value.lower().split()
            if NAMING.isdisjoint(parts) and 2 * len(SENTENCE.intersection(parts)) <= len(parts) + 1:
                return True  # `BORG_PASSPHRASE="the kettle is singing again"`
        mixed = quoted and has_both_cases(value) and any(map(str.isdigit, value[:-1]))
        is_name = (
            not mixed
            and _is_identifier(value)
            and secret_name(value)
            and not re.compile(r"\d\D+\d").search(value)
        )
        return (not is_name or is_long_run(value)) and is_password(value, place)
    if name.kind == "credential" and (
        is_basic_login(value) or re.compile(r"[0-9a-f]{40}").fullmatch(value)
    ):
        return not value.isalnum() or is_basic_login(value)
    if place == PROSE and not re.compile(UUID).fullmatch(value):
        return (
            len(value) >= 20
            and key.count(".") + key.count("-") < 2
            and grade(value) == STRONG
            and is_random(value)
        )
    is_run = is_long_run(value)
    if is_run and "sign" in key.lower() and re.compile(FINGERPRINT).fullmatch(value):
        return False
    if (
        _is_identifier(value)
        and secret_name(value)
        and not (is_run or (place == SURE and is_random(value)))
    ):
        return False
    if (
        place == SURE
        and key.isupper()
        and 5 < len(value) < 9
        and has_both_cases(value)
        and not is_placeholder(value)
    ):
        return any(map(str.isdigit, value)) and not is_wordy(value)  # `SECRET=Zx9kLm`
    if name == API_KEY and not key.isupper() and not (has_both_cases(value) or value.isalnum()):
        return False
    if place != SURE and grade(value) == FAIR and re.compile(UUID).fullmatch(value):
        return name.weakest_grade == FAIR
    strange = key.isupper() and KNOWN.isdisjoint(
        re.compile(CHUNK).findall(value.lower())
    )  # `APP_SECRET=kettle_drum_9`
    mixed = any(map(str.isdigit, value)) and (strange or (has_both_cases(value) and len(value) > 8))
    chosen = (mixed or (quoted and " " in value and value.islower())) and name.kind.startswith(
        "secret"
    )
    if (
        (chosen or re.compile(_CHOSEN).search(key))
        and place >= COPULA
        and is_password(value, min(place, LITERAL))
    ):
        return True  # `secret: "keyboard-Cat-2025"`
    return grade(value) >= (name.weakest_grade if place == SURE or is_run else STRONG)


def _key_start(text: str, at: int) -> int:
    """Over its own characters, and over a word before `Access Key` and the like."""
    floor = max(0, at - 64)
    at = floor + len(text[floor:at].rstrip(_KEY_CHARACTERS))
    words = (
        re.compile(_FIRST_WORDS).search(text, floor, at)
        if text[at - 1 : at] == " " and text[at] != "-"
        else None
    )
    return words.start() if words else at


def _after_scheme(text: str, at: int) -> int:
    if not text[at : at + 8].lower().startswith(rules.SCHEMES):
        return at
    match = re.compile(_SCHEME).match(text, at, at + 48)
    return match.end() if match else at


def _is_call(value: str) -> bool:
    name = value.partition("(")[0].partition("[")[0].rstrip("!?")
    return ("(" in value or "[" in value) and _is_identifier(name)


def _is_identifier(value: str) -> bool:
    """A variable, also of an object: `$this->token`, `a?.b`, `Some::key`."""
    for joint in ("?.", "->", "::"):
        value = value.replace(joint, ".")
    return all(part.replace("$", "_").isidentifier() for part in value.split("."))


def _is_attribute(value: str) -> bool:
    return "." in value and _is_identifier(value) and value[0].islower()
