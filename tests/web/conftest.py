"""The rich project, once a process, and a way to ask its server; a file that changes it makes its own."""

import pytest
from tests.support import sample
from tests.support.asking import Site


@pytest.fixture(scope="module")
def shop() -> Site:
    """Asks the server of the rich project."""
    return Site(sample.shared().root)


@pytest.fixture(scope="module")
def here() -> sample.Sample:
    """What the rich project holds."""
    return sample.shared()
