"""One pass over memories.md or guardrails.md: which lines are entries, which are people's.

The scanner walks line by line and knows what markdown knows: a heading inside a fence, an HTML
comment or a quote is text. It decides nothing about records; it finds blocks (structured
entries and legacy Signs), sections, and what is odd. Every line costs one dispatch on its
first character, so that 10 MB stay a fraction of a second (`bench/parse.py`).
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ralph.formats.document import Problem
from ralph.model.ids import ID

SIGN = re.compile(r"[^\w]{0,8}sign:\s*(?P<name>\S.*)", re.IGNORECASE)
_META_KEYS = frozenset({"tags", "created", "updated", "supersedes", "valid-until", "source", "by"})
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_CONFLICT = re.compile(r"(<{7}|>{7}|={7}|\|{7})(?: .*)?")
_USUAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    r"<!-- tags:([^|\n]*)\| created: (\d{4}-\d\d-\d\d) -->(?=\n|\Z)"
)
"""An entry as we write it: heading, quote, metadata, with nothing between; only for texts without CR."""
_PATH_LINE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:\\)[^\n]*\.md")


class Block:
    """A structured entry (it has an id) or a Sign (it has a name) while it is being read.

    `mark` says what its text is so far: nothing yet, `quote`, or `plain` (a person forgot the quote marks). `made`
    says that the entry came together with its section's heading, so that both may go together.
    """

    __slots__ = ("blanks", "end", "id", "line", "lines", "made", "mark", "meta", "name", "odd", "section", "start")

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


class Usual(NamedTuple):
    """A structured entry in the very form that we write."""

    id: str
    quote: str
    tags: str
    created: str
    section: str | None
    start: int
    end: int
    line: int


@dataclass(slots=True)
class Section:
    """A `## heading`: where it stands and where the next entry goes."""

    heading: str
    line: int
    end: int
    footer: int | None = None
    entries: int = 0
    bullets: int = 0
    titles: int = 0

    @property
    def insert_at(self) -> int:
        """The end of the last line that belongs to the section's entries; a closing rule stays below."""
        return self.end if self.footer is None else self.footer


@dataclass(slots=True)
class Region:
    """A stretch in which nothing may be inserted: an unclosed fence or comment, a merge conflict."""

    start: int
    end: int


class Scan:
    """The result: blocks, sections and problems in file order."""

    def __init__(self, text: str) -> None:
        self.blocks: list[Block | Usual] = []
        self.sections: list[Section] = []
        self.regions: list[Region] = []
        self.problems: list[Problem] = []
        self._block: Block | None = None
        self._section: Section | None = None
        self._fence: str | None = None
        self._comment = False
        self._opened: tuple[int, int] = (0, 0)
        self._conflict: tuple[int, int] | None = None
        self._line = 0
        self._start = 0
        self._end = 0
        self._walk(text)

    def _walk(self, text: str) -> None:
        """Line by line; an entry in its canonical form is taken in one step, as the slow way would read it."""
        place = 1 if text.startswith("\ufeff") else 0
        usual, length, quick = _USUAL.match, len(text), "\r" not in text
        while place <= length:
            self._line += 1
            if quick and text.startswith("###", place) and (found := usual(text, place)) and self._is_free():
                self._take_usual(found)
                place = found.end() + 1
                continue
            end = text.find("\n", place)
            if end < 0:
                end = length
            self._start = place
            self._end = end - 1 if end > place and text[end - 1] == "\r" else end
            self._feed(text[place : self._end])
            place = end + 1
        self._finish(length)

    def _is_free(self) -> bool:
        return self._fence is None and not self._comment and self._conflict is None

    def _take_usual(self, found: re.Match[str]) -> None:
        section, end = self._section, found.end()
        heading = None
        if section is not None:
            heading, section.end, section.footer = section.heading, end, None
            section.entries += 1
        quote = found[2]
        self.blocks.append(Usual(found[1], quote, found[3], found[4], heading, found.start(), end, self._line))
        self._line += quote.count("\n") + 2
        self._block = None

    def _feed(self, line: str) -> None:
        first = line[:1]
        if self._fence is None and not self._comment:
            if first == ">":
                self._quote(line)
            elif first == "#":
                if line[:4] == "### " and ID.fullmatch(line, 4):
                    self._begin(line[4:], "")
                else:
                    self._heading(line)
            elif not line or line.isspace():
                if self._block is not None:
                    self._block.blanks += 1
                return
            elif first == "<" and line.startswith("<!--"):
                self._open_comment(line)
            elif first in " <=|`~-*_":
                self._marked(line)
            else:
                self._prose(line)
        else:
            self._inside(line)
        if self._section is not None and line:
            self._section.end = self._end

    def _inside(self, line: str) -> None:
        """A line within a fence or a comment: only its end matters, and a Sign's body keeps it."""
        if self._comment:
            self._comment = "-->" not in line
            return
        block = self._block
        if block is not None:
            self._take(block, line)
        bare = line.strip()
        if self._fence is not None and bare.startswith(self._fence) and not bare.strip(self._fence[0]):
            self._fence = None

    def _quote(self, line: str) -> None:
        block = self._block
        if self._conflict is not None and _CONFLICT.fullmatch(line):
            self._marker(line)
        elif block is None:
            return
        elif not block.mark and not block.name and block.meta is None:
            block.blanks = 0
            block.mark = "quote"
            block.lines.append(line[2:] if line[1:2] == " " else line[1:])
            block.end = self._end
        elif block.name:
            self._take(block, line)
        elif block.meta is not None or block.mark == "plain":
            self._block = None
        else:
            block.lines.extend([""] * block.blanks)
            block.blanks = 0
            block.lines.append(line[2:] if line[1:2] == " " else line[1:])
            block.end = self._end

    def _heading(self, line: str) -> None:
        bare = line.lstrip("#")
        level = len(line) - len(bare)
        if level > 6 or (bare and bare[0] not in " \t"):
            self._prose(line)
            return
        title = bare.strip()
        if level > 3:
            if self._block is not None and self._block.name:
                self._take(self._block, line)
            else:
                self._block = None
            return
        self._block = None
        if level == 3:
            self._entry(title)
        else:
            self._section = None
            if level == 2:
                self._section = Section(title, self._line, self._end)
                self.sections.append(self._section)

    def _entry(self, title: str) -> None:
        section = self._section
        sign = SIGN.fullmatch(title)
        if sign is not None:
            self._begin("", sign["name"].strip())
        elif ID.fullmatch(title):
            self._begin(title, "")
        elif _OUR_PREFIX.match(title):
            self._problem(
                f"`### {title[:60]}` is not an id of the form word-digits-hex; the block is kept but not read",
                "give it an id such as mem-1705751400-a3f8, or add it anew with `ralph memory add`",
                "error", "malformed-id",
            )  # fmt: skip
        elif section is not None:
            section.titles += 1

    def _begin(self, block_id: str, name: str) -> None:
        section = self._section
        heading = None
        if section is not None:
            heading = section.heading
            section.entries += 1
            section.footer = None
        self._block = Block(block_id, name, heading, self._start, self._end, self._line)
        self.blocks.append(self._block)

    def _open_comment(self, line: str) -> None:
        block = self._block
        if block is not None and block.meta is None:
            inner = metadata_of(line)
            if inner is not None:
                block.meta = inner
                block.end = self._end
                return
        self._block = None
        if "-->" not in line[4:]:
            self._comment = True
            self._opened = (self._line, self._start)
        elif metadata_of(line) is not None:
            self._problem(
                "this metadata comment belongs to no entry", "move it below the quote of its entry", "note", "stray-metadata"
            )

    def _marked(self, line: str) -> None:
        """A line whose first character may be a marker: indentation, a fence, a rule, a conflict marker, a bullet."""
        first = line[0]
        if first == " ":
            bare = line.lstrip(" ")
            if len(line) - len(bare) <= 3 and bare[:1] in "#><`~-*_":
                self._indented(line, bare)
                return
        elif first in "`~" and _FENCE.fullmatch(line):
            self._open_fence(line, line)
            return
        elif first in "-*_" and _RULE.fullmatch(line.rstrip()):
            self._rule()
            return
        elif first in "<=|" and _CONFLICT.fullmatch(line):
            self._marker(line)
            return
        if first in "-*" and self._section is not None and self._block is None:
            self._section.bullets += 1
        self._prose(line)

    def _indented(self, line: str, bare: str) -> None:
        """Up to three spaces change nothing in markdown; within a Sign they are part of a list."""
        block = self._block
        if _FENCE.fullmatch(bare):
            self._open_fence(line, bare)
        elif block is not None and block.name:
            self._take(block, line)
        elif bare[0] == "#":
            self._heading(bare)
        elif bare[0] == ">":
            self._quote(bare)
        elif bare.startswith("<!--"):
            self._open_comment(bare)
        elif _RULE.fullmatch(bare.rstrip()):
            self._rule()
        else:
            self._prose(line)

    def _open_fence(self, line: str, bare: str) -> None:
        block = self._block
        if block is not None and (block.name or block.mark in ("", "plain")):
            self._plain(block, line)
        else:
            self._block = None
        self._fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        self._opened = (self._line, self._start)

    def _rule(self) -> None:
        self._block = None
        if self._section is not None and self._section.footer is None:
            self._section.footer = self._section.end

    def _marker(self, line: str) -> None:
        """A git conflict marker: skipped, so that both sides' entries are read."""
        if line.startswith("<<<<<<<"):
            self._conflict = (self._line, self._start)
            self._problem(
                "git conflict markers: both sides are read", "resolve the merge in this file", "error", "conflict"
            )
        elif self._conflict is None:
            self._prose(line)
        elif line.startswith(">>>>>>>"):
            self.regions.append(Region(self._conflict[1], self._end))
            self._conflict = None

    def _prose(self, line: str) -> None:
        block = self._block
        if block is None:
            return
        if block.name or block.mark in ("", "plain"):
            self._plain(block, line)
        elif block.meta is None and not block.blanks:
            block.odd = True
            block.lines.append(line)
            block.end = self._end
        else:
            self._block = None

    def _plain(self, block: Block, line: str) -> None:
        if block.meta is not None:
            self._block = None
            return
        if not block.name:
            block.mark = "plain"
        self._take(block, line)

    def _take(self, block: Block, line: str) -> None:
        """Add a line to a Sign's body or to text that lacks its quote marks."""
        if block.lines:
            block.lines.extend([""] * block.blanks)
        block.blanks = 0
        block.lines.append(line)
        block.end = self._end

    def _finish(self, length: int) -> None:
        if self._fence is not None or self._comment:
            what = "code fence" if self._fence is not None else "HTML comment"
            self.regions.append(Region(self._opened[1], length))
            self.problems.append(
                Problem(
                    self._opened[0], f"this {what} is never closed: entries after it are not read",
                    f"close the {what}", "error", "unclosed",
                )
            )
        if self._conflict is not None:
            self.regions.append(Region(self._conflict[1], length))

    def _problem(self, what: str, hint: str, level: str, code: str) -> None:
        self.problems.append(Problem(self._line, what, hint, level, code))


def metadata_of(line: str) -> str | None:
    """What stands inside a one-line metadata comment, or None when the comment is something else."""
    bare = line.rstrip()
    if bare[:4] != "<!--" or bare[-3:] != "-->" or len(bare) < 7:
        return None
    inner = bare[4:-3].strip()
    if "-->" in inner:
        inner = inner.replace("-->", "|").replace("<!--", "")
    if inner.startswith("tags:"):
        return inner
    for part in inner.split("|"):
        key, colon, _ = part.partition(":")
        if colon and key.strip().lower() in _META_KEYS:
            return inner
    return None


def first_line_is_a_path(text: str) -> bool:
    """Whether the file begins with a bare path: what is left when a symbolic link was committed as text."""
    first = text.lstrip("\ufeff").partition("\n")[0].strip()
    return len(first) < 4096 and _PATH_LINE.fullmatch(first) is not None
