r"""Keep private text off the disk: cut `<private>` parts, redact secrets, hide files of `privacy.paths`.

`redact` is for one text: private parts go without a trace, a secret leaves `[redacted: kind]`; redacting twice
changes nothing more. `Redactor` is for the texts of one event in their order, because a private part that one text
opens hides the texts after it. `redact_payload` is what hooks store of a host's JSON. Hooks load this module, so it
imports nothing heavy, and bounds the work for one event.
"""

import re
from itertools import islice

from ralph.capture.assignments import secret_name
from ralph.capture.invisible_characters import fold, lower, may_have_splitters, remove_codes, view_text
from ralph.capture.secret_rules import needs_rules, token_prefixes
from ralph.capture.secrets import FoundSecret, find_secrets, replace_spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ralph.capture.invisible_characters import View

__all__ = ["Clean", "FoundSecret", "Redactor", "find_secrets", "redact"]


class Clean:
    """A text that may be stored, the secrets that were replaced, and the number of `private` parts cut out."""

    __slots__ = ("findings", "private", "text")

    def __init__(self, text: str, findings: tuple[FoundSecret, ...], private: int) -> None:
        self.text = text
        self.findings = findings
        self.private = private

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clean) and self._members() == other._members()

    def __hash__(self) -> int:
        return hash(self._members())

    def _members(self) -> tuple[object, ...]:
        return self.text, self.findings, self.private


def redact(text: str, patterns: "Sequence[str]" = ()) -> Clean:
    """Return the text without private parts, each secret replaced by its kind; `patterns` are the user's own."""
    stripped, private = strip_private(text)
    findings = find_secrets(stripped, patterns)
    result = replace_spans(stripped, [(finding.start, finding.end, finding.kind) for finding in findings])
    for _ in range(16 if findings else 0):
        again, more = strip_private(result)
        if again == result:
            break
        # A replaced secret made a tag short enough to be one.
        private, result = private + more, redact(again, patterns).text
    return Clean(result, findings, private)


# --- private parts ------------------------------------------------------------------------------

_LESS = r"(?:<|\\{1,8}(?:u003c|x3c)|&(?:amp;){0,4}(?:lt|\#0{0,4}60|\#x0{0,4}3c);|%3c)"
_MORE = r"(?:>|\\{1,8}(?:u003e|x3e)|&(?:amp;){0,4}(?:gt|\#0{0,4}62|\#x0{0,4}3e);|%3e)"
_SLASH = r"(?:\\{0,8}/|\\{1,8}(?:u002f|x2f)|&(?:amp;){0,4}(?:sol|\#0{0,4}47|\#x0{0,4}2f);|%2f)"
_SPACE = r"(?:\s|\\{1,8}[nrt]|%20|&nbsp;)"
_TAG_HEAD = rf"(?i){_LESS}{_SPACE}{{0,8}}+(?P<close>{_SLASH})?{_SPACE}{{0,8}}+"
_TAG = rf"{_TAG_HEAD}private(?P<rest>(?:{_SPACE}|{_SLASH})(?:[^<>&\\%]++|(?!{_MORE}|{_LESS})[&\\%])*+)?{_MORE}"
"""A tag in any of its spellings; its attributes end at the next `<` or `>` however that is written."""
_TAG_LENGTH, _BEFORE_WORD = 600, 260
"""A `<private` with no `>` for so long is not a tag; no spelling before the word is longer."""
_MOST_TAGS, MOST_OPEN = 20_000, 8
"""Nobody hides so many parts, or opens so many at once: what follows is private."""
_LONGEST_SPLIT = 2_000_000


class PublicText:
    """A text without its private parts.

    `count` parts were cut out, `open` are still open at its end; `astray`: one was closed that nothing had opened.
    """

    __slots__ = ("astray", "count", "open", "text")

    def __init__(self, text: str, count: int, still_open: int, astray: bool) -> None:
        self.text = text
        self.count = count
        self.open = still_open
        self.astray = astray


def strip_private(text: str) -> tuple[str, int]:
    """Return the text without its private parts and their number; an unclosed part goes to the end."""
    public = cut_private_parts(text)
    return public.text, public.count


def cut_private_parts(text: str, still_open: int = 0, *, wary: bool = False) -> PublicText:
    """Cut the private parts out of a text before which `still_open` parts were open.

    A closing tag without an opening one is removed; if `wary`, all text before it as well, because the opening tag
    may be in a text of which only the host knows that it came first.
    """
    view = view_text(text)
    folded = fold(view.text if view else text)
    if "private" not in lower(folded):
        return PublicText("" if still_open else text, 0, still_open, False)
    pieces, state = _outside_parts(text, folded, view, still_open, wary)
    joined = "".join(pieces)
    if len(pieces) < 2:
        return PublicText(joined, *state)
    # Cutting may have joined the halves of a tag: nobody writes that by accident, so the rest is private too.
    view = view_text(joined)
    tag = next(_find_tags(fold(view.text if view else joined)), None)
    if tag is None:
        return PublicText(joined, *state)
    start = view.locate(*tag.span())[0] if view else tag.start()
    return PublicText(joined[:start], state[0] + 1, MOST_OPEN, state[2])


def _find_tags(text: str) -> "Iterator[re.Match[str]]":
    """Yield the tags of a folded text; each is searched around its word."""
    lowered, at = lower(text), 0
    word = lowered.find("private")
    while word >= 0:
        head = re.compile(rf"{_TAG_HEAD}\Z").search(text, max(at, word - _BEFORE_WORD), word)
        tag = re.compile(_TAG).match(text, head.start(), head.start() + _TAG_LENGTH) if head else None
        if tag:
            yield tag
        at = tag.end() if tag else word + 7
        word = lowered.find("private", at)


def _outside_parts(
    text: str, folded: str, view: "View | None", depth: int, wary: bool
) -> tuple[list[str], tuple[int, int, bool]]:
    """Return the pieces outside of private parts; the number of outermost parts, those still open, any stray end."""
    pieces: list[str] = []
    count = at = 0
    astray = False
    tags = list(islice(_find_tags(folded), _MOST_TAGS + 1))
    for number, tag in enumerate(tags):
        start, end = view.locate(*tag.span()) if view else tag.span()
        if depth == 0:
            pieces.append(text[at:start])
        at = end
        if number == _MOST_TAGS:
            return pieces, (count + 1, MOST_OPEN, astray)
        if tag["close"]:
            astray = astray or depth == 0
            if depth == 0 and wary:
                count += any(pieces)
                pieces.clear()
            depth = max(0, depth - 1)
        elif not (tag["rest"] or "").rstrip().endswith("/") or any(
            after["close"] for after in tags[number + 1 : number + 2]
        ):
            count += depth == 0
            depth += 1
    if depth == 0:
        pieces.append(text[at:])
    return pieces, (count, min(depth, MOST_OPEN), astray)


def _may_have_tags(text: str) -> bool:
    if len(text) > _LONGEST_SPLIT and may_have_splitters(text):
        return True
    view = view_text(text)
    return "private" in lower(fold(view.text if view else text))


def _tags_only(text: str) -> str:
    """Return the tags of a text that is dropped: they may still open or close a part."""
    view = view_text(text)
    tags = list(islice(_find_tags(fold(view.text if view else text)), _MOST_TAGS + 1))
    if len(tags) > _MOST_TAGS:
        return "<private>" * MOST_OPEN
    return "".join("</private>" if tag["close"] else "<private>" for tag in tags)


def has_private_parts(text: str) -> bool:
    """Check whether a file has private parts or a private key: a piece of it may come from inside of one."""
    return "PRIVATE KEY" in text or strip_private(remove_codes(text))[0] != remove_codes(text)


# --- the texts of one event ---------------------------------------------------------------------

WINDOW, _EDGE = 64_000, 8_000
"""Of a very long text this much of either end is searched; what is at the inner edges is dropped."""
_LONGEST = 1_000_000
"""So much of either end is searched for private parts."""
_MOST_CHARACTERS, _MOST_TEXTS = 320_000, 12_000
"""What the rules search in one event: about 2 seconds in the worst case."""
_PATTERN_WINDOW = 160_000
DEEPEST = 24
"""Nesting of members: no honest payload goes deeper."""
_PATCH_LINE = r"(?m)(?:^|(?<=[\s\"']))-(?=\S{12})"


class AstrayTag(Exception):
    """A private part is closed that nothing opened; whoever joins the texts of an event must decide."""


class Redactor:
    """Redacts the texts of one event in order.

    It remembers how many private parts are `open`, and whether one was closed that nothing had opened (`astray`):
    that raises AstrayTag unless `tolerant`. Text beyond what the rules can search in time is dropped.
    """

    def __init__(self, patterns: "Sequence[str]", *, tolerant: bool = False) -> None:
        self.patterns = patterns
        self.tolerant = tolerant
        self.open = 0
        self.astray = False
        self._characters, self._texts = _MOST_CHARACTERS, _MOST_TEXTS

    def __call__(self, text: str, window: int = WINDOW) -> str:
        """Return the text as it may be stored; of one longer than two windows only its ends."""
        if self.open >= MOST_OPEN or self._characters <= 0 or self._texts <= 0:
            return ""
        self._texts -= 1
        # The rules search their keywords as well, so a long text is checked first only when the budget runs low.
        check = len(text) < 2_000 or 2 * self._characters < _MOST_CHARACTERS
        if not self.open and not self.patterns and len(text) <= 2 * window and check and not needs_rules(text):
            self._characters -= len(text) // 8
            return text
        text, lost = _shorten_enormous(text)
        public = cut_private_parts(text, self.open, wary=True)
        self.open, self.astray = MOST_OPEN if lost else public.open, self.astray or public.astray
        if public.astray and not self.tolerant:
            raise AstrayTag
        text, window = public.text, max(window, _PATTERN_WINDOW) if self.patterns else window
        self._characters -= min(len(text), 2 * window)
        if len(text) <= 2 * window:
            return self._without_secrets(text)
        head, tail = self._without_secrets(text[:window]), self._without_secrets(text[-window:])
        note = f"[... {len(text) - 2 * (window - _EDGE):,} characters left out ...]"
        return f"{head[:-_EDGE]}\n{note}\n{tail[_EDGE:]}"

    def _without_secrets(self, text: str) -> str:
        """Redact the text as it came, for a code may precede a secret directly, and again as it is stored."""
        redacted = redact_patch(text, self.patterns)
        stored = remove_codes(redacted)
        return redacted if stored == redacted else redact_patch(stored, self.patterns)


def _shorten_enormous(text: str) -> tuple[str, bool]:
    """Return the ends of an enormous text; only the first, and True, when a tag could be in what is dropped."""
    if len(text) <= 2 * _LONGEST:
        return text, False
    if _may_have_tags(text[_LONGEST - _EDGE : _EDGE - _LONGEST]):
        return text[:_LONGEST], True
    note = f"\n[... {len(text) - 2 * _LONGEST:,} characters left out ...]\n"
    return text[:_LONGEST] + note + text[-_LONGEST:], False


def redact_patch(text: str, patterns: "Sequence[str]" = ()) -> str:
    """Redact a text, also as it is without the `-` of a patch: `-ghp_...` is a token that was removed."""
    text = redact(text, patterns).text
    unsigned = re.compile(_PATCH_LINE).sub(" ", text) if "-" in text and token_prefixes(text) else text
    if unsigned == text:
        return text
    return replace_spans(text, [(each.start, each.end, each.kind) for each in find_secrets(unsigned, patterns)])


class _Gap:
    """Members of a long list or object that were dropped: how many, and the tags among them."""

    __slots__ = ("count", "tags")

    def __init__(self, members: "Sequence[object]") -> None:
        self.count = len(members)
        # Blank lines, more than a tag may contain, so that the joined texts make no new tag.
        self.tags = _tags_only(("\n" * 9).join(_texts(members)))

    def __str__(self) -> str:
        return f"[... {self.count:,} left out ...]"


_MOST_MEMBERS = 8_000
_WIDTHS = (4_000, 1_200, 400, 120, 40, 16, 8, 4, 2)


def map_texts(value: object, change: "Callable[[str], str]", depth: int = 0) -> object:
    """Apply a function to each text of a value, names of members too; what is nested too deep is dropped.

    Of too many members the middle of each long list is dropped; only the tags there are passed on.
    """
    if _has_more_members(value, _MOST_MEMBERS):
        shorter = (_shorten_lists(value, width, depth) for width in _WIDTHS)
        value = next((each for each in shorter if not _has_more_members(each, _MOST_MEMBERS)), None)
    return _map_texts(value, change, depth)


def _map_texts(value: object, change: "Callable[[str], str]", depth: int) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, _Gap):
        change(value.tags)
        return str(value)
    if depth >= DEEPEST:
        return None
    if isinstance(value, dict):
        return {change(str(key)): _map_texts(inner, change, depth + 1) for key, inner in value.items()}
    return [_map_texts(inner, change, depth + 1) for inner in value] if isinstance(value, list | tuple) else value


def _has_more_members(value: object, most: int) -> bool:
    room, waiting = most, [value]
    while waiting and room >= 0:
        inner = waiting.pop()
        if isinstance(inner, dict | list | tuple):
            room -= len(inner)
            waiting.extend(inner.values() if isinstance(inner, dict) else inner)
    return room < 0


def _shorten_lists(value: object, width: int, depth: int) -> object:
    """Keep the first and the last members of each list and object that has more than `width`."""
    if depth >= DEEPEST or not isinstance(value, dict | list | tuple):
        return value
    members = list(value.items() if isinstance(value, dict) else value)
    first = last = len(members)
    if len(members) > width:
        first, last = width - width // 2, len(members) - width // 2
    gap = _Gap(members[first:last])
    if isinstance(value, dict):
        shorter = {key: _shorten_lists(inner, width, depth + 1) for key, inner in members[:first]}
        shorter.update({str(gap): gap} if gap.count else {})
        shorter.update((key, _shorten_lists(inner, width, depth + 1)) for key, inner in members[last:])
        return shorter
    ends = [_shorten_lists(inner, width, depth + 1) for inner in members[:first] + members[last:]]
    return [*ends[:first], gap, *ends[first:]] if gap.count else ends


def _texts(value: object) -> "Iterator[str]":
    """Yield every text of a value in order, names of members too."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, _Gap):
            yield inner.tags
        elif isinstance(inner, dict):
            waiting.extend(part for item in reversed(inner.items()) for part in reversed(item))
        elif isinstance(inner, list | tuple):
            waiting.extend(reversed(inner))


def redact_members(value: object, patterns: "Sequence[str]" = (), key: str = "") -> object:
    """Redact values that only the name of their member makes a secret, also `{"name": ..., "value": ...}`."""
    if isinstance(value, dict):
        title = value.get("name", value.get("key"))
        key = title if isinstance(title, str) and "value" in value and secret_name(title) else key
        return {
            name: redact_members(inner, patterns, name if secret_name(name) else key) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [redact_members(inner, patterns, key) for inner in value]
    if not key or value is None or isinstance(value, bool) or value == key:
        return value
    found = [each for each in find_secrets(f'"{key}": "{value}"', patterns) if each.end > len(key) + 5]
    return f"[redacted: {found[0].kind}]" if found else value


# --- the payload of a hook ----------------------------------------------------------------------

LONGEST_TEXT = 12_000
"""Characters of one text: several times what an observation keeps, so that its outcome can still be judged."""
_LARGEST_LINE = 96 * 1024
_PAYLOAD_WINDOW = 16_000
_EDITS = ("old_string", "new_string", "content", "new_source", "edits")


def redact_payload(payload: "dict[str, object]", patterns: "Sequence[str]" = ()) -> "dict[str, object]":
    """Return a host's payload as it may be stored: redacted, with long texts shortened.

    Nothing of an edit is stored when its file has private parts: the edit may be inside of one.
    """
    payload = _without_private_edit(payload)
    redactor = Redactor(patterns, tolerant=True)
    result = map_texts(payload, lambda text: _shorten(redactor(text, _PAYLOAD_WINDOW), LONGEST_TEXT))
    if redactor.astray and redactor.open:
        # Opened in one text and closed in an earlier one: nobody can say what is between them.
        names = ("session_id", "cwd", "hook_event_name", "tool_name")
        result = {name: payload[name] for name in names if isinstance(payload.get(name), str)}
    result = redact_members(result, patterns)
    for longest in (2_000, 200, 20):
        if sum(map(len, _texts(result))) <= _LARGEST_LINE:
            break
        result = map_texts(result, lambda text, longest=longest: _shorten(text, longest))  # type: ignore[misc]
    return result if isinstance(result, dict) else {}


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _without_private_edit(payload: "dict[str, object]") -> "dict[str, object]":
    """Drop the original file of an edit, and the edit itself if the file, its old or its new text is private."""
    parameters, answer = payload.get("tool_input"), payload.get("tool_response")
    if not isinstance(parameters, dict):
        return payload
    edits = [parameters[name] for name in _EDITS if name in parameters]
    patches = [text for text in _texts(list(parameters.values())) if "*** Begin Patch" in text]
    if isinstance(answer, dict) and "originalFile" in answer:
        hunks = [hunk for hunk in _list(answer.get("structuredPatch")) if isinstance(hunk, dict)]
        lines = [line for hunk in hunks for line in _list(hunk.get("lines")) if isinstance(line, str)]
        edits += [answer["originalFile"], "\n".join(line[1:] for line in lines)]
        answer = {name: value for name, value in answer.items() if name != "originalFile"}
    if any(has_private_parts("\n".join(line[1:] for line in patch.split("\n"))) for patch in patches):
        parameters = {"input": "\n".join(line for patch in patches for line in patch.split("\n") if line[:4] == "*** ")}
    elif any(map(has_private_parts, _texts(edits))):
        parameters = {name: value for name, value in parameters.items() if name not in _EDITS}
        flags = ("filePath", "interrupted", "isError", "is_error")
        answer = {name: value for name, value in answer.items() if name in flags} if isinstance(answer, dict) else ""
    return {**payload, "tool_input": parameters, **({"tool_response": answer} if "tool_response" in payload else {})}


def _list(value: object) -> "list[object]":
    return value if isinstance(value, list) else []


# --- private paths ------------------------------------------------------------------------------

_NAME = r"[^\s\"'`()<>=,;|&\[\]{}]{1,1000}"
_POSITION = r"(?s):\d+(?:[:-]\d+)?(?::.*)?$|[:.]+$"
_LONGEST_LISTING = 400_000


class PrivatePaths:
    """The globs of `privacy.paths`.

    A glob without a slash, or one that begins with `**/`, matches anywhere; another one from the session's folder
    or, when it begins with `/` or `~`, from the root. What is inside of a folder that matches is private as well,
    and case does not matter: hiding too much is a nuisance, too little a leak.
    """

    def __init__(self, globs: "Sequence[str]") -> None:
        from fnmatch import translate  # few projects have globs
        from os.path import expanduser

        anywhere, rooted = list[str](), list[str]()
        for each in globs:
            glob = expanduser(each.strip()).lower().removeprefix("./").rstrip("/").removesuffix("/**")
            if glob:
                target = anywhere if glob.startswith("**/") or "/" not in glob else rooted
                target.append(translate(glob.removeprefix("**/")))
        free = "|".join(glob.removesuffix(r"\Z").removesuffix(r"\z") for glob in anywhere)
        # Folders and files in a row anywhere in a path: asking for each row would take a thousand times as long.
        self._anywhere = re.compile(rf"(?:^|/)(?:{free})(?=/|\Z)" if free else r"(?!)")
        self._rooted = re.compile("|".join(rooted) or r"(?!)")

    def match(self, name: str, folder: str) -> bool:
        """Check whether a name is that of a private file, or of something in a private folder."""
        from os.path import expanduser, join, normpath  # few projects have globs

        full = normpath(join(folder, expanduser(name))).lower()
        inner = full.removeprefix(folder.rstrip("/") + "/") if folder else full
        if self._anywhere.search(full.strip("/")):
            return True
        return any(self._rooted.match(path) for path in (*_parents(full), *_parents(inner)))

    def named_in(self, texts: "Iterable[str]", names: "Iterable[str]", folder: str) -> bool:
        """Check whether texts or names mention a private file: `git diff` and `grep -r` show files too."""
        folder = folder.lower()
        candidates = {*names, *_file_names(texts)}
        return any(self.match(name.lower(), folder) for name in candidates if name and "\0" not in name)


def _file_names(texts: "Iterable[str]") -> "Iterator[str]":
    """Yield everything that may be the name of a file, also as `name:12:` and as `a/name` of a patch."""
    for text in texts:
        for match in re.compile(_NAME).finditer(text[:_LONGEST_LISTING]):
            name = re.compile(_POSITION).sub("", match[0]).removeprefix("file://")
            yield name
            if name.startswith(("a/", "b/", "@")):
                yield name.partition("/")[2] if name[1:2] == "/" else name[1:]
            if ":" in name:
                yield from (part for part in name.split(":") if part)


def _parents(path: str) -> "Iterator[str]":
    """Yield a path and every folder that it is in."""
    while path and path != "/":
        yield path
        path = path.rpartition("/")[0]


def mentions_private_path(payload: "dict[str, object]", globs: "Sequence[str]") -> bool:
    """Check whether the payload of a tool names or shows a file of `privacy.paths`."""
    answer, folder = payload.get("tool_response"), payload.get("cwd")
    if isinstance(answer, dict) and "originalFile" in answer:
        answer = answer.get("filePath")  # the rest is the content of the file
    texts = _texts([payload.get("tool_input"), answer, payload.get("error")])
    return PrivatePaths(globs).named_in(texts, (), folder if isinstance(folder, str) else "")
