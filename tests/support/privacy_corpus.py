"""The frozen texts of the privacy rules, as the golden files have them."""

import json
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "golden" / "privacy"


def cases(name: str) -> list[dict[str, str | list[str]]]:
    """The cases of a file of the corpus."""
    found: list[dict[str, str | list[str]]] = json.loads(
        (CORPUS / name).read_text(encoding="utf-8")
    )
    return found
