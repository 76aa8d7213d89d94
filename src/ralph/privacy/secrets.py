r"""Find secrets in a text by the rules of `secret_rules`.

Every rule names literals that its matches contain, so a regex runs only at a keyword, and all is bounded: hostile text
cannot make the search quadratic. A token counts only when no letter, digit, `-` or `_` precedes it.
"""

from __future__ import annotations

import re
from functools import partial

from ralph.core.errors import ConfigError, DeadlineExceeded
from ralph.lean import TYPE_CHECKING
from ralph.privacy import secret_prefilter as prefilter
from ralph.privacy import secret_rules as rules
from ralph.privacy import secret_values as values
from ralph.privacy.assignments import assigned_secrets
from ralph.privacy.invisible_characters import blank_splitters, lower, view_text
from ralph.privacy.secret_context import context_secrets
from ralph.privacy.secret_values import Span, decode_text, has_both_cases, secret_name
from ralph.storage import hook_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

MARKER = r"\[redacted: [a-z0-9 ]{1,40}\]"
_ROUNDS = 16  # more than any text needs
_PATTERN_SECONDS = (
    0.5  # of computing, for one pattern of the user's in one text; less after others were too slow
)


class FoundSecret:
    """A secret's kind and position: `text[start:end]`, on `line` (from 1)."""

    __slots__ = ("end", "kind", "line", "start")

    def __init__(self, kind: str, start: int, end: int, line: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.line = line


def find_secrets(text: str, patterns: Sequence[str] = ()) -> tuple[FoundSecret, ...]:
    """Return every secret, sorted and without overlaps; `patterns` are the user's."""
    spans = _scan(text, patterns)
    # A token may begin where another one ended, a marker may read as a name, a user's pattern may match beside one.
    rests = (text[end : end + 32].lstrip(" \t\"'`*\\])")[:1] for _, end, _ in spans)
    again = patterns or any(rest not in ("", "\n", "\r") for rest in rests)
    for _ in range(_ROUNDS if spans and again else 0):
        more = _scan(replace_spans(text, spans), patterns)
        if not more:
            break
        spans = _merge([*spans, *_original_spans(spans, more)])
    findings = []
    line = 1
    at = 0
    for start, end, kind in spans:
        line += text.count("\n", at, start)
        at = start
        findings.append(FoundSecret(kind, start, end, line))
    return tuple(findings)


def replace_spans(text: str, spans: Sequence[Span]) -> str:
    """Return the text with a marker in place of each span."""
    pieces = []
    at = 0
    for start, end, kind in spans:
        pieces += [text[at:start], f"[redacted: {kind}]"]
        at = end
    return "".join([*pieces, text[at:]])


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"privacy.patterns: {pattern!r} is not a regular expression: {error}",
            hint="write it as Python's re module reads it, and quote it with single quotes in YAML",
        ) from error


_ESCAPES = r"(?:\^\[|\\e)?\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m|\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}"
"""A copied colour (`[32m`) or an escaped character: a secret may follow directly."""
_OLD_WORDS = r"\{\+(?:[^+\n]|\+(?!\})){0,400}+\+\}|\[-|-\]"
_NEW_WORDS = r"\[-(?:[^-\n]|-(?!\])){0,400}+-\]|\{\+|\+\}"
_STRING_JOINT = (
    r"(?<=[A-Za-z0-9_+/=-])[\"'][ \t]{0,9}(?:[+.&\\][ \t]{0,9}(?:\r?\n[ \t]{0,40})?|\r?\n[ \t]{0,40}(?:[+.&][ \t]"
    r"{0,9})?)[\"'](?=[A-Za-z0-9_+/=-])(?![^\"'\n]{0,60}[\"']\s{0,4}:)"
)
"""What divides a literal that is written in parts: `"..." + "..."`."""


def _scan(text: str, patterns: Sequence[str]) -> list[Span]:
    spans = _apply_rules(text)
    view = view_text(text)
    blank = (
        re.compile(_ESCAPES).sub(lambda match: " " * len(match[0]), text)
        if "[" in text or "\\" in text
        else text
    )
    if view is not None:
        blank = blank_splitters(blank)
        hidden = _apply_rules(view.text, frozenset(view.joints)) + _custom_spans(
            view.text, patterns
        )
        spans += [(*view.locate(start, end), kind) for start, end, kind in hidden]
    if blank != text:
        spans += _apply_rules(blank)
    views = [view_text(text, _STRING_JOINT)] if '"' in text or "'" in text else []
    if "-]{+" in text:  # a word diff: each side alone
        views += [view_text(text, _OLD_WORDS), view_text(text, _NEW_WORDS)]
    for joined in filter(None, views):
        spans += [
            (*joined.locate(start, end), kind) for start, end, kind in _apply_rules(joined.text)
        ]
    markers = _find_markers(text)
    if markers:
        from bisect import bisect_left  # few texts have markers

        # Only the last marker that begins before a span's end can overlap it.
        lasts = [bisect_left(markers, (end, 0)) - 1 for _, end, _ in spans]
        spans = [
            span
            for span, last in zip(spans, lasts, strict=True)
            if last < 0 or span[0] >= markers[last][1]
        ]
    return _merge([*spans, *_custom_spans(text, patterns)])


def _apply_rules(text: str, joints: Collection[int] = ()) -> list[Span]:
    text = text if text.isascii() else text.translate(rules.BOX)
    lowered = lower(text)
    spans = list(_vendor_tokens(text, joints))
    if any(header in text for header in rules.KEY_HEADERS):
        spans += _private_keys(text)
    spans += [*_url_passwords(text), *_phrases(text, lowered), *assigned_secrets(text, lowered)]
    if any(mark in text for mark in rules.TABLE_MARKS):
        spans += _table_secrets(text)
    for start, separator in prefilter.separated_tables(text, lowered):
        spans += _separated_secrets(text, start, separator)
    spans += [*_member_secrets(text, lowered), *_inserted_secrets(text, lowered)]
    return [*spans, *_encoded_secrets(text, lowered), *context_secrets(text, lowered)]


def _find_markers(text: str) -> list[tuple[int, int]]:
    return (
        [match.span() for match in re.compile(MARKER).finditer(text)]
        if "[redacted: " in text
        else []
    )


def _custom_spans(text: str, patterns: Sequence[str]) -> list[Span]:
    """Between the markers, so that nothing is redacted twice; a pattern that takes too long is switched off."""
    edges = (
        [0, *(edge for marker in _find_markers(text) for edge in marker), len(text)]
        if patterns
        else []
    )
    # none in a hook
    places = getattr(patterns, "places", None)
    off = getattr(patterns, "off", set[str]())
    spans: list[Span] = []
    for each in [each for each in patterns if each not in off]:
        search = partial(_pattern_spans, _compile_pattern(each), text, edges)
        matches = _search_in_time(search, _PATTERN_SECONDS / (1 + len(off))) if places else search()
        spans += matches or []
        if places and matches is None:
            off.add(each)
            hook_files.switch_off_pattern(places[0], places[1], each)
    return spans


def _pattern_spans(pattern: re.Pattern[str], text: str, edges: Sequence[int]) -> list[Span]:
    try:
        parts = zip(edges[::2], edges[1::2], strict=True)
        return [
            (*match.span(), "custom")
            for part in parts
            for match in pattern.finditer(text, *part)
            if match[0]
        ]
    except DeadlineExceeded as error:
        error.pattern = pattern.pattern
        raise


def _search_in_time(search: Callable[[], list[Span]], seconds: float) -> list[Span] | None:
    """Return the matches of a pattern of the user's; None if it takes more seconds of computing."""
    import signal  # it loads enum, which recording must not

    def give_up(_number: int, _frame: object) -> None:
        raise TimeoutError

    try:
        signal.signal(signal.SIGVTALRM, give_up)
    except ValueError:  # only the main thread gets signals, and a search lets no other one run
        try:
            from anyio import from_thread  # the threads of our servers are anyio's

            return from_thread.run_sync(_search_in_time, search, seconds)
        except (ImportError, RuntimeError):  # the thread of another program
            return search()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        spans = search()
        signal.setitimer(
            signal.ITIMER_VIRTUAL, 0
        )  # in here, so that a late signal is caught as well
        return spans
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _merge(spans: list[Span]) -> list[Span]:
    """Join overlapping spans; the first rule names the result."""
    merged: list[tuple[int, int, int]] = []
    for number in sorted(range(len(spans)), key=lambda number: spans[number][0]):
        start, end, _ = spans[number]
        if merged and start < merged[-1][1]:
            first, last, rank = merged.pop()
            merged.append((first, max(last, end), min(rank, number)))
        else:
            merged.append((start, end, number))
    return [(start, end, spans[rank][2]) for start, end, rank in merged]


def _original_spans(spans: Sequence[Span], later: Sequence[Span]) -> Iterator[Span]:
    growth = 0
    number = 0
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
_PAIRED = (
    "aws access key",
    "alibaba key",
    "tencent key",
    "scaleway key",
    "volcengine key",
    "google storage key",
)
_PARTNER = rf"(?<![A-Za-z0-9+/=_-])(?:(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{{30,64}}={{0,2}}|{_UUID})(?![A-Za-z0-9+/_-])"
"""Access keys with an id; the secret that follows within a few words has no prefix."""


def _vendor_tokens(text: str, joints: Collection[int]) -> Iterator[Span]:
    """At a joint a token may begin, whatever precedes it."""
    present = prefilter.token_prefixes(text)
    for kind, prefixes, body, lead in rules.token_rules() if present else ():
        body = body.replace("<word>", _WORD).replace("<uuid>", _UUID)
        for prefix in prefixes:
            if prefix not in present:
                continue
            for start, end in (
                _after_lead(text, prefix, body, lead) if lead else _after_prefix(text, prefix, body)
            ):
                before = text[max(0, start - 24) : start]
                # A checksum or a long base64 text (an image, a module) may happen to contain a prefix.
                inside = (
                    before[-1:] in ("+", "/")
                    and re.compile(_BASE64).fullmatch(before)
                    and has_both_cases(before)
                )
                inside = inside and any(map(str.isdigit, before))
                if not inside and not (
                    before[-1:] in ("=", ":", "-") and re.compile(_CHECKSUM).search(before)
                ):
                    yield start, _wrapped_end(text, start, end), kind
                    for match in (
                        re.compile(_PARTNER).finditer(text, end, end + 160)
                        if kind in _PAIRED
                        else ()
                    ):
                        if has_both_cases(match[0]) or "-" in match[0]:
                            yield *match.span(), kind.replace("access", "secret")
                            break
            for match in (
                re.compile(re.escape(prefix) + f"(?:{body})").finditer(text)
                if joints and not lead
                else ()
            ):
                if match.start() in joints and values.is_token_body(match[0][len(prefix) :]):
                    yield *match.span(), kind
    for match in re.compile(_DISCORD).finditer(text) if "." in present else ():
        if (
            any(word in text for word in ("discord", ".login(", ".run("))
            or decode_text(text[match.start() : match.end("id")]).isdigit()
        ):
            yield match.start(), match.end(), "discord token"


def _after_prefix(text: str, prefix: str, body: str) -> Iterator[tuple[int, int]]:
    r"""After any character, `\n` or `%3D`, but not inside a word."""
    name = re.escape(prefix)
    begins = rf"(?:(?<![A-Za-z0-9_-]{name})|(?<=\\[nrt]{name})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{name}))"
    check = _body_check(prefix)
    for match in re.compile(f"{name}{begins}(?:{body})").finditer(text):
        if check(match[0][len(prefix) :]):
            yield match.span()


def _body_check(prefix: str) -> Callable[[str], bool]:
    is_known = len(prefix) > 3 and prefix not in rules.AMBIGUOUS_PREFIXES
    return values.is_token_body if is_known or prefix in ("eyJ", "A3-", "SCW") else values.is_random


def _after_lead(text: str, prefix: str, body: str, lead: str) -> Iterator[tuple[int, int]]:
    before_it = re.compile(rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])){lead}\Z")
    after_it = re.compile(body)
    for at in prefilter.positions(text, prefix):
        first = max(0, at - 96)
        before = before_it.search(text[first:at])
        after = after_it.match(text, at + len(prefix))
        if (
            before
            and after
            and _body_check(prefix)(before[0] + after[0] if len(prefix) < 5 else after[0])
        ):
            yield first + before.start(), after.end()


_CONTINUED = r"[ \t]*\\?\r?\n[ \t>|]*(?P<line>[A-Za-z0-9_+/=.-]{12,400})[ \t]*(?=\r?\n|\Z)"


def _wrapped_end(text: str, start: int, end: int) -> int:
    """A terminal may wrap a token: lines of its alphabet, none longer than the one before."""
    column = start - text.rfind("\n", max(0, start - 400), start) - 1
    width = end - start
    while width >= 36 and text[end : end + 1] in (" ", "\t", "\r", "\n", "\\"):
        match = re.compile(_CONTINUED).match(text, end)
        if match is None or len(match["line"]) > width + column or values.is_wordy(match["line"]):
            break
        if not has_both_cases(match["line"]) or match["line"].isalpha():
            break
        width = len(match["line"])
        end = match.end("line")
        column = 0
    return end


_ENCODED = (
    r"(?P<line>[A-Za-z0-9+/]{24,}+={0,2})"
    r"(?:\r?\n[ \t]{0,16}+[A-Za-z0-9+/]{8,76}+={0,2}(?=[ \t]*(?:[\r\n\"\\]|\Z))){0,400}+"
)
_ENCODED_DATA = (
    r"(?m)^[ \t]{1,8}[\w.-]{1,64}:[ ][\"']?(?P<data>[A-Za-z0-9+/]{8,4000}={0,2})[\"']?[ \t\r]*$"
)


def _encoded_secrets(text: str, lowered: str) -> Iterator[Span]:
    encoded = any(True for _ in prefilter.encoded_texts(text))
    for match in re.compile(_ENCODED).finditer(text) if encoded else ():
        if text[max(0, match.start() - 3) : match.start()] == "pk.":
            continue  # Mapbox' public token
        for end in (match.end(), match.end("line")):  # the lines below it may be something else
            decoded = decode_text("".join(text[match.start() : end].split())[:_LONGEST_KEY])
            if decoded and prefilter.needs_rules(decoded) and _apply_rules(decoded):
                yield match.start(), end, "encoded secret"
                break
    for match in re.compile(_ENCODED_DATA).finditer(text) if "kind: secret" in lowered else ():
        decoded = decode_text(match["data"])
        if values.grade(decoded) == values.STRONG or values.is_password(decoded, values.COPULA):
            yield *match.span("data"), "encoded secret"


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
_KEY_PARTS = rf"(?xs)(?P<gap>{_GAP}++)|(?P<line>[A-Za-z0-9+/=]++)|."
_LONGEST_KEY = 20_000


def _private_keys(text: str) -> Iterator[Span]:
    """PEM, OpenSSH, PGP and PuTTY, complete or cut off, also in one string."""
    begins = list(re.compile(_BEGIN).finditer(text))
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        end = re.compile(_END).search(text, begin.end(), min(limit, begin.end() + _LONGEST_KEY))
        body = None if end else re.compile(_BODY).match(text, begin.end(), limit)
        if end and _is_key("".join(re.compile(_LONG_LINE).findall(text, begin.end(), end.start()))):
            yield begin.start(), end.end(), "private key"
        elif body and _is_key(body["body"]):
            yield begin.start(), body.end(), "private key"
    floor = 0
    for end in re.compile(_END).finditer(
        text
    ):  # what precedes an END line, however much of the key was cut off
        parts = re.compile(_KEY_PARTS).finditer(
            text, max(floor, end.start() - _LONGEST_KEY), end.start()
        )
        start = end.start()
        lines = list[str]()
        for part in reversed(list(parts)):
            if part["line"] and (
                len(part["line"]) >= 16 or len(lines) < 2
            ):  # only the last two lines may be short
                lines.insert(0, part["line"])
                start = part.start()
            elif not part["gap"]:
                break
        if _is_key("".join(lines)):
            yield start, end.end(), "private key"
        floor = end.end()
    for match in re.compile(_PUTTY).finditer(text):
        yield match.start("body"), match.end(), "private key"


def has_private_key(text: str) -> bool:
    """Check for the head or end of a private key; a regex or message that quotes one is none."""
    if "PRIVATE KEY" not in text:
        return False
    blocks = re.compile(rf"{_BEGIN}[^-]{{0,200}}+{_END}")
    text = blocks.sub(
        lambda block: block[0] if re.compile(_LONG_LINE).search(block[0]) else "", text
    )
    return any(
        re.compile(r"(?:[-+> \t\"']|\\n)*").fullmatch(line[: line.index("-----")])
        for line in text.split("\n")
        if "-----" in line and "PRIVATE KEY" in line
    )


def _is_key(body: str) -> bool:
    return len(body) >= 40 and any(
        values.is_random(body[at : at + 64]) for at in range(0, len(body), 64)
    )


# --- URLs, headers and command lines ------------------------------------------------------------

_LOGIN = (
    r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>[^\s/\"'`<>?#\\]{1,256})@(?=[\w\[$({%.-])"
)
_RAW_LOGIN = r"://(?P<user>[^\s:/?#@\"'`<>]{0,128}):(?P<password>(?!\d{2,5}(?:/|\Z))[^\s\"'`<>@\\]{1,128})@(?=[\w.-]+[:/])"
_USER_LOGIN = r"://(?P<user>[A-Za-z0-9_-]{20,255})@(?![\w.-]{0,60}sentry)(?=[\w.-]+[:/])"
_MAIL_LOGIN = (
    r"@[\w-]{1,40}(?:\.[\w-]{2,20}){1,3}:(?P<password>[^\s/:,;\"'`<>]{6,64})(?=[\s,;\"'`<>)]|\Z)"
)
_FAR = 500


def _url_passwords(text: str) -> Iterator[Span]:
    """Databases allow characters that other URLs do not."""
    at = text.find("://") if "@" in text else -1
    while at >= 0:
        database = text[max(0, at - 12) : at].lower().endswith(rules.DATABASES)
        match = re.compile(_LOGIN).match(text, at) or (
            re.compile(_RAW_LOGIN).match(text, at) if database else None
        )
        if match and match["password"].startswith("x-oauth"):
            yield *match.span("user"), "url password"
        elif match and values.is_login_password(match["user"], match["password"]):
            yield *match.span("password"), "connection string" if database else "url password"
        login = None if match else re.compile(_USER_LOGIN).match(text, at)
        if login and values.meets("strong", login["user"]):
            yield *login.span("user"), "url password"
        at = text.find("://", match.end() if match else at + 3)
    for login in re.compile(_MAIL_LOGIN).finditer(text) if "@" in text else ():
        if values.is_password(login["password"], values.LITERAL):
            yield *login.span("password"), "password"


def _phrases(text: str, lowered: str) -> Iterator[Span]:
    present = prefilter.phrase_keywords(lowered)
    for kind, condition, keywords, other, body in rules.phrase_rules() if present else ():
        for keyword in (keyword for keyword in keywords if keyword in present):
            floor = 0
            at = lowered.find(keyword)
            pattern = rules.phrase_regex(body) if at >= 0 else ""
            while at >= 0:
                if condition in (
                    "piped",
                    "before",
                ):  # the password precedes its receiver on the line
                    start = max(floor, at - _FAR)
                    end = at + len(keyword)
                    line = max(start, lowered.rfind("\n", start, at) + 1)
                    matches = list(re.compile(pattern).finditer(text, line, end))
                else:
                    may_match = not other or prefilter.follows(
                        text[at + len(keyword) : at + len(keyword) + 700], other
                    )
                    match = re.compile(pattern).match(text, at) if may_match else None
                    end = at + 1
                    matches = [match] if match else []
                for each in matches:
                    end = max(end, each.end())
                    part = "s" if each["s"] else "t"
                    if values.meets(condition, each[part]):
                        yield *each.span(part), kind
                floor = end
                at = lowered.find(keyword, end)


# --- tables -------------------------------------------------------------------------------------

_RULE = r"[|+]?[ ]?:?-{3,}:?[ ]?(?:[|+][ ]?:?-{3,}:?[ ]?)*[|+]?"
_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_CELL = " \t\r*`\"'"


def _table_secrets(text: str) -> Iterator[Span]:
    r"""Below a head that names a secret, or beside a name in the long form of `psql`."""
    lines = (text.replace("\\n", " \n") if "\\n" in text else text).split("\n")
    is_rule = [bool("--" in line and re.compile(_RULE).fullmatch(line.strip())) for line in lines]
    columns: dict[int, values.SecretName] = {}
    width = 0
    previous = 0
    start = 0
    drawn = is_long = False
    for number, line in enumerate(lines):
        cells = line.split("|")
        if is_rule[number]:
            head = lines[number - 1].split("|") if number else []
            with_user = any(
                cell.strip(_CELL).lower() in ("user", "username", "login", "account")
                for cell in head
            )
            width = len(head)
            drawn = "+" in line or with_user
            is_long = False
            columns = (
                _secret_columns(head) if width > 1 or _is_counted(lines, number + 1, 1) else {}
            )
        elif line.lstrip().startswith("-[ RECORD"):
            columns = {}
            width = 2
            drawn = True
            is_long = True
        elif len(cells) != width and len(cells) != previous:
            width = len(cells)
            drawn = True
            is_long = False
            columns = (
                _secret_columns(cells)
                if width > 1 and _is_counted(lines, number + 1, width)
                else {}
            )
        else:
            at = start
            for column, cell in enumerate(cells if len(cells) == width else ()):
                if column in columns:
                    yield from _cell_secret(cell, at, columns[column], drawn=drawn)
                elif is_long and column == 0:
                    columns = _secret_columns(["", cell])
                at += len(cell) + 1
        previous = len(cells)
        start += len(line) + 1


def _is_counted(lines: Sequence[str], first: int, width: int) -> bool:
    for line in lines[first : first + 1000]:
        if line[:1] == "(" and re.compile(_COUNT).fullmatch(line.strip()):
            return True
        if line.count("|") != width - 1 or not line.strip() or "--" in line:
            return False
    return False


def _secret_columns(titles: Sequence[str]) -> dict[int, values.SecretName]:
    columns = {}
    for number, cell in enumerate(titles):
        title = cell.strip(_CELL)
        name = secret_name(title) if 0 < len(title) <= 40 and title.count(" ") < 3 else None
        name = values.API_KEY if title.lower() == "key" else name
        if name is not None:
            columns[number] = name
    return columns


def _cell_secret(cell: str, at: int, name: values.SecretName, *, drawn: bool) -> Iterator[Span]:
    value = cell.strip(_CELL)
    if not 4 <= len(value) <= 300 or "[redacted" in value:
        return
    is_password = name.kind == "password" and values.is_password(
        value, values.SURE if drawn else values.LITERAL
    )
    least = name.weakest_grade if drawn or values.is_long_run(value) else values.STRONG
    if (
        name.kind in ("secret", "token")
        and has_both_cases(value)
        and sum(map(str.isdigit, value)) > (name.kind == "token")
    ):
        is_password = values.is_password(value, values.LITERAL)  # a chosen one
    if is_password or (name.kind != "password" and values.grade(value) >= least):
        start = at + cell.index(value)
        yield start, start + len(value), name.kind


def _separated_secrets(text: str, start: int, separator: str) -> Iterator[Span]:
    lines = re.compile(r"[^\n]*\n?").finditer(text, start, start + 64_000)
    head = next(lines)[0].rstrip("\r\n")
    starts = (
        [title.start() for title in re.compile(r"\S+(?: \S+)*").finditer(head)]
        if separator == " "
        else []
    )
    titles = _split_row(head, separator, starts)
    columns = _secret_columns(titles)
    for line in lines if columns else ():
        row = line[0].rstrip("\r\n")
        at = line.start()
        cells = _split_row(row, separator, starts)
        if len(cells) != len(titles) or (starts and row.isupper() and _secret_columns(cells)):
            break  # the end of the table, or the head of another one
        for number, cell in enumerate(cells):
            if number in columns:
                yield from _cell_secret(
                    cell, at, columns[number], drawn=columns[number].kind == "password"
                )
            at += len(cell) + (separator != " ")


def _split_row(row: str, separator: str, starts: Sequence[int]) -> list[str]:
    if separator == " ":
        ends = [*starts[1:], len(row)]
        return [
            row[start:end]
            for start, end in zip(starts, ends, strict=True)
            if row[start - 1 : start] in ("", " ")
        ]
    cells: list[str] = []
    for piece in row.split(separator):
        if cells and cells[-1][:1] == '"' and cells[-1].count('"') % 2:
            cells[-1] += separator + piece
        else:
            cells.append(piece)
    return cells


_INSERT = r"(?i)insert into\s+[^\s(]{1,80}\s{0,9}\((?P<names>[^()]{1,400})\)\s{0,9}values\s{0,9}\("
_SQL_VALUE = (
    r"\s{0,40}(?:[nN]?'(?P<text>(?:[^'\n]|''){0,300}+)'|[^,()']{0,200}+(?:\([^()]{0,80}\))?)\s{0,9}"
    r"(?P<end>\)\s{0,9},\s{0,40}\(|[,)])"
)


def _inserted_secrets(text: str, lowered: str) -> Iterator[Span]:
    for statement in re.compile(_INSERT).finditer(text) if "insert into" in lowered else ():
        columns = _secret_columns(statement["names"].split(","))
        number = 0
        value = re.compile(_SQL_VALUE).match(text, statement.end()) if columns else None
        while value:
            if value["text"] and number in columns:
                yield from _cell_secret(
                    value["text"], value.start("text"), columns[number], drawn=True
                )
            number = number + 1 if value["end"] == "," else 0
            value = re.compile(_SQL_VALUE).match(text, value.end()) if value["end"] != ")" else None


_MEMBER = (
    r"(?i)(?:value|default)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}\\?"
    r"(?:[\"'](?P<quoted>[^\"'\\\n]{4,400})|(?P<plain>[^\s\"',{}\[\]\\]{4,400}))"
)
_MEMBER_NAME = (
    r"(?i)\b(?:name|key|id|variable|title|label|field)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}(?P<name>[\w./-]{2,64})"
    r"|[\"'](?P<parent>[\w.-]{2,64})[\"'\\]{1,3}\s{0,4}:?\s{0,4}\{|(?P<listed>keyname)"
)


def _member_secrets(text: str, lowered: str) -> Iterator[Span]:
    floor = 0
    for match in filter(
        None, (re.compile(_MEMBER).match(text, at) for at in prefilter.member_values(text, lowered))
    ):
        before = text[max(floor, match.start() - 240) : match.start()].rpartition("}")[2]
        floor = match.end()
        after = text[floor : floor + 160].partition("}")[0].partition("- ")[0]
        name_of = re.compile(_MEMBER_NAME)
        for each in [*name_of.finditer(before)][-1:] or [*name_of.finditer(after)][:1]:
            name = secret_name((each["name"] or each["parent"] or "").rpartition("/")[2])
            name = values.SecretName("secret key", values.STRONG) if each["listed"] else name
            if name is not None:
                part = "quoted" if match["quoted"] else "plain"
                yield from _cell_secret(match[part], match.start(part), name, drawn=True)
