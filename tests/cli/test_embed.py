"""`ralph index embed` and search by meaning as people call them, with the real model where it is installed."""

import json
import os

import pytest
from tests.support.runner import Block, Project, numbered, on_a_terminal, shortened

from ralph.search import embedding_providers, local_embedder, meaning
from ralph.search.local_embedder import LocalEmbedder

real_model = pytest.mark.skipif(
    bool(embedding_providers.missing_modules("local")) and os.environ.get("CI") != "true",
    reason="the local extra is not installed",
)
CHARGED = (
    "Customers were charged twice when the payment webhook was retried; store its event id first"
)
OTHERS = ("Run the linter before every commit", "The colour palette follows the brand guide")
QUESTION = "a buyer's credit card got billed two times for one order"


@pytest.fixture
def project(ralph: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with three memories, searched by meaning as well."""
    monkeypatch.delenv("RALPH_EMBEDDING_PROVIDER")
    ralph.memories(
        *(Block(text, id=numbered(number)) for number, text in enumerate((CHARGED, *OTHERS)))
    )
    return ralph


@pytest.fixture
def without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""
    monkeypatch.setattr(embedding_providers, "_LOCAL_MODULES", ("no_such_module_here",))


@real_model
def test_embed_gives_every_record_a_vector_and_search_finds_by_meaning(project: Project) -> None:
    said = project("index", "sync", "--embed")
    assert (said.code, said.out) == (0, f"3 record(s) embedded by {LocalEmbedder.name}.\n")
    assert project("index", "sync", "--embed").out == "Every record has its vector.\n"
    found = project("search", QUESTION, "--format", "json")
    assert found.err == ""
    assert found.json["hits"][0]["id"] == numbered(0)
    assert found.json["hits"][0]["why"][-1].startswith("meaning: ")
    assert "meaning: " in project("search", QUESTION, "--explain").out


@real_model
def test_a_search_whose_words_do_not_answer_embeds_what_is_new(project: Project) -> None:
    project("index", "sync", "--embed", "--limit", "1")
    for _ in range(20):  # on a busy machine, one search has no time for all of them
        project("search", QUESTION)
    assert project("search", QUESTION, "--format", "json").json["hits"][0]["id"] == numbered(0)
    assert project("index", "sync", "--embed").out == "Every record has its vector.\n"


@real_model
def test_a_run_ends_with_vectors_for_what_is_new(project: Project) -> None:
    steps: list[dict[str, object]] = [
        {"say": "it is there", "write": {"ok": "1\n"}},
        {"read_only": True, "say": "<verify-pass/>"},
    ]
    project.put("steps.json", json.dumps(steps))
    options = ("--agent", "scripted", "--command", "steps.json", "-c", "custom:test -f ok")
    assert project("loop", "start", "make it work", *options).code == 0
    assert project("status", "--format", "json").json["missing_vectors"] == 0


@real_model
def test_a_search_whose_words_answer_loads_no_model(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("index", "sync", "--embed", "--limit", "1")
    local_embedder.shared_local_embedder.cache_clear()
    monkeypatch.setattr(LocalEmbedder, "embed", None)
    assert project("search", "payment webhook retried", "--format", "json").json["hits"][0][
        "id"
    ] == numbered(0)


@real_model
def test_status_says_how_many_records_have_no_vector(project: Project) -> None:
    local_embedder.shared_local_embedder.cache_clear()  # a loaded model would be used
    project("search", "linter")
    assert project("status", "--format", "json").json["missing_vectors"] == 3
    missing = project("status").out
    assert "3 record(s) have no vector yet (`ralph index sync --embed`)" in missing
    project("index", "sync", "--embed")
    assert project("status", "--format", "json").json["missing_vectors"] == 0
    assert "vector" not in project("status").out


@real_model
def test_a_limit_leaves_the_rest_and_says_how_many(project: Project) -> None:
    said = project("index", "sync", "--embed", "--limit", "2")
    assert said.out.startswith(f"2 record(s) embedded by {LocalEmbedder.name}; 1 left")
    assert "1 record(s) embedded" in project("index", "sync", "--embed", "--limit", "2").out


@real_model
def test_sync_embeds_what_is_new_and_says_so_aside(project: Project) -> None:
    first = project("index", "sync")
    assert first.out == "1 file(s) read, 0 gone.\n"
    assert first.err == f"3 record(s) embedded by {LocalEmbedder.name}.\n"
    second = project("index", "sync")
    assert (second.out, second.err) == ("Up to date.\n", "")
    assert project("index", "sync", "--embed").out == "Every record has its vector.\n"


@real_model
def test_sync_in_a_terminal_embeds_everything(project: Project) -> None:
    count = meaning.MAX_RECORDS_PER_SYNC + 1
    project.memories(*(Block(f"Note {n}", id=numbered(n)) for n in range(count)))
    limited = project("index", "sync")
    assert f"{count - 1} record(s) embedded by {LocalEmbedder.name}; 1 left" in limited.err
    project.memories(*(Block(f"Other note {n}", id=numbered(n)) for n in range(count)))
    shown = on_a_terminal(project.root, "index", "sync").decode()
    assert f"embedding: {count} of {count}" in shown
    assert f"{count} record(s) embedded by {LocalEmbedder.name}." in shown


def test_provider_none_embeds_nothing(project: Project) -> None:
    project.put("ralph.yml", "embedding:\n  provider: none\n")
    assert project("index", "sync").err == ""
    said = project("index", "sync", "--embed")
    assert said.code == 2
    assert "no embedding provider is set" in said.err
    assert not project.file("cache/vectors.db").exists()


@pytest.mark.usefixtures("without_model")
def test_without_the_extra_sync_and_search_are_silent_and_embed_names_the_extra(
    project: Project,
) -> None:
    assert project("index", "sync").err == ""
    assert project("search", "linter").err == ""
    said = project("index", "sync", "--embed")
    assert said.code == 2
    assert "[local]" in said.err


@pytest.mark.usefixtures("without_model")
def test_a_provider_that_is_named_but_not_installed_is_told(project: Project) -> None:
    project.put("ralph.yml", "embedding:\n  provider: local\n")
    said = project("index", "sync", "--embed")
    assert said.code == 1
    assert "no_such_module_here" in said.err
    assert "[local]" in said.err


def test_a_server_that_cannot_be_reached_is_one_warning_and_search_goes_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setenv(
        "RALPH_EMBEDDING_URL", "http://127.0.0.1:9"
    )  # nobody listens on the discard port
    monkeypatch.setenv("RALPH_EMBEDDING_PROVIDER", "compatible")
    project.put("ralph.yml", "embedding:\n  model: m\n")
    said = project("index", "sync", "--embed")
    assert said.code == 1
    assert said.out.startswith("0 record(s) embedded by compatible:m; 3 left, ")
    assert "compatible at 127.0.0.1:9: cannot be reached" in said.err
    found = project("search", "linter")
    assert (found.code, found.err) == (0, "")
    assert shortened(numbered(1)) in found.out


def test_an_address_in_the_projects_own_file_is_not_followed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_EMBEDDING_PROVIDER", "compatible")
    project.put("ralph.yml", "embedding:\n  model: m\n  url: http://127.0.0.1:9\n")
    said = project("index", "sync", "--embed")
    assert said.code == 2
    assert "ralph.yml:3: embedding.url is ignored here" in said.err
    assert "needs an address" in said.err


@pytest.mark.usefixtures("without_model")
def test_a_server_that_a_cloned_project_chooses_gets_no_text_until_it_is_trusted(
    project: Project,
) -> None:
    project.put("ralph.yml", "embedding:\n  provider: ollama\n  url: http://127.0.0.1:9\n")
    said = project("index", "sync", "--embed")
    assert said.code == 2
    assert "ralph.yml:2: embedding.provider is ignored here" in said.err
    assert "127.0.0.1" not in said.out + said.err
    assert project("trust", "--yes").code == 0
    assert "is ignored here" not in project("index", "sync", "--embed").err
