"""`ralph status`: the project in numbers."""

from tests.cli.runner import Project


def test_an_empty_project_has_nothing_and_is_no_error(ralph: Project) -> None:
    said = ralph("status", "--format", "json")
    assert said.code == 0
    assert (said.json["memories"], said.json["guardrails"], said.json["database_bytes"]) == (0, 0, 0)


def test_memories_guardrails_and_the_index_are_counted(ralph: Project) -> None:
    ralph("memory", "add", "Use barrel exports")
    ralph("guardrails", "add", "npm test fails: build first")
    ralph("memory", "search", "exports")
    said = ralph("status", "--format", "json").json
    assert (said["memories"], said["guardrails"], said["indexed"]["records"]) == (1, 1, 2)
    assert said["database_bytes"] > 0
    assert "memories:     1" in ralph("status").out
