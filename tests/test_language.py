"""The glossary gives one meaning to one word, and has only words that the project uses."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "DOMAIN.md").read_text(encoding="utf-8")
ROWS = [
    (term, meaning)
    for term, meaning in re.findall(r"^\| (.+?) \| (.+) \|$", GLOSSARY, flags=re.MULTILINE)
    if term != "term"
]
USERS = (*ROOT.glob("src/ralph/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md")
USES = "\n".join(
    path.read_text(encoding="utf-8").lower() for path in USERS if path.name != "DOMAIN.md"
)


def test_a_word_has_one_meaning() -> None:
    terms = [term.lower() for term, _ in ROWS]
    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize(("term", "meaning"), ROWS)
def test_a_term_is_explained_in_sentences_and_used(term: str, meaning: str) -> None:
    assert meaning.endswith(".")
    assert re.search(rf"\b{re.escape(term.lower())}", USES), f"nothing uses the word {term!r}"
