"""Files and commands that a proposal names are looked up, and the person is told what is missing."""

import json
import os
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.learning import DIGESTED, make_project

from ralph.learning import inbox, learn
from ralph.learning.learn_answer import UNVERIFIED

EVIDENCE = [{"id": "obs-0a04", "quote": "await buildParser({ outdir: 'dist' })"}]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a Makefile and a script, and with another script that was removed."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "scripts").mkdir()
    (folder / "Makefile").write_text("ship:\n\ttrue\n", encoding="utf-8")
    (folder / "scripts" / "deploy.sh").write_text("true\n", encoding="utf-8")
    (folder / "scripts" / "old.sh").write_text("true\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    git(folder, "rm", "-q", "scripts/old.sh")
    git(folder, "commit", "-qm", "second")
    return make_project(folder)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Deploys run `make ship`, which calls scripts/deploy.sh with Node.js 20.", []),
        ("Deploys run `make shipit` on the first machine of the cluster.", ["make shipit"]),
        ("Deploys are described in scripts/never.sh and in `plan.md`.", ["scripts/never.sh", "plan.md"]),
        ("Deploys were done by scripts/old.sh until the last release.", ["scripts/old.sh"]),
        ("Deploys need a port that is open in the firewall of the office.", []),
    ],
    ids=["everything exists", "no such target", "no such file", "removed file", "no citation"],
)  # fmt: skip
def test_a_proposal_is_marked_with_what_it_names_and_what_is_missing(
    root: Path, text: str, missing: list[str]
) -> None:
    answer = json.dumps({"memories": [{"text": text, "evidence": EVIDENCE}]})
    (proposal,) = learn.apply_answer(root, answer, DIGESTED).proposals
    assert list(proposal.extra.get(UNVERIFIED, ())) == missing  # type: ignore[call-overload]  # a list of texts
    (item,) = (item for item in inbox.items(root) if item.id == proposal.id)
    for name in missing:
        assert f"not found here: {', '.join(missing)}" in item.why
        assert name in item.why
    assert ("not found here" in item.why) == bool(missing)


def test_files_of_the_evidence_are_not_held_against_a_proposal(root: Path) -> None:
    answer = json.dumps({"memories": [{"text": "The parser goes to dist.", "evidence": EVIDENCE}]})
    (proposal,) = learn.apply_answer(root, answer, DIGESTED).proposals
    assert proposal.origin.files == ("scripts/build.mjs",)  # which is not there
    assert UNVERIFIED not in proposal.extra


def test_a_deletion_is_not_marked(root: Path) -> None:
    (root / ".agent" / "memories.md").write_text(
        "# Memories\n\n## Context\n\n### mem-1705751400-b001\n> Deploys use scripts/gone.sh.\n"
        "<!-- tags: | created: 2025-01-20 -->\n",
        encoding="utf-8",
    )
    answer = json.dumps({"deletions": [{"id": "mem-b001", "evidence": EVIDENCE}]})
    (proposal,) = learn.apply_answer(root, answer, DIGESTED).proposals
    assert UNVERIFIED not in proposal.extra
