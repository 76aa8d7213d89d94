"""Whose settings count in a worktree: its own, the main checkout's where it has none, and one person's in both."""

import subprocess
from pathlib import Path

import pytest
from tests.hooks.test_bare_tree import git

from ralph import config, paths


def put(root: Path, name: str, limit: int) -> None:
    (root / name).write_text(f"memories:\n  budget: {limit}\n", encoding="utf-8", newline="")


def limit(root: Path) -> int:
    return config.load(root, env={}).config.memories.budget


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """A repository and a worktree of it; neither has settings."""
    main, side = tmp_path / "main", tmp_path / "side"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    subprocess.run(["git", "-C", main, "worktree", "add", "-q", "-b", "other", side], check=True)
    return main, side


def test_settings_that_were_never_committed_count_in_a_worktree(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put(main, "ralph.yml", 1111)
    assert limit(side) == limit(main) == 1111


def test_the_settings_of_its_branch_count_more(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put(main, "ralph.yml", 1111)
    put(side, "ralph.yml", 2222)
    assert (limit(main), limit(side)) == (1111, 2222)


def test_what_one_person_has_set_counts_in_every_worktree_that_says_nothing_else(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put(side, "ralph.yml", 2222)
    put(main, "ralph.local.yml", 3333)
    assert limit(side) == 3333
    put(side, "ralph.local.yml", 4444)
    assert (limit(main), limit(side)) == (3333, 4444)


def test_a_main_checkout_reads_its_own_files_only(checkouts: tuple[Path, Path]) -> None:
    main, side = checkouts
    put(side, "ralph.yml", 2222)
    assert paths.settings_files(main) == paths.config_files(main)
    assert limit(main) == config.load(None, env={}).config.memories.budget


def private(root: Path) -> set[str]:
    return set(config.load(root, env={}).config.privacy.patterns)


def test_what_the_main_checkout_calls_private_is_so_in_a_worktree_with_settings_of_its_own(
    checkouts: tuple[Path, Path],
) -> None:
    main, side = checkouts
    for root, name, pattern in (
        (main, "ralph.yml", "KITE-[0-9]+"),
        (main, "ralph.local.yml", "ACME-[0-9]+"),
        (side, "ralph.yml", "OWL-[0-9]+"),
    ):
        (root / name).write_text(f'privacy:\n  patterns: ["{pattern}"]\n', encoding="utf-8", newline="")
    assert private(main) == {"ACME-[0-9]+"}, "a higher file says it anew"
    assert private(side) == {"ACME-[0-9]+"}, "of the main checkout's files the highest counts, and it is one person's"
    (main / "ralph.local.yml").unlink()
    assert private(side) == {"KITE-[0-9]+", "OWL-[0-9]+"}
