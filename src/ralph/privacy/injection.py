"""Recognise texts that read like instructions to an agent.

Such a text is stored, but not injected before a person has accepted it. Hooks load this module;
the classifier itself is loaded only when there is a text to check.
"""

from __future__ import annotations

from ralph.core.render import clean, join_list
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.record import Record


_KEY_CHARACTERS = 32  # of the hash of an accepted text


def withheld(by: str, text: str) -> bool:
    """Whether a text is not injected: no person wrote it, and it looks like prompt injection."""
    return by != "human" and looks_like_instructions(text)


def is_order(record: Record) -> bool:
    """Whether a record reads like an instruction to an agent.

    A person's prompt is tested as well: it may quote anything.
    """
    text = f"{record.title}\n{record.text}"
    own = record.extra.get("own")
    if record.family.value == "memory":
        text = guarded_text(record.title, record.text, record.tags)
    elif record.origin.by == "tool" and isinstance(own, int):
        # Of what the tool printed, only the error line is injected.
        text = f"{record.title}\n{record.text[:own]}\n\n{record.extra.get('error') or ''}"
    return looks_like_instructions(text)


def guarded_text(title: str, text: str, tags: str | Iterable[str]) -> str:
    """Join the parts of a record in which an instruction could hide."""
    return f"{title}\n{text}\n{join_list(tags)}"


def text_key(title: str, text: str, tags: str | Iterable[str]) -> str:
    """Return the hash that identifies a text which a person has accepted."""
    import hashlib  # only for texts that look like prompt injection

    digest = hashlib.sha256(guarded_text(title, text, tags).encode("utf-8", "replace"))
    return digest.hexdigest()[:_KEY_CHARACTERS]


def looks_like_instructions(text: str) -> bool:
    """Whether a text gives orders to the agent that reads it instead of informing it."""
    from ralph.privacy.injection_guard import is_injection

    shown = clean(text)
    return is_injection(text) or (shown != text and is_injection(shown))
