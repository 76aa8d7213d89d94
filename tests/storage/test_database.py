"""The statements of the specifications, as they are written there, on `ralph.db`."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.looping import PASSES, Workshop, project, says_done
from tests.support.world import SESSION, World, handled, payload, world

from ralph.core import paths
from ralph.formats.log import encode_line
from ralph.memory import memory
from ralph.recall import conversation
from ralph.search import index
from ralph.testing import Step


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return project(tmp_path / "shop")


def select(root: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(paths.index_file(root))) as connection:
        return connection.execute(sql, values).fetchall()


def event(here: World, name: str, **members: object) -> None:
    handled(here.env, name, payload(name, **members))


def test_observations_are_found_by_their_full_text_table(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="rotate the JWT tokens")
    event(here, "Stop", last_assistant_message="Tokens rotate now.")
    index.sync(here.root)
    sql = "SELECT content FROM observations_fts WHERE observations_fts MATCH ? ORDER BY rank"
    assert select(here.root, sql, "JWT") == [("rotate the JWT tokens",)]
    assert select(here.root, sql, "tokens now") == [("Tokens rotate now.",)]
    [(messages, created)] = select(
        here.root, "SELECT messages, created_at FROM sessions WHERE id = ?", SESSION
    )
    turns = [(each["role"], each["text"]) for each in json.loads(str(messages))]
    assert turns == [("user", "rotate the JWT tokens"), ("assistant", "Tokens rotate now.")]
    assert created
    here.log.write_text("", encoding="utf-8")
    index.sync(here.root)
    assert select(here.root, sql, "JWT") == []
    select(
        here.root,
        "INSERT INTO observations_fts(observations_fts, rank) VALUES ('integrity-check', 1)",
    )


def test_phrases_and_near_find_observations(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="rotate the JWT signing tokens")
    index.sync(here.root)
    sql = "SELECT count(*) FROM observations_fts WHERE observations_fts MATCH ?"
    assert select(here.root, sql, '"JWT signing"') == [(1,)]
    assert select(here.root, sql, '"signing JWT"') == [(0,)]
    assert select(here.root, sql, "NEAR(rotate tokens, 3)") == [(1,)]
    assert select(here.root, sql, "NEAR(rotate tokens, 1)") == [(0,)]


def test_the_queries_in_the_documentation_work(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="replace the signing key")
    index.sync(here.root)
    page = Path(__file__).parents[2] / "docs" / "formats.md"
    [block] = re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    first, *others = [sql for sql in block.split(";") if sql.strip()]
    assert select(here.root, first) == [(SESSION, "replace the [signing key]")]
    for sql in others:
        select(here.root, sql)


@pytest.mark.parametrize(
    "times",
    [10, 200, 1_500],
    ids=["400 characters", "7,000 characters", "55,000 characters"],
)
def test_a_session_holds_its_messages_in_full(tmp_path: Path, times: int) -> None:
    here = world(tmp_path)
    here.cached()
    prompt = "Rotate the tokens.\n" + "Every service has a key of its own. " * times
    answer = "Done.\n" + "The key of every service was replaced. " * times
    event(here, "UserPromptSubmit", prompt=prompt)
    event(here, "Stop", last_assistant_message=answer)
    index.sync(here.root)
    [(messages,)] = select(here.root, "SELECT messages FROM sessions WHERE id = ?", SESSION)
    said = [each["text"].strip() for each in json.loads(str(messages))]
    assert said == [prompt.strip(), answer.strip()]
    turns = conversation.read_history(here.root, SESSION).turns
    assert [turn.text.strip() for turn in turns] == said
    here.log.write_text("", encoding="utf-8")
    index.sync(here.root)
    assert select(here.root, "SELECT count(*) FROM long_messages") == [(0,)]


def test_the_files_of_every_record_are_a_json_array(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="rotate the JWT tokens")
    memory.add(here.root, "Rotate the keys every week.")
    index.sync(here.root)
    for table in ("records", "observations"):
        assert select(here.root, f"SELECT count(*) FROM {table}, json_each(files)") == [(0,)]


def test_a_chat_holds_the_messages_that_its_observations_shorten(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="short")
    index.sync(here.root)
    [(name,)] = select(here.root, "SELECT id FROM observations WHERE session_id = ?", SESSION)
    full_texts = [{"id": str(name), "text": "the whole message"}]
    with here.log.open("a", encoding="utf-8") as log:
        log.write(encode_line("session", {"id": SESSION, "messages": full_texts}))
    index.sync(here.root)
    [(messages,)] = select(here.root, "SELECT messages FROM sessions WHERE id = ?", SESSION)
    assert [each["text"] for each in json.loads(str(messages))] == ["the whole message"]


def test_tags_are_json_in_every_table(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="rotate the JWT tokens")
    memory.add(here.root, "Rotate the keys every week.", tags=["keys"])
    index.sync(here.root)
    for table in ("records", "observations", "sessions", "journal"):
        rows = select(here.root, f"SELECT tags FROM {table}")
        assert all(isinstance(json.loads(str(tags)), list) for (tags,) in rows), table


def test_the_journal_holds_iterations_only(shop: Workshop) -> None:
    shop.start(Step(say="<journal>split the lexer</journal>"), says_done(), PASSES)
    index.sync(shop.root)
    rows = select(shop.root, "SELECT iteration FROM journal ORDER BY iteration")
    assert rows == [(1,), (2,)]
    sql = "SELECT count(*) FROM journal_fts WHERE journal_fts MATCH 'lexer'"
    assert select(shop.root, sql) == [(1,)]


def test_runs_have_their_session_and_their_prompts(shop: Workshop) -> None:
    run = shop.start(Step(say="<journal>split the lexer</journal>"), says_done(), PASSES)
    index.sync(shop.root)
    sql = "SELECT notes FROM journal_fts WHERE journal_fts MATCH 'lexer' ORDER BY rank"
    assert "split the lexer" in str(select(shop.root, sql)[0][0])
    [(session, prompts)] = select(shop.root, "SELECT session_id, context_snapshots FROM loop_runs")
    assert (session or "") == shop.journal(run)[-1].session
    names = json.loads(str(prompts))
    assert [(paths.state_folder(shop.root) / name).exists() for name in names] == [True, True]


def test_a_session_of_a_loop_has_its_task(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    env = {
        **here.env,
        "RALPH_RUN": "run-0000000a",
        "RALPH_ITERATION": "1",
        "RALPH_TASK": "t-0000aa",
    }
    handled(
        env, "PostToolUse", payload("PostToolUse", tool_name="Bash", tool_input={"command": "make"})
    )
    index.sync(here.root)
    assert select(here.root, "SELECT task_id FROM sessions WHERE id = ?", SESSION) == [
        ("t-0000aa",)
    ]


@pytest.mark.parametrize("name", ["Stop", "SessionEnd"])
def test_the_database_is_current_after_a_session_ends(tmp_path: Path, name: str) -> None:
    here = world(tmp_path)
    here.cached()
    event(here, "UserPromptSubmit", prompt="rotate the JWT tokens")
    event(here, name, last_assistant_message="Done.", reason="logout")
    count = "SELECT count(*) FROM observations WHERE session_id = ?"
    assert select(here.root, count, SESSION) == [(2 if name == "Stop" else 1,)]
    if name == "SessionEnd":
        assert select(here.root, "SELECT reason FROM sessions WHERE id = ?", SESSION) == [
            ("logout",)
        ]
