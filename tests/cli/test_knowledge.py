"""`ralph knowledge`: entries with a title and a file of their own, as people and scripts meet them."""

import pytest
from tests.cli.runner import Project

from ralph.context.tokens import estimate

FOLDER = ".ralph/knowledge"
TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def add(ralph: Project, title: str, tags: str, text: str) -> None:
    said = ralph("knowledge", "add", title, "--tags", tags, text)
    assert said.code == 0, said.err


@pytest.fixture
def known(ralph: Project) -> Project:
    """A project with three entries, of which two link to each other."""
    add(ralph, "Cargo bench", "testing,cargo", "Use nightly. See [[Toolchain]] and [[Nowhere]].")
    add(ralph, "Toolchain", "rustup", "Run rustup. [[cargo bench]]")
    add(ralph, "Retry policy", "http", "Three tries.")
    return ralph


def test_add_says_what_became_of_it(ralph: Project) -> None:
    place = f"{FOLDER}/retry-policy.md:1"
    words = ("knowledge", "add", "Retry policy", "--tags", "http")
    assert ralph(*words, "Three tries.").out == f"Added know-retry-policy ({place})\n"
    assert ralph(*words, "Three tries.").out == f"Already there: know-retry-policy ({place})\n"
    said = ralph("knowledge", "add", "retry POLICY", "-", "--tags", "retries", stdin="Five tries.\n")
    assert said.out.startswith(f"Updated know-retry-policy ({place}); the text before is kept as ret-")
    old = said.out.rpartition(" ")[2].strip()
    assert "Three tries." in ralph("search", "--layer", "3", old).out
    assert ralph("search", "three").out == "Nothing found.\n"
    ralph.put("body.md", "Seven tries.\n")
    shape = ralph(*words, "--file", str(ralph.file("body.md")), "--feature", "shop", "--format", "json").json
    assert (shape["change"], shape["slug"], shape["tags"]) == ("updated", "retry-policy", ["http", "retries"])
    assert shape["replaced"].startswith("ret-")
    assert ralph(*words, "Nine.", "--format", "quiet").out == "know-retry-policy\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["add", "T", "Words."], 1, "without a tag"),
        (["add", "T", "--tags", "a"], 2, "no text"),
        (["add", "T", "x", "--file", "y", "--tags", "a"], 2, "both"),
        (["add", "T", f"use {TOKEN}", "--tags", "a"], 1, "secret"),
        (["add"], 2, "TITLE"),
        (["show", "nothing"], 1, "ralph knowledge list"),
        (["delete", "nothing"], 1, "not found"),
        (["links", "nothing"], 1, "not found"),
        (["match", "x", "--budget", "-1"], 2, "budget"),
    ],
)
def test_what_cannot_be_done_says_why(ralph: Project, words: list[str], code: int, told: str) -> None:
    said = ralph("knowledge", *words)
    assert said.code == code
    assert told in said.err
    assert said.out == ""
    assert ralph.files() == []


def test_a_secret_is_stored_only_when_it_is_meant(ralph: Project) -> None:
    assert ralph("knowledge", "add", "T", f"use {TOKEN}", "--tags", "a", "--allow-secret").code == 0
    said = ralph("knowledge", "add", "U", "a <private>b</private> c", "--tags", "a")
    assert "1 private part" in said.err
    assert b"<private>" not in ralph.everything()


def test_a_long_text_is_cut_with_a_word(ralph: Project) -> None:
    assert "about 500 words" in ralph("knowledge", "add", "T", "word " * 600, "--tags", "a").err


def test_list_in_every_format(known: Project) -> None:
    rows = known("knowledge", "list").out.splitlines()
    assert rows[0].split() == ["ID", "CHANGED", "TAGS", "TITLE"]
    assert [row.split()[0] for row in rows[1:]] == ["know-cargo-bench", "know-retry-policy", "know-toolchain"]
    assert known("knowledge", "list", "--format", "json").ids == [
        "know-cargo-bench",
        "know-retry-policy",
        "know-toolchain",
    ]
    assert known("knowledge", "list", "--tags", "http,x", "--format", "quiet").out == "know-retry-policy\n"
    page = known("knowledge", "list", "--format", "markdown").out
    assert page.startswith("## Project Knowledge\n\n### Cargo bench\n_Tags: testing, cargo_\n\nUse nightly.")


def test_nothing_is_valid_in_every_format(ralph: Project) -> None:
    for verb in ("list", "match", "links"):
        assert ralph("knowledge", verb, "--format", "json").json == []
        assert ralph("knowledge", verb, "--format", "markdown").out == ""
        assert ralph("knowledge", verb).out.startswith(("No ", "Nothing "))
    assert ralph("knowledge", "list", "--format", "quiet").out == ""
    assert ralph.files() == []


def test_files_that_are_no_entries_are_told_beside_the_list(known: Project) -> None:
    known.put(f"{FOLDER}/notes.md", "# Notes\n")
    said = known("knowledge", "list", "--format", "json")
    assert len(said.json) == 3
    assert f"{FOLDER}/notes.md:1: no entry" in said.err
    assert "---" in said.err


def test_show_by_any_name(known: Project) -> None:
    out = known("knowledge", "show", "retry-policy").out
    for words in ("Retry policy", "know-retry-policy", "http", "Three tries.", f"{FOLDER}/retry-policy.md:1"):
        assert words in out
    assert known("knowledge", "show", "RETRY policy", "--format", "json").json["content"] == "Three tries."
    page = known("knowledge", "show", "know-retry-policy", "--format", "markdown").out
    assert page == "## Project Knowledge\n\n### Retry policy\n_Tags: http_\n\nThree tries.\n"


def test_match_shows_scores_reasons_and_what_an_agent_is_handed(known: Project) -> None:
    rows = [row.split()[:2] for row in known("knowledge", "match", "faster", "testing,", "please").out.splitlines()[1:]]
    assert rows == [["2", "know-cargo-bench"], ["1", "know-toolchain"]]
    said = known("knowledge", "match", "x", "--feature", "http", "--files", "src/testing.rs, a/cargo.toml", "--explain")
    assert said.out.splitlines()[:4] == [
        "2  know-cargo-bench  Cargo bench",
        "   testing in a changed file's path +1; cargo in a changed file's path +1",
        "2  know-retry-policy  Retry policy",
        "   http is the feature +2",
    ]
    shape = known("knowledge", "match", "testing", "--format", "json").json
    assert [(each["id"], each["score"], each["hops"]) for each in shape] == [
        ("know-cargo-bench", 2, 0), ("know-toolchain", 1, 1),
    ]  # fmt: skip
    add(known, "Long", "testing", "many words " * 100)
    page = known("knowledge", "match", "testing", "--format", "markdown", "--budget", "100").out
    assert estimate(page) <= 100
    assert "_1 more did not fit" in page


def test_links_name_those_that_lead_nowhere(known: Project) -> None:
    said = known("knowledge", "links")
    assert [row.split() for row in said.out.splitlines()[1:]] == [
        ["know-cargo-bench", "Toolchain", "know-toolchain"],
        ["know-cargo-bench", "Nowhere", "nowhere", "(Nowhere)"],
        ["know-toolchain", "cargo", "bench", "know-cargo-bench"],
    ]
    assert "1 link(s) lead nowhere" in said.err
    shape = known("knowledge", "links", "Toolchain", "--format", "json").json
    assert [(each["from"], each["to"]) for each in shape] == [
        ("know-cargo-bench", "know-toolchain"), ("know-toolchain", "know-cargo-bench"),
    ]  # fmt: skip
    assert "- Cargo bench -> nowhere (Nowhere)" in known("knowledge", "links", "--format", "markdown").out


def test_delete_asks_nothing_and_says_what_went(known: Project) -> None:
    said = known("knowledge", "delete", "Toolchain")
    assert said.out == f"Deleted know-toolchain ({FOLDER}/toolchain.md:1)\n"
    assert not known.file(f"{FOLDER}/toolchain.md").exists()


def test_reading_writes_nothing(known: Project) -> None:
    before = known.marks()
    for words in (["list"], ["show", "Toolchain"], ["match", "testing"], ["links"]):
        assert known("knowledge", *words).code == 0
    assert known.marks() == before


def test_control_characters_reach_no_terminal(ralph: Project) -> None:
    ralph.put(f"{FOLDER}/a.md", '---\ntitle: "Red \\e[31m"\ntags: ["x\\e"]\n---\n\nsee [[\x1b[31m]]\n')
    for verb in ("list", "links"):
        assert "\x1b" not in ralph("knowledge", verb).out
    assert "\x1b" not in ralph("knowledge", "match", "x").out
    assert "\x1b" not in ralph("knowledge", "show", "a").out
