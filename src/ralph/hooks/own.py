r"""The user's own rules on an event in which the screen found nothing: `privacy.patterns` and `privacy.paths`.

Mostly neither finds anything, and then nothing else has to be loaded: the expressions come compiled from the settings
cache, and a text without colours, backslashes or signs that nobody sees is looked at as it is. All other texts are for
`careful`, which makes them plain first. Here are also the texts that readers put together from several members of an
event (`words`, `outline`), since a pattern may match there alone.
`tests/hooks/test_own.py` proves that this finds what `careful` does; `tests/hooks/test_unseen.py` the globs.
"""

import sys

from ralph.hooks.fast import scanned

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

DEEPEST = 24
"""How deep an event may be, as `capture/redactor` has it."""
CHANGES = ("Edit", "MultiEdit", "Write", "NotebookEdit")
PATCHES = ("apply_patch", "Edit", "Write")
_FILES = ("tool_input", "tool_response", "error")
"""The members of an event that can name files."""
_SPELLED = ("\\\\", "\\u", "\\r", "\\b", "\\f", "^[[")
"""What a text has in JSON that is not what it looks like, or that a backslash in it begins."""
_UNSEEN = ("\u034f", *map(chr, range(0xFE00, 0xFE10)))
"""Signs that nobody sees, beside those that Python does not print either."""


class Doubt(Exception):
    """The full path should decide."""


def check_hidden(host: str, said: "dict[str, object]", paths: tuple[str, ...]) -> None:
    """Doubt when an event may be about a file of `privacy.paths`."""
    if not any(key in said for key in _FILES):
        return
    from ralph.hooks.unseen import perhaps  # noqa: PLC0415 - not for prompts

    check_depth(said, DEEPEST)
    answer, cwd = said.get("tool_response"), said.get("cwd")
    if host == "claude" and said.get("tool_name") in CHANGES and isinstance(answer, dict):
        answer = answer.get("filePath")  # the rest is what the file holds
    elif isinstance(answer, str):
        answer = [answer, scanned(answer)]
    found = texts([said.get("tool_input"), answer, said.get("error")])
    if perhaps(found, cwd if isinstance(cwd, str) else "", paths):
        raise Doubt("a file that nobody may know of")


def matched(host: str, line: bytes, said: "dict[str, object]", patterns: tuple[str, ...], compiled: str = "") -> bool:
    """Whether one of the user's patterns is found in an event, which is this line as JSON.

    `compiled` is what the settings cache has of the patterns.
    """
    if not simple(line):
        from ralph.hooks.careful import matched as carefully  # noqa: PLC0415 - it brings the rules

        return carefully(host, said, patterns)
    check_depth(said, DEEPEST)
    looked = ("\n".join(together(said, patch_of(host, said))), *texts(said))
    held = ready(compiled)
    return any((held.get(each) or _compiled(each)).search(text) for each in patterns for text in looked)


def simple(line: bytes) -> bool:
    """Whether no text of an event, which is this line as JSON, has a sign that the rules would look at twice."""
    text = line.decode("utf-8", "replace")
    if not text.isprintable() or any(sign in text for sign in _SPELLED):
        return False
    return text.isascii() or not any(sign in text for sign in _UNSEEN)


def ready(compiled: str) -> "dict[str, re.Pattern[str]]":
    """The patterns that the settings cache has compiled, by their source; none when another Python did that."""
    if not compiled:
        return {}
    import _sre  # type: ignore[import-not-found]  # noqa: PLC0415 - private, and nobody has described it

    said = scanned(compiled) or {}
    held = said.get("expressions")
    if said.get("for") != [_sre.MAGIC, sys.hexversion] or not isinstance(held, dict):
        return {}
    return {source: made(source, *code) for source, code in held.items()}


def _compiled(pattern: str) -> "re.Pattern[str]":
    from ralph.capture.values import regex  # noqa: PLC0415 - it brings the compiler

    return regex(pattern)


def made(source: str, code: str, flags: int, groups: int, names: "dict[str, int]") -> "re.Pattern[str]":
    """An expression of its compiled code, in hexadecimal digits."""
    import _sre  # noqa: PLC0415 - private, hence here

    order = {number: name for name, number in names.items()}
    units = memoryview(bytes.fromhex(code)).cast("I").tolist()
    found: re.Pattern[str]
    found = _sre.compile(source, flags, units, groups, names, tuple(map(order.get, range(groups + 1))))
    return found


def texts(value: object) -> "Iterator[str]":
    """Everything that is said, names of members and numbers too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif value is not None:
        yield str(value)


def check_depth(value: object, left: int) -> None:
    """Doubt when a value is deeper than that."""
    if not left:
        raise Doubt("too deep")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_depth(inner, left - 1)


def members(value: object) -> "dict[str, object]":
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


# --- what stands together -----------------------------------------------------------------------


def patch_of(host: str, told: "dict[str, object]") -> str:
    """The text of a patch, which readers take apart line by line."""
    patched = host == "codex" and told.get("tool_name") in PATCHES
    return "\n".join(strings(told.get("tool_input"))) if patched else ""


def together(told: "dict[str, object]", patch: str) -> "Iterator[str]":
    """The texts that readers put together from several members: what a tool answered, patches, and the whole."""
    yield words(told.get("tool_response"))
    yield words(told.get("error"))
    yield "\n".join(strings(told))
    lines = [*patch.split("\n"), *"\n".join(strings(told)).split("\n")]
    yield "\n".join(line[1:] for line in lines if not line.startswith("+"))
    yield "\n".join(line[1:] for line in lines if not line.startswith("-"))
    yield from (f"{key}: {outline(value, 0)}" for key, value in members(told.get("tool_input")).items())
    yield outline(told)


def strings(value: object) -> "Iterator[str]":
    """The texts of a value, without the names of members."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


_WORDS = ("content", "llmContent", "text", "result", "output", "message")


def words(value: object) -> str:
    """What a tool answered, as `capture/event.words_of` puts it together; pictures included."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(words, value)))
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    if "stdout" in value or "stderr" in value:
        return "\n".join(filter(None, (words(value.get("stdout")), words(value.get("stderr")))))
    for key in _WORDS:
        if value.get(key):
            return words(value[key])
    return outline(value, 0)


def outline(value: object, depth: int = 1) -> str:
    """A value in the manner of JSON, with texts as they are, as `capture/event.outline` does."""
    if isinstance(value, str):
        return f'"{value}"' if depth else value
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {outline(inner)}' for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(outline, value)) + "]"
    return str(value)
