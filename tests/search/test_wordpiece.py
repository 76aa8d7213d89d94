"""The tokenizer of the local model: pieces, words, limits, and the numbers of the reference implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.search import local_embedder
from ralph.search.wordpiece import WordPiece, wordpiece_words

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "token",
    "##s",
    "##ize",
    "un",
    "##known",
    "!",
    "cafe",
    "中",
]
SMALL = WordPiece({piece: number for number, piece in enumerate(PIECES)})


def spelled(text: str, limit: int = 64) -> list[str]:
    return [PIECES[number] for number in SMALL.encode(text, limit)]


def test_a_word_is_covered_by_the_longest_pieces_from_the_left() -> None:
    assert spelled("tokens unknown tokenizes") == [
        "[CLS]", "token", "##s", "un", "##known", "token", "##ize", "##s", "[SEP]",
    ]  # fmt: skip


def test_a_word_with_an_uncovered_rest_is_one_unknown_token() -> None:
    assert spelled("tokenq q") == ["[CLS]", "[UNK]", "[UNK]", "[SEP]"]


def test_an_absurdly_long_word_is_one_unknown_token() -> None:
    assert spelled("token" + "s" * 95) == ["[CLS]", "token", *["##s"] * 61, "[SEP]"]
    assert spelled("token" + "s" * 96) == ["[CLS]", "[UNK]", "[SEP]"]


def test_case_and_accents_do_not_matter() -> None:
    assert spelled("CAFÉ Cafe\u0301") == ["[CLS]", "cafe", "cafe", "[SEP]"]


def test_marks_of_the_model_in_a_text_are_just_text() -> None:
    assert 3 not in SMALL.encode("[SEP] token", 64)[1:-1]


def test_the_limit_counts_both_marks() -> None:
    assert spelled("token token token", 4) == ["[CLS]", "token", "token", "[SEP]"]
    assert spelled("unknown", 3) == ["[CLS]", "un", "[SEP]"]


def test_nothing_is_two_marks() -> None:
    assert spelled("") == spelled(" \n\x00\u200b") == ["[CLS]", "[SEP]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "don't C++ a_b src/db.ts",
            ["don", "'", "t", "c", "+", "+", "a", "_", "b", "src", "/", "db", ".", "ts"],
        ),
        ("中文x", ["中", "文", "x"]),
        ("a\u3000b\u00a0c\td", ["a", "b", "c", "d"]),
        ("con\x00trol ze\u200bro", ["control", "zero"]),
        ("“quoted” — yes…", ["“", "quoted", "”", "—", "yes", "…"]),
        ("인증", ["\u110b\u1175\u11ab\u110c\u1173\u11bc"]),
    ],
)
def test_words_are_cut_as_the_uncased_models_cut_them(text: str, expected: list[str]) -> None:
    assert list(wordpiece_words(text)) == expected


@given(st.text(), st.integers(min_value=2, max_value=20))
def test_every_text_has_an_encoding_within_the_limit(text: str, limit: int) -> None:
    tokens = SMALL.encode(text, limit)
    assert 2 <= len(tokens) <= limit
    assert (tokens[0], tokens[-1]) == (2, 3)
    assert tokens == SMALL.encode(text, limit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Use `git rebase --onto`, never force-push!",
            [101, 2224, 1036, 21025, 2102, 2128, 15058, 1011, 1011, 3031, 1036, 1010, 2196, 2486, 1011, 5245, 999, 102],
        ),
        ("Ünïcödé naïve café", [101, 27260, 15743, 7668, 102]),
        ("日本語のテスト", [101, 1864, 1876, 1950, 1671, 30239, 30233, 30240, 102]),
        ("인증 토큰", [101, 1463, 30019, 30021, 30000, 30017, 30025, 1467, 30011, 30002, 30017, 30021, 102]),
    ],
)  # fmt: skip
def test_the_real_vocabulary_gives_the_numbers_of_the_reference_tokenizer(
    text: str, expected: list[int]
) -> None:
    assert WordPiece(local_embedder.load_vocabulary()).encode(text, 256) == expected
