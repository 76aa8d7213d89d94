"""Recognise a prompt with which a person asks Ralph to remember something.

The request is the first paragraph of the prompt, and it begins with a prefix such as `remember:`:

    remember: deploys go through `make ship`, never `git push heroku`

    Now fix the failing test.

Here the text to remember ends at the blank line. A prefix that ends with a colon or a comma is
unmistakable. After any other prefix, such as `remember that`, a question is not a request:
"Remember that script we wrote? Where is it?" Hooks load this module.
"""

from __future__ import annotations

from ralph.core.prompts import human_prompt
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REMEMBER_PREFIXES = (
    # English
    "remember:",
    "remember that",
    "please remember:",
    "please remember that",
    # German
    "merke:",
    "merk dir:",
    "merke dir:",
    "merk dir, dass",
    "merke dir, dass",
    "bitte merken:",
    # Spanish
    "recuerda:",
    "recuerda que",
    "recuerde:",
    "recuerde que",
    "acuérdate:",
    "acuérdate de que",
    # French
    "retiens:",
    "retiens que",
    "retenez:",
    "retenez que",
    "souviens-toi:",
    "souviens-toi que",
    # Korean
    "기억:",
    "기억해:",
    "기억해줘:",
    "기억해 줘:",
    "기억해주세요:",
    "기억해 주세요:",
    # Japanese
    "覚えて:",
    "覚えておいて:",
    "覚えといて:",
    "覚えておいてください:",
    "記憶して:",
    # Chinese
    "记住:",
    "记住,",
    "请记住:",
    "请记住,",
    "記住:",
    "請記住:",
)
COMMAND = "mem-add"
_COMMANDS = (f"/{COMMAND}", f"/ralph:{COMMAND}", f"/prompts:{COMMAND}", f"${COMMAND}")
_FORGET = "forget that"
_WIDE_PUNCTUATION = str.maketrans("：，", ":,")
_UNMISTAKABLE_ENDS = (":", ",")
_SENTENCE_ENDS = ".!?。！？"
_QUESTION_MARKS = "?？"
_QUOTE_MARKS = ("```", "~~~", ">")


def text_to_remember(prompt: str, prefixes: Sequence[str] = ()) -> str:
    """Return what a prompt asks to remember, or "" if it asks for nothing.

    `prefixes` replaces the default prefixes if it is not empty.
    """
    prompt = human_prompt(prompt)
    first_line = prompt.partition("\n")[0]
    for command in _COMMANDS:
        if first_line == command or first_line.startswith(f"{command} "):
            return _first_paragraph(prompt[len(command) :])
    for prefix in prefixes or REMEMBER_PREFIXES:
        length = _matching_length(first_line, prefix)
        if length:
            text = _first_paragraph(prompt[length:])
            if prefix.endswith(_UNMISTAKABLE_ENDS) or not _is_question(text):
                return text
    return ""


def asks_to_forget(prompt: str) -> bool:
    """Check whether the whole prompt is `forget that`."""
    return human_prompt(prompt).strip(" \t\n.!").lower() == _FORGET


def _matching_length(line: str, prefix: str) -> int:
    """Return how many characters of a line match a prefix, or 0 if it does not match.

    Case does not matter, and neither does a space before the colon, as in French.
    """
    spellings = [prefix]
    if prefix.endswith(":"):
        spellings += [f"{prefix[:-1]} :", f"{prefix[:-1]}\N{NO-BREAK SPACE}:"]
    for spelling in spellings:
        beginning = line[: len(spelling)].translate(_WIDE_PUNCTUATION)
        following = line[len(spelling) : len(spelling) + 1]
        is_whole_word = spelling.endswith(_UNMISTAKABLE_ENDS) or following.isspace()
        if beginning.lower() == spelling.lower() and is_whole_word:
            return len(spelling)
    return 0


def _first_paragraph(text: str) -> str:
    """Return the lines up to the first blank line, and without fences and quotes."""
    lines = []
    for line in text.strip().split("\n"):
        line = line.strip()
        if not line or line.startswith(_QUOTE_MARKS):
            break
        lines.append(line)
    return "\n".join(lines)


def _is_question(text: str) -> bool:
    """Check whether the first sentence of a text ends with a question mark."""
    for position, character in enumerate(text):
        following = text[position + 1 : position + 2]
        if character in _SENTENCE_ENDS and (not following or following.isspace()):
            return character in _QUESTION_MARKS
    return False
