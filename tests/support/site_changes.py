"""What a change through the site leaves in the files."""

from pathlib import Path

from tests.support.asking import Site

from ralph.core import paths
from ralph.storage.sources import source_names

MEMORIES = ".agent/memories.md"


def everything(root: Path) -> dict[str, bytes]:
    """Every file that people care for; what is derived aside."""
    name_of, found = source_names(root), [paths.log_folder(root)]
    found += [path for path in root.iterdir() if path.name != ".git"]
    places = (path for top in found for path in ([top] if top.is_file() else top.rglob("*")))
    return {
        name_of(path): path.read_bytes()
        for path in places
        if path.is_file() and not path.name.startswith("ralph.db") and "cache" not in path.parts
    }


def rows_in(window: Site, file: str) -> list[dict[str, str]]:
    """The memories of a file, as the site lists them."""
    rows = window.get("/api/records", family="memory", limit=500)["items"]
    return [row for row in rows if row["source"].startswith(file)]


def clean(window: Site) -> str:
    """A memory without secrets in it."""
    return next(
        row["id"]
        for row in rows_in(window, MEMORIES)
        if "token" not in row["text"] and "script" not in row["text"]
    )


def stamps(plan: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    """The stamps of the files of a plan."""
    return {each["name"]: each["before"] for each in plan["files"]}
