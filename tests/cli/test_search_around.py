"""`ralph search --around` and a stretch of time: what happened, in its order."""

import pytest
from tests.support.index_sources import LOG, seen
from tests.support.runner import Project, shortened


def obs(number: int) -> str:
    return f"obs-{1_700_000_000 + number}-{number:04x}"


@pytest.fixture
def project(ralph: Project) -> Project:
    ralph.put(LOG, "".join(seen(f"step {n}", n) for n in range(30)))
    return ralph


def test_around_a_record(project: Project) -> None:
    said = project("search", "--around", obs(10), "--limit", "4")
    assert [line.split()[0] for line in said.out.splitlines()] == [obs(n) for n in range(8, 13)]
    hits = project(
        "search", "--around", shortened(obs(10)), "--limit", "4", "--format", "json"
    ).json["hits"]
    assert [hit["id"] for hit in hits] == [obs(n) for n in range(8, 13)]


def test_a_stretch_of_time_shows_the_newest_oldest_first(project: Project) -> None:
    said = project("search", "--since", "2025-03-01", "--limit", "3")
    assert [line.split()[0] for line in said.out.splitlines()] == [obs(n) for n in (27, 28, 29)]
    said = project("search", "--since", "2025-03-01T00:04:00", "--until", "2025-03-01T00:05:00")
    assert [line.split()[0] for line in said.out.splitlines()] == [obs(4), obs(5)]
    assert project("search", "--since", "1d").out == "Nothing found.\n"


def test_wrong_usage_and_unknown_ids_are_told(project: Project) -> None:
    assert project("search", "words", "--around", obs(1)).code == 2
    assert project("search", "--since", "soon").code == 2
    said = project("search", "--around", "obs-1-x")
    assert (said.code, "Record not found: obs-1-x" in said.err) == (1, True)


def test_a_short_id_shows_the_whole_record(project: Project) -> None:
    assert obs(10) in project("search", "--full", shortened(obs(10))).out
