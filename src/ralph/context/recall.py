"""What an agent is told unasked: what relates to a prompt, and what is known at the place of an action.

For a prompt the ranking's own gate decides (near the best, or on a subject that the prompt names), and a file
that the prompt names brings what was last done to it, however small the store is; at the detail that the budget
allows: everything, else beginnings, else lines. Before a tool acts on a file, or after
a command failed, only a `fix` or a `decision` that names that file or fits that command is told, in a few
hundred characters. Nothing is told twice in a session, and nothing when nothing relates.

Hooks load this module, and `ralph context` shows what it would say; so it imports little, and takes what is
configured as plain values. `tests/context/test_recall.py` proves it.
"""

from ralph.context import lessons, render
from ralph.context.tokens import estimate
from ralph.search import rank as ranking
from ralph.search import terms
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from ralph.search.asked import Asked
    from ralph.search.rank import Judged
    from ralph.store.lookup import Filter, Row

AT_PLACE = 600
"""Characters that may be said at the place of an action."""
MEMORY_SHARE = 0.15
"""The part of a context window that memories may fill; `shares.SHARES` has all parts."""
HOW = "`ralph search` with words of your task"

_JOURNAL = 2
_LESSONS = ("fix", "decision")
_LOOKED_AT = 12
_PER_SESSION = 2
_MOST = 5
_TOLD_AT_PLACE = 2
_NAMED, _ENDING = 8, 5
"""So many files of a prompt are looked at, and so long may be what follows the point."""
_PROMPT = "prompt"
"""What somebody asked before is no answer."""
_COMMAND, _ERROR, _ASKED = 400, 600, 2_000
_SAYING_LITTLE = ("Read ", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch", "TodoWrite",
                  "read_", "search_file", "glob", "list_directory", "google_web", "web_fetch")  # fmt: skip
"""How the titles of observations begin that only name a place."""
_COMMON_NAMES = frozenset(
    "index main mod lib app init utils util helpers types type readme package config setup test tests conftest "
    "settings models views routes schema constants common base core".split()
)
"""Files of these names stand in many folders: one of them is meant only together with its folder."""


class Wanted:
    """What may be told: the settings that count, and what the session knows already."""

    __slots__ = ("budget", "characters", "enabled", "seen", "session", "since", "tags", "today", "types")

    def __init__(self, today: str, session: str = "", seen: "Collection[str]" = ()) -> None:
        self.today = today
        self.session = session
        self.seen = seen
        self.enabled = True
        self.types: Sequence[str] = ()
        self.tags: Sequence[str] = ()
        self.since = ""
        self.budget = 2_000
        self.characters = render.MOST_CHARACTERS


class Told:
    """What is said, and which records that are, with their tokens and layer; why each, for those who ask."""

    __slots__ = ("judged", "layer", "records", "text", "words")

    def __init__(
        self, text: str = "", records: "Sequence[tuple[str, int]]" = (), layer: int = 0, judged: "Sequence[Judged]" = ()
    ) -> None:
        self.text = text
        self.records = records
        self.layer = layer
        self.judged = judged
        self.words: Sequence[Asked] = ()


NOTHING = Told()


def within_window(window: int, budget: int) -> int:
    """The tokens for memories: the smaller of their part of the window and the configured budget (0: no limit)."""
    part = max(1, int(window * MEMORY_SHARE)) if window > 0 else 0
    return min(part, budget) if part and budget else part or budget


def related(connection: "sqlite3.Connection", prompt: str, wanted: Wanted) -> Told:
    """What relates to a prompt."""
    ranked = ranking.rank(connection, prompt, today=wanted.today, keep=_all(wanted), limit=_LOOKED_AT)
    fitting = _fitting(ranked.best)
    known = {each.row.key for each in fitting}
    named = [each for each in _on_files(connection, prompt[:_ASKED], wanted) if each.row.key not in known]
    chosen = _chosen([*fitting, *named], wanted)[:_MOST]
    if not chosen:
        return NOTHING
    rows = [each.row for each in chosen]
    for layer in (3, 2, 1):
        told = _rendered(rows, layer, wanted.budget, wanted.characters, len(rows))
        if layer == 1 or len(told.records) == len(rows):
            told.judged, told.words = chosen, ranked.words
            return told
    return NOTHING


def before_action(connection: "sqlite3.Connection", files: "Sequence[str]", command: str, wanted: Wanted) -> Told:
    """What is known about the files that are about to be touched, or about a command that is about to run."""
    if files:
        return _at_place(lessons.on_files(connection, files, _lessons(wanted)), wanted)
    return _at_place(lessons.on_command(connection, command[:_COMMAND], _lessons(wanted)), wanted)


def after_failure(
    connection: "sqlite3.Connection", files: "Sequence[str]", command: str, error: str, wanted: Wanted
) -> Told:
    """What resolved such a failure before: what fits the error, then what fits the file or the command."""
    keep = _lessons(wanted)
    found = {row.key: row for row in lessons.on_error(connection, error[:_ERROR], keep)}
    for row in (*lessons.on_files(connection, files, keep), *lessons.on_command(connection, command[:_COMMAND], keep)):
        found.setdefault(row.key, row)
    return _at_place(list(found.values()), wanted)


# --- what is looked at -------------------------------------------------------------------------


def _all(wanted: Wanted) -> "Filter":
    """Everything but what this session did itself, and what only names a place."""
    return (
        _memories(wanted, wanted.types),
        lookup.observations(not_of=wanted.session, not_called=_SAYING_LITTLE),
        (_JOURNAL, "", ()),
    )


def _lessons(wanted: Wanted) -> "Filter":
    kinds = [kind for kind in _LESSONS if not wanted.types or kind in wanted.types]
    return (_memories(wanted, kinds),) if kinds else ()


def _memories(wanted: Wanted, kinds: "Sequence[str]") -> "tuple[int, str, Sequence[object]]":
    return lookup.memories(kinds=kinds, tags=wanted.tags, since=wanted.since, knowledge_only=not wanted.enabled)


def _on_files(connection: "sqlite3.Connection", prompt: str, wanted: Wanted) -> "list[Judged]":
    """What was said of the files that a prompt names, the newest first: files that a session here has touched."""
    phrases = {name: phrase for name in _file_names(prompt) if (phrase := _phrase(name))}
    if not phrases:
        return []
    match = " OR ".join(phrases.values())
    found = lookup.matching(connection, match, ranking.STANDARD.fields, _LOOKED_AT, _all(wanted))
    rows = list(lookup.judged(connection, [key for key, _ in found]).values())
    touched = [name for name in phrases if any(_names(row.files, name) for row in rows)]
    held = [row for row in rows if any(_names(f"{row.files} {row.title} {row.text}", name) for name in touched)]
    judged = [ranking.Judged(row) for row in sorted(held, key=lambda row: (row.created_at, row.key), reverse=True)]
    for each in judged:
        each.matched = dict.fromkeys(touched, 1.0)
    return judged


def _file_names(prompt: str) -> list[str]:
    """The words of a prompt that may be files: they end with a point and a short ending."""
    words = (word.strip("`'\"()[]{}<>*,;:!?.@") for word in prompt.split())
    found = [word for word in words if 0 < len(word.rpartition(".")[2]) <= _ENDING]
    return list(dict.fromkeys(word for word in found if word.rpartition(".")[0] and word[-1].isalnum()))[:_NAMED]


def _names(text: str, name: str) -> bool:
    """Whether a text has this very name, not as a part of a longer one."""
    text, name = text.lower(), name.lower().removeprefix("./")
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in ("_", "-")) and not (after.isalnum() or after in ("_", "-")):
            return True
        at = text.find(name, at + 1)
    return False


def _phrase(path: str) -> str:
    """A file's name as it stands in the index: its terms side by side; a common name together with its folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    if not parts:
        return ""
    stem = parts[-1].strip("._").partition(".")[0].strip("_").lower()
    used = parts[-2:] if stem in _COMMON_NAMES else parts[-1:]
    if stem in _COMMON_NAMES and len(used) < 2:
        return ""
    found = [term for part in used for term in _single(part)]
    return f'"{" ".join(found)}"' if len(found) > 1 else ""


def _single(part: str) -> list[str]:
    """The terms of a name without the one for all of it at once."""
    found = terms.word_terms(part.strip("._-"))
    joined = "".join(char for char in terms.fold(part) if char.isalnum())
    return [term for term in found if term != joined or len(found) == 1]


# --- what is said ------------------------------------------------------------------------------


def _fitting(best: "Sequence[Judged]") -> "list[Judged]":
    """What fits, by family: a memory is worth more than a log that happens to have more of the words."""
    found: list[Judged] = []
    for place in range(len(lookup.TABLES)):
        own = [each for each in best if each.row.key % len(lookup.TABLES) == place]
        if own and ranking.answers(own[0]):
            found += ranking.gate(own)
    return found[:_MOST]


def _chosen(judged: "Sequence[Judged]", wanted: Wanted) -> "list[Judged]":
    """Those that the session does not know, few of one earlier session, and none that gives orders."""
    chosen: list[Judged] = []
    sessions: dict[str, int] = {}
    for each in judged:
        row = each.row
        if row.id in wanted.seen or row.title == _PROMPT or _withheld(row):
            continue
        count = sessions[row.session] = sessions.get(row.session, 0) + 1
        if not row.session or count <= _PER_SESSION:
            chosen.append(each)
    return chosen


def _withheld(row: "Row") -> bool:
    return render.withheld(row.by, f"{row.title}\n{row.text}\n{row.tags}")


def _at_place(rows: "Sequence[Row]", wanted: Wanted) -> Told:
    """A few words on the best of some records."""
    new = [row for row in rows if row.id not in wanted.seen and not _withheld(row)][:_TOLD_AT_PLACE]
    for layer in (3, 1):
        told = _rendered(new, layer, wanted.budget, min(AT_PLACE, wanted.characters), len(new))
        if told.records and (layer == 1 or len(told.records) == len(new)):
            return told
    return NOTHING


def _rendered(rows: "Sequence[Row]", layer: int, budget: int, characters: int, total: int) -> Told:
    """As many records as fit, at one layer."""
    blocks: list[str] = []
    spent = estimate(render.INTRO)
    for row in rows:
        block = render.entry(layer, row.id, row.kind, row.title, row.text, row.created_at, row.tags, row.files)
        spent += estimate(block)
        if budget and spent > budget:
            break
        blocks.append(block)
    text, kept = render.within(blocks, total, HOW, characters)
    return Told(text, [(rows[at].id, estimate(blocks[at])) for at in kept], layer)
