"""Kinds: every alias leads to a kind, every kind to a section, and nobody's word is lost."""

import pytest

from ralph.core.record import KIND_OF_WORD, SECTIONS, MemoryKind, kind_of, label_of


def test_every_kind_has_a_section_of_its_own() -> None:
    assert list(SECTIONS) == list(MemoryKind)
    assert len(set(SECTIONS.values())) == len(MemoryKind)


@pytest.mark.parametrize("kind", MemoryKind)
def test_a_kind_its_section_and_its_plural_all_mean_the_kind(kind: MemoryKind) -> None:
    assert kind_of(kind.value) is kind
    assert kind_of(SECTIONS[kind]) is kind
    assert label_of(SECTIONS[kind]) == kind.value


@pytest.mark.parametrize("word", KIND_OF_WORD)
def test_every_alias_leads_to_a_kind_in_any_case_and_spacing(word: str) -> None:
    assert kind_of(word) in list(MemoryKind)
    assert kind_of(f"  {word.upper().replace(' ', '   ')}\t") is kind_of(word)
    assert word == word.lower().strip()


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("convention", MemoryKind.PATTERN), ("Codebase Patterns", MemoryKind.PATTERN), ("ADR", MemoryKind.DECISION),
        ("gotcha", MemoryKind.FIX), ("Signs", MemoryKind.FIX), ("guardrail", MemoryKind.FIX),
        ("failure", MemoryKind.FIX),
        ("tip", MemoryKind.CONTEXT), ("Discoveries", MemoryKind.CONTEXT), ("knowledge", MemoryKind.CONTEXT),
        ("note", MemoryKind.CONTEXT),
    ],
)  # fmt: skip
def test_the_words_of_other_tools_mean_our_kinds(word: str, kind: MemoryKind) -> None:
    assert kind_of(word) is kind


@pytest.mark.parametrize(
    "word", ["Contextual", "Fixes:", "fixed", "", "mem", "pattern matching", "Fixe"]
)
def test_a_word_that_is_only_similar_means_nothing(word: str) -> None:
    assert kind_of(word) is None
    assert label_of(word) == word


@pytest.mark.parametrize("word", ["Gotchas", "fixes", "FIXES", "Lessons learned", "Sign"])
def test_the_authors_own_word_is_the_label(word: str) -> None:
    assert label_of(word) == word
