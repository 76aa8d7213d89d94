"""The public names are there, are documented, and cost nothing until they are used."""

import subprocess
import sys

import ralph
from ralph import testing


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in ralph.__all__:
        value = getattr(ralph, name)
        assert name == "__version__" or value.__doc__, name


def test_the_public_fakes_are_there_and_have_a_docstring() -> None:
    assert set(testing.__all__) >= {"HashEmbedder", "ScriptedAgent"}
    for name in testing.__all__:
        assert getattr(testing, name).__doc__, name


def test_dir_lists_the_public_names() -> None:
    assert dir(ralph) == sorted(ralph.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ralph, "Manager")


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, ralph; print([m for m in sys.modules if m.startswith('ralph.') or m in ('click', 'yaml')])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert found.stdout.strip() == "['ralph.lean']"
