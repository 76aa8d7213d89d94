r"""An event that the screen stopped, or that is large: made safe with the rules of capture, and still one raw line.

Between the fast path, which knows no rules, and the full one, which loads everything, this runs the rules alone:
each text of the payload goes through the `Redactor` in the order of the payload, then names and values that stand
together are looked at, then long texts are cut to their ends. Of a change to a file only the lines that differ are
kept, and none if the file has private parts. What the adapters put together from several members (`own.words`,
`own.outline`) is looked at as a whole at last; if a rule still finds anything there, or whatever else is odd (a private
part that stays open, a key without its end, a payload that is too deep), it is a Doubt, and the full path decides.
The user's own patterns are applied as well, to every text and to what stands together.
`tests/hooks/test_careful.py` proves that nothing private or secret is in the bytes of the line, nor in the record.
"""

from ralph.capture import values
from ralph.capture.privacy import unveiled
from ralph.capture.redactor import DEEPEST, Redactor, mapped, named_secrets, plain, secretive, without_secrets
from ralph.capture.trim import trim
from ralph.capture.values import regex
from ralph.hooks.fast import EVENTS, encoded, flags_of
from ralph.hooks.own import CHANGES, PATCHES, Doubt, check_depth, members, patch_of, ready, strings, texts, together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 12_000
"""Characters of one text: several times what an observation keeps, so that its outcome can still be judged."""
_WINDOW = 16_000
_END = 700
"""Characters of a text's end that can mean something together with another text."""
LARGEST = 96 * 1024
"""Bytes of a line; what is larger has so many members that the full path should say what matters."""
_NEW_TEXTS = ("new_string", "content", "new_source")
_TEXTS = ("old_string", "edits", *_NEW_TEXTS)
_QUIET = ("session_id", "transcript_path", "cwd", "permission_mode", "hook_event_name", "prompt_id", "model", "turn_id")
"""Members that no private part can be opened in, and that none hides."""
_KNOWN = frozenset(
    (*_QUIET, *EVENTS, "prompt", "tool_name", "tool_input", "tool_response", "tool_use_id", "duration_ms", "error",
     "is_interrupt", "command", "description", "stdout", "stderr", "interrupted", "isImage", "Bash", "default", "plan",
     "acceptEdits", "bypassPermissions")
)  # fmt: skip
"""Words of the hosts: no rule finds anything in them."""


def matched(host: str, said: "dict[str, object]", patterns: tuple[str, ...]) -> bool:
    """Whether one of the user's patterns is found in an event in which the screen found nothing."""
    check_depth(said, DEEPEST)
    told = members(mapped(said, plain))
    seen = "\n".join(together(told, patch_of(host, told)))
    return any(_finds(patterns, text) for text in (seen, *texts(told)))


def _finds(patterns: tuple[str, ...], text: str) -> bool:
    if not patterns:
        return False
    seen = unveiled(text)  # a pattern must also find what unseen signs split
    forms = {text, plain(text)} if seen is None else {text, plain(text), seen.text}
    return any(regex(pattern).search(each) for pattern in patterns for each in forms)


def kept(
    host: str,
    said: "dict[str, object]",
    patterns: tuple[str, ...] = (),
    prepared: tuple[str, str] | None = None,
    compiled: str = "",
) -> bytes:
    """The payload as it may be kept, on one line; Doubt when that is not for us to say.

    `prepared` names the file with the compiled rules, and says which one it must be; `compiled` are the patterns.
    """
    if prepared and prepared[1]:
        from ralph.hooks.prepared import prepare  # noqa: PLC0415 - where there is such a file

        prepare(*prepared)
    values._EXPRESSIONS.update(ready(compiled))
    check_depth(said, DEEPEST)
    if host == "claude" and said.get("tool_name") in CHANGES:
        said = _changed(said)
    elif host == "codex":
        _check_patch(said)
    told = _redacted(said, patterns)
    if host == "claude":
        told = _as_patch(told)
    told = members(mapped(told, _short))
    seen = "\n".join(together(members(mapped(told, _ends)), patch_of(host, told)))
    if without_secrets(seen, patterns if _finds(patterns, seen) else ()) != seen:
        raise Doubt("a secret in several members")
    line = encoded(told)
    if len(line) > LARGEST or told.get("session_id") != said.get("session_id"):
        raise Doubt("large, or an odd session")
    return line


def _redacted(said: "dict[str, object]", patterns: tuple[str, ...]) -> "dict[str, object]":
    """Every text redacted, in the order of the payload, and then what only its name tells to be a secret."""
    redactor = Redactor(patterns)

    def words(text: str) -> str:
        if text in _KNOWN and not patterns and not redactor.open:
            return text
        redactor.patterns = patterns if _finds(patterns, text) else ()  # only then a long text is not cut
        if "PRIVATE KEY" in text or "Private-Lines" in text:
            _check_key(text)
            text = redactor(text)
        else:
            text = redactor(text, _WINDOW)
        if not redactor.patterns and _finds(patterns, text):
            raise Doubt("a pattern finds what was put together")
        return text

    quiet, told = True, {}
    for key, value in said.items():
        before, name = redactor.open, words(key)
        told[name] = mapped(value, words, 1)
        if redactor.open != before and not (quiet and key == "prompt"):
            raise Doubt("a private part stays open")
        quiet = quiet and key in _QUIET
    if redactor.astray and redactor.open:
        raise Doubt("a private part that was closed before")
    return members(named_secrets(told, patterns))


def _check_key(text: str) -> None:
    """A private key must end where it began: the rest of one that was cut could stand in the next text."""
    before = text.rpartition("PRIVATE KEY")[0]
    if "Private-Lines" in text or "END " not in before[-40:]:
        raise Doubt("a key without its end")


def _text(value: "dict[str, object]", *keys: str) -> str:
    for key in keys:
        found = value.get(key)
        if isinstance(found, str) and found:
            return found
    return ""


def _short(text: str) -> str:
    return trim(text, LONGEST)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _END else f"{text[:_END]}\n\n{text[-_END:]}"


# --- changes to files ---------------------------------------------------------------------------


def _changed(said: "dict[str, object]") -> "dict[str, object]":
    """The event of a change with the texts before and after it, once: the host tells them up to four times."""
    given, told = members(said.get("tool_input")), members(said.get("tool_response"))
    path = _text(given, "file_path", "notebook_path") or _text(told, "filePath")
    if not path:
        raise Doubt("a change without its file")
    hidden = secretive(_text(told, "originalFile"))
    places = [] if hidden else [_shown(before, after) for before, after in _places(given, told)]
    answer = {"filePath": path, **flags_of(told), "structuredPatch": places or [{}]}
    asked = {key: value for key, value in given.items() if key not in _TEXTS}
    return {**said, "tool_input": asked, "tool_response": answer}


def _shown(before: str, after: str) -> "dict[str, object]":
    """Before and after of a place; nothing of it when either has something private: the other may be the same."""
    return {} if secretive(before) or secretive(after) else {"before": before, "after": after}


def _places(given: "dict[str, object]", told: "dict[str, object]") -> "Iterator[tuple[str, str]]":
    """Before and after of each place, as `capture/hosts/claude` reads it."""
    hunks, edits = told.get("structuredPatch"), given.get("edits")
    if isinstance(hunks, list) and hunks:
        for hunk in hunks:
            found = members(hunk).get("lines")
            lines = [line for line in found if isinstance(line, str)] if isinstance(found, list) else []
            before = "\n".join(line[1:] for line in lines if not line.startswith(("+", "\\")))
            yield before, "\n".join(line[1:] for line in lines if not line.startswith(("-", "\\")))
        return
    for edit in edits if isinstance(edits, list) else [given]:
        yield _text(members(edit), "old_string"), _text(members(edit), *_NEW_TEXTS)


def _as_patch(told: "dict[str, object]") -> "dict[str, object]":
    """The redacted texts of a change as the lines of a patch, those that differ."""
    answer = members(told.get("tool_response"))
    places = answer.get("structuredPatch")
    if told.get("tool_name") not in CHANGES or not isinstance(places, list):
        return told
    hunks = [{"lines": _lines(_text(place, "before"), _text(place, "after"))} for place in map(members, places)]
    return {**told, "tool_response": {**answer, "structuredPatch": hunks}}


def _lines(before: str, after: str) -> list[str]:
    old, new = before.split("\n"), after.split("\n")
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    old, new = old[same:], new[same:]
    while old and new and old[-1] == new[-1]:
        old.pop()
        new.pop()
    texts = ("-", _short("\n".join(old))), ("+", _short("\n".join(new)))
    return [f"{sign}{line}" for sign, text in texts if text for line in text.split("\n")]


def _check_patch(said: "dict[str, object]") -> None:
    """A patch as one text: only without the signs before its lines would a private part be known for sure."""
    if said.get("tool_name") in PATCHES and any("private" in text.lower() for text in strings(said.get("tool_input"))):
        raise Doubt("a patch with something private")
