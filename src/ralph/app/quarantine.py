"""Quarantine: a memory that reads like an instruction to an agent waits until a person has accepted it.

What an agent or an import adds of this shape is kept in the state folder. An entry of a memory file may be anybody's
edit: of this shape, it is injected once git has committed it or a person has accepted it. Accepted texts are kept as
hashes, which hooks read as well.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app.json_shapes import SESSION, WHO
from ralph.context import render
from ralph.errors import NotFound, Refused
from ralph.model import ids
from ralph.model.record import MemoryKind, Record, Scope
from ralph.store import files
from ralph.store.files import WriteObserver
from ralph.store.library import NAMES, Library, Stored

_AGENT_VARIABLES = {
    **dict.fromkeys(("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"), "claude"),
    **{"CODEX_": "codex", "GEMINI_CLI": "gemini", "OPENCODE": "opencode", "CURSOR_AGENT": "cursor"},
    **{
        "COPILOT_AGENT": "copilot",
        "AIDER_": "aider",
        "GOOSE_": "goose",
        "CLINE_": "cline",
        "AMP_THREAD": "amp",
    },
    **dict.fromkeys(("RALPH_RUN", "RALPH_TASK"), "loop"),
    "QWEN_CODE": "qwen",
}
"""Beginnings of the names of variables that agents set for the commands that they run, and the agent."""
_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "AMP_THREAD_ID", "RALPH_RUN")
_NOT_IN_A_NAME = re.compile(r"[^\w .,'@/+-]+")
_MAX_NAME = 40
_NOT_OF_AGENTS = ("CODEX_HOME", "AIDER_MODEL", "RALPH_TASKS")
IMPORT = "import"  # who adds what `ralph import` proposes
_MOST_PARENTS = 40
_GIT_SECONDS = 2.0


# --- who calls ---------------------------------------------------------------------------------


def author(
    env: Mapping[str, str], *, is_terminal: bool, parents: Sequence[Sequence[str]] | None = None
) -> str:
    """Return `human` for a terminal without an agent's variable, here or in a parent process; else `agent`."""
    if not is_terminal or _is_of_agent(list(env)):
        return "agent"
    return (
        "agent" if any(map(_is_of_agent, _parents() if parents is None else parents)) else "human"
    )


def is_called_by_agent(env: Mapping[str, str]) -> bool:
    """Check for an agent's variable, here or in a parent process; unlike `author`, a script counts as a person's."""
    return _is_of_agent(list(env)) or any(map(_is_of_agent, _parents()))


def signature(root: Path, by: str, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return who stores a memory: a person as their own git config says, an agent by its host and session."""
    who = session = ""
    if by == "human":
        who = _git_name(
            root, *map(os.environ.get, ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"))
        )
    elif by == "agent":
        hosts = (
            host
            for start, host in _AGENT_VARIABLES.items()
            for name in env
            if name.startswith(start)
        )
        who = next(hosts, "") if _is_of_agent(list(env)) else ""
        session = next(filter(None, map(env.get, _SESSION_VARIABLES)), "")
    return {
        name: value
        for name, words in ((WHO, who), (SESSION, session))
        if (value := clean_name(words))
    }


@cache  # an import stores hundreds of memories
def _git_name(root: Path, *_user: str | None) -> str:
    """Return the name in the git config of the user that the variables `_user` name."""
    from ralph.app.repository import Repository

    return Repository(root, _GIT_SECONDS).answer(
        "config", "--global", "--includes", "--get", "user.name"
    )


def clean_name(words: str) -> str:
    """Return a name that somebody gave themselves as one short line that a comment can hold."""
    return " ".join(_NOT_IN_A_NAME.sub(" ", words).split())[:_MAX_NAME].strip()


def _is_of_agent(names: Sequence[str]) -> bool:
    return any(
        name.startswith(tuple(_AGENT_VARIABLES)) and not name.startswith(_NOT_OF_AGENTS)
        for name in names
    )


def _parents() -> list[list[str]]:
    """Return the names of the variables of each parent process, where the system shows them."""
    found: list[list[str]] = []
    process = os.getppid()
    try:
        while process > 1 and len(found) < _MOST_PARENTS:
            folder = Path(f"/proc/{process}")
            lines = (folder / "environ").read_bytes().decode("utf-8", "replace").split("\0")
            found.append([line.partition("=")[0] for line in lines])
            process = int(
                (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
    except (OSError, ValueError, IndexError):
        pass  # another user's process, or a system without /proc
    return found


# --- what a person has accepted ----------------------------------------------------------------


def accepted_keys(root: Path) -> frozenset[str]:
    """Return the hashes of the texts that a person has accepted, in this project or for all of them."""
    places = (paths.accepted_texts(root), paths.personal_accepted())
    return frozenset(key for path in places if path for key in (files.read(path) or "").split())


def remember_accepted(root: Path, record: Record, observer: WriteObserver | None = None) -> None:
    """Remember that a person wants a text, if it is one that would be held."""
    key = render.text_key(record.title, record.text, record.tags)
    if is_suspicious(record) and key not in accepted_keys(root):
        if record.scope is Scope.PERSONAL and (path := paths.personal_accepted()):
            files.append(path, f"{key}\n", durable=True, observer=observer)
            return
        remember_keys(root, [key], observer)


def accept_titles(root: Path, by: str, *titles: str) -> None:
    """Remember that a person gave a task its title or a run its goal: it is shown, whatever it reads like."""
    for title in titles if by == "human" else ():
        remember_accepted(root, Record("", MemoryKind.CONTEXT, title))


def remember_keys(root: Path, keys: Sequence[str], observer: WriteObserver | None = None) -> None:
    """Remember what a person has accepted in this project."""
    if keys and (observer is None or observer.real):
        files.hide_state(root)
    for key in keys:
        boundary = paths.state_boundary(root)
        files.append(
            paths.accepted_texts(root), f"{key}\n", root=boundary, durable=True, observer=observer
        )


def is_suspicious(record: Record) -> bool:
    """Whether an entry reads like an instruction to an agent."""
    return render.looks_like_instructions(
        render.guarded_text(record.title, record.text, record.tags)
    )


def injectable(root: Path, stored: Sequence[Record] = ()) -> Callable[[Record], bool]:
    """Return the test whether an entry of a memory file may be injected; what git has committed is remembered.

    `stored` are the entries as they are stored, where those to test have notes in their texts.
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
        key = render.text_key(record.title, record.text, record.tags)
        if key not in accepted and _is_committed(library, record):
            remember_accepted(root, record)
            accepted.add(key)
        return key in accepted

    return may_inject


def _is_committed(library: Library, record: Record) -> bool:
    """Whether every line of an entry is in the file that git has committed."""
    try:
        path = library.find(record.id)[1].path
    except NotFound:
        return False
    from ralph.app.repository import Repository  # only for entries that are suspicious

    committed = Repository(path.parent, _GIT_SECONDS).text(f"HEAD:./{path.name}")
    lines = {line.strip("> \t#-*") for line in (committed or "").splitlines()}
    words = [*record.text.splitlines(), record.title, *record.tags]
    return committed is not None and all(
        line.strip("> \t#-*") in lines
        or (line in (record.title, *record.tags) and line in committed)
        for line in words
    )


def unattributed(root: Path) -> list[Stored]:
    """Return the entries of memory files that are held: nobody has committed or accepted them."""
    library = Library(root)
    may_inject = injectable(root)
    everything = (stored for name in NAMES for stored in library.read(library.collection(name)))
    return [stored for stored in everything if not may_inject(stored.record)]


# --- what is held ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A memory that waits for a person: what was to be added, by whom and by which way."""

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
    """Keep a memory for review, once; return the error that says so."""
    memory = replace(memory, id=ids.mint("held"))
    same = [
        each
        for each in held(root)
        if (each.in_, each.title, each.text) == (memory.in_, memory.title, memory.text)
    ]
    if not same:
        hold_all(root, [memory])
    name = same[0].id if same else memory.id
    return Refused(
        f"it reads like an instruction to an agent, so it is not a memory yet: {name} waits for a person",
        hint=f"a person decides: ralph review accept {name}, or ralph review reject {name}",
    )


def hold_all(root: Path, memories: Sequence[HeldMemory]) -> None:
    """Keep memories until a person has decided about each; the id of one without comes from its text."""
    from ralph.formats.log import encode_line  # adding a memory does not need it

    text = ""
    for each in memories:
        name = each.id or ids.derived("held", f"{each.via}\n{each.text}")
        text += encode_line("held", asdict(replace(each, id=name, at=ids.timestamp())))
    files.hide_state(root)
    files.append(paths.held_memories(root), text, root=paths.state_boundary(root), durable=True)


def held(root: Path) -> list[HeldMemory]:
    """Return what waits for a person."""
    return [
        memory
        for _, memory in _read_lines(files.read(paths.held_memories(root)) or "")
        if memory is not None
    ]


def find(root: Path, name: str) -> HeldMemory | None:
    """Return what is held under a full or short id."""
    by_id = {memory.id: memory for memory in held(root)}
    matches = ids.match_ids(name, list(by_id))
    return by_id.get(ids.resolve(name, matches) if matches else name)


def release(root: Path, record_id: str, observer: WriteObserver | None = None) -> None:
    """Take a memory out of the quarantine."""

    def without(text: str) -> str:
        lines = _read_lines(text)
        return "".join(
            f"{line}\n" for line, memory in lines if memory is None or memory.id != record_id
        )

    boundary = paths.state_boundary(root)
    files.update(
        paths.held_memories(root), without, root=boundary, mode=files.PRIVATE, observer=observer
    )


def _read_lines(text: str) -> list[tuple[str, HeldMemory | None]]:
    """Return each line with the memory in it; None for what another version or a torn write left."""
    found: list[tuple[str, HeldMemory | None]] = []
    for line in filter(None, text.split("\n")):
        try:
            value = json.loads(line)
            members: dict[str, Any] = {
                name: str(value[name]) for name in HeldMemory.__slots__ if name in value
            }
            members["tags"] = tuple(map(str, value.get("tags", ())))
            found.append((line, HeldMemory(**members)))
        except (ValueError, TypeError, AttributeError):
            found.append((line, None))
    return found
