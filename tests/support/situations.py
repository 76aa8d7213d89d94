"""Sessions in short, in which something failed and then passed: those that teach something, and those that do not."""

from ralph.core.record import Family, ObservationKind, Origin, Record, Scope, Status

ERROR, SUCCESS, USE, NOTE = (
    ObservationKind.ERROR,
    ObservationKind.SUCCESS,
    ObservationKind.TOOL_USE,
    ObservationKind.NOTE,
)


def observed(
    kind: ObservationKind, text: str = "", *, command: str = "", tool: str = "Bash", files: tuple[str, ...] = (),
    by: str = "tool", session: str = "s1", number: int = 0,
) -> Record:  # fmt: skip
    """One observation, as hooks record them."""
    extra: dict[str, object] = {"tool": tool, **({"command": command} if command else {})}
    return Record(
        f"obs-{1760000000 + number}-{session}{number:04x}", kind, text, Family.OBSERVATION, title=f"{tool}: {command}",
        status=Status.RAW, scope=Scope.SESSION, origin=Origin(by, session, files=files, task="t-0001aa"),
        created_at=f"2026-10-01T10:{number:02d}:00Z", extra=extra,
    )  # fmt: skip


Step = tuple[str, str] | tuple[str, str, str]


def session(*steps: Step, name: str = "s1") -> list[Record]:
    """A session in short: ("fail", command, output), ("ok", command), ("edit", file), ("note", text)."""
    records = []
    for number, (what, first, *rest) in enumerate(steps):
        text = rest[0] if rest else ""
        if what == "fail":
            records.append(observed(ERROR, text, command=first, session=name, number=number))
        elif what == "ok":
            records.append(observed(SUCCESS, text, command=first, session=name, number=number))
        elif what == "edit":
            records.append(
                observed(USE, text, tool="Edit", files=(first,), session=name, number=number)
            )
        else:
            records.append(observed(NOTE, first, tool="", by="agent", session=name, number=number))
    return records


TEACHING: dict[str, list[Step]] = {
    "a build that the tests need": [
        ("fail", "npm test", "Error: Cannot find module '../dist/parser.js'"),
        ("ok", "npm run build"),
        ("ok", "npm test"),
    ],
    "a service that was not up": [
        ("fail", "pytest tests/db", "psycopg.OperationalError: connection refused on port 5432"),
        ("ok", "docker compose up -d db"),
        ("ok", "pytest tests/db"),
    ],
    "a variable in front": [
        ("fail", "npm test", "Error: STRIPE_KEY environment variable is not set"),
        ("ok", "STRIPE_KEY=sk_dummy npm test"),
    ],
    "another version first": [
        (
            "fail",
            "yarn build",
            'error @acme/ui@3.1.0: The engine "node" is incompatible. Expected version ">=20".',
        ),
        ("ok", "nvm use 20 && yarn build"),
    ],
    "a migration before the tests": [
        ("fail", "pytest -q", "sqlite3.OperationalError: no such table: invoices"),
        ("ok", "alembic upgrade head"),
        ("ok", "pytest -q"),
    ],
    "a setting that was wrong": [
        ("fail", "npx jest", "ReferenceError: document is not defined"),
        ("edit", "jest.config.js", "+ testEnvironment: 'jsdom',"),
        ("ok", "npx jest"),
    ],
    "generated code that was out of date": [
        ("fail", "make verify", "api/types.gen.go is out of date"),
        ("ok", "make generate"),
        ("ok", "make verify"),
    ],
    "a cache that was stale": [
        ("fail", "npm run build", "Error: ENOENT chunk-vendors.7f.js (stale cache)"),
        ("ok", "rm -rf .next"),
        ("ok", "npm run build"),
    ],
}

EMPTY: dict[str, list[Step]] = {
    "a red test that code made green": [
        ("edit", "tests/test_cart.py"),
        ("fail", "pytest", "AssertionError: assert 0 == 3"),
        ("edit", "src/cart.py"),
        ("ok", "pytest"),
    ],
    "a linter": [
        ("fail", "ruff check src", "src/cart.py:1:1: F401 imported but unused"),
        ("ok", "ruff check --fix src"),
        ("ok", "ruff check src"),
    ],
    "the file at fault was a setting": [
        ("fail", "kubeval deploy.yml", "deploy.yml:3: unknown key replica"),
        ("edit", "deploy.yml"),
        ("ok", "kubeval deploy.yml"),
    ],
    "a rerun that passed by itself": [("fail", "pytest", "TimeoutError: 30 s"), ("ok", "pytest")],
    "an error of a moment": [
        ("fail", "npm ci", "npm ERR! network ETIMEDOUT registry"),
        ("ok", "npm cache clean --force"),
        ("ok", "npm ci"),
    ],
    "a search without a match": [
        ("fail", "grep -rn refund src", ""),
        ("edit", "a.toml"),
        ("ok", "grep -rn refund src"),
    ],
    "a command that never passed": [
        ("fail", "make it", "Error: no rule"),
        ("ok", "make other"),
        ("ok", "make that"),
    ],
}
