"""Sessions in short, in which something failed and then passed: those that teach something, and those that do not."""

from ralph.model.record import Family, ObservationKind, Origin, Record, Scope, Status

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
    """A session in short: ("fail", command, output), ("ok", command), ("edit", file, words), ("note", words)."""
    made = []
    for number, (what, first, *rest) in enumerate(steps):
        said = rest[0] if rest else ""
        if what == "fail":
            made.append(observed(ERROR, said, command=first, session=name, number=number))
        elif what == "ok":
            made.append(observed(SUCCESS, said, command=first, session=name, number=number))
        elif what == "edit":
            made.append(observed(USE, said, tool="Edit", files=(first,), session=name, number=number))
        else:
            made.append(observed(NOTE, first, tool="", by="agent", session=name, number=number))
    return made


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
        ("fail", "yarn build", "error @acme/ui@3.1.0: The engine \"node\" is incompatible. Expected version \">=20\"."),
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
    "an order of migrations": [
        ("fail", "python manage.py migrate", "ProgrammingError: relation \"billing_plan\" does not exist"),
        ("edit", "billing/migrations/0007_invoice.py", "+ dependencies = [('billing', '0005_plan')]"),
        ("ok", "python manage.py migrate"),
    ],
    "an option that helps": [
        ("fail", "npm ci", "npm ERR! ERESOLVE could not resolve peer dependency react@17"),
        ("ok", "npm ci --legacy-peer-deps"),
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
    "code around a trap that the agent explains": [
        ("fail", "pytest tests/test_export.py", "RuntimeError: writer closed"),
        ("edit", "src/export.py", "+ flush()"),
        ("note", "The csv export must flush before closing, because the writer of src/export.py buffers 8 KB."),
        ("ok", "pytest tests/test_export.py"),
    ],
    "a locked database, resolved in code": [
        ("fail", "pytest tests/test_queue.py", "sqlite3.OperationalError: database is locked"),
        ("edit", "src/queue.py", "+ PRAGMA busy_timeout = 5000"),
        ("ok", "pytest tests/test_queue.py"),
    ],
    "the same script by its longer name, after two commands in one line": [
        ("fail", "npm test", "Error: api/schema.gen.ts is out of date"),
        ("ok", "npm run codegen && git add api"),
        ("ok", "npm run test"),
    ],
    "a circle of imports": [
        ("fail", "pytest", "ImportError: cannot import name 'User' from partially initialized module 'models'"),
        ("edit", "src/models.py", "+ from typing import TYPE_CHECKING"),
        ("ok", "pytest"),
    ],
    "a linter that was set up wrongly": [
        ("fail", "npm run lint", "Parsing failed: parserOptions.project does not include this file"),
        ("edit", ".eslintrc.cjs", "+ project: true"),
        ("ok", "npm run lint"),
    ],
    "a module system that the tests cannot read until they are told": [
        ("fail", "npx jest src/mail", "SyntaxError: Unexpected token 'export'\n  at node_modules/nanoid"),
        ("edit", "jest.config.js", "+ transformIgnorePatterns: ['node_modules/(?!nanoid)']"),
        ("ok", "npx jest src/mail"),
    ],
    "a variable that is exported": [
        ("fail", "make it", "Error: connect ECONNREFUSED /var/run/docker.sock"),
        ("ok", "export DOCKER_HOST=unix:///run/user/colima.sock"),
        ("ok", "make it"),
    ],
    "a library that is not there, tried on the command line": [
        ("fail", "python -c 'import cairosvg'", "OSError: libcairo.so.2: cannot open shared object file"),
        ("ok", "apt-get install -y libcairo2"),
        ("ok", "python -c 'import cairosvg'"),
    ],
    "a migration that gets another number": [
        ("fail", "make migrate", "error: version 12 is below the current version 14"),
        ("ok", "git mv db/migrations/0012_tags.sql db/migrations/0015_tags.sql"),
        ("ok", "make migrate"),
    ],
    "a page that a link needs, as the agent explains": [
        ("fail", "make linkcheck", "install.md: cannot find fragment #from-source"),
        ("edit", "guide/install.md", "+ ## From source {#from-source}"),
        ("note", "Anchors must be explicit in install.md, because slugs of headings change with each language."),
        ("ok", "make linkcheck"),
    ],
    "a linter with a reason that the agent gives": [
        ("fail", "npm run lint", "src/clock.ts:3 error no-restricted-globals Date"),
        ("edit", "src/clock.ts", "+ import { now } from './now'"),
        ("note", "Date is banned by lint in src/clock.ts, because tests freeze the clock through now() only."),
        ("ok", "npm run lint"),
    ],
    "code for a reason that the agent names without a rule": [
        ("fail", "python -m jobs.thumbs --check", "webp.EncodeFailed: no alpha for profile lossless-6"),
        ("edit", "jobs/thumbs.py", "+ profile='lossless-7'"),
        ("note", "libwebp writes alpha from lossless-7 on."),
        ("ok", "python -m jobs.thumbs --check"),
    ],
    "a workflow that happens to be about docs": [
        ("fail", "make history", "error: shallow clone has no tags"),
        ("edit", ".github/workflows/docs.yml", "+ fetch-tags: true"),
        ("ok", "make history"),
    ],
    "an edit that says why, although the test only counts": [
        ("fail", "go test ./store", "--- FAIL: TestIter: item 3 twice"),
        ("edit", "store/iter.go", "copy the loop variable before the goroutine; go 1.21 shares it between rounds"),
        ("ok", "go test ./store"),
    ],
    "a comment in the code that says why": [
        ("fail", "pytest tests/test_geo.py", "assert 0.3 < 0.01"),
        ("edit", "src/geo.py", "- d = b - a\n+ # longitudes wrap at 180, without it a path goes round the globe"),
        ("ok", "pytest tests/test_geo.py"),
    ],
    "an edit that says why, in German": [
        ("fail", "mvn test", "expected 1.5 but was 15.0"),
        ("edit", "src/Parser.java", "NumberFormat mit Locale.ROOT, sonst gilt der Punkt als Trenner von Tausendern"),
        ("ok", "mvn test"),
    ],
    "an edit that says why, in Korean": [
        ("fail", "./gradlew test", "expected:<2026-01-01> but was:<2025-12-31>"),
        ("edit", "src/Date.kt", "KST 기준으로 변환. 서버는 UTC라서 자정 이전 날짜로 계산됨"),
        ("ok", "./gradlew test"),
    ],
    "a constant of the code that had the wrong value": [
        ("fail", "./flash.sh --board b", "read back differs at 0x08004000"),
        ("edit", "boards/b/mem.h", "-#define FLASH_PAGE 1024\n+#define FLASH_PAGE 2048"),
        ("ok", "./flash.sh --board b"),
    ],
    "an assertion whose reason the agent gives before it passes": [
        ("fail", "bin/rails check", "expected file edi_parser.rb to define constant EdiParser"),
        ("edit", "config/inflections.rb", '+ inflect.acronym "EDI"'),
        ("note", "The loader derives EdiParser from edi_parser.rb; an acronym in inflections.rb makes it EDIParser."),
        ("ok", "bin/rails check"),
    ],
    "a check of a part that failed, and all of it that passed": [
        ("fail", "pytest tests/test_users.py -k login", "OperationalError: no such table: users"),
        ("ok", "alembic upgrade head"),
        ("ok", "pytest tests/test_users.py"),
    ],
    "another failure and a search between": [
        ("fail", "./build/tests --filter lights", "light[1].color = (0,0,0) expected (1,0.5,0)"),
        ("edit", "render/lights.h", "explicit padding after each vec3, std140 rounds it to 16 bytes"),
        ("fail", "rg 'do not merge'", ""),
        ("ok", "./build/tests --filter lights"),
    ],
    "a module that is tried on the command line, resolved in settings": [
        ("fail", "python -c 'import kernels'", "OMP: Error #15: found libgomp.so.1 already initialized"),
        ("edit", "environment.yml", "all from conda-forge; mixing with wheels loads two runtimes of OpenMP"),
        ("ok", "python -c 'import kernels'"),
    ],
    "things that must be applied in an order": [
        ("fail", "kubectl apply -f app/", 'error: no matches for kind "Certificate" in version "cert-manager.io/v1"'),
        ("ok", "kubectl apply -f crds/"),
        ("ok", "kubectl apply -f app/"),
    ],
    "a linter behind which there is a promise, as the edit says": [
        ("fail", "./scripts/lint.sh 3.9", "src/plan.py:14: SyntaxError: invalid syntax\n    match stage:"),
        ("edit", "src/plan.py", "if instead of match. A third of the sites run Python 3.9 of RHEL, so no match there."),
        ("ok", "./scripts/lint.sh 3.9"),
    ],
    "a test that was written first and found out something about a library": [
        ("edit", "test/clock_test.exs", "+ test \"midnight\""),
        ("fail", "mix test test/clock_test.exs", "left: ~D[2026-03-01] right: ~D[2026-02-28]"),
        ("note", "DateTime.now!/1 of the clock wants tzdata, and the database that Elixir ships knows only Etc/UTC."),
        ("edit", "lib/clock.ex", "tzdata"),
        ("ok", "mix test test/clock_test.exs"),
    ],
    "a broken pipe that is no bad day, as the agent explains": [
        ("fail", "./t/export.sh head", "export: write failed: Broken pipe"),
        ("note", "Go turns SIGPIPE into EPIPE for descriptors but 1 and 2, so the writer has to end quietly itself."),
        ("edit", "cmd/export/main.go", "errors.Is(err, syscall.EPIPE) ends with 0"),
        ("ok", "./t/export.sh head"),
    ],
    "a time-out that has a cause in the code": [
        ("fail", "mpirun -n 4 ./solve", "rank 3: collective operation timed out"),
        ("note", "Rank 0 returns early when the residual is small, so the other ranks wait in MPI_Allreduce for it."),
        ("edit", "src/solve.cpp", "All ranks leave the loop together."),
        ("ok", "mpirun -n 4 ./solve"),
    ],
    "a dead network that a setting ends for good": [
        ("fail", "npm ci", "npm ERR! network timeout at: the public registry"),
        ("edit", ".npmrc", "+ registry of the company"),
        ("ok", "npm ci"),
    ],
}  # fmt: skip

EMPTY: dict[str, list[Step]] = {
    "a test that was written first": [
        ("edit", "tests/test_cart.py", "+ def test_total"),
        ("fail", "pytest tests/test_cart.py", "AssertionError: assert None == 42"),
        ("edit", "src/cart.py", "+ return total"),
        ("ok", "pytest tests/test_cart.py"),
    ],
    "a test that was written first, with talk and a commit": [
        ("note", "Writing the failing test first."),
        ("edit", "src/__tests__/price.test.ts", ""),
        ("fail", "npx vitest run price", "FAIL price.test.ts > cents\nTypeError: formatPrice is not a function"),
        ("ok", "git add -A"),
        ("edit", "src/price.ts", ""),
        ("ok", "npx vitest run price"),
    ],
    "a test of settings that was written first": [
        ("edit", "tests/test_config.py", ""),
        ("fail", "pytest tests/test_config.py", "KeyError: 'config version'"),
        ("edit", "src/config.py", ""),
        ("ok", "pytest tests/test_config.py"),
    ],
    "code that was not finished": [
        ("fail", "go test ./...", "cart_test.go:14: got 3, want 4"),
        ("edit", "cart.go", ""),
        ("ok", "go test ./..."),
    ],
    "a search without a match": [
        ("fail", "grep -rn parseDate src", "exit code 1"),
        ("edit", "src/date.ts", "+ parseDate"),
        ("ok", "grep -rn parseDate src"),
    ],
    "a file that is not there yet": [
        ("fail", "test -f dist/app.js", "exit code 1"),
        ("ok", "npm run build"),
        ("ok", "test -f dist/app.js"),
    ],
    "a diff": [
        ("fail", "diff expected.txt out.txt", "2c2"),
        ("ok", "make out"),
        ("ok", "diff expected.txt out.txt"),
    ],
    "a listing of something missing": [
        ("fail", "ls build/", "ls: build/: No such file or directory"),
        ("ok", "npm run build"),
        ("ok", "ls build/"),
    ],
    "chance": [
        ("fail", "npm test", "Timeout - Async callback was not invoked"),
        ("ok", "npm test"),
    ],
    "chance, with a look around": [
        ("fail", "npm test", "Error: element not found in checkout.spec"),
        ("ok", "git status"),
        ("ok", "cat package.json"),
        ("ok", "npm test"),
    ],
    "chance, while words were edited": [
        ("fail", "npm test", "Error: version mismatch"),
        ("edit", "README.md", ""),
        ("ok", "npm test"),
    ],
    "a network that was down": [
        ("fail", "npm ci", "npm ERR! code ECONNRESET network aborted"),
        ("ok", "sleep 20"),
        ("ok", "npm ci"),
    ],
    "a port that was taken": [
        ("fail", "npm run e2e", "Error: listen EADDRINUSE: address already in use :::3000"),
        ("ok", "kill 4242"),
        ("ok", "npm run e2e"),
    ],
    "a disk that was full": [
        ("fail", "docker build -t app .", "write /var/lib: no space left on device"),
        ("ok", "docker system prune -f"),
        ("ok", "docker build -t app ."),
    ],
    "a quota": [
        ("fail", "gh release list", "HTTP 429: API rate limit exceeded"),
        ("ok", "gh auth status"),
        ("ok", "gh release list"),
    ],
    "somebody who pressed Ctrl-C": [
        ("fail", "cargo test", "^C\nInterrupted"),
        ("ok", "cargo build"),
        ("ok", "cargo test"),
    ],
    "lint that an edit ends": [
        ("fail", "ruff check .", "src/app.py:3:1: F401 `os` imported but unused"),
        ("edit", "src/app.py", ""),
        ("ok", "ruff check ."),
    ],
    "lint that the linter ends": [
        ("fail", "npm run lint", "  3:1  error  Missing semicolon"),
        ("ok", "npm run lint -- --fix"),
        ("ok", "npm run lint"),
    ],
    "types that an edit ends": [
        ("fail", "npx tsc --noEmit", "src/a.ts(3,1): error TS2322: Type 'string' is not assignable to type 'number'."),
        ("edit", "src/a.ts", ""),
        ("ok", "npx tsc --noEmit"),
    ],
    "a word that was misspelt": [
        ("fail", "npm run tset", "npm ERR! Missing script: \"tset\""),
        ("ok", "npm run test"),
    ],
    "an option that was misspelt": [
        ("fail", "pytest --colect-only", "error: unrecognized arguments: --colect-only"),
        ("ok", "pytest --collect-only"),
    ],
    "a branch that was behind": [
        ("fail", "git push", "! [rejected] main -> main (fetch first)"),
        ("ok", "git pull --rebase"),
        ("ok", "git push"),
    ],
    "fewer tests that pass": [
        ("fail", "pytest", "1 failed, 20 passed"),
        ("ok", "pytest --deselect tests/test_slow.py"),
    ],
    "something that never passed": [
        ("fail", "npm test", "Error: STRIPE_KEY is not set"),
        ("ok", "npm run build"),
    ],
    "lint of a file that is no code": [
        ("fail", "yamllint .", ".github/workflows/ci.yml:12:81: error line too long"),
        ("edit", ".github/workflows/ci.yml", ""),
        ("ok", "yamllint ."),
    ],
    "a comma too many": [
        ("fail", "docker compose config", "yaml: line 12: mapping values are not allowed in this context"),
        ("edit", "docker-compose.yml", ""),
        ("ok", "docker compose config"),
    ],
    "a test that is never sure, with a build between": [
        ("fail", "npx playwright test", "Timeout 30000ms exceeded waiting for selector"),
        ("ok", "npm run build"),
        ("ok", "npx playwright test"),
    ],
    "a port that was taken, and another one": [
        ("fail", "npm start", "Error: listen EADDRINUSE: address already in use :::3000"),
        ("ok", "PORT=3001 npm start"),
    ],
    "a key that the new code did not set yet": [
        ("fail", "pytest tests/test_cache.py", "KeyError: 'cache'"),
        ("edit", "src/cache.py", ""),
        ("ok", "pytest tests/test_cache.py"),
    ],
    "half a day of work between": [
        ("fail", "make all", "Error: Cannot find module './gen/client'"),
        *(("edit", f"config/{number}.yml", "") for number in range(9)),
        ("ok", "make all"),
    ],
    "a question that was not answered at first": [
        ("fail", "kubectl get pods", "error: the server has asked for credentials"),
        ("ok", "gcloud auth login"),
        ("ok", "kubectl get pods"),
    ],
    "a lock that git left behind": [
        ("fail", "git commit -m x", "fatal: Unable to create '/p/.git/index.lock': File exists."),
        ("ok", "rm -f .git/index.lock"),
        ("ok", "git commit -m x"),
    ],
    "a linter that nobody listed": [
        ("fail", "sqllint db/views.sql", "views.sql:3: error keyword in lower case"),
        ("edit", "db/views.sql", "+ SELECT"),
        ("ok", "sqllint db/views.sql"),
    ],
    "a script that was written after its test": [
        ("fail", "pytest scripts/tests -q", "AssertionError: assert [] == ['a']"),
        ("edit", "scripts/prune.py", "+ return names"),
        ("ok", "pytest scripts/tests -q"),
    ],
    "a test that somebody says is red": [
        ("note", "red: a discount for students"),
        ("fail", "npm test -- discount", "FAIL discount: 10 is not 0"),
        ("edit", "src/discount.ts", "rate for students; the others keep theirs as they were before"),
        ("ok", "npm test -- discount"),
    ],
    "work that is told in many words": [
        ("fail", "pytest tests/test_stock.py", "ImportError: cannot import name 'Stock'"),
        ("edit", "src/stock.py", "class Stock with put, take and count; uses a dict of names to amounts"),
        ("ok", "pytest tests/test_stock.py"),
    ],
    "what a tool answers to an edit": [
        ("fail", "pytest tests/test_stock.py", "AssertionError: 0 != 3"),
        ("edit", "src/stock.py", "The file src/stock.py has been updated. Here is a part of it, as it is: def take"),
        ("ok", "pytest tests/test_stock.py"),
    ],
    "a migration that was written for its test": [
        ("edit", "spec/models/order_spec.rb", "+ total"),
        ("fail", "bundle exec rspec spec/models/order_spec.rb", "column orders.total does not exist"),
        ("edit", "db/migrate/7_add_total.rb", "+ add_column :orders, :total"),
        ("ok", "bin/rails db:migrate"),
        ("ok", "bundle exec rspec spec/models/order_spec.rb"),
    ],
    "a word that was misspelt in a file of settings": [
        ("fail", "kubectl apply -f k8s/web.yaml", 'error: unknown field "spec.replcas"'),
        ("edit", "k8s/web.yaml", "- replcas: 2\n+ replicas: 2"),
        ("ok", "kubectl apply -f k8s/web.yaml"),
    ],
    "a name that was misspelt in a query": [
        ("fail", "dbt run --select dim_users", 'Database Error: column "emial" does not exist'),
        ("edit", "models/dim_users.sql", "email"),
        ("ok", "dbt run --select dim_users"),
    ],
    "a brace that was missing in the line that is named": [
        ("fail", "terraform plan", "Error: Unclosed configuration block on modules/vpc/main.tf line 31"),
        ("edit", "modules/vpc/main.tf", "+ }"),
        ("ok", "terraform plan"),
    ],
    "a token that had expired": [
        ("fail", "terraform plan", "Error: ExpiredToken: The security token included in the request is expired"),
        ("ok", "aws sso login --profile dev"),
        ("ok", "terraform plan"),
    ],
    "a machine's own service that was not running": [
        ("fail", "make up", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock"),
        ("ok", "sudo systemctl start docker"),
        ("ok", "make up"),
    ],
    "something that hung and was stopped": [
        ("fail", "./gradlew test", "Gradle build daemon disappeared unexpectedly"),
        ("ok", "./gradlew --stop"),
        ("ok", "./gradlew test"),
    ],
    "a test that is never sure, in other words": [
        ("fail", "npm run e2e", "expect(locator).toBeVisible() failed"),
        ("ok", "npm run build"),
        ("ok", "npm run e2e"),
    ],
    "what everybody installs first": [
        ("fail", "pytest", "ModuleNotFoundError: No module named 'freezegun'"),
        ("ok", "pip install -r requirements-dev.txt"),
        ("ok", "pytest"),
    ],
    "a conflict in git": [
        ("fail", "git rebase main", "CONFLICT (content): Merge conflict in package-lock.json"),
        ("ok", "npm install"),
        ("ok", "git rebase main"),
    ],
    "a linter with the name of its rule, whatever the edit says instead": [
        ("fail", "swiftlint --strict", "Sources/Cart.swift:14:9: error: Avoid force unwrapping (force_unwrap)"),
        ("edit", "Sources/Cart.swift", "guard let instead of the force unwrap, so nothing crashes."),
        ("ok", "swiftlint --strict"),
    ],
    "a linter that mends its complaints under another name": [
        ("fail", "./gradlew ktlintCheck", "app/Cart.kt:12:1: Unexpected blank line (standard:no-blank-line)"),
        ("ok", "./gradlew ktlintFormat"),
        ("ok", "./gradlew ktlintCheck"),
    ],
    "a target of make that complains as a linter does": [
        ("fail", "make hygiene", "lib/cart.lua:3:7: unused variable total [unused-local]"),
        ("edit", "lib/cart.lua", "total is gone, nobody has read it since the rewrite of the basket."),
        ("ok", "make hygiene"),
    ],
    "a linter, and talk about something else": [
        ("fail", "hadolint Dockerfile", "Dockerfile:9 DL3008 warning: Pin versions in apt get install"),
        ("note", "Waiting for the image. Still downloading... 3m elapsed, meanwhile I read the docs of apt."),
        ("edit", "Dockerfile", "curl=8.5.0"),
        ("ok", "hadolint Dockerfile"),
    ],
    "a complaint that was somebody's slip": [
        ("fail", "helm lint charts/cart", "[ERROR] Chart.yaml: version is required (chart-version)"),
        ("edit", "charts/cart/Chart.yaml", "version"),
        ("note", "This happened because Chart.yaml was not copied over from charts/base."),
        ("ok", "helm lint charts/cart"),
    ],
    "a word that a speller does not know": [
        ("fail", "npx cspell docs", "docs/cart.md:3:14 - Unknown word (reccuring)"),
        ("edit", "docs/cart.md", "recurring"),
        ("ok", "npx cspell docs"),
    ],
    "a test of what is declared": [
        ("fail", "opa test policy -v", "data.cart.test_denies_public: FAIL (1.2ms)"),
        ("edit", "policy/cart.rego", "deny when acl is public"),
        ("ok", "opa test policy -v"),
    ],
    "a script that was made for its test": [
        ("fail", "bats t/deploy.bats", "not ok 3 refuses an unknown stage"),
        ("edit", "bin/deploy.sh", "case for the stage"),
        ("ok", "bats t/deploy.bats"),
    ],
    "something that is not implemented yet, however the edit puts it": [
        ("fail", "swift test --filter CartTests", "error: value of type 'Cart' has no member 'apply'"),
        ("edit", "Sources/Cart.swift", "apply(voucher:) gives back a new Cart rather than changing the old one."),
        ("ok", "swift test --filter CartTests"),
    ],
    "a function that does not exist, with what it is to do": [
        ("fail", "mix test test/cart_test.exs", "(UndefinedFunctionError) function Cart.apply/2 is undefined"),
        ("edit", "lib/cart.ex", "apply/2 with the percentage; an unknown code leaves the cart as it is."),
        ("ok", "mix test test/cart_test.exs"),
    ],
    "an assertion, and a reason about nothing in particular": [
        ("fail", "ctest --test-dir build -R cart", "cart_test: expected 3 got 2"),
        ("edit", "src/cart.cpp", "Include the last item, the loop ended one too early."),
        ("ok", "ctest --test-dir build -R cart"),
    ],
    "a compiler that an edit makes content": [
        ("fail", "cargo build", "error[E0308]: mismatched types"),
        ("edit", "src/main.rs", ""),
        ("ok", "cargo build"),
    ],
}  # fmt: skip
