r"""Find secrets in a text by the rules of `secret_rules`.

Every rule names literals that its matches contain, so `str.find` does the search and a regex is compiled and run
only at a keyword. A token counts only when no letter, digit, `-` or `_` precedes it; blocks, command lines and names
are bounded, so hostile text cannot make the search quadratic. `assignments` judges values by the name of their key,
`find_secrets` runs all rules until nothing more is found. Lengths are lower bounds: longer tokens stay covered.
"""

import re

from ralph.capture import secret_rules as rules
from ralph.capture.assignments import (
    STRONG,
    SecretName,
    Span,
    assigned_secrets,
    encodes_digits,
    grade,
    has_both_cases,
    is_cased_password,
    is_login_password,
    is_plain_password,
    is_random,
    is_token_body,
    meets,
    secret_name,
)
from ralph.capture.invisible_characters import blank_splitters, lower, view_text
from ralph.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

MARKER = r"\[redacted: [a-z0-9 ]{1,40}\]"
_ROUNDS = 16
"""More than any text needs."""


class FoundSecret:
    """A secret's kind and position: `text[start:end]`, on `line` (from 1)."""

    __slots__ = ("end", "kind", "line", "start")

    def __init__(self, kind: str, start: int, end: int, line: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.line = line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FoundSecret) and self._members() == other._members()

    def __hash__(self) -> int:
        return hash(self._members())

    def __repr__(self) -> str:
        return f"Finding{self._members()!r}"

    def _members(self) -> tuple[str, int, int, int]:
        return self.kind, self.start, self.end, self.line


def find_secrets(text: str, patterns: "Sequence[str]" = ()) -> tuple[FoundSecret, ...]:
    """Return every secret in the text, sorted and without overlaps; `patterns` are the user's own."""
    compiled = _compile_patterns(patterns)
    spans = _scan(text, compiled)
    # A token may begin where another one ended, a marker may read as a name, a user's pattern may match beside one.
    rests = (text[end : end + 32].lstrip(" \t\"'`*\\])")[:1] for _, end, _ in spans)
    again = compiled or any(rest not in ("", "\n", "\r") for rest in rests)
    for _ in range(_ROUNDS if spans and again else 0):
        more = _scan(replace_spans(text, spans), compiled)
        if not more:
            break
        spans = _merge([*spans, *_original_spans(spans, more)])
    findings, line, at = [], 1, 0
    for start, end, kind in spans:
        line += text.count("\n", at, start)
        at = start
        findings.append(FoundSecret(kind, start, end, line))
    return tuple(findings)


def replace_spans(text: str, spans: "Sequence[Span]") -> str:
    """Return the text with a marker in place of each span."""
    pieces, at = [], 0
    for start, end, kind in spans:
        pieces += [text[at:start], f"[redacted: {kind}]"]
        at = end
    return "".join([*pieces, text[at:]])


def _compile_patterns(patterns: "Sequence[str]") -> "tuple[re.Pattern[str], ...]":
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"privacy.patterns: {pattern!r} is not a regular expression: {error}",
                hint="write it as Python's re module reads it, and quote it with single quotes in YAML",
            ) from error
    return tuple(compiled)


def _scan(text: str, custom: "Sequence[re.Pattern[str]]") -> list[Span]:
    """Search once, outside of earlier markers: the text, without its splitters, and with blanks in their place."""
    markers = _find_markers(text)
    spans = _apply_rules(text)
    blank = _blank_escapes(text)
    view = view_text(text)
    if view is not None:
        blank = blank_splitters(blank)
        hidden = _apply_rules(view.text, frozenset(view.joints))
        hidden += _custom_spans(view.text, custom, _find_markers(view.text))
        spans += [(*view.locate(start, end), kind) for start, end, kind in hidden]
    if blank != text:
        spans += _apply_rules(blank)
    outside = [span for span in spans if not _touches(markers, span)] if markers else spans
    return _merge([*outside, *_custom_spans(text, custom, markers)])


def _apply_rules(text: str, joints: "Collection[int]" = ()) -> list[Span]:
    lowered = lower(text)
    spans = list(_vendor_tokens(text, joints))
    if any(header in text for header in rules.KEY_HEADERS):
        spans += [*_key_blocks(text), *_key_tails(text)]
    spans += [*_url_passwords(text), *_phrases(text, lowered), *_piped_passwords(text, lowered)]
    spans += assigned_secrets(text, lowered)
    if any(mark in text for mark in rules.TABLE_MARKS):
        spans += table_secrets(text)
    return spans


_ESCAPES = r"(?:\^\[|\\e)?\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m|\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}"


def _blank_escapes(text: str) -> str:
    """Replace a copied colour (`[32m`) or an escaped character by blanks: a secret may follow directly."""
    if ("[" not in text or "m" not in text) and "\\u00" not in text and "\\x" not in text:
        return text
    return re.compile(_ESCAPES).sub(lambda match: " " * len(match[0]), text)


def _find_markers(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.compile(MARKER).finditer(text)] if "[redacted: " in text else []


def _custom_spans(text: str, custom: "Sequence[re.Pattern[str]]", markers: list[tuple[int, int]]) -> list[Span]:
    """Return what the user's patterns match between the markers, so that nothing is redacted twice."""
    edges = [0, *(edge for marker in markers for edge in marker), len(text)]
    return [
        (match.start(), match.end(), "custom")
        for pattern in custom
        for start, end in zip(edges[::2], edges[1::2], strict=True)
        for match in pattern.finditer(text, start, end)
        if match.end() > match.start()
    ]


def _touches(markers: list[tuple[int, int]], span: Span) -> bool:
    """Check whether a span overlaps a marker: only the last one that begins before the span's end can."""
    from bisect import bisect_left  # few texts have markers

    last = bisect_left(markers, (span[1], 0)) - 1
    return last >= 0 and span[0] < markers[last][1]


def _merge(spans: list[Span]) -> list[Span]:
    """Sort spans and join overlapping ones; the first rule names the result."""
    merged: list[tuple[int, int, str, int]] = []
    for number in sorted(range(len(spans)), key=lambda number: spans[number][0]):
        start, end, kind = spans[number]
        if merged and start < merged[-1][1]:
            first, last, name, rank = merged.pop()
            merged.append((first, max(last, end), *((name, rank) if rank < number else (kind, number))))
        else:
            merged.append((start, end, kind, number))
    return [(start, end, kind) for start, end, kind, _ in merged]


def _original_spans(spans: "Sequence[Span]", later: "Sequence[Span]") -> "Iterator[Span]":
    """Map spans of the replaced text to positions in the text before."""
    growth, number = 0, 0
    for start, end, kind in later:
        while number < len(spans) and spans[number][0] + growth <= start:
            first, last, name = spans[number]
            growth += len(f"[redacted: {name}]") - (last - first)
            number += 1
        yield start - growth, end - growth, kind


# --- tokens of vendors --------------------------------------------------------------------------

_WORD = r"[A-Za-z0-9_-]"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_BASE64 = r"[A-Za-z0-9+/]{24}"
_CHECKSUM = r"(?i)(?:sha\d{1,3}|md5|integrity)[=:-]\Z"
_DISCORD = rf"[MNO](?<![A-Za-z0-9_.-][MNO])(?P<id>{_WORD}{{22,27}})\.{_WORD}{{6}}\.{_WORD}{{27,45}}(?!{_WORD})"


def _vendor_tokens(text: str, joints: "Collection[int]") -> "Iterator[Span]":
    """Yield the tokens of the table; at a joint a token may begin, whatever precedes it."""
    present = rules.token_prefixes(text)
    for kind, prefixes, body, lead in rules.token_rules() if present else ():
        for prefix in prefixes:
            if prefix not in present:
                continue
            body = body.replace("<word>", _WORD).replace("<uuid>", _UUID)
            for start, end in _after_lead(text, prefix, body, lead) if lead else _after_prefix(text, prefix, body):
                if not _is_inside_other(text, start):
                    yield start, end, kind
            for match in re.compile(re.escape(prefix) + f"(?:{body})").finditer(text) if joints and not lead else ():
                if match.start() in joints and is_token_body(match[0][len(prefix) :]):
                    yield *match.span(), kind
    for match in re.compile(_DISCORD).finditer(text) if "." in present else ():
        if encodes_digits(text[match.start() : match.end("id")]):
            yield match.start(), match.end(), "discord token"


def _is_inside_other(text: str, start: int) -> bool:
    """Check whether a checksum or a long base64 text (an image, a module) happens to contain a prefix."""
    before = text[max(0, start - 24) : start]
    if before[-1:] in ("+", "/") and re.compile(_BASE64).fullmatch(before) and has_both_cases(before):
        return any(map(str.isdigit, before))
    return before[-1:] in ("=", ":", "-") and re.compile(_CHECKSUM).search(before) is not None


def _after_prefix(text: str, prefix: str, body: str) -> "Iterator[tuple[int, int]]":
    r"""Yield tokens that begin with their prefix: after any character, `\n` or `%3D`, but not inside a word."""
    name = re.escape(prefix)
    begins = rf"(?:(?<![A-Za-z0-9_-]{name})|(?<=\\[nrt]{name})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{name}))"
    check = is_token_body if len(prefix) > 3 else is_random
    for match in re.compile(f"{name}{begins}(?:{body})").finditer(text):
        if check(match[0][len(prefix) :]):
            yield match.span()


def _after_lead(text: str, prefix: str, body: str, lead: str) -> "Iterator[tuple[int, int]]":
    """Yield tokens that contain their literal in the middle."""
    before_it, after_it = re.compile(rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])){lead}\Z"), re.compile(body)
    at = text.find(prefix)
    while at >= 0:
        first = max(0, at - 64)
        before = before_it.search(text[first:at])
        after = after_it.match(text, at + len(prefix)) if before else None
        if before and after and is_random(before[0] + after[0]):
            yield first + before.start(), after.end()
        at = text.find(prefix, after.end() if after else at + 1)


# --- private keys -------------------------------------------------------------------------------

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
_LONGEST_KEY = 20_000
_BASE64_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


def _key_blocks(text: str) -> "Iterator[Span]":
    """Yield PEM, OpenSSH, PGP and PuTTY private keys, complete or cut off, also flattened into one string."""
    begins = list(re.compile(_BEGIN).finditer(text)) if "PRIVATE KEY" in text else []
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        end = re.compile(_END).search(text, begin.end(), min(limit, begin.end() + _LONGEST_KEY))
        if end:
            inside = "".join(re.compile(_LONG_LINE).findall(text, begin.end(), end.start()))
            if len(inside) >= 40 and is_random(inside[-400:]):
                yield begin.start(), end.end(), "private key"
        else:
            body = re.compile(_BODY).match(text, begin.end(), limit)
            if body and len(body["body"]) >= 40 and is_random(body["body"][-400:]):
                yield begin.start(), body.end(), "private key"
    for match in re.compile(_PUTTY).finditer(text) if "Private-Lines: " in text else ():
        yield match.start("body"), match.end(), "private key"


def _key_tails(text: str) -> "Iterator[Span]":
    """Yield the lines of base64 before an END line, however much of the key was cut off."""
    floor = 0
    for end in re.compile(_END).finditer(text) if "PRIVATE KEY" in text else ():
        start = at = end.start()
        lines: list[str] = []
        lowest = max(floor, at - _LONGEST_KEY)
        while at > lowest:
            gap, line = _line_before(text, at, lowest)
            if not line or (len(line) < 16 and len(lines) > 1):  # only the last two lines may be short
                break
            at = start = gap - len(line)
            lines.append(line)
        body = "".join(reversed(lines))
        if len(body) >= 40 and is_random(body[-400:]):
            yield start, end.end(), "private key"
        floor = end.end()


def _line_before(text: str, at: int, floor: int) -> tuple[int, str]:
    r"""Return where the last line before a position ends, and that line; a line end may also be written `\n`."""
    while at > floor and (
        text[at - 1] in " \t\r\n\"',;>|#*\\" or (text[at - 1] in "nr" and text[at - 2 : at - 1] == "\\")
    ):
        at -= 1
    first = at
    while first > floor and text[first - 1] in _BASE64_LETTERS:
        first -= 1
    if first > floor and text[first - 1] == "\\" and text[first : first + 1] in ("n", "r"):
        first += 1
    return at, text[first:at]


# --- URLs, headers and command lines ------------------------------------------------------------

_LOGIN = r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>[^\s/\"'`<>?#\\]{1,256})@(?=[\w\[$({%.-])"
_RAW_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{1,128}):(?P<password>(?!\d{2,5}(?:/|\Z))[^\s\"'`<>@\\]{1,128})@(?=[\w.-]+[:/])"
)
_CURL = r"(?:-u|--user|--proxy-user|-U)[ =]?[\"']?(?P<user>[^\s:\"'/]{1,64}):(?P<s>[^\s\"']{1,128})"
_PIPED = (
    r"(?i)\b(?:echo|printf)[ \t]+(?:-[neE]{1,3}[ \t]+)?(?:[\"']?%s(?:\\{1,2}n)?[\"']?[ \t]+)?"
    r"(?P<s>\"[^\"\n]{1,256}\"|'[^'\n]{1,256}'|\\\"[^\"\n\\]{1,256}\\\"|[^\s\"'|;&]{1,256})[ \t]*\|[^|;\n]{0,200}\Z"
)
_HERE = r"<<<[ \t]*(?P<s>\"[^\"\n]{1,256}\"|'[^'\n]{1,256}'|[^\s\"'|;&]{1,256})"
_FAR = 500


def _url_passwords(text: str) -> "Iterator[Span]":
    """Yield the password of `scheme://user:password@host`; databases allow characters that other URLs do not."""
    at = text.find("://") if "@" in text else -1
    while at >= 0:
        database = text[max(0, at - 12) : at].lower().endswith(rules.DATABASES)
        match = re.compile(_LOGIN).match(text, at) or (re.compile(_RAW_LOGIN).match(text, at) if database else None)
        if match and is_login_password(match["user"], match["password"]):
            yield *match.span("password"), "connection string" if database else "url password"
        at = text.find("://", match.end() if match else at + 3)


def _phrases(text: str, lowered: str) -> "Iterator[Span]":
    """Yield values of headers, netrc, SQL and command lines that take a password without naming it."""
    for kind, keywords, _, body, condition in rules.PHRASES:
        for keyword in keywords:
            at = lowered.find(keyword)
            while at >= 0:
                match = re.compile(f"(?i){body}").match(text, at)
                if match and meets(condition, match["s"]):
                    yield *match.span("s"), kind
                at = lowered.find(keyword, max(at + 1, match.end() if match else 0))
    if "curl" in text:
        for match in re.compile(_CURL).finditer(text):
            before = text[max(0, match.start() - 400) : match.start()]
            if "curl" in before and is_login_password(match["user"], match["s"]) and not match["s"].isdigit():
                yield *match.span("s"), "password"


def _piped_passwords(text: str, lowered: str) -> "Iterator[Span]":
    """Yield the word of `echo secret | docker login --password-stdin`, and of `<<< secret` behind it."""
    for receiver in rules.RECEIVERS:
        floor, at = 0, lowered.find(receiver)
        while at >= 0:
            line = max(floor, at - _FAR, lowered.rfind("\n", max(0, at - _FAR), at) + 1)
            end = lowered.find("\n", at)
            matches = [_last_echo(text, line, at)]
            here = re.compile(_HERE).search(text, at, min(at + 200, end if end >= 0 else len(text)))
            matches += [(here.start("s"), here["s"])] if here else []
            for start, value in filter(None, matches):
                if receiver != "sudo -s" or text.startswith("sudo -S", at):
                    yield from _piped_value(start, value, with_user=receiver == "chpasswd")
            floor = at + len(receiver)
            at = lowered.find(receiver, floor)


def _last_echo(text: str, start: int, end: int) -> tuple[int, str] | None:
    """Return what the last `echo` or `printf` before a position prints."""
    piece = text[start:end]
    for command in ("echo", "printf"):
        at = piece.lower().rfind(command)
        match = re.compile(_PIPED).match(piece, at) if at >= 0 else None
        if match:
            return start + match.start("s"), match["s"]
    return None


def _piped_value(start: int, value: str, *, with_user: bool) -> "Iterator[Span]":
    password = value.strip("\"'\\")
    start += value.index(password) if password else 0
    if with_user and ":" in password:
        name, _, password = password.partition(":")
        start += len(name) + 1
    if is_login_password("", password) and " " not in password:
        yield start, start + len(password), "password"


# --- tables -------------------------------------------------------------------------------------

_RULE = r"[|+]?[ ]?:?-{3,}:?[ ]?(?:[|+][ ]?:?-{3,}:?[ ]?)*[|+]?"
_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_CELL = " \t\r*`\"'"


def table_secrets(text: str) -> "Iterator[Span]":
    """Yield the values below a head that names a secret, and those beside a name in the long form of `psql`."""
    table = _Table(text)
    for number, line in enumerate(table.lines):
        stripped = line.strip()
        if stripped.startswith("(") and re.compile(_COUNT).fullmatch(stripped):
            yield from _unaligned(table, number)
        elif "--" not in stripped:
            continue
        elif stripped.startswith("-[ RECORD"):
            yield from _long_form(table, number + 1)
        elif number and table.is_rule(number):
            yield from _below_head(table, number - 1, number + 1, drawn="+" in stripped)


class _Table:
    r"""The lines of a text and where they begin; a line end may also be written `\n`."""

    __slots__ = ("lines", "starts")

    def __init__(self, text: str) -> None:
        self.lines = (text.replace("\\n", " \n") if "\\n" in text else text).split("\n")
        self.starts, at = list[int](), 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1

    def is_rule(self, number: int) -> bool:
        line = self.lines[number].strip() if number < len(self.lines) else ""
        return "--" in line and re.compile(_RULE).fullmatch(line) is not None

    def has_count(self, first: int) -> bool:
        """Check whether a table of one column ends with the number of its rows; else it may be a title."""
        for line in self.lines[first : first + 1000]:
            if re.compile(_COUNT).fullmatch(line.strip()):
                return True
            if not line.strip() or "--" in line:
                return False
        return False


def _below_head(table: _Table, head: int, first: int, *, drawn: bool) -> "Iterator[Span]":
    """Yield the values of the columns that the line `head` names, from the line `first` to the end of the table."""
    titles = table.lines[head].split("|")
    columns = [(number, name) for number, title in enumerate(titles) if (name := _column_name(title)) is not None]
    if not columns or (len(titles) == 1 and not table.has_count(first)):
        return
    for row in range(first, len(table.lines)):
        cells = table.lines[row].split("|")
        if len(cells) != len(titles):
            if table.is_rule(row):
                continue
            return
        starts = [table.starts[row]]
        for cell in cells:
            starts.append(starts[-1] + len(cell) + 1)
        for number, name in columns:
            yield from _cell_secret(cells[number], starts[number], name, drawn=drawn)
        if table.is_rule(row + 1) and any(map(_column_name, cells)):
            return  # the head of another table


def _unaligned(table: _Table, end: int) -> "Iterator[Span]":
    """Yield the secrets of `id|name|password` above its rows, where only the count tells that it is a table."""
    width = table.lines[end - 1].count("|") if end else 0
    head = end - 1
    while width and head > 0 and table.lines[head - 1].count("|") == width and "--" not in table.lines[head - 1]:
        head -= 1
    if width and head < end - 1 and not (head and "--" in table.lines[head - 1]):
        yield from _below_head(table, head, head + 1, drawn=True)


def _long_form(table: _Table, first: int) -> "Iterator[Span]":
    """Yield the value of `password | hunter2`."""
    for row in range(first, min(first + 400, len(table.lines))):
        title, bar, value = table.lines[row].partition("|")
        if not bar or "--" in title:
            return
        name = _column_name(title)
        if name is not None:
            yield from _cell_secret(value, table.starts[row] + len(title) + 1, name, drawn=True)


def _column_name(cell: str) -> SecretName | None:
    title = cell.strip(_CELL)
    return secret_name(title) if 0 < len(title) <= 40 and title.count(" ") < 2 else None


def _cell_secret(cell: str, at: int, name: SecretName, *, drawn: bool) -> "Iterator[Span]":
    """Yield the value of a cell if it is a secret; in the table of a database also a plain word."""
    value = cell.strip(_CELL)
    if not 4 <= len(value) <= 300 or "[redacted" in value:
        return
    password = name[0] == "password"
    least = name[1] if password or drawn else STRONG
    if grade(value) >= least or (drawn and password and (is_plain_password(value) or is_cased_password(value))):
        start = at + cell.index(value)
        yield start, start + len(value), name[0]
