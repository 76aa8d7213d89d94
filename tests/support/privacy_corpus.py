"""The frozen texts of the privacy rules, as the golden files have them."""

import json
from collections.abc import Sequence
from pathlib import Path

Case = dict[str, str | list[str]]
CORPUS = Path(__file__).parents[1] / "golden" / "privacy"


def cases(name: str) -> list[Case]:
    """The cases of a file of the corpus."""
    found: list[Case] = json.loads((CORPUS / name).read_text(encoding="utf-8"))
    return found


def text_of(case: Case) -> str:
    """The whole text of a case with a secret."""
    return "".join(case["parts"])


def secret_of(case: Case) -> str:
    """What must not be stored of a case."""
    return "".join(case["secret_parts"])


def multi_line_cases() -> list[Case]:
    """The cases with a secret in a text of several lines."""
    everything = [*cases("lines.json"), *cases("secrets.json")]
    return [case for case in everything if "\n" in text_of(case)]


def secrets_in(disk: bytes, searched: Sequence[Case]) -> list[str]:
    """The ids of the cases whose secret is in these bytes, as it is or escaped in JSON."""
    found = []
    for case in searched:
        secret = secret_of(case)
        escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
        if secret.encode() in disk or escaped.encode() in disk:
            found.append(str(case["id"]))
    return found
