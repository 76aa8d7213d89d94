"""Read the privacy rules of a config file that cannot be used as a whole.

A file with merge markers, a tab or one bad value still says what its author wants to keep private.
The hooks add what is found here to the rules that they have, so finding too much is safe and
finding nothing is possible. Only the text is read, with limits on how often YAML is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ralph.core.config_files import ConfigNode, YamlError, read_yaml
from ralph.core.text import BOM

_RULE_LISTS = ("patterns", "paths")
_SECTION = re.compile(r"(?:privacy[ \t]*:|\[[ \t]*privacy[ \t]*\])(.*)")  # in YAML, in TOML
_LIST = re.compile(r"[ \t]*(?:- )?[ \t]*(patterns|paths)[ \t]*[:=](.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_MERGE_MARKERS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_FLOW_OPENERS = ("[", "{")
_MAX_RULES = 500
_MAX_VALUE_LINES = 50  # lines of one bracketed value
_MAX_ATTEMPTS = 1_000  # values that are parsed, in one file


def privacy_rules(text: str) -> dict[str, list[str]]:
    """Return the texts in `privacy.patterns` and `privacy.paths`, by the name of the key.

    They may not be valid rules.
    """
    body = text.removeprefix(BOM)
    try:
        root, _ = read_yaml(body)
    except YamlError:
        return _RuleReader(body).read()
    return _rules_of_section(_member(root, "privacy"))


def texts_in(node: ConfigNode) -> list[str]:
    """Return the scalars in a list, or the only one, as they were written."""
    if isinstance(node.value, Mapping) or node.value is None:
        return []
    items: Sequence[ConfigNode] = (node,)
    if isinstance(node.value, tuple):
        items = node.value
    texts = []
    for item in items[:_MAX_RULES]:
        if not isinstance(item.value, tuple | Mapping):
            text = item.source or str(item.value or "")
            texts.append(text)
    return [text for text in texts if text.strip()]


def _member(node: ConfigNode, name: str) -> ConfigNode:
    if isinstance(node.value, Mapping):
        return node.value.get(name, ConfigNode(None))
    return ConfigNode(None)


def _rules_of_section(section: ConfigNode) -> dict[str, list[str]]:
    return {f"privacy.{name}": texts_in(_member(section, name)) for name in _RULE_LISTS}


class _RuleReader:
    """Reads the rules line by line from a text that is not valid YAML."""

    def __init__(self, text: str) -> None:
        self._lines = [line for line in text.splitlines() if not line.startswith(_MERGE_MARKERS)]
        self._rules: dict[str, list[str]] = {f"privacy.{name}": [] for name in _RULE_LISTS}
        self._attempts = 0

    def read(self) -> dict[str, list[str]]:
        """Return the rules."""
        key = ""
        for number, line in self._section_lines():
            rule_list = _LIST.match(line)
            item = _ITEM.match(line)
            if rule_list is not None:
                key = f"privacy.{rule_list[1]}"
                self._add(key, texts_in(self._value(number, rule_list[2])))
            elif item is not None and key:
                self._add(key, texts_in(self._value(number, item[1])) or [_unquote(item[1])])
        return self._rules

    def _section_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the numbered lines of every section `privacy`."""
        is_inside = False
        for number, line in enumerate(self._lines):
            section = _SECTION.match(line)
            if section is not None:
                is_inside = True
                self._read_inline_section(number, section[1])
            elif _LIST.match(line) or _ITEM.match(line) or line[:1] in ("", " ", "\t", "#", "]"):
                if is_inside:
                    yield number, line
            else:
                is_inside = False

    def _read_inline_section(self, number: int, value: str) -> None:
        if value.strip().startswith("{"):
            for key, texts in _rules_of_section(self._value(number, value)).items():
                self._add(key, texts)

    def _value(self, number: int, text: str) -> ConfigNode:
        """Parse a value that begins on a line. A bracketed one may end on a later line."""
        value = text.strip()
        last = number
        if value.startswith(_FLOW_OPENERS):
            last = number + _MAX_VALUE_LINES
        for line in ["", *self._lines[number + 1 : last + 1]]:
            value = f"{value}\n{line}".strip()
            self._attempts += 1
            if self._attempts > _MAX_ATTEMPTS:
                break
            try:
                return read_yaml(value.replace("\t", " "))[0]
            except YamlError:
                continue
        return ConfigNode(None)

    def _add(self, key: str, texts: Sequence[str]) -> None:
        room = _MAX_RULES - len(self._rules[key])
        self._rules[key] += texts[:room]


def _unquote(text: str) -> str:
    return text.strip().strip("\"'")
