"""Secrets that only their surroundings tell are gone, and what merely looks like such surroundings stays."""

import pytest
from tests.support.secret_samples import key_block

from ralph.privacy.privacy import redact

KEY = key_block().splitlines()


def test_every_row_of_a_table_is_looked_at_also_one_with_a_mere_word() -> None:
    rows = [f"  {number} | alice | word{number}x" for number in range(40)]
    text = "\n".join(
        [
            " id | name  | password",
            "----+-------+----------",
            *rows,
            "  9 | bob   | sunshine",
            "(41 rows)",
        ]
    )
    told = redact(text).text
    assert "sunshine" not in told
    assert told.count("[redacted: password]") == 41


@pytest.mark.parametrize("joint", ["\n", "\r\n", "\\n", "\n+", "\n  ", "\n> "])
@pytest.mark.parametrize("first", [1, 3, len(KEY) - 4])
def test_the_end_of_a_key_is_one_without_its_beginning(first: int, joint: str) -> None:
    told = redact(f"tail of the file:\n{joint.join(KEY[first:])}\nmore").text
    assert not any(line in told for line in KEY[first:-1])
    assert told.startswith("tail of the file:")
    assert told.endswith("more")
