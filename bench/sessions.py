"""Generate sessions of a coding agent, as the event lines that hooks write.

The mix is that of a published count over one developer's 3,853 calls (Bash 36%, Edit and Write 32%, Read, Grep and
Glob 24%, all others 8%; 7% failed). Lengths are log-normal guesses: commands about 60 characters, outputs 300, diffs
400, whole files 1,500, prompts 200, last messages 700. Paths have 36 characters on average (this repository: 32; the
457 paths in public notes and memory files: 25). Words follow Zipf's law over 30,000 everyday words,
made-up words and identifiers. The same size always gives the same sessions.
"""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from ralph.lean.secret_rules import rules_mark

CALLS = 60
"""Tool calls per session."""

TURNS = 4
"""Prompts per session, each with a last message."""

SESSION = CALLS + 2 * TURNS
"""Events per session."""

LIMIT = 2000
"""Characters of the longest output or diff, without its note about what was cut."""

_VOCABULARY = 30_000
_ROOTS = 9_000
_SUBJECT = 10
_FOCUS = 0.6
_PATHS = 4_000
_FOLDER_NAMES = 200
_SEED = 20_251_231
ASKABLE = re.compile(r"[A-Za-z]\w{2,}")
"""A word that a question may contain."""
_COMMON = (
    "the to a of in and is for it on with that this was not from by as be are an at or if when file test error "
    "run use new add fix set get code line value type name path config default call return change update build "
    "server client request response database query table index cache token user key list string number failed "
    "passed expected found missing import module function class method argument option version release branch "
    "commit merge review deploy production staging timeout retry connection memory thread lock queue worker job"
)
_STARTS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "br",
    "cl",
    "dr",
    "fl",
    "gr",
    "pl",
    "st",
    "tr",
]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
_ENDS = ("", "n", "r", "s", "t", "l", "nd", "rk")
_COMMANDS = ("pytest -q {path}", "git diff {path}", "git log --oneline -n {n} -- {path}", "npm run {a}",
             "ls -la {path}", "grep -rn {a} {path}", "sed -n {n},{n}p {path}", "cargo test {a}", "make {a}",
             "python -m {a} --{b} {n}", "cd {path} && docker compose logs {a} | tail -n {n}",
             "curl -s localhost:{n}/{a}/{b}")  # fmt: skip
_OUTPUT = ("{path}::{a} PASSED [{n}%]", "{path}:{n}:{n}: error: {prose}", '  File "{path}", line {n}, in {a}',
           "{hash} {prose}", "-rw-r--r-- 1 dev dev {n} Mar {n} 10:{n} {a}.py", "{path}:{n}:    {code}", "{code}",
           "2025-03-12T10:{n}:{n}Z INFO {a}: {prose} {b}={n}", "{prose}", "E   {c}: {prose}", "{a} {n} {n} {hash}",
           "added {n} packages, {prose}", "{n} passed, {n} failed in {n}.{n}s", "warning: {a} {prose}")  # fmt: skip
_CODE = ("def {a}({b}: {c}, {d}: int = {n}) -> {c}:", "{a} = {b}.{d}({e}, {n})", "return {a}[{b}]", "self.{a} = {b}",
         'raise {c}("{prose}")', "if {a} is not None and {b} > {n}:", "from {a}.{b} import {d}, {e}", "# {prose}",
         "const {a} = await {b}({d}, {{ {e}: {n} }});", "for {a} in {b}.{d}():", "assert {a}({b}) == {n}",
         'logger.info("{prose}", {a}={b})', "}}", "")  # fmt: skip


class Words:
    """A source of text: the same size always gives the same words."""

    def __init__(self, size: int) -> None:
        self.random = random.Random(_SEED + size)
        self._words = _vocabulary()
        self._weights = list(
            itertools.accumulate(1 / (rank + 8) for rank in range(len(self._words)))
        )
        self._files = [self._new_path() for _ in range(_PATHS)]
        self._file_weights = self._weights[:_PATHS]
        self._asked: list[str] = []
        self._turn()

    def session(self, name: str, count: int, start: datetime, folder: Path) -> Iterator[str]:
        """Yield up to this number of event lines of one session, fifteen seconds apart."""
        turn = SESSION // TURNS
        for number in range(count):
            self._turn()
            if number % turn == 0:
                event, members, text = self._prompt()
            elif number % turn == turn - 1:
                event, members, text = self._message()
            else:
                event, members, text = self._call(folder)
            if self.random.random() < 0.01 or len(self._asked) < 10:
                self._asked.append(text)
            at = start + timedelta(
                seconds=15 * number, microseconds=self.random.randrange(1_000_000)
            )
            payload = {
                "session_id": name,
                "transcript_path": f"/home/dev/.claude/projects/x/{name}.jsonl",
                "cwd": str(folder),
                "permission_mode": "default",
                "hook_event_name": event,
                **members,
            }
            encoded = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
            stamp = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
            head = (
                f'{{"v": 1, "type": "event", "at": "{stamp}", "host": "claude", "event": "{event}"'
            )
            yield f'{head}, "rules": "{rules_mark(())}", "payload": {encoded}}}\n'

    def _call(self, folder: Path) -> tuple[str, dict[str, object], str]:
        """Return a tool call as a hook records it: the event, the payload's members, and a text to query."""
        share, failed = self.random.random(), self.random.random() < 0.07
        path = self.path()
        parameters: dict[str, object] = {"file_path": f"{folder}/{path}"}
        if share < 0.24:
            tool = self.random.choice(("Read", "Read", "Read", "Grep", "Glob"))
            if tool != "Read":
                parameters = {"pattern": self._some(1)[0], "path": f"{folder}/{path}"}
            answer: dict[str, object] = {}  # hooks do not record what was read
            text = path
        elif share < 0.60:
            tool, command = "Bash", self._line(self.random.choice(_COMMANDS))
            lines = self.random.sample(_OUTPUT, self.random.randint(1, 3))
            text = self._lines(self.length(300, 1.5), lambda: self._line(self.random.choice(lines)))
            parameters = {"command": command, "description": self.prose(5)}
            answer = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
            text = f"{command}\n{text}"
        elif share < 0.92:
            tool, middle = ("Edit", 400) if self.random.random() < 0.79 else ("Write", 1500)
            text = self._lines(self.length(middle, 1.0), self._changed)
            hunk = text.split("\n")
            before, after = (
                "\n".join(line[1:] for line in hunk if line[:1] != sign) for sign in "+-"
            )
            edit = {"old_string": before, "new_string": after}
            parameters |= edit if tool == "Edit" else {"content": after}
            answer = {
                "filePath": f"{folder}/{path}",
                "structuredPatch": [{"oldStart": 1, "lines": hunk}],
            }
        else:
            tool, text = "Task", self._lines(self.length(200, 1.0), lambda: self.prose(12))
            parameters = {"description": self.prose(6), "prompt": self.prose(20)}
            answer = {"content": [{"type": "text", "text": text}]}
        members: dict[str, object] = {"tool_name": tool, "tool_input": parameters}
        members["tool_use_id"] = f"toolu_{self.random.getrandbits(64):016x}"
        if failed:
            return "PostToolUseFailure", {**members, "error": f"Exit code 1\n{text}"}, text
        return "PostToolUse", {**members, "tool_response": answer}, text

    def _prompt(self) -> tuple[str, dict[str, object], str]:
        text = self._lines(self.length(200, 1.0), lambda: self.prose(14))
        return "UserPromptSubmit", {"prompt": text}, text

    def _message(self) -> tuple[str, dict[str, object], str]:
        text = self._lines(self.length(700, 0.8), lambda: self.prose(14))
        return "Stop", {"stop_hook_active": False, "last_assistant_message": text}, text

    def name(self) -> str:
        """Return a session id like those of hosts."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def question(self) -> str:
        """Return three to eight words of an earlier text."""
        words = ASKABLE.findall(self.random.choice(self._asked)) or ["database"]
        return " ".join(self.random.sample(words, min(self.random.randint(3, 8), len(words))))

    def prose(self, count: int) -> str:
        """Return about this number of words, including identifiers and an occasional path."""
        words = self._some(self.random.randint(count // 2, count))
        return " ".join([*words, self.path()] if self.random.random() < 0.1 else words)

    def path(self) -> str:
        """Return one of the few files that a text names; a few of the project's files are named often."""
        return self.random.choice(self._places)

    def length(self, middle: float, spread: float) -> int:
        """Return a random length in characters with this median."""
        return int(self.random.lognormvariate(0, spread) * middle) + 1

    def _lines(self, length: int, line: Callable[[], str]) -> str:
        """Return lines with this total number of characters; text that is too long keeps its head and tail."""
        made: list[str] = []
        size = 0
        while size < min(length, LIMIT):
            made.append(line())
            size += len(made[-1]) + 1
        text = "\n".join(made)[: min(length, LIMIT)]
        if length <= LIMIT:
            return text
        return f"{text[: LIMIT * 2 // 3]}\n[{length - LIMIT} characters left out]\n{text[LIMIT * 2 // 3 :]}"

    def _turn(self) -> None:
        """Switch to another subject."""
        self._subject = self._drawn(_SUBJECT)
        self._places = self.random.choices(self._files, cum_weights=self._file_weights, k=3)

    def _some(self, count: int) -> list[str]:
        """Return this number of words, about half of them from the text's subject."""
        drawn = self._drawn(count)
        return [
            self.random.choice(self._subject) if self.random.random() < _FOCUS else word
            for word in drawn
        ]

    def _drawn(self, count: int) -> list[str]:
        return self.random.choices(self._words, cum_weights=self._weights, k=count)

    def _changed(self) -> str:
        indent = " " * (4 * self.random.randint(0, 3))
        return self.random.choice("+++--  ") + indent + self._line(self.random.choice(_CODE))

    def _line(self, shape: str) -> str:
        """Return a line of some shape with words in it."""
        if "{code}" in shape:
            shape = shape.replace("{code}", self.random.choice(_CODE))
        a, b, c, d, e = self._some(5)
        return shape.format(
            a=a, b=b, c=c.title().replace("_", "") + "Error", d=d, e=e, n=int(self.random.paretovariate(0.5)) % 5000,
            hash=f"{self.random.getrandbits(28):07x}", path=self.path() if "{path}" in shape else "",
            prose=self.prose(9) if "{prose}" in shape else "",
        )  # fmt: skip

    def _new_path(self) -> str:
        folder = "/".join(
            self.random.choices(self._words[:_FOLDER_NAMES], k=self.random.randint(1, 3))
        )
        ending = self.random.choice(("py", "py", "ts", "tsx", "rs", "go", "md", "json", "yml"))
        return f"src/{folder}/{self.random.choice(self._words)}.{ending}"


def _vocabulary() -> list[str]:
    """Return words by frequency: everyday words, then made-up words, and identifiers composed of both."""
    chance = random.Random(_SEED)
    roots = list(dict.fromkeys([*_COMMON.split(), *(_root(chance) for _ in range(_ROOTS))]))
    weights = list(itertools.accumulate(1 / (rank + 50) for rank in range(len(roots))))
    found = dict.fromkeys(roots[:200])
    unused = iter(roots[200:])
    while len(found) < _VOCABULARY:
        shape = chance.random()
        parts = chance.choices(roots, cum_weights=weights, k=chance.randint(2, 3))
        if shape < 0.3:
            found[next(unused, parts[0])] = None
        elif shape < 0.65:
            found["_".join(parts)] = None
        elif shape < 0.95:
            found[parts[0] + "".join(part.capitalize() for part in parts[1:])] = None
        else:
            found[f"{parts[0]}{chance.randint(1, 9999)}"] = None
    return list(found)


def _root(chance: random.Random) -> str:
    count = chance.choices((1, 2, 3), (2, 6, 1))[0]
    return "".join(
        chance.choice(_STARTS) + chance.choice(_VOWELS) + chance.choice(_ENDS) for _ in range(count)
    )
