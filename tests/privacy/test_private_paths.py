"""`privacy.paths` hides a file however its path is written, because a team shares the setting."""

import pytest

from ralph.privacy.private_paths import mentions_private_path

FOLDER = r"C:\Users\ann\shop"


@pytest.mark.parametrize("glob", ["secrets/**", r"secrets\**", "**/secrets", "SECRETS/"])
@pytest.mark.parametrize(
    "path",
    [
        r"secrets\prod.env",
        r"C:\Users\ann\shop\secrets\prod.env",
        "C:/Users/ann/shop/Secrets/prod.env",
        "secrets/prod.env",
    ],
)
def test_a_private_file_is_recognised_with_slashes_and_backslashes(glob: str, path: str) -> None:
    payload: dict[str, object] = {"cwd": FOLDER, "tool_input": {"file_path": path}}
    assert mentions_private_path(payload, [glob])


def test_a_public_file_is_not_private() -> None:
    payload: dict[str, object] = {
        "cwd": FOLDER,
        "tool_input": {"file_path": r"src\secrets_test.py"},
    }
    assert not mentions_private_path(payload, [r"secrets\**"])
