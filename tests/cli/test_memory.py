"""`ralph memory`: keeping, listing, showing, correcting and deleting, as people and scripts call it."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.runner import Block, Project, all_on_a_terminal, numbered, on_a_terminal, page

EMPTY = "# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n"
MEMORY_ID = re.compile(r"mem-\d{10}-[0-9a-f]{4}")
ONE = Block("Uses barrel exports", "mem-1705751400-a3f8", "build, api")
TWO = Block("Chose Zod over Yup", "mem-1705751401-b4c5", created="2025-02-01", kind="decision")
THREE = Block("Restart redis first", "mem-1705751402-c6d7", created="2025-01-25", kind="fix")


def days_ago(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()


# --- init -----------------------------------------------------------------------------------------


def test_init_makes_the_four_sections(ralph: Project) -> None:
    said = ralph("memory", "init")
    assert (said.code, said.err) == (0, "")
    assert "memories.md" in said.out
    assert ralph.read() == EMPTY


def test_init_twice_is_an_error_and_keeps_the_file(ralph: Project) -> None:
    ralph.memories(ONE)
    before = ralph.marks()
    said = ralph("memory", "init")
    assert said.code == 1
    assert said.out == ""
    assert "already exists" in said.err
    assert "--force" in said.err
    assert ralph.marks() == before


def test_init_by_force_keeps_every_older_file_as_a_backup(ralph: Project) -> None:
    first = ralph.memories(ONE).read_bytes()
    assert ralph("memory", "init", "--force").code == 0
    second = ralph.memories(TWO).read_bytes()
    said = ralph("memory", "init", "--force")
    assert said.code == 0
    assert "memories.md.bak2" in said.out
    assert ralph.read() == EMPTY
    assert ralph.file(".agent/memories.md.bak").read_bytes() == first
    assert ralph.file(".agent/memories.md.bak2").read_bytes() == second


# --- add ------------------------------------------------------------------------------------------


def test_add_appends_to_the_section_of_its_type_and_says_where(ralph: Project) -> None:
    ralph.memories(THREE)
    said = ralph(
        "memory", "add", "ECONNREFUSED: run docker compose up", "-t", "fix", "--tags", "docker, dev"
    )
    new_id = MEMORY_ID.findall(said.out)[0]
    assert said.code == 0
    assert said.out == f"Added fix {new_id} (.agent/memories.md:{_line(ralph, new_id)})\n"
    day = datetime.now(UTC).date().isoformat()
    block = f"### {new_id}\n> ECONNREFUSED: run docker compose up\n<!-- tags: docker, dev | created: {day} -->"
    block += " <!-- ralph: by=agent -->\n"
    written = re.sub(r"<!-- ralph: at=[-0-9T:.]+Z by", "<!-- ralph: by", ralph.read())
    assert written != ralph.read(), "the instant is there"
    assert written == page(THREE).replace(str(THREE), f"{THREE}\n{block}")


def test_add_makes_the_file_when_there_is_none(ralph: Project) -> None:
    assert ralph("memory", "add", "First").code == 0
    assert ralph("memory", "list", "--format", "json").json[0]["type"] == "pattern"
    assert [line for line in ralph.read().split("\n") if line.startswith("## ")] == [
        line for line in EMPTY.split("\n") if line.startswith("## ")
    ]


def test_add_quiet_prints_the_id_alone(ralph: Project) -> None:
    said = ralph("memory", "add", "First", "--format", "quiet")
    assert MEMORY_ID.fullmatch(said.out.rstrip("\n"))
    assert ralph("memory", "show", said.out.strip()).code == 0


def test_add_as_json_gives_the_whole_entry(ralph: Project) -> None:
    added = ralph(
        "memory", "add", "First", "--type", "decision", "--tags", "a", "--format", "json"
    ).json
    assert MEMORY_ID.fullmatch(added["id"])
    assert added["added"] is True
    assert (added["type"], added["content"], added["tags"]) == ("decision", "First", ["a"])
    assert added["created"] == datetime.now(UTC).date().isoformat()
    assert (added["text"], added["created_at"]) == (added["content"], added["created"])
    assert added["source"] == f".agent/memories.md:{_line(ralph, added['id'])}"


def test_several_tags_options_add_up(ralph: Project) -> None:
    words = ["--tags", "a,b", "--tags", "c", "--tags", " #d ,a,,"]
    assert ralph("memory", "add", "First", *words, "--format", "json").json["tags"] == [
        "a",
        "b",
        "c",
        "d",
    ]


@pytest.mark.parametrize("word", ["fix", "FIX", "Fix"])
def test_the_type_is_read_in_any_case(ralph: Project, word: str) -> None:
    assert ralph("memory", "add", "First", "-t", word, "--format", "json").json["type"] == "fix"


@pytest.mark.parametrize(
    "verb", [["add", "First"], ["list"], ["search", "x"], ["prime"], ["edit", "mem-1-a"]]
)
def test_an_unknown_type_is_wrong_usage_and_names_the_valid_ones(
    ralph: Project, verb: list[str]
) -> None:
    said = ralph("memory", *verb, "--type", "bug")
    assert (said.code, said.out) == (2, "")
    assert "'bug'" in said.err
    assert "pattern, decision, fix, context" in said.err
    assert ralph.files() == []


TRICKY = "`make lint` needs $HOME, \"quotes\", 'single' and \\n\n\n    indented\n<!-- tags: no -->\n## Fixes\n-->"


def test_text_from_stdin_arrives_as_it_was_sent(ralph: Project) -> None:
    added = ralph("memory", "add", "-", "--format", "json", stdin=TRICKY + "\n").json
    assert added["content"] == TRICKY
    assert ralph("memory", "show", added["id"], "--format", "json").json["content"] == TRICKY


def test_text_from_a_file_arrives_as_it_is(ralph: Project) -> None:
    note = ralph.put("note.md", "\ufeff" + TRICKY.replace("\n", "\r\n"))
    added = ralph("memory", "add", "--file", str(note), "--format", "json").json
    assert ralph("memory", "show", added["id"], "--format", "json").json["content"] == TRICKY


def test_a_text_may_begin_with_a_dash_like_a_bullet(ralph: Project) -> None:
    assert ralph("memory", "add", "- tests first\n- then code", "-t", "fix").code == 0
    assert (
        ralph("memory", "list", "--format", "json").json[0]["content"]
        == "- tests first\n- then code"
    )
    assert ralph("memory", "search", "- tests").out.count("- tests first") == 1


@pytest.mark.parametrize(
    ("words", "stdin", "code", "told"),
    [
        ([], b"", 2, "no text was given"),
        (["text", "--file", "x"], b"", 2, "a text and --file cannot be used together"),
        (["--file", "missing.md"], b"", 1, "missing.md: cannot be read"),
        ([""], b"", 1, "empty"),
        ([" \n\t "], b"", 1, "empty"),
        (["-"], b"", 1, "empty"),
        (["-"], b"\xff\xfe not text", 1, "standard input is not UTF-8"),
        (["a\0b"], b"", 1, "NUL"),
        (["bad \udcff byte"], b"", 1, "UTF-8"),
        (["ok", "--tags", "a|b"], b"", 1, "'a|b'"),
        (["ok", "--tags", "a-->b"], b"", 1, "'a-->b'"),
        (["ok", "--tags", "bad \udcff"], b"", 1, "UTF-8"),
        (["ok", "--format", "xml"], b"", 2, "xml"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_nothing_written(
    ralph: Project, words: list[str], stdin: bytes, code: int, told: str
) -> None:
    said = ralph("memory", "add", *words, stdin=stdin)
    assert (said.code, said.out) == (code, "")
    assert told in said.err
    assert ralph.files() == []


@pytest.mark.parametrize(
    "again", ["Uses barrel exports", "uses  BARREL\nexports.", " Uses barrel exports!? "]
)
def test_what_is_already_there_is_said_and_not_added(ralph: Project, again: str) -> None:
    ralph.memories(ONE)
    before = ralph.marks()
    said = ralph("memory", "add", again, "-t", "fix")
    assert said.code == 0
    assert said.out.startswith(f"Already there: {ONE.id} (.agent/memories.md:5)")
    assert ralph("memory", "add", again, "--format", "quiet").out == f"{ONE.id}\n"
    shape = ralph("memory", "add", again, "--format", "json").json
    assert (shape["added"], shape["id"]) == (False, ONE.id)
    assert ralph.marks() == before


def test_force_adds_what_is_already_there(ralph: Project) -> None:
    ralph.memories(ONE)
    assert ralph("memory", "add", ONE.text, "--force").out.startswith("Added pattern ")
    assert len(ralph("memory", "list", "--format", "json").json) == 2


# --- list and show --------------------------------------------------------------------------------


def test_list_is_a_table_in_file_order(ralph: Project) -> None:
    ralph.memories(ONE, TWO, THREE)
    lines = ralph("memory", "list").out.splitlines()
    assert lines[0].split() == ["ID", "TYPE", "CREATED", "TAGS", "CONTENT"]
    assert [line.split()[0] for line in lines[1:]] == [
        f"mem-{each.id[-4:]}" for each in (ONE, TWO, THREE)
    ]
    assert lines[1].split("  ")[-1] == "Uses barrel exports"
    assert "build, api" in lines[1]


def test_a_limited_list_says_how_many_there_are_and_json_is_complete(ralph: Project) -> None:
    blocks = [Block(f"entry {number}", numbered(number)) for number in range(1_203)]
    ralph.memories(
        *blocks, Block("gone", "mem-1705751300-dead", more=" --> <!-- ralph: status=retired")
    )
    said = ralph("memory", "list")
    assert len(said.out.splitlines()) == 1 + 1_000
    assert "entry 999" in said.out.splitlines()[-1]
    assert said.err == "203 more; use --offset 1000 to continue, or --limit 1203\n"
    rest = ralph("memory", "list", "--offset", "1000")
    assert len(rest.out.splitlines()) == 1 + 203
    assert rest.err == ""
    assert ralph("memory", "list", "--offset", "9000").out == "No memories found.\n"
    said = ralph("memory", "list", "--limit", "2", "--format", "quiet")
    assert said.out.split() == [numbered(0), numbered(1)]
    assert len(ralph("memory", "list", "--limit", "1203").out.splitlines()) == 1 + 1_203
    assert len(ralph("memory", "list", "--format", "json").ids) == 1_203
    said = ralph("memory", "list", "--type", "pattern", "--limit", "3", "--format", "json")
    assert len(said.ids) == 3
    assert "1200 more" in said.err


def test_a_page_marks_what_an_entry_below_it_supersedes(ralph: Project) -> None:
    newer = Block("New way", TWO.id, more=f" --> <!-- ralph: supersedes={ONE.id}")
    ralph.memories(ONE, newer)
    said = ralph("memory", "list", "--limit", "1")
    assert "(superseded)" in said.out


def test_list_by_type_and_by_tag(ralph: Project) -> None:
    ralph.memories(ONE, TWO, THREE)
    assert ralph("memory", "list", "-t", "DECISION", "--format", "json").ids == [TWO.id]
    assert ralph("memory", "list", "--type", "fix,pattern", "--format", "json").ids == [
        ONE.id,
        THREE.id,
    ]
    assert ralph("memory", "list", "--tags", "API", "--format", "json").ids == [ONE.id]
    assert ralph("memory", "list", "--tags", "nobody").out == "No memories found.\n"


def test_last_is_the_newest_by_date_then_by_place_in_the_file(ralph: Project) -> None:
    twin = Block("A twin of the same day", "mem-1705751403-d8e9", created=TWO.created, kind="fix")
    ralph.memories(ONE, TWO, THREE, twin)
    assert ralph("memory", "list", "--last", "1", "--format", "quiet").out.split() == [twin.id]
    assert ralph("memory", "list", "--last", "3", "--format", "quiet").out.split() == [
        THREE.id,
        TWO.id,
        twin.id,
    ]
    assert len(ralph("memory", "list", "--last", "99", "--format", "quiet").out.split()) == 4
    assert ralph("memory", "list", "--last", "0", "--format", "json").json == []
    assert ralph("memory", "list", "--last", "-1").code == 2


def test_list_as_markdown_can_be_read_as_a_memory_file(ralph: Project) -> None:
    ralph.memories(THREE, TWO, ONE)
    whole = ralph("memory", "list", "--format", "json").ids
    ralph.put(".agent/memories.md", ralph("memory", "list", "--format", "markdown").out)
    assert ralph("memory", "list", "--format", "json").ids == whole


@pytest.mark.parametrize("content", [None, "", EMPTY])
def test_an_empty_list_is_valid_in_every_format(ralph: Project, content: str | None) -> None:
    if content is not None:
        ralph.put(".agent/memories.md", content)
    for verb in (["list"], ["list", "--last", "3"], ["search"], ["search", "x"]):
        assert ralph("memory", *verb, "--format", "json").json == []
        assert ralph("memory", *verb, "--format", "markdown").out == ""
        assert ralph("memory", *verb, "--format", "quiet").out == ""
        said = ralph("memory", *verb)
        assert (said.code, said.out[:11], said.err) == (0, "No memories", "")


def test_dates_are_told_as_people_say_them(ralph: Project) -> None:
    ages = {0: "today", 1: "yesterday", 5: "5 days ago", 30: "30 days ago", 400: days_ago(400)}
    ralph.memories(*(Block(f"Age {age}", numbered(age), created=days_ago(age)) for age in ages))
    rows = ralph("memory", "list").out.splitlines()[1:]
    assert [re.split(r"  +", row)[2] for row in rows] == list(ages.values())
    assert f"{days_ago(5)} (5 days ago)" in ralph("memory", "show", numbered(5)).out


def test_show_prints_one_entry_whole(ralph: Project) -> None:
    long = Block("First line\n\n" + "word " * 60 + "end", ONE.id, "build, api")
    ralph.memories(long)
    out = ralph("memory", "show", ONE.id).out
    assert out.endswith(f"\n\n{long.text}\n")
    assert "build, api" in out
    assert ".agent/memories.md:5" in out
    assert ralph("memory", "show", ONE.id, "--format", "json").json["content"] == long.text
    assert ralph("memory", "show", ONE.id, "--format", "markdown").out == f"## Patterns\n\n{long}"


@pytest.mark.parametrize("verb", ["show", "delete", "edit"])
def test_a_missing_memory_is_exit_1_and_nothing_changes(ralph: Project, verb: str) -> None:
    ralph.memories(ONE)
    before = ralph.marks()
    said = ralph("memory", verb, "mem-1-dead")
    assert (said.code, said.out) == (1, "")
    assert "Memory not found: mem-1-dead" in said.err
    assert "ralph memory list" in said.err
    assert ralph.marks() == before


def test_delete_takes_one_entry_and_leaves_every_other_byte(ralph: Project) -> None:
    prose = "\r\nSomebody's prose  \r\n\r\n"
    ralph.put(".agent/memories.md", page(ONE, TWO, THREE) + prose)
    said = ralph("memory", "delete", TWO.id)
    assert (said.code, said.out) == (0, f"Deleted {TWO.id} (.agent/memories.md:11)\n")
    assert ralph.read() == page(ONE, THREE) + prose
    assert ralph("memory", "show", TWO.id).code == 1


def test_an_id_that_two_entries_have_is_not_guessed(ralph: Project) -> None:
    ralph.memories(ONE, Block("Another one", ONE.id, kind="fix"))
    before = ralph.marks()
    said = ralph("memory", "delete", ONE.id)
    assert said.code == 1
    assert ".agent/memories.md:5" in said.err
    assert "ralph doctor --fix" in said.err
    assert ralph.marks() == before


def test_the_second_place_of_memories_is_read_and_written_when_it_is_the_only_one(
    ralph: Project,
) -> None:
    ralph.put(".ralph/agent/memories.md", page(ONE))
    assert ralph("memory", "add", "New").code == 0
    assert not ralph.file(".agent").exists()
    ralph.put(".agent/memories.md", page(TWO))
    assert len(ralph("memory", "list", "--format", "json").json) == 3
    assert ralph("memory", "delete", ONE.id).code == 0
    assert ONE.text not in ralph.read(".ralph/agent/memories.md")


def test_control_characters_are_shown_and_never_sent_to_a_terminal(ralph: Project) -> None:
    ralph.memories(Block("red \x1b[31m, title \x1b]0;owned\x07, csi \x9b2J", ONE.id, "a\x1b[1m"))
    ralph.put(
        ".ralph/guardrails.md",
        "# Guardrails\n\n### Sign: name \x1b]0;owned\x07\n- **Trigger**: \x1b[2J\n",
    )
    verbs = (["list"], ["show", ONE.id], ["search", "red"])
    calls = [
        ["memory", *verb, *form]
        for verb in verbs
        for form in ([], ["--format", "markdown"], ["--format", "json"])
    ]
    calls += [
        ["memory", "prime"],
        ["memory", "list", "--in", "guardrails"],
        ["memory", "show", "sign-name-0-owned"],
        ["doctor"],
    ]
    printed = all_on_a_terminal(ralph.root, calls, env={"NO_COLOR": "1"})
    assert printed.count("owned") >= len(calls) // 2
    assert "error" not in printed
    assert not set(printed) & set("\x1b\x07\x9b")
    assert b"\\x1b]0;owned\\x07" in on_a_terminal(ralph.root, "memory", "show", ONE.id)


def test_a_pipe_gets_markdown_as_it_is(ralph: Project) -> None:
    ralph.memories(Block("red \x1b[31m text", ONE.id))
    assert "red \x1b[31m text" in ralph("memory", "show", ONE.id, "--format", "markdown").out
    assert "red \x1b[31m text" in ralph("memory", "prime").out


def test_wide_characters_keep_the_table_aligned(ralph: Project) -> None:
    ralph.memories(Block("The text", ONE.id, "인증"), Block("The text", THREE.id, "plain"))
    first, second = ralph("memory", "list").out.splitlines()[1:]
    assert first.index("The text") + len("인증") == second.index("The text")


def test_json_keeps_letters_of_every_script_readable(ralph: Project) -> None:
    added = ralph("memory", "add", "인증 토큰은 🔥 30분", "--format", "json")
    assert "인증 토큰은 🔥 30분" in added.out
    assert json.loads(added.out)["content"] == "인증 토큰은 🔥 30분"


def _line(ralph: Project, entry_id: str) -> int:
    return ralph.read().split("\n").index(f"### {entry_id}") + 1


@pytest.mark.parametrize("file", ["memories", "guardrails"])
def test_entries_are_archived_and_unarchived(ralph: Project, file: str) -> None:
    name = ralph("memory", "add", "Redis must run", "--in", file, "--format", "quiet").out.strip()
    assert ralph("memory", "edit", name, "--archive").out.startswith(f"Archived {name} (")
    assert ralph("memory", "list", "--in", file, "--format", "quiet").out == ""
    assert "status:      archived" in ralph("memory", "show", name).out
    assert ralph("memory", "show", name, "--format", "json").json["status"] == "archived"
    assert ralph("memory", "edit", name, "--archive").out == f"{name} is already archived\n"
    assert ralph("memory", "edit", name, "--restore").out.startswith(f"Restored {name} (")
    assert ralph("memory", "list", "--in", file, "--format", "quiet").out == f"{name}\n"
    assert ralph("memory", "edit", name, "--restore").out == f"{name} is not archived\n"
    assert ralph("memory", "edit", "mem-1-none", "--archive").code == 1


def test_an_archived_text_can_be_added_again(ralph: Project) -> None:
    first = ralph("memory", "add", "Redis must run", "--format", "quiet").out.strip()
    ralph("memory", "edit", first, "--archive")
    second = ralph("memory", "add", "Redis must run", "--format", "quiet").out.strip()
    assert second != first
    assert ralph("memory", "list", "--format", "quiet").out == f"{second}\n"


def test_knowledge_is_edited_archived_and_unarchived(ralph: Project) -> None:
    ralph(
        "memory",
        "add",
        "--in",
        "knowledge",
        "--title",
        "Redis",
        "It must run",
        "--tags",
        "redis,ci",
    )
    said = ralph(
        "memory",
        "edit",
        "redis",
        "--title",
        "Redis 7",
        "--text",
        "-",
        "--tags",
        "redis",
        stdin="It must be 7",
    )
    assert said.out == "Changed know-redis (.ralph/knowledge/redis.md:1)\n"
    shown = ralph("memory", "show", "redis", "--format", "json").json
    assert (shown["title"], shown["content"], shown["tags"]) == (
        "Redis 7",
        "It must be 7",
        ["redis"],
    )
    assert (
        ralph("memory", "edit", "redis", "--tags", "redis").out == "Nothing changed in know-redis\n"
    )
    assert ralph("memory", "edit", "redis", "--archive").out.startswith("Archived know-redis (")
    assert ralph("memory", "list", "--in", "knowledge").out.startswith("No memories yet.")
    assert ralph("memory", "edit", "redis", "--archive").out == "know-redis is already archived\n"
    assert ralph("memory", "edit", "redis", "--restore").out.startswith("Restored know-redis (")
    assert ralph("memory", "edit", "redis", "--restore").out == "know-redis is not archived\n"
    assert ralph("memory", "edit", "nothing", "--archive").code == 1


def test_short_ids_are_accepted_and_ambiguous_ones_list_the_candidates(ralph: Project) -> None:
    other = Block("Same tail", "mem-1805751400-a3f8")
    ralph.memories(ONE, TWO, other)
    short = f"mem-{TWO.id[-4:]}"
    assert ralph("memory", "show", short, "--format", "json").json["id"] == TWO.id
    assert ralph("memory", "edit", short, "--tags", "x").out.startswith(f"Changed {TWO.id} (")
    assert "ralph memory delete" in ralph("memory", "rm", short).err
    assert ralph("memory", "delete", short).out.startswith(f"Deleted {TWO.id} (")
    said = ralph("memory", "show", "mem-a3f8")
    assert said.code == 1
    assert f"{ONE.id}, {other.id}" in said.err


def test_unquoted_words_are_joined(ralph: Project) -> None:
    assert (
        ralph("memory", "add", "Uses", "barrel", "exports", "--format", "json").json["text"]
        == "Uses barrel exports"
    )


def test_patterns_are_memories_as_well(ralph: Project) -> None:
    name = ralph(
        "memory", "add", "Keep handlers small", "--in", "patterns", "--format", "quiet"
    ).out.strip()
    assert "## Conventions\n\n- Keep handlers small\n" in ralph.read(".ralph/global-patterns.md")
    assert ralph("memory", "add", "keep handlers small", "--in", "patterns").out.startswith(
        f"Already there: {name}"
    )
    assert ralph("memory", "search", "handlers", "--in", "all", "--format", "json").ids == [name]
    assert ralph("memory", "edit", name, "--archive").code == 1
    new = ralph("memory", "edit", name, "--text", "Keep handlers very small")
    assert new.out.startswith("Changed pat-")
    assert ralph("memory", "delete", new.out.split()[1]).code == 0
    assert ralph("memory", "list", "--in", "patterns", "--format", "json").json == []


def test_a_list_of_all_files_has_every_entry(ralph: Project) -> None:
    for file in ("memories", "guardrails", "patterns"):
        ralph("memory", "add", f"One of {file}", "--in", file)
    ralph("memory", "add", "Body", "--in", "knowledge", "--title", "Page", "--tags", "a")
    listed = ralph("memory", "list", "--in", "all", "--format", "json").json
    assert [each["text"] for each in listed] == [
        "One of memories",
        "One of guardrails",
        "One of patterns",
        "Body",
    ]
    primed = ralph("memory", "prime", "--in", "all").out
    assert (
        primed.index("One of guardrails")
        < primed.index("One of memories")
        < primed.index("### Page")
    )


@pytest.mark.parametrize("verb", ["list", "prime"])
def test_an_entry_with_a_malformed_heading_is_warned_about(ralph: Project, verb: str) -> None:
    ralph.memories(ONE)
    path = ralph.root / ".agent/memories.md"
    path.write_text(path.read_text(encoding="utf-8") + "\n### mem-oops\n> lost\n", encoding="utf-8")
    line = len(path.read_text(encoding="utf-8").splitlines()) - 1
    for form in ("markdown", "json"):
        said = ralph("memory", verb, "--format", form)
        assert (said.code, "lost" in said.out) == (0, False)
        assert said.err.startswith(
            f"warning: .agent/memories.md:{line}: `### mem-oops` is not `### `"
        )
    assert ralph("memory", verb, "--in", "guardrails").err == ""


def test_a_section_may_end_with_a_colon(ralph: Project) -> None:
    text = "# Memories\n\n## Decisions:\n\n### mem-1705751400-a3f8\n> cents\n"
    path = ralph.put(".agent/memories.md", text)
    assert (
        ralph("memory", "list", "--type", "decision", "--format", "quiet").out
        == "mem-1705751400-a3f8\n"
    )
    new = ralph("memory", "add", "no floats", "-t", "decision", "--format", "json").json
    assert (new["type"], path.read_text(encoding="utf-8").count("## ")) == (
        "decision",
        1 + 2,
    )  # its heading, two ids
    assert ralph("memory", "list", "--type", "decision", "--format", "json").ids[-1] == new["id"]
