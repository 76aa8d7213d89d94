"""Lessons at the point of an action: the one that belongs there, and none in every other case."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

import pytest
from tests.support.runner import Block, page

from ralph.core import paths, terms
from ralph.recall import lessons
from ralph.storage import hook_index, lookup, record_filters
from ralph.storage.index import Index

LESSONS = {
    "postgres": "ECONNREFUSED 127.0.0.1:5432 in the tests: Postgres is not up. Run `docker compose up -d db` first.",
    "migrate": "`npm run migrate` fails with 'relation does not exist' when DATABASE_URL points at the template.",
    "session": "src/auth/session.ts: never call rotateRefreshToken twice in one request, that logs everybody out.",
    "cookie": "JWT lives in an httpOnly cookie, not in localStorage; see src/auth/cookie.ts.",
    "hangs": "pytest hangs on macOS unless OBJC_DISABLE_INITIALIZE_FORK_SAFETY=YES is set.",
    "pnpm": "We use pnpm, not npm: `pnpm install --frozen-lockfile` in CI.",
    "yaml": "ModuleNotFoundError: No module named 'yaml': the package is called pyyaml, run `uv sync --extra dev`.",
    "stripe": "src/payments/__init__.py must import stripe lazily, or the worker takes ten seconds to start.",
    "web": "apps/web/index.ts only re-exports; code goes to apps/web/src.",
    "rds": "`terraform apply` times out on the RDS module: raise the timeout to 60m in infra/rds.tf.",
    "push": "git push is rejected by the pre-push hook when generated files are stale: run `make docs`.",
    "dates": "Dates are stored in UTC and rendered by src/lib/dates.ts only.",
    "vite": "EADDRINUSE on port 3000: an old vite server is still running, `pkill -f vite`.",
    "form": "보고서 양식.xlsx를 열 때는 openpyxl에 keep_vba=True를 준다.",
    "notes": "docs/release notes.md is generated; edit the entries of the changelog instead.",
    "linker": "cargo build fails with linker `cc` not found in the slim image: apt-get install build-essential.",
    "flaky": "Playwright is flaky with more than two workers: `npx playwright test --workers=2`.",
    "tabs": "The Makefile needs tabs; the formatter turns them into spaces.",
    "windows": r"On Windows apps\desktop\main.ts must not use fs.watch.",
    "generated": "lib/no-pay.ts and infra/old.tf.json are generated; in the admin, index.ts is generated too.",
    "long": "We looked at many things in this project before we decided. "
    + "Some files of a server may wait. " * 30,
}
DECISIONS = ("cookie", "pnpm", "web", "dates", "long")
LEFT_OUT = {
    "pattern": "auth.ts must be pure",
    "context": "`npm test` needs Node 20; SIGSEGV means an old one",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """An index of these lessons, and of two memories that are none."""
    root = tmp_path_factory.mktemp("lessons")
    blocks = [
        Block(text, name, kind="decision" if name in DECISIONS else "fix")
        for name, text in _named(LESSONS)
    ]
    blocks += [Block(text, f"mem-9-{kind}", kind=kind) for kind, text in LEFT_OUT.items()]
    (root / ".agent").mkdir()
    (root / ".agent" / "memories.md").write_text(page(*blocks), encoding="utf-8")
    Index(root, terms.index_terms).sync()
    connection = hook_index.open_index(str(paths.index_file(root)))
    assert connection is not None
    with closing(connection):
        yield connection


def _named(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (f"mem-{1_705_751_400 + number}-{name}", text)
        for number, (name, text) in enumerate(texts.items())
    ]


KEEP = (record_filters.memories(kinds=("fix", "decision")),)


def names(rows: list[lookup.RecordRow]) -> list[str]:
    return [row.id.rpartition("-")[2] for row in rows]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/home/user/proj/src/auth/session.ts", "session"),
        ("src/auth/cookie.ts", "cookie"),
        ("./src/auth/cookie.ts", "cookie"),
        ("C:\\proj\\src\\auth\\session.ts", "session"),
        ("c:/proj/src/auth/session.ts", "session"),
        ("C:\\proj\\apps\\desktop\\main.ts", "windows"),
        ("/p/src/payments/__init__.py", "stripe"),
        ("/p/apps/web/index.ts", "web"),
        ("/p/보고서 양식.xlsx", "form"),
        ("/p/docs/release notes.md", "notes"),
        ("/p/Makefile", "tabs"),
        ("/p/infra/rds.tf", "rds"),
        ("dates.ts", "dates"),
    ],
)
def test_a_lesson_that_names_the_file_is_told(index: Connection, path: str, told: str) -> None:
    assert names(lessons.on_files(index, [path], KEEP)) == [told]


@pytest.mark.parametrize(
    "path",
    [
        "/p/src/other/session.ts",  # another file of that name
        "/p/src/auth/index.ts",
        "/p/index.ts",
        "/p/web/src/index.ts",
        "/p/apps/admin/index.ts",  # a lesson has both words, but not the file with its folder
        "pay.ts",  # a part of another name
        "/p/infra/old.tf",
        "/p/web/index.tsx",
        "/p/src/users/__init__.py",
        "/p/__init__.py",
        "/p/src/auth.ts",  # a pattern names it, and patterns are no lessons
        "/p/cookie.py",
        "/p/session",
        "/p/release.md",
        "/p/dates.test.ts",
        "/p/src/lib/my-dates.ts",
        "/p/src/lib/dates.ts.bak",
        "/p/dates",
        "/p/README.md",
        "/p/package.json",
        "/p/양식.docx",
        "/p/월간보고서 양식.xlsx",
        "/p/makefile",
        "/p/apps/desktop/x/main.ts",
        "/p/main.ts",
        "",
        "/",
        "...",
        "\ud800.ts",
        '"; DROP.ts',
    ],
)
def test_nothing_is_told_about_another_file(index: Connection, path: str) -> None:
    assert names(lessons.on_files(index, [path], KEEP)) == []


def test_several_files_are_looked_at_and_no_file_is_none(index: Connection) -> None:
    found = names(lessons.on_files(index, ["src/auth/session.ts", "infra/rds.tf"], KEEP))
    assert sorted(found) == ["rds", "session"]
    assert lessons.on_files(index, [], KEEP) == []
    assert lessons.on_files(index, ["infra/rds.tf"], ()) == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("npm run migrate", "migrate"),
        ("npm run migrate -- --env test", "migrate"),
        ("cd api && DATABASE_URL=x npm run migrate 2>&1 | tail", "migrate"),
        ("terraform apply -auto-approve", "rds"),
        ("git push origin main", "push"),
        ("npx playwright test", "flaky"),
        ("pnpm install", "pnpm"),
        ("docker compose up -d db", "postgres"),
        ("cargo build --release", "linker"),
        ("pytest -x tests/unit", "hangs"),
        ("uv run pytest", "hangs"),
        ("python3 -m pytest tests", "hangs"),
        ("sed -i s/a/b/ src/auth/session.ts", "session"),
        ("cat 'infra/rds.tf'", "rds"),
    ],
)
def test_a_lesson_that_names_the_command_is_told(
    index: Connection, command: str, told: str
) -> None:
    assert names(lessons.on_command(index, command, KEEP)) == [told]


@pytest.mark.parametrize(
    "command",
    """git status;git commit -m 'wip push';ls -la;npm test;npm run build;npm run lint;docker ps;docker compose logs web
cargo test;cargo fmt;terraform fmt;terraform plan;cat src/app.ts;make;make test;python -m http.server;echo hi
rm -rf build;grep -rn TODO src;cd web && ls;node server.js;curl http://localhost:3000/health;uv run ruff check .
kubectl get pods;git log --oneline -5;git diff HEAD~1;date;find . -name '*.ts';pnpm lint;npm install;git pull
docker build .;sudo -n true;FOO=bar;&& ||;;"unclosed;`;\0;npm;git --version""".replace(
        "\n", ";"
    ).split(";"),
)
def test_nothing_is_told_about_another_command(index: Connection, command: str) -> None:
    assert names(lessons.on_command(index, command, KEEP)) == []


def test_the_mere_name_of_a_program_can_be_too_little(index: Connection) -> None:
    assert names(lessons.on_command(index, "pytest -x", KEEP, min_words=2)) == []
    assert names(lessons.on_command(index, "git push", KEEP, min_words=2)) == ["push"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "Exit code 1\nError: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap.afterConnect",
            "postgres",
        ),
        (
            "Exit code 1\nTraceback\n    import yaml\nModuleNotFoundError: No module named 'yaml'",
            "yaml",
        ),
        ("Exit code 1\nError: listen EADDRINUSE: address already in use :::3000", "vite"),
        ("Exit code 101\nerror: linker `cc` not found", "linker"),
        ("TypeError: rotateRefreshToken is not a function", "session"),
    ],
)
def test_a_lesson_that_fits_the_error_is_told(index: Connection, error: str, told: str) -> None:
    assert names(lessons.on_error(index, error, KEEP)) == [told]


@pytest.mark.parametrize(
    "error",
    [
        "",
        "Exit code 1",
        "Exit code 2\nls: cannot access '/nonexistent': No such file or directory",
        "Exit code 1\nFAIL src/cart.test.ts\n  expected 3 to equal 4\nTests: 1 failed, 20 passed",
        'Traceback (most recent call last):\n  File "app.py", line 12, in <module>\nZeroDivisionError: by zero',
        "Exit code 1\nModuleNotFoundError: No module named 'numpy'",
        "src/cart.ts(10,5): error TS2322: Type 'string' is not assignable to type 'number'.",
        "fatal: unable to access 'https://example.com/x.git/': Could not resolve host: example.com",
        "CONFLICT (content): Merge conflict in src/app.ts\nAutomatic merge failed; fix conflicts and then commit.",
        "error[E0382]: borrow of moved value: `x`",
        "FAILED tests/test_cart.py::test_total - AssertionError: assert 3 == 4",
        "make: *** No targets specified and no makefile found.  Stop.",
        "curl: (7) Failed to connect to localhost port 9000 after 0 ms: Couldn't connect to server",
        'failed to solve: process "/bin/sh -c pip install -r requirements.txt" did not complete successfully',
        "npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree",
        "F401 [*] `os` imported but unused\nFound 1 error.",
        "mkdir: cannot create directory 'build': File exists",
        "chmod: changing permissions of 'run': Operation not permitted",
        'psql: error: FATAL: password authentication failed for user "me"',
        '[vite]: Rollup failed to resolve import "lodash" from "src/main.ts".',
        "./main.go:10:2: undefined: foo",
        'error: error validating "x.yaml": error validating data',
        "/src/a.ts 1:1 error Unexpected console statement no-console",
        "SIGSEGV",  # only a context memory names it
        "econnrefused",  # a word, where the lesson has the code
        "File does not exist. Some files of this server may wait for the project.",
        "오류: 파일을 찾을 수 없습니다",
        "\ud800 ' \" `",
        "error " * 500,
    ],
)
def test_nothing_is_told_about_another_error(index: Connection, error: str) -> None:
    assert names(lessons.on_error(index, error, KEEP)) == []


def test_the_code_of_an_error_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / ".agent").mkdir()
    text = page(Block("ECONNREFUSED: run docker compose up first", kind="fix"))
    (tmp_path / ".agent" / "memories.md").write_text(text, encoding="utf-8")
    Index(tmp_path, terms.index_terms).sync()
    connection = hook_index.open_index(str(paths.index_file(tmp_path)))
    assert connection is not None
    with closing(connection):
        error = "Exit code 1\nError: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap.afterConnect"
        assert len(lessons.on_error(connection, error, KEEP)) == 1
