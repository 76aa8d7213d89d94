"""The noisy logs of `tests/golden/noisy_log*/`: read as records, and what the rules make of them, counted.

An insight belongs to a planted one when it has a line of its evidence and tells most of its distinctive words. It is
junk when none of its lines belongs to a planted one. Promoted is what is well-evidenced, as at the end of a task.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ralph.capture.insights import evidence, is_well_evidenced, propose
from ralph.formats.sigils import read_sigils
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Outcome, Record, Scope, Status
from ralph.search.terms import query_terms

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "noisy_log"
"""The log that is taken when none is named."""
_TOLD = 0.5
"""The part of a planted insight's distinctive words that one of ours must tell."""


@dataclass(frozen=True, slots=True)
class Planted:
    """An insight that was hidden in the log."""

    id: str
    task: str
    lines: frozenset[str]
    keywords: tuple[str, ...]
    strong: bool
    gist: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of the log: proposed and promoted, kept and lost, and what of it is junk."""

    planted: tuple[Planted, ...]
    noise: dict[str, tuple[str, frozenset[str]]]
    proposed: tuple[Record, ...]
    promoted: tuple[Record, ...]
    kept: frozenset[str]
    kept_strong: frozenset[str]
    junk_proposed: tuple[Record, ...]
    junk_promoted: tuple[Record, ...]

    @property
    def share_kept(self) -> float:
        """Of the planted insights, those that are proposed."""
        return len(self.kept) / len(self.planted)

    @property
    def share_junk(self) -> float:
        """Of what is promoted, what is junk."""
        return len(self.junk_promoted) / max(len(self.promoted), 1)

    @property
    def share_noise(self) -> float:
        """Of the situations that are noise, those of which something is promoted."""
        return len({name for each in self.junk_promoted for name in self.noises(each)}) / len(self.noise)

    def noises(self, record: Record) -> list[str]:
        """The situations that an insight comes from."""
        return [name for name, (_, lines) in self.noise.items() if lines & {*evidence(record)}]


def records(folder: Path | None = None) -> dict[str, list[Record]]:
    """The records of each task, as they happened."""
    found: dict[str, list[Record]] = {}
    for path in sorted(((folder or FOLDER) / "sessions").glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                value = json.loads(line)
                found.setdefault(value["task"], []).append(record_of(value, number))
    return found


def record_of(value: dict[str, Any], number: int) -> Record:
    """One line of the log as the record that Ralph would have of it."""
    name = f"{value['session']}:{number}"
    files = tuple(value.get("files") or ())
    words, command, tool = value.get("text") or "", value.get("command") or "", value.get("tool") or ""
    origin = Origin("agent", value["session"], task=value["task"], files=files)
    if value["type"] == "journal":
        said = read_sigils(words).journal or words
        return Record(name, Outcome.DONE, said, Family.JOURNAL, origin=origin, created_at=value["at"])
    if value["type"] in ("knowledge", "learning"):
        told = read_sigils(words).knowledge
        title, tags, text = (told[0].title, told[0].tags, told[0].text) if told else ("", (), words)
        return Record(
            name, MemoryKind.CONTEXT, text, label=value["type"], title=title, tags=tags, status=Status.PROPOSED,
            scope=Scope.TASK, origin=origin, created_at=value["at"],
        )  # fmt: skip
    extra = {key: kept for key, kept in (("tool", tool), ("command", command)) if kept}
    title = f"{tool}: {command}" if command else tool
    return Record(
        name, ObservationKind(value["type"]), words, Family.OBSERVATION, title=title,
        status=Status.RAW, scope=Scope.SESSION, origin=origin, created_at=value["at"], extra=extra,
    )  # fmt: skip


def planted(folder: Path | None = None) -> Iterator[Planted]:
    """What was hidden."""
    for each in _expected(folder or FOLDER)["real"]:
        yield Planted(
            each["id"], each["task"], frozenset(each["evidence"]), tuple(each["keywords"]), each["strong"], each["gist"]
        )


@cache
def _expected(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return value


def tells(text: str, keywords: tuple[str, ...]) -> bool:
    """Whether a text has most of some words, in any form."""
    low = text.lower()
    terms = {term for word in query_terms(text) for term in word.terms}
    held = [
        word for word in keywords if word.lower() in low or {t for w in query_terms(word) for t in w.terms} <= terms
    ]
    return len(held) >= _TOLD * len(keywords)


@cache
def measured(folder: Path | None = None) -> Measured:
    """A log, put through the rules."""
    hidden = tuple(planted(folder))
    noise = {each["id"]: (each["why"], frozenset(each["lines"])) for each in _expected(folder or FOLDER)["noise"]}
    proposed = tuple(each for held in records(folder).values() for each in propose(held))
    promoted = tuple(each for each in proposed if is_well_evidenced(each))
    real = frozenset().union(*(each.lines for each in hidden))

    def found(among: tuple[Record, ...]) -> frozenset[str]:
        return frozenset(
            each.id
            for each in hidden
            if any(each.lines & {*evidence(one)} and tells(one.text, each.keywords) for one in among)
        )

    def junk(among: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(each for each in among if not real & {*evidence(each)})

    return Measured(hidden, noise, proposed, promoted, found(proposed), found(promoted), junk(proposed), junk(promoted))
