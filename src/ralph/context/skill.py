"""The texts that teach an agent how to use Ralph, injected beside what it remembers.

Each is a markdown file next to this module, so that people can read and change it as text. The list of
names is closed: a name never becomes a path. `tests/context/test_skill.py` counts the tokens with a
real tokenizer, because every session pays for them.
"""

from pathlib import Path

from ralph.errors import NotFound

_FILES = {"memories": "skill.md"}
NAMES = tuple(_FILES)
"""The skills there are."""


def text(name: str = "memories") -> str:
    """The skill of that name; NotFound, with the known names, when there is none."""
    if name not in _FILES:
        raise NotFound(f"no skill {name!r}", hint=f"known skills: {', '.join(NAMES)}")
    with Path(__file__).with_name(_FILES[name]).open(encoding="utf-8", newline="") as file:
        return file.read()
