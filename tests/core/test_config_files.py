"""Settings files as text: every value with its line, and no text that breaks the readers."""

from collections.abc import Callable, Mapping
from enum import StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.laws import messy

from ralph.core.config_files import (
    ConfigKey,
    ConfigNode,
    ParsedConfig,
    ValueMismatch,
    ValueType,
    check_value,
    config_node,
    parse_shell,
    parse_toml,
    parse_yaml,
)
from ralph.core.errors import ConfigError

WORDS = (
    "memories:\n",
    "  budget: 1\n",
    "- a\n",
    "&a ",
    "*a",
    "<<: ",
    "? ",
    "!!int ",
    "|\n",
    "key = 1\n",
    "[t]\n",
    "export X=",
)


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"


def values(entries: Mapping[str, ConfigNode]) -> dict[str, object]:
    """A tree as plain values, for comparing."""

    def value(node: ConfigNode) -> object:
        if isinstance(node.value, Mapping):
            return values(node.value)
        return [value(item) for item in node.value] if isinstance(node.value, tuple) else node.value

    return {name: value(node) for name, node in entries.items()}


def inner(parsed: ParsedConfig, name: str) -> Mapping[str, ConfigNode]:
    found = parsed.entries[name].value
    assert isinstance(found, Mapping)
    return found


class TestYaml:
    def test_each_key_knows_its_line_as_editors_count(self) -> None:
        parsed = parse_yaml('# top\r\na: 1\r\n\r\nb:\r\n  c: "x\u2028  y"\r\n  d: 2\r\n', "f")
        assert parsed.entries["a"].line == 2
        assert parsed.entries["b"].line == 4
        assert inner(parsed, "b")["d"].line == 6

    def test_plain_words_mean_what_people_mean(self) -> None:
        text = "a: yes\nb: Off\nc: 10\nd: 0.5\ne: ~\nf:\ng: '10'\nh: 010\ni: 12:30\nj: 2024-01-01\nk: 1_000\n"
        expected = {
            "a": True,
            "b": False,
            "c": 10,
            "d": 0.5,
            "e": None,
            "f": None,
            "g": "10",
            "h": "010",
        }
        assert values(parse_yaml(text, "f").entries) == {
            **expected,
            "i": "12:30",
            "j": "2024-01-01",
            "k": 1000,
        }

    @pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\ufeff", "~\n"])
    def test_a_file_without_settings_is_empty(self, text: str) -> None:
        assert parse_yaml(text, "f") == ParsedConfig({})

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028"])
    def test_what_stands_below_a_comment_is_read_whatever_ends_a_line(self, end: str) -> None:
        assert (
            "memories"
            in parse_yaml(end.join(["# ours", "memories:", "  budget: 7", ""]), "ralph.yml").entries
        )

    def test_a_byte_order_mark_is_no_part_of_a_key(self) -> None:
        assert values(parse_yaml("\ufeffa: 1\n", "f").entries) == {"a": 1}

    def test_a_repeated_key_is_told_and_the_last_one_counts(self) -> None:
        parsed = parse_yaml("a: 1\nb: 2\na: 3\n", "f")
        assert values(parsed.entries) == {"a": 3, "b": 2}
        assert [(problem.line, problem.code) for problem in parsed.problems] == [
            (3, "duplicate-key")
        ]

    def test_a_value_with_an_anchor_is_not_edited(self) -> None:
        assert parse_yaml("base: &b {x: 1, y: 2}\n", "f").entries["base"].shared

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a: 1\nb: [\n", 3),
            ("a: 1\n b: 2\n", 2),
            ("a: \x00", 1),
            ("ok: 1\nbad: \ud800\n", 2),
            ("a: 1\n\ufeffb: 2\n", 2),
            ("- a\n- b\n", 1),
            ("just words", 1),
            ("a: 1\n---\nb: 2\n", 2),
            ("x: 0\na: &b 1\nc: *b\n", 2),
            ("x: 0\na: &a\n  b: *a\n", 2),
            ("? [x]\n: 1\n", 1),
            ("x: " + "[" * 60, 1),
            ("- " * 5000 + "x", 1),
        ],
    )
    def test_what_is_not_a_settings_file_is_an_error_with_its_line(
        self, text: str, line: int
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            parse_yaml(text, "ralph.yml")
        assert caught.value.message.startswith(f"ralph.yml:{line}: ")
        assert caught.value.hint


class TestToml:
    def test_tables_and_lists_are_read(self) -> None:
        parsed = parse_toml(
            "top = 1\r\n\r\n[execution]\r\n# c\r\nverify = true\r\n[[a.b]]\r\nx = 1\r\n", "f"
        )
        assert values(parsed.entries) == {
            "top": 1,
            "execution": {"verify": True},
            "a": {"b": [{"x": 1}]},
        }

    @pytest.mark.parametrize(
        ("text", "line"),
        [("a = 1\nb = \n", 2), ("a = [1,\n", 2), ("a = 1\na = 2\n", 2), ("x = " + "[" * 5000, 1)],
    )
    def test_what_is_not_toml_is_an_error_with_its_line(self, text: str, line: int) -> None:
        with pytest.raises(ConfigError) as caught:
            parse_toml(text, ".ralph.toml")
        assert caught.value.message.startswith(f".ralph.toml:{line}: ")


class TestShell:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("X=1", "1"),
            ("  export X=1  # one\n", "1"),
            ("X='a b' # c", "a b"),
            ('X="a \\"b\\" c"', 'a "b" c'),
            ("X=a#b", "a#b"),
            ("X=a\\ b", "a b"),
            ("X='it'\"s\"", "its"),
            ("X=5; Y=6", "5"),
            ("X=1\r\n", "1"),
            ("X=", ""),
            ("X= # nothing", ""),
            ("X='two\nlines'", "two\nlines"),
            ("X=$Y", None),
            ("X=$(date)", None),
            ("X=`date`", None),
            ('X="${Y:-2000}"', None),
            ("X=(a b)", None),
            ("X='never closed", None),
        ],
    )
    def test_a_value_is_read_as_a_shell_reads_a_literal(self, text: str, value: str | None) -> None:
        assert next((name, node.value) for name, node in parse_shell(text)) == ("X", value)

    def test_comments_and_other_commands_are_no_assignments(self) -> None:
        text = "#!/bin/sh\n# X=1\nif true; then\n  echo X=2\nfi\nY=3\n"
        assert [(name, node.value, node.line) for name, node in parse_shell(text)] == [
            ("Y", "3", 6)
        ]

    def test_a_quoted_line_break_hides_what_looks_like_an_assignment(self) -> None:
        assert [name for name, _ in parse_shell("A='x\nB=1\n'\nC=2\n")] == ["A", "C"]


class TestCheck:
    @pytest.mark.parametrize(
        ("key", "value", "words"),
        [
            (ConfigKey("k", ValueType.FLAG, True, ""), 1, "expected true or false, got 1"),
            (
                ConfigKey("k", ValueType.NUMBER, 0, ""),
                True,
                "expected a whole number of at least 0, got true",
            ),
            (
                ConfigKey("k", ValueType.NUMBER, 0, ""),
                -1,
                "expected a whole number of at least 0, got -1",
            ),
            (
                ConfigKey("k", ValueType.NUMBER, 0, ""),
                1.5,
                "expected a whole number of at least 0, got 1.5",
            ),
            (
                ConfigKey("k", ValueType.FRACTION, 0.5, "", highest=1),
                2,
                "expected a number from 0 to 1, got 2",
            ),
            (
                ConfigKey("k", ValueType.FRACTION, 0.5, "", highest=1),
                float("nan"),
                "expected a number from 0 to 1, got nan",
            ),
            (
                ConfigKey("k", ValueType.CHOICE, Fruit.PEAR, "", tuple(Fruit)),
                "plum",
                "expected one of apple, pear, got 'plum'",
            ),
            (
                ConfigKey("k", ValueType.CHOICES, (), "", tuple(Fruit)),
                "pear",
                "expected a list of apple, pear, got 'pear'",
            ),
            (
                ConfigKey("k", ValueType.TEXTS, (), ""),
                {"a": 1},
                "expected a list of strings, got a mapping",
            ),
            (
                ConfigKey("k", ValueType.TEXTS, (), ""),
                ["a", ["b"]],
                "expected a list of strings, got a list",
            ),
            (
                ConfigKey("k", ValueType.TEXTS, (), ""),
                [None],
                "expected a list of strings, got nothing",
            ),
            (ConfigKey("k", ValueType.TEXT, "", ""), 5, "expected text, got 5"),
        ],
    )
    def test_a_wrong_value_says_what_was_expected_and_what_came(
        self, key: ConfigKey, value: object, words: str
    ) -> None:
        with pytest.raises(ValueMismatch) as caught:
            check_value(key, config_node(value))
        assert str(caught.value) == words

    def test_a_regular_expression_must_compile(self) -> None:
        key = ConfigKey("k", ValueType.PATTERNS, (), "")
        assert check_value(key, config_node(["a+", "[[a]"])) == ("a+", "[[a]")
        for wrong in ("(", "a{99999999999999}", "(" * 5000):
            with pytest.raises(ValueMismatch):
                check_value(key, config_node([wrong]))

    def test_choices_are_found_in_any_case(self) -> None:
        assert (
            check_value(
                ConfigKey("k", ValueType.CHOICE, Fruit.PEAR, "", tuple(Fruit)), config_node("Apple")
            )
            is Fruit.APPLE
        )

    def test_text_in_yaml_is_what_its_author_typed(self) -> None:
        node = parse_yaml("k: [1.10, yes, 007, a]\n", "f").entries["k"]
        assert check_value(ConfigKey("k", ValueType.TEXTS, (), ""), node) == (
            "1.10",
            "yes",
            "007",
            "a",
        )


@pytest.mark.parametrize("parse", [parse_yaml, parse_toml])
@given(text=st.one_of(messy(*WORDS), st.text(max_size=60)))
@settings(deadline=None)
def test_any_text_gives_settings_or_a_config_error_with_a_line(
    parse: Callable[[str, str], ParsedConfig], text: str
) -> None:
    said, lines = "", []
    try:
        lines = [node.line for node in parse(text, "f").entries.values()]
    except ConfigError as error:
        said = error.message
        lines = [int(said.split(":")[1])]
    assert "\n" not in said
    first = 0 if parse is parse_toml and not said else 1  # values of TOML have no line
    assert all(first <= line <= text.count("\n") + 1 for line in lines)


@given(text=st.one_of(messy(*WORDS), st.text(max_size=60)))
@settings(deadline=None)
def test_any_text_is_a_shell_file(text: str) -> None:
    for name, node in parse_shell(text):
        assert f"{name}=" in text.split("\n")[node.line - 1]
