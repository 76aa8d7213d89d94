"""Scanner for memories.md and guardrails.md: finds entries, sections and metadata comments.

It knows what markdown knows: a heading inside a fence, an HTML comment or a quote is text. An entry
in the form that Ralph writes is read by one regex, everything else line by line, so that 10 MB take
a fraction of a second. A `### Sign:` without a name is reported, not read: its id would change with
every edit. Metadata are pairs of `key: value` separated by `|`; unknown keys are kept.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ralph.formats.text import DATE, Entry, Problem
from ralph.model.ids import ID
from ralph.model.record import SECTIONS, kind_of

METADATA_KEYS = frozenset({"tags", "created", "updated", "supersedes", "valid-until", "source", "by"})
_HALF_CLOSED = (" -- >", " ->", " --", " -")
_COMMENT_END = re.compile(r"-->|\n {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)")


def closed_metadata(line: str) -> str | None:
    """The inside of a one-line metadata comment, or None when the comment is something else."""
    comment = line.rstrip()
    if comment[:4] != "<!--" or comment[-3:] != "-->" or len(comment) < 7:
        return None
    inner = comment[4:-3].strip()
    if "-->" in inner:
        inner = inner.replace("-->", "|").replace("<!--", "")
    if inner.startswith("tags:") or any(_has_known_key(part) for part in inner.split("|")):
        return inner
    return None


def _has_known_key(part: str) -> bool:
    key, colon, _ = part.partition(":")
    return bool(colon) and key.strip().lower() in METADATA_KEYS


@dataclass(slots=True)
class MemoryBlock:
    """A structured entry (it has an id) or a Sign (it has a name) while it is being read."""

    id: str
    name: str
    section: str | None
    start: int
    end: int
    line: int
    lines: list[str] = field(default_factory=list)
    blanks: int = 0
    meta: str | None = None
    form: str = ""  # of its text so far: "", `quote`, or `unquoted` when a person forgot the quote marks
    has_lazy_line: bool = False
    heading_added: bool = False  # `add` created the section's heading for it, so that both go together
    conflict: int | None = None  # the position of the first conflict marker in the open block


@dataclass(slots=True)
class MemorySection:
    """A `## heading`: its span and where the next entry goes."""

    heading: str
    line: int
    start: int
    end: int
    footer: int | None = None
    entries: int = 0
    bullets: int = 0
    titles: int = 0

    @property
    def canonical(self) -> str:
        """The canonical heading of this section, whatever its case and number; "" for any other word."""
        kind = kind_of(self.heading)
        if kind is None or " ".join(self.heading.lower().split()) not in (kind.value, SECTIONS[kind].lower()):
            return ""
        return SECTIONS[kind]

    @property
    def insert_at(self) -> int:
        """The end of the last line that belongs to the section's entries; a closing rule stays below."""
        return self.end if self.footer is None else self.footer


_SIGN = re.compile(r"[^\w]{0,8}sign:\s*(?P<name>\S.*)", re.IGNORECASE)
_NAMELESS = re.compile(r"[^\w]{0,8}sign:", re.IGNORECASE)
_MINTED = re.compile(r"(?:<!--)?[ \t]*###[ \t]+[^\W\d_]\w*-[0-9]{10}-[0-9a-f]{4}(?!\w)")
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_CONFLICT = re.compile(r"(<{7}|>{7}|={7}|\|{7})(?: .*)?")
# an entry as Ralph writes it, with nothing between its parts; only for texts without CR
_CANONICAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    rf"<!-- tags:([^|>\n]*)\| created: ({DATE}) -->(?=\n|\Z)"
)

_PROBLEMS = {
    "bad-date": ("warning", "`created: {}` is not a date", "write it as YYYY-MM-DD"),
    "conflict": ("error", "git conflict markers: both sides are read", "resolve the merge in this file"),
    "double-section": ("note", "the section `## {}` is already at line {}", "move its entries there"),
    "duplicate-id": (
        "error",
        "the id {} is already used at line {}",
        "{}run `ralph doctor --fix` to give it a new one",
    ),
    "entries-in-comment": ("note", "{} entry heading(s) in this comment are not read", "leave examples as they are"),
    "entries-in-fence": ("note", "{} entry heading(s) in this fence are not read", "leave examples as they are"),
    "foreign-section": ("note", "`## {}` is not one of our sections: it becomes a label", "nothing needs doing"),
    "lazy-quote": ("warning", "a line without `>` follows the quote and is read as part of it", "begin it with `> `"),
    "loose-bullets": (
        "note",
        "{} bullet(s) under `## {}` are not read",
        "add them with `ralph memory add`, or leave them",
    ),
    "malformed-id": ("error", "`{}`: {}; the block is kept but not read", "write it as ### mem-1705751400-a3f8"),
    "missing-section": ("note", "missing section(s): {}", "the first entry or `ralph doctor --fix` creates them"),
    "nameless-sign": ("error", "this Sign has no name: it is kept but not read", "write `### Sign: <name>`"),
    "no-quote": ("warning", "the text of this entry is not a quote", "begin each of its lines with `> `"),
    "no-text": ("warning", "this entry has no text", "write it below the heading, after `> `"),
    "not-utf8": ("error", "bytes that are not UTF-8", "save the file as UTF-8"),
    "nothing-read": ("note", "there is text, but no entries in it", "add one with `ralph memory add`, or leave it"),
    "nul": ("warning", "a NUL character", "remove it"),
    "path-line": ("error", "the first line is a path, maybe of a symbolic link", "restore the file from git history"),
    "plain-heading": (
        "note",
        "{} heading(s) without an id under `## {}`",
        "add them with `ralph memory add`, or leave them",
    ),
    "stray-metadata": ("note", "this metadata comment belongs to no entry", "move it below the quote of its entry"),
    "torn-metadata": ("error", "this metadata comment is not closed: it is read to the line's end", "write ` -->`"),
    "unclosed": ("error", "this {0} is never closed: entries after it are not read", "close the {0}"),
}


def memory_problem(line: int, code: str, *values: object) -> Problem:
    """The Problem of this code; the values fill the text, or the hint where the text takes none."""
    level, what, hint = _PROBLEMS[code]
    used = 0 if "{0}" in what else what.count("{}")
    return Problem(line, what.format(*values), hint.format(*values[used:]), level, code)


ReadCanonical = Callable[[re.Match[str], str | None, int], Entry]
"""Makes the entry of a canonical match, below a heading, at a line."""


class MemoryScan:
    """The blocks, sections and problems of a file, in file order.

    `fence` is the one that is never closed; `first_text` is the first line with text that belongs to no entry.
    """

    def __init__(self, text: str, read_canonical: ReadCanonical) -> None:
        self.blocks: list[MemoryBlock | Entry] = []
        self._read_canonical = read_canonical
        self.sections: list[MemorySection] = []
        # where nothing may be inserted: conflicts, and unclosed fences or comments (to beyond the end)
        self.regions: list[tuple[int, int]] = []
        self.problems: list[Problem] = []
        self._block: MemoryBlock | None = None
        self._unread = False  # below a malformed id: its metadata is its own
        self._section: MemorySection | None = None
        self.fence: str | None = None
        self.first_text = 0
        self._nameless: list[tuple[MemorySection | None, MemoryBlock]] = []
        self._text = text
        self._comment_end, self._comment_closes = -1, False
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
        at = 1 if text.startswith("\ufeff") else 0
        match_canonical, length, has_no_cr = _CANONICAL.match, len(text), "\r" not in text
        while at <= length:
            self._line += 1
            if has_no_cr and text.startswith("###", at) and (match := match_canonical(text, at)) and self._is_free():
                at = self._append_canonical(match) + 1
                continue
            end = text.find("\n", at)
            if end == at and self._block is None and self._is_free():
                at += 1
                continue
            if end < 0:
                end = length
            self._start = at
            self._end = end - 1 if end > at and text[end - 1] == "\r" else end
            self._feed(text[at : self._end])
            at = end + 1
        self._finish(length)

    def _is_free(self) -> bool:
        return self.fence is None and not self._comment and self._conflict is None

    def _append_canonical(self, match: re.Match[str]) -> int:
        heading = self._count_entry()
        if self._section is not None:
            self._section.end = match.end()
        self.blocks.append(self._read_canonical(match, heading, self._line))
        self._line += match[2].count("\n") + 2
        self._block, self._unread = None, False
        return match.end()

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
                self._report_hidden("comment")
            return
        if self._block is not None:
            self._append(self._block, line)
        mark = line.strip()
        if self.fence is not None and mark.startswith(self.fence) and not mark.strip(self.fence[0]):
            self.fence = None
            self._report_hidden("fence")

    def _report_hidden(self, container: str) -> None:
        """Report entries in a comment or a fence: they are examples, but may be there by mistake."""
        if self._hidden:
            self.problems.append(memory_problem(self._opened[0], f"entries-in-{container}", self._hidden))
            self._hidden = 0

    def _quote(self, line: str) -> None:
        block = self._block
        if self._conflict is not None and _CONFLICT.fullmatch(line):
            self._marker(line)
        elif block is None:
            self.first_text = self.first_text or self._line
        elif block.name:
            self._append(block, line)
        elif block.meta is not None or block.form == "unquoted":
            self._block = None
        else:
            if block.form:
                block.lines.extend([""] * block.blanks)
            block.form, block.blanks = "quote", 0
            block.lines.append(line[2:] if line[1:2] == " " else line[1:])
            block.end = self._end

    def _heading(self, line: str) -> None:
        content = line.lstrip("#")
        level = len(line) - len(content)
        if level > 6 or (content and content[0] not in " \t"):
            if level == 3 and _OUR_PREFIX.match(content) and ID.fullmatch(content.rstrip()):
                self._block = None
                self._malformed(line, "there is no space after `###`")
            else:
                self._prose(line)
            return
        title = content.strip()
        if (unmarked := title.rstrip("#")) != title and unmarked[-1:] in ("", " ", "\t"):  # as in `## Fixes ##`
            title = unmarked.rstrip()
        self._unread = False
        if level > 3 and self._block is not None and self._block.name:
            self._append(self._block, line)
            return
        if level != 3 and ID.fullmatch(title):
            self._malformed(line, "an entry's heading has three `#`")
        self._block = None
        if level == 3:
            self._entry(title)
        elif level < 3:
            self._section = None
            if level == 2:
                self._section = MemorySection(title, self._line, self._start, self._end)
                self.sections.append(self._section)

    def _entry(self, title: str) -> None:
        section = self._section
        sign = _SIGN.fullmatch(title)
        if sign is not None:
            self._begin("", sign["name"].strip())
        elif ID.fullmatch(title):
            self._begin(title, "")
        elif _OUR_PREFIX.match(title):
            self._malformed(f"### {title}", "not an id of the form word-digits-hex")
        elif _NAMELESS.fullmatch(title):
            self._block = MemoryBlock("", title, None, self._start, self._end, self._line)
            self._nameless.append((section, self._block))
        elif section is not None:
            section.titles += 1

    def _malformed(self, heading: str, why: str) -> None:
        self._unread = True
        self.problems.append(memory_problem(self._line, "malformed-id", heading[:60], why))

    def _begin(self, block_id: str, name: str) -> None:
        self._unread = False
        self._block = MemoryBlock(block_id, name, self._count_entry(), self._start, self._end, self._line)
        self.blocks.append(self._block)

    def _count_entry(self) -> str | None:
        """Count an entry of the open section, and return its heading."""
        section = self._section
        if section is None:
            return None
        section.entries += 1
        section.footer = None
        return section.heading

    def _open_comment(self, line: str) -> None:
        block = self._block
        closed = "-->" in line[2:]  # `<!-->` is a whole comment
        inner = closed_metadata(line) if closed else self._torn(line)
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
                self._report_hidden("comment")
        elif closed:
            if not self._unread:
                self.problems.append(memory_problem(self._line, "stray-metadata"))
            self._unread = False

    def _torn(self, line: str) -> str | None:
        """The metadata of a comment that is not closed before the next heading; None for any other comment."""
        inner = line[4:].strip()
        if not _has_known_key(inner):
            return None
        if self._comment_end < self._end:  # cached, so that each character is read once
            match = _COMMENT_END.search(self._text, self._end)
            self._comment_end = match.start() if match is not None else len(self._text)
            self._comment_closes = match is not None and match[0] == "-->"
        if self._comment_closes:
            return None
        self.problems.append(memory_problem(self._line, "torn-metadata"))
        half = next((half for half in _HALF_CLOSED if inner.endswith(half)), "")
        return inner.removesuffix(half).rstrip()

    def _marked(self, line: str) -> None:
        """A line whose first character may be a marker: indentation, a fence, a rule, a conflict marker, a bullet."""
        first = line[0]
        if first == " ":
            content = line.lstrip(" ")
            if len(line) - len(content) <= 3 and content[:1] in "#><`~-*_":
                self._indented(line, content)
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

    def _indented(self, line: str, content: str) -> None:
        """Up to three spaces change nothing in markdown; within a Sign they are part of a list."""
        block = self._block
        if _FENCE.fullmatch(content):
            self._open_fence(line, content)
        elif block is not None and block.name:
            self._append(block, line)
        elif content[0] == "#":
            self._heading(content)
        elif content[0] == ">":
            self._quote(content)
        elif content.startswith("<!--"):
            self._open_comment(content)
        elif _RULE.fullmatch(content.rstrip()):
            self._rule()
        else:
            self._prose(line)

    def _open_fence(self, line: str, content: str) -> None:
        block = self._block
        if block is not None and (block.name or block.form in ("", "unquoted")):
            self._append_unquoted(block, line)
        else:
            self._block = None
            self.first_text = self.first_text or self._line
        self._hidden = 0
        self.fence = content[: len(content) - len(content.lstrip(content[0]))]
        # nothing may be put between the lines of an entry that never ends
        self._opened = (self._line, self._start if self._block is None else self._block.start)

    def _rule(self) -> None:
        self._block = None
        if self._section is not None and self._section.footer is None:
            self._section.footer = self._section.end

    def _marker(self, line: str) -> None:
        """A git conflict marker: skipped, so that both sides' entries are read."""
        opens = line.startswith("<<<<<<<")
        if self._block is not None and self._block.conflict is None and (opens or self._conflict is not None):
            self._block.conflict = self._start
        if opens:
            self._conflict = (self._line, self._start)
            self.problems.append(memory_problem(self._line, "conflict"))
        elif self._conflict is None:
            self._prose(line)
        elif line.startswith(">>>>>>>"):
            self.regions.append((self._conflict[1], self._end))
            self._conflict = None

    def _prose(self, line: str) -> None:
        block = self._block
        if block is None:
            self.first_text = self.first_text or self._line
        elif block.name or block.form in ("", "unquoted"):
            self._append_unquoted(block, line)
        elif block.meta is None and not block.blanks:
            block.has_lazy_line = True
            block.lines.append(line)
            block.end = self._end
        else:
            self._block = None

    def _append_unquoted(self, block: MemoryBlock, line: str) -> None:
        if block.meta is not None:
            self._block = None
            return
        if not block.name:
            block.form = "unquoted"
        self._append(block, line)

    def _append(self, block: MemoryBlock, line: str) -> None:
        """Add a line to a Sign's body or to text that lacks its quote marks."""
        if block.lines:
            block.lines.extend([""] * block.blanks)
        block.blanks = 0
        block.lines.append(line)
        block.end = self._end

    def _finish(self, length: int) -> None:
        if self.fence is not None or self._comment:
            container = "code fence" if self.fence is not None else "HTML comment"
            self.regions.append((self._opened[1], length + 1))
            self.problems.append(memory_problem(self._opened[0], "unclosed", container))
        if self._conflict is not None:
            self.regions.append((self._conflict[1], length + 1))
        for section, block in self._nameless:
            if block.lines:
                self.problems.append(memory_problem(block.line, "nameless-sign"))
            elif section is not None:
                section.titles += 1
