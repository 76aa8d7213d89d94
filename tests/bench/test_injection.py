"""The training texts of the injection classifier can be read, and stay in the order of the training."""

import gzip
import json
from itertools import groupby

from bench.injection import DATA


def test_every_line_is_a_text_of_a_named_author_and_authors_are_not_interleaved() -> None:
    with gzip.open(DATA, "rt", encoding="utf-8", newline="\n") as lines:
        samples = [json.loads(line) for line in lines]
    assert all(sample.keys() == {"author", "text", "attack"} for sample in samples)
    authors = [name for name, _ in groupby(sample["author"] for sample in samples)]
    assert len(authors) == len(set(authors))
    assert sum(sample["attack"] for sample in samples) == 13_329
    assert len(samples) == 44_097
