"""`make demo`: Ralph's main job, end to end, on a sample project in a temporary folder.

Every line that begins with `$` is a real command, run as a user would run it; what follows is
what it printed. Nothing outside the temporary folder is touched, no key and no network is used.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

FAKE_TOKEN = "ghp_" + "q7Rk2mXc9Lw4Tz8VbN3e" + "Y6uHs1Jd5fPa0GiQ"
"""Made up; it only has the shape of a token."""


class Demo:
    """Runs commands in one folder and shows them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        self.project = folder / "shop"
        self.project.mkdir()
        self.environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1"}

    def say(self, words: str) -> None:
        """A heading."""
        sys.stdout.write(f"\n=== {words}\n")

    def ralph(self, line: str, *, given: str | None = None, expect: int = 0) -> str:
        """Run `ralph LINE`, show both, and insist on the exit code."""
        shown = f"$ ralph {line}" + (f"   <<< {given!r}" if given is not None else "")
        done = subprocess.run(
            [sys.executable, "-m", "ralph", *shlex.split(line)],
            cwd=self.project, env=self.environment, input=given, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        sys.stdout.write(f"{shown}\n{done.stdout}{done.stderr}")
        if done.returncode != expect:
            raise SystemExit(f"the demo failed: exit {done.returncode}, expected {expect}")
        if expect:
            sys.stdout.write(f"(exit {done.returncode}, as it should)\n")
        return done.stdout

    def memories(self) -> Path:
        """The file that all this is about."""
        return self.project / ".agent" / "memories.md"


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory(prefix="ralph-demo-") as folder:
        demo = Demo(Path(folder).resolve())
        learn(demo)
        find(demo)
        edit_by_hand(demo)
        hand_over(demo)
        protect(demo)
        demo.say("Done: plain files, in your repository, found again within budget.")


def learn(demo: Demo) -> None:
    """One memory of each type, one guardrail."""
    demo.say("A new project: make it remember")
    demo.ralph("init")
    demo.say("One memory of each type")
    demo.ralph('memory add "Uses barrel exports in each module" --tags style,modules')
    demo.ralph('memory add "Chose Zod over Yup for run-time speed" -t decision --tags validation')
    demo.ralph(
        "memory add - -t fix --tags docker,dev", given="ECONNREFUSED on 5432: run `docker compose up -d db` first"
    )
    demo.ralph('memory add "결제 서비스의 인증은 services/auth 에 있다" -t context --tags auth')
    demo.ralph('guardrails add "npm test fails: run npm run build first" --tags build,test')
    demo.ralph('memory add "uses barrel exports in each module."')


def find(demo: Demo) -> None:
    """Search forgives."""
    demo.say("Search: any order, word forms, typos, Korean")
    demo.ralph('memory search "exporting modules"')
    demo.ralph('memory search "conection docker"')
    demo.ralph('memory search "인증"')
    demo.ralph('memory search "kubernetes" --format json')


def edit_by_hand(demo: Demo) -> None:
    """The file belongs to people."""
    demo.say("A person edits the file by hand; Ralph keeps every byte of it")
    path = demo.memories()
    text = path.read_text(encoding="utf-8")
    mine = "<!-- reviewed by Mina -->\n\n### mem-1705751400-a3f8\n> Main API is in /services/core\n"
    path.write_text(text.replace("## Context\n", f"## Context\n\n{mine}"), encoding="utf-8", newline="")
    sys.stdout.write("(added by hand: a comment and the memory mem-1705751400-a3f8, without metadata)\n")
    demo.ralph("memory show mem-1705751400-a3f8")
    demo.ralph("memory edit mem-1705751400-a3f8 --tags api,layout")
    if "<!-- reviewed by Mina -->" not in path.read_text(encoding="utf-8"):
        raise SystemExit("the demo failed: a person's comment is gone")


def hand_over(demo: Demo) -> None:
    """What an agent gets."""
    demo.say("What an agent gets: everything, or what fits a budget of 150 tokens")
    demo.ralph("memory prime")
    demo.ralph("memory prime --budget 150")


def protect(demo: Demo) -> None:
    """Secrets and private parts stay out; the doctor looks after the files."""
    demo.say("Private parts and secrets never reach the disk")
    demo.ralph("memory add -", given=f"Deploy with GITHUB_TOKEN={FAKE_TOKEN}", expect=1)
    demo.ralph("memory add - -t context", given="Staging is rebuilt at night <private>by Jo, 555-0100</private>")
    everything = b"".join(path.read_bytes() for path in demo.project.rglob("*") if path.is_file())
    if FAKE_TOKEN.encode() in everything or b"555-0100" in everything:
        raise SystemExit("the demo failed: something private is on disk")
    demo.say("Where does a learning belong, and is everything in order?")
    demo.ralph("where error")
    demo.ralph("doctor --secrets")


if __name__ == "__main__":
    main()
