"""Vectors that a server makes while nobody asks it anything.

The clock belongs to the test. `work` is what the thread calls; one test starts the thread itself.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest
from tests.support.index_sources import put
from tests.support.runner import Block, numbered, page

from ralph.core import paths
from ralph.core.settings import Embedding, Provider
from ralph.search import index, meaning
from ralph.search.idle_embedding import QUIET_SECONDS, IdleEmbedding
from ralph.search.vectors import Matrix
from ralph.storage.index_files import sole_writer
from ralph.testing import HashEmbedder

LOCAL = Embedding(provider=Provider.LOCAL)


class Server(HashEmbedder):
    """A server with a few memories and its own clock, and the embedder that it uses."""

    def __init__(self, root: Path, count: int = 3) -> None:
        super().__init__()
        self.root = root
        self.time = 0.0
        self.looks = 0  # for records without a vector
        self.requests = ExitStack()
        self.request_at = 0  # the text during which a request comes
        self.idle = IdleEmbedding(self.embed_while, clock=lambda: self.time)
        self.write(count)

    def write(self, count: int) -> None:
        """Write so many memories, and index them."""
        blocks = [Block(f"memory {number}", numbered(number)) for number in range(count)]
        put(self.root, ".agent/memories.md", page(*blocks))
        index.sync(self.root)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text. A request may come meanwhile."""
        rows = super().embed(texts)
        if len(self.texts) == self.request_at:
            self.requests.enter_context(self.idle.request())
        return rows

    def embed_while(
        self, root: Path, settings: Embedding, may_continue: Callable[[], bool]
    ) -> meaning.Embedded | None:
        """Embed with this embedder instead of the local model."""
        assert settings == LOCAL
        self.looks += 1
        return meaning.embed_while_with(root, self, may_continue)

    def rest(self, seconds: float = QUIET_SECONDS) -> list[str]:
        """Return what is embedded when there has been no request for so long."""
        self.texts.clear()
        self.time += seconds
        self.idle.work(self.root, LOCAL)
        return list(self.texts)


def test_an_idle_server_embeds_everything_newest_first(tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert server.rest() == ["memory 2", "memory 1", "memory 0"]
    assert meaning.embed_with(tmp_path, server).done == 0


def test_a_server_that_was_asked_something_just_now_is_not_idle(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.time = 100.0
    with server.idle.request():
        assert server.rest() == []
    assert server.rest(QUIET_SECONDS - 0.1) == []
    assert len(server.rest(0.2)) == 3


def test_a_request_stops_the_work_and_its_end_lets_it_continue(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.request_at = 2
    assert server.rest() == ["memory 2", "memory 1"]
    assert server.rest() == [], "the request is still being answered"
    server.requests.close()
    assert server.rest() == ["memory 0"]


def test_when_every_record_has_its_vector_the_index_is_not_read_until_it_changes(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path)
    server.rest()
    server.rest()
    assert server.looks == 1
    server.write(4)
    assert server.rest() == ["memory 3"]
    assert server.looks == 2


def embed_in_batches(server: Server, may_continue: Callable[[], bool]) -> None:
    meaning.embed_with(server.root, server, may_continue=may_continue)


def embed_singly(server: Server, may_continue: Callable[[], bool]) -> None:
    meaning.embed_while_with(server.root, server, may_continue)


@pytest.mark.parametrize("embed", [embed_in_batches, embed_singly])
def test_no_record_gets_the_vector_of_one_that_took_its_place_in_the_index(
    tmp_path: Path, embed: Callable[[Server, Callable[[], bool]], None]
) -> None:
    server = Server(tmp_path, count=40)

    def replace_memories() -> bool:
        if server.texts:
            put(tmp_path, ".agent/memories.md", page(Block("another memory", numbered(7))))
            index.rebuild(tmp_path)
        return True

    embed(server, replace_memories)
    embedded = set(server.texts)
    server.texts.clear()
    server.write(40)
    meaning.embed_with(tmp_path, server)
    assert embedded | set(server.texts) == {f"memory {number}" for number in range(40)}
    assert embedded.isdisjoint(server.texts)


def test_of_two_idle_processes_only_one_embeds(tmp_path: Path) -> None:
    first = Server(tmp_path)
    second = Server(tmp_path)
    embedded_by_second = []

    def let_second_work() -> bool:
        embedded_by_second.extend(second.rest())
        return True

    meaning.embed_while_with(tmp_path, first, let_second_work)
    assert len(first.texts) == 3
    assert embedded_by_second == []


def test_a_process_that_writes_the_index_is_not_waited_for_and_does_not_wait(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path)
    with sole_writer(paths.index_file(tmp_path)):
        assert len(server.rest()) == 3


def test_without_an_index_there_is_nothing_to_do(tmp_path: Path) -> None:
    server = Server(tmp_path)
    index.discard_all(tmp_path)
    assert server.rest() == []
    assert not paths.index_file(tmp_path).exists()


@pytest.mark.parametrize("provider", [Provider.NONE, Provider.OPENAI, Provider.OLLAMA])
def test_only_the_local_model_is_used(tmp_path: Path, provider: Provider) -> None:
    Server(tmp_path)
    assert meaning.embed_while(tmp_path, Embedding(provider=provider), lambda: True) is None


def test_the_thread_works_after_a_request_and_ends_when_it_is_told(tmp_path: Path) -> None:
    called = Event()

    def embed_while(root: Path, settings: Embedding, may_continue: Callable[[], bool]) -> None:
        assert (root, settings) == (tmp_path, LOCAL)
        called.set()

    idle = IdleEmbedding(embed_while, quiet_seconds=0.0)
    with idle.request():
        idle.offer(tmp_path, LOCAL)
    assert called.wait(60)
    idle.stop()
    assert not idle.is_idle()
