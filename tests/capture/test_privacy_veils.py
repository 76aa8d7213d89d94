"""A secret that stands right behind a copied colour or an escaped sign is one all the same, for rules and screen."""

import json

import pytest

from ralph.capture.privacy import redact
from ralph.hooks.screen import suspicious

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6"  # made up
VEILS = ("[32m", "[1;31m", "^[[32m", "\\e[0;1m", "\\u003d", "\\u0027", "\\x27", "\\x3D")


@pytest.mark.parametrize("veil", VEILS)
def test_a_token_behind_a_veil_is_found(veil: str) -> None:
    text = f"access{veil}{TOKEN}[39m done"
    assert TOKEN not in redact(text).text
    assert redact(text).text.startswith(f"access{veil}")
    for ascii_only in (True, False):
        assert suspicious(json.dumps({"session_id": "a", "x": text}, ensure_ascii=ascii_only).encode())
        assert suspicious(json.dumps({"x": json.dumps({"y": text}, ensure_ascii=ascii_only)}).encode())


def test_colours_without_a_secret_are_left_alone() -> None:
    text = "[32mok[39m 12 passed, see [1m in arr[10m] and \\x41"
    assert redact(text).text == text
