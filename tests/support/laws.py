"""The laws of every codec, as functions that each codec's property tests call."""

from collections.abc import Callable

from hypothesis import strategies as st

from ralph.core.documents import Document
from ralph.core.record import Record
from ralph.formats.log import LogDocument

Parse = Callable[[str], Document]

FRAGMENTS = st.sampled_from(
    ["\n", "\r\n", "\r", "# ", "## ", "### ", "> ", "- ", "  - ", "---\n", "```", "~~~", "<!--", "-->", "|", ":", "[[",
     "]]", "\ufeff", "\x00", "\u2028", "\x0c", "\x85", " ", "\t", "{", "}", "[", "]", '"', "\\", ",", "tags", "title",
     "인증", "🔥", "_", "<<<<<<< HEAD\n", "=======\n", ">>>>>>> x\n"]
)  # fmt: skip


def messy(*words: str) -> st.SearchStrategy[str]:
    """Texts made of the format's own markers, random letters and line ends in any order."""
    pieces = (
        st.one_of(st.sampled_from(words), FRAGMENTS, st.text(max_size=6)) if words else FRAGMENTS
    )
    return st.lists(pieces, max_size=40).map("".join)


def keeps_every_byte(parse: Callable[[str], Document | LogDocument], text: str) -> None:
    """str(parse(t)) == t for every text whatsoever."""
    document = parse(text)
    assert str(document) == text
    assert document.text == text
    for entry in document.entries:
        assert 0 <= entry.start <= entry.end <= len(text)
        assert entry.line == text.count("\n", 0, entry.start) + 1
    for problem in document.problems:
        assert problem.what
        assert problem.hint
        assert 1 <= problem.line <= text.count("\n") + 1


def holds_all_of(after: str, text: str) -> None:
    """A text with one piece put in: every byte of the old one stands before or behind it."""
    pairs = enumerate(zip(text, after, strict=False))
    at = next((place for place, (old, new) in pairs if old != new), len(text))
    assert len(after) >= len(text)
    assert after.endswith(text[at:])


def add_then_remove_restores(parse: Parse, text: str, record: Record) -> None:
    """Adding a record and removing it again gives back every byte; a heading that was made for it may stay."""
    before = parse(text)
    added = before.add(record)
    ids = [entry.record for entry in added.entries]
    assert record in ids
    ids.remove(record)
    assert ids == [entry.record for entry in before.entries]
    removed = added.remove(record.id)
    assert [entry.record for entry in removed.entries] == [entry.record for entry in before.entries]
    restores(removed.text, text)


def restores(removed: str, text: str) -> None:
    """A text after adding and removing: as it was, or with one new heading; a blank file may keep its new layout."""
    if _headings(removed) == _headings(text):
        assert removed == text or not text.strip("\ufeff \t\r\n")
    else:
        holds_all_of(removed, text)


def _headings(text: str) -> int:
    return sum(line.startswith("## ") for line in text.removeprefix("\ufeff").split("\n"))
