"""Recall: what an agent is given unasked, for a prompt, before an action, or after a failure.

For a prompt the ranking's gate decides, and a file that the prompt names brings what was last done to it. Before an
action or after a failed command, only a fix or a decision about that file or command is injected. Nothing is injected
twice in a session; a record with stale citations ranks lower and says so. Hooks load this module.
"""

from __future__ import annotations

import os

from ralph.context import passages, render
from ralph.context.tokens import estimate
from ralph.lean import TYPE_CHECKING
from ralph.model import human_prompt, is_own_prompt
from ralph.search import rank as ranking
from ralph.search.question import coverage
from ralph.search.terms import TermMatcher
from ralph.store import hook_files, lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ralph.search.question import WeightedWord
    from ralph.search.rank import RankedRow
    from ralph.store.lookup import Filter, RecordRow

ACTION_CHARACTERS = 600  # characters that may be injected before or after an action
MEMORY_SHARE = 0.15  # the default part of a context window that memories may fill
HOW = "`ralph search` with words of your task"
_FRAME = estimate(
    f"{render.framed(render.INTRO, '')}{render.notes([render.shown_note(1, 9, HOW)])}"
)
# The quick recipe beside other tasks: their records on the same subject must not crowd out all else.
_CROWDED = ranking.Recipe(
    candidates=500, spreading=30, judged=15, common=ranking.QUICK.common, thorough=False
)
_RANKED = 20
PER_SESSION = 2  # records of one earlier session
MOST = 5  # records for a prompt
_NO_LIMIT = 2_000  # tokens for which passages are made where there is no budget
_FOR_ACTION = 2
_VERIFIED = 2  # times the injected records are checked for stale citations: behind these, nothing can move up
# files of a prompt that are looked up, and the longest ending
_FILES = 8
_ENDING = 5
_PROMPT = "prompt"  # the title of earlier prompts, which are no answers
_JOURNAL = 2  # `key % 3` of the journal
_OUTSIDE = ("enclosing", "personal")  # scopes of memories that are not the project's own
_TIERS = len(_OUTSIDE) + len(lookup.TABLES)
_CHECKS = ("test_pass", "build_success", "lint_clean", "type_check", "custom", "marker")
"""Beginnings of the lines that report a criterion (`model.record.CriterionKind`), above its output."""
_COMMAND = 400
_ERROR = 600
_QUESTION = 2_000
# of a tool's output only this much is injected
_ERROR_LINE = 160
_EXIT = ("exit code", "command failed with exit")
_PATH_TITLES = (
    "Read ",
    "Grep",
    "Glob",
    "LS",
    "NotebookRead",
    "WebFetch",
    "WebSearch",
    "ToolSearch",
    "TodoWrite",
    "read_",
    "search_file",
    "glob",
    "list_directory",
    "google_web",
    "web_fetch",
)
"""Beginnings of titles of observations that only name a path."""
CITATIONS_FILE = "citations"  # the name of the cache of verified citations
CITATIONS_HEAD = b"ralph citations 2\n"  # its first line; a file without it is ignored
COMPACTED = "compacted "  # in the list of what a session has seen: what it said before this time, it no longer knows
CITATIONS_BYTES = 4_000_000  # bytes of it that are read
# the factor of a record's score when something that it cites is gone, or has moved
GONE_SHARE = 0.5
MOVED_SHARE = 0.8

_CITATION_LINES = 40
_LONGEST_CITATION = 120


class RecallOptions:
    """The settings that count, and what the session has seen already."""

    enabled = True
    types: Sequence[str] = ()
    tags: Sequence[str] = ()
    since = ""
    task = ""
    stale: CitationCache | None = None
    accepted_files: Sequence[
        str
    ] = ()  # hashes of memories that look like prompt injection and were accepted
    budget = 2_000
    characters = render.MOST_CHARACTERS

    def __init__(self, today: str, session: str = "", seen: Collection[str] = ()) -> None:
        self.today = today
        self.session = session
        self.seen = seen
        self.compacted = max(
            (name[len(COMPACTED) :] for name in seen if name.startswith(COMPACTED)), default=""
        )


class Recalled:
    """The text to inject, its records with their tokens and layer, and the ranking behind it."""

    judged: Sequence[RankedRow] = ()
    words: Sequence[WeightedWord] = ()

    def __init__(
        self, text: str = "", records: Sequence[tuple[str, int]] = (), layer: int = 0
    ) -> None:
        self.text = text
        self.records = records
        self.layer = layer


NOTHING = Recalled()


def within_window(window: int, budget: int, share: float = MEMORY_SHARE) -> int:
    """Return the tokens for memories: the smaller of their part of the window and the budget (0: no limit)."""
    part = max(1, int(window * share)) if window > 0 else 0
    return min(part, budget) if part and budget else part or budget


def human_question(prompt: str) -> str:
    """Return what a person asks, without what a host put before it; "" for commands and machine-made prompts."""
    prompt = human_prompt(prompt)
    command = prompt.startswith("/") and prompt[1:].replace("-", "").replace(":", "").isalnum()
    return (
        "" if command or is_own_prompt(prompt) else prompt
    )  # our own fetch what they need themselves


def recall_for_prompt(
    connection: sqlite3.Connection, prompt: str, options: RecallOptions
) -> Recalled:
    """What relates to a prompt, at the most detail that fits."""
    keep = prompt_filter(connection, options)
    crowding = lookup.hidden_share(connection, options.task) > 0.5
    ranked = ranking.rank(
        connection,
        prompt,
        today=options.today,
        keep=keep,
        limit=_RANKED,
        hurried=not (options.types or options.tags or options.since),
        recipe=_CROWDED if crowding else ranking.QUICK,
        crowded=_CROWDED if options.task and not crowding else None,
    )
    own = [] if ranked.weak else [each for each in ranked.best if not passages.is_speech(each.row)]
    quoted: list[passages.Passage] = []
    if passages.SHARE * (options.budget or _NO_LIMIT) >= passages.LEAST:
        quoted = passages.gather(
            connection, ranked.best, ranked.words, keep, lambda row: _may_quote(row, options)
        )
    if not (quoted or ranked.weak):  # where nothing gathers, single answers are enough
        own = [each for each in ranked.best if each.row.title != _PROMPT]
    if ranked.best and all(
        passages.is_speech(each.row) for each in ranked.best
    ):  # many turns alike crowd out the rest
        alone = ranking.rank(
            connection,
            prompt,
            today=options.today,
            keep=keep[:1],
            limit=_RANKED,
            hurried=True,
            recipe=ranking.QUICK,
            words=ranked.words,
        )
        own = [*(() if alone.weak else alone.best), *own]
    own = [
        each
        for each in own
        if tier(each.row) != _TIERS - 2 or passages.answers([each], ranked.words)
    ]
    best = [each for each in fitting(own) if _has_own_words(each, ranked.words)][:MOST]
    keys = {row.row.key for row in best}
    by_file = [
        row for row in _on_files(connection, prompt[:_QUESTION], keep) if row.row.key not in keys
    ]
    chosen = _lower_stale(_choose([*best, *by_file], options)[: _VERIFIED * MOST], options.stale)[
        :MOST
    ]
    if not (chosen or quoted):
        return NOTHING
    recalled = render_rows([ranked_row.row for ranked_row in chosen], options, quoted)
    recalled.judged = [*chosen, *(each for passage in quoted for each in passage.judged())]
    recalled.words = ranked.words
    return recalled


def _may_quote(row: RecordRow, options: RecallOptions) -> bool:
    """Whether a turn may be part of a passage: new to the session, no command, and no prompt injection."""
    is_machine = row.title == _PROMPT and human_question(row.text) != row.text.strip()
    return (
        row.id not in options.seen
        and not is_machine
        and not is_withheld(row, options)
        and bool(row.text.strip())
    )


def render_rows(
    rows: Sequence[RecordRow], options: RecallOptions, quoted: Sequence[passages.Passage] = ()
) -> Recalled:
    """Render records at the most detail that fits, and passages of earlier sessions below them."""
    for layer in (3, 2, 1):
        recalled = _render(rows, layer, options, options.characters)
        if layer == 1 or len(recalled.records) == len(rows):
            break
    if not quoted:
        return recalled
    blocks, costs = _entries(rows, layer, options)
    blocks = blocks[: len(recalled.records)]
    costs = costs[: len(recalled.records)]
    budget = options.budget or _NO_LIMIT
    room = int(min(passages.SHARE * budget, budget - _FRAME - sum(cost + 1 for _, cost in costs)))
    parts = passages.quote_all(quoted, room, options.session)
    text, kept = render.within(
        [*blocks, *(block for block, _ in parts)], len(blocks) + len(parts), HOW, options.characters
    )
    groups = [[cost] for cost in costs] + [turns for _, turns in parts]
    return Recalled(text, [record for at in kept for record in groups[at]], layer)


def before_action(
    connection: sqlite3.Connection, files: Sequence[str], command: str, options: RecallOptions
) -> Recalled:
    """Return lessons about the files that are about to be touched, or a command that is about to run."""
    from ralph.context import lessons  # not for prompts

    keep = _lesson_filter(connection, options)
    if files:
        return _for_action(lessons.on_files(connection, files, keep), options)
    return _for_action(lessons.on_command(connection, command[:_COMMAND], keep), options)


def after_failure(
    connection: sqlite3.Connection,
    files: Sequence[str],
    command: str,
    error: str,
    options: RecallOptions,
) -> Recalled:
    """Return lessons about a failure: those that fit the error, then the file or the command."""
    from ralph.context import lessons  # not for prompts

    keep = _lesson_filter(connection, options)
    rows = (
        *lessons.on_error(connection, error[:_ERROR], keep),
        *lessons.on_files(connection, files, keep),
        *lessons.on_command(connection, command[:_COMMAND], keep, least=2),
    )
    return _for_action(list({row.key: row for row in reversed(rows)}.values())[::-1], options)


def prompt_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    """Which records may answer a prompt."""
    return (
        _memory_filter(connection, options, options.types),
        lookup.observations(
            not_of=options.session,
            after=options.compacted,
            not_called=_PATH_TITLES,
            task=options.task,
        ),
        lookup.journal(task=options.task),
    )


def _lesson_filter(connection: sqlite3.Connection, options: RecallOptions) -> Filter:
    kinds = [kind for kind in ("fix", "decision") if not options.types or kind in options.types]
    return (_memory_filter(connection, options, kinds),) if kinds else ()


def _memory_filter(
    connection: sqlite3.Connection, options: RecallOptions, kinds: Sequence[str]
) -> tuple[int, str, Sequence[object]]:
    return lookup.memories(
        kinds=kinds,
        tags=options.tags,
        since=options.since,
        knowledge_only=not options.enabled,
        task=options.task,
        valid_at=options.today,
        but=lookup.superseded(connection),
    )


def _on_files(connection: sqlite3.Connection, prompt: str, keep: Filter) -> list[RankedRow]:
    words = dict.fromkeys(word.strip("`'\"()[]{}<>*,;:!?.@") for word in prompt.split())
    endings = {word: word.rpartition(".")[2] for word in words if "." in word[1:]}
    endings = {word: end for word, end in endings.items() if end.isalnum() and end[0].isalpha()}
    names = [word for word, end in endings.items() if len(end) <= _ENDING][:_FILES]
    if not names:
        return []
    from ralph.context import lessons  # few prompts name files

    rows = lessons.on_files(connection, names, keep)
    touched = [name for name in names if any(lessons.names_file(row.files, name) for row in rows)]
    for row in rows:
        _without_output(row)
    rows = [
        row
        for row in rows
        if any(lessons.names_file(f"{row.files} {row.title} {row.text}", name) for name in touched)
    ]
    rows.sort(key=lambda row: (row.created_at, row.key), reverse=True)
    judged = [ranking.RankedRow(row) for row in rows]
    for ranked in judged:
        ranked.matched = dict.fromkeys(touched, 1.0)
    return judged


def _has_own_words(ranked: RankedRow, words: Sequence[WeightedWord]) -> bool:
    """Take what a tool printed out of a record's text; False when the rest does not answer the question.

    Of a run that failed neither its checks' output nor the files that it touched make it an answer.
    """
    row = ranked.row
    if not is_failed_run(row):
        return _without_output(row, words)
    _without_output(row, words)
    own = TermMatcher(f"{row.title} {row.tags} {row.text}")
    ranked.matched = {word.word: share for word in words if (share := word.match(own))}
    ranked.cover, ranked.evidence = coverage(words, ranked.matched)
    ranked.subject = False
    return ranking.is_answer(ranked)


def is_failed_run(row: RecordRow) -> bool:
    """Whether a record of the journal is about work that did not succeed."""
    return row.key % len(lookup.TABLES) == _JOURNAL and row.kind != "done"


def _without_output(row: RecordRow, words: Sequence[WeightedWord] | None = None) -> bool:
    """Take what a tool printed out of a record's text; False when none of the words is in the rest.

    The line that names an error stays where the same error comes up again: it has two of the words. Without words,
    the record was found by its file.
    """
    if is_failed_run(row):  # what was written, and the line of the checks' output with an error
        lines = row.text.split("\n")
        first = next(
            (number for number, line in enumerate(lines) if line.startswith(_CHECKS)), len(lines)
        )
        row.own = "\n".join(lines[:first]).rstrip()
        row.error = next(
            (line.strip() for line in reversed(lines[first:]) if "error" in line.lower()), ""
        )
    if row.own == row.text:
        return True
    error = "" if row.error.lower().startswith(_EXIT) else row.error[:_ERROR_LINE]
    matcher = TermMatcher(error)
    is_same = words is None or sum(1 for word in words if word.match(matcher)) > 1
    row.text = f"{row.own}\nerror: {error}" if error and is_same else row.own
    rest = TermMatcher(f"{row.title} {row.tags} {row.files} {row.text}")
    return words is None or any(word.match(rest) for word in words)


# --- choosing and rendering ----------------------------------------------------------------------


def fitting(
    best: Sequence[RankedRow], recipe: ranking.Recipe = ranking.STANDARD
) -> list[RankedRow]:
    """What passes the gate, by tier: a memory comes before a log with more of the words."""
    passed: list[RankedRow] = []
    for number in range(_TIERS):
        rows = [ranked for ranked in best if tier(ranked.row) == number]
        if rows and ranking.is_answer(rows[0]):
            passed += ranking.gate(rows, recipe)
    return passed


def tier(row: RecordRow) -> int:
    """Return the rank of a record's place: the project's memory, enclosing projects', personal; then the logs."""
    family = row.key % len(lookup.TABLES)
    return (
        family + len(_OUTSIDE)
        if family
        else _OUTSIDE.index(row.scope) + 1
        if row.scope in _OUTSIDE
        else 0
    )


def _choose(judged: Sequence[RankedRow], options: RecallOptions) -> list[RankedRow]:
    """Those that the session has not seen, without duplicates, few of one session, and no prompt injection."""
    chosen: list[RankedRow] = []
    sessions: dict[str, int] = {}
    contents: set[str] = set()
    for ranked in judged:
        row = ranked.row
        if row.id in options.seen or row.title == _PROMPT or is_withheld(row, options):
            continue
        # a page of knowledge, its insight and its pattern have the same letters
        content = "".join(
            filter(str.isalnum, f"{row.title}{row.text}".lower().removeprefix("gotcha"))
        )
        if content in contents:
            continue
        contents.add(content)
        count = sessions[row.session] = sessions.get(row.session, 0) + 1
        if not row.session or count <= most_of_session(row):
            chosen.append(ranked)
    return chosen


def most_of_session(row: RecordRow) -> int:
    """Return how many records of a session are injected; a run and its journal are one."""
    return 1 if row.key % len(lookup.TABLES) == _JOURNAL else PER_SESSION


def is_withheld(row: RecordRow, options: RecallOptions) -> bool:
    """Whether a record looks like prompt injection, and no person has said or accepted it."""
    if not row.is_order or row.key % len(lookup.TABLES):
        return bool(row.is_order)
    key = render.text_key(row.title, row.text, row.tags).encode()
    return not any(
        key in (hook_files.read_file(file) or b"").split() for file in options.accepted_files
    )


def _for_action(rows: Sequence[RecordRow], options: RecallOptions) -> Recalled:
    new = [row for row in rows if row.id not in options.seen and not is_withheld(row, options)]
    new = sorted(new, key=tier)[: _VERIFIED * _FOR_ACTION]
    new = sorted(new, key=lambda row: -_share(row, options.stale))[:_FOR_ACTION]
    for layer in (3, 1):
        recalled = _render(new, layer, options, min(ACTION_CHARACTERS, options.characters))
        if recalled.records and (layer == 1 or len(recalled.records) == len(new)):
            return recalled
    return NOTHING


def _lower_stale(judged: list[RankedRow], cache: CitationCache | None) -> list[RankedRow]:
    if cache is None:
        return judged
    keyed: list[tuple[int, float, float]] = []
    for ranked in judged:
        share = _share(ranked.row, cache)
        place = tier(ranked.row) if ranked.score else _TIERS
        ranked.score *= share
        keyed.append((place, -ranked.score, -share))
    return [judged[at] for at in sorted(range(len(judged)), key=lambda at: keyed[at])]


def citation_note(row: RecordRow, cache: CitationCache | None) -> str:
    """The warning about a record's stale citations; "" for none, and for logs, which are not verified."""
    if cache is None or row.key % len(lookup.TABLES):
        return ""
    return cache.note(row.id, f"{row.title}\n{row.text}", row.files)


def _share(row: RecordRow, cache: CitationCache | None) -> float:
    if cache is None or row.key % len(lookup.TABLES):
        return 1.0
    return cache.share(row.id, f"{row.title}\n{row.text}", row.files)


def _entries(
    rows: Sequence[RecordRow], layer: int, options: RecallOptions
) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the records that fit the budget, rendered, and what each of them costs."""
    blocks: list[str] = []
    spent = _FRAME
    for row in rows:
        kind = f"{row.scope} {row.kind}" if tier(row) in (1, 2) else row.kind
        block = render.entry(
            layer, row.id, kind, row.title, row.text, row.created_at, row.tags, row.files, row.by
        )
        if note := citation_note(row, options.stale):
            block += f"{' ' if layer == 1 else chr(10) + '  '}({' '.join(note.split())})"
        spent += estimate(block) + 1
        if options.budget and spent > options.budget:
            break
        blocks.append(block)
    return blocks, [(row.id, estimate(block)) for row, block in zip(rows, blocks, strict=False)]


def _render(
    rows: Sequence[RecordRow], layer: int, options: RecallOptions, characters: int
) -> Recalled:
    blocks, costs = _entries(rows, layer, options)
    text, kept = render.within(blocks, len(rows), HOW, characters)
    return Recalled(text, [costs[at] for at in kept], layer)


# --- verified citations --------------------------------------------------------------------------


def citation_line(record_id: str, kind: str, verdict: str, what: str, place: str) -> str:
    """Return a line of the cache; "" for what does not fit on one."""
    parts = (record_id, kind, verdict, what, place)
    return "\t".join(parts) + "\n" if record_id and all(map(str.isprintable, parts)) else ""


def citation_page(lines: Iterable[str]) -> str:
    """Return the cache with these lines, each once; those of one record are together."""
    return CITATIONS_HEAD.decode() + "".join(sorted({*lines}))


class CitationCache:
    """The verified citations of a project's records, one line each.

    A line counts as long as the record still cites that, and the existence of a file is checked again, with one
    `stat` for each file of the few records that are injected.
    """

    __slots__ = ("_content", "_root")

    def __init__(self, root: str, content: bytes) -> None:
        self._root = root
        self._content = (
            content[: content.rfind(b"\n") + 1]
            if content.startswith(CITATIONS_HEAD)
            else CITATIONS_HEAD
        )

    def note(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> str:
        """Return the worst stale citation of a record, in a few words; "" when there is none."""
        verdict, kind, what, place = self._worst(record_id, text, files)
        if verdict == "gone":
            return f"cited {kind} is gone: {what[:_LONGEST_CITATION]}"
        if verdict == "moved":
            return f"cited {kind} {what[:_LONGEST_CITATION]} is now in {place[:_LONGEST_CITATION]}"
        return ""

    def share(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> float:
        """Return the factor of a record's score."""
        verdict = self._worst(record_id, text, files)[0]
        return GONE_SHARE if verdict == "gone" else MOVED_SHARE if verdict == "moved" else 1.0

    def _worst(
        self, record_id: str, text: str, files: str | Iterable[str]
    ) -> tuple[str, str, str, str]:
        worst = ("", "", "", "")
        listed = files if isinstance(files, str) else "\n".join(files)
        for kind, verdict, what, place in self._lines(record_id):
            last = what if kind == "file" else what.replace(".", " ").rpartition(" ")[2]
            if last not in text and what not in listed and kind != "commit":
                continue  # the record was rewritten since
            if kind == "file" and verdict in ("gone", "moved") and self._exists(what):
                continue
            if kind == "file" and place and not self._exists(place):
                verdict = "gone"
            if verdict == "gone":
                return verdict, kind, what, place
            if verdict == "moved":
                worst = verdict, kind, what, place
        return worst

    def _lines(self, record_id: str) -> Iterator[list[str]]:
        start = b"\n%s\t" % record_id.encode("utf-8", "replace")
        at = self._content.find(start)
        for _ in range(_CITATION_LINES):
            end = self._content.find(b"\n", at + 1)
            if at < 0 or end < 0 or not self._content.startswith(start, at):
                return
            parts = self._content[at + len(start) : end].decode("utf-8", "replace").split("\t")
            if len(parts) == 4:
                yield parts
            at = end

    def _exists(self, path: str) -> bool:
        return os.path.exists(f"{self._root}/{path}")  # noqa: PTH110 - hooks load this
