"""The frozen texts of the privacy rules, as the golden files have them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Case = dict[str, str | list[str]]
_MIN_TELLING_LENGTH = 5  # characters of a secret's line that other texts do not have by chance
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


@dataclass(frozen=True)
class GoldenCase:
    """A text, the secrets in it with their kinds, and what surrounds them and must survive."""

    id: str
    kept: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return self._joined([secret for _, secret in self.secrets])

    @property
    def redacted(self) -> str:
        return self._joined([f"[redacted: {kind}]" for kind, _ in self.secrets])

    def _joined(self, middles: list[str]) -> str:
        pieces = [self.kept[0]]
        for middle, after in zip(middles, self.kept[1:], strict=True):
            pieces += [middle, after]
        return "".join(pieces)


@dataclass(frozen=True)
class SecretText:
    """A text of several lines, and what must not be stored of it: the lines of its secrets."""

    id: str
    text: str
    secrets: tuple[str, ...]


def multi_line_texts() -> list[SecretText]:
    """The cases with a secret in a text of several lines."""
    everything = []
    for case in golden_cases():
        lines = [line for _, secret in case.secrets for line in secret.split("\n")]
        everything.append(SecretText(case.id, case.text, tuple(filter(_is_telling, lines))))
    for frozen in cases("secrets.json"):
        everything.append(
            SecretText(str(frozen["id"]), text_of(frozen), tuple(secret_of(frozen).split("\n")))
        )
    return [case for case in everything if "\n" in case.text and case.secrets]


def _is_telling(line: str) -> bool:
    return len(line.strip()) >= _MIN_TELLING_LENGTH


def secrets_in(disk: bytes, searched: Sequence[SecretText]) -> list[str]:
    """The ids of the cases whose secret is in these bytes, as it is or escaped in JSON."""
    found = []
    for case in searched:
        for secret in case.secrets:
            escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
            if secret.encode() in disk or escaped.encode() in disk:
                found.append(case.id)
    return found


def golden_cases() -> list[GoldenCase]:
    """The cases of cases.jsonl."""
    found = []
    for line in (CORPUS / "cases.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            value = json.loads(line)
            secrets = tuple((kind, "".join(parts)) for kind, *parts in value["secrets"])
            found.append(GoldenCase(value["id"], tuple(value["kept"]), secrets))
    return found
