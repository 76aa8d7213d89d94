"""A project with real git in which whole loops are run: the scripted agent, a printer that remembers, no waiting."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tests.support.git import git

from ralph.core import paths
from ralph.core.settings import Config
from ralph.core.work import Ask, JournalEntry, Reply, StopReason
from ralph.loop import loop, run_prompts, run_record
from ralph.loop.agents.scripted import Play
from ralph.loop.printer import LoopPrinter
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.testing import ScriptedAgent, Step

GOAL = "make the cart add up"
CART = "def total(items):\n    return 0\n"
PASSES = Step(read_only=True, say="<verify-pass/>")


@dataclass
class Workshop:
    """One project and its loops."""

    root: Path
    said: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    rests: list[float] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    interrupted: bool = False
    config: Config = field(default_factory=Config)
    agent: ScriptedAgent = field(default_factory=lambda: ScriptedAgent([]))

    def printer(self) -> LoopPrinter:
        def clear_interrupt() -> None:
            self.interrupted = False

        def feedback() -> str:
            return self.answers.pop(0) if self.answers else ""

        return LoopPrinter(
            print_line=self.said.append,
            show=self.shown.append,
            interrupted=lambda: self.interrupted,
            feedback=feedback,
            clear_interrupt=clear_interrupt,
        )

    def start(
        self,
        *steps: Play,
        goal: str = GOAL,
        request: LoopRequest | None = None,
        enforces_read_only: bool = True,
    ) -> Run:
        """A whole loop; without a request of its own, for the goal with no criteria."""
        self.agent = ScriptedAgent(steps, enforces_read_only=enforces_read_only)
        request = request if request is not None else LoopRequest(goal=goal, criteria=("none",))
        return loop.start(
            self.root,
            self.config,
            request,
            self.printer(),
            agent=self.agent,
            sleep=self.rests.append,
        )

    def resume(
        self, *steps: Play, run: str = "", request: LoopRequest | None = None, feedback: str = ""
    ) -> Run:
        """Go on with a run, by default the newest one."""
        self.agent = ScriptedAgent(steps)
        return loop.resume(
            self.root,
            self.config,
            run,
            self.printer(),
            request=request or LoopRequest(),
            feedback=feedback,
            agent=self.agent,
            sleep=self.rests.append,
        )

    def set(self, **loop_settings: object) -> None:
        """Other settings of the loop."""
        self.config = replace(self.config, loop=replace(self.config.loop, **loop_settings))  # type: ignore[arg-type]  # by name, in a test

    def retries(self, number: int) -> None:
        """Another number of retries."""
        self.config = replace(
            self.config, execution=replace(self.config.execution, max_retries=number)
        )

    def journal(self, run: Run) -> tuple[JournalEntry, ...]:
        return run_record.journal_entries(self.root, run.id)

    def outcomes(self, run: Run) -> list[str]:
        return [entry.outcome.value for entry in self.journal(run)]

    def prompt(self, run: Run, iteration: int) -> str:
        return run_prompts.read(self.root, run.id, iteration)

    def put(self, name: str, text: str) -> Path:
        path = paths.source_path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def on_disk(self) -> bytes:
        """Every byte that Ralph keeps, names included."""
        found = [self.root / ".ralph", self.root / ".agent", paths.state_folder(self.root)]
        kept = (path for folder in found for path in sorted(folder.rglob("*")) if path.is_file())
        return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path in kept)

    def log(self, run: Run) -> str:
        return paths.run_log(self.root, run.id).read_text(encoding="utf-8")


@cache
def _repository() -> Path:
    """Make the repository that every project is a copy of, once a process."""
    root = Path(tempfile.mkdtemp(prefix="ralph-repository-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    (root / "cart.py").write_text(CART, encoding="utf-8", newline="")
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def project(root: Path, *, with_git: bool = True) -> Workshop:
    """A new project with one commit."""
    if with_git:
        shutil.copytree(_repository(), root)
    else:
        root.mkdir(parents=True)
        (root / "cart.py").write_text(CART, encoding="utf-8", newline="")
    return Workshop(root)


def done(ask: Ask) -> str:
    """What an agent says when the task of a prompt is done."""
    return f"<task-done>{ask.environment['RALPH_TASK']}</task-done>"


def says_done(text: str = "", write: dict[str, str] | None = None) -> Callable[[Ask], Reply]:
    """A step that writes files and calls its task done."""

    def play(ask: Ask) -> Reply:
        for name, content in (write or {}).items():
            (ask.folder / name).write_text(content, encoding="utf-8", newline="")
        return Reply(f"{text}\n{done(ask)}\n", model="script")

    return play


def ends(stop: StopReason, error: str = "", text: str = "") -> Step:
    """A step that ends in another way."""
    return Step(say=text, stop=stop, error=error)


def texts(asks: Sequence[Ask]) -> list[str]:
    return [ask.prompt for ask in asks]
