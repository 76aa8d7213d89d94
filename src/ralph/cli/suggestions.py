"""Values that a shell completes: ids, tags, types, config keys and names of agents.

The name of an option or an argument decides how it is completed (`_BY_NAME`); one whose values
differ has the type `Text`. Suggestions are read from files, or from the index if there is one;
nothing is written, and neither an index nor the machine's id is created. Values come from files
that anybody may have written, so a value that a shell would interpret is left out, and descriptions
are printed without control characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ralph.cli.invocation import Invocation
from ralph.cli.output import SHORT_SESSION_ID, cut, one_line
from ralph.core import paths
from ralph.lean import discovery

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ralph.core.record import Record
    from ralph.storage.library import Stored

    ShellComplete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_PLAIN_VALUE = r"\w[\w@%+:,./=-]*"
"""A value that no shell quotes, expands or runs."""

_DESCRIPTION_COLUMNS = 60
_MAX_SESSIONS = 50
_MAX_RUNS = 50


class Suggestion(NamedTuple):
    """A value, and a description for shells that show one."""

    value: str
    description: str = ""


Finder = Callable[[Path], Iterable[Suggestion]]


# --- from a list to completions -------------------------------------------------------------------


def complete_with(find: Finder, *, is_list: bool = False) -> ShellComplete:
    """Return a function that completes values which are found in the project's folder.

    With `is_list`, the values are separated by commas, and the last one is completed.
    """

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if not discovery.has_machine_id():  # Ralph has not run yet, and looking would create it
            return []
        call = ctx.find_object(Invocation) or Invocation()
        return _matching(find(call.folder), incomplete, is_list=is_list)

    return complete


def complete_fixed(
    list_values: Callable[[], Iterable[Suggestion]], *, is_list: bool = False
) -> ShellComplete:
    """Return a function that completes values which do not depend on the project."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return _matching(list_values(), incomplete, is_list=is_list)

    return complete


def _matching(
    suggestions: Iterable[Suggestion], incomplete: str, *, is_list: bool
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    begin = ""
    if is_list:
        before, comma, incomplete = incomplete.rpartition(",")
        begin = before + comma
    items = []
    for value, description in suggestions:
        if value.startswith(incomplete) and re.fullmatch(_PLAIN_VALUE, value):
            help_text = cut(one_line(description), _DESCRIPTION_COLUMNS)
            items.append(CompletionItem(f"{begin}{value}", help=help_text or None))
    return items


# --- memories -------------------------------------------------------------------------------------


def _find_memories(root: Path) -> Iterator[Suggestion]:
    """Yield the short ids of all memories, archived ones included, in file order."""
    from ralph.core import ids

    records = [stored.record for stored in _stored_memories(root)]
    short = ids.short_ids(record.id for record in records)
    for record in records:
        yield Suggestion(short.get(record.id, record.id), record.title or record.text)


def _stored_memories(root: Path) -> Iterator[Stored]:
    from ralph.storage.library import NAMES, Library

    library = Library(root)
    for name in NAMES:
        yield from library.read(library.collection(name))


def _find_tags(root: Path) -> Iterator[Suggestion]:
    """Yield the tags of all memories, the most frequent ones first."""
    counts = Counter(tag for stored in _stored_memories(root) for tag in stored.record.tags)
    for tag, count in counts.most_common():
        yield Suggestion(tag, f"{count} memories" if count > 1 else "1 memory")


def _find_proposals(root: Path) -> Iterator[Suggestion]:
    """Yield what waits in `ralph review`: proposals, held memories, then all other memories."""
    from ralph.core import ids
    from ralph.core.record import Status
    from ralph.learning import insights
    from ralph.memory import held_memories

    proposed = insights.list_(root)
    short = ids.short_ids(insight.record.id for insight in proposed)
    for insight in proposed:
        record: Record = insight.record
        if record.status is Status.PROPOSED:
            yield Suggestion(short.get(record.id, record.id), record.text)
    for held in held_memories.list_held(root):
        yield Suggestion(held.id, held.text)
    yield from _find_memories(root)


# --- sessions and work ----------------------------------------------------------------------------


def _find_sessions(root: Path) -> Iterator[Suggestion]:
    """Yield the newest sessions, shortened as in tables. Without an index, only their ids."""
    prompts = _session_prompts(root)
    beginnings = Counter(session[:SHORT_SESSION_ID] for session in prompts)
    for session, prompt in prompts.items():
        beginning = session[:SHORT_SESSION_ID]
        yield Suggestion(beginning if beginnings[beginning] == 1 else session, prompt)


def _session_prompts(root: Path) -> dict[str, str]:
    """Return the newest sessions and their first prompts, newest first."""
    from ralph.recall import sessions as recorded
    from ralph.storage import db

    index = paths.index_file(root)
    if not index.is_file():
        logs = _newest_first(paths.log_files(paths.sessions_folder(root)))
        return {path.name.partition(".")[0]: "" for path in logs[:_MAX_SESSIONS]}
    # An index that nobody has open is read without creating a file next to it.
    connection = db.connect_foreign(index)
    try:
        newest = recorded.newest(connection, _MAX_SESSIONS)
        return {session.id: session.prompt for session in newest}
    finally:
        connection.close()


def _find_runs(root: Path) -> Iterator[Suggestion]:
    """Yield the newest runs with their goals."""
    from ralph.loop import runs

    for path in _newest_first(paths.runs_folder(root).glob("run-*.jsonl"))[:_MAX_RUNS]:
        yield Suggestion(path.stem, runs.read(root, path.stem).goal)


def _newest_first(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _find_tasks(root: Path) -> Iterator[Suggestion]:
    from ralph.storage import task_files

    for task in task_files.read_board(root).tasks:
        yield Suggestion(task.id, f"{task.title} ({task.status})")


def _find_features(root: Path) -> Iterator[Suggestion]:
    from ralph.tasks import feature

    views, _ = feature.list_(root)
    for view in views:
        yield Suggestion(view.feature.id, view.feature.title)


def _find_nodes(root: Path) -> Iterator[Suggestion]:
    """Yield nodes of the graph: memories by their ids, tags and tasks with a prefix."""
    yield from _find_memories(root)
    for prefix, suggestions in (("tag:", _find_tags(root)), ("task:", _find_tasks(root))):
        for value, description in suggestions:
            yield Suggestion(f"{prefix}{value}", description)


# --- what every project has -----------------------------------------------------------------------


def _list_config_keys() -> Iterator[Suggestion]:
    from ralph.core.config import KEYS

    for key in KEYS:
        if not key.ignored:
            yield Suggestion(key.name, key.doc)


def _list_config_sections() -> Iterator[Suggestion]:
    from ralph.core.config import KEYS

    for name in dict.fromkeys(key.name.partition(".")[0] for key in KEYS if not key.ignored):
        yield Suggestion(name)


def _list_criteria() -> Iterator[Suggestion]:
    from ralph.core.record import CriterionKind

    for kind in CriterionKind:
        if kind is CriterionKind.CUSTOM:
            yield Suggestion(f"{kind.value}:", "a command of your own")
        else:
            yield Suggestion(kind.value)


def _list_import_sources() -> Iterator[Suggestion]:
    from ralph.sharing.histories import FINDERS
    from ralph.sharing.imports import GIT
    from ralph.sharing.other_memories import READERS

    for name in (*FINDERS, *READERS, GIT):
        yield Suggestion(name)


def _list_agents() -> Iterator[Suggestion]:
    from ralph.loop.agents import choice

    for name in choice.NAMES:
        yield Suggestion(name)


def _list_node_types() -> Iterator[Suggestion]:
    from ralph.core.graph import NodeType

    for kind in NodeType:
        yield Suggestion(kind.value)


def _list_relations() -> Iterator[Suggestion]:
    from ralph.core.graph import Relation

    for relation in Relation:
        yield Suggestion(relation.value)


def _list_types() -> Iterator[Suggestion]:
    from ralph.core.record import MemoryKind

    for kind in MemoryKind:
        yield Suggestion(kind.value)


def _list_files() -> Iterator[Suggestion]:
    from ralph.memory.reading import ALL
    from ralph.storage.library import NAMES

    for name in (*NAMES, ALL):
        yield Suggestion(name)


def config_values(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the value of the setting that was named before it."""
    from ralph.core.config import key_named

    key = key_named(ctx.params["key"])
    values: Iterable[str] = [choice.value for choice in key.choices]
    if isinstance(key.default, bool):
        values = ("true", "false")
    return _matching(map(Suggestion, values), incomplete, is_list=isinstance(key.default, tuple))


memories = complete_with(_find_memories)
proposals = complete_with(_find_proposals)
sessions = complete_with(_find_sessions)
runs = complete_with(_find_runs)
tasks = complete_with(_find_tasks)
features = complete_with(_find_features)
nodes = complete_with(_find_nodes)
tags = complete_with(_find_tags, is_list=True)
types = complete_fixed(_list_types, is_list=True)
node_types = complete_fixed(_list_node_types, is_list=True)
relations = complete_fixed(_list_relations, is_list=True)
memory_files = complete_fixed(_list_files, is_list=True)
agents = complete_fixed(_list_agents)
criteria = complete_fixed(_list_criteria)
import_sources = complete_fixed(_list_import_sources, is_list=True)
config_keys = complete_fixed(_list_config_keys)
config_sections = complete_fixed(_list_config_sections)


# --- the names of options and arguments -----------------------------------------------------------

_BY_NAME: dict[str, ShellComplete] = {
    "--task": tasks,
    "--blocked-by": tasks,
    "--by": tasks,
    "--parent": tasks,
    "task_id": tasks,
    "--feature": features,
    "feature_id": features,
    "--session": sessions,
    "session_id": sessions,
    "run_id": runs,
    "--around": memories,
    "name": memories,
    "names": memories,
    "old": memories,
    "--tags": tags,
    "--type": types,
    "--in": memory_files,
    "--agent": agents,
    "--criteria": criteria,
    "--relation": relations,
    "relation": relations,
    "key": config_keys,
    "--section": config_sections,
    "value": config_values,
}
"""How options and arguments are completed, by their names, unless they say it themselves."""


class Text(click.types.StringParamType):
    """A text for which a shell gets suggestions."""

    def __init__(self, complete: ShellComplete) -> None:
        self._complete = complete

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the suggestions that begin with the incomplete value."""
        return self._complete(ctx, param, incomplete)


def attach(params: Iterable[click.Parameter]) -> None:
    """Let shells complete the texts among these options and arguments."""
    for param in params:
        complete = next((_BY_NAME[name] for name in param.opts if name in _BY_NAME), None)
        if complete is not None and param.type is click.STRING:
            param.type = Text(complete)
