"""The files of a project, without those of Ralph."""

from pathlib import Path


def files(folder: Path) -> dict[str, bytes]:
    """Every file of the project that is not Ralph's own state."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".ralph" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
