"""`ralph bench` as its users meet it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ralph.cli.bench import cli
from ralph.errors import NotFound, UsageError

DOCS = [{"id": "d1", "text": "retry the upload"}, {"id": "d2", "text": "rename the logo"}]
QUERIES = [{"id": "q1", "text": "secret question about the upload", "rel": ["d1"]}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "changelog"
    folder.mkdir(parents=True)
    told = json.dumps({"docs": DOCS, "queries": QUERIES})
    (folder / "changelog.json").write_text(told, encoding="utf-8")
    return folder.parent


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_a_table_has_ralph_the_baselines_and_the_bars(data: Path) -> None:
    said = call("retrieval", "--data", data)
    assert said.exit_code == 0
    for word in ("any@5", "ralph", "substring", "any word", "fts5 naive", "floor", "target"):
        assert word in said.stdout


def test_json_is_json_and_nothing_else(data: Path) -> None:
    said = call("retrieval", "--data", data, "--no-baselines", "--format", "json")
    shape = json.loads(said.stdout)
    assert [result["system"] for result in shape["results"]] == ["ralph"]
    assert shape["bars"][0]["figure"] == "recall5"
    assert "changelog: ralph" in said.stderr


def test_single_questions_are_never_printed(data: Path) -> None:
    for form in ("table", "json"):
        said = call("retrieval", "--data", data, "--format", form)
        assert "secret" not in said.output


def test_a_wrong_folder_or_name_says_what_there_is(data: Path, tmp_path: Path) -> None:
    missing = call("retrieval", "--data", tmp_path / "nowhere").exception
    assert isinstance(missing, NotFound)
    unknown = call("retrieval", "--data", data, "--set", "poems").exception
    assert isinstance(unknown, UsageError)
    assert "changelog" in unknown.hint


def test_speed_prints_sizes_and_promises() -> None:
    said = call("speed", "--sizes", "70")
    assert said.exit_code == 0
    assert "rebuild s" in said.stdout
    assert "database MB for 1,000 sessions" in said.stdout


@pytest.mark.parametrize("sizes", ["", "ten", "0", "10,-1", "99999999999"])
def test_sizes_that_are_none_are_wrong_usage(sizes: str) -> None:
    said = call("speed", "--sizes", sizes)
    assert said.exit_code == 2
    assert "such as 1000,10000" in said.stderr


def test_hooks_are_measured_beside_a_bare_interpreter_and_whatever_is_named() -> None:
    said = call("hooks", "--rounds", "1", "--records", "20", "--other", "theirs=true --quick", "--format", "json")
    assert said.exit_code == 0, said.output
    shape = json.loads(said.stdout)
    names = [cost["name"] for cost in shape["costs"]]
    assert names[:3] == ["python -I -S -c pass", "true", "PostToolUse"]
    assert names[-1] == "theirs"
    assert all(cost["median"] > 0 for cost in shape["costs"])
    assert shape["costs"][0]["ratio"] == 1
    assert shape["records"] == 20


def test_the_table_of_hooks_has_a_line_for_each_event() -> None:
    said = call("hooks", "--rounds", "1")
    assert said.exit_code == 0
    assert [line.split()[0] for line in said.stdout.splitlines()[1:4]] == ["python", "true", "PostToolUse"]
    assert "SessionStart" in said.stdout


@pytest.mark.parametrize("other", ["nothing", "=true", "a=", "a='x", "a=/no/such/program"])
def test_a_command_that_is_none_is_wrong_usage(other: str) -> None:
    assert isinstance(call("hooks", "--rounds", "1", "--other", other).exception, UsageError)
