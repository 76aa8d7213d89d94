"""Commands that check something are known in whatever they are wrapped, and their outcome by what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.captured_hooks import bash, event
from tests.support.cases import for_each

from ralph.capture.command_lines import split_commands
from ralph.capture.commands import CommandCheck, find_check
from ralph.capture.events import Event
from ralph.capture.outcomes import classify, reports_failure
from ralph.core.record import ObservationKind

CHECKS = """
test  | pytest
test  | pytest -x tests/test_a.py -k "not slow"
test  | python -m pytest -q
test  | python3.11 -X dev -m unittest discover
test  | .venv/bin/pytest tests
test  | cd backend && pytest -q
test  | cd a; FOO=1 BAR="x y" pytest
test  | PYTHONPATH=src timeout 60 pytest -q 2>&1 | tail -20
test  | timeout -k 5 120s uv run pytest
test  | uv run --extra dev pytest -n 4
test  | poetry run pytest
test  | pipenv run python -m pytest
test  | coverage run -m pytest
test  | tox -e py311
test  | nox -s tests
test  | bash -lc "cd app && npm test"
test  | npm test
test  | npm t -- --runInBand
test  | npm run test:unit
test  | npm --prefix web test
test  | npm -w web run test
test  | yarn test --coverage
test  | yarn workspace web test
test  | yarn jest src
test  | pnpm test
test  | pnpm -r test
test  | pnpm --filter web run test
test  | pnpm -w test
test  | pnpm exec vitest run
test  | bun test
test  | npx jest --ci
test  | npx -y vitest run
test  | npx mocha test/*.js
test  | npx playwright test
test  | turbo run test
test  | nx test app
test  | nx run app:test
test  | cargo test --all
test  | cargo +nightly nextest run
test  | RUST_BACKTRACE=1 cargo test -- --nocapture
test  | go test ./...
test  | make test
test  | make -C backend check -j4
test  | just test
test  | ./gradlew :app:test
test  | gradle check
test  | mvn -q test
test  | ./mvnw -pl core verify
test  | dotnet test --no-build
test  | bundle exec rspec
test  | rails test
test  | vendor/bin/phpunit
test  | composer test
test  | ctest --output-on-failure
test  | bazel test //...
test  | swift test
test  | mix test
test  | deno test -A
test  | flutter test
test  | sbt test
test  | python manage.py test
test  | sudo -E env CI=1 npm test
test  | if npm test; then echo ok; fi
test  | (cd web && npm test)
build | npm run build
build | yarn build
build | pnpm run build:prod
build | bun run build
build | vite build
build | next build
build | cargo build --release
build | go build ./...
build | make
build | make build
build | make -j8 all
build | cmake --build build
build | ninja -C out
build | gradle assembleDebug
build | mvn package -DskipTests
build | dotnet build
build | bazel build //app
build | swift build
build | xcodebuild -scheme App
build | docker build -t x .
build | gcc -o a a.c
build | python -m build
lint  | npm run lint
lint  | eslint src --fix
lint  | npx eslint .
lint  | npx prettier --check .
lint  | ruff check src
lint  | uv run ruff format --check
lint  | uvx ruff check
lint  | black --check .
lint  | flake8
lint  | cargo clippy -- -D warnings
lint  | cargo fmt --check
lint  | go vet ./...
lint  | golangci-lint run
lint  | make lint
lint  | pre-commit run --all-files
lint  | rubocop
lint  | shellcheck x.sh
types | tsc --noEmit
types | npx tsc -p .
types | npm run typecheck
types | npm run type-check
types | mypy --strict src
types | .venv/bin/mypy src
types | pyright
types | cargo check
"""

OTHERS = """
ls -la
echo "npm test"
echo 'run pytest' > notes.txt
git commit -m "make test pass"
git log --grep pytest
cat pytest.ini
grep -rn "cargo test" .
npm install
npm ci --ignore-scripts
npm run dev
npm run test:watch
npm start
yarn add jest
pip install pytest
uv sync
cargo fmt
cargo run
cargo add serde
go mod tidy
go run .
make clean
make install-hooks
prettier --write .
black .
ruff format
ruff --version
pytest --version
pytest --collect-only
jest --watch
tsc --watch
python script.py
node test.js
vite
docker compose up -d
cmake -S . -B build
cd tests
rm -rf build
kubectl get pods
cat > run.sh <<'EOF'\\npytest\\nEOF
"""


def _rows() -> list[tuple[str, str]]:
    rows = [row.partition("|") for row in CHECKS.strip().splitlines()]
    return [(kind.strip(), command.strip()) for kind, _, command in rows]


@for_each(("kind", "command"), _rows())
def test_a_check_is_known_behind_whatever_starts_it(kind: str, command: str) -> None:
    assert find_check(command)[0] is CommandCheck(kind)


@pytest.mark.parametrize("command", OTHERS.strip().splitlines())
def test_other_commands_are_no_checks(command: str) -> None:
    assert find_check(command.replace("\\n", "\n")) == (None, False)


@pytest.mark.parametrize(
    ("command", "last"),
    [("npm test", True), ("cd x && npm test", True), ("npm test 2>&1", True), ("npm test;", True),
     ("npm test | tail", False), ("npm test || true", False), ("npm test; echo done", False),
     ("npm test && echo ok", True), ("npm test &", False)],
)  # fmt: skip
def test_the_exit_code_is_the_checks_own_only_when_nothing_comes_between(
    command: str, last: bool
) -> None:
    assert find_check(command) == (CommandCheck.TEST, last)


FAILURES = [
    ("pytest -q", "F.\n=== short test summary info ===\nFAILED tests/a.py::test_x - assert 1 == 2\n1 failed, 1 passed"),
    ("pytest -q", "=========== 2 failed, 3 passed in 0.12s ==========="),
    ("pytest", "ERROR tests/a.py - ImportError\n! Interrupted: 1 error during collection !\n=== 1 error in 0.1s ==="),
    ("python -m unittest", "Ran 3 tests in 0.001s\n\nFAILED (errors=1)"),
    ("python -m unittest", "FAILED (failures=2, skipped=1)"),
    ("npx jest", "Tests:       1 failed, 4 passed, 5 total"),
    ("npx vitest run", " Tests  1 failed | 3 passed (4)"),
    ("npx mocha", "  3 passing (10ms)\n  1 failing\n"),
    ("npm test", "npm ERR! Test failed.  See above for more details."),
    ("npm run build", "npm error Missing script: \"build\""),
    ("yarn build", "error Command failed with exit code 2."),
    ("cargo test", "test result: FAILED. 3 passed; 1 failed; 0 ignored"),
    ("cargo build", "error[E0308]: mismatched types\n  --> src/main.rs:2:5"),
    ("cargo build", "error: could not compile `x` (bin \"x\") due to 1 previous error"),
    ("go test ./...", "--- FAIL: TestX (0.00s)\nFAIL\nFAIL\texample.com/x\t0.002s"),
    ("go build ./...", "./main.go:5:2: undefined: foo"),
    ("tsc --noEmit", "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'."),
    ("mypy src", "src/a.py:3: error: Incompatible types\nFound 1 error in 1 file (checked 3 source files)"),
    ("pyright", "2 errors, 0 warnings, 0 informations"),
    ("ruff check", "a.py:1:1: F401 `os` imported but unused\nFound 1 error."),
    ("flake8", "a.py:1:1: E501 line too long"),
    ("eslint .", "✖ 3 problems (2 errors, 1 warning)"),
    ("npx prettier --check .", "[warn] Code style issues found in 2 files."),
    ("black --check .", "would reformat a.py"),
    ("make", "make: *** [Makefile:3: all] Error 1"),
    ("gcc a.c", "a.c:3:5: error: expected ';' before '}' token"),
    ("mvn test", "[INFO] BUILD FAILURE"),
    ("./gradlew build", "BUILD FAILED in 3s"),
    ("dotnet build", "Program.cs(3,1): error CS1002: ; expected\nBuild FAILED."),
    ("dotnet test", "Failed!  - Failed:     1, Passed:     3, Skipped:     0"),
    ("rspec", "3 examples, 1 failure"),
    ("phpunit", "FAILURES!\nTests: 5, Assertions: 9, Failures: 1."),
    ("ctest", "67% tests passed, 1 tests failed out of 3\nThe following tests FAILED:"),
    ("cmake --build b", "CMake Error: could not load cache"),
    ("bazel test //...", "Executed 1 out of 1 test: 1 fails locally."),
    ("swift test", "Executed 3 tests, with 1 failure (0 unexpected) in 0.1 seconds"),
    ("deno test", "FAILED | 2 passed | 1 failed (5ms)"),
    ("pytest", "bash: pytest: command not found"),
]  # fmt: skip

PASSES = [
    ("pytest -q", "5 passed, 1 xfailed in 0.12s"),
    ("pytest -q", "....\n4 passed, 2 warnings in 0.12s"),
    ("npx jest", "Tests:       5 passed, 5 total"),
    ("cargo test", "test result: ok. 4 passed; 0 failed; 0 ignored"),
    ("go test ./...", "ok  \texample.com/x\t0.002s"),
    ("mypy src", "Success: no issues found in 3 source files"),
    ("pyright", "0 errors, 0 warnings, 0 informations"),
    ("eslint .", ""),
    ("eslint .", "\n12 problems (0 errors, 12 warnings)"),
    ("ruff check --fix", "Found 3 errors (3 fixed, 0 remaining)."),
    ("mvn test", "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS"),
    ("dotnet test", "Passed!  - Failed:     0, Passed:     4"),
    ("rspec", "3 examples, 0 failures"),
    ("ctest", "100% tests passed, 0 tests failed out of 3"),
    ("npm run build", "built in 1.2s"),
    ("tox", "py311: OK\n  congratulations :)"),
]


@pytest.mark.parametrize(("command", "output"), FAILURES)
def test_an_output_that_reports_a_failure_is_an_error_also_without_an_exit_code(
    command: str, output: str
) -> None:
    found = classify(bash(command, output))
    assert (found.kind, bool(found.check)) == (ObservationKind.ERROR, True)


@pytest.mark.parametrize(("command", "output"), PASSES)
def test_a_check_without_a_sign_of_failure_passed(command: str, output: str) -> None:
    assert classify(bash(command, output)).kind is ObservationKind.SUCCESS


@pytest.mark.parametrize(("command", "output"), FAILURES)
def test_what_a_viewer_shows_did_not_happen_now(command: str, output: str) -> None:
    assert classify(bash(f"cat '{command}.log'", output)).kind is ObservationKind.TOOL_USE


def codex(command: str, answer: str) -> Event:
    return event("codex.PostToolUse-Bash", tool_input={"command": command}, tool_response=answer)


def test_an_exit_code_decides_unless_something_stands_between_it_and_the_check() -> None:
    said = "Exit code: 0\nWall time: 1 seconds\nOutput:\n1 failed, 2 passed"
    assert classify(codex("npm test", said)).kind is ObservationKind.SUCCESS
    assert classify(codex("npm test | tail -5", said)).kind is ObservationKind.ERROR
    assert (
        classify(codex("npm test", "Exit code: 1\nOutput:\nall good")).kind is ObservationKind.ERROR
    )
    assert classify(codex("ls nowhere", "Exit code: 2\nOutput:\n")).kind is ObservationKind.ERROR


def test_another_command_is_an_error_only_by_what_nothing_else_says() -> None:
    assert classify(codex("npm install x", "npm ERR! code E404")).kind is ObservationKind.ERROR
    assert (
        classify(codex("frobnicate", "bash: frobnicate: command not found")).kind
        is ObservationKind.ERROR
    )
    assert classify(codex("python a.py", "retry: 1 failed")).kind is ObservationKind.TOOL_USE
    assert classify(codex("ls", "error.log\nFAILED")).kind is ObservationKind.TOOL_USE


def test_a_failure_that_the_host_tells_is_an_error_of_any_tool() -> None:
    assert classify(event("claude.PostToolUseFailure-Bash")).kind is ObservationKind.ERROR
    assert classify(event("claude.PostToolUseFailure-Read")).kind is ObservationKind.ERROR


def test_prompts_and_answers_are_notes_and_the_rest_is_use() -> None:
    for name in (
        "claude.UserPromptSubmit",
        "claude.Stop",
        "claude.SubagentStop",
        "gemini.AfterAgent",
    ):
        assert classify(event(name)).kind is ObservationKind.NOTE
    for name in ("claude.PostToolUse-Edit", "claude.PostToolUse-Read", "claude.PostToolUse-Agent"):
        assert classify(event(name)).kind is ObservationKind.TOOL_USE


def test_a_check_that_was_only_started_has_not_passed() -> None:
    assert classify(bash("npm test", "", run_in_background=True)).kind is ObservationKind.TOOL_USE


def test_the_sign_is_found_in_the_middle_of_a_long_output_near_its_ends() -> None:
    noise = "compiling\n" * 20_000
    assert reports_failure(noise + "1 failed\n")
    assert not reports_failure(noise)


def test_a_line_is_cut_where_a_shell_would_cut_it() -> None:
    assert [words for words, _ in split_commands("a 'b; c' \"d && e\" > out 2>&1 | f \\\n g")] == [
        ("a", "b; c", "d && e"),
        ("f", "g"),
    ]


@given(
    st.lists(
        st.sampled_from([*"'\"\\ \n;|&<>()-=$`a", "<<EOF", "EOF", "npm", "test", "bash -c ", "-m"])
    ).map("".join)
)
def test_no_command_line_makes_the_reader_fail(command: str) -> None:
    find_check(command)
    assert all(words for words, _ in split_commands(command))
