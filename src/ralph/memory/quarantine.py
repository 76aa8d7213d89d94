"""Hold memories that read like instructions to an agent until a person has decided about them.

A memory of this kind that an agent or an import adds is kept in the state folder until a person
accepts it. An entry in a memory file may have been edited by anybody, so an entry that reads like
an instruction is injected only once it has been committed to git or a person has accepted it.
Accepted texts are stored as hashes, which hooks read as well.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import NotFound, Refused
from ralph.core.record import SESSION, WHO, MemoryKind, Record, Scope
from ralph.privacy import injection
from ralph.storage import files, gitignore
from ralph.storage.library import NAMES, Library, Stored
from ralph.storage.write_observers import WriteObserver

_AGENT_VARIABLES = {
    "CLAUDECODE": "claude",
    "CLAUDE_CODE_ENTRYPOINT": "claude",
    "CLAUDE_CODE_SESSION_ID": "claude",
    "CODEX_": "codex",
    "GEMINI_CLI": "gemini",
    "OPENCODE": "opencode",
    "CURSOR_AGENT": "cursor",
    "COPILOT_AGENT": "copilot",
    "AIDER_": "aider",
    "GOOSE_": "goose",
    "CLINE_": "cline",
    "AMP_THREAD": "amp",
    "RALPH_RUN": "loop",
    "RALPH_TASK": "loop",
    "QWEN_CODE": "qwen",
}
"""Maps prefixes of the environment variables that agents set for their commands to the agent."""
_PERSON_VARIABLES = ("CODEX_HOME", "AIDER_MODEL", "RALPH_TASKS")
"""Variables with one of these prefixes that people set themselves."""
_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "AMP_THREAD_ID", "RALPH_RUN")
_GIT_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")  # where git finds its user config
_NOT_IN_A_NAME = re.compile(r"[^\w .,'@/+-]+")
_MAX_NAME_CHARACTERS = 40
_MAX_PARENTS = 40  # how many parent processes to examine
_GIT_SECONDS = 2.0
_LINE_MARKUP = "> \t#-*"  # characters that may surround a line of text in Markdown

IMPORT = "import"  # the author of memories proposed by `ralph import`


# --- who is calling ----------------------------------------------------------------------------


def author(
    env: Mapping[str, str], *, is_terminal: bool, parents: Sequence[Sequence[str]] | None = None
) -> str:
    """Return `human` for a terminal that no agent started, and `agent` otherwise.

    An agent is recognised by the environment variables it sets, here or in a parent process.
    """
    if not is_terminal or _is_of_agent(list(env)):
        return "agent"
    if parents is None:
        parents = _parents()
    if any(map(_is_of_agent, parents)):
        return "agent"
    return "human"


def is_called_by_agent(env: Mapping[str, str]) -> bool:
    """Return whether an agent's variable is set, here or in a parent process.

    Unlike `author`, this treats a script as run by a person.
    """
    return _is_of_agent(list(env)) or any(map(_is_of_agent, _parents()))


def signature(root: Path, by: str, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the members of `extra` that say who stores a memory.

    A person is named as in the git config, an agent by its host and session.
    """
    who = ""
    session = ""
    if by == "human":
        who = _git_name(root, *map(os.environ.get, _GIT_VARIABLES))
    elif by == "agent":
        who = _agent_name(env)
        session = _first_set(env, _SESSION_VARIABLES)
    members = {WHO: clean_name(who), SESSION: clean_name(session)}
    return {name: value for name, value in members.items() if value}


def _agent_name(env: Mapping[str, str]) -> str:
    if not _is_of_agent(list(env)):
        return ""
    for prefix, agent in _AGENT_VARIABLES.items():
        if any(name.startswith(prefix) for name in env):
            return agent
    return ""


def _first_set(env: Mapping[str, str], names: Sequence[str]) -> str:
    for name in names:
        value = env.get(name)
        if value:
            return value
    return ""


@cache  # an import may store hundreds of memories
def _git_name(root: Path, *_user: str | None) -> str:
    """Return the name in the git config of the user identified by the variables `_user`."""
    from ralph.core.repository import Repository

    return Repository(root, _GIT_SECONDS).output_or_empty(
        "config", "--global", "--includes", "--get", "user.name"
    )


def clean_name(words: str) -> str:
    """Return a self-chosen name as one short line that is safe in a comment."""
    return " ".join(_NOT_IN_A_NAME.sub(" ", words).split())[:_MAX_NAME_CHARACTERS].strip()


def _is_of_agent(names: Sequence[str]) -> bool:
    """Return whether any of these variables was set by an agent."""
    prefixes = tuple(_AGENT_VARIABLES)
    return any(
        name.startswith(prefixes) and not name.startswith(_PERSON_VARIABLES) for name in names
    )


def _parents() -> list[list[str]]:
    """Return the names of each parent process's environment variables.

    The list is empty or incomplete where the system does not show them.
    """
    found: list[list[str]] = []
    process = os.getppid()
    try:
        while process > 1 and len(found) < _MAX_PARENTS:
            folder = Path(f"/proc/{process}")
            environment = (folder / "environ").read_bytes().decode("utf-8", "replace")
            found.append([line.partition("=")[0] for line in environment.split("\0")])
            status = (folder / "stat").read_text(encoding="utf-8")
            fields = status.rpartition(")")[2].split()  # after the name, which may contain blanks
            process = int(fields[1])
    except (OSError, ValueError, IndexError):
        pass  # another user's process, or a system without /proc
    return found


# --- what a person has accepted ----------------------------------------------------------------


def accepted_keys(root: Path) -> frozenset[str]:
    """Return the hashes of the texts that a person has accepted, here or for all projects."""
    keys = set[str]()
    for path in (paths.accepted_texts(root), paths.personal_accepted()):
        if path is not None:
            keys.update((files.read(path) or "").split())
    return frozenset(keys)


def remember_accepted(root: Path, record: Record, observer: WriteObserver | None = None) -> None:
    """Remember that a person has accepted an entry, if it would otherwise be held."""
    key = _key_of(record)
    if not is_suspicious(record) or key in accepted_keys(root):
        return
    personal = paths.personal_accepted()
    if record.scope is Scope.PERSONAL and personal is not None:
        files.append(personal, f"{key}\n", durable=True, observer=observer)
    else:
        remember_keys(root, [key], observer)


def accept_titles(root: Path, by: str, *titles: str) -> None:
    """Remember that a person chose the title of a task or the goal of a run.

    A title that is remembered is shown even if it reads like an instruction.
    """
    if by != "human":
        return
    for title in titles:
        remember_accepted(root, Record("", MemoryKind.CONTEXT, title))


def remember_keys(root: Path, keys: Sequence[str], observer: WriteObserver | None = None) -> None:
    """Remember the hashes of what a person has accepted in this project."""
    if keys and (observer is None or observer.writes_to_disk):
        gitignore.ensure_gitignore(root)
    boundary = paths.state_boundary(root)
    for key in keys:
        files.append(
            paths.accepted_texts(root), f"{key}\n", root=boundary, durable=True, observer=observer
        )


def _key_of(record: Record) -> str:
    return injection.text_key(record.title, record.text, record.tags)


def is_suspicious(record: Record) -> bool:
    """Return whether an entry reads like an instruction to an agent."""
    return injection.looks_like_instructions(
        injection.guarded_text(record.title, record.text, record.tags)
    )


def injectable(root: Path, stored: Sequence[Record] = ()) -> Callable[[Record], bool]:
    """Return a function that decides whether an entry from a memory file may be injected.

    The function remembers committed entries as accepted. If the entries to be tested have notes
    added to their texts, pass the same entries without the notes as `stored`.
    """
    accepted: set[str] | None = None
    library = Library(root)
    by_id = {record.id: record for record in stored}

    def may_inject(record: Record) -> bool:
        nonlocal accepted
        record = by_id.get(record.id, record)
        if not is_suspicious(record):
            return True
        if accepted is None:
            accepted = set(accepted_keys(root))
        key = _key_of(record)
        if key not in accepted and _is_committed(library, record):
            remember_accepted(root, record)
            accepted.add(key)
        return key in accepted

    return may_inject


def _is_committed(library: Library, record: Record) -> bool:
    """Return whether the committed version of its file contains every line of an entry."""
    try:
        path = library.find(record.id)[1].path
    except NotFound:
        return False
    from ralph.core.repository import Repository  # needed only for suspicious entries

    committed = Repository(path.parent, _GIT_SECONDS).text(f"HEAD:./{path.name}")
    if committed is None:
        return False
    lines = {line.strip(_LINE_MARKUP) for line in committed.splitlines()}
    names = (record.title, *record.tags)
    for line in (*record.text.splitlines(), *names):
        is_whole_line = line.strip(_LINE_MARKUP) in lines
        is_name = line in names and line in committed  # it shares its line with others
        if not is_whole_line and not is_name:
            return False
    return True


def unattributed(root: Path) -> list[Stored]:
    """Return the held entries in memory files, which nobody has committed or accepted."""
    library = Library(root)
    may_inject = injectable(root)
    found = []
    for name in NAMES:
        for stored in library.read(library.collection(name)):
            if not may_inject(stored.record):
                found.append(stored)
    return found


# --- what is held ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A memory that is waiting for a person: what was to be added, by whom and how."""

    id: str
    at: str
    text: str
    in_: str = "memories"
    kind: str = ""
    title: str = ""
    feature: str = ""
    tags: tuple[str, ...] = ()
    by: str = ""
    via: str = ""
    who: str = ""
    session: str = ""


def hold(root: Path, memory: HeldMemory) -> Refused:
    """Keep a memory for review, unless it is already held, and return the error to raise."""
    name = _find_same(root, memory)
    if not name:
        name = ids.mint("held")
        hold_all(root, [replace(memory, id=name)])
    return Refused(
        "it reads like an instruction to an agent, so it is not a memory yet: "
        f"{name} waits for a person",
        hint=f"a person decides: ralph review accept {name}, or ralph review reject {name}",
    )


def _find_same(root: Path, memory: HeldMemory) -> str:
    wanted = (memory.in_, memory.title, memory.text)
    for other in held(root):
        if (other.in_, other.title, other.text) == wanted:
            return other.id
    return ""


def hold_all(root: Path, memories: Sequence[HeldMemory]) -> None:
    """Keep memories until a person has decided about each of them.

    A memory without an id gets one derived from its text.
    """
    from ralph.formats.log import encode_line  # adding a memory does not need it

    text = ""
    for memory in memories:
        name = memory.id or ids.derived("held", f"{memory.via}\n{memory.text}")
        text += encode_line("held", asdict(replace(memory, id=name, at=ids.timestamp())))
    gitignore.ensure_gitignore(root)
    files.append(paths.held_memories(root), text, root=paths.state_boundary(root), durable=True)


def held(root: Path) -> list[HeldMemory]:
    """Return the memories that are waiting for a person."""
    lines = _read_lines(files.read(paths.held_memories(root)) or "")
    return [line.memory for line in lines if line.memory is not None]


def find(root: Path, name: str) -> HeldMemory | None:
    """Return the held memory with this full or short id, or None."""
    by_id = {memory.id: memory for memory in held(root)}
    matches = ids.match_ids(name, list(by_id))
    if matches:
        name = ids.resolve(name, matches)
    return by_id.get(name)


def release(root: Path, record_id: str, observer: WriteObserver | None = None) -> None:
    """Remove a memory from quarantine."""

    def without(text: str) -> str:
        kept = ""
        for line in _read_lines(text):
            if line.memory is None or line.memory.id != record_id:
                kept += f"{line.text}\n"
        return kept

    boundary = paths.state_boundary(root)
    files.update(
        paths.held_memories(root), without, root=boundary, mode=files.PRIVATE, observer=observer
    )


class _HeldLine(NamedTuple):
    """A line in the file of held memories.

    `memory` is None if the line comes from another version or a torn write.
    """

    text: str
    memory: HeldMemory | None


def _read_lines(text: str) -> list[_HeldLine]:
    return [_HeldLine(line, _read_memory(line)) for line in text.split("\n") if line]


def _read_memory(line: str) -> HeldMemory | None:
    try:
        value = json.loads(line)
        members: dict[str, Any] = {
            name: str(value[name]) for name in HeldMemory.__slots__ if name in value
        }
        members["tags"] = tuple(map(str, value.get("tags", ())))
        return HeldMemory(**members)
    except (ValueError, TypeError, AttributeError):
        return None
