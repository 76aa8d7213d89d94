"""No secret of several lines reaches the disk, whatever the way by which it comes."""

from pathlib import Path

import pytest
from tests.support.channels import CHANNELS, printed, printed_by_failure
from tests.support.privacy_corpus import golden_cases, multi_line_texts, secrets_in
from tests.support.world import World, handled, hook, world

CASES = multi_line_texts()
REAL_HOOKS = ("edit", "context of an edit", "bash", "answer")
"""Channels that a few cases also take through a process of their own."""

STEPS = {"answer": 6}
"""Of a channel that updates the index with every event, each n-th case is enough."""


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def leaked(here: World) -> list[str]:
    """The cases whose secret is in any byte on the disk."""
    files = (path for path in here.root.parent.rglob("*") if path.is_file())
    return secrets_in(b"\n".join(path.read_bytes() for path in files), CASES)


@pytest.mark.parametrize("channel", CHANNELS)
def test_no_secret_of_several_lines_reaches_the_disk(here: World, channel: str) -> None:
    for case in CASES[:: STEPS.get(channel, 1)]:
        event, sent = CHANNELS[channel](case.text)
        handled(here.env, event, sent)
    assert leaked(here) == []
    assert here.failures() == 0


@pytest.mark.parametrize("channel", REAL_HOOKS)
def test_the_hook_as_a_host_starts_it_stores_no_secret_of_several_lines(
    here: World, channel: str
) -> None:
    for case in CASES[::60]:
        event, sent = CHANNELS[channel](case.text)
        assert hook(event, sent, here.env).returncode == 0
    assert leaked(here) == []
    assert len(here.lines()) >= 1


def test_no_secret_that_only_its_command_reveals_reaches_the_disk(here: World) -> None:
    for case in CASES:
        if case.text.startswith("$ "):
            handled(here.env, *printed(case.text))
            handled(here.env, *printed_by_failure(case.text))
    assert leaked(here) == []
    assert here.failures() == 0


def test_output_without_a_secret_is_stored_unchanged(here: World) -> None:
    harmless = [case.text for case in golden_cases() if case.id.startswith("not-printed-")]
    outputs = [text.partition("\n")[2].strip() for text in harmless if text.startswith("$ ")]
    for text in harmless:
        handled(here.env, *printed(text))
    stored = "\n".join(str(line["payload"]) for line in here.lines())
    assert [output for output in outputs if repr(output)[1:-1] not in stored] == []
