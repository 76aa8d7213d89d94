"""`make demo`: Ralph's main job, end to end, on sample projects in a temporary folder.

A line that begins with `$` is a real command, run as a user would run it; what follows is what it printed.
First a loop: a scripted agent works on a failing test until it passes, and learns; a second run starts with what
the first one learned. Then everyday sessions: a line that begins with `>` is what a scripted agent does, which stands
in for Claude Code: for each event it starts what `ralph install claude` wrote into the settings, with the JSON
that Claude Code sends, in a clean environment. A line that begins with `|` is what was handed over. No key, no
network, and nothing outside of the temporary folder is touched; that folder is shown as /home/ann.
"""

import tempfile
from pathlib import Path
from statistics import median

from examples import loop
from examples.stage import SETTINGS, Agent, Demo

FAKE_TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
SIGNED = 'return jwt.sign({ sub: user.id }, process.env.JWT_KEY, { expiresIn: "15m" });'
KEYED = 'return jwt.sign({ sub: user.id }, keys.current(), { expiresIn: "15m" });'
FIX = "ECONNREFUSED on 5432: run `docker compose up -d db` first"
BROKEN = "FAIL tests/auth.test.ts\n  JsonWebTokenError: secretOrPrivateKey must have a value\n\n1 failed, 11 passed"


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory(prefix="ralph-demo-") as folder:
        demo = Demo(Path(folder).resolve())
        loop.until_it_works(demo)
        loop.once_more(demo)
        install(demo)
        work_on_auth(demo)
        look_back(demo)
        learn(demo)
        modify_auth(demo)
        keep_private(demo)
        find(demo)
        edit_by_hand(demo)
        take_out(demo)
        demo.say("Done: worked until it was done, recorded, remembered and handed over, in plain files.")


def install(demo: Demo) -> None:
    """A project that remembers, and an agent with hooks."""
    demo.say("A project that remembers, and an agent with Ralph's hooks")
    demo.ralph("init")
    demo.ralph("install claude")


def work_on_auth(demo: Demo) -> None:
    """The first session: a change, a failing test, its fix."""
    demo.say("Session 1: login with a token; a test fails and is mended; a tool prints a secret")
    agent = Agent(demo, "3f2a91c4-0000-4000-8000-000000000001")
    agent.start()
    agent.asked("Let login in src/auth.ts return a JWT <private>for Mina, 555-0100</private>")
    agent.edit("return sessions.open(user.id);", SIGNED)
    agent.shell("npm test", BROKEN, code=1)
    agent.edit(SIGNED, KEYED)
    agent.shell("npm test", "PASS tests/auth.test.ts\n\n12 passed")
    agent.shell("npm run preview", f"GITHUB_TOKEN={FAKE_TOKEN}\npreview is up")
    agent.stop("login in src/auth.ts signs a JWT that lives 15 minutes; the key comes from keys.current().")


def look_back(demo: Demo) -> None:
    """What is left of it."""
    demo.say("What was recorded, and what it comes to; no model was asked")
    demo.ralph("session list")
    demo.ralph("session show --layer 2 --limit 4")
    demo.ralph("session summary")


def learn(demo: Demo) -> None:
    """What somebody decides to keep."""
    demo.say("What somebody decides to keep: memories, in a file that git keeps")
    demo.ralph(
        'memory add "Never read JWT_KEY from the environment in src/auth.ts: keys rotate, ask keys.current()" '
        "-t decision --tags auth,jwt"
    )
    demo.ralph('memory add "결제 서비스의 인증은 services/auth 에 있다" -t context --tags auth')
    demo.ralph('guardrails add "npm test fails: run npm run build first" --tags build,test')
    demo.ralph('context "modify auth.ts" --explain')


def modify_auth(demo: Demo) -> None:
    """The second session: what it is handed, and when."""
    demo.say("Session 2: the same file again; nobody explains anything twice")
    agent = Agent(demo, "b7705d1e-0000-4000-8000-000000000002")
    brief = agent.start()
    demo.insist("npm run build" in brief and "keys.current()" in brief, "the brief lacks what was learned")
    told = agent.asked("modify auth.ts")
    demo.insist("expiresIn" in told, "the prompt was not answered with what was done to auth.ts")
    agent.edit('expiresIn: "15m"', 'expiresIn: "5m"')
    demo.show("(meanwhile, in another terminal:)\n")
    demo.ralph("memory add - -t fix --tags docker,dev", given=FIX)
    demo.ralph('memory search "5432"')
    known = agent.shell("npm run migrate", "Error: connect ECONNREFUSED 127.0.0.1:5432", code=1)
    demo.insist("docker compose up -d db" in known, "the known fix was not told at the failure")
    agent.shell("docker compose up -d db", "Container shop-db-1  Started")
    agent.stop("Tokens live 5 minutes now; the key still comes from keys.current().")
    demo.show(f"({len(demo.took)} calls of hooks so far; the median took {median(demo.took) * 1000:.0f} ms)\n")
    demo.ralph("status --usage")


def keep_private(demo: Demo) -> None:
    """Secrets and private parts are nowhere on the disk."""
    demo.say("The secret of the tool and the private words of the prompt are nowhere")
    everything = [path for path in demo.home.rglob("*") if path.is_file()]
    held = b"".join(path.read_bytes() for path in everything)
    demo.insist(b"GITHUB_TOKEN" in held, "the event with the secret was not recorded at all")
    demo.insist(FAKE_TOKEN.encode() not in held and b"555-0100" not in held, "something private is on disk")
    demo.show(f"(looked through every byte of {len(everything)} files: neither is there)\n")
    demo.ralph('search --layer 3 --limit 1 "npm run preview"')
    demo.ralph("memory add -", given=f"Deploy with GITHUB_TOKEN={FAKE_TOKEN}", expect=1)


def find(demo: Demo) -> None:
    """Search forgives, and knows several languages."""
    demo.say("Search: what happened and what was learned; word forms, typos, Korean")
    demo.ralph('search --layer 2 --limit 1 "expiring tokens"')
    demo.ralph('search "인증"')
    demo.ralph('memory search "conection docker"')
    demo.ralph('search "kubernetes" --format json')


def edit_by_hand(demo: Demo) -> None:
    """The file belongs to people."""
    demo.say("A person edits the file by hand; Ralph keeps every byte of it")
    path = demo.project / ".agent" / "memories.md"
    text = path.read_text(encoding="utf-8")
    mine = "<!-- reviewed by Mina -->\n\n### mem-1705751400-a3f8\n> Main API is in /services/core\n"
    path.write_text(text.replace("## Context\n", f"## Context\n\n{mine}"), encoding="utf-8", newline="")
    demo.show("(added by hand: a comment and the memory mem-1705751400-a3f8, without metadata)\n")
    demo.ralph("memory edit mem-1705751400-a3f8 --tags api,layout")
    demo.insist("<!-- reviewed by Mina -->" in path.read_text(encoding="utf-8"), "a person's comment is gone")
    demo.ralph("memory prime --budget 160")


def take_out(demo: Demo) -> None:
    """Everything is in order, and goes without a trace."""
    demo.say("Everything in order? And out again")
    demo.ralph("status")
    demo.ralph("doctor --secrets")
    demo.ralph("uninstall claude")
    demo.insist(demo.settings.read_text(encoding="utf-8") == SETTINGS, "the settings are not as they were")
    demo.show("(the settings are what they were, byte for byte; memories and logs stay)\n")


if __name__ == "__main__":
    main()
