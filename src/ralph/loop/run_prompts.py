"""Store the prompt of each iteration, so that people can see the context of an agent.

The prompts of a run are files such as `0001.md` in the run's folder.
"""

from __future__ import annotations

from pathlib import Path

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.storage import files


def prompt_file(root: Path, run_id: str, iteration: int) -> Path:
    """Return the path of an iteration's prompt. The file need not exist."""
    return paths.run_folder(root, run_id) / f"{iteration:04}.md"


def save(root: Path, run_id: str, iteration: int, prompt: str) -> None:
    """Store the prompt of an iteration."""
    path = prompt_file(root, run_id, iteration)
    files.write(path, prompt, root=paths.state_boundary(root), mode=files.PRIVATE)


def list_(root: Path, run_id: str) -> dict[int, Path]:
    """Return the stored prompt files by iteration number, in ascending order."""
    stored = sorted(paths.run_folder(root, run_id).glob("[0-9]*.md"))
    return {int(path.stem): path for path in stored if path.stem.isdigit()}


def read(root: Path, run_id: str, iteration: int) -> str:
    """Return the stored prompt of an iteration. Raises NotFound if there is none."""
    text = files.read(prompt_file(root, run_id, iteration))
    if text is None:
        numbers = ", ".join(map(str, list_(root, run_id))) or "none"
        raise NotFound(
            f"{run_id} has no snapshot of iteration {iteration}", hint=f"it has: {numbers}"
        )
    return text
