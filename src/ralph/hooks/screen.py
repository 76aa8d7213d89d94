r"""Whether a payload could hold anything that the rules of `capture/privacy` would take out, told from its bytes.

The rules need `re` and know what a secret looks like; both cost more than the whole rest of a recording
event. This asks less: is there a literal that every finding of a rule must have, and beside it room for a
value? So it may only be wrong in one direction, and then the full path decides. It reads the JSON as it
came: letters, digits and most signs stand for themselves at every depth of quoting, `"` and line ends have
backslashes before them. What could hide a letter (`\u0070`, `\/`, `K` for the Kelvin sign) is suspicious
as such; only what colours a terminal is let through, and then looked at twice: with the colours as gaps, and
without them, since the rules take them out; so is a line that goes on after a backslash. Names of secrets are in
`named`, beginnings of tokens in `anchors`. `tests/hooks/test_screen.py` proves over made and mutated payloads, and
all of the golden secrets, that nothing passes which the rules would change, and that ordinary payloads do.
"""

from ralph.hooks.anchors import INSIDE, LEADING, SIGNS
from ralph.hooks.named import LOWER_LOGIN, assigned, labelled

_DISGUISED = ("İ", "ı", "ſ", "\u212a", *"ｐｒｉｖａｔｅＰＲＩＶＡＴＥ")
"""Signs that the rules take for ASCII letters."""
_UNSEEN = (
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2065"
    "\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e"
)
"""Signs that may stand inside of a word: the rules look at the text without them."""
_RUN = SIGNS["run"]
_NOT_RUN = bytes(sign for sign in range(256) if sign not in _RUN)
_BREAK_RUNS = bytes.maketrans(_NOT_RUN, b"\n" * len(_NOT_RUN))
_WORD = SIGNS["word"]
_UPPER, _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789"
_LOWER = _UPPER.lower()
_CODED = (b"\\u", b"\x7f", b"\\e[", b"^[[")


def suspicious(payload: bytes) -> bool:
    """Whether the full rules must look at this payload before it may be kept."""
    found = _uncoloured(payload)
    if not found:
        return True
    for raw, joints in found:
        veiled, continued = _veiled(raw), _continued(raw, joints)
        if _suspect(raw, joints) or (veiled and _suspect(veiled, joints)) or (continued and _suspect(*continued)):
            return True
    return False


def _suspect(raw: bytes, joints: "set[int]") -> bool:
    """Whether anything is in these bytes; at a joint a token may begin, whatever stands before it."""
    unescaped = raw.replace(b"\\\\", b"")
    coded = any(sign in raw for sign in _CODED) or any(sign in unescaped for sign in (b"\\/", b"\\b", b"\\f"))
    if coded or _lone_return(raw):
        return True
    if not raw.isascii():
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return True
        if any(sign in text for sign in _DISGUISED) or _hidden(raw, text) or labelled(text.lower()):
            return True
    lowered = raw.lower()
    return (
        _private(raw, lowered)
        or _tokens(raw, joints)
        or _logins(raw, lowered)
        or _lines(raw, lowered)
        or assigned(raw, lowered)
    )


def _hidden(raw: bytes, text: str) -> bool:
    """Whether something that nobody sees could split a word."""
    if any(sign in text for sign in _UNSEEN) or any(raw[at + 1] < 0xA0 for at in _places(raw, b"\xc2")):
        return True
    return not all(_picture(before[-1:]) for before in text.split("\ufe0f")[:-1])


def _picture(sign: str) -> bool:
    """Whether a sign may have another look chosen for it, as pictures do; a letter may not."""
    return "\u2100" <= sign <= "\u2bff" or "\u3000" <= sign <= "\ufdff" or sign >= "\U00010000"


def _lone_return(raw: bytes) -> bool:
    """Whether a carriage return stands alone: it takes the writer back over what was seen before."""
    for at in _places(raw, b"\\r"):
        behind = raw[at + 2 : at + 12]
        if behind[:1] != b"\\" or behind.lstrip(b"\\")[:1] != b"n":
            return True
    return False


def _continued(raw: bytes, joints: "set[int]") -> "tuple[bytes, set[int]] | None":
    r"""The payload without each `\` at the end of a line, and without signs as `\\b`; None if there is none.

    With it go blanks behind a `=`, for the value of a name may stand on the next line. The joints are where it was.
    """
    gaps, at = [], raw.find(b"\\\\")
    while at >= 0:
        end = _run_end(raw, at)
        behind = _gap_end(raw, at, end)
        if behind:
            gaps.append((at, behind))
        at = raw.find(b"\\\\", behind or end)
    if not gaps:
        return None
    pieces, found, last, gone = [], set[int](), 0, 0
    waiting = sorted(joints, reverse=True)
    for start, end in [*gaps, (len(raw), len(raw))]:
        while waiting and waiting[-1] <= end:
            found.add(min(waiting.pop(), start) - gone)
        pieces.append(raw[last:start])
        found.add(start - gone)
        last, gone = end, gone + end - start
    return b"".join(pieces), found


def _run_end(raw: bytes, at: int) -> int:
    """Where the backslashes end that begin here."""
    while raw[at : at + 1] == b"\\":
        at += 1
    return at


def _gap_end(raw: bytes, at: int, end: int) -> int:
    """Where a continued line goes on, or what follows a sign that is not seen; 0 when these backslashes are others."""
    sign = raw[end : end + 1]
    if sign and sign in b"bf":
        return end + 1
    if end - at < 3 or not sign or sign not in b"nr":
        return 0
    behind = end + 1
    if sign == b"r":
        behind = _run_end(raw, end + 1) + 1
        if behind < end + 3 or raw[behind - 1 : behind] != b"n":
            return 0
    while raw[at - 1 : at] == b"=" and raw[behind : behind + 1] in (b" ", b"\\"):
        tab = _run_end(raw, behind)
        if tab > behind and raw[tab : tab + 1] != b"t":
            break
        behind = tab + 1
    return behind


def _veiled(raw: bytes) -> bytes:
    r"""The payload with blanks where a copied colour (`[32m`) or a sign as `\\x3d` stands, or nothing if none does."""
    kept = bytearray(raw)
    for at in _places(raw, b"m") if b"[" in raw else ():
        start = len(raw[max(0, at - 20) : at].rstrip(b"0123456789;")) + max(0, at - 20)
        if start < at and raw[start - 1 : start] == b"[":
            kept[start - 1 : at + 1] = b" " * (at - start + 2)
            if raw[start - 3 : start - 1] == b"^[" or raw[start - 3 : start - 1] == b"\\e":
                kept[start - 3 : start - 1] = b"  "
    for at in _places(raw, b"\\x"):
        kept[at : at + 4] = b" " * len(raw[at : at + 4])
    return bytes(kept) if kept != raw else b""


_ESCAPES = (b"\\u001b", b"\\u001B", b"\\x1b", b"\\x1B", b"\\033")
_MOST_SLASHES = 8


def _uncoloured(payload: bytes) -> "tuple[tuple[bytes, set[int]], ...]":
    r"""The payload with a gap for each colour, as long as it was, and without the colours; nothing for other codes.

    A colour is an escape, `[`, numbers and a letter, at every depth of quoting: `\u001b[32m`, `\\033[0;1m`. The
    joints are where a colour was.
    """
    raw = payload.replace(b"\xc2\x9b", b"\x1b[") if b"\xc2\x9b" in payload else payload
    for escape in _ESCAPES:
        for slashes in range(_MOST_SLASHES - 1, -1, -1) if escape in raw else ():
            found = b"\\" * slashes + escape
            raw = raw.replace(found, b"\x1b" * len(found))
    if b"\x1b" not in raw:
        return ((payload, set()),)
    first, *pieces = raw.split(b"\x1b")
    gaps, without, joints, seen = [first], [first], set[int](), len(first)
    for piece in pieces:
        size = _code_length(piece)
        if size < 0:
            return ()
        gaps.append(b"\x1b" * size + piece[size:])
        without.append(piece[size:])
        joints.add(seen)
        seen += len(piece) - size
    return (b"\x1b".join(gaps), set()), (b"".join(without), joints)


def _code_length(piece: bytes) -> int:
    """How much of what follows an escape belongs to it; -1 for titles, links and other things of terminals."""
    if not piece:
        return 0
    if piece[:2] == b"(B":
        return 2
    if piece[:1] != b"[":
        return -1
    first = 2 if piece[1:2] and piece[1:2] in b"=>?" else 1
    numbers = piece[first : first + 65]
    letter = first + len(numbers) - len(numbers.lstrip(b"0123456789;:"))
    return letter + 1 if letter <= first + 64 and piece[letter : letter + 1].isalpha() else -1


_BEFORE_TAG = bytes(range(128, 256)) + b" \t\r\n\x0b\x0c\x1c\x1d\x1e\x1f\\/&;#%nrtf0123467cxublsampo"
"""What may stand between `<` and `private`: blanks and a slash, in every spelling."""
_LESS = (b"lt;", b"60;", b"3c", "＜".encode(), "﹤".encode())


def _private(raw: bytes, lowered: bytes) -> bool:
    """A tag that opens or closes a private part, or the first line of a private key."""
    if b"private" not in lowered:
        return False
    if b"PRIVATE KEY" in raw or b"Private-Lines" in raw:
        return True
    for at in _places(lowered, b"private"):
        before = lowered[:at].rstrip(_BEFORE_TAG)
        gap = lowered[len(before) : at]
        if before.endswith(b"<") or any(less in gap for less in _LESS):
            return True
    return False


def _places(text: bytes, word: bytes) -> list[int]:
    """Where a word stands."""
    found = []
    at = text.find(word)
    while at >= 0:
        found.append(at)
        at = text.find(word, at + 1)
    return found


def _tokens(raw: bytes, joints: "set[int]") -> bool:
    """A token that begins as some service's tokens do, with enough of its signs behind."""
    runs = [run for run in raw.translate(_BREAK_RUNS).split(b"\n") if len(run) >= 16]
    joined = b"\n".join(runs)
    for signs, least, anchors in LEADING:
        for anchor in anchors:
            if anchor in joined and any(
                _begins(raw, at, len(anchor), signs, least, at in joints) for at in _places(raw, anchor)
            ):
                return True
    for signs, least, anchors in INSIDE:
        for anchor in anchors:
            if anchor in joined:
                ends = [at + len(anchor) for at in _places(raw, anchor)]
                if any(_length(raw, end, SIGNS[signs]) >= least for end in ends):
                    return True
    return any(_three_parts(run) for run in runs if run.count(b".") > 1)


def _begins(raw: bytes, at: int, length: int, signs: str, least: int, joint: bool) -> bool:
    """Whether a token may begin here: not inside of a word, and not followed by plain words only."""
    if not joint and not _free(raw, at):
        return False
    end = at + length
    count = _length(raw, end, SIGNS[signs])
    if count < least:
        return False
    return signs == "digits" or least == 0 or _machine_made(raw[end : end + count])


def _free(raw: bytes, at: int) -> bool:
    r"""Whether no letter, digit, `-` or `_` stands before this place; an escaped `\n` and `%3D` are none.

    Neither is the one `-` of a patch, which takes a line out.
    """
    if raw[at - 1 : at] == b"-" and _free_of_words(raw, at - 1):
        return True
    return _free_of_words(raw, at)


def _free_of_words(raw: bytes, at: int) -> bool:
    before = raw[max(0, at - 3) : at]
    if not before or before[-1] not in _WORD:
        return True
    return (before[-2:-1] == b"\\" and before[-1] in b"nrtfb") or before[:1] == b"%"


def _length(raw: bytes, at: int, signs: bytes) -> int:
    """How many of these signs follow, up to more than any rule asks for."""
    ahead = raw[at : at + 160]
    return len(ahead) - len(ahead.lstrip(signs))


def _machine_made(body: bytes) -> bool:
    """Whether there is a digit, or letters of both cases."""
    if len(body.translate(None, _DIGITS)) < len(body):
        return True
    return body != body.lower() and body != body.upper()


def _three_parts(run: bytes) -> bool:
    """Whether a run is put together like a Discord token, by the lengths of its parts."""
    sizes = [len(part) for part in run.split(b".")]
    return any(a >= 23 and b == 6 and c >= 27 for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False))


def _logins(raw: bytes, lowered: bytes) -> bool:
    """`scheme://user:password@host`, and `curl -u user:password`."""
    for at in _places(raw, b"://"):
        rest = _cut(raw[at + 3 :], b" \"'`<>")
        user, colon, password = rest.partition(b":")
        if colon and b"@" in password and user.translate(None, b"/?#@") == user:
            web = lowered[:at].endswith((b"http", b"https"))
            if not web or b"/" not in password[: password.rindex(b"@")] or b"/" not in password.partition(b"@")[0]:
                return True
    if b"curl" not in raw:
        return False
    return any(_user(raw[at + len(flag) :]) for flag in (b"-u", b"-U", b"-user") for at in _places(raw, flag))


def _user(rest: bytes) -> bool:
    """Whether this may be `user:password` behind a flag."""
    name, colon, password = rest.lstrip(b" =\"'\\").partition(b":")
    return bool(colon and name and password) and name.translate(None, b" \"'/") == name


def _cut(text: bytes, signs: bytes) -> bytes:
    """The text up to the first of these signs."""
    end = len(text)
    for sign in signs:
        found = text.find(sign, 0, end)
        end = found if found >= 0 else end
    return text[:end]


_ALWAYS = (
    b"requirepass", b"sshpass", b"redis-cli", b"identified ", b"identified\\", b"convertto-securestring", b"mnemonic",
    b"seed phrase", b"seed_phrase", b"seed-phrase", b"seedphrase",
)  # fmt: skip
_AFTER: tuple[tuple[bytes, bytes, int], ...] = (
    (b"mysql", b"-p", 700),
    (b" login ", b"-p", 700),
    (b"login", b"password", 700),
)
"""A word, what must follow it, and how far away; a command line is bounded by the rule, and escapes lengthen it."""
_ENCODED = SIGNS["word"].replace(b"_", b"").replace(b"-", b"") + b"+/"


def _lines(raw: bytes, lowered: bytes) -> bool:
    """Headers and command lines that hold a secret without a telling name."""
    if any(word in lowered for word in _ALWAYS) or _handed_over(lowered) or _tabled(raw, lowered):
        return True
    for word, other, far in _AFTER:
        if word in lowered and any(other in lowered[at : at + far] for at in _places(lowered, word)):
            return True
    if any(_follows(raw, at + 6, 60, SIGNS["run"], 16) for at in _places(lowered, b"bearer")):
        return True
    if any(_follows(raw, at + 2, 80, SIGNS["word"], 40) for mark in (b'"d"', b'"d\\') for at in _places(lowered, mark)):
        return True
    if any(_length(raw, at + 4, SIGNS["run"]) >= 40 for at in _places(lowered, b"sig=")):
        return True
    if any(len(_cut(raw[at + 5 : at + 140], b" \"',;")) >= 6 for at in _places(lowered, b"pass:")):
        return True
    for at in _places(lowered, b":543"):
        if raw[at + 5 : at + 6] == b":" or raw[at + 4 : at + 5] > b"\x7f":
            return True
    for at in _places(lowered, b"cookie"):
        if raw[at + 6 : at + 30].lstrip(b"\"'\\").startswith((b":", b"=", b",")):
            return True
    return any(_basic(raw[at + 6 : at + 400].lstrip(b"\"'\\")) for at in _places(lowered, b"basic "))


def _handed_over(lowered: bytes) -> bool:
    """Whether something may be piped into a program that reads a password."""
    told = any(word in lowered for word in (b"echo", b"printf", b"<<<"))
    return told and any(word in lowered for word in _READS)


_READS = (b"stdin", b"with-token", b"sudo -s", b"chpasswd", b"vault login -", b"passphrase-fd")
_RULES = (b"-+-", b"-|-", b"+---", b"|---")
_HELD = (b"pass", b"pwd", b"pswd", b"psswd", b"secret", b"token", b"credential", b"creds", b"auth", b"jwt", b"bearer",
         b"key", b"pat", b"pw", b"salt")  # fmt: skip


def _tabled(raw: bytes, lowered: bytes) -> bool:
    """Whether there may be a table with a column that is named like a secret."""
    if b"(1 row)" not in raw and b" rows)" not in raw and b"-[ RECORD" not in raw:
        if b"|" not in raw or b"--" not in raw:
            return False
        bare = raw.translate(None, b" :")
        if not any(rule in bare for rule in _RULES):
            return False
    return any(word in lowered for word in _HELD)


def _basic(rest: bytes) -> bool:
    """Whether an encoded `user:password` may stand here, rather than a word."""
    encoded = rest[: len(rest) - len(rest.lstrip(_ENCODED))]
    if len(encoded) < 8:
        return False
    return encoded.translate(None, _LOWER) != b"" or any(pair in encoded for pair in LOWER_LOGIN)


def _follows(raw: bytes, at: int, far: int, signs: bytes, least: int) -> bool:
    """Whether a run of so many signs begins not far from here."""
    end = at
    while end < at + far and end < len(raw):
        count = _length(raw, end, signs)
        if count >= least:
            return True
        end += count + 1
    return False
