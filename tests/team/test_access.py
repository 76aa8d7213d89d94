"""A member of one project learns nothing of another one: by functions, by raw SQL, by errors, by the catalog."""

import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.support.machines import Fleet, Machine, iteration, observation, session

from ralph.core.errors import RalphError, UsageError
from ralph.sharing import team, team_pull, team_push, team_status
from ralph.storage import team_server
from ralph.storage.team_errors import ServerError
from ralph.storage.team_server import VERSION
from ralph.storage.team_url import check_url

NAME = "vault-of-initech"
SECRET = ("zyxwvut", "quuxly", "frobnicate")
TABLES = [
    "version",
    "projects",
    "members",
    "sources",
    "records",
    "records_rest",
    "sessions",
    "tombstones",
    "vocabulary",
    "vocabulary_changes",
    "machines",
    "pulls",
    "row_keys",
]
CATALOG = (
    "SELECT * FROM pg_catalog.pg_stats",
    "SELECT * FROM pg_catalog.pg_stat_activity",
    "SELECT * FROM pg_catalog.pg_stat_user_tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_catalog.pg_statistic",
    "SELECT * FROM pg_catalog.pg_stats_ext_exprs",
    "SELECT * FROM pg_catalog.pg_prepared_statements",
    "SELECT * FROM pg_catalog.pg_locks",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.column_privileges",
    "SELECT prosrc FROM pg_catalog.pg_proc",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_ls_dir('base')",
    "SELECT * FROM pg_catalog.pg_authid",
    "SELECT * FROM pg_get_wal_replay_pause_state()",
)
FUNCTIONS = {
    "sources_of": "{project}",
    "tombstones_of": "{project}",
    "rows_of": "{project}, '{{1,2,3,4,5,6}}'::bigint[], '{{0,0,0,0,0,0}}'::bigint[]",
    "memories_of": "{project}, '{word}', '{{1,2,3}}'::bigint[]",
    "machines_of": "{project}",
    "epoch_of": "{project}",
    "notice_restore": "{project}, {number}, '{word}'",
    "report_pull": "{project}, 'probe', '', 1, 2, 3",
    "finish_push": "{project}, 'probe', '{word}', '{{}}'",
    "check_rows": "{project}, 'probe'",
    "confirm_sources": "{project}, 'probe', ARRAY['{word}'], ARRAY['{word}']",
    "notice_lost_push": "{project}, 'probe', 9000000000000000000, '{word}'",
    "remove_again": "{project}, {number}, '{word}', 9000000000000000000, '{word}'",
    "size_of": "{project}",
    "frequencies": "{project}, ARRAY['{word}', 'zyxwvut', 'quuxli']",
    "terms_from": "{project}, '{letter}', '~', 500",
    "terms_with": "{project}, '{letter}', 500",
    "candidates": "{project}, ARRAY['zyxwvut', '{word}', '../1/0quuxli'], ARRAY[1.0, 2.0, 1.0]::float8[], 100",
    "rows_at": "{project}, ARRAY(SELECT generate_series(0, {number})::bigint)",
    "keys_with": "{project}, ARRAY['mem-1', 'obs-v1-000001', '{word}']",
    "neighbours": "{project}, ARRAY(SELECT generate_series(0, {number})::bigint), 50",
    "member_of": "{project}, false",
    "drop_rows": "{number}, ARRAY[1, 2]::bigint[]",
    "keys_with_term": "'{number}/0zyxwvut'",
    "add_member": "{project}, 'postgres'",
    "project_epoch": "{number}",
    "count_words": "{number}, ARRAY['zyxwvut'], ARRAY[1]",
    "row_digest": "'{word}'",
    "my_projects": "",
}
SHAPES = (
    "SELECT * FROM ralph_team.{table}",
    "SELECT count(*) FROM ralph_team.{table}",
    "COPY ralph_team.{table} TO STDOUT",
    "DELETE FROM ralph_team.{table}",
    "INSERT INTO ralph_team.members VALUES (session_user, {number})",
    "EXPLAIN ANALYZE SELECT * FROM ralph_team.{table}",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "CREATE FUNCTION ralph_team.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TEMP TABLE {table} AS SELECT 'shop' AS name, 1 AS id, session_user AS role, 1 AS project, true AS w",
    "SET search_path = pg_temp, ralph_team",
    "ALTER TABLE ralph_team.{table} DISABLE TRIGGER ALL",
    "SELECT ralph_team.{function}({values})",
    "SELECT * FROM ralph_team.{function}({values})",
    "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM ralph_team.{function}({values})",
    "SELECT 1 / (SELECT count(*)::int FROM ralph_team.{function}({values}))",
    "SELECT has_table_privilege('ralph_team.{table}', 'SELECT')",
    "SELECT setting FROM pg_settings",
)


def probe(choose: random.Random) -> str:
    """Return a random statement."""
    if choose.random() < 0.15:
        return choose.choice(CATALOG)
    function = choose.choice(list(FUNCTIONS))
    project = choose.choice(
        [
            "'shop'",
            "'1'",
            "'shop' || ''",
            "NULL",
            "''",
            "'%'",
            "'shop'' OR true --'",
            "chr(118) || '%'",
        ]
    )
    word, number = choose.choice([*SECRET, "common", "e"]), choose.randint(0, 400)
    letter = choose.choice("abcdefghijklmnopqrstuvwxyz")
    values = FUNCTIONS[function].format(project=project, word=word, number=number, letter=letter)
    table = choose.choice(TABLES)
    return choose.choice(SHAPES).format(
        table=table, function=function, values=values, number=number
    )


def fill(fleet: Fleet) -> None:
    """Two projects with records, sessions, tombstones and words of their own."""
    vault, shop = fleet.machine("v", "eve", NAME), fleet.machine("s", "ann", "shop")
    gone = vault.remember(f"To be forgotten: {SECRET[2]}")
    vault.remember(f"The {SECRET[0]} is common", SECRET[1])
    vault.log(
        *(
            observation(number, f"{SECRET[0]} {SECRET[1]} common {number}", "v1")
            for number in range(20)
        ),
        name="v1",
    )
    vault.log(session("v1", f"All about {SECRET[1]}"), iteration(1, SECRET[0], "rv"), name="v1")
    shop.remember("something common")
    shop.log(observation(1, "common words"))
    vault.push()
    vault.pull()
    team.forget(vault.root, vault.config, gone)
    shop.push()


COMMANDS: tuple[Callable[[Machine, str], object], ...] = (
    lambda machine, word: machine.search(word, server=True),
    lambda machine, word: machine.search(f"{word} common", limit=20),
    lambda machine, word: team.forget(machine.root, machine.config, word),
    lambda machine, word: team.join(
        machine.root, machine.config.team, machine.config.team.url, word
    ),
    lambda machine, word: team_pull.pull(
        machine.root, replace(machine.config, team=replace(machine.config.team, project=word))
    ),
    lambda machine, word: team_push.push(machine.root, machine.config, dry_run=True),
    lambda machine, word: team_status.status(machine.root, machine.config),
    lambda machine, word: (machine.pull(), machine.pulled()),
    lambda machine, word: team.check(machine.config.team.url),
)


def ask(connection: "psycopg.Connection[tuple[object, ...]]", statement: str) -> str:
    """Run a statement; return what it answers, also when it fails."""
    try:
        if statement.startswith("COPY"):
            with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                return b"".join(copy).decode()
        cursor = connection.execute(statement.encode())
        return repr(cursor.fetchall() if cursor.description else [])
    except psycopg.Error as error:
        return (
            repr(error.diag.message_primary)
            + repr(error.diag.message_detail)
            + repr(error.diag.context)
        )


@pytest.mark.soak
def test_a_member_of_one_project_sees_nothing_of_another(
    fleet: Fleet, rounds: Callable[[int, int], int]
) -> None:
    fill(fleet)
    ann, choose = fleet.machine("probing", "ann", "shop"), random.Random(11)
    leaks, answers = [], 0
    with psycopg.connect(fleet.url("ann"), autocommit=True) as connection:
        for _ in range(rounds(10_000, 400)):
            if choose.random() < 0.2:
                word = choose.choice([*SECRET, NAME, "shop", "obs-v1-000001", "comon", "mem-1"])
                number = choose.randrange(len(COMMANDS))
                probed, text = f"{number} {word}", _text_of(partial(COMMANDS[number], ann, word))
            else:
                probed = probe(choose)
                text = ask(connection, probed)
            answers += text not in ("[]", "None")
            for word in (*SECRET, "quuxli", "frobnic", NAME, "initech"):
                if word in text and word not in probed:
                    leaks.append((probed, word))
    assert leaks == []
    assert answers > 20
    _, problems = team.check(fleet.url())
    own = f"of {fleet.role('ann')} "  # what this member reported wrongly about her own machines
    assert [line for line in problems if own not in line] == []
    words = [row[0] for row in _words(fleet)]
    assert SECRET[2] not in " ".join(words)  # what was forgotten is in no vocabulary
    assert SECRET[0] in words


def _text_of(command: Callable[[], object]) -> str:
    try:
        return repr(command())
    except RalphError as error:
        return f"{error.message} {error.hint}"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "GRANT SELECT (body) ON ralph_team.records TO {ben}",
            "ben_. may use the column records.body",
        ),
        ("GRANT SELECT ON ralph_team.records TO PUBLIC", "everybody may use the table records"),
        ("GRANT CREATE ON SCHEMA ralph_team TO {ben}", "ben_. may CREATE in the schema"),
        ("GRANT postgres TO {ben}", "ben_. may act as the owner"),
        ("GRANT EXECUTE ON FUNCTION ralph_team.member_of TO {ben}", "ben_. may call member_of"),
        ("ALTER TABLE ralph_team.records OWNER TO {ben}", "records does not belong to the owner"),
        ("CREATE VIEW ralph_team.x AS SELECT 1", "x is a view"),
        (
            "INSERT INTO ralph_team.machines (project, machine, member, records) "
            "VALUES (1, 'laptop', 'ann', 77)",
            "machine laptop of ann counts 77 records and has 0",
        ),
        ("DROP FUNCTION ralph_team.neighbours", "the function neighbours is missing"),
        (
            "CREATE OR REPLACE FUNCTION ralph_team.size_of(p_project text) "
            "RETURNS TABLE (records bigint, tokens bigint) LANGUAGE sql SECURITY DEFINER "
            "SET search_path = ralph_team, pg_temp AS 'SELECT 1, 1'",
            "the function size_of is not Ralph's",
        ),
        (
            "CREATE FUNCTION ralph_team.back() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER "
            "SET search_path = ralph_team, pg_temp AS 'SELECT body FROM records'",
            "the function back is not Ralph's",
        ),
    ],
)
def test_check_finds_what_somebody_changed(fleet: Fleet, change: str, line: str) -> None:
    fleet.join("ben", "shop")
    assert team.check(fleet.url()) == (VERSION, [])
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(change.format(ben=fleet.role("ben")).encode())
    assert any(
        re.match(f".*{line.replace('ben_.', fleet.role('ben'))}", each)
        for each in team.check(fleet.url())[1]
    )


def test_an_owner_without_superuser_rights_can_set_up_and_check(fleet: Fleet) -> None:
    owner = fleet.role("owner")
    fleet.drop()
    fleet.postgres.execute(
        f"CREATE ROLE {owner} LOGIN",
        f"CREATE DATABASE {fleet.database} OWNER {owner}",
        f"CREATE ROLE {fleet.role('ann')} LOGIN",
    )
    url = fleet.url("owner")
    team.migrate(url, "shop", [fleet.role("ann")])
    assert team.check(url) == (VERSION, [])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE ralph_team.members ALTER COLUMN role SET STATISTICS 100")
    (without_statistics,) = team.check(url)[1]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE ralph_team.members")
    (with_statistics,) = team.check(url)[1]
    assert "statistics of members.role" in without_statistics
    assert "hide_statistics()" in without_statistics
    assert "pg_statistic" in with_statistics


def _words(fleet: Fleet) -> list[tuple[str]]:
    with psycopg.connect(fleet.url()) as owner:
        return owner.execute("SELECT term FROM ralph_team.vocabulary").fetchall()


def test_another_projects_name_answers_as_one_that_does_not_exist(fleet: Fleet) -> None:
    fill(fleet)
    with fleet.server("ann") as server:
        messages = []
        for project in (NAME, "nothing"):
            with pytest.raises(ServerError) as refused:
                server.sources(project)
            messages.append(str(refused.value))
        assert messages[0] == messages[1]
        assert [name for name, _, _ in server.call("my_projects")] == ["shop"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:pass@localhost/x",
        "password=x host=localhost",
        "postgresql://ann@localhost/x?sslpassword=x",
        "postgresql://ann@db.example.com/x?sslmode=require",
        "host=db.example.com sslmode=disable",
        "host=localhost,db.example.com sslmode=prefer",
        "no url at all",
    ],
)
def test_a_url_with_a_password_or_without_tls_is_refused(url: str) -> None:
    with pytest.raises(RalphError):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter%zz@localhost/x",
        "mysql://ann:hunter@localhost/x",
        "ann:hun/ter@localhost/x",
        "postgresql://ann:hunter%zz",
        "host=localhost password=my hunter",
        "postgresql://ann@localhost/x?Password=hunter",
    ],
)
def test_a_malformed_url_is_refused_without_quoting_its_password(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(url)
    assert refused.value.message == "this is not a PostgreSQL URL"


def test_a_malformed_url_without_a_password_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match='invalid percent-encoded token: "x%zz"'):
        check_url("postgresql://ann@localhost:5432/x%zz")


def test_tls_is_verified_unless_the_server_is_here() -> None:
    assert check_url("postgresql://ann@db.example.com/x")["sslmode"] == "verify-full"
    assert check_url("service=team")["sslmode"] == "verify-full"
    for url in (
        "postgresql://ann@localhost/x",
        "postgresql://ann@/x?host=/run/postgresql",
        "host=127.0.0.1",
    ):
        assert "sslmode" not in check_url(url)
    with pytest.raises(UsageError):
        team.migrate("host=127.0.0.1", members=["ann"])


def test_the_address_of_a_service_or_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    text = "[away]\nhost=db.example.com\nsslmode=disable\n[here]\nhost=127.0.0.1\n"
    services.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert check_url("service=away")["sslmode"] == "verify-full"
    assert "sslmode" not in check_url("service=here")
    monkeypatch.setenv("PGSERVICE", "away")
    assert check_url("user=ann")["sslmode"] == "verify-full"
    assert "sslmode" not in check_url("service=here")
    assert os.environ["PGSERVICE"] == "away"
    monkeypatch.delenv("PGSERVICE")
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.2")
    assert check_url("postgresql://ann@127.0.0.1/x")["sslmode"] == "verify-full"


def test_a_server_that_falls_silent_is_given_up(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.join("ann", "shop")
    with fleet.server("ann") as server:
        monkeypatch.setattr(team_server, "PATIENCE", 0.2)
        with pytest.raises(ServerError, match="took longer"), server._limit_time():
            server.connection.execute("SELECT pg_sleep(60)")


def test_a_push_does_not_wait_long_for_one_that_never_ends(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    ben.remember("waits")
    with (
        psycopg.connect(fleet.url("ann")) as holder,
        psycopg.connect(fleet.url(), autocommit=True) as owner,
    ):
        name = (
            owner.execute("SELECT 'ralph_team.push'::regproc::oid::regprocedure::text").fetchone()
            or ("",)
        )[0]
        owner.execute(
            f"ALTER FUNCTION {name} SET lock_timeout = '100ms'".encode()
        )  # it is ten seconds
        holder.execute("SELECT ralph_team.forget('shop', ARRAY['x'])")
        with pytest.raises(ServerError, match="somebody else is pushing"):
            ben.push()
    assert ann.push().rows == 0
