"""The parts of a running loop, made of files, an agent, processes and the clock.

One Workbench serves one run. What it is asked by the engine it does at once and on disk; what it remembers itself
can be lost: when it last beat, and how the disk looked. A task that has a worktree is worked on there: the agent, the
criteria and what changed are the worktree's, and so is `root` while the task is at hand. Everything that an agent
said passes redaction before it is written. `tests/app/test_loop.py` runs whole loops with the scripted agent,
`tests/app/test_flow.py` two of them side by side.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.agents import process
from ralph.app import insight, journal, knowledge, loop_prompt, on_record, runs, task, task_file, task_memory
from ralph.app.task_claims import LEASE
from ralph.app.worktrees import worktree
from ralph.capture.privacy import redact
from ralph.errors import RalphError
from ralph.formats.sigils import Sigils, read_sigils
from ralph.loop import changes, criteria, prompt
from ralph.loop.criteria import Criterion, Verdict
from ralph.loop.parts import AgentWork, Judgement, Parts
from ralph.loop.state import Limits, Reason, Run
from ralph.model import ids
from ralph.model.record import Outcome
from ralph.model.work import Agent, Ask, JournalEntry, ProcessResult, Reply, RunStatus, StopReason, Task, TaskStatus
from ralph.settings import Config

BEAT = 10.0
"""Seconds between two heartbeats."""
SLICE = 0.2
CHECKS = "checks"
"""The member of a journal entry that says what was checked: name, passed, output."""
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Teller:
    """Whom the loop speaks to: its own lines, the agent's words, and what a person wants."""

    tell: Callable[[str], None]
    show: Callable[[str], None]
    interrupted: Callable[[], bool]
    feedback: Callable[[], str]
    """What a person says after Ctrl-C; "" to end here."""
    calm: Callable[[], None]
    """Forget the interruption, since a person wants to go on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run was started with; `rest` waits for so many seconds."""

    criteria: tuple[Criterion, ...]
    limits: Limits
    verify: bool
    rest: Callable[[float], None] = time.sleep


class Workbench:
    """Everything one run needs."""

    def __init__(self, root: Path, config: Config, agent: Agent, plan: Plan, teller: Teller, run: Run) -> None:
        self.home = self.root = root
        self.config, self.agent, self.plan, self.teller = config, agent, plan, teller
        self.saved: Run | None = None
        self.run = run
        self._beaten = 0.0
        self._renewed = 0.0
        self.disk = changes.ChangeTracker(root, self._run, run.base)
        self._prompt = self._story = self._head = ""
        self._known: list[task_memory.Knowledge] = []
        self._learned: list[dict[str, str]] = []
        self._first: Verdict | None = None
        self._checks: list[dict[str, object]] = []

    def parts(self) -> Parts:
        """The same, as the engine wants it."""
        able = self.plan.verify and self.agent.reads_only
        return Parts(
            assign=self.assign, begin=self.begin, ask=self.ask, work=self.work, learn=self.learn, check=self.check,
            verify=self.verify if able else None, journal=self.journal, settle=self.settle, save=self.save,
            stop=self.stop, feedback=self.feedback, pause=self.pause, now=ids.timestamp, agent=self.agent.name,
            cooldown=self.config.loop.cooldown_ms / 1000,
        )  # fmt: skip

    # --- tasks ---------------------------------------------------------------------------------

    def go_to(self, name: str, base: str = "") -> None:
        """Work where a task is worked on: in its worktree, else in the project."""
        at = worktree.working_folder(self.home, task_file.find(self.home, name).task) if name else self.home
        if at != self.root:
            self.root, self.disk, self._first = at, changes.ChangeTracker(at, self._run, base), None
            self.teller.tell(f"works in {at}")

    def assign(self, run: Run) -> Task | None:
        """The task at hand, else the next one that can be claimed."""
        settled = {*run.done, *run.failed}
        if run.only:
            waiting = [task_file.find(self.root, name).task for name in run.only if name not in settled]
        elif run.task and run.task not in settled:
            waiting = [task_file.find(self.root, run.task).task]
        else:
            waiting = []
        return self._claimed(run, waiting) or (None if run.only else self._claimed(run, self._ready(run, settled)))

    def _ready(self, run: Run, settled: set[str]) -> list[Task]:
        found = task.ready(self.root)
        wanted = [each for each in found if run.feature in ("", each.feature or "") and each.id not in settled]
        return [each for each in wanted if worktree.problem_of(self.home, each, quick=True) is None]

    def _claimed(self, run: Run, waiting: Sequence[Task]) -> Task | None:
        """The first of these that is to be had."""
        claims = (task.claim(self.root, each.id, task.claim_of(run.id), named=each.id in run.only) for each in waiting)
        return next((each for each in claims if each is not None), None)

    def before(self) -> Verdict:
        """What the criteria say before the first iteration; a marker is for later."""
        self._first = self._checked("")
        return self._first

    def begin(self, run: Run, work: Task) -> Run:
        """Note which criteria fail before the work on a task, at its place."""
        self.go_to(work.id)
        verdict, self._first = self._first or self._checked(""), None
        if verdict.stopped:
            return replace(run, task="", step="")
        self.teller.tell(f"task {work.id}: {work.title}")
        if (kept := task_memory.begin(self.root, work.id)) is not None:
            self.teller.tell(f"its PRD turned to another branch; PRD and progress are kept in {kept}")
        return replace(run, failing=not verdict.passed, base=self.disk.base)

    def settle(self, run: Run, work: Task, judgement: Judgement) -> Run:
        """Done, tried once more, or failed for good."""
        if judgement.outcome is Outcome.DONE:
            after = task.finish(self.root, work.id, TaskStatus.DONE, run=run.id)
            if after.status == TaskStatus.DONE.value:
                self._promote(after)
            return replace(run, done=(*run.done, work.id), task="")
        if not judgement.uses_retry:
            return run
        attempts = task.attempted(
            self.root, work.id, run.id, iteration=run.iterations + 1, note=judgement.reason, patterns=self._patterns
        )
        if attempts <= self.config.execution.max_retries:
            return run
        task.finish(self.root, work.id, TaskStatus.FAILED, run=run.id, note=judgement.reason, patterns=self._patterns)
        self.teller.tell(f"task {work.id} failed after {counted(attempts, 'attempt')}")
        return replace(run, failed=(*run.failed, work.id), task="")

    def _promote(self, work: Task) -> None:
        promotion, why = task_memory.promoted(self.home, work, patterns=self._patterns)
        if promotion is not None and promotion.added:
            self.teller.tell(
                f"promoted {counted(len(promotion.added), 'insight')} of {work.id} to {promotion.path.name}"
            )
        if why:
            self.teller.tell(f"warning: {why}")

    # --- one iteration -------------------------------------------------------------------------

    def ask(self, run: Run, work: Task) -> Ask:
        """The prompt, kept as a snapshot."""
        iteration = run.iterations + 1
        told = [each.label for each in self.plan.criteria]
        text = loop_prompt.text(self.root, self.config, run, work, told, self.plan.limits.max_iterations)
        self._prompt, self._story = text, task_memory.current(self.root, work.id)
        self._known, self._learned = [], []
        runs.keep_snapshot(self.root, run.id, iteration, redact(text, self._patterns).text)
        model = run.next_model or run.model
        self.teller.tell(f"iteration {iteration}: {self.agent.name}{f' ({model})' if model else ''}")
        environment = {"RALPH_RUN": run.id, "RALPH_ITERATION": str(iteration), "RALPH_TASK": work.id}
        return Ask(
            text, self.root, model, timeout=self._time(run), environment=environment,
            show=self.teller.show, stopped=self.now_stopped,
        )  # fmt: skip

    def _time(self, run: Run) -> float:
        """How long an agent may take: what one iteration may, and what is left of the run's time; 0 is no limit."""
        whole, one = self.plan.limits.seconds, self.config.loop.iteration_minutes * 60.0
        left = max(whole - run.seconds, 1.0)
        return min(one, left) if whole > 0 and one > 0 else left if whole > 0 else one

    def work(self, ask: Ask) -> AgentWork:
        """Let the agent work, and see what it changed."""
        before = self.disk.snapshot()
        began = time.monotonic()
        reply = self.agent.run(ask)
        if reply.stop in (StopReason.CANCELLED, StopReason.TIMEOUT):
            process.end_processes(
                process.find_by_variable("RALPH_RUN", self.run.id)
            )  # what the agent put into the background, too
        seconds = time.monotonic() - began
        after = self.disk.snapshot()
        self._head = after.head
        touched = dict.fromkeys((*changes.changed_files(before, after), *reply.files))
        said = read_sigils(reply.text, echo=ask.prompt)
        return AgentWork(reply, said, seconds, tuple(sorted(touched)), after.fingerprint)

    def learn(self, run: Run, work: Task, worked: AgentWork) -> None:
        """Keep the knowledge; one entry that cannot be kept never costs the others."""
        learned = knowledge.learn(
            self.root, worked.sigils.knowledge, feature=work.feature or "", run=run.id, patterns=self._patterns
        )
        both = zip(worked.sigils.knowledge, learned, strict=True)
        self._known = [task_memory.Knowledge(each.title, each.text, done.slug) for each, done in both if done.slug]
        self._learned = on_record.known([(each.slug, each.change) for each in learned])
        for each in learned:
            self.teller.tell(f"knowledge {each.change.value}: {each.title}{f' ({each.why})' if each.why else ''}")
        for name in (*worked.sigils.done, *worked.sigils.failed):
            if name and name != work.id:
                self.teller.tell(f"warning: the agent speaks of {name}, which is not the assigned task")

    def check(self, worked: AgentWork) -> Verdict:
        """The criteria, with one line for each."""
        verdict = self._checked(worked.reply.text)
        self._checks = [_noted(each.criterion.label, each.passed, each.message, each.tail) for each in verdict.checks]
        for each in verdict.checks:
            self.teller.tell(f"  {'ok' if each.passed else 'no'}  {each.criterion.label}: {each.message}")
        return verdict

    def verify(self, run: Run, work: Task, worked: AgentWork) -> str | None:
        """A second, read-only session looks at the work; why it is not done, or ""; None when it was stopped."""
        told = "\n".join(f"- {file}" for file in worked.files) or "(none that could be seen)"
        text = prompt.VERIFY.format(task=prompt.render_task(work), files=told)
        before = self.disk.snapshot()
        reply = self.agent.run(
            Ask(
                text,
                self.root,
                run.model,
                read_only=True,
                timeout=self.config.loop.iteration_minutes * 60.0,
                environment={"RALPH_DISABLE": "1", "RALPH_RUN": run.id},
                show=self.teller.show,
                stopped=self.now_stopped,
            )
        )
        if self.disk.snapshot().fingerprint != before.fingerprint:
            self.teller.tell("warning: files changed while the work was being verified")
        if reply.stop is StopReason.CANCELLED:
            return None
        said = read_sigils(reply.text)
        doubt = _doubt(reply, said)
        self.teller.tell(f"  no  verification: {doubt}" if doubt else "  ok  verification")
        self._checks.append(_noted("verification", not doubt, doubt))
        return f"The verification did not agree: {doubt}" if doubt else ""

    def journal(self, entry: JournalEntry) -> None:
        """One entry an iteration, with what was checked, and what the task remembers of it."""
        noted, self._checks = {CHECKS: self._checks, on_record.KNOWN: self._learned}, []
        entry = replace(entry, extra={**entry.extra, **{name: held for name, held in noted.items() if held}})
        journal.append(self.root, entry, self._patterns)
        self._remember(entry)
        cost = f", ${entry.cost:.4f}" if entry.cost else ""
        files = f", {counted(len(entry.files), 'file')}" if entry.files else ""
        self.teller.tell(f"iteration {entry.iteration}: {entry.outcome} ({entry.duration:.1f} s{cost}{files})")

    def _remember(self, entry: JournalEntry) -> None:
        """The task's progress, insights and (in a worktree) AGENTS.md; that failing is no reason to end the run."""
        try:
            new = task_memory.append(
                self.root, entry, self._known, story=self._story, patterns=self._patterns
            )  # fmt: skip
            if self.root != self.home:
                worktree.record_learnings(self.root, new)
                worktree.note_commit(self.root, task_file.find(self.root, entry.task).task, self._head)
            insight.extract(
                self.root, entry.task, run=entry.run, iteration=entry.iteration, patterns=self._patterns
            )  # fmt: skip
        except RalphError as error:
            self.teller.tell(f"warning: the memory of {entry.task} is not complete: {error.message}")

    def save(self, run: Run) -> Run:
        """The state after a step, and at the end the run record; what was said by anybody is redacted first."""
        run = self._clean(run)
        if run.status is not RunStatus.RUNNING:
            runs.conclude(self.root, run)  # first: a run that is killed here is not ended yet, and will be concluded
        self.saved = self.run = runs.save(self.root, self.saved, run, durable=not run.step)
        self.beat()
        return run

    def _clean(self, run: Run) -> Run:
        """The run without secrets in the words that may be new in it."""
        known = {self.run.failure, self.run.feedback, self.run.words, self.run.next_model}

        def clean(text: str) -> str:
            return text if text in known else redact(text, self._patterns).text

        return replace(
            run, failure=clean(run.failure), feedback=clean(run.feedback), words=clean(run.words),
            next_model=clean(run.next_model),
        )  # fmt: skip

    # --- people and time -----------------------------------------------------------------------

    def stop(self) -> Reason | None:
        """Whether somebody wants the run to end."""
        if self.teller.interrupted():
            return Reason.INTERRUPTED
        return Reason.STOPPED if runs.stop_asked(self.root, self.run.id) else None

    def now_stopped(self) -> bool:
        """Whether somebody wants it to end at once; asked about once a second, so the heart beats here."""
        self.beat()
        return self.teller.interrupted() or runs.stop_asked(self.root, self.run.id) == "now"

    def feedback(self, run: Run) -> Run | None:
        """What a person says after Ctrl-C."""
        if not self.teller.interrupted():
            return None
        said = self.teller.feedback().strip()
        if not said:
            return None
        self.teller.calm()
        return replace(run, feedback=redact(said, self._patterns).text)

    def pause(self, seconds: float) -> None:
        """Wait, unless somebody wants to stop."""
        while seconds > 0 and self.stop() is None:
            self.plan.rest(min(SLICE, seconds))
            seconds -= SLICE
            self.beat()

    def beat(self) -> None:
        """Say now and then that the run lives, and keep its claim; that failing is no reason to end an agent."""
        now = time.monotonic()
        if now - self._beaten >= BEAT or not self._beaten:
            self._beaten = now
            with suppress(RalphError):
                runs.beat(self.root, self.run)
        if self.run.task and now - self._renewed > LEASE / 6:
            self._renewed = now
            with suppress(RalphError):
                task.renew(self.root, self.run.task, self.run.id)

    # --- processes -----------------------------------------------------------------------------

    def _checked(self, text: str) -> Verdict:
        return criteria.check(
            self.plan.criteria, folder=self.root, run=self._run, text=text, echo=self._prompt,
            timeout=float(self.config.loop.check_seconds), stopped=self.now_stopped,
        )  # fmt: skip

    def _run(
        self, argv: Sequence[str], *, cwd: Path, timeout: float, stopped: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> ProcessResult:  # fmt: skip
        return process.run(argv, cwd=cwd, timeout=timeout, stopped=stopped, env=env)

    @property
    def _patterns(self) -> tuple[str, ...]:
        return self.config.privacy.patterns


def _noted(name: str, passed: bool, words: str, tail: str = "") -> dict[str, object]:
    """What came of a check, as the journal keeps it; of what a command printed, the end."""
    output = words if passed or not tail else f"{words}\n{tail[-_TAIL:]}"
    return {"name": name, "passed": passed, "output": output}


def _doubt(reply: Reply, said: Sigils) -> str:
    """Why a verifier does not agree; only its verify sigils count."""
    if said.verified is True:
        return ""
    if said.verified is False:
        return said.reason or "it gave no reason"
    return f"it gave no verdict{f' ({reply.error})' if reply.error else ''}"


def counted(number: int, noun: str) -> str:
    """A number of things: 1 file, 2 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
