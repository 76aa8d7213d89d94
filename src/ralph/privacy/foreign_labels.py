"""Find secrets after a label in another language: `비밀번호: ...`, `пароль - ...`, `密码是 ...`.

Only values in Latin script count. In languages that write without blanks, other words may follow
the value directly: in `비밀번호는 Wint3r!9로`, the value is `Wint3r!9`.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record
from ralph.privacy.assignment_places import REST_LENGTH, is_attribute, is_call
from ralph.privacy.assignments import ESCAPED, QUOTED
from ralph.privacy.passwords import LITERAL, PROSE, SURE, is_password
from ralph.privacy.secret_values import FAIR, STRONG, grade

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.privacy.secret_values import Span

_LABEL = r"""(?x)(?:
    (?P<password>비밀[ ]?번호|패스워드|비번|암호|密码|密碼|口令|パスワード|暗証番号|пароль
        |contraseña|mot\ de\ passe|senha|hasło|lösenord|şifre|heslo|jelszó|mật[ ]khẩu|κωδικός
        |parolă|лозинка|รหัสผ่าน|सिसमा|पासवर्ड|סיסמה|كلمة[ ]المرور)(?:si|et)?
      |(?P<token>토큰|令牌|トークン|токен|jeton)
      |(?P<key>api[ ]?(?:키|キー)|비밀[ ]?키|시크릿[ ]?키|시크릿|密钥|密鑰|金鑰|秘密鍵
        |シークレット(?:キー)?|ключ|clé[ ]api|schlüssel|chiave|chave(?:[ ]de[ ]api)?|sleutel))
    (?:[ ]?[（(][^()（）\n]{0,24}[)）])?[*"'`\\\])）】」』]{0,5}+[ \t\u3000]{0,8}+
    (?:现在|現在|目前)?
    (?P<sep>[=＝：|은는이을를は是为為]|:(?!//)
        |(?:est|es|é|е|is|ist|è|är|je|jest|lautet|—)[ ]|(?<=[ ]))
    [:* \t\u3000「『]{0,8}+(?:(?:이제|지금|現在)[ ]?)?"""
_LATIN_VALUE = r"(?P<value>[!-~\u00c0-\u024f]{6,300}+)"
_LAST_LATIN_CHARACTER = "\u024f"
_LABEL_ASSIGNMENT_SIGNS = ("=", ":", "：", "＝")


@record
class _LabelledValue:
    """The value after a label, at `start` to `end`.

    `value` stops at an opening bracket. The span goes on if the bracket belongs to the secret.
    """

    value: str
    start: int
    end: int
    is_quoted: bool


def labelled_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield values in Latin script after a label in another language.

    Words in that language's script may follow the value directly.
    """
    for label in re.compile(_LABEL).finditer(lowered):
        labelled = _find_labelled_value(text, label.end())
        if labelled is None or is_call(labelled.value):
            continue
        is_sure = label["sep"] in _LABEL_ASSIGNMENT_SIGNS and _is_complete(text, labelled)
        if label["password"]:
            place = _labelled_place(text, label["sep"], labelled, is_sure=is_sure)
            if is_password(labelled.value, place):
                yield labelled.start, labelled.end, "password"
            continue
        weakest_grade = FAIR if is_sure else STRONG
        if grade(labelled.value) >= weakest_grade:
            kind = "token" if label["token"] else "secret key"
            yield labelled.start, labelled.end, kind


def _find_labelled_value(text: str, start: int) -> _LabelledValue | None:
    quoted = re.compile(QUOTED).match(text, start) or re.compile(ESCAPED).match(text, start)
    if quoted:
        return _LabelledValue(
            quoted["value"], quoted.start("value"), quoted.end("value"), is_quoted=True
        )
    unquoted = re.compile(_LATIN_VALUE).match(text, start)
    if unquoted is None:
        return None
    value = unquoted["value"].rstrip("\"'`,;.:|)]}>*")
    end = start + len(value)
    before_bracket = value.partition("(")[0]
    if before_bracket and ")" not in unquoted["value"]:
        # A bracket begins a remark if another script follows. Otherwise it belongs to the value.
        following = text[unquoted.end() : unquoted.end() + 1]
        if value.endswith("(") or following > _LAST_LATIN_CHARACTER:
            end = start + len(before_bracket)
        value = before_bracket
    return _LabelledValue(value, start, end, is_quoted=False)


def _is_complete(text: str, labelled: _LabelledValue) -> bool:
    """Return whether the value is all that follows the label on its line."""
    if is_attribute(labelled.value):
        return False
    if labelled.is_quoted:
        return True
    rest = text[labelled.end : labelled.end + REST_LENGTH].partition("\n")[0]
    rest = rest.strip(" \t\r*|,;.)」』】。、，")
    return not rest or rest.startswith(("#", "//"))


def _labelled_place(text: str, separator: str, labelled: _LabelledValue, *, is_sure: bool) -> int:
    if not separator.strip():
        return PROSE
    if not labelled.is_quoted and _continues_in_script(text, labelled.end):
        return PROSE
    if is_sure:
        return SURE
    return LITERAL


def _continues_in_script(text: str, end: int) -> bool:
    """Return whether a word in another script continues the value: `bcrypt12로`."""
    following = text[end : end + 2]
    if following <= _LAST_LATIN_CHARACTER or following == "です":
        return False
    return following[0] not in "「」』】。、，입이야"
