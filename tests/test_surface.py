"""What people and programs see changes only on purpose: `python -m tests.support.surface` writes the golden files again."""

from pathlib import Path

import pytest
from tests.support import surface


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return surface.describe(tmp_path_factory.mktemp("surface"))


@pytest.mark.parametrize("name", ["help.txt", "json.json", "exits.txt", "mcp.json", "http.json"])
def test_surface_is_as_written(described: dict[str, str], name: str) -> None:
    golden = Path(surface.GOLDEN / name).read_text(encoding="utf-8")
    assert described[name] == golden, "if the change is wanted: python -m tests.support.surface"
