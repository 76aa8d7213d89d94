"""`ralph memory --in guardrails`: structured entries, legacy Signs, and the migration from one to the other."""

import re

import pytest
from tests.support.runner import Block, Project, page

from ralph.core.tokens import estimate
from ralph.install import signs

EMPTY = "# Guardrails\n\n## Fixes\n\n## Decisions\n\n## Patterns\n"
FILE = ".ralph/guardrails.md"
IN = ("--in", "guardrails")
ONE = Block(
    "npm test fails: run npm build first", "fix-1737372000-a1b2", "build, test", "2024-01-20", "fix"
)
TWO = Block("Chose TailwindCSS", "decision-1737372100-b2c3", "css", "2024-01-21", "decision")
SIGN = """\
### Sign: Check before commit
- **Trigger**: before a commit
- **Instruction**: run
  1. `make lint`
  2. the tests

  ```sh
  ### Sign: not a sign
  make test
  ```
- **Added after**: iteration 3
"""
LOUD = "### 🚧 SIGN: Keep the API stable\nDo: deprecate\nDon't: remove\nLearned from: a bad night\n"
BETWEEN = "Prose between is part of its Sign.\n"
LEGACY = (
    f"# Signs of this project\n\nProse before.\n\n{SIGN}\n{BETWEEN}\n{LOUD}\n---\n\nProse after.\n"
)
EXAMPLE = "<!-- an example:\n### Sign: Example\n- **Trigger**: never\n-->\n"


def put(ralph: Project, text: str, name: str = FILE) -> Project:
    ralph.put(name, text)
    return ralph


# --- structured entries ---------------------------------------------------------------------------


def test_init_makes_three_sections_once_and_again_only_by_force(ralph: Project) -> None:
    assert ralph("memory", "init", *IN).code == 0
    assert ralph.read(FILE) == EMPTY
    again = ralph("memory", "init", *IN)
    assert again.code == 1
    assert "--force" in again.err
    assert ralph("memory", "init", *IN, "--force").code == 0
    assert ralph.read(f"{FILE}.bak") == EMPTY


@pytest.mark.parametrize("kind", ["fix", "decision", "pattern", "context"])
def test_ids_begin_with_the_type(ralph: Project, kind: str) -> None:
    said = ralph("memory", "add", *IN, f"About {kind}", "-t", kind.upper(), "--format", "json")
    assert re.fullmatch(rf"{kind}-\d{{10}}-[0-9a-f]{{4}}", said.json["id"])
    assert ralph("memory", "list", *IN, "--type", kind, "--format", "json").ids == [said.json["id"]]


def test_a_guardrail_is_a_fix_unless_told_otherwise(ralph: Project) -> None:
    put(ralph, page(ONE, title="Guardrails"))
    said = ralph("memory", "add", *IN, "Mind the gap", "--tags", "a", "--tags", "b,c")
    entry_id = re.findall(r"fix-\d+-[0-9a-f]{4}", said.out)[0]
    assert said.out.startswith(f"Added fix {entry_id} ({FILE}:")
    shown = ralph("memory", "show", entry_id, "--format", "json").json
    assert (shown["type"], shown["tags"]) == ("fix", ["a", "b", "c"])
    assert (
        ralph.read(FILE).index(ONE.text)
        < ralph.read(FILE).index("Mind the gap")
        < ralph.read(FILE).index("## Context")
    )


def test_a_context_entry_gets_its_section_which_stays_when_it_is_deleted(ralph: Project) -> None:
    put(ralph, EMPTY)
    entry_id = ralph(
        "memory", "add", *IN, "Lives in core", "-t", "context", "--format", "quiet"
    ).out.strip()
    assert "\n## Context\n" in ralph.read(FILE)
    assert ralph("memory", "delete", entry_id).code == 0
    assert ralph.read(FILE).startswith(EMPTY.rstrip())
    assert ralph.read(FILE).endswith("\n## Context\n")


def test_the_same_verbs_as_for_memories(ralph: Project) -> None:
    put(ralph, page(ONE, TWO, title="Guardrails"))
    assert ralph("memory", "list", *IN, "--format", "json").ids == [TWO.id, ONE.id]
    assert ralph("memory", "list", *IN, "--last", "1", "--format", "quiet").out == f"{TWO.id}\n"
    assert ralph("memory", "search", *IN, "failing tests", "--format", "json").ids == [ONE.id]
    assert ralph(
        "memory", "search", *IN, "--tags", "css,none", "--all", "--format", "json"
    ).ids == [TWO.id]
    assert ralph("memory", "show", ONE.id, "--format", "markdown").out == f"## Fixes\n\n{ONE}"
    assert ralph("memory", "add", *IN, f" {ONE.text.upper()}! ").out.startswith(
        f"Already there: {ONE.id}"
    )
    assert ralph("memory", "add", *IN, "From a pipe `x` $y", "--force").code == 0
    assert (
        ralph("memory", "add", *IN, "-", "--format", "json", stdin="`a` $b\n").json["content"]
        == "`a` $b"
    )


def test_prime_puts_fixes_first(ralph: Project) -> None:
    put(ralph, page(TWO, ONE, title="Guardrails"))
    assert ralph("memory", "prime", *IN, "--format", "json").ids == [ONE.id, TWO.id]
    assert ralph("memory", "prime", *IN).out == f"## Fixes\n\n{ONE}\n## Decisions\n\n{TWO}"
    assert ralph("memory", "prime", *IN, "--type", "decision", "--format", "json").ids == [TWO.id]


@pytest.mark.parametrize("verb", ["show", "delete"])
def test_a_missing_guardrail_is_exit_1_and_nothing_changes(ralph: Project, verb: str) -> None:
    put(ralph, page(ONE, title="Guardrails"))
    before = ralph.marks()
    said = ralph("memory", verb, "fix-1-dead")
    assert (said.code, said.out) == (1, "")
    assert "Memory not found: fix-1-dead" in said.err
    assert ralph.marks() == before


def test_an_empty_list_is_valid_in_every_format(ralph: Project) -> None:
    for verb in ("list", "search"):
        assert ralph("memory", verb, *IN, "--format", "json").json == []
        assert ralph("memory", verb, *IN, "--format", "markdown").out == ""
        assert ralph("memory", verb, *IN).out.startswith("No memories")


def test_a_file_in_the_root_is_used_when_it_is_the_only_one(ralph: Project) -> None:
    put(ralph, page(ONE, title="Guardrails"), "guardrails.md")
    assert ralph("memory", "add", *IN, "New").code == 0
    assert "New" in ralph.read("guardrails.md")
    assert not ralph.file(FILE).exists()


# --- legacy Signs ---------------------------------------------------------------------------------


def test_signs_are_listed_shown_found_and_handed_over(ralph: Project) -> None:
    put(ralph, LEGACY)
    entries = ralph("memory", "list", *IN, "--format", "json").json
    assert [(entry["type"], entry["label"], entry["title"]) for entry in entries] == [
        ("fix", "Sign", "Check before commit"),
        ("fix", "Sign", "Keep the API stable"),
    ]
    first, second = (entry["id"] for entry in entries)
    assert first == "sign-check-before-commit"
    assert "make test" in ralph("memory", "show", first).out
    assert "Learned from: a bad night" in ralph("memory", "show", second).out
    assert ralph("memory", "search", *IN, "deprecate", "--format", "json").ids == [second]
    primed = ralph("memory", "prime", *IN).out
    assert "### Sign: Check before commit\n- **Trigger**: before a commit" in primed
    assert len(ralph("memory", "prime", *IN, "--format", "json").json) == 2


def test_a_sign_is_deleted_like_any_entry(ralph: Project) -> None:
    put(ralph, LEGACY)
    assert ralph("memory", "delete", "sign-keep-the-api-stable").code == 0
    assert ralph.read(FILE) == LEGACY.replace(f"{LOUD}\n", "")


def test_adding_leaves_signs_as_they_are(ralph: Project) -> None:
    put(ralph, LEGACY)
    ralph("memory", "add", *IN, "A structured one")
    assert ralph.read(FILE).startswith(LEGACY.rstrip("\n"))
    assert signs.guardrail_formats(ralph.root)[0][1] == "mixed"


def test_an_example_inside_a_comment_is_no_sign(ralph: Project) -> None:
    put(ralph, "# Guardrails\n\n" + EXAMPLE)
    assert ralph("memory", "list", *IN, "--format", "json").json == []


def test_signs_count_within_a_budget(ralph: Project) -> None:
    put(
        ralph,
        "".join(f"### Sign: number {n}\nalways do the thing called {n}\n\n" for n in range(50)),
    )
    said = ralph("memory", "prime", *IN, "--budget", "300")
    assert estimate(said.out) <= 300
    assert 5 < said.out.count("### Sign: ") < 50


# --- which format it is, and the move to the new one ----------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "none"),
        ("", "empty"),
        ("# Guardrails\n\nNothing yet.\n", "empty"),
        (EMPTY, "structured"),
        ("## Patterns\n", "structured"),
        (page(ONE), "structured"),
        (LEGACY, "legacy"),
        ("### Sign: x\n", "legacy"),
        (EMPTY + SIGN, "mixed"),
        (SIGN + "\n" + page(ONE), "mixed"),
        ("# Guardrails\n\n" + EXAMPLE, "empty"),
        ("### Fixes\n\n> ## Fixes\n", "empty"),
    ],
)
def test_the_format_is_recognised(ralph: Project, text: str | None, expected: str) -> None:
    if text is not None:
        put(ralph, text)
    assert signs.guardrail_formats(ralph.root) == [
        (ralph.file(FILE), expected),
        (ralph.file("guardrails.md"), "none"),
    ]
    if expected in ("none", "empty", "structured"):
        assert "Sign" not in ralph("doctor", "--fix").out
        assert not ralph.file(f"{FILE}.bak").exists()
    else:
        assert "`ralph doctor --fix` to convert them to entries" in ralph("doctor").out


def test_migrate_makes_entries_of_signs_and_keeps_every_other_byte(ralph: Project) -> None:
    before = LEGACY + "\n" + EXAMPLE + "\n" + page(TWO, title="More").replace("\n## Context\n", "")
    put(ralph, before)
    said = ralph("doctor", "--fix")
    assert said.code == 0
    assert f"{FILE}: converted 2 Sign(s)" in said.out
    assert f"{FILE}.bak" in said.out
    assert ralph.read(f"{FILE}.bak") == before
    after = ralph.read(FILE)
    fixes = [
        entry
        for entry in ralph("memory", "list", *IN, "--format", "json").json
        if entry["type"] == "fix"
    ]
    assert [entry["content"].split("\n")[0] for entry in fixes] == [
        "Check before commit",
        "Keep the API stable",
    ]
    assert "make test" in fixes[0]["content"]
    made = "".join(
        ralph("memory", "show", e["id"], "--format", "markdown").out.partition("\n\n")[2] + "\n"
        for e in fixes
    )
    rest = after.replace("\n" + made.rstrip("\n"), "", 1)
    signs = before[before.index("### Sign: Check") : before.index("---\n\nProse after")]
    assert rest.replace("\n", "") == before.replace(signs, "").replace("\n", "")
    for piece in ("Prose before.", "---\n\nProse after.\n", EXAMPLE, str(TWO)):
        assert piece in after


def test_migrate_a_second_time_has_nothing_left_to_do(ralph: Project) -> None:
    put(ralph, LEGACY)
    assert "converted 2 Sign(s)" in ralph("doctor", "--fix").out
    before = ralph.marks()
    said = ralph("doctor", "--fix")
    assert (said.code, said.out) == (0, "Everything is in order.\n")
    assert ralph.marks() == before


def test_migrate_looks_at_every_place_and_at_crlf(ralph: Project) -> None:
    put(ralph, LEGACY.replace("\n", "\r\n"))
    put(ralph, SIGN, "guardrails.md")
    fixed = ralph("doctor", "--fix").out.splitlines()[:2]
    assert [line.split(":")[0] for line in fixed] == [f"fixed {FILE}", "fixed guardrails.md"]
    assert "\n" not in ralph.read(FILE).replace("\r\n", "")
    assert len(ralph("memory", "list", *IN, "--type", "fix", "--format", "json").json) == 3


def test_migrated_entries_have_ids_of_their_own(ralph: Project) -> None:
    put(ralph, "".join(f"### Sign: same name\nbody {n}\n\n" for n in range(30)))
    ralph("doctor", "--fix")
    ids = ralph("memory", "list", *IN, "--format", "json").ids
    assert len(set(ids)) == 30
    assert all(re.fullmatch(r"fix-\d{10}-[0-9a-f]{4}", entry_id) for entry_id in ids)


def test_migrate_keeps_what_a_sign_says_of_itself(ralph: Project) -> None:
    meta = "tags: api | created: 2025-01-01 | supersedes: fix-1-a | valid-until: 2999-01-01 | by: human | ticket: 7"
    put(ralph, f"# Guardrails\n\n### Sign: Keep it\nas it is\n<!-- {meta} -->\n")
    before = ralph("memory", "list", *IN, "--format", "json").json[0]
    assert ralph("doctor", "--fix").code == 0
    after = ralph("memory", "list", *IN, "--format", "json").json[0]
    kept = ("tags", "created", "valid_until", "by", "links", "extra")
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert (after["type"], after["title"], after["content"]) == ("fix", "", "Keep it\nas it is")


def test_a_listing_as_markdown_has_its_sections_in_the_order_of_prime(ralph: Project) -> None:
    put(ralph, page(TWO, ONE, title="Guardrails"))
    assert (
        ralph("memory", "list", *IN, "--format", "markdown").out
        == ralph("memory", "prime", *IN).out
    )
