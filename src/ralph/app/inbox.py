"""The inbox of `ralph review`: everything that a person should decide, as one value for terminal, scripts and pages.

Nothing is resolved here. What a person let stay as it is is remembered by a hash of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app import insights as insight
from ralph.app import memory, outdated, quarantine, usage
from ralph.app.insights import Insight
from ralph.app.repository import GitHistory, Repository
from ralph.capture.insights import COUNT, evidence, is_well_evidenced, places
from ralph.capture.similarity import differ, similarity, statement, term_weights
from ralph.context import render
from ralph.errors import Refused
from ralph.formats.memories import CONFLICTS
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import AT
from ralph.search.citations import STALE
from ralph.store.library import Stored

INSIGHT = "insight"
HELD = "held"
EDIT = "edit"
CONFLICT = "conflict"
CITATION = "citation"
CONTRADICTION = "contradiction"
DUPLICATE = "duplicate"
UNUSED = "unused"
UNUSED_DAYS = 60
_FEW_WORDS = 5
_WORD = re.compile(r"\w{3,}")
# texts that have a rare word, and pairs that are compared
_RARE = 12
_MAX_PAIRS = 20_000
_VERBS = {
    HELD: "accept reject",
    EDIT: "accept edit delete",
    CONFLICT: "accept merge supersede edit delete",
    CONTRADICTION: "accept supersede edit archive delete",
    DUPLICATE: "accept merge archive delete",
    CITATION: "accept edit archive promote delete",
    UNUSED: "accept edit archive promote delete",
}
_OF_REVIEW = ("accept", "reject", "promote")
_PATIENCE = 5.0  # seconds, for git


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """Something that a person should decide: what it is, why, the evidence, and the commands that decide it."""

    id: str
    kind: str
    text: str
    why: str
    evidence: tuple[str, ...]
    actions: tuple[str, ...]
    status: str = ""
    label: str = ""
    seen: str = ""
    task: str = ""
    source: str = ""
    other: str = ""  # the memory that it conflicts with, contradicts or repeats
    verbs: tuple[str, ...] = ()  # what can be done with it

    @property
    def key(self) -> str:
        """What is remembered when a person lets it stay."""
        return ids.derived(self.kind, f"{self.id} {self.other} {self.text} {self.evidence}")


def items(
    root: Path, *, task_id: str = "", status: str = "proposed", within: str = ""
) -> list[ReviewItem]:
    """Return insights of this status ("" for all); with those that wait for a decision, all else that waits."""
    insights = insight.list_(root, task_id=task_id, within=within)
    listed = [
        insight_item(each, root)
        for each in insights
        if not status or insight.state(each.record) == status
    ]
    if status not in ("", "proposed") or task_id:
        return listed
    return [*held_items(root), *listed, *memory_items(root)]


def held_items(root: Path) -> list[ReviewItem]:
    """Return what reads like an instruction to an agent: additions that are held, and entries that nobody signed."""
    why = "it reads like an instruction to an agent"
    items = []
    for each in quarantine.held(root):
        is_order = render.looks_like_instructions(
            render.guarded_text(each.title, each.text, each.tags)
        )
        said = f"{each.by or 'somebody'} added it{f' by {each.via}' if each.via else ''}, and {why}"
        said, status = (said, "held") if is_order else (f"imported from {each.via}", "proposed")
        items.append(
            _item(HELD, each.id, each.text, said, status=status, label=each.kind, source=each.in_)
        )
    for stored in quarantine.unattributed(root):
        said = f"{why}, and it is not committed: nobody has signed for it"
        items.append(_memory_item(root, EDIT, stored, said, status="held"))
    return items


def _item(
    kind: str, name: str, text: str, why: str, *, verbs: str = "", other: str = "", **more: Any
) -> ReviewItem:
    words = tuple((verbs or _VERBS[kind]).split())
    commands = {
        verb: f"ralph {'review' if verb in _OF_REVIEW else 'memory'} {verb} {name}"
        for verb in words
    }
    commands |= (
        {"supersede": f"ralph memory supersede {other} {name}"} if "supersede" in words else {}
    )
    commands |= (
        {"promote": f"ralph review promote {name} --to patterns"} if "promote" in words else {}
    )
    commands.pop("merge", None)  # of a terminal and the page: a script deletes one
    found = tuple(more.pop("evidence", ()) or ((other,) if other else ()))
    return ReviewItem(
        name, kind, text, why, found, tuple(commands.values()), other=other, verbs=words, **more
    )


def _memory_item(root: Path, kind: str, stored: Stored, why: str, **more: Any) -> ReviewItem:
    record = stored.record
    source = f"{paths.shown(stored.path, root)}:{stored.line}"
    about = {"status": kind, "label": record.kind.value, "source": source, **more}
    return _item(kind, record.id, record.text, why, **about)


def insight_item(each: Insight, root: Path) -> ReviewItem:
    """Return an insight as an item of the inbox."""
    record = each.record
    state = insight.state(each.record)
    strong = is_well_evidenced(record)
    count = record.extra.get(COUNT, 1)
    why = f"{record.label}, seen {count} times in {', '.join(places(record)) or 'no known session'}"
    verbs = {"proposed": "accept reject promote", "rejected": "accept"}.get(state, "reject promote")
    why = f"{why}; it goes to the patterns when its task is done" if strong else why
    about = {
        "status": state,
        "label": record.label,
        "seen": f"{count}x{'*' if strong else ''}",
        "task": each.task,
    }
    source = f"{paths.shown(each.stored.path, root)}:{each.stored.line}"
    return _item(
        INSIGHT,
        record.id,
        record.text,
        why,
        verbs=verbs,
        evidence=evidence(record),
        source=source,
        **about,
    )


# --- what is found in the memory files ---------------------------------------------------------


def memory_items(root: Path) -> list[ReviewItem]:
    """Return the memories that need a person, without what a person let stay."""
    entries = memory.list_(root, in_=("memories", "guardrails"))
    valid = {record.id for record in memory.current([stored.record for stored in entries])}
    current = [
        stored
        for stored in entries
        if stored.record.id in valid and CONFLICTS not in stored.record.extra
    ]
    found = [*_conflicts(root, entries), *_unsigned(root, current), *_contradictions(root, current)]
    found += [*_duplicates(root, current), *_stale_citations(root), *_unused(root, current)]
    kept = quarantine.accepted_keys(root) if found else ()
    return [item for item in found if item.key not in kept]


def _conflicts(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    texts = {stored.record.id: stored.record.text for stored in entries}
    for stored in entries:
        if other := str(stored.record.extra.get(CONFLICTS) or ""):
            why = f"a merge set it aside: {other} says {texts.get(other, 'nothing any more')}"
            yield _memory_item(root, CONFLICT, stored, why, other=other)


def _unsigned(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    """Yield entries of committed files that are in no commit and that no command has written."""
    by_path: dict[Path, list[Stored]] = {}
    for stored in entries:
        if not stored.record.extra.get(AT) and not quarantine.is_suspicious(stored.record):
            by_path.setdefault(stored.path, []).append(stored)
    for path, group in by_path.items():
        committed = Repository(path.parent, _PATIENCE).text(f"HEAD:./{path.name}") or ""
        for stored in group if committed else ():
            if f"### {stored.record.id}\n" not in committed.replace("\r", ""):
                yield _memory_item(
                    root, EDIT, stored, "it is in no commit, and no command of Ralph wrote it"
                )


def _contradictions(root: Path, entries: Iterable[Stored]) -> Iterator[ReviewItem]:
    first: dict[tuple[str, ...], Stored] = {}
    for stored in entries:
        subject, value = statement(stored.record.text)
        other = first.setdefault(subject, stored) if subject else stored
        if statement(other.record.text)[1] != value:
            why = f"it contradicts {other.record.id}: {other.record.text}"
            yield _memory_item(root, CONTRADICTION, stored, why, other=other.record.id)


def _duplicates(root: Path, entries: Sequence[Stored]) -> Iterator[ReviewItem]:
    """Yield entries that repeat an earlier one of their file; texts that share no rare word are not compared."""
    pairs: dict[tuple[int, int], None] = {}
    first_of: dict[tuple[Path, str], int] = {}
    sharing: dict[tuple[Path, str], list[int]] = {}
    for number, stored in enumerate(entries):
        first = first_of.setdefault((stored.path, normalise_text(stored.record.text)), number)
        if first != number:
            pairs[first, number] = None
        else:
            for word in set(_WORD.findall(stored.record.text.lower())):
                sharing.setdefault((stored.path, word), []).append(number)
    rare = sorted((numbers for numbers in sharing.values() if len(numbers) <= _RARE), key=len)
    pairs |= dict.fromkeys(
        islice((pair for numbers in rare for pair in combinations(numbers, 2)), _MAX_PAIRS)
    )
    weights = cache(term_weights)
    repeats = set[int]()
    for first, number in sorted(pairs):
        one = entries[first].record
        other = entries[number].record
        is_short = (
            min(len(one.text.split()), len(other.text.split())) < _FEW_WORDS
        )  # one word makes the difference
        is_equal = normalise_text(one.text) == normalise_text(other.text)
        is_similar = not is_short and similarity(weights(one.text), weights(other.text)) > 0
        if number not in repeats and (
            is_equal or (is_similar and not differ(one.text, other.text))
        ):
            repeats.add(number)
            why = f"{one.id} says the same: {one.text}"
            yield _memory_item(root, DUPLICATE, entries[number], why, other=one.id)


def _stale_citations(root: Path) -> Iterator[ReviewItem]:
    for report in outdated.check_citations(root):
        if problems := [each for each in report.looked if each.verdict in STALE]:
            why = "; ".join(
                f"{each.verdict.value}: {each.citation.kind.value} {each.citation}"
                for each in problems
            )
            about = {
                "status": "stale",
                "label": CITATION,
                "source": f"{report.place}:{report.line}",
            }
            known = tuple(dict.fromkeys(each.place for each in problems if each.place))
            yield _item(
                CITATION, report.record.id, report.record.text, why, evidence=known, **about
            )


def _unused(root: Path, entries: Iterable[Stored]) -> Iterator[ReviewItem]:
    """Yield old memories that no session got, once injections are known for as long."""
    ledger = usage.read_ledger(root, usage.ALL_BYTES)
    since = ids.first_day(UNUSED_DAYS)
    injected = {each.record for each in ledger.injections}
    if not any(each.at < since for each in ledger.injections):
        return
    for stored in entries:
        if stored.record.created_at < since and stored.record.id not in injected:
            yield _memory_item(
                root, UNUSED, stored, f"no session got it, and it is older than {UNUSED_DAYS} days"
            )


# --- pull requests -----------------------------------------------------------------------------


def changed_items(root: Path, base: str = "") -> list[ReviewItem]:
    """Return what needs a person in files that differ from the merge base; a commit is no signature here."""
    git = GitHistory(root)
    if not git.there:
        raise Refused(f"{root}: is in no git repository", hint="run it in a checkout")
    names = (
        [f"origin/{base}", base]
        if base
        else ["origin/HEAD", "origin/main", "origin/master", "main", "master"]
    )
    branch = next((name for name in names if git.commit(name)), "")
    start = git.answer("merge-base", "HEAD", branch) if branch else ""
    if not start or (git.is_shallow() and start == git.commit("HEAD")):
        what = (
            f"no common past of {branch} and HEAD is here"
            if branch
            else f"there is no branch {' or '.join(names)}"
        )
        shallow = "the clone is shallow: fetch all of it (`git fetch --unshallow`, or fetch-depth: 0 in a workflow)"
        raise Refused(what, hint=shallow if git.is_shallow() else "name the branch with --base")
    options = ("--name-only", "--relative", "-z", "--diff-filter=d")
    before = {
        name: git.text(f"{start}:./{name}") or "" for name in git.names("diff", *options, start)
    }
    found = [item for item in items(root) if item.source.rpartition(":")[0] in before]
    held = {item.id for item in found if item.kind == EDIT}
    for stored in memory.list_(root, in_=("memories", "guardrails", "patterns", "knowledge")):
        if stored.record.id in held:
            continue
        lines = before.get(paths.shown(stored.path, root), stored.record.text)
        if (
            quarantine.is_suspicious(stored.record)
            and stored.record.text.split("\n")[0] not in lines
        ):
            found.append(
                _memory_item(
                    root, EDIT, stored, "it is new, and reads like an instruction to an agent"
                )
            )
    return found
