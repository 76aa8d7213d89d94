"""The verbs behind `ralph bench`: which data sets a folder holds, and what is said about them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ralph.app import bench, search
from ralph.context import tokens
from ralph.errors import NotFound, Unreadable, UsageError
from ralph.model.query import Hit
from ralph.model.record import MemoryKind, Record
from ralph.search.embedders import ProviderFailed
from ralph.search.meaning import Matrix
from ralph.search.measure import runs
from ralph.search.measure.metrics import Figures
from ralph.search.measure.runs import Result
from ralph.testing import HashEmbedder

DOCS = [
    {"id": "d1", "text": "retry the upload on timeout", "ts": 1},
    {"id": "d2", "text": "rename the logo file", "ts": 2},
]
QUERIES = [{"id": "q1", "text": "upload retry", "rel": ["d1"]}]
OWN_RECORDS = [
    {"id": "m1", "family": "memory", "kind": "fix", "text": "retry the upload", "tags": [], "files": []},
]
OWN_QUERIES = [
    {"id": "q1", "text": "upload", "relevant": ["m1"], "category": "keywords"},
    {"id": "q2", "text": "kubernetes", "relevant": [], "category": "negative"},
]


class Failing(HashEmbedder):
    """An embedder that answers so many times and then never again."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.answers = answers

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, or a failure."""
        if self.answers == 0:
            raise ProviderFailed("refused")
        self.answers -= 1
        return super().embed(texts)


def put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    put(tmp_path / "changelog" / "changelog.json", {"docs": DOCS, "queries": QUERIES})
    put(tmp_path / "own" / "records.json", OWN_RECORDS)
    put(tmp_path / "own" / "queries-dev.json", OWN_QUERIES)
    put(tmp_path / "own" / "queries-heldout.json", OWN_QUERIES)
    return tmp_path


def test_a_folder_s_data_sets_are_found_but_the_held_out_half_must_be_asked_for(data: Path) -> None:
    assert [found.name for found in bench.data_sets(data)] == ["changelog", "own-dev"]
    assert [found.name for found in bench.data_sets(data, ["own-heldout"])] == ["own-heldout"]
    assert [found.name for found in bench.data_sets(data / "own")] == ["own-dev"]


def test_what_is_not_there_is_said(data: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="issues is not there"):
        bench.data_sets(data, ["issues"])
    with pytest.raises(NotFound, match="no data set in it"):
        bench.data_sets(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="'poems'"):
        bench.data_sets(data, ["poems"])


def test_a_broken_file_is_unreadable(data: Path) -> None:
    (data / "changelog" / "changelog.json").write_text("{", encoding="utf-8")
    with pytest.raises(Unreadable, match="cannot be read as JSON"):
        bench.data_sets(data)


def test_every_system_answers_every_set(data: Path) -> None:
    results = list(bench.retrieval(bench.data_sets(data)))
    systems = ["ralph", "substring", "any word", "fts5 naive", "fts5 quoted"]
    assert [(result.data_set, result.system) for result in results] == [
        (name, system) for name in ("changelog", "own-dev") for system in systems
    ]
    assert results[0].figures.any5 == 1
    assert results[0].figures.tokens


def test_meaning_is_one_more_system(data: Path) -> None:
    pytest.importorskip("numpy")
    embedder = HashEmbedder()
    with bench.by_meaning(embedder) as meant:
        sets = bench.data_sets(data, ["changelog"])
        results = list(bench.retrieval(sets, meant=meant, baselines=False))
    assert [result.system for result in results] == ["ralph", "ralph + meaning"]
    assert "upload retry" in embedder.texts


def test_a_benchmark_by_meaning_measures_what_a_search_in_a_project_does(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    put(tmp_path / "data" / "changelog" / "changelog.json", {"docs": DOCS, "queries": QUERIES})
    (data_set,) = bench.data_sets(tmp_path / "data")
    with bench.by_meaning(HashEmbedder()) as meant, runs.with_engine(meant=meant)(data_set.collections[0]) as ask:
        hits = ask("upload retry", 5)
    assert any(why.startswith("meaning: ") for why in hits[0].why)


def test_a_provider_that_fails_gives_no_figures(data: Path) -> None:
    pytest.importorskip("numpy")
    sets = bench.data_sets(data, ["changelog"])
    for answers in (0, 1):
        with bench.by_meaning(Failing(answers)) as meant, pytest.raises(ProviderFailed):
            list(bench.retrieval(sets, meant=meant, baselines=False))


def test_bars_compare_only_ralph_s_own_search_and_name_the_category() -> None:
    reached = Figures(10, any5=0.96, silent=0.5)
    korean = {"korean": Figures(2, any5=0.8)}
    results = [Result("own-heldout", "ralph", reached, korean), Result("own-heldout", "substring", reached, korean)]
    bars = bench.bars(results)
    assert [(bar.figure, bar.measured, bar.verdict) for bar in bars] == [
        ("any5", 0.96, "target"),
        ("korean any5", 0.8, "below target"),
        ("silent", 0.5, "below target"),
    ]
    (broken,) = bench.bars([Result("changelog", "ralph", Figures(1, recall5=0.7), {})])
    assert broken.verdict == "BROKEN"


def test_results_for_a_program_leave_out_what_is_unknown() -> None:
    shape = bench.result_json(Result("x", "ralph", Figures(3, any5=1 / 3), {}))
    assert shape == {"set": "x", "system": "ralph", "questions": 3, "any5": 0.3333}


def test_an_answer_costs_what_its_lines_in_layer_1_cost() -> None:
    record = Record("m1", MemoryKind.FIX, "one two three " * 50, created_at="2025-01-20T10:00:00Z")
    one = bench.cost([Hit(record, 0.5)])
    assert one == tokens.estimate(search.line(record, 0.5) + "\n")
    assert bench.cost([Hit(record, 0.5)] * 5) == 5 * one
    assert bench.cost([]) == 0


def test_speed_is_measured_in_a_folder_that_is_gone_afterwards() -> None:
    (found,) = bench.speed([70])
    shape = bench.speed_json([found])
    assert isinstance(shape["speed"], list)
    assert shape["speed"][0]["records"] == 70
