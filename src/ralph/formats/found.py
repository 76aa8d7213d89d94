"""What a scan of memories.md or guardrails.md finds: blocks, sections, and where nothing may go.

Values without behaviour, apart from the scanner that fills them (`scan.py`) and the codec that
makes records of them (`sections.py`). What stands in the very form that we write never becomes a
Block: the codec makes its Entry at once, since a large file holds tens of thousands.
"""

from dataclasses import dataclass

from ralph.model.record import SECTIONS, kind_of


class Block:
    """A structured entry (it has an id) or a Sign (it has a name) while it is being read.

    `mark` says what its text is so far: nothing yet, `quote`, or `plain` (a person forgot the quote marks). `made`
    says that the entry came together with its section's heading, so that both may go together. `torn` is where
    the first conflict marker stands that came up while the block was open.
    """

    __slots__ = (
        "blanks", "end", "id", "line", "lines", "made", "mark", "meta", "name", "odd", "section", "start", "torn",
    )  # fmt: skip

    def __init__(self, block_id: str, name: str, section: str | None, start: int, end: int, line: int) -> None:
        self.id = block_id
        self.name = name
        self.section = section
        self.start = start
        self.end = end
        self.line = line
        self.lines: list[str] = []
        self.blanks = 0
        self.meta: str | None = None
        self.mark = ""
        self.odd = False
        self.made = False
        self.torn: int | None = None


@dataclass(slots=True)
class Section:
    """A `## heading`: where it stands and where the next entry goes."""

    heading: str
    line: int
    start: int
    end: int
    footer: int | None = None
    entries: int = 0
    bullets: int = 0
    titles: int = 0

    @property
    def ours(self) -> str:
        """Which of our headings this is, in whatever case, plural or not; "" for any other word."""
        kind = kind_of(self.heading)
        if kind is None or " ".join(self.heading.lower().split()) not in (kind.value, SECTIONS[kind].lower()):
            return ""
        return SECTIONS[kind]

    @property
    def insert_at(self) -> int:
        """The end of the last line that belongs to the section's entries; a closing rule stays below."""
        return self.end if self.footer is None else self.footer


@dataclass(slots=True)
class Region:
    """A stretch in which nothing may be inserted: a conflict, or an unclosed fence or comment (to beyond the end)."""

    start: int
    end: int
