"""`ralph search` at the front door: layers, filters, formats, reasons; and no query is an error."""

import json
import os
import string
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, ended, seen
from tests.support.runner import Block, Project, executable, numbered, on_a_terminal, shortened

from ralph.core import ids, paths
from ralph.core.record import Outcome
from ralph.core.tokens import estimate
from ralph.formats.log import encode_line

LONG = "the whole story of the connection pool, with `code` and numbers. " * 200


@pytest.fixture
def project(ralph: Project) -> Project:
    """Memories of three kinds, a session with three observations, and a journal of five entries."""
    ralph.memories(
        Block(
            "JWT tokens expire after 15 minutes",
            numbered(1),
            "auth, security",
            "2025-01-01",
            "decision",
        ),
        Block("Retry the JWT refresh once", numbered(2), "auth", "2025-01-02", "fix"),
        Block("parseHttpHeader splits at the first colon", numbered(3), "http", "2025-01-03"),
        Block(LONG, numbered(4), "", "2025-01-04", "context"),
    )
    session = encode_line("session", {"id": "s1", "project_path": str(ralph.root)})
    ralph.put(
        LOG, session + "".join(seen(f"ran pytest for the JWT tests, step {n}", n) for n in range(3))
    )
    ralph.put(
        "log/runs/r.jsonl",
        "".join(ended(out, n, f"jwt notes {n}") for n, out in enumerate(Outcome)),
    )
    return ralph


def found(project: Project, *words: str) -> list[str]:
    said = project("search", "--format", "json", "--all", *words)
    assert said.code == 0, said.err
    assert said.json["total"] == len(said.json["hits"])
    return [hit["id"] for hit in said.json["hits"]]


def test_everything_that_ralph_knows_is_searched(project: Project) -> None:
    names = found(project, "jwt")
    assert {name.partition("-")[0] for name in names} == {"mem", "obs", "j"}
    assert len(names) == 2 + 3 + 5


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("jwt", "--only", "memories"), 2),
        (("jwt", "--only", "memories", "--only", "journal"), 7),
        (("jwt", "--type", "decision"), 1),
        (("jwt", "-t", "Fix,tool_use"), 4),
        (("jwt", "--type", "interrupted"), 1),
        (("jwt", "--tags", "security", "--tags", "http"), 1),
        (("jwt", "--tags", "AUTH"), 2),
        (("jwt", "--only", "memories", "--since", "2025-01-02"), 1),
        (("jwt", "--only", "memories", "--until", "2025-01-01"), 1),
        (("jwt", "--only", "memories", "--since", "7d"), 0),
        (("jwt", "--only", "sessions", "--project", "."), 3),
        (("jwt", "--only", "sessions", "--project", "/elsewhere"), 0),
        (("--only", "memories"), 4),
        (("xylophone",), 0),
    ],
)
def test_filters(project: Project, words: tuple[str, ...], count: int) -> None:
    assert len(found(project, *words)) == count


def test_at_most_five_are_shown_unless_more_are_asked_for(project: Project) -> None:
    said = project("search", "jwt")
    assert len(said.out.splitlines()) == 4
    assert said.err == "6 more; use --all to see them\n"
    assert len(project("search", "jwt", "--limit", "5").out.splitlines()) == 5
    assert len(project("search", "jwt", "--limit", "2").out.splitlines()) == 2
    assert len(project("search", "jwt", "--all").out.splitlines()) == 10
    assert project("search", "jwt", "--limit", "0").code == 2


def test_a_line_has_a_short_id_the_kind_the_score_the_day_and_words_around_the_match(
    project: Project,
) -> None:
    said = project("search", "parseHttpHeader colon", "--only", "memories")
    name, kind, score, line = said.out.split(" ", 3)
    assert (name, kind) == (shortened(numbered(3)), "pattern")
    assert float(score) > 0
    assert line == "Jan 3 2025 parseHttpHeader splits at the first colon\n"


def test_lines_for_an_agent_are_fewer_where_five_do_not_fit_and_a_limit_is_kept(
    ralph: Project,
) -> None:
    text = "the worker waits for a lock on the table and gives up " * 3 + "zebra"
    ralph.memories(*(Block(f"{text} {number}", numbered(number)) for number in range(7)))
    said = ralph("search", "zebra")
    assert (len(said.out.splitlines()), said.err) == (3, "4 more; use --all to see them\n")
    assert estimate(said.out) <= 100
    assert all(len(line.split()) >= 4 + 8 and " zebra" in line for line in said.out.splitlines())
    assert len(ralph("search", "zebra", "--limit", "5").out.splitlines()) == 5
    assert len(ralph("search", "zebra", "--all").out.splitlines()) == 7


def test_short_ids_are_accepted_wherever_a_search_takes_an_id(project: Project) -> None:
    one, two = shortened(numbered(1)), shortened(numbered(2))
    line = f"{one} decision 1 Jan 1 2025 JWT tokens expire after 15 minutes\n"
    assert project("search", one).out == line
    assert [line.split()[0] for line in project("search", two, one).out.splitlines()] == [two, one]
    for layer in ("2", "3"):
        assert numbered(1) in project("search", "--layer", layer, one).out
    assert numbered(1) in project("search", "--around", one).out
    assert project("search", "mem-ffff").out == "Nothing found.\n"
    missing = project("search", "--layer", "3", "mem-ffff")
    assert (missing.code, missing.err.splitlines()[0]) == (1, "error: Record not found: mem-ffff")
    project.memories(Block("a", "mem-1705751400-beef"), Block("b", "mem-1705751500-beef"))
    several = project("search", "--layer", "3", "mem-beef")
    assert (
        several.code,
        "2 ids: mem-1705751400-beef, mem-1705751500-beef" in several.err,
    ) == (1, True)


def test_explain_says_why(project: Project) -> None:
    lines = project("search", "security jwt", "--explain", "--limit", "1").out.splitlines()
    assert lines[1] == "  tag: security; text: jwt"
    hit = project("search", "security jwt", "--format", "json").json["hits"][0]
    assert (hit["id"], hit["family"], hit["why"]) == (
        numbered(1),
        "memory",
        ["tag: security", "text: jwt"],
    )
    assert 0 < hit["score"] <= 1.5
    assert hit["tokens"] > 0


def test_where_there_is_no_reason_none_is_given(project: Project) -> None:
    assert len(project("search", "--only", "memories", "--explain").out.splitlines()) == 4
    assert project("search", "--layer", "3", numbered(1), "--explain").out.endswith("\n  id\n")


def test_what_was_said_again_is_shown_once_and_named_for_programs(ralph: Project) -> None:
    ralph.put(LOG, "".join(seen(text, n) for n, text in enumerate(["ran pytest"] * 2)))
    said = ralph("search", "pytest")
    assert (len(said.out.splitlines()), " 2x ran pytest" in said.out, said.err) == (1, True, "")
    (hit,) = ralph("search", "pytest", "--format", "json").json["hits"]
    assert len({hit["id"], *hit["repeats"]}) == 2


def test_an_insight_in_the_words_of_its_knowledge_is_one_hit_with_it(ralph: Project) -> None:
    said = "The billing gateway answers in euros, the shop counts in cents"
    assert (
        ralph(
            "memory", "add", "--in", "knowledge", "--title", "Gateway", said, "--tags", "billing"
        ).code
        == 0
    )
    task = ralph("task", "add", "Pay", "--format", "json").json["id"]
    insight = {
        "id": "ins-1791000000-a3f81c",
        "kind": "context",
        "label": "tip",
        "text": f"Gateway: {said}",
    }
    told = {
        "version": 1,
        "insights": [{**insight, "status": "proposed", "created_at": "2026-10-01T10:00:00Z"}],
    }
    ralph.put(f".ralph/tasks/{task}/memory/insights.json", json.dumps(told))
    hits = ralph("search", "billing gateway", "--format", "json").json["hits"]
    assert [(hit["id"], hit["repeats"]) for hit in hits] == [
        ("know-gateway", ["ins-1791000000-a3f81c"])
    ]


def test_layer_2_shows_what_is_around_and_layer_3_all(project: Project) -> None:
    around = project("search", "--layer", "2", "step 1", "--only", "sessions", "--limit", "1").out
    assert [line.split(" step ")[-1] for line in around.splitlines()] == ["0", "1", "2"]
    cut = project("search", "--layer", "3", "connection pool").out
    assert f"[cut; `ralph search --layer 3 {numbered(4)}`" in cut
    whole = project("search", "--layer", "3", numbered(4))
    assert LONG.strip() in whole.out
    both = project("search", "--layer", "3", numbered(1), numbered(2)).out
    assert both.index(numbered(1)) < both.index(numbered(2))


@pytest.mark.parametrize("amount", [(), ("--limit", "4")], ids=["default", "limit"])
@pytest.mark.parametrize("layer", ["1", "2", "3"])
def test_json_and_text_show_the_same_hits(
    ralph: Project, layer: str, amount: tuple[str, ...]
) -> None:
    text = "the worker waits for a lock on the table and gives up " * 3 + "zebra"
    ralph.memories(*(Block(f"{text} {number}", numbered(number)) for number in range(7)))
    words = ("search", "zebra", "--layer", layer, *amount)
    shown = ralph(*words, "--format", "json").json
    between = "\n" if layer == "1" else "\n\n"
    excerpts = between.join(hit["excerpt"] for hit in shown["hits"])
    assert ralph(*words).out == f"{excerpts}\n"
    assert shown["tokens"] == sum(hit["tokens"] for hit in shown["hits"])


def test_nothing_found_is_no_error(project: Project) -> None:
    said = project("search", "xylophone")
    assert (said.code, said.out, said.err) == (0, "Nothing found.\n", "")
    said = project("search", "xylophone", "--format", "json")
    assert said.json == {"hits": [], "total": 0, "tokens": 0}
    said = project("search", "xylophone", "--format", "markdown")
    assert (said.out, said.err) == ("", "Nothing found.\n")


def test_a_replaced_word_is_told_in_words_that_people_write(project: Project) -> None:
    said = project("search", "expyre")
    assert "nothing has 'expyre'; looked for expire instead" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("--type", "nonsense"),
        ("--since", "soonish"),
        ("--since", "2025-13-01"),
        ("--until", "2025-02-30T10:00Z"),
        ("--kind", "x"),
        ("--layer", "4"),
    ],
)
def test_wrong_options_are_wrong_usage(project: Project, words: tuple[str, ...]) -> None:
    assert project("search", "jwt", *words).code == 2


QUERIES = [
    *string.punctuation,
    "AND OR NOT NEAR",
    '"x',
    "C++",
    "don't",
    "🔥",
    "x" * 10_000,
    "",
    "the of",
    "\x00",
    "\udcff",
]


@pytest.mark.parametrize("layer", ["1", "2", "3"])
def test_no_query_is_ever_an_error(project: Project, layer: str) -> None:
    for query in QUERIES:
        said = project("search", "--layer", layer, "--format", "json", "--", query)
        assert (said.code, said.err) == (0, ""), query
        assert isinstance(said.json["hits"], list)


def test_nothing_is_printed_but_the_answer_while_the_index_is_made(project: Project) -> None:
    for number in range(60):
        project.put(
            f".ralph/knowledge/k{number}.md", f"---\ntitle: K{number}\ntags: [a]\n---\n\njwt\n"
        )
    said = executable(project.root, "search", "parseHttpHeader", "--limit", "1")
    assert (said.returncode, said.stderr) == (0, b"")
    for path in paths.state_folder(project.root).glob("ralph.db*"):
        path.unlink()
    seen_there = on_a_terminal(
        project.root, "search", "parseHttpHeader", "--limit", "1", env={"HOME": os.environ["HOME"]}
    )
    assert b"reading the files: 40 of " in seen_there
    assert seen_there.count(b"\x1b[K") == 1
    again = on_a_terminal(
        project.root, "search", "parseHttpHeader", "--limit", "1", env={"HOME": os.environ["HOME"]}
    )
    assert b"reading" not in again


def test_a_span_counts_back_from_now(ralph: Project) -> None:
    ralph.memories(
        Block("old note", numbered(1), created="2020-01-01"),
        Block("new note", numbered(2), created=ids.today()),
    )
    for span in ("7d", "24h", "2w", "3m"):
        assert found(ralph, "note", "--since", span) == [numbered(2)]
        assert found(ralph, "note", "--until", span) == [numbered(1)]


def test_a_time_of_another_zone_is_the_same_moment(ralph: Project) -> None:
    ralph.put(LOG, "".join(seen(f"step {n}", n) for n in range(5)))
    same = [
        ("2025-03-01T00:03:00", "2025-03-01T00:03:00"),
        ("2025-03-01T09:03:00+09:00", "2025-02-28T16:03:59-08:00"),
    ]
    for since, until in same:
        assert len(found(ralph, "step", "--since", since, "--until", until)) == 1
    assert len(found(ralph, "step", "--since", "2025-03", "--until", "2025-03")) == 5
    assert found(ralph, "step", "--since", "7D") == []


def test_a_search_in_a_folder_without_memory_leaves_it_alone(ralph: Project) -> None:
    assert ralph("search", "x").out == "Nothing found.\n"
    assert ralph.files() == []
    assert not Path(ralph.root, ".ralph").exists()


def test_a_dash_alone_reads_the_words_from_standard_input(project: Project) -> None:
    said = project(
        "search", "-", "--format", "json", "--all", "--only", "memories", stdin="jwt\nrefresh\n"
    )
    assert said.code == 0
    assert numbered(2) in [hit["id"] for hit in said.json["hits"]]
    whole = project("search", "--layer", "3", "-", stdin=f"{numbered(1)}\n")
    assert "JWT tokens expire after 15 minutes" in whole.out


def test_nothing_found_and_nothing_asked_is_no_failure(project: Project) -> None:
    for asked in ("qqqxxyzzy\n", "", "\n", "'; $(reboot) `id`\n"):
        assert project("search", "-", stdin=asked).code == 0, asked
    assert project("search", "-", stdin="qqqxxyzzy\n").out == "Nothing found.\n"


def test_a_search_outside_of_every_project_says_so(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    folder.mkdir()
    said = project("search", "jwt", cwd=folder)
    assert (said.code, said.out) == (1, "")
    assert "is neither a Ralph project nor a git work tree" in said.err
    assert not list(folder.iterdir())


def test_weak_hits_are_shown_and_marked_everywhere(project: Project) -> None:
    project("memory", "add", "Race in checkout: two workers took the last item of the stock")
    words = "stock zebra xylophone quagga marmalade terracotta"
    assert project("search", words).out.startswith("No exact match. Closest:\nmem-")
    (hit,) = project("search", words, "--format", "json").json["hits"]
    assert hit["weak"] is True
    assert (
        "weak" not in project("search", "checkout stock race", "--format", "json").json["hits"][0]
    )
    (memory,) = project("memory", "search", words, "--format", "json").json
    assert memory["weak"] is True
    graph = project("graph", "show", "--query", words)
    assert "Race in checkout" in graph.out
    assert "No exact match. Closest:" in graph.err
    nothing = project("search", "zebra xylophone", "--format", "json").json
    assert nothing["hits"] == []
    (node,) = project("graph", "show", "--query", words, "--format", "json").json
    assert node["weak"] is True


def test_weak_hits_are_not_brought_into_a_conversation(project: Project) -> None:
    project("memory", "add", "Race in checkout: two workers took the last item of the stock")
    words = "stock zebra xylophone quagga marmalade terracotta"
    assert project("search", words, "--format", "json").json["hits"]
    assert project("context", "--best", words, "--format", "json").json["records"] == []
