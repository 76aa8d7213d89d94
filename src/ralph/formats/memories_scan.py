"""Scanner for memories.md and guardrails.md: finds entries, sections and metadata comments.

It knows what markdown knows: a heading inside a fence, an HTML comment or a quote is text. An entry
in the form that Ralph writes is read by one regex, everything else line by line, so that 10 MB take
a fraction of a second. A `### Sign:` without a name is reported, not read: its id would change with
every edit. Metadata are pairs of `key: value` separated by `|`; unknown keys are kept.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ralph.errors import Refused
from ralph.formats.text import DATE, Entry, Problem
from ralph.model.ids import ID
from ralph.model.record import NO_EXTRA, SECTIONS, Link, Origin, Record, Status, kind_of

SECTION_ADDED = " | section: added"
"""Ends the comment of an entry that was written together with its section's heading."""

_MOMENT = re.compile(DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")
_KEYS = frozenset({"tags", "created", "updated", "supersedes", "valid-until", "source", "by"})
_HALF_CLOSED = (" -- >", " ->", " --", " -")
_HEADING = re.compile(r"\n {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)")


def closed_metadata(line: str) -> str | None:
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
        if colon and key.strip().lower() in _KEYS:
            return inner
    return None


def unclosed_metadata(line: str) -> str | None:
    """What a comment without its `-->` says so far, or None when it does not begin with a key that we know."""
    bare = line[4:].strip()
    key, colon, _ = bare.partition(":")
    if not colon or key.strip().lower() not in _KEYS:
        return None
    for half in _HALF_CLOSED:
        if bare.endswith(half):
            return bare[: -len(half)].rstrip()
    return bare


class CommentLookahead:
    """Whether a comment that is open at some place is closed before the next heading.

    Asked from top to bottom, it remembers the next `-->` and the next heading, so that each character is looked
    at once, however many comments are torn.
    """

    __slots__ = ("_close", "_heading", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._close = self._heading = -1

    def closes(self, at: int) -> bool:
        """Whether a `-->` comes after `at` and before any heading."""
        never = len(self._text)
        if self._close < at:
            found = self._text.find("-->", at)
            self._close = found if found >= 0 else never
        if self._heading < at:
            heading = _HEADING.search(self._text, at)
            self._heading = heading.start() if heading is not None else never
        return self._close < self._heading


def parse_tags(words: str) -> tuple[str, ...]:
    """Tags as they stand between commas."""
    return tuple([tag.strip() for tag in words.split(",") if tag and not tag.isspace()])


def apply_metadata(plain: Record, inner: str) -> Record:
    """The record with what a comment says of it; unknown keys are kept in `extra`."""
    known: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for part in inner.split("|"):
        word, colon, value = part.partition(":")
        word, value = word.strip(), value.strip()
        key = word.lower()
        if key == "tags" and colon:
            known["tags"] = parse_tags(value)
        elif key == "created" and _MOMENT.fullmatch(value):
            known["created_at"] = value
        elif key == "supersedes" and value:
            links.append(Link("supersedes", value))
        elif key == "valid-until" and value:
            known["valid_until"] = value
        elif key == "updated" and value:
            known["updated_at"] = value
        elif key == "by" and value:
            known["origin"] = Origin(by=value)
        elif key == "status" and value.lower() == Status.RETIRED.value:
            known["status"] = Status.RETIRED
        elif word or value:
            extra[key if key in _KEYS else word] = value if colon else None
    return replace(plain, links=tuple(links), extra=extra or NO_EXTRA, **known)


def render_metadata(record: Record, *, made: bool = False) -> str:
    """The comment that says what a record's metadata are; `made`: its section's heading was made for it."""
    pairs = [key if value is None else f"{key}: {value}" for key, value in _metadata_pairs(record)]
    inner = " | ".join([f"tags: {', '.join(record.tags)}", *pairs])
    return f"<!-- {inner}{SECTION_ADDED if made else ''} -->"


def check_metadata(record: Record) -> None:
    """Refuse tags and values that cannot stand in the comment."""
    for words in (record.tags, *_metadata_pairs(record)):
        for word in words:
            if word and ("-->" in word or any(mark in word for mark in "|\n\r\0")):
                hint = "leave out `|`, `-->` and line breaks"
                raise Refused(f"{word!r} cannot stand in the metadata comment", hint=hint)
    for tag in record.tags:
        if "," in tag or not tag.strip() or tag != tag.strip():
            raise Refused(f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces")


def _metadata_pairs(record: Record) -> list[tuple[str, str | None]]:
    """The metadata after the tags."""
    pairs: list[tuple[str, str | None]] = [("created", record.created_at)] if record.created_at else []
    if record.updated_at:
        pairs.append(("updated", record.updated_at))
    if record.links:
        pairs.extend(("supersedes", link.target) for link in record.links if link.relation == "supersedes")
    if record.valid_until:
        pairs.append(("valid-until", record.valid_until))
    if record.origin.by:
        pairs.append(("by", record.origin.by))
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    if record.extra is not NO_EXTRA:
        pairs.extend((key, None if value is None else str(value)) for key, value in record.extra.items())
    return pairs


class MemoryBlock:
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
class MemorySection:
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
class ProtectedSpan:
    """A stretch in which nothing may be inserted: a conflict, or an unclosed fence or comment (to beyond the end)."""

    start: int
    end: int


SIGN = re.compile(r"[^\w]{0,8}sign:\s*(?P<name>\S.*)", re.IGNORECASE)
_NAMELESS = re.compile(r"[^\w]{0,8}sign:", re.IGNORECASE)
_MINTED = re.compile(r"(?:<!--)?[ \t]*###[ \t]+[^\W\d_]\w*-[0-9]{10}-[0-9a-f]{4}(?!\w)")
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_CONFLICT = re.compile(r"(<{7}|>{7}|={7}|\|{7})(?: .*)?")
_CANONICAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    rf"<!-- tags:([^|>\n]*)\| created: ({DATE}) -->(?=\n|\Z)"
)
"""An entry as we write it: heading, quote, metadata, with nothing between; only for texts without CR."""

ReadCanonical = Callable[[re.Match[str], str | None, int], Entry]
"""Makes the entry of such a match, below a heading, at a line."""


class MemoryScan:
    """The result: blocks, sections and problems in file order.

    `fence` is the one that is never closed; `words` is the first line with text that belongs to no entry.
    """

    def __init__(self, text: str, usual: ReadCanonical) -> None:
        self.blocks: list[MemoryBlock | Entry] = []
        self._usual = usual
        self.sections: list[MemorySection] = []
        self.regions: list[ProtectedSpan] = []
        self.problems: list[Problem] = []
        self._block: MemoryBlock | None = None
        self._unread = False  # below a malformed id: its metadata is its own
        self._section: MemorySection | None = None
        self.fence: str | None = None
        self.words = 0
        self._nameless: list[tuple[MemorySection | None, MemoryBlock]] = []
        self._ahead = CommentLookahead(text)
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
        usual, length, quick = _CANONICAL.match, len(text), "\r" not in text
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
                self._section = MemorySection(title, self._line, self._start, self._end)
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
            self._block = MemoryBlock("", title, None, self._start, self._end, self._line)
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
        self._block = MemoryBlock(block_id, name, heading, self._start, self._end, self._line)
        self.blocks.append(self._block)

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
        inner = unclosed_metadata(line)
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
            self.regions.append(ProtectedSpan(self._conflict[1], self._end))
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

    def _plain(self, block: MemoryBlock, line: str) -> None:
        if block.meta is not None:
            self._block = None
            return
        if not block.name:
            block.mark = "plain"
        self._take(block, line)

    def _take(self, block: MemoryBlock, line: str) -> None:
        """Add a line to a Sign's body or to text that lacks its quote marks."""
        if block.lines:
            block.lines.extend([""] * block.blanks)
        block.blanks = 0
        block.lines.append(line)
        block.end = self._end

    def _finish(self, length: int) -> None:
        if self.fence is not None or self._comment:
            what = "code fence" if self.fence is not None else "HTML comment"
            self.regions.append(ProtectedSpan(self._opened[1], length + 1))
            told = f"this {what} is never closed: entries after it are not read"
            self.problems.append(Problem(self._opened[0], told, f"close the {what}", "error", "unclosed"))
        if self._conflict is not None:
            self.regions.append(ProtectedSpan(self._conflict[1], length + 1))
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
