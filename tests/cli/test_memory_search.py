"""`ralph memory search`: what was written is found however it is asked for, and no query is an error."""

import string

import pytest
from tests.support.cases import for_each
from tests.support.index_sources import LOG, seen
from tests.support.runner import Block, Project, numbered

from ralph.web.explore import ListRequest, list_records

WORDS = (
    "Authentication uses JWT tokens with a refresh window",
    "npm test fails until the build has run once",
    "The CI runner caches wheels between jobs",
    "Go modules are vendored in third_party",
    "UI strings live in locales/en.json",
    "parseHttpHeader splits at the first colon",
    "Migrations touch src/db/schema.ts and snake_case columns",
    "인증 토큰은 30분 뒤에 만료된다",
    "数据库连接池的大小是二十",
    "テストは毎晩自動で実行される",
    "Don't use C++ exceptions; foo-bar is a:b here",
    "Retries back off, see the policy of the queue",
)
TAGS = {0: "auth, security", 1: "build", 2: "infra", 4: "frontend", 6: "db"}
KINDS = {1: "fix", 2: "context", 3: "decision"}


def block(number: int) -> Block:
    return Block(
        WORDS[number],
        numbered(number),
        TAGS.get(number, ""),
        f"2025-01-{number + 1:02}",
        KINDS.get(number, "pattern"),
    )


@pytest.fixture
def project(ralph: Project) -> Project:
    """A project with a dozen memories about different things."""
    ralph.memories(*(block(number) for number in range(len(WORDS))))
    return ralph


def found(project: Project, *words: str) -> list[str]:
    """The texts that a search gives, best first."""
    said = project("memory", "search", "--format", "json", "--all", *words)
    assert said.code == 0
    return [entry["content"] for entry in said.json]


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("authentication", 0),
        ("AUTHENTICATION", 0),
        ("auth", 0),
        ("authentcation", 0),
        ("authetnication", 0),
        ("tokens refresh", 0),
        ("refresh tokens", 0),
        ("how do we refresh the tokens?", 0),
        ("failing tests", 1),
        ("test failed", 1),
        ("builds running", 1),
        ("CI", 2),
        ("caching", 2),
        ("Go", 3),
        ("go vendoring", 3),
        ("UI", 4),
        ("locales", 4),
        ("http header", 5),
        ("parse_http_header", 5),
        ("parseHttpHeader", 5),
        ("schema", 6),
        ("schema.ts", 6),
        ("src/db", 6),
        ("snake case", 6),
        ("인증", 7),
        ("토큰 만료", 7),
        ("만료된 토큰", 7),
        ("연결 인증토큰", 7),
        ("数据库", 8),
        ("连接池", 8),
        ("テスト", 9),
        ("自動実行", 9),
        ("C++", 10),
        ("foo-bar", 10),
        ("a:b", 10),
        ("don't", 10),
        ("don't use c++ exceptions", 10),
        ("retry", 11),
        ("retries", 11),
        ("policies", 11),
        ("queues", 11),
    ],
)
def test_the_memory_that_is_meant_comes_first(project: Project, query: str, number: int) -> None:
    assert found(project, query)[:1] == [WORDS[number]]


def test_search_finds_by_tag_by_id_and_by_part_of_an_id(project: Project) -> None:
    assert found(project, "security") == [WORDS[0]]
    assert found(project, numbered(3)) == [WORDS[3]]
    assert WORDS[3] in found(project, numbered(3).rpartition("-")[2])


def test_search_by_type_and_tags_alone_or_with_words(project: Project) -> None:
    assert found(project, "--type", "fix") == [WORDS[1]]
    assert found(project, "-t", "Fix,decision") == [WORDS[3], WORDS[1]]
    assert found(project, "--tags", "db,infra") == [WORDS[6], WORDS[2]]
    assert found(project, "--tags", "db", "--tags", "Infra") == [WORDS[6], WORDS[2]]
    assert found(project, "runner", "--tags", "db,infra") == [WORDS[2]]
    assert found(project, "runner", "--type", "fix") == []


def test_without_words_the_newest_come_first(project: Project) -> None:
    assert found(project) == list(reversed(WORDS))


def test_the_newest_of_a_day_is_the_one_added_last(ralph: Project) -> None:
    # 2025-03-01 at 00:30, 12:00 and 23:00, between observations of 00:01 and 13:20
    early, noon, late = (f"mem-{1740787200 + seconds}-aaaa" for seconds in (1800, 43200, 82800))
    day = "2025-03-01"
    ralph.memories(*(Block("tie one", name, created=day) for name in (late, early, noon)))
    first, middle = "obs-1700000001-0001", "obs-1700000800-0320"
    ralph.put(LOG, seen("tie one", 1) + seen("tie one", 800, "s2"))
    newest = [late, middle, noon, early, first]
    assert ralph("memory", "search", "--format", "json").ids == [late, noon, early]
    assert ralph("memory", "search", "tie", "--format", "json").ids == [late, noon, early]
    assert ralph("memory", "list", "--last", "2", "--format", "json").ids == [noon, late]
    listed = ralph("search", "--since", day, "--format", "json").json["hits"]
    assert [hit["id"] for hit in listed] == newest[::-1]
    some = ralph(
        "search", "--since", f"{day}T11:00", "--only", "memories", "--format", "json"
    ).json["hits"]
    assert [hit["id"] for hit in some] == [late, noon]
    page = list_records(ralph.root, ListRequest(sort="newest"))
    assert [item["id"] for item in page["items"]] == newest
    assert {item["created_at"] for item in page["items"] if item["id"] in (early, noon, late)} == {
        day
    }


def test_hits_with_every_word_come_before_hits_with_some(ralph: Project) -> None:
    ralph.memories(
        Block("deploy deploy deploy, only deploy", numbered(1), "deploy", "2026-01-01"),
        Block("The rollback of a deploy needs the old image", numbered(2), created="2024-01-01"),
        Block("rollback rollback", numbered(3), "rollback", "2026-01-01"),
    )
    assert ralph("memory", "search", "rollback deploy", "--format", "json").ids[0] == numbered(2)


def test_a_word_that_stands_somewhere_is_not_looked_for_inside_of_others(ralph: Project) -> None:
    ralph.memories(
        Block("A decision about social circles", numbered(1), created="2026-01-01"),
        Block("CI is slow on Mondays", numbered(2), created="2024-01-01"),
    )
    assert ralph("memory", "search", "ci", "--format", "json").ids == [numbered(2)]


def test_nothing_found_is_said_and_is_no_error(project: Project) -> None:
    said = project("memory", "search", "xylophone")
    assert (said.code, said.out) == (0, "No memories found.\n")
    assert project("memory", "search", "xylophone", "--format", "json").json == []
    assert project("memory", "search", "xylophone", "--format", "markdown").out == ""


def test_more_than_five_say_how_many_more_there_are(project: Project) -> None:
    said = project("memory", "search")
    assert len(said.out.splitlines()) == 1 + 5 + 1
    assert said.out.splitlines()[-1] == "7 more; use --all to see them"
    said = project("memory", "search", "--format", "json")
    assert len(said.json) == 5
    assert said.err == "7 more; use --all to see them\n"
    said = project("memory", "search", "--all", "--format", "quiet")
    assert (len(said.out.split()), said.err) == (12, "")


def test_a_replaced_word_is_told(project: Project) -> None:
    said = project("memory", "search", "authentcation")
    assert "nothing has 'authentcation'; looked for authentication instead" in said.out


REFUSED, HOT = (
    "ECONNREFUSED: run docker compose up first",
    "Use 🔥 for hot paths in GoLang => no `defer` there",
)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("connection refused", REFUSED),
        ("postgres connection refused", REFUSED),
        ("postgres docker", REFUSED),
        ("mp", REFUSED),
        *((word, REFUSED) for word in REFUSED.split()),
        ("la", HOT),
        *((word, HOT) for word in HOT.split()),
    ],
)
def test_an_explicit_search_finds_compounds_any_word_of_two_and_letters(
    ralph: Project, query: str, text: str
) -> None:
    ralph.memories(Block(REFUSED, numbered(1)), Block(HOT, numbered(2)))
    assert text in found(ralph, query)
    assert text in [
        hit["text"] for hit in ralph("search", "--full", "--format", "json", query).json["hits"]
    ]
    shown = list_records(ralph.root, ListRequest(text=query))["items"]
    assert text in [item["text"] for item in shown]


@pytest.mark.parametrize(
    ("query", "words"),
    [("refused", "'refused'"), ("connection refused", "'connection' or 'refused'")],
)
def test_a_replacement_is_named_in_whole_words_also_when_nothing_is_found(
    ralph: Project, query: str, words: str
) -> None:
    ralph.memories(Block(REFUSED, numbered(1)))
    note = f"nothing has {words}; looked for ECONNREFUSED instead\n"
    assert ralph("memory", "search", query).out.endswith(note)
    assert ralph("search", query).err == note
    nothing = ralph(
        "memory", "search", f"zebra xylophone quagga {query}".replace("connection", "yak")
    )
    assert nothing.out.startswith("No exact match. Closest:\nID ")
    assert nothing.out.endswith("\nnothing has 'refused'; looked for ECONNREFUSED instead\n")
    assert list_records(ralph.root, ListRequest(text=query))["notes"] == [note.strip()]
    assert ralph("search", query, "--only", "sessions").err == ""


def test_matches_in_other_memory_files_are_counted(project: Project) -> None:
    project.guardrails(Block("Tailwind classes are sorted by the formatter", numbered(7)))
    project("memory", "add", "--in", "patterns", "Tailwind colours come from the theme")
    said = project("memory", "search", "tailwind")
    note = "more in guardrails (1), patterns (1); use --in all to see them\n"
    assert said.out == f"No memories found.\n{note}"
    quiet = project("memory", "search", "tailwind", "--format", "json")
    assert (quiet.json, quiet.err) == ([], note)
    assert len(found(project, "tailwind", "--in", "all")) == 2
    assert "more in" not in project("memory", "search", "tailwind", "--in", "all").out
    assert "more in" not in project("memory", "search", "xylophone").out


def test_json_results_say_why_they_were_found_and_where_they_stand(project: Project) -> None:
    hit = project("memory", "search", "security jwt", "--format", "json").json[0]
    assert hit["why"] == ["tag: security", "text: jwt"]
    assert hit["score"] > 0
    assert hit["source"] == ".agent/memories.md:5"


def test_results_as_markdown_can_be_read_again(project: Project) -> None:
    out = project("memory", "search", "runner", "--format", "markdown").out
    assert out == f"## Context\n\n{block(2)}"


QUERIES = [
    *string.punctuation,
    *(f"test{mark}" for mark in string.punctuation),
    *(f"{mark}test" for mark in string.punctuation),
    string.punctuation,
    "AND OR NOT NEAR",
    "NEAR(test fails)",
    '"unbalanced',
    "((",
    "test* OR *",
    "the of and",
    "🔥",
    " \t\n ",
    "\u200b",
    "\x00",
    "x" * 10_000,
    "word " * 2_000,
    " ".join(f"w{number}" for number in range(2_000)),
    "인증" * 5_000,
    "a-" * 5_000,
    "\udcff",
]


@for_each("query", QUERIES)
def test_no_query_is_ever_an_error(project: Project, query: str) -> None:
    answer = project("memory", "search", "--format", "json", "--", query)
    assert answer.code == 0
    assert "error" not in answer.err
    assert isinstance(answer.json, list)


@pytest.mark.parametrize("mark", string.punctuation)
def test_punctuation_around_a_word_does_not_hide_it(project: Project, mark: str) -> None:
    assert found(project, "--", f"{mark}vendored{mark}")[:1] == [WORDS[3]]


def test_what_was_deleted_or_edited_is_no_longer_found(project: Project) -> None:
    project("memory", "delete", numbered(3))
    project("memory", "edit", numbered(2), "--text", "Something else")
    assert found(project, "vendored") == []
    assert found(project, "wheels") == []
    assert found(project, "something else") == ["Something else"]
