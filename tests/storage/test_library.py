"""The library: records come and go in a person's file; many writers, links and special files.

Every test drives `Library`, the highest layer that knows no verbs. What a person wrote is compared
byte by byte; ids are decided under the lock, so eight processes at once never share one.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Start
from tests.support.human_pages import HUMAN, ODD
from tests.support.writer import BLOCK, add, mine, text_of

from ralph.core.errors import Conflict, NotFound, RalphError, Refused, Unreadable, WriteFailed
from ralph.core.record import MemoryKind, Record
from ralph.formats.memories import MEMORIES, parse_memories
from ralph.storage import files
from ralph.storage.library import Library

Rounds = Callable[[int, int], int]

ENTRY = Record(
    "mem-1705751499-beef",
    MemoryKind.FIX,
    "A new one.",
    label="fix",
    tags=("new",),
    created_at="2025-01-22",
)


def memories(root: Path, text: str = HUMAN) -> Path:
    """A project's memories.md with this text."""
    path = root / ".agent" / "memories.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def text_in(path: Path) -> str:
    """Every byte of a file, as the store reads it."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def everything(folder: Path) -> dict[str, bytes | str]:
    """All files and links below a folder with what they hold."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def put(library: Library, record: Record = ENTRY) -> None:
    """Add this very record."""
    library.add(library.memories, lambda existing: record)


# --- one writer --------------------------------------------------------------------------------


@pytest.mark.parametrize("human", [HUMAN, ODD], ids=["plain", "odd"])
def test_adding_changing_and_removing_an_entry_gives_back_every_byte(
    tmp_path: Path, human: str
) -> None:
    path = memories(tmp_path, human)
    library = Library(tmp_path)
    stored = library.add(library.memories, lambda existing: ENTRY)
    assert text_in(path).splitlines()[stored.line - 1] == f"### {ENTRY.id}"
    assert (stored.path, stored.record) == (path, ENTRY)
    changed = library.replace(
        library.memories, ENTRY.id, lambda record: replace(record, text="Other words.")
    )
    assert library.find(ENTRY.id)[1] == changed
    assert changed.record.text == "Other words."
    assert library.remove(library.memories, ENTRY.id) == changed
    assert text_in(path) == human


def test_the_first_entry_makes_the_file_with_all_its_sections(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert library.read(library.memories) == []
    put(library)
    put(library, replace(ENTRY, id="mem-1705751499-cafe"))
    text = text_in(tmp_path / ".agent" / "memories.md")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Memories", "## Patterns", "## Decisions", "## Fixes", "### mem-1705751499-beef",
        "### mem-1705751499-cafe", "## Context",
    ]  # fmt: skip
    assert parse_memories(text).problems == ()
    assert everything(tmp_path) == {".agent/memories.md": text.encode()}


def test_a_change_that_changes_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    path = memories(tmp_path)
    os.utime(path, ns=(1, 1))
    inode = path.stat().st_ino
    library = Library(tmp_path)
    library.replace(library.memories, "mem-1705751400-a3f8", lambda record: record)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (1, inode)


def test_a_new_entry_goes_to_the_first_file_that_exists_and_all_files_are_read(
    tmp_path: Path,
) -> None:
    second = tmp_path / ".ralph" / "agent" / "memories.md"
    second.parent.mkdir(parents=True)
    second.write_bytes(MEMORIES.template().encode())
    library = Library(tmp_path)
    put(library)
    assert library.find(ENTRY.id)[1].path == second
    first = memories(tmp_path)
    seen: list[Sequence[str]] = []

    def make(existing_ids: Sequence[str]) -> Record:
        seen.append(existing_ids)
        return replace(ENTRY, id="mem-1705751499-cafe")

    assert library.add(library.memories, make).path == first
    assert ENTRY.id in seen[0]
    library.remove(library.memories, ENTRY.id)
    assert second.read_bytes() == MEMORIES.template().encode()


def test_a_missing_id_and_an_id_that_two_entries_have_are_told_and_nothing_changes(
    tmp_path: Path,
) -> None:
    path = memories(tmp_path)
    second = tmp_path / ".ralph" / "agent" / "memories.md"
    second.parent.mkdir(parents=True)
    second.write_bytes(path.read_bytes())
    library = Library(tmp_path)
    for record_id, error in (("mem-1-0000", NotFound), ("mem-1705751400-a3f8", Conflict)):
        with pytest.raises(error):
            library.remove(library.memories, record_id)
        with pytest.raises(error) as caught:
            library.replace(library.memories, record_id, lambda record: replace(record, text="x"))
        assert record_id in caught.value.message
        assert caught.value.hint
    assert text_in(path) == text_in(second) == HUMAN


def test_an_id_that_is_already_there_is_refused(tmp_path: Path) -> None:
    path = memories(tmp_path)
    with pytest.raises(RalphError):
        put(Library(tmp_path), replace(ENTRY, id="mem-1705751400-a3f8"))
    assert text_in(path) == HUMAN


def test_an_entry_that_an_editor_added_or_took_away_meanwhile_is_respected(tmp_path: Path) -> None:
    path = memories(tmp_path)
    library = Library(tmp_path)
    by_hand = str(
        parse_memories(HUMAN).add(replace(ENTRY, id="mem-1705751499-cafe", text="By hand."))
    )
    seen: list[set[str]] = []

    def make(existing_ids: Sequence[str]) -> Record:
        seen.append(set(existing_ids))
        path.write_bytes(by_hand.encode())
        return ENTRY

    library.add(library.memories, make)
    assert seen[1] - seen[0] == {"mem-1705751499-cafe"}
    assert text_in(path) == str(parse_memories(by_hand).add(ENTRY))

    def change(record: Record) -> Record:
        path.write_bytes(HUMAN.encode())
        return replace(record, text="Too late.")

    with pytest.raises(NotFound):
        library.replace(library.memories, ENTRY.id, change)
    assert text_in(path) == HUMAN


# --- many writers ------------------------------------------------------------------------------


def add_at_once(start: Start, root: Path, shares: Sequence[int], space: int = 0) -> dict[str, str]:
    """Let processes add their shares at the same time; gives the text that each acknowledged id must have."""
    programs = [start("adds", root, share, space) for share in shares]
    for program in programs:
        assert program.read_words() == ["ready"]
    for program in programs:
        program.send_line()
    said = [words for program in programs for words in program.read_rest()]
    assert len(said) == sum(shares)
    texts = {record_id: text_of(token) for _, _, record_id, token in said}
    assert len(texts) == len(said), "two entries were given one id"
    return texts


@pytest.mark.soak
def test_processes_add_at_once_and_nothing_is_lost_or_changed(
    tmp_path: Path, start: Start, rounds: Rounds
) -> None:
    path = memories(tmp_path, ODD)
    texts = add_at_once(start, tmp_path, [rounds(200, 15)] * rounds(8, 4))
    assert {record.id: record.text for record in mine(Library(tmp_path))} == texts
    assert BLOCK.sub("", text_in(path)) == ODD
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("space", [0, 64], ids=["real ids", "64 ids in all"])
@pytest.mark.soak
def test_fifty_adds_from_eight_processes_get_fifty_ids_however_few_there_are(
    in_memory: Path, start: Start, space: int
) -> None:
    texts = add_at_once(start, in_memory, [7, 7, 6, 6, 6, 6, 6, 6], space)
    assert len(texts) == 50
    assert {record.id: record.text for record in mine(Library(in_memory))} == texts


# --- links and special files -------------------------------------------------------------------


def test_through_a_link_the_target_is_changed_and_the_link_stays_a_link(tmp_path: Path) -> None:
    path = memories(tmp_path)
    real = tmp_path / "docs" / "what we know.md"
    real.parent.mkdir()
    path.rename(real)
    path.symlink_to("../docs/what we know.md")
    put(Library(tmp_path))
    assert path.is_symlink()
    assert text_in(real) == str(parse_memories(HUMAN).add(ENTRY))
    assert len(everything(tmp_path)) == 2


def test_two_names_of_one_file_are_read_once(tmp_path: Path) -> None:
    path = memories(tmp_path)
    (tmp_path / ".ralph").mkdir()
    (tmp_path / ".ralph" / "agent").symlink_to(path.parent)
    library = Library(tmp_path)
    put(library)
    assert [stored.record.id for stored in library.read(library.memories)].count(ENTRY.id) == 1
    library.remove(library.memories, ENTRY.id)
    assert text_in(path) == HUMAN


def test_through_a_linked_folder_inside_the_project_the_target_is_changed(tmp_path: Path) -> None:
    path = memories(tmp_path)
    path.parent.rename(tmp_path / "agent files")
    path.parent.symlink_to("agent files")
    put(Library(tmp_path))
    assert path.parent.is_symlink()
    assert text_in(tmp_path / "agent files" / "memories.md") == str(
        parse_memories(HUMAN).add(ENTRY)
    )


def link(to: str) -> Callable[[Path], None]:
    """Make a link to this."""
    return lambda path: path.symlink_to(to)


ODDITIES = {
    "a dangling link": (".agent/memories.md", link("nowhere.md")),
    "a dangling link to the outside": (".agent/memories.md", link("../../outside/new.md")),
    "a link to the outside": (".agent/memories.md", link("../../outside/memories.md")),
    "a link over a link to the outside": (".agent/memories.md", link("../hop/memories.md")),
    "a loop": (".agent/memories.md", link("memories.md")),
    "a folder": (".agent/memories.md", Path.mkdir),
    "a fifo": (".agent/memories.md", os.mkfifo),
    "a device": (".agent/memories.md", link("/dev/full")),
    "a linked folder outside": (".agent", link("../outside")),
    "a new file in a linked folder outside": (".agent", link("../outside/empty")),
    "a dangling linked folder": (".agent", link("nowhere")),
    "a dangling linked folder outside": (".agent", link("../outside/nowhere")),
    "a linked folder that loops": (".agent", link(".agent")),
    "a file in place of the folder": (".agent", Path.touch),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_what_is_no_file_of_the_project_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str
) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (outside / "empty").mkdir(parents=True)
    (outside / "memories.md").write_bytes(HUMAN.encode())
    project.mkdir()
    (project / "hop").symlink_to("../outside")
    where, make = ODDITIES[name]
    path = project / where
    path.parent.mkdir(exist_ok=True)
    make(path)
    before = everything(tmp_path), sorted(tmp_path.rglob("*"))
    library = Library(project)
    place = project / ".agent" / "memories.md"
    for way in (
        lambda: put(library),
        lambda: files.write(place, "x", root=project),
        lambda: files.update(place, lambda text: text + "x", root=project),
        lambda: files.append(place, "x\n", root=project),
    ):
        with pytest.raises((Refused, Unreadable, WriteFailed)) as caught:
            way()
        assert caught.value.hint
    assert (everything(tmp_path), sorted(tmp_path.rglob("*"))) == before


@pytest.mark.parametrize(
    "make", [os.mkfifo, Path.mkdir, link("memories.md")], ids=["fifo", "folder", "loop"]
)
def test_reading_what_is_no_file_is_told_and_does_not_hang(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    place = tmp_path / ".agent" / "memories.md"
    place.parent.mkdir()
    make(place)
    library = Library(tmp_path)
    with pytest.raises(Unreadable) as caught:
        library.read(library.memories)
    assert str(place) in caught.value.message


def test_a_root_that_is_itself_a_link_is_the_project_it_leads_to(tmp_path: Path) -> None:
    path = memories(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    library = Library(tmp_path / "link")
    assert add(library, "00-0") in text_in(path)
