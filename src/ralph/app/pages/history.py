"""How a record came to say what it says: the commits that changed its lines, as git knows them.

The record is looked for in its file as the last commit has it, by the file's own codec, and git follows those lines
back (`git log -L`), so that a file of thousands of records gives the history of one. Git is only asked, offline, for
few commits. Where there is no history a sentence says why: no repository, a file that git leaves out, a record that
nobody has committed yet. `tests/app/pages/test_history.py` uses real repositories.
"""

from dataclasses import dataclass
from pathlib import Path

from ralph.app.pages import detail
from ralph.app.repository import Repository, first_line
from ralph.errors import RalphError
from ralph.store.sources import Format, Source, contents

MOST = 20
"""Commits that are told, the newest."""
LONGEST = 20_000
"""Characters of a commit's difference."""

_BEGIN = "\x01"
_FIELDS = "%x01%H%x00%aI%x00%an%x00%s%x00"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that changed a record, and what it changed."""

    commit: str
    at: str
    author: str
    subject: str
    diff: str


@dataclass(frozen=True, slots=True)
class History:
    """The commits, the newest first; when there are none, `note` says why."""

    commits: tuple[Commit, ...] = ()
    note: str = ""


def history(root: Path, record_id: str) -> History:
    """The commits that changed a record's lines; NotFound when there is no such record."""
    record, name, form = detail.place(root, record_id)
    repository = Repository(root)
    if form is Format.LOG:
        return History(note="It stands in a log, which stays on this machine.")
    if repository.top is None:
        return History(note="This project is in no git repository.")
    before = repository.text(f"HEAD:./{name}")
    if before is None:
        left_out = repository.answer("ls-files", "--others", "--ignored", "--exclude-standard", "--", name)
        return History(note=f"Git leaves {name} out." if left_out else f"{name} is not committed yet.")
    lines = _lines(root, name, form, before, record.id)
    if lines is None:
        return History(note="It is not committed yet.")
    return _followed(repository, name, lines)


def _lines(root: Path, name: str, form: Format, text: str, record_id: str) -> tuple[int, int] | None:
    """The first and last line of a record in a text of its file; None when it is not there."""
    try:
        placed = contents(Source(root / name, name, form), text).records
    except RalphError:
        return None
    starts = sorted({each.line for each in placed})
    own = next((each.line for each in placed if each.record.id == record_id), None)
    if own is None:
        return None
    after = next((line for line in starts if line > own), text.count("\n") + 2)
    rows = text.split("\n")[own - 1 : after - 1]
    while len(rows) > 1 and (not rows[-1].strip() or (rows[-1].startswith("## ") and form is not Format.KNOWLEDGE)):
        rows.pop()
    return own, own + len(rows) - 1


def _followed(repository: Repository, name: str, lines: tuple[int, int]) -> History:
    words = ("log", f"-n{MOST}", f"--format={_FIELDS}", "--no-color", "--no-ext-diff", "--no-textconv")
    ran = repository.ask(*words, f"-L{lines[0]},{lines[1]}:{name}")
    if ran.code != 0:
        return History(note=f"Git does not say: {first_line(ran)}")
    return History(tuple(_commit(each) for each in ran.out.split(_BEGIN)[1:]))


def _commit(text: str) -> Commit:
    commit, at, author, subject, rest = text.split("\0", 4)
    diff = rest.strip("\n")
    if len(diff) > LONGEST:
        diff = diff[:LONGEST].rpartition("\n")[0] + "\n... the rest is not shown"
    return Commit(commit, at, author, subject, diff + "\n" if diff else "")
