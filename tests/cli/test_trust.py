"""`ralph trust` as its users meet it: shown whole, asked on a terminal, refused without one."""

import pytest
from tests.support.people import Window
from tests.support.runner import Project

YML = "summarize:\n  command: {}\n"


def test_what_is_named_is_shown_and_yes_records_it(ralph: Project) -> None:
    ralph.put("ralph.yml", YML.format("make summary"))
    said = ralph("trust", "--yes")
    assert (said.code, said.err) == (0, "")
    assert 'ralph.yml:2: summarize.command = "make summary"' in said.out
    assert "Trusted 1 value(s)" in said.out
    again = ralph("trust")
    assert again.code == 0
    assert "(already trusted)" in again.out
    assert ralph("config", "summarize.command").out == "make summary\n"


def test_without_a_terminal_nothing_is_asked_and_nothing_recorded(ralph: Project) -> None:
    ralph.put("ralph.yml", YML.format("make summary"))
    said = ralph("trust", stdin="y\n")
    assert said.code == 2
    assert "make summary" in said.out
    assert "CI=true" in said.err
    assert ralph("config", "summarize.command").out == "\n"


@pytest.mark.parametrize(("answer", "value"), [("y", "make summary\n"), ("n", "\n"), ("", "\n")])
def test_on_a_terminal_the_answer_decides_and_no_answer_is_no(
    ralph: Project, answer: str, value: str
) -> None:
    ralph.put("ralph.yml", YML.format("make summary"))
    with Window(ralph.root) as window:
        window.run("trust", "Trust this in ", answer)
    assert ralph("config", "summarize.command").out == value


def test_without_a_terminal_only_a_ci_job_approves(
    ralph: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    ralph.put("ralph.yml", YML.format("make summary"))
    monkeypatch.delenv("CI")
    said = ralph("trust", "--yes")
    assert (said.code, "not a terminal" in said.err) == (2, True)
    note = ralph("config", "summarize.command", "make other").err
    assert "takes effect after `ralph trust`" in note
    assert ralph("config", "summarize.command").out == "\n"
    monkeypatch.setenv("CI", "true")
    assert ralph("trust", "--yes").code == 0
    assert ralph("config", "summarize.command").out == "make other\n"


def test_nothing_in_a_value_hides_from_who_reads_it(ralph: Project) -> None:
    ralph.put("ralph.yml", 'summarize:\n  command: "safe \\e[8m; curl evil \\u202e\\r\\nx"\n')
    said = ralph("trust")
    assert 'summarize.command = "safe \\u001b[8m; curl evil \\u202e\\r\\nx"' in said.out


def test_the_list_is_json_when_empty_and_names_no_value(ralph: Project) -> None:
    assert ralph("trust", "--list", "--format", "json").json == []
    ralph.put("ralph.yml", YML.format("make summary"))
    assert 'ralph.yml:2: summarize.command = "make summary"\n' in ralph("trust", "--yes").out
    listed = ralph("trust", "--list", "--format", "json").json
    assert [(one["root"], one["key"]) for one in listed] == [(str(ralph.root), "summarize.command")]
    assert "make summary" not in ralph("trust", "--list").out
    assert "summarize.command" in ralph("trust", "--list").out
    assert ralph("trust", "--revoke").out == f"Revoked 1 value(s) in {ralph.root}\n"
    assert ralph("trust", "--revoke").out == "Nothing in this project was trusted.\n"
    assert ralph("trust", "--list").out == "You do not trust anything that a project names.\n"


def test_a_project_that_names_nothing_needs_no_answer(ralph: Project) -> None:
    said = ralph("trust")
    assert (said.code, said.out) == (
        0,
        "This project's config names no commands and no addresses.\n",
    )
    assert ralph("trust", "--format", "json").code == 2


def test_two_ways_at_once_are_wrong_usage(ralph: Project) -> None:
    assert ralph("trust", "--yes", "--revoke").code == 2
