"""`ralph knowledge ...`: what needs more than a few sentences, one file each in `.ralph/knowledge/`.

What is about the same as an entry replaces its body (`formats/knowledge.py` says when); the body that goes stays in
the log as a retired record, written first, so that no crash loses both. Which file an entry goes to depends on all
the others: it is decided without the lock, and once more under it, by the edit that writes the file. A person's
secret is refused, an agent's is masked: a loop has nobody to ask, and one bad entry must not cost the others.
`tests/app/test_knowledge.py` proves it, also with eight processes and a kill in the middle.
"""

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ralph import paths
from ralph.app import entries
from ralph.app import feature as features
from ralph.capture import privacy
from ralph.capture.invisible_characters import check_text, clean_text
from ralph.context import knowledge as choosing
from ralph.context.knowledge import BUDGET, Match, Rendered, Titles, Work
from ralph.errors import Conflict, NotFound, RalphError, Refused
from ralph.formats.knowledge import (
    KNOWLEDGE_LABEL,
    KnowledgeDocument,
    clean_tags,
    normalise_entry,
    parse_knowledge,
    same_entry,
    shorten,
    slug_for,
)
from ralph.formats.log import encode_record
from ralph.formats.sigils import KnowledgeSigil
from ralph.formats.text import Problem
from ralph.model import ids
from ralph.model.record import Link, MemoryKind, Origin, Record, Status
from ralph.model.work import Task
from ralph.store import files
from ralph.store.library import Stored, check_folders

_TRIES = 20
_SIGNED = ("run", "by", entries.VIA)
"""What a new body says of itself, in place of what the old one said."""
_parsed = lru_cache(maxsize=4096)(parse_knowledge)  # a pure function; the loop reads the same files again and again


class Change(StrEnum):
    """What became of an entry."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Written:
    """What `add` did: the entry as it now stands, what changed, and the id of the body that it replaced."""

    stored: Stored
    change: Change
    replaced: str = ""
    shortened: bool = False
    private_parts: int = 0

    @property
    def slug(self) -> str:
        """The name of the entry's file, without `.md`."""
        return self.stored.path.stem


@dataclass(frozen=True, slots=True)
class Learned:
    """What became of one thing that an agent wanted to be known; `why` says it when it was refused or altered."""

    title: str
    slug: str
    change: Change
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A file in the folder that is no entry, and why."""

    path: Path
    problem: Problem


@dataclass(frozen=True, slots=True)
class Discovered:
    """Every entry, by the names of the files, and the files that are none."""

    entries: tuple[Stored, ...]
    strangers: tuple[Stranger, ...]

    @property
    def records(self) -> list[Record]:
        """The entries without their places."""
        return [stored.record for stored in self.entries]

    @property
    def offered(self) -> list[Record]:
        """Those that nobody has retired."""
        return [record for record in self.records if record.status is not Status.RETIRED]


@dataclass(frozen=True, slots=True)
class Edge:
    """One `[[link]]`: the entry it stands in, the words of the link, and the entry it leads to, if there is one."""

    source: Record
    words: str
    target: Record | None


def discover(root: Path) -> Discovered:
    """Read the folder, in a worktree without pages the main checkout's; a file that is no entry is a problem."""
    found: list[Stored] = []
    strangers: list[Stranger] = []
    for path in sorted(paths.knowledge_folder(paths.knowledge_root(root)).glob("*.md")):
        try:
            document = _parsed(files.read(path) or "", path.stem)
        except RalphError as error:
            what = error.message.removeprefix(f"{path}: ")
            strangers.append(Stranger(path, Problem(1, what, error.hint or "look at it", "error", "unreadable")))
            continue
        found += (Stored(entry.record, path, entry.line) for entry in document.entries)
        strangers += (Stranger(path, problem) for problem in document.problems if not document.entries)
    return Discovered(tuple(found), tuple(strangers))


# --- writing -----------------------------------------------------------------------------------


def add(
    root: Path,
    title: str,
    text: str,
    tags: Sequence[str],
    *,
    feature: str = "",
    by: str = "",
    via: str = "",
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Written:
    """Keep an entry; what is about the same is brought up to date instead. `by` and `via` say whose words they are."""
    feature = features.known(root, feature)
    text, private = entries.clean(text, tags, allow_secret=allow_secret, patterns=patterns)
    for words in filter(None, (title, feature)):
        private += entries.clean(words, allow_secret=allow_secret, patterns=patterns)[1]
    title, _ = privacy.strip_private(title)
    feature, _ = privacy.strip_private(feature)
    wanted = _wanted(title, text, entries.tidy_tags(tags), feature)
    origin = {key: value for key, value in (("by", by), (entries.VIA, via)) if value}
    return replace(_keep(root, replace(wanted, extra={**wanted.extra, **origin})), private_parts=private)


def learn(
    root: Path, sigils: Sequence[KnowledgeSigil], *, feature: str = "", run: str = "", patterns: Sequence[str] = ()
) -> list[Learned]:
    """Keep what an agent has learned, secrets masked; one that cannot be kept is told, and the others are kept."""
    return [_learned(root, sigil, feature, run, patterns) for sigil in sigils]


def _learned(root: Path, sigil: KnowledgeSigil, feature: str, run: str, patterns: Sequence[str]) -> Learned:
    title = ""
    try:
        clean = [privacy.redact(clean_text(words), patterns) for words in (sigil.title, sigil.text)]
        title, text = " ".join(clean[0].text.split()), clean[1].text
        check_text(title + text)
        tags = [tag for tag in map(clean_text, sigil.tags) if privacy.redact(tag, patterns).text == tag]
        done = _keep(root, _wanted(title, text.strip(), tags, feature, run))
    except RalphError as error:
        return Learned(title, "", Change.REFUSED, error.message)
    hidden = sum(len(each.findings) + each.private for each in clean) + len(sigil.tags) - len(tags)
    notes = [f"{hidden} secret or private parts left out"] if hidden else []
    notes += ["cut to about 500 words"] if done.shortened else []
    return Learned(title, done.slug, done.change, "; ".join(notes))


def _wanted(title: str, text: str, tags: Sequence[str], feature: str, run: str = "") -> Record:
    """An entry as it would stand in a file of its own; Refused when it lacks something."""
    lacks = [name for name, value in (("title", title.strip()), ("tag", clean_tags(tags))) if not value]
    if lacks:
        hint = "a title, at least one tag and a text are needed"
        raise Refused(f"a knowledge entry without a {' and a '.join(lacks)} would never be found", hint=hint)
    extra = {key: value for key, value in (("feature", " ".join(feature.split())), ("run", run)) if value}
    return normalise_entry(
        Record("", MemoryKind.CONTEXT, text, label=KNOWLEDGE_LABEL, title=title, tags=tuple(tags), extra=extra), ""
    )


class _Moved(Exception):
    """Somebody was faster, so that the entry belongs into another file now."""


def _keep(root: Path, wanted: Record) -> Written:
    """Write an entry to the file where it belongs."""
    text = shorten(wanted.text)
    shortened = text != wanted.text
    root = paths.knowledge_root(root)
    folder = paths.knowledge_folder(root)
    check_folders(folder / "entry.md", root)
    for _ in range(_TRIES):
        with suppress(_Moved):
            return replace(_write(root, replace(wanted, text=text)), shortened=shortened)
    raise Conflict(f"{folder}: keeps changing", hint="end the program that writes there, and run again")


def _write(root: Path, wanted: Record) -> Written:
    """Write an entry to where it belongs now; _Moved when that is somewhere else once the lock is ours."""
    path = _place(root, wanted)
    done: list[tuple[Change, str]] = []

    def edit(before: str) -> str:
        if _place(root, wanted) != path:
            raise _Moved
        after, change, replaced = _edited(root, parse_knowledge(before, path.stem), wanted)
        done[:] = [(change, replaced)]
        return after

    after = files.update(path, edit, root=root)
    entry = parse_knowledge(after, path.stem).entries[0]
    return Written(Stored(entry.record, path, entry.line), *done[0])


def _place(root: Path, wanted: Record) -> Path:
    """The file of the entry that is about the same: of that title, else with the most tags in common; or a new one."""
    folder = paths.knowledge_folder(root)
    there = discover(root)
    alike = [
        stored
        for stored in there.entries
        if same_entry(stored.record.title, stored.record.tags, wanted.title, wanted.tags)
    ]
    if alike:
        named = [each for each in alike if same_entry(each.record.title, (), wanted.title, ())]
        return (named or sorted(alike, key=lambda each: -len({*each.record.tags} & {*wanted.tags})))[0].path
    taken = {unicodedata.normalize("NFC", path.stem).lower(): "" for path in folder.glob("*.md")}
    return folder / f"{slug_for(wanted.title, taken)}.md"


def _edited(root: Path, document: KnowledgeDocument, wanted: Record) -> tuple[str, Change, str]:
    """A file with the entry in it, what that changes, and the id under which the old body is kept."""
    now = ids.timestamp()
    if not document.entries:
        return str(document.add(replace(wanted, created_at=now))), Change.NEW, ""
    old = document.entries[0].record
    tags = clean_tags((*old.tags, *wanted.tags))
    if (old.text.strip(), old.tags, old.status) == (wanted.text.strip(), tags, Status.ACCEPTED):
        return document.text, Change.UNCHANGED, ""
    extra = {**old.extra, **{key: wanted.extra[key] for key in _SIGNED if key in wanted.extra}}
    new = replace(old, text=wanted.text, tags=tags, status=Status.ACCEPTED, updated_at=now, extra=extra)
    after = str(document.replace(old.id, new))
    retired = (
        keep_body(root, old, now, str(wanted.extra.get("run", ""))) if old.text.strip() != wanted.text.strip() else ""
    )
    return after, Change.UPDATED, retired


def keep_body(root: Path, old: Record, now: str, run: str = "") -> str:
    """Keep a body that is about to be replaced; its id comes from its words, so that a second try adds nothing."""
    from ralph.app.index import keep_out_of_git  # noqa: PLC0415  (few entries replace another)

    if not old.text.strip():
        return ""
    log = replaced_bodies(root)
    name = ids.derived("ret", "\n".join((old.id, old.updated_at or old.created_at, old.text)))
    if f'"id":"{name}"' in (files.read(log) or ""):
        return name
    links = (*old.links, Link("superseded_by", old.id))
    record = replace(old, id=name, status=Status.RETIRED, valid_until=now, links=links, origin=Origin(run=run))
    files.target(log, paths.state_root(root))  # before anything is made there
    keep_out_of_git(root)
    files.append(log, encode_record(record), root=paths.state_root(root), durable=True)
    return name


def replaced_bodies(root: Path) -> Path:
    """The log of bodies that were replaced, in the main checkout."""
    return paths.log_folder(root) / "knowledge.jsonl"


def delete(root: Path, name: str) -> Stored:
    """Delete an entry's file; gives what stood in it."""
    stored = show(root, name)
    files.target(stored.path, paths.knowledge_root(root))
    with files.lock(stored.path):
        document = parse_knowledge(files.read(stored.path) or "", stored.path.stem)
        if not document.entries:  # somebody was faster
            raise not_found(name)
        files.delete(stored.path)
    return Stored(document.entries[0].record, stored.path, document.entries[0].line)


# --- reading -----------------------------------------------------------------------------------


def list_(root: Path, *, tags: Sequence[str] = (), feature: str = "") -> Discovered:
    """Every entry, or those with any of these tags and of a feature."""
    found = discover(root)
    wanted = set(clean_tags(tags))
    called = features.names(root, feature)
    kept = [
        stored
        for stored in found.entries
        if stored.record.status is not Status.RETIRED
        and (not wanted or wanted & {*stored.record.tags})
        and (not feature.strip() or _feature(stored.record) in called)
    ]
    return Discovered(tuple(kept), found.strangers)


def _feature(record: Record) -> str:
    return str(record.extra.get("feature", ""))


def show(root: Path, name: str) -> Stored:
    """One entry by its id, the name of its file, or its title."""
    found = discover(root)
    record = Titles(found.records).find(name.removesuffix(".md"))
    if record is None:
        raise not_found(name, found.records)
    return next(stored for stored in found.entries if stored.record.id == record.id)


def not_found(name: str, there: Sequence[Record] = ()) -> NotFound:
    """The error for an entry that is not there, with the nearest one named."""
    from difflib import get_close_matches  # noqa: PLC0415  (only on the way out)

    names = {known.casefold(): known for record in there for known in (record.title, record.id)}
    near = get_close_matches(name.casefold(), names, n=1)
    hint = f"did you mean {names[near[0]]!r}?" if near else "`ralph knowledge list` shows the entries"
    return NotFound(f"Knowledge not found: {name}", hint=hint)


def match(root: Path, words: str, *, feature: str = "", files: Sequence[str] = ()) -> list[Match]:
    """The entries that belong to a piece of work, and what they link to, the best first."""
    return _chosen(discover(root).offered, Work(words, features.names(root, feature), tuple(files)))


def section(
    root: Path,
    *,
    task: Task | None = None,
    words: str = "",
    feature: str = "",
    files: Sequence[str] = (),
    budget: int = BUDGET,
) -> str:
    """What is known for a task, as a section of a prompt; "" when nothing is."""
    told = (task.title, task.description, words) if task is not None else (words,)
    called = features.names(root, feature, (task.feature or "") if task is not None else "")
    chosen = _chosen(discover(root).offered, Work("\n".join(told), called, tuple(files)))
    return rendered([each.record for each in chosen], budget).text


def rendered(records: Sequence[Record], budget: int = BUDGET) -> Rendered:
    """Entries as an agent reads them, as many as fit into the budget (0: all)."""
    return choosing.render(records, budget)


def _chosen(records: Sequence[Record], work: Work) -> list[Match]:
    return choosing.expand(choosing.match(records, work), records)


def links(root: Path, name: str = "") -> list[Edge]:
    """Every `[[link]]` between entries; with a name, those from and to this one. Dangling ones have no target."""
    records = discover(root).records
    titles = Titles(records)
    only = show(root, name).record.id if name else ""
    edges = [
        Edge(record, link.target, titles.find(link.target))
        for record in records
        for link in record.links
        if link.relation == "links_to"
    ]
    return [each for each in edges if not only or only in (each.source.id, each.target.id if each.target else "")]
