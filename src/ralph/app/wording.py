"""The words of a task or a feature as they may be stored: titles, descriptions, reasons and notes.

What a person says is treated as `ralph memory add` treats it: private parts go, a secret is refused. What an
agent said (a `note`) cannot be asked for again, so its secrets are masked instead, and it is cut to a length
that a prompt can bear. A title is one line. `tests/app/test_task.py` looks for what must not reach the disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ralph.capture import invisible_characters, privacy
from ralph.errors import Refused

NOTE = 4000
"""Characters of a note that are kept: its beginning and its end."""


@dataclass(frozen=True, slots=True)
class Worded:
    """A text that may be stored, and how many private parts were left out of it."""

    text: str
    private: int = 0


def title(text: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> Worded:
    """A title on one line; Refused when nothing is left of it."""
    bare, private = _public(text, "title", allow_secret, patterns)
    line = " ".join(bare.split())
    if not any(char.isprintable() and not char.isspace() for char in line):
        why = " once its private parts are removed" if private else ""
        raise Refused(f"the title is empty{why}", hint="say in a few words what is to be done")
    return Worded(line, private)


def text(words: str, what: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()) -> Worded:
    """A description or a reason, which may be empty; `what` names it in an error."""
    bare, private = _public(words, what, allow_secret, patterns)
    lines = bare.rstrip().split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return Worded("\n".join(lines), private)


def note(words: str, patterns: Sequence[str] = ()) -> str:
    """What an agent or a check said, redacted and cut in the middle when it is long."""
    bare = privacy.redact(invisible_characters.clean_text(words), patterns).text.strip()
    bare = bare.encode("utf-8", "replace").decode("utf-8")
    if len(bare) <= NOTE:
        return bare
    return f"{bare[: NOTE // 4].rstrip()}\n[...]\n{bare[-3 * NOTE // 4 :].lstrip()}"


def foreign(value: object, patterns: Sequence[str] = ()) -> object:
    """Somebody's JSON value with every text in it redacted and without signs that nobody sees."""
    if isinstance(value, str):
        return privacy.redact(invisible_characters.clean_text(value), patterns).text
    if isinstance(value, list | tuple):
        return [foreign(each, patterns) for each in value]
    if isinstance(value, dict):
        return {str(foreign(key, patterns)): foreign(inner, patterns) for key, inner in value.items()}
    return value


def _public(words: str, what: str, allow_secret: bool, patterns: Sequence[str]) -> tuple[str, int]:
    bare, private = privacy.strip_private(words.replace("\r\n", "\n").replace("\r", "\n"))
    invisible_characters.check_text(bare)
    findings = () if allow_secret else privacy.find_secrets(bare, patterns)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        raise Refused(
            f"the {what} looks like it holds a secret ({kinds}): nothing was stored",
            hint="leave the value out and say where it is kept; --allow-secret stores it anyway",
        )
    return bare, private
