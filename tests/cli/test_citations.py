"""`ralph doctor --citations`."""

import subprocess

from tests.cli.runner import Block, Project


def test_without_citations_it_says_so(ralph: Project) -> None:
    assert ralph("doctor", "--citations").out == "No record cites anything.\n"
    assert ralph("doctor", "--citations", "--format", "json").json == []
    assert ralph("doctor", "--citations", "--ci").code == 0


def test_what_is_gone_is_told_and_fails_ci_only(ralph: Project) -> None:
    ralph.put("src/a.py", "x\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "work")):
        subprocess.run(["git", *words], cwd=ralph.root, check=True, capture_output=True)
    ralph.memories(Block("see src/a.py", created="2099-01-01"))
    assert ralph("doctor", "--citations", "--ci").code == 0
    (ralph.root / "src/a.py").unlink()
    said = ralph("doctor", "--citations", "--ci")
    assert said.code == 1
    assert ".agent/memories.md:5: mem-1705751400-a3f8: gone: file src/a.py" in said.out
    assert ralph("doctor", "--citations").code == 0


def test_json_has_each_citation(ralph: Project) -> None:
    ralph.put("src/a.py", "x\n")
    ralph.memories(Block("see src/a.py:1", created="2099-01-01"))
    (found,) = ralph("doctor", "--citations", "--format", "json").json
    assert (found["id"], found["verdict"], found["file"]) == ("mem-1705751400-a3f8", "fresh", ".agent/memories.md")
    assert found["citations"] == [
        {"kind": "file", "what": "src/a.py", "lines": [1, 1], "verdict": "fresh", "place": "src/a.py", "why": ""}
    ]


def test_an_unknown_id_is_not_found(ralph: Project) -> None:
    said = ralph("doctor", "--citations", "mem-9")
    assert said.code == 1
    assert "mem-9" in said.err
