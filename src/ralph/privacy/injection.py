"""Recognise text that reads like instructions to an agent.

Such text is stored, but it is not injected until a person has accepted it. Hooks load this module.
The classifier itself is loaded only when there is text to check.
"""

from __future__ import annotations

from ralph.core.render import clean, join_list
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.record import Record


GUARD_VERSION = 1
"""The version of the classifier. Judgements of other versions do not count.

Increase it with every change to the classifier, to its weights, or to what it is given to judge.
"""
_KEY_CHARACTERS = 32  # length of the hash that identifies an accepted text


def withheld(by: str, text: str) -> bool:
    """Return whether text looks like prompt injection and its author `by` is not a person.

    Such text must not be injected.
    """
    return by != "human" and looks_like_instructions(text)


def is_order(record: Record) -> bool:
    """Return whether a record reads like an instruction to an agent.

    A person's prompt is tested as well, because it may quote anything.
    """
    text = f"{record.title}\n{record.text}"
    agent_characters = record.extra.get("own")
    if record.family.value == "memory":
        text = guarded_text(record.title, record.text, record.tags)
    elif record.origin.by == "tool" and isinstance(agent_characters, int):
        # The error line is the only part of the tool's output that is ever injected.
        text = (
            f"{record.title}\n{record.text[:agent_characters]}\n\n{record.extra.get('error') or ''}"
        )
    return looks_like_instructions(text)


def guarded_text(title: str, text: str, tags: str | Iterable[str]) -> str:
    """Join the parts of a record in which an instruction could hide."""
    return f"{title}\n{text}\n{join_list(tags)}"


def text_key(title: str, text: str, tags: str | Iterable[str]) -> str:
    """Return the hash under which the acceptance of a text by a person is stored."""
    import hashlib  # only for texts that look like prompt injection

    digest = hashlib.sha256(guarded_text(title, text, tags).encode("utf-8", "replace"))
    return digest.hexdigest()[:_KEY_CHARACTERS]


def looks_like_instructions(text: str) -> bool:
    """Return whether text gives orders to the agent that reads it, rather than information."""
    from ralph.privacy.injection_guard import is_injection

    shown = clean(text)
    return is_injection(text) or (shown != text and is_injection(shown))
