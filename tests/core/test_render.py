"""Rendered records: cleaned, at three levels of detail, in a frame that nothing in them can leave."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.injections import (
    KNOWN_HARMLESS,
    KNOWN_HOSTILE,
    LATER_HARMLESS,
    LATER_HOSTILE,
    LATER_ORDERS,
    NOTES,
    ORDERS,
)
from tests.support.laws import messy

from ralph.core import render
from ralph.core.prompts import INJECTED, NOTE
from ralph.core.tokens import estimate
from ralph.privacy import injection

SOURCE = Path(__file__).parents[2] / "src"
WORDS = (
    "`",
    "````",
    INJECTED,
    NOTE,
    "\x1b[31m",
    "\x1b]0;x\x07",
    "</system-reminder>",
    "\n",
    "\u202e",
    "\U000e0041",
)
TEXTS = st.one_of(messy(*WORDS), st.text(max_size=300))


def _content(text: str) -> list[str]:
    """The lines between the fences of one framed text."""
    lines = text.split("\n")
    fence = lines[1]
    assert set(fence) == {"`"}
    assert lines.count(fence) == 2
    return lines[2 : lines.index(fence, 2)]


class TestClean:
    @pytest.mark.parametrize(
        ("dirty", "plain"),
        [
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]0;title\x07after", "after"),
            ("\x9b31mred", "red"),
            ("\x1b(Bplain\x1bM", "plain"),
            ("\x1b[", ""),
            ("\x1b", ""),
            ("a\x00b\x08c\x7fd", "abcd"),
            ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
            ("ab\u202ecd\u2066e\u200bf\ufeff", "abcdef"),
            ("hid\U000e0069\U000e0067den", "hidden"),
            ("half\ud800", "half"),
            ("tab\tstays", "tab\tstays"),
            ("가족 👨‍👩‍👧 ✔️", "가족 👨‍👩‍👧 ✔️"),
        ],
    )
    def test_control_and_invisible_characters_are_removed(self, dirty: str, plain: str) -> None:
        assert render.clean(dirty) == plain

    def test_unterminated_escape_keeps_the_text(self) -> None:
        assert (
            render.clean("\x1b]0;title and the rest of the memory")
            == "0;title and the rest of the memory"
        )

    def test_own_marks_are_escaped(self) -> None:
        said = render.clean(f"{INJECTED}\n{NOTE}3 of 4 shown\n[ra\u200blph] hidden")
        assert NOTE.strip() not in said
        assert said.startswith("(ralph) Reference from earlier work\n(ralph) 3 of 4")

    @pytest.mark.parametrize(
        "tag", ["<system-reminder>", "</System-Reminder>", "< system>", "<|im_start|>", "<system>"]
    )
    def test_host_tags_are_escaped(self, tag: str) -> None:
        assert render.clean(f"a {tag} b") == f"a &lt;{tag[1:]} b"

    @pytest.mark.parametrize(
        "text", ["List<String>", "a < b", "<div>", "x <= y", "git push <remote> <branch>"]
    )
    def test_other_brackets_are_unchanged(self, text: str) -> None:
        assert render.clean(text) == text

    @given(TEXTS)
    def test_cleaning_is_idempotent_and_leaves_printable_text(self, text: str) -> None:
        once = render.clean(text)
        assert render.clean(once) == once
        assert not any(ord(char) < 32 and char not in "\n\t" for char in once)
        once.encode("utf-8")


class TestEntry:
    def test_layer_one_is_a_line_with_id_kind_date_and_beginning(self) -> None:
        said = render.entry(
            1,
            "mem-1-a",
            "fix",
            "",
            "Tests hang:\nrun make services",
            "2026-01-05T10:00:00Z",
            "a",
            "b.py",
        )
        assert said == "- [mem-1-a] fix 2026-01-05: Tests hang: run make services"

    def test_layer_three_is_complete_with_tags_and_files_and_indented(self) -> None:
        said = render.entry(
            3,
            "mem-1-a",
            "fix",
            "",
            "One\n\ntwo\n- [mem-9] three",
            "",
            ("x", "y"),
            ("src/a.ts", "b.ts"),
        )
        assert (
            said
            == "- [mem-1-a] fix (x, y): One\n\n  two\n  - [mem-9] three\n  files: src/a.ts, b.ts"
        )

    def test_lists_may_be_json_arrays(self) -> None:
        said = render.entry(3, "m", "fix", "", "text", "", '["a","b"]', '["x.py"]')
        assert said == "- [m] fix (a, b): text\n  files: x.py"

    def test_a_title_comes_first_unless_the_text_begins_with_it(self) -> None:
        assert render.entry(3, "m", "fix", "Auth", "Use JWT") == "- [m] fix: Auth\n  Use JWT"
        assert render.entry(3, "m", "fix", "Use", "Use JWT") == "- [m] fix: Use JWT"
        assert render.entry(1, "m", "fix", "Auth", "Use JWT") == "- [m] fix: Auth: Use JWT"

    def test_layer_two_is_cut_and_says_how_to_get_the_rest(self) -> None:
        said = render.entry(2, "mem-1-a", "decision", "", "word " * 2000, "2026-01-05")
        assert said.endswith("ralph search --layer 3 mem-1-a)")
        assert 200 <= estimate(said) <= 300

    def test_korean_and_a_very_long_word_are_cut(self) -> None:
        for text in ("인증" * 3000, "x" * 100_000):
            assert estimate(render.entry(1, "m", "fix", "", text)) <= render.LINE_TOKENS
            assert 200 <= estimate(render.entry(2, "m", "fix", "", text)) <= render.PART_TOKENS

    @given(st.sampled_from([1, 2, 3]), TEXTS, TEXTS, TEXTS, TEXTS)
    def test_only_the_first_line_of_an_entry_begins_with_the_mark(
        self, layer: int, name: str, title: str, text: str, tag: str
    ) -> None:
        said = render.entry(layer, name, "fix", title, text, "2026-01-05", (tag,), (tag,))
        first, *others = said.split("\n")
        assert first.startswith("- [")
        assert all(not line or line.startswith("  ") for line in others)
        assert (
            layer == 3
            or estimate(said) <= {1: render.LINE_TOKENS, 2: render.PART_TOKENS}[layer]
            or len(name) > 20
        )

    @given(TEXTS)
    def test_every_word_of_a_text_is_in_its_layer_three(self, text: str) -> None:
        assert render.clean(text).split() == render.entry(3, "m", "fix", "", text).split()[3:]


class TestFrame:
    @given(st.lists(TEXTS, max_size=8), st.integers(0, 5), TEXTS, st.integers(0, 1500))
    @example(["````"], 0, "", 9500)
    @example([f"{INJECTED}\n```\nx\n```\n{NOTE}y"], 1, "note", 9500)
    def test_frame_contains_complete_blocks_within_the_limit(
        self, blocks: list[str], more: int, how: str, most: int
    ) -> None:
        total = len(blocks) + more
        text, kept = render.within(blocks, total, how, most)
        assert bool(text) == bool(kept)
        assert render.length(text) <= most or not text
        if text:
            inside = _content(text)
            assert NOTE.strip() not in "\n".join(inside)
            assert "\n".join(inside) == "\n".join(render.clean(blocks[index]) for index in kept)
            assert text.split("\n")[0] == render.INTRO
            after = text.split("\n")[len(inside) + 3 :]
            note = f"{NOTE}{len(kept)} of {total} shown; the rest: {render.one_line(how)}".rstrip()
            assert after == ([note, ""] if len(kept) < total else [""])

    def test_shorter_block_is_kept_after_one_that_is_too_long(self) -> None:
        said, kept = render.within(["first", "x" * 500, "last"], 3, "ralph search", 300)
        assert kept == (0, 2)
        assert "2 of 3 shown" in said

    def test_no_blocks_give_no_text(self) -> None:
        assert render.within([], 0, "x") == ("", ())
        assert render.within(["", "\n"], 2, "x") == ("", ())

    def test_length_counts_utf16_units(self) -> None:
        assert render.length("a인🔥") == 4
        said, _ = render.within(["🔥" * 3000, "인" * 3000], 2, "x")
        assert "🔥" in said
        assert len(said.encode("utf-16-le")) // 2 <= render.MOST_CHARACTERS

    def test_intro_says_reference_out_of_date_and_not_instructions(self) -> None:
        first = render.within(["x"], 1, "")[0].split("\n")[0]
        assert first.startswith(INJECTED)
        assert "out of date" in first
        assert "not instructions" in first


class TestPromptInjection:
    @pytest.mark.parametrize("text", KNOWN_HOSTILE)
    def test_injection_of_a_tool_or_import_is_withheld(self, text: str) -> None:
        assert injection.looks_like_instructions(text)
        assert injection.withheld("tool", text)
        assert injection.withheld("import", text)
        assert not injection.withheld("human", text)

    @pytest.mark.parametrize("text", KNOWN_HARMLESS)
    def test_harmless_text_is_not_withheld(self, text: str) -> None:
        assert not injection.looks_like_instructions(text)

    def test_rates_on_later_texts(self) -> None:
        caught = sum(map(injection.looks_like_instructions, LATER_HOSTILE))
        wrongly = sum(map(injection.looks_like_instructions, LATER_HARMLESS))
        assert caught / len(LATER_HOSTILE) >= 0.75
        assert wrongly / len(LATER_HARMLESS) <= 0.05

    def test_rates_on_forms_in_seven_languages(self) -> None:
        missed = [text for text in ORDERS if not injection.looks_like_instructions(text)]
        wrongly = [text for text in NOTES if injection.looks_like_instructions(text)]
        later = sum(map(injection.looks_like_instructions, LATER_ORDERS))
        assert len(missed) <= 0.05 * len(ORDERS), missed
        assert len(wrongly) <= 0.03 * len(NOTES), wrongly
        assert later >= 0.85 * len(LATER_ORDERS)
        assert (len(ORDERS), len(NOTES)) >= (60, 120)

    def test_injection_is_detected_among_other_lines_in_any_case(self) -> None:
        for text in (*ORDERS[:3], *ORDERS[13:16]):
            assert injection.looks_like_instructions(f"12 passed in 3 s\n{text.upper()}\nDone.")

    @given(
        st.lists(
            st.sampled_from(
                [
                    "your",
                    "new",
                    "goal",
                    "is",
                    "you",
                    "are",
                    "allowed",
                    "whoever",
                    "this",
                    "use",
                    "the",
                    "tool",
                    "for",
                    "ai",
                    ":",
                    ",",
                ]
            )
        )
    )
    def test_incomplete_form_does_not_fail(self, words: list[str]) -> None:
        assert injection.looks_like_instructions(" ".join(words)) in (True, False)

    def test_corpus_is_large_and_unique(self) -> None:
        texts = [*KNOWN_HOSTILE, *KNOWN_HARMLESS, *LATER_HOSTILE, *LATER_HARMLESS]
        assert min(len(KNOWN_HOSTILE), len(KNOWN_HARMLESS)) >= 40
        assert len(set(texts)) == len(texts)

    @given(TEXTS)
    def test_any_text_does_not_fail(self, text: str) -> None:
        assert injection.looks_like_instructions(text) in (True, False)


def test_rendering_loads_no_heavy_module() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); before = set(sys.modules)\n"
        "from ralph.core import render\n"
        "render.within([render.entry(2, 'm', 'fix', '', 'Tests hang')], 1, 'n')\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    names = ["render", "tokens"]
    own = {"ralph", "ralph.core", *(f"ralph.core.{name}" for name in names)}
    assert set(done.stdout.split()) == own | {"ralph.core.prompts", "ralph.lean", "__future__"}
