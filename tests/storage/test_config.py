"""The verbs of `ralph config`, and the splice: one key changes, every other byte stays."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.laws import messy
from tests.support.sampling import examples

from ralph.core.config import KEYS, Layer, load, sources
from ralph.core.errors import ConfigError, Refused, UsageError
from ralph.storage import config as verbs
from ralph.storage.config import template

NO_ENV: dict[str, str] = {}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "memories.enabled": st.booleans(),
    "memories.inject": st.sampled_from(["auto", "manual", "none"]),
    "memories.budget": st.integers(0, 10**9),
    "memories.filter.types": st.lists(st.sampled_from(["fix", "pattern"]), max_size=3),
    "memories.filter.tags": st.lists(TEXTS, max_size=3),
    "ralph.context_budget": st.sampled_from([0, 0.25, 1]),
    "ralph.success_criteria": st.lists(
        st.fixed_dictionaries({"type": st.just("custom"), "command": TEXTS.filter(bool)}),
        max_size=2,
    ),
    "retention_days": st.integers(0, 400),
}
SETTINGS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), VALUES[name])
)
NOISE = st.sampled_from(
    ["", "", "# a comment", "  # indented: comment", "# memories:", "#   budget: 1"]
)
TAIL = st.sampled_from(["", "", " ", "  # why", " # budget: 9"])


@st.composite
def yaml_files(draw: st.DrawFn) -> str:
    """Files as people keep them: sections in any order, comments, odd indents, foreign keys, CRLF."""
    blocks = []
    for name in draw(st.permutations(["memories", "ralph", "cli", "retention_days", "prompt"])):
        if draw(st.booleans()):
            blocks.append(draw(BLOCKS[name]))
    lines = [line for block in blocks for line in block.split("\n")]
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = draw(st.sampled_from(["", "\ufeff", "---\n".replace("\n", newline)])) + newline.join(
        lines
    )
    return text + draw(st.sampled_from(["", newline, newline * 2, f"{newline}# end"]))


@st.composite
def section(draw: st.DrawFn, name: str, children: list[str]) -> str:
    indent = " " * draw(st.sampled_from([1, 2, 4]))
    lines = [draw(NOISE), f"{name}:{draw(TAIL)}"]
    for child in children:
        if draw(st.booleans()):
            lines += [draw(NOISE), *(indent + line for line in child.split("\n"))]
            lines[-1] += draw(TAIL)
    return "\n".join([*lines, draw(NOISE)])


BLOCKS = {
    "memories": section("memories", ["enabled: yes", "budget: 1500", "inject: 'manual'", "own: [1, {a: b}]",
                                     "filter:\n  types: [fix]\n  tags:\n    - a\n    - b"]),
    "ralph": section("ralph", ["context_budget: 0.5", "max_iterations:",
                               "success_criteria:\n- type: marker\n  marker: x"]),
    "cli": section("cli", ["backend: claude", "args: [a,\n   b]", "text: a\n  b"]),
    "retention_days": st.just("retention_days: 30"),
    "prompt": st.just("prompt: |\n  budget: 5\n  # no comment\n\n  end"),
}  # fmt: skip


def at(tree: object, name: str) -> object:
    """The value of a dotted name in what PyYAML read, or None."""
    for part in name.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def without(tree: object, path: list[str]) -> object:
    """The tree without one key; sections that are empty then are left out."""
    if not isinstance(tree, dict):
        return tree
    rest = {
        name: without(item, path[1:]) if name == path[0] else item for name, item in tree.items()
    }
    if len(path) == 1 or rest.get(path[0]) in (None, {}):
        rest.pop(path[0], None)
    return rest


@given(text=yaml_files(), setting=SETTINGS)
@settings(deadline=None, max_examples=examples(300, 10))
def test_set_keeps_every_other_byte_and_get_returns_what_was_set(
    text: str, setting: tuple[str, object]
) -> None:
    assume(
        not text.endswith("  end")
    )  # a line below would end that block of text: refused, and rightly so
    name, value = setting
    after = verbs.set_key(text, name, value, "ralph.yml")
    before_tree, after_tree = yaml.safe_load(text), yaml.safe_load(after)
    assert at(after_tree, name) == value
    assert without(after_tree, name.split(".")) == without(before_tree or {}, name.split("."))

    front = next(
        (i for i, (a, b) in enumerate(zip(text, after, strict=False)) if a != b),
        min(len(text), len(after)),
    )
    room = min(len(text), len(after)) - front
    back = next((i for i in range(room) if text[-1 - i] != after[-1 - i]), room)
    gone = text[front : len(text) - back]
    assert "#" not in gone
    old = at(before_tree, name)
    assert gone == "" or old is not None or name == "retention_days"
    assert verbs.set_key(after, name, value, "ralph.yml") == after


@given(
    text=messy("memories:\n", "  budget: 1\n", "  filter:\n", "&a ", "*a", "<<: ", "? ", "!!x "),
    setting=SETTINGS,
)
@settings(deadline=None)
def test_set_on_any_text_changes_one_key_or_refuses(text: str, setting: tuple[str, object]) -> None:
    name, value = setting
    after = ""
    try:
        after = verbs.set_key(text, name, value, "ralph.yml")
    except (Refused, ConfigError) as error:
        said = error.message
    if not after:
        assert said.startswith(("ralph.yml:", "line "))
        return
    try:
        before_tree, after_tree = yaml.safe_load(text), yaml.safe_load(after)
    except (yaml.YAMLError, ValueError, TypeError):
        assume(False)
    assert at(after_tree, name) == value
    assert without(after_tree, name.split(".")) == without(before_tree or {}, name.split("."))


class TestSet:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", "memories:\n  budget: 5\n"),
            ("# c", "# c\nmemories:\n  budget: 5"),
            (
                "memories:\n    enabled: no\n# c\n",
                "memories:\n    enabled: no\n    budget: 5\n# c\n",
            ),
            (
                "memories:  # mine\n  # budget: 1\nx: 1\n",
                "memories:  # mine\n  budget: 5\n  # budget: 1\nx: 1\n",
            ),
            ("memories:\r\n  budget:   # c\r\n", "memories:\r\n  budget: 5   # c\r\n"),
            ('memories:\n  "budget" : "x"\n', 'memories:\n  "budget" : 5\n'),
            ("memories:\n  budget: 1\n  budget: 2\n", "memories:\n  budget: 1\n  budget: 5\n"),
            ("memories:\n  budget: 1\n...\n", "memories:\n  budget: 5\n...\n"),
        ],
    )
    def test_the_key_goes_where_its_section_is(self, before: str, after: str) -> None:
        assert verbs.set_key(before, "memories.budget", 5, "ralph.yml") == after

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a: 1\nmemories: {budget: 1}\n", 2),
            ("{memories: {budget: 1}}\n", 1),
            ("memories: &m\n  budget: 1\n", 1),
            ("memories:\n  budget: &b 1\n", 2),
            ("memories:\n  budget: !!int 1\n", 2),
            ("memories:\n  budget: |\n    1\n", 2),
            ("memories:\n  budget: {a: 1}\n", 2),
            ("memories:\n  budget:\n    - 1 # one\n    - 2\n", 2),
            ("memories: 5\n", 1),
            ("memories:\n- a\n", 1),
            ("a: 1\n...\n", 3),
        ],
    )
    def test_where_it_cannot_be_done_safely_it_is_refused_with_the_line(
        self, text: str, line: int
    ) -> None:
        with pytest.raises(Refused) as caught:
            verbs.set_key(text, "memories.budget", 5, "ralph.yml")
        assert caught.value.message.startswith(f"ralph.yml:{line}: cannot be changed here: ")
        assert caught.value.hint

    @pytest.mark.parametrize("layer", [Layer.PROJECT, Layer.LOCAL])
    def test_a_personal_key_goes_to_the_users_own_config_alone(
        self, tmp_path: Path, layer: Layer
    ) -> None:
        env = {"HOME": str(tmp_path / "home")}
        with pytest.raises(UsageError, match="in a project's files"):
            verbs.set_(tmp_path, "capture.everywhere", "true", env=env, layer=layer)
        done = verbs.set_(tmp_path, "capture.everywhere", "true", env=env, layer=Layer.USER)
        assert done.changed
        assert load(tmp_path, env=env).config.capture.everywhere is True

    @pytest.mark.parametrize("layer", [Layer.PROJECT, Layer.LOCAL])
    def test_what_needs_trust_is_written_and_does_not_count_yet(
        self, tmp_path: Path, layer: Layer
    ) -> None:
        env = {"HOME": str(tmp_path / "home")}
        assert verbs.set_(
            tmp_path, "embedding.url", "http://127.0.0.1:1", env=env, layer=layer
        ).changed
        loaded = load(tmp_path, env=env)
        assert loaded.config.embedding.url == ""
        assert [(each.place.layer, each.value) for each in loaded.trusted_values] == [
            (layer, "http://127.0.0.1:1")
        ]

    def test_the_template_stays_as_it_is_and_the_key_is_added(self, tmp_path: Path) -> None:
        path = tmp_path / "ralph.yml"
        path.write_text(template(), encoding="utf-8", newline="")
        change = verbs.set_(tmp_path, "memories.filter.tags", "a, b", env=NO_ENV)
        assert change == verbs.ConfigChange(path, ["a", "b"], True)
        assert (
            path.read_text(encoding="utf-8")
            == template() + "memories:\n  filter:\n    tags: [a, b]\n"
        )
        assert load(tmp_path, env=NO_ENV).json_values["memories.filter.tags"] == ["a", "b"]

    def test_each_layer_has_its_file_and_missing_folders_are_made(self, tmp_path: Path) -> None:
        env = {"HOME": str(tmp_path / "home")}
        for layer, name in (
            (Layer.USER, "home/.config/ralph/config.yml"),
            (Layer.LOCAL, "ralph.local.yml"),
        ):
            change = verbs.set_(tmp_path, "retention_days", "7", env=env, layer=layer)
            assert change.path == tmp_path / name
            assert change.path.read_text(encoding="utf-8") == "retention_days: 7\n"
        assert not (tmp_path / "ralph.yml").exists()

    def test_the_same_value_again_writes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "ralph.yml"
        path.write_text("memories:\n  budget: 5 # c\n", encoding="utf-8", newline="")
        stamp = path.stat().st_mtime_ns
        assert not verbs.set_(tmp_path, "memories.budget", "5", env=NO_ENV).changed
        assert path.stat().st_mtime_ns == stamp

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("memories.bugdet", "1", "unknown key memories.bugdet; did you mean memories.budget?"),
            ("memories", "1", "unknown key memories"),
            ("execution.learn", "true", "execution.learn is accepted and ignored"),
            (
                "memories.budget",
                "x",
                "ralph config: memories.budget: expected a whole number of at least 0, got 'x'",
            ),
            (
                "privacy.patterns",
                "(",
                "ralph config: privacy.patterns: expected a regular expression (",
            ),
        ],
    )
    def test_key_and_value_are_checked_before_the_file_is_touched(
        self, tmp_path: Path, name: str, value: str, message: str
    ) -> None:
        with pytest.raises(UsageError) as caught:
            verbs.set_(tmp_path, name, value, env=NO_ENV)
        assert caught.value.message.startswith(message)
        assert list(tmp_path.iterdir()) == []

    def test_a_broken_file_is_left_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "ralph.yml"
        path.write_bytes(b"a: [\n\xff")
        with pytest.raises(ConfigError):
            verbs.set_(tmp_path, "memories.budget", "5", env=NO_ENV)
        assert path.read_bytes() == b"a: [\n\xff"

    def test_a_wrong_value_in_the_file_can_be_put_right(self, tmp_path: Path) -> None:
        (tmp_path / "ralph.yml").write_text(
            "memories:\n  budget: lots\n", encoding="utf-8", newline=""
        )
        verbs.set_(tmp_path, "memories.budget", "5", env=NO_ENV)
        assert load(tmp_path, env=NO_ENV).config.memories.budget == 5

    def test_without_a_home_there_is_no_user_config_to_change(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no folder for the user's config"):
            verbs.set_(tmp_path, "memories.budget", "5", env=NO_ENV, layer=Layer.USER)
        with pytest.raises(UsageError, match=r"\.ralph\.toml cannot be changed"):
            verbs.set_(tmp_path, "memories.budget", "5", env=NO_ENV, layer=Layer.TOML)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3))


@given(
    value=st.recursive(
        st.one_of(TEXTS, st.booleans(), st.integers(-9, 10**6)), nested, max_leaves=6
    )
)
def test_a_value_on_one_line_reads_back_as_itself(value: object) -> None:
    line = verbs.flow(value)
    assert "\n" not in line
    assert yaml.safe_load(f"k: {line}") == {"k": value}


def test_every_key_has_a_value_and_its_place(tmp_path: Path) -> None:
    (tmp_path / "ralph.yml").write_text("memories:\n  inject: none\n", encoding="utf-8", newline="")
    loaded = load(tmp_path, env=NO_ENV)
    assert list(loaded.json_values) == [key.name for key in KEYS if not key.ignored]
    assert (loaded.json_values["memories.inject"], str(loaded.origins["memories.inject"])) == (
        "none",
        "ralph.yml:2",
    )
    json.dumps(loaded.json_values)


def test_the_highest_file_is_the_last(tmp_path: Path) -> None:
    layers = [source.layer for source, _ in sources(tmp_path, {"HOME": "/nowhere"})]
    assert layers == [Layer.USER, Layer.SHELL, Layer.TOML, Layer.PROJECT, Layer.LOCAL]
