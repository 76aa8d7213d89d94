"""What may be in a file that a writer was killed over, known from what the writer said before it died."""

import random
import time
from pathlib import Path

from tests.conftest import Program
from tests.support.human_pages import ODD
from tests.support.writer import BLOCK, MARK, a_token, add, line_of, text_of

from ralph.formats.memories import parse_memories
from ralph.storage import files
from ralph.storage.library import Library


class MemoryLedger:
    """What may be in a memories.md: a person's text, acknowledged entries, and one change under way."""

    def __init__(self, root: Path, human: str) -> None:
        self.root, self.human = root, human
        self.path = root / ".agent" / "memories.md"
        self.path.parent.mkdir(parents=True)
        self.path.write_bytes(human.encode("utf-8", "surrogateescape"))
        self.hand_written = [entry.record for entry in parse_memories(human).entries]
        assert human is ODD or {problem.level for problem in parse_memories(human).problems} <= {
            "note"
        }
        self.problems = [(problem.code, problem.what) for problem in parse_memories(human).problems]
        self.tokens: dict[str, str] = {}
        self.under_way: tuple[str, str, str] | None = None

    def book(self, words: list[str]) -> bool:
        """Note what the writer said; True for an acknowledgement."""
        if words[0] == "try":
            self.under_way = words[1], words[2], words[3]
        elif words[0] == "did":
            _, verb, record_id, token = words
            if verb == "remove":
                del self.tokens[record_id]
            else:
                self.tokens[record_id] = token
            self.under_way = None
        return words[0] == "did"

    def check(self) -> None:
        """The file is what was acknowledged, with or without the change that was under way."""
        text = self.path.read_bytes().decode("utf-8", "surrogateescape")
        assert BLOCK.sub("", text) == self.human
        document = parse_memories(text)
        assert [(problem.code, problem.what) for problem in document.problems] == self.problems
        records = [entry.record for entry in document.entries]
        assert [
            record for record in records if not record.text.startswith(MARK)
        ] == self.hand_written
        found = {record.id: record.text for record in records if record.text.startswith(MARK)}
        if self.under_way is not None:
            self._settle(found, *self.under_way)
        assert found == {record_id: text_of(token) for record_id, token in self.tokens.items()}

    def _settle(self, found: dict[str, str], verb: str, record_id: str, token: str) -> None:
        """Take over what became of the change that nobody acknowledged: both ends are right."""
        self.under_way = None
        if verb == "remove" and record_id not in found:
            del self.tokens[record_id]
        elif verb != "remove":
            self.tokens.update(
                {new_id: token for new_id, text in found.items() if text == text_of(token)}
            )

    def check_sweep(self) -> None:
        """The next write takes away what the dead one left; adding and removing gives back each byte."""
        before = self.path.read_bytes()
        library = Library(self.root)
        library.remove(library.memories, add(library, a_token(0)))
        assert files.leftovers(self.path.parent) == []
        assert self.path.read_bytes() == before


class LogLedger:
    """What may be in a log: acknowledged lines in order, and a beginning of the one under way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected = b""
        self.acknowledged: list[str] = []
        self.under_way = ""

    def book(self, words: list[str]) -> bool:
        """Note what the writer said; True for an acknowledgement."""
        if words[0] == "try":
            self.under_way = words[1]
        elif words[0] == "did":
            self.acknowledged.append(words[1])
            self.under_way = ""
        return words[0] == "did"

    def check(self) -> bool:
        """The file has grown by what was acknowledged and a part of the line under way; True if it is torn."""
        content = self.path.read_bytes() if self.path.exists() else b""
        closing = b"\n" if self.expected and not self.expected.endswith(b"\n") else b""
        sure = "".join(line_of(token) for token in self.acknowledged).encode()
        perhaps = line_of(self.under_way).encode() if self.under_way else b""
        least = self.expected + (closing + sure if sure else b"")
        assert content.startswith(least)
        assert (self.expected + closing + sure + perhaps).startswith(content)
        self.expected, self.acknowledged, self.under_way = content, [], ""
        return bool(content) and not content.endswith(b"\n")


def kill_at_random(program: Program, ledger: MemoryLedger | LogLedger) -> None:
    """Book what the writer says; kill it some acknowledged changes later, at any moment of the next change."""
    program.start_child()
    to_go, took, began = random.randint(1, 5), [0.0], 0.0
    while True:
        words = program.read_words()
        assert words[0] in ("try", "did"), "the writer ended by itself"
        if ledger.book(words):
            to_go -= 1
            took.append(time.monotonic() - began)
        elif to_go <= 0:
            break
        began = time.monotonic()
    time.sleep(random.uniform(0, min(random.choice(took), 0.1)))
    for words in program.kill_child():
        ledger.book(words)
