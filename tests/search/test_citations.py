"""What a record cites, and what only looks like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.record import MemoryKind, Origin, Record
from ralph.search import citations
from ralph.search.citations import CitationKind


def of(text: str, **origin: object) -> list[tuple[str, str]]:
    record = Record("mem-1-a", MemoryKind.FIX, text, origin=Origin(**origin))  # type: ignore[arg-type]  # test values
    return [(each.kind.value, str(each)) for each in citations.find_citations(record)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/db/schema.ts for it", [("src/db/schema.ts", 0, 0)]),
        ("in `src/a.py:40-60`, too.", [("src/a.py", 40, 60)]),
        ("(src/a.py:12:5)", [("src/a.py", 12, 12)]),
        ("docs/a.md#L3-L9 and docs/a.md#L3", [("docs/a.md", 3, 9), ("docs/a.md", 3, 3)]),
        ("[the page](docs/a.md)", [("docs/a.md", 0, 0)]),
        ("./run.sh, conftest.py.", [("run.sh", 0, 0), ("conftest.py", 0, 0)]),
        ("src/a.py: it fails", [("src/a.py", 0, 0)]),
        ("a.py,b.py", [("a.py", 0, 0), ("b.py", 0, 0)]),
        ("--config=conf/x.toml", [("conf/x.toml", 0, 0)]),
        (".github/workflows/ci.yml", [(".github/workflows/ci.yml", 0, 0)]),
        ("the Makefile and docker/Dockerfile", [("Makefile", 0, 0), ("docker/Dockerfile", 0, 0)]),
        ("src/grammar.lark", [("src/grammar.lark", 0, 0)]),
        ("app/[id]/page.tsx", [("app/[id]/page.tsx", 0, 0)]),
        ("문서는 docs/안내.md 에 있다", [("docs/안내.md", 0, 0)]),
        ("https://example.com/a.html and example.com/a.html", []),
        ("*.py, src/**/*.ts, src/{a,b}.ts, src/<name>.py, $HOME/a.py", []),
        ("/etc/hosts.txt, ../other/a.py, ~/a.py, C:\\a.py", []),
        ("version 1.2.3, 3.11, e.g. this, os.path, and/or, foo.bar", []),
        ("@types/node.d.ts and user@host.md", []),
        ("", []),
    ],
)
def test_files_are_told_from_what_looks_like_them(
    text: str, found: list[tuple[str, int, int]]
) -> None:
    assert citations.cited_files(text) == found


@given(st.text())
def test_any_text_has_files_within_the_project_or_none(text: str) -> None:
    for path, first, last in citations.cited_files(text):
        assert path
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        assert 0 <= first <= last


def test_metadata_names_files_and_a_commit_for_sure() -> None:
    record = Record(
        "mem-1-a", MemoryKind.FIX, "x", origin=Origin(files=("src/a.py",), commit="abc1234")
    )
    assert [(each.kind, each.what, each.sure) for each in citations.find_citations(record)] == [
        (CitationKind.FILE, "src/a.py", True),
        (CitationKind.COMMIT, "abc1234", True),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("fixed in commit 604fdc2", ["604fdc2"]),
        (
            "see `604fdc208b63743bd508df1b9a73037dfda675d3`",
            ["604fdc208b63743bd508df1b9a73037dfda675d3"],
        ),
        ("`1234567`, `deadbee`, commit it, 604fdc2", []),
    ],
)
def test_commits_are_named_so_or_stand_in_backticks(text: str, found: list[str]) -> None:
    assert [name for kind, name in of(text) if kind == "commit"] == found


def test_a_citation_counts_once_with_its_lines() -> None:
    assert of("src/a.py, then src/a.py:3-5, then src/a.py") == [("file", "src/a.py:3-5")]


def test_a_record_that_names_everything_is_looked_at_in_part() -> None:
    assert (
        len(of(" ".join(f"src/a{number}.py" for number in range(1000)))) == citations.MAX_CITATIONS
    )


def test_symbols_are_calls_without_arguments_and_dotted_names_in_backticks() -> None:
    cases = {
        "call parse_config() first": ["parse_config"],
        "`Store.write` and Index.sync() and `Foo::bar`": ["Index.sync", "Store.write", "Foo.bar"],
        "`package.json` and `a.py` are files": [],
        "no_call here, f(x) and foo.bar": [],
        "src/a.ts#run and docs/x.md#heading, symbol:stop": ["run", "stop"],
    }
    for text, names in cases.items():
        assert [name for kind, name in of(text) if kind == "symbol"] == names, text


def test_commands_are_code_that_runs_something_of_the_project_by_name() -> None:
    cases = {
        "run `make lint` first": ["make lint"],
        "$ npm run build": ["npm run build"],
        "`npm test`, `npm install x`, `yarn add y`, `npm i`": ["npm test"],
        "make sure that it works, `make`": [],
        "`just deploy`": ["just deploy"],
    }
    for text, names in cases.items():
        assert [name for kind, name in of(text) if kind == "command"] == names, text
