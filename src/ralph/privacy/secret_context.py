"""Find secrets by the words before them, whatever the syntax.

Two kinds of values are found this way. A run is an unbroken sequence of characters. If a program
generated it (minted it), it is a secret if the nearest telling word before it names a secret
(`key`) rather than something public (`commit`). That word is on the same line, on the line above,
or at the head of the column. A chosen password is a word with a symbol inside, as people choose
them. It counts after a word about a login, such as `user`.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record, secret_prefilter, secret_rules
from ralph.privacy import passwords, secret_names, secret_values

if TYPE_CHECKING:
    from collections.abc import Iterator

_PUBLIC = frozenset(secret_rules.PUBLIC_WORDS.split())
_NEAR = frozenset(secret_rules.NEAR_WORDS.split())
_VENDORS = frozenset(secret_rules.VENDORS.split())
_LOGIN = frozenset(secret_rules.LOGIN_WORDS.split())
_LINKING = frozenset(
    {
        "is",
        "was",
        "are",
        "be",
        "to",
        "as",
        "the",
        "a",
        "use",
        "one",
    }
)
_WEAK = frozenset(
    {
        "api",
        "auth",
        "webhook",
        "license",
        "licence",
        "pass",
    }
)
"""Words that are too weak to name a secret if the run may be a digest.

This applies only in a sentence about something public.
"""

_PATH = r"(?:[a-z0-9_-]{0,24}/)+(?=[A-Za-z0-9_-]{16})"
"""A path that precedes a run but is not part of it."""
_REST_OF_RUN = r"={0,2}(?:[.~][A-Za-z0-9_-]{6,})*"
_DIGEST_AFTER = (
    r"(?i)[\"'`)\s]{0,3}\(?(?:md5|sha|hash|digest|commit|fingerprint)|\.{2,3}[0-9a-f]{7}"
)


def context_secrets(text: str, lowered: str) -> Iterator[secret_values.Span]:
    """Yield the spans of runs and words that only the text before them reveals as secrets."""
    yield from _minted_secrets(text, lowered)
    yield from _chosen_passwords(text, lowered)


# --- generated runs -------------------------------------------------------------------------------

_HEX = r"[0-9a-f]+|[0-9A-F]+"
_MIN_HEX_LENGTH = 32
_UPPERCASE_HEX = r"[0-9A-F]{32,}"
_UPPERCASE_KEY = r"[A-Z2-7]{16,64}|[A-Z0-9]{20,64}"
_PLAIN_WORD = r"[A-Z]?[a-z]{3,}"
_CLASS_NAME = (
    r"(?:Key|Token|Secret|Hash|Error|Exception|Factory|Service|Handler|Provider|Config|Type)s?\Z"
)
_STRIPE_ID = (
    r"(?:evt|sub|pi|cus|ch|in|pm|acct|txn|price|seti|req)_[A-Za-z0-9]{14,}|prod_[A-Za-z0-9]{14}"
)
_MIN_RANDOM_PIECE = 20
"""The length from which a piece of a run is judged on its own."""
_UUID_HYPHENS = 4
_UUID_LENGTH = 36
_DIGEST_LENGTHS = (40, 64)
_NAME_OF_DIGEST = r"\A(?:[a-z]{2,12}-){1,4}(?=[0-9a-f]{32,}\Z)"
"""What a digest in the key of a cache belongs to: `linux-pip-`."""


@record
class _Run:
    """A generated run, and what else it could be."""

    text: str
    is_hex: bool
    is_uuid: bool
    is_digest: bool


def _minted_secrets(text: str, lowered: str) -> Iterator[secret_values.Span]:
    last_end = 0
    for start, end in sorted(secret_prefilter.minted_runs(text, lowered)):
        if start < last_end:
            continue
        path = re.compile(_PATH).match(text, start, end)
        if path:
            start = path.end()
        run = text[start:end]
        if not _is_minted(run) or re.compile(_DIGEST_AFTER).match(text, end):
            continue
        if _has_telling_word(text, start, run):
            last_end = end
            rest = re.compile(_REST_OF_RUN).match(text, end)
            if rest:
                last_end = rest.end()
            yield start, last_end, "secret key"


def _is_minted(run: str) -> bool:
    """Return whether a program generated the run, and the run is neither a name nor an id."""
    if len(run) < _MIN_HEX_LENGTH and re.fullmatch(_HEX, run):
        return False
    if run.isupper() and not re.fullmatch(_UPPERCASE_HEX, run):
        return re.fullmatch(_UPPERCASE_KEY, run) is not None and secret_values.is_random(run)
    pieces = re.split(r"[-_/+]", run)
    longest_piece = max(pieces, key=len)
    is_in_pieces = len(longest_piece) < _MIN_RANDOM_PIECE
    if is_in_pieces and any(re.fullmatch(_PLAIN_WORD, piece) for piece in pieces):
        return False  # a name: `auth-service-7d9f8b6c5d`
    if _is_name_or_id(run):
        return False
    weakest_grade = secret_values.STRONG
    if run.count("-") == _UUID_HYPHENS:
        weakest_grade = secret_values.FAIR
    if secret_values.grade(run) < weakest_grade:
        return False
    if is_in_pieces:
        return secret_values.is_random(run)
    return secret_values.is_random(longest_piece)


def _is_name_or_id(run: str) -> bool:
    if re.search(_CLASS_NAME, run):
        return True
    if run.startswith("eyJ") and secret_values.decode_text(run):
        return True  # the header of a JWT
    return re.fullmatch(_STRIPE_ID, run) is not None


def _describe_run(run: str) -> _Run:
    number = re.sub(_NAME_OF_DIGEST, "", run)
    is_hex = re.fullmatch(_HEX, number) is not None
    return _Run(
        text=run,
        is_hex=is_hex,
        is_uuid=run.count("-") == _UUID_HYPHENS and len(run) == _UUID_LENGTH,
        is_digest=is_hex and len(number) in _DIGEST_LENGTHS and run.islower(),
    )


# --- the text before a run ------------------------------------------------------------------------

_LINK = r"(?:[:=>→(\[,|]|(?<!\w)(?:is|was|be|to|as|es|est|ist|lautet|é|è))[\s\"'`*«“]*\Z"
"""A sign or word that links the words before it to the run."""
_NO_LABEL = r"[\s>*•|`\"'+#/-]*(?:\d+[.)]\s*)?"
"""The beginning of a line with no label before the run: a quote, bullet or list number."""
_KEY_BELOW_ID = r"\w_id[\"']?[:=][^\n]{0,80}\n[-\s\"']*key[\"']?[:=][\s\"']*\Z"
_LINE_END = r"[\"'`,;.)=\s*]*(?:\n|\Z)"
_COLUMN_TITLE = r"\S+(?: \S+)*"
_MAX_LABEL_LINE_LENGTH = 200
_NOT_BEFORE_RUN = ("/", ".", "[", "@", "#", "$")
"""Characters that make the run after them part of a path, an attribute or an element."""


def _has_telling_word(text: str, start: int, run: str) -> bool:
    """Return whether the text before a run says that it is a secret."""
    floor = max(0, start - secret_prefilter.MAX_WORD_DISTANCE)
    line_start = text.rfind("\n", floor, start) + 1 or floor
    before = text[line_start:start]
    if before.endswith("/") and "://" in before:
        return _is_hook_url(before)
    if _is_part_of_something(before) or "encryptedData:" in text[floor:start]:
        return False
    described = _describe_run(run)
    if described.is_uuid and _is_key_of_record(text[floor:start]):
        return False
    if re.fullmatch(_NO_LABEL, before):
        if not re.compile(_LINE_END).match(text, start + len(run)):
            return False
        return _line_above_says_secret(text[floor:line_start], described)
    if _says_secret(before, described, is_linked=re.search(_LINK, before) is not None):
        return True
    return before.endswith("  ") and _is_in_secret_column(text, line_start, start)


def _is_key_of_record(before: str) -> bool:
    """Return whether a UUID is the key of a record: `key: ...` below `tenant_id: 7`."""
    return re.search(_KEY_BELOW_ID, before) is not None


def _is_hook_url(before: str) -> bool:
    url = before.rpartition("://")[2]
    return "hook" in url and _PUBLIC.isdisjoint(re.split(r"\W", url))


def _is_part_of_something(before: str) -> bool:
    if before.endswith(_NOT_BEFORE_RUN) or before.endswith(";base64,"):
        return True
    return "ENC[" in before or "ENC(" in before or "ache" in before  # encrypted, or a cache key


def _line_above_says_secret(above: str, run: _Run) -> bool:
    lines = [line for line in above.split("\n") if re.search(r"\w.*\w", line)]
    if not lines or len(lines[-1]) > _MAX_LABEL_LINE_LENGTH:
        return False
    return _says_secret(lines[-1], run, is_linked=True)


def _is_in_secret_column(text: str, line_start: int, start: int) -> bool:
    """Return whether the run is in a column whose title names a secret.

    The columns of the table are aligned with blanks.
    """
    column = start - line_start
    above = text[max(0, line_start - secret_prefilter.MAX_TITLE_DISTANCE) : line_start]
    for line in reversed(above.split("\n")):
        title = re.compile(_COLUMN_TITLE).match(line, column)
        if title is None or line[column - 1 : column] not in ("", " "):
            continue
        if secret_names.secret_name(title[0]):
            return True
    return False


# --- the nearest telling word ---------------------------------------------------------------------

_SENTENCE_END = r"[.;!?]\s|\s[|&]{1,2}\s|\[redacted: [a-z0-9 ]+\]"
_NAME = r"[^\W_](?:[\w.-]*\w)?"
_ONE_TIME_PASSWORD = r"(?i)\b(?:2fa|mfa|t?otp|authenticator)"  # noqa: S105 - a regex
_HASH_WORD = r"(?i)\b(?:hash|digest|checksum)\b"
_NAMED_FOR_SOMETHING = (
    r"(?i)\b(?:password|passwort|passphrase|secret|token|api[ _-]?key"
    r"|(?:access|signing|master|deploy|license) key)s?"
    r" (?:for|of|to|on|von|für) [\w'@. -]+(?:\([^()]{0,80}\))?[*`\"]{0,3}(?: is)?[:=]?[\s*`\"']*\Z"
)
"""A secret named together with its purpose: `the token for the build server: ...`."""
_PUBLIC_SUBJECT = (
    r"(?i)\b(?:commit|build|image|revision|trace|request|id|csrf|next|page|public|cache)\b"
)
_ENCRYPTED_WITH = r"(?i)\bencrypted (?:with|by|under|using)\b"
"""Before a UUID, this names the key of a key service by its id."""
_FOR_SOMETHING = r" (?:for|of) \w.* "
_MAX_DISTANCE = 8
"""The most words allowed between the telling word and the run."""
_MIN_OTHER_SECRET_LENGTH = 16
_SIGNATURE_ALGORITHMS = ("dsa", "ecdsa", "eddsa", "rsa")


def _says_secret(before: str, run: _Run, *, is_linked: bool) -> bool:
    """Return whether the last sentence before a run says that it is a secret."""
    sentence = re.split(_SENTENCE_END, before)[-1]
    if run.text.isupper() and re.search(_ONE_TIME_PASSWORD, sentence):
        return True
    if re.search(_HASH_WORD, sentence):
        return False
    if run.is_uuid and re.search(_ENCRYPTED_WITH, sentence):
        return False
    if is_linked and _names_secret_for_something(sentence):
        return True
    has_vendor = not _VENDORS.isdisjoint(sentence.lower().split())
    if has_vendor and is_linked and " account" in sentence and not run.is_uuid:
        return True  # `OpenWeatherMap account of the team: ...`
    max_distance = _MAX_DISTANCE
    if run.is_uuid and not has_vendor:
        max_distance = 0
    return _nearest_word_says_secret(sentence, run, max_distance, is_linked=is_linked)


def _names_secret_for_something(sentence: str) -> bool:
    if re.search(_NAMED_FOR_SOMETHING, sentence) is None:
        return False
    return re.search(_PUBLIC_SUBJECT, sentence) is None


def _nearest_word_says_secret(
    sentence: str, run: _Run, max_distance: int, *, is_linked: bool
) -> bool:
    """Walk back through the words before a run until one of them decides."""
    names = list(re.finditer(_NAME, sentence))
    distance = -1
    has_crossed_secret = False
    for number in range(len(names) - 1, -1, -1):
        name = names[number]
        words = _telling_words(sentence, name)
        if not words:
            continue
        word = words[-1]
        distance += 1
        if distance == 0 and _calls_vendor(sentence, name, words):
            return True
        if distance > max_distance or word in _PUBLIC:
            return False
        if _is_other_secret(name[0]):
            if distance > 1 or has_crossed_secret:
                return False
            # The words before another secret may name this run as well: `api ... / app ...`.
            distance = -1
            has_crossed_secret = True
        if word in _VENDORS:
            return distance < 2 or is_linked
        if _names_secret(word):
            before = _word_before(names, number, words)
            if not _is_secret_kind(before, word, run) or _is_weak(word, sentence, run):
                return False
            if is_linked or _is_linked_by_words(sentence, name, before, run):
                return True
            return _needs_no_link(run, distance)
    return False


def _calls_vendor(sentence: str, name: re.Match[str], words: list[str]) -> bool:
    """Return whether a run is the first argument of a vendor's client: `cohere.Client("...")`."""
    is_call = sentence[name.end() : name.end() + 1] == "("
    return is_call and not _VENDORS.isdisjoint(words)


def _telling_words(sentence: str, name: re.Match[str]) -> list[str]:
    """Return the words in a name, or [] if the name says nothing about the run."""
    character_before = sentence[max(0, name.start() - 1) : name.start()]
    character_after = sentence[name.end() : name.end() + 1]
    if "/" in (character_before, character_after):
        return []  # part of a path
    if not name[0].isascii():
        words = [name[0].lower()]
    else:
        words = secret_names.name_words(name[0])
    if words and (words[-1] in secret_names.NEUTRAL or words[-1] in _LINKING):
        return []
    return words


def _is_other_secret(name: str) -> bool:
    return (
        len(name) >= _MIN_OTHER_SECRET_LENGTH and secret_values.grade(name) == secret_values.STRONG
    )


def _names_secret(word: str) -> bool:
    if word in _NEAR or word.endswith(("token", "key", "secret", "passwort")):
        return True
    return not word.isascii() and any(label in word for label in secret_rules.LABELS)


def _word_before(names: list[re.Match[str]], number: int, words: list[str]) -> str:
    """Return the word before the last word of a name, or "".

    If the name has only one word, that is the last word of the name before it.
    """
    if len(words) > 1:
        return words[-2]
    if number == 0:
        return ""
    previous_words = secret_names.name_words(names[number - 1][0])
    if not previous_words:
        return ""
    return previous_words[-1]


def _is_secret_kind(before: str, word: str, run: _Run) -> bool:
    """Return whether two words together name a secret.

    `cache key` does not. A plain `key` does not either if the run is a hexadecimal number, because
    that may be anything.
    """
    if secret_names.is_public_name(before, word) or word.startswith("pub"):
        return before == "primary" and secret_values.has_both_cases(run.text)
    if word != "key" or not run.is_hex:
        return True
    is_key_id = run.text.isupper() and before in _SIGNATURE_ALGORITHMS  # as gpg prints it
    return bool(before) and not is_key_id


def _is_weak(word: str, sentence: str, run: _Run) -> bool:
    """Return whether a word such as `api` says too little, because the run may be a digest."""
    if word not in _WEAK or not run.is_digest:
        return False
    return not _PUBLIC.isdisjoint(sentence.lower().split())


def _is_linked_by_words(sentence: str, name: re.Match[str], before: str, run: _Run) -> bool:
    if run.is_uuid and before:
        return True
    return re.compile(_FOR_SOMETHING).match(sentence, name.end()) is not None


def _needs_no_link(run: _Run, distance: int) -> bool:
    if run.is_uuid:
        return False
    return distance == 0 or not run.is_digest


# --- chosen passwords -----------------------------------------------------------------------------

_CHOSEN = (
    r"(?=.*[a-z].*[a-z])(?=.*[A-Z0-9])(?![\w.]+#\d+\Z|.*@\w+\.|.*://)"
    r"[A-Za-z0-9][A-Za-z0-9!#&*^@$%?+_.~-]{6,39}[A-Za-z0-9!?$*]"
)
_AFTER_MAIL_ADDRESS = r"@[\w-]+\.\w+[`\"']? / \Z"
_LOGIN_DISTANCE = 8
"""How many words before the password are searched for one about a login."""
_BEFORE_PASSWORD = (" ", ":", "`", "(", '"', "'")


def _chosen_passwords(text: str, lowered: str) -> Iterator[secret_values.Span]:
    for start, end in secret_prefilter.chosen_words(text, lowered):
        line = secret_prefilter.login_line(lowered, start)
        if "://" in line:
            continue
        value = text[start:end].rstrip(".,;:")
        place = passwords.PROSE if line.endswith(" / ") else passwords.COPULA
        if not _follows_login(line) or not re.fullmatch(_CHOSEN, value):
            continue
        if passwords.is_password(value, place):
            yield start, start + len(value), "password"


def _follows_login(line: str) -> bool:
    if line.endswith(_BEFORE_PASSWORD):
        words = re.findall(r"[^\W_]+", line)
        if not _LOGIN.isdisjoint(words[-_LOGIN_DISTANCE:]):
            return True
    return re.search(_AFTER_MAIL_ADDRESS, line) is not None
