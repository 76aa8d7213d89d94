"""Payloads as a day of work makes them: shell output, diffs, tracebacks, logs, edits and prompts; no secrets.

They measure how often the screen sends an event to the full path without need. Written by hand and from
memory of the tools, not by looking at the rules.
"""

import json
import random

_random = random.Random(7)
SESSION = "3f0c9a4e-7b1d-4c2a-9e58-1a2b3c4d5e6f"


def _hex(length: int) -> str:
    return "".join(_random.choice("0123456789abcdef") for _ in range(length))


def _uuid() -> str:
    return "-".join(_hex(length) for length in (8, 4, 4, 4, 12))


SHELL: list[tuple[str, str]] = [
    ("git status", "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit"),
    ("git log --oneline -5", "\n".join(f"{_hex(7)} Fix the parser for empty lines" for _ in range(5))),
    ("git log -2", "\n\n".join(f"commit {_hex(40)}\nAuthor: Ann Lee <ann@example.com>\nDate:   Mon May 6 10:12:33 2026 +0200\n\n    Author keys in tests" for _ in range(2))),
    ("git diff", "diff --git a/src/app.py b/src/app.py\nindex 83db48f..bf2a1c0 100644\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1,4 +1,5 @@\n import os\n+import sys\n \n def main():\n-    pass\n+    return 0"),
    ("git push", "Enumerating objects: 5, done.\nTo github.com:acme/shop.git\n   83db48f..bf2a1c0  main -> main"),
    ("git clone https://github.com/acme/shop.git", "Cloning into 'shop'...\nremote: Enumerating objects: 1200, done."),
    ("git remote -v", "origin\tgit@github.com:acme/shop.git (fetch)\norigin\tgit@github.com:acme/shop.git (push)"),
    ("git branch -a", "* main\n  feature/auth-flow\n  remotes/origin/HEAD -> origin/main"),
    ("git stash list", "stash@{0}: WIP on main: 83db48f Add tests"),
    ("git blame README.md", f"^{_hex(7)} (Ann Lee 2026-01-02 11:12:13 +0100 1) # Shop"),
    ("pytest -q", "........................................ [100%]\n40 passed in 2.31s"),
    ("pytest tests/test_auth.py", "tests/test_auth.py::test_login_rejects_wrong_password PASSED\ntests/test_auth.py::test_token_expires PASSED\n2 passed in 0.12s"),
    ("pytest -x", "E   AssertionError: assert 3 == 4\n\ntests/test_math.py:12: AssertionError\nFAILED tests/test_math.py::test_add\n1 failed, 11 passed in 0.40s"),
    ("npm test", "PASS src/app.test.ts\nPASS src/auth/session.test.ts\n\nTests: 24 passed, 24 total\nTime: 3.2 s"),
    ("npm install", "added 312 packages, and audited 313 packages in 9s\n\n45 packages are looking for funding\nfound 0 vulnerabilities"),
    ("npm run build", "vite v5.2.0 building for production...\ndist/assets/index-BfA3k9Zq.js   143.21 kB\n✓ built in 1.20s"),
    ("npm ls", "shop@1.2.0 /home/user/proj\n├── express@4.19.2\n└── typescript@5.4.5"),
    ("npx tsc --noEmit", "src/index.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'."),
    ("npx eslint .", "/home/user/proj/src/a.js\n  3:1  error  Unexpected var, use let or const instead  no-var\n\n1 problem"),
    ("cargo test", "running 12 tests\ntest parser::tests::empty ... ok\n\ntest result: ok. 12 passed; 0 failed; 0 ignored"),
    ("cargo build", "   Compiling serde v1.0.203\n   Compiling shop v0.1.0 (/home/user/proj)\n    Finished dev [unoptimized + debuginfo] target(s) in 4.21s"),
    ("go test ./...", "ok  \tgithub.com/acme/shop/internal/cart\t0.012s\nok  \tgithub.com/acme/shop/cmd\t(cached)"),
    ("go build ./...", "internal/cart/cart.go:14:2: undefined: Total"),
    ("make", "cc -O2 -Wall -c main.c -o main.o\ncc main.o -o main"),
    ("ls -la", "total 24\ndrwxr-xr-x  5 user user 4096 Nov 15 10:00 .\n-rw-r--r--  1 user user  220 Nov 15 10:00 package.json"),
    ("ls node_modules | head", "accepts\narray-flatten\nbody-parser\nbytes\ncookie-signature\nkeyv\njs-tokens"),
    ("find . -name '*.py'", "./src/app.py\n./src/keyboard.py\n./tests/test_app.py"),
    ("grep -rn TODO src", "src/app.py:14:    # TODO: handle empty carts\nsrc/db.py:90:    # TODO: retry"),
    ("rg 'def main'", "src/app.py\n3:def main() -> None:"),
    ("wc -l src/*.py", "  120 src/app.py\n   80 src/db.py\n  200 total"),
    ("cat package.json", '{\n  "name": "shop",\n  "version": "1.2.0",\n  "keywords": ["cart", "shop"],\n  "scripts": {"test": "jest"}\n}'),
    ("head -3 package-lock.json", '{\n  "name": "shop",\n  "lockfileVersion": 3,'),
    ("grep integrity package-lock.json | head -2", '      "integrity": "sha512-' + "Zm9vYmFyYmF6cXV4" * 5 + '==",'),
    ("docker ps", f"CONTAINER ID   IMAGE         COMMAND                  STATUS        PORTS\n{_hex(12)}   postgres:16   \"docker-entrypoint.s…\"   Up 2 hours    5432/tcp"),
    ("docker build .", f"#5 [2/4] WORKDIR /app\n#5 CACHED\n#8 writing image sha256:{_hex(64)} done"),
    ("docker compose up -d", "[+] Running 2/2\n ✔ Container shop-db-1   Started\n ✔ Container shop-web-1  Started"),
    ("kubectl get pods", "NAME                    READY   STATUS    RESTARTS   AGE\nweb-6d4cf56db6-x2x8k    1/1     Running   0          3d"),
    ("kubectl logs web", "2026-11-15T10:00:01Z INFO  request_id=" + _uuid() + " path=/cart status=200 ms=12"),
    ("terraform plan", "Plan: 1 to add, 0 to change, 0 to destroy."),
    ("curl -s http://localhost:8080/health", '{"status":"ok","uptime":1234}'),
    ("curl -sI https://example.com", "HTTP/2 200\ncontent-type: text/html\netag: \"" + _hex(32) + "\"\ncache-control: max-age=604800"),
    ("python -c 'print(1)'", "1"),
    ("python app.py", 'Traceback (most recent call last):\n  File "/home/user/proj/app.py", line 3, in <module>\n    main()\n  File "/home/user/proj/app.py", line 2, in main\n    raise KeyError("cart")\nKeyError: \'cart\''),
    ("python manage.py migrate", "Operations to perform:\n  Apply all migrations: admin, auth, sessions\nRunning migrations:\n  Applying auth.0001_initial... OK"),
    ("node index.js", "TypeError: Cannot read properties of undefined (reading 'map')\n    at render (/home/user/proj/src/view.js:10:18)\n    at Object.<anonymous> (/home/user/proj/index.js:3:1)"),
    ("java -jar app.jar", "Exception in thread \"main\" java.lang.NullPointerException\n\tat com.acme.shop.Cart.total(Cart.java:42)"),
    ("mvn -q test", "[INFO] Tests run: 14, Failures: 0, Errors: 0, Skipped: 0"),
    ("gradle test", "> Task :test\n\nBUILD SUCCESSFUL in 3s\n4 actionable tasks: 1 executed, 3 up-to-date"),
    ("ruff check .", "All checks passed!"),
    ("ruff check src", "src/app.py:1:8: F401 [*] `os` imported but unused\nFound 1 error."),
    ("mypy src", "src/app.py:12: error: Incompatible return value type (got \"str\", expected \"int\")  [return-value]\nFound 1 error in 1 file"),
    ("black .", "reformatted src/app.py\n\nAll done!\n1 file reformatted, 12 files left unchanged."),
    ("sha256sum dist/*", f"{_hex(64)}  dist/shop-1.2.0.tar.gz\n{_hex(64)}  dist/shop-1.2.0-py3-none-any.whl"),
    ("md5sum a b", f"{_hex(32)}  a\n{_hex(32)}  b"),
    ("uuidgen", _uuid()),
    ("df -h", "Filesystem      Size  Used Avail Use% Mounted on\n/dev/vda1        40G   12G   26G  32% /"),
    ("ps aux | head -2", "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\nroot           1  0.0  0.1 168000 12000 ?        Ss   10:00   0:01 /sbin/init"),
    ("top -b -n1 | head -3", "top - 10:00:00 up 3 days,  1 user,  load average: 0.10, 0.20, 0.15"),
    ("echo $PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("which python", "/home/user/.pyenv/shims/python"),
    ("uname -a", "Linux box 6.8.0-31-generic #31-Ubuntu SMP x86_64 GNU/Linux"),
    ("psql -c 'select 1'", " ?column? \n----------\n        1\n(1 row)"),
    ("psql -c '\\d users'", " id         | uuid                     | not null\n name       | text                     |\nIndexes:\n    \"users_pkey\" PRIMARY KEY, btree (id)"),
    ("sqlite3 shop.db .schema", "CREATE TABLE carts (id INTEGER PRIMARY KEY, owner TEXT, FOREIGN KEY (owner) REFERENCES users(id));"),
    ("redis-server --version", "Redis server v=7.2.4 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"),
    ("aws s3 ls", "2026-05-01 10:00:00 acme-assets\n2026-05-01 10:00:00 acme-logs"),
    ("gh pr list", "#42  Add retries to the client  feature/retries  about 2 days ago"),
    ("gh run list", "completed  success  CI  main  push  1234567890  2m3s"),
    ("ssh -V", "OpenSSH_9.6p1 Ubuntu-3ubuntu13, OpenSSL 3.0.13 30 Jan 2024"),
    ("tail -2 app.log", "2026-11-15 10:00:00,123 INFO  [http-nio-8080-exec-1] c.a.shop.CartController - cart 42 loaded in 12 ms\n2026-11-15 10:00:01,456 WARN  retrying in 200 ms (attempt 2 of 3)"),
    ("journalctl -n 2", "Nov 15 10:00:00 box systemd[1]: Started Session 42 of User user.\nNov 15 10:00:01 box kernel: eth0: link up"),
    ("cat .gitignore", "node_modules/\n.env\n*.pem\ndist/"),
    ("cat Dockerfile", "FROM python:3.12-slim\nWORKDIR /app\nCOPY . .\nRUN pip install -r requirements.txt\nCMD [\"python\", \"app.py\"]"),
    ("cat requirements.txt", "flask==3.0.3\nrequests==2.32.3\ntokenizers==0.19.1\npasslib==1.7.4"),
    ("pip install -r requirements.txt", "Collecting flask==3.0.3\n  Using cached flask-3.0.3-py3-none-any.whl (101 kB)\nSuccessfully installed flask-3.0.3"),
    ("pip list | head -3", "Package    Version\n---------- -------\nclick      8.1.7"),
    ("coverage report", "Name            Stmts   Miss  Cover\nsrc/app.py         40      2    95%\nTOTAL             140      6    96%"),
    ("npm audit", "# npm audit report\n\nbraces  <3.0.3\nSeverity: high\nfix available via `npm audit fix`"),
    ("jq . data.json", '{\n  "id": 42,\n  "total": 19.9,\n  "items": [{"sku": "A-100", "count": 2}]\n}'),
    ("tree -L 1", ".\n├── README.md\n├── src\n└── tests"),
    ("ls --color src", "\x1b[0m\x1b[01;34mcart\x1b[0m  \x1b[01;32mrun.sh\x1b[0m"),
    ("jest --colors", "\x1b[32m✓\x1b[39m adds an item \x1b[2m(3 ms)\x1b[22m"),
    ("echo 안녕하세요", "안녕하세요, 테스트가 모두 통과했습니다."),
    ("cat notes.txt", "会議は10時から。資料はREADMEを参照してください。"),
]  # fmt: skip

EDITS: list[tuple[str, str, str]] = [
    ("src/cart.py", "    return sum(prices)", "    return round(sum(prices), 2)"),
    ("src/cart.ts", "export function total(items: Item[]): number {", "export function total(items: readonly Item[]): number {"),
    ("src/Cart.java", "    private int count;\n    public int getCount() {", "    private long count;\n    private final Map<String, Item> items = new HashMap<>();\n    public long getCount() {"),
    ("src/auth.ts", "const user = await getUser(id);", "const user = await getUser(id);\nif (!user) throw new AuthError('unknown user');"),
    ("src/session.py", "def refresh(token):\n    return token", "def refresh(token: str) -> str:\n    \"\"\"A new token for an old one.\"\"\"\n    return sign(token)"),
    ("src/keys.go", "for key := range m {", "for key, value := range m {\n\tfmt.Println(key, value)"),
    ("src/lib.rs", "pub fn parse(input: &str) -> Result<Token> {", "pub fn parse(input: &str) -> Result<Vec<Token>> {"),
    ("index.html", "<h1>Shop</h1>", "<h1 class=\"title\">Shop</h1>\n<p>Welcome back.</p>"),
    ("style.css", ".card { padding: 8px; }", ".card { padding: 12px; color: #1f2937; }"),
    ("ci.yml", "on: push", "on:\n  push:\n    branches: [main]\njobs:\n  test:\n    runs-on: ubuntu-latest"),
    ("README.md", "## Install", "## Install\n\n```sh\npip install shop\n```\n\nSee [the docs](https://example.com/docs)."),
    ("schema.sql", "id INTEGER", "id INTEGER PRIMARY KEY,\nname TEXT NOT NULL,\ncreated_at TIMESTAMP DEFAULT now()"),
    ("tests/test_cart.py", "assert total([]) == 0", "assert total([]) == 0\nassert total([1.1, 2.2]) == pytest.approx(3.3)"),
    ("src/api.py", "return {}", "return {\"id\": item.id, \"name\": item.name, \"price\": str(item.price)}"),
    ("src/config.py", "DEBUG = False", "DEBUG = os.environ.get(\"DEBUG\") == \"1\"\nTIMEOUT = 30"),
    ("src/reducer.js", "case 'ADD':", "case 'ADD':\n      return { ...state, items: [...state.items, action.item] };"),
]  # fmt: skip

PROMPTS = [
    "fix the failing test in tests/test_cart.py", "why does the login page flicker?", "add a retry to the http client",
    "modify auth.ts so that sessions expire after 30 minutes", "review this diff and tell me what could break",
    "make the tests pass", "explain how the tokenizer works", "rename the key of the cache to include the locale",
    "write docs for the config file", "업데이트된 API에 맞게 클라이언트를 고쳐줘", "what does `git rebase --onto` do?",
    "the build fails with exit code 2, see the log above",
]  # fmt: skip


def _payload(**members: object) -> bytes:
    first = {
        "session_id": SESSION,
        "transcript_path": f"/home/user/.claude/projects/-home-user-proj/{SESSION}.jsonl",
        "cwd": "/home/user/proj",
        "permission_mode": "default",
    }
    last = {
        "tool_use_id": "toolu_01"
        + "".join(_random.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijk123456789") for _ in range(22))
    }
    return json.dumps(
        {**first, **members, **last}, ensure_ascii=False, separators=(",", ":")
    ).encode()


def payloads() -> list[bytes]:
    """All of them."""
    made = [
        _payload(
            hook_event_name="PostToolUse",
            tool_name="Bash",
            tool_input={"command": command, "description": "Run it"},
            tool_response={"stdout": output, "stderr": "", "interrupted": False, "isImage": False},
        )
        for command, output in SHELL
    ]
    made += [
        _payload(
            hook_event_name="PostToolUse",
            tool_name="Edit",
            tool_input={
                "file_path": f"/home/user/proj/{path}",
                "old_string": old,
                "new_string": new,
            },
            tool_response={
                "filePath": f"/home/user/proj/{path}",
                "oldString": old,
                "newString": new,
                "userModified": False,
            },
        )
        for path, old, new in EDITS
    ]
    return made + [
        _payload(hook_event_name="UserPromptSubmit", prompt=prompt) for prompt in PROMPTS
    ]
