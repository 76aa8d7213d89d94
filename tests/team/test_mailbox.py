"""What one machine pushes, another one pulls and finds; what is private, local or forgotten does not arrive."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.support.machines import EVERYTHING, Fleet, iteration, observation, session
from tests.support.secret_samples import TOKENS

from ralph.core import ids, paths
from ralph.core.errors import NotFound, RalphError
from ralph.core.record import Query
from ralph.core.settings import Privacy, Shared, Team
from ralph.learning.forget import forget, plan_forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.search import engine, index
from ralph.sharing import team, team_push, team_status
from ralph.sharing.row_cleaner import LocalPaths, RowCleaner
from ralph.storage import team_db
from ralph.storage.team_errors import ServerError

GOLDEN = Path(__file__).parents[1] / "golden" / "privacy"


def test_every_shared_kind_arrives_and_is_found(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    fix = ann.remember("ECONNREFUSED: run docker compose up first", "docker")
    ann.log(
        observation(1, "pytest failed with a timezone mismatch"),
        session("s1", "Moved the invoices to PostgreSQL"),
    )
    ann.log(iteration(1, "The retry loop swallowed the exception"), name="r1", kind="runs")
    assert ann.push().rows == 5  # the session is a row as well
    assert ben.pull().rows == 5
    assert ben.found("docker compose") == [fix]
    assert ben.found("timezone mismatch") == ["obs-s1-000001"]
    assert ben.found("invoices postgresql")[0].startswith("sum-")
    assert ben.found("swallowed exception") == ["jrn-r1-1"]
    assert [hit.member for hit in ben.search("docker compose").shown] == [fleet.role("ann")]
    assert ann.pull().rows == 0  # one's own rows are in the index


def test_only_the_difference_is_sent(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    ann.remember("one")
    log = ann.log(observation(1, "first"), observation(2, "second"))
    assert ann.push().rows == 3
    ben.pull()
    assert (ann.push().rows, ben.pull().rows) == (0, 0)
    ann.log(observation(3, "third"))
    assert [row.id for rows in ann.push().sent.values() for row in rows] == ["obs-s1-000003"]
    assert ben.pull().rows == 1
    log.write_text(
        observation(1, "first") + observation(4, "instead"), encoding="utf-8"
    )  # another prefix: all of it
    assert ann.push().rows == 2
    ben.pull()
    assert [name for name in ben.pulled() if name.startswith("obs")] == [
        "obs-s1-000001",
        "obs-s1-000004",
    ]


def test_a_search_over_pulled_rows_is_that_over_the_same_rows(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    words = [
        "timeout",
        "retry",
        "invoice",
        "docker",
        "cache",
        "token",
        "schema",
        "migrate",
        "worker",
        "socket",
    ]
    for number in range(300):
        text = (
            " ".join(words[(number * step + step) % 10] for step in range(1, 2 + number % 5))
            + f" case {number}"
        )
        ann.log(
            observation(number, text, f"s{number % 7}", files=["src/a.py"]), name=f"s{number % 7}"
        )
    ann.remember("A timeout of the invoice worker needs a retry", "invoice")
    ann.push()
    ben.pull()
    with team_db.read_team(paths.team_database(ben.root)) as pulled:
        for text in (
            "timeout retry",
            "invoice docker cache",
            "migrate",
            "socket worker token",
            "tokn",
            "case 17",
        ):
            search = partial(engine.search, query=Query(text, limit=20), today=ids.now().date())
            theirs, mine = search(pulled).hits, index.ask(ann.root, search).hits
            assert [(hit.record.id, hit.score) for hit in theirs] == [
                (hit.record.id, hit.score) for hit in mine
            ]


def test_nothing_of_the_machine_is_shared(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = fleet.machine("a", "ann")
    monkeypatch.setenv("HOME", str(fleet.folder / "home-of-ann"))
    root, home = ann.root, os.environ["HOME"]
    ann.remember(
        f"Look into {root}/src/auth.py, {home}/notes and /home/somebody/x, not at GET /api/users or /etc/hosts"
    )
    ann.log(
        observation(
            1,
            f"cd {root} && cat /tmp/secret-name.txt",
            files=[f"{root}/src/a.py", "/elsewhere/b.py"],
        )
    )
    escaped = str(root).replace("/", "\\/")
    ann.log(observation(4, f"at {root}2/other.py and {escaped}\\/src/escaped.py"))
    ann.log(
        observation(2, "what the person typed", title="prompt"),
        observation(3, "an answer", title="answer"),
    )
    ann.log(session("s1", f"Goal: words of a person\nChanged: {root}/src/a.py\nLast: done"))
    (root / ".ralph" / "scratchpad.md").write_text("scratch-words", encoding="utf-8")
    ann.push()
    dump = fleet.dump()
    for word in (
        str(fleet.folder),
        "somebody",
        "secret-name",
        "/elsewhere",
        "typed",
        "an answer",
        "secret-place",
        "of a person",
        ".2/other",
    ):
        assert word not in dump
    assert "scratch-words" not in dump
    for word in (
        "Last: done",
        "../a2/other.py",
        "and src/escaped.py",
        "src/auth.py",
        "GET /api/users",
        "/etc/hosts",
        '\\"files\\": [\\"src/a.py\\"]',
    ):
        assert word in dump or word.replace(": [", ":[") in dump


def test_a_project_in_a_short_folder_keeps_names_that_end_like_it() -> None:
    clean = RowCleaner(Path("/app"), Privacy())
    assert (
        clean.localise("cd /app && cat /app/a.py src/app/b.py src/apple")
        == "cd . && cat a.py src/app/b.py src/apple"
    )


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        (r"Edited C:\Users\ann\shop\src\cart.py", r"Edited src\cart.py"),
        (r"Edited c:\users\Ann\Shop\src\cart.py", r"Edited src\cart.py"),
        ("Edited C:/Users/ann/shop/src/cart.py", "Edited src/cart.py"),
        (r'{"path": "C:\\Users\\ann\\shop\\a.py"}', '{"path": "a.py"}'),
        (r"See C:\Users\ann\notes.md", r"See ~\notes.md"),
        ("See /c/Users/ann/notes.md", "See ~/notes.md"),
        (r"See C:\Users\ann\shop2\a.py", r"See ../shop2\a.py"),
        ("cd C:/Users/ann/shop", "cd ."),
        (r"D:\data stays", r"D:\data stays"),
    ],
)
def test_paths_of_windows_do_not_leave_the_machine(text: str, shared: str) -> None:
    here = LocalPaths([r"C:\Users\ann\shop"], [r"C:\Users\ann"], r"C:\Users\ann\AppData\Local\Temp")
    assert here.localise(text) == shared


def test_no_secret_reaches_the_server(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    tokens = [token for each in TOKENS.values() for token in each]
    page = "# Memories\n\n## Fixes\n\n" + "\n".join(
        f"### mem-{1705751400 + number}-a{number:03x}\n> the key is {token}, use it\n<!-- created: 2025-01-20 -->\n"
        for number, token in enumerate(tokens)
    )
    (ann.root / ".agent" / "memories.md").write_text(page, encoding="utf-8")
    ann.log(*(observation(number, f"export KEY={token}") for number, token in enumerate(tokens)))
    ann.log(session("s1", " ".join(tokens[:5])))
    corpus = json.loads((GOLDEN / "secrets.json").read_text(encoding="utf-8"))
    texts = ["".join(case["parts"]) for case in corpus]
    ann.log(*(observation(number, text, "s2") for number, text in enumerate(texts)), name="s2")
    ann.log(*(iteration(number, text) for number, text in enumerate(texts)), name="r1", kind="runs")
    assert ann.push().rows > len(tokens) + 2 * len(texts)
    dump = fleet.dump()
    secrets = [*tokens, *("".join(case["secret_parts"]) for case in corpus)]
    assert [
        secret
        for secret in secrets
        if secret in dump or json.dumps(json.dumps(secret)[1:-1])[1:-1] in dump
    ] == []


def test_rules_of_today_are_applied_to_what_was_pushed_before(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    ann.remember("The customer Initech pays late")
    ann.log(observation(1, "cat secrets/plan.md", files=["secrets/plan.md"]))
    ann.push()
    assert "Initech" in fleet.dump()
    ann.set(privacy=Privacy(patterns=("Initech",), paths=("secrets/",)))
    ann.push()
    assert "Initech" not in fleet.dump()
    assert "plan.md" not in fleet.dump()


def test_what_is_no_longer_shared_leaves_the_server(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    ann.remember("shared memory")
    ann.log(observation(1, "an observation"))
    ann.push()
    ann.set(share=tuple(each for each in EVERYTHING if each is not Shared.OBSERVATIONS))
    ann.push()
    assert "an observation" not in fleet.dump()
    assert "shared memory" in fleet.dump()
    assert Shared.OBSERVATIONS not in Team().share


def test_a_forgotten_record_goes_everywhere_and_stays_away(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    name = ann.remember("The launch code is in the red folder")
    ann.log(observation(1, "red folder opened"))
    ann.push()
    ben.pull()
    eve.pull()
    assert team.forget(ben.root, ben.config, name).rows == 1
    assert name not in ben.pulled()
    eve.pull()
    assert eve.found("launch code") == []
    with (ann.root / ".agent" / "memories.md").open("a", encoding="utf-8") as page:
        page.write("\n")  # another digest: pushed again
    ann.push()
    assert "launch" not in fleet.dump()
    with pytest.raises(NotFound):
        team.forget(ben.root, ben.config, "mem-1-0000")


def test_a_machine_that_was_away_brings_back_nothing(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    forgotten = ann.remember("The launch code is in the red folder")
    ann.log(observation(1, "an event"), observation(2, "a launch code"))
    page = Path(".agent/memories.md")
    (eve.root / page).write_bytes((ann.root / page).read_bytes())  # through git
    for machine in (ann, eve, ben):
        machine.sync()
    fleet.back_up("dump")
    for name in (forgotten, "obs-s1-000002"):
        team.forget(ben.root, ben.config, name)
    fleet.restore("dump")
    ben.sync()
    new = fleet.machine("new", "eve")
    (new.root / page).write_bytes((ann.root / page).read_bytes())
    for machine in (eve, new, ann, ben):
        machine.sync()
        assert {forgotten, "obs-s1-000002"}.isdisjoint(machine.pulled())
    assert "launch code" not in fleet.dump()


def test_a_local_forget_reaches_the_server_with_the_next_push(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    name = ann.remember("Nobody may know this")
    ben.root.joinpath(".agent/memories.md").write_bytes(
        ann.root.joinpath(".agent/memories.md").read_bytes()
    )
    ann.pull()  # joined
    ann.push()
    ben.push()
    forget(ann.root, plan_forget(ann.root, ForgetRequest((name,))))
    assert ann.push().forgotten == 1
    assert "Nobody may know" not in fleet.dump()


def test_a_local_forget_removes_what_was_pulled_and_leaves_the_rows_of_others_on_the_server(
    fleet: Fleet,
) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    theirs = ann.remember("The staging vault opens with the quokka song")
    ann.log(observation(1, "the QUOKKA SONG was sung"), observation(2, "the build was green"))
    own = ben.remember("The staging vault opens with the quokka song")
    ann.push()
    ben.pull()
    assert theirs in ben.pulled()
    forget(ben.root, plan_forget(ben.root, ForgetRequest((own,))))
    ben.pull()
    assert ben.pulled() == ["obs-s1-000001", "obs-s1-000002"]
    forget(ben.root, plan_forget(ben.root, ForgetRequest(matching="quokka song")))
    files = [path for path in paths.state_folder(ben.root).rglob("*") if path.is_file()]
    assert not any(b"quokka" in path.read_bytes().lower() for path in files)
    ben.pull()
    ben.push()
    assert ben.pulled() == ["obs-s1-000002"]
    assert fleet.dump().lower().count("quokka song") >= 2


def test_a_server_that_is_made_anew_fills_itself_and_knows_the_tombstones(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    gone, stays = ann.remember("to be forgotten"), ann.remember("to stay")
    ann.push()
    ben.pull()
    team.forget(ben.root, ben.config, gone)
    fleet.drop()
    fleet.make()
    for role in ("ann", "ben"):
        fleet.join(role, "shop")
    ben.push()  # its tombstones
    ann.push()
    ben.pull()
    assert ben.pulled() == [stays]


def test_of_a_memory_the_copy_of_the_default_branch_is_pulled(fleet: Fleet) -> None:
    machines = [fleet.machine(name, name) for name in ("ann", "ben", "eve")]
    ann, ben, eve = machines
    name = ann.remember("Prices are integers in cents")
    text = (ann.root / ".agent" / "memories.md").read_text(encoding="utf-8")
    for machine, branch, words in ((ann, "main", "cents"), (ben, "try", "dollars")):
        page = machine.root / ".agent" / "memories.md"
        page.write_text(text.replace("cents", words), encoding="utf-8")
        _git(machine.root, "init", "-q", "-b", branch)
        _git(machine.root, "add", ".agent")
        _git(machine.root, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "x")
        machine.push()
    eve.pull()
    assert eve.pulled() == [name]
    for on_server in (True, False):
        (hit,) = eve.search("prices integers", server=on_server).found.hits
        assert "cents" in hit.record.text
    assert eve.found("dollars", server=True) == []
    assert (
        "dollars" in ben.search("prices integers", server=True).found.hits[0].record.text
    )  # one's own
    record = eve.search("prices integers").found.hits[0].record
    about = record.extra["team"]
    assert isinstance(about, dict)
    assert (about["branch"], len(about["commit"])) == ("main", 40)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_leaving_with_the_rows_leaves_nothing(fleet: Fleet) -> None:
    ann = fleet.machine("ann", "ann")
    ann.remember("something")
    ann.push()
    ann.pull()
    assert team.leave(ann.root, ann.config.team, delete_mine=True) > 0
    assert "something" not in fleet.dump()
    assert not paths.team_database(ann.root).exists()


def test_a_pull_counts_the_sources_of_a_machine_that_left(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    ann.remember("something")
    ann.log(observation(1, "an observation"))
    ann.push()
    ben.pull()
    team.leave(ann.root, ann.config.team, delete_mine=True)
    assert (ben.pull().removed, ben.pulled()) == (2, [])


def test_another_member_cannot_write_a_machines_rows_and_a_reader_none(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    ann.remember("mine")
    ann.push()
    ann.config = ben.config  # the same machine under another role
    ann.remember("theirs")
    with pytest.raises(ServerError, match="another member"):
        ann.push()
    team.migrate(fleet.url(), "shop", readers=[fleet.role("ben")])
    ben.remember("of a reader")
    with pytest.raises(ServerError, match=r"may not write.*\n.*--pull-only"):
        ben.push()
    assert ben.pull().rows == 1


def test_a_member_who_was_removed_and_added_again_continues(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    rows = [ann.remember("The build needs two cores")]
    for machine in (ann, ben):
        machine.sync()
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("DELETE FROM ralph_team.members WHERE role = %s", (fleet.role("ann"),))
    for command in (ann.push, ann.pull):
        with pytest.raises(ServerError, match="may not read this project"):
            command()
    ben.sync()
    assert ben.pulled() == rows  # removing a member deletes no rows
    fleet.join("ann", "shop")
    rows.append(ann.remember("The tests need two cores"))
    ann.sync()
    ben.sync()
    assert ben.pulled() == sorted(rows)
    assert team.check(fleet.url())[1] == []


def test_a_machine_that_has_the_database_of_another_one_keeps_no_rows_of_its_own_there(
    fleet: Fleet,
) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    ann.log(observation(1, "an event of ann", "sa"), name="sa")
    ben.log(observation(1, "an event of ben", "sb"), name="sb")
    for machine in (ann, ben, eve, ann):
        machine.sync()
    shutil.copy(paths.team_database(eve.root), paths.team_database(ann.root))
    ann.sync()
    assert ann.pulled() == ["obs-sb-000001"]


def add_table(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE other (x)")


DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "not a database": lambda path: path.write_bytes(b"not a database" * 1000),
    "with another table": add_table,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_pull_replaces_a_database_that_is_damaged(
    fleet: Fleet, damage: Callable[[Path], object]
) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    name = ann.remember("The build needs two cores")
    for machine in (ann, ben):
        machine.sync()
    damage(paths.team_database(ben.root))
    assert team_status.status(ben.root, ben.config).problem == ""
    ben.sync()
    assert ben.pulled() == [name]


def test_a_server_that_is_away_or_of_another_version_is_one_line(fleet: Fleet) -> None:
    ann = fleet.machine("ann", "ann")
    ann.remember("here")
    ann.push()
    fleet.postgres.execute(f"ALTER DATABASE {fleet.database} CONNECTION LIMIT 0")
    with pytest.raises(ServerError) as away:
        ann.push()
    assert "\n" not in away.value.message
    assert away.value.hint
    fleet.postgres.execute(f"ALTER DATABASE {fleet.database} CONNECTION LIMIT 50")
    for number, what in ((0, "older"), (99, "newer")):
        with psycopg.connect(fleet.url(), autocommit=True) as owner:
            owner.execute("UPDATE ralph_team.version SET number = %s", (number or -1,))
        with pytest.raises(ServerError, match=what):
            ann.pull()
    assert team.check(fleet.url())[1]
    with pytest.raises(RalphError):
        team_push.push(ann.root, ann.config.__class__())
