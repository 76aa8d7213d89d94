"""What is said in the sample: sources, memories, tasks, what agents do and what people ask.

Some of it is hostile on purpose (script tags, odd links, markdown that breaks out): a page that shows it as anything
but text is wrong. Some is Korean, some is long, two memories say nearly the same.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from ralph.core.record import MemoryKind
from ralph.testing import Step

PATTERN, DECISION, FIX, CONTEXT = MemoryKind

Story = Sequence[tuple[str, Mapping[str, object]]]
SETTINGS = "memories:\n  inject: auto\n  budget: 700\n"
SECRET = (
    "The bank's sandbox takes the token ghp_"
    + "q7Rk2mXc9Lw4Tz8VbN3e"
    + "Y6uHs1Jd5fPa0GiQ until May."
)
"""A made-up token, which somebody has kept by force."""
Some = tuple[tuple[str, str, MemoryKind, tuple[str, ...]], ...]

TOTAL = """export function total(prices: number[]): number {
  return prices.reduce((sum, price) => sum + price, 0);
}
"""
ROUNDED = """export function total(prices: number[]): number {
  return Math.round(prices.reduce((sum, price) => sum + price, 0) * 100) / 100;
}
"""
SOURCES = {
    ".gitignore": ".home/\nnode_modules/\n",
    "README.md": "# Harbor shop\n\nA small shop: `make dev` starts it.\n",
    "src/auth/session.ts": "export function rotateRefreshToken(user: User): string {\n  return keys.current();\n}\n",
    "src/auth/keys.ts": "export const keys = { current: () => vault.read('jwt') };\n",
    "src/cart/total.ts": TOTAL,
    "src/db/pool.ts": "export const pool = createPool({ max: 10 });\nexport function drain() {}\n",
    "src/legacy/soap.ts": "export function importOrders() {}\n",
    "src/checkout.ts": "export function checkout(cart: Cart) {}\n",
    "services/billing/invoice.py": "def invoice(order):\n    return order.total\n",
    "Makefile": "dev:\n\tnpm run dev\ntest:\n\tnpm test\n",
}

_HOSTILE = (
    "The page title <script>window.hacked = 1</script> came from a customer; see [details](javascript:alert(1)) and "
    "<img src=x onerror=alert(1)> ![x](https://tracker.example/x.png) `</code></pre><script>alert(2)</script>` "
    '[data](data:text/html;base64,PHNjcmlwdD4=) <a href="java\tscript:alert(3)">here</a> &lt;b&gt; **bold** _it_'
)
_LONG = (
    "Deploys go through three stages, and each has its own database: staging is copied from production every night at "
    "03:00 UTC with all customer names replaced, preview environments get an empty schema with the fixtures of "
    "tests/fixtures, and production is only ever changed by the migration job. "
) * 4

MEMORIES: tuple[tuple[float, str, Some], ...] = (
    (13, "First lessons", (
        ("redis", "Tests hang when Redis is down: run `make services up` before `npm test`.", FIX, ("redis", "test")),
        ("pool", "The database pool in src/db/pool.ts has ten connections; more makes Postgres slow.", CONTEXT,
         ("database", "postgres")),
        ("env-key", "The JWT signing key is read from JWT_KEY in the environment.", DECISION, ("auth", "jwt")),
        ("dates", "Dates are stored in UTC and shown in the customer's time zone.", PATTERN, ("dates", "convention")),
    )),
    (12, "What review taught us", (
        ("jwt", "Refresh tokens rotate in src/auth/session.ts through rotateRefreshToken, never twice in one request.",
         PATTERN, ("auth", "jwt")),
        ("soap", "Orders of the old supplier come through src/legacy/soap.ts; its dates have no time zone.", CONTEXT,
         ("import", "supplier")),
        ("flags", "Feature flags are read once at start and never in a request.", PATTERN, ("flags",)),
        ("korean", "결제 서비스의 인증은 services/billing 에 있고, 영수증 번호는 매년 1번부터 다시 시작한다.", CONTEXT,
         ("결제", "auth")),
    )),
    (9, "Money", (
        ("rounding", "Prices are floats: sums in src/cart/total.ts must be rounded to two digits.", FIX,
         ("cart", "money", "rounding")),
        ("keys", "The JWT signing key comes from keys.current() in src/auth/keys.ts since keys rotate; never from the "
                 "environment.", DECISION, ("auth", "jwt", "security")),
        ("duplicate", "When Redis is down the tests hang: run `make services up` before `npm test`!", FIX,
         ("redis", "testing")),
        ("hostile", _HOSTILE, CONTEXT, ("security", "<b>tag</b>")),
    )),
    (7, "Deploys", (
        ("deploy", _LONG.strip(), CONTEXT, ("deploy", "database", "staging")),
        ("vat", "VAT is computed per line and not per invoice, because the tax office checks each line.", DECISION,
         ("money", "vat", "invoice")),
        ("markdown", "Release notes:\n\n1. `npm run build`\n2. tag it\n\n| stage | who |\n|---|---|\n| staging | CI |\n"
                     "| production | Mina |\n\n```sh\nmake release VERSION=1.2.3\n```\n\nSee https://example.com/notes.",
         PATTERN, ("release",)),
    )),
)  # fmt: skip
POOL_EDITED = "The database pool has ten connections; with more than twenty Postgres slows down (measured in October)."

GUARDRAILS: Some = (
    (
        "main",
        "Never push to main: open a pull request, the checks take four minutes.",
        PATTERN,
        ("git",),
    ),
    ("secrets", "Customer data never goes into fixtures or logs.", DECISION, ("privacy", "test")),
    (
        "migrate",
        "A migration that drops a column needs two releases.",
        FIX,
        ("database", "migration"),
    ),
)
KNOWLEDGE = (
    ("How checkout works", "A cart becomes an order in src/checkout.ts. Payment is asked first, stock is taken after "
     "it, and a failed payment leaves nothing behind. See [[Payments and receipts]] and [[Stock is taken last]].",
     ("checkout", "payments")),
    ("Payments and receipts", "Receipts are numbered without gaps (see `services/billing/invoice.py`). A refund gets a "
     "number of its own. 환불에도 번호가 있다.", ("payments", "billing")),
    ("Stock is taken last", "Two customers may pay for the last item; the second one gets a refund at once. "
     "Back to [[How checkout works]].", ("stock", "checkout")),
)  # fmt: skip

PARTS_OF_CHECKOUT = ("invoice", "mail")
TASKS = (
    (
        "checkout",
        "Checkout in one page",
        "Everything on one page, with as few fields as possible.",
        1,
    ),
    (
        "rounding",
        "Round sums in the cart",
        "`total()` gives 3.3000000000000003 for 1.10 and 2.20.",
        1,
    ),
    (
        "invoice",
        "Number invoices without gaps",
        "Each year begins with 1; a refund takes the next number.",
        2,
    ),
    ("mail", "Mail the invoice", "As PDF, in the customer's language.", 3),
    ("search", "Search orders by name", "이름으로 주문을 찾는다. Also with typing errors.", 2),
    ("rates", "Exchange rates from the bank", "Once a day, kept for ten years.", 4),
    ("soap", "Import the rest of the SOAP orders", "About 12,000 of them, from 2019.", 0),
)
PRD = json.dumps(
    {
        "project": "Harbor shop",
        "branchName": "ralph/one-page-checkout",
        "description": "Checkout in one page",
        "userStories": [
            {"id": "US-001", "title": "Address and payment on one page", "description": "As a customer I see all "
             "fields at once.", "acceptanceCriteria": ["No page change", "Works without JavaScript"], "priority": 1,
             "passes": True, "notes": ""},
            {"id": "US-002", "title": "Pay with a saved card", "description": "As a customer I pay in one click.",
             "acceptanceCriteria": ["Asks for the CVC"], "priority": 2, "passes": False, "notes": ""},
            {"id": "US-003", "title": "영수증을 메일로 받는다", "description": "As a customer I get a receipt.",
             "acceptanceCriteria": [], "priority": 3, "passes": False, "notes": "after the invoice"},
        ],
    },
    ensure_ascii=False, indent=2,
)  # fmt: skip

_LEARNED = (
    '<knowledge tags="cart,money" title="Sums of prices">\nSums of prices are rounded once, at the end: rounding every '
    "price first makes the sum wrong.\n</knowledge>"
)


def first_run() -> tuple[Step, ...]:
    """Looks, is wrong once, then right; a verifier agrees."""
    return (
        Step(say="I read src/cart/total.ts.\n<journal>The sum is never rounded. Learned: floats do not add up "
                 "exactly.</journal>", cost=0.04),
        Step(say="Fixed.\n<journal>Rounded with toFixed, a string.</journal>\n<task-done>{task}</task-done>",
             write={"src/cart/total.ts": TOTAL.replace("0);", "0).toFixed(2);")}, cost=0.07),
        Step(say=f"Rounded once, at the end.\n{_LEARNED}\n<journal>Math.round at the end of total().</journal>\n"
                 "<task-done>{task}</task-done>", write={"src/cart/total.ts": ROUNDED}, cost=0.09),
        Step(say="The sum is rounded and nothing was weakened.\n<verify-pass/>", read_only=True),
    )  # fmt: skip


def second_run() -> tuple[Step, ...]:
    """Works, fails twice, and says so."""
    return (
        Step(say="<journal>Invoices need a sequence in the database.\n\nDecision: invoice numbers come "
                 "from a sequence in Postgres, because counting rows gives gaps after a refund.</journal>",
             write={"services/billing/numbers.py": "def following(year):\n    raise NotImplementedError\n"}, cost=0.11),
        Step(say="<journal>psycopg is missing, so that the sequence cannot be tested.\n\nGotcha: the "
                 "billing tests need `make services up` and psycopg 3, else they are skipped.</journal>", cost=0.05),
        Step(say="<journal>Nobody can make the sequence here.</journal>\n<task-failed>{task}: the database is not "
                 "reachable from here</task-failed>", cost=0.03),
        Step(say="<journal>The same once more.</journal>\n<task-failed>{task}: no database</task-failed>", cost=0.02),
        Step(say="<journal>And again.</journal>\n<task-failed>{task}: no database</task-failed>", cost=0.02),
        Step(say="<journal>And again.</journal>\n<task-failed>{task}: no database</task-failed>", cost=0.02),
    )  # fmt: skip


# --- sessions ------------------------------------------------------------------------------------


def _prompt(text: str) -> tuple[str, Mapping[str, object]]:
    return "UserPromptSubmit", {"prompt": text}


def _edit(path: str, old: str, new: str) -> tuple[str, Mapping[str, object]]:
    given = {"file_path": "{root}/" + path, "old_string": old, "new_string": new}
    return "PostToolUse", {
        "tool_name": "Edit",
        "tool_input": given,
        "tool_response": {"filePath": "{root}/" + path},
    }


def _read(path: str) -> tuple[str, Mapping[str, object]]:
    return "PostToolUse", {
        "tool_name": "Read",
        "tool_input": {"file_path": "{root}/" + path},
        "tool_response": {},
    }


def _ran(command: str, output: str) -> tuple[str, Mapping[str, object]]:
    given = {"command": command, "description": "run it"}
    answer = {"stdout": output, "stderr": "", "interrupted": False}
    return "PostToolUse", {"tool_name": "Bash", "tool_input": given, "tool_response": answer}


def _failed(command: str, error: str) -> tuple[str, Mapping[str, object]]:
    return "PostToolUseFailure", {
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "error": error,
    }


def _stop(message: str) -> tuple[str, Mapping[str, object]]:
    return "Stop", {"stop_hook_active": False, "last_assistant_message": message}


def _short(question: str, path: str, message: str) -> Story:
    return _prompt(question), _read(path), _ran("git status --short", ""), _stop(message)


STORIES: tuple[tuple[float, float, Story], ...] = (
    (5.8, 10, (
        _prompt("The refresh tokens of src/auth/session.ts must rotate. Which key is used to sign a JWT?"),
        _read("src/auth/session.ts"),
        _edit("src/auth/session.ts", "return keys.current();", "return sign(user.id, keys.current());"),
        _failed("npm test", "Exit code 1\nFAIL tests/auth.test.ts\n  connect ECONNREFUSED 127.0.0.1:6379 (redis)"),
        _ran("make services up", "Container shop-redis-1  Started"),
        _ran("npm test", "PASS tests/auth.test.ts\n\n12 passed"),
        _stop("Refresh tokens rotate through rotateRefreshToken now; the key comes from keys.current()."),
    )),
    (5, 16, _short("How are dates stored for a customer?", "src/checkout.ts", "Dates are kept in UTC, shown in the "
                   "customer's time zone.")),
    (4, 9, _short("May a migration drop the column legacy_id?", "src/db/connection.ts", "Not in one release; a "
                  "migration that drops a column needs two releases.")),
    (3, 14, (
        _prompt("Postgres is slow at night. Look at the database pool and the nightly copy to staging."),
        _read("src/db/connection.ts"),
        _ran("psql -c 'select count(*) from pg_stat_activity'", " count\n-------\n    34"),
        _edit("src/db/connection.ts", "max: 10", "max: 20"),
        _failed("npm run migrate", "Exit code 1\ncolumn \"legacy_id\" cannot be dropped in one release"),
        _prompt("Then keep the column, and only raise the connections to twenty."),
        _ran("npm run migrate", "0 migrations"),
        *(_ran(f"psql -c 'explain select {number}'", f"Execution Time: {number} ms") for number in range(3, 30)),
        _stop("The pool has twenty connections; with more than twenty Postgres slows down, so it stays there. "
              "It is not deployed yet."),
    )),
    (2, 18, _short("How is VAT computed on an invoice?", "services/billing/invoice.py", "Per line: the tax office "
                   "checks each line of the invoice.")),
    (1, 8, _short("What is left to do for checkout?", "src/checkout.ts", "Payment comes before stock is taken.")),
    (0.5, 9, (
        _prompt("영수증 번호가 매년 1번부터 다시 시작하는지 확인해 줘. 결제 서비스의 인증은 어디에 있지?"),
        _read("services/billing/invoice.py"),
        _ran("grep -rn 'number' services/billing", "services/billing/numbers.py:1:def following(year):"),
        _edit("services/billing/invoice.py", "return order.total", "return numbered(order)"),
        _stop("영수증 번호는 services/billing 에서 매년 1번부터 다시 시작한다. <script>alert('turn')</script>"),
    )),
)  # fmt: skip

CHATS: tuple[tuple[str, str, float, tuple[tuple[str, str], ...]], ...] = (
    ("plan", "plan", 1.5, (
        ("How would you split the checkout page?", "Three steps:\n\n1. address\n2. payment\n3. review\n\nI would begin "
         "with `src/checkout.ts`."),
        ("And without JavaScript?", "Then **each step is a form** that posts to itself; see [[How checkout works]]."),
    )),
    ("agent", "agent", 1, (
        ("Begin with the address form.", "The form is in `src/checkout.ts`; it validates on the server.\n\n```ts\n"
         "export function address(form: FormData) {}\n```"),
        ("한국 주소도 되게 해 줘.", "우편번호를 먼저 묻고, 나머지는 그것으로 채운다."),
    )),
)  # fmt: skip


def at(members: Mapping[str, object], root: Path) -> dict[str, object]:
    """The members of a payload with the project's folder in them."""
    told = json.loads(json.dumps(members).replace("{root}", str(root)))
    assert isinstance(told, dict)
    return told


# --- many ----------------------------------------------------------------------------------------

_WORDS = [
    "cache",
    "queue",
    "invoice",
    "login",
    "token",
    "cart",
    "price",
    "refund",
    "stock",
    "shelf",
    "courier",
    "parcel",
    "customs",
    "payment",
    "ledger",
    "retry",
    "timeout",
    "index",
    "column",
    "migration",
    "replica",
    "shard",
    "worker",
    "scheduler",
    "webhook",
    "signature",
    "cookie",
    "header",
    "proxy",
    "gateway",
    "router",
    "template",
    "layout",
    "theme",
    "locale",
    "currency",
    "voucher",
    "coupon",
    "receipt",
    "printer",
    "scanner",
    "barcode",
    "supplier",
    "carrier",
]
_VERBS = [
    "needs",
    "must not skip",
    "is checked before",
    "waits for",
    "is written after",
    "breaks without",
    "is kept beside",
]
_SECTIONS = {"Patterns": PATTERN, "Decisions": DECISION, "Fixes": FIX, "Context": CONTEXT}


def with_records(text: str, count: int, now: datetime) -> str:
    """A memories.md with so many entries more, a quarter in each section, in the file's own format."""
    for place, (heading, kind) in enumerate(_SECTIONS.items()):
        blocks = [_block(number, kind, now) for number in range(place, count, len(_SECTIONS))]
        before, found, after = text.partition(f"## {heading}\n")
        assert found, f"memories.md has no section {heading}"
        text = f"{before}{found}\n{''.join(blocks)}{after.lstrip()}"
    return text


def _block(number: int, kind: MemoryKind, now: datetime) -> str:
    one, other = _WORDS[number % len(_WORDS)], _WORDS[(number * 7 + 3) % len(_WORDS)]
    verb, third = _VERBS[number % len(_VERBS)], _WORDS[(number * 13 + 5) % len(_WORDS)]
    made = now - timedelta(days=number % 90, seconds=number)
    said = (
        f"The {one} {verb} the {other} in part {number} of the {third}; see src/{one}/{other}.ts."
    )
    tags = f"{one}, {other}"
    head = f"### mem-{int(made.timestamp())}-{number % 65536:04x}"
    return f"{head}\n> {said}\n<!-- tags: {tags} | created: {made.date().isoformat()} -->\n\n"
