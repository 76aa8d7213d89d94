"""Make text from people and agents safe to store: memories, titles, tags, descriptions and notes.

A person can be asked again, so that private parts are removed and a secret is refused. An agent's note cannot, so that
its secrets are redacted and its length is limited.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ralph.capture import invisible_characters, privacy
from ralph.errors import Refused

NOTE = 4000
"""Characters of a note that are stored: its beginning and its end."""


@dataclass(frozen=True, slots=True)
class CleanText:
    """A text that may be stored, and how many private parts were removed from it."""

    text: str
    private: int = 0


def clean_text(
    text: str, tags: Sequence[str] = (), *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> tuple[str, int]:
    """Remove private parts and blank edges; Refused for a secret in text or tags, or when nothing is left."""
    public, private = _without_private(text, "this", allow_secret, patterns)
    public = _without_blank_edges(public)
    if not any(not char.isspace() and unicodedata.category(char) != "Cf" for char in public):
        why = " once its private parts are removed" if private else ""
        raise Refused(f"the text is empty{why}", hint="say what was learned, in a sentence")
    return public, private + count_private_tags(tags, allow_secret=allow_secret, patterns=patterns)


def clean_title(text: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> CleanText:
    """Return a title on one line; Refused when nothing is left of it."""
    public, private = _without_private(text, "the title", allow_secret, patterns)
    line = " ".join(public.split())
    if not any(char.isprintable() and not char.isspace() for char in line):
        why = " once its private parts are removed" if private else ""
        raise Refused(f"the title is empty{why}", hint="say in a few words what is to be done")
    return CleanText(line, private)


def clean_description(text: str, what: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> CleanText:
    """Return a description or a reason, which may be empty; `what` names it in an error."""
    public, private = _without_private(text, f"the {what}", allow_secret, patterns)
    return CleanText(_without_blank_edges(public), private)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags without private parts, blanks and `#`, each once in its first spelling."""
    public, _ = privacy.strip_private(",".join(tags))
    spellings: dict[str, str] = {}
    for tag in public.split(","):
        if tidy := tag.strip().lstrip("#").strip():
            spellings.setdefault(tidy.casefold(), tidy)
    return tuple(spellings.values())


def count_private_tags(tags: Sequence[str], *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> int:
    """Count the private parts of tags; Refused when one holds a secret."""
    return _without_private("\n".join(tags), "a tag", allow_secret, patterns)[1] if tags else 0


def redact_note(text: str, patterns: Sequence[str] = ()) -> str:
    """Redact what an agent or a check printed, and cut its middle when it is long."""
    public = privacy.redact(invisible_characters.clean_text(text), patterns).text.strip()
    public = public.encode("utf-8", "replace").decode("utf-8")
    if len(public) <= NOTE:
        return public
    return f"{public[: NOTE // 4].rstrip()}\n[...]\n{public[-3 * NOTE // 4 :].lstrip()}"


def redact_value(value: object, patterns: Sequence[str] = ()) -> object:
    """Redact every text in a JSON value, and remove its invisible characters."""
    if isinstance(value, str):
        return privacy.redact(invisible_characters.clean_text(value), patterns).text
    if isinstance(value, list | tuple):
        return [redact_value(each, patterns) for each in value]
    if isinstance(value, dict):
        return {str(redact_value(key, patterns)): redact_value(inner, patterns) for key, inner in value.items()}
    return value


def _without_private(text: str, what: str, allow_secret: bool, patterns: Sequence[str]) -> tuple[str, int]:
    public, private = privacy.strip_private(text.replace("\r\n", "\n").replace("\r", "\n"))
    invisible_characters.check_text(public)
    findings = () if allow_secret else privacy.find_secrets(public, patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        line = f", line {findings[0].line}" if what == "this" else ""
        raise Refused(
            f"{what} looks like a secret ({kinds}{line}): nothing was stored",
            hint="leave the value out and say where it is kept; --allow-secret stores it anyway",
        )
    return public, private


def _without_blank_edges(text: str) -> str:
    lines = text.rstrip().split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)
