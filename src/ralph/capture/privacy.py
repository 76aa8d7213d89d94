r"""Keep private text off the disk: cut `<private>` parts, redact secrets, hide files of `privacy.paths`.

`Redactor` is for the texts of one event in their order, because a private part that one text opens hides the texts
after it; `clean_*` is for what a person adds: there a secret is refused. Hooks load this module, so it imports nothing
heavy and bounds the work for one event.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from ralph.capture import invisible_characters
from ralph.capture.invisible_characters import fold, lower, remove_codes, view_text
from ralph.capture.secret_prefilter import has_invisible, needs_rules, token_prefixes
from ralph.capture.secret_values import secret_name
from ralph.capture.secrets import FoundSecret, find_secrets, has_private_key, replace_spans
from ralph.errors import Refused
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Clean", "FoundSecret", "Redactor", "find_secrets", "redact"]


class Clean:
    """A text that may be stored, its secrets, and the number of `private` parts cut out."""

    __slots__ = ("findings", "private", "text")

    def __init__(self, text: str, findings: tuple[FoundSecret, ...] = (), private: int = 0) -> None:
        self.text = text
        self.findings = findings
        self.private = private


def redact(text: str, patterns: Sequence[str] = ()) -> Clean:
    """Return the text without private parts, each secret replaced by its kind."""
    public, private = strip_private(text)
    findings = find_secrets(public, patterns)
    result = replace_spans(
        public, [(finding.start, finding.end, finding.kind) for finding in findings]
    )
    again, more = strip_private(result) if findings else (result, 0)
    if again != result:  # a replaced secret made a tag short enough to be one
        result = redact(again, patterns).text
    return Clean(result, findings, private + more)


# --- private parts ------------------------------------------------------------------------------

_LESS = r"(?:<|\\{1,8}(?:u003c|x3c)|&(?:amp;){0,4}(?:lt|\#0{0,4}60|\#x0{0,4}3c);|%3c)"
_MORE = r"(?:>|\\{1,8}(?:u003e|x3e)|&(?:amp;){0,4}(?:gt|\#0{0,4}62|\#x0{0,4}3e);|%3e)"
_SLASH = r"(?:\\{0,8}/|\\{1,8}(?:u002f|x2f)|&(?:amp;){0,4}(?:sol|\#0{0,4}47|\#x0{0,4}2f);|%2f)"
_SPACE = r"(?:\s|\\{1,8}[nrt]|%20|&nbsp;)"
_TAG_HEAD = rf"(?i){_LESS}{_SPACE}{{0,8}}+(?P<close>{_SLASH})?{_SPACE}{{0,8}}+"
_TAG = rf"{_TAG_HEAD}private(?P<rest>(?:{_SPACE}|{_SLASH})(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*+)?{_MORE}"
"""A tag in any of its spellings; its attributes end at the next `<` or `>` however that is written."""
_TAG_LENGTH = 600
_BEFORE_WORD = 260
"""A `<private` with no `>` for so long is not a tag; no spelling before the word is longer."""
# nobody hides so many parts, or opens so many at once: what follows is private
_MOST_TAGS = 20_000
MOST_OPEN = 8


def strip_private(text: str) -> tuple[str, int]:
    """Return the text without private parts and their number; an unclosed one goes to the end."""
    return _cut_private_parts(text)[:2]


def _cut_private_parts(
    text: str, depth: int = 0, *, wary: bool = False
) -> tuple[str, int, int, bool]:
    """Return the rest, the number of parts, how many are open, and whether a closing tag was astray.

    If `wary`, text before an astray tag goes, too: the opening tag may be in a text that came first.
    """
    tags = _find_tags(text, _MOST_TAGS + 1)
    if not tags:
        return ("" if depth else text), 0, depth, False
    pieces: list[str] = []
    count = at = 0
    astray = False
    for number, (start, end, closes, is_empty) in enumerate(tags):
        if depth == 0:
            pieces.append(text[at:start])
        at = end
        if number == _MOST_TAGS:
            return "".join(pieces), count + 1, MOST_OPEN, astray
        if closes:
            astray = astray or depth == 0
            if depth == 0 and wary:
                count += any(pieces)
                pieces.clear()
            depth = max(0, depth - 1)
        elif not is_empty or any(tag[2] for tag in tags[number + 1 : number + 2]):
            count += depth == 0
            depth += 1
    if depth == 0:
        pieces.append(text[at:])
    rest = "".join(pieces)
    depth = min(depth, MOST_OPEN)
    # Cutting may have joined the halves of a tag: nobody writes that by accident, so the rest is private too.
    joined = _find_tags(rest, 1) if len(pieces) > 1 else []
    return (
        (rest[: joined[0][0]], count + 1, MOST_OPEN, astray)
        if joined
        else (rest, count, depth, astray)
    )


def _find_tags(text: str, most: int) -> list[tuple[int, int, bool, bool]]:
    view = view_text(text)
    folded = fold(view.text if view else text)
    lowered = lower(folded)
    at = 0
    tags = list[tuple[int, int, bool, bool]]()
    word = lowered.find("private")
    while word >= 0 and len(tags) < most:
        head = re.compile(rf"{_TAG_HEAD}\Z").search(folded, max(at, word - _BEFORE_WORD), word)
        tag = (
            re.compile(_TAG).match(folded, head.start(), head.start() + _TAG_LENGTH)
            if head
            else None
        )
        if tag:
            start, end = view.locate(*tag.span()) if view else tag.span()
            tags.append((start, end, bool(tag["close"]), (tag["rest"] or "").rstrip()[-1:] == "/"))
        at = tag.end() if tag else word + 7
        word = lowered.find("private", at)
    return tags


def has_private_parts(text: str) -> bool:
    """Check for private parts or a key: a piece of the file may come from inside of one."""
    text = remove_codes(text)
    return has_private_key(text) or strip_private(text)[0] != text


# --- the texts of one event ---------------------------------------------------------------------

_WINDOW = 64_000
_EDGE = 8_000
"""Of a very long text this much of either end is searched; what is at the inner edges is dropped."""
_LONGEST = 1_000_000  # so much of either end is searched for private parts
# what the rules search in one event: about 2 seconds in the worst case
_MOST_CHARACTERS = 320_000
_MOST_TEXTS = 12_000
_PATTERN_WINDOW = 160_000
_HARMLESS: set[str] = set()
_SHORT = 40
_MOST_HARMLESS = 10_000
"""Short texts without anything to redact: an import sees the same names of members and tools again and again."""
_PATCH_LINE = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"


class AstrayTag(Exception):
    """A private part is closed that nothing opened."""


class Redactor:
    """Redacts the texts of one event in order; `open` parts hide later texts.

    A part that nothing had opened (`astray`) raises AstrayTag unless `tolerant`. Text beyond what the rules can search
    in time is dropped.
    """

    def __init__(self, patterns: Sequence[str], *, tolerant: bool = False) -> None:
        self.patterns = patterns
        self.tolerant = tolerant
        self.open = 0
        self.astray = False
        self._characters = _MOST_CHARACTERS
        self._texts = _MOST_TEXTS

    def __call__(self, text: str, window: int = _WINDOW) -> str:
        """Return the text as it may be stored; of a long one only its ends."""
        if self.open >= MOST_OPEN or self._characters <= 0 or self._texts <= 0:
            return ""
        self._texts -= 1
        if text in _HARMLESS and not (self.open or self.patterns):
            return text
        # The rules search their keywords as well, so a long text is checked first only when the budget runs low.
        check = len(text) < 2_000 or 2 * self._characters < _MOST_CHARACTERS
        if (
            not self.open
            and not self.patterns
            and len(text) <= 2 * window
            and check
            and not needs_rules(text)
        ):
            self._characters -= len(text) // 8
            if len(text) <= _SHORT and len(_HARMLESS) < _MOST_HARMLESS:
                _HARMLESS.add(text)
            return text
        lost = False
        if len(text) > 2 * _LONGEST:
            middle = text[_LONGEST - _EDGE : _EDGE - _LONGEST]
            # A tag may be in what is dropped: then the rest is private.
            lost = has_invisible(middle) or "private" in lower(fold(middle))
            note = f"\n[... {len(text) - 2 * _LONGEST:,} characters left out ...]\n"
            text = text[:_LONGEST] + ("" if lost else note + text[-_LONGEST:])
        text, _, still_open, astray = _cut_private_parts(text, self.open, wary=True)
        self.open = MOST_OPEN if lost else still_open
        self.astray = self.astray or astray
        if astray and not self.tolerant:
            raise AstrayTag
        window = max(window, _PATTERN_WINDOW) if self.patterns else window
        self._characters -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._without_secrets(text)
        head = self._without_secrets(text[:window])
        tail = self._without_secrets(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"

    def _without_secrets(self, text: str) -> str:
        """As it came, for a code may precede a secret, and again as it is stored."""
        redacted = _redact_patch(text, self.patterns)
        stored = remove_codes(redacted)
        return redacted if stored == redacted else _redact_patch(stored, self.patterns)


def _redact_patch(text: str, patterns: Sequence[str]) -> str:
    """Also without the `-` of a patch: `-ghp_...` is a token that was removed."""
    text = redact(text, patterns).text
    unsigned = (
        re.compile(_PATCH_LINE).sub(" ", text) if "-" in text and token_prefixes(text) else text
    )
    if unsigned == text:
        return text
    return replace_spans(
        text, [(each.start, each.end, each.kind) for each in find_secrets(unsigned, patterns)]
    )


# --- JSON values ---------------------------------------------------------------------------------

_DEEPEST = 24
_WIDEST = 1_000
_MOST_MEMBERS = 8_000
"""Nesting, members of one list or object, and members of a value: no honest payload has more."""


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Apply a function to each text of a value, names of members too, in their order.

    What is nested too deep or beyond too many members is dropped; of a long list only the tags in its middle are passed
    on.
    """
    room = _MOST_MEMBERS

    def visit(value: object, depth: int) -> object:
        nonlocal room
        if isinstance(value, str):
            return change(value)
        if not isinstance(value, dict | list | tuple) or depth >= _DEEPEST:
            return None if isinstance(value, dict | list | tuple) else value
        is_object = isinstance(value, dict)
        result = list[tuple[str, object]]()
        members: list[tuple[object, object]] = list(
            value.items() if isinstance(value, dict) else enumerate(value)
        )
        half = _WIDEST // 2 if len(members) > _WIDEST else len(members)
        for number, (key, inner) in enumerate(
            [*members[:half], *members[max(half, len(members) - half) :]]
        ):
            if number == half:
                gap = members[half : len(members) - half]
                # Blank lines, more than a tag may contain, so that the joined texts make no new tag.
                tags = _find_tags(("\n" * 9).join(all_texts(gap)), _MOST_TAGS + 1)
                change("".join("</private>" if tag[2] else "<private>" for tag in tags))
                note = f"[... {len(gap):,} left out ...]"
                result.append((note, note))
            room -= 1
            if room < 0:
                break
            name = change(str(key)) if is_object else ""
            result.append((name, visit(inner, depth + 1)))
        return dict(result) if is_object else [inner for _, inner in result]

    return visit(value, 0)


def all_texts(value: object) -> Iterator[str]:
    """Yield every text of a value in order, names of members too."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            waiting.extend(part for item in reversed(inner.items()) for part in reversed(item))
        elif isinstance(inner, list | tuple):
            waiting.extend(reversed(inner))


_names_secret = lru_cache(maxsize=1_000)(secret_name)


def redact_members(value: object, patterns: Sequence[str] = (), key: str = "") -> object:
    """Redact values that only their member's name makes a secret."""
    if isinstance(value, dict):
        title = value.get("name", value.get("key"))
        key = title if isinstance(title, str) and "value" in value and _names_secret(title) else key
        return {
            name: redact_members(inner, patterns, name if _names_secret(name) else key)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [redact_members(inner, patterns, key) for inner in value]
    if not key or value is None or isinstance(value, bool) or value == key:
        return value
    findings = [
        each for each in find_secrets(f'"{key}": "{value}"', patterns) if each.end > len(key) + 5
    ]
    return f"[redacted: {findings[0].kind}]" if findings else value


_LONGEST_TEXT = 12_000
"""Characters of one text: several times what an observation keeps, so that its outcome can still be judged."""
_LARGEST_LINE = 96 * 1024
_PAYLOAD_WINDOW = 16_000
_EDITS = ("old_string", "new_string", "content", "new_source", "edits")


def redact_payload(payload: dict[str, object], patterns: Sequence[str] = ()) -> dict[str, object]:
    """Return a payload redacted and shortened; no edit of a file with private parts."""
    payload = _without_private_edit(payload)
    redactor = Redactor(patterns, tolerant=True)
    result = map_texts(
        payload, lambda text: _shorten(redactor(text, _PAYLOAD_WINDOW), _LONGEST_TEXT)
    )
    if redactor.astray and redactor.open:
        # Opened in one text and closed in an earlier one: nobody can say what is between them.
        names = ("session_id", "cwd", "hook_event_name", "tool_name")
        result = {name: payload[name] for name in names if isinstance(payload.get(name), str)}
    result = redact_members(result, patterns)
    for longest in (2_000, 200, 20):
        if sum(map(len, all_texts(result))) <= _LARGEST_LINE:
            break
        result = map_texts(result, partial(_shorten, longest=longest))
    result = result if isinstance(result, dict) else {}
    session = payload.get("session_id")
    if isinstance(session, str):  # it may have been shortened, or come after too many members
        result["session_id"] = _shorten(Redactor(patterns, tolerant=True)(session), _LONGEST_TEXT)
    return result


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _without_private_edit(payload: dict[str, object]) -> dict[str, object]:
    """Drop the original file, and the edit if any of its texts is private."""
    parameters = payload.get("tool_input")
    answer = payload.get("tool_response")
    if not isinstance(parameters, dict):
        return payload
    edits = [parameters[name] for name in _EDITS if name in parameters]
    patches = [text for text in all_texts(list(parameters.values())) if "*** Begin Patch" in text]
    if isinstance(answer, dict) and "originalFile" in answer:
        hunks = [hunk for hunk in _list(answer.get("structuredPatch")) if isinstance(hunk, dict)]
        lines = [
            line for hunk in hunks for line in _list(hunk.get("lines")) if isinstance(line, str)
        ]
        edits += [answer["originalFile"], "\n".join(line[1:] for line in lines)]
        answer = {name: value for name, value in answer.items() if name != "originalFile"}
    if any(
        has_private_parts("\n".join(line[1:] for line in patch.split("\n"))) for patch in patches
    ):
        parameters = {
            "input": "\n".join(
                line for patch in patches for line in patch.split("\n") if line[:4] == "*** "
            )
        }
    elif any(map(has_private_parts, all_texts(edits))):
        parameters = {name: value for name, value in parameters.items() if name not in _EDITS}
        flags = ("filePath", "interrupted", "isError", "is_error")
        answer = (
            {name: value for name, value in answer.items() if name in flags}
            if isinstance(answer, dict)
            else ""
        )
    return {
        **payload,
        "tool_input": parameters,
        **({"tool_response": answer} if "tool_response" in payload else {}),
    }


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# --- private paths ------------------------------------------------------------------------------

_NAME = r"[^\s\"'`()<>=,;|&\[\]{}]{1,1000}"
_POSITION = r"(?s):\d+(?:[:-]\d+)?(?::.*)?$|[:.]+$"
_LONGEST_LISTING = 400_000


class PrivatePaths:
    """The globs of `privacy.paths`.

    One without a slash, or with `**/` before it, matches anywhere; another one from the session's folder or the root.
    What is inside of a folder that matches is private, and case does not matter: hiding too much is a nuisance, too
    little a leak.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        from fnmatch import translate  # few projects have globs
        from os.path import expanduser

        anywhere = list[str]()
        rooted = list[str]()
        for each in globs:
            glob = (
                expanduser(each.strip()).lower().removeprefix("./").rstrip("/").removesuffix("/**")
            )
            if glob:
                target = anywhere if glob.startswith("**/") or "/" not in glob else rooted
                target.append(
                    translate(glob.removeprefix("**/")).removesuffix(r"\Z").removesuffix(r"\z")
                )
        self._anywhere = re.compile(
            rf"(?:^|/)(?:{'|'.join(anywhere)})(?=/|\Z)" if anywhere else r"(?!)"
        )
        self._rooted = re.compile(rf"(?:{'|'.join(rooted)})(?=/|\Z)" if rooted else r"(?!)")

    def match(self, name: str, folder: str) -> bool:
        """Check whether a name is private, or in a private folder."""
        from os.path import expanduser, join, normpath  # few projects have globs

        full = normpath(join(folder, expanduser(name))).lower()
        inner = full.removeprefix(folder.rstrip("/") + "/") if folder else full
        return bool(
            self._anywhere.search(full.strip("/"))
            or self._rooted.match(full)
            or self._rooted.match(inner)
        )

    def named_in(self, texts: Iterable[str], names: Iterable[str], folder: str) -> bool:
        """Check whether texts or names mention a private file: `git diff` shows files too."""
        folder = folder.lower()
        candidates = {*names, *_file_names(texts)}
        return any(
            self.match(name.lower(), folder) for name in candidates if name and "\0" not in name
        )


def _file_names(texts: Iterable[str]) -> Iterator[str]:
    """Also as `name:12:` and as `a/name` of a patch."""
    for text in texts:
        for match in {
            *re.compile(_NAME).findall(text[:_LONGEST_LISTING])
        }:  # output repeats its names
            name = re.compile(_POSITION).sub("", match).removeprefix("file://")
            yield name
            if name.startswith(("a/", "b/", "@")):
                yield name.partition("/")[2] if name[1:2] == "/" else name[1:]
            if ":" in name:
                yield from (part for part in name.split(":") if part)


def mentions_private_path(payload: dict[str, object], globs: Sequence[str]) -> bool:
    """Check whether a tool's payload names a private file."""
    answer = payload.get("tool_response")
    folder = payload.get("cwd")
    if isinstance(answer, dict) and "originalFile" in answer:
        answer = answer.get("filePath")  # the rest is the content of the file
    texts = all_texts([payload.get("tool_input"), answer, payload.get("error")])
    return PrivatePaths(globs).named_in(texts, (), folder if isinstance(folder, str) else "")


# --- what people and agents add -----------------------------------------------------------------

_NOTE = 4_000  # characters of a note that are stored: its beginning and its end


def clean_memory(
    text: str,
    tags: Sequence[str] = (),
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> tuple[str, int]:
    """Remove private parts and blank edges; Refused for a secret, or when nothing remains."""
    clean = _refuse_secrets(
        text, "this", allow_secret, patterns, "say what was learned, in a sentence"
    )
    return clean.text, clean.private + count_private_tags(
        tags, allow_secret=allow_secret, patterns=patterns
    )


def clean_title(text: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> Clean:
    """Return a title on one line; Refused when nothing remains of it."""
    clean = _refuse_secrets(
        text, "the title", allow_secret, patterns, "say in a few words what is to be done"
    )
    return Clean(" ".join(clean.text.split()), (), clean.private)


def clean_description(
    text: str, what: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> Clean:
    """Return a description or a reason, which may be empty."""
    return _refuse_secrets(text, f"the {what}", allow_secret, patterns)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags without private parts, blanks and `#`, each once."""
    spellings: dict[str, str] = {}
    for tag in strip_private(",".join(tags))[0].split(","):
        if tidy := tag.strip().lstrip("#").strip():
            spellings.setdefault(tidy.casefold(), tidy)
    return tuple(spellings.values())


def count_private_tags(
    tags: Sequence[str], *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> int:
    """Count the private parts of tags; Refused when one is a secret."""
    return _refuse_secrets("\n".join(tags), "a tag", allow_secret, patterns).private if tags else 0


def redact_note(text: str, patterns: Sequence[str] = ()) -> str:
    """Redact what an agent or a check printed; of a long one both ends."""
    public = redact(invisible_characters.clean_text(text), patterns).text.strip()
    public = public.encode("utf-8", "replace").decode("utf-8")
    if len(public) <= _NOTE:
        return public
    return f"{public[: _NOTE // 4].rstrip()}\n[...]\n{public[-3 * _NOTE // 4 :].lstrip()}"


def redact_value(value: object, patterns: Sequence[str] = ()) -> object:
    """Redact every text in a JSON value, and remove its invisible characters."""
    if isinstance(value, str):
        return redact(invisible_characters.clean_text(value), patterns).text
    if isinstance(value, list | tuple):
        return [redact_value(each, patterns) for each in value]
    if isinstance(value, dict):
        return {
            str(redact_value(key, patterns)): redact_value(inner, patterns)
            for key, inner in value.items()
        }
    return value


def _refuse_secrets(
    text: str, what: str, allow_secret: bool, patterns: Sequence[str], hint_if_empty: str = ""
) -> Clean:
    public, private = strip_private(text.replace("\r\n", "\n").replace("\r", "\n"))
    invisible_characters.check_text(public)
    findings = () if allow_secret else find_secrets(public, patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        line = f", line {findings[0].line}" if what == "this" else ""
        raise Refused(
            f"{what} looks like a secret ({kinds}{line}): nothing was stored",
            hint="leave the value out and say where it is kept; --allow-secret stores it anyway",
        )
    if hint_if_empty and not any(
        character.isprintable() and not character.isspace() for character in public
    ):
        why = " once its private parts are removed" if private else ""
        raise Refused(f"{what.replace('this', 'the text')} is empty{why}", hint=hint_if_empty)
    return Clean(re.sub(r"\A(?:[^\S\n]*\n)+", "", public.rstrip()), (), private)
