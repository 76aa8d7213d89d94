"""Golden files of the markdown-like formats: a case, and its expected records beside it."""

import json
from pathlib import Path

from ralph.core.documents import Document

HERE = Path(__file__).parent.parent / "golden"


def cases(name: str) -> list[Path]:
    """The golden files of one format."""
    return sorted(
        path for path in (HERE / name).iterdir() if not path.name.endswith(".expected.json")
    )


def text_of(path: Path) -> str:
    """A golden file as it is on disk, line ends and all."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def expected(path: Path) -> object:
    """The expectation beside a golden file."""
    return json.loads(path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8"))


def rows(document: Document) -> object:
    """A parsed file as plain JSON."""
    records = [
        {
            "line": entry.line,
            "id": entry.record.id,
            "kind": entry.record.kind,
            "label": entry.record.label,
            "title": entry.record.title,
            "text": entry.record.text,
            "tags": list(entry.record.tags),
            "status": entry.record.status,
            "created_at": entry.record.created_at,
            "links": [[link.relation, link.target] for link in entry.record.links],
            "extra": dict(entry.record.extra),
        }
        for entry in document.entries
    ]
    problems = [[problem.line, problem.code] for problem in document.problems]
    return json.loads(json.dumps({"records": records, "problems": problems}))
