"""Sentences that are worth keeping, and those that are not, as agents write them."""

import pytest

from ralph.capture.statements import Meant, is_reason, label, paragraphs, stands, worth

LASTING = [
    "Migrations must run before seeding, otherwise the foreign keys of `orders` are missing.",
    "Always use `sql<number>` for aggregations because the driver returns strings.",
    "The staging bucket is eu-central-1 only; uploads from us-east-1 are rejected, so set AWS_REGION.",
    "Decided to store money as integer cents instead of floats, because rounding broke the invoices.",
    "jest needs `--runInBand` here: the suites share one Postgres schema.",
    "Never edit src/gen/api.ts by hand, it is overwritten by `make codegen`.",
    "The VAT rate is cached for 24 h, so tests have to call resetRates() first.",
    "We chose argon2 over bcrypt since bcrypt silently truncates passwords at 72 bytes.",
    "Webpack silently ignores the alias unless tsconfig.paths.json is listed in extends.",
    "Tokens expire after 15 minutes, so the e2e suite must refresh them between specs.",
    "React components live in src/ui and must not import from src/server.",
    "Turns out the worker reads REDIS_URL only at import time; set it before starting celery.",
    "Dates from the ERP are in Europe/Berlin without an offset; convert them before saving.",
    "Nach jeder Änderung am Schema muss `pnpm gen` laufen, sonst fehlen die Typen im Frontend.",
    "마이그레이션은 반드시 시드 데이터보다 먼저 실행해야 한다, 그렇지 않으면 외래 키 오류가 난다.",
    "必须先运行 make proto 再跑测试，否则会找不到 user_pb2。",
    "LaunchDarkly flags are evaluated while bundling, not in the browser.",
    "All money amounts are stored as integer cents.",
    "Learned that boto3 sessions are not thread-safe: create the S3 client per thread.",
    "For Node.js scripts, use an absolute path for `localModelPath` (not a URL).",
    "`initModel()` is intentionally not awaited, so it does not block the boot animation.",
    "We use kebab-case for the names of files under src/routes.",
    "`make dev` starts the proxy on port 8443 but only after the certificates are there.",
    "Pagination is 1-based in the public API but 0-based in the repository layer.",
    "Stripe test clocks: advance by at most two billing intervals, larger jumps return 400",
    "The android emulator sees the host as 10.0.2.2, localhost is the emulator itself.",
    "Postgres picks the wrong index with LIMIT 1 on events; ORDER BY created_at, id avoids it",
    "Der Import läuft nur mit Locale de_DE, sonst werden Kommas als Trenner gelesen.",
    "결제 웹훅은 중복으로 올 수 있으니 event_id 로 멱등 처리해야 한다.",
    "缓存键要带上租户 id，不然会串数据。",
    "La cola no garantiza el orden; hay que ordenar por `sequence` antes de aplicar.",
    "Floats are banned for amounts, DECIMAL(18,4) everywhere.",
]
"""Learnings with substance."""

EMPTY = [
    "Tests are important.",
    "Always write tests before pushing code.",
    "It is important to keep the code clean because it helps the team.",
    "Learned a lot about the codebase.",
    "Make sure to handle edge cases properly.",
    "Reading the documentation first saves time.",
    "Good naming makes code readable.",
    "Keep functions small and simple.",
    "Communication is key.",
    "Never give up on debugging.",
    "Always double check your work before you commit.",
    "Everything works now.",
    "Always use TypeScript types properly because they help catch bugs.",
    "Be careful with dates.",
    "Async code can be tricky.",
    "The codebase is large and has many modules.",
    "Docker is useful.",
    "Remember to commit often.",
    "CI should always be green before merging a PR.",
    "The function `parse_date` takes a string and returns a datetime.",
    "The class UserService has methods create, update and delete.",
    "src/auth/login.ts exports a LoginForm component.",
    "`formatPrice(cents)` returns a string with two decimals.",
    "UserService.create takes a dto and returns a User.",
    "The reducer filters the list and sorts it by name.",
    "OrderController delegates to OrderService.",
    "next_slot lives in booking/slots.py and its test in tests/test_slots.py.",
    "The function squash in src/git/history.ts squashes commits.",
    "`pickSlot(day)` picks a slot.",
    "squash steht in src/git/history.ts.",
    "squash 함수는 src/git/history.ts에 있다.",
    "squash 在 src/git/history.ts 里定义。",
    "Man sollte immer Tests schreiben.",
    "This module defines the routes of the API.",
    "The UserCard component renders a name and an avatar.",
    "There is a function called slugify in utils.py.",
    "Die Funktion berechne_summe nimmt eine Liste und gibt eine Zahl zurück.",
    "함수 parse_date는 문자열을 받아 날짜를 반환한다.",
    "函数 parse_date 接受一个字符串并返回日期。",
    "Implemented the login form and added tests.",
    "Added 3 tests for src/auth/login.ts.",
    "Refactored OrderService into two classes.",
    "All 42 tests pass now.",
    "Next: wire up the settings page.",
    "TODO: look at the retry logic in src/http.ts.",
    "Need to look at CheckoutPage tomorrow.",
    "Working on the invoice export, about 60% done.",
    "The network was down for a few minutes; the rerun worked.",
    "npm registry was slow today, retry passed.",
    "Ran out of disk on the runner, freed 3 GB.",
    "Got rate-limited by GitHub at 14:20, worked on the second try.",
    "Started iteration 4.",
    "Renamed getUser to fetchUser in 12 files.",
    "로그인 폼 구현 완료.",
    "Habe die Tests für das Login-Formular geschrieben.",
    "已完成登录页面。",
    "get_json gets json and retries.",
    "RenewPolicy.call(policy) renews the policy.",
    "charger.c, charger.h and charger_test.c belong to the charger module.",
    "The DAG uses the connection warehouse to connect to the warehouse.",
    "UserService 클래스는 사용자 조회 메서드를 제공한다.",
    "OrderService 类有 create 和 cancel 两个方法。",
    "La función total() devuelve el total.",
    "Red-green: wrote test_masks_email, it fails since mask() is a stub, made it pass.",
    "The spec for CartTotal first, it must be red.",
    "Schreibe zuerst den Test für das Einlesen leerer Dateien.",
    "先写失败的测试：分区路径解析。",
    "Had to wait because the warehouse was restarted for maintenance at 12:00.",
    "The VPN had dropped, DNS was down.",
    "Ahora empiezo con la pantalla de pagos.",
    "Iteración 6: cambios menores de formato, todo pasa.",
    "The PO wants the CSV export by Friday.",
    "the agent did not say that the task is done",
    "it was called done, but the criteria do not agree",
    "the agent says that it failed: DATABASE_URL must be set before `make test`",
    "the agent crashed: error 137 in worker_7, because of OOM_KILL",
    "it named t-0001aa, which is not the assigned task",
    "Always make sure that `basket.kt` compiles before running the tests, because otherwise the tests will not run.",
    "Make sure `npm install` has been run before you run `npm test`.",
    "Man muss immer gut testen, weil sonst Fehler entstehen.",
    "Il faut toujours relire son code avant de le livrer, car sinon il casse.",
    "Siempre hay que escribir pruebas, porque si no el código se rompe.",
    "コードは読みやすくする必要がある。",
    "一定要写测试，否则会出错。",
    "`InventoryStore` keeps the list of items and notifies listeners when it changes.",
    "`lib/api/client.ts`: the handler decodes the body into Basket, validates it and calls store.put(basket).",
    "In server.ex there is a GenServer with init, handle_call and handle_info.",
    "The folder lib/basket has model.dart, store.dart and view.dart.",
    "mod.rs re-exports Basket and Voucher.",
    "Le module panier expose total_ttc et lignes.",
    "`calcular_total` suma las líneas y devuelve un Decimal.",
    "Der Controller ruft den Service auf und gibt JSON zurück.",
    "BasketService クラスは add と remove メソッドを持つ。",
    "BasketService 클래스에는 add와 remove 메서드가 있다.",
    "Ported 4 of 11 screens to the new router.",
    "Worked on import. It reads every row of BasketFile now. 12 tests.",
    "Refactored `basket.kt` into two helpers so that it is more readable and easier to maintain.",
    "Basket page is at 70 %, checkout is next.",
    "Gutscheine sind drin, 31 Tests grün.",
    "Reste à faire : les messages d'erreur du formulaire BasketForm.",
    "Later: rename the column `usr_nm`.",
    "Should we drop Node 18?",
    "The unit test goes first: the queue must keep 14 days.",
    "Le test échoue comme prévu, apply_voucher n'existe pas encore.",
    "Docker Hub rate limit hit, waited ten minutes for node:22.",
]
"""Learnings and notes without any."""


@pytest.mark.parametrize("text", LASTING)
def test_a_lesson_with_substance_is_kept(text: str) -> None:
    assert worth(text, Meant.LESSON)


@pytest.mark.parametrize("text", EMPTY)
def test_a_lesson_without_substance_is_not_kept(text: str) -> None:
    assert not worth(text, Meant.LESSON)


@pytest.mark.parametrize("text", EMPTY)
def test_a_note_without_substance_is_not_kept(text: str) -> None:
    assert not worth(text, Meant.NOTED)


@pytest.mark.parametrize("text", [each for each in LASTING if "1-based" not in each])
def test_a_note_that_states_a_rule_a_reason_or_a_trap_is_kept(text: str) -> None:
    assert worth(text, Meant.NOTED)


def test_of_a_journal_only_the_lasting_sentence_is_kept() -> None:
    said = "Implemented the export. All tests pass. Gotcha: csv.writer needs newline='' or Excel shows blank rows."
    assert worth(said, Meant.NOTED) == "Gotcha: csv.writer needs newline='' or Excel shows blank rows."


def test_a_sentence_that_leans_on_the_one_before_takes_it_along() -> None:
    said = "Refunds are posted twice under load. It relies on `idempotency_key`, never leave that out."
    assert worth(said, Meant.NOTED) == said


def test_particulars_beside_a_lasting_sentence_and_what_was_done_about_it_are_kept() -> None:
    said = (
        "The consumer kept rebalancing and each event came three times. A batch takes 7 minutes, max.poll.interval.ms "
        "was 5. Raised max.poll.interval.ms to 15 min."
    )
    assert worth(f"Implemented the export. {said}", Meant.NOTED) == said


def test_a_rule_may_name_its_subject_in_the_sentence_before() -> None:
    said = "Saves broke on suspend: the console kills us 2 s after SUSPEND_EVENT. Overwriting is not allowed any more."
    assert worth(said, Meant.NOTED) == said


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("Please don't touch layers.gen.h, it is generated from layers.toml.", True),
        ("I must always run `make proto` first, because user_pb2 is not committed.", False),
        ("because the POWER_STRIP of lab 3 was off, `run_hil.sh` never answered", False),
        ("Be careful with dates.", False),
    ],
)
def test_a_note_stands_alone_when_it_is_lasting_and_particular_and_no_plan_of_its_author(
    text: str, *, alone: bool
) -> None:
    assert stands(text) is alone


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("round up to the group size; the division lost the tail of the list", True),
        ("std::from_chars instead of strtof, which follows the locale", True),
        ("add the split", False),
        ("implement stacking, splitting and sorting of the inventory", False),
        ("raise when the ratio exceeds the limit", False),
        ("add a moved block, otherwise the plan is to destroy the queue", True),
        ("collect the errors in a list rather than in one long text", False),
    ],
)
def test_an_edit_gives_a_reason_when_it_says_what_was_done_and_what_is_the_case(text: str, *, reason: bool) -> None:
    assert is_reason(text) is reason


def test_paragraphs_and_items_are_taken_one_by_one() -> None:
    assert list(paragraphs("- one\n  goes on\n- two\n\nthree\n")) == ["one goes on", "two", "three"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Decided on SQLite because there is one writer.", "decision"),
        ("Gotcha: the cache is never emptied.", "gotcha"),
        ("Seeding fails when migrations have not run.", "gotcha"),
        ("Always name hooks useX.", "pattern"),
        ("Convention: one file per route.", "pattern"),
        ("The build takes ten minutes with a cold cache.", "tip"),
        ("Tip: `just db` gives a fresh database.", "tip"),
    ],
)
def test_a_text_is_labelled_by_what_it_calls_itself_or_is_like(text: str, wanted: str) -> None:
    assert label(text) == wanted
