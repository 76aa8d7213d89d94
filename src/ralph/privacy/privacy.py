r"""Keep private text off the disk.

Three things are private: private parts (text inside `<private>` tags), secrets, and the files that
match `privacy.paths`. `Redactor` handles the texts of one event in order, because a private part
that opens in one text hides the texts after it. The `clean_*` functions handle what a person adds,
and refuse a secret instead of replacing it. Hooks load this module when the pre-filter finds
something, so it imports nothing heavy and limits the work for one event.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from ralph.core.errors import Hint, Refused
from ralph.lean import TYPE_CHECKING, record
from ralph.privacy import invisible_characters
from ralph.privacy.invisible_characters import fold, lower, remove_codes, view_text
from ralph.privacy.private_keys import has_private_key
from ralph.privacy.secret_names import secret_name
from ralph.privacy.secret_prefilter import has_invisible, needs_rules, token_prefixes
from ralph.privacy.secrets import FoundSecret, find_secrets, replace_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Json = dict[str, object]

__all__ = ["Clean", "FoundSecret", "Redactor", "find_secrets", "redact"]


@record
class Clean:
    """Text that may be stored, the secrets found in it, and how many private parts it lost."""

    text: str
    findings: tuple[FoundSecret, ...] = ()
    private: int = 0


def redact(text: str, patterns: Sequence[str] = ()) -> Clean:
    """Remove the private parts of a text, and replace each secret with a marker.

    A marker names the kind of secret: `[redacted: github token]`.
    """
    public, parts = strip_private(text)
    findings = find_secrets(public, patterns)
    result = _replace_secrets(public, findings)
    if findings:
        again, more_parts = strip_private(result)
        parts += more_parts
        if again != result:  # replacing a secret made a tag short enough to count as one
            result = redact(again, patterns).text
    return Clean(result, findings, parts)


def _replace_secrets(text: str, findings: Iterable[FoundSecret]) -> str:
    return replace_spans(text, [(finding.start, finding.end, finding.kind) for finding in findings])


# --- private parts ------------------------------------------------------------------------------

_LESS = r"(?:<|\\{1,8}(?:u003c|x3c)|&(?:amp;){0,4}(?:lt|\#0{0,4}60|\#x0{0,4}3c);|%3c)"
_MORE = r"(?:>|\\{1,8}(?:u003e|x3e)|&(?:amp;){0,4}(?:gt|\#0{0,4}62|\#x0{0,4}3e);|%3e)"
_SLASH = r"(?:\\{0,8}/|\\{1,8}(?:u002f|x2f)|&(?:amp;){0,4}(?:sol|\#0{0,4}47|\#x0{0,4}2f);|%2f)"
_SPACE = r"(?:\s|\\{1,8}[nrt]|%20|&nbsp;)"
_TAG_HEAD = rf"(?i){_LESS}{_SPACE}{{0,8}}+(?P<close>{_SLASH})?{_SPACE}{{0,8}}+"
_ATTRIBUTES = rf"(?:{_SPACE}|{_SLASH})(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*+"
_TAG = rf"{_TAG_HEAD}private(?P<rest>{_ATTRIBUTES})?{_MORE}"
"""A `<private>` or `</private>` tag in any spelling, such as `&lt;private&gt;` or `%3Cprivate%3E`.

Its attributes end at the next `<` or `>`, however that is spelled.
"""
_MAX_TAG_LENGTH = 600  # a `<private` without a `>` within this many characters is not a tag
_MAX_TAG_HEAD = 260  # no spelling of what precedes the word `private` is longer
_MAX_TAGS = 20_000  # per text; everything after that many is private
MOST_OPEN = 8  # parts open at the same time; with that many, everything else is private


@record
class _Tag:
    """An opening or closing `private` tag at `text[start:end]`. An empty tag ends with `/>`."""

    start: int
    end: int
    closes: bool
    is_empty: bool


@record
class _Cut:
    """What remains of a text once its private parts are removed.

    `parts` counts those that were removed and `open` those that are still open at the end.
    `is_astray` says that there was a closing tag without an opening one.
    """

    text: str
    parts: int
    open: int
    is_astray: bool = False


def strip_private(text: str) -> tuple[str, int]:
    """Remove the private parts of a text. Returns the rest and the number of parts.

    A part that is not closed extends to the end of the text.
    """
    cut = _cut_private_parts(text)
    return cut.text, cut.parts


def _cut_private_parts(text: str, depth: int = 0, *, wary: bool = False) -> _Cut:
    """Remove the private parts of a text that begins inside `depth` open parts.

    If `wary`, everything before a closing tag without an opening one is private as well, because
    the opening tag may be in an earlier text.
    """
    tags = _find_tags(text, _MAX_TAGS + 1)
    pieces: list[str] = []
    parts = 0
    position = 0
    is_astray = False
    for number, tag in enumerate(tags):
        if depth == 0:
            pieces.append(text[position : tag.start])
        position = tag.end
        if number == _MAX_TAGS:
            return _Cut("".join(pieces), parts + 1, MOST_OPEN, is_astray)
        if tag.closes and depth > 0:
            depth -= 1
        elif tag.closes:
            is_astray = True
            if wary:
                if any(pieces):
                    parts += 1
                pieces.clear()
        elif _opens_part(tags, number):
            if depth == 0:
                parts += 1
            depth += 1
    if depth == 0:
        pieces.append(text[position:])
    rest = "".join(pieces)
    joined_tag = _find_joined_tag(pieces)
    if joined_tag is not None:
        return _Cut(rest[: joined_tag.start], parts + 1, MOST_OPEN, is_astray)
    return _Cut(rest, parts, min(depth, MOST_OPEN), is_astray)


def _find_joined_tag(pieces: Sequence[str]) -> _Tag | None:
    """Return the first tag that came about when the part between its halves was cut out.

    Nobody writes that by accident, so everything after such a tag is private.
    """
    if len(pieces) < 2:
        return None
    tags = _find_tags("".join(pieces), 1)
    return tags[0] if tags else None


def _opens_part(tags: Sequence[_Tag], number: int) -> bool:
    """Check whether an opening tag opens a part. An empty tag does only before a closing tag."""
    if not tags[number].is_empty:
        return True
    return number + 1 < len(tags) and tags[number + 1].closes


def _find_tags(text: str, limit: int) -> list[_Tag]:
    view = view_text(text)
    folded = fold(view.text if view else text)
    lowered = lower(folded)
    tags: list[_Tag] = []
    position = 0
    word = lowered.find("private")
    while word >= 0 and len(tags) < limit:
        match = _match_tag(folded, position, word)
        if match is None:
            position = word + len("private")
        else:
            position = match.end()
            start, end = match.span()
            if view:
                start, end = view.locate(start, end)
            is_empty = (match["rest"] or "").rstrip().endswith("/")
            tags.append(_Tag(start, end, bool(match["close"]), is_empty))
        word = lowered.find("private", position)
    return tags


def _match_tag(folded: str, earliest: int, word: int) -> re.Match[str] | None:
    """Return the tag around the word `private` at position `word`, or None if there is none."""
    head_pattern = re.compile(rf"{_TAG_HEAD}\Z")
    head = head_pattern.search(folded, max(earliest, word - _MAX_TAG_HEAD), word)
    if head is None:
        return None
    return re.compile(_TAG).match(folded, head.start(), head.start() + _MAX_TAG_LENGTH)


def has_private_parts(text: str) -> bool:
    """Check for private parts or a private key, from which a piece of a file might come."""
    text = remove_codes(text)
    return has_private_key(text) or strip_private(text)[0] != text


# --- the texts of one event ---------------------------------------------------------------------

_WINDOW = 64_000  # characters to search with the rules at either end of a long text
_EDGE = 8_000  # characters to drop at the inner end of a window, where a secret may be cut
_PATTERN_WINDOW = 160_000  # the window if the user has patterns, which may match long texts
_PRIVATE_WINDOW = 1_000_000  # characters to search for private parts at either end
# How much the rules search in one event. The worst case takes about 2 seconds.
_MAX_CHARACTERS = 320_000
_MAX_TEXTS = 12_000
_MIN_UNCHECKED = 2_000  # characters from which the pre-filter costs about as much as the rules
_HARMLESS_COST = 8  # the rules take about this many times as long as the pre-filter
_MAX_HARMLESS_LENGTH = 40
_MAX_HARMLESS_TEXTS = 10_000
_HARMLESS: set[str] = set()
"""Short texts with nothing to redact. An import sees the same member and tool names often."""
_PATCH_LINE = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"


class AstrayTag(Exception):
    """Raised for a `</private>` tag that closes a part nothing opened."""


class Redactor:
    """Redacts the texts of one event, which must be passed in order.

    `open` counts the private parts that are still open and hide later texts. A closing tag without
    an opening one sets `astray`, and raises AstrayTag unless `tolerant`. Text beyond what the rules
    can search in time is dropped.
    """

    def __init__(self, patterns: Sequence[str], *, tolerant: bool = False) -> None:
        self.patterns = patterns
        self.tolerant = tolerant
        self.open = 0
        self.astray = False
        self._characters_left = _MAX_CHARACTERS
        self._texts_left = _MAX_TEXTS

    def __call__(self, text: str, window: int = _WINDOW) -> str:
        """Return the text in a form that may be stored. Only the two ends of a long text are kept.

        Raises AstrayTag for a closing tag without an opening one, unless `tolerant`.
        """
        if self.open >= MOST_OPEN or self._characters_left <= 0 or self._texts_left <= 0:
            return ""
        self._texts_left -= 1
        if not self.open and not self.patterns:
            if text in _HARMLESS:
                return text
            if self._is_worth_checking(text, window) and not needs_rules(text):
                self._note_harmless(text)
                return text
        text = self._without_private_parts(text)
        if self.patterns:
            window = max(window, _PATTERN_WINDOW)
        self._characters_left -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._without_secrets(text)
        head = self._without_secrets(text[:window])
        tail = self._without_secrets(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"

    def _is_worth_checking(self, text: str, window: int) -> bool:
        """Check whether to run the pre-filter first.

        The rules search for the same keywords, so a long text is pre-filtered only when the budget
        runs low.
        """
        if len(text) > 2 * window:
            return False
        is_budget_low = 2 * self._characters_left < _MAX_CHARACTERS
        return len(text) < _MIN_UNCHECKED or is_budget_low

    def _note_harmless(self, text: str) -> None:
        self._characters_left -= len(text) // _HARMLESS_COST
        if len(text) <= _MAX_HARMLESS_LENGTH and len(_HARMLESS) < _MAX_HARMLESS_TEXTS:
            _HARMLESS.add(text)

    def _without_private_parts(self, text: str) -> str:
        hides_tag = False
        if len(text) > 2 * _PRIVATE_WINDOW:
            middle = text[_PRIVATE_WINDOW - _EDGE : _EDGE - _PRIVATE_WINDOW]
            # If there may be a tag in the dropped text, everything after it is private.
            hides_tag = has_invisible(middle) or "private" in lower(fold(middle))
            note = f"\n[... {len(text) - 2 * _PRIVATE_WINDOW:,} characters left out ...]\n"
            tail = "" if hides_tag else note + text[-_PRIVATE_WINDOW:]
            text = text[:_PRIVATE_WINDOW] + tail
        cut = _cut_private_parts(text, self.open, wary=True)
        self.open = MOST_OPEN if hides_tag else cut.open
        self.astray = self.astray or cut.is_astray
        if cut.is_astray and not self.tolerant:
            raise AstrayTag
        return cut.text

    def _without_secrets(self, text: str) -> str:
        """Redact a text before and after removing its terminal codes.

        A code may directly precede a secret, or be inside one.
        """
        redacted = _redact_patch(text, self.patterns)
        stored = remove_codes(redacted)
        if stored == redacted:
            return redacted
        return _redact_patch(stored, self.patterns)


def _redact_patch(text: str, patterns: Sequence[str]) -> str:
    """Redact a text, including secrets after the `-` of a patch.

    In `-ghp_...`, the token is on a line that the patch removes.
    """
    text = redact(text, patterns).text
    if "-" not in text or not token_prefixes(text):
        return text
    unsigned = re.sub(_PATCH_LINE, " ", text)
    if unsigned == text:
        return text
    return _replace_secrets(text, find_secrets(unsigned, patterns))


# --- JSON values --------------------------------------------------------------------------------

# No honest payload exceeds these limits.
_MAX_DEPTH = 24
_MAX_WIDTH = 1_000  # members of one list or object
_MAX_MEMBERS = 8_000  # members of a whole value
_TAG_GAP = "\n" * 9  # more whitespace than a tag may contain


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Apply a function to each string in a JSON value, in order and including member names.

    Whatever is nested too deeply or follows too many members is dropped. The middle of a long list
    is left out too, except that its private tags are passed to the function.
    """
    return _TextMapper(change).map(value, 0)


class _TextMapper:
    """Applies a function to the strings in one value. `_room` is how many members may follow."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change
        self._room = _MAX_MEMBERS

    def map(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self._change(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= _MAX_DEPTH:
            return None
        if isinstance(value, dict):
            return dict(self._map_members(list(value.items()), depth, is_object=True))
        members = self._map_members(list(enumerate(value)), depth, is_object=False)
        return [inner for _, inner in members]

    def _map_members(
        self, members: list[tuple[object, object]], depth: int, *, is_object: bool
    ) -> list[tuple[str, object]]:
        half = len(members)
        if len(members) > _MAX_WIDTH:
            half = _MAX_WIDTH // 2
        gap = members[half:-half]
        result: list[tuple[str, object]] = []
        for number, (key, inner) in enumerate(members):
            if half <= number < len(members) - half:
                continue
            if gap and number == len(members) - half:
                result.append(self._skip(gap))
            self._room -= 1
            if self._room < 0:
                break
            name = self._change(str(key)) if is_object else ""
            result.append((name, self.map(inner, depth + 1)))
        return result

    def _skip(self, gap: list[tuple[object, object]]) -> tuple[str, str]:
        """Pass on the private tags in members that are left out, and return a note about them."""
        tags = _find_tags(_TAG_GAP.join(all_texts(gap)), _MAX_TAGS + 1)
        self._change("".join("</private>" if tag.closes else "<private>" for tag in tags))
        note = f"[... {len(gap):,} left out ...]"
        return note, note


def all_texts(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, in order and including member names."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            for name, member in reversed(inner.items()):
                waiting.append(member)
                waiting.append(name)
        elif isinstance(inner, list | tuple):
            waiting.extend(reversed(inner))


_names_secret = lru_cache(maxsize=1_000)(secret_name)


def redact_members(value: object, patterns: Sequence[str] = (), key: str = "") -> object:
    """Redact values that are recognisable as secrets only by a member's name.

    `key` is the innermost enclosing name that names a secret, or "".
    """
    if isinstance(value, dict):
        key = _secret_title(value) or key
        redacted = {}
        for name, inner in value.items():
            inner_key = name if _names_secret(name) else key
            redacted[name] = redact_members(inner, patterns, inner_key)
        return redacted
    if isinstance(value, list):
        return [redact_members(inner, patterns, key) for inner in value]
    if not key or value is None or isinstance(value, bool) or value == key:
        return value
    value_start = len(key) + 5  # after `"key": "`
    for finding in find_secrets(f'"{key}": "{value}"', patterns):
        if finding.end > value_start:
            return f"[redacted: {finding.kind}]"
    return value


def _secret_title(value: Json) -> str:
    """Return `password` for an object such as `{"name": "password", "value": "..."}`.

    Returns "" if the object does not name a secret this way.
    """
    title = value.get("name", value.get("key"))
    if isinstance(title, str) and "value" in value and _names_secret(title):
        return title
    return ""


# --- payloads of hooks --------------------------------------------------------------------------

_MAX_TEXT = (
    12_000  # characters, several times what an observation keeps: its outcome shows at the end
)
_MAX_LINE = 96 * 1024  # characters in all strings of a payload together
_SHORTER_TEXTS = (
    2_000,
    200,
    20,
)  # limits to try, one after the other, for a payload that is too large
_PAYLOAD_WINDOW = 16_000
_EDIT_MEMBERS = ("old_string", "new_string", "content", "new_source", "edits")
_RESULT_FLAGS = ("filePath", "interrupted", "isError", "is_error")
_NAME_MEMBERS = ("session_id", "cwd", "hook_event_name", "tool_name")


def redact_payload(payload: Json, patterns: Sequence[str] = ()) -> Json:
    """Return a hook's payload redacted and shortened.

    An edit is dropped if its texts or its file contain private parts.
    """
    payload = _without_private_edit(payload)
    redactor = Redactor(patterns, tolerant=True)
    result = map_texts(payload, lambda text: _shorten(redactor(text, _PAYLOAD_WINDOW), _MAX_TEXT))
    if redactor.astray and redactor.open:
        # A tag opens in one text and closes in an earlier one, so nobody knows what is private.
        result = {
            name: payload[name] for name in _NAME_MEMBERS if isinstance(payload.get(name), str)
        }
    result = redact_members(result, patterns)
    for longest in _SHORTER_TEXTS:
        if sum(map(len, all_texts(result))) <= _MAX_LINE:
            break
        result = map_texts(result, partial(_shorten, longest=longest))
    redacted = result if isinstance(result, dict) else {}
    session = payload.get("session_id")
    if isinstance(session, str):  # it may have been shortened or dropped above
        redacted["session_id"] = _shorten(Redactor(patterns, tolerant=True)(session), _MAX_TEXT)
    return redacted


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _without_private_edit(payload: Json) -> Json:
    """Drop the original file from an edit's payload.

    The edit itself is dropped as well if any of its texts has private parts.
    """
    parameters = payload.get("tool_input")
    if not isinstance(parameters, dict):
        return payload
    answer = payload.get("tool_response")
    edits = [parameters[name] for name in _EDIT_MEMBERS if name in parameters]
    if isinstance(answer, dict) and "originalFile" in answer:
        edits += [answer["originalFile"], _patched_text(answer)]
        answer = {name: value for name, value in answer.items() if name != "originalFile"}
    patches = [text for text in all_texts(list(parameters.values())) if "*** Begin Patch" in text]
    if any(map(_is_private_patch, patches)):
        parameters = {"input": "\n".join(_patch_headers(patches))}
    elif any(map(has_private_parts, all_texts(edits))):
        parameters = {
            name: value for name, value in parameters.items() if name not in _EDIT_MEMBERS
        }
        answer = _result_flags(answer)
    result = {**payload, "tool_input": parameters}
    if "tool_response" in payload:
        result["tool_response"] = answer
    return result


def _patched_text(answer: Json) -> str:
    """Return the lines of an edit's patch without the sign at the start of each."""
    lines = []
    for hunk in _as_list(answer.get("structuredPatch")):
        if isinstance(hunk, dict):
            lines += [line[1:] for line in _as_list(hunk.get("lines")) if isinstance(line, str)]
    return "\n".join(lines)


def _is_private_patch(patch: str) -> bool:
    return has_private_parts("\n".join(line[1:] for line in patch.split("\n")))


def _patch_headers(patches: Iterable[str]) -> Iterator[str]:
    for patch in patches:
        for line in patch.split("\n"):
            if line.startswith("*** "):
                yield line


def _result_flags(answer: object) -> object:
    if not isinstance(answer, dict):
        return ""
    return {name: value for name, value in answer.items() if name in _RESULT_FLAGS}


def _as_list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    return []


# --- private paths ------------------------------------------------------------------------------

_FILE_NAME = r"[^\s\"'`()<>=,;|&\[\]{}]{1,1000}"
_LINE_NUMBER = r"(?s):\d+(?:[:-]\d+)?(?::.*)?$|[:.]+$"
_MAX_LISTING = 400_000  # characters of a text to search for file names
_NO_MATCH = r"(?!)"


class PrivatePaths:
    """The globs in `privacy.paths`.

    A glob that has no slash or begins with `**/` matches anywhere. Any other glob matches from the
    session's folder or from the root of the file system. Everything inside a matching folder is
    private, and case is ignored: hiding too much is a nuisance, hiding too little is a leak.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        from fnmatch import translate  # few projects have globs
        from os.path import expanduser

        anywhere: list[str] = []
        rooted: list[str] = []
        for raw_glob in globs:
            glob = expanduser(raw_glob.strip()).lower().removeprefix("./")
            glob = glob.rstrip("/").removesuffix("/**")
            if not glob:
                continue
            regex = translate(glob.removeprefix("**/")).removesuffix(r"\Z").removesuffix(r"\z")
            if glob.startswith("**/") or "/" not in glob:
                anywhere.append(regex)
            else:
                rooted.append(regex)
        self._anywhere = re.compile(_NO_MATCH)
        self._rooted = re.compile(_NO_MATCH)
        if anywhere:
            self._anywhere = re.compile(rf"(?:^|/)(?:{'|'.join(anywhere)})(?=/|\Z)")
        if rooted:
            self._rooted = re.compile(rf"(?:{'|'.join(rooted)})(?=/|\Z)")

    def match(self, name: str, folder: str) -> bool:
        """Check whether a file is private or inside a private folder."""
        from os.path import expanduser, join, normpath  # few projects have globs

        full = normpath(join(folder, expanduser(name))).lower()
        inner = full
        if folder:
            inner = full.removeprefix(folder.rstrip("/") + "/")
        return bool(
            self._anywhere.search(full.strip("/"))
            or self._rooted.match(full)
            or self._rooted.match(inner)
        )

    def named_in(self, texts: Iterable[str], names: Iterable[str], folder: str) -> bool:
        """Check whether a private file is among the names or is mentioned in the texts.

        The output of `git diff`, for example, mentions files.
        """
        folder = folder.lower()
        for name in {*names, *_file_names(texts)}:
            if name and "\0" not in name and self.match(name.lower(), folder):
                return True
        return False


def _file_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield everything that may be a file name.

    This includes names in forms such as `name:12:`, and `a/name` in a patch.
    """
    for text in texts:
        distinct = set(re.findall(_FILE_NAME, text[:_MAX_LISTING]))  # output repeats its names
        for match in distinct:
            name = re.sub(_LINE_NUMBER, "", match).removeprefix("file://")
            yield name
            if name.startswith(("a/", "b/", "@/")):
                yield name[2:]
            elif name.startswith("@"):
                yield name[1:]
            if ":" in name:
                yield from filter(None, name.split(":"))


def mentions_private_path(payload: Json, globs: Sequence[str]) -> bool:
    """Check whether a tool's payload names a private file."""
    answer = payload.get("tool_response")
    folder = payload.get("cwd")
    if isinstance(answer, dict) and "originalFile" in answer:
        answer = answer.get("filePath")  # the rest is the file's content
    texts = all_texts([payload.get("tool_input"), answer, payload.get("error")])
    if not isinstance(folder, str):
        folder = ""
    return PrivatePaths(globs).named_in(texts, (), folder)


# --- what people and agents add -----------------------------------------------------------------

_MAX_NOTE = (
    4_000  # characters of a note that are stored: a quarter from its beginning, then its end
)


def clean_memory(
    text: str,
    tags: Sequence[str] = (),
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> tuple[str, int]:
    """Return a memory's text without private parts and blank edges, and how many parts there were.

    Private parts in the tags count as well. Raises Refused for a secret, or if nothing remains.
    """
    hint = "say what was learned, in a sentence"
    clean = _refuse_secrets(text, "this", allow_secret, patterns, hint)
    parts_in_tags = count_private_tags(tags, allow_secret=allow_secret, patterns=patterns)
    return clean.text, clean.private + parts_in_tags


def clean_title(text: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> Clean:
    """Return a title on one line. Raises Refused for a secret, or if nothing remains."""
    hint = "say in a few words what is to be done"
    clean = _refuse_secrets(text, "the title", allow_secret, patterns, hint)
    return Clean(" ".join(clean.text.split()), (), clean.private)


def clean_description(
    text: str, what: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> Clean:
    """Return a description or a reason, which may be empty. Raises Refused for a secret."""
    return _refuse_secrets(text, f"the {what}", allow_secret, patterns)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct tags without private parts, surrounding whitespace or `#`."""
    spellings: dict[str, str] = {}
    for raw_tag in strip_private(",".join(tags))[0].split(","):
        tag = raw_tag.strip().lstrip("#").strip()
        if tag:
            spellings.setdefault(tag.casefold(), tag)
    return tuple(spellings.values())


def count_private_tags(
    tags: Sequence[str], *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> int:
    """Count the private parts in tags. Raises Refused if a tag is a secret."""
    if not tags:
        return 0
    return _refuse_secrets("\n".join(tags), "a tag", allow_secret, patterns).private


def redact_note(text: str, patterns: Sequence[str] = ()) -> str:
    """Redact what an agent or a check printed. Only the two ends of a long text are kept."""
    public = redact(invisible_characters.clean_text(text), patterns).text.strip()
    public = public.encode("utf-8", "replace").decode("utf-8")
    if len(public) <= _MAX_NOTE:
        return public
    return f"{public[: _MAX_NOTE // 4].rstrip()}\n[...]\n{public[-3 * _MAX_NOTE // 4 :].lstrip()}"


def redact_value(value: object, patterns: Sequence[str] = ()) -> object:
    """Redact every string in a JSON value, and remove its invisible characters."""
    if isinstance(value, str):
        return redact(invisible_characters.clean_text(value), patterns).text
    if isinstance(value, list | tuple):
        return [redact_value(inner, patterns) for inner in value]
    if isinstance(value, dict):
        redacted = {}
        for key, inner in value.items():
            redacted[str(redact_value(key, patterns))] = redact_value(inner, patterns)
        return redacted
    return value


def _refuse_secrets(
    text: str, what: str, allow_secret: bool, patterns: Sequence[str], hint_if_empty: str = ""
) -> Clean:
    """Return text without private parts, leading blank lines and trailing whitespace.

    Raises Refused for a secret unless `allow_secret`, and for empty text if `hint_if_empty` is
    given. `what` names the text in the error.
    """
    public, parts = strip_private(text.replace("\r\n", "\n").replace("\r", "\n"))
    invisible_characters.check_text(public)
    findings = () if allow_secret else find_secrets(public, patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        line = f", line {findings[0].line}" if what == "this" else ""
        raise Refused(
            f"{what} looks like a secret ({kinds}{line}): nothing was stored",
            hint=(
                "leave the value out and say where it is kept",
                Hint("allow-secret", "--allow-secret stores it anyway"),
            ),
        )
    if hint_if_empty and not any(map(_is_visible, public)):
        why = " once its private parts are removed" if parts else ""
        raise Refused(f"{what.replace('this', 'the text')} is empty{why}", hint=hint_if_empty)
    return Clean(re.sub(r"\A(?:[^\S\n]*\n)+", "", public.rstrip()), (), parts)


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace()
