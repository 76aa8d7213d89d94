r"""Keep private text off the disk.

Three things are private: private sections (text inside `<private>` tags), secrets, and the files
that match `privacy.paths`. `redact` replaces secrets, for text that nobody can be asked about:

    redact("key ghp_9fK2... <private>x</private>").text  ->  "key [redacted: github token] "

The `clean_*` functions are for what a person or an agent adds. They refuse a secret instead of
replacing it, because somebody is there to rephrase the text. Hooks load this module for `redact`
alone, so the other functions import what they need themselves.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, record
from ralph.privacy.private_parts import strip_private
from ralph.privacy.secrets import FoundSecret, find_secrets, replace_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Clean", "FoundSecret", "find_secrets", "redact", "strip_private"]


@record
class Clean:
    """Text that may be stored, the secrets found in it, and how many private sections it lost."""

    text: str
    findings: tuple[FoundSecret, ...] = ()
    private: int = 0


def redact(text: str, patterns: Sequence[str] = ()) -> Clean:
    """Remove the private sections of a text, and replace each secret with a marker.

    A marker names the kind of secret: `[redacted: github token]`.
    """
    public, parts = strip_private(text)
    findings = find_secrets(public, patterns)
    result = replace_secrets(public, findings)
    if findings:
        again, more_parts = strip_private(result)
        parts += more_parts
        if again != result:  # replacing a secret made a tag short enough to count as one
            result = redact(again, patterns).text
    return Clean(result, findings, parts)


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
    """Return a memory's text without private sections and blank edges, and how many it had.

    Private sections in the tags count as well. Raises Refused for a secret, or if nothing remains.
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
    """Return the distinct tags without private sections, surrounding whitespace or `#`."""
    spellings: dict[str, str] = {}
    for raw_tag in strip_private(",".join(tags))[0].split(","):
        tag = raw_tag.strip().lstrip("#").strip()
        if tag:
            spellings.setdefault(tag.casefold(), tag)
    return tuple(spellings.values())


def count_private_tags(
    tags: Sequence[str], *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> int:
    """Count the private sections in tags. Raises Refused if a tag is a secret."""
    if not tags:
        return 0
    return _refuse_secrets("\n".join(tags), "a tag", allow_secret, patterns).private


def redact_note(text: str, patterns: Sequence[str] = ()) -> str:
    """Redact what an agent or a check printed. Only the two ends of a long text are kept."""
    from ralph.privacy import invisible_characters

    public = redact(invisible_characters.clean_text(text), patterns).text.strip()
    public = public.encode("utf-8", "replace").decode("utf-8")
    if len(public) <= _MAX_NOTE:
        return public
    return f"{public[: _MAX_NOTE // 4].rstrip()}\n[...]\n{public[-3 * _MAX_NOTE // 4 :].lstrip()}"


def redact_value(value: object, patterns: Sequence[str] = ()) -> object:
    """Redact every string in a JSON value, and remove its invisible characters."""
    from ralph.privacy import invisible_characters

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
    """Return text without private sections, leading blank lines and trailing whitespace.

    Raises Refused for a secret unless `allow_secret`, and for empty text if `hint_if_empty` is
    given. `what` names the text in the error.
    """
    from ralph.core.errors import Hint, Refused
    from ralph.privacy import invisible_characters

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
        why = " once its private sections are removed" if parts else ""
        raise Refused(f"{what.replace('this', 'the text')} is empty{why}", hint=hint_if_empty)
    return Clean(re.sub(r"\A(?:[^\S\n]*\n)+", "", public.rstrip()), (), parts)


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace()
