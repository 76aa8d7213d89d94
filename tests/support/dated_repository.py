"""A repository whose commits have given dates."""

import os
import subprocess
from pathlib import Path

from ralph.core.record import Record
from ralph.memory import reading
from ralph.recall import citation_check, stale_citations
from ralph.recall.citation_check import CitationReport

OLD, NEW = "2025-01-10T12:00:00Z", "2025-03-10T12:00:00Z"

BETWEEN = "2025-02-01"


class Repository:
    """A project under git whose commits have the dates that a test gives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, at: str = OLD) -> str:
        env = {
            "PATH": os.environ["PATH"], "HOME": str(self.root.parent), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.example",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.example",
        }  # fmt: skip
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env=env,
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        return done.stdout.strip()

    def put(self, name: str, text: str = "x = 1\n") -> None:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="")

    def commit(self, at: str = OLD) -> str:
        self.git("add", "-A", at=at)
        self.git("commit", "-q", "--allow-empty", "-m", "work", at=at)
        return self.git("rev-parse", "HEAD")

    def remembers(self, *texts: str, created: str = BETWEEN) -> None:
        blocks = "".join(
            f"### mem-170575140{number}-a3f8\n> {text}\n<!-- tags: t | created: {created} -->\n\n"
            for number, text in enumerate(texts)
        )
        self.put(".agent/memories.md", f"# Memories\n\n## Fixes\n\n{blocks}")

    def check(self) -> tuple[CitationReport, ...]:
        return citation_check.check_citations(self.root)

    def records(self) -> list[Record]:
        return [stored.record for stored in reading.list_entries(self.root)]

    def marks(self) -> list[str]:
        """What is told of the memories, without asking git."""
        return sorted(stale_citations.citation_notes(self.root, self.records()).values())

    def verdicts(self) -> list[tuple[str, str, str]]:
        return [
            (each.citation.what, each.verdict.value, each.place)
            for report in self.check()
            for each in report.citations
        ]


LONG = "".join(f"line {number}\n" for number in range(40))
