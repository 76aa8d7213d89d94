"""The settings: keys, files, layers, trust, and which files count in a worktree."""

import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from docs.generate import keys_table
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.git import git
from tests.support.laws import messy

from ralph.core import config, paths
from ralph.core.config import BY_NAME, KEYS, ConfigSource, Layer, Loaded, as_json, load
from ralph.core.config_files import parse_yaml
from ralph.core.errors import ConfigError
from ralph.core.record import CriterionKind, MemoryKind
from ralph.core.settings import Config, CriterionSetting, Embedding, Inject
from ralph.storage.config import template

NO_ENV: dict[str, str] = {}
FILES = (
    ".ralph/config.sh",
    ".ralph.toml",
    "ralph.yml",
    "ralph.local.yml",
    "home/.config/ralph/config.yml",
)
DOCS = Path(__file__).parents[2] / "docs" / "config.md"


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def loaded(root: Path, **env: str) -> Loaded:
    return load(root, env={"HOME": str(root / "home"), **env})


def error(root: Path, **env: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(root, **env)
    assert caught.value.hint
    return caught.value


class TestLayers:
    def test_nothing_set_gives_the_defaults(self, tmp_path: Path) -> None:
        assert load(None, env=NO_ENV).values == load(tmp_path, env=NO_ENV).values
        found = load(None, env=NO_ENV)
        assert found.config == Config()
        assert found.warnings == ()
        assert set(found.origins.values()) == {ConfigSource(Layer.DEFAULT)}

    def test_each_layer_wins_over_the_ones_below(self, tmp_path: Path) -> None:
        steps = [
            ("home/.config/ralph/config.yml", "memories:\n  budget: 1\n", Layer.USER),
            (".ralph/config.sh", "MEMORIES_BUDGET=2\n", Layer.SHELL),
            (".ralph.toml", "[memories]\nbudget = 3\n", Layer.TOML),
            ("ralph.yml", "memories:\n  budget: 4\n", Layer.PROJECT),
            ("ralph.local.yml", "memories:\n  budget: 5\n", Layer.LOCAL),
        ]
        for number, (name, text, layer) in enumerate(steps, 1):
            put(tmp_path, name, text)
            found = loaded(tmp_path)
            assert found.config.memories.budget == number
            assert found.origins["memories.budget"].layer is layer
        found = loaded(tmp_path, RALPH_MEMORIES_BUDGET="6")
        assert found.config.memories.budget == 6
        assert str(found.origins["memories.budget"]) == "RALPH_MEMORIES_BUDGET"

    def test_layers_merge_key_by_key_and_each_value_knows_its_place(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "# c\nmemories:\n  inject: manual\n  filter:\n    tags: [a]\n")
        put(tmp_path, ".ralph.toml", "[execution]\nverify = false\n\n[memories]\nenabled = false\n")
        found = loaded(tmp_path)
        assert found.config.memories.inject is Inject.MANUAL
        assert found.config.memories.enabled is False
        assert found.config.execution.verify is False
        assert str(found.origins["memories.inject"]) == "ralph.yml:3"
        assert str(found.origins["memories.filter.tags"]) == "ralph.yml:5"
        assert str(found.origins["execution.verify"]) == ".ralph.toml:2"
        assert str(found.origins["memories.budget"]) == "default"

    def test_the_users_config_is_found_by_xdg_then_by_home(self, tmp_path: Path) -> None:
        put(tmp_path, "xdg/ralph/config.yml", "retention_days: 1\n")
        put(tmp_path, "home/.config/ralph/config.yml", "retention_days: 2\n")
        home, xdg = str(tmp_path / "home"), str(tmp_path / "xdg")
        assert load(None, env={"HOME": home, "XDG_CONFIG_HOME": xdg}).config.retention_days == 1
        assert (
            load(None, env={"HOME": home, "XDG_CONFIG_HOME": "relative"}).config.retention_days == 2
        )
        assert load(None, env={"HOME": home}).config.retention_days == 2

    def test_a_section_without_values_leaves_the_defaults(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "memories:\n  # budget: 1\nprivacy: {}\nexecution:\n  verify:\n")
        assert loaded(tmp_path).config == Config()
        assert loaded(tmp_path).warnings == ()

    def test_a_folder_in_the_way_of_ralphs_own_is_no_config(self, tmp_path: Path) -> None:
        put(tmp_path, ".ralph", "a file")
        assert loaded(tmp_path).config == Config()


class TestShellAndEnvironment:
    @pytest.mark.parametrize("word", ["true", "YES", "on", "1", "False", "no", "off", "0"])
    def test_a_flag_may_be_said_in_many_words(self, tmp_path: Path, word: str) -> None:
        value = word in ("true", "YES", "on", "1")
        put(tmp_path, ".ralph/config.sh", f'export MEMORIES_ENABLED="{word}"  # c\n')
        assert loaded(tmp_path).config.memories.enabled is value
        assert loaded(tmp_path, RALPH_EXECUTION_VERIFY=word).config.execution.verify is value

    def test_lists_are_separated_by_commas_or_are_json(self, tmp_path: Path) -> None:
        assert loaded(
            tmp_path, RALPH_MEMORIES_FILTER_TAGS=" a, b c,"
        ).config.memories.filter.tags == (
            "a",
            "b c",
        )
        assert loaded(
            tmp_path, RALPH_MEMORIES_FILTER_TAGS="[a, 'b c']"
        ).config.memories.filter.tags == ("a", "b c")
        assert loaded(tmp_path, RALPH_PRIVACY_PATTERNS='["a,b"]').config.privacy.patterns == (
            "a,b",
        )
        assert loaded(tmp_path, RALPH_PRIVACY_PATTERNS="[a-z]+,x").config.privacy.patterns == (
            "[a-z]+",
            "x",
        )
        types = loaded(
            tmp_path, RALPH_MEMORIES_FILTER_TYPES="fix,Decision"
        ).config.memories.filter.types
        assert types == (MemoryKind.FIX, MemoryKind.DECISION)

    def test_an_empty_variable_says_nothing_but_empties_a_list(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "memories: {budget: 7, filter: {tags: [a]}}\n")
        found = loaded(
            tmp_path, RALPH_MEMORIES_BUDGET="", RALPH_MEMORIES_FILTER_TAGS=""
        ).config.memories
        assert found.budget == 7
        assert found.filter.tags == ()

    def test_the_shell_file_is_read_but_never_executed(self, tmp_path: Path) -> None:
        text = (
            f"touch {tmp_path}/pwned\nMEMORIES_BUDGET=$(touch {tmp_path}/pwned2; echo 5)\nPATH=/x\n"
        )
        put(tmp_path, ".ralph/config.sh", text + "MEMORIES_BUGDET=1\nMEMORIES_INJECT=none\n")
        found = loaded(tmp_path)
        assert found.config.memories.budget == 2000
        assert found.config.memories.inject is Inject.NONE
        assert not list(tmp_path.glob("pwned*"))
        assert found.warnings == (
            ".ralph/config.sh:2: MEMORIES_BUDGET is ignored: not a literal, and nothing is executed",
            ".ralph/config.sh:4: unknown key MEMORIES_BUGDET; did you mean MEMORIES_BUDGET?",
        )

    def test_other_variables_of_ralph_are_left_alone_and_misspelt_ones_told(
        self, tmp_path: Path
    ) -> None:
        found = loaded(
            tmp_path,
            RALPH_ROOT="/x",
            RALPH_DEBUG="1",
            RALPH_MEMORIES_BUGDET="1",
            RALPH_EXECUTION_LEARN="x",
        )
        assert found.warnings == (
            "environment: unknown key RALPH_MEMORIES_BUGDET; did you mean RALPH_MEMORIES_BUDGET?",
        )


class TestWarnings:
    def test_an_unknown_key_is_told_with_its_line_and_the_nearest(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "memories:\n  bugdet: 1\nmemmories: {a: 1}\nbudget: 3\nzzz: 1\n")
        put(tmp_path, ".ralph.toml", "[execution]\nlearn = true\nmax_retrys = 3\n")
        assert loaded(tmp_path).warnings == (
            ".ralph.toml:3: unknown key execution.max_retrys; did you mean execution.max_retries?",
            "ralph.yml:2: unknown key memories.bugdet; did you mean memories.budget?",
            "ralph.yml:3: unknown key memmories; did you mean memories?",
            "ralph.yml:4: unknown key budget; did you mean memories.budget?",
            "ralph.yml:5: unknown key zzz",
        )
        put(tmp_path, "ralph.yml", "execution:\n  foo: 1\n")
        assert loaded(tmp_path).warnings[-1] == (
            "ralph.yml:2: unknown key execution.foo; execution has verify, max_retries"
        )

    def test_learn_is_accepted_and_ignored_whatever_it_says(self, tmp_path: Path) -> None:
        put(tmp_path, ".ralph.toml", '[execution]\nlearn = "whatever"\n')
        put(tmp_path, "ralph.yml", "execution:\n  learn: {a: 1}\n")
        assert loaded(tmp_path).warnings == ()
        assert loaded(tmp_path).config == Config()

    def test_a_repeated_key_is_told(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "memories:\n  budget: 1\n  budget: 2\n")
        assert loaded(tmp_path).config.memories.budget == 2
        assert loaded(tmp_path).warnings == (
            "ralph.yml:3: budget: also at line 2; the last one counts",
        )

    def test_a_warning_is_one_line_without_control_characters(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", '"a\\nb\\e[31m": 1\n' + "k" * 1000 + ": 1\n")
        for warning in loaded(tmp_path).warnings:
            assert warning.isprintable()
            assert len(warning) < 300


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("ralph.yml", "memories:\n  budget: lots\n",
             "ralph.yml:2: memories.budget: expected a whole number of at least 0, got 'lots'"),
            ("ralph.yml", "\n\nmemories: 5\n",
             "ralph.yml:3: memories: expected a section of `key: value` lines, got '5'"),
            ("ralph.local.yml", "memories:\n  inject: sometimes\n",
             "ralph.local.yml:2: memories.inject: expected one of auto, manual, none, got 'sometimes'"),
            ("ralph.yml", "ralph:\n  context_budget: 60\n",
             "ralph.yml:2: ralph.context_budget: expected a number from 0 to 1, got '60'"),
            ("ralph.yml", "memories:\n  filter:\n    types:\n      - fix\n      - bug\n",
             "ralph.yml:5: memories.filter.types: expected a list of pattern, decision, fix, context, got 'bug'"),
            (".ralph.toml", "[execution]\nmax_retries = true\n",
             ".ralph.toml:2: execution.max_retries: expected a whole number of at least 0, got true"),
            (".ralph.toml", 'a.note = """\n[execution]\nverify = 1\n"""\n\n[execution]\n"verify" = 5\n',
             ".ralph.toml:7: execution.verify: expected true or false, got 5"),
            (".ralph.toml", "execution.verify = 5\n",
             ".ralph.toml:1: execution.verify: expected true or false, got 5"),
            (".ralph/config.sh", "\nMEMORIES_BUDGET=many\n",
             ".ralph/config.sh:2: memories.budget: expected a whole number of at least 0, got 'many'"),
            ("ralph.yml", "ralph:\n  success_criteria:\n    - type: test_pass\n    - type: nope\n",
             "ralph.yml:4: ralph.success_criteria: expected one of test_pass, build_success, lint_clean, "
             "type_check, custom, marker, got 'nope'"),
            ("ralph.yml", "ralph:\n  success_criteria:\n    - type: custom\n",
             "ralph.yml:2: ralph.success_criteria: expected a command for the type custom, got nothing"),
            ("ralph.yml", "ralph:\n  success_criteria:\n    - type: marker\n      markre: x\n",
             "ralph.yml:4: ralph.success_criteria: expected one of the keys type, command, expected_exit_code, "
             "marker, timeout, got 'markre'"),
            ("ralph.yml", "a: [\n",
             "ralph.yml:2: not valid YAML: a value that is missing, or a [ that is not closed"),
            ("ralph.yml", "a: &x 1\nb: &x 2\n",
             "ralph.yml:2: not valid YAML: an anchor (&name) that is already defined above"),
            ("ralph.yml", "memories:\n\tbudget: 1\n",
             "ralph.yml:2: not valid YAML: a tab in the indentation, or a value that must be quoted "
             "because it begins with @ or `"),
            ("ralph.yml", "memories:\n<<<<<<< ours\n  budget: 1\n=======\n  budget: 2\n>>>>>>> theirs\n",
             "ralph.yml:2: not valid YAML: a conflict of a git merge that is not resolved"),
            (".ralph.toml", "x = \n", ".ralph.toml:1: not valid TOML: Invalid value"),
        ],
    )  # fmt: skip
    def test_a_wrong_value_says_where_what_and_what_instead(
        self, tmp_path: Path, name: str, text: str, message: str
    ) -> None:
        put(tmp_path, name, text)
        assert error(tmp_path).message == message

    def test_an_invalid_pattern_is_an_error(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "privacy:\n  patterns: ['ok', '(']\n")
        assert error(tmp_path).message.startswith(
            "ralph.yml:2: privacy.patterns: expected a regular expression ("
        )

    def test_a_wrong_variable_names_the_variable(self, tmp_path: Path) -> None:
        assert error(tmp_path, RALPH_MEMORIES_BUDGET="x").message.startswith(
            "RALPH_MEMORIES_BUDGET: memories.budget: "
        )

    def test_a_file_that_is_not_utf8_or_not_a_file_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "ralph.yml").write_bytes(b"a: 1\nb: \xff\n")
        assert error(tmp_path).message == "ralph.yml:2: not UTF-8 text"
        (tmp_path / "ralph.yml").unlink()
        (tmp_path / "ralph.yml").mkdir()
        assert error(tmp_path).message.startswith("ralph.yml: cannot be read: ")


class TestCriteria:
    def test_criteria_are_read_whole_or_by_their_type_alone(self, tmp_path: Path) -> None:
        text = "ralph:\n  success_criteria:\n    - lint_clean\n    - {type: custom, command: make, timeout: 5}\n"
        put(tmp_path, "home/.config/ralph/config.yml", text)
        expected = (
            CriterionSetting(CriterionKind.LINT_CLEAN),
            CriterionSetting(CriterionKind.CUSTOM, "make", timeout=5),
        )
        assert loaded(tmp_path).config.loop.success_criteria == expected

    def test_criteria_may_stand_in_toml_and_in_a_variable(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            ".ralph.toml",
            '[[ralph.success_criteria]]\ntype = "marker"\nmarker = "[OK]"\n',
        )
        expected = CriterionSetting(CriterionKind.MARKER, marker="[OK]")
        assert loaded(tmp_path).config.loop.success_criteria == (expected,)
        assert as_json((expected,)) == [{"type": "marker", "marker": "[OK]"}]
        short = loaded(
            tmp_path, RALPH_RALPH_SUCCESS_CRITERIA="test_pass,type_check"
        ).config.loop.success_criteria
        assert [each.type for each in short] == [CriterionKind.TEST_PASS, CriterionKind.TYPE_CHECK]


class TestKeys:
    def test_every_field_of_the_config_is_a_key_and_the_other_way_round(self) -> None:
        def names(tree: object, prefix: str) -> list[str]:
            found = []
            for field in fields(tree):  # type: ignore[arg-type]  # a dataclass, as the caller checked
                value = getattr(tree, field.name)
                name = prefix + ("ralph" if field.name == "loop" and not prefix else field.name)
                found += names(value, name + ".") if is_dataclass(value) else [name]
            return found

        assert names(Config(), "") == [key.name for key in KEYS if not key.ignored]

    def test_names_and_variables_are_unique_and_every_key_is_explained(self) -> None:
        assert len({key.variable for key in KEYS}) == len(KEYS) == len(BY_NAME)
        for key in KEYS:
            assert key.doc.endswith(".")
            assert "|" not in key.doc
            assert "\n" not in key.doc

    def test_the_template_has_five_lines_that_set_nothing_and_uncommented_they_set_defaults(
        self, tmp_path: Path
    ) -> None:
        assert len(template().splitlines()) == 5
        assert parse_yaml(template(), "ralph.yml").entries == {}
        uncommented = re.sub("(?m)^# ", "", template())
        put(tmp_path, "ralph.yml", uncommented)
        found = loaded(tmp_path)
        assert found.config == Config()
        assert found.warnings == ()
        changed = {name for name, place in found.origins.items() if place.layer is Layer.PROJECT}
        assert changed == {"memories.budget", "memories.inject"}

    def test_sections_of_ralph_orchestrator_are_left_to_it(self, tmp_path: Path) -> None:
        sections = "event_loop:\n  max_iterations: 100\ncli:\n  backend: claude\nhats:\n  planner: {triggers: [a]}\n"
        sections += "tasks:\n  enabled: true\nRObot: {}\nmemories:\n  budget: 9\n"
        put(tmp_path, "ralph.yml", sections)
        assert loaded(tmp_path).warnings == ()
        assert loaded(tmp_path).config.memories.budget == 9
        put(tmp_path, "ralph.yml", "core: {}\ncores: {}\nmemories:\n  core: 1\n")
        assert [warning.partition(";")[0] for warning in loaded(tmp_path).warnings] == [
            "ralph.yml:2: unknown key cores", "ralph.yml:4: unknown key memories.core"
        ]  # fmt: skip

    @pytest.mark.parametrize("name", [".ralph.toml", "ralph.yml", "ralph.local.yml"])
    def test_a_project_cannot_say_where_texts_and_keys_are_sent(
        self, tmp_path: Path, name: str
    ) -> None:
        url, key = "https://example.com/v1", "AWS_SECRET_ACCESS_KEY"
        toml = f'[embedding]\nprovider = "compatible"\nurl = "{url}"\nkey_env = "{key}"\n'
        yml = f"embedding:\n  provider: compatible\n  url: {url}\n  key_env: {key}\n"
        put(tmp_path, name, toml if name.endswith("toml") else yml)
        found = loaded(tmp_path)
        assert found.config.embedding == Embedding()
        expected = [
            f"{name}:{line}: embedding.{key}"
            for line, key in enumerate(("provider", "url", "key_env"), 2)
        ]
        assert [warning.partition(" is ignored")[0] for warning in found.warnings] == expected
        mine = loaded(
            tmp_path, RALPH_EMBEDDING_URL=url, RALPH_EMBEDDING_KEY_ENV="MY_KEY"
        ).config.embedding
        assert (mine.url, mine.key_env) == (url, "MY_KEY")
        put(tmp_path, "home/.config/ralph/config.yml", yml)
        assert loaded(tmp_path).config.embedding.url == url

    @pytest.mark.parametrize("provider", ["auto", "none", "local"])
    def test_a_project_may_choose_a_provider_that_sends_nothing(
        self, tmp_path: Path, provider: str
    ) -> None:
        put(tmp_path, "ralph.yml", f"embedding: {{provider: {provider}}}\n")
        found = loaded(tmp_path)
        assert (found.config.embedding.provider, found.warnings, found.trusted_values) == (
            provider,
            (),
            [],
        )

    @pytest.mark.parametrize("provider", ["openai", "voyage", "ollama", "compatible"])
    def test_a_project_cannot_choose_a_server_by_itself(
        self, tmp_path: Path, provider: str
    ) -> None:
        put(tmp_path, "ralph.yml", f"embedding: {{provider: {provider}}}\n")
        found = loaded(tmp_path)
        assert found.config.embedding.provider == "auto"
        assert [(each.key, each.value, each.trusted) for each in found.trusted_values] == [
            ("embedding.provider", provider, False)
        ]
        assert (
            loaded(tmp_path, RALPH_EMBEDDING_PROVIDER=provider).config.embedding.provider
            == provider
        )

    def test_a_projects_criteria_count_unless_they_say_what_is_run(self, tmp_path: Path) -> None:
        put(tmp_path, "ralph.yml", "ralph:\n  success_criteria: [test_pass]\n")
        assert [each.type for each in loaded(tmp_path).config.loop.success_criteria] == [
            CriterionKind.TEST_PASS
        ]
        put(
            tmp_path,
            "ralph.yml",
            "ralph:\n  success_criteria: [{type: test_pass, command: curl evil}]\n",
        )
        assert loaded(tmp_path).config.loop.success_criteria == ()
        assert [each.key for each in loaded(tmp_path).trusted_values] == ["ralph.success_criteria"]

    def test_the_docs_have_the_table_of_keys_as_it_is(self) -> None:
        text = DOCS.read_text(encoding="utf-8")
        begin, end = "<!-- generated: keys -->\n", "<!-- end -->"
        assert text.count(begin) == 1
        assert text.partition(begin)[2].partition(end)[0].strip() == keys_table().strip()


def test_readers_are_imported_only_for_files_that_exist(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from ralph.core.config import load; load(Path(sys.argv[1]), env={}); "
        "print([name for name in ('yaml', 'tomllib', 'difflib') if name in sys.modules])"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert (
        subprocess.run(command, capture_output=True, check=True, text=True, encoding="utf-8").stdout
        == "[]\n"
    )
    put(tmp_path, "ralph.yml", "memories:\n")
    assert (
        subprocess.run(command, capture_output=True, check=True, text=True, encoding="utf-8").stdout
        == "['yaml']\n"
    )


@pytest.mark.parametrize("name", FILES)
@given(
    text=st.one_of(
        messy(
            "memories:\n",
            "  budget: ",
            "[memories]\n",
            "budget = ",
            "MEMORIES_BUDGET=",
            "  filter:\n",
            "&a ",
            "*a",
            "<<: ",
        ),
        st.text(max_size=60),
        st.sampled_from([key.name.rpartition(".")[2] for key in KEYS]).flatmap(
            lambda key: st.text(max_size=20).map(lambda value: f"memories:\n  {key}: {value}\n")
        ),
    )
)
@settings(deadline=None)
def test_any_text_in_any_file_gives_a_config_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str
) -> None:
    root = tmp_path_factory.mktemp("any")
    put(root, name, text)
    try:
        said = loaded(root).warnings
    except ConfigError as error:
        said = (error.message,)
    assert all(re.match(r"\S+:\d+: [^\n]+$", line) for line in said)


@given(name=st.sampled_from([key.variable for key in KEYS]), value=st.text(max_size=30))
def test_any_text_in_a_variable_gives_a_config_or_a_config_error(name: str, value: str) -> None:
    said = f"{name}: "
    try:
        assert load(None, env={name: value}).warnings == ()
    except ConfigError as error:
        said = error.message
    assert said.startswith(f"{name}: ")


# --- settings in a worktree ---


def put_budget(root: Path, name: str, budget_of: int) -> None:
    (root / name).write_text(f"memories:\n  budget: {budget_of}\n", encoding="utf-8", newline="")


def budget_of(root: Path) -> int:
    return config.load(root, env={}).config.memories.budget


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """A repository and a worktree of it; neither has settings."""
    main, side = tmp_path / "main", tmp_path / "side"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    subprocess.run(["git", "-C", main, "worktree", "add", "-q", "-b", "other", side], check=True)
    return main, side


def test_settings_that_were_never_committed_count_in_a_worktree(
    checkouts: tuple[Path, Path],
) -> None:
    main, side = checkouts
    put_budget(main, "ralph.yml", 1111)
    assert budget_of(side) == budget_of(main) == 1111


def test_the_settings_of_its_branch_count_more(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put_budget(main, "ralph.yml", 1111)
    put_budget(side, "ralph.yml", 2222)
    assert (budget_of(main), budget_of(side)) == (1111, 2222)


def test_a_local_file_counts_in_every_worktree_without_one(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put_budget(side, "ralph.yml", 2222)
    put_budget(main, "ralph.local.yml", 3333)
    assert budget_of(side) == 3333
    put_budget(side, "ralph.local.yml", 4444)
    assert (budget_of(main), budget_of(side)) == (3333, 4444)


def test_a_main_checkout_reads_its_own_files_only(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put_budget(side, "ralph.yml", 2222)
    assert paths.settings_files(main) == paths.config_files(main)
    assert budget_of(main) == config.load(None, env={}).config.memories.budget


def private_patterns(root: Path) -> set[str]:
    return set(config.load(root, env={}).config.privacy.patterns)


def test_private_patterns_of_the_main_checkout_count_in_worktrees(
    checkouts: tuple[Path, Path],
) -> None:
    main, side = checkouts
    for root, name, pattern in (
        (main, "ralph.yml", "KITE-[0-9]+"),
        (main, "ralph.local.yml", "ACME-[0-9]+"),
        (side, "ralph.yml", "OWL-[0-9]+"),
    ):
        (root / name).write_text(
            f'privacy:\n  patterns: ["{pattern}"]\n', encoding="utf-8", newline=""
        )
    assert private_patterns(main) == {"ACME-[0-9]+"}, "a higher file says it anew"
    assert private_patterns(side) == {"ACME-[0-9]+"}, (
        "of the main checkout's files the highest counts, and it is one person's"
    )
    (main / "ralph.local.yml").unlink()
    assert private_patterns(side) == {"KITE-[0-9]+", "OWL-[0-9]+"}
