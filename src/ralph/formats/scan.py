"""One pass over memories.md or guardrails.md: which lines are entries, which are people's.

The scanner walks line by line and knows what markdown knows: a heading inside a fence, an HTML
comment or a quote is text. It decides nothing about records; it finds blocks (structured
entries and legacy Signs), sections, and what is odd. A `### Sign:` without a name is told, not
read: a name made of its first line would change with every edit, and its id with it. Every line
costs one dispatch on its first character, so that 10 MB stay a fraction of a second (`bench/parse.py`).
"""

import re
from collections.abc import Callable

from ralph.formats.document import Entry, Problem
from ralph.formats.found import Block, Region, Section
from ralph.formats.metadata import DATE, Ahead, metadata_of, torn_metadata
from ralph.model.ids import ID

SIGN = re.compile(r"[^\w]{0,8}sign:\s*(?P<name>\S.*)", re.IGNORECASE)
_NAMELESS = re.compile(r"[^\w]{0,8}sign:", re.IGNORECASE)
_MINTED = re.compile(r"(?:<!--)?[ \t]*###[ \t]+[^\W\d_]\w*-[0-9]{10}-[0-9a-f]{4}(?!\w)")
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_CONFLICT = re.compile(r"(<{7}|>{7}|={7}|\|{7})(?: .*)?")
_USUAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    rf"<!-- tags:([^|>\n]*)\| created: ({DATE}) -->(?=\n|\Z)"
)
"""An entry as we write it: heading, quote, metadata, with nothing between; only for texts without CR."""

ReadUsual = Callable[[re.Match[str], str | None, int], Entry]
"""Makes the entry of such a match, below a heading, at a line."""


class Scan:
    """The result: blocks, sections and problems in file order.

    `fence` is the one that is never closed; `words` is the first line with text that belongs to no entry.
    """

    def __init__(self, text: str, usual: ReadUsual) -> None:
        self.blocks: list[Block | Entry] = []
        self._usual = usual
        self.sections: list[Section] = []
        self.regions: list[Region] = []
        self.problems: list[Problem] = []
        self._block: Block | None = None
        self._unread = False  # below a malformed id: its metadata is its own
        self._section: Section | None = None
        self.fence: str | None = None
        self.words = 0
        self._nameless: list[tuple[Section | None, Block]] = []
        self._ahead = Ahead(text)
        self._hidden = 0
        self._comment = False
        self._opened: tuple[int, int] = (0, 0)
        self._conflict: tuple[int, int] | None = None
        self._line = self._start = self._end = 0
        self._walk(text)

    @property
    def has_conflict(self) -> bool:
        """Whether a merge in this file waits to be resolved."""
        return any(problem.code == "conflict" for problem in self.problems)

    def _walk(self, text: str) -> None:
        """Line by line; an entry in its canonical form is taken in one step, as the slow way would read it."""
        place = 1 if text.startswith("\ufeff") else 0
        usual, length, quick = _USUAL.match, len(text), "\r" not in text
        while place <= length:
            self._line += 1
            if quick and text.startswith("###", place) and (found := usual(text, place)) and self._is_free():
                place = self._take_usual(found, found.end()) + 1
                continue
            end = text.find("\n", place)
            if end == place and self._block is None and self._is_free():
                place += 1
                continue
            if end < 0:
                end = length
            self._start = place
            self._end = end - 1 if end > place and text[end - 1] == "\r" else end
            self._feed(text[place : self._end])
            place = end + 1
        self._finish(length)

    def _is_free(self) -> bool:
        return self.fence is None and not self._comment and self._conflict is None

    def _take_usual(self, found: re.Match[str], end: int) -> int:
        section, heading = self._section, None
        if section is not None:
            heading, section.end, section.footer = section.heading, end, None
            section.entries += 1
        self.blocks.append(self._usual(found, heading, self._line))
        self._line += found[2].count("\n") + 2
        self._block, self._unread = None, False
        return end

    def _feed(self, line: str) -> None:
        first = line[:1]
        if self.fence is None and not self._comment:
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
        if "###" in line and _MINTED.match(line):
            self._hidden += 1
        if self._comment:
            if "-->" in line:
                self._comment = False
                self._tell_hidden("comment")
            return
        block = self._block
        if block is not None:
            self._take(block, line)
        bare = line.strip()
        if self.fence is not None and bare.startswith(self.fence) and not bare.strip(self.fence[0]):
            self.fence = None
            self._tell_hidden("fence")

    def _tell_hidden(self, what: str) -> None:
        """Entries in a comment or a fence are examples; but whoever put them there by mistake should hear of it."""
        if self._hidden:
            told = f"{self._hidden} entry heading(s) inside this {what} are examples and are not read"
            hint = f"nothing needs doing; to have them read, take them out of the {what}"
            self.problems.append(Problem(self._opened[0], told, hint, "note", f"entries-in-{what}"))
            self._hidden = 0

    def _quote(self, line: str) -> None:
        block = self._block
        if self._conflict is not None and _CONFLICT.fullmatch(line):
            self._marker(line)
        elif block is None:
            self.words = self.words or self._line
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
            if level == 3 and _OUR_PREFIX.match(bare) and ID.fullmatch(bare.rstrip()):
                self._block = None
                self._malformed(line, "there is no space after `###`")
            else:
                self._prose(line)
            return
        title = _closed(bare.strip())
        self._unread = False
        if level > 3 and self._block is not None and self._block.name:
            self._take(self._block, line)
            return
        if level != 3 and ID.fullmatch(title):
            self._malformed(line, "an entry's heading has three `#`")
        if level > 3:
            self._block = None
            return
        self._block = None
        if level == 3:
            self._entry(title)
        else:
            self._section = None
            if level == 2:
                self._section = Section(title, self._line, self._start, self._end)
                self.sections.append(self._section)

    def _entry(self, title: str) -> None:
        section = self._section
        sign = SIGN.fullmatch(title)
        if sign is not None:
            self._begin("", sign["name"].strip())
        elif ID.fullmatch(title):
            self._begin(title, "")
        elif _OUR_PREFIX.match(title):
            self._malformed(f"### {title}", "not an id of the form word-digits-hex")
        elif _NAMELESS.fullmatch(title):
            self._block = Block("", title, None, self._start, self._end, self._line)
            self._nameless.append((section, self._block))
        elif section is not None:
            section.titles += 1

    def _malformed(self, heading: str, why: str) -> None:
        self._unread = True
        self._problem(
            f"`{heading[:60]}`: {why}; the block is kept but not read",
            "write it as ### mem-1705751400-a3f8, or add it anew with `ralph memory add`",
            "error", "malformed-id",
        )  # fmt: skip

    def _begin(self, block_id: str, name: str) -> None:
        section = self._section
        heading = None
        if section is not None:
            heading = section.heading
            section.entries += 1
            section.footer = None
        self._unread = False
        self._block = Block(block_id, name, heading, self._start, self._end, self._line)
        self.blocks.append(self._block)

    def _open_comment(self, line: str) -> None:
        block = self._block
        closed = "-->" in line[2:]  # `<!-->` is a whole comment
        inner = metadata_of(line) if closed else self._torn(line)
        if inner is not None and block is not None and block.meta is None:
            block.meta = inner
            block.end = self._end
            return
        self._block = None
        if inner is None:
            self._opened = (self._line, self._start)
            self._hidden = 1 if _MINTED.match(line) else 0
            self._comment = not closed
            if closed:
                self._tell_hidden("comment")
        elif closed:
            if self._unread:
                self._unread = False
                return
            self._problem(
                "this metadata comment belongs to no entry", "move it below the quote of its entry",
                "note", "stray-metadata",
            )  # fmt: skip

    def _torn(self, line: str) -> str | None:
        """What metadata that are not closed before the next heading say so far; None for a comment of many lines."""
        inner = torn_metadata(line)
        if inner is None or self._ahead.closes(self._end):
            return None
        self._problem(
            "this metadata comment is not closed: it is read to the end of its line",
            "end the line with ` -->`", "error", "torn-metadata",
        )  # fmt: skip
        return inner

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
        block = self._block
        if line[:2] in ("- ", "* ") and self._section is not None and (block is None or block.meta is not None):
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
            self.words = self.words or self._line
        self._hidden = 0
        self.fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        self._opened = (self._line, self._start)
        if self._block is not None:  # an entry that never ends: nothing may be put between its lines
            self._opened = (self._line, self._block.start)

    def _rule(self) -> None:
        self._block = None
        if self._section is not None and self._section.footer is None:
            self._section.footer = self._section.end

    def _marker(self, line: str) -> None:
        """A git conflict marker: skipped, so that both sides' entries are read."""
        opens = line.startswith("<<<<<<<")
        if self._block is not None and self._block.torn is None and (opens or self._conflict is not None):
            self._block.torn = self._start
        if opens:
            self._conflict = (self._line, self._start)
            self._problem(
                "git conflict markers: both sides are read",
                "resolve the merge in this file",
                "error",
                "conflict",
            )
        elif self._conflict is None:
            self._prose(line)
        elif line.startswith(">>>>>>>"):
            self.regions.append(Region(self._conflict[1], self._end))
            self._conflict = None

    def _prose(self, line: str) -> None:
        block = self._block
        if block is None:
            self.words = self.words or self._line
        elif block.name or block.mark in ("", "plain"):
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
        if self.fence is not None or self._comment:
            what = "code fence" if self.fence is not None else "HTML comment"
            self.regions.append(Region(self._opened[1], length + 1))
            told = f"this {what} is never closed: entries after it are not read"
            self.problems.append(Problem(self._opened[0], told, f"close the {what}", "error", "unclosed"))
        if self._conflict is not None:
            self.regions.append(Region(self._conflict[1], length + 1))
        for section, block in self._nameless:
            if block.lines:
                hint = "give it one, as in `### Sign: Read the file first`"
                told = "this Sign has no name: it is kept but not read"
                self.problems.append(Problem(block.line, told, hint, "error", "nameless-sign"))
            elif section is not None:
                section.titles += 1

    def _problem(self, what: str, hint: str, level: str, code: str) -> None:
        self.problems.append(Problem(self._line, what, hint, level, code))


def _closed(title: str) -> str:
    """A heading without the `#` marks that may close it, as in `## Fixes ##`."""
    if not title.endswith("#"):
        return title
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title
