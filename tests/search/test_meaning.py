"""Meaning in the product: what gets vectors, how a search uses them, and what happens when they cannot be had."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ralph.core import paths
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Family, MemoryKind, Query
from ralph.core.settings import Embedding, Provider
from ralph.recall import graph_search, memories, search
from ralph.search import embedding_providers, index, meaning
from ralph.search.embeddings import ProviderFailed
from ralph.search.local_embedder import LocalEmbedder
from ralph.search.vectors import Matrix
from ralph.storage import queries
from ralph.storage.vectors import VectorCache
from ralph.testing import HashEmbedder

INSTALLED = not embedding_providers.missing_modules("local")
real_model = pytest.mark.skipif(
    not INSTALLED and os.environ.get("CI") != "true", reason="the local extra is not installed"
)
"""In CI the model is part of the development environment: there a missing one is a failure, not a skip."""

PLAIN = Embedding(provider=Provider.NONE)
TEXTS = (
    "Customers were charged twice when the payment webhook was retried; store its event id first",
    "Run the linter before every commit",
    "The colour palette of the landing page follows the brand guide",
)
CONVENTIONS = (
    "Use pnpm instead of yarn for every install",
    "Money amounts are integer cents, never floats",
    "The circular dependency between auth and users was broken with an interface",
    "Barrel exports in every package, so that modules stay private",
    "Validation of requests happens in the controller with zod",
    "Deploys go through the bastion host on Thursdays",
    "Tests need the database container; run docker compose up first",
    "Prices are shown with two decimals in the shop",
)


def put(root: Path, *texts: str) -> None:
    """Write memories.md by hand."""
    entries = [
        f"### mem-{1705751400 + number}-a{number:03x}\n> {text}\n<!-- tags: | created: 2025-01-20 -->\n"
        for number, text in enumerate(texts)
    ]
    path = paths.memories_files(root)[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(["# Memories\n", "## Fixes\n", *entries]), encoding="utf-8", newline=""
    )


def cache(root: Path) -> VectorCache:
    return VectorCache(paths.cache_folder(root) / "vectors.db")


def near(
    root: Path,
    embedder: HashEmbedder,
    text: str,
    query: Query | None = None,
    *,
    candidates: bool = False,
) -> list[tuple[str, float]]:
    """What is offered by meaning for a text, nearest first, or how near all are; a warning fails the test."""

    def question(connection: sqlite3.Connection) -> list[tuple[str, float]]:
        ask = meaning.nearness(root, embedder, connection, query or Query(limit=None), pytest.fail)
        found = ask(text, list(queries.digests(connection)) if candidates else [])
        records = queries.records(connection, list(found))
        return sorted(
            ((records[key].text, value) for key, value in found.items()), key=lambda each: -each[1]
        )

    return index.ask(root, question)


class Failing(HashEmbedder):
    """An embedder that answers so many times and then never again."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.answers = answers

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, or a failure."""
        if self.answers == 0:
            raise ProviderFailed("hash at nowhere: refused with 500", hint="try again later")
        self.answers -= 1
        return super().embed(texts)


class TestEmbed:
    def test_every_record_gets_a_vector_and_only_once(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        embedder = HashEmbedder()
        assert meaning.embed_with(tmp_path, embedder) == meaning.Embedded(3, 0, "hash:64")
        assert meaning.embed_with(tmp_path, embedder) == meaning.Embedded(0, 0, "hash:64")
        assert len(embedder.texts) == 3
        assert (paths.cache_folder(tmp_path) / "vectors.db").stat().st_mode & 0o777 == 0o600

    def test_a_limit_leaves_the_rest_to_the_next_call_and_the_newest_come_first(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, "one", "two", "three")
        embedder = HashEmbedder()
        assert meaning.embed_with(tmp_path, embedder, limit=2) == meaning.Embedded(2, 1, "hash:64")
        assert [text.strip() for text in embedder.texts] == ["three", "two"]
        assert meaning.embed_with(tmp_path, embedder, limit=2) == meaning.Embedded(1, 0, "hash:64")

    def test_progress_counts_up_to_what_is_planned(self, tmp_path: Path) -> None:
        put(tmp_path, *(f"memory number {number}" for number in range(70)))
        seen: list[tuple[int, int]] = []
        meaning.embed_with(
            tmp_path, HashEmbedder(), progress=lambda done, total: seen.append((done, total))
        )
        assert seen[-1] == (70, 70)
        assert len(seen) > 1
        assert seen == sorted(seen)

    def test_what_was_made_before_a_failure_is_kept(self, tmp_path: Path) -> None:
        put(tmp_path, *(f"memory number {number}" for number in range(70)))
        failed = meaning.embed_with(tmp_path, Failing(1))
        assert failed.problem is not None
        assert failed.done > 0
        assert failed.done + failed.left == 70
        after = HashEmbedder()
        assert meaning.embed_with(tmp_path, after) == meaning.Embedded(failed.left, 0, "hash:64")
        assert len(after.texts) == failed.left

    def test_the_same_words_twice_are_embedded_once(self, tmp_path: Path) -> None:
        put(tmp_path, "the same", "the same", "another")
        embedder = HashEmbedder()
        assert meaning.embed_with(tmp_path, embedder).done == 2
        assert len(near(tmp_path, embedder, "the same")) >= 2

    def test_a_lost_index_costs_no_vector(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        index.rebuild(tmp_path)
        assert meaning.embed_with(tmp_path, HashEmbedder()).done == 0

    def test_another_model_begins_anew_and_the_old_vectors_stay(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder(64))
        assert meaning.embed_with(tmp_path, HashEmbedder(32)).done == 3
        assert meaning.embed_with(tmp_path, HashEmbedder(64)).done == 0

    def test_vectors_of_contents_that_are_gone_go_too(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        put(tmp_path, TEXTS[0])
        assert meaning.embed_with(tmp_path, HashEmbedder()).done == 0
        with cache(tmp_path) as vectors:
            assert len(vectors.all("hash:64")) == 1

    def test_an_edited_record_is_embedded_again(self, tmp_path: Path) -> None:
        put(tmp_path, "before")
        embedder = HashEmbedder()
        meaning.embed_with(tmp_path, embedder)
        put(tmp_path, "after")
        assert meaning.embed_with(tmp_path, embedder).done == 1
        assert [text for text, _ in near(tmp_path, embedder, "after")] == ["after"]

    def test_vectors_of_another_size_are_made_again(self, tmp_path: Path) -> None:
        put(tmp_path, "one", "two")
        small = HashEmbedder(16)
        small.name = "hash:64"
        meaning.embed_with(tmp_path, small)
        embedder = HashEmbedder(64)
        assert near(tmp_path, embedder, "one") == []
        assert meaning.embed_with(tmp_path, embedder).done == 2
        assert near(tmp_path, embedder, "one")[0][0] == "one"

    def test_a_damaged_cache_is_made_again(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        (paths.cache_folder(tmp_path) / "vectors.db").write_bytes(b"no database" * 1000)
        assert meaning.embed_with(tmp_path, HashEmbedder()).done == 3

    def test_no_provider_and_one_that_is_not_installed_are_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(UsageError, match="no embedding provider is set"):
            meaning.embed(tmp_path, PLAIN)
        monkeypatch.setattr(embedding_providers, "_LOCAL_MODULES", ("no_such_module_here",))
        with pytest.raises(UsageError, match="no embedding provider is set"):
            meaning.embed(tmp_path, Embedding())
        with pytest.raises(NotFound, match="needs no_such_module_here"):
            meaning.embed(tmp_path, Embedding(provider=Provider.LOCAL))
        assert meaning.embed_some(tmp_path, Embedding(provider=Provider.LOCAL)) is None

    def test_nothing_is_embedded_unasked_by_a_server(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        for provider in (
            Provider.NONE,
            Provider.OPENAI,
            Provider.VOYAGE,
            Provider.OLLAMA,
            Provider.COMPATIBLE,
        ):
            assert meaning.embed_some(tmp_path, Embedding(provider=provider)) is None


class TestNearness:
    def test_a_long_record_is_as_near_as_its_best_chunk(self, tmp_path: Path) -> None:
        filler = " ".join(f"filler{number}" for number in range(400))
        question = "quartz violin harbour"
        put(tmp_path, f"{filler} {question}")
        embedder = HashEmbedder(512)
        meaning.embed_with(tmp_path, embedder)
        chunks = len(embedder.texts)
        assert chunks > 3
        found = [
            value
            for text, value in near(tmp_path, embedder, question, candidates=True)
            if text.startswith("filler0")
        ]
        best = (embedder.embed(embedder.texts[:chunks]) @ embedder.embed([question])[0]).max()
        assert found == [pytest.approx(best, abs=0.02)]

    def test_candidates_are_judged_and_the_nearest_are_added(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            *(f"shared shared shared word{number}" for number in range(meaning.NEAREST + 20)),
        )
        embedder = HashEmbedder(256)
        meaning.embed_with(tmp_path, embedder)

        def question(connection: sqlite3.Connection) -> tuple[int, int]:
            ask = meaning.nearness(tmp_path, embedder, connection)
            keys = list(queries.digests(connection))
            return len(ask("shared", [])), len(ask("shared", keys))

        nearest, everything = index.ask(tmp_path, question)
        assert nearest == meaning.NEAREST
        assert everything == meaning.NEAREST + 20

    def test_a_filter_of_the_query_holds_for_what_is_offered_by_meaning(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, "quartz violin")
        embedder = HashEmbedder()
        meaning.embed_with(tmp_path, embedder)
        assert near(tmp_path, embedder, "quartz", Query(kinds=(MemoryKind.FIX,)))
        assert not near(tmp_path, embedder, "quartz", Query(kinds=(MemoryKind.DECISION,)))
        assert not near(tmp_path, embedder, "quartz", Query(since="2026-01-01"))

    def test_nothing_is_asked_of_an_embedder_while_nothing_is_embedded(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, *TEXTS)
        embedder = HashEmbedder()
        assert near(tmp_path, embedder, "payment") == []
        assert embedder.texts == []

    def test_a_failure_is_one_warning_and_no_answer(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        told: list[str] = []

        def question(connection: sqlite3.Connection) -> object:
            return meaning.nearness(tmp_path, Failing(0), connection, warn=told.append)(
                "payment", []
            )

        assert index.ask(tmp_path, question) == {}
        assert told == [
            "searched by words alone: hash at nowhere: refused with 500 (try again later)"
        ]


@dataclass
class Served:
    """A server that embeds by the hash embedder until it should fail; it counts its texts."""

    url: str
    texts: list[str]
    broken: bool = False


@pytest.fixture
def served() -> Iterator[Served]:
    """A server on this machine that speaks OpenAI's format."""
    embedder = HashEmbedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            state.texts.extend(texts)
            vectors = embedder.embed(texts).tolist()
            items = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
            body = json.dumps(
                {"error": {"message": "overloaded"}} if state.broken else {"data": items}
            ).encode()
            self.send_response(503 if state.broken else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    state = Served(f"http://127.0.0.1:{server.server_port}/v1", [])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class TestHeld:
    def test_records_of_an_index_in_memory_get_vectors_and_are_offered_as_in_the_product(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path / "project", *TEXTS)
        embedder = HashEmbedder()

        def question(connection: sqlite3.Connection) -> set[float]:
            assert meaning.embed_held(tmp_path / "elsewhere", embedder, connection).done == 3
            ask = meaning.nearness(tmp_path / "elsewhere", embedder, connection, warn=pytest.fail)
            return set(ask("the payment webhook was retried", []).values())

        held = index.ask(tmp_path / "project", question)
        meaning.embed_with(tmp_path / "project", embedder)
        assert held == {
            value
            for _, value in near(tmp_path / "project", embedder, "the payment webhook was retried")
        }
        assert held


class Clocked(HashEmbedder):
    """An embedder with its own clock, by which each text takes 50 ms, or as long as is given."""

    def __init__(self, seconds_per_character: float = 0.0) -> None:
        super().__init__()
        self.time = 0.0
        self.seconds_per_character = seconds_per_character

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text, and move the clock."""
        self.time += sum(map(self.seconds_for, texts))
        return super().embed(texts)

    def seconds_for(self, text: str) -> float:
        """Return how long a text takes."""
        if not self.seconds_per_character:
            return 0.05
        return self.seconds_per_character * (100 + len(text))

    def ask(self, root: Path, text: str, seconds: float = 0.2, query: Query | None = None) -> str:
        """Compare records with a text, and return the warning."""
        warnings: list[str] = []
        self.texts.clear()

        def question(connection: sqlite3.Connection) -> None:
            near = meaning.nearness(
                root,
                self,
                connection,
                query or Query(limit=None),
                warnings.append,
                seconds=seconds,
                clock=lambda: self.time,
            )
            near(text, [])

        index.ask(root, question)
        return "".join(warnings)


class TestNewVectors:
    def test_a_search_embeds_the_newest_for_a_moment_and_says_what_is_left(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, *(f"memory {number}" for number in range(10)))
        embedder = Clocked()
        warning = embedder.ask(tmp_path, "question")
        embedded = [text.strip() for text in embedder.texts]
        assert embedded == ["question", "memory 9", "memory 8", "memory 7"]
        assert warning.startswith("7 record(s) were searched by words alone")
        assert "`ralph index sync --embed`" in warning

    def test_repeated_searches_embed_each_record_once(self, tmp_path: Path) -> None:
        put(tmp_path, *(f"memory {number}" for number in range(5)))
        embedder = Clocked()
        embedder.ask(tmp_path, "question")
        assert embedder.ask(tmp_path, "question") == ""
        assert [text.strip() for text in embedder.texts] == ["question", "memory 1", "memory 0"]
        embedder.ask(tmp_path, "question")
        assert embedder.texts == ["question"]

    def test_only_the_kinds_that_are_asked_for_are_embedded(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        embedder = Clocked()
        embedder.ask(tmp_path, "question", query=Query(families=(Family.JOURNAL,)))
        assert embedder.texts == ["question"]

    def test_a_long_record_is_left_to_a_sync(self, tmp_path: Path) -> None:
        put(tmp_path, "short", "a long record of many words " * 200)
        embedder = Clocked()
        assert embedder.ask(tmp_path, "question").startswith("1 record(s)")
        assert [text.strip() for text in embedder.texts] == ["question", "short"]
        assert embedder.ask(tmp_path, "question") == "", "it has been said"

    def test_a_text_that_would_take_too_long_makes_room_for_a_shorter_one(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, "oldest words", "long words " * 60, "newest words")
        embedder = Clocked(seconds_per_character=0.0005)
        embedder.ask(tmp_path, "a question")
        assert [text.strip() for text in embedder.texts] == [
            "a question",
            "newest words",
            "oldest words",
        ]

    @pytest.mark.parametrize("seconds_per_character", [0.00001, 0.0001, 0.001, 0.01])
    def test_new_vectors_never_take_longer_than_allowed(
        self, tmp_path: Path, seconds_per_character: float
    ) -> None:
        put(tmp_path, *(f"{number} " + "words " * number for number in range(1, 80)))
        embedder = Clocked(seconds_per_character)
        for _ in range(5):
            began = embedder.time
            embedder.ask(tmp_path, "question?")
            assert embedder.time - began - embedder.seconds_for("question?") <= 0.2

    def test_records_that_a_search_does_not_cover_are_not_mentioned(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        embedder = Clocked()
        assert embedder.ask(tmp_path, "question", query=Query(families=(Family.JOURNAL,))) == ""

    def test_a_server_gets_no_records_from_a_search(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        embedder = Clocked()
        embedder.ask(tmp_path, "question", seconds=0)
        assert embedder.texts == []


class TestSearch:
    def test_a_search_by_a_server_finds_and_survives_its_failure_with_one_warning(
        self, tmp_path: Path, served: Served
    ) -> None:
        put(tmp_path, *TEXTS)
        settings = Embedding(provider=Provider.COMPATIBLE, model="m", url=served.url)
        query = Query("charged twice when the payment webhook was retried")
        assert search.search(tmp_path, query, embedding=settings).found.hits
        assert served.texts == []
        assert meaning.embed(tmp_path, settings) == meaning.Embedded(3, 0, "compatible:m")
        served.texts.clear()
        answer = search.search(tmp_path, query, embedding=settings)
        assert answer.warnings == ()
        assert served.texts == [query.text]
        assert any(why.startswith("meaning: ") for why in answer.found.hits[0].why)
        served.broken = True
        fallen = search.search(tmp_path, query, embedding=settings)
        assert fallen.found == search.search(tmp_path, query).found
        assert len(fallen.warnings) == 1
        assert "searched by words alone: compatible at 127.0.0.1" in fallen.warnings[0]
        assert "503" in fallen.warnings[0]

    def test_a_server_that_fails_while_embedding_is_told_and_asked_again_later(
        self, tmp_path: Path, served: Served
    ) -> None:
        put(tmp_path, *TEXTS)
        settings = Embedding(provider=Provider.COMPATIBLE, model="m", url=served.url)
        served.broken = True
        failed = meaning.embed(tmp_path, settings)
        assert (failed.done, failed.left) == (0, 3)
        assert failed.problem is not None
        assert "overloaded" in failed.problem.message
        served.broken = False
        assert meaning.embed(tmp_path, settings).done == 3

    def test_settings_that_cannot_work_are_a_warning_for_a_search(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        answer = search.search(
            tmp_path, Query("payment"), embedding=Embedding(provider=Provider.COMPATIBLE)
        )
        assert answer.found.hits
        assert [warning.partition(" (")[0] for warning in answer.warnings] == [
            "searched by words alone: the embedding provider compatible needs an address"
        ]

    def test_without_a_provider_vectors_change_nothing(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        meaning.embed_with(tmp_path, HashEmbedder())
        assert search.search(tmp_path, Query("payment"), embedding=PLAIN) == search.search(
            tmp_path, Query("payment")
        )

    def test_a_search_by_words_alone_makes_no_cache(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS)
        search.search(tmp_path, Query("payment"), embedding=PLAIN)
        assert not (paths.cache_folder(tmp_path) / "vectors.db").exists()


@real_model
class TestRealModel:
    def test_a_similar_bug_is_found_without_a_shared_word(self, tmp_path: Path) -> None:
        put(tmp_path, *TEXTS, "Use tabs in the Makefile", "Screenshots live beside their page")
        question = Query("a buyer's credit card got billed two times for one order")
        assert not search.search(tmp_path, question, embedding=PLAIN).found.hits
        meaning.embed(tmp_path, Embedding())
        answer = search.search(tmp_path, question, embedding=Embedding())
        assert answer.warnings == ()
        assert answer.found.hits[0].record.text == TEXTS[0]
        assert answer.found.hits[0].why[-1].startswith("meaning: ")
        assert [hit.weak for hit in answer.found.hits] == [True]
        _, entries = memories.search(tmp_path, question, embedding=Embedding())
        assert [entry.record.text for entry in entries] == [TEXTS[0]]
        nodes, _ = graph_search.search(
            tmp_path, graph_search.GraphQuery(question.text), embedding=Embedding()
        )
        assert nodes[0].node.id == entries[0].record.id

    @pytest.mark.parametrize(
        "text",
        [
            "kubernetes",
            "Kubernetes ingress timeouts",
            "zebra quantum flux",
            "qwertyuiop",
            "xylophone orchestra",
            "연차 휴가 신청 절차",
            "音楽の再生が途切れる",
        ],
    )
    @pytest.mark.parametrize("count", [1, 3, 8])
    def test_a_question_about_something_else_finds_nothing(
        self, tmp_path: Path, text: str, count: int
    ) -> None:
        put(tmp_path, *CONVENTIONS[:count])
        assert search.search(tmp_path, Query(text), embedding=Embedding()).found.hits == ()

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("pendency", id="a part of a word"),
            pytest.param("npm", id="the end of a word"),
            pytest.param("valdation", id="a typo"),
            pytest.param("validate", id="another form"),
            pytest.param("exports modules", id="two words"),
            pytest.param("how are prices stored", id="a question with a common word"),
            pytest.param("integer cents for money", id="most of a sentence"),
        ],
    )
    def test_what_words_find_is_found_first_with_the_model(self, tmp_path: Path, text: str) -> None:
        put(tmp_path, *CONVENTIONS)
        meaning.embed(tmp_path, Embedding())
        by_words = search.search(tmp_path, Query(text), embedding=PLAIN).found.hits
        certain = [hit.record.text for hit in by_words if not hit.weak]
        with_model = search.search(tmp_path, Query(text), embedding=Embedding()).found.hits
        assert [hit.record.text for hit in with_model if not hit.weak] == certain
        assert [hit.record.text for hit in with_model][: len(certain)] == certain

    def test_threads_that_need_the_model_at_the_same_time_load_it_once(self) -> None:
        embedder = LocalEmbedder()
        with ThreadPoolExecutor(4) as threads:
            loaded = [threads.submit(embedder.load) for _ in range(4)]
        assert len({id(result.result()) for result in loaded}) == 1

    def test_the_runtime_of_the_model_leaves_no_telemetry(self, tmp_path: Path) -> None:
        script = (
            "from ralph.search.local_embedder import LocalEmbedder; LocalEmbedder().embed(['x'])"
        )
        environment = {"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONUTF8": "1"}
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
        assert list(tmp_path.rglob("*")) == []

    def test_a_text_in_a_script_that_it_cannot_read_is_near_to_nothing(self) -> None:
        rows_ = LocalEmbedder().embed(
            ["인증 토큰이 만료됨", "mixed 인증", "the token expires", "404"]
        )
        assert [bool(row.any()) for row in rows_] == [False, True, True, True]

    def test_a_question_in_a_script_that_it_cannot_read_does_not_load_it(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, *CONVENTIONS)
        embedder = LocalEmbedder()

        def question(connection: sqlite3.Connection) -> None:
            meaning.nearness(tmp_path, embedder, connection, seconds=0.2)("토큰이 만료됨", [])

        index.ask(tmp_path, question)
        assert not embedder.is_loaded
