"""`ralph memory --in knowledge`: entries with a title and a file of their own, as people and scripts meet them."""

import pytest
from tests.support.runner import Project

FOLDER = ".ralph/knowledge"
IN = ("--in", "knowledge")
TITLED = (*IN, "--title")
TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def add(ralph: Project, title: str, tags: str, text: str) -> None:
    said = ralph("memory", "add", *TITLED, title, "--tags", tags, text)
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
    words = ("memory", "add", *TITLED, "Retry policy", "--tags", "http")
    assert ralph(*words, "Three tries.").out == f"Added context know-retry-policy ({place})\n"
    assert (
        ralph(*words, "Three tries.").out
        == f"Already there: know-retry-policy ({place}); not added\n"
    )
    said = ralph(
        "memory", "add", *TITLED, "retry POLICY", "-", "--tags", "retries", stdin="Five tries.\n"
    )
    assert said.out.startswith(
        f"Updated know-retry-policy ({place}); the previous text is kept as ret-"
    )
    old = said.out.rpartition(" ")[2].strip()
    assert "Three tries." in ralph("search", "--layer", "3", old).out
    assert ralph("search", "three").out == "Nothing found.\n"
    ralph.put("body.md", "Seven tries.\n")
    shape = ralph(
        *words, "--file", str(ralph.file("body.md")), "--feature", "shop", "--format", "json"
    ).json
    assert (shape["change"], shape["id"], shape["tags"]) == (
        "updated",
        "know-retry-policy",
        ["http", "retries"],
    )
    assert shape["replaced"].startswith("ret-")
    assert ralph(*words, "Nine.", "--format", "quiet").out == "know-retry-policy\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["add", *TITLED, "T", "Words."], 1, "without a tag"),
        (["add", *TITLED, "T", "--tags", "a"], 2, "no text"),
        (["add", *TITLED, "T", "x", "--file", "y", "--tags", "a"], 2, "cannot be used together"),
        (["add", *TITLED, "T", f"use {TOKEN}", "--tags", "a"], 1, "secret"),
        (["add", *IN, "x", "--tags", "a"], 1, "without a title"),
        (["add", "--title", "T", "x", "--tags", "a"], 2, "--in knowledge"),
        (["show", "nothing"], 1, "ralph memory list"),
        (["delete", "nothing"], 1, "not found"),
    ],
)
def test_what_cannot_be_done_says_why(
    ralph: Project, words: list[str], code: int, message: str
) -> None:
    said = ralph("memory", *words)
    assert said.code == code
    assert message in said.err
    assert said.out == ""
    assert ralph.files() == []


def test_a_secret_is_stored_only_when_it_is_meant(ralph: Project) -> None:
    assert (
        ralph("memory", "add", *TITLED, "T", f"use {TOKEN}", "--tags", "a", "--allow-secret").code
        == 0
    )
    said = ralph("memory", "add", *TITLED, "U", "a <private>b</private> c", "--tags", "a")
    assert "1 private section" in said.err
    assert b"<private>" not in ralph.everything()


def test_a_long_text_is_cut_with_a_word(ralph: Project) -> None:
    assert (
        "about 500 words" in ralph("memory", "add", *TITLED, "T", "word " * 600, "--tags", "a").err
    )


def test_list_in_every_format(known: Project) -> None:
    rows = known("memory", "list", *IN).out.splitlines()
    assert rows[0].split() == ["ID", "TYPE", "CREATED", "TAGS", "CONTENT"]
    assert [row.split()[0] for row in rows[1:]] == [
        "know-cargo-bench",
        "know-retry-policy",
        "know-toolchain",
    ]
    assert known("memory", "list", *IN, "--format", "json").ids == [
        "know-cargo-bench",
        "know-retry-policy",
        "know-toolchain",
    ]
    assert (
        known("memory", "list", *IN, "--tags", "http,x", "--format", "quiet").out
        == "know-retry-policy\n"
    )
    page = known("memory", "list", *IN, "--format", "markdown").out
    assert page.startswith(
        "## Project Knowledge\n\n### Cargo bench\n_Tags: testing, cargo_\n\nUse nightly."
    )


def test_an_empty_listing_is_valid_in_every_format(ralph: Project) -> None:
    assert ralph("memory", "list", *IN, "--format", "json").json == []
    assert ralph("memory", "list", *IN, "--format", "markdown").out == ""
    assert ralph("memory", "list", *IN, "--format", "quiet").out == ""
    assert ralph("memory", "list", *IN).out.startswith("No memories yet.")
    assert ralph.files() == []


def test_files_that_are_no_entries_are_told_beside_the_list(known: Project) -> None:
    known.put(f"{FOLDER}/notes.md", "# Notes\n")
    said = known("memory", "list", *IN, "--format", "json")
    assert len(said.json) == 3
    assert f"{FOLDER}/notes.md:1: not an entry" in said.err
    assert "---" in said.err


def test_show_by_any_name(known: Project) -> None:
    out = known("memory", "show", "retry-policy").out
    for words in (
        "Retry policy",
        "know-retry-policy",
        "http",
        "Three tries.",
        f"{FOLDER}/retry-policy.md:1",
    ):
        assert words in out
    assert (
        known("memory", "show", "RETRY policy", "--format", "json").json["content"]
        == "Three tries."
    )
    page = known("memory", "show", "know-retry-policy", "--format", "markdown").out
    assert page == "## Project Knowledge\n\n### Retry policy\n_Tags: http_\n\nThree tries.\n"


def test_show_prints_links_and_names_those_that_lead_nowhere(known: Project) -> None:
    shown = known("memory", "show", "Cargo bench").out
    assert "links to:    know-toolchain, Nowhere (no entry has this title)" in shown
    assert "linked from: know-toolchain" in shown
    links = known("memory", "show", "Cargo bench", "--format", "json").json["links"]
    assert [link["target"] for link in links] == ["Toolchain", "Nowhere"]


def test_context_prints_the_knowledge_that_matches_a_task(known: Project) -> None:
    said = known("context", "faster", "testing,", "please", "--knowledge", "--explain")
    assert said.out.startswith("## Project Knowledge\n\n### Cargo bench\n")
    assert [line.split(":")[0] for line in said.err.splitlines()] == [
        "know-cargo-bench 2",
        "know-toolchain 1",
    ]
    words = (
        "--knowledge",
        "--feature",
        "http",
        "--files",
        "src/testing.rs, a/cargo.toml",
        "--format",
        "json",
    )
    rows = known("context", "x", *words).json
    assert [(each["id"], each["score"], each["why"]) for each in rows[:2]] == [
        (
            "know-cargo-bench",
            2,
            ["testing in a changed file's path +1", "cargo in a changed file's path +1"],
        ),
        ("know-retry-policy", 2, ["http is the feature +2"]),
    ]
    assert known("context", "nothing", "--knowledge", "--format", "json").json == []


def test_delete_asks_nothing_and_says_what_went(known: Project) -> None:
    said = known("memory", "delete", "Toolchain")
    assert said.out == f"Deleted know-toolchain ({FOLDER}/toolchain.md:1)\n"
    assert not known.file(f"{FOLDER}/toolchain.md").exists()


def test_reading_writes_nothing(known: Project) -> None:
    before = known.marks()
    for words in (["list", *IN], ["show", "Toolchain"], ["prime", *IN]):
        assert known("memory", *words).code == 0
    assert known.marks() == before


def test_control_characters_reach_no_terminal(ralph: Project) -> None:
    ralph.put(
        f"{FOLDER}/a.md", '---\ntitle: "Red \\e[31m"\ntags: ["x\\e"]\n---\n\nsee [[\x1b[31m]]\n'
    )
    assert "\x1b" not in ralph("memory", "list", *IN).out
    assert "\x1b" not in ralph("memory", "show", "a").out
