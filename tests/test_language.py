"""Code, help, docs and pages use the words of docs/DOMAIN.md and avoid the words that it lists."""

import re
from pathlib import Path

from tests.support.cases import for_each

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "DOMAIN.md").read_text(encoding="utf-8")
AVOIDED = re.compile(
    r"\b(?:is|are|was|were|be) told\b|\bhang(?:s|ing)? together\b|\bhand(?:s|ed|ing)? over\b|\bto nobody any more\b"
    r"|\bwho(?:ever)? (?:searches|asks|looks|wants)\b|\blooks? on\b|\bodd(?:ities|ity)?\b|\bprove[sd]? it\b"
    r"|\bwhat stands\b",
    re.IGNORECASE,
)
CHECKED = sorted(
    path
    for pattern in (
        "src/ralph/**/*.py",
        "src/ralph/web/static/**/*.js",
        "docs/*.md",
        "README.md",
        "plugin/**/*.md",
    )
    for path in ROOT.glob(pattern)
    if "vendor" not in path.parts and path.name != "DOMAIN.md"
)


@for_each("path", CHECKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_avoids_the_words_of_the_glossary(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [
        f"{number}: {line}" for number, line in enumerate(lines, 1) if AVOIDED.search(line)
    ] == []


def test_glossary_has_at_most_40_terms() -> None:
    terms = GLOSSARY.partition("## Words to avoid")[0]
    rows = [
        line
        for line in terms.splitlines()
        if line.startswith("| ") and not line.startswith("| term")
    ]
    assert 0 < len(rows) <= 40
